//! UDPSTP: both ends in virtual time over paths of known capacity, hostile clients, and damaged
//! PDUs.

use crate::support::bench::{Bench, inputs, mutate};
use crate::support::run::{MS, Told, address, call_with, client_ip, serve_with, told};
use common::one_sided::{Answers, Calls};
use common::{Acl, Psk};
use metrics::{Mono, SECOND};
use model::{Pattern, Phase, Status as Ended};
use sim::{Host, Link, Network};
use std::net::SocketAddr;
use transport::{Acceptor, Arena, Context, Flow, FlowEvent, Path, Received, Rng, Transmit, When};
use udpstp::codec::{
    ACTIVATION, Activation, Deriver, Keys, LONG_STATUS, Load, Moment, Parameters, Row, SETUP, Seal, Setup,
    Status, Trial, activation_code, setup_code,
};
use udpstp::{News, Report, Settings, SubIntervalReport, acceptors, connectors, report_of};

/// A short test.
fn settings() -> Settings {
    Settings { test_s: 5, ..Settings::default() }
}

fn key(text: &str) -> Option<Psk> {
    Psk::new(format!("# keys\n0,{text}\n").as_bytes()).ok()
}

/// What a test of `phase` comes to over a link in its direction: the client's end, the server's,
/// and the reports of both.
struct Ran {
    client: Told,
    server: Told,
    reports: [Vec<Report>; 2],
    took: u64,
}

fn run(
    link: Link,
    phase: &Phase,
    (answers, server_settings, client_key): (Answers, Settings, Option<Psk>),
) -> Ran {
    let mut net = Network::new(11);
    net.datagram_links(link.clone(), link);
    let serving = server_settings.phase(Pattern::Push, 1);
    let answers = Answers { workers: 2, arrivals: true, ..answers };
    let acceptors = acceptors(&serving, &answers);
    let server = serve_with(&mut net, 2, serving, acceptors, true);
    let calls =
        Calls { servers: common::Servers::at([address(1)]), workers: 2, key: client_key, ..Calls::default() };
    let client = call_with(&mut net, 1, 2, phase, connectors(phase, &calls), true);
    let start = net.now;
    net.run_until(start.plus(30 * SECOND));
    let took = net.done(client).expect("the client is done").since(start);
    let now = net.now;
    net.stop_at(server, now);
    net.run_until(now.plus(10 * SECOND));
    assert_eq!(net.open(server), (0, 0));
    let of = |host: Host| net.events(host).iter().filter_map(|(_, event)| report_of(event)).collect();
    Ran { client: told(&net, client), server: told(&net, server), reports: [of(client), of(server)], took }
}

fn plain(link: Link, phase: &Phase) -> Ran {
    run(link, phase, (Answers::default(), Settings::of_server(), None))
}

impl Ran {
    fn sub_intervals(&self, end: usize) -> Vec<SubIntervalReport> {
        let of = |report: &Report| match &report.news {
            News::SubInterval(sub) => Some(*sub),
            _ => None,
        };
        self.reports[end].iter().filter_map(of).collect()
    }

    /// The best sub-interval over all connections, Mbit/s.
    fn capacity(&self) -> f64 {
        let all = self.sub_intervals(0);
        let sums =
            (1..=5).map(|n| all.iter().filter(|sub| sub.number == n).map(|sub| sub.mbps(0)).sum::<f64>());
        sums.fold(0.0, f64::max)
    }

    fn code(&self) -> u8 {
        let of = |report: &Report| match &report.news {
            News::End(end) => Some(end.code),
            _ => None,
        };
        self.reports[0].iter().find_map(of).unwrap()
    }
}

#[test]
fn a_path_of_known_capacity_is_measured_in_both_directions() {
    for pattern in [Pattern::Push, Pattern::Pull] {
        for connections in [1, 4] {
            // Each connection has a path of this rate.
            let link = Link::new().delay(5 * MS).rate(20_000_000).queue(60_000);
            let ran = plain(link, &settings().phase(pattern, connections));
            assert_eq!(ran.client.status(), Ended::Complete, "{pattern} {:?}", ran.client.end);
            let capacity = ran.capacity() / f64::from(connections);
            assert!((19.0..20.8).contains(&capacity), "{pattern} {connections}: {capacity}");
            let subs = ran.sub_intervals(0).len();
            assert_eq!(subs, 5 * connections as usize, "{pattern} {connections}");
            assert_eq!(ran.code(), 0);
            // Set-up, five seconds, half a second for the last report, and a few intervals.
            assert!((5 * SECOND..6 * SECOND).contains(&ran.took), "{}", ran.took);
            assert_eq!(ran.server.notices, [""; 0]);
        }
    }
}

