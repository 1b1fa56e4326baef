//! A worker's wait for ready sockets: sleep, sleep and then spin, or spin. The group has the choice
//! (`GroupPlan::wait`); a worker has the most eager one of its groups.
//!
//! Lateness of paced sends of 8 bytes over loopback, two cores that had other work (the ignored
//! test `lateness`), median and 99th percentile:
//!
//! | every | block | hybrid | spin |
//! |---|---|---|---|
//! | 10 µs | 15, 31 µs | 0.13, 4.4 µs | 0.13, 9.2 µs |
//! | 100 µs | 29, 66 µs | 0.14, 0.25 µs | 0.15, 0.24 µs |
//! | 1 ms | 31, 42 µs | 0.21, 0.50 µs | 0.17, 0.36 µs |

use super::turns::TurnResult;
use super::{LOOK_AFTER, Worker, YIELD_AFTER};
use crate::link::{Key, Phase};
use metrics::Mono;
use transport::{Clock as _, Platform, Reactor as _, Read, Wait};

/// Before so short a time to the next due instant nothing but the clock is looked at, ns: a look at
/// the reactor takes about half a microsecond, and a receive call as much.
const LOCAL: u64 = 1_500;
/// From so much on, ns, others may have the core meanwhile, if there are any: they have a moment's
/// work, or they would take it anyway.
const REMOTE: u64 = 10_000;
/// The first margin of hybrid waiting, ns, and its limits: the length of a wake-up, and the longest
/// spin that is worth a core.
const FIRST_MARGIN: u64 = 120_000;
const LEAST_MARGIN: u64 = 20_000;
const MOST_MARGIN: u64 = 400_000;
/// A receive call does not sleep when something is due within this time, ns: its patience is less.
pub(super) const SOON: u64 = 25_000_000;
/// While the only link is tried, spinning or in receive calls that sleep, other sockets are checked
/// at this interval, ns: a check takes a microsecond, and one per hundred round trips would decide
/// their 99th percentile.
const LOOK_BESIDE: u64 = 1_000_000;
/// Shortest sleep of a flooded worker, ns: a wake-up for each burst costs as much as the burst, and
/// takes the core from the other end where they share one.
const HOLD_RECEIVER: u64 = 100_000;
/// The same for a sender, whose datagrams leave that late.
const HOLD_SENDER: u64 = 50_000;
/// A worker is flooded when it only receives, or only sends, this many bytes between two sleeps,
const FLOOD: usize = 32 << 10;
/// and these are less than so far apart, ns.
const FLOODED: u64 = 1_000_000;
/// Other threads that keep an offered core for longer than this on average, ns, are not the other
/// end's, whose turns are shorter.
const KEPT_LONG: u64 = 1_000_000;
/// Weight of the average, in offers: one long turn of the other end, to which other cores send
/// meanwhile, is no reason.
const OFFERS: u64 = 8;
/// The core is then not offered for this many times as long, but no longer than [`NOT_OFFERED`],
/// ns.
const TIMES: u64 = 50;
const NOT_OFFERED: u64 = 1_000_000_000;
/// Waits that follow each other within this time, ns,
const DENSE: u64 = 1_000_000;
/// and how many of them in a row make the core worth offering: of sparse messages, the wake-up that
/// this saves is nothing beside the time for which others may keep the core.
const IN_A_ROW: u32 = 8;
/// Links whose sockets a spinning worker tries one by one; with more it asks the reactor.
const FEW: usize = 8;

/// A worker's way of waiting, and its experience with it.
#[derive(Default)]
pub(super) struct Idle {
    wait: Wait,
    /// Time before a due instant at which sleeping has to end, ns.
    margin: u64,
    /// The instant that was slept for.
    slept_for: Option<Mono>,
    /// Bytes that datagrams brought since the last sleep, and that they took.
    pub(super) got: usize,
    pub(super) sent: usize,
    /// When the last sleep ended.
    woke: Mono,
    /// When the reactor was last asked.
    pub(super) looked: Mono,
    /// Bytes of datagrams sent since the core was last offered, or idle.
    pub(super) sent_since_yield: usize,
    /// Datagrams or short messages have been sent or received since the last wait.
    pub(super) active: bool,
    /// The last wait after such, and how many followed each other closely.
    waited: Mono,
    row: u32,
    offers: Offers,
}

