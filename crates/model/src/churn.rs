//! The connection broker: which connection slot starts its next life, and when.
//!
//! A run has a fixed number of slots; each slot holds one connection at a time and is given a new
//! one when that ends. The broker knows no socket and no clock, so that it serves every protocol
//! and is tested as arithmetic. Each worker has its own, for the slots that live there.

use crate::Phase;
use metrics::{Clamped, Mono, SECOND, real};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The broker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Start a connection in this slot, to move this many bytes.
    Start {
        /// The slot.
        slot: u32,
        /// Its payload.
        bytes: u64,
    },
    /// Not before this instant.
    At(Mono),
    /// When a connection has ended.
    Idle,
    /// Never again.
    Done,
}

/// First pause after a failed connection.
const FIRST_PAUSE: u64 = SECOND / 100;
/// Longest pause after failed connections.
const LONGEST_PAUSE: u64 = SECOND;
/// A start that is later than this is not caught up with.
const CATCH_UP: u64 = SECOND / 10;

#[derive(Debug)]
struct ChurnSlot {
    number: u32,
    /// Lives left; `None` is without end.
    lives: Option<u64>,
    /// Payload left over all lives, bytes; `None` is without end. The last life is cut short.
    quota: Option<u64>,
    failures: u32,
}

/// Decides which slot starts its next connection, and when. A slot whose connection failed pauses,
/// twice as long after each failure in a row, so that a dead server is asked, not hammered.
#[derive(Debug)]
pub struct Broker {
    /// Payload of one connection, bytes.
    transfer: u64,
    /// The slots that live on this worker, rising.
    slots: Vec<ChurnSlot>,
    ready: VecDeque<usize>,
    paused: BinaryHeap<Reverse<(Mono, usize)>>,
    busy: usize,
    /// Between two starts, ns; `None` is as fast as slots become free.
    gap: Option<f64>,
    /// Part of that time to wait before the first start, 0..1: workers take turns.
    stagger: f64,
    due: Option<Mono>,
    carry: f64,
    stopped: bool,
}

impl Broker {
    /// The broker for the part of a run that worker `worker` of `workers` has: slot `s` lives on
    /// worker `s mod workers`, and a total number of bytes is dealt out evenly, the remainder to
    /// the first slots.
    pub fn part(phase: &Phase, worker: u32, workers: u32) -> Self {
        let workers = workers.max(1);
        let all = u64::from(phase.connections);
        let share_of = |slot: u32, total: u64| total / all + u64::from(u64::from(slot) < total % all);
        let slot = |number| ChurnSlot {
            number,
            lives: phase.iterations,
            quota: phase.total_bytes.map(|total| share_of(number, total)),
            failures: 0,
        };
        let slots: Vec<ChurnSlot> =
            (worker..phase.connections).step_by(usize::clamped(workers)).map(slot).collect();
        let share = real(slots.len()) / f64::from(phase.connections.max(1));
        Broker {
            transfer: phase.transfer.max(1),
            ready: (0..slots.len()).filter(|&i| slots[i].quota != Some(0)).collect(),
            slots,
            paused: BinaryHeap::new(),
            busy: 0,
            gap: phase.connect_rate.map(|rate| real(SECOND) / (rate * share).max(1e-6)),
            stagger: f64::from(worker) / f64::from(workers),
            due: None,
            carry: 0.0,
            stopped: false,
        }
    }

    /// The broker's decision at `now`. A slot that is started is taken; [`Broker::ended`] gives it
    /// back.
    pub fn next(&mut self, now: Mono) -> Next {
        if self.stopped {
            return if self.busy == 0 { Next::Done } else { Next::Idle };
        }
        while let Some(&Reverse((until, slot))) = self.paused.peek()
            && until <= now
        {
            self.paused.pop();
            self.ready.push_back(slot);
        }
        let Some(&slot) = self.ready.front() else {
            return match (self.paused.peek(), self.busy) {
                (Some(&Reverse((until, _))), _) => Next::At(until),
                (None, 0) => Next::Done,
                (None, _) => Next::Idle,
            };
        };
        if let (None, Some(gap)) = (self.due, self.gap) {
            self.due = Some(now.plus(u64::clamped(gap * self.stagger)));
        }
        if let Some(due) = self.due
            && due > now
        {
            return Next::At(due);
        }
        self.ready.pop_front();
        self.busy += 1;
        self.schedule(now);
        let slot = &mut self.slots[slot];
        let bytes = slot.quota.map_or(self.transfer, |left| left.min(self.transfer));
        slot.quota = slot.quota.map(|left| left - bytes);
        slot.lives = slot.lives.map(|lives| lives.saturating_sub(1));
        Next::Start { slot: slot.number, bytes }
    }

    /// Moves the due time of the next start on by one gap.
    fn schedule(&mut self, now: Mono) {
        let Some(gap) = self.gap else { return };
        let mut due = self.due.unwrap_or(now);
        let late = now.since(due);
        if late > CATCH_UP {
            let skipped = (real(late - CATCH_UP) / gap).floor();
            due = due.plus(u64::clamped(skipped * gap));
        }
        let exact = gap + self.carry;
        self.carry = exact.fract();
        self.due = Some(due.plus(u64::clamped(exact)));
    }

