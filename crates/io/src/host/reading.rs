//! Two readings and their difference. The systems' modules read; this one evaluates.

use super::system;
use metrics::real;
use std::collections::BTreeMap;
use std::time::Instant;
use transport::{CpuUse, HostCounters};

/// All counters of this host at one instant. Taken at the start and at the end of the measured
/// time.
#[derive(Clone, Debug)]
pub struct Reading {
    at: Instant,
    /// CPU time of this process, all its threads together: in user mode and in the kernel, seconds.
    /// Packets received in softirqs are not in it.
    process: Option<(f64, f64)>,
    machine: Option<Machine>,
    counters: BTreeMap<String, Counter>,
}

impl Reading {
    /// Reads the CPU times only: some tens of µs.
    pub fn of_cpus() -> Self {
        Self {
            at: Instant::now(),
            process: system::process_use(),
            machine: system::machine(),
            counters: BTreeMap::new(),
        }
    }

    /// Reads everything now. Well under 10 ms, and it cannot fail: what cannot be read is absent
    /// from the difference.
    pub fn now() -> Self {
        Self { counters: system::counters(), ..Self::of_cpus() }
    }
}

/// CPU times of the machine since it was started, in clock ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) ticks_per_second: u64,
    /// All CPUs together, including CPUs that are offline now.
    pub(super) total: Ticks,
    /// By CPU number; CPUs that are switched off are missing.
    pub(super) cpus: BTreeMap<u32, Ticks>,
}

/// Ticks of a CPU by their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// user + nice + system + irq + softirq (guests are part of user).
    pub(super) busy: u64,
    /// idle + iowait.
    pub(super) idle: u64,
    /// The softirq part of `busy`.
    pub(super) softirq: u64,
    /// Taken by the hypervisor while there was work to do.
    pub(super) steal: u64,
}

impl Ticks {
    /// Each field on its own: the kernel's idle and iowait can run backwards by a tick.
    fn since(self, before: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            softirq: self.softirq.saturating_sub(before.softirq),
            steal: self.steal.saturating_sub(before.steal),
        }
    }
}

/// A counter that only grows.
#[cfg_attr(
    not(any(target_os = "linux", test)),
    expect(dead_code, reason = "other systems count nothing yet")
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// Wide enough never to wrap.
    Wide(u64),
    /// One 32-bit counter for each CPU, by CPU number. Each wraps on its own, so they are
    /// subtracted before they are added up: exact while none of them moves by 2^32 between two
    /// readings.
    PerCpu(BTreeMap<u32, u32>),
}

impl Counter {
    /// Movement of a counter; `None` when it ran backwards (its owner was made anew).
    fn since(&self, before: &Counter) -> Option<u64> {
        match (self, before) {
            (Counter::Wide(after), Counter::Wide(before)) => after.checked_sub(*before),
            (Counter::PerCpu(after), Counter::PerCpu(before)) => {
                let moved = |(cpu, now): (&u32, &u32)| Some(u64::from(now.wrapping_sub(*before.get(cpu)?)));
                Some(after.iter().filter_map(moved).sum())
            }
            _ => None,
        }
    }
}

/// CPU time spent from `before` to `after`, and the counters that moved.
pub fn difference(before: &Reading, after: &Reading) -> (CpuUse, HostCounters) {
    let wall_s = after.at.saturating_duration_since(before.at).as_secs_f64();
    let machine = before.machine.as_ref().zip(after.machine.as_ref());
    let mut used = machine.map_or_else(CpuUse::default, |(before, after)| machine_use(before, after, wall_s));
    if let Some((before, after)) = before.process.zip(after.process) {
        used.user_s = (after.0 - before.0).max(0.0);
        used.system_s = (after.1 - before.1).max(0.0);
    }
    let moved = |(name, now): (&String, &Counter)| {
        let by = now.since(before.counters.get(name)?).filter(|by| *by > 0)?;
        Some((name.clone(), by))
    };
    (used, HostCounters { moved: after.counters.iter().filter_map(moved).collect() })
}

