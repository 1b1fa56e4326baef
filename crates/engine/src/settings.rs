//! Socket options: those of a phase as a platform takes them, and those that a socket has as results tell them.

use model::{Effective, SocketSettings};
use std::time::Duration;
use transport::{StreamEffective, StreamSettings, UdpEffective, UdpSettings};

/// Socket options as the kernel takes them.
pub fn stream(of: &SocketSettings, device: Option<&str>) -> StreamSettings {
    let bytes = |n: Option<u64>| n.map(|n| n.min(u64::from(i32::MAX as u32)) as u32);
    StreamSettings {
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
pub fn udp(of: &SocketSettings, device: Option<&str>) -> UdpSettings {
    let bytes = |n: Option<u64>| n.map(|n| n.min(u64::from(i32::MAX as u32)) as u32);
    UdpSettings {
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
pub(crate) fn effective_udp(of: &UdpEffective) -> Effective {
    Effective {
        sndbuf: of.sndbuf.map_or(0, u64::from),
        rcvbuf: of.rcvbuf.map_or(0, u64::from),
        tos: of.tos.unwrap_or_default(),
        ttl: of.ttl.unwrap_or_default(),
        ..Effective::default()
    }
}

/// Socket options as the kernel gave them.
pub(crate) fn effective(of: StreamEffective) -> Effective {
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
