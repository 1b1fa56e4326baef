//! Accounts of a group of links: intervals summed over the workers, and the totals at the end.

use crate::{
    CauseCount, CpuUse, Effective, HostCounters, OwnTraffic, PacketReport, RoundTrips, Totals, Traffic,
};
use metrics::{Clamped, Ending, Mono, Tally, Window};
use std::collections::BTreeMap;

/// One interval while the workers' tallies arrive.
#[derive(Debug, Default)]
struct Pending {
    workers: usize,
    /// The workers' ends of it, summed, ns: they swap their tallies some microseconds apart.
    ends: u128,
    /// The latest of them, which counts when the group ended in this interval.
    latest: Mono,
    tally: Tally,
}

/// An interval that all workers have reported.
#[derive(Debug)]
pub struct Complete {
    /// Its number, from 0.
    pub index: u32,
    /// When it began.
    pub from: Mono,
    /// When it ended.
    pub to: Mono,
    /// Counts of all workers.
    pub tally: Tally,
}

/// Most kinds of failure that totals list, the most frequent first.
const MAX_CAUSES: usize = 32;

/// Counts of a group of links.
#[derive(Debug, Default)]
pub struct Aggregator {
    workers: usize,
    start: Mono,
    /// Number of omitted intervals at the start. Each end of a connection leaves out the same ones,
    /// whenever its own begin and end.
    omitted: u32,
    /// True if its links are media streams.
    frames: bool,
    /// End of the last complete interval.
    end: Mono,
    pending: BTreeMap<u32, Pending>,
    /// Windows of sent and received payload by the schedules of links so far.
    windows: [Option<Window>; 2],
    /// Until when the growing ones of them are counted in intervals.
    counted: [Mono; 2],
    /// The last intervals of workers that have reported theirs.
    finished: Vec<u32>,
    total: Tally,
    traffic: Traffic,
    peak: u64,
    effective: Option<Effective>,
    idle: usize,
    dropped: usize,
}

impl Aggregator {
    /// An aggregator for a group of `workers`, which begins at `start` and leaves out `omitted`
    /// intervals; `frames` is true if its links are media streams.
    pub fn new(workers: usize, start: Mono, omitted: u32, frames: bool) -> Self {
        Aggregator { workers, start, omitted, frames, end: start, ..Aggregator::default() }
    }

    /// The group that waited for its start begins.
    pub fn begin(&mut self, at: Mono) {
        (self.start, self.end) = (at, at);
    }

