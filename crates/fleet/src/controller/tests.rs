//! Controller, scheduler and agents together in virtual time, with faults drawn from seeds.
//! Processes are pretended: a test takes its time, and ends with the agent that runs it.

use super::*;
use crate::agent::Agent;
use crate::agent::options::Ceilings;
use crate::agent::programs::{Happened, Left, Programs};
use crate::agent::tests::Free;
use crate::inventory::{Group, Inventory};
use crate::plan::{CostClass, Random, Task, Test, Verb};
use crate::result::document;
use crate::spool::Spool;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

const MS: u64 = SECOND / 1000;

/// What a pretended agent asks of its processes.
enum Asked {
    Serve(Uuid),
    Start(Uuid, Attempt),
    End(Uuid, Attempt),
}

#[derive(Clone, Default)]
struct Pretended(Rc<RefCell<Vec<Asked>>>);

impl Programs for Pretended {
    fn serve(&mut self, run: Uuid, _: &str, _: &Ceilings) {
        self.0.borrow_mut().push(Asked::Serve(run));
    }
    fn end_server(&mut self, _: Uuid) {}
    fn start(&mut self, run: Uuid, attempt: Attempt, _: Vec<String>, _: Option<&str>) {
        self.0.borrow_mut().push(Asked::Start(run, attempt));
    }
    fn end(&mut self, run: Uuid, attempt: Attempt, _: bool) {
        self.0.borrow_mut().push(Asked::End(run, attempt));
    }
}

/// Orders that the controller has sent.
#[derive(Clone, Default)]
struct Sent(Rc<RefCell<Orders>>);

type Orders = Vec<(HostId, Of<Order>)>;

impl Transport for Sent {
    fn send(&mut self, host: HostId, order: &Of<Order>) {
        self.0.borrow_mut().push((host, order.clone()));
    }
    fn receive(&mut self, _: Duration) -> Vec<(HostId, Arrival)> {
        Vec::new()
    }
    fn close(&mut self) {}
}

/// What happens at a time.
enum What {
    ToAgent(usize, Of<Order>),
    ToController(HostId, Arrival),
    /// A process of this life of an agent did something.
    Process(usize, u32, Happened),
    Kill(usize),
    Start(usize),
    /// No message passes from or to the agent until then.
    Cut(usize, u64),
    KillController,
}

/// An agent's host.
struct Machine {
    agent: Option<Agent>,
    asked: Pretended,
    life: u32,
    cut_until: u64,
    /// How far its clock is ahead.
    ahead: u64,
    /// When the last order, and the last report, arrives.
    last: [u64; 2],
}

