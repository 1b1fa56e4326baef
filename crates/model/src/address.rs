//! Addresses as people write them: with or without a port, brackets, and the zone of an IPv6
//! address (RFC 4007), `fe80::1%eth0`.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// An address as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The zone of an IPv6 address: the name or the number of an interface.
    pub zone: Option<String>,
    /// The port.
    pub port: Option<u16>,
}

impl Address {
    /// `192.0.2.1`, `192.0.2.1:7411`, `2001:db8::1`, `fe80::1%eth0`, `[fe80::1%eth0]`,
    /// `[fe80::1%eth0]:7411`; `None` for other texts.
    pub fn parse(text: &str) -> Option<Address> {
        let (inner, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inner, rest) = rest.split_once(']')?;
                (inner, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match text.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (text, None),
            },
        };
        let port = port.map(str::parse).transpose().ok()?;
        let (ip, zone) = inner.split_once('%').map_or((inner, None), |(ip, zone)| (ip, Some(zone)));
        let ip: IpAddr = ip.parse().ok()?;
        let named = |zone: &str| {
            !zone.is_empty() && zone.chars().all(|c| c.is_ascii_alphanumeric() || ".-_@".contains(c))
        };
        if zone.is_some_and(|zone| ip.is_ipv4() || !named(zone)) {
            return None;
        }
        Some(Address { ip, zone: zone.map(str::to_owned), port })
    }
}

impl fmt::Display for Address {
    /// The address and its zone, without the port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.zone {
            Some(zone) => write!(f, "{}%{zone}", self.ip),
            None => self.ip.fmt(f),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Address {
        Address { ip, zone: None, port: None }
    }
}

/// True for an address of a link, which means a host only together with an interface.
pub fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The same place at another port, on the same interface.
pub fn at_port(at: SocketAddr, port: u16) -> SocketAddr {
    let mut at = at;
    at.set_port(port);
    at
}

/// The number of the interface of an IPv6 address; 0 without one.
pub fn scope_of(at: SocketAddr) -> u32 {
    match at {
        SocketAddr::V6(at) => at.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// An address with the number of its interface, which matters for IPv6 alone.
pub fn with_scope(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
        IpAddr::V4(_) => SocketAddr::new(ip, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_spelling() {
        let read = |text: &str| Address::parse(text).map(|at| (at.ip.to_string(), at.zone, at.port));
        let plain = |ip: &str, zone: Option<&str>, port| Some((ip.to_owned(), zone.map(str::to_owned), port));
        for (text, expected) in [
            ("192.0.2.1", plain("192.0.2.1", None, None)),
            ("192.0.2.1:80", plain("192.0.2.1", None, Some(80))),
            ("[192.0.2.1]:80", plain("192.0.2.1", None, Some(80))),
            ("::1", plain("::1", None, None)),
            ("[::1]", plain("::1", None, None)),
            ("[2001:db8::1]:80", plain("2001:db8::1", None, Some(80))),
            ("fe80::1%eth0", plain("fe80::1", Some("eth0"), None)),
            ("[fe80::1%eth0.7]", plain("fe80::1", Some("eth0.7"), None)),
            ("[fe80::1%2]:80", plain("fe80::1", Some("2"), Some(80))),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        let wrong = [
            "",
            "[",
            "[::1",
            "::1]",
            "[::1]80",
            "[::1]:x",
            "host",
            "host:80",
            "1.2.3.4%eth0",
            "fe80::1%",
            "fe80::1%a b",
            "fe80::1%eth0:80",
        ];
        assert!(wrong.iter().all(|text| read(text).is_none()));
        let scoped = with_scope("fe80::1".parse().unwrap(), 7, 3);
        assert_eq!(at_port(scoped, 9), with_scope("fe80::1".parse().unwrap(), 9, 3));
        let zoned = Address::parse("[fe80::1%eth0]:80").map(|at| at.to_string());
        assert_eq!(zoned.as_deref(), Some("fe80::1%eth0"));
        assert!(is_link_local("fe80::1".parse().unwrap()) && !is_link_local("fd00::1".parse().unwrap()));
    }
}
