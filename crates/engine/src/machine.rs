//! The kernel's plain values as the model's.

use io::host;
use model::{CpuUse, Effective, HostCounters, HostSnapshot, NicSnapshot, SocketSettings};
use std::net::IpAddr;
use std::time::Duration;

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
pub(crate) fn usage(before: &host::Reading, after: &host::Reading) -> (CpuUse, HostCounters) {
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

/// What this host's CPUs do while a run goes on, for those who show it.
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

/// Socket options as the kernel takes them.
pub(crate) fn settings(of: &SocketSettings, device: Option<&str>) -> io::Settings {
    let bytes = |n: Option<u64>| n.map(|n| n.min(u64::from(i32::MAX as u32)) as u32);
    io::Settings {
        sndbuf: bytes(of.sndbuf),
        rcvbuf: bytes(of.rcvbuf),
        nodelay: of.nodelay,
        mss: of.mss,
        congestion: of.congestion.clone(),
        dscp: of.dscp,
        ttl: of.ttl,
        flow_label: of.flow_label,
        keepalive: of.keepalive_ns.map(Duration::from_nanos),
        device: device.map(str::to_owned),
        user_timeout: of.user_timeout_ns.map(Duration::from_nanos),
        pacing: of.pacing,
        multipath: of.multipath,
    }
}

/// The same for UDP sockets.
pub(crate) fn udp_settings(of: &SocketSettings, device: Option<&str>) -> io::UdpSettings {
    let bytes = |n: Option<u64>| n.map(|n| n.min(u64::from(i32::MAX as u32)) as u32);
    io::UdpSettings {
        sndbuf: bytes(of.sndbuf),
        rcvbuf: bytes(of.rcvbuf),
        dscp: of.dscp,
        ttl: of.ttl,
        device: device.map(str::to_owned),
        dont_fragment: of.dont_fragment,
        gso: of.gso,
        gro: of.gro,
        stamps: of.stamps,
        card_stamps: of.card_stamps,
        pacing: of.pacing,
        marks: of.marks,
    }
}

/// Options of a UDP socket as the kernel gave them.
pub(crate) fn effective_udp(of: &io::UdpEffective) -> Effective {
    Effective {
        sndbuf: of.sndbuf.map_or(0, u64::from),
        rcvbuf: of.rcvbuf.map_or(0, u64::from),
        tos: of.tos.unwrap_or_default(),
        ttl: of.ttl.unwrap_or_default(),
        ..Effective::default()
    }
}

/// Socket options as the kernel gave them.
pub(crate) fn effective(of: io::Effective) -> Effective {
    Effective {
        sndbuf: of.sndbuf.map_or(0, u64::from),
        rcvbuf: of.rcvbuf.map_or(0, u64::from),
        nodelay: of.nodelay.unwrap_or_default(),
        mss: of.mss.unwrap_or_default(),
        congestion: of.congestion.unwrap_or_default(),
        tos: of.tos.unwrap_or_default(),
        ttl: of.ttl.unwrap_or_default(),
    }
}

/// Wall time, now.
#[must_use]
pub fn wall_now() -> metrics::Wall {
    io::Clock::new().sample().wall(crate::control::now())
}

/// Whether the process, or the system, has no descriptors left: EMFILE and ENFILE, and what Windows calls the former.
pub(crate) fn is_exhausted(fault: &transport::Fault) -> bool {
    matches!(fault.errno, 23 | 24 | 10_024)
}

/// What cannot be done, and what helps when descriptors have run out.
pub(crate) fn exhausted(what: &str, fault: &transport::Fault) -> String {
    if is_exhausted(fault) {
        format!("{what}: {fault}: raise the limit (ulimit -n, LimitNOFILE= in the service)")
    } else {
        format!("{what}: {fault}")
    }
}
