//! Every command line that cannot be: exit 2, one sentence that says what was wrong and what was
//! expected, nothing on stdout and nothing on the wire.

use crate::support::{Done, net, netcaliper, tcp};
use std::collections::BTreeMap;
use std::path::Path;

/// A closed port: a command that connects fails with exit 1.
const CLOSED: &str = "127.0.0.1:9";

/// Runs the words, of which none may hold a space.
fn run(words: &str) -> Done {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    netcaliper(verb).args(&rest.replace("HOST", CLOSED)).run()
}

/// Exit 2, and the first line on stderr holds all `words`.
#[track_caller]
fn is_refused(done: Done, words: &[&str]) {
    let done = done.exits(2);
    let first = done.err.lines().next().unwrap_or_default();
    for word in words {
        assert!(first.contains(word), "'{word}' is not in the first line: {}", done.tell());
    }
    assert!(
        done.err.lines().filter(|l| !l.trim().is_empty()).count() <= 4,
        "too many words: {}",
        done.tell()
    );
    assert!(!done.err.contains("panicked"), "{}", done.tell());
}

/// A table of command lines and of words that the complaint must hold, separated by `|`.
#[track_caller]
fn all_are_refused(table: &[(&str, &str)]) {
    let mut bad = Vec::new();
    for (line, words) in table {
        let words: Vec<&str> = words.split('|').collect();
        if std::panic::catch_unwind(|| is_refused(run(line), &words)).is_err() {
            bad.push(*line);
        }
    }
    assert!(bad.is_empty(), "not refused as they should be: {bad:#?}");
}

#[test]
fn numbers_with_units() {
    all_are_refused(&[
        ("tcp HOST -t 0", "'0'|--time|longer than 0"),
        ("tcp HOST -t 5x", "'5x'|--time|10s, 250ms"),
        ("tcp HOST --time=", "''|--time|10s, 250ms"),
        ("tcp HOST -t 99999999999s", "99999999999s|--time"),
        ("tcp HOST -n 5Q", "'5Q'|--bytes|64Ki"),
        ("tcp HOST -n 0", "total number of bytes|at least 1"),
        ("tcp HOST --transfer 0", "transfer|1 byte to 1 PiB"),
        ("tcp HOST --transfer 2000Ti", "transfer|1 byte to 1 PiB"),
        ("tcp HOST --transfer much", "'much'|--transfer|64Ki"),
        ("tcp HOST -b 0", "rate|8 bit/s to 10T"),
        ("tcp HOST -b 1", "rate|8 bit/s to 10T"),
        ("tcp HOST -b fast", "'fast'|--rate|25M"),
        ("tcp HOST -b 99999T", "rate"),
        ("tcp HOST -l 0", "buffer|1 byte to 16Mi"),
        ("tcp HOST -l 1Gi", "buffer|1 byte to 16Mi"),
        ("tcp HOST -l [9,3]", "'[9,3]'|smaller value comes first"),
        ("tcp HOST -l [9]", "'[9]'|[1024,1Mi]"),
        ("tcp HOST -l [0,9]", "buffer|1 byte to 16Mi"),
        ("tcp HOST -l ten", "'ten'|--buffer|64Ki"),
        ("tcp HOST -i 1ms", "interval|10ms to 1h"),
        ("tcp HOST -i 2h", "interval|10ms to 1h"),
        ("tcp HOST -i now", "'now'|--interval"),
        ("tcp HOST -O x", "'x'|--omit"),
        ("tcp HOST --keepalive 0", "--keepalive|longer than 0"),
        ("tcp HOST --connect-timeout 0", "--connect-timeout|longer than 0"),
        ("tcp HOST --stall-timeout 0", "--stall-timeout|longer than 0"),
        ("tcp HOST --sndbuf many", "'many'|--sndbuf"),
        ("tcp HOST --rcvbuf many", "'many'|--rcvbuf"),
        ("tcp HOST -w many", "'many'|--window"),
        ("connect HOST --rate 0", "'0'|--rate|above 0"),
        ("connect HOST --rate nan", "'nan'|--rate|above 0"),
        ("connect HOST --rate 1e9", "connection rate|10000000"),
        ("connect HOST --transfer 0", "transfer|1 byte"),
        ("demo -t 0", "--time|longer than 0"),
        ("serve --max-time 0", "--max-time|longer than 0"),
        ("serve --max-rate fast", "'fast'|--max-rate|25M"),
    ]);
}

