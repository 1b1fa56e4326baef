//! Rates of schedules and paces in virtual time: the path's delay is in none of them.

use crate::support::run::{MS, client_ip, client_plan, recorded, serve, server_plan};
use metrics::SECOND;
use model::{Builder, Event, Kind, Media, Pattern, Phase, Point, Probe, Spacing, Status};
use native::Client;
use sim::{Link, Network, Quirks, START};

/// What a client finds of `phase` over a path with so much delay each way, ns.
fn point(phase: &Phase, delay: u64) -> Point {
    point_of(phase, delay, Quirks::default())
}

/// The same of a client's host with these properties.
fn point_of(phase: &Phase, delay: u64, quirks: Quirks) -> Point {
    let mut network = Network::new(7);
    let link = Link::new().delay(delay).window(4 << 20);
    network.links(link.clone(), link.clone());
    network.datagram_links(link.clone(), link);
    serve(&mut network, server_plan());
    let plan = recorded(client_plan(phase), 0);
    let client = network.join(client_ip(1), 2, Box::new(Client::new(plan, START)));
    network.quirks(client, quirks);
    network.run();
    let mut builder = Builder::default();
    let begins = Event::Phase { label: Default::default(), repeat: 1, phase: Box::new(phase.clone()) };
    builder.absorb(&begins);
    network.events(client).iter().for_each(|(_, event)| builder.absorb(event));
    let mut outcome = builder.outcome();
    let point = outcome.points.remove(0);
    assert_eq!(point.status, Status::Complete, "{:?}", point.reason);
    point
}

fn datagrams(pattern: Pattern, spacing: Spacing) -> Phase {
    Phase {
        kind: Kind::Delay,
        pattern,
        connections: 2,
        duration_ns: Some(2 * SECOND),
        interval_ns: SECOND / 4,
        rate: Some(500 * 200 * 8),
        probe: Some(Probe { size: 200, spacing, ..Probe::default() }),
        ..Phase::default()
    }
}

fn streams() -> Phase {
    let media = Media::new(2_000_000, 50, 2, 1, 1_400).ok();
    Phase {
        kind: Kind::Stream,
        pattern: Pattern::Pull,
        media,
        rate: None,
        duration_ns: None,
        probe: Some(Probe { size: 1_400, ..Probe::default() }),
        ..datagrams(Pattern::Pull, Spacing::Fixed)
    }
}

fn paced(pattern: Pattern, rate: u64) -> Phase {
    let kind = Kind::Tcp;
    Phase { kind, transfer: 1 << 40, rate: Some(rate), probe: None, ..datagrams(pattern, Spacing::Fixed) }
}

/// The codes of caveats about rates.
fn caveats(point: &Point) -> Vec<&str> {
    let codes = ["rate-missed", "unstable", "slow-start", "unconfirmed"];
    point.caveats.iter().map(|caveat| caveat.code.as_str()).filter(|code| codes.contains(code)).collect()
}

#[test]
fn the_delay_of_the_path_is_in_no_rate_of_a_schedule() {
    let mut cases = vec![("stream", streams(), 2_000_000.0)];
    for pattern in [Pattern::Push, Pattern::Pull, Pattern::Duplex] {
        cases.push(("delay", datagrams(pattern, Spacing::Fixed), 800_000.0));
        cases.push(("tcp", paced(pattern, 500_000), 500_000.0));
        cases.push(("tcp", paced(pattern, 8_000_000), 8_000_000.0));
    }
    for (verb, phase, each) in cases {
        for delay in [0, 50 * MS, 300 * MS] {
            let what = format!("{verb} {} {each} {} ms", phase.pattern, delay / MS);
            let point = point(&phase, delay);
            let asked = each * f64::from(phase.connections);
            for way in [point.up, point.down].into_iter().flatten() {
                let near = |bps: f64| (bps / asked - 1.0).abs() <= 0.005;
                assert!(near(way.goodput_bps), "{what}: {way:?}");
                assert!(near(way.sent_bps), "{what}: {way:?}");
                let spread = way.per_interval.unwrap();
                assert!(near(spread.mean) || verb == "tcp", "{what}: {spread:?}");
                assert!(spread.sd / spread.mean < 0.05, "{what}: {spread:?}");
            }
            assert_eq!(caveats(&point), [""; 0], "{what}: {:?}", point.caveats);
        }
    }
}

