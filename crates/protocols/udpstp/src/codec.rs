//! The PDUs. All integers are big-endian; a PDU has its kind in its first two octets, its length by
//! kind and version, and no length field.
//!
//! ```text
//!  Setup        56   0 kind ACE1 · 2 version · 4 index, count · 6 identifier · 8 request, response
//!                    10 bandwidth (bit 15: upstream) · 12 test port · 14 modifiers · 15 seal
//!  Null         48   0 kind DEAD · 2 version · 4 request, response · 6 – · 7 seal
//!  Activation  104   0 kind ACE2 · 2 version · 4 request, response · 6 parameters · 28 row
//!                    56 sub-interval, ms · 60 suppressed sub-intervals · 63 seal
//!               60   before version 20: no seal, sub-interval at 14, s, checksum at 58
//!  seal         41   0 mode · 1 time, s · 5 HMAC-SHA-256 · 37 key · 38 – · 39 checksum
//! ```
//!
//! A checksum of 0 is none. Load and Status PDUs are [`common::capacity`]'s.

mod seal;

pub use seal::{Deriver, Keys, Seal, Sealed, Unsealed, WINDOW_S};

pub use common::capacity::fields::checksum;
use common::capacity::fields::{Fields, is_intact, kind, put, put_row};
pub use common::capacity::{
    AUTOMATIC, LOAD, LONG_STATUS, Load, Moment, Parameters, RANDOM_FILLER, Row, SHORT_STATUS, START_ROW,
    Spread, Status, SubInterval, Trial, VERSION,
};

/// Kinds of PDUs.
const SETUP_KIND: u16 = 0xACE1;
const ACTIVATION_KIND: u16 = 0xACE2;
const NULL_KIND: u16 = 0xDEAD;

/// The oldest version that is served.
pub const OLDEST: u16 = 11;
/// Lengths of the control PDUs.
pub const SETUP: usize = 56;
/// Length of a Null Request.
pub const NULL: usize = 48;
/// Length of an Activation PDU.
pub const ACTIVATION: usize = 104;
/// The same before version 20.
pub const SHORT_ACTIVATION: usize = 60;
/// Most connections of a test.
pub const MOST_CONNECTIONS: u8 = 24;
/// Setup modifier: jumbo datagrams are allowed.
pub const JUMBO: u8 = 1;
/// Setup modifier: datagrams fill packets of 1,500 bytes.
pub const TRADITIONAL: u8 = 2;
/// Most bandwidth that a Setup Request states, Mbit/s.
pub const MOST_BANDWIDTH: u16 = 0x7fff;

/// Results of a set-up.
pub mod setup_code {
    pub const NONE: u8 = 0;
    pub const ACCEPTED: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const JUMBO: u8 = 3;
    pub const NO_KEYS_HERE: u8 = 4;
    pub const KEY_REQUIRED: u8 = 5;
    pub const MODE: u8 = 6;
    pub const UNPROVEN: u8 = 7;
    pub const TIME: u8 = 8;
    pub const BANDWIDTH_MISSING: u8 = 9;
    pub const CAPACITY: u8 = 10;
    pub const TRADITIONAL: u8 = 11;
    pub const CONNECTIONS: u8 = 12;
    pub const FULL: u8 = 13;
}

/// Results of an activation.
pub mod activation_code {
    pub const NONE: u8 = 0;
    pub const ACCEPTED: u8 = 1;
    pub const REFUSED: u8 = 2;
}

/// A request for a connection of a test, or the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    pub version: u16,
    /// Which of the test's connections it is, from 0, and their number.
    pub index: u8,
    pub count: u8,
    /// Names the test: the same in all its connections, never 0.
    pub test: u16,
    pub answer: bool,
    /// The result; 0 in requests.
    pub code: u8,
    /// Rate that the client expects, Mbit/s; 0 where it states none.
    pub bandwidth: u16,
    pub upstream: bool,
    /// The server's port for the rest of the connection.
    pub port: u16,
    pub modifiers: u8,
    pub seal: Seal,
}

/// In the bandwidth of a Setup PDU: the client sends.
const UPSTREAM: u16 = 1 << 15;

impl Setup {
    /// Offset of its seal.
    pub const SEAL: Sealed = Sealed(15);

    /// The PDU, unsigned.
    pub fn encode(&self) -> [u8; SETUP] {
        let mut bytes = [0; SETUP];
        put(&mut bytes, 0, SETUP_KIND.to_be_bytes());
        put(&mut bytes, 2, self.version.to_be_bytes());
        put(&mut bytes, 4, [self.index, self.count]);
        put(&mut bytes, 6, self.test.to_be_bytes());
        put(&mut bytes, 8, [if self.answer { 2 } else { 1 }, self.code]);
        let way = if self.upstream { UPSTREAM } else { 0 };
        put(&mut bytes, 10, (self.bandwidth & MOST_BANDWIDTH | way).to_be_bytes());
        put(&mut bytes, 12, self.port.to_be_bytes());
        put(&mut bytes, 14, [self.modifiers]);
        Self::SEAL.write(&mut bytes, &self.seal);
        bytes
    }

    /// From a datagram; `None` for any other, or with a wrong checksum.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = Fields(bytes);
        let request = fields.u8(8);
        let is_one = bytes.len() == SETUP && kind(bytes) == SETUP_KIND && matches!(request, 1 | 2);
        (is_one && is_intact(bytes, Self::SEAL.checksum())).then(|| Setup {
            version: fields.u16(2),
            index: fields.u8(4),
            count: fields.u8(5),
            test: fields.u16(6),
            answer: request == 2,
            code: fields.u8(9),
            bandwidth: fields.u16(10) & MOST_BANDWIDTH,
            upstream: fields.u16(10) & UPSTREAM != 0,
            port: fields.u16(12),
            modifiers: fields.u8(14),
            seal: Self::SEAL.read(bytes),
        })
    }
}

