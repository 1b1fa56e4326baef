//! Integers of the PDUs of RFC 9946: all are big-endian. A PDU has its kind in its first two octets.

use super::{Row, Size, Transmitter};

/// Reads integers of a PDU whose length was checked; beyond its end there are zeros.
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// The `N` octets at `at`; beyond the end there are zeros.
    pub fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    /// The octet at `at`.
    pub fn u8(&self, at: usize) -> u8 {
        u8::from_be_bytes(self.array(at))
    }

    /// The 16-bit integer at `at`.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    /// The 32-bit integer at `at`.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    /// The row of the table of rates at `at`, 28 octets.
    pub fn row(&self, at: usize) -> Row {
        let size = |at: usize| {
            let n = self.u32(at);
            Size { bytes: n & !RANDOM_SIZE, random: n & RANDOM_SIZE != 0 }
        };
        let transmitter = |at: usize| Transmitter {
            interval_us: self.u32(at),
            size: size(at + 4),
            burst: self.u32(at + 8),
        };
        Row { transmitters: [transmitter(at), transmitter(at + 12)], addon: size(at + 24) }
    }
}

/// In a size: it is the most of a random one.
const RANDOM_SIZE: u32 = 1 << 31;

/// Writes a field of a PDU.
pub fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..at + N) {
        place.copy_from_slice(&field);
    }
}

/// Writes a row of the table of rates.
pub fn put_row(bytes: &mut [u8], at: usize, row: &Row) {
    let size = |size: Size| size.bytes | if size.random { RANDOM_SIZE } else { 0 };
    let [one, two] = &row.transmitters;
    let words = [
        one.interval_us,
        size(one.size),
        one.burst,
        two.interval_us,
        size(two.size),
        two.burst,
        size(row.addon),
    ];
    words.iter().zip(0..).for_each(|(word, n)| put(bytes, at + 4 * n, word.to_be_bytes()));
}

/// The checksum of a PDU whose checksum is 0: the ones' complement of the ones' complement sum of
/// its 16-bit words (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|two| match *two {
        [high, low] => u16::from_be_bytes([high, low]),
        [high] => u16::from_be_bytes([high, 0]),
        _ => 0,
    });
    let sum = words.fold(0_u64, |sum, word| sum + u64::from(word));
    let folded = |sum: u64| (sum & 0xffff) + (sum >> 16);
    !(folded(folded(folded(sum))) as u16)
}

/// True if the checksum at `at` is that of the PDU, or none.
pub fn is_intact(bytes: &[u8], at: usize) -> bool {
    let stored = Fields(bytes).u16(at);
    // The sum over a PDU with its checksum has all bits set.
    stored == 0 || checksum(bytes) == 0
}

/// Kind of a PDU.
pub fn kind(bytes: &[u8]) -> u16 {
    Fields(bytes).u16(0)
}
