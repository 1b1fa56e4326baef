//! Pairs and single readings by how much worse than the others they are.

use super::{Cell, JUDGED, Matrix, Verdict};
use crate::inventory::Host;
use crate::result::Reason;
use crate::verdict::{Bounds, FEWEST, figure, median, spread, title};
use std::collections::{BTreeSet, HashMap};

/// Most single readings that are listed.
const MOST_SINGLE: usize = 3;
/// Number of spreads from the median of all from which a reading is listed.
const SPREADS: f64 = 5.0;
/// Readings of a pair from which the pair is judged.
const REPEATS: usize = 3;

impl Matrix {
    /// True if hosts are enough to be judged.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        let measured = self.cells.iter().filter(|cell| !cell.readings.is_empty());
        measured.map(|cell| &cell.from).collect::<BTreeSet<_>>().len() >= FEWEST
    }

    /// True if anything that a verdict is about has a reading of its figure, or an outcome.
    #[must_use]
    pub fn has_readings(&self, of: &Verdict) -> bool {
        let hosts = self.hosts_by_name();
        let has_some = |cell: &&Cell| match &of.failures {
            Some(failures) => !cell.runs.is_empty() && failures.test.is_none_or(|test| test == cell.test),
            None => cell.readings.contains_key(&of.figure),
        };
        self.cells.iter().filter(has_some).any(|cell| {
            let ends = hosts.get(cell.from.as_str()).zip(hosts.get(cell.to.as_str()));
            ends.is_some_and(|(from, to)| of.subject.covers(from, to))
        })
    }

    fn hosts_by_name(&self) -> HashMap<&str, &Host> {
        self.inventory.hosts.iter().map(|host| (host.name.as_str(), host)).collect()
    }

    /// The sentence about single readings that are far worse than all others of their figure, of
    /// pairs that no verdict covers.
    pub(super) fn single_readings(&self) -> Option<String> {
        let hosts = self.hosts_by_name();
        let mut found: Vec<(f64, String)> = Vec::new();
        let mut are_slow = true;
        for (test, key) in self.figures().filter(|(_, key)| JUDGED.contains(key)) {
            let Some(of) = figure(key) else { continue };
            let bounds = Bounds::of(of);
            let cells = || self.cells.iter().filter(move |cell| cell.test == test);
            let readings = |cell: &Cell| cell.readings.get(key).cloned().unwrap_or_default();
            let all: Vec<f64> = cells().flat_map(readings).collect();
            let Some(middle) = median(all.clone()) else { continue };
            let judged: Vec<f64> = all.iter().map(|value| bounds.badness(of, *value)).collect();
            let least = (SPREADS * spread(&judged)).max(bounds.single);
            let from = bounds.badness(of, middle);
            let is_covered = |cell: &Cell| {
                let ends = hosts.get(cell.from.as_str()).zip(hosts.get(cell.to.as_str()));
                ends.is_some_and(|(from, to)| {
                    let mut verdicts = self.verdicts.iter().filter(|verdict| verdict.figure == *key);
                    verdicts.any(|verdict| verdict.subject.covers(from, to))
                })
            };
            for cell in cells().filter(|cell| !is_covered(cell)) {
                for value in readings(cell) {
                    let by = bounds.badness(of, value) - from;
                    if by >= least {
                        are_slow &= !bounds.additive;
                        let [value, middle] = [value, middle].map(|value| of.show(value));
                        let (from, to, title) = (&cell.from, &cell.to, title(key));
                        let text = format!("{from} → {to} {value} ({title}, median of all {middle})");
                        found.push((by / least, text));
                    }
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let more = found.len().saturating_sub(MOST_SINGLE);
        let mut named: Vec<String> = found.into_iter().take(MOST_SINGLE).map(|(_, text)| text).collect();
        if named.is_empty() {
            return None;
        }
        if more > 0 {
            named.push(format!("{more} more"));
        }
        let repeats = self.cells.iter().flat_map(|cell| cell.readings.values().map(Vec::len)).max();
        let advice = if repeats.unwrap_or(0) < REPEATS {
            format!(". A pair is judged from {REPEATS} readings on: use --repeats {REPEATS}")
        } else {
            String::new()
        };
        let which = if are_slow { "Slowest" } else { "Worst" };
        let judged = if advice.is_empty() { "of pairs without a verdict" } else { "not judged" };
        Some(format!("{which} single readings, {judged}: {}{advice}.", named.join("; ")))
    }

    /// The cells by their indices, worst first: failed ones, then pairs with a figure that is many
    /// spreads worse than the median of all, then pairs without a value.
    pub(super) fn worst_first(&self) -> Vec<usize> {
        let mut badness = vec![f64::NEG_INFINITY; self.cells.len()];
        for (test, key) in self.figures().filter(|(_, key)| JUDGED.contains(key)) {
            let Some(of) = figure(key) else { continue };
            let bounds = Bounds::of(of);
            let cells = self.cells.iter().enumerate().filter(|(_, cell)| cell.test == test);
            let value = |(at, cell): (usize, &Cell)| Some((at, bounds.badness(of, cell.value(key)?)));
            let values: Vec<(usize, f64)> = cells.filter_map(value).collect();
            let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            let Some(middle) = median(plain.clone()) else { continue };
            let scale = spread(&plain).max(bounds.floor);
            for (at, value) in values {
                badness[at] = badness[at].max((value - middle) / scale);
            }
        }
        for (at, cell) in self.cells.iter().enumerate() {
            if cell.reason().is_some_and(Reason::is_failure) {
                badness[at] = f64::INFINITY;
            }
        }
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        order.sort_by(|a, b| badness[*b].total_cmp(&badness[*a]));
        order
    }
}