/// A host whose sends are late makes up for that, and is no faster than its pace: the first send
/// was due earlier. The last one may be due and not have left.
#[test]
fn a_pace_of_a_host_that_is_late_is_at_its_rate() {
    for (pattern, each) in
        [(Pattern::Push, 500_000), (Pattern::Push, 8_000_000), (Pattern::Duplex, 8_000_000)]
    {
        let late = Quirks { timers: 90 * MS, ..Quirks::default() };
        let up = point_of(&paced(pattern, each), 0, late).up.unwrap();
        let asked = each as f64 * 2.0;
        let rate = up.sent_bps / asked;
        assert!((0.955..=1.005).contains(&rate), "{pattern} {each}: {rate} {up:?}");
    }
}

#[test]
fn sums_of_the_intervals_of_datagrams_are_the_totals() {
    for delay in [0, 300 * MS] {
        let point = point(&datagrams(Pattern::Duplex, Spacing::Fixed), delay);
        let (local, remote) = (point.local.traffic, point.remote[0].traffic);
        let counted = |of: fn(&model::Interval) -> u64| point.intervals.iter().map(of).sum::<u64>();
        assert_eq!(point.intervals.len(), 8);
        assert_eq!(counted(|i| i.local.rx_bytes), 2 * 1_000 * 200);
        assert_eq!((local.tx_bytes, local.rx_bytes), (400_000, 400_000));
        assert_eq!((remote.tx_bytes, remote.rx_bytes), (400_000, 400_000));
        assert_eq!(counted(|i| i.remote.unwrap().rx_bytes), 400_000);
        assert_eq!((local.tx_ns, local.rx_ns), (Some(2 * SECOND), Some(2 * SECOND)));
        let received = |report: &model::PacketReport| report.counts.received;
        let packets: u64 = point.intervals.iter().map(|i| received(i.packets.as_ref().unwrap())).sum();
        assert_eq!(packets, received(point.local.packets.as_ref().unwrap()));
    }
}

#[test]
fn random_times_between_datagrams_are_no_missed_rate() {
    for spacing in [Spacing::Poisson, Spacing::Uniform] {
        let point = point(&datagrams(Pattern::Push, spacing), 50 * MS);
        assert!(!caveats(&point).contains(&"rate-missed"), "{spacing:?}: {:?}", point.caveats);
    }
}

#[test]
fn few_datagrams_are_at_the_rate_that_was_asked_for() {
    // Seven a second for a second: the eighth is due within it, by a nanosecond.
    let phase = Phase {
        rate: Some(7 * 200 * 8),
        duration_ns: Some(SECOND),
        ..datagrams(Pattern::Push, Spacing::Fixed)
    };
    let up = point(&phase, 50 * MS).up.unwrap();
    assert!((up.goodput_bps / (2.0 * 7.0 * 1_600.0) - 1.0).abs() < 0.005, "{up:?}");
}

#[test]
fn the_life_of_a_connection_begins_with_the_plan_and_lies_in_the_run() {
    for (phase, each) in [
        (Phase { duration_ns: Some(SECOND), ..datagrams(Pattern::Duplex, Spacing::Fixed) }, 800_000.0),
        (streams(), 2_000_000.0),
        (Phase { duration_ns: Some(SECOND), ..paced(Pattern::Push, 8_000_000) }, 8_000_000.0),
    ] {
        for delay in [0, 50 * MS] {
            let point = point(&phase, delay);
            assert_eq!(point.connections.len(), 2, "{:?}", phase.kind);
            let last = point.intervals.last().unwrap().end_ns;
            for record in &point.connections {
                assert!(record.duration_ns <= record.ended_ns, "{record:?}");
                let bytes = record.tx_bytes.max(record.rx_bytes);
                let bps = bytes as f64 * 8e9 / record.duration_ns as f64;
                // The goodbye of a paced connection takes round trips.
                let slack = if phase.kind == Kind::Tcp { 0.1 + 4.0 * delay as f64 / 1e9 } else { 0.01 };
                assert!((bps / each - 1.0).abs() < slack, "{:?} {delay}: {bps} {record:?}", phase.kind);
                let inside = record.ended_ns <= last || phase.kind == Kind::Tcp;
                assert!(inside, "{:?} {delay}: {last} {record:?}", phase.kind);
            }
        }
    }
}

#[test]
fn an_interval_lasts_until_the_last_connection_that_it_counts_has_ended() {
    // One connection that moves its bytes, and says goodbye over half a second of path.
    let phase = Phase {
        connections: 1,
        iterations: Some(1),
        transfer: 100_000,
        duration_ns: None,
        interval_ns: 10 * SECOND,
        ..Phase::default()
    };
    let point = point(&phase, 500 * MS);
    let (interval, ended) = (point.intervals.last().unwrap(), point.connections[0].ended_ns);
    assert_eq!(interval.completed, 1);
    assert!(ended <= interval.end_ns && interval.local.ns < interval.end_ns, "{ended} {interval:?}");
}
