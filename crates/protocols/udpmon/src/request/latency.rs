//! `udpmon_req`: requests, and responses of chosen sizes; the next request when the last is
//! answered.

use super::{RequestStep, Requester, UNANSWERED};
use crate::codec::{self, Message};
use crate::{PacketTest, PacketTestLatency};
use common::Patience;
use common::message::post_event;
use metrics::{Binned, Clamped, Mono, SECOND};
use transport::{Checked, Context};

/// Longest wait for a response, ns.
const PATIENCE: u64 = SECOND;
/// Requests in a row without a response, after which the responder counts as absent.
const SILENT: u64 = 30;
const SILENCE: Patience = Patience::of("no response", SILENT * PATIENCE);
/// Bins of the histogram.
const BINS: usize = 150;

/// The round trips of one response size.
#[derive(Default)]
pub(super) struct Latency {
    since: Mono,
    /// The number of the next request: over all sizes, so that a late response is never taken for
    /// another.
    frame: i64,
    sent: Mono,
    silent: u64,
    found: PacketTestLatency,
}

impl Latency {
    fn size(&self) -> usize {
        usize::clamped(self.found.response)
    }

    /// True if a datagram is the awaited response. One too short for a command can only be that.
    fn is_answered(&self, datagram: &[u8]) -> bool {
        let is_it = match codec::decode(datagram) {
            None => self.size() < 32,
            Some(Message::Response { frame, .. }) => frame == self.frame,
            _ => false,
        };
        is_it && datagram.len() == self.size()
    }

    fn add(&mut self, ns: u64) {
        let found = &mut self.found;
        found.min_ns = if found.count == 0 { ns } else { found.min_ns.min(ns) };
        found.max_ns = found.max_ns.max(ns);
        found.sum_ns = found.sum_ns.saturating_add(ns);
        found.count += 1;
        found.histogram.fill((ns / 1_000) as i64);
        self.silent = 0;
    }
}

impl Requester {
    /// Requests for responses of `size` bytes begin.
    pub(super) fn begin_size(&mut self, now: Mono, response: u32) {
        let asked = &self.params.asked;
        let histogram = Binned::new(asked.low.into(), asked.bin_width.into(), BINS);
        self.latency.found = PacketTestLatency { response, histogram, ..PacketTestLatency::default() };
        self.latency.since = now;
        self.step = RequestStep::Request(now);
    }

    /// The next request, which leaves at `now`.
    pub(super) fn request(&mut self, now: Mono) -> Vec<u8> {
        self.latency.sent = now;
        let length = i32::try_from(self.latency.found.response).unwrap_or(i32::MAX);
        let ask = Message::Ask { frame: self.latency.frame, length };
        codec::encode(&ask, usize::clamped(self.params.asked.size))
    }

    /// The request has left.
    pub(super) fn requested(&mut self) {
        self.step = RequestStep::Response(self.latency.sent.plus(PATIENCE));
    }

    /// A datagram has arrived; true if it is a response.
    pub(super) fn responded(&mut self, cx: &mut Context<'_>, datagram: &[u8]) -> bool {
        if matches!(self.step, RequestStep::Response(_)) && self.latency.is_answered(datagram) {
            self.latency.add(cx.now.since(self.latency.sent));
            self.next_request(cx);
            return true;
        }
        let strays = matches!(codec::decode(datagram), Some(Message::Response { .. }));
        self.latency.found.stray += u64::from(strays);
        strays
    }

    /// A response has not arrived in time.
    pub(super) fn missed(&mut self, cx: &mut Context<'_>) -> Checked {
        self.latency.found.missing += 1;
        self.latency.silent += 1;
        self.next_request(cx);
        if self.latency.silent < SILENT {
            return Ok(());
        }
        Err(SILENCE.violation().likely(UNANSWERED))
    }

    /// A request is over.
    fn next_request(&mut self, cx: &mut Context<'_>) {
        self.latency.frame += 1;
        self.step = RequestStep::Request(cx.now.plus(self.params.asked.wait_ns()));
        if self.latency.found.count >= u64::from(self.params.asked.packets) || self.stopped {
            self.end_size(cx);
        }
    }

    /// All responses of one size have arrived: reports them, and begins the next size.
    pub(super) fn end_size(&mut self, cx: &mut Context<'_>) {
        let mut found = std::mem::take(&mut self.latency.found);
        found.total_ns = cx.now.since(self.latency.since);
        let (_, last, step) = self.params.asked.responses;
        let next = found.response.saturating_add(step);
        let test = PacketTest {
            peer: self.core.path.map(|path| path.peer.to_string()).unwrap_or_default(),
            started: cx.clock.wall(self.latency.since),
            size: self.params.asked.size,
            latency: Some(found),
            over: true,
            ..PacketTest::default()
        };
        post_event(cx, test.event());
        if step > 0 && next <= last && !self.stopped {
            return self.begin_size(cx.now, next);
        }
        self.release();
    }
}
