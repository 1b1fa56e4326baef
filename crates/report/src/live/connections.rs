//! The open connections, a row each, and the order they are shown in.

use metrics::{TcpInfo, TcpTotals, bits_per_second, real};
use model::Sample;
use uuid::Uuid;

/// What the rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SortBy {
    /// The connection's slot.
    #[default]
    Slot,
    Rate,
    Rtt,
    /// Segments that it had to send again.
    Retransmits,
    Bytes,
}

impl SortBy {
    const ROUND: [SortBy; 5] = [SortBy::Slot, SortBy::Rate, SortBy::Rtt, SortBy::Retransmits, SortBy::Bytes];

    pub(super) fn next(self) -> SortBy {
        SortBy::ROUND[(self as usize + 1) % SortBy::ROUND.len()]
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    id: Uuid,
    pub(super) slot: u32,
    /// Payload sent and received since it came to be, bytes.
    pub(super) tx_bytes: u64,
    pub(super) rx_bytes: u64,
    /// What it sent and received in the last interval, bits/s.
    pub(super) tx_bps: f64,
    pub(super) rx_bps: f64,
    /// Segments it had to send again in the last interval.
    pub(super) again: u32,
    pub(super) info: TcpInfo,
}

/// Connections that were sampled in the last interval, at most 64.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    rows: Vec<Row>,
}

impl Connections {
    /// Takes the samples of an interval of `ns`.
    pub(super) fn sampled(&mut self, samples: &[Sample], ns: u64) {
        let before = std::mem::take(&mut self.rows);
        let rate = |now: u64, was: u64| bits_per_second(now.saturating_sub(was), ns.max(1));
        self.rows = samples
            .iter()
            .map(|sample| {
                // One that is new has moved all it has in this interval.
                let was = before.iter().find(|row| row.id == sample.id);
                Row {
                    id: sample.id,
                    slot: sample.slot,
                    tx_bytes: sample.tx_bytes,
                    rx_bytes: sample.rx_bytes,
                    tx_bps: rate(sample.tx_bytes, was.map_or(0, |row| row.tx_bytes)),
                    rx_bps: rate(sample.rx_bytes, was.map_or(0, |row| row.rx_bytes)),
                    again: sample.info.retransmits.saturating_sub(was.map_or(0, |row| row.info.retransmits)),
                    info: sample.info,
                }
            })
            .collect();
    }

    /// Their TCP_INFO together.
    pub(super) fn totals(&self) -> TcpTotals {
        let mut totals = TcpTotals::default();
        self.rows.iter().for_each(|row| totals.add(&row.info));
        totals
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows in an order: slots from the first, all else from the largest; the other way round if `turned`.
    pub(super) fn sorted(&self, by: SortBy, turned: bool) -> Vec<&Row> {
        let of = |row: &Row| match by {
            SortBy::Slot => 0.0,
            SortBy::Rate => row.tx_bps + row.rx_bps,
            SortBy::Rtt => f64::from(row.info.rtt_us),
            SortBy::Retransmits => f64::from(row.info.retransmits),
            SortBy::Bytes => real(row.tx_bytes) + real(row.rx_bytes),
        };
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| of(b).total_cmp(&of(a)).then(a.slot.cmp(&b.slot)).then(a.id.cmp(&b.id)));
        if turned {
            rows.reverse();
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(slot: u32, tx_bytes: u64, rtt_us: u32, retransmits: u32) -> Sample {
        let info = TcpInfo { rtt_us, retransmits, ..TcpInfo::default() };
        Sample { id: Uuid::from_u128(u128::from(slot) + 1), slot, tx_bytes, rx_bytes: 0, info }
    }

    #[test]
    fn rates_are_differences_over_the_interval() {
        let mut connections = Connections::default();
        connections.sampled(&[sample(0, 1_000, 5, 1)], 1_000_000_000);
        connections.sampled(&[sample(0, 3_500, 5, 4), sample(1, 500, 9, 0)], 500_000_000);
        let rows = connections.sorted(SortBy::Slot, false);
        // 2,500 bytes in half a second are 40 kbit/s; a new one has moved its 500 bytes in it: 8 kbit/s.
        assert_eq!((rows[0].tx_bps, rows[0].again, rows[1].tx_bps), (40_000.0, 3, 8_000.0));
        connections.sampled(&[sample(1, 500, 9, 0)], 1_000_000_000);
        assert_eq!(connections.len(), 1, "a connection without a sample is gone");
        // A count that runs backwards is another connection's.
        connections.sampled(&[sample(1, 100, 9, 0)], 1_000_000_000);
        assert_eq!(connections.sorted(SortBy::Slot, false)[0].tx_bps, 0.0);
    }

    #[test]
    fn every_order_and_back() {
        let mut connections = Connections::default();
        connections.sampled(&[sample(2, 5, 70, 0), sample(0, 9, 80, 3), sample(1, 7, 90, 1)], 1_000);
        let slots =
            |by, turned| connections.sorted(by, turned).iter().map(|row| row.slot).collect::<Vec<_>>();
        assert_eq!(slots(SortBy::Slot, false), [0, 1, 2]);
        assert_eq!(slots(SortBy::Slot, true), [2, 1, 0]);
        assert_eq!(slots(SortBy::Rate, false), [0, 1, 2]);
        assert_eq!(slots(SortBy::Rtt, false), [1, 0, 2]);
        assert_eq!(slots(SortBy::Retransmits, false), [0, 1, 2]);
        assert_eq!(slots(SortBy::Bytes, true), [2, 1, 0]);
        let mut by = SortBy::Slot;
        for _ in 0..5 {
            by = by.next();
        }
        assert_eq!(by, SortBy::Slot, "all columns have had their turn");
    }
}
