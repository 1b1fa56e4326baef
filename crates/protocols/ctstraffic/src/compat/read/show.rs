//! Contents of a table, for people.

use super::{ConnectionLine, Connections, CsvTable, Frame, Slice, TcpInfo};
use crate::compat::connection::TCP_INFO_CSV;
use crate::compat::line::layout;
use crate::compat::spec::Transport;
use metrics::{Clamped, Dist, DistSummary, Spread, format_bits_per_second, format_bytes, real};
use std::collections::BTreeMap;

/// Stretches of time into which failures are sorted.
const STRETCHES: usize = 10;
/// Remote addresses and kinds of failure that are listed.
const MOST_LISTED: usize = 20;

pub(super) fn table(name: &str, table: &CsvTable, lines: &mut Vec<String>) {
    let (what, transport, rows) = match table {
        CsvTable::Status { transport, rows, .. } => ("status", *transport, rows.len()),
        CsvTable::Connections(c) => ("connections", c.transport, c.rows.len()),
        CsvTable::Jitter { rows, .. } => ("jitter", Transport::Udp, rows.len()),
        CsvTable::TcpInfo { rows, .. } => ("TCP info", Transport::Tcp, rows.len()),
    };
    let damaged = table.damaged();
    let transport = layout(transport).name;
    let bad = if damaged > 0 { format!(", {damaged} damaged ones passed over") } else { String::new() };
    lines.push(format!("{name}: ctsTraffic, {what} ({transport}), {rows} rows{bad}"));
    match table {
        CsvTable::Status { transport, rows, first_is_void, .. } => {
            status(*transport, rows, *first_is_void, lines);
        }
        CsvTable::Connections(c) => connections(c, lines),
        CsvTable::Jitter { rows, undone, .. } => jitter(rows, *undone, lines),
        CsvTable::TcpInfo { rows, .. } => tcp_info(rows, lines),
    }
}

fn status(transport: Transport, rows: &[Slice], void: bool, lines: &mut Vec<String>) {
    let Some(last) = rows.last() else { return };
    lines.push(format!("  until {:.3} s", last.at_s));
    let peak = |column: usize| rows.iter().map(|row| row.numbers[column]).max().unwrap_or(0);
    let mut rate = |what: &str, column: usize, bits: f64| {
        let counted = rows.iter().skip(usize::from(void));
        let all: Vec<f64> = counted.map(|row| real(row.numbers[column]) * bits).collect();
        let Some(spread) = Spread::of(&all) else { return };
        let [mean, min, max] = [spread.mean, spread.min, spread.max].map(format_bits_per_second);
        let margin = spread.margin().map_or_else(String::new, |width| {
            format!(" ± {} within this run (95 %)", format_bits_per_second(width))
        });
        let left_out = if void { "; the first row means nothing and is left out" } else { "" };
        lines.push(format!("  {what}: mean {mean}{margin}, {min} to {max}{left_out}"));
    };
    match transport {
        Transport::Tcp => {
            let (sent, received, in_flight) = (0, 1, 2);
            rate("sent", sent, 8.0);
            rate("received", received, 8.0);
            let [.., completed, network, data] = last.numbers;
            lines.push(format!(
                "  in flight at most {}; completed {completed}, network errors {network}, data errors {data}",
                peak(in_flight)
            ));
        }
        Transport::Udp => {
            let (received, streams, dropped) = (0, 1, 3);
            rate("received", received, 1.0);
            let sum = |column: usize| rows.iter().map(|row| row.numbers[column]).fold(0, u64::saturating_add);
            let worst =
                rows.iter().map(|row| (row.numbers[dropped], row.at_s)).max_by_key(|(frames, _)| *frames);
            let [completed, dropped, repeated, errors] = [2, dropped, 4, 5].map(sum);
            lines.push(format!("  streams at most {}; frames completed {completed}, dropped {dropped}, repeated {repeated}, errors \
                 {errors}",
                peak(streams)));
            if let Some((frames, at_s)) = worst.filter(|(frames, _)| *frames > 0) {
                lines.push(format!("  most were dropped until {at_s:.3} s: {frames}"));
            }
        }
    }
}

