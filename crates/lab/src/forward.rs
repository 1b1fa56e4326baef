//! The forwarder: one thread that takes packets from two devices, asks the [`Impairment`] of their
//! direction what becomes of them, and lets them go when they are due.
//!
//! Due times are absolute, so that lateness does not add up. The forwarder waits for the earliest
//! of them, and for packets: asleep in the reactor until shortly before, then polling (see
//! [`Wait`]). The queue of a direction is bounded.

use crate::impair::{Emission, Impairment, Offer, PacketOutcome, Verdict};
use crate::packet::{Anatomy, dissect};
use crate::setup::{Only, Path, Wait};
use crate::trace::{Class, TraceRow, Tracer, Way};
use crate::truth::{DirectionStats, PacketPlace, Worker};
use io::tun::Tun;
use io::{Clock, Reactor};
use metrics::{Clamped, Ecn, Mono};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The forwarder sleeps until this long before the next due time, ns: waking takes about as long.
const MARGIN_NS: u64 = 80_000;
/// The forwarder stays awake this long after the last event, ns: the next packet is then seen at
/// its arrival.
const LINGER_NS: u64 = 100_000;
/// Packets taken or let go before the other direction's turn.
const TURN: usize = 8;
/// Bytes that a direction may hold.
const MOST_BYTES: usize = 256 << 20;
/// Packets that a direction may hold.
const MOST_PACKETS: usize = 1 << 20;
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

#[derive(Debug)]
struct PacketSlot {
    bytes: Vec<u8>,
    /// The row of its first emission, but for its end.
    row: TraceRow,
    /// Emissions still due, copies included.
    left: u8,
    passed: bool,
}

impl PacketSlot {
    /// The row of an emission, but for its end.
    fn row(&self, emission: &Emission) -> TraceRow {
        TraceRow { due: emission.due, copy: emission.copy, ..self.row }
    }
}

#[derive(Debug)]
pub(crate) struct Lane {
    way: Way,
    only: Option<Only>,
    /// The path MTU that ICMP messages report to senders; `None` if the lab drops silently.
    tells: Option<u32>,
    wire: bool,
    impairment: Impairment,
    pub(crate) stats: DirectionStats,
    slots: Vec<PacketSlot>,
    free: Vec<u32>,
    bytes: usize,
    /// When the device was last seen empty.
    empty: Mono,
}

impl Lane {
    pub(crate) fn new(way: Way, path: &Path, seed: u64, now: Mono) -> Self {
        Lane {
            way,
            only: path.only,
            tells: path.path_mtu.filter(|mtu| !mtu.silent).map(|mtu| mtu.bytes),
            wire: path.corrupt.is_some_and(|c| c.wire),
            impairment: Impairment::new(path, seed, way as u8, Mono(u64::MAX)),
            stats: DirectionStats::new(),
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            empty: now,
        }
    }

    fn matches(&self, anatomy: &Anatomy) -> bool {
        self.only.is_none_or(|only| {
            let port = |port| anatomy.ports.is_some_and(|(from, to)| from == port || to == port);
            let marked = only.ecn.is_none_or(|ecn| ecn == Ecn::of(anatomy.tos));
            anatomy.protocol == only.protocol && only.port.is_none_or(port) && marked
        })
    }

    fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES || self.slots.len() - self.free.len() >= MOST_PACKETS
    }

    /// Keeps a packet until its last emission, under a token, in the buffer of one that has left.
    fn keep(&mut self, token: u32, bytes: &[u8], mut slot: PacketSlot) {
        self.bytes += bytes.len();
        let mut old = self.slots.get_mut(usize::clamped(token));
        if let Some(old) = &mut old {
            std::mem::swap(&mut slot.bytes, &mut old.bytes);
            slot.bytes.clear();
        }
        slot.bytes.extend_from_slice(bytes);
        match old {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
    }

    /// The token that the next packet would get.
    fn token(&self) -> u32 {
        self.free.last().copied().unwrap_or(u32::clamped(self.slots.len()))
    }

    fn done(&mut self, token: u32) {
        let Some(slot) = self.slots.get_mut(usize::clamped(token)) else { return };
        slot.left = slot.left.saturating_sub(1);
        if slot.left == 0 {
            self.bytes -= slot.bytes.len();
            self.free.push(token);
        }
    }

    /// Takes an arrived packet and decides its fate. `bytes` are then as they will leave.
    fn take(&mut self, bytes: &mut [u8], anatomy: &Anatomy, at: Mono) -> (PacketOutcome, TraceRow) {
        let PacketPlace { index, flow, flow_index } = self.stats.place(anatomy);
        let (token, length) = (self.token(), u32::clamped(bytes.len()));
        let offer = Offer {
            at,
            token,
            length,
            bits: u32::clamped(anatomy.payload.len()) * 8,
            tos: anatomy.tos,
            matched: self.matches(anatomy),
        };
        let outcome = if self.is_full() {
            PacketOutcome::new(Verdict::Overrun, &offer)
        } else {
            self.impairment.offer(&offer)
        };
        let row = TraceRow {
            way: self.way,
            index,
            flow,
            flow_index,
            length,
            arrived: at,
            due: outcome.due,
            left: None,
            class: Class::Not(outcome.verdict),
            copy: 0,
            flipped: u8::clamped(outcome.flips().len()),
            wire: self.wire,
            tos_in: anatomy.tos,
            tos_out: outcome.tos,
        };
        self.stats.arrived(&row, &outcome, at.since(self.empty));
        if !outcome.flips().is_empty() {
            anatomy.flip(bytes, outcome.flips(), !self.wire);
        }
        if outcome.tos != anatomy.tos {
            anatomy.set_tos(bytes, outcome.tos);
        }
        if outcome.verdict.goes_on() {
            self.free.pop();
            let (left, passed) = (1 + outcome.copies, outcome.verdict == Verdict::Passed);
            let row = TraceRow { class: Class::Unfinished, ..row };
            self.keep(token, bytes, PacketSlot { bytes: Vec::new(), row, left, passed });
        }
        (outcome, row)
    }

    /// A packet is let go at `at`, into `device`.
    fn let_go(&mut self, emission: &Emission, device: &Tun, at: Mono) -> Option<TraceRow> {
        let slot = self.slots.get(usize::clamped(emission.token))?;
        let mut row = slot.row(emission);
        if device.write(&slot.bytes).is_ok() {
            (row.left, row.class) = (Some(at), Class::Left);
            self.stats.left(&row, slot.passed, at);
        } else {
            row.class = Class::Refused;
            self.stats.stayed(&row);
        }
        self.done(emission.token);
        Some(row)
    }
}

