//! The stages of a load: a row each, and goodput and round trips over the time of all of them.

use super::draw::Sheet;
use super::grid::CellStyle;
use super::pages;
use super::plot::Plot;
use super::track::Track;
use super::view::Known;
use metrics::{Clamped, SECOND, format_bits_per_second, format_duration, real};
use model::{Event, Interval, Kind, Pattern, Phase, PingInterval};
use report::or_dash;
use std::collections::BTreeMap;

/// Lines of plots in one panel.
const LINES: usize = 2;
/// Lines for caveats and notices.
const NEWEST: u16 = 3;

/// A mean of readings.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    n: u32,
    sum: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            (self.n, self.sum) = (self.n + 1, self.sum + value);
        }
    }

    fn get(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / f64::from(self.n))
    }
}

/// A stage, over all its repetitions.
#[derive(Clone, Debug, Default)]
struct StageRow {
    name: String,
    /// Medians of the intervals' round trips, ns.
    trip: Mean,
    up: Mean,
    down: Mean,
    /// Time left until the path is full, ns; `None` while the stage measures.
    filling_ns: Option<u64>,
}

/// The stages so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Stages {
    rows: Vec<StageRow>,
    /// Intervals of the connections that fill the path and of the round trips, in the time of the
    /// run.
    load: Option<Box<Track>>,
    trips: Option<Box<Track>>,
}

impl Stages {
    /// True until a stage has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A part of a stage begins; the run lasts `planned_ns`, where that is known.
    pub(super) fn begin(&mut self, label: &BTreeMap<String, String>, phase: &Phase, planned_ns: Option<u64>) {
        let (Some(stage), Some(part)) = (label.get("stage"), label.get("part")) else { return };
        let (track, kind) = match part.as_str() {
            "load" => (&mut self.load, Kind::Tcp),
            "trips" => (&mut self.trips, Kind::Ping),
            _ => return,
        };
        let (pattern, interval_ns) = (Pattern::Duplex, phase.interval_ns);
        let all = Phase { kind, pattern, interval_ns, duration_ns: planned_ns, ..Phase::default() };
        track.get_or_insert_with(|| Box::new(Track::new(BTreeMap::new(), 1, all)));
        let row = self.row(stage);
        row.filling_ns = (kind == Kind::Tcp).then_some(phase.omit_ns).filter(|ns| *ns > 0);
    }

    fn row(&mut self, stage: &str) -> &mut StageRow {
        let at = self.rows.iter().position(|row| row.name == stage).unwrap_or_else(|| {
            self.rows.push(StageRow { name: stage.to_owned(), ..StageRow::default() });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// An interval of a part, which ended `at_ns` after the begin of the run.
    pub(super) fn interval(&mut self, of: &Track, interval: &Interval, at_ns: u64) {
        let label = &of.point.label;
        let (Some(stage), Some(part)) = (label.get("stage"), label.get("part")) else { return };
        if self.is_empty() {
            return;
        }
        let track = match part.as_str() {
            "load" => &mut self.load,
            "trips" => &mut self.trips,
            _ => return,
        };
        if let Some(track) = track {
            let before = track.last().map_or(0, |last| last.end_ns);
            let start_ns = at_ns.saturating_sub(interval.ns()).max(before);
            let samples = Vec::new();
            // The path fills in omitted intervals, which are shown, too.
            let (end_ns, omitted) = (at_ns.max(start_ns + 1), false);
            let pings = interval.pings.map(PingInterval::of_path);
            let shifted = Interval { start_ns, end_ns, omitted, samples, pings, ..interval.clone() };
            track.on_event(Event::Interval(Box::new(shifted)), at_ns);
        }
        // A run that takes longer than planned stretches both plots alike.
        for track in [&mut self.load, &mut self.trips].into_iter().flatten() {
            let ends = &mut track.point.phase.duration_ns;
            *ends = ends.map(|planned| planned.max(at_ns));
        }
        let (omit_ns, is_load) = (of.point.phase.omit_ns, part == "load");
        let (up, down) = (of.point.phase.pattern.sends_up(), of.point.phase.pattern.sends_down());
        let row = self.row(stage);
        if is_load {
            row.filling_ns = omit_ns.checked_sub(interval.end_ns).filter(|left| *left > 0);
            if !interval.omitted {
                let sent = interval.remote.map(|remote| remote.rx_bps()).or(interval.sent_bps());
                row.up.add(sent.filter(|_| up));
                row.down.add(interval.received_bps().filter(|_| down));
            }
        } else {
            row.filling_ns = None;
            row.trip.add(interval.pings.and_then(|pings| pings.of_path().p50_ns).map(real));
        }
    }
}

/// The stages, the plots over all of them, the counts, and the newest caveats and notices.
pub(super) fn overview(known: &Known, sheet: &mut Sheet<'_>) {
    let stages = &known.stages;
    let line = |cells: [&str; 6]| {
        let [name, trip, added, up, down, state] = cells;
        format!("{name:<6}{trip:>11}{added:>11}{up:>13}{down:>13}  {state}")
    };
    let titles = ["stage", "round trip", "added", "to server", "from server", ""];
    sheet.line(0, &line(titles), sheet.quiet());
    let idle = stages.rows.iter().find(|row| row.name == "idle").and_then(|row| row.trip.get());
    let last = stages.rows.len().saturating_sub(1);
    for (n, row) in stages.rows.iter().enumerate() {
        let trip = row.trip.get();
        let added = trip.zip(idle).filter(|_| row.name != "idle").map(|(now, idle)| signed(now - idle));
        let state = match (n == last, row.filling_ns) {
            (true, Some(ns)) => format!("filling the path, {} s", ns.div_ceil(SECOND)),
            (true, None) => "now".to_owned(),
            (false, _) => String::new(),
        };
        let rate = |mean: Mean| or_dash(mean.get(), format_bits_per_second);
        let cells =
            [or_dash(trip, format_duration), or_dash(added, |added| added), rate(row.up), rate(row.down)];
        let [trip, added, up, down] = &cells;
        let style = if n == last { sheet.heading() } else { CellStyle::default() };
        sheet.line(u16::clamped(n + 1), &line([&row.name, trip, added, up, down, &state]), style);
    }
    let height = sheet.area.height;
    let y = u16::clamped(stages.rows.len() + 2);
    let tracks = [stages.load.as_deref(), stages.trips.as_deref()];
    let plots: Vec<Plot<'_>> =
        tracks.into_iter().flatten().filter_map(|all| Plot::first(all, LINES)).collect();
    let below = NEWEST.min(height.saturating_sub(y) / 4) + 2;
    let taken = pages::draw(&plots, sheet, y, height.saturating_sub(y + below));
    pages::count_lines(known, &mut sheet.below(y + taken, 0));
    pages::newest(known, sheet, (y + taken + 2).max(height.saturating_sub(below - 2)));
}

/// A time more or less than another, ns.
fn signed(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { "-" } else { "+" }, format_duration(ns.abs()))
}
