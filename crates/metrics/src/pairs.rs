//! Datagrams in pairs: one of each pair has one ECN codepoint, one the other. The order within a
//! pair is drawn, so that a path that does not look at the codepoint loses either one as often,
//! however its losses are bundled.
//!
//! Losses arrive in bursts, and the losses of neighbours are not independent: a test that compares
//! the two shares of lost datagrams as if they were finds differences where none is. Of the pairs
//! with one lost datagram, the drawn order alone decides which codepoint that datagram had. Under
//! the hypothesis that losses do not depend on codepoints, the number of these pairs that lost the
//! first codepoint is therefore binomial with one half: McNemar's test of paired proportions, in
//! its exact form (the sign test).

use crate::ip_fields::add_codepoints;
use crate::stats::sign_test;
use crate::{Ecn, real};
use serde::{Deserialize, Serialize};

/// Pairs of which arrivals are waited for at once.
const WINDOW: u64 = 1 << 12;

/// The place (0 or 1) among the two codepoints of datagram `number` of a flow with this seed.
pub fn pair_side(seed: u64, number: u64) -> usize {
    // The finaliser of SplitMix64.
    let mut bits = (seed ^ (number / 2)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    usize::from((bits ^ number) & 1 == 1)
}

/// Datagrams of pairs with one of the two codepoints, at their receiver. `D` is a distribution of
/// times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(bound = "D: Default + schemars::JsonSchema + Serialize"))]
#[serde(bound(deserialize = "D: Default + Deserialize<'de>"))]
#[serde(default)]
pub struct PairSide<D> {
    /// The codepoint with which the datagrams were sent.
    pub sent: Ecn,
    /// Datagrams received for the first time.
    pub received: u64,
    /// Datagrams lost, of pairs both of whose datagrams are accounted for.
    pub lost: u64,
    /// Datagrams lost of pairs whose other datagram arrived.
    pub lost_alone: u64,
    /// Received datagrams by ECN field, 0 to 3, as they arrived.
    pub arrived: [u64; 4],
    /// Delay from the actual send, ns.
    pub delay_ns: D,
}

impl<D> PairSide<D> {
    /// Share of the datagrams that was lost, 0..=1; `None` without any.
    pub fn loss(&self) -> Option<f64> {
        let all = self.received.saturating_add(self.lost);
        (all > 0).then(|| real(self.lost) / real(all))
    }
}

/// Datagrams in pairs, at their receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "EcnPairs"))]
#[cfg_attr(feature = "schema", schemars(bound = "D: Default + schemars::JsonSchema + Serialize"))]
#[serde(bound(deserialize = "D: Default + Deserialize<'de>"))]
#[serde(default)]
pub struct EcnPairs<D> {
    /// The datagrams with the first codepoint, and with the second.
    pub sides: [PairSide<D>; 2],
    /// Pairs of which both datagrams were lost.
    pub both_lost: u64,
}

impl<D> EcnPairs<D> {
    /// Adds others, their distributions by `dist`.
    pub fn add<T>(&mut self, other: &EcnPairs<T>, dist: impl Fn(&mut D, &T)) {
        for (ours, theirs) in self.sides.iter_mut().zip(&other.sides) {
            ours.sent = theirs.sent;
            ours.received = ours.received.saturating_add(theirs.received);
            ours.lost = ours.lost.saturating_add(theirs.lost);
            ours.lost_alone = ours.lost_alone.saturating_add(theirs.lost_alone);
            add_codepoints(&mut ours.arrived, &theirs.arrived);
            dist(&mut ours.delay_ns, &theirs.delay_ns);
        }
        self.both_lost = self.both_lost.saturating_add(other.both_lost);
    }

    /// The place of the codepoint that was lost more often, and the probability that the losses
    /// would be as unequal if they did not depend on the codepoint; `None` without a lost datagram.
    pub fn loses_more(&self) -> Option<(usize, f64)> {
        let [first, second] = [0, 1].map(|side: usize| self.sides[side].lost_alone);
        (first.saturating_add(second) > 0).then(|| (usize::from(second > first), sign_test(first, second)))
    }
}

/// The pairs of one flow at its receiver, in the order of their numbers.
#[derive(Debug)]
pub struct PairWindow {
    seed: u64,
    /// The first pair that is not settled.
    first: u64,
    /// Of the pairs from the first one on, a bit for each datagram that has arrived.
    arrived: Vec<u8>,
}

impl PairWindow {
    /// The pairs of a flow with this seed.
    pub fn new(seed: u64) -> Self {
        PairWindow { seed, first: 0, arrived: vec![0; WINDOW as usize] }
    }

    /// Datagram `number` arrived for the first time, with the codepoint `arrived`. Returns its
    /// place among the two codepoints.
    pub fn see<D>(&mut self, number: u64, arrived: Ecn, into: &mut EcnPairs<D>) -> usize {
        let side = pair_side(self.seed, number);
        into.sides[side].received += 1;
        into.sides[side].arrived[usize::from(arrived.bits())] += 1;
        let pair = number / 2;
        // A datagram behind 4,096 later pairs is counted as lost.
        if pair >= self.first {
            self.settle((pair + 1).saturating_sub(WINDOW), into);
            *self.place(pair) |= 1 << (number & 1);
        }
        side
    }

    /// All pairs below datagram `total` are accounted for.
    pub fn finish<D>(&mut self, total: u64, into: &mut EcnPairs<D>) {
        self.settle(total / 2, into);
    }

    fn place(&mut self, pair: u64) -> &mut u8 {
        &mut self.arrived[(pair % WINDOW) as usize]
    }

    /// Counts the losses of the pairs below `until`.
    fn settle<D>(&mut self, until: u64, into: &mut EcnPairs<D>) {
        // Pairs behind the window have had no arrival.
        let last = until.min(self.first + WINDOW);
        let beyond = until.saturating_sub(last);
        let mut lost = beyond;
        while self.first < last {
            let pair = self.first;
            match std::mem::take(self.place(pair)) {
                0 => lost += 1,
                3 => {}
                one => {
                    // Bit 0 is the even number: the other one is missing.
                    let missing = pair * 2 + u64::from(one == 1);
                    let side = &mut into.sides[pair_side(self.seed, missing)];
                    (side.lost, side.lost_alone) = (side.lost + 1, side.lost_alone + 1);
                }
            }
            self.first += 1;
        }
        self.first += beyond;
        into.both_lost += lost;
        into.sides.iter_mut().for_each(|side| side.lost += lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs of `total` datagrams of which those with `lost` are missing.
    fn pairs(seed: u64, total: u64, lost: impl Fn(u64) -> bool) -> EcnPairs<()> {
        let (mut window, mut found) = (PairWindow::new(seed), EcnPairs::default());
        for number in (0..total).filter(|number| !lost(*number)) {
            window.see(number, Ecn::Off, &mut found);
        }
        window.finish(total, &mut found);
        found
    }

    #[test]
    fn each_pair_has_both_codepoints_in_either_order() {
        for seed in 0..20 {
            let orders = (0..1_000).filter(|pair| {
                let sides = [0, 1].map(|one| pair_side(seed, 2 * pair + one));
                assert_eq!(sides[0] + sides[1], 1);
                sides[0] == 0
            });
            let n = orders.count();
            assert!((400..600).contains(&n), "{seed}: {n} of 1000");
        }
    }

    #[test]
    fn losses_are_counted_as_a_slow_count_does() {
        let lost =
            |number: u64| number.is_multiple_of(7) || (900..12_000).contains(&number) || number > 29_990;
        for (seed, total) in [(1, 30_000), (2, 30_001), (3, 40_000)] {
            let found = pairs(seed, total, lost);
            let mut want = EcnPairs::<()>::default();
            for number in 0..total {
                let side = &mut want.sides[pair_side(seed, number)];
                if !lost(number) {
                    (side.received, side.arrived[0]) = (side.received + 1, side.arrived[0] + 1);
                } else if number / 2 < total / 2 {
                    side.lost += 1;
                    side.lost_alone += u64::from(!lost(number ^ 1));
                    want.both_lost += u64::from(number & 1 == 1 && lost(number ^ 1));
                }
            }
            assert_eq!(found, want, "{seed}");
        }
    }

    #[test]
    fn an_overtaken_datagram_is_no_loss_and_a_wild_number_takes_no_time() {
        let (mut window, mut found) = (PairWindow::new(5), EcnPairs::<()>::default());
        for number in [3, 1, 2, 0, 1 << 62] {
            window.see(number, Ecn::Ce, &mut found);
        }
        window.finish(u64::MAX, &mut found);
        assert_eq!(
            (found.both_lost, found.sides[0].lost_alone),
            ((u64::MAX / 2) - 3, { u64::from(pair_side(5, (1 << 62) + 1) == 0) })
        );
    }

    /// Losses in bursts, and of every fourth datagram, that do not look at codepoints. In 1,000 runs
    /// 50 false alarms are expected at the level 0.05 and 10 at 0.01, with standard deviations of 7
    /// and 3.
    #[test]
    fn bursts_of_loss_and_periodic_loss_raise_no_false_alarm() {
        let mut random = 7_u64;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        for (enter, leave) in [(0.01, 1.0), (0.01, 0.3), (0.005, 0.05), (0.25, 0.0)] {
            let alarms: Vec<f64> = (0..1_000_u64)
                .filter_map(|seed| {
                    let mut bad = false;
                    let lost: Vec<bool> = (0..1_000)
                        .map(|number| {
                            bad = draw() < if bad { 1.0 - leave } else { enter };
                            if leave > 0.0 { bad && draw() < 0.8 } else { number % 4 == 1 }
                        })
                        .collect();
                    let found = pairs(seed.wrapping_mul(0x1234_5678_9abc), 1_000, |n| lost[n as usize]);
                    found.loses_more().map(|(_, p)| p)
                })
                .collect();
            let [at_5, at_1] = [0.05, 0.01].map(|level| alarms.iter().filter(|p| **p < level).count());
            assert!(at_5 <= 70 && at_1 <= 19, "{enter} {leave}: {at_5} and {at_1} of 1000");
        }
    }

    #[test]
    fn a_path_that_loses_one_codepoint_is_found() {
        // Of the second codepoint one in fifty is lost, of the first none.
        let found = pairs(9, 4_000, |number| pair_side(9, number) == 1 && number % 50 < 2);
        let (side, p) = found.loses_more().unwrap();
        assert!(side == 1 && p < 1e-6, "{found:?} {p}");
        assert_eq!(EcnPairs::<()>::default().loses_more(), None);
        let (loss, none) = (found.sides[1].loss().unwrap(), found.sides[0].loss());
        assert!((0.03..0.05).contains(&loss) && none == Some(0.0), "{loss}");
    }
}
