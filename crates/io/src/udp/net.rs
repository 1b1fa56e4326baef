//! the contract's `Net` over a UDP socket: one system call a send or receive, no allocation after
//! the first datagram.

use super::Udp;
use crate::Clock;
use crate::sys::not_sent;
use metrics::{Clamped, Mono};
use std::io;
use std::net::SocketAddr;
use transport::{
    DatagramSocket as _, Deed, Fault, Got, LONGEST_DATAGRAM, Net, Path, Read, Received, Sent, Transmit,
};

/// Pieces of one send; a burst in more of them is copied together first.
#[cfg(target_os = "linux")]
const PIECES: usize = 16;

/// A worker's memory for all its UDP sockets.
pub struct UdpMemory {
    buffer: Vec<u8>,
    /// A burst in one piece, where it has to be.
    whole: Vec<u8>,
    #[cfg(target_os = "linux")]
    relation: crate::clock::Relation,
    /// Relation of a card's times to the host's.
    #[cfg(target_os = "linux")]
    placement: crate::card::LastPlacement,
    #[cfg(target_os = "linux")]
    pub(super) control: crate::sys::message::Control,
}

impl Default for UdpMemory {
    /// Room for the longest datagram or run of them.
    fn default() -> Self {
        UdpMemory {
            // A run that was merged may be longer than what IPv4 lets one send hold.
            buffer: vec![0; 1 << 16],
            whole: Vec::new(),
            #[cfg(target_os = "linux")]
            relation: crate::clock::Relation::default(),
            #[cfg(target_os = "linux")]
            placement: crate::card::LastPlacement::default(),
            #[cfg(target_os = "linux")]
            control: crate::sys::message::Control::new(),
        }
    }
}

#[cfg(any(not(target_os = "linux"), feature = "portable"))]
impl UdpMemory {
    /// A whole datagram as a receive of `most` bytes has it.
    pub(super) fn whole_datagram(&mut self, bytes: &[u8], at: Mono, most: usize, skip: bool) -> Received<'_> {
        let (len, most) = (bytes.len(), most.min(bytes.len()));
        if skip {
            return Received::skipped(len, at);
        }
        let room = &mut self.buffer[..most];
        room.copy_from_slice(&bytes[..most]);
        Received { truncated: most < len, ..Received::stream(room, at) }
    }
}

/// A socket, a worker's memory and its clock.
pub struct UdpNet<'a> {
    pub(super) udp: &'a mut Udp,
    pub(super) memory: &'a mut UdpMemory,
    pub(super) clock: &'a Clock,
    /// Receive calls sleep until data arrives: for sockets that were [let
    /// sleep](transport::DatagramSocket::let_sleep).
    pub(super) sleeps: bool,
}

impl UdpNet<'_> {
    #[cfg(target_os = "linux")]
    fn patience(&self) -> i32 {
        if self.sleeps { 0 } else { libc::MSG_DONTWAIT }
    }

    /// Datagram after datagram, where the kernel does not cut.
    fn one_by_one(&mut self, burst: &Transmit<'_>) -> Sent {
        let mut whole = std::mem::take(&mut self.memory.whole);
        whole.clear();
        burst.slices().for_each(|slice| whole.extend_from_slice(slice));
        let size = if burst.segment == 0 { whole.len() } else { usize::from(burst.segment) };
        let mut wrote = Sent::default();
        for datagram in whole.chunks(size.max(1)) {
            match self.push(burst, datagram) {
                Ok(n) => wrote.bytes += n,
                Err(e) => {
                    wrote.fault = not_sent(&e);
                    break;
                }
            }
        }
        self.memory.whole = whole;
        wrote
    }

    /// Destination of a burst on an unconnected socket.
    fn destination(&self, burst: &Transmit<'_>) -> Option<SocketAddr> {
        let to = burst.to.map(|path| path.peer);
        #[cfg(any(not(target_os = "linux"), feature = "portable"))]
        let to = to.or_else(|| self.udp.shared_peer());
        let to = to?;
        Some(match to {
            SocketAddr::V4(v4) if self.udp.v6 => {
                std::net::SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            _ => to,
        })
    }
}

