//! Proving to know the same secret without sending it, and making secrets.
//!
//! ```text
//! client → server   hello { nonce c }
//! server → client   hello { nonce s, key wanted }
//! client → server   proof { HMAC-SHA-256(key, "netcaliper client" ‖ s ‖ c) }
//! server → client   proof { HMAC-SHA-256(key, "netcaliper server" ‖ c ‖ s) }
//! ```
//!
//! The client proves first, so that a strange client learns nothing that it could try keys against. Whoever answers a
//! client, or reads its packets, gets the client's proof and can try keys against that without being noticed: only a key
//! that nobody can guess withstands it, such as 16 random bytes. Proofs are compared in constant time.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// A pre-shared key.
#[derive(Clone)]
pub struct Psk(Vec<u8>);

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk(…)")
    }
}

/// Shortest key accepted, bytes.
const SHORTEST: usize = 8;
/// Longest key accepted, bytes.
const LONGEST: usize = 4096;

impl Psk {
    /// No file with more bytes holds a key.
    pub const LARGEST_FILE: u64 = LONGEST as u64 + 3;

    /// The key in `bytes`; one trailing newline, as editors leave it in files, is not part of it.
    ///
    /// # Errors
    /// When it is shorter than 8 or longer than 4096 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if !(SHORTEST..=LONGEST).contains(&bytes.len()) {
            return Err(format!(
                "the pre-shared key must have {SHORTEST} to {LONGEST} bytes, not {}",
                bytes.len()
            ));
        }
        Ok(Psk(bytes.to_vec()))
    }

    /// The first 16 octets of HMAC-SHA-256 over `parts` (RFC 8762 §4.4, RFC 8972 §4.8).
    pub fn seal(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut out = [0; 16];
        if let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0) {
            parts.iter().for_each(|part| mac.update(part));
            out.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        }
        out
    }

    /// Whether `seal` is that of `parts`; compared in constant time.
    pub fn sealed(&self, parts: &[&[u8]], seal: &[u8]) -> bool {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0) else { return false };
        parts.iter().for_each(|part| mac.update(part));
        seal.len() == 16 && mac.verify_truncated_left(seal).is_ok()
    }

    fn mac(&self, label: &[u8], first: &[u8], second: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).ok()?;
        mac.update(label);
        mac.update(first);
        mac.update(second);
        Some(mac)
    }

    fn proves(&self, label: &[u8], proof: &str, first: &[u8; 16], second: &[u8; 16]) -> bool {
        let (Some(mac), Some(proof)) = (self.mac(label, first, second), unhex::<32>(proof)) else {
            return false;
        };
        mac.verify_slice(&proof).is_ok()
    }

    /// What the client sends.
    pub fn client_proof(&self, client: &[u8; 16], server: &[u8; 16]) -> String {
        self.mac(b"netcaliper client", server, client)
            .map_or(String::new(), |mac| hex(&mac.finalize().into_bytes()))
    }

    /// What the server sends.
    pub fn server_proof(&self, client: &[u8; 16], server: &[u8; 16]) -> String {
        self.mac(b"netcaliper server", client, server)
            .map_or(String::new(), |mac| hex(&mac.finalize().into_bytes()))
    }

    /// Whether `proof` is the client's.
    pub fn client_proves(&self, proof: &str, client: &[u8; 16], server: &[u8; 16]) -> bool {
        self.proves(b"netcaliper client", proof, server, client)
    }

    /// Whether `proof` is the server's.
    pub fn server_proves(&self, proof: &str, client: &[u8; 16], server: &[u8; 16]) -> bool {
        self.proves(b"netcaliper server", proof, client, server)
    }
}

/// Unguessable tokens and nonces: HMAC-SHA-256 of a counter under a key drawn once from the system.
pub struct Secrets {
    key: [u8; 32],
    counter: u64,
}

impl Secrets {
    /// Those under this key.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Secrets { key, counter: 0 }
    }

    /// The next one.
    pub fn draw(&mut self) -> [u8; 16] {
        self.counter += 1;
        let mut out = [0; 16];
        if let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.key) {
            mac.update(&self.counter.to_be_bytes());
            out.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        }
        out
    }
}

/// 16 bytes that only who has the key can make of `parts`: HMAC-SHA-256, cut.
pub fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 16] {
    let mut out = [0; 16];
    if let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(key) {
        parts.iter().for_each(|part| mac.update(part));
        out.copy_from_slice(&mac.finalize().into_bytes()[..16]);
    }
    out
}

/// What only a process that reads the clock with this identifier can answer to a nonce: two ends find out that they share a clock,
/// and so a host, and nobody else learns the identifier. Empty when the identifier is not known.
pub fn host_mark(clock_id: &str, nonce: &[u8; 16]) -> String {
    if clock_id.is_empty() {
        return String::new();
    }
    let mac = Psk(clock_id.as_bytes().to_vec()).mac(b"netcaliper host", nonce, b"");
    mac.map_or(String::new(), |mac| hex(&mac.finalize().into_bytes()[..16]))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
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
        // RFC 4231, test case 2, split as the proofs are.
        let key = Psk(b"Jefe".to_vec());
        let mac = key.mac(b"what do ya ", b"want for ", b"nothing?").unwrap();
        let want = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&mac.finalize().into_bytes()), want);
    }

    #[test]
    fn a_proof_fits_its_key_nonces_and_side_only() {
        let (key, other) = (Psk::new(b"correct horse").unwrap(), Psk::new(b"battery staple").unwrap());
        let (c, s) = ([1; 16], [2; 16]);
        let proof = key.client_proof(&c, &s);
        assert!(key.client_proves(&proof, &c, &s));
        assert!(!other.client_proves(&proof, &c, &s));
        assert!(!key.client_proves(&proof, &s, &c));
        assert!(!key.server_proves(&proof, &c, &s), "a reflected proof is worthless");
        assert!(key.server_proves(&key.server_proof(&c, &s), &c, &s));
        for bad in ["", "zz", &proof[1..], &format!("{proof}0")] {
            assert!(!key.client_proves(bad, &c, &s));
        }
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
        let mut secrets = Secrets::new([7; 32]);
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
