//! The server's side of the conversation: any number of tests, each in its own entry; a client's
//! error ends at most its own test.
//!
//! ```text
//! cookie ─▶ parameters ─▶ (token is judged) ─▶ (waits for its turn) ─▶ creating streams ─ all there ─▶ running ─ TEST_END ─▶ freezing
//!     ─ all streams have said how they stand ─▶ exchanging ─ results ─▶ parting ─ IPERF_DONE ─▶ closing ─▶ gone
//! ```
//!
//! Tests of datagrams from one address create their streams one after the other, because a UDP
//! hello does not say which test it belongs to: the second one's CREATE_STREAMS is held back until
//! the first has all its streams. Clients wait for it without limit.

mod printout;
mod run;
mod served;
mod talk;
mod time;

use super::codec::{Cookie, Inbox, StateByte, cookie_text};
use super::judge::TokenVerdict;
use super::listener::{Listener, PendingTests};
use super::params::Parameters;
use super::stream_stats::StreamStats;
use super::test_state::{Posted, TestState};
use crate::host::Meter;
use crate::quota::{ByAddress, Lines, to_give_way};
use crate::{Bulk, BulkNews, ServerOptions};
use common::Acl;
use common::driver::Driver;
use common::message::{SessionMessage, SharedMessage, downcast};
use metrics::{Clamped, Group, Mono, SECOND};
use model::{Level, Phase, Served, Status};
use printout::Printout;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use transport::{Action, Context, GroupPlan, Input, Link, LinkSource, Message, Order, Path, Session};

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Tests at once.
    pub tests: u32,
    /// Control connections from one address at once.
    pub per_address: u32,
    /// Most bits/s of one test, all streams and both directions together, and the time over which
    /// it is kept, s.
    pub rate: Option<(u64, u32)>,
    /// Longest test with its omitted start, s.
    pub duration_s: Option<u32>,
    /// Longest silence of a test that receives, ns.
    pub silence_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { tests: 1000, per_address: 256, rate: None, duration_s: None, silence_ns: 120 * SECOND }
    }
}

/// Everything a server needs to know before it starts.
pub struct ServerPlan {
    pub options: ServerOptions,
    pub workers: u16,
    /// The core of each worker, where it has one of its own.
    pub cores: Vec<Option<usize>>,
    pub acl: Acl,
    /// Addresses that may send datagrams without a test from the same address.
    pub streams: Acl,
    /// Length of intervals, ns; 0 for no reports.
    pub interval_ns: u64,
    /// The state of each test is reported.
    pub sessions: bool,
    /// Number of tests after which the server ends.
    pub exit_after: Option<u64>,
    /// The system's congestion control, and the others that it offers.
    pub congestion: (String, Vec<String>),
    /// CPU time.
    pub meter: Meter,
}

/// Time that a test may take beyond its agreed length, ns.
const GRACE: u64 = 40 * SECOND;
/// Most clients that have not sent their parameters.
const MOST_SILENT: usize = 256;
/// Warnings about one address that are printed each; of further ones, one a minute.
const WARNINGS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestStep {
    Parameters,
    /// Its token is being judged; the verdict is sent at fixed times, so that its duration shows
    /// nothing.
    Held,
    /// Another test of datagrams from its address is creating streams.
    Waiting,
    Creating,
    Running,
    /// The streams are saying how they stand.
    Freezing,
    /// The client's results are waited for.
    Exchanging,
    /// Waits for the client's `IPERF_DONE`.
    Parting,
}

struct Test {
    number: u64,
    path: Path,
    /// Arrives in a message of a worker, before or after the link.
    cookie: Option<Cookie>,
    step: TestStep,
    since: Mono,
    inbox: Inbox,
    parameters: Parameters,
    /// Verdict on its token, once the judge was asked.
    verdict: Option<TokenVerdict>,
    /// When the client's token was received.
    asked: Mono,
    test_state: Option<Arc<TestState>>,
    joined: BTreeMap<u64, Path>,
    stats: Option<StreamStats>,
    /// Bytes moved in the last seconds, and how long that took, ns.
    recent: VecDeque<(u64, u64)>,
    printout: Printout,
    /// State of the test for reporters, if they want it.
    served: Option<Served>,
}

