//! The choice of the tests that start now.

use super::state::HostState;
use super::{Assignment, State};
use crate::inventory::HostId;
use crate::plan::{Attempt, CostClass, Task};
use metrics::Mono;
use std::cmp::Reverse;

/// Tests that may all start at `now`, beside those that run and beside each other. Each one that is sent is told to the state
/// ([`Event::Started`](super::Event::Started)) before the next call.
///
/// Hosts with the most tests left come first, and get the partner with the most left; so the last tests of a run are not all at one
/// host. A group counts like a host: the more tests it has left for each that may run at a time, the sooner its tests start.
#[must_use]
pub fn next(state: &State, now: Mono) -> Vec<Assignment> {
    let mut chosen = Vec::new();
    if state.cancelled {
        return chosen;
    }
    let mut load = state.load.clone();
    for class in [CostClass::Exclusive, CostClass::Limited, CostClass::Background] {
        let ready = |host: &HostState| host.present && (class == CostClass::Background || host.busy <= now);
        let left = |host: HostId| state.hosts[host.index()].pending[class as usize].len();
        let hosts = (0..).map(HostId).zip(&state.hosts);
        let hosts = hosts.filter(|(id, host)| {
            ready(host) && left(*id) > 0 && load.is_free([host.resource; 2], class, &state.policy)
        });
        let mut hosts: Vec<HostId> = hosts.map(|(id, _)| id).collect();
        hosts.sort_by_key(|host| Reverse(left(*host)));
        for host in hosts {
            let own = &state.hosts[host.index()];
            while load.is_free([own.resource; 2], class, &state.policy) {
                let fits = |task: &&Task| {
                    let other = if task.from == host { task.to } else { task.from };
                    let other = &state.hosts[other.index()];
                    ready(other)
                        && load.is_free([own.resource, other.resource], class, &state.policy)
                        && load.has_room(&state.resources, task, class)
                };
                let tasks =
                    own.pending[class as usize].iter().map(|id| &state.plan.tasks[id.index()]).filter(fits);
                // Of several that come first alike, the first of the plan.
                let best =
                    tasks.max_by_key(|task| (state.urgency(task, host, left), Reverse(task.id))).copied();
                let Some(task) = best else { break };
                let at = [task.from, task.to].map(|host| state.hosts[host.index()].resource);
                load.add(&state.resources, &task, class, at, true);
                chosen.extend(state.assignment(&task, now));
                if class == CostClass::Exclusive {
                    break;
                }
            }
        }
    }
    chosen
}

impl State {
    /// How many tests are left to the task's other host, or to each place of its fullest group.
    fn urgency(&self, task: &Task, host: HostId, left: impl Fn(HostId) -> usize) -> usize {
        let other = if task.from == host { task.to } else { task.from };
        let groups = self.resources.used(task.from, task.to);
        let groups =
            groups.map(|group| self.open[group].div_ceil(self.resources.groups()[group].limit) as usize);
        groups.chain([left(other)]).max().unwrap_or(0)
    }

    fn assignment(&self, task: &Task, now: Mono) -> Option<Assignment> {
        let client = self.plan.inventory.client(task.from, task.to)?;
        let server = if client == task.from { task.to } else { task.from };
        let test = self.plan.test(task)?;
        let grace_ns = self.policy.grace_ns.saturating_mul(1 << self.failures(task.id).min(8));
        let until = now.plus(test.length_ns).plus(test.wait_ns).plus(grace_ns);
        let attempt = Attempt { task: task.id, number: self.attempts(task.id) + 1 };
        Some(Assignment { attempt, client, server, until })
    }
}
