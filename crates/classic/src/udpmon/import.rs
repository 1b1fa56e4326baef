//! The lines of `udpmon_bw_mon`, `udpmon_req` and `tcpmon_mon` as outcomes, a test each, and those of `udpmon_recv`, a period each.

use super::read::{Table, is_table, tables};
use crate::import::{Found, Part, ns, received};
use metrics::Wall;
use model::{Interval, Kind, Pattern, PingCounts, RoundTrips, Totals, Traffic, UdpmonLatency, UdpmonTest};
use std::collections::BTreeMap;

/// Reads a printout; `None` when it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<Found, String>> {
    if !is_table(bytes) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let all = tables(&text);
    let each = |of: fn(&Table<'_>, &[&str]) -> Option<Part>| -> Vec<Part> {
        all.iter().flat_map(|table| table.rows.iter().filter_map(move |row| of(table, row))).collect()
    };
    let tests: Vec<UdpmonTest> =
        all.iter().flat_map(|table| table.rows.iter().filter_map(|row| latency(table, row))).collect();
    if !tests.is_empty() {
        return Some(Ok(requests(tests)));
    }
    let gaps = all.iter().any(|table| !table.right).then_some(GAPS);
    let messages = each(message);
    if !messages.is_empty() {
        return Some(Ok(Found { program: "tcpmon_mon".to_owned(), verb: "tcp", ..found(messages, gaps) }));
    }
    if let Some(found) = periods(&all) {
        return Some(Ok(found));
    }
    let parts = each(test);
    if parts.is_empty() {
        return Some(Err("the file is of UDPmon, but holds no line of what was received: udpmon_bw_mon, udpmon_req, udpmon_recv and \
             tcpmon_mon print some; what was sent `netcaliper report` shows as a table"
            .to_owned()));
    }
    Some(Ok(found(parts, gaps)))
}

/// What has to be known of the original's rates.
const GAPS: &str =
    "the rates are over as many gaps as there are: the original divides N packets by N - 1 gaps";

fn found(parts: Vec<Part>, notice: Option<&str>) -> Found {
    Found {
        program: "udpmon_bw_mon".to_owned(),
        protocol: "udpmon",
        verb: "delay",
        parts,
        notices: notice.map(str::to_owned).into_iter().collect(),
        ..Found::default()
    }
}

/// A cell of a row, by the beginning of its column's title.
fn cell(table: &Table<'_>, row: &[&str], beginning: &str) -> Option<f64> {
    let place = table.titles.iter().position(|title| title.starts_with(beginning))?;
    row.get(place)?.parse::<f64>().ok().filter(|n| n.is_finite() && (0.0..1e15).contains(n))
}

/// The lines of `udpmon_recv`. It tells when a period ended in whole seconds: each is taken for as long as the mean of them.
fn periods(all: &[Table<'_>]) -> Option<Found> {
    let at =
        |beginning: &'static str| move |(table, row): &(&Table<'_>, &Vec<&str>)| cell(table, row, beginning);
    let came = |line: &(&Table<'_>, &Vec<&str>)| at("Bytes Recv")(line).is_some();
    let lines: Vec<_> =
        all.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))).filter(came).collect();
    let ended = |line| at("linux time")(line).unwrap_or(0.0);
    let (first, last) = (ended(lines.first()?), ended(lines.last()?));
    let gaps = lines.len().saturating_sub(1).max(1) as f64;
    let period = ns((last - first).max(1.0) / gaps);
    let mut far = Totals::default();
    let mut counts = [0; 3];
    let mut intervals = Vec::with_capacity(lines.len());
    for (index, line) in (0u32..).zip(&lines) {
        let bytes = at("Bytes Recv")(line).unwrap_or(0.0) as u64;
        let traffic = Traffic { tx_bytes: 0, rx_bytes: bytes, ns: period };
        far.traffic.after(&traffic);
        let fates = ["num_recv", "num_lost", "num_badorder"].map(|name| at(name)(line).unwrap_or(0.0) as u64);
        counts.iter_mut().zip(fates).for_each(|(sum, n)| *sum += n);
        let [came, lost, order] = fates;
        intervals.push(Interval {
            index,
            start_ns: u64::from(index) * period,
            end_ns: (u64::from(index) + 1) * period,
            far: Some(traffic),
            far_packets: Some(Box::new(received(came, lost, order))),
            ..Interval::default()
        });
    }
    let [came, lost, order] = counts;
    far.packets = Some(Box::new(received(came, lost, order)));
    let part = Part {
        kind: Kind::Delay,
        pattern: Pattern::Push,
        connections: 1,
        intervals,
        far: Some(far),
        ..Part::default()
    };
    let notice = "the ends of the periods are told in whole seconds: each is taken for as long as the mean of them, from the end \
                  of the one before";
    let begun = ns(first).saturating_sub(period);
    let started = Wall(i64::try_from(begun).unwrap_or(0));
    Some(Found { program: "udpmon_recv".to_owned(), started, ..found(vec![part], Some(notice)) })
}

