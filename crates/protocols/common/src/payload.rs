//! Payload: its content and its verification.
//!
//! The program has one pattern: that of ctsTraffic, a little-endian 16-bit counter from 0x0000 to
//! 0x7fff, hence a period of 65,536 bytes:
//!
//! ```text
//! offset   0  1  2  3  4  5        510 511 512 513            65534 65535 | 65536 ...
//! byte    00 00 01 00 02 00  ...    ff  00  00  01     ...       ff    7f |    00 ...
//! ```
//!
//! Two periods are kept (131,072 bytes), so that any 64 KiB from any offset are one slice, sent by
//! reference and compared in place.

use metrics::Clamped;
use model::Payload;
use transport::{Checked, Transmit, Violation};

/// Bytes after which the pattern repeats.
pub const PERIOD: usize = 65_536;

static PATTERN: [u8; 2 * PERIOD] = {
    let mut bytes = [0; 2 * PERIOD];
    let mut i = 0;
    while i < 2 * PERIOD {
        let counter = (i % PERIOD / 2) as u16;
        bytes[i] = counter.to_le_bytes()[i % 2];
        i += 1;
    }
    bytes
};

static ZEROS: [u8; 2 * PERIOD] = [0; 2 * PERIOD];

/// Fills `out` with the pattern from offset 0, as every datagram has it.
pub fn start(out: &mut [u8]) {
    for chunk in out.chunks_mut(PERIOD) {
        chunk.copy_from_slice(&PATTERN[..chunk.len()]);
    }
}

/// True if `got` is the pattern from offset 0.
#[inline]
pub fn is_start(got: &[u8]) -> bool {
    if (16..=32).contains(&got.len()) {
        // A call of memcmp would double the time: two overlapping words are compared.
        let known = &PATTERN[..got.len()];
        return got.first_chunk::<16>() == known.first_chunk()
            && got.last_chunk::<16>() == known.last_chunk();
    }
    got.chunks(PERIOD).all(|chunk| same(&PATTERN[..chunk.len()], chunk))
}

/// A stream of bytes that repeat. Two periods of them are kept, so that a period's length from any
/// offset is one slice.
#[derive(Clone, Copy, Debug)]
pub struct Repeated(pub &'static [u8]);

impl Repeated {
    fn period(self) -> usize {
        (self.0.len() / 2).max(1)
    }

    /// `n` bytes of the stream from `offset`, in as few parts as there are.
    pub(crate) fn parts(self, offset: u64, n: usize) -> impl Iterator<Item = &'static [u8]> {
        let mut at = usize::clamped(offset % u64::clamped(self.period()));
        let mut left = n;
        std::iter::from_fn(move || {
            let part = &self.0[at..self.0.len().min(at + left)];
            left -= part.len();
            at = (at + part.len()) % self.period();
            Some(part).filter(|part| !part.is_empty())
        })
    }

    /// Offers up to `n` bytes of the stream from `offset`.
    pub fn offer(self, offset: u64, n: usize, out: &mut Transmit<'_>) {
        self.parts(offset, n.min(out.room())).for_each(|part| out.fixed(part));
    }

    /// Compares bytes with the stream from `offset`.
    ///
    /// # Errors
    /// [`Violation::BadData`] with the first bad offset and the bytes expected and received from
    /// there.
    pub fn check(self, offset: u64, got: &[u8]) -> Checked {
        let mut from = offset;
        for chunk in got.chunks(self.period()) {
            let at = usize::clamped(from % u64::clamped(self.period()));
            let expected = &self.0[at..at + chunk.len()];
            if !same(expected, chunk) {
                return Err(first_difference(from, expected, chunk));
            }
            from += u64::clamped(chunk.len());
        }
        Ok(())
    }
}

/// The stream of one direction of one connection, from any offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The pattern.
    #[default]
    Pattern,
    /// Zeros.
    Zeros,
    /// Random bytes from this seed: the 8 bytes at offset 8·n are a hash of seed and n (SplitMix64
    /// as a counter generator), so that swapped, repeated or shifted data never fits.
    Random(u64),
}

