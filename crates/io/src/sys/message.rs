//! Datagrams with their control messages on Linux: one `sendmsg` or `recvmsg` a call.
//!
//! Control messages are written and read as bytes in the kernel's layout, which is the same on
//! every architecture but for the width of the length:
//!
//! ```text
//! ┌────────────────┬───────┬──────┬──────────┬─────────┐
//! │ length (usize) │ level │ type │ data ... │ padding │   length counts header and data; the next one begins at the
//! └────────────────┴───────┴──────┴──────────┴─────────┘   next multiple of a usize
//! ```

use metrics::Clamped;
use std::io::{self, IoSlice};
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{null, null_mut};

/// Bytes of a control message before its data.
const HEADER: usize = size_of::<usize>() + 8;
/// Room for all control messages that are ever asked for at once: time stamps (64), source and
/// interface (40), five of 24.
const CONTROL: usize = 512;
/// Bytes of the longest address used, that of IPv6.
const NAME: usize = size_of::<libc::sockaddr_in6>();

const fn padded(n: usize) -> usize {
    n.next_multiple_of(size_of::<usize>())
}

/// Memory for control messages, aligned as the kernel wants it.
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; CONTROL],
    len: usize,
}

impl Control {
    pub(crate) const fn new() -> Self {
        Control { bytes: [0; CONTROL], len: 0 }
    }

    /// The messages that a socket option returns, such as `IP_PKTOPTIONS`.
    pub(crate) fn of_option(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<Self> {
        let mut control = Control::new();
        control.len = super::unix::get_option(fd, level, name, &mut control.bytes)?;
        Ok(control)
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a message; there is room for all that a caller has to say.
    pub(crate) fn put(&mut self, level: i32, kind: i32, data: &[u8]) {
        let (at, len) = (self.len, HEADER + data.len());
        let Some(room) = self.bytes.get_mut(at..at + padded(len)) else { return };
        let word = size_of::<usize>();
        room[..word].copy_from_slice(&len.to_ne_bytes());
        room[word..word + 4].copy_from_slice(&level.to_ne_bytes());
        room[word + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        room[HEADER..len].copy_from_slice(data);
        self.len += padded(len);
    }

    /// The messages received: level, type and data of each.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (i32, i32, &[u8])> {
        let mut rest = &self.bytes[..self.len.min(CONTROL)];
        std::iter::from_fn(move || {
            let word = size_of::<usize>();
            let len = usize::from_ne_bytes(*rest.first_chunk()?);
            let level = i32::from_ne_bytes(*rest.get(word..)?.first_chunk()?);
            let kind = i32::from_ne_bytes(*rest.get(word + 4..)?.first_chunk()?);
            let data = rest.get(HEADER..len)?;
            rest = rest.get(padded(len)..).unwrap_or_default();
            Some((level, kind, data))
        })
    }
}

/// Results of a receive call besides the bytes.
pub(crate) struct ReceivedMessage {
    /// Bytes received; with `MSG_TRUNC`, bytes of the whole datagram.
    pub(crate) len: usize,
    /// Flags of the message, `MSG_TRUNC` above all.
    pub(crate) flags: i32,
    /// Source, unless the caller did not ask for it.
    pub(crate) from: Option<SocketAddr>,
}

/// Sends one datagram, or a run of them, made of `pieces`.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    to: Option<&socket2::SockAddr>,
    control: &mut Control,
) -> io::Result<usize> {
    // SAFETY: `msghdr` is plain numbers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    if let Some(to) = to {
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
    }
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    if control.len > 0 {
        message.msg_control = control.bytes.as_mut_ptr().cast();
        message.msg_controllen = control.len as _;
    }
    // SAFETY: all that `message` points to outlives the call and is only read: the address with its
    // own length, `pieces` (an `IoSlice` has the layout of an `iovec`) with their number, and as
    // many control bytes as are given.
    let n =
        unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Sends to the peer of a connected socket, one datagram or part of a stream: nothing but its
/// bytes.
///
/// Round trips use this function and [`recv_plain`]. Both make the system call directly: the C
/// library's functions are points at which a thread can be cancelled, which costs two atomic
/// operations a call where there are threads.
pub(crate) fn send_plain(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let (to, len) = (null::<libc::sockaddr>(), 0_usize);
    // SAFETY: the kernel reads as many bytes as `bytes` has, and no address.
    let n = unsafe {
        libc::syscall(libc::SYS_sendto, fd.as_raw_fd(), bytes.as_ptr(), bytes.len(), flags, to, len)
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Receives bytes of a stream, or one datagram, into `buffer`, without ancillary data. The rest of
/// a longer datagram is lost.
pub(crate) fn recv_plain(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    let (from, len) = (null_mut::<libc::sockaddr>(), null_mut::<libc::socklen_t>());
    // SAFETY: the kernel writes at most as many bytes as `buffer` has, which is borrowed
    // exclusively, and no address.
    let n = unsafe {
        libc::syscall(libc::SYS_recvfrom, fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len(), flags, from, len)
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Receives one datagram, or a run of them, into `buffer`; its control messages replace the ones in
/// `control`. The sender's address costs a little and is left out unless `named`.
pub(crate) fn recv(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &mut Control,
    named: bool,
    flags: i32,
) -> io::Result<ReceivedMessage> {
    let mut name = [0_u64; NAME.div_ceil(8)];
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: as in `send`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    if named {
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = NAME as libc::socklen_t;
    }
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    control.len = 0;
    // SAFETY: the kernel writes at most the lengths given: `NAME` bytes of `name`, the buffer, and
    // the control bytes, all of which outlive the call and are borrowed exclusively.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
    let len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    control.len = usize::clamped(message.msg_controllen);
    let from = if named { address(&name, usize::clamped(message.msg_namelen)) } else { None };
    Ok(ReceivedMessage { len, flags: message.msg_flags, from })
}

/// A kernel's socket address (`struct sockaddr_in` or `sockaddr_in6`).
fn address(words: &[u64], len: usize) -> Option<SocketAddr> {
    let mut bytes = [0; NAME.next_multiple_of(8)];
    for (to, word) in bytes.chunks_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let bytes = bytes.get(..len)?;
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        libc::AF_INET => {
            let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_read_as_they_were_written() {
        let mut control = Control::new();
        control.put(1, 2, b"abc");
        control.put(3, 4, b"");
        control.put(5, 6, b"12345678");
        let seen: Vec<_> = control.messages().collect();
        assert_eq!(seen, [(1, 2, &b"abc"[..]), (3, 4, b""), (5, 6, b"12345678")]);
    }

    #[test]
    fn broken_control_messages_end_the_list() {
        let mut control = Control::new();
        control.put(1, 2, b"abcdefgh");
        control.len -= 1;
        assert_eq!(control.messages().count(), 0);
        control.len = CONTROL + 1;
        control.bytes.fill(0xff);
        assert_eq!(control.messages().count(), 0);
        control.bytes.fill(0);
        assert_eq!(control.messages().count(), 0, "a length of zero must not loop");
    }
}
