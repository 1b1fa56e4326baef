//! Several settings: the results of each.

use crate::plot::{Axis, AxisUnit, Plot, SPREAD, Series, Style};
use crate::words;
use metrics::{Spread, Wall, real, seconds};
use model::load::{OneWay, StageResult, under_load};
use model::{Figure, Outcome, Stat, SweepRow, Unit, Way};
use std::collections::BTreeMap;

/// Lines of one plot: values of the second setting.
const MOST_LINES: usize = 24;

pub(super) fn plots(outcome: &Outcome) -> Vec<Plot> {
    if outcome.begin.verb == "load" {
        return stages(&under_load(outcome)).into_iter().filter_map(Plot::some).collect();
    }
    let mut plots = settings(&outcome.sweep);
    plots.extend(over_time(outcome));
    plots
}

/// Goodput and round trips of the stages of a load, which are no values of a setting.
fn stages(found: &[StageResult]) -> [Plot; 2] {
    let names = || Axis::names("", found.iter().map(|f| f.stage.clone()).collect());
    let bars = |name: &str, of: &dyn Fn(&StageResult) -> Option<f64>| {
        let points = found.iter().enumerate().map(|(at, f)| (real(at), of(f)));
        Series::new(name, Style::Bars, points.collect())
    };
    let goodput = |way: Option<OneWay>| way?.goodput_bps;
    let rates = Axis::new("goodput", Unit::BitsPerSecond);
    let trips = Axis::new("round trip", Unit::Ns);
    [
        Plot::new("stages-goodput", "Goodput, stage by stage", names(), rates)
            .note("Of the connections that fill the path.")
            .with([bars("to server", &|f| goodput(f.up)), bars("from server", &|f| goodput(f.down))]),
        Plot::new("stages-trips", "Round trips, stage by stage", names(), trips)
            .note("Of a flow of their own beside the load, less the server's turnaround.")
            .with([
                bars("median", &|f| f.rtt_p50_ns.map(real)),
                bars("99th percentile", &|f| f.rtt_p99_ns.map(real)),
            ]),
    ]
}

