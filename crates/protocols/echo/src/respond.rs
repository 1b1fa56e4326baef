//! The echoing end of one TCP connection.

use metrics::{Ending, Group, Mono, Row, SECOND};
use std::time::Duration;
use transport::{
    Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, Violation, When,
};

/// Bytes that are read ahead of what was sent back: a peer that does not read has to wait.
const MOST: usize = 64 * 1024;

/// A connection on which nothing comes for so long is not in use: it ends at once when the server is stopped, others are served to their
/// end, as far as the server waits for that, ns.
const QUIET: u64 = SECOND;

/// Sends back whatever comes, in order, until the peer sends no more.
#[derive(Debug)]
pub struct Responder {
    group: Group,
    row: Option<Row>,
    slot: u32,
    owed: Vec<u8>,
    /// Of these, so many have been sent back.
    sent: usize,
    fin: bool,
    stopped: bool,
    /// Nothing has come for long enough after a stop.
    left_alone: bool,
    moved: Mono,
    stall_ns: u64,
}

impl Responder {
    /// The echoing end of a connection that has just come; it may owe bytes that the peer does not take for so long.
    #[must_use]
    pub fn new(group: Group, stall_ns: u64) -> Self {
        Responder {
            group,
            row: None,
            slot: 0,
            owed: Vec::new(),
            sent: 0,
            fin: false,
            stopped: false,
            left_alone: false,
            moved: Mono(0),
            stall_ns,
        }
    }

    fn pending(&self) -> usize {
        self.owed.len() - self.sent
    }
}

impl Flow for Responder {
    fn interest(&self) -> Interest {
        let owes = self.pending() > 0;
        let over = (self.fin || self.left_alone) && !owes;
        let how = if self.fin { Ending::Completed } else { Ending::Stopped };
        let reads = !self.fin && !self.left_alone;
        let stall = owes.then(|| self.moved.plus(self.stall_ns));
        let quiet = (self.stopped && !over).then(|| self.moved.plus(QUIET));
        Interest {
            send: if owes { When::Now } else { When::Never },
            read: if reads { Read::look((MOST - self.pending()) as u64) } else { Read::Pause },
            wake: stall.into_iter().chain(quiet).min(),
            end: over.then_some(End::Done { how, reset: false }),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        let rest = &self.owed[self.sent..];
        let own = out.own(rest.len());
        let n = own.len();
        own.copy_from_slice(&rest[..n]);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes == 0 {
            return;
        }
        self.moved = cx.now;
        self.sent += n.bytes.min(self.pending());
        if self.pending() == 0 {
            self.owed.clear();
            self.sent = 0;
        }
        if let Some(row) = self.row {
            cx.rec.sent(row, n.bytes as u64);
        }
    }

    fn on_received(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Result<(), Violation> {
        self.moved = cx.now;
        self.owed.drain(..std::mem::take(&mut self.sent));
        self.owed.extend_from_slice(got.bytes);
        if let Some(row) = self.row {
            cx.rec.received(row, got.bytes.len() as u64);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Result<(), Violation> {
        match event {
            FlowEvent::Up(_) => {
                self.moved = cx.now;
                self.row = Some(cx.rec.open(self.group, cx.now));
            }
            FlowEvent::Fin => self.fin = true,
            FlowEvent::Stop => {
                self.stopped = true;
                self.left_alone = cx.now.since(self.moved) >= QUIET;
            }
            FlowEvent::Wake if self.pending() > 0 && cx.now.since(self.moved) >= self.stall_ns => {
                return Err(Violation::Stalled(Duration::from_nanos(self.stall_ns)));
            }
            FlowEvent::Wake => self.left_alone |= self.stopped && cx.now.since(self.moved) >= QUIET,
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        FlowId { row: self.row, slot: self.slot, ..FlowId::default() }
    }
}
