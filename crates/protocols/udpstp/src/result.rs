//! The result of a test: its sub-intervals over all connections, their sum, and the best one.

use crate::NAME;
use crate::report::{News, Report, SubIntervalReport};
use common::message::post_result;
use metrics::{Wall, percent_of, real};
use model::{Curve, Event, Extra, Figure, Outcome, Point, Reading, Shown, Unit, Way};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use transport::Context;

/// Octets of a datagram beside its IP packet: by the layer that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// None.
    Ip,
    /// The head of Ethernet.
    Ethernet,
    /// Its checksum, too.
    EthernetWithFcs,
    /// A VLAN tag, too.
    EthernetWithVlan,
}

impl Layer {
    /// All layers.
    pub const ALL: [Layer; 4] = [Layer::Ip, Layer::Ethernet, Layer::EthernetWithFcs, Layer::EthernetWithVlan];

    fn octets(self) -> u32 {
        match self {
            Layer::Ip => 0,
            Layer::Ethernet => 14,
            Layer::EthernetWithFcs => 18,
            Layer::EthernetWithVlan => 22,
        }
    }
}

/// Values of a delay above its minimum, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variation {
    /// The least and the most; `None` without a sample.
    pub range: Option<(u32, u32)>,
    /// Sum of the samples.
    pub sum: u64,
    /// Their number.
    pub count: u64,
}

impl Variation {
    fn add(&mut self, range: Option<(u32, u32)>, sum: u64, count: u32) {
        if let Some((low, high)) = range {
            let (ours_low, ours_high) = self.range.unwrap_or((low, high));
            self.range = Some((ours_low.min(low), ours_high.max(high)));
        }
        self.sum += sum;
        self.count += u64::from(count);
    }

    fn merge(&mut self, other: &Variation) {
        self.add(other.range, other.sum, 0);
        self.count += other.count;
    }

    /// Least, mean (rounded), most, ms.
    pub fn triple(&self) -> (u32, u32, u32) {
        let (low, high) = self.range.unwrap_or((0, 0));
        let mean = (2 * self.sum + self.count).checked_div(2 * self.count).unwrap_or(0);
        (low, u32::try_from(mean).unwrap_or(u32::MAX), high)
    }
}

/// Counts of a sub-interval, or of several, over all connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Its number, from 1; of several the last.
    pub number: u32,
    /// Its end since the first report, ms.
    pub end_ms: u32,
    /// When it was finished.
    pub at: Wall,
    /// Connections that it is of.
    pub active: u32,
    /// Received datagrams.
    pub datagrams: u64,
    /// Missing ones.
    pub lost: u64,
    /// Ones that a later one had overtaken.
    pub reordered: u64,
    /// Repeated ones.
    pub duplicated: u64,
    /// Ones with a congestion mark.
    pub marked: u64,
    /// One-way delay above its minimum.
    pub delay: Variation,
    /// Round trip above its minimum.
    pub round_trip: Variation,
    /// Smallest one-way delay, the clocks' difference included, ms.
    pub delay_min_ms: Option<i64>,
    /// Shortest round trip, ms.
    pub round_trip_min_ms: Option<u32>,
    /// Rate of each layer, Mbit/s; of several the mean.
    pub mbps: [f64; 4],
}

impl Counted {
    /// A sub-interval of one connection.
    pub fn of(sub: &SubIntervalReport, at: Wall) -> Self {
        let mut one = Counted::default();
        one.add(sub, at);
        one
    }

    /// Adds that of another connection.
    pub fn add(&mut self, sub: &SubIntervalReport, at: Wall) {
        self.number = sub.number;
        self.end_ms = self.end_ms.max(sub.end_ms);
        self.at = self.at.max(at);
        self.active += 1;
        self.datagrams += u64::from(sub.datagrams);
        self.lost += u64::from(sub.lost);
        self.reordered += u64::from(sub.reordered);
        self.duplicated += u64::from(sub.duplicated);
        self.marked += u64::from(sub.marked);
        self.delay.add(sub.delay_ms, sub.delay_sum.0.into(), sub.delay_sum.1);
        self.round_trip.add(sub.round_trip_ms, sub.round_trip_sum.0, sub.round_trip_sum.1);
        self.minima(Some(sub.delay_min_ms), sub.round_trip_min_ms);
        for (sum, layer) in self.mbps.iter_mut().zip(Layer::ALL) {
            *sum += sub.mbps(layer.octets());
        }
    }

    fn minima(&mut self, delay_ms: Option<i64>, round_trip_ms: Option<u32>) {
        self.delay_min_ms = self.delay_min_ms.into_iter().chain(delay_ms).min();
        self.round_trip_min_ms = self.round_trip_min_ms.into_iter().chain(round_trip_ms).min();
    }