#[test]
fn counts_and_ranges() {
    all_are_refused(&[
        ("tcp HOST -P 0", "connections|1 to 1000000"),
        ("tcp HOST -P 99999999", "connections|1 to 1000000"),
        ("tcp HOST -P x", "'x'|--connections"),
        ("tcp HOST -P 1.5", "'1.5'|--connections"),
        ("tcp HOST --iterations 0", "0|--iterations"),
        ("tcp HOST --throttle 0", "0|--throttle"),
        ("tcp HOST --workers 0", "0|--workers|1|1024"),
        ("tcp HOST --workers 5000", "5000|--workers|1024"),
        ("tcp HOST --ttl 0", "0|--ttl|255"),
        ("tcp HOST --ttl 256", "256|--ttl|255"),
        ("tcp HOST --dscp 64", "'64'|DSCP|0 to 63"),
        ("tcp HOST --dscp high", "'high'|DSCP|ef"),
        ("tcp HOST --flow-label 0x100000", "'0x100000'|flow label|0xfffff"),
        ("tcp HOST --local-port 0", "'0'|port|20000-20999"),
        ("tcp HOST --local-port 9-3", "'9-3'|rising range"),
        ("tcp HOST --local-port 70000", "'70000'|port"),
        ("tcp HOST -p 70000", "70000|--port|65535"),
        ("tcp HOST --affinity x", "'x'|--affinity"),
        ("tcp HOST --repeat 0", "0|--repeat|1000"),
        ("tcp HOST --pattern sideways", "'sideways'|--pattern"),
        ("tcp HOST --verify maybe", "'maybe'|--verify"),
        ("tcp HOST --payload music", "'music'|--payload"),
        ("tcp HOST --shutdown never", "'never'|--shutdown"),
        ("tcp HOST --nodelay maybe", "'maybe'|--nodelay"),
        ("tcp HOST --pattern pushpull --push-bytes 0", "push-pull segments|at least 1 byte"),
        ("tcp HOST --burst 0 --burst-delay 1ms", "burst|0"),
        ("serve --exit-after 0", "0|--exit-after"),
        ("serve --port 0 -i 1ms", "interval|10ms to 1h"),
        ("serve --port 70000", "70000|--port|65535"),
        // For no limit the option is left out; 0 is refused.
        ("serve --port 0 --max-sessions 0", "max-sessions|0"),
        ("serve --port 0 --max-per-address 0", "max-per-address|0"),
        ("serve --port 0 --max-connections 0", "max-connections|0"),
        ("serve --port 0 --max-rate 0", "max-rate|0"),
    ]);
}

#[test]
fn options_that_exclude_or_need_each_other() {
    all_are_refused(&[
        ("tcp HOST -R --bidir", "--reverse|--bidir"),
        ("tcp HOST -R --pattern push", "--reverse|--pattern"),
        ("tcp HOST --bidir --pattern pull", "--bidir|--pattern"),
        ("tcp HOST -4 -6", "--ipv4|--ipv6"),
        ("tcp HOST --json --jsonl", "--json|--jsonl"),
        ("tcp HOST -w 1M --sndbuf 1M", "--window|--sndbuf"),
        ("tcp HOST -w 1M --rcvbuf 1M", "--window|--rcvbuf"),
        ("tcp HOST --burst 3 --burst-delay 1ms -b 1M", "--burst|--rate"),
        ("tcp HOST --burst 3", "required"),
        ("tcp HOST --burst-delay 1ms", "required"),
        ("tcp HOST --sweep-csv x", "required"),
        ("tcp HOST --omit 20s -t 10s", "omitted start|shorter than the run"),
        ("tcp HOST --burst 3 --burst-delay 1ms --sweep rate=1M,2M", "rate=1000000|exclude each other"),
        ("tcp", "required"),
        ("stop", "required"),
        ("report", "required"),
    ]);
}

#[test]
fn sweeps() {
    all_are_refused(&[
        ("tcp HOST --sweep mss=1,2", "'mss'|buffer, connections and rate"),
        ("tcp HOST --sweep buffer", "'buffer'|buffer=16..1Mi"),
        ("tcp HOST --sweep buffer=9..3", "rise|9|3"),
        ("tcp HOST --sweep buffer=0,1", "buffer cannot be 0"),
        ("tcp HOST --sweep connections=x", "'x'|number of connections"),
        ("tcp HOST --sweep rate=1M --sweep rate=2M", "rate is swept twice"),
        ("tcp HOST --sweep rate=1M --sweep buffer=1 --sweep connections=1", "at most two"),
        ("tcp HOST --sweep connections=1..100000/1", "more than 1000 values"),
        ("tcp HOST --sweep buffer=1..900/1 --sweep connections=1..900/1", "more than 10000"),
    ]);
}

