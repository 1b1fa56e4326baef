//! One running measurement: its last intervals, its sums, its connections, its progress.

use metrics::{Clamped, SECOND, TcpTotals, bits_per_second, format_bytes, real};
use model::{Event, Interval, Kind, Phase, Point, Sample};
use report::words;
use std::collections::{BTreeMap, VecDeque};

/// Intervals kept: more than a screen is wide.
pub(super) const KEPT: usize = 600;

/// An interval and the figures of its samples, without the samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IntervalReading {
    pub(super) interval: Interval,
    /// Mean smoothed round-trip time of the sampled connections, ns.
    pub(super) rtt_ns: Option<f64>,
    /// The largest, ns.
    pub(super) worst_rtt_ns: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    /// Its phase, and both ends' totals once they are known; its intervals are the readings.
    pub(super) point: Point,
    pub(super) readings: VecDeque<IntervalReading>,
    /// All intervals as one, the omitted ones included.
    pub(super) sums: Interval,
    pub(super) connections: Connections,
    pub(super) ended: bool,
    /// An instant of the phase and of the caller's clock, ns.
    at: Option<(u64, u64)>,
    /// Intervals that are no longer kept, or never were.
    pub(super) forgotten: u64,
}

impl Track {
    /// The measurement that an [`Event::Phase`] begins.
    pub(super) fn new(label: BTreeMap<String, String>, repeat: u32, phase: Phase) -> Track {
        Track { point: Point { label, repeat, phase, ..Point::default() }, ..Track::default() }
    }

    /// Takes an event of this phase, received at `now_ns`.
    pub(super) fn on_event(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Session(session) => self.point.sessions.push(*session),
            Event::Start { .. } => self.at = Some((0, now_ns)),
            Event::Interval(interval) => self.interval(*interval, now_ns),
            Event::Local(totals) => self.point.local = *totals,
            Event::Remote(totals) => self.point.remote.push(*totals),
            Event::PhaseEnd { .. } => {
                self.at = self.readings.back().map(|last| (last.interval.end_ns, now_ns));
                self.ended = true;
            }
            _ => {}
        }
    }

    fn interval(&mut self, mut interval: Interval, now_ns: u64) {
        let samples = std::mem::take(&mut interval.samples);
        self.at = Some((interval.end_ns, now_ns));
        self.sums.join(&interval);
        self.connections.sampled(&samples, interval.ns());
        if self.readings.len() >= KEPT {
            self.readings.pop_front();
            self.forgotten += 1;
        }
        let trips = model::sampled_rtt_ns(&samples);
        let (rtt_ns, worst_rtt_ns) = (trips.map(|all| all.mean), trips.map(|all| all.max));
        self.readings.push_back(IntervalReading { interval, rtt_ns, worst_rtt_ns });
    }

    /// The last interval.
    pub(super) fn last(&self) -> Option<&Interval> {
        self.readings.back().map(|reading| &reading.interval)
    }

    /// Since when the phase runs, ns.
    pub(super) fn elapsed_ns(&self, now_ns: u64) -> u64 {
        let Some((of_phase, of_clock)) = self.at else { return 0 };
        if self.ended { of_phase } else { of_phase.saturating_add(now_ns.saturating_sub(of_clock)) }
    }

    /// Connections completed or stopped in good order.
    pub(super) fn completed(&self) -> u64 {
        self.last().map_or(0, |last| last.completed)
    }

    /// The planned length, ns, of a phase whose intervals are all kept.
    pub(super) fn planned_ns(&self) -> Option<u64> {
        let planned = self.point.phase.ends_after()?;
        (planned.div_ceil(self.point.phase.interval_ns.max(1)) <= u64::clamped(KEPT)).then_some(planned)
    }

    /// Its setting among the others of the run; empty when it is the only one.
    pub(super) fn setting(&self) -> String {
        words::setting(&self.point.label, self.point.repeat)
    }
}

/// Key of the order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SortBy {
    /// The connection's slot.
    #[default]
    Slot,
    Rate,
    Rtt,
    /// Segments that it had to send again.
    Retransmits,
    Bytes,
}

impl SortBy {
    const ROUND: [SortBy; 5] = [SortBy::Slot, SortBy::Rate, SortBy::Rtt, SortBy::Retransmits, SortBy::Bytes];

