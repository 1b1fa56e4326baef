//! TCP: opening, sending, receiving and closing.

use super::platform::{Sim, SimClock};
use super::quirks::draw;
use super::socket::{Conn, Kind, MOMENT, Socket, State};
use super::stream::{BROKEN_PIPE, REFUSED, RESET, Stream, TIMED_OUT, Taken};
use super::world::{Call, Event, World};
use super::{
    link::{Link, chance},
    socket::Sock,
};
use metrics::{Mono, SECOND, SocketState, TcpInfo};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use transport::{
    Deed, Effective, Fault, Got, ListenerSocket, Net, Path, Read, Received, Sent, SocketSettings,
    StreamSocket, Target, Transmit,
};

/// Connections that wait to be accepted; a request beyond those is dropped.
const BACKLOG: usize = 4_096;
/// Requests that are sent again, each after twice the time: Linux gives up after 127 s.
const TRIES: u32 = 7;
/// Questions whether the other end is there, each after the idle time, before an end gives up.
const PROBES: u64 = 9;
/// Time to live of what a host sends.
pub(super) const TTL: u8 = 64;
/// Address not available, as Linux numbers it.
const NOT_AVAILABLE: i32 = 99;
/// Address in use.
const IN_USE: i32 = 98;
/// Not connected.
const NOT_CONNECTED: i32 = 107;
/// Largest segment without options, over a link of 1,500 bytes, and the option in each segment, the
/// time stamps: bytes.
const MSS: u32 = 1_460;
const STAMPS: u32 = 12;
/// Smallest segment that Linux lets a socket ask for, bytes.
const MSS_LEAST: u32 = 88;
/// How late a process may hear of another at most, ns.
const LATE: u64 = 20_000_000;

impl World {
    /// Our end of a new connection or UDP socket.
    pub(super) fn address(&mut self, host: usize, from: Option<SocketAddr>) -> SocketAddr {
        let Self { hosts, .. } = self;
        let host = &mut hosts[host];
        let ip = from.map(|at| at.ip()).filter(|ip| !ip.is_unspecified()).unwrap_or(host.ip);
        let port = from.map(|at| at.port()).filter(|port| *port != 0).unwrap_or_else(|| {
            host.next_port = if host.next_port == u16::MAX { 1024 } else { host.next_port + 1 };
            host.next_port
        });
        SocketAddr::new(ip, port)
    }

    /// Whether a host has an address.
    pub(super) fn owns(&self, host: usize, at: SocketAddr) -> Result<(), Fault> {
        if at.ip().is_unspecified() || at.ip() == self.hosts[host].ip {
            return Ok(());
        }
        Err(Fault { deed: Deed::Bind, errno: NOT_AVAILABLE })
    }

    pub(super) fn connect(
        &mut self,
        host: usize,
        target: &Target,
        settings: &SocketSettings,
    ) -> Result<(u64, bool), Fault> {
        let now = self.charge(Call::Connect, 0);
        target.from.map_or(Ok(()), |from| self.owns(host, from))?;
        self.conn_serial += 1;
        let id = self.conn_serial;
        let sock = self.open(host, Deed::Open, Kind::Stream(id, 0))?;
        let local = self.address(host, target.from);
        let (up, down) = self.links.clone();
        let delay = up.delay;
        // Each end announces the largest segment that it takes.
        let asked = [settings.mss, self.announced(target.to)];
        let mss = asked.into_iter().flatten().fold(MSS, u32::min).max(MSS_LEAST) - STAMPS;
        let headers = STAMPS as usize + if local.is_ipv4() { 40 } else { 60 };
        let stream = Stream::new(up, down, self.rng.next(), (mss as usize, headers));
        if let Some(at) = stream.cut_at() {
            self.push(at, Event::Cut(id));
        }
        let paths = [Path { peer: target.to, local }, Path { peer: local, local: target.to }];
        let hosts = [Some(host), self.find(target.to.ip())];
        let socks = [Some(sock), None];
        let (state, full) = (State::Connecting, [false; 2]);
        let settings = [settings.clone(), SocketSettings::default()];
        self.conns
            .insert(id, Conn { stream, paths, hosts, socks, state, settings, full, tries: 0, silent: false });
        if !self.at_once {
            self.push(now.plus(delay), Event::Request(id));
            return Ok((sock, false));
        }
        match self.listener(id) {
            Some(listener) => {
                self.set(id, State::Queued);
                self.push(now, Event::Confirm(id, listener));
                Ok((sock, true))
            }
            None => {
                self.close(sock, true);
                Err(Fault { deed: Deed::Connect, errno: REFUSED })
            }
        }
    }

