//! What a host is, and what it did between two readings.
//!
//! [`snapshot`] describes the machine once, at the start of a run: kernel, CPUs, memory, the settings that decide TCP
//! results, the state of the clock and the network interface that carries the run. [`Reading::now`] is cheap enough
//! for every interval; [`difference`] makes of two readings the CPU time spent and the drop, error and
//! retransmission counters that moved between them.
//!
//! Nothing here fails: what the system does not tell is absent (`None`, an empty string, a missing key), never a zero
//! that looks like a measurement. Everything about the network is seen in the network namespace of the *calling
//! thread*; the CPU times of [`Usage::machine`] and the `softnet.*` and `softirq.*` counters are the whole machine's.

mod reading;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use portable as system;

#[cfg(target_os = "linux")]
pub(crate) use linux::{interface_errors, stamping};

pub use reading::{MachineUse, ProcessUse, Reading, Usage, difference};
/// The kernel's counters as it prints them, of the calling thread's network namespace; empty where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// `/proc/net/dev`.
    pub dev: String,
    /// `/proc/net/snmp`.
    pub snmp: String,
    /// `/proc/net/snmp6`.
    pub snmp6: String,
    /// `/proc/stat`.
    pub stat: String,
}

pub use system::{
    card, clock_id, clock_state, congestion_control, congestion_controls, connected_networks,
    local_addresses, raise_nofile, rlimit_nofile, snapshot, texts,
};

use std::collections::BTreeMap;

/// A host as it stands now. Empty strings and zeros mean that the system did not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub name: String,
    /// Kernel name and release, e.g. `Linux 6.18.44`.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs this process may run on.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory: u64,
    /// The system's default congestion control.
    pub congestion: String,
    /// What the kernel says of the wall clock; `None` where it cannot be asked.
    pub clock: Option<ClockState>,
    /// Settings that decide results, by their sysctl names (`net.ipv4.tcp_rmem`, …), blanks collapsed to one space.
    pub sysctl: BTreeMap<String, String>,
    /// The interface that owns the local address; `None` when none does, or when none was asked for.
    pub nic: Option<Nic>,
}

/// What the kernel says of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Whether something (NTP, PTP, a hypervisor's agent) keeps the clock disciplined.
    pub synced: bool,
    /// The kernel's bound on the clock's error, ns. It grows by 500 ns a second while no program disciplines the clock, up to 16 s.
    pub max_error_ns: u64,
    /// The estimate of that error which the disciplining program left, ns.
    pub estimated_error_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Name, without an alias' label.
    pub name: String,
    /// Driver, or the kind of a virtual interface (`veth`, `bridge`, …); empty for loopback.
    pub driver: String,
    /// MTU, bytes; 0 when unknown.
    pub mtu: u32,
    /// Link speed, Mbit/s; `None` when unknown, down, or when the interface has no link to speak of.
    pub speed_mbit: Option<u64>,
    /// Root queueing discipline (`fq`, `fq_codel`, `mq`, `noqueue`, …); empty when unknown.
    pub qdisc: String,
    /// Whether the card can stamp packets both ways.
    pub hardware_stamps: bool,
    /// The number of the card's clock, if it has one.
    pub phc: Option<u32>,
    /// The kinds of queueing discipline under a classful root, each once: under `mq` they do the work.
    pub qdisc_children: Vec<String>,
    /// Offloads that are on: `tso`, `gso`, `gro`, `lro`, `rx-checksum`, `tx-checksum`, `scatter-gather`.
    pub offloads: Vec<String>,
    /// Whether this is the loopback interface.
    pub loopback: bool,
}
