//! One UDP socket for many peers, where a peer cannot have a socket of its own on the bound one's
//! port: what arrives is dealt out by its source.

use super::Udp;
use super::net::UdpMemory;
use crate::reactor::Bell;
use crate::sys::{lock, not_received, plain, uninterrupted};
use crate::{Clock, Reactor, System};
use metrics::Mono;
use socket2::Socket;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use transport::{Got, Path, Received, Trigger, Watch};

/// Most datagrams that are dealt out in a row before waiting readers get their turn.
const AT_ONCE: usize = 64;
/// Datagrams that are dealt out at most before a peer has its own part.
const ALL: usize = 4_096;
/// Most bytes that wait for one peer; further datagrams are dropped, and counted.
const LIMIT: usize = 4 << 20;
/// A datagram's share of the limit beside its bytes.
const OVERHEAD: usize = 128;

/// A part in a socket.
#[derive(Debug)]
pub(super) enum SocketPart {
    /// The bound socket: it receives the datagrams of peers without a part.
    Bound(Arc<Dealer>),
    /// A peer's part in it.
    Peer(Arc<Dealer>, Arc<Mailbox>, SocketAddr),
}

impl Drop for SocketPart {
    fn drop(&mut self) {
        if let SocketPart::Peer(dealer, mailbox, peer) = self {
            let mut dealt = lock(&dealer.dealt);
            let own = |of: &Weak<Mailbox>| of.ptr_eq(&Arc::downgrade(mailbox));
            if dealt.peers.get(peer).is_some_and(own) {
                dealt.peers.remove(peer);
            }
        }
    }
}

/// A bound socket, and who receives from it.
#[derive(Debug)]
pub(super) struct Dealer {
    socket: Arc<Socket>,
    /// Peers have or had parts in it; until then the bound socket reads by itself.
    deals: AtomicBool,
    /// Held from the receipt of a datagram until it is in its mailbox, so that a peer's stay in
    /// their order.
    dealt: Mutex<Dealt>,
    others: Mailbox,
}

#[derive(Debug, Default)]
struct Dealt {
    buffer: Vec<u8>,
    peers: BTreeMap<SocketAddr, Weak<Mailbox>>,
}

impl Dealer {
    pub(super) fn new(socket: Arc<Socket>) -> Self {
        Dealer { socket, deals: AtomicBool::new(false), dealt: Mutex::default(), others: Mailbox::default() }
    }

    /// A part for the peer. Earlier datagrams from it stay the bound socket's.
    pub(super) fn admit(&self, peer: SocketAddr, clock: &Clock) -> Arc<Mailbox> {
        let mut dealt = lock(&self.dealt);
        self.deals.store(true, Ordering::Release);
        // An error of the socket is returned to its readers.
        let _ = self.deal(&mut dealt, clock, ALL);
        let mailbox = Arc::new(Mailbox::default());
        dealt.peers.insert(peer, Arc::downgrade(&mailbox));
        mailbox
    }

