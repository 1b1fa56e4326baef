//! tcpmon 2.2.1's messages (`struct param` of its `net_test.h`; protocol version 6). All numbers
//! are little-endian.
//!
//! ```text
//!   0        4        8                16               24               32       36       40       44
//!  +--------+--------+----------------+----------------+----------------+--------+--------+--------+
//!  |command |version | frame number   | send time      | response time  |response|low edge|bin     |
//!  |        |        |                | 0.1 µs         |                |length  |        |width   |
//!  +--------+--------+----------------+----------------+----------------+--------+--------+--------+
//! 44       48       52       56       60       64               72               80       84       88
//!  +--------+--------+--------+--------+--------+----------------+----------------+--------+--------+
//!  |message |packets |index   |        |received| bytes received | first to last  |segment |socket  |
//!  |length  |to skip |        |        |        |                | µs             |size    |buffer  |
//!  +--------+--------+--------+--------+--------+----------------+----------------+--------+--------+
//! 88               96               104              112                                          144
//!  +----------------+----------------+----------------+----------------------------------------------+
//!  | TCPInSegs      | TCPOutSegs     | TCPRetransSegs | eight i32 of TCP_INFO: not filled on the wire |
//!  +----------------+----------------+----------------+----------------------------------------------+
//! ```
//!
//! A message is this head and as much more as its length says. One connection is one test; nothing
//! is agreed on before the first DATA. Answers to GETNETSNMP, GETNICSTATS and GETCPULOAD are
//! UDPmon's blocks, whole and without a head. Fields that a message does not use hold whatever was
//! there; that goes for the version, too.
use crate::PacketTestCounts;
use crate::codec::{Block, DATA, GETSTATS, i32_at, i64_at, put32, put64};
use metrics::Clamped;

pub const PARAM: usize = 144;
pub const PORT: u16 = 14_233;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Data: counted.
    Data,
    Stats,
    /// A block about the responder's host.
    Fetch(Block),
    /// Anything else: passed over.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub command: Command,
    pub frame: i64,
    /// The length of the message, this head included, bytes; never less than a head.
    pub length: u64,
}

/// Decodes a head. A length that is shorter than a head, or below 0, counts as a head's.
pub fn decode(bytes: &[u8; PARAM]) -> Head {
    let command = match i32_at(bytes, 0).unwrap_or(0) {
        DATA => Command::Data,
        GETSTATS => Command::Stats,
        other => Block::of(other).filter(|block| block.is_of_host()).map_or(Command::Other, Command::Fetch),
    };
    let length = u64::try_from(i32_at(bytes, 44).unwrap_or(0)).unwrap_or(0).max(u64::clamped(PARAM));
    Head { command, frame: i64_at(bytes, 8).unwrap_or(0), length }
}

/// A head as a requester sends it; `sent` is its time, 0.1 µs, `answer` the expected length of the
/// answer.
pub fn encode(head: &Head, sent: i64, answer: usize) -> [u8; PARAM] {
    let mut bytes = [0; PARAM];
    let command = match head.command {
        Command::Data => DATA,
        Command::Stats => GETSTATS,
        Command::Fetch(block) => block.command(),
        Command::Other => 0,
    };
    put32(&mut bytes, 0, command);
    put64(&mut bytes, 8, head.frame);
    put64(&mut bytes, 16, sent);
    put32(&mut bytes, 32, answer as i32);
    put32(&mut bytes, 44, i32::try_from(head.length).unwrap_or(i32::MAX));
    bytes
}

/// Which of its kind a head asks for.
pub fn index(bytes: &[u8; PARAM]) -> i32 {
    i32_at(bytes, 52).unwrap_or(0)
}

/// Makes a head ask for the `index`-th of its kind.
pub(super) fn put_index(bytes: &mut [u8; PARAM], index: i32) {
    put32(bytes, 52, index);
}

/// The answer to GETSTATS: the request with the sums in it.
pub fn answer(request: &[u8; PARAM], counts: &PacketTestCounts) -> [u8; PARAM] {
    let mut bytes = *request;
    put32(&mut bytes, 44, PARAM as i32);
    put32(&mut bytes, 60, i32::try_from(counts.received).unwrap_or(i32::MAX));
    put64(&mut bytes, 64, i64::try_from(counts.bytes).unwrap_or(i64::MAX));
    put64(&mut bytes, 72, counts.span / 10);
    put32(&mut bytes, 84, 0);
    bytes
}

/// The sums in an answer to GETSTATS.
pub fn decode_counts(bytes: &[u8; PARAM]) -> PacketTestCounts {
    PacketTestCounts {
        received: i32_at(bytes, 60).and_then(|n| n.try_into().ok()).unwrap_or(0),
        bytes: i64_at(bytes, 64).and_then(|n| n.try_into().ok()).unwrap_or(0),
        span: i64_at(bytes, 72).unwrap_or(0).saturating_mul(10),
        ..PacketTestCounts::default()
    }
}
