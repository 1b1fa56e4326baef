//! What a table says, for people.

use super::table::{Connections, Ended, Frame, Slice, Table, TcpInfo};
use crate::compat::spec::Transport;
use metrics::{Clamped, Dist, DistSummary, Spread, format_bits_per_second, format_bytes, real};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Stretches of time into which failures are sorted.
const STRETCHES: usize = 10;
/// Remote addresses and kinds of failure that are listed.
const MOST_LISTED: usize = 20;

pub(super) fn table(name: &str, table: &Table, out: &mut dyn Write) -> io::Result<()> {
    match table {
        Table::Status { transport, rows, first_is_void, damaged } => {
            heading(name, "status", *transport, rows.len(), *damaged, out)?;
            status(*transport, rows, usize::from(*first_is_void), out)
        }
        Table::Connections(c) => {
            heading(name, "connections", c.transport, c.rows.len(), 0, out)?;
            connections(c, out)
        }
        Table::Jitter { rows, undone, damaged } => {
            heading(name, "jitter", Transport::Udp, rows.len(), *damaged, out)?;
            jitter(rows, *undone, out)
        }
        Table::TcpInfo { rows, damaged } => {
            heading(name, "TCP info", Transport::Tcp, rows.len(), *damaged, out)?;
            tcp_info(rows, out)
        }
    }
}

fn heading(
    name: &str,
    what: &str,
    transport: Transport,
    rows: usize,
    damaged: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let transport = if transport == Transport::Tcp { "TCP" } else { "UDP" };
    let bad = if damaged > 0 { format!(", {damaged} damaged ones passed over") } else { String::new() };
    writeln!(out, "{name}: ctsTraffic, {what} ({transport}), {rows} rows{bad}")
}

fn status(transport: Transport, rows: &[Slice], void: usize, out: &mut dyn Write) -> io::Result<()> {
    let Some(last) = rows.last() else { return Ok(()) };
    let rates = |column: usize, bits: f64| -> Option<Spread> {
        let all: Vec<f64> = rows.iter().skip(void).map(|row| real(row.numbers[column]) * bits).collect();
        Spread::of(&all)
    };
    writeln!(out, "  until {:.3} s", last.at_s)?;
    let rate = |what: &str, spread: Option<Spread>, out: &mut dyn Write| match spread {
        None => Ok(()),
        Some(s) => writeln!(
            out,
            "  {what}: mean {}, ± {} (95 %), {} to {}{}",
            format_bits_per_second(s.mean),
            format_bits_per_second(s.ci95),
            format_bits_per_second(s.min),
            format_bits_per_second(s.max),
            if void > 0 { "; the first row means nothing and is left out" } else { "" }
        ),
    };
    match transport {
        Transport::Tcp => {
            rate("sent", rates(0, 8.0), out)?;
            rate("received", rates(1, 8.0), out)?;
            let [.., completed, network, data] = last.numbers;
            let peak = rows.iter().map(|row| row.numbers[2]).max().unwrap_or(0);
            writeln!(
                out,
                "  in flight at most {peak}; completed {completed}, network errors {network}, data errors {data}"
            )
        }
        Transport::Udp => {
            rate("received", rates(0, 1.0), out)?;
            let sum = |column: usize| rows.iter().map(|row| row.numbers[column]).fold(0, u64::saturating_add);
            let peak = rows.iter().map(|row| row.numbers[1]).max().unwrap_or(0);
            let worst = rows.iter().max_by_key(|row| row.numbers[3]).filter(|row| row.numbers[3] > 0);
            writeln!(
                out,
                "  streams at most {peak}; frames completed {}, dropped {}, repeated {}, errors {}",
                sum(2),
                sum(3),
                sum(4),
                sum(5)
            )?;
            worst.map_or(Ok(()), |row| {
                writeln!(out, "  most were dropped until {:.3} s: {}", row.at_s, row.numbers[3])
            })
        }
    }
}

