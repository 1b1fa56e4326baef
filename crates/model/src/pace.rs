//! When the next bytes of a rate-limited sender are due.

use metrics::{Mono, SECOND};

/// A schedule of bytes at a constant rate. Every byte is accounted; nothing depends on when the clock is looked at.
///
/// Bytes leave in chunks of about a millisecond's worth, at least a segment, so that the rate is smooth and small packets
/// are not produced needlessly. A sender that was held up may make up for at most 100 ms; beyond that the lost time is
/// not caught up with a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    bits_per_second: u64,
    chunk: u64,
    origin: Mono,
    bytes: u64,
}

/// A full Ethernet segment's payload: smaller chunks only cost packets.
const SEGMENT: u64 = 1448;
/// Longest time that is made up for.
const CATCH_UP: u64 = SECOND / 10;

impl Pace {
    /// A schedule from `start` at `bits_per_second` (at least 1), with sends of at most `buffer` bytes.
    #[must_use]
    pub fn new(bits_per_second: u64, buffer: u64, start: Mono) -> Self {
        let bits_per_second = bits_per_second.max(1);
        let millisecond = bits_per_second / 8_000;
        Pace { bits_per_second, chunk: millisecond.max(SEGMENT).min(buffer.max(1)), origin: start, bytes: 0 }
    }

    /// When the next chunk is due.
    #[must_use]
    pub fn due(&self) -> Mono {
        let ns = u128::from(self.bytes) * 8 * u128::from(SECOND) / u128::from(self.bits_per_second);
        self.origin.plus(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Most bytes to send at once.
    #[must_use]
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// `n` bytes left at `now`.
    pub fn sent(&mut self, n: u64, now: Mono) {
        let late = now.since(self.due());
        if late > CATCH_UP {
            self.origin = self.origin.plus(late - CATCH_UP);
        }
        self.bytes += n;
    }

    /// Time between chunks at this rate, ns.
    #[must_use]
    pub fn gap_ns(&self) -> u64 {
        (u128::from(self.chunk) * 8 * u128::from(SECOND) / u128::from(self.bits_per_second)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends whenever due, looking at the clock only every `step` ns; returns the bytes sent in `length` ns.
    fn run(rate: u64, buffer: u64, step: u64, length: u64) -> u64 {
        let mut pace = Pace::new(rate, buffer, Mono(0));
        let (mut now, mut total) = (Mono(0), 0);
        while now.0 < length {
            while pace.due() <= now {
                let n = pace.chunk();
                pace.sent(n, now);
                total += n;
            }
            now = now.plus(step);
        }
        total
    }

    #[test]
    fn the_rate_is_exact_whatever_the_clock_does() {
        for rate in [64_000, 1_000_000, 123_456_789, 9_999_999_999] {
            for step in [1_000, 77_777, 1_000_000] {
                let want = rate / 8 * 5;
                let got = run(rate, 256 * 1024, step, 5 * SECOND);
                let chunk = Pace::new(rate, 256 * 1024, Mono(0)).chunk();
                assert!(
                    got.abs_diff(want) <= 2 * chunk + rate / 8 * step / SECOND,
                    "{rate} {step}: {got} {want}"
                );
            }
        }
    }

    #[test]
    fn a_long_hold_up_is_not_made_up_for() {
        let mut pace = Pace::new(8_000_000, 1 << 20, Mono(0));
        pace.sent(pace.chunk(), Mono(10 * SECOND));
        let mut burst = 0;
        while pace.due() <= Mono(10 * SECOND) {
            burst += pace.chunk();
            pace.sent(pace.chunk(), Mono(10 * SECOND));
        }
        assert!(burst <= 1_000_000 / 10 + 2 * pace.chunk(), "100 ms at 1 MB/s, got {burst}");
    }
}
