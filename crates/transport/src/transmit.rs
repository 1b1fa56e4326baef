//! One send call's worth of bytes on the way out, one receive call's worth on the way in.

use crate::Path;
use metrics::{CardStamp, Clamped, Mono, Stamp, StampKind};

/// Part of a [`Transmit`].
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// `len` bytes of the arena from `at`.
    Own {
        /// First byte.
        at: u32,
        /// Number of bytes.
        len: u32,
    },
    /// Bytes that live as long as the program and are sent by reference (the pattern).
    Fixed(&'static [u8]),
}

/// Worker-owned memory for one send. Its contents survive from one send to the next while the same
/// template key is used, so that prepared datagrams only need their headers rewritten.
#[derive(Debug)]
pub struct Arena {
    bytes: Vec<u8>,
    key: u64,
    pieces: Vec<Piece>,
}

impl Arena {
    /// An arena whose bursts may write up to `size` bytes of their own.
    pub fn new(size: usize) -> Self {
        Arena { bytes: vec![0; size], key: 0, pieces: Vec::with_capacity(32) }
    }
}

/// Exactly one send call: one destination, one segment size, one stamp tag.
#[derive(Debug)]
pub struct Transmit<'a> {
    arena: &'a mut Arena,
    room: usize,
    segments: usize,
    used: usize,
    len: usize,
    /// Datagrams: size of each but the last (generic segmentation); 0 for a single one and for
    /// streams.
    pub segment: u16,
    /// Datagrams: where to, and from which local address; `None` on a connected socket.
    pub to: Option<Path>,
    /// Traffic class octet (DSCP and ECN) of this send, when it differs from the socket's.
    pub tos: Option<u8>,
    /// Asks for a kernel transmit stamp, which returns as `FlowEvent::Stamped` with this tag.
    pub tag: Option<u32>,
    /// `on_sent` gets the instant just before the send call, not that before `prepare_send`.
    pub timed: bool,
}

impl<'a> Transmit<'a> {
    /// An empty burst that may hold up to `room` bytes.
    pub fn new(arena: &'a mut Arena, room: usize) -> Self {
        arena.pieces.clear();
        Transmit {
            arena,
            room,
            segments: 1,
            used: 0,
            len: 0,
            segment: 0,
            to: None,
            tos: None,
            tag: None,
            timed: false,
        }
    }

    /// The same with room for several datagrams, if they are of one size and `segment` has it.
    #[must_use]
    pub fn datagrams(self, segments: usize) -> Self {
        Transmit { segments: segments.max(1), ..self }
    }

    /// Most datagrams of this send, at least one: `segment` bytes each, the last one shorter or
    /// not. More than one only where the kernel was seen to cut them apart (generic segmentation).
    /// The room in bytes is a limit of its own.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        self.room - self.len
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without an offer. Datagrams without a byte cannot be offered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Offers bytes by reference; what does not fit in the room is left out.
    pub fn fixed(&mut self, bytes: &'static [u8]) {
        let bytes = &bytes[..bytes.len().min(self.room())];
        if !bytes.is_empty() {
            self.arena.pieces.push(Piece::Fixed(bytes));
            self.len += bytes.len();
        }
    }

    /// Up to `n` bytes to be written by the caller; fewer when room or arena end earlier.
    pub fn own(&mut self, n: usize) -> &mut [u8] {
        self.arena.key = 0;
        let at = self.used;
        let n = n.min(self.room()).min(self.arena.bytes.len() - at);
        self.used += n;
        self.len += n;
        match self.arena.pieces.last_mut() {
            Some(Piece::Own { at: first, len }) if usize::clamped(*first + *len) == at => {
                *len += u32::clamped(n);
            }
            _ => self.arena.pieces.push(Piece::Own { at: u32::clamped(at), len: u32::clamped(n) }),
        }
        &mut self.arena.bytes[at..at + n]
    }

    /// Offers a copy of as many of these bytes as fit; how many.
    pub fn copy(&mut self, bytes: &[u8]) -> usize {
        self.copied(bytes).len()
    }

    /// The same; the copy.
    pub fn copied(&mut self, bytes: &[u8]) -> &mut [u8] {
        let own = self.own(bytes.len());
        own.copy_from_slice(&bytes[..own.len()]);
        own
    }

    /// Offers a copy of all of these bytes, or nothing where they do not fit; whether it did.
    pub fn whole(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.room().min(self.arena.bytes.len() - self.used);
        if fits {
            self.copy(bytes);
        }
        fits
    }

    /// The burst's only piece: `n` bytes that `make` prepares once under `key` (not 0) and that are
    /// kept from send to send, so that only what changes is written again.
    pub fn template(&mut self, key: u64, n: usize, make: impl FnOnce(&mut [u8])) -> &mut [u8] {
        let n = n.min(self.room()).min(self.arena.bytes.len());
        if self.arena.key != key {
            make(&mut self.arena.bytes);
            self.arena.key = key;
        }
        (self.used, self.len) = (n, n);
        self.arena.pieces.clear();
        self.arena.pieces.push(Piece::Own { at: 0, len: u32::clamped(n) });
        &mut self.arena.bytes[..n]
    }

    /// The pieces in order, as byte slices.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.arena.pieces.iter().map(|piece| match *piece {
            Piece::Own { at, len } => &self.arena.bytes[usize::clamped(at)..usize::clamped(at + len)],
            Piece::Fixed(bytes) => bytes,
        })
    }
}

