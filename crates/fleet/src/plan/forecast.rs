//! Forecast of a plan, before anything is sent.

use super::{CostClass, Plan, Rounds};
use crate::inventory::HostId;
use crate::result::Ending;
use crate::schedule::{Event, GroupLimit, MAX_LIMITED, Policy, Resources, ScheduleState, next};
use metrics::{Mono, format_bytes, format_duration, real};
use report::{Page, Table, Tone};
use serde::Serialize;
use serde_json::value::RawValue;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};

/// Plans of more tasks are not played through: their duration is only bounded from below.
const MOST_PLAYED: usize = 250_000;
/// Most groups, and most hosts that count as one, in the text.
const MOST_TOLD: usize = 20;
/// Between the choice of a test and its start, and between its end and the controller's knowledge
/// of it.
const DISPATCH_NS: u64 = 5_000_000;

/// Forecast of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// Hosts of the inventory.
    pub hosts: usize,
    /// Tests of pairs between which a connection is possible.
    pub tests: usize,
    /// Tests of pairs between which no connection is possible.
    pub unreachable: usize,
    /// Tests of each class.
    pub exclusive: usize,
    /// Tests of which a few run at a host.
    pub limited: usize,
    /// Tests that run beside all but exclusive ones.
    pub background: usize,
    /// No order takes less time: the tests of the busiest host, or of the busiest group, one after
    /// the other.
    pub at_least_ns: u64,
    /// The time that the scheduler needs if nothing goes wrong; absent for plans too large to be
    /// played through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_ns: Option<u64>,
    /// Most tests that run at a time then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_at_once: Option<usize>,
    /// Payload of all tests whose options limit it.
    pub bytes: u64,
    /// Tests whose options do not.
    pub unlimited: usize,
    /// The host with the most exclusive and limited tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest: Option<Busiest>,
    /// Exclusions by groups.
    pub groups: Vec<GroupForecast>,
    /// When the rounds are due; absent without a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Rounds>,
    /// Hosts that count as one, by the label `resource`.
    pub shared: BTreeMap<String, Vec<String>>,
}

/// The host that decides how long a plan takes.
#[derive(Clone, Debug, Serialize)]
pub struct Busiest {
    /// Its name.
    pub host: String,
    /// Its tests.
    pub tests: usize,
    /// The time of them one after the other.
    pub ns: u64,
}

/// Exclusions by a group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupForecast {
    /// The group.
    #[serde(flatten)]
    pub group: GroupLimit,
    /// Tests that count.
    pub tests: usize,
    /// The time that they take at least.
    pub at_least_ns: u64,
}

impl Plan {
    /// The forecast of the plan.
    #[must_use]
    pub fn forecast(&self) -> Forecast {
        let resources = Resources::of(&self.inventory);
        let mut of_host = vec![(0usize, [0u64; 3]); self.inventory.hosts.len()];
        let mut of_group = vec![(0usize, 0u64); resources.groups.len()];
        let mut classes = [0usize; 3];
        let (mut unreachable, mut bytes, mut unlimited) = (0, 0u64, 0);
        for (task, test) in self.tasks.iter().filter_map(|task| Some((task, self.test(task)?))) {
            if self.inventory.client(task.from, task.to).is_none() {
                unreachable += 1;
                continue;
            }
            let class = self.class_of(task);
            classes[class as usize] += 1;
            match test.bytes {
                Some(n) => bytes = bytes.saturating_add(n),
                None => unlimited += 1,
            }
            if class == CostClass::Background {
                continue;
            }
            for host in [task.from, task.to] {
                let (n, ns) = &mut of_host[host.index()];
                *n += 1;
                ns[class as usize] = ns[class as usize].saturating_add(test.length_ns);
            }
            for group in resources.used(task.from, task.to) {
                let (n, ns) = &mut of_group[group];
                (*n, *ns) = (*n + 1, ns.saturating_add(test.length_ns));
            }
        }
        let host_ns = |[alone, beside, _]: [u64; 3]| alone.saturating_add(beside / u64::from(MAX_LIMITED));
        let busiest = of_host.iter().enumerate().max_by_key(|(at, (_, ns))| (host_ns(*ns), Reverse(*at)));
        let busiest = busiest.filter(|(_, (tests, _))| *tests > 0).map(|(at, (tests, ns))| {
            let host = self.inventory.hosts[at].name.clone();
            Busiest { host, tests: *tests, ns: host_ns(*ns) }
        });
        let groups = resources.groups.into_iter().zip(of_group);
        let groups = groups.map(|(group, (tests, ns))| {
            let at_least_ns = ns / u64::from(group.limit);
            GroupForecast { group, tests, at_least_ns }
        });
        let groups: Vec<GroupForecast> = groups.collect();
        let longest = self.tests.iter().map(|test| test.length_ns).max().unwrap_or(0);
        let bounds =
            groups.iter().map(|group| group.at_least_ns).chain(busiest.as_ref().map(|busiest| busiest.ns));
        let played = (self.tasks.len() <= MOST_PLAYED).then(|| self.play());
        Forecast {
            hosts: self.inventory.hosts.len(),
            tests: classes.iter().sum(),
            unreachable,
            exclusive: classes[CostClass::Exclusive as usize],
            limited: classes[CostClass::Limited as usize],
            background: classes[CostClass::Background as usize],
            at_least_ns: bounds.chain([longest]).max().unwrap_or(0),
            expected_ns: played.map(|(ns, _)| ns),
            most_at_once: played.map(|(_, most)| most),
            bytes,
            unlimited,
            busiest,
            groups,
            rounds: self.round.map(|round| round.rounds),
            shared: self.shared(),
        }
    }

