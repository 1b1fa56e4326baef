//! Endings of tasks: with an outcome, or without one for a stated reason.

mod read;

use crate::plan::{Plan, TaskId};
use metrics::Wall;
pub(crate) use read::Documents;
#[cfg(test)]
pub(crate) use read::document;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Why a pair has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No connection is possible between the two hosts, as the inventory says.
    UnreachableByDesign,
    /// A host was never there during the run.
    HostAbsent,
    /// An agent or server refused the test: its key, its targets, or its limits do not allow it.
    Refused,
    /// A host was busy with tests of others until the attempts were used up.
    Busy,
    /// An agent was lost during the test and did not return with a result.
    AgentLost,
    /// The test did not end in its time.
    TimedOut,
    /// The test ran, and measured nothing.
    Failed,
    /// The report is no outcome of the test that was ordered.
    BadResult,
    /// The agent's version cannot run the test.
    Version,
    /// The run was cancelled first.
    Cancelled,
    /// The run is not over, or ended before its turn.
    NotMeasuredYet,
}

impl Reason {
    /// All of them in their order: as people read each, as one letter, and the class of its colour
    /// on a page.
    pub(crate) const TABLE: [(Reason, &str, char, &str); 11] = [
        (Reason::UnreachableByDesign, "unreachable by design", 'U', "design"),
        (Reason::HostAbsent, "host absent", 'A', "failed"),
        (Reason::Refused, "refused", 'R', "refused"),
        (Reason::Busy, "busy", 'B', "busy"),
        (Reason::AgentLost, "agent lost", 'L', "failed"),
        (Reason::TimedOut, "timed out", 'T', "failed"),
        (Reason::Failed, "failed", 'F', "failed"),
        (Reason::BadResult, "bad result", 'X', "failed"),
        (Reason::Version, "version mismatch", 'V', "refused"),
        (Reason::Cancelled, "cancelled", 'C', "open"),
        (Reason::NotMeasuredYet, "not measured yet", '?', "open"),
    ];

    /// As one letter.
    pub(crate) fn letter(self) -> char {
        Reason::TABLE[self as usize].2
    }

    /// The class of its colour on a page.
    pub(crate) fn class(self) -> &'static str {
        Reason::TABLE[self as usize].3
    }

    /// True if a resumed run tries the task again.
    pub(crate) const fn is_resumed(self) -> bool {
        self.is_transient() || matches!(self, Reason::HostAbsent | Reason::Cancelled | Reason::NotMeasuredYet)
    }

    /// True for reasons that an agent can report; only a controller gives the others.
    pub(crate) const fn is_of_agents(self) -> bool {
        use Reason::{BadResult, Busy, Failed, Refused, TimedOut, Version};
        matches!(self, Refused | Busy | TimedOut | Failed | BadResult | Version)
    }

    /// True if the test was tried in vain: neither cancelled, nor impossible by design, nor still
    /// waiting.
    pub(crate) const fn is_failure(self) -> bool {
        !matches!(self, Reason::UnreachableByDesign | Reason::Cancelled | Reason::NotMeasuredYet)
    }

    /// True if another attempt may succeed.
    pub(crate) const fn is_transient(self) -> bool {
        matches!(
            self,
            Reason::Busy | Reason::AgentLost | Reason::TimedOut | Reason::Failed | Reason::BadResult
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Reason::TABLE[*self as usize].1)
    }
}

/// Ending of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With this outcome, the document that `--json` prints, byte for byte.
    Measured(Box<RawValue>),
    /// Without one.
    Missing {
        /// Why.
        reason: Reason,
        /// Explanation in one sentence; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
        /// The document of a test that ran and failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        document: Option<Box<RawValue>>,
    },
}

impl Ending {
    /// Without an outcome, for this reason.
    pub(crate) fn missing(reason: Reason, detail: impl Into<String>) -> Ending {
        Ending::Missing { reason, detail: detail.into(), document: None }
    }

    /// Why there is no outcome.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Ending::Measured(_) => None,
            Ending::Missing { reason, .. } => Some(*reason),
        }
    }
}

/// The one result of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PairResult {
    /// The task.
    pub task: TaskId,
    /// Attempts made; 0 where the task never started.
    pub attempts: u32,
    /// When the last attempt ended, by the controller's clock.
    pub ended: Wall,
    /// The ending.
    pub ending: Ending,
}

/// Numbers of a run's tasks with and without outcomes, for exit codes, status and matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks with an outcome.
    pub measured: usize,
    /// Tasks without, by reason.
    pub missing: BTreeMap<Reason, usize>,
}

impl Counts {
    /// Tasks of the run.
    #[must_use]
    pub fn all(&self) -> usize {
        self.measured + self.missing.values().sum::<usize>()
    }

    /// Tasks without an outcome for this reason.
    #[must_use]
    pub fn of(&self, reason: Reason) -> usize {
        self.missing.get(&reason).copied().unwrap_or(0)
    }
}

/// State of each task of a run: an outcome, or else the last reason.
#[derive(Clone, Debug)]
pub(crate) struct Standing(Vec<Option<Option<Reason>>>);

impl Standing {
    /// No result yet.
    pub(crate) fn of(plan: &Plan) -> Standing {
        Standing(vec![None; plan.tasks.len()])
    }

    /// Adds a result; true if it counts: nothing replaces an outcome.
    pub(crate) fn add(&mut self, task: TaskId, reason: Option<Reason>) -> bool {
        match self.0.get_mut(task.index()) {
            None | Some(Some(None)) => false,
            Some(known) => {
                *known = Some(reason);
                true
            }
        }
    }

    /// Why a task has no outcome.
    pub(crate) fn reason(&self, task: TaskId) -> Option<Reason> {
        self.0.get(task.index())?.unwrap_or(Some(Reason::NotMeasuredYet))
    }

    /// True if a task has a result.
    pub(crate) fn has(&self, task: TaskId) -> bool {
        self.0.get(task.index()).is_some_and(Option::is_some)
    }

    /// All tasks together.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for known in &self.0 {
            match known.unwrap_or(Some(Reason::NotMeasuredYet)) {
                None => counts.measured += 1,
                Some(reason) => *counts.missing.entry(reason).or_default() += 1,
            }
        }
        counts
    }
}
