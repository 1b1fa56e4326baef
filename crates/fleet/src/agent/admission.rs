//! Which tests an agent admits: its own rule, which no order of a controller lifts.
//!
//! An exclusive test has the host to itself, background ones excepted; limited tests are few, and
//! run beside no exclusive one. A host's role in a test makes no difference. Each admission ends by
//! itself when its time is over.

use super::programs::HostLock;
use crate::plan::{Attempt, CostClass};
use crate::schedule::{MAX_BACKGROUND, MAX_LIMITED};
use metrics::{Mono, SECOND};
use std::collections::VecDeque;
use uuid::Uuid;

/// A millisecond, ns.
const MILLISECOND: u64 = SECOND / 1000;
/// Over how long the share of time is taken, ns.
const WINDOW: u64 = 600 * SECOND;
/// When to ask again where the host's other agent does not say when it is done, ns.
const ELSEWHERE: u64 = 200 * MILLISECOND;

/// A test that has been admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdmittedTest {
    pub(super) run: Uuid,
    pub(super) attempt: Attempt,
    pub(super) class: CostClass,
    pub(super) from: Mono,
    pub(super) until: Mono,
    /// True if this end runs the client: then the process that runs it reports the end of the test.
    pub(super) is_client: bool,
    /// Bits/s of the test and direction, where they are bounded.
    pub(super) rate: Option<u64>,
}

/// The tests that have been admitted, and how much of the time they take.
pub(super) struct Admission {
    pub(super) held: Vec<AdmittedTest>,
    /// Largest share of the time for tests, 0 to 1.
    share: f64,
    /// Most bits/s and direction of all tests together.
    rate: Option<u64>,
    /// Past times of tests, oldest first.
    past: VecDeque<(Mono, Mono)>,
    lock: Box<dyn HostLock>,
}

impl Admission {
    pub(super) fn new(share: f64, rate: Option<u64>, lock: Box<dyn HostLock>) -> Admission {
        Admission { held: Vec::new(), share, rate, past: VecDeque::new(), lock }
    }

    /// Holds a test until `until` at least, if it is held. True if it is.
    pub(super) fn extend(&mut self, run: Uuid, attempt: Attempt, until: Mono) -> bool {
        let held = self.held.iter_mut().find(|held| (held.run, held.attempt) == (run, attempt));
        let Some(held) = held else { return false };
        held.until = held.until.max(until);
        true
    }

    /// Longest test that the share of the time has room for, ns; `None` where the share is all of
    /// it.
    pub(super) fn longest(&self) -> Option<u64> {
        (self.share < 1.0).then_some((self.share * WINDOW as f64) as u64)
    }

    /// Admits a test, or says for how long none is admitted, ns.
    pub(super) fn admit(&mut self, now: Mono, wanted: AdmittedTest) -> Result<(), u64> {
        self.expire(now);
        let ends = |class: CostClass| self.held.iter().filter(move |of| of.class == class).map(|of| of.until);
        let is_full = |most: u32| ends(wanted.class).count() >= most as usize;
        let blocked = match wanted.class {
            CostClass::Exclusive => ends(CostClass::Exclusive).chain(ends(CostClass::Limited)).max(),
            CostClass::Limited if is_full(MAX_LIMITED) => ends(CostClass::Limited).min(),
            CostClass::Limited => ends(CostClass::Exclusive).max(),
            CostClass::Background if is_full(MAX_BACKGROUND) => ends(CostClass::Background).min(),
            CostClass::Background => None,
        };
        if let Some(until) = blocked.into_iter().chain(self.without_rate(&wanted)).max() {
            return Err(until.since(now).max(MILLISECOND));
        }
        self.within_share(now, wanted.until)?;
        if wanted.class != CostClass::Background && !self.occupies() && !self.lock.take() {
            return Err(ELSEWHERE);
        }
        self.held.push(wanted);
        Ok(())
    }

    /// When the host may have bits to spare for a test again; `None` where it has them now.
    fn without_rate(&self, wanted: &AdmittedTest) -> Option<Mono> {
        let most = self.rate?;
        // The server of a run may send as much as the host, whatever was said of the test that is
        // reserved there.
        let is_other = |held: &&AdmittedTest| !held.is_client && !wanted.is_client && held.run != wanted.run;
        let others = self.held.iter().filter(is_other).map(|held| held.until).min();
        let rate = |held: &AdmittedTest| held.rate.unwrap_or(most);
        let used = self.held.iter().map(rate).fold(rate(wanted), u64::saturating_add);
        let full = self.held.iter().map(|held| held.until).min().filter(|_| used > most);
        others.into_iter().chain(full).max()
    }

