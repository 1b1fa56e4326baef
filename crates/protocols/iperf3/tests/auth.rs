//! Credentials of iperf3 against what OpenSSL makes of them.
//!
//! The key was made for this test by `openssl genrsa 2048` (OpenSSL 3.0), the tokens by `openssl
//! pkeyutl -encrypt` with `rsa_padding_mode:oaep` and `:pkcs1` of the text `user: mario\npwd:
//! luigi\nts:   1700000000`, the hash by `sha256sum` of `{mario}luigi`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use iperf3::auth::{Authenticator, token};
use metrics::Wall;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PRIVATE: &str = include_str!("auth/private.pem");
/// The same key in its older form.
const PRIVATE_PKCS1: &str = include_str!("auth/private-pkcs1.pem");
const PUBLIC: &str = include_str!("auth/public.pem");
const OAEP: &str = include_str!("auth/oaep.b64");
const PKCS1: &str = include_str!("auth/pkcs1.b64");
const USERS: &str =
    "# name,hash\npeach,00\n mario , e17c7b5ad21cef3dde0309e7bc33c97686f3887405dd73457e7268cafd10131b\n";
const AT: i64 = 1_700_000_000;

fn wall(s: i64) -> Wall {
    Wall(s * 1_000_000_000)
}

/// Repeatable, and good enough for a test.
fn draw(bytes: &mut [u8]) -> bool {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for byte in bytes {
        let n = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *byte = (n >> 32) as u8 | 1;
    }
    true
}

fn authenticator(pem: &str, users: &'static str, pkcs1: bool) -> Authenticator {
    Authenticator::new(pem, Arc::new(|| Some(users.to_owned())), 10, pkcs1, draw).unwrap()
}

#[test]
fn tokens_that_openssl_made() {
    for pem in [PRIVATE, PRIVATE_PKCS1] {
        let authenticator = authenticator(pem, USERS, false);
        assert!(authenticator.admits(Some(OAEP.trim()), wall(AT)));
        assert!(!authenticator.admits(Some(PKCS1.trim()), wall(AT)), "the older padding was not allowed");
    }
    let older = authenticator(PRIVATE, USERS, true);
    assert!(older.admits(Some(PKCS1.trim()), wall(AT)) && older.admits(Some(OAEP.trim()), wall(AT)));
}

#[test]
fn who_is_not_let_in() {
    let known = authenticator(PRIVATE, USERS, true);
    assert!(known.admits(Some(OAEP), wall(AT + 10)) && known.admits(Some(OAEP), wall(AT - 10)));
    for at in [AT + 11, AT - 11, 0, -AT] {
        assert!(!known.admits(Some(OAEP), wall(at)), "{at}");
    }
    for bad in ["", "?", "AAAA", &OAEP[4..], &OAEP.replace('A', "B"), &"A".repeat(344), &"A".repeat(1 << 20)]
    {
        assert!(!known.admits(Some(bad), wall(AT)), "{bad:.20}");
    }
    assert!(!known.admits(None, wall(AT)));
    // Another password, another name, no file.
    for users in
        ["mario,00", "luigi,e17c7b5ad21cef3dde0309e7bc33c97686f3887405dd73457e7268cafd10131b", "", "#"]
    {
        assert!(!authenticator(PRIVATE, users, true).admits(Some(OAEP), wall(AT)), "{users}");
    }
    let gone = Authenticator::new(PRIVATE, Arc::new(|| None), 10, true, draw).unwrap();
    assert!(!gone.admits(Some(OAEP), wall(AT)));
    // Without randomness nothing is decrypted.
    let dry = Authenticator::new(PRIVATE, Arc::new(|| Some(USERS.to_owned())), 10, true, |_| false).unwrap();
    assert!(!dry.admits(Some(OAEP), wall(AT)));
}

#[test]
fn our_tokens_and_those_that_cannot_be() {
    let known = authenticator(PRIVATE, USERS, true);
    for pkcs1 in [false, true] {
        let make = |password: &str| token(("mario", password), wall(AT), PUBLIC, pkcs1, draw);
        let (one, other) = (make("luigi").unwrap(), make("luigi").unwrap());
        assert_ne!(one, other, "each is different");
        assert!(known.admits(Some(&one), wall(AT)));
        assert!(!known.admits(Some(&make("bowser").unwrap()), wall(AT)));
        // RFC 8017: 256 bytes without 42 or 11; 35 of the text are not the password's.
        let most = if pkcs1 { 245 } else { 214 } - 35;
        assert!(make(&"x".repeat(most)).is_ok() && make(&"x".repeat(most + 1)).is_err(), "{pkcs1}");
        assert!(make("two words").is_err() && make("").is_err());
    }
    assert!(token(("mario", "luigi"), wall(AT), "no key", false, draw).is_err());
    assert!(token(("mario", "luigi"), wall(AT), PRIVATE, false, draw).is_err());
    assert!(Authenticator::new(PUBLIC, Arc::new(|| None), 10, false, draw).is_err());
}
