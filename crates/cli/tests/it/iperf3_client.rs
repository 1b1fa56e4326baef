//! Our iperf3 client against the real server, where it is installed, and the native report about
//! such tests.

use crate::support::files::Scratch;
use crate::support::iperf3;
use crate::support::peer::peer;
use crate::support::{Done, Line, Proc, at_once, netcaliper, number, text};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::Command;

/// The independent peer.
const PEER: &str = "iperf3.py";

/// The real server. Between two tests there is a moment in which it is busy, and one in which its
/// port is closed.
struct Real {
    proc: Proc,
    port: String,
    tests: Cell<usize>,
}

impl Real {
    /// Its port, when it listens for one test more than before.
    #[track_caller]
    fn ready(&self) -> &str {
        self.tests.set(self.tests.get() + 1);
        self.proc.hears_often("Server listening on", self.tests.get());
        &self.port
    }
}

fn real_server(test: &str, words: &str) -> Option<Real> {
    let (proc, port) = iperf3::real(test, |line| line.args(words))?;
    Some(Real { proc, port, tests: Cell::new(0) })
}

fn our_client(port: &str, words: &str) -> Proc {
    netcaliper("iperf3").args(&format!("-c 127.0.0.1 -p {port} {words}")).spawn()
}

fn ours(port: &str, words: &str) -> Done {
    our_client(port, words).wait()
}

fn theirs(port: &str, words: &str) -> Proc {
    Line(Command::new("iperf3")).args(&format!("-c 127.0.0.1 -p {port} {words}")).spawn()
}

/// Every path to a value in a document, with the value's type; what is in a list is told once.
fn shape(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| shape(value, &format!("{at}/{key}"), into)),
        Value::Array(list) => list.iter().for_each(|value| shape(value, &format!("{at}[]"), into)),
        leaf => {
            let kind = match leaf {
                Value::Number(_) => "number",
                Value::String(_) => "text",
                Value::Bool(_) => "flag",
                _ => "null",
            };
            into.insert(format!("{at}: {kind}"));
        }
    }
}

#[test]
fn our_client_in_every_mode_has_all_keys_of_the_original() {
    let name = "our_client_in_every_mode_has_all_keys_of_the_original";
    let (Some(one), Some(other)) = (real_server(name, ""), real_server(name, "")) else { return };
    for words in [
        "-t 1 -b 4M -l 16K",
        "-t 1 -P 2 --bidir -b 4M -l 8K",
        "-t 1 -O 1 -b 4M -R",
        "-t 1 -b 8M",
        "-t 1 -b 8M -R",
        "-t 1 -b 4M -P 3",
        "-t 1 -b 4M -P 2 --bidir",
        "-t 1 -b 8M -O 1",
        "-n 5M",
        "-k 40 -R",
        "-t 1 -b 4M --get-server-output -T title --extra-data x -w 256K -M 1000",
        "-u -t 1 -b 1M -l 1000",
        "-u -t 1 -b 1M -l 1000 -R -P 2",
        "-u -t 1 -b 1M -l 600 --bidir --udp-counters-64bit",
        "-u -k 300 -b 20M -l 1000",
    ] {
        let words = format!("{words} -J");
        let (done, their) = std::thread::scope(|scope| {
            let their = theirs(other.ready(), &words);
            let their = scope.spawn(|| their.wait().json());
            (ours(one.ready(), &words), their.join().unwrap())
        });
        let our = done.exits(0).json();
        let (mut have, mut want) = (BTreeSet::new(), BTreeSet::new());
        shape(&our, "", &mut have);
        shape(&their, "", &mut want);
        let missing: Vec<&String> = want.difference(&have).collect();
        assert!(missing.is_empty(), "{words}: {missing:?}");
        let received = &our["end"]["sum_received"];
        assert!(number(&received["bytes"]) > 0, "{words}: {received}");
        // Over TCP an amount that we send arrives whole before the test ends.
        if (words.contains("-n") || words.contains("-k")) && !words.contains("-u") && !words.contains("-R") {
            assert_eq!(received["bytes"], our["end"]["sum_sent"]["bytes"], "{words}: {}", our["end"]);
        }
    }
}