    /// A test is over.
    pub(super) fn release(&mut self, now: Mono, run: Uuid, attempt: Attempt) {
        let at = self.held.iter().position(|held| (held.run, held.attempt) == (run, attempt));
        let Some(at) = at else { return };
        let held = self.held.swap_remove(at);
        if self.share < 1.0 {
            self.past.push_back((held.from, now.min(held.until)));
        }
        if held.class != CostClass::Background && !self.occupies() {
            self.lock.release();
        }
    }

    /// Ends the reservations whose time is over. Clients' reservations end with their process.
    pub(super) fn expire(&mut self, now: Mono) {
        let over = self.held.iter().filter(|held| held.until <= now && !held.is_client);
        for held in over.copied().collect::<Vec<_>>() {
            self.release(now, held.run, held.attempt);
        }
        while self.past.front().is_some_and(|(_, end)| now.since(*end) > WINDOW) {
            self.past.pop_front();
        }
    }

    /// When the next reservation ends by itself.
    pub(super) fn next_end(&self) -> Option<Mono> {
        self.held.iter().filter(|held| !held.is_client).map(|held| held.until).min()
    }

    /// True if tests other than background ones are held.
    fn occupies(&self) -> bool {
        self.held.iter().any(|held| held.class != CostClass::Background)
    }

    /// True if another agent of this host has tests other than background ones, which is known on
    /// Linux only.
    pub(super) fn is_elsewhere(&mut self) -> bool {
        if self.occupies() {
            return false;
        }
        let is_free = self.lock.take();
        self.lock.release();
        !is_free
    }

