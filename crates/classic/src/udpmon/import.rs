//! The lines of `udpmon_bw_mon` and `udpmon_req` as outcomes: a test each.

use super::read::{Table, is_table, tables};
use crate::import::{Found, Part, ns, received};
use model::{Kind, Pattern, PingCounts, RoundTrips, Totals, UdpmonLatency, UdpmonTest};
use std::collections::BTreeMap;

/// Reads a printout; `None` when it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<Found, String>> {
    if !is_table(bytes) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let all = tables(&text);
    let parts: Vec<Part> =
        all.iter().flat_map(|table| table.rows.iter().filter_map(|row| test(table, row))).collect();
    let tests: Vec<UdpmonTest> =
        all.iter().flat_map(|table| table.rows.iter().filter_map(|row| latency(table, row))).collect();
    if !tests.is_empty() {
        return Some(Ok(requests(tests)));
    }
    if parts.is_empty() {
        return Some(Err(
            "the file is of UDPmon, but holds no line with what was received (of udpmon_bw_mon or udpmon_req); \
             `netcaliper report` reads it"
                .to_owned(),
        ));
    }
    Some(Ok(Found {
        program: "udpmon_bw_mon".to_owned(),
        protocol: "udpmon",
        verb: "delay",
        parts,
        notices: vec![
            "the rates are over as many gaps as there are: the original divides N packets by N - 1 gaps"
                .to_owned(),
        ],
        ..Found::default()
    }))
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
    let at = |beginning: &str| {
        let place = table.titles.iter().position(|title| title.starts_with(beginning))?;
        row.get(place)?.parse::<f64>().ok().filter(|n| n.is_finite() && (0.0..1e15).contains(n))
    };
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

/// A line: one size and one spacing.
fn test(table: &Table<'_>, row: &[&str]) -> Option<Part> {
    let at = |beginning: &str| {
        let place = table.titles.iter().position(|title| title.starts_with(beginning))?;
        row.get(place)?.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)
    };
    let size: f64 = row.first()?.parse().ok().filter(|n: &f64| (1.0..=65_535.0).contains(n))?;
    let (sent, came, rate) = (at("num_sent")?, at("num_recv")?, at("recv_user")?);
    let lost = at("num_lost").unwrap_or(0.0);
    let wait = at("inter-pkt_time").or_else(|| at("wait_time")).unwrap_or(0.0);
    let mut far = Totals::default();
    far.traffic.rx_bytes = (size * came) as u64;
    // Of N packets the rate of the N - 1 that came after the first.
    let right = if came > 1.0 { rate * (came - 1.0) / came } else { rate };
    far.traffic.ns = if right > 0.0 { ns(size * came * 8.0 / (right * 1e6)) } else { 0 };
    far.packets =
        Some(Box::new(received(came as u64, lost as u64, at("num_badorder").unwrap_or(0.0) as u64)));
    let mut near = Totals::default();
    near.traffic.tx_bytes = (size * sent) as u64;
    near.traffic.ns = far.traffic.ns;
    let label = BTreeMap::from([
        ("size".to_owned(), format!("{size:.0}")),
        ("spacing".to_owned(), format!("{:.0}", wait * 1e3)),
    ]);
    Some(Part {
        label,
        kind: Kind::Delay,
        pattern: Pattern::Push,
        connections: 1,
        near,
        far: Some(far),
        ..Part::default()
    })
}
