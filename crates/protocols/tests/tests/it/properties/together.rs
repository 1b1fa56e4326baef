//! Several protocols on one machine, each with a server of its own in one process or several: who
//! asks one of them never costs who asks another.

use super::native::{self, Leaves, served};
use super::{Bounds, PATTERNS, bounded, bulk, forgotten, one_of};
use crate::support::run::{MS, client_ip, client_plan, recorded, server_plan, told};
use crate::{iperf3, ntttcp};
use ::iperf3::BulkTerms;
use ::native::{Client, ClientPlan, ServerPlan};
use ::ntttcp::Layout;
use ::udpmon::{PacketTest, PacketTestSettings};
use common::Peer;
use common::one_sided::{Answers, Calls, KEEPALIVE, OneSided, OneSidedPlan, OneSidedProtocol};
use metrics::{Mono, SECOND};
use model::{
    EndCounts, Event, Kind, Pattern, Phase, Ping, Range, Schedule, SocketSettings, StampSettings, Status,
    Transport, Verify,
};
use sim::{Host, Link, Network, Quirks, START, Say};
use stamp::Sizes as _;
use std::net::{IpAddr, SocketAddr};
use transport::{Defect, LinkSource, Rng, Session};

const MACHINE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
/// After so long the last of the servers has forgotten a peer that vanished: a reflector of STAMP
/// keeps its sessions for 900 s.
const FORGOTTEN: u64 = 930 * SECOND;
/// How much slower than usual the machine is.
const SLOWNESS: u64 = 20;

/// What a client asks for, and of which server.
#[derive(Clone, Debug)]
enum Asks {
    Native(Phase),
    Iperf3(Box<BulkTerms>),
    /// A receiver of NTttcp has one test: each sender has its own.
    Ntttcp(Layout),
    /// Protocols without a conversation. Of ttcp each client has its own server, which takes one
    /// connection at a time.
    OneSided(&'static OneSidedProtocol, Phase),
}

impl Asks {
    /// It asks for the protocol of this name, which has no conversation.
    fn is(&self, name: &str) -> bool {
        matches!(self, Asks::OneSided(protocol, _) if protocol.info.name == name)
    }
}

#[derive(Debug)]
struct Handshake {
    asks: Asks,
    workers: u16,
    arrives: u64,
    leaves: Leaves,
    server: usize,
    client: Option<Host>,
}

struct Service {
    host: Host,
    threads: u16,
    /// Links and clients that it may have.
    links: usize,
    clients: usize,
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(MACHINE, port)
}

fn stamp() -> Phase {
    let settings = StampSettings::default();
    let ping = Ping {
        size: settings.size(),
        stamp: Some(settings),
        timeout_ns: SECOND / 2,
        ..messages(Transport::Udp)
    };
    Phase { kind: Kind::Ping, ping: Some(ping), ..brief() }
}

fn messages(transport: Transport) -> Ping {
    let schedule = Schedule::Fixed { gap_ns: 10 * MS };
    Ping { transport, schedule, messages: Some(100), timeout_ns: SECOND, ..Ping::default() }
}

fn brief() -> Phase {
    Phase {
        connections: 1,
        iterations: Some(1),
        duration_ns: None,
        interval_ns: SECOND / 2,
        ..Phase::default()
    }
}

fn udpmon() -> Phase {
    let asked = PacketTestSettings {
        size: 200,
        packets: 300,
        waits: vec![20_000, 10_000],
        ..PacketTestSettings::default()
    };
    Phase { kind: Kind::Train, extra: asked.extra(), ..brief() }
}

/// What a server of ctsTraffic expects of all its clients.
fn ctstraffic(rng: &mut Rng) -> Phase {
    let (transfer, pattern) = (rng.between(1, 60_000), one_of(rng, &PATTERNS));
    Phase { iterations: Some(3), transfer, pattern, buffer: Range::just(8_192), ..brief() }
}

fn ttcp(rng: &mut Rng) -> Phase {
    let transfer = 8_192 * rng.between(1, 40);
    Phase { transfer, verify: Verify::Connection, buffer: Range::just(8_192), ..brief() }
}

fn bulk_terms(rng: &mut Rng) -> BulkTerms {
    let (reverse, bidir) = one_of(rng, &[(false, false), (true, false), (false, true)]);
    let streams = rng.between(1, 4) as u32;
    let terms = BulkTerms { time_s: 1, block: 8_000, reverse, bidir, streams, ..BulkTerms::usual() };
    match rng.between(0, 2) {
        0 => BulkTerms { udp: true, block: 500, rate: 400_000, wide: true, ..terms },
        _ => terms,
    }
}

/// A session of a protocol without a conversation.
fn solo(
    protocol: &'static OneSidedProtocol,
    phase: &Phase,
    to: Option<SocketAddr>,
    workers: u16,
    now: Mono,
) -> Box<dyn Session> {
    let (phase, sources) = match to {
        Some(to) => {
            let calls = Calls { servers: common::Servers::at([to]), workers, ..Calls::default() };
            (phase.clone(), LinkSource::connectors((protocol.connectors)(phase, &calls)))
        }
        // A server has no end of its own, and its intervals are not checked.
        None => {
            let answers = Answers { workers, ..Answers::default() };
            let acceptors = (protocol.acceptors)(phase, &answers);
            let sockets = SocketSettings { keepalive_ns: Some(KEEPALIVE), ..phase.sockets.clone() };
            let phase = Phase { iterations: None, interval_ns: 100 * SECOND, sockets, ..phase.clone() };
            (phase, LinkSource::acceptors(acceptors))
        }
    };
    let (protocol, serving, counts) = (protocol.info.name, to.is_none(), EndCounts::OWN);
    let (records, servers) = (true, Default::default());
    let plan = OneSidedPlan { protocol, phase, sources, serving, servers, records, counts };
    Box::new(OneSided::new(plan, now))
}

/// A scenario as it is simulated.
struct Scenario {
    net: Network,
    services: Vec<Service>,
    guests: Vec<Handshake>,
    /// Neither the path nor a full socket loses datagrams.
    clean: bool,
}

impl Scenario {
    fn serve(&mut self, port: u16, threads: u16, session: Box<dyn Session>) -> usize {
        let host = self.net.serve(at(port), threads, session);
        self.services.push(Service { host, threads, links: 0, clients: 0 });
        self.services.len() - 1
    }

