//! Several settings: what each of them gave.

use crate::plot::{Axis, Plot, Series, Unit};
use crate::words;
use metrics::{Spread, Wall, real, seconds};
use model::{DelayRange, Outcome, PacketReport, Point, SweepRow};
use std::collections::BTreeMap;

/// Lines of one plot: values of the second setting.
const MOST_LINES: usize = 24;

/// A figure of a point, and of the points of one setting together.
type Figure = fn(&Point) -> Option<f64>;

/// A figure of a setting over its repetitions.
type RowFigure = fn(&SweepRow) -> Option<Spread>;

/// A plot against the setting: its name, its title, its values, and what is read of a row or a point.
struct Panel<T: 'static> {
    slug: &'static str,
    title: &'static str,
    y: Axis,
    figures: &'static [(&'static str, T)],
}

pub(super) fn plots(outcome: &Outcome) -> Vec<Plot> {
    let mut plots = settings(&outcome.sweep);
    plots.extend(figures(outcome));
    plots.extend(over_time(outcome));
    plots
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
            if low > 0.0 && high / low > 20.0 { axis.log() } else { axis }
        } else {
            Axis::names(name, values.iter().map(|v| words::value(name, v)).collect())
        };
        Across { name: name.to_owned(), axis, values: values.to_vec() }
    }

    fn at(&self, label: &BTreeMap<String, String>) -> Option<f64> {
        let value = label.get(&self.name)?;
        match self.axis.unit {
            Unit::Name => self.values.iter().position(|v| v == value).map(real),
            _ => value.parse().ok(),
        }
    }
}

/// What is left of a label without the setting that goes across.
fn rest(label: &BTreeMap<String, String>, across: &str) -> String {
    let others = label.iter().filter(|(name, _)| *name != across);
    others.map(|(name, value)| format!("{name} {}", words::value(name, value))).collect::<Vec<_>>().join(", ")
}

/// Rows of the sweep: goodput, connections and CPU against the setting.
fn settings(rows: &[SweepRow]) -> Vec<Plot> {
    let names = swept(rows);
    let Some((first, values)) = names.first().filter(|(_, values)| values.len() > 1) else {
        return Vec::new();
    };
    let across = Across::of(first, values);
    let panels: [Panel<RowFigure>; 3] = [
        Panel {
            slug: "sweep-goodput",
            title: "Goodput",
            y: Axis::new("goodput", Unit::BitsPerSecond),
            figures: &[("to server", |r| r.up), ("from server", |r| r.down)],
        },
        Panel {
            slug: "sweep-connects",
            title: "Connections per second",
            y: Axis::new("connections", Unit::PerSecond),
            figures: &[("established", |r| r.connects)],
        },
        Panel {
            slug: "sweep-cpu",
            title: "CPU time per GB",
            y: Axis::new("CPU seconds per 10^9 bytes", Unit::Count),
            figures: &[("both ends", |r| r.cpu_s_per_gb)],
        },
    ];
    let mut plots = Vec::new();
    for Panel { slug, title, y, figures } in panels {
        let mut lines: BTreeMap<String, Vec<(f64, Spread)>> = BTreeMap::new();
        for (what, of) in figures {
            for row in rows {
                let (Some(x), Some(spread)) = (across.at(&row.label), of(row)) else { continue };
                let rest = rest(&row.label, first);
                let name = if rest.is_empty() { (*what).to_owned() } else { format!("{what}, {rest}") };
                lines.entry(name).or_default().push((x, spread));
            }
        }
        plots.push(
            Plot::new(slug, &format!("{title} against {first}"), across.axis.clone(), y)
                .note("Mean over the repetitions; bars are the 95 % confidence interval of the mean, where there are several.")
                .with(lines.into_iter().take(MOST_LINES).map(line)),
        );
    }
    plots.into_iter().filter_map(Plot::some).collect()
}

fn line((name, mut points): (String, Vec<(f64, Spread)>)) -> Series {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let around = |s: &Spread| (s.n > 1).then_some((s.mean - s.ci95, s.mean + s.ci95));
    Series {
        spread: points.iter().map(|(_, s)| around(s)).collect(),
        ..Series::line(name, points.iter().map(|(x, s)| (*x, Some(s.mean))).collect())
    }
}

