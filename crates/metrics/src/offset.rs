//! Offset of another host's clock from ours, with its error bound.
//!
//! One exchange of four stamps (NTP, RFC 5905 §8) bounds the offset without any assumption about
//! the path: a packet takes no negative time, so with `offset = theirs - ours`
//!
//! ```text
//!      ours  t1 ───────────────▶ t2  theirs          t3 - t4  ≤  offset  ≤  t2 - t1
//!      ours  t4 ◀─────────────── t3  theirs
//! ```
//!
//! That interval is as wide as the round trip; its middle is right when both ways take equally
//! long, and wrong by at most half of the round trip. Clocks drift: two straight lines bound the
//! offset as a function of our time. No clock keeps its rate for long: only exchanges of the last
//! [`WINDOW`] are looked at, and each is granted [`WANDER`] of its age. All that is claimed holds
//! for any asymmetry, for any drift below [`MAX_DRIFT`], and while the mean rate since each of
//! those exchanges is within [`WANDER`] of the present one. Where no line passes between all
//! limits, a clock was set, or its rate changed by more: all but the newest exchange are forgotten,
//! so that the bound grows to half of that round trip, and the break is counted.

use crate::{Clamped, Mono, real};
use serde::{Deserialize, Serialize};

/// Largest relative drift between two clocks that is believed, 1 = 1 s per s: crystals are within
/// 100 ppm, and `adjtimex` slews by at most 500.
pub const MAX_DRIFT: f64 = 600e-6;
/// Most that the mean rate of a clock over the last [`WINDOW`] may be from its present one, 1 = 1 s
/// per s: the rate of a crystal moves by less with the temperature of a machine, and so does that
/// of a clock which `chronyd`, `ptp4l` or `phc2sys` steers once it has settled.
pub const WANDER: f64 = 2e-6;
/// Older exchanges are forgotten, ns.
const WINDOW: i64 = 64 * crate::SECOND as i64;
/// Exchanges kept; of more, the better one of two neighbours stays. Each new one is compared with
/// all of these, on the thread that measures.
const MOST: usize = 32;

/// Four stamps: ours at sending, theirs at receiving, theirs at answering, ours at receiving; ns of
/// the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Our clock when the request left.
    pub t1: Mono,
    /// Their clock at its arrival.
    pub t2: i64,
    /// Their clock when the answer left.
    pub t3: i64,
    /// Our clock at its arrival.
    pub t4: Mono,
}

impl Exchange {
    /// Time on the path there and back, ns: without the time the remote end took. Negative only
    /// when a clock is broken.
    pub fn round_trip(&self) -> i64 {
        i64::clamped(self.t4.0)
            .saturating_sub(i64::clamped(self.t1.0))
            .saturating_sub(self.t3.saturating_sub(self.t2))
    }
}

/// Method by which times of two hosts are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// By exchanges of stamps over the measured path: the bound is half of the smallest round trip,
    /// and drift.
    InBand,
    /// By the two hosts' wall clocks, which other programs discipline: the bound is the kernels'
    /// estimate of their errors.
    Realtime,
    /// The two ends are on one host and read one clock.
    SameHost,
}

/// Result of comparing two clocks over a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockFound {
    /// Exchanges of stamps before, during and after the run.
    pub exchanges: u64,
    /// Smallest round trip of the exchanges, ns.
    pub round_trip_ns: u64,
    /// The other clock minus this one at the end, ns; the middle of the possible range.
    pub offset_ns: i64,
    /// Bound on the error of `offset_ns`, ns.
    pub bound_ns: u64,
    /// Skew of the other clock, lowest and highest possible, parts per million; above 0 it is
    /// faster.
    pub skew_ppm: (f64, f64),
    /// A step of a clock was seen: it moved by more than any drift explains.
    pub stepped: bool,
    /// The rate of a clock changed by more than the bound allows for, or a clock was stepped by
    /// little; absent in documents of earlier builds.
    pub wandered: bool,
}

/// Their clock against ours at one instant: `offset = theirs - ours`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// The middle of the possible interval, ns.
    pub offset_ns: i64,
    /// The truth is no further away than this, ns.
    pub bound_ns: u64,
}

/// Lowest and highest possible offset at an instant of ours.
#[derive(Clone, Copy, Debug)]
struct Limit {
    at: i64,
    low: i64,
    high: i64,
}

