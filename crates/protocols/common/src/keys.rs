//! The keys of an end of the native protocol, and the rights of each holder.

use crate::auth::{Psk, hex};
use std::fmt;

/// Rights of a key's holder, within the limits of the server. Everything by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Most bits/s of a session and direction.
    pub rate: Option<u64>,
    /// Longest session, ns.
    pub time_ns: Option<u64>,
    /// Most bytes of a day, of all sessions and both directions together.
    pub bytes: Option<u64>,
    /// Verbs that may be asked for: one of [`VERBS`] each; `None` is all.
    pub verbs: Option<Vec<&'static str>>,
    /// True if a session may exclude all others.
    pub exclusive: bool,
}

impl Default for Rights {
    fn default() -> Self {
        Rights { rate: None, time_ns: None, bytes: None, verbs: None, exclusive: true }
    }
}

/// The verbs that rights name.
pub const VERBS: [&str; 8] = ["tcp", "connect", "ping", "stream", "delay", "train", "stop", ORDERS];

/// The verb for the orders of a fleet's controller.
pub const ORDERS: &str = "fleet";

impl Rights {
    /// The permitted verbs, as part of a sentence.
    pub fn verbs(&self) -> String {
        format!("it is for {}", self.verbs.as_ref().map_or("all".to_owned(), |verbs| verbs.join(", ")))
    }

    /// True if `verb` is permitted.
    pub fn permits(&self, verb: &str) -> bool {
        self.verbs.as_ref().is_none_or(|verbs| verbs.contains(&verb))
    }
}

/// A key under a name.
#[derive(Clone, Debug)]
pub struct Named<K> {
    /// The name; of a key that has none, empty.
    pub name: String,
    /// The key.
    pub key: K,
    /// Rights of its holder.
    pub rights: Rights,
}

/// Before the 64 hexadecimal digits of a public key.
pub const PUBLIC: &str = "netcaliper-pub-1:";

/// A public key as users type it.
pub fn public_text(key: &[u8; 32]) -> String {
    format!("{PUBLIC}{}", hex(key))
}

/// An X25519 private key.
#[derive(Clone)]
pub struct PrivateKey(pub [u8; 32]);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

/// All keys of one end.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// Shared keys: a server accepts each of them, a client has the first.
    pub shared: Vec<Named<Psk>>,
    /// Private key of this end.
    pub own: Option<PrivateKey>,
    /// Public keys of the other ends. At a client, a name is that of a server as the user types it,
    /// or `*`.
    pub peers: Vec<Named<[u8; 32]>>,
}

impl Keyring {
    /// Nothing but one shared key without a name, if there is one.
    pub fn of(psk: Option<Psk>) -> Self {
        let named = |key| Named { name: String::new(), key, rights: Rights::default() };
        Keyring { shared: psk.map(named).into_iter().collect(), ..Keyring::default() }
    }

    /// True if there is no key.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.own.is_none()
    }

    /// The first shared key.
    pub fn psk(&self) -> Option<&Psk> {
        self.shared.first().map(|named| &named.key)
    }

    /// The shared key of this name; without a name, the only one.
    pub fn named(&self, name: &str) -> Option<&Named<Psk>> {
        match (name, &self.shared[..]) {
            ("", [only]) => Some(only),
            _ => self.shared.iter().find(|named| named.name == name),
        }
    }
}
