//! The result of a run: a cell for each test of each directed pair, and verdicts on the bad ones.

mod build;
mod colour;
mod html;
mod prometheus;
mod ranks;
mod text;
mod view;

use crate::inventory::{HostId, Inventory};
use crate::plan::{Round, Test};
use crate::result::{Counts, Reason};
pub use crate::verdict::{FEWEST, Failures, Verdict};
use crate::verdict::{MatrixFigure, RPM, Readings, Tried, figure, judge, judge_failures, median};
pub use build::MatrixBuilder;
pub use html::write_html;
use metrics::Wall;
use model::CaveatLevel;
use model::load::GROWN;
pub use prometheus::{metrics_sheet, write_metrics};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
pub use text::write_text;
use uuid::Uuid;

/// Name and version of the document, which `schema/fleet.v1.json` describes.
pub const SCHEMA: &str = "netcaliper.fleet.v1";

/// Keys of the figures that cells have, without a direction: that is the pair's.
const SHOWN: [&str; 12] = [
    GROWN,
    "goodput",
    "rtt.p50",
    "rtt.p99",
    "rtt-loaded",
    RPM,
    "messages-lost",
    "delay.p50",
    "delay.p99",
    "loss",
    "dispersion",
    "jitter",
];
/// Of these the ones that pairs are judged by.
const JUDGED: [&str; 7] = [GROWN, "goodput", "rtt.p50", "messages-lost", "delay.p50", "loss", "dispersion"];
/// Figures that only a load has in a matrix.
const OF_LOAD: [&str; 3] = [GROWN, "rtt-loaded", RPM];

/// Result of a run over the pairs of many hosts. Members may be added to version 1; none is removed
/// or changes its meaning.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Matrix {
    /// Name and version of this format.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// Identifier of the run.
    pub run: Uuid,
    /// Which round of a series the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
    /// When this document was made, ns since 1970-01-01T00:00:00Z: ages count to here.
    pub made: Wall,
    /// The hosts and groups.
    pub inventory: Inventory,
    /// The tests.
    pub tests: Vec<Test>,
    /// A cell for each test of each directed pair of the plan.
    pub cells: Vec<Cell>,
    /// Hosts and pairs that could not be measured; then hosts, pairs and labels that are worse than
    /// the rest, gravest first.
    pub verdicts: Vec<Verdict>,
    /// Hosts, pairs and labels that are worse than before, compared with the rest; empty without a
    /// run to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Verdict>,
    /// The run that `changes` compares with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Uuid>,
}

/// One test of one directed pair, all repeats.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// Name of the host that sends.
    pub from: String,
    /// Name of the host that receives.
    pub to: String,
    /// Position of the test in `tests`.
    pub test: u16,
    /// Values of each figure in base units (bits/s, ns, percent), one for each repeat that has an
    /// outcome. The direction is that of the pair. A load has the figures of its answer: added
    /// delay (`rtt-grown`), `rtt-loaded` and `rpm` of the worst stage, `rtt.p50` when idle.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(extend("propertyNames" = {"enum": SHOWN})))]
    pub readings: BTreeMap<String, Vec<f64>>,
    /// When the last outcome arrived, ns since 1970-01-01T00:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Wall>,
    /// Repeats without an outcome, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(extend("propertyNames" = {"enum": Reason::TABLE.map(|row| row.0)})))]
    pub missing: BTreeMap<Reason, u16>,
    /// Words about the last of the missing repeats; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Caveats of the outcomes, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<CellCaveat>,
    /// Identifiers of the outcomes, as in the store and in the names of pages: made of the run, the
    /// test and the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Uuid>,
}

/// A caveat of an outcome; its advice stands in that outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CellCaveat {
    /// Its code.
    pub code: String,
    /// Its severity.
    pub level: CaveatLevel,
    /// The finding.
    pub text: String,
}

impl Matrix {
    /// Reads a document.
    ///
    /// # Errors
    /// Where the text is none, in one sentence.
    pub fn read(json: &[u8]) -> Result<Matrix, String> {
        let schema =
            model::document::top_field(json, "schema").map_err(|e| format!("the JSON is damaged: {e}"))?;
        match schema.as_ref().and_then(serde_json::Value::as_str) {
            Some(SCHEMA) => serde_json::from_slice(json).map_err(|e| format!("the JSON is damaged: {e}")),
            Some(other) => Err(format!("the document is {other:?}, expected {SCHEMA:?}")),
            None => Err(format!("the JSON is no result of a fleet: expected {SCHEMA:?}")),
        }
    }

    /// Compares with an earlier result: `changes` are the verdicts on what has become worse.
    pub fn compare(&mut self, before: &Matrix) {
        self.before = Some(before.run);
        self.changes = self.judged(|figure, key, test| {
            // Two tests with other estimated lengths are the same test.
            let now = self.tests.get(usize::from(test))?;
            let is_same = |of: &Test| (of.verb, &of.arguments) == (now.verb, &now.arguments);
            let was = u16::try_from(before.tests.iter().position(is_same)?).ok()?;
            let was = before.readings(&self.inventory, figure, key, was);
            Some(self.readings(&self.inventory, figure, key, test).against(&was))
        });
    }

