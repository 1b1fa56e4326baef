//! The first screen of a page: tiles with the figures that answer the question, and these over one
//! axis of time.

use super::escape;
use crate::plot::{Axis, Plot, Series, Style, panels};
use crate::plots::{measured, over_time};
use crate::summary::{grown, is_sweep, known_within, phase_tiles, worst};
use crate::text::Page;
use crate::words;
use metrics::{Spread, format_duration, format_percent, real, seconds};
use model::load::{OneWay, StageResult, under_load};
use model::{End, Figure, Interval, Kind, Measure, Outcome, PingInterval, Point, Stat, Unit, Way};

/// Widths that the timeline is drawn in: of a screen, of a phone. The style sheet shows one of
/// them.
const WIDTHS: [(&str, f64); 2] = [("wide", 940.0), ("narrow", 350.0)];
const P99: Stat = Stat::Quantile(0.99);
/// Largest spread of delays of a load on a linear axis: a queue that grows by a factor of 20 is the
/// answer of a load.
const LOAD_SPREAD: f64 = 30.0;
/// Most phases over one axis of time: more are a fence.
const MOST_PHASES: usize = 8;

/// Writes tiles and timeline. Returns false without a timeline: the first plot answers the question
/// of trains and sweeps.
pub(super) fn write(outcome: &Outcome, page: &mut Page<'_>) -> bool {
    tiled(tiles(outcome), page);
    let trains = matches!(outcome.points.as_slice(), [only] if only.phase.kind == Kind::Train);
    let timeline = timeline(outcome);
    let is_timed = !trains && !is_sweep(outcome) && timeline.phases.len() <= MOST_PHASES;
    if is_timed {
        drawn(&timeline, page);
    }
    is_timed && !timeline.plots.is_empty()
}

/// Writes tiles.
pub(super) fn tiled(tiles: Vec<Tile>, page: &mut Page<'_>) {
    if tiles.is_empty() {
        return;
    }
    writeln!(page, "<ul class=\"tiles\">");
    for (name, value, more) in tiles {
        writeln!(
            page,
            "<li><span class=\"name\">{}</span><span class=\"value\">{}</span><span class=\"more\">{}</span></li>",
            escape(&name),
            escape(&value),
            escape(&more).replace(" %", "\u{a0}%")
        );
    }
    writeln!(page, "</ul>");
}

fn drawn(timeline: &Timeline, page: &mut Page<'_>) {
    if timeline.plots.is_empty() {
        return;
    }
    let Timeline { plots, end, phases, shades, .. } = timeline;
    writeln!(page, "<section id=\"timeline\" aria-label=\"The main figures over time\">");
    for (class, width) in WIDTHS {
        write!(page, "<div class=\"{class}\">{}</div>", panels(plots, *end, phases, shades, width));
    }
    let remarks = [
        (!shades.is_empty(), "Shaded: the load fills the path, and no delay is measured yet."),
        (timeline.is_lossless, "Nothing was lost."),
    ];
    let remarks: Vec<&str> = remarks.into_iter().filter(|(is, _)| *is).map(|(_, text)| text).collect();
    if !remarks.is_empty() {
        writeln!(page, "<p class=\"soft\">{}</p>", remarks.join(" "));
    }
    writeln!(page, "</section>");
}

/// Writes two runs over one axis of time, the second one's lines broken.
pub(crate) fn overlay(before: &Outcome, after: &Outcome, page: &mut Page<'_>) {
    let (mut all, others) = (timeline(before), timeline(after));
    for series in all.plots.iter_mut().flat_map(|plot| &mut plot.series) {
        series.name.insert_str(0, "before: ");
    }
    for mut plot in others.plots {
        for series in &mut plot.series {
            series.name.insert_str(0, "after: ");
            series.style = Style::Dashed;
        }
        match all.plots.iter_mut().find(|known| known.y.label == plot.y.label) {
            Some(known) => known.series.append(&mut plot.series),
            None => all.plots.push(plot),
        }
    }
    let plots = all.plots.into_iter().filter_map(Plot::some).collect();
    let end = all.end.max(others.end);
    drawn(&Timeline { plots, end, ..Timeline::default() }, page);
}

