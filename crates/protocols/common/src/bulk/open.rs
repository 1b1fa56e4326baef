//! What opens such connections, and what answers them.

use super::{DatagramSender, Filler, Marks, Params, Receiver, Sender};
use crate::call::{Answerer, Caller};
use crate::one_sided::{Answers, Calls, GROUP};
use model::Phase;
use std::sync::Arc;
use transport::{Connector, Context, Flow};

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
pub fn acceptors(phase: &Phase, answers: &Answers, filler: Filler) -> Vec<Answerer> {
    let params = Arc::new(Params { arrivals: answers.arrivals, ..Params::of(phase, GROUP, filler) });
    let make = move |_: &mut Context<'_>| Box::new(Receiver::new(Arc::clone(&params))) as Box<dyn Flow>;
    Answerer::for_all(answers, make)
}
