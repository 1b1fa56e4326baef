//! Socket options: the requested ones, from the command line over the wire to the system call, and
//! the kernel's values of a socket.

use metrics::{Ecn, format_bytes};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Most TCP options of a segment, bytes: the effective MSS is smaller than the asked one by as
/// much.
const TCP_OPTIONS: u32 = 40;

/// Socket options, asked of both ends; `None` leaves the system's default.
///
/// Wide: a field for each option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SocketSettings {
    /// `SO_SNDBUF`, bytes (Linux doubles it). Beyond `net.core.wmem_max` only UDP, where the
    /// process may force it.
    pub sndbuf: Option<u64>,
    /// True if `sndbuf` may be chosen when both ends are on one host (the client's engine knows the
    /// best one).
    pub same_host_sndbuf: bool,
    /// `SO_RCVBUF`, bytes (Linux doubles it). Beyond `net.core.rmem_max` only UDP, where the
    /// process may force it.
    pub rcvbuf: Option<u64>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// True if long TCP sends end where a segment ends. A call then sends as much of the buffer as
    /// fills whole segments; the rest would travel as a short segment of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_segments: bool,
    /// `TCP_MAXSEG`, bytes.
    pub mss: Option<u32>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// DSCP, 0 to 63.
    pub dscp: Option<u8>,
    /// UDP: ECN codepoint. TCP's kernel sets its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Ecn>,
    /// Time to live or hop limit.
    pub ttl: Option<u8>,
    /// IPv6 flow label, 0 to 0xfffff; the client's packets only.
    pub flow_label: Option<u32>,
    /// `SO_KEEPALIVE` with this idle time, and interval between probes, ns; a second at least.
    pub keepalive_ns: Option<u64>,
    /// UDP: several datagrams a send, cut apart by the kernel (`UDP_SEGMENT`), where it can.
    pub gso: bool,
    /// UDP: several datagrams a receive, merged by the kernel (`UDP_GRO`), where it can. Merged
    /// datagrams share one receive stamp.
    pub gro: bool,
    /// UDP: receive stamps of the kernel, where it gives them.
    pub stamps: bool,
    /// UDP: stamps of the network card beside the kernel's, where it stamps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub card_stamps: bool,
    /// UDP: time to live, traffic class and overflows of received datagrams. Each end knows for
    /// itself if it needs them.
    #[serde(skip, default = "enabled")]
    pub marks: bool,
    /// UDP: set DF and refuse datagrams longer than the interface's MTU, ignoring the cached path
    /// MTU (probing), or let every router fragment.
    pub dont_fragment: Option<bool>,
    /// `SO_MAX_PACING_RATE`, bits/s of each socket; of UDP kept by the queueing discipline `fq`
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<u64>,
    /// True if Multipath TCP is asked for, where both kernels have it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub multipath: bool,
    /// `TCP_USER_TIMEOUT`, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_timeout_ns: Option<u64>,
    /// `TCP_NOTSENT_LOWAT`, bytes: most that wait in the kernel until they are sent, beside those
    /// under way. A server's own bound, where the system has it.
    #[serde(skip)]
    pub unsent: Option<u32>,
    /// Network interface to be bound to, by name; each end has its own.
    #[serde(skip)]
    pub device: Option<String>,
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
            ecn: None,
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
            unsent: None,
            device: None,
        }
    }
}

fn enabled() -> bool {
    true
}

impl SocketSettings {
    /// The same for returning messages: with marks if a class was asked for, with stamps if
    /// `stamps`, and each read by itself.
    pub fn of_messages(&self, stamps: bool) -> Self {
        let (stamps, marks) = (self.stamps && stamps, self.class().is_some());
        SocketSettings { stamps, card_stamps: false, marks, gro: false, ..self.clone() }
    }

    /// Traffic class octet of sent packets; `None` leaves the system's default.
    pub fn class(&self) -> Option<u8> {
        let (dscp, ecn) = (self.dscp, self.ecn);
        (dscp.is_some() || ecn.is_some()).then(|| dscp.unwrap_or(0) << 2 | ecn.unwrap_or_default().bits())
    }

    /// The same without the options that TCP sockets lack.
    pub fn of_streams(&self) -> Self {
        let usual = SocketSettings::default();
        SocketSettings {
            same_host_sndbuf: usual.same_host_sndbuf,
            whole_segments: usual.whole_segments,
            gso: usual.gso,
            gro: usual.gro,
            stamps: usual.stamps,
            card_stamps: usual.card_stamps,
            marks: usual.marks,
            ecn: usual.ecn,
            dont_fragment: usual.dont_fragment,
            ..self.clone()
        }
    }

