//! the contract's `Net` over a TCP socket: no allocation, no lock, one system call a send or
//! receive.

use crate::Clock;
use crate::sys::{SHORT, gather, not_received, not_sent, sent, uninterrupted};
use metrics::{Clamped, Mono};
use socket2::Socket;
use std::io::{self, IoSlice};
use transport::{Got, Net, Read, Received, Sent, Transmit};

/// Pieces gathered into one system call.
const PIECES: usize = 64;

/// A closed connection is an error here, not a signal.
#[cfg(target_os = "linux")]
const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
#[cfg(not(target_os = "linux"))]
const SEND_FLAGS: i32 = 0;

/// A connection, a worker's receive buffer and its clock.
#[derive(Debug)]
pub struct TcpNet<'a> {
    pub(super) socket: &'a Socket,
    pub(super) buffer: &'a mut [u8],
    pub(super) clock: &'a Clock,
    /// Receive calls sleep until data arrives: for sockets that were [let
    /// sleep](transport::StreamSocket::let_sleep).
    pub(super) sleeps: bool,
}

impl TcpNet<'_> {
    #[cfg(target_os = "linux")]
    fn read(&mut self, n: usize) -> io::Result<usize> {
        use std::os::fd::AsFd as _;
        let flags = if self.sleeps { 0 } else { libc::MSG_DONTWAIT };
        crate::sys::message::recv_plain(self.socket.as_fd(), &mut self.buffer[..n], flags)
    }

    #[cfg(not(target_os = "linux"))]
    fn read(&mut self, n: usize) -> io::Result<usize> {
        use io::Read as _;
        let mut socket = self.socket;
        socket.read(&mut self.buffer[..n])
    }

    fn look(&mut self, n: usize) -> Got<'_> {
        let n = n.min(self.buffer.len());
        if n == 0 {
            return Got::Nothing;
        }
        match uninterrupted(|| self.read(n)) {
            Ok(0) => Got::Fin,
            Ok(len) => Got::Received(Received::stream(&self.buffer[..len], self.clock.now())),
            Err(e) => not_received(&e),
        }
    }

    /// Drops bytes in the kernel.
    #[cfg(target_os = "linux")]
    fn skip(&mut self, n: usize) -> Got<'_> {
        use std::os::fd::AsFd as _;
        match uninterrupted(|| crate::sys::linux::recv_drop(self.socket.as_fd(), n)) {
            Ok(0) => Got::Fin,
            Ok(len) => Got::Received(Received::skipped(len, self.clock.now())),
            Err(e) => not_received(&e),
        }
    }

    /// Reads bytes and forgets them, until there are no more or enough.
    #[cfg(not(target_os = "linux"))]
    fn skip(&mut self, n: usize) -> Got<'_> {
        let mut skipped = 0;
        while skipped < n {
            match self.look(n - skipped) {
                Got::Received(received) => skipped += received.len,
                _ if skipped > 0 => break,
                Got::Nothing => return Got::Nothing,
                Got::Fin => return Got::Fin,
                Got::Fault(fault) => return Got::Fault(fault),
            }
        }
        Got::Received(Received::skipped(skipped, self.clock.now()))
    }
}

impl Net for TcpNet<'_> {
    #[inline]
    fn stream(&self) -> bool {
        true
    }

    /// All pieces are offered to the kernel, 64 a call: fewer bytes accepted than offered means
    /// that the socket is full (or has failed, and says so), never that there were many pieces.
    fn send(&mut self, burst: &Transmit<'_>) -> Sent {
        if (1..=SHORT).contains(&burst.len()) {
            let mut whole = [0; SHORT];
            let n = gather(burst, &mut whole);
            return sent(push(self.socket, &[IoSlice::new(&whole[..n])]));
        }
        let mut slices = burst.slices().filter(|slice| !slice.is_empty());
        let mut wrote = Sent::default();
        loop {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let (mut count, mut offered) = (0, 0);
            for (piece, slice) in pieces.iter_mut().zip(&mut slices) {
                *piece = IoSlice::new(slice);
                count += 1;
                offered += slice.len();
            }
            if count == 0 {
                return wrote;
            }
            match push(self.socket, &pieces[..count]) {
                Ok(n) => {
                    wrote.bytes += n;
                    if n < offered || count < PIECES {
                        return wrote;
                    }
                }
                Err(e) => return Sent { fault: not_sent(&e), ..wrote },
            }
        }
    }

    fn recv(&mut self, how: Read) -> Got<'_> {
        match how {
            Read::Pause => Got::Nothing,
            Read::Look(n) => self.look(usize::clamped(n.get())),
            Read::Skip(n) => self.skip(usize::clamped(n.get())),
        }
    }

    fn now(&mut self) -> Mono {
        self.clock.now()
    }

    #[inline]
    fn hurry(&mut self) {
        self.sleeps = false;
    }
}

fn push(socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    uninterrupted(|| match pieces {
        // Cheaper than the C library's call, with the same flags.
        #[cfg(target_os = "linux")]
        [one] => crate::sys::message::send_plain(std::os::fd::AsFd::as_fd(socket), one),
        #[cfg(not(target_os = "linux"))]
        [one] => socket.send_with_flags(one, SEND_FLAGS),
        many => socket.send_vectored_with_flags(many, SEND_FLAGS),
    })
}
