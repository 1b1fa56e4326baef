//! Proof, without a round trip, that connections and flows belong to a session.
//!
//! ```text
//! key  = HMAC-SHA-256(secret, "netcaliper openings 1" ‖ hash of the handshake)    the hash only where there is a key
//! seal = HMAC-SHA-256(key, what is sealed), its first 16 bytes
//! ```
//!
//! A server whose connections are spread over processes has a port, and a key, for each of these:
//! `HMAC-SHA-256(key, "netcaliper port " ‖ port)`, two bytes, big-endian. So no process has to know
//! the numbers of another.
//!
//! The secret is in `accepted`, which travels encrypted where there is a key. The seal covers the
//! first bytes of a preamble ([`crate::preamble`]) and the fields of an INIT and an OPEN that stay
//! the same ([`crate::udp::Word`]), with a number that the client draws for each opening. The
//! server takes each number once. The server remembers the highest number and the ranges of missing
//! ones below it: a window of fixed length would refuse an opening whose SYN was retransmitted,
//! which arrives seconds late, behind any number of others.

use super::message::Message;
use super::preamble::{PREAMBLE, Preamble, Purpose};
use super::udp::Word;
use common::auth::hex;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Bytes of a seal.
pub const SEAL: usize = 16;

/// The bytes that the seal of a [`crate::Message::Resume`] covers.
pub(super) fn resumption(session: u64, number: u32) -> Vec<u8> {
    [b"netcaliper resume ".as_slice(), &session.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// The key that seals the openings of one session.
#[derive(Clone)]
pub struct OpeningKey {
    bytes: [u8; 32],
    mac: Hmac<Sha256>,
}

impl OpeningKey {
    /// The key of the session with this secret, on a control connection whose handshake has this
    /// hash; without one, empty.
    pub fn new(secret: &[u8; 16], handshake: &[u8]) -> Self {
        OpeningKey::of(common::auth::keyed_long(secret, &[b"netcaliper openings 1", handshake]))
    }

    /// The key of these bytes.
    pub(super) fn of(key: [u8; 32]) -> Self {
        // A key that is shorter than a block of the hash is filled up with zeros (RFC 2104 §2).
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        OpeningKey { bytes: key, mac: Hmac::new(&block.into()) }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> [u8; 32] {
        self.bytes
    }

    /// The key of the session's openings at this port of the server, where it has several.
    pub(super) fn of_port(&self, port: u16) -> Self {
        let parts: [&[u8]; 2] = [b"netcaliper port ", &port.to_be_bytes()];
        OpeningKey::of(common::auth::keyed_long(&self.bytes, &parts))
    }

    /// The seal of `bytes`.
    pub fn seal(&self, bytes: &[u8]) -> [u8; SEAL] {
        let mut out = [0; SEAL];
        out.copy_from_slice(&self.mac.clone().chain_update(bytes).finalize().into_bytes()[..SEAL]);
        out
    }

    /// True if `seal` is that of `bytes`; compared in constant time.
    pub fn holds(&self, bytes: &[u8], seal: &[u8; SEAL]) -> bool {
        self.mac.clone().chain_update(bytes).verify_truncated_left(seal).is_ok()
    }
}

/// A client's openings of one session; clones share their numbers.
#[derive(Clone)]
pub struct Opener {
    session: u64,
    key: OpeningKey,
    next: Arc<AtomicU64>,
}

impl Opener {
    /// The openings of a session that the server has accepted under this number.
    pub fn new(session: u64, key: OpeningKey) -> Self {
        Opener { session, key, next: Arc::default() }
    }

    /// The same, drawing numbers from `first` on.
    #[must_use]
    pub(super) fn from(self, first: u64) -> Self {
        Opener { next: Arc::new(AtomicU64::new(first)), ..self }
    }

    /// The session's number at the server, and the bytes of the key.
    pub(super) fn session(&self) -> (u64, [u8; 32]) {
        (self.session, self.key.bytes())
    }

    /// The first message of attempt `number` to go on with the session on another control
    /// connection.
    pub fn resume(&self, number: u32) -> Message {
        let seal = hex(&self.key.seal(&resumption(self.session, number)));
        Message::Resume { session: self.session, number, seal }
    }

    /// A number that no opening of the session has had.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The preamble of a new connection, or of a flow of datagrams that are sent back.
    pub fn preamble(&self, id: Uuid, slot: u32, transfer: u64) -> [u8; PREAMBLE] {
        let (session, number) = (self.session, self.number());
        let preamble = Preamble { session, number, id, slot, transfer, ..Preamble::new(Purpose::Data) };
        Preamble { seal: self.key.seal(&preamble.sealed()), ..preamble }.encode()
    }

    /// `word`, sealed as opening `number`.
    pub fn word(&self, number: u64, word: Word) -> Word {
        let word = Word { session: self.session, number, ..word };
        Word { seal: self.key.seal(&word.sealed()), ..word }
    }
}

/// Most ranges of missing numbers that are remembered.
const MOST_MISSING: usize = 16_384;

/// Received numbers of a session's openings.
#[derive(Debug, Default)]
pub struct Numbers {
    /// The lowest number above all received ones.
    next: u64,
    /// Missing ranges below it: the first number of each, and the first behind it.
    missing: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Takes `number`; true if it is new.
    pub fn take(&mut self, number: u64) -> bool {
        let Some(behind) = number.checked_add(1) else { return false };
        if number >= self.next {
            if number > self.next {
                self.missing.insert(self.next, number);
            }
            self.next = behind;
        } else {
            let range = self.missing.range(..=number).next_back().map(|(&first, &end)| (first, end));
            let Some((first, end)) = range.filter(|&(_, end)| number < end) else { return false };
            self.missing.remove(&first);
            if first < number {
                self.missing.insert(first, number);
            }
            if behind < end {
                self.missing.insert(behind, end);
            }
        }
        while self.missing.len() > MOST_MISSING {
            // The oldest are given up: they may never arrive.
            self.missing.pop_first();
        }
        true
    }

    /// The opening under `number` never had a socket: the number may be used again.
    pub fn give_back(&mut self, number: u64) {
        if number < self.next && self.missing.len() < MOST_MISSING {
            self.missing.insert(number, number + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once_in_any_order() {
        let mut rng = transport::Rng::new(5);
        let mut order: Vec<u64> = (0..5_000).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, rng.between(0, at as u64) as usize);
        }
        let mut numbers = Numbers::default();
        assert!(order.iter().all(|&number| numbers.take(number)), "late ones are taken");
        assert!(!order.iter().any(|&number| numbers.take(number)), "none is taken twice");
        assert!(numbers.missing.is_empty());
        numbers.give_back(7);
        assert!(numbers.take(7) && !numbers.take(7));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut numbers = Numbers::default();
        assert!(!numbers.take(u64::MAX), "there is none behind it");
        assert!((0..100_000).all(|n| numbers.take(2 * n + 1)));
        assert_eq!(numbers.missing.len(), MOST_MISSING);
        assert!(!numbers.take(0), "too old to be told from a repetition");
        assert!(numbers.take(199_998), "late, but not too late");
        assert!(numbers.take(u64::MAX - 1) && numbers.take(1 << 60) && !numbers.take(1 << 60));
        assert!(numbers.missing.len() <= MOST_MISSING);
    }
}
