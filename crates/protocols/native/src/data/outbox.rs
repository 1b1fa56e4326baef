//! Marks between payload, until the kernel has taken them.

use crate::mark::MARK;
use crate::preamble::PREAMBLE;

/// Bytes of preamble and marks waiting to be sent, ahead of any payload.
#[derive(Debug)]
pub(super) struct Outbox {
    bytes: [u8; PREAMBLE + 2 * MARK],
    from: u8,
    to: u8,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Outbox { bytes: [0; PREAMBLE + 2 * MARK], from: 0, to: 0 }
    }

    /// `n` of the waiting bytes have left.
    pub(super) fn left(&mut self, n: usize) {
        self.from += n as u8;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[usize::from(self.from)..usize::from(self.to)]
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.copy_within(usize::from(self.from)..usize::from(self.to), 0);
        let at = self.waiting().len();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        (self.from, self.to) = (0, (at + bytes.len()) as u8);
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting().len() + MARK <= self.bytes.len()
    }
}
