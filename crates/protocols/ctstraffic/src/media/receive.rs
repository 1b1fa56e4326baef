//! A client's stream: it asks for one, holds frames for a while, and judges each when it is to be
//! shown.

use super::ring::Ring;
use super::{HZ, ticks};
use crate::codec::{Datagram, HEADER, START, STREAM_ID, decode};
use crate::payload::Source;
use crate::verdicts::{LAZY, ROWS, SETTLE};
use common::Params;
use common::kernel::Core;
use common::message::{post_event, warn};
use metrics::{Clamped, Ending, FrameStamps, Frames, Mono, Packets, SECOND, Window};
use model::{Event, FrameRow, FrameVerdict, Media, Verify};
use std::sync::Arc;
use transport::{
    Checked, Context, Fault, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, Violation,
    When,
};

/// Time after a frame's time at which START is sent again.
const AGAIN: u64 = SECOND / 2;
/// Interval of reports of frames, ns.
const TELL: u64 = SECOND / 2;
/// Datagrams of frames behind the last one that say that the server's stream is longer.
const BEYOND: u64 = 3;

/// Frames of a wrong size.
#[derive(Debug, Default)]
struct Odd {
    /// Bytes of the last frame that was not whole, when all since the first were like that.
    bytes: u64,
    count: u64,
    told: bool,
}

/// A client's stream.
pub struct Receiver {
    params: Arc<Params>,
    core: Core,
    up: Mono,
    /// When START left first; frames are shown from there.
    start: Option<Mono>,
    /// Time of the next START, until a datagram has arrived.
    again: Option<Mono>,
    ring: Ring,
    /// A part of a frame has arrived.
    stored: bool,
    /// Arrival of the latest part of a frame.
    last: Option<Mono>,
    refused: Option<Fault>,
    /// True if frames are reported one by one.
    tells: bool,
    rows: Vec<FrameRow>,
    told: Mono,
    odd: Odd,
    /// A datagram was longer than it may be.
    long: bool,
    /// Datagrams of frames behind the last one.
    beyond: u64,
    /// When the stream begins to arrive.
    from: Option<Mono>,
}

impl Receiver {
    /// The stream of `media` in slot `slot`; with `tells` the verdict on each frame is posted.
    pub fn new(params: Arc<Params>, media: Media, slot: u32, tells: bool) -> Self {
        Receiver {
            core: Core::new(params.group, slot, 0).telling(params.arrivals),
            up: Mono(0),
            start: None,
            again: None,
            ring: Ring::new(media),
            stored: false,
            last: None,
            refused: None,
            tells,
            rows: Vec::new(),
            told: Mono(0),
            odd: Odd::default(),
            long: false,
            beyond: 0,
            from: None,
            params,
        }
    }

    /// When the next frame is to be judged.
    fn due(&self) -> Option<Mono> {
        let (start, next) = (self.start?, self.ring.next()?);
        Some(start.plus(self.ring.media.due_ns(self.ring.depth() + next - 1)))
    }

    /// Judges every frame that was due at `at`.
    fn judge_until(&mut self, cx: &mut Context<'_>, at: Mono) -> Checked {
        while self.core.over.is_none()
            && let Some(due) = self.due()
            && due <= at
        {
            if !self.stored {
                return self.nothing_came(cx);
            }
            let Some(row) = self.ring.judge() else { break };
            self.core.frames(cx, row.verdict.counted());
            // The run lasts until its last frame was judged, not only until its last byte arrived.
            cx.rec.tally(self.params.group).last = cx.now;
            self.look_at(cx, &row);
            if self.tells {
                self.rows.push(row);
            }
            if self.ring.next().is_none() {
                self.core.end(Ending::Completed);
                if let Some(last) = self.last {
                    self.core.complete(cx, last);
                }
            }
        }
        self.report(cx, self.core.over.is_some());
        Ok(())
    }

    /// The first frame is to be shown, and there is none: all are lost.
    fn nothing_came(&mut self, cx: &mut Context<'_>) -> Checked {
        self.core.frames(cx, Frames { dropped: self.ring.media.frames, ..Frames::default() });
        let why = "nothing arrived before the first frame was to be shown: is it a ctsTraffic server with \
                   -Protocol:udp, and does UDP get through?";
        Err(self.nothing().likely(why))
    }

