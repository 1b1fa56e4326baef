//! How a task ended: with an outcome, or without one for a stated reason.

use crate::plan::TaskId;
use metrics::Wall;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// Why a pair has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// An agent was lost during the test and did not come back with a result.
    AgentLost,
    /// The test did not end in its time.
    TimedOut,
    /// The test ran, and measured nothing.
    Failed,
    /// What came is no outcome.
    BadResult,
    /// The agent's version cannot run the test.
    Version,
    /// The run was cancelled first.
    Cancelled,
    /// The run is not over, or ended before its turn.
    NotMeasuredYet,
}

impl Reason {
    /// All of them in their order: as people read each, as one letter, and the class of its colour on a page.
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

    /// Whether a resumed run tries again.
    pub(crate) const fn is_resumed(self) -> bool {
        self.is_transient() || matches!(self, Reason::HostAbsent | Reason::Cancelled | Reason::NotMeasuredYet)
    }

    /// Whether another attempt may succeed.
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

/// How a task ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With this outcome, the document that `--json` prints, byte for byte.
    Measured(Box<RawValue>),
    /// Without one.
    Missing {
        /// Why.
        reason: Reason,
        /// What was said about it, in one sentence; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
}

impl Ending {
    /// Without an outcome, for this reason.
    pub(crate) fn missing(reason: Reason, detail: impl Into<String>) -> Ending {
        Ending::Missing { reason, detail: detail.into() }
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
    /// How.
    pub ending: Ending,
}
