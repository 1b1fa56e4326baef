//! The state of a run: present hosts, running tests, remaining tasks.

use super::{
    Assignment, EndedTask, Event, MAX_ATTEMPTS, MAX_BACKGROUND, MAX_LIMITED, MAX_REFUSALS, Policy, Resources,
};
use crate::inventory::HostId;
use crate::plan::{Attempt, CostClass, Plan, Task, TaskId};
use crate::result::{Ending, Reason};
use metrics::Mono;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug, Default)]
pub(super) struct TaskState {
    attempts: u32,
    pub(super) failures: u32,
    refusals: u32,
    over: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct HostState {
    pub(super) present: bool,
    /// True if it was there at any time.
    seen: bool,
    /// Index of its tests' resource.
    pub(super) resource: usize,
    /// True if the inventory names its tests' resource.
    pub(super) labelled: bool,
    pub(super) busy: Mono,
    /// Until when a test may run that a controller before this one has started.
    inherited: Mono,
    /// Tasks of each class that may start, by either host, in the order of the plan.
    pub(super) pending: [Vec<TaskId>; 3],
}

impl HostState {
    /// True if tasks of the host may start.
    fn has_tasks(&self) -> bool {
        self.pending.iter().any(|pending| !pending.is_empty())
    }
}

/// Running tests of each class at a resource, and in each group.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) resources: Vec<[u32; 3]>,
    pub(super) groups: Vec<[u32; 3]>,
    /// Pairs, in this direction, with a test that others may run beside: of one pair one at a time.
    pub(super) pairs: BTreeSet<(HostId, HostId)>,
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    attempt: u32,
    until: Mono,
    at: [usize; 2],
    lost: bool,
}

/// All that the choice of the next tests depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScheduleState {
    pub(crate) plan: Plan,
    pub(super) policy: Policy,
    pub(super) resources: Resources,
    pub(super) hosts: Vec<HostState>,
    pub(super) load: Load,
    /// Tasks that may start or wait for another attempt, of each group.
    pub(super) open: Vec<u32>,
    names: HashMap<String, usize>,
    pub(super) tasks: Vec<TaskState>,
    pub(super) running: BTreeMap<TaskId, Running>,
    /// When the time of each running attempt is up.
    deadlines: BTreeSet<(Mono, TaskId)>,
    /// Hosts that are not there, and until when each is waited for.
    absent: BTreeSet<(Mono, HostId)>,
    /// Tasks that wait for another attempt.
    delayed: BTreeSet<(Mono, TaskId)>,
    pub(super) ended: usize,
    pub(super) cancelled: bool,
}

impl ScheduleState {
    /// The state at the start of a run, or of its resumption: the tasks `over` have ended before.
    /// Also returns the tasks that end at once, since no connection is possible between their
    /// hosts.
    pub(crate) fn new(
        plan: Plan,
        policy: Policy,
        over: &[TaskId],
        now: Mono,
    ) -> (ScheduleState, Vec<EndedTask>) {
        let resources = Resources::of(&plan.inventory);
        let begun = now.plus(policy.absent_ns).plus(policy.dialling_ns);
        let inherited = if policy.takes_over {
            now.plus(longest(&plan, policy.grace_ns.saturating_mul(1 << (MAX_ATTEMPTS - 1))))
        } else {
            Mono(0)
        };
        let mut state = ScheduleState {
            load: Load { groups: vec![[0; 3]; resources.groups.len()], ..Load::default() },
            open: vec![0; resources.groups.len()],
            tasks: vec![TaskState::default(); plan.tasks.len()],
            resources,
            policy,
            ..ScheduleState::default()
        };
        for (id, host) in plan.inventory.numbered() {
            let label = host.label("resource").map(|label| format!("label {label}"));
            let labelled = label.is_some();
            let resource = state.resource(label.unwrap_or_else(|| format!("host {}", host.name)));
            // A host without an agent runs no client: the other host's agent reports the test.
            let inherited = if host.passive_protocol().is_some() { Mono(0) } else { inherited };
            state.hosts.push(HostState { resource, labelled, inherited, ..HostState::default() });
            state.absent.insert((begun, id));
        }
        state.plan = plan;
        for id in over {
            state.tasks.get_mut(id.index()).into_iter().for_each(|task| task.over = true);
        }
        state.ended = state.tasks.iter().filter(|task| task.over).count();
        let mut endings = Vec::new();
        for at in 0..state.plan.tasks.len() {
            let task = state.plan.tasks[at];
            if state.tasks[at].over {
                continue;
            }
            if state.plan.test(&task).is_none() || state.plan.inventory.client(task.from, task.to).is_none() {
                endings.extend(state.finish(task.id, Ending::missing(Reason::UnreachableByDesign, "")));
            } else {
                state.count(&task, true);
                state.admit(task.id);
            }
        }
        (state, endings)
    }

