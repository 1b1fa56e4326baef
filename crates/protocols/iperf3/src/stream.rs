//! A TCP stream, either end.
//!
//! ```text
//! client                                    server
//!   cookie, 37 bytes ─────────────────────▶    (taken by the listener, which makes the stream of it)
//!              both hold still until their session says start
//!   ◀───────────── payload, one way ─────────────▶
//!              both are frozen when the client says TEST_END; its server first takes in what has come already
//!   close ◀────────────────────────────────▶ close, when the session says stop
//! ```
//!
//! Payload is not compared: iperf3's is random. Senders send blocks of the agreed length. Versions
//! up to 3.15 read a block at a time and wait for all of it, on the one thread that they have. So
//! blocks leave whole, also at a rate; a client finishes the one that it has begun before it says
//! that the test is over, and a server closes its streams at once, which ends such waiting, too.
//!
//! Versions from 3.16 on drop unread data when the end of test arrives. A client that has sent all
//! that it may (`-n`, `-k`, `-F`) therefore waits until the server's kernel has acknowledged it and
//! its threads have had time to read it. The last block of a file is seldom whole: the client
//! half-closes the stream behind it, because those versions wait for the rest.

use super::codec::COOKIE;
use super::test_state::{Part, Posted};
use crate::BulkTerms;
use crate::payload::Source;
use common::message::notice;
use metrics::{Clamped, Ending, Mono, SECOND, SocketState, TcpInfo};
use model::Level;
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit,
    Violation, When,
};

/// Bytes of one receive.
const READ: u64 = 1 << 20;
/// Silence after which a server believes that it has all that the client sent before its end of
/// test, ns.
const QUIET: u64 = 20_000_000;
/// Longest time for that, ns: a client that goes on sending is cut off.
const DRAIN: u64 = 200_000_000;
/// Interval at which a client that has sent all checks the acknowledgements: first and at most, ns.
const LOOKS: (u64, u64) = (100_000, 5_000_000);
/// Time for a server's threads to read the acknowledged data, ns.
pub(super) const UNREAD: u64 = 100_000_000;
/// A server that acknowledges nothing for this long is not waited for, ns.
const STUCK: u64 = 10 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamStep {
    /// The client's cookie is being sent: number of its bytes that have been.
    Cookie(u8),
    /// Waits for the start.
    Hold,
    Run,
    /// Measuring is over; the rest of a block is still to be sent before the counts are reported.
    Finish {
        tag: u32,
    },
    /// The rest of the block is sent; the kernel's figures are read before the report.
    Look {
        tag: u32,
    },
    /// A client has sent all that it may, and waits for its server.
    Settle {
        /// Unacknowledged bytes; `None` until the kernel reports them.
        queued: Option<u64>,
        since: Mono,
        look: Mono,
    },
    /// The server has all of it.
    Settled,
    /// The end of test has arrived on its own connection, perhaps before data that were sent
    /// earlier; those still count.
    Drain {
        tag: u32,
        /// The last of them, or the end of test.
        last: Mono,
        /// Time of the last received byte.
        quiet: Mono,
        until: Mono,
    },
    /// Measuring is over: bytes are moved but not counted.
    Frozen,
    Over,
}

#[derive(Debug)]
pub(super) struct TcpStream {
    part: Part,
    step: StreamStep,
    sent: u64,
    /// Offset of the next received byte in the file.
    kept: u64,
    /// Left of the block that is being sent.
    block: u64,
    /// The client has half-closed the stream behind them.
    fed: bool,
    /// The kernel's figures at the end of the measurement.
    info: Option<Box<TcpInfo>>,
}

impl TcpStream {
    /// A client's sends the cookie first; a server's has received it.
    pub(super) fn new(part: Part) -> Self {
        let step = if part.test_state.serving { StreamStep::Hold } else { StreamStep::Cookie(0) };
        TcpStream { part, step, sent: 0, kept: 0, block: 0, fed: false, info: None }
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.step = StreamStep::Run;
        self.part.core.moved = cx.now;
        // The kernel paces by itself where that was asked for.
        self.part.start(cx.now, self.part.test_state.terms.rate);
        self.next_block(cx);
    }