#[test]
fn addresses() {
    all_are_refused(&[
        ("tcp HOST -B nowhere", "'nowhere'|--bind"),
        ("serve --listen nowhere", "'nowhere'|192.0.2.1:7411"),
        ("serve --listen 127.0.0.1:99999", "99999"),
        ("serve --allow 300.0.0.0/8", "300.0.0.0/8|--allow"),
        ("serve --deny 10.0.0.0/33", "10.0.0.0/33|--deny"),
    ]);
}

#[test]
fn what_this_machine_does_not_have() {
    for (line, words) in [
        ("tcp HOST --affinity 9999", &["core 9999 cannot be used", "may run on"][..]),
        ("serve --port 0 --affinity 9999", &["core 9999 cannot be used"]),
        ("tcp HOST --bind-dev nosuch0", &["No such device"]),
        ("tcp HOST --mss 1", &["segment", "Invalid argument"]),
    ] {
        run(line).exits(2).says_one_sentence().complains(words);
    }
}

#[test]
fn an_unknown_congestion_control_is_answered_with_those_there_are() {
    let known = net::congestion_controls();
    let done = run("tcp HOST -C nosuch").exits(2);
    assert!(done.err.contains("nosuch"), "{}", done.tell());
    assert!(known.iter().all(|name| done.err.contains(name.as_str())), "{known:?}: {}", done.tell());
}

#[test]
fn bad_options_say_nothing_on_stdout() {
    let scratch = crate::support::files::Scratch::new();
    for words in ["-C nosuch", "--affinity 9999", "--bind-dev nosuch0", "-P 2000000", "-P 0"] {
        let journal = scratch.file("run.jsonl");
        let done = tcp(CLOSED).args(words).arg("--save").arg(&journal).run().exits(2);
        assert_eq!(done.out, "", "{words}");
        assert!(!journal.exists(), "{words}: no file is begun for a run that cannot be");
    }
}

#[test]
fn more_connections_than_open_files_are_spread_over_processes() {
    let limited = |limit: &str, words: &str| {
        let script =
            format!("ulimit -n {limit}; exec {} tcp --no-store {CLOSED} -n 1M {words}", crate::support::BIN);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]);
        crate::support::Proc::spawn(&mut command).wait()
    };
    let shared = |connections: &str| {
        let words = limited("500", connections).exits(1).out;
        words.split_whitespace().collect::<Vec<_>>().join(" ").contains("worker processes share them")
    };
    assert!(shared("-P 5000"));
    assert!(!shared("-P 100"));
}

#[test]
fn port_zero_is_no_port_to_connect_to() {
    for words in ["127.0.0.1 -p 0", "127.0.0.1:0", "127.0.0.1:99999"] {
        run(&format!("tcp -n 1M {words}")).exits(2).complains(&["port"]);
    }
}

#[test]
fn unknown_hosts_fail() {
    for (host, words) in
        [("no.such.host.invalid", &["cannot resolve", "no.such.host.invalid"][..]), ("", &["is not a host"])]
    {
        netcaliper("tcp").arg(host).args("-n 1M").run().exits(1).says_one_sentence().complains(words);
    }
    let unclosed = netcaliper("tcp").arg("[::1").args("-n 1M").run().exits(2).says_one_sentence();
    unclosed.complains(&["'[::1' lacks its ']'", "[ADDRESS]:PORT"]);
    for (words, complaint) in
        [("::1 -4", "'::1' has no IPv4 address"), ("127.0.0.1 -6", "'127.0.0.1' has no IPv6 address")]
    {
        run(&format!("tcp {words}")).exits(1).says_one_sentence().complains(&[complaint]);
    }
}

