//! One socket on a worker, and the table that holds them.

use metrics::{Clamped, EcnWatch, Group, Mono, SocketState, TcpInfo};
use transport::admission::{PendingPlace, RegisteredPlace};
use transport::{Can, DatagramSocket as _, Flow, LinkBudget, Path, Platform, StreamSocket as _, Watch};

/// Stages of a link's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The kernel is connecting it.
    Connecting,
    Open,
}

/// A socket of either kind. UDP sockets remember more, and are boxed so that links of the other
/// kind do not pay for it.
pub(crate) enum Socket<P: Platform> {
    Stream(P::Stream),
    Datagram(Box<P::Udp>),
}

impl<P: Platform> Socket<P> {
    /// Arms the reactor anew, after each turn that waits. The call is direct: on a reactor that
    /// reports edges it is nothing.
    #[inline]
    pub(crate) fn rearm(
        &self,
        reactor: &P::Reactor,
        key: Key,
        read: bool,
        write: bool,
    ) -> std::io::Result<()> {
        match self {
            Socket::Stream(stream) => stream.rearm(reactor, key.0, read, write),
            Socket::Datagram(udp) => udp.rearm(reactor, key.0, read, write),
        }
    }

    /// The socket as a reactor watches it.
    pub(crate) fn as_watch(&self) -> &dyn Watch<P> {
        match self {
            Socket::Stream(stream) => stream,
            Socket::Datagram(udp) => &**udp,
        }
    }

    /// The kernel's TCP_INFO of a connection.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        let Socket::Stream(stream) = self else { return None };
        stream.info()
    }

    /// DSCP of the packets of a connection's peer, where the kernel keeps it.
    pub(crate) fn received_dscp(&self) -> Option<u8> {
        let Socket::Stream(stream) = self else { return None };
        stream.received_dscp()
    }

    /// Part of TCP_INFO, for a single message.
    pub(crate) fn state(&self) -> Option<SocketState> {
        let Socket::Stream(stream) = self else { return None };
        stream.state()
    }

    /// Ends it: a connection in order or, as `reset` says, at once.
    pub(crate) fn close(self, reset: bool) {
        match self {
            Socket::Stream(stream) if reset => stream.abort(),
            socket => drop(socket),
        }
    }

    /// Lets its receive calls sleep; whether they can.
    pub(crate) fn let_sleep(&self) -> bool {
        match self {
            Socket::Stream(stream) => stream.let_sleep().is_ok(),
            Socket::Datagram(udp) => udp.let_sleep().is_ok(),
        }
    }

    /// True while transmit stamps are pending, which are delivered to a flow although it may not
    /// read.
    pub(crate) fn awaits_stamps(&self) -> bool {
        matches!(self, Socket::Datagram(udp) if udp.awaits_stamps())
    }
}

/// The place of an accepted link among all of its server.
pub(crate) enum ServerPlace {
    /// Its peer has proved nothing.
    Pending(PendingPlace),
    /// Its peer has proved something, and the number of such links is limited.
    Registered { _place: RegisteredPlace },
}

/// History of a link, and its arrangements.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    /// Known to the reactor.
    pub(crate) watched: bool,
    /// And known to want to send: a stream always, a UDP socket once it has been full.
    pub(crate) watched_to_send: bool,
    /// Waiting to be registered with the reactor.
    pub(crate) to_register: bool,
    /// Has not moved a byte yet.
    pub(crate) fresh: bool,
    /// Its peer has proved nothing: [`Link::place`] says so, too.
    pub(crate) pending: bool,
    /// Its peer has said nothing that counts, either.
    pub(crate) silent: bool,
    /// Bytes received while it was pending.
    pub(crate) said: usize,
    /// Its flow hands it to the session, which has nothing to read yet.
    pub(crate) to_detach: bool,
    /// Counted among its group's links without received bytes.
    pub(crate) unheard: bool,
    /// Waiting in the ready queue.
    pub(crate) queued: bool,
    /// The peer has closed: end of stream is to be read, even after a short read.
    pub(crate) hung_up: bool,
    pub(crate) half_closed: bool,
    /// Its receive calls may sleep; `None` when that was not tried.
    pub(crate) sleepy: Option<bool>,
    pub(crate) retransmits: u32,
    /// Its counters of ECN, where it was negotiated.
    pub(crate) ecn: Option<Box<EcnWatch>>,
    /// Its long sends are to end where segments end.
    pub(crate) whole_segments: bool,
    /// Its last send was a long one.
    pub(crate) bulk: bool,
}

pub(crate) struct Link<P: Platform> {
    pub(crate) socket: Socket<P>,
    pub(crate) flow: Box<dyn Flow>,
    pub(crate) phase: Phase,
    pub(crate) path: Option<Path>,
    pub(crate) target: std::net::SocketAddr,
    pub(crate) can: Can,
    /// The limits of its client, if there are any.
    pub(crate) budget: Option<Box<LinkBudget>>,
    pub(crate) state: LinkState,
    /// Earliest timer in the heap.
    pub(crate) armed: Option<Mono>,
    /// Group whose connector or acceptor made it.
    pub(crate) owner: Group,
    /// Its place among the accepted links.
    pub(crate) place: Option<ServerPlace>,
    /// The group that counts it, once it counts.
    pub(crate) counted: Option<Group>,
    /// When connecting began, or when it was accepted.
    pub(crate) born: Mono,
    /// Time to connect, ns.
    pub(crate) connect_ns: Option<u64>,
}

