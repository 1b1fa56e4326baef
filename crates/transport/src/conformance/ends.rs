//! Both ends of connections and threads, as the checks use them: bounded waiting, and what a
//! receive brought as a value.

use super::{Bench, ClockOf, ListenerOf, PATIENCE, StreamOf, UdpOf, Watcher, anywhere, settle};
use crate::{
    Arena, Clock as _, DatagramSocket as _, Fault, Got, ListenerSocket as _, Net, Park, Path, Platform, Read,
    Ready, Received, Sent, SocketSettings, StreamSocket as _, Target, Task, Transmit, Trigger, Watch,
};
use std::io;

/// What a receive call brought.
#[derive(Debug)]
pub(super) enum Seen {
    /// Nothing is there.
    Nothing,
    /// Bytes, and what else is known of them.
    Bytes(Vec<u8>, Box<Received<'static>>),
    /// The peer will send no more.
    Fin,
    /// The kernel's word.
    Fault(Fault),
}

impl Seen {
    fn of(got: Got<'_>) -> Self {
        match got {
            Got::Nothing => Seen::Nothing,
            Got::Received(received) => {
                Seen::Bytes(received.bytes.to_vec(), Box::new(Received { bytes: &[], ..received }))
            }
            Got::Fin => Seen::Fin,
            Got::Fault(fault) => Seen::Fault(fault),
        }
    }

    /// The bytes, which must be there.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.batch().0
    }

    /// The same with what else is known of them.
    pub(super) fn batch(self) -> (Vec<u8>, Received<'static>) {
        match self {
            Seen::Bytes(bytes, received) => (bytes, *received),
            other => panic!("bytes were expected, not {other:?}"),
        }
    }

    /// The fault, which must be there.
    pub(super) fn fault(self) -> Fault {
        match self {
            Seen::Fault(fault) => fault,
            other => panic!("a fault was expected, not {other:?}"),
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Seen::Nothing)
    }

    pub(super) fn is_fin(&self) -> bool {
        matches!(self, Seen::Fin)
    }
}

/// A task without sockets, each of whose steps is a call.
struct Steps<P: Platform, F> {
    reactor: P::Reactor,
    resumed: bool,
    step: F,
}

impl<P: Platform, F: FnMut(&P::Reactor, bool) -> Park> Task<P> for Steps<P, F> {
    fn step(&mut self) -> Park {
        (self.step)(&self.reactor, self.resumed)
    }

    fn reactor(&mut self) -> &mut P::Reactor {
        &mut self.reactor
    }

    fn resume(&mut self, ready: io::Result<&mut Vec<Ready>>) {
        assert!(ready.unwrap().is_empty());
        self.resumed = true;
    }
}

/// Starts a thread that calls `step` with its reactor, and with whether it was resumed after a
/// wait.
pub(super) fn spawn<P: Platform>(
    platform: &P,
    name: &str,
    step: impl FnMut(&P::Reactor, bool) -> Park + Send + 'static,
) -> P::Join {
    let reactor = platform.reactor().unwrap();
    platform.spawn(name, Steps::<P, _> { reactor, resumed: false, step }).unwrap()
}

/// Waits on a reactor of its own until a report of `socket` is `enough`.
pub(super) fn until<B: Bench>(
    bench: &B,
    platform: &B::Platform,
    socket: &impl Watch<B::Platform>,
    enough: impl Fn(&Ready) -> bool,
) -> Ready {
    let mut watcher = Watcher::new(bench, platform);
    socket.watch(&watcher.reactor, 1, Trigger::Edges).unwrap();
    let deadline = watcher.clock.now().plus(PATIENCE);
    let ready = loop {
        if let Some(ready) = watcher.next().into_iter().find(&enough) {
            break ready;
        }
        assert!(watcher.clock.now() < deadline, "what was waited for was not reported");
        // Where each report has to be asked for.
        socket.rearm(&watcher.reactor, 1, true, true).unwrap();
    };
    socket.forget(&watcher.reactor).unwrap();
    ready
}

