//! The datagrams of native UDP.
//!
//! ```text
//!  DATA: header and payload                    all others: 144 bytes
//!  0                   1                       0
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5             0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//! +-------------------------------+           +-------------------------------+
//! |  check        | sequence      |   0       |  check        | t1            |
//! +---------------+---------------+           +---------------+---------------+
//! |  intended     | actual        |  16       |  t2           | t3            |
//! +---------------+---------------+           +---------------+---------------+
//! |k v  size| slot| payload ...   |  32       |k v  0   | slot| session       |
//! +---------------+               |           +---------------+---------------+
//! |  the ctsTraffic pattern from  |  48       |  number       | id            |
//! |  offset 0                     |           +---------------+               |
//! |                               |  64       |               | cookie        |
//!                                             +---------------+               |
//!                                     80      |               | seal          |
//!                                             +---------------+               |
//!                                     96      |               | offset        |
//!                                             +---------------+---------------+
//!                                    112      |  bound        | start         |
//!                                             +---------------+---------------+
//!                                    128      |  total        | missing       |
//!                                             +---------------+---------------+
//! ```
//!
//! Numbers are big-endian. `k` is the kind, `v` the version, 2; `size` the size of the whole
//! datagram. Times are ns of the sender's host's monotonic clock: `intended` and `actual` time of
//! sending this datagram; `t1` the departure of a request (INIT, OPEN, TIME, END), repeated in the
//! answer, with `t2` the request's arrival and `t3` the answer's departure. `offset` is the
//! client's estimate of the server's clock minus its own, and `bound` the error bound of that (in a
//! TIMED, when wall clocks are trusted: the server's wall clock minus its monotonic one, and the
//! error bound of the wall clock); `start` the beginning of data, by the server's clock, 0 while
//! unknown; `total` the number of DATA sent, all ones while unknown; `missing` the number of the
//! other end's DATA that have not arrived. `session`, `number` and `seal` belong to an opening
//! ([`crate::opening`]), in an INIT and an OPEN; the seal covers bytes 32 to 87, so that it is
//! bound to the cookie, and by that to an address.
//!
//! The check covers the header of DATA, and all of the others, with two words of key: the flow's id
//! in DATA, zero in the others. With `mix(a, b)` the low half of the 128-bit product xor its high
//! half, it is `h = mix(key₁ ^ C₁, key₂ ^ C₂)`, then `h = mix(h ^ word, C₃ ^ position)` for each
//! 64-bit word after it, in DATA from the last to the first: fields that datagrams of one send
//! share precede those that differ. The check detects damage and strays, not forgery.

use crate::opening::SEAL;
use uuid::Uuid;

/// Bytes before the payload of DATA.
pub const HEADER: usize = 40;
/// Bytes of every other datagram.
pub const CONTROL: usize = 144;
/// Bytes that the seal of an opening covers: from the kind to the cookie.
const SEALED: std::ops::Range<usize> = 32..88;
const VERSION: u8 = 2;
/// "Not known yet", in `total`.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Kind of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Asks for a cookie (as SCTP's INIT does).
    #[default]
    Init,
    /// Challenge to the address; `Open` returns it.
    Cookie,
    /// Request to open a flow, with the cookie.
    Open,
    /// The flow is open.
    Opened,
    /// A question for the other's time, and the own.
    Time,
    /// The answer.
    Timed,
    /// The client sends no more.
    End,
    /// The server sends no more.
    Ended,
    Data,
}

const KINDS: [Kind; 9] = [
    Kind::Init,
    Kind::Cookie,
    Kind::Open,
    Kind::Opened,
    Kind::Time,
    Kind::Timed,
    Kind::End,
    Kind::Ended,
    Kind::Data,
];

impl Kind {
    fn number(self) -> u8 {
        self as u8 + 1
    }
}

const C1: u64 = 0x9e37_79b9_7f4a_7c15;
const C2: u64 = 0xbf58_476d_1ce4_e5b9;
const C3: u64 = 0x94d0_49bb_1331_11eb;

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A flow's key to its checks, prepared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check(u64);

