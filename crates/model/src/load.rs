//! Latency under load: a path's delays when it is full, and their grade.
//!
//! A run has stages: idle, loaded from the server (`down`), to it (`up`), and both ways at once. In
//! each, three measurements run beside each other, a point each: TCP connections that fill the path
//! (`load`; not when idle), round trips of a flow of their own (`trips`), and one-way delays of
//! another (`delay`). Their labels say which is which.

use crate::{
    Figure, Kind, Outcome, PacketReport, Pattern, Phase, Ping, Point, Probe, RoundTrips, Schedule,
    SocketSettings, Spacing, Stat, Status, Transport, Way, figures,
};
use metrics::{Clamped, Ecn, Spectrum, Spread, buffer_delay_percent, real, sum_of};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The document that the responsiveness figures follow.
pub const RESPONSIVENESS: &str = "draft-ietf-ippm-responsiveness of July 2026 (a9c9536)";
/// Share of the worst round trips that its trimmed mean leaves out.
const TRIMMED: f64 = 0.05;
/// Bytes of a datagram that measures delay one way: more than the control messages, so that a trace
/// of the path separates them.
const PROBE: u32 = 160;

/// Load of the path in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing.
    Idle,
    /// From the server.
    Down,
    /// To the server.
    Up,
    /// Both ways at once.
    Both,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 4] = [Stage::Idle, Stage::Down, Stage::Up, Stage::Both];

    /// Its name, as labels have it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Idle => "idle",
            Stage::Down => "down",
            Stage::Up => "up",
            Stage::Both => "both",
        }
    }

    fn pattern(self) -> Option<Pattern> {
        match self {
            Stage::Idle => None,
            Stage::Down => Some(Pattern::Pull),
            Stage::Up => Some(Pattern::Push),
            Stage::Both => Some(Pattern::Duplex),
        }
    }
}

/// The request.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The connections that fill the path; its length is that of the measurements, without the time
    /// to fill it.
    pub filler: Phase,
    /// The time to fill it, ns.
    pub ramp_ns: u64,
    /// Round trips, and datagrams each way, a second, with each server.
    pub rate: f64,
    /// Servers, each of which has a flow of round trips and one of datagrams.
    pub servers: u32,
    /// Seed of random spacing.
    pub seed: u64,
    /// Two ECN codepoints of the datagrams each way, which are compared under the same load. Round
    /// trips have none, so that grades compare.
    pub ecn: Option<(Ecn, Ecn)>,
}

/// Label of a point of such a run.
fn label(stage: Stage, part: &str) -> BTreeMap<String, String> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    BTreeMap::from([pair("stage", stage.name()), pair("part", part)])
}

/// True if two points are concurrent parts of one stage of such a run.
pub fn are_beside(one: &Point, other: &Point) -> bool {
    let stage =
        |point: &Point| Some((point.label.get("part").and(point.label.get("stage"))?.clone(), point.repeat));
    stage(one).is_some_and(|of| stage(other) == Some(of))
}

/// True if `idle` has the idle round trips to compare `loaded` with.
pub(crate) fn is_idle_of(idle: &Point, loaded: &Point) -> bool {
    idle.label == label(Stage::Idle, TRIPS)
        && loaded.label.get("part").is_some_and(|part| part == TRIPS)
        && loaded.label != idle.label
        && loaded.repeat == idle.repeat
}

/// The label of the part that has round trips of a flow of their own.
const TRIPS: &str = "trips";
/// Longest wait for their echoes, ns.
const TIMEOUT: u64 = 5 * metrics::SECOND;

/// A measurement and its label.
pub type Part = (BTreeMap<String, String>, Phase);

impl Load {
    /// The load of the path in a stage; none when idle. Its time is the shortest: it goes on until
    /// the probes have measured.
    pub fn filler(&self, stage: Stage) -> Option<Part> {
        let pattern = stage.pattern()?;
        let duration_ns = self.filler.duration_ns.map(|ns| ns.saturating_add(self.ramp_ns));
        let gap_ns = 1e9 / self.rate * f64::from(self.filler.connections);
        let inside_gap_ns = Some((u64::clamped(gap_ns.round())).max(metrics::SECOND / 1000));
        let filler = self.filler.clone();
        let phase = Phase { pattern, duration_ns, omit_ns: self.ramp_ns, inside_gap_ns, ..filler };
        Some((label(stage, "load"), phase))
    }

