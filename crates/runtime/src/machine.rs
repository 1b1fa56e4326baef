//! What this host is and does, as results tell it.

use io::host;
use model::{CpuUse, HostCounters, HostSnapshot, NicSnapshot};
use std::net::IpAddr;

/// This host, and the interface that owns `local`.
#[must_use]
pub fn snapshot(local: Option<IpAddr>) -> HostSnapshot {
    let s = host::snapshot(local);
    let clock = s.clock;
    HostSnapshot {
        name: s.name,
        kernel: s.kernel,
        cpu: s.cpu,
        cpus: s.cpus,
        memory: s.memory,
        congestion: s.congestion,
        clock_synced: clock.as_ref().is_some_and(|c| c.synced),
        clock_error_ns: clock.map_or(u64::MAX, |c| c.max_error_ns),
        sysctl: s.sysctl,
        nic: s.nic.map(|nic| NicSnapshot {
            name: nic.name,
            driver: nic.driver,
            mtu: nic.mtu,
            speed_mbit: nic.speed_mbit,
            qdisc: nic.qdisc,
            hardware_stamps: nic.hardware_stamps,
            phc: nic.phc,
            offloads: nic.offloads,
            loopback: nic.loopback,
        }),
    }
}

/// What the host did between two readings.
fn usage(before: &host::Reading, after: &host::Reading) -> (CpuUse, HostCounters) {
    let usage = host::difference(before, after);
    let (process, machine) = (usage.process.unwrap_or_default(), usage.machine.unwrap_or_default());
    let cpu = CpuUse {
        user_s: process.user_s,
        system_s: process.system_s,
        machine_s: machine.busy_s,
        softirq_s: machine.softirq_s,
        steal_s: machine.steal_s,
        available_s: machine.available_s,
        busiest: machine.busiest,
    };
    (cpu, HostCounters { moved: usage.moved })
}

/// Starts measuring what the host does, and tells it since then.
pub(crate) fn meter() -> Box<dyn Fn() -> (CpuUse, HostCounters) + Send> {
    let before = host::Reading::now();
    Box::new(move || usage(&before, &host::Reading::now()))
}

/// Load of this host's CPUs during a run, for live views.
#[derive(Debug)]
pub struct CpuMeter {
    began: host::Reading,
    last: host::Reading,
}

impl Default for CpuMeter {
    fn default() -> Self {
        let now = host::Reading::of_cpus();
        CpuMeter { began: now.clone(), last: now }
    }
}

impl CpuMeter {
    /// Since it was made, and since it was asked last.
    pub fn lap(&mut self) -> (CpuUse, CpuUse) {
        let now = host::Reading::of_cpus();
        let used = (usage(&self.began, &now).0, usage(&self.last, &now).0);
        self.last = now;
        used
    }
}

/// Wall time, now.
#[must_use]
pub fn wall_now() -> metrics::Wall {
    io::Clock::new().sample().wall(crate::session::now())
}
