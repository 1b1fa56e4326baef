//! Bytes of iperf3: the cookie, state bytes, framed JSON, hellos and headers of datagrams.
//!
//! ```text
//! cookie (control connection and each TCP stream)     state byte, control connection, one signed byte:
//! ┌──────────────────────────────┬────┐               01 TEST_START   02 TEST_RUNNING   04 TEST_END
//! │ 36 printable characters      │ 00 │               09 PARAM_EXCHANGE   0a CREATE_STREAMS
//! └──────────────────────────────┴────┘               0b SERVER_TERMINATE   0c CLIENT_TERMINATE
//!                                                     0d EXCHANGE_RESULTS   0e DISPLAY_RESULTS   10 IPERF_DONE
//! JSON document                                       ff ACCESS_DENIED
//! ┌──────────┬──────────────────┐                     fe SERVER_ERROR, then code and errno, int32 each
//! │ u32 be n │ n bytes of UTF-8 │
//! └──────────┴──────────────────┘                     UDP set-up: hello "9876", reply "6789" (4 bytes each)
//!
//! datagram, 32-bit numbers                            datagram, 64-bit numbers
//! ┌─────────┬──────────┬─────────┬─────────┐          ┌─────────┬──────────┬─────────────┬─────────┐
//! │ u32 s   │ u32 µs   │ u32 seq │ payload │          │ u32 s   │ u32 µs   │ u64 seq     │ payload │
//! └─────────┴──────────┴─────────┴─────────┘          └─────────┴──────────┴─────────────┴─────────┘
//! ```
//!
//! All numbers are in network order; the first datagram of a stream has number 1. The control
//! connection is a stream of bytes: states and documents may arrive in any pieces, and several at
//! once.

use transport::Rng;

/// The port when none is given.
pub const PORT: u16 = 5201;
/// Length of a cookie, bytes.
pub const COOKIE: usize = 37;
/// Longest parameters that are accepted, bytes (iperf 3.18 and later refuse more).
pub const LONGEST_PARAMETERS: usize = 8 * 1024;
/// Longest results that are accepted, bytes: a server's printout of a long test is in them.
pub const LONGEST_RESULTS: usize = 4 << 20;
/// The same of a client, bytes: there is no printout in them, and an entry of one of the 256
/// streams has 200 to 400.
pub const LONGEST_CLIENT_RESULTS: usize = 256 << 10;
/// The first datagram of a UDP stream.
pub const HELLO: [u8; 4] = *b"9876";
pub const REPLY: [u8; 4] = *b"6789";
/// Answers of servers before 3.12, by the order of their bytes.
pub const OLD_REPLIES: [[u8; 4]; 2] = [[0xb1, 0x68, 0xde, 0x3a], [0x3a, 0xde, 0x68, 0xb1]];
/// Header of a datagram with a number of 32 bits, bytes.
pub const HEADER: usize = 12;
/// And of 64 bits.
pub const WIDE_HEADER: usize = 16;

/// Identifier of a test: all of its connections begin with it.
pub type Cookie = [u8; COOKIE];

/// A fresh cookie: 36 characters of base32 and a NUL, as iperf 3.2 and later make them.
pub fn cookie(rng: &mut Rng) -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE];
    for byte in &mut cookie[..COOKIE - 1] {
        *byte = LETTERS[(rng.next() >> 59) as usize];
    }
    cookie
}

/// A cookie as text, without its NUL; unprintable bytes are shown as dots.
pub fn cookie_text(cookie: &Cookie) -> String {
    let end = cookie.iter().position(|&b| b == 0).unwrap_or(COOKIE);
    cookie[..end].iter().map(|&b| if b.is_ascii_graphic() { char::from(b) } else { '.' }).collect()
}

/// A state byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateByte(pub u8);

