//! The originals' faces: their arguments, printouts, files and exit codes.
//!
//! One folder per original, each with `args.rs` (argv to a phase), `print.rs` and `files.rs` (events and outcome to the
//! original's bytes) and `help.rs`. A face knows no socket and no protocol: it turns words into the same phases that the
//! native command line makes, and the same events into other bytes. The binary's table of faces says under which name
//! each is found. What the originals and others wrote is read back by [`import()`], as outcomes.
#![forbid(unsafe_code)]

pub mod bwdelaytester;
pub mod ctstraffic;
mod flent;
mod import;
pub mod iperf3;
mod irtt;
pub mod ntttcp;
mod options;
pub mod rttcpip;
pub mod ttcp;
pub mod udpmon;

pub use import::{import, importable};
pub use options::Request;

/// Damaged inputs for each reader: `NETCALIPER_INPUTS`, or 20,000. `bench/deep` has a million.
#[cfg(test)]
fn inputs() -> u32 {
    std::env::var("NETCALIPER_INPUTS").map_or(20_000, |n| n.parse().expect("NETCALIPER_INPUTS is a number"))
}
