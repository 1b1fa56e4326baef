//! The control thread's book on a group: intervals summed over the workers, and what becomes of them in the end.

use metrics::{Ending, Mono, Tally};
use model::{CauseCount, Effective, Totals, Traffic};
use std::collections::BTreeMap;

/// One interval as the workers' tallies come in.
struct Pending {
    workers: usize,
    /// The workers' ends of it, summed, ns: they swap their tallies some microseconds apart.
    ends: u128,
    /// The latest of them, where the group ended with its payload.
    latest: Option<Mono>,
    tally: Tally,
}

/// An interval that all workers have reported.
pub(crate) struct Complete {
    pub(crate) index: u32,
    pub(crate) from: Mono,
    pub(crate) to: Mono,
    pub(crate) tally: Tally,
}

/// What is known of a group.
pub(crate) struct Book {
    workers: usize,
    start: Mono,
    omit: u64,
    /// End of the last complete interval.
    end: Mono,
    pending: BTreeMap<u32, Pending>,
    total: Tally,
    traffic: Traffic,
    peak: u64,
    effective: Option<Effective>,
    idle: usize,
    dropped: usize,
    pub(crate) before: io::host::Reading,
}

impl Book {
    pub(crate) fn new(workers: usize, start: Mono, omit: u64) -> Self {
        Book {
            workers,
            start,
            omit,
            end: start,
            pending: BTreeMap::new(),
            total: Tally::default(),
            traffic: Traffic::default(),
            peak: 0,
            effective: None,
            idle: 0,
            dropped: 0,
            before: io::host::Reading::now(),
        }
    }

    /// A worker's tally of interval `index`; the interval, when it was the last one missing.
    ///
    /// It ends at the mean of the workers' ends (the last one at the latest) and begins where the one before it ended, so
    /// that intervals neither overlap nor leave gaps.
    pub(crate) fn tally(&mut self, index: u32, to: Mono, last: bool, tally: &Tally) -> Option<Complete> {
        let fresh = || Pending { workers: 0, ends: 0, latest: None, tally: Tally::default() };
        let pending = self.pending.entry(index).or_insert_with(fresh);
        pending.workers += 1;
        pending.ends += u128::from(to.0);
        if last {
            pending.latest = pending.latest.max(Some(to));
        }
        pending.tally.merge(tally);
        if pending.workers < self.workers {
            return None;
        }
        let Pending { ends, latest, tally, .. } = self.pending.remove(&index)?;
        let to = latest.unwrap_or(Mono((ends / self.workers as u128) as u64));
        let from = self.end;
        self.end = to.max(from);
        self.peak = self.peak.max(tally.open);
        if from.since(self.start) >= self.omit {
            let traffic = Traffic { tx_bytes: tally.tx_bytes, rx_bytes: tally.rx_bytes, ns: to.since(from) };
            self.traffic.after(&traffic);
        }
        self.total.merge(&tally);
        Some(Complete { index, from, to, tally })
    }

    /// A worker's last counts, after its last interval; true when all workers have spoken.
    pub(crate) fn last(&mut self, tally: &Tally, peak: u64, effective: Option<Effective>) -> bool {
        self.total.merge(tally);
        self.peak = self.peak.max(peak);
        self.effective = self.effective.take().or(effective);
        self.dropped += 1;
        self.dropped == self.workers
    }

    /// A worker has no links of the group left; true when none has.
    pub(crate) fn idle(&mut self) -> bool {
        self.idle += 1;
        self.idle == self.workers
    }

    /// What the group found; whose it is and how it received are the session's to say.
    pub(crate) fn totals(self) -> Totals {
        let (cpu, counters) = crate::machine::usage(&self.before, &io::host::Reading::now());
        let total = self.total;
        let mut causes: Vec<CauseCount> = total
            .causes
            .iter()
            .map(|(text, c)| CauseCount {
                class: c.class,
                text: text.clone(),
                count: c.count,
                first: c.first.clone(),
            })
            .collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        causes.truncate(32);
        Totals {
            who: String::new(),
            traffic: self.traffic,
            opened: total.opened,
            completed: total.count(Ending::Completed),
            stopped: total.count(Ending::Stopped),
            network_errors: total.count(Ending::NetworkError),
            data_errors: total.count(Ending::DataError),
            protocol_errors: total.count(Ending::ProtocolError),
            causes,
            peak: self.peak,
            connect_ns: total.connect_ns.summary(),
            transfer_ns: total.transfer_ns.summary(),
            rate: total.rate.summary(),
            rates: total.rates,
            late_ns: total.late_ns.summary(),
            remotes: total.remotes,
            tcp: total.tcp,
            effective: self.effective,
            cpu: Some(cpu),
            counters,
            others: 0,
            receive: String::new(),
        }
    }
}
