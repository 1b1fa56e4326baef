//! What a machine is like.

use metrics::{CardStamp, Mono, StampKind, Unplaced};
use transport::Rng;

/// The permutations that a real machine produces and a tidy test would not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quirks {
    /// Sizes in which the bytes of a stream arrive, smallest and largest; drawn for each read.
    pub reads: (usize, usize),
    /// Bytes that one send on a stream may place, likewise.
    pub sends: (usize, usize),
    /// Probability that a socket is full or empty for a moment.
    pub would_block: f64,
    /// Whether skipped bytes are really not seen (`MSG_TRUNC`), or read like others, as where the
    /// kernel cannot.
    pub skips: bool,
    /// Datagrams of one size may arrive as one batch (GRO), where a socket asks for it.
    pub batches: bool,
    /// Probability that a transmit stamp never comes.
    pub lost_stamps: f64,
    /// Longest time from a wake by another thread until it reaches one that waits, ns.
    pub threads: u64,
    /// Longest time from an event to the thread that waits for it, ns.
    pub wakes: u64,
    /// Longest lateness of a timer, ns.
    pub timers: u64,
    /// The wall clock steps by so many ns at an instant.
    pub wall_step: Option<(Mono, i64)>,
    /// Send and receive buffer of a worker, bytes.
    pub room: usize,
    /// Most datagrams in one send (GSO), where a socket asks for it.
    pub segments: usize,
    /// What the host's monotonic clock says at `Mono(0)`, ns: two machines need not agree.
    pub host_clock: u64,
    /// What the network card says of datagrams, where a socket asks it.
    pub card: Card,
    /// Sockets that a process may have.
    pub descriptors: usize,
    /// Places of a server for peers that have proved nothing.
    pub places: usize,
    /// How many times longer than usual every call takes.
    pub slowness: u64,
    /// How long other programs keep a core that a thread offers, ns.
    pub kept: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Card {
    #[default]
    Silent,
    /// It stamps what comes so many ns before the kernel, and what leaves with it, and is right to
    /// within as many.
    Right(u64),
    /// Nothing that it says can be true.
    Wrong,
    /// It stamps, but its clock cannot be read.
    Unread,
}

impl Card {
    /// The stamp of a datagram that the kernel received at `kernel`.
    pub(super) fn stamp(self, kernel: Mono) -> Option<CardStamp> {
        // Its clock shows another time altogether.
        let raw_ns = kernel.0 as i64 + 37_000_000_000;
        let placed = match self {
            Card::Silent => return None,
            Card::Right(ns) => Ok((Mono(kernel.0.saturating_sub(ns)), ns)),
            Card::Wrong => Err(Unplaced::Untrue),
            Card::Unread => Err(Unplaced::Unread),
        };
        Some(CardStamp { raw_ns, placed })
    }

    /// The kind of transmit stamps, and how far they may be off, ns.
    pub(super) fn left(self) -> (StampKind, u64) {
        match self {
            Card::Right(ns) => (StampKind::Hardware, ns),
            Card::Silent | Card::Wrong | Card::Unread => (StampKind::KernelTx, 0),
        }
    }
}

impl Default for Quirks {
    fn default() -> Self {
        Quirks {
            reads: (usize::MAX, usize::MAX),
            sends: (usize::MAX, usize::MAX),
            would_block: 0.0,
            skips: true,
            batches: true,
            lost_stamps: 0.0,
            threads: 20_000,
            wakes: 15_000,
            timers: 30_000,
            wall_step: None,
            room: 64 * 1024,
            segments: 64,
            host_clock: 0,
            card: Card::Silent,
            descriptors: usize::MAX,
            places: 4_096,
            slowness: 1,
            kept: 0,
        }
    }
}

impl Quirks {
    /// Every read brings one byte.
    pub fn one_byte_reads() -> Self {
        Quirks { reads: (1, 1), ..Quirks::default() }
    }

    /// No send places more than 7 bytes.
    pub fn tiny_sends() -> Self {
        Quirks { sends: (1, 7), ..Quirks::default() }
    }

    /// Reads and sends of any size, sockets that are full or empty for a moment, slow threads, a
    /// stepping wall clock, no `MSG_TRUNC`.
    pub fn rough() -> Self {
        Quirks {
            reads: (1, 3_000),
            sends: (1, 3_000),
            would_block: 0.1,
            skips: false,
            batches: false,
            lost_stamps: 0.3,
            threads: 2_000_000,
            wall_step: Some((Mono(1_050_000_000), -3_600_000_000_000)),
            room: 5_000,
            segments: 1,
            host_clock: 1 << 50,
            ..Quirks::default()
        }
    }

    /// How the wall clock relates to the monotonic one at `now`.
    pub(super) fn clock(&self, now: Mono) -> metrics::Clock {
        let step = self.wall_step.filter(|(at, _)| *at <= now).map_or(0, |(_, by)| by);
        metrics::Clock {
            wall_at_zero: 1_700_000_000_000_000_000_i64.saturating_add(step),
            error_ns: 1_000,
            synced: true,
            host_at_zero: self.host_clock,
        }
    }
}

/// A size between two limits, at least 1.
pub(super) fn draw(rng: &mut Rng, (low, high): (usize, usize)) -> usize {
    if low == high { low } else { rng.between(low as u64, high as u64) as usize }.max(1)
}
