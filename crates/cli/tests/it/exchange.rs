//! Import of other programs' files, export, and what is made from the command line's definitions.

use crate::support::files::{Csv, Scratch};
use crate::support::{BIN, Line, Proc, netcaliper, skip};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// A sample without its first line, which says where it comes from.
fn cut(scratch: &Scratch, name: &str) -> PathBuf {
    let text = std::fs::read_to_string(sample(name)).unwrap();
    scratch.with(&name.replace('/', "-"), text.split_once('\n').unwrap().1)
}

#[test]
fn other_programs_runs_are_kept_compared_and_exported() {
    let scratch = Scratch::new();
    let store = scratch.file("runs.sqlite");
    let at = |line: Line| line.env("NETCALIPER_STORE", &store);
    let names = [
        "protocols/iperf3/src/compat/import/iperf3-tcp.json.txt",
        "protocols/iperf3/src/compat/import/iperf3-bidir.json.txt",
        "compat/src/import/irtt.json.txt",
        "compat/src/import/flent.json.txt",
        "protocols/ntttcp/src/compat/sample.xml.txt",
    ];
    let files: Vec<PathBuf> = names.iter().map(|name| cut(&scratch, name)).collect();
    let line = files.iter().fold(at(netcaliper("import")), |line, file| line.arg(file));
    line.run().exits(0).prints(&[
        "saved as run 1: tcp of iperf 3.12",
        "run 3: ping of irtt 0.9.0",
        "flent 2.1.1",
        "ntttcp",
    ]);
    at(netcaliper("history")).run().exits(0).prints(&["ping (irtt), imported", "tcp (iperf3), imported"]);
    at(netcaliper("compare")).args("1 2").run().exits(0).prints(&["goodput to server"]);
    at(netcaliper("show")).arg("3").run().exits(0).prints(&["messages of 60 B", "10 a second", "358 µs"]);
    // Files are compared without being kept, and shown as a page.
    let page = scratch.file("page.html");
    netcaliper("compare").arg(&files[0]).arg(&files[1]).run().exits(0).prints(&["goodput to server"]);
    netcaliper("report").arg(&files[2]).arg("--html").arg(&page).run().exits(0);

    let table = scratch.file("figures.csv");
    at(netcaliper("export")).arg("-o").arg(&table).run().exits(0);
    let csv = Csv::read(&table);
    let (ids, figures) = (csv.column("id"), csv.column("figure"));
    assert!(ids.iter().zip(figures).any(|(id, figure)| *id == "3" && figure == "rtt.p50"));
    assert_eq!((ids[0], ids[ids.len() - 1]), ("1", "5"), "the oldest first");
    let lines = at(netcaliper("export")).args("--format jsonl 1 last").run().exits(0).out;
    let runs: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let protocols: Vec<&str> = runs.iter().map(|r| r["begin"]["protocol"].as_str().unwrap()).collect();
    assert_eq!(protocols, ["iperf3", "ntttcp"]);
    at(netcaliper("export")).arg("77").run().exits(1).says_one_sentence().complains(&["no run 77"]);

    let nonsense = scratch.with("nonsense.txt", "nothing of the kind");
    let done = at(netcaliper("import")).arg(&nonsense).arg(&files[0]).run().exits(1).says_one_sentence();
    done.complains(&["nonsense.txt", "neither"]).prints(&["saved as run 6"]);
}

#[test]
fn irtts_own_file_is_read() {
    const NAME: &str = "irtts_own_file_is_read";
    let scratch = Scratch::new();
    let file = scratch.file("irtt.json.gz");
    if Command::new("irtt").arg("version").output().is_err() {
        return skip(NAME, "there is no irtt");
    }
    let mut command = Command::new("irtt");
    // It chooses a port itself, and says which.
    command.args(["server", "-b", "127.0.0.1:0"]);
    let server = Proc::spawn(&mut command);
    let line = server.hears("starting IPv4 listener on ");
    let at = line.rsplit(' ').next().unwrap().to_owned();
    let mut client = Command::new("irtt");
    client.args(["client", "-i", "10ms", "-d", "200ms", "-q", "-o"]).arg(&file).arg(&at);
    assert!(client.status().unwrap().success());
    let report = netcaliper("report").arg(&file).args("--json").run().exits(0);
    report.prints(&["\"protocol\": \"irtt\"", "rtt_ns"]);
}

