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
/// Longest time for streams to report their counts.
const STANDING: u64 = 3 * SECOND;
/// Longest time for its goodbye.
const PARTING: u64 = 10 * SECOND;

impl Server {
    /// When a test is to be looked at next.
    pub(super) fn due(test: &Test) -> Mono {
        let patience = match test.step {
            TestStep::Parameters | TestStep::Creating | TestStep::Exchanging => Patience::LIMIT,
            TestStep::Held => HELD,
            TestStep::Waiting => return Mono(u64::MAX),
            TestStep::Freezing => STANDING,
            TestStep::Parting => PARTING,
            TestStep::Running => {
                return test.stats.as_ref().map_or(Mono(u64::MAX), |stats| stats.wakes().min(expires(stats)));
            }
        };
        test.since.plus(patience)
    }

    /// Acts on tests whose timer has expired, and stops a server that has been idle for
    /// `--idle-timeout`.
    pub(super) fn wake(&mut self, cx: &Context<'_>) {
        for link in self.tests.keys().copied().collect::<Vec<_>>() {
            let Some(test) = self.tests.get(&link).filter(|test| Self::due(test) <= cx.now) else { continue };
            match test.step {
                TestStep::Parameters => self.fail(cx, link, code::PARAMETERS, "no parameters arrived"),
                TestStep::Held => self.verdicts(cx, link),
                TestStep::Creating => self.fail(cx, link, code::STREAM, "its streams were not opened"),
                TestStep::Running => self.run_on(cx, link),
                TestStep::Freezing => self.settle(cx, link),
                TestStep::Exchanging => self.fail(cx, link, code::RESULTS, "no results arrived"),
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