    /// Accepts a test until `until` within the share of the time; else the error is the wait for
    /// such a time, ns.
    fn within_share(&self, now: Mono, until: Mono) -> Result<(), u64> {
        let Some(budget) = self.longest() else { return Ok(()) };
        let begin = Mono(now.0.saturating_sub(WINDOW));
        let mut used: u64 = self.past.iter().map(|(from, end)| end.since(begin.max(*from))).sum();
        let held = self.held.iter();
        used += held.clone().map(|held| held.until.since(begin.max(held.from))).sum::<u64>();
        used += until.since(now);
        let mut excess = used.saturating_sub(budget);
        if excess == 0 {
            return Ok(());
        }
        // The oldest tests leave the window first.
        for (from, end) in &self.past {
            let length = end.since(begin.max(*from));
            if length >= excess {
                return Err(begin.max(*from).plus(excess).since(begin).max(MILLISECOND));
            }
            excess -= length;
        }
        // A test that runs may end before its time: the share is looked at again when the first one
        // is over.
        let end = held.map(|held| held.until).min();
        Err(end.map_or(WINDOW, |end| end.since(now).max(MILLISECOND)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TaskId;
    use std::cell::Cell;
    use std::rc::Rc;

    /// A lock that another agent may have.
    #[derive(Clone, Default)]
    struct Other(Rc<Cell<bool>>, Rc<Cell<bool>>);

    impl HostLock for Other {
        fn take(&mut self) -> bool {
            self.1.set(!self.0.get());
            !self.0.get()
        }
        fn release(&mut self) {
            self.1.set(false);
        }
    }

    fn held(task: u32, class: CostClass, from: u64, until: u64) -> AdmittedTest {
        let attempt = Attempt { task: TaskId(task), number: 1 };
        AdmittedTest {
            run: Uuid::nil(),
            attempt,
            class,
            from: Mono(from),
            until: Mono(until),
            is_client: task.is_multiple_of(2),
            rate: None,
        }
    }

    fn admission(share: f64) -> Admission {
        Admission::new(share, None, Box::new(Other::default()))
    }

    #[test]
    fn one_exclusive_test_at_a_time() {
        use CostClass::{Background, Exclusive, Limited};
        let mut all = admission(1.0);
        let at = |ms: u64| Mono(ms * MILLISECOND);
        let on = |task, class, until: u64| held(task, class, 0, until * MILLISECOND);
        assert_eq!(all.admit(at(0), on(1, Exclusive, 500)), Ok(()));
        assert_eq!(all.admit(at(100), on(3, Exclusive, 500)), Err(400 * MILLISECOND));
        assert_eq!(all.admit(at(100), on(3, Limited, 500)), Err(400 * MILLISECOND));
        assert_eq!(all.admit(at(100), on(5, Background, 500)), Ok(()));
        assert_eq!(all.admit(at(500), on(3, Limited, 900)), Ok(()), "a reservation ends by itself");
        assert_eq!(all.admit(at(500), on(7, Exclusive, 900)), Err(400 * MILLISECOND));
        for task in 0..3 {
            assert_eq!(all.admit(at(500), on(100 + task, Limited, 800)), Ok(()));
        }
        assert_eq!(all.admit(at(500), on(9, Limited, 900)), Err(300 * MILLISECOND));
        let attempt = Attempt { task: TaskId(101), number: 1 };
        assert_eq!(all.held.len(), 4);
        for _ in 0..2 {
            all.release(at(600), Uuid::nil(), attempt);
            assert_eq!(all.held.len(), 3);
        }
        assert_eq!(all.admit(at(600), on(9, Limited, 900)), Ok(()));
    }

    #[test]
    fn a_client_ends_with_its_process_and_not_by_the_clock() {
        let mut all = admission(1.0);
        assert_eq!(all.admit(Mono(0), held(2, CostClass::Exclusive, 0, 10)), Ok(()));
        assert!(all.admit(Mono(20), held(4, CostClass::Exclusive, 20, 30)).is_err());
    }

    #[test]
    fn another_agent_of_the_host_counts() {
        let other = Other::default();
        let mut all = Admission::new(1.0, None, Box::new(other.clone()));
        other.0.set(true);
        assert_eq!(all.admit(Mono(0), held(1, CostClass::Exclusive, 0, 10)), Err(ELSEWHERE));
        assert_eq!(all.admit(Mono(0), held(3, CostClass::Background, 0, 10)), Ok(()));
        other.0.set(false);
        assert_eq!(all.admit(Mono(0), held(1, CostClass::Exclusive, 0, 10)), Ok(()));
        assert!(other.1.get());
        all.expire(Mono(10));
        assert!(!other.1.get(), "the lock goes with the last test that needs it");
    }

    #[test]
    fn the_bits_of_all_tests_together_are_bounded() {
        let mut all = Admission::new(1.0, Some(8_000_000), Box::new(Other::default()));
        let on = |task, rate, until| AdmittedTest { rate, ..held(task, CostClass::Background, 0, until) };
        assert_eq!(all.admit(Mono(0), on(2, Some(5_000_000), SECOND)), Ok(()));
        assert_eq!(all.admit(Mono(0), on(4, Some(3_000_000), 2 * SECOND)), Ok(()));
        assert_eq!(all.admit(Mono(0), on(6, Some(1), SECOND)), Err(SECOND));
        all.release(Mono(0), Uuid::nil(), Attempt { task: TaskId(2), number: 1 });
        assert_eq!(
            all.admit(Mono(0), on(6, None, SECOND)),
            Err(2 * SECOND),
            "one without a bound is the whole"
        );
        assert_eq!(all.admit(Mono(0), on(1, Some(5_000_000), SECOND)), Ok(()));
        let other = AdmittedTest { run: Uuid::from_u128(1), ..on(3, Some(0), SECOND) };
        assert_eq!(all.admit(Mono(0), other), Err(SECOND), "the server of another run");
    }

    #[test]
    fn the_share_of_time_is_kept() {
        let mut all = admission(0.1);
        let minute = 60 * SECOND;
        assert_eq!(all.admit(Mono(0), held(1, CostClass::Exclusive, 0, minute)), Ok(()));
        all.expire(Mono(minute));
        let wait =
            all.admit(Mono(minute), held(3, CostClass::Exclusive, minute, minute + SECOND)).unwrap_err();
        assert!(wait <= WINDOW, "{wait}");
        let then = Mono(WINDOW + 2 * SECOND);
        assert_eq!(all.admit(then, held(3, CostClass::Exclusive, then.0, then.0 + SECOND)), Ok(()));
        // The time of tests that run counts in the share, too.
        let mut all = admission(0.1);
        let limited = |task| held(task, CostClass::Limited, 0, minute / 2);
        assert_eq!([1, 3].map(|task| all.admit(Mono(0), limited(task))), [Ok(()), Ok(())]);
        assert_eq!(all.admit(Mono(0), limited(5)), Err(minute / 2));
        // And so does that of background tests.
        let mut all = admission(0.1);
        assert_eq!(all.admit(Mono(0), held(1, CostClass::Background, 0, minute)), Ok(()));
        assert!(all.admit(Mono(0), held(3, CostClass::Background, 0, SECOND)).is_err());
        // As many as there is time for: at most the share, in any window.
        let (mut all, mut now, mut used) = (admission(0.25), Mono(0), 0);
        while now.0 < WINDOW {
            match all.admit(now, held(5, CostClass::Exclusive, now.0, now.0 + 7 * SECOND)) {
                Ok(()) => {
                    used += 7 * SECOND;
                    now = now.plus(7 * SECOND);
                    all.expire(now);
                }
                Err(wait) => now = now.plus(wait.max(SECOND)),
            }
        }
        assert!(used <= WINDOW / 4, "{used}");
    }
}
