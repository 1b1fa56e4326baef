//! Rates and bursts, measured at the receiver in virtual time.

use crate::support::{combinations, pair, phase, ran};
use metrics::SECOND;
use model::{Burst, Pattern, Phase, Range};
use sim::{Link, Quirks, START};

const MS: u64 = 1_000_000;

#[test]
fn a_rate_is_exact_over_time_and_smooth() {
    let (patterns, rates) =
        ([Pattern::Push, Pattern::Pull, Pattern::Duplex], [1_000_000, 8_000_000, 100_000_000, 1_000_000_000]);
    for [pattern, rate, would_block] in combinations([patterns.len(), rates.len(), 2]) {
        let (pattern, rate) = (patterns[pattern], rates[rate]);
        let quirks = Quirks { would_block: [0.0, 0.05][would_block], ..Quirks::default() };
        let phase = Phase { rate: Some(rate), ..phase(pattern, 1 << 40) };
        let receiver = if pattern == Pattern::Pull { 0 } else { 1 };
        let mut pair = pair(&phase, false).quirks(quirks).both(Link::new().delay(MS).window(4 << 20));
        pair.run_until(START.plus(100 * MS));
        let first = pair.ends[receiver].counts.rx_bytes;
        let (mut before, window) = (first, 20 * MS);
        let chunk = (rate / 8_000).max(1448) + 16;
        for i in 1..=50 {
            pair.run_until(START.plus(100 * MS + i * window));
            let now = pair.ends[receiver].counts.rx_bytes;
            let fair = rate / 8 * window / SECOND;
            assert!(
                (now - before).abs_diff(fair) <= 2 * chunk,
                "{pattern:?} {rate} window {i}: {} {fair}",
                now - before
            );
            before = now;
        }
        let whole = rate / 8;
        assert!(
            (before - first).abs_diff(whole) <= 2 * chunk,
            "{pattern:?} {rate}: {} {whole}",
            before - first
        );
    }
}

#[test]
fn a_rate_shares_the_connection_with_the_stop() {
    // At 8 kbit/s a span is 50 bytes: the run ends within it.
    let phase = Phase { rate: Some(8_000), ..phase(Pattern::Duplex, 1 << 30) };
    let pair = ran(pair(&phase, false).stop(0, 3 * SECOND));
    assert!(pair.now < START.plus(4 * SECOND), "{:?}", pair.now);
    assert_eq!(pair.ends[0].counts.tx_bytes, pair.ends[1].counts.rx_bytes);
    assert!(pair.ends[0].counts.tx_bytes.abs_diff(3_000) < 1_500, "{:?}", pair.ends[0].counts);
}

#[test]
fn bursts_are_whole_buffers_and_then_a_pause() {
    for quirks in [Quirks::default(), Quirks::tiny_sends()] {
        let burst = Some(Burst { count: 3, delay_ns: SECOND });
        let phase = Phase { burst, buffer: Range::just(10_000), ..phase(Pattern::Push, 100_000) };
        let mut pair = pair(&phase, false).quirks(quirks);
        for second in 0..3 {
            pair.run_until(START.plus(second * SECOND + 500 * MS));
            assert_eq!(pair.ends[1].counts.rx_bytes, (second + 1) * 30_000, "{quirks:?}");
        }
        pair.run();
        assert!(pair.ends[1].completed());
        assert!(pair.now < START.plus(3 * SECOND + 500 * MS));
    }
}

#[test]
fn a_burst_can_be_stopped_in_its_pause() {
    let burst = Some(Burst { count: 1, delay_ns: 60 * SECOND });
    let phase = Phase { burst, ..phase(Pattern::Duplex, 1 << 30) };
    let pair = ran(pair(&phase, false).stop(0, SECOND));
    assert!(pair.now < START.plus(SECOND + 100 * MS), "{:?}", pair.now);
    assert!(pair.ends.iter().all(|e| matches!(e.ended, Some(Ok(metrics::Ending::Stopped)))));
}
