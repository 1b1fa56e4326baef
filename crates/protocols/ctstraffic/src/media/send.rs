//! A server's stream to one client.

use super::{HZ, ticks};
use crate::codec::{HEADER, START, encode_header, encode_stream_id, next_length};
use common::Params;
use common::kernel::{Core, Template};
use metrics::{Clamped, Ending, Frames, Group, Mono, Packets};
use model::Media;
use std::any::Any;
use std::io::ErrorKind;
use transport::{
    Checked, Context, Fault, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, Violation,
    When,
};

const TEMPLATE: Template = Template { key: 0x6374_7300_0000_0000, payload: HEADER };
/// Most bytes of one send call.
const LONGEST: usize = 65_507;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediaStep {
    Id,
    Frames,
    Over(Ending),
    /// The kernel's word that ended it.
    Refused(Fault),
}

/// A stream to one client: identifier, then frame after frame, each at its time. Late frames leave
/// back to back, none is left out.
pub struct Sender {
    media: Media,
    core: Core,
    step: MediaStep,
    /// When the socket was there, which is when our ticks begin.
    up: Mono,
    /// When frame 0 would have been due.
    base: Mono,
    /// The frame that is being sent, from 1, and its unsent bytes.
    frame: u64,
    left: u64,
    /// The latest offer: bytes and datagrams.
    offered: (u64, u64),
}

impl Sender {
    pub fn new(params: &Params, media: Media) -> Self {
        Sender {
            core: Core::new(params.group, 0, 0).telling(params.arrivals),
            step: MediaStep::Id,
            up: Mono(0),
            base: Mono(0),
            frame: 1,
            left: media.frame_size,
            offered: (0, 0),
            media,
        }
    }

    /// The same with a place that is given back when it goes, on its way to another worker.
    #[must_use]
    pub fn placed(mut self, place: impl Any + Send, to: Option<u16>) -> Self {
        self.core.keep(place);
        self.core.leave_for(to);
        self
    }

    /// When the next datagrams are due.
    fn due(&self) -> Mono {
        let media = &self.media;
        let due = self.base.plus(media.due_ns(self.frame));
        if !media.spread {
            return due;
        }
        // Evenly over the time of the frame, by bytes.
        let time = u128::from(media.due_ns(1));
        let gone = u128::from(media.frame_size - self.left);
        due.plus(u64::clamped(time * gone / u128::from(media.frame_size.max(1))))
    }

    /// Number of datagrams in the next send call, and their bytes: all of one length but the last.
    fn next_send(&self, segments: usize, room: usize) -> (u64, u64) {
        let most = u64::from(self.media.datagram);
        let room = room.min(LONGEST) as u64;
        let (mut count, mut bytes) = (1, next_length(self.left, most));
        let segments = if self.media.spread { 1 } else { u64::clamped(segments) };
        while count < segments && bytes == count * most && bytes < self.left {
            let n = next_length(self.left - bytes, most);
            if bytes + n > room {
                break;
            }
            (count, bytes) = (count + 1, bytes + n);
        }
        (count, bytes)
    }

    fn fill_frames(&mut self, cx: &Context<'_>, out: &mut Transmit<'_>) {
        let most = usize::try_from(self.media.datagram).unwrap_or(LONGEST);
        let (count, bytes) = self.next_send(out.segments(), out.room());
        let header = encode_header(self.frame as i64, ticks(cx.now.since(self.up)), HZ);
        let datagrams = TEMPLATE.offer(out, most, usize::clamped(bytes));
        for datagram in datagrams.chunks_mut(most) {
            let n = datagram.len().min(HEADER);
            datagram[..n].copy_from_slice(&header[..n]);
        }
        self.offered = (bytes, count);
    }

    /// So much of the frame has left, or was given up.
    fn advance(&mut self, n: u64) {
        self.left = self.left.saturating_sub(n);
        if self.left == 0 {
            self.left = self.media.frame_size;
            self.frame += 1;
            if self.frame > self.media.frames {
                self.step = MediaStep::Over(Ending::Completed);
            }
        }
    }

    fn frames_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        let (offered, count) = self.offered;
        let sent = u64::clamped(n.bytes).min(offered);
        let datagrams = sent.div_ceil(u64::from(self.media.datagram));
        let given_up = if n.fault.is_some() { count.saturating_sub(datagrams) } else { 0 };
        self.core.sent(cx, sent);
        let refused = u64::from(n.fault.is_some());
        let counts = Packets { sent: datagrams, unsent: given_up, refused, ..Packets::default() };
        self.core.packets(cx, &counts);
        if sent > 0 {
            self.core.late(cx, self.due());
        }
        // A datagram refused for want of buffers would be late afterwards: the stream goes on
        // without it.
        self.advance(if n.fault.is_some() { offered } else { sent });
    }

    /// True if a fault means that no datagram will ever get through. Want of buffers, above all,
    /// passes.
    fn is_final(fault: Fault) -> bool {
        let kind = std::io::Error::from_raw_os_error(fault.errno).kind();
        fault.is_too_long()
            || matches!(
                kind,
                ErrorKind::ConnectionRefused
                    | ErrorKind::ConnectionReset
                    | ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
                    | ErrorKind::NetworkDown
                    | ErrorKind::PermissionDenied
                    | ErrorKind::AddrNotAvailable
                    | ErrorKind::InvalidInput
            )
    }
}

impl Flow for Sender {
    fn interest(&self) -> Interest {
        if let Some(elsewhere) = self.core.last_interest() {
            return elsewhere;
        }
        match self.step {
            MediaStep::Over(how) => Interest::done(how),
            MediaStep::Refused(_) => Interest { wake: Some(Mono(0)), ..Interest::NONE },
            MediaStep::Id => Interest { send: When::Now, read: Read::look(1024), ..Interest::NONE },
            MediaStep::Frames => {
                Interest { send: When::At(self.due()), read: Read::look(1024), ..Interest::NONE }
            }
        }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        match self.step {
            MediaStep::Id => {
                let id = encode_stream_id(self.core.id);
                out.copy(&id);
            }
            MediaStep::Frames => self.fill_frames(cx, out),
            MediaStep::Over(_) | MediaStep::Refused(_) => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if let Some(fault) = n.fault.filter(|&fault| Sender::is_final(fault)) {
            self.step = MediaStep::Refused(fault);
            return;
        }
        if n.bytes == 0 && n.fault.is_none() {
            return;
        }
        match self.step {
            MediaStep::Id => {
                self.core.framing_sent(cx, n.bytes);
                self.step = MediaStep::Frames;
                self.base = cx.now;
            }
            MediaStep::Frames => self.frames_sent(cx, n),
            MediaStep::Over(_) | MediaStep::Refused(_) => {}
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        // A START from a client with a stream; any other datagram belongs to nobody.
        let again = u64::clamped(got.datagrams().filter(|bytes| *bytes == START).count());
        let repeated = Frames { repeated: again, ..Frames::default() };
        for group in [self.core.group, Group::ALL] {
            cx.rec.tally(group).frames.add(repeated);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match (event, self.step) {
            (FlowEvent::Up(path), _) => {
                self.up = cx.now;
                self.core.id = cx.rng.uuid();
                self.core.up(cx, path);
            }
            (FlowEvent::Broken(fault), MediaStep::Id | MediaStep::Frames) if Sender::is_final(fault) => {
                return Err(Violation::Refused(fault));
            }
            (FlowEvent::Wake, MediaStep::Refused(fault)) => return Err(Violation::Refused(fault)),
            (FlowEvent::Stop, MediaStep::Id | MediaStep::Frames) => {
                self.step = MediaStep::Over(Ending::Stopped);
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
