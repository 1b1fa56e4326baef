use super::*;
use crate::inventory::tests::{cases, used};
use crate::inventory::{Format, Inventory, Limit};
use crate::plan::{Attempt, CostClass, Plan, Random, Request, Shape, Test, Verb};
use crate::result::Reason;
use proptest::prelude::*;
use serde_json::value::RawValue;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

const MS: u64 = 1_000_000;

fn plan(hosts: &str, limits: &[&str], tests: &[CostClass], repeats: u16) -> Plan {
    let mut inventory = Inventory::parse(hosts, Format::Lines).unwrap();
    inventory.limit(&limits.iter().map(|l| l.parse::<Limit>().unwrap()).collect::<Vec<_>>()).unwrap();
    let test =
        |class: &CostClass| Test { verb: Verb::Ping, class: *class, length_ns: 500 * MS, ..Test::default() };
    let tests = tests.iter().map(test).collect();
    let request =
        Request { run: uuid::Uuid::nil(), shape: Shape::Mesh, tests, repeats, seed: 1, unlike: None };
    Plan::make(inventory, request).unwrap()
}

/// A run of which these hosts have joined, with endings that are known before.
fn joined_by(
    hosts: impl IntoIterator<Item = u32>,
    plan: Plan,
    policy: Policy,
) -> (ScheduleState, Vec<EndedTask>) {
    let (mut state, endings) = ScheduleState::new(plan, policy, &[], Mono(0));
    for host in hosts {
        let event = Event::Joined { host: HostId(host), resource: format!("r{host}") };
        assert!(state.apply(event, Mono(0)).is_empty());
    }
    (state, endings)
}

/// A run of which all hosts have joined.
fn joined(plan: Plan, policy: Policy) -> ScheduleState {
    let hosts = 0..u32::try_from(plan.inventory.hosts.len()).unwrap();
    joined_by(hosts, plan, policy).0
}

/// One exclusive test of each pair.
fn exclusive(hosts: &str, limits: &[&str]) -> Plan {
    plan(hosts, limits, &[CostClass::Exclusive], 1)
}

fn measured() -> Ending {
    Ending::Measured(RawValue::NULL.to_owned())
}

/// What goes wrong in a simulated run, each with a share of 1,000.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// Of assignments: the message is lost.
    unsent: u64,
    /// Of assignments: a host says it is busy.
    busy: u64,
    /// Of tests: it fails.
    failed: u64,
    /// Of tests: its report is lost.
    unreported: u64,
    /// Of tests: it takes as long as it may.
    slow: u64,
    /// Of 100 ms of a host: it is killed, and back after up to 3 s.
    killed: u64,
    /// The same: it is cut off for up to 3 s, and goes on measuring.
    cut: u64,
    /// Faults end here, ns.
    until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Arrives { attempt: Attempt, until: Mono, client: HostId },
    Over { attempt: Attempt },
    Reported { attempt: Attempt, good: bool },
    Back { host: HostId },
    Misfortune,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    Up,
    Cut,
    Dead,
}

/// Hosts and messages in virtual time. What overlaps is judged by when tests run at the hosts, not
/// by what the state believes.
struct World {
    state: ScheduleState,
    random: Random,
    faults: Faults,
    now: Mono,
    queue: BinaryHeap<Reverse<(Mono, u64, Happens)>>,
    serial: u64,
    links: Vec<Link>,
    /// Tests that run, with their class.
    running: HashMap<Attempt, CostClass>,
    /// Reports that a host keeps while it is cut off.
    spooled: BTreeMap<HostId, Vec<(Attempt, bool)>>,
    endings: BTreeMap<TaskId, Ending>,
    last_ended: Mono,
}

impl World {
    fn new(plan: Plan, policy: Policy, faults: Faults, seed: u64) -> World {
        let hosts = plan.inventory.hosts.len();
        let (state, endings) = ScheduleState::new(plan, policy, &[], Mono(0));
        let mut world = World {
            state,
            random: Random(seed),
            faults,
            now: Mono(0),
            queue: BinaryHeap::new(),
            serial: 0,
            links: vec![Link::Up; hosts],
            running: HashMap::new(),
            spooled: BTreeMap::new(),
            endings: BTreeMap::new(),
            last_ended: Mono(0),
        };
        world.note(endings);
        for host in (0..).map(HostId).take(hosts) {
            world.apply(Event::Joined { host, resource: format!("boot {}", host.0) });
        }
        if faults.until > 0 {
            world.push(0, Happens::Misfortune);
        }
        world
    }

