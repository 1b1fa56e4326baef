//! The data series behind the figures of the SLAC report on UDPmon: rate by measurement and wait,
//! the sending machine's rate against the received one, and streams against rate. From any outcome
//! that holds such runs.

use common::Series;
use metrics::{Quartiles, TrainRow, TrainSetting, real};
use model::{Outcome, Point, Totals};
use std::fmt::Display;

/// Below this share of the median a train was sent slowly.
const SLOW: f64 = 0.9;

/// A column: its title, and its cell in a row.
type Column<T> = (&'static str, fn(&T) -> String);

/// All series that an outcome holds something for.
pub(crate) fn series(outcome: &Outcome) -> Vec<Series> {
    let all = [by_measurement(outcome), by_wait(outcome), by_streams(outcome), hosts(outcome)];
    all.into_iter().filter(|series| !series.rows.is_empty()).collect()
}

fn mbit(bps: f64) -> String {
    format!("{:.3}", bps / 1e6)
}

fn or_empty(value: Option<impl Display>) -> String {
    maybe(value, |value| value.to_string())
}

fn maybe<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map(show).unwrap_or_default()
}

/// The rate that the waits alone allow, Mbit/s of payload; nothing for packets back to back.
fn requested(size: u32, wait_ns: u64) -> String {
    maybe((wait_ns > 0).then(|| f64::from(size) * 8e9 / real(wait_ns)), mbit)
}

/// Points with trains, and the size of their packets.
fn trains(outcome: &Outcome) -> impl Iterator<Item = (&Point, &model::Trains, u32)> {
    outcome.points.iter().filter_map(|point| Some((point, point.trains.as_deref()?, point.phase.probe?.size)))
}

/// Why a train was slow: held up where it was sent, or on the way.
fn verdict(row: &TrainRow, usual: Option<f64>, trough: Option<bool>) -> &'static str {
    let slow = row.send_bps.zip(usual).is_some_and(|(sent, usual)| sent < SLOW * usual);
    match (row.unsent > 0, slow, trough) {
        (true, ..) => "not all sent",
        (_, true, _) => "sent slowly",
        (.., Some(true)) => "trough of all waits",
        (.., Some(false)) => "trough",
        _ => "",
    }
}

/// A series with these columns of `rows`.
fn table<T>(
    file: &'static str,
    title: &'static str,
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = T>,
) -> Series {
    let cells = |row: T| columns.iter().map(|(_, cell)| cell(&row)).collect();
    let titles = columns.iter().map(|(title, _)| *title).collect();
    Series { file, title, columns: titles, rows: rows.into_iter().map(cells).collect() }
}

fn wait_us(setting: &TrainSetting) -> String {
    (real(setting.wait_ns) / 1e3).to_string()
}

/// A train: the size of its packets, its setting, and why it was slow.
type Train<'a> = (u32, &'a TrainSetting, &'a TrainRow, &'static str);

fn by_measurement(outcome: &Outcome) -> Series {
    let mut rows: Vec<Train<'_>> = Vec::new();
    for (_, trains, size) in trains(outcome) {
        let report = &trains.report;
        for setting in &report.settings {
            let of = || report.trains.iter().filter(|row| row.setting == setting.setting);
            let usual = Quartiles::of(of().filter_map(|row| row.send_bps).collect()).map(|q| q.median);
            for row in of() {
                let trough = report.troughs.iter().find(|t| t.round == row.round);
                let trough = trough.filter(|t| t.settings.contains(&row.setting)).map(|t| t.common);
                rows.push((size, setting, row, verdict(row, usual, trough)));
            }
        }
    }
    let columns: [Column<Train<'_>>; 11] = [
        ("size", |t| t.0.to_string()),
        ("wait_us", |t| wait_us(t.1)),
        ("measurement", |t| (t.2.round + 1).to_string()),
        ("asked_mbps", |t| requested(t.0, t.1.wait_ns)),
        ("send_mbps", |t| maybe(t.2.send_bps, mbit)),
        ("receive_mbps", |t| maybe(t.2.receive_bps, mbit)),
        ("sent", |t| t.2.sent.to_string()),
        ("unsent", |t| t.2.unsent.to_string()),
        ("received", |t| t.2.received.to_string()),
        ("lost", |t| t.2.lost.to_string()),
        ("why_slow", |t| t.3.to_owned()),
    ];
    let title = "Data rate by measurement number and wait (Mbit/s of UDP payload)";
    table("rate_by_measurement.csv", title, &columns, rows)
}

