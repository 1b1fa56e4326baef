//! Outcomes of numbered packets: lost, repeated, reordered, or too late for either.
//!
//! A packet is *reordered* when one with a higher number arrived before it (RFC 4737 §3.3); its
//! *extent* is how many packets back, counted without repeats, the earliest such one is (§4.2). A
//! packet is *lost* when it never arrives (RFC 7680, RFC 2680): only numbers that are long past, or
//! the end of the run, settle that. A *loss burst* is a run of consecutive lost numbers (RFC 3357).

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Gaps that are remembered for extents.
const JUMPS: usize = 1024;
/// Packets without a readable number that are remembered until theirs is settled.
const NAMELESS: usize = 4096;

/// Classification of a packet at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The highest number so far; `gap` numbers before it have not arrived (yet).
    New {
        /// Numbers skipped.
        gap: u64,
    },
    /// One that a higher number has overtaken.
    Reordered {
        /// Packets between it and the earliest that overtook it, plus one; a lower bound after very
        /// many gaps.
        extent: u64,
    },
    /// A number that arrived before.
    Duplicate,
    /// A number so old that it has been settled as lost; the window no longer knows whether it is a
    /// repeat.
    Ancient,
}

/// Outcomes of numbered packets. The counts add up: numbers below the next expected one are
/// `unique` or `missing`, and settled ones `lost` or `nameless`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Arrivals {
    /// Different packets that arrived.
    pub unique: u64,
    /// Repeats of packets that had arrived.
    pub duplicates: u64,
    /// Packets (of `unique`) that a higher number had overtaken.
    pub reordered: u64,
    /// Packets that arrived after their number had been settled as lost.
    pub ancient: u64,
    /// Numbers settled as lost.
    pub lost: u64,
    /// Missing numbers that packets without a readable number stand for; none of `lost`.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub nameless: u64,
    /// Runs of consecutive lost numbers.
    pub loss_bursts: u64,
    /// The longest of them, packets.
    pub longest_loss: u64,
    /// Largest reordering extent, packets.
    pub max_extent: u64,
}

impl Arrivals {
    /// Adds another flow's.
    pub fn merge(&mut self, other: &Arrivals) {
        self.unique += other.unique;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.ancient += other.ancient;
        self.lost += other.lost;
        self.nameless += other.nameless;
        self.loss_bursts += other.loss_bursts;
        self.longest_loss = self.longest_loss.max(other.longest_loss);
        self.max_extent = self.max_extent.max(other.max_extent);
    }
}

/// Follows the numbers 0, 1, 2 … of one flow as they arrive, in a window of fixed size.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// One bit per number in `floor..floor + 64 * words.len()`, in a ring.
    words: Box<[u64]>,
    /// The lowest number in the window; a multiple of 64.
    floor: u64,
    next: u64,
    counts: Arrivals,
    /// Lost numbers just below `floor`.
    run: u64,
    /// Packets that arrived right after a gap: number, and the count of different packets before.
    jumps: VecDeque<(u64, u64)>,
    /// Numbers expected at arrivals without a readable number, in order, until missing numbers are
    /// settled.
    nameless: VecDeque<u64>,
}

impl Sequence {
    /// A sequence that separates repeats from late packets as far back as `window` numbers (rounded
    /// up to a power of two, at least 128, at most 2^24); it takes an eighth of a byte per number.
    pub fn new(window: usize) -> Self {
        let words = (window.clamp(128, 1 << 24).next_power_of_two()) / 64;
        Sequence {
            words: vec![0; words].into_boxed_slice(),
            floor: 0,
            next: 0,
            counts: Arrivals::default(),
            run: 0,
            jumps: VecDeque::new(),
            nameless: VecDeque::new(),
        }
    }

    /// The number expected next: one more than the highest seen.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Numbers below the next expected one that have not arrived, settled or not.
    pub fn missing(&self) -> u64 {
        self.next - self.counts.unique
    }

