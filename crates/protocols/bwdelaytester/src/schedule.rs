//! When datagrams are due: evenly, at a rate that may rise in steps, after some that go slowly
//! before.

use crate::{Settings, Stairs};
use metrics::SECOND;
use model::Phase;

/// Datagrams before the stream when clocks are not synchronised, so that the receiver has some that
/// met no queue, and the time after each, ps.
const BEFORE: u32 = 2;
const APART: u64 = SECOND / 10 * 1_000;

/// The places of a schedule, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// Time between two datagrams at the full rate, ps; 0 is as fast as it goes.
    gap_ps: u64,
    stairs: Option<Stairs>,
    /// Datagrams that go before the stream and have not left.
    before: u32,
    /// Begin of the stream, and its next place, ps after the start.
    stream_ps: u64,
    next_ps: u128,
}

impl Schedule {
    pub(super) fn new(phase: &Phase) -> Self {
        let Settings { unsynchronised, stairs, .. } = Settings::of(phase);
        let before = if unsynchronised { BEFORE } else { 0 };
        Schedule {
            gap_ps: phase.probe.unwrap_or_default().gap_ps(phase.rate),
            stairs,
            before,
            stream_ps: u64::from(before) * APART,
            next_ps: 0,
        }
    }

    /// True if datagrams have places; otherwise the next one is always due.
    pub(super) fn paced(&self) -> bool {
        self.gap_ps > 0 || self.before > 0
    }

    /// When the next datagram is due, ns after the start.
    pub(super) fn due_ns(&self) -> u64 {
        u64::try_from(self.next_ps / 1_000).unwrap_or(u64::MAX)
    }

    pub(super) fn advance(&mut self) {
        let step = if self.before > 0 { APART } else { self.gap_now() };
        self.before = self.before.saturating_sub(1);
        self.next_ps += u128::from(step);
    }

    /// Without a schedule the time is all that passes.
    pub(super) fn pass(&mut self, now_ns: u64) {
        if !self.paced() {
            self.next_ps = self.next_ps.max(u128::from(now_ns) * 1_000);
        }
    }

    /// Time from the next place to the one after it, ps.
    fn gap_now(&self) -> u64 {
        let Some(Stairs { steps, step_ns }) = self.stairs else { return self.gap_ps };
        let since = self.next_ps.saturating_sub(self.stream_ps.into());
        let step = (since / (u128::from(step_ns.max(1)) * 1_000) + 1).min(steps.into());
        u64::try_from(u128::from(self.gap_ps) * u128::from(steps) / step.max(1)).unwrap_or(u64::MAX)
    }

    /// True after the last step of the ramp.
    pub(super) fn climbed(&self) -> bool {
        let end = |stairs: Stairs| u128::from(stairs.length_ns()) * 1_000 + u128::from(self.stream_ps);
        self.stairs.is_some_and(|stairs| self.next_ps >= end(stairs))
    }

    /// Number of places that are due `now_ns` after the start, `most` at most.
    pub(super) fn due(&self, now_ns: u64, most: u64) -> u64 {
        if !self.paced() {
            return most;
        }
        let mut ahead = *self;
        let mut n = 0;
        // The warm-up datagrams are followed by a fixed gap: never batch across it.
        while n < most && ahead.due_ns() <= now_ns && !ahead.climbed() && (n == 0 || self.before == 0) {
            ahead.advance();
            n += 1;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Kind, Probe};

    fn schedule(size: u32, rate: Option<u64>, settings: Settings) -> Schedule {
        Schedule::new(&Phase {
            kind: Kind::Delay,
            rate,
            probe: Some(Probe { size, ..Probe::default() }),
            extra: settings.extra(),
            ..Phase::default()
        })
    }

    /// All places up to an instant, ns.
    fn places(mut schedule: Schedule, until: u64) -> Vec<u64> {
        let mut all = Vec::new();
        while schedule.due_ns() < until && !schedule.climbed() {
            all.push(schedule.due_ns());
            schedule.advance();
        }
        all
    }

    #[test]
    fn a_rate_is_kept_from_the_first_datagram_on() {
        // 1000 bytes at 10 Mbit/s: 800 µs. The original sends its first two back to back.
        let schedule = schedule(1_000, Some(10_000_000), Settings::default());
        assert_eq!(places(schedule, 3_000_000), [0, 800_000, 1_600_000, 2_400_000]);
        assert_eq!(schedule.due(1_600_000, 64), 3);
        assert_eq!(schedule.due(u64::MAX / 2_000, 64), 64);
    }

    #[test]
    fn stairs_rise_from_a_hundredth_to_the_rate() {
        let stairs = Some(Stairs { steps: 100, step_ns: 2 * SECOND });
        // 500 bytes at 60 Mbit/s: 15,000 a second at the top; the captured sweep's step 1 has 150,
        // its step 2 300 a second.
        let schedule = schedule(500, Some(60_000_000), Settings { stairs, ..Settings::default() });
        let all = places(schedule, u64::MAX);
        let of_step = |n: u64| all.iter().filter(|&&at| at / (2 * SECOND) == n - 1).count() as u64;
        for n in 1..=100 {
            assert!(of_step(n).abs_diff(300 * n) <= 1, "step {n}: {}", of_step(n));
        }
        assert!(all.last().is_some_and(|&last| last < 200 * SECOND));
    }

    #[test]
    fn without_synchronised_clocks_two_go_before_and_really_wait() {
        let schedule =
            schedule(1_000, Some(8_000_000), Settings { unsynchronised: true, ..Settings::default() });
        let slow = SECOND / 10;
        assert_eq!(
            places(schedule, 2 * slow + 2_000_001),
            [0, slow, 2 * slow, 2 * slow + 1_000_000, 2 * slow + 2_000_000]
        );
        assert_eq!(schedule.due(10 * SECOND, 64), 1, "one at a time: each is to meet an empty queue");
    }

    #[test]
    fn without_a_rate_it_is_always_time() {
        let mut schedule = schedule(1_000, None, Settings::default());
        assert_eq!(schedule.due(0, 64), 64);
        schedule.advance();
        schedule.pass(5_000);
        assert_eq!(schedule.due_ns(), 5_000);
    }
}