#[test]
fn both_ends_agree_on_each_sub_interval() {
    for pattern in [Pattern::Push, Pattern::Pull] {
        let link = Link::new().delay(5 * MS).rate(5_000_000).loss(0.01);
        let ran = plain(link, &settings().phase(pattern, 1));
        let [ours, theirs] = [0, 1].map(|end| ran.sub_intervals(end));
        let counted = |subs: &[SubIntervalReport]| {
            subs.iter().map(|sub| (sub.number, sub.datagrams, sub.bytes, sub.lost)).collect::<Vec<_>>()
        };
        let n = ours.len().min(theirs.len());
        assert!(n >= 4, "{n}");
        assert_eq!(counted(&ours[..n]), counted(&theirs[..n]));
        assert!(ours.iter().any(|sub| sub.lost > 0));
        assert!(matches!(ours[0].round_trip_min_ms, Some(10 | 11)));
    }
}

#[test]
fn a_fixed_rate_is_kept() {
    let mut fixed = settings();
    fixed.test.row = Some(7);
    for pattern in [Pattern::Push, Pattern::Pull] {
        let ran = plain(Link::new().delay(MS), &fixed.phase(pattern, 1));
        let rates: Vec<f64> = ran.sub_intervals(0).iter().map(|sub| sub.mbps(0)).collect();
        assert!(rates[1..].iter().all(|mbps| (6.9..7.1).contains(mbps)), "{pattern} {rates:?}");
    }
}

#[test]
fn keys_are_proven_by_both_ends() {
    let phase = settings().phase(Pattern::Pull, 1);
    let with = |server: &str, client: Option<Psk>| {
        let answers = Answers { key: key(server), ..Answers::default() };
        run(Link::new().delay(MS).rate(2_000_000), &phase, (answers, Settings::of_server(), client))
    };
    let good = with("netcaliper-key", key("netcaliper-key"));
    assert_eq!((good.client.status(), good.code()), (Ended::Complete, 0));
    let wrong = with("netcaliper-key", key("another"));
    assert_eq!((wrong.client.status(), wrong.code()), (Ended::Failed, 107));
    let none = with("netcaliper-key", None);
    assert_eq!((none.client.status(), none.code()), (Ended::Failed, 105));
    assert!(none.client.reason().contains("clients with a key"), "{}", none.client.reason());
    let needless = run(Link::new(), &phase, (Answers::default(), Settings::of_server(), key("a-key")));
    assert_eq!(needless.code(), 104);
}

#[test]
fn set_ups_that_cannot_be_are_refused_with_their_code() {
    let limited = Settings { bandwidth: 100, ..Settings::of_server() };
    let [mut plain, mut traditional] = [Settings::of_server(); 2];
    (plain.test.jumbo, traditional.test.traditional) = (false, true);
    for (server, client, code) in [
        (limited, settings(), 109),
        (limited, Settings { bandwidth: 101, ..settings() }, 110),
        (limited, Settings { bandwidth: 100, ..settings() }, 0),
        (plain, settings(), 103),
        (traditional, settings(), 111),
    ] {
        let link = Link::new().rate(1_000_000);
        let ran = run(link, &client.phase(Pattern::Pull, 1), (Answers::default(), server, None));
        assert_eq!(ran.code(), code, "{:?}", ran.client.end);
    }
}

#[test]
fn a_client_that_vanishes_stops_the_load_within_three_seconds() {
    let mut net = Network::new(5);
    let link = Link::new().delay(MS).rate(5_000_000);
    net.datagram_links(link.clone(), link);
    let serving = Settings::of_server().phase(Pattern::Push, 1);
    let acceptors = acceptors(&serving, &Answers { workers: 1, ..Answers::default() });
    let server = serve_with(&mut net, 1, serving, acceptors, false);
    let phase = settings().phase(Pattern::Pull, 1);
    let calls = Calls { servers: common::Servers::at([address(1)]), workers: 1, ..Calls::default() };
    let client = call_with(&mut net, 1, 1, &phase, connectors(&phase, &calls), false);
    let gone = net.now.plus(2 * SECOND);
    net.unplug_at(client, gone);
    net.run_until(gone);
    let open = |net: &Network| net.open(server).0 + net.open(server).1;
    assert_eq!(open(&net), 1);
    net.run_until(gone.plus(3 * SECOND + 100 * MS));
    assert_eq!(open(&net), 0, "the load has ended");
}

