//! bwdelaytester's lines, histogram and table as outcomes.

use super::read::{is_output, read as lines_of};
use crate::import::{Found, Part, received};
use metrics::Dist;
use model::{DelayRange, Interval, Kind, PacketReport, Pattern, Totals, Traffic};
use std::collections::BTreeMap;

/// Length of a line's interval, ns.
const TENTH: u64 = 100_000_000;
/// Width of a bin of its histogram, µs.
const BIN_US: f64 = 200.0;

/// Reads an output; `None` when it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<Found, String>> {
    if !is_output(bytes) {
        return None;
    }
    let told = lines_of(&String::from_utf8_lossy(bytes));
    let mut found = Found {
        program: "bwdelaytester".to_owned(),
        protocol: "bwdelaytester",
        verb: "delay",
        notices: vec!["the file does not tell who sent, nor when".to_owned()],
        ..Found::default()
    };
    if !told.lines.is_empty() || !told.histogram.is_empty() {
        found.parts.push(stream(&told.lines, &told.histogram));
    }
    if !told.histogram.is_empty() {
        found.notices.push("delays are the upper edges of the histogram's bins of 200 µs".to_owned());
    }
    // What is told of one rate: the share that was lost, and extremes and a mean of the delays.
    found.parts.extend(told.rates.iter().map(|[mbit, loss, min, max, mean, ..]| {
        let lost = (loss.clamp(0.0, 100.0) * 1e4).round() as u64;
        let mut report = received(1_000_000 - lost, lost, 0);
        report.delay_range_ns = range(*min, *max, *mean);
        let rate = format!("{:.0}", mbit * 1e6);
        Part { label: BTreeMap::from([("rate".to_owned(), rate)]), ..part(Totals::default(), report) }
    }));
    if !told.rates.is_empty() {
        found.notices.push(
            "of a rate of the table the share that was lost is told, as parts of a million, and how long the rest took; how \
             many there were is not"
                .to_owned(),
        );
    }
    Some(Ok(found))
}

/// The receiver's counts are the far end's.
fn part(mut far: Totals, report: PacketReport) -> Part {
    far.packets = Some(Box::new(report));
    Part { kind: Kind::Delay, pattern: Pattern::Push, connections: 1, far: Some(far), ..Part::default() }
}

/// Delays of an interval, or at a rate, told in µs. A smallest one of 0 is what the original begins to compare with.
fn range(min: f64, max: f64, mean: f64) -> Option<DelayRange> {
    let ns = |us: f64| (us * 1e3) as u64;
    // Without a common clock they may be below 0, and then they are no times.
    (max >= 0.0 && mean >= 0.0).then(|| DelayRange {
        min: Some(min).filter(|&us| us > 0.0).map(ns),
        mean: mean * 1e3,
        max: ns(max),
    })
}

fn stream(lines: &[[f64; 7]], histogram: &[(f64, u64)]) -> Part {
    let mut far = Totals::default();
    let (mut came, mut drops) = (0.0, 0.0);
    let mut intervals = Vec::with_capacity(lines.len());
    for (n, [bytes, packets, dropped, _, min, max, mean]) in lines.iter().enumerate() {
        // Bytes and packets are told ten times over, as if for a second.
        let traffic = Traffic { tx_bytes: 0, rx_bytes: (bytes / 10.0).max(0.0) as u64, ns: TENTH };
        far.traffic.after(&traffic);
        came += packets / 10.0;
        drops += dropped;
        let mut report = received((packets / 10.0).max(0.0) as u64, dropped.max(0.0) as u64, 0);
        report.delay_range_ns = range(*min, *max, *mean);
        intervals.push(Interval {
            index: u32::try_from(n).unwrap_or(u32::MAX),
            start_ns: n as u64 * TENTH,
            end_ns: (n as u64 + 1) * TENTH,
            far: Some(traffic),
            far_packets: Some(Box::new(report)),
            ..Interval::default()
        });
    }
    let mut delays = Dist::default();
    for (edge, n) in histogram {
        delays.record_n(((edge + BIN_US).max(0.0) * 1e3) as u64, *n);
    }
    if lines.is_empty() {
        came = delays.count() as f64;
    }
    let mut report = received(came.max(0.0) as u64, drops.max(0.0) as u64, 0);
    report.delay_ns = delays.summary();
    Part { intervals, ..part(far, report) }
}
