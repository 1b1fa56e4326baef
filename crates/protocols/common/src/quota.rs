//! Bounds for peers that have proved nothing: places for connections that have not introduced themselves, rates, and lines in a log.

use crate::message::Told;
use metrics::{Clamped, Mono, SECOND};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use transport::Link;

/// The unit that limits count by: an IPv4 address, or the first 64 bits of an IPv6 address, because one host has all the rest.
pub fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// The oldest control link of the address that has most of `silent`, which are in the order in which they came.
pub fn to_give_way(silent: impl IntoIterator<Item = (Link, IpAddr)>) -> Option<Link> {
    let mut holders = HashMap::<IpAddr, (usize, Reverse<Link>)>::new();
    for (link, address) in silent {
        holders.entry(holder(address)).or_insert((0, Reverse(link))).0 += 1;
    }
    holders.into_values().max().map(|(_, oldest)| oldest.0)
}

/// Connections that have not introduced themselves, over all workers. A newcomer always gets a place: when its address has as many
/// as it may, the oldest connection of that address gives way, and when all places are taken, the oldest connection of the address
/// that holds most.
#[derive(Debug)]
pub struct PendingPeers {
    table: Mutex<Table>,
    most: usize,
    per_address: usize,
}

#[derive(Debug, Default)]
struct Table {
    /// Number of the next connection: they grow with time.
    next: u64,
    total: usize,
    holders: HashMap<IpAddr, BTreeSet<u64>>,
    lines: Lines,
}

/// Smallest share of an address: connections that a worker accepts in a row must fit, those of one client of several workers too.
const SMALLEST_SHARE: usize = 128;

impl PendingPeers {
    /// Room for `most` connections, half of them from one address.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        let per_address = (most / 2).max(SMALLEST_SHARE).min(most);
        PendingPeers { table: Mutex::default(), most, per_address }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from `address`; tells, at most once a minute, if another connection had to give way.
    pub fn enter(self: &Arc<Self>, address: IpAddr, now: Mono, tell: impl FnOnce(Told)) -> PendingPlace {
        let holder = holder(address);
        let mut table = self.table();
        let own = table.holders.get(&holder).map_or(0, BTreeSet::len);
        let giver = match own >= self.per_address {
            true => Some(holder),
            false if table.total >= self.most => table.largest(),
            false => None,
        };
        let oldest = giver.and_then(|giver| Some((giver, *table.holders.get(&giver)?.first()?)));
        let before = oldest.and_then(|(giver, number)| {
            table.remove(giver, number);
            table.lines.due(now)
        });
        let number = table.next;
        table.next += 1;
        table.total += 1;
        table.holders.entry(holder).or_default().insert(number);
        drop(table);
        if let Some(before) = before {
            tell(Told::GaveWay(before + 1));
        }
        PendingPlace { pending: Arc::clone(self), holder, number }
    }

    #[cfg(test)]
    fn held(&self) -> (usize, usize) {
        let table = self.table();
        (table.total, table.holders.len())
    }
}

impl Table {
    /// The address that has most connections; of several, the one whose oldest connection is older. Searched for, but only when all
    /// places are taken.
    fn largest(&self) -> Option<IpAddr> {
        let most = self.holders.iter().max_by_key(|(_, own)| (own.len(), Reverse(own.first())));
        most.map(|(holder, _)| *holder)
    }

    fn remove(&mut self, holder: IpAddr, number: u64) {
        let Some(own) = self.holders.get_mut(&holder) else { return };
        self.total -= usize::from(own.remove(&number));
        if own.is_empty() {
            self.holders.remove(&holder);
        }
    }
}

/// A connection's place among the ones without a complete handshake; given back when dropped.
#[derive(Debug)]
pub struct PendingPlace {
    pending: Arc<PendingPeers>,
    holder: IpAddr,
    number: u64,
}

/// How often a connection without an introduction looks whether it is to give way, ns.
pub const LOOK: u64 = SECOND / 4;

impl PendingPlace {
    /// Whether the connection is to be closed because a newer one has its place.
    pub fn evicted(&self) -> bool {
        !self.pending.table().holders.get(&self.holder).is_some_and(|own| own.contains(&self.number))
    }
}

impl Drop for PendingPlace {
    fn drop(&mut self) {
        self.pending.table().remove(self.holder, self.number);
    }
}

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

/// What is remembered of addresses, those of the least recent ones forgotten when they become too many.
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
        let pending = Arc::new(PendingPeers::new(400));
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
        assert_eq!(pending.held(), (400, 251));
        assert_eq!(lines, 1, "one line a minute");
        drop((quiet, busy, more));
        assert_eq!(pending.held(), (0, 0));
    }

    /// Against a list that is searched: the same connections give way.
    #[test]
    fn the_order_agrees_with_a_search() {
        let pending = Arc::new(PendingPeers::new(150));
        let mut rng = transport::Rng::new(3);
        let mut open: Vec<(u64, u32, PendingPlace)> = Vec::new();
        for number in 0..5_000 {
            if rng.between(0, 3) == 0 && !open.is_empty() {
                let at = rng.between(0, open.len() as u64 - 1) as usize;
                open.swap_remove(at);
                continue;
            }
            let from = rng.between(0, 9).pow(2) as u32;
            // Of each address, how many it has, and the number of its oldest.
            let mut held = std::collections::BTreeMap::<u32, (usize, u64)>::new();
            for (number, n, _) in &open {
                let (count, oldest) = held.entry(*n).or_insert((0, *number));
                (*count, *oldest) = (*count + 1, (*number).min(*oldest));
            }
            let has_its_share = held.get(&from).is_some_and(|(count, _)| *count >= 128);
            let most = open
                .iter()
                .filter(|(_, n, _)| !has_its_share || *n == from)
                .max_by_key(|(number, n, _)| (held[n].0, Reverse(held[n].1), Reverse(*number)))
                .map(|(number, ..)| *number)
                .filter(|_| open.len() >= 150 || has_its_share);
            let place = pending.enter(ip(from), Mono(0), drop);
            let given: Vec<u64> = open.iter().filter(|o| o.2.evicted()).map(|o| o.0).collect();
            assert_eq!(given, most.into_iter().collect::<Vec<_>>());
            open.retain(|o| !o.2.evicted());
            open.push((number, from, place));
        }
        assert_eq!(pending.held().0, open.len());
    }

    #[test]
    fn addresses_of_one_host_count_together() {
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(holder(v6("2001:db8:1:2:3::4")), holder(v6("2001:db8:1:2:ffff::1")));
        assert_ne!(holder(v6("2001:db8:1:2::1")), holder(v6("2001:db8:1:3::1")));
        assert_eq!(holder(v6("::ffff:192.0.2.1")), v6("192.0.2.1"));
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