/// The swept settings by name, the one with most values first: it goes across.
fn swept(rows: &[SweepRow]) -> Vec<(String, Vec<String>)> {
    let mut names: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (name, value) in rows.iter().flat_map(|row| &row.label) {
        let values = names.entry(name).or_default();
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    let mut names: Vec<(String, Vec<String>)> = names.into_iter().map(|(n, v)| (n.clone(), v)).collect();
    names.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
    names
}

/// Across a setting: numbers on their scale where all values are numbers, names otherwise.
struct Across {
    name: String,
    axis: Axis,
    values: Vec<String>,
}

impl Across {
    fn of(name: &str, values: &[String]) -> Self {
        let numbers: Vec<f64> = values.iter().filter_map(|v| v.parse().ok()).collect();
        let axis = if numbers.len() == values.len() && !numbers.is_empty() {
            let unit = match name {
                "buffer" | "size" | "length" => Unit::Bytes,
                "rate" => Unit::BitsPerSecond,
                "spacing" | "wait" => Unit::Ns,
                _ => Unit::Count,
            };
            let (low, high) =
                numbers.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
            let axis = Axis::new(name, unit);
            if low > 0.0 && high / low > SPREAD { axis.log() } else { axis }
        } else {
            Axis::names(name, values.iter().map(|v| words::value(name, v)).collect())
        };
        Across { name: name.to_owned(), axis, values: values.to_vec() }
    }

    fn at(&self, label: &BTreeMap<String, String>) -> Option<f64> {
        let value = label.get(&self.name)?;
        match self.axis.unit {
            AxisUnit::Name => self.values.iter().position(|v| v == value).map(real),
            _ => value.parse().ok(),
        }
    }
}

/// The rest of a label without the setting on the x axis.
fn rest(label: &BTreeMap<String, String>, across: &str) -> String {
    let others = label.iter().filter(|(name, _)| *name != across);
    others.map(|(name, value)| format!("{name} {}", words::value(name, value))).collect::<Vec<_>>().join(", ")
}

/// Lines of a plot by name: place and spread.
type Lines = BTreeMap<String, Vec<(f64, Spread)>>;

/// Each figure against the setting, with equal names in one plot.
fn settings(rows: &[SweepRow]) -> Vec<Plot> {
    let names = swept(rows);
    let Some((first, values)) = names.first().filter(|(_, values)| values.len() > 1) else {
        return Vec::new();
    };
    let across = Across::of(first, values);
    let mut panels: Vec<(&str, Plot, Lines)> = Vec::new();
    let shown = |figure: &Figure| {
        let known = rows.iter().any(|row| row.figure(*figure).is_some());
        known && (figure.is_compared() || *figure == Figure::Cpu)
    };
    for figure in SweepRow::known(rows).into_iter().filter(shown) {
        let (name, label) = figure.family();
        if !panels.iter().any(|(known, ..)| *known == name) {
            let title = format!("{}{} against {first}", label[..1].to_uppercase(), &label[1..]);
            let y = Axis::new(label, figure.unit());
            let plot = Plot::new(&format!("sweep-{name}"), &title, across.axis.clone(), y);
            let note = "Mean over the repetitions; bars are the 95 % confidence interval of the mean, where there are several.";
            panels.push((name, plot.note(note), BTreeMap::new()));
        }
        let Some((_, plot, lines)) = panels.iter_mut().find(|(known, ..)| *known == name) else { continue };
        for row in rows {
            let (Some(x), Some(spread)) = (across.at(&row.label), row.figure(figure)) else { continue };
            let words = [figure.part(), rest(&row.label, first)];
            let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
            let name = if words.is_empty() { label.to_owned() } else { words.join(", ") };
            lines.entry(name).or_default().push((x, spread));
        }
        if let (Figure::Delay(way, Stat::MEDIAN), "rate") = (figure, first.as_str()) {
            plot.marks.extend(knee(rows, way, &across));
        }
    }
    for (_, plot, _) in panels.iter_mut().filter(|(_, plot, _)| !plot.marks.is_empty()) {
        plot.note.push_str(" The knee has the most throughput per delay.");
    }
    let drawn =
        panels.into_iter().map(|(_, plot, lines)| plot.with(lines.into_iter().take(MOST_LINES).map(line)));
    drawn.filter_map(Plot::some).collect()
}

fn line((name, mut points): (String, Vec<(f64, Spread)>)) -> Series {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // No bar reaches below 0, unless readings did.
    let around = |s: &Spread| (s.n > 1).then(|| ((s.mean - s.ci95).max(s.min.min(0.0)), s.mean + s.ci95));
    Series {
        spread: points.iter().map(|(_, s)| around(s)).collect(),
        ..Series::line(name, points.iter().map(|(x, s)| (*x, Some(s.mean))).collect())
    }
}

/// The knee: where the rate that arrived, divided by the median delay, is largest (the power of
/// Kleinrock, 1979). Beyond it more load buys more delay than throughput.
fn knee(rows: &[SweepRow], way: Way, across: &Across) -> Option<(f64, String)> {
    let power = |row: &SweepRow| Some((across.at(&row.label)?, row.slot(way)?.power?));
    let all: Vec<(f64, f64)> = rows.iter().filter_map(power).collect();
    let best = all.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| all.len() > 2)?;
    Some((best.0, "knee".to_owned()))
}

/// Goodput of all phases one after the other, by the wall clock.
fn over_time(outcome: &Outcome) -> Option<Plot> {
    let begin = outcome.points.iter().filter_map(|p| p.started).min()?;
    let since = |wall: Wall| seconds(wall.0.saturating_sub(begin.0));
    let series = Way::ALL.map(|way| {
        let measured = outcome.points.iter().filter_map(|p| Some((since(p.started?), p)));
        let points = measured.map(|(at, p)| (at, Figure::Goodput(way).of(p))).collect();
        Series::new(way.words(), Style::Points, points)
    });
    Plot::new(
        "phases",
        "Goodput of each phase, in the order they ran",
        Axis::new("start of the phase", AxisUnit::Second),
        Axis::new("goodput", Unit::BitsPerSecond),
    )
    .note("A slope here, across settings that repeat, means that something else than the setting changed.")
    .with(series.into_iter().filter(Series::is_some))
    .some()
}
