//! The exchange by which the two ends of Windows NTttcp report that they are ready; not the
//! conversation of ntttcp for Linux.
//!
//! ```text
//! sender                                      receiver
//!   (all data connections are up)
//!   for each data port q: TCP to q + 1000 ──▶
//!   58 ─────────────────────────────────────▶
//!   ◀───────────────────────────────────── 58
//!   FIN                                        both begin when all have done so
//! ```
//!
//! Our receiver says its byte when it has read the sender's, and the last one when it counts: a
//! sender begins when it has read them. The sender tries each of them again after 100 ms, a hundred
//! times: a receiver listens for it once its data connection is up.

use common::Patience;
use metrics::{Mono, SECOND};
use std::collections::BTreeSet;
use transport::Link;

pub(super) const TOKEN: u8 = b'X';
/// Time between two attempts, ns, and how many there are.
const AGAIN: u64 = SECOND / 10;
const ATTEMPTS: u32 = 100;

/// The sender's side of it.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// Which port's are to be connected, and when.
    due: Vec<(Mono, u16)>,
    attempts: u32,
    links: BTreeSet<Link>,
    left: u16,
    until: Mono,
}

impl Tokens {
    /// A token for each of `ports` ports, from `now` on.
    pub(super) fn new(ports: u16, now: Mono) -> Self {
        Tokens {
            due: (0..ports).rev().map(|port| (now, port)).collect(),
            attempts: 0,
            links: BTreeSet::new(),
            left: ports,
            until: now.plus(Patience::LIMIT),
        }
    }

    /// The next port whose connection is to be made now, counted from 0.
    pub(super) fn due(&mut self, now: Mono) -> Option<u16> {
        let at = self.due.iter().rposition(|(at, _)| *at <= now)?;
        Some(self.due.remove(at).1)
    }

    /// When there is something to do.
    pub(super) fn wake(&self) -> Mono {
        self.due.iter().map(|(at, _)| *at).min().map_or(self.until, |at| at.min(self.until))
    }

    /// True while attempts are left.
    pub(super) fn patient(&self) -> bool {
        !self.due.is_empty()
    }

    /// A connection could not be made: whether it is tried again.
    pub(super) fn again(&mut self, key: u32, now: Mono) -> bool {
        self.attempts += 1;
        let Ok(port) = u16::try_from(key) else { return false };
        let again = self.attempts <= ATTEMPTS.saturating_mul(self.left.into());
        if again {
            let at = now.plus(AGAIN);
            self.due.push((at, port));
            self.until = self.until.max(at.plus(Patience::LIMIT));
        }
        again
    }

    pub(super) fn up(&mut self, link: Link) {
        self.links.insert(link);
    }

    /// Marks a token as received or its connection as closed; false if it was not expected.
    pub(super) fn on_byte(&mut self, link: Link) -> bool {
        let waited = self.links.remove(&link);
        self.left = self.left.saturating_sub(waited.into());
        waited
    }

    /// Nothing is waited for any more.
    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }
}
