//! One request after the other, each repeated until it is answered.

use common::Patience;
use metrics::{Mono, SECOND};
use transport::{Context, Transmit, When};

/// Least wait for an answer, ns: the original's figure.
const PATIENCE: u64 = 3 * SECOND;
/// Repetitions of a request by the original: its stand-in waits 33 s.
const TRIES_OF_ORIGINAL: u64 = 10;
/// Longest wait for an answer over a long path, ns.
const LONGEST_PATIENCE: u64 = 24 * SECOND;
/// Time in which datagrams are ignored after all answers to a repeated request must have arrived,
/// ns: pieces have no head, and a second answer would be taken for the answer to the next request.
const QUIET: u64 = SECOND / 10;

/// A request that is repeated until its answer arrives.
#[derive(Clone, Debug, Default)]
pub(super) struct Talk {
    request: Vec<u8>,
    unsent: bool,
    /// When it is sent again.
    pub(super) again: Option<Mono>,
    tries: u64,
    /// Datagrams are ignored, and none is sent, until then.
    quiet: Option<Mono>,
    patience: u64,
    /// When the request left for the first time, and for the last.
    first: Option<Mono>,
    pub(super) sent: Mono,
    /// Last round trip of a request that was not repeated, ns.
    trip: Option<u64>,
    /// Least wait for an answer, ns: twice that round trip. Behind a repeated request, which any of
    /// its copies may have had answered, twice the last wait.
    least: u64,
}

impl Talk {
    pub(super) fn ask(&mut self, request: Vec<u8>) {
        self.ask_for(request, PATIENCE);
    }

    /// Asks, and repeats sooner or later than usual, but not before an answer can be there.
    pub(super) fn ask_for(&mut self, request: Vec<u8>, patience: u64) {
        let Talk { quiet, trip, least, .. } = *self;
        let patience = patience.max(least);
        *self = Talk { request, unsent: true, patience, quiet, trip, least, ..Talk::default() };
    }

    pub(super) fn on_answer(&mut self, now: Mono) {
        if self.tries == 0 {
            self.trip = Some(now.since(self.sent));
        }
        // Without a known round trip the answer may be to the first copy: the last copy is answered
        // as long after it left.
        let trip = self.trip.unwrap_or_else(|| now.since(self.first.unwrap_or(self.sent)));
        self.quiet = (self.tries > 0).then(|| self.sent.plus(trip).max(now).plus(QUIET));
        let wait = if self.tries > 0 { self.patience } else { trip };
        self.least = wait.saturating_mul(2).min(LONGEST_PATIENCE);
        (self.again, self.unsent) = (None, false);
    }

    /// True if a datagram may be an answer now.
    pub(super) fn listens(&self, now: Mono) -> bool {
        self.quiet.is_none_or(|until| now >= until) && (self.again.is_some() || self.unsent)
    }

    pub(super) fn repeated(&self) -> bool {
        self.tries > 0
    }

    pub(super) fn send(&self) -> When {
        match (self.unsent, self.quiet) {
            (false, _) => When::Never,
            (true, None) => When::Now,
            (true, Some(at)) => When::At(at),
        }
    }

    pub(super) fn prepare_send(&mut self, cx: &Context<'_>, out: &mut Transmit<'_>) {
        self.sent = cx.now;
        self.first.get_or_insert(cx.now);
        out.copy(&self.request);
    }

    /// The request has left, or the kernel refused it, which counts as lost.
    pub(super) fn wrote(&mut self, now: Mono) {
        (self.unsent, self.quiet) = (false, None);
        self.again = Some(now.plus(self.patience));
    }

    /// The wait for the answer, over all repetitions: the original's, or the usual one, in which a
    /// request is repeated at least once.
    fn limit(&self, is_original: bool) -> Patience {
        let tries = Patience::LIMIT.checked_div(self.patience).unwrap_or(1).saturating_sub(1).max(1);
        let tries = if is_original { TRIES_OF_ORIGINAL } else { tries };
        let first = self.first.unwrap_or(self.sent);
        Patience::new("no answer", first).within(self.patience.saturating_mul(tries + 1))
    }

    /// Repeats the request if it is due again, and returns true then.
    ///
    /// # Errors
    /// The wait that is over.
    pub(super) fn late(&mut self, now: Mono, is_original: bool) -> Result<bool, Patience> {
        if self.again.is_none_or(|at| now < at) {
            return Ok(false);
        }
        let limit = self.limit(is_original);
        if limit.is_over(now) {
            return Err(limit);
        }
        self.tries += 1;
        (self.again, self.unsent) = (None, true);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks at `at` over a path of this round trip, on which nothing is lost; when the answer is
    /// there, and how often the request left.
    fn ask(talk: &mut Talk, at: u64, trip: u64) -> (u64, u32) {
        talk.ask(vec![0]);
        let begin = match talk.send() {
            When::At(quiet) => quiet.0.max(at),
            _ => at,
        };
        let (mut now, mut left) = (begin, 0);
        loop {
            talk.sent = Mono(now);
            talk.first.get_or_insert(Mono(now));
            talk.wrote(Mono(now));
            left += 1;
            match talk.again {
                Some(again) if again.0 < begin + trip => now = again.0,
                _ => break,
            }
            assert_eq!(talk.late(Mono(now), false), Ok(true));
        }
        talk.on_answer(Mono(begin + trip));
        (begin + trip, left)
    }

    #[test]
    fn over_a_long_path_no_answer_is_taken_for_that_to_the_next_request() {
        let (mut talk, trip) = (Talk::default(), 4 * SECOND);
        let (at, left) = ask(&mut talk, 0, trip);
        assert_eq!((at, left), (trip, 2));
        // The second request left after 3 s, and is answered at 7 s.
        assert!(!talk.listens(Mono(7 * SECOND)));
        talk.ask(vec![0]);
        assert_eq!(talk.send(), When::At(Mono(7 * SECOND + QUIET)));
        for _ in 0..3 {
            assert_eq!(ask(&mut talk, 8 * SECOND, trip).1, 1, "the path is known");
        }
    }

    #[test]
    fn a_lost_answer_is_asked_for_as_soon_as_by_the_original() {
        let mut talk = Talk::default();
        assert_eq!(ask(&mut talk, 0, SECOND / 100).1, 1);
        talk.ask(vec![0]);
        talk.wrote(Mono(SECOND));
        let again = Mono(SECOND + PATIENCE);
        assert_eq!(talk.again, Some(again));
        assert_eq!(talk.late(again, false), Ok(true));
        talk.sent = again;
        talk.wrote(again);
        let answered = again.plus(SECOND / 100);
        talk.on_answer(answered);
        assert!(!talk.listens(answered), "a copy of the answer");
        talk.ask(vec![0]);
        assert_eq!(talk.send(), When::At(answered.plus(QUIET)));
    }
}
