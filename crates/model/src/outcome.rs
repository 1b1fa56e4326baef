//! Results of a run: the document that reports print, files keep and `schema/outcome.v2.json`
//! describes.

use crate::{
    Baseline, Begin, Capacity, Caveat, ConnectionRecord, Counts, Extra, Figure, FlowRow, FrameTimes,
    Interval, Marking, PathMtu, Phase, SessionInfo, Slot, Stat, Totals, Trains, Way,
};
use metrics::{Spread, Wall};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Status of a run or a phase at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As planned.
    Complete,
    /// By the user or the system (SIGINT, SIGTERM), in good order, on either side.
    Interrupted,
    /// The remote end, or this process, vanished: the measurement until then is kept.
    #[default]
    Partial,
    /// Nothing was measured.
    Failed,
}

impl Status {
    const ALL: [Status; 4] = [Status::Complete, Status::Interrupted, Status::Partial, Status::Failed];

    /// Its name, as in JSON: `complete`, `interrupted`, `partial` or `failed`.
    pub fn name(self) -> &'static str {
        match self {
            Status::Complete => "complete",
            Status::Interrupted => "interrupted",
            Status::Partial => "partial",
            Status::Failed => "failed",
        }
    }

    /// The status of this name.
    pub fn named(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// The document's name and version.
pub const SCHEMA: &str = "netcaliper.outcome.v2";

/// Result of a run of netcaliper. Durations are in ns, sizes in bytes, rates in bits/s unless a
/// name or a description says otherwise. Members may be added to version 2; none is removed or
/// changes its meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Outcome {
    /// Name and version of this format.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// Settings and conditions of the run.
    pub begin: Begin,
    /// Its status at the end.
    pub status: Status,
    /// Why, when not as planned.
    pub reason: Option<String>,
    /// One per phase: one, or one per setting and repetition of a sweep.
    pub points: Vec<Point>,
    /// With a sweep, one row per setting, over its repetitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepRow>,
    /// The path's MTU, when it was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<PathMtu>,
    /// Notices of the run, in order, at most 200; `warning: ` or `error: ` first when they are.
    pub notices: Vec<String>,
}

/// One direction of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Direction {
    /// Payload bytes the sender's kernel accepted; 0 when the sender's count is not known.
    pub sent_bytes: u64,
    /// Payload bytes the receiver got; the result.
    pub received_bytes: u64,
    /// Sender's rate, bits/s.
    pub sent_bps: f64,
    /// Goodput: the receiver's rate, bits/s.
    pub goodput_bps: f64,
    /// Goodput over the full intervals after the omitted start, bits/s; of a server's life over the
    /// latest of them, which were not joined.
    pub per_interval: Option<Spread>,
    /// True if the received figures are the receiver's own; otherwise they repeat the sender's.
    pub confirmed: bool,
    /// Unknown counts of the sender; their fields are 0. The arrivals are unknown unless
    /// `confirmed`.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub unknown: Counts,
}

/// One phase and its results.
///
/// Wide: one object of the JSON, a member for each kind of result, of which a phase has some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Point {
    /// The settings that a sweep varies, name to value in base units (bytes, connections, bits/s).
    pub label: BTreeMap<String, String>,
    /// Which repetition, from 1.
    pub repeat: u32,
    /// The requested phase.
    pub phase: Phase,
    /// Its status at the end.
    pub status: Status,
    /// Why, when not as planned.
    pub reason: Option<String>,
    /// Wall clock when payload might flow, ns since 1970-01-01T00:00:00Z; the times of the phase's
    /// intervals and connections count from there.
    pub started: Option<Wall>,
    /// The servers.
    pub sessions: Vec<SessionInfo>,
    /// The intervals.
    pub intervals: Vec<Interval>,
    /// Client to server; `None` when nothing was to go that way.
    pub up: Option<Direction>,
    /// Server to client; `None` when nothing was to go that way.
    pub down: Option<Direction>,
    /// Local baseline of the round trips, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Box<Baseline>>,
    /// Arrivals of a media stream's frames, where each was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_times: Option<Box<FrameTimes>>,
    /// Results of packet trains, when they are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trains: Option<Box<Trains>>,
    /// Result of a capacity test, when the capacity is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Box<Capacity>>,
    /// Flows of datagrams one by one, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowRow>,
    /// Results of the protocol's own, the first 2,000 with the first 64 MiB of their values; all of
    /// them are in the journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extras: Vec<Extra>,
    /// Marking of packets in each direction, where a class or a codepoint was asked for or arrived.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marking: Vec<Marking>,
    /// Totals of the local end.
    pub local: Totals,
    /// The servers' totals.
    pub remote: Vec<Totals>,
    /// Jain's fairness index over connections, 0 to 1.
    pub fairness: Option<f64>,
    /// TCP efficiency (RFC 6349), percent of bytes that were not retransmissions; both senders
    /// together.
    pub tcp_efficiency_percent: Option<f64>,
    /// Buffer delay (RFC 6349), percent by which the mean of the kernel's smoothed round-trip times
    /// under load exceeds the smallest that it saw.
    pub buffer_delay_percent: Option<f64>,
    /// CPU seconds of this process per 10^9 payload bytes.
    pub local_cpu_s_per_gb: Option<f64>,
    /// CPU seconds of the servers' processes per 10^9 payload bytes.
    pub remote_cpu_s_per_gb: Option<f64>,
    /// Reasons not to take its figures at face value.
    pub caveats: Vec<Caveat>,
    /// Ended connections, the first 10,000; all of them are in the connection CSV and the journal.
    pub connections: Vec<ConnectionRecord>,
}

