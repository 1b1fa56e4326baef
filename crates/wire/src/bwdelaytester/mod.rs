//! bwdelaytester (arnoutdekimo, commit of 2022-11): numbered and stamped datagrams in one direction, either end.
//!
//! Nothing is agreed on, nothing is answered, nothing says that a run is over. `docs/protocols/bwdelaytester.md` has the
//! packet, what the original makes of it, and what is made of it here.
//!
//! - [`codec`]: a datagram.
//! - [`Sender`]: a client's flow.
//! - [`Receiver`]: what listens at a server's bound sockets; it answers nobody.

pub mod codec;
mod open;
mod receive;
mod schedule;
mod send;

pub use open::{acceptors, connectors};
pub use receive::{Receiver, Taken};
pub use send::Sender;

/// The port, UDP: the original knows no other.
pub const PORT: u16 = 8888;