    /// The measurements in a stage.
    pub fn probes(&self, stage: Stage) -> [Part; 2] {
        let gap_ns = u64::clamped((1e9 / self.rate).round());
        let base = Phase {
            connections: self.servers,
            duration_ns: self.filler.duration_ns,
            interval_ns: self.filler.interval_ns,
            exclusive: self.filler.exclusive,
            iterations: None,
            ..Phase::default()
        };
        let schedule = Schedule::Poisson { gap_ns };
        let ping = Ping { transport: Transport::Udp, schedule, timeout_ns: TIMEOUT, ..Ping::default() };
        let trips = Phase { kind: Kind::Ping, ping: Some(ping), iterations: Some(1), ..base.clone() };
        let probe = Probe {
            size: PROBE,
            spacing: Spacing::Poisson,
            seed: self.seed,
            late_ns: 5 * metrics::SECOND,
            paired: self.ecn.map(|(_, other)| other),
            ..Probe::default()
        };
        let rate = Some(u64::clamped((self.rate * f64::from(PROBE) * 8.0).round()));
        let (kind, pattern) = (Kind::Delay, Pattern::Duplex);
        let sockets = SocketSettings { ecn: self.ecn.map(|(ecn, _)| ecn), ..base.sockets.clone() };
        let delay = Phase { kind, pattern, rate, probe: Some(probe), sockets, ..base };
        [(label(stage, TRIPS), trips), (label(stage, "delay"), delay)]
    }
}

/// One way in a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OneWay {
    /// Goodput of the load on this way, bits/s.
    pub goodput_bps: Option<f64>,
    /// Median delay of the datagrams, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Median delay more than when idle, ns.
    pub added_ns: Option<i64>,
    /// Share of datagrams lost, 0..=1.
    pub lost: f64,
    /// Error bound of delays because two clocks were compared, ns.
    pub bound_ns: Option<u64>,
}

/// Results of a stage, over all its repetitions: percentiles of all their round trips, of one-way
/// delays the largest percentile of a repetition, the mean of goodput and of buffer delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageResult {
    /// Its name.
    pub stage: String,
    /// Number of repetitions.
    pub repetitions: u32,
    /// To the server.
    pub up: Option<OneWay>,
    /// From the server.
    pub down: Option<OneWay>,
    /// Median round trip of the flow of its own, less the server's time for each, ns.
    pub rtt_p50_ns: Option<u64>,
    /// 99th percentile, ns.
    pub rtt_p99_ns: Option<u64>,
    /// Median round trip more than when idle, ns.
    pub added_ns: Option<i64>,
    /// 90th percentile of the round trips more than when idle, ns, with lost ones above all others:
    /// `i64::MAX` when a tenth is lost.
    pub added_p90_ns: Option<i64>,
    /// The 90th percentile itself, ns; `u64::MAX` likewise.
    pub rtt_p90_ns: Option<u64>,
    /// Median of the server's time for a message, ns; it is in no other figure.
    pub turnaround_p50_ns: Option<u64>,
    /// Share of the messages without an answer, 0..=1.
    pub never_back: Option<f64>,
    /// Responsiveness of a flow beside the load, round trips a minute: an upper bound when messages
    /// got no answer.
    pub beside_rpm: Option<f64>,
    /// Responsiveness inside the loading connections: of exchanges between their payload.
    pub inside_rpm: Option<f64>,
    /// Mean of the two (the draft's figure), under load.
    pub rpm: Option<f64>,
    /// Buffer delay (RFC 6349 §4.3), percent.
    pub buffer_delay_percent: Option<f64>,
    /// The congestion control of the loading connections.
    pub congestion: String,
    /// Distribution of the round trips, ns, with lost messages as missing.
    pub rtt: Option<Spectrum>,
    /// Figures of the loading connections, and errors and caveats of all measurements.
    pub beside: Vec<(Figure, f64)>,
}

