//! Proofs (HMACs) seen from any peer: a captured PDU is no proof of another address.

use std::sync::atomic::{AtomicU64, Ordering};

/// Proofs seen so far. Of two with the same place the later one stays, so after n later proofs a
/// proof is still known with probability exp(-n / 65,536).
#[derive(Debug)]
pub struct Seen(Box<[AtomicU64]>);

/// Places, half a mebibyte.
const PLACES: usize = 1 << 16;

impl Default for Seen {
    fn default() -> Self {
        Seen((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Seen {
    /// Place of a proof in the table, and its kept half; `None` for one of less than 16 octets.
    fn place(&self, proof: &[u8]) -> Option<(&AtomicU64, u64)> {
        let half = |at: usize| proof.get(at..)?.first_chunk().map(|eight| u64::from_be_bytes(*eight));
        Some((self.0.get(half(0)? as usize % PLACES)?, half(8)?))
    }

    /// True if the proof was seen.
    pub fn has(&self, proof: &[u8]) -> bool {
        self.place(proof).is_some_and(|(place, half)| place.load(Ordering::Relaxed) == half)
    }

    /// Remembers the proof as seen.
    pub fn put(&self, proof: &[u8]) {
        if let Some((place, half)) = self.place(proof) {
            place.store(half, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_known_until_another_has_its_place() {
        let seen = Seen::default();
        let proof = |first: u8, last: u8| {
            let mut bytes = [1; 16];
            (bytes[7], bytes[15]) = (first, last);
            bytes
        };
        seen.put(&proof(3, 3));
        assert!(seen.has(&proof(3, 3)) && !seen.has(&proof(4, 4)) && !seen.has(&[0; 15]));
        // The same place, another proof: the later one stays.
        seen.put(&proof(3, 9));
        assert!(seen.has(&proof(3, 9)) && !seen.has(&proof(3, 3)));
    }
}
