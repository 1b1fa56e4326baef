use super::*;
use crate::plot::{Axis, Plot};
use metrics::{Dist, Packets};

fn spectrum(values: impl Iterator<Item = u64>) -> Spectrum {
    Dist::from_iter(values).spectrum().unwrap()
}

#[test]
fn the_curve_goes_through_the_percentiles() {
    // 1 to 1000 µs, one each: the median is 500 µs, the 90th percentile 900 µs, the largest 1000
    // µs.
    let series = curve("", &spectrum((1..=1000).map(|n| n * 1000)));
    let at = |odds: f64| {
        let point =
            series.points.iter().min_by(|a, b| (a.0 - odds).abs().total_cmp(&(b.0 - odds).abs())).unwrap();
        point.1.unwrap()
    };
    assert!((at(1.0) - 1e3).abs() < 10.0 && (at(10.0) - 900e3).abs() < 1e3, "{} {}", at(1.0), at(10.0));
    assert_eq!(series.points.last(), Some(&(1000.0, Some(1e6))));
    assert!(series.points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1), "it never falls");
}

#[test]
fn histograms_hold_every_value_once() {
    for values in
        [vec![5_000u64], (1..=1000).map(|n| 20_000 + n).collect(), (1..=30).map(|n| 1 << n).collect()]
    {
        let (series, log) = histogram("", &spectrum(values.iter().copied()));
        let all: f64 = series.values().sum();
        assert!((all - 100.0).abs() < 1e-6, "{all}");
        assert_eq!(log, values.len() == 30, "a factor of 2^29 needs a logarithmic axis");
        assert!(series.points.windows(2).all(|w| w[0].0 < w[1].0));
    }
    let dist: Dist = (1..=500u64).map(|n| n * n).collect();
    let coarse = coarse_histogram("", &dist.summary().unwrap()).unwrap();
    assert!((coarse.values().sum::<f64>() - 100.0).abs() < 1e-6);
}

#[test]
fn a_summary_of_few_values_claims_no_remote_percentile() {
    let series = coarse_curve("", &Dist::from_iter(1..=50u64).summary().unwrap());
    let places: Vec<f64> = series.points.iter().map(|p| p.0).collect();
    assert_eq!(places, [1.0, 2.0, 10.0, 50.0], "50 values tell nothing of the 99th percentile");
}

#[test]
fn nothing_measured_gives_no_plot() {
    for kind in [Kind::Tcp, Kind::Connect, Kind::Ping, Kind::Stream, Kind::Delay, Kind::Train] {
        let mut point = Point::default();
        point.phase.kind = kind;
        assert_eq!(of_point(&point, false), [], "{kind:?}");
    }
    assert!(Plot::new("", "", Axis::time(), Axis::time()).some().is_none());
}

#[test]
fn datagrams_to_all_servers_are_drawn() {
    let server = |received: u64, ns: u64| {
        let mut delays = Dist::default();
        (0..received).for_each(|_| delays.record(ns));
        let mut packets = model::PacketReport::from(Packets { received, ..Packets::default() });
        packets.delay_ns = delays.summary();
        model::Totals { packets: Some(Box::new(packets)), ..model::Totals::default() }
    };
    // The first server received nothing.
    let phase = model::Phase { kind: Kind::Delay, ..model::Phase::default() };
    let point = Point { phase, remote: vec![server(0, 0), server(20, 5_000)], ..Point::default() };
    let plots = of_point(&point, false);
    let curve = plots.iter().find(|plot| plot.name == "percentiles-up").unwrap();
    let largest = curve.series[0].values().fold(0.0, f64::max);
    assert!((largest - 5_000.0).abs() < 10.0, "{largest}");
}

#[test]
fn results_of_a_protocols_own_are_drawn_against_the_setting_that_varies() {
    let result = |gap_ns, rate| {
        let settings = vec![
            model::Reading::new("size", "size", Unit::Bytes, 1_000.0),
            model::Reading::new("spacing", "spacing", Unit::Ns, gap_ns),
        ];
        let (x, y) = (("gap".to_owned(), Unit::Ns), ("share".to_owned(), Unit::Percent));
        let (title, note, points) = ("Gaps".to_owned(), String::new(), vec![(0.0, Some(100.0)), (1.0, None)]);
        let curve = model::Curve { title, note, x, y, steps: true, points };
        let figures = vec![model::Reading::of(model::Figure::Goodput(model::Way::Up), "rate", rate)];
        let shown = model::Shown { settings, figures, curves: vec![curve], ..Default::default() };
        model::Extra { shown: Some(Box::new(shown)), ..model::Extra::new("ttcp", &()) }
    };
    let extras = vec![result(20_000.0, 8e8), result(0.0, 4e8), result(0.0, 2e8)];
    let plots = extras::plots(&Point { extras, ..Point::default() });
    assert_eq!(plots.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["extra-goodput", "extra-gaps"]);
    assert_eq!(plots[0].series[0].points, [(0.0, Some(3e8)), (20_000.0, Some(8e8))]);
    assert_eq!(plots[0].series[0].spread, [Some((2e8, 4e8)), None]);
    // One curve for each setting.
    assert_eq!(plots[1].series.len(), 2);
    assert!(extras::plots(&Point::default()).is_empty());
}

#[test]
fn the_notes_about_frames_say_what_a_point_stands_for() {
    let notes = |frames| {
        let row = model::FrameTime { frames, ..Default::default() };
        let times = model::FrameTimes { frames: 2 * frames, rows: vec![row; 2] };
        let point = Point { frame_times: Some(Box::new(times)), ..Point::default() };
        let plots = packets::frames(&point).into_iter().filter_map(Plot::some);
        plots.map(|plot| plot.note).collect::<Vec<String>>()
    };
    let [one, several] = [notes(1), notes(4)];
    assert_eq!((one.len(), several.len()), (2, 2));
    for note in one.iter().chain(&several) {
        assert!(note.contains("of the first stream") || note.contains("Of the first stream"), "{note}");
    }
    assert!(!one.iter().any(|note| note.contains("stands for")), "{one:?}");
    let stands_for = "up to 4 frames that followed each other";
    assert!(several.iter().all(|note| note.contains(stands_for)), "{several:?}");
}
