//! Options of UDP sockets: what is asked for, what the system made of it.

use crate::sys;
use crate::tcp::Refusal;
use crate::tcp::{set_device, set_tos, set_ttl, tclass};
use socket2::Socket;
use std::io;

/// Options of a UDP socket; `None` leaves the system's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Send buffer, bytes as asked for (Linux doubles it). Beyond `net.core.wmem_max` only where the process may force it.
    pub sndbuf: Option<u32>,
    /// Receive buffer, bytes as asked for (Linux doubles it). Beyond `net.core.rmem_max` only where the process may force it.
    pub rcvbuf: Option<u32>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// Time to live, or hop limit; 1 to 255.
    pub ttl: Option<u8>,
    /// Network interface to be bound to, by name. Linux.
    pub device: Option<String>,
    /// `Some(true)` sets DF and refuses datagrams that are longer than the interface takes, whatever the path's cache says
    /// (probing); `Some(false)` lets every router fragment. Linux.
    pub dont_fragment: Option<bool>,
    /// Several datagrams a send, cut apart by the kernel, where it can.
    pub gso: bool,
    /// Several datagrams a receive, merged by the kernel, where it can. They share one stamp, and time to live and traffic
    /// class are those of the first.
    pub gro: bool,
    /// The kernel's receive stamps, where it gives them.
    pub stamps: bool,
    /// Beside the kernel's stamps those of the network card, where it has them ([`crate::card`]). Linux; connected sockets only.
    pub card_stamps: bool,
    /// Most that the kernel sends (`SO_MAX_PACING_RATE`), bits/s; kept by the queueing discipline `fq` only. Linux.
    pub pacing: Option<u64>,
    /// Time to live, traffic class and overflows of what is received, where the kernel tells.
    pub marks: bool,
}

impl Default for UdpSettings {
    fn default() -> Self {
        UdpSettings {
            sndbuf: None,
            rcvbuf: None,
            dscp: None,
            ttl: None,
            device: None,
            dont_fragment: None,
            gso: true,
            gro: false,
            stamps: true,
            card_stamps: false,
            pacing: None,
            marks: true,
        }
    }
}

/// What the system says of a socket; `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpEffective {
    /// Send buffer, bytes as the system counts them (Linux: twice what was asked for).
    pub sndbuf: Option<u32>,
    /// Receive buffer, bytes as the system counts them (Linux: twice what was asked for).
    pub rcvbuf: Option<u32>,
    /// Traffic class octet: DSCP and ECN.
    pub tos: Option<u8>,
    /// Time to live, or hop limit.
    pub ttl: Option<u8>,
    /// Path MTU as the kernel knows it, bytes; only of connected sockets. Linux.
    pub mtu: Option<u32>,
    /// Most datagrams in one send.
    pub segments: usize,
    /// Whether the kernel merges datagrams for a receive.
    pub gro: bool,
    /// Whether the kernel stamps what arrives.
    pub stamps: bool,
    /// Why the card's stamps are not used, where they were asked for: one sentence.
    pub no_card: Option<String>,
}

/// Sets what is asked for, all of it even when something is refused; the first refusal.
pub(super) fn apply(socket: &Socket, v6: bool, want: &UdpSettings) -> Option<Refusal> {
    let mut first = None;
    let mut note = |option: &'static str, result: io::Result<()>| {
        if let Err(e) = result {
            first.get_or_insert(Refusal { option, errno: sys::errno(&e) });
        }
    };
    if let Some(device) = &want.device {
        note("device", set_device(socket, device));
    }
    if let Some(bytes) = want.sndbuf {
        note("sndbuf", set_buffer(socket, Buffer::Send, bytes));
    }
    if let Some(bytes) = want.rcvbuf {
        note("rcvbuf", set_buffer(socket, Buffer::Receive, bytes));
    }
    if let Some(dscp) = want.dscp {
        note("dscp", set_tos(socket, v6, dscp));
    }
    if let Some(ttl) = want.ttl {
        note("ttl", set_ttl(socket, v6, ttl));
    }
    if let Some(bits) = want.pacing {
        note("pacing", sys::set_pacing(socket, bits));
    }
    if let Some(df) = want.dont_fragment {
        note("dont_fragment", set_df(socket, v6, df));
    }
    first
}

/// What the system says of the options that every system has.
pub(super) fn effective(socket: &Socket, v6: bool) -> UdpEffective {
    let size = |result: io::Result<usize>| result.ok().and_then(|n| u32::try_from(n).ok());
    let octet = |result: io::Result<u32>| result.ok().and_then(|n| u8::try_from(n).ok());
    UdpEffective {
        sndbuf: size(socket.send_buffer_size()),
        rcvbuf: size(socket.recv_buffer_size()),
        tos: octet(if v6 { tclass(socket) } else { socket.tos_v4() }),
        ttl: octet(if v6 { socket.unicast_hops_v6() } else { socket.ttl_v4() }),
        mtu: mtu(socket, v6),
        segments: 1,
        gro: false,
        stamps: false,
        no_card: None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Buffer {
    Send,
    Receive,
}

fn set_buffer(socket: &Socket, which: Buffer, bytes: u32) -> io::Result<()> {
    match which {
        Buffer::Send => socket.set_send_buffer_size(bytes as usize)?,
        Buffer::Receive => socket.set_recv_buffer_size(bytes as usize)?,
    }
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd as _;
        let got = match which {
            Buffer::Send => socket.send_buffer_size()?,
            Buffer::Receive => socket.recv_buffer_size()?,
        };
        if got / 2 < bytes as usize {
            let name = if which == Buffer::Send { libc::SO_SNDBUFFORCE } else { libc::SO_RCVBUFFORCE };
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX).to_ne_bytes();
            // Without the privilege it stays at the limit, which the effective value shows.
            let _ = sys::linux::set_option(socket.as_fd(), libc::SOL_SOCKET, name, &bytes);
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn set_df(socket: &Socket, v6: bool, df: bool) -> io::Result<()> {
    use std::os::fd::AsFd as _;
    let how = if df { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_DONT };
    sys::linux::set_option(socket.as_fd(), libc::SOL_IP, libc::IP_MTU_DISCOVER, &how.to_ne_bytes())
        .or_else(|e| if v6 { Ok(()) } else { Err(e) })?;
    if v6 {
        let how = if df { libc::IPV6_PMTUDISC_PROBE } else { libc::IPV6_PMTUDISC_DONT };
        sys::linux::set_option(socket.as_fd(), libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, &how.to_ne_bytes())?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_df(_: &Socket, _: bool, _: bool) -> io::Result<()> {
    Err(sys::unsupported())
}

#[cfg(target_os = "linux")]
fn mtu(socket: &Socket, v6: bool) -> Option<u32> {
    use std::os::fd::AsFd as _;
    let (level, name) = if v6 { (libc::SOL_IPV6, libc::IPV6_MTU) } else { (libc::SOL_IP, libc::IP_MTU) };
    let mut bytes = [0; 4];
    sys::linux::get_option(socket.as_fd(), level, name, &mut bytes).ok()?;
    u32::try_from(i32::from_ne_bytes(bytes)).ok()
}

#[cfg(not(target_os = "linux"))]
fn mtu(_: &Socket, _: bool) -> Option<u32> {
    None
}
