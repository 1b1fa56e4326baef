//! Round trips over our own protocol in virtual time, from the agreement to both ends' totals: the
//! path's delay is known, and so is what the remote end spends.

use crate::support::run::{MS, about, client_plan, join, outcome, serve, server_plan, server_with, told};
use common::Limits;
use metrics::{Ecn, IpFields, SECOND};
use model::load::{Load, Stage};
use model::{Event, Kind, Pattern, Phase, Ping, Range, Schedule, SocketSettings, Status, Transport};
use sim::{Link, Network, Quirks, START};

fn phase(ping: Ping) -> Phase {
    Phase {
        kind: Kind::Ping,
        ping: Some(ping),
        connections: 1,
        iterations: Some(1),
        duration_ns: None,
        buffer: Range::just(64 * 1024),
        ..Phase::default()
    }
}

fn network(seed: u64, link: &Link) -> Network {
    let mut net = Network::new(seed);
    net.links(link.clone(), link.clone());
    net.datagram_links(link.clone(), link.clone());
    net
}

#[test]
fn the_remote_end_s_time_is_measured_and_taken_off() {
    for transport in [Transport::Tcp, Transport::Udp] {
        for connections in [1, 5] {
            let ping = Ping { transport, messages: Some(40), warmup: 5, ..Ping::default() };
            let mut net = network(3, &Link::new().delay(3 * MS));
            let phase = Phase { connections, ..phase(ping) };
            let told = outcome(&mut net, server_plan(), client_plan(&phase));
            let what = format!("{transport:?} {connections}");
            assert!(net.now < START.plus(20 * SECOND), "{what}: {:?}", net.now);
            assert_eq!(told.status(), Status::Complete, "{what}: {}", told.reason());
            let trips = told.local().pings.clone().expect("round trips");
            let all = 40 * u64::from(connections);
            let counts = trips.counts;
            assert_eq!((counts.sent, counts.received, counts.lost), (all, all, 0), "{what}");
            assert_eq!(counts.omitted, 5 * u64::from(connections), "{what}");
            let [rtt, path, remote] = [trips.rtt_ns, trips.path_ns, trips.remote_ns].map(Option::unwrap);
            assert_eq!((rtt.count, path.count, remote.count), (all, all, all), "{what}");
            // Both hosts' threads add some turns; what the remote end added is known and taken off.
            assert!(about(rtt.min, 6 * MS), "{what}: {}", rtt.min);
            assert!(about(path.min, 6 * MS), "{what}: the path alone: {}", path.min);
            assert_eq!(told.local().completed, u64::from(connections), "{what}");
            let remote_end = &told.remote[0];
            let bytes = (all + counts.omitted) * 64;
            assert_eq!((remote_end.traffic.rx_bytes, remote_end.traffic.tx_bytes), (bytes, bytes), "{what}");
            assert!(remote_end.pings.is_none(), "who asks counts round trips");
        }
    }
}

/// On a busy host a thread that offers its core has it back after the turns of all others.
#[test]
fn a_schedule_is_kept_where_others_keep_an_offered_core() {
    let filler = Phase { duration_ns: Some(2 * SECOND), ..Phase::default() };
    for (_, phase) in
        (Load { filler, ramp_ns: SECOND, rate: 50.0, servers: 1, seed: 1, ecn: None }.probes(Stage::Idle))
    {
        let mut net = network(1, &Link::new().delay(MS));
        let server = serve(&mut net, server_plan());
        let client = join(&mut net, 0, client_plan(&phase));
        for host in [server, client] {
            net.quirks(host, Quirks { kept: 20 * MS, ..Quirks::default() });
        }
        net.run();
        let it = told(&net, client);
        assert_eq!(it.status(), Status::Complete, "{it:#?}");
        let missed = it.local().pings.as_ref().map_or(0, |pings| pings.counts.missed);
        let unsent = it.local().packets.as_ref().map_or(0, |packets| packets.counts.unsent);
        let late = it.local().late_ns.as_ref().unwrap();
        assert_eq!((missed, unsent), (0, 0), "{:?}: {late:?}", phase.kind);
        assert!(late.p90 < MS, "{:?}: {late:?}", phase.kind);
    }
}

