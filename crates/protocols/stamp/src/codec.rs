//! The packets: RFC 8762 §4.2 and §4.3, with the session identifier of RFC 8972 §3. All numbers are
//! big-endian.
//!
//! ```text
//!                        unauthenticated                       authenticated
//!  what                  request        reply                  request        reply
//! +---------------------+--------------+----------------------+--------------+----------------------+
//! | sequence number (4) | 0            | 0                    | 0            | 0                    |
//! | time of sending (8) | 4            | 4                    | 16           | 16                   |
//! | error estimate (2)  | 12           | 12                   | 24           | 24                   |
//! | session (SSID, 2)   | 14           | 14                   | 26           | 26                   |
//! | time received (8)   |              | 16                   |              | 32                   |
//! | request's number (4)|              | 24                   |              | 48                   |
//! | its time (8)        |              | 28                   |              | 64                   |
//! | its error (2)       |              | 36                   |              | 72                   |
//! | its TTL (1)         |              | 40                   |              | 80                   |
//! | HMAC (16)           |              |                      | 96           | 96                   |
//! | extensions (TLVs)   | from 44      | from 44              | from 112     | from 112             |
//! +---------------------+--------------+----------------------+--------------+----------------------+
//!   all else is zero when sent, and ignored when received
//! ```
//!
//! A TWAMP-Light packet (RFC 5357 appendix I) is the beginning of the unauthenticated one: a
//! request has 14 octets and padding, a reply 41 and padding. So a request may be cut anywhere
//! behind its first 14 octets, and a reply anywhere behind its first 36, which include the
//! request's number and time.

use common::Psk;

/// Offsets of a packet's parts.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    time: usize,
    error: usize,
    ssid: usize,
    received: usize,
    number: usize,
    sent: usize,
    their_error: usize,
    ttl: usize,
}

/// Unauthenticated packets, or packets authenticated by a shared key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Unauthenticated mode (RFC 8762 §4.2.1).
    #[default]
    Open,
    /// Authenticated mode (RFC 8762 §4.2.2).
    Sealed,
}

const OPEN: Places =
    Places { time: 4, error: 12, ssid: 14, received: 16, number: 24, sent: 28, their_error: 36, ttl: 40 };
const SEALED: Places =
    Places { time: 16, error: 24, ssid: 26, received: 32, number: 48, sent: 64, their_error: 72, ttl: 80 };

/// Octets of the shortest request that can be answered at all.
pub const SHORTEST_REQUEST: usize = 14;
/// Octets of the shortest reply that says which request it answers.
pub const SHORTEST_REPLY: usize = 36;
/// Offset of the proof in authenticated packets.
pub const PROOF: usize = 96;
/// Its octets.
pub const PROOF_LEN: usize = 16;