/// Reads figures with DuckDB: its types, then the rows as CSV.
const DUCKDB: &str = "
import duckdb, sys
rows = duckdb.sql(f\"select * from '{sys.argv[1]}'\")
print(' '.join(str(t) for t in rows.types))
for id, at, figure, value in duckdb.sql('select id, epoch_us(started_utc), figure, value from rows').fetchall():
    print(id, at, figure, repr(value))
";

#[test]
fn parquet_is_read_by_another_program_or_refused_in_a_sentence() {
    const NAME: &str = "parquet_is_read_by_another_program_or_refused_in_a_sentence";
    let scratch = Scratch::new();
    let store = scratch.file("runs.sqlite");
    let at = |line: Line| line.env("NETCALIPER_STORE", &store);
    let (tcp, irtt) = (
        cut(&scratch, "protocols/iperf3/src/compat/import/iperf3-tcp.json.txt"),
        cut(&scratch, "compat/src/import/irtt.json.txt"),
    );
    at(netcaliper("import")).arg(tcp).arg(irtt).run().exits(0);
    let (table, file) = (scratch.file("figures.csv"), scratch.file("figures.parquet"));
    let export = |format: &str, path: &Path| {
        at(netcaliper("export")).args("--format").arg(format).arg("-o").arg(path).run()
    };
    if cfg!(not(feature = "parquet")) {
        export("parquet", &file).exits(2).says_one_sentence().complains(&["--features parquet"]);
        assert!(!file.exists());
        return skip(NAME, "netcaliper was built without the feature parquet");
    }
    export("csv", &table).exits(0);
    export("parquet", &file).exits(0);
    let python = |code: &str| Command::new("python3").arg("-c").arg(code).arg(&file).output();
    if !python("import duckdb").is_ok_and(|told| told.status.success()) {
        return skip(NAME, "there is no Python with duckdb");
    }
    let read = python(DUCKDB).unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let text = String::from_utf8(read.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "BIGINT TIMESTAMP WITH TIME ZONE VARCHAR VARCHAR VARCHAR VARCHAR VARCHAR VARCHAR UINTEGER VARCHAR VARCHAR DOUBLE"
    );
    let csv = Csv::read(&table);
    let rows: Vec<Vec<String>> = lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), csv.rows.len());
    for (row, same) in rows.iter().zip(&csv.rows) {
        let began: jiff::Timestamp = same[1].parse().unwrap();
        assert_eq!((&row[0], &row[2]), (&same[0], &same[9]));
        assert_eq!(row[1], began.as_microsecond().to_string());
        assert_eq!(row[3].parse::<f64>().unwrap(), same[11].parse::<f64>().unwrap());
    }
}

#[test]
fn pages_and_completions_know_every_question() {
    const NAME: &str = "pages_and_completions_know_every_question";
    let scratch = Scratch::new();
    let folder = scratch.file("man");
    if cfg!(not(feature = "man")) {
        for line in [netcaliper("man").arg(&folder), netcaliper("completions").arg("bash")] {
            line.run().exits(2).says_one_sentence().complains(&["--features man"]);
        }
        assert!(!folder.exists());
        return skip(NAME, "netcaliper was built without the feature man");
    }
    netcaliper("man").arg(&folder).run().exits(0);
    for verb in ["", "-tcp", "-ping", "-serve", "-monitor", "-history", "-import", "-lab"] {
        let page = folder.join(format!("netcaliper{verb}.1"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.contains(".TH"), "{}", page.display());
        match Command::new("mandoc").args(["-T", "lint", "-W", "error"]).arg(&page).output() {
            Ok(told) => assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout)),
            Err(_) => return skip(NAME, "there is no mandoc"),
        }
    }
    netcaliper("man").run().exits(0).prints(&[".TH", "netcaliper"]);
    for shell in ["powershell", "elvish"] {
        netcaliper("completions").arg(shell).run().exits(0).prints(&["netcaliper", "until-confidence"]);
    }
    // In these shells the program itself completes.
    for shell in ["bash", "zsh", "fish"] {
        netcaliper("completions").arg(shell).run().exits(0).prints(&["netcaliper", "complete"]);
    }
    let script = scratch.with("bash", &netcaliper("completions").arg("bash").run().exits(0).out);
    assert!(Command::new("bash").arg("-n").arg(script).status().unwrap().success());
}

