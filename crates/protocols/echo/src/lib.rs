//! Echo (RFC 862): all received data is sent back. TCP and UDP, either end.
//!
//! The echoing end knows nothing: it sends back the bytes it reads, in their order, at once, in any
//! pieces. The asking end makes all measurements: the content of a message
//! ([`codec`](common::ping::codec)), its departure and its return
//! ([`Pinger`](common::ping::Pinger)). Any echo service will do, and so does RtTcpipServer
//! (`docs/protocols/rttcpip.md`).
//!
//! - [`Responder`]: one connection of the echoing end.
#![forbid(unsafe_code)]

mod compat;
mod open;
mod respond;

use common::{one_sided, protocol};

use crate::one_sided::OneSidedProtocol;
use crate::protocol::{Info, Legacy, refused};
use model::{Kind, Phase, Ping, Range, Transport};
pub use open::{acceptors, connectors};
pub use respond::Responder;

/// The default port, TCP and UDP.
pub const PORT: u16 = 7;

/// Plain echo (RFC 862), and so RtTcpip's.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "ping",
        legacy: Some(Legacy {
            over: "TCP and UDP",
            short: Some("Echo (RFC 862): the same as --legacy echo"),
            serves: Legacy::MIXED,
            phase: || Phase {
                kind: Kind::Ping,
                ping: Some(Ping { transport: Transport::Udp, ..Ping::default() }),
                buffer: Range::just(1 << 16),
                ..Phase::default()
            },
            notice: protocol::returned,
            ..Legacy::PLAIN
        }),
        originals: compat::ORIGINALS,
        ..Info::new("echo", PORT)
    },
    carries,
    connectors,
    acceptors,
};

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let other = phase.kind != Kind::Ping;
    refused([(other, "sends everything back and measures round trips only: use it with ping")])?;
    common::ping::without_stamp(phase)
}
