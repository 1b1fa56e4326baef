//! Clients' messages, up to the start of their test.

use super::{Server, Test, TestStep};
use crate::balance::{Placed, first_worker};
use crate::codec::{LONGEST_PARAMETERS, StateByte, code, error_text};
use crate::params::{self, BLOCK, Parameters, Refused};
use crate::quota::holder;
use crate::stream_stats::StreamStats;
use crate::test_state::TestState;
use crate::{BulkNews, BulkTerms};
use metrics::{Clamped, Group, SECOND};
use std::net::IpAddr;
use std::sync::Arc;
use transport::{Context, Link, Order, Path};

/// Tokens of one address that are judged at once; others of it wait.
const TOKENS_AT_ONCE: usize = 4;
/// Longest wait for the verdict on a token, ns.
const TOKEN_PATIENCE: u64 = 30 * SECOND;
impl Server {
    /// Bytes on a control connection, in any pieces.
    pub(super) fn bytes(&mut self, cx: &Context<'_>, link: Link, bytes: &[u8]) {
        if let Some(test) = self.tests.get_mut(&link) {
            test.inbox.push(bytes);
        }
        while self.next(cx, link) {}
    }

    /// Handles the next message of a client; false when none is complete yet.
    fn next(&mut self, cx: &Context<'_>, link: Link) -> bool {
        let Some(test) = self.tests.get_mut(&link) else { return false };
        match test.step {
            TestStep::Parameters if test.cookie.is_none() => return false,
            TestStep::Parameters => {
                let Some(text) = test.inbox.document(LONGEST_PARAMETERS).transpose() else { return false };
                self.on_parameters(cx, link, text);
            }
            TestStep::Exchanging => return self.results(cx, link),
            _ => {
                let Some(byte) = test.inbox.byte() else { return false };
                self.on_state(cx, link, byte);
            }
        }
        true
    }

    fn on_state(&mut self, cx: &Context<'_>, link: Link, byte: u8) {
        let Some(test) = self.tests.get(&link) else { return };
        match (StateByte(byte), test.step) {
            (StateByte::TEST_END, TestStep::Running) => self.freeze(cx, link),
            (StateByte::DONE, TestStep::Parting) => self.leave(cx, link),
            // Older clients send this state, too, after a server's error.
            (StateByte::DONE, _) => self.lose(cx, link, "the client gave up"),
            (StateByte::CLIENT_TERMINATE, _) => self.lose(cx, link, "the client has terminated"),
            _ => self.fail(cx, link, code::MESSAGE, "the client sent an unknown state"),
        }
    }

    fn on_parameters(&mut self, cx: &Context<'_>, link: Link, text: Result<String, &'static str>) {
        let bad = |why: &str| Refused { code: code::PARAMETERS, why: why.to_owned() };
        let parameters = match text.map_err(bad).and_then(|text| params::read(&text)) {
            Ok(parameters) => parameters,
            Err(refused) => return self.fail(cx, link, refused.code, &refused.why),
        };
        if self.is_full(link) {
            return self.deny(cx, link);
        }
        if let Some(number) = self.forbidden(&parameters) {
            return self.fail(cx, link, number, error_text(number));
        }
        let Some(test) = self.tests.get_mut(&link) else { return };
        test.parameters = parameters;
        if self.plan.options.judge.is_some() {
            (test.step, test.since, test.asked) = (TestStep::Held, cx.now, cx.now);
            return self.ask(cx, link);
        }
        test.step = TestStep::Waiting;
        self.create(cx, link);
    }

    /// Has a token judged, unless as many of its address are being judged already.
    fn ask(&mut self, cx: &Context<'_>, link: Link) {
        let Some(test) = self.tests.get(&link) else { return };
        let address = holder(test.path.peer.ip());
        let judging = |test: &&Test| {
            let unknown = test.verdict.as_ref().is_some_and(|verdict| verdict.get().is_none());
            unknown && holder(test.path.peer.ip()) == address
        };
        if test.verdict.is_some() || self.tests.values().filter(judging).count() >= TOKENS_AT_ONCE {
            return;
        }
        let came = cx.clock.wall(test.asked);
        let token = test.parameters.token.as_deref();
        let verdict = self.plan.options.judge.as_ref().and_then(|judge| judge(token, came));
        if let Some(test) = self.tests.get_mut(&link) {
            test.verdict = verdict;
        }
    }

    /// Sends the verdict on a token at its time, or waits for the same time again.
    pub(super) fn verdicts(&mut self, cx: &Context<'_>, link: Link) {
        self.ask(cx, link);
        let Some(test) = self.tests.get_mut(&link) else { return };
        let verdict = test.verdict.as_ref().and_then(|verdict| verdict.get().copied());
        match verdict {
            Some(true) => {
                test.step = TestStep::Waiting;
                self.create(cx, link);
            }
            None if cx.now.since(test.asked) < TOKEN_PATIENCE => test.since = cx.now,
            _ => self.fail(cx, link, code::AUTHORISATION, error_text(code::AUTHORISATION)),
        }
    }

    /// Why a test may not be, if it may not.
    fn forbidden(&self, parameters: &Parameters) -> Option<i32> {
        let (limits, terms) = (&self.plan.options.limits, &parameters.terms);
        let asked = terms.rate.saturating_mul(terms.all_streams().into());
        if limits.rate.is_some_and(|(most, _)| asked > most) {
            return Some(code::RATE);
        }
        let length = terms.time_s.saturating_add(terms.omit_s);
        if limits.duration_s.is_some_and(|most| terms.time_s == 0 || length > most) {
            return Some(code::LONG);
        }
        None
    }

