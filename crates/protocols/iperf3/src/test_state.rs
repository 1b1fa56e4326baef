//! Common state of a test's streams, and their messages to the session.

use super::codec::Cookie;
use super::store::Store;
use crate::{BulkBegun, BulkStream, BulkTerms};
use common::kernel::Core;
use metrics::{Clamped, Ecn, Group, Mono, SECOND, TcpInfo, Wall};
use model::{Pace, SocketSettings};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{Context, GroupPlan, Path, WHEN_TOLD};

/// From this rate on datagrams are received in runs, and stamped by us, bits/s.
const FAST: u64 = 1_000_000_000;
/// Receive buffer of datagrams without a user's choice, bytes: its drops would look like loss.
const UDP_BUFFER: u64 = 4 << 20;

/// Common state of a test's streams, on all workers. The lists are read when a stream is opened,
/// never while it runs.
#[derive(Debug)]
pub(super) struct TestState {
    pub(super) group: Group,
    /// Parameters that both ends agreed on.
    pub(super) terms: BulkTerms,
    /// True if this end is the server, which accepts the streams.
    pub(super) serving: bool,
    /// Bytes are dropped unseen.
    pub(super) discard: bool,
    pub(super) cookie: Cookie,
    /// The worker that all streams belong on, where the client asked for its core.
    pub(super) worker: Option<u16>,
    /// The worker of the first stream otherwise.
    pub(super) first: u32,
    /// The file of sent or received payload, if any.
    pub(super) store: Option<Arc<dyn Store>>,
    /// The peer of each stream by its arrival. The numbers follow this order.
    joined: Mutex<BTreeMap<u64, SocketAddr>>,
    /// Calls need not hold a block: only the whole is made of blocks.
    pub(super) any_call_size: bool,
    /// Blocks (datagrams) or bytes that may still be sent.
    budget: AtomicU64,
    /// Received bytes or datagrams, where these end the test.
    come: AtomicU64,
    /// The stream that is to be opened next.
    turn: AtomicU32,
    /// The test has begun: a stream that is still on its way to its worker misses the order to
    /// start.
    begun: AtomicBool,
}

impl TestState {
    /// Of a test with these terms.
    pub(super) fn new(group: Group, terms: BulkTerms, cookie: Cookie, serving: bool) -> Self {
        let most = limit(&terms).filter(|_| !serving).unwrap_or(u64::MAX);
        TestState {
            group,
            serving,
            discard: false,
            cookie,
            worker: None,
            first: 0,
            store: None,
            any_call_size: false,
            joined: Mutex::default(),
            budget: AtomicU64::new(most),
            come: AtomicU64::new(0),
            turn: AtomicU32::new(0),
            begun: AtomicBool::new(false),
            terms,
        }
    }

    /// Lets send calls end where segments end, if `wished`. A file, a rate or an amount of bytes
    /// needs calls of exactly a block (`-l`), so that these settings switch it off.
    pub(super) fn in_whole_segments(mut self, wished: bool) -> Self {
        let terms = &self.terms;
        self.any_call_size =
            wished && !terms.udp && terms.rate == 0 && self.store.is_none() && !self.is_limited();
        self
    }

    /// The group of the streams, with this congestion control, reported each `interval`.
    pub(super) fn group_plan(
        &self,
        interval: u64,
        congestion: Option<String>,
        user_timeout_ns: Option<u64>,
    ) -> GroupPlan {
        let terms = &self.terms;
        let settings = socket_settings(terms, congestion);
        GroupPlan {
            omit: u64::from(terms.omit_s) * SECOND,
            info: !terms.udp,
            packets: terms.udp,
            sockets: SocketSettings { user_timeout_ns, whole_segments: self.any_call_size, ..settings },
            ..GroupPlan::new(self.group, WHEN_TOLD, interval)
        }
    }

    /// The worker of the `nth` stream, of `workers`.
    pub(super) fn worker(&self, nth: u32, workers: u16) -> u16 {
        self.worker.unwrap_or((nth.wrapping_add(self.first) % u32::from(workers.max(1))) as u16)
    }

    /// True if this end sends on the stream at this place.
    pub(super) fn sends(&self, slot: u32) -> bool {
        self.terms.client_sends(slot) != self.serving
    }