#[test]
fn a_server_for_one_test_serves_all_its_connections_and_ends() {
    let mut net = Network::new(5);
    let link = Link::new().delay(MS).rate(5_000_000);
    net.datagram_links(link.clone(), link);
    let serving = Settings::of_server().phase(Pattern::Push, 1);
    let answers = Answers { workers: 2, exit_after: Some(1), ..Answers::default() };
    let acceptors = acceptors(&serving, &answers);
    let server = serve_with(&mut net, 2, serving, acceptors, false);
    let phase = settings().phase(Pattern::Pull, 4);
    let calls = Calls { servers: common::Servers::at([address(1)]), workers: 2, ..Calls::default() };
    let client = call_with(&mut net, 1, 2, &phase, connectors(&phase, &calls), false);
    net.run();
    assert_eq!(told(&net, client).status(), Ended::Complete);
    // The client's last PDU is still under way.
    net.run_until(net.now.plus(SECOND));
    assert!(net.done(server).is_some(), "the server has ended");
}

/// A server's acceptor, and what it answers.
struct Hosted {
    bench: Bench,
    acceptor: Box<dyn Acceptor>,
    arena: Arena,
    received: usize,
    answered: usize,
}

impl Hosted {
    fn new(answers: Answers) -> Self {
        let serving = Settings::of_server().phase(Pattern::Push, 1);
        let mut all = acceptors(&serving, &Answers { workers: 1, ..answers });
        let mut bench = Bench::new(3);
        bench.now = Mono(SECOND);
        bench.clock.wall_at_zero = 1_760_973_720 * SECOND as i64;
        Hosted { bench, acceptor: all.remove(0), arena: Arena::new(65_536), received: 0, answered: 0 }
    }

    fn path(peer: SocketAddr) -> Path {
        Path { peer, local: SocketAddr::from(([10, 0, 0, 1], udpstp::PORT)) }
    }

    fn hear(&mut self, peer: SocketAddr, bytes: &[u8]) -> (Vec<u8>, Option<Box<dyn Flow>>) {
        let from = Some(Hosted::path(peer));
        let got = Received { from, ..Received::stream(bytes, self.bench.now) };
        let mut reply = Transmit::new(&mut self.arena, bytes.len());
        let mut cx = self.bench.cx();
        let flow = self.acceptor.on_unsolicited(&mut cx, &got, &mut reply);
        let answer: Vec<u8> = reply.slices().flatten().copied().collect();
        self.received += bytes.len();
        self.answered += answer.len();
        (answer, flow)
    }

    /// Everything that a flow sends until `until`, when nothing more arrives.
    fn sends(&mut self, flow: &mut dyn Flow, until: Mono) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        while self.bench.now < until {
            let interest = flow.interest();
            if interest.end.is_some() {
                break;
            }
            let at = match interest.send {
                When::Now => self.bench.now,
                When::At(at) => at,
                When::Never => Mono(u64::MAX),
            };
            let wake = interest.wake.unwrap_or(Mono(u64::MAX));
            self.bench.now = self.bench.now.max(at.min(wake)).min(until);
            if self.bench.now >= until {
                break;
            }
            let mut cx = self.bench.cx();
            if wake < at {
                if flow.on_event(&mut cx, FlowEvent::Wake).is_err() {
                    break;
                }
                continue;
            }
            let mut out = Transmit::new(&mut self.arena, 65_536).datagrams(64);
            flow.prepare_send(&mut cx, &mut out);
            let bytes: Vec<u8> = out.slices().flatten().copied().collect();
            flow.on_sent(&mut cx, transport::Sent { bytes: bytes.len(), fault: None });
            sent.push(bytes);
        }
        sent
    }
}

fn up(flow: &mut dyn Flow, cx: &mut Context<'_>, peer: SocketAddr) {
    flow.on_event(cx, FlowEvent::Up(Hosted::path(peer))).unwrap();
}

fn setup(test: u16) -> Setup {
    Setup { version: 20, count: 1, test, modifiers: udpstp::codec::JUMBO, ..Setup::default() }
}

fn activation(parameters: Parameters, upstream: bool) -> Activation {
    Activation { version: 20, upstream, code: 0, parameters, row: Row::default(), seal: Seal::default() }
}

const PEER: ([u8; 4], u16) = ([10, 128, 0, 2], 40_000);

