//! What a run writes: JSON by its schema, journals and CSVs that agree with it, reports that print
//! it again.

use crate::support::files::{Csv, Scratch};
use crate::support::outcome::same_report;
use crate::support::{
    Done, Line, Outcome, Server, as_it_is, connect, netcaliper, number, serve, sized, tcp, text,
};
use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

/// What the schema has against a document.
#[track_caller]
fn fits_the_schema(document: &Value) {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    let validator = VALIDATOR.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/outcome.v2.json");
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    let complaints: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert_eq!(document["schema"], "netcaliper.outcome.v2");
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

/// A run with several intervals and several connections, and all the files it can write.
struct Recorded {
    scratch: Scratch,
    done: Done,
}

fn recorded(server: &Server, line: impl Fn(String) -> Line) -> Recorded {
    let scratch = Scratch::new();
    let line = line(server.at()).arg("--save").arg(scratch.file("run.jsonl"));
    let line = line.arg("--status-csv").arg(scratch.file("status.csv"));
    let done = line.arg("--connection-csv").arg(scratch.file("connections.csv")).run().exits(0);
    Recorded { scratch, done }
}

/// Half a second at a rate that lets connections end in it.
fn short(target: String) -> Line {
    tcp(target).args("-t 700ms -i 200ms -P 3 -b 2M --transfer 20001 --bidir")
}

#[test]
fn every_kind_of_outcome_fits_the_schema() {
    let scratch = Scratch::new();
    let server = Server::start(netcaliper("serve").args("--port 0 --save").arg(scratch.file("server.jsonl")));
    fits_the_schema(&connect(server.at()).args("--iterations 20 -P 4").outcome().good().json);
    let sweep = tcp(server.at())
        .args("--sweep connections=1,2 --repeat 2 -n 1M --pattern pushpull -C reno --dscp ef");
    fits_the_schema(&sweep.outcome().json);
    let settings =
        "--sndbuf 64Ki --rcvbuf 64Ki --mss 1400 --ttl 9 --keepalive 10s --burst 3 --burst-delay 1ms";
    fits_the_schema(&tcp(server.at()).args("-n 1M").args(settings).outcome().good().json);
    let refused = format!("127.0.0.1:{}", crate::support::net::free_port());
    let failed = tcp(refused).args("-n 1M").outcome().exits(1);
    assert_eq!(failed.json["status"], "failed");
    fits_the_schema(&failed.json);
    server.end();
    let saved = netcaliper("report").arg(scratch.file("server.jsonl")).outcome().exits(0);
    assert_eq!(saved.json["begin"]["verb"], "serve");
    fits_the_schema(&saved.json);
}

#[test]
fn a_server_prints_its_outcome_and_writes_its_files() {
    let scratch = Scratch::new();
    let port = crate::support::net::free_port();
    let line = netcaliper("serve").args(&format!("--port {port} --json -i 100ms --status-csv"));
    let line =
        line.arg(scratch.file("status.csv")).arg("--connection-csv").arg(scratch.file("connections.csv"));
    let server = Server { proc: line.spawn(), port };
    crate::support::eventually("the server is up", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    tcp(server.at()).args("-P 3 --iterations 2 --transfer 100001").outcome().moved(6, 600_006, 0);
    let outcome = Outcome::of(server.end());
    fits_the_schema(&outcome.json);
    assert_eq!(outcome.local()["traffic"]["rx_bytes"], 600_006);
    assert_eq!(Csv::read(&scratch.file("connections.csv")).sum("rx_bytes"), 600_006);
    assert_eq!(Csv::read(&scratch.file("status.csv")).sum("local_rx_bytes"), 600_006);
}

#[test]
fn jsonl_tells_the_run_line_by_line() {
    let server = serve("");
    let done = short(server.at()).arg("--jsonl").run().exits(0);
    let events = lines(&done.out);
    let named = |name: &str| events.iter().filter(|e| e["event"] == name).collect::<Vec<_>>();
    assert_eq!(events[0]["event"], "begin");
    assert_eq!(events.last().unwrap()["event"], "end");
    for (name, n) in [("begin", 1), ("phase", 1), ("session", 1), ("start", 1), ("local", 1), ("remote", 1)] {
        assert_eq!(named(name).len(), n, "{name}: {}", done.tell());
    }
    let (intervals, connections) = (named("interval"), named("connection"));
    // Intervals that a busy machine could not end in time are merged.
    assert!(!intervals.is_empty(), "{}", done.tell());
    let indexes: Vec<u64> = intervals.iter().map(|i| number(&i["index"])).collect();
    assert_eq!(indexes, (0..indexes.len() as u64).collect::<Vec<_>>());
    let ends: Vec<(u64, u64)> =
        intervals.iter().map(|i| (number(&i["start_ns"]), number(&i["end_ns"]))).collect();
    assert!(ends.windows(2).all(|w| w[0].1 == w[1].0), "intervals touch: {ends:?}");
    let ended = number(&named("local")[0]["completed"]) + number(&named("local")[0]["stopped"]);
    assert_eq!(connections.len() as u64, ended);
    let ids: BTreeSet<&str> = connections.iter().map(|c| text(&c["id"])).collect();
    assert_eq!(ids.len(), connections.len(), "ids are unique");
}

#[test]
fn the_csvs_and_the_journal_hold_what_the_documentation_says_and_what_the_json_has() {
    let server = serve("");
    let run = recorded(&server, |at| short(at).arg("--json"));
    let outcome = Outcome::of(run.done).good();
    fits_the_schema(&outcome.json);
    let again = netcaliper("report").arg(run.scratch.file("run.jsonl")).outcome().good();
    assert_eq!(outcome.json, again.json);
    let status = Csv::read(&run.scratch.file("status.csv"));
    let connections = Csv::read(&run.scratch.file("connections.csv"));
    assert_eq!(status.header, documented("**Status**"));
    assert_eq!(connections.header, documented("**Connections**"));
    let intervals = outcome.point()["intervals"].as_array().unwrap();
    assert_eq!(status.rows.len(), intervals.len());
    for (name, bytes) in [("local_tx_bytes", "tx_bytes"), ("local_rx_bytes", "rx_bytes")] {
        assert_eq!(
            status.sum(name),
            intervals.iter().map(|i| number(&i["local"][bytes])).sum::<u64>(),
            "{name}"
        );
    }
    assert!(
        status.column("end_utc").iter().all(|t| t.len() == 27 && t.ends_with('Z')),
        "{:?}",
        status.column("end_utc")
    );
    assert_eq!(connections.rows.len(), outcome.connections().len());
    let ids: Vec<&str> = outcome.connections().iter().map(|c| text(&c["id"])).collect();
    assert_eq!(connections.column("id"), ids);
    assert!(connections.column("result").iter().all(|r| ["completed", "stopped"].contains(r)));
}

/// The column names that a paragraph of docs/output.md lists, all of them in back-quotes.
fn documented(paragraph: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/output.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let text = docs.split(paragraph).nth(1).unwrap().split("\n\n").next().unwrap();
    let quoted = text.split('`').skip(1).step_by(2).map(str::to_owned);
    let results = ["completed", "stopped", "network_error", "data_error", "protocol_error"];
    // The option itself comes first; values of `result` stand in between.
    let in_brackets = paragraph == "**Connections**";
    quoted.skip(1).filter(|name| !(in_brackets && results.contains(&name.as_str()))).collect()
}

#[test]
fn a_report_prints_the_live_run_again_and_that_of_a_journal_cut_anywhere() {
    let server = serve("");
    let line = |at: String| {
        connect(at).args("-t 500ms -i 200ms --rate 50 -P 2").env("NO_COLOR", "1").arg("--verbose")
    };
    let (transfers, connects) = (recorded(&server, short), recorded(&server, line));
    for run in [&transfers, &connects] {
        let live = &run.done;
        // Colours are for terminals only.
        assert!(!live.out.contains('\x1b') && !live.err.contains('\x1b'), "{}", live.tell());
        assert!(!live.out.contains('\r'), "no redrawn lines in a pipe: {}", live.tell());
        let journal = run.scratch.file("run.jsonl");
        let again = netcaliper("report").arg(&journal).run().exits(0);
        same_report(&again.out, &live.out);
        let json = netcaliper("report").arg(&journal).arg("--json").run().exits(0).out;
        fits_the_schema(&serde_json::from_str(&json).unwrap());
        let outcome = run.scratch.with("run.json", &json);
        let again = netcaliper("report").arg(&outcome).run().exits(0);
        same_report(&again.out, &live.out);
        // And so do all other formats.
        let line =
            netcaliper("report").arg(&journal).arg("--status-csv").arg(run.scratch.file("status2.csv"));
        line.arg("--connection-csv").arg(run.scratch.file("connections2.csv")).run().exits(0);
        for (live, again) in [("status.csv", "status2.csv"), ("connections.csv", "connections2.csv")] {
            let read = |name| std::fs::read_to_string(run.scratch.file(name)).unwrap();
            assert_eq!(read(live), read(again), "{live}");
        }
    }
    // Several runs are reported one after the other.
    let file = transfers.scratch.file("run.jsonl");
    let done = netcaliper("report").arg(&file).arg(&file).arg("--quiet").run().exits(0);
    assert_eq!(done.out.matches("Run complete").count(), 2, "{}", done.tell());
    a_journal_cut_anywhere_can_be_read(&transfers);
}

fn a_journal_cut_anywhere_can_be_read(run: &Recorded) {
    let whole = std::fs::read_to_string(run.scratch.file("run.jsonl")).unwrap();
    let last = whole.trim_end().rfind('\n').unwrap();
    let starts: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let first_interval = whole.find("{\"event\":\"interval\"").unwrap();
    let mut cuts: Vec<usize> = starts.iter().flat_map(|&at| [at, at + 1, at + 40]).collect();
    cuts.retain(|&at| at > first_interval && at <= last);
    // All of them say the same: a sample is enough.
    let step = (cuts.len() / sized(12, 25)).max(1);
    for cut in cuts.into_iter().step_by(step) {
        let path = run.scratch.with("cut.jsonl", &whole[..cut]);
        let done = netcaliper("report").arg(&path).run();
        assert_eq!(done.code, Some(4), "cut at {cut}: {}", done.tell());
        assert!(done.out.contains("Run partial"), "cut at {cut}: {}", done.tell());
    }
}

#[test]
fn what_is_no_saved_run_is_refused_in_one_sentence() {
    let scratch = Scratch::new();
    let refused = |path: &Path, words: &[&str]| {
        let done = netcaliper("report").arg(path).run().exits(1).says_one_sentence();
        done.complains(words).complains(&[&path.display().to_string()]);
    };
    refused(Path::new("/nowhere/run.json"), &["No such file"]);
    refused(scratch.path(), &["Is a directory"]);
    refused(&scratch.with("empty", ""), &["empty"]);
    refused(&scratch.with("text", "hello\nworld\n"), &["neither a saved outcome nor a journal"]);
    refused(&scratch.with("json", "{\"a\":1}"), &["no outcome"]);
    refused(&scratch.with("later", "{\"schema\":\"netcaliper.outcome.v9\"}"), &["netcaliper.outcome.v9"]);
    refused(
        &scratch.with(
            "hole",
            "{\"event\":\"begin\",\"schema\":\"netcaliper.outcome.v2\"}\nxxx\n{\"event\":\"end\"}\n",
        ),
        &["line 2", "damaged"],
    );
    std::fs::write(scratch.file("binary"), [0xff, 0xfe, 0, 1, 2]).unwrap();
    refused(&scratch.file("binary"), &[]);
}

#[test]
fn a_path_that_cannot_be_written_fails_before_any_traffic() {
    let server = serve("");
    let scratch = Scratch::new();
    for option in ["--save", "--status-csv", "--connection-csv", "--sweep-csv", "--metrics-file"] {
        for path in ["/nowhere/file", scratch.path().to_str().unwrap()] {
            let done = tcp(server.at()).args("-n 1M --sweep connections=1,2").arg(option).arg(path).run();
            done.exits(1).says_one_sentence().complains(&["cannot write to", path]);
        }
    }
    for option in ["--save", "--metrics-file"] {
        let line = netcaliper("serve").args("--port 0").arg(option).arg("/nowhere/file");
        line.run().exits(1).says_one_sentence();
    }
    netcaliper("demo").args("--save /nowhere/file").run().exits(1).says_one_sentence();
    assert!(!server.end().out.contains("session"), "the server saw none of them");
}

#[test]
fn a_quiet_server_ends_with_one_line() {
    let lines = |words: &str| -> Vec<String> {
        let server = serve(words);
        tcp(server.at()).args("-t 300ms -P 3 -b 2M").outcome().good();
        let out = server.end().out;
        out.lines().skip_while(|line| !line.starts_with("interrupted")).map(str::to_owned).collect()
    };
    let quiet = lines("--quiet");
    assert_eq!(quiet.len(), 2, "the interruption and the answer: {quiet:#?}");
    assert!(quiet[1].ends_with(", 3 connections"), "those that came: {quiet:#?}");
    assert!(lines("").len() > 12);
}

#[test]
fn quiet_and_verbose_print_less_and_more() {
    let server = serve("");
    let line = || as_it_is("tcp").arg(server.at()).args("-t 300ms -i 100ms -P 2 -b 2M");
    let plain = line().run().exits(0).out;
    let quiet = line().arg("--quiet").run().exits(0).out;
    let verbose = line().arg("--verbose").run().exits(0).out;
    let intervals = |out: &str| out.contains("  elapsed  ");
    assert!(intervals(&plain) && intervals(&verbose) && !intervals(&quiet));
    let answer = format!("tcp {}: ", server.at());
    assert!(
        quiet.lines().count() == 1 && quiet.starts_with(&answer) && quiet.contains("bit/s to server"),
        "{quiet}"
    );
    assert!(verbose.contains("\nGoodput") && verbose.contains("Run complete"), "{verbose}");
    let result: Vec<&str> = plain.lines().skip_while(|line| !line.starts_with(&answer)).collect();
    assert!(
        (1..=12).contains(&result.len()) && plain.lines().all(|line| line.chars().count() <= 80),
        "{plain}"
    );
    let is_caveat = |line: &&&str| ["  invalid: ", "  caution: "].iter().any(|level| line.starts_with(level));
    assert!(result.iter().filter(is_caveat).count() <= 3 && !plain.contains("  note: "), "{plain}");
    assert!(plain.contains(", advice and all tables: -v"), "both ends are on one host: {plain}");
    assert!(verbose.contains("\n  note: loopback: "), "{verbose}");
}

#[test]
fn a_summary_in_json_is_small() {
    let server = serve("--max-rate 2M");
    let done = as_it_is("tcp").arg(server.at()).args("-t 300ms -P 2 -b 1M --json=summary").run().exits(0);
    assert!(done.out.len() < 2_000, "{} bytes: {}", done.out.len(), done.out);
    let summary: Value = serde_json::from_str(&done.out).unwrap();
    assert!(summary["results"][0]["figures"]["goodput.up"].as_f64().unwrap() > 1e5, "{summary:#}");
    assert!(summary["answer"].as_str().unwrap().contains("to server"), "{summary:#}");
    for (verb, words) in [
        ("load", "-t 300ms --ramp 1s -P 1 --rate 20"),
        ("tcp", "-t 100ms -P 2 --sweep rate=100k,200k,300k,400k,500k,600k,700k,800k"),
    ] {
        let done = as_it_is(verb).arg(server.at()).args(words).arg("--json=summary").run();
        // A busy host may answer none of the few messages of a short stage: a partial run.
        assert!([Some(0), Some(4)].contains(&done.code), "{}", done.tell());
        assert!(done.out.len() < 2_048, "{} bytes: {}", done.out.len(), done.out);
        let summary: Value = serde_json::from_str(&done.out).unwrap();
        let results = summary["results"].as_array().unwrap();
        assert!(
            results.len() >= 4 && results.iter().all(|result| result["setting"].is_object()),
            "{summary:#}"
        );
    }
}

#[test]
fn machine_formats_on_stdout_stand_alone() {
    let server = serve("");
    let one =
        |args: &str| tcp(server.at()).args("-P 2 -n 100001 --transfer 50000").args(args).run().exits(0).out;
    let csv = one("--status-csv -");
    assert!(csv.starts_with("label,repeat,index,"), "{csv}");
    assert!(csv.lines().all(|l| l.split(',').count() == 68), "{csv}");
    assert!(one("--connection-csv -").starts_with("label,repeat,id,"));
    assert!(one("--metrics-file -").starts_with("# HELP netcaliper_"));
    assert_eq!(lines(&one("--save -")).last().unwrap()["event"], "end");
    assert_eq!(lines(&one("--jsonl"))[0]["event"], "begin");
}

#[test]
fn two_formats_cannot_share_stdout() {
    for both in
        ["--json --save -", "--json --status-csv -", "--jsonl --connection-csv -", "--status-csv - --save -"]
    {
        let done = tcp("127.0.0.1:9").args("-n 1M").args(both).run();
        assert_eq!(done.code, Some(2), "{both}: {}", done.tell());
    }
    for (verb, both) in [
        ("tcp", "--json --metrics-file -"),
        ("ping", "--json --samples -"),
        ("ping", "--status-csv - --hgrm -"),
        ("ping", "--samples - --histogram-csv -"),
        ("train", "--jsonl --train-csv -"),
        ("serve", "--metrics-file -"),
    ] {
        let target = if verb == "serve" { "--port 0" } else { "127.0.0.1:9" };
        netcaliper(verb).args(target).args(both).run().exits(2).says_one_sentence();
    }
}
