//! What opens such connections, and what answers them.

use super::{DatagramSender, Filler, Marks, Params, Receiver, Sender};
use crate::call::{Answerer, Caller};
use crate::one_sided::{Answers, Calls, GROUP};
use model::{Kind, Phase};
use std::sync::Arc;
use transport::{Connector, Context, Flow};

/// A client's sources of links: it sends, over connections or in datagrams with `marks`.
pub fn connectors(phase: &Phase, calls: &Calls, filler: Filler, marks: Marks) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP, filler) });
    let datagrams = phase.kind != Kind::Tcp;
    let make = move |_: &mut Context<'_>, slot: u32| -> Box<dyn Flow> {
        let params = Arc::clone(&params);
        if datagrams {
            Box::new(DatagramSender::new(params, marks, slot))
        } else {
            Box::new(Sender::new(params, slot))
        }
    };
    Caller::for_all(phase, calls, datagrams, &make)
}

/// A server's sources of links: it receives.
pub fn acceptors(phase: &Phase, answers: &Answers, filler: Filler) -> Vec<Answerer> {
    let params = Arc::new(Params { arrivals: answers.arrivals, ..Params::of(phase, GROUP, filler) });
    let make = move |_: &mut Context<'_>| Box::new(Receiver::new(Arc::clone(&params))) as Box<dyn Flow>;
    Answerer::for_all(answers, make)
}