impl StageResult {
    /// The growth of round trips that the grade is about, ns: the larger of the median's and the
    /// 90th percentile's, which counts lost messages. `None` when idle.
    pub fn grown_ns(&self) -> Option<i64> {
        let measured = self.stage != Stage::Idle.name();
        measured.then(|| self.added_ns.max(self.added_p90_ns)).flatten()
    }

    /// A letter, by how many ms round trips grew: A+ below 5, A below 30, B below 60, C below 200,
    /// D below 400.
    pub fn grade(&self) -> Option<&'static str> {
        self.grown_ns().map(grade)
    }

    /// Value of a figure; infinite where a percentile falls among lost messages. Goodput is that of
    /// the stage that fills its direction alone; round trips before the load have a figure of their
    /// own, so that the others are those under the load.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        let growth = |ns: Option<i64>| ns.map(|ns| if ns == i64::MAX { f64::INFINITY } else { real(ns) });
        let is_idle = self.stage == Stage::Idle.name();
        match figure {
            Figure::Errors | Figure::Caveats => self.other_figure(figure),
            Figure::IdleRoundTrip(stat) => self.trip(stat).filter(|_| is_idle),
            _ if is_idle => None,
            Figure::RoundTrip(stat) => self.trip(stat),
            Figure::MessagesLost => self.never_back.map(|share| 100.0 * share),
            Figure::Goodput(way) => {
                let alone = if way == Way::Up { Stage::Up } else { Stage::Down };
                self.way(way)?.goodput_bps.filter(|_| self.stage == alone.name())
            }
            Figure::Delay(way, Stat::Quantile(q)) => {
                let way = self.way(way)?;
                let known = [(0.5, way.p50_ns), (0.9, way.p90_ns), (0.99, way.p99_ns)];
                known.into_iter().find(|(at, _)| (at - q).abs() < 1e-9).map(|(_, ns)| real(ns))
            }
            Figure::Delay(..) => None,
            Figure::Loss(way) => Some(100.0 * self.way(way)?.lost),
            Figure::Added => growth(self.grown_ns()),
            Figure::AddedPercentile(Stat::MEDIAN) => growth(self.added_ns),
            Figure::AddedPercentile(Stat::Quantile(q)) if (q - 0.9).abs() < 1e-9 => growth(self.added_p90_ns),
            Figure::AddedPercentile(_) => None,
            Figure::Grade => {
                self.grown_ns().map(|ns| real(GRADES.iter().filter(|(_, ms)| !is_below(ns, *ms)).count()))
            }
            Figure::Responsiveness => self.rpm,
            other => self.other_figure(other),
        }
    }

    fn other_figure(&self, figure: Figure) -> Option<f64> {
        self.beside.iter().find(|(known, _)| *known == figure).map(|(_, value)| *value)
    }

    fn way(&self, way: Way) -> Option<OneWay> {
        match way {
            Way::Up => self.up,
            Way::Down => self.down,
        }
    }

    fn trip(&self, stat: Stat) -> Option<f64> {
        let rtt = self.rtt.as_ref()?;
        match stat {
            Stat::Quantile(q) => Some(rtt.quantile(q).map_or(f64::INFINITY, real)),
            _ if rtt.count == 0 => None,
            Stat::Min => Some(real(rtt.min)),
            Stat::Mean => Some(rtt.mean),
            Stat::Max => Some(real(rtt.max)),
        }
    }
}

/// The store's name for the growth of round trips under the load, which a grade is about.
pub const GROWN: &str = "rtt-grown";

/// Grades, the best first, and the growth of round trips that each is below, ms.
pub const GRADES: [(&str, i64); 6] =
    [("A+", 5), ("A", 30), ("B", 60), ("C", 200), ("D", 400), ("F", i64::MAX)];

fn is_below(grown_ns: i64, ms: i64) -> bool {
    grown_ns < ms.saturating_mul(1_000_000) || ms == i64::MAX
}

/// The letter for round trips that grew by so much, ns.
pub fn grade(grown_ns: i64) -> &'static str {
    GRADES.iter().find(|(_, ms)| is_below(grown_ns, *ms)).map_or("F", |(grade, _)| *grade)
}

/// The letter at a place among [`GRADES`].
pub fn letter(place: f64) -> &'static str {
    GRADES.get(usize::clamped(place)).map_or("F", |(grade, _)| *grade)
}