impl<P: Platform> Link<P> {
    /// True if a read alone shows the state of the link.
    pub(crate) fn is_tried(&self) -> bool {
        let reads = self.flow.interest().read != transport::Read::Pause;
        self.phase == Phase::Open && self.counted.is_some() && self.can.send && reads
    }

    /// Deregisters the socket: each packet to a registered socket costs its sender a wake-up.
    pub(crate) fn unwatch(&mut self, reactor: &P::Reactor) {
        if std::mem::take(&mut self.state.watched) {
            // A reactor that does not know the socket has nothing to forget.
            let _ = self.socket.as_watch().forget(reactor);
        }
    }

    /// True if the reactor does not watch it yet.
    pub(crate) fn unwatched(&self) -> bool {
        !self.state.watched || (!self.can.send && !self.state.watched_to_send)
    }
}

/// A key that names a link for as long as it lives: index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    fn index(self) -> usize {
        usize::clamped(self.0 & 0xffff_ffff)
    }
}

/// A generation, and the link that has it.
type LinkSlot<P> = Option<(u32, Box<Link<P>>)>;

pub(crate) struct Links<P: Platform> {
    slots: Vec<LinkSlot<P>>,
    free: Vec<u32>,
    /// Of the next link; below 2^31, so that no key is ever the reactor's own.
    generation: u32,
}

impl<P: Platform> Default for Links<P> {
    fn default() -> Self {
        Links { slots: Vec::new(), free: Vec::new(), generation: 0 }
    }
}

impl<P: Platform> Links<P> {
    pub(crate) fn insert(&mut self, link: Link<P>) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::clamped(self.slots.len()) - 1
        });
        let generation = self.generation;
        self.generation = (generation + 1) & 0x7fff_ffff;
        self.slots[usize::clamped(index)] = Some((generation, Box::new(link)));
        Key(u64::from(generation) << 32 | u64::from(index))
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<&mut Link<P>> {
        let (generation, link) = self.slots.get_mut(key.index())?.as_mut()?;
        (u64::from(*generation) == key.0 >> 32).then_some(&mut **link)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Box<Link<P>>> {
        let slot = self.slots.get_mut(key.index())?;
        let (_, link) = slot.take_if(|(generation, _)| u64::from(*generation) == key.0 >> 32)?;
        self.free.push(u32::clamped(key.index()));
        if self.len() == 0 {
            // All slots are looked through for the keys: after many links that would take long for
            // a few.
            self.slots.clear();
            self.free.clear();
        }
        Some(link)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The key of the only one, if there is one only.
    pub(crate) fn only(&self) -> Option<Key> {
        if self.len() == 1 { self.all().next() } else { None }
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.all().collect()
    }

    fn all(&self) -> impl Iterator<Item = Key> {
        let key = |(index, slot): (usize, &LinkSlot<P>)| {
            let (generation, _) = slot.as_ref()?;
            Some(Key(u64::from(*generation) << 32 | u64::clamped(index)))
        };
        self.slots.iter().enumerate().filter_map(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::{System, Udp};
    use transport::{FlowId, Interest, SocketSettings};

    struct Quiet;

    impl Flow for Quiet {
        fn interest(&self) -> Interest {
            Interest::NONE
        }
        fn id(&self) -> FlowId {
            FlowId::default()
        }
    }

    fn link() -> Link<System> {
        let at = "127.0.0.1:0".parse().unwrap();
        let udp = Udp::bind(at, false, &SocketSettings::default()).unwrap();
        Link {
            socket: Socket::Datagram(Box::new(udp)),
            flow: Box::new(Quiet),
            phase: Phase::Open,
            path: None,
            target: at,
            can: Can { read: true, send: true },
            budget: None,
            state: LinkState::default(),
            armed: None,
            owner: Group(1),
            place: None,
            counted: None,
            born: Mono(0),
            connect_ns: None,
        }
    }

    #[test]
    fn when_the_last_link_ends_no_slot_is_kept_and_old_keys_find_nothing() {
        let mut links = Links::default();
        let mut old: Vec<Key> = (0..20).map(|_| links.insert(link())).collect();
        assert!(links.remove(old[3]).is_some() && links.remove(old[3]).is_none());
        let again = links.insert(link());
        assert!(links.get(old[3]).is_none() && links.get(again).is_some());
        old[3] = again;
        assert_eq!(links.keys(), old);
        old.iter().for_each(|key| drop(links.remove(*key)));
        assert_eq!((links.len(), links.slots.len(), links.only()), (0, 0, None));
        let new = links.insert(link());
        assert_eq!(links.only(), Some(new));
        assert!(old.iter().all(|key| links.get(*key).is_none() && links.remove(*key).is_none()));
        assert!(links.get(new).is_some());
    }
}
