//! Systems without a reader of their own: the facts of the standard library, and nothing else.

use super::Texts;
use super::reading::{Counter, Machine};
use std::collections::BTreeMap;
use std::net::IpAddr;
use transport::{Abilities, HostSnapshot};

/// Describes this host: its name from the environment, the system's name, the usable CPUs. The
/// interface is not looked up.
pub fn snapshot(_local: Option<IpAddr>) -> HostSnapshot {
    let name =
        ["COMPUTERNAME", "HOSTNAME"].iter().find_map(|key| std::env::var(key).ok()).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    let (clock_error_ns, clock_synced) = crate::clock::wall_clock_state();
    let kernel = std::env::consts::OS.to_owned();
    HostSnapshot { name, kernel, cpus, clock_error_ns, clock_synced, ..HostSnapshot::default() }
}

/// Abilities that only this system's own calls could find: none is known here.
pub(super) fn abilities() -> Abilities {
    Abilities::default()
}

/// The driver's counters of an interface: not available here.
pub fn card(_: &str) -> Option<Vec<(String, u64)>> {
    None
}

/// The number of an interface by its number: names cannot be asked here.
pub fn interface_index(zone: &str) -> Option<u32> {
    zone.parse().ok()
}

/// The kernel's counters: it prints none here.
pub fn texts() -> Texts {
    Texts::default()
}

/// Soft and hard limit of open files: not available here.
#[cfg(not(unix))]
pub fn rlimit_nofile() -> Option<(u64, u64)> {
    None
}

/// Raises the soft limit of open files to the hard one: there is none here.
#[cfg(not(unix))]
pub fn raise_nofile() -> Option<(u64, u64)> {
    None
}

/// Addresses of this host with the names of their interfaces: cannot be asked here.
pub fn local_addresses() -> Vec<(String, IpAddr)> {
    Vec::new()
}

/// The networks of this host's interfaces: cannot be asked here.
pub fn connected_networks() -> Vec<(IpAddr, u8)> {
    Vec::new()
}

pub(super) fn process_use() -> Option<(f64, f64)> {
    None
}

pub(super) fn machine() -> Option<Machine> {
    None
}

pub(super) fn counters() -> BTreeMap<String, Counter> {
    BTreeMap::new()
}

/// The congestion controls that can be chosen: not known here.
pub fn congestion_controls() -> Vec<String> {
    Vec::new()
}

/// Identifies the clock that this process reads: not known here.
pub fn clock_id() -> String {
    String::new()
}

/// The system's default congestion control: not known here.
pub fn congestion_control() -> String {
    String::new()
}
