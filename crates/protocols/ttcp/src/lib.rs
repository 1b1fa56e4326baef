//! ttcp and its descendants: BRL 1984, SGI, CERN, epi_ttcp, and Teldat's `ttcp tx` and `rx`.
//!
//! Over TCP there is nothing but data: the transmitter connects, writes, and closes; the receiver
//! takes one connection and reads to its end. Over UDP markers stand before and behind it
//! ([`bulk::Marks`]). `docs/protocols/ttcp.md` has both.
#![forbid(unsafe_code)]

mod compat;
mod receive;

use common::{call, one_sided, protocol};

pub use receive::{Deed, Marked, Test};

use crate::one_sided::OneSidedProtocol;
use crate::one_sided::{Answers, Calls};
use crate::protocol::{Defaults, Info, Legacy};
use common::Limit;
use common::bulk::{self, Filler, Marks};
use metrics::SECOND;
use model::{Phase, Verify};
use receive::{AnswerLimits, Answerer};
use std::sync::Arc;
use transport::{Acceptor, Connector};

const NAME: &str = "ttcp";
pub const PORT: u16 = 5001;

/// A transmitter's sources of links.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let marks = if calls.marks == Marks::Epi { Marks::Epi } else { Marks::Classic };
    bulk::connectors(phase, calls, Filler::Printable, marks)
}

/// A receiver's sources of links, for connections and for datagrams.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let limit = Limit::new(answers.exit_after);
    let shared = Arc::new(AnswerLimits { answers: answers.clone(), limit, stall_ns: phase.stall_ns });
    let one = |streams| Box::new(Answerer::new(streams, Arc::clone(&shared))) as Box<dyn Acceptor>;
    let receivers = bulk::receivers(phase, answers, Filler::Printable);
    call::Answerer::one_per_worker(answers, receivers).into_iter().map(one).collect()
}

/// The protocol of ttcp, Teldat's among them.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "tcp, delay; `ttcp -r`",
        defaults: Defaults::PLAIN,
        legacy: Some(Legacy {
            over: "TCP and UDP",
            serves: Legacy::MIXED,
            phase: || Phase { verify: Verify::Connection, stall_ns: 300 * SECOND, ..Phase::default() },
            also_datagrams: true,
            ..Legacy::PLAIN
        }),
        originals: compat::ORIGINALS,
        ..Info::new(NAME, PORT)
    },
    carries: bulk::carries,
    connectors,
    acceptors,
};
