//! Address translation at a hop (IPv4), as a home gateway or a provider does it to packets of the
//! client.
//!
//! One host is behind the translation, so that a fixed mapping of ports needs no table. ICMP errors
//! are translated with the header that they quote (RFC 5508 §4.2).

use crate::Side;
use crate::packet::{ICMP, TCP, UDP, dissect, repair_header, u16_at};
use crate::trace::Way;
use serde::Serialize;
use std::net::Ipv4Addr;

/// Distance between a port of the client and that of the translation, modulo [`PORTS`].
const SHIFT: u32 = 20_000;
/// The first translated port; lower ones stay.
const FIRST: u32 = 1024;
/// Number of translated ports.
const PORTS: u32 = 65_536 - FIRST;

/// The client's address is replaced by that of the hop, for all hops behind it and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Nat {
    /// True if the client's ports are replaced as well.
    pub ports: bool,
    /// True if the transport's checksum quoted in an ICMP error is restored, too, as Linux does.
    /// Otherwise the sender sees that its packet was changed.
    pub full: bool,
}

/// The end of a packet that is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

/// Translates a packet that passes the hop with the address `outside`; IPv6 passes unchanged.
pub(crate) fn translate(nat: Nat, outside: Ipv4Addr, way: Way, bytes: &mut [u8]) {
    let Some(anatomy) = dissect(bytes).filter(|anatomy| anatomy.source.is_ipv4()) else { return };
    let inside = Side::Client.ipv4();
    let (end, quoted, from, to) = match way {
        Way::Up => (End::Source, End::Destination, inside, outside),
        Way::Down => (End::Destination, End::Source, outside, inside),
    };
    let port = |port: u16| if nat.ports { shifted(port, way) } else { port };
    let kind = bytes.get(anatomy.transport.start).copied().unwrap_or(0);
    let inner = anatomy.transport.start + 8;
    if anatomy.protocol == ICMP && matches!(kind, 3 | 11 | 12) && anatomy.is_first {
        if !rewrite(bytes, inner, quoted, (from, to), port, nat.full) {
            return;
        }
        // A router before the hop reports in the hop's name (RFC 5508 §4.2, REQ-5).
        let outer = if way == Way::Up { anatomy.source } else { outside.into() };
        if let std::net::IpAddr::V4(outer) = outer {
            rewrite(bytes, 0, end, (outer, to), port, true);
        }
        anatomy.repair(bytes);
    } else {
        rewrite(bytes, 0, end, (from, to), port, true);
    }
}

fn shifted(port: u16, way: Way) -> u16 {
    let port = u32::from(port);
    let shift = if way == Way::Up { SHIFT } else { PORTS - SHIFT };
    let mapped = if port < FIRST { port } else { FIRST + (port - FIRST + shift) % PORTS };
    u16::try_from(mapped).unwrap_or(u16::MAX)
}

/// Rewrites address and port of one end of the IPv4 packet that begins at `at`, where that end has
/// the address `from`; returns whether it has. `sum`: the transport's checksum follows.
fn rewrite(
    bytes: &mut [u8],
    at: usize,
    end: End,
    (from, to): (Ipv4Addr, Ipv4Addr),
    port: impl Fn(u16) -> u16,
    sum: bool,
) -> bool {
    let Some(packet) = bytes.get_mut(at..).filter(|packet| packet.len() >= 20) else { return false };
    let (header, protocol) = (usize::from(packet[0] & 15) * 4, packet[9]);
    let place = if end == End::Source { 12 } else { 16 };
    if packet[0] >> 4 != 4
        || !(20..=packet.len()).contains(&header)
        || packet[place..place + 4] != from.octets()
    {
        return false;
    }
    packet[place..place + 4].copy_from_slice(&to.octets());
    repair_header(packet);
    let checksum = match protocol {
        UDP => header + 6,
        TCP => header + 16,
        _ => return true,
    };
    if u16_at(packet, 6).is_none_or(|fragment| fragment & 0x1fff != 0) {
        return true;
    }
    let mut changes = vec![(from.octets().to_vec(), to.octets().to_vec())];
    let place = header + if end == End::Source { 0 } else { 2 };
    if let Some(old) = u16_at(packet, place) {
        let new = port(old);
        packet[place..place + 2].copy_from_slice(&new.to_be_bytes());
        changes.push((old.to_be_bytes().to_vec(), new.to_be_bytes().to_vec()));
    }
    if let Some(old) = u16_at(packet, checksum).filter(|old| sum && (protocol == TCP || *old != 0)) {
        let new = match changes.iter().fold(old, |sum, (old, new)| adjusted(sum, old, new)) {
            0 if protocol == UDP => 0xffff,
            new => new,
        };
        packet[checksum..checksum + 2].copy_from_slice(&new.to_be_bytes());
    }
    true
}

