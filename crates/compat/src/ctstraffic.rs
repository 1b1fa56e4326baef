//! ctsTraffic: its command line, its printout, its log files.
//!
//! [`read()`] makes a [`Spec`] of a command line. What ctsTraffic does on the wire is no business of this folder; nor are names
//! resolved, files opened or signals heard here.

mod args;
mod banner;
mod connection;
mod console;
mod files;
mod grammar;
mod help;
pub(crate) mod import;
mod jitter;
mod line;
mod options;
mod printer;
mod raw;
mod read;
mod spec;
mod transcript;
mod windows;

pub use args::{Request, read};
pub use banner::Resolved;
pub use files::OpenFile;
pub use help::page;
pub use options::Page;
pub use printer::{Printer, print};
pub use read::{is_table, report};
pub use spec::{Cores, Encoding, LogFiles, Place, Role, Sharding, Shown, Spec, Transport};