/// One burst of `bytes`, described by `make`.
pub(super) fn send(
    net: &mut impl Net,
    segments: usize,
    bytes: &[u8],
    make: impl FnOnce(&mut Transmit<'_>),
) -> Sent {
    let mut arena = Arena::new(bytes.len());
    let mut burst = Transmit::new(&mut arena, bytes.len()).datagrams(segments);
    burst.own(bytes.len()).copy_from_slice(bytes);
    make(&mut burst);
    net.send(&burst)
}

/// One end of a TCP connection.
pub(super) struct Tcp<'b, B: Bench> {
    bench: &'b B,
    pub(super) platform: B::Platform,
    pub(super) clock: ClockOf<B>,
    pub(super) stream: StreamOf<B>,
    pub(super) path: Path,
    pub(super) buffer: Vec<u8>,
}

impl<'b, B: Bench> Tcp<'b, B> {
    fn new(bench: &'b B, platform: B::Platform, (stream, path): (StreamOf<B>, Path)) -> Self {
        Tcp { bench, clock: platform.clock(), platform, stream, path, buffer: vec![0; 1 << 16] }
    }

    /// Waits until a report of the socket is `enough`.
    pub(super) fn until(&self, enough: impl Fn(&Ready) -> bool) -> Ready {
        until(self.bench, &self.platform, &self.stream, enough)
    }

    /// One send call.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Sent {
        send(&mut self.stream.net(&mut [], &self.clock, false), 1, bytes, |_| {})
    }

    /// Sends what must fit.
    pub(super) fn send_all(&mut self, bytes: &[u8]) {
        assert_eq!(self.send(bytes), Sent { bytes: bytes.len(), fault: None });
    }

    /// One receive call.
    pub(super) fn try_recv(&mut self, how: Read) -> Seen {
        Seen::of(self.stream.net(&mut self.buffer, &self.clock, false).recv(how))
    }

    /// What comes next.
    pub(super) fn recv(&mut self, how: Read) -> Seen {
        loop {
            match self.try_recv(how) {
                Seen::Nothing => drop(self.until(|ready| ready.readable)),
                seen => return seen,
            }
        }
    }

    /// The next `n` bytes.
    pub(super) fn recv_all(&mut self, n: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < n {
            all.extend(self.recv(Read::look((n - all.len()) as u64)).bytes());
        }
        all
    }

    /// One receive call that may sleep.
    pub(super) fn sleeping_recv(&mut self, how: Read) -> Seen {
        Seen::of(self.stream.net(&mut self.buffer, &self.clock, true).recv(how))
    }
}

/// A listening socket with default settings.
pub(super) fn listener<B: Bench>(bench: &B) -> (ListenerOf<B>, Target) {
    let (listener, to) = bench.listen(anywhere(bench), false, &SocketSettings::default()).unwrap();
    (listener, Target { to, from: None })
}

/// Connects, and waits until the connection is up.
pub(super) fn connect<'b, B: Bench>(bench: &'b B, to: &Target, settings: &SocketSettings) -> Tcp<'b, B> {
    let platform = bench.client();
    let (stream, _) = platform.connect(to, settings).unwrap();
    loop {
        if let Some(path) = stream.connected().unwrap() {
            return Tcp::new(bench, platform, (stream, path));
        }
        until(bench, &platform, &stream, |ready| ready.writable);
    }
}

/// The next connection, waited for.
pub(super) fn accept<'b, B: Bench>(bench: &'b B, listener: &ListenerOf<B>) -> Tcp<'b, B> {
    let platform = bench.server();
    loop {
        if let Some(accepted) = listener.accept().unwrap() {
            return Tcp::new(bench, platform, accepted);
        }
        until(bench, &platform, listener, |ready| ready.readable);
    }
}

/// The client's and the server's end of a connection.
pub(super) fn pair<B: Bench>(bench: &B) -> (Tcp<'_, B>, Tcp<'_, B>) {
    pair_with(bench, &SocketSettings::default())
}

/// The same with settings, for both ends.
pub(super) fn pair_with<'b, B: Bench>(bench: &'b B, settings: &SocketSettings) -> (Tcp<'b, B>, Tcp<'b, B>) {
    let (listener, to) = bench.listen(anywhere(bench), false, settings).unwrap();
    let client = connect(bench, &Target { to, from: None }, settings);
    let server = accept(bench, &listener);
    (client, server)
}

/// Small buffers.
pub(super) fn small() -> SocketSettings {
    SocketSettings { sndbuf: Some(64 << 10), rcvbuf: Some(64 << 10), ..SocketSettings::default() }
}

