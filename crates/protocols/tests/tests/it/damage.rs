//! Data connections over paths that damage, shorten, lengthen and end them: which end finds which
//! error, where and when.

use crate::support::{combinations, pair, phase, sized};
use metrics::{Ending, Mono, SECOND};
use model::{Pattern, Payload, Phase, Shutdown, Verify};
use native::PREAMBLE;
use sim::{At, Cut, Link, Pair, Quirks, START};
use transport::{Cause, Violation};

const MS: u64 = 1_000_000;
/// Bytes before the payload of the first span, from the client and from the server.
const BEFORE: [u64; 2] = [PREAMBLE as u64 + 16, 16];

fn violation(pair: &Pair, end: usize) -> Violation {
    match &pair.ends[end].ended {
        Some(Err(Cause::Violation(violation))) => violation.clone(),
        other => panic!("end {end}: {other:?}"),
    }
}

/// How both ends have ended.
fn ended(pair: &Pair) -> [&Option<Result<Ending, Cause>>; 2] {
    pair.ends.each_ref().map(|end| &end.ended)
}

fn link_to(pair: Pair, direction: usize, link: Link) -> Pair {
    if direction == 0 { pair.up(link) } else { pair.down(link) }
}

/// A run whose link in a direction does this.
fn ran(phase: &Phase, direction: usize, link: Link) -> Pair {
    let mut pair = link_to(pair(phase, false), direction, link);
    pair.run();
    pair
}

/// Where the byte of payload at `offset` lies in the stream of a direction whose spans are `span`
/// bytes.
fn place(direction: usize, offset: u64, span: u64) -> u64 {
    BEFORE[direction] + offset + offset / span * 16
}

