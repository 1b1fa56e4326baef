//! Socket options: the requested values, and the kernel's.

use crate::sys;
#[cfg(not(target_os = "linux"))]
use crate::sys::MissingOptions as _;
use metrics::Ecn;
use socket2::{Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use transport::{Deed, Effective, Fault, SocketSettings};

/// An option that the system refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The option's name in [`SocketSettings`].
    pub option: &'static str,
    /// The system's error number.
    pub errno: i32,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Fault { deed: Deed::Open, errno: refusal.errno }
    }
}

/// Tries the options on a throw-away socket of the family of `to`, so that an error can name the
/// refused one before anything is opened. The flow label is leased for `to`, too.
///
/// # Errors
/// The first option refused; `option` is `"socket"` when there is not even a socket to be had.
pub fn check(settings: &SocketSettings, to: SocketAddr) -> Result<(), Refusal> {
    let (socket, mut to) = sys::open_for(to, Type::STREAM, protocol(settings))
        .map_err(|e| Refusal { option: "socket", errno: sys::errno(&e) })?;
    apply(&socket, settings, Some(&mut to))
}

/// The protocol that a socket with these settings is opened with.
pub(super) fn protocol(settings: &SocketSettings) -> Protocol {
    if settings.multipath { sys::stream_protocol() } else { Protocol::TCP }
}

/// Options that are set one after the other, all of them even when the system refuses one; the
/// first refusal is kept.
#[derive(Debug, Default)]
pub(crate) struct Options(Option<Refusal>);

impl Options {
    /// Sets an option that is asked for.
    pub(crate) fn set<T>(
        &mut self,
        option: &'static str,
        value: Option<T>,
        set: impl FnOnce(T) -> io::Result<()>,
    ) {
        if let Some(Err(e)) = value.map(set) {
            self.0.get_or_insert(Refusal { option, errno: sys::errno(&e) });
        }
    }

    pub(crate) fn done(self) -> Result<(), Refusal> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Sets the requested options. With `to`, the socket is about to connect there, which a flow label
/// needs to know and to change.
///
/// # Errors
/// The first refusal; the other options are set all the same.
pub(super) fn apply(
    socket: &Socket,
    want: &SocketSettings,
    to: Option<&mut SocketAddr>,
) -> Result<(), Refusal> {
    let mut options = Options::default();
    options.set("device", want.device.as_deref(), |name| socket.bind_device(Some(name.as_bytes())));
    options.set("sndbuf", want.sndbuf, |bytes| socket.set_send_buffer_size(sys::buffer_size(bytes)));
    options.set("rcvbuf", want.rcvbuf, |bytes| socket.set_recv_buffer_size(sys::buffer_size(bytes)));
    // A fresh socket has Nagle's algorithm on; an accepted one its listener's setting.
    let nodelay = (want.nodelay || to.is_none()).then_some(want.nodelay);
    options.set("nodelay", nodelay, |nodelay| socket.set_tcp_nodelay(nodelay));
    options.set("mss", want.mss, |bytes| socket.set_tcp_mss(bytes));
    options.set("congestion", want.congestion.as_deref(), |name| socket.set_tcp_congestion(name.as_bytes()));
    options.set("keepalive", want.keepalive_ns, |ns| {
        let time = Duration::from_nanos(ns).max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(time).with_interval(time))
    });
    options.set("pacing", want.pacing, |bits| sys::set_pacing(socket, bits));
    let timeout = want.user_timeout_ns.map(Duration::from_nanos);
    options.set("user_timeout", timeout, |timeout| socket.set_tcp_user_timeout(Some(timeout)));
    if let Some(bytes) = want.unsent {
        sys::bound_unsent(socket, bytes);
    }
    let v6 = (want.dscp.is_some() || want.ttl.is_some()) && is_v6(socket);
    // The kernel sets the ECN bits of a stream.
    options.set("dscp", want.dscp, |dscp| {
        keep_class(socket, v6, to.is_some());
        set_tos(socket, v6, class_octet(dscp, None)?)
    });
    options.set("ttl", want.ttl, |ttl| set_ttl(socket, v6, ttl));
    options.set("flow_label", want.flow_label, |label| {
        lease_label(socket, label, to.ok_or_else(sys::unsupported)?)
    });
    options.done()
}

/// The system's values for a TCP socket.
pub(super) fn effective(socket: &Socket) -> Effective {
    Effective {
        nodelay: socket.tcp_nodelay().ok(),
        mss: mss(socket),
        congestion: congestion(socket),
        ..effective_options(socket, is_v6(socket))
    }
}

/// The system's values of the options that sockets of either kind have.
pub(crate) fn effective_options(socket: &Socket, v6: bool) -> Effective {
    let size = |result: io::Result<usize>| result.ok().and_then(|n| u32::try_from(n).ok());
    let octet = |result: io::Result<u32>| result.ok().and_then(|n| u8::try_from(n).ok());
    Effective {
        sndbuf: size(socket.send_buffer_size()),
        rcvbuf: size(socket.recv_buffer_size()),
        tos: octet(if v6 { socket.tclass_v6() } else { socket.tos_v4() }),
        ttl: octet(if v6 { socket.unicast_hops_v6() } else { socket.ttl_v4() }),
        ..Effective::default()
    }
}

