//! The controller of a run: greets agents, starts what the scheduler says, and writes each result down before the agent may forget it.

mod journal;
#[cfg(test)]
mod tests;

use crate::inventory::HostId;
use crate::message::{Attempt, Of, Order, Report, Target, VERSION, bounded};
use crate::plan::{Plan, TaskId, Test, Verb};
use crate::result::{Ending, PairResult, Reason};
use crate::schedule::{self, Assignment, Event, Policy, State};
use crate::transport::{Arrival, Transport};
pub use journal::{Journal, Mirror, is_cancel_requested, is_held, latest, request_cancel};
use metrics::{Mono, SECOND, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time from one sign of life to the next, ns.
const ALIVE: u64 = SECOND;
/// After so long without a word from an agent, it counts as lost, ns.
const SILENCE: u64 = 6 * SECOND;
/// How long agents go on without a word from this end, ns.
const PATIENCE: u64 = 10 * SECOND;
/// How often it is looked whether the user wants something, ns.
const LOOK: u64 = SECOND / 10;
/// How much longer hosts are waited for with each one that has an agent: only a few are dialled at a time, ns.
const DIALLING: u64 = SECOND;

/// What the user wants of a run that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That it goes on.
    GoOn,
    /// That it ends once the tests that run are over; it can be resumed.
    Stop,
    /// That it ends now without a word to the agents: another controller has taken the run over.
    Leave,
}

/// What is told while a run goes on.
#[derive(Clone, Debug)]
pub enum Progress {
    /// A host's agent is there.
    Joined(HostId),
    /// It is gone, or was not to be had.
    Lost(HostId, Reason, String),
    /// A task is over; so many are, of so many.
    Ended(TaskId, usize, usize),
}

/// How far a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Away,
    /// Its agent was told of the run.
    Greeted,
    Ready,
    /// It runs a server of its own, and no agent.
    Passive(String),
    /// It will not come.
    Hopeless,
}

struct Member {
    stage: Stage,
    heard: Mono,
    /// Why it is not there, as far as that was said.
    why: Option<(Reason, String)>,
}

/// A test that has been given out.
struct Running {
    assignment: Assignment,
    is_reserved: bool,
}

/// The controller of a run.
pub struct Controller<'a> {
    state: State,
    transport: &'a mut dyn Transport,
    journal: Journal,
    epoch: u64,
    key: Option<String>,
    members: Vec<Member>,
    running: BTreeMap<TaskId, Running>,
    done: BTreeSet<TaskId>,
    /// Tasks that this controller has ended with a reason instead of an outcome, those among them that are not kept included.
    lacking: BTreeSet<TaskId>,
    /// Endings that are not on the disk yet.
    fresh: Vec<(TaskId, Ending)>,
    /// Agents that are told of the next results on the disk.
    owed: BTreeMap<HostId, BTreeSet<TaskId>>,
    arrived: Vec<(HostId, Arrival)>,
    /// The time of day at the last step.
    wall: Wall,
    greeted: Mono,
    has_begun: bool,
    has_left: bool,
    is_ending: bool,
    /// Whether endings of tests that have not run are kept: those of a run that can go on later are not.
    keeps_cancelled: bool,
}

