//! Sessions in trouble: every run ends in bounded time, with what was measured, and leaves nothing
//! behind.

use crate::support::run::*;
use common::{Limits, Peer};
use metrics::{Mono, SECOND};
use model::{Kind, Pattern, Phase, Status};
use native::{Client, ClientPlan, Server, ServerPlan};
use sim::{Host, Link, Network, Quirks, START};
use std::net::SocketAddr;

const PATTERNS: [Pattern; 3] = [Pattern::Push, Pattern::Pull, Pattern::Duplex];

/// A network with a server and its one client.
fn one(seed: u64, server: ServerPlan, client: ClientPlan) -> (Network, Host, Host) {
    let mut net = network(seed);
    let server = serve(&mut net, server);
    let client = join(&mut net, 0, client);
    (net, server, client)
}

fn serve_at(net: &mut Network, at: SocketAddr, plan: ServerPlan) -> Host {
    let (threads, now) = (plan.threads(), net.now);
    net.serve(at, threads, Box::new(Server::new(plan, now)))
}

/// A phase that ends with so many iterations.
fn counted(connections: u32, transfer: u64, iterations: u64) -> Phase {
    Phase { connections, transfer, iterations: Some(iterations), duration_ns: None, ..small() }
}

fn assert_empty(net: &mut Network, server: Host) {
    net.run_until(net.now.plus(40 * SECOND));
    assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0));
}

#[test]
fn stopped_by_the_user_at_any_moment() {
    for pattern in PATTERNS {
        for i in 0..20 {
            let phase = Phase { pattern, duration_ns: Some(SECOND), interval_ns: SECOND / 4, ..small() };
            let (mut net, server, client) = one(i, server_plan(), client_plan(&phase));
            if i % 2 == 1 {
                net.quirks(client, Quirks::rough());
                net.quirks(server, Quirks::rough());
            }
            // From the first connection request to after the end.
            let at = START.plus(i * i * 2_900_028);
            net.stop_at(client, at);
            net.run();
            let it = told(&net, client);
            let (end, status, _) = it.end.clone().unwrap();
            let what = || format!("{pattern:?} stop at {at:?}: {it:#?}");
            assert!(end <= at.plus(2 * SECOND), "{}", what());
            if at < START.plus(SECOND) {
                assert_eq!(status, Status::Interrupted, "{}", what());
            } else {
                assert_eq!(status, Status::Complete, "{}", what());
            }
            it.assert_intervals(false);
            if let Some(local) = &it.local {
                let remote = &it.remote[0];
                assert_eq!(local.errors(), 0, "{}", what());
                assert_eq!((local.stopped, local.opened), (remote.stopped, remote.opened), "{}", what());
            }
            assert_empty(&mut net, server);
        }
    }
}

/// As the engine asks: again while the end does not come.
fn interrupt(net: &mut Network, host: Host, at: Mono) {
    [0, 700, 900].into_iter().for_each(|ms| net.stop_at(host, at.plus(ms * SECOND / 1_000)));
}

#[test]
fn an_interrupt_waits_for_nobody_who_has_vanished() {
    let endless = Phase { duration_ns: Some(100 * SECOND), ..small() };
    let short = Phase { duration_ns: Some(SECOND), ..small() };
    for pattern in PATTERNS {
        // Gone in mid-run, and gone before the results.
        for (phase, at) in [(&endless, 3 * SECOND), (&short, 3 * SECOND), (&endless, SECOND / 20)] {
            let plan = client_plan(&Phase { pattern, ..phase.clone() });
            let (mut net, server, client) = one(12, server_plan(), plan);
            let at = START.plus(at);
            net.unplug_at(server, Mono(at.0.min(START.plus(9 * SECOND / 10).0)));
            interrupt(&mut net, client, at);
            net.run_until(at.plus(SECOND));
            let it = told(&net, client);
            assert!(net.done(client).is_some(), "{pattern:?} {at:?}: {it:#?}");
            assert_eq!(it.status(), Status::Interrupted);
            assert!(it.local.is_some() || at < START.plus(SECOND), "what was measured is told: {it:#?}");
        }
    }
    // The same for a server whose client has vanished.
    let (mut net, server, client) = one(13, server_plan(), client_plan(&endless));
    net.unplug_at(client, START.plus(SECOND));
    interrupt(&mut net, server, START.plus(2 * SECOND));
    net.run_until(START.plus(3 * SECOND));
    assert!(net.done(server).is_some());
}

