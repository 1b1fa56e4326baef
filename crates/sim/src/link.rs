//! What the network does to one direction of a connection.

use metrics::Mono;

/// How a direction comes to its end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both ends are sent a reset.
    Reset,
    /// All later packets are dropped without notice, as with the cable pulled.
    Silence,
    /// Both ends are sent a FIN, and what they send is swallowed: a relay that has died in good
    /// order.
    Fin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before the byte at this offset.
    Byte(u64),
    Time(Mono),
}

/// Conditions of one direction. All chance comes from the seed of the simulation.
///
/// Offsets count the bytes that the sender has put into this direction, framing included. On a
/// stream, bytes arrive once and in order: a lost packet costs the time of its retransmission. On
/// datagrams the words mean what they say.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub(super) delay: u64,
    pub(super) jitter: u64,
    pub(super) rate: Option<u64>,
    pub(super) queue: usize,
    pub(super) window: usize,
    pub(super) loss: f64,
    pub(super) reorder: f64,
    pub(super) duplicate: f64,
    pub(super) corrupt: f64,
    pub(super) damage: f64,
    pub(super) refuse: f64,
    pub(super) flips: Vec<(u64, u8)>,
    pub(super) inserts: Vec<(u64, Vec<u8>)>,
    pub(super) removes: Vec<(u64, u64)>,
    pub(super) cut: Option<(At, Cut)>,
    pub(super) mtu: Option<usize>,
}

impl Default for Link {
    fn default() -> Self {
        Link::new()
    }
}

impl Link {
    /// A clean direction: 100 µs of delay, no rate limit, 256 KiB of socket buffers.
    pub fn new() -> Self {
        Link {
            delay: 100_000,
            jitter: 0,
            rate: None,
            queue: 1 << 20,
            window: 256 * 1024,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            damage: 0.0,
            refuse: 0.0,
            flips: Vec::new(),
            inserts: Vec::new(),
            removes: Vec::new(),
            cut: None,
            mtu: None,
        }
    }

    /// One-way delay, ns.
    #[must_use]
    pub fn delay(self, ns: u64) -> Self {
        Link { delay: ns, ..self }
    }

    /// Up to so much more delay, at random per packet, ns.
    #[must_use]
    pub fn jitter(self, ns: u64) -> Self {
        Link { jitter: ns, ..self }
    }

    /// Rate of the bottleneck, bits/s.
    #[must_use]
    pub fn rate(self, bits_per_second: u64) -> Self {
        Link { rate: Some(bits_per_second.max(1)), ..self }
    }

    /// Datagrams: bytes that may wait for the bottleneck; more are dropped.
    #[must_use]
    pub fn queue(self, bytes: usize) -> Self {
        Link { queue: bytes, ..self }
    }

    /// Streams: bytes that the sender's and the receiver's kernel hold before the sender must wait;
    /// datagrams: bytes that the receiver's kernel holds before it drops.
    #[must_use]
    pub fn window(self, bytes: usize) -> Self {
        Link { window: bytes.max(1), ..self }
    }

    /// Probability that a packet is lost.
    #[must_use]
    pub fn loss(self, p: f64) -> Self {
        Link { loss: p, ..self }
    }

    /// Probability that a packet is overtaken by later ones.
    #[must_use]
    pub fn reorder(self, p: f64) -> Self {
        Link { reorder: p, ..self }
    }

    /// Probability that a packet arrives twice.
    #[must_use]
    pub fn duplicate(self, p: f64) -> Self {
        Link { duplicate: p, ..self }
    }

    /// Probability that one bit of a packet is flipped, unnoticed by any checksum.
    #[must_use]
    pub fn corrupt(self, p: f64) -> Self {
        Link { corrupt: p, ..self }
    }

    /// Probability that one bit of a packet is flipped, and that its checksum shows it: the
    /// receiver's kernel drops the packet. A datagram is counted among the drops of its socket and
    /// among the checksum errors of the host, and is lost; a segment is sent again.
    #[must_use]
    pub fn damage(self, p: f64) -> Self {
        Link { damage: p, ..self }
    }

    /// Largest IP packet, bytes. Larger ones are dropped without notice, as on a path whose
    /// routers' ICMP is filtered: such a datagram is lost, and of a stream nothing more arrives
    /// behind the first segment that is larger.
    #[must_use]
    pub fn mtu(self, bytes: usize) -> Self {
        Link { mtu: Some(bytes), ..self }
    }

    /// Datagrams: probability that the sender's kernel refuses a send.
    #[must_use]
    pub fn refuse(self, p: f64) -> Self {
        Link { refuse: p, ..self }
    }

    /// Flips these bits of the byte at `offset`.
    #[must_use]
    pub fn flip(mut self, offset: u64, bits: u8) -> Self {
        self.flips.push((offset, bits));
        self
    }

    /// Streams: adds `bytes` before the byte at `offset`, which need not follow.
    #[must_use]
    pub fn insert(mut self, offset: u64, bytes: &[u8]) -> Self {
        self.inserts.push((offset, bytes.to_vec()));
        self
    }

    /// Streams: leaves out `n` bytes from `offset` on.
    #[must_use]
    pub fn remove(mut self, offset: u64, n: u64) -> Self {
        self.removes.push((offset, n));
        self
    }

    #[must_use]
    pub fn cut(self, at: At, how: Cut) -> Self {
        Link { cut: Some((at, how)), ..self }
    }

    /// Whether a packet of so many bytes, with `headers` before them, is larger than what the path
    /// carries.
    pub(super) fn too_large(&self, bytes: usize, headers: usize) -> bool {
        self.mtu.is_some_and(|mtu| bytes + headers > mtu)
    }

    /// How long `n` bytes take to get onto the wire, ns.
    pub(super) fn serialise(&self, n: usize) -> u64 {
        self.rate.map_or(0, |rate| (n as u128 * 8_000_000_000 / u128::from(rate)) as u64)
    }
}

/// A coin that falls on heads with probability `p`.
pub(super) fn chance(rng: &mut transport::Rng, p: f64) -> bool {
    p > 0.0 && ((rng.next() >> 11) as f64 / (1u64 << 53) as f64) < p
}
