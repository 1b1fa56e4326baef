//! iperf3: its command line, its report, its JSON.

mod args;
mod desk;
mod help;
mod json;
mod text;
mod units;

pub use args::{Asked, Output, Role, Spec, read};
pub use desk::Desk;
pub use help::HELP;
pub use json::{Facts, JsonReport};
pub use text::{Report, Style, scribe};
