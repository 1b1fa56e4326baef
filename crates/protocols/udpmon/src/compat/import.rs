//! The lines of `udpmon_bw_mon`, `udpmon_req` and `tcpmon_mon` as outcomes, a test each, and those of `udpmon_recv`, a period each.

use super::read::{Table, is_table, tables};
use crate::{PacketTest, PacketTestLatency};
use compat::import::{ImportedPhase, ImportedRun, ns, received};
use metrics::{Clamped, Wall};
use model::{Interval, Kind, Pattern, PingCounts, RoundTrips, Totals, Traffic};
use std::collections::BTreeMap;

/// Reads a printout; `None` when it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<ImportedRun, String>> {
    if !is_table(bytes) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let all = tables(&text);
    let each = |of: fn(&Table<'_>, &[&str]) -> Option<ImportedPhase>| -> Vec<ImportedPhase> {
        all.iter().flat_map(|table| table.rows.iter().filter_map(move |row| of(table, row))).collect()
    };
    let tests: Vec<PacketTest> =
        all.iter().flat_map(|table| table.rows.iter().filter_map(|row| latency(table, row))).collect();
    if !tests.is_empty() {
        return Some(Ok(requests(tests)));
    }
    let gaps = all.iter().any(|table| !table.right).then_some(GAPS);
    let messages = each(message);
    if !messages.is_empty() {
        return Some(Ok(ImportedRun {
            program: "tcpmon_mon".to_owned(),
            verb: "tcp",
            ..found(messages, gaps)
        }));
    }
    if let Some(found) = periods(&all) {
        return Some(Ok(found));
    }
    let phases = each(test);
    if phases.is_empty() {
        return Some(Err("the file is of UDPmon, but holds no line of a test".to_owned()));
    }
    Some(Ok(found(phases, gaps)))
}

/// What has to be known of the original's rates.
const GAPS: &str =
    "the rates are over as many gaps as there are: the original divides N packets by N - 1 gaps";

fn found(phases: Vec<ImportedPhase>, notice: Option<&str>) -> ImportedRun {
    ImportedRun {
        program: "udpmon_bw_mon".to_owned(),
        protocol: "udpmon",
        verb: "delay",
        phases,
        notices: notice.map(str::to_owned).into_iter().collect(),
        ..ImportedRun::default()
    }
}

/// A cell of a row, by the beginning of its column's title.
fn cell(table: &Table<'_>, row: &[&str], beginning: &str) -> Option<f64> {
    let place = table.titles.iter().position(|title| title.starts_with(beginning))?;
    row.get(place)?.parse::<f64>().ok().filter(|n| n.is_finite() && (0.0..1e15).contains(n))
}

/// The lines of `udpmon_recv`. It tells when a period ended in whole seconds: each is taken for as long as the mean of them.
fn periods(all: &[Table<'_>]) -> Option<ImportedRun> {
    let at =
        |beginning: &'static str| move |(table, row): &(&Table<'_>, &Vec<&str>)| cell(table, row, beginning);
    let came = |line: &(&Table<'_>, &Vec<&str>)| at("Bytes Recv")(line).is_some();
    let lines: Vec<_> =
        all.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))).filter(came).collect();
    let ended = |line| at("linux time")(line).unwrap_or(0.0);
    let (first, last) = (ended(lines.first()?), ended(lines.last()?));
    let gaps = metrics::real(lines.len().saturating_sub(1).max(1));
    let period = ns((last - first).max(1.0) / gaps);
    let mut remote = Totals::default();
    let mut counts = [0; 3];
    let mut intervals = Vec::with_capacity(lines.len());
    for (index, line) in (0u32..).zip(&lines) {
        let bytes = u64::clamped(at("Bytes Recv")(line).unwrap_or(0.0));
        let traffic = Traffic { tx_bytes: 0, rx_bytes: bytes, ns: period };
        remote.traffic.after(&traffic);
        let fates =
            ["num_recv", "num_lost", "num_badorder"].map(|name| u64::clamped(at(name)(line).unwrap_or(0.0)));
        counts.iter_mut().zip(fates).for_each(|(sum, n)| *sum += n);
        let [came, lost, order] = fates;
        intervals.push(Interval {
            index,
            start_ns: u64::from(index) * period,
            end_ns: (u64::from(index) + 1) * period,
            remote: Some(traffic),
            remote_packets: Some(Box::new(received(came, lost, order))),
            ..Interval::default()
        });
    }
    let [came, lost, order] = counts;
    remote.packets = Some(Box::new(received(came, lost, order)));
    let phase = ImportedPhase {
        kind: Kind::Delay,
        pattern: Pattern::Push,
        connections: 1,
        intervals,
        remote: Some(remote),
        ..ImportedPhase::default()
    };
    let notice = "the ends of the periods are told in whole seconds: each is taken for as long as the mean of them, from the end \
                  of the one before";
    let begun = ns(first).saturating_sub(period);
    let started = Wall(i64::clamped(begun));
    Some(ImportedRun { program: "udpmon_recv".to_owned(), started, ..found(vec![phase], Some(notice)) })
}

