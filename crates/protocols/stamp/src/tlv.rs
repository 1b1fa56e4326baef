//! Extensions (RFC 8972 §4): type-length-value units behind the base of a packet.
//!
//! ```text
//! +---------------+----------+-----------------+----------------------+
//! | flags (1)     | type (1) | octets of the   | value                |
//! | U M I         |          | value (2)       |                      |
//! +---------------+----------+-----------------+----------------------+
//!   U (0x80) not recognised: set by senders, cleared by a reflector that understood
//!   M (0x40) malformed: set by reflectors, which look at nothing behind it
//!   I (0x20) the HMAC unit did not fit: set on all units by reflectors, which then process none
//! ```
//!
//! | type | what | value |
//! |---|---|---|
//! | 1 | Extra Padding | anything |
//! | 3 | Timestamp Information | source and method when receiving, source and method when sending (1 each) |
//! | 4 | Class of Service | DSCP wanted (6 bits), DSCP received (6), ECN received (2), refused (2), zero (16) |
//! | 5 | Direct Measurement | sent by the sender, received by the reflector, sent by it (4 each) |
//! | 7 | Follow-Up Telemetry | number of the last reply (4), when it left (8), method (1), zero (3) |
//! | 8 | HMAC | 16 octets over the packet's sequence number and all units before; only padding may follow |
//!
//! Type 5 is known from one source only, so a reflector of ours understands it on request only. An
//! ill-formed unit is padding: TWAMP-Light puts any bytes there.

use super::codec::Mode;
use crate::Sizes as _;
use common::Psk;
use model::StampSettings;
use std::ops::Range;

/// Flag of a TLV (RFC 8972 §4).
pub const UNRECOGNISED: u8 = 0x80;
/// Flag of a TLV (RFC 8972 §4).
pub const MALFORMED: u8 = 0x40;
/// Flag of a TLV (RFC 8972 §4).
pub const TAMPERED: u8 = 0x20;

pub mod kind {
    /// Extra Padding.
    pub const PADDING: u8 = 1;
    /// Timestamp Information.
    pub const CLOCK: u8 = 3;
    /// Class of Service.
    pub const CLASS: u8 = 4;
    /// Direct Measurement.
    pub const DIRECT: u8 = 5;
    pub const FOLLOW_UP: u8 = 7;
    /// HMAC.
    pub const PROOF: u8 = 8;
}

/// Octets before a unit's value.
pub const HEAD: usize = 4;
/// Stamps are taken by software on this host (RFC 8972 §4.3, table 7).
pub const BY_SOFTWARE: u8 = 2;
/// The clock is disciplined over NTP, or by something else that the kernel does not name (table 6).
pub const FROM_NTP: u8 = 1;
/// The clock runs by itself.
pub const FREE_RUNNING: u8 = 5;
/// Most units that are read in one packet; the rest is padding.
const MOST: usize = 32;
/// Highest type known to be assigned; the experimental and private ones follow from 240.
const ASSIGNED: u8 = 12;

/// A unit's place in what follows the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub flags: u8,
    pub kind: u8,
    /// Its first octet.
    pub at: usize,
    pub value: Range<usize>,
}

/// The units of a packet, and the place of one whose length goes beyond the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// TLVs that are complete.
    pub whole: Vec<Unit>,
    /// Offset of the first ill-formed unit.
    pub broken: Option<usize>,
}

impl Units {
    /// Finds the units in `bytes`, which follow the base of a packet.
    pub fn find(bytes: &[u8]) -> Self {
        let mut units = Units::default();
        let mut at = 0;
        while units.whole.len() < MOST
            && let Some(&[flags, kind, high, low]) = bytes.get(at..).and_then(|rest| rest.first_chunk())
        {
            // Types 0 and 255 are reserved, and these flags mean nothing: that is padding.
            if matches!(kind, 0 | 255) || flags & 0x1f != 0 {
                break;
            }
            let value = at + HEAD..at + HEAD + usize::from(u16::from_be_bytes([high, low]));
            if value.end > bytes.len() {
                // Random padding looks like this, too, unless the type is a known one.
                if kind <= ASSIGNED && flags & !UNRECOGNISED == 0 {
                    units.broken = Some(at);
                }
                break;
            }
            units.whole.push(Unit { flags, kind, at, value: value.clone() });
            at = value.end;
        }
        units
    }

