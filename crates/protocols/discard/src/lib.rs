//! Discard (RFC 863): all received data is thrown away. TCP and UDP, either end. And its mirror,
//! the character generator ([`chargen`]).
//!
//! Nothing is ever answered, so that any discard service will do as the remote end: its kernel
//! acknowledges, and the client's counts are of sent bytes. A server of ours counts received ones.
//! `docs/protocols/discard.md`; `docs/adding-a-protocol.md` walks through this crate.
#![forbid(unsafe_code)]

pub mod chargen;

use common::bulk::{self, Filler, Marks};
use common::call::{Answerer, Bound};
use common::one_sided::{Answers, Calls, OneSidedProtocol};
use common::protocol::{Defaults, Info, Legacy};
use metrics::{Clamped, Packets, SECOND};
use model::{Phase, Verify};
use transport::{Acceptor, Connector, Context, Flow, Received, Transmit};

pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "tcp, delay",
        defaults: Defaults::PLAIN,
        legacy: Some(Legacy {
            over: "TCP and UDP",
            serves: Legacy::MIXED,
            phase: || Phase { verify: Verify::None, stall_ns: QUIET, ..Phase::default() },
            also_datagrams: true,
            ..Legacy::PLAIN
        }),
        ..Info::new("discard", 9)
    },
    carries: bulk::carries,
    connectors,
    acceptors,
};

/// Time after which a service ends an idle connection, ns: the RFCs set no limit, and the kernel
/// finds dead peers.
const QUIET: u64 = 24 * 3_600 * SECOND;

fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    bulk::connectors(phase, calls, Filler::Printable, Marks::None)
}

fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    Answerer::with_datagrams(answers, bulk::receivers(phase, answers, Filler::Printable), count)
}

fn count(
    cx: &mut Context<'_>,
    got: &Received<'_>,
    _: &mut Transmit<'_>,
    Bound { acl, streams, account, .. }: &mut Bound,
) -> Option<Box<dyn Flow>> {
    account.count_drops(cx, got);
    if account.pending.admits(cx, acl, streams, got.from?.peer.ip()) {
        let received = u64::clamped(got.count());
        account.received(cx, got.len, &Packets { received, ..Packets::default() });
    }
    None
}
