//! A rate: bytes, and the time that they took. Intervals, totals, connections, searches and
//! comparisons divide here.
//!
//! Payload that follows a schedule (datagrams at a rate, paced connections) is divided by the part
//! of the schedule that lies in the stretch: at a sender from its begin to its end, at a receiver
//! as much later as the path takes. So a rate depends neither on the path's delay nor on when a
//! socket was opened or an interval cut. Other payload is divided by the whole stretch.

use metrics::{Clamped, Mono, SECOND, Tally, bits_per_second};
use serde::{Deserialize, Serialize};

/// Payload in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Traffic {
    /// Payload bytes sent.
    pub tx_bytes: u64,
    /// Payload bytes received.
    pub rx_bytes: u64,
    /// The stretch, ns.
    pub ns: u64,
    /// The part of `ns` in which a schedule had the bytes sent, ns, by which their rate is divided;
    /// `None` is all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_ns: Option<u64>,
    /// The part of `ns` in which the bytes were to arrive by the sender's schedule and the path's
    /// delay, ns, by which their rate is divided; `None` is all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_ns: Option<u64>,
}

impl Traffic {
    /// Counts of a group's tally of the time from `from` to `to`, or to the end of its rates
    /// (`tally.moved`) where that differs. Scheduled traffic has the time of its schedule in it.
    pub fn of(tally: &Tally, from: Mono, to: Mono) -> Self {
        let [tx_ns, rx_ns] = tally.scheduled_ns;
        Traffic {
            tx_bytes: tally.tx_bytes,
            rx_bytes: tally.rx_bytes,
            ns: tally.moved.unwrap_or(to).since(from),
            tx_ns,
            rx_ns,
        }
    }

    /// Sending rate, bits/s; 0 for an empty stretch.
    pub fn tx_bps(&self) -> f64 {
        rate(self.tx_bytes, self.sending_ns())
    }

    /// Receiving rate, bits/s; 0 for an empty stretch.
    pub fn rx_bps(&self) -> f64 {
        rate(self.rx_bytes, self.receiving_ns())
    }

    /// The time that sent bytes are divided by, ns.
    pub fn sending_ns(&self) -> u64 {
        self.tx_ns.unwrap_or(self.ns)
    }

    /// The time that received bytes are divided by, ns.
    pub fn receiving_ns(&self) -> u64 {
        self.rx_ns.unwrap_or(self.ns)
    }

    /// Adds another host's traffic in the same stretch: bytes add up, the longer stretch counts.
    pub fn add_host(&mut self, other: &Traffic) {
        self.with(other, u64::max);
    }

    /// Adds a later stretch.
    pub fn add_later(&mut self, later: &Traffic) {
        self.with(later, u64::saturating_add);
    }

    fn with(&mut self, other: &Traffic, times: fn(u64, u64) -> u64) {
        // Before the begin of a schedule there is neither a part of it nor a byte.
        let part = |known: Option<u64>, bytes: u64, ns: u64| known.unwrap_or(if bytes > 0 { ns } else { 0 });
        let tx = [part(self.tx_ns, self.tx_bytes, self.ns), part(other.tx_ns, other.tx_bytes, other.ns)];
        let rx = [part(self.rx_ns, self.rx_bytes, self.ns), part(other.rx_ns, other.rx_bytes, other.ns)];
        self.tx_ns = self.tx_ns.or(other.tx_ns).map(|_| times(tx[0], tx[1]));
        self.rx_ns = self.rx_ns.or(other.rx_ns).map(|_| times(rx[0], rx[1]));
        self.tx_bytes += other.tx_bytes;
        self.rx_bytes += other.rx_bytes;
        self.ns = times(self.ns, other.ns);
    }
}

/// Number of intervals of `interval_ns` in the first `omit_ns` of a run. Both ends leave out the
/// same intervals: their clocks may put a begin on either side of `omit_ns`.
pub fn omitted_intervals(omit_ns: u64, interval_ns: u64) -> u32 {
    u32::clamped(omit_ns.div_ceil(if interval_ns == 0 { SECOND } else { interval_ns }))
}

