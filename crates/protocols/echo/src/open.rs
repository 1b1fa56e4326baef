//! Openers of connections, and answerers of connections and datagrams.

use super::respond::Responder;
use common::call::{Answerer, Bound, Caller};
use common::one_sided::{Answers, Calls, GROUP};
use common::pending::is_service;
use common::ping::{Params, Pinger, Remote};
use model::Phase;
use std::sync::Arc;
use transport::{Acceptor, Connector, Context, Flow, Received, Transmit};

/// A client's sources of links for `phase`.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params::of(phase, GROUP, Remote::Nothing));
    Caller::one_per_worker(phase, calls, params.datagrams(), move |cx, slot| {
        Pinger::new(Arc::clone(&params), cx.rng.uuid(), slot)
    })
}

/// A server's sources of links for `phase`: connections have a flow each; datagrams are sent back
/// to their source, which needs no memory.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let stall_ns = phase.stall_ns;
    Answerer::with_datagrams(answers, move |_| Responder::new(GROUP, stall_ns), send_back)
}

/// Answers a datagram of an address that needs no proof.
fn send_back(
    cx: &mut Context<'_>,
    got: &Received<'_>,
    reply: &mut Transmit<'_>,
    Bound { streams, account, .. }: &mut Bound,
) -> Option<Box<dyn Flow>> {
    let peer = got.from?.peer;
    account.count_drops(cx, got);
    if is_service(peer) {
        let port = peer.port();
        let why = "which belongs to a service: two echo services would never end";
        let text = |who| format!("{who} asked for an echo from port {port}, {why}");
        account.pending.warn_once(cx, peer.ip(), text);
    } else if !streams.admits(peer.ip()) {
        account.pending.refuse(cx, peer.ip(), "a UDP echo", "echoes");
    } else {
        let n = reply.copy(got.bytes);
        account.record_answer(cx, got.len, n);
    }
    None
}
