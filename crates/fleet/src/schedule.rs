//! Which tests may start now: a pure function of the state, and the state a function of the events.

mod state;

use crate::inventory::{Host, HostId, Inventory};
use crate::plan::{Attempt, CostClass, Task, TaskId};
use crate::result::Ending;
use metrics::{Mono, SECOND};
use serde::Serialize;
use state::HostState;
pub(crate) use state::ScheduleState;
use std::cmp::Reverse;

/// A task that has ended, and how.
pub(crate) type EndedTask = (TaskId, Ending);

/// A test to start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The attempt that it is.
    pub(crate) attempt: Attempt,
    /// The host that runs the client: the task's `from`, except where it cannot.
    pub(crate) client: HostId,
    /// The host that runs the server.
    pub(crate) server: HostId,
    /// Time at which both agents have ended the test by themselves in any case. Both hosts count as
    /// occupied until the test is reported over, or until then.
    pub(crate) until: Mono,
}

impl Assignment {
    /// True if the test's data go from the server to the client, as `--reverse` has it: the client
    /// runs at the task's `to`.
    pub(crate) fn is_reversed(&self, task: &Task) -> bool {
        self.client != task.from
    }

    /// True if the host runs the client or the server.
    pub(crate) fn has(&self, host: HostId) -> bool {
        self.client == host || self.server == host
    }
}

/// Event of a run.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A host is there. `resource` identifies its tests' resource: boot id and network namespace;
    /// hosts with the same one count as one. The label `resource` of the inventory overrides it.
    Joined { host: HostId, resource: String },
    /// Tests that a controller before this one has started run at a host until then at most.
    Inherited { host: HostId, until: Mono },
    /// A host is gone. Its tests may still run until [`Assignment::until`].
    Lost { host: HostId },
    /// An assignment of [`next`] was sent.
    Started(Assignment),
    /// An attempt is over at both hosts. A measured outcome counts at any time, once for a task; a
    /// failure only of the attempt that runs.
    Ended { attempt: Attempt, ending: Ending },
    /// A host refused the attempt until then, so that nothing runs: the host is occupied by tests
    /// of others.
    Busy { attempt: Attempt, host: HostId, until: Mono },
    /// No test is started any more: tests that have not started end as cancelled.
    Cancelled,
    /// Only time has passed.
    Tick,
}

/// Most limited tests at a host at a time.
pub(crate) const MAX_LIMITED: u32 = 4;
/// Most background tests at a host at a time.
pub(crate) const MAX_BACKGROUND: u32 = 16;
/// Attempts of a task that failed for a reason that may pass.
const MAX_ATTEMPTS: u32 = 3;
/// Attempts that a busy host may refuse before a task ends for that reason.
const MAX_REFUSALS: u32 = 20;

/// Waits of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Between two attempts of a task, ns.
    pub(crate) retry_ns: u64,
    /// Longest time of a test's first attempt beyond its length and its waits for answers, ns:
    /// agents end it then. Each further attempt may take twice as long as the one before, since
    /// hosts with many tests at once are slow.
    pub(crate) grace_ns: u64,
    /// Longest wait for an absent host, ns.
    pub(crate) absent_ns: u64,
    /// Additional wait at the beginning of a run, when hosts are dialled, ns.
    pub(crate) dialling_ns: u64,
    /// True if tests of an earlier controller may still run.
    pub(crate) takes_over: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            retry_ns: SECOND,
            grace_ns: 5 * SECOND,
            absent_ns: 30 * SECOND,
            dialling_ns: 0,
            takes_over: false,
        }
    }
}

/// A group with a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupLimit {
    /// Its name.
    pub name: String,
    /// Tests at a time, at least 1.
    pub limit: u32,
    /// True if only tests with hosts outside count.
    pub crossing: bool,
    /// Members.
    pub hosts: usize,
}

/// The groups with limits, and which of them each host is in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    pub(crate) groups: Vec<GroupLimit>,
    /// Of each host, ascending.
    of_host: Vec<Vec<u32>>,
}

impl Resources {
    /// The resources of an inventory.
    pub(crate) fn of(inventory: &Inventory) -> Resources {
        let mut resources =
            Resources { of_host: vec![Vec::new(); inventory.hosts.len()], groups: Vec::new() };
        for (name, group) in &inventory.groups {
            let Some(limit) = group.limit else { continue };
            let Ok(at) = u32::try_from(resources.groups.len()) else { break };
            for member in &group.members {
                resources.of_host.get_mut(member.index()).into_iter().for_each(|of| of.push(at));
            }
            let (name, limit, hosts) = (name.clone(), limit.max(1), group.members.len());
            resources.groups.push(GroupLimit { name, limit, crossing: group.crossing, hosts });
        }
        resources
    }