pub struct Server {
    plan: ServerPlan,
    shared: Arc<PendingTests>,
    tests: BTreeMap<Link, Test>,
    /// Cookies whose link has not arrived yet.
    early: VecDeque<(Path, Cookie)>,
    /// Which groups are in use, from 1.
    groups: Vec<bool>,
    count: u64,
    ended: u64,
    /// When the last test ended, or the server began.
    quiet: Mono,
    driver: Driver,
    /// Warnings by address: some, then one a minute.
    warnings: ByAddress<(u32, Lines)>,
    stopping: bool,
    interrupted: bool,
    over: bool,
}

impl Server {
    /// A server that starts as soon as it is polled.
    pub fn new(plan: ServerPlan, now: Mono) -> Self {
        let shared = Arc::new(PendingTests::default());
        let listeners = Listener::one_per_worker(&shared, &plan.acl, &plan.streams, plan.workers);
        let sources = LinkSource::acceptors(listeners);
        let mut driver = Driver::new(now, 0, &Phase::default()).begun(now);
        // Silence is found at the end of an interval, so there are intervals also where none is
        // reported.
        let interval = if plan.interval_ns > 0 { plan.interval_ns } else { SECOND };
        driver.group(GroupPlan::new(Group::ALL, now, interval), sources);
        Server {
            plan,
            shared,
            tests: BTreeMap::new(),
            early: VecDeque::new(),
            groups: vec![true],
            count: 0,
            ended: 0,
            quiet: now,
            driver,
            warnings: ByAddress::default(),
            stopping: false,
            interrupted: false,
            over: false,
        }
    }

    /// Reports an event of a test.
    fn report(&mut self, link: Link, news: BulkNews) {
        let Some(test) = self.tests.get_mut(&link) else { return };
        let stands = if self.plan.sessions { served::stand(test, &news) } else { None };
        stands.into_iter().for_each(|event| self.driver.ask(event));
        let bulk = Bulk { test: test.number, news };
        if self.plan.options.render.is_some() {
            test.printout.keep(&bulk, test.parameters.terms.server_output);
        }
        self.driver.ask(bulk.event());
    }

    fn say(&mut self, link: Link, bytes: Vec<u8>) {
        if self.tests.contains_key(&link) {
            self.driver.send(link, bytes);
        }
    }

    fn state(&mut self, link: Link, state: StateByte) {
        self.say(link, vec![state.0]);
    }

    fn arrive(&mut self, cx: &Context<'_>, link: Link, path: Path) {
        self.count += 1;
        let test = Test {
            number: self.count,
            path,
            cookie: None,
            step: TestStep::Parameters,
            since: cx.now,
            inbox: Inbox::default(),
            parameters: Parameters::default(),
            verdict: None,
            asked: cx.now,
            test_state: None,
            joined: BTreeMap::new(),
            stats: None,
            recent: VecDeque::new(),
            printout: Printout::default(),
            served: None,
        };
        let silent = self.tests.iter().filter(|(_, t)| t.step == TestStep::Parameters);
        let silent: Vec<_> = silent.map(|(&link, t)| (link, t.path.peer.ip())).collect();
        if silent.len() >= MOST_SILENT
            && let Some(oldest) = to_give_way(silent)
        {
            self.driver.crowded(cx.now, 1);
            self.deny(cx, oldest);
        }
        self.tests.insert(link, test);
        if self.stopping {
            return self.deny(cx, link);
        }
        if let Some(at) = self.early.iter().position(|(early, _)| *early == path)
            && let Some((_, cookie)) = self.early.remove(at)
        {
            self.meet(cx, path, cookie);
        }
    }

