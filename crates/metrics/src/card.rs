//! A network card's own clock, and which of its stamps are plausible.
//!
//! A card stamps packets by a clock on the card (a PTP hardware clock), which another program may
//! steer, and whose origin is arbitrary. The card's clock is read between two readings of a clock
//! of the host (a *crossing*): the host's clock went from `before` to `after` while the card's
//! showed `card`, which is an exchange of four stamps with a remote end that answers at once
//! ([`crate::Offset`]). Between crossings a card's stamp is placed on the host's clock by the line
//! through the last of them:
//!
//! ```text
//!   host  before ──┐      ┌── after        offset = card - host, within half of (after - before)
//!   card           └ card ┘                slope  = as the last crossings allow
//! ```
//!
//! A steered clock keeps no rate for long: only the last crossings are looked at, and the rate is
//! granted some wandering.

use crate::{Clamped, Estimate, Exchange, MAX_DRIFT, Mono, Offset, WANDER, real};

/// A crossing: the card's clock showed `card` while the host's went from `before` to `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The host's clock before the card's was read.
    pub before: Mono,
    /// The card's clock, ns.
    pub card: i64,
    /// The host's clock afterwards.
    pub after: Mono,
}

/// Crossings that are looked at.
const KEPT: usize = 8;
/// A stamp this far from the last crossing is placed no more, ns: nothing is known of the clock so
/// far away.
const REMOTE: u64 = 2 * crate::SECOND;
/// Longest time that a packet may lie between the card and the kernel's own stamp, ns: in the
/// card's ring while the core that serves it does something else.
pub const LONGEST_IN_CARD: u64 = crate::SECOND / 10;

/// Gathers crossings of one card's clock.
#[derive(Clone, Debug)]
pub struct CardClock {
    newest: Option<Crossing>,
    offset: Offset,
}

impl Default for CardClock {
    fn default() -> Self {
        CardClock { newest: None, offset: Offset::of_last(KEPT) }
    }
}

impl CardClock {
    /// Takes in a crossing, and says where stamps are to be placed until the next one. One whose
    /// times contradict themselves changes nothing. When no line passes through all of them the
    /// clock was set, and the others are forgotten.
    pub fn cross(&mut self, crossing: Crossing) -> Option<Placement> {
        let Crossing { before, card, after } = crossing;
        if after >= before && self.newest.is_none_or(|newest| before >= newest.before) {
            self.newest = Some(crossing);
            self.offset.add(Exchange { t1: before, t2: card, t3: card, t4: after });
        }
        self.placement()
    }

    /// Number of times that the clock was set by more than drift explains.
    pub fn steps(&self) -> u64 {
        self.offset.breaks()
    }

    fn placement(&self) -> Option<Placement> {
        let newest = self.newest?;
        let at = newest.before.plus(newest.after.since(newest.before) / 2);
        let (estimate, (slow, fast)) = (self.offset.at(at)?, self.offset.rate);
        let (rate, rate_bound) = ((slow + fast) / 2.0, (fast - slow) / 2.0 + WANDER);
        Some(Placement { at, estimate, rate, rate_bound })
    }
}

/// A rule that turns a card's times into the host's, around one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    at: Mono,
    estimate: Estimate,
    /// Gain of the card's clock over the host's, 1 = 1 s per s, and the bound of its error.
    rate: f64,
    rate_bound: f64,
}

impl Placement {
    /// When the card's clock showed `card`, and how far that may be off, ns. `None` far from the
    /// last crossing.
    pub fn place(&self, card: i64) -> Option<(Mono, u64)> {
        let local = i64::try_from(self.at.0).ok()?;
        let since = card.checked_sub(self.estimate.offset_ns)?.checked_sub(local)?;
        if since.unsigned_abs() > REMOTE {
            return None;
        }
        // So much of the card's time is a little less, or more, of the host's.
        let ours = real(since) / (1.0 + self.rate);
        let off = u64::clamped((ours.abs() * self.rate_bound / (1.0 - MAX_DRIFT)).ceil());
        let at = u64::try_from(local.checked_add(i64::clamped(ours.round()))?).ok()?;
        Some((Mono(at), self.estimate.bound_ns.saturating_add(off).saturating_add(1)))
    }

