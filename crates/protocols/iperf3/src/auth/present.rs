//! Authentication in a build with RSA.

use super::Users;
use crate::host::Random;
use base64ct::{Base64, Encoding};
use metrics::{Clamped, Wall};
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey};
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey};
use rsa::rand_core::{TryCryptoRng, TryRng};
use rsa::traits::{PaddingScheme, PublicKeyParts};
use rsa::{Oaep, Pkcs1v15Encrypt, RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::io;

/// Longest token that is looked at, bytes of base64: that of a key of 16384 bits.
const LONGEST: usize = 2736;
/// Smallest and largest key, bits.
const KEYS: (usize, usize) = (1024, 16_384);

/// Randomness as the RSA library wants it.
struct Draw(Random);

impl TryRng for Draw {
    type Error = io::Error;

    fn try_next_u32(&mut self) -> Result<u32, io::Error> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, io::Error> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), io::Error> {
        (self.0)(bytes).then_some(()).ok_or_else(|| io::Error::other("the system gives no random numbers"))
    }
}

impl TryCryptoRng for Draw {}

/// Knows who may have a test.
pub struct Authenticator {
    key: RsaPrivateKey,
    users: Users,
    skew_s: u64,
    pkcs1: bool,
    entropy: Random,
}

/// Accepts authentication, which this build has.
pub fn available() -> Result<(), String> {
    Ok(())
}

fn fits(bits: usize) -> Result<(), String> {
    if (KEYS.0..=KEYS.1).contains(&bits) {
        return Ok(());
    }
    Err(format!("an RSA key must have {} to {} bits, not {bits}", KEYS.0, KEYS.1))
}

impl Authenticator {
    /// Admits clients whose user name and password are in `users` and whose clock is off by
    /// `skew_s` at most. `pem` is the private key, without a password. `pkcs1` also takes the older
    /// padding, which clients before 3.17 use.
    ///
    /// # Errors
    /// When `pem` is no such key.
    pub fn new(pem: &str, users: Users, skew_s: u32, pkcs1: bool, entropy: Random) -> Result<Self, String> {
        let key = RsaPrivateKey::from_pkcs8_pem(pem)
            .or_else(|_| RsaPrivateKey::from_pkcs1_pem(pem))
            .map_err(|_| "it is no RSA private key in PEM without a password".to_owned())?;
        fits(usize::clamped(key.n().bits()))?;
        Ok(Authenticator { key, users, skew_s: skew_s.into(), pkcs1, entropy })
    }

    /// True if a token proves a known user, at this time.
    pub fn admits(&self, token: Option<&str>, now: Wall) -> bool {
        let Some(token) = token.map(str::trim).filter(|token| token.len() <= LONGEST) else { return false };
        let Ok(sealed) = Base64::decode_vec(token) else { return false };
        let mut draw = Draw(self.entropy);
        let oaep = Oaep::<Sha1>::new().decrypt(Some(&mut draw), &self.key, &sealed).ok();
        // Decrypting with the wrong padding gives other text, never an error: the user in the text
        // decides.
        let older = self.pkcs1.then(|| Pkcs1v15Encrypt.decrypt(Some(&mut draw), &self.key, &sealed).ok());
        [oaep, older.flatten()].iter().flatten().any(|plain| self.is_valid(plain, now))
    }

    /// True if the content of a token is right.
    fn is_valid(&self, plain: &[u8], now: Wall) -> bool {
        let Some(Claim { user, password, at_s }) = Claim::read(plain) else { return false };
        let Some(list) = (self.users)() else { return false };
        let hash = hashed(user, password);
        let mut found = false;
        for (name, stored) in list.lines().filter_map(entry) {
            found |= name == user && same(stored, &hash);
        }
        found && now.0.div_euclid(1_000_000_000).abs_diff(at_s) <= self.skew_s
    }
}

/// A line of the users' file.
fn entry(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (name, hash) = line.split_once(',').filter(|_| !line.starts_with('#'))?;
    Some((name.trim(), hash.trim()))
}

/// Compares in a time that does not depend on where they differ.
fn same(stored: &str, hash: &str) -> bool {
    stored.len() == hash.len()
        && stored.bytes().zip(hash.bytes()).fold(0, |all, (a, b)| all | (a.to_ascii_lowercase() ^ b)) == 0
}