#[test]
fn a_forged_set_up_starts_no_load() {
    // A fixed row of 1 Gbit/s: of the reference a flood of three seconds.
    for parameters in [Parameters::default(), Parameters { row: 1_000, ..Parameters::default() }] {
        for upstream in [false, true] {
            let mut host = Hosted::new(Answers::default());
            let peer = PEER.into();
            let (answer, _) = host.hear(peer, &setup(7).encode());
            assert_eq!(Setup::decode(&answer).map(|answer| answer.code), Some(setup_code::ACCEPTED));
            let (answer, flow) = host.hear(peer, &activation(parameters, upstream).encode());
            assert_eq!(
                Activation::decode(&answer).map(|answer| answer.code),
                Some(activation_code::ACCEPTED)
            );
            assert_eq!(host.answered, host.received);
            let mut flow = flow.unwrap();
            up(&mut *flow, &mut host.bench.cx(), peer);
            let before = host.bench.now;
            let sent = host.sends(&mut *flow, before.plus(20 * SECOND));
            let bytes: usize = sent.iter().map(Vec::len).sum();
            assert!(bytes <= host.received, "{upstream}: {bytes} after {}", host.received);
            assert_eq!(bytes == 0, upstream, "a sender of load asks whether its load arrives");
            // Nor does a forged report.
            let mut forged = Status { number: 1, ..Status::default() };
            forged.trial = Trial { datagrams: 2, bytes: 104, ..Trial::default() };
            if !upstream && sent.iter().map(Vec::len).sum::<usize>() != 104 {
                let bytes = forged.encode(20);
                let got = Received::stream(&bytes[..LONG_STATUS], host.bench.now);
                let mut reply = Transmit::new(&mut host.arena, 0);
                let _ = flow.on_received(&mut host.bench.cx(), &got, &mut reply);
                let now = host.bench.now;
                assert!(host.sends(&mut *flow, now.plus(10 * SECOND)).is_empty());
            }
        }
    }
}

#[test]
fn the_receiver_of_the_first_datagrams_gets_the_load() {
    let mut host = Hosted::new(Answers::default());
    let peer = PEER.into();
    host.hear(peer, &setup(7).encode());
    let (_, flow) = host.hear(peer, &activation(Parameters::default(), false).encode());
    let mut flow = flow.unwrap();
    up(&mut *flow, &mut host.bench.cx(), peer);
    let now = host.bench.now;
    let sent = host.sends(&mut *flow, now.plus(200 * MS));
    assert_eq!(sent.len(), 2);
    let bytes = sent.iter().map(Vec::len).sum::<usize>();
    assert!(sent.iter().all(|one| Load::decode(one, one.len()).is_some()) && bytes <= SETUP + ACTIVATION);
    let trial = Trial { datagrams: 2, bytes: bytes as u32, ..Trial::default() };
    let status = Status { number: 1, trial, sent: Moment { s: 9, ns: 9 }, ..Status::default() };
    let encoded = status.encode(20);
    let got = Received::stream(&encoded, host.bench.now);
    let mut reply = Transmit::new(&mut host.arena, 0);
    flow.on_received(&mut host.bench.cx(), &got, &mut reply).unwrap();
    let now = host.bench.now;
    let sent = host.sends(&mut *flow, now.plus(SECOND));
    assert!(sent.len() >= 19, "{}", sent.len());
    let last = Load::decode(&sent[0], sent[0].len()).unwrap();
    assert_eq!((last.number, last.echoed), (3, Moment { s: 9, ns: 9 }));
}

