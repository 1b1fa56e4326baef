//! A client's test while it runs: its beginning, what its streams tell, its end.

use super::{Client, GROUP, Step, TOO_OLD};
use crate::BulkCpu;
use crate::codec::State;
use crate::counted::Intervals;
use crate::ledger::Ledger;
use crate::test_state::{Gone, Joined, Spent, Standing};
use metrics::{Mono, SECOND};
use model::Status;
use transport::{Action, Context, Message, Order};

impl Client {
    /// Begins once all streams have been told, or will not be.
    pub(super) fn gathered(&mut self, cx: &Context<'_>) {
        let terms = &self.plan.parameters.terms;
        let joined = self.joined.len() as u32;
        let all = joined >= terms.all_streams();
        match self.step {
            Step::Gathering if all => self.begin(cx),
            Step::Gathering if cx.now >= self.due() => {
                // The server has begun: with half of the streams, or an answer to the last was lost.
                match terms.bidir && joined <= terms.streams {
                    true => self.fail(cx, TOO_OLD.to_owned()),
                    false => self.begin(cx),
                }
            }
            _ => {}
        }
    }

    pub(super) fn begin(&mut self, cx: &Context<'_>) {
        let Some(test_state) = self.test_state.clone() else { return };
        self.enter(Step::Running, cx.now);
        self.started = Some(cx.now);
        self.heard = cx.now;
        self.used = (self.plan.meter)();
        let terms = self.plan.parameters.terms.clone();
        let every = if self.plan.interval_ns == 0 { SECOND } else { self.plan.interval_ns };
        let mut ledger = Ledger::new(GROUP, &terms, every, |slot| test_state.sends(slot));
        ledger.begin(cx.now);
        self.ledger = Some(ledger);
        let omit = u64::from(terms.omit_s) * SECOND;
        self.intervals = Intervals::new(cx.now, omit, &self.plan.phase);
        self.actions.push_back(Action::Order(GROUP, Order::Start(cx.now)));
        self.tell_begin(cx, &test_state);
    }

    /// When the test is over by the clock.
    pub(super) fn end(&self) -> Mono {
        let terms = &self.plan.parameters.terms;
        let length = u64::from(terms.time_s) + u64::from(terms.omit_s);
        match self.started {
            Some(start) if terms.time_s > 0 => start.plus(length * SECOND),
            _ => Mono(u64::MAX),
        }
    }

    pub(super) fn freeze(&mut self, cx: &Context<'_>) {
        if self.step != Step::Running {
            return;
        }
        let now = (self.plan.meter)();
        let ns = cx.now.since(self.since).max(1) as f64;
        let share = |now: f64, then: f64| (now - then).max(0.0) * 1e11 / ns;
        let (user, system) = (share(now.0, self.used.0), share(now.1, self.used.1));
        self.cpu = BulkCpu { total: user + system, user, system };
        self.enter(Step::Freezing, cx.now);
        if let Some(ledger) = &mut self.ledger {
            let tag = ledger.freeze(cx.now);
            self.actions.push_back(Action::Order(GROUP, Order::Freeze(tag)));
        }
        self.check_frozen(cx);
    }

    pub(super) fn check_frozen(&mut self, cx: &Context<'_>) {
        if self.step == Step::Freezing && self.ledger.as_ref().is_none_or(Ledger::complete) {
            self.say(vec![State::TestEnd.byte()]);
            self.enter(Step::Ended, cx.now);
        }
    }

    pub(super) fn note(&mut self, cx: &Context<'_>, message: Message) {
        let message = match message.downcast::<Standing>() {
            Ok(standing) => return self.standing(cx, &standing),
            Err(message) => message,
        };
        let message = match message.downcast::<Joined>() {
            Ok(joined) => {
                self.joined.insert(joined.when, joined.path);
                return self.gathered(cx);
            }
            Err(message) => message,
        };
        let message = match message.downcast::<Spent>() {
            Ok(spent) => return self.enough(cx, &spent),
            Err(message) => message,
        };
        if let Ok(gone) = message.downcast::<Gone>() {
            match self.step {
                Step::Creating | Step::Gathering => {
                    self.fail(cx, format!("a stream did not come about: {}", gone.why));
                }
                Step::Running => {
                    self.status = Status::Partial;
                    let why = if self.turned_away() { TOO_OLD.to_owned() } else { gone.why };
                    self.error.get_or_insert(why);
                    self.freeze(cx);
                }
                _ => {}
            }
        }
    }

    /// The streams that should carry data received only the byte of a refusal: the server supports one
    /// direction only, and took these streams for another client's.
    fn turned_away(&self) -> bool {
        let rows = self.ledger.as_ref().map(Ledger::rows).unwrap_or_default();
        let came: Vec<u64> = rows.iter().filter(|row| !row.sender).map(|row| row.bytes).collect();
        self.plan.parameters.terms.bidir && came.contains(&1) && came.iter().all(|bytes| *bytes <= 1)
    }

    pub(super) fn standing(&mut self, cx: &Context<'_>, standing: &Standing) {
        let Some(ledger) = &mut self.ledger else { return };
        let told = ledger.hear(standing);
        if told.iter().any(|told| told.rows.iter().any(|row| !row.sender && row.bytes > 0)) {
            self.heard = cx.now;
        }
        self.tell_intervals(told);
        self.check_frozen(cx);
    }

    /// A stream has sent all that it may, or enough has come.
    pub(super) fn enough(&mut self, cx: &Context<'_>, spent: &Spent) {
        self.spent.insert(spent.slot, spent.sender);
        let Some(test_state) = &self.test_state else { return };
        let senders = (0..test_state.terms.all_streams()).filter(|slot| test_state.sends(*slot));
        let all_sent = senders.into_iter().all(|slot| self.spent.contains_key(&slot));
        if !spent.sender || all_sent {
            self.freeze(cx);
        }
    }
}