    fn guest(&mut self, rng: &mut Rng, server: usize, links: u32, asks: Asks) {
        let workers = if let Asks::OneSided(..) = asks { 1 } else { one_of(rng, &[1, 2]) };
        let arrives = rng.between(0, SECOND);
        // A server with one client ends with it.
        let own = matches!(asks, Asks::Ntttcp(_)) || asks.is("ttcp");
        let leaves = if own { Leaves::InTime } else { Leaves::draw(rng) };
        self.services[server].links += 2 * links as usize + 2;
        self.services[server].clients += 1;
        self.guests.push(Handshake { asks, workers, arrives, leaves, server, client: None });
    }

    fn draw(seed: u64, defect: Option<Defect>) -> Self {
        let mut rng = Rng::new(seed);
        let mut net = Network::new(seed);
        let loss = one_of(&mut rng, &[0.0, 0.0, 0.01]);
        let delay = one_of(&mut rng, &[50_000, MS, 5 * MS]);
        let link = Link::new().delay(delay).rate(one_of(&mut rng, &[2_000_000, 5_000_000])).loss(loss);
        net.links(link.clone(), link);
        net.plant(defect);
        let mut it = Scenario { net, services: Vec::new(), guests: Vec::new(), clean: loss == 0.0 };
        let rng = &mut rng;
        let plan = ServerPlan { workers: rng.between(1, 4) as u16, ..server_plan() };
        let threads = plan.threads();
        let host = native::serve(&mut it.net, plan);
        it.services.push(Service { host, threads, links: 0, clients: 0 });
        let native = 0;
        for _ in 0..rng.between(1, 3) {
            let connections = rng.between(1, 8) as u32;
            let phase = bulk(one_of(rng, &PATTERNS), connections);
            it.guest(rng, native, connections, Asks::Native(phase));
        }
        let session = ::iperf3::Server::new(iperf3::server_plan(), START);
        let iperf = it.serve(5201, 2, Box::new(session));
        // Streams are numbered as they are accepted: one worker does that.
        it.net.listening(it.services[iperf].host, 0..1, 0..2);
        for _ in 0..rng.between(1, 3) {
            let terms = bulk_terms(rng);
            it.guest(rng, iperf, terms.all_streams(), Asks::Iperf3(Box::new(terms)));
        }
        let cts = ctstraffic(rng);
        for (protocol, phase, connections) in [
            (&ctstraffic::PROTOCOL, cts, rng.between(1, 4) as u32),
            (&udpmon::PROTOCOL, udpmon(), 1),
            (&stamp::PROTOCOL, stamp(), 1),
            (&echo::PROTOCOL, Phase { kind: Kind::Ping, ping: Some(messages(Transport::Tcp)), ..brief() }, 2),
            (&echo::PROTOCOL, Phase { kind: Kind::Ping, ping: Some(messages(Transport::Udp)), ..brief() }, 1),
        ] {
            let port = protocol.info.port + it.services.len() as u16;
            let workers = rng.between(1, 3) as u16;
            let server = it.serve(port, workers, solo(protocol, &phase, None, workers, START));
            for _ in 0..rng.between(1, 3) {
                let phase = Phase { connections, ..phase.clone() };
                it.guest(rng, server, connections, Asks::OneSided(protocol, phase));
            }
        }
        let phase = ttcp(rng);
        let server = it.serve(2000, 1, solo(&ttcp::PROTOCOL, &phase, None, 1, START));
        it.guest(rng, server, 1, Asks::OneSided(&ttcp::PROTOCOL, phase));
        let layout =
            Layout { port: 6001, ports: 2, threads: 1, connections: 2, seconds: 1, ..Layout::default() };
        let server = it.serve(6000, 2, Box::new(ntttcp::receiver(layout, START)));
        it.net.ports(it.services[server].host, 1 + layout.ports);
        it.guest(rng, server, layout.all(), Asks::Ntttcp(layout));
        // Bytes of no protocol, which only servers of protocols that tell by them are sent.
        for (n, service) in [native, iperf].into_iter().enumerate() {
            let bytes = (0..rng.between(0, 100)).map(|_| rng.next() as u8).collect();
            let (comes, goes) = (rng.between(0, SECOND), rng.between(0, 2) * SECOND);
            it.services[service].links += 1;
            let script = vec![(comes, Say::Bytes(bytes)), (comes + goes, Say::Reset)];
            it.net.raw(client_ip(500 + n as u32), at([7411, 5201][n]), script);
        }
        let quirks = if rng.between(0, 3) == 0 { Quirks::rough() } else { Quirks::default() };
        it.clean &= quirks.would_block == 0.0;
        it.net.quirks(it.services[native].host, Quirks { slowness: SLOWNESS, ..quirks });
        it
    }