impl Check {
    pub(super) fn of(id: Uuid) -> Self {
        let (high, low) = id.as_u64_pair();
        Check(mix(high ^ C1, low ^ C2))
    }

    /// The check of a header's four words after it, without its number.
    #[inline]
    fn shared(self, [intended, actual, last]: [u64; 3]) -> u64 {
        [(3, last), (2, actual), (1, intended)]
            .into_iter()
            .fold(self.0, |h, (at, word)| mix(h ^ word, C3 ^ at))
    }

    fn bytes(self, bytes: &[u8]) -> u64 {
        let words = bytes.chunks_exact(8).filter_map(|chunk| chunk.first_chunk().copied());
        words.map(u64::from_be_bytes).enumerate().fold(self.0, |h, (at, word)| mix(h ^ word, C3 ^ at as u64))
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The claimed kind of a datagram; `None` for foreign ones.
#[inline]
pub(super) fn kind(datagram: &[u8]) -> Option<Kind> {
    let (&kind, &version) = (datagram.get(32)?, datagram.get(33)?);
    KINDS.get(usize::from(kind).checked_sub(1)?).copied().filter(|_| version == VERSION)
}

/// The header of DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its number in its direction, from 0.
    pub sequence: u64,
    /// When it was to leave, ns of the sender's host clock.
    pub intended: u64,
    pub actual: u64,
    /// Size of the whole datagram, bytes.
    pub size: u16,
    /// The flow's slot.
    pub slot: u32,
}

impl Header {
    #[inline]
    fn last(self) -> u64 {
        u64::from(Kind::Data.number()) << 56
            | u64::from(VERSION) << 48
            | u64::from(self.size) << 32
            | u64::from(self.slot)
    }

    /// Writes it before the payload; `out` has at least 40 bytes.
    #[inline]
    pub(super) fn write(self, check: Check, out: &mut [u8]) {
        HeaderTemplate::of(self, check).write(self.sequence, out);
    }

    /// Reads it; `None` when it is damaged, not of this flow, or not the header of this datagram.
    #[inline]
    pub(super) fn read(check: Check, datagram: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = datagram.first_chunk()?;
        let words = [word(bytes, 8)?, word(bytes, 16)?, word(bytes, 24)?, word(bytes, 32)?];
        let header = Header {
            sequence: words[0],
            intended: words[1],
            actual: words[2],
            size: (words[3] >> 32) as u16,
            slot: words[3] as u32,
        };
        let good = word(bytes, 0)? == numbered(check.shared([words[1], words[2], words[3]]), words[0])
            && header.last() == words[3]
            && usize::from(header.size) == datagram.len();
        good.then_some(header)
    }
}

/// The check of a header, from that of its shared words.
#[inline]
fn numbered(shared: u64, sequence: u64) -> u64 {
    mix(shared ^ sequence, C3)
}

/// Headers that differ in nothing but their number, as in most sends of several datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderTemplate {
    shared: u64,
    /// Header after the sequence number.
    rest: [u8; HEADER - 16],
}

impl HeaderTemplate {
    /// Headers like `header`.
    #[inline]
    pub(super) fn of(header: Header, check: Check) -> Self {
        let words = [header.intended, header.actual, header.last()];
        let mut rest = [0; HEADER - 16];
        for (bytes, word) in rest.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_be_bytes();
        }
        HeaderTemplate { shared: check.shared(words), rest }
    }

    /// Writes number `sequence` of them before the payload; `out` has at least 40 bytes.
    #[inline]
    pub(super) fn write(&self, sequence: u64, out: &mut [u8]) {
        // The parts are stored directly, without another copy.
        let Some(out) = out.first_chunk_mut::<HEADER>() else { return };
        out[..8].copy_from_slice(&numbered(self.shared, sequence).to_be_bytes());
        out[8..16].copy_from_slice(&sequence.to_be_bytes());
        out[16..].copy_from_slice(&self.rest);
    }

    /// True if a datagram, of the size in the headers, has number `sequence` of them before its
    /// payload.
    #[inline]
    pub(super) fn heads(&self, sequence: u64, datagram: &[u8]) -> bool {
        let Some(bytes) = datagram.first_chunk::<HEADER>() else { return false };
        word(bytes, 0) == Some(numbered(self.shared, sequence))
            && word(bytes, 8) == Some(sequence)
            && bytes[16..] == self.rest
    }
}