impl Mode {
    fn places(self) -> &'static Places {
        match self {
            Mode::Open => &OPEN,
            Mode::Sealed => &SEALED,
        }
    }

    /// Octets of a packet without extensions.
    pub const fn base(self) -> usize {
        match self {
            Mode::Open => 44,
            Mode::Sealed => 112,
        }
    }

    /// Octets of the shortest packet; `open` in open mode.
    fn shortest(self, open: usize) -> usize {
        if self == Mode::Open { open } else { self.base() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub number: u32,
    /// When it was sent, in the format that `error` names.
    pub sent: u64,
    /// Its error bound ([`super::time::ErrorEstimate`]).
    pub error: u16,
    /// The session; 0 is none.
    pub ssid: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The beginning, as of requests: its own number, or the request's if it counts nothing; its
    /// time and error estimate; the session, as received.
    pub head: Request,
    /// When the request was received, in the same format.
    pub received: u64,
    /// The request's number, time and error estimate, as received.
    pub request: Request,
    /// Time to live or hop limit of the request when it was received; 0 when the reflector does not
    /// know, `None` when the reply ends before.
    pub ttl: Option<u8>,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Writes as many of `part`'s octets as there is room for.
fn put(out: &mut [u8], at: usize, part: &[u8]) {
    let Some(room) = out.get_mut(at..) else { return };
    let n = room.len().min(part.len());
    room[..n].copy_from_slice(&part[..n]);
}

/// True if a packet proves that its sender knows the key.
pub(super) fn is_sealed(packet: &[u8], key: &Psk) -> bool {
    let parts = packet.get(..PROOF).zip(packet.get(PROOF..PROOF + PROOF_LEN));
    parts.is_some_and(|(all, proof)| key.sealed(&[all], proof))
}

/// Proves that we know the key, if there is one.
pub(super) fn seal(packet: &mut [u8], key: Option<&Psk>) {
    if let Some(key) = key
        && let Some((all, rest)) = packet.split_at_mut_checked(PROOF)
        && let Some(place) = rest.first_chunk_mut::<PROOF_LEN>()
    {
        *place = key.seal(&[all]);
    }
}

impl Request {
    /// Reads a request, as much of it as there is.
    pub fn decode(mode: Mode, bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= mode.shortest(SHORTEST_REQUEST)).then(|| Request::head(mode, bytes))?
    }

    /// The common beginning of requests and replies.
    fn head(mode: Mode, bytes: &[u8]) -> Option<Self> {
        let at = mode.places();
        Some(Request {
            number: u32::from_be_bytes(word(bytes, 0)?),
            sent: u64::from_be_bytes(word(bytes, at.time)?),
            error: u16::from_be_bytes(word(bytes, at.error)?),
            ssid: word(bytes, at.ssid).map_or(0, u16::from_be_bytes),
        })
    }

    /// Writes the base of a request into the start of `out`, cut where that ends. The proof is left
    /// zero.
    pub fn encode(&self, mode: Mode, out: &mut [u8]) {
        let at = mode.places();
        let n = out.len().min(mode.base());
        out[..n].fill(0);
        put(out, 0, &self.number.to_be_bytes());
        put(out, at.time, &self.sent.to_be_bytes());
        put(out, at.error, &self.error.to_be_bytes());
        put(out, at.ssid, &self.ssid.to_be_bytes());
    }
}

impl Reply {
    /// Reads a reply, as much of it as there is.
    pub fn decode(mode: Mode, bytes: &[u8]) -> Option<Self> {
        let at = mode.places();
        let head = Request::head(mode, bytes).filter(|_| bytes.len() >= mode.shortest(SHORTEST_REPLY))?;
        Some(Reply {
            head,
            received: u64::from_be_bytes(word(bytes, at.received)?),
            request: Request {
                number: u32::from_be_bytes(word(bytes, at.number)?),
                sent: u64::from_be_bytes(word(bytes, at.sent)?),
                error: word(bytes, at.their_error).map_or(0, u16::from_be_bytes),
                ssid: 0,
            },
            ttl: bytes.get(at.ttl).copied(),
        })
    }

    /// Writes the base of a reply into the start of `out`, cut where that ends. The proof is left
    /// zero.
    pub fn encode(&self, mode: Mode, out: &mut [u8]) {
        let at = mode.places();
        self.head.encode(mode, out);
        put(out, at.received, &self.received.to_be_bytes());
        put(out, at.number, &self.request.number.to_be_bytes());
        put(out, at.sent, &self.request.sent.to_be_bytes());
        put(out, at.their_error, &self.request.error.to_be_bytes());
        put(out, at.ttl, &[self.ttl.unwrap_or(0)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Request =
        Request { number: 0x0102_0304, sent: 0x1112_1314_1516_1718, error: 0x8001, ssid: 0x5152 };

    fn sample_reply() -> Reply {
        Reply {
            head: Request { number: 0x2122_2324, sent: 0x3132_3334_3536_3738, error: 0x4142, ssid: 0x5152 },
            received: 0x6162_6364_6566_6768,
            request: Request { ssid: 0, ..ASKED },
            ttl: Some(0xfe),
        }
    }

    #[test]
    fn parts_are_where_the_drawing_says() {
        let mut open = [0xaa; 50];
        ASKED.encode(Mode::Open, &mut open);
        assert_eq!(open[..4], [1, 2, 3, 4]);
        assert_eq!(open[4..12], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(open[12..16], [0x80, 0x01, 0x51, 0x52]);
        assert!(open[16..44].iter().all(|b| *b == 0) && open[44..] == [0xaa; 6]);
        let mut sealed = [0xaa; 112];
        sample_reply().encode(Mode::Sealed, &mut sealed);
        for (at, first) in
            [(0, 0x21), (16, 0x31), (24, 0x41), (26, 0x51), (32, 0x61), (48, 1), (64, 0x11), (72, 0x80)]
        {
            assert_eq!(sealed[at], first, "{at}");
        }
        assert_eq!(sealed[80], 0xfe);
        for zero in [4..16, 28..32, 40..48, 52..64, 74..80, 81..112] {
            assert!(sealed[zero.clone()].iter().all(|b| *b == 0), "{zero:?}");
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for mode in [Mode::Open, Mode::Sealed] {
            let mut bytes = vec![0; mode.base() + 7];
            ASKED.encode(mode, &mut bytes);
            assert_eq!(Request::decode(mode, &bytes), Some(ASKED));
            sample_reply().encode(mode, &mut bytes);
            assert_eq!(Reply::decode(mode, &bytes), Some(sample_reply()));
        }
    }

    #[test]
    fn packets_may_be_cut_where_twamp_light_cuts_them() {
        let mut request = [0; 44];
        ASKED.encode(Mode::Open, &mut request);
        assert_eq!(Request::decode(Mode::Open, &request[..14]), Some(Request { ssid: 0, ..ASKED }));
        assert_eq!(Request::decode(Mode::Open, &request[..13]), None);
        let mut reply = [0; 44];
        sample_reply().encode(Mode::Open, &mut reply);
        assert_eq!(Reply::decode(Mode::Open, &reply[..41]), Some(sample_reply()));
        assert_eq!(Reply::decode(Mode::Open, &reply[..38]), Some(Reply { ttl: None, ..sample_reply() }));
        let cut = Reply::decode(Mode::Open, &reply[..36]).map(|r| r.request);
        assert_eq!(cut, Some(Request { ssid: 0, error: 0, ..ASKED }));
        assert_eq!(Reply::decode(Mode::Open, &reply[..35]), None);
        assert_eq!(Reply::decode(Mode::Sealed, &[0; 111]), None);
        assert_eq!(Request::decode(Mode::Sealed, &[0; 111]), None);
        let mut short = [0xaa; 14];
        ASKED.encode(Mode::Open, &mut short);
        assert_eq!(short, request[..14]);
    }
}
