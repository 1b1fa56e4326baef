//! Slots of a sweep over datagrams: loss and delay at each load, and the knee between them.
//!
//! The knee of a path is the load at which its *power*, throughput over delay, is largest (L. Kleinrock, "Power and
//! deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979; R. Jain and K. K.
//! Ramakrishnan, "Congestion avoidance in computer networks with a connectionless network layer", 1988). Below it more load is
//! carried at almost the same delay; above it a queue grows while little more gets through, or things are lost.

use crate::{Direction, PacketReport, Point, Status, SweepRow};
use metrics::{Spread, real};
use serde::{Deserialize, Serialize};

/// Delays below this are taken for it, ns: a clock may be wrong by as much, and nothing is divided by nothing.
const LEAST_DELAY: f64 = 1_000.0;

/// A slot with more load has less power when it is less by this share at least, and by more than the spread of both: a smaller
/// difference is that of one run to the next.
const LESS: f64 = 0.1;

/// One direction of a slot, over its repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slot {
    /// Load: UDP payload that was sent, bits/s.
    pub sent_bps: Option<Spread>,
    /// Share of the datagrams sent that did not come, 0..=1.
    pub loss: Option<Spread>,
    /// Median one-way delay, ns.
    pub p50_ns: Option<Spread>,
    /// Its 99th percentile, ns.
    pub p99_ns: Option<Spread>,
    /// How far delays may be wrong because two clocks were compared, ns; the worst.
    pub clock_bound_ns: Option<u64>,
    /// What was received, bits/s, over the median delay, s.
    pub power: Option<f64>,
    /// Whether the knee is here: power is largest, and a slot with more load has less, by more than the spread.
    pub knee: bool,
}

impl Slot {
    /// The slot that the repetitions `same` make, upwards or downwards; `None` when no datagrams went that way.
    pub(crate) fn of(same: &[&Point], up: bool) -> Option<Self> {
        let measured = || same.iter().filter(|p| p.status != Status::Failed && p.phase.kind.probes());
        let told: Vec<(Direction, PacketReport)> = measured()
            .filter_map(|point| {
                let way = if up { point.up } else { point.down }?;
                let remote = point.remote.iter().filter_map(|totals| totals.packets.as_deref());
                let got = if up {
                    remote.cloned().reduce(|mut all, one| {
                        all.beside(&one);
                        all
                    })
                } else {
                    point.local.packets.as_deref().cloned()
                };
                Some((way, got?))
            })
            .collect();
        if told.is_empty() {
            return None;
        }
        let spread = |of: &dyn Fn(&(Direction, PacketReport)) -> Option<f64>| {
            Spread::of(&told.iter().filter_map(of).collect::<Vec<f64>>())
        };
        let p50_ns = spread(&|(_, got)| got.delay_ns.as_ref().map(|d| real(d.p50)));
        let power = |rate: f64, delay: f64| rate / (delay.max(LEAST_DELAY) / 1e9);
        let goodput = spread(&|(way, _)| Some(way.goodput_bps));
        Some(Slot {
            sent_bps: spread(&|(way, _)| Some(way.sent_bps)),
            loss: spread(&|(_, got)| got.loss()),
            p50_ns,
            p99_ns: spread(&|(_, got)| got.delay_ns.as_ref().map(|d| real(d.p99))),
            clock_bound_ns: told.iter().filter_map(|(_, got)| got.clock_bound_ns).max(),
            power: goodput.zip(p50_ns).map(|(rate, delay)| power(rate.mean, delay.mean)),
            knee: false,
        })
    }

    /// Half the width of the 95 % interval of the power, as a share of it: that of the load and of the delay together; 0 with one
    /// repetition.
    fn spread(&self) -> f64 {
        let share = |spread: Option<Spread>, least: f64| spread.map_or(0.0, |s| s.ci95 / s.mean.max(least));
        share(self.sent_bps, 1.0) + share(self.p50_ns, LEAST_DELAY)
    }
}

