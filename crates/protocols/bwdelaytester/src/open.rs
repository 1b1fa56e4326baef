//! What opens a client's flows, and what listens at a server.

use super::receive::Receiver;
use super::send::Sender;
use crate::call::Caller;
use crate::one_sided::{Answers, Calls, GROUP};
use model::Phase;
use std::sync::Arc;
use transport::{Acceptor, Connector, Context, Flow};

/// A client's sources of links for `phase`.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let all = Arc::new(phase.clone());
    let make =
        move |_: &mut Context<'_>, slot: u32| -> Box<dyn Flow> { Box::new(Sender::new(&all, GROUP, slot)) };
    Caller::for_all(phase, calls, true, &make)
}

/// A server's sources of links for `phase`.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let late_ns = phase.probe.unwrap_or_default().late_ns;
    let one = |_| Box::new(Receiver::new(answers.clone(), late_ns)) as Box<dyn Acceptor>;
    (0..answers.workers.max(1)).map(one).collect()
}