    /// When a datagram that the kernel stamped `kernel` reached the card, by the card's stamp.
    ///
    /// # Errors
    /// When that cannot be, because it would be after the kernel had it, or longer before than a
    /// packet lies in a card; or when the card's clock has not been read for long.
    pub fn arrival(&self, card: i64, kernel: Mono) -> Result<(Mono, u64), Unplaced> {
        let (at, bound) = self.place(card).ok_or(if kernel.since(self.at) > REMOTE {
            Unplaced::Unread
        } else {
            Unplaced::Untrue
        })?;
        let sooner = kernel.since(at) <= LONGEST_IN_CARD;
        let later = at.since(kernel) <= bound;
        if sooner && later { Ok((at.min(kernel), bound)) } else { Err(Unplaced::Untrue) }
    }

    /// When a datagram that the kernel handed to the card at `kernel` left it, by the card's stamp,
    /// which the kernel returned by `now`: `None` when it would have left before, or after.
    pub fn departure(&self, card: i64, kernel: Mono, now: Mono) -> Option<(Mono, u64)> {
        let (at, bound) = self.place(card)?;
        let sooner = kernel.since(at) <= bound;
        let later = at.since(now) <= bound;
        (sooner && later).then_some((at.max(kernel).min(now), bound))
    }
}

/// A network card's reading of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardStamp {
    /// By the card's own clock, ns.
    pub raw_ns: i64,
    /// The time of the stamp and its error bound, ns; or why the stamp has no place on the host's
    /// clock.
    pub placed: Result<(Mono, u64), Unplaced>,
}

