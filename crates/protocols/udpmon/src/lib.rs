//! UDPmon 1.5.2 (Richard Hughes-Jones, University of Manchester): trains of numbered packets, and
//! one conversation about them on the same UDP port.
//!
//! ```text
//! udpmon_bw_mon                                     udpmon_resp
//!   ZEROSTATS, with what is to be counted ──────────▶
//!   ◀────────────────────────────────────────────── OK
//!   REQ_RESP, 200 times, if records are wanted ─────▶
//!   ◀──────────────────────────────────────── RESPONSE     the two clocks
//!   START ──────────────────────────────────────────▶
//!   ◀────────────────────────────────────────────── OK
//!   DATA 0 ─────────────────────────────────────────▶
//!   DATA 1 … each at its time ──────────────────────▶
//!   GETSTATS, GETHIST0 and others, piece by piece ──▶
//!   ◀─────────────────────── each piece, without a head
//!   TESTEND ────────────────────────────────────────▶
//!   ◀────────────────────────────────────────────── OK
//! ```
#![forbid(unsafe_code)]

pub mod blocks;
pub mod codec;
mod compat;
mod packet_stats;
mod packet_test;
mod params;
pub mod proc;
mod readings;
mod request;
mod respond;
mod series;
mod shown;
mod talk;
pub mod tcpmon;
mod train;

use common::{call, host, one_sided, payload, protocol};

use crate::one_sided::OneSidedProtocol;
use crate::protocol::{Info, Legacy, refused};
pub use codec::PORT;
use model::{Count, Counts, CountsByWay, EndCounts, Kind, Phase, Range, SocketSettings};
pub use packet_test::{
    PacketTest, PacketTestCard, PacketTestClock, PacketTestCounts, PacketTestCpu, PacketTestHost,
    PacketTestInterface, PacketTestIp, PacketTestLatency, PacketTestLost, PacketTestPut, PacketTestRecord,
    PacketTestRecords, PacketTestRole, PacketTestSettings,
};
pub use params::Params;
pub use request::{Requester, connectors};
pub use respond::{Listener, Responder, acceptors};

/// Name of the results of UDPmon and tcpmon.
const NAME: &str = "udpmon";

/// A responder's counts of the packets that it received.
const REPORTED: Counts = Counts::of(&[
    Count::ReceivedBytes,
    Count::ReceivedDatagrams,
    Count::LostDatagrams,
    Count::ReorderedDatagrams,
]);

/// The protocol of UDPmon.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "train",
        legacy: Some(Legacy {
            over: "UDP",
            serves: Legacy::LOCAL,
            phase: || Phase {
                kind: Kind::Train,
                extra: PacketTestSettings::default().extra(),
                buffer: Range::just(1 << 16),
                // Losses of our own buffer are not the network's.
                sockets: SocketSettings {
                    rcvbuf: Some(4 << 20),
                    card_stamps: true,
                    ..SocketSettings::default()
                },
                ..Phase::default()
            },
            ..Legacy::PLAIN
        }),
        originals: compat::ORIGINALS,
        importers: compat::IMPORTERS,
        settings: Some(NAME),
        series: series::series,
        counts: EndCounts {
            client: CountsByWay { up: Counts::SENDER.and(REPORTED), ..EndCounts::OWN.client },
            ..EndCounts::OWN
        },
        // Round trips and streams without a conversation.
        unreported: |phase| {
            PacketTestSettings::of(phase).is_some_and(|asked| asked.role != PacketTestRole::Stream)
        },
        ..Info::new(NAME, PORT)
    },
    carries,
    connectors,
    acceptors,
};

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let returned = phase.pattern.sends_down() || phase.train.as_ref().is_some_and(|train| train.echo);
    refused([
        (phase.kind != Kind::Train, "carries trains of packets only: use it with train"),
        (returned, "sends trains to the server only"),
    ])?;
    PacketTestSettings::of(phase).map_or(Ok(()), |asked| asked.check())
}
