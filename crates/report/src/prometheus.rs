//! Metrics for Prometheus, in its text format 0.0.4, which its textfile collector and every scraper
//! read.
//!
//! Base units (seconds, bytes, ratios). Counters and histograms only grow while a [`RunMetrics`] or
//! [`ServerMetrics`] lives, so that rates and quantiles over any time can be asked for.

use crate::words;
use metrics::{real, seconds};
use model::{Assertion, Event, Figure, Interval, Outcome, RunPart, ServerLimits, Stat, Status};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The content type that belongs to the format.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of histograms of times, s: 1, 2.5 and 5 in each decade from a microsecond to ten
/// seconds.
const BOUNDS: [f64; 22] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1,
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Percentiles of the latest run's distributions.
const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Type of the figures of one run.
const GAUGE: &str = "gauge";

/// Labels of a sample, in order.
pub type Labels = Vec<(&'static str, String)>;

/// A name, its type and help, and its samples, which have to stand together.
struct Family {
    kind: &'static str,
    help: &'static str,
    /// Suffix of the name (`_bucket`), labels, value.
    samples: Vec<(&'static str, Labels, f64)>,
}

/// A page of metrics in the making.
#[derive(Default)]
pub struct Sheet(BTreeMap<String, Family>);

/// A sample of a gauge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge<'a> {
    /// Name with the unit, such as `netcaliper_goodput_bytes_per_second`.
    pub name: &'a str,
    /// Meaning, one sentence.
    pub help: &'a str,
    /// Labels, in order.
    pub labels: &'a Labels,
    /// Value in base units; finite.
    pub value: f64,
}

impl Sheet {
    fn add(&mut self, name: &str, kind: &'static str, help: &'static str, labels: &Labels, value: f64) {
        self.family(name, kind, help).samples.push(("", labels.clone(), value));
    }

    /// Adds a sample of a gauge, unless there is no value.
    pub fn gauge(&mut self, name: &str, help: &'static str, labels: &Labels, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.add(name, GAUGE, help, labels, value);
        }
    }

    /// The samples of its gauges; samples of one name stand together.
    pub fn gauges(&self) -> impl Iterator<Item = Gauge<'_>> {
        let gauges = self.0.iter().filter(|(_, family)| family.kind == GAUGE);
        gauges.flat_map(|(name, Family { help, samples, .. })| {
            samples.iter().map(|(_, labels, value)| Gauge { name, help, labels, value: *value })
        })
    }

    fn histogram(&mut self, name: &str, help: &'static str, labels: &Labels, all: &Steps) {
        let samples = &mut self.family(name, "histogram", help).samples;
        let below = all.counts.iter().scan(0, |below, n| {
            *below += n;
            Some(*below)
        });
        let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, n) in bounds.zip(below.chain([all.count])) {
            let labels = [labels.clone(), vec![("le", bound)]].concat();
            samples.push(("_bucket", labels, real(n)));
        }
        samples.push(("_sum", labels.clone(), all.sum_s));
        samples.push(("_count", labels.clone(), real(all.count)));
    }

    fn family(&mut self, name: &str, kind: &'static str, help: &'static str) -> &mut Family {
        self.0.entry(name.to_owned()).or_insert_with(|| Family { kind, help, samples: Vec::new() })
    }

    /// Writes the page.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        for (name, Family { kind, help, samples }) in &self.0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (suffix, labels, value) in samples {
                let _ = write!(text, "{name}{suffix}");
                for (n, (label, value)) in labels.iter().enumerate() {
                    let _ = write!(text, "{}{label}=\"{}\"", if n == 0 { '{' } else { ',' }, escape(value));
                }
                let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
            }
        }
        out.write_all(text.as_bytes())
    }
}

/// The value of a label, with the format's escapes, and without control characters.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => safe.push_str("\\\\"),
            '"' => safe.push_str("\\\""),
            '\n' => safe.push_str("\\n"),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A histogram in steps of [`BOUNDS`].
#[derive(Clone, Debug, Default)]
struct Steps {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum_s: f64,
}

impl Steps {
    /// Adds `n` values of at most `ns`; a bucket that lies across a bound counts above it.
    fn add(&mut self, ns: u64, n: u64) {
        self.count += n;
        let s = seconds(ns);
        // Bounds are inclusive; ns are exact where a bound is a whole number of them.
        if let Some(at) = BOUNDS.iter().position(|bound| s <= bound * (1.0 + 1e-12)) {
            self.counts[at] += n;
        }
    }

