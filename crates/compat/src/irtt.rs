//! irtt's results (`irtt client -o FILE`).

use crate::import::{ImportedPhase, ImportedRun, count, json, number, wall};
use metrics::{Clamped, Dist, Spectrum};
use model::{Interval, Kind, Pattern, Ping, PingCounts, PingInterval, RoundTrips, Schedule, Transport};
use serde_json::Value;

/// Round trips of one file that are read.
const MOST: usize = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Reads a document; `None` when it is none of irtt's.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<ImportedRun, String>> {
    let document = json(bytes)?;
    let version = document.get("version")?.get("irtt")?.as_str()?;
    document.get("stats")?;
    Some(found(&document, version))
}

fn found(document: &Value, version: &str) -> Result<ImportedRun, String> {
    let (stats, config) = (&document["stats"], &document["config"]);
    let rows = document["round_trips"].as_array().map_or(&[][..], Vec::as_slice);
    let mut phase = ImportedPhase {
        kind: Kind::Ping,
        pattern: Pattern::Duplex,
        connections: 1,
        duration_ns: Some(count(&config["params"]["duration"])).filter(|ns| *ns > 0),
        ping: Some(Ping {
            transport: Transport::Udp,
            size: u32::try_from(count(&config["params"]["length"])).unwrap_or(u32::MAX),
            schedule: match count(&config["params"]["interval"]) {
                0 => Schedule::Closed,
                gap_ns => Schedule::Fixed { gap_ns },
            },
            ..Ping::default()
        }),
        ..ImportedPhase::default()
    };
    let (mut trips, mut remote) = (Dist::default(), Dist::default());
    let began = rows.iter().find_map(sent).unwrap_or(0);
    let mut second = Second::default();
    for row in rows.iter().take(MOST) {
        let at = sent(row).unwrap_or(began).saturating_sub(began) / SECOND_NS;
        if at != second.index {
            phase
                .intervals
                .push(std::mem::replace(&mut second, Second { index: at, ..Second::default() }).interval());
        }
        second.add(row, &mut trips);
        if let Some(held) = held(row) {
            remote.record(held);
        }
    }
    phase.intervals.push(second.interval());
    let counts = PingCounts {
        sent: count(&stats["packets_sent"]),
        received: count(&stats["packets_received"]),
        late: count(&stats["late_packets"]),
        lost: i64::try_from(count(&stats["packets_sent"]).saturating_sub(count(&stats["packets_received"])))
            .unwrap_or(i64::MAX),
        repeated: count(&stats["duplicates"]),
        ..PingCounts::default()
    };
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
        notices: Vec::new(),
    })
}

/// When it was sent, ns of the client's monotonic clock, else of its wall clock.
fn sent(row: &Value) -> Option<u64> {
    let at = &row["timestamps"]["client"]["send"];
    number(&at["monotonic"]).or_else(|| number(&at["wall"])).map(|ns| u64::clamped(ns.max(0.0)))
}

/// How long the server held it, ns.
fn held(row: &Value) -> Option<u64> {
    let at = &row["timestamps"]["server"];
    let (came, left) = (number(&at["receive"]["monotonic"])?, number(&at["send"]["monotonic"])?);
    (left >= came).then_some(u64::clamped(left - came))
}

/// The messages that were sent in a second.
#[derive(Default)]
struct Second {
    index: u64,
    trips: Dist,
    counts: PingCounts,
}

impl Second {
    fn add(&mut self, row: &Value, all: &mut Dist) {
        self.counts.sent += 1;
        // irtt's own figure leaves out what the server held it.
        match number(&row["delay"]["rtt"]).filter(|ns| *ns > 0.0) {
            Some(ns) => {
                self.counts.received += 1;
                self.trips.record(u64::clamped(ns));
                all.record(u64::clamped(ns));
            }
            None => self.counts.lost += 1,
        }
    }

    fn interval(self) -> Interval {
        let (min_ns, max_ns) = self.trips.extremes().unwrap_or_default();
        let lost = self.counts.missing();
        Interval {
            index: u32::try_from(self.index).unwrap_or(u32::MAX),
            start_ns: self.index * SECOND_NS,
            end_ns: (self.index + 1) * SECOND_NS,
            pings: Some(PingInterval {
                counts: self.counts,
                count: self.trips.count(),
                min_ns,
                mean_ns: self.trips.mean().unwrap_or_default(),
                p50_ns: self.trips.quantile_among(0.5, lost),
                p99_ns: self.trips.quantile_among(0.99, lost),
                max_ns,
            }),
            ..Interval::default()
        }
    }
}
