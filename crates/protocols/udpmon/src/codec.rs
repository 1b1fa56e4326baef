//! UDPmon 1.5.2's messages (`struct param` of its `net_test.h`; protocol version 7). All numbers
//! are little-endian: the originals send bytes of their memory, and run on x86 and ARM.
//!
//! ```text
//!   0        4        8                16               24                      bytes
//!  +--------+--------+----------------+----------------+
//!  |command |version | frame number   | send time      |   DATA: no more of the header than this; then payload
//!  +--------+--------+----------------+----------------+
//! 24                32       36       40       44       48       52       56       60
//!  +----------------+--------+--------+--------+--------+--------+--------+--------+
//!  | response time  |response| acks   |low edge|bin     | data   |log lost|packets |
//!  |                |length  |        |        |width   | index  |        |to skip |
//!  +----------------+--------+--------+--------+--------+--------+--------+--------+
//! 60       64       68       72               80       84       88                     208
//!  +--------+--------+--------+----------------+--------+--------+----------------------+
//!  |received|lost    |bad     | first to last  |stamps  |        | interrupts, 5 × 24:  |
//!  |        |        |order   |                |        |        | not filled any more  |
//!  +--------+--------+--------+----------------+--------+--------+----------------------+
//! ```
//!
//! A control message has 208 bytes, a request for a response at least 64. Fields that a message
//! does not use hold arbitrary bytes and must be ignored. Times of DATA are tenths of a microsecond
//! since the requester received the answer to ZEROSTATS, in 32 bits, so they end after 214 s;
//! response times are whole microseconds since ZEROSTATS arrived.

use crate::PacketTestCounts;

pub const PORT: u16 = 14_233;
pub const PARAM: usize = 208;
/// Length of a DATA message's header.
pub const DATA_HEADER: usize = 24;
/// Length of a request for a response, as `udpmon_bw_mon` sends it to compare clocks.
pub const SYNC: usize = 64;
pub const ACK: usize = 46;
/// Version in every answer; an original ends when it is another.
pub const VERSION: i32 = 7;
/// Most bytes of a piece of a block, but for records.
pub const PIECE: usize = 1400;
/// Most bytes of a piece of records of packets, and of lost packets: whole records.
pub const RECORDS_PIECE: usize = 1408;
pub const LOST_PIECE: usize = 1416;

/// Clears the counts, and takes the responder for a test.
const ZEROSTATS: i32 = 0x01;
pub(super) const GETSTATS: i32 = 0x02;
pub(super) const DATA: i32 = 0x04;
const REQ_RESP: i32 = 0x08;
const RESPONSE: i32 = 0x09;
const GETHIST0: i32 = 0x10;
const GETHIST3: i32 = 0x13;
const OK: i32 = 0x20;
const INUSE: i32 = 0x21;
const TESTEND: i32 = 0x22;
const ACKED: i32 = 0x23;
const GETINFO1: i32 = 0x40;
const GETNETSNMP: i32 = 0x43;
const GETCPULOAD: i32 = 0x44;
const GETNICSTATS: i32 = 0x45;
const START: i32 = 0x80;

/// Settings of a test, in ZEROSTATS and START.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Bytes of records wanted: 32 for a packet, or 24 for a lost one.
    pub record_bytes: i32,
    /// Every packet is to be acknowledged, if above 0.
    pub acks: i32,
    /// Lower edge of the histogram of gaps, tenths.
    pub low: i32,
    /// Its bins' width, tenths.
    pub bin_width: i32,
    /// Records are of lost packets, if 1.
    pub log_lost: i32,
    /// Packets before the first record.
    pub skip: i32,
    /// Kernel or hardware stamps are wanted, if not 0. `udpmon_req` sends arbitrary bytes.
    pub stamps: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    Histogram(i32),
    Records,
    /// Texts of /proc/net.
    Net,
    /// CPU shares.
    Cpu,
    /// The card's counters.
    FlowId,
}

/// The blocks that a command of their own asks for; GETHIST0 has the number of a histogram in
/// another field.
const BLOCKS: [(i32, Block); 4] = [
    (GETINFO1, Block::Records),
    (GETNETSNMP, Block::Net),
    (GETCPULOAD, Block::Cpu),
    (GETNICSTATS, Block::FlowId),
];

