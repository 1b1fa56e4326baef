//! Names to addresses. Blocking: call it from a helper thread.

use std::net::{SocketAddr, ToSocketAddrs as _};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    fn takes(self, address: &SocketAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

/// The addresses of `host` in the system's order of preference, each once. `host` is a name, an
/// IPv4 address, or an IPv6 address with or without brackets and with or without a scope
/// (`fe80::1%eth0`, `fe80::1%2`).
///
/// # Errors
/// The error is a sentence with the host and the fault.
pub fn resolve(host: &str, port: u16, want: Family) -> Result<Vec<SocketAddr>, String> {
    let bare = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'));
    let Some(bare) = bare.filter(|bare| !bare.is_empty()) else {
        return Err(format!("'{host}' is not a host: expected a name or an address"));
    };
    let found = (bare, port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        let reason = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
        format!("cannot resolve '{host}': {reason}")
    })?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let mut others = 0;
    for address in found {
        if !want.takes(&address) {
            others += 1;
        } else if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match (addresses.is_empty(), others, want) {
        (false, ..) => Ok(addresses),
        (true, 1.., Family::V4) => Err(format!("'{host}' has no IPv4 address, only IPv6")),
        (true, 1.., Family::V6) => Err(format!("'{host}' has no IPv6 address, only IPv4")),
        _ => Err(format!("'{host}' has no address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(host: &str, want: Family) -> String {
        let found = resolve(host, 7, want).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].to_string()
    }

    #[test]
    fn literals_stand_for_themselves() {
        assert_eq!(one("192.0.2.1", Family::Any), "192.0.2.1:7");
        assert_eq!(one("192.0.2.1", Family::V4), "192.0.2.1:7");
        assert_eq!(one("::1", Family::Any), "[::1]:7");
        assert_eq!(one("[2001:db8::1]", Family::V6), "[2001:db8::1]:7");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn scopes_are_numbers_or_names() {
        let Ok(index) = std::fs::read_to_string("/sys/class/net/lo/ifindex") else {
            return crate::testing::skip("no /sys/class/net/lo");
        };
        let expected = format!("[fe80::1%{}]:7", index.trim());
        assert_eq!(one("fe80::1%lo", Family::Any), expected);
        assert_eq!(one("[fe80::1%lo]", Family::V6), expected);
        assert_eq!(one(&format!("fe80::1%{}", index.trim()), Family::Any), expected);
        assert!(resolve("fe80::1%nosuch0", 7, Family::Any).unwrap_err().contains("'fe80::1%nosuch0'"));
    }

    #[test]
    fn localhost_is_found_once_per_address() {
        let found = resolve("localhost", 80, Family::Any).unwrap();
        assert!(found.iter().all(|a| a.ip().is_loopback() && a.port() == 80));
        let mut unique = found.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), found.len());
    }

    #[test]
    fn errors_name_the_host() {
        assert_eq!(
            resolve("192.0.2.1", 7, Family::V6).unwrap_err(),
            "'192.0.2.1' has no IPv6 address, only IPv4"
        );
        assert_eq!(resolve("::1", 7, Family::V4).unwrap_err(), "'::1' has no IPv4 address, only IPv6");
        for bad in ["", "[::1", "[]"] {
            assert!(resolve(bad, 7, Family::Any).unwrap_err().contains(&format!("'{bad}' is not a host")));
        }
        let error = resolve("no-such-host.invalid", 7, Family::Any).unwrap_err();
        assert!(error.starts_with("cannot resolve 'no-such-host.invalid': "), "{error}");
    }
}
