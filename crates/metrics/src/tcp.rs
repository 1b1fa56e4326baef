//! The kernel's figures of a TCP connection, and the figures that RFC 6349 derives from them.

use crate::ip_fields::widest;
use crate::number::real;
use crate::{EcnWatch, TcpEcn, TcpEcnInfo, add_known};
use serde::{Deserialize, Serialize};

/// The part of the kernel's `struct tcp_info` that a measurement uses. Absent fields (older
/// kernels, other systems) are `None`; times are in microseconds as the kernel gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TcpInfo {
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Variation of the round-trip time, µs.
    pub rttvar_us: u32,
    /// Smallest round-trip time seen (within the kernel's window), µs.
    pub min_rtt_us: Option<u32>,
    /// Segments retransmitted over the connection's life.
    pub retransmits: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Sending maximum segment size, bytes.
    pub snd_mss: u32,
    /// Slow-start threshold, segments; `None` while it was never set.
    pub ssthresh: Option<u32>,
    /// Most recent goodput as the kernel estimates it, bytes/s.
    pub delivery_rate: Option<u64>,
    /// True if `delivery_rate` was limited by the application.
    pub app_limited: bool,
    /// Time spent with data outstanding, µs.
    pub busy_us: Option<u64>,
    /// Part of `busy_us` limited by the receiver's window, µs.
    pub rwnd_limited_us: Option<u64>,
    /// Part of `busy_us` limited by the send buffer, µs.
    pub sndbuf_limited_us: Option<u64>,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: Option<u64>,
    /// Bytes retransmitted.
    pub bytes_retrans: Option<u64>,
    /// Bytes that the peer has acknowledged; a SYN or FIN is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<u64>,
    /// Bytes received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// ECN, where the kernel reports it; kept where it was negotiated.
    #[serde(skip_serializing_if = "TcpEcnInfo::is_unused")]
    pub ecn: Option<TcpEcnInfo>,
    /// Events of reordering seen by the sender.
    pub reord_seen: Option<u32>,
    /// Receiver's estimate of the sender's round-trip time, µs.
    pub rcv_rtt_us: u32,
    /// The peer's advertised window, bytes.
    pub snd_wnd: Option<u32>,
}

/// State of a connection's socket at an instant, cheap enough to read at every message. Fields are
/// as the kernel gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SocketState {
    /// Number of the socket in its process.
    pub number: i32,
    /// Receive buffer, bytes.
    pub rcvbuf: u32,
    /// Send buffer, bytes.
    pub sndbuf: u32,
    /// Slow-start threshold, segments; 2,147,483,647 while it was never set.
    pub ssthresh: u32,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Its variation, µs.
    pub rttvar_us: u32,
    /// Segments retransmitted over the connection's life.
    pub retransmits: u32,
    /// As a receiver: the largest window it would offer now, bytes.
    pub rcv_ssthresh: u32,
    /// As a receiver: its estimate of the round-trip time, µs; 0 without one.
    pub rcv_rtt_us: u32,
    /// As a receiver: bytes that the application read in the last round trip; the receive buffer
    /// follows it.
    pub rcv_space: u32,
    /// As a sender: bytes that the application has handed over and the peer has not acknowledged;
    /// those under way are counted in whole segments.
    #[serde(skip)]
    pub queued: u64,
    /// As a sender: payload of its longest segment, bytes.
    #[serde(skip)]
    pub mss: u32,
}

/// Sums over the ended connections' last TCP_INFO, and means over all samples of those still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TcpTotals {
    /// Connections summed.
    pub connections: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Bytes that the peers have acknowledged, of the connections whose kernel counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<u64>,
    /// Time with data outstanding, µs.
    pub busy_us: u64,
    /// Part of `busy_us` limited by the receiver's window, µs.
    pub rwnd_limited_us: u64,
    /// Part of `busy_us` limited by the send buffer, µs.
    pub sndbuf_limited_us: u64,
    /// Smallest round-trip time, µs; 0 when unknown.
    pub min_rtt_us: u32,
    /// Sum of sampled smoothed round-trip times, µs.
    pub rtt_sum_us: f64,
    /// Number of round-trip times in `rtt_sum_us`.
    pub rtt_samples: u64,
    /// Smallest and largest DSCP of the peers' packets, of the connections whose kernel keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<(u8, u8)>,
    /// ECN of the connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<TcpEcn>,
}