/// The server lives, and its results take longer than a second: they are waited for.
#[test]
fn an_interrupt_over_a_long_path_has_the_results_of_both_ends() {
    for pattern in PATTERNS {
        let mut net = Network::new(12);
        let link = Link::new().delay(300 * MS).rate(2_000_000).window(300_000);
        net.links(link.clone(), link);
        serve(&mut net, server_plan());
        let plan = client_plan(&Phase { pattern, duration_ns: Some(100 * SECOND), ..small() });
        let client = join(&mut net, 0, plan);
        let at = START.plus(10 * SECOND);
        interrupt(&mut net, client, at);
        net.run_until(at.plus(5 * SECOND));
        let it = told(&net, client);
        assert!(net.done(client).is_some_and(|done| done < at.plus(3 * SECOND)), "{pattern:?}: {it:#?}");
        assert_eq!((it.status(), it.remote.len()), (Status::Interrupted, 1), "{pattern:?}: {:?}", it.notices);
    }
}

/// A path whose queues delay what passes by so many ns, there and back.
fn full(up: u64, down: u64) -> Network {
    let mut net = Network::new(15);
    let link = |delay: u64| Link::new().delay(delay).rate(1_000_000).window(125_000);
    net.links(link(up), link(down));
    net
}

/// When the intervals of a client were reported.
fn reported(net: &Network, host: Host) -> Vec<Mono> {
    let one = |(at, event): &(Mono, model::Event)| matches!(event, model::Event::Interval(_)).then_some(*at);
    net.events(host).iter().filter_map(one).collect()
}

#[test]
fn intervals_keep_their_rhythm_and_an_interrupt_gets_the_totals_over_full_queues() {
    for (up, down) in [(1_000, 5), (5, 1_000), (1_000, 1_000)] {
        for pattern in PATTERNS {
            let mut net = full(up * MS, down * MS);
            serve(&mut net, server_plan());
            let phase = Phase { duration_ns: Some(100 * SECOND), ..small() };
            let client = join(&mut net, 0, client_plan(&Phase { pattern, ..phase }));
            let at = START.plus(45 * SECOND + 300 * MS);
            interrupt(&mut net, client, at);
            net.run_until(at.plus(10 * SECOND));
            let it = told(&net, client);
            let what = format!("{up} ms, {down} ms, {pattern:?}");
            let (end, status, _) = it.end.clone().expect(&what);
            assert_eq!((status, it.remote.len()), (Status::Interrupted, 1), "{what}: {}", it.reason());
            let took = end.since(at);
            assert!(took <= (up + down) * MS + SECOND, "{what}: {took}");
            let all = reported(&net, client);
            // The last one ends with the interrupt.
            let gaps: Vec<u64> =
                all[..all.len() - 1].windows(2).map(|pair| pair[1].since(pair[0]) / MS).collect();
            assert!(
                gaps.len() > 10 && gaps.iter().all(|gap| (200..=1_500).contains(gap)),
                "{what}: {gaps:?}"
            );
        }
    }
}

/// Seconds of data may be under way, so that connections take long to end.
fn slow(seconds: usize) -> Network {
    let mut net = Network::new(14);
    let link = Link::new().delay(20 * MS).rate(2_000_000).window(seconds * 250_000);
    net.links(link.clone(), link);
    net
}

#[test]
fn what_is_cut_off_at_the_end_has_failed_at_neither_end() {
    for pattern in PATTERNS {
        for (seconds, interrupted) in [(4, true), (20, false)] {
            let mut net = slow(seconds);
            serve(&mut net, server_plan());
            let duration_ns = Some(if interrupted { 100 * SECOND } else { 5 * SECOND });
            let client = join(&mut net, 0, client_plan(&Phase { pattern, duration_ns, ..small() }));
            if interrupted {
                [5_000, 5_700].into_iter().for_each(|ms| net.stop_at(client, START.plus(ms * MS)));
            }
            net.run();
            let it = told(&net, client);
            let status = if interrupted { Status::Interrupted } else { Status::Complete };
            assert_eq!((it.status(), it.remote.len()), (status, 1), "{pattern:?}: {}", it.reason());
            for totals in [it.local(), &it.remote[0]] {
                assert_eq!(
                    (totals.opened, totals.stopped, totals.errors()),
                    (4, 4, 0),
                    "{pattern:?} {interrupted}: {:?}",
                    totals.causes
                );
            }
        }
    }
}

