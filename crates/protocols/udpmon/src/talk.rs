//! One request after the other, each repeated until it is answered.

use metrics::{Mono, SECOND};
use transport::{Context, Transmit, When};

/// How long an answer is waited for, ns, and how often a request is repeated: the original's figures.
const PATIENCE: u64 = 3 * SECOND;
const TRIES: u32 = 10;
/// How long nothing is listened to behind an answer to a repeated request, ns: pieces have no head, and the second answer
/// would be taken for that to the next request.
const QUIET: u64 = SECOND / 10;

/// A request that is repeated until its answer arrives.
#[derive(Clone, Debug, Default)]
pub(super) struct Talk {
    request: Vec<u8>,
    unsent: bool,
    /// When it is sent again.
    pub(super) again: Option<Mono>,
    tries: u32,
    /// Nothing is heard or said before.
    quiet: Option<Mono>,
    patience: u64,
    /// When the request left for the last time.
    pub(super) sent: Mono,
}

impl Talk {
    pub(super) fn ask(&mut self, request: Vec<u8>) {
        self.ask_for(request, PATIENCE);
    }

    /// Asks, and repeats sooner or later than usual.
    pub(super) fn ask_for(&mut self, request: Vec<u8>, patience: u64) {
        *self = Talk { request, unsent: true, patience, quiet: self.quiet, ..Talk::default() };
    }

    pub(super) fn answered(&mut self, now: Mono) {
        self.quiet = (self.tries > 0).then(|| now.plus(QUIET));
        (self.again, self.unsent) = (None, false);
    }

    /// Whether anything that comes may be an answer.
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
        out.copy(&self.request);
    }

    /// It has left, or was refused: then it is as if it were lost.
    pub(super) fn wrote(&mut self, now: Mono) {
        (self.unsent, self.quiet) = (false, None);
        self.again = Some(now.plus(self.patience));
    }

    /// Whether it is time to ask again, which is then done; an error when that was done often enough.
    pub(super) fn late(&mut self, now: Mono) -> Result<bool, u64> {
        if self.again.is_none_or(|at| now < at) {
            return Ok(false);
        }
        if self.tries >= TRIES {
            return Err(self.patience * u64::from(TRIES + 1));
        }
        self.tries += 1;
        (self.again, self.unsent) = (None, true);
        Ok(true)
    }
}
