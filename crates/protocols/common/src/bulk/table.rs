//! The measured part of a test: set by the session, read by every connection.

use metrics::Mono;
use std::sync::atomic::{AtomicU64, Ordering};

/// The times of a test. Connections look at them when bytes have moved; a time that is not known
/// yet is later than any.
#[derive(Debug)]
pub struct Timetable {
    from: AtomicU64,
    to: AtomicU64,
    quiet: AtomicU64,
}

impl Timetable {
    /// Everything counts, from the first byte to the last.
    pub fn always() -> Self {
        Timetable { from: AtomicU64::new(0), to: AtomicU64::new(u64::MAX), quiet: AtomicU64::new(u64::MAX) }
    }

    /// Nothing counts and nothing is sent until the times are set.
    pub fn unknown() -> Self {
        let never = || AtomicU64::new(u64::MAX);
        Timetable { from: never(), to: never(), quiet: never() }
    }

    /// Bytes from `from` until before `to` count, and senders send until `quiet`.
    pub fn set(&self, from: Mono, to: Mono, quiet: Mono) {
        self.to.store(to.0, Ordering::Relaxed);
        self.quiet.store(quiet.0, Ordering::Relaxed);
        self.from.store(from.0, Ordering::Release);
    }

    /// Bytes from now on do not count, and nothing more is sent.
    pub fn cut(&self, now: Mono) {
        self.to.fetch_min(now.0, Ordering::Relaxed);
        self.quiet.fetch_min(now.0, Ordering::Relaxed);
    }

    /// True if bytes at `now` count.
    pub fn counts(&self, now: Mono) -> bool {
        self.from.load(Ordering::Acquire) <= now.0 && now.0 < self.to.load(Ordering::Relaxed)
    }

    /// When counting begins; `None` until it is set.
    pub fn from(&self) -> Option<Mono> {
        Some(Mono(self.from.load(Ordering::Acquire))).filter(|at| at.0 < u64::MAX)
    }

    /// When counting ends.
    pub fn to(&self) -> Mono {
        Mono(self.to.load(Ordering::Relaxed))
    }

    /// Until when senders send.
    pub fn quiet(&self) -> Mono {
        Mono(self.quiet.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_between_counts() {
        let table = Timetable::unknown();
        assert_eq!((table.counts(Mono(5)), table.from()), (false, None));
        table.set(Mono(10), Mono(20), Mono(25));
        let counted: Vec<u64> = (0..30).filter(|&n| table.counts(Mono(n))).collect();
        assert_eq!(counted, (10..20).collect::<Vec<_>>());
        table.cut(Mono(15));
        assert_eq!((table.to(), table.quiet(), table.counts(Mono(15))), (Mono(15), Mono(15), false));
        assert!(Timetable::always().counts(Mono(0)));
    }
}