    fn add_buckets(&mut self, buckets: &[(u64, u64)], mean_ns: f64) {
        let before = self.count;
        buckets.iter().for_each(|&(ns, n)| self.add(ns, n));
        self.sum_s += mean_ns / 1e9 * real(self.count - before);
    }
}

/// Results of runs: gauges of the latest, histograms and counters of all.
#[derive(Default)]
pub struct RunMetrics {
    latest: Option<Outcome>,
    /// By name, help and labels.
    times: BTreeMap<(&'static str, &'static str, Labels), Steps>,
    /// Runs by how they ended: `complete`, `interrupted`, `partial`, `failed`.
    runs: BTreeMap<&'static str, u64>,
    /// Each condition, and whether the latest run kept to it.
    conditions: Vec<(String, bool)>,
    /// Runs that did not keep to one.
    broken: u64,
}

impl RunMetrics {
    /// Adds a run that was to keep to these conditions.
    pub fn add(&mut self, outcome: &Outcome, conditions: &[Assertion]) {
        *self.runs.entry(outcome.status.name()).or_default() += 1;
        self.judge(conditions, |condition| condition.broken(outcome).is_empty());
        for point in &outcome.points {
            let base = labels(outcome, &RunPart::Phase(point));
            let directed = |way: &str| [base.clone(), vec![("direction", way.to_owned())]].concat();
            // Exchanges within the connections of a load are no round trips of the path.
            let is_load = point.label.get("part").is_some_and(|part| part == "load");
            let pings = point.local.pings.as_ref().filter(|_| !is_load);
            if let Some(trips) = pings.and_then(|pings| pings.rtt_ns.as_ref()) {
                let steps = self.steps(ROUND_TRIP, base.clone());
                steps.add_buckets(&trips.counts, trips.mean);
                // Above the last bound, and of no known size.
                steps.count += trips.missing;
            }
            let receivers = point.remote.iter().map(|totals| ("up", totals)).chain([("down", &point.local)]);
            for (way, totals) in receivers {
                if let Some(delays) = totals.packets.as_ref().and_then(|packets| packets.delay_ns.as_ref()) {
                    self.steps(DELAY, directed(way)).add_buckets(&delays.buckets, delays.mean);
                }
            }
            if let Some(connects) = &point.local.connect_ns {
                self.steps(CONNECT, base).add_buckets(&connects.buckets, connects.mean);
            }
        }
        self.latest = Some(outcome.clone());
    }

    /// Adds a run of which there is no outcome: the figures of the one before are no longer the
    /// latest.
    pub fn add_failed(&mut self, conditions: &[Assertion]) {
        *self.runs.entry(Status::Failed.name()).or_default() += 1;
        self.judge(conditions, |_| false);
        self.latest = None;
    }

    fn judge(&mut self, conditions: &[Assertion], is_met: impl Fn(&Assertion) -> bool) {
        self.conditions = conditions.iter().map(|all| (all.to_string(), is_met(all))).collect();
        self.broken += u64::from(self.conditions.iter().any(|(_, met)| !met));
    }

    fn steps(&mut self, (name, help): (&'static str, &'static str), labels: Labels) -> &mut Steps {
        self.times.entry((name, help, labels)).or_default()
    }

    /// Writes the page.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut sheet = Sheet::default();
        for (status, n) in &self.runs {
            let labels = vec![("status", (*status).to_owned())];
            sheet.add("netcaliper_runs_total", "counter", "Runs by how they ended.", &labels, real(*n));
        }
        let none = Labels::new();
        let help = "Runs that did not keep to a condition.";
        sheet.add("netcaliper_runs_broken_total", "counter", help, &none, real(self.broken));
        add_conditions(self.conditions.iter().map(|(text, met)| (text.clone(), *met)), &none, &mut sheet);
        for ((name, help, labels), steps) in &self.times {
            sheet.histogram(name, help, labels, steps);
        }
        if let Some(outcome) = &self.latest {
            add_run(outcome, &none, &mut sheet);
        }
        sheet.write(out)
    }
}

