//! Socket options: what is asked of a platform, and what it says of a socket.

use std::time::Duration;

/// Options of a TCP socket; `None` leaves the system's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// Send buffer, bytes as asked for (Linux doubles it, and limits it to `net.core.wmem_max`).
    pub sndbuf: Option<u32>,
    /// Receive buffer, bytes as asked for (Linux doubles it, and limits it to `net.core.rmem_max`).
    pub rcvbuf: Option<u32>,
    /// Send small segments at once instead of gathering them (Nagle off).
    pub nodelay: bool,
    /// Largest segment, bytes.
    pub mss: Option<u32>,
    /// Congestion control algorithm, by the kernel's name. Linux.
    pub congestion: Option<String>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// Time to live, or hop limit; 1 to 255.
    pub ttl: Option<u8>,
    /// IPv6 flow label, 20 bits; only when connecting. Linux.
    pub flow_label: Option<u32>,
    /// Idle time before, and interval between, keep-alive probes; whole seconds, at least one.
    pub keepalive: Option<Duration>,
    /// Network interface to be bound to, by name. Linux.
    pub device: Option<String>,
    /// How long data may stay unacknowledged before the connection is given up; milliseconds. Linux.
    pub user_timeout: Option<Duration>,
    /// Most that the kernel sends (`SO_MAX_PACING_RATE`), bits/s. Linux.
    pub pacing: Option<u64>,
    /// A socket of multipath TCP, where the kernel has it; else a plain one. Linux.
    pub multipath: bool,
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings {
            sndbuf: None,
            rcvbuf: None,
            nodelay: true,
            mss: None,
            congestion: None,
            dscp: None,
            ttl: None,
            flow_label: None,
            keepalive: None,
            device: None,
            user_timeout: None,
            pacing: None,
            multipath: false,
        }
    }
}

/// What `getsockopt` says of a socket; `None` where the system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEffective {
    /// Send buffer, bytes as the system counts them (Linux: twice what was asked for).
    pub sndbuf: Option<u32>,
    /// Receive buffer, bytes as the system counts them (Linux: twice what was asked for).
    pub rcvbuf: Option<u32>,
    /// Nagle's algorithm is off.
    pub nodelay: Option<bool>,
    /// Largest segment, bytes.
    pub mss: Option<u32>,
    /// Congestion control algorithm.
    pub congestion: Option<String>,
    /// Traffic class octet: DSCP and ECN.
    pub tos: Option<u8>,
    /// Time to live, or hop limit.
    pub ttl: Option<u8>,
}

/// Options of a UDP socket; `None` leaves the system's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Send buffer, bytes as asked for (Linux doubles it). Beyond `net.core.wmem_max` only where the process may force it.
    pub sndbuf: Option<u32>,
    /// Receive buffer, bytes as asked for (Linux doubles it). Beyond `net.core.rmem_max` only where the process may force it.
    pub rcvbuf: Option<u32>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// Time to live, or hop limit; 1 to 255.
    pub ttl: Option<u8>,
    /// Network interface to be bound to, by name. Linux.
    pub device: Option<String>,
    /// `Some(true)` sets DF and refuses datagrams that are longer than the interface takes, whatever the path's cache says
    /// (probing); `Some(false)` lets every router fragment. Linux.
    pub dont_fragment: Option<bool>,
    /// Several datagrams a send, cut apart by the kernel, where it can.
    pub gso: bool,
    /// Several datagrams a receive, merged by the kernel, where it can. They share one stamp, and time to live and traffic
    /// class are those of the first.
    pub gro: bool,
    /// The kernel's receive stamps, where it gives them.
    pub stamps: bool,
    /// Beside the kernel's stamps those of the network card, where it has them. Linux; connected sockets only.
    pub card_stamps: bool,
    /// Most that the kernel sends (`SO_MAX_PACING_RATE`), bits/s; kept by the queueing discipline `fq` only. Linux.
    pub pacing: Option<u64>,
    /// Time to live, traffic class and overflows of what is received, where the kernel tells.
    pub marks: bool,
}

impl Default for UdpSettings {
    fn default() -> Self {
        UdpSettings {
            sndbuf: None,
            rcvbuf: None,
            dscp: None,
            ttl: None,
            device: None,
            dont_fragment: None,
            gso: true,
            gro: false,
            stamps: true,
            card_stamps: false,
            pacing: None,
            marks: true,
        }
    }
}

/// What the system says of a socket; `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpEffective {
    /// Send buffer, bytes as the system counts them (Linux: twice what was asked for).
    pub sndbuf: Option<u32>,
    /// Receive buffer, bytes as the system counts them (Linux: twice what was asked for).
    pub rcvbuf: Option<u32>,
    /// Traffic class octet: DSCP and ECN.
    pub tos: Option<u8>,
    /// Time to live, or hop limit.
    pub ttl: Option<u8>,
    /// Path MTU as the kernel knows it, bytes; only of connected sockets. Linux.
    pub mtu: Option<u32>,
    /// Most datagrams in one send.
    pub segments: usize,
    /// Whether the kernel merges datagrams for a receive.
    pub gro: bool,
    /// Whether the kernel stamps what arrives.
    pub stamps: bool,
    /// Why the card's stamps are not used, where they were asked for and the process may change cards: one sentence.
    pub no_card: Option<String>,
}
