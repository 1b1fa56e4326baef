//! What a host is and what it did during a run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host as it stood at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSnapshot {
    /// Host name.
    pub name: String,
    /// Kernel name and release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs this process may run on.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory: u64,
    /// The system's default congestion control.
    pub congestion: String,
    /// Whether the kernel says that the clock is disciplined, and its error bound in ns.
    pub clock_synced: bool,
    /// The kernel's bound on the wall clock's error, ns.
    pub clock_error_ns: u64,
    /// Settings that decide TCP results (`net.ipv4.tcp_rmem`, `tcp_wmem`, `net.core.rmem_max`, …).
    pub sysctl: BTreeMap<String, String>,
    /// The interface that carries the run.
    pub nic: Option<NicSnapshot>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicSnapshot {
    /// Name.
    pub name: String,
    /// Driver, as far as the kernel tells.
    pub driver: String,
    /// MTU, bytes.
    pub mtu: u32,
    /// Link speed, Mbit/s; `None` for virtual links.
    pub speed_mbit: Option<u64>,
    /// Root queueing discipline.
    pub qdisc: String,
    /// Whether the card could stamp packets both ways; nothing here asks it to.
    pub hardware_stamps: bool,
    /// The number of the card's PTP clock (`/dev/ptpN`), if it has one.
    pub phc: Option<u32>,
    /// Offloads that are on (`tso`, `gso`, `gro`, `rx-checksum`, …).
    pub offloads: Vec<String>,
    /// Whether this is the loopback interface.
    pub loopback: bool,
}

/// CPU time spent during a run, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuUse {
    /// By this process, in user mode.
    pub user_s: f64,
    /// By this process, in the kernel.
    pub system_s: f64,
    /// By the whole machine: user, system, interrupts and softirqs (from /proc/stat).
    pub machine_s: f64,
    /// Softirq part of it.
    pub softirq_s: f64,
    /// Time stolen by the hypervisor.
    pub steal_s: f64,
    /// The run's length times the number of CPUs.
    pub available_s: f64,
    /// The busiest CPU's share of the run, 0..=1.
    pub busiest: f64,
}

/// How drop and softirq counters moved during a run; only those that moved are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCounters {
    /// Name to difference, e.g. `TcpExt.ListenDrops`, `softnet.dropped`, `eth0.rx_dropped`.
    pub moved: BTreeMap<String, u64>,
}