    /// No byte of the stream counts.
    fn nothing(&self) -> Violation {
        Violation::TooFew { got: 0, want: self.ring.media.frames.saturating_mul(self.ring.media.frame_size) }
    }

    /// Reports judged frames: all of them, or a sufficient number.
    fn report(&mut self, cx: &mut Context<'_>, all: bool) {
        let much = self.rows.len() >= ROWS || cx.now.since(self.told) >= TELL;
        if !self.rows.is_empty() && (all || much) {
            self.told = cx.now;
            let rows = std::mem::take(&mut self.rows);
            post_event(cx, Event::Frames { id: self.core.id, rows });
        }
    }

    /// Notices that no frame ever has the size it should have: then the two ends were not set
    /// alike.
    fn look_at(&mut self, cx: &mut Context<'_>, row: &FrameRow) {
        let odd = &mut self.odd;
        if row.verdict == FrameVerdict::Completed {
            odd.told = true;
        }
        if odd.told || row.bytes == 0 {
            return;
        }
        odd.count = if odd.bytes == row.bytes { odd.count + 1 } else { 1 };
        odd.bytes = row.bytes;
        if odd.count >= u64::from(self.ring.media.frame_rate.clamp(3, 10)) {
            odd.told = true;
            let size = self.ring.media.frame_size;
            let text = format!(
                "frames of {size} bytes were expected and arrive with {}: the server's rate, frame rate, length or \
                 datagram size may be another",
                row.bytes
            );
            warn(cx, text);
        }
    }

    /// A datagram of a frame; how many of its bytes count.
    fn take_part(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        at: Mono,
        (frame, sender_ticks, sender_hz): (i64, i64, i64),
    ) -> Result<u64, Violation> {
        // The original reads no more than the longest datagram that its settings make it expect.
        let longest = self.ring.media.frame_size.min(u64::from(self.ring.media.datagram)) as usize;
        if bytes.len() > longest && !std::mem::replace(&mut self.long, true) {
            let n = bytes.len();
            let text = format!(
                "datagrams of {n} bytes arrive where at most {longest} were expected, and the surplus is not \
                 counted: the server's datagram size may be larger"
            );
            warn(cx, text);
        }
        let bytes = &bytes[..bytes.len().min(longest)];
        if self.params.verify == Verify::Data {
            Source::Pattern.check(0, bytes.get(HEADER..).unwrap_or_default())?;
        }
        let receiver_ticks = ticks(at.since(self.up));
        let stamps = FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz: HZ };
        if self.ring.store(frame, bytes.len() as u64, stamps) {
            if !std::mem::replace(&mut self.stored, true) {
                let media = self.ring.media;
                let before = media.due_ns(u64::try_from(frame).unwrap_or(1).saturating_sub(1));
                self.arrives(cx, Mono(at.0.saturating_sub(before)), media.length_ns());
            }
            self.again = None;
            if u64::try_from(frame) == Ok(self.ring.media.frames) {
                self.last = Some(at);
            }
        } else if u64::try_from(frame).is_ok_and(|frame| frame > self.ring.media.frames) {
            self.go_beyond(cx, at);
        } else {
            self.core.frames(cx, Frames { errors: 1, ..Frames::default() });
        }
        Ok(u64::clamped(bytes.len()))
    }

    /// A datagram of a frame behind the last one has arrived: its bytes count, and so does the time
    /// until then.
    fn go_beyond(&mut self, cx: &mut Context<'_>, at: Mono) {
        self.last = Some(at);
        if let Some(from) = self.from {
            let frame = self.ring.media.due_ns(1);
            self.arrives(cx, from, at.since(from).saturating_add(frame));
        }
        self.core.frames(cx, Frames { errors: 1, ..Frames::default() });
        self.beyond += 1;
        // One or two may have a damaged number.
        if self.beyond == BEYOND {
            let frames = self.ring.media.frames;
            let text = format!(
                "frames behind the last of the {frames} expected here arrive and count as errors: the server's stream is longer \
                 (-StreamLength, -FrameRate)"
            );
            warn(cx, text);
        }
    }

    /// The stream arrives from `from` on, for `ns`.
    fn arrives(&mut self, cx: &mut Context<'_>, from: Mono, ns: u64) {
        self.from = Some(from);
        let window = Some(Window { from, ns, open: false });
        Window::add(&mut cx.rec.tally(self.params.group).rx_window, window);
    }

    /// The datagrams of one receive call. The number of ctsTraffic's ones, and of their bytes, is
    /// added to `datagrams` and `counted`, also when the call ends with a violation.
    fn take_all(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        at: Mono,
        (datagrams, counted): (&mut u64, &mut u64),
    ) -> Checked {
        for bytes in got.datagrams() {
            let datagram = decode(bytes).ok_or_else(|| self.foreign(bytes.len()))?;
            *datagrams += 1;
            match datagram {
                Datagram::Id(id) => {
                    self.core.id = id;
                    self.core.framing_received(cx, bytes.len().min(STREAM_ID));
                }
                Datagram::Part { frame, ticks, hz, .. } => {
                    *counted += self.take_part(cx, bytes, at, (frame, ticks, hz))?;
                }
            }
        }
        Ok(())
    }

    fn foreign(&self, n: usize) -> Violation {
        self.nothing().likely(format!("a datagram of {n} bytes is none of ctsTraffic's"))
    }
}

