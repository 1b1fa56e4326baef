//! OB-UDPST 9.0.0: its command line, its text and its JSON.

mod args;
mod help;
mod json;
mod print;
mod run;
#[cfg(test)]
mod tests;

use common::Original;
pub(crate) use run::notice;

/// The original.
pub(crate) const ORIGINALS: &[Original] = &[Original {
    name: "udpst",
    about: "Be OB-UDPST: its arguments, its text and its JSON (also when called by that name)",
    run: run::run,
    print: print::saved,
    tables: None,
}];