impl StateByte {
    /// Initialise, start timers.
    pub const TEST_START: StateByte = StateByte(1);
    /// Payload may flow.
    pub const TEST_RUNNING: StateByte = StateByte(2);
    /// The client's word that the test is over.
    pub const TEST_END: StateByte = StateByte(4);
    /// The server expects the client's parameters.
    pub const PARAM_EXCHANGE: StateByte = StateByte(9);
    /// The server expects the streams.
    pub const CREATE_STREAMS: StateByte = StateByte(10);
    /// The server was killed.
    pub const SERVER_TERMINATE: StateByte = StateByte(11);
    /// The client was killed.
    pub const CLIENT_TERMINATE: StateByte = StateByte(12);
    /// Results are wanted, the client's first.
    pub const EXCHANGE_RESULTS: StateByte = StateByte(13);
    /// Both ends have each other's results.
    pub const DISPLAY_RESULTS: StateByte = StateByte(14);
    pub const DONE: StateByte = StateByte(16);
    /// The server found an error, whose code follows.
    pub const SERVER_ERROR: StateByte = StateByte(0xfe);
    /// The server is busy.
    pub const DENIED: StateByte = StateByte(0xff);
}

/// Codes that follow [`StateByte::SERVER_ERROR`].
pub mod code {
    /// Too many streams.
    pub const STREAMS: i32 = 6;
    /// Blocks are too large.
    pub const BLOCK: i32 = 7;
    /// The socket buffer is too large.
    pub const BUFFER: i32 = 8;
    /// The largest segment is too large.
    pub const MSS: i32 = 10;
    /// The omitted part is too long.
    pub const OMIT: i32 = 12;
    /// A time, a number of bytes and one of blocks exclude each other; or a test is too long.
    pub const DURATION: i32 = 5;
    /// The file cannot be opened.
    pub const FILE: i32 = 14;
    /// Something that this server does not know.
    pub const UNKNOWN: i32 = 13;
    /// The block length is no valid datagram length.
    pub const DATAGRAM: i32 = 20;
    /// Both directions, and the other one only.
    pub const BOTH: i32 = 25;
    /// More rate than the server allows.
    pub const RATE: i32 = 27;
    /// A longer test than the server allows.
    pub const LONG: i32 = 37;
    /// The client's parameters cannot be parsed.
    pub const PARAMETERS: i32 = 114;
    /// The client's results cannot be parsed.
    pub const RESULTS: i32 = 117;
    /// An unknown state.
    pub const MESSAGE: i32 = 110;
    /// The congestion control cannot be had.
    pub const CONGESTION: i32 = 134;
    /// Not authorised.
    pub const AUTHORISATION: i32 = 142;
    /// Silence for too long.
    pub const SILENCE: i32 = 144;
    /// The test took longer than it should.
    pub const EXPIRED: i32 = 160;
    /// The streams were not opened.
    pub const STREAM: i32 = 204;
}

/// A server's error code in words.
pub fn error_text(number: i32) -> &'static str {
    match number {
        code::STREAMS => "number of parallel streams too large",
        code::BLOCK => "block size too large",
        code::BUFFER => "socket buffer size too large",
        code::MSS => "MSS too large",
        code::OMIT => "bogus value for --omit",
        code::DURATION => "test duration too long",
        code::UNKNOWN => "not implemented",
        code::DATAGRAM => "block size invalid for datagrams",
        code::BOTH => "cannot be both reverse and bidirectional",
        code::RATE => "total required bandwidth is larger than server limit",
        code::LONG => "client's requested duration exceeds the server's maximum permitted limit",
        107 => "unable to write to the control socket",
        108 => "unable to read from the control socket",
        109 => "control socket has closed unexpectedly",
        code::MESSAGE => "received an unknown control message",
        code::PARAMETERS => "unable to receive parameters from client",
        116 => "unable to send results",
        code::RESULTS => "unable to receive results",
        119 => "the client has terminated",
        120 => "the server has terminated",
        123 => "unable to set MSS",
        124 => "unable to set socket buffer size",
        code::CONGESTION => {
            "unable to set TCP_CONGESTION: the congestion control algorithm is not supported on the server"
        }
        141 => "socket buffer size not set correctly",
        code::AUTHORISATION => "test authorization failed",
        code::SILENCE => "idle timeout for receiving data",
        145 => "unable to set IP Do-Not-Fragment flag",
        code::EXPIRED => "server test duration expired",
        200..=204 => "unable to create the streams",
        205 => "unable to write to stream socket",
        206 => "unable to read from stream socket",
        207 => "stream has closed unexpectedly",
        208 => "stream has invalid ID",
        _ => "unknown error",
    }
}