/// Gathers exchanges over a run.
#[derive(Clone, Debug)]
pub struct Offset {
    /// By time, the newest last.
    limits: Vec<Limit>,
    most: usize,
    /// Drop the oldest of too many instead of the worse one of each two neighbours.
    last_only: bool,
    /// The drift that all limits allow, lowest and highest, 1 = 1 s per s; positive when their
    /// clock is the faster one.
    pub(crate) rate: (f64, f64),
    smallest_round_trip: Option<u64>,
    exchanges: u64,
    steps: u64,
    wanders: u64,
}

impl Default for Offset {
    fn default() -> Self {
        Offset {
            limits: Vec::with_capacity(MOST + 1),
            most: MOST,
            last_only: false,
            rate: (-MAX_DRIFT, MAX_DRIFT),
            smallest_round_trip: None,
            exchanges: 0,
            steps: 0,
            wanders: 0,
        }
    }
}

impl Offset {
    /// One that looks at the last `most` exchanges alone.
    pub fn of_last(most: usize) -> Self {
        Offset { most, last_only: true, ..Offset::default() }
    }

    /// Takes in an exchange. One whose stamps contradict themselves is left out.
    pub fn add(&mut self, exchange: Exchange) {
        let Ok(round_trip) = u64::try_from(exchange.round_trip()) else { return };
        self.smallest_round_trip =
            Some(self.smallest_round_trip.map_or(round_trip, |known| known.min(round_trip)));
        self.exchanges += 1;
        let (t1, t4) = (i64::clamped(exchange.t1.0), i64::clamped(exchange.t4.0));
        // The two limits hold at two instants; between them a clock drifts by nothing that matters.
        let drifted = i64::clamped((real(t4.saturating_sub(t1)) * MAX_DRIFT).ceil());
        let limit = Limit {
            at: t1.saturating_add(t4.saturating_sub(t1) / 2),
            low: exchange.t3.saturating_sub(t4).saturating_sub(drifted),
            high: exchange.t2.saturating_sub(t1).saturating_add(drifted),
        };
        let expected = self.between(limit.at, self.rate);
        let place = self.limits.partition_point(|known| known.at <= limit.at);
        self.limits.insert(place, limit);
        self.forget();
        match self.fit() {
            Some(rate) => self.rate = rate,
            None => self.begin_anew(limit, expected),
        }
    }

    /// Drops limits that are too old, then the surplus above `most`.
    fn forget(&mut self) {
        let newest = self.limits.last().map_or(0, |limit| limit.at);
        self.limits.retain(|limit| newest.saturating_sub(limit.at) <= WINDOW);
        if self.limits.len() <= self.most {
            return;
        }
        if self.last_only {
            self.limits.remove(0);
            return;
        }
        let width = |limit: &Limit| limit.high.saturating_sub(limit.low);
        for at in 0..self.limits.len().div_ceil(2) {
            let pair = &self.limits[2 * at..self.limits.len().min(2 * at + 2)];
            if let Some(better) = pair.iter().copied().min_by_key(width) {
                self.limits[at] = better;
            }
        }
        self.limits.truncate(self.limits.len().div_ceil(2));
    }

    /// Restarts from `limit`, which contradicts the earlier ones. Counts a step of the clock when
    /// the gap to the `expected` range exceeds what drift can explain, else a wander.
    fn begin_anew(&mut self, limit: Limit, expected: Option<(i64, i64)>) {
        let since =
            self.limits.iter().filter(|known| known.at < limit.at).map(|known| limit.at - known.at).min();
        let gap = expected.map_or(0, |(low, high)| {
            limit.low.saturating_sub(high).max(low.saturating_sub(limit.high)).max(0)
        });
        let drift = real(since.unwrap_or(0)) * MAX_DRIFT;
        if real(gap) > drift {
            self.steps += 1;
        } else {
            self.wanders += 1;
        }
        self.limits.clear();
        self.limits.push(limit);
        self.rate = (-MAX_DRIFT, MAX_DRIFT);
    }

    /// Number of times that no line fitted and all limits but the newest were forgotten.
    pub fn breaks(&self) -> u64 {
        self.steps + self.wanders
    }

