//! ctsTraffic (Microsoft): wire-compatible with 2.0.1.x to 2.0.4.x, either end.
//!
//! Nothing is negotiated, so both ends need the same settings; what differs shows as an error or, in the original, as a
//! hang. `docs/protocols/ctstraffic.md` has the packets, the states and what mismatches look like.
//!
//! - [`codec`]: identifier and completion.
//! - [`Connection`]: one TCP connection, either end.
//! - [`Sender`], [`Receiver`]: the two ends of a media stream over UDP.
//! - [`Caller`], [`Answerer`]: what opens connections and streams, and what answers them.

pub mod codec;
mod media;
mod open;
mod params;
mod tcp;

pub use media::{HZ, MediaParams, Receiver, Ring, Sender};
pub use open::{Answerer, Caller, Limit, LimitReached, acceptors, connectors};
pub use params::Params;
pub use tcp::{Connection, Role};

/// The default port, TCP and UDP.
pub const PORT: u16 = 4444;