/// The figures of one run by itself, as gauges. The labels of the run are on all of them, so that
/// runs of several targets stay apart where one receiver keeps them.
pub fn run_gauges(outcome: &Outcome, conditions: &[Assertion]) -> Sheet {
    let mut sheet = Sheet::default();
    let run = labels_of_run(outcome);
    let met = conditions.iter().map(|one| (one.to_string(), one.broken(outcome).is_empty()));
    add_conditions(met, &run, &mut sheet);
    add_run(outcome, &run, &mut sheet);
    sheet
}

/// 1 for a true statement, 0 for a false one.
fn yes(is_true: bool) -> Option<f64> {
    Some(f64::from(u8::from(is_true)))
}

/// Adds whether a run kept to its conditions.
fn add_conditions(all: impl Iterator<Item = (String, bool)>, run: &Labels, sheet: &mut Sheet) {
    for (condition, met) in all {
        let labels = [run.clone(), vec![("condition", condition)]].concat();
        sheet.gauge("netcaliper_condition_met", "Whether the latest run kept to it.", &labels, yes(met));
    }
}

/// Adds the gauges of a run and of its phases.
fn add_run(outcome: &Outcome, run: &Labels, sheet: &mut Sheet) {
    let info = [run.clone(), vec![("version", outcome.begin.version.clone())]].concat();
    sheet.gauge("netcaliper_build_info", "The version that measured.", &info, Some(1.0));
    let began = seconds(outcome.begin.started.0);
    let help = "When the latest run began, since the epoch.";
    sheet.gauge("netcaliper_run_start_time_seconds", help, run, Some(began));
    let complete = yes(outcome.status == Status::Complete);
    sheet.gauge("netcaliper_run_complete", "Whether it ended as planned.", run, complete);
    outcome.parts().iter().for_each(|part| gauges(outcome, part, sheet));
}

const ROUND_TRIP: (&str, &str) = ("netcaliper_round_trip_seconds", "Round trips of messages.");
const DELAY: (&str, &str) =
    ("netcaliper_one_way_delay_seconds", "One-way delays of datagrams, as far as the clocks agree.");
const CONNECT: (&str, &str) = ("netcaliper_connect_seconds", "Times to connect.");

/// Which test a run belongs to: its verb, protocol and target.
pub fn labels_of_run(outcome: &Outcome) -> Labels {
    let begin = &outcome.begin;
    vec![
        ("verb", begin.verb.clone()),
        ("protocol", begin.protocol.clone()),
        ("target", begin.targets.join(" ")),
    ]
}

/// Which measurement a sample belongs to.
fn labels(outcome: &Outcome, part: &RunPart<'_>) -> Labels {
    let mut labels = labels_of_run(outcome);
    labels.push(("setting", words::pairs(&part.label())));
    labels.push(("repeat", part.repeat().to_string()));
    labels
}

/// Adds the gauges of a part of the latest run.
fn gauges(outcome: &Outcome, part: &RunPart<'_>, sheet: &mut Sheet) {
    let base = labels(outcome, part);
    for figure in Figure::with_percentiles(&PERCENTILES) {
        let mut labels = base.clone();
        labels.extend(figure.way().map(|way| ("direction", way.key().to_owned())));
        if let Some(Stat::Quantile(q)) = figure.stat() {
            labels.push(("percentile", ((q * 1e5).round() / 1e3).to_string()));
        }
        let ((name, help), (suffix, divisor)) = (figure.gauge(), figure.unit().scraped());
        let value = part.figure(figure).filter(|_| part.is_shown(figure)).map(|value| value / divisor);
        sheet.gauge(&format!("netcaliper_{name}{suffix}"), help, &labels, value);
    }
}

/// A server's counts of its clients.
#[derive(Default)]
pub struct ServerMetrics {
    version: String,
    started_s: f64,
    /// All intervals as one.
    sums: Interval,
    ended: BTreeMap<&'static str, u64>,
    lives: Steps,
    limits: ServerLimits,
}

impl ServerMetrics {
    /// Takes in an event of the server.
    pub fn absorb(&mut self, event: &Event) {
        match event {
            Event::Begin(begin) => {
                self.version.clone_from(&begin.version);
                self.started_s = seconds(begin.started.0);
                self.limits = begin.limits.unwrap_or_default();
            }
            Event::Interval(interval) => {
                self.sums.join(interval);
                self.sums.samples.clear();
            }
            Event::Connection(record) => {
                *self.ended.entry(words::ending(record.result)).or_default() += 1;
                self.lives.add(record.duration_ns, 1);
                self.lives.sum_s += seconds(record.duration_ns);
            }
            _ => {}
        }
    }