    fn push(&mut self, after_ns: u64, happens: Happens) {
        self.serial += 1;
        self.queue.push(Reverse((self.now.plus(after_ns), self.serial, happens)));
    }

    fn note(&mut self, endings: Vec<(TaskId, Ending)>) {
        for (task, ending) in endings {
            self.last_ended = self.now;
            assert!(self.endings.insert(task, ending).is_none(), "{task:?} ended twice");
        }
    }

    fn apply(&mut self, event: Event) {
        let endings = self.state.apply(event, self.now);
        self.note(endings);
    }

    fn chance(&mut self, of_thousand: u64) -> bool {
        self.now.0 < self.faults.until && self.random.next() % 1_000 < of_thousand
    }

    /// Runs to the end, and returns when the last task ended.
    fn run(&mut self, most: u64) -> Mono {
        loop {
            for assignment in next(&self.state, self.now) {
                self.apply(Event::Started(assignment));
                let Assignment { attempt, until, client, .. } = assignment;
                // A message takes 1 to 8 ms.
                let latency = MS + self.random.next() % (7 * MS);
                if !self.chance(self.faults.unsent) {
                    self.push(latency, Happens::Arrives { attempt, until, client });
                }
            }
            if self.state.is_over() {
                return self.last_ended;
            }
            let queued = self.queue.peek().map(|Reverse((at, ..))| *at);
            let woken = self.state.wake(self.now);
            let at = queued.into_iter().chain(woken).min();
            let Some(at) = at else { panic!("nothing will happen, but {:?}", self.state.running) };
            self.now = at;
            assert!(self.now.0 < most, "no end in time: {:?}", self.state.running);
            if queued == Some(at) {
                let Some(Reverse((_, _, happens))) = self.queue.pop() else { unreachable!() };
                self.happen(happens);
            } else {
                self.apply(Event::Tick);
            }
        }
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::Arrives { attempt, until, client } => self.start(attempt, until, client),
            Happens::Over { attempt } => self.end(attempt),
            Happens::Reported { attempt, good } => self.report(attempt, good),
            Happens::Back { host } => self.back(host),
            Happens::Misfortune => self.misfortune(),
        }
    }

    fn start(&mut self, attempt: Attempt, until: Mono, client: HostId) {
        let of = *self.state.plan.task(attempt.task).unwrap();
        if self.links[client.index()] != Link::Up {
            return;
        }
        if self.chance(self.faults.busy) {
            let until = self.now.plus(200 * MS);
            return self.apply(Event::Busy { attempt, host: of.to, until });
        }
        if [of.from, of.to].iter().any(|host| self.links[host.index()] == Link::Dead) {
            let ending = Ending::missing(Reason::Failed, "the server does not answer");
            return self.apply(Event::Ended { attempt, ending });
        }
        let test = self.state.plan.test(&of).unwrap().clone();
        let class = self.state.plan.class_of(&of);
        self.check_beside(attempt.task, class);
        self.running.insert(attempt, class);
        let slow = self.chance(self.faults.slow);
        let length = if slow { until.since(self.now) } else { test.length_ns };
        self.push(length, Happens::Over { attempt });
    }

    /// Nothing that runs excludes a test that starts.
    fn check_beside(&self, task: TaskId, class: CostClass) {
        let plan = &self.state.plan;
        let of = plan.task(task).unwrap();
        let resource = |host: HostId| {
            let host = plan.inventory.host(host).unwrap();
            host.label("resource").unwrap_or(&host.name).to_owned()
        };
        let hosts = BTreeSet::from([resource(of.from), resource(of.to)]);
        let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
        let own: BTreeSet<&str> =
            used(&plan.inventory, of.from, of.to).into_iter().map(|(name, _)| name).collect();
        let mut beside = BTreeMap::<String, u32>::new();
        for (other, other_class) in &self.running {
            let other = plan.task(other.task).unwrap();
            let at = [resource(other.from), resource(other.to)];
            let shared: Vec<&String> = hosts.iter().filter(|host| at.contains(host)).collect();
            let excludes = [class, *other_class].contains(&CostClass::Exclusive);
            assert!(shared.is_empty() || !excludes, "{task:?} starts beside {other:?} at {shared:?}");
            if *other_class == class {
                shared.into_iter().for_each(|host| *beside.entry(host.clone()).or_default() += 1);
            }
            let used = used(&plan.inventory, other.from, other.to);
            let is_background = [class, *other_class].contains(&CostClass::Background);
            assert!(
                !(excludes && is_background) || used.iter().all(|(name, _)| !own.contains(name)),
                "{task:?} starts beside {other:?} in a group"
            );
            if *other_class != CostClass::Background {
                used.into_iter().for_each(|(name, _)| *groups.entry(name).or_default() += 1);
            }
        }
        let most = match class {
            CostClass::Exclusive => 1,
            CostClass::Limited => MAX_LIMITED,
            CostClass::Background => MAX_BACKGROUND,
        };
        assert!(beside.values().all(|n| *n < most), "{beside:?}");
        if class != CostClass::Background {
            for (name, group) in used(&plan.inventory, of.from, of.to) {
                let running = groups.get(name).copied().unwrap_or(0);
                assert!(running < group.limit.unwrap(), "{running} tests already use {name}");
            }
        }
    }

    fn end(&mut self, attempt: Attempt) {
        // A test that was killed is not there.
        if self.running.remove(&attempt).is_none() {
            return;
        }
        let good = !self.chance(self.faults.failed);
        if self.chance(self.faults.unreported) {
            return;
        }
        let latency = MS + self.random.next() % (7 * MS);
        let from = self.state.plan.task(attempt.task).unwrap().from;
        if self.links[from.index()] == Link::Cut {
            self.spooled.entry(from).or_default().push((attempt, good));
        } else {
            self.push(latency, Happens::Reported { attempt, good });
        }
    }

    fn report(&mut self, attempt: Attempt, good: bool) {
        let task = attempt.task;
        let was_open = !self.endings.contains_key(&task);
        let ending = if good { measured() } else { Ending::missing(Reason::Failed, "") };
        // Reports come twice, too.
        for _ in 0..1 + u32::from(self.random.next().is_multiple_of(8)) {
            self.apply(Event::Ended { attempt, ending: ending.clone() });
        }
        // What an agent has measured is not lost, whichever attempt it is of.
        assert!(!(good && was_open) || self.endings[&task].reason().is_none(), "{task:?} was measured");
    }

    fn back(&mut self, host: HostId) {
        self.links[host.index()] = Link::Up;
        self.apply(Event::Joined { host, resource: format!("boot {}", host.0) });
        for (attempt, good) in self.spooled.remove(&host).unwrap_or_default() {
            self.report(attempt, good);
        }
    }

    fn misfortune(&mut self) {
        for host in (0..).map(HostId).take(self.links.len()) {
            if self.links[host.index()] != Link::Up {
                continue;
            }
            let link = match (self.chance(self.faults.killed), self.chance(self.faults.cut)) {
                (true, _) => Link::Dead,
                (_, true) => Link::Cut,
                _ => continue,
            };
            self.links[host.index()] = link;
            if link == Link::Dead {
                let plan = &self.state.plan;
                let at = |id: TaskId| plan.task(id).is_some_and(|task| [task.from, task.to].contains(&host));
                self.running.retain(|attempt, _| !at(attempt.task));
            }
            self.apply(Event::Lost { host });
            let away = self.random.next() % (3_000 * MS);
            self.push(away, Happens::Back { host });
        }
        if self.now.0 < self.faults.until {
            self.push(100 * MS, Happens::Misfortune);
        }
    }

    /// Each task has one ending, and nothing is occupied.
    fn check(&self) {
        assert_eq!(self.endings.len(), self.state.plan.tasks.len());
        assert!(self.state.running.is_empty());
        let counts = self.state.load.resources.iter().flatten();
        assert!(
            counts.chain(self.state.load.groups.iter().flatten()).chain(&self.state.open).all(|n| *n == 0)
        );
    }
}