#[test]
fn one_flipped_bit_is_reported_with_its_offset_by_both_ends() {
    let payloads = [Payload::Pattern, Payload::Random, Payload::Zeros];
    let machines = [Quirks::default(), Quirks::rough(), Quirks::one_byte_reads()];
    let offsets = [0, 1, 999, 1_000, 1_001, 4_095, 4_096, 12_345, 19_999];
    for [direction, payload, read, offset] in combinations([2, payloads.len(), machines.len(), offsets.len()])
    {
        let (pattern, payload) = ([Pattern::Push, Pattern::Pull][direction], payloads[payload]);
        let (quirks, offset) = (machines[read], offsets[offset]);
        // This rate makes spans of 1000 bytes.
        let phase = Phase { payload, rate: Some(160_000), ..phase(pattern, 20_000) };
        let link = Link::new().flip(place(direction, offset, 1_000), 0x10);
        let mut pair = link_to(pair(&phase, false).seed(offset).quirks(quirks), direction, link);
        pair.run();
        let what = format!("{pattern:?} {payload:?} {read} {offset}");
        match violation(&pair, 1 - direction) {
            Violation::BadData { offset: found, want, got, len } => {
                assert_eq!(found, offset, "{what}");
                assert!(len >= 1 && want[0] ^ got[0] == 0x10, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
        match &pair.ends[direction].ended {
            // The last word is said once; a socket that takes only some of it keeps the sender from
            // hearing.
            Some(Err(Cause::Fault(_))) if read == 1 => {}
            _ => {
                assert_eq!(violation(&pair, direction), Violation::Reported { offset }, "{what}");
            }
        }
        let (tx, rx) = (pair.ends[direction].counts, pair.ends[1 - direction].counts);
        assert_eq!(rx.rx_bytes, offset, "{what}: only what is intact counts");
        assert!(tx.tx_bytes > offset, "{what}");
    }
}

#[test]
fn a_flipped_bit_in_duplex_is_found_and_the_sender_knows_at_least_that_it_failed() {
    for direction in 0..2 {
        for offset in [0, 500, 15_000] {
            let phase = phase(Pattern::Duplex, 32_768);
            let pair = ran(&phase, direction, Link::new().flip(place(direction, offset, 1 << 20), 1));
            let found = violation(&pair, 1 - direction);
            assert!(matches!(found, Violation::BadData { offset: o, .. } if o == offset), "{found:?}");
            let sender = &pair.ends[direction].ended;
            assert!(matches!(sender, Some(Err(_))), "{sender:?}");
        }
    }
}

#[test]
fn a_flipped_bit_is_not_noticed_where_nothing_is_compared() {
    for verify in [Verify::Connection, Verify::None] {
        let phase = Phase { verify, ..phase(Pattern::Push, 10_000) };
        let pair = ran(&phase, 0, Link::new().flip(place(0, 77, 1 << 20), 1));
        assert!(pair.ends[0].completed() && pair.ends[1].completed(), "{verify:?}");
    }
}

#[test]
fn no_flipped_bit_in_the_framing_goes_unnoticed() {
    for pattern in [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 30, pull: 20 }] {
        for verify in [Verify::Data, Verify::None] {
            let phase = Phase { verify, stall_ns: SECOND, ..phase(pattern, 100) };
            for direction in 0..2 {
                // All bytes and some behind the last; payload is compared only if asked for.
                let bytes = bytes_sent(&phase, direction);
                for at in 0..bytes + 16 {
                    let pair = ran(&phase, direction, Link::new().flip(at, 1 << (at % 8)));
                    let what = format!("{pattern:?} {verify:?} {direction} {at}");
                    assert!(ended(&pair).iter().all(|end| end.is_some()), "{what}: {:?}", ended(&pair));
                    if verify == Verify::Data && pair.ends.iter().all(|e| e.completed()) {
                        assert!(at >= bytes, "{what} of {bytes}: unnoticed");
                    }
                    for end in &pair.ends {
                        if let Some(Err(cause)) = &end.ended {
                            let class = cause.ending();
                            assert!(class != Ending::Completed && class != Ending::Stopped, "{what}");
                        }
                    }
                }
            }
        }
    }
}

/// Bytes that a direction carries, framing included: the last flip that still hits anything tells.
fn bytes_sent(phase: &Phase, direction: usize) -> u64 {
    let (up, down) = phase.pattern.split(phase.transfer);
    let payload = [up, down][direction];
    let spans = match phase.pattern {
        Pattern::PushPull { push, pull } => payload.div_ceil([push, pull][direction]),
        _ => u64::from(payload > 0),
    };
    let end = u64::from(payload > 0);
    let verdict = u64::from([down, up][direction] > 0);
    let done = u64::from(direction == 1 && down > 0);
    let preamble = if direction == 0 { PREAMBLE as u64 } else { 0 };
    preamble + payload + 16 * (spans + end + verdict + done)
}

#[test]
fn missing_and_added_bytes_are_data_errors_of_the_receiver() {
    for (direction, pattern) in [(0, Pattern::Push), (1, Pattern::Pull)] {
        for payload in [Payload::Pattern, Payload::Random] {
            let phase = Phase { payload, stall_ns: SECOND, ..phase(pattern, 10_000) };
            let end = place(direction, 10_000, 1 << 20);
            for (name, link, expect) in [
                ("a byte missing", Link::new().remove(place(direction, 100, 1 << 20), 1), "bad 100"),
                ("a byte added", Link::new().insert(place(direction, 100, 1 << 20), b"?"), "bad 100"),
                ("bytes added at the end of the payload", Link::new().insert(end, &[0xee; 40]), "many"),
                ("a few bytes added there", Link::new().insert(end, b"abc"), "many"),
                ("a whole mark's length added", Link::new().insert(end, &[0; 16]), "many"),
            ] {
                let pair = ran(&phase, direction, link);
                let found = violation(&pair, 1 - direction);
                let ok = match expect {
                    "many" => found == Violation::TooMany { want: 10_000 },
                    _ => matches!(found, Violation::BadData { offset: 100, .. }),
                };
                assert!(ok, "{pattern:?} {payload:?} {name}: {found:?}");
                assert!(matches!(pair.ends[direction].ended, Some(Err(_))), "{name}: the sender is content");
            }
        }
    }
}

#[test]
fn bytes_after_the_last_word_are_too_many() {
    // After the client's END (push), and after its VERDICT (pull).
    for (pattern, after) in
        [(Pattern::Push, PREAMBLE as u64 + 16 + 1_000 + 16), (Pattern::Pull, PREAMBLE as u64 + 16)]
    {
        for added in [1, 15, 16, 40] {
            let phase = phase(pattern, 1_000);
            let pair = ran(&phase, 0, Link::new().insert(after, &vec![7; added]));
            let want = if pattern == Pattern::Push { 1_000 } else { 0 };
            assert_eq!(violation(&pair, 1), Violation::TooMany { want }, "{pattern:?} {added}");
        }
    }
}

#[test]
fn data_shifted_by_the_period_is_found_in_random_payload_only() {
    // Spans double while they are fast: the fifth begins at 240 KiB and is 256 KiB long.
    const KI: u64 = 1024;
    let before = PREAMBLE as u64 + 5 * 16;
    let at = before + 260 * KI;
    let period: Vec<u8> = (0..64 * KI)
        .map(|i| ((((at - before + i) % 65_536) / 2) as u16).to_le_bytes()[(i % 2) as usize])
        .collect();
    for (payload, verify) in [(Payload::Pattern, Verify::Data), (Payload::Random, Verify::Data)] {
        let phase = Phase { payload, verify, ..phase(Pattern::Push, 600 * KI) };
        let link = Link::new().remove(at, 64 * KI).insert(at + 128 * KI, &period);
        let pair = ran(&phase, 0, link);
        if payload == Payload::Pattern {
            assert!(pair.ends[1].completed(), "the pattern cannot see it: {:?}", pair.ends[1].ended);
        } else {
            assert!(matches!(violation(&pair, 1), Violation::BadData { offset, .. } if offset == 260 * KI));
        }
    }
}

#[test]
fn a_relay_that_ends_early_is_told_from_one_that_resets() {
    for (direction, pattern) in [(0, Pattern::Push), (1, Pattern::Pull)] {
        for at in [100, 1_000, 5_000, 10_015] {
            let phase = phase(pattern, 10_000);
            let cut = |how| Link::new().cut(At::Byte(BEFORE[direction] + at), how);
            let short = ran(&phase, direction, cut(Cut::Fin));
            let got = at.min(10_000);
            assert_eq!(violation(&short, 1 - direction), Violation::TooFew { got, want: 10_000 }, "{at}");
            // The client's direction ends with it, so that the server's payload stays unconfirmed.
            let sender = violation(&short, direction);
            assert!(matches!(sender, Violation::Unconfirmed { .. }), "{sender:?}");
            for end in &ran(&phase, direction, cut(Cut::Reset)).ends {
                match &end.ended {
                    Some(Err(cause)) => assert_eq!(cause.ending(), Ending::NetworkError, "{cause}"),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_reset_at_any_instant_is_a_network_error_or_comes_too_late() {
    for pattern in
        [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 800, pull: 1_800 }]
    {
        for quirks in [Quirks::default(), Quirks::rough(), Quirks { reads: (10, 10), ..Quirks::default() }] {
            let mut failed = 0;
            for i in (0..30).step_by(sized(3, 1)) {
                let phase = phase(pattern, if quirks.reads.0 == 10 { 600_000 } else { 60_000 });
                let link = Link::new().delay(MS).rate(20_000_000).window(8_000);
                let cut = link.clone().cut(At::Time(START.plus(i * 1_400_001)), Cut::Reset);
                let mut pair = pair(&phase, false).seed(i).quirks(quirks).up(cut).down(link);
                pair.run();
                for end in &pair.ends {
                    match end.ended.as_ref() {
                        Some(Ok(Ending::Completed)) => {}
                        Some(Err(cause)) => {
                            failed += 1;
                            assert_eq!(cause.ending(), Ending::NetworkError, "{pattern:?} {i}: {cause}");
                        }
                        other => panic!("{pattern:?} {i}: {other:?}"),
                    }
                }
            }
            assert!(failed > sized(6, 20), "{pattern:?} {failed}");
        }
    }
}

#[test]
fn silence_is_a_stall_and_not_before_its_time() {
    for pattern in
        [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 4_000, pull: 9_000 }]
    {
        for both in [false, true] {
            for i in 0..20 {
                let phase = Phase { stall_ns: 3 * SECOND, ..phase(pattern, 3_000_000) };
                let at = START.plus(8 * MS + i * 11 * MS);
                let link = Link::new().delay(MS).rate(100_000_000);
                let cut = link.clone().cut(At::Time(at), Cut::Silence);
                let mut pair = pair(&phase, false).up(cut.clone()).down(if both { cut } else { link });
                pair.run();
                for (e, end) in pair.ends.iter().enumerate() {
                    let what =
                        format!("{pattern:?} {both} {i} end {e}: {:?} at {:?}", end.ended, end.ended_at);
                    match &end.ended {
                        Some(Err(Cause::Violation(Violation::Stalled(after)))) => {
                            assert_eq!(after.as_nanos() as u64, 3 * SECOND, "{what}");
                            assert!(end.ended_at >= at.plus(3 * SECOND - 20 * MS), "{what}");
                        }
                        // The end that hears gets the other's reset, or was told everything in
                        // time.
                        Some(Err(Cause::Fault(_))) if !both => {}
                        Some(Ok(_)) => {}
                        _ => panic!("{what}"),
                    }
                    assert!(end.ended_at < at.plus(7 * SECOND), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_slow_schedule_is_no_stall() {
    use model::Burst;
    let slow = Phase { rate: Some(8), stall_ns: MS, ..phase(Pattern::Push, 20) };
    let burst = Some(Burst { count: 2, delay_ns: 5 * SECOND });
    let bursts = Phase { burst, stall_ns: MS, ..phase(Pattern::Duplex, 2_000_000) };
    for (name, phase) in [("slow", slow), ("bursts", bursts)] {
        let mut pair = pair(&phase, false);
        pair.run();
        assert!(pair.ends.iter().all(|end| end.completed()), "{name}: {:?}", ended(&pair));
    }
}

#[test]
fn a_phase_with_absurd_numbers_does_not_overflow() {
    use model::Burst;
    for phase in [
        Phase { burst: Some(Burst { count: u32::MAX, delay_ns: u64::MAX }), ..Phase::default() },
        Phase { stall_ns: u64::MAX, ..Phase::default() },
        Phase { rate: Some(10_000_000_000_000), ..Phase::default() },
        Phase { pattern: Pattern::PushPull { push: u64::MAX, pull: u64::MAX }, ..Phase::default() },
    ] {
        let phase = Phase { transfer: 1_000, shutdown: Shutdown::Rude, ..phase };
        assert_eq!(phase.check(), Ok(()));
        let mut pair = pair(&phase, true);
        pair.run_until(Mono(u64::MAX / 2));
    }
}
