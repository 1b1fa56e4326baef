//! ctsTraffic's bytes on the wire beside the pattern.
//!
//! ```text
//! identifier of a connection, server to client, 37 bytes: the first bytes of a TCP connection
//!    0                                                        36
//!   +----------------------------------------------------------+----+
//!   | xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx (lower case, ASCII)  | 00 |
//!   +----------------------------------------------------------+----+
//!
//! completion, server to client, 4 bytes: when all payload has been moved
//!   +----+----+----+----+
//!   | 44 | 4f | 4e | 45 |   "DONE", no NUL
//!   +----+----+----+----+
//!
//! UDP, client to server: 5 bytes, and nothing else ever
//!   +----+----+----+----+----+
//!   | 53 | 54 | 41 | 52 | 54 |   "START", no NUL
//!   +----+----+----+----+----+
//!
//! UDP, server to client: the identifier of a stream, 39 bytes, once
//!    0    1    2                                                   38
//!   +----+----+---------------------------------------------------+----+
//!   | 00 | 10 | xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx               | 00 |
//!   +----+----+---------------------------------------------------+----+
//!
//! UDP, server to client: part of a frame; numbers are little-endian
//!    0     2               10              18              26
//!   +-----+---------------+---------------+---------------+-----------------------------+
//!   |00 00| frame, from 1 | ticks when it | ticks in a    | payload: the pattern, from   |
//!   |     | i64           | was sent, i64 | second, i64   | offset 0 in every datagram   |
//!   +-----+---------------+---------------+---------------+-----------------------------+
//! ```
//!
//! All datagrams of a frame carry its number and nothing else that differs. Ticks must stay below
//! 2^47: the original reads both fields two bytes too early (see `metrics::FrameJitter`).
//!
//! The packets have no version and no length, and nothing is negotiated: both ends have to be
//! started with the same settings.

use uuid::Uuid;

/// Length of the identifier: 36 characters and a NUL.
pub const ID: usize = 37;
/// The server's message when all payload has been moved.
pub const DONE: &[u8; 4] = b"DONE";

/// A client's request for a stream.
pub const START: &[u8; 5] = b"START";
/// Length of a stream's identifier: flag, 36 characters and a NUL.
pub const STREAM_ID: usize = 39;
/// Length of a frame's header, in each of its datagrams.
pub const HEADER: usize = 26;
/// Shortest datagram of a frame: a header and a byte.
pub const SHORTEST: u64 = 27;
const ID_FLAG: u16 = 0x1000;
const FRAME_FLAG: u16 = 0;

/// A datagram of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    Id(Uuid),
    Part {
        /// The frame's number, from 1.
        frame: i64,
        /// The sender's clock when it sent this datagram.
        ticks: i64,
        /// The sender's ticks in a second.
        hz: i64,
        payload: &'a [u8],
    },
}

/// The identifier of a stream as it is sent.
pub fn encode_stream_id(id: Uuid) -> [u8; STREAM_ID] {
    let mut bytes = [0; STREAM_ID];
    bytes[..2].copy_from_slice(&ID_FLAG.to_le_bytes());
    bytes[2..].copy_from_slice(&encode_id(id));
    bytes
}

/// The header of one datagram of a frame.
pub fn encode_header(frame: i64, ticks: i64, hz: i64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..2].copy_from_slice(&FRAME_FLAG.to_le_bytes());
    bytes[2..10].copy_from_slice(&frame.to_le_bytes());
    bytes[10..18].copy_from_slice(&ticks.to_le_bytes());
    bytes[18..].copy_from_slice(&hz.to_le_bytes());
    bytes
}

/// Decodes a datagram; `None` when it is too short or has another flag.
pub fn decode(bytes: &[u8]) -> Option<Datagram<'_>> {
    let number = |at: usize| Some(i64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    match u16::from_le_bytes(*bytes.first_chunk()?) {
        ID_FLAG => Some(Datagram::Id(decode_id(bytes.get(2..)?.first_chunk()?))),
        FRAME_FLAG => Some(Datagram::Part {
            frame: number(2)?,
            ticks: number(10)?,
            hz: number(18)?,
            payload: bytes.get(HEADER..)?,
        }),
        _ => None,
    }
}

