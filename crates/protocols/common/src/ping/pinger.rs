//! The asking end of one connection: messages out, echoes back, each one compared and timed.
//!
//! A round trip is the time from the instant at which the first byte of a message was offered to
//! the kernel until the return of the call that received the last byte of its echo. Over UDP an
//! echo that is not back in time makes its message *missing*; if it arrives after all it was
//! *late*, else it is *lost*. Over TCP nothing is lost: a message without an echo is unsettled when
//! the connection ends.

mod arrival;

use super::codec::{self, HEAD, Head};
use super::params::{Params, Remote};
use super::slots::Slots;
use super::talk::Talk;
use super::window::{MessageSlot, MessageState, Window};
use crate::kernel::Core;
use crate::message::post_event;
use metrics::{Clamped, Ending, Mono};
use model::{Echo, Event, PingRow, Schedule};
use std::sync::Arc;
use transport::{
    Checked, Context, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit, Violation,
    When,
};
use uuid::Uuid;

/// Most messages that are reported at once.
const AT_ONCE: usize = 256;
/// And so often at least, as long as something is known, ns.
const TELL_AFTER: u64 = 100_000_000;
/// Messages under way at once on a connection.
const MOST_WAITING: usize = 1 << 16;
/// After a refused send the next one waits, ns.
const HOLD: u64 = 1_000_000;
/// Refusals in a row, without one echo, after which the target counts as absent.
const HOPELESS: u32 = 3;
/// Delay of a run's first message after the start, ns, unless messages are closer together: at the
/// ends of intervals, which are multiples of a message's distance, both ends' threads are busy with
/// these.
const ASIDE: u64 = 50_000_000;
/// Longest datagram.
const MAX_DATAGRAM: u64 = 65_535;

/// Stages of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PingStep {
    /// Sending and receiving.
    #[default]
    Running,
    /// Nothing more is sent; echoes are waited for, at most until then.
    Draining(Option<Mono>),
    /// Done.
    Over(Ending),
    /// The peer was at fault.
    Failed,
}

/// The message being sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    number: u64,
    word: u64,
    /// Bytes sent.
    off: u64,
}

/// The present echo on a stream.
#[derive(Debug, Default)]
struct Coming {
    number: u64,
    /// Received bytes of it.
    got: u64,
    head: [u8; HEAD],
    damaged: bool,
}

/// One connection.
#[derive(Debug, Default)]
pub struct Pinger {
    params: Arc<Params>,
    core: Core,
    step: PingStep,
    since: Mono,
    window: Window,
    sending: Option<Sending>,
    /// The word of the message that was offered last.
    word: u64,
    slots: Slots,
    /// When the next message is to be sent, in an open loop; not before then, in a closed one.
    due: Mono,
    /// Streams: the present echo.
    echo: Coming,
    /// Bytes of messages sent, and of echoes received.
    sent_bytes: u64,
    echoed_bytes: u64,
    refused: u32,
    answered: bool,
    stopped: bool,
    first_bad: Option<Violation>,
    rows: Vec<PingRow>,
    told: Mono,
    /// Arrival of the bytes being read, by the kernel's stamp.
    came: Option<Mono>,
    /// Codec of messages, where the peer does not merely echo bytes.
    talk: Option<Box<dyn Talk>>,
}

impl Pinger {
    /// Connection number `slot` of a run.
    pub fn new(params: Arc<Params>, id: Uuid, slot: u32) -> Self {
        let slots = Slots::new(params.ping.schedule, params.trace.clone());
        let core = Core::new(params.group, slot, params.stall_ns).with_id(id);
        Pinger { core, params, slots, ..Pinger::default() }
    }

    /// Connection number `slot` of a run over datagrams in which something is said.
    pub fn speaking(params: Arc<Params>, id: Uuid, slot: u32, talk: Box<dyn Talk>) -> Self {
        Pinger { talk: Some(talk), ..Pinger::new(params, id, slot) }
    }

    /// Messages of the connection, the warm-up among them.
    fn most(&self) -> u64 {
        self.params.ping.messages.map_or(u64::MAX, |n| n.saturating_add(self.params.ping.warmup))
    }

    fn size(&self) -> u64 {
        u64::from(self.params.ping.size)
    }

