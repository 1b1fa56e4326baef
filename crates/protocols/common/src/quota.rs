//! Bounds for peers that have proved nothing: places for connections that have not introduced
//! themselves, rates, and lines in a log.

use crate::message::Told;
use metrics::{Clamped, Mono, SECOND};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
pub use transport::admission::{PendingPlace, holder};
use transport::{Link, admission};

/// The oldest control link of the address that has most of `silent`, which are in the order of
/// arrival.
pub fn to_give_way(silent: impl IntoIterator<Item = (Link, IpAddr)>) -> Option<Link> {
    let mut holders = HashMap::<IpAddr, (usize, Reverse<Link>)>::new();
    for (link, address) in silent {
        holders.entry(holder(address)).or_insert((0, Reverse(link))).0 += 1;
    }
    holders.into_values().max().map(|(_, oldest)| oldest.0)
}

/// Connections that have not introduced themselves, over all workers, and the lines about those
/// that had to give way.
#[derive(Debug)]
pub struct PendingPeers {
    peers: Arc<admission::PendingPeers>,
    lines: Mutex<Lines>,
}

impl PendingPeers {
    /// Room for `most` connections, half of them from one address.
    pub fn new(most: usize) -> Self {
        PendingPeers { peers: Arc::new(admission::PendingPeers::new(most)), lines: Mutex::default() }
    }

    /// A place for a connection from `address`; tells, at most once a minute, if another connection
    /// had to give way.
    pub fn enter(&self, address: IpAddr, now: Mono, tell: impl FnOnce(Told)) -> PendingPlace {
        let (place, gave_way) = self.peers.enter(address);
        let due = |_| self.lines.lock().unwrap_or_else(PoisonError::into_inner).due(now);
        if let Some(before) = gave_way.and_then(due) {
            tell(Told::GaveWay(before + 1));
        }
        place
    }
}

/// How often a connection without an introduction looks whether it is to give way, ns.
pub const LOOK: u64 = SECOND / 4;

/// Lines about one thing: one a minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    last: Option<Mono>,
    /// Lines left out since.
    left_out: u64,
}

/// Time between two lines about one thing.
const MINUTE: u64 = 60 * SECOND;

impl Lines {
    /// Whether a line is due, and how many were left out before it.
    pub fn due(&mut self, now: Mono) -> Option<u64> {
        if self.last.is_some_and(|last| now.since(last) < MINUTE) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }

    /// [`Lines::due`] for a text, which says how many like it were left out.
    pub fn text(&mut self, now: Mono, text: String) -> Option<String> {
        match self.due(now)? {
            0 => Some(text),
            n => Some(format!("{text} ({n} more of its kind since the last line)")),
        }
    }
}

/// A rate: `burst` at once, then one each `period_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    period_ns: u64,
    burst: u64,
    /// When all that was taken is paid for.
    paid: Mono,
}

impl Rate {
    /// With nothing taken yet.
    pub const fn new(burst: u64, period_ns: u64) -> Self {
        Rate { period_ns, burst, paid: Mono(0) }
    }

    /// Whether there is one to take.
    pub fn open(&self, now: Mono) -> bool {
        self.paid.since(now) <= self.period_ns.saturating_mul(self.burst.saturating_sub(1))
    }

    /// Takes one.
    pub fn take(&mut self, now: Mono) {
        self.paid = self.paid.max(now).plus(self.period_ns);
    }

    /// Takes one if there is one.
    pub fn admits(&mut self, now: Mono) -> bool {
        let open = self.open(now);
        if open {
            self.take(now);
        }
        open
    }
}

/// What is remembered of addresses, those of the least recent ones forgotten when they become too
/// many.
#[derive(Debug)]
pub struct ByAddress<T> {
    all: HashMap<IpAddr, (u64, T)>,
    uses: u64,
}

/// Addresses that are remembered.
const MOST_ADDRESSES: usize = 4096;

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        ByAddress { all: HashMap::new(), uses: 0 }
    }
}

impl<T> ByAddress<T> {
    /// What is remembered of `address`; `new` where there is nothing.
    pub fn of(&mut self, address: IpAddr, new: impl FnOnce() -> T) -> &mut T {
        let holder = holder(address);
        self.uses += 1;
        if self.all.len() >= MOST_ADDRESSES && !self.all.contains_key(&holder) {
            // Half of them at once, so that each costs little.
            let old = self.uses.saturating_sub(u64::clamped(MOST_ADDRESSES) / 2);
            self.all.retain(|_, (used, _)| *used >= old);
        }
        let entry = self.all.entry(holder).or_insert_with(|| (0, new()));
        entry.0 = self.uses;
        &mut entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::from((0x7f00_0000 + n).to_be_bytes())
    }

    #[test]
    fn the_oldest_connection_of_the_address_that_holds_most_gives_way() {
        let pending = PendingPeers::new(400);
        let mut lines = 0;
        let mut enter = |n: u32| {
            let tell = |_| lines += 1;
            pending.enter(ip(n), Mono(u64::from(n)), tell)
        };
        let quiet: Vec<_> = (1..=100).map(&mut enter).collect();
        let busy: Vec<_> = (0..300).map(|_| enter(1000)).collect();
        // 200 are the share of one address.
        assert_eq!(busy.iter().filter(|place| place.evicted()).count(), 100);
        assert!(busy[..100].iter().all(PendingPlace::evicted));
        let more: Vec<_> = (2000..2150).map(&mut enter).collect();
        assert!(quiet.iter().chain(&more).all(|place| !place.evicted()), "one each: they stay");
        assert_eq!(busy.iter().filter(|place| place.evicted()).count(), 150, "as many as had no room");
        assert_eq!(pending.peers.held(), (400, 251));
        assert_eq!(lines, 1, "one line a minute");
        drop((quiet, busy, more));
        assert_eq!(pending.peers.held(), (0, 0));
    }

    #[test]
    fn a_rate_lets_a_burst_through_and_then_one_each_period() {
        let mut rate = Rate::new(5, SECOND);
        let start = Mono(100 * SECOND);
        let mut admitted = |at: u64| (0..10).filter(|_| rate.admits(start.plus(at))).count();
        assert_eq!((admitted(0), admitted(SECOND), admitted(3 * SECOND)), (5, 1, 2));
        assert_eq!(admitted(1000 * SECOND), 5);
    }

    #[test]
    fn what_is_remembered_of_addresses_is_bounded() {
        let mut all = ByAddress::<u32>::default();
        for n in 0..100_000 {
            *all.of(ip(n), || 0) += 1;
            *all.of(ip(7), || 0) += 1;
        }
        assert!(all.all.len() <= MOST_ADDRESSES);
        assert_eq!(*all.of(ip(7), || 0), 100_001, "what is used stays");
    }

    #[test]
    fn lines_are_told_once_a_minute_with_the_number_of_those_left_out() {
        let mut lines = Lines::default();
        let mut at = |s: u64| lines.text(Mono(s * SECOND), "x".to_owned());
        assert_eq!(at(5).as_deref(), Some("x"));
        assert!(at(6).is_none() && at(64).is_none());
        assert_eq!(at(65).as_deref(), Some("x (2 more of its kind since the last line)"));
    }
}
