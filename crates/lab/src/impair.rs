//! The fate of the n-th packet of a direction: a state machine from a seed and arrival times to
//! emissions.
//!
//! Time is an argument, and nothing runs by itself, so that hours can be tested in a moment:
//! [`Impairment::offer`] decides the fate of a packet and puts its emissions on the schedule;
//! [`Impairment::due`] and [`Impairment::pop`] yield them when they are due.

use crate::chance::{Chain, Coin, Purpose, generator, jitter};
use crate::queue::Queue;
use crate::setup::{Behind, HOLD_NS, MOST_BITS, Path, Window};
use metrics::{Clamped, Mono};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use transport::Rng;

/// Decision about a packet at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Goes on, under the conditions of the path.
    Forwarded,
    /// Goes on at once, because the conditions are for others.
    Passed,
    /// Lost, by itself.
    LostRandom,
    /// Lost in a burst.
    LostBurst,
    /// Lost in an outage.
    LostOutage,
    /// Found the queue full.
    DroppedQueue,
    /// Larger than the path's MTU.
    TooBig,
    /// Its TTL or hop limit ran out at a hop.
    Expired,
    /// The lab itself had no room for it.
    Overrun,
}

impl Verdict {
    pub fn goes_on(self) -> bool {
        matches!(self, Verdict::Forwarded | Verdict::Passed)
    }
}

/// The state machine's view of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Arrival; never earlier than that of the packet before.
    pub(crate) at: Mono,
    /// The caller's name for it, handed back with its emissions.
    pub(crate) token: u32,
    /// Bytes.
    pub(crate) length: u32,
    /// Bits of its payload that can be flipped.
    pub(crate) bits: u32,
    /// DSCP and ECN.
    pub(crate) tos: u8,
    /// True if the conditions apply to it.
    pub(crate) matched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketOutcome {
    pub(crate) verdict: Verdict,
    /// When it is to leave; of a held one, not before this.
    pub(crate) due: Mono,
    /// Copies beside the first.
    pub(crate) copies: u8,
    /// Chosen to be overtaken.
    pub(crate) reordered: bool,
    /// Had to wait for the end of a stall.
    pub(crate) stalled: bool,
    /// Had to be given less than no delay, and got none.
    pub(crate) clamped: bool,
    /// DSCP and ECN, as they leave.
    pub(crate) tos: u8,
    flips: [u32; MOST_BITS as usize],
    flipped: u8,
}

impl PacketOutcome {
    pub(crate) fn new(verdict: Verdict, offer: &Offer) -> Self {
        PacketOutcome {
            verdict,
            due: offer.at,
            copies: 0,
            reordered: false,
            stalled: false,
            clamped: false,
            tos: offer.tos,
            flips: [0; MOST_BITS as usize],
            flipped: 0,
        }
    }

    /// The bits of the payload to be flipped.
    pub(crate) fn flips(&self) -> &[u32] {
        &self.flips[..usize::from(self.flipped)]
    }
}

/// A packet, or its copy, that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Emission {
    pub(crate) due: Mono,
    /// Which first, of those due at the same time.
    turn: u64,
    /// The caller's name for the packet.
    pub(crate) token: u32,
    /// 0 for the packet, from 1 for its copies.
    pub(crate) copy: u8,
}

/// A packet that waits for others to overtake it.
#[derive(Clone, Copy, Debug)]
struct WaitingPacket {
    token: u32,
    due: Mono,
    copies: u8,
    /// Number of packets that must leave before it.
    before: u16,
    until: Mono,
}

#[derive(Debug)]
pub(crate) struct Impairment {
    path: Path,
    /// Origin of the timetables.
    pub(crate) begin: Mono,
    loss: Coin,
    bursts: Option<Chain>,
    duplicate: Coin,
    reorder: Coin,
    corrupt: Coin,
    bits: Rng,
    jitter: Rng,
    mark: Coin,
    queue: Option<Queue>,
    schedule: BinaryHeap<Reverse<Emission>>,
    held: VecDeque<WaitingPacket>,
    /// The earliest time at which one of them is let go.
    let_go: Option<Mono>,
    /// When the last packet that keeps its place leaves.
    last: Mono,
    turn: u64,
}

