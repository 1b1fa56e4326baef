//! ctsTraffic over TCP in virtual time: every pattern, both ends, on good and bad paths, to the
//! byte; and what comes of ends that were not set alike.

use crate::support::{combinations, conditions, ran, sized};
use common::Params;
use ctstraffic::Connection;
use metrics::{Ending, Group, SECOND};
use model::{Burst, Pattern, Phase, Range, Verify};
use sim::{At, Cut, Link, Pair, Quirks, START};
use std::sync::Arc;
use transport::{Cause, Violation};
use uuid::Uuid;

const MS: u64 = 1_000_000;
/// The identifier's and the completion's bytes.
const FRAMING: u64 = 37 + 4;

fn phase(pattern: Pattern, transfer: u64) -> Phase {
    Phase { pattern, transfer, buffer: Range::just(65_536), ..Phase::default() }
}

fn flows(client: &Phase, server: &Phase, rude: bool) -> Pair {
    let params = |phase| Arc::new(Params::of(phase, Group(1)));
    let here = Connection::client(params(client), 0, client.transfer, rude);
    let there = Connection::server(params(server), server.transfer);
    Pair::stream(Box::new(here), Box::new(there))
}

fn pair(phase: &Phase, rude: bool) -> Pair {
    flows(phase, phase, rude)
}

/// Bytes that each end sends, computed byte by byte or turn by turn from the description of the
/// original: push and pull move the transfer one way; duplex rounds an odd one up and moves half
/// each way; in push-pull the ends take turns, the client first, until the sum of both directions
/// is reached.
fn moved(pattern: Pattern, transfer: u64) -> (u64, u64) {
    match pattern {
        Pattern::Push => (transfer, 0),
        Pattern::Pull => (0, transfer),
        Pattern::Duplex => {
            let even = if transfer % 2 == 1 { transfer + 1 } else { transfer };
            (even / 2, even / 2)
        }
        Pattern::PushPull { push, pull } => {
            let (mut up, mut down) = (0, 0);
            while up + down < transfer {
                let left = transfer - up - down;
                up += left.min(push);
                let left = transfer - up - down;
                down += left.min(pull);
            }
            (up, down)
        }
    }
}

/// Runs a pair to its end: both ends have completed and counted all bytes.
fn assert_whole(mut pair: Pair, pattern: Pattern, transfer: u64, what: &str) {
    pair.run();
    let (up, down) = moved(pattern, transfer);
    for (i, end) in pair.ends.iter_mut().enumerate() {
        assert!(end.completed(), "{what}: end {i}: {:?}", end.ended);
        let (tx, rx) = if i == 0 { (up, down) } else { (down, up) };
        assert_eq!((end.counts.tx_bytes, end.counts.rx_bytes), (tx, rx), "{what}: end {i}");
        let tally = end.side.rec.take_tally(Group(1));
        assert_eq!((tally.tx_bytes, tally.rx_bytes), (tx, rx), "{what}: end {i}");
        let framing = if i == 0 { (0, FRAMING) } else { (FRAMING, 0) };
        assert_eq!((tally.framing.tx_bytes, tally.framing.rx_bytes), framing, "{what}: end {i}");
    }
    let id = pair.ends[1].flow.id().id;
    assert_ne!(id, Uuid::nil());
    assert_eq!(pair.ends[0].flow.id().id, id, "{what}: both ends know the same identifier");
}

fn patterns() -> [Pattern; 6] {
    [
        Pattern::Push,
        Pattern::Pull,
        Pattern::Duplex,
        Pattern::PushPull { push: 1 << 20, pull: 1 << 20 },
        Pattern::PushPull { push: 5_000, pull: 3_000 },
        Pattern::PushPull { push: 1, pull: 100_000 },
    ]
}

#[test]
fn every_pattern_ending_and_check_over_every_path() {
    let checks = [Verify::Data, Verify::Connection, Verify::None];
    // Reading 64 KiB one byte at a time takes long.
    let buffer = sized(16_384, 65_536);
    let transfers = [1, 2, 255, buffer - 1, buffer, buffer + 1];
    let sizes = [patterns().len(), checks.len(), 2, conditions().len(), transfers.len()];
    for [pattern, verify, rude, condition, transfer] in combinations(sizes) {
        let (pattern, verify, rude) = (patterns()[pattern], checks[verify], rude == 1);
        let (transfer, (name, link, quirks)) = (transfers[transfer], conditions().swap_remove(condition));
        let what = format!("{pattern:?} {verify:?} rude {rude} {name} {transfer}");
        let phase = Phase { verify, buffer: Range::just(buffer), ..phase(pattern, transfer) };
        let pair = pair(&phase, rude).seed(transfer).quirks(quirks).both(link);
        assert_whole(pair, pattern, transfer, &what);
    }
}