#[test]
fn strangers_and_captured_pdus_get_nothing() {
    // Behind no fence, and without keys here: silence.
    let streams = Acl { allow: vec!["192.0.2.0/24".parse().unwrap()], deny: Vec::new() };
    let mut host = Hosted::new(Answers { streams: streams.clone(), ..Answers::default() });
    assert_eq!(host.hear(PEER.into(), &setup(7).encode()).0, [0; 0]);
    // With keys every address is served that has one, and a captured request only once.
    let mut host = Hosted::new(Answers { streams, key: key("netcaliper-key"), ..Answers::default() });
    let now_s = 1_760_973_721;
    let keys: Keys = Deriver::keys(b"netcaliper-key", now_s);
    let seal = Seal { mode: 1, ..Seal::default() };
    let mut request = Setup { seal, ..setup(7) }.encode();
    Setup::SEAL.sign(&mut request, &keys.client, now_s);
    let (answer, _) = host.hear(PEER.into(), &request);
    assert_eq!(Setup::SEAL.verify(&answer, &keys.server, now_s.into()), Ok(()));
    assert_eq!(Setup::decode(&answer).map(|answer| answer.code), Some(setup_code::ACCEPTED));
    let victim = SocketAddr::from(([198, 51, 100, 9], 9));
    assert_eq!(host.hear(victim, &request).0, [0; 0]);
    let mut asked = activation(Parameters::default(), false).encode();
    Activation::SEAL.sign(&mut asked, &keys.client, now_s);
    assert!(host.hear(victim, &asked).1.is_none(), "an activation from another address");
    let mut stale = asked;
    Activation::SEAL.sign(&mut stale, &keys.client, now_s - 60);
    assert!(host.hear(PEER.into(), &stale).1.is_none());
    let mut forged = asked;
    forged[9] ^= 1;
    assert!(host.hear(PEER.into(), &forged).1.is_none());
    assert!(host.hear(PEER.into(), &asked).1.is_some());
    assert!(host.hear(PEER.into(), &asked).1.is_none(), "an activation is for one test");
}

#[test]
fn clients_of_old_versions_are_served_in_theirs() {
    let mut host = Hosted::new(Answers::default());
    for version in [10, 11, 19, 21] {
        let (answer, _) = host.hear(PEER.into(), &Setup { version, ..setup(7) }.encode());
        let answer = Setup::decode(&answer).unwrap();
        if !(11..=20).contains(&version) {
            assert_eq!((answer.code, answer.version), (setup_code::VERSION, 20));
            continue;
        }
        assert_eq!((answer.code, answer.version), (setup_code::ACCEPTED, version));
        let asked = Activation { version, ..activation(Parameters::default(), true) };
        let (answer, flow) = host.hear(PEER.into(), &asked.encode()[..60]);
        assert_eq!(answer.len(), 60);
        assert_eq!(Activation::decode(&answer).unwrap().code, activation_code::ACCEPTED);
        let mut flow = flow.unwrap();
        up(&mut *flow, &mut host.bench.cx(), PEER.into());
        let load = Load { number: 1, length: 600, ..Load::default() };
        let mut bytes = load.encode().to_vec();
        bytes.resize(600, 0);
        let got = Received::stream(&bytes, host.bench.now);
        let mut reply = Transmit::new(&mut host.arena, 0);
        flow.on_received(&mut host.bench.cx(), &got, &mut reply).unwrap();
        let now = host.bench.now;
        let sent = host.sends(&mut *flow, now.plus(60 * MS));
        assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [168]);
        assert_eq!(Status::decode(&sent[0], version).unwrap().trial.datagrams, 1);
    }
}

#[test]
fn mutated_pdus_are_answered_with_no_more_than_they_were() {
    let mut rng = Rng::new(9);
    let mut host = Hosted::new(Answers::default());
    let mut flows = 0;
    for n in 0..inputs() {
        let peer = SocketAddr::from(([10, 128, 0, 2], 1_024 + (n % 50_000) as u16));
        let upstream = rng.next() & 1 == 0;
        let mut bytes = match rng.between(0, 3) {
            0 => setup(7).encode().to_vec(),
            _ => {
                host.hear(peer, &setup(7).encode());
                activation(Parameters::default(), upstream).encode().to_vec()
            }
        };
        mutate(&mut rng, &mut bytes);
        let (answer, flow) = host.hear(peer, &bytes);
        assert!(answer.len() <= bytes.len());
        let Some(mut flow) = flow else { continue };
        flows += 1;
        up(&mut *flow, &mut host.bench.cx(), peer);
        for _ in 0..8 {
            let mut bytes = match rng.next() & 1 {
                0 => Load { number: 1, length: 64, ..Load::default() }.encode().repeat(2),
                _ => Status { number: 1, ..Status::default() }.encode(20).to_vec(),
            };
            mutate(&mut rng, &mut bytes);
            let got = Received::stream(&bytes, host.bench.now);
            let mut reply = Transmit::new(&mut host.arena, 0);
            if flow.on_received(&mut host.bench.cx(), &got, &mut reply).is_err() {
                break;
            }
            let now = host.bench.now;
            host.sends(&mut *flow, now.plus(30 * MS));
        }
        host.bench.outbox.clear();
    }
    assert!(flows > inputs() / 10, "{flows}");
    assert_eq!(client_ip(0), client_ip(0));
}
