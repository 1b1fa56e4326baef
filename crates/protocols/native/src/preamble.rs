//! The first 80 bytes of every native connection and the whole of a native UDP hello.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |              magic  8e 4e 45 54 43 41 4c 0a                    |  "\x8eNETCAL\n"
//! |                                                               |
//! +-------------------------------+---------------+---------------+
//! |  wire version                 |  purpose      |  0            |
//! +-------------------------------+---------------+---------------+
//! |  slot: which of the run's concurrent connections              |
//! +---------------------------------------------------------------+
//! |  session (8): its number at the server                        |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |  number (8): of this opening; each is taken once              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                                                               |
//! |  connection id (16): a version 4 UUID made by the client      |
//! |                                                               |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |  transfer (8): payload of this connection, both directions    |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                                                               |
//! |  seal (16) of the 56 bytes before                             |
//! |                                                               |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |  0                                                            |
//! +---------------------------------------------------------------+
//! |  check: FNV-1a (32 bit) of the 76 bytes before                |
//! +---------------------------------------------------------------+
//! ```
//!
//! Numbers are big-endian. The magic starts with a byte that no text protocol sends and ends with a
//! newline, so that a line-oriented peer answers at once. Magic and version have the same place in
//! every version. A control connection has zeros from the slot to the seal, so that the first 80
//! bytes say what any connection is for and are the same for all. The seal proves that the client
//! has the session's key ([`crate::opening`]); the check detects damage.

use super::opening::SEAL;
use common::protocol::Foreign;
use uuid::Uuid;

pub const PREAMBLE: usize = 80;
/// Bytes that the seal covers.
const SEALED: usize = 56;

const MAGIC: [u8; 8] = *b"\x8eNETCAL\n";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    #[default]
    Control,
    Data,
    /// UDP: is there a server, and how far is it?
    Hello,
    /// The answer to a hello, and to a control preamble of another wire version.
    Answer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preamble {
    /// The sender's wire version.
    pub version: u16,
    pub purpose: Purpose,
    /// Which of the run's concurrent connections it is.
    pub slot: u32,
    /// The session's number at the server.
    pub session: u64,
    /// Of this opening of the session.
    pub number: u64,
    /// The connection's identifier.
    pub id: Uuid,
    /// Payload of this connection, both directions together, bytes.
    pub transfer: u64,
    /// Proof that the client has the session's key.
    pub seal: [u8; SEAL],
}

/// FNV-1a, 32 bit (draft-eastlake-fnv): enough to detect damage, not meant against forgery.
pub(super) fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl Preamble {
    /// A preamble of our version without a session, and without anything of a connection.
    pub fn new(purpose: Purpose) -> Self {
        Preamble { version: super::WIRE_VERSION, purpose, ..Preamble::default() }
    }

    /// The bytes that the seal covers.
    pub(super) fn sealed(&self) -> [u8; SEALED] {
        let mut out = [0; SEALED];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.version.to_be_bytes());
        out[10] = match self.purpose {
            Purpose::Control => 1,
            Purpose::Data => 2,
            Purpose::Hello => 3,
            Purpose::Answer => 4,
        };
        out[12..16].copy_from_slice(&self.slot.to_be_bytes());
        out[16..24].copy_from_slice(&self.session.to_be_bytes());
        out[24..32].copy_from_slice(&self.number.to_be_bytes());
        out[32..48].copy_from_slice(self.id.as_bytes());
        out[48..56].copy_from_slice(&self.transfer.to_be_bytes());
        out
    }

    /// The 80 bytes.
    pub fn encode(&self) -> [u8; PREAMBLE] {
        let mut out = [0; PREAMBLE];
        out[..SEALED].copy_from_slice(&self.sealed());
        out[SEALED..SEALED + SEAL].copy_from_slice(&self.seal);
        let check = fnv1a(&out[..PREAMBLE - 4]);
        out[PREAMBLE - 4..].copy_from_slice(&check.to_be_bytes());
        out
    }

    /// The wire version in the first bytes of a preamble of any version.
    pub fn version(bytes: &[u8]) -> Option<u16> {
        Some(u16::from_be_bytes(*bytes.strip_prefix(&MAGIC)?.first_chunk()?))
    }

    /// Decodes 80 bytes; `None` when they are not a preamble, or of another number.
    pub fn decode(bytes: &[u8]) -> Option<Preamble> {
        let bytes: &[u8; PREAMBLE] = bytes.try_into().ok()?;
        let (head, check) = bytes.split_last_chunk::<4>()?;
        if bytes[..8] != MAGIC || u32::from_be_bytes(*check) != fnv1a(head) {
            return None;
        }
        let purpose = match bytes[10] {
            1 => Purpose::Control,
            2 => Purpose::Data,
            3 => Purpose::Hello,
            4 => Purpose::Answer,
            _ => return None,
        };
        Some(Preamble {
            version: u16::from_be_bytes(*bytes[8..].first_chunk()?),
            purpose,
            slot: u32::from_be_bytes(*bytes[12..].first_chunk()?),
            session: u64::from_be_bytes(*bytes[16..].first_chunk()?),
            number: u64::from_be_bytes(*bytes[24..].first_chunk()?),
            id: Uuid::from_bytes(*bytes[32..].first_chunk()?),
            transfer: u64::from_be_bytes(*bytes[48..].first_chunk()?),
            seal: *bytes[SEALED..].first_chunk()?,
        })
    }
}

