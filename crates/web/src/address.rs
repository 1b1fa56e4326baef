//! Address of a page, and its URL.

#[cfg(feature = "http")]
use std::net::IpAddr;
#[cfg(any(test, feature = "http"))]
use std::net::SocketAddr;

/// The default port.
pub const PORT: u16 = 7480;

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
    fn what_is_told_can_be_opened() {
        let all = "[::]:7480".parse().unwrap();
        assert_eq!(url(all, "lab2", Some("ab")), "http://lab2:7480/?token=ab");
        assert_eq!(url(all, "a b<", None), "http://localhost:7480/");
        assert_eq!(url("[::1]:80".parse().unwrap(), "lab2", None), "http://[::1]:80/");
        assert_eq!(url("[fe80::1%2]:80".parse().unwrap(), "lab2", None), "http://[fe80::1%2]:80/");
    }
}