/// Delay and loss against the setting, point by point.
fn figures(outcome: &Outcome) -> Vec<Plot> {
    let names = swept(&outcome.sweep);
    let Some((first, values)) = names.first().filter(|(_, values)| values.len() > 1) else {
        return Vec::new();
    };
    let across = Across::of(first, values);
    let panels: [Panel<Figure>; 2] = [
        Panel {
            slug: "sweep-delay",
            title: "Delay",
            y: Axis::new("delay", Unit::Ns).log(),
            figures: &[
                ("median", |p| delay(p).map(|d| d.0)),
                ("99th percentile", |p| delay(p).map(|d| d.1)),
                ("median there", |p| remote_delay(p).map(|d| d.0)),
                ("99th percentile there", |p| remote_delay(p).map(|d| d.1)),
                ("mean there", |p| Some(remote_range(p)?.mean)),
                ("largest there", |p| Some(real(remote_range(p)?.max))),
                ("smallest there", |p| Some(real(remote_range(p)?.min?))),
            ],
        },
        Panel {
            slug: "sweep-loss",
            title: "Loss",
            y: Axis::new("datagrams lost", Unit::Percent),
            figures: &[
                ("received here", |p| lost(p.local.packets.as_deref())),
                ("received there", |p| lost(p.remote.iter().find_map(|t| t.packets.as_deref()))),
            ],
        },
    ];
    let mut plots = Vec::new();
    for Panel { slug, title, y, figures } in panels {
        let mut plot = Plot::new(slug, &format!("{title} against {first}"), across.axis.clone(), y);
        for (what, of) in figures {
            let mut lines: BTreeMap<String, Vec<(f64, Option<f64>)>> = BTreeMap::new();
            for point in &outcome.points {
                let (Some(x), Some(value)) = (across.at(&point.label), of(point)) else { continue };
                let rest = rest(&point.label, first);
                let name = if rest.is_empty() { (*what).to_owned() } else { format!("{what}, {rest}") };
                lines.entry(name).or_default().push((x, Some(value)));
            }
            for (name, mut points) in lines.into_iter().take(MOST_LINES) {
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                plot.add(Series::line(name, points));
            }
        }
        if slug == "sweep-delay" && first == "rate" {
            plot.marks.extend(knee(outcome, &across));
        }
        plots.extend(plot.some());
    }
    plots
}

/// Percent of the datagrams that did not come.
fn lost(report: Option<&PacketReport>) -> Option<f64> {
    report?.loss().map(|share| share * 100.0)
}

/// Median and 99th percentile of what this end measured: round trips or one-way delays, ns.
fn delay(point: &Point) -> Option<(f64, f64)> {
    if let Some(rtt) = point.local.pings.as_ref().and_then(|trips| trips.rtt_ns.as_ref()) {
        return Some((real(rtt.quantile(0.5)?), real(rtt.quantile(0.99)?)));
    }
    let dist = point.local.packets.as_ref()?.delay_ns.as_ref()?;
    Some((real(dist.p50), real(dist.p99)))
}

/// The same of the remote end.
fn remote_delay(point: &Point) -> Option<(f64, f64)> {
    let dist = point.remote.iter().find_map(|t| t.packets.as_ref())?.delay_ns.as_ref()?;
    Some((real(dist.p50), real(dist.p99)))
}

/// What is known of the remote end's delays where another program kept no distribution.
fn remote_range(point: &Point) -> Option<DelayRange> {
    point.remote.iter().find_map(|t| t.packets.as_ref())?.delay_range_ns
}

/// The knee: where the rate that came through, divided by the median delay, is largest (the power of Kleinrock, 1979). Beyond
/// it more load buys more delay than throughput.
fn knee(outcome: &Outcome, across: &Across) -> Option<(f64, String)> {
    let power = |point: &Point| {
        let (median, _) = delay(point).or_else(|| remote_delay(point))?;
        let rate = point.up.or(point.down)?.goodput_bps;
        (median > 0.0 && rate > 0.0).then(|| Some((across.at(&point.label)?, rate / median)))?
    };
    let all: Vec<(f64, f64)> = outcome.points.iter().filter_map(power).collect();
    let best = all.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| all.len() > 2)?;
    Some((best.0, "knee: most throughput per delay".to_owned()))
}

/// Goodput of all phases one after the other, by the wall clock.
fn over_time(outcome: &Outcome) -> Option<Plot> {
    let begin = outcome.points.iter().filter_map(|p| p.started).min()?;
    let since = |wall: Wall| seconds(wall.0.saturating_sub(begin.0));
    type Way = fn(&Point) -> Option<model::Direction>;
    let ways: [(&str, Way); 2] = [("to server", |p| p.up), ("from server", |p| p.down)];
    let series = ways.map(|(name, of)| {
        let measured = outcome.points.iter().filter_map(|p| Some((since(p.started?), p)));
        Series::line(name, measured.map(|(at, p)| (at, of(p).map(|d| d.goodput_bps))).collect())
    });
    Plot::new(
        "phases",
        "Goodput of each phase, in the order they ran",
        Axis::new("start of the phase", Unit::Second),
        Axis::new("goodput", Unit::BitsPerSecond),
    )
    .note("A slope here, across settings that repeat, means that something else than the setting changed.")
    .with(series.into_iter().filter(Series::is_some))
    .some()
}
