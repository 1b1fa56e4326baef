//! What opens such connections, and what answers them.

use super::{Filler, Marks, Params, Pourer, Receiver, Sender};
use crate::call::Caller;
use crate::ctstraffic::{Limit, LimitReached};
use crate::native::Fence;
use crate::solo::{Answers, Calls, GROUP};
use metrics::Ending;
use model::Phase;
use std::sync::Arc;
use transport::{Cause, Context, Flow, Open, Opener, Path};

/// A client's openers: it sends.
pub(crate) fn callers(phase: &Phase, calls: &Calls, filler: Filler) -> Vec<Box<dyn Opener>> {
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP, filler) });
    let make = move |_: &mut Context<'_>, slot: u32| {
        Box::new(Sender::new(Arc::clone(&params), slot)) as Box<dyn Flow>
    };
    Caller::for_all(phase, calls, false, &make)
}

/// A client's openers: it sends datagrams.
pub(crate) fn pourers(phase: &Phase, calls: &Calls, filler: Filler, marks: Marks) -> Vec<Box<dyn Opener>> {
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP, filler) });
    let make = move |_: &mut Context<'_>, slot: u32| -> Box<dyn Flow> {
        Box::new(Pourer::new(Arc::clone(&params), marks, slot))
    };
    Caller::for_all(phase, calls, true, &make)
}

/// A server's openers: it receives.
pub(crate) fn answerers(phase: &Phase, answers: &Answers, filler: Filler) -> Vec<Box<dyn Opener>> {
    let house = Arc::new(House {
        params: Arc::new(Params { arrivals: answers.arrivals, ..Params::of(phase, GROUP, filler) }),
        fence: answers.fence.clone(),
        limit: Limit::new(answers.exit_after),
    });
    let one = |_| Box::new(Answerer { house: Arc::clone(&house) }) as Box<dyn Opener>;
    (0..answers.workers.max(1)).map(one).collect()
}

/// What a server's workers share.
struct House {
    params: Arc<Params>,
    fence: Fence,
    limit: Limit,
}

/// Answers connections on one worker.
struct Answerer {
    house: Arc<House>,
}

impl Opener for Answerer {
    fn open(&mut self, _: &mut Context<'_>) -> Open {
        Open::Idle
    }

    fn accept(&mut self, _: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        let House { params, fence, limit } = &*self.house;
        let welcome = fence.admits(path.peer.ip()) && limit.enter();
        welcome.then(|| Box::new(Receiver::new(Arc::clone(params))) as Box<dyn Flow>)
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        if self.house.limit.leave() {
            cx.outbox.push(Box::new(LimitReached));
        }
    }

    fn stop(&mut self) {}
}