    /// Several together: counts are added, rates are means.
    pub fn sum(all: &[Counted]) -> Self {
        let mut sum = Counted::default();
        for one in all {
            sum.number = one.number;
            sum.end_ms = one.end_ms;
            sum.at = one.at;
            sum.active = one.active;
            sum.datagrams += one.datagrams;
            sum.lost += one.lost;
            sum.reordered += one.reordered;
            sum.duplicated += one.duplicated;
            sum.marked += one.marked;
            sum.delay.merge(&one.delay);
            sum.round_trip.merge(&one.round_trip);
            sum.minima(one.delay_min_ms, one.round_trip_min_ms);
            sum.mbps.iter_mut().zip(one.mbps).for_each(|(sum, mbps)| *sum += mbps);
        }
        let count = real(all.len().max(1));
        sum.mbps.iter_mut().for_each(|mbps| *mbps /= count);
        sum
    }

    /// The one with the highest rate of IP packets, the first of several.
    pub fn best(all: &[Counted]) -> Option<&Counted> {
        all.iter().reduce(|best, one| if one.mbps[0] > best.mbps[0] { one } else { best })
    }

    /// Share of the sent datagrams that arrived, per cent.
    pub fn delivered(&self) -> f64 {
        let all = self.datagrams + self.lost;
        if all == 0 { 0.0 } else { real(self.datagrams) * 100.0 / real(all) }
    }

    /// Share of `part` of the sent datagrams.
    pub fn share(&self, part: u64) -> f64 {
        let all = self.datagrams + self.lost;
        if all == 0 { 0.0 } else { real(part) / real(all) }
    }
}

/// A test, folded from its reports.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    /// Connections of the test.
    connections: usize,
    /// Sub-intervals that not all connections have finished, in order.
    open: Vec<Counted>,
    /// Connections that are over.
    over: usize,
    /// Finished sub-intervals.
    pub finished: Vec<Counted>,
}

impl Fold {
    /// A test of this number of connections.
    pub fn new(connections: usize) -> Self {
        Fold { connections, ..Fold::default() }
    }

    /// Takes a report in; the sub-intervals that are finished with it.
    pub fn on_report(&mut self, report: &Report) -> Vec<Counted> {
        match &report.news {
            News::SubInterval(sub) => match self.open.iter_mut().find(|open| open.number == sub.number) {
                Some(open) => open.add(sub, report.at),
                None => self.open.push(Counted::of(sub, report.at)),
            },
            News::End(_) => self.over += 1,
            _ => return Vec::new(),
        }
        let active = self.connections.saturating_sub(self.over);
        let done = self.open.iter().take_while(|open| open.active as usize >= active.max(1)).count();
        let done: Vec<Counted> = self.open.drain(..done).collect();
        self.finished.extend(done.iter().cloned());
        done
    }

    /// Connections that are not over.
    pub fn active(&self) -> usize {
        self.connections.saturating_sub(self.over)
    }
}

/// The result of a client's test: the maximum IP-layer capacity (RFC 9097).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// The server's address.
    pub peer: String,
    /// The client sent.
    pub upstream: bool,
    /// Connections.
    pub connections: u32,
    /// Rate of IP packets in the best sub-interval, bits/s.
    pub capacity_bps: f64,
    /// The number of that sub-interval, from 1.
    pub best: u32,
    /// Mean of the sub-intervals, bits/s.
    pub mean_bps: f64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams missing.
    pub lost: u64,
    /// Datagrams that a later one had overtaken.
    pub reordered: u64,
    /// Repeated datagrams.
    pub duplicated: u64,
    /// Shortest round trip, ms; `None` without a sample.
    pub round_trip_min_ms: Option<u32>,
    /// The sub-intervals: their ends, ms since the first report, and their rates, bits/s.
    pub sub_intervals: Vec<(u32, f64)>,
}

impl TestResult {
    /// The result of finished sub-intervals; `None` without one.
    fn new(peer: String, upstream: bool, connections: usize, all: &[Counted]) -> Option<Self> {
        let best = Counted::best(all)?;
        let sum = Counted::sum(all);
        let bps = |one: &Counted| one.mbps[0] * 1e6;
        Some(TestResult {
            peer,
            upstream,
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            capacity_bps: bps(best),
            best: best.number,
            mean_bps: bps(&sum),
            received: sum.datagrams,
            lost: sum.lost,
            reordered: sum.reordered,
            duplicated: sum.duplicated,
            round_trip_min_ms: sum.round_trip_min_ms,
            sub_intervals: all.iter().map(|one| (one.end_ms, bps(one))).collect(),
        })
    }

    /// The results of a phase.
    pub fn of(point: &Point) -> impl Iterator<Item = Self> {
        point.extras.iter().filter_map(|extra| extra.read(NAME))
    }

    /// The results of a run.
    pub fn all(outcome: &Outcome) -> impl Iterator<Item = Self> {
        outcome.points.iter().flat_map(Self::of)
    }

