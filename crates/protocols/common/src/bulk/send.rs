//! The sending end of a connection.
//!
//! ```text
//!  Wait ── the time has come ──▶ Send ── all sent, or the time is up ──▶ Hold ── let go ──▶ Part ── FIN, or silence ──▶ over
//! ```
//!
//! 1. Buffers are written one a call, whole: a run that ends early ends behind one.
//! 2. The time of a connection is that of its writes; what follows is its goodbye.
//! 3. A sender ends by FIN, never by RST: ntttcp's receiver takes bytes off its count for a reset.
//! 4. Then the receiver's FIN is waited for, for a while: it shows that everything was read.
//!    Receivers that keep their end open (ntttcp's does) lose nothing by that. A receiver whose
//!    host acknowledges nothing of the rest is gone, and so is its connection.

use super::Params;
use super::measured::Measured;
use metrics::{Clamped, Ending, Mono, SECOND};
use std::io::ErrorKind;
use std::sync::Arc;
use transport::{
    Checked, Context, End, Fault, Flow, FlowEvent, FlowId, Interest, Patience, Read, Received, Sent,
    Transmit, Violation, When,
};

/// The wait for the receiver's FIN.
const LINGER: Patience = Patience::of("no FIN", 2 * SECOND);
/// Interval at which a waiting connection checks if the test has begun, ns.
const LOOK: u64 = SECOND / 500;
/// A receiver whose timer began before ours may leave this long before our end, ns.
pub const CLOSE: u64 = SECOND / 4;
/// Most that is read from a peer that should send nothing, bytes.
const LISTEN: u64 = 4096;

/// Stages of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendStep {
    /// The test has not begun.
    Wait,
    Send,
    /// All is sent; the connection stays open until [`FlowEvent::Stop`] or this instant.
    Hold(Mono),
    /// Our FIN is out.
    Part(Mono),
    Over(Ending),
    Failed,
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct Sender {
    measured: Measured,
    step: SendStep,
    sent: u64,
    /// The peer has said its FIN: nothing is read any more.
    hushed: bool,
}

impl Sender {
    /// The connection of this slot.
    pub fn new(params: Arc<Params>, slot: u32) -> Self {
        Sender { measured: Measured::new(params, slot, true), step: SendStep::Wait, sent: 0, hushed: false }
    }

    /// Begins to send at its time.
    fn begin(&mut self, now: Mono) {
        if self.step == SendStep::Wait && self.measured.begins(now) {
            self.step = SendStep::Send;
        }
    }

    /// Bytes that are still to be sent.
    fn left(&self) -> u64 {
        let Params { transfer, buffer, .. } = *self.measured.params;
        match transfer {
            // The rest of the buffer that was begun.
            _ if self.measured.stopping => (buffer - self.sent % buffer) % buffer,
            Some(all) => all.saturating_sub(self.sent),
            None => u64::MAX,
        }
    }

    /// Of what may be sent, that of the next call.
    fn next(&self) -> u64 {
        let buffer = self.measured.params.buffer;
        let chunk = self.measured.pace.map_or(u64::MAX, |pace| pace.chunk());
        (buffer - self.sent % buffer).min(self.left()).min(chunk)
    }

    fn check_end(&mut self, cx: &mut Context<'_>) {
        let stopping = self.measured.stopping;
        if self.measured.stops(cx.now) && !stopping {
            // The rest of a buffer is sent as long as the receiver acknowledges something.
            self.measured.core.part(cx.now);
        }
        if self.step != SendStep::Send || self.left() > 0 || self.measured.owes(cx.now).is_some() {
            return;
        }
        self.measured.settle();
        self.measured.complete(cx);
        let Params { table, hold_ns, .. } = &*self.measured.params;
        // A test without a timetable has nothing to wait for.
        let until = if table.to() == Mono(u64::MAX) { cx.now } else { table.quiet().plus(*hold_ns) };
        self.step = SendStep::Hold(until);
        self.let_go(cx.now);
    }

    fn let_go(&mut self, now: Mono) {
        if let SendStep::Hold(until) = self.step
            && until <= now
        {
            self.measured.core.part(now);
            self.step =
                if self.hushed { self.last_step() } else { SendStep::Part(LINGER.since(now).until()) };
        }
    }

    fn last_step(&self) -> SendStep {
        SendStep::Over(self.measured.ending(self.sent))
    }