fn by_wait(outcome: &Outcome) -> Series {
    let rows = trains(outcome)
        .flat_map(|(_, trains, size)| trains.report.settings.iter().map(move |setting| (size, setting)));
    let columns: [Column<(u32, &TrainSetting)>; 12] = [
        ("size", |s| s.0.to_string()),
        ("wait_us", |s| wait_us(s.1)),
        ("asked_mbps", |s| requested(s.0, s.1.wait_ns)),
        ("send_gap_us", |s| maybe(s.1.send_gap_ns.as_ref(), |gap| format!("{:.3}", real(gap.p50) / 1e3))),
        ("send_mbps", |s| maybe(s.1.send_bps, |s| mbit(s.mean))),
        ("send_sd", |s| maybe(s.1.send_bps, |s| mbit(s.sd))),
        ("receive_mbps", |s| maybe(s.1.receive_bps, |s| mbit(s.mean))),
        ("receive_sd", |s| maybe(s.1.receive_bps, |s| mbit(s.sd))),
        ("lost", |s| s.1.lost.to_string()),
        ("unsent", |s| s.1.unsent.to_string()),
        ("overtaken", |s| s.1.overtaken.to_string()),
        ("repeated", |s| s.1.repeated.to_string()),
    ];
    let title = "The machine's rate of sending against the rate received, by wait (Mbit/s of UDP payload)";
    table("sent_and_received.csv", title, &columns, rows)
}

fn by_streams(outcome: &Outcome) -> Series {
    fn rate(point: &Point) -> Option<f64> {
        point.up.or(point.down).map(|direction| direction.goodput_bps)
    }
    let points = outcome.points.iter().filter(|point| point.label.contains_key("streams"));
    let columns: [Column<&Point>; 8] = [
        ("streams", |p| p.phase.connections.to_string()),
        ("goodput_mbps", |p| maybe(rate(p), mbit)),
        ("per_stream_mbps", |p| maybe(rate(p), |bps| mbit(bps / f64::from(p.phase.connections.max(1))))),
        // Of one stream there is only how even its connections were, one after the other.
        ("fairness", |p| maybe(p.fairness.filter(|_| p.phase.connections > 1), |f| format!("{f:.3}"))),
        ("sndbuf", |p| or_empty(p.local.effective.as_ref().and_then(|e| e.sndbuf))),
        ("remote_rcvbuf", |p| or_empty(p.remote.first().and_then(|t| t.effective.as_ref()?.rcvbuf))),
        ("retransmits", |p| p.ends().filter_map(Totals::retransmits).sum::<u64>().to_string()),
        ("errors", |p| p.errors().to_string()),
    ];
    table("streams.csv", "TCP: streams against rate (Mbit/s, every byte compared)", &columns, points)
}