/// A line of `tcpmon_mon`: one size and one spacing of messages on a connection.
fn message(table: &Table<'_>, row: &[&str]) -> Option<ImportedPhase> {
    let at = |beginning: &str| cell(table, row, beginning);
    at("soc_buf_size")?;
    let size = at("pkt len").filter(|size| *size >= 1.0)?;
    let (came, bytes, rate) = (at("num_recv")?, at("bytes_recv")?, at("recv_data_rate")?);
    let mut phase = sized(size, at("wait_time")?);
    phase.kind = Kind::Tcp;
    phase.local.traffic.tx_bytes = u64::clamped(size * at("num_sent")?);
    phase.local.traffic.ns = u64::clamped(at("Send_time")? * 1e3);
    phase.local.tcp.retransmits = u64::clamped(at("tcpi_total_retrans").unwrap_or(0.0));
    let remote = phase.remote.get_or_insert_default();
    remote.traffic.rx_bytes = u64::clamped(bytes);
    remote.traffic.ns = lasted(table, bytes, came, rate);
    Some(phase)
}

/// A test of one size, bytes, and one spacing, µs.
fn sized(size: f64, wait: f64) -> ImportedPhase {
    let label = BTreeMap::from([
        ("size".to_owned(), format!("{size:.0}")),
        ("spacing".to_owned(), format!("{:.0}", wait * 1e3)),
    ]);
    ImportedPhase {
        label,
        kind: Kind::Delay,
        pattern: Pattern::Push,
        connections: 1,
        ..ImportedPhase::default()
    }
}

/// How long so many bytes took in `came` pieces, ns, given the rate in Mbit/s, which the original tells of as many pieces over
/// one gap fewer.
fn lasted(table: &Table<'_>, bytes: f64, came: f64, rate: f64) -> u64 {
    let right = if came > 1.0 && !table.right { rate * (came - 1.0) / came } else { rate };
    if right > 0.0 { ns(bytes * 8.0 / (right * 1e6)) } else { 0 }
}

/// The tests of `udpmon_req`.
fn requests(tests: Vec<PacketTest>) -> ImportedRun {
    let counts = tests.iter().fold(PingCounts::default(), |counts, test| {
        let trips = test.latency.clone().unwrap_or_default();
        PingCounts {
            sent: counts.sent + test.sent,
            received: counts.received + trips.count,
            lost: counts.lost + i64::clamped(trips.missing),
            ..counts
        }
    });
    let local =
        Totals { pings: Some(Box::new(RoundTrips { counts, ..RoundTrips::default() })), ..Totals::default() };
    ImportedRun {
        program: "udpmon_req".to_owned(),
        protocol: "udpmon",
        verb: "ping",
        phases: vec![ImportedPhase {
            kind: Kind::Ping,
            pattern: Pattern::Duplex,
            connections: 1,
            extras: tests.iter().map(PacketTest::result).collect(),
            local,
            ..ImportedPhase::default()
        }],
        notices: vec![
            "of each size the least, the mean and the largest round trip are known, no percentile".to_owned(),
        ],
        ..ImportedRun::default()
    }
}

/// A line of `udpmon_req`: one size of responses.
fn latency(table: &Table<'_>, row: &[&str]) -> Option<PacketTest> {
    let at = |beginning: &str| cell(table, row, beginning);
    let response = at("response len")?;
    let (sent, missing, mean) =
        (u64::clamped(at("loop_count")?), u64::clamped(at("num_bad")?), at("ave time")?);
    let count = sent.saturating_sub(missing);
    let us = |us: f64| u64::clamped(us * 1e3);
    Some(PacketTest {
        size: u32::clamped(u64::clamped(at("Req len")?)),
        sent,
        timeouts: u64::clamped(at("num timeouts").unwrap_or(0.0)),
        latency: Some(PacketTestLatency {
            response: u32::clamped(u64::clamped(response)),
            count,
            missing,
            total_ns: us(at("time/frame").unwrap_or(0.0) * metrics::real(sent)),
            sum_ns: us(mean * metrics::real(count)),
            min_ns: us(at("min time")?),
            max_ns: us(at("max time")?),
            ..PacketTestLatency::default()
        }),
        over: true,
        ..PacketTest::default()
    })
}

/// A line of `udpmon_bw_mon`: one size and one spacing; of `udpmon_send` what was sent.
fn test(table: &Table<'_>, row: &[&str]) -> Option<ImportedPhase> {
    let at = |beginning: &str| cell(table, row, beginning);
    let size: f64 = row.first()?.parse().ok().filter(|n: &f64| (1.0..=65_535.0).contains(n))?;
    let sent = at("num_sent")?;
    let mut phase = sized(size, at("inter-pkt_time").or_else(|| at("wait_time")).unwrap_or(0.0));
    phase.local.traffic.tx_bytes = u64::clamped(size * sent);
    let Some((came, rate)) = at("num_recv").zip(at("recv_user")) else {
        phase.local.traffic.ns = u64::clamped(at("Send time")? * 1e3);
        return Some(phase);
    };
    let mut remote = Totals::default();
    remote.traffic.rx_bytes = u64::clamped(size * came);
    remote.traffic.ns = lasted(table, size * came, came, rate);
    let [lost, order] = ["num_lost", "num_badorder"].map(|name| u64::clamped(at(name).unwrap_or(0.0)));
    remote.packets = Some(Box::new(received(u64::clamped(came), lost, order)));
    phase.local.traffic.ns = remote.traffic.ns;
    phase.remote = Some(remote);
    Some(phase)
}

#[cfg(test)]
mod tests;