    /// Receives into the mailboxes, `most` datagrams at most; returns their number.
    fn deal(&self, dealt: &mut Dealt, clock: &Clock, most: usize) -> io::Result<usize> {
        let Dealt { buffer, peers } = dealt;
        buffer.resize(1 << 16, 0);
        for n in 0..most {
            match receive(&self.socket, buffer) {
                Ok((len, Some(from))) => {
                    let came = Arrival { bytes: buffer[..len].to_vec(), from, at: clock.now() };
                    match peers.get(&from).and_then(Weak::upgrade) {
                        Some(mailbox) => mailbox.put(came),
                        None => self.others.put(came),
                    }
                }
                Ok((_, None)) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(n),
                // The network's report about an earlier datagram does not name its destination.
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(most)
    }

    /// The next datagram in a mailbox, which is filled when it is empty.
    fn next(&self, mailbox: &Mailbox, clock: &Clock) -> io::Result<Option<Arrival>> {
        let waiting = mailbox.take();
        if waiting.is_some() {
            return Ok(waiting);
        }
        self.deal(&mut lock(&self.dealt), clock, AT_ONCE)?;
        Ok(mailbox.take())
    }
}

/// One datagram and its source, `None` for a source that is no Internet address. The buffer holds
/// the longest possible datagram.
pub(super) fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
    // SAFETY: bytes that are initialised may be seen as bytes that need not be, as long as nothing
    // but initialised bytes is written to them, and the system call writes nothing else.
    let raw = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    let (len, from) = uninterrupted(|| socket.recv_from(raw))?;
    Ok((len, from.as_socket().map(plain)))
}

#[derive(Debug)]
struct Arrival {
    bytes: Vec<u8>,
    from: SocketAddr,
    at: Mono,
}

/// Datagrams of one source, and the watcher that is notified of arrivals.
#[derive(Debug, Default)]
pub(super) struct Mailbox(Mutex<Mail>);

#[derive(Debug, Default)]
struct Mail {
    queue: VecDeque<Arrival>,
    bytes: usize,
    dropped: u32,
    watcher: Option<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    bell: Arc<Bell>,
    key: u64,
    /// A report is wanted when something can be read, and when something can be sent.
    read: bool,
    write: bool,
    /// And wanted again after each.
    level: bool,
}

impl Mail {
    /// Reports wanted readiness that exists. The socket always counts as writable: only a send
    /// shows if the one socket of all is full.
    fn report(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let (readable, writable) = (watcher.read && !self.queue.is_empty(), watcher.write);
        if readable || writable {
            (watcher.read, watcher.write) = (watcher.level, false);
            watcher.bell.post(watcher.key, readable, writable);
        }
    }

    fn forget(&mut self) -> io::Result<()> {
        let watcher = self.watcher.take().ok_or(ErrorKind::NotFound)?;
        watcher.bell.take_back(watcher.key);
        Ok(())
    }
}

impl Mailbox {
    fn put(&self, came: Arrival) {
        let mut mail = lock(&self.0);
        let size = came.bytes.len() + OVERHEAD;
        if mail.bytes + size > LIMIT {
            mail.dropped = mail.dropped.saturating_add(1);
            return;
        }
        mail.bytes += size;
        mail.queue.push_back(came);
        mail.report();
    }

    fn take(&self) -> Option<Arrival> {
        let mut mail = lock(&self.0);
        let came = mail.queue.pop_front()?;
        mail.bytes -= came.bytes.len() + OVERHEAD;
        if mail.watcher.as_ref().is_some_and(|watcher| watcher.level) {
            mail.report();
        }
        Some(came)
    }

    fn dropped(&self) -> u32 {
        lock(&self.0).dropped
    }

    fn watch(&self, reactor: &Reactor, key: u64, write: bool, level: bool) {
        let mut mail = lock(&self.0);
        // An earlier registration gets no further report.
        let _ = mail.forget();
        mail.watcher = Some(Watcher { bell: Arc::clone(reactor.bell()), key, read: true, write, level });
        mail.report();
    }

    fn rearm(&self, key: u64, read: bool, write: bool) -> io::Result<()> {
        let mut mail = lock(&self.0);
        let watcher = mail.watcher.as_mut().ok_or(ErrorKind::NotFound)?;
        (watcher.key, watcher.read, watcher.write) = (key, read, write);
        mail.report();
        Ok(())
    }
}

impl Udp {
    /// True if its datagrams are dealt to it.
    pub(super) fn is_dealt(&self) -> bool {
        match &self.shared {
            Some(SocketPart::Bound(dealer)) => dealer.deals.load(Ordering::Acquire),
            Some(SocketPart::Peer(..)) => true,
            None => false,
        }
    }

