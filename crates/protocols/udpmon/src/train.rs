//! The packets of one test: when each is due, and when it left.

use super::codec::write_data;
use super::packet_stats::tenths;
use super::params::Params;
use common::kernel::Template;
use metrics::{Clamped, Mono, Packets};
use std::sync::Arc;
use transport::{Context, Sent, Transmit, When};

const TEMPLATE: Template = Template { key: 0x7564_706d_0000_0000, payload: 0 };

#[derive(Clone, Debug)]
pub(super) struct Train {
    params: Arc<Params>,
    wait_ns: u64,
    /// Packets of a burst; without end where the time decides.
    packets: u64,
    /// When the first packet was due.
    start: Mono,
    stop: Option<Mono>,
    /// When this burst began, its number, and packets of it.
    burst: (Mono, u32, u64),
    /// When the next packet is due.
    due: Mono,
    /// Packets that left or were refused, and refused ones.
    pub(super) frame: u64,
    pub(super) refused: u64,
    /// When the last packet offered left.
    left: Mono,
    /// Packets sent, by number and time; kept if an output lists packets.
    pub(super) log: Option<Vec<(u64, Mono)>>,
}

impl Train {
    /// Test `n`, from `start`.
    pub(super) fn new(params: &Arc<Params>, n: usize, start: Mono) -> Self {
        let timed = params.asked.time_ns;
        Train {
            params: Arc::clone(params),
            wait_ns: params.waits_ns.get(n).copied().unwrap_or(0),
            packets: if timed.is_some() { u64::MAX } else { params.asked.packets.into() },
            start,
            stop: timed.map(|ns| start.plus(ns)),
            burst: (start, 0, 0),
            due: start,
            frame: 0,
            refused: 0,
            left: start,
            log: params.train.is_some().then(Vec::new),
        }
    }

    /// When it wants to send next; `None` when all has left and the wait behind it is over at
    /// [`Train::end`].
    pub(super) fn due(&self) -> Option<When> {
        let over = self.burst.2 >= self.packets || self.stop.is_some_and(|stop| self.due >= stop);
        (!over).then_some(if self.wait_ns == 0 && self.burst.2 > 0 { When::Now } else { When::At(self.due) })
    }

    pub(super) fn stop(&mut self, now: Mono) {
        self.stop = Some(now);
        self.due = self.due.max(now);
    }

    /// Offers the next packet; `zero` is the origin of its time.
    pub(super) fn prepare_send(&mut self, cx: &mut Context<'_>, zero: Mono, out: &mut Transmit<'_>) {
        cx.rec.tally(self.params.group).late_ns.record(cx.now.since(self.due));
        self.left = cx.now;
        // The field holds a signed 32-bit value, although its place in the message is wider.
        let sent = i64::from(tenths(cx.now.since(zero)) as i32);
        let frame = self.frame as i64;
        let size = usize::clamped(self.params.asked.size);
        let packet = TEMPLATE.offer(out, size, size);
        write_data(packet, frame, sent);
    }

    /// Result of its send; a refused packet is given up, as in the original.
    pub(super) fn wrote(&mut self, n: Sent) -> Packets {
        if n.bytes == 0 && n.fault.is_none() {
            return Packets::default();
        }
        let sent = u64::from(n.bytes > 0);
        self.refused += 1 - sent;
        if let Some(log) = self.log.as_mut().filter(|_| sent > 0) {
            log.push((self.frame, self.left));
        }
        (self.frame, self.burst.2) = (self.frame + 1, self.burst.2 + 1);
        // One that is more than a wait late shifts the rest: those behind it would leave back to
        // back.
        let late = self.left.since(self.due) > self.wait_ns;
        let from = if self.params.asked.drift || self.wait_ns == 0 || late { self.left } else { self.due };
        self.due = from.plus(self.wait_ns);
        Packets { sent, refused: 1 - sent, unsent: 1 - sent, ..Packets::default() }
    }

    /// When the wait behind the last packet is over.
    pub(super) fn end(&self) -> Mono {
        self.due.max(self.left)
    }

    /// Goes on with the next burst, if there is one.
    pub(super) fn next_burst(&mut self, now: Mono) -> bool {
        if self.burst.1 + 1 >= self.params.asked.bursts || self.stop.is_some() {
            return false;
        }
        let begin = self.end().plus(self.params.asked.gap_ns()).max(now);
        self.burst = (begin, self.burst.1 + 1, 0);
        self.due = begin;
        true
    }

    /// From the first packet, and from the first of the last burst, until `now`, ns.
    pub(super) fn lasted(&self, now: Mono) -> (u64, u64) {
        (now.since(self.start), now.since(self.burst.0))
    }
}
