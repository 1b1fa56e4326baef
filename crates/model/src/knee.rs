//! Slots of a sweep over datagrams: loss and delay at each load, and the knee between them.
//!
//! The knee of a path is the load at which its *power*, throughput over delay, is largest (L.
//! Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
//! communications", ICC 1979; R. Jain and K. K. Ramakrishnan, "Congestion avoidance in computer
//! networks with a connectionless network layer", 1988). Below it more load is carried at almost
//! the same delay; above it a queue grows while little more gets through, or things are lost.

use crate::{Figure, Point, Stat, Status, SweepRow, Way};
use serde::{Deserialize, Serialize};

/// Delays below this are taken for it, ns: a clock may be wrong by as much, and nothing is divided
/// by nothing.
const LEAST_DELAY: f64 = 1_000.0;

/// A slot with more load has less power when it is less by this share at least, and by more than
/// the spread of both: a smaller difference is that of one run to the next.
const LESS: f64 = 0.1;

/// One direction of a slot of a sweep over datagrams, over its repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Slot {
    /// Error bound of delays because two clocks were compared, ns; the worst.
    pub clock_bound_ns: Option<u64>,
    /// Received rate, bits/s, over the median delay, s.
    pub power: Option<f64>,
    /// True at the knee: power is largest, and a slot with more load has less, by more than the
    /// spread.
    pub knee: bool,
}

impl Slot {
    /// The point of `row`, which the repetitions `same` make; `None` when no datagrams went that
    /// way.
    pub(crate) fn of(row: &SweepRow, same: &[&Point], way: Way) -> Option<Self> {
        let measured = same.iter().filter(|p| p.status != Status::Failed && p.phase.kind.probes());
        let told: Vec<_> = measured.filter_map(|point| way.packets(point)).collect();
        let goodput = row.figure(Figure::Goodput(way));
        if told.is_empty() || goodput.is_none() {
            return None;
        }
        let delay = row.figure(Figure::Delay(way, Stat::MEDIAN));
        let power = |rate: f64, delay: f64| rate / (delay.max(LEAST_DELAY) / 1e9);
        Some(Slot {
            clock_bound_ns: told.iter().filter_map(|got| got.clock_bound_ns).max(),
            power: goodput.zip(delay).map(|(rate, delay)| power(rate.mean, delay.mean)),
            knee: false,
        })
    }
}

/// Half the width of the 95 % interval of the power, as a share of it: that of the load and of the
/// delay together; 0 with one repetition.
fn spread(row: &SweepRow, way: Way) -> f64 {
    let share = |figure, least: f64| row.figure(figure).map_or(0.0, |s| s.ci95 / s.mean.max(least));
    share(Figure::Sent(way), 1.0) + share(Figure::Delay(way, Stat::MEDIAN), LEAST_DELAY)
}

/// Marks the knee of each direction, if the sweep went beyond it. The stages of a load are no sweep.
pub(crate) fn mark(rows: &mut [SweepRow]) {
    if rows.iter().any(|row| row.label.contains_key("stage")) {
        return;
    }
    for way in Way::ALL {
        let load = |row: &SweepRow| row.figure(Figure::Sent(way)).map_or(0.0, |s| s.mean);
        let of = |row: &SweepRow| row.slot(way)?.power;
        let best = rows.iter().enumerate().filter_map(|(at, row)| Some((at, of(row)?)));
        let Some((at, power)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let (heaviest, surely) = (load(&rows[at]), power * (1.0 - spread(&rows[at], way)));
        let less = |row: &SweepRow| {
            of(row).is_none_or(|p| p < power * (1.0 - LESS) && p * (1.0 + spread(row, way)) < surely)
        };
        let slots = rows.iter().filter(|row| row.slot(way).is_some());
        let knee = slots.filter(|row| load(row) > heaviest).any(less);
        let slot = if way == Way::Up { &mut rows[at].up_slot } else { &mut rows[at].down_slot };
        slot.iter_mut().for_each(|slot| slot.knee = knee);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Spread;

    fn row(sent: f64, power: f64) -> SweepRow {
        let slot = Slot { power: Some(power), ..Slot::default() };
        let sent = Spread { n: 1, mean: sent, ..Spread::default() };
        let figures = [(Figure::Sent(Way::Up).key(), sent)].into();
        SweepRow { up_slot: Some(slot), figures, ..SweepRow::default() }
    }

    fn knees(loads: &[(f64, f64)]) -> Vec<bool> {
        let mut rows: Vec<SweepRow> = loads.iter().map(|&(sent, power)| row(sent, power)).collect();
        mark(&mut rows);
        rows.iter().map(|row| row.up_slot.is_some_and(|slot| slot.knee)).collect()
    }

    #[test]
    fn stages_of_a_load_have_no_knee() {
        let mut rows = [row(0.1, 9.0), row(0.5, 1.0), row(0.9, 0.5)];
        mark(&mut rows);
        assert!(rows[0].up_slot.unwrap().knee, "of a sweep it is the knee");
        rows.iter_mut().for_each(|row| {
            row.label.insert("stage".to_owned(), "idle".to_owned());
            row.up_slot.iter_mut().for_each(|slot| slot.knee = false);
        });
        mark(&mut rows);
        assert!(rows.iter().all(|row| !row.up_slot.unwrap().knee));
    }

    /// An M/M/1 queue served at rate 1: its delay is 1 / (1 - load), its power load · (1 - load),
    /// largest at one half (Kleinrock 1979).
    #[test]
    fn the_knee_of_the_simplest_queue_is_at_half_its_capacity() {
        let loads: Vec<(f64, f64)> =
            (1..10).map(|tenth| f64::from(tenth) / 10.0).map(|load| (load, load * (1.0 - load))).collect();
        let marked = knees(&loads);
        assert_eq!(marked.iter().position(|&knee| knee), Some(4), "{marked:?}");
        assert_eq!(marked.iter().filter(|&&knee| knee).count(), 1);
        // Independent of the order of measurement.
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
            let key = Figure::Delay(Way::Up, Stat::MEDIAN).key();
            for row in &mut rows {
                row.figures.insert(key.clone(), spread);
            }
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