/// Exactly one receive call: one source, one stride, one set of marks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received<'a> {
    /// The bytes; empty when they were skipped unseen (`Read::Skip`).
    pub bytes: &'a [u8],
    /// Number of received bytes, seen or not; 0 for a datagram without a byte, which is a batch of
    /// its own.
    pub len: usize,
    /// Size of each datagram but the last (generic receive offload); equals `len` for one datagram
    /// and for streams.
    pub stride: usize,
    /// When the receive call returned.
    pub at: Mono,
    /// When it arrived, if better known than that: by the kernel.
    pub stamp: Option<Stamp>,
    /// The network card's stamp of the arrival, where it was asked to.
    pub card: Option<CardStamp>,
    /// Datagrams: where from, and to which local address.
    pub from: Option<Path>,
    /// Traffic class octet as received.
    pub tos: u8,
    /// Time to live or hop limit as received; 0 when unknown.
    pub ttl: u8,
    /// A datagram was longer than the buffer.
    pub truncated: bool,
    /// Datagrams the socket's receive buffer has dropped so far (`SO_RXQ_OVFL`), modulo 2^32. The
    /// kernel counts buffers: a run that it had merged (GRO) counts as one. Drops behind the last
    /// datagram received: [`take_drops`](crate::DatagramSocket::take_drops).
    pub dropped: u32,
}

impl<'a> Received<'a> {
    /// Bytes of a stream, received at `at`.
    pub fn stream(bytes: &'a [u8], at: Mono) -> Self {
        Received { bytes, ..Received::skipped(bytes.len(), at) }
    }

    /// `len` bytes of a stream that were dropped unseen at `at`.
    pub fn skipped(len: usize, at: Mono) -> Self {
        Received { len, stride: len, at, ..Received::default() }
    }

    /// The best arrival stamp there is, of the card, the kernel or the reading thread, and its
    /// error from converting between clocks, ns.
    pub fn arrival(&self) -> (Stamp, u64) {
        match (self.card.and_then(|card| card.placed.ok()), self.stamp) {
            (Some((at, bound)), _) => (Stamp { at, kind: StampKind::Hardware }, bound),
            (None, Some(stamp)) => (stamp, 0),
            (None, None) => (Stamp { at: self.at, kind: StampKind::User }, 0),
        }
    }

    /// Time of arrival, by the kernel's stamp or else the reader's clock.
    pub fn arrived(&self) -> Mono {
        self.stamp.map_or(self.at, |stamp| stamp.at)
    }

    /// Number of datagrams, seen or not.
    pub fn count(&self) -> usize {
        self.len.div_ceil(self.stride.max(1)).max(1)
    }

    /// The datagrams of the batch, none if they were not looked at or hold no byte.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.bytes.chunks(self.stride.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Unplaced;

    fn gather(burst: &Transmit<'_>) -> Vec<u8> {
        burst.slices().flatten().copied().collect()
    }

    #[test]
    fn pieces_keep_their_order_and_never_exceed_the_room() {
        let mut arena = Arena::new(8);
        let mut burst = Transmit::new(&mut arena, 10);
        burst.own(2).copy_from_slice(b"ab");
        burst.own(1).copy_from_slice(b"c");
        burst.fixed(b"DEF");
        burst.own(2).copy_from_slice(b"gh");
        burst.fixed(b"IJKLMN");
        assert_eq!(gather(&burst), b"abcDEFghIJ");
        assert_eq!((burst.len(), burst.room(), burst.own(5).len()), (10, 0, 0));
    }

    #[test]
    fn a_template_is_made_once_and_lost_when_the_arena_is_used_otherwise() {
        let mut arena = Arena::new(8);
        let mut made = 0;
        for _ in 0..2 {
            let mut burst = Transmit::new(&mut arena, 8);
            burst.template(7, 4, |bytes| {
                made += 1;
                bytes.fill(b'x');
            })[0] = b'0';
            assert_eq!(gather(&burst), b"0xxx");
        }
        assert_eq!(made, 1);
        Transmit::new(&mut arena, 8).own(1)[0] = b'?';
        Transmit::new(&mut arena, 8).template(7, 4, |bytes| {
            made += 1;
            bytes.fill(b'y');
        });
        assert_eq!(made, 2);
    }

    #[test]
    fn a_card_is_believed_before_the_kernel_and_the_kernel_before_the_reader() {
        let read = Received::stream(b"a", Mono(30));
        assert_eq!(read.arrival(), (Stamp { at: Mono(30), kind: StampKind::User }, 0));
        let kernel = Stamp { at: Mono(20), kind: StampKind::KernelRx };
        let refused = CardStamp { raw_ns: 7, placed: Err(Unplaced::Untrue) };
        let stamped = Received { stamp: Some(kernel), card: Some(refused), ..read };
        assert_eq!(stamped.arrival(), (kernel, 0));
        let card = Some(CardStamp { placed: Ok((Mono(10), 3)), ..refused });
        assert_eq!(
            Received { card, ..stamped }.arrival(),
            (Stamp { at: Mono(10), kind: StampKind::Hardware }, 3)
        );
    }

    #[test]
    fn a_receive_run_splits_by_stride() {
        let received = Received { stride: 3, ..Received::stream(b"abcdefgh", Mono(1)) };
        assert_eq!(received.datagrams().collect::<Vec<_>>(), [&b"abc"[..], b"def", b"gh"]);
        assert_eq!(received.count(), 3);
        assert_eq!((Received { stride: 100, ..Received::skipped(201, Mono(1)) }).count(), 3);
        let nothing = Received::stream(b"", Mono(1));
        assert_eq!(
            (nothing.count(), nothing.datagrams().count()),
            (1, 0),
            "a datagram without a byte is one"
        );
    }
}
