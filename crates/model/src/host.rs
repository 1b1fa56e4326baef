//! Facts of a host, and its activity during a run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host as it stood at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostSnapshot {
    /// Host name.
    pub name: String,
    /// Kernel name and release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs the process may run on.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory: u64,
    /// The system's default congestion control.
    pub congestion: String,
    /// True if the kernel says that the wall clock is disciplined.
    pub clock_synced: bool,
    /// The kernel's bound on the wall clock's error, ns.
    pub clock_error_ns: u64,
    /// Kernel settings that decide TCP results, name to value (`net.ipv4.tcp_rmem`,
    /// `net.core.rmem_max`, …).
    pub sysctl: BTreeMap<String, String>,
    /// The interface that carries the run; `None` when not known.
    pub nic: Option<NicSnapshot>,
    /// Limits of the control group of the process; `None` without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowance: Option<CgroupLimits>,
}

/// Limits of a control group; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CgroupLimits {
    /// CPU time for each second, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
}

/// The settings that a figure of the network can hang on.
const TOLD_WITHOUT_A_KEY: [&str; 13] = [
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

impl HostSnapshot {
    /// The part of the snapshot for peers without proof of the key: the data that the figures need,
    /// without the host's identity or its weaknesses. The kernel has its name and series, without
    /// its build.
    pub fn without_identity(&self) -> HostSnapshot {
        let series = |kernel: &str| {
            let (name, release) = kernel.split_once(' ')?;
            let mut numbers = release.split(|c: char| !c.is_ascii_digit());
            Some(format!("{name} {}.{}", numbers.next()?, numbers.next()?))
        };
        let mut sysctl = self.sysctl.clone();
        sysctl.retain(|key, _| TOLD_WITHOUT_A_KEY.contains(&key.as_str()));
        HostSnapshot {
            kernel: series(&self.kernel).unwrap_or_default(),
            cpus: self.cpus,
            congestion: self.congestion.clone(),
            clock_synced: self.clock_synced,
            clock_error_ns: self.clock_error_ns,
            allowance: self.allowance,
            sysctl,
            nic: self.nic.as_ref().map(|nic| NicSnapshot {
                name: String::new(),
                driver: String::new(),
                phc: None,
                ..nic.clone()
            }),
            ..HostSnapshot::default()
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NicSnapshot {
    /// Name.
    pub name: String,
    /// Driver, if the kernel reports it.
    pub driver: String,
    /// MTU, bytes.
    pub mtu: u32,
    /// Link speed, Mbit/s; `None` for virtual links.
    pub speed_mbit: Option<u64>,
    /// Root queueing discipline.
    pub qdisc: String,
    /// True if the card could stamp packets both ways.
    pub hardware_stamps: bool,
    /// The number of the card's PTP clock (`/dev/ptpN`), if it has one.
    pub phc: Option<u32>,
    /// Offloads that are on (`tso`, `gso`, `gro`, `rx-checksum`, …).
    pub offloads: Vec<String>,
    /// True for the loopback interface.
    pub loopback: bool,
}

/// CPU time spent during a run, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CpuUse {
    /// By this process in user mode, s.
    pub user_s: f64,
    /// By this process in the kernel, s.
    pub system_s: f64,
    /// By the whole machine: user, system, interrupts and softirqs (from /proc/stat), s.
    pub machine_s: f64,
    /// Softirq part of `machine_s`, s.
    pub softirq_s: f64,
    /// Time stolen by the hypervisor, s.
    pub steal_s: f64,
    /// The run's length times the number of CPUs, s.
    pub available_s: f64,
    /// The busiest CPU's share of the run, 0 to 1.
    pub busiest: f64,
    /// The run's length, s; 0 when unknown.
    pub wall_s: f64,
}

/// Changes of drop and softirq counters during a run; unchanged ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostCounters {
    /// Name to difference: `TcpExt.ListenDrops`, `softnet.dropped`, `eth0.rx_dropped`, ….
    pub moved: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_without_the_key_learn_what_figures_need_and_not_which_host_it_is() {
        let settings = [
            ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
            ("net.ipv4.udp_mem", "766 1021 1532"),
            ("net.netfilter.nf_conntrack_max", "65536"),
        ];
        let host = HostSnapshot {
            name: "db7.corp.example".to_owned(),
            kernel: "Linux 6.1.0-18-amd64".to_owned(),
            cpu: "Some CPU @ 3 GHz".to_owned(),
            cpus: 8,
            memory: 1 << 34,
            congestion: "bbr".to_owned(),
            clock_synced: true,
            clock_error_ns: 5,
            sysctl: settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            nic: Some(NicSnapshot {
                name: "enp3s0".to_owned(),
                driver: "ixgbe".to_owned(),
                mtu: 9_000,
                offloads: vec!["tso".to_owned()],
                phc: Some(1),
                ..NicSnapshot::default()
            }),
            allowance: None,
        };
        let told = host.without_identity();
        let nic = NicSnapshot { mtu: 9_000, offloads: vec!["tso".to_owned()], ..NicSnapshot::default() };
        let (rmem, value) = settings[0];
        let expected = HostSnapshot {
            kernel: "Linux 6.1".to_owned(),
            cpus: 8,
            congestion: "bbr".to_owned(),
            clock_synced: true,
            clock_error_ns: 5,
            sysctl: [(rmem.to_owned(), value.to_owned())].into(),
            nic: Some(nic),
            ..HostSnapshot::default()
        };
        assert_eq!(told, expected);
        for odd in ["", "Linux", "Linux ", "Windows x"] {
            let host = HostSnapshot { kernel: odd.to_owned(), ..HostSnapshot::default() };
            assert!(!host.without_identity().kernel.contains('x'), "{odd}");
        }
    }
}