fn connections(table: &Connections, out: &mut dyn Write) -> io::Result<()> {
    let rows = &table.rows;
    let good = rows.iter().filter(|row| row.succeeded()).count();
    let sum = |column: usize| rows.iter().map(|row| row.numbers[column]).fold(0, u64::saturating_add);
    match table.transport {
        Transport::Tcp => {
            writeln!(
                out,
                "  {good} succeeded, {} failed; {} sent, {} received",
                rows.len() - good,
                format_bytes(sum(0)),
                format_bytes(sum(2))
            )?;
            spread(rows, "  time of those that succeeded", "ms", |row| row.numbers[4], out)?;
            spread(
                rows,
                "  rate of those that succeeded",
                "bytes/s",
                |row| row.numbers[1].saturating_add(row.numbers[3]),
                out,
            )?;
        }
        Transport::Udp => {
            writeln!(
                out,
                "  {good} succeeded, {} failed; frames completed {}, dropped {}, repeated {}, errors {}",
                rows.len() - good,
                sum(1),
                sum(2),
                sum(3),
                sum(4)
            )?;
            spread(rows, "  rate of those that succeeded", "bit/s", |row| row.numbers[0], out)?;
        }
    }
    failures(rows, out)?;
    by_remote(rows, out)
}

fn spread(
    rows: &[Ended],
    what: &str,
    unit: &str,
    value: fn(&Ended) -> u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let values = rows.iter().filter(|row| row.succeeded()).map(value);
    let Some(DistSummary { min, p50, p90, p99, max, .. }) = summary(values) else { return Ok(()) };
    writeln!(out, "{what}, {unit}: least {min}, median {p50}, 90 % {p90}, 99 % {p99}, most {max}")
}

fn summary(values: impl Iterator<Item = u64>) -> Option<DistSummary> {
    let mut dist = Dist::default();
    values.for_each(|value| dist.record(value));
    dist.summary()
}