impl Source {
    /// The source for a direction; `id` is the connection's identifier, known to both ends.
    pub fn new(kind: Payload, id: u128, from_client: bool) -> Self {
        match kind {
            Payload::Pattern => Source::Pattern,
            Payload::Zeros => Source::Zeros,
            Payload::Random => {
                let folded = (id >> 64) as u64 ^ (id as u64).rotate_left(32);
                Source::Random(mix(folded ^ u64::from(from_client)))
            }
        }
    }

    /// Offers up to `n` bytes of the stream from `offset`.
    pub fn offer(self, offset: u64, n: usize, out: &mut Transmit<'_>) {
        match self {
            Source::Pattern => Repeated(&PATTERN).offer(offset, n, out),
            Source::Zeros => Repeated(&ZEROS).offer(0, n, out),
            Source::Random(seed) => random(seed, offset, out.own(n)),
        }
    }

    /// Compares every byte of `got` with the stream from `offset`.
    ///
    /// # Errors
    /// [`Violation::BadData`] with the first bad offset and the bytes expected and received from
    /// there.
    pub fn check(self, offset: u64, got: &[u8]) -> Checked {
        match self {
            Source::Pattern => Repeated(&PATTERN).check(offset, got),
            Source::Zeros => Repeated(&ZEROS).check(offset, got),
            Source::Random(seed) => {
                let mut expected = [0; 4096];
                for (i, chunk) in got.chunks(4096).enumerate() {
                    let from = offset + 4096 * i as u64;
                    let expected = &mut expected[..chunk.len()];
                    random(seed, from, expected);
                    if !same(expected, chunk) {
                        return Err(first_difference(from, expected, chunk));
                    }
                }
                Ok(())
            }
        }
    }
}

/// Compares two slices of equal length. glibc's memcmp uses the widest vectors of the CPU; musl's
/// compares byte by byte, which would halve the rate of a static binary, so that there the
/// comparison is written out.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    if cfg!(target_env = "musl") { same_in_blocks(a, b) } else { a == b }
}

/// Compares in blocks of 64 bytes without an early exit inside a block, which the compiler turns
/// into vector code.
fn same_in_blocks(a: &[u8], b: &[u8]) -> bool {
    let ((blocks_a, rest_a), (blocks_b, rest_b)) = (a.as_chunks::<64>(), b.as_chunks::<64>());
    let equal = |(a, b): (&[u8; 64], &[u8; 64])| a.iter().zip(b).fold(0, |bits, (x, y)| bits | (x ^ y)) == 0;
    a.len() == b.len() && blocks_a.iter().zip(blocks_b).all(equal) && rest_a == rest_b
}

