//! IP packets as the forwarder sees and changes them.
//!
//! ```text
//! IPv4 (RFC 791)   version 4 | header length 4 | DSCP 6 | ECN 2 | total length 16 | id 16 | flags 3 | fragment offset 13 |
//!                  TTL 8 | protocol 8 | header checksum 16 | source 32 | destination 32 | options
//! IPv6 (RFC 8200)  version 4 | DSCP 6 | ECN 2 | flow label 20 | payload length 16 | next header 8 | hop limit 8 |
//!                  source 128 | destination 128 | extension headers
//! UDP (RFC 768)    source port 16 | destination port 16 | length 16 | checksum 16 | payload
//! TCP (RFC 9293)   source port 16 | destination port 16 | … | data offset 4 (at byte 12) | … | checksum 16 (at byte 16)
//! ICMP (RFC 792, 4443)  type 8 | code 8 | checksum 16 | rest 32 | payload
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

pub(crate) const ICMP: u8 = 1;
const IGMP: u8 = 2;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP6: u8 = 58;

/// Congestion experienced, of the two ECN bits (RFC 3168).
pub(crate) const CE: u8 = 3;

/// Extension headers looked through to find the transport; more are not believed.
const MOST_EXTENSIONS: usize = 8;

/// Places of a packet's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anatomy {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Both ports, where the packet has them.
    pub(crate) ports: Option<(u16, u16)>,
    /// The byte with DSCP and ECN.
    pub(crate) tos: u8,
    /// The transport's header and all behind it.
    pub(crate) transport: Range<usize>,
    /// The application's part; empty in fragments, whose checksum lies elsewhere.
    pub(crate) payload: Range<usize>,
    /// True if routers must not fragment it.
    pub(crate) dont_fragment: bool,
    /// True for a whole packet and for the first fragment of one.
    pub(crate) is_first: bool,
    /// TTL, or hop limit.
    pub(crate) ttl: u8,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Takes a packet apart; `None` when it is none, or is shorter than it says.
pub(crate) fn dissect(bytes: &[u8]) -> Option<Anatomy> {
    match bytes.first()? >> 4 {
        4 => dissect4(bytes),
        6 => dissect6(bytes),
        _ => None,
    }
}

fn dissect4(bytes: &[u8]) -> Option<Anatomy> {
    let header = usize::from(bytes[0] & 15) * 4;
    let length = usize::from(u16_at(bytes, 2)?);
    let fragment = u16_at(bytes, 6)?;
    let source: [u8; 4] = *bytes.get(12..)?.first_chunk()?;
    let destination: [u8; 4] = *bytes.get(16..)?.first_chunk()?;
    if header < 20 || length < header || bytes.len() < length {
        return None;
    }
    let mut anatomy = Anatomy {
        source: Ipv4Addr::from(source).into(),
        destination: Ipv4Addr::from(destination).into(),
        protocol: *bytes.get(9)?,
        ports: None,
        tos: bytes[1],
        transport: header..length,
        payload: 0..0,
        dont_fragment: fragment & 0x4000 != 0,
        is_first: fragment & 0x1fff == 0,
        ttl: bytes[8],
    };
    anatomy.look_into(bytes, fragment & 0x3fff != 0);
    Some(anatomy)
}

fn dissect6(bytes: &[u8]) -> Option<Anatomy> {
    let length = 40 + usize::from(u16_at(bytes, 4)?);
    let source: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
    let destination: [u8; 16] = *bytes.get(24..)?.first_chunk()?;
    if bytes.len() < length {
        return None;
    }
    let (mut at, mut protocol, mut first, mut fragment) = (40, bytes[6], true, false);
    for _ in 0..MOST_EXTENSIONS {
        let size = match protocol {
            // Hop-by-hop, routing, destination options: length in units of 8 bytes, the first not
            // counted.
            0 | 43 | 60 => 8 + usize::from(*bytes.get(at + 1)?) * 8,
            44 => {
                let offset = u16_at(bytes, at + 2)?;
                (first, fragment) = (offset & 0xfff8 == 0, true);
                8
            }
            _ => break,
        };
        protocol = *bytes.get(at)?;
        at += size;
        if !first {
            break;
        }
    }
    let mut anatomy = Anatomy {
        source: Ipv6Addr::from(source).into(),
        destination: Ipv6Addr::from(destination).into(),
        protocol,
        ports: None,
        tos: bytes[0] << 4 | bytes[1] >> 4,
        transport: at.min(length)..length,
        payload: 0..0,
        dont_fragment: true,
        is_first: first,
        ttl: bytes[7],
    };
    anatomy.look_into(bytes, fragment);
    Some(anatomy)
}