/// Bytes that do not fit in [`small`] buffers, however a system counts them.
pub(super) const LIMIT: usize = 8 << 20;

/// A UDP socket.
pub(super) struct Udp<'b, B: Bench> {
    bench: &'b B,
    platform: B::Platform,
    pub(super) clock: ClockOf<B>,
    pub(super) socket: UdpOf<B>,
    pub(super) memory: <B::Platform as Platform>::UdpMemory,
}

impl<'b, B: Bench> Udp<'b, B> {
    pub(super) fn new(bench: &'b B, platform: B::Platform, socket: UdpOf<B>) -> Self {
        Udp { bench, clock: platform.clock(), platform, socket, memory: Default::default() }
    }

    /// Bound on the server, and its address.
    pub(super) fn bound(bench: &'b B, share: bool, settings: &SocketSettings) -> (Self, Target) {
        let (socket, to) = bench.bind_udp(anywhere(bench), share, settings).unwrap();
        (Udp::new(bench, bench.server(), socket), Target { to, from: None })
    }

    /// On the client, connected.
    pub(super) fn connected(bench: &'b B, to: &Target, settings: &SocketSettings) -> Self {
        let platform = bench.client();
        let socket = platform.connect_udp(to, settings).unwrap();
        Udp::new(bench, platform, socket)
    }

    /// Both ends of a connected socket.
    pub(super) fn path(&self) -> Path {
        self.socket.path().expect("a connected socket has a path")
    }

    /// Waits until a report of the socket is `enough`.
    pub(super) fn until(&self, enough: impl Fn(&Ready) -> bool) -> Ready {
        until(self.bench, &self.platform, &self.socket, enough)
    }

    /// One send call, described by `make`.
    pub(super) fn burst(&mut self, bytes: &[u8], make: impl FnOnce(&mut Transmit<'_>)) -> Sent {
        let segments = self.socket.segments();
        send(&mut self.socket.net(&mut self.memory, &self.clock, false), segments, bytes, make)
    }

    /// Sends a datagram, which must not be refused.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.burst(bytes, |_| {}), Sent { bytes: bytes.len(), fault: None });
    }

    /// Answers along a path.
    pub(super) fn send_to(&mut self, bytes: &[u8], path: Path) {
        let wrote = self.burst(bytes, |burst| burst.to = Some(path));
        assert_eq!(wrote, Sent { bytes: bytes.len(), fault: None });
    }

    /// One receive call.
    pub(super) fn try_recv(&mut self, how: Read) -> Seen {
        Seen::of(self.socket.net(&mut self.memory, &self.clock, false).recv(how))
    }

    /// What comes next.
    pub(super) fn recv_how(&mut self, how: Read) -> Seen {
        loop {
            match self.try_recv(how) {
                Seen::Nothing => drop(self.until(|ready| ready.readable)),
                seen => return seen,
            }
        }
    }

    /// The next datagram or run, whole.
    pub(super) fn recv(&mut self) -> (Vec<u8>, Received<'static>) {
        self.recv_how(Read::look(1 << 16)).batch()
    }

    /// All that has come and comes within a while, a receive call each.
    pub(super) fn rest(&mut self) -> Vec<Vec<u8>> {
        settle(self.bench);
        let mut all = Vec::new();
        while let Seen::Bytes(bytes, _) = self.try_recv(Read::look(1 << 16)) {
            all.push(bytes);
        }
        all
    }

    /// One receive call that may sleep.
    pub(super) fn sleeping_recv(&mut self, how: Read) -> Seen {
        Seen::of(self.socket.net(&mut self.memory, &self.clock, true).recv(how))
    }
}

/// Plain datagrams: one a call, without stamps.
pub(super) fn plain() -> SocketSettings {
    SocketSettings { gso: false, gro: false, stamps: false, ..SocketSettings::default() }
}

/// A client's socket that is connected to a bound one of the server.
pub(super) fn udp_pair<'b, B: Bench>(
    bench: &'b B,
    local: &SocketSettings,
    remote: &SocketSettings,
) -> (Udp<'b, B>, Udp<'b, B>) {
    let (remote, to) = Udp::bound(bench, false, remote);
    (Udp::connected(bench, &to, local), remote)
}
