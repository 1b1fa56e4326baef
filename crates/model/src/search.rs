//! The highest rate that gets through: one phase after the other, each at a rate that those before suggest.
//!
//! The first goes as fast as it goes. When that loses too much, the rate at which it arrived is tried, and from there on the
//! (geometric) middle between the highest rate that got through and the lowest that did not, until the two are close. A rate
//! has failed when it has failed twice: one moment in which a host was busy with something else is not the path's limit.

use crate::{Outcome, Phase, Point};

/// The two ends of what is left may differ by this part of the lower.
const CLOSE: f64 = 0.02;
/// Attempts at one rate before it has failed.
const ATTEMPTS: u32 = 2;
/// More phases are a search that finds no end.
const MOST: u32 = 40;
/// Below this part of what could be sent nothing is tried: the path loses for another reason.
const HOPELESS: u64 = 10_000;
/// A sender that falls further short of the rate asked for has not offered it.
const SHORT: f64 = 0.98;

/// A search: what it has tried, and what is left to try.
#[derive(Clone, Debug)]
pub struct Search {
    base: Phase,
    /// Share of the datagrams that may be lost.
    limit: f64,
    /// The rate being tried, bits/s of a flow and direction; `None` is as fast as it goes.
    trying: Option<u64>,
    attempt: u32,
    tried: u32,
    /// The highest rate asked for that got through, and the lowest that did not, bits/s.
    carried: u64,
    failed: Option<u64>,
    /// What was sent as fast as it went.
    first: u64,
    over: bool,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Highest {
    /// Datagrams per second that arrived at the highest rate that got through, in the slower direction where there are two.
    pub pps: f64,
    /// The same, bits/s of UDP payload.
    pub bps: f64,
    /// Share of the datagrams that were lost there.
    pub loss: f64,
}

/// A direction of a point: what was sent, and what arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    sent: u64,
    received: u64,
}

impl Way {
    fn loss(self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.sent.saturating_sub(self.received) as f64 / self.sent as f64 }
    }
}

/// The directions in which datagrams were sent.
fn ways(point: &Point) -> impl Iterator<Item = Way> {
    let near = point.near.packets.as_deref().map(|p| p.counts).unwrap_or_default();
    let far = point
        .far
        .iter()
        .filter_map(|end| end.packets.as_deref())
        .fold((0, 0), |(sent, received), p| (sent + p.counts.sent, received + p.counts.received));
    [
        (point.phase.pattern.sends_up(), Way { sent: near.sent, received: far.1 }),
        (point.phase.pattern.sends_down(), Way { sent: far.0, received: near.received }),
    ]
    .into_iter()
    .filter_map(|(used, way)| used.then_some(way))
}

/// The share lost in the worse direction, and the datagrams that arrived in the slower.
fn worst(point: &Point) -> (f64, u64) {
    let loss = ways(point).map(Way::loss).fold(0.0, f64::max);
    (loss, ways(point).map(|way| way.received).min().unwrap_or(0))
}

/// Bits/s of each flow that `n` datagrams in the phase's time are.
fn rate_of(n: u64, phase: &Phase) -> u64 {
    let bits = n as f64 * 8.0 * f64::from(phase.probe.map_or(0, |probe| probe.size));
    let seconds = phase.duration_ns.unwrap_or(0).max(1) as f64 / 1e9;
    (bits / seconds / f64::from(phase.connections.max(1))) as u64
}

impl Search {
    /// A search for the highest rate of `base` at which no more than `limit` (a share, 0..1) is lost.
    #[must_use]
    pub fn new(base: Phase, limit: f64) -> Self {
        Search {
            base,
            limit,
            trying: None,
            attempt: 0,
            tried: 0,
            carried: 0,
            failed: None,
            first: 0,
            over: false,
        }
    }

    /// The next phase; `None` when there is nothing left to try. `so_far` ends with what the last one found.
    pub fn next(&mut self, so_far: &Outcome) -> Option<Phase> {
        if self.tried > 0 {
            // Nothing was found: there is nothing to go by.
            let point = so_far.points.get(self.tried as usize - 1)?;
            self.learn(point);
        }
        if self.over || self.tried >= MOST {
            return None;
        }
        self.tried += 1;
        Some(Phase { rate: self.trying, ..self.base.clone() })
    }

    fn learn(&mut self, point: &Point) {
        let (loss, received) = worst(point);
        let sent = ways(point).map(|way| rate_of(way.sent, &point.phase)).min().unwrap_or(0);
        let passed = loss <= self.limit && received > 0;
        self.attempt += 1;
        match (passed, self.trying) {
            // More cannot be offered.
            (true, None) => self.over = true,
            (true, Some(asked)) if (sent as f64) < asked as f64 * SHORT => {
                self.carried = self.carried.max(sent);
                self.failed = Some(asked);
            }
            (true, Some(asked)) => self.carried = self.carried.max(asked),
            // Going as fast as it goes is no rate that could be tried again.
            (false, None) => (self.failed, self.first) = (Some(sent.max(1)), sent),
            (false, Some(_)) if self.attempt < ATTEMPTS => return,
            (false, Some(asked)) => self.failed = Some(asked),
        }
        self.attempt = 0;
        let high = self.failed.unwrap_or(u64::MAX);
        let arrived = rate_of(received, &point.phase);
        // What arrived of all that could be sent is a good guess; it counts as tried when it is too high.
        let guessed = self.trying.is_none() && (1..high).contains(&arrived);
        let next = match self.carried {
            _ if guessed => arrived,
            0 => high / 2,
            // The geometric mean: the two may be thousands of times apart.
            carried => (carried as f64 * high as f64).sqrt() as u64,
        };
        let close = high as f64 <= self.carried as f64 * (1.0 + CLOSE);
        self.over |= close || next < self.first / HOPELESS || next == 0;
        self.trying = Some(next);
    }

