//! Places for connections whose peers have proved nothing yet: a table without sockets and without
//! a clock, for the listening sockets of every protocol (the engine asks it) and for agents of a
//! fleet.

use metrics::Clamped;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
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

/// Connections whose peers have proved nothing, over all workers and over the ports that share the
/// table. A newcomer always gets a place: when its address has as many at this port as it may, the
/// oldest connection of that address gives way, and when all places are taken, the oldest
/// connection of the address that holds most, at the port that has most.
///
/// [Limited room](PendingPeers::with_room) is for connections that have proved something, too,
/// until they end: an eighth of it is left to other addresses.
#[derive(Debug)]
pub struct PendingPeers {
    table: Mutex<Table>,
    most: usize,
    per_address: usize,
    /// Connections of both kinds.
    room: usize,
}

/// A port that shares the table, and an address with connections there.
type Holder = (u16, IpAddr);

/// Ordered maps: each short connection enters and leaves, and a hash that no peer can foresee costs
/// more than the few comparisons of a small map.
#[derive(Debug, Default)]
struct Table {
    /// Number of the next connection: they grow with time.
    next: u64,
    total: usize,
    ports: BTreeMap<u16, usize>,
    /// Of each holder the numbers of its connections, the oldest first.
    holders: BTreeMap<Holder, VecDeque<u64>>,
    /// Connections that have proved something, where room is limited.
    registered: usize,
    by_address: BTreeMap<IpAddr, usize>,
    /// Connections that addresses were promised, and that have not proved anything yet; their sum.
    promised: BTreeMap<IpAddr, usize>,
    all_promised: usize,
}

/// Smallest share of an address: the connections that a worker accepts in a row must fit, several
/// workers' connections of one client too.
const SMALLEST_SHARE: usize = 128;

impl PendingPeers {
    /// Room for `most` connections, half of them from one address.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        let per_address = (most / 2).max(SMALLEST_SHARE).min(most);
        PendingPeers { table: Mutex::default(), most, per_address, room: usize::MAX }
    }

    /// The same with so much room for connections of both kinds.
    #[must_use]
    pub fn with_room(self, room: usize) -> Self {
        PendingPeers { room: room.max(2), ..self }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a connection from `address` may be accepted at all.
    pub fn has_room(&self, address: IpAddr) -> bool {
        if self.room == usize::MAX {
            return true;
        }
        let table = self.table();
        let own = table.by_address.get(&holder(address)).copied().unwrap_or(0);
        own < self.room - self.room / 8 && (table.registered + table.total < self.room || table.total > 0)
    }

    /// A place for a connection from `address`, and the number of the connection that gave way to
    /// it.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> (PendingPlace, Option<u64>) {
        self.enter_at(0, usize::MAX, address)
    }

    /// A place for a connection from `address` at the port with this number, with `most` places for
    /// that port.
    pub fn enter_at(
        self: &Arc<Self>,
        port: u16,
        most: usize,
        address: IpAddr,
    ) -> (PendingPlace, Option<u64>) {
        let holder = (port, holder(address));
        let mut table = self.table();
        let (own, promised) = (table.beyond_promise(&holder), table.all_promised);
        let is_full = table.total >= self.most.saturating_add(promised)
            || table.total.saturating_add(table.registered) >= self.room;
        let here = table.ports.get(&port).copied().unwrap_or(0);
        let giver = match own >= self.per_address.min(most.div_ceil(2)) {
            true => Some(holder),
            false if here >= most.saturating_add(promised) => table.largest_at(port),
            false if is_full => table.largest(),
            false => None,
        };
        let oldest = giver.and_then(|giver| Some((giver, *table.holders.get(&giver)?.front()?)));
        if let Some((giver, number)) = oldest {
            table.remove(giver, number);
        }
        let number = table.next;
        table.next += 1;
        table.total += 1;
        *table.ports.entry(port).or_default() += 1;
        table.holders.entry(holder).or_default().push_back(number);
        drop(table);
        (PendingPlace { pending: Arc::clone(self), holder, number }, oldest.map(|(_, number)| number))
    }

    /// Promises an address `connections`: until they have proved something, they have places beyond
    /// its share. Whoever promises has descriptors for them.
    pub fn promise(self: &Arc<Self>, address: IpAddr, connections: usize) -> Promise {
        let address = holder(address);
        let mut table = self.table();
        *table.promised.entry(address).or_default() += connections;
        table.all_promised += connections;
        drop(table);
        Promise { pending: Arc::clone(self), address, connections }
    }

    /// Number of taken places, and of the addresses that have them.
    pub fn held(&self) -> (usize, usize) {
        let table = self.table();
        (table.total, table.holders.len())
    }
}

impl Table {
    /// Of the port that has most connections the address that has most; of several, the one whose
    /// oldest connection is older. Searched for, but only when all places are taken.
    fn largest(&self) -> Option<Holder> {
        let (port, _) = self.ports.iter().max_by_key(|(port, count)| (**count, Reverse(**port)))?;
        self.largest_at(*port)
    }

