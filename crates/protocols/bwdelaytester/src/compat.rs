//! bwdelaytester: its command line, its lines on stdout, and its two tables on stderr.
//!
//! [`Printer`] prints the correct figures. With `--as-original` it prints the figures that the
//! original would have printed of the same datagrams.

mod args;
mod help;
mod import;
mod original;
mod print;
mod run;
mod slots;
mod table;
#[cfg(test)]
mod tests;

use ::compat::Importer;
use ::compat::import::NOWHERE;
use args::{Spec, read};
use common::Original;
use help::USAGE;
use print::{Printer, print};
pub(crate) use run::summary;

/// bwdelaytester.
pub(crate) const ORIGINALS: &[Original] = &[Original {
    name: "bwdelaytester",
    about: "Be bwdelaytester: its arguments, its lines and tables (also when called by that name)",
    run: run::run,
    print: |_, events| Ok(print(events)),
    tables: None,
}];

/// Its lines.
pub(crate) const IMPORTERS: &[Importer] =
    &[Importer { name: "bwdelaytester", read: import::read, begins: NOWHERE }];