    /// A worker's tally of interval `index`, which ended at `to` and was its `last`; the intervals
    /// that are complete now.
    ///
    /// A worker that has reported its last interval is not waited for in later ones: an order to
    /// stop reaches the workers at different instants, and a boundary may lie between them.
    pub fn tally(&mut self, index: u32, to: Mono, last: bool, tally: &Tally) -> Vec<Complete> {
        let pending = self.pending.entry(index).or_default();
        pending.workers += 1;
        pending.ends += u128::from(to.0);
        pending.latest = pending.latest.max(to);
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

    /// An interval ends at the mean of the workers' ends (the last one at the latest) and begins
    /// where the one before it ended, so that intervals neither overlap nor leave gaps.
    fn complete(&mut self, index: u32, pending: Pending) -> Complete {
        let Pending { workers, ends, latest, mut tally } = pending;
        if let Some(packets) = &mut tally.packets {
            packets.jitter.close();
        }
        let ended = self.finished.iter().any(|&last| last <= index);
        let to = if ended { latest } else { Mono(u64::clamped(ends / workers.max(1) as u128)) };
        let from = self.end;
        self.end = to.max(from);
        self.peak = self.peak.max(tally.peak);
        self.total.merge(&tally);
        // Of connections that have ended rates are taken to their last payload, not to their last
        // word.
        tally.moved = (ended && tally.open == 0).then(|| tally.last.clamp(from, to.max(from)));
        let windows = [&tally.tx_window, &tally.rx_window];
        let known = self.windows.iter_mut().zip(&mut self.counted).zip(windows);
        for (part, ((known, counted), window)) in tally.scheduled_ns.iter_mut().zip(known) {
            Window::add(known, *window);
            *part = known.map(|known| match tally.over {
                _ if known.open => {
                    // A pause without counts that is longer than a gap counts.
                    let begin = from.max(*counted);
                    *counted = known.ends().max(tally.moved.unwrap_or(to));
                    counted.since(begin.max(known.from))
                }
                // The last bytes arrive as much later as the first did.
                Some(over) => known.within(from, over.plus(known.from.since(self.start))),
                None => known.within(from, to),
            });
        }
        if let Some(busy) = tally.busy.filter(|busy| busy.open) {
            tally.scheduled_ns = [Some(busy.within(from, to)); 2];
        }
        if index >= self.omitted {
            self.traffic.add_later(&Traffic::of(&tally, from, to));
        }
        Complete { index, from, to, tally }
    }

    /// A worker's last counts, after its last interval; true when all workers have spoken.
    pub fn last(&mut self, tally: &Tally, effective: Option<Effective>) -> bool {
        self.total.merge(tally);
        self.effective = self.effective.take().or(effective);
        self.dropped += 1;
        self.dropped == self.workers
    }

    /// A worker has no links of the group left; true when none has.
    pub fn idle(&mut self) -> bool {
        self.idle += 1;
        self.idle == self.workers
    }

    /// Totals of the group with the host's part in them; the session adds the end and the way of
    /// receiving.
    pub fn totals_with_host(self, cpu: Option<CpuUse>, counters: HostCounters) -> Totals {
        let arrivals = self.total.packets.as_deref().map(|packets| packets.arrivals).unwrap_or_default();
        let numbered = arrivals.unique.max(arrivals.lost) > 0;
        Totals { cpu, counters, ..self.totals() }.with_drops_parted(numbered)
    }

    /// Totals of the group, without the figures of its process and host, which the caller adds.
    pub fn totals(self) -> Totals {
        let total = self.total;
        let mut causes: Vec<CauseCount> = total.causes.values().cloned().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        causes.truncate(MAX_CAUSES);
        Totals {
            traffic: self.traffic,
            framing: total.framing,
            opened: total.opened,
            completed: total.count(Ending::Completed),
            stopped: total.count(Ending::Stopped),
            network_errors: total.count(Ending::NetworkError),
            data_errors: total.count(Ending::DataError),
            protocol_errors: total.count(Ending::ProtocolError),
            frames: self.frames.then_some(total.frames),
            pings: total.packets.as_deref().map(|packets| Box::new(RoundTrips::of(packets))),
            playout: total.playout.as_deref().map(metrics::Playout::summary),
            packets: PacketReport::of_phase(&total),
            own: OwnTraffic::of(&total),
            causes,
            peak: self.peak,
            connect_ns: total.connect_ns.summary(),
            transfer_ns: total.transfer_ns.summary(),
            rate: total.rate.summary(),
            rates: total.slots.moments(),
            late_ns: total.late_ns.summary(),
            remotes: total.remotes,
            tcp: total.tcp,
            effective: self.effective,
            ..Totals::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(n: u64) -> Tally {
        Tally { rx_bytes: n, ..Tally::default() }
    }

    fn aggregator(workers: usize) -> Aggregator {
        Aggregator::new(workers, Mono(1_000), 0, false)
    }

    #[test]
    fn intervals_touch_and_end_at_the_mean() {
        let mut aggregator = aggregator(2);
        assert!(aggregator.tally(0, Mono(2_000), false, &bytes(5)).is_empty());
        let done = aggregator.tally(0, Mono(2_010), false, &bytes(6));
        assert_eq!((done[0].from, done[0].to, done[0].tally.rx_bytes), (Mono(1_000), Mono(2_005), 11));
        aggregator.tally(1, Mono(3_000), false, &bytes(1));
        let done = aggregator.tally(1, Mono(3_020), false, &bytes(1));
        assert_eq!((done[0].from, done[0].to), (Mono(2_005), Mono(3_010)));
        assert_eq!(aggregator.totals().traffic, Traffic { rx_bytes: 13, ns: 2_010, ..Traffic::default() });
    }

    #[test]
    fn a_boundary_between_two_stops_is_no_hole() {
        // One worker stops before the end of interval 0 and has moved nothing; the other stops just
        // after it.
        let mut aggregator = aggregator(2);
        assert!(aggregator.tally(0, Mono(1_000), true, &bytes(0)).is_empty());
        let done = aggregator.tally(0, Mono(2_000), false, &bytes(7));
        assert_eq!((done.len(), done[0].to), (1, Mono(2_000)));
        let done = aggregator.tally(1, Mono(2_300), true, &bytes(3));
        assert_eq!((done.len(), done[0].from, done[0].to), (1, Mono(2_000), Mono(2_300)));
        assert_eq!(aggregator.totals().traffic.rx_bytes, 10);
        // The same in the other order.
        let mut aggregator = self::aggregator(2);
        assert!(aggregator.tally(0, Mono(2_000), false, &bytes(7)).is_empty());
        assert!(aggregator.tally(1, Mono(2_300), true, &bytes(3)).is_empty());
        let done = aggregator.tally(0, Mono(1_500), true, &bytes(1));
        let ends: Vec<_> = done.iter().map(|c| (c.index, c.to)).collect();
        assert_eq!(ends, [(0, Mono(2_000)), (1, Mono(2_300))]);
    }

    #[test]
    fn the_busy_part_of_an_interval_is_that_of_all_workers() {
        let busy = |from, ns, open| {
            let window = Window { from: Mono(from), ns, open };
            Tally { rx_bytes: 8, busy: Some(window), ..Tally::default() }
        };
        let scheduled = |[one, other]: [Tally; 2]| {
            let mut aggregator = aggregator(2);
            aggregator.tally(0, Mono(2_000), false, &one);
            aggregator.tally(0, Mono(2_000), false, &other)[0].tally.scheduled_ns[1]
        };
        // The first worker's client has ended, and the second worker's goes on.
        assert_eq!(scheduled([busy(1_000, 300, true), busy(1_000, 1_000, false)]), Some(1_000));
        assert_eq!(scheduled([busy(1_000, 300, true), busy(1_200, 400, true)]), Some(600));
        assert_eq!(scheduled([busy(1_000, 300, true), Tally::default()]), Some(300));
        assert_eq!(scheduled([busy(1_000, 1_000, false), busy(1_000, 1_000, false)]), None);
    }

    #[test]
    fn the_peak_is_that_of_all_workers_though_none_is_open_at_the_end() {
        let mut aggregator = aggregator(2);
        let busy = |peak| Tally { peak, ..Tally::default() };
        aggregator.tally(0, Mono(2_000), false, &busy(5));
        aggregator.tally(0, Mono(2_000), false, &busy(3));
        aggregator.tally(1, Mono(2_500), true, &busy(1));
        aggregator.tally(1, Mono(2_500), true, &busy(4));
        assert_eq!(aggregator.totals().peak, 8);
    }

    #[test]
    fn missed_intervals_are_empty() {
        let mut aggregator = aggregator(2);
        for index in 0..3 {
            aggregator.tally(index, Mono(9_000), false, &bytes(0));
            let done = aggregator.tally(index, Mono(9_020), false, &bytes(0));
            assert_eq!(done[0].to > done[0].from, index == 0);
        }
    }
}