/// Why a card's stamp has no place on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplaced {
    /// The card's clock cannot be read, or has not been for long.
    Unread,
    /// The card's stamp contradicts the kernel's own.
    Untrue,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;
    use proptest::prelude::*;

    /// What the card's clock shows at an instant of ours.
    fn shows(at: u64, offset: i64, drift: f64) -> i64 {
        at as i64 + offset + (at as f64 * drift) as i64
    }

    fn crossing(at: u64, there: u64, back: u64, offset: i64, drift: f64) -> Crossing {
        let card = shows(at + there, offset, drift);
        Crossing { before: Mono(at), card, after: Mono(at + there + back) }
    }

    const TAI: i64 = 1_700_000_037_000_000_000;

    #[test]
    fn one_crossing_places_within_half_of_its_width() {
        let mut clock = CardClock::default();
        let placement = clock.cross(crossing(SECOND, 1_000, 3_000, TAI, 0.0)).unwrap();
        let (at, bound) = placement.place(shows(SECOND + 50_000, TAI, 0.0)).unwrap();
        assert!(at.0.abs_diff(SECOND + 50_000) <= bound, "{at:?} {bound}");
        // Half of 4 µs, and 600 ppm and some of 48 µs.
        assert!((2_000..2_100).contains(&bound), "{bound}");
    }

    #[test]
    fn more_crossings_tell_the_rate() {
        let mut clock = CardClock::default();
        let mut placement = None;
        for n in 0..20 {
            placement = clock.cross(crossing(SECOND + n * SECOND / 10, 900, 1_100, TAI, 87e-6));
        }
        let at = SECOND + 2 * SECOND;
        let (placed, bound) = placement.unwrap().place(shows(at, TAI, 87e-6)).unwrap();
        assert!(placed.0.abs_diff(at) <= bound && bound < 3_500, "{placed:?} {bound}");
        assert_eq!(clock.steps(), 0);
    }

    #[test]
    fn a_clock_that_was_set_is_found_anew() {
        let mut clock = CardClock::default();
        for n in 0..5 {
            clock.cross(crossing(SECOND + n * SECOND / 10, 1_000, 1_000, TAI, 0.0));
        }
        let placement = clock.cross(crossing(2 * SECOND, 1_000, 1_000, TAI + 1_000_000, 0.0)).unwrap();
        assert_eq!(clock.steps(), 1);
        let (at, bound) = placement.place(shows(2 * SECOND, TAI + 1_000_000, 0.0)).unwrap();
        assert!(at.0.abs_diff(2 * SECOND) <= bound && bound < 1_200, "{at:?} {bound}");
    }

    #[test]
    fn crossings_that_cannot_be_change_nothing() {
        let mut clock = CardClock::default();
        let first = clock.cross(crossing(SECOND, 1_000, 1_000, TAI, 0.0));
        let (before, after) = (Mono(3 * SECOND), Mono(2 * SECOND));
        assert_eq!(clock.cross(Crossing { before, card: TAI, after }), first);
        assert_eq!(clock.cross(crossing(SECOND / 2, 1, 1, TAI, 0.0)), first);
    }

    #[test]
    fn stamps_that_cannot_be_are_refused() {
        let placement = CardClock::default().cross(crossing(SECOND, 1_000, 1_000, TAI, 0.0)).unwrap();
        let card = |at: u64| shows(at, TAI, 0.0);
        let kernel = Mono(SECOND + 500_000);
        let (at, bound) = placement.arrival(card(SECOND + 490_000), kernel).unwrap();
        assert!(at.0.abs_diff(SECOND + 490_000) <= bound);
        // After the kernel had it, by more than anybody can be wrong; and long before.
        let untrue = Err(Unplaced::Untrue);
        assert_eq!(placement.arrival(card(SECOND + 520_000), kernel), untrue);
        assert_eq!(placement.arrival(card(SECOND - 200_000_000), kernel), untrue);
        // A clock of another time altogether, and none at all.
        assert_eq!(placement.arrival(card(SECOND) - 37 * SECOND as i64, kernel), untrue);
        assert_eq!(placement.arrival(i64::MIN, kernel), untrue);
        // Three seconds after the clock was read last, nothing is held against what it says.
        let long = 4 * SECOND;
        assert_eq!(placement.arrival(card(long), Mono(long + 10_000)), Err(Unplaced::Unread));
        // What seems to be later by what the bound allows was no later.
        assert!(placement.arrival(card(SECOND + 500_500), kernel).unwrap().0 <= kernel);

        let now = Mono(SECOND + 600_000);
        let (at, _) = placement.departure(card(SECOND + 510_000), kernel, now).unwrap();
        assert!(kernel <= at && at <= now);
        assert_eq!(placement.departure(card(SECOND + 490_000), kernel, now), None);
        assert_eq!(placement.departure(card(SECOND + 620_000), kernel, now), None);
    }

    proptest! {
        /// For any origin, rate and reading time of the clock, the true time lies within the bound.
        #[test]
        fn the_truth_is_always_within_the_bound(
            offset in -1_000_000_000_000_000i64..2_000_000_000_000_000_000,
            ppm in -400..400i32,
            reads in proptest::collection::vec((0..40_000u64, 0..40_000u64, 1_000_000..200_000_000u64), 1..40),
            behind in -100_000_000i64..300_000_000,
        ) {
            let drift = f64::from(ppm) * 1e-6;
            let (mut clock, mut at, mut placement) = (CardClock::default(), SECOND, None);
            for (there, back, pause) in reads {
                placement = clock.cross(crossing(at, there, back, offset, drift));
                at += there + back + pause;
                prop_assert!(placement.is_some());
            }
            prop_assert_eq!(clock.steps(), 0);
            let truth = at.checked_add_signed(behind).unwrap();
            let (placed, bound) = placement.unwrap().place(shows(truth, offset, drift)).unwrap();
            // The clock of the test shows whole nanoseconds.
            prop_assert!(placed.0.abs_diff(truth) <= bound + 1, "{} {} {}", placed.0, truth, bound);
        }

        /// The same for a clock whose rate is steered by up to a tenth of a part in a million each
        /// tenth of a second.
        #[test]
        fn a_steered_clock_stays_within_the_bound(
            offset in -1_000_000_000i64..2_000_000_000_000_000_000,
            ppm in -100..100i32,
            steps in proptest::collection::vec((-100..100i32, 0..5_000u64, 0..5_000u64), 2..60),
        ) {
            let (mut clock, mut at, mut shown) = (CardClock::default(), SECOND, 0.0);
            let (drift, mut wander) = (f64::from(ppm) * 1e-6, 0.0_f64);
            for (step, there, back) in steps {
                // Within what a second of steering may do.
                wander = (wander + f64::from(step) * 1e-9).clamp(-0.5e-6, 0.5e-6);
                let card = |at: u64, shown: f64| at as i64 + offset + shown as i64;
                let placement = clock.cross(Crossing {
                    before: Mono(at),
                    card: card(at + there, shown),
                    after: Mono(at + there + back),
                });
                let later = at + SECOND / 10;
                let next = shown + (drift + wander) * (SECOND / 10) as f64;
                let (placed, bound) = placement.unwrap().place(card(later, next)).unwrap();
                prop_assert!(placed.0.abs_diff(later) <= bound + 2, "{} {} {}", placed.0, later, bound);
                (at, shown) = (later, next);
            }
            prop_assert_eq!(clock.steps(), 0);
        }
    }
}