#[test]
fn the_example_of_push_pull_cuts_its_last_turn() {
    // 2,500,000 bytes in turns of 1 MiB: 1,048,576 up, as many down, 402,848 up.
    let pattern = Pattern::PushPull { push: 1 << 20, pull: 1 << 20 };
    assert_eq!(moved(pattern, 2_500_000), (1_048_576 + 402_848, 1_048_576));
    assert_whole(pair(&phase(pattern, 2_500_000), false), pattern, 2_500_000, "example");
}

#[test]
fn buffers_of_the_two_ends_need_not_be_alike() {
    // The original's acceptance test: 100 against 101 bytes; and sizes drawn for each call.
    let buffers = [
        (Range::just(100), Range::just(101)),
        (Range { low: 1, high: 5_000 }, Range { low: 32_768, high: 98_304 }),
        (Range::just(1), Range::just(1 << 20)),
    ];
    let transfers = [9_999, 20_000];
    for [pattern, buffer, transfer] in combinations([patterns().len(), buffers.len(), transfers.len()]) {
        let (pattern, (here, there), transfer) = (patterns()[pattern], buffers[buffer], transfers[transfer]);
        let of = |buffer| Phase { buffer, ..phase(pattern, transfer) };
        let pair = flows(&of(here), &of(there), false).seed(7);
        assert_whole(pair, pattern, transfer, &format!("{pattern:?} {here} {there} {transfer}"));
    }
}

#[test]
fn the_originals_acceptance_matrix() {
    // Its acceptance test runs each pattern with each of these settings: buffers of 100 against 101
    // bytes, a range, a rate limit of 10,000 bytes/s, rude endings, bursts of 2 sends and 150 ms
    // with 9,999 bytes.
    type Set = fn(&mut Phase);
    let settings: [(&str, Set, Set, bool); 5] = [
        ("100 against 101", |p| p.buffer = Range::just(100), |p| p.buffer = Range::just(101), false),
        ("a range", |p| p.buffer = Range { low: 32_768, high: 98_304 }, |_| {}, false),
        (
            "a rate",
            |p| p.rate = Some(80_000),
            |p| (p.rate, p.rate_period_ns) = (Some(80_000), Some(100 * MS)),
            false,
        ),
        ("rude", |_| {}, |_| {}, true),
        (
            "bursts",
            |p| p.burst = Some(Burst { count: 2, delay_ns: 150 * MS }),
            |p| p.burst = Some(Burst { count: 2, delay_ns: 150 * MS }),
            false,
        ),
    ];
    for pattern in
        [Pattern::Push, Pattern::Pull, Pattern::PushPull { push: 4_000, pull: 3_000 }, Pattern::Duplex]
    {
        for (name, here, there, rude) in settings {
            let (mut client, mut server) = (phase(pattern, 9_999), phase(pattern, 9_999));
            here(&mut client);
            there(&mut server);
            let what = format!("{pattern:?}, {name}");
            assert_whole(flows(&client, &server, rude), pattern, 9_999, &what);
        }
        // The sender sends too much: the connection fails at both ends.
        let pair = unlike((pattern, 20_000), (pattern, 9_999), Verify::Data);
        assert!(pair.ends.iter().any(|end| !end.completed()), "{pattern:?}");
    }
}

/// How an end has ended, in words.
fn said(pair: &Pair, end: usize) -> String {
    match &pair.ends[end].ended {
        Some(Ok(how)) => format!("{how:?}"),
        Some(Err(cause)) => format!("{:?}: {cause}", cause.ending()),
        None => "hangs".to_owned(),
    }
}

fn assert_said(pair: &Pair, end: usize, parts: &[&str], what: &str) {
    let text = said(pair, end);
    for part in parts {
        assert!(text.contains(part), "{what}: end {end} says '{text}', not '{part}'");
    }
}

