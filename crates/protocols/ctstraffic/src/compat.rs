//! ctsTraffic: its command line, its printout, its log files.
//!
//! [`read()`] makes a [`Spec`] of a command line. This folder has no part in the traffic on the
//! wire, and neither resolves names nor opens files nor handles signals.

mod args;
mod banner;
mod connection;
mod files;
mod grammar;
mod help;
mod import;
mod line;
mod options;
mod printer;
mod raw;
mod read;
mod run;
mod spec;
mod transcript;
mod windows;

use ::compat::Importer;
use args::{Request, read};
use banner::Resolved;
use common::original::{Original, Tables};
use help::page;
use model::Phase;
use printer::{Printer, print};
use read::{is_table, report};
use spec::{Binding, Role, Spec};

/// ctsTraffic.
pub(crate) const ORIGINALS: &[Original] = &[Original {
    name: "ctstraffic",
    about: "Be ctsTraffic: its arguments, its printout, its files (also when called by the name ctsTraffic)",
    run: run::run,
    print,
    tables: Some(Tables { known: is_table, report }),
}];

/// Its tables.
pub(crate) const IMPORTERS: &[Importer] =
    &[Importer { name: "ctsTraffic's tables", read: import::read, begins: import::begins }];

/// A server beside one of our own has the original's usual settings: for others there is
/// `netcaliper ctstraffic`.
pub(crate) fn usual_phase() -> Phase {
    match read(&["-Listen:*".to_owned()]) {
        Ok(Request::Run(spec)) => spec.phase,
        _ => Phase::default(),
    }
}

/// Damaged inputs for each reader: `NETCALIPER_INPUTS`, or 5,000. `bench/deep` has a million.
#[cfg(test)]
fn inputs() -> u32 {
    std::env::var("NETCALIPER_INPUTS").map_or(5_000, |n| n.parse().expect("NETCALIPER_INPUTS is a number"))
}
