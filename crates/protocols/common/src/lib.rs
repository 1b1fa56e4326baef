//! Common parts of several protocols: a protocol as one object, the session of those without a
//! conversation, flows of bulk data and of round trips, the payload, and access control.
//!
//! Nothing here, and nothing in a protocol's crate, opens a socket, reads a clock or sleeps: bytes,
//! time and randomness are arguments, so every protocol runs in virtual time against its peer
//! (`sim`). A protocol is one object ([`Protocol`]); its view of the host when a session begins is
//! [`host::HostInfo`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod access;
pub mod auth;
pub mod balance;
pub mod bulk;
pub mod call;
pub mod capacity;
pub mod config;
pub mod counted;
pub mod draws;
pub mod driver;
mod drops;
pub mod host;
pub mod kernel;
pub mod keys;
pub mod message;
pub mod one_sided;
pub mod options;
pub mod original;
pub mod params;
pub mod payload;
pub mod pending;
pub mod ping;
pub mod protocol;
pub mod quota;
pub mod round_robin;
pub mod seen;
mod series;
pub mod servers;
pub mod verdicts;
pub mod wait;

pub use access::{Acl, Limit};
pub use auth::Psk;
pub use config::{ClientConfig, Limits, Peer, Placement, Processes, ProtocolOptions, ServerConfig};
pub use keys::{Keyring, Rights};
pub use original::{Driver, Original};
pub use params::Params;
pub use protocol::Protocol;
pub use series::Series;
pub use servers::Servers;
pub use transport::Patience;