    /// Refuses impossible options.
    ///
    /// # Errors
    /// One sentence: the expected value.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let wrong = [
            (self.dscp.is_some_and(|dscp| dscp > 63), "DSCP must be 0 to 63"),
            (self.ttl == Some(0), "TTL must be 1 to 255"),
            (self.flow_label.is_some_and(|label| label >= 1 << 20), "the flow label must be 0 to 0xfffff"),
        ];
        wrong.into_iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, text)| Err(text))
    }

    /// Which buffers the kernel made smaller: `SO_SNDBUF {} is 416 KiB instead of 4.00 MiB`, with
    /// `of` for the braces.
    pub(crate) fn shortfalls(&self, got: &Effective, of: &str) -> Vec<String> {
        let both = [("SO_SNDBUF", self.sndbuf, got.sndbuf), ("SO_RCVBUF", self.rcvbuf, got.rcvbuf)];
        let short = both.into_iter().filter_map(|(name, asked, got)| {
            let (asked, got) = asked.zip(got.map(u64::from)).filter(|(asked, got)| got < asked)?;
            Some(format!("{name} of {of} is {} instead of {}", format_bytes(got), format_bytes(asked)))
        });
        short.collect()
    }

    /// The options that differ from the requested ones, buffers apart: `TTL 64 instead of 5`.
    /// Options that the kernel does not report do not differ.
    pub(crate) fn differences(&self, got: &Effective, datagrams: bool) -> Vec<String> {
        let mss = self.mss.filter(|asked| {
            !got.mss.is_some_and(|got| (asked.saturating_sub(TCP_OPTIONS)..=*asked).contains(&got))
        });
        let nodelay = Some(self.nodelay).filter(|_| !datagrams);
        let all = [
            difference("MSS", mss, got.mss),
            difference("congestion control", self.congestion.as_ref(), got.congestion.as_ref()),
            difference("TCP_NODELAY", nodelay.map(on_or_off), got.nodelay.map(on_or_off)),
            difference("DSCP", self.dscp, got.tos.map(|tos| tos >> 2)),
            // TCP's kernel sets the low two bits of each packet.
            difference("ECN", self.ecn.map(Ecn::name), got.tos.map(|tos| Ecn::of(tos).name())),
            difference("TTL", self.ttl, got.ttl),
        ];
        all.into_iter().flatten().collect()
    }
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// `TTL 64 instead of 5`, where both are known and differ.
fn difference<T: PartialEq + Display>(name: &str, asked: Option<T>, got: Option<T>) -> Option<String> {
    let (asked, got) = asked.zip(got).filter(|(asked, got)| asked != got)?;
    Some(format!("{name} {got} instead of {asked}"))
}

/// Settings as the kernel really applied them, read back from the first connection; `None` where it
/// reports none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Effective {
    /// `SO_SNDBUF`, bytes, as the kernel counts (Linux: twice the requested size).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sndbuf: Option<u32>,
    /// `SO_RCVBUF`, bytes, as the kernel counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcvbuf: Option<u32>,
    /// `TCP_NODELAY`: Nagle's algorithm is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// `TCP_MAXSEG`, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
    /// `TCP_CONGESTION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Traffic class octet: DSCP and ECN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos: Option<u8>,
    /// Time to live or hop limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u8>,
}

impl Effective {
    /// Each by its name for people, TCP's left out for `datagrams`.
    pub fn named(&self, datagrams: bool) -> Vec<(&'static str, Option<String>)> {
        let bytes = |n: Option<u32>| n.map(|n| format_bytes(n.into()));
        let nodelay = self.nodelay.map(|on| on_or_off(on).to_owned());
        let all = [
            ("congestion", true, self.congestion.clone()),
            ("send buffer", false, bytes(self.sndbuf)),
            ("receive buffer", false, bytes(self.rcvbuf)),
            ("nodelay", true, nodelay),
            ("MSS", true, self.mss.map(|mss| mss.to_string())),
            ("TOS", false, self.tos.map(|tos| tos.to_string())),
            ("TTL", false, self.ttl.map(|ttl| ttl.to_string())),
        ];
        all.into_iter()
            .filter(|(_, tcp, _)| !(datagrams && *tcp))
            .map(|(name, _, value)| (name, value))
            .collect()
    }
}