    /// A client's session.
    fn session(&self, n: usize) -> Box<dyn Session> {
        let (guest, now) = (&self.guests[n], self.net.now);
        let workers = guest.workers;
        match &guest.asks {
            Asks::Native(phase) => {
                let mut plan =
                    recorded(ClientPlan { workers, secret: [n as u8; 32], ..client_plan(phase) }, n);
                plan.config.peers = vec![Peer::new("server", at(7411))];
                Box::new(Client::new(plan, now))
            }
            Asks::Iperf3(terms) => {
                let server = Peer::new("server", at(5201));
                let plan = ::iperf3::ClientPlan { server, workers, ..iperf3::client_plan((**terms).clone()) };
                Box::new(::iperf3::Client::new(plan, now))
            }
            Asks::Ntttcp(layout) => Box::new(ntttcp::sender(*layout, vec![MACHINE], workers, now)),
            Asks::OneSided(protocol, phase) => {
                let port =
                    if guest.asks.is("ttcp") { 2000 } else { protocol.info.port + guest.server as u16 };
                solo(protocol, phase, Some(at(port)), workers, now)
            }
        }
    }

    /// Until all have left and are forgotten, or should be.
    fn run(&mut self) {
        let mut order: Vec<usize> = (0..self.guests.len()).collect();
        order.sort_by_key(|&n| self.guests[n].arrives);
        for n in order {
            self.net.run_until(START.plus(self.guests[n].arrives));
            let session = self.session(n);
            let Handshake { workers, leaves, .. } = self.guests[n];
            let client = self.net.join(client_ip(n as u32), workers, session);
            leaves.arrange(&mut self.net, client);
            self.guests[n].client = Some(client);
        }
        let over = |it: &Scenario| {
            let mut ending =
                it.guests.iter().filter(|guest| guest.leaves.ends()).filter_map(|guest| guest.client);
            ending.all(|client| it.net.done(client).is_some())
                && it.services.iter().all(|service| left(&it.net, service).is_ok())
        };
        let limit = START.plus(FORGOTTEN);
        while self.net.now < limit && !over(self) {
            let early = self.net.now < START.plus(20 * SECOND);
            self.net.run_until(self.net.now.plus(if early { SECOND } else { 100 * SECOND }));
        }
    }