    fn fail(&mut self, violation: Violation) -> Checked {
        self.step = SendStep::Failed;
        Err(violation)
    }

    fn wake(&mut self, cx: &mut Context<'_>) -> Checked {
        self.begin(cx.now);
        self.check_end(cx);
        self.let_go(cx.now);
        match (self.step, self.measured.core.stalled(cx.now)) {
            (SendStep::Send, Some(stalled)) if self.left() > 0 => {
                let why = format!("the receiver takes nothing more after {} bytes", self.sent);
                self.fail(stalled.likely(why))
            }
            (SendStep::Part(until), _) if until <= cx.now => {
                if let Some(gone) = self.measured.core.unacknowledged(cx.now) {
                    return self.fail(gone);
                }
                self.step = self.last_step();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// True if the peer aborted the connection.
fn is_reset(fault: Fault) -> bool {
    let kind = std::io::Error::from_raw_os_error(fault.errno).kind();
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe)
}

impl Flow for Sender {
    fn interest(&self) -> Interest {
        let Measured { core, params, pace, stopping, .. } = &self.measured;
        let read = if self.hushed { Read::Pause } else { Read::look(LISTEN) };
        let quiet = Interest { read, ..Interest::NONE };
        match self.step {
            SendStep::Wait => Interest { wake: Some(core.moved.plus(LOOK)), ..quiet },
            SendStep::Send if self.left() == 0 => Interest { wake: self.measured.owes(Mono(0)), ..quiet },
            SendStep::Send => Interest {
                send: pace.map_or(When::Now, |pace| When::At(pace.due())),
                wake: match *stopping {
                    true => Some(core.looks_at()),
                    false => Some(core.stalls_at().min(params.table.quiet())),
                },
                ..quiet
            },
            SendStep::Hold(until) => Interest { wake: Some(until), ..quiet },
            SendStep::Part(until) => {
                Interest { wake: Some(until.min(core.looks_at())), end: Some(End::Half), ..quiet }
            }
            SendStep::Over(how) => Interest::done(how),
            SendStep::Failed => Interest::NONE,
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        if self.step == SendStep::Send {
            let n = self.next().min(u64::clamped(out.room()));
            let Params { filler, buffer, .. } = *self.measured.params;
            filler.offer(self.sent, usize::clamped(n), buffer, out);
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes == 0 || self.step != SendStep::Send {
            return;
        }
        let buffer = self.measured.params.buffer;
        let before = self.sent / buffer;
        self.sent += u64::clamped(n.bytes);
        self.measured.moved(cx, u64::clamped(n.bytes), self.sent / buffer - before);
        self.check_end(cx);
    }

    fn on_received(&mut self, _: &mut Context<'_>, _: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.fail(Violation::Malformed("bytes arrived from the receiver, which sends none in this protocol"))
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.measured.up(cx, path);
                self.begin(cx.now);
                self.check_end(cx);
            }
            FlowEvent::Fin => {
                self.hushed = true;
                if matches!(self.step, SendStep::Part(_)) {
                    self.step = self.last_step();
                }
            }
            FlowEvent::Broken(fault) => {
                self.measured.report(cx);
                let params = &self.measured.params;
                // The receiver went while its time was up, or ours: nothing is lost that counts.
                if matches!(self.step, SendStep::Hold(_))
                    || params.table.quiet().since(cx.now) <= CLOSE
                    || (params.reset_is_end && is_reset(fault))
                {
                    self.step = self.last_step();
                }
            }
            FlowEvent::Stop => {
                self.measured.stopping = true;
                self.measured.core.part(cx.now);
                if self.step == SendStep::Wait {
                    self.step = SendStep::Hold(cx.now);
                }
                self.check_end(cx);
                if let SendStep::Hold(until) = &mut self.step {
                    *until = cx.now;
                }
                self.let_go(cx.now);
            }
            FlowEvent::State(state) => {
                let core = &mut self.measured.core;
                core.note_queue(cx.now, state.queued);
                if let SendStep::Part(until) = &mut self.step {
                    *until = if state.queued > 0 { core.stalls_at() } else { *until };
                }
            }
            FlowEvent::Wake => return self.wake(cx),
            _ => {}
        }
        Ok(())
    }

    fn wants_socket_state(&self) -> bool {
        self.measured.stopping || matches!(self.step, SendStep::Part(_))
    }

    fn id(&self) -> FlowId {
        self.measured.core.id()
    }
}