/// The stages of a run in order; none when it was none.
pub fn under_load(outcome: &Outcome) -> Vec<StageResult> {
    stages(outcome, |_| true)
}

/// The stages of each repetition of a run.
pub fn each_under_load(outcome: &Outcome) -> Vec<Vec<StageResult>> {
    let repetitions: BTreeSet<u32> = outcome.points.iter().map(|point| point.repeat).collect();
    repetitions.into_iter().map(|repeat| stages(outcome, |point| point.repeat == repeat)).collect()
}

/// The stages of the points that are `wanted`.
fn stages(outcome: &Outcome, wanted: impl Fn(&Point) -> bool) -> Vec<StageResult> {
    let is_measured = |point: &&Point| point.status != Status::Failed && wanted(point);
    let measured = || outcome.points.iter().filter(is_measured);
    let points = |stage: Stage, part: &str| {
        let own = label(stage, part);
        measured().filter(|point| point.label == own).collect::<Vec<&Point>>()
    };
    let mut all: Vec<StageResult> = Vec::new();
    for stage in Stage::ALL {
        let (trips, delay, load) = (points(stage, TRIPS), points(stage, "delay"), points(stage, "load"));
        if trips.is_empty() && delay.is_empty() {
            continue;
        }
        let idle = all.first().filter(|first| first.stage == Stage::Idle.name());
        let found = stage_result(stage, (&trips, &delay, &load), idle);
        all.push(found);
    }
    all
}