#[test]
fn what_a_stopped_server_cuts_off_has_failed_at_neither_end() {
    for pattern in PATTERNS {
        let mut net = slow(4);
        let server = serve(&mut net, server_plan());
        let phase = Phase { pattern, duration_ns: Some(100 * SECOND), ..small() };
        let client = join(&mut net, 0, client_plan(&phase));
        interrupt(&mut net, server, START.plus(5 * SECOND));
        net.run_until(START.plus(20 * SECOND));
        for host in [client, server] {
            let it = told(&net, host);
            assert_eq!(it.status(), Status::Interrupted, "{pattern:?}: {}", it.reason());
            let totals = it.local();
            assert_eq!((totals.stopped, totals.errors()), (4, 0), "{pattern:?}: {:?}", totals.causes);
        }
    }
}

#[test]
fn a_server_that_cannot_be_reached() {
    // No such port.
    let mut plan = client_plan(&small());
    plan.config.peers[0].address.set_port(80);
    let (mut net, _, client) = one(1, server_plan(), plan);
    net.run();
    let it = told(&net, client);
    assert_eq!(it.status(), Status::Failed);
    assert!(it.reason().contains("connecting: Connection refused"), "{}", it.reason());
    // No answer.
    let (mut net, server, client) = one(1, server_plan(), client_plan(&small()));
    net.unplug_at(server, START);
    net.run();
    let it = told(&net, client);
    assert_eq!(it.status(), Status::Failed);
    assert!(it.reason().contains("no connection within 10 s"), "{}", it.reason());
    let ended = it.end.unwrap().0;
    assert!(about(ended.since(START), 10 * SECOND), "{ended:?}");
}

#[test]
fn a_stop_while_data_connections_hang_in_connecting_is_quick() {
    let phase = Phase { transfer: 10_000, connect_rate: Some(20.0), ..small() };
    let (mut net, server, client) = one(1, server_plan(), client_plan(&phase));
    net.unplug_at(server, START.plus(SECOND));
    net.stop_at(client, START.plus(2 * SECOND));
    net.run();
    let it = told(&net, client);
    let (end, status, _) = it.end.clone().unwrap();
    assert!(end < START.plus(20 * SECOND), "{end:?}");
    assert!(matches!(status, Status::Interrupted | Status::Partial), "{it:#?}");
    assert!(it.local().completed > 10, "{it:#?}");
}

