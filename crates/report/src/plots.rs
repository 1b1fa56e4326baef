//! Plots of an outcome. Each is made of the outcome's data; a figure without a measurement gives no
//! plot.

use crate::plot::{Axis, AxisUnit, Plot, SPREAD, Series, Style};
use crate::summary::ends;
use crate::words;
use metrics::{Clamped, DistSummary, Ending, Spectrum, real, seconds};
use model::{ConnectionRecord, CpuUse, End, Interval, Kind, Measure, Outcome, Point, Unit};

mod capacity;
mod extras;
mod packets;
mod sweep;
mod tcp;
mod trains;

/// Most points of a sweep that have plots of their own.
const MOST_SHEETS: usize = 40;
/// Bars of a histogram that is made of a whole distribution.
const BARS: f64 = 60.0;

/// The plots of one phase, or of a sweep.
pub(crate) struct Sheet {
    /// Its subject among several; empty when it is the only one.
    pub(crate) title: String,
    /// Its plots, most important first.
    pub(crate) plots: Vec<Plot>,
    /// Titles of plots that would show zeros alone.
    pub(crate) zeros: Vec<String>,
    /// True if it is about one phase, and not about all.
    pub(crate) single: bool,
}

impl Sheet {
    pub(crate) fn new(title: String, plots: Vec<Plot>, single: bool) -> Self {
        let (plots, flat): (Vec<Plot>, Vec<Plot>) = plots.into_iter().partition(Plot::tells);
        Sheet { title, plots, zeros: flat.into_iter().map(|plot| plot.title).collect(), single }
    }
}

/// All plots of `outcome`: first the sweep's, then each phase's.
pub(crate) fn sheets(outcome: &Outcome) -> Vec<Sheet> {
    some_sheets(outcome, |at| at < MOST_SHEETS)
}

/// Plots of the sweep, and of the running phase, or the concurrent parts of a stage. Before these
/// have data, of the last finished ones.
pub(crate) fn latest_sheets(outcome: &Outcome) -> Vec<Sheet> {
    let points = &outcome.points;
    let now = points.len() - together(points);
    let before = now - together(&points[..now]);
    let sheets = some_sheets(outcome, |at| at >= now);
    match sheets.iter().any(|sheet| sheet.single) {
        true => sheets,
        false => some_sheets(outcome, |at| (before..now).contains(&at)),
    }
}

/// Number of the last points that ran concurrently.
fn together(points: &[Point]) -> usize {
    let Some(last) = points.last() else { return 0 };
    let beside = |point: &&Point| model::load::are_beside(point, last);
    points.iter().rev().take_while(beside).count().max(1)
}

/// Plots of the sweep, and of the wanted phases.
fn some_sheets(outcome: &Outcome, wanted: impl Fn(usize) -> bool) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    if outcome.points.len() > 1 {
        let title = "Over all phases".to_owned();
        sheets.push(Sheet::new(title, sweep::plots(outcome), false));
    }
    let several = outcome.points.len() > 1;
    let serving = outcome.begin.verb == "serve";
    for (at, point) in outcome.points.iter().enumerate().filter(|(at, _)| wanted(*at)) {
        let mut plots = of_point(point, serving);
        let mut title = words::setting(&point.label, point.repeat);
        if several {
            plots.iter_mut().for_each(|plot| plot.name = format!("{}-{}", at + 1, plot.name));
            if title.is_empty() {
                title = format!("Phase {}", at + 1);
            }
        }
        sheets.push(Sheet::new(title, plots, true));
    }
    sheets.retain(|sheet| !sheet.plots.is_empty());
    sheets
}

