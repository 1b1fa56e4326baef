//! Bytes that wait to leave on the stream of a control link.

use transport::{Arena, Net as _, Platform, Sent, StreamSocket as _, Transmit};

/// Bytes of one send call.
const PIECE: usize = 64 * 1024;

#[derive(Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// Number of sent ones.
    gone: usize,
}

impl Outgoing {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Sent bytes are removed once they are more than half of the buffer: removing them after
        // each send would move the rest each time.
        if self.gone > self.bytes.len() / 2 {
            self.bytes.drain(..std::mem::take(&mut self.gone));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Sends as much as the stream takes.
    pub(crate) fn send<P: Platform>(&mut self, stream: &mut P::Stream, clock: &P::Clock) -> Sent {
        let mut all = Sent::default();
        while all.fault.is_none() && !self.is_empty() {
            let piece = self.len().min(PIECE);
            let mut arena = Arena::new(piece);
            let mut burst = Transmit::new(&mut arena, piece);
            burst.own(piece).copy_from_slice(&self.bytes[self.gone..self.gone + piece]);
            let sent = stream.net(&mut [], clock, false).send(&burst);
            self.gone += sent.bytes;
            all = Sent { bytes: all.bytes + sent.bytes, fault: sent.fault };
            if sent.bytes == 0 {
                break;
            }
        }
        if self.is_empty() {
            self.bytes.clear();
            self.gone = 0;
        }
        all
    }
}
