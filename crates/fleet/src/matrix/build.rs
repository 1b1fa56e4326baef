//! A matrix from the results of a plan.

use super::{Cell, CellCaveat, Matrix, SCHEMA, SHOWN};
use crate::inventory::HostId;
use crate::plan::Plan;
use crate::result::{Ending, PairResult, Reason};
use metrics::Wall;
use model::document::Document as _;
use model::{Figure, Outcome, Status, Way};
use std::collections::HashMap;

/// Most caveats of a cell.
const MOST_CAVEATS: usize = 8;

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Nothing,
    Missing(Reason),
    Measured,
}

/// Collects the results of a plan. Each task counts once: by its first outcome, or else by the last reason.
pub struct MatrixBuilder<'a> {
    plan: &'a Plan,
    cells: Vec<Cell>,
    at: HashMap<(HostId, HostId, u16), usize>,
    /// What each task has until now.
    seen: Vec<Seen>,
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
        MatrixBuilder { plan, cells, at, seen: vec![Seen::Nothing; plan.tasks.len()] }
    }

    /// Adds a result. Returns its outcome, where it has one and its task has none before.
    pub fn add(&mut self, result: &PairResult) -> Option<Outcome> {
        let task = self.plan.task(result.task)?;
        let cell = &mut self.cells[*self.at.get(&(task.from, task.to, task.test))?];
        let seen = self.seen.get_mut(result.task.index())?;
        if *seen == Seen::Measured {
            return None;
        }
        let (reason, detail) = match &result.ending {
            Ending::Missing { reason, detail } => (*reason, detail.clone()),
            Ending::Measured(raw) => match Outcome::read(raw.get().as_bytes()) {
                Ok(outcome) if outcome.status == Status::Failed => {
                    (Reason::Failed, outcome.reason.unwrap_or_default())
                }
                Ok(outcome) => {
                    *seen = Seen::Measured;
                    let reversed = self.plan.inventory.client(task.from, task.to) == Some(task.to);
                    note(cell, &outcome, if reversed { Way::Down } else { Way::Up });
                    cell.measured = cell.measured.max(Some(result.ended));
                    return Some(outcome);
                }
                Err(error) => (Reason::BadResult, error.to_string()),
            },
        };
        *seen = Seen::Missing(reason);
        cell.detail = report::clean(&detail).chars().take(500).collect();
        None
    }

    /// The matrix of what has come until `made`.
    #[must_use]
    pub fn build(self, made: Wall) -> Matrix {
        let MatrixBuilder { plan, mut cells, at, seen } = self;
        let mut has_reason = vec![false; cells.len()];
        for (task, seen) in plan.tasks.iter().zip(&seen) {
            let Some(at) = at.get(&(task.from, task.to, task.test)).copied() else { continue };
            has_reason[at] |= matches!(seen, Seen::Missing(_));
            let reason = match seen {
                Seen::Missing(reason) => *reason,
                Seen::Nothing => Reason::NotMeasuredYet,
                Seen::Measured => continue,
            };
            let n = cells[at].missing.entry(reason).or_default();
            *n = n.saturating_add(1);
        }
        for (cell, _) in cells.iter_mut().zip(has_reason).filter(|(_, has_reason)| !has_reason) {
            // It was said about a repeat that has an outcome now.
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
fn note(cell: &mut Cell, outcome: &Outcome, way: Way) {
    cell.runs.push(outcome.begin.run);
    for key in SHOWN {
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