/// True if the socket speaks IPv6 to its peer: an IPv6 socket does not when its peer is IPv4 in
/// disguise.
fn is_v6(socket: &Socket) -> bool {
    let address = socket.peer_addr().or_else(|_| socket.local_addr());
    address.ok().and_then(|a| a.as_socket()).is_some_and(|a| sys::plain(a).is_ipv6())
}

/// The traffic class octet of a DSCP and an ECN codepoint.
///
/// # Errors
/// Refuses a DSCP above 63.
pub(crate) fn class_octet(dscp: u8, ecn: Option<Ecn>) -> io::Result<u8> {
    if dscp > 63 {
        return Err(invalid());
    }
    Ok(dscp << 2 | ecn.unwrap_or_default().bits())
}

/// Sets the traffic class octet of sent packets.
pub(crate) fn set_tos(socket: &Socket, v6: bool, tos: u8) -> io::Result<()> {
    let tos = u32::from(tos);
    if !v6 {
        return socket.set_tos_v4(tos);
    }
    // For the IPv4 peers of a dual-stack listener; refused where there can be none.
    let _ = socket.set_tos_v4(tos);
    socket.set_tclass_v6(tos)
}

pub(crate) fn set_ttl(socket: &Socket, v6: bool, ttl: u8) -> io::Result<()> {
    if ttl == 0 {
        return Err(invalid());
    }
    if !v6 {
        return socket.set_ttl_v4(ttl.into());
    }
    let _ = socket.set_ttl_v4(ttl.into());
    socket.set_unicast_hops_v6(ttl.into())
}

/// Has the kernel keep the traffic class of the peer's packets. The class of IPv4 packets is kept
/// for accepted sockets alone: one that `connects` would read as 0.
fn keep_class(socket: &Socket, v6: bool, connects: bool) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd as _;
        let on = 1_i32.to_ne_bytes();
        // A protocol without the option, such as Multipath TCP, keeps no class.
        if !connects {
            let _ = sys::unix::set_option(socket.as_fd(), libc::SOL_IP, libc::IP_RECVTOS, &on);
        }
        if v6 {
            let _ = sys::unix::set_option(socket.as_fd(), libc::SOL_IPV6, libc::IPV6_RECVTCLASS, &on);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, v6, connects);
}

/// The traffic class octet of the peer's packets, where the kernel was asked to keep it.
pub(super) fn kept_class(socket: &Socket) -> Option<u8> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd as _;
        let (level, option, kind) = match is_v6(socket) {
            true => (libc::SOL_IPV6, libc::IPV6_2292PKTOPTIONS, libc::IPV6_TCLASS),
            false => (libc::SOL_IP, libc::IP_PKTOPTIONS, libc::IP_TOS),
        };
        let kept = sys::message::Control::of_option(socket.as_fd(), level, option).ok()?;
        let mut classes = kept.messages().filter(|(of, is, _)| (*of, *is) == (level, kind));
        let class = classes.next()?.2.first_chunk().copied().map(i32::from_ne_bytes)?;
        u8::try_from(class).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        None
    }
}

/// "Invalid argument", by the system's number, so that it survives in a fault.
fn invalid() -> io::Error {
    io::Error::from_raw_os_error(if cfg!(windows) { 10_022 } else { 22 })
}

pub(super) fn mss(socket: &Socket) -> Option<u32> {
    socket.tcp_mss().ok()
}

fn congestion(socket: &Socket) -> Option<String> {
    let name = socket.tcp_congestion().ok()?;
    let text = name.split(|&byte| byte == 0).next()?;
    String::from_utf8(text.to_vec()).ok()
}

/// Leases a flow label towards `to`, sharing it with other sockets that ask for it, and puts it
/// into `to`, from where connecting takes it (`struct in6_flowlabel_req` of linux/in6.h).
#[cfg(target_os = "linux")]
fn lease_label(socket: &Socket, label: u32, to: &mut SocketAddr) -> io::Result<()> {
    use std::os::fd::AsFd as _;
    const ACTION_GET: u8 = 0;
    const SHARE_ANY: u8 = 255;
    const CREATE: u16 = 1;
    let SocketAddr::V6(to) = to else { return Err(sys::unsupported()) };
    if label == 0 || label > 0xf_ffff {
        return Err(invalid());
    }
    let mut request = [0; 32];
    request[..16].copy_from_slice(&to.ip().octets());
    request[16..20].copy_from_slice(&label.to_be_bytes());
    request[20] = ACTION_GET;
    request[21] = SHARE_ANY;
    request[22..24].copy_from_slice(&CREATE.to_ne_bytes());
    sys::unix::set_option(socket.as_fd(), libc::SOL_IPV6, libc::IPV6_FLOWLABEL_MGR, &request)?;
    let on = 1_i32.to_ne_bytes();
    sys::unix::set_option(socket.as_fd(), libc::SOL_IPV6, libc::IPV6_FLOWINFO_SEND, &on)?;
    to.set_flowinfo(label.to_be());
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn lease_label(_: &Socket, _: u32, _: &mut SocketAddr) -> io::Result<()> {
    Err(sys::unsupported())
}
/// Enables keepalive probes to the peer of a stream after `idle` without data.
///
/// # Errors
/// Errors of the system.
pub fn keep_alive(stream: &std::net::TcpStream, idle: Duration) -> io::Result<()> {
    let probes = TcpKeepalive::new().with_time(idle).with_interval(idle);
    socket2::SockRef::from(stream).set_tcp_keepalive(&probes)
}