fn connections(table: &Connections, lines: &mut Vec<String>) {
    let rows = &table.rows;
    let good = rows.iter().filter(|row| row.succeeded()).count();
    let bad = rows.len() - good;
    let sum = |column: usize| rows.iter().map(|row| row.numbers[column]).fold(0, u64::saturating_add);
    match table.transport {
        Transport::Tcp => {
            let [sent, received] = [0, 2].map(|column| format_bytes(sum(column)));
            lines.push(format!("  {good} succeeded, {bad} failed; {sent} sent, {received} received"));
            spread(rows, "time", "ms", |row| row.numbers[4], lines);
            spread(rows, "rate", "bytes/s", |row| row.numbers[1].saturating_add(row.numbers[3]), lines);
        }
        Transport::Udp => {
            let [completed, dropped, repeated, errors] = [1, 2, 3, 4].map(sum);
            lines.push(format!("  {good} succeeded, {bad} failed; frames completed {completed}, dropped {dropped}, repeated {repeated}, \
                 errors {errors}"));
            spread(rows, "rate", "bit/s", |row| row.numbers[0], lines);
        }
    }
    failures(rows, lines);
    by_remote(rows, lines);
}

fn spread(
    rows: &[ConnectionLine],
    what: &str,
    unit: &str,
    value: fn(&ConnectionLine) -> u64,
    lines: &mut Vec<String>,
) {
    let values = rows.iter().filter(|row| row.succeeded()).map(value);
    let Some(DistSummary { min, p50, p90, p99, max, .. }) = Dist::from_iter(values).summary() else {
        return;
    };
    lines.push(format!(
        "{what} of the successful ones, {unit}: least {min}, median {p50}, 90 % {p90}, 99 % {p99}, \
                        most {max}"
    ));
}

/// Failures by what went wrong, and by time.
fn failures(rows: &[ConnectionLine], lines: &mut Vec<String>) {
    let failed: Vec<&ConnectionLine> = rows.iter().filter(|row| !row.succeeded()).collect();
    if failed.is_empty() {
        return;
    }
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    failed.iter().for_each(|row| *kinds.entry(&row.result).or_default() += 1);
    let mut kinds: Vec<(&str, u64)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    lines.push("  failures:".to_owned());
    for (result, n) in kinds.iter().take(MOST_LISTED) {
        lines.push(format!("    {n:>8}  {result}"));
    }
    let end = rows.iter().map(|row| row.at_s).filter(|t| t.is_finite()).fold(0.0, f64::max);
    if end <= 0.0 {
        return;
    }
    let at = |row: &ConnectionLine| usize::clamped(row.at_s / end * real(STRETCHES)).min(STRETCHES - 1);
    let mut stretches = [(0u64, 0u64); STRETCHES];
    for row in rows.iter().filter(|row| row.at_s.is_finite()) {
        let stretch = &mut stretches[at(row)];
        stretch.0 += 1;
        stretch.1 += u64::from(!row.succeeded());
    }
    lines.push("  failures by time (s: failed of ended):".to_owned());
    for (i, (ended, failed)) in stretches.iter().enumerate() {
        let edge = |n: usize| end * real(n) / real(STRETCHES);
        lines.push(format!("    {:>10.3} to {:<10.3} {failed:>8} of {ended}", edge(i), edge(i + 1)));
    }
}

/// One line per remote address, in the order of failures, most first.
fn by_remote(rows: &[ConnectionLine], lines: &mut Vec<String>) {
    let mut remotes: BTreeMap<&str, (u64, u64, f64)> = BTreeMap::new();
    for row in rows {
        let entry = remotes.entry(row.remote_host()).or_insert((0, 0, f64::NAN));
        entry.0 += 1;
        if !row.succeeded() {
            entry.1 += 1;
            entry.2 = entry.2.min(row.at_s);
        }
    }
    let mut remotes: Vec<(&str, (u64, u64, f64))> = remotes.into_iter().collect();
    remotes.sort_by_key(|(_, (all, failed, _))| std::cmp::Reverse((*failed, *all)));
    lines.push("  by remote address (failed of ended):".to_owned());
    for (host, (all, failed, first)) in remotes.iter().take(MOST_LISTED) {
        let first = if first.is_nan() { String::new() } else { format!(", the first at {first:.3} s") };
        lines.push(format!("    {host:<40} {failed:>8} of {all}{first}"));
    }
    if remotes.len() > MOST_LISTED {
        lines.push(format!("    and {} more", remotes.len() - MOST_LISTED));
    }
}

