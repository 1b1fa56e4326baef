//! ICMP errors of routers.
//!
//! ```text
//! ICMPv4 (RFC 792, 1191, 4884)  type 8 | code 8 | checksum 16 | unused 8 | length 8, words of 4 bytes | MTU 16 | quoted packet | extension
//! ICMPv6 (RFC 4443, 4884)       type 8 | code 8 | checksum 16 | length 8, words of 8 bytes | unused 24 | quoted packet | extension
//!                               of a packet that is too big: MTU 32 in the place of length and unused
//! extension (RFC 4884 §7)       version 4 (2) | reserved 12 | checksum 16 | objects
//! MPLS object (RFC 4950 §3)     length 16 | class 8 (1) | type 8 (1) | entries: label 20 | traffic class 3 | bottom 1 | TTL 8
//! ```

use crate::packet::{Anatomy, ICMP, ICMP6, Sum, finish};
use metrics::Clamped;
use std::net::IpAddr;

/// The longest message, bytes: RFC 1812 §4.3.2.3, and RFC 4443 §2.4 (c).
const MOST4: usize = 576;
const MOST6: usize = 1280;
/// The least length of a quoted packet with an extension behind it, padding included, bytes (RFC
/// 4884 §4.5).
const PADDED: usize = 128;
/// TTL of the messages: that of Linux.
const TTL: u8 = 64;

/// The reason for an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// TTL or hop limit was 1.
    Expired,
    /// The next link has this MTU, bytes.
    TooBig(u32),
}

/// A router's form of ICMP errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'a> {
    /// Bytes quoted behind the IP header, where the message has room for as many.
    pub(crate) quote: usize,
    /// MPLS label stack of packets that expired, the outermost label first.
    pub(crate) labels: &'a [u32],
}

/// The form of a router without a setting of its own.
pub(crate) const PLAIN: Form<'static> = Form { quote: usize::MAX, labels: &[] };

impl Anatomy {
    /// ICMP error of the router `from` about this packet; `None` for packets that a router must not
    /// answer (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e)): ICMP errors, later fragments, packets to or
    /// from groups, and larger IPv4 packets without DF, which it could fragment.
    pub(crate) fn error(&self, bytes: &[u8], why: Trouble, from: IpAddr, form: &Form) -> Option<Vec<u8>> {
        if !self.is_answerable(bytes, why) {
            return None;
        }
        let v4 = self.source.is_ipv4();
        let extension = match why {
            Trouble::Expired if !form.labels.is_empty() => extension(form.labels),
            _ => Vec::new(),
        };
        let (fixed, most, word) = if v4 { (28, MOST4, 4) } else { (48, MOST6, 8) };
        let room = (most - fixed - extension.len()) / word * word;
        let quote = self.transport.start.saturating_add(form.quote);
        let mut quoted = bytes[..bytes.len().min(quote).min(room)].to_vec();
        let mut words = 0;
        if !extension.is_empty() {
            quoted.resize(quoted.len().next_multiple_of(word).max(PADDED), 0);
            words = u8::clamped(quoted.len() / word);
        }
        let head = match (why, v4) {
            (Trouble::Expired, true) => [11, 0, 0, 0, 0, words, 0, 0],
            (Trouble::Expired, false) => [3, 0, 0, 0, words, 0, 0, 0],
            (Trouble::TooBig(mtu), true) => {
                let [high, low] = u16::clamped(mtu).to_be_bytes();
                [3, 4, 0, 0, 0, 0, high, low]
            }
            (Trouble::TooBig(mtu), false) => {
                let [a, b, c, d] = mtu.to_be_bytes();
                [2, 0, 0, 0, a, b, c, d]
            }
        };
        Some(message(from, self.source, [&head[..], &quoted, &extension].concat()))
    }

