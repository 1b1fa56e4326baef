//! The servers that a user names: each has a part of the run, and one that is not at its first
//! address is looked for at its others.

use crate::support::host::host;
use crate::support::run::{Told, address, client_ip, network, told};
use common::protocol::{Calling, Serving};
use common::{ClientConfig, Peer, Protocol, ServerConfig};
use metrics::SECOND;
use model::{Phase, Range, Status, Verify};
use sim::Network;
use std::net::SocketAddr;

static PROTOCOLS: [&dyn Protocol; 7] = [
    &native::PROTOCOL,
    &iperf3::PROTOCOL,
    &ctstraffic::PROTOCOL,
    &ttcp::PROTOCOL,
    &ntttcp::PROTOCOL,
    &udpmon::tcpmon::PROTOCOL,
    &discard::PROTOCOL,
];

fn phase(connections: u32) -> Phase {
    Phase {
        connections,
        duration_ns: Some(SECOND),
        interval_ns: SECOND / 2,
        transfer: common::bulk::UNLIMITED,
        rate: Some(1_000_000),
        buffer: Range::just(1_000),
        verify: Verify::Connection,
        connect_timeout_ns: SECOND,
        stall_ns: 5 * SECOND,
        ..Phase::default()
    }
}

fn at(protocol: &'static dyn Protocol, n: u8) -> SocketAddr {
    SocketAddr::new(address(n).ip(), protocol.port())
}

fn serve(net: &mut Network, protocol: &'static dyn Protocol, at: SocketAddr, phase: &Phase) {
    let config = match protocol.name() {
        "native" => ServerConfig::new(protocol),
        _ => ServerConfig::legacy(protocol, Phase { duration_ns: None, ..phase.clone() }),
    };
    let config = ServerConfig { listen: vec![at], version: "1".into(), ..config };
    let listening = protocol.listening(&config).unwrap();
    let workers = if protocol.name() == "iperf3" { 1 } else { 2 };
    let host = host(net.now);
    let serving = Serving { config: &config, addresses: &[at], workers, host, process_ports: &[] };
    let started = protocol.server(&serving).unwrap();
    let machine = net.serve(at, workers * started.sets, started.session);
    let first = if listening.in_order { 0..1 } else { 0..workers };
    net.listening(machine, first, 0..0);
}

fn run(net: &mut Network, protocol: &'static dyn Protocol, peers: Vec<Peer>, phase: &Phase) -> Told {
    let phase = protocol.suited(phase.clone());
    let config = ClientConfig { peers, version: "1".into(), records: true, ..ClientConfig::new(protocol) };
    let host = host(net.now);
    let started = protocol.client(&Calling { config: &config, phase: &phase, host }).unwrap();
    let client = net.join(client_ip(0), started.workers * started.sets, started.session);
    net.run_until(net.now.plus(30 * SECOND));
    told(net, client)
}

/// Nobody listens at the first address and at the second, and the server is at the third: no
/// connection has failed.
#[test]
fn a_server_is_looked_for_at_each_of_its_addresses() {
    for protocol in PROTOCOLS {
        let (mut net, phase) = (network(5), phase(2));
        serve(&mut net, protocol, at(protocol, 3), &phase);
        let server =
            Peer { others: vec![at(protocol, 2), at(protocol, 3)], ..Peer::new("server", at(protocol, 1)) };
        let it = run(&mut net, protocol, vec![server.clone()], &phase);
        assert_eq!(it.status(), Status::Complete, "{protocol}: {it:#?}");
        let local = it.local();
        assert_eq!((local.errors(), local.opened), (0, 2), "{protocol}: {:?}", local.causes);
        for (from, to) in [(1, 2), (2, 3)] {
            let (begin, end) =
                (format!("server ({})", at(protocol, from)), format!("trying {}", at(protocol, to)));
            let told = it.notices.iter().filter(|text| text.starts_with(&begin) && text.ends_with(&end));
            assert_eq!(told.count(), 1, "{protocol}: {:?}", it.notices);
        }
        // It is nowhere.
        let it = run(&mut network(5), protocol, vec![server], &phase);
        assert_eq!(it.status(), Status::Failed, "{protocol}: {it:#?}");
    }
}

/// Three servers and as many connections, on two workers.
#[test]
fn each_server_has_a_connection() {
    for protocol in PROTOCOLS.into_iter().filter(|protocol| protocol.name() != "iperf3") {
        let (mut net, phase) = (network(5), phase(3));
        let servers = [1, 2, 3].map(|n| at(protocol, n));
        servers.iter().for_each(|at| serve(&mut net, protocol, *at, &phase));
        let peers = servers.iter().map(|at| Peer::new(at.to_string(), *at)).collect();
        let it = run(&mut net, protocol, peers, &phase);
        let local = it.local();
        assert_eq!((it.status(), local.remotes.len()), (Status::Complete, 3), "{protocol}: {local:#?}");
        assert!(local.idle_servers.is_empty(), "{protocol}: {:?}", local.idle_servers);
    }
}

#[test]
fn a_server_that_says_nothing_is_named() {
    use model::Pattern::{Pull, Push};
    let asked: [(&'static dyn Protocol, _); 2] =
        [(&discard::chargen::PROTOCOL, Pull), (&udpmon::tcpmon::PROTOCOL, Push)];
    for (protocol, pattern) in asked {
        let phase = Phase { rate: None, pattern, ..phase(2) };
        let mut net = network(5);
        serve(&mut net, protocol, at(protocol, 1), &phase);
        // Another service on the same host.
        let mute = SocketAddr::new(at(protocol, 1).ip(), 20);
        net.mute(mute).unwrap();
        let peers = [at(protocol, 1), mute].map(|at| Peer::new(at.to_string(), at)).to_vec();
        let it = run(&mut net, protocol, peers, &phase);
        assert_eq!(it.local().idle_servers, [mute.to_string()], "{protocol}");
    }
}
