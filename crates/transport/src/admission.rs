//! Places for connections whose peers have proved nothing yet: a table without sockets and without
//! a clock, for the acceptors of every protocol and for agents of a fleet.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit that limits count by: an IPv4 address, or the first 64 bits of an IPv6 address, because
/// one host has all the rest.
pub fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Connections that have not introduced themselves, over all workers. A newcomer always gets a
/// place: when its address has as many as it may, the oldest connection of that address gives way,
/// and when all places are taken, the oldest connection of the address that holds most.
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
}

/// Smallest share of an address: the connections that a worker accepts in a row must fit, several
/// workers' connections of one client too.
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

    /// A place for a connection from `address`, and the number of the connection that gave way to
    /// it.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> (PendingPlace, Option<u64>) {
        let holder = holder(address);
        let mut table = self.table();
        let own = table.holders.get(&holder).map_or(0, BTreeSet::len);
        let giver = match own >= self.per_address {
            true => Some(holder),
            false if table.total >= self.most => table.largest(),
            false => None,
        };
        let oldest = giver.and_then(|giver| Some((giver, *table.holders.get(&giver)?.first()?)));
        if let Some((giver, number)) = oldest {
            table.remove(giver, number);
        }
        let number = table.next;
        table.next += 1;
        table.total += 1;
        table.holders.entry(holder).or_default().insert(number);
        drop(table);
        (PendingPlace { pending: Arc::clone(self), holder, number }, oldest.map(|(_, number)| number))
    }

    /// Number of taken places, and of the addresses that have them.
    pub fn held(&self) -> (usize, usize) {
        let table = self.table();
        (table.total, table.holders.len())
    }
}

impl Table {
    /// The address that has most connections; of several, the one whose oldest connection is older.
    /// Searched for, but only when all places are taken.
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

impl PendingPlace {
    /// The connection's number, which no other connection gets.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// True if the connection is to be closed because a newer one has its place.
    pub fn evicted(&self) -> bool {
        !self.pending.table().holders.get(&self.holder).is_some_and(|own| own.contains(&self.number))
    }
}

impl Drop for PendingPlace {
    fn drop(&mut self) {
        self.pending.table().remove(self.holder, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::from((0x7f00_0000 + n).to_be_bytes())
    }

    /// Against a list that is searched: the same connections give way.
    #[test]
    fn the_order_agrees_with_a_search() {
        let pending = Arc::new(PendingPeers::new(150));
        let mut rng = crate::Rng::new(3);
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
            let (place, gave_way) = pending.enter(ip(from));
            let given: Vec<u64> = open.iter().filter(|o| o.2.evicted()).map(|o| o.0).collect();
            assert_eq!(given, most.into_iter().collect::<Vec<_>>());
            let by_number = |number: u64| open.iter().find(|o| o.2.number() == number).map(|o| o.0);
            assert_eq!(gave_way.and_then(by_number), most);
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
}