/// The repetitions of one part of a stage.
type Points<'a> = &'a [&'a Point];

/// The round trips of these repetitions together; `None` where none has any.
fn trips_of(points: Points<'_>) -> Option<RoundTrips> {
    let mut each = points.iter().filter_map(|point| point.local.pings.as_deref());
    let mut all = each.next()?.clone();
    for one in each {
        all.counts.add(&one.counts);
        let sums = [
            (&mut all.rtt_ns, &one.rtt_ns),
            (&mut all.path_ns, &one.path_ns),
            (&mut all.remote_ns, &one.remote_ns),
        ];
        for (sum, more) in sums {
            more.iter().for_each(|more| sum.get_or_insert_default().merge(more));
        }
    }
    Some(all)
}

/// Receivers' counts of a direction in these repetitions.
fn packets_of(points: Points<'_>, way: Way) -> Option<PacketReport> {
    let each = points.iter().filter_map(|point| way.packets(point)).map(Cow::into_owned);
    sum_of(each, PacketReport::join)
}

/// The mean of what `of` reads of these repetitions.
fn mean_of(points: Points<'_>, of: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
    Spread::of(&points.iter().filter_map(|point| of(point)).collect::<Vec<f64>>()).map(|spread| spread.mean)
}

/// Buffer delay of a load (RFC 6349 §4.3), percent.
fn buffer_delay(load: &Point) -> Option<f64> {
    // By the end that sent most: the other one knows round trips from its acknowledgements only.
    let sender = load.ends().max_by_key(|end| end.traffic.tx_bytes)?;
    buffer_delay_percent(sender.tcp.mean_rtt_us()?, figures::base_rtt_us(load)?)
}

fn stage_result(
    stage: Stage,
    (trips, delay, load): (Points<'_>, Points<'_>, Points<'_>),
    idle: Option<&StageResult>,
) -> StageResult {
    let pings = trips_of(trips);
    let rtt = pings.as_ref().and_then(of_path);
    let quantile = |q: f64| rtt.as_ref().and_then(|rtt| rtt.quantile(q));
    let idle_rtt = idle.and_then(|idle| idle.rtt_p50_ns);
    // Lost messages count as longer than all others.
    let or_never = |q: f64| rtt.as_ref().map(|rtt| rtt.quantile(q).unwrap_or(u64::MAX));
    let (p50, p90) = (or_never(0.5), or_never(0.9));
    let grown = |now: Option<u64>, idle: Option<u64>| now.zip(idle).map(|(now, idle)| more(now, idle));
    let sender = load.iter().flat_map(|point| point.ends()).max_by_key(|end| end.traffic.tx_bytes);
    let per_minute = |ns: f64| 60e9 / ns.max(1.0);
    let beside = rtt.as_ref().and_then(trimmed_mean).map(per_minute);
    let within = trips_of(load).and_then(|pings| pings.rtt_ns);
    // Nothing is lost there: messages under way at the end of the run are left out.
    let inside = within.and_then(|all| trimmed_mean(&Spectrum { missing: 0, ..all })).map(per_minute);
    let one_way = |way: Way, idle: Option<OneWay>| {
        let packets = packets_of(delay, way)?;
        let delay = packets.delay_ns.as_ref()?;
        Some(OneWay {
            goodput_bps: mean_of(load, |point| Some(way.direction(point)?.goodput_bps)),
            p50_ns: delay.p50,
            p90_ns: delay.p90,
            p99_ns: delay.p99,
            added_ns: idle.map(|idle| more(delay.p50, idle.p50_ns)),
            lost: packets.loss().unwrap_or(0.0),
            bound_ns: packets.clock_bound_ns,
        })
    };
    StageResult {
        stage: stage.name().to_owned(),
        repetitions: u32::clamped(trips.len().max(delay.len())),
        up: one_way(Way::Up, idle.and_then(|idle| idle.up)),
        down: one_way(Way::Down, idle.and_then(|idle| idle.down)),
        rtt_p50_ns: quantile(0.5),
        rtt_p99_ns: quantile(0.99),
        added_ns: grown(p50, idle_rtt),
        added_p90_ns: grown(p90, idle.and_then(|idle| idle.rtt_p90_ns.filter(|ns| *ns < u64::MAX))),
        rtt_p90_ns: p90,
        rtt: rtt.clone(),
        beside: beside_figures((trips, delay, load)),
        turnaround_p50_ns: pings.and_then(|pings| pings.remote_ns?.quantile(0.5)),
        never_back: rtt.as_ref().map(|rtt| real(rtt.missing) / real(rtt.total().max(1))),
        beside_rpm: beside,
        inside_rpm: inside,
        rpm: beside.zip(inside).map(|(beside, inside)| (beside + inside) / 2.0),
        buffer_delay_percent: mean_of(load, buffer_delay),
        congestion: sender.and_then(|end| end.effective.as_ref()?.congestion.clone()).unwrap_or_default(),
    }
}

/// Figures of the loading connections, and errors and caveats of all measurements of a stage.
fn beside_figures((trips, delay, load): (Points<'_>, Points<'_>, Points<'_>)) -> Vec<(Figure, f64)> {
    let of_load = [
        Figure::Sent(Way::Up),
        Figure::Sent(Way::Down),
        Figure::Cpu,
        Figure::CpuLocal,
        Figure::CpuRemote,
        Figure::LoadedRoundTrip,
        Figure::Retransmits,
        Figure::Fairness,
    ];
    let all = || [trips, delay, load].into_iter().flatten();
    let sum = |figure: Figure| (figure, all().filter_map(|point| figure.of(point)).sum::<f64>());
    let known =
        of_load.into_iter().filter_map(|figure| Some((figure, mean_of(load, |point| figure.of(point))?)));
    known.chain([Figure::Errors, Figure::Caveats].map(sum)).collect()
}

/// Round trips less the server's reported time for each, with all lost messages; `None` when
/// nothing was sent.
pub(crate) fn of_path(pings: &RoundTrips) -> Option<Spectrum> {
    let whole = pings.rtt_ns.clone().unwrap_or_default();
    let known = pings.path_ns.clone().filter(|path| path.count == whole.count).unwrap_or(whole);
    let missing = known.missing.max(pings.counts.sent.saturating_sub(known.count));
    let all = Spectrum { missing, ..known };
    (all.total() > 0).then_some(all)
}

/// By how much more `now` is; `i64::MAX` when it is beyond all times.
fn more(now: u64, idle: u64) -> i64 {
    i64::try_from(now).map_or(i64::MAX, |now| now - i64::try_from(idle).unwrap_or(i64::MAX))
}

/// The mean without the worst round trips, ns. Lost messages are the worst; the ones that are too
/// many to be left out count with their time-out, so that the mean is a lower bound.
fn trimmed_mean(rtt: &Spectrum) -> Option<f64> {
    if rtt.count == 0 {
        return None;
    }
    let keep = u64::clamped((real(rtt.total()) * (1.0 - TRIMMED)).ceil());
    let (mut left, mut sum) = (keep, 0.0);
    for &(value, n) in &rtt.counts {
        let n = n.min(left);
        sum += real(value) * real(n);
        left -= n;
    }
    Some((sum + real(left) * real(TIMEOUT.max(rtt.max))) / real(keep.max(1)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Direction, RoundTrips, Totals};
    use metrics::{DistSummary, Packets, TcpTotals};

    const MS: u64 = 1_000_000;

    fn spectrum(ms: &[u64]) -> Spectrum {
        let mut counts: Vec<(u64, u64)> = ms.iter().map(|ms| (ms * MS, 1)).collect();
        counts.sort_unstable();
        let (min, max) = (counts[0].0, counts[counts.len() - 1].0);
        Spectrum { count: ms.len() as u64, min, max, mean: 0.0, sd: 0.0, counts, missing: 0 }
    }

    pub(crate) fn points(stage: Stage, rtt_ms: u64, up_ms: u64, down_ms: u64) -> Vec<Point> {
        let packets = |ms: u64| {
            let delay = DistSummary { p50: ms * MS, p90: ms * MS, p99: ms * MS, ..DistSummary::default() };
            let counts = Packets { received: 99, lost: 1, ..Packets::default() };
            let mut packets = PacketReport::from(counts);
            packets.delay_ns = Some(delay);
            Some(Box::new(packets))
        };
        let local = |local, part: &str| Point { label: label(stage, part), local, ..Point::default() };
        let pings = RoundTrips { rtt_ns: Some(spectrum(&[rtt_ms; 20])), ..RoundTrips::default() };
        let trips = local(Totals { pings: Some(Box::new(pings)), ..Totals::default() }, "trips");
        let mut delay = local(Totals { packets: packets(down_ms), ..Totals::default() }, "delay");
        delay.remote.push(Totals { packets: packets(up_ms), ..Totals::default() });
        let mut all = vec![trips, delay];
        if stage != Stage::Idle {
            let rtt_sum_us = 2.0 * rtt_ms as f64 * 1e3;
            let tcp = TcpTotals { rtt_sum_us, rtt_samples: 1, min_rtt_us: 20_000, ..TcpTotals::default() };
            let within = RoundTrips { rtt_ns: Some(spectrum(&[2 * rtt_ms; 20])), ..RoundTrips::default() };
            let totals = Totals { tcp, pings: Some(Box::new(within)), ..Totals::default() };
            let mut load = local(totals, "load");
            load.down = Some(Direction { goodput_bps: 19e6, ..Direction::default() });
            all.push(load);
        }
        all
    }

    #[test]
    fn a_full_buffer_is_told_from_an_empty_one_by_hand() {
        let all =
            [points(Stage::Idle, 20, 9, 10), points(Stage::Down, 500, 9, 490), points(Stage::Up, 24, 12, 10)];
        let found = under_load(&Outcome { points: all.concat(), ..Outcome::default() });
        assert_eq!(found.iter().map(|f| f.stage.as_str()).collect::<Vec<_>>(), ["idle", "down", "up"]);
        assert_eq!((found[0].grade(), found[0].rpm, found[0].beside_rpm), (None, None, Some(3_000.0)));
        let down = &found[1];
        assert_eq!((down.added_ns, down.grade()), (Some(480 * MS as i64), Some("F")));
        let (up_way, down_way) = (down.up.unwrap(), down.down.unwrap());
        assert_eq!((up_way.added_ns, down_way.added_ns), (Some(0), Some(480 * MS as i64)));
        assert_eq!((down_way.goodput_bps, down_way.lost), (Some(19e6), 0.01));
        // 60,000 / 500 ms beside the load, 60,000 / 1000 ms inside: the mean of 120 and 60.
        assert_eq!((down.beside_rpm, down.inside_rpm, down.rpm), (Some(120.0), Some(60.0), Some(90.0)));
        // RFC 6349: (1000 - 20) / 20, all three of them the kernel's.
        assert_eq!(down.buffer_delay_percent, Some(4900.0));
        assert_eq!((found[2].added_ns, found[2].grade()), (Some(4 * MS as i64), Some("A+")));
    }

    #[test]
    fn a_stage_has_the_figures_of_the_answer() {
        let all = [points(Stage::Idle, 20, 9, 10), points(Stage::Down, 100, 9, 90)];
        let mut outcome = Outcome { points: all.concat(), ..Outcome::default() };
        outcome.begin.verb = "load".to_owned();
        let parts = outcome.parts();
        let of = |figure: Figure| parts.iter().map(|part| part.figure(figure)).collect::<Vec<_>>();
        assert_eq!(of(Figure::Added), [None, Some(80e6)]);
        assert_eq!(of(Figure::Grade), [None, Some(3.0)]);
        assert_eq!((letter(3.0), Figure::Grade.unit().show(0.0).as_str()), ("C", "A+"));
        assert_eq!(of(Figure::IdleRoundTrip(Stat::MEDIAN)), [Some(20e6), None]);
        assert_eq!(of(Figure::RoundTrip(Stat::MEDIAN)), [None, Some(100e6)], "not of the exchanges inside");
        assert_eq!(of(Figure::Goodput(Way::Down)), [None, Some(19e6)]);
        assert_eq!(of(Figure::Goodput(Way::Up)), [None, None], "it is not loaded that way");
        assert_eq!(of(Figure::Responsiveness), [None, Some(450.0)]);
        assert_eq!(parts[1].label()["stage"], "down");
    }

    #[test]
    fn a_grade_is_that_of_the_slow_and_the_lost_tenth_too() {
        // A hundred round trips of 20 ms, of which so many are 500 ms slower, or never come back.
        let grade = |slow: usize, lost: usize| {
            let mut all = [points(Stage::Idle, 20, 9, 10), points(Stage::Down, 20, 9, 10)];
            let trips: Vec<u64> = (0..100 - lost).map(|i| if i < slow { 520 } else { 20 }).collect();
            let counts = crate::PingCounts { sent: 100, lost: lost as i64, ..Default::default() };
            let pings = RoundTrips { rtt_ns: Some(spectrum(&trips)), counts, ..RoundTrips::default() };
            all[1][0].local.pings = Some(Box::new(pings));
            let found = under_load(&Outcome { points: all.concat(), ..Outcome::default() });
            (found[1].grade(), found[1].added_ns)
        };
        assert_eq!(grade(0, 0), (Some("A+"), Some(0)));
        assert_eq!(grade(40, 0), (Some("F"), Some(0)), "the median does not see four in ten");
        assert_eq!(grade(11, 0).0, Some("F"));
        assert_eq!(grade(10, 0).0, Some("A+"), "nine in ten are fast");
        assert_eq!(grade(0, 11).0, Some("F"));
        assert_eq!(grade(5, 6).0, Some("F"), "slow and lost together");
        assert_eq!(grade(0, 10).0, Some("A+"));
        assert_eq!(grade(0, 60).0, Some("F"));
    }

    #[test]
    fn all_repetitions_of_a_stage_are_in_its_figures() {
        let repetition = |repeat, rtt_ms, goodput_bps| {
            let mut all =
                [points(Stage::Idle, 20, 9, 10), points(Stage::Down, rtt_ms, 9, rtt_ms - 10)].concat();
            all.iter_mut().for_each(|point| point.repeat = repeat);
            all[4].down = Some(Direction { goodput_bps, ..Direction::default() });
            all
        };
        let points = [repetition(1, 100, 19e6), repetition(2, 500, 21e6)].concat();
        let found = under_load(&Outcome { points, ..Outcome::default() });
        assert_eq!(found.iter().map(|f| f.repetitions).collect::<Vec<_>>(), [2, 2]);
        let down = &found[1];
        // Of forty round trips twenty took 100 ms, and twenty 500 ms.
        assert_eq!((down.rtt_p50_ns, down.rtt_p90_ns), (Some(100 * MS), Some(500 * MS)));
        assert_eq!((down.added_ns, down.grade()), (Some(80 * MS as i64), Some("F")));
        // Two of 200 datagrams were lost.
        let way = down.down.unwrap();
        assert_eq!((way.goodput_bps, way.p50_ns, way.lost), (Some(20e6), 490 * MS, 0.01));
        // (200 - 20) / 20 and (1000 - 20) / 20.
        assert_eq!(down.buffer_delay_percent, Some(2900.0));
    }

    #[test]
    fn datagrams_to_all_servers_count() {
        let mut all = points(Stage::Idle, 20, 9, 10);
        let mut second = all[1].remote[0].clone();
        second.packets.as_mut().unwrap().counts.lost = 51;
        all[1].remote.push(second);
        let found = under_load(&Outcome { points: all, ..Outcome::default() });
        // One of 100 to the first server, 51 of 150 to the second.
        assert_eq!(found[0].up.unwrap().lost, 52.0 / 250.0);
    }

    #[test]
    fn what_the_server_spends_is_no_delay_of_the_path() {
        let mut all = [points(Stage::Idle, 20, 9, 10), points(Stage::Both, 328, 9, 10)];
        for (point, remote_ms) in all.iter_mut().map(|all| &mut all[0]).zip([1, 300]) {
            let pings = point.local.pings.as_mut().unwrap();
            let whole = pings.rtt_ns.as_ref().unwrap().counts[0].0 / MS;
            (pings.path_ns, pings.remote_ns) =
                (Some(spectrum(&[whole - remote_ms; 20])), Some(spectrum(&[remote_ms; 20])));
        }
        let of = |all: &[Vec<Point>; 2]| {
            under_load(&Outcome { points: all.concat(), ..Outcome::default() }).remove(1)
        };
        let found = of(&all);
        // 28 of 328 ms, where 19 of 20 were when idle.
        assert_eq!((found.rtt_p50_ns, found.added_ns), (Some(28 * MS), Some(9 * MS as i64)));
        assert_eq!(found.grade(), Some("A"));
        assert_eq!((found.turnaround_p50_ns, found.beside_rpm), (Some(300 * MS), Some(60_000.0 / 28.0)));
        // A server that tells it of some messages only tells nothing of the distribution.
        all[1][0].local.pings.as_mut().unwrap().path_ns = Some(spectrum(&[28; 19]));
        assert_eq!(of(&all).rtt_p50_ns, Some(328 * MS));
    }

    #[test]
    fn what_never_came_back_is_in_the_responsiveness() {
        let found = |came: usize, lost: u64| {
            let mut all = points(Stage::Down, 20, 9, 10);
            let counts =
                crate::PingCounts { sent: came as u64 + lost, lost: lost as i64, ..Default::default() };
            let rtt_ns = Some(spectrum(&vec![20; came]));
            all[0].local.pings = Some(Box::new(RoundTrips { rtt_ns, counts, ..RoundTrips::default() }));
            under_load(&Outcome { points: all, ..Outcome::default() }).remove(0)
        };
        assert_eq!((found(95, 0).beside_rpm, found(95, 0).never_back), (Some(3_000.0), Some(0.0)));
        // The worst twentieth is left out; each further lost message counts as its time-out of 5 s.
        assert_eq!((found(95, 5).beside_rpm, found(95, 5).never_back), (Some(3_000.0), Some(0.05)));
        assert_eq!(found(90, 10).beside_rpm, Some(60e3 / ((90.0 * 20.0 + 5.0 * 5_000.0) / 95.0)));
    }

    #[test]
    fn the_worst_twentieth_is_left_out_of_the_mean() {
        let mut rtt = vec![10; 19];
        rtt.push(1_000_000);
        assert_eq!(trimmed_mean(&spectrum(&rtt)), Some(10e6));
        assert_eq!(trimmed_mean(&Spectrum::default()), None);
        assert_eq!(trimmed_mean(&spectrum(&[7])), Some(7e6), "never all of them");
    }

    #[test]
    fn what_is_run_is_what_can_be_run() {
        let filler = Phase { duration_ns: Some(10 * metrics::SECOND), ..Phase::default() };
        let ecn = Some((Ecn::Ect1, Ecn::Off));
        let load = Load { filler, ramp_ns: 2 * metrics::SECOND, rate: 50.0, servers: 1, seed: 7, ecn };
        for stage in Stage::ALL {
            for (label, phase) in load.probes(stage).into_iter().chain(load.filler(stage)) {
                assert_eq!((phase.check(), label["stage"].as_str()), (Ok(()), stage.name()));
            }
        }
        assert!(load.filler(Stage::Idle).is_none());
    }
}