/// Length of the next datagram of a frame of which `left` bytes remain, headers included, in
/// datagrams of at most `most`: as long as it may be, but the last one is never shorter than a
/// header and a byte; the one before it gives.
pub fn next_length(left: u64, most: u64) -> u64 {
    let n = left.min(most);
    let after = left - n;
    if (1..SHORTEST).contains(&after) { n.saturating_sub(SHORTEST - after) } else { n }
}

/// The identifier as it is sent.
pub fn encode_id(id: Uuid) -> [u8; ID] {
    let mut bytes = [0; ID];
    id.hyphenated().encode_lower(&mut bytes);
    bytes
}

/// The identifier in received bytes. The original prints any bytes as text; here an invalid UUID is
/// nil.
pub fn decode_id(bytes: &[u8; ID]) -> Uuid {
    Uuid::try_parse_ascii(&bytes[..ID - 1]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_lower_case_text_and_a_nul() {
        let id = Uuid::from_u128(0x0123_4567_89AB_4DEF_8123_4567_89AB_CDEF);
        assert_eq!(&encode_id(id), b"01234567-89ab-4def-8123-456789abcdef\0");
        assert_eq!(decode_id(&encode_id(id)), id);
        assert_eq!(decode_id(b"01234567-89AB-4DEF-8123-456789ABCDEF\0"), id);
        assert_eq!(decode_id(&[b'x'; ID]), Uuid::nil());
    }

    #[test]
    fn datagrams_are_those_of_the_description() {
        // The example of the description: frame 1, ticks 123,456,789,012 at 10 MHz.
        let header = encode_header(1, 123_456_789_012, 10_000_000);
        let mut want = vec![0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x14, 0x1a, 0x99, 0xbe, 0x1c, 0, 0, 0];
        want.extend([0x80, 0x96, 0x98, 0, 0, 0, 0, 0]);
        assert_eq!(header[..], want);
        let bytes = [&header[..], &[0, 0, 1, 0]].concat();
        let part =
            Datagram::Part { frame: 1, ticks: 123_456_789_012, hz: 10_000_000, payload: &[0, 0, 1, 0] };
        assert_eq!(decode(&bytes), Some(part));
        let id = Uuid::from_u128(7);
        let bytes = encode_stream_id(id);
        assert_eq!((&bytes[..2], bytes[38]), (&[0, 0x10][..], 0));
        assert_eq!(decode(&bytes), Some(Datagram::Id(id)));
        // Longer identifiers are taken, shorter ones and headers are not, nor are other flags.
        assert_eq!(decode(&[&bytes[..], b"more"].concat()), Some(Datagram::Id(id)));
        assert_eq!(decode(&bytes[..38]), None);
        assert_eq!(
            decode(&header),
            Some(Datagram::Part { frame: 1, ticks: 123_456_789_012, hz: 10_000_000, payload: &[] })
        );
        assert_eq!(decode(&header[..25]), None);
        for bytes in [&b""[..], b"\0", b"START", &[1, 0, 0, 0, 0, 0, 0, 0], &[0, 1]] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }

    /// The lengths of a frame's datagrams.
    fn lengths(frame: u64, most: u64) -> Vec<u64> {
        let (mut left, mut lengths) = (frame, vec![]);
        while left > 0 {
            let n = next_length(left, most);
            lengths.push(n);
            left -= n;
        }
        lengths
    }

    #[test]
    fn frames_are_split_as_by_the_original() {
        assert_eq!(lengths(1_400, 1_400), [1_400]);
        assert_eq!(lengths(1_401, 1_400), [1_374, 27]);
        assert_eq!(lengths(1_426, 1_400), [1_399, 27]);
        assert_eq!(lengths(1_427, 1_400), [1_400, 27]);
        assert_eq!(lengths(2_800, 1_400), [1_400, 1_400]);
        assert_eq!(lengths(2_810, 1_400), [1_400, 1_383, 27]);
        let guide = lengths(52_083, 1_400);
        assert_eq!((guide.len(), guide[36], guide[37]), (38, 1_400, 283));
        assert_eq!(lengths(123_456_789, 1_400).len(), 88_184);
        for (frame, most) in [(40, 1_400), (54, 53), (100_000, 53), (99_999, 60), (65_507, 65_507), (27, 27)]
        {
            let lengths = lengths(frame, most);
            assert_eq!(lengths.iter().sum::<u64>(), frame);
            assert!(lengths.iter().all(|&n| (SHORTEST..=most).contains(&n)), "{frame} {most}: {lengths:?}");
        }
    }
}
