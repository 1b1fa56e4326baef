//! Intervals made coarser, so that a run of any length can be looked at while it goes on.

use crate::figures::is_idle;
use crate::{Interval, PingInterval, Point, Traffic};
use metrics::{Clamped, add_known, real};

impl Interval {
    /// Adds the interval that follows: sums of both, and the state at the end of the later one. A
    /// percentile of both together lies between their percentiles; the larger one is kept.
    pub fn join(&mut self, later: &Interval) {
        self.end_ns = later.end_ns;
        self.omitted &= later.omitted;
        self.local.add_later(&later.local);
        add_known(&mut self.remote, later.remote.as_ref(), Traffic::add_later);
        self.framing.tx_bytes += later.framing.tx_bytes;
        self.framing.rx_bytes += later.framing.rx_bytes;
        self.in_flight = later.in_flight;
        self.completed = later.completed;
        self.network_errors = later.network_errors;
        self.data_errors = later.data_errors;
        self.opened += later.opened;
        self.retransmits += later.retransmits;
        add_known(&mut self.frames, later.frames.as_ref(), |frames, more| frames.add(*more));
        add_known(&mut self.pings, later.pings.as_ref(), join_pings);
        add_known(&mut self.packets, later.packets.as_ref(), |packets, more| packets.join(more));
        add_known(&mut self.remote_packets, later.remote_packets.as_ref(), |packets, more| {
            packets.join(more);
        });
        self.samples.clone_from(&later.samples);
    }
}

/// Intervals that are kept unjoined: between this number and twice as many.
const FRESH: usize = 256;
/// Most joined intervals before those.
const MOST_COARSE: usize = 512;
/// Intervals that are joined keep their samples when there are no more than this: of more
/// connections the latest time shows.
const MOST_SAMPLES: usize = 8;
/// Intervals of a phase that is over, and phases of which any are kept.
const MOST_SETTLED: usize = 128;
const MOST_PHASES: usize = 40;
/// Connections of a phase that is over.
const MOST_CONNECTIONS: usize = 100;

/// Intervals that were joined because there are too many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coarse {
    joined: Vec<Interval>,
    /// Number of original intervals that one kept interval merges now, as a power of two.
    level: u32,
    /// Numbers below this one have been joined already.
    first: u32,
    /// Number of joined intervals.
    pub(crate) came: u64,
    /// Traffic and total duration of the merged intervals that carried any.
    pub(crate) busy: Traffic,
}

impl Coarse {
    /// Inserts an interval into `fresh` in order; a repeated index replaces the earlier interval.
    pub(crate) fn keep(&mut self, interval: &Interval, fresh: &mut Vec<Interval>) {
        if interval.index < self.first {
            return;
        }
        match fresh.binary_search_by_key(&interval.index, |i| i.index) {
            Ok(at) => fresh[at] = interval.clone(),
            Err(at) => fresh.insert(at, interval.clone()),
        }
        if fresh.len() < 2 * FRESH {
            return;
        }
        let old = &fresh[..FRESH];
        self.first = old.last().map_or(0, |last| last.index + 1);
        self.came += u64::clamped(old.len());
        let counted = old.iter().filter(|i| !i.omitted && !is_idle(&i.local));
        counted.for_each(|interval| self.busy.add_later(&interval.local));
        for part in old.chunks(1 << self.level) {
            if let [first, rest @ ..] = part {
                let mut joined = first.clone();
                rest.iter().for_each(|interval| joined.join(interval));
                if joined.samples.len() > MOST_SAMPLES {
                    joined.samples = Vec::new();
                }
                self.joined.push(joined);
            }
        }
        fresh.drain(..FRESH);
        if self.joined.len() > MOST_COARSE {
            halve(&mut self.joined);
            self.level = (self.level + 1).min(FRESH.ilog2());
        }
    }

    /// To how many they have been joined.
    pub(crate) fn kept(&self) -> u64 {
        u64::clamped(self.joined.len())
    }

    /// Puts the joined intervals before `fresh`.
    pub(crate) fn before(&self, fresh: &mut Vec<Interval>) {
        if self.joined.is_empty() {
            return;
        }
        fresh.splice(..0, self.joined.iter().cloned());
        number(fresh);
    }
}

/// The kept part of a finished phase, after `before` earlier ones.
pub(crate) fn settled(mut point: Point, before: usize) -> Point {
    while point.intervals.len() > MOST_SETTLED {
        halve(&mut point.intervals);
    }
    if before > MOST_PHASES {
        point.intervals = Vec::new();
        point.frame_times = None;
    }
    for interval in point.intervals.iter_mut().filter(|i| i.samples.len() > MOST_SAMPLES) {
        interval.samples = Vec::new();
    }
    point.connections.truncate(MOST_CONNECTIONS);
    point
}

fn number(intervals: &mut [Interval]) {
    for (interval, index) in intervals.iter_mut().zip(0..) {
        interval.index = index;
    }
}

/// Halves the number of intervals, joining each two; they are numbered anew, so that neighbours
/// stay neighbours.
fn halve(intervals: &mut Vec<Interval>) {
    join_pairs(intervals, Interval::join);
    number(intervals);
}

/// Makes one of each two neighbours. In place: the halves of a long run would leave holes in the
/// heap.
pub(crate) fn join_pairs<T>(all: &mut Vec<T>, join: fn(&mut T, &T)) {
    let mut second = false;
    all.dedup_by(|later, last| {
        second = !second;
        if second {
            join(last, later);
        }
        second
    });
}

