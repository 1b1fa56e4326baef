//! Data connections in virtual time: every pattern, on good and bad paths, to the byte.

use crate::support::{combinations, pair, phase, ran, sized};
use metrics::Ending;
use model::{Pattern, Payload, Phase, Range, Verify};
use sim::{Link, Pair, Quirks, START};

const MS: u64 = 1_000_000;

fn patterns() -> [Pattern; 5] {
    [
        Pattern::Push,
        Pattern::Pull,
        Pattern::Duplex,
        Pattern::PushPull { push: 5_000, pull: 3_000 },
        Pattern::PushPull { push: 1, pull: 100_000 },
    ]
}

/// Both ends are content and have counted the same, all of it.
fn assert_whole(pair: &Pair, phase: &Phase, what: &str) {
    let (up, down) = phase.pattern.split(phase.transfer);
    for (i, end) in pair.ends.iter().enumerate() {
        assert!(end.completed(), "{what}: end {i}: {:?}", end.ended);
        let (tx, rx) = if i == 0 { (up, down) } else { (down, up) };
        assert_eq!((end.counts.tx_bytes, end.counts.rx_bytes), (tx, rx), "{what}: end {i}");
    }
}

/// And how much is to be sent under each of them.
fn conditions() -> Vec<(&'static str, Link, Quirks, u64)> {
    let transfers = sized(
        [300_001, 100_001, 100_003, 8_001, 8_001, 40_001],
        [1_000_001, 200_001, 300_003, 20_001, 20_001, 100_001],
    );
    let with = |((name, link, quirks), transfer)| (name, link, quirks, transfer);
    let mut all: Vec<_> = crate::support::conditions().into_iter().zip(transfers).map(with).collect();
    all.push(("window of 1 byte", Link::new().window(1), Quirks::default(), 3_001));
    all
}

#[test]
fn every_pattern_payload_and_check_over_every_path() {
    let payloads = [Payload::Pattern, Payload::Random, Payload::Zeros];
    let checks = [Verify::Data, Verify::Connection, Verify::None];
    for [pattern, payload, verify, rude, condition] in
        combinations([patterns().len(), 3, 3, 2, conditions().len()])
    {
        let (pattern, payload, verify, rude) =
            (patterns()[pattern], payloads[payload], checks[verify], rude == 1);
        let (name, link, quirks, transfer) = conditions().swap_remove(condition);
        let what = format!("{pattern:?} {payload:?} {verify:?} rude {rude} {name}");
        let phase = Phase { payload, verify, ..phase(pattern, transfer) };
        let pair = ran(pair(&phase, rude).seed(transfer).quirks(quirks).both(link));
        assert_whole(&pair, &phase, &what);
    }
}

#[test]
fn any_buffer_and_any_small_total() {
    let buffers =
        [Range::just(1), Range { low: 1, high: 5_000 }, Range::just(16 << 20), Range { low: 16, high: 17 }];
    let transfers = [1, 2, 3, 15, 16, 17, 4_999, 5_000, 5_001, 8_000, 8_001, 13_000, 16_385];
    let sizes = [patterns().len(), buffers.len(), transfers.len(), 2];
    for [pattern, buffer, transfer, verify] in combinations(sizes) {
        let (pattern, buffer, transfer) = (patterns()[pattern], buffers[buffer], transfers[transfer]);
        let verify = [Verify::Data, Verify::None][verify];
        let phase = Phase { buffer, verify, ..phase(pattern, transfer) };
        let pair = ran(pair(&phase, false).seed(transfer));
        assert_whole(&pair, &phase, &format!("{pattern:?} {buffer:?} {transfer}"));
    }
}

/// Both ends have counted the same, and call it the same.
fn assert_agreed(pair: &Pair, phase: &Phase, what: &str) -> Ending {
    let [client, server] = &pair.ends;
    let how = |i: usize| match &pair.ends[i].ended {
        Some(Ok(how @ (Ending::Completed | Ending::Stopped))) => *how,
        other => panic!("{what}: end {i}: {other:?}"),
    };
    assert_eq!(how(0), how(1), "{what}");
    assert_eq!(client.counts.tx_bytes, server.counts.rx_bytes, "{what}");
    assert_eq!(client.counts.rx_bytes, server.counts.tx_bytes, "{what}");
    let whole = client.counts.tx_bytes + client.counts.rx_bytes == {
        let (up, down) = phase.pattern.split(phase.transfer);
        up + down
    };
    assert_eq!(how(0) == Ending::Completed, whole, "{what}");
    how(0)
}

#[test]
fn a_run_that_ends_at_any_moment_leaves_both_ends_agreed() {
    let conditions = [
        ("clean", Link::new().rate(100_000_000), Quirks::default()),
        ("remote", Link::new().delay(40 * MS).rate(50_000_000).window(50_000), Quirks::default()),
        ("rough", Link::new().delay(2 * MS).rate(50_000_000).loss(0.02), Quirks::rough()),
    ];
    let instants = (0..30).map(|i| i * 700_003).chain((1..20).map(|i| i * 9_000_017)).collect::<Vec<_>>();
    let all = combinations([patterns().len(), 2, conditions.len(), instants.len()]);
    let (mut stopped, mut whole) = (0, 0);
    for [pattern, rude, condition, after] in &all {
        let (pattern, rude, after) = (patterns()[*pattern], *rude == 1, instants[*after]);
        let (name, link, quirks) = conditions[*condition].clone();
        let phase = phase(pattern, 400_001);
        let what = format!("{pattern:?} rude {rude} {name} after {after}");
        let pair = ran(pair(&phase, rude).seed(after).quirks(quirks).both(link).stop(0, after));
        match assert_agreed(&pair, &phase, &what) {
            Ending::Stopped => stopped += 1,
            _ => whole += 1,
        }
        let late = pair.now.since(START.plus(after));
        assert!(late < 500 * MS, "{what}: ended {late} ns after the stop");
    }
    assert!(stopped > all.len() / 3 && whole > all.len() / 15, "{stopped} {whole} of {}", all.len());
}

/// By itself, and at the same instant as its client.
#[test]
fn a_server_that_stops_leaves_both_ends_agreed() {
    let delays = [MS, 3 * MS];
    for [pattern, after, both] in combinations([patterns().len(), 40, delays.len()]) {
        let (pattern, after, delay, both) =
            (patterns()[pattern], after as u64 * 1_000_003, delays[both], both == 1);
        let phase = phase(pattern, 400_001);
        let pair = pair(&phase, false).both(Link::new().delay(delay).rate(100_000_000)).stop(1, after);
        let pair = ran(if both { pair.stop(0, after) } else { pair });
        assert_agreed(&pair, &phase, &format!("{pattern:?} after {after}, both {both}"));
    }
}