    /// True if every task has ended and nothing runs.
    pub(crate) fn is_over(&self) -> bool {
        self.ended == self.tasks.len() && self.running.is_empty()
    }

    /// Attempts of a task so far.
    pub(crate) fn attempts(&self, task: TaskId) -> u32 {
        self.tasks.get(task.index()).map_or(0, |task| task.attempts)
    }

    /// When something changes without an event, from `now` on: [`Event::Tick`] is due then.
    pub(crate) fn wake(&self, now: Mono) -> Option<Mono> {
        let first = [&self.deadlines, &self.delayed].map(|set| set.first().map(|(at, _)| *at));
        let absent = self.absent.iter().filter(|(_, host)| self.hosts[host.index()].has_tasks());
        let busy = self.hosts.iter().filter(|host| host.has_tasks()).map(|host| host.busy);
        let others = absent.map(|(at, _)| *at).chain(busy).chain([self.inherited_until()]);
        // Overdue work is due now.
        let due = first.into_iter().flatten().map(|at| at.max(now));
        due.chain(others.filter(|at| *at > now)).min()
    }

    /// Until when tests may run that a controller before this one has started.
    pub(super) fn inherited_until(&self) -> Mono {
        self.hosts.iter().map(|host| host.inherited).max().unwrap_or_default()
    }

    /// Takes note of an event at `now`. Returns the tasks that ended by it, each with its one
    /// ending: no task is returned twice.
    pub(crate) fn apply(&mut self, event: Event, now: Mono) -> Vec<EndedTask> {
        let mut endings = Vec::new();
        match event {
            Event::Joined { host, resource } => self.joined(host, resource),
            Event::Inherited { host, until } => {
                let host = self.hosts.get_mut(host.index());
                host.into_iter().for_each(|host| host.inherited = host.inherited.min(until));
            }
            Event::Lost { host } => self.lost(host, now),
            Event::Started(assignment) => self.started(&assignment),
            Event::Ended { attempt, ending } => endings.extend(self.reported(attempt, ending, now)),
            Event::Busy { attempt, host, until } => {
                endings.extend(self.refused(attempt, host, until, now));
            }
            Event::Cancelled => self.cancel(&mut endings),
            Event::Tick => {}
        }
        self.pass(now, &mut endings);
        endings
    }

    fn resource(&mut self, name: String) -> usize {
        let new = self.load.resources.len();
        let at = *self.names.entry(name).or_insert(new);
        if at == new {
            self.load.resources.push([0; 3]);
        }
        at
    }

    /// The agent of `host` connected, on a machine that it names `resource`. A label in the
    /// inventory decides the machine where there is one; else agents with one name share it.
    fn joined(&mut self, host: HostId, resource: String) {
        let Some(labelled) = self.hosts.get(host.index()).map(|host| host.labelled) else { return };
        let resource = (!labelled).then(|| self.resource(format!("agent {resource}")));
        self.absent.retain(|(_, absent)| *absent != host);
        let host = &mut self.hosts[host.index()];
        (host.present, host.seen) = (true, true);
        host.resource = resource.unwrap_or(host.resource);
    }

    fn lost(&mut self, host: HostId, now: Mono) {
        let Some(state) = self.hosts.get_mut(host.index()) else { return };
        if std::mem::take(&mut state.present) {
            self.absent.insert((now.plus(self.policy.absent_ns), host));
        }
        for (task, running) in &mut self.running {
            let task = &self.plan.tasks[task.index()];
            running.lost |= [task.from, task.to].contains(&host);
        }
    }