    /// Counts so far; `lost` holds only numbers that are settled as lost.
    pub fn counts(&self) -> Arrivals {
        self.counts
    }

    /// Number `seq` arrived. Numbers above 2^63 are taken for ancient: no flow gets there.
    pub fn see(&mut self, seq: u64) -> Seen {
        if seq >= self.next {
            if seq >> 63 != 0 {
                self.counts.ancient += 1;
                return Seen::Ancient;
            }
            let gap = seq - self.next;
            self.advance(seq);
            self.mark(seq);
            if gap > 0 {
                if self.jumps.len() == JUMPS {
                    self.jumps.pop_front();
                }
                self.jumps.push_back((seq, self.counts.unique));
            }
            self.next = seq + 1;
            self.counts.unique += 1;
            return Seen::New { gap };
        }
        if seq < self.floor {
            self.counts.ancient += 1;
            return Seen::Ancient;
        }
        if !self.mark(seq) {
            self.counts.duplicates += 1;
            return Seen::Duplicate;
        }
        let extent = self.extent(seq);
        self.counts.unique += 1;
        self.counts.reordered += 1;
        self.counts.max_extent = self.counts.max_extent.max(extent);
        Seen::Reordered { extent }
    }

    /// Arrival of a packet without a readable number. The packet stands for the lowest missing
    /// number from the expected one on that no earlier such packet stands for, and which is
    /// therefore not lost; [`crate::packet_outcomes`] has the same rule.
    pub fn see_nameless(&mut self) {
        if self.nameless.len() < NAMELESS {
            self.nameless.push_back(self.next);
        }
    }

    /// Numbers `first..first + n` arrived in order. True, and quick, when they are the expected
    /// ones; else nothing is changed, and the caller passes each to [`Sequence::see`].
    pub fn see_run(&mut self, first: u64, n: u64) -> bool {
        let end = first.saturating_add(n);
        if first != self.next || end >> 63 != 0 || n > 64 * self.words.len() as u64 / 2 || n == 0 {
            return false;
        }
        self.advance(end - 1);
        let mut at = first;
        while at < end {
            let bits = (end - at).min(64 - at % 64);
            let mask = (u64::MAX >> (64 - bits)) << (at % 64);
            *self.word(at) |= mask;
            at += bits;
        }
        self.next = end;
        self.counts.unique += n;
        true
    }

    /// The run is over and `total` packets were sent: those still missing are lost.
    pub fn finish(&mut self, total: u64) -> Arrivals {
        let end = total.max(self.next);
        while self.floor + 64 <= end {
            let quick = self.floor >= self.next;
            if quick {
                let left = (end - self.floor) / 64 * 64;
                self.lose(self.floor, left);
                self.floor += left;
            } else {
                self.settle_word();
            }
        }
        for seq in self.floor..end {
            let came = seq < self.next && *self.word(seq) >> (seq % 64) & 1 == 1;
            if came { self.end_run() } else { self.lose(seq, 1) }
        }
        self.end_run();
        (self.floor, self.next) = (end.next_multiple_of(64), end.next_multiple_of(64));
        self.words.fill(0);
        self.counts
    }

    fn word(&mut self, seq: u64) -> &mut u64 {
        let at = (seq / 64) as usize & (self.words.len() - 1);
        &mut self.words[at]
    }

