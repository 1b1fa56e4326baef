//! Load and Status PDUs (RFC 9946), which all capacity tests are made of.
//!
//! ```text
//!  Load       32 …   0 kind BEEF · 2 action, silent · 4 number · 8 length · 10 status errors
//!                    12 echoed time of a Status · 20 time · 28 response delay · 30 checksum
//!  Status      204   0 kind FEED · 2 action, silent · 4 number · 8 row · 36 sub-interval · 96 trial
//!                    interval · 176 marks · 185 modifiers
//!              168   before version 20: two gaps of 4, and nothing behind the times
//!
//!  row          28   two of (interval · size · burst), size of the additional datagram
//! ```
//!
//! A checksum of 0 is none.

use super::fields::{Fields, is_intact, kind, put, put_row};
use super::{Row, TrialReport};
use metrics::Wall;

/// The version of RFC 9946.
pub const VERSION: u16 = 20;

const LOAD_KIND: u16 = 0xBEEF;
const STATUS_KIND: u16 = 0xFEED;

/// Header of a Load PDU, and so the shortest one.
pub const LOAD: usize = 32;
/// Length of a Status PDU.
pub const LONG_STATUS: usize = 204;
/// The same before version 20.
pub const SHORT_STATUS: usize = 168;
/// A minimum without a sample.
const NONE: u32 = u32::MAX;

/// A time of a wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970.
    pub s: u32,
    /// Nanoseconds of the second.
    pub ns: u32,
}

impl Moment {
    /// The moment of a wall time.
    pub fn of(wall: Wall) -> Self {
        let ns = u64::try_from(wall.0).unwrap_or(0);
        Moment { s: (ns / 1_000_000_000) as u32, ns: (ns % 1_000_000_000) as u32 }
    }

    /// Nanoseconds since 1970; fractions above a second, which no clock has, count in full.
    pub fn nanoseconds(self) -> i64 {
        i64::from(self.s) * 1_000_000_000 + i64::from(self.ns)
    }

    fn read(fields: &Fields<'_>, at: usize) -> Self {
        Moment { s: fields.u32(at), ns: fields.u32(at + 4) }
    }

    fn write(self, bytes: &mut [u8], at: usize) {
        put(bytes, at, self.s.to_be_bytes());
        put(bytes, at + 4, self.ns.to_be_bytes());
    }
}

/// Header of a datagram of load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// 0: the test goes on; 2: it is to stop.
    pub action: u8,
    /// Its sender has received nothing for a second.
    pub silent: bool,
    /// From 1, one more for each datagram.
    pub number: u32,
    /// UDP payload of the whole datagram, bytes.
    pub length: u16,
    /// Status PDUs missing before the last one received; 65535: the last one was out of order.
    pub status_errors: u16,
    /// Time in the last Status PDU received; zero before any.
    pub echoed: Moment,
    /// When the datagram was sent.
    pub sent: Moment,
    /// From the arrival of that Status PDU to the sending of this datagram, ms.
    pub response_ms: u16,
}

impl Load {
    /// The header, without a checksum.
    pub fn encode(&self) -> [u8; LOAD] {
        let mut bytes = [0; LOAD];
        put(&mut bytes, 0, LOAD_KIND.to_be_bytes());
        put(&mut bytes, 2, [self.action, u8::from(self.silent)]);
        put(&mut bytes, 4, self.number.to_be_bytes());
        put(&mut bytes, 8, self.length.to_be_bytes());
        put(&mut bytes, 10, self.status_errors.to_be_bytes());
        self.echoed.write(&mut bytes, 12);
        self.sent.write(&mut bytes, 20);
        put(&mut bytes, 28, self.response_ms.to_be_bytes());
        bytes
    }

    /// From a datagram of `len` bytes, of which at least the header was read; `None` for any other,
    /// with a wrong checksum, or another length than its own.
    pub fn decode(bytes: &[u8], len: usize) -> Option<Self> {
        let head = bytes.first_chunk::<LOAD>()?;
        let fields = Fields(head);
        let length = fields.u16(8);
        let is_one =
            kind(head) == LOAD_KIND && fields.u8(2) <= 2 && fields.u8(3) <= 1 && usize::from(length) == len;
        (is_one && is_intact(head, 30)).then(|| Load {
            action: fields.u8(2),
            silent: fields.u8(3) == 1,
            number: fields.u32(4),
            length,
            status_errors: fields.u16(10),
            echoed: Moment::read(&fields, 12),
            sent: Moment::read(&fields, 20),
            response_ms: fields.u16(28),
        })
    }
}

/// Delay variation, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The least and the most of it; `None` without a sample.
    pub range: Option<(u32, u32)>,
    /// Sum of the samples.
    pub sum: u32,
    /// Their number.
    pub count: u32,
}

