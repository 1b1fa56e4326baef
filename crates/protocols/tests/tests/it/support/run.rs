//! Sessions in virtual time: what the tests of clients and servers share.

use common::config::StopServers;
use common::one_sided::{OneSided, OneSidedPlan};
use common::protocol::{Foreigners, Protocol as _};
use common::{ClientConfig, Keyring, Peer, Placement, ProtocolOptions, Psk, ServerConfig};
use metrics::{Mono, SECOND};
use model::{EndCounts, Event, Interval, Kind, Phase, Portion, Range, SessionInfo, Status, Totals};
use native::{Client, ClientPlan, Server, ServerPlan};
use sim::{Host, Link, Network};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use transport::{Acceptor, Connector, LinkSource};
use uuid::Uuid;

pub(crate) const MS: u64 = 1_000_000;

/// What the threads of two simulated machines take at most until they see what has come or is due,
/// ns.
const SLACK: u64 = 100_000;

/// Whether something took as long as it had to, and no more than the threads of the machines add to
/// that, ns.
pub(crate) fn about(took: u64, least: u64) -> bool {
    (least..least + SLACK).contains(&took)
}

pub(crate) fn address(server: u8) -> SocketAddr {
    ([10, 0, 0, server], 7411).into()
}

pub(crate) fn client_ip(n: u32) -> IpAddr {
    let [_, b, c, d] = (n + 1).to_be_bytes();
    [10, b | 128, c, d].into()
}

/// The other protocols whose peers our own recognises.
fn foreign() -> ProtocolOptions {
    ProtocolOptions::new(Foreigners(::iperf3::PROTOCOL.info().foreign.iter().collect()))
}

pub(crate) fn server_plan() -> ServerPlan {
    ServerPlan {
        config: ServerConfig {
            version: "1.0".into(),
            placement: Placement::Spread,
            options: foreign(),
            ..ServerConfig::new(&native::PROTOCOL)
        },
        host: model::HostSnapshot::default(),
        workers: 2,
        secret: [1; 32],
        clock_id: String::new(),
        process_ports: Vec::new(),
    }
}

/// The same with what `choose` changes.
pub(crate) fn server_with(choose: impl FnOnce(&mut ServerConfig)) -> ServerPlan {
    let mut plan = server_plan();
    choose(&mut plan.config);
    plan
}

pub(crate) fn client_plan(phase: &Phase) -> ClientPlan {
    ClientPlan {
        config: ClientConfig {
            peers: vec![Peer::new("server", address(1))],
            run: Uuid::from_u128(1),
            version: "1.1".into(),
            options: foreign(),
            ..ClientConfig::new(&native::PROTOCOL)
        },
        phase: phase.clone(),
        workers: 2,
        secret: [2; 32],
        clock_id: String::new(),
        same_host: None,
    }
}

/// The same as run number `n` + 1, with a record of every connection.
pub(crate) fn recorded(mut plan: ClientPlan, n: usize) -> ClientPlan {
    (plan.config.run, plan.config.records) = (Uuid::from_u128(n as u128 + 1), true);
    plan
}

/// Options of a client that asks servers to end: those that also answer `only`.
pub(crate) fn stopping(only: Option<&str>) -> ProtocolOptions {
    ProtocolOptions::new(StopServers { only: only.map(str::to_owned) })
}

pub(crate) fn psk(text: &str) -> Keyring {
    Keyring::of(Psk::new(text.as_bytes()).ok())
}

/// A phase that is quick to simulate: four connections, three seconds, over links of 2 Mbit/s each.
pub(crate) fn small() -> Phase {
    Phase {
        connections: 4,
        transfer: 1 << 40,
        duration_ns: Some(3 * SECOND),
        buffer: Range::just(16 * 1024),
        ..Phase::default()
    }
}

/// Connections that are opened once, and kept for so long after the last has moved its bytes.
pub(crate) fn held(hold_ns: u64) -> Phase {
    Phase {
        kind: Kind::Connect,
        transfer: 64,
        iterations: Some(1),
        hold_ns: Some(hold_ns),
        duration_ns: None,
        ..small()
    }
}

pub(crate) fn network(seed: u64) -> Network {
    let mut net = Network::new(seed);
    // A fifth of a second of it may be under way.
    let link = Link::new().delay(MS).rate(2_000_000).window(50_000);
    net.links(link.clone(), link);
    net
}

