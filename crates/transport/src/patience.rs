//! Limits of waits for a peer.
//!
//! No step of a conversation waits without a limit: the one that the user gave where its name
//! covers the step, else [`Patience::LIMIT`]. A queue at a server that keeps saying so may last,
//! and an original's stand-in waits as long as the original does.

use crate::Violation;
use metrics::{Mono, SECOND};
use std::fmt;
use std::time::Duration;

/// A wait for a peer: its object, its start and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    what: &'static str,
    from: Mono,
    limit_ns: u64,
}

impl Patience {
    /// Limit where nothing else says one, ns.
    pub const LIMIT: u64 = 15 * SECOND;

    /// A wait from `from` on for `what`: a noun with its article, as in "no connection".
    pub const fn new(what: &'static str, from: Mono) -> Self {
        Patience { what, from, limit_ns: Patience::LIMIT }
    }

    /// The limit of waits for `what` that have not begun.
    pub const fn of(what: &'static str, limit_ns: u64) -> Self {
        Patience { what, from: Mono(0), limit_ns }
    }

    /// The same with another limit.
    #[must_use]
    pub const fn within(self, limit_ns: u64) -> Self {
        Patience { limit_ns, ..self }
    }

    /// The same from `from` on.
    #[must_use]
    pub const fn since(self, from: Mono) -> Self {
        Patience { from, ..self }
    }

    /// When the wait is over.
    pub fn until(&self) -> Mono {
        self.from.plus(self.limit_ns)
    }

    /// True once the wait is over.
    pub fn is_over(&self, now: Mono) -> bool {
        now >= self.until()
    }

    /// The limit, ns.
    pub const fn ns(&self) -> u64 {
        self.limit_ns
    }

    /// The limit, s.
    pub const fn seconds(&self) -> u64 {
        self.limit_ns / SECOND
    }

    /// The violation of a peer that was waited for in vain. Waits that end a flow end it by this
    /// one.
    pub fn violation(&self) -> Violation {
        Violation::Stalled(Duration::from_nanos(self.limit_ns))
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.limit_ns / (SECOND / 1_000);
        match ms % 1_000 {
            0 => write!(f, "{} within {} s", self.what, ms / 1_000),
            _ => write!(f, "{} within {ms} ms", self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_name_and_a_limit() {
        let wait = Patience::new("no answer", Mono(SECOND));
        assert_eq!((wait.until(), wait.to_string()), (Mono(16 * SECOND), "no answer within 15 s".to_owned()));
        let wait = wait.within(SECOND / 4);
        assert_eq!(
            (wait.until().0, wait.to_string()),
            (SECOND * 5 / 4, "no answer within 250 ms".to_owned())
        );
        let wait = Patience::of("no data", 3 * SECOND).since(Mono(SECOND));
        assert!(!wait.is_over(Mono(4 * SECOND - 1)) && wait.is_over(Mono(4 * SECOND)));
        assert_eq!(wait.violation(), Violation::Stalled(Duration::from_secs(3)));
    }
}