/// When a worker offers its core to other threads. On a busy host Linux (6.18) gives a thread that
/// offers its core the next turn only after all others that are ready have had theirs, of
/// milliseconds each: with 4 of them, and 3 offers for each of 50 messages a second, messages were
/// half a second late.
#[derive(Debug, Default)]
struct Offers {
    /// Not before this instant.
    next: Mono,
    /// For how long others have kept it on average, ns.
    mean: u64,
}

impl Offers {
    fn is_due(&self, now: Mono) -> bool {
        now >= self.next
    }

    /// The core was offered at `from` and given back at `to`.
    fn record_offer(&mut self, from: Mono, to: Mono) {
        let kept = to.since(from);
        self.mean = self.mean - self.mean / OFFERS + kept / OFFERS;
        if self.mean > KEPT_LONG {
            self.next = to.plus(kept.saturating_mul(TIMES).min(NOT_OFFERED));
        }
    }
}

impl Idle {
    pub(super) fn new() -> Self {
        Idle { margin: FIRST_MARGIN, ..Idle::default() }
    }

    /// True if waits after datagrams or short messages, of which this is one, follow each other
    /// closely.
    fn is_dense(&mut self, now: Mono) -> bool {
        let near = now.since(std::mem::replace(&mut self.waited, now)) < DENSE;
        self.row = if near { self.row.saturating_add(1) } else { 0 };
        self.row >= IN_A_ROW
    }

    pub(super) fn spins(&self) -> bool {
        self.wait == Wait::Spin
    }

    /// End of a sleep that arrivals do not cut short, if any; workers with flows that answer
    /// arrivals never sleep so.
    fn hold(&mut self, now: Mono, until: Option<Mono>) -> Option<Mono> {
        let (got, sent) = (std::mem::take(&mut self.got), std::mem::take(&mut self.sent));
        let flooded = now.since(std::mem::replace(&mut self.woke, now)) < FLOODED;
        match (got, sent) {
            _ if !flooded || self.wait != Wait::Block => None,
            (FLOOD.., 0) => {
                Some(now.plus(HOLD_RECEIVER)).filter(|held| until.is_none_or(|until| until > *held))
            }
            (0, FLOOD..) => {
                Some(now.plus(HOLD_SENDER)).filter(|held| until.is_some_and(|until| until < *held))
            }
            _ => None,
        }
    }

    /// A sleep has ended. When it was nothing but the time that ended it, how late it was is what
    /// to expect of the next.
    pub(super) fn slept(&mut self, until: Option<Mono>, now: Mono, in_vain: bool) {
        if let (Some(asked), true) = (self.slept_for.take(), in_vain)
            && until == Some(asked)
            && now >= asked
        {
            // Twice the last lateness, falling slowly.
            let falling = self.margin - self.margin / 64;
            self.margin = falling.max(2 * now.since(asked)).clamp(LEAST_MARGIN, MOST_MARGIN);
        }
    }
}

/// A worker's step before it waits for its sockets.
pub(super) enum BeforeWait {
    Nothing,
    /// Its sockets were tried instead: no wait.
    Tried,
    /// Only check which sockets are ready.
    Look,
    /// Sleep until then, and check which sockets are ready.
    Sleep(Mono),
}

impl<P: Platform> Worker<P> {
    /// The most eager policy of the groups is the worker's.
    pub(super) fn choose_wait(&mut self) {
        self.idle.wait = self.groups.values().map(|w| w.plan.wait).max().unwrap_or_default();
    }