/// Failures by what went wrong, and by time.
fn failures(rows: &[Ended], out: &mut dyn Write) -> io::Result<()> {
    let failed: Vec<&Ended> = rows.iter().filter(|row| !row.succeeded()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    failed.iter().for_each(|row| *kinds.entry(&row.result).or_default() += 1);
    let mut kinds: Vec<(&str, u64)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    writeln!(out, "  failures:")?;
    for (result, n) in kinds.iter().take(MOST_LISTED) {
        writeln!(out, "    {n:>8}  {result}")?;
    }
    let end = rows.iter().map(|row| row.at_s).filter(|t| t.is_finite()).fold(0.0, f64::max);
    if end <= 0.0 {
        return Ok(());
    }
    let at = |row: &Ended| usize::clamped(row.at_s / end * real(STRETCHES)).min(STRETCHES - 1);
    let mut stretches = [(0u64, 0u64); STRETCHES];
    for row in rows.iter().filter(|row| row.at_s.is_finite()) {
        let stretch = &mut stretches[at(row)];
        stretch.0 += 1;
        stretch.1 += u64::from(!row.succeeded());
    }
    writeln!(out, "  failures by time (s: failed of ended):")?;
    for (i, (ended, failed)) in stretches.iter().enumerate() {
        let edge = |n: usize| end * real(n) / real(STRETCHES);
        writeln!(out, "    {:>10.3} to {:<10.3} {failed:>8} of {ended}", edge(i), edge(i + 1))?;
    }
    Ok(())
}

/// One line per remote address, those with the most failures first.
fn by_remote(rows: &[Ended], out: &mut dyn Write) -> io::Result<()> {
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
    writeln!(out, "  by remote address (failed of ended):")?;
    for (host, (all, failed, first)) in remotes.iter().take(MOST_LISTED) {
        let first = if first.is_nan() { String::new() } else { format!(", the first at {first:.3} s") };
        writeln!(out, "    {host:<40} {failed:>8} of {all}{first}")?;
    }
    if remotes.len() > MOST_LISTED {
        writeln!(out, "    and {} more", remotes.len() - MOST_LISTED)?;
    }
    Ok(())
}

fn jitter(rows: &[Frame], undone: bool, out: &mut dyn Write) -> io::Result<()> {
    let whole: Vec<&Frame> = rows.iter().filter(|row| !row.dropped()).collect();
    if undone {
        writeln!(
            out,
            "  the sender's stamps were read two bytes early (ctsTraffic on Windows): divided by 65536"
        )?;
    }
    let last = rows.iter().map(|row| row.seq).max().unwrap_or(0);
    let without = last.saturating_sub(i64::try_from(rows.len()).unwrap_or(i64::MAX));
    writeln!(out, "  {} whole frames, {} dropped", whole.len(), rows.len() - whole.len())?;
    if without > 0 {
        writeln!(
            out,
            "  {without} frames up to number {last} have no row: they were repeated, or the file was cut"
        )?;
    }
    // Microseconds hold the three decimals exactly.
    let micros = |row: &&Frame| u64::clamped((row.jitter_ms.max(0.0) * 1000.0).round());
    if let Some(DistSummary { mean, p50, p99, max, .. }) = summary(whole.iter().skip(1).map(micros)) {
        writeln!(
            out,
            "  jitter from frame to frame, ms: mean {:.3}, median {:.3}, 99 % {:.3}, most {:.3}",
            mean / 1000.0,
            real(p50) / 1000.0,
            real(p99) / 1000.0,
            real(max) / 1000.0
        )?;
    }
    let flights = || whole.iter().map(|row| row.flight_ms).filter(|f| f.is_finite());
    if whole.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  time in flight against the first whole frame, ms: {:.3} to {:.3}",
        flights().fold(f64::MAX, f64::min),
        flights().fold(f64::MIN, f64::max)
    )?;
    let ms = |ticks: i64, hz: i64| if hz == 0 { 0.0 } else { real(ticks) * 1000.0 / real(hz) };
    let mut gaps = whole.windows(2).filter(|two| Some(two[1].seq) == two[0].seq.checked_add(1));
    let widest = gaps.by_ref().fold((0.0f64, 0.0f64), |(sent, came), two| {
        let gap = |i: usize| {
            ms(two[1].stamps[i], two[1].stamps[i + 1]) - ms(two[0].stamps[i], two[0].stamps[i + 1])
        };
        (sent.max(gap(0)), came.max(gap(2)))
    });
    writeln!(out, "  widest gap between frames in a row, ms: {:.3} sent, {:.3} received", widest.0, widest.1)
}

/// Names of the columns that are summed or compared.
const TCP_INFO: [&str; 11] = [
    "BytesReordered",
    "BytesRetransmitted",
    "SynRetransmitted",
    "DupAcksIn",
    "MinRttUs",
    "Mss",
    "TimeoutEpisodes",
    "FastRetransmit",
    "SndLimBytesCwnd",
    "SndLimBytesRwin",
    "SndLimBytesSnd",
];

fn tcp_info(rows: &[TcpInfo], out: &mut dyn Write) -> io::Result<()> {
    for (column, name) in TCP_INFO.iter().enumerate() {
        let told: Vec<u64> = rows.iter().filter_map(|row| row.numbers[column]).collect();
        let (Some(least), Some(most)) = (told.iter().min(), told.iter().max()) else {
            writeln!(out, "  {name:<20} not told")?;
            continue;
        };
        let sum: u128 = told.iter().map(|&n| u128::from(n)).sum();
        writeln!(
            out,
            "  {name:<20} sum {sum}, least {least}, mean {}, most {most}",
            sum / u128::clamped(told.len())
        )?;
    }
    let worst = rows.iter().max_by_key(|row| row.numbers[1]).filter(|row| row.numbers[1] > Some(0));
    worst.map_or(Ok(()), |row| {
        let bytes = row.numbers[1].unwrap_or(0);
        writeln!(out, "  most was retransmitted to {}: {}", row.remote, format_bytes(bytes))
    })
}
