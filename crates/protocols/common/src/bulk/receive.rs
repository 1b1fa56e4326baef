//! The receiving end of a connection: reads to its end, counts bytes while they count, and sends
//! nothing.

use super::measured::Measured;
use super::{Filler, Params};
use crate::message::{SharedMessage, notice};
use metrics::{Clamped, Ending};
use model::Level;
use std::sync::Arc;
use transport::{Checked, Context, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Transmit};

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Receiver {
    measured: Measured,
    got: u64,
}

impl Receiver {
    /// The next connection.
    pub fn new(params: Arc<Params>) -> Self {
        Receiver::numbered(params, 0)
    }

    /// The same, reporting under this slot.
    pub fn numbered(params: Arc<Params>, slot: u32) -> Self {
        Receiver { measured: Measured::new(params, slot, false), got: 0 }
    }

    /// Names, once, the program whose filler arrives, if its protocol is not the expected one.
    fn recognise(&self, cx: &mut Context<'_>, path: Path, first: &[u8]) {
        let filler = match Filler::recognised(first).filter(|found| *found != self.measured.params.filler) {
            None => return,
            Some(Filler::Printable) => "what ttcp sends",
            Some(_) => "what ntttcp sends",
        };
        let text = format!("{} sends {filler}", path.peer.ip().to_canonical());
        notice(cx, Level::Info, text);
    }

    /// The end of the stream, or of the test.
    fn end(&mut self, cx: &mut Context<'_>, how: Ending, reset: bool) {
        self.measured.cut = how != Ending::Completed;
        self.measured.complete(cx);
        self.measured.core.over = Some((how, reset));
    }
}

impl Flow for Receiver {
    fn interest(&self) -> Interest {
        let Measured { core, params, .. } = &self.measured;
        core.last_interest().unwrap_or(Interest {
            read: if params.unseen { Read::skip(params.buffer) } else { Read::look(params.buffer) },
            wake: Some(core.stalls_at()),
            ..Interest::NONE
        })
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        if let Some(path) = self.measured.core.path.filter(|_| self.got == 0) {
            self.recognise(cx, path, got.bytes);
            if self.measured.params.from_first_byte {
                self.measured.since = cx.now;
                cx.post(SharedMessage::FirstByte(path, cx.now));
            }
        }
        self.got += u64::clamped(got.len);
        self.measured.moved(cx, u64::clamped(got.len), 1);
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.measured.up(cx, path),
            FlowEvent::Fin => {
                // The end of the stream is the last that is measured, and it is read as any bytes
                // are.
                self.measured.moved(cx, 0, 1);
                self.end(cx, Ending::Completed, false);
            }
            FlowEvent::Broken(_) => {
                self.measured.cut = true;
                self.measured.report(cx);
            }
            FlowEvent::Stop => self.end(cx, Ending::Stopped, false),
            FlowEvent::Wake => {
                if let Some(stalled) = self.measured.core.stalled(cx.now) {
                    self.end(cx, Ending::NetworkError, true);
                    return Err(stalled.likely(format!("nothing arrived any more after {} bytes", self.got)));
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