impl Anatomy {
    /// Finds ports and payload. `fragment`: the packet does not contain all of its payload.
    fn look_into(&mut self, bytes: &[u8], fragment: bool) {
        let body = &bytes[self.transport.clone()];
        if !self.is_first {
            return;
        }
        let header = match self.protocol {
            UDP => 8,
            TCP => body.get(12).map_or(usize::MAX, |b| usize::from(b >> 4) * 4).max(20),
            ICMP | ICMP6 => 8,
            _ => return,
        };
        if body.len() < header {
            return;
        }
        if matches!(self.protocol, TCP | UDP) {
            self.ports = u16_at(body, 0).zip(u16_at(body, 2));
        }
        if !fragment {
            self.payload = self.transport.start + header..self.transport.end;
        }
    }

    /// True for packets that kernels send on their own account to learn about the network (IGMP,
    /// neighbour and multicast listener discovery): they say nothing about the path.
    pub(crate) fn is_housekeeping(&self, bytes: &[u8]) -> bool {
        let kind = bytes.get(self.transport.start).copied().unwrap_or(0);
        match self.protocol {
            IGMP => true,
            // RFC 2710, 4861, 3810.
            ICMP6 => matches!(kind, 130..=137 | 143),
            _ => false,
        }
    }

    /// Offset of the transport's checksum, if it has one that is in use.
    fn checksum_at(&self, bytes: &[u8]) -> Option<usize> {
        let at = self.transport.start
            + match self.protocol {
                TCP => 16,
                UDP => 6,
                ICMP | ICMP6 => 2,
                _ => return None,
            };
        // A sender of UDP over IPv4 may do without (RFC 768).
        let unused = self.protocol == UDP && self.source.is_ipv4() && u16_at(bytes, at) == Some(0);
        (!unused).then_some(at)
    }

    /// Makes the transport's checksum fit the payload again.
    pub(crate) fn repair(&self, bytes: &mut [u8]) {
        let Some(at) = self.checksum_at(bytes) else { return };
        let Some(field) = bytes.get_mut(at..at + 2) else { return };
        field.fill(0);
        let mut sum = Sum::default();
        if self.protocol != ICMP {
            sum.pseudo_header(self, self.transport.len());
        }
        sum.add(&bytes[self.transport.clone()]);
        let value = match sum.value() {
            // 0 would mean "none".
            0 if self.protocol == UDP => 0xffff,
            value => value,
        };
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Flips these bits of the payload (numbered from its first). With `repaired` checksums fit
    /// afterwards.
    pub(crate) fn flip(&self, bytes: &mut [u8], bits: &[u32], repaired: bool) {
        for &bit in bits {
            let at = self.payload.start + bit as usize / 8;
            if self.payload.contains(&at) {
                bytes[at] ^= 0x80 >> (bit % 8);
            }
        }
        if repaired {
            self.repair(bytes);
        }
    }

    /// Gives the packet another byte of DSCP and ECN.
    pub(crate) fn set_tos(&self, bytes: &mut [u8], tos: u8) {
        if self.source.is_ipv4() {
            bytes[1] = tos;
            repair_header(bytes);
        } else {
            bytes[0] = bytes[0] & 0xf0 | tos >> 4;
            bytes[1] = bytes[1] & 0x0f | tos << 4;
        }
    }

    /// Gives the packet another TTL or hop limit.
    pub(crate) fn set_ttl(&self, bytes: &mut [u8], ttl: u8) {
        if self.source.is_ipv4() {
            bytes[8] = ttl;
            repair_header(bytes);
        } else {
            bytes[7] = ttl;
        }
    }
}

/// Makes the checksum of the IPv4 header at the start of `bytes` fit.
pub(crate) fn repair_header(bytes: &mut [u8]) {
    let header = usize::from(bytes[0] & 15) * 4;
    bytes[10..12].fill(0);
    let mut sum = Sum::default();
    sum.add(&bytes[..header]);
    bytes[10..12].copy_from_slice(&sum.value().to_be_bytes());
}

/// Fills in the checksums of a packet of our own.
pub(crate) fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(anatomy) = dissect(&bytes) {
        anatomy.repair(&mut bytes);
        anatomy.set_tos(&mut bytes, anatomy.tos);
    }
    bytes
}

