//! Differences between systems, under one set of names.

use metrics::Clamped;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::{Mutex, MutexGuard, PoisonError};
use transport::{Deed, Fault, Got, Sent, Transmit};

#[cfg(target_os = "linux")]
pub(crate) mod card;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(target_os = "linux")]
pub(crate) mod message;
#[cfg(target_os = "linux")]
pub(crate) mod space;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;
#[cfg(unix)]
pub(crate) mod unix;

/// Error number of "operation not supported".
pub(crate) const UNSUPPORTED: i32 = if cfg!(windows) {
    10_045
} else if cfg!(target_os = "linux") {
    95
} else {
    45
};

/// Error number of "operation now in progress", where connecting answers so.
const IN_PROGRESS: i32 = if cfg!(windows) {
    10_036
} else if cfg!(target_os = "linux") {
    115
} else {
    36
};

/// Longest sleep of a receive call, where it may sleep at all.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(10);

/// Readies a socket for receive calls that sleep until data arrives, [`PATIENCE`] at most: all
/// others pass a flag against sleep. Linux only: other systems have no such flag.
pub(crate) fn let_sleep(socket: &Socket) -> io::Result<()> {
    if !cfg!(target_os = "linux") {
        return Err(unsupported());
    }
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_nonblocking(false)
}

/// Prefers this socket for packets that arrive on this core (`SO_INCOMING_CPU`, Linux). A
/// preference that the system does not take is none.
pub(crate) fn prefer_core(socket: &Socket, core: usize) {
    #[cfg(target_os = "linux")]
    let _ = socket.set_cpu_affinity(core);
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, core);
}

/// Result of a failed receive call: nothing where it would have to wait, else the fault.
pub(crate) fn not_received(error: &io::Error) -> Got<'static> {
    if error.kind() == io::ErrorKind::WouldBlock {
        return Got::Nothing;
    }
    Got::Fault(Fault { deed: Deed::Receive, errno: errno(error) })
}

/// The fault of a send that was not merely too much for now.
pub(crate) fn not_sent(error: &io::Error) -> Option<Fault> {
    (error.kind() != io::ErrorKind::WouldBlock).then(|| Fault { deed: Deed::Send, errno: errno(error) })
}

/// Result of a send call.
#[inline]
pub(crate) fn sent(result: io::Result<usize>) -> Sent {
    match result {
        Ok(bytes) => Sent { bytes, fault: None },
        Err(e) => Sent { bytes: 0, fault: not_sent(&e) },
    }
}

/// Makes a system call again for as long as signals interrupt it.
#[inline]
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The value of a lock that a panic may have poisoned: values are only ever replaced as a whole, so
/// a panic leaves a valid one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A burst up to this many bytes is sent in one piece: copying it costs less than passing pieces to
/// the kernel.
pub(crate) const SHORT: usize = 256;

/// Copies a burst of at most [`SHORT`] bytes together; its length.
pub(crate) fn gather(burst: &Transmit<'_>, whole: &mut [u8; SHORT]) -> usize {
    let mut n = 0;
    for slice in burst.slices() {
        if let Some(room) = whole.get_mut(n..n + slice.len()) {
            room.copy_from_slice(slice);
            n += slice.len();
        }
    }
    n
}

/// Turns an I/O error into the transport's fault.
pub(crate) fn fault(deed: Deed) -> impl Fn(io::Error) -> Fault {
    move |error| Fault { deed, errno: errno(&error) }
}

/// The system's error number; "not supported" for errors that have none, because those are this
/// crate's own.
pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(UNSUPPORTED)
}

/// The error of an ability that this system lacks.
pub(crate) fn unsupported() -> io::Error {
    io::Error::from(io::ErrorKind::Unsupported)
}

/// True if a nonblocking connect is under way.
pub(crate) fn in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(IN_PROGRESS)
}