impl Spread {
    /// Adds a sample.
    pub fn add(&mut self, ms: u32) {
        let (low, high) = self.range.unwrap_or((ms, ms));
        self.range = Some((low.min(ms), high.max(ms)));
        self.sum = self.sum.saturating_add(ms);
        self.count = self.count.saturating_add(1);
    }

    /// Adds other samples.
    pub fn merge(&mut self, other: &Spread) {
        if let Some((low, high)) = other.range {
            let (ours_low, ours_high) = self.range.unwrap_or((low, high));
            self.range = Some((ours_low.min(low), ours_high.max(high)));
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.count = self.count.saturating_add(other.count);
    }

    /// The mean, rounded; `None` without a sample.
    pub fn mean(&self) -> Option<u32> {
        let twice = (u64::from(self.sum) * 2 + u64::from(self.count)).checked_div(u64::from(self.count) * 2);
        twice.map(|mean| u32::try_from(mean).unwrap_or(u32::MAX))
    }

    fn read(fields: &Fields<'_>, at: usize) -> Self {
        let (low, high) = (fields.u32(at), fields.u32(at + 4));
        let count = fields.u32(at + 12);
        Spread { range: (low != NONE && count > 0).then_some((low, high)), sum: fields.u32(at + 8), count }
    }

    fn write(&self, bytes: &mut [u8], at: usize) {
        let (low, high) = self.range.unwrap_or((NONE, 0));
        [low, high, self.sum, self.count]
            .iter()
            .zip(0..)
            .for_each(|(word, n)| put(bytes, at + 4 * n, word.to_be_bytes()));
    }
}

/// A receiver's counts of a sub-interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubInterval {
    /// Received datagrams.
    pub datagrams: u32,
    /// UDP payload.
    pub bytes: u64,
    /// Its length, µs.
    pub length_us: u32,
    /// Missing datagrams.
    pub lost: u32,
    /// Datagrams that a later one had overtaken.
    pub reordered: u32,
    /// Repeated datagrams.
    pub duplicated: u32,
    /// One-way delay above its minimum.
    pub delay: Spread,
    /// Least and most round trip above the shortest, ms; `None` without a sample.
    pub round_trip: Option<(u32, u32)>,
    /// Its end, ms since the first Status PDU.
    pub end_ms: u32,
}

/// A receiver's counts of a trial interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Missing datagrams.
    pub lost: u32,
    /// Datagrams that a later one had overtaken.
    pub reordered: u32,
    /// Repeated datagrams.
    pub duplicated: u32,
    /// One-way delay above its minimum.
    pub delay: Spread,
    /// Last round trip above the shortest, ms; `None` without one in this interval.
    pub round_trip_ms: Option<u32>,
    /// Its length, µs.
    pub length_us: u32,
    /// Received datagrams.
    pub datagrams: u32,
    /// UDP payload.
    pub bytes: u32,
    /// Datagrams with a congestion mark.
    pub marked: u32,
}

/// A receiver's report.
///
/// Wide: the fields of one PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// 0: the test goes on; 2: it is to stop.
    pub action: u8,
    /// Its sender has received nothing for a second.
    pub silent: bool,
    /// From 1, one more for each.
    pub number: u32,
    /// Of a server: the row from now on.
    pub row: Row,
    /// Number of finished sub-intervals.
    pub finished: u32,
    /// The last finished sub-interval.
    pub last: SubInterval,
    /// The trial interval.
    pub trial: Trial,
    /// Smallest difference of the receiver's clock at an arrival to the sender's at its sending, of
    /// the whole test, ms.
    pub delay_min_ms: i32,
    /// Shortest round trip of the whole test, ms.
    pub round_trip_min_ms: Option<u32>,
    /// One of these two has changed in this interval.
    pub updated: bool,
    /// When it was sent.
    pub sent: Moment,
    /// The connection's mode of authentication. No Status PDU is signed.
    pub mode: u8,
    /// Marked datagrams of the last finished sub-interval.
    pub sub_marked: u32,
    /// A datagram arrived without the ECN bits that it was sent with.
    pub bleached: bool,
}

/// Gaps of the old layout behind the first count and behind the sub-interval.
const GAP: usize = 4;

impl Status {
    /// Length of the PDU of a version.
    pub fn length(version: u16) -> usize {
        if version < VERSION { SHORT_STATUS } else { LONG_STATUS }
    }

    /// The trial interval as the search for a rate reads it.
    pub fn report(&self) -> TrialReport {
        let trial = &self.trial;
        TrialReport {
            lost: trial.lost,
            reordered: trial.reordered,
            duplicated: trial.duplicated,
            one_way_ms: trial.delay.mean(),
            round_trip_ms: trial.round_trip_ms,
            received: trial.datagrams,
            marked: trial.marked,
        }
    }

