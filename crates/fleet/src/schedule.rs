//! Which tests may start now: a pure function of the state, and the state a function of the events.

use crate::inventory::HostId;
use crate::plan::{Plan, Task, TaskId};
use crate::result::Ending;
use metrics::Mono;

/// A test to start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The task.
    pub task: TaskId,
    /// Number of the attempt, from 1. Agents and results name it, so that the report of an attempt given up is not taken for that
    /// of a later one.
    pub attempt: u32,
    /// The host that runs the client: the task's `from`, except where no connection reaches its `to`.
    pub client: HostId,
    /// The host that runs the server.
    pub server: HostId,
    /// When both agents have ended the test by themselves, come what may. Both hosts count as occupied until the test is reported
    /// over, or until then.
    pub until: Mono,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A host is there. `resource` identifies what its tests occupy: boot id and network namespace, or the label `resource`; hosts
    /// with the same one count as one.
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
    /// An attempt is over at both hosts.
    Ended {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
        /// How.
        ending: Ending,
    },
    /// A host refused the attempt for now: it is occupied by tests of others.
    Busy {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
        /// The host that refused.
        host: HostId,
        /// It accepts no test before.
        until: Mono,
    },
    /// No test is started any more; those that have not started end as cancelled.
    Cancelled,
    /// Only time has passed.
    Tick,
}

/// All that the choice of the next tests depends on.
#[derive(Clone, Debug)]
pub struct State {
    plan: Plan,
}

impl Assignment {
    /// Whether the test's data go from the server to the client, as `--reverse` has it: the client runs at the task's `to`.
    #[must_use]
    pub fn is_reversed(&self, task: &Task) -> bool {
        self.client != task.from
    }
}

impl State {
    /// No test has started, no host is there.
    #[must_use]
    pub fn new(plan: Plan) -> State {
        State { plan }
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes note of an event at `now`. Returns the tasks that ended by it, each with its one ending: no task is returned twice.
    pub fn apply(&mut self, event: Event, now: Mono) -> Vec<(TaskId, Ending)> {
        let _ = (event, now);
        Vec::new()
    }

    /// Whether every task has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.plan.tasks.is_empty()
    }

    /// When something changes without an event: [`Event::Tick`] is due then.
    #[must_use]
    pub fn wake(&self) -> Option<Mono> {
        None
    }
}

/// Tests that may all start at `now`, beside those that run and beside each other. Each one that is sent is told to the state
/// ([`Event::Started`]) before the next call.
#[must_use]
pub fn next(state: &State, now: Mono) -> Vec<Assignment> {
    let _ = (state, now);
    Vec::new()
}