    /// A connection between two processes of one host. Who has no core yet reads late.
    fn pair(&mut self, host: usize) -> Result<[u64; 2], Fault> {
        let link = Link::new().delay(self.up_to(LATE));
        self.conn_serial += 1;
        let id = self.conn_serial;
        let ends = [
            self.open(host, Deed::Open, Kind::Stream(id, 0))?,
            self.open(host, Deed::Open, Kind::Stream(id, 1))?,
        ];
        let at = SocketAddr::new(self.hosts[host].ip, 0);
        let conn = Conn {
            stream: Stream::new(link.clone(), link, self.rng.next(), (MSS as usize, 52)),
            paths: [Path { peer: at, local: at }; 2],
            // The network is no part of it.
            hosts: [None; 2],
            socks: ends.map(Some),
            state: State::Open,
            settings: [SocketSettings::default(), SocketSettings::default()],
            full: [false; 2],
            tries: 0,
            silent: false,
        };
        self.conns.insert(id, conn);
        Ok(ends)
    }

    fn set(&mut self, conn: u64, state: State) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.state = state;
        }
    }

    /// The largest segment that listeners at an address announce, where their settings say one.
    fn announced(&self, to: SocketAddr) -> Option<u32> {
        let listeners = self.listening.get(&(self.find(to.ip())?, to.port()))?;
        match &self.socks.get(listeners.first()?)?.kind {
            Kind::Listener { settings, .. } => settings.mss,
            _ => None,
        }
    }

    /// The listener that a connection comes to.
    fn listener(&self, conn: u64) -> Option<u64> {
        let Conn { paths, hosts, .. } = self.conns.get(&conn)?;
        let Path { peer, local } = paths[1];
        let those = self.listening.get(&(hosts[1]?, local.port()))?;
        those.get((self.hash(peer, local) % those.len().max(1) as u64) as usize).copied()
    }

    pub(super) fn request(&mut self, id: u64, at: Mono) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.tries += 1;
        let (tries, (there, back), hosts) = (conn.tries, conn.stream.delays(), conn.hosts);
        let unplugged = hosts.into_iter().flatten().any(|host| !self.hosts[host].plugged);
        let listener = self.listener(id);
        let full = listener
            .and_then(|id| self.socks.get(&id))
            .is_some_and(|sock| matches!(&sock.kind, Kind::Listener { queue, .. } if queue.len() >= BACKLOG));
        if unplugged || full {
            let next = at.plus(SECOND << (tries - 1));
            if tries < TRIES {
                return self.push(next, Event::Request(id));
            }
            // The opener gives up by its own clock: no packet has to travel for that.
            return self.push(Mono(next.0 - there), Event::Answer(id, Err(TIMED_OUT)));
        }
        self.push(at.plus(back), Event::Answer(id, listener.ok_or(REFUSED)));
    }

    pub(super) fn answer(&mut self, id: u64, answer: Result<u64, i32>, at: Mono) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.state = answer.map_or_else(|errno| State::Failed(Some(errno)), |_| State::Queued);
        let there = conn.stream.delays().0;
        self.poke_end(id, 0, at);
        if let Ok(listener) = answer {
            self.push(at.plus(there), Event::Confirm(id, listener));
        }
    }

    /// The connection is up at the acceptor's end, too.
    pub(super) fn confirm(&mut self, id: u64, listener: u64, at: Mono) {
        match self.socks.get_mut(&listener).map(|sock| &mut sock.kind) {
            Some(Kind::Listener { queue, .. }) => {
                queue.push_back(id);
                self.poke(listener, at);
            }
            _ => self.hang_up(id, 1, true),
        }
    }

    pub(super) fn cut(&mut self, id: u64, at: Mono) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.stream.tick(at);
        if let Some(next) = conn.stream.cut_at() {
            self.push(next, Event::Cut(id));
        }
        self.schedule_pokes(id);
    }

    /// The cable is out. An end that asks from time to time whether the other is there gives up
    /// when it has asked in vain.
    pub(super) fn silence(&mut self, id: u64) {
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.stream.unplug(now);
        conn.silent = true;
        for end in 0..2 {
            self.keep_alive(id, end);
        }
    }

    fn keep_alive(&mut self, id: u64, end: usize) {
        let now = self.time();
        let Some(conn) = self.conns.get(&id).filter(|conn| conn.silent) else { return };
        if let Some(each) = conn.settings[end].keepalive_ns {
            let after = each * (1 + PROBES);
            self.push(now.plus(after), Event::KeptAlive(id, end));
        }
    }

    pub(super) fn give_up(&mut self, id: u64, end: usize, at: Mono) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.stream.time_out(end, at);
        self.schedule_pokes(id);
    }

    pub(super) fn poke_end(&mut self, conn: u64, end: usize, at: Mono) {
        if let Some(sock) = self.conns.get(&conn).and_then(|conn| conn.socks[end]) {
            self.poke(sock, at);
        }
    }

    /// What an operation on a connection gives its ends to hear becomes events.
    fn schedule_pokes(&mut self, id: u64) {
        for end in 0..2 {
            while let Some(at) = self.conns.get_mut(&id).and_then(|conn| conn.stream.poke(end)) {
                self.push(at, Event::PokeEnd(id, end));
            }
        }
    }

    /// Closes an end: its owner closed it, or the listener of a pending connection is gone.
    pub(super) fn hang_up(&mut self, id: u64, end: usize, reset: bool) {
        let now = self.time();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.socks[end] = None;
        conn.stream.close(end, now, reset);
        if end == 1 {
            conn.state = State::Open;
        }
        let over = match conn.state {
            State::Connecting | State::Failed(_) => true,
            State::Queued => false,
            State::Open => conn.socks == [None; 2],
        };
        self.schedule_pokes(id);
        if over {
            self.conns.remove(&id);
        }
    }

    fn listen(
        &mut self,
        host: usize,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(u64, SocketAddr), Fault> {
        self.owns(host, at)?;
        let at = self.address(host, Some(at));
        let those = self.listening.get(&(host, at.port()));
        self.may_share(those, share)?;
        let settings = Box::new(settings.clone());
        let kind = Kind::Listener { at, queue: VecDeque::new(), share, settings };
        let id = self.open(host, Deed::Open, kind)?;
        self.listening.entry((host, at.port())).or_default().push(id);
        Ok((id, at))
    }

    /// Whether a socket may be bound where others are: if all of them share their port.
    pub(super) fn may_share(&self, those: Option<&Vec<u64>>, share: bool) -> Result<(), Fault> {
        let shares = |id: &u64| match self.socks.get(id).map(|sock| &sock.kind) {
            Some(Kind::Listener { share, .. }) => *share,
            Some(Kind::Datagram(udp)) => udp.shares(),
            _ => true,
        };
        if those.into_iter().flatten().all(|id| share && shares(id)) {
            return Ok(());
        }
        Err(Fault { deed: Deed::Bind, errno: IN_USE })
    }

    pub(super) fn stop_listening(&mut self, id: u64, host: usize, at: SocketAddr, queue: VecDeque<u64>) {
        if let Some(those) = self.listening.get_mut(&(host, at.port())) {
            those.retain(|other| *other != id);
            if those.is_empty() {
                self.listening.remove(&(host, at.port()));
            }
        }
        for conn in queue {
            self.hang_up(conn, 1, true);
        }
    }

    fn accept(&mut self, listener: u64) -> Result<Option<(u64, Path)>, Fault> {
        self.used(listener, Call::Accept, 0);
        let Some(sock) = self.socks.get(&listener) else { return Ok(None) };
        let host = sock.host;
        let Kind::Listener { queue, settings, .. } = &sock.kind else { return Ok(None) };
        let Some(&conn) = queue.front() else { return Ok(None) };
        let settings = SocketSettings::clone(settings);
        let id = self.open(host, Deed::Listen, Kind::Stream(conn, 1))?;
        if let Some(Sock { kind: Kind::Listener { queue, .. }, .. }) = self.socks.get_mut(&listener) {
            queue.pop_front();
        }
        let conn = self.conns.get_mut(&conn).ok_or(Fault { deed: Deed::Listen, errno: RESET })?;
        (conn.state, conn.socks[1], conn.settings[1]) = (State::Open, Some(id), settings);
        Ok(Some((id, conn.paths[1])))
    }

    /// The connection of a socket, and which end that is.
    fn conn(&mut self, sock: u64) -> Option<(u64, usize, &mut Conn)> {
        let Kind::Stream(id, end) = self.socks.get(&sock)?.kind else { return None };
        Some((id, end, self.conns.get_mut(&id)?))
    }

    fn send(&mut self, sock: u64, burst: &Transmit<'_>) -> Sent {
        let (now, quirks) = self.used(sock, Call::Send, burst.len());
        let would_block = chance(&mut self.rng, quirks.would_block);
        let cap = if would_block { 0 } else { draw(&mut self.rng, quirks.sends) };
        let Some((id, end, conn)) = self.conn(sock) else { return Sent::default() };
        match conn.state {
            State::Connecting => return Sent::default(),
            State::Failed(ref mut errno) => {
                let errno = errno.take().unwrap_or(BROKEN_PIPE);
                return Sent { bytes: 0, fault: Some(Fault { deed: Deed::Send, errno }) };
            }
            State::Queued | State::Open => {}
        }
        let wrote = conn.stream.send(end, now, burst, cap);
        if wrote.fault.is_none() && wrote.bytes < burst.len() {
            conn.full[end] = true;
            if wrote.bytes == cap {
                // There was room: it is told of a moment later.
                self.push(now.plus(MOMENT), Event::PokeEnd(id, end));
            }
        }
        self.moved(wrote.bytes > 0);
        self.schedule_pokes(id);
        wrote
    }

    /// Receives up to `most` bytes into `out`.
    fn receive(&mut self, sock: u64, most: usize, out: &mut Vec<u8>) -> Taken {
        let (now, quirks) = self.used(sock, Call::Receive, 0);
        let would_block = chance(&mut self.rng, quirks.would_block);
        let cap = draw(&mut self.rng, quirks.reads).min(most);
        let Some((id, end, conn)) = self.conn(sock) else { return Taken::Nothing };
        match conn.state {
            State::Connecting => return Taken::Nothing,
            State::Failed(ref mut errno) => {
                let fault = errno.take().map(|errno| Fault { deed: Deed::Receive, errno });
                return fault.map_or(Taken::Fin, Taken::Fault);
            }
            State::Queued | State::Open => {}
        }
        let taken = if would_block { Taken::Nothing } else { conn.stream.recv(end, now, cap, out) };
        let freed = conn.full[1 - end] && conn.stream.writable(1 - end, now);
        conn.full[1 - end] &= !freed;
        if would_block || (cap < most && out.len() == cap && conn.stream.readable(end, now)) {
            // What is left arrives a moment later.
            self.push(now.plus(MOMENT), Event::PokeEnd(id, end));
        }
        if freed {
            self.push(now, Event::PokeEnd(id, 1 - end));
        }
        if let Taken::Bytes = taken {
            self.charge(Call::Clock, out.len());
            self.moved(true);
        }
        taken
    }
}

