//! Flows of datagrams one by one: which of them fare worse than the others, and what became of each
//! datagram.

use metrics::{FlowSums, Quartiles, StampKind, Verdict, real};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Most packets of each direction, over all flows, that each end remembers for a row each.
pub const MOST_SAMPLES: usize = 500_000;
/// A flow loses more than the others when its losses exceed its share of all by this many standard
/// deviations …
const LOSS_DEVIATIONS: f64 = 5.0;
/// … and by at least this many datagrams.
const LOSS_LEAST: f64 = 3.0;
/// A flow is slower when its mean delay exceeds the median of all by this many standard deviations
/// (estimated from the median absolute deviation) …
const DELAY_DEVIATIONS: f64 = 5.0 * 1.4826;
/// … by this share of it …
const DELAY_SHARE: f64 = 0.1;
/// … and by this, ns.
const DELAY_LEAST: f64 = 50_000.0;

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FlowWay {
    /// Datagrams sent; `None` without the sender's report.
    pub sent: Option<u64>,
    /// Figures of its receiver.
    pub got: FlowSums,
    /// True if it lost more than the others, by more than chance.
    pub lossy: bool,
    /// True if it was slower than the others.
    pub slow: bool,
}

/// A flow of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FlowRow {
    /// Its number, from 0.
    pub flow: u32,
    /// The client's address.
    pub local: Option<SocketAddr>,
    /// The server's address.
    pub remote: Option<SocketAddr>,
    /// Client to server, by the server's report.
    pub up: Option<FlowWay>,
    /// Server to client.
    pub down: Option<FlowWay>,
}

/// One datagram. Times are ns after the start of the run, by the client's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketRow {
    /// Its flow.
    pub flow: u32,
    /// True if it went to the server.
    pub up: bool,
    /// Its number in the flow and direction.
    pub sequence: u64,
    /// When it was to leave.
    pub intended_ns: i64,
    /// When it left.
    pub sent_ns: i64,
    /// Source of the send time.
    pub sent_stamp: StampKind,
    /// Its arrival.
    pub received_ns: Option<i64>,
    /// One-way delay, ns.
    pub delay_ns: Option<i64>,
    /// Source of the arrival time.
    pub stamp: Option<StampKind>,
    /// Its outcome.
    pub verdict: Verdict,
    /// Number of further arrivals.
    pub repeats: u32,
}

/// Marks the flows that fare worse than the others, each direction for itself.
pub fn mark_flows(rows: &mut [FlowRow]) {
    mark(rows.iter_mut().filter_map(|row| row.up.as_mut()).collect());
    mark(rows.iter_mut().filter_map(|row| row.down.as_mut()).collect());
}

fn mark(ways: Vec<&mut FlowWay>) {
    let lost = |way: &FlowWay| real(way.got.counts.lost.max(0));
    let came = |way: &FlowWay| real(way.got.counts.received + way.got.counts.corrupt);
    let all_lost: f64 = ways.iter().map(|way| lost(way)).sum();
    let all: f64 = all_lost + ways.iter().map(|way| came(way)).sum::<f64>();
    let means: Vec<f64> = ways.iter().filter_map(|way| way.got.delay_mean_ns()).collect();
    let median = Quartiles::of(means.clone()).map(|q| q.median);
    let spread = median
        .and_then(|median| Quartiles::of(means.iter().map(|mean| (mean - median).abs()).collect()))
        .map(|q| q.median);
    for way in ways {
        // The expected share of losses is that of the other flows.
        let n = lost(way) + came(way);
        let others = all - n;
        if others > 0.0 && n > 0.0 {
            let p = (all_lost - lost(way)) / others;
            let expected = n * p;
            let excess = lost(way) - expected;
            way.lossy = excess > LOSS_LEAST && excess > LOSS_DEVIATIONS * (expected * (1.0 - p)).sqrt();
        }
        if let (Some(mean), Some(median), Some(spread)) = (way.got.delay_mean_ns(), median, spread) {
            let above = mean - median;
            way.slow =
                above > DELAY_DEVIATIONS * spread && above > DELAY_SHARE * median && above > DELAY_LEAST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Packets;

    fn row(lost: i64, received: u64, delay: u64) -> FlowRow {
        let mut got =
            FlowSums { counts: Packets { received, lost, ..Packets::default() }, ..FlowSums::default() };
        got.add_delay(delay, received.max(1));
        FlowRow { up: Some(FlowWay { got, ..FlowWay::default() }), ..FlowRow::default() }
    }

    fn marked(rows: &[(i64, u64, u64)]) -> Vec<(bool, bool)> {
        let mut rows: Vec<FlowRow> = rows.iter().map(|&(lost, got, delay)| row(lost, got, delay)).collect();
        mark_flows(&mut rows);
        rows.iter().map(|row| row.up.map_or((false, false), |way| (way.lossy, way.slow))).collect()
    }

    #[test]
    fn the_one_bad_flow_is_found() {
        let mut rows = vec![(10, 990, 1_000_000); 7];
        rows.push((100, 900, 1_000_000));
        rows.push((10, 990, 3_000_000));
        let told = marked(&rows);
        assert_eq!(told[..7], [(false, false); 7]);
        assert_eq!(told[7..], [(true, false), (false, true)]);
    }

    #[test]
    fn chance_is_not_a_bad_flow() {
        // A binomial count of 1000 with p = 0.02: 20 ± 4.4.
        let told = marked(&[(20, 980, 100), (31, 969, 100), (12, 988, 100), (25, 975, 100)]);
        assert!(told.iter().all(|m| !m.0), "{told:?}");
        // Two or three datagrams are no evidence, nor are some µs.
        assert!(marked(&[(0, 100, 100), (2, 98, 9_000), (0, 100, 100)]).iter().all(|m| *m == (false, false)));
        assert_eq!(marked(&[(5, 95, 100)]), [(false, false)], "nothing to compare with");
        assert!(marked(&[]).is_empty());
    }
}
