//! The echoing end of one TCP connection.

use common::kernel::Core;
use metrics::{Ending, Group, SECOND};
use std::collections::VecDeque;
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, When,
};

/// Most bytes that are read ahead of the echo: a peer that does not read has to wait.
const MOST: usize = 64 * 1024;

/// An idle connection, ns: without bytes for this time it ends at once when the server is stopped;
/// others are served to their end, within the server's own limit.
const QUIET: u64 = SECOND;

/// Sends back all received bytes, in order, until the peer sends no more.
#[derive(Debug, Default)]
pub struct Responder {
    core: Core,
    owed: VecDeque<u8>,
    fin: bool,
    stopped: bool,
    /// No byte arrived for long enough after a stop.
    left_alone: bool,
}

impl Responder {
    /// The echoing end of a new connection; `stall_ns` is the longest time that it owes bytes to a
    /// peer which takes none.
    pub fn new(group: Group, stall_ns: u64) -> Self {
        Responder { core: Core::new(group, 0, stall_ns), ..Responder::default() }
    }
}

impl Flow for Responder {
    fn interest(&self) -> Interest {
        let owes = !self.owed.is_empty();
        let over = (self.fin || self.left_alone) && !owes;
        let how = if self.fin { Ending::Completed } else { Ending::Stopped };
        let reads = !self.fin && !self.left_alone;
        let stall = owes.then(|| self.core.stalls_at());
        let quiet = (self.stopped && !self.left_alone && !over).then(|| self.core.moved.plus(QUIET));
        Interest {
            send: if owes { When::Now } else { When::Never },
            read: if reads { Read::look(MOST - self.owed.len()) } else { Read::Pause },
            wake: stall.into_iter().chain(quiet).min(),
            end: over.then_some(End::Done { how, reset: false }),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        let (first, rest) = self.owed.as_slices();
        out.copy(first);
        out.copy(rest);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if !self.core.wrote(cx.now, n) {
            return;
        }
        self.owed.drain(..n.bytes.min(self.owed.len()));
        self.core.sent(cx, n.bytes);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.moved = cx.now;
        self.owed.extend(got.bytes);
        self.core.received(cx, got.bytes.len());
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.core.up(cx, path),
            FlowEvent::Fin => self.fin = true,
            FlowEvent::Stop => {
                self.stopped = true;
                self.left_alone = cx.now.since(self.core.moved) >= QUIET;
            }
            FlowEvent::Wake => {
                if !self.owed.is_empty() {
                    self.core.check_stall(cx.now)?;
                }
                self.left_alone |= self.stopped && cx.now.since(self.core.moved) >= QUIET;
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
