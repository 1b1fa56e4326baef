//! Text on its way to the user.

use std::fmt::{self, Write as _};

/// Text that `write!` and `writeln!` add to, which cannot fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub String);

impl Text {
    /// Adds to it, for `write!` and `writeln!`.
    pub fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

/// Texts of one print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// On stdout.
    pub out: Text,
    /// On stderr.
    pub err: Text,
}
