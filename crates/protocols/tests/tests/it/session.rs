//! Clients and servers in virtual time, as they should meet.

use crate::support::run::*;
use metrics::SECOND;
use model::{Kind, Pattern, Phase, Ping, Probe, Schedule, Shutdown, Status, Transport};
use sim::{Link, Network, Quirks, START};

/// All calls of a run to its platform, hashed.
fn trace(seed: u64) -> u64 {
    let mut net = network(seed);
    let server = serve(&mut net, server_plan());
    let client = join(&mut net, 0, client_plan(&Phase { pattern: Pattern::Duplex, ..small() }));
    for host in [server, client] {
        net.quirks(host, Quirks::rough());
    }
    net.run();
    net.trace()
}

#[test]
fn a_seed_repeats_every_call_of_every_thread() {
    let first = trace(1);
    assert_eq!(first, trace(1));
    assert_ne!(first, trace(2));
}

#[test]
fn a_run_from_hello_to_result() {
    for pattern in
        [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 50_000, pull: 30_000 }]
    {
        for quirks in [Quirks::default(), Quirks::rough()] {
            let mut net = network(7);
            let server = serve(&mut net, server_plan());
            let client = join(&mut net, 0, client_plan(&Phase { pattern, ..small() }));
            net.quirks(server, quirks);
            net.quirks(client, quirks);
            net.run();
            let told = told(&net, client);
            let what = || format!("{pattern:?} {quirks:?}: {told:#?}");
            assert_eq!(told.status(), Status::Complete, "{}", what());
            let lengths = [told.sessions.len(), told.remote.len(), told.intervals.len()];
            assert_eq!(lengths, [1, 1, 3], "{}", what());
            told.assert_intervals(true);
            let (local, remote) = (told.local(), &told.remote[0]);
            let connections = [local.opened, local.stopped, remote.opened, remote.stopped];
            assert_eq!(connections, [4; 4], "{}", what());
            assert_eq!(local.errors(), 0, "{}", what());
            assert!(about(local.traffic.ns, 3 * SECOND), "{}", what());
            let seconds = local.traffic.ns as f64 / 1e9;
            let (up, down) =
                (local.traffic.tx_bytes as f64 / seconds, local.traffic.rx_bytes as f64 / seconds);
            assert!(!pattern.sends_up() || (up > 1e5 && up <= 1.08e6), "{}", what());
            assert!(!pattern.sends_down() || (down > 1e5 && down <= 1.08e6), "{}", what());
            // What one end has sent the other has received, but for what was under way at the ends.
            assert!(local.traffic.tx_bytes.abs_diff(remote.traffic.rx_bytes) < 4 * 60_000, "{}", what());
            net.run_until(net.now.plus(5 * SECOND));
            assert_eq!(net.open(server), (0, 0), "{}", what());
            assert_eq!(net.groups(server), 0, "{}", what());
        }
    }
}

#[test]
fn iterations_and_totals_are_exact() {
    for (pattern, shutdown) in [
        (Pattern::Push, Shutdown::Graceful),
        (Pattern::Pull, Shutdown::Rude),
        (Pattern::Duplex, Shutdown::Random),
        (Pattern::PushPull { push: 1_000, pull: 700 }, Shutdown::Graceful),
    ] {
        for workers in [1, 2, 3] {
            let phase = Phase {
                pattern,
                shutdown,
                connections: 5,
                transfer: 20_001,
                iterations: Some(7),
                duration_ns: None,
                ..small()
            };
            let plan = native::ClientPlan { workers, ..client_plan(&phase) };
            let it = outcome(&mut network(3), server_plan(), plan);
            let (up, down) = pattern.split(20_001);
            assert_eq!(it.status(), Status::Complete, "{it:#?}");
            let (local, remote) = (it.local(), &it.remote[0]);
            let what = || format!("{pattern:?} {shutdown:?} {workers}: {it:#?}");
            let moved = [local.traffic, remote.traffic].map(|of| (of.tx_bytes, of.rx_bytes));
            assert_eq!([local.completed, remote.completed], [35; 2], "{}", what());
            assert_eq!(moved, [(35 * up, 35 * down), (35 * down, 35 * up)], "{}", what());
            it.assert_intervals(true);
        }
    }
    let phase = Phase {
        connections: 7,
        transfer: 10_000,
        total_bytes: Some(1_234_567),
        duration_ns: None,
        ..small()
    };
    let it = outcome(&mut network(4), server_plan(), client_plan(&phase));
    let moved = (it.local().traffic.tx_bytes, it.remote[0].traffic.rx_bytes);
    assert_eq!(moved, (1_234_567, 1_234_567), "{it:#?}");
    assert_eq!(it.local().network_errors, 0);
}