#[test]
fn a_file_is_whole_at_the_original_server() {
    let name = "a_file_is_whole_at_the_original_server";
    let folder = Scratch::new();
    let (from, to) = (folder.file("sent"), folder.file("kept"));
    let Some(server) = real_server(name, &format!("-F {}", to.display())) else { return };
    // No multiple of a block, then fewer bytes than one.
    for length in [3_000_000_u32, 1_000] {
        let content: Vec<u8> =
            (0..length).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(&from, &content).unwrap();
        let _ = std::fs::remove_file(&to);
        let done = ours(server.ready(), &format!("-F {} -J", from.display())).exits(0);
        let end = &done.json()["end"];
        assert_eq!(number(&end["sum_sent"]["bytes"]), u64::from(length), "{end}");
        assert_eq!(number(&end["sum_received"]["bytes"]), u64::from(length), "{end}");
        assert!(std::fs::read(&to).unwrap() == content);
    }
}

#[test]
fn printed_reports_streams_of_documents_and_exit_codes() {
    let name = "printed_reports_streams_of_documents_and_exit_codes";
    let Some(server) = real_server(name, "") else { return };
    // Documents are in order.
    let done = ours(server.ready(), "-t 1 -i 0.5 -b 5M -l 8K --json-stream").exits(0);
    let names: Vec<String> = done
        .out
        .lines()
        .map(|line| text(&serde_json::from_str::<Value>(line).unwrap()["event"]).to_owned())
        .collect();
    assert_eq!((names.first().unwrap().as_str(), names.last().unwrap().as_str()), ("start", "end"));
    assert!(names[1..names.len() - 1].iter().all(|name| name == "interval") && names.len() > 2, "{names:?}");
    ours(server.ready(), "-t 1 -b 5M -P 2 -V").exits(0).prints(&[
        "iperf 3.21 (netcaliper ",
        "\nLinux ",
        "\nControl connection MSS ",
        "\nTime: ",
        "Connecting to host 127.0.0.1, port",
        "      Cookie: ",
        "      TCP MSS: ",
        "      Target Bitrate: 5000000\n",
        "connected to 127.0.0.1 port",
        "[SUM]",
        "receiver",
        "iperf Done.",
    ]);
    // Without -b, a test seldom ends where a block does: its last interval has retransmissions and
    // window all the same.
    let done = ours(server.ready(), "-t 1 --fq-rate 100M");
    let line =
        done.out.lines().find(|line| line.contains(" 0.00-")).unwrap_or_else(|| panic!("{}", done.tell()));
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [.., resent, window, unit] = columns[..] else { panic!("{line}") };
    assert!(
        resent.parse::<u64>().is_ok() && window.parse::<f64>().is_ok() && unit.ends_with("Bytes"),
        "{}",
        done.tell()
    );
    // A client that is interrupted says so and exits as 3.21 does.
    let client = ours_at_work(server.ready(), "");
    client.signal("INT");
    let done = client.wait().exits(0).complains(&["iperf3: interrupt - the client has terminated"]);
    assert!(done.out.contains("receiver") && !done.out.contains("iperf Done"), "{}", done.tell());
    let client = ours_at_work(server.ready(), "--json-stream-full-output");
    client.signal("INT");
    client.wait().exits(0).prints(&["interrupt - the client has terminated"]);
    drop(server);
    ours("1", "-t 1").exits(1);
    ours("1", "-t 1 -n 5").exits(1);
    let done = ours("1", "-t 1 -J").exits(1);
    assert!(done.json()["error"].is_string(), "{}", done.tell());
}

