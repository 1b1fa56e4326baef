//! Clients of a native server: mixed questions and directions, arrivals and departures, one worker
//! and many.

use super::{Bounds, PATTERNS, bounded, bulk, forgotten, one_of};
use crate::support::run::{MS, Told, address, client_ip, client_plan, recorded, server_with, told};
use ::native::{Client, ClientPlan, Server, ServerPlan};
use common::Limits;
use metrics::{Mono, SECOND};
use model::{Event, Kind, Pattern, Phase, Ping, Probe, Schedule, Status, Transport};
use sim::{Host, Link, Network, Quirks, START, Say};
use std::collections::BTreeMap;
use transport::{Defect, Rng};

/// So many times slower than usual are the machines: bytes are really copied and compared, and
/// should not take all of the time.
const SLOWNESS: u64 = 100;
/// After so long a server has forgotten a client that vanished, also one that vanished before it
/// proposed anything, ns.
const FORGOTTEN: u64 = 62 * SECOND;

#[derive(Clone, Debug)]
struct Participant {
    arrives: u64,
    phase: Phase,
    workers: u16,
    leaves: Leaves,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Leaves {
    InTime,
    /// Its user interrupts it so long after it came.
    Interrupted(u64),
    Killed(u64),
    Unplugged(u64),
}

impl Leaves {
    /// Most do in time.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let at = rng.between(50 * MS, 1_500 * MS);
        match rng.between(0, 9) {
            0 => Leaves::Interrupted(at),
            1 => Leaves::Killed(at),
            2 => Leaves::Unplugged(at),
            _ => Leaves::InTime,
        }
    }

    pub(super) fn arrange(self, net: &mut Network, client: Host) {
        match self {
            Leaves::InTime => {}
            Leaves::Interrupted(after) => net.stop_at(client, net.now.plus(after)),
            Leaves::Killed(after) => net.kill_at(client, net.now.plus(after)),
            Leaves::Unplugged(after) => net.unplug_at(client, net.now.plus(after)),
        }
    }

    /// Whether it comes to its own end.
    pub(super) fn ends(self) -> bool {
        matches!(self, Leaves::InTime | Leaves::Interrupted(_))
    }
}

#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    workers: u16,
    link: Link,
    participants: Vec<Participant>,
    /// Peers that connect, send bytes of no protocol, and hang up with a reset: when they come and
    /// go, and how many bytes.
    intruders: Vec<(u64, u64, usize)>,
    quirks: Quirks,
}

fn datagrams(pattern: Pattern) -> Phase {
    let probe = Some(Probe { size: 160, lead_ns: 300 * MS, ..Probe::default() });
    Phase { kind: Kind::Delay, rate: Some(500 * 160 * 8), probe, ..bulk(pattern, 1) }
}

fn pings(transport: Transport) -> Phase {
    let ping = Ping { transport, schedule: Schedule::Fixed { gap_ns: 5 * MS }, ..Ping::default() };
    Phase { kind: Kind::Ping, ping: Some(ping), iterations: Some(1), ..bulk(Pattern::Push, 1) }
}

