//! The result of a test: its sub-intervals over all connections, their sum, and the best one.

use super::report::{News, Report, SubIntervalReport};
use crate::message::post_event;
use metrics::{Wall, real};
use model::{Capacity, DelayVariation, Event, SubInterval};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Rate of UDP payload, Mbit/s; of several the mean.
    pub payload_mbps: f64,
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
        self.payload_mbps += sub.payload_mbps();
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
            sum.payload_mbps += one.payload_mbps;
        }
        let count = real(all.len().max(1));
        sum.mbps.iter_mut().for_each(|mbps| *mbps /= count);
        sum.payload_mbps /= count;
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

    /// As results have it, with `overhead` octets of lower layers for each packet.
    fn sub_interval(&self, overhead: u16) -> SubInterval {
        // The rate of packets is that of one octet for each.
        let ethernet = f64::from(Layer::Ethernet.octets());
        let octet_mbps = (self.mbps[1] - self.mbps[0]) / ethernet;
        let link_mbps = self.mbps[0] + octet_mbps * f64::from(overhead);
        let variation = |of: &Variation| {
            let (min_ms, mean_ms, max_ms) = of.triple();
            of.range.map(|_| DelayVariation { min_ms, mean_ms, max_ms })
        };
        SubInterval {
            end_ms: self.end_ms,
            ip_bps: self.mbps[0] * 1e6,
            payload_bps: self.payload_mbps * 1e6,
            link_bps: link_mbps * 1e6,
            received: self.datagrams,
            lost: self.lost,
            reordered: self.reordered,
            duplicated: self.duplicated,
            marked: self.marked,
            delay: variation(&self.delay),
            round_trip: variation(&self.round_trip),
        }
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

/// Settings of a test that its result repeats.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// The client sends.
    pub upstream: bool,
    /// Connections.
    pub connections: usize,
    /// Octets of the lower layers of each packet.
    pub overhead: u16,
    /// Sub-intervals of the planned length.
    pub planned: usize,
    /// Sub-intervals of the first mode.
    pub first_mode: u16,
    /// Highest rate of IP packets that one connection may offer, bits/s.
    pub most_bps: u64,
}

impl Asked {
    /// The result of finished sub-intervals; `None` without one. A connection that ends late is alone
    /// in the sub-intervals behind the planned ones.
    fn result(&self, all: &[Counted]) -> Option<Capacity> {
        let all = all.get(..self.planned).unwrap_or(all);
        let sum = Counted::sum(all);
        let capacity = Capacity {
            upstream: self.upstream,
            connections: u32::try_from(self.connections).unwrap_or(u32::MAX),
            overhead: self.overhead,
            most_bps: real(self.most_bps) * real(self.connections),
            round_trip_min_ms: sum.round_trip_min_ms,
            sub_intervals: all.iter().map(|one| one.sub_interval(self.overhead)).collect(),
            ..Capacity::default()
        };
        capacity.concluded(self.first_mode)
    }
}

/// Passes a report to the session.
pub type Pass = fn(&mut Context<'_>, Report);

/// Destination of the reports of a test's connections.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    pass: Option<Pass>,
    /// Of a client: the test, folded.
    test: Option<Arc<(Asked, Mutex<Fold>)>>,
}

impl Reports {
    /// Reports that are passed on.
    #[must_use]
    pub fn passed(self, pass: Pass) -> Self {
        Reports { pass: Some(pass), ..self }
    }

    /// Reports of a client's test, whose result is posted behind the end of its last connection.
    #[must_use]
    pub fn folded(self, asked: Asked) -> Self {
        let fold = Mutex::new(Fold::new(asked.connections));
        Reports { test: Some(Arc::new((asked, fold))), ..self }
    }

    /// Takes in a report.
    pub fn post(&self, cx: &mut Context<'_>, report: Report) {
        let result = self.test.as_deref().and_then(|(asked, fold)| {
            let mut fold = fold.lock().unwrap_or_else(PoisonError::into_inner);
            fold.on_report(&report);
            let is_last = matches!(report.news, News::End(_)) && fold.active() == 0;
            if is_last { asked.result(&fold.finished) } else { None }
        });
        if let Some(pass) = self.pass {
            pass(cx, report);
        }
        if let Some(result) = result {
            post_event(cx, Event::Capacity(Box::new(result)));
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
        let asked =
            Asked { connections: 2, planned: 2, overhead: 18, most_bps: 1_000_000, ..Asked::default() };
        let result = asked.result(&fold.finished).unwrap();
        assert_eq!((result.best, result.datagrams(), result.sub_intervals.len()), (1, (40, 0), 2));
        // Twenty datagrams of 1,222 octets, with 28 of IP and UDP, and 18 of Ethernet.
        let rates = [result.payload_bps, result.ip_bps, result.link_bps].map(|bps| bps.round() as u64);
        assert_eq!((rates, result.most_bps as u64), ([195_520, 200_000, 202_880], 2_000_000));
        let shorter = Asked { planned: 1, ..asked };
        assert_eq!(shorter.result(&fold.finished).unwrap().sub_intervals.len(), 1);
        // What one connection alone has finished at its end is given out.
        fold.on_report(&report(0, 3, 6_000));
        let over = Report { news: News::End(crate::capacity::EndReport::default()), ..report(1, 0, 0) };
        assert_eq!(fold.on_report(&over).len(), 1);
    }
}
