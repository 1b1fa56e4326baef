//! What a machine knows about a group: intervals summed over its workers, and the totals.

use metrics::{Ending, Mono, Tally};
use model::{CauseCount, PacketReport, RoundTrips, Totals, Traffic};
use std::collections::BTreeMap;

struct Pending {
    workers: usize,
    /// The latest of the workers' ends of it.
    to: Mono,
    tally: Tally,
}

/// An interval that all workers have reported.
pub(super) struct Complete {
    pub(super) index: u32,
    pub(super) from: Mono,
    pub(super) to: Mono,
    pub(super) tally: Tally,
}

pub(super) struct Book {
    workers: usize,
    start: Mono,
    omit: u64,
    frames: bool,
    pending: BTreeMap<u32, Pending>,
    /// End of the last complete interval.
    end: Mono,
    /// The last intervals of workers that have reported theirs.
    finished: Vec<u32>,
    total: Tally,
    traffic: Traffic,
    idle: usize,
    dropped: usize,
    peak: u64,
}

impl Book {
    pub(super) fn new(workers: usize, start: Mono, omit: u64, frames: bool) -> Self {
        Book {
            workers,
            start,
            omit,
            frames,
            pending: BTreeMap::new(),
            end: start,
            finished: Vec::new(),
            total: Tally::default(),
            traffic: Traffic::default(),
            idle: 0,
            dropped: 0,
            peak: 0,
        }
    }

    /// The group that waited for its start begins.
    pub(super) fn begin(&mut self, at: Mono) {
        (self.start, self.end) = (at, at);
    }

    /// A worker's tally of interval `index`, which ended at `to` and was its `last`; the intervals that are complete now.
    /// A worker that has reported its last interval is not waited for in later ones.
    pub(super) fn tally(&mut self, index: u32, to: Mono, last: bool, tally: &Tally) -> Vec<Complete> {
        let fresh = || Pending { workers: 0, to, tally: Tally::default() };
        let pending = self.pending.entry(index).or_insert_with(fresh);
        pending.workers += 1;
        pending.to = pending.to.max(to);
        pending.tally.merge(tally);
        if last {
            self.finished.push(index);
        }
        let mut complete = Vec::new();
        while let Some((&index, pending)) = self.pending.first_key_value() {
            let gone = self.finished.iter().filter(|&&last| last < index).count();
            if pending.workers + gone < self.workers {
                break;
            }
            let Some(pending) = self.pending.remove(&index) else { break };
            complete.push(self.complete(index, pending));
        }
        complete
    }

    fn complete(&mut self, index: u32, Pending { to, tally, .. }: Pending) -> Complete {
        let from = self.end;
        self.end = to.max(from);
        self.peak = self.peak.max(tally.open);
        if from.since(self.start) >= self.omit {
            let (tx_bytes, rx_bytes) = (tally.tx_bytes, tally.rx_bytes);
            self.traffic.after(&Traffic { tx_bytes, rx_bytes, ns: to.since(from) });
        }
        self.total.merge(&tally);
        Complete { index, from, to, tally }
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
            framing: self.total.framing,
            frames: self.frames.then_some(self.total.frames),
            playout: self.total.playout.as_deref().map(metrics::Playout::summary),
            opened: self.total.opened,
            completed: self.total.count(Ending::Completed),
            stopped: self.total.count(Ending::Stopped),
            network_errors: self.total.count(Ending::NetworkError),
            data_errors: self.total.count(Ending::DataError),
            protocol_errors: self.total.count(Ending::ProtocolError),
            causes: causes.collect(),
            peak: self.peak,
            connect_ns: self.total.connect_ns.summary(),
            pings: self.total.packets.as_deref().map(|packets| Box::new(RoundTrips::of(packets))),
            packets: PacketReport::of_phase(&self.total),
            ..Totals::default()
        }
    }
}