    fn started(&mut self, assignment: &Assignment) {
        let Assignment { attempt: Attempt { task, number: attempt }, until, .. } = *assignment;
        let Some(task) = self.plan.task(task).copied() else { return };
        self.withdraw(&task);
        let at = [task.from, task.to].map(|host| self.hosts[host.index()].resource);
        self.load.count(&self.resources, &task, self.plan.class_of(&task), at, true);
        self.tasks[task.id.index()].attempts = attempt;
        self.running.insert(task.id, Running { attempt, until, at, lost: false });
        self.deadlines.insert((until, task.id));
    }

    /// Frees the resources of a running task's attempt; nothing for another attempt.
    fn release(&mut self, Attempt { task: id, number }: Attempt) -> Option<()> {
        self.running.get(&id).filter(|running| running.attempt == number)?;
        let running = self.running.remove(&id)?;
        self.deadlines.remove(&(running.until, id));
        let task = self.plan.tasks[id.index()];
        self.load.count(&self.resources, &task, self.plan.class_of(&task), running.at, false);
        Some(())
    }

    fn reported(&mut self, attempt: Attempt, ending: Ending, now: Mono) -> Option<EndedTask> {
        let id = attempt.task;
        // An outcome may be that of an attempt which a controller before this one started.
        let is_known = (1..=self.attempts(id)).contains(&attempt.number);
        if !is_known && ending.reason().is_some() {
            return None;
        }
        let current = self.release(attempt).is_some();
        let Some(reason) = ending.reason() else { return self.finish(id, ending) };
        let task = self.tasks.get_mut(id.index()).filter(|task| current && !task.over)?;
        task.failures += 1;
        if reason.is_transient() && !self.cancelled && task.failures < MAX_ATTEMPTS {
            self.delayed.insert((now.plus(self.policy.retry_ns), id));
            return None;
        }
        self.finish(id, ending)
    }

    fn refused(&mut self, attempt: Attempt, host: HostId, until: Mono, now: Mono) -> Option<EndedTask> {
        let id = attempt.task;
        self.release(attempt)?;
        // No test of the plan keeps a host for longer, and refusals are counted.
        let most = longest(&self.plan, self.policy.grace_ns);
        let until = until.min(now.plus(most)).max(now.plus(self.policy.retry_ns));
        if let Some(host) = self.hosts.get_mut(host.index()) {
            host.busy = host.busy.max(until);
        }
        let task = &mut self.tasks[id.index()];
        if task.over {
            return None;
        }
        task.refusals += 1;
        if self.cancelled || task.refusals > MAX_REFUSALS {
            let text = format!("{} attempts were refused", task.refusals);
            return self.finish(id, Ending::missing(Reason::Busy, text));
        }
        self.delayed.insert((until, id));
        None
    }

    fn cancel(&mut self, endings: &mut Vec<EndedTask>) {
        self.cancelled = true;
        for id in (0..).map(TaskId).take(self.plan.tasks.len()) {
            if !self.running.contains_key(&id) {
                endings.extend(self.finish(id, Ending::missing(Reason::Cancelled, "")));
            }
        }
    }

