//! flent's data files (`.flent`, `.flent.gz`).
//!
//! What flent shows are its tools' readings, put on one grid of times (`STEP_SIZE`, 0.2 s): those are taken, because the raw ones
//! are in each tool's own units.

use crate::import::{ImportedPhase, ImportedRun, json, ns, number, wall};
use metrics::{Clamped, Dist, real};
use model::{Interval, Kind, Pattern, PingCounts, PingInterval, RoundTrips, Totals};
use serde_json::Value;
use std::collections::BTreeMap;

/// Steps of one file that are read.
const MOST: usize = 1_000_000;

/// Reads a document; `None` when it is none of flent's.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<ImportedRun, String>> {
    let document = json(bytes)?;
    document.get("metadata")?.get("NAME")?;
    document.get("x_values")?.as_array()?;
    document.get("results")?.as_object()?;
    Some(Ok(found(&document)))
}

fn found(document: &Value) -> ImportedRun {
    let about = &document["metadata"];
    let text = |name: &str| about[name].as_str().unwrap_or_default();
    let times: Vec<f64> = list(&document["x_values"]).into_iter().flatten().collect();
    let (mut phases, mut up, mut down, mut left) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, values) in document["results"].as_object().into_iter().flatten() {
        let values = list(values);
        // Means and sums of the others.
        let made = [" avg", " sum", " totals"].iter().any(|end| name.ends_with(end));
        match name {
            _ if made || name == "TCP totals" => {}
            // What the kernel said of a stream, and no stream of its own.
            _ if name.contains("::tcp_") => left.push(name.clone()),
            _ if name.starts_with("TCP upload") => up.push(values),
            _ if name.starts_with("TCP download") => down.push(values),
            _ if name.starts_with("Ping (ms)") => phases.extend(pings(name, &times, &values)),
            _ => left.push(name.clone()),
        }
    }
    phases.extend(streams(&times, (&up, &down)));
    let grid =
        "the readings are flent's, on its grid of times: percentiles are of those, not of single packets";
    let mut notices = vec![grid.to_owned()];
    if !left.is_empty() {
        notices.push(format!("left out: {}", left.join(", ")));
    }
    ImportedRun {
        program: format!("flent {}", text("FLENT_VERSION")).trim_end().to_owned(),
        protocol: "flent",
        verb: if up.is_empty() && down.is_empty() { "ping" } else { "tcp" },
        targets: Some(text("HOST").to_owned()).filter(|host| !host.is_empty()).into_iter().collect(),
        host: text("LOCAL_HOST").to_owned(),
        started: wall(text("TIME")),
        phases,
        notices,
    }
}

/// What a series has at each time; none where nothing came.
type Values = Vec<Option<f64>>;

fn list(values: &Value) -> Values {
    values.as_array().into_iter().flatten().take(MOST).map(number).collect()
}

fn named(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("series".to_owned(), name.to_owned())])
}

/// One place of the grid: its step reaches to the next.
fn step(times: &[f64], n: usize) -> Interval {
    let width = if times.len() > 1 { times[1] - times[0] } else { 1.0 };
    let start = times.get(n).copied().unwrap_or(0.0);
    Interval { index: u32::clamped(n), start_ns: ns(start), end_ns: ns(start + width), ..Interval::default() }
}

fn pings(name: &str, times: &[f64], values: &[Option<f64>]) -> Option<ImportedPhase> {
    let mut all = Dist::default();
    let mut intervals = Vec::new();
    for (n, value) in values.iter().enumerate().take(times.len()) {
        let Some(ns) = value.filter(|ms| *ms > 0.0).map(|ms| u64::clamped(ms * 1e6)) else { continue };
        all.record(ns);
        let counts = PingCounts { sent: 1, received: 1, ..PingCounts::default() };
        let pings = PingInterval {
            counts,
            count: 1,
            min_ns: ns,
            mean_ns: real(ns),
            p50_ns: Some(ns),
            p99_ns: Some(ns),
            max_ns: ns,
        };
        intervals.push(Interval { pings: Some(pings), ..step(times, n) });
    }
    let mut phase = ImportedPhase {
        label: named(name),
        kind: Kind::Ping,
        pattern: Pattern::Duplex,
        connections: 1,
        intervals,
        ..ImportedPhase::default()
    };
    // How many were lost is not told.
    let trips = RoundTrips { rtt_ns: all.spectrum(), ..RoundTrips::default() };
    phase.local.pings = Some(Box::new(trips));
    (all.count() > 0).then_some(phase)
}

/// All streams of each direction together.
fn streams(times: &[f64], (up, down): (&[Values], &[Values])) -> Option<ImportedPhase> {
    if up.is_empty() && down.is_empty() {
        return None;
    }
    // Mbit/s over one step.
    let bytes = |series: &[Values], n: usize, ns: u64| {
        let mbit: f64 = series.iter().filter_map(|values| values.get(n).copied().flatten()).sum();
        u64::clamped(mbit.max(0.0) * 1e6 / 8.0 * real(ns) / 1e9)
    };
    let mut local = Totals::default();
    let interval = |n: usize| {
        let mut interval = step(times, n);
        let span = interval.end_ns - interval.start_ns;
        interval.local.ns = span;
        interval.local.tx_bytes = bytes(up, n, span);
        interval.local.rx_bytes = bytes(down, n, span);
        local.traffic.after(&interval.local);
        interval
    };
    let intervals: Vec<Interval> = (0..times.len()).map(interval).collect();
    // Before and after the load flent only pings: those steps are no phase of the rate.
    let busy = |i: &Interval| i.local.tx_bytes + i.local.rx_bytes > 0;
    local.traffic.ns = intervals.iter().filter(|i| busy(i)).map(|i| i.local.ns).sum();
    Some(ImportedPhase {
        label: named("TCP"),
        kind: Kind::Tcp,
        pattern: match (up.is_empty(), down.is_empty()) {
            (false, false) => Pattern::Duplex,
            (true, _) => Pattern::Pull,
            _ => Pattern::Push,
        },
        connections: u32::clamped(up.len().max(down.len())),
        intervals,
        local,
        ..ImportedPhase::default()
    })
}