    fn is_answerable(&self, bytes: &[u8], why: Trouble) -> bool {
        let kind = bytes.get(self.transport.start).copied().unwrap_or(0);
        let is_single = |address: IpAddr| match address {
            IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified(),
            IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified(),
        };
        let is_error = match self.protocol {
            // Echo request and reply are the common ICMP messages that are no errors.
            ICMP => !matches!(kind, 0 | 8),
            ICMP6 => kind < 128,
            _ => false,
        };
        let group = match (why, self.destination) {
            // RFC 4443 §2.4 (e.3): path MTU discovery works for groups, too.
            (Trouble::TooBig(_), IpAddr::V6(_)) => true,
            (_, to) => is_single(to),
        };
        let cut = matches!(why, Trouble::TooBig(_)) && !self.dont_fragment;
        self.is_first && !is_error && !cut && group && is_single(self.source)
    }
}

/// An ICMP packet without its checksum, made whole.
fn message(from: IpAddr, to: IpAddr, body: Vec<u8>) -> Vec<u8> {
    let mut bytes = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let [high, low] = u16::clamped(20 + body.len()).to_be_bytes();
            // DSCP CS6: RFC 1812 §4.3.2.5.
            let mut header = vec![0x45, 0xc0, high, low, 0, 0, 0, 0, TTL, ICMP, 0, 0];
            header.extend(from.octets());
            header.extend(to.octets());
            header
        }
        (from, to) => {
            let six = |address: IpAddr| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            let [high, low] = u16::clamped(body.len()).to_be_bytes();
            [&[0x60, 0, 0, 0, high, low, ICMP6, TTL][..], &six(from), &six(to)].concat()
        }
    };
    bytes.extend(body);
    finish(bytes)
}