impl Sim {
    /// A connection to another process of this host.
    pub(super) fn pair(&self, other: &Sim) -> (Socket, Socket) {
        let ends = self.with(|world| world.pair(self.host));
        let [ours, theirs] = ends.expect("the simulated system has descriptors left");
        (self.socket(ours), other.socket(theirs))
    }

    /// A listener on a port of this host, which several share.
    ///
    /// # Errors
    /// When the host has no descriptors left.
    pub fn listen(&self, port: u16) -> Result<Socket, Fault> {
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        Ok(self.listen_at(any, true, &SocketSettings::default())?.0)
    }

    /// A listener at `at`, which accepted connections inherit the settings of, and its address;
    /// port 0 lets the host choose.
    ///
    /// # Errors
    /// When the address is not the host's, the port is taken, or the host has no descriptors left.
    pub fn listen_at(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(Socket, SocketAddr), Fault> {
        let (id, at) = self.with(|world| world.listen(self.host, at, share, settings))?;
        Ok((self.socket(id), at))
    }
}

impl ListenerSocket<Sim> for Socket {
    fn accept(&self) -> Result<Option<(Socket, Path)>, Fault> {
        let accepted = self.sim.with(|world| world.accept(self.id))?;
        Ok(accepted.map(|(id, path)| (self.sim.socket(id), path)))
    }
}

impl StreamSocket<Sim> for Socket {
    type Net<'a> = StreamNet<'a>;