/// A line of `tcpmon_mon`: one size and one spacing of messages on a connection.
fn message(table: &Table<'_>, row: &[&str]) -> Option<Part> {
    let at = |beginning: &str| cell(table, row, beginning);
    at("soc_buf_size")?;
    let size = at("pkt len").filter(|size| *size >= 1.0)?;
    let (came, bytes, rate) = (at("num_recv")?, at("bytes_recv")?, at("recv_data_rate")?);
    let mut part = sized(size, at("wait_time")?);
    part.kind = Kind::Tcp;
    part.near.traffic.tx_bytes = (size * at("num_sent")?) as u64;
    part.near.traffic.ns = (at("Send_time")? * 1e3) as u64;
    part.near.tcp.retransmits = at("tcpi_total_retrans").unwrap_or(0.0) as u64;
    let far = part.far.get_or_insert_default();
    far.traffic.rx_bytes = bytes as u64;
    far.traffic.ns = lasted(table, bytes, came, rate);
    Some(part)
}

/// A test of one size, bytes, and one spacing, µs.
fn sized(size: f64, wait: f64) -> Part {
    let label = BTreeMap::from([
        ("size".to_owned(), format!("{size:.0}")),
        ("spacing".to_owned(), format!("{:.0}", wait * 1e3)),
    ]);
    Part { label, kind: Kind::Delay, pattern: Pattern::Push, connections: 1, ..Part::default() }
}

/// How long so many bytes took in `came` pieces, ns, given the rate in Mbit/s, which the original tells of as many pieces over
/// one gap fewer.
fn lasted(table: &Table<'_>, bytes: f64, came: f64, rate: f64) -> u64 {
    let right = if came > 1.0 && !table.right { rate * (came - 1.0) / came } else { rate };
    if right > 0.0 { ns(bytes * 8.0 / (right * 1e6)) } else { 0 }
}

/// The tests of `udpmon_req`.
fn requests(tests: Vec<UdpmonTest>) -> Found {
    let counts = tests.iter().fold(PingCounts::default(), |counts, test| {
        let trips = test.latency.clone().unwrap_or_default();
        PingCounts {
            sent: counts.sent + test.sent,
            received: counts.received + trips.count,
            lost: counts.lost + i64::try_from(trips.missing).unwrap_or(i64::MAX),
            ..counts
        }
    });
    let near =
        Totals { pings: Some(Box::new(RoundTrips { counts, ..RoundTrips::default() })), ..Totals::default() };
    Found {
        program: "udpmon_req".to_owned(),
        protocol: "udpmon",
        verb: "ping",
        parts: vec![Part {
            kind: Kind::Ping,
            pattern: Pattern::Duplex,
            connections: 1,
            tests,
            near,
            ..Part::default()
        }],
        notices: vec![
            "of each size the least, the mean and the largest round trip are known, no percentile".to_owned(),
        ],
        ..Found::default()
    }
}

/// A line of `udpmon_req`: one size of responses.
fn latency(table: &Table<'_>, row: &[&str]) -> Option<UdpmonTest> {
    let at = |beginning: &str| cell(table, row, beginning);
    let response = at("response len")?;
    let (sent, missing, mean) = (at("loop_count")? as u64, at("num_bad")? as u64, at("ave time")?);
    let count = sent.saturating_sub(missing);
    let us = |us: f64| (us * 1e3) as u64;
    Some(UdpmonTest {
        size: at("Req len")? as u32,
        sent,
        timeouts: at("num timeouts").unwrap_or(0.0) as u64,
        latency: Some(UdpmonLatency {
            response: response as u32,
            count,
            missing,
            total_ns: us(at("time/frame").unwrap_or(0.0) * sent as f64),
            sum_ns: us(mean * count as f64),
            min_ns: us(at("min time")?),
            max_ns: us(at("max time")?),
            ..UdpmonLatency::default()
        }),
        over: true,
        ..UdpmonTest::default()
    })
}

/// A line of `udpmon_bw_mon`: one size and one spacing.
fn test(table: &Table<'_>, row: &[&str]) -> Option<Part> {
    let at = |beginning: &str| cell(table, row, beginning);
    let size: f64 = row.first()?.parse().ok().filter(|n: &f64| (1.0..=65_535.0).contains(n))?;
    let (sent, came, rate) = (at("num_sent")?, at("num_recv")?, at("recv_user")?);
    let lost = at("num_lost").unwrap_or(0.0);
    let mut part = sized(size, at("inter-pkt_time").or_else(|| at("wait_time")).unwrap_or(0.0));
    let mut far = Totals::default();
    far.traffic.rx_bytes = (size * came) as u64;
    far.traffic.ns = lasted(table, size * came, came, rate);
    far.packets =
        Some(Box::new(received(came as u64, lost as u64, at("num_badorder").unwrap_or(0.0) as u64)));
    part.near.traffic.tx_bytes = (size * sent) as u64;
    part.near.traffic.ns = far.traffic.ns;
    part.far = Some(far);
    Some(part)
}