/// Activity of both hosts meanwhile: a seeming fault of the network may have been one of theirs.
fn hosts(outcome: &Outcome) -> Series {
    type End<'a> = (&'a Point, &'static str, &'a Totals);
    fn counter(totals: &Totals, name: &str) -> String {
        or_empty(totals.counters.moved.get(name))
    }
    fn ends(point: &Point) -> impl Iterator<Item = End<'_>> {
        let remote = point.remote.iter().map(move |totals| (point, "server", totals));
        std::iter::once((point, "client", &point.local)).chain(remote)
    }
    let columns: [Column<End<'_>>; 9] = [
        ("run", |(point, ..)| {
            point.label.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        }),
        ("end", |(_, name, _)| (*name).to_owned()),
        ("unsent", |(.., t)| or_empty(t.packets.as_ref().map(|p| p.counts.unsent))),
        ("late_p99_us", |(.., t)| maybe(t.late_ns.as_ref(), |late| format!("{:.1}", real(late.p99) / 1e3))),
        ("dropped_here", |(.., t)| or_empty(t.packets.as_ref().and_then(|p| p.dropped()))),
        ("preempted", |(.., t)| counter(t, "process.preempted")),
        ("context_switches", |(.., t)| counter(t, "cpu.context_switches")),
        ("steal_s", |(.., t)| maybe(t.cpu.as_ref(), |cpu| format!("{:.3}", cpu.steal_s))),
        ("busiest_cpu_percent", |(.., t)| maybe(t.cpu.as_ref(), |cpu| format!("{:.1}", cpu.busiest * 100.0))),
    ];
    table("hosts.csv", "Activity of the hosts meanwhile", &columns, outcome.points.iter().flat_map(ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Spread, TrainReport, Trough};
    use model::{Direction, Phase, Probe, Trains};
    use std::collections::BTreeMap;

    fn row(setting: u32, round: u32, send: f64, receive: f64, unsent: u32) -> TrainRow {
        let (send_bps, receive_bps) = (Some(send), Some(receive));
        TrainRow {
            setting,
            round,
            send_bps,
            receive_bps,
            sent: 300,
            received: 300,
            unsent,
            ..TrainRow::default()
        }
    }

    /// Five measurements at 20 µs and 1000 bytes: 400 Mbit/s asked for.
    fn outcome() -> Outcome {
        let rates =
            [(399e6, 398e6, 0), (200e6, 199e6, 0), (399e6, 150e6, 0), (398e6, 398e6, 7), (400e6, 399e6, 0)];
        let trains =
            (0..).zip(rates).map(|(round, (send, receive, unsent))| row(0, round, send, receive, unsent));
        let setting = TrainSetting {
            wait_ns: 20_000,
            send_bps: Some(Spread::of(&[399e6, 200e6, 399e6, 398e6, 400e6]).unwrap()),
            ..Default::default()
        };
        let trough = |round| Trough { round, settings: vec![0], common: round == 2, ..Trough::default() };
        let report = TrainReport {
            settings: vec![setting],
            trains: trains.collect(),
            troughs: vec![trough(1), trough(2)],
            ..TrainReport::default()
        };
        let probe = Some(Probe { size: 1_000, ..Probe::default() });
        let trains = Some(Box::new(Trains { report, ..Trains::default() }));
        let udp = Point { phase: Phase { probe, ..Phase::default() }, trains, ..Point::default() };
        let tcp = Point {
            label: BTreeMap::from([("streams".to_owned(), "39".to_owned())]),
            phase: Phase { connections: 39, ..Phase::default() },
            up: Some(Direction { goodput_bps: 780e6, ..Direction::default() }),
            ..Point::default()
        };
        Outcome { points: vec![udp, tcp], ..Outcome::default() }
    }

    #[test]
    fn a_slow_sender_is_told_from_a_slow_path() {
        let all = series(&outcome());
        let measured = &all[0];
        assert_eq!(measured.file, "rate_by_measurement.csv");
        assert_eq!(
            measured.rows[0],
            ["1000", "20", "1", "400.000", "399.000", "398.000", "300", "0", "300", "0", ""]
        );
        let why: Vec<&str> = measured.rows.iter().map(|row| row[10].as_str()).collect();
        assert_eq!(why, ["", "sent slowly", "trough of all waits", "not all sent", ""]);
    }

    #[test]
    fn streams_have_a_rate_each() {
        let all = series(&outcome());
        let streams = all.iter().find(|series| series.file == "streams.csv").unwrap();
        assert_eq!(streams.rows[0][..3], ["39", "780.000", "20.000"]);
        assert!(all.iter().all(|series| series.rows.iter().all(|row| row.len() == series.columns.len())));
    }
}
