//! What opens such connections, and what answers them.

use super::{DatagramSender, Filler, Marks, Params, Receiver, Sender};
use crate::Acl;
use crate::call::Caller;
use crate::one_sided::{Answers, Calls, GROUP};
use crate::{Limit, LimitReached};
use metrics::Ending;
use model::Phase;
use std::sync::Arc;
use transport::{Acceptor, Cause, Connector, Context, Flow, Path};

/// A client's sources of links: it sends.
pub fn connectors(phase: &Phase, calls: &Calls, filler: Filler) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP, filler) });
    let make = move |_: &mut Context<'_>, slot: u32| {
        Box::new(Sender::new(Arc::clone(&params), slot)) as Box<dyn Flow>
    };
    Caller::for_all(phase, calls, false, &make)
}

/// A client's sources of links: it sends datagrams.
pub fn datagram_connectors(
    phase: &Phase,
    calls: &Calls,
    filler: Filler,
    marks: Marks,
) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP, filler) });
    let make = move |_: &mut Context<'_>, slot: u32| -> Box<dyn Flow> {
        Box::new(DatagramSender::new(Arc::clone(&params), marks, slot))
    };
    Caller::for_all(phase, calls, true, &make)
}

/// A server's sources of links: it receives.
pub fn acceptors(phase: &Phase, answers: &Answers, filler: Filler) -> Vec<Box<dyn Acceptor>> {
    let shared = Arc::new(Shared {
        params: Arc::new(Params { arrivals: answers.arrivals, ..Params::of(phase, GROUP, filler) }),
        acl: answers.acl.clone(),
        limit: Limit::new(answers.exit_after),
    });
    let one = |_| Box::new(Answerer { shared: Arc::clone(&shared) }) as Box<dyn Acceptor>;
    (0..answers.workers.max(1)).map(one).collect()
}

/// What a server's workers share.
struct Shared {
    params: Arc<Params>,
    acl: Acl,
    limit: Limit,
}

/// Answers connections on one worker.
struct Answerer {
    shared: Arc<Shared>,
}

impl Acceptor for Answerer {
    fn accept(&mut self, _: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        let Shared { params, acl, limit } = &*self.shared;
        let welcome = acl.admits(path.peer.ip()) && limit.enter();
        welcome.then(|| Box::new(Receiver::new(Arc::clone(params))) as Box<dyn Flow>)
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        if self.shared.limit.leave() {
            cx.outbox.push(Box::new(LimitReached));
        }
    }

    fn stop(&mut self) {}
}
