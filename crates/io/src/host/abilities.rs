//! Abilities of this host, each found by use where that changes nothing.

use super::reading::{Reading, difference};
use super::system;
use crate::Clock;
use crate::udp::known_ability;
use std::time::Duration;
use transport::Abilities;

/// Time in which other programs' use of the CPUs, and steal, are measured.
const WATCH: Duration = Duration::from_millis(300);
/// Readings of the clock in a batch, and batches, of which the fastest counts.
const READINGS: u64 = 500;
const BATCHES: u32 = 20;
/// Readings within which the clock must have moved once.
const MOST_READINGS: u32 = 2_000_000;

/// The abilities of this host, in the network namespace of the calling thread. Takes about
/// [`WATCH`]; cannot fail.
pub fn abilities() -> Abilities {
    let before = Reading::of_cpus();
    std::thread::sleep(WATCH);
    let (used, _) = difference(&before, &Reading::of_cpus());
    let share = |seconds: f64| (used.available_s > 0.0).then(|| (seconds / used.available_s).clamp(0.0, 1.0));
    let (clock_step_ns, clock_read_ns) = clock_grain();
    Abilities {
        clock_step_ns,
        clock_read_ns: Some(clock_read_ns),
        datagrams: known_ability(),
        cpu_busy: share(used.machine_s),
        cpu_steal: share(used.steal_s),
        ..system::abilities()
    }
}

/// Smallest step between two readings of the monotonic clock, and the time of one reading, ns.
fn clock_grain() -> (Option<u64>, u64) {
    let clock = Clock::new();
    let mut fastest = u64::MAX;
    for _ in 0..BATCHES {
        let begun = clock.now();
        let last = (0..READINGS).fold(begun, |_, _| clock.now());
        fastest = fastest.min(last.since(begun) / READINGS);
    }
    let (mut last, mut step) = (clock.now(), None);
    for reading in 0..MOST_READINGS {
        let now = clock.now();
        let by = now.since(last);
        last = now;
        if by > 0 {
            step = Some(step.map_or(by, |smallest: u64| smallest.min(by)));
        }
        if step.is_some() && u64::from(reading) >= READINGS {
            break;
        }
    }
    (step, fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_abilities_of_this_host_are_found() {
        let found = abilities();
        assert!(found.clock_read_ns.is_some_and(|ns| ns < 1_000_000), "{found:?}");
        assert!(found.clock_step_ns.is_some_and(|ns| ns > 0), "{found:?}");
        if cfg!(target_os = "linux") {
            assert!(found.descriptors.is_some_and(|limit| limit.soft <= limit.hard), "{found:?}");
            assert!(found.cpu_busy.is_some_and(|share| (0.0..=1.0).contains(&share)), "{found:?}");
            for known in [found.namespaces, found.tun, found.raw_sockets, found.icmp_sockets] {
                assert!(known.is_some(), "{found:?}");
            }
        }
    }
}
