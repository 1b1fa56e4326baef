//! Direction, payload, verification and ending: every combination moves exactly what was asked for,
//! by the count of both ends.

use crate::support::files::{Csv, Scratch};
use crate::support::{Server, at_once, netcaliper, serve, sized, tcp};
use std::collections::BTreeSet;

/// How much one connection carries in each direction: client to server, server to client.
type Split = fn(u64) -> (u64, u64);

fn push(total: u64) -> (u64, u64) {
    (total, 0)
}

fn pull(total: u64) -> (u64, u64) {
    (0, total)
}

/// An odd total is rounded up, as ctsTraffic does.
fn duplex(total: u64) -> (u64, u64) {
    (total.div_ceil(2), total.div_ceil(2))
}

/// Bytes of a turn in these tests.
const TURNS: (u64, u64) = (100_001, 70_007);

fn pushpull(total: u64) -> (u64, u64) {
    in_turns(TURNS, total)
}

fn in_turns((push, pull): (u64, u64), total: u64) -> (u64, u64) {
    let (mut up, mut down) = (0, 0);
    while up + down < total {
        up += push.min(total - up - down);
        down += pull.min(total - up - down);
    }
    (up, down)
}

const PATTERNS: [(&str, Split); 4] =
    [("push", push), ("pull", pull), ("pushpull", pushpull), ("duplex", duplex)];
const CHECKS: [&str; 3] = ["data", "connection", "none"];
const ENDINGS: [&str; 3] = ["graceful", "rude", "random"];
const PAYLOADS: [&str; 3] =
    ["--payload pattern -l 2Mi", "--payload random -l [1024,1048576]", "--payload zeros -l 1000"];

/// Runs of a pattern by its place: three whose checks, endings and payloads meet, over all
/// patterns, in every pair; `bench/deep` has all nine of checks and endings.
fn every_verification_and_ending(at: usize) {
    const TRANSFER: u64 = 1_234_567;
    const RUNS: u64 = 3 * 2;
    let (pattern, split) = PATTERNS[at];
    let server = serve("");
    let all = (0..3_usize).flat_map(|verify| (0..3_usize).map(move |shutdown| (verify, shutdown)));
    let chosen = all.filter(|(verify, shutdown)| sized((verify + shutdown + at).is_multiple_of(3), true));
    for (verify, shutdown) in chosen {
        let (verify, shutdown, extra) = (CHECKS[verify], ENDINGS[shutdown], PAYLOADS[(verify + 2 * at) % 3]);
        let (up, down) = split(TRANSFER);
        let line = tcp(server.at())
            .args("-P 3 --iterations 2")
            .args(&format!(
                "--transfer {TRANSFER} --pattern {pattern} --verify {verify} --shutdown {shutdown}"
            ))
            .args(&format!("--push-bytes {} --pull-bytes {} {extra}", TURNS.0, TURNS.1));
        let outcome = line.outcome().moved(RUNS, RUNS * up, RUNS * down);
        let phase = &outcome.point()["phase"];
        assert_eq!((&phase["verify"], &phase["shutdown"]), (&verify.into(), &shutdown.into()));
        assert_eq!(outcome.caveat("verification-off").is_some(), verify != "data", "{verify}");
    }
    server.end().prints(&[&format!("session {} with", sized(3, 9))]);
}

#[test]
fn every_pattern_with_every_verification_and_ending() {
    at_once(&[0, 1, 2, 3], every_verification_and_ending);
}

#[test]
fn receivers_say_how_they_read() {
    let server = serve("");
    for (verify, receive) in [("data", "compare"), ("connection", "read"), ("none", "discard")] {
        let line = tcp(server.at())
            .args(&format!("-P 2 --iterations 1 --transfer 100001 --bidir --verify {verify}"));
        let outcome = line.outcome().moved(2, 100_002, 100_002);
        assert_eq!(outcome.local()["receive"], receive, "the client with --verify {verify}");
        assert_eq!(outcome.remote()[0]["receive"], receive, "the server with --verify {verify}");
    }
}