    fn proof(&self) -> Option<&Unit> {
        self.whole.iter().find(|unit| unit.kind == kind::PROOF)
    }

    /// True if the HMAC TLV proves the units. Required in authenticated mode, unless the only unit
    /// is padding. `None` when there is no proof and none is required.
    fn proven(&self, mode: Mode, key: Option<&Psk>, number: &[u8], bytes: &[u8]) -> Option<bool> {
        let Some(proof) = self.proof() else {
            let only_padding = matches!(&self.whole[..], [unit] if unit.kind == kind::PADDING);
            let needed = mode == Mode::Sealed && !self.whole.is_empty() && !only_padding;
            return needed.then_some(false);
        };
        let key = key?;
        let last = self.whole.iter().filter(|unit| unit.at > proof.at).all(|u| u.kind == kind::PADDING);
        Some(last && key.sealed(&[number, &bytes[..proof.at]], &bytes[proof.value.clone()]))
    }
}

/// A reflector's facts for its replies.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReflectorFacts {
    pub tos: u8,
    pub synced: bool,
    /// Its last reply in the session: number, and when it left; zeros are none.
    pub last: (u32, u64),
    /// Received and sent in the session, if they are to be reported.
    pub counts: Option<(u32, u32)>,
}

/// Demands of a request's units on a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// The DSCP of the reply.
    pub dscp: Option<u8>,
    /// When the reply leaves is to be known.
    pub follow_up: bool,
}

/// Answers the units in `bytes`, a copy of what followed the request's base, in place. The numbers
/// are those in the packets of request and reply.
pub fn answer(
    mode: Mode,
    key: Option<&Psk>,
    (request, reply): (&[u8; 4], &[u8; 4]),
    bytes: &mut [u8],
    knows: &ReflectorFacts,
) -> Demands {
    let units = Units::find(bytes);
    let mut asked = Demands::default();
    let proven = units.proven(mode, key, request, bytes);
    if proven == Some(false) {
        units.whole.iter().for_each(|unit| bytes[unit.at] |= TAMPERED);
        return asked;
    }
    let mut seal = None;
    for unit in &units.whole {
        let value = &mut bytes[unit.value.clone()];
        let flags = match unit.kind {
            kind::PROOF if key.is_some() => {
                seal = Some(unit);
                0
            }
            _ => one(unit.kind, value, knows, &mut asked),
        };
        bytes[unit.at] = flags;
        if flags & MALFORMED != 0 {
            break;
        }
    }
    if let Some(at) = units.broken {
        bytes[at] = UNRECOGNISED | MALFORMED;
    }
    if let (Some(unit), Some(key)) = (seal, key) {
        let proof = key.seal(&[reply, &bytes[..unit.at]]);
        bytes[unit.value.clone()].copy_from_slice(&proof);
    }
    asked
}

