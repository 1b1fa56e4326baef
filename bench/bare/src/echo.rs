//! Round trips: a message there, the same back, one after the other. Two system calls an end and
//! nothing else.

use crate::args::Plan;
use crate::result::{self, Count};
use crate::{Outcome, on_workers};
use ::io::Clock;
use ::io::host::Reading;
use metrics::{Dist, SECOND};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The client waits so long for an echo before it gives up.
const PATIENCE: Duration = Duration::from_secs(1);
/// The share of a run that does not count: its beginning.
const WARM_UP: u64 = 10;

/// A connected socket of either kind.
enum Link {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

impl Link {
    /// Has receive calls return at once, or sleep for so long at most.
    fn waits(&self, spin: bool, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Link::Stream(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(patience)?;
                socket.set_nonblocking(spin)
            }
            Link::Datagrams(socket) => {
                socket.set_read_timeout(patience)?;
                socket.set_nonblocking(spin)
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Link::Stream(socket) => socket.write_all(message),
            Link::Datagrams(socket) => socket.send(message).map(drop),
        }
    }

    /// Fills `room`; a stream's end is an error, and so is a sleep that was too long.
    fn receive(&mut self, room: &mut [u8], mut patient: impl FnMut() -> bool) -> io::Result<()> {
        let mut have = 0;
        while have < room.len() {
            let got = match self {
                Link::Stream(socket) => socket.read(&mut room[have..]),
                Link::Datagrams(socket) => socket.recv(&mut room[have..]),
            };
            match got {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock && patient() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

fn failed(what: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{what} failed: {error}")
}

/// Serves one client at a time until it is killed.
pub(crate) fn serve(plan: &Plan, ready: Option<Sender<()>>) -> Outcome<()> {
    let bound = failed("binding");
    let mut ready = ready;
    let mut listening = move || ready.take().map(|ready| ready.send(()));
    if plan.tcp {
        let listener = TcpListener::bind(plan.addr).map_err(bound)?;
        listening();
        return on_workers(plan, |_| -> Outcome<()> {
            loop {
                let (stream, _) = listener.accept().map_err(failed("accepting"))?;
                reflect(plan, Link::Stream(stream))?;
            }
        })
        .map(drop);
    }
    let first = UdpSocket::bind(plan.addr).map_err(bound)?;
    listening();
    on_workers(plan, |_| {
        let mut room = vec![0; plan.buffer];
        let socket = first.try_clone().map_err(failed("sharing the socket"))?;
        let (n, peer) = socket.recv_from(&mut room).map_err(failed("receiving"))?;
        socket.connect(peer).map_err(failed("connecting"))?;
        socket.send(&room[..n]).map_err(failed("sending"))?;
        reflect(plan, Link::Datagrams(socket))
    })
    .map(drop)
}

/// Sends back what comes until the client leaves.
fn reflect(plan: &Plan, mut link: Link) -> Outcome<()> {
    link.waits(plan.spin, None).map_err(failed("setting the socket up"))?;
    let mut message = vec![0; plan.buffer];
    while link.receive(&mut message, || true).is_ok() {
        link.send(&message).map_err(failed("sending"))?;
    }
    Ok(())
}

fn connect(plan: &Plan) -> io::Result<Link> {
    if plan.tcp {
        return TcpStream::connect(plan.addr).map(Link::Stream);
    }
    let any: SocketAddr = if plan.addr.is_ipv6() { ([0_u16; 8], 0).into() } else { ([0, 0, 0, 0], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(plan.addr)?;
    Ok(Link::Datagrams(socket))
}

/// Asks until the time is up, and prints how long the answers took.
pub(crate) fn call(plan: &Plan) -> Outcome<()> {
    let before = Reading::now();
    let trips = on_workers(plan, |_| {
        let mut link = connect(plan).map_err(failed("connecting"))?;
        link.waits(plan.spin, Some(PATIENCE)).map_err(failed("setting the socket up"))?;
        let clock = Clock::new();
        let begun = clock.now();
        let (counted, end) = (begun.plus(plan.length / WARM_UP), begun.plus(plan.length));
        let (message, mut echo, mut trips) = (vec![0; plan.buffer], vec![0; plan.buffer], Dist::default());
        loop {
            let sent = clock.now();
            if sent >= end {
                return Ok(trips);
            }
            link.send(&message).map_err(failed("sending"))?;
            let patient = || plan.spin && Duration::from_nanos(clock.now().since(sent)) < PATIENCE;
            link.receive(&mut echo, patient).map_err(failed("receiving"))?;
            if sent >= counted {
                trips.record(clock.now().since(sent));
            }
        }
    })?;
    let trips = trips.into_iter().next().unwrap_or_default();
    let (n, seconds) = (trips.count(), plan.length as f64 / SECOND as f64);
    let times = Some((if plan.tcp { "tcp" } else { "udp" }, trips));
    result::print(plan, &Count { role: "client", n, lost: 0, seconds, times }, &before)
}