fn names(n: usize) -> String {
    (0..n).map(|n| format!("h{n}\n")).collect()
}

/// 9,900 directed pairs of 500 ms take 99 s at least: each host has 198 tests. Messages take 1 to 8
/// ms each way.
#[test]
fn a_full_mesh_of_fifty_hosts_is_near_ideal() {
    let mut world = World::new(exclusive(&names(50), &[]), Policy::default(), Faults::default(), 7);
    let took = world.run(200_000 * MS);
    world.check();
    assert!(world.endings.values().all(|ending| ending.reason().is_none()));
    assert!(took.0 <= 49_000 * MS * 11 / 10, "{} ms", took.0 / MS);
}

#[test]
fn a_group_of_limit_one_measures_one_after_the_other() {
    let hosts = names(8) + "out1\nout2\n";
    let labelled = hosts
        .replace("h", "g")
        .lines()
        .map(|h| format!("{h} {}\n", if h.starts_with('g') { "groups=wan" } else { "x=y" }))
        .collect::<String>();
    let mut world = World::new(exclusive(&labelled, &["wan:1"]), Policy::default(), Faults::default(), 3);
    let took = world.run(1_000_000 * MS);
    world.check();
    // 90 pairs, of which 2 are between the hosts outside: 88 one after the other.
    let least = 88 * 500 * MS;
    assert!(took.0 >= least && took.0 < least + least / 20, "{} ms", took.0 / MS);
}