    /// Writes the page.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut sheet = Sheet::default();
        let none = Labels::new();
        let info = vec![("version", self.version.clone())];
        sheet.gauge("netcaliper_build_info", "The version that serves.", &info, Some(1.0));
        let help = "When the server began, since the epoch.";
        sheet.gauge("netcaliper_server_start_time_seconds", help, &none, Some(self.started_s));
        let help = "Data connections open at the end of the latest interval.";
        sheet.gauge("netcaliper_server_connections", help, &none, Some(real(self.sums.in_flight)));
        let limits = &self.limits;
        let limits = [
            ("client_rate_bps", "Bits/s and direction that a client may move.", limits.rate_bps.map(real)),
            ("client_time_seconds", "Longest run of a client.", limits.time_ns.map(seconds)),
            ("client_bytes", "Bytes that a client may move.", limits.bytes.map(real)),
            (
                "address_rate_bps",
                "Bits/s and direction that an address may move.",
                limits.address_rate_bps.map(real),
            ),
            (
                "total_rate_bps",
                "Bits/s and direction that all clients may move.",
                limits.total_rate_bps.map(real),
            ),
        ];
        for (name, help, value) in limits {
            sheet.gauge(&format!("netcaliper_server_limit_{name}"), help, &none, value);
        }
        let counters = [
            ("received_bytes", "Payload received.", self.sums.local.rx_bytes),
            ("sent_bytes", "Payload sent.", self.sums.local.tx_bytes),
            ("connections_opened", "Data connections established.", self.sums.opened),
            ("network_errors", "Data connections that failed.", self.sums.network_errors),
            ("data_errors", "Data connections with wrong data.", self.sums.data_errors),
        ];
        for (name, help, value) in counters {
            sheet.add(&format!("netcaliper_server_{name}_total"), "counter", help, &none, real(value));
        }
        for (result, n) in &self.ended {
            let labels = vec![("result", (*result).to_owned())];
            let help = "Data connections that ended, by how.";
            sheet.add("netcaliper_server_connections_ended_total", "counter", help, &labels, real(*n));
        }
        let help = "Lives of data connections that have ended.";
        sheet.histogram("netcaliper_server_connection_seconds", help, &none, &self.lives);
        sheet.write(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Dist, Packets};
    use model::{Direction, PacketReport, Point, RoundTrips, Totals};

    fn conditions(text: &str) -> [Assertion; 1] {
        [Assertion::parse(text).unwrap()]
    }

    fn outcome(target: &str) -> Outcome {
        let mut trips = Dist::default();
        [900, 1_000, 30_000, 2_000_000, 20_000_000_000].iter().for_each(|&ns| trips.record(ns));
        let mut point = Point::default();
        point.local.pings = Some(Box::new(RoundTrips { rtt_ns: trips.spectrum(), ..RoundTrips::default() }));
        point.up = Some(Direction { goodput_bps: 8e9, ..Direction::default() });
        let mut outcome = Outcome { points: vec![point], status: Status::Complete, ..Outcome::default() };
        outcome.begin.verb = "ping".to_owned();
        outcome.begin.targets = vec![target.to_owned()];
        outcome
    }

    fn page(metrics: &RunMetrics) -> String {
        crate::histogram::tests::text(|out| metrics.write(out))
    }

