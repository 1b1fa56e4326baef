//! ctsTraffic over TCP against an independent peer: `peers/ctstraffic.py`, written from a description of the protocol with
//! Python's standard library. Clients are the real binary; the server is the engine's, as the binary runs it.

use crate::support::files::Scratch;
use crate::support::ours::server_of_ours;
use crate::support::{Outcome, Proc, number, tcp, text};
use model::{Burst, Failure, Pattern, Phase, Range, Status};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// The peer in a role, or `None` (and a skip on record) where there is no Python.
fn peer(test: &str, role: &str, address: &str, port: u16, settings: &str) -> Option<Proc> {
    crate::support::peer::peer("ctstraffic.py", test, &format!("{role} {address} {port} {settings}"))
}

/// A Python server and its port.
fn peer_server(test: &str, settings: &str) -> Option<(Proc, u16)> {
    let server = peer(test, "server", "127.0.0.1", 0, settings)?;
    let port = server.port().parse().unwrap();
    Some((server, port))
}

/// What a peer said of its connections.
fn lines(peer: Proc) -> Vec<Value> {
    let done = peer.wait().exits(0);
    done.out.lines().filter(|l| l.starts_with('{')).map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn phase(pattern: Pattern, transfer: u64) -> Phase {
    Phase {
        pattern,
        transfer,
        duration_ns: None,
        buffer: Range::just(65_536),
        stall_ns: 3_000 * MS,
        interval_ns: 100 * MS,
        ..Phase::default()
    }
}

/// Name, our pattern, and payload client to server and back of 300,001 bytes: duplex rounds up, push-pull takes turns of
/// 50,000 and 30,000, the client first: 4 times 50,000 up, 3 times 30,000 and 10,001 down.
const PATTERNS: [(&str, Pattern, u64, u64); 4] = [
    ("push", Pattern::Push, 300_001, 0),
    ("pull", Pattern::Pull, 0, 300_001),
    ("duplex", Pattern::Duplex, 150_001, 150_001),
    ("pushpull", Pattern::PushPull { push: 50_000, pull: 30_000 }, 200_000, 100_001),
];

#[test]
fn our_client_against_a_foreign_server() {
    for (name, _, up, down) in PATTERNS {
        for (shutdown, settings) in [("graceful", ""), ("rude", "buffer=1001"), ("graceful", "fault=pieces")]
        {
            let common =
                format!("pattern={name} transfer=300001 push=50000 pull=30000 connections=6 {settings}");
            let Some((server, port)) = peer_server("our_client_against_a_foreign_server", &common) else {
                return;
            };
            let line = format!(
                "--protocol ctstraffic -p {port} --pattern {name} --push-bytes 50000 --pull-bytes 30000 \
                 --transfer 300001 -P 3 --iterations 2 -l 65536 --shutdown {shutdown}"
            );
            let outcome = tcp("127.0.0.1").args(&line).outcome().exits(0).status("complete");
            let theirs = lines(server);
            assert_eq!(theirs.len(), 6);
            for connection in outcome.connections() {
                assert_eq!(connection["result"], "completed");
                assert_eq!((number(&connection["tx_bytes"]), number(&connection["rx_bytes"])), (up, down));
                let same =
                    theirs.iter().find(|t| t["id"] == connection["id"]).expect("both know the identifier");
                assert_eq!((number(&same["sent"]), number(&same["received"])), (down, up), "{name}");
                assert_eq!(same["result"], "ok", "{name} {shutdown} {settings}: {same}");
            }
            let local = outcome.local();
            assert_eq!(number(&local["traffic"]["tx_bytes"]), 6 * up);
            assert_eq!(number(&local["traffic"]["rx_bytes"]), 6 * down);
            assert_eq!(number(&local["framing"]["rx_bytes"]), 6 * 41, "identifier and completion");
            if up > 0 {
                assert!(
                    outcome.caveats("unconfirmed").contains("ctstraffic"),
                    "{}",
                    outcome.caveats("unconfirmed")
                );
            }
        }
    }
}

#[test]
fn a_foreign_client_against_our_server() {
    for (name, pattern, up, down) in PATTERNS {
        for settings in ["", "rude=1", "fault=reset", "buffer=777"] {
            let ours = server_of_ours(phase(pattern, 300_001), Some(3));
            let set =
                format!("pattern={name} transfer=300001 push=50000 pull=30000 connections=3 {settings}");
            let Some(client) =
                peer("a_foreign_client_against_our_server", "client", "127.0.0.1", ours.port, &set)
            else {
                ours.interrupt.ask();
                return;
            };
            let theirs = lines(client);
            let story = ours.story();
            assert_eq!(story.status, Status::Complete, "it ends after three connections");
            assert_eq!(story.records.len(), 3);
            for record in &story.records {
                assert_eq!(record.error, None, "{name} {settings}");
                assert_eq!((record.tx_bytes, record.rx_bytes), (down, up));
                let same =
                    theirs.iter().find(|t| *text(&t["id"]) == record.id.to_string()).expect("the identifier");
                assert_eq!((number(&same["sent"]), number(&same["received"])), (up, down));
                assert_eq!(same["result"], "ok");
            }
            assert_eq!((story.local.completed, story.local.framing.tx_bytes), (3, 3 * 41));
        }
    }
}

/// The only connection of an outcome.
fn only(outcome: &Outcome) -> (String, String) {
    let [one] = outcome.connections() else { panic!("one connection was expected: {}", outcome.tell()) };
    let why = one["failure"]["why"].as_str().unwrap_or("none").to_owned();
    (why, one["error"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn our_client_finds_what_a_server_does_wrong() {
    // Settings of the foreign server, arguments of ours, how it fails, in words, and whether the server must
    // notice: it takes a reset for an end once it has sent all.
    for (theirs, args, why, words, noticed) in [
        ("pattern=pull fault=flip:70000", "--pattern pull", "bad_data", "wrong data at offset 70000", false),
        ("pattern=duplex fault=flip:9", "--pattern duplex", "bad_data", "wrong data at offset 9", false),
        ("pattern=push fault=stray", "--pattern push", "too_many", "after its DONE", false),
        ("pattern=push fault=reset", "--pattern push", "system", "reset", false),
        ("pattern=pull transfer=150000", "--pattern pull", "too_few", "the server says DONE", false),
        (
            "pattern=pull transfer=50000",
            "--pattern pull --verify connection",
            "stalled",
            "50004 of 100000",
            false,
        ),
        ("pattern=push transfer=150000", "--pattern push", "stalled", "its transfer may be larger", true),
        ("pattern=pull", "--pattern push --transfer 100", "too_few", "its pattern another", true),
    ] {
        let set = format!("transfer=100000 {theirs}");
        let Some((server, port)) = peer_server("our_client_finds_what_a_server_does_wrong", &set) else {
            return;
        };
        let transfer =
            if theirs.contains("transfer=150000") && args.contains("pull") { 200_000 } else { 100_000 };
        let args = if args.contains("--transfer") {
            args.to_owned()
        } else {
            format!("{args} --transfer {transfer}")
        };
        let line = format!("--protocol ctstraffic -p {port} -P 1 --iterations 1 --stall-timeout 2s {args}");
        let outcome = tcp("127.0.0.1").args(&line).outcome().exits(1);
        let (how, error) = only(&outcome);
        assert_eq!(how, why, "{theirs} {args}: {error}");
        assert!(error.contains(words), "{theirs} {args}: {error}");
        let said = lines(server);
        let result = text(&said[0]["result"]);
        assert!(!noticed || result != "ok", "{theirs} {args}: the server says {result}");
    }
}

#[test]
fn our_server_finds_what_a_client_does_wrong() {
    for (pattern, transfer, theirs, why, words) in [
        (
            Pattern::Push,
            100_000,
            "pattern=push fault=flip:70000",
            Failure::BadData,
            "wrong data at offset 70000",
        ),
        (Pattern::Push, 100_000, "pattern=push fault=stray", Failure::TooMany, "too many bytes"),
        (Pattern::Push, 60_000, "pattern=push", Failure::TooMany, "the client's transfer may be larger"),
        (Pattern::Push, 160_000, "pattern=push", Failure::Stalled, "100000 of 160000 bytes have come"),
        (Pattern::Push, 100_000, "pattern=pull", Failure::Stalled, "0 of 100000 bytes have come"),
        (Pattern::Pull, 100, "pattern=push transfer=100", Failure::TooMany, "pattern another"),
        (Pattern::Duplex, 255, "pattern=duplex transfer=255 fault=flip:127", Failure::BadData, "offset 127"),
    ] {
        let ours = server_of_ours(phase(pattern, transfer), Some(1));
        let set = format!("transfer=100000 {theirs}");
        let test = "our_server_finds_what_a_client_does_wrong";
        let Some(client) = peer(test, "client", "127.0.0.1", ours.port, &set) else {
            ours.interrupt.ask();
            return;
        };
        let said = lines(client);
        assert_ne!(said[0]["result"], "ok", "{theirs}");
        let story = ours.story();
        let [record] = &story.records[..] else { panic!("{theirs}: {:?}", story.records) };
        assert_eq!(record.failure, Some(why), "{theirs}: {:?}", record.error);
        let error = record.error.clone().unwrap();
        assert!(error.contains(words), "{theirs}: {error}");
    }
}

#[test]
fn our_two_ends_with_everything_set() {
    let burst = Some(Burst { count: 2, delay_ns: 20 * MS });
    for (args, server) in [
        (
            "--transfer 255 -P 15 --iterations 20 --shutdown rude --pattern duplex",
            phase(Pattern::Duplex, 255),
        ),
        (
            "--transfer 9999 -P 2 --iterations 2 --burst 2 --burst-delay 20ms -l 1000",
            phase(Pattern::Push, 9_999),
        ),
        (
            "--transfer 9999 -P 2 --iterations 2 --pattern pull",
            Phase { burst, ..phase(Pattern::Pull, 9_999) },
        ),
        ("--transfer 300000 -P 2 --iterations 2 -l [1,70000] -b 40M", phase(Pattern::Push, 300_000)),
        ("--transfer 300000 -P 2 --iterations 2 --shutdown random --verify none --pattern pull", {
            let rate = Some(16_000_000);
            Phase { rate, rate_period_ns: Some(10 * MS), ..phase(Pattern::Pull, 300_000) }
        }),
    ] {
        let ours = server_of_ours(server.clone(), None);
        let line = format!("--protocol ctstraffic -p {} {args}", ours.port);
        let outcome = tcp("127.0.0.1").args(&line).outcome().exits(0).status("complete");
        let connections = number(&outcome.local()["opened"]);
        let (up, down) = server.pattern.split(server.transfer);
        assert_eq!(number(&outcome.local()["traffic"]["tx_bytes"]), connections * up, "{args}");
        assert_eq!(number(&outcome.local()["traffic"]["rx_bytes"]), connections * down, "{args}");
        ours.end_after(connections);
        let story = ours.story();
        assert_eq!((story.status, story.local.completed), (Status::Interrupted, connections), "{args}");
        assert_eq!(
            (story.local.traffic.tx_bytes, story.local.traffic.rx_bytes),
            (connections * down, connections * up)
        );
    }
}

#[test]
fn what_the_protocol_cannot_do_is_said_before_anything_is_opened() {
    for (args, words) in [
        ("-n 1M", "cannot end after a number of bytes"),
        ("--payload random", "has one payload"),
        ("--exclusive", "cannot ask a server to exclude others"),
        ("--protocol nonsense", "'nonsense' is not a protocol: it must be one of native, iperf3, ctstraffic"),
    ] {
        let protocol = if args.contains("--protocol") { "" } else { "--protocol ctstraffic" };
        tcp("127.0.0.1").args(protocol).args(args).run().exits(2).complains(&[words]);
    }
    let line = tcp("127.0.0.1").args("--protocol ctstraffic -t 1s");
    let key = line.env("NETCALIPER_PSK", "a key that is long enough").run();
    key.exits(2).complains(&["knows no pre-shared key"]).says_one_sentence();
    // Port 4444 is the default; nothing listens on this address.
    tcp("127.4.4.4").args("--protocol ctstraffic -t 300ms -P 1").run().exits(1).prints(&["127.4.4.4:4444"]);
}

#[test]
fn a_time_limit_and_an_interrupt_end_a_client_with_its_figures() {
    let ours = server_of_ours(phase(Pattern::Push, 1 << 40), None);
    let line = format!("--protocol ctstraffic -p {} -P 2 --transfer 1Ti -b 20M -t 700ms -i 100ms", ours.port);
    let outcome = tcp("127.0.0.1").args(&line).outcome().exits(0).status("complete");
    assert_eq!((number(&outcome.local()["stopped"]), number(&outcome.local()["opened"])), (2, 2));
    let sent = number(&outcome.local()["traffic"]["tx_bytes"]);
    assert!(sent > 0);
    let scratch = Scratch::new();
    let line = line.replace("700ms", "60s");
    let client = tcp("127.0.0.1").args(&line).arg("--save").arg(scratch.file("run.jsonl")).spawn();
    crate::support::eventually("intervals in the journal", || {
        let text = scratch.so_far("run.jsonl");
        text.matches("\"event\":\"interval\"").count() >= 2
    });
    client.signal("INT");
    client.wait().exits(130).prints(&["interrupted"]);
    ours.end_after(4);
    let story = ours.story();
    assert_eq!((story.local.opened, story.local.network_errors), (4, 4), "to the server these were resets");
}
