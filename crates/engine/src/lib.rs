//! Joins sessions and flows to the sockets of a platform.
//!
//! The control thread runs one session: negotiation, intervals, results. Worker threads own the
//! data sockets, one reactor and one recorder each, and share nothing; commands go down and reports
//! go up through mailboxes. Nothing here knows a protocol, or the system: both are [`transport`]'s
//! traits, so that simulations run the code that ships.
#![forbid(unsafe_code)]

mod control;
mod exhausted;
mod group;
mod link;
mod member;
mod outgoing;
mod process;
mod setup;
mod surroundings;
mod threads;
mod worker;

pub use control::Control;
pub use group::HostMeter;
pub use member::Member;
pub use setup::{KillProcess, Setup};
pub use transport::Interrupt;

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
        /// The kernel's error.
        fault: transport::Fault,
    },
    /// The system refused something that nothing works without.
    #[error("{what}: {source}")]
    System {
        /// The action.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A request to end arrived before the run had begun; one sentence.
    #[error("{0}")]
    Interrupted(String),
    /// A setting cannot work here; one sentence.
    #[error("{0}")]
    Setting(String),
}