pub(crate) fn serve(net: &mut Network, plan: ServerPlan) -> Host {
    let (workers, now) = (plan.threads(), net.now);
    net.serve(address(1), workers, Box::new(Server::new(plan, now)))
}

/// What a client's run against a server comes to, each with its plan.
pub(crate) fn outcome(net: &mut Network, server: ServerPlan, client: ClientPlan) -> Told {
    serve(net, server);
    let client = join(net, 0, client);
    net.run();
    told(net, client)
}

/// Client number `n`.
pub(crate) fn join(net: &mut Network, n: u32, mut plan: ClientPlan) -> Host {
    plan.config.run = Uuid::from_u128(u128::from(n) + 1);
    plan.secret = [n as u8; 32];
    let (workers, now) = (plan.workers, net.now);
    net.join(client_ip(n), workers, Box::new(Client::new(plan, now)))
}

/// A server of a protocol without a conversation, which answers with these.
pub(crate) fn serve_with(
    net: &mut Network,
    workers: u16,
    phase: Phase,
    acceptors: Vec<Box<dyn Acceptor>>,
    records: bool,
) -> Host {
    let plan = OneSidedPlan {
        protocol: "legacy",
        phase,
        sources: LinkSource::acceptors(acceptors),
        serving: true,
        servers: Arc::default(),
        records,
        counts: EndCounts::OWN,
    };
    let now = net.now;
    net.serve(address(1), workers, Box::new(OneSided::new(plan, now)))
}

/// Client number `n` of such a server.
pub(crate) fn call_with(
    net: &mut Network,
    n: u32,
    workers: u16,
    phase: &Phase,
    connectors: Vec<Box<dyn Connector>>,
    records: bool,
) -> Host {
    let sources = LinkSource::connectors(connectors);
    let (protocol, counts) = ("legacy", EndCounts::OWN);
    let (phase, serving, servers) = (phase.clone(), false, Arc::default());
    let plan = OneSidedPlan { protocol, phase, sources, serving, servers, records, counts };
    let now = net.now;
    net.join(client_ip(n), workers, Box::new(OneSided::new(plan, now)))
}

/// What a client's run came to.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) sessions: Vec<SessionInfo>,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) local: Option<Totals>,
    pub(crate) remote: Vec<Totals>,
    pub(crate) notices: Vec<String>,
    pub(crate) end: Option<(Mono, Status, Option<String>)>,
}

pub(crate) fn told(net: &Network, host: Host) -> Told {
    let mut told = Told::default();
    for (at, event) in net.events(host) {
        match event {
            Event::Session(info) => told.sessions.push((**info).clone()),
            Event::Interval(interval) => told.intervals.push((**interval).clone()),
            Event::Local(totals) => told.local = Some((**totals).clone()),
            Event::Remote(totals) => told.remote.push((**totals).clone()),
            Event::Notice { text, .. } => told.notices.push(text.clone()),
            Event::PhaseEnd { status, reason } => {
                assert!(told.end.is_none(), "a phase ends once");
                told.end = Some((*at, *status, reason.clone()));
            }
            _ => {}
        }
    }
    told
}

/// The `Portion` events of a host.
pub(crate) fn portions(net: &Network, host: Host) -> Vec<Portion> {
    let portion = |(_, event): &(Mono, Event)| match event {
        Event::Portion(portion) => Some(**portion),
        _ => None,
    };
    net.events(host).iter().filter_map(portion).collect()
}

impl Told {
    pub(crate) fn status(&self) -> Status {
        self.end.as_ref().expect("the phase has not ended").1
    }

    pub(crate) fn reason(&self) -> &str {
        self.end.as_ref().and_then(|e| e.2.as_deref()).unwrap_or("")
    }

    pub(crate) fn local(&self) -> &Totals {
        self.local.as_ref().expect("no totals of our own")
    }

    /// Every interval once, in order, without gaps.
    pub(crate) fn assert_intervals(&self, remote: bool) {
        let indices: Vec<_> = self.intervals.iter().map(|interval| interval.index).collect();
        assert!(indices.iter().copied().eq(0..indices.len() as u32), "{indices:?}");
        for pair in self.intervals.windows(2) {
            assert_eq!(pair[1].start_ns, pair[0].end_ns, "interval {}", pair[1].index);
        }
        for Interval { index, remote: end, .. } in &self.intervals {
            assert!(!remote || end.is_some(), "interval {index} has no remote end");
        }
    }
}
