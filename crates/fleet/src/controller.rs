//! The controller of a run: greets agents, starts the tests that the scheduler chooses, and stores
//! each result before its agent may delete it.

mod journal;
#[cfg(test)]
mod tests;

use crate::inventory::{Host, HostId};
use crate::message::{Of, Order, Report, Target, VERSION, Words, bounded};
use crate::plan::{Attempt, Plan, TaskId};
use crate::result::{Documents, Ending, PairResult, Reason};
use crate::schedule::{self, Assignment, Event, Policy, ScheduleState};
use crate::spool::Kept;
use crate::transport::{Arrival, Transport};
use ::io::Clock;
pub use journal::{Journal, Mirror, is_cancel_requested, is_held, latest, request_cancel};
use metrics::{Mono, SECOND, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// Time from one sign of life to the next, ns.
const ALIVE: u64 = SECOND;
/// Silence after which an agent counts as lost, ns.
const SILENCE: u64 = 6 * SECOND;
/// Silence of this end after which agents end the run, ns.
const PATIENCE: u64 = 10 * SECOND;
/// Period of looks for the user's wish, ns.
const LOOK: u64 = SECOND / 10;
/// Additional wait for hosts for each one with an agent, ns: only a few are dialled at a time.
const DIALLING: u64 = SECOND;
/// Most results that one order names as stored: it has to fit into a line.
const MAX_STORED: usize = 1_000;

/// The user's wish for a run in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The run goes on.
    GoOn,
    /// The run ends after its running tests, and can be resumed.
    Stop,
    /// The run ends now without a farewell to the agents: another controller has taken it over.
    Leave,
}

/// News of a run in progress.
#[derive(Clone, Debug)]
pub enum RunProgress {
    /// A host's agent is gone, or was not to be had.
    Lost(HostId, Reason, String),
    /// Number of tasks that are over, and of all tasks.
    Ended(usize, usize),
}

/// Stage of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostStage {
    Away,
    /// Its agent was sent the run.
    Greeted,
    Ready,
    /// The host runs a server of another program, and no agent.
    Passive,
    /// The host's agent is not expected any more.
    Hopeless,
}

struct Member {
    stage: HostStage,
    heard: Mono,
    /// Reason for its absence, if known.
    why: Option<(Reason, String)>,
}

/// A test that has been given out.
struct Running {
    assignment: Assignment,
    is_reserved: bool,
}

/// The controller of a run.
pub struct Controller<'a> {
    state: ScheduleState,
    transport: &'a mut dyn Transport,
    journal: Journal,
    /// The outcomes of the run, which are read as they arrive.
    documents: Documents,
    key: Option<String>,
    members: Vec<Member>,
    running: BTreeMap<TaskId, Running>,
    done: BTreeSet<TaskId>,
    /// Tasks that this controller has ended with a reason instead of an outcome, those among them
    /// that are not kept included.
    lacking: BTreeSet<TaskId>,
    /// Endings that are not on the disk yet.
    fresh: Vec<(TaskId, Ending)>,
    /// Acknowledgements that follow the next results on the disk.
    owed: BTreeMap<HostId, BTreeSet<Attempt>>,
    /// Acknowledgements that were sent. A transport may lose one, and its agent would keep the
    /// result: all are repeated at the end.
    acknowledged: BTreeMap<HostId, BTreeSet<Attempt>>,
    arrived: Vec<(HostId, Arrival)>,
    /// News that the user has not seen yet.
    news: Vec<RunProgress>,
    /// The time at the last step, and the time of day.
    now: Mono,
    wall: Wall,
    greeted: Mono,
    is_ending: bool,
    /// Endings of tests that have not run are kept, unless the run can go on later.
    keeps_cancelled: bool,
}

impl<'a> Controller<'a> {
    /// The controller of a run. `key` is the shared key of its clients and servers.
    ///
    /// # Errors
    /// When the results that the run has cannot be read.
    pub fn new(journal: Journal, key: Option<String>, transport: &'a mut dyn Transport) -> io::Result<Self> {
        Controller::at(Clock::new().now(), journal, key, transport)
    }

