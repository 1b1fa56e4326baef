//! Access control. A page at a loopback address is for this host's browsers: no other site may read
//! it through them, whether by a request across sites or by a name that is made to mean this host
//! (DNS rebinding). A page at any other address wants its token.

use crate::address::is_here;
use hyper::header::{AUTHORIZATION, COOKIE};
use hyper::{HeaderMap, Method, StatusCode};
use std::net::{IpAddr, SocketAddr};

/// Bytes of a token.
const TOKEN: usize = 16;

/// Why a request is not answered: what to say.
pub(crate) type Refusal = (StatusCode, &'static str);

#[derive(Clone, Debug)]
pub(crate) enum Guard {
    /// Everybody: metrics alone, as every exporter has them.
    Open,
    /// Browsers on this host.
    Here,
    /// Browsers that send this token, and the name of the cookie that holds it.
    Token(String, String),
}

/// Condition of an admitted request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Request is admitted.
    In,
    /// The token was in the address: the browser gets it as a cookie and is redirected to the
    /// address without it.
    Welcome(String),
}

impl Guard {
    /// The one that belongs to an address.
    pub(crate) fn of(address: SocketAddr) -> Result<Guard, getrandom::Error> {
        if is_here(address.ip()) {
            return Ok(Guard::Here);
        }
        let mut bytes = [0; TOKEN];
        getrandom::fill(&mut bytes)?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // Cookies know no ports: two pages of one host must not overwrite each other's.
        Ok(Guard::Token(token, format!("netcaliper-{}", address.port())))
    }

    /// The token that the reader needs.
    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Guard::Token(token, _) => Some(token),
            Guard::Open | Guard::Here => None,
        }
    }

    pub(crate) fn admit(&self, method: &Method, headers: &HeaderMap, query: &str) -> Result<Pass, Refusal> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let sentence = "this page can be read only: GET and HEAD are answered";
            return Err((StatusCode::METHOD_NOT_ALLOWED, sentence));
        }
        if matches!(self, Guard::Open) {
            return Ok(Pass::In);
        }
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // A link on any site may lead here; subresource requests of other sites' pages are refused.
        if header("sec-fetch-site") == Some("cross-site") && header("sec-fetch-mode") != Some("navigate") {
            return forbidden("a page of another site requested this: refused");
        }
        match self {
            Guard::Token(token, cookie) => Self::known(token, cookie, headers, query),
            _ if header("host").is_some_and(means_here) => Ok(Pass::In),
            _ => forbidden(
                "this page is for browsers of its own host, which call it localhost, 127.0.0.1 or [::1]",
            ),
        }
    }

    fn known(token: &str, cookie: &str, headers: &HeaderMap, query: &str) -> Result<Pass, Refusal> {
        let told = query.split('&').find_map(|pair| pair.strip_prefix("token="));
        if told.is_some_and(|told| same(told, token)) {
            // Not "Strict": a link on another site's page may lead here, and requests only read.
            return Ok(Pass::Welcome(format!("{cookie}={token}; HttpOnly; SameSite=Lax; Path=/")));
        }
        let texts = |name| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        let kept = texts(COOKIE)
            .flat_map(|all| all.split(';'))
            .filter_map(|pair| pair.trim().strip_prefix(cookie)?.strip_prefix('='))
            .any(|told| same(told, token));
        let borne = texts(AUTHORIZATION)
            .filter_map(|text| text.strip_prefix("Bearer "))
            .any(|told| same(told, token));
        match kept || borne {
            true => Ok(Pass::In),
            false => forbidden(
                "this page wants its token: open the address that netcaliper printed, with ?token= at its end",
            ),
        }
    }
}

fn forbidden(sentence: &'static str) -> Result<Pass, Refusal> {
    Err((StatusCode::FORBIDDEN, sentence))
}

/// True if a `Host` header means this host, at any port: a tunnel may have another. Another party's
/// name server could resolve a name to this host (DNS rebinding), so no name but `localhost` does.
fn means_here(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(is_here)
}

/// Compares two texts in a time that does not depend on where they differ.
fn same(told: &str, token: &str) -> bool {
    let differ = told.bytes().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    told.len() == token.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn admit(guard: &Guard, pairs: &[(&'static str, &str)], query: &str) -> Result<Pass, u16> {
        guard.admit(&Method::GET, &headers(pairs), query).map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn nothing_is_written() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            for guard in [Guard::Open, Guard::Here] {
                let told = guard.admit(&method, &headers(&[("host", "localhost")]), "");
                assert_eq!(told.unwrap_err().0, StatusCode::METHOD_NOT_ALLOWED);
            }
        }
    }

    #[test]
    fn names_that_could_be_made_to_mean_this_host_do_not() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:7480",
            "127.1.2.3",
            "[::1]",
            "[::1]:9000",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(admit(&Guard::Here, &[("host", host)], ""), Ok(Pass::In), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            "192.0.2.1:7480",
            "[fe80::1]",
        ] {
            assert_eq!(admit(&Guard::Here, &[("host", host)], ""), Err(403), "{host}");
        }
        assert_eq!(admit(&Guard::Here, &[], ""), Err(403), "no name at all");
    }

    #[test]
    fn other_sites_read_nothing() {
        let here = ("host", "localhost");
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(admit(&Guard::Here, &[here, cross, ("sec-fetch-mode", "no-cors")], ""), Err(403));
        assert_eq!(admit(&Guard::Here, &[here, cross, ("sec-fetch-mode", "navigate")], ""), Ok(Pass::In));
        assert_eq!(admit(&Guard::Here, &[here, ("sec-fetch-site", "same-origin")], ""), Ok(Pass::In));
    }

    #[test]
    fn a_token_is_wanted_elsewhere() {
        let guard = Guard::of("192.0.2.1:80".parse().unwrap()).unwrap();
        let token = guard.token().unwrap().to_owned();
        assert_eq!(token.len(), 2 * TOKEN);
        assert_ne!(Some(token.as_str()), Guard::of("192.0.2.1:80".parse().unwrap()).unwrap().token());
        let right = format!("token={token}");
        assert!(
            matches!(admit(&guard, &[], &right), Ok(Pass::Welcome(cookie)) if cookie.contains("SameSite=Lax"))
        );
        let cookie = format!("a=b; netcaliper-80={token}");
        assert_eq!(admit(&guard, &[("cookie", &cookie)], ""), Ok(Pass::In));
        assert_eq!(admit(&guard, &[("authorization", &format!("Bearer {token}"))], ""), Ok(Pass::In));
        let wrong = [&right[..right.len() - 1], "token=", "", &format!("{right}0")];
        for query in wrong {
            assert_eq!(
                admit(&guard, &[("host", "localhost"), ("cookie", "netcaliper-80=")], query),
                Err(403),
                "{query}"
            );
        }
        assert!(Guard::of("127.0.0.2:80".parse().unwrap()).unwrap().token().is_none());
        assert!(Guard::of("[::1]:80".parse().unwrap()).unwrap().token().is_none());
        assert!(Guard::of("[::]:80".parse().unwrap()).unwrap().token().is_some());
    }
}
