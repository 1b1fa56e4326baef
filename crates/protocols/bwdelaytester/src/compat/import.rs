//! bwdelaytester's lines, histogram and table as outcomes.

use super::table::{COLUMNS, HISTOGRAM, SWEEP};
use compat::file::Source;
use compat::import::{ImportedPhase, ImportedRun, received};
use metrics::{Clamped, Dist, real};
use model::{
    Count, Counts, CountsByWay, DelayRange, EndCounts, Interval, Kind, PacketReport, Pattern, Role, Totals,
    Traffic,
};
use std::collections::BTreeMap;

/// Lines of one file that are read; an hour is 36,000.
const MOST: usize = 10_000_000;
/// Larger numbers no line has.
const MOST_COUNT: f64 = 1e15;
/// Length of a line's interval, ns.
const TENTH: u64 = 100_000_000;
/// Width of a bin of its histogram, µs.
const BIN_US: f64 = 200.0;

/// True if a file holds bwdelaytester's stdout, or its stderr, or both.
fn is_output(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let known = |line: &str| {
        let line = line.trim_end();
        line == COLUMNS.trim_end() || line == HISTOGRAM || line == SWEEP
    };
    start.lines().any(known)
}

/// The lines of a file. Lines of other programs are left out: users cut their files.
#[derive(Debug, Default)]
struct Output {
    lines: Vec<[f64; 7]>,
    histogram: Vec<(f64, u64)>,
    rates: Vec<[f64; 6]>,
    restarts: u64,
    /// Lines that are none of its.
    other: u64,
}

fn row<const N: usize>(line: &str) -> Option<[f64; N]> {
    let mut row = [0.0; N];
    let mut words = line.split_ascii_whitespace();
    for place in &mut row {
        *place = words.next()?.parse().ok().filter(|value: &f64| value.abs() < MOST_COUNT)?;
    }
    words.next().is_none().then_some(row)
}

fn output(text: &str) -> Output {
    let mut output = Output::default();
    let mut sweep = false;
    for line in text.lines().take(MOST) {
        let line = line.trim_end();
        match line {
            HISTOGRAM => sweep = false,
            SWEEP => sweep = true,
            _ if line.starts_with("WARNING: Remote restarted") => output.restarts += 1,
            _ if line.is_empty() || line.starts_with('#') || line.starts_with("First packet") => {}
            _ => {
                // Without a common clock delays may be below 0, counts may not.
                if let Some(row) = row::<7>(line).filter(|row| row[..4].iter().all(|n| *n >= 0.0)) {
                    output.lines.push(row);
                } else if let Some(row) =
                    row::<6>(line).filter(|row| sweep && row[0] >= 0.0 && (0.0..=100.0).contains(&row[1]))
                {
                    output.rates.push(row);
                } else if let Some([edge, count, _]) =
                    row::<3>(line).filter(|row| !sweep && row.iter().all(|n| *n >= 0.0))
                {
                    output.histogram.push((edge, u64::clamped(count)));
                } else {
                    output.other += 1;
                }
            }
        }
    }
    output
}