struct World {
    now: u64,
    count: u64,
    /// What happens, by its time and in order.
    due: BTreeMap<(u64, u64), What>,
    machines: Vec<Machine>,
    random: Random,
    folder: PathBuf,
    plan: Plan,
    /// From, until, client, server of each test that ran, as its process did.
    ran: Vec<(u64, u64, usize, usize, TaskId)>,
    running: BTreeMap<(usize, TaskId, u32), u64>,
    /// Whether some tests do not end by themselves.
    hangs: bool,
    /// When silent hosts were asked for, as the transports do it.
    knocked: u64,
    /// Tasks whose measured outcome an agent had on its disk.
    stored: BTreeSet<TaskId>,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const LENGTH: u64 = 500 * MS;

/// A drawn key.
const KEY: &str = "netcaliper-psk-1:5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c";

/// What a test prints that has measured something.
fn measured() -> String {
    document(Verb::default(), &[]).to_string()
}

fn plan(hosts: u32) -> Plan {
    let host = |n: u32| Host { name: format!("h{n}"), address: format!("10.0.0.{n}"), ..Host::default() };
    let inventory = Inventory { hosts: (0..hosts).map(host).collect(), ..Inventory::default() };
    let test = Test { class: CostClass::Exclusive, length_ns: LENGTH, ..Test::default() };
    let pairs = (0..hosts).flat_map(|a| (0..hosts).filter(move |b| *b != a).map(move |b| (a, b)));
    let task = |(id, (a, b))| Task { id: TaskId(id), from: HostId(a), to: HostId(b), test: 0, repeat: 0 };
    Plan {
        run: Uuid::from_u128(1),
        round: None,
        inventory,
        tests: vec![test],
        tasks: (0..).zip(pairs).map(task).collect(),
    }
}

impl World {
    fn new(hosts: u32, seed: u64) -> World {
        // Tests of one process run at once.
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("nc-world-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut random = Random(seed);
        let mut machine = |_| Machine {
            agent: None,
            asked: Pretended::default(),
            life: 0,
            cut_until: 0,
            ahead: random.next() % 1_000 * SECOND,
            last: [0; 2],
        };
        let machines: Vec<Machine> = (0..hosts).map(&mut machine).collect();
        let mut world = World {
            now: 0,
            count: 0,
            due: BTreeMap::new(),
            machines,
            random,
            folder,
            plan: plan(hosts),
            ran: Vec::new(),
            running: BTreeMap::new(),
            hangs: false,
            knocked: 0,
            stored: BTreeSet::new(),
        };
        (0..hosts as usize).for_each(|at| world.push(0, What::Start(at)));
        world
    }

    fn push(&mut self, after: u64, what: What) {
        self.count += 1;
        self.due.insert((self.now + after, self.count), what);
    }

    fn clock(&self, at: usize) -> Mono {
        Mono(self.now + self.machines[at].ahead)
    }

    fn spool(&self, at: usize) -> PathBuf {
        self.folder.join(format!("spool-{at}"))
    }

    /// Time that a message to the agent, or from it, takes; cut links lose it. None overtakes
    /// another.
    fn passes(&mut self, at: usize, is_report: bool) -> Option<u64> {
        let delay = MS / 5 + self.random.next() % 2 * (self.random.next() % 20) * MS;
        let machine = &mut self.machines[at];
        let last = &mut machine.last[usize::from(is_report)];
        *last = (self.now + delay).max(*last);
        (machine.cut_until <= self.now).then_some(*last - self.now)
    }

    fn start(&mut self, at: usize) {
        let asked = Pretended::default();
        let mut agent = Agent::new(
            format!("r{at}"),
            "test".to_owned(),
            Ceilings::default(),
            Spool::open(self.spool(at)),
            Box::new(Free),
            Box::new(asked.clone()),
            crate::agent::tests::read,
        );
        agent.introduce(Uuid::nil());
        self.machines[at].agent = Some(agent);
        self.machines[at].asked = asked;
        self.machines[at].life += 1;
        self.flush(at);
    }

    fn kill(&mut self, at: usize) {
        self.machines[at].agent = None;
        let over: Vec<_> = self.running.keys().filter(|(client, _, _)| *client == at).copied().collect();
        over.into_iter().for_each(|key| self.process_over(key));
        let lost = Arrival::Lost { reason: Reason::AgentLost, why: "killed".to_owned(), retries: true };
        if let Some(delay) = self.passes(at, true) {
            self.push(delay, What::ToController(HostId(at as u32), lost));
        }
        let pause = (1 + self.random.next() % 3) * SECOND;
        self.push(pause, What::Start(at));
    }

    fn process_over(&mut self, key: (usize, TaskId, u32)) {
        if let Some(from) = self.running.remove(&key) {
            let server = self.plan.tasks[key.1.index()].to.index();
            self.ran.push((from, self.now, key.0, server, key.1));
        }
    }

    /// Passes on what an agent says, and does what it asks of its processes.
    fn flush(&mut self, at: usize) {
        let Some(agent) = &mut self.machines[at].agent else { return };
        let reports = agent.take_reports();
        let asked = std::mem::take(&mut *self.machines[at].asked.0.borrow_mut());
        let life = self.machines[at].life;
        for (_, report) in reports {
            if let Report::Ended(Kept { attempt, ending: Ending::Measured(_), .. }) = &report.message {
                self.stored.insert(attempt.task);
            }
            if let Some(delay) = self.passes(at, true) {
                self.push(delay, What::ToController(HostId(at as u32), Arrival::Report(Box::new(report))));
            }
        }
        for asked in asked {
            match asked {
                Asked::Serve(run) => {
                    let serving = Happened::Serving { run, port: Ok(1) };
                    self.push(20 * MS, What::Process(at, life, serving));
                }
                Asked::Start(run, attempt) => {
                    self.running.insert((at, attempt.task, attempt.number), self.now);
                    let left = Left { code: Some(0), out: measured().into_bytes(), said: String::new() };
                    let hangs = self.hangs && self.random.next().is_multiple_of(200);
                    let length = if hangs { 1_000 * SECOND } else { LENGTH - self.random.next() % 50 * MS };
                    self.push(length, What::Process(at, life, Happened::Over { run, attempt, left }));
                }
                Asked::End(run, attempt) => {
                    self.push(
                        MS,
                        What::Process(at, life, Happened::Over { run, attempt, left: Left::default() }),
                    );
                }
            }
        }
    }

    fn happen(&mut self, what: What, controller: &mut Controller<'_>) {
        match what {
            What::ToAgent(at, order) => {
                let now = self.clock(at);
                if let Some(agent) = &mut self.machines[at].agent {
                    agent.on_order(now, &std::sync::Arc::default(), order);
                }
                self.flush(at);
            }
            What::ToController(host, arrival) => controller.arrived.push((host, arrival)),
            What::Process(at, life, happened) => {
                let now = self.clock(at);
                if self.machines[at].life == life {
                    if let Happened::Over { attempt, .. } = &happened {
                        self.process_over((at, attempt.task, attempt.number));
                    }
                    if let Some(agent) = &mut self.machines[at].agent {
                        agent.on_happened(now, happened);
                    }
                    self.flush(at);
                }
            }
            What::Kill(at) => self.kill(at),
            What::Start(at) if self.machines[at].agent.is_none() => self.start(at),
            What::Start(_) => {}
            What::Cut(at, until) => self.machines[at].cut_until = until,
            What::KillController => {}
        }
    }

    /// Runs a controller until the run is over, it is killed, or the time is up. Whether the run is
    /// over.
    fn control(&mut self, controller: &mut Controller<'_>, sent: &Sent, limit: u64) -> bool {
        while self.now < limit {
            let wall = Wall(i64::try_from(self.now).unwrap());
            if controller.step(Mono(self.now), wall, false).unwrap() {
                return true;
            }
            for (host, order) in std::mem::take(&mut *sent.0.borrow_mut()) {
                if let Some(delay) = self.passes(host.index(), false) {
                    self.push(delay, What::ToAgent(host.index(), order));
                }
            }
            if self.now >= self.knocked + SECOND {
                self.knocked = self.now;
                for at in 0..self.machines.len() {
                    let order = Of::new(self.plan.run, Order::Alive { now: Mono(0) });
                    if let Some(delay) =
                        self.passes(at, false).filter(|_| controller.members[at].stage == HostStage::Away)
                    {
                        self.push(delay, What::ToAgent(at, order));
                    }
                }
            }
            let wake = controller
                .state
                .wake(Mono(self.now))
                .map_or(u64::MAX, |at| at.0)
                .clamp(self.now + MS, self.now + LOOK);
            let agents = self.machines.iter().filter_map(|machine| {
                let now = Mono(self.now + machine.ahead);
                Some(machine.agent.as_ref()?.wake(now)?.0.saturating_sub(machine.ahead).max(self.now + MS))
            });
            let until = agents.chain([wake]).min().unwrap_or(wake);
            let next = self.due.keys().next().map(|(at, _)| *at);
            match next.filter(|at| *at <= until) {
                Some(at) => {
                    let (_, what) = self.due.pop_first().unwrap();
                    self.now = self.now.max(at);
                    let is_killed = matches!(what, What::KillController);
                    self.happen(what, controller);
                    if is_killed {
                        return false;
                    }
                }
                None => self.now = until,
            }
            for at in 0..self.machines.len() {
                let now = self.clock(at);
                if let Some(agent) = &mut self.machines[at].agent {
                    agent.tick(now);
                }
                self.flush(at);
            }
        }
        panic!("the run is not over after {} s of virtual time", limit / SECOND);
    }

    /// Delivers the orders that are under way when the controller has ended.
    fn last_orders(&mut self, sent: &Sent) {
        let mut orders = Vec::new();
        for (_, what) in std::mem::take(&mut self.due) {
            if let What::ToAgent(at, order) = what {
                orders.push((at, order));
            }
        }
        orders.extend(sent.0.borrow_mut().drain(..).map(|(host, order)| (host.index(), order)));
        for (at, order) in orders {
            let now = self.clock(at);
            if let Some(agent) = &mut self.machines[at].agent {
                agent.on_order(now, &std::sync::Arc::default(), order);
            }
        }
    }

    /// No host took part in two tests at a time.
    fn has_no_overlap(&self) {
        let mut by_host: BTreeMap<usize, Vec<(u64, u64, TaskId)>> = BTreeMap::new();
        for (from, until, client, server, task) in &self.ran {
            for host in [client, server] {
                by_host.entry(*host).or_default().push((*from, *until, *task));
            }
        }
        for (host, mut tests) in by_host {
            tests.sort();
            for pair in tests.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "host {host}: {pair:?}");
            }
        }
    }
}