#[test]
fn connects_by_the_thousand() {
    let phase = Phase {
        kind: Kind::Connect,
        transfer: 1,
        shutdown: Shutdown::Rude,
        connect_rate: Some(1_000.0),
        connections: 50,
        ..small()
    };
    let it = outcome(&mut network(5), server_plan(), client_plan(&phase));
    assert_eq!(it.status(), Status::Complete);
    let local = it.local();
    assert!(local.completed.abs_diff(3_000) < 10, "{local:#?}");
    assert_eq!(local.errors(), 0, "{local:#?}");
    assert!(it.remote[0].completed.abs_diff(local.completed) <= 2, "{it:#?}");
}

#[test]
fn held_connections_are_open_together_for_longer_than_a_stall() {
    let phase = Phase { connections: 50, connect_rate: Some(40.0), stall_ns: SECOND, ..held(30 * SECOND) };
    let it = outcome(&mut network(5), server_plan(), client_plan(&phase));
    assert_eq!(it.status(), Status::Complete, "{it:#?}");
    for totals in [it.local(), &it.remote[0]] {
        assert_eq!((totals.opened, totals.completed, totals.peak), (50, 50, 50), "{totals:#?}");
        assert_eq!(totals.errors(), 0, "{totals:#?}");
    }
    assert_eq!(it.remote[0].traffic.rx_bytes, 50 * 64, "the receiver has compared them");
    let took = it.end.as_ref().unwrap().0.since(START);
    // 50 connections at 40 a second, the interval in which the last was opened, and the 30 s.
    assert!((31 * SECOND..34 * SECOND).contains(&took), "{took}");
}

#[test]
fn connections_to_be_held_are_connecting_until_they_are_answered() {
    let mut net = Network::new(5);
    let link = Link::new().delay(50 * MS);
    net.links(link.clone(), link);
    let phase = Phase { connections: 100, throttle: 10, interval_ns: SECOND / 10, ..held(SECOND) };
    let it = outcome(&mut net, server_plan(), client_plan(&phase));
    assert_eq!((it.local().opened, it.local().completed), (100, 100), "{:?}", it.local().causes);
    // Ten at a time, each of which takes the kernel's round trip and that of its payload.
    let took = it.end.as_ref().unwrap().0.since(START);
    assert!(took >= 10 * 2 * 100 * MS + SECOND, "{took}");
}

#[test]
fn thousands_of_connections_wait_for_no_others_to_be_opened() {
    let mut net = Network::new(5);
    let link = Link::new().delay(MS / 10);
    net.links(link.clone(), link);
    // All of them take a worker much longer than one may stand still.
    let phase = Phase { connections: 6_000, stall_ns: 20 * MS, interval_ns: SECOND / 10, ..held(SECOND) };
    let it = outcome(&mut net, server_plan(), client_plan(&phase));
    for totals in [it.local(), &it.remote[0]] {
        assert_eq!((totals.opened, totals.completed), (6_000, 6_000), "{:?}", totals.causes);
    }
}

#[test]
fn a_held_connection_that_breaks_is_an_error() {
    let mut net = network(5);
    let server = serve(&mut net, server_plan());
    let phase = held(30 * SECOND);
    let client = join(&mut net, 0, client_plan(&phase));
    net.kill_at(server, net.now.plus(5 * SECOND));
    net.run();
    let it = told(&net, client);
    assert_ne!(it.status(), Status::Complete, "{it:#?}");
    assert_eq!((it.local().completed, it.local().network_errors), (0, 4), "{it:#?}");
}

