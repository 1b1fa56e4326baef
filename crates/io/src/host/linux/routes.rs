//! The networks that this host reaches without a router, from the kernel's routing tables.

use metrics::Clamped;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A route that is up, one by way of a router, one that rejects.
const UP: u32 = 0x1;
const GATEWAY: u32 = 0x2;
const REJECT: u32 = 0x200;

/// The networks of this host's interfaces, as address and prefix length; default routes and
/// multicast are left out.
pub fn connected_networks() -> Vec<(IpAddr, u8)> {
    // An unreadable table lists no connected network.
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let v4 = read("/proc/thread-self/net/route");
    let v6 = read("/proc/thread-self/net/ipv6_route");
    v4.lines().filter_map(v4_route).chain(v6.lines().filter_map(v6_route)).collect()
}

/// `eth0 0002000A 00000000 0001 0 0 0 00FFFFFF …`: interface, destination, gateway, flags, …, mask;
/// numbers as they lie in memory.
fn v4_route(line: &str) -> Option<(IpAddr, u8)> {
    let mut fields = line.split_whitespace().skip(1);
    let mut hex = || u32::from_str_radix(fields.next()?, 16).ok();
    let (to, gateway, flags) = (hex()?, hex()?, hex()?);
    let mask = u32::from_str_radix(line.split_whitespace().nth(7)?, 16).ok()?;
    let direct = gateway == 0 && flags & UP != 0 && flags & (GATEWAY | REJECT) == 0 && mask != 0;
    direct.then(|| (Ipv4Addr::from(to.to_ne_bytes()).into(), u8::clamped(mask.count_ones())))
}

/// `20010db8… 40 000… 00 000… …  00000001 eth0`: destination, its length, source, its length, next
/// hop, metric, two counts, flags.
fn v6_route(line: &str) -> Option<(IpAddr, u8)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[to, length, _, _, hop, _, _, _, flags, ..] = &fields[..] else { return None };
    let to = Ipv6Addr::from(u128::from_str_radix(to, 16).ok()?);
    let length = u8::from_str_radix(length, 16).ok()?;
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let direct = hop.bytes().all(|b| b == b'0') && flags & UP != 0 && flags & (GATEWAY | REJECT) == 0;
    (direct && length > 0 && length <= 128 && !to.is_multicast()).then_some((to.into(), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn direct_routes_are_found_and_others_left_out() {
        // A /proc/net/route as Linux writes it: default by a router, a /24 of its own, one by a
        // router, one for everything through a tunnel.
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                     eth0\t0002A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
                     eth0\t000000AC\t0102A8C0\t0003\t0\t0\t100\t0000F0FF\t0\t0\t0\n\
                     tun0\t00000000\t00000000\t0001\t0\t0\t50\t00000000\t0\t0\t0\n";
        let found: Vec<_> = table.lines().filter_map(v4_route).collect();
        assert_eq!(found, [("192.168.2.0".parse().unwrap(), 24)]);
    }

    #[test]
    fn direct_routes_of_ipv6() {
        let zero = "0".repeat(32);
        let line = |to: &str, length: &str, hop: &str, flags: &str| {
            format!("{to} {length} {zero} 00 {hop} 00000100 00000001 00000000 {flags} eth0")
        };
        let net = "20010db8000000010000000000000000";
        let router = "fe800000000000000000000000000001";
        let cases = [
            (line(net, "40", &zero, "00000001"), Some(("2001:db8:0:1::".parse().unwrap(), 64))),
            (line(net, "40", router, "00000003"), None),
            (line(&zero, "00", &zero, "00000001"), None),
            (line("ff000000000000000000000000000000", "08", &zero, "00000001"), None),
            (line(net, "40", &zero, "00000201"), None),
        ];
        for (text, want) in cases {
            assert_eq!(v6_route(&text), want, "{text}");
        }
    }

    #[test]
    fn nonsense_is_no_route() {
        for line in ["", "Iface Destination", "x y z", "eth0 1 2 3 4 5 6", "a b c d e f g h i j"] {
            assert_eq!((v4_route(line), v6_route(line)), (None, None));
        }
    }
}