impl<'a> Controller<'a> {
    /// The controller of a run. `key` is what its clients and servers know each other by.
    ///
    /// # Errors
    /// When the results that the run has cannot be read.
    pub fn new(
        journal: Journal,
        key: Option<String>,
        transport: &'a mut dyn Transport,
    ) -> std::io::Result<Controller<'a>> {
        Controller::at(io::Clock::new().now(), journal, key, transport)
    }

    fn at(
        now: Mono,
        journal: Journal,
        key: Option<String>,
        transport: &'a mut dyn Transport,
    ) -> std::io::Result<Controller<'a>> {
        let plan = journal.record().plan().clone();
        let over = journal.record().over()?;
        let member = |host: &crate::inventory::Host| {
            let passive = host.passive_protocol().map(|protocol| Stage::Passive(protocol.to_owned()));
            Member { stage: passive.unwrap_or(Stage::Away), heard: now, why: None }
        };
        let members: Vec<Member> = plan.inventory.hosts.iter().map(member).collect();
        let dialled = members.iter().filter(|member| member.stage == Stage::Away).count() as u64;
        let policy = Policy { dialling_ns: DIALLING * dialled, ..Policy::default() };
        let (state, fresh) = State::new(plan, policy, &over, now);
        Ok(Controller {
            state,
            transport,
            epoch: journal.epoch(),
            journal,
            key,
            members,
            running: BTreeMap::new(),
            done: over.into_iter().collect(),
            lacking: BTreeSet::new(),
            fresh,
            owed: BTreeMap::new(),
            arrived: Vec::new(),
            wall: Wall(0),
            greeted: now,
            has_begun: false,
            has_left: false,
            is_ending: false,
            keeps_cancelled: false,
        })
    }

    fn plan(&self) -> &Plan {
        self.state.plan()
    }

    /// Works until every task has ended, or the user wants no more.
    ///
    /// # Errors
    /// One sentence, when results cannot be written down: nothing is lost by that, agents keep them.
    pub fn run(&mut self, wish: &dyn Fn() -> Wish, tell: &mut dyn FnMut(Progress)) -> Result<(), String> {
        let clock = io::Clock::new();
        while !self.step(clock.now(), clock.sample().wall(clock.now()), wish(), tell)? {
            let wait = self.state.wake(clock.now()).map_or(LOOK, |at| at.since(clock.now())).min(LOOK);
            self.arrived = self.transport.receive(Duration::from_nanos(wait));
        }
        if self.has_left {
            self.transport.close();
            return Ok(());
        }
        self.part();
        self.store(tell)
    }

    /// Takes in what has come, and does what is due. Whether the run is over.
    fn step(
        &mut self,
        now: Mono,
        wall: Wall,
        wish: Wish,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<bool, String> {
        self.wall = wall;
        self.has_left = wish == Wish::Leave;
        if self.has_left {
            return Ok(true);
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.join_passive(now);
        }
        if !self.is_ending && (wish == Wish::Stop || self.journal.is_cancelled()) {
            self.is_ending = true;
            self.keeps_cancelled = self.journal.is_cancelled();
            self.apply(Event::Cancelled, now);
        }
        for (host, arrival) in std::mem::take(&mut self.arrived) {
            match arrival {
                Arrival::Report(report) => self.on_report(now, host, *report, tell),
                Arrival::Lost { reason, why, retries } => {
                    self.on_lost(now, host, (reason, why), retries, tell);
                }
            }
        }
        self.apply(Event::Tick, now);
        self.expire(now);
        self.store(tell)?;
        for assignment in schedule::next(&self.state, now) {
            self.start(assignment, now);
        }
        self.keep_alive(now, tell);
        Ok(self.state.is_over())
    }

    fn send(&mut self, host: HostId, message: Order) {
        let run = self.plan().run;
        self.transport.send(host, &Of { run, epoch: self.epoch, message });
    }

    fn apply(&mut self, event: Event, now: Mono) {
        let ended = self.state.apply(event, now);
        let without = ended.iter().filter(|(_, ending)| ending.reason().is_some()).map(|(task, _)| *task);
        self.lacking.extend(without);
        self.fresh.extend(ended);
    }

    /// The ending of a task, with what is known of the host that was not there.
    fn explained(&self, task: TaskId, ending: Ending) -> Ending {
        let is_absence = matches!(ending.reason(), Some(Reason::HostAbsent | Reason::AgentLost));
        let Some(task) = self.plan().task(task).filter(|_| is_absence) else { return ending };
        let known = |host: HostId| self.members.get(host.index())?.why.clone();
        match known(task.from).or_else(|| known(task.to)) {
            Some((reason, why)) => Ending::Missing { reason, detail: why },
            None => ending,
        }
    }

    fn join_passive(&mut self, now: Mono) {
        let passive = |(at, member): (usize, &Member)| {
            let host = HostId(u32::try_from(at).ok()?);
            matches!(member.stage, Stage::Passive(_)).then_some(host)
        };
        for host in self.members.iter().enumerate().filter_map(passive).collect::<Vec<_>>() {
            let name = self.plan().inventory.host(host).map_or("", |host| &host.name);
            let resource = format!("passive/{name}");
            self.apply(Event::Joined { host, resource }, now);
        }
    }

    fn on_report(&mut self, now: Mono, host: HostId, report: Of<Report>, tell: &mut dyn FnMut(Progress)) {
        let run = self.plan().run;
        let Some(member) = self.members.get_mut(host.index()) else { return };
        if matches!(member.stage, Stage::Hopeless | Stage::Passive(_))
            || (report.run != run && !report.run.is_nil())
        {
            return;
        }
        member.heard = now;
        if member.stage == Stage::Away && !matches!(report.message, Report::Hello { .. }) {
            // It knows the run from the controller before this one.
            self.greet(now, host);
        }
        match report.message {
            // An introduction to another controller of the agent.
            Report::Hello { .. }
                if report.run.is_nil() && self.members[host.index()].stage == Stage::Ready => {}
            Report::Hello { version, program } => self.on_hello(now, host, version, &program, tell),
            Report::Ready { resource } => {
                let member = &mut self.members[host.index()];
                if member.stage == Stage::Greeted {
                    (member.stage, member.why) = (Stage::Ready, None);
                    self.apply(Event::Joined { host, resource: bounded(&resource) }, now);
                    tell(Progress::Joined(host));
                }
            }
            Report::Reserved { attempt, port } => self.on_reserved(host, attempt, port),
            Report::Busy { attempt, for_ns } => self.on_busy(now, host, attempt, for_ns),
            Report::Refused { attempt, reason, why } => {
                if self.is_at(host, attempt) {
                    self.end(now, attempt, Ending::missing(reason, bounded(&why)));
                }
            }
            Report::Ended { attempt, ending } => self.on_ended(now, host, attempt, ending),
            Report::Rejected { reason, why } => self.give_up(now, host, (reason, bounded(&why)), tell),
            Report::Alive => {}
        }
    }

    fn on_hello(
        &mut self,
        now: Mono,
        host: HostId,
        version: u32,
        program: &str,
        tell: &mut dyn FnMut(Progress),
    ) {
        if version != VERSION {
            let why = format!(
                "its agent ({}) speaks version {version}, and this controller {VERSION}",
                bounded(program)
            );
            return self.give_up(now, host, (Reason::Version, why), tell);
        }
        if self.members[host.index()].stage == Stage::Ready {
            // It was started anew, and its tests ended with the agent before.
            self.leave(now, host, true);
        }
        self.greet(now, host);
    }

    /// Tells a host's agent of the run.
    fn greet(&mut self, now: Mono, host: HostId) {
        self.members[host.index()].stage = Stage::Greeted;
        let (epoch, key) = (self.epoch, self.key.clone());
        self.send(host, Order::Hello { version: VERSION, epoch, key, now, patience_ns: PATIENCE });
    }

    fn on_lost(
        &mut self,
        now: Mono,
        host: HostId,
        (reason, why): (Reason, String),
        retries: bool,
        tell: &mut dyn FnMut(Progress),
    ) {
        let Some(member) = self.members.get_mut(host.index()) else { return };
        if !retries {
            return self.give_up(now, host, (reason, why), tell);
        }
        if member.stage != Stage::Hopeless {
            (member.stage, member.why) = (Stage::Away, Some((reason, why.clone())));
            self.leave(now, host, false);
            tell(Progress::Lost(host, reason, why));
        }
    }

    /// A host will not come: the scheduler ends its tasks after a while, and this is why.
    fn give_up(
        &mut self,
        now: Mono,
        host: HostId,
        (reason, why): (Reason, String),
        tell: &mut dyn FnMut(Progress),
    ) {
        let member = &mut self.members[host.index()];
        if member.stage != Stage::Hopeless {
            (member.stage, member.why) = (Stage::Hopeless, Some((reason, why.clone())));
            self.leave(now, host, false);
            tell(Progress::Lost(host, reason, why));
        }
    }

    /// A host's agent is gone. Where its processes are gone, too, its tests are over; else they may still run.
    fn leave(&mut self, now: Mono, host: HostId, are_tests_over: bool) {
        self.apply(Event::Lost { host }, now);
        let over =
            self.running.values().filter(|test| match (test.assignment.client == host, test.is_reserved) {
                (true, is_reserved) => are_tests_over || !is_reserved,
                // The client has not been told yet.
                (false, is_reserved) => test.assignment.server == host && !is_reserved,
            });
        let attempts: Vec<Attempt> = over.map(|test| attempt_of(&test.assignment)).collect();
        for attempt in attempts {
            self.end(now, attempt, Ending::missing(Reason::AgentLost, ""));
        }
    }

    /// Whether this attempt is under way, and the host takes part in it.
    fn is_at(&self, host: HostId, attempt: Attempt) -> bool {
        self.running.get(&attempt.task).is_some_and(|test| {
            attempt_of(&test.assignment) == attempt
                && [test.assignment.client, test.assignment.server].contains(&host)
        })
    }

    fn start(&mut self, assignment: Assignment, now: Mono) {
        self.apply(Event::Started(assignment), now);
        let attempt = attempt_of(&assignment);
        self.running.insert(attempt.task, Running { assignment, is_reserved: false });
        let Some(class) = self.test_of(attempt.task).map(|test| test.class) else { return };
        match self.members.get(assignment.server.index()).map(|member| &member.stage) {
            Some(Stage::Passive(protocol)) => {
                let protocol = Some(protocol.clone());
                let port = self.plan().inventory.host(assignment.server).and_then(|host| host.port);
                self.run_client(attempt, port, protocol);
            }
            _ => self.send(assignment.server, Order::Reserve { attempt, class, until: assignment.until }),
        }
    }

    fn test_of(&self, task: TaskId) -> Option<&Test> {
        self.plan().task(task).and_then(|task| self.plan().test(task))
    }

    fn on_reserved(&mut self, host: HostId, attempt: Attempt, port: u16) {
        let waits = self.running.get(&attempt.task).filter(|test| {
            attempt_of(&test.assignment) == attempt && test.assignment.server == host && !test.is_reserved
        });
        if waits.is_some() {
            self.run_client(attempt, Some(port), None);
        } else if !self.is_at(host, attempt) {
            // It took so long that the attempt was given up.
            self.send(host, Order::Release { attempt });
        }
    }

    fn run_client(&mut self, attempt: Attempt, port: Option<u16>, protocol: Option<String>) {
        let Some(test) = self.running.get_mut(&attempt.task) else { return };
        test.is_reserved = true;
        let assignment = test.assignment;
        let plan = self.plan();
        let (Some(task), Some(server)) = (plan.task(attempt.task), plan.inventory.host(assignment.server))
        else {
            return;
        };
        let Some(test) = plan.test(task) else { return };
        let order = Order::Run {
            attempt,
            class: test.class,
            until: assignment.until,
            verb: test.verb,
            arguments: arguments(test, assignment.is_reversed(task)),
            target: Target { host: server.address.clone(), port, protocol },
        };
        self.send(assignment.client, order);
    }

    fn on_busy(&mut self, now: Mono, host: HostId, attempt: Attempt, for_ns: u64) {
        if self.is_at(host, attempt) {
            self.forget(attempt, Some(host));
            let until = now.plus(for_ns.min(600 * SECOND));
            self.apply(Event::Busy { task: attempt.task, attempt: attempt.number, host, until }, now);
        }
    }

    fn on_ended(&mut self, now: Mono, host: HostId, attempt: Attempt, ending: Ending) {
        let Some(task) = self.plan().task(attempt.task) else { return };
        // A hostile agent speaks for its own tests alone.
        if self.plan().inventory.client(task.from, task.to) != Some(host) {
            return;
        }
        // Also where another result of the task is there already: the agent need not keep this one.
        self.owed.entry(host).or_default().insert(attempt.task);
        // An outcome that comes after the task was given up takes the place of the reason.
        let is_outcome = ending.reason().is_none();
        if is_outcome && self.lacking.remove(&attempt.task) {
            self.done.remove(&attempt.task);
            self.fresh.retain(|(of, _)| *of != attempt.task);
            self.fresh.push((attempt.task, ending.clone()));
        }
        self.end(now, attempt, ending);
    }

    /// An attempt is over.
    fn end(&mut self, now: Mono, attempt: Attempt, ending: Ending) {
        self.forget(attempt, None);
        self.apply(Event::Ended { task: attempt.task, attempt: attempt.number, ending }, now);
    }

    /// Takes an attempt from those under way, and tells its hosts, except the one that said so.
    fn forget(&mut self, attempt: Attempt, except: Option<HostId>) {
        let known = self.running.get(&attempt.task).filter(|test| attempt_of(&test.assignment) == attempt);
        let Some(Assignment { client, server, .. }) = known.map(|test| test.assignment) else { return };
        self.running.remove(&attempt.task);
        for host in [server, client].into_iter().filter(|host| Some(*host) != except) {
            if self.members.get(host.index()).is_some_and(|member| member.stage == Stage::Ready) {
                self.send(host, Order::Release { attempt });
            }
        }
    }

    /// Forgets the tests whose time is over: the scheduler has given them up.
    fn expire(&mut self, now: Mono) {
        let over =
            self.running.values().map(|test| test.assignment).filter(|assignment| assignment.until <= now);
        for assignment in over.collect::<Vec<_>>() {
            self.forget(attempt_of(&assignment), None);
        }
    }

    /// Writes down what has ended, and then tells the agents that they need not keep it.
    fn store(&mut self, tell: &mut dyn FnMut(Progress)) -> Result<(), String> {
        let (ended, before) = (self.wall, self.done.len());
        let mut results = Vec::new();
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
                format!(
                    "cannot write results into {}: {e}; the agents keep them, and `netcaliper fleet resume` collects them",
                    self.journal.folder().display()
                )
            })?;
        }
        for (done, result) in (before + 1..).zip(&results) {
            tell(Progress::Ended(result.task, done, self.plan().tasks.len()));
        }
        for (host, tasks) in std::mem::take(&mut self.owed) {
            self.send(host, Order::Stored { tasks: tasks.into_iter().collect() });
        }
        Ok(())
    }

    /// Signs of life in both directions.
    fn keep_alive(&mut self, now: Mono, tell: &mut dyn FnMut(Progress)) {
        if now.since(self.greeted) < ALIVE {
            return;
        }
        self.greeted = now;
        for at in 0..self.members.len() {
            let member = &self.members[at];
            let host = HostId(u32::try_from(at).unwrap_or(u32::MAX));
            match member.stage {
                Stage::Ready if now.since(member.heard) >= SILENCE => {
                    self.members[at].stage = Stage::Greeted;
                    self.leave(now, host, false);
                    tell(Progress::Lost(host, Reason::AgentLost, "its agent says nothing".to_owned()));
                }
                // One that was silent has to be greeted again: it may have given the run up.
                Stage::Greeted if now.since(member.heard) < SILENCE || member.heard == Mono(0) => {}
                Stage::Greeted => self.greet(now, host),
                Stage::Ready => self.send(host, Order::Alive { now }),
                Stage::Away | Stage::Passive(_) | Stage::Hopeless => {}
            }
        }
    }

    /// Tells all agents that the run is over.
    fn part(&mut self) {
        for at in 0..self.members.len() {
            if matches!(self.members[at].stage, Stage::Ready | Stage::Greeted) {
                self.send(HostId(u32::try_from(at).unwrap_or(u32::MAX)), Order::Bye);
            }
        }
        self.transport.close();
    }
}

fn attempt_of(assignment: &Assignment) -> Attempt {
    Attempt { task: assignment.task, number: assignment.attempt }
}

/// The options of a test; where the client runs at the receiving host, the direction is turned round.
fn arguments(test: &Test, is_reversed: bool) -> Vec<String> {
    let mut arguments = test.arguments.clone();
    let at = |names: &[&str]| arguments.iter().position(|word| names.contains(&word.as_str()));
    let (reverse, both) = (at(&["-R", "--reverse"]), at(&["--bidir", "--echo"]));
    match test.verb {
        _ if !is_reversed || both.is_some() => {}
        Verb::Tcp | Verb::Train => match reverse {
            Some(at) => drop(arguments.remove(at)),
            None => arguments.push("--reverse".to_owned()),
        },
        // By itself it measures both directions.
        Verb::Delay => match (at(&["--up"]), reverse) {
            (Some(at), _) => "--reverse".clone_into(&mut arguments[at]),
            (None, Some(at)) => "--up".clone_into(&mut arguments[at]),
            (None, None) => {}
        },
        Verb::Ping | Verb::Load => {}
    }
    arguments
}