#[test]
fn units_are_sound_and_hardened() {
    const NAME: &str = "units_are_sound_and_hardened";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd");
    let scratch = Scratch::new();
    let units = [
        ("netcaliper.service", "netcaliper.service"),
        ("netcaliper-monitor@.service", "netcaliper-monitor@x.service"),
        ("netcaliper-fleet@.service", "netcaliper-fleet@x.service"),
        ("netcaliper-fleet@.timer", "netcaliper-fleet@x.timer"),
    ];
    // The program that they start must be there to be checked.
    let files = units.map(|(unit, instance)| {
        let text = std::fs::read_to_string(folder.join(unit)).unwrap();
        scratch.with(instance, &text.replace("/usr/bin/netcaliper", BIN))
    });
    let Ok(told) = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&files).output() else {
        return skip(NAME, "there is no systemd-analyze (package systemd)");
    };
    let said = String::from_utf8_lossy(&told.stderr);
    let is_named = units.iter().any(|(_, instance)| said.contains(*instance));
    assert!(told.status.success() && !is_named, "{said}");
    let mut command = Command::new("systemd-analyze");
    let services = files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "service"));
    command.args(["security", "--offline=yes", "--threshold=20"]).args(services);
    let told = command.output().unwrap();
    // 20 is an exposure of 2.0 of 10; a service without a line of hardening has 9.6.
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
}

/// The lines of each group of system calls that systemd knows: calls, other groups, comments.
fn groups() -> BTreeMap<String, Vec<String>> {
    let told = Command::new("systemd-analyze").args(["--no-pager", "syscall-filter"]).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let text = String::from_utf8(told.stdout).unwrap();
    let of = |group: &str| -> (String, Vec<String>) {
        let mut lines = group.lines().map(|line| line.trim().to_owned());
        (lines.next().unwrap_or_default(), lines.collect())
    };
    text.split("\n\n").map(of).collect()
}

/// The system calls of a group, and of the groups in it.
fn calls_of(group: &str, groups: &BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for word in groups.get(group).unwrap_or_else(|| panic!("no group {group}")) {
        match word.as_str() {
            comment if comment.starts_with('#') => {}
            inner if inner.starts_with('@') => calls.append(&mut calls_of(inner, groups)),
            call => drop(calls.insert(call.to_owned())),
        }
    }
    calls
}

/// What a unit lets a service call, from its lines in their order.
fn allowed(unit: &str) -> BTreeSet<String> {
    let groups = groups();
    // systemd always lets these through.
    let mut allowed = calls_of("@default", &groups);
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (taken, words) = line.strip_prefix('~').map_or((false, line), |words| (true, words));
        for word in words.split_whitespace() {
            let is_group = word.starts_with('@');
            let calls = if is_group { calls_of(word, &groups) } else { [word.to_owned()].into() };
            match taken {
                true => allowed.retain(|call| !calls.contains(call)),
                false => allowed.extend(calls),
            }
        }
    }
    allowed
}

#[test]
fn a_server_calls_nothing_that_its_unit_forbids() {
    const NAME: &str = "a_server_calls_nothing_that_its_unit_forbids";
    let works = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|told| told.status.success())
    };
    if !works("systemd-analyze", &["syscall-filter", "@clock"]) {
        return skip(NAME, "there is no systemd-analyze (package systemd)");
    }
    if !works("strace", &["-o", "/dev/null", "true"]) {
        return skip(NAME, "there is no strace, or it may not watch");
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd/netcaliper.service");
    let allowed = allowed(&std::fs::read_to_string(unit).unwrap());
    let scratch = Scratch::new();
    let seen = scratch.file("calls");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&seen).arg(BIN);
    command.args(["serve", "--quiet", "-B", "127.0.0.1", "--port", "0"]);
    if cfg!(feature = "http") {
        command.args(["--metrics", "127.0.0.1:0"]);
    }
    command.env("NETCALIPER_STORE", "off");
    let server = Proc::spawn(&mut command);
    let line = server.hears("listening on ");
    let at = line.split(' ').nth(2).unwrap().to_owned();
    for (verb, how) in [("tcp", "-t 300ms -P 2 -b 1M"), ("delay", "-t 300ms -b 200k"), ("ping", "-n 20")] {
        netcaliper(verb).arg(&at).args(how).run().exits(0);
    }
    netcaliper("stop").arg(&at).run().exits(0);
    server.wait().exits(0);
    let text = std::fs::read_to_string(&seen).unwrap();
    let called = |line: &str| {
        let (_process, rest) = line.split_once(' ')?;
        let name = rest.trim_start().split_once('(')?.0;
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then(|| name.to_owned())
    };
    let calls: BTreeSet<String> = text.lines().filter_map(called).collect();
    assert!(calls.contains("epoll_ctl") && calls.contains("bind"), "{calls:?}");
    let forbidden: Vec<&String> = calls.difference(&allowed).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}