    fn deny(&mut self, cx: &Context<'_>, link: Link) {
        self.state(link, StateByte::DENIED);
        self.leave(cx, link);
    }

    /// True if a client that has sent its parameters is one too many, of its address or in all.
    fn is_full(&self, link: Link) -> bool {
        let Some(address) = self.tests.get(&link).map(|t| t.path.peer.ip().to_canonical()) else {
            return true;
        };
        let known = || self.tests.iter().filter(|(l, t)| **l != link && t.step != TestStep::Parameters);
        let same = known().filter(|(_, t)| t.path.peer.ip().to_canonical() == address).count();
        let limits = &self.plan.options.limits;
        same >= usize::clamped(limits.per_address) || known().count() >= usize::clamped(limits.tests)
    }

    /// A control connection's cookie has arrived.
    fn meet(&mut self, cx: &Context<'_>, path: Path, cookie: Cookie) {
        let found = self.tests.iter_mut().find(|(_, t)| t.path == path && t.cookie.is_none());
        let Some((&link, test)) = found else {
            self.early.truncate(2 * MOST_SILENT);
            return self.early.push_front((path, cookie));
        };
        test.cookie = Some(cookie);
        let Path { peer, local } = path;
        let (cookie, at) = (cookie_text(&cookie), cx.clock.wall(cx.now));
        self.report(link, BulkNews::Met { peer, local, cookie, at });
        self.state(link, StateByte::PARAM_EXCHANGE);
        // The parameters may have arrived before the worker's message with the cookie.
        self.bytes(cx, link, &[]);
    }

    /// Gives up a test, with the reason to the client, if it is still connected.
    fn fail(&mut self, cx: &Context<'_>, link: Link, number: i32, why: &str) {
        self.say(link, super::codec::server_error(number));
        self.lose(cx, link, why);
    }

    /// A test is over before its time.
    fn lose(&mut self, cx: &Context<'_>, link: Link, why: &str) {
        let Some(test) = self.tests.get(&link) else { return };
        let peer = test.path.peer;
        if test.stats.is_some() {
            self.end_of(link, Some(why.to_owned()));
        } else {
            self.report(link, BulkNews::Failed { error: why.to_owned() });
        }
        self.warn(cx, peer.ip(), format!("{peer}: {why}"));
        self.leave(cx, link);
    }

    /// Warns of an error that a client of this address caused; the lines per address are limited,
    /// so that a client cannot fill the log.
    fn warn(&mut self, cx: &Context<'_>, address: IpAddr, text: String) {
        let (told, lines) = self.warnings.of(address, Default::default);
        *told = told.saturating_add(1);
        let text = if *told <= WARNINGS { Some(text) } else { lines.text(cx.now, text) };
        if let Some(text) = text {
            self.driver.notice(Level::Warning, text);
        }
    }

    /// Removes a client that has gone or is to go, and frees its group and its place.
    fn leave(&mut self, cx: &Context<'_>, link: Link) {
        let Some(test) = self.tests.remove(&link) else { return };
        self.driver.close(link);
        if let Some(test_state) = &test.test_state {
            self.shared.forget(test_state);
            // In good order if both results were exchanged, else at once.
            let order = if test.step == TestStep::Parting { Order::Stop } else { Order::Drop };
            self.driver.order(test_state.group, order);
        }
        self.quiet = cx.now;
        if test.step == TestStep::Parting {
            self.ended += 1;
            if self.plan.exit_after.is_some_and(|most| self.ended >= most) {
                self.stopping = true;
            }
        }
        self.admit(cx);
        self.check_over();
    }

    /// Tests that wait for their turn get it.
    fn admit(&mut self, cx: &Context<'_>) {
        let waiting: Vec<Link> =
            self.tests.iter().filter(|(_, t)| t.step == TestStep::Waiting).map(|(&link, _)| link).collect();
        for link in waiting {
            self.create(cx, link);
        }
    }