#[test]
fn two_hundred_clients_at_once() {
    let mut net = network(6);
    let server = serve(&mut net, server_plan());
    let link = Link::new().delay(5 * MS).rate(500_000).window(50_000);
    net.links(link.clone(), link);
    let phase = Phase { connections: 2, duration_ns: Some(2 * SECOND), ..small() };
    let clients: Vec<_> = (0..200).map(|n| join(&mut net, n, client_plan(&phase))).collect();
    net.run();
    for client in clients {
        let it = told(&net, client);
        assert_eq!(it.status(), Status::Complete, "{it:#?}");
        it.assert_intervals(true);
        assert_eq!((it.local().stopped, it.remote[0].stopped), (2, 2), "{it:#?}");
        assert!(it.remote[0].others > 100, "others: {}", it.remote[0].others);
    }
    net.run_until(net.now.plus(5 * SECOND));
    assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0));
}

#[test]
fn only_without_a_path_between_them_are_buffers_chosen_for_one_host() {
    for (boots, delay, chosen) in [
        (["host", "host"], MS / 10, true),
        (["host", "other"], MS / 10, false),
        // Both on one host, and yet 10 ms apart.
        (["host", "host"], 5 * MS, false),
    ] {
        let mut net = network(5);
        let link = Link::new().delay(delay).rate(10_000_000);
        net.links(link.clone(), link);
        let [local, remote] = boots.map(str::to_owned);
        let server = native::ServerPlan { clock_id: remote, ..server_plan() };
        let same_host = Some(native::SameHost { sndbuf: 98_304, rcvbuf: None });
        let client = native::ClientPlan { clock_id: local, same_host, ..client_plan(&small()) };
        let told = outcome(&mut net, server, client);
        assert_eq!(told.status(), Status::Complete);
        let said = told.notices.iter().any(|notice| notice.contains("both ends are on one host"));
        assert_eq!(said, chosen, "{boots:?} {delay}: {told:#?}");
    }
}

#[test]
fn short_turns_and_bulk_data_meet_on_no_worker() {
    let probe = |size: u32| Some(Probe { size, lead_ns: 500 * MS, ..Probe::default() });
    let delay = Phase { kind: Kind::Delay, rate: Some(64_000), probe: probe(160), ..small() };
    let ping = |transport| {
        let ping = Ping { transport, schedule: Schedule::Fixed { gap_ns: 20 * MS }, ..Ping::default() };
        Phase { kind: Kind::Ping, ping: Some(ping), iterations: Some(1), ..small() }
    };
    let phases = [
        (false, small()),
        (false, Phase { pattern: Pattern::Duplex, ..small() }),
        // Of connections that end all the time a new one stays where it was accepted, if that is a
        // worker for it.
        (false, Phase { kind: Kind::Connect, transfer: 100_000, ..small() }),
        (false, Phase { rate: Some(26_000_000), probe: probe(1_400), ..delay.clone() }),
        (true, Phase { pattern: Pattern::Duplex, ..delay }),
        (true, ping(Transport::Udp)),
        (true, ping(Transport::Tcp)),
    ];
    for (light, phase) in phases {
        let mut net = network(9);
        net.datagram_links(Link::new().delay(MS), Link::new().delay(MS));
        let server = serve(&mut net, server_plan());
        let client = join(&mut net, 0, client_plan(&phase));
        let what = format!("{:?} {:?} {:?}", phase.kind, phase.ping, phase.rate);
        // From when all are up to before the first ends.
        for at in 0..20 {
            net.run_until(START.plus(1_500 * MS + at * 50 * MS));
            let on = net.open_on(server);
            assert_eq!(on.len(), 4, "two workers of each set");
            let (bulk, short) = on.split_at(2);
            let (all, none) = if light { (short, bulk) } else { (bulk, short) };
            // Connections that follow on each other are anywhere until they have said what they
            // are.
            if phase.kind != Kind::Connect {
                assert_eq!((none, all.iter().sum()), (&[0, 0][..], 4), "{what}: {on:?}");
                assert!(all.iter().all(|n| *n > 0), "{what}: {on:?}");
            }
        }
        net.run();
        let told = told(&net, client);
        assert_eq!(told.status(), Status::Complete, "{what}: {}", told.reason());
        net.run_until(net.now.plus(5 * SECOND));
        assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0), "{what}");
    }
}
