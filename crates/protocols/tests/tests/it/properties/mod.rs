//! Properties of clients that share a server, over seeds, on the engine that ships.
//!
//! By default so many seeds are tried as fit in 0.3 s of CPU time each property.
//! `NETCALIPER_SEEDS=1000` tries that many, however long it takes, or with
//! `NETCALIPER_SEEDS_TIME=30` for at most 30 s of CPU time a property; `NETCALIPER_SEED=17` tries
//! that one alone. A failure names its seed and the command that repeats it.

mod defects;
mod exhausted;
mod native;
mod together;

use model::{Pattern, Phase, Range};
use sim::{Host, Network};
use std::time::{Duration, Instant};
use transport::{Defect, Held, Rng};

use crate::support::run::MS;
use metrics::SECOND;

/// CPU time for the seeds of one property by default.
const TIME: Duration = Duration::from_millis(300);
/// Seeds of one property by default.
const SEEDS: u64 = 50;

/// CPU time of this thread, where the system tells; else how long it has run.
#[expect(clippy::disallowed_methods, reason = "the tests' own time is limited, not that of what they test")]
fn spent(began: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let cpu = told.and_then(|text| text.split(' ').next()?.parse().ok()).map(Duration::from_nanos);
    cpu.unwrap_or_else(|| Instant::now().duration_since(began))
}

#[expect(clippy::disallowed_methods, reason = "the tests' own time is limited, not that of what they test")]
fn seeds() -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (one, many) = (number("NETCALIPER_SEED"), number("NETCALIPER_SEEDS"));
    let asked = number("NETCALIPER_SEEDS_TIME").map(Duration::from_secs);
    let most = asked.or((one.is_none() && many.is_none()).then_some(TIME));
    let range = one.map_or(1..many.unwrap_or(SEEDS) + 1, |seed| seed..seed + 1);
    let began = Instant::now();
    let before = spent(began);
    range.take_while(move |_| most.is_none_or(|most| spent(began).saturating_sub(before) < most))
}

/// What does not hold under a seed.
type Check = fn(u64, Option<Defect>) -> Result<(), String>;

fn try_seeds(test: &str, check: Check) {
    for seed in seeds() {
        let tried = std::panic::catch_unwind(|| check(seed, None));
        let why = match tried {
            Ok(Ok(())) => continue,
            Ok(Err(why)) => why,
            Err(_) => "a panic, told above".to_owned(),
        };
        panic!(
            "seed {seed}: {why}\nagain: NETCALIPER_SEED={seed} cargo test -p protocol-tests --test it -- {test}"
        );
    }
}

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.between(0, of.len() as u64 - 1) as usize]
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

/// Timers that a thread may keep beyond two for each link.
const SPARE_TIMERS: usize = 64;
/// How long a worker of a machine of usual speed may take for one round, ns: 64 turns, each of
/// which moves up to 64 KiB there and back in some 20 µs, and as many new links. What is due
/// meanwhile waits for that.
const ROUND: u64 = 3 * MS / 2;

/// What a machine may keep and how late it may be.
struct Bounds {
    links: usize,
    /// Peers, or sessions of its own.
    peers: usize,
    threads: usize,
    slowness: u64,
}

/// Whether a machine's memory stayed within what its links and peers justify, and what was due was
/// done within a round.
fn bounded(net: &Network, host: Host, bounds: &Bounds) -> Result<(), String> {
    let (_, most) = net.load(host);
    let Held { links, timers, messages, bytes } = most.held;
    let limits = [
        ("links", links, bounds.links),
        ("flows", most.flows, bounds.links),
        ("timers", timers, 2 * bounds.links + SPARE_TIMERS * bounds.threads),
        ("messages", messages, MESSAGES * (bounds.links + bounds.threads)),
        ("bytes", bytes, BYTES * bounds.peers),
    ];
    if let Some((what, had, limit)) = limits.into_iter().find(|(_, had, limit)| had > limit) {
        return Err(format!("{had} {what} at once, and not {limit} at most"));
    }
    let (late, limit) = (net.latest(host), bounds.slowness * ROUND + MS);
    if late > limit {
        return Err(format!("something was due {late} ns ago, and not {limit} at most"));
    }
    Ok(())
}

/// Messages between threads that a link or a thread may have under way.
const MESSAGES: usize = 16;
/// Bytes that may wait to be sent to one peer's control link.
const BYTES: usize = 64 * 1024;

/// Whether a machine has forgotten all its peers. It may keep groups of its own, for which each
/// worker is sent the memory of its last counts back without being woken.
fn forgotten(net: &Network, host: Host, own: usize, workers: u16) -> Result<(), String> {
    let (now, _) = net.load(host);
    let Held { links, messages, bytes, .. } = now.held;
    let left = net.open(host);
    if left != (0, 0) || net.groups(host) > own {
        return Err(format!("there still are {left:?} links and {} groups", net.groups(host)));
    }
    if (links, now.flows, bytes) != (0, 0, 0) || messages > own * usize::from(workers) {
        return Err(format!("memory is kept after the last peer has left: {now:?}"));
    }
    Ok(())
}

#[test]
fn clients_that_share_a_server_are_served_and_forgotten() {
    try_seeds("clients_that_share_a_server", native::check_service);
}

#[test]
fn equal_connections_have_equal_shares() {
    try_seeds("equal_connections", native::check_shares);
}

#[test]
fn protocols_that_share_a_machine_leave_each_other_alone() {
    try_seeds("protocols_that_share_a_machine", together::check);
}

#[test]
fn a_server_without_descriptors_says_so_and_goes_on() {
    try_seeds("a_server_without_descriptors", exhausted::check);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in seeds().take(3) {
        assert!(native::trace(seed) == native::trace(seed), "seed {seed} went two ways");
        assert_eq!(together::trace(seed), together::trace(seed), "seed {seed} went two ways");
    }
}
