//! What opens a client's flows, and what listens at a server.

use super::receive::{House, Receiver};
use super::send::Sender;
use crate::call::Caller;
use crate::solo::{Answers, Calls, GROUP};
use model::Phase;
use std::sync::Arc;
use transport::{Context, Flow, Opener};

/// A client's openers for `phase`.
#[must_use]
pub fn callers(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Opener>> {
    let all = Arc::new(phase.clone());
    let make =
        move |_: &mut Context<'_>, slot: u32| -> Box<dyn Flow> { Box::new(Sender::new(&all, GROUP, slot)) };
    Caller::for_all(phase, calls, true, &make)
}

/// A server's openers for `phase`.
#[must_use]
pub fn answerers(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Opener>> {
    let late_ns = phase.probe.unwrap_or_default().late_ns;
    let house = Arc::new(House {
        fence: answers.fence.clone(),
        streams: answers.streams.clone(),
        tells: answers.arrivals,
        late_ns,
    });
    let one = |_| Box::new(Receiver::new(Arc::clone(&house))) as Box<dyn Opener>;
    (0..answers.workers.max(1)).map(one).collect()
}