    /// Handles work due by `now`: attempts whose time is up, repeatable ones, hosts that stayed
    /// away too long.
    fn pass(&mut self, now: Mono, endings: &mut Vec<EndedTask>) {
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(until, _)| *until <= now) {
            let Some(running) = self.running.get(&id) else { break };
            let reason = if running.lost { Reason::AgentLost } else { Reason::TimedOut };
            let attempt = Attempt { task: id, number: running.attempt };
            endings.extend(self.reported(attempt, Ending::missing(reason, ""), now));
        }
        while let Some((at, id)) = self.delayed.first().copied().filter(|(at, _)| *at <= now) {
            self.delayed.remove(&(at, id));
            if !self.tasks[id.index()].over {
                self.admit(id);
            }
        }
        let waited = self.absent.iter().take_while(|(at, _)| *at <= now).map(|(_, host)| *host);
        let waited: Vec<HostId> = waited.filter(|host| self.hosts[host.index()].has_tasks()).collect();
        for host in waited {
            let state = &self.hosts[host.index()];
            let reason = if state.seen { Reason::AgentLost } else { Reason::HostAbsent };
            for id in state.pending.concat() {
                let ending = Ending::missing(reason, self.plan.inventory.name(host));
                endings.extend(self.finish(id, ending));
            }
        }
    }

    /// Lets a task start when its hosts are free.
    fn admit(&mut self, id: TaskId) {
        let task = self.plan.tasks[id.index()];
        let class = self.plan.class_of(&task);
        for host in [task.from, task.to] {
            let pending = &mut self.hosts[host.index()].pending[class as usize];
            if let Err(at) = pending.binary_search(&id) {
                pending.insert(at, id);
            }
        }
    }

    /// Removes a task from the lists of pending tasks of both its hosts.
    fn withdraw(&mut self, task: &Task) {
        let class = self.plan.class_of(task);
        for host in [task.from, task.to] {
            let pending = &mut self.hosts[host.index()].pending[class as usize];
            if let Ok(at) = pending.binary_search(&task.id) {
                pending.remove(at);
            }
        }
    }

    /// Ends a task, unless it has ended before.
    fn finish(&mut self, id: TaskId, ending: Ending) -> Option<EndedTask> {
        let state = self.tasks.get_mut(id.index()).filter(|task| !task.over)?;
        state.over = true;
        self.ended += 1;
        let task = self.plan.tasks[id.index()];
        if ending.reason() != Some(Reason::UnreachableByDesign) {
            self.count(&task, false);
        }
        self.withdraw(&task);
        Some((id, ending))
    }

    fn count(&mut self, task: &Task, more: bool) {
        for group in self.resources.used(task.from, task.to) {
            let open = &mut self.open[group];
            *open = if more { *open + 1 } else { open.saturating_sub(1) };
        }
    }
}

/// Longest time of a test of a plan, ns, in an attempt with this grace: the last one has the most
/// time.
fn longest(plan: &Plan, grace_ns: u64) -> u64 {
    let lengths = plan.tests.iter().map(|test| test.length_ns.saturating_add(test.wait_ns));
    lengths.max().unwrap_or(0).saturating_add(grace_ns)
}

impl Load {
    /// True if a task of this class may run at these two resources beside the running ones.
    pub(super) fn is_free(&self, at: [usize; 2], class: CostClass) -> bool {
        at.iter().all(|at| {
            let [exclusive, limited, background] = self.resources[*at];
            match class {
                CostClass::Exclusive => exclusive == 0 && limited == 0 && background == 0,
                CostClass::Limited => exclusive == 0 && limited < MAX_LIMITED,
                CostClass::Background => exclusive == 0 && background < MAX_BACKGROUND,
            }
        })
    }

    /// True if the groups of a task leave room for it.
    pub(super) fn has_room(&self, resources: &Resources, task: &Task, class: CostClass) -> bool {
        let is_alone = class == CostClass::Exclusive || !self.pairs.contains(&(task.from, task.to));
        let has_room = |group: usize| {
            let [exclusive, limited, background] = self.groups[group];
            let is_below = exclusive + limited < resources.groups[group].limit;
            match class {
                CostClass::Exclusive => is_below && background == 0,
                CostClass::Limited => is_below,
                CostClass::Background => exclusive == 0,
            }
        };
        is_alone && resources.used(task.from, task.to).all(has_room)
    }

    /// Counts a task that starts at its two resources, or with `starts` false one that has ended.
    /// A running exclusive task has both resources to itself, so that its pair needs no note.
    pub(super) fn count(
        &mut self,
        resources: &Resources,
        task: &Task,
        class: CostClass,
        at: [usize; 2],
        starts: bool,
    ) {
        let change = |n: &mut u32| *n = if starts { *n + 1 } else { n.saturating_sub(1) };
        change(&mut self.resources[at[0]][class as usize]);
        if at[0] != at[1] {
            change(&mut self.resources[at[1]][class as usize]);
        }
        resources.used(task.from, task.to).for_each(|group| change(&mut self.groups[group][class as usize]));
        match (class, starts) {
            (CostClass::Exclusive, _) => {}
            (_, true) => drop(self.pairs.insert((task.from, task.to))),
            (_, false) => drop(self.pairs.remove(&(task.from, task.to))),
        }
    }
}
