//! The system calls about a network card's stamps and its clock, made safe: one call a function.
//! `card::layout` interprets their bytes.

use super::space::interface_name;
use super::unix::check;
use crate::card::layout::How;
use metrics::Clamped;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SIOCSHWTSTAMP` and `SIOCGHWTSTAMP` of linux/sockios.h.
const SET: libc::c_ulong = 0x89b0;
const GET: libc::c_ulong = 0x89b1;

fn stamping(socket: BorrowedFd<'_>, name: &str, ask: libc::c_ulong, mut config: How) -> io::Result<How> {
    let ifr_name = interface_name(name).ok_or(io::ErrorKind::InvalidInput)?;
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut config).cast() };
    let mut request = libc::ifreq { ifr_name, ifr_ifru };
    // SAFETY: both requests read the interface's name and read and write the hwtstamp_config behind
    // the pointer, whose layout `How` has. The request and the configuration outlive the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), ask as _, &raw mut request) }).map(|_| config)
}

/// The card's present stamp setting.
pub(crate) fn how(socket: BorrowedFd<'_>, name: &str) -> io::Result<How> {
    stamping(socket, name, GET, How::default())
}

/// Has the card of an interface stamp like that; how it does now, which a driver may choose
/// otherwise. Needs `CAP_NET_ADMIN`.
pub(crate) fn set(socket: BorrowedFd<'_>, name: &str, config: How) -> io::Result<How> {
    stamping(socket, name, SET, config)
}

/// Sends a request to a card's clock (`/dev/ptpN`). The request's number carries the length of
/// `block`, which must be true.
pub(crate) fn ask_clock(clock: BorrowedFd<'_>, request: u32, block: &mut [u8]) -> io::Result<()> {
    // The length is 14 bits from bit 16 on (asm-generic/ioctl.h).
    if usize::clamped(request >> 16 & 0x3fff) != block.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a device's requests read and write as many bytes behind the pointer as their number
    // says, which is what `block` has; it outlives the call.
    check(unsafe { libc::ioctl(clock.as_raw_fd(), request as _, block.as_mut_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn what_has_no_stamps_says_so() {
        let socket = UnixDatagram::unbound().unwrap();
        assert!(how(socket.as_fd(), "lo").is_err());
        assert!(how(socket.as_fd(), "no-such-nic").is_err());
        assert!(how(socket.as_fd(), "").is_err());
    }

    #[test]
    fn a_block_of_another_length_is_not_passed_on() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let request = 2 << 30 | 80 << 16 | u32::from(b'=') << 8 | 1;
        let kind = |n: usize| ask_clock(null.as_fd(), request, &mut vec![0; n]).unwrap_err().kind();
        assert_eq!(kind(79), io::ErrorKind::InvalidInput);
        // The kernel's own word: this is no such device.
        assert_ne!(kind(80), io::ErrorKind::InvalidInput);
    }
}