/// Name, value, and what else is to be said of it.
pub(super) type Tile = (String, String, String);

fn tiles(outcome: &Outcome) -> Vec<Tile> {
    match outcome.points.as_slice() {
        _ if outcome.begin.verb == "load" => of_load(&under_load(outcome)),
        [only] => of_point(only),
        _ => phase_tiles(outcome),
    }
}

/// The figures that lead for the question, and of connections the kernel's beside them.
fn of_point(point: &Point) -> Vec<Tile> {
    let kind = point.phase.kind;
    // Datagrams as fast as it goes ask for the rate.
    let rates = Way::ALL
        .map(Figure::Goodput)
        .into_iter()
        .filter(|_| kind == Kind::Delay && point.phase.rate.is_none());
    let tile = |figure: Figure| {
        let figure = figure.supported(point);
        let show = |value: f64| figure.unit().show(value);
        let value = figure.of(point)?;
        let known = matches!(figure, Figure::Goodput(_) | Figure::Connects);
        let spread = known.then(|| Spread::of(&figure.readings(point, false))).flatten();
        let more = spread.and_then(|spread| known_within(&spread, show));
        Some((figure.to_string(), show(value), more.unwrap_or_default()))
    };
    let mut tiles: Vec<Tile> = rates.chain(Figure::leading(kind).iter().copied()).filter_map(tile).collect();
    if kind == Kind::Tcp {
        let trips = [
            ("round trip, idle", point.idle_rtt_ns().map(real), ""),
            ("round trip, loaded", point.loaded_rtt_ns(), "mean, by the kernel"),
        ];
        for (name, ns, more) in trips {
            tiles.extend(ns.map(|ns| (name.to_owned(), format_duration(ns), more.to_owned())));
        }
        tiles.extend(tile(Figure::Retransmits));
    }
    tiles
}

fn of_load(found: &[StageResult]) -> Vec<Tile> {
    let tile = |name: &str, value: String, more: String| (name.to_owned(), value, more);
    let worst = worst(found);
    let stage = |name: &str| found.iter().find(|f| f.stage == name);
    let rate = |way: Option<OneWay>| way?.goodput_bps.map(metrics::format_bits_per_second);
    let trip = |f: &StageResult| f.rtt_p50_ns.map(format_duration);
    let idle = || stage("idle").and_then(trip);
    let lost = found.iter().filter_map(|f| f.never_back).reduce(f64::max);
    let tiles = [
        worst.and_then(|f| Some(tile("grade", f.grade()?.to_owned(), format!("worst stage: {}", f.stage)))),
        worst.and_then(|f| {
            let (added, of) = grown(f)?;
            Some(tile("added delay", added, format!("{of}, {}", f.stage)))
        }),
        stage("down").and_then(|f| Some(tile("goodput down", rate(f.down)?, String::new()))),
        stage("up").and_then(|f| Some(tile("goodput up", rate(f.up)?, String::new()))),
        match worst {
            Some(f) => {
                let than =
                    idle().map_or_else(String::new, |idle| format!("median, {}; idle {idle}", f.stage));
                trip(f).map(|trip| tile("round trip, loaded", trip, than))
            }
            None => idle().map(|idle| tile("round trip, idle", idle, "median".to_owned())),
        },
        lost.map(|share| tile("lost, worst stage", format_percent(100.0 * share), String::new())),
    ];
    tiles.into_iter().flatten().collect()
}

/// Time in seconds and value; no value where the line is interrupted.
type Line = Vec<(f64, Option<f64>)>;

/// The main figures over the time of a run, panel by panel.
#[derive(Default)]
struct Timeline {
    plots: Vec<Plot>,
    /// The end of the time, s.
    end: f64,
    /// The begin of each phase, s, and its name.
    phases: Vec<(f64, String)>,
    /// Times in which a load fills the path, s.
    shades: Vec<(f64, f64)>,
    /// True if losses were counted and none occurred: they have no panel.
    is_lossless: bool,
}

