//! Options of UDP sockets: the requested values, and the system's.

use crate::sys;
#[cfg(not(target_os = "linux"))]
use crate::sys::MissingOptions as _;
use crate::tcp::{Options, Refusal, class_octet, set_tos, set_ttl};
use socket2::Socket;
use std::io;
use transport::SocketSettings;

/// Sets all options in `want`, also after a refusal.
///
/// # Errors
/// The first refusal.
pub(super) fn apply(socket: &Socket, v6: bool, want: &SocketSettings) -> Result<(), Refusal> {
    let mut options = Options::default();
    options.set("device", want.device.as_deref(), |name| socket.bind_device(Some(name.as_bytes())));
    options.set("sndbuf", want.sndbuf, |bytes| set_buffer(socket, Buffer::Send, bytes));
    options.set("rcvbuf", want.rcvbuf, |bytes| set_buffer(socket, Buffer::Receive, bytes));
    let class = (want.dscp.is_some() || want.ecn.is_some()).then(|| want.dscp.unwrap_or(0));
    options.set("dscp", class, |dscp| set_tos(socket, v6, class_octet(dscp, want.ecn)?));
    options.set("ttl", want.ttl, |ttl| set_ttl(socket, v6, ttl));
    options.set("pacing", want.pacing, |bits| sys::set_pacing(socket, bits));
    options.set("dont_fragment", want.dont_fragment, |df| set_df(socket, v6, df));
    options.done()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Buffer {
    Send,
    Receive,
}

fn set_buffer(socket: &Socket, which: Buffer, bytes: u64) -> io::Result<()> {
    let bytes = sys::buffer_size(bytes);
    match which {
        Buffer::Send => socket.set_send_buffer_size(bytes)?,
        Buffer::Receive => socket.set_recv_buffer_size(bytes)?,
    }
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd as _;
        let got = match which {
            Buffer::Send => socket.send_buffer_size()?,
            Buffer::Receive => socket.recv_buffer_size()?,
        };
        if got / 2 < bytes {
            let name = if which == Buffer::Send { libc::SO_SNDBUFFORCE } else { libc::SO_RCVBUFFORCE };
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX).to_ne_bytes();
            // Without the privilege it stays at the limit, which the effective value shows.
            let _ = sys::unix::set_option(socket.as_fd(), libc::SOL_SOCKET, name, &bytes);
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn set_df(socket: &Socket, v6: bool, df: bool) -> io::Result<()> {
    use std::os::fd::AsFd as _;
    let how = if df { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_DONT };
    sys::unix::set_option(socket.as_fd(), libc::SOL_IP, libc::IP_MTU_DISCOVER, &how.to_ne_bytes())
        .or_else(|e| if v6 { Ok(()) } else { Err(e) })?;
    if v6 {
        let how = if df { libc::IPV6_PMTUDISC_PROBE } else { libc::IPV6_PMTUDISC_DONT };
        sys::unix::set_option(socket.as_fd(), libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, &how.to_ne_bytes())?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_df(_: &Socket, _: bool, _: bool) -> io::Result<()> {
    Err(sys::unsupported())
}

#[cfg(target_os = "linux")]
pub(super) fn mtu(socket: &Socket, v6: bool) -> Option<u32> {
    use std::os::fd::AsFd as _;
    let (level, name) = if v6 { (libc::SOL_IPV6, libc::IPV6_MTU) } else { (libc::SOL_IP, libc::IP_MTU) };
    let mut bytes = [0; 4];
    sys::unix::get_option(socket.as_fd(), level, name, &mut bytes).ok()?;
    u32::try_from(i32::from_ne_bytes(bytes)).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn mtu(_: &Socket, _: bool) -> Option<u32> {
    None
}