    /// Judges all figures against each other.
    fn judge(&mut self) {
        let inventory = &self.inventory;
        let worse = self.judged(|figure, key, test| Some(self.readings(inventory, figure, key, test)));
        self.verdicts = self.failures();
        self.verdicts.extend(worse);
    }

    /// Verdicts on tests without an outcome: of all tests, and of each test where others have one.
    fn failures(&self) -> Vec<Verdict> {
        let ids = ids(&self.inventory);
        let tried: Vec<(&Cell, Tried<'_>)> = self
            .cells
            .iter()
            .filter_map(|cell| {
                let (from, to) = (*ids.get(cell.from.as_str())?, *ids.get(cell.to.as_str())?);
                let (measured, missing, detail) = (cell.runs.len(), &cell.missing, cell.detail.as_str());
                Some((cell, Tried { from, to, measured, missing, detail }))
            })
            .collect();
        let all: Vec<Tried<'_>> = tried.iter().map(|(_, tried)| *tried).collect();
        let mut verdicts = judge_failures(&self.inventory, &all, None);
        if self.tests.len() < 2 {
            return verdicts;
        }
        let host = |id: HostId| self.inventory.host(id);
        let is_covered = |tried: &Tried<'_>| {
            let ends = host(tried.from).zip(host(tried.to));
            ends.is_some_and(|(from, to)| verdicts.iter().any(|verdict| verdict.subject.covers(from, to)))
        };
        let rest: Vec<&(&Cell, Tried<'_>)> = tried.iter().filter(|(_, tried)| !is_covered(tried)).collect();
        let mut more = Vec::new();
        for (test, words) in (0u16..).zip(self.tests.iter().map(Test::words)) {
            let own: Vec<Tried<'_>> =
                rest.iter().filter(|(cell, _)| cell.test == test).map(|(_, tried)| *tried).collect();
            more.extend(judge_failures(&self.inventory, &own, Some((test, &words))));
        }
        verdicts.extend(more);
        verdicts
    }

    fn judged(&self, readings: impl Fn(MatrixFigure, &str, u16) -> Option<Readings>) -> Vec<Verdict> {
        let all: Vec<(u16, &str)> = self.figures().filter(|(_, key)| JUDGED.contains(key)).collect();
        let mut verdicts = Vec::new();
        for (test, key) in &all {
            let Some(figure) = figure(key) else { continue };
            let Some(readings) = readings(figure, key, *test) else { continue };
            verdicts.extend(judge(&self.inventory, figure, key, &readings, all.len()));
        }
        verdicts.sort_by(|a, b| a.q.total_cmp(&b.q).then_with(|| a.subject.cmp(&b.subject)));
        verdicts
    }

    /// The readings of a figure, with the hosts as they stand in `inventory`.
    fn readings(&self, inventory: &Inventory, figure: MatrixFigure, key: &str, test: u16) -> Readings {
        let ids = ids(inventory);
        let of = |cell: &Cell| {
            let pair = (*ids.get(cell.from.as_str())?, *ids.get(cell.to.as_str())?);
            Some((pair, cell.readings.get(key)?.clone()))
        };
        Readings::of(figure, self.cells.iter().filter(|cell| cell.test == test).filter_map(of))
    }

    /// Each test with the figures that some pair has of it, in the order of the table of figures.
    fn figures(&self) -> impl Iterator<Item = (u16, &'static str)> {
        let tests = (0..).take(self.tests.len());
        tests.flat_map(|test| SHOWN.into_iter().map(move |key| (test, key))).filter(|(test, key)| {
            self.cells.iter().any(|cell| cell.test == *test && cell.readings.contains_key(*key))
        })
    }

    /// Number of measured tests, and of missing ones by reason.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let measured = self.cells.iter().map(|cell| cell.runs.len()).sum();
        let mut counts = Counts { measured, ..Counts::default() };
        for (reason, n) in self.cells.iter().flat_map(|cell| &cell.missing) {
            *counts.missing.entry(*reason).or_default() += usize::from(*n);
        }
        counts
    }

    /// Command line of a test, by its index.
    fn test_words(&self, test: u16) -> String {
        self.tests.get(usize::from(test)).map_or_else(String::new, Test::words)
    }
}

/// The hosts of an inventory by name.
fn ids(inventory: &Inventory) -> HashMap<&str, HostId> {
    inventory.numbered().map(|(id, host)| (host.name.as_str(), id)).collect()
}

impl Cell {
    /// The median of a figure over the repeats.
    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        median(self.readings.get(key)?.clone())
    }

    /// True if an outcome may mislead, or must not be used.
    pub(crate) fn has_cautions(&self) -> bool {
        self.caveats.iter().any(|caveat| caveat.level != CaveatLevel::Note)
    }

    /// Why the cell has no value: the reason of most of its repeats.
    pub(crate) fn reason(&self) -> Option<Reason> {
        let most = self.missing.iter().max_by_key(|(reason, n)| (**n, std::cmp::Reverse(**reason)));
        most.map(|(reason, _)| *reason).filter(|_| self.runs.is_empty())
    }
}

#[cfg(test)]
mod tests;