/// The Internet checksum (RFC 1071), summed 32 bits at a time: one's complement sums are the same
/// in any width.
#[derive(Default)]
pub(crate) struct Sum(u64);

impl Sum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(4);
        for word in &mut words {
            self.0 += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        }
        let mut last = [0; 4];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.0 += u64::from(u32::from_be_bytes(last));
    }

    /// RFC 768, 9293 §3.1, 8200 §8.1.
    fn pseudo_header(&mut self, anatomy: &Anatomy, length: usize) {
        for address in [anatomy.source, anatomy.destination] {
            match address {
                IpAddr::V4(v4) => self.add(&v4.octets()),
                IpAddr::V6(v6) => self.add(&v6.octets()),
            }
        }
        self.0 += length as u64 + u64::from(anatomy.protocol);
    }

    pub(crate) fn value(&self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use transport::Rng;

    /// RFC 1071, section 4.1, "C" version, word by word.
    pub(crate) fn slow_checksum(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        let mut at = 0;
        while at < bytes.len() {
            let low = bytes.get(at + 1).copied().unwrap_or(0);
            sum += u32::from(bytes[at]) << 8 | u32::from(low);
            if sum > 0xffff {
                sum = (sum & 0xffff) + 1;
            }
            at += 2;
        }
        !(sum as u16)
    }

    /// Whether a receiver would take the transport checksum: computed over pseudo header and body
    /// it comes to 0.
    pub(crate) fn accepted(bytes: &[u8]) -> bool {
        let a = dissect(bytes).unwrap();
        let mut all = Vec::new();
        if a.protocol != ICMP {
            for address in [a.source, a.destination] {
                match address {
                    IpAddr::V4(v4) => all.extend(v4.octets()),
                    IpAddr::V6(v6) => all.extend(v6.octets()),
                }
            }
            all.extend((a.transport.len() as u32).to_be_bytes());
            all.extend([0, 0, 0, a.protocol]);
        }
        all.extend(&bytes[a.transport]);
        slow_checksum(&all) == 0
    }

    /// A packet with a fitting checksum.
    pub(crate) fn packet(v6: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut body = match protocol {
            UDP => vec![0x10, 0, 0x20, 0, 0, 0, 0, 0],
            TCP => [&[0x10, 0, 0x20, 0][..], &[0; 8], &[0x60, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1]].concat(),
            _ => vec![if v6 { 128 } else { 8 }, 0, 0, 0, 0, 1, 0, 2],
        };
        body.extend(payload);
        if protocol == UDP {
            let length = (body.len() as u16).to_be_bytes();
            body[4..6].copy_from_slice(&length);
            body[6] = 1; // in use
        }
        let mut bytes = if v6 {
            let mut header = vec![0x6a, 0xb1, 0x23, 0x45, 0, 0, protocol, 64];
            header[4..6].copy_from_slice(&(body.len() as u16).to_be_bytes());
            header.extend("fd77::1".parse::<Ipv6Addr>().unwrap().octets());
            header.extend("fd77::2".parse::<Ipv6Addr>().unwrap().octets());
            header
        } else {
            let mut header = vec![0x45, 0xab, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0];
            header[2..4].copy_from_slice(&(20 + body.len() as u16).to_be_bytes());
            header.extend([10, 77, 0, 1, 10, 77, 0, 2]);
            header
        };
        bytes.extend(body);
        let bytes = finish(bytes);
        assert!(accepted(&bytes));
        bytes
    }

    pub(crate) fn kinds() -> [(bool, u8); 6] {
        [(false, UDP), (false, TCP), (false, ICMP), (true, UDP), (true, TCP), (true, ICMP6)]
    }

    #[test]
    fn sums_are_those_of_rfc_1071() {
        // The example of section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.value(), !0xddf2);
        let mut rng = Rng::new(5);
        for length in 0..300 {
            let bytes: Vec<u8> = (0..length).map(|_| rng.next() as u8).collect();
            let mut sum = Sum::default();
            sum.add(&bytes);
            assert_eq!(sum.value(), slow_checksum(&bytes), "{bytes:?}");
        }
        let full = vec![0xff; 65_535];
        let mut sum = Sum::default();
        sum.add(&full);
        assert_eq!(sum.value(), slow_checksum(&full));
    }

    #[test]
    fn parts_are_where_they_are() {
        for (v6, protocol) in kinds() {
            let bytes = packet(v6, protocol, b"payload");
            let a = dissect(&bytes).unwrap();
            assert_eq!(&bytes[a.payload.clone()], b"payload");
            assert_eq!((a.protocol, a.tos), (protocol, 0xab));
            assert_eq!(a.source, if v6 { "fd77::1" } else { "10.77.0.1" }.parse::<IpAddr>().unwrap());
            assert_eq!(a.ports, matches!(protocol, TCP | UDP).then_some((0x1000, 0x2000)));
            assert!(!a.is_housekeeping(&bytes));
        }
    }

    #[test]
    fn flipped_bits_reach_the_application_or_the_kernel_alone() {
        let mut rng = Rng::new(6);
        for (v6, protocol) in kinds() {
            for length in [1_usize, 2, 3, 100, 1401] {
                let payload: Vec<u8> = (0..length).map(|_| rng.next() as u8).collect();
                let before = packet(v6, protocol, &payload);
                let a = dissect(&before).unwrap();
                let bit = rng.between(0, length as u64 * 8 - 1) as u32;
                let mut after = before.clone();
                a.flip(&mut after, &[bit], true);
                assert!(accepted(&after));
                let mut want = payload.clone();
                want[bit as usize / 8] ^= 0x80 >> (bit % 8);
                assert_eq!(&after[a.payload.clone()], want);
                let checksum = a.checksum_at(&before).unwrap();
                let mut same = after.clone();
                same[checksum..checksum + 2].copy_from_slice(&before[checksum..checksum + 2]);
                same[a.payload.clone()].copy_from_slice(&payload);
                assert_eq!(same, before, "nothing else changes");
                let mut damaged = before.clone();
                a.flip(&mut damaged, &[bit], false);
                assert!(!accepted(&damaged), "one flipped bit is always noticed");
            }
        }
    }

    #[test]
    fn an_unused_checksum_stays_unused_and_none_is_never_sent_as_zero() {
        let mut bytes = packet(false, UDP, b"abcd");
        bytes[26..28].fill(0);
        let a = dissect(&bytes).unwrap();
        a.flip(&mut bytes, &[3], true);
        assert_eq!(bytes[26..28], [0, 0]);
        // A payload that makes the sum come to zero: sent as ffff (RFC 768).
        let bytes = packet(false, UDP, &[0, 0]);
        let value = u16_at(&bytes, 26).unwrap();
        let mut zero = packet(false, UDP, &value.to_be_bytes());
        assert_eq!(u16_at(&zero, 26), Some(0xffff));
        let a = dissect(&zero).unwrap();
        a.flip(&mut zero, &[], true);
        assert_eq!(u16_at(&zero, 26), Some(0xffff));
    }

    #[test]
    fn marking_changes_the_mark_alone() {
        for (v6, protocol) in kinds() {
            let before = packet(v6, protocol, b"payload");
            let a = dissect(&before).unwrap();
            for tos in 0..=255 {
                let mut after = before.clone();
                a.set_tos(&mut after, tos);
                let b = dissect(&after).unwrap();
                assert_eq!(b, Anatomy { tos, ..a.clone() });
                assert_eq!(after[a.transport.clone()], before[a.transport.clone()]);
                if !v6 {
                    assert_eq!(slow_checksum(&after[..20]), 0);
                } else {
                    assert_eq!(
                        (after[0] >> 4, after[1] & 15, &after[2..]),
                        (6, 1, &before[2..]),
                        "flow label"
                    );
                }
            }
        }
    }

    #[test]
    fn a_router_changes_the_ttl_alone() {
        for (v6, protocol) in kinds() {
            let before = packet(v6, protocol, b"payload");
            let a = dissect(&before).unwrap();
            assert_eq!(a.ttl, 64);
            let mut after = before.clone();
            a.set_ttl(&mut after, 63);
            assert_eq!(dissect(&after).unwrap(), Anatomy { ttl: 63, ..a });
            assert!(v6 || slow_checksum(&after[..20]) == 0);
            let differ = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            assert_eq!(differ, if v6 { 1 } else { 2 }, "TTL and, of IPv4, the checksum's high byte");
        }
    }

    #[test]
    fn fragments_and_extensions() {
        let mut first = packet(false, UDP, &[1; 64]);
        first[6] = 0x20; // more fragments
        let a = dissect(&first).unwrap();
        assert_eq!((a.ports, a.payload), (Some((0x1000, 0x2000)), 0..0));
        let mut later = first.clone();
        later[7] = 9;
        assert_eq!(dissect(&later).unwrap().ports, None);
        // IPv6 with hop-by-hop options and a fragment header before UDP.
        let plain = packet(true, UDP, b"payload");
        let mut bytes = plain[..40].to_vec();
        bytes[6] = 0;
        bytes.extend([44, 0, 1, 4, 0, 0, 0, 0]); // padding
        bytes.extend([UDP, 0, 0, 0, 0, 0, 0, 1]); // offset 0, the last: all of it
        bytes.extend(&plain[40..]);
        let length = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        let a = dissect(&bytes).unwrap();
        assert_eq!((a.protocol, a.ports, a.payload), (UDP, Some((0x1000, 0x2000)), 0..0));
    }

    #[test]
    fn housekeeping_is_told_apart() {
        let mut mld = packet(true, ICMP6, &[0; 12]);
        mld[40] = 143;
        assert!(dissect(&mld).unwrap().is_housekeeping(&mld));
        let mut igmp = packet(false, ICMP, &[0; 4]);
        igmp[9] = IGMP;
        assert!(dissect(&igmp).unwrap().is_housekeeping(&igmp));
    }

    /// Damaged packets: `NETCALIPER_INPUTS`, or 50,000. `bench/deep` has a million.
    #[test]
    fn nonsense_is_survived() {
        let inputs = std::env::var("NETCALIPER_INPUTS").map_or(50_000, |n| n.parse::<usize>().unwrap());
        let mut rng = Rng::new(8);
        let good = kinds().map(|(v6, protocol)| packet(v6, protocol, &[9; 40]));
        for round in 0..inputs {
            let mut bytes = good[round % good.len()].clone();
            for _ in 0..=rng.next() % 6 {
                let at = rng.next() as usize % bytes.len();
                bytes[at] = rng.next() as u8;
            }
            bytes.truncate(rng.next() as usize % (bytes.len() + 1));
            let Some(a) = dissect(&bytes) else { continue };
            assert!(a.payload.end <= bytes.len() && a.transport.end <= bytes.len());
            let form = crate::icmp::Form { quote: 1500, labels: &[16] };
            for why in [crate::icmp::Trouble::Expired, crate::icmp::Trouble::TooBig(1300)] {
                let _ = (a.is_housekeeping(&bytes), a.error(&bytes, why, a.destination, &form));
            }
            crate::nat::translate(
                crate::Nat { ports: true, full: true },
                [10, 77, 1, 1].into(),
                crate::Way::Down,
                &mut bytes,
            );
            a.flip(&mut bytes, &[0, 77, u32::MAX], true);
            a.set_tos(&mut bytes, 3);
        }
    }
}
