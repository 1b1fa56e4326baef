//! ntttcp for Linux: its command line, its console report and its files; and those of Windows NTttcp.

mod args;
mod files;
mod help;
mod host;
pub(crate) mod import;
mod opening;
mod print;
mod sockets;
mod tables;
mod windows;
mod windows_xml;

pub use args::{Role, Spec, read};
pub use files::{Results, Thread, json, xml};
pub use help::PAGE;
pub use host::{Reading, Texts};
pub use opening::HostFacts;
pub use print::{Now, Printer, print, time_of_day};
pub use windows::is_meant as is_windows;
