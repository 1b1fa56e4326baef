//! The sending end of a connection.
//!
//! ```text
//!  Wait ── the time has come ──▶ Send ── all sent, or the time is up ──▶ Hold ── let go ──▶ Part ── FIN, or silence ──▶ over
//! ```
//!
//! 1. Buffers are written one a call, whole: a run that ends early ends behind one.
//! 2. The time of a connection is that of its writes; what follows is its goodbye.
//! 3. It ends by FIN, never by RST: ntttcp's receiver takes bytes off its count for a reset.
//! 4. Then the receiver's FIN is waited for, for a while: it shows that everything was read. Receivers that keep their end
//!    open (ntttcp's does) lose nothing by that.

use super::Params;
use crate::one_sided::{Arrived, Portion};
use metrics::{Ending, Mono, Row, SECOND};
use model::Pace;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use transport::{
    Context, End, Fault, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit, Violation,
    When,
};

/// How long the receiver's FIN is waited for, ns.
const LINGER: u64 = 2 * SECOND;
/// How often a connection that waits looks whether the test has begun, ns.
const LOOK: u64 = SECOND / 500;
/// A receiver whose timer began before ours may go so long before our end, ns.
pub const CLOSE: u64 = SECOND / 4;
/// Most that is read from somebody who should say nothing, bytes.
const LISTEN: u64 = 4096;

/// Where a sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The test has not begun.
    Wait,
    Send,
    /// All is sent; the connection is kept until somebody says that it may end, or this instant.
    Hold(Mono),
    /// Our FIN is out.
    Part(Mono),
    Over(Ending),
    Failed,
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct Sender {
    params: Arc<Params>,
    slot: u32,
    row: Option<Row>,
    path: Option<Path>,
    step: Step,
    pace: Option<Pace>,
    sent: u64,
    /// Sends that count: bytes, calls, and when the first and the last of them were.
    counted: u64,
    calls: u64,
    since: Mono,
    last: Mono,
    moved: Mono,
    stopping: bool,
    /// The peer has said its FIN: nothing is read any more.
    hushed: bool,
    told: bool,
}

impl Sender {
    /// The connection of this slot.
    #[must_use]
    pub fn new(params: Arc<Params>, slot: u32) -> Self {
        Sender {
            params,
            slot,
            row: None,
            path: None,
            step: Step::Wait,
            pace: None,
            sent: 0,
            counted: 0,
            calls: 0,
            since: Mono(0),
            last: Mono(0),
            moved: Mono(0),
            stopping: false,
            hushed: false,
            told: false,
        }
    }

    /// Begins to send, if the time has come.
    fn begin(&mut self, cx: &mut Context<'_>) {
        if self.step != Step::Wait {
            return;
        }
        self.moved = cx.now;
        if self.params.table.from().is_none() {
            return;
        }
        self.step = Step::Send;
        (self.moved, self.since, self.last) = (cx.now, cx.now, cx.now);
        self.pace = self.params.pace(cx.now);
    }

    /// Bytes that are still to be sent.
    fn left(&self) -> u64 {
        match self.params.transfer {
            Some(all) if !self.stopping => all.saturating_sub(self.sent),
            // The rest of the buffer that was begun.
            _ if self.stopping => (self.params.buffer - self.sent % self.params.buffer) % self.params.buffer,
            _ => u64::MAX,
        }
    }

    /// Of what may be sent, that of the next call.
    fn next(&self) -> u64 {
        let buffer = self.params.buffer;
        let chunk = self.pace.map_or(u64::MAX, |pace| pace.chunk());
        (buffer - self.sent % buffer).min(self.left()).min(chunk)
    }

    fn check_end(&mut self, cx: &mut Context<'_>) {
        let table = Arc::clone(&self.params.table);
        self.stopping |= table.quiet() <= cx.now;
        if self.step != Step::Send || self.left() > 0 {
            return;
        }
        let last = self.last.max(self.since);
        if let Some(row) = self.row {
            cx.rec.complete(row, last);
        }
        self.tell(cx);
        // Where nothing is timed, nothing has to be waited for.
        let until =
            if table.to() == Mono(u64::MAX) { cx.now } else { table.quiet().plus(self.params.hold_ns) };
        self.step = Step::Hold(until);
        self.let_go(cx.now);
    }

    fn let_go(&mut self, now: Mono) {
        if let Step::Hold(until) = self.step
            && until <= now
        {
            self.step = if self.hushed { Step::Over(self.ending()) } else { Step::Part(now.plus(LINGER)) };
        }
    }

    fn ending(&self) -> Ending {
        let whole = self.params.transfer.is_some_and(|all| self.sent >= all);
        if whole || self.params.transfer.is_none() { Ending::Completed } else { Ending::Stopped }
    }