/// Reads an output; `None` when it is none.
pub(crate) fn read(source: &Source) -> Option<Result<ImportedRun, String>> {
    let bytes = source.text()?.as_bytes();
    if !is_output(bytes) {
        return None;
    }
    let output = output(&String::from_utf8_lossy(bytes));
    let mut found = ImportedRun {
        program: "bwdelaytester".to_owned(),
        protocol: "bwdelaytester",
        verb: "delay",
        notices: vec!["the file has neither sender nor date".to_owned()],
        recorder: Role::Server,
        counts: Some(EndCounts {
            server: CountsByWay { up: RECORDED, ..EndCounts::OWN.server },
            ..EndCounts::OWN
        }),
        ..ImportedRun::default()
    };
    if !output.lines.is_empty() || !output.histogram.is_empty() {
        found.phases.push(stream(&output.lines, &output.histogram));
    }
    if !output.histogram.is_empty() {
        found.notices.push("delays are the upper edges of the histogram's bins of 200 µs".to_owned());
    }
    // Per rate: the share that was lost, and extremes and a mean of the delays.
    found.phases.extend(output.rates.iter().map(|[mbit, loss, min, max, mean, ..]| {
        let lost = u64::clamped((loss * 1e4).round());
        let mut report = received(1_000_000 - lost, lost, 0);
        report.delay_range_ns = range(*min, *max, *mean);
        let rate = format!("{:.0}", mbit * 1e6);
        ImportedPhase {
            label: BTreeMap::from([("rate".to_owned(), rate)]),
            ..phase(Totals { unknown: Counts::of(&[Count::ReceivedBytes]), ..Totals::default() }, report)
        }
    }));
    if !output.rates.is_empty() {
        found.notices.push(
            "of a rate of the table the file has the share of lost datagrams, imported as phases of a million, and the delays of the rest; their number is unknown"
                .to_owned(),
        );
    }
    for (n, what) in [
        (output.restarts, "times the sender restarted, or seemed to"),
        (output.other, "lines are none of its"),
    ] {
        found.notices.extend((n > 0).then(|| format!("{n} {what}")));
    }
    Some(Ok(found))
}

/// Counts in a receiver's lines.
const RECORDED: Counts = Counts::of(&[Count::ReceivedBytes, Count::ReceivedDatagrams, Count::LostDatagrams]);

/// The receiver's counts are the remote end's.
fn phase(mut remote: Totals, report: PacketReport) -> ImportedPhase {
    remote.packets = Some(Box::new(report));
    ImportedPhase {
        kind: Kind::Delay,
        pattern: Pattern::Push,
        connections: 1,
        remote: Some(remote),
        ..ImportedPhase::default()
    }
}

/// Delays of an interval, or at a rate, in the file's µs. A smallest one of 0 is the value with
/// which the original begins its search.
fn range(min: f64, max: f64, mean: f64) -> Option<DelayRange> {
    let ns = |us: f64| u64::clamped(us * 1e3);
    // Without a common clock they may be below 0, and then they are no times.
    (max >= 0.0 && mean >= 0.0).then(|| DelayRange {
        min: Some(min).filter(|&us| us > 0.0).map(ns),
        mean: mean * 1e3,
        max: ns(max),
    })
}

fn stream(lines: &[[f64; 7]], histogram: &[(f64, u64)]) -> ImportedPhase {
    let mut remote = Totals::default();
    let (mut came, mut drops) = (0.0, 0.0);
    let mut intervals = Vec::with_capacity(lines.len());
    for (n, [bytes, packets, dropped, _, min, max, mean]) in (0_u64..).zip(lines) {
        let at = n * TENTH;
        // The file has ten times the bytes and packets of a line, as if for a second.
        let traffic =
            Traffic { tx_bytes: 0, rx_bytes: u64::clamped(bytes / 10.0), ns: TENTH, ..Traffic::default() };
        remote.traffic.add_later(&traffic);
        came += packets / 10.0;
        drops += dropped;
        let mut report = received(u64::clamped(packets / 10.0), u64::clamped(*dropped), 0);
        report.delay_range_ns = range(*min, *max, *mean);
        intervals.push(Interval {
            index: u32::clamped(n),
            start_ns: at,
            end_ns: at + TENTH,
            remote: Some(traffic),
            remote_packets: Some(Box::new(report)),
            ..Interval::default()
        });
    }
    let mut delays = Dist::default();
    for (edge, n) in histogram {
        delays.record_n(u64::clamped((edge + BIN_US) * 1e3), *n);
    }
    if lines.is_empty() {
        came = real(delays.count());
    }
    let mut report = received(u64::clamped(came), u64::clamped(drops), 0);
    report.delay_ns = delays.summary();
    ImportedPhase { intervals, ..phase(remote, report) }
}

#[cfg(test)]
mod tests;
