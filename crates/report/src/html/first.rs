//! The first screen of a page: tiles with the figures that the run is about, and throughput, delay
//! and loss over one axis of time.

use super::escape;
use crate::plot::{Axis, Plot, Series, Style, panels};
use crate::plots::measured;
use crate::summary::{margin, worst};
use crate::text::Page;
use crate::words;
use metrics::{Spread, format_duration, real, seconds};
use model::load::{OneWay, StageResult, under_load};
use model::{End, Figure, Kind, Measure, Outcome, Point, Stat, Unit, Way};

/// Widths that the timeline is drawn in: of a screen, of a phone. The style sheet shows one of
/// them.
const WIDTHS: [(&str, f64); 2] = [("wide", 940.0), ("narrow", 350.0)];
const P99: Stat = Stat::Quantile(0.99);

/// Writes tiles and timeline.
pub(super) fn write(outcome: &Outcome, page: &mut Page<'_>) {
    tiled(tiles(outcome), page);
    let (plots, end, phases) = timeline(outcome);
    drawn(&plots, end, &phases, page);
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
            escape(&more)
        );
    }
    writeln!(page, "</ul>");
}

fn drawn(plots: &[Plot], end: f64, phases: &[(f64, String)], page: &mut Page<'_>) {
    if plots.is_empty() {
        return;
    }
    writeln!(page, "<section id=\"timeline\" aria-label=\"Throughput, delay and loss over time\">");
    for (class, width) in WIDTHS {
        write!(page, "<div class=\"{class}\">{}</div>", panels(plots, end, phases, width));
    }
    writeln!(page, "</section>");
}

/// Writes two runs over one axis of time, the second one's lines broken.
pub(crate) fn overlay(before: &Outcome, after: &Outcome, page: &mut Page<'_>) {
    let (mut plots, end, _) = timeline(before);
    let (others, other_end, _) = timeline(after);
    for series in plots.iter_mut().flat_map(|plot| &mut plot.series) {
        series.name.insert_str(0, "before: ");
    }
    for mut plot in others {
        for series in &mut plot.series {
            series.name.insert_str(0, "after: ");
            series.style = Style::Dashed;
        }
        match plots.iter_mut().find(|known| known.name == plot.name) {
            Some(known) => known.series.append(&mut plot.series),
            None => plots.push(plot),
        }
    }
    plots.sort_by(|a, b| a.name.cmp(&b.name));
    let plots: Vec<Plot> = plots.into_iter().filter_map(Plot::some).collect();
    drawn(&plots, end.max(other_end), &[], page);
}

/// Name, value, and what else is to be said of it.
pub(super) type Tile = (String, String, String);

fn tiles(outcome: &Outcome) -> Vec<Tile> {
    if outcome.begin.verb == "load" {
        return of_load(&under_load(outcome));
    }
    let mut tiles: Vec<Tile> = Vec::new();
    let [only] = outcome.points.as_slice() else { return tiles };
    let show = |figure: Figure| figure.of(only).map(|value| figure.unit().show(value));
    for way in Way::ALL {
        let figure = Figure::Goodput(way);
        if let Some(value) = show(figure).filter(|_| !matches!(only.phase.kind, Kind::Ping | Kind::Connect)) {
            let spread = Spread::of(&figure.readings(only, false));
            let more = spread.and_then(|spread| margin(&spread, |width| figure.unit().show(width)));
            tiles.push((way.words().to_owned(), value, more.unwrap_or_default()));
        }
    }
    let trips = [
        ("round trip, idle", only.idle_rtt_ns().map(real), ""),
        ("round trip, loaded", only.loaded_rtt_ns(), "mean, by the kernel"),
    ];
    for (name, ns, more) in trips {
        tiles.extend(ns.map(|ns| (name.to_owned(), format_duration(ns), more.to_owned())));
    }
    let kind = only.phase.kind;
    let is_tile = |figure: &Figure| match figure {
        Figure::Goodput(_) => false,
        Figure::ConnectTime(_) => Figure::leading(kind).contains(figure),
        figure => figure.is_leading(),
    };
    let mut others: Vec<Figure> = Figure::kept().filter(is_tile).collect();
    // Rates lead, as goodput does.
    others.sort_by_key(|figure| figure.unit() != Unit::BitsPerSecond);
    others.push(Figure::Retransmits);
    tiles.extend(others.into_iter().filter_map(|of| Some((of.to_string(), show(of)?, String::new()))));
    tiles
}