    fn closed_loop(&self) -> bool {
        self.params.ping.schedule == Schedule::Closed
    }

    /// Time of the next message; `None` while none may be sent.
    fn next_due(&self) -> Option<Mono> {
        let may = self.step == PingStep::Running
            && self.window.next() < self.most()
            && self.params.span.and_then(|(_, end)| end).is_none_or(|end| self.due < end)
            && (!self.closed_loop() || self.window.waiting() == 0);
        may.then_some(self.due)
    }

    /// Gives up the places in the schedule that are too long past, or for which there is no room.
    fn give_up(&mut self, cx: &mut Context<'_>) {
        if self.closed_loop() {
            return;
        }
        let (now, timeout) = (cx.now, self.params.ping.timeout_ns);
        let full = self.window.waiting() >= MOST_WAITING;
        self.miss(cx, |due| due <= now && (full || now.since(due) > timeout));
    }

    /// Nothing is sent at the places of the schedule from the next one on, as long as they are
    /// such.
    fn miss(&mut self, cx: &mut Context<'_>, such: impl Fn(Mono) -> bool) {
        let mut missed = 0;
        while self.next_due().is_some_and(&such) {
            missed += 1;
            self.due = self.due.plus(self.slots.next(cx.rng).unwrap_or(1));
        }
        if missed > 0 {
            self.core.packet(cx, |packets| packets.unsent += missed);
        }
    }

    /// The run is over: unsent messages of its schedule are missed.
    fn stop(&mut self, cx: &mut Context<'_>) {
        if let Some((_, Some(end))) = self.params.span {
            let end = end.min(cx.now);
            self.miss(cx, |due| due < end);
        }
        self.stopped = true;
    }

    /// The first bytes of a message have left.
    fn begun(&mut self, cx: &mut Context<'_>) {
        let (number, word) = (self.window.next(), self.word);
        let warm = number < self.params.ping.warmup || cx.now.since(self.since) < self.params.omit_ns;
        let intended = if self.closed_loop() { cx.now } else { self.due };
        if let Some(gap) = self.slots.next(cx.rng) {
            self.due = self.due.plus(gap);
        }
        let left = if self.params.units() >= 64 { u64::MAX } else { (1 << self.params.units()) - 1 };
        let slot = MessageSlot { intended, word, left, counted: !warm, ..MessageSlot::sent(cx.now) };
        self.window.push(slot, self.params.remembered());
        self.sending = Some(Sending { number, word, off: 0 });
        if let Some(talk) = &mut self.talk {
            talk.left(number, true);
        }
        if warm {
            cx.rec.packet_tally(self.params.group).omitted += 1;
            return;
        }
        self.core.packet(cx, |packets| packets.sent += 1);
        if !self.closed_loop() {
            self.core.late(cx, intended);
        }
    }

    /// The second word of a message.
    fn word(&self, cx: &Context<'_>) -> u64 {
        match &self.talk {
            Some(talk) => talk.word(cx.clock, cx.now),
            None if self.params.remote == Remote::Spent => 0,
            None => cx.now.0,
        }
    }

    /// The next send: message, its word and the offset in it.
    fn next_send(&self, cx: &Context<'_>) -> Sending {
        self.sending.unwrap_or_else(|| Sending { number: self.window.next(), word: self.word(cx), off: 0 })
    }

    fn refused_send(&mut self, cx: &mut Context<'_>) {
        self.refused += 1;
        let begun = self.sending.take();
        self.due = match self.slots.next(cx.rng) {
            None => cx.now.plus(HOLD),
            Some(gap) => self.due.plus(gap),
        };
        self.core.packet(cx, |packets| packets.refused += 1);
        if begun.is_none() {
            // The message has a number, but it never was under way.
            let slot = MessageSlot { left: 0, state: MessageState::Settled, ..MessageSlot::sent(cx.now) };
            if let Some(talk) = &mut self.talk {
                talk.left(self.window.next(), false);
            }
            self.window.push(slot, self.params.remembered());
            self.core.packet(cx, |packets| packets.unsent += 1);
        }
    }

