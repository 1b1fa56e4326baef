//! Rounds: a plan that is measured again and again, each time as a run of its own.
//!
//! A round knows the whole series, so that whoever has it can make the next one: its controller, or
//! one that takes over.

use metrics::{SECOND, Wall};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Most rounds of a series.
pub const MAX_ROUNDS: u32 = 100_000;

/// When the rounds of a series are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rounds {
    /// When the first round is due, ns since 1970-01-01T00:00:00Z.
    pub first: Wall,
    /// Time from one round to the next, ns.
    pub every_ns: u64,
    /// Rounds of the series, from 1 to [`MAX_ROUNDS`].
    pub count: u32,
}

impl Rounds {
    /// As many rounds as are due until `end`, that time included, and at most `most`.
    #[must_use]
    pub fn until(first: Wall, every_ns: u64, end: Option<Wall>, most: u32) -> Rounds {
        let fit = |end: Wall| {
            let span = u64::try_from(end.0.saturating_sub(first.0)).unwrap_or(0);
            u32::try_from(span / every_ns.max(1)).unwrap_or(u32::MAX).saturating_add(1)
        };
        Rounds { first, every_ns, count: end.map_or(u32::MAX, fit).min(most).clamp(1, MAX_ROUNDS) }
    }

    /// When the round of this number, from 1, is due.
    #[must_use]
    pub fn due(&self, number: u32) -> Wall {
        let after = self.every_ns.saturating_mul(u64::from(number.saturating_sub(1)));
        Wall(self.first.0.saturating_add(i64::try_from(after).unwrap_or(i64::MAX)))
    }

    /// Longest delay of a round's beginning, ns: a tenth of the time to the next, and at least a
    /// second.
    pub(crate) fn late_ns(&self) -> u64 {
        (self.every_ns / 10).max(SECOND)
    }
}

/// A round of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Round {
    /// Identifier of the series.
    pub series: Uuid,
    /// Number of the round, from 1.
    pub number: u32,
    /// Number of rounds just before this one that were missed: another one still ran when they were
    /// due, or no controller worked.
    pub missed: u32,
    /// When all of them are due.
    pub rounds: Rounds,
}

impl Round {
    /// The first round of a series.
    #[must_use]
    pub fn first(series: Uuid, rounds: Rounds) -> Round {
        Round { series, number: 1, missed: 0, rounds }
    }

    /// When it is due.
    #[must_use]
    pub fn due(&self) -> Wall {
        self.rounds.due(self.number)
    }

    /// True if it is too late to begin the round.
    #[must_use]
    pub fn is_missed(&self, now: Wall) -> bool {
        let late = now.0.saturating_sub(self.due().0);
        u64::try_from(late).is_ok_and(|late| late > self.rounds.late_ns())
    }

    /// The next round that can begin at `now` or later. With `has_begun` this one has begun, and is
    /// not a missed one itself.
    ///
    /// # Errors
    /// The number of missed rounds, where none is left.
    pub fn next(&self, has_begun: bool, now: Wall) -> Result<Round, u32> {
        let from = self.number + u32::from(has_begun);
        let before = if has_begun { 0 } else { self.missed };
        let mut next = Round { number: from, ..*self };
        while next.number <= self.rounds.count && next.is_missed(now) {
            next.number += 1;
        }
        next.missed = before + (next.number - from);
        if next.number <= self.rounds.count { Ok(next) } else { Err(next.missed) }
    }

    /// Identifier of its run: the same for everyone who makes the round, so that it is made once.
    #[must_use]
    pub fn run(&self) -> Uuid {
        super::derived(self.series, &[self.number])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60 * SECOND;

    fn at(minutes: f64) -> Wall {
        Wall((minutes * 60e9) as i64)
    }

    fn series(count: u32) -> Round {
        let rounds = Rounds::until(at(100.0), 10 * MINUTE, None, count);
        Round::first(Uuid::from_u128(9), rounds)
    }

    #[test]
    fn rounds_are_due_one_period_after_the_other_until_the_end() {
        let rounds = Rounds::until(at(100.0), 10 * MINUTE, Some(at(130.0)), 1_000);
        assert_eq!(rounds.count, 4, "due at 100, 110, 120 and 130");
        assert_eq!(rounds.due(4), at(130.0));
        assert_eq!(Rounds::until(at(100.0), 10 * MINUTE, Some(at(129.0)), 1_000).count, 3);
        assert_eq!(Rounds::until(at(100.0), 10 * MINUTE, Some(at(130.0)), 2).count, 2);
        assert_eq!(Rounds::until(at(100.0), 1, None, u32::MAX).count, MAX_ROUNDS);
    }

    #[test]
    fn the_round_after_one_that_ran_in_its_time_is_the_next() {
        let next = series(6).next(true, at(107.0)).unwrap();
        assert_eq!((next.number, next.missed, next.due()), (2, 0, at(110.0)));
        // A tenth of the period late is not missed.
        assert_eq!(series(6).next(true, at(111.0)).unwrap().number, 2);
    }

    #[test]
    fn rounds_that_were_due_while_another_ran_are_missed() {
        let next = series(6).next(true, at(131.5)).unwrap();
        assert_eq!((next.number, next.missed), (5, 3), "due at 110, 120 and 130");
        assert_eq!(series(6).next(true, at(160.0)), Err(5));
        assert_eq!(series(1).next(true, at(100.5)), Err(0));
    }

    #[test]
    fn a_round_that_no_controller_began_is_missed_itself() {
        let waiting = Round { number: 3, missed: 1, ..series(6) };
        assert_eq!(waiting.next(false, at(119.0)), Ok(waiting));
        let next = waiting.next(false, at(135.0)).unwrap();
        assert_eq!((next.number, next.missed), (5, 3), "2 before, 3 and 4");
        assert_eq!(waiting.next(false, at(500.0)), Err(5), "2 before, 3 to 6");
    }

    #[test]
    fn each_round_is_a_run_of_its_own_that_everyone_names_alike() {
        let rounds: Vec<Uuid> = (1..100).map(|number| Round { number, ..series(99) }.run()).collect();
        assert_eq!(rounds.iter().collect::<std::collections::BTreeSet<_>>().len(), 99);
        assert_eq!(rounds[4], Round { number: 5, missed: 3, ..series(99) }.run());
        let other = Round { series: Uuid::from_u128(10), ..series(99) };
        assert_ne!(rounds[0], other.run());
    }

    #[test]
    fn clocks_that_are_set_anywhere_break_nothing() {
        for now in [i64::MIN, -1, 0, i64::MAX] {
            let _ = series(MAX_ROUNDS).next(true, Wall(now));
            let _ = Rounds::until(Wall(now), u64::MAX, Some(Wall(i64::MAX)), 7).due(7);
        }
    }
}