    pub(super) fn next(self) -> SortBy {
        SortBy::ROUND[(self as usize + 1) % SortBy::ROUND.len()]
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConnectionRow {
    pub(super) now: Sample,
    /// Rates of sending and receiving in the last interval, bits/s.
    pub(super) tx_bps: f64,
    pub(super) rx_bps: f64,
    /// Segments it had to send again in the last interval.
    pub(super) again: u32,
}

/// Connections that were sampled in the last interval, at most 64.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    pub(super) rows: Vec<ConnectionRow>,
}

impl Connections {
    /// Takes the samples of an interval of `ns`.
    pub(super) fn sampled(&mut self, samples: &[Sample], ns: u64) {
        let before = std::mem::take(&mut self.rows);
        let rate = |now: u64, was: u64| bits_per_second(now.saturating_sub(was), ns.max(1));
        self.rows = samples
            .iter()
            .map(|now| {
                // One that is new has moved all it has in this interval.
                let was =
                    before.iter().find(|row| row.now.id == now.id).map(|row| row.now).unwrap_or_default();
                ConnectionRow {
                    now: *now,
                    tx_bps: rate(now.tx_bytes, was.tx_bytes),
                    rx_bps: rate(now.rx_bytes, was.rx_bytes),
                    again: now.info.retransmits.saturating_sub(was.info.retransmits),
                }
            })
            .collect();
    }

    /// Their TCP_INFO together.
    pub(super) fn totals(&self) -> TcpTotals {
        let mut totals = TcpTotals::default();
        self.rows.iter().for_each(|row| totals.add(&row.now.info));
        totals
    }

    /// The rows in an order: slots from the first, all else from the largest; the other way round
    /// if `turned`.
    pub(super) fn sorted(&self, by: SortBy, turned: bool) -> Vec<&ConnectionRow> {
        let of = |row: &ConnectionRow| match by {
            SortBy::Slot => 0.0,
            SortBy::Rate => row.tx_bps + row.rx_bps,
            SortBy::Rtt => f64::from(row.now.info.rtt_us),
            SortBy::Retransmits => f64::from(row.now.info.retransmits),
            SortBy::Bytes => real(row.now.tx_bytes) + real(row.now.rx_bytes),
        };
        let mut rows: Vec<&ConnectionRow> = self.rows.iter().collect();
        let place = |row: &ConnectionRow| (row.now.slot, row.now.id);
        rows.sort_by(|a, b| of(b).total_cmp(&of(a)).then(place(a).cmp(&place(b))));
        if turned {
            rows.reverse();
        }
        rows
    }
}

/// Plan of a run, known before it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Measurements one after the other; `None` when their number depends on results.
    pub phases: Option<u32>,
    /// Their length all together, ns; `None` when it is not known.
    pub total_ns: Option<u64>,
}

impl Planned {
    /// The plan of phases one after the other.
    pub fn of<'a>(phases: impl IntoIterator<Item = &'a Phase>) -> Planned {
        let none = Planned { phases: Some(0), total_ns: Some(0) };
        phases.into_iter().fold(none, |sum, phase| Planned {
            phases: sum.phases.map(|n| n + 1),
            total_ns: sum.total_ns.zip(length(phase)).map(|(sum, more)| sum.saturating_add(more)),
        })
    }
}

/// Length of a phase, ns: by the clock, or by a schedule that has an end; `None` when that depends
/// on the path.
pub(super) fn length(phase: &Phase) -> Option<u64> {
    let ping = phase.ping.as_ref();
    let messages = ping.and_then(|ping| Some(ping.messages?.saturating_add(ping.warmup)));
    let scheduled =
        messages.zip(ping.and_then(|ping| ping.schedule.gap_ns())).map(|(n, gap)| n.saturating_mul(gap));
    phase.ends_after().into_iter().chain(scheduled).min()
}

/// Progress of a phase.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PhaseProgress {
    /// Which part of it is done, 0..=1; `None` when it has no end of its own.
    pub(super) share: Option<f64>,
    /// In words: `00:12 of 00:30`.
    pub(super) text: String,
}

impl PhaseProgress {
    /// Progress of `track` at `now_ns`.
    pub(super) fn of(track: &Track, now_ns: u64) -> PhaseProgress {
        let elapsed = track.elapsed_ns(now_ns);
        let phase = &track.point.phase;
        let share = |done: u64, all: u64| (real(done) / real(all.max(1))).clamp(0.0, 1.0);
        let clock = clock(elapsed);
        if let Some(all) = length(phase) {
            let text = format!("{} of {}", self::clock(elapsed.min(all)), self::clock(all));
            return PhaseProgress { share: Some(share(elapsed, all)), text };
        }
        let moved = track.sums.local.tx_bytes + track.sums.local.rx_bytes;
        let connections = u64::from(phase.connections);
        let messages =
            phase.ping.as_ref().and_then(|ping| ping.messages).map(|n| n.saturating_mul(connections));
        let lives = phase.iterations.map(|n| n.saturating_mul(connections));
        let (done, all, text) = if let Some(all) = phase.total_bytes {
            (moved, all, format!("{} of {}, {clock}", format_bytes(moved), format_bytes(all)))
        } else if let Some(all) = messages {
            let received = track.sums.pings.map_or(0, |pings| pings.counts.received);
            (received, all, format!("{received} of {all} messages, {clock}"))
        } else if let Some(all) = lives.filter(|_| phase.kind != Kind::Ping) {
            (track.completed(), all, format!("{} of {all} connections, {clock}", track.completed()))
        } else {
            return PhaseProgress { share: None, text: clock };
        };
        PhaseProgress { share: Some(share(done, all)), text }
    }
}