fn of_point(point: &Point, serving: bool) -> Vec<Plot> {
    let goodput = || vec![tcp::goodput(point, serving)];
    let own = match point.phase.kind {
        Kind::Tcp => [goodput(), tcp::plots(point)].concat(),
        Kind::Connect => tcp::connects(point),
        Kind::Ping => packets::round_trips(point),
        Kind::Stream => [packets::frames(point), goodput(), packets::datagrams(point, serving)].concat(),
        Kind::Delay => [packets::datagrams(point, serving), goodput()].concat(),
        Kind::Capacity => [capacity::plots(point), goodput()].concat(),
        Kind::Train => [trains::plots(point), packets::datagrams(point, serving)].concat(),
    };
    let all = [extras::plots(point), own, failures(point).into_iter().collect(), vec![cpu(point)]].concat();
    let mut plots: Vec<Plot> = all.into_iter().filter_map(Plot::some).collect();
    let omitted = point.intervals.iter().filter(|i| i.omitted).map(|i| i.end_ns).max();
    for plot in plots.iter_mut().filter(|plot| plot.x == Axis::time()) {
        plot.shade = omitted.map(|ns| (0.0, seconds(ns)));
    }
    plots
}

/// The middle of an interval, s: its counts are means over all of it.
fn middle(interval: &Interval) -> f64 {
    (seconds(interval.start_ns) + seconds(interval.end_ns)) / 2.0
}

/// Values of `of` for each interval, at its middle.
pub(crate) fn over_time(point: &Point, of: impl Fn(&Interval) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
    point.intervals.iter().filter(|i| i.ns() > 0).map(|i| (middle(i), of(i))).collect()
}

/// Values of a row of the table of intervals.
pub(crate) fn measured(point: &Point, measure: Measure, end: End) -> Vec<(f64, Option<f64>)> {
    over_time(point, |interval| measure.of(interval, end))
}

/// A distribution of times: a line from percentile to percentile.
fn curve(name: &str, times: &Spectrum) -> Series {
    let count = real(times.total().max(1));
    let odds = (0..).map(|k| 10f64.powf(f64::from(k) / 20.0)).take_while(|odds| *odds < count);
    let known = odds.map_while(|odds| Some((odds, Some(real(times.quantile(1.0 - 1.0 / odds)?)))));
    let mut points: Vec<_> = known.collect();
    if times.missing == 0 {
        points.push((count, Some(real(times.max))));
    }
    Series::line(name, points)
}

/// The same of a summary, which has few percentiles: the ones that its number of values supports.
fn coarse_curve(name: &str, dist: &DistSummary) -> Series {
    let count = real(dist.count.max(1));
    let known = [(1.0, dist.min), (2.0, dist.p50), (10.0, dist.p90), (100.0, dist.p99), (1000.0, dist.p999)];
    let mut points: Vec<_> = known
        .into_iter()
        .filter(|(odds, _)| *odds <= count)
        .map(|(odds, ns)| (odds, Some(real(ns))))
        .collect();
    if count > points.last().map_or(0.0, |p| p.0) {
        points.push((count, Some(real(dist.max))));
    }
    Series::line(name, points)
}

/// A plot of percentiles of times.
fn percentiles(name: &str, title: &str, what: &str) -> Plot {
    let odds = Axis::new("percentile", AxisUnit::Percentile);
    Plot::new(name, title, odds.log(), Axis::new(what, Unit::Ns))
}

/// A distribution of times as a histogram: percent of all values in each step. The steps are even,
/// or, when the values spread over more than [`SPREAD`], evenly many to a decade.
fn histogram(name: &str, times: &Spectrum) -> (Series, bool) {
    let (low, high) = (real(times.min.max(1)), real(times.max.max(2)) * 1.000_001);
    let log = high / low > SPREAD;
    let edge = |n: f64| match log {
        true => low * (high / low).powf(n / BARS),
        false => low + (high - low) * n / BARS,
    };
    let at = |value: f64| match log {
        true => BARS * (value / low).ln() / (high / low).ln(),
        false => BARS * (value - low) / (high - low),
    };
    let mut bars = [0u64; BARS as usize];
    for &(value, n) in &times.counts {
        let place = usize::clamped(at((real(value)).clamp(low, high)).clamp(0.0, BARS - 1.0));
        bars[place] += n;
    }
    let all = real(times.count.max(1));
    let mut points: Vec<_> =
        bars.iter().enumerate().map(|(n, &count)| (edge(real(n)), Some(100.0 * real(count) / all))).collect();
    points.push((high, None));
    (Series::new(name, Style::Steps, points), log)
}

