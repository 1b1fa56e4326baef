use super::*;
use crate::{Direction, PacketReport, Status, Totals, Traffic};
use metrics::{DistSummary, Packets, SECOND};

#[test]
fn figures_are_named() {
    let names: Vec<String> = Figure::kept().map(Figure::key).collect();
    assert_eq!(names[..6], ["goodput.up", "goodput.down", "connects", "rtt.p50", "rtt.p99", "rtt.p99.9"]);
    assert_eq!(Figure::RoundTrip(Stat::Quantile(0.999)).to_string(), "round trip, p99.9");
    assert_eq!(Figure::Delay(Way::Up, Stat::MEDIAN).to_string(), "delay to server, median");
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len(), "each name is one figure's");
    for figure in Figure::kept() {
        assert_eq!(Figure::named(&figure.key()), [figure], "{figure}");
    }
    assert_eq!(Figure::named("jitter"), Way::ALL.map(Figure::Jitter));
    assert_eq!(Figure::named("delay.min"), Way::ALL.map(|way| Figure::Delay(way, Stat::Min)));
    for wrong in ["", "goodput.p50", "rtt", "rtt.up.p50", "connects.up", "delay.up", "speed"] {
        assert_eq!(Figure::named(wrong), [], "{wrong}");
    }
}

#[test]
fn what_was_not_measured_is_none() {
    let point = Point::default();
    for figure in Figure::compared() {
        assert_eq!(figure.of(&point), None, "{figure}");
        assert_eq!(figure.readings(&point, false), [0.0; 0], "{figure}");
    }
    assert_eq!(Figure::Errors.of(&point), Some(0.0));
    let failed = Point { status: Status::Failed, ..Point::default() };
    for figure in Figure::kept() {
        assert_eq!(figure.of(&failed), None, "{figure}");
    }
    let failed = Point { local: Totals { network_errors: 2, ..Totals::default() }, ..failed };
    assert_eq!(Figure::Errors.of(&failed), Some(2.0), "what was seen is told");
}

fn second(index: u32) -> Interval {
    crate::builder::tests::second(index, 0, Some(0))
}

fn report(lost: i64, received: u64) -> Option<Box<PacketReport>> {
    let counts = Packets { lost, received, ..Packets::default() };
    Some(Box::new(PacketReport::from(counts)))
}

#[test]
fn an_interval_without_goodput_is_a_reading_where_the_phase_asks_for_it() {
    let mut point = Point { intervals: (0..4).map(second).collect(), ..Point::default() };
    for at in [0, 3] {
        point.intervals[at].remote = Some(Traffic { rx_bytes: 125, ns: SECOND, ..Traffic::default() });
    }
    let up = Figure::Goodput(Way::Up);
    assert_eq!(up.readings(&point, false), [0.0; 0], "nothing was to go that way");
    point.up = Some(Direction::default());
    assert_eq!(up.readings(&point, false), [1_000.0, 0.0, 0.0, 1_000.0]);
    assert_eq!(up.readings(&point, true), [1_000.0, 1_000.0], "a server waits for most of its life");
    point.intervals[1].remote = None;
    assert_eq!(up.readings(&point, false), [1_000.0, 0.0, 1_000.0], "what was not told is unknown");
    assert_eq!(Figure::Goodput(Way::Down).readings(&point, false), [0.0; 0]);
    // Connections: only where they are what is measured.
    point.intervals[0].opened = 5;
    assert_eq!(Figure::Connects.readings(&point, false), [0.0; 0]);
    point.phase.kind = Kind::Connect;
    assert_eq!(Figure::Connects.readings(&point, false), [5.0, 0.0, 0.0, 0.0]);
}

