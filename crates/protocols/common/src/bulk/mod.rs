//! Data without framing, as ttcp, ntttcp and their kin send it: nothing on the wire marks the
//! begin, the length or the arrival of a test; the end of a stream is its FIN, datagrams have no
//! number.
//!
//! - [`Filler`]: the bytes of the payload. Receivers of such protocols ignore them.
//! - [`Timetable`]: which part of a connection counts, and until when senders send.
//! - [`Sender`], [`Receiver`]: the two ends of a TCP connection.
//! - [`Marks`], [`Word`]: what frames a test over datagrams.
//! - [`DatagramSender`]: the sending end of one. Receivers are the protocols' own.
//! - [`connectors`], [`receivers`]: what opens such connections, and what answers them.

mod datagram;
mod fill;
mod marks;
mod measured;
mod open;
mod params;
mod receive;
mod send;
mod table;

use crate::protocol::refused;
pub use datagram::DatagramSender;
pub use fill::Filler;
pub use marks::{Marks, Word};
use model::{Kind, Pattern, Payload, Phase, Spacing, Verify};
pub use open::{connectors, receivers};
pub use params::{Params, UNLIMITED};
pub use receive::Receiver;
pub use send::CLOSE;
pub use send::Sender;
pub use table::Timetable;

/// Refuses phases beyond plain data in one direction.
pub fn carries(phase: &Phase) -> Result<(), &'static str> {
    let other = !matches!(phase.kind, Kind::Tcp | Kind::Delay);
    let uneven = phase.probe.is_some_and(|probe| probe.spacing != Spacing::Fixed);
    refused([
        (other, "has nothing but data in one direction: it carries goodput, and what delay sends"),
        (uneven, "sends datagrams at one rate, at even intervals"),
        (phase.pattern != Pattern::Push, "sends from the client to the server only"),
        (phase.verify == Verify::Data, COMPARES_NOTHING),
        (phase.payload == Payload::Zeros, "sends printable characters, or random bytes"),
        (phase.total_bytes.is_some(), SHARES_NO_BYTES),
    ])
}

/// Refusal of a comparison of the payload.
pub const COMPARES_NOTHING: &str =
    "agrees on no payload: its receivers compare nothing, so ask for --verify connection or none";
/// Refusal of a number of bytes for the whole run.
pub const SHARES_NO_BYTES: &str =
    "cannot share a number of bytes among connections: use a transfer and iterations";
