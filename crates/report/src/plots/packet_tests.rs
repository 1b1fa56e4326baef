//! UDPmon's tests: rates and losses against the spacing or the size, histograms, packets one by one, and round trips by size.

use super::times_axis;
use crate::plot::{Axis, Plot, Series, Style, Unit};
use crate::summary::packet_tests::{TENTH, figure};
use metrics::{Binned, format_bytes, format_duration, percent_of, real};
use model::{Figure, PacketTest, Point};
use std::collections::{BTreeMap, BTreeSet};

/// Tests whose histograms and packets are drawn.
const MOST: usize = 8;

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    let tests: Vec<&PacketTest> = point.packet_tests.iter().filter(|test| test.over).collect();
    let mut plots = against(&tests);
    plots.push(round_trips(&tests));
    plots.push(gaps(&tests));
    plots.push(trip_histogram(&tests));
    plots.push(packets(&tests));
    plots.into_iter().filter_map(Plot::some).collect()
}

fn wait_ns(test: &PacketTest) -> f64 {
    f64::from(test.wait) * TENTH
}

fn name(test: &PacketTest) -> String {
    match &test.latency {
        Some(trips) => format!("{} back", format_bytes(trips.response.into())),
        None => format!("{} every {}", format_bytes(test.size.into()), format_duration(wait_ns(test))),
    }
}

/// What arrived and what was lost, against what was varied: the spacing, a line per size, or the size.
fn against(tests: &[&PacketTest]) -> Vec<Plot> {
    let streams: Vec<&PacketTest> = tests.iter().copied().filter(|test| test.counts.is_some()).collect();
    let mut lines: BTreeMap<u32, Vec<&PacketTest>> = BTreeMap::new();
    streams.iter().for_each(|test| lines.entry(test.size).or_default().push(test));
    let by_wait = lines.values().any(|line| line.iter().any(|test| test.wait != line[0].wait));
    if !by_wait && lines.len() < 2 {
        return Vec::new();
    }
    let across = || match by_wait {
        true => Axis::new("time from packet to packet", Unit::Ns),
        false => Axis::new("size of a packet, UDP payload", Unit::Bytes),
    };
    let place = |test: &PacketTest| if by_wait { wait_ns(test) } else { f64::from(test.size) };
    let groups: Vec<(String, Vec<&PacketTest>)> = if by_wait {
        lines.into_iter().map(|(size, line)| (format_bytes(size.into()), line)).collect()
    } else {
        vec![("all".to_owned(), streams)]
    };
    let series = |of: &dyn Fn(&PacketTest) -> Option<f64>| -> Vec<Series> {
        let one = |(name, line): &(String, Vec<&PacketTest>)| {
            over_tests(name, line.iter().filter_map(|test| Some((place(test), of(test)?))).collect())
        };
        groups.iter().map(one).collect()
    };
    let rate = Axis::new("rate received, UDP payload", Unit::BitsPerSecond);
    vec![
        Plot::new("packet-tests-rate", "Rate received", across(), rate)
            .note(format!("Between the first packet and the last, as the receiver timed them. {REPEATED}"))
            .with(series(&|test| figure(test, |f| matches!(f, Figure::Goodput(_))))),
        Plot::new("packet-tests-loss", "Packets lost", across(), Axis::new("lost", Unit::Percent))
            .note(REPEATED)
            .with(series(&|test| figure(test, |f| matches!(f, Figure::Loss(_))))),
    ]
}

/// What is said of lines over tests that were repeated.
const REPEATED: &str = "Of tests that were repeated the mean is shown, and a bar from the least to the most.";

/// A line over the means of tests with the same setting, with bars from the least to the most of several.
fn over_tests(name: &str, mut values: Vec<(f64, f64)>) -> Series {
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut points, mut spread) = (Vec::new(), Vec::new());
    for same in values.chunk_by(|a, b| a.0 == b.0) {
        let mean = same.iter().map(|(_, value)| value).sum::<f64>() / real(same.len());
        points.push((same[0].0, Some(mean)));
        spread.push((same.len() > 1).then(|| (same[0].1, same[same.len() - 1].1)));
    }
    if spread.iter().all(Option::is_none) {
        spread.clear();
    }
    Series { spread, ..Series::line(name, points) }
}

