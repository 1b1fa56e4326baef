//! When the next bytes of a rate-limited sender are due.

use crate::Burst;
use metrics::{Clamped, Mono, SECOND};

/// A schedule of bytes at a constant rate. Every byte is accounted; nothing depends on when the
/// clock is looked at.
///
/// Bytes leave in chunks of about a millisecond's worth, at least a segment, so that the rate is
/// smooth and small packets are not produced needlessly. A sender that was held up may make up for
/// at most 100 ms; beyond that the lost time is not caught up with a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    bits_per_second: u64,
    chunk: u64,
    origin: Mono,
    bytes: u64,
    /// Bytes that leave back to back; 1 for an even rate.
    burst: u64,
}

/// A full Ethernet segment's payload: smaller chunks only cost packets.
const SEGMENT: u64 = 1448;
/// Longest time that is made up for.
const CATCH_UP: u64 = SECOND / 10;

impl Pace {
    /// A schedule from `start` at `bits_per_second` (at least 1), with sends of at most `buffer`
    /// bytes.
    pub fn new(bits_per_second: u64, buffer: u64, start: Mono) -> Self {
        let bits_per_second = bits_per_second.max(1);
        let millisecond = bits_per_second / 8_000;
        let chunk = millisecond.max(SEGMENT).min(buffer.max(1));
        Pace { bits_per_second, chunk, origin: start, bytes: 0, burst: 1 }
    }

    /// The same, but `burst` bytes leave back to back, in whole buffers, and the next burst when
    /// they are paid for.
    #[must_use]
    pub fn in_bursts(self, burst: u64, buffer: u64) -> Self {
        Pace { burst: burst.max(1), chunk: buffer.max(1), ..self }
    }

    /// When the schedule began, without the time that was too long to be made up for.
    pub fn origin(&self) -> Mono {
        self.origin
    }

    /// When the next chunk is due.
    pub fn due(&self) -> Mono {
        self.paid(self.bytes - self.bytes % self.burst)
    }

    /// When all that has left is paid for: a run that ended before would be faster than its rate.
    pub fn settled(&self) -> Mono {
        self.paid(self.bytes)
    }

    /// Time at which this many bytes are paid for.
    fn paid(&self, bytes: u64) -> Mono {
        self.origin.plus(self.ns(bytes))
    }

    /// The time of this many bytes at this rate, ns.
    fn ns(&self, bytes: u64) -> u64 {
        u64::clamped(u128::from(bytes) * 8 * u128::from(SECOND) / u128::from(self.bits_per_second))
    }

    /// Most bytes to send at once.
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Number of datagrams of `size` bytes that may leave at `now`, once one may.
    pub fn datagrams(&self, size: u64, now: Mono) -> u64 {
        let late = u128::from(now.since(self.due()));
        let due = late * u128::from(self.bits_per_second) / 8 / u128::from(SECOND) / u128::from(size.max(1));
        u64::try_from(due).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// `n` bytes left at `now`.
    pub fn sent(&mut self, n: u64, now: Mono) {
        // Within a burst bytes leave before they are paid for.
        let late = now.since(self.paid(self.bytes));
        if late > CATCH_UP {
            self.origin = self.origin.plus(late - CATCH_UP);
        }
        self.bytes += n;
    }

    /// Time between chunks at this rate, ns.
    pub fn gap_ns(&self) -> u64 {
        self.ns(self.chunk.max(self.burst))
    }
}

/// ctsTraffic's rate limit: whole sends, paid for by quanta of time (its `-RateLimit` and
/// `-RateLimitPeriod`).
///
/// As long as less than a quantum's bytes have left in the current quantum, the next send leaves at
/// once; else it waits for the next quantum, and a send larger than a quantum's bytes is paid for
/// by skipping some. So the rate holds over time, and within a quantum everything leaves back to
/// back. The arithmetic is that of `CreateNewTask` in the original, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quanta {
    /// Bytes of a quantum, at least 1.
    bytes: u64,
    period_ns: u64,
    /// When the current quantum began.
    since: Mono,
    sent: u64,
}

impl Quanta {
    /// A schedule from `start` at `bits_per_second`, in quanta of `period_ns` (at least 1 byte and
    /// 1 ns).
    pub fn new(bits_per_second: u64, period_ns: u64, start: Mono) -> Self {
        let bytes = u128::from(bits_per_second / 8) * u128::from(period_ns) / u128::from(SECOND);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(1);
        Quanta { bytes, period_ns: period_ns.max(1), since: start, sent: 0 }
    }

    /// Time at which the next send, of `n` bytes, may leave, at `now` at the earliest; the call
    /// pays for it.
    pub fn due(&mut self, n: u64, now: Mono) -> Mono {
        let (quantum, period) = (self.bytes, self.period_ns);
        if self.sent < quantum {
            self.sent = self.sent.saturating_add(n);
            if now > self.since.plus(period) {
                let gone = now.since(self.since) / period;
                self.since = self.since.plus(gone.saturating_mul(period));
                self.sent = self.sent.saturating_sub(quantum.saturating_mul(gone));
            }
            return now;
        }
        let whole = self.sent / quantum;
        let skipped = (whole - 1).saturating_mul(period);
        self.sent = (self.sent - quantum * whole).saturating_add(n);
        let wait = self.since.plus(period).since(now);
        self.since = self.since.plus(skipped).plus(period);
        now.plus(wait).plus(skipped)
    }

