//! A connection.

use super::TcpNet;
#[cfg(unix)]
use super::info;
use super::settings::{apply, effective, protocol};
use crate::sys::{self, fault, in_progress, plain};
use crate::{Clock, System};
use metrics::{SocketState, TcpInfo};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;
use transport::{Deed, Effective, Fault, Path, SocketSettings, StreamSocket, Target};

/// A nonblocking TCP socket that is connected or about to be. Dropping it closes it in order.
#[derive(Debug)]
pub struct Stream(pub(super) Socket);

impl Stream {
    /// A connected local socket, which is no TCP: it has no TCP_INFO.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_local(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Stream(Socket::from(std::os::fd::OwnedFd::from(socket))))
    }

    /// Starts to connect, with all settings made before; `true` when the connection is up already.
    /// From an address without a port the port is chosen when the peer is known, so that one local
    /// address has 28 000 ports per peer.
    ///
    /// # Errors
    /// When an option is refused, our address cannot be had, or connecting fails at once.
    pub fn connect(to: &Target, settings: &SocketSettings) -> Result<(Stream, bool), Fault> {
        let mut peer = to.to;
        let socket = sys::open(Domain::for_address(peer), Type::STREAM, protocol(settings))
            .map_err(fault(Deed::Open))?;
        apply(&socket, settings, Some(&mut peer))?;
        if let Some(from) = to.from {
            bind(&socket, from)?;
        }
        match socket.connect(&peer.into()) {
            Ok(()) => Ok((Stream(socket), true)),
            Err(e) if in_progress(&e) || e.kind() == io::ErrorKind::Interrupted => {
                Ok((Stream(socket), false))
            }
            Err(e) => Err(fault(Deed::Connect)(e)),
        }
    }

    /// Tries a local address, as a connection from there takes it.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn try_local(from: SocketAddr) -> Result<(), Fault> {
        let settings = SocketSettings::default();
        let socket = sys::open(Domain::for_address(from), Type::STREAM, protocol(&settings));
        bind(&socket.map_err(fault(Deed::Open))?, from)
    }

    /// Both ends' addresses; IPv4 is shown as IPv4 on a dual-stack socket, too.
    ///
    /// # Errors
    /// When it is not connected (any more).
    pub fn path(&self) -> Result<Path, Fault> {
        let peer = self.0.peer_addr().and_then(address).map_err(fault(Deed::Connect))?;
        Ok(Path { peer, local: self.local()? })
    }

    pub(super) fn local(&self) -> Result<SocketAddr, Fault> {
        self.0.local_addr().and_then(address).map_err(fault(Deed::Connect))
    }

    /// True if the kernel has given the connection up; not known (`false`) on Windows.
    fn closed(&self) -> bool {
        #[cfg(unix)]
        return self.raw_info(&mut [0; 8]).is_some_and(info::is_closed);
        #[cfg(not(unix))]
        false
    }

    /// The kernel's structure of the connection, as much of it as fits.
    #[cfg(unix)]
    fn raw_info<'a>(&self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        use std::os::fd::AsFd as _;
        let n = sys::unix::get_option(self.0.as_fd(), libc::IPPROTO_TCP, info::OPTION, bytes).ok()?;
        bytes.get(..n)
    }
}

impl StreamSocket<System> for Stream {
    type Net<'a> = TcpNet<'a>;

    fn connected(&self) -> Result<Option<Path>, Fault> {
        // The peer's address is the cheapest sign of success, and on the common path the only
        // question.
        let not_connected = match self.path() {
            Ok(path) => return Ok(Some(path)),
            Err(fault) => fault,
        };
        match self.0.take_error() {
            Ok(None) if self.closed() => Err(not_connected),
            // No peer and no error left: under way.
            Ok(None) => Ok(None),
            Ok(Some(e)) | Err(e) => Err(fault(Deed::Connect)(e)),
        }
    }

    /// A flow label is always refused: a connection has it from its beginning or never.
    fn apply(&self, settings: &SocketSettings) -> Result<(), Fault> {
        apply(&self.0, settings, None).map_err(Fault::from)
    }

    fn effective(&self) -> Effective {
        effective(&self.0)
    }

    /// `TCP_MAXSEG`.
    fn mss(&self) -> Option<u32> {
        super::settings::mss(&self.0)
    }

    /// `None` on Windows.
    fn info(&self) -> Option<TcpInfo> {
        #[cfg(unix)]
        return info::parse(self.raw_info(&mut [0; info::ROOM])?);
        #[cfg(not(unix))]
        None
    }

    /// `None` on Windows.
    #[cfg(not(unix))]
    fn state(&self) -> Option<SocketState> {
        None
    }

    /// `None` on Windows.
    #[cfg(unix)]
    fn state(&self) -> Option<SocketState> {
        let state = info::parse_state(self.raw_info(&mut [0; info::ROOM])?)?;
        let size = |result: io::Result<usize>| result.ok().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        Some(SocketState {
            number: std::os::fd::AsRawFd::as_raw_fd(&self.0),
            rcvbuf: size(self.0.recv_buffer_size()),
            sndbuf: size(self.0.send_buffer_size()),
            ..state
        })
    }

    /// Linux only. Of IPv4 packets the class of the one that completed the handshake, at the accepting
    /// end; of IPv6 the class of the newest segment that arrived in order, at either end.
    fn received_dscp(&self) -> Option<u8> {
        super::settings::kept_class(&self.0).map(|tos| tos >> 2)
    }

    /// Some milliseconds at most. Linux only.
    fn let_sleep(&self) -> io::Result<()> {
        sys::let_sleep(&self.0)
    }

    /// `TCP_THIN_LINEAR_TIMEOUTS`, Linux only: for six retransmissions, of at most three segments.
    fn retransmit_evenly(&self) {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsFd as _;
            let on = 1_i32.to_ne_bytes();
            let name = libc::TCP_THIN_LINEAR_TIMEOUTS;
            let _ = sys::unix::set_option(self.0.as_fd(), libc::SOL_TCP, name, &on);
        }
    }

    /// FIN after the queued bytes; reading goes on.
    fn half_close(&self) {
        // Fails only without a connection, which the next read reports.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// RST at once: queued bytes are dropped.
    fn abort(self) {
        // Should the option be refused, the socket is still closed.
        let _ = self.0.set_linger(Some(Duration::ZERO));
    }

    #[inline]
    fn net<'a>(&'a self, buffer: &'a mut [u8], clock: &'a Clock, sleeps: bool) -> TcpNet<'a> {
        TcpNet { socket: &self.0, buffer, clock, sleeps }
    }
}

/// Binds before connecting.
fn bind(socket: &Socket, from: SocketAddr) -> Result<(), Fault> {
    if from.port() != 0 {
        // Lets a port be used again while its last connection lingers, and for several peers at
        // once.
        if cfg!(unix) {
            socket.set_reuse_address(true).map_err(fault(Deed::Open))?;
        }
    } else {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsFd as _;
            let on = 1_i32.to_ne_bytes();
            // Linux before 4.2 does not know it, and then takes the port now.
            let _ = sys::unix::set_option(socket.as_fd(), libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on);
        }
    }
    socket.bind(&from.into()).map_err(fault(Deed::Bind))
}

fn address(address: SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().map(plain).ok_or_else(sys::unsupported)
}

#[cfg(unix)]
impl std::os::fd::AsFd for Stream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Stream {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.0.as_socket()
    }
}
