//! Waits of a server, and their limits.

use super::run::expires;
use super::{MOST_SILENT, Server, Test, TestStep};
use crate::codec::code;
use common::Patience;
use metrics::{Mono, SECOND};
use model::Level;
use transport::Context;

/// Time of the verdict on a token, ns after the token's arrival, or a multiple of it where the
/// verdict took longer: a client sees the time of the decryption in steps of this length only.
const HELD: u64 = SECOND / 4;
/// The waits for a client's next step, and for streams to report their counts.
const PARAMETERS: Patience = Patience::of("no parameters", Patience::LIMIT);
const STREAMS: Patience = Patience::of("no streams", Patience::LIMIT);
const COUNTS: Patience = Patience::of("no counts of the streams", 3 * SECOND);
const RESULTS: Patience = Patience::of("no results", Patience::LIMIT);
const GOODBYE: Patience = Patience::of("no goodbye", 10 * SECOND);

impl Server {
    /// The wait for a client, or for its streams.
    fn patience(test: &Test) -> Option<Patience> {
        let wait = match test.step {
            TestStep::Parameters => PARAMETERS,
            TestStep::Creating => STREAMS,
            TestStep::Freezing => COUNTS,
            TestStep::Exchanging => RESULTS,
            TestStep::Parting => GOODBYE,
            TestStep::Held | TestStep::Waiting | TestStep::Running => return None,
        };
        Some(wait.since(test.since))
    }

    /// When a test is to be looked at next.
    pub(super) fn due(test: &Test) -> Mono {
        let runs = || test.stats.as_ref().map_or(Mono(u64::MAX), |stats| stats.wakes().min(expires(stats)));
        match (Server::patience(test), test.step) {
            (Some(wait), _) => wait.until(),
            (None, TestStep::Held) => test.since.plus(HELD),
            (None, TestStep::Running) => runs(),
            (None, _) => Mono(u64::MAX),
        }
    }

    /// Acts on tests whose timer has expired, and stops a server that has been idle for
    /// `--idle-timeout`.
    pub(super) fn wake(&mut self, cx: &Context<'_>) {
        for link in self.tests.keys().copied().collect::<Vec<_>>() {
            let Some(test) = self.tests.get(&link).filter(|test| Self::due(test) <= cx.now) else { continue };
            let late = Server::patience(test).map_or_else(String::new, |wait| wait.to_string());
            match test.step {
                TestStep::Parameters => self.fail(cx, link, code::PARAMETERS, &late),
                TestStep::Held => self.verdicts(cx, link),
                TestStep::Creating => self.fail(cx, link, code::STREAM, &late),
                TestStep::Running => self.run_on(cx, link),
                TestStep::Freezing => self.settle(cx, link),
                TestStep::Exchanging => self.fail(cx, link, code::RESULTS, &late),
                TestStep::Parting => self.leave(cx, link),
                TestStep::Waiting => {}
            }
        }
        self.early.truncate(MOST_SILENT);
        let idle = self.plan.options.idle_ns.is_some_and(|ns| cx.now.since(self.quiet) >= ns);
        if idle && self.tests.is_empty() && !self.stopping {
            self.driver.notice(Level::Info, "the server has been idle for long enough");
            self.stopping = true;
            self.check_over();
        }
    }
}
