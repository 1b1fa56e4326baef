//! What a worker does while nothing is ready: sleep, sleep and then spin, or spin.

use super::{LOOK_AFTER, Worker};
use crate::link::Key;
use metrics::Mono;
use seam::{Read, Wait};

/// Before so short a time to the next due instant nothing but the clock is looked at, ns: a look at the reactor takes about
/// half a microsecond, and a receive call as much.
const NEAR: u64 = 1_500;
/// From so much on, ns, others may have the core meanwhile, if there are any: they have a moment's work, or they would take it
/// anyway.
const FAR: u64 = 10_000;
/// The margin that hybrid waiting begins with, ns, and its limits: what a wake-up takes, and what is worth a core.
const FIRST_MARGIN: u64 = 120_000;
const LEAST_MARGIN: u64 = 20_000;
const MOST_MARGIN: u64 = 400_000;
/// Links whose sockets a spinning worker tries one by one; with more it asks the reactor.
const FEW: usize = 8;

/// How a worker waits, and what it has learned about it.
pub(super) struct Rest {
    wait: Wait,
    /// How long before a due instant sleeping has to end, ns.
    margin: u64,
    /// The instant that was slept for.
    slept_for: Option<Mono>,
}

impl Default for Rest {
    fn default() -> Self {
        Rest { wait: Wait::Block, margin: FIRST_MARGIN, slept_for: None }
    }
}

impl Rest {
    /// A sleep has ended. When it was nothing but the time that ended it, how late it was is what to expect of the next.
    pub(super) fn slept(&mut self, until: Option<Mono>, now: Mono, in_vain: bool) {
        if let (Some(asked), true) = (self.slept_for.take(), in_vain)
            && until == Some(asked)
            && now >= asked
        {
            // Twice what was seen last, falling slowly.
            let falling = self.margin - self.margin / 64;
            self.margin = falling.max(2 * now.since(asked)).clamp(LEAST_MARGIN, MOST_MARGIN);
        }
    }
}

impl Worker {
    /// The most eager policy of the groups is the worker's.
    pub(super) fn choose_wait(&mut self) {
        self.rest.wait = self.watches.values().map(|w| w.wait).max().unwrap_or_default();
    }

    /// Until when the reactor is to be waited for, given when something is due next (which is at once for a `busy` worker).
    /// `None`: not at all, the round is over.
    pub(super) fn until(&mut self, now: Mono, next: Option<Mono>, busy: bool) -> Option<Option<Mono>> {
        if self.rest.wait == Wait::Block {
            return Some(next);
        }
        // The next due instant is met by the clock alone, unless the reactor has not been looked at for very long.
        let due = if busy { self.next_instant() } else { next };
        let left = due.map_or(u64::MAX, |due| due.since(now));
        if left < NEAR && now.since(self.looked) < 100 * LOOK_AFTER {
            return None;
        }
        if busy {
            return Some(Some(now));
        }
        if self.rest.wait == Wait::Spin {
            if now.since(self.looked) < LOOK_AFTER && self.try_all() {
                return None;
            }
            return Some(Some(now));
        }
        if left <= self.rest.margin {
            // What spins this long before it is due need not keep others from their work.
            if left > FAR {
                io::thread::offer();
            }
            return Some(Some(now));
        }
        let until = due.map(|due| Mono(due.0 - self.rest.margin));
        self.rest.slept_for = until;
        Some(until)
    }

    /// Before a sleep that follows on datagrams, whoever waits for this core has a turn, and the sockets are looked at once
    /// more: on a core that both ends share, the other one has sent in the meantime, and nobody had to be put to sleep and
    /// woken for it, which takes longer than a dozen datagrams.
    pub(super) fn linger(&mut self, now: Mono, until: Option<Mono>) -> Option<Mono> {
        if until.is_some_and(|until| until <= now) || !std::mem::take(&mut self.active) {
            return until;
        }
        io::thread::offer();
        Some(now)
    }

    /// Lets the links that want to read try, ready or not; false when they are too many for that.
    fn try_all(&mut self) -> bool {
        if self.links.len() > FEW {
            return false;
        }
        for key in self.links.keys() {
            self.try_one(key);
        }
        true
    }

    fn try_one(&mut self, key: Key) {
        if let Some(link) = self.links.get(key)
            && link.flow.want().read != Read::Pause
        {
            link.can.read = true;
            self.queue(key);
        }
    }
}