/// A pair whose ends were set as given, run to its end; the stall time is 10 s.
fn unlike(client: (Pattern, u64), server: (Pattern, u64), verify: Verify) -> Pair {
    let set = |(pattern, transfer)| Phase { verify, stall_ns: 10 * SECOND, ..phase(pattern, transfer) };
    ran(flows(&set(client), &set(server), false))
}

#[test]
fn unequal_transfers_are_found_and_named() {
    use Pattern::{Duplex, Pull, Push};
    let (few, many) = (100_000, 300_000);
    // The client sends more than the server expects.
    let pair = unlike((Push, many), (Push, few), Verify::Data);
    assert_said(
        &pair,
        1,
        &["DataError: too many bytes", "the client's transfer may be larger"],
        "push, client more",
    );
    assert_said(&pair, 0, &["NetworkError"], "push, client more");
    // Less: the original waits for ever.
    let pair = unlike((Push, few), (Push, many), Verify::Data);
    assert_said(
        &pair,
        0,
        &["NetworkError: timed out", "did not say DONE", "transfer may be larger"],
        "push, less",
    );
    assert_said(
        &pair,
        1,
        &["100000 of 300000 bytes have arrived", "the client's transfer may be smaller"],
        "push, less",
    );
    assert!(pair.now < START.plus(11 * SECOND), "{:?}", pair.now);
    // The server sends more than the client expects: payload where DONE should be.
    let pair = unlike((Pull, few), (Pull, many), Verify::Data);
    assert_said(&pair, 0, &["DataError: too few bytes", "where DONE was expected"], "pull, server more");
    // Less: DONE where payload should be; the original waits for ever.
    let pair = unlike((Pull, many), (Pull, few), Verify::Data);
    assert_said(&pair, 0, &["DataError: too few bytes: 100000 of 300000", "says DONE"], "pull, server less");
    let pair = unlike((Pull, many), (Pull, few), Verify::Connection);
    assert_said(
        &pair,
        0,
        &["NetworkError: timed out", "100004 of 300000 bytes have arrived"],
        "pull, unverified",
    );
    assert_said(&pair, 1, &["Completed"], "the server has had its reset, which it takes for an end");
    for (client, server) in [(few, many), (many, few)] {
        let pair = unlike((Duplex, client), (Duplex, server), Verify::Data);
        for end in 0..2 {
            assert!(
                !matches!(pair.ends[end].ended, None | Some(Ok(Ending::Completed))),
                "{}",
                said(&pair, end)
            );
        }
    }
}

#[test]
fn unequal_patterns_are_found_and_named() {
    use Pattern::{Duplex, Pull, Push};
    let pushpull = Pattern::PushPull { push: 50_000, pull: 20_000 };
    for transfer in [100, 1_000_000] {
        for client in [Push, Pull, Duplex, pushpull] {
            for server in [Push, Pull, Duplex, pushpull] {
                let pair = unlike((client, transfer), (server, transfer), Verify::Data);
                let what = format!("{client:?} against {server:?}, {transfer}");
                assert!(pair.now < START.plus(40 * SECOND), "{what}: {:?}", pair.now);
                if client == server || moved(client, transfer) == moved(server, transfer) {
                    assert_eq!(
                        (said(&pair, 0), said(&pair, 1)),
                        ("Completed".into(), "Completed".into()),
                        "{what}"
                    );
                    continue;
                }
                assert!(!pair.ends[0].completed(), "{what}: {}", said(&pair, 0));
                let both = said(&pair, 0) + &said(&pair, 1);
                assert!(
                    both.contains("pattern another") || both.contains("another than ours"),
                    "{what}: {both}"
                );
            }
        }
    }
}

#[test]
fn a_server_that_sends_where_it_is_to_receive_is_noticed_at_once() {
    for server in [Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 1_000, pull: 1_000 }] {
        let pair = unlike((Pattern::Push, 1 << 30), (server, 1 << 30), Verify::Data);
        assert_said(&pair, 0, &["DataError: too many bytes", "its pattern may be another"], "the client");
        assert!(pair.now < START.plus(SECOND), "{server:?}: {:?}", pair.now);
    }
}