/// Everything that is not DATA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pub kind: Kind,
    /// When a question left, ns of its sender's host clock.
    pub t1: u64,
    /// Its arrival, by the other's clock.
    pub t2: u64,
    pub t3: u64,
    /// The flow's slot.
    pub slot: u32,
    /// The session's number at the server.
    pub session: u64,
    /// Of this opening of the session.
    pub number: u64,
    pub id: Uuid,
    pub cookie: [u8; 16],
    /// Proof that the client has the session's key.
    pub seal: [u8; SEAL],
    /// The server's clock minus the client's, ns.
    pub offset: i64,
    /// Error bound of that, ns.
    pub bound: u64,
    /// When data begins, by the server's clock; 0 while not known.
    pub start: u64,
    /// Number of sent DATA; all ones while unknown.
    pub total: u64,
    /// Number of missing ones of the other end.
    pub missing: u64,
}

impl Word {
    /// A word without any particulars.
    pub fn new(kind: Kind, id: Uuid) -> Self {
        Word { kind, id, total: UNKNOWN, ..Word::default() }
    }

    /// The bytes that the seal covers.
    pub(crate) fn sealed(&self) -> [u8; SEALED.end - SEALED.start] {
        let mut out = [0; SEALED.end - SEALED.start];
        out.copy_from_slice(&self.encode()[SEALED]);
        out
    }

