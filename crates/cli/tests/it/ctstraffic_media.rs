//! ctsTraffic's media stream against an independent peer: `peers/ctstraffic_udp.py`, written from a
//! description of the protocol with Python's standard library. Clients are the real binary with our
//! own command line, the server is the engine's.

use crate::support::net::free_port;
use crate::support::ours::{Ours, Story, server_of_ours_at};
use crate::support::peer::{peer, services};
use crate::support::{Outcome, Proc, netcaliper, number, text};
use metrics::Frames;
use model::{Kind, Media, Pattern, Phase, Status};
use serde_json::Value;
use std::net::IpAddr;

const PEER: &str = "ctstraffic_udp.py";
const MS: u64 = 1_000_000;

/// What a peer said of the stream of each case.
fn lines(peer: Proc, cases: usize) -> Vec<Value> {
    let done = peer.wait().exits(0);
    let said = done.out.lines().filter(|l| l.starts_with('{'));
    let mut all: Vec<Value> = said.map(|l| serde_json::from_str(l).unwrap()).collect();
    all.sort_by_key(|one| number(&one["case"]));
    assert_eq!(all.len(), cases, "{}", done.tell());
    all
}

/// 2 Mbit/s in 20 frames a second for 2 s: 40 frames of 12,500 bytes, 9 datagrams each, held long
/// enough for a host that is busy with other things to come round.
const SETTINGS: &str = "rate=2000000 fps=20 seconds=2";
const ARGS: &str = "--protocol ctstraffic --rate 2M --fps 20 -i 500ms";
const LENGTH: &str = "--length 2s --depth 4s";

fn media() -> Media {
    Media::new(2_000_000, 20, 2, 1, 1_400).unwrap()
}

/// Streams of ours, successful or not, from another program's server with these settings, and our
/// arguments.
fn watch(test: &str, cases: &[(&str, &str)]) -> Option<Vec<(Outcome, Value)>> {
    let settings: Vec<String> =
        cases.iter().map(|(set, _)| format!("127.0.0.1 0 {SETTINGS} {set}")).collect();
    let (server, at) = services(PEER, test, "server", &settings)?;
    let client =
        |at: &str, args: &str| netcaliper("stream").args(&format!("{at} {ARGS} {args} --json")).spawn();
    let clients: Vec<Proc> = cases.iter().zip(&at).map(|((_, args), at)| client(at, args)).collect();
    let outcomes: Vec<Outcome> = clients.into_iter().map(|client| Outcome::of(client.wait())).collect();
    Some(outcomes.into_iter().zip(lines(server, cases.len())).collect())
}

fn frames(outcome: &Outcome) -> (u64, u64, u64, u64) {
    let frames = &outcome.local()["frames"];
    let of = |name: &str| number(&frames[name]);
    (of("completed"), of("dropped"), of("repeated"), of("errors"))
}

#[test]
fn our_client_watches_a_foreign_server() {
    let test = "our_client_watches_a_foreign_server";
    let good = format!("{LENGTH} --connection-csv /dev/null");
    // Of a frame that lost a datagram nothing is shown; one of which a datagram came twice is too
    // long. Frame 150 comes at the very start, when frames up to 120 are waited for (twice 3 s): 9
    // datagrams of no use.
    let cases = [
        ("", good.as_str()),
        ("fault=drop:7", LENGTH),
        ("fault=double:7", LENGTH),
        ("seconds=8 fault=early:150", "--length 8s --depth 3s"),
    ];
    let wanted = [(40, 0, 0, 0), (39, 1, 0, 0), (39, 0, 1, 0), (159, 1, 0, 9)];
    let Some(streams) = watch(test, &cases) else { return };
    for (((fault, _), want), (outcome, theirs)) in cases.into_iter().zip(wanted).zip(streams) {
        let outcome = outcome.exits(0);
        assert_eq!(frames(&outcome), want, "{fault}: {}", outcome.tell());
        if fault.is_empty() {
            let outcome = outcome.status("complete");
            assert_eq!(number(&outcome.local()["traffic"]["rx_bytes"]), 40 * 12_500);
            let [one] = outcome.connections() else { panic!("{}", outcome.tell()) };
            assert_eq!(one["id"], theirs["id"], "both know the identifier");
            assert_eq!(number(&one["frames"]["completed"]), 40);
        }
    }
}