    /// Until when the reactor is to be waited for, given when something is due next (which is at
    /// once for a `busy` worker). `None`: not at all, the round is over.
    pub(super) fn until(&mut self, now: Mono, next: Option<Mono>, busy: bool) -> Option<Option<Mono>> {
        // A worker without links has nothing to spin for, and others may want its core.
        let idle = self.links.len() == 0 && !busy;
        match self.idle.wait {
            Wait::Receive if !idle && !busy => {
                let until = self.receive(now, next);
                // The only link is to be slept for in the reactor.
                if until.is_some_and(|until| until != Some(now))
                    && let Some(key) = self.links.only()
                {
                    self.watch(key);
                }
                return until;
            }
            Wait::Block | Wait::Receive => return Some(next),
            Wait::Spin if idle => return Some(next),
            Wait::Hybrid | Wait::Spin => {}
        }
        // The next due instant is met by the clock alone, unless the reactor has not been looked at
        // for very long.
        let due = if busy { self.next_instant() } else { next };
        let left = due.map_or(u64::MAX, |due| due.since(now));
        if left < LOCAL && now.since(self.idle.looked) < 100 * LOOK_AFTER {
            return None;
        }
        if busy {
            return Some(Some(now));
        }
        if self.idle.wait == Wait::Spin {
            let look =
                self.idle.looked.plus(if self.tries_all_there_is() { LOOK_BESIDE } else { LOOK_AFTER });
            if now < look && self.spin_on(due.map_or(look, |due| look.min(Mono(due.0.saturating_sub(LOCAL)))))
            {
                return None;
            }
            return Some(Some(now));
        }
        if left <= self.idle.margin {
            // A spin of this length need not keep others from their work.
            if left > REMOTE {
                self.offer_core();
            }
            return Some(Some(now));
        }
        let until = due.map(|due| Mono(due.0 - self.idle.margin));
        self.idle.slept_for = until;
        Some(until)
    }

    /// Lets other threads run on this core, unless they kept it for long not long ago; whether they
    /// were let.
    fn offer_core(&mut self) -> bool {
        let from = self.clock.now();
        if !self.idle.offers.is_due(from) {
            return false;
        }
        self.platform.yield_core();
        let to = self.clock.now();
        self.idle.offers.record_offer(from, to);
        // The turns of others are no time without messages.
        self.idle.waited = to;
        true
    }

    /// Decides the step before a wait. After many datagrams or short messages, other threads run on
    /// this core first, and the sockets are read once more: on a core that both ends share, the
    /// peer has sent in the meantime, and neither thread had to be put to sleep and woken, which
    /// takes longer than a dozen datagrams. A flooded worker sleeps.
    pub(super) fn before_wait(&mut self, now: Mono, until: Option<Mono>) -> BeforeWait {
        if until.is_some_and(|until| until <= now) {
            return BeforeWait::Nothing;
        }
        if std::mem::take(&mut self.idle.active) && self.idle.is_dense(now) && self.offer_core() {
            return if self.try_all() { BeforeWait::Tried } else { BeforeWait::Look };
        }
        self.idle.hold(now, until).map_or(BeforeWait::Nothing, BeforeWait::Sleep)
    }

    /// True if the next wait may be one before which the core is offered and all links are tried.
    pub(super) fn tries_before_wait(&self) -> bool {
        self.idle.wait == Wait::Block && self.idle.active && self.links.len() <= FEW
    }

    /// True if this worker polls its links by send and receive calls instead of the reactor: it
    /// spins on them, or sleeps in the receive call of the only one.
    pub(super) fn tries(&self) -> bool {
        match self.idle.wait {
            Wait::Spin => self.links.len() <= FEW,
            Wait::Receive => self.links.len() == 1,
            Wait::Block | Wait::Hybrid => false,
        }
    }

    /// True for a single link whose whole state a try shows: only the reactor reports that a full
    /// one has room, or a new one is connected.
    fn tries_all_there_is(&mut self) -> bool {
        let only = self.links.only();
        only.and_then(|key| self.links.get(key)).is_some_and(|link| link.is_tried())
    }

    /// Tries the links that want to read, `until` then at most where there is one only: its turns
    /// follow each other with nothing between them but a look at the waker. False when there are
    /// too many links for that.
    fn spin_on(&mut self, until: Mono) -> bool {
        match self.links.only() {
            Some(key) => self.turns(key, until, false),
            None => self.try_all(),
        }
    }

