//! The measured part of a connection and its report: both ends of streams, and the sending end of
//! datagrams.

use super::Params;
use crate::kernel::{Core, PacedWay};
use crate::message::post_event;
use metrics::{Ending, Mono};
use model::{Event, Pace, Portion};
use std::sync::Arc;
use transport::{Context, Path};

/// The account of one connection: what moves while the timetable counts.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) core: Core,
    pub(super) params: Arc<Params>,
    pub(super) pace: Option<Pace>,
    sends: bool,
    /// Bytes and calls that count, and when the first and the last of them were.
    bytes: u64,
    pub(super) calls: u64,
    pub(super) since: Mono,
    pub(super) last: Mono,
    pub(super) stopping: bool,
    /// The connection has no end of its own.
    pub(super) cut: bool,
    told: bool,
}

impl Measured {
    pub(super) fn new(params: Arc<Params>, slot: u32, sends: bool) -> Self {
        Measured {
            core: Core::new(params.group, slot, params.stall_ns).telling(params.arrivals),
            params,
            pace: None,
            sends,
            bytes: 0,
            calls: 0,
            since: Mono(0),
            last: Mono(0),
            stopping: false,
            cut: false,
            told: false,
        }
    }

    pub(super) fn up(&mut self, cx: &mut Context<'_>, path: Path) {
        self.core.up(cx, path);
        (self.since, self.last) = (cx.now, cx.now);
    }

    /// A sender begins once the test has.
    pub(super) fn begins(&mut self, now: Mono) -> bool {
        self.core.moved = now;
        let begins = self.params.table.from().is_some();
        if begins {
            (self.since, self.last) = (now, now);
            self.pace = self.params.pace(now);
        }
        begins
    }

    /// Time at which the rate has paid for all sent bytes, if that is still ahead: bytes over a
    /// shorter time would be more than the rate. In a test with a timetable no sender decides the
    /// end.
    pub(super) fn owes(&self, now: Mono) -> Option<Mono> {
        let settled = self.pace.as_ref()?.settled();
        (settled > now && self.params.table.to() == Mono(u64::MAX)).then_some(settled)
    }

    /// All that was sent is paid for, and that is when sending ends.
    pub(super) fn settle(&mut self) {
        if let Some(pace) = self.pace.filter(|_| self.params.table.to() == Mono(u64::MAX)) {
            self.last = self.last.max(pace.settled());
        }
    }

    /// True if senders are to end.
    pub(super) fn stops(&mut self, now: Mono) -> bool {
        self.stopping |= self.params.table.quiet() <= now;
        self.stopping
    }

    /// `n` bytes have moved in `calls` calls, or buffers. True if they count.
    pub(super) fn moved(&mut self, cx: &mut Context<'_>, n: u64, calls: u64) -> bool {
        self.core.moved = cx.now;
        if let Some(pace) = &mut self.pace {
            pace.sent(n, cx.now);
        }
        let counts = self.params.table.counts(cx.now);
        if counts {
            self.bytes += n;
            self.calls += calls;
            self.last = cx.now;
            if self.sends {
                self.core.sent(cx, n);
            } else {
                self.core.received(cx, n);
            }
            if let Some(pace) = self.pace.as_ref().filter(|_| self.sends) {
                self.core.keeps_pace(cx, PacedWay::Sent, pace.origin(), pace.settled());
            }
        }
        counts
    }

    /// Ending of a sender after `sent` bytes.
    pub(super) fn ending(&self, sent: u64) -> Ending {
        if self.params.transfer.is_none_or(|all| sent >= all) { Ending::Completed } else { Ending::Stopped }
    }

    /// The measurement is over.
    pub(super) fn complete(&mut self, cx: &mut Context<'_>) {
        self.core.complete(cx, self.last.max(self.since));
        self.report(cx);
    }

    /// Reports the moved bytes, once.
    pub(super) fn report(&mut self, cx: &mut Context<'_>) {
        let Some(path) = self.core.path.filter(|_| !std::mem::replace(&mut self.told, true)) else { return };
        let (tx_bytes, rx_bytes) = if self.sends { (self.bytes, 0) } else { (0, self.bytes) };
        let portion = Portion {
            slot: self.core.slot,
            tx_bytes,
            rx_bytes,
            to_ns: self.last.max(self.since).0,
            calls: self.calls,
            cut: self.cut,
            ..Portion::new(path.local, path.peer, self.since.0)
        };
        post_event(cx, Event::Portion(Box::new(portion)));
    }
}
