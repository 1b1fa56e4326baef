//! Tests without synchronisation (`-N`, `-ns`), and those of Windows' senders, at a receiver that
//! also serves synchronised senders.
//!
//! Such a test has no start or end message. Connections from one address whose first bytes arrive
//! within [`TOGETHER`] form one test, measured from the first byte to the last. A connection that
//! carries nothing belongs to none; while it is young, a test of its address is not over.

use metrics::{Mono, SECOND};
use model::{Event, Portion, Totals, Traffic};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use transport::Path;

/// Time after the first byte of a test in which connections may join it, ns.
const TOGETHER: u64 = 3 * SECOND;
/// A test is busy until this long after its last byte, ns, and at least for this many intervals.
const BUSY: u64 = 3 * SECOND;
const INTERVALS: u64 = 2;

/// A test: its address, and the arrival of its first byte.
type Key = (IpAddr, Mono);

/// A connection: its local port and its peer, whose port may be that of connections to other local
/// ports, too.
type Connection = (u16, SocketAddr);

fn connection(path: Path) -> Connection {
    (path.local.port(), path.peer)
}

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
    /// The test of each connection.
    members: BTreeMap<Connection, Key>,
    /// When each connection was accepted that has carried nothing.
    quiet: BTreeMap<Connection, Mono>,
    /// Latest arrival of data, over all tests.
    moved: Mono,
}

impl UnsyncedTests {
    pub(super) fn accepted(&mut self, path: Path, at: Mono) {
        self.quiet.insert(connection(path), at);
    }

    /// Counts a connection on which data begins.
    pub(super) fn first_byte(&mut self, path: Path, at: Mono) {
        self.quiet.remove(&connection(path));
        let ip = path.peer.ip().to_canonical();
        let latest = self.tests.range((ip, Mono(0))..=(ip, Mono(u64::MAX))).next_back().map(|(key, _)| *key);
        let key = latest.filter(|(_, from)| at.since(*from) < TOGETHER).unwrap_or((ip, at));
        let test = self.tests.entry(key).or_default();
        (test.open, test.connections) = (test.open.saturating_add(1), test.connections + 1);
        self.members.insert(connection(path), key);
        self.received(at);
    }

    /// Notes that data arrived up to `now`.
    pub(super) fn received(&mut self, now: Mono) {
        self.moved = self.moved.max(now);
    }

    /// Counts the end of a connection.
    pub(super) fn closed(&mut self, portion: &Portion) {
        let ended = connection(Path { peer: portion.remote, local: portion.local });
        self.quiet.remove(&ended);
        let Some(key) = self.members.remove(&ended) else { return };
        let Some(test) = self.tests.get_mut(&key) else { return };
        test.open = test.open.saturating_sub(1);
        test.bytes += portion.rx_bytes;
        let (began, ended) = (Mono(portion.from_ns), Mono(portion.to_ns));
        let (from, to) = test.span.unwrap_or((began, ended));
        test.span = Some((from.min(began), to.max(ended)));
    }

    /// The totals of a test that is over: none of its connections is open, and none of its address
    /// may yet join it.
    pub(super) fn pop_finished(&mut self, now: Mono) -> Option<Event> {
        let young = |ip| {
            let of_it = self.quiet.iter().filter(|((_, peer), _)| peer.ip().to_canonical() == ip);
            of_it.map(|(_, at)| now.since(*at)).any(|age| age < TOGETHER)
        };
        let (&key, _) = self.tests.iter().find(|((ip, _), test)| test.open == 0 && !young(*ip))?;
        let test = self.tests.remove(&key)?;
        let (from, to) = test.span?;
        let traffic = Traffic { tx_bytes: 0, rx_bytes: test.bytes, ns: to.since(from), ..Traffic::default() };
        Some(Event::Local(Box::new(Totals { opened: test.connections, traffic, ..Totals::default() })))
    }

    /// True if a test received data recently. Idle connections do not block synchronised senders.
    pub(super) fn busy(&self, now: Mono, interval_ns: u64) -> bool {
        let patience = BUSY.max(interval_ns.saturating_mul(INTERVALS));
        !self.tests.is_empty() && now.since(self.moved) < patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_from_one_port_to_two_ports_are_told_apart() {
        let peer = SocketAddr::from(([192, 0, 2, 1], 40_001));
        let paths = [5_001, 5_002].map(|port| Path { peer, local: SocketAddr::from(([192, 0, 2, 2], port)) });
        let mut tests = UnsyncedTests::default();
        for path in paths {
            tests.accepted(path, Mono(0));
            tests.first_byte(path, Mono(1));
        }
        let late = Mono(9 * SECOND);
        for (path, rx_bytes) in paths.into_iter().zip([1_000, 2_000]) {
            assert!(tests.pop_finished(late).is_none(), "a connection is open");
            let Path { peer: remote, local } = path;
            let (tx_bytes, from_ns, to_ns) = (0, 1, SECOND);
            tests.closed(&Portion {
                slot: 0,
                local,
                remote,
                tx_bytes,
                rx_bytes,
                from_ns,
                to_ns,
                calls: 1,
                cut: false,
            });
        }
        let Some(Event::Local(totals)) = tests.pop_finished(late) else { panic!("the test is not over") };
        assert_eq!((totals.opened, totals.traffic.rx_bytes), (2, 3_000));
    }
}