    fn next_block(&mut self, cx: &mut Context<'_>) {
        if self.part.sender && self.step == StreamStep::Run && self.block == 0 && !self.part.done {
            self.block = self.part.test_state.block(self.part.test_state.terms.block.into());
            if self.block == 0 {
                self.finish(cx);
            }
        }
    }

    /// The next block has not been begun.
    fn whole(&self) -> bool {
        self.block == u64::from(self.part.test_state.terms.block)
    }

    /// The blocks of a burst leave back to back.
    fn within_burst(&self) -> bool {
        let BulkTerms { burst, block, .. } = self.part.test_state.terms;
        burst > 1 && !(self.sent / u64::from(block).max(1)).is_multiple_of(burst.into())
    }

    /// A call may go beyond the block.
    fn is_free(&self) -> bool {
        self.part.test_state.any_call_size && self.step == StreamStep::Run
    }

    /// Part of a block has been sent.
    fn begun(&self) -> bool {
        self.part.sender && self.block > 0 && !self.whole()
    }

    /// All permitted data are sent, or enough was received.
    fn finish(&mut self, cx: &mut Context<'_>) {
        if self.part.finish(cx) {
            self.step = StreamStep::Settle { queued: None, since: cx.now, look: cx.now };
        }
    }

    /// Takes in the kernel's state of the bytes on their way.
    fn state(&mut self, now: Mono, state: &SocketState) {
        match &mut self.step {
            StreamStep::Settle { queued, since, .. } if queued.is_none_or(|before| state.queued < before) => {
                (*queued, *since, self.part.ended) = (Some(state.queued), now, Some(now));
            }
            StreamStep::Look { .. } => {
                if let Some(info) = &mut self.info {
                    info.retransmits = state.retransmits;
                }
            }
            _ => {}
        }
    }

    fn wake(&mut self, cx: &mut Context<'_>) {
        match &mut self.step {
            StreamStep::Settle { queued, since, look } => {
                let patience = if queued.unwrap_or(0) == 0 { UNREAD } else { STUCK };
                if cx.now >= since.plus(patience) {
                    self.step = StreamStep::Settled;
                    return self.part.spent(cx);
                }
                // Often at first, so that the time of a short test is right.
                *look = cx.now.plus((cx.now.since(*since) / 4).clamp(LOOKS.0, LOOKS.1));
            }
            StreamStep::Look { tag } => {
                let tag = *tag;
                self.step = StreamStep::Frozen;
                let info = self.info.take();
                self.part.stand(cx, cx.now, Some(tag), info);
            }
            StreamStep::Drain { tag, last, quiet, until } if cx.now >= quiet.plus(QUIET).min(*until) => {
                let (tag, last) = (*tag, *last);
                self.freeze(cx, tag, last);
            }
            _ => {}
        }
    }

    /// The block that was begun is whole.
    fn look(&mut self, now: Mono, tag: u32) {
        (self.step, self.part.ended) = (StreamStep::Look { tag }, Some(now));
    }

    /// Nothing more counts; the last counted byte arrived at `last`.
    fn freeze(&mut self, cx: &mut Context<'_>, tag: u32, last: Mono) {
        self.step = StreamStep::Frozen;
        self.part.stand(cx, last, Some(tag), None);
    }

    /// The stream has ended before it was to.
    fn lost(&mut self, cx: &mut Context<'_>) {
        if self.step != StreamStep::Frozen {
            self.part.stand(cx, cx.now, None, None);
        }
    }

    fn open(&mut self, cx: &mut Context<'_>, path: Path) {
        if !self.part.up(cx, path) {
            return;
        }
        if !self.part.test_state.serving {
            self.part.joined(cx);
        } else if self.part.test_state.has_begun() && self.step == StreamStep::Hold {
            self.start(cx);
        }
    }
}

