//! Marks between the payload of a native data connection.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  kind         |  flags        |  0                            |
//! +---------------+---------------+-------------------------------+
//! |  check: FNV-1a (32 bit) of the other 12 bytes and the conn. id |
//! +---------------------------------------------------------------+
//! |  value (8)                                                    |
//! |                                                               |
//! +---------------------------------------------------------------+
//! ```
//!
//! Numbers are big-endian. Each direction is `SPAN payload SPAN payload … END`, with the other
//! marks between spans:
//!
//! | kind | value | from | meaning |
//! |---|---|---|---|
//! | `a1` SPAN | payload bytes that follow | sender | the next span of payload |
//! | `a2` END | payload bytes of this direction | sender | no more payload; flag 1: cut short because the run ended |
//! | `a3` VERDICT | payload bytes received | receiver | flag 0: intact; flag 2: damaged, the value is the first bad offset |
//! | `a4` STOP | 0 | client | the run ends: send END after the current span |
//! | `a5` DONE | 0 | server | both directions are settled |
//! | `a7` PROBE | its number | client | answer as soon as this has been read (`inside.rs`) |
//! | `a8` ANSWER | its number | server | it has been read |
//! | `a6` REFUSED | reason | server | this connection is not wanted: 1 unknown session, 2 too many connections, 3 the server's last connection was another, 4 an opening that has been seen before |
//!
//! A span is as long as the sender expects to need about 50 ms for, so that a run can end in band
//! at any rate and the frames cost nothing at high ones (64 MiB). The connection's identifier is
//! part of the check: frames of one connection that turn up in another are noticed.

use super::preamble::fnv1a;
use transport::Violation;
use uuid::Uuid;

pub const MARK: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Payload follows.
    Span,
    /// No more payload in this direction.
    End,
    /// Bytes that the receiver got.
    Verdict,
    /// The run ends.
    Stop,
    /// Both directions are settled.
    Done,
    /// The server refuses the connection.
    Refused,
    /// Round-trip probe inside the data connection.
    Probe,
    /// Answer to a probe.
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub kind: Kind,
    /// END: cut short. VERDICT: damaged.
    pub flagged: bool,
    /// Bytes, offset or reason.
    pub value: u64,
}

impl Mark {
    /// A mark without flag.
    pub fn new(kind: Kind, value: u64) -> Self {
        Mark { kind, flagged: false, value }
    }

    /// The 16 bytes, for the connection `id`.
    pub fn encode(&self, id: Uuid) -> [u8; MARK] {
        let mut out = [0; MARK];
        (out[0], out[1]) = match self.kind {
            Kind::Span => (0xa1, 0),
            Kind::End => (0xa2, u8::from(self.flagged)),
            Kind::Verdict => (0xa3, 2 * u8::from(self.flagged)),
            Kind::Stop => (0xa4, 0),
            Kind::Done => (0xa5, 0),
            Kind::Refused => (0xa6, 0),
            Kind::Probe => (0xa7, 0),
            Kind::Answer => (0xa8, 0),
        };
        out[8..].copy_from_slice(&self.value.to_be_bytes());
        let check = check(&out, id);
        out[4..8].copy_from_slice(&check.to_be_bytes());
        out
    }

    /// Decodes 16 bytes of the connection `id`; `None` when they are not a mark.
    pub fn decode(bytes: &[u8; MARK], id: Uuid) -> Option<Mark> {
        if u32::from_be_bytes(*bytes[4..].first_chunk()?) != check(bytes, id) {
            return None;
        }
        let (kind, flagged) = match (bytes[0], bytes[1]) {
            (0xa1, 0) => (Kind::Span, false),
            (0xa2, flag @ (0 | 1)) => (Kind::End, flag == 1),
            (0xa3, flag @ (0 | 2)) => (Kind::Verdict, flag == 2),
            (0xa4, 0) => (Kind::Stop, false),
            (0xa5, 0) => (Kind::Done, false),
            (0xa6, 0) => (Kind::Refused, false),
            (0xa7, 0) => (Kind::Probe, false),
            (0xa8, 0) => (Kind::Answer, false),
            _ => return None,
        };
        Some(Mark { kind, flagged, value: u64::from_be_bytes(*bytes[8..].first_chunk()?) })
    }
}

/// Violation of a client's connection that was refused for this reason.
pub(crate) fn refusal(reason: u64) -> Violation {
    Violation::Malformed(match reason {
        2 => "the server refused it: too many connections",
        3 => "the server refused it: it ends after a number of connections that is reached",
        4 => "the server has seen this opening before",
        _ => "the server does not know the session (any more)",
    })
}

fn check(mark: &[u8; MARK], id: Uuid) -> u32 {
    let mut covered = [0; 28];
    covered[..4].copy_from_slice(&mark[..4]);
    covered[4..12].copy_from_slice(&mark[8..]);
    covered[12..].copy_from_slice(id.as_bytes());
    fnv1a(&covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(77);

    #[test]
    fn every_mark_survives_and_lies_as_drawn() {
        let plain = [Kind::Span, Kind::Stop, Kind::Done, Kind::Refused, Kind::Probe, Kind::Answer];
        for kind in plain.into_iter().chain([Kind::End, Kind::Verdict]) {
            for flagged in [false, true] {
                let mark = Mark {
                    kind,
                    flagged: flagged && matches!(kind, Kind::End | Kind::Verdict),
                    value: 0x0102_0304_0506_0708,
                };
                let bytes = mark.encode(ID);
                assert_eq!(bytes[8..], [1, 2, 3, 4, 5, 6, 7, 8]);
                assert_eq!(bytes[2..4], [0, 0]);
                assert_eq!(Mark::decode(&bytes, ID), Some(mark));
                assert_eq!(Mark::decode(&bytes, Uuid::from_u128(78)), None, "a mark of another connection");
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = Mark::new(Kind::Span, 65_536).encode(ID);
        for bit in 0..MARK * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&bad, ID), None, "bit {bit}");
        }
    }
}