fn join_pings(pings: &mut PingInterval, more: &PingInterval) {
    // If messages were lost and none returned, no percentile is known.
    let nothing_back = |of: &PingInterval| of.count == 0 && of.counts.lost > 0;
    let unknown = nothing_back(pings) || nothing_back(more);
    pings.counts.add(&more.counts);
    if pings.count == 0 || more.count == 0 {
        let counts = pings.counts;
        let known = if more.count == 0 { *pings } else { *more };
        let shown = |percentile: Option<u64>| percentile.filter(|_| !unknown);
        let (path_p50_ns, path_p99_ns) = (shown(known.path_p50_ns), shown(known.path_p99_ns));
        let known = PingInterval { path_p50_ns, path_p99_ns, ..known };
        *pings = PingInterval { counts, p50_ns: shown(known.p50_ns), p99_ns: shown(known.p99_ns), ..known };
        return;
    }
    let (ours, theirs) = (real(pings.count), real(more.count));
    pings.mean_ns = (pings.mean_ns * ours + more.mean_ns * theirs) / (ours + theirs);
    pings.count += more.count;
    pings.min_ns = pings.min_ns.min(more.min_ns);
    // A percentile of both lies between their percentiles; where one is not known, neither is the
    // larger.
    let larger =
        |ours: Option<u64>, theirs: Option<u64>| ours.zip(theirs).map(|(ours, theirs)| ours.max(theirs));
    pings.p50_ns = larger(pings.p50_ns, more.p50_ns);
    pings.p99_ns = larger(pings.p99_ns, more.p99_ns);
    pings.path_p50_ns = larger(pings.path_p50_ns, more.path_p50_ns);
    pings.path_p99_ns = larger(pings.path_p99_ns, more.path_p99_ns);
    pings.max_ns = pings.max_ns.max(more.max_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PingCounts;
    use metrics::SECOND;

    fn second(index: u32, bytes: u64) -> Interval {
        let sent = crate::builder::tests::second(index, bytes, None);
        Interval { completed: u64::from(index) * 10, opened: 3, ..sent }
    }

    #[test]
    fn halved_intervals_keep_bytes_time_and_how_it_stood() {
        let mut all: Vec<Interval> = (0..5).map(|n| second(n, 100 << n)).collect();
        all[0].omitted = true;
        let pings = |count, p99_ns| PingInterval {
            count,
            mean_ns: p99_ns as f64,
            p99_ns: Some(p99_ns),
            ..PingInterval::default()
        };
        all[2].pings = Some(pings(1, 40));
        all[3].pings = Some(pings(3, 20));
        halve(&mut all);
        let bytes: Vec<u64> = all.iter().map(|i| i.local.tx_bytes).collect();
        assert_eq!(bytes, [300, 1200, 1600], "100 << n in pairs, the last one alone");
        assert_eq!(all[0].local.ns, 2 * SECOND);
        assert_eq!((all[1].start_ns, all[1].end_ns), (2 * SECOND, 4 * SECOND));
        assert_eq!((all[1].completed, all[1].opened), (30, 6));
        assert!(!all[0].omitted, "half of it counts");
        let pings = all[1].pings.unwrap();
        // Four messages: one of 40, three of 20.
        assert_eq!((pings.count, pings.p99_ns, pings.mean_ns), (4, Some(40), 25.0));
    }

    #[test]
    fn an_interval_in_which_nothing_came_back_leaves_no_percentile() {
        let (p50_ns, p99_ns) = (Some(20), Some(40));
        let some =
            PingInterval { count: 3, min_ns: 10, max_ns: 40, p50_ns, p99_ns, ..PingInterval::default() };
        for (lost, expected) in [(0, (Some(20), Some(40))), (3, (None, None))] {
            let counts = PingCounts { lost, ..PingCounts::default() };
            let none = PingInterval { counts, ..PingInterval::default() };
            for (mut joined, later) in [(some, none), (none, some)] {
                join_pings(&mut joined, &later);
                assert_eq!((joined.p50_ns, joined.p99_ns), expected, "{lost} lost");
                assert_eq!((joined.count, joined.min_ns, joined.max_ns), (3, 10, 40));
                assert_eq!(joined.counts.lost, lost);
            }
        }
    }

    #[test]
    fn a_long_run_stays_small_and_loses_no_byte() {
        let (mut coarse, mut fresh) = (Coarse::default(), Vec::new());
        // `bench/deep` has a day of seconds.
        let most = if std::env::var_os("NETCALIPER_INPUTS").is_some() { 86_400 } else { 20_000 };
        for n in 0..most {
            coarse.keep(&second(n, 7), &mut fresh);
            // Told again with what the remote end says, and an old one too late.
            coarse.keep(&second(n, 8), &mut fresh);
            coarse.keep(&second(n.saturating_sub(2_000), 9), &mut fresh);
        }
        let mut all = fresh;
        coarse.before(&mut all);
        assert!(all.len() <= MOST_COARSE + 2 * FRESH, "{}", all.len());
        let bytes: u64 = all.iter().map(|i| i.local.tx_bytes).sum();
        let late: u64 = all.iter().rev().take(FRESH).map(|i| i.local.tx_bytes).sum();
        assert_eq!(late, 8 * FRESH as u64, "the latest are as told last");
        // The first was told too late 2,000 times before it was joined, and counts once.
        assert_eq!(bytes, 8 * u64::from(most) + 1);
        assert!(all.windows(2).all(|w| w[0].end_ns == w[1].start_ns && w[0].index + 1 == w[1].index));
        assert_eq!(all.last().map(|i| i.end_ns), Some(u64::from(most) * SECOND));
    }
}