/// The thread's own.
#[derive(Debug)]
pub(crate) struct Forwarder {
    /// The client's device and the server's.
    pub(crate) devices: [Tun; 2],
    /// Up reads the first device and writes the second, down the other way round.
    pub(crate) lanes: [Lane; 2],
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
            let let_go = self.emit(0) + self.emit(1);
            let taken = self.take(0, &mut scratch, TURN) + self.take(1, &mut scratch, TURN);
            if let_go + taken > 0 {
                busy_at = self.clock.now();
                continue;
            }
            if asked > settled && self.lanes.iter().all(|lane| lane.impairment.is_empty()) {
                settled = asked;
                *self.shared.settled.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                self.shared.changed.notify_all();
            }
            self.wait(busy_at);
        }
        self.close(&mut scratch);
        self
    }

    /// Starts the lanes' timetables at their begin. True once they run.
    fn begin(&mut self) -> bool {
        let begin = self.shared.begin.load(Ordering::Acquire);
        if begin > 0 {
            self.lanes.iter_mut().for_each(|lane| lane.impairment.begin = Mono(begin));
        }
        begin > 0
    }

    /// Lets packets go that are due; how many.
    fn emit(&mut self, lane: usize) -> usize {
        let Some(out) = self.devices.get(1 - lane) else { return 0 };
        let lane = &mut self.lanes[lane];
        for count in 0..TURN {
            let now = self.clock.now();
            let Some(emission) = lane.impairment.pop(now) else { return count };
            if let Some(row) = lane.let_go(&emission, out, now) {
                self.tracer.row(row);
            }
        }
        TURN
    }

    /// Takes up to `most` packets from the device; returns their number.
    fn take(&mut self, lane: usize, scratch: &mut [u8], most: usize) -> usize {
        let device = &self.devices[lane];
        let lane = &mut self.lanes[lane];
        for count in 0..most {
            let looked = self.clock.now();
            let Ok(Some(length)) = device.read(scratch) else {
                lane.empty = looked;
                return count;
            };
            let at = self.clock.now();
            let bytes = &mut scratch[..length];
            let Some(anatomy) = dissect(bytes).filter(|a| !a.is_housekeeping(bytes)) else {
                lane.stats.housekeeping += 1;
                continue;
            };
            let (outcome, row) = lane.take(bytes, &anatomy, at);
            if outcome.verdict.goes_on() {
                continue;
            }
            self.tracer.row(row);
            if outcome.verdict == Verdict::TooBig
                && let Some(reply) = lane.tells.and_then(|mtu| anatomy.too_big(bytes, mtu))
            {
                // A reply that cannot be given is as good as lost on the way; its want shows in the
                // count.
                lane.stats.told_too_big += u64::from(device.write(&reply).is_ok());
            }
        }
        most
    }

    /// Nothing to do: waits, or looks again at once.
    fn wait(&mut self, busy_at: Mono) {
        let due = self.lanes.iter().filter_map(|lane| lane.impairment.due()).min();
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
        for lane in 0..2 {
            self.take(lane, scratch, LAST_PACKETS);
            let lane = &mut self.lanes[lane];
            for emission in lane.impairment.unfinished() {
                let Some(slot) = lane.slots.get(usize::clamped(emission.token)) else { continue };
                let row = slot.row(&emission);
                lane.stats.stayed(&row);
                self.tracer.row(row);
            }
        }
    }
}
