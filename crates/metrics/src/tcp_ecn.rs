//! ECN of TCP connections, as the kernel reports it (RFC 3168; Accurate ECN: RFC 9768).

use crate::{TcpInfo, percent_of};
use serde::{Deserialize, Serialize};

/// Bytes of payload by the codepoint of their packets. Retransmissions are Not-ECT, with classic
/// ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EcnBytes {
    /// With ECT(1).
    pub ect1: u64,
    /// With ECT(0).
    pub ect0: u64,
    /// With CE.
    pub ce: u64,
}

impl EcnBytes {
    fn add(&mut self, more: &EcnBytes) {
        self.ect1 = self.ect1.saturating_add(more.ect1);
        self.ect0 = self.ect0.saturating_add(more.ect0);
        self.ce = self.ce.saturating_add(more.ce);
    }

    /// The counters of `now` after those of `before`, each of which the kernel keeps modulo 2^32.
    fn since(now: &EcnBytes, before: &EcnBytes) -> EcnBytes {
        let part = |now: u64, before: u64| u64::from((now as u32).wrapping_sub(before as u32));
        EcnBytes {
            ect1: part(now.ect1, before.ect1),
            ect0: part(now.ect0, before.ect0),
            ce: part(now.ce, before.ce),
        }
    }
}

/// ECN of one connection at an instant. Counters of bytes are modulo 2^32; absent ones are unknown
/// to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TcpEcnInfo {
    /// True if the handshake negotiated ECN.
    pub negotiated: bool,
    /// True if a packet with ECT or CE arrived.
    pub seen: bool,
    /// True if the handshake negotiated Accurate ECN (Linux 7.0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accurate: Option<bool>,
    /// Segments delivered to the peer (Linux 4.18).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u32>,
    /// Segments that the peer acknowledged with an echo of CE; with classic ECN all segments from an
    /// echo to its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_ce: Option<u32>,
    /// Segments received with CE (Linux 6.18).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_ce: Option<u32>,
    /// Bytes delivered to the peer, by its report; with Accurate ECN only (Linux 6.18).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_bytes: Option<EcnBytes>,
    /// Bytes received (Linux 6.18).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<EcnBytes>,
}

impl TcpEcnInfo {
    /// True for a connection without ECN.
    pub(crate) fn is_unused(info: &Option<TcpEcnInfo>) -> bool {
        info.is_none_or(|info| !info.negotiated)
    }
}

/// Sums over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TcpEcn {
    /// Connections whose kernel reports ECN.
    pub connections: u64,
    /// Connections that negotiated ECN.
    pub negotiated: u64,
    /// Connections that negotiated Accurate ECN; `None` where no kernel reports it.
    pub accurate: Option<u64>,
    /// Connections on which a packet with ECT or CE arrived.
    pub seen: u64,
    /// Segments delivered on connections that negotiated ECN.
    pub delivered: u64,
    /// Segments delivered with an echo of CE.
    pub delivered_ce: u64,
    /// Segments received with CE; `None` where no kernel counts them.
    pub received_ce: Option<u64>,
    /// Bytes delivered, by the peer's report; `None` where no kernel counts them, or where 4 GiB
    /// passed between two readings.
    pub delivered_bytes: Option<EcnBytes>,
    /// Bytes received; `None` likewise.
    pub received_bytes: Option<EcnBytes>,
}

impl TcpEcn {
    /// Adds others.
    pub fn add(&mut self, more: &TcpEcn) {
        let sum = |ours: &mut u64, theirs: u64| *ours = ours.saturating_add(theirs);
        sum(&mut self.connections, more.connections);
        sum(&mut self.negotiated, more.negotiated);
        sum(&mut self.seen, more.seen);
        sum(&mut self.delivered, more.delivered);
        sum(&mut self.delivered_ce, more.delivered_ce);
        crate::add_known(&mut self.accurate, more.accurate.as_ref(), |ours, n| sum(ours, *n));
        crate::add_known(&mut self.received_ce, more.received_ce.as_ref(), |ours, n| sum(ours, *n));
        crate::add_known(&mut self.delivered_bytes, more.delivered_bytes.as_ref(), EcnBytes::add);
        crate::add_known(&mut self.received_bytes, more.received_bytes.as_ref(), EcnBytes::add);
    }

    /// Percent of the received bytes with an ECN codepoint that had CE.
    pub fn received_ce_percent(&self) -> Option<f64> {
        let EcnBytes { ect1, ect0, ce } = self.received_bytes?;
        let all = ect1.saturating_add(ect0).saturating_add(ce);
        (all > 0).then(|| percent_of(ce, all))
    }
}

