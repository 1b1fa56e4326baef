//! Data without framing, as ttcp, ntttcp and their kin send it: nothing on the wire tells where a test begins, how long it
//! is or whether it arrived; the end of a stream is its FIN, datagrams have no number.
//!
//! - [`Filler`]: what the bytes are. Receivers of such protocols ignore them.
//! - [`Timetable`]: which part of a connection counts, and until when senders send.
//! - [`Sender`], [`Receiver`]: the two ends of a TCP connection.
//! - [`Marks`], [`Word`]: what frames a test over datagrams.
//! - [`DatagramSender`]: the sending end of one. Receivers are the protocols' own.
//! - `open`: what opens such connections, and what answers them.

mod datagram;
mod fill;
mod marks;
mod open;
mod params;
mod receive;
mod send;
mod table;

pub use datagram::DatagramSender;
pub use fill::Filler;
pub use marks::{Marks, Word};
pub(crate) use open::{acceptors, connectors, datagram_connectors};
pub use params::{Params, UNLIMITED};
pub(crate) use receive::FirstByte;
pub use receive::Receiver;
pub(crate) use send::CLOSE;
pub use send::Sender;
pub use table::Timetable;
