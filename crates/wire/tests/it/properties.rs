//! Properties of clients that share a server, over seeds, on the engine that ships: mixed questions and directions, arrivals
//! and departures, one worker and many.
//!
//! By default some seeds are tried for as long as the tests may take. `NETCALIPER_SEEDS=1000` tries that many, however long it
//! takes; `NETCALIPER_SEED=17` that one alone. A failure names its seed.

use crate::common::run::{MS, Told, client_ip, client_plan, server_plan, told};
use metrics::{Mono, SECOND};
use model::{Event, Kind, Pattern, Phase, Ping, Probe, Range, Schedule, Status, Transport};
use sim::{Host, Link, Network, Quirks, START};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use transport::{Defect, Rng};
use uuid::Uuid;
use wire::native::{Client, ClientPlan, Limits, Server, ServerPlan};

/// Time for the seeds of one test by default.
const TIME: Duration = Duration::from_secs(20);
/// Seeds of one test by default.
const SEEDS: u64 = 50;
/// So many times slower than usual are the machines: bytes are really copied and compared, and should not take all of the time.
const SLOWNESS: u64 = 100;
/// After so long a server has forgotten a client that vanished, also one that vanished before it proposed anything, ns.
const FORGOTTEN: u64 = 62 * SECOND;

/// The seeds to be tried.
#[expect(clippy::disallowed_methods, reason = "the tests' own time is limited, not that of what they test")]
fn seeds() -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (one, many) = (number("NETCALIPER_SEED"), number("NETCALIPER_SEEDS"));
    let until = (one.is_none() && many.is_none()).then(|| Instant::now() + TIME);
    let range = one.map_or(1..many.unwrap_or(SEEDS) + 1, |seed| seed..seed + 1);
    range.take_while(move |_| until.is_none_or(|until| Instant::now() < until))
}

/// What a client does.
#[derive(Clone, Debug)]
struct Participant {
    arrives: u64,
    phase: Phase,
    workers: u16,
    leaves: Leaves,
}

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaves {
    InTime,
    /// Its user interrupts it so long after it came.
    Interrupted(u64),
    Killed(u64),
    Unplugged(u64),
}

/// A server and its clients.
#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    workers: u16,
    link: Link,
    participants: Vec<Participant>,
    quirks: Quirks,
}

const PATTERNS: [Pattern; 4] =
    [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 40_000, pull: 25_000 }];

fn bulk(pattern: Pattern, connections: u32) -> Phase {
    Phase {
        pattern,
        connections,
        transfer: 1 << 40,
        duration_ns: Some(SECOND),
        interval_ns: 250 * MS,
        buffer: Range::just(16 * 1024),
        ..Phase::default()
    }
}

fn datagrams(pattern: Pattern) -> Phase {
    let probe = Some(Probe { size: 160, lead_ns: 300 * MS, ..Probe::default() });
    Phase { kind: Kind::Delay, rate: Some(500 * 160 * 8), probe, ..bulk(pattern, 1) }
}

fn pings(transport: Transport) -> Phase {
    let ping = Ping { transport, schedule: Schedule::Fixed { gap_ns: 5 * MS }, ..Ping::default() };
    Phase { kind: Kind::Ping, ping: Some(ping), iterations: Some(1), ..bulk(Pattern::Push, 1) }
}

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.between(0, of.len() as u64 - 1) as usize]
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
        let at = rng.between(50 * MS, 1_500 * MS);
        let leaves = match rng.between(0, 9) {
            0 => Leaves::Interrupted(at),
            1 => Leaves::Killed(at),
            2 => Leaves::Unplugged(at),
            _ => Leaves::InTime,
        };
        let arrives = if rng.between(0, 1) == 0 { 0 } else { rng.between(0, 800 * MS) };
        Participant { arrives, phase, workers: one_of(&mut rng, &[1, 1, 2, 4]), leaves }
    });
    let participants = participants.collect();
    let delay = one_of(&mut rng, &[50_000, MS, 10 * MS]);
    let link = Link::new().delay(delay).rate(one_of(&mut rng, &[2_000_000, 20_000_000]));
    let quirks = if rng.between(0, 3) == 0 { Quirks::rough() } else { Quirks::default() };
    Scenario { seed, workers, link, participants, quirks: Quirks { slowness: SLOWNESS, ..quirks } }
}

/// The same question asked by clients in every direction, all at once, with the server's CPU as the bottleneck.
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
    Scenario { seed, workers, link: Link::new().delay(100_000), participants, quirks }
}