#[test]
fn a_server_that_vanishes_in_mid_run() {
    for pattern in PATTERNS {
        for killed in [true, false] {
            let phase = Phase { pattern, duration_ns: Some(30 * SECOND), stall_ns: 5 * SECOND, ..small() };
            let (mut net, server, client) = one(2, server_plan(), client_plan(&phase));
            let at = START.plus(2_500 * MS);
            if killed {
                net.kill_at(server, at);
            } else {
                net.unplug_at(server, at);
            }
            net.run();
            let it = told(&net, client);
            let (end, status, reason) = it.end.clone().unwrap();
            let what = || format!("{pattern:?} killed {killed}: {it:#?}");
            assert_eq!(status, Status::Partial, "{}", what());
            assert!(end < at.plus(if killed { 2 } else { 22 } * SECOND), "{}", what());
            let reason = reason.unwrap();
            let word = if killed { "control connection" } else { "vanished" };
            assert!(reason.contains(word), "{reason}");
            // The path died after 2.5 s, some milliseconds of which were spent on agreeing; a
            // control connection is heard each second.
            let told: f64 =
                reason.split("after ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            let earliest = if killed { 2.4 } else { 1.4 };
            assert!((earliest..=2.5).contains(&told), "{reason}");
            assert!(it.local().traffic.tx_bytes + it.local().traffic.rx_bytes > 800_000, "{}", what());
            assert!(it.intervals.len() >= 2 && it.intervals[0].remote.is_some(), "{}", what());
            it.assert_intervals(false);
            assert!(it.remote.is_empty());
        }
    }
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    for pattern in PATTERNS {
        for killed in [true, false] {
            for after in [1, 3, 5, 9, 20, 1_000, 3_050] {
                let phase = Phase { pattern, stall_ns: 5 * SECOND, ..small() };
                let (mut net, server, client) = one(3, server_plan(), client_plan(&phase));
                let at = START.plus(after * MS);
                if killed {
                    net.kill_at(client, at);
                } else {
                    net.unplug_at(client, at);
                }
                net.run_until(at.plus(65 * SECOND));
                assert_eq!(
                    (net.open(server), net.groups(server)),
                    ((0, 0), 0),
                    "{pattern:?} {killed} {after}"
                );
                // And the next client finds everything in order.
                let next = join(&mut net, 1, client_plan(&Phase { duration_ns: Some(SECOND), ..small() }));
                net.run();
                let it = told(&net, next);
                assert_eq!(it.status(), Status::Complete);
                assert_eq!((it.remote[0].opened, it.remote[0].others), (4, 0));
            }
        }
    }
}

#[test]
fn a_group_number_is_not_given_on_before_its_last_count() {
    // One client after another is killed while the next arrives; each has its own size. A network
    // with all of them is slow.
    for few in [0..20, 20..40, 40..60] {
        let mut net = network(4);
        let server = serve(&mut net, server_plan());
        net.quirks(server, Quirks { threads: 3 * MS, ..Quirks::default() });
        for n in few {
            let doomed = join(&mut net, 2 * n, client_plan(&counted(4, 5_000, 20)));
            net.kill_at(doomed, net.now.plus(u64::from(n) * MS));
            net.run_until(net.now.plus(u64::from(n) * MS + 200_000));
            let client = join(&mut net, 2 * n + 1, client_plan(&counted(3, 1_000, 1)));
            net.run();
            let it = told(&net, client);
            assert_eq!(it.status(), Status::Complete, "{n}: {it:#?}");
            let found = (it.remote[0].completed, it.remote[0].traffic.rx_bytes);
            assert_eq!(found, (3, 3_000), "{n}: {it:#?}");
        }
        assert_empty(&mut net, server);
    }
}

#[test]
fn keys() {
    for (server_key, client_key, expect) in [
        (None, None, ""),
        (Some("correct horse"), Some("correct horse"), ""),
        (Some("correct horse"), Some("battery staple"), "wrong pre-shared key"),
        (Some("correct horse"), None, "needs a pre-shared key"),
        (None, Some("correct horse"), "has none and cannot prove who it is"),
    ] {
        let mut plan = client_plan(&small());
        plan.config.keys = client_key.map(psk).unwrap_or_default();
        let server_plan = server_with(|config| config.keys = server_key.map(psk).unwrap_or_default());
        let (mut net, server, client) = one(5, server_plan, plan);
        net.run();
        let it = told(&net, client);
        if expect.is_empty() {
            assert_eq!(it.status(), Status::Complete);
            assert_eq!(it.sessions[0].authenticated, server_key.is_some());
        } else {
            assert_eq!(it.status(), Status::Failed);
            assert!(it.reason().contains(expect), "{}", it.reason());
        }
        assert_empty(&mut net, server);
    }
}

#[test]
fn proposals_are_refused_or_reduced_and_the_client_says_so() {
    let plan = client_plan(&Phase { connections: 0, ..small() });
    let (mut net, _, client) = one(6, server_plan(), plan);
    net.run();
    assert_eq!(
        told(&net, client).reason(),
        "server (10.0.0.1:7411): refused: connections must be 1 to 1000000"
    );

    let limits =
        Limits { connections: 2, duration_ns: Some(2 * SECOND), rate: Some(4_000_000), ..Limits::default() };
    let plan = client_plan(&Phase { connections: 8, ..small() });
    let (mut net, _, client) = one(6, server_with(|config| config.limits = limits), plan);
    net.run();
    let it = told(&net, client);
    let changes = &it.sessions[0].accepted.changes;
    let what: Vec<_> =
        changes.iter().map(|c| (c.what.as_str(), c.asked.as_str(), c.given.as_str())).collect();
    assert_eq!(
        what,
        [
            ("connections", "8", "2"),
            ("duration", "3 s", "2 s"),
            ("rate per connection", "unlimited", "2000000 bit/s"),
        ]
    );
    assert_eq!(it.status(), Status::Complete);
    assert_eq!((it.local().opened, it.intervals.len()), (2, 2));
    assert!(about(it.local().traffic.ns, 2 * SECOND), "{:?}", it.local().traffic);
    assert!(it.local().traffic.tx_bytes.abs_diff(1_000_000) < 20_000, "{:?}", it.local().traffic);
}

#[test]
fn a_session_that_has_used_up_its_bytes_is_partial() {
    let limits = Limits { bytes: Some(500_000), ..Limits::default() };
    for pattern in [Pattern::Push, Pattern::Pull, Pattern::Duplex] {
        let plan = client_plan(&Phase { connections: 4, pattern, ..small() });
        let (mut net, server, client) = one(6, server_with(|config| config.limits = limits.clone()), plan);
        net.run();
        let it = told(&net, client);
        let ended = "ended after 500000 bytes, the most of one session";
        assert_eq!(it.status(), Status::Partial, "{pattern:?}: {}", it.reason());
        assert_eq!(it.reason(), format!("server: {ended}"), "{pattern:?}");
        assert_eq!(it.remote[0].limit.as_deref(), Some(ended), "{pattern:?}");
        assert_empty(&mut net, server);
    }
}

#[test]
fn too_many_sessions() {
    let limits = Limits { sessions: 3, ..Limits::default() };
    let mut net = network(7);
    let server = serve(&mut net, server_with(|config| config.limits = limits));
    let clients: Vec<_> = (0..5).map(|n| join(&mut net, n, client_plan(&small()))).collect();
    net.run();
    let its: Vec<_> = clients.iter().map(|&c| told(&net, c)).collect();
    assert_eq!(its.iter().filter(|t| t.status() == Status::Complete).count(), 3);
    for it in its.iter().filter(|t| t.status() != Status::Complete) {
        assert!(it.reason().contains("refused: 3 sessions are the limit"), "{}", it.reason());
    }
    assert_empty(&mut net, server);

    let limits = Limits { per_address: 2, ..Limits::default() };
    let mut net = network(7);
    serve(&mut net, server_with(|config| config.limits = limits));
    let clients: Vec<_> = (0..2).map(|_| join(&mut net, 9, client_plan(&small()))).collect();
    net.run_until(START.plus(SECOND));
    let third = join(&mut net, 9, client_plan(&small()));
    net.run();
    assert!(clients.iter().all(|&c| told(&net, c).status() == Status::Complete));
    assert!(told(&net, third).reason().contains("2 sessions from 10.128.0.10 are the limit"));
}

#[test]
fn exclusive_sessions_queue_for_as_long_as_it_takes() {
    let mut net = network(8);
    let link = Link::new().delay(MS).rate(1_000_000);
    net.links(link.clone(), link);
    let server = serve(&mut net, server_plan());
    let long = Phase { exclusive: true, duration_ns: Some(45 * SECOND), ..small() };
    let mut clients = vec![join(&mut net, 0, client_plan(&long))];
    net.run_until(START.plus(SECOND));
    for n in 1..6 {
        let phase = Phase { exclusive: n == 2, ..small() };
        clients.push(join(&mut net, n, client_plan(&phase)));
        net.run_until(net.now.plus(SECOND));
    }
    // One of those who wait gives up, another is killed.
    net.stop_at(clients[3], net.now.plus(SECOND));
    net.kill_at(clients[4], net.now.plus(SECOND));
    net.run();
    let its: Vec<_> = clients.iter().map(|&c| told(&net, c)).collect();
    for (n, it) in its.iter().enumerate() {
        match n {
            3 => assert_eq!(it.status(), Status::Interrupted),
            4 => assert!(it.end.is_none()),
            _ => assert_eq!(it.status(), Status::Complete, "{n}: {it:#?}"),
        }
    }
    let end = |n: usize| its[n].end.as_ref().unwrap().0;
    assert!(end(0) < end(1) && end(1) < end(2) && end(2) < end(5), "first come, first served");
    assert!(its[1].notices[0].contains("waiting for 1 other session(s)"), "{:?}", its[1].notices);
    assert!([0, 2].iter().all(|&n: &usize| its[n].remote[0].others == 0));
    assert_eq!(its[1].notices.len(), 1, "{:?}", its[1].notices);
    assert_empty(&mut net, server);
}

/// Concurrent parts of one run, as in `load`: none waits for sessions that wait for all of them.
#[test]
fn the_parts_of_an_exclusive_run_go_on_beside_each_other() {
    for server_is in [false, true] {
        let mut net = network(8);
        let server = serve(&mut net, server_with(|config| config.exclusive = server_is));
        let part = |net: &mut Network, secret: u8, seconds: u64| {
            let phase = Phase { exclusive: true, duration_ns: Some(seconds * SECOND), ..small() };
            let plan = ClientPlan { secret: [secret; 32], ..client_plan(&phase) };
            let (workers, now) = (plan.workers, net.now);
            net.join(client_ip(secret.into()), workers, Box::new(Client::new(plan, now)))
        };
        let first = part(&mut net, 7, 6);
        net.run_until(START.plus(SECOND));
        let other = join(&mut net, 1, client_plan(&small()));
        net.run_until(START.plus(2 * SECOND));
        let second = part(&mut net, 8, 1);
        net.run();
        let [first, other, second] = [first, other, second].map(|client| told(&net, client));
        for it in [&first, &other, &second] {
            assert_eq!((it.status(), it.remote[0].others), (Status::Complete, 0), "{it:#?}");
        }
        let end = |it: &Told| it.end.as_ref().unwrap().0;
        assert!(end(&second) < end(&first) && end(&first) < end(&other), "the other waits for both");
        assert!(second.notices.iter().all(|text| !text.contains("waiting")), "{:?}", second.notices);
        assert_empty(&mut net, server);
    }
}

#[test]
fn an_exclusive_server_takes_one_at_a_time() {
    let mut net = network(8);
    let server = serve(&mut net, server_with(|config| config.exclusive = true));
    let clients: Vec<_> = (0..6)
        .map(|n| join(&mut net, n, client_plan(&Phase { duration_ns: Some(SECOND), ..small() })))
        .collect();
    net.run();
    for client in clients {
        let it = told(&net, client);
        assert_eq!((it.status(), it.remote[0].others), (Status::Complete, 0));
    }
    assert_empty(&mut net, server);
}

#[test]
fn a_server_that_is_stopped_ends_its_sessions_in_good_order() {
    for at in [1, 4, 7, 9, 12, 500, 2_900, 3_000, 3_003, 3_010] {
        let mut net = network(9);
        let server = serve(&mut net, server_plan());
        let clients: Vec<_> = (0..3).map(|n| join(&mut net, n, client_plan(&small()))).collect();
        net.stop_at(server, START.plus(at * MS));
        net.run();
        for client in clients {
            let it = told(&net, client);
            let what = || format!("{at}: {it:#?}");
            if at >= 500 {
                assert!(matches!(it.status(), Status::Interrupted | Status::Complete), "{}", what());
                assert_eq!(it.remote.len(), 1, "{}", what());
                assert_eq!(it.local().network_errors + it.local().data_errors, 0, "{}", what());
                assert!(it.end.as_ref().unwrap().0 < START.plus(at * MS + SECOND), "{}", what());
            } else {
                assert_eq!(it.status() == Status::Failed, it.local.is_none(), "{}", what());
            }
        }
        net.run_until(net.now.plus(30 * SECOND));
        let it = told(&net, server);
        assert!(net.done(server).is_some(), "{at}");
        assert_eq!(it.status(), Status::Interrupted);
        assert!(it.local.is_some());
        it.assert_intervals(false);
    }
}

#[test]
fn a_client_that_does_not_listen_cannot_hold_up_the_end() {
    // It vanishes, so that it neither stops nor closes.
    let phase = Phase { duration_ns: Some(600 * SECOND), stall_ns: 600 * SECOND, ..small() };
    let (mut net, server, client) = one(10, server_plan(), client_plan(&phase));
    net.unplug_at(client, START.plus(SECOND));
    net.stop_at(server, START.plus(2 * SECOND));
    net.run_until(START.plus(25 * SECOND));
    assert!(net.done(server).is_some());
}

fn stop_servers(net: &mut Network, n: u32, key: Option<&str>) -> Host {
    let mut plan = client_plan(&small());
    plan.config.options = stopping(None);
    plan.config.keys = key.map(psk).unwrap_or_default();
    join(net, n, plan)
}

#[test]
fn a_shutdown_needs_the_key_or_the_same_host() {
    for (key, allowed) in [(None, false), (Some("correct horse"), true)] {
        let mut net = network(11);
        let server = serve(&mut net, server_with(|config| config.keys = key.map(psk).unwrap_or_default()));
        let mut plan = client_plan(&small());
        plan.config.keys = key.map(psk).unwrap_or_default();
        let busy = join(&mut net, 0, plan);
        net.run_until(START.plus(SECOND));
        let stopper = stop_servers(&mut net, 1, key);
        net.run();
        let (busy, it) = (told(&net, busy), told(&net, stopper));
        assert_eq!(
            (busy.status(), busy.intervals.len()),
            (Status::Complete, 3),
            "running sessions go on: {busy:#?}"
        );
        if allowed {
            assert_eq!(it.status(), Status::Complete, "{it:#?}");
            assert!(it.notices[0].contains("is stopping: 1 session(s) still running"), "{:?}", it.notices);
            assert!(net.done(server).is_some());
        } else {
            assert_eq!(it.status(), Status::Failed);
            assert!(it.reason().contains("can only be stopped from its own host"), "{}", it.reason());
            assert!(net.done(server).is_none());
        }
    }
    // On the same host no key is needed; a long session is waited for.
    let mut net = network(11);
    let local = ([127, 0, 0, 1], 7411).into();
    let server = serve_at(&mut net, local, server_plan());
    let at_home = |stop: bool| {
        let mut plan =
            client_plan(&Phase { duration_ns: Some(100 * SECOND), rate: Some(100_000), ..small() });
        plan.config.peers = vec![Peer::new("localhost", local)];
        if stop {
            plan.config.options = stopping(None);
        }
        plan
    };
    let busy = net.join([127, 0, 0, 1].into(), 2, Box::new(Client::new(at_home(false), START)));
    net.run_until(START.plus(SECOND));
    let now = net.now;
    let stopper = net.join([127, 0, 0, 1].into(), 1, Box::new(Client::new(at_home(true), now)));
    net.run();
    assert_eq!(
        (told(&net, busy).status(), told(&net, stopper).status()),
        (Status::Complete, Status::Complete)
    );
    assert!(told(&net, stopper).end.unwrap().0 > START.plus(100 * SECOND));
    assert!(net.done(server).is_some());
}

#[test]
fn a_server_ends_only_for_those_who_mean_it() {
    let local = ([127, 0, 0, 1], 7411).into();
    for (only, meant) in [(Some("echo:9999"), true), (Some("echo:7"), false), (None, true)] {
        let mut net = network(13);
        let server_plan = server_with(|config| config.besides = vec!["echo:9999".into()]);
        let server = serve_at(&mut net, local, server_plan);
        let mut plan = client_plan(&small());
        plan.config.peers = vec![Peer::new("localhost", local)];
        plan.config.options = stopping(only);
        let it = net.join([127, 0, 0, 1].into(), 1, Box::new(Client::new(plan, START)));
        net.run();
        assert_eq!(net.done(server).is_some(), meant, "{only:?}");
        let it = told(&net, it);
        assert_eq!(it.status() == Status::Complete, meant, "{it:#?}");
        assert!(meant || it.reason().contains("does not answer \"echo:7\""), "{}", it.reason());
    }
}

#[test]
fn a_server_that_exits_after_n_connections_admits_exactly_n() {
    for n in [1, 7, 10] {
        let server_plan = server_with(|config| config.exit_after = Some(n));
        let (mut net, server, client) = one(12, server_plan, client_plan(&counted(3, 5_000, 4)));
        net.run();
        net.run_until(net.now.plus(3 * SECOND));
        let (it, served) = (told(&net, client), told(&net, server));
        assert_eq!(it.local().completed, n.min(12), "{it:#?}");
        assert_eq!(it.local().protocol_errors, 12 - n.min(12), "{it:#?}");
        let causes: Vec<_> = it.local().causes.iter().map(|c| c.text.as_str()).collect();
        assert!(n >= 12 || causes[0].contains("ends after a number of connections"), "{causes:?}");
        assert!(net.done(server).is_some(), "{served:#?}");
        assert_eq!((served.local().completed, served.status()), (n, Status::Complete));
    }
}

#[test]
fn several_servers() {
    let plan = |addresses: &[u8]| {
        let mut plan = client_plan(&small());
        plan.config.peers = addresses.iter().map(|&a| Peer::new(format!("s{a}"), address(a))).collect();
        plan
    };
    let two = |net: &mut Network| [1, 2].map(|n| serve_at(net, address(n), server_plan()));
    let run = |plan| {
        let mut net = network(13);
        two(&mut net);
        let client = join(&mut net, 0, plan);
        net.run();
        told(&net, client)
    };
    // All is well: both have their share, and the remote figure is the sum.
    let it = run(plan(&[1, 2]));
    assert_eq!((it.status(), it.remote.len(), it.sessions.len()), (Status::Complete, 2, 2), "{it:#?}");
    assert_eq!((it.remote[0].opened, it.remote[1].opened), (2, 2));
    it.assert_intervals(true);
    let remote: u64 = it.intervals.iter().map(|i| i.remote.unwrap().rx_bytes).sum();
    assert_eq!(remote, it.remote.iter().map(|f| f.traffic.rx_bytes).sum::<u64>());
    // One of them is not there.
    let it = run(plan(&[1, 3, 2]));
    assert_eq!((it.status(), it.remote.len()), (Status::Complete, 2), "{it:#?}");
    assert!(
        it.notices[0].contains("left out: s3 (10.0.0.3:7411): connecting: Connection refused"),
        "{:?}",
        it.notices
    );
    // One of them has another address, at which it is.
    let mut moved = plan(&[3, 2]);
    moved.config.peers[0].others = vec![address(4), address(1)];
    let it = run(moved);
    assert_eq!((it.status(), it.remote.len()), (Status::Complete, 2), "{it:#?}");
    let first = "s3 (10.0.0.3:7411): connecting: Connection refused";
    assert!(
        it.notices[0].starts_with(first) && it.notices[0].ends_with("trying 10.0.0.4:7411"),
        "{:?}",
        it.notices
    );
    assert!(it.notices[1].ends_with("trying 10.0.0.1:7411"), "{:?}", it.notices);
    // One of them is killed in mid-run: the other's share goes on, and the run is partial.
    let mut net = network(13);
    let servers = two(&mut net);
    let client = join(&mut net, 0, plan(&[1, 2]));
    net.kill_at(servers[0], START.plus(1_500 * MS));
    net.run();
    let it = told(&net, client);
    assert_eq!((it.status(), it.remote.len()), (Status::Partial, 1), "{it:#?}");
    assert!(it.local().network_errors >= 2 && it.local().stopped == 2, "{it:#?}");
    assert_eq!(it.intervals.len(), 3);
    it.assert_intervals(true);
    // One of them grants less: it is not asked for more, and the other is not asked for what is
    // missing.
    let mut net = network(13);
    let limits = Limits { connections: 100, ..Limits::default() };
    for (n, limits) in [(1, limits), (2, Limits::default())] {
        serve_at(&mut net, address(n), server_with(|config| config.limits = limits));
    }
    let many = ClientPlan { phase: counted(800, 1_000, 2), ..plan(&[1, 2]) };
    let client = join(&mut net, 0, many);
    net.run();
    let it = told(&net, client);
    let local = it.local();
    assert_eq!((local.completed, local.protocol_errors), (1_000, 0), "{:?} {:?}", it.notices, local.causes);
    assert_eq!((it.remote[0].completed, it.remote[1].completed), (200, 800));
    // One of them has open files for fewer: what it holds of other sessions is no longer there to
    // be granted.
    let mut net = network(13);
    let limits = Limits { places: Some(100), ..Limits::default() };
    serve_at(&mut net, address(1), server_with(|config| config.limits = limits));
    let phase = Phase { kind: Kind::Connect, hold_ns: Some(2 * SECOND), ..counted(70, 100, 1) };
    let holding = || ClientPlan { phase: phase.clone(), ..plan(&[1]) };
    let first = join(&mut net, 0, holding());
    net.run_until(START.plus(SECOND));
    let (second, third) = (join(&mut net, 1, holding()), join(&mut net, 2, holding()));
    net.run();
    let [first, second, third] = [first, second, third].map(|client| told(&net, client));
    assert_eq!((first.status(), first.local().opened), (Status::Complete, 70), "{first:#?}");
    let mut opened = [&second, &third].map(|it| it.local.as_ref().map_or(0, |local| local.opened));
    opened.sort_unstable();
    assert_eq!(opened, [0, 30], "{second:#?} {third:#?}");
    let (reduced, refused) = if second.sessions.is_empty() { (&third, &second) } else { (&second, &third) };
    let change = &reduced.sessions[0].accepted.changes[0];
    assert_eq!((change.given.as_str(), change.why.contains("open files")), ("30", true), "{change:?}");
    assert_eq!((reduced.status(), reduced.local().protocol_errors), (Status::Complete, 0), "{reduced:#?}");
    assert!(refused.reason().contains("no open files left"), "{}", refused.reason());
}