#[test]
fn one_flipped_bit_is_found_where_it_is() {
    for pattern in [Pattern::Push, Pattern::Duplex] {
        for at in [0, 1, 40_000, 65_536, 99_999] {
            let pair = ran(pair(&phase(pattern, 200_000), false).up(Link::new().flip(at, 0x04)));
            let offset = match &pair.ends[1].ended {
                Some(Err(Cause::Violation(Violation::BadData { offset, .. }))) => *offset,
                _ => panic!("{pattern:?} {at}: {}", said(&pair, 1)),
            };
            assert_eq!((offset, pair.ends[1].counts.rx_bytes), (at, at));
            assert_said(&pair, 0, &["NetworkError"], "the other end is reset");
        }
    }
    // The server's identifier comes first; its characters are not checked.
    let damaged = |offset| ran(pair(&phase(Pattern::Pull, 100), false).down(Link::new().flip(offset, 0x01)));
    assert_said(&damaged(3), 0, &["Completed"], "an identifier");
    assert_said(&damaged(37), 0, &["DataError: wrong data at offset 0"], "payload");
    assert_said(&damaged(137), 0, &["DataError: too few bytes", "DONE was expected"], "a completion");
}

#[test]
fn unverified_damage_goes_unnoticed_as_it_was_asked_for() {
    for verify in [Verify::Connection, Verify::None] {
        let phase = Phase { verify, ..phase(Pattern::Push, 1_000) };
        let pair = pair(&phase, false).up(Link::new().flip(500, 0xff));
        assert_whole(pair, Pattern::Push, 1_000, "unverified");
    }
}

#[test]
fn stray_bytes_at_the_end_are_too_many() {
    for stray in [&b"x"[..], b"abcdefgh"] {
        let pair = ran(pair(&phase(Pattern::Push, 1_000), false).up(Link::new().insert(1_000, stray)));
        assert_said(&pair, 1, &["DataError: too many bytes"], "behind the payload");
        let link = Link::new().insert(37 + 1_000 + 4, stray);
        let pair = ran(self::pair(&phase(Pattern::Pull, 1_000), false).down(link));
        assert_said(&pair, 0, &["DataError: too many bytes", "after its DONE"], "behind the completion");
    }
}

#[test]
fn who_takes_what_at_the_end() {
    // A reset while the server waits for the FIN is a success there; rude clients rely on it. See
    // also every pattern above.
    let reset = |up: bool, at| {
        let link = Link::new().cut(At::Byte(at), Cut::Reset);
        let pair = pair(&phase(Pattern::Push, 1_000), false);
        ran(if up { pair.up(link) } else { pair.down(link) })
    };
    let early = reset(true, 500);
    assert_said(&early, 0, &["NetworkError"], "in the payload");
    assert_said(&early, 1, &["NetworkError"], "in the payload");
    // A client that got its DONE and whose FIN the server answers with silence.
    let phase = Phase { stall_ns: 5 * SECOND, ..phase(Pattern::Push, 1_000) };
    let pair = ran(pair(&phase, false).up(Link::new().cut(At::Time(START.plus(350_000)), Cut::Silence)));
    assert_said(&pair, 1, &["Completed"], "the server takes silence for an end");
    assert_said(
        &pair,
        0,
        &["NetworkError: timed out", "the server did not end the connection"],
        "the client does not",
    );
    // FIN before its time.
    let pair = ran(self::pair(&phase, false).up(Link::new().cut(At::Byte(400), Cut::Fin)));
    assert_said(&pair, 1, &["DataError: too few bytes: 400 of 1000"], "FIN in the payload");
    let pair = ran(self::pair(&phase, false).down(Link::new().cut(At::Byte(20), Cut::Fin)));
    assert_said(
        &pair,
        0,
        &["DataError: too few bytes", "connection identifier: is it ctsTraffic?"],
        "FIN in the identifier",
    );
}

#[test]
fn a_server_that_says_nothing_is_no_ctstraffic() {
    let phase = Phase { stall_ns: 5 * SECOND, ..phase(Pattern::Push, 1_000) };
    let pair = ran(pair(&phase, false).down(Link::new().cut(At::Byte(0), Cut::Silence)));
    assert_said(
        &pair,
        0,
        &["timed out: nothing moved for 5s", "no connection identifier arrived"],
        "silence",
    );
}