impl Net for UdpNet<'_> {
    #[inline]
    fn stream(&self) -> bool {
        false
    }

    /// Fewer bytes than offered: the socket is full, or the rest was refused (and says so). A part
    /// is always a whole number of datagrams.
    fn send(&mut self, burst: &Transmit<'_>) -> Sent {
        let segmented = burst.segment != 0 && burst.len() > usize::from(burst.segment);
        if burst.len() > LONGEST_DATAGRAM && !segmented {
            return Sent { bytes: 0, fault: Some(Fault { deed: Deed::Send, errno: TOO_LONG }) };
        }
        if segmented && self.udp.segments() < 2 {
            return self.one_by_one(burst);
        }
        #[cfg(all(target_os = "linux", feature = "portable"))]
        if self.udp.shared_peer().is_some() {
            return self.one_by_one(burst);
        }
        #[cfg(target_os = "linux")]
        {
            match self.at_once(burst, segmented) {
                // No offload on this way, or datagrams longer than it takes, which the kernel would
                // have to cut twice.
                Err(e) if segmented && uncuttable(&e) => {
                    self.udp.state.segments = 1;
                    self.one_by_one(burst)
                }
                result => crate::sys::sent(result),
            }
        }
        #[cfg(not(target_os = "linux"))]
        self.one_by_one(burst)
    }

    /// Up to the asked number of bytes of one datagram, the rest of which is lost (`truncated`);
    /// with merging, a run of datagrams that is never cut. Looking at fewer bytes than a datagram
    /// has is for flows that need no more of it.
    fn recv(&mut self, how: Read) -> Got<'_> {
        let (most, skip) = match how {
            Read::Pause => return Got::Nothing,
            Read::Look(n) => (usize::clamped(n.get()), false),
            Read::Skip(n) => (usize::clamped(n.get()), true),
        };
        #[cfg(any(not(target_os = "linux"), feature = "portable"))]
        if self.udp.is_dealt() {
            return self.udp.dealt(self.memory, self.clock, most, skip);
        }
        self.pull(most, skip)
    }

    #[inline]
    fn now(&mut self) -> Mono {
        self.clock.now()
    }

    #[inline]
    fn hurry(&mut self) {
        self.sleeps = false;
    }
}

const TOO_LONG: i32 = if cfg!(windows) { 10_040 } else { 90 };

#[cfg(target_os = "linux")]
fn uncuttable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

#[cfg(target_os = "linux")]
mod linux {
    use super::super::wire::{Marks, describe, local_address};
    use super::{Got, LONGEST_DATAGRAM, PIECES, Path, Received, Transmit, UdpNet, io};
    use crate::sys::{self, SHORT, gather, message, not_received, uninterrupted};
    use metrics::{CardStamp, Stamp, StampKind, Unplaced};
    use std::io::IoSlice;
    use std::os::fd::AsFd as _;

    impl UdpNet<'_> {
        pub(super) fn at_once(&mut self, burst: &Transmit<'_>, segmented: bool) -> io::Result<usize> {
            let plain = burst.to.is_none() && burst.tos.is_none() && burst.tag.is_none() && !segmented;
            if plain && burst.len() <= SHORT {
                let mut whole = [0; SHORT];
                let n = gather(burst, &mut whole);
                // Copying a short datagram costs less than control messages and pieces do.
                return uninterrupted(|| message::send_plain(self.udp.socket.as_fd(), &whole[..n]));
            }
            let mut slices = burst.slices().filter(|slice| !slice.is_empty());
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (piece, slice) in pieces.iter_mut().zip(&mut slices) {
                *piece = IoSlice::new(slice);
                count += 1;
            }
            if slices.next().is_some() {
                let mut whole = std::mem::take(&mut self.memory.whole);
                whole.clear();
                burst.slices().for_each(|slice| whole.extend_from_slice(slice));
                let result = self.call(burst, &[IoSlice::new(&whole)], segmented);
                self.memory.whole = whole;
                return result;
            }
            self.call(burst, &pieces[..count], segmented)
        }

        pub(super) fn push(&mut self, burst: &Transmit<'_>, datagram: &[u8]) -> io::Result<usize> {
            self.call(burst, &[IoSlice::new(datagram)], false)
        }

