//! What opens connections, and what answers connections and datagrams.

use super::respond::Responder;
use common::Acl;
use common::call::{Answerer, Caller};
use common::kernel::Unconnected;
use common::one_sided::{Answers, Calls, GROUP};
use common::ping::{Params, Pinger, Remote};
use model::Phase;
use std::sync::Arc;
use transport::{Acceptor, Connector, Context, Flow, Received, Transmit};

/// A client's sources of links for `phase`.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params::of(phase, GROUP, Remote::Nothing));
    let datagrams = params.datagrams();
    let make = move |cx: &mut Context<'_>, slot: u32| -> Box<dyn Flow> {
        Box::new(Pinger::new(Arc::clone(&params), cx.rng.uuid(), slot))
    };
    Caller::for_all(phase, calls, datagrams, &make)
}

/// A server's sources of links for `phase`: connections have a flow each; datagrams are sent back where they came from, which needs no
/// memory.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let stall_ns = phase.stall_ns;
    let make = move |_: &mut Context<'_>| Box::new(Responder::new(GROUP, stall_ns)) as Box<dyn Flow>;
    let with_datagrams = |answerer: Answerer| {
        let (streams, mut account) = (answers.streams.clone(), Unconnected::new(GROUP));
        answerer
            .with_datagrams(move |cx, got, reply| send_back(cx, got, reply, &streams, &mut account))
            .boxed()
    };
    Answerer::for_all(answers, make).into_iter().map(with_datagrams).collect()
}

/// Ports below this belong to services; one of them that asks for an echo is another echo, and the two would go on for ever.
const FIRST_CLIENT_PORT: u16 = 1024;

/// Answers a datagram of an address of which `streams` says that it needs no proof; counted in `account`.
fn send_back(
    cx: &mut Context<'_>,
    got: &Received<'_>,
    reply: &mut Transmit<'_>,
    streams: &Acl,
    account: &mut Unconnected,
) {
    let Some(peer) = got.from.map(|path| path.peer) else { return };
    if peer.port() < FIRST_CLIENT_PORT {
        let port = peer.port();
        let why = "which belongs to a service: two echo services would never end";
        let text = |who| format!("{who} asked for an echo from port {port}, {why}");
        return account.pending.warn_once(cx, peer.ip(), text);
    }
    if !streams.admits(peer.ip()) {
        return account.pending.refuse(cx, peer.ip(), "a UDP echo", "echoes");
    }
    let n = reply.copy(got.bytes);
    account.answered(cx, got.len, n);
}