    fn violation(&self) -> Result<(), String> {
        for guest in &self.guests {
            let Some(client) = guest.client else { continue };
            let of = |why: String| {
                let it = told(&self.net, client);
                format!("{why}: {guest:?}: {:?} {}", it.end, it.notices.join("; "))
            };
            if guest.leaves == Leaves::InTime {
                self.served(guest, client).map_err(of)?;
            }
            if guest.leaves.ends() && self.net.done(client).is_none() {
                return Err(of("it does not end".to_owned()));
            }
            let threads = 1 + usize::from(guest.workers);
            bounded(&self.net, client, &Bounds { links: 64, peers: 1, threads, slowness: 1 }).map_err(of)?;
        }
        for (n, service) in self.services.iter().enumerate() {
            let of = |why| format!("at server {n}: {why}");
            left(&self.net, service).map_err(of)?;
            let Service { host, threads, links, clients } = *service;
            let threads = 1 + usize::from(threads);
            bounded(&self.net, host, &Bounds { links, peers: clients, threads, slowness: SLOWNESS })
                .map_err(of)?;
            if let Some(peer) = self.net.amplified(host) {
                return Err(of(format!("it answered more than it got: {peer}")));
            }
        }
        Ok(())
    }

    /// Whether a client that stayed to the end was served as it may expect.
    fn served(&self, guest: &Handshake, client: Host) -> Result<(), String> {
        let it = told(&self.net, client);
        let Some(done) = self.net.done(client) else { return Err("it does not end".to_owned()) };
        if let Asks::Native(phase) = &guest.asks {
            let late = if self.clean { 0 } else { 2 * SECOND };
            return served(phase, guest.arrives + late, &it, Some(done));
        }
        let local = it.local.as_ref().filter(|_| it.end.is_some()).ok_or("no result")?;
        // UDPmon repeats what was lost after 3 s, as the original does.
        let longest = if guest.asks.is("udpmon") { 60 } else { 12 };
        if done > START.plus(guest.arrives + longest * SECOND) {
            return Err("it takes too long".to_owned());
        }
        if it.status() != Status::Complete {
            return Err("not complete".to_owned());
        }
        if local.errors() != 0 {
            return Err(format!("an error that the network did not make: {:?}", local.causes));
        }
        match &guest.asks {
            Asks::Native(_) => Ok(()),
            Asks::Iperf3(terms) => self.bulk(terms, client),
            Asks::Ntttcp(layout) => {
                let there = told(&self.net, self.services[guest.server].host);
                let remote = there.local.as_ref().ok_or("no result of the receiver")?;
                let (sent, got) = (local.traffic.tx_bytes, remote.traffic.rx_bytes);
                // What is under way when the time is up counts at the sender only.
                let under_way = u64::from(layout.all()) * 600_000;
                let agree = got > 0 && got <= sent && sent - got <= under_way;
                let opened = local.opened == u64::from(layout.all()) && remote.opened == local.opened;
                let what = || format!("{sent} sent, {got} received; {} opened", remote.opened);
                if agree && opened { Ok(()) } else { Err(what()) }
            }
            Asks::OneSided(protocol, phase) => self.answered(guest, protocol, phase, client),
        }
    }

    fn bulk(&self, terms: &BulkTerms, client: Host) -> Result<(), String> {
        let ended = iperf3::ended(&self.net, client);
        let [ended] = ended.as_slice() else { return Err(format!("it has ended {} times", ended.len())) };
        let streams = terms.all_streams() as usize;
        if (ended.local.len(), ended.remote.len(), &ended.error) != (streams, streams, &None) {
            return Err(format!("{ended:?}"));
        }
        for (local, remote) in ended.local.iter().zip(&ended.remote) {
            let (sent, got) =
                if local.sender { (local.bytes, remote.bytes) } else { (remote.bytes, local.bytes) };
            let lost = if local.sender { remote.lost } else { local.lost };
            let lossless = sent - got.min(sent) <= 600_000 && (lost == 0 || !self.clean);
            if local.slot != remote.slot || got == 0 || got > sent || !lossless {
                return Err(format!("{sent} sent, {got} received, {lost} lost: {local:?} {remote:?}"));
            }
        }
        Ok(())
    }

