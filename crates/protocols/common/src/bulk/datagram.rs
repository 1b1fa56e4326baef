//! The sending end of a test over datagrams.
//!
//! ```text
//!  Wait ─ the time has come ─▶ Start ─▶ Data ─ all sent, or the time is up ─▶ End ─▶ over          with markers
//!                              └──────▶ Data ─ the time is up ─▶ Hold ─ let go ─▶ Farewell ─▶ over   without
//! ```
//!
//! 1. A buffer is a datagram, and without a rate they leave as fast as the socket takes them.
//! 2. Want of buffers passes: the sender waits, as the original does. An ICMP error of a closed
//!    port ends the test.
//! 3. Ends are spread, so that one burst of loss does not take all of them. The receiver may have
//!    gone before the last one.
//! 4. ntttcp's receiver checks its time only when a datagram arrives. So the sender sends after the
//!    end, too.

use super::measured::Measured;
use super::{CLOSE, Marks, Params};
use metrics::{Clamped, Ending, Mono, Packets, SECOND};
use std::io::ErrorKind;
use std::sync::Arc;
use transport::{
    Checked, Context, Fault, Flow, FlowEvent, FlowId, Interest, Read, Sent, Transmit, Violation, When,
};

/// Interval at which a waiting sender checks if the test has begun, ns.
const LOOK: u64 = SECOND / 500;
/// Wait of a sender after the kernel had no buffers, ns: the original's 18 ms.
const AFTER_REFUSAL: u64 = 18_000_000;
/// Time between two ends, ns.
const APART: u64 = SECOND / 200;
/// Datagrams said after the end where there are no markers.
const FAREWELLS: u32 = 3;
/// Most bytes that are offered at once; more is not gained by more.
const MOST: u64 = 60_000;

/// Stages of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatagramStep {
    /// The test has not begun.
    Wait,
    /// Number of start markers that are left to send.
    Start(u32),
    Data,
    /// Number of end markers that are left, and the time of the next one.
    End(u32, Mono),
    /// All is sent; what follows waits for this instant.
    Hold(Mono),
    Over(Ending),
    /// Reported on the next wake.
    Refused(Fault),
}

/// The sending end of a test over datagrams.
#[derive(Debug)]
pub struct DatagramSender {
    measured: Measured,
    marks: Marks,
    step: DatagramStep,
    /// Datagrams of data that have left, and those offered last.
    sent: u64,
    offered: u64,
    not_before: Mono,
}

impl DatagramSender {
    /// The sender of this slot.
    pub fn new(params: Arc<Params>, marks: Marks, slot: u32) -> Self {
        let measured = Measured::new(params, slot, true);
        DatagramSender { measured, marks, step: DatagramStep::Wait, sent: 0, offered: 0, not_before: Mono(0) }
    }

    /// Begins at its time.
    fn begin(&mut self, now: Mono) {
        if self.step == DatagramStep::Wait && self.measured.begins(now) {
            self.step = match self.marks.starts() {
                0 => DatagramStep::Data,
                n => DatagramStep::Start(n),
            };
        }
    }

    /// Datagrams of data that are still to be sent.
    fn left(&self) -> u64 {
        let Params { transfer, buffer, .. } = *self.measured.params;
        match transfer {
            _ if self.measured.stopping => 0,
            Some(bytes) => bytes.div_ceil(buffer).saturating_sub(self.sent),
            None => u64::MAX,
        }
    }

    /// Number of datagrams in one call: several if calls are not counted and the datagrams are
    /// equal.
    fn many(&self, now: Mono, out: &Transmit<'_>) -> u64 {
        if self.marks != Marks::None {
            return 1;
        }
        let size = self.measured.params.buffer;
        let most = u64::clamped(out.segments()).min(u64::clamped(out.room()) / size).min(MOST / size).max(1);
        self.measured.pace.map_or(most, |pace| pace.datagrams(size, now).min(most))
    }

    fn check_end(&mut self, cx: &mut Context<'_>) {
        self.measured.stops(cx.now);
        if self.step != DatagramStep::Data || self.left() > 0 || self.measured.owes(cx.now).is_some() {
            return;
        }
        self.measured.settle();
        match self.marks.ends() {
            0 => {
                let Params { table, hold_ns, .. } = &*self.measured.params;
                self.step = DatagramStep::Hold(table.quiet().min(cx.now).plus(*hold_ns));
                self.measured.complete(cx);
            }
            n => self.step = DatagramStep::End(n, cx.now),
        }
    }

    /// All markers are sent.
    fn complete(&mut self, cx: &mut Context<'_>) {
        self.measured.complete(cx);
        self.step = DatagramStep::Over(self.measured.ending(self.sent * self.measured.params.buffer));
    }

    /// A start or end marker has left, or was given up: enters the next step.
    fn on_marker_sent(&mut self, cx: &mut Context<'_>) {
        self.measured.calls += 1;
        match self.step {
            DatagramStep::Start(n) if n > 1 => self.step = DatagramStep::Start(n - 1),
            DatagramStep::Start(_) => self.step = DatagramStep::Data,
            DatagramStep::End(n, _) => {
                // The classic program stops its clock behind the first of its ends, epi_ttcp's
                // before it.
                if n == self.marks.ends() && self.marks == Marks::Classic {
                    self.measured.last = cx.now;
                }
                self.step = DatagramStep::End(n - 1, cx.now.plus(APART));
                if n == 1 {
                    self.complete(cx);
                }
            }
            _ => {}
        }
        self.check_end(cx);
    }