impl TcpTotals {
    /// Adds a connection's last words.
    pub fn add(&mut self, info: &TcpInfo) {
        self.connections += 1;
        self.retransmits += u64::from(info.retransmits);
        self.bytes_sent += info.bytes_sent.unwrap_or(0);
        self.bytes_retrans += info.bytes_retrans.unwrap_or(0);
        self.acknowledge(info.bytes_acked);
        self.busy_us += info.busy_us.unwrap_or(0);
        self.rwnd_limited_us += info.rwnd_limited_us.unwrap_or(0);
        self.sndbuf_limited_us += info.sndbuf_limited_us.unwrap_or(0);
        self.sample(info);
    }

    fn acknowledge(&mut self, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.bytes_acked = Some(self.bytes_acked.unwrap_or(0).saturating_add(bytes));
        }
    }

    /// Adds the round-trip times of a sample.
    pub fn sample(&mut self, info: &TcpInfo) {
        if info.rtt_us > 0 {
            self.rtt_sum_us += f64::from(info.rtt_us);
            self.rtt_samples += 1;
        }
        let min = info.min_rtt_us.unwrap_or(0);
        if min > 0 && (self.min_rtt_us == 0 || min < self.min_rtt_us) {
            self.min_rtt_us = min;
        }
    }

    /// Adds the ECN of an ended connection.
    pub fn see_ecn(&mut self, watch: &EcnWatch) {
        if let Some(sums) = watch.sums() {
            self.ecn.get_or_insert_default().add(&sums);
        }
    }

    /// Adds the DSCP that the kernel kept of an ended connection's peer.
    pub fn see(&mut self, dscp: u8) {
        self.dscp = widest(self.dscp, Some((dscp, dscp)));
    }

    /// Adds another worker's sums.
    pub fn merge(&mut self, other: &TcpTotals) {
        self.connections += other.connections;
        self.retransmits += other.retransmits;
        self.bytes_sent += other.bytes_sent;
        self.bytes_retrans += other.bytes_retrans;
        self.acknowledge(other.bytes_acked);
        self.busy_us += other.busy_us;
        self.rwnd_limited_us += other.rwnd_limited_us;
        self.sndbuf_limited_us += other.sndbuf_limited_us;
        self.rtt_sum_us += other.rtt_sum_us;
        self.rtt_samples += other.rtt_samples;
        if other.min_rtt_us > 0 && (self.min_rtt_us == 0 || other.min_rtt_us < self.min_rtt_us) {
            self.min_rtt_us = other.min_rtt_us;
        }
        self.dscp = widest(self.dscp, other.dscp);
        add_known(&mut self.ecn, other.ecn.as_ref(), TcpEcn::add);
    }

    /// Mean smoothed round-trip time under load, µs.
    pub fn mean_rtt_us(&self) -> Option<f64> {
        (self.rtt_samples > 0).then(|| self.rtt_sum_us / real(self.rtt_samples))
    }
}

/// TCP efficiency (RFC 6349 §4.2): bytes that were not retransmissions, in percent of all bytes
/// sent. `None` when nothing was sent.
pub fn tcp_efficiency_percent(sent: u64, retransmitted: u64) -> Option<f64> {
    (sent > 0).then(|| real(sent.saturating_sub(retransmitted)) / real(sent) * 100.0)
}

/// Buffer delay (RFC 6349 §4.3): growth of the mean round-trip time under load over the baseline,
/// in percent. `None` without a baseline.
pub fn buffer_delay_percent(mean_rtt_us: f64, base_rtt_us: f64) -> Option<f64> {
    (base_rtt_us > 0.0 && mean_rtt_us > 0.0).then(|| (mean_rtt_us - base_rtt_us) / base_rtt_us * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_all_connections_are_one_range() {
        let (mut one, mut other) = (TcpTotals::default(), TcpTotals::default());
        one.merge(&other);
        assert_eq!(one.dscp, None);
        [46, 0].into_iter().for_each(|dscp| one.see(dscp));
        other.see(10);
        other.merge(&one);
        assert_eq!(other.dscp, Some((0, 46)));
    }

    #[test]
    fn rfc6349_worked_examples() {
        // §4.1: 100,000 bytes sent and 2,000 of them retransmitted: (102,000 - 2,000) / 102,000 =
        // 98.03 %.
        assert!((tcp_efficiency_percent(102_000, 2_000).unwrap() - 98.039).abs() < 0.01);
        // §4.2: baseline 25 ms, average 32 ms: 28 %.
        assert!((buffer_delay_percent(32_000.0, 25_000.0).unwrap() - 28.0).abs() < 1e-9);
        assert_eq!(tcp_efficiency_percent(0, 0), None);
        assert_eq!(buffer_delay_percent(1.0, 0.0), None);
    }
}