/// Answers a unit; its flags in the reply.
fn one(kind: u8, value: &mut [u8], knows: &ReflectorFacts, asked: &mut Demands) -> u8 {
    let source = if knows.synced { FROM_NTP } else { FREE_RUNNING };
    match kind {
        kind::PADDING => 0,
        kind::CLOCK => fixed::<4>(value, |out| *out = [source, BY_SOFTWARE, source, BY_SOFTWARE]),
        kind::CLASS => fixed::<4>(value, |out| {
            let wanted = out[0] >> 2;
            asked.dscp = Some(wanted);
            let (dscp, ecn) = (knows.tos >> 2, knows.tos & 3);
            // The request is granted: refused (RP) is 0.
            out[0] = wanted << 2 | dscp >> 4;
            out[1] = dscp << 4 | ecn << 2;
        }),
        kind::FOLLOW_UP => {
            asked.follow_up = true;
            let (number, left) = knows.last;
            let method = if left == 0 { 0 } else { BY_SOFTWARE };
            let flags = fixed::<16>(value, |out| {
                out[..4].copy_from_slice(&number.to_be_bytes());
                out[4..12].copy_from_slice(&left.to_be_bytes());
                out[12..].copy_from_slice(&[method, 0, 0, 0]);
            });
            if flags & MALFORMED != 0 {
                let n = value.len().min(12);
                value[..n].fill(0);
            }
            flags
        }
        kind::DIRECT if let Some((received, sent)) = knows.counts => fixed::<12>(value, |out| {
            out[4..8].copy_from_slice(&received.to_be_bytes());
            out[8..].copy_from_slice(&sent.to_be_bytes());
        }),
        _ => UNRECOGNISED,
    }
}

/// Writes a value of `N` octets and returns the flags, which mark a value of another length.
fn fixed<const N: usize>(value: &mut [u8], write: impl FnOnce(&mut [u8; N])) -> u8 {
    match <&mut [u8; N]>::try_from(value) {
        Ok(value) => {
            write(value);
            0
        }
        Err(_) => MALFORMED,
    }
}

/// Writes the units that a request asks with into all of `out`, the rest as padding; `number` is
/// the request's as it stands in the packet, `sent` how many were sent before it.
pub fn ask(settings: &StampSettings, key: Option<&Psk>, number: &[u8; 4], sent: u32, out: &mut [u8]) {
    out.fill(0);
    let mut at = 0;
    let mut unit = |out: &mut [u8], kind: u8, value: &[u8]| {
        let Some(room) = out.get_mut(at..at + HEAD + value.len()) else { return };
        room[..HEAD].copy_from_slice(&[UNRECOGNISED, kind, 0, value.len() as u8]);
        room[HEAD..].copy_from_slice(value);
        at += HEAD + value.len();
    };
    if let Some(dscp) = settings.cos {
        unit(out, kind::CLASS, &[dscp << 2, 0, 0, 0]);
    }
    if settings.clock_info {
        unit(out, kind::CLOCK, &[0; 4]);
    }
    if settings.direct {
        let mut value = [0; 12];
        value[..4].copy_from_slice(&sent.to_be_bytes());
        unit(out, kind::DIRECT, &value);
    }
    if settings.follow_up {
        unit(out, kind::FOLLOW_UP, &[0; 16]);
    }
    if let Some(key) = key.filter(|_| settings.authenticated && settings.extensions() > 0) {
        let before = settings.extensions() as usize - HEAD - 16;
        let proof = key.seal(&[number, out.get(..before).unwrap_or_default()]);
        unit(out, kind::PROOF, &proof);
    }
    if let Some(rest) = out.get_mut(at..).filter(|rest| rest.len() >= HEAD) {
        let length = (rest.len() - HEAD).min(usize::from(u16::MAX)) as u16;
        rest[..2].copy_from_slice(&[UNRECOGNISED, kind::PADDING]);
        rest[2..HEAD].copy_from_slice(&length.to_be_bytes());
    }
}

/// Contents of a reply's units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Traffic class with which the request was received.
    pub tos: Option<u8>,
    /// Source and method of the remote end's clock, receiving and sending.
    pub clock: Option<[u8; 4]>,
    /// Counts of the remote end's receptions and transmissions.
    pub counts: Option<(u32, u32)>,
    /// The number of an earlier reply, and when it left.
    pub left: Option<(u32, u64)>,
    /// Types that the remote end does not know.
    pub unrecognised: Vec<u8>,
    /// The reflector set the flag M on a TLV.
    pub malformed: bool,
    /// The remote end could not verify our packet, or we cannot verify its packet: its units are
    /// ignored.
    pub tampered: bool,
}