    fn largest_at(&self, port: u16) -> Option<Holder> {
        let here = self.holders.iter().filter(|((at, _), _)| *at == port);
        let most = here.max_by_key(|(holder, own)| (self.beyond_promise(holder), Reverse(own.front())));
        most.map(|(holder, _)| *holder)
    }

    /// Connections of an address at a port beyond the promised ones.
    fn beyond_promise(&self, holder: &Holder) -> usize {
        let own = self.holders.get(holder).map_or(0, VecDeque::len);
        if own == 0 {
            return 0;
        }
        own.saturating_sub(self.promised.get(&holder.1).copied().unwrap_or(0))
    }

    /// Takes `connections` off the promise to an address.
    fn fulfil(&mut self, address: IpAddr, connections: usize) {
        if let Some(promised) = self.promised.get_mut(&address) {
            let fulfilled = connections.min(*promised);
            *promised -= fulfilled;
            self.all_promised -= fulfilled;
            if *promised == 0 {
                self.promised.remove(&address);
            }
        }
    }

    fn remove(&mut self, holder: Holder, number: u64) {
        let Some(own) = self.holders.get_mut(&holder) else { return };
        let removed = usize::from(own.binary_search(&number).is_ok_and(|at| own.remove(at).is_some()));
        self.total -= removed;
        if own.is_empty() {
            self.holders.remove(&holder);
        }
        if let Some(count) = self.ports.get_mut(&holder.0) {
            *count -= removed;
            if *count == 0 {
                self.ports.remove(&holder.0);
            }
        }
    }
}

/// A connection's place while its peer has proved nothing; given back when dropped.
#[derive(Debug)]
pub struct PendingPlace {
    pending: Arc<PendingPeers>,
    holder: Holder,
    number: u64,
}

impl PendingPlace {
    /// The connection's number, which no other connection gets.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// True if the connection is to be closed because a newer one has its place.
    pub fn evicted(&self) -> bool {
        let table = self.pending.table();
        table.holders.get(&self.holder).is_none_or(|own| own.binary_search(&self.number).is_err())
    }

    /// The peer has proved something: the place is given back, and where room is limited the
    /// connection gets one among the registered ones.
    pub fn register(self) -> Option<RegisteredPlace> {
        let address = self.holder.1;
        let mut table = self.pending.table();
        table.fulfil(address, 1);
        if self.pending.room == usize::MAX {
            return None;
        }
        table.registered += 1;
        *table.by_address.entry(address).or_default() += 1;
        drop(table);
        Some(RegisteredPlace { pending: Arc::clone(&self.pending), address })
    }
}

impl Drop for PendingPlace {
    fn drop(&mut self) {
        self.pending.table().remove(self.holder, self.number);
    }
}

/// Connections that an address was promised. The drop of the promise withdraws as many as it was
/// for, and may so shorten another promise to the same address, which keeps the share of an
/// address.
#[derive(Debug)]
pub struct Promise {
    pending: Arc<PendingPeers>,
    address: IpAddr,
    connections: usize,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.pending.table().fulfil(self.address, self.connections);
    }
}

/// A connection's place once its peer has proved something; given back when dropped.
#[derive(Debug)]
pub struct RegisteredPlace {
    pending: Arc<PendingPeers>,
    address: IpAddr,
}

impl Drop for RegisteredPlace {
    fn drop(&mut self) {
        let mut table = self.pending.table();
        table.registered = table.registered.saturating_sub(1);
        if let Some(count) = table.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                table.by_address.remove(&self.address);
            }
        }
    }
}

/// The part of a table that belongs to the listening sockets of a server.
#[derive(Clone, Debug)]
pub struct Admission {
    peers: Arc<PendingPeers>,
    port: u16,
    /// Most pending connections at the port.
    most: usize,
}

impl Admission {
    /// A table of its own.
    pub fn alone(peers: PendingPeers) -> Self {
        Admission { peers: Arc::new(peers), port: 0, most: usize::MAX }
    }

    /// The same table for the port with this number, with `most` places for that port.
    #[must_use]
    pub fn at(&self, port: u16, most: usize) -> Self {
        Admission { peers: Arc::clone(&self.peers), port, most: most.max(1) }
    }

    /// True if a connection from `address` may be accepted at all.
    pub fn has_room(&self, address: IpAddr) -> bool {
        self.peers.has_room(address)
    }

    /// Promises an address `connections`.
    pub fn promise(&self, address: IpAddr, connections: u32) -> Promise {
        self.peers.promise(address, usize::clamped(connections))
    }

