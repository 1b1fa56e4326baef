//! Authentication of control PDUs: HMAC-SHA-256 under keys that a shared key gives each connection.
//!
//! From version 20 the keys of a connection are made by the key derivation function of NIST
//! SP 800-108 in counter mode:
//!
//! ```text
//!  K(i) = HMAC-SHA-256(shared key, i ‖ "UDPSTP" ‖ 0 ‖ time in decimal ‖ 512)     i and 512: 4 octets
//! ```
//!
//! with the time in the Setup Request; K(1) signs the client's PDUs and K(2) the server's. Before
//! version 20 the shared key itself signs the Setup Request, and nothing else is signed.

use super::{Fields, put};
use common::auth::keyed_long;

/// A time that differs by more from the receiver's is refused, s.
pub const WINDOW_S: u64 = 5;

/// Bits that the derivation makes.
const DERIVED_BITS: u32 = 512;

/// Authentication fields of a PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// 0: none; 1: control PDUs are signed.
    pub mode: u8,
    /// When it was signed, s since 1970.
    pub time_s: u32,
    pub digest: [u8; 32],
    /// Which shared key.
    pub key: u8,
}

/// Place of the authentication fields in a PDU: the offset of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed(pub(super) usize);

const DIGEST: usize = 32;

/// Reason for which a PDU is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsealed {
    /// The digest is not that of its contents under the key.
    Digest,
    /// The time is not near enough.
    Time,
}

impl Sealed {
    pub(super) fn read(self, bytes: &[u8]) -> Seal {
        let fields = Fields(bytes);
        Seal {
            mode: fields.u8(self.0),
            time_s: fields.u32(self.0 + 1),
            digest: fields.array(self.0 + 5),
            key: fields.u8(self.0 + 37),
        }
    }

    pub(super) fn write(self, bytes: &mut [u8], seal: &Seal) {
        put(bytes, self.0, [seal.mode]);
        put(bytes, self.0 + 1, seal.time_s.to_be_bytes());
        put(bytes, self.0 + 5, seal.digest);
        put(bytes, self.0 + 37, [seal.key]);
    }

    /// Offset of the checksum.
    pub fn checksum(self) -> usize {
        self.0 + 39
    }

    /// Signs a PDU, which has no checksum, at a time: writes mode, time and digest.
    pub fn sign(self, bytes: &mut [u8], key: &[u8], time_s: u32) {
        let seal = Seal { mode: 1, time_s, digest: [0; DIGEST], ..self.read(bytes) };
        self.write(bytes, &seal);
        let digest = keyed_long(key, &[bytes]);
        self.write(bytes, &Seal { digest, ..seal });
    }

    /// Checks the digest of a PDU under a key, and its time.
    ///
    /// # Errors
    /// The check that failed.
    pub fn verify(self, bytes: &[u8], key: &[u8], now_s: u64) -> Result<(), Unsealed> {
        let seal = self.read(bytes);
        let (before, after) = (bytes.get(..self.0 + 5), bytes.get(self.0 + 5 + DIGEST..));
        let (Some(before), Some(after)) = (before, after) else { return Err(Unsealed::Digest) };
        // A checksum is made behind the digest.
        let (rest, checksum) = after.split_at(after.len().min(2));
        let zeros = [0; 2];
        let tail = checksum.get(2..).unwrap_or_default();
        let want = keyed_long(key, &[before, &[0; DIGEST], rest, &zeros, tail]);
        // All octets are compared, whichever differs.
        let differs = want.iter().zip(seal.digest).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs != 0 {
            return Err(Unsealed::Digest);
        }
        if u64::from(seal.time_s).abs_diff(now_s) > WINDOW_S { Err(Unsealed::Time) } else { Ok(()) }
    }
}

/// Keys of a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    pub client: [u8; 32],
    pub server: [u8; 32],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(…)")
    }
}

/// Derivation of the keys of connections.
pub struct Deriver;

impl Deriver {
    /// The keys of the connection whose Setup Request has this time.
    pub fn keys(shared: &[u8], time_s: u32) -> Keys {
        let context = time_s.to_string();
        let derived = |i: u32| {
            let parts: [&[u8]; 5] =
                [&i.to_be_bytes(), b"UDPSTP", &[0], context.as_bytes(), &DERIVED_BITS.to_be_bytes()];
            keyed_long(shared, &parts)
        };
        Keys { client: derived(1), server: derived(2) }
    }
}
