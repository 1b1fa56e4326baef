//! Tests without synchronisation (`-N`, `-ns`) at a receiver that also serves synchronised senders.
//!
//! Such a test has no start or end message. Concurrent connections from one address form one test, measured from the first
//! connection to the last byte. A sender of Windows' that synchronises announces on other ports that its data connections are
//! up; its test is measured from the last of these announcements.

use crate::solo::Portion;
use metrics::{Mono, SECOND};
use model::{Event, Totals, Traffic};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A test is busy until this long after its last byte, ns, and at least for this many intervals.
const BUSY: u64 = 3 * SECOND;
const INTERVALS: u64 = 2;

/// The test of one address.
#[derive(Default)]
struct Test {
    open: u32,
    connections: u64,
    bytes: u64,
    /// Latest announcement that the sender is ready: no data has come before.
    ready: Mono,
    span: Option<(Mono, Mono)>,
}

/// The tests in progress.
#[derive(Default)]
pub(super) struct UnsyncedTests {
    tests: BTreeMap<IpAddr, Test>,
    /// Latest arrival of a connection or of data, over all tests.
    moved: Mono,
}

impl UnsyncedTests {
    /// Counts a new connection.
    pub(super) fn opened(&mut self, ip: IpAddr, now: Mono) {
        let test = self.tests.entry(ip).or_default();
        (test.open, test.connections) = (test.open.saturating_add(1), test.connections + 1);
        self.moved = now;
    }

    /// Notes that the sender is ready.
    pub(super) fn ready(&mut self, ip: IpAddr, now: Mono) {
        if let Some(test) = self.tests.get_mut(&ip) {
            test.ready = now;
        }
    }

    /// Notes that data arrived up to `now`.
    pub(super) fn received(&mut self, now: Mono) {
        self.moved = self.moved.max(now);
    }

    /// Counts the end of a connection. Returns the totals of its test when it was the last one and the test carried data.
    pub(super) fn closed(&mut self, portion: &Portion) -> Option<Event> {
        let ip = portion.path.peer.ip().to_canonical();
        let test = self.tests.get_mut(&ip)?;
        test.open = test.open.saturating_sub(1);
        test.bytes += portion.rx_bytes;
        if portion.rx_bytes > 0 {
            let (from, to) = test.span.unwrap_or((portion.from, portion.to));
            test.span = Some((from.min(portion.from), to.max(portion.to)));
        }
        if test.open > 0 {
            return None;
        }
        let test = self.tests.remove(&ip)?;
        let (from, to) = test.span?;
        let from = from.max(test.ready);
        let traffic = Traffic { tx_bytes: 0, rx_bytes: test.bytes, ns: to.since(from) };
        Some(Event::Near(Box::new(Totals { opened: test.connections, traffic, ..Totals::default() })))
    }

    /// Whether a test received data recently. Idle connections do not block synchronised senders.
    pub(super) fn busy(&self, now: Mono, interval_ns: u64) -> bool {
        let patience = BUSY.max(interval_ns.saturating_mul(INTERVALS));
        !self.tests.is_empty() && now.since(self.moved) < patience
    }
}
