//! Protocols as codecs and state machines over bytes.
//!
//! Nothing here opens a socket, reads a clock or sleeps: bytes, time and randomness are arguments, so every protocol runs
//! in virtual time against its peer (`sim`). Each packet is drawn at the top of its codec. A protocol is one object
//! ([`Protocol`]); what it may learn of its host when a session begins is [`host::HostInfo`].
#![forbid(unsafe_code)]

mod balance;
pub mod bulk;
pub mod bwdelaytester;
mod call;
pub mod config;
mod counted;
pub mod ctstraffic;
pub mod echo;
pub mod host;
pub mod iperf3;
pub mod native;
pub mod ntttcp;
pub mod one_sided;
pub mod payload;
mod pending;
pub mod protocol;
mod quota;
mod round_robin;
pub mod stamp;
pub mod tcpmon;
pub mod ttcp;
pub mod udpmon;
mod verdicts;

pub use config::{ClientConfig, Placement, ProtocolOptions, ServerConfig};
pub use protocol::Protocol;
pub use verdicts::FrameVerdicts;
