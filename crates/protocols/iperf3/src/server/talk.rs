//! What clients say, up to the start of their test.

use super::{Server, Step, Test, or_second};
use crate::balance::{Placed, first_worker};
use crate::codec::{LONGEST_PARAMETERS, State, code, error_text};
use crate::params::{self, BLOCK, Parameters};
use crate::quota::holder;
use crate::stream_stats::StreamStats;
use crate::test_state::TestState;
use crate::{BulkNews, BulkTerms};
use metrics::{Clamped, Group, SECOND};
use model::SocketSettings;
use std::net::IpAddr;
use std::sync::Arc;
use transport::{Context, GroupPlan, Link, Order, Path, WHEN_TOLD};

/// From this rate on datagrams are received in runs, and stamped by us, bits/s.
const FAST: u64 = 1_000_000_000;
/// Tokens of one address that are judged at once; others of it wait.
const TOKENS_AT_ONCE: usize = 4;
/// How long a token may wait for its verdict, ns.
const TOKEN_PATIENCE: u64 = 30 * SECOND;
/// Receive buffer of datagrams when none is asked for, bytes: what it drops would look like loss.
const UDP_BUFFER: u64 = 4 << 20;

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
            Step::Parameters if test.cookie.is_none() => false,
            Step::Parameters => match test.inbox.document(LONGEST_PARAMETERS) {
                Ok(Some(text)) => {
                    self.asked(cx, link, &text);
                    true
                }
                Ok(None) => false,
                Err(bad) => {
                    self.fail(cx, link, code::PARAMETERS, bad.0);
                    false
                }
            },
            Step::Exchanging => self.results(cx, link),
            _ => match test.inbox.byte() {
                Some(byte) => {
                    self.said(cx, link, byte);
                    true
                }
                None => false,
            },
        }
    }

    fn said(&mut self, cx: &Context<'_>, link: Link, byte: u8) {
        let Some(test) = self.tests.get(&link) else { return };
        match (State::of(byte), test.step) {
            (Some(State::TestEnd), Step::Running) => self.freeze(cx, link),
            (Some(State::Done), Step::Parting) => self.leave(cx, link),
            // Older clients say so, too, when they have been told of an error.
            (Some(State::Done), _) => self.lose(cx, link, "the client gave up"),
            (Some(State::ClientTerminate), _) => self.lose(cx, link, "the client has terminated"),
            _ => self.fail(cx, link, code::MESSAGE, "the client sent an unknown state"),
        }
    }

    fn asked(&mut self, cx: &Context<'_>, link: Link, text: &str) {
        let parameters = match params::read(text) {
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
        if self.plan.judge.is_some() {
            (test.step, test.since, test.asked) = (Step::Held, cx.now, cx.now);
            return self.ask(cx, link);
        }
        test.step = Step::Waiting;
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
        let verdict = self.plan.judge.as_ref().and_then(|judge| judge.ask(token, came));
        if let Some(test) = self.tests.get_mut(&link) {
            test.verdict = verdict;
        }
    }

    /// It is time to tell what a token came to, or to look again after as long.
    pub(super) fn verdicts(&mut self, cx: &Context<'_>, link: Link) {
        self.ask(cx, link);
        let Some(test) = self.tests.get_mut(&link) else { return };
        let verdict = test.verdict.as_ref().and_then(|verdict| verdict.get().copied());
        match verdict {
            Some(true) => {
                test.step = Step::Waiting;
                self.create(cx, link);
            }
            None if cx.now.since(test.asked) < TOKEN_PATIENCE => test.since = cx.now,
            _ => self.fail(cx, link, code::AUTHORISATION, error_text(code::AUTHORISATION)),
        }
    }

    /// Why a test may not be, if it may not.
    fn forbidden(&self, parameters: &Parameters) -> Option<i32> {
        let (limits, terms) = (&self.plan.limits, &parameters.terms);
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
        let Some(test) = self.tests.get(&link).filter(|test| test.step == Step::Waiting) else { return };
        let (terms, address) = (test.parameters.terms.clone(), test.path.peer.ip().to_canonical());
        let same = |other: &Test| {
            other.step == Step::Creating
                && other.parameters.terms.udp
                && other.path.peer.ip().to_canonical() == address
        };
        if terms.udp && self.tests.values().any(same) {
            return;
        }
        let user_timeout_ns = self.plan.user_timeout_ns;
        let settings = self.sockets(cx, address, &terms);
        let worker = self.worker_on(cx, address, terms.server_core);
        let held = self.tests.values().filter_map(|test| test.test_state.as_ref());
        let first = first_worker(
            self.plan.workers,
            placed(&terms, 0),
            held.map(|test_state| placed(&test_state.terms, test_state.first)),
        );
        let file = self.plan.file.as_ref().filter(|_| !terms.udp && !terms.bidir);
        let store = match file.map(|open| open(terms.reverse)).transpose() {
            Ok(store) => store,
            Err(why) => return self.fail(cx, link, code::FILE, &why),
        };
        let Some(test) = self.tests.get_mut(&link) else { return };
        let Some(cookie) = test.cookie else { return };
        // Not before: a group that counts as used is free again only when the driver has dropped it.
        let index = self.groups.iter().position(|used| !used).unwrap_or(self.groups.len());
        if index == self.groups.len() {
            self.groups.push(false);
        }
        self.groups[index] = true;
        let group = Group(u32::clamped(index));
        let test_state = TestState::new(group, terms.clone(), cookie, true, store.is_none());
        // A client that proposes the default block has not chosen it.
        let usual = terms.block == BLOCK;
        let test_state = Arc::new(test_state.on(worker, first).with(store).in_whole_segments(usual));
        let sockets = SocketSettings { user_timeout_ns, whole_segments: test_state.free, ..settings };
        self.shared.expect(&test_state, address);
        (test.group, test.test_state) = (Some(group), Some(test_state));
        (test.step, test.since) = (Step::Creating, cx.now);
        let plan = GroupPlan {
            omit: u64::from(terms.omit_s) * SECOND,
            info: !terms.udp,
            packets: terms.udp,
            sockets,
            ..GroupPlan::new(group, WHEN_TOLD, SECOND)
        };
        self.driver.group(plan, Vec::new());
        self.state(link, State::CreateStreams);
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

    fn sockets(&mut self, cx: &Context<'_>, address: IpAddr, terms: &BulkTerms) -> SocketSettings {
        let known = &self.plan.congestion.1;
        let wanted = terms.congestion.clone();
        let congestion = wanted.filter(|name| known.is_empty() || known.contains(name));
        if congestion != terms.congestion
            && let Some(name) = &terms.congestion
        {
            self.warn(cx, address, format!("the congestion control '{name}' is not offered here"));
        }
        socket_settings(terms, congestion)
    }

    /// A stream has come.
    pub(super) fn joined(&mut self, cx: &Context<'_>, group: Group, when: u64, path: Path) {
        let Some(link) = self.of(group) else { return };
        let Some(test) = self.tests.get_mut(&link).filter(|test| test.step == Step::Creating) else { return };
        test.joined.insert(when, path);
        if u32::clamped(test.joined.len()) == test.parameters.terms.all_streams() {
            self.begin(cx, link);
        }
    }

    /// All streams are there: the test begins.
    fn begin(&mut self, cx: &Context<'_>, link: Link) {
        let used = (self.plan.meter)();
        let interval = self.plan.interval_ns;
        let Some(test) = self.tests.get_mut(&link) else { return };
        let (Some(group), Some(test_state)) = (test.group, test.test_state.clone()) else { return };
        (test.step, test.since, test.used) = (Step::Running, cx.now, used);
        self.shared.forget(&test_state);
        let terms = &test.parameters.terms;
        // Something has to be asked now and then, or nobody would notice that nothing comes.
        let sends = |slot| test_state.sends(slot);
        let stats = StreamStats::new(group, terms, or_second(interval), cx.now, sends);
        let begun = test_state.begun(&test.joined, cx.clock.wall(cx.now));
        test.stats = Some(stats);
        test_state.begin();
        // Before the client can know, so that no datagram finds its stream holding still.
        self.driver.order(group, Order::Start(cx.now));
        self.say(link, vec![State::TestStart.byte(), State::TestRunning.byte()]);
        self.tell(link, BulkNews::Begun(Box::new(begun)));
        self.admit(cx);
    }
}

/// Where the streams of a test with these terms are, from the `first` worker on.
fn placed(terms: &BulkTerms, first: u32) -> Placed {
    let connections = terms.streams.saturating_mul(if terms.bidir { 2 } else { 1 });
    Placed { connections, first, ways: (terms.bidir || !terms.reverse, terms.bidir || terms.reverse) }
}

/// Socket options of a test's streams.
pub(crate) fn socket_settings(terms: &BulkTerms, congestion: Option<String>) -> SocketSettings {
    let window = (terms.window > 0).then_some(terms.window);
    let fast = terms.rate == 0 || terms.rate >= FAST;
    SocketSettings {
        sndbuf: window,
        same_host_sndbuf: false,
        rcvbuf: window.or(terms.udp.then_some(UDP_BUFFER)),
        nodelay: terms.nodelay,
        mss: (terms.mss > 0).then_some(terms.mss),
        congestion,
        dscp: (terms.tos > 0).then_some(terms.tos >> 2),
        flow_label: (terms.flow_label > 0).then_some(terms.flow_label),
        gso: true,
        gro: terms.gro || fast,
        stamps: !(terms.gro || fast),
        dont_fragment: terms.dont_fragment.then_some(true),
        pacing: (terms.fq_rate > 0).then_some(terms.fq_rate),
        multipath: terms.mptcp,
        ..SocketSettings::default()
    }
}