/// A scenario after its simulation.
struct Outcome {
    net: Network,
    server: Host,
    clients: Vec<Host>,
}

fn simulate(scenario: &Scenario, defect: Option<Defect>) -> Outcome {
    let mut net = Network::new(scenario.seed);
    net.links(scenario.link.clone(), scenario.link.clone());
    net.plant(defect);
    let limits = Limits { connections: 10_000, ..Limits::default() };
    let plan = ServerPlan { workers: scenario.workers, limits, ..server_plan() };
    let server =
        net.serve(([10, 0, 0, 1], 7411).into(), plan.threads(), Box::new(Server::new(plan, net.now)));
    net.quirks(server, scenario.quirks);
    let mut order: Vec<usize> = (0..scenario.participants.len()).collect();
    order.sort_by_key(|&n| scenario.participants[n].arrives);
    let mut clients = BTreeMap::new();
    for n in order {
        let participant = &scenario.participants[n];
        net.run_until(START.plus(participant.arrives));
        let run = Uuid::from_u128(n as u128 + 1);
        let plan = ClientPlan {
            workers: participant.workers,
            run,
            secret: [n as u8; 32],
            records: true,
            ..client_plan(&participant.phase)
        };
        let client = net.join(client_ip(n as u32), participant.workers, Box::new(Client::new(plan, net.now)));
        net.quirks(client, Quirks { slowness: 1, ..scenario.quirks });
        match participant.leaves {
            Leaves::InTime => {}
            Leaves::Interrupted(after) => net.stop_at(client, net.now.plus(after)),
            Leaves::Killed(after) => net.kill_at(client, net.now.plus(after)),
            Leaves::Unplugged(after) => net.unplug_at(client, net.now.plus(after)),
        }
        clients.insert(n, client);
    }
    let clients: Vec<Host> = clients.into_values().collect();
    // What is asked for takes a second or three, and what comes before and after it some more.
    let limit = START.plus(10 * SECOND + FORGOTTEN);
    let stays =
        |participant: &Participant| matches!(participant.leaves, Leaves::InTime | Leaves::Interrupted(_));
    let is_over = |net: &Network| {
        let mut here =
            scenario.participants.iter().zip(&clients).filter(|(participant, _)| stays(participant));
        here.all(|(_, &client)| net.done(client).is_some())
            && net.open(server) == (0, 0)
            && net.groups(server) == 0
    };
    while net.now < limit && !is_over(&net) {
        net.run_until(net.now.plus(SECOND));
    }
    Outcome { net, server, clients }
}

/// The property that does not hold, if there is one.
fn violation(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    let Outcome { net, server, clients } = outcome;
    for (participant, &client) in scenario.participants.iter().zip(clients) {
        let it = told(net, client);
        let what = || format!("{participant:?}: {:?} {}", it.end, it.notices.join("; "));
        if matches!(participant.leaves, Leaves::InTime)
            && let Err(why) = served(participant, &it, net.done(client))
        {
            return Some(format!("{why}: {}", what()));
        }
        if let Leaves::Interrupted(_) = participant.leaves
            && net.done(client).is_none()
        {
            return Some(format!("an interrupted client does not end: {}", what()));
        }
    }
    if net.open(*server) != (0, 0) || net.groups(*server) != 0 {
        return Some(format!(
            "the server still has {:?} links and {} groups",
            net.open(*server),
            net.groups(*server)
        ));
    }
    if let Some(amplified) = net.amplified(*server) {
        return Some(format!("the server answered more than it got: {amplified}"));
    }
    None
}

