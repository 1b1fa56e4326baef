//! What opens connections, and what answers connections and datagrams.

use super::respond::Responder;
use crate::call::Caller;
use crate::one_sided::{Answers, Calls, GROUP, Notice};
use common::Acl;
use common::ping::{Far, Params, Pinger};
use common::{Limit, LimitReached};
use metrics::{Ending, Packets, Row};
use model::{Level, Phase};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Acceptor, Cause, Connector, Context, Flow, Path, Received, Transmit};

/// A client's sources of links for `phase`.
#[must_use]
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params::of(phase, GROUP, Far::Nothing));
    let datagrams = params.datagrams();
    let make = move |cx: &mut Context<'_>, slot: u32| -> Box<dyn Flow> {
        Box::new(Pinger::new(Arc::clone(&params), cx.rng.uuid(), slot))
    };
    Caller::for_all(phase, calls, datagrams, &make)
}

/// A server's sources of links for `phase`.
#[must_use]
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let shared = Arc::new(Shared {
        acl: answers.acl.clone(),
        datagrams: answers.streams.clone(),
        limit: Limit::new(answers.exit_after),
        stall_ns: phase.stall_ns,
    });
    let one = |_| Box::new(Echoer { shared: Arc::clone(&shared), row: None }) as Box<dyn Acceptor>;
    (0..answers.workers.max(1)).map(one).collect()
}

/// Ports below this belong to services; one of them that asks for an echo is another echo, and the two would go on for ever.
const FIRST_CLIENT_PORT: u16 = 1024;

/// What a server's workers share.
struct Shared {
    acl: Acl,
    /// Whose datagrams are sent back although nobody has proven that they are theirs.
    datagrams: Acl,
    limit: Limit,
    stall_ns: u64,
}

/// Echoes on one worker: connections have a flow each; datagrams are sent back where they came from, which needs no memory.
pub struct Echoer {
    shared: Arc<Shared>,
    /// Where datagrams are counted, once there are any.
    row: Option<Row>,
}

impl Echoer {
    /// Says, once for each address, that its datagrams are not sent back.
    fn refuse(cx: &mut Context<'_>, peer: SocketAddr) {
        let who = peer.ip().to_canonical();
        let text = match peer.port() {
            0..FIRST_CLIENT_PORT => format!(
                "{who} asked for an echo from port {}, which belongs to a service: two echo services would never end",
                peer.port()
            ),
            _ => format!(
                "{who} asked for a UDP echo and gets none: a datagram proves no address, so echoes go to this host and \
                 directly connected networks only, unless NETCALIPER_ALLOW names the network"
            ),
        };
        cx.outbox.push(Box::new(Notice { level: Level::Warning, text }));
    }
}

impl Acceptor for Echoer {
    fn accept(&mut self, _: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        let Shared { acl, limit, stall_ns, .. } = &*self.shared;
        (acl.admits(path.peer.ip()) && limit.enter())
            .then(|| Box::new(Responder::new(GROUP, *stall_ns)) as Box<dyn Flow>)
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let peer = got.from?.peer;
        if !self.shared.acl.admits(peer.ip()) {
            return None;
        }
        if !self.shared.datagrams.admits(peer.ip()) || peer.port() < FIRST_CLIENT_PORT {
            Echoer::refuse(cx, peer);
            return None;
        }
        let row = *self.row.get_or_insert_with(|| cx.rec.open(GROUP, cx.now));
        let own = reply.own(got.bytes.len());
        let n = own.len();
        own.copy_from_slice(&got.bytes[..n]);
        cx.rec.received(row, got.bytes.len() as u64);
        cx.rec.sent(row, n as u64);
        cx.rec.packets(row, &Packets { sent: 1, received: 1, ..Packets::default() });
        None
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        if self.shared.limit.leave() {
            cx.outbox.push(Box::new(LimitReached));
        }
    }

    fn stop(&mut self) {}
}