    /// The report of a test whose streams are open.
    pub(super) fn begun(&self, joined: &BTreeMap<u64, Path>, at: Wall) -> BulkBegun {
        let stream = |(slot, path): (u32, &Path)| BulkStream {
            slot,
            sender: self.sends(slot),
            local: path.local,
            remote: path.peer,
        };
        let streams = (0..).zip(joined.values()).map(stream).collect();
        BulkBegun { serving: self.serving, terms: self.terms.clone(), streams, at }
    }

    /// The test begins.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The stream that a client is to open next.
    pub(super) fn turn(&self) -> u32 {
        self.turn.load(Ordering::Acquire)
    }

    /// The stream whose turn it was is there.
    pub(super) fn pass(&self) {
        self.turn.fetch_add(1, Ordering::Release);
    }

    /// A stream was opened; `None` when all are there, or this one is.
    pub(super) fn join(&self, when: u64, peer: SocketAddr) -> Option<u32> {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let room = u32::clamped(joined.len()) < self.terms.all_streams();
        if !room || joined.values().any(|known| *known == peer) {
            return None;
        }
        joined.insert(when, peer);
        Some(u32::clamped(joined.len()) - 1)
    }

    /// True if a peer's stream was opened.
    pub(super) fn has_stream(&self, peer: SocketAddr) -> bool {
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        joined.values().any(|known| *known == peer)
    }

    /// The place of the stream of this arrival.
    pub(super) fn slot(&self, when: u64) -> u32 {
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        u32::clamped(joined.range(..when).count())
    }

    /// Takes a block of `n` bytes of what may still be sent; 0 when nothing is left. Blocks are
    /// whole: a peer that reads one waits for all of it.
    pub(super) fn block(&self, n: u64) -> u64 {
        match (self.spend(n), &self.store) {
            // A file is not sent beyond its end.
            (some, Some(_)) => some,
            (0, None) => 0,
            (_, None) => n,
        }
    }

    /// The client ends the test by its amount, or with its file.
    pub(super) fn is_limited(&self) -> bool {
        limit(&self.terms).is_some()
    }

    /// Takes up to `n` of what may still be sent.
    pub(super) fn spend(&self, n: u64) -> u64 {
        let left = self.budget.load(Ordering::Relaxed);
        if left == u64::MAX {
            return n;
        }
        let take = |left: u64| Some(left - left.min(n));
        let before = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        before.min(n)
    }

    /// Gives back the unsent part.
    pub(super) fn give_back(&self, n: u64) {
        if self.budget.load(Ordering::Relaxed) != u64::MAX {
            self.budget.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Adds received amounts; true when they are enough.
    pub(super) fn add_received(&self, bytes: u64, datagrams: u64) -> bool {
        let Some(most) = limit(&self.terms).filter(|_| !self.serving) else { return false };
        let n = if self.terms.udp { datagrams } else { bytes };
        self.come.fetch_add(n, Ordering::Relaxed) + n >= most
    }
}

/// Socket options of a test's streams.
fn socket_settings(terms: &BulkTerms, congestion: Option<String>) -> SocketSettings {
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
        ecn: (terms.udp && terms.tos & 3 > 0).then(|| Ecn::of(terms.tos)),
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

/// The amount that ends a test: datagrams of UDP, bytes of TCP.
fn limit(terms: &BulkTerms) -> Option<u64> {
    let block = u64::from(terms.block.max(1));
    match (terms.bytes, terms.blocks, terms.udp) {
        (0, 0, _) => None,
        (0, blocks, true) => Some(blocks),
        (0, blocks, false) => Some(blocks.saturating_mul(block)),
        (bytes, _, true) => Some(bytes.div_ceil(block)),
        (bytes, _, false) => Some(bytes),
    }
}

/// Messages of streams, connectors and listeners to their session.
#[derive(Clone, Debug)]
pub(super) enum Posted {
    /// A stream of this group was opened, after the ones that were opened before `when`.
    Joined { group: Group, when: u64, path: Path },
    /// A sender has moved all that it may, or a receiver enough, and the server has it.
    Spent { slot: u32, sender: bool },
    /// A client's stream has failed, for this reason.
    Gone(String),
    /// State of a stream.
    Progress(StreamState),
    /// A control connection was opened, with this cookie; it goes to the session.
    Visit(Path, Cookie),
}

/// State of a stream.
#[derive(Clone, Debug)]
pub(super) struct StreamState {
    pub(super) group: Group,
    pub(super) slot: u32,
    /// The question; `None` when the stream has ended before it was to.
    pub(super) tag: Option<u32>,
    pub(super) counts: Counts,
    /// The kernel's figures.
    pub(super) info: Option<Box<TcpInfo>>,
}

/// Counts of a stream since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) at: Mono,
    pub(super) bytes: u64,
    /// Datagrams sent, or the highest number seen.
    pub(super) packets: u64,
    pub(super) lost: i64,
    pub(super) out_of_order: u64,
    pub(super) duplicates: u64,
    pub(super) jitter_ns: f64,
    /// Segments sent again, where the kernel says that of a sender.
    pub(super) retransmits: Option<u32>,
}

/// Common account of both kinds of streams: their part in the test.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) core: Core,
    pub(super) test_state: Arc<TestState>,
    /// Arrival of the stream, until it knows its place.
    when: u64,
    pub(super) sender: bool,
    pub(super) counts: Counts,
    pub(super) pace: Option<Pace>,
    /// All permitted data are sent, or enough was received.
    pub(super) done: bool,
    /// When the last bytes that count were handed to the kernel or, where that was waited for,
    /// acknowledged.
    pub(super) ended: Option<Mono>,
}

impl Part {
    /// A client's, which knows its place.
    pub(super) fn client(test_state: Arc<TestState>, slot: u32) -> Self {
        let sender = test_state.sends(slot);
        let mut part = Part { sender, ..Part::new(test_state, u64::from(slot)) };
        part.core.slot = slot;
        part
    }