    /// The next datagram that is dealt to it, `most` bytes at most.
    pub(super) fn dealt<'m>(
        &self,
        memory: &'m mut UdpMemory,
        clock: &Clock,
        most: usize,
        skip: bool,
    ) -> Got<'m> {
        let (dealer, mailbox) = match &self.shared {
            Some(SocketPart::Bound(dealer)) => (dealer, &dealer.others),
            Some(SocketPart::Peer(dealer, mailbox, _)) => (dealer, &**mailbox),
            None => return Got::Nothing,
        };
        let came = match dealer.next(mailbox, clock) {
            Ok(Some(came)) => came,
            Ok(None) => return Got::Nothing,
            Err(e) => return not_received(&e),
        };
        let local = self.path.map_or_else(|| Udp::local(self).map(plain).ok(), |path| Some(path.local));
        let from = local.map(|local| Path { peer: came.from, local });
        let got = memory.whole_datagram(&came.bytes, came.at, most, skip);
        Got::Received(Received { from, dropped: mailbox.dropped(), ..got })
    }

    /// Destination of datagrams, when the socket itself is not connected.
    pub(super) fn shared_peer(&self) -> Option<SocketAddr> {
        match &self.shared {
            Some(SocketPart::Peer(.., peer)) => Some(*peer),
            _ => None,
        }
    }

    fn mailbox(&self) -> Option<&Mailbox> {
        match self.shared.as_ref()? {
            SocketPart::Bound(dealer) => Some(&dealer.others),
            SocketPart::Peer(_, mailbox, _) => Some(mailbox),
        }
    }

    /// The mailbox of one that the system does not know.
    fn own_mailbox(&self) -> Option<&Mailbox> {
        self.mailbox().filter(|_| self.shared_peer().is_some())
    }
}

/// A peer's part is watched by its mailbox; the bound socket is watched by the system, and its
/// mailbox beside it.
impl Watch<System> for Udp {
    fn watch(&self, reactor: &Reactor, key: u64, trigger: Trigger) -> io::Result<()> {
        if let Some(mailbox) = self.mailbox() {
            let write = trigger == Trigger::Edges && self.shared_peer().is_some();
            mailbox.watch(reactor, key, write, trigger == Trigger::Level);
        }
        if self.own_mailbox().is_some() { Ok(()) } else { reactor.watch(self, key, trigger) }
    }

    fn rearm(&self, reactor: &Reactor, key: u64, read: bool, write: bool) -> io::Result<()> {
        let own = self.own_mailbox().is_some();
        if let Some(mailbox) = self.mailbox() {
            mailbox.rearm(key, read, write && own)?;
        }
        if own { Ok(()) } else { reactor.rearm(self, key, read, write) }
    }

    fn forget(&self, reactor: &Reactor) -> io::Result<()> {
        if let Some(mailbox) = self.mailbox() {
            lock(&mailbox.0).forget()?;
        }
        if self.own_mailbox().is_some() { Ok(()) } else { reactor.forget(self) }
    }

    fn before_close(&self, reactor: &Reactor) {
        // Only watched objects need to be forgotten.
        let _ = Watch::<System>::forget(self, reactor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_one_peer_is_bounded_and_the_rest_is_counted() {
        let mailbox = Mailbox::default();
        let from = "192.0.2.1:7".parse().unwrap();
        let arrival = |n: u32| Arrival { bytes: n.to_be_bytes().repeat(256), from, at: Mono(n.into()) };
        let fit = u32::try_from(LIMIT / (1_024 + OVERHEAD)).unwrap();
        (0..fit + 3).for_each(|n| mailbox.put(arrival(n)));
        assert_eq!(mailbox.dropped(), 3);
        assert_eq!(mailbox.take().unwrap().at, Mono(0));
        mailbox.put(arrival(9));
        assert_eq!(mailbox.dropped(), 3, "there is room for one");
        let rest: Vec<_> = std::iter::from_fn(|| mailbox.take()).map(|came| came.at.0).collect();
        assert!(rest[..rest.len() - 1].iter().copied().eq(1..u64::from(fit)) && rest.last() == Some(&9));
        assert_eq!(lock(&mailbox.0).bytes, 0);
    }

    #[test]
    fn a_part_that_is_given_back_leaves_nothing_behind() {
        let clock = Clock::new();
        let bound = Udp::bind(crate::testing::here(), false, &transport::SocketSettings::default()).unwrap();
        let Some(SocketPart::Bound(dealer)) = &bound.shared else { panic!("the bound socket deals") };
        let path = Path { peer: "127.0.0.1:9".parse().unwrap(), local: bound.local().unwrap() };
        let first = Udp::for_peer(&bound, &path, &transport::SocketSettings::default()).unwrap();
        let second = dealer.admit(path.peer, &clock);
        drop(first);
        assert_eq!(lock(&dealer.dealt).peers.len(), 1, "the later part is another's");
        drop(SocketPart::Peer(Arc::clone(dealer), second, path.peer));
        assert!(lock(&dealer.dealt).peers.is_empty());
    }
}
