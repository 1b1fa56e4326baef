//! Typed keys, as terminals send them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Press {
    /// A character; a control key is its code (Ctrl-Z is 0x1a).
    Char(char),
    Escape,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
    Tab,
    BackTab,
}

/// The keys in bytes read from a terminal at once (ECMA-48 control sequences, as xterm and its kin
/// send them). Sequences that mean nothing here, and all that is no ASCII, are passed over; no
/// bytes at all make it fail.
#[derive(Clone, Debug)]
pub struct Presses<'a>(&'a [u8]);

impl<'a> Presses<'a> {
    /// The keys in `typed`.
    pub fn of(typed: &'a [u8]) -> Self {
        Presses(typed)
    }

    /// Takes a control sequence, whose first two bytes are gone; `None` when it means nothing here.
    fn sequence(&mut self) -> Option<Press> {
        // Parameters and intermediate bytes are 0x20 to 0x3f, the final byte is 0x40 to 0x7e.
        let end = self.0.iter().position(|byte| !(0x20..=0x3f).contains(byte));
        let (parameters, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        let (last, rest) = rest.split_first()?;
        self.0 = rest;
        Some(match (last, parameters) {
            (b'A', _) => Press::Up,
            (b'B', _) => Press::Down,
            (b'C', _) => Press::Right,
            (b'D', _) => Press::Left,
            (b'H', _) | (b'~', b"1" | b"7") => Press::Home,
            (b'F', _) | (b'~', b"4" | b"8") => Press::End,
            (b'Z', _) => Press::BackTab,
            (b'~', b"5") => Press::PageUp,
            (b'~', b"6") => Press::PageDown,
            _ => return None,
        })
    }
}

impl Iterator for Presses<'_> {
    type Item = Press;

    fn next(&mut self) -> Option<Press> {
        loop {
            let (&first, rest) = self.0.split_first()?;
            self.0 = rest;
            let press = match first {
                0x1b => match self.0.first() {
                    Some(b'[' | b'O') => {
                        self.0 = &self.0[1..];
                        self.sequence()
                    }
                    _ => Some(Press::Escape),
                },
                b'\t' => Some(Press::Tab),
                0x80.. => None,
                byte => Some(Press::Char(char::from(byte))),
            };
            if press.is_some() {
                return press;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(typed: &[u8]) -> Vec<Press> {
        Presses::of(typed).collect()
    }

    #[test]
    fn keys_as_xterm_sends_them() {
        // xterm's ctlseqs document: cursor keys in both modes, editing keys, with modifiers.
        assert_eq!(keys(b"q?"), [Press::Char('q'), Press::Char('?')]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[1;5C\x1bOD"), [Press::Up, Press::Down, Press::Right, Press::Left]);
        let pages = [Press::PageUp, Press::PageDown, Press::Home, Press::End];
        assert_eq!(keys(b"\x1b[5~\x1b[6~\x1b[H\x1b[4~"), pages);
        assert_eq!(keys(b"\t\x1b[Z"), [Press::Tab, Press::BackTab]);
        assert_eq!(keys(b"\x1b"), [Press::Escape]);
        assert_eq!(keys(b"\x1bq\x1a"), [Press::Escape, Press::Char('q'), Press::Char('\x1a')]);
        assert_eq!(keys("ä".as_bytes()), [], "no key here is beyond ASCII");
        // Function keys mean nothing; a cut sequence neither.
        assert_eq!(keys(b"\x1b[15~x\x1b["), [Press::Char('x')]);
    }

    #[test]
    fn no_bytes_make_it_fail() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                for c in [0, 0x1b, b'[', b'~', b'5', b'A', 0xff] {
                    assert!(Presses::of(&[a, b, c]).count() <= 3);
                    assert!(Presses::of(&[0x1b, a, b, c]).count() <= 4);
                }
            }
        }
    }
}
