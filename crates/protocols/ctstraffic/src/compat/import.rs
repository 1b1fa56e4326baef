//! ctsTraffic's tables as outcomes.

mod ended;

use super::read::{Table, is_table};
use super::spec::Transport;
use compat::import::{ImportedPhase, ImportedRun, ns};
use metrics::{Clamped, Frames, real};
use model::{Interval, Kind, Pattern};
use std::collections::BTreeSet;

/// Remote addresses that are told as targets.
const MOST_TARGETS: usize = 8;

/// Reads a table; `None` when it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<ImportedRun, String>> {
    if !is_table(bytes) {
        return None;
    }
    let mut notices = Vec::new();
    let phase = match Table::read(bytes)? {
        Table::Status { transport: Transport::Tcp, rows, first_is_void, .. } => {
            let rows: Vec<(f64, [u64; 6])> = rows.into_iter().map(|r| (r.at_s, r.numbers)).collect();
            status(&rows, first_is_void)
        }
        Table::Status { transport: Transport::Udp, rows, .. } => {
            frames(&rows.into_iter().map(|r| (r.at_s, r.numbers)).collect::<Vec<_>>())
        }
        Table::Connections(table) => ended::connections(&table),
        Table::Jitter { rows, undone, .. } => {
            if undone {
                notices.push(
                    "the sender's stamps were written 65,536 times too large: that was undone".to_owned(),
                );
            }
            ended::frames(&rows)
        }
        Table::TcpInfo { rows, .. } => {
            notices.push(
                "how often segments were sent again is made of the bytes sent again and the segment size"
                    .to_owned(),
            );
            ended::tcp_info(&rows)
        }
    };
    if phase.records.is_empty() {
        notices.insert(0, "the table has neither the remote end nor the time of the run".to_owned());
    }
    let targets: BTreeSet<String> =
        phase.local.remotes.keys().take(MOST_TARGETS).map(ToString::to_string).collect();
    Some(Ok(ImportedRun {
        program: "ctsTraffic".to_owned(),
        protocol: "ctstraffic",
        verb: if phase.kind == Kind::Stream { "stream" } else { "tcp" },
        targets: targets.into_iter().collect(),
        phases: vec![phase],
        notices,
        ..ImportedRun::default()
    }))
}

/// Slices as intervals: each reaches from the one before to its own time.
fn intervals(rows: &[(f64, [u64; 6])], fill: impl Fn(&mut Interval, &[u64; 6])) -> Vec<Interval> {
    let mut from = 0;
    let one = |(n, (at, numbers)): (usize, &(f64, [u64; 6]))| {
        // The original leaves the time out from a million seconds on.
        let to = if at.is_finite() { ns(*at) } else { from };
        let mut interval = Interval {
            index: u32::try_from(n).unwrap_or(u32::MAX),
            start_ns: std::mem::replace(&mut from, to).min(to),
            end_ns: to,
            ..Interval::default()
        };
        interval.local.ns = interval.end_ns - interval.start_ns;
        fill(&mut interval, numbers);
        interval
    };
    rows.iter().enumerate().map(one).collect()
}

fn status(rows: &[(f64, [u64; 6])], first_is_void: bool) -> ImportedPhase {
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
    let mut phase = ImportedPhase { kind: Kind::Tcp, ..ImportedPhase::default() };
    for interval in &intervals {
        phase.local.traffic.after(&interval.local);
    }
    if let Some([_, _, open, completed, network, data]) = rows.last().map(|(_, numbers)| *numbers) {
        phase.local.completed = completed;
        phase.local.network_errors = network;
        phase.local.data_errors = data;
        phase.local.opened = completed + network + data + open;
    }
    phase.local.peak = intervals.iter().map(|i| i.in_flight).max().unwrap_or(0);
    phase.connections = u32::try_from(phase.local.peak).unwrap_or(u32::MAX);
    phase.pattern = match (phase.local.traffic.tx_bytes > 0, phase.local.traffic.rx_bytes > 0) {
        (true, true) => Pattern::Duplex,
        (false, true) => Pattern::Pull,
        _ => Pattern::Push,
    };
    phase.intervals = intervals;
    phase
}

fn frames(rows: &[(f64, [u64; 6])]) -> ImportedPhase {
    let intervals = intervals(rows, |interval, &[bps, streams, completed, dropped, repeated, errors]| {
        interval.local.rx_bytes = u64::clamped(real(bps) / 8.0 * real(interval.local.ns) / 1e9);
        interval.in_flight = streams;
        interval.frames = Some(Frames { completed, dropped, repeated, errors });
    });
    let mut phase = ImportedPhase { kind: Kind::Stream, pattern: Pattern::Pull, ..ImportedPhase::default() };
    let mut all = Frames::default();
    for interval in &intervals {
        phase.local.traffic.after(&interval.local);
        let more = interval.frames.unwrap_or_default();
        all.completed += more.completed;
        all.dropped += more.dropped;
        all.repeated += more.repeated;
        all.errors += more.errors;
    }
    phase.local.frames = Some(all);
    phase.local.peak = intervals.iter().map(|i| i.in_flight).max().unwrap_or(0);
    phase.connections = u32::try_from(phase.local.peak).unwrap_or(u32::MAX);
    phase.intervals = intervals;
    phase
}

#[cfg(test)]
mod tests;
