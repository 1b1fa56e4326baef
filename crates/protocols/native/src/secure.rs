//! The control connection with a key: the Noise protocol framework (revision 34), by the crate
//! `snow`.
//!
//! ```text
//! shared key: NNpsk2                       a pair of keys at each end: XX
//! client                    server         client                    server
//!   noise {e} ───────────────▶               noise {e} ───────────────▶
//!   ◀────────── noise {e, ee, psk}           ◀──────── noise {e, ee, s, es}
//!                                            noise {s, se} ───────────▶
//!   records ─────────────────▶               records ─────────────────▶
//!   ◀──────────────── records                ◀──────────────── records
//! ```
//!
//! These are messages in clear ([`crate::message`]); behind them everything, the hello first,
//! is in records: two bytes of length, big-endian, then that many bytes of ciphertext, of which the
//! last 16 are the tag. Records are numbered by both ends and by nothing on the wire, so that none
//! can be left out, repeated or moved. The plaintexts, one behind the other, are the stream of
//! messages.
//!
//! The server proves that it knows the key with its first message, the client with what follows.
//! The prologue, which both ends mix into all keys, holds the wire version and the name of the key,
//! so that neither can be changed on the way.

use common::auth::unhex;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState, TransportState};

/// The handshake with a shared key.
pub const SHARED: &str = "Noise_NNpsk2_25519_ChaChaPoly_SHA256";
/// The handshake with a pair of keys at each end.
pub const PAIRS: &str = "Noise_XX_25519_ChaChaPoly_SHA256";
/// Longest message of a handshake, bytes: e, s and two tags are 96.
const LONGEST: usize = 128;
/// Bytes of a tag.
const TAG: usize = 16;
/// Most plaintext of a record, bytes; the framework's most is 65,535 of ciphertext.
const RECORD: usize = 16 * 1024;

/// The proof that this end gives, and that the other end must give in turn.
#[derive(Clone, Copy)]
pub enum Proof<'a> {
    /// Knowledge of this shared key.
    Shared(&'a [u8; 32]),
    /// Possession of this private key.
    Own(&'a [u8; 32]),
}

/// The ephemeral key of one handshake, as random bytes that were drawn for it.
struct Ephemeral(Option<[u8; 32]>);

impl Random for Ephemeral {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        let drawn = self.0.take().filter(|drawn| drawn.len() == out.len()).ok_or(snow::Error::Rng)?;
        out.copy_from_slice(&drawn);
        Ok(())
    }
}

/// Snow's own primitives, with randomness as an argument.
struct Resolver([u8; 32]);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Ephemeral(Some(self.0))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// The public key of a private one.
pub fn public_key(private: &[u8; 32]) -> Option<[u8; 32]> {
    let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519)?;
    dh.set(private);
    dh.pubkey().try_into().ok()
}

/// Text that both ends mix into their keys first.
pub fn prologue(name: &str) -> Vec<u8> {
    [b"netcaliper control ", &crate::WIRE_VERSION.to_be_bytes()[..], name.as_bytes()].concat()
}

/// One end of a handshake. A method returns `None` if the other end's proof is missing or wrong, or
/// the bytes are no message of the handshake; the connection is then to be closed.
pub struct Shake(HandshakeState);

impl Shake {
    /// The client's end.
    pub fn client(proof: Proof<'_>, prologue: &[u8], drawn: [u8; 32]) -> Option<Self> {
        Shake::builder(proof, prologue, drawn)?.build_initiator().ok().map(Shake)
    }

    /// The server's end.
    pub fn server(proof: Proof<'_>, prologue: &[u8], drawn: [u8; 32]) -> Option<Self> {
        Shake::builder(proof, prologue, drawn)?.build_responder().ok().map(Shake)
    }

    fn builder<'a>(proof: Proof<'a>, prologue: &'a [u8], drawn: [u8; 32]) -> Option<Builder<'a>> {
        let of = |name: &str| {
            Builder::with_resolver(name.parse().ok()?, Box::new(Resolver(drawn))).prologue(prologue).ok()
        };
        match proof {
            Proof::Shared(key) => of(SHARED)?.psk(2, key).ok(),
            Proof::Own(key) => of(PAIRS)?.local_private_key(key).ok(),
        }
    }

    /// The next message, in hexadecimal.
    pub fn say(&mut self) -> Option<String> {
        let mut out = [0; LONGEST];
        let n = self.0.write_message(&[], &mut out).ok()?;
        Some(common::auth::hex(&out[..n]))
    }

    /// Takes in the other end's message.
    pub fn read_message(&mut self, data: &str) -> Option<()> {
        // As many bytes as any of the three messages has.
        let mut payload = [0; LONGEST];
        let n = match data.len() / 2 {
            32 => self.0.read_message(&unhex::<32>(data)?, &mut payload),
            48 => self.0.read_message(&unhex::<48>(data)?, &mut payload),
            64 => self.0.read_message(&unhex::<64>(data)?, &mut payload),
            96 => self.0.read_message(&unhex::<96>(data)?, &mut payload),
            _ => return None,
        };
        n.ok().filter(|&n| n == 0).map(|_| ())
    }

    /// True if all messages were sent and received.
    pub fn is_over(&self) -> bool {
        self.0.is_handshake_finished()
    }

    /// The other end's public key, once received and, where the handshake is over, proved.
    pub fn peer(&self) -> Option<[u8; 32]> {
        self.0.get_remote_static()?.try_into().ok()
    }

    /// The hash of all that was said: it is the same at both ends, and that of no other handshake.
    pub fn hash(&self) -> &[u8] {
        self.0.get_handshake_hash()
    }

    /// The records that follow.
    pub fn records(self) -> Option<Records> {
        Some(Records { noise: self.0.into_transport_mode().ok()?, come: Vec::new() })
    }
}

/// The records of a connection, both ways.
pub struct Records {
    noise: TransportState,
    /// The beginning of a record.
    come: Vec<u8>,
}

impl Records {
    /// `plain` as records; `None` after 2^64 of them.
    pub fn seal(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(plain.len() + (plain.len() / RECORD + 1) * (2 + TAG));
        for part in plain.chunks(RECORD) {
            let at = out.len() + 2;
            out.extend(((part.len() + TAG) as u16).to_be_bytes());
            out.resize(at + part.len() + TAG, 0);
            self.noise.write_message(part, &mut out[at..]).ok()?;
        }
        Some(out)
    }

    /// The plaintext of the records that `bytes` complete; `None` for a record that the other end
    /// has not sent, or not now, and for all after one.
    pub fn open(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.come.extend_from_slice(bytes);
        let (mut out, mut used) = (Vec::new(), 0);
        while let Some((length, rest)) = self.come[used..].split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if !(TAG + 1..=RECORD + TAG).contains(&length) {
                return None;
            }
            let Some(record) = rest.get(..length) else { break };
            let at = out.len();
            out.resize(at + length, 0);
            let n = self.noise.read_message(record, &mut out[at..]).ok()?;
            out.truncate(at + n);
            used += 2 + length;
        }
        self.come.drain(..used);
        Some(out)
    }
}