/// A sweep's row: one setting over its repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SweepRow {
    /// The setting, name to value in base units.
    pub label: BTreeMap<String, String>,
    /// Figures over the repetitions that measured something, by their keys (`goodput.up`,
    /// `rtt.p99`, `loss.down`, `cpu`, …), in base units.
    pub figures: BTreeMap<String, Spread>,
    /// Keys of percentiles in `figures` beyond which a repetition has no value: such a percentile
    /// is the largest value by definition. Tables and plots leave these figures out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// Errors of all kinds over the repetitions.
    pub errors: u64,
    /// Power and knee of datagrams client to server, where they are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_slot: Option<Slot>,
    /// Power and knee of datagrams server to client, where they are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_slot: Option<Slot>,
}

impl SweepRow {
    /// The row of the repetitions of one setting. Repetitions that measured nothing add their
    /// errors only.
    pub(crate) fn of(same: &[&Point]) -> SweepRow {
        let spread = |figure: &Figure| {
            let measured = same.iter().filter(|point| point.status != Status::Failed);
            // The document of 0.1.0 has all percentiles of a sweep.
            Spread::of(&measured.filter_map(|point| figure.of_any_percentile(point)).collect::<Vec<f64>>())
        };
        // Figures of a program that reported no more than the extremes and the mean of delays.
        let ranges = Way::ALL.into_iter().filter(|way| spread(&Figure::Delay(*way, Stat::MEDIAN)).is_none());
        let ranges =
            ranges.flat_map(|way| [Stat::Min, Stat::Mean, Stat::Max].map(|stat| Figure::Delay(way, stat)));
        let known = Figure::kept().chain(ranges).filter_map(|figure| Some((figure.key(), spread(&figure)?)));
        let known: BTreeMap<String, Spread> = known.collect();
        let of_few = |figure: &Figure| {
            let mut measured = same.iter().filter(|point| point.status != Status::Failed);
            known.contains_key(&figure.key()) && measured.any(|point| !figure.is_shown(point))
        };
        let mut row = SweepRow {
            label: same.first().map(|point| point.label.clone()).unwrap_or_default(),
            unsupported: Figure::kept().filter(of_few).map(Figure::key).collect(),
            figures: known,
            errors: same.iter().map(|point| point.errors()).sum(),
            ..SweepRow::default()
        };
        row.up_slot = Slot::of(&row, same, Way::Up);
        row.down_slot = Slot::of(&row, same, Way::Down);
        row
    }

    /// Its spread of a figure; `None` for a percentile beyond which a repetition has no value.
    pub fn figure(&self, figure: Figure) -> Option<Spread> {
        let key = figure.key();
        self.figures.get(&key).copied().filter(|_| !self.unsupported.contains(&key))
    }

    /// Power and knee of a direction.
    pub fn slot(&self, way: Way) -> Option<Slot> {
        match way {
            Way::Up => self.up_slot,
            Way::Down => self.down_slot,
        }
    }

    /// The figures that any of `rows` has, the most important first.
    pub fn known(rows: &[SweepRow]) -> Vec<Figure> {
        let keys: BTreeSet<&String> = rows.iter().flat_map(|row| row.figures.keys()).collect();
        let mut all: Vec<Figure> = Figure::kept().filter(|figure| keys.contains(&figure.key())).collect();
        for figure in keys.iter().flat_map(|key| Figure::named(key)) {
            if !all.contains(&figure) {
                all.push(figure);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_name_that_it_has_in_json() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
            assert_eq!(Status::named(status.name()), Some(status));
        }
        assert_eq!(Status::named("Failed"), None);
    }
}
