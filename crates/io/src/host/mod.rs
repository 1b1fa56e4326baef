//! Facts of a host, and its activity between two readings.
//!
//! [`snapshot`] describes the machine once, at the start of a run: kernel, CPUs, memory, the
//! settings that decide TCP results, the state of the clock and the network interface that carries
//! the run. [`Reading::now`] is cheap enough for every interval; [`difference`] makes of two
//! readings the CPU time spent and the drop, error and retransmission counters that moved between
//! them.
//!
//! Nothing here fails: a fact that the system does not report is an empty value or a missing key.
//! Everything about the network is seen in the network namespace of the *calling thread*; the CPU
//! times of the machine and the `softnet.*` and `softirq.*` counters are the whole machine's.

mod abilities;
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
pub(crate) use linux::{interface_errors, stamping, ticks_per_second};

pub use abilities::abilities;
pub use reading::{Reading, difference};
/// The kernel's counters as it prints them, of the calling thread's network namespace; empty where
/// it does not.
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

#[cfg(unix)]
pub use crate::sys::unix::{raise_nofile, rlimit_nofile};
pub use system::{
    card, clock_id, congestion_control, congestion_controls, connected_networks, interface_index,
    local_addresses, snapshot, texts,
};
#[cfg(not(unix))]
pub use system::{raise_nofile, rlimit_nofile};
