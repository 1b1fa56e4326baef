//! A datagram.
//!
//! ```text
//!  offset  0        8        16                size
//!          ├────────┼────────┼────────────────┤
//!          │ number │ stamp  │ filler         │
//!          └────────┴────────┴────────────────┘
//! ```
//!
//! - number: u64, from 0, one more for each datagram that was prepared, sent or not;
//! - stamp: u64, when it was prepared, µs: of the wall clock since 1970, or, with clocks that are
//!   not synchronised (`-a`), of its monotonic clock since it was started;
//! - filler: uninitialised memory of the original (ignored); ours is the pattern of all our
//!   payload.
//!
//! The original writes both in its host's byte order; this is that of little-endian hosts.

/// Bytes of the header, and so the smallest datagram.
pub const HEADER: usize = 16;
/// Largest datagram that the original sends, and all it reads of one.
pub const LARGEST: usize = 2_000;
/// A stamp from here on can only be the wall clock's, µs: 2001 in one, a host that has run for 31
/// years in the other.
const WALL: u64 = 1_000_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub number: u64,
    /// When it was prepared, µs.
    pub stamp_us: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.stamp_us.to_le_bytes());
        bytes
    }

    /// From a datagram; `None` when it is too short to have one.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let (number, rest) = datagram.split_first_chunk()?;
        let stamp = rest.first_chunk()?;
        Some(Header { number: u64::from_le_bytes(*number), stamp_us: u64::from_le_bytes(*stamp) })
    }
}

/// True if a stamp is the wall clock's.
pub fn is_wall(stamp_us: u64) -> bool {
    stamp_us >= WALL
}
