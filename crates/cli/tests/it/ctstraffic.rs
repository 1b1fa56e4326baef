//! ctsTraffic over TCP against an independent peer: `peers/ctstraffic.py`, written from a
//! description of the protocol with Python's standard library. Clients are the real binary; the
//! server is the engine's, as the binary runs it.

use crate::support::files::Scratch;
use crate::support::ours::{Ours, server_of_ours};
use crate::support::peer::{peer, services};
use crate::support::{Proc, number, tcp, text};
use model::{Burst, Failure, Pattern, Phase, Range, Status};
use serde_json::Value;

const PEER: &str = "ctstraffic.py";
const MS: u64 = 1_000_000;

/// What a peer said of the connections of each case.
fn lines(peer: Proc, cases: usize) -> Vec<Vec<Value>> {
    let done = peer.wait().exits(0);
    let mut all = vec![vec![]; cases];
    for line in done.out.lines().filter(|l| l.starts_with('{')) {
        let said: Value = serde_json::from_str(line).unwrap();
        all[number(&said["case"]) as usize].push(said);
    }
    assert!(all.iter().all(|case| !case.is_empty()), "{}", done.tell());
    all
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

/// Name, our pattern, and payload client to server and back of 300,001 bytes: duplex rounds up,
/// push-pull takes turns of 50,000 and 30,000, the client first: 4 times 50,000 up, 3 times 30,000
/// and 10,001 down.
const PATTERNS: [(&str, Pattern, u64, u64); 4] = [
    ("push", Pattern::Push, 300_001, 0),
    ("pull", Pattern::Pull, 0, 300_001),
    ("duplex", Pattern::Duplex, 150_001, 150_001),
    ("pushpull", Pattern::PushPull { push: 50_000, pull: 30_000 }, 200_000, 100_001),
];

#[test]
fn our_client_against_a_foreign_server() {
    let test = "our_client_against_a_foreign_server";
    let (mut cases, mut sets) = (Vec::new(), Vec::new());
    for (name, _, up, down) in PATTERNS {
        for (shutdown, more) in [("graceful", ""), ("rude", "buffer=1001"), ("graceful", "fault=pieces")] {
            sets.push(format!(
                "127.0.0.1 0 pattern={name} transfer=300001 push=50000 pull=30000 connections=6 {more}"
            ));
            cases.push((name, up, down, shutdown, more));
        }
    }
    let Some((server, at)) = services(PEER, test, "server", &sets) else { return };
    let mut outcomes = Vec::new();
    for ((name, _, _, shutdown, _), at) in cases.iter().zip(at) {
        let line = format!(
            "--protocol ctstraffic --pattern {name} --push-bytes 50000 --pull-bytes 30000 \
             --transfer 300001 -P 3 --iterations 2 -l 65536 --shutdown {shutdown}"
        );
        outcomes.push(tcp(at).args(&line).outcome().exits(0).status("complete"));
    }
    let said = lines(server, cases.len());
    for (((name, up, down, shutdown, more), outcome), theirs) in cases.into_iter().zip(outcomes).zip(said) {
        let case = format!("{name} {shutdown} {more}");
        assert_eq!(theirs.len(), 6, "{case}");
        for connection in outcome.connections() {
            assert_eq!(connection["result"], "completed", "{case}");
            let moved = [&connection["tx_bytes"], &connection["rx_bytes"]].map(number);
            assert_eq!(moved, [up, down], "{case}");
            let same = theirs.iter().find(|t| t["id"] == connection["id"]).expect("both know the identifier");
            assert_eq!([&same["sent"], &same["received"]].map(number), [down, up], "{case}");
            assert_eq!(same["result"], "ok", "{case}: {same}");
        }
        let local = outcome.local();
        let moved = [&local["traffic"]["tx_bytes"], &local["traffic"]["rx_bytes"]].map(number);
        assert_eq!(moved, [6 * up, 6 * down], "{case}");
        assert_eq!(number(&local["framing"]["rx_bytes"]), 6 * 41, "identifier and completion: {case}");
        if up > 0 {
            let caveat = outcome.caveats("unconfirmed");
            assert!(caveat.contains("ctstraffic"), "{case}: {caveat}");
        }
    }
}

#[test]
fn a_foreign_client_against_our_server() {
    let test = "a_foreign_client_against_our_server";
    let (mut cases, mut ours) = (Vec::new(), Vec::new());
    for (name, pattern, up, down) in PATTERNS {
        for more in ["", "rude=1", "fault=reset", "buffer=777"] {
            let set = format!("pattern={name} transfer=300001 push=50000 pull=30000 connections=3 {more}");
            cases.push((up, down, set));
            ours.push(server_of_ours(phase(pattern, 300_001), Some(3)));
        }
    }
    let Some(said) = clients(test, &ours, cases.iter().map(|(.., set)| set)) else { return };
    for (((up, down, case), ours), theirs) in cases.into_iter().zip(ours).zip(said) {
        let story = ours.story();
        assert_eq!(story.status, Status::Complete, "it ends after three connections: {case}");
        assert_eq!(story.records.len(), 3, "{case}");
        for record in &story.records {
            assert_eq!(record.error, None, "{case}");
            assert_eq!((record.tx_bytes, record.rx_bytes), (down, up), "{case}");
            let same =
                theirs.iter().find(|t| *text(&t["id"]) == record.id.to_string()).expect("the identifier");
            assert_eq!([&same["sent"], &same["received"]].map(number), [up, down], "{case}");
            assert_eq!(same["result"], "ok", "{case}");
        }
        assert_eq!((story.local.completed, story.local.framing.tx_bytes), (3, 3 * 41), "{case}");
    }
}

/// What a Python client said that went to each of these servers, one after another, with its
/// settings.
fn clients<'a>(
    test: &str,
    servers: &[Ours],
    settings: impl Iterator<Item = &'a String>,
) -> Option<Vec<Vec<Value>>> {
    let case = |(ours, set): (&Ours, &String)| format!("127.0.0.1 {} {set}", ours.port);
    let cases: Vec<String> = servers.iter().zip(settings).map(case).collect();
    let client = peer(PEER, test, &format!("client {}", cases.join(" / ")));
    if client.is_none() {
        for ours in servers {
            ours.interrupt.ask();
        }
    }
    Some(lines(client?, cases.len()))
}