    /// Indices into `groups` of the groups whose limit counts a test between these hosts.
    pub(crate) fn used(&self, from: HostId, to: HostId) -> impl Iterator<Item = usize> {
        let of = |host: HostId| self.of_host.get(host.index()).map_or(&[][..], Vec::as_slice);
        let (a, b) = (of(from), of(to));
        let is_in = |groups: &[u32], group: u32| groups.binary_search(&group).is_ok();
        let of_a =
            a.iter().filter(move |group| !(self.groups[**group as usize].crossing && is_in(b, **group)));
        let only_of_b = b.iter().filter(move |group| !is_in(a, **group));
        of_a.chain(only_of_b).map(|group| *group as usize)
    }
}

/// Tests that may all start at `now`, beside running tests and beside each other. An exclusive test
/// fills the queues of its hosts and groups, so that no other test uses these meanwhile. The caller
/// reports each test that it sends to the state ([`Event::Started`]) before the next call.
///
/// Hosts with the most remaining tests are first, and get the partner with the most left; so the
/// last tests of a run are not all at one host. A group counts like a host: the more tests it has
/// left for each that may run at a time, the sooner its tests start.
pub(crate) fn next(state: &ScheduleState, now: Mono) -> Vec<Assignment> {
    let mut chosen = Vec::new();
    if state.cancelled {
        return chosen;
    }
    let mut load = state.load.clone();
    let is_alone = state.inherited_until() <= now;
    // Pings of an idle path first, so that tests that fill it have their turn when pings are over.
    for class in [CostClass::Background, CostClass::Exclusive, CostClass::Limited] {
        let ready = |host: &HostState| host.present && (class == CostClass::Background || host.busy <= now);
        let left = |host: HostId| state.hosts[host.index()].pending[class as usize].len();
        let hosts = (0..).map(HostId).zip(&state.hosts);
        let hosts = hosts
            .filter(|(id, host)| ready(host) && left(*id) > 0 && load.is_free([host.resource; 2], class));
        let mut hosts: Vec<HostId> = hosts.map(|(id, _)| id).collect();
        hosts.sort_by_key(|host| Reverse(left(*host)));
        for host in hosts {
            let own = &state.hosts[host.index()];
            while load.is_free([own.resource; 2], class) {
                let fits = |task: &&Task| {
                    let other = if task.from == host { task.to } else { task.from };
                    let other = &state.hosts[other.index()];
                    ready(other)
                        && (is_alone || !state.is_shared(task, class))
                        && load.is_free([own.resource, other.resource], class)
                        && load.has_room(&state.resources, task, class)
                };
                let tasks =
                    own.pending[class as usize].iter().map(|id| &state.plan.tasks[id.index()]).filter(fits);
                // Of several equally urgent ones, the first of the plan.
                let best =
                    tasks.max_by_key(|task| (state.urgency(task, host, left), Reverse(task.id))).copied();
                let Some(task) = best else { break };
                let at = [task.from, task.to].map(|host| state.hosts[host.index()].resource);
                load.count(&state.resources, &task, class, at, true);
                chosen.extend(state.assignment(&task, now));
                if class == CostClass::Exclusive {
                    break;
                }
            }
        }
    }
    chosen
}

impl ScheduleState {
    /// True if a test uses a resource that agents cannot keep free, since each knows only its own
    /// host: a group with a limit, a resource that the inventory names, a host without an agent. Nor
    /// do agents keep exclusive tests away from background ones.
    fn is_shared(&self, task: &Task, class: CostClass) -> bool {
        let is_passive = |host: &Host| host.passive_protocol().is_some();
        let is_named = |host: HostId| {
            self.hosts[host.index()].labelled || self.plan.inventory.host(host).is_some_and(is_passive)
        };
        let is_limited = self.resources.used(task.from, task.to).next().is_some();
        match class {
            CostClass::Background => {
                self.plan.tests.iter().any(|test| test.class == CostClass::Exclusive)
                    || self.plan.inventory.hosts.iter().any(is_passive)
            }
            _ => is_limited || [task.from, task.to].into_iter().any(is_named),
        }
    }

    /// Number of remaining tests of the task's other host, or of each place of its fullest group.
    fn urgency(&self, task: &Task, host: HostId, left: impl Fn(HostId) -> usize) -> usize {
        let other = if task.from == host { task.to } else { task.from };
        let groups = self.resources.used(task.from, task.to);
        let groups =
            groups.map(|group| self.open[group].div_ceil(self.resources.groups[group].limit) as usize);
        groups.chain([left(other)]).max().unwrap_or(0)
    }

    fn assignment(&self, task: &Task, now: Mono) -> Option<Assignment> {
        let client = self.plan.inventory.client(task.from, task.to)?;
        let server = if client == task.from { task.to } else { task.from };
        let test = self.plan.test(task)?;
        let failures = self.tasks[task.id.index()].failures;
        let grace_ns = self.policy.grace_ns.saturating_mul(1 << failures.min(8));
        let until = now.plus(test.length_ns).plus(test.wait_ns).plus(grace_ns);
        let attempt = Attempt { task: task.id, number: self.attempts(task.id) + 1 };
        Some(Assignment { attempt, client, server, until })
    }
}

#[cfg(test)]
mod tests;
