//! bwdelaytester's lines, histogram and table as outcomes.

use super::table::{COLUMNS, HISTOGRAM, SWEEP};
use crate::import::{ImportedPhase, ImportedRun, received};
use crate::number::{floor, narrow, round};
use metrics::{Dist, real};
use model::{DelayRange, Interval, Kind, PacketReport, Pattern, Totals, Traffic};
use std::collections::BTreeMap;

/// Lines of one file that are read; an hour is 36,000.
const MOST: usize = 10_000_000;
/// Length of a line's interval, ns.
const TENTH: u64 = 100_000_000;
/// Width of a bin of its histogram, µs.
const BIN_US: f64 = 200.0;

/// Whether a file holds bwdelaytester's stdout, or its stderr, or both.
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
        *place = words.next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
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
                if let Some(row) = row::<7>(line) {
                    output.lines.push(row);
                } else if let Some(row) = row::<6>(line).filter(|_| sweep) {
                    output.rates.push(row);
                } else if let Some([edge, count, _]) = row::<3>(line).filter(|_| !sweep) {
                    output.histogram.push((edge, floor(count)));
                } else {
                    output.other += 1;
                }
            }
        }
    }
    output
}

/// Reads an output; `None` when it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<ImportedRun, String>> {
    if !is_output(bytes) {
        return None;
    }
    let output = output(&String::from_utf8_lossy(bytes));
    let mut found = ImportedRun {
        program: "bwdelaytester".to_owned(),
        protocol: "bwdelaytester",
        verb: "delay",
        notices: vec!["the file does not tell who sent, nor when".to_owned()],
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
        let lost = round(loss.clamp(0.0, 100.0) * 1e4);
        let mut report = received(1_000_000 - lost, lost, 0);
        report.delay_range_ns = range(*min, *max, *mean);
        let rate = format!("{:.0}", mbit * 1e6);
        ImportedPhase {
            label: BTreeMap::from([("rate".to_owned(), rate)]),
            ..phase(Totals::default(), report)
        }
    }));
    if !output.rates.is_empty() {
        found.notices.push(
            "of a rate of the table the share that was lost is told, as phases of a million, and how long the rest took; how \
             many there were is not"
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

/// Delays of an interval, or at a rate, told in µs. A smallest one of 0 is what the original begins to compare with.
fn range(min: f64, max: f64, mean: f64) -> Option<DelayRange> {
    let ns = |us: f64| floor(us * 1e3);
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
        // Bytes and packets are told ten times over, as if for a second.
        let traffic = Traffic { tx_bytes: 0, rx_bytes: floor(bytes / 10.0), ns: TENTH };
        remote.traffic.after(&traffic);
        came += packets / 10.0;
        drops += dropped;
        let mut report = received(floor(packets / 10.0), floor(*dropped), 0);
        report.delay_range_ns = range(*min, *max, *mean);
        intervals.push(Interval {
            index: narrow(n),
            start_ns: at,
            end_ns: at + TENTH,
            remote: Some(traffic),
            remote_packets: Some(Box::new(report)),
            ..Interval::default()
        });
    }
    let mut delays = Dist::default();
    for (edge, n) in histogram {
        delays.record_n(floor((edge + BIN_US) * 1e3), *n);
    }
    if lines.is_empty() {
        came = real(delays.count());
    }
    let mut report = received(floor(came), floor(drops), 0);
    report.delay_ns = delays.summary();
    ImportedPhase { intervals, ..phase(remote, report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the output of the original (arnoutdekimo/bwdelaytester, 2022-11): the beginning of `-p 1000 -b 10`, received over
    /// loopback, and two rows of the table of `-p 500 -b 60 -s`.
    const OUT: &str = "# bytes_last_intv packets_last_intv drops_last_intv drops_consq_last_intv mindelayus_last_intv maxdelayus_last_intv avgdelayus_last_intv \n\
        10000 10 0 0 0 243 243\n1250000 1250 0 0 6 1403 175\n1270000 1270 0 0 6 4002 102\n";
    const ERR: &str = "First packet seen from 127.0.0.1:60330\n## Printing latency histogram:\n0 2194 88\n200 16 88\n400 290 100\n\
        ## Printing sweep data:\n10 0.000000 0 321924 353 326\n20 0.238643 0 219105 474 328\n";

    fn imported(text: &str) -> ImportedRun {
        read(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn lines_add_up_to_what_came() {
        let run = imported(OUT);
        let remote = run.phases[0].remote.as_ref().unwrap();
        // 1, 125 and 127 packets of 1000 bytes in three tenths of a second.
        let counts = remote.packets.as_ref().unwrap().counts;
        assert_eq!(
            (counts.received, counts.lost, remote.traffic.rx_bytes, remote.traffic.ns),
            (253, 0, 253_000, 3 * TENTH)
        );
        let delays = run.phases[0].intervals[0].remote_packets.as_ref().unwrap().delay_range_ns.unwrap();
        // The original begins to compare with 0.
        assert_eq!((delays.min, delays.max), (None, 243_000));
    }

    #[test]
    fn histogram_and_table() {
        let run = imported(ERR);
        let delays =
            run.phases[0].remote.as_ref().unwrap().packets.as_ref().unwrap().delay_ns.clone().unwrap();
        assert_eq!(delays.count, 2_500);
        assert_eq!((run.phases.len(), run.phases[2].label["rate"].as_str()), (3, "20000000"));
        assert!(!run.notices.iter().any(|text| text.contains("none of its")), "{:?}", run.notices);
    }

    #[test]
    fn other_files_are_not_taken_and_nonsense_is_counted() {
        for text in ["", "1 2 3 4 5 6 7\n", "{\"schema\": 1}", "size,wait_us\n"] {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
        let run = imported(&format!("{OUT}1 2 x\n9 9 9 9 9 9 9 9\nnan 1 1 1 1 1 1\n"));
        assert!(run.notices.contains(&"3 lines are none of its".to_owned()), "{:?}", run.notices);
    }
}
