//! One cell: a client, its servers and the trouble between them, in virtual time.

use super::table::{LENGTH, Limit, Nature, Spoken, Trouble, UNLIMITED, Verb};
use crate::support::host::{RANDOM, host};
use crate::support::run::{MS, client_ip};
use common::protocol::{Calling, Serving, Started};
use common::{ClientConfig, Limits, Peer, ProtocolOptions, ServerConfig};
use metrics::{Mono, SECOND};
use model::{Begin, Builder, Event, Outcome, Phase, Point, SocketSettings};
use ntttcp::Layout;
use sim::{At, Cut, Fate, Link, Network, Quirks, START, Say};
use std::net::{IpAddr, SocketAddr};
use uuid::Uuid;

/// Largest packet of the narrow path, bytes.
pub(super) const NARROW: usize = 1_280;
/// Delay each way, ns.
const NEAR: u64 = 5 * MS;
const FAR: u64 = 300 * MS;
/// Bytes of a connection under way at most.
pub(super) const WINDOW: usize = 300_000;
/// Rate of each connection on the path, bits/s.
pub(super) const RATE: u64 = 3_000_000;
/// After so long every run must be over.
const PATIENCE: u64 = 60 * SECOND;
/// In the middle of every run: datagrams begin half a second after the agreement.
const MIDDLE: u64 = 800 * MS;
/// Half a second before the end of every run.
const LATE: u64 = LENGTH - SECOND / 2;
/// Longest time from an event to a late thread of a server, ns: several datagrams.
const WAKES: u64 = 60 * MS;

/// A cell of the matrix.
#[derive(Clone)]
pub(super) struct Cell {
    pub(super) protocol: Spoken,
    pub(super) verb: &'static Verb,
    pub(super) way: &'static str,
    pub(super) phase: Phase,
    pub(super) trouble: Trouble,
    pub(super) limits: Limit,
}

/// What came of it.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// What each server counted itself; none of a mute one.
    pub(super) servers: Vec<Outcome>,
    /// When the client was done, ns since it began.
    pub(super) took: Option<u64>,
    /// What became of the datagrams to the servers and back.
    pub(super) fates: [Fate; 2],
}

impl Ran {
    pub(super) fn point(&self) -> &Point {
        &self.outcome.points[0]
    }
}

impl Cell {
    pub(super) fn name(&self) -> String {
        let Cell { protocol, verb, way, trouble, limits, .. } = self;
        let limits = if self.is_limited() { limits.0 } else { "" };
        format!("{protocol} {} {way} {trouble:?} {limits}", verb.name)
    }

    /// Whether its servers limit their clients.
    pub(super) fn is_limited(&self) -> bool {
        self.limits.0 != UNLIMITED
    }

    /// Names of the servers, of which one may be mute.
    fn servers(&self) -> Vec<(SocketAddr, bool)> {
        let at = |n: u8| SocketAddr::from(([10, 0, 0, n], self.protocol.port()));
        match self.trouble {
            Trouble::Mute => vec![(at(1), true)],
            Trouble::Two => vec![(at(1), false), (at(2), false)],
            Trouble::Half => vec![(at(1), false), (at(2), true)],
            _ => vec![(at(1), false)],
        }
    }

    /// Streams and datagrams, there and back.
    fn links(&self) -> [(Link, Link); 2] {
        let delay = if self.trouble == Trouble::Far { FAR } else { NEAR };
        // A round trip of 600 ms at the rate is under way at most.
        let link = Link::new().delay(delay).window(WINDOW);
        let link = match self.trouble {
            Trouble::Narrow => link.mtu(NARROW),
            Trouble::Damaged => link.corrupt(0.02),
            Trouble::Spoilt => link.damage(0.05),
            _ => link,
        };
        let streams = link.clone().rate(RATE);
        let datagrams = if self.verb.name == "delay --search" { streams.clone().queue(20_000) } else { link };
        [(streams.clone(), streams), (datagrams.clone(), datagrams)]
    }

    /// What passes of a connection before the path drops the rest, there and back, bytes: our own
    /// preamble, the cookie of iperf3, the identifier of ctsTraffic.
    fn handshake(&self) -> u64 {
        match self.protocol.name() {
            "native" => 80,
            "iperf3" | "ctstraffic" => 37,
            _ => 0,
        }
    }

