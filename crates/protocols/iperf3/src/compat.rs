//! iperf3: its command line, its report, its JSON.

mod args;
mod disk;
mod ends;
mod help;
mod import;
mod json;
mod opening;
mod prefix;
mod run;
mod saved;
mod server_report;
mod text;
mod units;

use ::compat::Importer;
use ::compat::import::NOWHERE;
use args::{Output, RunRole, Spec, read};
use common::Original;
use disk::DiskFile;
use help::HELP;
use json::{Facts, JsonReport};
use opening::program;
use prefix::Prefix;
use saved::print;
use server_report::ServerReport;
pub(crate) use text::server_output;
use text::{Report, Style};

/// iperf3.
pub(crate) const ORIGINALS: &[Original] = &[Original {
    name: "iperf3",
    about: "Be iperf3: its options, its report, its JSON (also when called by that name)",
    run: run::run,
    print: |outcome, _| print(outcome),
    tables: None,
}];

/// Its JSON.
pub(crate) const IMPORTERS: &[Importer] =
    &[Importer { name: "iperf3 -J, --json-stream", read: import::read, begins: NOWHERE }];
