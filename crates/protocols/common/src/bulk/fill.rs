//! Payload of protocols whose receivers do not compare it.

use crate::payload::{Repeated, Source};
use metrics::Clamped;
use transport::Transmit;

/// Characters that ttcp sends: the 95 printable ones of ASCII, in order.
const PRINTABLE: usize = 95;
/// Bytes kept of each filler: twice a whole number of rounds of the printable characters.
const KEPT: usize = PRINTABLE * 1_380;

static CHARACTERS: [u8; KEPT] = {
    let mut bytes = [0; KEPT];
    let mut i = 0;
    while i < KEPT {
        bytes[i] = b' ' + (i % PRINTABLE) as u8;
        i += 1;
    }
    bytes
};

static LETTERS: [[u8; KEPT]; 2] = [[b'A'; KEPT], [b'B'; KEPT]];

/// The bytes of a buffer, from its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// ttcp's: the printable characters in turn, beginning anew with each buffer.
    Printable,
    /// ntttcp's over TCP: `A`.
    LetterA,
    /// ntttcp's over UDP: `B`.
    LetterB,
    /// Random bytes from this seed, which nothing on the way can compress.
    Random(u64),
}

impl Filler {
    /// Offers up to `n` bytes of a stream of buffers of `buffer` bytes each, from offset `at` of
    /// the stream.
    pub fn offer(self, at: u64, n: usize, buffer: u64, out: &mut Transmit<'_>) {
        let kept = match self {
            Filler::Printable => &CHARACTERS,
            Filler::LetterA => &LETTERS[0],
            Filler::LetterB => &LETTERS[1],
            Filler::Random(seed) => return Source::Random(seed).offer(at, n, out),
        };
        let buffer = buffer.max(1);
        let mut within = at % buffer;
        let mut left = u64::clamped(n).min(u64::clamped(out.room()));
        while left > 0 {
            let n = left.min(buffer - within);
            Repeated(kept).offer(within, usize::clamped(n), out);
            left -= n;
            within = 0;
        }
    }

    /// The program that fills its buffers like that, by their first bytes; `None` when it is
    /// unknown.
    pub fn recognised(first: &[u8]) -> Option<Filler> {
        match first.get(..4)? {
            b" !\"#" => Some(Filler::Printable),
            b"AAAA" => Some(Filler::LetterA),
            b"BBBB" => Some(Filler::LetterB),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Arena;

    fn offered(filler: Filler, at: u64, n: usize, buffer: u64) -> Vec<u8> {
        let mut arena = Arena::new(1 << 20);
        let mut burst = Transmit::new(&mut arena, 1 << 20);
        filler.offer(at, n, buffer, &mut burst);
        burst.slices().collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_buffer_begins_with_a_blank_and_ends_after_the_tilde() {
        // As captured: ttcp -l 512: 20 21 22 23 ...; character 95 is a blank again.
        let buffer = offered(Filler::Printable, 0, 512, 512);
        assert_eq!(buffer[..4], [0x20, 0x21, 0x22, 0x23]);
        assert_eq!((buffer[94], buffer[95]), (b'~', b' '));
        // 512 = 5 * 95 + 37: the last byte is 0x20 + 36, and the next buffer begins anew.
        assert_eq!(offered(Filler::Printable, 511, 2, 512), [0x20 + 36, b' ']);
    }

    #[test]
    fn any_offset_is_the_same_stream() {
        for filler in [Filler::Printable, Filler::LetterA, Filler::LetterB, Filler::Random(9)] {
            for buffer in [1, 5, 95, 8192, 131_100, 200_000] {
                let whole = offered(filler, 0, 400_000, buffer);
                assert_eq!(whole.len(), 400_000);
                for at in [0, 1, 94, 95, 8_191, 131_099, 131_101, 199_999] {
                    let part = offered(filler, at, 1_000, buffer);
                    assert_eq!(part, whole[at as usize..at as usize + 1_000], "{filler:?} {buffer} {at}");
                }
            }
        }
    }

    #[test]
    fn a_peer_is_known_by_what_it_sends() {
        for filler in [Filler::Printable, Filler::LetterA, Filler::LetterB] {
            assert_eq!(Filler::recognised(&offered(filler, 0, 8, 64)), Some(filler));
        }
        assert_eq!(Filler::recognised(b"AAA"), None);
        assert_eq!(Filler::recognised(b"\0\0\x01\0"), None, "ctsTraffic's");
    }
}
