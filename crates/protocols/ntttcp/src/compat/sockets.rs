//! Socket numbers of the console. The numbers follow the original's descriptors: the first number
//! is the one that the original would get, and a new socket takes the lowest free number. None is a
//! file descriptor of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

#[derive(Clone, Debug, Default)]
pub(super) struct Sockets {
    next: u32,
    free: BTreeSet<u32>,
    /// By local port and peer address.
    open: BTreeMap<(u16, SocketAddr), u32>,
}

impl Sockets {
    /// Starts at `next`.
    pub(super) fn from(next: u32) -> Sockets {
        Sockets { next, ..Sockets::default() }
    }

    pub(super) fn open(&mut self, port: u16, remote: SocketAddr) -> u32 {
        let number = self.free.pop_first().unwrap_or_else(|| {
            self.next = self.next.saturating_add(1);
            self.next - 1
        });
        self.open.insert((port, remote), number);
        number
    }

    /// Releases a number and returns it.
    pub(super) fn close(&mut self, port: u16, remote: SocketAddr) -> Option<u32> {
        let number = self.open.remove(&(port, remote))?;
        self.free.insert(number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_taken() {
        let at = |port: u16| SocketAddr::from(([192, 0, 2, 1], port));
        let mut sockets = Sockets::from(6);
        assert_eq!(
            (sockets.open(5_000, at(1)), sockets.open(5_001, at(2)), sockets.open(5_001, at(3))),
            (6, 7, 8)
        );
        assert_eq!((sockets.close(5_001, at(2)), sockets.close(5_001, at(2))), (Some(7), None));
        assert_eq!((sockets.open(5_002, at(2)), sockets.open(5_002, at(4))), (7, 9));
    }
}
