//! tcpmon 2.2.1, UDPmon's sister: messages over a TCP connection, then questions about them on the
//! same connection.
//!
//! ```text
//! tcpmon_mon                                        tcpmon_resp
//!   DATA, of any length, again and again ───────────▶ counted
//!   GETSTATS ───────────────────────────────────────▶
//!   ◀─────────────────── the same head with the sums
//!   GETNETSNMP, GETNICSTATS twice, GETCPULOAD ──────▶
//!   ◀─────────────────────── a block, whole, for each
//!   FIN
//! ```

pub mod codec;
mod notes;
mod plan;
mod request;
mod respond;

use crate::one_sided::OneSidedProtocol;
use crate::protocol::{Defaults, Info, Legacy, refused};
pub use codec::PORT;
use common::bulk::COMPARES_NOTHING;
use model::{Count, Counts, CountsByWay, EndCounts, Kind, Pattern, Payload, Phase, Range, Verify};
pub use plan::Plan;
pub use request::{Requester, connectors};
pub use respond::{Responder, acceptors};

/// The protocol of tcpmon, UDPmon's sister.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "tcp",
        defaults: Defaults::PLAIN,
        legacy: Some(Legacy {
            phase: || Phase {
                // One connection is served at a time by the original, any number here.
                verify: Verify::Connection,
                buffer: Range::just(1 << 20),
                ..Phase::default()
            },
            ..Legacy::PLAIN
        }),
        originals: crate::compat::TCPMON,
        settings: Some(crate::NAME),
        // The responder's last words are the bytes that it received.
        counts: EndCounts {
            client: CountsByWay {
                up: Counts::SENDER.and(Counts::of(&[Count::ReceivedBytes])),
                ..EndCounts::OWN.client
            },
            ..EndCounts::OWN
        },
        ..Info::new("tcpmon", PORT)
    },
    carries,
    connectors,
    acceptors,
};

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let other = phase.transfer_high.is_some() || phase.total_bytes.is_some() || phase.burst.is_some();
    refused([
        (phase.kind != Kind::Tcp, "has messages in one direction: it carries goodput only"),
        (phase.pattern != Pattern::Push, "sends from the client to the server only"),
        (phase.verify == Verify::Data, COMPARES_NOTHING),
        (phase.payload != Payload::Pattern, "sends the pattern, which is not compared"),
        (other, "sends messages of one length until a transfer is over or the time is up"),
    ])
}
