//! bwdelaytester (arnoutdekimo, commit of 2022-11): numbered and stamped datagrams in one
//! direction, either end.
//!
//! The ends agree on nothing, answer nothing, and do not mark the end of a run.
//! `docs/protocols/bwdelaytester.md` has the packet, the original's reading of it, and ours.
//!
//! - [`codec`]: a datagram.
//! - [`Sender`]: a client's flow.
//! - [`Receiver`]: acceptor of a server's bound sockets; it never answers.
#![forbid(unsafe_code)]

pub mod codec;
mod compat;
mod receive;
mod schedule;
mod send;
mod settings;

use common::{one_sided, protocol};

use crate::one_sided::{Answers, Calls, GROUP, OneSidedProtocol};
use crate::protocol::{Info, Legacy, Workers, carried, refused};
use common::call::Caller;
use metrics::Clamped;
use model::{Event, Kind, Pattern, Phase, Probe, Range, SocketSettings, Spacing};
pub use receive::{DatagramRow, Receiver};
pub use send::Sender;
pub use settings::{Settings, Stairs};
use transport::{Acceptor, Connector};

const NAME: &str = "bwdelaytester";
/// The port, UDP: the original knows no other.
pub const PORT: u16 = 8888;

pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        // No sender gets a socket of its own, and of several bound to one port the kernel prefers
        // that of the core on which a datagram arrived: one stream would be counted in two places.
        workers: Workers::OneServing,
        legacy: Some(Legacy {
            over: "UDP",
            serves: Legacy::LOCAL,
            phase: || Phase {
                kind: Kind::Delay,
                probe: Some(Probe::default()),
                buffer: Range::just(1 << 16),
                sockets: SocketSettings { rcvbuf: Some(4 << 20), ..SocketSettings::default() },
                ..Phase::default()
            },
            notice: |event| {
                if let Event::Local(totals) = event { Some(compat::summary(totals)) } else { carried(event) }
            },
            ..Legacy::PLAIN
        }),
        questions: "delay",
        options: settings::OPTIONS,
        originals: compat::ORIGINALS,
        importers: compat::IMPORTERS,
        settings: Some(NAME),
        ..Info::new(NAME, PORT)
    },
    carries,
    connectors,
    acceptors,
};

/// A client's sources of links for `phase`.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let all = phase.clone();
    Caller::one_per_worker(phase, calls, true, move |_, slot| Sender::new(&all, GROUP, slot))
}

/// A server's sources of links for `phase`.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let late_ns = phase.probe.unwrap_or_default().late_ns;
    let one = |_| Box::new(Receiver::new(answers.clone(), late_ns)) as Box<dyn Acceptor>;
    (0..answers.workers.max(1)).map(one).collect()
}

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let Some(Probe { size, spacing, .. }) = phase.probe.filter(|_| phase.kind == Kind::Delay) else {
        return Err("sends numbered datagrams one way and nothing else: use it with delay");
    };
    let too_large = usize::clamped(size) > codec::LARGEST;
    refused([
        (phase.pattern != Pattern::Push, "sends from client to server only"),
        (too_large, "has datagrams of 16 to 2000 bytes: its receiver reads no more of one"),
        (spacing != Spacing::Fixed, "sends at even spacing only"),
    ])?;
    Settings::of(phase).check()
}