/// Of tests with the same setting the first.
fn firsts<'a>(tests: &[&'a PacketTest], wanted: impl Fn(&PacketTest) -> bool) -> Vec<&'a PacketTest> {
    let mut names = BTreeSet::new();
    let drawn = tests.iter().copied().filter(|test| wanted(test) && names.insert(name(test)));
    drawn.take(MOST).collect()
}

/// Round trips against the size of the response.
fn round_trips(tests: &[&PacketTest]) -> Plot {
    let line = |name: &str, style, of: fn(&model::PacketTestLatency) -> f64| {
        let known = tests.iter().filter_map(|test| test.latency.as_ref().filter(|trips| trips.count > 0));
        let values = known.map(|trips| (f64::from(trips.response), of(trips))).collect();
        Series { style, ..over_tests(name, values) }
    };
    Plot::new(
        "packet-tests-round-trips",
        "Round trips by the size of the response",
        Axis::new("response, UDP payload", Unit::Bytes),
        Axis::new("round trip", Unit::Ns),
    )
    .with([
        line("mean", Style::Line, |trips| real(trips.sum_ns) / real(trips.count)),
        line("smallest", Style::Dashed, |trips| real(trips.min_ns)),
        line("largest", Style::Points, |trips| real(trips.max_ns)),
    ])
}

/// A histogram whose bins are `unit` ns wide, in percent of all values in them.
fn histogram(name: String, bins: &Binned, unit: f64) -> Option<Series> {
    let all: u64 = bins.bins.iter().sum();
    let first = bins.bins.iter().position(|n| *n > 0)?;
    let last = bins.bins.iter().rposition(|n| *n > 0)?;
    let edge = |bin: usize| (real(bins.low) + real(bin) * real(bins.width)) * unit;
    let mut points: Vec<(f64, Option<f64>)> =
        (first..=last).map(|bin| (edge(bin), Some(percent_of(bins.bins[bin], all)))).collect();
    points.push((edge(last + 1), None));
    Some(Series::new(name, Style::Steps, points))
}

fn gaps(tests: &[&PacketTest]) -> Plot {
    let (x, y) = times_axis(false);
    // tcpmon's are the times that messages took to be sent, in µs.
    let unit = |test: &PacketTest| if test.connection.is_some() { 1_000.0 } else { TENTH };
    let drawn = firsts(tests, |test| test.gaps.is_some());
    Plot::new("packet-tests-gaps", "Time between packets", x, y)
        .note(
            "As the receiver counted it; with tcpmon, how long each message took to be sent. The first test of each setting.",
        )
        .with(drawn.into_iter().filter_map(|test| histogram(name(test), test.gaps.as_ref()?, unit(test))))
}

fn trip_histogram(tests: &[&PacketTest]) -> Plot {
    let (x, y) = times_axis(false);
    let drawn = firsts(tests, |test| test.latency.is_some());
    Plot::new("packet-tests-trip-histogram", "Round trips", x, y).with(
        drawn
            .into_iter()
            .filter_map(|test| histogram(name(test), &test.latency.as_ref()?.histogram, 1_000.0)),
    )
}

/// Packets one by one: how much longer each took than the fastest.
fn packets(tests: &[&PacketTest]) -> Plot {
    let one = |test: &&PacketTest| {
        let flight = |r: &model::PacketTestRecord| (r.received != 0).then(|| r.received - r.sent);
        let least = test.records.iter().filter_map(flight).min()?;
        let points =
            test.records.iter().enumerate().map(|(n, record)| {
                (real(n) + 1.0, flight(record).map(|tenths| real(tenths - least) * TENTH))
            });
        Some(Series::line(name(test), points.collect()))
    };
    Plot::new(
        "packet-tests-packets",
        "One-way delay of each packet above the least",
        Axis::new("packet", Unit::Count),
        Axis::new("above the least", Unit::Ns),
    )
    .note("The two clocks have nothing to do with each other: only differences mean something. Gaps are packets that did not come.")
    .with(firsts(tests, |test| !test.records.is_empty()).iter().filter_map(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_tests_are_a_mean_with_its_extremes() {
        let series = over_tests("all", vec![(20.0, 7.0), (10.0, 4.0), (10.0, 1.0), (10.0, 1.0)]);
        assert_eq!(series.points, [(10.0, Some(2.0)), (20.0, Some(7.0))]);
        assert_eq!(series.spread, [Some((1.0, 4.0)), None]);
    }
}