/// The checksum after `old` became `new` (RFC 1624, equation 3): damage elsewhere stays visible.
fn adjusted(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let words = |bytes: &[u8]| {
        bytes.chunks(2).map(|pair| u32::from(u16_at(pair, 0).unwrap_or(0))).collect::<Vec<u32>>()
    };
    let mut sum = u32::from(!checksum);
    for (old, new) in words(old).into_iter().zip(words(new)) {
        sum += (!old & 0xffff) + new;
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp::{PLAIN, Trouble};
    use crate::packet::tests::{accepted, packet, slow_checksum};

    const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);

    fn through(nat: Nat, way: Way, bytes: &[u8]) -> Vec<u8> {
        let mut after = bytes.to_vec();
        translate(nat, OUTSIDE, way, &mut after);
        after
    }

    /// The same packet in the other direction.
    fn answer(bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[12..20].rotate_left(4);
        if bytes[9] != ICMP {
            bytes[20..24].rotate_left(2);
        }
        bytes
    }

    #[test]
    fn packets_go_out_in_the_hops_name_and_return() {
        for nat in [(false, false), (true, false), (true, true)] {
            let nat = Nat { ports: nat.0, full: nat.1 };
            for protocol in [UDP, TCP, ICMP] {
                let before = packet(false, protocol, b"payload");
                let after = through(nat, Way::Up, &before);
                let a = dissect(&after).unwrap();
                assert_eq!((a.source, slow_checksum(&after[..20])), (OUTSIDE.into(), 0));
                assert!(accepted(&after));
                assert_eq!(a.ports.is_some_and(|(from, _)| from != 0x1000), nat.ports && protocol != ICMP);
                assert!(a.ports.is_none_or(|(_, to)| to == 0x2000));
                // The answer to it arrives where the packet was sent.
                assert_eq!(through(nat, Way::Down, &answer(&after)), answer(&before), "{protocol}");
                // Damage stays damage.
                let mut damaged = before.clone();
                damaged[33] ^= 1;
                assert!(!accepted(&through(nat, Way::Up, &damaged)));
            }
        }
        // Without a checksum it stays without; IPv6 and others' packets pass as they are.
        let mut none = packet(false, UDP, b"payload");
        none[26..28].fill(0);
        assert_eq!(through(Nat::default(), Way::Up, &none)[26..28], [0, 0]);
        let six = packet(true, UDP, b"payload");
        assert_eq!(through(Nat::default(), Way::Up, &six), six);
        let other = answer(&packet(false, UDP, b"payload"));
        assert_eq!(through(Nat::default(), Way::Up, &other), other);
    }

    #[test]
    fn quoted_headers_are_the_senders_again() {
        let sent = packet(false, UDP, b"payload");
        for (ports, full) in [(false, false), (true, false), (false, true), (true, true)] {
            let nat = Nat { ports, full };
            let outer = through(nat, Way::Up, &sent);
            let router = "10.77.3.1".parse().unwrap();
            let error = dissect(&outer).unwrap().error(&outer, Trouble::Expired, router, &PLAIN).unwrap();
            let got = through(nat, Way::Down, &error);
            let r = dissect(&got).unwrap();
            assert_eq!((r.source, r.destination), (router, Side::Client.ipv4().into()));
            assert!(accepted(&got) && slow_checksum(&got[..20]) == 0);
            let quoted = &got[28..];
            assert_eq!((&quoted[..26], &quoted[28..]), (&sent[..26], &sent[28..]));
            assert_eq!(quoted[26..28] == sent[26..28], full, "the checksum shows the translation");
        }
    }

    #[test]
    fn routers_behind_the_translation_have_its_name() {
        let nat = Nat { ports: true, full: true };
        // A packet of the server that expires between the hop and the client.
        let sent = answer(&through(nat, Way::Up, &packet(false, UDP, b"payload")));
        let inner = through(nat, Way::Down, &sent);
        let router = "10.77.1.1".parse().unwrap();
        let error = dissect(&inner).unwrap().error(&inner, Trouble::Expired, router, &PLAIN).unwrap();
        let got = through(nat, Way::Up, &error);
        let r = dissect(&got).unwrap();
        assert_eq!((r.source, r.destination), (OUTSIDE.into(), Side::Server.ipv4().into()));
        assert!(accepted(&got));
        assert_eq!(got[28..], sent);
    }

    #[test]
    fn ports_are_mapped_one_to_one() {
        let mut seen = std::collections::BTreeSet::new();
        for port in 0..=u16::MAX {
            let mapped = shifted(port, Way::Up);
            assert!(seen.insert(mapped));
            assert_eq!((mapped < 1024, shifted(mapped, Way::Down)), (port < 1024, port));
        }
    }
}