#[test]
fn hosts_of_one_resource_count_as_one() {
    let hosts = "a resource=m\nb resource=m\nc\nd\n";
    let mut world =
        World::new(plan(hosts, &[], &[CostClass::Exclusive], 2), Policy::default(), Faults::default(), 3);
    let took = world.run(1_000_000 * MS);
    // All but the pairs of c and d occupy m: 10 of 12, twice.
    assert!(took.0 >= 20 * 500 * MS, "{} ms", took.0 / MS);
    let (mut state, _) = ScheduleState::new(exclusive("a\nb\nc\n", &[]), Policy::default(), &[], Mono(0));
    for (host, resource) in [(0, "boot 1"), (1, "boot 1"), (2, "boot 2")] {
        state.apply(Event::Joined { host: HostId(host), resource: resource.to_owned() }, Mono(0));
    }
    assert_eq!(next(&state, Mono(0)).len(), 1, "two agents of one host are one");
}

/// A ping would measure the queue that the run's own bulk test fills: at neither host, and in no
/// group that both use, does one run beside the other. That nothing overlaps is checked by
/// [`World`] at every start.
#[test]
fn no_ping_runs_beside_a_test_that_fills_its_path() {
    let classes = [CostClass::Exclusive, CostClass::Background];
    let both = plan("a\nb\nc\n", &[], &classes, 1);
    let state = joined(both, Policy::default());
    let chosen = next(&state, Mono(0));
    let class = |a: &Assignment| state.plan.test(state.plan.task(a.attempt.task).unwrap()).unwrap().class;
    assert_eq!(
        chosen.iter().map(class).collect::<Vec<_>>(),
        [CostClass::Background; 6],
        "idle pings are first"
    );
    for limits in [&[][..], &["wan:3"]] {
        let hosts: String = (0..12).map(|n| format!("h{n} groups=wan\n")).collect();
        let mut world =
            World::new(plan(&hosts, limits, &classes, 2), Policy::default(), Faults::default(), 5);
        world.run(1_000_000 * MS);
        world.check();
        assert!(world.endings.values().all(|ending| ending.reason().is_none()));
    }
}

#[test]
fn a_host_without_an_agent_has_one_test_at_a_time() {
    // Pings between agents are before the test of c, which may fill its hosts' queues.
    for (class, first) in [(CostClass::Limited, 1), (CostClass::Background, 0)] {
        let plan = plan("a\nb\nc protocol=stamp\n", &[], &[class], 2);
        let state = joined(plan.clone(), Policy::default());
        let chosen = next(&state, Mono(0));
        let at_c = chosen.iter().filter(|chosen| [chosen.client, chosen.server].contains(&HostId(2)));
        assert_eq!(at_c.count(), first, "{chosen:?}");
        let mut world = World::new(plan, Policy::default(), Faults::default(), 5);
        world.run(1_000_000 * MS);
        world.check();
    }
}

#[test]
fn a_deadline_that_has_come_is_due_at_once() {
    let mut state = joined(exclusive("a\nb\n", &[]), Policy::default());
    let started = next(&state, Mono(0)).remove(0);
    let until = started.until;
    state.apply(Event::Started(started), Mono(0));
    assert_eq!([until, until.plus(1)].map(|now| state.wake(now)), [Some(until), Some(until.plus(1))]);
}

