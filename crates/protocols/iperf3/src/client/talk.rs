//! What the server says, and the documents of both.

use super::{Client, GROUP, Step, TOO_OLD};
use crate::codec::{LONGEST_RESULTS, State, error_text, framed};
use crate::dial::Dialer;
use crate::params;
use crate::results;
use crate::server::socket_settings;
use crate::test_state::TestState;
use metrics::{Clamped, SECOND};
use model::{SocketSettings, Status, Verify};
use std::sync::Arc;
use transport::{Context, GroupPlan, LinkSource, WHEN_TOLD};

impl Client {
    /// The next thing that the server has said; false when there is none yet.
    pub(super) fn next(&mut self, cx: &Context<'_>) -> bool {
        if matches!(self.step, Step::Closing | Step::Over) {
            return false;
        }
        if self.step == Step::Exchanging {
            return self.results(cx);
        }
        if self.inbox.awaits_code() {
            return false;
        }
        let Some(byte) = self.inbox.byte() else { return false };
        self.said(cx, byte);
        true
    }

    pub(super) fn said(&mut self, cx: &Context<'_>, byte: u8) {
        match (State::of(byte), self.step) {
            (Some(State::ParamExchange), Step::Greeting) => {
                let text = params::write(&self.plan.parameters);
                self.say(framed(&text));
                self.enter(Step::Asking, cx.now);
            }
            (Some(State::CreateStreams), Step::Asking) => self.create(cx),
            // Whether all streams are there our workers say, perhaps a little later.
            (Some(State::TestStart), Step::Creating) => {}
            (Some(State::TestRunning), Step::Creating) => {
                self.enter(Step::Gathering, cx.now);
                self.gathered(cx);
            }
            (Some(State::ExchangeResults), Step::Ended) => self.send_results(cx),
            (Some(State::DisplayResults), Step::Results) => {
                self.say(vec![State::Done.byte()]);
                self.close(cx);
            }
            (Some(State::Denied), _) => {
                self.fail(cx, "the server is busy running a test. try again later".to_owned());
            }
            (Some(State::ServerTerminate), _) => {
                self.say(vec![State::Done.byte()]);
                self.fail(cx, "the server has terminated".to_owned());
            }
            // Its code follows; of what may come behind that nothing is needed.
            (Some(State::ServerError), _) => {
                let number = self.inbox.number().unwrap_or_default();
                let why = format!("server error: {} ({number})", error_text(number));
                // The server's reason explains the streams that it closed, which may be told before.
                if self.driver.status != Status::Interrupted {
                    self.driver.reason = Some(why.clone());
                }
                self.fail(cx, why);
            }
            _ => self.fail(cx, format!("the server sent an unexpected state ({byte})")),
        }
    }

    /// The streams are wanted.
    pub(super) fn create(&mut self, cx: &Context<'_>) {
        let terms = self.plan.parameters.terms.clone();
        let store = self.plan.store.clone();
        let discard = self.plan.phase.verify == Verify::None && store.is_none();
        let test_state = TestState::new(GROUP, terms.clone(), self.cookie, false, discard);
        let test_state = test_state.with(store).in_whole_segments(self.plan.phase.sockets.whole_segments);
        let test_state = Arc::new(test_state);
        let to = self.plan.target.1;
        let connectors = Dialer::for_all(&test_state, to, self.plan.from, self.plan.port, self.plan.workers);
        let user_timeout_ns = self.plan.user_timeout_ns;
        let sockets = SocketSettings {
            user_timeout_ns,
            whole_segments: test_state.free,
            ..socket_settings(&terms, terms.congestion.clone())
        };
        let plan = GroupPlan {
            sockets,
            throttle: 1,
            connect_timeout: 30 * SECOND,
            omit: u64::from(terms.omit_s) * SECOND,
            records: self.plan.records,
            info: !terms.udp,
            packets: terms.udp,
            ..GroupPlan::new(GROUP, WHEN_TOLD, self.plan.phase.interval_ns)
        };
        self.test_state = Some(test_state);
        self.grouped = true;
        self.driver.group(plan, LinkSource::connectors(connectors));
        self.enter(Step::Creating, cx.now);
    }

    pub(super) fn send_results(&mut self, cx: &Context<'_>) {
        let Some(stats) = &self.stats else { return };
        let ours = stats.results(self.cpu, &self.plan.congestion, None);
        self.say(framed(&results::write(&ours)));
        self.enter(Step::Exchanging, cx.now);
    }

    pub(super) fn results(&mut self, cx: &Context<'_>) -> bool {
        let streams = self.plan.parameters.terms.all_streams();
        let remote = match self.inbox.document(LONGEST_RESULTS) {
            Ok(None) => return false,
            Ok(Some(text)) => results::read(&text, streams),
            Err(bad) => Err(bad.0),
        };
        match remote {
            // It took our streams for another client's, or left them waiting.
            Ok(remote) if self.plan.parameters.terms.bidir && u32::clamped(remote.lines.len()) < streams => {
                self.fail(cx, TOO_OLD.to_owned());
                false
            }
            Ok(remote) => {
                self.remote = Some(remote);
                self.enter(Step::Results, cx.now);
                true
            }
            Err(why) => {
                self.fail(cx, format!("the server's results cannot be used: {why}"));
                false
            }
        }
    }
}