#[test]
fn loss_that_is_taken_back_is_in_no_reading() {
    // In the second interval 30 datagrams are overtaken; 20 of them come in the third and 9 after
    // the end.
    let mut point = Point { intervals: (0..3).map(second).collect(), ..Point::default() };
    for (at, (lost, received)) in [(0, 100), (30, 69), (-20, 120)].into_iter().enumerate() {
        point.intervals[at].packets = report(lost, received);
    }
    point.local.packets = report(1, 298);
    let loss = Figure::Loss(Way::Down);
    let readings = loss.readings(&point, false);
    assert_eq!(readings, [0.0, 100.0 / 99.0, 0.0]);
    // Each is a share of what was sent in its interval.
    assert_eq!(loss.events(&point), [100, 99, 100]);
    assert_eq!(Figure::Delay(Way::Down, Stat::MEDIAN).events(&point), [0; 0]);
    // Loss that stays does.
    point.local.packets = report(30, 298);
    point.intervals[2].packets = report(0, 120);
    assert_eq!(loss.readings(&point, false), [0.0, 3_000.0 / 99.0, 0.0]);
}

#[test]
fn a_percentile_beyond_which_no_value_lies_is_no_figure() {
    let mut trips = metrics::Dist::default();
    (1..=10u64).for_each(|us| trips.record(us * 1_000));
    let mut point = Point::default();
    point.local.pings =
        Some(Box::new(crate::RoundTrips { rtt_ns: trips.spectrum(), ..crate::RoundTrips::default() }));
    point.local.connect_ns = Some(DistSummary { count: 1, p50: 7, p99: 7, max: 7, ..DistSummary::default() });
    let (p50, p90, p99) = (Stat::MEDIAN, Stat::Quantile(0.9), Stat::Quantile(0.99));
    assert!(Figure::RoundTrip(p50).of(&point).is_some() && Figure::RoundTrip(p90).of(&point).is_some());
    assert_eq!(Figure::RoundTrip(p99).of(&point), None);
    assert_eq!(Figure::RoundTrip(p99).supported(&point), Figure::RoundTrip(Stat::Max));
    assert!(Figure::RoundTrip(p99).of_any_percentile(&point).is_some(), "a condition may ask for it");
    assert_eq!((Figure::ConnectTime(p50).of(&point), Figure::ConnectTime(p99).of(&point)), (Some(7.0), None));
}

#[test]
fn damaged_datagrams_are_not_lost() {
    let counts = Packets { lost: 1, received: 2, corrupt: 1, ..Packets::default() };
    let packets = Some(Box::new(PacketReport::from(counts)));
    let interval = Interval { packets, ..Interval::default() };
    assert_eq!(Measure::LOST_SHARE.of(&interval, End::Local), Some(25.0));
}

#[test]
fn all_servers_are_judged() {
    let server = |lost: i64, jitter: f64, p99: u64| {
        let counts = Packets { lost, received: 100 - lost as u64, ..Packets::default() };
        let delay = DistSummary { count: 100, p99, ..DistSummary::default() };
        let mut packets = PacketReport::from(counts);
        (packets.jitter_ns, packets.delay_ns) = (Some(jitter), Some(delay));
        Totals { packets: Some(Box::new(packets)), ..Totals::default() }
    };
    let mut point = Point { remote: vec![server(0, 7.0, 40)], ..Point::default() };
    let p99 = Figure::Delay(Way::Up, Stat::Quantile(0.99));
    let all =
        |point: &Point| [Figure::Loss(Way::Up), Figure::Jitter(Way::Up), p99].map(|f| f.of(point).unwrap());
    assert_eq!(all(&point), [0.0, 7.0, 40.0]);
    for second in [server(50, 9.0, 60), server(50, 2.0, 30)] {
        let told = second.packets.as_ref().and_then(|p| p.jitter_ns);
        let (jitter, p99) = if told == Some(9.0) { (9.0, 60.0) } else { (7.0, 40.0) };
        point.remote.truncate(1);
        point.remote.push(second);
        assert_eq!(all(&point), [25.0, jitter, p99], "whichever comes first");
        point.remote.reverse();
        assert_eq!(all(&point), [25.0, jitter, p99]);
        point.remote.reverse();
    }
}
