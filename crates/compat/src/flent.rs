//! flent's data files (`.flent`, `.flent.gz`).
//!
//! flent puts its tools' readings on one grid of times (`STEP_SIZE`, 0.2 s or 0.05 s). A place
//! without a reading is no reading of 0: a rate holds since the reading before it, or for the time
//! that the raw reading names.

use crate::file::Source;
use crate::import::{ImportedPhase, ImportedRun, LONGEST_S, Numbers, ns, number, wall};
use metrics::{Clamped, Dist, Quartiles, real};
use model::{
    Count, Counts, EndCounts, Interval, Kind, Pattern, PingCounts, PingInterval, RoundTrips, Totals, Traffic,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Steps of one file that are read.
const MOST: usize = 1_000_000;
/// Share by which the mean of the readings and the file's own mean may differ.
const NEAR: f64 = 0.03;
/// Highest rate, Mbit/s.
const FASTEST: f64 = 1e9;
/// Factor from a raw reading in bits/s to one in Mbit/s.
const MEGA: f64 = 1e6;
/// Streams that lasted at least this share of the longest are taken to have lasted as long.
const AS_LONG: f64 = 0.9;

/// Reads a document; `None` when it is none of flent's.
pub(crate) fn read(source: &Source) -> Option<Result<ImportedRun, String>> {
    let document = source.json()?;
    document.get("metadata")?.get("NAME")?;
    document.get("x_values")?.as_array()?;
    document.get("results")?.as_object()?;
    Some(imported(document))
}

fn imported(document: &Value) -> Result<ImportedRun, String> {
    let about = &document["metadata"];
    let text = |name: &str| about[name].as_str().unwrap_or_default();
    let program = format!("flent {}", text("FLENT_VERSION")).trim_end().to_owned();
    let mut numbers = Numbers::default();
    let times = list(&document["x_values"], ("time", LONGEST_S, 1.0), &mut numbers);
    let times: Vec<f64> = times.into_iter().collect::<Option<_>>().unwrap_or_default();
    if times.is_empty() || !times.is_sorted_by(|a, b| a < b) {
        return Err(format!("the file is of {program}, but its times (x_values) do not rise"));
    }
    let (mut phases, mut up, mut down, mut left) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut notices = vec![
        "the readings are flent's, on its grid of times: percentiles are of those, not of single packets"
            .to_owned(),
    ];
    for (name, values) in document["results"].as_object().into_iter().flatten() {
        let meta = &about["SERIES_META"][name];
        let unit = meta["UNITS"].as_str();
        let mut read = |most: f64, unit: f64| -> Values {
            let values = list(values, (name, most, unit), &mut numbers);
            values.into_iter().take(times.len()).collect()
        };
        let ways = [("TCP upload", &mut up), ("TCP download", &mut down)];
        let way = ways.into_iter().find(|(prefix, _)| is_stream(name, prefix, about, document));
        match way {
            Some((_, streams)) => {
                let Some(factor) = factor(&RATES, unit) else {
                    left.push(format!("{name} (in {})", unit.unwrap_or_default()));
                    continue;
                };
                let values = read(FASTEST, factor);
                match Stream::of(&times, &values, &document["raw_values"][name]) {
                    Some(stream) => {
                        let own = number(&meta["MEAN_VALUE"]).map(|mean| mean * factor);
                        notices.extend(stream.differs(name, own));
                        streams.push(stream);
                    }
                    None => left.push(format!("{name} (no reading)")),
                }
            }
            None if is_measured(name, "Ping (ms)", about) => {
                let Some(factor) = factor(&TIMES, unit) else {
                    left.push(format!("{name} (in {})", unit.unwrap_or_default()));
                    continue;
                };
                match pings(name, &times, &read(LONGEST_S * 1e3, factor)) {
                    Some(phase) => phases.push(phase),
                    None => left.push(format!("{name} (no reading)")),
                }
            }
            None => left.push(name.clone()),
        }
    }
    phases.extend(streams(&times, (&up, &down)));
    if !left.is_empty() {
        notices.push(format!("left out: {}", left.join(", ")));
    }
    notices.extend(numbers.notice());
    if phases.is_empty() {
        let left = if left.is_empty() { "nothing".to_owned() } else { left.join(", ") };
        return Err(format!(
            "the file is of {program}, but holds no TCP stream and no ping that is read: it holds {left}"
        ));
    }
    Ok(ImportedRun {
        program,
        protocol: "flent",
        verb: if up.is_empty() && down.is_empty() { "ping" } else { "tcp" },
        targets: Some(text("HOST").to_owned()).filter(|host| !host.is_empty()).into_iter().collect(),
        host: text("LOCAL_HOST").to_owned(),
        started: wall(text("TIME")),
        phases,
        notices,
        counts: Some(EndCounts::OWN),
        ..ImportedRun::default()
    })
}

/// A series' value at each time; none where no reading exists.
type Values = Vec<Option<f64>>;

/// Values called `name`, each `unit` of the unit used here and at most `most` of that.
fn list(values: &Value, (name, most, unit): (&str, f64, f64), numbers: &mut Numbers) -> Values {
    let values = values.as_array().into_iter().flatten().take(MOST);
    values.map(|value| Some(numbers.within(value, name, (0.0, most / unit))? * unit)).collect()
}

/// Units of rates, in Mbit/s, and of times, in ms.
const RATES: [(&str, f64); 4] = [("mbit", 1.0), ("kbit", 1e-3), ("gbit", 1e3), ("bit", 1e-6)];
const TIMES: [(&str, f64); 4] = [("ms", 1.0), ("us", 1e-3), ("\u{b5}s", 1e-3), ("s", 1e3)];

/// The value of a unit, of rates per second: that of the first one where the file names none;
/// `None` of another one.
fn factor(units: &[(&str, f64)], unit: Option<&str>) -> Option<f64> {
    let Some(unit) = unit else { return Some(1.0) };
    let unit = unit.to_lowercase();
    let unit = unit.strip_suffix("/s").map_or(unit.as_str(), |unit| unit.trim_end_matches('s'));
    units.iter().find(|(name, _)| *name == unit).map(|(_, value)| *value)
}

/// True if a series is a stream that a tool measured: its name is one of flent's streams.
fn is_stream(name: &str, prefix: &str, about: &Value, document: &Value) -> bool {
    let raw = document["raw_values"].as_object().filter(|raw| !raw.is_empty());
    is_measured(name, prefix, about) && raw.is_none_or(|raw| raw.contains_key(name))
}

/// True if a series is a tool's own, and not computed from others: `prefix`, then a class of
/// service, a protocol or a number, then the host where there are several. Series that flent
/// computes (avg, sum, fairness, …) have a word of their own in that place; where the file names
/// the runners, the runner's name decides.
fn is_measured(name: &str, prefix: &str, about: &Value) -> bool {
    const COMPUTED: [&str; 8] = ["Average", "Sum", "Diff", "Comput", "Fairness", "Smooth", "Null", "Func"];
    const CLASSES: [&str; 10] = ["BE", "BK", "EF", "VO", "VI", "CS", "AF", "ICMP", "UDP", "TCP"];
    let Some(rest) = name.strip_prefix(prefix) else { return false };
    let runner = about["SERIES_META"][name]["RUNNER"].as_str().unwrap_or_default();
    if COMPUTED.iter().any(|word| runner.contains(word)) {
        return false;
    }
    let hosts: Vec<&str> =
        about["HOSTS"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let computed = ["avg", "mean", "median", "sum", "total", "totals", "fairness", "min", "max", "diff"];
    if rest.split(' ').any(|word| computed.contains(&word.to_ascii_lowercase().as_str())) {
        return false;
    }
    let Some(first) = rest.split([' ', ':', '-', '_']).find(|word| !word.is_empty()) else { return true };
    // The kernel's figures of a stream (`::tcp_rtt`).
    if rest
        .rsplit("::")
        .next()
        .is_some_and(|last| rest.contains("::") && !last.bytes().all(|b| b.is_ascii_digit()))
    {
        return false;
    }
    let class = first.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    class.is_empty() || CLASSES.contains(&class) || hosts.iter().any(|host| rest.trim().starts_with(host))
}

fn named(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("series".to_owned(), name.to_owned())])
}