/// Marks the knee of each direction, if the sweep went beyond it.
pub(crate) fn mark(rows: &mut [SweepRow]) {
    let sides: [fn(&mut SweepRow) -> Option<&mut Slot>; 2] =
        [|row| row.up_slot.as_mut(), |row| row.down_slot.as_mut()];
    for side in sides {
        let mut slots: Vec<&mut Slot> = rows.iter_mut().filter_map(side).collect();
        let load = |slot: &Slot| slot.sent_bps.map_or(0.0, |s| s.mean);
        let best = slots.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.power?)));
        let Some((at, power)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let (heaviest, surely) = (load(&*slots[at]), power * (1.0 - slots[at].spread()));
        let less = |slot: &&mut Slot| {
            slot.power.is_none_or(|p| p < power * (1.0 - LESS) && p * (1.0 + slot.spread()) < surely)
        };
        slots[at].knee = slots.iter().filter(|slot| load(slot) > heaviest).any(less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sent: f64, power: f64) -> SweepRow {
        let slot = Slot { sent_bps: Spread::of(&[sent]), power: Some(power), ..Slot::default() };
        SweepRow { up_slot: Some(slot), ..SweepRow::default() }
    }

    fn knees(loads: &[(f64, f64)]) -> Vec<bool> {
        let mut rows: Vec<SweepRow> = loads.iter().map(|&(sent, power)| row(sent, power)).collect();
        mark(&mut rows);
        rows.iter().map(|row| row.up_slot.is_some_and(|slot| slot.knee)).collect()
    }

    /// An M/M/1 queue served at rate 1: its delay is 1 / (1 - load), its power load · (1 - load), largest at one half
    /// (Kleinrock 1979).
    #[test]
    fn the_knee_of_the_simplest_queue_is_at_half_its_capacity() {
        let loads: Vec<(f64, f64)> =
            (1..10).map(|tenth| f64::from(tenth) / 10.0).map(|load| (load, load * (1.0 - load))).collect();
        let marked = knees(&loads);
        assert_eq!(marked.iter().position(|&knee| knee), Some(4), "{marked:?}");
        assert_eq!(marked.iter().filter(|&&knee| knee).count(), 1);
        // Whatever the order in which it was measured.
        let mut falling = loads;
        falling.reverse();
        assert_eq!(knees(&falling).iter().position(|&knee| knee), Some(4));
    }

    #[test]
    fn a_knee_asks_for_more_than_the_spread() {
        // A thousandth less at the last step, and a tenth.
        assert_eq!(knees(&[(1.0, 1.0), (2.0, 2.0), (3.0, 1.998)]), [false; 3]);
        assert_eq!(knees(&[(1.0, 1.0), (2.0, 2.0), (3.0, 1.79)]), [false, true, false]);
        // Repetitions that differ by more than that.
        let marked = |ci95: f64| {
            let mut rows = [row(1.0, 2.0), row(2.0, 1.5)];
            let spread = Spread { n: 3, mean: 1e6, ci95, ..Spread::default() };
            rows.iter_mut()
                .filter_map(|row| row.up_slot.as_mut())
                .for_each(|slot| slot.p50_ns = Some(spread));
            mark(&mut rows);
            rows[0].up_slot.is_some_and(|slot| slot.knee)
        };
        // 2.0 · 0.9 is above 1.5 · 1.1, and 2.0 · 0.8 is not above 1.5 · 1.2.
        assert!(marked(0.1e6) && !marked(0.2e6));
    }

    #[test]
    fn a_sweep_that_ends_before_the_knee_has_none() {
        assert_eq!(knees(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), [false; 3]);
        assert_eq!(knees(&[]), [false; 0]);
        assert_eq!(knees(&[(1.0, 5.0), (2.0, 2.0)]), [true, false]);
    }
}