    fn stop(&mut self, cx: &Context<'_>) {
        self.stopping = true;
        self.interrupted = true;
        for link in self.tests.keys().copied().collect::<Vec<_>>() {
            self.state(link, StateByte::SERVER_TERMINATE);
            self.lose(cx, link, "the server has terminated");
        }
        self.check_over();
    }

    fn check_over(&mut self) {
        let idle = self.tests.is_empty() && self.groups.iter().skip(1).all(|used| !used);
        if self.stopping && !self.over && idle {
            self.over = true;
            self.driver.order(Group::ALL, Order::Drop);
        }
    }

    fn dropped(&mut self, group: Group, totals: Box<model::Totals>) {
        if group == Group::ALL {
            if self.interrupted {
                self.driver.fails(Status::Interrupted, "stopped by a signal");
            }
            self.driver.finish(None, Some(totals));
            return;
        }
        if let Some(here) = totals.drops_here() {
            self.driver.notice(Level::Warning, format!("in a test, {here}"));
        }
        if let Some(used) = self.groups.get_mut(usize::clamped(group.0)) {
            *used = false;
        }
        self.check_over();
    }

    /// Which test a group belongs to.
    fn of(&mut self, group: Group) -> Option<(Link, &mut Test)> {
        let is = |test: &Test| test.test_state.as_ref().is_some_and(|state| state.group == group);
        self.tests.iter_mut().find(|(_, test)| is(test)).map(|(&link, test)| (link, test))
    }

    fn note(&mut self, cx: &Context<'_>, message: Message) {
        match downcast(message) {
            SessionMessage::Own(Posted::Progress(standing)) => self.standing(cx, &standing),
            SessionMessage::Own(Posted::Visit(path, cookie)) => self.meet(cx, path, cookie),
            SessionMessage::Own(Posted::Joined { group, when, path }) => self.joined(cx, group, when, path),
            SessionMessage::Shared(SharedMessage::Event(event)) => self.driver.forward(event),
            _ => {}
        }
    }
}

impl Session for Server {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Up(link, path, _) => self.arrive(cx, link, path),
            Input::Bytes(link, bytes) => self.bytes(cx, link, bytes),
            Input::Down(link, fault) => {
                if self.tests.get(&link).is_some_and(|t| t.step == TestStep::Parting) {
                    return self.leave(cx, link);
                }
                let broke = fault.map(|fault| format!("the control connection broke ({fault})"));
                self.lose(cx, link, broke.as_deref().unwrap_or("the client closed the control connection"));
            }
            Input::Message(message) => self.note(cx, message),
            Input::Tally { group: Group::ALL, index, from, to, tally } => {
                self.driver.traffic(index, from, to, tally);
            }
            Input::Tally { group, from, to, tally, .. } => {
                self.moved(cx, group, tally.tx_bytes + tally.rx_bytes, to.since(from));
            }
            // Asked for by `leave`, when a test has ended in good order.
            Input::Idle(group) if group != Group::ALL && self.of(group).is_none() => {
                self.driver.order(group, Order::Drop);
            }
            Input::Dropped(group, totals) => self.dropped(group, totals),
            Input::Limited(group, why) => {
                // A client waits for a word of its server when its streams have ended.
                if let Some((link, _)) = self.of(group) {
                    self.state(link, StateByte::SERVER_TERMINATE);
                    self.lose(cx, link, why);
                }
            }
            Input::Wake => self.wake(cx),
            Input::Stop if !self.stopping || !self.interrupted => self.stop(cx),
            _ => {}
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.driver.next(cx)
    }

    fn deadline(&self) -> Option<Mono> {
        let tests = self.tests.values().map(Self::due);
        let idle = self.plan.options.idle_ns.filter(|_| self.tests.is_empty() && !self.stopping);
        let idle = idle.map(|ns| self.quiet.plus(ns));
        tests.chain(idle).min().filter(|at| *at < Mono(u64::MAX))
    }
}
