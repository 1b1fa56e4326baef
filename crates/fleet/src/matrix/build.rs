//! A matrix from the results of a plan.

use super::{Cell, CellCaveat, Matrix, OF_LOAD, SCHEMA, SHOWN};
use crate::inventory::HostId;
use crate::plan::{Plan, Verb};
use crate::result::{Ending, PairResult, Standing};
use crate::verdict::of_load;
use metrics::Wall;
use model::{Figure, Outcome, Way};
use std::collections::HashMap;

/// Most caveats of a cell.
const MOST_CAVEATS: usize = 8;

/// Collects the results of a plan. Each task counts once: by its first outcome, or else by the last
/// reason.
pub struct MatrixBuilder<'a> {
    plan: &'a Plan,
    cells: Vec<Cell>,
    at: HashMap<(HostId, HostId, u16), usize>,
    standing: Standing,
}

impl<'a> MatrixBuilder<'a> {
    /// No result yet.
    #[must_use]
    pub fn new(plan: &'a Plan) -> Self {
        let (mut cells, mut at) = (Vec::new(), HashMap::new());
        for task in &plan.tasks {
            at.entry((task.from, task.to, task.test)).or_insert_with(|| {
                let [from, to] = [task.from, task.to].map(|host| plan.inventory.name(host).to_owned());
                cells.push(Cell { from, to, test: task.test, ..Cell::default() });
                cells.len() - 1
            });
        }
        MatrixBuilder { plan, cells, at, standing: Standing::of(plan) }
    }

    /// Adds a result with its outcome, as [`Record::results`](crate::record::Record::results) has
    /// them. True if the outcome counts: its task had none before.
    pub fn add(&mut self, result: &PairResult, outcome: Option<&Outcome>) -> bool {
        let Some(task) = self.plan.task(result.task) else { return false };
        let at = self.at.get(&(task.from, task.to, task.test));
        let Some(cell) = at.and_then(|at| self.cells.get_mut(*at)) else { return false };
        if !self.standing.add(result.task, result.ending.reason()) {
            return false;
        }
        if let Ending::Missing { detail, .. } = &result.ending {
            cell.detail = report::clean(detail).chars().take(500).collect();
        }
        let Some(outcome) = outcome else { return false };
        note(cell, outcome, if self.plan.is_reversed(task) { Way::Down } else { Way::Up });
        cell.measured = cell.measured.max(Some(result.ended));
        true
    }

    /// The matrix of the results until `made`.
    #[must_use]
    pub fn build(self, made: Wall) -> Matrix {
        let MatrixBuilder { plan, mut cells, at, standing } = self;
        let mut has_reason = vec![false; cells.len()];
        for task in &plan.tasks {
            let Some(at) = at.get(&(task.from, task.to, task.test)).copied() else { continue };
            let Some(reason) = standing.reason(task.id) else { continue };
            has_reason[at] |= standing.has(task.id);
            let n = cells[at].missing.entry(reason).or_default();
            *n = n.saturating_add(1);
        }
        for (cell, _) in cells.iter_mut().zip(has_reason).filter(|(_, has_reason)| !has_reason) {
            // The reason was of a repeat that has an outcome now.
            cell.detail.clear();
        }
        let mut matrix = Matrix {
            schema: SCHEMA.to_owned(),
            run: plan.run,
            round: plan.round,
            made,
            inventory: plan.inventory.clone(),
            tests: plan.tests.clone(),
            cells,
            verdicts: Vec::new(),
            changes: Vec::new(),
            before: None,
        };
        matrix.judge();
        matrix
    }
}

/// The figures and caveats of an outcome whose data went this way.
pub(super) fn note(cell: &mut Cell, outcome: &Outcome, way: Way) {
    cell.runs.push(outcome.begin.run);
    let keys = SHOWN.into_iter().filter(|key| !OF_LOAD.contains(key));
    let is_load = outcome.begin.verb == Verb::Load.name();
    let of_load = if is_load { of_load(outcome, way) } else { Vec::new() };
    for (key, value) in of_load {
        cell.readings.entry(key.to_owned()).or_default().push(value);
    }
    for key in keys.filter(|_| !is_load) {
        let figures = Figure::named(key).into_iter().filter(|figure| figure.way().is_none_or(|of| of == way));
        let value = figures
            .filter_map(|figure| outcome.points.iter().rev().find_map(|point| figure.of(point)))
            .next();
        if let Some(value) = value.filter(|value| value.is_finite()) {
            cell.readings.entry(key.to_owned()).or_default().push(value);
        }
    }
    for caveat in outcome.points.iter().flat_map(|point| &point.caveats) {
        if cell.caveats.iter().all(|known| known.code != caveat.code) && cell.caveats.len() < MOST_CAVEATS {
            let text = caveat.text.chars().take(500).collect();
            cell.caveats.push(CellCaveat { code: caveat.code.clone(), level: caveat.level, text });
        }
    }
    cell.caveats.sort_by_key(|caveat| caveat.level);
}