    fn shared(&self) -> BTreeMap<String, Vec<String>> {
        let name = |host: HostId| self.inventory.name(host).to_owned();
        let shared = self.inventory.by_label("resource").into_iter().filter(|(_, hosts)| hosts.len() > 1);
        shared.map(|(resource, hosts)| (resource.to_owned(), hosts.into_iter().map(name).collect())).collect()
    }

    /// Plays the plan through with the scheduler itself: its duration, and the most tests at a
    /// time.
    fn play(&self) -> (u64, usize) {
        let (mut state, _) = ScheduleState::new(self.clone(), Policy::default(), &[], Mono(0));
        for (host, of) in self.inventory.numbered() {
            state.apply(Event::Joined { host, resource: of.name.clone() }, Mono(0));
        }
        let (mut now, mut most) = (Mono(0), 0);
        let mut ends = BinaryHeap::new();
        loop {
            for assignment in next(&state, now) {
                let test = self.task_and_test(assignment.attempt.task);
                let end = now.plus(test.map_or(0, |(_, test)| test.length_ns)).plus(2 * DISPATCH_NS);
                ends.push(Reverse((end, assignment.attempt)));
                state.apply(Event::Started(assignment), now);
            }
            most = most.max(ends.len());
            let Some(Reverse((at, _))) = ends.peek().copied() else { return (now.0, most) };
            now = at;
            while let Some(Reverse((end, attempt))) = ends.peek().copied()
                && end == at
            {
                ends.pop();
                let ending = Ending::Measured(RawValue::NULL.to_owned());
                state.apply(Event::Ended { attempt, ending }, now);
            }
        }
    }
}

impl Forecast {
    /// Writes duration, bytes and what excludes what.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write(
        &self,
        plan: &Plan,
        color: bool,
        columns: Option<u16>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let page = &mut Page::new(out, color).within(columns);
        let time = |ns: u64| format_duration(real(ns));
        let at_least = format!("at least {}", time(self.at_least_ns));
        let expected = match self.expected_ns {
            Some(ns) => format!("about {} ({at_least})", time(ns)),
            None => at_least,
        };
        page.line(Tone::Heading, &format!("{} tests of {} hosts: {expected}", self.tests, self.hosts));
        for test in &plan.tests {
            let (words, length, class) = (test.words(), time(test.length_ns), test.class.words());
            page.line(Tone::Plain, &format!("  {words}: {length} each, {class}"));
        }
        let limited = format!("{} of payload", format_bytes(self.bytes));
        let bytes = match (self.bytes, self.unlimited) {
            (_, 0) => limited,
            (0, _) => "as much payload as the paths carry".to_owned(),
            (_, n) => format!("{limited}, and as much as the paths carry in {n} tests"),
        };
        page.line(Tone::Plain, &format!("  {bytes}"));
        if self.unreachable > 0 {
            let n = self.unreachable;
            let text = format!("  {n} more tests have no way: both hosts are behind NAT, or passive.");
            page.line(Tone::Plain, &text);
        }
        if let Some(rounds) = self.rounds.filter(|rounds| rounds.count > 1) {
            let text = format!("  {} rounds, one every {}", rounds.count, time(rounds.every_ns));
            page.line(Tone::Plain, &text);
            if self.expected_ns.unwrap_or(self.at_least_ns) > rounds.every_ns.saturating_add(rounds.late_ns())
            {
                let text = "A round takes longer than the time to the next, so that rounds will be missed.";
                page.paragraph(Tone::Warning, "  ", text);
            }
        }
        self.exclusions(page, &time);
        let repeats = plan.tasks.iter().map(|task| task.repeat).max().unwrap_or(0);
        if repeats < 2 {
            page.paragraph(Tone::Plain, "", "A single pair is judged from three repeats on: --repeats 3.");
        }
        page.end()
    }

    fn exclusions(&self, page: &mut Page<'_>, time: &dyn Fn(u64) -> String) {
        page.gap();
        page.line(Tone::Heading, "What excludes what");
        for (tests, rule) in [
            (self.exclusive, "Exclusive tests: one at a time at each host, and nothing beside."),
            (self.limited, "Limited tests: a few at a time at each host, never beside an exclusive one."),
            (
                self.background,
                "Background tests: many at a time, never beside an exclusive one; no group's limit counts them.",
            ),
        ] {
            if tests > 0 {
                page.line(Tone::Plain, &format!("  {rule}"));
            }
        }
        if let Some(Busiest { host, tests, ns }) = &self.busiest {
            let text = format!("  The busiest host, {host}, has {tests} tests, {} of time.", time(*ns));
            page.line(Tone::Plain, &text);
        }
        if let Some(most) = self.most_at_once {
            page.line(Tone::Plain, &format!("  At most {most} tests run at a time."));
        }
        let mut table = Table::new("Group|at a time|hosts|tests|at least");
        for GroupForecast { group, tests, at_least_ns } in self.groups.iter().take(MOST_TOLD) {
            let name = if group.crossing { format!("{}, to others", group.name) } else { group.name.clone() };
            let [limit, hosts, tests] = [group.limit as usize, group.hosts, *tests].map(|n| n.to_string());
            table.row(Tone::Plain, vec![name, limit, hosts, tests, time(*at_least_ns)]);
        }
        page.section(&table);
        if self.groups.len() > MOST_TOLD {
            page.line(Tone::Plain, &format!("  and {} more groups", self.groups.len() - MOST_TOLD));
        }
        for (resource, hosts) in self.shared.iter().take(MOST_TOLD) {
            page.paragraph(Tone::Plain, "  Count as one: ", &format!("{} ({resource}).", hosts.join(", ")));
        }
    }
}