    /// A test's streams are asked for, when it is its turn.
    pub(super) fn create(&mut self, cx: &Context<'_>, link: Link) {
        let Some(test) = self.tests.get(&link).filter(|test| test.step == TestStep::Waiting) else { return };
        let (terms, address) = (test.parameters.terms.clone(), test.path.peer.ip().to_canonical());
        let same = |other: &Test| {
            other.step == TestStep::Creating
                && other.parameters.terms.udp
                && other.path.peer.ip().to_canonical() == address
        };
        if terms.udp && self.tests.values().any(same) {
            return;
        }
        let user_timeout_ns = self.plan.options.user_timeout_ns;
        let congestion = self.congestion(cx, address, &terms);
        let worker = self.worker_on(cx, address, terms.server_core);
        let held = self.tests.values().filter_map(|test| test.test_state.as_ref());
        let first = first_worker(
            self.plan.workers,
            placed(&terms, 0),
            held.map(|test_state| placed(&test_state.terms, test_state.first)),
        );
        let file = self.plan.options.file.as_ref().filter(|_| !terms.udp && !terms.bidir);
        let store = match file.map(|open| open(terms.reverse)).transpose() {
            Ok(store) => store,
            Err(why) => return self.fail(cx, link, code::FILE, &why),
        };
        let Some(test) = self.tests.get_mut(&link) else { return };
        let Some(cookie) = test.cookie else { return };
        // Not before: a group that counts as used is free again only when the driver has dropped
        // it.
        let index = self.groups.iter().position(|used| !used).unwrap_or(self.groups.len());
        if index == self.groups.len() {
            self.groups.push(false);
        }
        self.groups[index] = true;
        let group = Group(u32::clamped(index));
        let mut test_state = TestState::new(group, terms.clone(), cookie, true);
        (test_state.worker, test_state.first) = (worker, first);
        (test_state.discard, test_state.store) = (store.is_none(), store);
        // A client that proposes the default block has not chosen it.
        let test_state = Arc::new(test_state.in_whole_segments(terms.block == BLOCK));
        let plan = test_state.group_plan(SECOND, congestion, user_timeout_ns);
        self.shared.expect(&test_state, address);
        test.test_state = Some(test_state);
        (test.step, test.since) = (TestStep::Creating, cx.now);
        self.driver.group(plan, Vec::new());
        self.state(link, StateByte::CREATE_STREAMS);
    }

    /// The worker that runs on the core that a client asks for.
    fn worker_on(&mut self, cx: &Context<'_>, address: IpAddr, core: Option<u32>) -> Option<u16> {
        let core = core?;
        let found =
            self.plan.cores.iter().position(|own| own.is_some_and(|own| own as u64 == u64::from(core)));
        if found.is_none() {
            self.warn(cx, address, format!("a client asked for core {core}, where no worker of ours runs"));
        }
        found.and_then(|worker| u16::try_from(worker).ok())
    }

    /// The congestion control that a client asks for, if it is offered here.
    fn congestion(&mut self, cx: &Context<'_>, address: IpAddr, terms: &BulkTerms) -> Option<String> {
        let name = terms.congestion.as_ref()?;
        let (_, offered) = &self.plan.congestion;
        // A system that lists none lets the kernel decide.
        if offered.is_empty() || offered.contains(name) {
            return Some(name.clone());
        }
        self.warn(cx, address, format!("the congestion control '{name}' is not offered here"));
        None
    }

    /// A stream was opened.
    pub(super) fn joined(&mut self, cx: &Context<'_>, group: Group, when: u64, path: Path) {
        let found = self.of(group).filter(|(_, test)| test.step == TestStep::Creating);
        let Some((link, test)) = found else { return };
        test.joined.insert(when, path);
        if u32::clamped(test.joined.len()) == test.parameters.terms.all_streams() {
            self.begin(cx, link);
        }
    }

    /// All streams are there: the test begins.
    fn begin(&mut self, cx: &Context<'_>, link: Link) {
        let used = (self.plan.meter)();
        let (interval, silence) = (self.plan.interval_ns, self.plan.options.limits.silence_ns);
        let Some(test) = self.tests.get_mut(&link) else { return };
        let Some(test_state) = test.test_state.clone() else { return };
        (test.step, test.since) = (TestStep::Running, cx.now);
        self.shared.forget(&test_state);
        let begun = test_state.begun(&test.joined, cx.clock.wall(cx.now));
        test.stats = Some(StreamStats::new(test_state.clone(), interval, silence, used, cx.now));
        test_state.begin();
        // Before the client can know, so that no datagram finds its stream holding still.
        self.driver.order(test_state.group, Order::Start(cx.now));
        self.say(link, vec![StateByte::TEST_START.0, StateByte::TEST_RUNNING.0]);
        self.report(link, BulkNews::Begun(Box::new(begun)));
        self.admit(cx);
    }
}

/// Placement of a test's streams with these terms, from the `first` worker on.
fn placed(terms: &BulkTerms, first: u32) -> Placed {
    let ways = (terms.bidir || !terms.reverse, terms.bidir || terms.reverse);
    Placed { connections: terms.all_streams(), first, ways }
}
