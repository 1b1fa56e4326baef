//! iperf3: its command line, its report, its JSON.

mod args;
mod disk;
mod ends;
mod help;
pub(crate) mod import;
mod json;
mod opening;
mod prefix;
mod saved;
mod server_report;
mod text;
mod units;

pub use args::{Output, Role, Spec, read};
pub use disk::DiskFile;
pub use help::HELP;
pub use json::{Facts, JsonReport};
pub use opening::program;
pub use prefix::Prefix;
pub use saved::print;
pub use server_report::ServerReport;
pub use text::{Report, Style, server_output};
