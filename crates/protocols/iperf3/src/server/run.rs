//! Tests that run, and how they end.

use super::{GRACE, Server, Step, Test};
use crate::BulkNews;
use crate::codec::{LONGEST_CLIENT_RESULTS, State, code, framed};
use crate::results;
use crate::stream_stats::{self, Told};
use crate::test_state::Standing;
use metrics::{Group, Mono, SECOND};

use transport::{Context, Link, Order};

impl Server {
    /// When a running test is to be looked at next.
    pub(super) fn running_due(&self, test: &Test) -> Mono {
        let asks = test.stats.as_ref().and_then(|stats| stats.due());
        asks.unwrap_or(Mono(u64::MAX)).min(expires(test)).min(self.silent_at(test))
    }

    /// When it is to be looked whether a running test that receives gets anything.
    fn silent_at(&self, test: &Test) -> Mono {
        let receiving = test.stats.as_ref().filter(|_| !test.parameters.terms.reverse);
        receiving.map_or(Mono(u64::MAX), |stats| stats.silent_at(self.plan.limits.silence_ns))
    }

    /// Something is due in a running test.
    pub(super) fn run_on(&mut self, cx: &Context<'_>, link: Link) {
        let Some(test) = self.tests.get(&link) else { return };
        if expires(test) <= cx.now {
            return self.fail(cx, link, code::EXPIRED, "the test took longer than it was to");
        }
        let silent = self.silent_at(test) <= cx.now;
        let Some(test) = self.tests.get_mut(&link) else { return };
        let (Some(group), Some(stats)) = (test.group, &mut test.stats) else { return };
        if silent {
            match stats.look(cx.now) {
                Some(tag) => self.driver.order(group, Order::Ask(tag)),
                None => return self.fail(cx, link, code::SILENCE, "nothing came for too long"),
            }
        }
        if let Some(tag) = stats.ask(cx.now) {
            self.driver.order(group, Order::Ask(tag));
        }
    }

    /// A stream says how it stands.
    pub(super) fn standing(&mut self, cx: &Context<'_>, standing: &Standing) {
        let Some(link) = self.of(standing.group) else { return };
        let Some(test) = self.tests.get_mut(&link) else { return };
        let Some(stats) = &mut test.stats else { return };
        let told = stats.hear(standing);
        let complete = stats.complete();
        let freezing = test.step == Step::Freezing;
        self.intervals(link, told);
        if freezing && complete {
            self.exchange(cx, link);
        }
    }

    fn intervals(&mut self, link: Link, told: Vec<Told>) {
        if self.plan.interval_ns == 0 {
            return;
        }
        for Told { omitted, rows } in told {
            self.tell(link, BulkNews::Interval { omitted, rows });
        }
    }

    /// Bytes that a test has moved in an interval: the limit is kept over the last seconds.
    pub(super) fn moved(&mut self, cx: &Context<'_>, group: Group, bytes: u64, ns: u64) {
        let (Some((most, over_s)), Some(link)) = (self.plan.limits.rate, self.of(group)) else { return };
        let Some(test) = self.tests.get_mut(&link).filter(|test| test.step == Step::Running) else { return };
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
        let now = (self.plan.meter)();
        let Some(test) = self.tests.get_mut(&link) else { return };
        let (Some(group), Some(stats)) = (test.group, &mut test.stats) else { return };
        let tag = stats.freeze(cx.now);
        test.cpu = stream_stats::cpu(test.used, now, cx.now.since(test.since));
        let complete = stats.complete();
        (test.step, test.since) = (Step::Freezing, cx.now);
        self.driver.order(group, Order::Freeze(tag));
        if complete {
            self.exchange(cx, link);
        }
    }

    /// Goes on without the final counts of streams that have not reported: their last counts are used.
    pub(super) fn settle(&mut self, cx: &Context<'_>, link: Link) {
        let Some(stats) = self.tests.get_mut(&link).and_then(|test| test.stats.as_mut()) else { return };
        let told = stats.settle();
        self.intervals(link, told);
        self.exchange(cx, link);
    }

    fn exchange(&mut self, cx: &Context<'_>, link: Link) {
        if let Some(test) = self.tests.get_mut(&link) {
            (test.step, test.since) = (Step::Exchanging, cx.now);
            self.state(link, State::ExchangeResults);
            while self.results(cx, link) {}
        }
    }

    /// The client's results, when they have come; ours are told then.
    pub(super) fn results(&mut self, cx: &Context<'_>, link: Link) -> bool {
        let Some(test) = self.tests.get_mut(&link).filter(|test| test.step == Step::Exchanging) else {
            return false;
        };
        let streams = test.parameters.terms.all_streams();
        let remote = match test.inbox.document(LONGEST_CLIENT_RESULTS) {
            Ok(None) => return false,
            Ok(Some(text)) => results::read(&text, streams),
            Err(bad) => Err(bad.0),
        };
        match remote {
            Ok(remote) => test.remote = Some(remote),
            Err(why) => {
                self.fail(cx, link, code::RESULTS, why);
                return false;
            }
        }
        self.end_of(link, None);
        let Some(test) = self.tests.get_mut(&link) else { return false };
        let output = match (test.parameters.terms.server_output, self.plan.render) {
            (true, Some(render)) => Some(render(&test.printout.events)),
            _ => None,
        };
        let Some(stats) = &test.stats else { return false };
        let ours = stats.results(test.cpu, &self.plan.congestion.0, output);
        (test.step, test.since) = (Step::Parting, cx.now);
        self.say(link, framed(&results::write(&ours)));
        self.state(link, State::DisplayResults);
        true
    }

    /// Tells how a test has ended.
    pub(super) fn end_of(&mut self, link: Link, error: Option<String>) {
        let Some(test) = self.tests.get_mut(&link) else { return };
        let Some(stats) = &mut test.stats else { return };
        let told = stats.settle();
        let congestion = self.plan.congestion.0.clone();
        let ended = stats.ended(test.remote.as_ref(), test.cpu, congestion, error);
        self.intervals(link, told);
        self.tell(link, ended);
    }
}

/// When a running test has taken too long.
fn expires(test: &Test) -> Mono {
    let terms = &test.parameters.terms;
    let length = u64::from(terms.time_s + terms.omit_s) * SECOND;
    if terms.time_s > 0 { test.since.plus(length + GRACE) } else { Mono(u64::MAX) }
}
