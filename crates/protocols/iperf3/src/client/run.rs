//! A client's test while it runs: its beginning, what its streams tell, its end.

use super::{Client, GROUP, Step, TOO_OLD};
use crate::codec::State;
use crate::server::or_second;
use crate::stream_stats::{self, StreamStats};
use crate::test_state::{Posted, Standing};
use common::message::{Heard, hear};
use metrics::{Clamped, Mono, SECOND};
use model::Status;
use transport::{Context, Message, Order};

impl Client {
    /// Begins once all streams have been told, or will not be.
    pub(super) fn gathered(&mut self, cx: &Context<'_>) {
        let terms = &self.plan.parameters.terms;
        let joined = u32::clamped(self.joined.len());
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
        self.used = (self.plan.meter)();
        let terms = self.plan.parameters.terms.clone();
        let sends = |slot| test_state.sends(slot);
        let interval = or_second(self.plan.interval_ns);
        self.stats = Some(StreamStats::new(GROUP, &terms, interval, cx.now, sends));
        let omit = u64::from(terms.omit_s) * SECOND;
        self.driver.count_from(cx.now, omit, &self.plan.phase);
        self.driver.order(GROUP, Order::Start(cx.now));
        self.tell_begin(cx, &test_state);
    }

    /// Something is due in a running test.
    pub(super) fn run_on(&mut self, cx: &Context<'_>) {
        let receives = self.plan.parameters.terms.reverse;
        let Some(stats) = &mut self.stats else { return };
        if receives && stats.silent_at(self.plan.silence_ns) <= cx.now {
            match stats.look(cx.now) {
                Some(tag) => self.driver.order(GROUP, Order::Ask(tag)),
                None => return self.fail(cx, "idle timeout for receiving data".to_owned()),
            }
        }
        if let Some(tag) = stats.ask(cx.now) {
            self.driver.order(GROUP, Order::Ask(tag));
        }
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
        self.cpu = stream_stats::cpu(self.used, (self.plan.meter)(), cx.now.since(self.since));
        self.enter(Step::Freezing, cx.now);
        if let Some(stats) = &mut self.stats {
            let tag = stats.freeze(cx.now);
            self.driver.order(GROUP, Order::Freeze(tag));
        }
        self.check_frozen(cx);
    }

    pub(super) fn check_frozen(&mut self, cx: &Context<'_>) {
        if self.step == Step::Freezing && self.stats.as_ref().is_none_or(StreamStats::complete) {
            self.say(vec![State::TestEnd.byte()]);
            self.enter(Step::Ended, cx.now);
        }
    }

    pub(super) fn note(&mut self, cx: &Context<'_>, message: Message) {
        let Heard::Own(posted) = hear(message) else { return };
        match posted {
            Posted::Standing(standing) => self.standing(cx, &standing),
            Posted::Joined { when, path, .. } => {
                self.joined.insert(when, path);
                self.gathered(cx);
            }
            Posted::Spent { slot, sender } => self.enough(cx, slot, sender),
            Posted::Gone(why) => match self.step {
                Step::Creating | Step::Gathering => {
                    self.fail(cx, format!("a stream did not come about: {why}"));
                }
                Step::Running => {
                    self.driver.status = Status::Partial;
                    let why = if self.turned_away() { TOO_OLD.to_owned() } else { why };
                    self.driver.reason.get_or_insert(why);
                    self.freeze(cx);
                }
                _ => {}
            },
            Posted::Visit(..) => {}
        }
    }

    /// The streams that should carry data received only the byte of a refusal: the server supports one
    /// direction only, and took these streams for another client's.
    fn turned_away(&self) -> bool {
        let rows = self.stats.as_ref().map(StreamStats::rows).unwrap_or_default();
        let came: Vec<u64> = rows.iter().filter(|row| !row.sender).map(|row| row.bytes).collect();
        self.plan.parameters.terms.bidir && came.contains(&1) && came.iter().all(|bytes| *bytes <= 1)
    }

    pub(super) fn standing(&mut self, cx: &Context<'_>, standing: &Standing) {
        let Some(stats) = &mut self.stats else { return };
        let told = stats.hear(standing);
        self.tell_intervals(told);
        self.check_frozen(cx);
    }

    /// A stream has sent all that it may, or enough has come.
    pub(super) fn enough(&mut self, cx: &Context<'_>, slot: u32, sender: bool) {
        self.spent.insert(slot);
        let Some(test_state) = &self.test_state else { return };
        let senders = (0..test_state.terms.all_streams()).filter(|slot| test_state.sends(*slot));
        let all_sent = senders.into_iter().all(|slot| self.spent.contains(&slot));
        if !sender || all_sent {
            self.freeze(cx);
        }
    }
}
