//! Reordering of what left, as RFC 4737 defines it.
//!
//! Measurements are compared with this truth. The module shares no code with them on purpose: an
//! error in common would not show.

use metrics::real;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Past maxima kept for the extents of late packets; 64 KiB.
const HISTORY: usize = 4096;
/// Different extents counted one by one; larger ones share the last place.
const MOST_EXTENTS: u64 = 256;

/// Follows the order in which the numbers 0, 1, … of a direction (or flow) leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// One more than the highest number so far.
    next: u64,
    left: u64,
    reordered: u64,
    extents: BTreeMap<u64, u64>,
    most: u64,
    /// Numbers that were the highest when they left, with their places: both rise.
    maxima: VecDeque<(u64, u64)>,
}

/// RFC 4737 reordering of what left. Copies do not count (RFC 4737 §3.4, §5), lost packets neither.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reordering {
    /// Packets that left.
    pub packets: u64,
    /// Packets that left after a later one: type-P-reordered (§3).
    pub reordered: u64,
    /// Share of the reordered packets (§4.1).
    pub ratio: f64,
    /// Extents (§4.2) and how often they occurred: the distance, in packets, to the earliest later
    /// one that left before. 256 stands for all that are as large or larger.
    pub extents: Vec<(u64, u64)>,
    /// The largest extent.
    pub largest_extent: u64,
}

impl Order {
    /// Number `number` leaves, for the first time.
    pub(crate) fn first(&mut self, number: u64) {
        let place = self.left;
        self.left += 1;
        if number >= self.next {
            self.next = number + 1;
            if self.maxima.len() == HISTORY {
                self.maxima.pop_front();
            }
            self.maxima.push_back((number, place));
            return;
        }
        self.reordered += 1;
        // The earliest that was greater was a maximum when it left.
        let at = self.maxima.partition_point(|(highest, _)| *highest < number);
        let extent = self.maxima.get(at).map_or(0, |(_, earliest)| place - earliest);
        self.most = self.most.max(extent);
        *self.extents.entry(extent.min(MOST_EXTENTS)).or_insert(0) += 1;
    }

    pub(crate) fn summary(&self) -> Reordering {
        Reordering {
            packets: self.left,
            reordered: self.reordered,
            ratio: if self.left == 0 { 0.0 } else { real(self.reordered) / real(self.left) },
            extents: self.extents.iter().map(|(extent, count)| (*extent, *count)).collect(),
            largest_extent: self.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Rng;

    /// RFC 4737 §3.3 and §4.2 word for word, in quadratic time.
    fn slow(arrived: &[u64]) -> (u64, BTreeMap<u64, u64>) {
        let (mut reordered, mut extents) = (0, BTreeMap::new());
        let mut next_exp = 0;
        for (i, &s) in arrived.iter().enumerate() {
            if s >= next_exp {
                next_exp = s + 1;
                continue;
            }
            reordered += 1;
            let j = (0..i).find(|&j| arrived[j] > s).unwrap();
            *extents.entry((i - j) as u64).or_insert(0) += 1;
        }
        (reordered, extents)
    }

    fn check(arrived: &[u64]) -> Reordering {
        let mut order = Order::default();
        arrived.iter().for_each(|s| order.first(*s));
        let got = order.summary();
        let (reordered, extents) = slow(arrived);
        assert_eq!((got.packets, got.reordered), (arrived.len() as u64, reordered), "{arrived:?}");
        assert_eq!(got.extents, extents.into_iter().collect::<Vec<_>>(), "{arrived:?}");
        got
    }

    #[test]
    fn one_late_packet_is_one_and_one_early_packet_makes_many() {
        // 4 arrives after 5, 6, 7 and 8: one is reordered, with an extent of 4.
        let late = check(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
        assert_eq!((late.reordered, late.largest_extent, late.ratio), (1, 4, 0.1));
        // 7, 8 and 9 arrive after 10: three, with extents of 1, 2 and 3.
        let early = check(&[1, 2, 3, 4, 5, 6, 10, 7, 8, 9, 11]);
        assert_eq!((early.reordered, &early.extents[..]), (3, &[(1, 1), (2, 1), (3, 1)][..]));
        // Gaps are loss, not reordering.
        assert_eq!(check(&[0, 5, 9, 100]).reordered, 0);
    }

    #[test]
    fn agrees_with_the_definition_on_random_orders() {
        let mut rng = Rng::new(4737);
        for round in 0..300 {
            let n = rng.between(1, 200);
            // Displaced a little or a lot, some of them missing.
            let reach = [0, 1, 5, 150][round % 4];
            let mut keyed: Vec<(u64, u64)> = (0..n).map(|s| (s + rng.between(0, reach), s)).collect();
            keyed.retain(|_| rng.between(0, 9) > 0);
            keyed.sort();
            check(&keyed.iter().map(|k| k.1).collect::<Vec<_>>());
        }
    }
}