    /// The connection in `slot` has ended; `failed` when it did not do its task.
    pub fn ended(&mut self, slot: u32, now: Mono, failed: bool) {
        let Ok(at) = self.slots.binary_search_by_key(&slot, |s| s.number) else { return };
        self.busy = self.busy.saturating_sub(1);
        let slot = &mut self.slots[at];
        slot.failures = if failed { slot.failures.saturating_add(1) } else { 0 };
        if slot.lives == Some(0) || slot.quota == Some(0) {
            return;
        }
        if failed {
            let pause = FIRST_PAUSE.saturating_mul(1 << (slot.failures - 1).min(20)).min(LONGEST_PAUSE);
            self.paused.push(Reverse((now.plus(pause), at)));
        } else {
            self.ready.push_back(at);
        }
    }

    /// Starts no more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The broker of the only worker, with so many slots.
    fn broker(connections: u32, phase: Phase) -> Broker {
        Broker::part(&Phase { connections, transfer: 100, ..phase }, 0, 1)
    }

    /// Runs a broker whose connections each last `life` ns; returns the starts as (instant, slot,
    /// bytes).
    fn play(broker: &mut Broker, life: u64, until: u64, failed: bool) -> Vec<(u64, u32, u64)> {
        let (mut now, mut open, mut starts) = (Mono(0), VecDeque::new(), Vec::new());
        loop {
            let next = match broker.next(now) {
                Next::Start { slot, bytes } => {
                    starts.push((now.0, slot, bytes));
                    open.push_back((now.plus(life), slot));
                    continue;
                }
                Next::At(at) => Some(at),
                Next::Idle => None,
                Next::Done => return starts,
            };
            let end = open.front().map(|&(end, _)| end);
            now = match (next, end) {
                (Some(a), Some(b)) => a.min(b),
                (a, b) => a.or(b).expect("an idle broker has an open connection"),
            };
            if now.0 > until {
                return starts;
            }
            while let Some(&(end, slot)) = open.front()
                && end <= now
            {
                open.pop_front();
                broker.ended(slot, now, failed);
            }
        }
    }

    #[test]
    fn every_slot_lives_its_lives() {
        let mut broker = broker(4, Phase { iterations: Some(3), ..Phase::default() });
        let starts = play(&mut broker, 10, u64::MAX, false);
        assert_eq!(starts.len(), 12);
        for slot in 0..4 {
            assert_eq!(starts.iter().filter(|s| s.1 == slot).count(), 3);
        }
    }

    #[test]
    fn a_total_is_dealt_out_to_the_byte_over_all_workers() {
        let phase = Phase { connections: 7, transfer: 1_000, total_bytes: Some(25_003), ..Phase::default() };
        let mut bytes = 0;
        for worker in 0..3 {
            let mut broker = Broker::part(&phase, worker, 3);
            bytes += play(&mut broker, 5, u64::MAX, false).iter().map(|s| s.2).sum::<u64>();
        }
        assert_eq!(bytes, 25_003);
    }

    #[test]
    fn fewer_bytes_than_slots_start_no_empty_connection() {
        let phase = Phase { connections: 8, total_bytes: Some(3), ..Phase::default() };
        let starts = play(&mut Broker::part(&phase, 0, 1), 5, u64::MAX, false);
        assert_eq!(starts.iter().map(|s| s.2).collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn a_dead_server_is_asked_less_and_less_often() {
        let mut broker = broker(1, Phase::default());
        let starts = play(&mut broker, 0, 10 * SECOND, true);
        let gaps: Vec<u64> = starts.windows(2).map(|w| (w[1].0 - w[0].0) / 1_000_000).collect();
        assert_eq!(gaps[..9], [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert!(starts.len() < 20);
    }

    #[test]
    fn a_rate_is_kept_and_what_cannot_be_kept_is_given_up() {
        let paced = |slots| broker(slots, Phase { connect_rate: Some(30.0), ..Phase::default() });
        let starts = play(&mut paced(4), 1_000_000, 10 * SECOND, false);
        assert!((299..=301).contains(&starts.len()), "{}", starts.len());
        // One slot, each life a second: 30 a second cannot be had.
        let starts = play(&mut paced(1), SECOND, 10 * SECOND, false);
        assert_eq!(starts.len(), 11);
    }

    #[test]
    fn two_workers_take_turns() {
        let phase = Phase { connections: 4, connect_rate: Some(20.0), ..Phase::default() };
        let starts = |worker| play(&mut Broker::part(&phase, worker, 2), 1_000, SECOND / 2, false);
        let at = |worker| starts(worker).iter().map(|s| s.0 / 1_000_000).collect::<Vec<_>>();
        assert_eq!((at(0), at(1)), (vec![0, 100, 200, 300, 400, 500], vec![50, 150, 250, 350, 450]));
    }

    #[test]
    fn a_stopped_broker_waits_for_what_is_open() {
        let mut broker = broker(2, Phase::default());
        assert!(matches!(broker.next(Mono(0)), Next::Start { slot: 0, .. }));
        broker.stop();
        assert_eq!(broker.next(Mono(1)), Next::Idle);
        broker.ended(0, Mono(2), false);
        assert_eq!(broker.next(Mono(2)), Next::Done);
    }
}