    fn answered(
        &self,
        guest: &Handshake,
        protocol: &'static OneSidedProtocol,
        phase: &Phase,
        client: Host,
    ) -> Result<(), String> {
        let it = told(&self.net, client);
        let local = it.local();
        let each = u64::from(phase.connections) * phase.iterations.unwrap_or(1);
        let whole = |ok: bool| if ok { Ok(()) } else { Err(format!("{local:?}")) };
        let there = self.services[guest.server].host;
        match protocol.info.name {
            "ctstraffic" => {
                let sum = local.traffic.tx_bytes + local.traffic.rx_bytes;
                let odd =
                    phase.transfer + u64::from(phase.pattern == Pattern::Duplex && phase.transfer % 2 == 1);
                whole((local.completed, sum) == (each, each * odd))
            }
            "ttcp" => {
                let portion = |(_, event): &(Mono, Event)| match event {
                    Event::Portion(it) => Some((it.tx_bytes, it.rx_bytes)),
                    _ => None,
                };
                let sent: u64 = self.net.events(client).iter().filter_map(portion).map(|it| it.0).sum();
                let got: u64 = self.net.events(there).iter().filter_map(portion).map(|it| it.1).sum();
                let all = (sent, got) == (phase.transfer, phase.transfer);
                if all { Ok(()) } else { Err(format!("{sent} sent, {got} received")) }
            }
            "udpmon" => {
                let events = self.net.events(client).iter();
                let tests: Vec<_> = events.filter_map(|(_, event)| PacketTest::from_event(event)).collect();
                // Of the last that are lost the receiver knows nothing.
                let good = |test: &PacketTest| {
                    test.sent == 300
                        && test.counts.is_some_and(|counts| {
                            let known = counts.received + counts.lost;
                            (290..=300).contains(&known) && (counts.received == 300 || !self.clean)
                        })
                };
                if tests.len() == 2 && tests.iter().all(good) { Ok(()) } else { Err(format!("{tests:?}")) }
            }
            _ => {
                let Some(pings) = &local.pings else { return Err("no round trips".to_owned()) };
                let counts = pings.counts;
                let all = 100 * u64::from(phase.connections);
                let lossless = counts.lost == 0 || !self.clean;
                let came = counts.received.checked_add_signed(counts.lost);
                whole((counts.sent, came) == (all, Some(all)) && lossless)
            }
        }
    }
}

/// Whether a server has forgotten its clients. Those without a conversation keep the group in which
/// they count.
fn left(net: &Network, service: &Service) -> Result<(), String> {
    forgotten(net, service.host, 1, service.threads)
}

/// Where a server of a protocol without a conversation counts other bytes than its clients, all of
/// whom stayed to the end.
fn disagreement(scenario: &Scenario) -> Option<String> {
    let Scenario { net, services, guests, clean } = scenario;
    for (n, service) in services.iter().enumerate() {
        let ours: Vec<&Handshake> = guests.iter().filter(|guest| guest.server == n).collect();
        let Some(Asks::OneSided(protocol, phase)) = ours.first().map(|guest| &guest.asks) else { continue };
        let datagrams =
            phase.kind == Kind::Train || phase.ping.is_some_and(|it| it.transport == Transport::Udp);
        if ours.iter().any(|guest| guest.leaves != Leaves::InTime) || (datagrams && !clean) {
            continue;
        }
        let traffic = |host| told(net, host).local.map(|local| local.traffic);
        let theirs = ours.iter().filter_map(|guest| traffic(guest.client?));
        let sums = theirs.fold((0, 0), |(tx, rx), of| (tx + of.tx_bytes, rx + of.rx_bytes));
        let there = traffic(service.host).map(|of| (of.rx_bytes, of.tx_bytes));
        if there != Some(sums) {
            return Some(format!("{protocol:?}: clients sent and received {sums:?}, their server {there:?}"));
        }
    }
    None
}

/// A number that depends on all calls to the platform.
pub(super) fn trace(seed: u64) -> u64 {
    let mut scenario = Scenario::draw(seed, None);
    scenario.run();
    scenario.net.trace()
}

pub(super) fn check(seed: u64, defect: Option<Defect>) -> Result<(), String> {
    let mut scenario = Scenario::draw(seed, defect);
    scenario.run();
    scenario.violation()?;
    // The servers' own counts are told when they end.
    let now = scenario.net.now;
    for service in &scenario.services {
        scenario.net.stop_at(service.host, now);
    }
    scenario.net.run_until(now.plus(5 * SECOND));
    let ended = |service: &Service| scenario.net.done(service.host).is_some();
    if let Some(n) = scenario.services.iter().position(|service| !ended(service)) {
        return Err(format!("server {n} does not end"));
    }
    disagreement(&scenario).map_or(Ok(()), Err)
}