    /// A place for a connection from `address`, and whether another one gave way to it.
    pub fn enter(&self, address: IpAddr) -> (PendingPlace, bool) {
        let (place, gave_way) = self.peers.enter_at(self.port, self.most, address);
        (place, gave_way.is_some())
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
            let mut held = BTreeMap::<u32, (usize, u64)>::new();
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
    fn the_oldest_connection_of_the_address_that_holds_most_gives_way() {
        let pending = Arc::new(PendingPeers::new(400));
        let enter = |n: u32| pending.enter(ip(n)).0;
        let quiet: Vec<_> = (1..=100).map(enter).collect();
        let busy: Vec<_> = (0..300).map(|_| enter(1000)).collect();
        // 200 are the share of one address.
        assert_eq!(busy.iter().filter(|place| place.evicted()).count(), 100);
        assert!(busy[..100].iter().all(PendingPlace::evicted));
        let more: Vec<_> = (2000..2150).map(enter).collect();
        assert!(quiet.iter().chain(&more).all(|place| !place.evicted()), "one each: they stay");
        assert_eq!(busy.iter().filter(|place| place.evicted()).count(), 150, "as many as had no room");
        assert_eq!(pending.held(), (400, 251));
        drop((quiet, busy, more));
        assert_eq!(pending.held(), (0, 0));
    }

    #[test]
    fn the_port_that_has_most_gives_way_and_the_others_keep_theirs() {
        let pending = Arc::new(PendingPeers::new(300));
        let quiet: Vec<_> = (0..40).map(|n| pending.enter_at(7, usize::MAX, ip(n)).0).collect();
        // A flood of many addresses at another port, each of which has one connection, too.
        let flood: Vec<_> = (1_000..3_000).map(|n| pending.enter_at(9, usize::MAX, ip(n)).0).collect();
        assert!(quiet.iter().all(|place| !place.evicted()));
        assert_eq!(flood.iter().filter(|place| !place.evicted()).count(), 260);
        // A port with places of its own takes none of the others' beyond these.
        let few: Vec<_> = (0..100).map(|n| pending.enter_at(19, 10, ip(n)).0).collect();
        assert_eq!(few.iter().filter(|place| !place.evicted()).count(), 10);
        assert!(quiet.iter().all(|place| !place.evicted()));
        drop((quiet, flood, few));
        let table = pending.table();
        assert!(table.ports.is_empty() && table.holders.is_empty() && table.total == 0);
    }

    #[test]
    fn promised_connections_keep_their_places_beside_strangers() {
        let pending = Arc::new(PendingPeers::new(40));
        let promise = pending.promise(ip(1), 300);
        // All at once, before one of them has said anything, beside strangers who take all other
        // places.
        let enter = |n: u32| pending.enter(ip(n)).0;
        let own: Vec<_> = (0..300).map(|_| enter(1)).collect();
        let strangers: Vec<_> = (100..400).map(enter).collect();
        assert!(own.iter().all(|place| !place.evicted()));
        assert_eq!(strangers.iter().filter(|place| !place.evicted()).count(), 40);
        // Proofs fulfil the promise: further connections are strangers.
        own.into_iter().for_each(|place| drop(place.register()));
        let more: Vec<_> = (0..60).map(|_| enter(1)).collect();
        assert_eq!(pending.held().0, 40);
        drop((promise, strangers, more));
        assert!(pending.table().promised.is_empty());
        // A promise that nobody takes up ends with its session.
        drop(pending.promise(ip(2), 7));
        assert!(pending.table().promised.is_empty());
    }

    #[test]
    fn registered_connections_leave_room_to_other_addresses() {
        let pending = Arc::new(PendingPeers::new(20).with_room(40));
        let mut held = Vec::new();
        for _ in 0..100 {
            if pending.has_room(ip(1)) {
                held.extend(pending.enter(ip(1)).0.register());
            }
        }
        assert_eq!(held.len(), 35, "an eighth of the room is left to other addresses");
        // Others that say nothing give way to each other, never to more than there is room for.
        let silent: Vec<_> = (0..100).map(|n| pending.enter(ip(100 + n)).0).collect();
        assert_eq!(silent.iter().filter(|place| !place.evicted()).count(), 5);
        assert!(pending.has_room(ip(7)));
        held.extend(silent.into_iter().filter(|place| !place.evicted()).filter_map(PendingPlace::register));
        assert_eq!(held.len(), 40);
        assert!(!pending.has_room(ip(7)), "each place is taken by a peer that has proved something");
        held.truncate(39);
        assert!(pending.has_room(ip(7)));
        drop(held);
        let table = pending.table();
        assert!(table.registered == 0 && table.by_address.is_empty());
    }

    #[test]
    fn addresses_of_one_host_count_together() {
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(holder(v6("2001:db8:1:2:3::4")), holder(v6("2001:db8:1:2:ffff::1")));
        assert_ne!(holder(v6("2001:db8:1:2::1")), holder(v6("2001:db8:1:3::1")));
        assert_eq!(holder(v6("::ffff:192.0.2.1")), v6("192.0.2.1"));
    }
}