#[test]
fn our_client_finds_what_a_server_does_wrong() {
    let test = "our_client_finds_what_a_server_does_wrong";
    // Settings of the foreign server, arguments of ours, how it fails, in words, and whether the
    // server must notice: it takes a reset for an end once it has sent all.
    let cases = [
        ("pull fault=flip:70000", "pull --transfer 100000", "bad_data", "wrong data at offset 70000", false),
        ("duplex fault=flip:9", "duplex --transfer 100000", "bad_data", "wrong data at offset 9", false),
        ("push fault=stray", "push --transfer 100000", "too_many", "after its DONE", false),
        ("push fault=reset", "push --transfer 100000", "system", "reset", false),
        ("pull transfer=150000", "pull --transfer 200000", "too_few", "the server says DONE", false),
        (
            "pull transfer=50000",
            "pull --verify connection --transfer 100000",
            "stalled",
            "50004 of 100000",
            false,
        ),
        ("push transfer=150000", "push --transfer 100000", "stalled", "its transfer may be larger", true),
        ("pull", "push --transfer 100", "too_few", "its pattern another", true),
    ];
    let sets = cases.map(|(theirs, ..)| format!("127.0.0.1 0 transfer=100000 pattern={theirs}"));
    let Some((server, at)) = services(PEER, test, "server", &sets) else { return };
    for ((theirs, args, why, words, _), at) in cases.into_iter().zip(at) {
        let line = format!("--protocol ctstraffic -P 1 --iterations 1 --stall-timeout 2s --pattern {args}");
        // Damage is a finding about a path that carried it; a connection that broke is half a result.
        let code = if ["bad_data", "too_many"].contains(&why) { 1 } else { 4 };
        let outcome = tcp(at).args(&line).outcome().exits(code);
        let [one] = outcome.connections() else { panic!("{theirs} {args}: {}", outcome.tell()) };
        let error = one["error"].as_str().unwrap_or_default();
        assert_eq!(one["failure"]["why"].as_str(), Some(why), "{theirs} {args}: {error}");
        assert!(error.contains(words), "{theirs} {args}: {error}");
    }
    for ((theirs, args, .., noticed), said) in cases.into_iter().zip(lines(server, cases.len())) {
        let result = text(&said[0]["result"]);
        assert!(!noticed || result != "ok", "{theirs} {args}: the server says {result}");
    }
}