    /// A server's part, of the `nth` stream, at worker `here` of `workers`.
    pub(super) fn server(
        test_state: Arc<TestState>,
        when: u64,
        (nth, here, workers): (u32, u16, u16),
    ) -> Self {
        let to = test_state.worker(nth, workers);
        let mut part = Part::new(test_state, when);
        part.core.leave_for((to != here).then_some(to));
        part
    }

    fn new(test_state: Arc<TestState>, when: u64) -> Self {
        Part {
            core: Core::new(test_state.group, 0, 0),
            test_state,
            when,
            sender: false,
            counts: Counts::default(),
            pace: None,
            done: false,
            ended: None,
        }
    }

    /// The stream is up; true if it is on the worker where it belongs.
    pub(super) fn up(&mut self, cx: &mut Context<'_>, path: Path) -> bool {
        if self.core.row.is_none() {
            self.core.id = cx.rng.uuid();
        }
        self.core.up(cx, path);
        self.core.row.is_some()
    }

    /// A client's stream is known to the server.
    pub(super) fn joined(&self, cx: &mut Context<'_>) {
        if let Some(path) = self.core.path {
            self.test_state.pass();
            cx.post(Posted::Joined { group: self.core.group, when: self.when, path });
        }
    }

    /// The test begins, at this rate if it is not 0.
    pub(super) fn start(&mut self, now: Mono, rate: u64) {
        if self.test_state.serving {
            self.core.slot = self.test_state.slot(self.when);
            self.sender = self.test_state.sends(self.core.slot);
        }
        let block = self.test_state.terms.block.max(1).into();
        self.pace = (rate > 0 && self.sender).then(|| Pace::new(rate, block, now));
    }

    /// All permitted data are sent, or enough was received; true if the server is waited for now.
    pub(super) fn finish(&mut self, cx: &mut Context<'_>) -> bool {
        let waits = self.sender && !self.test_state.serving;
        if !std::mem::replace(&mut self.done, true) {
            if waits {
                self.ended = Some(cx.now);
                return true;
            }
            self.spent(cx);
        }
        false
    }

    /// Posts that the stream has sent its limit of bytes or blocks.
    pub(super) fn spent(&self, cx: &mut Context<'_>) {
        cx.post(Posted::Spent { slot: self.core.slot, sender: self.sender });
    }

    /// Reports the stream's counts at `at`, in answer to a question or, where it is lost, without
    /// one.
    pub(super) fn stand(
        &mut self,
        cx: &mut Context<'_>,
        at: Mono,
        tag: Option<u32>,
        info: Option<Box<TcpInfo>>,
    ) {
        self.counts.at = self.ended.filter(|_| tag.is_some()).unwrap_or(at);
        let Core { group, slot, .. } = self.core;
        cx.post(Posted::Progress(StreamState { group, slot, tag, counts: self.counts, info }));
    }
}