    /// Reports a message.
    fn record_message(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        slot: &MessageSlot,
        echo: Echo,
        remote_ns: Option<u64>,
    ) {
        if !self.params.ping.samples || !slot.counted {
            return;
        }
        self.rows.push(PingRow {
            slot: self.core.slot,
            seq: number.saturating_sub(self.params.ping.warmup),
            intended_ns: slot.intended.0,
            sent_ns: slot.sent.0,
            rtt_ns: (echo != Echo::Missing).then(|| cx.now.since(slot.sent)),
            remote_ns,
            echo,
        });
        if self.rows.len() >= AT_ONCE || cx.now.since(self.told) >= TELL_AFTER {
            self.report_messages(cx);
        }
    }

    fn report_messages(&mut self, cx: &mut Context<'_>) {
        self.told = cx.now;
        if !self.rows.is_empty() {
            post_event(cx, Event::Pings { rows: std::mem::take(&mut self.rows) });
        }
    }

    /// After everything that may have been the last: whether the connection is over, and how.
    fn settle(&mut self, cx: &mut Context<'_>) -> Checked {
        let all_sent = self.window.next() >= self.most() && self.sending.is_none();
        if self.step == PingStep::Running && (self.stopped || all_sent) {
            self.step = PingStep::Draining(None);
        }
        let PingStep::Draining(until) = self.step else { return Ok(()) };
        let timeout = self.params.ping.timeout_ns;
        if self.window.waiting() > 0 && !self.params.datagrams() {
            // Nothing is lost over TCP, but the run has to end some time.
            if self.stopped && until.is_none() {
                self.step = PingStep::Draining(Some(cx.now.plus(timeout)));
            }
            if until.is_none_or(|until| cx.now < until) {
                return Ok(());
            }
        } else if self.window.waiting() > 0 {
            return Ok(());
        } else if self.params.datagrams() && self.window.missing() > 0 && self.sending.is_none() {
            // A missing echo may be late.
            let until = until.unwrap_or(cx.now.plus(timeout));
            if cx.now < until {
                self.step = PingStep::Draining(Some(until));
                return Ok(());
            }
        }
        self.report_messages(cx);
        if let Some(talk) = &mut self.talk {
            talk.finish(cx);
        }
        let whole = all_sent && self.window.waiting() == 0;
        self.step = PingStep::Over(if whole { Ending::Completed } else { Ending::Stopped });
        match self.first_bad.take() {
            Some(bad) => self.fail(bad),
            None => Ok(()),
        }
    }

    fn fail(&mut self, violation: Violation) -> Checked {
        self.step = PingStep::Failed;
        Err(violation)
    }

    fn wake(&self) -> Option<Mono> {
        let first = if self.params.datagrams() {
            self.window.known_oldest().map(|slot| slot.sent.plus(self.params.ping.timeout_ns))
        } else {
            (self.window.waiting() > 0).then(|| self.core.stalls_at())
        };
        if self.rows.is_empty() && self.step == PingStep::Running {
            return first;
        }
        let until = if let PingStep::Draining(until) = self.step { until } else { None };
        let told = (!self.rows.is_empty()).then(|| self.told.plus(TELL_AFTER));
        [first, until, told].into_iter().flatten().min()
    }

    fn woken(&mut self, cx: &mut Context<'_>) -> Checked {
        self.overdue(cx);
        if cx.now.since(self.told) >= TELL_AFTER {
            self.report_messages(cx);
        }
        let waits = !self.params.datagrams() && self.window.waiting() > 0;
        if let Some(stalled) = self.core.stalled(cx.now).filter(|_| waits) {
            self.report_messages(cx);
            return self.fail(stalled.likely("the echo does not arrive: is it an echo service?"));
        }
        self.settle(cx)
    }

    fn up(&mut self, cx: &mut Context<'_>, path: Path) {
        self.core.up(cx, path);
        self.told = cx.now;
        self.since = self.params.span.map_or(cx.now, |(start, _)| start);
        self.due = self.since;
        if let Some(gap) = self.params.ping.schedule.gap_ns() {
            let connections = u64::from(self.params.connections.max(1));
            let step = gap / connections;
            let spaced = matches!(self.params.ping.schedule, Schedule::Fixed { .. });
            let aside = if spaced && self.params.span.is_some() { ASIDE.min(step / 2) } else { 0 };
            self.due = self.since.plus(step * (u64::from(self.core.slot) % connections)).plus(aside);
            // Sent at once and together, they would show the time of the opening.
            let now = cx.now;
            self.miss(cx, |due| due < now);
        }
    }
}

