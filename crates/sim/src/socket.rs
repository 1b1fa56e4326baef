//! Sockets as their kernel knows them, and what a reactor is told of them.

use super::platform::{Sim, SimReactor};
use super::quirks::Quirks;
use super::stream::Stream;
use super::udp::UdpState;
use super::world::{Call, World};
use metrics::Mono;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use transport::{Deed, Fault, Path, Ready, SocketSettings, Trigger, Watch};

/// Too many open files, as Linux numbers it.
const EMFILE: i32 = 24;
/// How long a socket that claims to be full or empty stays so, ns.
pub(super) const MOMENT: u64 = 2_000;

/// A socket of any kind, as a file descriptor is. Dropping it closes it.
pub struct Socket {
    pub(super) sim: Sim,
    pub(super) id: u64,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.sim.with(|world| world.close(self.id, false));
    }
}

pub(super) struct Sock {
    pub(super) host: usize,
    /// The thread that used it last.
    pub(super) owner: Option<usize>,
    pub(super) watch: Option<Watching>,
    /// It is in its reactor's list.
    pub(super) queued: bool,
    pub(super) kind: Kind,
}

pub(super) struct Watching {
    pub(super) reactor: usize,
    key: u64,
    writes: bool,
    pub(super) level: bool,
}

pub(super) enum Kind {
    /// The end of a connection: 0 has opened it.
    Stream(u64, usize),
    /// Connections that wait to be accepted.
    Listener {
        at: SocketAddr,
        queue: VecDeque<u64>,
        /// Others may listen at its port, if they say the same.
        share: bool,
        settings: Box<SocketSettings>,
    },
    Datagram(Box<UdpState>),
}

pub(super) struct Conn {
    pub(super) stream: Stream,
    /// As its opener and its acceptor see it.
    pub(super) paths: [Path; 2],
    pub(super) hosts: [Option<usize>; 2],
    pub(super) socks: [Option<u64>; 2],
    pub(super) state: State,
    pub(super) settings: [SocketSettings; 2],
    /// A sender was told that there is no room, and waits.
    pub(super) full: [bool; 2],
    pub(super) tries: u32,
    pub(super) silent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    /// With the error, until it is told.
    Failed(Option<i32>),
    /// The accepting end is in its listener's queue, or on its way there.
    Queued,
    Open,
}

impl World {
    /// A new socket of a host.
    pub(super) fn open(&mut self, host: usize, deed: Deed, kind: Kind) -> Result<u64, Fault> {
        if self.hosts[host].sockets >= self.hosts[host].quirks.descriptors {
            return Err(Fault { deed, errno: EMFILE });
        }
        self.hosts[host].sockets += 1;
        self.sock_serial += 1;
        let sock = Sock { host, owner: self.current, watch: None, queued: false, kind };
        self.socks.insert(self.sock_serial, sock);
        Ok(self.sock_serial)
    }

    /// A call on a socket; the time after it, and what its machine is like.
    pub(super) fn used(&mut self, id: u64, call: Call, bytes: usize) -> (Mono, Quirks) {
        let now = self.charge(call, bytes);
        let current = self.current;
        let host = self.socks.get_mut(&id).map_or(0, |sock| {
            sock.owner = current.or(sock.owner);
            sock.host
        });
        (now, self.hosts[host].quirks)
    }

    /// What a watched socket is ready for.
    pub(super) fn readiness(&mut self, id: u64, now: Mono) -> Option<Ready> {
        let Sock { watch: Some(watch), kind, .. } = self.socks.get(&id)? else { return None };
        let (readable, writable, ended, failed) = match kind {
            Kind::Stream(conn, end) => {
                let conn = self.conns.get_mut(conn)?;
                match conn.state {
                    State::Connecting => return None,
                    State::Failed(_) => (true, true, true, true),
                    State::Queued | State::Open => {
                        let (ended, failed) = conn.stream.ended(*end, now);
                        let writable = conn.stream.writable(*end, now);
                        conn.full[*end] |= !writable;
                        (conn.stream.readable(*end, now), writable, ended, failed)
                    }
                }
            }
            Kind::Listener { queue, .. } => (!queue.is_empty(), false, false, false),
            Kind::Datagram(udp) => {
                let (readable, failed) = udp.readiness(now);
                (readable, true, false, failed)
            }
        };
        let hangup = failed || ended;
        let ready = Ready {
            key: watch.key,
            readable: readable || hangup,
            writable: failed || (writable && watch.writes),
            hangup,
        };
        (ready.readable || ready.writable).then_some(ready)
    }

    fn watch(&mut self, id: u64, watching: Watching) {
        let (now, _) = self.used(id, Call::Watch, 0);
        let Some(sock) = self.socks.get_mut(&id) else { return };
        *self.registered.entry(sock.host).or_default() += 1;
        if let Some(old) = sock.watch.replace(watching) {
            self.reactors[old.reactor].ready.retain(|other| *other != id);
            sock.queued = false;
        }
        if self.readiness(id, now).is_some() {
            self.poke(id, now);
        }
    }

    /// A socket is closed: it is forgotten by its reactor, and its peers learn of it.
    pub(super) fn close(&mut self, id: u64, reset: bool) {
        let Some(sock) = self.socks.remove(&id) else { return };
        self.hosts[sock.host].sockets -= 1;
        if let Some(watch) = &sock.watch {
            self.reactors[watch.reactor].ready.retain(|other| *other != id);
        }
        match sock.kind {
            Kind::Stream(conn, end) => self.hang_up(conn, end, reset),
            Kind::Listener { at, queue, .. } => self.stop_listening(id, sock.host, at, queue),
            Kind::Datagram(udp) => self.close_udp(id, sock.host, &udp),
        }
    }

    /// A number that depends on the seed and on both ends alone.
    pub(super) fn hash(&self, one: SocketAddr, other: SocketAddr) -> u64 {
        let word = |at: SocketAddr| match at {
            SocketAddr::V4(v4) => u64::from(v4.ip().to_bits()) << 16 | u64::from(v4.port()),
            SocketAddr::V6(v6) => (v6.ip().to_bits() as u64).wrapping_mul(31) ^ u64::from(v6.port()),
        };
        let mixed = transport::Rng::new(self.salt ^ word(one)).next();
        transport::Rng::new(mixed ^ word(other)).next() >> 8
    }
}

impl Watch<Sim> for Socket {
    fn watch(&self, reactor: &SimReactor, key: u64, trigger: Trigger) -> io::Result<()> {
        let (writes, level) = (trigger == Trigger::Edges, trigger == Trigger::Level);
        self.sim.with(|world| world.watch(self.id, Watching { reactor: reactor.id, key, writes, level }));
        Ok(())
    }

    fn rearm(&self, _: &SimReactor, _: u64, _: bool, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn forget(&self, reactor: &SimReactor) -> io::Result<()> {
        self.sim.with(|world| {
            world.used(self.id, Call::Watch, 0);
            world.reactors[reactor.id].ready.retain(|other| *other != self.id);
            let sock = world.socks.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
            sock.watch.take_if(|watch| watch.reactor == reactor.id).ok_or(io::ErrorKind::NotFound)?;
            sock.queued = false;
            Ok(())
        })
    }

    fn before_close(&self, _: &SimReactor) {}
}