/// Width of a step, s.
fn width(times: &[f64]) -> f64 {
    if times.len() > 1 { times[1] - times[0] } else { 1.0 }
}

/// One place of the grid: its step reaches to the next.
fn step(times: &[f64], n: usize) -> Interval {
    let start = times.get(n).copied().unwrap_or(0.0);
    let end = start + width(times);
    Interval { index: u32::clamped(n), start_ns: ns(start), end_ns: ns(end), ..Interval::default() }
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
            ..PingInterval::default()
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
    // The file has no number of lost ones.
    let trips = RoundTrips { rtt_ns: all.spectrum(), ..RoundTrips::default() };
    phase.local.pings = Some(Box::new(trips));
    (all.count() > 0).then_some(phase)
}

/// The readings of a stream, Mbit/s.
struct Stream {
    /// Mean over the time that the readings cover.
    mean: f64,
    /// Length of that time, s.
    length: f64,
    /// The rate at each place of the grid that a reading covers.
    at: Values,
}

impl Stream {
    /// `None` without a reading.
    fn of(times: &[f64], values: &[Option<f64>], raw: &Value) -> Option<Stream> {
        let readings: Vec<(usize, f64)> = values
            .iter()
            .enumerate()
            .filter_map(|(n, value)| Some((n, value.filter(|rate| *rate >= 0.0)?)))
            .collect();
        let mut gaps: Vec<usize> = readings.windows(2).map(|two| two[1].0 - two[0].0).collect();
        gaps.sort_unstable();
        // The first reading is of a time as long as the others are of.
        let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(1);
        let (mut at, mut sum, mut steps) = (vec![None; values.len()], 0.0, 0_usize);
        let mut before = None;
        for (n, rate) in &readings {
            let gap = before.map_or(usual.min(n + 1), |before| n - before);
            at[n + 1 - gap..=*n].fill(Some(*rate));
            (sum, steps, before) = (sum + rate * real(gap), steps + gap, Some(*n));
        }
        let (mean, length) = ((steps > 0).then(|| sum / real(steps))?, real(steps) * width(times));
        let (mean, length) = of_raw(raw, mean).unwrap_or((mean, length));
        Some(Stream { mean, length, at })
    }

