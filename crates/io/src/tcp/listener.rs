//! Accepting connections.

use super::Stream;
use super::settings::{apply, protocol};
use crate::System;
use crate::sys::{fault, open_for, plain, prefer_core, share_port};
use socket2::{SockAddr, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use transport::{Deed, Fault, ListenerSocket, Path, SocketSettings};

/// Connections that may wait to be accepted: as many as the system lets (Linux:
/// `net.core.somaxconn`).
const BACKLOG: i32 = 65_535;

#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    /// True if several listeners may share one port here.
    pub const CAN_SHARE: bool = cfg!(all(target_os = "linux", not(feature = "portable")));

    /// Listens at `at`; `[::]` takes IPv4 as well (and is all of IPv4 where there is no IPv6). With
    /// `share`, several listeners may do so at one port and the kernel spreads the connections over
    /// them (Linux only). Accepted sockets inherit the settings, also the ones that take effect
    /// with the first segment.
    ///
    /// # Errors
    /// When the address is taken or not ours, or an option is refused.
    pub fn bind(at: SocketAddr, share: bool, settings: &SocketSettings) -> Result<Self, Fault> {
        match Listener::bind_as(at, share, settings) {
            // Older kernels have multipath TCP without some of the options.
            Err(_) if settings.multipath => {
                Listener::bind_as(at, share, &SocketSettings { multipath: false, ..settings.clone() })
            }
            bound => bound,
        }
    }

    fn bind_as(at: SocketAddr, share: bool, settings: &SocketSettings) -> Result<Self, Fault> {
        let (socket, at) = open_for(at, Type::STREAM, protocol(settings)).map_err(fault(Deed::Open))?;
        // On Windows the option means something else: taking over a port that is in use.
        if cfg!(unix) {
            socket.set_reuse_address(true).map_err(fault(Deed::Open))?;
        }
        if share {
            share_port(&socket).map_err(fault(Deed::Bind))?;
        }
        // A label is a sender's: accepted sockets have none to inherit.
        let settings = &SocketSettings { flow_label: None, ..settings.clone() };
        apply(&socket, settings, None)?;
        socket.bind(&at.into()).map_err(fault(Deed::Bind))?;
        socket.listen(BACKLOG).map_err(fault(Deed::Listen))?;
        Ok(Listener(socket))
    }

    /// Among listeners that share a port, takes connections that arrive on this core
    /// (`SO_INCOMING_CPU`, Linux); the others get them only if no listener prefers it. Elsewhere
    /// nothing changes.
    pub fn prefer_core(&self, core: usize) {
        prefer_core(&self.0, core);
    }

    /// Its address; `[::]` stands for both families.
    pub fn local(&self) -> Result<SocketAddr, Fault> {
        let address = self.0.local_addr().map_err(fault(Deed::Listen))?;
        address.as_socket().ok_or(Fault { deed: Deed::Listen, errno: crate::sys::UNSUPPORTED })
    }
}

impl ListenerSocket<System> for Listener {
    /// Connections that failed while they waited are skipped. The kernel refuses above all for want
    /// of descriptors or memory (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`): the connection then
    /// keeps waiting, and the listener stays readable.
    fn accept(&self) -> Result<Option<(Stream, Path)>, Fault> {
        loop {
            let (socket, peer) = match accept(&self.0) {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if failed_in_the_queue(&e) => continue,
                Err(e) => return Err(fault(Deed::Listen)(e)),
            };
            let stream = Stream(socket);
            // A peer without an address, or a socket without one of its own, is gone already.
            if let (Some(peer), Ok(local)) = (peer.as_socket(), stream.local()) {
                return Ok(Some((stream, Path { peer: plain(peer), local })));
            }
        }
    }
}

fn accept(socket: &Socket) -> io::Result<(Socket, SockAddr)> {
    #[cfg(target_os = "linux")]
    return socket.accept4(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    #[cfg(not(target_os = "linux"))]
    {
        let (accepted, peer) = socket.accept()?;
        accepted.set_nonblocking(true)?;
        Ok((accepted, peer))
    }
}

/// Errors of the connection rather than of the listener: each takes that connection off the queue
/// (accept(2)).
fn failed_in_the_queue(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    if matches!(
        error.raw_os_error(),
        Some(
            libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENONET
                | libc::EPERM
        )
    ) {
        return true;
    }
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

#[cfg(unix)]
impl std::os::fd::AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Listener {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.0.as_socket()
    }
}