    fn shown(&self) -> Shown {
        let way = if self.upstream { Way::Up } else { Way::Down };
        let count = |key: &str, label: &str, n: u64| Reading::new(key, label, Unit::Count, real(n));
        let rate = |key: &str, label: &str, bps: f64| Reading::new(key, label, Unit::BitsPerSecond, bps);
        let sent = self.received.saturating_add(self.lost);
        let ns = |ms: u32| f64::from(ms) * 1e6;
        let trip = self.round_trip_min_ms.map(|ms| Reading::new("rtt_min", "round trip", Unit::Ns, ns(ms)));
        let counts = [
            rate("capacity", "IP capacity", self.capacity_bps),
            count("best", "in sub-interval", self.best.into()),
            rate("capacity_mean", "mean", self.mean_bps),
            count("lost", "lost", self.lost),
            count("reordered", "out of order", self.reordered),
        ];
        // A rate holds until the next sub-interval ends.
        let starts = std::iter::once(0).chain(self.sub_intervals.iter().map(|(end_ms, _)| *end_ms));
        let rates = self.sub_intervals.iter().map(|(_, bps)| Some(*bps)).chain([None]);
        Shown {
            title: format!("IP capacity {} (receiver's count)", if self.upstream { "up" } else { "down" }),
            peer: self.peer.clone(),
            settings: vec![count("connections", "connections", self.connections.into())],
            counts: counts.into_iter().chain(trip).collect(),
            figures: vec![Reading::of(Figure::Loss(way), "loss", percent_of(self.lost, sent.max(1)))],
            curves: vec![Curve {
                title: "Rate of IP packets by sub-interval".to_owned(),
                note: "The best of them is the capacity.".to_owned(),
                x: ("time".to_owned(), Unit::Ns),
                y: ("rate".to_owned(), Unit::BitsPerSecond),
                steps: true,
                points: starts.map(ns).zip(rates).collect(),
            }],
            bad: false,
        }
    }
}

/// Reports of the connections of a client's test, and their result.
#[derive(Debug)]
pub(crate) struct Results {
    upstream: bool,
    fold: Mutex<Fold>,
}

impl Results {
    /// Of a test in this direction.
    pub(crate) fn new(upstream: bool, connections: usize) -> Self {
        Results { upstream, fold: Mutex::new(Fold::new(connections)) }
    }

    /// Passes a report to the session, and behind the end of the last connection the result.
    pub(crate) fn post(&self, cx: &mut Context<'_>, report: Report) {
        let mut fold = self.fold.lock().unwrap_or_else(PoisonError::into_inner);
        fold.on_report(&report);
        let is_last = matches!(report.news, News::End(_)) && fold.active() == 0;
        let peer = report.remote.to_string();
        let result = is_last.then(|| TestResult::new(peer, self.upstream, fold.connections, &fold.finished));
        drop(fold);
        report.post(cx, true);
        if let Some(result) = result.flatten() {
            post_result(cx, move || {
                let shown = Some(Box::new(result.shown()));
                Event::Extra(Extra { shown, ..Extra::new(NAME, &result) })
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn report(connection: u8, number: u32, bytes: u64) -> Report {
        let sub = SubIntervalReport {
            number,
            datagrams: 10,
            bytes,
            length_us: 1_000_000,
            headers: 28,
            delay_ms: Some((0, 4)),
            delay_sum: (8, 4),
            ..SubIntervalReport::default()
        };
        let at = SocketAddr::from(([0; 4], 0));
        Report { connection, test: 1, at: Wall(5), local: at, remote: at, news: News::SubInterval(sub) }
    }

    #[test]
    fn connections_are_added_and_sub_intervals_averaged() {
        let mut fold = Fold::new(2);
        assert_eq!(fold.on_report(&report(0, 1, 12_220)), []);
        let one = fold.on_report(&report(1, 1, 12_220)).remove(0);
        // Twenty packets of 1,250 bytes in a second.
        assert!((one.mbps[0] - 0.2).abs() < 1e-9 && (one.mbps[1] - 0.202_24).abs() < 1e-9);
        assert_eq!((one.active, one.datagrams, one.delay.triple()), (2, 20, (0, 2, 4)));
        fold.on_report(&report(0, 2, 6_000));
        fold.on_report(&report(1, 2, 6_000));
        let (sum, best) = (Counted::sum(&fold.finished), Counted::best(&fold.finished).unwrap());
        assert_eq!((sum.datagrams, best.number), (40, 1));
        assert!(sum.mbps[0] < best.mbps[0]);
        let result = TestResult::new("192.0.2.1:9".to_owned(), false, 2, &fold.finished).unwrap();
        assert_eq!((result.best, result.received, result.sub_intervals.len()), (1, 40, 2));
        let shown = result.shown();
        assert!((shown.counts[0].value - 0.2e6).abs() < 1e-3);
        assert_eq!(shown.curves[0].points.len(), 3);
        let extra = Extra::new(NAME, &result);
        assert_eq!(extra.read(NAME), Some(result));
        assert_eq!(extra.read::<Report>(NAME), None);
        // What one connection alone has finished at its end is given out.
        fold.on_report(&report(0, 3, 6_000));
        let over = Report { news: News::End(crate::EndReport::default()), ..report(1, 0, 0) };
        assert_eq!(fold.on_report(&over).len(), 1);
    }
}
