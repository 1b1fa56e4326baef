//! Fairness of a set of rates.

use crate::number::{per_second, real};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Count, sum and sum of squares: enough for the mean and for Jain's index, and mergeable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moments {
    /// Number of values.
    pub n: u64,
    /// Sum of the values, bytes/s for rates.
    pub sum: f64,
    /// Sum of the squared values.
    pub squares: f64,
}

impl Moments {
    /// Adds a value.
    pub fn add(&mut self, x: f64) {
        self.n += 1;
        self.sum += x;
        self.squares += x * x;
    }

    /// Adds another set.
    pub fn merge(&mut self, other: &Moments) {
        self.n += other.n;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Jain's fairness index `(Σx)² / (n·Σx²)`: 1 when all are equal, 1/n when one has everything
    /// (Jain, Chiu, Hawe, DEC-TR-301, 1984). `None` with fewer than two values or when all are
    /// zero.
    pub fn jain(&self) -> Option<f64> {
        (self.n >= 2 && self.squares > 0.0).then(|| self.sum * self.sum / (real(self.n) * self.squares))
    }
}

/// Most slots of a group that are kept apart; further ones are in no index.
const MOST_SLOTS: usize = 4_096;

/// Bytes and lifetimes of a group's concurrent connections: those of one slot, which follow each
/// other, are added. A connection that the end of the run cut off short weighs as little as it
/// lived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRates(BTreeMap<u32, (u64, u64)>);

impl SlotRates {
    /// Adds a connection of a slot: its bytes and its life, ns.
    pub fn add(&mut self, slot: u32, bytes: u64, ns: u64) {
        if self.0.len() >= MOST_SLOTS && !self.0.contains_key(&slot) {
            return;
        }
        let sums = self.0.entry(slot).or_default();
        sums.0 = sums.0.saturating_add(bytes);
        sums.1 = sums.1.saturating_add(ns);
    }

    /// Adds the bytes and lifetimes of the same slots elsewhere or later.
    pub fn merge(&mut self, other: &SlotRates) {
        other.0.iter().for_each(|(&slot, &(bytes, ns))| self.add(slot, bytes, ns));
    }

    /// The rate of each slot over the life of its connections, bytes/s, for Jain's index.
    pub fn moments(&self) -> Moments {
        let mut all = Moments::default();
        let lived = self.0.values().filter(|(_, ns)| *ns > 0);
        lived.for_each(|&(bytes, ns)| all.add(per_second(bytes, ns)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_cut_off_in_its_start_makes_no_slot_unfair() {
        // Eight equal slots: two whole connections of a second at 1000 bytes/s, and one that was
        // stopped after 10 ms at a tenth of that. Over the 24 connections the index is (16 + 0.8)²
        // / (24 · 16.08) = 0.73.
        let mut slots = SlotRates::default();
        let mut connections = Moments::default();
        for slot in 0..8 {
            for (bytes, ns) in [(1_000, 1_000_000_000), (1_000, 1_000_000_000), (1, 10_000_000)] {
                slots.add(slot, bytes, ns);
                connections.add(bytes as f64 * 1e9 / ns as f64);
            }
        }
        assert!((connections.jain().unwrap() - 0.731).abs() < 1e-3);
        assert!((slots.moments().jain().unwrap() - 1.0).abs() < 1e-12);
        // A slot that really has three times the rate of the other does: (1 + 3)² / (2 · 10).
        let mut slots = SlotRates::default();
        slots.add(0, 1_000, 1_000_000_000);
        let mut others = SlotRates::default();
        others.add(1, 3_000, 1_000_000_000);
        slots.merge(&others);
        assert!((slots.moments().jain().unwrap() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn slots_are_bounded() {
        let mut slots = SlotRates::default();
        (0..u32::MAX).step_by(1 << 18).for_each(|slot| slots.add(slot, 1, 1));
        assert_eq!(slots.moments().n, MOST_SLOTS as u64);
        slots.add(0, 1, 1);
        assert_eq!(slots.moments().n, MOST_SLOTS as u64);
    }

    fn of(values: &[f64]) -> Moments {
        let mut m = Moments::default();
        values.iter().for_each(|&v| m.add(v));
        m
    }

    #[test]
    fn jains_own_examples() {
        // From the report: equal shares are 1; when a share k of n users have all, the index is
        // k/n.
        assert_eq!(of(&[20.0; 5]).jain(), Some(1.0));
        assert!((of(&[100.0, 0.0, 0.0, 0.0, 0.0]).jain().unwrap() - 0.2).abs() < 1e-12);
        assert!((of(&[50.0, 50.0, 0.0, 0.0, 0.0]).jain().unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(of(&[3.0]).jain(), None);
        assert_eq!(of(&[0.0, 0.0]).jain(), None);
    }

    #[test]
    fn merging_is_adding() {
        let mut left = of(&[1.0, 2.0]);
        left.merge(&of(&[3.0, 4.0]));
        assert_eq!(left, of(&[1.0, 2.0, 3.0, 4.0]));
    }
}
