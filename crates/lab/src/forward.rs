//! The forwarder: one thread that takes packets from two devices, hands them to the [`Network`], and
//! lets them go when they are due.
//!
//! Due times are absolute, so that lateness does not add up. The forwarder waits for the earliest
//! of them, and for packets: asleep in the reactor until shortly before, then polling (see
//! [`Wait`]). The queue of a direction is bounded.

use crate::network::{Network, Step};
use crate::packet::dissect;
use crate::setup::Wait;
use crate::trace::{Tracer, Way};
use crate::truth::Worker;
use io::tun::Tun;
use io::{Clock, Reactor};
use metrics::Mono;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The forwarder sleeps until this long before the next due time, ns: waking takes about as long.
const MARGIN_NS: u64 = 80_000;
/// The forwarder stays awake this long after the last event, ns: the next packet is then seen at
/// its arrival.
const LINGER_NS: u64 = 100_000;
/// Packets taken before the other direction's turn; twice as many go on or leave.
const TURN: usize = 8;
/// Most packets that are still taken from the devices at the end.
const LAST_PACKETS: usize = 100_000;

/// State that the forwarder's thread shares with the lab's owner.
#[derive(Debug, Default)]
pub(crate) struct ForwarderState {
    pub(crate) stop: AtomicBool,
    /// When timetables begin, as `Mono`; 0 while they have not.
    pub(crate) begin: AtomicU64,
    asked: AtomicU64,
    settled: Mutex<u64>,
    changed: Condvar,
}

impl ForwarderState {
    /// Waits until no packet is on its way, at most `limit`. False at the limit.
    pub(crate) fn settle(&self, wake: impl FnOnce(), limit: Duration) -> bool {
        let ask = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        wake();
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.changed.wait_timeout_while(settled, limit, |settled| *settled < ask);
        waiting.is_ok_and(|(settled, _)| *settled >= ask)
    }
}

/// The thread's own.
#[derive(Debug)]
pub(crate) struct Forwarder {
    /// The client's device and the server's.
    pub(crate) devices: [Tun; 2],
    /// Up reads the first device and writes the second, down the other way round.
    pub(crate) network: Network,
    pub(crate) reactor: Reactor,
    pub(crate) clock: Clock,
    pub(crate) shared: Arc<ForwarderState>,
    pub(crate) tracer: Tracer,
    pub(crate) worker: Worker,
}

impl Forwarder {
    /// Forwards until `stop` is set; returns itself for the final account.
    pub(crate) fn run(mut self) -> Self {
        let mut scratch = vec![0; 1 << 16];
        let (mut busy_at, mut begun, mut settled) = (self.clock.now(), false, 0);
        while !self.shared.stop.load(Ordering::Acquire) {
            if !begun {
                begun = self.begin();
            }
            let asked = self.shared.asked.load(Ordering::Acquire);
            let moved = self.step();
            let taken = self.take(Way::Up, &mut scratch, TURN) + self.take(Way::Down, &mut scratch, TURN);
            if moved + taken > 0 {
                busy_at = self.clock.now();
                continue;
            }
            if asked > settled && self.network.is_empty() {
                settled = asked;
                *self.shared.settled.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                self.shared.changed.notify_all();
            }
            self.wait(busy_at);
        }
        self.close(&mut scratch);
        self
    }

    /// Starts the timetables at their begin. True once they run.
    fn begin(&mut self) -> bool {
        let begin = self.shared.begin.load(Ordering::Acquire);
        if begin > 0 {
            self.network.begin(Mono(begin));
        }
        begin > 0
    }

    /// Moves packets that are due; how many.
    fn step(&mut self) -> usize {
        for count in 0..2 * TURN {
            let now = self.clock.now();
            let row = match self.network.step(now) {
                None => return count,
                Some(Step::Moved(row)) => row,
                Some(Step::Leaves(way, emission)) => {
                    let lane = &mut self.network.lanes[way as usize];
                    let taken = self.devices[1 - way as usize].write(lane.packet(emission.token)).is_ok();
                    lane.leave(&emission, taken, now)
                }
            };
            row.into_iter().for_each(|row| self.tracer.row(row));
        }
        2 * TURN
    }

    /// Takes up to `most` packets from the device; returns their number.
    fn take(&mut self, way: Way, scratch: &mut [u8], most: usize) -> usize {
        let device = &self.devices[way as usize];
        for count in 0..most {
            let looked = self.clock.now();
            let Ok(Some(length)) = device.read(scratch) else {
                self.network.lanes[way as usize].empty = looked;
                return count;
            };
            let at = self.clock.now();
            let bytes = &scratch[..length];
            let Some(anatomy) = dissect(bytes).filter(|a| !a.is_housekeeping(bytes)) else {
                self.network.lanes[way as usize].stats.housekeeping += 1;
                continue;
            };
            let taken = self.network.take(way, bytes, &anatomy, at);
            taken.row.into_iter().for_each(|row| self.tracer.row(row));
            // A reply that cannot be given is as good as lost on the way; its want shows in the
            // count.
            let replied = taken.reply.is_some_and(|reply| device.write(&reply).is_ok());
            self.network.lanes[way as usize].stats.told_too_big += u64::from(replied);
        }
        most
    }

    /// Nothing to do: waits, or looks again at once.
    fn wait(&mut self, busy_at: Mono) {
        let due = self.network.due();
        let now = self.clock.now();
        let until = match self.worker.wait {
            Wait::Spin => return std::hint::spin_loop(),
            Wait::Sleep => due,
            Wait::Hybrid => {
                let soon = due.is_some_and(|due| due.since(now) <= MARGIN_NS);
                if soon || now.since(busy_at) < LINGER_NS {
                    return std::hint::spin_loop();
                }
                due.map(|due| Mono(due.0 - MARGIN_NS))
            }
        };
        self.worker.sleeps += 1;
        let mut ready = Vec::new();
        // A reactor that cannot wait makes this a loop that looks: nothing is lost but processor
        // time.
        let _ = self.reactor.wait(until, &self.clock, &mut ready);
    }

    /// Takes the devices' last packets, and records those that will not leave any more.
    fn close(&mut self, scratch: &mut [u8]) {
        self.take(Way::Up, scratch, LAST_PACKETS);
        self.take(Way::Down, scratch, LAST_PACKETS);
        self.network.unfinished().into_iter().for_each(|row| self.tracer.row(row));
    }
}
