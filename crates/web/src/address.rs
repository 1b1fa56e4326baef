//! Address of a page: its form on the command line, and the URL that is printed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The default port.
const PORT: u16 = 7480;

/// An address to be seen at: a port of the loopback address, `ADDR:PORT`, `[V6]:PORT`,
/// `localhost:PORT`, or nothing at all for the usual port.
///
/// # Errors
/// One sentence when it is none of them.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if text.is_empty() {
        return Ok(SocketAddr::new(loopback, PORT));
    }
    let port = |text: &str| text.parse().map(|port: u16| SocketAddr::new(loopback, port));
    let named = || port(text.strip_prefix("localhost:").unwrap_or(text));
    text.parse().or_else(|_| named()).map_err(|_| {
        format!(
            "'{text}' is not an address to be seen at such as 7480, 127.0.0.1:7480 or [::]:7480; the usual one is taken by --web= or by \
             --web at the end of the line"
        )
    })
}

/// True if only this host can reach it.
#[cfg(feature = "http")]
pub(crate) fn is_here(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The URL for a browser. An unspecified address is shown as the host's `name`.
#[cfg(any(test, feature = "http"))]
pub(crate) fn url(address: SocketAddr, name: &str, token: Option<&str>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let port = address.port();
    let at = match address.ip() {
        ip if ip.is_unspecified() && !name.is_empty() && name.chars().all(plain) => format!("{name}:{port}"),
        ip if ip.is_unspecified() => format!("localhost:{port}"),
        _ => address.to_string(),
    };
    let token = token.map(|token| format!("?token={token}")).unwrap_or_default();
    format!("http://{at}/{token}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_of_the_loopback_address() {
        let at = |text: &str| parse_address(text).unwrap().to_string();
        assert_eq!(at("8080"), "127.0.0.1:8080");
        assert_eq!(at("localhost:0"), "127.0.0.1:0");
        assert_eq!(at(""), "127.0.0.1:7480");
        assert_eq!(at("[::1]:9"), "[::1]:9");
        assert_eq!(at("192.0.2.1:80"), "192.0.2.1:80");
        for wrong in ["lab2", "192.0.2.1", "::1", "70000", "1:2:3"] {
            assert!(parse_address(wrong).unwrap_err().contains("not an address to be seen at"), "{wrong}");
        }
    }

    #[test]
    fn what_is_told_can_be_opened() {
        let all = "[::]:7480".parse().unwrap();
        assert_eq!(url(all, "lab2", Some("ab")), "http://lab2:7480/?token=ab");
        assert_eq!(url(all, "a b<", None), "http://localhost:7480/");
        assert_eq!(url("[::1]:80".parse().unwrap(), "lab2", None), "http://[::1]:80/");
    }
}