    /// Runs it.
    pub(super) fn run(&self) -> Ran {
        RANDOM.set(1);
        let mut net = Network::new(7);
        let [streams, datagrams] = self.links();
        net.links(streams.0.clone(), streams.1.clone());
        let behind = self.trouble == Trouble::Behind;
        let talks = matches!(self.protocol.name(), "native" | "iperf3");
        let cut = |link: &Link, at| link.clone().cut(at, Cut::Silence);
        let datagrams = match behind {
            // The conversation and the clocks' comparison are over before the datagrams that
            // measure.
            true if talks => {
                (cut(&datagrams.0, At::Time(self.lead())), cut(&datagrams.1, At::Time(self.lead())))
            }
            true => (cut(&datagrams.0, At::Byte(0)), cut(&datagrams.1, At::Byte(0))),
            false => datagrams,
        };
        net.datagram_links(datagrams.0, datagrams.1);
        let servers = self.servers();
        let mut hosts = Vec::new();
        for (at, mute) in &servers {
            match mute {
                true => net.mute(*at).unwrap(),
                false => hosts.push(self.serve(&mut net, *at)),
            }
        }
        if self.trouble == Trouble::Late {
            hosts.iter().for_each(|host| net.quirks(*host, Quirks { wakes: WAKES, ..Quirks::default() }));
        }
        if behind && !talks {
            cut_behind(&mut net, &streams, self.handshake());
        }
        let client = self.call(&mut net);
        if behind && talks {
            // The first connection is the conversation's.
            net.run_until(START.plus(NEAR));
            cut_behind(&mut net, &streams, self.handshake());
        }
        if self.trouble == Trouble::Dies {
            net.kill_at(hosts[0], START.plus(MIDDLE));
        }
        if self.trouble == Trouble::Silent {
            net.unplug_at(hosts[0], START.plus(LATE));
        }
        net.run_until(START.plus(PATIENCE));
        let took = net.done(client).map(|at| at.since(START));
        // What is still under way to the servers arrives, and they end.
        let now = net.now;
        hosts.iter().for_each(|&host| net.stop_at(host, now));
        net.run_until(now.plus(20 * SECOND));
        let (ours, there) = (client_ip(0), servers.iter().map(|(at, _)| at.ip()));
        let fate =
            |of: &dyn Fn(IpAddr) -> Fate| there.clone().fold(Fate::default(), |sum, ip| sum.and(of(ip)));
        let fates = [fate(&|ip| net.fate(ours, ip)), fate(&|ip| net.fate(ip, ours))];
        let served = |host: &sim::Host| outcome(self, "serve", net.events(*host));
        Ran {
            outcome: outcome(self, self.phase.kind.name(), net.events(client)),
            servers: hosts.iter().map(served).collect(),
            took,
            fates,
        }
    }

    /// Runs it beside so many peers of three addresses that connect to the server and say nothing
    /// or little: the outcome, the connections that the server keeps of those peers, and those that
    /// are left when their time is over.
    pub(super) fn run_beside(&self, (silent, says): (u32, &[u8]), places: usize) -> (Outcome, usize, usize) {
        RANDOM.set(1);
        let mut net = Network::new(7);
        let [streams, datagrams] = self.links();
        net.links(streams.0, streams.1);
        net.datagram_links(datagrams.0, datagrams.1);
        let (at, _) = self.servers()[0];
        let server = self.serve(&mut net, at);
        net.quirks(server, Quirks { places, ..Quirks::default() });
        net.run_until(START.plus(MS));
        for n in 0..silent {
            let script = if says.is_empty() { Vec::new() } else { vec![(0, Say::Bytes(says.to_vec()))] };
            net.raw(client_ip(10 + n % 3), at, script);
        }
        net.run_until(net.now.plus(SECOND));
        let open = |net: &Network| net.open(server).0 + net.open(server).1;
        let held = open(&net);
        let client = self.call(&mut net);
        net.run_until(net.now.plus(15 * SECOND));
        let left = open(&net);
        (outcome(self, self.phase.kind.name(), net.events(client)), held, left)
    }

    /// Runs it against a server of whose every connection and flow the client gets so many bytes
    /// and no more: when the client is done, ns since it began.
    pub(super) fn silent_after(&self, bytes: u64) -> Option<u64> {
        RANDOM.set(1);
        let mut net = Network::new(7);
        let link = || Link::new().delay(NEAR).rate(RATE).window(300_000);
        let back = || link().cut(At::Byte(bytes), Cut::Silence);
        net.links(link(), back());
        net.datagram_links(link(), back());
        self.serve(&mut net, self.servers()[0].0);
        let client = self.call(&mut net);
        net.run_until(START.plus(PATIENCE));
        net.done(client).map(|at| at.since(START))
    }

    /// Runs it with a client of whose every connection and flow the server gets so many bytes and
    /// no more: the connections that the server still has at this time, ns since the beginning.
    pub(super) fn left_of_a_client(&self, bytes: u64, at: u64) -> usize {
        RANDOM.set(1);
        let mut net = Network::new(7);
        let link = || Link::new().delay(NEAR).rate(RATE).window(300_000);
        let there = || link().cut(At::Byte(bytes), Cut::Silence);
        net.links(there(), link());
        net.datagram_links(there(), link());
        let server = self.serve_with(&mut net, self.servers()[0].0, true);
        let client = self.call(&mut net);
        // Its host is gone in the middle, so that nothing of it is reset.
        net.unplug_at(client, START.plus(MIDDLE));
        net.run_until(START.plus(at));
        let (workers, control) = net.open(server);
        workers + control
    }

    /// When the datagrams of a run that is agreed on begin.
    fn lead(&self) -> Mono {
        // The answer to the proposal, and the clocks, take some round trips.
        let lead = match self.verb.nature {
            Nature::Trips => SECOND / 10,
            _ => SECOND / 2,
        };
        START.plus(lead + 40 * MS)
    }