    fn at(
        now: Mono,
        journal: Journal,
        key: Option<String>,
        transport: &'a mut dyn Transport,
    ) -> io::Result<Controller<'a>> {
        let plan = journal.record().plan().clone();
        let (over, documents) = journal.record().finished()?;
        let member = |host: &Host| {
            let stage = if host.passive_protocol().is_some() { HostStage::Passive } else { HostStage::Away };
            Member { stage, heard: now, why: None }
        };
        let members: Vec<Member> = plan.inventory.hosts.iter().map(member).collect();
        let passive = plan.inventory.numbered().filter(|(_, host)| host.passive_protocol().is_some());
        let passive: Vec<(HostId, String)> =
            passive.map(|(id, host)| (id, format!("passive/{}", host.name))).collect();
        let dialled = (members.len() - passive.len()) as u64;
        // Agents keep tests apart only on their own host; they do not know the limits of groups.
        let takes_over = journal.takes_over();
        let policy = Policy { dialling_ns: DIALLING * dialled, takes_over, ..Policy::default() };
        let (state, fresh) = ScheduleState::new(plan, policy, &over, now);
        let mut controller = Controller {
            state,
            transport,
            journal,
            documents,
            key,
            members,
            running: BTreeMap::new(),
            done: over.into_iter().collect(),
            lacking: BTreeSet::new(),
            fresh,
            owed: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            arrived: Vec::new(),
            news: Vec::new(),
            now,
            wall: Wall(0),
            greeted: now,
            is_ending: false,
            keeps_cancelled: false,
        };
        for (host, resource) in passive {
            controller.apply(Event::Joined { host, resource });
        }
        Ok(controller)
    }

    fn plan(&self) -> &Plan {
        &self.state.plan
    }

    /// Works until every task has ended, or the user wants no more.
    ///
    /// # Errors
    /// One sentence, when results cannot be written down: nothing is lost by that, agents keep
    /// them.
    pub fn run(&mut self, wish: &dyn Fn() -> Wish, tell: &mut dyn FnMut(RunProgress)) -> Result<(), String> {
        let clock = Clock::new();
        loop {
            let wish = wish();
            if wish == Wish::Leave {
                self.transport.close();
                return Ok(());
            }
            let is_over = self.step(clock.now(), clock.sample().wall(clock.now()), wish == Wish::Stop);
            self.news.drain(..).for_each(&mut *tell);
            if is_over? {
                break;
            }
            let wait = self.state.wake(clock.now()).map_or(LOOK, |at| at.since(clock.now())).min(LOOK);
            self.arrived = self.transport.receive(Duration::from_nanos(wait));
        }
        self.part();
        let stored = self.store();
        self.news.drain(..).for_each(tell);
        stored
    }

    /// Handles arrived reports and does what is due; with `stops` no further test begins. True once
    /// the run is over.
    fn step(&mut self, now: Mono, wall: Wall, stops: bool) -> Result<bool, String> {
        (self.now, self.wall) = (now, wall);
        let is_cancelled = !self.is_ending && is_cancel_requested(self.journal.folder());
        if is_cancelled || (stops && !self.is_ending) {
            (self.is_ending, self.keeps_cancelled) = (true, is_cancelled);
            self.apply(Event::Cancelled);
        }
        for (host, arrival) in std::mem::take(&mut self.arrived) {
            match arrival {
                Arrival::Report(report) => self.on_report(host, *report),
                Arrival::Lost { reason, why, retries } => self.on_lost(host, reason, why, retries),
            }
        }
        self.apply(Event::Tick);
        self.expire();
        self.store()?;
        for assignment in schedule::next(&self.state, now) {
            self.start(assignment);
        }
        self.keep_alive();
        Ok(self.state.is_over())
    }

    fn send(&mut self, host: HostId, message: Order) {
        let (run, epoch) = (self.plan().run, self.journal.epoch());
        self.transport.send(host, &Of { run, epoch, message });
    }

    fn apply(&mut self, event: Event) {
        let ended = self.state.apply(event, self.now);
        let without = ended.iter().filter(|(_, ending)| ending.reason().is_some()).map(|(task, _)| *task);
        self.lacking.extend(without);
        self.fresh.extend(ended);
    }

    /// The ending of a task, with the known reason if a host was absent.
    fn explained(&self, task: TaskId, ending: Ending) -> Ending {
        let is_absence = matches!(ending.reason(), Some(Reason::HostAbsent | Reason::AgentLost));
        let Some(task) = self.plan().task(task).filter(|_| is_absence) else { return ending };
        let known = |host: HostId| self.members.get(host.index())?.why.clone();
        match known(task.from).or_else(|| known(task.to)) {
            Some((reason, why)) => Ending::missing(reason, why),
            None => ending,
        }
    }

    fn on_report(&mut self, host: HostId, report: Of<Report>) {
        let run = self.plan().run;
        let Some(member) = self.members.get_mut(host.index()) else { return };
        if matches!(member.stage, HostStage::Hopeless | HostStage::Passive)
            || (report.run != run && !report.run.is_nil())
        {
            return;
        }
        member.heard = self.now;
        if member.stage == HostStage::Away && !matches!(report.message, Report::Hello { .. }) {
            // The agent knows the run from the controller before this one.
            self.greet(host);
        }
        let member = &mut self.members[host.index()];
        match report.message {
            // An introduction to another controller of the agent.
            Report::Hello { .. } if report.run.is_nil() && member.stage == HostStage::Ready => {}
            Report::Hello { version: VERSION, .. } => {
                if member.stage == HostStage::Ready {
                    // The agent was started anew, and its tests ended with the one before.
                    self.leave(host, true);
                }
                self.greet(host);
            }
            Report::Hello { version, program } => {
                let program = bounded(&program);
                let why =
                    format!("its agent ({program}) speaks version {version}, and this controller {VERSION}");
                self.on_lost(host, Reason::Version, why, false);
            }
            Report::Ready { resource, held_ns } if member.stage == HostStage::Greeted => {
                (member.stage, member.why) = (HostStage::Ready, None);
                if let Some(held_ns) = held_ns {
                    let until = self.now.plus(held_ns);
                    self.apply(Event::Inherited { host, until });
                }
                self.apply(Event::Joined { host, resource: bounded(&resource) });
            }
            Report::Reserved { attempt, port } => self.on_reserved(host, attempt, port),
            Report::Busy { attempt, for_ns } if self.is_at(host, attempt) => {
                self.forget(attempt, Some(host));
                let until = self.now.plus(for_ns);
                self.apply(Event::Busy { attempt, host, until });
            }
            Report::Refused { attempt, reason, why } if self.is_at(host, attempt) => {
                let reason = if reason.is_of_agents() { reason } else { Reason::Refused };
                self.end(attempt, Ending::missing(reason, bounded(&why)));
            }
            Report::Ended(Kept { attempt, ending, .. }) => self.on_ended(host, attempt, ending),
            Report::Rejected { reason, why } => {
                let reason = if reason.is_of_agents() { reason } else { Reason::Refused };
                self.on_lost(host, reason, bounded(&why), false);
            }
            Report::Ready { .. } | Report::Busy { .. } | Report::Refused { .. } | Report::Alive => {}
        }
    }

    /// Sends the run to a host's agent.
    fn greet(&mut self, host: HostId) {
        self.members[host.index()].stage = HostStage::Greeted;
        let (epoch, key, now) = (self.journal.epoch(), self.key.clone(), self.now);
        self.send(host, Order::Hello { version: VERSION, epoch, key, now, patience_ns: PATIENCE });
    }

    /// A host's agent is gone. Unless it returns, the scheduler ends its tasks after a while, for
    /// this reason.
    fn on_lost(&mut self, host: HostId, reason: Reason, why: String, retries: bool) {
        let member = self.members.get_mut(host.index()).filter(|member| member.stage != HostStage::Hopeless);
        let Some(member) = member else { return };
        member.stage = if retries { HostStage::Away } else { HostStage::Hopeless };
        member.why = Some((reason, why.clone()));
        self.leave(host, false);
        self.news.push(RunProgress::Lost(host, reason, why));
    }

    /// A host's agent is gone. With `are_tests_over` its processes are gone, too; else its tests
    /// may still run.
    fn leave(&mut self, host: HostId, are_tests_over: bool) {
        self.apply(Event::Lost { host });
        // Without a reservation the client has no order yet.
        let is_over = |test: &&Running| {
            (!test.is_reserved && test.assignment.has(host))
                || (are_tests_over && test.assignment.client == host)
        };
        let over = self.running.values().filter(is_over).map(|test| test.assignment.attempt);
        for attempt in over.collect::<Vec<_>>() {
            self.end(attempt, Ending::missing(Reason::AgentLost, ""));
        }
    }

    /// The assignment of an attempt that is under way.
    fn assignment(&self, attempt: Attempt) -> Option<Assignment> {
        let assignment = self.running.get(&attempt.task)?.assignment;
        (assignment.attempt == attempt).then_some(assignment)
    }

    /// True if this attempt is under way and the host takes part in it.
    fn is_at(&self, host: HostId, attempt: Attempt) -> bool {
        self.assignment(attempt).is_some_and(|assignment| assignment.has(host))
    }

    fn start(&mut self, assignment: Assignment) {
        self.apply(Event::Started(assignment));
        let Assignment { attempt, server, until, .. } = assignment;
        self.running.insert(attempt.task, Running { assignment, is_reserved: false });
        let Some((_, test)) = self.plan().task_and_test(attempt.task) else { return };
        let class = test.class;
        let words = Words { verb: test.verb, arguments: test.arguments.clone() };
        let host = self.plan().inventory.host(server);
        match host.and_then(|host| Some((host.port, host.passive_protocol()?.to_owned()))) {
            Some((port, protocol)) => self.run_client(attempt, port, Some(protocol)),
            None => self.send(server, Order::Reserve { attempt, class, until, test: Some(words) }),
        }
    }

    fn on_reserved(&mut self, host: HostId, attempt: Attempt, port: u16) {
        let is_reserved = self.running.get(&attempt.task).is_some_and(|test| test.is_reserved);
        match self.assignment(attempt) {
            Some(Assignment { server, .. }) if server == host && !is_reserved => {
                self.run_client(attempt, Some(port), None);
            }
            Some(assignment) if assignment.has(host) => {}
            // The attempt was given up meanwhile.
            _ => self.send(host, Order::Release { attempt }),
        }
    }

    fn run_client(&mut self, attempt: Attempt, port: Option<u16>, protocol: Option<String>) {
        let Some(running) = self.running.get_mut(&attempt.task) else { return };
        running.is_reserved = true;
        let assignment = running.assignment;
        let Some((task, test)) = self.plan().task_and_test(attempt.task) else { return };
        let Some(server) = self.plan().inventory.host(assignment.server) else { return };
        let order = Order::Run {
            attempt,
            class: test.class,
            until: assignment.until,
            verb: test.verb,
            arguments: test.ordered(assignment.is_reversed(task)),
            target: Target { host: server.address.clone(), port, protocol },
        };
        self.send(assignment.client, order);
    }

    fn on_ended(&mut self, host: HostId, attempt: Attempt, ending: Ending) {
        let Some(task) = self.plan().task(attempt.task) else { return };
        // A hostile agent speaks for its own tests alone.
        if self.plan().inventory.client(task.from, task.to) != Some(host) {
            return;
        }
        let ending = self.read(attempt, ending);
        // Also where another result of the task is there already: the agent need not keep this one.
        self.owed.entry(host).or_default().insert(attempt);
        // An outcome that arrives after the task was given up replaces the reason.
        let is_outcome = ending.reason().is_none();
        if is_outcome && self.lacking.remove(&attempt.task) {
            self.done.remove(&attempt.task);
            self.fresh.retain(|(of, _)| *of != attempt.task);
            self.fresh.push((attempt.task, ending.clone()));
        }
        self.end(attempt, ending);
    }

    /// The ending that an agent reports, read.
    fn read(&mut self, Attempt { task, number }: Attempt, ending: Ending) -> Ending {
        let ending = match ending.reason().filter(|reason| !reason.is_of_agents()) {
            Some(reason) => Ending::missing(
                Reason::BadResult,
                format!("the agent gave a reason that it cannot have: {reason}"),
            ),
            None => ending,
        };
        let mut result = PairResult { task, attempts: number, ended: self.wall, ending };
        self.documents.read(&self.state.plan, &mut result);
        result.ending
    }

    /// An attempt is over.
    fn end(&mut self, attempt: Attempt, ending: Ending) {
        self.forget(attempt, None);
        self.apply(Event::Ended { attempt, ending });
    }

    /// Removes a running attempt, and releases its hosts, except the one that reported its end.
    fn forget(&mut self, attempt: Attempt, except: Option<HostId>) {
        let Some(Assignment { client, server, .. }) = self.assignment(attempt) else { return };
        self.running.remove(&attempt.task);
        for host in [server, client].into_iter().filter(|host| Some(*host) != except) {
            if self.members.get(host.index()).is_some_and(|member| member.stage == HostStage::Ready) {
                self.send(host, Order::Release { attempt });
            }
        }
    }

    /// Forgets the tests whose time is over: the scheduler has given them up.
    fn expire(&mut self) {
        let assignments = self.running.values().map(|test| test.assignment);
        let over: Vec<Assignment> = assignments.filter(|assignment| assignment.until <= self.now).collect();
        over.into_iter().for_each(|assignment| self.forget(assignment.attempt, None));
    }

    /// Stores the results of ended tasks, and then lets the agents delete them.
    fn store(&mut self) -> Result<(), String> {
        let (ended, mut results) = (self.wall, Vec::new());
        for (task, ending) in std::mem::take(&mut self.fresh) {
            let is_wanted = self.keeps_cancelled || ending.reason() != Some(Reason::Cancelled);
            if !is_wanted || !self.done.insert(task) {
                continue;
            }
            let ending = self.explained(task, ending);
            results.push(PairResult { task, attempts: self.state.attempts(task), ended, ending });
        }
        if !results.is_empty() {
            self.journal.append(&results).map_err(|e| {
                let folder = self.journal.folder().display();
                format!(
                    "cannot write results into {folder}: {e}; the agents keep them, and `netcaliper fleet resume` collects them"
                )
            })?;
            self.news.push(RunProgress::Ended(self.done.len(), self.plan().tasks.len()));
        }
        for (host, attempts) in std::mem::take(&mut self.owed) {
            self.acknowledge(host, &attempts);
            self.acknowledged.entry(host).or_default().extend(attempts);
        }
        Ok(())
    }

    /// Lets an agent forget the results of these attempts.
    fn acknowledge(&mut self, host: HostId, attempts: &BTreeSet<Attempt>) {
        let attempts: Vec<&Attempt> = attempts.iter().collect();
        for some in attempts.chunks(MAX_STORED) {
            let (tasks, numbers) = some.iter().map(|attempt| (attempt.task, attempt.number)).unzip();
            self.send(host, Order::Stored { tasks, numbers });
        }
    }

    fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..).map(HostId).take(self.members.len())
    }

    /// Signs of life in both directions.
    fn keep_alive(&mut self) {
        let now = self.now;
        if now.since(self.greeted) < ALIVE {
            return;
        }
        self.greeted = now;
        for host in self.hosts() {
            let member = &mut self.members[host.index()];
            let is_silent = now.since(member.heard) >= SILENCE;
            match member.stage {
                HostStage::Ready if is_silent => {
                    member.stage = HostStage::Greeted;
                    self.leave(host, false);
                    let why = "its agent says nothing".to_owned();
                    self.news.push(RunProgress::Lost(host, Reason::AgentLost, why));
                }
                HostStage::Ready => self.send(host, Order::Alive { now }),
                // One that was silent has to be greeted again: it may have given the run up.
                HostStage::Greeted if is_silent && member.heard != Mono(0) => self.greet(host),
                HostStage::Greeted | HostStage::Away | HostStage::Passive | HostStage::Hopeless => {}
            }
        }
    }

    /// Sends all agents the end of the run.
    fn part(&mut self) {
        for (host, attempts) in std::mem::take(&mut self.acknowledged) {
            self.acknowledge(host, &attempts);
        }
        for host in self.hosts() {
            if matches!(self.members[host.index()].stage, HostStage::Ready | HostStage::Greeted) {
                self.send(host, Order::Bye);
            }
        }
        self.transport.close();
    }
}
