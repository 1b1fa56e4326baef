//! Helpers of the tests: loopback connections and bounded waiting.

use crate::reactor::Watchable;
use crate::{Clock, Listener, Reactor, Stream};
use metrics::SECOND;
use std::net::SocketAddr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use transport::{
    Fault, Got, ListenerSocket as _, Net as _, Path, Read, Ready, SocketSettings, StreamSocket as _, Target,
    Trigger,
};

/// Longer than anything takes on loopback, even on a loaded machine.
const PATIENCE: u64 = 60 * SECOND;

/// A program that is started has copies of all descriptors of this process until it runs. A socket
/// that is closed meanwhile goes on receiving, and its port stays taken.
static STARTS: RwLock<()> = RwLock::new(());

/// While a test holds this, no other starts a program.
pub(crate) fn no_starts() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that starts programs.
pub(crate) fn starts() -> RwLockWriteGuard<'static, ()> {
    STARTS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Reports that the test of this thread could not run, or not all of it, to `./test`, which counts
/// skips, and to stderr.
pub(crate) fn skip(reason: &str) {
    use std::io::Write as _;
    let line = format!("skipped: {}: {reason}", std::thread::current().name().unwrap_or("a test of io"));
    println!("{line}");
    if let Some(path) = std::env::var_os("NETCALIPER_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// Whether IPv6 loopback works; says so when it does not.
pub(crate) fn has_ipv6() -> bool {
    let works = std::net::UdpSocket::bind("[::1]:0").is_ok();
    if !works {
        skip("no IPv6 loopback");
    }
    works
}

/// Waits until `what` is readable.
pub(crate) fn readable(what: &impl Watchable) {
    until(what, |ready| ready.readable);
}

/// Waits until `what` is writable.
pub(crate) fn writable(what: &impl Watchable) {
    until(what, |ready| ready.writable);
}

fn until(what: &impl Watchable, enough: impl Fn(&Ready) -> bool) {
    let (mut reactor, clock, mut out) = (Reactor::new().unwrap(), Clock::new(), Vec::new());
    let deadline = clock.now().plus(PATIENCE);
    reactor.watch(what, 1, Trigger::Edges).unwrap();
    while !out.iter().any(&enough) {
        assert!(clock.now() < deadline, "nothing happened");
        reactor.rearm(what, 1, true, true).unwrap();
        reactor.wait(Some(deadline), &clock, &mut out).unwrap();
    }
    reactor.forget(what).unwrap();
}

pub(crate) fn accept(listener: &Listener) -> (Stream, Path) {
    loop {
        if let Some(accepted) = listener.accept().unwrap() {
            return accepted;
        }
        readable(listener);
    }
}

/// Connects, to the end.
pub(crate) fn connect(to: &Target, settings: &SocketSettings) -> (Stream, Path) {
    let (stream, _) = Stream::connect(to, settings).unwrap();
    loop {
        if let Some(path) = stream.connected().unwrap() {
            return (stream, path);
        }
        writable(&stream);
    }
}

/// A connection over loopback: the connecting and the accepting end.
pub(crate) fn pair(at: &str, settings: &SocketSettings) -> (Stream, Stream) {
    let listener = Listener::bind(at.parse().unwrap(), false, settings).unwrap();
    let to = Target { to: listener.local().unwrap(), from: None };
    let (local, local_path) = connect(&to, settings);
    let (remote, remote_path) = accept(&listener);
    assert_eq!((local_path.local, local_path.peer), (remote_path.peer, remote_path.local));
    (local, remote)
}

pub(crate) fn here() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// What the next receive brings, waited for: its bytes' number and the bytes; `Ok(None)` for the
/// end.
pub(crate) fn receive(stream: &Stream, how: Read) -> Result<Option<(usize, Vec<u8>)>, Fault> {
    let (clock, mut buffer) = (Clock::new(), vec![0; 1 << 16]);
    loop {
        match stream.net(&mut buffer, &clock, false).recv(how) {
            Got::Received(received) => return Ok(Some((received.len, received.bytes.to_vec()))),
            Got::Fin => return Ok(None),
            Got::Fault(fault) => return Err(fault),
            Got::Nothing => readable(stream),
        }
    }
}
