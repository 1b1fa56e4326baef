//! How far another host's clock is from ours, and how sure that is.
//!
//! One exchange of four stamps (NTP, RFC 5905 §8) bounds the offset without any assumption about the path: a packet
//! takes no negative time, so with `offset = theirs - ours`
//!
//! ```text
//!      ours  t1 ───────────────▶ t2  theirs          t3 - t4  ≤  offset  ≤  t2 - t1
//!      ours  t4 ◀─────────────── t3  theirs
//! ```
//!
//! The interval is as wide as the round trip; its middle is right when both ways take equally long, and wrong by at most
//! half of the round trip. Clocks drift: two straight lines bound the offset as a function of our time. All that is
//! claimed holds for any asymmetry, and for any drift that is constant over the run and below [`MAX_DRIFT`].

use crate::Mono;
use serde::{Deserialize, Serialize};

/// Largest relative drift between two clocks that is believed, 1 = 1 s per s: crystals are within 100 ppm, and
/// `adjtimex` slews by at most 500.
pub const MAX_DRIFT: f64 = 600e-6;
/// Exchanges kept; of more, the better one of two neighbours stays.
const MOST: usize = 512;

/// Four stamps: ours at sending, theirs at receiving, theirs at answering, ours at receiving; ns of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Our clock when the request left.
    pub t1: Mono,
    /// Their clock when it came.
    pub t2: i64,
    /// Their clock when the answer left.
    pub t3: i64,
    /// Our clock when it came.
    pub t4: Mono,
}

impl Exchange {
    /// Time on the path there and back, ns: without the time the far end took. Negative only when a clock is broken.
    #[must_use]
    pub fn round_trip(&self) -> i64 {
        ours(self.t4).saturating_sub(ours(self.t1)).saturating_sub(self.t3.saturating_sub(self.t2))
    }
}

fn ours(at: Mono) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// How times of two hosts are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// By exchanges of stamps over the measured path: the bound is half of the smallest round trip, and drift.
    InBand,
    /// By the two hosts' wall clocks, which something else keeps right: the bound is what the kernels say of them.
    Realtime,
    /// The two ends are on one host and read one clock.
    SameHost,
}

/// What comparing two clocks over a path has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockFound {
    /// Exchanges that were looked at: before, during and after the run.
    pub exchanges: u64,
    /// Smallest round trip of them, ns.
    pub round_trip_ns: u64,
    /// Their clock minus ours at the end, ns; the middle of what is possible.
    pub offset_ns: i64,
    /// How far that may be off, ns.
    pub bound_ns: u64,
    /// How much faster their clock is, lowest and highest possible, parts per million.
    pub skew_ppm: (f64, f64),
    /// A clock was stepped, as far as that shows.
    pub stepped: bool,
}

/// Where their clock stands at one instant: `offset = theirs - ours`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// The middle of what is possible, ns.
    pub offset_ns: i64,
    /// The truth is no further away than this, ns.
    pub bound_ns: u64,
}

/// One side of what is possible at an instant of ours.
#[derive(Clone, Copy, Debug)]
struct Limit {
    at: i64,
    low: i64,
    high: i64,
}

/// Gathers exchanges over a run.
#[derive(Clone, Debug, Default)]
pub struct Offset {
    limits: Vec<Limit>,
    smallest_round_trip: Option<u64>,
    exchanges: u64,
}

impl Offset {
    /// Takes in an exchange. One whose stamps contradict themselves is left out.
    pub fn add(&mut self, exchange: Exchange) {
        let Ok(round_trip) = u64::try_from(exchange.round_trip()) else { return };
        self.smallest_round_trip =
            Some(self.smallest_round_trip.map_or(round_trip, |known| known.min(round_trip)));
        self.exchanges += 1;
        let (t1, t4) = (ours(exchange.t1), ours(exchange.t4));
        // The two limits hold at two instants; between them a clock drifts by nothing that matters.
        let drifted = ((t4 - t1) as f64 * MAX_DRIFT).ceil() as i64;
        self.limits.push(Limit {
            at: t1 + (t4 - t1) / 2,
            low: exchange.t3.saturating_sub(t4).saturating_sub(drifted),
            high: exchange.t2.saturating_sub(t1).saturating_add(drifted),
        });
        if self.limits.len() > MOST {
            let width = |limit: &Limit| limit.high.saturating_sub(limit.low);
            self.limits =
                self.limits.chunks(2).filter_map(|pair| pair.iter().copied().min_by_key(width)).collect();
        }
    }

    /// Smallest round trip, ns; `None` without an exchange.
    #[must_use]
    pub fn round_trip(&self) -> Option<u64> {
        self.smallest_round_trip
    }

    /// The drift that is possible, lowest and highest, 1 = 1 s per s; positive when their clock is the faster one. `None`
    /// when no straight line passes between all limits: a clock was stepped.
    #[must_use]
    pub fn drift(&self) -> Option<(f64, f64)> {
        let (mut low, mut high) = (-MAX_DRIFT, MAX_DRIFT);
        for (i, a) in self.limits.iter().enumerate() {
            for b in &self.limits[i + 1..] {
                let time = (b.at - a.at) as f64;
                if time > 0.0 {
                    high = high.min((b.high.saturating_sub(a.low)) as f64 / time);
                    low = low.max((b.low.saturating_sub(a.high)) as f64 / time);
                }
            }
        }
        (low <= high).then_some((low, high))
    }