/// The users' file's form of a password.
fn hashed(user: &str, password: &str) -> String {
    let digest = Sha256::digest(format!("{{{user}}}{password}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Claim<'a> {
    user: &'a str,
    password: &'a str,
    at_s: i64,
}

impl<'a> Claim<'a> {
    fn read(plain: &'a [u8]) -> Option<Claim<'a>> {
        let text = std::str::from_utf8(plain).ok()?.trim_end_matches('\0');
        let (user, rest) = text.strip_prefix("user: ")?.split_once('\n')?;
        let (password, rest) = rest.strip_prefix("pwd:  ")?.split_once('\n')?;
        let at_s = rest.strip_prefix("ts:   ")?.trim().parse().ok()?;
        (!user.is_empty()).then_some(Claim { user, password, at_s })
    }
}

/// The token of a user at this time. `pem` is the server's public key; `pkcs1` pads as servers up
/// to 3.16 want it.
///
/// # Errors
/// When `pem` is no such key, name or password cannot be in a token, or there is no randomness.
pub fn token(
    (user, password): (&str, &str),
    now: Wall,
    pem: &str,
    pkcs1: bool,
    entropy: Random,
) -> Result<String, String> {
    let key = RsaPublicKey::from_public_key_pem(pem)
        .or_else(|_| RsaPublicKey::from_pkcs1_pem(pem))
        .map_err(|_| "it is no RSA public key in PEM".to_owned())?;
    fits(usize::clamped(key.n().bits()))?;
    let blank = |text: &str| text.is_empty() || text.contains(char::is_whitespace);
    if blank(user) || blank(password) {
        return Err("a name and a password are needed, neither with white space in it".to_owned());
    }
    let plain = format!("user: {user}\npwd:  {password}\nts:   {}", now.0.div_euclid(1_000_000_000));
    // RFC 8017, 7.1.1 and 7.2.1.
    let most = key.size() - if pkcs1 { 11 } else { 42 };
    if plain.len() > most {
        return Err(format!(
            "name and password are too long for this key: {} bytes, and {most} are possible",
            plain.len()
        ));
    }
    let mut draw = Draw(entropy);
    let sealed = if pkcs1 {
        Pkcs1v15Encrypt.encrypt(&mut draw, &key, plain.as_bytes())
    } else {
        Oaep::<Sha1>::new().encrypt(&mut draw, &key, plain.as_bytes())
    };
    sealed.map(|bytes| Base64::encode_string(&bytes)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_token_in_any_state() {
        // The layout that 3.21 and 3.12 encrypt.
        let plain = b"user: mario\npwd:  luigi\nts:   1700000000".to_vec();
        let whole = Claim::read(&plain).unwrap();
        assert_eq!((whole.user, whole.password, whole.at_s), ("mario", "luigi", 1_700_000_000));
        let ended = [&plain[..], &[0, 0]].concat();
        assert!(Claim::read(&ended).is_some(), "some send the NUL along");
        // Cut anywhere, and with any byte in any place: read or refused, and never by a panic.
        for end in 0..plain.len() {
            let short = Claim::read(&plain[..end]);
            assert!(short.is_none_or(|claim| claim.at_s < 1_700_000_000), "{end}");
        }
        for at in 0..plain.len() {
            for byte in 0..=255 {
                let mut other = plain.clone();
                other[at] = byte;
                let _ = Claim::read(&other);
            }
        }
        for none in ["", "user: \npwd:  x\nts:   1", "user: a\npwd:  b\nts:   x", "user: a\npwd:  b"] {
            assert!(Claim::read(none.as_bytes()).is_none(), "{none}");
        }
    }

    #[test]
    fn lines_of_the_users_file() {
        assert_eq!(entry(" mario , AB "), Some(("mario", "AB")));
        for none in ["", "# mario,ab", "mario"] {
            assert_eq!(entry(none), None, "{none}");
        }
        assert!(same("ABcd", "abcd") && !same("abcd", "abce") && !same("abcd", "abc") && !same("", "a"));
    }
}