    /// The longest wait between two sends of `n` bytes, ns.
    pub fn gap_ns(&self, n: u64) -> u64 {
        (n / self.bytes).saturating_add(1).saturating_mul(self.period_ns)
    }
}

/// ctsTraffic's bursts: of `count` sends, the last one waits (its `-BurstCount` and `-BurstDelay`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delays {
    burst: Burst,
    left: u32,
}

impl Delays {
    /// A schedule that begins with a new burst.
    pub fn new(burst: Burst) -> Self {
        Delays { burst, left: burst.count }
    }

    /// When the next send may leave; `None` is at once.
    pub fn due(&mut self, now: Mono) -> Option<Mono> {
        if self.left == 0 {
            self.left = self.burst.count;
        }
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then(|| now.plus(self.burst.delay_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends whenever due, looking at the clock only every `step` ns; returns the bytes sent in
    /// `length` ns.
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
    fn bursts_leave_back_to_back_and_keep_the_rate() {
        // 50 buffers of 8192 bytes at 8 Mbit/s are paid for in 409.6 ms.
        let (burst, buffer) = (50 * 8192, 8192);
        let mut pace = Pace::new(8_000_000, buffer, Mono(0)).in_bursts(burst, buffer);
        assert_eq!((pace.chunk(), pace.gap_ns()), (8192, 409_600_000));
        let mut now = Mono(0);
        let mut begun = Vec::new();
        for n in 0..150 {
            if pace.due() > now {
                now = pace.due();
            }
            if n % 50 == 0 {
                begun.push(now.0);
            }
            pace.sent(buffer, now);
            now = now.plus(1_000);
        }
        assert_eq!(begun, [0, 409_600_000, 819_200_000]);
    }

    #[test]
    fn the_rate_is_exact_whatever_the_clock_does() {
        for rate in [64_000, 1_000_000, 123_456_789, 9_999_999_999] {
            for step in [1_000, 77_777, 1_000_000] {
                let want = rate / 8 * 2;
                let got = run(rate, 256 * 1024, step, 2 * SECOND);
                let most = 2 * Pace::new(rate, 256 * 1024, Mono(0)).chunk() + rate / 8 * step / SECOND;
                assert!(got.abs_diff(want) <= most, "{rate} {step}: {got} {want}");
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

    /// When ideal sends of `n` bytes leave, ms.
    fn leave(rate: u64, n: u64, sends: usize) -> Vec<u64> {
        let (mut quanta, mut now) = (Quanta::new(rate * 8, SECOND / 10, Mono(0)), Mono(0));
        let next = |_| {
            now = quanta.due(n, now);
            now.0 / 1_000_000
        };
        (0..sends).map(next).collect()
    }

    #[test]
    fn quanta_are_those_of_ctstraffic() {
        // Vectors computed from the original's definition: bytes/s, bytes per send, milliseconds.
        let slow = leave(10_000, 100, 30);
        assert_eq!(slow[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 100]);
        assert_eq!(slow[20..23], [200, 200, 200]);
        assert_eq!(leave(100_000, 65_536, 8), [0, 600, 1300, 1900, 2600, 3200, 3900, 4500]);
        assert_eq!(leave(1_000_000, 65_536, 10), [0, 0, 100, 100, 200, 300, 300, 400, 500, 500]);
    }

    #[test]
    fn quanta_keep_the_rate_whatever_the_size() {
        for n in [1, 100, 1_000, 65_536, 1_000_003] {
            let sends = 4_000_000 / n as usize;
            let last = *leave(1_000_000, n, sends.max(30)).last().unwrap();
            let rate = (sends.max(30) as u64 - 1) * n * 1_000 / last.max(1);
            assert!((950_000..=1_060_000).contains(&rate), "{n}: {rate}");
        }
        // Idle time is not made up for with more than a quantum.
        let mut quanta = Quanta::new(8_000_000, SECOND / 10, Mono(0));
        let now = Mono(60 * SECOND + 1);
        let at_once = (0..10_000).take_while(|_| quanta.due(1_000, now) == now).count();
        assert!(at_once <= 101, "{at_once}");
    }

    #[test]
    fn absurd_quanta_do_not_overflow() {
        for (rate, period, n) in
            [(8, 1, u64::MAX), (u64::MAX, u64::MAX, u64::MAX), (8, u64::MAX, 1), (1, 1, 1)]
        {
            let mut quanta = Quanta::new(rate, period, Mono(0));
            let mut now = Mono(0);
            for _ in 0..100 {
                now = quanta.due(n, now);
            }
            let _ = quanta.gap_ns(n);
        }
    }

    #[test]
    fn of_a_burst_the_last_send_waits() {
        let mut delays = Delays::new(Burst { count: 3, delay_ns: 7 });
        let due: Vec<_> = (0..7).map(|_| delays.due(Mono(100))).collect();
        let wait = Some(Mono(107));
        assert_eq!(due, [None, None, wait, None, None, wait, None]);
        let mut each = Delays::new(Burst { count: 1, delay_ns: 7 });
        assert_eq!([each.due(Mono(1)), each.due(Mono(9))], [Some(Mono(8)), Some(Mono(16))]);
    }
}
