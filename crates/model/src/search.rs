//! The highest rate that gets through: one phase after the other, each at a rate that those before
//! suggest.
//!
//! The first goes as fast as it goes. When that loses too much, the rate at which it arrived is
//! tried, and from there on the (geometric) middle between the highest rate that got through and
//! the lowest that did not, until the two are close. A rate got through, or failed, when it did so
//! twice: one moment in which a host was busy with something else is not the path's limit, and one
//! lucky moment is not its capacity. The rate that is left is tried until it got through [`PASSES`]
//! times; when it fails twice before that, the search goes on below it.

use crate::{Direction, Outcome, Phase, Point, Status, Totals};
use metrics::{Clamped, Packets, real};
use std::collections::BTreeMap;

/// The search ends when its two bounds differ by this part of the lower.
const CLOSE: f64 = 0.02;
/// Attempts that decide about a rate: this many failures, or passes.
const ATTEMPTS: u32 = 2;
/// Times that a rate has to get through before it is the result: one that gets through 3 times in
/// 10 does so 6 times before it fails twice in 4 of 1000 cases (0.3⁶ · (1 + 6 · 0.7)), one that
/// does so 97 times in 100 in 98 of 100.
const PASSES: u32 = 6;
/// More phases are a search that finds no end.
const MOST: u32 = 80;
/// Below this part of what could be sent nothing is tried: the path loses for another reason.
const HOPELESS: u64 = 10_000;
/// A sender that falls further short of the rate asked for has not offered it.
const SHORT: f64 = 0.98;

/// A search: the tried rates, and the remaining range.
#[derive(Clone, Debug, Default)]
pub struct Search {
    base: Phase,
    /// Share of the datagrams that may be lost.
    limit: f64,
    /// The rate being tried, bits/s of a flow and direction; `None` is as fast as it goes.
    trying: Option<u64>,
    tried: u32,
    /// Passes and failures of each rate.
    tally: BTreeMap<Option<u64>, (u32, u32)>,
    /// The rates that passed and have not failed since, rising: the carried rate, bits/s, and the
    /// requested one.
    carried: Vec<(u64, Option<u64>)>,
    /// The lowest rate that did not, bits/s.
    failed: Option<u64>,
    /// Rate of the first attempt, at full speed.
    first: u64,
    over: bool,
    /// The rate that got through often enough.
    accepted: Option<Option<u64>>,
}

/// Result of a search, over the phases in which the highest rate passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Highest {
    /// Datagrams per second that arrived on average, in the slower direction where there are two.
    pub pps: f64,
    /// The same, bits/s of UDP payload.
    pub bps: f64,
    /// The largest share of the datagrams that was lost.
    pub loss: f64,
}

/// Datagrams sent and datagrams received, for each direction that the test sends in.
fn ways(point: &Point) -> impl Iterator<Item = (u64, u64)> {
    let counts = |end: &Totals| end.packets.as_deref().map(|packets| packets.counts).unwrap_or_default();
    let local = counts(&point.local);
    let mut remote = Packets::default();
    point.remote.iter().for_each(|end| remote.add(&counts(end)));
    let up = point.phase.pattern.sends_up().then_some((local.sent, remote.received));
    let down = point.phase.pattern.sends_down().then_some((remote.sent, local.received));
    up.into_iter().chain(down)
}

/// True if all datagrams in a direction were lost although the conversation about them went on: the
/// rate is above the capacity.
pub(crate) fn is_above_capacity(point: &Point) -> bool {
    !point.remote.is_empty() && ways(point).any(|(sent, received)| sent > 0 && received == 0)
}

/// The share lost in the worse direction, and the datagrams that arrived in the slower.
fn worst(point: &Point) -> (f64, u64) {
    let loss = |(sent, received): (u64, u64)| match sent {
        0 => 1.0,
        sent => real(sent.saturating_sub(received)) / real(sent),
    };
    let received = ways(point).map(|(_, received)| received).min();
    (ways(point).map(loss).fold(0.0, f64::max), received.unwrap_or(0))
}

/// The directions that the test sends in.
fn directions(point: &Point) -> impl Iterator<Item = Direction> {
    let pattern = &point.phase.pattern;
    let ways = [point.up.filter(|_| pattern.sends_up()), point.down.filter(|_| pattern.sends_down())];
    ways.into_iter().flatten()
}

/// Bits/s of each flow, of `bps` of all.
fn of_each(bps: f64, phase: &Phase) -> u64 {
    u64::clamped(bps / f64::from(phase.connections.max(1)))
}

/// The rate in the slower direction, bits/s.
fn slower(point: &Point, of: fn(Direction) -> f64) -> f64 {
    directions(point).map(of).reduce(f64::min).unwrap_or(0.0)
}

/// The value of `rate` in the label of the attempt with which each search begins.
pub(crate) const FASTEST: &str = "as fast as it goes";