    fn connected(&self) -> Result<Option<Path>, Fault> {
        self.sim.with(|world| {
            world.used(self.id, Call::Option, 0);
            let Some((_, end, conn)) = world.conn(self.id) else { return Ok(None) };
            match conn.state {
                State::Connecting => Ok(None),
                State::Failed(ref mut errno) => {
                    let errno = errno.take().unwrap_or(NOT_CONNECTED);
                    Err(Fault { deed: Deed::Connect, errno })
                }
                State::Queued | State::Open => Ok(Some(conn.paths[end])),
            }
        })
    }

    fn apply(&self, settings: &SocketSettings) -> Result<(), Fault> {
        self.sim.with(|world| {
            world.used(self.id, Call::Option, 0);
            if let Some((id, end, conn)) = world.conn(self.id) {
                conn.settings[end] = settings.clone();
                world.keep_alive(id, end);
            }
        });
        Ok(())
    }

    fn effective(&self) -> Effective {
        self.sim.with(|world| {
            world.used(self.id, Call::Option, 0);
            let Some((_, end, conn)) = world.conn(self.id) else { return Effective::default() };
            let SocketSettings { nodelay, dscp, ttl, .. } = &conn.settings[end];
            Effective {
                nodelay: Some(*nodelay),
                mss: Some(conn.stream.segment() as u32),
                tos: Some(dscp.unwrap_or(0) << 2),
                ttl: Some(ttl.unwrap_or(TTL)),
                ..Effective::default()
            }
        })
    }

