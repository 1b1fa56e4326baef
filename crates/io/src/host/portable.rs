//! Systems that have no reader of their own yet: what the standard library knows, and nothing else.

use super::Texts;
use super::reading::{Counter, Machine};
use std::collections::BTreeMap;
use std::net::IpAddr;
use transport::HostSnapshot;

/// Describes this host: its name where the environment tells, the system's name, the CPUs usable. The interface is not
/// looked up.
pub fn snapshot(_local: Option<IpAddr>) -> HostSnapshot {
    let name =
        ["COMPUTERNAME", "HOSTNAME"].iter().find_map(|key| std::env::var(key).ok()).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    let (clock_error_ns, clock_synced) = crate::clock::wall_clock_state();
    let kernel = std::env::consts::OS.to_owned();
    HostSnapshot { name, kernel, cpus, clock_error_ns, clock_synced, ..HostSnapshot::default() }
}

/// What the driver of an interface counts: cannot be asked here.
pub fn card(_: &str) -> Option<Vec<(String, u64)>> {
    None
}

/// The kernel's counters: it prints none here.
pub fn texts() -> Texts {
    Texts::default()
}

/// How many files the process may open, soft and hard: cannot be asked here.
pub fn rlimit_nofile() -> Option<(u64, u64)> {
    None
}

/// Raises the soft limit of open files to the hard one: there is none here.
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