fn jitter(rows: &[Frame], undone: bool, lines: &mut Vec<String>) {
    let whole: Vec<&Frame> = rows.iter().filter(|row| !row.dropped()).collect();
    if undone {
        lines.push(
            "  the sender's stamps were read two bytes early (ctsTraffic on Windows): divided by 65536"
                .to_owned(),
        );
    }
    let last = rows.iter().map(|row| row.seq).max().unwrap_or(0);
    let without = last.saturating_sub(i64::try_from(rows.len()).unwrap_or(i64::MAX));
    lines.push(format!("  {} whole frames, {} dropped", whole.len(), rows.len() - whole.len()));
    if without > 0 {
        lines.push(format!(
            "  {without} frames up to number {last} have no row: they were repeated, or the file was cut"
        ));
    }
    // Microseconds hold the three decimals exactly.
    let micros = |row: &&Frame| u64::clamped((row.jitter_ms.max(0.0) * 1000.0).round());
    let jitter = Dist::from_iter(whole.iter().skip(1).map(micros)).summary();
    if let Some(DistSummary { mean, p50, p99, max, .. }) = jitter {
        let [mean, p50, p99, max] = [mean, real(p50), real(p99), real(max)].map(|us| us / 1000.0);
        lines.push(format!(
            "  jitter from frame to frame, ms: mean {mean:.3}, median {p50:.3}, 99 % {p99:.3}, most {max:.3}"
        ));
    }
    if whole.is_empty() {
        return;
    }
    let flights = whole.iter().map(|row| row.flight_ms).filter(|f| f.is_finite());
    let (least, most) = flights.fold((f64::MAX, f64::MIN), |(least, most), f| (least.min(f), most.max(f)));
    lines.push(format!("  time in flight against the first whole frame, ms: {least:.3} to {most:.3}"));
    let ms = |ticks: i64, hz: i64| if hz == 0 { 0.0 } else { real(ticks) * 1000.0 / real(hz) };
    let sent = |row: &Frame| ms(row.stamps.sender_ticks, row.stamps.sender_hz);
    let came = |row: &Frame| ms(row.stamps.receiver_ticks, row.stamps.receiver_hz);
    let next = whole.windows(2).filter(|two| Some(two[1].seq) == two[0].seq.checked_add(1));
    let (sent, came) = next.fold((0.0f64, 0.0f64), |widest, two| {
        (widest.0.max(sent(two[1]) - sent(two[0])), widest.1.max(came(two[1]) - came(two[0])))
    });
    lines.push(format!("  widest gap between frames in a row, ms: {sent:.3} sent, {came:.3} received"));
}

fn tcp_info(rows: &[TcpInfo], lines: &mut Vec<String>) {
    for (column, name) in TCP_INFO_CSV.split(',').skip(9).enumerate() {
        let told: Vec<u64> = rows.iter().filter_map(|row| row.numbers[column]).collect();
        let (Some(least), Some(most)) = (told.iter().min(), told.iter().max()) else {
            lines.push(format!("{name:<20} unknown"));
            continue;
        };
        let sum: u128 = told.iter().map(|&n| u128::from(n)).sum();
        let mean = sum / u128::clamped(told.len());
        lines.push(format!("  {name:<20} sum {sum}, least {least}, mean {mean}, most {most}"));
    }
    let retransmitted = |row: &TcpInfo| row.numbers[1];
    let worst = rows.iter().max_by_key(|row| retransmitted(row));
    if let Some((row, bytes @ 1..)) = worst.and_then(|row| Some((row, retransmitted(row)?))) {
        lines.push(format!("  most was retransmitted to {}: {}", row.remote, format_bytes(bytes)));
    }
}
