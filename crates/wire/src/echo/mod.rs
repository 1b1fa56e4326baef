//! Echo (RFC 862): whatever is sent comes back. TCP and UDP, either end.
//!
//! The echoing end knows nothing: it sends back the bytes it reads, in their order, at once, however they come. All that is
//! measured is the asking end's: what it puts into a message ([`codec`]), when it sends it, and when it is back ([`Pinger`]).
//! Any echo service will do, and so does RtTcpipServer (`docs/protocols/rttcpip.md`).
//!
//! - [`codec`]: a message.
//! - [`Pinger`]: one connection of the asking end.
//! - [`Responder`]: one connection of the echoing end; [`Echoer`]: what answers connections and datagrams there.

mod book;
pub mod codec;
mod open;
mod params;
mod ping;
mod respond;
mod slots;
mod talk;

pub use open::{Echoer, acceptors, connectors};
pub use params::{Far, Params};
pub use ping::{Pinger, Samples};
pub use respond::Responder;
pub(crate) use talk::{Said, Talk, Times};

/// The default port, TCP and UDP.
pub const PORT: u16 = 7;
