//! Names to addresses. Blocking: call it from a helper thread.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use transport::{Address, is_link_local, scope_of, with_scope};

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
    if let Some(written) = Address::parse(bare).filter(|at| at.port.is_none()) {
        let at = placed(&written, port)?;
        if want.takes(&at) {
            return check_scope(at).map(|()| vec![at]);
        }
    }
    let found = (bare, port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        let reason = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
        format!("cannot resolve '{host}': {reason}")
    })?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let (mut others, mut unscoped) = (0, Ok(()));
    for address in found {
        if !want.takes(&address) {
            others += 1;
        } else if let Err(why) = check_scope(address) {
            unscoped = Err(format!("{host}: {why}"));
        } else if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        unscoped?;
    }
    match (addresses.is_empty(), others, want) {
        (false, ..) => Ok(addresses),
        (true, 1.., Family::V4) => Err(format!("'{host}' has no IPv4 address, only IPv6")),
        (true, 1.., Family::V6) => Err(format!("'{host}' has no IPv6 address, only IPv4")),
        _ => Err(format!("'{host}' has no address")),
    }
}

/// The address that `text` is, with `port` where it has none; `None` where it is no address. A
/// link-local one may lack its interface.
pub fn address(text: &str, port: u16) -> Option<Result<SocketAddr, String>> {
    Address::parse(text).map(|at| placed(&at, at.port.unwrap_or(port)))
}

/// A written address with the number of its interface.
fn placed(at: &Address, port: u16) -> Result<SocketAddr, String> {
    let scope = match at.zone.as_deref() {
        None => 0,
        Some(zone) => {
            let known = crate::host::interface_index(zone);
            known.ok_or_else(|| format!("no interface '{zone}'{}", here(&interfaces(at.ip))))?
        }
    };
    Ok(with_scope(at.ip, port, scope))
}

/// Checks that a socket can be at, or send to, this address: a link-local one needs its interface.
///
/// # Errors
/// One sentence that names the interfaces.
pub fn check_scope(at: SocketAddr) -> Result<(), String> {
    let ip = at.ip();
    if !is_link_local(ip) || scope_of(at) != 0 {
        return Ok(());
    }
    let all = interfaces(ip);
    let (example, others) = match &all[..] {
        [] => ("INTERFACE", String::new()),
        [only] => (only.as_str(), String::new()),
        [first, ..] => (first.as_str(), here(&all)),
    };
    Err(format!("a link-local address needs its interface: {ip}%{example}{others}"))
}

/// The interfaces of this host that have addresses such as `ip`, or else all but the loopback.
fn interfaces(ip: IpAddr) -> Vec<String> {
    let all = crate::host::local_addresses();
    let named = |fits: fn(&IpAddr) -> bool| {
        let fitting = all.iter().filter(|(_, ip)| fits(ip));
        let mut names: Vec<String> =
            fitting.map(|(name, _)| name.split(':').next().unwrap_or_default().to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let linked = if is_link_local(ip) { named(|ip| is_link_local(*ip)) } else { Vec::new() };
    if linked.is_empty() { named(|ip| !ip.is_loopback()) } else { linked }
}

/// Names of interfaces in parentheses.
fn here(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (here: {})", names.join(", ")) }
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
        for zone in ["nosuch0", "4000000000", "0"] {
            let error = resolve(&format!("fe80::1%{zone}"), 7, Family::Any).unwrap_err();
            assert!(error.starts_with(&format!("no interface '{zone}'")), "{error}");
        }
        let error = resolve("fe80::1", 7, Family::Any).unwrap_err();
        assert!(error.starts_with("a link-local address needs its interface: fe80::1%"), "{error}");
        assert_eq!(
            address("[fe80::1%lo]:9", 7).unwrap().unwrap().to_string(),
            format!("[fe80::1%{}]:9", index.trim())
        );
        assert!(address("localhost", 7).is_none());
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
