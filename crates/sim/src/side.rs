//! What a protocol needs around it: recorder, chance, clock, posted notes.

use super::quirks::Quirks;
use metrics::{Mono, Recorder};
use transport::{Context, Message, Rng};

/// One thread's memory, of a flow in a test.
pub struct Side {
    pub rec: Recorder,
    pub outbox: Vec<Message>,
    quirks: Quirks,
    pub(super) rng: Rng,
    clock: metrics::Clock,
}

impl Side {
    /// A thread's memory; everything random in it comes from `seed`.
    pub fn new(seed: u64, quirks: Quirks) -> Self {
        let clock = quirks.clock(Mono(0));
        Side { rec: Recorder::default(), outbox: Vec::new(), quirks, rng: Rng::new(seed), clock }
    }

    /// What a protocol may know of the world at `now`.
    pub fn cx(&mut self, now: Mono) -> Context<'_> {
        self.clock = self.quirks.clock(now);
        Context::new(now, &self.clock, &mut self.rng, &mut self.rec, &mut self.outbox)
    }
}