#[test]
fn the_native_report_about_an_iperf3_server() {
    let name = "the_native_report_about_an_iperf3_server";
    let Some(server) = real_server(name, "") else { return };
    let outcome = |verb: &str, words: &str| {
        let port = server.ready();
        let line = netcaliper(verb).arg("127.0.0.1").args(&format!("-p {port} --protocol iperf3 {words}"));
        line.outcome().exits(0)
    };
    for words in ["-t 1s -P 2 -b 4M", "-t 1s -P 2 -b 4M -R", "-t 1s -P 1 -b 4M --bidir"] {
        let outcome = outcome("tcp", words);
        for (way, there) in
            [("up", !words.contains("-R")), ("down", words.contains("-R") || words.contains("bidir"))]
        {
            let direction = &outcome.point()[way];
            assert_eq!(direction.is_object(), there, "{words}");
            if there {
                assert!(number(&direction["received_bytes"]) > 0, "{words}: {direction}");
                assert_eq!(direction["confirmed"], true, "{words}");
            }
        }
    }
    let outcome = outcome("delay", "-t 1s --pps 500 -l 200");
    let counts = &outcome.local()["packets"]["counts"];
    assert!(number(&counts["sent"]) > 400, "{counts}");
    assert!(outcome.local()["packets"]["delay_ns"].is_null(), "it is not known");
}

/// Our client in a long test, that has told of an interval.
fn ours_at_work(port: &str, words: &str) -> Proc {
    let client = our_client(port, &format!("-t 60 -i 0.2 -b 5M {words}"));
    client.hears(if words.is_empty() { "bits/sec" } else { "\"interval\"" });
    client
}

#[test]
fn a_server_that_is_killed_is_told_without_numbers() {
    let name = "a_server_that_is_killed_is_told_without_numbers";
    for words in ["", "--json-stream-full-output -R"] {
        let Some(server) = real_server(name, "") else { return };
        let client = ours_at_work(server.ready(), words);
        server.proc.signal("KILL");
        let done = client.wait().exits(1);
        let told = format!("{}{}", done.out, done.err);
        let about = ["closed a stream before the end", "closed unexpectedly", "connection broke", "reset"];
        assert!(about.iter().any(|what| told.contains(what)) && !told.contains("too few"), "{}", done.tell());
    }
}

/// The remote end's word and ours are the same, wherever they are about the same.
fn agree(document: &Value, words: &str) {
    let lines = |who: &str| document[who]["streams"].as_array().unwrap().clone();
    for (ours, theirs) in lines("ours").iter().zip(&lines("theirs")) {
        assert_eq!(ours["id"], theirs["id"], "{words}");
        let (a, b) = (number(&ours["bytes"]), number(&theirs["bytes"]));
        assert!(a > 0 && b > 0, "{words}: {ours} {theirs}");
    }
}

#[test]
fn our_client_and_a_server_that_is_not_the_original() {
    let name = "our_client_and_a_server_that_is_not_the_original";
    at_once(&["", "old", "split"], |how| {
        let Some(server) = peer(PEER, name, &format!("server {how}")) else { return };
        let port = server.port();
        for words in [
            "-t 1 -b 1M -l 1000",
            "-t 1 -b 1M -l 1000 -R -P 2",
            "-t 1 -b 1M -l 1000 --bidir",
            "-u -t 1 -b 1M -l 500",
            "-u -t 1 -b 1M -l 500 -R",
            "-n 100K -b 4M",
            "-k 300 -l 10000",
        ] {
            let done = ours(&port, &format!("{words} -J"));
            assert_eq!(done.code, Some(0), "{how}: {}", done.tell());
            assert!(number(&done.json()["end"]["sum_received"]["bytes"]) > 0, "{how} {words}");
        }
        server.hears_often("\"asked\"", 7);
        for line in server.out().lines().filter(|line| line.contains("\"asked\"")) {
            let document: Value = serde_json::from_str(line).unwrap();
            agree(&document, line);
            // What it has not read when the test ends it leaves.
            if number(&document["asked"]["num"]) + number(&document["asked"]["blockcount"]) > 0 {
                let bytes = |who: &str| number(&document[who]["streams"][0]["bytes"]);
                assert_eq!(bytes("ours"), bytes("theirs"), "{line}");
            }
        }
    });
}