    #[test]
    fn gauges_of_a_run_are_those_of_its_page_with_the_labels_of_the_run() {
        let outcome = outcome("a");
        let conditions = conditions("p50<1s");
        let mut metrics = RunMetrics::default();
        metrics.add(&outcome, &conditions);
        let page = page(&metrics);
        let sheet = run_gauges(&outcome, &conditions);
        let all: Vec<Gauge<'_>> = sheet.gauges().collect();
        for gauge in &all {
            assert!(page.contains(&format!("# TYPE {} gauge\n", gauge.name)), "{}", gauge.name);
            assert!(gauge.labels.contains(&("target", "a".to_owned())), "{gauge:?}");
        }
        let on_page = page.lines().filter(|line| line.ends_with(" gauge")).count();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|gauge| gauge.name).collect();
        assert_eq!(names.len(), on_page);
    }

    #[test]
    fn histograms_add_up_over_runs() {
        let mut metrics = RunMetrics::default();
        // A fifth of the round trips took 20 s.
        metrics.add(&outcome("a"), &conditions("p99<1s"));
        metrics.add(&outcome("a"), &conditions("p50<1s"));
        let page = page(&metrics);
        let value = |start: &str, labels: &str| {
            let line = page.lines().find(|l| l.starts_with(start) && l.contains(labels));
            line.and_then(|l| l.rsplit(' ').next()?.parse::<f64>().ok())
        };
        let bucket = |le: &str| value("netcaliper_round_trip_seconds_bucket", &format!("le=\"{le}\""));
        // Of each run 0.9 and 1 µs, 30 µs, 2 ms, and one beyond all bounds.
        assert_eq!(bucket("0.000001"), Some(4.0));
        assert_eq!((bucket("0.000025"), bucket("0.00005")), (Some(4.0), Some(6.0)));
        assert_eq!((bucket("10"), bucket("+Inf")), (Some(8.0), Some(10.0)));
        assert_eq!(value("netcaliper_round_trip_seconds_count", ""), Some(10.0));
        let sum = value("netcaliper_round_trip_seconds_sum", "").unwrap();
        assert!((sum - 2.0 * 20.002_031_9).abs() < 1e-6, "{sum}");
        assert_eq!(value("netcaliper_goodput_bytes_per_second", "direction=\"up\""), Some(1e9));
        assert_eq!(value("netcaliper_runs_total", "status=\"complete\""), Some(2.0));
        assert_eq!(value("netcaliper_runs_broken_total", ""), Some(1.0));
        assert_eq!(value("netcaliper_condition_met", "p50<1s"), Some(1.0));
    }

    #[test]
    fn a_run_without_an_outcome_leaves_no_figures_of_the_one_before() {
        let mut metrics = RunMetrics::default();
        metrics.add(&outcome("a"), &conditions("p50<1s"));
        metrics.add_failed(&conditions("p50<1s"));
        let page = page(&metrics);
        for line in [
            "netcaliper_runs_total{status=\"complete\"} 1",
            "netcaliper_runs_total{status=\"failed\"} 1",
            "netcaliper_runs_broken_total 1",
            "netcaliper_condition_met{condition=\"p50<1s\"} 0",
        ] {
            assert!(page.lines().any(|known| known == line), "no {line} in {page}");
        }
        assert!(page.contains("netcaliper_round_trip_seconds_count"), "what all runs found stays: {page}");
        assert!(!page.contains("netcaliper_goodput") && !page.contains("run_complete"), "{page}");
    }

    #[test]
    fn delays_to_all_servers_are_in_the_histogram() {
        let ends = [1_000u64, 2_000].map(|ns| {
            let mut delays = Dist::default();
            delays.record(ns);
            let mut packets = PacketReport::from(Packets::default());
            packets.delay_ns = delays.summary();
            Totals { packets: Some(Box::new(packets)), ..Totals::default() }
        });
        let point = Point { remote: ends.to_vec(), ..Point::default() };
        let mut metrics = RunMetrics::default();
        metrics.add(&Outcome { points: vec![point], ..Outcome::default() }, &[]);
        let page = page(&metrics);
        let count = page.lines().find(|line| line.starts_with("netcaliper_one_way_delay_seconds_count"));
        assert!(count.is_some_and(|line| line.contains("\"up\"") && line.ends_with(" 2")), "{page}");
    }

    #[test]
    fn names_cannot_break_the_format() {
        let mut metrics = RunMetrics::default();
        metrics.add(&outcome("a\"} 1\nevil{x=\"\\\u{7}"), &[]);
        let page = page(&metrics);
        assert!(page.lines().all(|l| l.starts_with("# ") || l.starts_with("netcaliper_")), "{page}");
        assert!(page.contains(r#"target="a\"} 1\nevil{x=\"\\"#), "{page}");
        let families = page.lines().filter(|l| l.starts_with("# TYPE")).count();
        let mut names: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("# TYPE ")).collect();
        names.dedup();
        assert_eq!(names.len(), families, "each family stands together");
    }
}