#[test]
fn a_stop_ends_at_a_sign_of_the_server_what_is_not_over_anyway() {
    for pattern in patterns() {
        for after in [0, 3 * MS, 20 * MS] {
            let pair =
                ran(pair(&phase(pattern, 1 << 30), false).both(Link::new().rate(100_000_000)).stop(0, after));
            assert_eq!(pair.ends[0].ended, Some(Ok(Ending::Stopped)), "{pattern:?} {after}");
            // The rest of a send of 64 KiB at this rate.
            assert!(pair.ends[0].ended_at < START.plus(after + 11 * MS), "{pattern:?} {after}");
            assert_said(&pair, 1, &["NetworkError"], "there is no word for it in the protocol");
        }
    }
    let phase = phase(Pattern::Push, 1_000);
    for after in [320_000, 420_000] {
        let pair = pair(&phase, false).stop(0, after).stop(1, after);
        assert_whole(pair, Pattern::Push, 1_000, "but for its goodbye it was over");
    }
}

#[test]
fn quanta_leave_whole_and_at_once() {
    // 100,000 bytes/s in quanta of 100 ms and sends of 65,536 bytes: the original's sends leave at
    // 0, 600, 1300, 1900 ms.
    let phase =
        Phase { rate: Some(800_000), rate_period_ns: Some(100 * MS), ..phase(Pattern::Push, 65_536 * 4) };
    let mut pair = pair(&phase, false);
    for (at, sends) in [(0, 1), (600, 2), (1_300, 3), (1_900, 4)] {
        pair.run_until(START.plus((at + 1) * MS).plus(500_000));
        let before = pair.ends[0].side.rec.tally(Group(1)).tx_bytes;
        assert_eq!(before, sends * 65_536, "at {at} ms");
        let next = [600, 1_300, 1_900].into_iter().find(|&n| n > at).unwrap_or(at + 2);
        pair.run_until(START.plus(next * MS - MS));
        assert_eq!(pair.ends[0].side.rec.tally(Group(1)).tx_bytes, before, "until {next} ms");
    }
    assert_whole(pair, Pattern::Push, 65_536 * 4, "quanta");
}

#[test]
fn a_smooth_rate_is_exact_and_a_range_of_rates_is_drawn_per_connection() {
    let smooth = Phase { rate: Some(8_000_000), ..phase(Pattern::Push, 5_000_000) };
    let pair = ran(pair(&smooth, false));
    let ms = pair.now.since(START) / MS;
    assert!((4_990..=5_010).contains(&ms), "{ms}");
    // A tenth of that, in as much time.
    let range =
        Phase { rate: Some(400_000), rate_high: Some(800_000), transfer: smooth.transfer / 10, ..smooth };
    let took: Vec<u64> = (0..20)
        .map(|seed| {
            let pair = ran(self::pair(&range, false).seed(seed));
            pair.now.since(START) / SECOND
        })
        .collect();
    let (least, most) = (took.iter().min().unwrap(), took.iter().max().unwrap());
    assert!(*least >= 4 && *most <= 10 && most - least >= 3, "{took:?}");
}

#[test]
fn of_a_burst_the_last_send_waits() {
    let burst = Some(Burst { count: 2, delay_ns: 150 * MS });
    // The original's acceptance test: bursts of 2 sends, 150 ms; here 4 sends of 2,500 bytes.
    let phase = Phase { burst, buffer: Range::just(2_500), ..phase(Pattern::Push, 9_999) };
    let mut pair = pair(&phase, false).quirks(Quirks::tiny_sends());
    for (at, sent) in [(100, 2_500), (200, 7_500), (290, 7_500)] {
        pair.run_until(START.plus(at * MS));
        assert_eq!(pair.ends[0].side.rec.tally(Group(1)).tx_bytes, sent, "at {at} ms");
    }
    pair.run();
    assert!(pair.now > START.plus(300 * MS) && pair.now < START.plus(330 * MS), "{:?}", pair.now);
    assert_whole(pair, Pattern::Push, 9_999, "bursts");
}

#[test]
fn slow_schedules_are_no_stalls() {
    let phase = Phase {
        rate: Some(80),
        rate_period_ns: Some(100 * MS),
        stall_ns: SECOND,
        buffer: Range::just(50),
        ..phase(Pattern::Push, 100)
    };
    assert_whole(pair(&phase, false), Pattern::Push, 100, "10 bytes a second");
}