impl Impairment {
    /// Direction `lane` of a link (0 and 1: the last one) of the lab with this seed; timetables
    /// count from `begin`.
    pub(crate) fn new(path: &Path, seed: u64, lane: u16, begin: Mono) -> Self {
        let draws = |purpose| generator(seed, lane, purpose);
        let coin = |purpose, heads| Coin { rng: draws(purpose), heads };
        Impairment {
            begin,
            loss: coin(Purpose::Loss, path.loss),
            bursts: path.bursts.map(|b| Chain::new(draws(Purpose::Burst), draws(Purpose::Step), b)),
            duplicate: coin(Purpose::Duplicate, path.duplicate.map_or(0.0, |d| d.chance)),
            reorder: coin(Purpose::Reorder, path.reorder.map_or(0.0, |r| r.chance)),
            corrupt: coin(Purpose::Corrupt, path.corrupt.map_or(0.0, |c| c.chance)),
            bits: draws(Purpose::Bits),
            jitter: draws(Purpose::Jitter),
            mark: coin(Purpose::Mark, path.ecn_ce),
            queue: path.bottleneck.map(Queue::new),
            schedule: BinaryHeap::new(),
            held: VecDeque::new(),
            let_go: None,
            last: Mono(0),
            turn: 0,
            path: path.clone(),
        }
    }

    /// Decides about the next packet and schedules it.
    pub(crate) fn offer(&mut self, offer: &Offer) -> PacketOutcome {
        if !offer.matched {
            self.emit(offer.token, 0, offer.at);
            return PacketOutcome::new(Verdict::Passed, offer);
        }
        let mut outcome = PacketOutcome::new(Verdict::Forwarded, offer);
        // Each draws for each packet, so that the choices do not depend on each other.
        let (lost, in_burst) = (self.loss.toss(), self.bursts.as_mut().is_some_and(Chain::loses));
        let (copied, behind) = (self.duplicate.toss(), self.reorder.toss());
        self.draw_flips(offer.bits, &mut outcome);
        let marked = self.mark.toss();
        let shift = self.path.jitter.map_or(0, |how| jitter(&mut self.jitter, &how));
        let since_begin = offer.at.since(self.begin);
        outcome.verdict = if self.path.path_mtu.is_some_and(|mtu| offer.length > mtu.bytes) {
            Verdict::TooBig
        } else if offer.at >= self.begin && end(&self.path.outages, since_begin).is_some() {
            Verdict::LostOutage
        } else if lost {
            Verdict::LostRandom
        } else if in_burst {
            Verdict::LostBurst
        } else {
            Verdict::Forwarded
        };
        if outcome.verdict != Verdict::Forwarded {
            return outcome;
        }
        let mut waited = 0;
        if let Some(queue) = &mut self.queue {
            let Some(through) = queue.offer(offer.at, u64::from(offer.length)) else {
                outcome.verdict = Verdict::DroppedQueue;
                return outcome;
            };
            (outcome.due, waited) = (through.out, through.waited);
        }
        self.remark(marked, waited, &mut outcome);
        self.delay(shift, behind, &mut outcome);
        if copied && let Some(how) = self.path.duplicate {
            outcome.copies = how.copies;
        }
        self.place(offer.token, &mut outcome);
        outcome
    }

    /// Which bits are flipped, if any.
    fn draw_flips(&mut self, bits: u32, outcome: &mut PacketOutcome) {
        let Some(how) = self.path.corrupt else { return };
        let chosen = self.corrupt.toss();
        // The generator of the bits advances by the same number of steps for every choice.
        let mut rng = Rng::new(self.bits.next());
        if !chosen || bits == 0 {
            return;
        }
        while u32::from(outcome.flipped) < u32::from(how.bits).min(bits) {
            let bit = u32::clamped(rng.between(0, u64::from(bits) - 1));
            if !outcome.flips().contains(&bit) {
                outcome.flips[usize::from(outcome.flipped)] = bit;
                outcome.flipped += 1;
            }
        }
    }

    /// DSCP and ECN as they leave.
    fn remark(&self, marked: bool, waited: u64, outcome: &mut PacketOutcome) {
        let capable = outcome.tos & 3 != 0;
        if capable && (marked || self.path.ecn_above_ns.is_some_and(|most| waited > most)) {
            outcome.tos |= crate::packet::CE;
        }
        if self.path.ecn_bleach {
            outcome.tos &= !3;
        }
        if let Some(dscp) = self.path.dscp {
            outcome.tos = dscp << 2 | outcome.tos & 3;
        }
    }

