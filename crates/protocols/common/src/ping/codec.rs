//! A message that is sent to be echoed.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |  number (8), big-endian                                       |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |  word (8), big-endian: to any echo service, when it was sent, |
//! |  ns since the sender's program began; to our own remote end, 0,  |
//! |  and in the echo what it spent between receiving and sending, ns
//! +---------------------------------------------------------------+
//! |  the pattern (`payload`), from its offset 16                  |
//! |  …                                                            |
//! ```
//!
//! A message of 8 to 15 bytes has no word: the pattern follows the number, from its offset 8. One
//! of fewer than 8 bytes is the low end of the number, as many bytes as fit. Over TCP a message is
//! one such unit, in any number of sends; over UDP each datagram is one, and they are numbered
//! through: datagram i of message m of k datagrams has the number m·k + i.

use crate::payload::{Source, first_difference};
use metrics::Clamped;
use transport::{Checked, Transmit, Violation};

/// Bytes before the pattern, when all of them fit.
pub const HEAD: usize = 16;

/// The bytes before the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub number: u64,
    /// The second word.
    pub word: u64,
}

/// Bytes before the pattern in a unit of `size` bytes.
pub fn head_of(size: u64) -> usize {
    match size {
        0..=7 => usize::clamped(size),
        8..=15 => 8,
        _ => HEAD,
    }
}

/// The head of a unit of `size` bytes, and how many bytes of it count.
pub fn encode(head: Head, size: u64) -> ([u8; HEAD], usize) {
    let mut bytes = [0; HEAD];
    let n = head_of(size);
    let number = head.number.to_be_bytes();
    if n < 8 {
        bytes[..n].copy_from_slice(&number[8 - n..]);
    } else {
        bytes[..8].copy_from_slice(&number);
        bytes[8..].copy_from_slice(&head.word.to_be_bytes());
    }
    (bytes, n)
}

/// Offers the bytes `from..from + n` of a unit of `size` bytes.
pub fn offer(head: Head, size: u64, from: u64, n: u64, out: &mut Transmit<'_>) {
    let (bytes, long) = encode(head, size);
    let (from, n) = (from.min(size), n.min(size - from.min(size)).min(u64::clamped(out.room())));
    let mut left = n;
    if from < u64::clamped(long) {
        let part = &bytes[usize::clamped(from)..long.min(usize::clamped(from + n))];
        let own = out.own(part.len());
        let len = own.len().min(part.len());
        own[..len].copy_from_slice(&part[..len]);
        left -= len as u64;
    }
    Source::Pattern.offer(from + (n - left), usize::clamped(left), out);
}

/// The head in the first bytes of a unit of `size` bytes, all of which are there; of fewer than 8
/// bytes the number is the one closest below or equal to `newest` that ends so.
pub fn decode(bytes: &[u8], size: u64, newest: u64) -> Head {
    let n = head_of(size).min(bytes.len());
    let word = |at: usize| {
        let mut word = [0; 8];
        let part = bytes.get(at..(at + 8).min(n)).unwrap_or_default();
        word[8 - part.len()..].copy_from_slice(part);
        u64::from_be_bytes(word)
    };
    if n >= 8 {
        return Head { number: word(0), word: word(8) };
    }
    let modulus = 1u64 << (8 * n);
    let back = newest.wrapping_sub(word(0)) & (modulus - 1);
    Head { number: newest.saturating_sub(back), word: 0 }
}

/// Compares received bytes, from offset `from` of a unit, where they are pattern.
///
/// # Errors
/// [`Violation::BadData`] with the offset in the unit.
pub fn check(size: u64, from: u64, bytes: &[u8]) -> Checked {
    let head = head_of(size) as u64;
    let skip = head.saturating_sub(from).min(u64::clamped(bytes.len()));
    Source::Pattern.check(from + skip, &bytes[usize::clamped(skip)..])
}

/// The violation of a head that is not the sent one.
pub fn bad_head(want: &[u8], got: &[u8]) -> Violation {
    first_difference(0, want, got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Arena;

    fn bytes(head: Head, size: u64, from: u64, n: u64) -> Vec<u8> {
        let mut arena = Arena::new(64);
        let mut burst = Transmit::new(&mut arena, 1 << 20);
        offer(head, size, from, n, &mut burst);
        burst.slices().collect::<Vec<_>>().concat()
    }

    const SAMPLE: Head = Head { number: 0x0102_0304_0506_0708, word: 0x1112_1314_1516_1718 };

    #[test]
    fn the_bytes_are_where_the_drawing_says() {
        let message = bytes(SAMPLE, 24, 0, 24);
        assert_eq!(message[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(message[8..16], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        // The pattern counts in little-endian words: bytes 16 to 23 are words 8 to 11.
        assert_eq!(message[16..], [8, 0, 9, 0, 10, 0, 11, 0]);
        assert_eq!(bytes(SAMPLE, 10, 0, 10), [1, 2, 3, 4, 5, 6, 7, 8, 4, 0]);
        assert_eq!(bytes(SAMPLE, 3, 0, 3), [6, 7, 8]);
        assert_eq!(bytes(SAMPLE, 1, 0, 9), [8]);
    }

    #[test]
    fn any_part_is_a_part_of_the_whole() {
        for size in [1, 3, 7, 8, 9, 15, 16, 17, 40, 1024] {
            let whole = bytes(SAMPLE, size, 0, size);
            assert_eq!(whole.len() as u64, size);
            for from in 0..size.min(40) {
                for n in [1, 2, 7, size] {
                    let end = (from + n).min(size);
                    assert_eq!(
                        bytes(SAMPLE, size, from, n),
                        whole[from as usize..end as usize],
                        "{size} {from} {n}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_head_is_read_back_and_a_short_one_is_the_latest_possible() {
        for size in [8, 16, 100] {
            let word = if size < 16 { 0 } else { SAMPLE.word };
            let read = decode(&bytes(SAMPLE, size, 0, size), size, 0);
            assert_eq!(read, Head { number: SAMPLE.number, word });
        }
        let one = |number| bytes(Head { number, word: 0 }, 1, 0, 1);
        assert_eq!(decode(&one(300), 1, 300).number, 300);
        assert_eq!(decode(&one(300), 1, 310).number, 300);
        assert_eq!(decode(&one(255), 1, 256).number, 255);
        let two = bytes(Head { number: 70_000, word: 0 }, 2, 0, 2);
        assert_eq!(decode(&two, 2, 70_100).number, 70_000);
        assert_eq!(decode(&[], 1, 5).number, 5);
    }

    #[test]
    fn every_changed_byte_of_the_pattern_is_noticed() {
        let good = bytes(SAMPLE, 200, 0, 200);
        assert_eq!(check(200, 0, &good), Ok(()));
        for at in 16..200 {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert!(
                matches!(check(200, 0, &bad), Err(Violation::BadData { offset, .. }) if offset == at as u64)
            );
            let split = at / 2;
            assert!(check(200, split as u64, &bad[split..]).is_err());
        }
        let told = bad_head(&[1, 2, 3], &[1, 9, 3]).to_string();
        assert_eq!(told, "wrong data at offset 1: expected 02 03, received 09 03");
    }
}
