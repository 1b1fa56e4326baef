//! The secret that a receiver wants, as a header of HTTP.

use crate::receiver::{Kind, Receiver};
use base64ct::{Base64, Encoding as _};
use std::fmt;

/// A token, a name and password, or a whole header.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The text stays out of messages and logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// The secret in a text, without the line break at its end.
    ///
    /// # Errors
    /// One sentence, without the text, when it cannot be a header's value.
    pub fn parse(text: &str) -> Result<Secret, String> {
        let text = text.trim();
        match text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) && !text.is_empty() {
            true => Ok(Secret(text.to_owned())),
            false => Err("holds no token: one line of ASCII is wanted, such as TOKEN, NAME:PASSWORD or \
                          HEADER: VALUE"
                .to_owned()),
        }
    }

    /// Name and value of the header for a receiver.
    ///
    /// `HEADER: VALUE` is that header; `SCHEME CREDENTIALS` stands as it is in `Authorization`;
    /// `NAME:PASSWORD` is basic authentication, except for InfluxDB 2, whose tokens may have
    /// colons; any other text is a token.
    pub(crate) fn header(&self, of: &Receiver) -> (String, String) {
        let authorization = |value| ("authorization".to_owned(), value);
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        match self.0.split_once(": ") {
            Some((name, value)) if is_name(name) && !name.is_empty() => {
                return (name.to_ascii_lowercase(), value.to_owned());
            }
            _ => {}
        }
        if self.0.contains(' ') {
            return authorization(self.0.clone());
        }
        if self.0.contains(':') && !of.is_influx2() {
            return authorization(format!("Basic {}", Base64::encode_string(self.0.as_bytes())));
        }
        let scheme = if of.kind() == Kind::Influx { "Token" } else { "Bearer" };
        authorization(format!("{scheme} {}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_header_that_its_receiver_takes() {
        let header = |url: &str, secret: &str| {
            let (name, value) = Secret::parse(secret).unwrap().header(&Receiver::parse(url).unwrap());
            format!("{name}: {value}")
        };
        let (otlp, push) = ("otlp+http://h", "pushgateway+http://h");
        let (one, two) = ("influx+http://h?db=d", "influx+http://h?bucket=b&org=o");
        assert_eq!(header(two, "abc==\n"), "authorization: Token abc==");
        assert_eq!(header(two, "a:b"), "authorization: Token a:b");
        // The example of RFC 7617.
        for url in [one, otlp, push] {
            assert_eq!(
                header(url, "Aladdin:open sesame".replace(' ', "_").as_str()),
                "authorization: Basic QWxhZGRpbjpvcGVuX3Nlc2FtZQ=="
            );
        }
        assert_eq!(header(otlp, "abc"), "authorization: Bearer abc");
        assert_eq!(
            header(push, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            "authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
        );
        assert_eq!(header(otlp, "X-Api-Key: abc def"), "x-api-key: abc def");
        for wrong in ["", " \n", "two\nlines", "schlüssel"] {
            assert!(Secret::parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(format!("{:?}", Secret::parse("abc").unwrap()), "Secret(…)");
    }
}
