//! TUN devices: interfaces whose packets a program reads and writes.
//!
//! Without offloads: each read is one IP packet as it would stand on a cable, cut to size and with
//! its checksums done; each write is one that arrives, and is in the receiver's socket when the
//! call returns.

use crate::sys::space::{self, Ask};
use crate::sys::uninterrupted;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

/// A TUN device; gone when dropped. Reading and writing never block.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes a device of this name in the network namespace of the calling thread. The device stays
    /// there; the value may be used by any thread.
    ///
    /// # Errors
    /// `NotFound` where the kernel has no TUN devices, `PermissionDenied` without the privilege
    /// (`CAP_NET_ADMIN`).
    pub fn new(name: &str) -> io::Result<Self> {
        let mut request = space::request(name)?;
        let file =
            File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        space::interface(file.as_fd(), Ask::Tun, &mut request)?;
        Ok(Tun { file })
    }

    /// The next packet that was sent through the device, into `buffer`: its length, `None` when
    /// there is none. A longer packet is cut off; none is longer than 65535 bytes.
    ///
    /// # Errors
    /// When the device is gone or down.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match uninterrupted(|| (&self.file).read(buffer)) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Has a packet arrive at the device.
    ///
    /// # Errors
    /// When the device is gone or down, or the packet is none.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        uninterrupted(|| (&self.file).write(packet)).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{Interface, Namespace};
    use crate::testing::{readable, skip};
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn packets_are_read_and_written() {
        let Ok(space) = Namespace::new() else {
            return skip("no network namespace can be made");
        };
        let made = space.within(|| {
            let tun = Tun::new("t0")?;
            let link = Interface::new("t0");
            link.quiet();
            link.mtu(1400)?;
            link.queue(50)?;
            link.address("192.0.2.1".parse().unwrap(), 24)?;
            link.up()?;
            Ok((tun, UdpSocket::bind("192.0.2.1:1000")?))
        });
        let (tun, socket) = match made {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return skip("no /dev/net/tun"),
            made => made.unwrap(),
        };
        assert_eq!(tun.read(&mut [0; 100]).unwrap(), None);
        socket.send_to(b"there", "192.0.2.9:2000").unwrap();
        readable(&tun);
        let mut packet = [0; 100];
        assert_eq!(tun.read(&mut packet).unwrap(), Some(33));
        // RFC 791, 768: version and header length, addresses, ports, payload.
        assert_eq!((packet[0], &packet[12..20]), (0x45, &[192, 0, 2, 1, 192, 0, 2, 9][..]));
        assert_eq!((&packet[20..24], &packet[28..33]), (&[3, 232, 7, 208][..], &b"there"[..]));
        // Back with addresses and ports exchanged, which changes neither checksum.
        let (from, to, ports) = ([192, 0, 2, 1], [192, 0, 2, 9], [7, 208, 3, 232]);
        packet[12..16].copy_from_slice(&to);
        packet[16..20].copy_from_slice(&from);
        packet[20..24].copy_from_slice(&ports);
        tun.write(&packet[..33]).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut got = [0; 9];
        assert_eq!(socket.recv_from(&mut got).unwrap(), (5, "192.0.2.9:2000".parse().unwrap()));
        // More than the queue holds: what the reader missed is counted.
        for _ in 0..80 {
            socket.send_to(b"there", "192.0.2.9:2000").unwrap();
        }
        let losses = space.within(|| Interface::new("t0").losses()).unwrap();
        let mut read = 0_u64;
        while tun.read(&mut packet).unwrap().is_some() {
            read += 1;
        }
        assert_eq!(read + losses.tx_dropped, 80, "{losses:?}");
        assert!((25..55).contains(&read), "about as many as fit: {losses:?}");
        assert!(tun.write(&[0; 40]).is_err());
    }
}