impl TcpStream {
    /// Offers up to `n` bytes of the file; at its end nothing more is sent.
    fn fill_from_file(&mut self, cx: &mut Context<'_>, n: u64, out: &mut Transmit<'_>) {
        let Some(store) = self.part.test_state.store.clone() else { return };
        let n = n.min(store.size().saturating_sub(self.sent));
        let room = out.own(usize::clamped(n));
        if let Err(why) = store.read(self.sent, room) {
            room.fill(0);
            self.complain(cx, why);
        }
        if n == 0 {
            self.block = 0;
            match self.step {
                StreamStep::Finish { tag } => self.look(cx.now, tag),
                _ => self.finish(cx),
            }
        }
    }

    /// Writes received bytes into the file.
    fn keep(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        let Some(store) = self.part.test_state.store.clone() else { return };
        match store.write(self.kept, bytes) {
            Ok(()) => self.kept += u64::clamped(bytes.len()),
            Err(why) => self.complain(cx, why),
        }
    }

    /// The file cannot be had any longer.
    fn complain(&mut self, cx: &mut Context<'_>, why: String) {
        if self.part.test_state.serving {
            notice(cx, Level::Error, why);
        } else {
            cx.post(Posted::Gone(why));
        }
    }
}

impl Flow for TcpStream {
    fn interest(&self) -> Interest {
        if self.step == StreamStep::Over {
            return Interest::done(Ending::Completed);
        }
        if let Some(elsewhere) = self.part.core.last_interest() {
            return elsewhere;
        }
        let send = match self.step {
            StreamStep::Cookie(_) | StreamStep::Finish { .. } => When::Now,
            // The rest of a block is due as the block was.
            StreamStep::Run if self.block > 0 => self
                .part
                .pace
                .as_ref()
                .filter(|_| self.whole() && !self.within_burst())
                .map_or(When::Now, |pace| When::At(pace.due())),
            _ => When::Never,
        };
        // Bytes after the end are dropped: unread bytes would turn the close into an abort.
        let read = match self.step {
            StreamStep::Cookie(_) | StreamStep::Hold | StreamStep::Over => Read::Pause,
            _ if self.fed => Read::Pause,
            StreamStep::Run | StreamStep::Drain { .. }
                if !self.part.sender && !self.part.test_state.discard =>
            {
                Read::look(READ)
            }
            _ => Read::skip(READ),
        };
        let wake = match self.step {
            StreamStep::Drain { quiet, until, .. } => Some(quiet.plus(QUIET).min(until)),
            StreamStep::Settle { queued: Some(0), since, .. } => Some(since.plus(UNREAD)),
            StreamStep::Settle { look, .. } => Some(look),
            StreamStep::Look { .. } => self.part.ended,
            _ => None,
        };
        let settles = matches!(self.step, StreamStep::Settle { .. } | StreamStep::Settled);
        let end = (settles && self.part.test_state.store.is_some()).then_some(End::Half);
        Interest { send, read, wake, end }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        match self.step {
            StreamStep::Cookie(have) => {
                let rest = &self.part.test_state.cookie[usize::from(have)..];
                out.copy(rest);
            }
            StreamStep::Run | StreamStep::Finish { .. } => {
                let room = u64::clamped(out.room());
                let n = if self.is_free() { room } else { self.block.min(room) };
                if self.part.test_state.store.is_some() {
                    return self.fill_from_file(cx, n, out);
                }
                Source::Pattern.offer(self.sent, usize::clamped(n), out);
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        match self.step {
            StreamStep::Cookie(have) => {
                let have = usize::from(have) + n.bytes;
                self.step = if have < COOKIE { StreamStep::Cookie(have as u8) } else { StreamStep::Hold };
            }
            StreamStep::Run | StreamStep::Finish { .. } => {
                let bytes = u64::clamped(n.bytes);
                if bytes > 0
                    && self.whole()
                    && !self.within_burst()
                    && let Some(pace) = &self.part.pace
                {
                    self.part.core.late(cx, pace.due());
                }
                self.sent += bytes;
                self.block = match self.block.checked_sub(bytes) {
                    Some(left) => left,
                    // Some of a later block has left with it.
                    None => {
                        let block = u64::from(self.part.test_state.terms.block).max(1);
                        (block - (bytes - self.block) % block) % block
                    }
                };
                self.part.counts.bytes += bytes;
                if let Some(pace) = &mut self.part.pace {
                    pace.sent(bytes, cx.now);
                }
                self.part.core.sent(cx, bytes);
                match self.step {
                    StreamStep::Finish { tag } if self.block == 0 => self.look(cx.now, tag),
                    _ => self.next_block(cx),
                }
            }
            _ => {}
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        match &mut self.step {
            StreamStep::Run if !self.part.sender => self.part.core.moved = cx.now,
            StreamStep::Drain { last, quiet, .. } => (*last, *quiet) = (cx.now, cx.now),
            _ => return Ok(()),
        }
        let n = u64::clamped(got.len);
        self.keep(cx, got.bytes);
        self.part.counts.bytes += n;
        self.part.core.received(cx, n);
        if self.part.test_state.add_received(n, 0) {
            self.finish(cx);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.open(cx, path),
            FlowEvent::Start if matches!(self.step, StreamStep::Hold | StreamStep::Cookie(_)) => {
                self.start(cx);
            }
            FlowEvent::Ask { tag, info } => self.part.stand(cx, cx.now, Some(tag), info),
            FlowEvent::Freeze { tag, info }
                if self.step == StreamStep::Run && self.begun() && !self.part.test_state.serving =>
            {
                (self.step, self.info) = (StreamStep::Finish { tag }, info);
            }
            FlowEvent::Freeze { tag, .. }
                if self.step == StreamStep::Run && !self.part.sender && self.part.test_state.serving =>
            {
                // A client that sends an amount says that it is over a while after the last of it.
                let last = if self.part.test_state.is_limited() { self.part.core.moved } else { cx.now };
                self.step = StreamStep::Drain { tag, last, quiet: cx.now, until: cx.now.plus(DRAIN) };
                if self.fed {
                    self.freeze(cx, tag, last);
                }
            }
            FlowEvent::Freeze { tag, info } => {
                self.step = if self.part.test_state.serving && self.part.sender {
                    StreamStep::Over
                } else {
                    StreamStep::Frozen
                };
                self.part.stand(cx, cx.now, Some(tag), info);
            }
            FlowEvent::State(state) => self.state(cx.now, &state),
            FlowEvent::Wake => self.wake(cx),
            FlowEvent::Stop => self.step = StreamStep::Over,
            // All bytes have arrived.
            FlowEvent::Fin | FlowEvent::Broken(_) if matches!(self.step, StreamStep::Drain { .. }) => {
                if let StreamStep::Drain { tag, last, .. } = self.step {
                    self.freeze(cx, tag, last);
                }
                self.step = StreamStep::Over;
            }
            FlowEvent::Fin if self.step == StreamStep::Frozen && !self.fed => self.step = StreamStep::Over,
            // The end of a file.
            FlowEvent::Fin
                if self.step == StreamStep::Run && !self.part.sender && self.part.test_state.serving =>
            {
                self.fed = true;
            }
            FlowEvent::Fin => {
                self.lost(cx);
                return Err(Violation::Malformed("the peer closed a stream before the end of the test"));
            }
            FlowEvent::Broken(_) if self.step == StreamStep::Frozen => self.step = StreamStep::Over,
            FlowEvent::Broken(_) => self.lost(cx),
            _ => {}
        }
        Ok(())
    }

    fn wants_socket_state(&self) -> bool {
        matches!(self.step, StreamStep::Settle { .. } | StreamStep::Look { .. })
    }

    fn id(&self) -> FlowId {
        self.part.core.id()
    }
}
