//! STAMP (RFC 8762, RFC 8972), and with it TWAMP-Light (RFC 5357 appendix I): numbered and stamped
//! UDP packets, and answers that say when each was received and when the answer left, so that a
//! round trip falls into its two ways.
//!
//! - [`codec`]: the packets; [`time`]: times and their errors; [`tlv`]: extensions.
//! - [`Speaker`]: a [`Pinger`](common::ping::Pinger)'s codec and statistics for this protocol.
//! - [`reflect`]: an answer to a request; [`Reflector`]: a sender's session; [`Listener`]:
//!   admission of senders.
//!
//! `docs/protocols/stamp.md` has the details, and how to use it with routers.
#![forbid(unsafe_code)]

mod clocks;
pub mod codec;
mod open;
pub mod reflect;
mod session;
mod settings;
mod speak;
pub mod time;
pub mod tlv;
mod ways;

use common::{call, one_sided, protocol};

use crate::one_sided::OneSidedProtocol;
use crate::protocol::{Info, Legacy, refused};
use model::{Kind, Phase, Ping, Range, SocketSettings, StampSettings, Transport};
pub use open::{Listener, acceptors, connectors};
pub use session::Reflector;
pub use settings::Sizes;
pub use speak::Speaker;

/// The default port (UDP).
pub const PORT: u16 = 862;

/// STAMP (RFC 8762), and so TWAMP-Light.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "ping",
        options: settings::OPTIONS,
        form: settings::form,
        keyed: true,
        legacy: Some(Legacy {
            over: "UDP",
            short: Some("Reflect STAMP and TWAMP-Light packets (RFC 8762, UDP): the same as --legacy stamp"),
            key: Some(settings::KEY),
            options: settings::OF_SERVER,
            serves: Legacy::LOCAL,
            phase: || Phase {
                kind: Kind::Ping,
                ping: Some(Ping {
                    transport: Transport::Udp,
                    size: StampSettings::default().size(),
                    stamp: Some(StampSettings::default()),
                    ..Ping::default()
                }),
                buffer: Range::just(1 << 16),
                sockets: SocketSettings { ttl: Some(255), ..SocketSettings::default() },
                ..Phase::default()
            },
            notice: protocol::returned,
            ..Legacy::PLAIN
        }),
        ..Info::new("stamp", PORT)
    },
    carries,
    connectors,
    acceptors,
};

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let ping = phase.ping.unwrap_or_default();
    let stamp = ping.stamp.unwrap_or_default();
    refused([
        (phase.kind != Kind::Ping, "answers packets and measures round trips only: use it with ping"),
        (ping.stamp.is_none(), "needs a packet format"),
        (ping.transport != Transport::Udp, "is over UDP only"),
        (ping.chunk.is_some(), "has packets that are whole datagrams"),
        (stamp.cos.is_some_and(|dscp| dscp > 63), "has answers with a DSCP of 0 to 63"),
        (
            !settings::fits(&stamp, ping.size),
            "has packets as long as their extensions, or longer by 4 bytes and more",
        ),
    ])
}