    /// Delay, jitter, and the time by which a packet is put behind others.
    fn delay(&mut self, shift: i64, behind: bool, outcome: &mut PacketOutcome) {
        let delay = self.path.delay_ns.checked_add_signed(shift);
        outcome.clamped = delay.is_none();
        outcome.due = outcome.due.plus(delay.unwrap_or(0));
        if behind && let Some(how) = self.path.reorder {
            outcome.reordered = true;
            if let Behind::Time(ns) = how.behind {
                outcome.due = outcome.due.plus(ns);
            }
        } else {
            if !self.path.jitter.is_some_and(|j| j.reorder) {
                outcome.due = outcome.due.max(self.last);
            }
            self.last = self.last.max(outcome.due);
        }
        outcome.stalled = self.wait_out(&mut outcome.due);
    }

    /// Moves an instant that falls into a stall to its end; whether it did.
    fn wait_out(&self, due: &mut Mono) -> bool {
        let mut stalled = false;
        // Windows may overlap or touch; each pass leaves one for good.
        for _ in 0..=self.path.stalls.len() {
            match end(&self.path.stalls, due.since(self.begin)) {
                Some(end) if *due >= self.begin => (*due, stalled) = (self.begin.plus(end), true),
                _ => break,
            }
        }
        stalled
    }

    /// Puts a packet on the schedule, or where it waits for others to overtake it.
    fn place(&mut self, token: u32, outcome: &mut PacketOutcome) {
        let PacketOutcome { due, copies, reordered, .. } = *outcome;
        if reordered && let Some(Behind::Packets(before)) = self.path.reorder.map(|r| r.behind) {
            let until = due.plus(HOLD_NS);
            self.held.push_back(WaitingPacket { token, due, copies, before, until });
            self.let_go = Some(self.let_go.map_or(until, |at| at.min(until)));
            return;
        }
        self.schedule(token, copies, due);
        self.overtake(due);
    }

    /// A packet leaves at `due`: held packets have one less to wait for.
    fn overtake(&mut self, due: Mono) {
        if self.held.is_empty() {
            return;
        }
        for held in &mut self.held {
            held.before = held.before.saturating_sub(1);
            // The delayed packet leaves after the last packet that overtakes it.
            held.due = held.due.max(due);
        }
        self.release(|held| held.before == 0);
    }

    /// Puts those held that are `ready` on the schedule.
    fn release(&mut self, ready: impl Fn(&WaitingPacket) -> bool) {
        let mut at = 0;
        while let Some(&held) = self.held.get(at) {
            if ready(&held) {
                self.held.remove(at);
                self.schedule(held.token, held.copies, held.due);
            } else {
                at += 1;
            }
        }
        self.let_go = self.held.iter().map(|held| held.until).min();
    }

    fn schedule(&mut self, token: u32, copies: u8, due: Mono) {
        let gap = self.path.duplicate.map_or(0, |d| d.gap_ns);
        for copy in 0..=copies {
            let mut due = due.plus(gap * u64::from(copy));
            self.wait_out(&mut due);
            self.emit(token, copy, due);
        }
    }

    fn emit(&mut self, token: u32, copy: u8, due: Mono) {
        self.turn += 1;
        self.schedule.push(Reverse(Emission { due, turn: self.turn, token, copy }));
    }

    /// When [`Impairment::pop`] will next have something.
    #[inline]
    pub(crate) fn due(&self) -> Option<Mono> {
        let first = self.schedule.peek().map(|first| first.0.due);
        first.into_iter().chain(self.let_go).min()
    }

    /// The next packet that is to leave by `now`.
    #[inline]
    pub(crate) fn pop(&mut self, now: Mono) -> Option<Emission> {
        if self.let_go.is_some_and(|at| at <= now) {
            for held in &mut self.held {
                if held.until <= now {
                    held.due = held.until;
                }
            }
            self.release(|held| held.until <= now);
        }
        if self.schedule.peek()?.0.due > now {
            return None;
        }
        self.schedule.pop().map(|first| first.0)
    }

    /// All that has not left yet, in no particular order.
    pub(crate) fn unfinished(&mut self) -> Vec<Emission> {
        self.release(|_| true);
        self.schedule.drain().map(|rest| rest.0).collect()
    }

    /// True if all packets have left.
    pub(crate) fn is_empty(&self) -> bool {
        self.schedule.is_empty() && self.held.is_empty()
    }
}

/// When the windows that `at` falls into are over.
fn end(windows: &[Window], at: u64) -> Option<u64> {
    windows.iter().filter_map(|window| window.end(at)).max()
}

#[cfg(test)]
mod tests;