/// Reads the units in `bytes`, which followed the base of a reply with this number (as it stands in
/// the packet).
pub fn decode(mode: Mode, key: Option<&Psk>, number: &[u8; 4], bytes: &[u8]) -> Contents {
    let units = Units::find(bytes);
    let mut heard = Contents::default();
    let proven = units.proven(mode, key, number, bytes);
    if proven == Some(false) || units.whole.iter().any(|unit| unit.flags & TAMPERED != 0) {
        heard.tampered = true;
        return heard;
    }
    heard.malformed = units.broken.is_some();
    for unit in &units.whole {
        if unit.flags & MALFORMED != 0 {
            heard.malformed = true;
            break;
        }
        if unit.flags & UNRECOGNISED != 0 {
            heard.unrecognised.push(unit.kind);
            continue;
        }
        let value = &bytes[unit.value.clone()];
        let word = |at: usize| value.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        match unit.kind {
            kind::CLASS => {
                heard.tos = value.first_chunk().map(|&[a, b]| (a & 3) << 6 | (b >> 4) << 2 | b >> 2 & 3);
            }
            kind::CLOCK => heard.clock = value.first_chunk().copied(),
            kind::DIRECT => heard.counts = word(4).zip(word(8)),
            kind::FOLLOW_UP => {
                let left = word(4).zip(word(8)).map(|(high, low)| u64::from(high) << 32 | u64::from(low));
                heard.left = word(0).zip(left.filter(|left| *left != 0));
            }
            _ => {}
        }
    }
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: (&[u8; 4], &[u8; 4]) = (&[0, 0, 0, 5], &[0, 0, 0, 9]);

    fn key() -> Psk {
        Psk::new(b"twelve bytes").unwrap()
    }

    fn all() -> StampSettings {
        StampSettings {
            cos: Some(46),
            clock_info: true,
            follow_up: true,
            direct: true,
            ..StampSettings::default()
        }
    }

    #[test]
    fn the_class_of_service_by_hand() {
        // DSCP 46 wanted, 20 received, ECN 1: 101110 010100 01 00, the example of the specification
        // without its later part.
        let mut bytes = [0x80, 4, 0, 4, 46 << 2, 0, 0, 0];
        let knows = ReflectorFacts { tos: 20 << 2 | 1, ..ReflectorFacts::default() };
        let asked = answer(Mode::Open, None, NUMBERS, &mut bytes, &knows);
        assert_eq!((asked.dscp, bytes), (Some(46), [0, 4, 0, 4, 0xb9, 0x44, 0, 0]));
        assert_eq!(decode(Mode::Open, None, NUMBERS.1, &bytes).tos, Some(20 << 2 | 1));
    }

    #[test]
    fn what_is_asked_is_answered_in_both_modes() {
        for (mode, key) in [(Mode::Open, None), (Mode::Sealed, Some(&key()))] {
            for extra in [0, 4, 100] {
                let settings = StampSettings { authenticated: mode == Mode::Sealed, ..all() };
                let mut bytes = vec![0xff; settings.extensions() as usize + extra];
                ask(&settings, key, NUMBERS.0, 7, &mut bytes);
                let knows =
                    ReflectorFacts { tos: 0xb8, synced: true, last: (8, 1 << 40), counts: Some((6, 5)) };
                let asked = answer(mode, key, NUMBERS, &mut bytes, &knows);
                assert_eq!(asked, Demands { dscp: Some(46), follow_up: true });
                let heard = decode(mode, key, NUMBERS.1, &bytes);
                let want = Contents {
                    tos: Some(0xb8),
                    clock: Some([1, 2, 1, 2]),
                    counts: Some((6, 5)),
                    left: Some((8, 1 << 40)),
                    ..Contents::default()
                };
                assert_eq!(heard, want);
                assert_eq!(
                    Units::find(&bytes).whole.len(),
                    4 + usize::from(key.is_some()) + usize::from(extra > 0)
                );
            }
        }
    }

    #[test]
    fn one_wrong_bit_and_nothing_is_believed_either_way() {
        let settings = StampSettings { authenticated: true, ..all() };
        let mut asked = vec![0; settings.extensions() as usize + 20];
        let key = key();
        ask(&settings, Some(&key), NUMBERS.0, 0, &mut asked);
        for at in 0..settings.extensions() as usize {
            let mut bytes = asked.clone();
            bytes[at] ^= 0x10;
            let mut told = bytes.clone();
            let wants = answer(Mode::Sealed, Some(&key), NUMBERS, &mut told, &ReflectorFacts::default());
            assert_eq!(wants, Demands::default(), "{at}");
            for (i, (was, is)) in bytes.iter().zip(&told).enumerate() {
                let flagged = *is == was | TAMPERED || *is == was | MALFORMED;
                assert!(was == is || flagged, "{at}: octet {i} was changed");
            }
        }
        answer(Mode::Sealed, Some(&key), NUMBERS, &mut asked, &ReflectorFacts::default());
        assert!(!decode(Mode::Sealed, Some(&key), NUMBERS.1, &asked).tampered);
        assert!(decode(Mode::Sealed, Some(&key), NUMBERS.0, &asked).tampered, "of another packet");
        asked[5] ^= 1;
        assert!(decode(Mode::Sealed, Some(&key), NUMBERS.1, &asked).tampered);
    }

    #[test]
    fn units_without_proof_are_tampered_with_unless_they_are_one_padding() {
        let key = key();
        let mut padding = [0x80, 1, 0, 2, 7, 7];
        answer(Mode::Sealed, Some(&key), NUMBERS, &mut padding, &ReflectorFacts::default());
        assert_eq!(padding, [0, 1, 0, 2, 7, 7]);
        let mut clock = [0x80, 3, 0, 4, 0, 0, 0, 0];
        answer(Mode::Sealed, Some(&key), NUMBERS, &mut clock, &ReflectorFacts::default());
        assert_eq!(clock, [0xa0, 3, 0, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn odd_units_are_flagged_and_padding_is_left_alone() {
        let plain = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            answer(Mode::Open, None, NUMBERS, &mut bytes, &ReflectorFacts::default());
            bytes
        };
        // Unknown, with either flag a sender may set; known, of a wrong length, and what follows is
        // not looked at.
        assert_eq!(plain(&[0, 200, 0, 1, 9]), [0x80, 200, 0, 1, 9]);
        assert_eq!(plain(&[0x80, 240, 0, 0]), [0x80, 240, 0, 0]);
        assert_eq!(plain(&[0x80, 3, 0, 1, 9, 0x80, 1, 0, 0]), [0x40, 3, 0, 1, 9, 0x80, 1, 0, 0]);
        // Longer than the packet; a known type, and one that is likely to be anything.
        assert_eq!(plain(&[0x80, 1, 0, 9, 1]), [0xc0, 1, 0, 9, 1]);
        assert_eq!(plain(&[0x80, 77, 0, 9, 1]), [0x80, 77, 0, 9, 1]);
        // TWAMP-Light's padding: zeros, or anything; too short for a unit.
        for padding in [&[0; 30][..], &[0xff; 30], &[0x41, 0x42, 0x43, 0x44, 0x45], &[1, 1, 0], &[0x80]] {
            assert_eq!(plain(padding), padding);
        }
        // Direct Measurement is not answered unless that is asked for.
        assert_eq!(plain(&[0x80, 5, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])[0], 0x80);
        // An HMAC TLV without a key is treated as an unknown unit.
        assert_eq!(plain(&[0x80, 8, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])[0], 0x80);
    }
}
