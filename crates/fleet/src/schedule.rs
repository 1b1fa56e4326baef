//! Which tests may start now: a pure function of the state, and the state a function of the events.

mod choose;
mod resources;
mod state;

use crate::inventory::HostId;
use crate::plan::{Attempt, Task, TaskId};
use crate::result::Ending;
pub use choose::next;
use metrics::{Mono, SECOND};
pub use resources::{GroupLimit, Resources};
pub use state::State;

/// A task that has ended, and how.
pub(crate) type Ended = (TaskId, Ending);

/// A test to start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The attempt that it is.
    pub attempt: Attempt,
    /// The host that runs the client: the task's `from`, except where it cannot.
    pub client: HostId,
    /// The host that runs the server.
    pub server: HostId,
    /// When both agents have ended the test by themselves, come what may. Both hosts count as occupied until the test is reported
    /// over, or until then.
    pub until: Mono,
}

impl Assignment {
    /// Whether the test's data go from the server to the client, as `--reverse` has it: the client runs at the task's `to`.
    #[must_use]
    pub fn is_reversed(&self, task: &Task) -> bool {
        self.client != task.from
    }

    /// Whether the host runs the client or the server.
    #[must_use]
    pub fn has(&self, host: HostId) -> bool {
        self.client == host || self.server == host
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A host is there. `resource` identifies what its tests occupy: boot id and network namespace; hosts with the same one count as
    /// one. The label `resource` of the inventory overrides it.
    Joined {
        /// The host.
        host: HostId,
        /// Its resource.
        resource: String,
    },
    /// A host is gone. Its tests may still run until [`Assignment::until`].
    Lost {
        /// The host.
        host: HostId,
    },
    /// An assignment of [`next`] was sent.
    Started(Assignment),
    /// An attempt is over at both hosts. A measured outcome counts whenever it comes, once for a task; a failure only of the attempt
    /// that runs.
    Ended {
        /// The attempt.
        attempt: Attempt,
        /// How.
        ending: Ending,
    },
    /// A host refused the attempt for now, so that nothing runs: it is occupied by tests of others.
    Busy {
        /// The attempt.
        attempt: Attempt,
        /// The host that refused.
        host: HostId,
        /// It accepts no test before.
        until: Mono,
    },
    /// No test is started any more: those that have not started end as cancelled.
    Cancelled,
    /// Only time has passed.
    Tick,
}

/// What the scheduler allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Limited tests at a host at a time, at least 1.
    pub limited: u32,
    /// Background tests at a host at a time, at least 1.
    pub background: u32,
    /// Attempts of a task that failed for a reason that may pass, at least 1.
    pub attempts: u32,
    /// Attempts that a busy host may refuse before a task ends for that reason.
    pub refusals: u32,
    /// Between two attempts of a task, ns.
    pub retry_ns: u64,
    /// How long the first attempt of a test may take beyond its length and the answers that it waits for, ns: agents end it then. Each
    /// further attempt may take twice as long as the one before, since hosts with many tests at once are slow.
    pub grace_ns: u64,
    /// How long a host that is not there is waited for, ns.
    pub absent_ns: u64,
    /// How much longer at the beginning of a run, when hosts are dialled, ns.
    pub dialling_ns: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            limited: 4,
            background: 16,
            attempts: 3,
            refusals: 20,
            retry_ns: SECOND,
            grace_ns: 5 * SECOND,
            absent_ns: 30 * SECOND,
            dialling_ns: 0,
        }
    }
}

#[cfg(test)]
mod tests;