    /// The rates that all limits allow; `None` when there is none, or no offset.
    fn fit(&self) -> Option<(f64, f64)> {
        let newest = self.limits.last()?.at;
        let (mut slow, mut fast) = (-MAX_DRIFT, MAX_DRIFT);
        for (i, a) in self.limits.iter().enumerate() {
            for b in &self.limits[i + 1..] {
                let time = real(b.at.saturating_sub(a.at));
                if time > 0.0 {
                    let age = real(newest.saturating_sub(a.at)) + real(newest.saturating_sub(b.at));
                    fast = fast.min((real(b.high.saturating_sub(a.low)) + age * WANDER) / time);
                    slow = slow.max((real(b.low.saturating_sub(a.high)) - age * WANDER) / time);
                }
            }
        }
        (slow <= fast && self.between(newest, (slow, fast)).is_some()).then_some((slow, fast))
    }

    /// The comparison of the clocks as of `now`; `None` without an exchange.
    pub fn summary(&self, now: Mono) -> Option<ClockFound> {
        let at = self.at(now)?;
        let (slow, fast) = self.rate;
        Some(ClockFound {
            exchanges: self.exchanges,
            round_trip_ns: self.smallest_round_trip?,
            offset_ns: at.offset_ns,
            bound_ns: at.bound_ns,
            skew_ppm: (slow * 1e6, fast * 1e6),
            stepped: self.steps > 0,
            wandered: self.wanders > 0,
        })
    }

    /// The offset at `now`; `None` without an exchange.
    pub fn at(&self, now: Mono) -> Option<Estimate> {
        let (low, high) = self.between(i64::clamped(now.0), self.rate)?;
        let width = high.checked_sub(low)?;
        let bound = u64::try_from(width).ok()?;
        Some(Estimate { offset_ns: low + width / 2, bound_ns: bound.div_ceil(2) })
    }

    /// One offset that holds from `now` on for `ns`; its bound includes the drift and wander of
    /// that time.
    pub fn during(&self, now: Mono, ns: u64) -> Option<Estimate> {
        let half = ns / 2;
        let middle = self.at(now.plus(half))?;
        let (slow, fast) = self.rate;
        let drift = (slow.abs().max(fast.abs()) + WANDER) * real(half);
        Some(Estimate { bound_ns: middle.bound_ns.saturating_add(u64::clamped(drift.ceil())), ..middle })
    }

    /// True if the newest exchange allows this offset, to within `slack` ns, or without an
    /// exchange.
    pub fn allows(&self, offset: i64, slack: u64) -> bool {
        let newest = self.limits.last();
        newest.is_none_or(|limit| {
            offset >= limit.low.saturating_sub_unsigned(slack)
                && offset <= limit.high.saturating_add_unsigned(slack)
        })
    }

    /// The lowest and highest offset at `now`, with these lowest and highest rates.
    fn between(&self, now: i64, (slow, fast): (f64, f64)) -> Option<(i64, i64)> {
        // The mean rate since a limit.
        let (slow, fast) = (slow - WANDER, fast + WANDER);
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        for limit in &self.limits {
            let time = real(now.saturating_sub(limit.at));
            let (least, most) =
                if time < 0.0 { (fast * time, slow * time) } else { (slow * time, fast * time) };
            low = low.max(limit.low.saturating_add(i64::clamped(least.floor())));
            high = high.min(limit.high.saturating_add(i64::clamped(most.ceil())));
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
        assert_eq!((clock.at(Mono(5)), clock.smallest_round_trip), (None, None));
        clock.add(exchange(SECOND, 20_000_000, 5_000_000, -7_000_000_000, 0.0));
        let told = clock.summary(Mono(SECOND)).unwrap();
        assert_eq!((told.exchanges, told.round_trip_ns, told.stepped), (1, 25_000_000, false));
        assert_eq!(clock.smallest_round_trip, Some(25_000_000));
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
        let (low, high) = clock.rate;
        // Some 110 µs of round trip over a minute, and the wandering granted.
        assert!(low <= 40e-6 && 40e-6 <= high && high - low < 9e-6, "{low} {high}");
        assert_eq!(clock.breaks(), 0);
        for i in 100..110 {
            clock.add(exchange(i * SECOND, 50_000, 60_000, 101_000_000, 40e-6));
        }
        let found = clock.summary(Mono(110 * SECOND)).unwrap();
        assert!((found.stepped, found.wandered, clock.breaks()) == (true, false, 1), "{found:?}");
        let truth = theirs(110 * SECOND, 101_000_000, 40e-6) - 110 * SECOND as i64;
        assert!(truth.abs_diff(found.offset_ns) <= found.bound_ns && found.bound_ns < 200_000, "{found:?}");
    }

    /// An hour of exchanges, one a second, over a path of 200 µs with queues, whose one way may
    /// take all of it. `off` says where their clock stands at a second of ours. Of ten readings a
    /// second, the share whose stated bound holds, the largest bound but for a hundredth, and what
    /// was found.
    fn an_hour(there: u64, off: impl Fn(f64) -> f64) -> (f64, u64, ClockFound) {
        let mut clock = Offset::default();
        let at_ns = |at: u64| at as i64 + (off(at as f64 / 1e9) * 1e9) as i64;
        let (mut held, mut bounds, mut random) = (0, Vec::new(), 1u64);
        // xorshift64: queues of up to 100 µs, either way.
        let mut queue = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % 100_000
        };
        for second in 1..3_600u64 {
            let t1 = second * SECOND;
            let t2 = t1 + there + queue() / 10;
            let t3 = t2 + 20_000;
            let t4 = t3 + (200_000 - there) + queue();
            clock.add(Exchange { t1: Mono(t1), t2: at_ns(t2), t3: at_ns(t3), t4: Mono(t4) });
            assert!(clock.limits.len() <= MOST);
            let told = clock.during(Mono(t4), SECOND).unwrap();
            for tenth in 0..10 {
                let at = t4 + tenth * SECOND / 10;
                let truth = at_ns(at) - at as i64;
                held += u64::from(truth.abs_diff(told.offset_ns) <= told.bound_ns);
                bounds.push(told.bound_ns);
            }
        }
        bounds.sort_unstable();
        let found = clock.summary(Mono(3_600 * SECOND)).unwrap();
        (held as f64 / bounds.len() as f64, bounds[bounds.len() / 100 * 99], found)
    }