    /// What it found in the points of `outcome`; `None` when more was lost at each rate.
    #[must_use]
    pub fn found(&self, outcome: &Outcome) -> Option<Highest> {
        let found = outcome.points.iter().map(|point| {
            let (loss, received) = worst(point);
            let seconds = point.phase.duration_ns.unwrap_or(0).max(1) as f64 / 1e9;
            let (pps, size) = (received as f64 / seconds, point.phase.probe.map_or(0, |probe| probe.size));
            Highest { pps, bps: pps * 8.0 * f64::from(size), loss }
        });
        let good = found.filter(|found| found.loss <= self.limit && found.pps > 0.0);
        good.max_by(|a, b| a.pps.total_cmp(&b.pps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketReport, Pattern, Probe, Totals};
    use metrics::{Packets, SECOND};

    fn base() -> Phase {
        Phase {
            kind: crate::Kind::Delay,
            pattern: Pattern::Push,
            connections: 2,
            duration_ns: Some(SECOND / 2),
            probe: Some(Probe { size: 1_000, ..Probe::default() }),
            ..Phase::default()
        }
    }

    /// A path that takes `most` datagrams per second, from a sender that manages `able`, and drops the rest; the `bad`-th phase
    /// loses some more. What was found, and the number of phases.
    fn search(most: f64, able: f64, bad: Option<usize>) -> (Option<Highest>, usize) {
        let mut search = Search::new(base(), 1e-4);
        let mut outcome = Outcome::default();
        while let Some(phase) = search.next(&outcome) {
            // Two flows of 8000-bit datagrams for half a second.
            let asked = phase.rate.map_or(able, |rate| (rate as f64 / 8_000.0 * 2.0).min(able));
            let arrives = asked.min(most);
            let spoilt = if bad == Some(outcome.points.len()) { arrives * 0.01 } else { 0.0 };
            let end = |sent: f64, received: f64| {
                let counts = Packets { sent: sent as u64, received: received as u64, ..Packets::default() };
                let packets = Some(Box::new(PacketReport { counts, ..PacketReport::default() }));
                Totals { packets, ..Totals::default() }
            };
            outcome.points.push(Point {
                phase,
                near: end(asked / 2.0, 0.0),
                far: vec![end(0.0, (arrives - spoilt) / 2.0)],
                ..Point::default()
            });
        }
        (search.found(&outcome), outcome.points.len())
    }

    #[test]
    fn the_highest_rate_is_found_to_a_few_percent() {
        for most in [1_000.0, 77_777.0, 4_000_000.0, 5_900_000.0] {
            let (found, phases) = search(most, 6_000_000.0, None);
            let found = found.unwrap();
            assert!(found.pps <= most && found.pps > most * 0.97, "{most}: {found:?}");
            assert!(found.loss <= 1e-4 && phases < 35, "{most}: {phases} phases");
            assert!((found.bps - found.pps * 8_000.0).abs() < 1.0);
        }
    }

    #[test]
    fn a_path_that_carries_all_that_can_be_sent_is_asked_once() {
        let (found, phases) = search(1e9, 6_000_000.0, None);
        assert_eq!((found.map(|found| found.pps), phases), (Some(6_000_000.0), 1));
    }

    #[test]
    fn one_bad_moment_does_not_fail_a_rate() {
        for bad in 1..8 {
            let (found, _) = search(4_000_000.0, 6_000_000.0, Some(bad));
            let found = found.unwrap();
            assert!(found.pps > 4_000_000.0 * 0.97, "phase {bad}: {found:?}");
        }
    }

    #[test]
    fn a_path_that_always_loses_is_given_up() {
        let mut search = Search::new(base(), 1e-4);
        let mut outcome = Outcome::default();
        while let Some(phase) = search.next(&outcome) {
            let n = phase.rate.map_or(1_000_000, |rate| rate / 8_000);
            let counts = Packets { sent: n, received: n / 2, ..Packets::default() };
            let packets = Some(Box::new(PacketReport { counts, ..PacketReport::default() }));
            let end = Totals { packets, ..Totals::default() };
            outcome.points.push(Point { phase, near: end.clone(), far: vec![end], ..Point::default() });
        }
        assert!(outcome.points.len() < MOST as usize);
        assert_eq!(search.found(&outcome), None);
        // Nor does it go on when nothing is found out at all.
        let mut search = Search::new(base(), 1e-4);
        assert!(search.next(&Outcome::default()).is_some() && search.next(&Outcome::default()).is_none());
    }
}
