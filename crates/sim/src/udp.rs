//! UDP: delivery to sockets, sending and receiving, stamps and ICMP errors.

use super::datagram::{Datagram, Fate, Lanes};
use super::link::chance;
use super::platform::{Sim, SimClock};
use super::socket::{Kind, MOMENT, Socket};
use super::stream::REFUSED;
use super::tcp::TTL;
use super::world::{Call, Event, World};
use metrics::{Mono, Stamp, StampKind};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use transport::{
    DatagramSocket, Deed, Effective, Fault, Got, LONGEST_DATAGRAM, Net, Path, Read, Received, Sent,
    SocketSettings, Target, Transmit, UdpEffective,
};

/// Message too long, as Linux numbers it.
const TOO_LONG: i32 = 90;
/// Transmit stamps that are waited for at once; older ones are given up.
const STAMPS: usize = 64;
/// From a send to its transmit stamp, ns.
const STAMPED: u64 = 5_000;

/// A UDP socket, as its kernel knows it.
pub(super) struct UdpState {
    local: SocketAddr,
    peer: Option<SocketAddr>,
    /// Others may be bound to its port, if they say the same.
    share: bool,
    settings: SocketSettings,
    /// What has arrived, and from where.
    inbox: VecDeque<(SocketAddr, Datagram, u32)>,
    held: usize,
    /// Datagrams dropped for want of room.
    dropped: u32,
    /// Its value as last reported, and the part that `take_drops` has reported.
    reported: u32,
    taken: u32,
    /// The error that the next call reports.
    error: Option<i32>,
    /// Transmit stamps asked for: when they come, if they do, and their tags.
    stamps: VecDeque<(Option<Mono>, u32)>,
}

impl UdpState {
    pub(super) fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    pub(super) fn shares(&self) -> bool {
        self.share
    }

    /// Traffic class and time to live of what it sends.
    fn marks(&self) -> (u8, u8) {
        (self.settings.class().unwrap_or(0), self.settings.ttl.unwrap_or(TTL))
    }

    /// Whether there is something to read, and whether there is an error or a stamp.
    pub(super) fn readiness(&self, now: Mono) -> (bool, bool) {
        let stamped = self.stamps.iter().any(|(at, _)| at.is_some_and(|at| at <= now));
        (!self.inbox.is_empty(), self.error.is_some() || stamped)
    }
}

impl World {
    fn udp(&mut self, id: u64) -> Option<&mut UdpState> {
        match &mut self.socks.get_mut(&id)?.kind {
            Kind::Datagram(udp) => Some(udp),
            _ => None,
        }
    }

