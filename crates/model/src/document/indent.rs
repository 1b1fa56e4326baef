//! Indents JSON as it is written, so that there is one writer of each type for both forms.

use std::io::{self, Write};

/// Passes JSON on, indented by two spaces per level, as serde_json's pretty printer writes it.
pub(super) struct Indented<'a> {
    out: &'a mut dyn Write,
    depth: usize,
    /// The last byte opened an object or a list.
    opened: bool,
    /// Between quotes.
    quoted: bool,
    /// Behind a backslash.
    escaped: bool,
}

impl<'a> Indented<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Indented { out, depth: 0, opened: false, quoted: false, escaped: false }
    }

    fn new_line(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| self.out.write_all(b"  "))
    }

    /// One byte outside of quotes.
    fn token(&mut self, byte: u8) -> io::Result<()> {
        let opened = std::mem::replace(&mut self.opened, matches!(byte, b'{' | b'['));
        match byte {
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if !opened {
                    self.new_line()?;
                }
            }
            _ if opened => self.new_line()?,
            _ => {}
        }
        self.out.write_all(&[byte])?;
        match byte {
            b'{' | b'[' => self.depth += 1,
            b',' => self.new_line()?,
            b':' => self.out.write_all(b" ")?,
            b'"' => self.quoted = true,
            _ => {}
        }
        Ok(())
    }

    /// How many bytes at the start of `bytes` stand between the same quotes, the closing one included.
    fn quotation(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.quoted = false;
                    return at + 1;
                }
                _ => {}
            }
        }
        bytes.len()
    }
}

impl Write for Indented<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            if self.quoted {
                let (text, behind) = rest.split_at(self.quotation(rest));
                self.out.write_all(text)?;
                rest = behind;
            } else {
                self.token(byte)?;
                rest = behind;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