#[test]
fn our_client_ends_a_stream_that_is_wrong() {
    let test = "our_client_ends_a_stream_that_is_wrong";
    let cases = [("fault=flip:5", LENGTH), ("fault=flag:5", LENGTH), ("fault=silent", LENGTH)];
    let words = [
        "wrong data at offset 14",
        "a datagram of 1400 bytes is none of ctsTraffic's",
        "nothing arrived before the first frame was to be shown",
    ];
    let Some(streams) = watch(test, &cases) else { return };
    for (((fault, _), words), (outcome, _)) in cases.into_iter().zip(words).zip(streams) {
        // Frames arrived before the datagrams of another program.
        let outcome = outcome.exits(if fault == "fault=flag:5" { 4 } else { 1 });
        assert_eq!(number(&outcome.local()["data_errors"]), 1, "{fault}: {}", outcome.tell());
        let first = text(&outcome.local()["causes"][0]["first"]);
        assert!(first.contains(words), "{fault}: {first}");
    }
    // A closed port: the system reports it at once.
    let line = netcaliper("stream").args(&format!("127.0.0.1 {ARGS} {LENGTH} -p {}", free_port()));
    let outcome = line.outcome().exits(1);
    assert_eq!(number(&outcome.local()["network_errors"]), 1);
    let failure = &outcome.connections()[0]["failure"];
    assert_eq!((text(&failure["why"]), number(&failure["errno"])), ("system", 111), "{failure}");
}

/// A server of these streams, at this address.
fn our_server(listen: IpAddr, exit_after: Option<u64>) -> Ours {
    let phase = Phase {
        kind: Kind::Stream,
        pattern: Pattern::Pull,
        media: Some(media()),
        duration_ns: None,
        interval_ns: 200 * MS,
        ..Phase::default()
    };
    server_of_ours_at(listen, phase, exit_after)
}

#[test]
fn our_server_streams_to_a_foreign_client() {
    let test = "our_server_streams_to_a_foreign_client";
    let (mut servers, mut cases) = (Vec::new(), Vec::new());
    for (listen, address) in [("0.0.0.0", "127.0.0.1"), ("::1", "::1")] {
        for (fault, repeated) in [("", 0), ("fault=again", 2), ("fault=nonsense", 0)] {
            let ours = our_server(listen.parse().unwrap(), Some(1));
            cases.push(format!("{address} {} {SETTINGS} {fault}", ours.port));
            servers.push((ours, repeated));
        }
    }
    let Some(client) = peer(PEER, test, &format!("client {}", cases.join(" / "))) else {
        return servers.iter().for_each(|(ours, _)| ours.interrupt.ask());
    };
    let said = lines(client, cases.len());
    for (((ours, repeated), case), theirs) in servers.into_iter().zip(cases).zip(said) {
        let Story { records, local, status } = ours.story();
        assert_eq!(status, Status::Complete, "it ends after one stream: {case}");
        assert_eq!((text(&theirs["result"]), number(&theirs["whole"])), ("ok", 40), "{case}: {theirs}");
        assert_eq!(number(&theirs["bytes"]), 40 * 12_500, "{case}");
        // About 2 s of 100 ns ticks.
        assert!((19_000_000..40_000_000).contains(&number(&theirs["ticks"])), "{case}: {theirs}");
        assert_eq!(records.len(), 1, "{case}");
        assert_eq!(records[0].id.to_string(), text(&theirs["id"]), "{case}");
        let sent = (records[0].tx_bytes, records[0].frames);
        assert_eq!(sent, (40 * 12_500, Some(Frames::default())), "{case}");
        // Each further START counts once.
        assert_eq!(local.frames.map(|f| f.repeated), Some(repeated), "{case}");
    }
}

#[test]
fn our_two_ends_with_many_streams() {
    let ours = our_server("127.0.0.1".parse().unwrap(), None);
    let words = format!("127.0.0.1 {ARGS} {LENGTH} -p {} -P 10 --iterations 2", ours.port);
    let outcome = netcaliper("stream").args(&words).outcome().exits(0).status("complete");
    assert_eq!(frames(&outcome), (20 * 40, 0, 0, 0), "{}", outcome.tell());
    assert_eq!(number(&outcome.local()["traffic"]["rx_bytes"]), 20 * 40 * 12_500);
    ours.end_after(20);
    let Story { records, local, .. } = ours.story();
    assert_eq!((records.len(), local.completed, local.traffic.tx_bytes), (20, 20, 20 * 40 * 12_500));
}