fn machine_use(before: &Machine, after: &Machine, wall_s: f64) -> CpuUse {
    let hz = real(after.ticks_per_second.max(1));
    let seconds = |ticks: u64| real(ticks) / hz;
    let total = after.total.since(before.total);
    // Over a span of a few ticks a CPU's own account can be shorter than the span: one busy tick
    // must not look like 100 %.
    let share = |(cpu, now): (&u32, &Ticks)| {
        let spent = now.since(*before.cpus.get(cpu)?);
        let taken = spent.busy + spent.steal;
        let whole = seconds(taken + spent.idle).max(wall_s);
        (whole > 0.0).then(|| (seconds(taken) / whole).clamp(0.0, 1.0))
    };
    CpuUse {
        machine_s: seconds(total.busy),
        softirq_s: seconds(total.softirq),
        steal_s: seconds(total.steal),
        available_s: wall_s * real(after.cpus.len()),
        busiest: after.cpus.iter().filter_map(share).fold(0.0, f64::max),
        wall_s,
        ..CpuUse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn reading(at: Instant) -> Reading {
        Reading { at, process: None, machine: None, counters: BTreeMap::new() }
    }

    fn ticks(busy: u64, idle: u64) -> Ticks {
        Ticks { busy, idle, softirq: 0, steal: 0 }
    }

    #[test]
    fn what_is_absent_in_one_reading_is_absent_in_the_difference() {
        let at = Instant::now();
        let (mut before, mut after) = (reading(at), reading(at + Duration::from_secs(2)));
        before.counters.insert("only.before".into(), Counter::Wide(3));
        after.counters.insert("only.after".into(), Counter::Wide(3));
        after.process = Some((9.0, 9.0));
        assert_eq!(difference(&before, &after), Default::default());
    }

    #[test]
    fn only_counters_that_moved_are_kept() {
        let at = Instant::now();
        let (mut before, mut after) = (reading(at), reading(at));
        for (name, from, to) in [("still", 7, 7), ("moved", 7, 12), ("made.anew", 7, 2)] {
            before.counters.insert(name.into(), Counter::Wide(from));
            after.counters.insert(name.into(), Counter::Wide(to));
        }
        assert_eq!(difference(&before, &after).1.moved, BTreeMap::from([("moved".to_owned(), 5)]));
    }

    #[test]
    fn counters_of_a_cpu_wrap_on_their_own() {
        let before = Counter::PerCpu(BTreeMap::from([(0, u32::MAX - 1), (1, 100), (5, 8)]));
        // CPU 0 wrapped (+5), CPU 1 +10, CPU 5 was switched off, CPU 7 on: neither can be said.
        let after = Counter::PerCpu(BTreeMap::from([(0, 3), (1, 110), (7, 1_000_000)]));
        assert_eq!(after.since(&before), Some(15));
        assert_eq!(after.since(&Counter::Wide(1)), None);
    }

    #[test]
    fn cpu_seconds_and_the_busiest_cpu() {
        let machine = |total: Ticks, zero: Ticks, one: Ticks| Machine {
            ticks_per_second: 100,
            total,
            cpus: BTreeMap::from([(0, zero), (1, one)]),
        };
        let before = machine(ticks(1000, 5000), ticks(500, 2500), ticks(500, 2500));
        let zero = ticks(550, 2950); // 0.5 s busy of 5 s
        let one = Ticks { busy: 700, idle: 2600, softirq: 120, steal: 200 }; // 2 s busy, 2 s stolen, 1 s idle
        let total = Ticks { busy: 1250, idle: 5550, softirq: 120, steal: 200 };
        let wall_s = 5.0;
        let usage = machine_use(&before, &machine(total, zero, one), wall_s);
        let (machine_s, softirq_s, steal_s, available_s, busiest) = (2.5, 1.2, 2.0, 10.0, 0.8);
        assert_eq!(
            usage,
            CpuUse { machine_s, softirq_s, steal_s, available_s, busiest, wall_s, ..CpuUse::default() }
        );
    }

    #[test]
    fn a_single_tick_in_a_short_span_is_not_saturation() {
        let machine = |busy| Machine {
            ticks_per_second: 100,
            total: ticks(busy, 100),
            cpus: BTreeMap::from([(0, ticks(busy, 100))]),
        };
        let usage = machine_use(&machine(10), &machine(11), 0.1);
        assert!((usage.busiest - 0.1).abs() < 1e-9, "{usage:?}");
        // A span of no length at all divides by nothing.
        assert_eq!(machine_use(&machine(10), &machine(10), 0.0).busiest, 0.0);
    }

    #[test]
    fn idle_that_runs_backwards_does_not_wrap() {
        assert_eq!(ticks(5, 99).since(ticks(4, 100)), ticks(1, 0));
    }
}