    fn mss(&self) -> Option<u32> {
        self.sim.with(|world| {
            world.used(self.id, Call::Option, 0);
            world.conn(self.id).map(|(.., conn)| conn.stream.segment() as u32)
        })
    }

    fn info(&self) -> Option<TcpInfo> {
        self.sim.with(|world| world.used(self.id, Call::Option, 0));
        Some(TcpInfo::default())
    }

    fn state(&self) -> Option<SocketState> {
        self.sim.with(|world| {
            let (now, _) = world.used(self.id, Call::Option, 0);
            let (_, end, conn) = world.conn(self.id)?;
            Some(SocketState { queued: conn.stream.queued(end, now), ..SocketState::default() })
        })
    }

    fn let_sleep(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn half_close(&self) {
        self.sim.with(|world| {
            let (now, _) = world.used(self.id, Call::Option, 0);
            let Some((id, end, conn)) = world.conn(self.id) else { return };
            conn.stream.half_close(end, now);
            world.schedule_pokes(id);
        });
    }

    fn abort(self) {
        self.sim.with(|world| world.close(self.id, true));
    }

    fn net<'a>(&'a self, buffer: &'a mut [u8], clock: &'a SimClock, _: bool) -> StreamNet<'a> {
        StreamNet { socket: self, buffer, clock }
    }
}

/// A connection, a worker's receive buffer and its clock.
pub struct StreamNet<'a> {
    socket: &'a Socket,
    buffer: &'a mut [u8],
    clock: &'a SimClock,
}

impl Net for StreamNet<'_> {
    fn stream(&self) -> bool {
        true
    }

    fn send(&mut self, burst: &Transmit<'_>) -> Sent {
        self.socket.sim.with(|world| world.send(self.socket.id, burst))
    }

    fn recv(&mut self, how: Read) -> Got<'_> {
        let Socket { sim, id } = self.socket;
        let unseen = sim.with(|world| world.hosts[sim.host].quirks.skips);
        let (most, unseen) = match how {
            Read::Pause => return Got::Nothing,
            Read::Skip(n) if unseen => (n.get() as usize, true),
            Read::Look(n) | Read::Skip(n) => (self.buffer.len().min(n.get() as usize), false),
        };
        if most == 0 {
            return Got::Nothing;
        }
        let mut bytes = Vec::new();
        match sim.with(|world| world.receive(*id, most, &mut bytes)) {
            Taken::Nothing => Got::Nothing,
            Taken::Fin => Got::Fin,
            Taken::Fault(fault) => Got::Fault(fault),
            Taken::Bytes if unseen => Got::Received(Received::skipped(bytes.len(), self.now())),
            Taken::Bytes => {
                let at = self.now();
                self.buffer[..bytes.len()].copy_from_slice(&bytes);
                Got::Received(Received::stream(&self.buffer[..bytes.len()], at))
            }
        }
    }

    fn now(&mut self) -> Mono {
        transport::Clock::now(self.clock)
    }
}
