//! Tests that run, and how they end.

use super::{GRACE, Server, Test, TestStep};
use crate::codec::{LONGEST_CLIENT_RESULTS, StateByte, code, framed};
use crate::results;
use crate::stream_stats::StreamStats;
use crate::test_state::StreamState;
use metrics::{Group, Mono, SECOND};

use transport::{Context, Link, Order};

impl Server {
    /// Something is due in a running test.
    pub(super) fn run_on(&mut self, cx: &Context<'_>, link: Link) {
        let Some(stats) = self.tests.get_mut(&link).and_then(|test| test.stats.as_mut()) else { return };
        if expires(stats) <= cx.now {
            return self.fail(cx, link, code::EXPIRED, "the test took longer than it was to");
        }
        let (group, questions) = (stats.group(), stats.questions(cx.now));
        let Some(tags) = questions else {
            return self.fail(cx, link, code::SILENCE, "nothing arrived for too long");
        };
        tags.into_iter().for_each(|tag| self.driver.order(group, Order::Ask(tag)));
    }

    /// A stream has reported its counts.
    pub(super) fn standing(&mut self, cx: &Context<'_>, standing: &StreamState) {
        let Some((link, test)) = self.of(standing.group) else { return };
        let Some(stats) = &mut test.stats else { return };
        let told = stats.update(standing);
        let complete = stats.complete();
        let freezing = test.step == TestStep::Freezing;
        told.into_iter().for_each(|news| self.report(link, news));
        if freezing && complete {
            self.exchange(cx, link);
        }
    }

    /// Bytes that a test has moved in an interval: the limit is kept over the last seconds.
    pub(super) fn moved(&mut self, cx: &Context<'_>, group: Group, bytes: u64, ns: u64) {
        let Some((most, over_s)) = self.plan.options.limits.rate else { return };
        let Some((link, test)) = self.of(group).filter(|(_, test)| test.step == TestStep::Running) else {
            return;
        };
        test.recent.push_back((bytes, ns));
        let span = u64::from(over_s.max(1)) * SECOND;
        let sum =
            |test: &Test| test.recent.iter().fold((0_u64, 0_u64), |(b, t), &(bytes, ns)| (b + bytes, t + ns));
        while test.recent.len() > 1 && sum(test).1 > span + SECOND / 2 {
            test.recent.pop_front();
        }
        let (bytes, ns) = sum(test);
        // An interval's edges are some microseconds off.
        let enough = ns + SECOND / 100 >= span;
        if enough && u128::from(bytes) * 8 * u128::from(SECOND) > u128::from(most) * u128::from(ns) {
            self.fail(cx, link, code::RATE, "the test moved more than this server allows");
        }
    }

    /// The client says that the test is over.
    pub(super) fn freeze(&mut self, cx: &Context<'_>, link: Link) {
        let used = (self.plan.meter)();
        let Some(test) = self.tests.get_mut(&link) else { return };
        let Some(stats) = &mut test.stats else { return };
        let (group, tag) = (stats.group(), stats.freeze(cx.now, used));
        let complete = stats.complete();
        (test.step, test.since) = (TestStep::Freezing, cx.now);
        self.driver.order(group, Order::Freeze(tag));
        if complete {
            self.exchange(cx, link);
        }
    }

    /// Goes on without the final counts of streams that have not reported: their last counts are
    /// used.
    pub(super) fn settle(&mut self, cx: &Context<'_>, link: Link) {
        let Some(stats) = self.tests.get_mut(&link).and_then(|test| test.stats.as_mut()) else { return };
        let told = stats.settle();
        told.into_iter().for_each(|news| self.report(link, news));
        self.exchange(cx, link);
    }

    fn exchange(&mut self, cx: &Context<'_>, link: Link) {
        if let Some(test) = self.tests.get_mut(&link) {
            (test.step, test.since) = (TestStep::Exchanging, cx.now);
            self.state(link, StateByte::EXCHANGE_RESULTS);
            while self.results(cx, link) {}
        }
    }

    /// Reads the client's results, when they have arrived; ours are sent then.
    pub(super) fn results(&mut self, cx: &Context<'_>, link: Link) -> bool {
        let Some(test) = self.tests.get_mut(&link).filter(|test| test.step == TestStep::Exchanging) else {
            return false;
        };
        let streams = test.parameters.terms.all_streams();
        let Some(text) = test.inbox.document(LONGEST_CLIENT_RESULTS).transpose() else { return false };
        let remote = match text.and_then(|text| results::read(&text, streams)) {
            Ok(remote) => remote,
            Err(why) => {
                self.fail(cx, link, code::RESULTS, why);
                return false;
            }
        };
        if let Some(stats) = &mut test.stats {
            stats.remote = Some(remote);
        }
        self.end_of(link, None);
        let Some(test) = self.tests.get_mut(&link) else { return false };
        let output = match (test.parameters.terms.server_output, self.plan.options.render) {
            (true, Some(render)) => Some(render(&test.printout.events)),
            _ => None,
        };
        let Some(stats) = &test.stats else { return false };
        let ours = stats.results(&self.plan.congestion.0, output);
        (test.step, test.since) = (TestStep::Parting, cx.now);
        self.say(link, framed(&results::write(&ours)));
        self.state(link, StateByte::DISPLAY_RESULTS);
        true
    }

    /// Reports the ending of a test.
    pub(super) fn end_of(&mut self, link: Link, error: Option<String>) {
        let Some(test) = self.tests.get_mut(&link) else { return };
        let Some(stats) = &mut test.stats else { return };
        let told = stats.settle();
        let ended = stats.ended(&self.plan.congestion.0, error);
        told.into_iter().for_each(|news| self.report(link, news));
        self.report(link, ended);
    }
}

/// When a running test has taken too long.
pub(super) fn expires(stats: &StreamStats) -> Mono {
    stats.end().plus(GRACE)
}