fn mixed(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let workers = one_of(&mut rng, &[1, 1, 2, 2, 3, 4, 8, 16, 64]);
    let most = one_of(&mut rng, &[1, 2, 4, 8, 30, 85]);
    let participants = (0..rng.between(1, 12)).map(|_| {
        let (pattern, connections) = (one_of(&mut rng, &PATTERNS), rng.between(1, most) as u32);
        let phase = match rng.between(0, 7) {
            0 => datagrams(one_of(&mut rng, &PATTERNS[..3])),
            1 => pings(one_of(&mut rng, &[Transport::Tcp, Transport::Udp])),
            2 => {
                Phase { kind: Kind::Connect, transfer: rng.between(1, 30_000), ..bulk(pattern, connections) }
            }
            3 => Phase { rate: Some(200_000), ..bulk(pattern, connections) },
            _ => bulk(pattern, connections),
        };
        let leaves = Leaves::draw(&mut rng);
        let arrives = if rng.between(0, 1) == 0 { 0 } else { rng.between(0, 800 * MS) };
        Participant { arrives, phase, workers: one_of(&mut rng, &[1, 1, 2, 4]), leaves }
    });
    let participants = participants.collect();
    let delay = one_of(&mut rng, &[50_000, MS, 10 * MS]);
    let rate = one_of(&mut rng, &[2_000_000, 20_000_000]);
    // What hundreds of connections have queued is read by a server that is slow on purpose.
    let link =
        Link::new().delay(delay).rate(rate).window(64 * 1024).loss(one_of(&mut rng, &[0.0, 0.0, 0.0, 0.01]));
    let quirks = if rng.between(0, 3) == 0 { Quirks::rough() } else { Quirks::default() };
    let quirks = Quirks { slowness: SLOWNESS, ..quirks };
    let intruders = (0..rng.between(0, 3)).map(|_| {
        let comes = rng.between(0, SECOND);
        (comes, comes + rng.between(0, SECOND), rng.between(0, 200) as usize)
    });
    let intruders = intruders.collect();
    Scenario { seed, workers, link, participants, intruders, quirks }
}

/// The same question asked by clients in every direction, all at once, with the server's CPU as the
/// bottleneck.
fn equal(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let workers = one_of(&mut rng, &[1, 2, 4]);
    let participants: Vec<Participant> = (0..rng.between(2, 20))
        .map(|n| {
            let phase = Phase { duration_ns: Some(3 * SECOND), ..bulk(PATTERNS[n as usize % 3], 1) };
            Participant { arrives: 0, phase, workers: 1, leaves: Leaves::InTime }
        })
        .collect();
    let quirks = Quirks { slowness: 4 * SLOWNESS, ..Quirks::default() };
    let link = Link::new().delay(100_000);
    Scenario { seed, workers, link, participants, intruders: Vec::new(), quirks }
}

/// A scenario after its simulation.
struct Outcome {
    net: Network,
    server: Host,
    clients: Vec<Host>,
}

/// A server as it ships: one set of workers accepts connections, the other has the bound UDP
/// sockets.
pub(super) fn serve(net: &mut Network, plan: ServerPlan) -> Host {
    let (workers, threads, now) = (plan.workers, plan.threads(), net.now);
    let server = net.serve(address(1), threads, Box::new(Server::new(plan, now)));
    net.listening(server, 0..workers, threads - workers..threads);
    server
}

fn simulate(scenario: &Scenario, defect: Option<Defect>) -> Outcome {
    let mut net = Network::new(scenario.seed);
    net.links(scenario.link.clone(), scenario.link.clone());
    net.plant(defect);
    let limits = Limits { connections: 10_000, ..Limits::default() };
    let plan = ServerPlan { workers: scenario.workers, ..server_with(|config| config.limits = limits) };
    let server = serve(&mut net, plan);
    net.quirks(server, scenario.quirks);
    for (n, &(comes, goes, bytes)) in scenario.intruders.iter().enumerate() {
        let bytes = (0..bytes).map(|at| (at * 7 + n) as u8).collect();
        let script = vec![(comes, Say::Bytes(bytes)), (goes, Say::Reset)];
        net.raw(client_ip(1_000 + n as u32), address(1), script);
    }
    let mut order: Vec<usize> = (0..scenario.participants.len()).collect();
    order.sort_by_key(|&n| scenario.participants[n].arrives);
    let mut clients = BTreeMap::new();
    for n in order {
        let Participant { arrives, ref phase, workers, leaves } = scenario.participants[n];
        net.run_until(START.plus(arrives));
        let plan = recorded(ClientPlan { workers, secret: [n as u8; 32], ..client_plan(phase) }, n);
        let client = net.join(client_ip(n as u32), workers, Box::new(Client::new(plan, net.now)));
        net.quirks(client, Quirks { slowness: 1, ..scenario.quirks });
        leaves.arrange(&mut net, client);
        clients.insert(n, client);
    }
    let clients: Vec<Host> = clients.into_values().collect();
    // What is asked for takes a second or three, and what comes before and after it some more.
    let limit = START.plus(10 * SECOND + FORGOTTEN);
    let is_over = |net: &Network| {
        let mut here =
            scenario.participants.iter().zip(&clients).filter(|(participant, _)| participant.leaves.ends());
        here.all(|(_, &client)| net.done(client).is_some()) && forgotten(net, server, 0, 0).is_ok()
    };
    while net.now < limit && !is_over(&net) {
        net.run_until(net.now.plus(SECOND));
    }
    Outcome { net, server, clients }
}