    /// How far a clock is off after so many seconds, s.
    type Shape = Box<dyn Fn(f64) -> f64>;

    #[test]
    fn the_bound_holds_for_an_hour_whatever_the_rate_does() {
        use std::f64::consts::TAU;
        for there in [10_000, 100_000, 195_000] {
            // `bench/deep` also runs 1 ppm.
            let deep = std::env::var_os("NETCALIPER_INPUTS").is_some().then_some(1.0);
            for ppm in deep.into_iter().chain([5.0]) {
                let ppm = ppm * 1e-6;
                let shapes: [(&str, Shape); 4] = [
                    ("even", Box::new(move |s| ppm * s * s / 7_200.0)),
                    ("swinging", Box::new(move |s| ppm * 600.0 / TAU * (TAU * s / 600.0).sin())),
                    // Between -ppm and ppm, at once, each five minutes.
                    ("switched", Box::new(move |s| ppm * (300.0 - (s % 600.0 - 300.0).abs()))),
                    ("on top of 40 ppm", Box::new(move |s| 40e-6 * s + ppm * s * s / 7_200.0)),
                ];
                for (name, off) in shapes {
                    let (held, bound, found) = an_hour(there, off);
                    let what = format!("{name} {ppm} {there}: {held} {bound} {found:?}");
                    assert!(held >= 0.99, "{what}");
                    // Half of the round trip with its queues, and some microseconds a second of
                    // drift.
                    assert!(bound < 250_000, "{what}");
                    assert!(!found.stepped && found.bound_ns > 0, "{what}");
                }
            }
        }
    }

    #[test]
    fn the_bound_holds_after_a_step_and_the_step_is_told() {
        for step in [-0.3, 0.002, 1_000.0] {
            let (held, bound, found) = an_hour(100_000, |s| if s < 1_800.0 { 0.0 } else { step });
            assert!(held >= 0.99 && bound < 250_000 && found.stepped, "{step}: {held} {bound} {found:?}");
        }
        let (held, _, found) = an_hour(100_000, |s| if s < 1_800.0 { 0.0 } else { 0.0004 });
        assert!(held >= 0.99 && found.wandered && !found.stepped, "{held} {found:?}");
    }

    #[test]
    fn many_exchanges_take_no_more_room_than_few() {
        let mut clock = Offset::default();
        for i in 0..5_000u64 {
            clock.add(exchange(i * SECOND / 10, 100_000 + i % 7 * 90_000, 100_000 + i % 5 * 80_000, 0, 1e-6));
        }
        assert!(clock.limits.len() <= MOST);
        let found = clock.at(Mono(500 * SECOND)).unwrap();
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
        /// For all delays the true offset lies within the bound, before, during and after.
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
