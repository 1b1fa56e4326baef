//! Runs of a protocol without a conversation, over whole machines in virtual time: when they end,
//! and what they tell.

use crate::support::run::{MS, Told, about, address, call_with, network, serve_with, told};
use common::one_sided::{Answers, Calls};
use metrics::SECOND;
use model::{Event, Kind, Media, Pattern, Phase, Range, Shutdown, Status};
use sim::{Host, Link, Network};
use std::net::SocketAddr;

fn phase(transfer: u64) -> Phase {
    Phase {
        connections: 4,
        transfer,
        buffer: Range::just(64 * 1024),
        duration_ns: None,
        pattern: Pattern::Push,
        ..Phase::default()
    }
}

fn serve(net: &mut Network, phase: &Phase, exit_after: Option<u64>) -> Host {
    let answers = Answers { exit_after, workers: 2, ..Answers::default() };
    serve_with(net, 2, phase.clone(), ctstraffic::acceptors(phase, &answers), false)
}

fn call(net: &mut Network, n: u32, phase: &Phase, targets: Vec<SocketAddr>) -> Host {
    let calls = Calls { servers: common::Servers::at(targets), workers: 2, ..Calls::default() };
    call_with(net, n, 2, phase, ctstraffic::connectors(phase, &calls), false)
}

/// Until clients are done, and what their ends mean to servers.
fn finish(net: &mut Network) {
    net.run();
    net.run_until(net.now.plus(2 * SECOND));
}

/// What a client and its server tell, of which the server takes so many connections.
fn ran(seed: u64, served: &Phase, exit_after: u64, called: &Phase) -> (Told, Told) {
    let mut net = network(seed);
    let server = serve(&mut net, served, Some(exit_after));
    let client = call(&mut net, 1, called, vec![address(1)]);
    finish(&mut net);
    (told(&net, client), told(&net, server))
}

/// The sum of the intervals is the total, to the byte.
fn assert_sums(told: &Told) {
    told.assert_intervals(false);
    let local = told.local();
    let sum = |of: fn(&model::Interval) -> u64| told.intervals.iter().map(of).sum::<u64>();
    assert_eq!(sum(|i| i.local.tx_bytes), local.traffic.tx_bytes);
    assert_eq!(sum(|i| i.local.rx_bytes), local.traffic.rx_bytes);
    assert_eq!(sum(|i| i.opened), local.opened);
    assert!(told.remote.is_empty(), "such a remote end tells nothing");
}

#[test]
fn iterations_end_a_client_and_a_limit_its_server() {
    for shutdown in [Shutdown::Graceful, Shutdown::Rude, Shutdown::Random] {
        let phase = Phase { iterations: Some(5), shutdown, ..phase(30_001) };
        let (here, there) = ran(3, &phase, 20, &phase);
        for (told, tx, rx) in [(&here, 20 * 30_001, 0), (&there, 0, 20 * 30_001)] {
            assert_eq!((told.status(), told.reason()), (Status::Complete, ""), "{shutdown:?}");
            assert_eq!((told.local().opened, told.local().completed, told.local().errors()), (20, 20, 0));
            assert_eq!((told.local().traffic.tx_bytes, told.local().traffic.rx_bytes), (tx, rx));
            assert_sums(told);
        }
        // Identifier and completion of each connection are told beside the payload.
        assert_eq!((here.local().framing.rx_bytes, there.local().framing.tx_bytes), (20 * 41, 20 * 41));
    }
}

#[test]
fn a_server_takes_no_more_than_its_limit() {
    let twice = Phase { iterations: Some(2), ..phase(30_000) };
    let (here, there) = ran(4, &phase(30_000), 3, &twice);
    assert_eq!((there.local().opened, there.local().completed), (3, 3));
    assert_eq!((here.local().completed, here.local().errors()), (3, 5), "the rest is refused");
    // The client asked for more connections than the server takes.
    assert_eq!((there.status(), here.status()), (Status::Complete, Status::Partial));
    assert!(here.reason().starts_with("5 connections failed: "), "{}", here.reason());
}

#[test]
fn a_run_ends_when_its_time_is_up() {
    let mut net = network(5);
    let endless = phase(1 << 40);
    let server = serve(&mut net, &endless, None);
    let client =
        call(&mut net, 1, &Phase { duration_ns: Some(3 * SECOND), ..endless.clone() }, vec![address(1)]);
    net.run_until(net.now.plus(6 * SECOND));
    let here = told(&net, client);
    assert_eq!(here.status(), Status::Complete);
    assert_eq!((here.local().opened, here.local().stopped, here.local().errors()), (4, 4, 0));
    assert!(about(here.local().traffic.ns, 3 * SECOND), "{:?}", here.local().traffic);
    assert_sums(&here);
    // Two minutes later the server still serves, having lost four connections.
    net.run_until(net.now.plus(120 * SECOND));
    assert!(told(&net, server).end.is_none());
    let now = net.now;
    net.stop_at(server, now);
    finish(&mut net);
    let there = told(&net, server);
    assert_eq!(there.status(), Status::Interrupted);
    assert_eq!((there.local().opened, there.local().network_errors), (4, 4));
    assert_sums(&there);
}