impl Flow for Receiver {
    fn interest(&self) -> Interest {
        if let Some(last) = self.core.last_interest() {
            return last;
        }
        let read = Read::look(65_535);
        if self.refused.is_some() {
            return Interest { read, wake: Some(Mono(0)), ..Interest::NONE };
        }
        let send = match (self.start, self.again) {
            (None, _) => When::Now,
            (_, Some(at)) if self.due().is_some_and(|due| at < due) => When::At(at),
            _ => When::Never,
        };
        // The last frame ends the stream, and the first decides if there is one.
        let soon = !self.stored || self.ring.next() >= Some(self.ring.media.frames);
        let wake = self.due().map(|due| due.plus(if soon { SETTLE } else { SETTLE + LAZY }));
        Interest { send, read, wake, end: None }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        out.fixed(START);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if let Some(fault) = n.fault {
            self.refused = Some(fault);
            return;
        }
        if n.bytes == 0 {
            return;
        }
        self.core.framing_sent(cx, n.bytes);
        self.start.get_or_insert(cx.now);
        // Whole milliseconds, as in the original.
        let frame = 1_000 / u64::from(self.ring.media.frame_rate.max(1)) * 1_000_000;
        self.again = Some(cx.now.plus(frame + AGAIN));
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        let at = got.arrived();
        self.judge_until(cx, at)?;
        if self.core.over.is_some() {
            return Ok(());
        }
        if got.len == 0 {
            return Err(self.foreign(0));
        }
        let drops = self.core.drops(got);
        self.core.see_marks(cx, got);
        let (mut received, mut counted) = (0, 0);
        let result = self.take_all(cx, got, at, (&mut received, &mut counted));
        self.core.packets(cx, &Packets { received, ..drops });
        self.core.received(cx, counted);
        result
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match (event, self.refused) {
            (FlowEvent::Up(path), _) => {
                (self.up, self.told) = (cx.now, cx.now);
                self.core.up(cx, path);
            }
            (FlowEvent::Broken(fault), _) | (FlowEvent::Wake, Some(fault)) => {
                return Err(refusal(fault));
            }
            (FlowEvent::Wake, None) => {
                return self.judge_until(cx, Mono(cx.now.0.saturating_sub(SETTLE)));
            }
            (FlowEvent::Stop, _) if self.core.over.is_none() => {
                self.core.end(Ending::Stopped);
                self.report(cx, true);
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}

/// The end of a stream by the kernel's word. A refusal before the first datagram is that of a host
/// without a server of streams.
fn refusal(fault: Fault) -> Violation {
    let is_refused =
        std::io::Error::from_raw_os_error(fault.errno).kind() == std::io::ErrorKind::ConnectionRefused;
    let refused = Violation::Refused(fault);
    match is_refused {
        true => refused.likely(
            "no ctsTraffic server of streams is at this UDP port: start `netcaliper serve --legacy ctstraffic`, or ctsTraffic with \
             -Protocol:udp, there",
        ),
        false => refused,
    }
}