    /// The 144 bytes.
    pub fn encode(&self) -> [u8; CONTROL] {
        let mut out = [0; CONTROL];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &self.t1.to_be_bytes());
        put(16, &self.t2.to_be_bytes());
        put(24, &self.t3.to_be_bytes());
        put(32, &[self.kind.number(), VERSION, 0, 0]);
        put(36, &self.slot.to_be_bytes());
        put(40, &self.session.to_be_bytes());
        put(48, &self.number.to_be_bytes());
        put(56, self.id.as_bytes());
        put(72, &self.cookie);
        put(88, &self.seal);
        put(104, &self.offset.to_be_bytes());
        put(112, &self.bound.to_be_bytes());
        put(120, &self.start.to_be_bytes());
        put(128, &self.total.to_be_bytes());
        put(136, &self.missing.to_be_bytes());
        let check = Check::of(Uuid::nil()).bytes(&out[8..]);
        out[..8].copy_from_slice(&check.to_be_bytes());
        out
    }

    /// Decodes a datagram; `None` when it is not a word of ours, or damaged.
    pub fn decode(datagram: &[u8]) -> Option<Word> {
        let bytes: &[u8; CONTROL] = datagram.try_into().ok()?;
        let kind = kind(bytes).filter(|&kind| kind != Kind::Data)?;
        if word(bytes, 0)? != Check::of(Uuid::nil()).bytes(&bytes[8..]) || bytes[34..36] != [0, 0] {
            return None;
        }
        Some(Word {
            kind,
            t1: word(bytes, 8)?,
            t2: word(bytes, 16)?,
            t3: word(bytes, 24)?,
            slot: u32::from_be_bytes(*bytes[36..].first_chunk()?),
            session: word(bytes, 40)?,
            number: word(bytes, 48)?,
            id: Uuid::from_bytes(*bytes[56..].first_chunk()?),
            cookie: *bytes[72..].first_chunk()?,
            seal: *bytes[88..].first_chunk()?,
            offset: word(bytes, 104)? as i64,
            bound: word(bytes, 112)?,
            start: word(bytes, 120)?,
            total: word(bytes, 128)?,
            missing: word(bytes, 136)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x1122_3344_5566_4788_99aa_bbcc_ddee_ff00);

    fn header() -> Header {
        Header { sequence: 0x0102_0304_0506_0708, intended: 9, actual: 10, size: 64, slot: 0x0a0b_0c0d }
    }

    fn sample() -> Word {
        Word {
            t1: 1,
            t2: 2,
            t3: 3,
            slot: 4,
            session: 0x1_0000_0002,
            number: 0x1_0000_0003,
            cookie: *b"fedcba9876543210",
            seal: *b"0123456789abcdef",
            offset: -5,
            bound: 6,
            start: 7,
            total: 8,
            missing: 9,
            ..Word::new(Kind::Time, ID)
        }
    }

    /// Damaged, cut short and padded words and headers: `NETCALIPER_INPUTS`, or 50,000.
    /// `bench/deep` has a million. None is taken for good, and none panics.
    #[test]
    fn what_is_damaged_is_refused() {
        let inputs = std::env::var("NETCALIPER_INPUTS").map_or(50_000, |n| n.parse::<usize>().unwrap());
        let mut rng = transport::Rng::new(7);
        let mut data = [0xab; 64];
        header().write(Check::of(ID), &mut data);
        let good: [&[u8]; 2] = [&sample().encode(), &data];
        for round in 0..inputs {
            let good = good[round % 2];
            let mut bytes = good.to_vec();
            match rng.between(0, 9) {
                0 => bytes.truncate(rng.between(0, good.len() as u64 - 1) as usize),
                1 => bytes.extend(std::iter::repeat_n(0, rng.between(1, 200) as usize)),
                _ => {
                    // Of data, only the header is covered by the check.
                    let covered = if round % 2 == 0 { good.len() } else { HEADER } as u64;
                    let at = rng.between(0, covered - 1) as usize;
                    bytes[at] ^= rng.between(1, 255) as u8;
                }
            }
            assert_eq!(Word::decode(&bytes), None, "{bytes:?}");
            assert_eq!(Header::read(Check::of(ID), &bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn data_is_where_the_drawing_says() {
        let mut bytes = [0xab; 64];
        header().write(Check::of(ID), &mut bytes);
        assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((bytes[23], bytes[31]), (9, 10));
        assert_eq!(bytes[32..40], [9, 2, 0, 64, 0x0a, 0x0b, 0x0c, 0x0d]);
        assert_eq!(bytes[40..], [0xab; 24]);
        assert_eq!(Header::read(Check::of(ID), &bytes), Some(header()));
        assert_eq!(kind(&bytes), Some(Kind::Data));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed_and_so_are_strays() {
        let mut bytes = [0xab; 64];
        header().write(Check::of(ID), &mut bytes);
        let alike = HeaderTemplate::of(header(), Check::of(ID));
        assert!(alike.heads(header().sequence, &bytes));
        assert!(!alike.heads(header().sequence + 1, &bytes) && !alike.heads(header().sequence, &bytes[..39]));
        for bit in 0..HEADER * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(Check::of(ID), &bad), None, "bit {bit}");
            assert!(!alike.heads(header().sequence, &bad), "bit {bit}");
        }
        assert_eq!(Header::read(Check::of(Uuid::from_u128(1)), &bytes), None, "another flow's");
        assert_eq!(Header::read(Check::of(ID), &bytes[..63]), None, "cut short");
        assert_eq!(Header::read(Check::of(ID), &bytes[..39]), None);
    }

    #[test]
    fn words_are_where_the_drawing_says() {
        let bytes = sample().encode();
        assert_eq!((bytes[15], bytes[23], bytes[31]), (1, 2, 3));
        assert_eq!(bytes[32..40], [5, 2, 0, 0, 0, 0, 0, 4]);
        assert_eq!(bytes[40..56], [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3]);
        assert_eq!(bytes[56..60], [0x11, 0x22, 0x33, 0x44]);
        assert_eq!(bytes[72..88], *b"fedcba9876543210");
        assert_eq!(bytes[88..104], *b"0123456789abcdef");
        assert_eq!(bytes[104..112], (-5_i64).to_be_bytes());
        assert_eq!((bytes[119], bytes[127], bytes[135], bytes[143]), (6, 7, 8, 9));
        assert_eq!(Word::decode(&bytes), Some(sample()));
    }

    #[test]
    fn every_flipped_bit_of_a_word_is_noticed() {
        let bytes = sample().encode();
        for bit in 0..CONTROL * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Word::decode(&bad), None, "bit {bit}");
        }
        assert_eq!(Word::decode(&bytes[..143]), None);
    }
}
