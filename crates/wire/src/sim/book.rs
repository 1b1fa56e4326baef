//! What a machine knows about a group: intervals summed over its workers, and the totals.

use metrics::{Ending, Mono, Tally};
use model::{CauseCount, Totals, Traffic};
use std::collections::BTreeMap;

struct Pending {
    workers: usize,
    from: Mono,
    to: Mono,
    tally: Tally,
}

/// An interval that all workers have reported.
pub(super) struct Complete {
    pub(super) from: Mono,
    pub(super) to: Mono,
    pub(super) tally: Tally,
}

pub(super) struct Book {
    workers: usize,
    start: Mono,
    omit: u64,
    pending: BTreeMap<u32, Pending>,
    total: Tally,
    traffic: Traffic,
    idle: usize,
    dropped: usize,
    peak: u64,
}

impl Book {
    pub(super) fn new(workers: usize, start: Mono, omit: u64) -> Self {
        let (total, traffic) = (Tally::default(), Traffic::default());
        Book { workers, start, omit, pending: BTreeMap::new(), total, traffic, idle: 0, dropped: 0, peak: 0 }
    }

    /// A worker's tally of interval `index`; the interval, when it was the last one missing.
    pub(super) fn tally(&mut self, index: u32, from: Mono, to: Mono, tally: &Tally) -> Option<Complete> {
        let fresh = || Pending { workers: 0, from, to, tally: Tally::default() };
        let pending = self.pending.entry(index).or_insert_with(fresh);
        pending.workers += 1;
        pending.from = pending.from.min(from);
        pending.to = pending.to.max(to);
        pending.tally.merge(tally);
        if pending.workers < self.workers {
            return None;
        }
        let Pending { from, to, tally, .. } = self.pending.remove(&index)?;
        self.peak = self.peak.max(tally.open);
        if from.since(self.start) >= self.omit {
            let (tx_bytes, rx_bytes) = (tally.tx_bytes, tally.rx_bytes);
            self.traffic.after(&Traffic { tx_bytes, rx_bytes, ns: to.since(from) });
        }
        self.total.merge(&tally);
        Some(Complete { from, to, tally })
    }

    /// A worker has no links of the group left; true when none has.
    pub(super) fn idle(&mut self) -> bool {
        self.idle += 1;
        self.idle == self.workers
    }

    /// A worker's counts after its last interval; true when all workers have spoken.
    pub(super) fn last(&mut self, tally: &Tally, peak: u64) -> bool {
        self.total.merge(tally);
        self.peak = self.peak.max(peak);
        self.dropped += 1;
        self.dropped == self.workers
    }

    /// What the group found.
    pub(super) fn totals(self) -> Totals {
        let causes = self.total.causes.iter().map(|(text, c)| CauseCount {
            class: c.class,
            text: text.clone(),
            count: c.count,
            first: c.first.clone(),
        });
        Totals {
            traffic: self.traffic,
            opened: self.total.opened,
            completed: self.total.count(Ending::Completed),
            stopped: self.total.count(Ending::Stopped),
            network_errors: self.total.count(Ending::NetworkError),
            data_errors: self.total.count(Ending::DataError),
            protocol_errors: self.total.count(Ending::ProtocolError),
            causes: causes.collect(),
            peak: self.peak,
            connect_ns: self.total.connect_ns.summary(),
            ..Totals::default()
        }
    }
}
