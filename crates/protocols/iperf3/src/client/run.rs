//! A client's test while it runs: its beginning, the reports of its streams, its end.

use super::{Client, ClientStep, GROUP, TOO_OLD};
use crate::codec::StateByte;
use crate::stream_stats::StreamStats;
use crate::test_state::{Posted, StreamState};
use common::message::{SessionMessage, downcast};
use metrics::{Clamped, SECOND};
use model::Status;
use transport::{Context, Message, Order};

impl Client {
    /// Begins once all streams are known, or their time is over.
    pub(super) fn gathered(&mut self, cx: &Context<'_>) {
        let terms = &self.plan.parameters.terms;
        let joined = u32::clamped(self.joined.len());
        if self.step != ClientStep::Gathering || (joined < terms.all_streams() && cx.now < self.due()) {
            return;
        }
        // The server has begun: with half of the streams, or an answer to the last was lost.
        if terms.bidir && joined <= terms.streams {
            return self.fail(cx, TOO_OLD);
        }
        self.begin(cx);
    }

    pub(super) fn begin(&mut self, cx: &Context<'_>) {
        let Some(test_state) = self.test_state.clone() else { return };
        self.enter(ClientStep::Running, cx.now);
        let (interval, silence) = (self.plan.interval_ns, self.plan.silence_ns);
        let used = (self.plan.meter)();
        let stats = StreamStats::new(test_state.clone(), interval, silence, used, cx.now);
        self.stats = Some(stats);
        let omit = u64::from(test_state.terms.omit_s) * SECOND;
        self.driver.count_from(cx.now, omit, &self.plan.phase);
        self.driver.order(GROUP, Order::Start(cx.now));
        self.report_begin(cx, &test_state);
    }

    /// Something is due in a running test.
    pub(super) fn run_on(&mut self, cx: &Context<'_>) {
        let Some(stats) = &mut self.stats else { return };
        if stats.end() <= cx.now {
            return self.freeze(cx);
        }
        match stats.questions(cx.now) {
            Some(tags) => tags.into_iter().for_each(|tag| self.driver.order(GROUP, Order::Ask(tag))),
            None => self.fail(cx, "idle timeout for receiving data"),
        }
    }

    pub(super) fn freeze(&mut self, cx: &Context<'_>) {
        if self.step != ClientStep::Running {
            return;
        }
        self.enter(ClientStep::Freezing, cx.now);
        if let Some(stats) = &mut self.stats {
            let tag = stats.freeze(cx.now, (self.plan.meter)());
            self.driver.order(GROUP, Order::Freeze(tag));
        }
        self.check_frozen(cx);
    }

    pub(super) fn check_frozen(&mut self, cx: &Context<'_>) {
        if self.step == ClientStep::Freezing && self.stats.as_ref().is_none_or(StreamStats::complete) {
            self.say(vec![StateByte::TEST_END.0]);
            self.enter(ClientStep::Ended, cx.now);
        }
    }

    pub(super) fn note(&mut self, cx: &Context<'_>, message: Message) {
        let SessionMessage::Own(posted) = downcast(message) else { return };
        match posted {
            Posted::Progress(standing) => self.standing(cx, &standing),
            Posted::Joined { when, path, .. } => {
                self.joined.insert(when, path);
                self.gathered(cx);
            }
            Posted::Spent { slot, sender } => self.enough(cx, slot, sender),
            Posted::Gone(why) => match self.step {
                ClientStep::Creating | ClientStep::Gathering => {
                    self.fail(cx, format!("a stream could not be opened: {why}"));
                }
                ClientStep::Running => {
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

    /// The streams that should carry data received only the byte of a refusal: the server supports
    /// one direction only, and took these streams for another client's.
    fn turned_away(&self) -> bool {
        let rows = self.stats.as_ref().map(StreamStats::rows).unwrap_or_default();
        let came: Vec<u64> = rows.iter().filter(|row| !row.sender).map(|row| row.bytes).collect();
        self.plan.parameters.terms.bidir && came.contains(&1) && came.iter().all(|bytes| *bytes <= 1)
    }

    pub(super) fn standing(&mut self, cx: &Context<'_>, standing: &StreamState) {
        let Some(stats) = &mut self.stats else { return };
        let told = stats.update(standing);
        told.into_iter().for_each(|news| self.report(news));
        self.check_frozen(cx);
    }

    /// A stream has sent all that it may, or enough was received.
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
