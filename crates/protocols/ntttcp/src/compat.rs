//! ntttcp for Linux: its command line, its console report and its files; and those of Windows
//! NTttcp.

mod args;
mod files;
mod help;
mod host;
mod import;
mod opening;
mod print;
mod run;
mod sockets;
mod tables;
mod windows;
mod windows_xml;

use ::compat::Importer;
use args::{Role, Spec, read};
use common::Original;
use files::{Results, json, xml};
use help::PAGE;
use host::HostReading;
use opening::HostFacts;
use print::{Now, Printer, print, time_of_day};
pub(crate) use run::{notice, row_of_ports};
use windows::is_meant as is_windows;

/// ntttcp for Linux.
pub(crate) const ORIGINALS: &[Original] = &[Original {
    name: "ntttcp",
    about: "Be ntttcp for Linux: its arguments and its console report, with and without synchronisation",
    run: run::run,
    print: |outcome, events| Ok(print(outcome, events)),
    tables: None,
}];

/// Its XML and JSON.
pub(crate) const IMPORTERS: &[Importer] =
    &[Importer { name: "ntttcp -x, -j", read: import::read, begins: import::begins }];
