//! Abilities of a host: the permissions and conditions that decide which measurements can run
//! there, and how exact they are.

use serde::{Deserialize, Serialize};

/// Abilities and present conditions of a host, beyond its [`HostSnapshot`](crate::HostSnapshot).
/// `None`, and an empty list, is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Abilities {
    /// Files that the process may open.
    pub descriptors: Option<Descriptors>,
    /// Congestion controls that the kernel has loaded.
    pub congestion_controls: Vec<String>,
    /// Congestion controls that users without privilege may choose.
    pub congestion_allowed: Vec<String>,
    /// The clock behind the kernel's time (`tsc`, `kvm-clock`, `hpet`, …).
    pub clock_source: Option<String>,
    /// The clocks that the kernel could take instead, the one in use among them.
    pub clock_sources: Vec<String>,
    /// Smallest step of the monotonic clock between two readings, ns.
    pub clock_step_ns: Option<u64>,
    /// Time of one reading of the monotonic clock, ns.
    pub clock_read_ns: Option<u64>,
    /// Abilities of UDP sockets.
    pub datagrams: Option<UdpAbility>,
    /// Network namespaces, of which the lab makes two.
    pub namespaces: Option<Permission>,
    /// TUN devices, through which the lab forwards.
    pub tun: Option<Permission>,
    /// Raw sockets.
    pub raw_sockets: Option<Permission>,
    /// ICMP echo sockets without privilege (`net.ipv4.ping_group_range`).
    pub icmp_sockets: Option<Permission>,
    /// The frequency governors of the CPUs, each once.
    pub governors: Vec<String>,
    /// Share of the CPUs' time that was in use while the abilities were read, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// Share of the CPUs' time that the hypervisor took meanwhile, 0 to 1.
    pub cpu_steal: Option<f64>,
    /// The table of tracked connections; `None` where no firewall tracks any.
    pub tracked: Option<TrackedConnections>,
    /// Treatment of incoming packets without a rule; `None` where the firewall cannot be read.
    pub firewall: Option<FirewallPolicy>,
}

/// Limits of open files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Descriptors {
    /// The limit in force.
    pub soft: u64,
    /// The highest limit that the process may set itself.
    pub hard: u64,
}

/// A use of the system that needs a privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Tried, and permitted.
    Granted,
    /// The system has it, and this user may not use it.
    Denied,
    /// The system does not have it.
    Absent,
}

/// Abilities of the system's UDP sockets, found by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpAbility {
    /// Most datagrams in one send (generic segmentation); 1 without it. A path may still refuse it.
    pub segments: usize,
    /// Datagrams of one size arrive merged (generic receive offload).
    pub gro: bool,
    /// The kernel stamps arrivals.
    pub receive_stamps: bool,
    /// The kernel stamps departures.
    pub transmit_stamps: bool,
}

/// The table of connections that the kernel's firewall follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrackedConnections {
    /// Connections in the table.
    pub count: u64,
    /// Most connections that fit.
    pub limit: u64,
}

/// The firewall's treatment of incoming packets that no rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FirewallPolicy {
    /// No chain of rules is in the way of incoming packets.
    Open,
    /// Packets pass unless a rule drops them.
    Accept,
    /// Packets are dropped unless a rule lets them pass.
    Drop,
}

/// Result of a TCP connection to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Connecting {
    /// Established.
    #[default]
    Connected,
    /// Answered with a reset.
    Refused,
    /// No answer.
    Silent,
    /// A router, or this host's own routes, refused it.
    Unreachable,
    /// Refused by this host's own firewall.
    Forbidden,
}