/// The extension that names the label stack of the packet as it arrived, each entry with a TTL of 1.
fn extension(labels: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0x20, 0, 0, 0];
    bytes.extend(u16::clamped(4 + 4 * labels.len()).to_be_bytes());
    bytes.extend([1, 1]);
    for (at, label) in (1..).zip(labels) {
        let bottom = u32::from(at == labels.len());
        bytes.extend((label << 12 | bottom << 8 | 1).to_be_bytes());
    }
    let mut sum = Sum::default();
    sum.add(&bytes);
    bytes[2..4].copy_from_slice(&sum.value().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::{accepted, kinds, packet, slow_checksum};
    use crate::packet::{UDP, dissect};

    fn router(v6: bool) -> IpAddr {
        if v6 { "fd77::3:1" } else { "10.77.3.1" }.parse().unwrap()
    }

    /// The message's ICMP part, after its addresses and checksums were checked.
    fn checked(bytes: &[u8], v6: bool, protocol: u8, why: Trouble, form: &Form) -> Vec<u8> {
        let a = dissect(bytes).unwrap();
        let reply = a.error(bytes, why, router(v6), form).unwrap();
        let r = dissect(&reply).unwrap();
        assert_eq!((r.source, r.destination), (router(v6), a.source), "{protocol}");
        assert!(accepted(&reply) && (v6 || slow_checksum(&reply[..20]) == 0));
        assert_eq!(r.error(&reply, why, router(v6), form), None, "no errors about errors");
        reply[r.transport].to_vec()
    }

    #[test]
    fn quotes_are_as_long_as_the_rfcs_say() {
        for (v6, protocol) in kinds() {
            let header = if v6 { 40 } else { 20 };
            for length in [0, 8, 100, 1400] {
                let bytes = packet(v6, protocol, &vec![7; length]);
                for why in [Trouble::Expired, Trouble::TooBig(1300)] {
                    // RFC 1812: 576 bytes with the IP header; RFC 4443: 1280.
                    let most = if v6 { 1280 - 48 } else { 576 - 28 };
                    let icmp = checked(&bytes, v6, protocol, why, &PLAIN);
                    assert_eq!(icmp[8..], bytes[..bytes.len().min(most)]);
                    // RFC 792: the header and 64 bits.
                    let icmp = checked(&bytes, v6, protocol, why, &Form { quote: 8, labels: &[] });
                    assert_eq!(icmp[8..], bytes[..bytes.len().min(header + 8)]);
                    let head = match (why, v6) {
                        (Trouble::Expired, false) => ([11, 0], 0_u32),
                        (Trouble::Expired, true) => ([3, 0], 0),
                        (Trouble::TooBig(mtu), false) => ([3, 4], mtu),
                        (Trouble::TooBig(mtu), true) => ([2, 0], mtu),
                    };
                    assert_eq!((&icmp[..2], &icmp[4..8]), (&head.0[..], &head.1.to_be_bytes()[..]));
                }
            }
        }
    }

    /// RFC 4884 §4 and §7, RFC 4950 §3, read step by step.
    #[test]
    fn labels_follow_the_padded_quotation() {
        for (v6, protocol) in kinds() {
            for (length, quote) in [(0, 8), (0, 1500), (113, 1500), (1400, 1500)] {
                let bytes = packet(v6, protocol, &vec![7; length]);
                let form = Form { quote, labels: &[100, 0xf_ffff, 16] };
                let icmp = checked(&bytes, v6, protocol, Trouble::Expired, &form);
                assert!(icmp.len() + if v6 { 40 } else { 20 } <= if v6 { 1280 } else { 576 });
                let quoted = if v6 { usize::from(icmp[4]) * 8 } else { usize::from(icmp[5]) * 4 };
                assert!(quoted >= 128);
                let extension = &icmp[8 + quoted..];
                assert_eq!((extension[0] >> 4, slow_checksum(extension)), (2, 0));
                let object = u16::from_be_bytes([extension[4], extension[5]]);
                assert_eq!((usize::from(object), extension[6], extension[7]), (extension.len() - 4, 1, 1));
                let entries: Vec<(u32, u8, u8)> = extension[8..]
                    .chunks(4)
                    .map(|e| (u32::from_be_bytes([0, e[0], e[1], e[2]]) >> 4, e[2] & 1, e[3]))
                    .collect();
                assert_eq!(entries, [(100, 0, 1), (0xf_ffff, 0, 1), (16, 1, 1)]);
                // The quotation is the packet's beginning, then zeros.
                let header = if v6 { 40 } else { 20 };
                let same = quoted.min(bytes.len()).min(header + quote);
                assert_eq!(icmp[8..8 + same], bytes[..same]);
                assert!(icmp[8 + same..8 + quoted].iter().all(|byte| *byte == 0));
                // Labels are of packets that expired only.
                let big = checked(&bytes, v6, protocol, Trouble::TooBig(1300), &form);
                assert_eq!(big.len(), 8 + bytes.len().min(header + quote).min(if v6 { 1232 } else { 548 }));
            }
        }
    }

    #[test]
    fn some_packets_are_not_answered() {
        let reported = |bytes: &[u8], why| dissect(bytes).unwrap().error(bytes, why, router(false), &PLAIN);
        let whole = packet(false, UDP, &[7; 1400]);
        assert!(reported(&whole, Trouble::Expired).is_some());
        let mut may_be_cut = whole.clone();
        may_be_cut[6] = 0;
        assert_eq!(reported(&may_be_cut, Trouble::TooBig(1300)), None);
        assert!(reported(&may_be_cut, Trouble::Expired).is_some());
        let mut later = whole.clone();
        later[7] = 9;
        assert_eq!(reported(&later, Trouble::Expired), None);
        for group in [[224, 0, 0, 1], [255; 4]] {
            let mut to_many = whole.clone();
            to_many[16..20].copy_from_slice(&group);
            assert_eq!(reported(&to_many, Trouble::Expired), None);
        }
        let mut from_nobody = whole;
        from_nobody[12..16].fill(0);
        assert_eq!(reported(&from_nobody, Trouble::Expired), None);
        let mut to_group = packet(true, UDP, &[7; 1400]);
        to_group[24] = 0xff;
        let a = dissect(&to_group).unwrap();
        assert_eq!(a.error(&to_group, Trouble::Expired, router(true), &PLAIN), None);
        assert!(a.error(&to_group, Trouble::TooBig(1300), router(true), &PLAIN).is_some());
    }
}