    /// Tells what has moved, once.
    fn tell(&mut self, cx: &mut Context<'_>) {
        let Some(path) = self.path.filter(|_| !std::mem::replace(&mut self.told, true)) else { return };
        cx.outbox.push(Box::new(Portion {
            tx_bytes: self.counted,
            from: self.since,
            to: self.last.max(self.since),
            calls: self.calls,
            ..Portion::new(self.slot, path)
        }));
    }

    fn fail(&mut self, violation: Violation) -> Result<(), Violation> {
        self.step = Step::Failed;
        Err(violation)
    }

    fn wake(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        self.begin(cx);
        self.check_end(cx);
        self.let_go(cx.now);
        match self.step {
            Step::Send if cx.now.since(self.moved) >= self.params.stall_ns => {
                let why = format!("the receiver takes nothing more after {} bytes", self.sent);
                self.fail(Violation::Stalled(Duration::from_nanos(self.params.stall_ns)).likely(why))
            }
            Step::Part(until) if until <= cx.now => {
                self.step = Step::Over(self.ending());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether the peer aborted the connection.
fn is_reset(fault: Fault) -> bool {
    let kind = std::io::Error::from_raw_os_error(fault.errno).kind();
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe)
}

impl Flow for Sender {
    fn interest(&self) -> Interest {
        let read = if self.hushed { Read::Pause } else { Read::look(LISTEN) };
        let quiet = Interest { send: When::Never, read, wake: None, end: None };
        match self.step {
            Step::Wait => Interest { wake: Some(self.moved.plus(LOOK)), ..quiet },
            Step::Send => Interest {
                send: self.pace.map_or(When::Now, |pace| When::At(pace.due())),
                wake: Some(match (self.moved.plus(self.params.stall_ns), self.params.table.quiet()) {
                    (stall, quiet) if !self.stopping => stall.min(quiet),
                    (stall, _) => stall,
                }),
                ..quiet
            },
            Step::Hold(until) => Interest { wake: Some(until), ..quiet },
            Step::Part(until) => Interest { wake: Some(until), end: Some(End::Half), ..quiet },
            Step::Over(how) => {
                Interest { read: Read::Pause, end: Some(End::Done { how, reset: false }), ..quiet }
            }
            Step::Failed => Interest { read: Read::Pause, ..quiet },
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        if self.step == Step::Send {
            let n = self.next().min(out.room() as u64);
            self.params.filler.offer(self.sent, n as usize, self.params.buffer, out);
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes == 0 || self.step != Step::Send {
            return;
        }
        let (before, bytes) = (self.sent / self.params.buffer, n.bytes as u64);
        self.moved = cx.now;
        self.sent += bytes;
        if let Some(pace) = &mut self.pace {
            pace.sent(bytes, cx.now);
        }
        if self.params.table.counts(cx.now) {
            self.counted += bytes;
            self.calls += self.sent / self.params.buffer - before;
            self.last = cx.now;
            if let Some(row) = self.row {
                cx.rec.sent(row, bytes);
            }
        }
        self.check_end(cx);
    }

    fn on_received(
        &mut self,
        _: &mut Context<'_>,
        _: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Result<(), Violation> {
        self.fail(Violation::Malformed("bytes came from the receiver, which says nothing in this protocol"))
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Result<(), Violation> {
        match event {
            FlowEvent::Up(path) => {
                if self.params.arrivals {
                    cx.outbox.push(Box::new(Arrived { path, at: cx.now }));
                }
                self.path = Some(path);
                self.moved = cx.now;
                self.row = Some(cx.rec.open(self.params.group, cx.now));
                self.begin(cx);
                self.check_end(cx);
                Ok(())
            }
            FlowEvent::Fin => {
                self.hushed = true;
                if matches!(self.step, Step::Part(_)) {
                    self.step = Step::Over(self.ending());
                }
                Ok(())
            }
            // The receiver went while its time was up, or ours: nothing is lost that counts.
            FlowEvent::Broken(fault)
                if matches!(self.step, Step::Hold(_))
                    || self.params.table.quiet().since(cx.now) <= CLOSE
                    || (self.params.reset_is_end && is_reset(fault)) =>
            {
                self.tell(cx);
                self.step = Step::Over(self.ending());
                Ok(())
            }
            FlowEvent::Broken(_) => {
                self.tell(cx);
                Ok(())
            }
            FlowEvent::Stop => {
                self.stopping = true;
                if self.step == Step::Wait {
                    self.step = Step::Hold(cx.now);
                }
                self.check_end(cx);
                if let Step::Hold(until) = &mut self.step {
                    *until = cx.now;
                }
                self.let_go(cx.now);
                Ok(())
            }
            FlowEvent::Wake => self.wake(cx),
            FlowEvent::Stamped { .. }
            | FlowEvent::Start
            | FlowEvent::State(_)
            | FlowEvent::Ask { .. }
            | FlowEvent::Freeze { .. } => Ok(()),
        }
    }

    fn id(&self) -> FlowId {
        FlowId { row: self.row, slot: self.slot, ..FlowId::default() }
    }
}