#[test]
fn servers_that_lose_refuse_or_vanish_are_told_in_numbers_and_words() {
    let name = "servers_that_lose_refuse_or_vanish_are_told_in_numbers_and_words";
    let cases = [
        ("error=27", "larger than server limit (27)"),
        ("error=142", "authorization failed (142)"),
        ("error=999", "unknown error (999)"),
        ("vanish=params", "closed unexpectedly"),
        ("vanish=run", "control"),
        ("vanish=streams", "stream"),
        ("vanish=results", "closed unexpectedly"),
    ];
    let hows = cases.map(|(how, _)| how).join(" then ");
    let Some(server) = peer(PEER, name, &format!("server lose=5,6,20 then {hows}")) else { return };
    let port = server.port();
    let result = ours(&port, "-u -k 100 -b 1M -l 500 -R -J").json();
    let sum = &result["end"]["sum_received"];
    assert_eq!(number(&sum["lost_packets"]), 3, "{sum}");
    for (how, words) in cases {
        let done = ours(&port, "-t 1 -b 1M -l 1000");
        assert_eq!(done.code, Some(1), "{how}: {}", done.tell());
        assert!(done.err.contains("iperf3: error - ") && done.err.contains(words), "{how}: {}", done.tell());
    }
}

/// `-b RATE/BURST`: ten blocks leave at once, and the next ten when the rate has paid for them.
#[test]
fn a_burst_leaves_at_once_over_either_transport() {
    let (server, port) = iperf3::ours(|line| line);
    for (words, burst) in [
        // Ten blocks of 128 KiB are paid for in 2.1 s, so that in one second there is one burst.
        ("-t 1 -b 5M/10", 10 * 131_072),
        ("-t 1 -b 400K/10 -l 10K", 10 * 10_240),
        ("-u -t 1 -b 80K/10 -l 1400", 10 * 1_400),
        ("-R -t 1 -b 5M/10", 10 * 131_072),
        ("-R -u -t 1 -b 80K/10 -l 1400", 10 * 1_400),
    ] {
        let end = ours(&port, &format!("{words} -J")).exits(0).json()["end"].clone();
        let sum = if words.contains("-R") { "sum_received" } else { "sum_sent" };
        assert_eq!(number(&end[sum]["bytes"]), burst, "{words}: {end}");
    }
    drop(server);
}

#[test]
fn our_server_and_a_client_that_is_not_the_original() {
    let name = "our_server_and_a_client_that_is_not_the_original";
    let (server, port) = iperf3::ours(|line| line);
    let cases = [
        "bandwidth=1000000",
        "bandwidth=1000000 reverse=1 parallel=2",
        "bandwidth=1000000 bidirectional=1",
        "udp=1 bandwidth=1000000 len=500",
        "udp=1 bandwidth=1000000 len=500 reverse=1",
        "udp=1 bandwidth=1000000 len=500 bidirectional=1 parallel=2",
    ];
    let words = cases.join(" then ");
    let Some(client) = peer(PEER, name, &format!("client {port} {words}")) else { return };
    let done = client.wait().exits(0);
    assert_eq!(done.out.lines().count(), cases.len(), "{}", done.tell());
    for (line, words) in done.out.lines().zip(cases) {
        let document: Value = serde_json::from_str(line).unwrap();
        agree(&document, words);
        if words.contains("udp") {
            for line in document["theirs"]["streams"].as_array().unwrap() {
                assert_eq!(number(&line["errors"]), 0, "{words}: {line}");
            }
        }
    }
    server.signal("INT");
    assert_eq!(server.wait().code, Some(0));
}
