//! ctsTraffic's tables as outcomes.

mod ended;

use super::read::{CsvTable, Slice, heads};
use super::spec::Transport;
use compat::file::Source;
use compat::import::{ImportedPhase, ImportedRun, ns};
use metrics::{Clamped, Frames, format_count, real};
use model::{Interval, Kind, Pattern, Traffic};
use std::collections::BTreeSet;

/// Most remote addresses that are reported as targets.
const MOST_TARGETS: usize = 8;

/// True of the header of a table.
pub(crate) fn begins(line: &str) -> bool {
    heads(line)
}

/// Reads a table; `None` when it is none.
pub(crate) fn read(source: &Source) -> Option<Result<ImportedRun, String>> {
    let table = CsvTable::read(source.text()?.as_bytes())?;
    if table.is_empty() {
        return Some(Err("the file is of ctsTraffic, but holds no result".to_owned()));
    }
    let mut damaged = table.damaged();
    let mut notices = Vec::new();
    let phase = match table {
        CsvTable::Status { transport: Transport::Tcp, rows, first_is_void, .. } => {
            status(&rows, first_is_void || source.is_utf16())
        }
        CsvTable::Status { transport: Transport::Udp, rows, .. } => frames(&rows),
        CsvTable::Connections(table) => ended::connections(&table),
        CsvTable::Jitter { rows, undone, .. } => {
            if undone {
                notices.push("the sender's stamps were written 65,536 times too large: that was undone");
            }
            let (phase, odd) = ended::frames(&rows);
            damaged += odd;
            phase
        }
        CsvTable::TcpInfo { rows, .. } => {
            notices.push(
                "how often segments were sent again is made of the bytes sent again and the segment size",
            );
            ended::tcp_info(&rows)
        }
    };
    if phase.records.is_empty() {
        notices.insert(0, "the table has neither the remote end nor the time of the run");
    }
    let targets: BTreeSet<String> =
        phase.local.remotes.keys().take(MOST_TARGETS).map(ToString::to_string).collect();
    Some(Ok(ImportedRun {
        program: "ctsTraffic".to_owned(),
        protocol: "ctstraffic",
        verb: if phase.kind == Kind::Stream { "stream" } else { "tcp" },
        targets: targets.into_iter().collect(),
        phases: vec![phase],
        counts: Some(crate::PROTOCOL.info.counts),
        notices: notices.into_iter().map(str::to_owned).chain(odd_rows(damaged)).collect(),
        ..ImportedRun::default()
    }))
}

/// A sentence about rows that cannot be read, or have numbers that no test can have.
fn odd_rows(damaged: u64) -> Option<String> {
    (damaged > 0).then(|| format!("{} damaged: left out", format_count(damaged, "row")))
}

/// Slices as intervals: each reaches from the one before to its own time.
fn intervals(rows: &[Slice], fill: impl Fn(&mut Interval, &[u64; 6])) -> Vec<Interval> {
    let mut last = 0;
    let one = |(n, row): (usize, &Slice)| {
        // The original leaves the time out from a million seconds on.
        let to = if row.at_s.is_finite() { ns(row.at_s) } else { last };
        let from = last;
        last = last.max(to);
        // A time before the last one makes an interval that the import leaves out.
        let mut interval = Interval {
            index: u32::try_from(n).unwrap_or(u32::MAX),
            start_ns: from,
            end_ns: to,
            ..Interval::default()
        };
        interval.local.ns = interval.end_ns.saturating_sub(interval.start_ns);
        fill(&mut interval, &row.numbers);
        interval
    };
    rows.iter().enumerate().map(one).collect()
}

fn status(rows: &[Slice], first_is_void: bool) -> ImportedPhase {
    let moved = |rate: u64, ns: u64| u64::clamped(real(rate) * real(ns) / 1e9);
    let mut intervals = intervals(rows, |interval, &[sent, received, open, completed, network, data]| {
        let ns = interval.local.ns;
        interval.local.tx_bytes = moved(sent, ns);
        interval.local.rx_bytes = moved(received, ns);
        interval.in_flight = open;
        interval.completed = completed;
        interval.network_errors = network;
        interval.data_errors = data;
    });
    if first_is_void && !intervals.is_empty() {
        // The original divides its first by the time since the host was started.
        intervals.remove(0);
    }
    let mut phase = phase(Kind::Tcp, intervals);
    if let Some([_, _, open, completed, network, data]) = rows.last().map(|row| row.numbers) {
        phase.local.completed = completed;
        phase.local.network_errors = network;
        phase.local.data_errors = data;
        phase.local.opened = [completed, network, data, open].into_iter().fold(0, u64::saturating_add);
    }
    phase.pattern = pattern(phase.local.traffic, Pattern::Push);
    phase
}

/// The pattern by the directions that carried bytes; `otherwise` where neither did.
fn pattern(traffic: Traffic, otherwise: Pattern) -> Pattern {
    match (traffic.tx_bytes > 0, traffic.rx_bytes > 0) {
        (true, true) => Pattern::Duplex,
        (true, false) => Pattern::Push,
        (false, true) => Pattern::Pull,
        (false, false) => otherwise,
    }
}

fn frames(rows: &[Slice]) -> ImportedPhase {
    let intervals = intervals(rows, |interval, &[bps, streams, completed, dropped, repeated, errors]| {
        interval.local.rx_bytes = u64::clamped(real(bps) / 8.0 * real(interval.local.ns) / 1e9);
        interval.in_flight = streams;
        interval.frames = Some(Frames { completed, dropped, repeated, errors });
    });
    let mut all = Frames::default();
    intervals.iter().filter_map(|interval| interval.frames).for_each(|more| add_frames(&mut all, more));
    let mut phase = phase(Kind::Stream, intervals);
    phase.pattern = Pattern::Pull;
    phase.local.frames = Some(all);
    phase
}

/// A phase of these intervals, with their sums.
fn phase(kind: Kind, intervals: Vec<Interval>) -> ImportedPhase {
    let mut phase = ImportedPhase { kind, ..ImportedPhase::default() };
    let traffic = &mut phase.local.traffic;
    for interval in &intervals {
        add(&mut traffic.tx_bytes, interval.local.tx_bytes);
        add(&mut traffic.rx_bytes, interval.local.rx_bytes);
        add(&mut traffic.ns, interval.local.ns);
    }
    phase.local.peak = intervals.iter().map(|i| i.in_flight).max().unwrap_or(0);
    phase.connections = u32::try_from(phase.local.peak).unwrap_or(u32::MAX);
    phase.intervals = intervals;
    phase
}

/// Adds a number of a file, which may be any.
fn add(sum: &mut u64, number: u64) {
    *sum = sum.saturating_add(number);
}

fn add_frames(sum: &mut Frames, more: Frames) {
    add(&mut sum.completed, more.completed);
    add(&mut sum.dropped, more.dropped);
    add(&mut sum.repeated, more.repeated);
    add(&mut sum.errors, more.errors);
}

#[cfg(test)]
mod tests;
