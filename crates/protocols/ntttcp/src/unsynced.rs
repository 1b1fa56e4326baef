//! Tests without synchronisation (`-N`, `-ns`), and those of Windows' senders, at a receiver that also serves synchronised
//! senders.
//!
//! Such a test has no start or end message. Connections from one address whose first bytes come within [`TOGETHER`] form one
//! test, measured from the first byte to the last. A connection that carries nothing belongs to none; while it is young, a test of
//! its address is not over.

use metrics::{Mono, SECOND};
use model::{Event, Portion, Totals, Traffic};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// How long after the first byte of a test connections may join it, ns.
const TOGETHER: u64 = 3 * SECOND;
/// A test is busy until this long after its last byte, ns, and at least for this many intervals.
const BUSY: u64 = 3 * SECOND;
const INTERVALS: u64 = 2;

/// A test: its address, and when a first byte came.
type Key = (IpAddr, Mono);

#[derive(Default)]
struct Test {
    open: u32,
    connections: u64,
    bytes: u64,
    span: Option<(Mono, Mono)>,
}

#[derive(Default)]
pub(super) struct UnsyncedTests {
    tests: BTreeMap<Key, Test>,
    /// The test of each connection, by its peer.
    members: BTreeMap<SocketAddr, Key>,
    /// When each connection was accepted that has carried nothing, by its peer.
    quiet: BTreeMap<SocketAddr, Mono>,
    /// Latest arrival of data, over all tests.
    moved: Mono,
}

impl UnsyncedTests {
    pub(super) fn accepted(&mut self, peer: SocketAddr, at: Mono) {
        self.quiet.insert(peer, at);
    }

    /// Counts a connection on which data begins.
    pub(super) fn first_byte(&mut self, peer: SocketAddr, at: Mono) {
        self.quiet.remove(&peer);
        let ip = peer.ip().to_canonical();
        let latest = self.tests.range((ip, Mono(0))..=(ip, Mono(u64::MAX))).next_back().map(|(key, _)| *key);
        let key = latest.filter(|(_, from)| at.since(*from) < TOGETHER).unwrap_or((ip, at));
        let test = self.tests.entry(key).or_default();
        (test.open, test.connections) = (test.open.saturating_add(1), test.connections + 1);
        self.members.insert(peer, key);
        self.received(at);
    }

    /// Notes that data arrived up to `now`.
    pub(super) fn received(&mut self, now: Mono) {
        self.moved = self.moved.max(now);
    }

    /// Counts the end of a connection.
    pub(super) fn closed(&mut self, portion: &Portion) {
        self.quiet.remove(&portion.remote);
        let Some(key) = self.members.remove(&portion.remote) else { return };
        let Some(test) = self.tests.get_mut(&key) else { return };
        test.open = test.open.saturating_sub(1);
        test.bytes += portion.rx_bytes;
        let (began, ended) = (Mono(portion.from_ns), Mono(portion.to_ns));
        let (from, to) = test.span.unwrap_or((began, ended));
        test.span = Some((from.min(began), to.max(ended)));
    }

    /// The totals of a test that is over: none of its connections is open, and none of its address may yet join it.
    pub(super) fn over(&mut self, now: Mono) -> Option<Event> {
        let young = |ip| {
            let of_it = self.quiet.iter().filter(|(peer, _)| peer.ip().to_canonical() == ip);
            of_it.map(|(_, at)| now.since(*at)).any(|age| age < TOGETHER)
        };
        let (&key, _) = self.tests.iter().find(|((ip, _), test)| test.open == 0 && !young(*ip))?;
        let test = self.tests.remove(&key)?;
        let (from, to) = test.span?;
        let traffic = Traffic { tx_bytes: 0, rx_bytes: test.bytes, ns: to.since(from) };
        Some(Event::Local(Box::new(Totals { opened: test.connections, traffic, ..Totals::default() })))
    }

    /// Whether a test received data recently. Idle connections do not block synchronised senders.
    pub(super) fn busy(&self, now: Mono, interval_ns: u64) -> bool {
        let patience = BUSY.max(interval_ns.saturating_mul(INTERVALS));
        !self.tests.is_empty() && now.since(self.moved) < patience
    }
}