#[test]
fn our_server_finds_what_a_client_does_wrong() {
    let test = "our_server_finds_what_a_client_does_wrong";
    let (push, pull, duplex) = (Pattern::Push, Pattern::Pull, Pattern::Duplex);
    let cases = [
        (push, 100_000, "push fault=flip:70000", Failure::BadData, "wrong data at offset 70000"),
        (push, 100_000, "push fault=stray", Failure::TooMany, "too many bytes"),
        (push, 60_000, "push", Failure::TooMany, "the client's transfer may be larger"),
        (push, 160_000, "push", Failure::Stalled, "100000 of 160000 bytes have arrived"),
        (push, 100_000, "pull", Failure::Stalled, "0 of 100000 bytes have arrived"),
        (pull, 100, "push transfer=100", Failure::TooMany, "pattern another"),
        (duplex, 255, "duplex transfer=255 fault=flip:127", Failure::BadData, "offset 127"),
    ];
    let settings = cases.each_ref().map(|(_, _, theirs, ..)| format!("transfer=100000 pattern={theirs}"));
    let ours = cases.each_ref().map(|(pattern, transfer, ..)| {
        let phase = phase(*pattern, *transfer);
        server_of_ours(phase, Some(1))
    });
    let Some(said) = clients(test, &ours, settings.iter()) else { return };
    for (((_, _, theirs, why, words), ours), said) in cases.into_iter().zip(ours).zip(said) {
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
    let (rate, rate_period_ns) = (Some(16_000_000), Some(10 * MS));
    let paced = Phase { rate, rate_period_ns, ..phase(Pattern::Pull, 300_000) };
    for (args, server) in [
        ("-P 15 --iterations 20 --shutdown rude --pattern duplex", phase(Pattern::Duplex, 255)),
        ("-P 2 --iterations 2 --burst 2 --burst-delay 20ms -l 1000", phase(Pattern::Push, 9_999)),
        ("-P 2 --iterations 2 --pattern pull", Phase { burst, ..phase(Pattern::Pull, 9_999) }),
        ("-P 2 --iterations 2 -l [1,70000] -b 40M", phase(Pattern::Push, 300_000)),
        ("-P 2 --iterations 2 --shutdown random --verify none --pattern pull", paced),
    ] {
        let ours = server_of_ours(server.clone(), None);
        let line = format!("--protocol ctstraffic -p {} --transfer {} {args}", ours.port, server.transfer);
        let outcome = tcp("127.0.0.1").args(&line).outcome().exits(0).status("complete");
        let connections = number(&outcome.local()["opened"]);
        let (up, down) = server.pattern.split(server.transfer);
        let moved = &outcome.local()["traffic"];
        let moved = [&moved["tx_bytes"], &moved["rx_bytes"]].map(number);
        assert_eq!(moved, [connections * up, connections * down], "{args}");
        ours.end_after(connections);
        let story = ours.story();
        assert_eq!((story.status, story.local.completed), (Status::Interrupted, connections), "{args}");
        let moved = [story.local.traffic.tx_bytes, story.local.traffic.rx_bytes];
        assert_eq!(moved, [connections * down, connections * up], "{args}");
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
    scratch.hears_intervals("run.jsonl", 2);
    client.signal("INT");
    client.wait().exits(130).prints(&["interrupted"]);
    ours.end_after(4);
    let story = ours.story();
    assert_eq!((story.local.opened, story.local.network_errors), (4, 4), "to the server these were resets");
}
