//! ntttcp for Linux (Microsoft), either end, with and without its synchronisation.
//!
//! Data is plain streams ([`bulk`](crate::bulk)) to a row of ports; a conversation of 4-byte words beside them, on the port
//! below, agrees on a length and on when to begin. `docs/protocols/ntttcp.md` has it.
//!
//! - [`codec`]: the words.
//! - `udp`: what listens where data comes in datagrams.
//! - `unsynced`: tests without synchronisation at a receiver that also serves synchronised senders.
//! - `token`: how the ends of Windows NTttcp say that they are ready.
//! - [`Receiver`], [`Sender`]: the sessions of the two ends.

pub mod codec;
mod open;
mod receive;
mod send;
mod tally;
mod token;
mod udp;
mod unsynced;

pub use model::{Layout, READY_OFFSET};
pub use open::{acceptors, connectors};
pub use receive::{Receiver, ReceiverPlan};
pub use send::{Sender, SenderPlan};

/// The default port of the first data connections; the conversation is on the one below.
pub const PORT: u16 = Layout::PORT;