fn of_load(found: &[StageResult]) -> Vec<Tile> {
    let tile = |name: &str, value: String, more: String| (name.to_owned(), value, more);
    let worst = worst(found);
    let stage = |name: &str| found.iter().find(|f| f.stage == name);
    let rate = |way: Option<OneWay>| way?.goodput_bps.map(metrics::format_bits_per_second);
    let trip = |f: &StageResult| f.rtt_p50_ns.map(format_duration);
    let lost = found.iter().filter_map(|f| f.never_back).reduce(f64::max);
    let tiles = [
        worst.and_then(|f| Some(tile("grade", f.grade()?.to_owned(), format!("worst stage: {}", f.stage)))),
        stage("down").and_then(|f| Some(tile("goodput down", rate(f.down)?, String::new()))),
        stage("up").and_then(|f| Some(tile("goodput up", rate(f.up)?, String::new()))),
        stage("idle").and_then(|f| Some(tile("round trip, idle", trip(f)?, "median".to_owned()))),
        worst.and_then(|f| Some(tile("round trip, loaded", trip(f)?, format!("median, {}", f.stage)))),
        lost.map(|share| tile("lost, worst stage", format!("{:.2} %", 100.0 * share), String::new())),
    ];
    tiles.into_iter().flatten().collect()
}

/// Time in seconds and value; no value where the line is interrupted.
type Line = Vec<(f64, Option<f64>)>;

/// The panels that have anything, the end of the time and where phases begin.
fn timeline(outcome: &Outcome) -> (Vec<Plot>, f64, Vec<(f64, String)>) {
    let began =
        outcome.points.iter().filter_map(|point| point.started).map(|at| at.0).filter(|at| *at > 0).min();
    let mut after = 0.0;
    let mut phases: Vec<(f64, String)> = Vec::new();
    let mut all: [Vec<(String, Line)>; 3] = Default::default();
    for point in &outcome.points {
        let lasted = point.intervals.last().map_or(0.0, |last| seconds(last.end_ns));
        let start = match (began, point.started) {
            (Some(began), Some(at)) if at.0 > 0 => real(at.0.saturating_sub(began)) / 1e9,
            _ => after,
        };
        after = f64::max(after, start + lasted);
        let name =
            point.label.get("stage").cloned().unwrap_or_else(|| words::setting(&point.label, point.repeat));
        match phases.last_mut().filter(|(_, last)| *last == name) {
            // The parts of a stage begin one after the other.
            Some((began, _)) => *began = began.min(start),
            None => phases.push((start, name)),
        }
        for (panel, name, measure, end) in series(point) {
            let values = measured(point, measure, end).into_iter();
            let line: Line = values.map(|(at, value)| (start + at, value)).collect();
            if line.iter().all(|(_, y)| y.is_none()) {
                continue;
            }
            match all[panel].iter_mut().find(|(known, _)| *known == name) {
                // A line ends with its phase.
                Some((_, points)) => {
                    points.push((start, None));
                    points.extend(line);
                }
                None => all[panel].push((name, line)),
            }
        }
    }
    let axes = [
        Axis::new("throughput", Unit::BitsPerSecond),
        Axis::new("delay", Unit::Ns).log(),
        Axis::new("loss", Unit::Percent).at_least(0.0, 1.0),
    ];
    let plots = axes.into_iter().zip(all).enumerate().filter_map(|(n, (axis, lines))| {
        let plot = Plot::new(&format!("timeline-{n}"), &axis.label.clone(), Axis::time(), axis);
        plot.with(lines.into_iter().map(|(name, points)| Series::line(name, points))).some()
    });
    (plots.collect(), if after > 0.0 { after } else { 1.0 }, phases)
}

/// The panel, the name, the measure and the end of each series of a phase.
fn series(point: &Point) -> Vec<(usize, String, Measure, End)> {
    let is_part = point.label.contains_key("stage");
    let beside = is_part && point.label.get("part").is_none_or(|part| part != "load");
    let kind = point.phase.kind;
    let mut all: Vec<(usize, String, Measure, End)> = Vec::new();
    let mut add = |panel, name: String, figure: Figure, measure| {
        if figure.of(point).is_some() {
            all.push((panel, name, measure, figure.way().map_or(End::Local, Way::receiver)));
        }
    };
    for way in Way::ALL {
        let name = way.key();
        // Beside round trips they would be too many.
        if !beside {
            if !matches!(kind, Kind::Ping | Kind::Connect) {
                add(0, name.to_owned(), Figure::Goodput(way), Measure::RECEIVED);
            }
            add(1, format!("{name} p50"), Figure::Delay(way, Stat::MEDIAN), Measure::DELAY_P50);
            add(1, format!("{name} p99"), Figure::Delay(way, P99), Measure::DELAY_P99);
        }
        if point.phase.pattern.sends(way) {
            add(2, name.to_owned(), Figure::Loss(way), Measure::LOST_SHARE);
        }
    }
    add(2, "messages".to_owned(), Figure::MessagesLost, Measure::MESSAGES_LOST);
    add(1, "round trip p50".to_owned(), Figure::RoundTrip(Stat::MEDIAN), Measure::RTT_P50);
    add(1, "p99".to_owned(), Figure::RoundTrip(P99), Measure::RTT_P99);
    if kind == Kind::Tcp && !is_part {
        all.push((1, "TCP round trip, mean".to_owned(), Measure::SAMPLED_RTT_MEAN, End::Local));
        all.push((1, "largest".to_owned(), Measure::SAMPLED_RTT_MAX, End::Local));
    }
    all
}
