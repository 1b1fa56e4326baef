//! Openers of such connections, and their answerers.

use super::{DatagramSender, Filler, Marks, Params, Receiver, Sender};
use crate::call::Caller;
use crate::one_sided::{Answers, Calls, GROUP};
use model::{Kind, Phase};
use std::sync::Arc;
use transport::{Connector, Context};

/// A client's sources of links: it sends, over connections or in datagrams with `marks`.
pub fn connectors(phase: &Phase, calls: &Calls, filler: Filler, marks: Marks) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP, filler) });
    if phase.kind == Kind::Tcp {
        return Caller::one_per_worker(phase, calls, false, move |_, slot| {
            Sender::new(Arc::clone(&params), slot)
        });
    }
    Caller::one_per_worker(phase, calls, true, move |_, slot| {
        DatagramSender::new(Arc::clone(&params), marks, slot)
    })
}

/// Makes the flows of a server's connections: it receives.
pub fn receivers(
    phase: &Phase,
    answers: &Answers,
    filler: Filler,
) -> impl Fn(&mut Context<'_>) -> Receiver + Clone + Send + use<> {
    let params = Arc::new(Params { arrivals: answers.arrivals, ..Params::of(phase, GROUP, filler) });
    move |_: &mut Context<'_>| Receiver::new(Arc::clone(&params))
}