        fn pull_plain(&mut self, room: usize) -> Got<'_> {
            let flags = self.patience();
            let UdpNet { udp, memory, clock, .. } = self;
            let buffer = &mut memory.buffer[..room];
            match uninterrupted(|| message::recv_plain(udp.socket.as_fd(), buffer, flags)) {
                Ok(len) => {
                    let batch = Received::stream(&memory.buffer[..len], clock.now());
                    Got::Received(Received { from: udp.path, dropped: udp.state.drops(), ..batch })
                }
                Err(e) => not_received(&e),
            }
        }

        fn call(
            &mut self,
            burst: &Transmit<'_>,
            pieces: &[IoSlice<'_>],
            segmented: bool,
        ) -> io::Result<usize> {
            let to = self.destination(burst).map(socket2::SockAddr::from);
            let control = &mut self.memory.control;
            let card = self.udp.state.card.as_ref().is_some_and(|card| card.sends());
            describe(burst, self.udp.v6, segmented, card, control);
            let n = uninterrupted(|| message::send(self.udp.socket.as_fd(), pieces, to.as_ref(), control))?;
            if let Some(tag) = burst.tag.filter(|_| self.udp.state.numbers) {
                self.udp.state.pending_stamps.sent(tag);
            }
            Ok(n)
        }

        pub(super) fn pull(&mut self, most: usize, skip: bool) -> Got<'_> {
            // Calls that may cut datagrams report it.
            if self.udp.state.plain && !self.udp.state.other_peers && !skip && most >= LONGEST_DATAGRAM {
                return self.pull_plain(most.min(self.memory.buffer.len()));
            }
            let patience = self.patience();
            let UdpNet { udp, memory, clock, .. } = self;
            let room = match (skip, udp.state.gro) {
                (true, _) => 0,
                // A merged run must not be cut, so the limit of one datagram does not apply.
                (false, true) => memory.buffer.len(),
                (false, false) => most.min(memory.buffer.len()),
            };
            let flags = patience | if skip { libc::MSG_TRUNC } else { 0 };
            let received = loop {
                let named = udp.path.is_none() || udp.state.other_peers;
                let buffer = &mut memory.buffer[..room];
                let control = &mut memory.control;
                match uninterrupted(|| message::recv(udp.socket.as_fd(), buffer, control, named, flags)) {
                    Ok(received) => {
                        let foreign = udp.path.is_some_and(|path| {
                            received.from.is_some_and(|from| sys::plain(from) != path.peer)
                        });
                        if !foreign {
                            break received;
                        }
                    }
                    Err(e) => {
                        // Once the socket is empty, the kernel delivers datagrams of this peer
                        // only.
                        udp.state.other_peers &= e.kind() != io::ErrorKind::WouldBlock;
                        return not_received(&e);
                    }
                }
            };
            let marks = Marks::read(&memory.control);
            if let Some(dropped) = marks.dropped {
                udp.state.saw_drops(dropped);
            }
            // Another socket's wish makes the kernel stamp for all sockets that report stamps at
            // all, as stamps of departures are.
            let (stamp, at) = match marks.stamp.filter(|_| udp.state.stamps) {
                Some(wall) => memory.relation.stamped(clock, wall),
                None => (None, clock.now()),
            };
            let card = marks.card.zip(udp.state.card.as_ref()).map(|(raw_ns, card)| CardStamp {
                raw_ns,
                placed: memory
                    .placement
                    .of(card, at)
                    .ok_or(Unplaced::Unread)
                    .and_then(|placement| placement.arrival(raw_ns, stamp.unwrap_or(at))),
            });
            let from = udp.path.or_else(|| {
                let peer = sys::plain(received.from?);
                let any = if peer.is_ipv6() {
                    std::net::Ipv6Addr::UNSPECIFIED.into()
                } else {
                    std::net::Ipv4Addr::UNSPECIFIED.into()
                };
                Some(Path { peer, local: local_address(marks.local.unwrap_or((any, 0)), udp.port) })
            });
            let len = received.len;
            Got::Received(Received {
                bytes: if skip { &[] } else { &memory.buffer[..len.min(room)] },
                len,
                stride: marks.stride.map_or(len, |stride| stride.min(len)),
                at,
                stamp: stamp.map(|at| Stamp { at, kind: StampKind::KernelRx }),
                card,
                from,
                tos: marks.tos,
                ttl: marks.ttl,
                truncated: !skip && received.flags & libc::MSG_TRUNC != 0,
                dropped: udp.state.drops(),
            })
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::super::shared::receive;
    use super::{Got, Path, Received, Transmit, UdpNet, io};
    use crate::sys::{self, not_received, uninterrupted};

    impl UdpNet<'_> {
        pub(super) fn push(&mut self, burst: &Transmit<'_>, datagram: &[u8]) -> io::Result<usize> {
            let to = self.destination(burst).map(socket2::SockAddr::from);
            uninterrupted(|| match &to {
                Some(to) => self.udp.socket.send_to(datagram, to),
                None => self.udp.socket.send(datagram),
            })
        }

        /// Receives one datagram without ancillary data: no traffic class, stamps or local address.
        /// The datagram is read whole, since Windows has an error for a datagram that a receive
        /// cuts.
        pub(super) fn pull(&mut self, most: usize, skip: bool) -> Got<'_> {
            let UdpNet { udp, memory, clock, .. } = self;
            let (len, from) = match receive(&udp.socket, &mut memory.buffer) {
                Ok(received) => received,
                Err(e) => return not_received(&e),
            };
            let at = clock.now();
            let local = udp.socket.local_addr().ok().and_then(|a| a.as_socket()).map(sys::plain);
            let from = udp.path.or_else(|| Some(Path { peer: from?, local: local? }));
            if skip {
                return Got::Received(Received { from, ..Received::skipped(len, at) });
            }
            let most = most.min(len);
            let bytes = &memory.buffer[..most];
            Got::Received(Received { from, truncated: most < len, ..Received::stream(bytes, at) })
        }
    }
}
