//! ntttcp for Linux (Microsoft), either end, with and without its synchronisation.
//!
//! Data is plain streams ([`bulk`]) to a row of ports; a conversation of 4-byte words beside them,
//! on the port below, agrees on a length and on when to begin. `docs/protocols/ntttcp.md` has it.
//!
//! - [`codec`]: the words.
//! - `udp`: the listener for data in datagrams.
//! - `unsynced`: tests without synchronisation at a receiver that also serves synchronised senders.
//! - `token`: how the ends of Windows NTttcp say that they are ready.
//! - [`Receiver`], [`Sender`]: the sessions of the two ends.
#![forbid(unsafe_code)]

pub mod codec;
mod compat;
mod layout;
mod open;
mod receive;
mod send;
mod sync_step;
mod tally;
mod token;
mod udp;
mod unsynced;

use common::round_robin::local_address;
use common::{config, one_sided, protocol};

pub use layout::{Layout, READY_OFFSET};
pub use open::{acceptors, connectors};
pub use receive::{Receiver, ReceiverPlan};
pub use send::{Sender, SenderPlan};
pub use sync_step::SyncStep;

use crate::config::ServerConfig;
use crate::one_sided::OneSidedProtocol;
use crate::protocol::{
    Calling, Defaults, Foreign, Info, Legacy, Listening, Ports, Protocol, Serving, Started,
};
use common::bulk;
use metrics::SECOND;
use model::{Phase, Range, Verify};

const NAME: &str = "ntttcp";

/// The default port of the first data connections; the conversation is on the one below.
pub const PORT: u16 = Layout::PORT;

/// The protocol of ntttcp: with a conversation where its [`Layout`] is among the options, without
/// one by any verb.
pub static PROTOCOL: Ntttcp = Ntttcp(OneSidedProtocol {
    info: Info {
        questions: "tcp, delay; one port of `ntttcp -r -N`",
        defaults: Defaults::PLAIN,
        legacy: Some(Legacy {
            over: "TCP, the 16 above, and those 1000 above them",
            serves: "everybody, one test at a time",
            phase: || Phase {
                verify: Verify::Connection,
                buffer: Range::just(64 << 10),
                stall_ns: 300 * SECOND,
                ..Phase::default()
            },
            // ttcp has the usual port of both.
            aside: Some(5101),
            config: compat::row_of_ports,
            // One of the conversation, and two for each of the 16 data ports.
            ports: 33,
            one_test: true,
            notice: compat::notice,
            ..Legacy::PLAIN
        }),
        foreign: Some(Foreign {
            name: NAME,
            // A receiver's answer on the port of the conversation: it is ready, busy, or knows the
            // length of the test.
            sends_first: |bytes| matches!(bytes, [0, 0, 0, 0x0b..=0x0d, ..]),
            refusal: &[],
        }),
        originals: compat::ORIGINALS,
        importers: compat::IMPORTERS,
        ..Info::new(NAME, PORT)
    },
    carries: bulk::carries,
    connectors,
    acceptors,
});

/// Plain streams to a row of ports, with or without a conversation beside them.
pub struct Ntttcp(OneSidedProtocol);

impl Protocol for Ntttcp {
    fn info(&self) -> &Info {
        &self.0.info
    }

    fn carries(&self, phase: &Phase) -> Result<(), &'static str> {
        self.0.carries(phase)
    }

    fn listening(&self, config: &ServerConfig) -> Result<Listening, String> {
        let mut listening = self.0.listening(config)?;
        if let Some(layout) = config.options.get::<Layout>().filter(|layout| layout.udp) {
            for (ports, at) in listening.ports.iter_mut().zip(&config.listen) {
                // A conversation beside datagrams has the port below them.
                if layout.talks(at.port()) {
                    *ports = Ports { connections: true, datagrams: config.also_datagrams };
                }
            }
        }
        Ok(listening)
    }

    fn client(&self, calling: &Calling<'_>) -> Result<Started, String> {
        let Calling { config, phase, host } = *calling;
        let Some(layout) = config.options.get::<Layout>() else { return self.0.client(calling) };
        let Some(peer) = config.peers.first() else { return Err("no target was given".to_owned()) };
        let port = config.ports.map(|(first, _)| first).filter(|port| *port > 0);
        let from = local_address(&config.sources, 0, port, peer.address);
        let workers = config.workers_for(phase, host.cores().len());
        let to = config.peers.iter().map(|peer| peer.address).collect();
        let plan = SenderPlan { layout: *layout, phase: phase.clone(), to, from, workers };
        Ok(Started::new(Sender::new(plan, host.now()), workers, phase))
    }

    fn server(&self, serving: &Serving<'_>) -> Result<Started, String> {
        let Serving { config, host, workers, .. } = *serving;
        let Some(layout) = config.options.get::<Layout>() else { return self.0.server(serving) };
        let phase = self.0.settled(config)?;
        let plan = ReceiverPlan {
            layout: *layout,
            phase: phase.clone(),
            acl: config.acl.clone(),
            streams: config.unproven(host),
            workers,
        };
        Ok(Started::new(Receiver::new(plan, host.now()), workers, &phase))
    }
}