/// Messages of a class arrive with it at both ends, in all and in each interval; without one nothing
/// is counted.
#[test]
fn both_ends_read_the_class_of_messages_where_one_was_asked_for() {
    let schedule = Schedule::Fixed { gap_ns: 10 * MS };
    let ping = Ping { transport: Transport::Udp, messages: Some(100), schedule, ..Ping::default() };
    for asked in [None, Some(Ecn::Ect0)] {
        let sockets = SocketSettings { dscp: asked.map(|_| 46), ecn: asked, ..SocketSettings::default() };
        let phase = Phase { sockets, interval_ns: 100 * MS, ..phase(ping) };
        let it = outcome(&mut network(1, &Link::new().delay(MS)), server_plan(), client_plan(&phase));
        let ends = [it.local().marks, it.remote[0].marks];
        assert!(it.local().packets.is_none() && it.remote[0].packets.is_none());
        let Some(_) = asked else {
            assert_eq!(ends, [None, None]);
            continue;
        };
        for marks in ends.map(Option::unwrap) {
            assert_eq!((marks.dscp, marks.ecn), (Some((46, 46)), [0, 0, 100, 0]));
        }
        let pings = it.intervals.iter().filter_map(|interval| interval.pings);
        let (mut here, mut there) = (IpFields::default(), IpFields::default());
        for pings in pings {
            pings.marks.iter().for_each(|marks| here.add(marks));
            pings.remote_marks.iter().for_each(|marks| there.add(marks));
        }
        assert_eq!((here.ecn, there.ecn), ([0, 0, 100, 0], [0, 0, 100, 0]));
    }
}

/// Round trips do not hold what both ends do when an interval ends.
#[test]
fn no_message_is_due_when_an_interval_ends() {
    for (gap_ns, connections) in [(SECOND, 1), (100 * MS, 1), (100 * MS, 4), (10 * MS, 2)] {
        let mut net = network(1, &Link::new().delay(MS));
        serve(&mut net, server_plan());
        let ping = Ping { schedule: Schedule::Fixed { gap_ns }, samples: true, ..Ping::default() };
        let duration_ns = Some(2 * SECOND);
        let client = join(&mut net, 0, client_plan(&Phase { connections, duration_ns, ..phase(ping) }));
        net.run();
        let mut due = Vec::new();
        for (_, event) in net.events(client) {
            if let Event::Pings { rows } = event {
                due.extend(rows.iter().map(|row| row.intended_ns));
            }
        }
        assert_eq!(due.len() as u64, 2 * SECOND / gap_ns * u64::from(connections), "{due:?}");
        let apart = due.iter().map(|at| (at % (100 * MS)).min(100 * MS - at % (100 * MS))).min();
        assert!(apart >= Some(2 * MS), "{due:?}");
    }
}

/// Messages that were due before a connection was up would leave together, and show the time of its
/// opening. Where the answer to a flow's opening is lost, the flow is opened once more and answered
/// once more, which is no message.
#[test]
fn a_schedule_waits_for_connections_to_be_opened() {
    let mut ends = 0;
    let long = [Link::new().delay(MS), Link::new().delay(400 * MS)].map(|link| (link, 1, true));
    let lossy = (1..=20).map(|seed| (Link::new().delay(MS).loss(0.3), seed, false));
    for (link, seed, all) in long.into_iter().chain(lossy) {
        for transport in [Transport::Tcp, Transport::Udp] {
            let schedule = Schedule::Fixed { gap_ns: 10 * MS };
            let ping =
                Ping { transport, messages: Some(100), schedule, timeout_ns: 2 * SECOND, ..Ping::default() };
            let it = outcome(&mut network(seed, &link), server_plan(), client_plan(&phase(ping)));
            let counts = it.local().pings.clone().unwrap().counts;
            let late = it.local().late_ns.as_ref().unwrap();
            assert!(late.max < 10 * MS, "{transport:?} {seed} {link:?}: {counts:?} {late:?}");
            assert!(!all || (counts.sent, counts.missed) == (100, 0), "{transport:?} {link:?}: {counts:?}");
            for remote in it.remote.iter().filter(|_| !all && transport == Transport::Udp) {
                let traffic = remote.traffic;
                ends += 1;
                assert!(traffic.tx_bytes <= traffic.rx_bytes, "{seed}: more than all came back: {traffic:?}");
            }
        }
    }
    assert!(ends > 10, "{ends} runs over UDP and lossy paths have a remote end's totals");
}

#[test]
fn a_server_that_ends_after_so_many_connections_says_so() {
    let ping = Ping { transport: Transport::Tcp, messages: Some(10), ..Ping::default() };
    let phase = Phase { connections: 2, ..phase(ping) };
    let server = server_with(|config| config.exit_after = Some(1));
    let it = outcome(&mut network(6, &Link::new().delay(MS)), server, client_plan(&phase));
    let causes: Vec<_> = it.local().causes.iter().map(|cause| cause.text.as_str()).collect();
    assert!(causes.iter().any(|text| text.contains("ends after a number of connections")), "{causes:?}");
}