    fn serve(&self, net: &mut Network, at: SocketAddr) -> sim::Host {
        self.serve_with(net, at, false)
    }

    /// A server, with the usual limit of its waits for data or with that of the client.
    fn serve_with(&self, net: &mut Network, at: SocketAddr, usual_waits: bool) -> sim::Host {
        let host = host(net.now);
        let own = self.protocol.name() == "native";
        let config = match own {
            true => ServerConfig::new(self.protocol),
            // What its user would have started it with: it ends with nobody's run.
            false => {
                let usual = self.protocol.info().legacy.as_ref().map(|legacy| (legacy.phase)());
                let settings = Phase { duration_ns: None, iterations: None, ..self.phase.clone() };
                let waits = usual.as_ref().filter(|_| usual_waits).map(|usual| usual.stall_ns);
                let settings = Phase { stall_ns: waits.unwrap_or(settings.stall_ns), ..settings };
                // Media streams end by themselves, and trains are the client's.
                let phase = match usual {
                    Some(usual) if usual.kind == settings.kind && settings.extra.is_some() => {
                        Phase { duration_ns: None, iterations: None, ..usual }
                    }
                    _ => settings,
                };
                ServerConfig::legacy(self.protocol, phase)
            }
        };
        let limits: Limits = (self.limits.1)(&self.phase);
        let config = ServerConfig {
            listen: vec![at],
            limits,
            interval_ns: self.phase.interval_ns,
            version: "1".into(),
            records: true,
            options: self.options(at),
            ..config
        };
        let config = ServerConfig { clients: config.clients(), ..config };
        let listening = self.protocol.listening(&config).unwrap();
        let workers = match self.protocol.info().workers {
            common::protocol::Workers::OneServing => 1,
            _ => 2,
        };
        let serving = Serving { config: &config, addresses: &[at], workers, host, process_ports: &[] };
        let Started { session, sets, .. } = self.protocol.server(&serving).unwrap();
        let machine = net.serve(at, workers * sets, session);
        let ports = listening.ports[0];
        let first = if listening.in_order { 0..1 } else { 0..workers };
        let last = workers * (sets - 1)..workers * sets;
        net.listening(
            machine,
            if ports.connections { first } else { 0..0 },
            if ports.datagrams { last } else { 0..0 },
        );
        net.sockets(machine, SocketSettings { gro: false, ..listening.sockets });
        net.limits(machine, config.clients);
        machine
    }

    /// Options of the server: of ntttcp, `-r -N -P 1` without a time, and `-u` for datagrams.
    fn options(&self, at: SocketAddr) -> ProtocolOptions {
        let (port, udp) = (at.port(), self.verb.datagrams);
        let layout = Layout { port, ports: 1, threads: 1, seconds: 0, sync: false, udp, ..Layout::default() };
        match self.protocol.name() {
            "ntttcp" => ProtocolOptions::new(layout),
            _ => ProtocolOptions::default(),
        }
    }

    /// The client, as its user configures it.
    fn config(&self) -> ClientConfig {
        let peer = |(at, _): (SocketAddr, bool)| Peer::new(at.to_string(), at);
        ClientConfig {
            peers: self.servers().into_iter().map(peer).collect(),
            run: Uuid::from_u128(1),
            version: "1".into(),
            records: true,
            ..ClientConfig::new(self.protocol)
        }
    }

    /// Whether the program runs it at all.
    pub(super) fn check(&self) -> Result<(), String> {
        self.phase.check()?;
        self.config().check_servers(&self.phase)
    }

    fn call(&self, net: &mut Network) -> sim::Host {
        let (host, config) = (host(net.now), self.config());
        let started = self.protocol.client(&Calling { config: &config, phase: &self.phase, host }).unwrap();
        let machine = net.join(client_ip(0), started.workers * started.sets, started.session);
        net.sockets(
            machine,
            SocketSettings {
                keepalive_ns: started.keepalive_ns,
                mss: started.mss,
                ..SocketSettings::default()
            },
        );
        machine
    }
}

/// Connections from now on are dropped behind so many bytes each way.
fn cut_behind(net: &mut Network, (up, down): &(Link, Link), bytes: u64) {
    let cut = |link: &Link| link.clone().cut(At::Byte(bytes), Cut::Silence);
    net.links(cut(up), cut(down));
}

/// What its events come to, as the program keeps it.
fn outcome(cell: &Cell, verb: &str, events: &[(Mono, Event)]) -> Outcome {
    let mut builder = Builder::default();
    builder.absorb(&Event::Begin(Box::new(Begin {
        verb: verb.to_owned(),
        protocol: cell.protocol.name().to_owned(),
        targets: cell.servers().iter().map(|(at, _)| at.to_string()).collect(),
        workers: 2,
        placement: "even".to_owned(),
        ..Begin::default()
    })));
    let phase = Box::new(cell.phase.clone());
    builder.absorb(&Event::Phase { label: Default::default(), repeat: 1, phase });
    for (_, event) in events {
        builder.absorb(event);
        if let Event::PhaseEnd { status, reason } = event {
            builder.absorb(&Event::End { status: *status, reason: reason.clone() });
        }
    }
    builder.outcome()
}