impl Block {
    /// The block that `command` alone asks for.
    pub(super) fn of(command: i32) -> Option<Block> {
        BLOCKS.iter().find(|(known, _)| *known == command).map(|(_, block)| *block)
    }

    /// The command that asks for it.
    pub(super) fn command(self) -> i32 {
        BLOCKS.iter().find(|(_, block)| *block == self).map_or(GETHIST0, |(command, _)| *command)
    }

    /// True if it is made of readings of the responder's host.
    pub(super) fn is_of_host(self) -> bool {
        matches!(self, Block::Net | Block::Cpu | Block::FlowId)
    }
}

/// A message with a known command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// ZEROSTATS: begin a test.
    Zero(Setup),
    /// START: count from anew, the zero of time stays.
    Start(Setup),
    /// DATA: a packet.
    Data {
        /// Its number, from 0.
        frame: i64,
        /// When it left, tenths.
        sent: i64,
    },
    /// REQ_RESP: a request for a response of a length.
    Ask { frame: i64, length: i32 },
    Response {
        /// The request's number.
        frame: i64,
        /// The responder's time, whole µs.
        time: i64,
    },
    /// GETSTATS.
    Stats,
    /// GETHIST0 and its like: a piece of a block.
    Fetch {
        block: Block,
        /// Its begin: in bytes, and for records in words of 8 bytes.
        index: i32,
        /// Its length, bytes.
        length: i32,
    },
    /// TESTEND.
    End,
    Ok {
        /// The responder's version.
        version: i32,
    },
    /// INUSE: another test is running.
    Busy {
        /// The responder's version.
        version: i32,
    },
    /// ACK of a packet.
    Ack,
}

pub(super) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn put32(bytes: &mut [u8], at: usize, value: i32) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = value.to_le_bytes();
    }
}

pub(super) fn put64(bytes: &mut [u8], at: usize, value: i64) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = value.to_le_bytes();
    }
}

/// A number of a [`Setup`].
type Number = fn(&mut Setup) -> &mut i32;

/// Offsets of a [`Setup`]'s numbers.
const SETUP: [(usize, Number); 7] = [
    (32, |setup| &mut setup.record_bytes),
    (36, |setup| &mut setup.acks),
    (40, |setup| &mut setup.low),
    (44, |setup| &mut setup.bin_width),
    (52, |setup| &mut setup.log_lost),
    (56, |setup| &mut setup.skip),
    (80, |setup| &mut setup.stamps),
];

impl Setup {
    fn decode(bytes: &[u8]) -> Option<Setup> {
        let mut setup = Setup::default();
        for (at, number) in SETUP {
            *number(&mut setup) = i32_at(bytes, at)?;
        }
        Some(setup)
    }

    fn encode(mut self, bytes: &mut [u8]) {
        for (at, number) in SETUP {
            put32(bytes, at, *number(&mut self));
        }
    }
}

/// Decodes a message; `None` for an unknown command, or when the fields it needs are not all there.
/// A DATA message may be as short as its number: missing bytes of its send time are 0.
pub fn decode(bytes: &[u8]) -> Option<Message> {
    let fetch = |block| Some(Message::Fetch { block, index: i32_at(bytes, 48)?, length: i32_at(bytes, 32)? });
    let version = || i32_at(bytes, 4);
    match i32_at(bytes, 0)? {
        DATA => Some(Message::Data { frame: i64_at(bytes, 8)?, sent: i64_at(bytes, 16).unwrap_or(0) }),
        REQ_RESP => Some(Message::Ask { frame: i64_at(bytes, 8)?, length: i32_at(bytes, 32)? }),
        RESPONSE => Some(Message::Response { frame: i64_at(bytes, 8)?, time: i64_at(bytes, 24)? }),
        ZEROSTATS => Setup::decode(bytes).map(Message::Zero),
        START => Setup::decode(bytes).map(Message::Start),
        GETSTATS => Some(Message::Stats),
        GETHIST0 => fetch(Block::Histogram(i32_at(bytes, 40)?)),
        // Commands of older versions, one for each histogram.
        old @ 0x11..=GETHIST3 => fetch(Block::Histogram(old - GETHIST0)),
        TESTEND => Some(Message::End),
        OK => version().map(|version| Message::Ok { version }),
        INUSE => version().map(|version| Message::Busy { version }),
        ACKED => Some(Message::Ack),
        other => Block::of(other).and_then(fetch),
    }
}

