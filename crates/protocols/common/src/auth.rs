//! Secrets: pre-shared keys, and unguessable bytes made of the system's randomness.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A pre-shared key.
#[derive(Clone)]
pub struct Psk(Vec<u8>, Arc<OnceLock<[u8; 32]>>);

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk(…)")
    }
}

/// Shortest key accepted, bytes.
const SHORTEST: usize = 8;
/// Before the 64 hexadecimal digits of a key that was drawn, not thought up.
pub const DRAWN: &str = "netcaliper-psk-1:";
/// Cost of stretching a passphrase: memory in KiB, and passes over it (RFC 9106, and OWASP's second
/// choice).
const STRETCH: (u32, u32) = (19 * 1024, 2);
/// Longest key accepted, bytes.
const LONGEST: usize = 4096;

impl Psk {
    /// The key in `bytes`; one trailing newline, as editors leave it in files, is not part of it.
    ///
    /// # Errors
    /// When it is shorter than 8 or longer than 4096 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let n = bytes.len();
        if !(SHORTEST..=LONGEST).contains(&n) {
            return Err(format!("the pre-shared key must have {SHORTEST} to {LONGEST} bytes, not {n}"));
        }
        Ok(Psk(bytes.to_vec(), Arc::default()))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first 16 octets of HMAC-SHA-256 over `parts` (RFC 8762 §4.4, RFC 8972 §4.8).
    pub fn seal(&self, parts: &[&[u8]]) -> [u8; 16] {
        shortened(&keyed_long(&self.0, parts))
    }

    /// True if `seal` is that of `parts`; compared in constant time.
    pub fn sealed(&self, parts: &[&[u8]], seal: &[u8]) -> bool {
        let Ok(mut mac) = <Hmac<Sha256> as Mac>::new_from_slice(&self.0) else { return false };
        parts.iter().for_each(|part| mac.update(part));
        seal.len() == 16 && mac.verify_truncated_left(seal).is_ok()
    }

    /// The 32 bytes that handshakes are made with. A drawn key has the drawn bytes, any other one
    /// Argon2id of its bytes, made once, so that each guess at a passphrase costs [`STRETCH`]. The
    /// salt is the same for all: both ends need the same key before the first message.
    pub fn handshake_key(&self) -> &[u8; 32] {
        self.1.get_or_init(|| {
            let drawn = self.0.strip_prefix(DRAWN.as_bytes());
            if let Some(drawn) = drawn.and_then(|text| std::str::from_utf8(text).ok()).and_then(unhex) {
                return drawn;
            }
            let mut out = [0; 32];
            let (memory, passes) = STRETCH;
            let stretched = argon2::Params::new(memory, passes, 1, Some(out.len())).and_then(|params| {
                argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
                    .hash_password_into(&self.0, b"netcaliper pre-shared key 1", &mut out)
            });
            // The parameters are constants within their bounds; without them no key is better than
            // a weak one.
            if stretched.is_err() { keyed_long(&self.0, &[b"netcaliper pre-shared key 1"]) } else { out }
        })
    }
}

/// Unguessable bytes: HMAC-SHA-256 under a key that was drawn from the system, and that each draw
/// replaces, so that a process's memory gives away no earlier draw.
pub struct Secrets([u8; 32]);

impl Secrets {
    /// Secrets under this key; several uses of one key take different `label`s.
    pub fn new(key: [u8; 32], label: &[u8]) -> Self {
        Secrets(keyed_long(&key, &[label]))
    }

    /// The next 32 bytes.
    pub fn draw(&mut self) -> [u8; 32] {
        let out = keyed_long(&self.0, &[b"draw"]);
        self.0 = keyed_long(&self.0, &[b"next"]);
        out
    }

    /// The next 16 bytes.
    pub fn short(&mut self) -> [u8; 16] {
        shortened(&self.draw())
    }
}

/// HMAC-SHA-256 of `parts`, one behind the other.
pub fn keyed_long(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    if let Ok(mut mac) = <Hmac<Sha256> as Mac>::new_from_slice(key) {
        parts.iter().for_each(|part| mac.update(part));
        out.copy_from_slice(&mac.finalize().into_bytes());
    }
    out
}

/// HMAC-SHA-256 of `parts`, truncated to 16 bytes.
pub fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 16] {
    shortened(&keyed_long(key, parts))
}

fn shortened(long: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|n| long[n])
}

/// Proof over `nonce` that this process reads the clock with this identifier: two ends find out
/// that they share a clock, and so a host, without revealing the identifier. Empty when the
/// identifier is not known.
pub fn host_mark(clock_id: &str, nonce: &[u8; 16]) -> String {
    if clock_id.is_empty() {
        return String::new();
    }
    hex(&shortened(&keyed_long(clock_id.as_bytes(), &[b"netcaliper host", nonce])))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `N` bytes from hexadecimal; `None` for anything else.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_is_rfc4231() {
        // RFC 4231, test case 2.
        let want = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&keyed_long(b"Jefe", &[b"what do ya want ", b"for nothing?"])), want);
    }

    #[test]
    fn a_drawn_key_is_what_was_drawn_and_a_passphrase_is_stretched() {
        let drawn = Psk::new(format!("{DRAWN}{}", "0f".repeat(32)).as_bytes()).unwrap();
        assert_eq!(drawn.handshake_key(), &[15; 32]);
        // Of argon2-cffi 25.1 (the reference C code): hash_secret_raw(b"correct horse",
        // b"netcaliper pre-shared key 1", 2, 19456, 1, 32, Type.ID).
        let want = "886b162636fce2ed2b492fa8f592dd383244f771e8ae0dd4520dfe32339eed34";
        assert_eq!(hex(Psk::new(b"correct horse\n").unwrap().handshake_key()), want);
    }

    #[test]
    fn keys_have_a_length_and_may_end_in_a_newline() {
        assert!(Psk::new(b"short").is_err());
        assert_eq!(Psk::new(b"long enough\n").unwrap().0, b"long enough");
        assert_eq!(Psk::new(b"long enough\r\n").unwrap().0, b"long enough");
        assert_eq!(format!("{:?}", Psk::new(b"long enough").unwrap()), "Psk(…)");
    }

    #[test]
    fn secrets_never_repeat() {
        let mut secrets = Secrets::new([7; 32], b"test");
        let drawn: std::collections::HashSet<_> = (0..1_000).map(|_| secrets.draw()).collect();
        assert_eq!(drawn.len(), 1_000);
    }

    #[test]
    fn a_host_recognises_itself_and_nobody_else() {
        assert_eq!(host_mark("boot-1", &[1; 16]), host_mark("boot-1", &[1; 16]));
        assert_ne!(host_mark("boot-1", &[1; 16]), host_mark("boot-2", &[1; 16]));
        assert_ne!(host_mark("boot-1", &[1; 16]), host_mark("boot-1", &[2; 16]));
        assert_eq!(host_mark("", &[1; 16]), "");
    }

    #[test]
    fn hexadecimal_both_ways() {
        assert_eq!(unhex::<3>(&hex(&[0, 0xab, 0xff])), Some([0, 0xab, 0xff]));
        assert_eq!(unhex::<2>("12x4"), None);
        assert_eq!(unhex::<2>("é12"), None);
    }
}
