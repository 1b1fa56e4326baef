//! Indents JSON as it is written, so that there is one writer of each type for both forms.

use std::io::{self, Write};

/// Passes JSON on, indented by two spaces per level, as serde_json's pretty printer writes it.
pub(super) struct Indented<'a> {
    out: &'a mut dyn Write,
    /// Text for the next write; empty between two writes.
    text: Vec<u8>,
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
        Indented { out, text: Vec::new(), depth: 0, opened: false, quoted: false, escaped: false }
    }

    fn new_line(&mut self) {
        self.text.push(b'\n');
        self.text.extend(std::iter::repeat_n(b' ', 2 * self.depth));
    }

    fn push(&mut self, byte: u8) {
        if self.quoted {
            self.quoted = self.escaped || byte != b'"';
            self.escaped = byte == b'\\' && !self.escaped;
            return self.text.push(byte);
        }
        let (opens, closes) = (matches!(byte, b'{' | b'['), matches!(byte, b'}' | b']'));
        self.depth = self.depth.saturating_sub(usize::from(closes));
        // Empty brackets have nothing between them.
        if std::mem::replace(&mut self.opened, opens) != closes {
            self.new_line();
        }
        self.depth += usize::from(opens);
        self.quoted = byte == b'"';
        self.text.push(byte);
        match byte {
            b',' => self.new_line(),
            b':' => self.text.push(b' '),
            _ => {}
        }
    }
}

impl Write for Indented<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        bytes.iter().for_each(|byte| self.push(*byte));
        self.out.write_all(&self.text)?;
        self.text.clear();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