/// Whether all of the properties hold.
fn violation(scenario: &Scenario, outcome: &Outcome) -> Result<(), String> {
    let Outcome { net, server, clients } = outcome;
    let lossless = scenario.link == scenario.link.clone().loss(0.0);
    for (participant, &client) in scenario.participants.iter().zip(clients) {
        let it = told(net, client);
        let of = |why: String| format!("{why}: {participant:?}: {:?} {}", it.end, it.notices.join("; "));
        if participant.leaves == Leaves::InTime {
            // What is lost is sent again, which takes some time more.
            let late = if lossless { 0 } else { 2 * SECOND };
            served(&participant.phase, participant.arrives + late, &it, net.done(client)).map_err(of)?;
            // An answer for which a full socket has no room is lost, too.
            if lossless && scenario.quirks.would_block == 0.0 && lost(&it) != 0 {
                return Err(of(format!("{} datagrams are lost where none is", lost(&it))));
            }
        }
        if participant.leaves.ends() && net.done(client).is_none() {
            return Err(of("it does not end".to_owned()));
        }
        let links = links_of(participant);
        let threads = 1 + usize::from(participant.workers);
        bounded(net, client, &Bounds { links, peers: 1, threads, slowness: 1 }).map_err(of)?;
    }
    forgotten(net, *server, 0, 0)?;
    let each = scenario.participants.iter().map(links_of);
    let bounds = Bounds {
        links: each.sum::<usize>() + scenario.intruders.len(),
        peers: scenario.participants.len(),
        threads: 1 + usize::from(scenario.workers) * usize::from(ServerPlan::SETS),
        slowness: scenario.quirks.slowness,
    };
    bounded(net, *server, &bounds).map_err(|why| format!("at the server: {why}"))?;
    match net.amplified(*server) {
        Some(peer) => Err(format!("the server answered more than it got: {peer}")),
        None => Ok(()),
    }
}

/// Datagrams that a client or its server say are lost.
/// Most links of a client at once: control links, of each data connection that has ended one that
/// takes its place, and at the end of a run further control connections to a server whose answers
/// wait in a queue.
fn links_of(participant: &Participant) -> usize {
    const FURTHER: usize = 8;
    2 * participant.phase.connections as usize + 2 + FURTHER
}

fn lost(it: &Told) -> i64 {
    let all = it.local.iter().chain(&it.remote);
    let one = |totals: &model::Totals| {
        let (packets, pings) = (&totals.packets, &totals.pings);
        packets.as_ref().map_or(0, |of| of.counts.lost) + pings.as_ref().map_or(0, |of| of.counts.lost)
    };
    all.map(one).sum()
}