/// A nonblocking socket that children do not inherit.
pub(crate) fn open(domain: Domain, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    #[cfg(target_os = "linux")]
    return Socket::new(domain, kind.nonblocking(), Some(protocol));
    #[cfg(not(target_os = "linux"))]
    {
        let socket = Socket::new(domain, kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}

/// A socket that can be bound to `at`, and the address to bind it to: `[::]` takes IPv4 as well,
/// and becomes `0.0.0.0` where there is no IPv6 at all.
pub(crate) fn open_for(at: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<(Socket, SocketAddr)> {
    let any = at.is_ipv6() && at.ip().is_unspecified();
    let v4 = SocketAddr::V4(SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, at.port()));
    match open(Domain::for_address(at), kind, protocol) {
        Ok(socket) => {
            if any {
                socket.set_only_v6(false)?;
            }
            Ok((socket, at))
        }
        Err(_) if any => Ok((open(Domain::IPV4, kind, protocol)?, v4)),
        Err(error) => Err(error),
    }
}

/// Protocol to open a socket of multipath TCP with: plain TCP where the kernel has none.
pub(crate) fn stream_protocol() -> Protocol {
    #[cfg(target_os = "linux")]
    {
        static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        let known = || open(Domain::IPV4, Type::STREAM, Protocol::MPTCP).is_ok();
        if *KNOWN.get_or_init(known) {
            return Protocol::MPTCP;
        }
    }
    Protocol::TCP
}

/// A buffer's size as the system takes it: an `int`.
pub(crate) fn buffer_size(bytes: u64) -> usize {
    usize::clamped(i32::try_from(bytes).unwrap_or(i32::MAX).unsigned_abs())
}

/// Has the kernel send no more than this, bits/s.
pub(crate) fn set_pacing(socket: &Socket, bits: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd as _;
        let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX).to_ne_bytes();
        unix::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, bits);
        Err(unsupported())
    }
}

/// Bounds the bytes that wait in the kernel until they are sent (Linux). No user asks for the bound:
/// a system without it goes on as before.
pub(crate) fn bound_unsent(socket: &Socket, bytes: u32) {
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_notsent_lowat(bytes);
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, bytes);
}

/// Options that `socket2` has on Linux only: here they are refused.
#[cfg(not(target_os = "linux"))]
pub(crate) trait MissingOptions {
    fn bind_device(&self, _: Option<&[u8]>) -> io::Result<()> {
        Err(unsupported())
    }
    #[cfg(not(target_os = "freebsd"))]
    fn set_tcp_congestion(&self, _: &[u8]) -> io::Result<()> {
        Err(unsupported())
    }
    #[cfg(not(target_os = "freebsd"))]
    fn tcp_congestion(&self) -> io::Result<Vec<u8>> {
        Err(unsupported())
    }
    fn set_tcp_user_timeout(&self, _: Option<std::time::Duration>) -> io::Result<()> {
        Err(unsupported())
    }
    #[cfg(not(unix))]
    fn set_tcp_mss(&self, _: u32) -> io::Result<()> {
        Err(unsupported())
    }
    #[cfg(not(unix))]
    fn tcp_mss(&self) -> io::Result<u32> {
        Err(unsupported())
    }
    #[cfg(not(unix))]
    fn set_tclass_v6(&self, _: u32) -> io::Result<()> {
        Err(unsupported())
    }
    #[cfg(not(unix))]
    fn tclass_v6(&self) -> io::Result<u32> {
        Err(unsupported())
    }
}

#[cfg(not(target_os = "linux"))]
impl MissingOptions for Socket {}

/// Lets several sockets share one port, the kernel spreading the load.
pub(crate) fn share_port(socket: &Socket) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return socket.set_reuse_port(true);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Err(unsupported())
    }
}

/// An address as people write it: IPv4 seen through a dual-stack socket becomes plain IPv4, and a
/// flow label, which is no part of an address although it travels with it, is taken off.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(mut v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::V4(SocketAddrV4::new(v4, v6.port())),
            None => {
                v6.set_flowinfo(0);
                SocketAddr::V6(v6)
            }
        },
        SocketAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain() {
        let plain = |text: &str| plain(text.parse().unwrap()).to_string();
        assert_eq!(plain("[::ffff:192.0.2.1]:7"), "192.0.2.1:7");
        assert_eq!(plain("[fe80::1%3]:7"), "[fe80::1%3]:7");
        assert_eq!(plain("192.0.2.1:7"), "192.0.2.1:7");
        let labelled = std::net::SocketAddrV6::new(std::net::Ipv6Addr::LOCALHOST, 7, 99, 3);
        assert_eq!(super::plain(labelled.into()), "[::1%3]:7".parse().unwrap());
    }

    #[test]
    fn our_own_errors_have_a_number() {
        let fault = fault(Deed::Open)(unsupported());
        assert_eq!(fault, Fault { deed: Deed::Open, errno: UNSUPPORTED });
        assert_eq!(io::Error::from_raw_os_error(UNSUPPORTED).kind(), io::ErrorKind::Unsupported);
    }
}
