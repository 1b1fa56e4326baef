//! The receiving end of a connection: reads to its end, counts what comes while it counts, and says nothing.

use super::{Filler, Params};
use crate::one_sided::{Arrived, Notice, Portion};
use metrics::{Ending, Mono, Row};
use model::Level;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use transport::{
    Context, End, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit, Violation, When,
};

/// Posted by a receiver with `Params::from_first_byte`: the first bytes of this peer's connection have come.
pub struct FirstByte {
    /// The sender.
    pub peer: SocketAddr,
    /// When they came.
    pub at: Mono,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Receiver {
    params: Arc<Params>,
    slot: u32,
    row: Option<Row>,
    path: Option<Path>,
    got: u64,
    counted: u64,
    calls: u64,
    since: Mono,
    last: Mono,
    moved: Mono,
    over: Option<(Ending, bool)>,
    told: bool,
}

impl Receiver {
    /// The next connection.
    #[must_use]
    pub fn new(params: Arc<Params>) -> Self {
        Receiver {
            params,
            slot: 0,
            row: None,
            path: None,
            got: 0,
            counted: 0,
            calls: 0,
            since: Mono(0),
            last: Mono(0),
            moved: Mono(0),
            over: None,
            told: false,
        }
    }

    /// Sets the slot under which it reports.
    pub fn numbered(self, slot: u32) -> Self {
        Receiver { slot, ..self }
    }

    /// Says, once, whose filler it is that comes, where it is not that of the protocol that was asked for.
    fn recognise(&self, cx: &mut Context<'_>, first: &[u8]) {
        let Some(filler) = Filler::recognised(first).filter(|found| *found != self.params.filler) else {
            return;
        };
        let (who, peer) = match filler {
            Filler::Printable => ("ttcp", self.path),
            _ => ("ntttcp", self.path),
        };
        let Some(path) = peer else { return };
        let text = format!("{} sends what {who} sends", path.peer.ip().to_canonical());
        cx.outbox.push(Box::new(Notice { level: Level::Info, text }));
    }

    /// Tells what has moved, once.
    fn tell(&mut self, cx: &mut Context<'_>) {
        let Some(path) = self.path.filter(|_| !std::mem::replace(&mut self.told, true)) else { return };
        cx.outbox.push(Box::new(Portion {
            rx_bytes: self.counted,
            from: self.since,
            to: self.last.max(self.since),
            calls: self.calls,
            ..Portion::new(self.slot, path)
        }));
    }

    /// The end of the stream, or of the test.
    fn end(&mut self, cx: &mut Context<'_>, how: Ending, reset: bool) {
        if let Some(row) = self.row {
            cx.rec.complete(row, self.last.max(self.since));
        }
        self.tell(cx);
        self.over = Some((how, reset));
    }
}

impl Flow for Receiver {
    fn interest(&self) -> Interest {
        if let Some((how, reset)) = self.over {
            let end = Some(End::Done { how, reset });
            return Interest { send: When::Never, read: Read::Pause, wake: None, end };
        }
        let most = self.params.buffer;
        Interest {
            send: When::Never,
            read: if self.params.unseen { Read::skip(most) } else { Read::look(most) },
            wake: Some(self.moved.plus(self.params.stall_ns)),
            end: None,
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, _: &mut Transmit<'_>) {}

    fn on_sent(&mut self, _: &mut Context<'_>, _: Sent) {}

    fn on_received(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Result<(), Violation> {
        if self.got == 0 {
            self.recognise(cx, got.bytes);
            if let (true, Some(path)) = (self.params.from_first_byte, self.path) {
                self.since = cx.now;
                cx.outbox.push(Box::new(FirstByte { peer: path.peer, at: cx.now }));
            }
        }
        self.moved = cx.now;
        self.got += got.len as u64;
        if self.params.table.counts(cx.now) {
            self.counted += got.len as u64;
            self.calls += 1;
            self.last = cx.now;
            if let Some(row) = self.row {
                cx.rec.received(row, got.len as u64);
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Result<(), Violation> {
        match event {
            FlowEvent::Up(path) => {
                if self.params.arrivals {
                    cx.outbox.push(Box::new(Arrived { path, at: cx.now }));
                }
                self.path = Some(path);
                (self.moved, self.since, self.last) = (cx.now, cx.now, cx.now);
                self.row = Some(cx.rec.open(self.params.group, cx.now));
            }
            FlowEvent::Fin => {
                // The end of the stream is the last that is measured, and it is read as any bytes are.
                if self.params.table.counts(cx.now) {
                    self.last = cx.now;
                    self.calls += 1;
                }
                self.end(cx, Ending::Completed, false);
            }
            FlowEvent::Broken(_) => self.tell(cx),
            FlowEvent::Stop => self.end(cx, Ending::Stopped, false),
            FlowEvent::Wake if cx.now.since(self.moved) >= self.params.stall_ns => {
                self.end(cx, Ending::NetworkError, true);
                let why = format!("nothing came any more after {} bytes", self.got);
                return Err(Violation::Stalled(Duration::from_nanos(self.params.stall_ns)).likely(why));
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        FlowId { row: self.row, slot: self.slot, ..FlowId::default() }
    }
}
