//! `udpmon_req`: requests, and responses of chosen sizes; the next request when the last is answered.

use super::codec::{self, Message};
use super::params::Params;
use super::talk::Talk;
use crate::{PacketTest, PacketTestLatency};
use common::kernel::Core;
use common::message::tell;
use metrics::{Binned, Clamped, Ending, Mono, SECOND};
use std::sync::Arc;
use std::time::Duration;
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, Violation, When,
};
use uuid::Uuid;

/// How long a response is waited for, ns.
const PATIENCE: u64 = SECOND;
/// Requests in a row without a response, after which the responder counts as absent.
const SILENT: u64 = 30;
/// Bins of the histogram.
const BINS: usize = 150;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Lock,
    /// A request may leave at that time.
    Ask(Mono),
    /// Its response is waited for until then.
    Wait(Mono),
    Release,
    Over(Ending),
}

/// Measures round trips.
#[derive(Default)]
pub struct Latency {
    params: Arc<Params>,
    core: Core,
    step: Step,
    talk: Talk,
    /// The response size, when it was begun with, and the number of the next request: over all sizes, so that a late response
    /// is never taken for another.
    size: u32,
    since: Mono,
    frame: i64,
    sent: Mono,
    silent: u64,
    found: PacketTestLatency,
    stopped: bool,
}

impl Latency {
    pub fn new(params: Arc<Params>, id: Uuid, slot: u32) -> Self {
        let core = Core::new(params.group, slot, 0).with_id(id);
        Latency { core, size: params.asked.responses.0, params, ..Latency::default() }
    }

    fn begin(&mut self, now: Mono) {
        let asked = &self.params.asked;
        let histogram = Binned::new(asked.low.into(), asked.bin_width.into(), BINS);
        self.found = PacketTestLatency { response: self.size, histogram, ..PacketTestLatency::default() };
        self.since = now;
        self.step = Step::Ask(now);
    }

    /// A request is over, with its round trip, or without.
    fn next(&mut self, cx: &mut Context<'_>, round_trip: Option<u64>) {
        let found = &mut self.found;
        match round_trip {
            Some(ns) => {
                found.min_ns = if found.count == 0 { ns } else { found.min_ns.min(ns) };
                found.max_ns = found.max_ns.max(ns);
                found.sum_ns = found.sum_ns.saturating_add(ns);
                found.count += 1;
                found.histogram.fill((ns / 1_000) as i64);
                self.silent = 0;
            }
            None => {
                found.missing += 1;
                self.silent += 1;
            }
        }
        let pause =
            u64::from(self.params.asked.waits.first().copied().unwrap_or(0)) * super::packet_stats::TENTH;
        self.step = Step::Ask(cx.now.plus(pause));
        if self.found.count >= u64::from(self.params.asked.packets) || self.stopped {
            self.sized(cx);
        }
    }

    fn sized(&mut self, cx: &mut Context<'_>) {
        self.found.total_ns = cx.now.since(self.since);
        let test = PacketTest {
            peer: self.core.path.map(|path| path.peer.to_string()).unwrap_or_default(),
            started: cx.clock.wall(self.since),
            size: self.params.asked.size,
            latency: Some(std::mem::take(&mut self.found)),
            over: true,
            ..PacketTest::default()
        };
        tell(cx, test.event());
        let (_, last, step) = self.params.asked.responses;
        self.size = self.size.saturating_add(step);
        if step > 0 && self.size <= last && !self.stopped {
            return self.begin(cx.now);
        }
        self.step = Step::Release;
        self.talk.ask(codec::encode(&Message::End, codec::PARAM));
    }
}

impl Flow for Latency {
    fn interest(&self) -> Interest {
        let (send, wake, end) = match self.step {
            Step::Ask(at) => (When::At(at), None, None),
            Step::Wait(until) => (When::Never, Some(until), None),
            Step::Over(how) => (When::Never, None, Some(End::Done { how, reset: false })),
            Step::Lock | Step::Release => (self.talk.send(), self.talk.wake(), None),
        };
        Interest { send, read: Read::look(65_535), wake, end }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        if !matches!(self.step, Step::Ask(_)) {
            return self.talk.prepare_send(cx, out);
        }
        self.sent = cx.now;
        let length = i32::try_from(self.size).unwrap_or(i32::MAX);
        let request = codec::encode(
            &Message::Ask { frame: self.frame, length },
            usize::clamped(self.params.asked.size),
        );
        out.copy(&request);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes == 0 && n.fault.is_none() {
            return;
        }
        if matches!(self.step, Step::Ask(_)) {
            self.core.sent(cx, n.bytes);
            self.step = Step::Wait(self.sent.plus(PATIENCE));
        } else {
            self.core.framing_sent(cx, n.bytes);
            self.talk.wrote(cx.now);
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        if matches!(self.step, Step::Ask(_) | Step::Wait(_)) {
            self.core.received(cx, got.len);
        } else {
            self.core.framing_received(cx, got.len);
        }
        for datagram in got.datagrams() {
            match (self.step, codec::decode(datagram)) {
                // Too short a response to say what it is can only be the one that is waited for.
                (Step::Wait(_), None) if datagram.len() == usize::clamped(self.size) && self.size < 32 => {
                    self.frame += 1;
                    self.next(cx, Some(cx.now.since(self.sent)));
                }
                (Step::Wait(_), Some(Message::Response { frame, .. }))
                    if frame == self.frame && datagram.len() == usize::clamped(self.size) =>
                {
                    self.frame += 1;
                    self.next(cx, Some(cx.now.since(self.sent)));
                }
                (_, Some(Message::Response { .. })) => self.found.stray += 1,
                (Step::Lock, Some(Message::Ok { version: codec::VERSION } | Message::Busy { .. })) => {
                    // A responder in use answers requests all the same, and START is not needed for them.
                    self.talk.answered(cx.now);
                    self.begin(cx.now);
                }
                (Step::Lock, Some(Message::Ok { .. })) => {
                    return Err(Violation::Malformed(
                        "the responder speaks another version of UDPmon's protocol than 7",
                    ));
                }
                (Step::Release, Some(Message::Ok { .. })) => {
                    self.core.complete(cx, cx.now);
                    self.step = Step::Over(if self.stopped { Ending::Stopped } else { Ending::Completed });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.core.up(cx, path);
                self.talk.ask(codec::encode(&Message::Zero(self.params.setup()), codec::PARAM));
            }
            // A responder that is just starting is there when it is asked again.
            FlowEvent::Broken(fault) if self.step == Step::Lock && self.talk.repeated() => {
                return Err(Violation::Refused(fault));
            }
            FlowEvent::Wake => {
                let why = "is udpmon_resp running there, and does UDP get through both ways?";
                match self.step {
                    Step::Wait(until) if cx.now >= until => {
                        self.frame += 1;
                        self.next(cx, None);
                        if self.silent >= SILENT {
                            return Err(
                                Violation::Stalled(Duration::from_nanos(SILENT * PATIENCE)).likely(why)
                            );
                        }
                    }
                    Step::Lock | Step::Release => {
                        self.talk
                            .late(cx.now)
                            .map_err(|ns| Violation::Stalled(Duration::from_nanos(ns)).likely(why))?;
                    }
                    _ => {}
                }
            }
            FlowEvent::Stop => {
                self.stopped = true;
                match self.step {
                    Step::Ask(_) | Step::Wait(_) => self.sized(cx),
                    Step::Lock => self.step = Step::Over(Ending::Stopped),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
