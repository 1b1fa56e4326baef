//! Drops of a socket's receive buffer, in datagrams.

use metrics::{Clamped, Packets};
use transport::Received;

/// Counts the drops of one socket. The kernel counts buffers, and a merged one (GRO) held as many
/// datagrams as the largest that was received, at most. A buffer carries the counter from before
/// its own arrival, so the numbers of dropped datagrams are missing right before it.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    /// The kernel's counter, as last reported.
    counter: u32,
    /// Datagrams in the largest buffer received.
    largest: u64,
    /// Buffers dropped whose gap has not shown, and the datagrams that these may have held behind
    /// the first of each.
    owed: (u64, u64),
}

impl Drops {
    /// Drops since the last call, of datagrams without numbers: as many as the buffers may have
    /// held.
    pub(crate) fn take(&mut self, got: &Received<'_>) -> Packets {
        let dropped = self.read(got);
        let (_, merged) = std::mem::take(&mut self.owed);
        Packets { dropped: dropped + merged, dropped_merged: merged, ..Packets::default() }
    }

    /// Adds the drops since the last call to `counts`, the counts of `got` with the gap before it.
    pub(crate) fn count(&mut self, got: &Received<'_>, counts: &mut Packets) {
        counts.dropped += self.read(got);
        // Words have no numbers: the gap shows at the next datagram, or at the end.
        if counts.received + counts.duplicated + counts.corrupt > 0 {
            self.fill(counts);
        }
    }

    /// Adds to `counts` the part of their missing numbers that stood in dropped buffers.
    pub(crate) fn fill(&mut self, counts: &mut Packets) {
        let (buffers, behind) = std::mem::take(&mut self.owed);
        let merged = behind.min(u64::clamped(counts.lost.max(0)).saturating_sub(buffers));
        counts.dropped += merged;
        counts.dropped_merged += merged;
    }

    /// Buffers dropped since the last call.
    fn read(&mut self, got: &Received<'_>) -> u64 {
        let buffers = u64::from(got.dropped.wrapping_sub(std::mem::replace(&mut self.counter, got.dropped)));
        self.largest = self.largest.max(u64::clamped(got.count()));
        self.owed.0 += buffers;
        self.owed.1 = self.owed.1.saturating_add(buffers.saturating_mul(self.largest.saturating_sub(1)));
        buffers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Mono;

    /// `n` datagrams in one buffer, and the kernel's counter.
    fn got(n: usize, dropped: u32) -> Received<'static> {
        Received { stride: 10, dropped, ..Received::skipped(10 * n, Mono(0)) }
    }

    /// Drops that a receiver of numbers finds in buffers of so many datagrams, counters and gaps.
    fn found(all: &[(usize, u32, i64)]) -> (u64, u64) {
        let mut drops = Drops::default();
        let mut sum = Packets::default();
        for (n, dropped, gap) in all {
            let mut counts = Packets { received: *n as u64, lost: *gap, ..Packets::default() };
            drops.count(&got((*n).max(1), *dropped), &mut counts);
            sum.add(&counts);
        }
        (sum.dropped, sum.dropped_merged)
    }

    #[test]
    fn a_dropped_run_counts_as_the_datagrams_that_it_held() {
        assert_eq!(found(&[(1, 0, 0), (1, 3, 3)]), (3, 0), "single datagrams are counted exactly");
        assert_eq!(found(&[(38, 0, 0), (38, 103, 3_854)]), (3_854, 3_751));
        // No more than the largest buffers hold, and no more than is missing.
        assert_eq!(found(&[(38, 0, 0), (38, 2, 3_854)]), (76, 74));
        assert_eq!(found(&[(38, 0, 0), (38, 2, 5)]), (5, 3));
        // The first buffer after the drops is the largest.
        assert_eq!(found(&[(1, 0, 0), (38, 1, 38)]), (38, 37));
        // Gaps without a drop are the network's.
        assert_eq!(found(&[(38, 0, 70), (38, 1, 38), (38, 1, 70)]), (38, 37));
        // Numbers that came late fill a gap: none is left for more than the buffers.
        assert_eq!(found(&[(38, 0, 0), (38, 1, -3)]), (1, 0));
    }

    #[test]
    fn the_gap_of_drops_before_a_word_shows_later() {
        assert_eq!(found(&[(38, 0, 0), (0, 2, 0), (38, 2, 76)]), (76, 74));
        let mut drops = Drops::default();
        let mut seen = Packets { received: 38, ..Packets::default() };
        drops.count(&got(38, 0), &mut seen);
        let mut word = Packets::default();
        drops.count(&got(1, 2), &mut word);
        assert_eq!((word.dropped, word.dropped_merged), (2, 0));
        let mut tail = Packets { lost: 50, ..Packets::default() };
        drops.fill(&mut tail);
        assert_eq!((tail.dropped, tail.dropped_merged), (48, 48), "50 with the two of the word");
    }

    #[test]
    fn without_numbers_as_many_as_the_buffers_may_have_held() {
        let mut drops = Drops::default();
        let mut taken = |n, dropped| {
            let counts = drops.take(&got(n, dropped));
            (counts.dropped, counts.dropped_merged)
        };
        assert_eq!(
            [taken(1, 0), taken(1, 2), taken(38, 2), taken(38, 4)],
            [(0, 0), (2, 0), (0, 0), (76, 74)]
        );
        assert_eq!(taken(1, 3), (u64::from(u32::MAX) * 38, u64::from(u32::MAX) * 37), "it wraps");
    }
}
