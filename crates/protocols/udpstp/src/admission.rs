//! Clients of a server: between set-up and activation, and with a test.
//!
//! 1. A set-up is kept for three seconds. Only a bounded number is: of an address that has its share
//!    the oldest gives way, and when all places are taken the oldest of all.
//! 2. Tests have bandwidth and places, and so have set-ups under a key, for as long as they are kept.
//!    Other set-ups reserve nothing, so that a flood of them takes bandwidth from nobody; of the
//!    client's own address they count.

use crate::codec::{Keys, MOST_CONNECTIONS, Setup};
use metrics::{Mono, SECOND};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// Time from a set-up to its activation at most, ns.
const LASTS: u64 = 3 * SECOND;
/// Most set-ups that are kept, and of one address.
const MOST_PENDING: usize = 4_096;
const MOST_OF_ADDRESS: usize = 4 * MOST_CONNECTIONS as usize;
/// Tests at once, where descriptors suffice; one address may have half.
const MOST_TESTS: usize = 254;

/// A connection between set-up and activation.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) setup: Setup,
    /// Its keys, if it has proven that it has the shared one.
    pub(crate) keys: Option<Keys>,
    pub(crate) at: Mono,
}

/// Result of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Accepted,
    NoCapacity,
    Full,
}

/// Result of an activation.
pub(crate) enum Admitted {
    Place(TestPlace),
    Refused,
}

/// The clients.
#[derive(Debug)]
pub(crate) struct Admissions {
    /// Tests at once.
    most: usize,
    /// Most bandwidth of a direction, Mbit/s; 0 without a limit.
    bandwidth: u64,
    clients: Mutex<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    pending: HashMap<SocketAddr, Pending>,
    /// Clients in the order of their set-ups, with their times.
    order: VecDeque<(SocketAddr, Mono)>,
    connections: HashMap<SocketAddr, (bool, u64)>,
    /// Connections of each test, by the address of its client and its number.
    tests: HashMap<(IpAddr, u16), u32>,
    /// Tests whose last connection has ended since that was last asked.
    ended: u32,
}

/// The place of a test; given back when dropped.
pub(crate) struct TestPlace {
    admissions: Arc<Admissions>,
    peer: SocketAddr,
    test: u16,
}

impl Drop for TestPlace {
    fn drop(&mut self) {
        let mut clients = self.admissions.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.connections.remove(&self.peer);
        let test = (self.peer.ip(), self.test);
        if let Some(connections) = clients.tests.get_mut(&test) {
            *connections = connections.saturating_sub(1);
            if *connections == 0 {
                clients.tests.remove(&test);
                clients.ended = clients.ended.saturating_add(1);
            }
        }
    }
}

impl Clients {
    /// Bandwidth of the tests of a direction, Mbit/s.
    fn reserved(&self, upstream: bool) -> u64 {
        self.connections.values().filter(|(way, _)| *way == upstream).map(|(_, mbit)| mbit).sum()
    }

    fn connections_of(&self, ip: IpAddr) -> usize {
        self.connections.keys().filter(|peer| peer.ip() == ip).count()
    }

    /// Forgets set-ups whose time is over.
    fn expire(&mut self, now: Mono) {
        while self.order.front().is_some_and(|(_, at)| now.since(*at) > LASTS) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((peer, at)) = self.order.pop_front()
            && self.pending.get(&peer).is_some_and(|pending| pending.at == at)
        {
            self.pending.remove(&peer);
        }
    }

    fn pending_of(&self, ip: IpAddr) -> impl Iterator<Item = (&SocketAddr, &Pending)> {
        self.pending.iter().filter(move |(peer, _)| peer.ip() == ip)
    }
}

impl Admissions {
    /// `sockets` for tests, and `bandwidth` of each direction, Mbit/s.
    pub(crate) fn new(sockets: Option<usize>, bandwidth: u32) -> Self {
        Admissions {
            most: sockets.map_or(MOST_TESTS, |sockets| sockets.clamp(1, MOST_TESTS)),
            bandwidth: bandwidth.into(),
            clients: Mutex::default(),
        }
    }

    /// A client asks for a connection.
    pub(crate) fn claim(&self, peer: SocketAddr, pending: Pending) -> Claim {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.expire(pending.at);
        let own = clients.pending_of(peer.ip()).filter(|(other, _)| **other != peer).count();
        let share = (self.most / 2).max(1);
        if clients.connections.len() >= self.most || clients.connections_of(peer.ip()) >= share {
            return Claim::Full;
        }
        let Setup { upstream, bandwidth, .. } = pending.setup;
        if self.bandwidth > 0 {
            // A set-up under a key is for a test that follows, and counts for all.
            let counts = |other: &SocketAddr, one: &Pending| one.keys.is_some() || other.ip() == peer.ip();
            let others = clients.pending.iter().filter(|(other, one)| {
                **other != peer && one.setup.upstream == upstream && counts(other, one)
            });
            let asked: u64 = others.map(|(_, one)| u64::from(one.setup.bandwidth)).sum();
            if clients.reserved(upstream) + asked + u64::from(bandwidth) > self.bandwidth {
                return Claim::NoCapacity;
            }
        }
        if own >= MOST_OF_ADDRESS {
            let oldest = clients.pending_of(peer.ip()).min_by_key(|(_, one)| one.at).map(|(peer, _)| *peer);
            oldest.into_iter().for_each(|peer| {
                clients.pending.remove(&peer);
            });
        }
        while clients.order.len() >= MOST_PENDING {
            clients.drop_oldest();
        }
        clients.order.push_back((peer, pending.at));
        clients.pending.insert(peer, pending);
        Claim::Accepted
    }