    /// Data has left.
    fn data_sent(&mut self, cx: &mut Context<'_>, bytes: u64) {
        let gone = bytes.div_ceil(self.measured.params.buffer).min(self.offered);
        self.sent += gone;
        if self.measured.moved(cx, bytes, gone) {
            self.measured.core.packets(cx, &Packets { sent: gone, ..Packets::default() });
        }
        self.check_end(cx);
    }

    /// Handles a refused send: the kernel's error, or an ICMP error from the path.
    fn refused(&mut self, cx: &mut Context<'_>, fault: Fault) {
        let kind = std::io::Error::from_raw_os_error(fault.errno).kind();
        let passes = fault.is_without_buffers()
            || matches!(kind, ErrorKind::WouldBlock | ErrorKind::OutOfMemory | ErrorKind::Interrupted);
        self.measured.core.packets(cx, &Packets { refused: 1, ..Packets::default() });
        let params = &self.measured.params;
        match self.step {
            _ if passes => self.not_before = cx.now.plus(AFTER_REFUSAL),
            // An ICMP error after the first end means that the receiver has it and is gone.
            DatagramStep::End(..) => self.on_marker_sent(cx),
            DatagramStep::Hold(_) | DatagramStep::Over(_) => {}
            // The receiver's timer began before ours.
            _ if params.table.quiet().since(cx.now) <= CLOSE => {}
            _ if params.reset_is_end && kind == ErrorKind::ConnectionRefused => self.complete(cx),
            _ => {
                self.measured.complete(cx);
                self.step = DatagramStep::Refused(fault);
            }
        }
    }
}

impl Flow for DatagramSender {
    fn interest(&self) -> Interest {
        let quiet = Interest { read: Read::look(64), ..Interest::NONE };
        let Measured { core, params, pace, .. } = &self.measured;
        match self.step {
            DatagramStep::Wait => Interest { wake: Some(core.moved.plus(LOOK)), ..quiet },
            DatagramStep::Start(_) => Interest { send: When::At(self.not_before), ..quiet },
            DatagramStep::Data if self.left() == 0 => Interest { wake: self.measured.owes(Mono(0)), ..quiet },
            DatagramStep::Data => {
                let due = pace.map_or(Mono(0), |pace| pace.due()).max(self.not_before);
                let end = params.table.quiet();
                Interest { send: When::At(due), wake: (end.0 < u64::MAX).then_some(end), ..quiet }
            }
            DatagramStep::End(_, at) => Interest { send: When::At(at.max(self.not_before)), ..quiet },
            DatagramStep::Hold(until) => Interest { wake: Some(until), ..quiet },
            DatagramStep::Refused(_) => Interest { wake: Some(Mono(0)), ..quiet },
            DatagramStep::Over(how) => Interest::done(how),
        }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let Params { filler, buffer, .. } = *self.measured.params;
        match self.step {
            DatagramStep::Start(_) => out.fixed(self.marks.start()),
            DatagramStep::End(..) if self.marks == Marks::None => filler.offer(0, 1, buffer, out),
            DatagramStep::End(..) => {
                out.copy(&self.marks.end(self.sent));
            }
            DatagramStep::Data => {
                self.offered = self.many(cx.now, out).min(self.left());
                let size = buffer as usize;
                let from = self.sent * buffer;
                if self.offered > 1 {
                    out.segment = buffer as u16;
                    // Fillers of these programs repeat one byte.
                    filler.offer(0, size * usize::clamped(self.offered), u64::MAX, out);
                } else if self.marks == Marks::Epi {
                    out.own(1)[0] = self.sent as u8;
                    filler.offer(from + 1, size - 1, buffer, out);
                } else {
                    filler.offer(from, size, buffer, out);
                }
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes > 0 {
            self.measured.core.moved = cx.now;
            match self.step {
                DatagramStep::Data => self.data_sent(cx, u64::clamped(n.bytes)),
                DatagramStep::Start(_) | DatagramStep::End(..) => self.on_marker_sent(cx),
                _ => {}
            }
        }
        if let Some(fault) = n.fault {
            self.refused(cx, fault);
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.measured.up(cx, path);
                self.begin(cx.now);
            }
            FlowEvent::Broken(fault) => self.refused(cx, fault),
            FlowEvent::Stop => {
                self.measured.stopping = true;
                match self.step {
                    DatagramStep::Wait => self.step = DatagramStep::Over(Ending::Stopped),
                    DatagramStep::Start(_) => self.step = DatagramStep::Data,
                    _ => {}
                }
                self.check_end(cx);
                if let DatagramStep::Hold(_) = self.step {
                    self.step = DatagramStep::End(FAREWELLS, cx.now);
                }
            }
            FlowEvent::Wake => {
                if let DatagramStep::Refused(fault) = self.step {
                    return Err(Violation::Refused(fault));
                }
                self.begin(cx.now);
                self.check_end(cx);
                if matches!(self.step, DatagramStep::Hold(until) if until <= cx.now) {
                    self.step = DatagramStep::End(FAREWELLS, cx.now);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.measured.core.id()
    }
}
