//! A thread's context for protocols, and their output.

use metrics::{Clock, Mono, Recorder};
use transport::{Context, Message, Rng};

pub(crate) struct Surroundings {
    pub(crate) wall: Clock,
    pub(crate) rng: Rng,
    pub(crate) rec: Recorder,
    pub(crate) outbox: Vec<Message>,
}

impl Surroundings {
    pub(crate) fn new(seed: u64, wall: Clock) -> Self {
        Surroundings { wall, rng: Rng::new(seed), rec: Recorder::default(), outbox: Vec::new() }
    }

    /// The context at this instant.
    pub(crate) fn cx(&mut self, now: Mono) -> Context<'_> {
        Context::new(now, &self.wall, &mut self.rng, &mut self.rec, &mut self.outbox)
    }
}