/// A panel of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Panel {
    Frames,
    Connects,
    Throughput,
    Delay,
    Loss,
}

impl Panel {
    /// Panels of a phase, the question's own first.
    fn of(phase: &model::Phase) -> &'static [Panel] {
        use Panel::{Connects, Delay, Frames, Loss, Throughput};
        match phase.kind {
            Kind::Stream => &[Frames, Delay, Loss, Throughput],
            Kind::Connect => &[Connects, Delay],
            Kind::Delay | Kind::Train if phase.rate.is_some() => &[Delay, Loss, Throughput],
            _ => &[Throughput, Delay, Loss],
        }
    }

    fn axis(self) -> Axis {
        match self {
            Panel::Frames => Axis::new("frames not in time", Unit::Percent).at_least(0.0, 1.0),
            Panel::Connects => Axis::new("connections", Unit::PerSecond),
            Panel::Throughput => Axis::new("throughput", Unit::BitsPerSecond),
            Panel::Delay => Axis::new("delay", Unit::Ns),
            Panel::Loss => Axis::new("loss", Unit::Percent).at_least(0.0, 1.0),
        }
    }
}

fn timeline(outcome: &Outcome) -> Timeline {
    let began =
        outcome.points.iter().filter_map(|point| point.started).map(|at| at.0).filter(|at| *at > 0).min();
    let mut found = Timeline::default();
    let mut all: Vec<(Panel, Vec<(String, Line)>)> = Vec::new();
    // The connections of a load decide its panels.
    let phase = outcome.points.iter().map(|point| &point.phase).max_by_key(|phase| phase.kind == Kind::Tcp);
    for panel in phase.map_or(&[][..], Panel::of) {
        all.push((*panel, Vec::new()));
    }
    // Time of the first delay of the stage, s.
    let mut probed: Option<f64> = None;
    let mut stage_before: Option<&String> = None;
    for point in &outcome.points {
        let lasted = point.intervals.last().map_or(0.0, |last| seconds(last.end_ns));
        let start = match (began, point.started) {
            (Some(began), Some(at)) if at.0 > 0 => real(at.0.saturating_sub(began)) / 1e9,
            _ => found.end,
        };
        found.end = f64::max(found.end, start + lasted);
        let stage = point.label.get("stage");
        if stage != stage_before {
            (stage_before, probed) = (stage, None);
        }
        let name = stage.cloned().unwrap_or_else(|| words::setting(&point.label, point.repeat));
        match found.phases.last_mut().filter(|(_, last)| *last == name) {
            // The parts of a stage begin one after the other.
            Some((began, _)) => *began = began.min(start),
            None => found.phases.push((start, name)),
        }
        if stage.is_some() && point.phase.omit_ns > 0 && lasted > 0.0 {
            let ramp = seconds(point.phase.omit_ns).min(lasted);
            // The probes are set up through the full queue.
            let probed = probed.take().filter(|at| *at > start).unwrap_or(0.0).min(start + lasted);
            found.shades.push((start, f64::max(start + ramp, probed)));
        }
        for (panel, name, values) in series(point) {
            let line: Line = values.into_iter().map(|(at, value)| (start + at, value)).collect();
            if stage.is_some() && panel == Panel::Delay {
                let first = line.iter().find_map(|(at, value)| value.map(|_| *at));
                probed = first.map(|first| probed.map_or(first, |at: f64| at.min(first))).or(probed);
            }
            let lines = all.iter_mut().find(|(known, _)| *known == panel).map(|(_, lines)| lines);
            let Some(lines) = lines.filter(|_| line.iter().any(|(_, y)| y.is_some())) else { continue };
            match lines.iter_mut().find(|(known, _)| *known == name) {
                // A line ends with its phase.
                Some((_, points)) => {
                    points.push((start, None));
                    points.extend(line);
                }
                None => lines.push((name, line)),
            }
        }
    }
    let is_load = outcome.begin.verb == "load";
    for (n, (panel, mut lines)) in all.into_iter().enumerate() {
        let mut axis = panel.axis();
        if is_load {
            // A direction has one colour in all panels.
            lines.sort_by_key(|(name, _)| (!name.starts_with("down"), !name.starts_with("up")));
            axis.spread = LOAD_SPREAD;
        }
        let plot = Plot::new(&format!("timeline-{n}"), &axis.label.clone(), Axis::time(), axis);
        let plot = plot.with(lines.into_iter().map(|(name, points)| Series::line(name, points))).some();
        let lossless = plot.as_ref().is_some_and(|plot| panel == Panel::Loss && !plot.tells());
        found.is_lossless |= lossless;
        found.plots.extend(plot.filter(|_| !lossless));
    }
    found.end = if found.end > 0.0 { found.end } else { 1.0 };
    found
}

