//! The server's state bytes, and the documents of both ends.

use super::{Client, ClientStep, GROUP, TOO_OLD};
use crate::codec::{LONGEST_RESULTS, StateByte, error_text, framed};
use crate::dial::Dialer;
use crate::params;
use crate::results;
use crate::test_state::TestState;
use metrics::{Clamped, SECOND};
use model::{Status, Verify};
use std::sync::Arc;
use transport::{Context, GroupPlan, LinkSource};

impl Client {
    /// The next thing that the server has said; false when there is none yet.
    pub(super) fn next(&mut self, cx: &Context<'_>) -> bool {
        if matches!(self.step, ClientStep::Closing | ClientStep::Over) {
            return false;
        }
        if self.step == ClientStep::Exchanging {
            return self.results(cx);
        }
        if self.inbox.awaits_code() {
            return false;
        }
        let Some(byte) = self.inbox.byte() else { return false };
        self.on_state(cx, byte);
        true
    }

    pub(super) fn on_state(&mut self, cx: &Context<'_>, byte: u8) {
        match (StateByte(byte), self.step) {
            (StateByte::PARAM_EXCHANGE, ClientStep::Greeting) => {
                let text = params::write(&self.plan.parameters);
                self.say(framed(&text));
                self.enter(ClientStep::Asking, cx.now);
            }
            (StateByte::CREATE_STREAMS, ClientStep::Asking) => self.create(cx),
            // Our own workers report the streams, perhaps a little later.
            (StateByte::TEST_START, ClientStep::Creating) => {}
            (StateByte::TEST_RUNNING, ClientStep::Creating) => {
                self.enter(ClientStep::Gathering, cx.now);
                self.gathered(cx);
            }
            (StateByte::EXCHANGE_RESULTS, ClientStep::Ended) => self.send_results(cx),
            (StateByte::DISPLAY_RESULTS, ClientStep::Results) => {
                self.say(vec![StateByte::DONE.0]);
                self.close(cx);
            }
            (StateByte::DENIED, _) => self.fail(cx, "the server is busy running a test. try again later"),
            (StateByte::SERVER_TERMINATE, _) => {
                self.say(vec![StateByte::DONE.0]);
                self.fail(cx, "the server has terminated");
            }
            // The error's code follows; further bytes are not needed.
            (StateByte::SERVER_ERROR, _) => {
                let number = self.inbox.number().unwrap_or_default();
                let why = format!("server error: {} ({number})", error_text(number));
                // The server's reason explains the streams that it closed, whose errors may be
                // known already.
                if self.driver.status != Status::Interrupted {
                    self.driver.reason = Some(why.clone());
                }
                self.fail(cx, why);
            }
            (_, ClientStep::Greeting) => self.fail(cx, "it answers, but it is not an iperf3 server"),
            _ => self.fail(cx, format!("the server sent an unexpected state ({byte})")),
        }
    }

    /// The streams are wanted.
    pub(super) fn create(&mut self, cx: &Context<'_>) {
        let terms = self.plan.parameters.terms.clone();
        let store = self.plan.store.clone();
        let mut test_state = TestState::new(GROUP, terms.clone(), self.cookie, false);
        test_state.discard = self.plan.phase.verify == Verify::None && store.is_none();
        test_state.store = store;
        let whole = self.plan.phase.sockets.whole_segments;
        let test_state = Arc::new(test_state.in_whole_segments(whole));
        let connectors = Dialer::one_per_worker(&test_state, &self.plan);
        let (congestion, interval) = (terms.congestion, self.plan.phase.interval_ns);
        let plan = GroupPlan {
            throttle: 1,
            connect_timeout: self.plan.begin_ns.min(30 * SECOND),
            records: self.plan.records,
            ..test_state.group_plan(interval, congestion, self.plan.user_timeout_ns)
        };
        self.test_state = Some(test_state);
        self.driver.group(plan, LinkSource::connectors(connectors));
        self.enter(ClientStep::Creating, cx.now);
    }

    pub(super) fn send_results(&mut self, cx: &Context<'_>) {
        let Some(stats) = &self.stats else { return };
        let ours = stats.results(&self.plan.congestion, None);
        self.say(framed(&results::write(&ours)));
        self.enter(ClientStep::Exchanging, cx.now);
    }

    pub(super) fn results(&mut self, cx: &Context<'_>) -> bool {
        let streams = self.plan.parameters.terms.all_streams();
        let Some(text) = self.inbox.document(LONGEST_RESULTS).transpose() else { return false };
        match text.and_then(|text| results::read(&text, streams)) {
            // The server took our streams for another client's, or left them waiting.
            Ok(remote) if self.plan.parameters.terms.bidir && u32::clamped(remote.lines.len()) < streams => {
                self.fail(cx, TOO_OLD);
                false
            }
            Ok(remote) => {
                if let Some(stats) = &mut self.stats {
                    stats.remote = Some(remote);
                }
                self.enter(ClientStep::Results, cx.now);
                true
            }
            Err(why) => {
                self.fail(cx, format!("the server's results cannot be used: {why}"));
                false
            }
        }
    }
}
