//! Runs it: joins sessions and flows to sockets.
//!
//! The control thread runs one session: negotiation, intervals, results. Worker threads own the data sockets, one reactor
//! and one recorder each, and share nothing; commands go down and reports come up through channels. Nothing here knows a
//! protocol.
#![forbid(unsafe_code)]

mod client;
mod control;
mod group;
mod interrupt;
mod iperf3;
mod link;
mod machine;
mod ntttcp;
mod place;
mod server;
mod texts;
mod worker;

pub use client::{ClientConfig, check, is_ours, is_resolving, resolve_targets, run, run_id, stop_servers};
pub use interrupt::{Called, Interrupt, Keys};
pub use io::card::permit_change as permit_card_change;
pub use io::host::{local_addresses, rlimit_nofile};
pub use io::process::{fail_writes_beyond_limit, on_end_asked, read_hidden, terminal_columns, to_background};
pub use iperf3::{Iperf3Client, Iperf3Credentials, Iperf3Server, iperf3_keeper};
pub use machine::{CpuMeter, snapshot, wall_now};
pub use ntttcp::send_ntttcp;
pub use place::Placement;
pub use server::{Bound, ServerConfig};

use thiserror::Error;

/// Why something could not be run at all.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A name or address could not be used.
    #[error("{0}")]
    Resolve(String),
    /// A socket could not be had.
    #[error("{at}: {fault}")]
    Socket {
        /// The address.
        at: std::net::SocketAddr,
        /// The kernel's word.
        fault: transport::Fault,
    },
    /// The system refused something that nothing works without.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
    /// A setting cannot work here; one sentence.
    #[error("{0}")]
    Setting(String),
}
