//! Linux: `/proc`, a few system calls, and the kernel's answers over sockets.

mod abilities;
mod cgroup;
mod counters;
mod firewall;
mod netlink;
mod nic;
mod routes;
mod stat;
mod sys;

pub(super) use abilities::abilities;
pub(crate) use counters::interface_errors;
pub(crate) use nic::stamping;
pub use routes::connected_networks;
pub(super) use stat::machine;
pub(super) use sys::process_use;
pub(crate) use sys::ticks_per_second;

/// Addresses of this host with the names of their interfaces.
pub fn local_addresses() -> Vec<(String, IpAddr)> {
    sys::addresses().into_iter().filter_map(|address| Some((address.label, address.ip?))).collect()
}

/// The number of an interface of the calling thread's network namespace, by its name or its number.
pub fn interface_index(zone: &str) -> Option<u32> {
    sys::index_of(zone).or_else(|| zone.parse().ok().filter(|index| sys::has_interface(*index)))
}

use super::Texts;
use super::reading::Counter;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use transport::HostSnapshot;

/// The settings a snapshot keeps. Settings that the kernel, or this network namespace, lacks are
/// left out.
const SYSCTLS: &[&str] = &[
    // Buffers.
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.udp_mem",
    // Behaviour of TCP.
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    // Limits of connections.
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.netfilter.nf_conntrack_max",
    // Queues between card and socket.
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
];

/// Identifies the clock that this process reads: this boot of this host, and the time namespace
/// with its offsets, which move the monotonic clock; empty when the boot is unknown. Processes with
/// one identifier read one clock, unless a virtual machine was cloned: snapshots share all of it.
pub fn clock_id() -> String {
    // One across all containers and network namespaces.
    let boot = sysctl("kernel.random.boot_id").unwrap_or_default();
    if boot.is_empty() {
        return boot;
    }
    // Neither file is there before Linux 5.6, which has no time namespaces.
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let offsets: Vec<&str> = offsets.split_whitespace().collect();
    format!("{boot} {} {}", namespace.display(), offsets.join(" "))
}

/// The system's default congestion control, by the kernel's name.
pub fn congestion_control() -> String {
    sysctl("net.ipv4.tcp_congestion_control").unwrap_or_default()
}

/// The congestion controls that can be chosen now, by the kernel's names.
pub fn congestion_controls() -> Vec<String> {
    let known = sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    known.split_whitespace().map(str::to_owned).collect()
}

/// Describes this host, and the interface that owns `local`, as seen in the calling thread's
/// network namespace.
///
/// The interface is the loopback where both ends are on this host: the kernel routes such traffic
/// through it, whichever interface owns the addresses.
pub fn snapshot(local: Option<IpAddr>) -> HostSnapshot {
    let (name, kernel) = sys::names().unwrap_or_default();
    let cpus = || std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok());
    let setting = |name: &&str| Some(((*name).to_owned(), sysctl(name)?));
    let (clock_error_ns, clock_synced) = crate::clock::wall_clock_state();
    HostSnapshot {
        name,
        kernel,
        cpu: stat::model().unwrap_or_default(),
        // A machine with more CPUs than a cpu_set_t has bits (1024) is counted by the standard
        // library.
        cpus: sys::usable_cpus().or_else(cpus).unwrap_or(0),
        memory: memory(&proc("meminfo").unwrap_or_default()).unwrap_or(0),
        congestion: congestion_control(),
        allowance: cgroup::allowance(),
        clock_synced,
        clock_error_ns,
        sysctl: SYSCTLS.iter().filter_map(setting).collect(),
        nic: local.and_then(nic::nic),
    }
}

/// The driver's counters of an interface of the calling thread's network namespace, by the names of
/// `ethtool -S`; `None` when there is no such interface.
pub fn card(name: &str) -> Option<Vec<(String, u64)>> {
    sys::index_of(name)?;
    // Any socket answers questions about interfaces.
    let socket = UnixDatagram::unbound().ok();
    Some(socket.and_then(|socket| sys::driver_counters(&socket, name)).unwrap_or_default())
}

/// The kernel's counters as it prints them.
pub fn texts() -> Texts {
    let net = |file| net(file).unwrap_or_default();
    Texts { dev: net("dev"), snmp: net("snmp"), snmp6: net("snmp6"), stat: proc("stat").unwrap_or_default() }
}

pub(super) fn counters() -> BTreeMap<String, Counter> {
    let mut all = counters::counters(proc, net);
    // Number of times that this process lost its CPU although it had work, which it then did late.
    if let Some(times) = sys::preempted() {
        all.insert("process.preempted".to_owned(), Counter::Wide(times));
    }
    let held = cgroup::held_back();
    let held = [
        ("cgroup.nr_throttled", held.periods),
        ("cgroup.throttled_us", held.throttled_us),
        ("cgroup.memory_limit_hits", held.memory),
        ("cgroup.task_limit_hits", held.tasks),
    ];
    all.extend(held.map(|(name, n)| (name.to_owned(), Counter::Wide(n))));
    // Drops of interfaces without a queue never move; those of other interfaces wrap at 2^32, like
    // a CPU's counters.
    let names: Vec<String> =
        all.keys().filter_map(|name| name.strip_suffix(".tx_dropped").map(str::to_owned)).collect();
    let drops = netlink::drops();
    for name in names {
        if let Some(found) = sys::index_of(&name).and_then(|index| drops.get(&index)) {
            all.insert(format!("{name}.qdisc_dropped"), Counter::PerCpu([(0, *found)].into()));
        }
    }
    all
}

/// A file below /proc.
fn proc(file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{file}")).ok()
}

/// A file below /proc/net, of the calling thread's network namespace: /proc/net itself is the main
/// thread's.
fn net(file: &str) -> Option<String> {
    proc(&format!("thread-self/net/{file}")).or_else(|| proc(&format!("net/{file}")))
}

/// A setting, with its blanks collapsed.
fn sysctl(name: &str) -> Option<String> {
    let text = proc(&format!("sys/{}", name.replace('.', "/")))?;
    Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// `MemTotal` of /proc/meminfo, in bytes.
fn memory(text: &str) -> Option<u64> {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests;