#[test]
fn an_interrupted_client_stops_at_once() {
    let mut net = network(6);
    let endless = phase(1 << 40);
    serve(&mut net, &endless, None);
    let client = call(&mut net, 1, &endless, vec![address(1)]);
    net.run_until(net.now.plus(1_500 * MS));
    let now = net.now;
    net.stop_at(client, now);
    net.run_until(now.plus(SECOND));
    let here = told(&net, client);
    assert_eq!(here.status(), Status::Interrupted);
    assert!(here.end.as_ref().unwrap().0 < now.plus(200 * MS));
    assert_eq!(here.local().stopped, 4);
}

#[test]
fn a_dead_server_is_asked_less_and_less_often_and_named() {
    let mut net = network(7);
    let client =
        call(&mut net, 1, &Phase { duration_ns: Some(10 * SECOND), ..phase(1_000) }, vec![address(9)]);
    finish(&mut net);
    let here = told(&net, client);
    assert_eq!(here.status(), Status::Failed);
    assert!(here.reason().contains("connecting: Connection refused"), "{}", here.reason());
    // 10, 20, 40 … 640 ms, then every second: 17 attempts of each of the four.
    let tried = here.local().network_errors;
    assert!((60..=72).contains(&tried), "{tried}");
}

#[test]
fn any_number_of_clients_at_once_over_a_bad_network() {
    let mut net = network(8);
    let link = Link::new().delay(5 * MS).rate(20_000_000).loss(0.01);
    net.links(link.clone(), link);
    let phase = Phase { pattern: Pattern::Duplex, iterations: Some(3), ..phase(20_001) };
    let server = serve(&mut net, &phase, Some(20 * 12));
    let clients: Vec<Host> = (0..20).map(|n| call(&mut net, n, &phase, vec![address(1)])).collect();
    finish(&mut net);
    for client in clients {
        let here = told(&net, client);
        assert_eq!((here.local().completed, here.local().errors()), (12, 0));
        // 20,001 is odd: each direction moves 10,001.
        let traffic = here.local().traffic;
        assert_eq!([traffic.tx_bytes, traffic.rx_bytes], [12 * 10_001; 2]);
    }
    assert_eq!(told(&net, server).local().completed, 240);
}

#[test]
fn many_streams_at_once_and_several_lives_each() {
    let mut net = network(9);
    let link = Link::new().delay(5 * MS).window(1 << 20);
    net.datagram_links(link.clone(), link);
    let media = Media::new(2_000_000, 25, 2, 1, 1_400).unwrap();
    let phase = Phase { kind: Kind::Stream, media: Some(media), ..phase(media.frames * media.frame_size) };
    let server = serve(&mut net, &phase, Some(24));
    let clients: Vec<Host> = (0..4)
        .map(|n| {
            let phase = Phase { connections: 3, iterations: Some(2), ..phase.clone() };
            let calls = Calls {
                servers: common::Servers::at([address(1)]),
                workers: 2,
                frames: true,
                ..Calls::default()
            };
            call_with(&mut net, n, 2, &phase, ctstraffic::connectors(&phase, &calls), true)
        })
        .collect();
    finish(&mut net);
    let total = media.frames * media.frame_size;
    for client in clients {
        let here = told(&net, client);
        assert_eq!((here.status(), here.local().completed, here.local().errors()), (Status::Complete, 6, 0));
        assert_eq!(here.local().traffic.rx_bytes, 6 * total);
        let frames = here.local().frames.unwrap();
        assert_eq!((frames.completed, frames.dropped, frames.repeated, frames.errors), (6 * 50, 0, 0, 0));
        let sum: u64 = here.intervals.iter().filter_map(|i| i.frames).map(|f| f.completed).sum();
        assert_eq!(sum, 6 * 50, "the intervals tell of every frame once");
        let rows = net
            .events(client)
            .iter()
            .map(|(_, e)| if let Event::Frames { rows, .. } = e { rows.len() } else { 0 });
        assert_eq!(rows.sum::<usize>(), 6 * 50);
        assert_sums(&here);
    }
    let there = told(&net, server);
    assert_eq!((there.status(), there.local().completed), (Status::Complete, 24));
    assert_eq!(there.local().traffic.tx_bytes, 24 * total);
}