    /// A client's set-up that awaits its activation.
    pub(crate) fn pending(&self, peer: SocketAddr, now: Mono) -> Option<Pending> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.expire(now);
        clients.pending.get(&peer).cloned()
    }

    /// True if a connection of the test of this set-up goes on.
    pub(crate) fn goes_on(&self, peer: SocketAddr, setup: &Setup) -> bool {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.tests.contains_key(&(peer.ip(), setup.test))
    }

    /// Tests that have ended since the last call.
    pub(crate) fn take_ended(&self) -> u32 {
        std::mem::take(&mut self.clients.lock().unwrap_or_else(PoisonError::into_inner).ended)
    }

    /// Forgets a set-up.
    pub(crate) fn forget(&self, peer: SocketAddr) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).pending.remove(&peer);
    }

    /// A client's test begins: its place, unless there is none left. Its set-up is used up.
    pub(crate) fn admit(self: &Arc<Self>, peer: SocketAddr, pending: &Pending, upstream: bool) -> Admitted {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.pending.remove(&peer);
        let (mbit, test) = (u64::from(pending.setup.bandwidth), pending.setup.test);
        let full = clients.connections.len() >= self.most
            || clients.connections_of(peer.ip()) >= (self.most / 2).max(1);
        let too_much = self.bandwidth > 0 && clients.reserved(upstream) + mbit > self.bandwidth;
        // The direction of the set-up is the one that was admitted.
        let other_way = pending.setup.bandwidth > 0 && pending.setup.upstream != upstream;
        if full || too_much || other_way || clients.connections.contains_key(&peer) {
            return Admitted::Refused;
        }
        clients.connections.insert(peer, (upstream, mbit));
        *clients.tests.entry((peer.ip(), test)).or_default() += 1;
        Admitted::Place(TestPlace { admissions: Arc::clone(self), peer, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    fn pending(bandwidth: u16, ms: u64) -> Pending {
        let setup = Setup { bandwidth, ..Setup::default() };
        Pending { setup, keys: None, at: Mono(ms * 1_000_000) }
    }

    #[test]
    fn bandwidth_is_of_tests_and_given_back_with_them() {
        let all = Arc::new(Admissions::new(None, 100));
        assert_eq!(all.claim(at(1, 1), pending(60, 0)), Claim::Accepted);
        // Nobody else's set-up counts; the client's own do.
        assert_eq!(all.claim(at(2, 1), pending(60, 0)), Claim::Accepted);
        assert_eq!(all.claim(at(1, 2), pending(60, 0)), Claim::NoCapacity);
        let first = all.pending(at(1, 1), Mono(5)).unwrap();
        let Admitted::Place(place) = all.admit(at(1, 1), &first, false) else { panic!() };
        assert!(all.pending(at(1, 1), Mono(5)).is_none(), "a set-up is for one test");
        assert_eq!(all.claim(at(3, 1), pending(41, 0)), Claim::NoCapacity);
        let second = all.pending(at(2, 1), Mono(5)).unwrap();
        assert!(matches!(all.admit(at(2, 1), &second, false), Admitted::Refused));
        drop(place);
        assert_eq!(all.claim(at(3, 1), pending(100, 0)), Claim::Accepted);
    }

    #[test]
    fn a_set_up_under_a_key_reserves_its_bandwidth() {
        let all = Arc::new(Admissions::new(None, 100));
        let keyed = |ms| Pending { keys: Some(crate::codec::Deriver::keys(b"key", 1)), ..pending(60, ms) };
        assert_eq!(all.claim(at(1, 1), keyed(0)), Claim::Accepted);
        assert_eq!(all.claim(at(2, 1), keyed(1)), Claim::NoCapacity, "not only at its activation");
        let first = all.pending(at(1, 1), Mono(5)).unwrap();
        assert!(matches!(all.admit(at(1, 1), &first, false), Admitted::Place(_)));
        // Once its test is over, and with a set-up that no activation followed.
        assert_eq!(all.claim(at(2, 1), keyed(2)), Claim::Accepted);
        assert_eq!(all.claim(at(3, 1), keyed(3_500)), Claim::Accepted);
    }

    #[test]
    fn a_flood_of_set_ups_is_bounded_and_takes_no_place() {
        let all = Arc::new(Admissions::new(Some(8), 0));
        for n in 0..20_000_u64 {
            let peer = at((n % 200) as u8, (n / 200) as u16 + 1);
            assert_eq!(all.claim(peer, pending(0, n / 100)), Claim::Accepted);
        }
        assert!(all.clients.lock().unwrap().pending.len() <= MOST_PENDING);
        let now = Mono(200_000_000);
        assert_eq!(all.claim(at(250, 1), pending(0, 200)), Claim::Accepted);
        let one = all.pending(at(250, 1), now).unwrap();
        assert!(matches!(all.admit(at(250, 1), &one, true), Admitted::Place(_)));
        // All of one address.
        for port in 0..1_000 {
            all.claim(at(7, port), pending(0, 201));
        }
        let clients = all.clients.lock().unwrap();
        assert!(clients.pending_of(at(7, 0).ip()).count() <= MOST_OF_ADDRESS + 1);
        drop(clients);
        assert!(all.pending(at(250, 1), now.plus(4 * SECOND)).is_none(), "its time is over");
    }
}