/// Readings of one connection's counters, which wrap, and their sums.
#[derive(Clone, Copy, Debug, Default)]
pub struct EcnWatch {
    last: Option<TcpInfo>,
    delivered: EcnBytes,
    received: EcnBytes,
    /// More bytes passed between two readings than a counter of bytes can show.
    lost: (bool, bool),
}

/// Bytes after which a counter repeats its values.
const WRAP: u64 = 1 << 32;

impl EcnWatch {
    /// Reads the counters. The growth of a counter of bytes, which wraps at 4 GiB, is known where
    /// less was acknowledged, or received, in all.
    pub fn read(&mut self, info: &TcpInfo) {
        let last = self.last.replace(*info).unwrap_or_default();
        let Some(now) = info.ecn else { return };
        let before = last.ecn.unwrap_or_default();
        let passed = |now: Option<u64>, before: Option<u64>| {
            now.unwrap_or(0).saturating_sub(before.unwrap_or(0)) >= WRAP
        };
        self.lost.0 |= passed(info.bytes_acked, last.bytes_acked);
        self.lost.1 |= passed(info.bytes_received, last.bytes_received);
        let more = |sum: &mut EcnBytes, now: Option<EcnBytes>, before: Option<EcnBytes>| {
            sum.add(&EcnBytes::since(&now.unwrap_or_default(), &before.unwrap_or_default()));
        };
        more(&mut self.delivered, now.delivered_bytes, before.delivered_bytes);
        more(&mut self.received, now.received_bytes, before.received_bytes);
    }

    /// The connection's part in the sums; `None` where its kernel reports nothing.
    pub fn sums(&self) -> Option<TcpEcn> {
        let info = self.last?.ecn?;
        if !info.negotiated {
            let accurate = info.accurate.map(|_| 0);
            return Some(TcpEcn { connections: 1, accurate, ..TcpEcn::default() });
        }
        Some(TcpEcn {
            connections: 1,
            negotiated: 1,
            accurate: info.accurate.map(u64::from),
            seen: info.seen.into(),
            delivered: info.delivered.unwrap_or(0).into(),
            delivered_ce: info.delivered_ce.unwrap_or(0).into(),
            received_ce: info.received_ce.map(u64::from),
            // Without the option of Accurate ECN the peer reports no bytes.
            delivered_bytes: info
                .delivered_bytes
                .filter(|_| info.accurate == Some(true) && !self.lost.0)
                .map(|_| self.delivered),
            received_bytes: info.received_bytes.filter(|_| !self.lost.1).map(|_| self.received),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(received: u64, ect0: u64, ce: u64) -> TcpInfo {
        let bytes = |n: u64| n % WRAP;
        let received_bytes = Some(EcnBytes { ect1: 0, ect0: bytes(ect0), ce: bytes(ce) });
        let ecn = TcpEcnInfo {
            negotiated: true,
            seen: true,
            received_ce: Some(7),
            delivered: Some(100),
            delivered_ce: Some(3),
            delivered_bytes: Some(EcnBytes::default()),
            received_bytes,
            ..TcpEcnInfo::default()
        };
        TcpInfo { bytes_received: Some(received), ecn: Some(ecn), ..TcpInfo::default() }
    }

    #[test]
    fn counters_that_wrap_are_added_up() {
        let mut watch = EcnWatch::default();
        let step = 3_000_000_000;
        for n in 1..=5 {
            watch.read(&reading(n * step, n * step - n * 1_000, n * 1_000));
        }
        let sums = watch.sums().unwrap();
        assert_eq!(sums.received_bytes, Some(EcnBytes { ect1: 0, ect0: 5 * step - 5_000, ce: 5_000 }));
        assert_eq!((sums.received_ce, sums.delivered, sums.delivered_ce), (Some(7), 100, 3));
        assert_eq!(sums.delivered_bytes, None, "classic ECN reports no bytes");
        // 4 GiB between two readings may have been any multiple of it.
        watch.read(&reading(5 * step + WRAP, 0, 0));
        assert_eq!(watch.sums().unwrap().received_bytes, None);
    }

    #[test]
    fn a_connection_without_ecn_counts_as_such_and_one_of_another_system_not_at_all() {
        let mut watch = EcnWatch::default();
        assert_eq!(watch.sums(), None);
        watch.read(&TcpInfo::default());
        assert_eq!(watch.sums(), None);
        watch.read(&TcpInfo { ecn: Some(TcpEcnInfo::default()), ..TcpInfo::default() });
        assert_eq!(watch.sums(), Some(TcpEcn { connections: 1, ..TcpEcn::default() }));
        let mut all = watch.sums().unwrap();
        let mut other = EcnWatch::default();
        other.read(&reading(100, 60, 40));
        all.add(&other.sums().unwrap());
        assert_eq!((all.connections, all.negotiated, all.seen), (2, 1, 1));
        assert_eq!(all.received_ce_percent(), Some(40.0));
    }
}