/// The violation that the first difference is, `from` being the offset of both; beyond the shorter
/// one nothing is compared.
pub(crate) fn first_difference(from: u64, expected: &[u8], got: &[u8]) -> Violation {
    let at = expected.iter().zip(got).position(|(e, g)| e != g).unwrap_or(0);
    let len = expected.len().min(got.len()).saturating_sub(at).min(16);
    let (mut want, mut have) = ([0; 16], [0; 16]);
    want[..len].copy_from_slice(&expected[at..at + len]);
    have[..len].copy_from_slice(&got[at..at + len]);
    Violation::BadData { offset: from + u64::clamped(at), want, got: have, len: len as u8 }
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn word(seed: u64, n: u64) -> [u8; 8] {
    mix(seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
}

/// Fills `out` with the random stream from `offset`.
fn random(seed: u64, offset: u64, out: &mut [u8]) {
    let head = (offset.wrapping_neg() % 8) as usize;
    let (first, rest) = out.split_at_mut(head.min(out.len()));
    let mut n = offset / 8;
    if head > 0 {
        let word = word(seed, n);
        let from = 8 - head;
        let len = first.len();
        first.copy_from_slice(&word[from..from + len]);
        n += 1;
    }
    let (words, tail) = rest.as_chunks_mut();
    for chunk in words {
        *chunk = word(seed, n);
        n += 1;
    }
    let len = tail.len();
    tail.copy_from_slice(&word(seed, n)[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Arena;

    fn offered(source: Source, offset: u64, n: usize) -> Vec<u8> {
        let mut arena = Arena::new(1 << 20);
        let mut burst = Transmit::new(&mut arena, 1 << 20);
        source.offer(offset, n, &mut burst);
        burst.slices().collect::<Vec<_>>().concat()
    }

    #[test]
    fn the_pattern_is_that_of_ctstraffic() {
        let period = offered(Source::Pattern, 0, PERIOD);
        assert_eq!(period[..8], [0, 0, 1, 0, 2, 0, 3, 0]);
        assert_eq!(period[510..520], [0xff, 0, 0, 1, 1, 1, 2, 1, 3, 1]);
        assert_eq!(period[PERIOD - 4..], [0xfe, 0x7f, 0xff, 0x7f]);
        // CRC-32 of one period as computed from the original's definition: 0xbd395168.
        let crc = !period.iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
        });
        assert_eq!(crc, 0xbd39_5168);
    }

    #[test]
    fn any_offset_and_length_is_the_same_stream() {
        for source in [Source::Pattern, Source::Zeros, Source::Random(42)] {
            let whole = offered(source, 0, 300_000);
            for (offset, n) in
                [(0, 1), (1, 7), (3, 64), (65_535, 2), (65_537, 131_072), (131_071, 100_000), (8, 8)]
            {
                let part = offered(source, offset, n);
                assert_eq!(part, whole[offset as usize..offset as usize + n], "{source:?} {offset} {n}");
                assert_eq!(source.check(offset, &part), Ok(()));
            }
        }
    }

    #[test]
    fn the_first_bad_byte_is_named() {
        for source in [Source::Pattern, Source::Zeros, Source::Random(7)] {
            for bad in [0, 1, 63, 64, 4_095, 4_096, 65_536, 99_999] {
                let mut bytes = offered(source, 5, 100_000);
                let right = bytes[bad];
                bytes[bad] ^= 0x10;
                let Err(Violation::BadData { offset, want, got, len }) = source.check(5, &bytes) else {
                    panic!("{source:?}: a flipped bit at {bad} was not found")
                };
                assert_eq!((offset, want[0], got[0]), (5 + bad as u64, right, right ^ 0x10));
                assert_eq!(usize::from(len), (100_000 - bad).min(16).min(4096 - bad % 4096).max(len.into()));
            }
        }
    }

    #[test]
    fn random_data_finds_a_shift_by_the_period_which_the_pattern_cannot() {
        let shifted = |source: Source| source.check(0, &offered(source, PERIOD as u64, 10_000));
        assert_eq!(shifted(Source::Pattern), Ok(()));
        assert!(shifted(Source::Random(1)).is_err());
    }

    #[test]
    fn directions_and_connections_differ() {
        let of = |id, client| offered(Source::new(Payload::Random, id, client), 0, 64);
        assert_ne!(of(1, true), of(1, false));
        assert_ne!(of(1, true), of(2, true));
        assert_eq!(of(1, true), of(1, true));
    }

    #[test]
    fn the_written_out_comparison_agrees_with_the_library() {
        let a = offered(Source::Random(3), 0, 1_000);
        for n in [0, 1, 63, 64, 65, 128, 1_000] {
            assert!(same_in_blocks(&a[..n], &a[..n]));
            for bad in (0..n).step_by(7) {
                let mut b = a[..n].to_vec();
                b[bad] ^= 1;
                assert!(!same_in_blocks(&a[..n], &b), "{n} {bad}");
            }
        }
        assert!(!same_in_blocks(&a[..3], &a[..4]));
    }
}