    /// Sets the number's bit; false when it was set.
    fn mark(&mut self, seq: u64) -> bool {
        let bit = 1 << (seq % 64);
        let word = self.word(seq);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// Moves the window up so that `seq` lies in it.
    fn advance(&mut self, seq: u64) {
        let size = 64 * self.words.len() as u64;
        if seq < self.floor + size {
            return;
        }
        let floor = (seq + 1 - size).next_multiple_of(64);
        while self.floor < floor {
            // Beyond the last number seen all is empty.
            if self.floor >= self.next.next_multiple_of(64) {
                self.lose(self.floor, floor - self.floor);
                self.floor = floor;
                return;
            }
            self.settle_word();
        }
    }

    /// Settles the 64 lowest numbers of the window.
    fn settle_word(&mut self) {
        let mut word = std::mem::take(self.word(self.floor));
        self.floor += 64;
        if word == u64::MAX {
            return self.end_run();
        }
        let mut left = 64;
        while left > 0 {
            let zeros = u64::from(word.trailing_zeros()).min(left);
            self.lose(self.floor - left, zeros);
            left -= zeros;
            if left == 0 {
                break;
            }
            word >>= zeros;
            let ones = u64::from(word.trailing_ones()).min(left);
            self.end_run();
            left -= ones;
            word = word.checked_shr(ones as u32).unwrap_or(0);
        }
    }

    /// Settles the missing numbers `first..first + n`.
    fn lose(&mut self, mut first: u64, n: u64) {
        let end = first + n;
        while let Some(expected) =
            self.nameless.front().copied().filter(|expected| first < end && *expected < end)
        {
            self.nameless.pop_front();
            let stands_for = expected.max(first);
            self.lost(stands_for - first);
            self.end_run();
            self.counts.nameless += 1;
            first = stands_for + 1;
        }
        self.lost(end - first);
    }

    fn lost(&mut self, n: u64) {
        self.run += n;
        self.counts.lost += n;
        self.counts.longest_loss = self.counts.longest_loss.max(self.run);
    }

    fn end_run(&mut self) {
        self.counts.loss_bursts += u64::from(self.run > 0);
        self.run = 0;
    }

    /// Number of arrivals since the earliest packet with a higher number than `seq`.
    ///
    /// That packet was the highest number at its arrival, and the smallest number above `seq`: it
    /// followed a gap, or `seq` would have arrived before.
    fn extent(&self, seq: u64) -> u64 {
        let after = self.jumps.partition_point(|&(number, _)| number < seq);
        self.jumps.get(after).map_or(1, |&(_, index)| self.counts.unique - index)
    }
}

/// A 32-bit number as the 64-bit one nearest to `local`, for protocols whose numbers wrap.
pub fn widen(local: u64, seq: u32) -> u64 {
    let distance = i64::from(seq.wrapping_sub(local as u32) as i32);
    local.checked_add_signed(distance).unwrap_or(u64::from(seq))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definitions, word by word, over all that came: quadratic, and obviously right.
    fn slow(came: &[u64], total: u64) -> Arrivals {
        let mut first: Vec<u64> = Vec::new();
        let mut counts = Arrivals::default();
        for &s in came {
            if first.contains(&s) {
                counts.duplicates += 1;
                continue;
            }
            // RFC 4737 4.2: i - min{ j < i : s_j > s_i }.
            if let Some(j) = first.iter().position(|&other| other > s) {
                counts.reordered += 1;
                counts.max_extent = counts.max_extent.max((first.len() - j) as u64);
            }
            first.push(s);
        }
        counts.unique = first.len() as u64;
        let mut run = 0;
        for s in 0..total.max(first.iter().max().map_or(0, |m| m + 1)) {
            if first.contains(&s) {
                run = 0;
            } else {
                run += 1;
                counts.lost += 1;
                counts.loss_bursts += u64::from(run == 1);
                counts.longest_loss = counts.longest_loss.max(run);
            }
        }
        counts
    }

    fn quick(came: &[u64], total: u64, window: usize) -> Arrivals {
        let mut sequence = Sequence::new(window);
        for &s in came {
            sequence.see(s);
        }
        sequence.finish(total)
    }

    #[test]
    fn the_examples_of_rfc_4737() {
        // Table 1 of section 10.2 (one late packet: 1 2 3 5 6 7 8 4 9 10): extent 4. From 0 here.
        let mut sequence = Sequence::new(128);
        for s in [0, 1, 2, 4, 5, 6, 7] {
            assert!(matches!(sequence.see(s), Seen::New { .. }));
        }
        assert_eq!(sequence.see(3), Seen::Reordered { extent: 4 });
        // Table 2 (two early, 1 2 3 7 8 9 10 4 5 6 11): extents 4, 5, 6.
        let mut sequence = Sequence::new(128);
        for s in [0, 1, 2, 6, 7, 8, 9] {
            sequence.see(s);
        }
        let extents: Vec<Seen> = [3, 4, 5].into_iter().map(|s| sequence.see(s)).collect();
        assert_eq!(extents, [4, 5, 6].map(|extent| Seen::Reordered { extent }));
        assert_eq!(sequence.see(10), Seen::New { gap: 0 });
    }

    #[test]
    fn bursts_of_loss() {
        // Lost: 2, 3, 4, 7, and 9 to 99 at the end.
        let counts = quick(&[0, 1, 5, 6, 8], 100, 128);
        assert_eq!((counts.lost, counts.loss_bursts, counts.longest_loss), (3 + 1 + 91, 3, 91));
        assert_eq!(quick(&[], 1000, 128).longest_loss, 1000);
        assert_eq!(quick(&[], 0, 128), Arrivals::default());
    }

    #[test]
    fn absurd_numbers_cost_no_time() {
        let mut sequence = Sequence::new(1 << 20);
        sequence.see(0);
        assert_eq!(sequence.see((1 << 62) - 1), Seen::New { gap: (1 << 62) - 2 });
        assert_eq!(sequence.see(u64::MAX), Seen::Ancient);
        assert_eq!(sequence.see(5), Seen::Ancient);
        let counts = sequence.finish(1 << 62);
        assert_eq!((counts.unique, counts.ancient, counts.lost), (2, 2, (1 << 62) - 2));
    }

    #[test]
    fn numbers_of_32_bits_go_on_where_they_wrap() {
        let mut local = (1 << 32) - 3;
        for (seq, wide) in [(u32::MAX, (1 << 32) - 1), (1, (1 << 32) + 1), (0, 1 << 32), (2, (1 << 32) + 2)] {
            local = widen(local, seq);
            assert_eq!(local, wide);
        }
        assert_eq!(widen(1, u32::MAX), u64::from(u32::MAX), "nothing lies before the beginning");
    }

    fn shuffled() -> impl Strategy<Value = (Vec<u64>, u64)> {
        // Numbers with loss, repeats and displacement: each packet is sorted by its number plus a
        // random push.
        proptest::collection::vec((0..100u32, 0..40u64, 0..40u64), 0..400).prop_map(|rows| {
            let total = rows.len() as u64;
            let mut came: Vec<(u64, u64)> = Vec::new();
            for (s, (fate, push, again)) in (0..).zip(rows) {
                match fate {
                    0..10 => {}
                    10..20 => came.extend([(s + push, s), (s + again, s)]),
                    20..50 => came.push((s + push, s)),
                    _ => came.push((s, s)),
                }
            }
            came.sort_by_key(|&(at, _)| at);
            (came.into_iter().map(|(_, s)| s).collect(), total)
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_definitions((came, total) in shuffled()) {
            prop_assert_eq!(quick(&came, total, 512), slow(&came, total));
        }

        #[test]
        fn a_small_window_still_adds_up((came, total) in shuffled()) {
            let counts = quick(&came, total, 128);
            prop_assert_eq!(counts.unique + counts.lost, total.max(came.iter().max().map_or(0, |m| m + 1)));
            prop_assert_eq!(counts.unique + counts.duplicates + counts.ancient, came.len() as u64);
        }

        #[test]
        fn runs_count_like_single_packets((came, total) in shuffled(), n in 1..70u64) {
            let (mut one, mut many) = (Sequence::new(512), Sequence::new(512));
            for &s in &came {
                for k in s * n..(s + 1) * n {
                    one.see(k);
                }
                if !many.see_run(s * n, n) {
                    for k in s * n..(s + 1) * n {
                        many.see(k);
                    }
                }
                prop_assert_eq!(one.missing(), many.missing());
            }
            prop_assert_eq!(one.finish(total * n), many.finish(total * n));
        }
    }
}