    /// All that was found, as of `now`; `None` without an exchange.
    #[must_use]
    pub fn found(&self, now: Mono) -> Option<ClockFound> {
        let at = self.at(now).unwrap_or_default();
        let (slow, fast) = self.drift().unwrap_or_default();
        Some(ClockFound {
            exchanges: self.exchanges,
            round_trip_ns: self.smallest_round_trip?,
            offset_ns: at.offset_ns,
            bound_ns: at.bound_ns,
            skew_ppm: (slow * 1e6, fast * 1e6),
            stepped: self.stepped(),
        })
    }

    /// Whether a clock was stepped, as far as that shows: no straight line passes between all limits.
    #[must_use]
    pub fn stepped(&self) -> bool {
        !self.limits.is_empty() && (self.drift().is_none() || self.at_most(Mono(0)).is_none())
    }

    /// Where their clock stood at `now`; `None` without an exchange, or when a clock was stepped.
    #[must_use]
    pub fn at(&self, now: Mono) -> Option<Estimate> {
        let (low, high) = self.at_most(now)?;
        let bound = u64::try_from(high - low).ok()?;
        Some(Estimate { offset_ns: low + (high - low) / 2, bound_ns: bound.div_ceil(2) })
    }

    /// The lowest and highest offset at `now`.
    fn at_most(&self, now: Mono) -> Option<(i64, i64)> {
        let (slow, fast) = self.drift()?;
        let now = ours(now);
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        for limit in &self.limits {
            let time = now.saturating_sub(limit.at) as f64;
            let (least, most) =
                if time < 0.0 { (fast * time, slow * time) } else { (slow * time, fast * time) };
            low = low.max(limit.low.saturating_add(least.floor() as i64));
            high = high.min(limit.high.saturating_add(most.ceil() as i64));
        }
        (!self.limits.is_empty() && low <= high).then_some((low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;
    use proptest::prelude::*;

    /// Their clock: `offset` at our 0, and `drift` faster.
    fn theirs(at: u64, offset: i64, drift: f64) -> i64 {
        at as i64 + offset + (at as f64 * drift) as i64
    }

    fn exchange(at: u64, there: u64, back: u64, offset: i64, drift: f64) -> Exchange {
        let (came, left) = (at + there, at + there + 20_000);
        Exchange {
            t1: Mono(at),
            t2: theirs(came, offset, drift),
            t3: theirs(left, offset, drift),
            t4: Mono(left + back),
        }
    }

    #[test]
    fn one_exchange_is_right_within_half_a_round_trip() {
        let mut clock = Offset::default();
        assert_eq!((clock.at(Mono(5)), clock.round_trip()), (None, None));
        clock.add(exchange(SECOND, 20_000_000, 5_000_000, -7_000_000_000, 0.0));
        let told = clock.found(Mono(SECOND)).unwrap();
        assert_eq!((told.exchanges, told.round_trip_ns, told.stepped), (1, 25_000_000, false));
        assert_eq!(clock.round_trip(), Some(25_000_000));
        let found = clock.at(Mono(SECOND)).unwrap();
        // Asymmetry moves the middle by half of the difference: (20 - 5) / 2 ms.
        assert!((found.offset_ns + 7_000_000_000 - 7_500_000).abs() < 50_000, "{found:?}");
        assert!((12_500_000..12_600_000).contains(&found.bound_ns), "{found:?}");
    }

    #[test]
    fn drift_is_found_and_a_step_noticed() {
        let mut clock = Offset::default();
        for i in 0..100 {
            clock.add(exchange(i * SECOND, 50_000, 60_000, 1_000_000, 40e-6));
        }
        let (low, high) = clock.drift().unwrap();
        assert!(low <= 40e-6 && 40e-6 <= high && high - low < 5e-6, "{low} {high}");
        assert!(!clock.stepped());
        for i in 100..110 {
            clock.add(exchange(i * SECOND, 50_000, 60_000, 101_000_000, 40e-6));
        }
        assert!(clock.stepped());
        assert_eq!(clock.at(Mono(SECOND)), None);
    }

    #[test]
    fn many_exchanges_take_no_more_room_than_few() {
        let mut clock = Offset::default();
        for i in 0..5_000u64 {
            clock.add(exchange(i * SECOND / 10, 100_000 + i % 7 * 90_000, 100_000 + i % 5 * 80_000, 0, 1e-6));
        }
        assert!(clock.limits.len() <= MOST);
        let found = clock.at(Mono(250 * SECOND)).unwrap();
        assert!(found.bound_ns < 130_000, "{found:?}");
    }

    #[test]
    fn contradictions_are_left_out() {
        let mut clock = Offset::default();
        clock.add(Exchange { t1: Mono(10), t2: 0, t3: 100, t4: Mono(20) });
        clock.add(Exchange { t1: Mono(u64::MAX), t2: i64::MIN, t3: i64::MAX, t4: Mono(0) });
        assert_eq!(clock.at(Mono(0)), None);
    }

    proptest! {
        /// Whatever the delays, the truth lies within the bound, before, during and after.
        #[test]
        fn the_truth_is_always_within_the_bound(
            offset in -1_000_000_000_000i64..1_000_000_000_000,
            ppm in -200..200i32,
            delays in proptest::collection::vec((0..50_000_000u64, 0..50_000_000u64), 1..60),
            at in 0..100u64,
        ) {
            let drift = f64::from(ppm) * 1e-6;
            let mut clock = Offset::default();
            for (i, &(there, back)) in (0..).zip(&delays) {
                clock.add(exchange(SECOND + i * SECOND / 4, there, back, offset, drift));
            }
            let now = at * SECOND / 5;
            let found = clock.at(Mono(now)).unwrap();
            let truth = theirs(now, offset, drift) - now as i64;
            // Their stamps are whole nanoseconds.
            prop_assert!(truth.abs_diff(found.offset_ns) <= found.bound_ns + 2, "{truth} {found:?}");
        }
    }
}