/// A run with controllers one after the other, each killed; its results, and how long it took.
fn run(world: &mut World, limit: u64) -> Vec<PairResult> {
    let folder: PathBuf = world.folder.join("run");
    let mut journal = Journal::create(&folder, world.plan.clone(), serde_json::Value::Null).unwrap();
    loop {
        let sent = Sent::default();
        let mut transport = sent.clone();
        let is_over = {
            let mut controller =
                Controller::at(Mono(world.now), journal, Some(KEY.to_owned()), &mut transport).unwrap();
            let over = world.control(&mut controller, &sent, limit);
            if over {
                controller.part();
                controller.store().unwrap();
                world.last_orders(&sent);
            }
            over
        };
        if is_over {
            return controller_results(&folder);
        }
        world.now += SECOND;
        journal = Journal::resume(&folder).unwrap();
        // Agents are reached anew, as over a remote shell.
        for at in 0..world.machines.len() {
            if let Some(agent) = &mut world.machines[at].agent {
                agent.introduce(Uuid::nil());
            }
            world.flush(at);
        }
    }
}

fn controller_results(folder: &Path) -> Vec<PairResult> {
    let record = crate::record::Record::open(folder).unwrap();
    let mut seen: BTreeMap<TaskId, PairResult> = BTreeMap::new();
    let add = |result: PairResult, _| {
        let task = result.task;
        let before = seen.insert(task, result);
        // Only an outcome that came late, or that a resumed run measured, follows another result.
        assert!(before.is_none_or(|before| before.ending.reason().is_some()), "two outcomes of {task:?}");
    };
    record.results(add).unwrap();
    seen.into_values().collect()
}