/// A time as clocks show it: `01:23`, `2:01:23`, `3 d 02:01:23`.
pub(super) fn clock(ns: u64) -> String {
    let s = ns / SECOND;
    let (d, h, m, s) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match (d, h) {
        (0, 0) => format!("{m:02}:{s:02}"),
        (0, h) => format!("{h}:{m:02}:{s:02}"),
        (d, h) => format!("{d} d {h:02}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::TcpInfo;
    use model::{Ping, Schedule};
    use uuid::Uuid;

    fn sample(slot: u32, tx_bytes: u64, rtt_us: u32, retransmits: u32) -> Sample {
        let info = TcpInfo { rtt_us, retransmits, ..TcpInfo::default() };
        Sample { id: Uuid::from_u128(u128::from(slot) + 1), slot, tx_bytes, rx_bytes: 0, info }
    }

    #[test]
    fn rates_are_differences_over_the_interval() {
        let mut connections = Connections::default();
        connections.sampled(&[sample(0, 1_000, 5, 1)], 1_000_000_000);
        connections.sampled(&[sample(0, 3_500, 5, 4), sample(1, 500, 9, 0)], 500_000_000);
        let rows = connections.sorted(SortBy::Slot, false);
        // 2,500 bytes in half a second are 40 kbit/s; a new one has moved its 500 bytes in it: 8
        // kbit/s.
        assert_eq!((rows[0].tx_bps, rows[0].again, rows[1].tx_bps), (40_000.0, 3, 8_000.0));
        connections.sampled(&[sample(1, 500, 9, 0)], 1_000_000_000);
        assert_eq!(connections.rows.len(), 1, "a connection without a sample is gone");
        // A count that runs backwards is another connection's.
        connections.sampled(&[sample(1, 100, 9, 0)], 1_000_000_000);
        assert_eq!(connections.sorted(SortBy::Slot, false)[0].tx_bps, 0.0);
    }

    #[test]
    fn every_order_and_back() {
        let mut connections = Connections::default();
        connections.sampled(&[sample(2, 5, 70, 0), sample(0, 9, 80, 3), sample(1, 7, 90, 1)], 1_000);
        let slots =
            |by, turned| connections.sorted(by, turned).iter().map(|row| row.now.slot).collect::<Vec<_>>();
        assert_eq!(slots(SortBy::Slot, false), [0, 1, 2]);
        assert_eq!(slots(SortBy::Slot, true), [2, 1, 0]);
        assert_eq!(slots(SortBy::Rate, false), [0, 1, 2]);
        assert_eq!(slots(SortBy::Rtt, false), [1, 0, 2]);
        assert_eq!(slots(SortBy::Retransmits, false), [0, 1, 2]);
        assert_eq!(slots(SortBy::Bytes, true), [2, 1, 0]);
        let turned = (0..5).fold(SortBy::Slot, |by, _| by.next());
        assert_eq!(turned, SortBy::Slot, "all columns have had their turn");
    }

    #[test]
    fn times_as_clocks_show_them() {
        let shown = [0, 59, 60, 3599, 3600, 86_399, 86_400 * 3 + 7].map(|s| clock(s * SECOND + 999_999_999));
        assert_eq!(shown, ["00:00", "00:59", "01:00", "59:59", "1:00:00", "23:59:59", "3 d 00:00:07"]);
    }

    #[test]
    fn the_length_of_a_plan() {
        let ten = Phase { duration_ns: Some(10 * SECOND), ..Phase::default() };
        let planned = |phases: &[Phase]| Planned::of(phases);
        assert_eq!(planned(&[]), Planned { phases: Some(0), total_ns: Some(0) });
        let twice = planned(&[ten.clone(), ten.clone()]);
        assert_eq!(twice, Planned { phases: Some(2), total_ns: Some(20 * SECOND) });
        let bytes = Phase { duration_ns: None, total_bytes: Some(7), ..Phase::default() };
        assert_eq!(planned(&[ten, bytes]), Planned { phases: Some(2), total_ns: None });
        // 500 messages, one each 100 ms, are 50 s; the clock may cut them short.
        let schedule = Schedule::Fixed { gap_ns: SECOND / 10 };
        let ping = Ping { messages: Some(500), schedule, ..Ping::default() };
        let counted = Phase { kind: Kind::Ping, ping: Some(ping), duration_ns: None, ..Phase::default() };
        assert_eq!(planned(std::slice::from_ref(&counted)).total_ns, Some(50 * SECOND));
        let cut = Phase { duration_ns: Some(10 * SECOND), ..counted };
        assert_eq!(planned(&[cut]).total_ns, Some(10 * SECOND));
    }
}