/// The attempts that are the result of a search: those at the last rate that passed. The search ends
/// at their number, so that further ones at this rate, which lost the most, failed. Empty for a
/// search without a result, `None` for other runs.
pub(crate) fn result(outcome: &Outcome) -> Option<Vec<&Point>> {
    outcome.points.first()?.label.get("rate").filter(|rate| *rate == FASTEST)?;
    let last = &outcome.points.last()?.label;
    let mut all: Vec<&Point> = outcome.points.iter().filter(|point| point.label == *last).collect();
    let (passes, attempts) = (usize::clamped(PASSES), usize::clamped(ATTEMPTS));
    let is_found = outcome.status == Status::Complete && (passes..passes + attempts).contains(&all.len());
    all.sort_by(|one, other| worst(one).0.total_cmp(&worst(other).0));
    all.truncate(if is_found { passes } else { 0 });
    Some(all)
}

impl Search {
    /// A search for the highest rate of `base` at which no more than `limit` (a share, 0..1) is
    /// lost.
    pub fn new(base: Phase, limit: f64) -> Self {
        Search { base, limit, ..Search::default() }
    }

    /// The next phase; `None` when nothing is left to try. `so_far` ends with the last one's
    /// result.
    pub fn next(&mut self, so_far: &Outcome) -> Option<Phase> {
        if self.tried > 0 {
            // Nothing was found: there is nothing to go by.
            let point = so_far.points.get(usize::clamped(self.tried) - 1)?;
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
        let sent = of_each(slower(point, |way| way.sent_bps), &point.phase);
        let passed = loss <= self.limit && received > 0;
        let tally = self.tally.entry(self.trying).or_default();
        *(if passed { &mut tally.0 } else { &mut tally.1 }) += 1;
        let (passes, failures) = *tally;
        let decided = match self.trying {
            // Going as fast as it goes is no rate that could be tried again, unless it got through
            // before.
            None => passed || passes == 0 || failures >= ATTEMPTS,
            Some(_) => (if passed { passes } else { failures }) >= ATTEMPTS,
        };
        if !decided {
            return;
        }
        if passed {
            self.passed(sent);
        } else {
            self.gave_up(sent);
        }
        let arrived = of_each(slower(point, |way| way.goodput_bps), &point.phase);
        // The received rate at full speed is a good guess; it counts as tried when it is too high.
        let guess = (self.trying.is_none() && !passed).then_some(arrived);
        self.choose(guess);
    }

    /// The rate being tried got through; `sent` was really sent.
    fn passed(&mut self, sent: u64) {
        let asked = self.trying;
        if self.carried.iter().any(|(_, rate)| *rate == asked) {
            return;
        }
        let carried = match asked {
            // The sender did not manage more: that was not offered.
            Some(rate) if (real(sent)) < real(rate) * SHORT => {
                self.fail(rate);
                sent
            }
            Some(rate) => rate,
            None => sent,
        };
        self.carried.push((carried, asked));
        self.carried.sort_unstable();
    }

    /// The rate being tried failed once too often.
    fn gave_up(&mut self, sent: u64) {
        let rate = self.trying.unwrap_or(sent.max(1));
        if self.trying.is_none() {
            self.first = sent;
        }
        self.fail(rate);
        let asked = self.trying;
        self.carried.retain(|(carried, other)| *carried < rate && *other != asked);
    }

    /// The rate failed.
    fn fail(&mut self, rate: u64) {
        self.failed = Some(self.failed.map_or(rate, |failed| failed.min(rate)));
    }

    /// The next rate to try: the remaining one until it got through often enough, or one between
    /// the bounds.
    fn choose(&mut self, guess: Option<u64>) {
        let high = self.failed.unwrap_or(u64::MAX);
        if let Some(&(carried, asked)) = self.carried.last()
            && (asked.is_none() || real(high) <= real(carried) * (1.0 + CLOSE))
        {
            let passes = self.tally.get(&asked).map_or(0, |(passes, _)| *passes);
            self.over = passes >= PASSES;
            self.accepted = self.over.then_some(asked);
            self.trying = asked;
            return;
        }
        let next = match self.carried.last() {
            _ if guess.is_some_and(|guess| (1..high).contains(&guess)) => guess.unwrap_or(0),
            None => high / 2,
            // The geometric mean: the two may be thousands of times apart.
            Some(&(carried, _)) => u64::clamped((real(carried) * real(high)).sqrt()),
        };
        self.over = next < self.first / HOPELESS || next == 0;
        self.trying = Some(next);
    }

    /// Its result in the points of `outcome`, over the points in which the accepted rate
    /// passed; `None` when none was accepted.
    pub fn highest(&self, outcome: &Outcome) -> Option<Highest> {
        let accepted = self.accepted?;
        let found = outcome.points.iter().filter(|point| point.phase.rate == accepted).map(|point| {
            let size = point.phase.probe.map_or(0, |probe| probe.size).max(1);
            (slower(point, |way| way.goodput_bps) / 8.0 / f64::from(size), worst(point).0, size)
        });
        let good: Vec<_> = found.filter(|(pps, loss, _)| *loss <= self.limit && *pps > 0.0).collect();
        let size = good.first()?.2;
        let pps = good.iter().map(|(pps, ..)| pps).sum::<f64>() / real(good.len());
        let loss = good.iter().map(|(_, loss, _)| *loss).fold(0.0, f64::max);
        Some(Highest { pps, bps: pps * 8.0 * f64::from(size), loss })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketReport, Pattern, Probe};
    use metrics::SECOND;

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

    /// A path that takes `most` datagrams per second, from a sender that manages `able`, and drops
    /// the rest; the `bad`-th phase loses some more. What was found, and the number of phases.
    fn search(most: f64, able: f64, bad: Option<usize>) -> (Option<Highest>, usize) {
        searched(able, |at, asked| {
            let arrives = asked.min(most);
            if bad == Some(at) { arrives * 0.99 } else { arrives }
        })
    }

    /// The same on a path that lets so many of the datagrams per second through that were sent in a
    /// phase, by its number.
    fn searched(able: f64, mut arrives: impl FnMut(usize, f64) -> f64) -> (Option<Highest>, usize) {
        let mut search = Search::new(base(), 1e-4);
        let mut outcome = Outcome::default();
        while let Some(phase) = search.next(&outcome) {
            // Two flows of 8000-bit datagrams for half a second.
            let asked = phase.rate.map_or(able, |rate| (rate as f64 / 8_000.0 * 2.0).min(able));
            let arrives = arrives(outcome.points.len(), asked);
            let end = |sent: f64, received: f64| {
                let counts = Packets { sent: sent as u64, received: received as u64, ..Packets::default() };
                let packets = Some(Box::new(PacketReport::from(counts)));
                Totals { packets, ..Totals::default() }
            };
            let (local, remote) = (end(asked / 2.0, 0.0), vec![end(0.0, arrives / 2.0)]);
            let (sent_bps, goodput_bps) = (asked * 8_000.0, arrives * 8_000.0);
            let up = Some(Direction { sent_bps, goodput_bps, ..Direction::default() });
            outcome.points.push(Point { phase, local, remote, up, ..Point::default() });
        }
        (search.highest(&outcome), outcome.points.len())
    }

    #[test]
    fn the_highest_rate_is_found_to_a_few_percent() {
        for most in [1_000.0, 77_777.0, 4_000_000.0, 5_900_000.0] {
            let (found, phases) = search(most, 6_000_000.0, None);
            let found = found.unwrap();
            assert!(found.pps <= most && found.pps > most * 0.97, "{most}: {found:?}");
            assert!(found.loss <= 1e-4 && phases < 50, "{most}: {phases} phases");
            assert!((found.bps - found.pps * 8_000.0).abs() < 1.0);
        }
    }

    #[test]
    fn a_path_that_carries_all_that_can_be_sent_is_asked_for_nothing_else() {
        let (found, phases) = search(1e9, 6_000_000.0, None);
        assert_eq!((found.map(|found| found.pps), phases), (Some(6_000_000.0), PASSES as usize));
    }

    /// Up to 1,000,000 datagrams per second get through, beyond 3,000,000 none do, and rates
    /// between do so with a probability.
    #[test]
    fn a_rate_that_gets_through_by_luck_is_rarely_the_result() {
        // `bench/deep` runs 1,000 searches.
        let searches = if std::env::var_os("NETCALIPER_INPUTS").is_some() { 1_000 } else { 250 };
        let mut state = 88_172_645_463_325_252u64;
        let mut accepted = |probability: f64| {
            let mut beyond = 0;
            for _ in 0..searches {
                let (found, _) = searched(6_000_000.0, |_, asked| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let lucky = ((state >> 11) as f64) < probability * (1u64 << 53) as f64;
                    let through = asked <= 1_000_000.0 || (asked <= 3_000_000.0 && lucky);
                    if through { asked } else { asked * 0.5 }
                });
                beyond += u32::from(found.is_some_and(|found| found.pps > 1_030_000.0));
            }
            beyond
        };
        let (seldom, mostly) = (accepted(0.3), accepted(0.99));
        assert!(
            seldom < searches / 20,
            "{seldom} of {searches} end at a rate that gets through 3 times in 10"
        );
        assert!(
            mostly > searches / 10 * 9,
            "{mostly} of {searches} at one that gets through 99 times in 100"
        );
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
        let (found, phases) = searched(2_000_000.0, |_, asked| asked / 2.0);
        assert!(phases < MOST as usize);
        assert_eq!(found, None);
        // Nor does it go on when nothing is found out at all.
        let mut search = Search::new(base(), 1e-4);
        assert!(search.next(&Outcome::default()).is_some() && search.next(&Outcome::default()).is_none());
    }
}