impl Flow for Pinger {
    fn interest(&self) -> Interest {
        match self.step {
            PingStep::Over(how) => return Interest::done(how),
            PingStep::Failed => return Interest::NONE,
            PingStep::Running | PingStep::Draining(_) => {}
        }
        let send = match (self.sending, self.next_due()) {
            (Some(_), _) => When::Now,
            (None, Some(due)) => When::At(due),
            (None, None) => When::Never,
        };
        // One byte more than expected: a socket that gives less is empty, and a surplus byte is
        // noticed.
        let left = self.sent_bytes.saturating_sub(self.echoed_bytes);
        let read = Read::look(if self.params.datagrams() { MAX_DATAGRAM } else { left + 1 });
        Interest { send, read, wake: self.wake(), end: None }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        if !matches!(self.step, PingStep::Running | PingStep::Draining(_)) {
            return;
        }
        self.give_up(cx);
        if self.sending.is_none() && self.next_due().is_none_or(|due| due > cx.now) {
            return;
        }
        let Sending { number, word, off } = self.next_send(cx);
        self.word = word;
        // A preamble is sent before messages and must not be timed.
        out.timed = self.talk.is_none();
        let whole = usize::clamped(self.params.ping.size);
        if self.params.ping.kernel_stamps {
            out.tag = Some(number as u32);
        }
        if let Some(talk) = &mut self.talk {
            return talk.offer(cx, number, whole, out);
        }
        if self.params.datagrams() {
            let units = self.params.units();
            let piece = off / self.params.unit(0).max(1);
            let size = self.params.unit(piece);
            return codec::offer(Head { number: number * units + piece, word }, size, 0, size, out);
        }
        codec::offer(Head { number, word }, self.size(), off, self.params.send_at(off), out);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.fault.is_some() && self.params.datagrams() {
            return self.refused_send(cx);
        }
        if n.bytes == 0 {
            return;
        }
        if self.sending.is_none() {
            self.begun(cx);
        }
        self.core.moved = cx.now;
        self.sent_bytes += u64::clamped(n.bytes);
        self.core.sent(cx, n.bytes);
        let size = self.size();
        if let Some(sending) = &mut self.sending {
            sending.off += u64::clamped(n.bytes);
            if sending.off >= size {
                self.sending = None;
                self.window.oldest();
            }
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.moved = cx.now;
        self.came = got.stamp.map(|stamp| stamp.at);
        self.echoed_bytes += u64::clamped(got.len);
        self.core.received(cx, got.len);
        if self.params.datagrams() {
            cx.rec.packet_tally(self.params.group).came = cx.now;
            self.core.see_marks(cx, got);
        }
        if self.talk.is_some() {
            got.datagrams().for_each(|datagram| self.take_answer(cx, got, datagram));
            self.overdue(cx);
        } else if self.params.datagrams() {
            got.datagrams().for_each(|datagram| self.take_datagram(cx, datagram));
            self.overdue(cx);
        } else {
            self.take_stream(cx, got.bytes)?;
        }
        self.window.oldest();
        self.settle(cx)
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.up(cx, path),
            FlowEvent::Wake => return self.woken(cx),
            FlowEvent::Stop => {
                self.stop(cx);
                return self.settle(cx);
            }
            FlowEvent::Fin => {
                self.report_messages(cx);
                let (want, got) = (self.sent_bytes, self.echoed_bytes);
                let why = "the echo service closed the connection";
                return self.fail(Violation::TooFew { got, want }.likely(why));
            }
            FlowEvent::Broken(_) if self.params.datagrams() => {
                self.refused += 1;
                self.core.packet(cx, |packets| packets.refused += 1);
                if self.refused >= HOPELESS && !self.answered {
                    self.report_messages(cx);
                    let why = "no program listens at that UDP port (ICMP port unreachable)";
                    return self.fail(Violation::Vanished.likely(why));
                }
            }
            FlowEvent::Broken(_) => self.report_messages(cx),
            FlowEvent::Stamped { tag, stamp, .. } => self.left_at(tag, stamp.at),
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