    /// Sleeps in the receive call of the only link, while nothing else is due soon. The reactor is
    /// checked at every millisecond with received bytes, and as often as a receive call's patience
    /// ends.
    fn receive(&mut self, now: Mono, next: Option<Mono>) -> Option<Option<Mono>> {
        let soon = next.is_some_and(|due| due.since(now) < SOON);
        let Some(key) = self.links.only().filter(|_| !soon) else { return Some(next) };
        let Some(link) = self.links.get(key) else { return Some(next) };
        // A link of another group may have much to send while it reads.
        let group = link.counted.and_then(|group| self.groups.get(&group));
        let meant = group.is_some_and(|watch| watch.plan.wait == Wait::Receive);
        let can = link.phase == Phase::Open && meant && link.can.send;
        if !can || !*link.state.sleepy.get_or_insert_with(|| link.socket.let_sleep()) {
            return Some(next);
        }
        let look = self.idle.looked.plus(LOOK_BESIDE);
        if now >= look {
            return Some(Some(now));
        }
        link.unwatch(&self.reactor);
        self.idle.active = false;
        self.turns(key, look, true);
        // A received datagram is handled, and then the link is tried again; otherwise the worker
        // sleeps in the reactor.
        let rests = self.ready.is_empty() && self.unregistered.is_empty() && self.links.only().is_some();
        if rests && !self.idle.active { Some(next) } else { None }
    }

    fn turns(&mut self, key: Key, until: Mono, sleeps: bool) -> bool {
        loop {
            match self.try_turn(key, sleeps) {
                TurnResult::Gone => return true,
                TurnResult::Enough(now) => {
                    self.settle(key, now);
                    return true;
                }
                TurnResult::Turn(now)
                    if now >= until
                        || self.idle.sent_since_yield >= YIELD_AFTER
                        || !self.own.outbox.is_empty()
                        || self.reactor.rung() =>
                {
                    self.settle(key, now);
                    return true;
                }
                TurnResult::Turn(_) => {}
            }
        }
    }

    /// Lets the links that want to read try, ready or not; false when they are too many for that.
    pub(super) fn try_all(&mut self) -> bool {
        if self.links.len() > FEW {
            return false;
        }
        for key in self.links.keys() {
            if let Some(link) = self.links.get(key)
                && link.flow.interest().read != Read::Pause
            {
                link.can.read = true;
                self.queue(key);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_others_keep_for_long_is_not_offered_again_at_once() {
        let mut offers = Offers::default();
        assert!(offers.is_due(Mono(0)));
        // The other end's turns, one of them long.
        for _ in 0..100 {
            offers.record_offer(Mono(0), Mono(300_000));
        }
        offers.record_offer(Mono(0), Mono(4_000_000));
        assert!(offers.is_due(Mono(4_000_000)));
        // A turn of 4 ms each time: not for 200 ms.
        let mut longs = 1;
        while offers.is_due(Mono(4_000_000)) {
            offers.record_offer(Mono(0), Mono(4_000_000));
            longs += 1;
        }
        assert_eq!(longs, 2);
        assert!(!offers.is_due(Mono(203_999_999)) && offers.is_due(Mono(204_000_000)));
        // However long it was.
        offers.record_offer(Mono(0), Mono(20 * NOT_OFFERED));
        assert!(offers.is_due(Mono(21 * NOT_OFFERED)));
    }

    #[test]
    fn only_messages_in_quick_succession_are_dense() {
        let mut idle = Idle::new();
        // 50 messages a second with their echoes.
        let sparse = (0..500_u64).flat_map(|n| [n * 20_000_000, n * 20_000_000 + 100_000]);
        assert!(!sparse.into_iter().any(|at| idle.is_dense(Mono(at))));
        let mut idle = Idle::new();
        let dense = (1..=20_u64).filter(|n| idle.is_dense(Mono(n * 50_000))).count();
        assert_eq!(dense, 20 - IN_A_ROW as usize + 1);
    }
}
