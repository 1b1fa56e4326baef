//! The control thread's state of a group: its intervals and totals, and the host's activity
//! meanwhile.

use metrics::Mono;
use model::{Aggregator, CpuUse, HostCounters, Totals};
use std::ops::Range;
use std::sync::Arc;
use transport::admission::Promise;

/// Begins a measurement of the host. The result returns its activity since then.
pub type HostMeter = Arc<dyn Fn() -> Box<dyn Fn() -> (CpuUse, HostCounters) + Send> + Send + Sync>;

pub(crate) struct Watched {
    pub(crate) aggregator: Aggregator,
    /// The workers that it is on.
    pub(crate) workers: Range<usize>,
    /// Worker processes that do not know it yet.
    pub(crate) beginning: usize,
    /// Places of the links that a peer was promised.
    pub(crate) promise: Option<Promise>,
    meter: Option<HostMeter>,
    used: Option<Box<dyn Fn() -> (CpuUse, HostCounters) + Send>>,
}

impl Watched {
    pub(crate) fn new(aggregator: Aggregator, workers: Range<usize>, meter: Option<HostMeter>) -> Self {
        let used = meter.as_ref().map(|start| start());
        Watched { aggregator, workers, beginning: 0, promise: None, meter, used }
    }

    /// The group that waited for its start begins.
    pub(crate) fn begin(&mut self, at: Mono) {
        self.aggregator.begin(at);
        self.used = self.meter.as_ref().map(|start| start());
    }

    /// The totals of the group, and the host's part in them.
    pub(crate) fn totals(self) -> Totals {
        let (cpu, counters) = self.used.map(|used| used()).unzip();
        self.aggregator.totals_with_host(cpu, counters.unwrap_or_default())
    }
}