#[test]
fn every_buffer_moves_every_payload_in_both_directions() {
    let server = serve("");
    for payload in ["pattern", "random", "zeros"] {
        for (buffer, transfer) in [
            ("1", 5_003),
            ("1000", 999_999),
            ("[1024,1048576]", 4_000_001),
            ("2Mi", 8_388_609),
            ("16Mi", sized(4_000_003, 20_000_003)),
        ] {
            let (up, down) = duplex(transfer);
            tcp(server.at())
                .args(&format!(
                    "-P 1 --iterations 1 --bidir --transfer {transfer} --payload {payload} -l {buffer}"
                ))
                .outcome()
                .moved(1, up, down);
        }
    }
}

#[test]
fn the_smallest_transfers_are_whole() {
    let server = serve("");
    for transfer in [1, 2, 15, 16, 17] {
        for (pattern, split) in PATTERNS {
            let (up, down) = split(transfer);
            tcp(server.at())
                .args(&format!("-P 2 --iterations 3 --transfer {transfer} --pattern {pattern}"))
                .args(&format!("--push-bytes {} --pull-bytes {}", TURNS.0, TURNS.1))
                .outcome()
                .moved(6, 6 * up, 6 * down);
        }
    }
}

#[test]
fn a_total_is_dealt_out_to_the_last_byte() {
    let server = serve("");
    for (connections, transfer, total, lives) in [
        (1u64, 1_000_000u64, 10_000_019u64, 11u64), // ten whole ones and a rest
        (8, 1_000_000, 3_000_001, 8),               // each less than a transfer
        (8, 100_000, 3_000_001, 32),                // 375,000 or 375,001 each
        (8, 1_000_000, 5, 5),                       // fewer bytes than connections
    ] {
        let line = tcp(server.at()).args(&format!("-P {connections} --transfer {transfer} -n {total}"));
        line.outcome().moved(lives, total, 0);
        let line = tcp(server.at()).args(&format!("-R -P {connections} --transfer {transfer} -n {total}"));
        line.outcome().moved(lives, 0, total);
    }
}

#[test]
fn turns_of_push_and_pull_may_be_tiny_or_larger_than_the_transfer() {
    let server = serve("");
    for (push, pull, transfer) in
        [(1, 1, 2_001), (7, 3, 1_000), (1 << 30, 1, 500_000), (1000, 1 << 30, 500_000)]
    {
        let (up, down) = in_turns((push, pull), transfer);
        let outcome = tcp(server.at())
            .args(&format!("-P 2 --iterations 2 --pattern pushpull --transfer {transfer}"))
            .args(&format!("--push-bytes {push} --pull-bytes {pull}"))
            .outcome();
        outcome.moved(4, 4 * up, 4 * down);
    }
}

#[test]
fn connections_are_known_by_one_id_at_both_ends() {
    let scratch = Scratch::new();
    let (ours, theirs) = (scratch.file("client.csv"), scratch.file("server.csv"));
    let server = Server::start(netcaliper("serve").args("--port 0 --connection-csv").arg(&theirs));
    tcp(server.at())
        .args("-P 8 --iterations 5 --transfer 70001 --bidir --connection-csv")
        .arg(&ours)
        .outcome()
        .moved(40, 40 * 35_001, 40 * 35_001);
    server.end();
    let (ours, theirs) = (Csv::read(&ours), Csv::read(&theirs));
    assert_eq!((ours.rows.len(), theirs.rows.len()), (40, 40));
    assert_eq!(ours.header, theirs.header);
    let ids: BTreeSet<&str> = ours.column("id").into_iter().collect();
    assert_eq!(ids.len(), 40, "the ids are unique");
    assert_eq!(ids, theirs.column("id").into_iter().collect());
    // Joined by id, each end has the other's addresses and byte counts.
    for (row, id) in ours.column("id").into_iter().enumerate() {
        let other = theirs.column("id").iter().position(|it| *it == id).unwrap();
        for (here, there) in
            [("local", "remote"), ("remote", "local"), ("tx_bytes", "rx_bytes"), ("rx_bytes", "tx_bytes")]
        {
            assert_eq!(ours.column(here)[row], theirs.column(there)[other], "{here} of {id}");
        }
        assert_eq!((ours.column("result")[row], theirs.column("result")[other]), ("completed", "completed"));
        assert!(theirs.column("connect_s")[other].is_empty() && !ours.column("connect_s")[row].is_empty());
    }
}