/// The same of a summary: its buckets, about ten to a decade.
fn coarse_histogram(name: &str, dist: &DistSummary) -> Option<Series> {
    let all = real(dist.count.max(1));
    let mut from = real(dist.min.max(1));
    let mut points = Vec::new();
    for &(bound, count) in &dist.buckets {
        points.push((from, Some(100.0 * real(count) / all)));
        from = (real(bound)).max(from);
    }
    points.push((from.max(real(dist.max)), None));
    (points.len() > 1).then(|| Series::new(name, Style::Steps, points))
}

/// The plot of a histogram of times.
fn times_axis(log: bool) -> (Axis, Axis) {
    let across = Axis::new("time", Unit::Ns);
    (if log { across.log() } else { across }, Axis::new("share of the values", Unit::Percent))
}

/// Failures over time.
fn failures(point: &Point) -> Option<Plot> {
    if point.errors() == 0 {
        return None;
    }
    // Intervals have their total so far.
    let line = |name: &str, of: fn(&Interval) -> u64| {
        let mut before = 0;
        let intervals = point.intervals.iter().filter(|interval| interval.ns() > 0);
        let points = intervals.map(|interval| {
            let grown = of(interval).saturating_sub(std::mem::replace(&mut before, of(interval)));
            (middle(interval), Some(real(grown)))
        });
        Series::line(name, points.collect())
    };
    let single = |name: &str, class: Ending| {
        let own = point.connections.iter().filter(|c: &&ConnectionRecord| c.result == class);
        Series::new(name, Style::Points, own.map(|c| (seconds(c.ended_ns), Some(1.0))).collect())
    };
    Plot::timed("failures", "Failures over time", "connections that failed", Unit::Count)
    .note(
        "Lines: counted in each interval at this end. Points: single connections of which there is a record.",
    )
    .with([
        line("network errors", |i| i.network_errors),
        line("data and protocol errors", |i| i.data_errors),
        single("a network error", Ending::NetworkError),
        single("a data error", Ending::DataError),
        single("a protocol error", Ending::ProtocolError),
    ])
    .some()
}

/// Load of the hosts: percent of all their CPUs' time, and of the busiest one's.
fn cpu(point: &Point) -> Plot {
    let ends = ends(point).filter_map(|(name, totals)| Some((name, totals.cpu?)));
    let ends: Vec<(String, CpuUse)> = ends.take(16).collect();
    let share = |name: &str, of: fn(&CpuUse) -> Option<f64>| {
        let points = ends.iter().enumerate().map(|(at, (_, cpu))| (real(at), of(cpu).map(|s| s * 100.0)));
        Series::new(name, Style::Bars, points.collect())
    };
    let names = ends.iter().map(|(name, _)| name.clone()).collect();
    Plot::new(
        "cpu",
        "CPU",
        Axis::names("", names),
        Axis::new("share of the time", Unit::Percent).at_least(0.0, 100.0),
    )
    .note("Of the time of all CPUs together, but for the busiest one, which is one CPU's.")
    .with([
        share("this process", |cpu| cpu.share(cpu.process_s())),
        share("whole machine", |cpu| cpu.share(cpu.machine_s)),
        share("softirq", |cpu| cpu.share(cpu.softirq_s)),
        share("stolen by the hypervisor", |cpu| cpu.share(cpu.steal_s)),
        share("busiest CPU", |cpu| Some(cpu.busiest)),
    ])
}

#[cfg(test)]
mod tests;