/// Whether a client that stayed to the end was served as it may expect.
fn served(participant: &Participant, it: &Told, done: Option<Mono>) -> Result<(), String> {
    let wrong = |why: &str| Err(why.to_owned());
    let (Some(done), Some(near), [far]) = (done, &it.near, it.far.as_slice()) else {
        return wrong("no result");
    };
    let limit = START.plus(participant.arrives + participant.phase.duration_ns.unwrap_or(0) + 4 * SECOND);
    if done > limit {
        return wrong("it takes too long");
    }
    if it.status() != Status::Complete {
        return wrong("not complete");
    }
    for ends in [near, far] {
        if ends.network_errors + ends.data_errors + ends.protocol_errors != 0 {
            return Err(format!("an error that the network did not make: {:?}", ends.causes));
        }
    }
    if near.opened.abs_diff(far.opened) > 2 * u64::from(participant.phase.connections) {
        return Err(format!("one end opened {}, the other {}", near.opened, far.opened));
    }
    // What is under way when the clock ends the run is counted by one end only.
    let under_way = u64::from(participant.phase.connections) * 600_000;
    let (up, down) = (near.traffic.tx_bytes, near.traffic.rx_bytes);
    if up.abs_diff(far.traffic.rx_bytes) > under_way || down.abs_diff(far.traffic.tx_bytes) > under_way {
        return wrong("the ends disagree about bytes");
    }
    let expected = participant.phase.duration_ns.unwrap_or(0) / participant.phase.interval_ns;
    if (it.intervals.len() as u64) < expected {
        return Err(format!("{} of {expected} intervals", it.intervals.len()));
    }
    if let Some(late) = near.late_ns.as_ref().filter(|late| late.p50 > 20 * MS) {
        return Err(format!("half of the paced sends left {} ns late", late.p50));
    }
    Ok(())
}

/// The rates of a client's connections, bytes each way.
fn moved(net: &Network, client: Host) -> (u64, u64) {
    let records = net.events(client).iter().filter_map(|(_, event)| match event {
        Event::Connection(record) => Some(record),
        _ => None,
    });
    records.fold((0, 0), |(tx, rx), record| (tx + record.tx_bytes, rx + record.rx_bytes))
}

/// Where the slowest of equal connections moves less than half of the median of its direction.
fn unequal(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    let sums: Vec<_> = scenario
        .participants
        .iter()
        .zip(&outcome.clients)
        .map(|(participant, &client)| (participant.phase.pattern, moved(&outcome.net, client)))
        .collect();
    for (pattern, up) in [(Pattern::Push, true), (Pattern::Pull, false), (Pattern::Duplex, true)] {
        let same = sums.iter().filter(|(of, _)| *of == pattern);
        let mut bytes: Vec<u64> = same.map(|(_, (tx, rx))| if up { *tx } else { *rx }).collect();
        bytes.sort_unstable();
        if let (Some(&least), Some(&median)) = (bytes.first(), bytes.get(bytes.len() / 2))
            && least < median / 2
        {
            return Some(format!("{pattern:?} on {} workers: {bytes:?}", scenario.workers));
        }
    }
    None
}

fn check_service(seed: u64, defect: Option<Defect>) -> Result<(), String> {
    let scenario = mixed(seed);
    let outcome = simulate(&scenario, defect);
    violation(&scenario, &outcome).map_or(Ok(()), |why| Err(format!("seed {seed}: {why}\n{scenario:?}")))
}

fn check_shares(seed: u64, defect: Option<Defect>) -> Result<(), String> {
    let scenario = equal(seed);
    let outcome = simulate(&scenario, defect);
    let why = violation(&scenario, &outcome).or_else(|| unequal(&scenario, &outcome));
    why.map_or(Ok(()), |why| Err(format!("seed {seed}: {why}")))
}

#[test]
fn clients_that_share_a_server_are_served_and_forgotten() {
    for seed in seeds() {
        check_service(seed, None).unwrap_or_else(|why| panic!("{why}\nagain: NETCALIPER_SEED={seed}"));
    }
}

#[test]
fn equal_connections_have_equal_shares() {
    for seed in seeds() {
        check_shares(seed, None).unwrap_or_else(|why| panic!("{why}\nagain: NETCALIPER_SEED={seed}"));
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in seeds().take(3) {
        let trace = || {
            let outcome = simulate(&mixed(seed), None);
            let all = outcome.clients.iter().chain([&outcome.server]);
            all.map(|&host| format!("{:?}", outcome.net.events(host))).collect::<Vec<_>>()
        };
        assert!(trace() == trace(), "seed {seed} went two ways");
    }
}

/// Each mistake that can be planted in the engine is found by the seeds that are tried by default.
#[test]
fn planted_defects_are_found() {
    for defect in Defect::ALL {
        let found = (1..=SEEDS).find(|&seed| {
            let tried = std::panic::catch_unwind(|| {
                check_service(seed, Some(defect)).and_then(|()| check_shares(seed, Some(defect)))
            });
            !matches!(tried, Ok(Ok(())))
        });
        println!("{defect:?}: found by seed {found:?}");
        assert!(found.is_some(), "{defect:?} is found by none of {SEEDS} seeds");
    }
}
