//! One measurement as it goes: its last intervals, its sums, its connections.

use super::connections::Connections;
use crate::words;
use metrics::Clamped;
use model::{Event, Interval, PacketReport, Phase, SessionInfo, Status, Totals};
use std::collections::{BTreeMap, VecDeque};

/// Intervals kept: more than a screen is wide.
pub(super) const KEPT: usize = 600;

/// An interval and what its samples said, without them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) interval: Interval,
    /// Mean smoothed round-trip time of the sampled connections, ns.
    pub(super) rtt_ns: Option<f64>,
    /// The largest, ns.
    pub(super) worst_rtt_ns: Option<f64>,
}

/// Sums over all intervals of a phase, the omitted ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) tx_bytes: u64,
    pub(super) rx_bytes: u64,
    pub(super) retransmits: u64,
    pub(super) messages: u64,
    pub(super) late: u64,
    pub(super) lost: i64,
    pub(super) damaged: u64,
    pub(super) missed: u64,
    /// Datagrams to the server and from it: received, and lost.
    pub(super) up: (u64, i64),
    pub(super) down: (u64, i64),
}

impl Sums {
    /// Adds those of a measurement beside it.
    pub(super) fn add(&mut self, more: &Sums) {
        let way = |a: (u64, i64), b: (u64, i64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        *self = Sums {
            tx_bytes: self.tx_bytes.saturating_add(more.tx_bytes),
            rx_bytes: self.rx_bytes.saturating_add(more.rx_bytes),
            retransmits: self.retransmits.saturating_add(more.retransmits),
            messages: self.messages.saturating_add(more.messages),
            late: self.late.saturating_add(more.late),
            lost: self.lost.saturating_add(more.lost),
            damaged: self.damaged.saturating_add(more.damaged),
            missed: self.missed.saturating_add(more.missed),
            up: way(self.up, more.up),
            down: way(self.down, more.down),
        };
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    pub(super) label: BTreeMap<String, String>,
    pub(super) repeat: u32,
    pub(super) phase: Phase,
    pub(super) sessions: Vec<SessionInfo>,
    pub(super) readings: VecDeque<Reading>,
    pub(super) sums: Sums,
    pub(super) connections: Connections,
    /// Both ends' totals, once they are told.
    pub(super) local: Option<Box<Totals>>,
    pub(super) remote: Vec<Totals>,
    /// How it ended, once it has.
    pub(super) ended: Option<(Status, Option<String>)>,
    /// An instant of the phase and of the caller's clock, ns.
    at: Option<(u64, u64)>,
    /// Intervals that are no longer kept, or never were.
    pub(super) forgotten: u64,
}

impl Track {
    /// The measurement that an [`Event::Phase`] begins.
    pub(super) fn new(label: &BTreeMap<String, String>, repeat: u32, phase: &Phase) -> Track {
        Track { label: label.clone(), repeat, phase: phase.clone(), ..Track::default() }
    }

    /// Takes an event of this phase, told at `now_ns`.
    pub(super) fn hear(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Session(session) => self.sessions.push(*session),
            Event::Start { .. } => self.at = Some((0, now_ns)),
            Event::Interval(interval) => self.interval(*interval, now_ns),
            Event::Local(totals) => self.local = Some(totals),
            Event::Remote(totals) => self.remote.push(*totals),
            Event::PhaseEnd { status, reason } => {
                self.at = self.readings.back().map(|last| (last.interval.end_ns, now_ns));
                self.ended = Some((status, reason));
            }
            _ => {}
        }
    }

    fn interval(&mut self, mut interval: Interval, now_ns: u64) {
        let samples = std::mem::take(&mut interval.samples);
        self.at = Some((interval.end_ns, now_ns));
        self.add(&interval);
        self.connections.sampled(&samples, interval.ns());
        if self.readings.len() >= KEPT {
            self.readings.pop_front();
            self.forgotten += 1;
        }
        let trips = model::sampled_rtt_ns(&samples);
        let (rtt_ns, worst_rtt_ns) = (trips.map(|all| all.mean), trips.map(|all| all.max));
        self.readings.push_back(Reading { interval, rtt_ns, worst_rtt_ns });
    }

    fn add(&mut self, interval: &Interval) {
        let way = |report: Option<&PacketReport>| {
            report.map_or((0, 0), |report| (report.counts.received, report.counts.lost))
        };
        let counts = interval.pings.map(|pings| pings.counts).unwrap_or_default();
        self.sums.add(&Sums {
            tx_bytes: interval.local.tx_bytes,
            rx_bytes: interval.local.rx_bytes,
            retransmits: interval.retransmits,
            messages: counts.received,
            late: counts.late,
            lost: counts.lost,
            damaged: counts.damaged,
            missed: counts.missed,
            up: way(interval.remote_packets.as_deref()),
            down: way(interval.packets.as_deref()),
        });
    }

    /// The last interval.
    pub(super) fn last(&self) -> Option<&Interval> {
        self.readings.back().map(|reading| &reading.interval)
    }

    /// Since when the phase runs, ns.
    pub(super) fn elapsed_ns(&self, now_ns: u64) -> u64 {
        let Some((of_phase, of_clock)) = self.at else { return 0 };
        match self.ended {
            Some(_) => of_phase,
            None => of_phase.saturating_add(now_ns.saturating_sub(of_clock)),
        }
    }

    /// Connections completed or stopped in good order.
    pub(super) fn completed(&self) -> u64 {
        self.last().map_or(0, |last| last.completed)
    }

    /// Network errors, and data and protocol errors.
    pub(super) fn errors(&self) -> (u64, u64) {
        self.last().map_or((0, 0), |last| (last.network_errors, last.data_errors))
    }

    /// The planned length, ns, of a phase whose intervals are all kept.
    pub(super) fn planned_ns(&self) -> Option<u64> {
        let planned = self.phase.ends_after()?;
        (planned.div_ceil(self.phase.interval_ns.max(1)) <= u64::clamped(KEPT)).then_some(planned)
    }

    /// What distinguishes it from the others of the run; empty when there is but one.
    pub(super) fn setting(&self) -> String {
        words::setting(&self.label, self.repeat)
    }
}