#[test]
fn a_test_may_wait_for_answers_beyond_its_length() {
    let mut plan = exclusive("a\nb\n", &[]);
    plan.tests[0].wait_ns = 7 * SECOND;
    let state = joined(plan, Policy::default());
    assert_eq!(next(&state, Mono(0))[0].until, Mono(500 * MS + 7 * SECOND + Policy::default().grace_ns));
}

#[test]
fn what_hosts_share_is_free_once_no_test_of_a_controller_before_can_run() {
    let plan = exclusive("a groups=wan\nb groups=wan\nc\nd\n", &["wan:1"]);
    let policy = Policy { takes_over: true, ..Policy::default() };
    let longest = Mono(500 * MS + 4 * policy.grace_ns);
    let mut state = joined(plan, policy);
    let through_wan = |state: &ScheduleState, now: Mono| {
        let chosen = next(state, now);
        chosen.iter().filter(|chosen| chosen.client.0 < 2 || chosen.server.0 < 2).count()
    };
    assert_eq!((next(&state, Mono(0)).len(), through_wan(&state, Mono(0))), (1, 0), "of c and d alone");
    assert_eq!((state.wake(Mono(0)), through_wan(&state, longest)), (Some(longest), 1));
    let two = Mono(2 * SECOND);
    for host in 0..4 {
        state.apply(Event::Inherited { host: HostId(host), until: two }, Mono(0));
    }
    assert_eq!((state.wake(Mono(0)), through_wan(&state, two)), (Some(two), 1));
    state.apply(Event::Inherited { host: HostId(0), until: longest }, two);
    assert_eq!(through_wan(&state, two), 1, "a host that comes back has tests of this controller");
}