    /// Notice of a different mean in the file itself.
    fn differs(&self, name: &str, own: Option<f64>) -> Option<String> {
        let own = own.filter(|own| (self.mean - own).abs() > NEAR * own.abs())?;
        Some(format!(
            "{name}: the readings have a mean of {:.3} Mbit/s, the file's own is {own:.3}",
            self.mean
        ))
    }
}

/// Mean and length of raw readings that name the time they are of; `None` where they do not, or are
/// in a unit of another kind than `on_grid`.
fn of_raw(raw: &Value, on_grid: f64) -> Option<(f64, f64)> {
    let (mut sum, mut length) = (0.0, 0.0);
    let mut values = Vec::new();
    for reading in raw.as_array()?.iter().take(MOST) {
        let (Some(val), Some(dur)) = (number(&reading["val"]), number(&reading["dur"])) else { continue };
        if val >= 0.0 && dur > 0.0 {
            (sum, length) = (sum + val * dur, length + dur);
            values.push(val);
        }
    }
    let middle = Quartiles::of(values)?.median;
    let mean = if middle > on_grid * MEGA / 10.0 { sum / length / MEGA } else { sum / length };
    let near = mean > on_grid / 2.0 && mean < on_grid * 2.0;
    (near || on_grid == 0.0).then_some((mean, length))
}

/// All streams of each direction together.
fn streams(times: &[f64], (up, down): (&[Stream], &[Stream])) -> Option<ImportedPhase> {
    let longest =
        |streams: &[Stream]| streams.iter().map(|stream| stream.length).reduce(f64::max).unwrap_or(0.0);
    let (longest_up, longest_down) = (longest(up), longest(down));
    let bytes = |mbit: f64, seconds: f64| mbit * 1e6 / 8.0 * seconds;
    let total = |streams: &[Stream], longest: f64| {
        let lasted = |s: &Stream| if s.length >= AS_LONG * longest { longest } else { s.length };
        u64::clamped(streams.iter().map(|stream| bytes(stream.mean, lasted(stream))).sum::<f64>().round())
    };
    // The readings of the two directions need not cover the same time.
    let traffic = Traffic {
        tx_bytes: total(up, longest_up),
        rx_bytes: total(down, longest_down),
        ns: ns(longest_up.max(longest_down)),
        tx_ns: Some(ns(longest_up)).filter(|_| !up.is_empty()),
        rx_ns: Some(ns(longest_down)).filter(|_| !down.is_empty()),
    };
    if traffic.ns == 0 {
        return None;
    }
    let local = Totals { traffic, ..Totals::default() };
    let interval = |n: usize| {
        let rate = |streams: &[Stream]| {
            let known = streams.iter().filter_map(|stream| stream.at.get(n).copied().flatten());
            known.reduce(|sum, one| sum + one)
        };
        let (sent, received) = (rate(up), rate(down));
        let mut interval = step(times, n);
        interval.local.ns = interval.end_ns - interval.start_ns;
        let of_step = |rate: Option<f64>| u64::clamped(bytes(rate.unwrap_or(0.0), width(times)).round());
        (interval.local.tx_bytes, interval.local.rx_bytes) = (of_step(sent), of_step(received));
        for (rate, count) in [(sent, Count::SentBytes), (received, Count::ReceivedBytes)] {
            if rate.is_none() {
                interval.unknown = interval.unknown.and(Counts::of(&[count]));
            }
        }
        // Before and after the load flent only pings: those steps are no phase of the rate.
        sent.or(received).map(|_| interval)
    };
    Some(ImportedPhase {
        label: named("TCP"),
        kind: Kind::Tcp,
        pattern: match (up.is_empty(), down.is_empty()) {
            (false, false) => Pattern::Duplex,
            (true, _) => Pattern::Pull,
            _ => Pattern::Push,
        },
        connections: u32::clamped(up.len().max(down.len())),
        intervals: (0..times.len()).filter_map(interval).collect(),
        local,
        ..ImportedPhase::default()
    })
}