fn is_complete(world: &World, results: &[PairResult]) {
    let mut tasks: Vec<u32> = results.iter().map(|result| result.task.0).collect();
    tasks.sort_unstable();
    let all: Vec<u32> = (0..world.plan.tasks.len() as u32).collect();
    assert_eq!(tasks, all, "each task has one result");
    world.has_no_overlap();
    let missing = results
        .iter()
        .filter(|result| result.ending.reason().is_some() && world.stored.contains(&result.task));
    let missing: Vec<&PairResult> = missing.collect();
    assert!(missing.is_empty(), "an agent had an outcome of these: {missing:?}");
}

#[test]
fn a_mesh_without_faults_is_measured_in_nearly_the_ideal_time() {
    let mut world = World::new(10, 1);
    let results = run(&mut world, 300 * SECOND);
    is_complete(&world, &results);
    assert!(results.iter().all(|result| result.ending.reason().is_none()));
    // 90 tests, five at a time.
    assert!(world.now < 18 * LENGTH * 2, "{} ms", world.now / MS);
}

#[test]
fn faults_cost_no_result_and_no_overlap() {
    // `bench/deep` takes more.
    let seeds = if std::env::var_os("NETCALIPER_DEEP").is_some() { 20 } else { 4 };
    for seed in 0..seeds {
        let mut world = World::new(8, seed);
        world.hangs = true;
        for _ in 0..12 {
            let at = world.random.below(8);
            let when = world.random.next() % 12 * SECOND + world.random.next() % 1_000 * MS;
            let what = match world.random.below(5) {
                0 => What::KillController,
                1 | 2 => What::Cut(at, when + 10 * SECOND),
                _ => What::Kill(at),
            };
            world.push(when, what);
        }
        let results = run(&mut world, 1_000 * SECOND);
        is_complete(&world, &results);
    }
}