#[test]
fn addresses_must_fit_and_be_there() {
    let server = crate::support::serve("");
    let done = tcp(server.at()).args("-n 1M -B 192.0.2.77").run().exits(2);
    done.says_one_sentence().complains(&["-B 192.0.2.77: this host has no such address"]);
    let done = tcp(server.at()).args("-n 1M -B ::1").run();
    assert_ne!(done.code, Some(0), "an IPv6 source for an IPv4 target: {}", done.tell());
    // Addresses that a second server cannot listen on.
    let done = netcaliper("serve").args(&format!("--port {}", server.port)).run().exits(1);
    done.says_one_sentence().complains(&["Address already in use", &server.port.to_string()]);
    let done = netcaliper("serve").args("--listen 192.0.2.9 --port 0").run().exits(1);
    done.says_one_sentence().complains(&["Cannot assign requested address", "192.0.2.9"]);
    server.still_serves();
}

#[test]
fn help_and_version_are_answers() {
    for verb in ["tcp", "connect", "serve", "stop", "demo", "report"] {
        let done = netcaliper(verb).args("--help").run().exits(0);
        assert!(done.out.contains("Usage: netcaliper ") && done.err.is_empty(), "{}", done.tell());
        assert!(done.out.lines().all(|l| l.chars().count() <= 110), "lines too long: {}", done.tell());
    }
    let done = netcaliper("--version").run().exits(0);
    assert_eq!(done.out.trim(), format!("netcaliper {}", env!("CARGO_PKG_VERSION")));
    assert!(netcaliper("--help").run().exits(0).out.contains("measuring instrument"));
}

/// The tests were built for the same target, in the same profile and with the same features.
#[test]
fn a_build_tells_what_it_was_built_from() {
    for done in [run("--version --verbose"), run("--verbose --version"), run("-vV"), run("-V -v")] {
        let done = done.exits(0);
        let mut lines = done.out.lines();
        assert_eq!(lines.next(), Some(concat!("netcaliper ", env!("CARGO_PKG_VERSION"))));
        let facts: BTreeMap<&str, &str> = lines.map(|line| line.split_once(": ").unwrap()).collect();
        assert!(facts["target"].starts_with(std::env::consts::ARCH), "{facts:?}");
        assert!(facts["target"].contains(std::env::consts::OS), "{facts:?}");
        assert!(facts["compiler"].starts_with("rustc 1."), "{facts:?}");
        let folder = Path::new(env!("CARGO_BIN_EXE_netcaliper")).parent().unwrap().file_name().unwrap();
        assert_eq!(facts["profile"], if folder == "debug" { "dev" } else { folder.to_str().unwrap() });
        let has_pages = facts["features"].split(' ').any(|name| name == "man");
        assert_eq!(has_pages, cfg!(feature = "man"), "{facts:?}");
    }
    run("--verbose").exits(2);
}

/// The verbs, as the program lists them, without the words behind them.
fn verbs() -> Vec<String> {
    let help = netcaliper("--help").env("COLUMNS", "200").run().exits(0).out;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = listed.take_while(|line| !line.is_empty());
    let names = verbs.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn short_help_fits_a_screen_and_has_three_examples() {
    let verbs = verbs();
    assert!(verbs.contains(&"tcp".to_owned()) && !verbs.contains(&"iperf3".to_owned()), "{verbs:?}");
    for verb in verbs
        .iter()
        .filter(|verb| !["config", "run", "options", "completions", "man", "help"].contains(&verb.as_str()))
    {
        let short = netcaliper(verb).args("-h").env("COLUMNS", "80").run().exits(0);
        assert!(short.out.lines().count() <= 30, "{} lines: {}", short.out.lines().count(), short.tell());
        assert!(short.out.lines().all(|line| line.chars().count() <= 80), "{}", short.tell());
        let example = format!("  netcaliper {verb}");
        let examples = short.out.lines().skip_while(|line| *line != "Examples:").skip(1);
        assert_eq!(examples.filter(|line| line.starts_with(&example)).count(), 3, "{}", short.tell());
    }
}

#[test]
fn shared_options_are_explained_once() {
    // Beyond its first sentence.
    let explained = "Several share the connections";
    let texts: Vec<String> = verbs()
        .iter()
        .filter(|verb| *verb != "help")
        .map(|verb| match verb.as_str() {
            "options" => netcaliper(verb).env("COLUMNS", "200").run().exits(0).out,
            _ => netcaliper(verb).arg("--help").env("COLUMNS", "200").run().exits(0).out,
        })
        .collect();
    assert_eq!(texts.iter().filter(|text| text.contains(explained)).count(), 1);
    let all = |option: &str| texts.iter().filter(|text| text.contains(option)).count();
    assert!(all("--psk-file") > 8 && all("--metrics-file") > 8, "each has all that it takes");
}