/// A message as a requester sends it; answers are made by [`answer`] and [`response`]. `length`
/// bytes long for DATA and requests for a response (what does not fit is left out), 208 otherwise.
pub fn encode(message: &Message, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; PARAM];
    put32(&mut bytes, 4, VERSION);
    let command = match message {
        Message::Zero(setup) => {
            // The original's first message has no version.
            put32(&mut bytes, 4, 0);
            setup.encode(&mut bytes);
            ZEROSTATS
        }
        Message::Start(setup) => {
            setup.encode(&mut bytes);
            START
        }
        Message::Data { frame, sent } => {
            bytes = vec![0; length.max(DATA_HEADER)];
            write_data(&mut bytes, *frame, *sent);
            bytes.truncate(length);
            return bytes;
        }
        Message::Ask { frame, length: wanted } => {
            bytes.resize(length.max(36), 0);
            put64(&mut bytes, 8, *frame);
            put32(&mut bytes, 32, *wanted);
            REQ_RESP
        }
        Message::Response { frame, time } => {
            put64(&mut bytes, 8, *frame);
            put64(&mut bytes, 24, *time);
            RESPONSE
        }
        Message::Stats => GETSTATS,
        Message::Fetch { block, index, length } => {
            put32(&mut bytes, 32, *length);
            put32(&mut bytes, 48, *index);
            if let Block::Histogram(number) = block {
                put32(&mut bytes, 40, *number);
            }
            block.command()
        }
        Message::End => TESTEND,
        Message::Ok { version } | Message::Busy { version } => {
            put32(&mut bytes, 4, *version);
            if matches!(message, Message::Ok { .. }) { OK } else { INUSE }
        }
        Message::Ack => {
            bytes.truncate(ACK);
            ACKED
        }
    };
    put32(&mut bytes, 0, command);
    bytes
}

/// Writes the header of a packet: what of it fits. Its version is 0, and its send time a 32-bit
/// number, as the original's.
pub fn write_data(bytes: &mut [u8], frame: i64, sent: i64) {
    let mut header = [0; DATA_HEADER];
    put32(&mut header, 0, DATA);
    put64(&mut header, 8, frame);
    put64(&mut header, 16, sent);
    let n = bytes.len().min(DATA_HEADER);
    bytes[..n].copy_from_slice(&header[..n]);
}

/// The answer OK to `request`: the same message with another head, as the original makes it.
pub fn answer(request: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PARAM];
    let n = request.len().min(PARAM);
    bytes[..n].copy_from_slice(&request[..n]);
    put32(&mut bytes, 0, OK);
    put32(&mut bytes, 4, VERSION);
    bytes
}

/// The response to `request`, `length` bytes: the request cut or continued with zeros, and the
/// responder's time in µs.
pub fn response(request: &[u8], length: usize, time: i64) -> Vec<u8> {
    let mut bytes = vec![0; length.max(32)];
    let n = request.len().min(bytes.len());
    bytes[..n].copy_from_slice(&request[..n]);
    put32(&mut bytes, 0, RESPONSE);
    put32(&mut bytes, 4, VERSION);
    put64(&mut bytes, 24, time);
    bytes.truncate(length);
    bytes
}

/// The answer to GETSTATS.
pub fn encode_counts(counts: &PacketTestCounts) -> Vec<u8> {
    let mut bytes = vec![0; PARAM];
    put32(&mut bytes, 0, GETSTATS);
    put32(&mut bytes, 4, VERSION);
    for (at, n) in [(60, counts.received), (64, counts.lost), (68, counts.bad_order)] {
        put32(&mut bytes, at, i32::try_from(n).unwrap_or(i32::MAX));
    }
    put64(&mut bytes, 72, counts.span);
    bytes
}

/// An answer to GETSTATS: only these fields of it mean anything, its command does not.
pub fn decode_counts(bytes: &[u8]) -> Option<PacketTestCounts> {
    let count = |at: usize| i32_at(bytes, at).map(|n| u64::try_from(n).unwrap_or(0));
    let (received, lost, bad_order) = (count(60)?, count(64)?, count(68)?);
    Some(PacketTestCounts { received, lost, bad_order, bytes: 0, span: i64_at(bytes, 72)? })
}