#[test]
fn a_lost_acknowledgement_leaves_no_result_at_an_agent() {
    for seed in 0..10 {
        let mut world = World::new(3, seed);
        // Shorter than the silence after which an agent is greeted again, and then sends what it
        // keeps.
        for (nth, at) in (1..).zip([0, 1, 2, 0, 1, 2]) {
            let until = nth * 700 * MS + 150 * MS;
            world.push(nth * 700 * MS, What::Cut(at, until));
        }
        let results = run(&mut world, 100 * SECOND);
        is_complete(&world, &results);
        for at in 0..3 {
            assert!(!world.spool(at).exists(), "seed {seed}: agent {at} keeps a result");
        }
    }
}

#[test]
fn many_hosts_are_waited_for_while_they_are_dialled() {
    let world = World::new(40, 1);
    let folder = world.folder.join("run");
    let journal = Journal::create(&folder, world.plan.clone(), serde_json::Value::Null).unwrap();
    let mut transport = Sent::default();
    let mut controller = Controller::at(Mono(0), journal, None, &mut transport).unwrap();
    let mut step = |seconds: u64| {
        controller.step(Mono(seconds * SECOND), Wall(0), false).unwrap();
        controller.done.len()
    };
    assert_eq!((step(0), step(69), step(70)), (0, 0, world.plan.tasks.len()));
}

#[test]
fn limits_of_groups_hold_for_tests_that_a_controller_before_has_started() {
    let mut world = World::new(4, 2);
    let wan = Group { members: (0..4).map(HostId).collect(), limit: Some(1), crossing: false };
    world.plan.inventory.groups.insert("wan".to_owned(), wan);
    let (folder, run) = (world.folder.join("run"), world.plan.run);
    drop(Journal::create(&folder, world.plan.clone(), serde_json::Value::Null).unwrap());
    let journal = Journal::resume(&folder).unwrap();
    let sent = Sent::default();
    let mut transport = sent.clone();
    let mut controller = Controller::at(Mono(0), journal, None, &mut transport).unwrap();
    let mut reservations = |seconds: u64, reports: Vec<(u32, Report)>| {
        for (host, message) in reports {
            let report = Arrival::Report(Box::new(Of::new(run, message)));
            controller.arrived.push((HostId(host), report));
        }
        controller.step(Mono(seconds * SECOND), Wall(0), false).unwrap();
        let orders = std::mem::take(&mut *sent.0.borrow_mut());
        orders.iter().filter(|(_, order)| matches!(order.message, Order::Reserve { .. })).count()
    };
    let hello = |host: u32| (host, Report::Hello { version: VERSION, program: String::new() });
    let ready = |host: u32, held: u64| {
        (host, Report::Ready { resource: format!("r{host}"), held_ns: Some(held * SECOND) })
    };
    assert_eq!(reservations(0, (0..4).map(hello).collect()), 0);
    assert_eq!(reservations(1, vec![ready(0, 0), ready(1, 0), ready(2, 3)]), 0, "one host is not there yet");
    assert_eq!(reservations(2, vec![ready(3, 0)]), 0, "a test of a host goes on");
    assert_eq!(reservations(3, Vec::new()), 0, "it still goes on");
    assert_eq!(reservations(4, Vec::new()), 1, "it is over");
}

#[test]
fn an_outcome_that_comes_after_the_end_is_kept() {
    let world = World::new(2, 1);
    let folder = world.folder.join("run");
    let journal = Journal::create(&folder, world.plan.clone(), serde_json::Value::Null).unwrap();
    let mut transport = Sent::default();
    let mut controller = Controller::at(Mono(0), journal, None, &mut transport).unwrap();
    // The one comes as the run ends, the other a moment later; their agents have kept them from
    // before.
    for task in [0, 1] {
        let outcome = serde_json::value::RawValue::from_string(measured()).unwrap();
        let attempt = Attempt { task: TaskId(task), number: 1 };
        let report = Report::Ended(Kept { attempt, ending: Ending::Measured(outcome), owner: String::new() });
        let report = Arrival::Report(Box::new(Of::new(world.plan.run, report)));
        controller.arrived.push((HostId(task), report));
        controller.step(Mono(SECOND), Wall(0), true).unwrap();
    }
    drop(controller);
    let results = controller_results(&folder);
    let measured: Vec<u32> =
        results.iter().filter(|of| of.ending.reason().is_none()).map(|of| of.task.0).collect();
    assert_eq!(measured, [0, 1]);
}

