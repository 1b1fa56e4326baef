//! What ctsTraffic puts on the wire beside the pattern.
//!
//! ```text
//! identifier of a connection, server to client, 37 bytes: the first bytes of a TCP connection
//!    0                                                        36
//!   +----------------------------------------------------------+----+
//!   | xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx (lower case, ASCII)  | 00 |
//!   +----------------------------------------------------------+----+
//!
//! completion, server to client, 4 bytes: when all payload has been moved
//!   +----+----+----+----+
//!   | 44 | 4f | 4e | 45 |   "DONE", no NUL
//!   +----+----+----+----+
//! ```
//!
//! There is no version, no length and no negotiation: both ends have to be started with the same settings.

use uuid::Uuid;

/// Length of the identifier: 36 characters and a NUL.
pub const ID: usize = 37;
/// What the server says when all payload has been moved.
pub const DONE: &[u8; 4] = b"DONE";

/// The identifier as it is sent.
#[must_use]
pub fn encode_id(id: Uuid) -> [u8; ID] {
    let mut bytes = [0; ID];
    id.hyphenated().encode_lower(&mut bytes);
    bytes
}

/// The identifier in what was received. The original prints whatever comes as text; what is no UUID is nil here.
#[must_use]
pub fn decode_id(bytes: &[u8; ID]) -> Uuid {
    Uuid::try_parse_ascii(&bytes[..ID - 1]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_lower_case_text_and_a_nul() {
        let id = Uuid::from_u128(0x0123_4567_89AB_4DEF_8123_4567_89AB_CDEF);
        assert_eq!(&encode_id(id), b"01234567-89ab-4def-8123-456789abcdef\0");
        assert_eq!(decode_id(&encode_id(id)), id);
        assert_eq!(decode_id(b"01234567-89AB-4DEF-8123-456789ABCDEF\0"), id);
        assert_eq!(decode_id(&[b'x'; ID]), Uuid::nil());
    }
}