/// The panel, the name and the values of each series of a phase.
fn series(point: &Point) -> Vec<(Panel, String, Line)> {
    let is_part = point.label.contains_key("stage");
    let is_probe = is_part && point.label.get("part").is_none_or(|part| part != "load");
    let kind = point.phase.kind;
    let mut all: Vec<(Panel, String, Line)> = Vec::new();
    let mut add = |panel, name: String, figure: Figure, measure: Measure| {
        if figure.of(point).is_some() {
            let end = figure.way().map_or(End::Local, Way::receiver);
            // The round trips of a load are less the server's turnaround.
            let of_path = |interval: &Interval| {
                let pings = interval.pings.map(PingInterval::of_path);
                measure.of(&Interval { pings, ..interval.clone() }, end)
            };
            let is_trip = is_part && matches!(figure, Figure::RoundTrip(_));
            let values = if is_trip { over_time(point, of_path) } else { measured(point, measure, end) };
            all.push((panel, name, values));
        }
    };
    for way in Way::ALL {
        let name = way.key();
        if !is_probe && !matches!(kind, Kind::Ping | Kind::Connect) {
            add(Panel::Throughput, name.to_owned(), Figure::Goodput(way), Measure::RECEIVED);
        }
        add(Panel::Delay, format!("{name} p50"), Figure::Delay(way, Stat::MEDIAN), Measure::DELAY_P50);
        // Beside round trips they would be too many.
        if !is_probe {
            add(Panel::Delay, format!("{name} p99"), Figure::Delay(way, P99), Measure::DELAY_P99);
        }
        if point.phase.pattern.sends(way) {
            add(Panel::Loss, name.to_owned(), Figure::Loss(way), Measure::LOST_SHARE);
        }
    }
    // A load has exchanges of its own between its payload.
    if kind == Kind::Ping {
        add(Panel::Loss, "messages".to_owned(), Figure::MessagesLost, Measure::MESSAGES_LOST);
        let median = Figure::RoundTrip(Stat::MEDIAN);
        add(Panel::Delay, "round trip p50".to_owned(), median, Measure::RTT_P50);
        add(Panel::Delay, "p99".to_owned(), Figure::RoundTrip(P99), Measure::RTT_P99);
    }
    if kind == Kind::Connect {
        add(Panel::Connects, "established".to_owned(), Figure::Connects, Measure::CONNECTS);
    }
    if kind == Kind::Stream && Figure::Frames.of(point).is_some() {
        let values = over_time(point, |interval| Figure::Frames.of_interval(interval));
        all.push((Panel::Frames, "dropped".to_owned(), values));
    }
    if matches!(kind, Kind::Tcp | Kind::Connect) && !is_part {
        let trips =
            [("TCP round trip, mean", Measure::SAMPLED_RTT_MEAN), ("largest", Measure::SAMPLED_RTT_MAX)];
        all.extend(
            trips
                .map(|(name, measure)| (Panel::Delay, name.to_owned(), measured(point, measure, End::Local))),
        );
    }
    all
}