/// The reference's way of opening a firewall in front of the client; never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Null {
    pub version: u16,
    pub seal: Seal,
}

impl Null {
    /// Offset of its seal.
    pub const SEAL: Sealed = Sealed(7);

    /// The PDU, unsigned.
    pub fn encode(&self) -> [u8; NULL] {
        let mut bytes = [0; NULL];
        put(&mut bytes, 0, NULL_KIND.to_be_bytes());
        put(&mut bytes, 2, self.version.to_be_bytes());
        put(&mut bytes, 4, [1]);
        Self::SEAL.write(&mut bytes, &self.seal);
        bytes
    }

    /// From a datagram; `None` for any other.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_one = bytes.len() == NULL && kind(bytes) == NULL_KIND && Fields(bytes).u8(4) == 1;
        (is_one && is_intact(bytes, Self::SEAL.checksum()))
            .then(|| Null { version: Fields(bytes).u16(2), seal: Self::SEAL.read(bytes) })
    }
}

/// A request to begin, or the answer with the parameters in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    pub version: u16,
    pub upstream: bool,
    /// The result; 0 in requests.
    pub code: u8,
    pub parameters: Parameters,
    /// The first row of an upstream test, in an answer; otherwise zeros.
    pub row: Row,
    pub seal: Seal,
}

impl Activation {
    /// Offset of its seal.
    pub const SEAL: Sealed = Sealed(63);
    /// Offset of the checksum before version 20.
    const SHORT_CHECKSUM: usize = 58;

    /// Length of the PDU of a version.
    pub fn length(version: u16) -> usize {
        if version < VERSION { SHORT_ACTIVATION } else { ACTIVATION }
    }

    /// The PDU, unsigned; before version 20 the rest is not sent ([`Activation::length`]).
    pub fn encode(&self) -> [u8; ACTIVATION] {
        let p = &self.parameters;
        let mut bytes = [0; ACTIVATION];
        put(&mut bytes, 0, ACTIVATION_KIND.to_be_bytes());
        put(&mut bytes, 2, self.version.to_be_bytes());
        put(&mut bytes, 4, [if self.upstream { 1 } else { 2 }, self.code]);
        put(&mut bytes, 6, p.low_ms.to_be_bytes());
        put(&mut bytes, 8, p.upper_ms.to_be_bytes());
        put(&mut bytes, 10, p.trial_ms.to_be_bytes());
        put(&mut bytes, 12, p.test_s.to_be_bytes());
        put(&mut bytes, 15, [p.traffic_class]);
        put(&mut bytes, 16, p.row.to_be_bytes());
        put(&mut bytes, 18, [u8::from(p.one_way), p.fast_rows]);
        put(&mut bytes, 20, p.bad_reports.to_be_bytes());
        put(&mut bytes, 22, p.sequence_errors.to_be_bytes());
        put(&mut bytes, 24, [u8::from(p.loss_only), p.modifiers, p.algorithm, p.ce_share]);
        put_row(&mut bytes, 28, &self.row);
        if self.version < VERSION {
            let seconds = u8::try_from(p.sub_interval_ms / 1_000).unwrap_or(u8::MAX);
            put(&mut bytes, 14, [seconds.max(1)]);
            return bytes;
        }
        put(&mut bytes, 56, p.sub_interval_ms.to_be_bytes());
        put(&mut bytes, 60, p.suppressed.to_be_bytes());
        Self::SEAL.write(&mut bytes, &self.seal);
        bytes
    }

    /// From a datagram; `None` for any other, or with a wrong checksum. Switches with other values
    /// than 0 and 1 have their defaults.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = Fields(bytes);
        let (version, request) = (fields.u16(2), fields.u8(4));
        let is_one = bytes.len() == Self::length(version)
            && kind(bytes) == ACTIVATION_KIND
            && matches!(request, 1 | 2);
        let long = version >= VERSION;
        let checked = if long { Self::SEAL.checksum() } else { Self::SHORT_CHECKSUM };
        if !is_one || !is_intact(bytes, checked) {
            return None;
        }
        let switch = |at: usize, usual: bool| match fields.u8(at) {
            0 => false,
            1 => true,
            _ => usual,
        };
        let parameters = Parameters {
            low_ms: fields.u16(6),
            upper_ms: fields.u16(8),
            trial_ms: fields.u16(10),
            test_s: fields.u16(12),
            traffic_class: fields.u8(15),
            row: fields.u16(16),
            one_way: switch(18, false),
            fast_rows: fields.u8(19),
            bad_reports: fields.u16(20),
            sequence_errors: fields.u16(22),
            loss_only: switch(24, true),
            modifiers: fields.u8(25),
            algorithm: fields.u8(26),
            ce_share: fields.u8(27),
            sub_interval_ms: match long {
                true => fields.u16(56),
                false => u16::from(fields.u8(14)).saturating_mul(1_000),
            },
            suppressed: if long { fields.u16(60) } else { 0 },
        };
        Some(Activation {
            version,
            upstream: request == 1,
            code: fields.u8(5),
            parameters,
            row: fields.row(28),
            seal: if long { Self::SEAL.read(bytes) } else { Seal::default() },
        })
    }
}

#[cfg(test)]
mod tests;
