//! ctsTraffic: its command line, its printout, its log files.
//!
//! [`read()`] makes a [`Spec`] of a command line. What ctsTraffic does on the wire is no business of this folder; nor are names
//! resolved, files opened or signals heard here.

mod args;
mod banner;
mod connection;
mod face;
mod files;
mod given;
mod grammar;
mod help;
pub(crate) mod import;
mod jitter;
mod line;
mod options;
mod print;
mod read;
mod spec;
mod transcript;
mod windows;

pub use args::{Asked, read};
pub use banner::Resolved;
pub use face::{Face, print};
pub use files::OpenFile;
pub use help::page;
pub use options::Page;
pub use read::{File, is_table, tell};
pub use spec::{Cores, Encoding, LogFiles, Place, Role, Sharding, Shown, Spec, Transport};