/// The bytes of an error, as a server sends it.
pub fn server_error(number: i32) -> Vec<u8> {
    let mut bytes = vec![StateByte::SERVER_ERROR.0];
    bytes.extend(number.to_be_bytes());
    bytes.extend(0_i32.to_be_bytes());
    bytes
}

/// A document with its length before it.
pub fn framed(json: &str) -> Vec<u8> {
    let mut bytes = (json.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

/// Received bytes of a control connection that have not been understood yet.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of waiting bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// True if an error begins here whose code has not arrived yet.
    pub fn awaits_code(&self) -> bool {
        self.bytes.first() == Some(&StateByte::SERVER_ERROR.0) && self.bytes.len() < 5
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let first = *self.bytes.first()?;
        self.bytes.remove(0);
        Some(first)
    }

    /// The next four bytes as a number.
    pub fn number(&mut self) -> Option<i32> {
        let first = *self.bytes.first_chunk()?;
        self.bytes.drain(..4);
        Some(i32::from_be_bytes(first))
    }

    /// The next document, when all of it is there, its texts without what would command a terminal.
    ///
    /// # Errors
    /// When its length is 0 or more than `longest`, or it is no UTF-8.
    pub fn document(&mut self, longest: usize) -> Result<Option<String>, &'static str> {
        let Some(&length) = self.bytes.first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 || length > longest {
            return Err("a document's length cannot be");
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        let rest = self.bytes.split_off(4 + length);
        let mut text = std::mem::replace(&mut self.bytes, rest);
        text.drain(..4);
        // Some versions send the NUL behind the text along.
        while text.last() == Some(&0) {
            text.pop();
        }
        let text = String::from_utf8(text).map_err(|_| "a document is no UTF-8")?;
        Ok(Some(model::clean_json(&text).into_owned()))
    }
}

/// A datagram's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// When it was sent, µs on the sender's clock.
    pub sent_us: u64,
    /// Its number, from 1.
    pub number: u64,
}

impl Header {
    /// Reads the header of a datagram; `None` when it is too short for one.
    pub fn read(datagram: &[u8], wide: bool) -> Option<Header> {
        let word =
            |at: usize| datagram.get(at..at + 4)?.first_chunk().map(|b| u64::from(u32::from_be_bytes(*b)));
        let number = if wide { word(8)? << 32 | word(12)? } else { word(8)? };
        Some(Header { sent_us: word(0)? * 1_000_000 + word(4)?, number })
    }

