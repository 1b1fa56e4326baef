//! Socket options that a phase asks for.

use serde::{Deserialize, Serialize};

/// Socket options, asked of both ends; `None` leaves the system's default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketSettings {
    /// `SO_SNDBUF`, bytes.
    pub sndbuf: Option<u64>,
    /// Whether `sndbuf` may be chosen when both ends are on one host (the client's engine knows what suits it).
    pub same_host_sndbuf: bool,
    /// `SO_RCVBUF`, bytes.
    pub rcvbuf: Option<u64>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// Long sends end where a segment ends (TCP): of the buffer, as much a call as fills whole segments. What is left over
    /// would travel as a short segment of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_segments: bool,
    /// `TCP_MAXSEG`, bytes.
    pub mss: Option<u32>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// DSCP, 0..=63.
    pub dscp: Option<u8>,
    /// Time to live or hop limit.
    pub ttl: Option<u8>,
    /// IPv6 flow label, 0..=0xfffff; the client's packets only.
    pub flow_label: Option<u32>,
    /// `SO_KEEPALIVE` with this idle time, ns.
    pub keepalive_ns: Option<u64>,
    /// UDP: several datagrams a send, cut apart by the kernel (`UDP_SEGMENT`), where it can.
    pub gso: bool,
    /// UDP: several datagrams a receive, merged by the kernel (`UDP_GRO`), where it can. They share one receive stamp.
    pub gro: bool,
    /// UDP: receive stamps of the kernel, where it gives them.
    pub stamps: bool,
    /// UDP: beside the kernel's stamps those of the network card, where it stamps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub card_stamps: bool,
    /// UDP: time to live, traffic class and overflows of what is received. Each end knows for itself whether it needs them.
    #[serde(skip, default = "told")]
    pub marks: bool,
    /// UDP: set DF and leave path MTU discovery alone, or let every router fragment.
    pub dont_fragment: Option<bool>,
    /// `SO_MAX_PACING_RATE`, bits/s of each socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<u64>,
    /// Multipath TCP, where both kernels have it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub multipath: bool,
    /// `TCP_USER_TIMEOUT`, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_timeout_ns: Option<u64>,
}

impl Default for SocketSettings {
    fn default() -> Self {
        SocketSettings {
            sndbuf: None,
            same_host_sndbuf: true,
            rcvbuf: None,
            nodelay: true,
            whole_segments: false,
            mss: None,
            congestion: None,
            dscp: None,
            ttl: None,
            flow_label: None,
            keepalive_ns: None,
            gso: true,
            gro: false,
            stamps: true,
            card_stamps: false,
            marks: true,
            dont_fragment: None,
            pacing: None,
            multipath: false,
            user_timeout_ns: None,
        }
    }
}

fn told() -> bool {
    true
}

impl SocketSettings {
    /// The same for messages that come back: what is received is not told apart, `stamps` says whether it is stamped, and each
    /// is read by itself.
    #[must_use]
    pub fn of_messages(&self, stamps: bool) -> Self {
        let stamps = self.stamps && stamps;
        SocketSettings { stamps, card_stamps: false, marks: false, gro: false, ..self.clone() }
    }
}