    /// The PDU, without a checksum; of an old version only the first [`Status::length`] bytes are
    /// sent.
    pub fn encode(&self, version: u16) -> [u8; LONG_STATUS] {
        let mut bytes = [0; LONG_STATUS];
        let (one, two) = gaps(version);
        let mut word = |at: usize, n: u32| put(&mut bytes, at, n.to_be_bytes());
        let (last, trial) = (&self.last, &self.trial);
        word(4, self.number);
        word(36, self.finished);
        word(40, last.datagrams);
        word(52 + one, last.length_us);
        word(56 + one, last.lost);
        word(60 + one, last.reordered);
        word(64 + one, last.duplicated);
        let (low, high) = last.round_trip.unwrap_or((NONE, 0));
        word(84 + one, low);
        word(88 + one, high);
        word(92 + one, last.end_ms);
        word(96 + two, trial.lost);
        word(100 + two, trial.reordered);
        word(104 + two, trial.duplicated);
        word(108 + two, self.delay_min_ms.cast_unsigned());
        word(128 + two, self.round_trip_min_ms.unwrap_or(NONE));
        word(132 + two, trial.round_trip_ms.unwrap_or(NONE));
        word(140 + two, trial.length_us);
        word(144 + two, trial.datagrams);
        word(148 + two, trial.bytes);
        put(&mut bytes, 0, STATUS_KIND.to_be_bytes());
        put(&mut bytes, 2, [self.action, u8::from(self.silent)]);
        put_row(&mut bytes, 8, &self.row);
        put(&mut bytes, 44 + one, last.bytes.to_be_bytes());
        last.delay.write(&mut bytes, 68 + one);
        trial.delay.write(&mut bytes, 112 + two);
        put(&mut bytes, 136 + two, [u8::from(self.updated)]);
        self.sent.write(&mut bytes, 152 + two);
        if version >= VERSION {
            put(&mut bytes, 163, [self.mode]);
            put(&mut bytes, 176, trial.marked.to_be_bytes());
            put(&mut bytes, 180, self.sub_marked.to_be_bytes());
            put(&mut bytes, 185, [u8::from(self.bleached)]);
        }
        bytes
    }

    /// From a datagram of a version; `None` for any other. Octets behind the modifiers are ignored,
    /// and with them the checksum: the reference sends stale memory there.
    pub fn decode(bytes: &[u8], version: u16) -> Option<Self> {
        let fields = Fields(bytes);
        let is_one = bytes.len() == Self::length(version)
            && kind(bytes) == STATUS_KIND
            && fields.u8(2) <= 2
            && fields.u8(3) <= 1;
        if !is_one {
            return None;
        }
        let (one, two) = gaps(version);
        let long = version >= VERSION;
        let sample = |at: usize| Some(fields.u32(at)).filter(|ms| *ms != NONE);
        let marks = |at: usize| if long { fields.u32(at) } else { 0 };
        Some(Status {
            action: fields.u8(2),
            silent: fields.u8(3) == 1,
            number: fields.u32(4),
            row: fields.row(8),
            finished: fields.u32(36),
            last: SubInterval {
                datagrams: fields.u32(40),
                bytes: u64::from_be_bytes(fields.array(44 + one)),
                length_us: fields.u32(52 + one),
                lost: fields.u32(56 + one),
                reordered: fields.u32(60 + one),
                duplicated: fields.u32(64 + one),
                delay: Spread::read(&fields, 68 + one),
                round_trip: sample(84 + one).map(|low| (low, fields.u32(88 + one))),
                end_ms: fields.u32(92 + one),
            },
            trial: Trial {
                lost: fields.u32(96 + two),
                reordered: fields.u32(100 + two),
                duplicated: fields.u32(104 + two),
                delay: Spread::read(&fields, 112 + two),
                round_trip_ms: sample(132 + two),
                length_us: fields.u32(140 + two),
                datagrams: fields.u32(144 + two),
                bytes: fields.u32(148 + two),
                marked: marks(176),
            },
            delay_min_ms: fields.u32(108 + two).cast_signed(),
            round_trip_min_ms: sample(128 + two),
            updated: fields.u8(136 + two) != 0,
            sent: Moment::read(&fields, 152 + two),
            mode: if long { fields.u8(163) } else { 0 },
            sub_marked: marks(180),
            bleached: long && fields.u8(185) & 1 != 0,
        })
    }
}

/// Shift of the fields behind the first count, and behind the sub-interval.
fn gaps(version: u16) -> (usize, usize) {
    if version < VERSION { (GAP, 2 * GAP) } else { (0, 0) }
}