/// What a host's agent reports of each attempt at the only test from h0 to h1, and how the task
/// ends: after so many attempts, with this reason, and whether a document is kept.
fn ending_of(lie: &Report, expected: (u32, Option<Reason>, bool)) {
    let world = World::new(2, 1);
    let folder = world.folder.join("run");
    let (run, journal) =
        (world.plan.run, Journal::create(&folder, world.plan.clone(), serde_json::Value::Null));
    let sent = Sent::default();
    let mut transport = sent.clone();
    let mut controller = Controller::at(Mono(0), journal.unwrap(), None, &mut transport).unwrap();
    let report = |host: u32, message| (HostId(host), Arrival::Report(Box::new(Of::new(run, message))));
    for host in 0..2 {
        controller.arrived.push(report(host, Report::Hello { version: VERSION, program: String::new() }));
        controller
            .arrived
            .push(report(host, Report::Ready { resource: format!("r{host}"), held_ns: Some(0) }));
    }
    let mut attempts = 0;
    for tenth in 0..200 {
        controller.step(Mono(tenth * SECOND / 10), Wall(0), false).unwrap();
        for (host, order) in std::mem::take(&mut *sent.0.borrow_mut()) {
            let answer = match order.message {
                Order::Alive { .. } => Report::Alive,
                Order::Reserve { attempt, .. } => Report::Reserved { attempt, port: 9 },
                Order::Run { attempt, .. } => {
                    let mut report = lie.clone();
                    match &mut report {
                        Report::Ended(kept) => kept.attempt = attempt,
                        Report::Refused { attempt: refused, .. } => *refused = attempt,
                        _ => {}
                    }
                    attempts += u32::from(attempt.task == TaskId(0));
                    report
                }
                _ => continue,
            };
            controller.arrived.push(report(host.0, answer));
        }
    }
    drop(controller);
    let results = controller_results(&folder);
    let ending = &results.iter().find(|result| result.task == TaskId(0)).unwrap().ending;
    let keeps = matches!(ending, Ending::Missing { document: Some(_), .. });
    assert_eq!((attempts, ending.reason(), keeps), expected, "{lie:?}");
    let counts = crate::record::Record::open(&folder).unwrap().counts().unwrap();
    assert_eq!(counts.measured, if expected.1.is_none() { 2 } else { 0 }, "{counts:?}");
}

#[test]
fn a_report_is_read_when_it_arrives_and_a_lie_is_tried_again() {
    let attempt = Attempt { task: TaskId(0), number: 1 };
    let measured = |document: serde_json::Value| {
        let document = serde_json::value::RawValue::from_string(document.to_string()).unwrap();
        Report::Ended(Kept { attempt, ending: Ending::Measured(document), owner: String::new() })
    };
    let good = document(Verb::default(), &[]);
    let with = |name: &str, value: serde_json::Value| {
        let mut document = good.clone();
        document[name] = value;
        measured(document)
    };
    let missing =
        |reason| Report::Ended(Kept { attempt, ending: Ending::missing(reason, ""), owner: String::new() });
    let refused = |reason| Report::Refused { attempt, reason, why: String::new() };
    for (lie, expected) in [
        (measured(good.clone()), (1, None, false)),
        (measured(serde_json::json!({})), (3, Some(Reason::BadResult), false)),
        (measured(serde_json::json!({ "forged": 1 })), (3, Some(Reason::BadResult), false)),
        (measured(document(Verb::Tcp, &[])), (3, Some(Reason::BadResult), false)),
        (with("points", 7.into()), (3, Some(Reason::BadResult), false)),
        (with("status", "failed".into()), (3, Some(Reason::Failed), true)),
        (with("status", "partial".into()), (3, Some(Reason::Failed), true)),
        (missing(Reason::UnreachableByDesign), (3, Some(Reason::BadResult), false)),
        (missing(Reason::NotMeasuredYet), (3, Some(Reason::BadResult), false)),
        (missing(Reason::Cancelled), (3, Some(Reason::BadResult), false)),
        (missing(Reason::Refused), (1, Some(Reason::Refused), false)),
        (refused(Reason::UnreachableByDesign), (1, Some(Reason::Refused), false)),
        (refused(Reason::Version), (1, Some(Reason::Version), false)),
    ] {
        ending_of(&lie, expected);
    }
}
