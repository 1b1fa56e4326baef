//! The originals: their arguments, printouts, files and exit codes.
//!
//! One folder per original: `args.rs` (argv to a phase), `print.rs` and `files.rs` (events and outcome to the original's bytes),
//! `help.rs`, `import.rs` (the original's files to an outcome). No socket and no flow is known here: words become the same
//! phases that the native command line makes, and the same events become other bytes. The binary's table of originals has the
//! names under which each is found. What the originals and others wrote is read by [`import()`], as outcomes.
#![forbid(unsafe_code)]

pub mod bwdelaytester;
pub mod ctstraffic;
mod flent;
mod import;
pub mod iperf3;
mod irtt;
pub mod ntttcp;
mod number;
mod options;
pub mod rttcpip;
pub mod ttcp;
pub mod udpmon;

pub use import::{NamedFile, import, importable};
pub use options::Request;

/// Damaged inputs for each reader: `NETCALIPER_INPUTS`, or 20,000. `bench/deep` has a million.
#[cfg(test)]
fn inputs() -> u32 {
    std::env::var("NETCALIPER_INPUTS").map_or(20_000, |n| n.parse().expect("NETCALIPER_INPUTS is a number"))
}