fn rate(bytes: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { bits_per_second(bytes, ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aggregator;
    use metrics::Window;

    const QUARTER: u64 = SECOND / 4;

    /// What a group of a schedule of two seconds, whose datagrams take half a second, is told of
    /// each interval and in all: it is over at `over`, and its last datagram arrives at `last`.
    fn traffic(counted: &[(u64, u64)], over: Mono, last: u64) -> (Vec<Traffic>, Traffic) {
        let mut aggregator = Aggregator::new(1, Mono(SECOND), 0, false);
        let mut all = Vec::new();
        for (index, &(tx_bytes, rx_bytes)) in (0..).zip(counted) {
            let fixed = |at| Some(Window { from: Mono(at * QUARTER), ns: 2 * SECOND, open: false });
            let mut tally = Tally { tx_bytes, rx_bytes, ..Tally::default() };
            if index == 0 {
                (tally.tx_window, tally.rx_window) = (fixed(4), fixed(6));
            }
            let ends = u64::from(index) + 1 == counted.len() as u64;
            tally.over = ends.then_some(over);
            let to = Mono(if ends { last } else { (u64::from(index) + 2) * SECOND });
            tally.last = to;
            let done = aggregator.tally(index, to, ends, &tally);
            all.extend(done.iter().map(|done| Traffic::of(&done.tally, done.from, done.to)));
        }
        (all, aggregator.totals().traffic)
    }

    #[test]
    fn a_schedule_is_divided_by_its_own_time_in_each_interval_and_in_all() {
        let (each, all) = traffic(&[(1_000, 500), (1_000, 1_500)], Mono(u64::MAX), 14 * QUARTER);
        assert!(each.iter().all(|part| (part.tx_bps(), part.rx_bps()) == (8_000.0, 8_000.0)), "{each:?}");
        assert_eq!((all.ns, all.tx_ns, all.rx_ns), (10 * QUARTER, Some(8 * QUARTER), Some(8 * QUARTER)));
        // The last datagrams are lost: they were to arrive all the same.
        let (_, all) = traffic(&[(1_000, 500), (1_000, 1_000)], Mono(u64::MAX), 12 * QUARTER);
        assert_eq!((all.tx_bps(), all.rx_bps()), (8_000.0, 6_000.0));
    }

    #[test]
    fn a_schedule_that_is_stopped_counts_until_then_whenever_the_last_word_is_said() {
        let (_, all) = traffic(&[(1_000, 500), (250, 750)], Mono(9 * QUARTER), 40 * QUARTER);
        assert_eq!((all.tx_ns, all.rx_ns), (Some(5 * QUARTER), Some(5 * QUARTER)));
        assert_eq!((all.tx_bps(), all.rx_bps()), (8_000.0, 8_000.0));
    }

    #[test]
    fn a_pace_is_divided_by_the_time_from_its_begin_to_one_gap_after_its_last_bytes() {
        // 100 bytes every tenth of a second, from half a second on: 5 times, and 10 times.
        let mut aggregator = Aggregator::new(1, Mono(0), 0, false);
        let mut rates = Vec::new();
        for (index, chunks) in [(0, 5), (1, 10), (2, 0)] {
            let ns = [5, 15, 15][index as usize] * SECOND / 10;
            let tx_window = Some(Window { from: Mono(SECOND / 2), ns, open: true });
            let tally = Tally { tx_bytes: 100 * chunks, tx_window, ..Tally::default() };
            let done = aggregator.tally(index, Mono((u64::from(index) + 1) * SECOND), false, &tally);
            rates.extend(done.iter().map(|done| Traffic::of(&done.tally, done.from, done.to).tx_bps()));
        }
        assert_eq!(rates, [8_000.0, 8_000.0, 0.0], "what does not go on is counted all the same");
        assert_eq!(aggregator.totals().traffic.tx_ns, Some(5 * SECOND / 2));
    }

    #[test]
    fn other_payload_is_divided_by_the_whole_stretch() {
        let mut one = Traffic { rx_bytes: 1_000, ns: SECOND, ..Traffic::default() };
        one.add_later(&Traffic { ns: SECOND, ..Traffic::default() });
        assert_eq!((one.rx_bps(), one.rx_ns), (4_000.0, None));
    }

    #[test]
    fn both_ends_leave_out_the_same_intervals() {
        // An interval of which the begin is late is the second all the same.
        let mut aggregator = Aggregator::new(1, Mono(0), omitted_intervals(2 * QUARTER, QUARTER), false);
        let one = Tally { rx_bytes: 1, ..Tally::default() };
        let ends = [9 * QUARTER / 8, 9 * QUARTER / 4, 3 * QUARTER];
        let done = (0..).zip(ends).flat_map(|(index, to)| aggregator.tally(index, Mono(to), false, &one));
        assert_eq!(done.count(), 3);
        assert_eq!(aggregator.totals().traffic.rx_bytes, 1);
        assert_eq!(omitted_intervals(QUARTER + 1, QUARTER), 2);
    }
}