/// Whether a client that stayed to the end was served as it may expect.
pub(super) fn served(phase: &Phase, arrives: u64, it: &Told, done: Option<Mono>) -> Result<(), String> {
    let wrong = |why: &str| Err(why.to_owned());
    let (Some(done), Some(local), [remote]) = (done, &it.local, it.remote.as_slice()) else {
        return wrong("no result");
    };
    let limit = START.plus(arrives + phase.duration_ns.unwrap_or(0) + 4 * SECOND);
    if done > limit {
        return wrong("it takes too long");
    }
    if it.status() != Status::Complete {
        return wrong("not complete");
    }
    for ends in [local, remote] {
        if ends.errors() != 0 {
            return Err(format!("an error that the network did not make: {:?}", ends.causes));
        }
    }
    if local.opened.abs_diff(remote.opened) > 2 * u64::from(phase.connections) {
        return Err(format!("one end opened {}, the other {}", local.opened, remote.opened));
    }
    // What is under way when the clock ends the run is counted by one end only.
    let under_way = u64::from(phase.connections) * 600_000;
    let (up, down) = (local.traffic.tx_bytes, local.traffic.rx_bytes);
    if up.abs_diff(remote.traffic.rx_bytes) > under_way || down.abs_diff(remote.traffic.tx_bytes) > under_way
    {
        return wrong("the ends disagree about bytes");
    }
    let expected = phase.duration_ns.unwrap_or(0) / phase.interval_ns;
    if (it.intervals.len() as u64) < expected {
        return Err(format!("{} of {expected} intervals", it.intervals.len()));
    }
    for (sender, receiver) in [(local, remote), (remote, local)] {
        // Every datagram is received or lost, once.
        if let (Some(sent), Some(got)) = (&sender.packets, &receiver.packets)
            && got.counts.received.checked_add_signed(got.counts.lost) != Some(sent.counts.sent)
        {
            return Err(format!("{:?} of {:?}", got.counts, sent.counts));
        }
    }
    if let Some(pings) = &local.pings
        && pings.counts.received.checked_add_signed(pings.counts.lost) != Some(pings.counts.sent)
    {
        return Err(format!("{:?}", pings.counts));
    }
    if let Some(late) = local.late_ns.as_ref().filter(|late| late.p50 > 20 * MS) {
        return Err(format!("half of the paced sends left {} ns late", late.p50));
    }
    Ok(())
}

/// The rates of a client's connections, bytes each way.
fn moved(net: &Network, client: Host) -> (u64, u64) {
    net.events(client).iter().fold((0, 0), |(tx, rx), (_, event)| match event {
        Event::Connection(record) => (tx + record.tx_bytes, rx + record.rx_bytes),
        _ => (tx, rx),
    })
}

/// Where the slowest of equal connections moves less than half of the median of its direction.
/// Where the connections cannot be spread evenly, those on a worker with one more share its time
/// with that one.
fn unequal(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    let both = scenario.participants.iter().zip(&outcome.clients);
    let moved = both.map(|(of, &client)| (of.phase.pattern, moved(&outcome.net, client)));
    let sums: Vec<_> = moved.collect();
    let (all, workers) = (scenario.participants.len() as u64, u64::from(scenario.workers));
    let (fewest, most) = ((all / workers).max(1), all.div_ceil(workers));
    for (pattern, up) in [(Pattern::Push, true), (Pattern::Pull, false), (Pattern::Duplex, true)] {
        let same = sums.iter().filter(|(of, _)| *of == pattern);
        let mut bytes: Vec<u64> = same.map(|(_, (tx, rx))| if up { *tx } else { *rx }).collect();
        bytes.sort_unstable();
        if let (Some(&least), Some(&median)) = (bytes.first(), bytes.get(bytes.len() / 2))
            && least < median * fewest / most / 2
        {
            return Some(format!("{pattern:?} on {} workers: {bytes:?}", scenario.workers));
        }
    }
    None
}

pub(super) fn check_service(seed: u64, defect: Option<Defect>) -> Result<(), String> {
    let scenario = mixed(seed);
    let outcome = simulate(&scenario, defect);
    violation(&scenario, &outcome).map_err(|why| format!("{why}\n{scenario:?}"))
}

pub(super) fn check_shares(seed: u64, defect: Option<Defect>) -> Result<(), String> {
    let scenario = equal(seed);
    let outcome = simulate(&scenario, defect);
    violation(&scenario, &outcome)?;
    unequal(&scenario, &outcome).map_or(Ok(()), Err)
}

/// All that is told in a scenario.
pub(super) fn trace(seed: u64) -> Vec<Vec<(Mono, Event)>> {
    let Outcome { net, server, clients } = simulate(&mixed(seed), None);
    clients.iter().chain([&server]).map(|&host| net.events(host).to_vec()).collect()
}
