//! The words of the conversation: 32 bits each, big-endian, one TCP connection from sender to
//! receiver, to the port below the first data port.
//!
//! ```text
//! sender                          receiver
//!   00 00 00 58  'X', state?  ───────▶
//!   ◀────────────  00 00 00 0b  11 not started, 12 running (busy), 13 finished (free)
//!   00 00 00 3c  60 seconds   ───────▶
//!   ◀────────────  00 00 00 3c  agreed
//!   (all data connections are made)
//!   00 00 00 52  'R', start   ───────▶   or 'L': the last of several senders
//!   ◀────────────  00 00 00 52  'R' go; 57 'W' wait for an 'R' to come; else refused
//!   (data)
//!   00 00 00 45  'E', the end ───────▶   where the sender measured less than was agreed
//!   ◀────────────  00 00 00 0d  13
//!   FIN
//! ```
//!
//! A length shares its number space with the letters: a receiver of the original takes 69, 76, 82
//! and 88 seconds for one of them. So such a length is never proposed ([`proposable`]), and the
//! place of a word marks it as a length.

/// Asks for the receiver's state.
pub const QUERY: u32 = b'X' as u32;
/// Asks for the start; grants it.
pub const RUN: u32 = b'R' as u32;
/// Asks for the start, as the last of several senders.
pub const LAST: u32 = b'L' as u32;
/// The start will be granted later.
pub const WAIT: u32 = b'W' as u32;
/// The end; a refusal.
pub const END: u32 = b'E' as u32;
/// No test has begun.
pub const NOT_STARTED: u32 = 11;
/// A test runs: busy.
pub const RUNNING: u32 = 12;
/// A test is over.
pub const FINISHED: u32 = 13;

/// The length next to `seconds` that is no letter.
pub fn proposable(seconds: u32) -> u32 {
    if [END, LAST, RUN, QUERY].contains(&seconds) { seconds + 1 } else { seconds }
}

/// Length on which a receiver with `own` seconds agrees with a sender that proposes `proposal`.
pub fn agreed(own: u32, proposal: u32, multi: bool) -> u32 {
    match (own, proposal) {
        (own, _) if multi => own,
        (0, _) | (_, 0) => 0,
        (own, proposal) => own.max(proposal),
    }
}

/// A word as it goes over the wire, in one send: the original does not put pieces together.
pub fn encode(word: u32) -> Vec<u8> {
    word.to_be_bytes().to_vec()
}

/// Assembles words from received pieces.
#[derive(Clone, Debug, Default)]
pub struct Words {
    bytes: [u8; 4],
    have: usize,
}

impl Words {
    /// The next word in `bytes`; removes the bytes used.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<u32> {
        let n = (4 - self.have).min(bytes.len());
        self.bytes[self.have..self.have + n].copy_from_slice(&bytes[..n]);
        *bytes = &bytes[n..];
        self.have += n;
        if self.have < 4 {
            return None;
        }
        self.have = 0;
        Some(u32::from_be_bytes(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_put_together_from_any_pieces() {
        // ntttcp_sync_tcp_ctrl.pcap, the sender's side: X, 3, R.
        let captured = [0, 0, 0, 0x58, 0, 0, 0, 3, 0, 0, 0, 0x52];
        for size in 1..=12 {
            let (mut words, mut got) = (Words::default(), Vec::new());
            for mut piece in captured.chunks(size) {
                while let Some(word) = words.next(&mut piece) {
                    got.push(word);
                }
            }
            assert_eq!(got, [QUERY, 3, RUN], "{size}");
        }
        assert_eq!(encode(RUN), [0, 0, 0, 0x52]);
    }

    #[test]
    fn no_length_is_a_letter() {
        // The original's receiver took 69, 76, 82 and 88 for letters.
        assert_eq!([69, 76, 82, 88].map(proposable), [70, 77, 83, 89]);
        assert_eq!([0, 3, 60, 68, 70].map(proposable), [0, 3, 60, 68, 70]);
    }

    #[test]
    fn the_longer_one_is_agreed_on() {
        // ntttcp_negot_longer_ctrl.pcap: 2 proposed to -t 4; ntttcp_continuous_ctrl.pcap: 0 to -t
        // 3.
        assert_eq!((agreed(4, 2, false), agreed(3, 0, false), agreed(0, 3, false)), (4, 0, 0));
        assert_eq!((agreed(2, 4, false), agreed(5, 9, true)), (4, 5));
    }
}