#[test]
fn a_lossy_path_loses_datagrams_and_no_stream_s_bytes() {
    let lossy = Link::new().delay(2 * MS).loss(0.05);
    for transport in [Transport::Tcp, Transport::Udp] {
        let mut net = network(11, &lossy);
        let schedule = Schedule::Fixed { gap_ns: 5 * MS };
        let ping = Ping { transport, messages: Some(400), schedule, timeout_ns: SECOND, ..Ping::default() };
        let told = outcome(&mut net, server_plan(), client_plan(&phase(ping)));
        assert!(net.now < START.plus(60 * SECOND), "{transport:?}: {:?}", net.now);
        assert_eq!(told.status(), Status::Complete, "{transport:?}: {}", told.reason());
        let counts = told.local().pings.clone().unwrap().counts;
        assert_eq!(counts.received + counts.lost as u64, 400, "{transport:?} {counts:?}");
        match transport {
            Transport::Tcp => assert_eq!(counts.lost, 0),
            // Of 400 round trips 39 are expected to lose a datagram, give or take five deviations
            // of 6.
            Transport::Udp => assert!((9..=69).contains(&counts.lost), "{counts:?}"),
        }
    }
}

#[test]
fn spinning_is_granted_or_taken_back_with_a_reason() {
    for allowed in [true, false] {
        let mut net = network(5, &Link::new().delay(MS));
        let limits = Limits { busy: allowed, ..Limits::default() };
        let ping = Ping { busy: true, messages: Some(10), ..Ping::default() };
        let server = server_with(|config| config.limits = limits);
        let told = outcome(&mut net, server, client_plan(&phase(ping)));
        assert!(net.now < START.plus(20 * SECOND), "{allowed}: {:?}", net.now);
        assert_eq!(told.status(), Status::Complete, "{}", told.reason());
        let changes = &told.sessions[0].accepted.changes;
        assert_eq!(changes.iter().any(|c| c.what == "spinning" && c.given == "off"), !allowed);
    }
}

#[test]
fn what_a_server_cannot_hold_is_refused() {
    let mut net = network(6, &Link::new());
    let ping = Ping { size: 1 << 20, messages: Some(1), ..Ping::default() };
    let told = outcome(&mut net, server_plan(), client_plan(&phase(ping)));
    assert!(net.now < START.plus(20 * SECOND), "{:?}", net.now);
    assert_eq!(told.status(), Status::Failed);
    assert!(told.reason().contains("at most 64Ki"), "{}", told.reason());
}

#[test]
fn exchanges_inside_the_payload_wait_for_what_was_sent_before() {
    // 20 Mbit/s, 3 ms each way, and a socket that holds 64 KiB: 26 ms at that rate.
    const HELD: u64 = 64 * 1024 * 8 * SECOND / 20_000_000;
    let link = Link::new().delay(3 * MS).rate(20_000_000).window(64 * 1024);
    let patterns =
        [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 50_000, pull: 50_000 }];
    for pattern in patterns {
        for loaded in [false, true] {
            let mut net = network(6, &link);
            let phase = Phase {
                pattern,
                connections: 2,
                duration_ns: Some(4 * SECOND),
                rate: (!loaded).then_some(100_000),
                inside_gap_ns: Some(SECOND / 10),
                buffer: Range::just(16 * 1024),
                ..Phase::default()
            };
            let told = outcome(&mut net, server_plan(), client_plan(&phase));
            let what = format!("{pattern} {loaded}");
            assert!(net.now < START.plus(60 * SECOND), "{what}: {:?}", net.now);
            assert_eq!(told.status(), Status::Complete, "{what}: {}", told.reason());
            assert_eq!(told.local().errors(), 0, "{what}");
            let trips = told.local().pings.as_ref().expect("exchanges inside").rtt_ns.as_ref().unwrap();
            // 2 connections, 4 s, one each 100 ms; at the end some are not asked any more.
            assert!((40..=82).contains(&trips.count), "{what}: {}", trips.count);
            assert!(trips.min >= 6 * MS, "{what}: {}", trips.min);
            let filled = loaded && !matches!(pattern, Pattern::PushPull { .. });
            let median = trips.quantile(0.5);
            assert!(!filled || median > Some(6 * MS + HELD / 2), "{what}: {median:?}");
            // No more than both directions' sockets and spans of 64 KiB of each of two connections.
            assert!(trips.max < 6 * MS + 10 * HELD, "{what}: {}", trips.max);
            assert!(told.remote[0].pings.is_none() && told.local().packets.is_none(), "{what}");
        }
    }
}
