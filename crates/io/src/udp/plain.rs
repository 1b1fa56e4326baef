//! A plain datagram socket.

use crate::sys::{fault, open_for, plain, share_port};
use socket2::{Protocol, Type};
use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV6, UdpSocket};
use transport::{Deed, Fault};

/// A nonblocking, unconnected UDP socket.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    v6: bool,
}

impl Datagrams {
    /// Binds to `at`; `[::]` takes IPv4 as well. With `share`, several sockets may bind to one port and the kernel
    /// spreads the senders over them (Linux only).
    ///
    /// # Errors
    /// When the address is taken or not ours, or `share` is not to be had.
    pub fn bind(at: SocketAddr, share: bool) -> Result<Self, Fault> {
        let (socket, at) = open_for(at, Type::DGRAM, Protocol::UDP).map_err(fault(Deed::Open))?;
        if share {
            share_port(&socket).map_err(fault(Deed::Bind))?;
        }
        socket.bind(&at.into()).map_err(fault(Deed::Bind))?;
        Ok(Datagrams { socket: socket.into(), v6: at.is_ipv6() })
    }

    /// The next datagram's length and sender, or `None` when there is none. A datagram longer than `buffer` is cut.
    ///
    /// # Errors
    /// When the kernel reports an error of the socket. Errors that the network reports for a datagram sent earlier are
    /// not this one's and are passed over.
    pub fn recv_from(&self, buffer: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, Fault> {
        loop {
            match self.socket.recv_from(buffer) {
                Ok((n, from)) => return Ok(Some((n, plain(from)))),
                Err(e) => match e.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused => {}
                    _ => return Err(fault(Deed::Receive)(e)),
                },
            }
        }
    }

    /// Sends one datagram; a full send buffer is a fault like any other (`EAGAIN`).
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> Result<(), Fault> {
        let to = match to {
            SocketAddr::V4(v4) if self.v6 => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            _ => to,
        };
        loop {
            match self.socket.send_to(bytes, to) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(fault(Deed::Send)(e)),
            }
        }
    }

    /// Where it is bound.
    pub fn local(&self) -> Result<SocketAddr, Fault> {
        self.socket.local_addr().map(plain).map_err(fault(Deed::Bind))
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Datagrams {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Datagrams {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.socket.as_socket()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has_ipv6, readable};

    fn get(socket: &Datagrams) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 100];
        loop {
            if let Some((n, from)) = socket.recv_from(&mut buffer).unwrap() {
                return (buffer[..n].to_vec(), from);
            }
            readable(socket);
        }
    }

    #[test]
    fn datagrams_come_and_go() {
        let a = Datagrams::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let b = Datagrams::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        assert_eq!(a.recv_from(&mut [0; 8]).unwrap(), None);
        a.send_to(b"hello", b.local().unwrap()).unwrap();
        assert_eq!(get(&b), (b"hello".to_vec(), a.local().unwrap()));
        let taken = Datagrams::bind(a.local().unwrap(), false).unwrap_err();
        assert_eq!(taken.deed, Deed::Bind);
    }

    #[test]
    fn the_unspecified_address_takes_both_families() {
        if !has_ipv6() {
            return;
        }
        let both = Datagrams::bind("[::]:0".parse().unwrap(), false).unwrap();
        let port = both.local().unwrap().port();
        for ip in ["127.0.0.1", "::1"] {
            let one = Datagrams::bind(SocketAddr::new(ip.parse().unwrap(), 0), false).unwrap();
            one.send_to(b"there", SocketAddr::new(ip.parse().unwrap(), port)).unwrap();
            let (bytes, from) = get(&both);
            assert_eq!((&bytes[..], from), (&b"there"[..], one.local().unwrap()));
            both.send_to(b"back", from).unwrap();
            assert_eq!(get(&one).0, b"back");
        }
    }

    #[test]
    fn a_refused_datagram_does_not_spoil_the_next() {
        let gone = Datagrams::bind("127.0.0.1:0".parse().unwrap(), false).unwrap().local().unwrap();
        let a = Datagrams::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        for _ in 0..3 {
            a.send_to(b"anyone?", gone).unwrap();
        }
        a.send_to(b"me", a.local().unwrap()).unwrap();
        assert_eq!(get(&a).0, b"me");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_port_can_be_shared_when_all_agree() {
        let a = Datagrams::bind("127.0.0.1:0".parse().unwrap(), true).unwrap();
        let b = Datagrams::bind(a.local().unwrap(), true).unwrap();
        assert_eq!(a.local().unwrap(), b.local().unwrap());
    }
}
