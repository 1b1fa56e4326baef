//! A group as a worker sees it.

use metrics::Mono;
use model::Effective;
use transport::{Acceptor, GroupPlan, LinkSource};

/// A group as a worker sees it.
pub(crate) struct GroupState {
    pub(crate) plan: GroupPlan,
    pub(crate) source: Option<LinkSource>,
    /// Whether accepted streams have all socket options from their listener.
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
    /// Links that are open, and from which nothing has come yet, where the plan waits for that.
    pub(super) unheard: u32,
    pub(super) open: u64,
    /// Most links open at once since the interval began.
    pub(super) peak: u64,
    /// When it was told to stop.
    pub(super) stopped: Option<Mono>,
    pub(super) exhausted: bool,
    pub(super) idle_told: bool,
    /// When to ask its source again.
    pub(super) ask_at: Option<Mono>,
    pub(super) effective: Option<Effective>,
    pub(super) sampled: usize,
}

impl GroupState {
    /// What answers the peers that reach the listeners, if this is their group.
    pub(super) fn acceptor(&mut self) -> Option<&mut dyn Acceptor> {
        match &mut self.source {
            Some(LinkSource::Acceptor(acceptor)) => Some(&mut **acceptor),
            _ => None,
        }
    }

    pub(super) fn boundary(&self) -> Mono {
        let GroupPlan { start, interval, end, .. } = self.plan;
        let next = start.plus(interval.saturating_mul(u64::from(self.state.index) + 1));
        end.map_or(next, |end| next.min(end))
    }
}
