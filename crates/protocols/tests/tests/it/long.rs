//! Runs that are long, large or wide: a day of virtual time, counts beyond the integers of a
//! double, many workers, many connections.

use crate::support::run::*;

use metrics::SECOND;
use model::document::Document as _;
use model::{Builder, Event, Interval, Kind, Outcome, Phase, Ping, Schedule, Status, Totals, Traffic};
use sim::{Link, Network, Quirks};

const DAY: u64 = 24 * 3_600 * SECOND;

/// All events of a client make an outcome whose counts and times are the same after it was written
/// and read.
fn check_document(net: &Network, client: sim::Host) {
    let mut builder = Builder::default();
    builder.absorb(&Event::Phase { label: Default::default(), repeat: 1, phase: Box::default() });
    net.events(client).iter().for_each(|(_, event)| builder.absorb(event));
    let outcome = builder.outcome();
    let mut text = Vec::new();
    outcome.write(&mut text).unwrap();
    let read = Outcome::read(&text).unwrap();
    let counts = |outcome: &Outcome| {
        let point = &outcome.points[0];
        let interval =
            |interval: &Interval| (interval.start_ns, interval.end_ns, interval.local, interval.remote);
        let totals = (point.local.traffic, point.local.opened, point.local.completed);
        (totals, point.intervals.iter().map(interval).collect::<Vec<_>>())
    };
    assert_eq!(counts(&read), counts(&outcome));
}

#[test]
fn a_day_of_round_trips_is_counted_to_its_end() {
    let ping = Ping { schedule: Schedule::Fixed { gap_ns: 20 * SECOND }, ..Ping::default() };
    let phase = Phase {
        kind: Kind::Ping,
        ping: Some(ping),
        iterations: Some(1),
        connections: 1,
        duration_ns: Some(DAY),
        interval_ns: 600 * SECOND,
        stall_ns: 60 * SECOND,
        ..small()
    };
    let mut net = network(5);
    serve(&mut net, server_plan());
    let client = join(&mut net, 0, client_plan(&phase));
    net.run();
    let it = told(&net, client);
    assert_eq!(it.status(), Status::Complete, "{:?}", it.notices);
    it.assert_intervals(true);
    let intervals: u64 = it.intervals.iter().map(|interval| interval.local.ns).sum();
    assert!(intervals.abs_diff(DAY) < 2 * SECOND, "{intervals}");
    assert_eq!(it.intervals.len(), 144);
    let came = it.local().pings.as_ref().unwrap().counts.received;
    assert!(came.abs_diff(DAY / SECOND / 20) <= 1, "{came}");
    assert_eq!(it.local().errors(), 0);
    check_document(&net, client);
}

#[test]
fn counts_beyond_the_integers_of_a_double_are_kept() {
    // 2^53 + 1 is the first integer that a double does not have.
    for bytes in [(1 << 53) + 1, u64::MAX] {
        let traffic = Traffic { tx_bytes: bytes, rx_bytes: bytes - 2, ns: bytes, ..Traffic::default() };
        let totals = Totals { traffic, opened: bytes, completed: bytes - 1, ..Totals::default() };
        let mut text = Vec::new();
        totals.write(&mut text).unwrap();
        assert!(String::from_utf8_lossy(&text).contains(&bytes.to_string()));
        assert_eq!(Totals::read(&text).unwrap(), totals);
    }
}

/// Messages between the threads of both ends, and bytes, of a run of three seconds over links of
/// this rate.
fn messages(workers: u16, rate: u64) -> (u64, u64) {
    let mut net = network(7);
    let link = Link::new().delay(MS).rate(rate).window(usize::try_from(rate / 40).unwrap());
    net.links(link.clone(), link);
    let server = serve(&mut net, native::ServerPlan { workers, ..server_plan() });
    let client = join(&mut net, 0, native::ClientPlan { workers, ..client_plan(&small()) });
    net.run();
    let it = told(&net, client);
    assert_eq!(it.status(), Status::Complete, "{it:#?}");
    (net.messages(server) + net.messages(client), it.remote[0].traffic.rx_bytes)
}

#[test]
fn messages_between_threads_are_for_connections_and_intervals_and_not_for_bytes() {
    for workers in [1, 2, 8, 64] {
        let (slow, fast) = (messages(workers, 1_000_000), messages(workers, 16_000_000));
        assert!(fast.1 > 10 * slow.1, "{slow:?} {fast:?}");
        // Sixteen times the bytes: no more messages, as far as when a connection ends decides what
        // goes together.
        assert!(fast.0 <= slow.0 + 8, "{workers} workers: {slow:?} {fast:?}");
        // Three sets of workers. Each is told of its groups, their start and end, and tells their
        // intervals: here four, and two ends.
        let threads = 3 * u64::from(workers);
        assert!(fast.0 <= threads * 24 + 32, "{workers} workers: {fast:?}");
    }
}

/// To register a connection, and to be told of its events, costs more than all that a short one
/// receives.
#[test]
fn connections_whose_answers_come_while_the_core_is_offered_are_not_registered() {
    let phase = Phase { kind: Kind::Connect, transfer: 1, iterations: Some(500), ..small() };
    let mut net = Network::new(3);
    let link = Link::new().delay(2_000);
    net.links(link.clone(), link);
    let server = serve(&mut net, native::ServerPlan { workers: 1, ..server_plan() });
    let client = join(&mut net, 0, native::ClientPlan { workers: 1, ..client_plan(&phase) });
    for host in [server, client] {
        net.quirks(host, Quirks { kept: 50_000, ..Quirks::default() });
    }
    net.run();
    let it = told(&net, client);
    assert_eq!((it.status(), it.local().completed), (Status::Complete, 2_000), "{it:#?}");
    // The client has to register those whose handshake is under way.
    assert!(net.registrations(server) < 1_500, "{}", net.registrations(server));
}