    /// Writes it over the beginning of a datagram, within the room.
    pub fn write(self, out: &mut [u8], wide: bool) {
        let mut bytes = [0; WIDE_HEADER];
        bytes[..4].copy_from_slice(&((self.sent_us / 1_000_000) as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&((self.sent_us % 1_000_000) as u32).to_be_bytes());
        if wide {
            bytes[8..].copy_from_slice(&self.number.to_be_bytes());
        } else {
            bytes[8..12].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
        let n = out.len().min(header_len(wide));
        out[..n].copy_from_slice(&bytes[..n]);
    }
}

/// True if a peer of this version compares stamps with its wall clock, from the first datagram on:
/// peers before 3.7 do, and report the difference of the two clocks as jitter when it is another
/// one.
pub fn reads_wall_time(version: &str) -> bool {
    let minor = version.strip_prefix("3.").map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    minor.flatten().and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor < 7)
}

/// Length of a header, bytes.
pub fn header_len(wide: bool) -> usize {
    if wide { WIDE_HEADER } else { HEADER }
}

/// Numbers of streams: 1, 3, 4, 5, … (2 was skipped once, and has been ever since).
pub fn stream_id(slot: u32) -> u64 {
    if slot == 0 { 1 } else { u64::from(slot) + 2 }
}

/// The place of a stream by its number.
pub fn slot_of(id: u64) -> Option<u32> {
    match id {
        1 => Some(0),
        3.. => u32::try_from(id - 2).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_peer_command_no_terminal() {
        let mut inbox = Inbox::default();
        inbox.push(framed("{\"t\":\"a\u{9b}b\\u202ec\\u001bd\\ne\"}").as_slice());
        let text = "{\"t\":\"a\u{fffd}b\u{fffd}c\u{fffd}d\\ne\"}";
        assert_eq!(inbox.document(100), Ok(Some(text.to_owned())));
    }

    #[test]
    fn versions_that_read_wall_time() {
        for (version, old) in [
            ("3.1.7", true),
            ("3.6", true),
            ("3.6+", true),
            ("3.7", false),
            ("3.21+", false),
            ("", false),
            ("3.x", false),
        ] {
            assert_eq!(reads_wall_time(version), old, "{version}");
        }
    }

    #[test]
    fn datagrams_as_captured() {
        // iperf3-ctl-udp.pcap, iperf 3.21, first datagram of a stream: 563 s, 179,635 µs, number 1.
        let narrow = [0, 0, 2, 0x33, 0, 2, 0xbd, 0xb3, 0, 0, 0, 1, 0xe5, 0x9c, 0xf0, 0xe6];
        let header = Header { sent_us: 563_179_635, number: 1 };
        assert_eq!(Header::read(&narrow, false), Some(header));
        let mut again = narrow;
        again[..12].fill(0);
        header.write(&mut again, false);
        assert_eq!(again, narrow);
        // iperf3-ctl-udp64R.pcap: 596 s, 945,315 µs, number 1.
        let wide = [0, 0, 2, 0x54, 0, 0xe, 0x6c, 0xa3, 0, 0, 0, 0, 0, 0, 0, 1, 0x5e, 0xb7];
        let header = Header { sent_us: 596_945_315, number: 1 };
        assert_eq!(Header::read(&wide, true), Some(header));
        let mut again = wide;
        again[..16].fill(0);
        header.write(&mut again, true);
        assert_eq!(again, wide);
        assert_eq!(Header::read(&wide[..15], true), None);
    }

    #[test]
    fn documents_come_in_any_pieces() {
        let all = [&framed("{\"tcp\":true}")[..], &[0x0a]].concat();
        for cut in 0..all.len() {
            let mut inbox = Inbox::default();
            inbox.push(&all[..cut]);
            let early = inbox.document(100).unwrap();
            inbox.push(&all[cut..]);
            let whole = early.or_else(|| inbox.document(100).unwrap());
            assert_eq!((whole.as_deref(), inbox.byte()), (Some("{\"tcp\":true}"), Some(0x0a)), "{cut}");
        }
        for bad in [[0, 0, 0, 0], [0xff; 4], [0, 0, 0, 101]] {
            let mut inbox = Inbox::default();
            inbox.push(&bad);
            assert!(inbox.document(100).is_err());
        }
    }

    #[test]
    fn streams_are_numbered_as_ever() {
        let ids: Vec<u64> = (0..5).map(stream_id).collect();
        assert_eq!(ids, [1, 3, 4, 5, 6]);
        assert!((0..200).all(|slot| slot_of(stream_id(slot)) == Some(slot)));
        assert_eq!((slot_of(0), slot_of(2), slot_of(u64::MAX)), (None, None, None));
    }
}