/// Guess of the other end, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guess {
    /// One of us, by the bytes so far.
    Netcaliper,
    /// A web client or server.
    Http,
    /// A peer of another protocol that we know, by its name.
    Foreign(&'static str),
    /// A TLS client or server.
    Tls,
    /// An SSH server.
    Ssh,
    /// A mail, FTP or similar server greeting, or a person with telnet.
    Text,
    Unknown,
}

impl Guess {
    pub fn name(self) -> &'static str {
        match self {
            Guess::Netcaliper => "netcaliper",
            Guess::Http => "HTTP",
            Guess::Foreign(name) => name,
            Guess::Tls => "TLS",
            Guess::Ssh => "SSH",
            Guess::Text => "a text protocol",
            Guess::Unknown => "an unknown protocol",
        }
    }
}

/// Guesses who sent `bytes`, the first of a connection.
pub fn guess(bytes: &[u8], foreign: &[&Foreign]) -> Guess {
    let magic = bytes.len().min(MAGIC.len());
    let starts = |words: &[&[u8]]| words.iter().any(|w| bytes.starts_with(w));
    if bytes.is_empty() {
        Guess::Unknown
    } else if bytes[..magic] == MAGIC[..magic] {
        Guess::Netcaliper
    } else if starts(&[
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"DELETE ",
        b"OPTIONS ",
        b"CONNECT ",
        b"PRI * HTTP",
        b"HTTP/",
    ]) {
        Guess::Http
    } else if starts(&[b"SSH-"]) {
        Guess::Ssh
    } else if starts(&[&[0x16, 3], &[0x15, 3]]) {
        Guess::Tls
    } else if let Some(foreign) = foreign.iter().find(|foreign| (foreign.sends_first)(bytes)) {
        Guess::Foreign(foreign.name)
    } else if bytes.iter().take(32).all(|b| b.is_ascii_graphic() || b" \r\n\t".contains(b)) {
        Guess::Text
    } else {
        Guess::Unknown
    }
}

/// True if `bytes`, the first of a connection, can be ours.
pub fn is_ours(bytes: &[u8]) -> bool {
    guess(bytes, &[]) == Guess::Netcaliper
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(bytes: &[u8]) -> Guess {
        super::guess(bytes, &[])
    }

    fn sample() -> Preamble {
        Preamble {
            session: 0x1_0000_0002,
            number: 0x1_0000_0003,
            seal: *b"0123456789abcdef",
            id: Uuid::from_u128(0x1122_3344_5566_4788_99aa_bbcc_ddee_ff00),
            slot: 0x0102_0304,
            transfer: 0x1_0000_0001,
            ..Preamble::new(Purpose::Data)
        }
    }

    #[test]
    fn bytes_are_where_the_drawing_says() {
        let bytes = sample().encode();
        assert_eq!(bytes[..12], *b"\x8eNETCAL\n\x00\x03\x02\x00");
        assert_eq!(bytes[12..16], [1, 2, 3, 4]);
        assert_eq!(bytes[16..32], [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3]);
        assert_eq!(bytes[32..36], [0x11, 0x22, 0x33, 0x44]);
        assert_eq!(bytes[48..56], [0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(bytes[56..72], *b"0123456789abcdef");
        assert_eq!(Preamble::decode(&bytes), Some(sample()));
        assert_eq!(Preamble::version(&bytes[..10]), Some(3));
    }

    #[test]
    fn the_check_is_the_published_hash() {
        // Test vectors of the FNV draft.
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = sample().encode();
        for bit in 0..PREAMBLE * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Preamble::decode(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn other_protocols_are_recognised() {
        assert_eq!(guess(&sample().encode()), Guess::Netcaliper);
        assert_eq!(guess(b"\x8eNET"), Guess::Netcaliper);
        assert_eq!(guess(b"GET / HTTP/1.1\r\n"), Guess::Http);
        assert_eq!(guess(b"HTTP/1.0 400 Bad Request\r\n"), Guess::Http);
        let nine = Foreign { name: "nine", sends_first: |bytes| bytes == [9], refusal: &[] };
        assert_eq!(super::guess(&[9], &[&nine]), Guess::Foreign("nine"));
        assert_eq!(guess(b"SSH-2.0-OpenSSH_9.2"), Guess::Ssh);
        assert_eq!(guess(&[0x16, 3, 1, 2, 0]), Guess::Tls);
        assert_eq!(guess(b"hello?\r\n"), Guess::Text);
        assert_eq!(guess(b"220 mail ESMTP\r\n"), Guess::Text);
        assert_eq!(guess(&[0, 0, 0]), Guess::Unknown);
    }
}
