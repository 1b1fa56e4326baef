//! irtt's results (`irtt client -o FILE`).

use crate::file::Source;
use crate::import::{ImportedPhase, ImportedRun, Numbers, number, wall};
use metrics::{Clamped, Dist, SECOND, Spectrum};
use model::{Interval, Kind, Pattern, Ping, PingCounts, PingInterval, RoundTrips, Schedule, Transport};
use serde_json::Value;

/// Round trips of one file that are read.
const MOST: usize = 10_000_000;

/// Reads a document; `None` when it is none of irtt's.
pub(crate) fn read(source: &Source) -> Option<Result<ImportedRun, String>> {
    let document = source.json()?;
    let version = document.get("version")?.get("irtt")?.as_str()?;
    document.get("stats")?;
    Some(imported(document, version))
}

fn imported(document: &Value, version: &str) -> Result<ImportedRun, String> {
    let (stats, config) = (&document["stats"], &document["config"]);
    let rows = document["round_trips"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = &rows[..rows.len().min(MOST)];
    let mut numbers = Numbers::default();
    let mut count = |value: &Value, name: &str| numbers.count(value, name).unwrap_or(0);
    let mut phase = ImportedPhase {
        kind: Kind::Ping,
        pattern: Pattern::Duplex,
        connections: 1,
        duration_ns: Some(count(&config["params"]["duration"], "duration")).filter(|ns| *ns > 0),
        ping: Some(Ping {
            transport: Transport::Udp,
            size: u32::clamped(count(&config["params"]["length"], "length")),
            schedule: match count(&config["params"]["interval"], "interval") {
                0 => Schedule::Closed,
                gap_ns => Schedule::Fixed { gap_ns },
            },
            ..Ping::default()
        }),
        ..ImportedPhase::default()
    };
    let began = rows.iter().find_map(sent).unwrap_or(0);
    let second = |row: &Value| sent(row).unwrap_or(began).saturating_sub(began) / SECOND;
    let seconds = rows.chunk_by(|row, next| second(row) == second(next));
    phase.intervals = seconds.map(|rows| interval(second(&rows[0]), rows)).collect();
    let trips = Dist::from_iter(rows.iter().filter_map(rtt));
    let remote = Dist::from_iter(rows.iter().filter_map(held));
    let (sent, received) = (
        count(&stats["packets_sent"], "packets sent"),
        count(&stats["packets_received"], "packets received"),
    );
    let (late, repeated) =
        (count(&stats["late_packets"], "late packets"), count(&stats["duplicates"], "duplicates"));
    if received > sent {
        return Err(format!(
            "the file is of irtt, but of {sent} packets sent no {received} can have been received"
        ));
    }
    let lost = i64::clamped(sent.saturating_sub(received));
    let counts = PingCounts { sent, received, late, lost, repeated, ..PingCounts::default() };
    if trips.count() == 0 {
        return Err("the file is of irtt, but holds no round trip (was it written with -Q?)".to_owned());
    }
    phase.local.pings = Some(Box::new(RoundTrips {
        counts,
        rtt_ns: trips.spectrum().map(|known| Spectrum { missing: counts.missing(), ..known }),
        remote_ns: remote.spectrum(),
        ..RoundTrips::default()
    }));
    Ok(ImportedRun {
        program: format!("irtt {version}"),
        protocol: "irtt",
        verb: "ping",
        targets: config["supplied"]["remote_address"].as_str().map(str::to_owned).into_iter().collect(),
        host: document["system_info"]["hostname"].as_str().unwrap_or_default().to_owned(),
        started: wall(stats["start_time"].as_str().unwrap_or_default()),
        phases: vec![phase],
        notices: numbers.notice().into_iter().collect(),
        ..ImportedRun::default()
    })
}

/// When it was sent, ns of the client's monotonic clock, else of its wall clock.
fn sent(row: &Value) -> Option<u64> {
    let at = &row["timestamps"]["client"]["send"];
    number(&at["monotonic"]).or_else(|| number(&at["wall"])).map(|ns| u64::clamped(ns.max(0.0)))
}

/// Time at the server, ns.
fn held(row: &Value) -> Option<u64> {
    let at = &row["timestamps"]["server"];
    let (came, left) = (number(&at["receive"]["monotonic"])?, number(&at["send"]["monotonic"])?);
    (left >= came).then_some(u64::clamped(left - came))
}

/// The round trip of an answered message, ns. irtt's own figure leaves out the server's time.
fn rtt(row: &Value) -> Option<u64> {
    number(&row["delay"]["rtt"]).filter(|ns| *ns > 0.0).map(u64::clamped)
}

/// The messages that were sent in a second.
fn interval(second: u64, rows: &[Value]) -> Interval {
    let trips = Dist::from_iter(rows.iter().filter_map(rtt));
    let (sent, received) = (u64::clamped(rows.len()), trips.count());
    let counts = PingCounts { sent, received, lost: i64::clamped(sent - received), ..PingCounts::default() };
    Interval {
        index: u32::clamped(second),
        start_ns: second * SECOND,
        end_ns: (second + 1) * SECOND,
        pings: Some(PingInterval::of_trips(counts, &trips)),
        ..Interval::default()
    }
}
