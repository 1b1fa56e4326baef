//! irtt's results (`irtt client -o FILE`).

use crate::file::Source;
use crate::import::{ImportedPhase, ImportedRun, Numbers, wall};
use metrics::{Clamped, Dist, SECOND, Spectrum};
use model::{Interval, Kind, Pattern, Ping, PingCounts, PingInterval, RoundTrips, Schedule, Transport};
use serde_json::Value;

/// Round trips of one file that are read.
const MOST: usize = 10_000_000;

/// Latest time of a wall clock, ns.
const LATEST: f64 = 9e18;

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
    let mut numbers = Numbers::default();
    let rows: Vec<Trip> = rows.iter().take(MOST).map(|row| Trip::of(row, &mut numbers)).collect();
    let mut count = |value: &Value, name: &str| numbers.count(value, name);
    let mut phase = ImportedPhase {
        kind: Kind::Ping,
        pattern: Pattern::Duplex,
        connections: 1,
        duration_ns: count(&config["params"]["duration"], "duration").filter(|ns| *ns > 0),
        ping: Some(Ping {
            transport: Transport::Udp,
            size: count(&config["params"]["length"], "length")
                .and_then(|size| size.try_into().ok())
                .unwrap_or(0),
            schedule: match count(&config["params"]["interval"], "interval").unwrap_or(0) {
                0 => Schedule::Closed,
                gap_ns => Schedule::Fixed { gap_ns },
            },
            ..Ping::default()
        }),
        ..ImportedPhase::default()
    };
    let began = rows.iter().find_map(|row| row.sent).unwrap_or(0);
    let second = |row: &Trip| row.sent.unwrap_or(began).saturating_sub(began) / SECOND;
    let seconds = rows.chunk_by(|row, next| second(row) == second(next));
    phase.intervals = seconds.map(|rows| interval(second(&rows[0]), rows)).collect();
    let trips = Dist::from_iter(rows.iter().filter_map(|row| row.rtt));
    let remote = Dist::from_iter(rows.iter().filter_map(|row| row.held));
    // Without a count of its own the file's round trips are counted.
    let sent = count(&stats["packets_sent"], "packets sent").unwrap_or(u64::clamped(rows.len()));
    let late = count(&stats["late_packets"], "late packets").unwrap_or(0);
    let repeated = count(&stats["duplicates"], "duplicates").unwrap_or(0);
    // irtt counts repeated packets as received, too.
    let received = count(&stats["packets_received"], "packets received")
        .map_or(trips.count(), |all| all.saturating_sub(repeated));
    if received > sent || trips.count() > sent {
        let received = received.max(trips.count());
        return Err(format!(
            "the file is of irtt, but of {sent} packets sent no {received} can have been received"
        ));
    }
    let lost = i64::clamped(sent.saturating_sub(received));
    let counts = PingCounts { sent, received, late, lost, repeated, ..PingCounts::default() };
    if trips.count() == 0 && received > 0 {
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

/// A message and its answer.
struct Trip {
    /// When it was sent, ns of the client's monotonic clock, else of its wall clock.
    sent: Option<u64>,
    /// The answer arrived.
    answered: bool,
    /// Its round trip, ns; `None` of a message without an answer. The server's time is none of it.
    rtt: Option<u64>,
    /// Time at the server, ns.
    held: Option<u64>,
}

impl Trip {
    fn of(row: &Value, numbers: &mut Numbers) -> Trip {
        let mut time = |value: &Value, name| numbers.within(value, name, (0.0, LATEST)).map(u64::clamped);
        let (client, server) = (&row["timestamps"]["client"], &row["timestamps"]["server"]);
        let sent = &client["send"];
        let sent = if sent["monotonic"].is_null() { &sent["wall"] } else { &sent["monotonic"] };
        let [came, left] =
            ["receive", "send"].map(|name| time(&server[name]["monotonic"], "time at the server"));
        let sent = time(sent, "time of sending");
        Trip {
            sent,
            answered: !row["delay"]["rtt"].is_null(),
            rtt: numbers
                .time(&row["delay"]["rtt"], "round trip", 1.0)
                .filter(|ns| *ns > 0.0)
                .map(u64::clamped),
            held: came.zip(left).filter(|(came, left)| left >= came).map(|(came, left)| left - came),
        }
    }
}

/// The messages that were sent in a second.
fn interval(second: u64, rows: &[Trip]) -> Interval {
    let trips = Dist::from_iter(rows.iter().filter_map(|row| row.rtt));
    let received = rows.iter().filter(|row| row.answered).count();
    let (sent, received) = (u64::clamped(rows.len()), u64::clamped(received));
    let counts = PingCounts { sent, received, lost: i64::clamped(sent - received), ..PingCounts::default() };
    Interval {
        index: u32::clamped(second),
        start_ns: second.saturating_mul(SECOND),
        end_ns: second.saturating_add(1).saturating_mul(SECOND),
        pings: Some(PingInterval::of_trips(counts, &trips)),
        ..Interval::default()
    }
}