#[test]
fn pairs_without_a_connection_and_absent_hosts_end_for_their_reasons() {
    let plan = exclusive("a nat=1\nb nat=1\nc\n", &[]);
    let (mut state, endings) = joined_by([0, 2], plan, Policy::default());
    let reasons = |endings: &[(TaskId, Ending)]| {
        endings.iter().map(|(_, ending)| ending.reason().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(reasons(&endings), [Reason::UnreachableByDesign; 2]);
    let chosen = next(&state, Mono(0));
    assert_eq!(chosen.len(), 1);
    let reversed = chosen[0].is_reversed(state.plan.task(chosen[0].attempt.task).unwrap());
    assert_eq!((chosen[0].client, chosen[0].server), (HostId(0), HostId(2)), "the host behind NAT connects");
    assert_eq!(reversed, state.plan.task(chosen[0].attempt.task).unwrap().from == HostId(2));
    let wake = state.wake(Mono(0)).unwrap();
    assert_eq!(wake, Mono(Policy::default().absent_ns));
    assert_eq!(reasons(&state.apply(Event::Tick, wake)), [Reason::HostAbsent; 2]);
}

#[test]
fn a_cancelled_run_ends_and_what_runs_still_counts() {
    let mut state = joined(exclusive(&names(4), &[]), Policy::default());
    let chosen = next(&state, Mono(0));
    assert_eq!(chosen.len(), 2);
    chosen.iter().for_each(|a| drop(state.apply(Event::Started(*a), Mono(0))));
    assert_eq!(state.apply(Event::Cancelled, Mono(1)).len(), 10);
    assert!(next(&state, Mono(1)).is_empty() && !state.is_over());
    let ended = state.apply(Event::Ended { attempt: chosen[0].attempt, ending: measured() }, Mono(2));
    assert_eq!((ended.len(), ended[0].1.reason()), (1, None));
    let failed = state.apply(
        Event::Ended { attempt: chosen[1].attempt, ending: Ending::missing(Reason::Failed, "") },
        Mono(3),
    );
    assert_eq!(failed[0].1.reason(), Some(Reason::Failed), "nothing is tried again");
    assert!(state.is_over());
}

#[test]
fn a_resumed_run_does_only_what_is_missing() {
    let whole = exclusive(&names(6), &[]);
    let over: Vec<TaskId> = (0..30).step_by(2).map(TaskId).collect();
    let (state, _) = ScheduleState::new(whole, Policy::default(), &over, Mono(0));
    assert_eq!((state.ended, state.running.len()), (15, 0));
    let mut world = World::new(state.plan.clone(), Policy::default(), Faults::default(), 1);
    world.state = state;
    for host in 0..6 {
        world.apply(Event::Joined { host: HostId(host), resource: format!("r{host}") });
    }
    world.run(60_000 * MS);
    assert_eq!(
        world.endings.keys().map(|id| id.0).collect::<Vec<_>>(),
        (1..30).step_by(2).collect::<Vec<_>>()
    );
}

#[test]
fn a_busy_host_is_believed_no_longer_than_the_longest_test_may_take() {
    let mut state = joined(exclusive("a\nb\n", &[]), Policy::default());
    let (mut now, mut ended) = (Mono(0), Vec::new());
    while !state.is_over() {
        for assignment in next(&state, now) {
            state.apply(Event::Started(assignment), now);
            let (attempt, host) = (assignment.attempt, assignment.server);
            ended.extend(state.apply(Event::Busy { attempt, host, until: Mono(u64::MAX) }, now));
        }
        now = state.wake(now).unwrap_or(now.plus(SECOND));
        ended.extend(state.apply(Event::Tick, now));
    }
    assert!(ended.iter().all(|(_, ending)| ending.reason() == Some(Reason::Busy)) && ended.len() == 2);
    // Half a second, and five in reserve, for each refusal of both tests.
    let most = 2 * u64::from(MAX_REFUSALS + 1) * (5_500 * MS);
    assert!(now <= Mono(most), "{now:?}");
}

#[test]
fn a_late_result_counts_once_and_a_stale_failure_not_at_all() {
    let policy = Policy { retry_ns: 0, ..Policy::default() };
    let mut state = joined(exclusive("a\nb\n", &[]), policy);
    let first = next(&state, Mono(0))[0];
    state.apply(Event::Started(first), Mono(0));
    assert!(state.apply(Event::Tick, first.until).is_empty(), "tried again");
    let again = next(&state, first.until)[0];
    assert_eq!(again.attempt, Attempt { number: 2, ..first.attempt });
    let grace_ns = Policy::default().grace_ns;
    assert_eq!(again.until, first.until.plus(first.until.0 + grace_ns), "twice the grace");
    state.apply(Event::Started(again), first.until);
    let ended = |number, ending| Event::Ended { attempt: Attempt { number, ..first.attempt }, ending };
    assert!(state.apply(ended(1, Ending::missing(Reason::Failed, "")), first.until).is_empty());
    assert_eq!(state.running.len(), 1);
    assert_eq!(state.apply(ended(1, measured()), first.until).len(), 1);
    assert!(next(&state, first.until).is_empty(), "the second attempt still occupies both hosts");
    assert!(state.apply(ended(2, measured()), first.until).is_empty());
    assert_eq!(next(&state, first.until).len(), 1);
    assert!(state.apply(ended(9, measured()), first.until).is_empty(), "no such attempt");
}

fn classes() -> impl Strategy<Value = Vec<CostClass>> {
    let class = proptest::sample::select(vec![
        CostClass::Exclusive,
        CostClass::Exclusive,
        CostClass::Limited,
        CostClass::Background,
    ]);
    proptest::collection::vec(class, 1..3)
}

proptest! {
    #![proptest_config(cases(50, 1_000))]

    /// Faults for 10 s, then none: every task ends once, nothing overlaps, what was measured
    /// counts, and the end comes.
    #[test]
    fn every_pair_ends_once_whatever_fails(
        seed in any::<u64>(), hosts in 2usize..9, tests in classes(), repeats in 1u16..3, limit in 1u32..4,
        shares in proptest::array::uniform7(0u64..120), same in any::<bool>(),
    ) {
        let [unsent, busy, failed, unreported, slow, killed, cut] = shares;
        let faults = Faults { unsent, busy, failed, unreported, slow, killed, cut, until: 10_000 * MS };
        let list: String = (0..hosts).map(|n| {
            let group = if n % 2 == 0 { " groups=wan rack=even" } else { " rack=odd" };
            let resource = if same && n < 2 { " resource=one" } else { "" };
            format!("h{n}{group}{resource}\n")
        }).collect();
        let limits = [format!("wan:{limit}"), "rack=*:2:crossing".to_owned()];
        let plan = plan(&list, &limits.each_ref().map(String::as_str), &tests, repeats);
        let policy = Policy { grace_ns: 300 * MS, absent_ns: 2_000 * MS, ..Policy::default() };
        let mut world = World::new(plan, policy, faults, seed);
        world.run(3_600_000 * MS);
        world.check();
    }
}
