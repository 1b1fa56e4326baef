//! ntttcp for Linux: its command line and its console report.

mod args;
mod files;
mod help;
mod host;
pub(crate) mod import;
mod print;

pub use args::{Asked, Role, Spec, read};
pub use files::{Found, json, xml};
pub use help::PAGE;
pub use host::{Reading, Texts};
pub use print::{Face, Now, print, time_of_day};