    fn open_udp(
        &mut self,
        host: usize,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<u64, Fault> {
        let settings = settings.clone();
        let (inbox, stamps) = (VecDeque::new(), VecDeque::new());
        let (held, dropped, reported, taken) = (0, 0, 0, 0);
        let udp = UdpState {
            local,
            peer,
            share,
            settings,
            inbox,
            held,
            dropped,
            reported,
            taken,
            error: None,
            stamps,
        };
        self.open(host, Deed::Open, Kind::Datagram(Box::new(udp)))
    }

    fn bind_udp(
        &mut self,
        host: usize,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<u64, Fault> {
        self.owns(host, at)?;
        let local = self.address(host, Some(at));
        self.may_share(self.bound.get(&(host, local.port())), share)?;
        let id = self.open_udp(host, local, None, share, settings)?;
        self.bound.entry((host, local.port())).or_default().push(id);
        Ok(id)
    }

    pub(super) fn connect_udp(
        &mut self,
        host: usize,
        target: &Target,
        settings: &SocketSettings,
    ) -> Result<u64, Fault> {
        self.charge(Call::Connect, 0);
        target.from.map_or(Ok(()), |from| self.owns(host, from))?;
        let local = self.address(host, target.from);
        let id = self.open_udp(host, local, Some(target.to), false, settings)?;
        self.connected.insert((local, target.to), id);
        if !self.paths.contains_key(&(target.to, local)) {
            self.add_lanes(local, target.to);
        }
        Ok(id)
    }

    /// The kernel may give the new socket other peers' datagrams between the two calls; their
    /// source tells them apart later.
    pub(super) fn udp_beside(
        &mut self,
        host: usize,
        path: &Path,
        settings: &SocketSettings,
    ) -> Result<u64, Fault> {
        let from = self.charge(Call::Open, 0);
        let until = self.charge(Call::Connect, 0);
        self.may_share(self.bound.get(&(host, path.local.port())), true)?;
        let id = self.open_udp(host, path.local, Some(path.peer), true, settings)?;
        self.connected.insert((path.local, path.peer), id);
        let now = self.now;
        self.unconnected.retain(|(.., until)| *until > now);
        self.unconnected.push((host, path.local.port(), from, until));
        Ok(id)
    }

    pub(super) fn close_udp(&mut self, id: u64, host: usize, udp: &UdpState) {
        let port = udp.local.port();
        match udp.peer {
            Some(peer) if self.connected.get(&(udp.local, peer)) == Some(&id) => {
                self.connected.remove(&(udp.local, peer));
            }
            Some(_) => {}
            None => {
                if let Some(those) = self.bound.get_mut(&(host, port)) {
                    those.retain(|other| *other != id);
                }
            }
        }
    }

    /// New lanes between two addresses, the first of which begins.
    pub(super) fn add_lanes(&mut self, one: SocketAddr, other: SocketAddr) -> usize {
        let (up, down) = self.datagram_links.clone().unwrap_or_else(|| self.links.clone());
        let mut lanes = Lanes::new(up, down, self.rng.next(), [one, other]);
        let ends = [one, other].map(|at| self.find(at.ip()));
        if ends.into_iter().flatten().any(|host| !self.hosts[host].plugged) {
            lanes.unplug();
        }
        self.lanes.push(lanes);
        self.paths.insert((one, other), self.lanes.len() - 1);
        self.lanes.len() - 1
    }

    /// The lanes between two addresses, and which of them leads from the first to the second.
    fn lanes(&mut self, from: SocketAddr, to: SocketAddr) -> (usize, usize) {
        match (self.paths.get(&(from, to)), self.paths.get(&(to, from))) {
            (Some(lanes), _) => (*lanes, 0),
            (None, Some(lanes)) => (*lanes, 1),
            (None, None) => (self.add_lanes(from, to), 0),
        }
    }

    /// What became of the datagrams from one address to another.
    pub(super) fn fate(&mut self, from: SocketAddr, to: SocketAddr) -> Fate {
        let (lanes, lane) = self.lanes(from, to);
        self.lanes[lanes].lanes[lane].fate
    }

    pub(super) fn deliver(&mut self, lanes: usize, from: usize, datagram: Datagram, at: Mono) {
        let Lanes { ends, lanes: both } = &mut self.lanes[lanes];
        let (source, local) = (ends[from], ends[1 - from]);
        let (window, back) = (both[from].link.window, both[1 - from].link.delay);
        let Some(host) = self.find(local.ip()) else { return };
        let id = match self.connected.get(&(local, source)) {
            Some(id) => *id,
            None => {
                let port = local.port();
                let among = |(on, port_of, since, until): &&(usize, u16, Mono, Mono)| {
                    (*on, *port_of) == (host, port) && *since <= at && at < *until
                };
                let fresh = self.unconnected.iter().filter(among).count();
                let those = self.bound.get(&(host, port)).map_or(&[][..], Vec::as_slice);
                let choice = self.hash(source, local) as usize % (those.len() + fresh).max(1);
                match those.get(choice) {
                    Some(id) => *id,
                    None if choice < those.len() + fresh => return,
                    None => {
                        if let Some(sender) = self.connected.get(&(source, local)) {
                            self.push(at.plus(back), Event::Unreachable(*sender));
                        }
                        return;
                    }
                }
            }
        };
        if datagram.spoilt {
            // As Linux: the drops of a socket are those of wrong checksums, too.
            self.hosts[host].spoilt += 1;
            self.lanes[lanes].lanes[from].fate.spoilt += 1;
            if let Some(udp) = self.udp(id) {
                udp.dropped = udp.dropped.wrapping_add(1);
            }
            return;
        }
        let Some(udp) = self.udp(id) else { return };
        // As Linux: twice what was asked for, up to the host's limit.
        let room = udp.settings.rcvbuf.map_or(window, |bytes| window.min(2 * bytes as usize));
        if udp.held + datagram.bytes.len() > room {
            udp.dropped = udp.dropped.wrapping_add(1);
            self.hosts[host].overflowed += 1;
            self.lanes[lanes].lanes[from].fate.overflowed += 1;
            return;
        }
        udp.held += datagram.bytes.len();
        // As Linux: a datagram tells what was dropped before it came, not before it was read.
        udp.inbox.push_back((source, datagram, udp.dropped));
        self.poke(id, at);
    }

    pub(super) fn unreachable(&mut self, id: u64, at: Mono) {
        if let Some(udp) = self.udp(id) {
            udp.error = Some(REFUSED);
            self.poke(id, at);
        }
    }
}

impl World {
    fn send_udp(&mut self, id: u64, burst: &Transmit<'_>) -> Sent {
        let (now, quirks) = self.used(id, Call::Send, burst.len());
        let refused = |errno| Sent { bytes: 0, fault: Some(Fault { deed: Deed::Send, errno }) };
        let would_block = chance(&mut self.rng, quirks.would_block);
        let Some(udp) = self.udp(id) else { return Sent::default() };
        if let Some(errno) = udp.error.take() {
            return refused(errno);
        }
        let segment = if burst.segment == 0 { burst.len() } else { usize::from(burst.segment) };
        if segment > LONGEST_DATAGRAM {
            return refused(TOO_LONG);
        }
        let Some(to) = udp.peer.or(burst.to.map(|path| path.peer)) else { return refused(TOO_LONG) };
        if would_block {
            self.push(now.plus(MOMENT), Event::Poke(id));
            return Sent::default();
        }
        let (local, marks) = (udp.local, udp.marks());
        if udp.peer.is_none() {
            *self.unproven.entry((local, to)).or_default() += burst.len() as i64;
        }
        let (lanes, from) = self.lanes(local, to);
        let lane = &mut self.lanes[lanes].lanes[from];
        if lane.refuses() {
            return refused(REFUSED);
        }
        for datagram in lane.send(now, burst, marks) {
            self.push(datagram.arrives, Event::Datagram(lanes, from, datagram));
        }
        if let Some(tag) = burst.tag {
            let comes = (!chance(&mut self.rng, quirks.lost_stamps)).then_some(now.plus(STAMPED));
            let Some(udp) = self.udp(id) else { return Sent::default() };
            udp.stamps.push_back((comes, tag));
            if udp.stamps.len() > STAMPS {
                udp.stamps.pop_front();
            }
            self.push(now.plus(STAMPED), Event::Poke(id));
        }
        self.moved(true);
        Sent { bytes: burst.len(), fault: None }
    }

    /// The next transmit stamp of a socket, and its tag.
    fn stamped(&mut self, id: u64) -> Option<(u32, Stamp, u64)> {
        let (now, quirks) = self.used(id, Call::Receive, 0);
        let udp = self.udp(id)?;
        let place = udp.stamps.iter().position(|(at, _)| at.is_some_and(|at| at <= now))?;
        let (Some(at), tag) = udp.stamps.remove(place)? else { return None };
        let card = udp.settings.card_stamps;
        let (kind, bound) = if card { quirks.card.left() } else { (StampKind::KernelTx, 0) };
        Some((tag, Stamp { at, kind }, bound))
    }

    /// One receive call: a datagram of at most so many bytes, or a run of them, all of one size but
    /// the last.
    fn receive_udp(
        &mut self,
        id: u64,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Received<'static>>, Fault> {
        let (now, quirks) = self.used(id, Call::Receive, 0);
        let would_block = chance(&mut self.rng, quirks.would_block);
        let Some(udp) = self.udp(id) else { return Ok(None) };
        if let Some(errno) = udp.error.take() {
            return Err(Fault { deed: Deed::Receive, errno });
        }
        if would_block {
            self.push(now.plus(MOMENT), Event::Poke(id));
            return Ok(None);
        }
        let Some((source, first, dropped)) = udp.inbox.pop_front() else { return Ok(None) };
        // A run is not cut, however little of a datagram is wanted.
        let most = if udp.settings.gro && quirks.batches { LONGEST_DATAGRAM } else { most };
        udp.held -= first.bytes.len();
        out.extend_from_slice(&first.bytes[..first.bytes.len().min(most)]);
        let stride = out.len().max(1);
        let mut last = first.bytes.len();
        while udp.settings.gro
            && quirks.batches
            && last == stride
            && let Some((from, next, counter)) = udp.inbox.front()
            // As Linux: drops between two datagrams part their runs.
            && *counter == dropped
            && *from == source
            && next.bytes.len() <= stride
            && next.tos == first.tos
            && out.len() + next.bytes.len() <= LONGEST_DATAGRAM
            && let Some((_, next, _)) = udp.inbox.pop_front()
        {
            last = next.bytes.len();
            udp.held -= last;
            out.extend_from_slice(&next.bytes);
        }
        udp.reported = udp.reported.max(dropped);
        let dropped = udp.reported - udp.taken;
        let SocketSettings { stamps, card_stamps, marks, .. } = udp.settings;
        let local = udp.local;
        let unproven = udp.peer.is_none();
        let received = Received {
            stride,
            stamp: stamps.then_some(Stamp { at: first.arrives, kind: StampKind::KernelRx }),
            card: if stamps && card_stamps { quirks.card.stamp(first.arrives) } else { None },
            from: Some(Path { peer: source, local: udp.local }),
            tos: if marks { first.tos } else { 0 },
            ttl: if marks { first.ttl } else { 0 },
            truncated: first.bytes.len() > most,
            dropped,
            ..Received::skipped(out.len(), now)
        };
        if unproven {
            *self.unproven.entry((local, source)).or_default() -= received.len as i64;
        }
        self.moved(true);
        let at = self.charge(Call::Clock, out.len());
        Ok(Some(Received { at, ..received }))
    }
}

impl Sim {
    /// A UDP socket on a port of this host, which several share.
    ///
    /// # Errors
    /// When the host has no descriptors left.
    pub fn bind(&self, port: u16, settings: &SocketSettings) -> Result<Socket, Fault> {
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        Ok(self.bind_at(any, true, settings)?.0)
    }

    /// A UDP socket that is bound to `at`, and its address; port 0 lets the host choose.
    ///
    /// # Errors
    /// When the address is not the host's, the port is taken, or the host has no descriptors left.
    pub fn bind_at(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(Socket, SocketAddr), Fault> {
        let socket = self.socket(self.with(|world| world.bind_udp(self.host, at, share, settings))?);
        let at = DatagramSocket::local(&socket)?;
        Ok((socket, at))
    }
}

impl DatagramSocket<Sim> for Socket {
    type Net<'a> = DatagramNet<'a>;

    fn apply(&mut self, settings: &SocketSettings) -> Result<(), Fault> {
        self.sim.with(|world| {
            world.used(self.id, Call::Option, 0);
            if let Some(udp) = world.udp(self.id) {
                udp.settings = settings.clone();
            }
        });
        Ok(())
    }

    fn effective(&self) -> UdpEffective {
        let segments = self.segments();
        self.sim.with(|world| {
            let (_, quirks) = world.used(self.id, Call::Option, 0);
            let Some(udp) = world.udp(self.id) else { return UdpEffective::default() };
            let (gro, stamps) = (udp.settings.gro && quirks.batches, udp.settings.stamps);
            let (tos, ttl) = udp.marks();
            let options = Effective { tos: Some(tos), ttl: Some(ttl), ..Effective::default() };
            UdpEffective { options, segments, gro, stamps, ..UdpEffective::default() }
        })
    }

    fn path(&self) -> Option<Path> {
        self.sim.with(|world| {
            let UdpState { local, peer, .. } = world.udp(self.id)?;
            Some(Path { peer: (*peer)?, local: *local })
        })
    }

    fn local(&self) -> Result<SocketAddr, Fault> {
        let local = self.sim.with(|world| world.udp(self.id).map(|udp| udp.local));
        local.ok_or(Fault { deed: Deed::Bind, errno: REFUSED })
    }

    fn segments(&self) -> usize {
        self.sim.with(|world| {
            let most = world.hosts[self.sim.host].quirks.segments;
            if world.udp(self.id).is_some_and(|udp| udp.settings.gso) { most } else { 1 }
        })
    }

    fn let_sleep(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn take_drops(&mut self) -> u32 {
        self.sim.with(|world| {
            let Some(udp) = world.udp(self.id).filter(|udp| udp.settings.marks) else { return 0 };
            let more = udp.dropped - std::mem::replace(&mut udp.reported, udp.dropped);
            udp.taken += more;
            more
        })
    }

    fn awaits_stamps(&self) -> bool {
        self.sim.with(|world| world.udp(self.id).is_some_and(|udp| !udp.stamps.is_empty()))
    }

    fn stamped(&mut self, _: &mut Vec<u8>, _: &SimClock) -> Option<(u32, Stamp, u64)> {
        self.sim.with(|world| world.stamped(self.id))
    }

    fn net<'a>(&'a mut self, memory: &'a mut Vec<u8>, clock: &'a SimClock, _: bool) -> DatagramNet<'a> {
        DatagramNet { socket: self, memory, clock }
    }
}

/// A UDP socket, a worker's memory and its clock.
pub struct DatagramNet<'a> {
    socket: &'a Socket,
    memory: &'a mut Vec<u8>,
    clock: &'a SimClock,
}

impl Net for DatagramNet<'_> {
    fn stream(&self) -> bool {
        false
    }

    fn send(&mut self, burst: &Transmit<'_>) -> Sent {
        self.socket.sim.with(|world| world.send_udp(self.socket.id, burst))
    }

    fn recv(&mut self, how: Read) -> Got<'_> {
        let Socket { sim, id } = self.socket;
        let (most, skip) = match how {
            Read::Pause => return Got::Nothing,
            Read::Look(n) => (n.get() as usize, false),
            Read::Skip(n) => (n.get() as usize, true),
        };
        self.memory.clear();
        let unseen = skip && sim.with(|world| world.hosts[sim.host].quirks.skips);
        match sim.with(|world| world.receive_udp(*id, most, self.memory)) {
            Ok(None) => Got::Nothing,
            Ok(Some(received)) if unseen => Got::Received(received),
            Ok(Some(received)) => Got::Received(Received { bytes: self.memory, ..received }),
            Err(fault) => Got::Fault(fault),
        }
    }

    fn now(&mut self) -> Mono {
        transport::Clock::now(self.clock)
    }
}
