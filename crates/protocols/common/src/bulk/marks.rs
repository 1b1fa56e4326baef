//! Framing of a test over datagrams: nothing on UDP says where one begins or ends, so ttcp and its
//! kin send markers.
//!
//! ```text
//! classic (BRL 1984 and all that kept to it)          epi_ttcp (1998), and by its options Teldat's
//!
//!   start  1 ×  20 21 22 23                            start  4 ×  01 02 03 04
//!   data   n ×  20 21 22 23 24 … 7e 20 …               data   n ×  ss 21 22 23 24 …      ss: number of the buffer, mod 256
//!   end    5 ×  20 21 22 23                            end    4 ×  02 02 02 02 nn nn nn nn   n: buffers, big-endian
//! ```
//!
//! A classic receiver recognises markers by their length: up to four bytes are one, the first
//! starts, the next one ends. An epi receiver recognises them by their first four bytes. So neither
//! understands the other's, and data of less than five bytes is never sent. ntttcp has no markers
//! at all.

/// The program whose markers are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// None: a test is as long as both ends' users have said.
    #[default]
    None,
    /// The classic program's.
    Classic,
    /// epi_ttcp's.
    Epi,
}

/// The classic program's marker: the first bytes of a buffer.
const CLASSIC: [u8; 4] = [0x20, 0x21, 0x22, 0x23];
/// epi_ttcp's start marker.
const EPI_START: [u8; 4] = [1, 2, 3, 4];
/// Beginning of epi_ttcp's end marker.
const EPI_END: [u8; 4] = [2; 4];
/// Most bytes of a marker of the classic program.
const SHORT: usize = 4;

/// Kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A classic marker: a start, or an end.
    Classic,
    /// epi_ttcp's start.
    Start,
    /// epi_ttcp's end, with the number of sent buffers.
    End(u32),
    /// Data.
    Data,
}

impl Marks {
    /// The start, how often it is said, and how often the end is.
    fn words(self) -> (&'static [u8], u32, u32) {
        match self {
            Marks::None => (&[], 0, 0),
            Marks::Classic => (&CLASSIC, 1, 5),
            Marks::Epi => (&EPI_START, 4, 4),
        }
    }

    /// Number of start markers.
    pub fn starts(self) -> u32 {
        self.words().1
    }

    /// Number of end markers.
    pub fn ends(self) -> u32 {
        self.words().2
    }

    /// The start.
    pub fn start(self) -> &'static [u8] {
        self.words().0
    }

    /// The end of a test of `datagrams` datagrams.
    pub fn end(self, datagrams: u64) -> Vec<u8> {
        match self {
            Marks::None => Vec::new(),
            Marks::Classic => CLASSIC.to_vec(),
            Marks::Epi => [EPI_END, (datagrams as u32).to_be_bytes()].concat(),
        }
    }
}

impl Word {
    /// Classifies a datagram of any ttcp: epi_ttcp's markers differ from all classic datagrams.
    pub fn of(datagram: &[u8]) -> Word {
        match datagram {
            [1, 2, 3, 4] => Word::Start,
            [2, 2, 2, 2, a, b, c, d] => Word::End(u32::from_be_bytes([*a, *b, *c, *d])),
            short if short.len() <= SHORT => Word::Classic,
            _ => Word::Data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_those_of_the_capture_and_the_description() {
        // ttcp_udp.pcap (ttcp -t -u -l 512 -n 20): a start, 20 buffers, five ends.
        assert_eq!((Marks::Classic.start(), Marks::Classic.starts()), (&[0x20, 0x21, 0x22, 0x23][..], 1));
        assert_eq!((Marks::Classic.end(20), Marks::Classic.ends()), (vec![0x20, 0x21, 0x22, 0x23], 5));
        assert_eq!(
            (Marks::Epi.start(), Marks::Epi.end(258)),
            (&[1, 2, 3, 4][..], vec![2, 2, 2, 2, 0, 0, 1, 2])
        );
    }

    #[test]
    fn a_datagram_is_told_by_its_length_or_its_first_bytes() {
        assert_eq!(Word::of(&[]), Word::Classic);
        assert_eq!(Word::of(&[0x20, 0x21, 0x22, 0x23]), Word::Classic);
        assert_eq!(Word::of(&[0x20, 0x21, 0x22, 0x23, 0x24]), Word::Data);
        assert_eq!(Word::of(Marks::Epi.start()), Word::Start);
        assert_eq!(Word::of(&Marks::Epi.end(70_000)), Word::End(70_000));
        assert_eq!(Word::of(&[1, 2, 3, 4, 5]), Word::Data, "a buffer whose number is 1");
    }
}
