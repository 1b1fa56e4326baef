//! Abilities of Linux: settings below `/proc` and `/sys`, and tries of what needs a privilege.

use super::{firewall, proc, sysctl};
use crate::netns::Namespace;
use crate::tun::Tun;
use socket2::{Domain, Protocol, Socket, Type};
use std::fs;
use std::io;
use transport::{Abilities, Descriptors, Permission, TrackedConnections};

/// The clocks behind the kernel's time.
const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";
/// A folder for each CPU.
const CPUS: &str = "/sys/devices/system/cpu";
/// Name of the device that is tried, in a namespace of its own.
const DEVICE: &str = "try0";

pub(in crate::host) fn abilities() -> Abilities {
    let descriptors = crate::sys::unix::rlimit_nofile();
    let words = |text: Option<String>| -> Vec<String> {
        text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let clock = |file: &str| fs::read_to_string(format!("{CLOCKS}/{file}")).ok();
    let (namespaces, tun) = lab();
    let echo = Some(Protocol::ICMPV4);
    Abilities {
        descriptors: descriptors.map(|(soft, hard)| Descriptors { soft, hard }),
        congestion_controls: super::congestion_controls(),
        congestion_allowed: words(sysctl("net.ipv4.tcp_allowed_congestion_control")),
        clock_source: clock("current_clocksource").map(|name| name.trim().to_owned()),
        clock_sources: words(clock("available_clocksource")),
        namespaces,
        tun,
        raw_sockets: permission(&Socket::new(Domain::IPV4, Type::RAW, echo)),
        icmp_sockets: permission(&Socket::new(Domain::IPV4, Type::DGRAM, echo)),
        governors: governors(),
        tracked: tracked(),
        firewall: firewall::policy(),
        ..Abilities::default()
    }
}

/// The permission behind the result of a try; `None` for failures of other causes.
fn permission<T>(result: &io::Result<T>) -> Option<Permission> {
    use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
    let Err(error) = result else { return Some(Permission::Granted) };
    match (error.kind(), error.raw_os_error()) {
        // ENOSPC: the limit on namespaces (user.max_net_namespaces) is 0.
        (PermissionDenied, _) | (_, Some(libc::ENOSPC)) => Some(Permission::Denied),
        (NotFound | Unsupported, _) => Some(Permission::Absent),
        // A kernel without the protocol, the system call or the device's driver.
        (
            _,
            Some(
                libc::EPROTONOSUPPORT
                | libc::EAFNOSUPPORT
                | libc::ENOSYS
                | libc::EINVAL
                | libc::ENODEV
                | libc::ENXIO,
            ),
        ) => Some(Permission::Absent),
        _ => None,
    }
}

/// Network namespaces and TUN devices. A device is made in a namespace that is gone at once; where
/// none can be had, the driver's file is opened.
fn lab() -> (Option<Permission>, Option<Permission>) {
    let space = Namespace::new();
    let tun = match &space {
        Ok(space) => permission(&space.within(|| Tun::new(DEVICE))),
        Err(_) => permission(&fs::File::options().read(true).write(true).open("/dev/net/tun")),
    };
    (permission(&space), tun)
}

/// The governors of the CPUs, each once.
fn governors() -> Vec<String> {
    let cpus = fs::read_dir(CPUS).into_iter().flatten().flatten();
    let governor = |cpu: fs::DirEntry| fs::read_to_string(cpu.path().join("cpufreq/scaling_governor")).ok();
    let mut all: Vec<String> = cpus.filter_map(governor).map(|name| name.trim().to_owned()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The table of tracked connections of the calling thread's network namespace.
fn tracked() -> Option<TrackedConnections> {
    let number = |name: &str| proc(&format!("sys/net/netfilter/{name}"))?.trim().parse().ok();
    Some(TrackedConnections { count: number("nf_conntrack_count")?, limit: number("nf_conntrack_max")? })
}
