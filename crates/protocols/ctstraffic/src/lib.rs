//! ctsTraffic (Microsoft): wire-compatible with 2.0.1.x to 2.0.4.x, either end.
//!
//! Nothing is negotiated, so both ends need the same settings; what differs shows as an error or,
//! in the original, as a hang. `docs/protocols/ctstraffic.md` has the packets, the states and what
//! mismatches look like.
//!
//! - [`codec`]: identifier and completion.
//! - [`Connection`]: one TCP connection, either end.
//! - [`Sender`], [`Receiver`]: the two ends of a media stream over UDP.
//! - [`connectors`], [`acceptors`]: what opens connections and streams, and what answers them.
#![forbid(unsafe_code)]

pub mod codec;
mod compat;
mod media;
mod open;
mod pacing;
mod tcp;

use common::{one_sided, payload, protocol, verdicts};

use crate::one_sided::OneSidedProtocol;
use crate::protocol::{Info, Legacy, OtherSettings, Ranges, refused};
pub use media::{HZ, Receiver, Ring, Sender};
use model::{Kind, Media, Payload, Phase};
pub use open::{acceptors, connectors};
pub use tcp::{Connection, Role};

/// The default port, TCP and UDP.
pub const PORT: u16 = 4444;

/// The protocol of Microsoft's ctsTraffic.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "tcp, connect, stream; its server must have the same pattern and transfer",
        legacy: Some(Legacy {
            serves: "everybody; push, 1 GiB a connection, as usual",
            phase: compat::usual_phase,
            settings: Some(OtherSettings {
                read: compat::settings,
                help: "ctstraffic takes the settings that its two ends share, in its own words: 'ctstraffic:4444 -pattern:pull \
                       -transfer:1000000', for streams 'ctstraffic -protocol:udp -bitspersecond:25000000 -framerate:60 \
                       -streamlength:60'",
            }),
            beside: Some(compat::usual_stream),
            ..Legacy::PLAIN
        }),
        originals: compat::ORIGINALS,
        importers: compat::IMPORTERS,
        ranges: Ranges::Random,
        ..Info::new("ctstraffic", PORT)
    },
    carries,
    connectors,
    acceptors,
};

fn carries(phase: &Phase) -> Result<(), &'static str> {
    // A shorter last datagram takes from the one before, which must stay longer than a header.
    let split = |media: Media| media.datagram < 53 && media.frame_size > u64::from(media.datagram);
    let streams_up = phase.kind == Kind::Stream && phase.pattern.sends_up();
    refused([
        (phase.media.is_some_and(split), "cannot split frames into datagrams of less than 53 bytes"),
        (streams_up, "streams media from the server only"),
        (phase.kind == Kind::Ping, "sends nothing back: it carries no round trips"),
        (phase.kind.probes(), "carries no delay; native does"),
        (phase.payload != Payload::Pattern, "has one payload, the pattern: both ends compare with it"),
        (
            phase.total_bytes.is_some(),
            "cannot end after a number of bytes: the server would wait for the rest of a connection that was cut short; use a \
             transfer and iterations",
        ),
    ])
}
