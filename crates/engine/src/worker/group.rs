//! A group as a worker sees it.

use metrics::Mono;
use model::Effective;
use transport::{Acceptor, GroupPlan, LinkSource};

/// A group as a worker sees it.
pub(crate) struct GroupState {
    pub(crate) plan: GroupPlan,
    pub(crate) source: Option<LinkSource>,
    /// True if accepted streams have all socket options from their listener.
    pub(crate) as_listeners: bool,
    /// Core to move to when it begins.
    pub(crate) core: Option<usize>,
    pub(crate) state: GroupProgress,
}

#[derive(Default)]
pub(crate) struct GroupProgress {
    pub(super) from: Mono,
    pub(super) index: u32,
    /// The last interval has been cut.
    pub(super) closed: bool,
    pub(super) connecting: u32,
    /// Number of open links without received bytes, where the plan waits for these.
    pub(super) unheard: u32,
    pub(super) open: u64,
    /// Of all groups together: begin of the time with open links whose start has been reached.
    pub(super) busy: Option<Mono>,
    /// Most links open at once since the interval began.
    pub(super) peak: u64,
    /// Time of its stop.
    pub(super) stopped: Option<Mono>,
    pub(super) exhausted: bool,
    pub(super) idle_told: bool,
    /// When to ask its source again.
    pub(super) ask_at: Option<Mono>,
    pub(super) effective: Option<Effective>,
    pub(super) sampled: usize,
}

impl GroupState {
    /// The acceptor for peers that reach the listeners, if this is their group.
    pub(super) fn acceptor(&mut self) -> Option<&mut dyn Acceptor> {
        match &mut self.source {
            Some(LinkSource::Acceptor(acceptor)) => Some(&mut **acceptor),
            _ => None,
        }
    }

    pub(super) fn boundary(&self) -> Mono {
        let GroupPlan { start, interval, end, .. } = self.plan;
        let next = start.plus(interval.saturating_mul(u64::from(self.state.index) + 1));
        match end {
            // The last interval ends when its links have.
            Some(end) if self.plan.tail && (next >= end || self.state.stopped.is_some()) => Mono(u64::MAX),
            end => end.map_or(next, |end| next.min(end)),
        }
    }

    /// End of a group whose last interval has a tail, planned or by an earlier stop, and the time
    /// up to which its schedules count: in full after the planned end.
    pub(super) fn tail_end(&self, now: Mono) -> Option<(Mono, Mono)> {
        let ends = self.plan.end.filter(|_| self.plan.tail)?;
        let stopped = self.state.stopped.unwrap_or(now).min(now);
        Some(if stopped < ends { (stopped, stopped) } else { (ends, Mono(u64::MAX)) })
    }
}
