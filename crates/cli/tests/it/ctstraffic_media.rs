//! ctsTraffic's media stream against an independent peer: `peers/ctstraffic_udp.py`, written from a description of the protocol
//! with Python's standard library. Clients are the real binary with our own command line, the server is the engine's.

use crate::support::ours::{Ours, Story, server_of_ours_at};
use crate::support::{Outcome, Proc, netcaliper, number, text};
use metrics::Frames;
use model::{Kind, Media, Pattern, Phase, Status};
use serde_json::Value;
use std::net::IpAddr;

const MS: u64 = 1_000_000;

/// The peer in a role, or `None` (and a skip on record) where there is no Python.
fn peer(test: &str, role: &str, address: &str, port: u16, settings: &str) -> Option<Proc> {
    crate::support::peer::peer("ctstraffic_udp.py", test, &format!("{role} {address} {port} {settings}"))
}

/// What a peer said of its streams.
fn lines(peer: Proc) -> Vec<Value> {
    let done = peer.wait().exits(0);
    done.out.lines().filter(|l| l.starts_with('{')).map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// 2 Mbit/s in 20 frames a second for 2 s: 40 frames of 12,500 bytes, 9 datagrams each, held long enough for a host
/// that is busy with other things to come round.
const SETTINGS: &str = "rate=2000000 fps=20 seconds=2";
const ARGS: &str = "--protocol ctstraffic --rate 2M --fps 20 -i 500ms";
const LENGTH: &str = "--length 2s --depth 4s";

fn media() -> Media {
    Media::new(2_000_000, 20, 2, 1, 1_400).unwrap()
}

/// A stream of ours from another program's server, successful or not.
fn watch(test: &str, fault: &str, args: &str) -> Option<(Outcome, Vec<Value>)> {
    let server = peer(test, "server", "127.0.0.1", 0, &format!("{SETTINGS} {fault}"))?;
    let port = server.port();
    let line = netcaliper("stream").args("127.0.0.1").args(ARGS).args(&format!("-p {port} {args}"));
    Some((line.outcome(), lines(server)))
}

fn frames(outcome: &Outcome) -> (u64, u64, u64, u64) {
    let frames = &outcome.local()["frames"];
    let of = |name: &str| number(&frames[name]);
    (of("completed"), of("dropped"), of("repeated"), of("errors"))
}

#[test]
fn our_client_watches_a_foreign_server() {
    let test = "our_client_watches_a_foreign_server";
    let Some((outcome, theirs)) = watch(test, "", &format!("{LENGTH} --connection-csv /dev/null")) else {
        return;
    };
    let outcome = outcome.exits(0).status("complete");
    assert_eq!(frames(&outcome), (40, 0, 0, 0), "{}", outcome.tell());
    assert_eq!(number(&outcome.local()["traffic"]["rx_bytes"]), 40 * 12_500);
    let [one] = outcome.connections() else { panic!("{}", outcome.tell()) };
    assert_eq!(one["id"], theirs[0]["id"], "both know the identifier");
    assert_eq!(number(&one["frames"]["completed"]), 40);
    // Of a frame that lost a datagram nothing is shown; one of which a datagram came twice is too long.
    for (fault, want) in [("drop:7", (39, 1, 0, 0)), ("double:7", (39, 0, 1, 0))] {
        let Some((outcome, _)) = watch(test, &format!("fault={fault}"), LENGTH) else { return };
        assert_eq!(frames(&outcome.exits(0)), want, "{fault}");
    }
    // Frame 150 comes at the very start, when frames up to 120 are waited for (twice 3 s): 9 datagrams of no use.
    let early = watch(test, "seconds=8 fault=early:150", "--length 8s --depth 3s");
    let Some((outcome, _)) = early else { return };
    assert_eq!(frames(&outcome), (159, 1, 0, 9), "{}", outcome.tell());
}

#[test]
fn our_client_ends_a_stream_that_is_wrong() {
    for (fault, class, words) in [
        ("flip:5", "data_errors", "wrong data at offset 14"),
        ("flag:5", "data_errors", "a datagram of 1400 bytes is none of ctsTraffic's"),
        ("silent", "data_errors", "nothing came before the first frame was to be shown"),
    ] {
        let test = "our_client_ends_a_stream_that_is_wrong";
        let Some((outcome, _)) = watch(test, &format!("fault={fault}"), LENGTH) else { return };
        let outcome = outcome.exits(1);
        assert_eq!(number(&outcome.local()[class]), 1, "{fault}: {}", outcome.tell());
        let first = text(&outcome.local()["causes"][0]["first"]);
        assert!(first.contains(words), "{fault}: {first}");
    }
    // A closed port: the system reports it at once.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let line = netcaliper("stream").args("127.0.0.1").args(ARGS).args(LENGTH).args(&format!("-p {port}"));
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
    for (listen, address) in [("0.0.0.0", "127.0.0.1"), ("::1", "::1")] {
        for (fault, repeated) in [("", 0), ("fault=again", 2), ("fault=nonsense", 0)] {
            let ours = our_server(listen.parse().unwrap(), Some(1));
            let Some(client) = peer(test, "client", address, ours.port, &format!("{SETTINGS} {fault}"))
            else {
                ours.interrupt.ask();
                return;
            };
            let theirs = lines(client);
            let Story { records, local, status } = ours.story();
            assert_eq!(status, Status::Complete, "it ends after one stream");
            assert_eq!(
                (text(&theirs[0]["result"]), number(&theirs[0]["whole"])),
                ("ok", 40),
                "{fault}: {theirs:?}"
            );
            assert_eq!(number(&theirs[0]["bytes"]), 40 * 12_500);
            // About 2 s of 100 ns ticks.
            assert!((19_000_000..40_000_000).contains(&number(&theirs[0]["ticks"])), "{theirs:?}");
            assert_eq!(records.len(), 1);
            assert_eq!(records[0].id.to_string(), text(&theirs[0]["id"]));
            assert_eq!((records[0].tx_bytes, records[0].frames), (40 * 12_500, Some(Frames::default())));
            assert_eq!(local.frames.map(|f| f.repeated), Some(repeated), "each further START counts once");
        }
    }
}

#[test]
fn our_two_ends_with_many_streams() {
    let ours = our_server("127.0.0.1".parse().unwrap(), None);
    let line = netcaliper("stream")
        .args("127.0.0.1")
        .args(ARGS)
        .args(LENGTH)
        .args(&format!("-p {} -P 10 --iterations 2", ours.port));
    let outcome = line.outcome().exits(0).status("complete");
    assert_eq!(frames(&outcome), (20 * 40, 0, 0, 0), "{}", outcome.tell());
    assert_eq!(number(&outcome.local()["traffic"]["rx_bytes"]), 20 * 40 * 12_500);
    ours.end_after(20);
    let Story { records, local, .. } = ours.story();
    assert_eq!((records.len(), local.completed, local.traffic.tx_bytes), (20, 20, 20 * 40 * 12_500));
}
