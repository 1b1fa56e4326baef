//! One data connection, either end: payload in spans, verified, its end agreed on.
//!
//! ```text
//! client                                         server
//!   preamble ───────────────────────────────────▶
//!   SPAN n, n bytes, SPAN …, END total ─────────▶          (push, push-pull, duplex)
//!   ◀─────────── SPAN n, n bytes, SPAN …, END total        (pull, push-pull, duplex)
//!   ◀────────────────────────── VERDICT received           (when the client sent)
//!   VERDICT received ───────────────────────────▶          (when the server sent)
//!   ◀────────────────────────────────────── DONE           (when the server sent)
//!   close (FIN) or abort (RST) ─────────────────▶
//! ```
//!
//! Rules:
//! 1. Both ends know from the preamble how much each direction carries; `END` says how much it did.
//!    An end that is short without the flag, or a count that differs from what arrived, is a data
//!    error.
//! 2. The receiver compares every byte in place. On the first bad one it sends a flagged `VERDICT`
//!    and aborts: both ends then count a data error. In the middle of a span of its own it can only
//!    abort, which the peer sees as a reset.
//! 3. When the run ends, the sender finishes its span and sends a flagged `END`; a client that only
//!    receives sends `STOP`.
//! 4. The server speaks last. The client has everything confirmed before it closes, so that its
//!    abort loses nothing, and the server takes FIN and RST alike from then on.
//! 5. Nothing moving for the stall time, while something should, is a network error.
//! 6. Of a phase that holds its connections, the client closes none before its order to stop;
//!    nothing has to move meanwhile.
//! 7. A span is as long as about 50 ms take; with bursts, it is one send; with probes between them
//!    (`inside.rs`), 10 ms and 64 KiB at most.

mod marks;
mod outbox;

pub use common::Params;

use super::inside::Inside;
use super::mark::{Kind, MARK, Mark};
use super::opening::Opener;
use super::preamble::Preamble;
use crate::payload::Source;
use common::draws::{self, Drawn};
use common::kernel::{Core, PacedWay};
use metrics::{Clamped, Ending, Mono, SECOND};
use model::{Pace, Pattern, Verify};
use outbox::Outbox;
use std::any::Any;
use std::sync::Arc;
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Rng, Sent, Transmit, Violation,
    When,
};
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opened the connection.
    Client,
    /// Accepted it.
    Server,
}

/// A time in the past.
const NOW: Mono = Mono(0);
const FIRST_SPAN: u64 = 16 * 1024;
const LONGEST_SPAN: u64 = 64 << 20;
/// A span that took less is followed by one twice as long.
const SHORT_SPAN: u64 = SECOND / 40;
/// A span that took more is followed by one half as long.
const LONG_SPAN: u64 = SECOND / 10;
/// With probes between them, spans are doubled up to this many bytes while they take less than
/// this, ns, and are as short as can be once they take longer: a probe waits for the end of one.
const LONGEST_BETWEEN: u64 = 64 * 1024;
const LONG_BETWEEN: u64 = SECOND / 100;

#[derive(Debug, Default)]
struct Sending {
    source: Source,
    /// Payload this direction is to carry.
    want: u64,
    /// Payload the kernel has taken.
    sent: u64,
    /// Left of the open span.
    span: u64,
    span_length: u64,
    span_since: Mono,
    /// Most payload of the next send.
    size: u64,
    /// Limit of this connection and direction, bits/s.
    rate: Option<u64>,
    pace: Option<Pace>,
    /// Sends left in the burst, and until when to pause.
    burst: u32,
    hold: Mono,
    ended: bool,
    confirmed: bool,
}

#[derive(Debug, Default)]
struct Receiving {
    source: Source,
    want: u64,
    got: u64,
    span: u64,
    /// Most bytes of the next receive.
    size: u64,
    /// The limit that the other end keeps, bits/s.
    rate: Option<u64>,
    mark: [u8; MARK],
    mark_len: u8,
    ended: bool,
    verdict_sent: bool,
    /// First bad offset.
    bad: Option<u64>,
}

#[derive(Debug)]
pub struct Data {
    params: Arc<Params>,
    role: Role,
    core: Core,
    out: Outbox,
    tx: Sending,
    rx: Receiving,
    inside: Inside,
    /// Draws of the sizes of send and receive calls.
    draws: [Rng; 2],
    rude: bool,
    stopping: bool,
    stop_sent: bool,
    /// DONE was sent (server) or received (client).
    done: bool,
    hung_up: bool,
}

impl Data {
    /// The client's end, of the session that `opener` opens connections of.
    pub fn client(
        params: Arc<Params>,
        opener: &Opener,
        id: Uuid,
        slot: u32,
        transfer: u64,
        rude: bool,
    ) -> Self {
        let mut data = Data::new(params, Role::Client, id, slot, transfer);
        data.out.put(&opener.preamble(id, slot, transfer));
        data.rude = rude;
        data
    }

    /// The server's end of the connection that `preamble` has announced.
    pub fn server(params: Arc<Params>, preamble: &Preamble) -> Self {
        Data::new(params, Role::Server, preamble.id, preamble.slot, preamble.transfer)
    }

    /// The same, with a seat that is given back when it goes.
    pub(super) fn seated(mut self, seat: impl Any + Send) -> Self {
        self.core.keep(seat);
        self
    }

    fn new(params: Arc<Params>, role: Role, id: Uuid, slot: u32, transfer: u64) -> Self {
        let (up, down) = params.pattern.split(transfer);
        let (tx_want, rx_want) = if role == Role::Client { (up, down) } else { (down, up) };
        let source = |from_client| Source::new(params.payload, id.as_u128(), from_client);
        let (client, buffer) = (role == Role::Client, params.buffer);
        let generator = |of_client, what| draws::generator(id, of_client, what);
        let (mut sends, mut receives) = (generator(client, Drawn::Sent), generator(client, Drawn::Received));
        let own = draws::rate(&params, &mut sends);
        let other = draws::rate(&params, &mut generator(!client, Drawn::Sent));
        Data {
            role,
            core: Core::new(params.group, slot, params.stall_ns).with_id(id),
            out: Outbox::new(),
            tx: Sending {
                source: source(role == Role::Client),
                want: tx_want,
                span_length: FIRST_SPAN,
                size: draws::buffer(buffer, &mut sends),
                rate: own,
                burst: params.burst.map_or(0, |b| b.count),
                ..Sending::default()
            },
            rx: Receiving {
                source: source(role == Role::Server),
                want: rx_want,
                size: draws::buffer(buffer, &mut receives),
                rate: other,
                ..Receiving::default()
            },
            inside: Inside::new(params.inside_gap_ns),
            draws: [sends, receives],
            rude: false,
            stopping: false,
            stop_sent: false,
            done: false,
            hung_up: false,
            params,
        }
    }

    /// Payload we may have sent by now; push-pull gives each end its turn.
    fn allowance(&self) -> u64 {
        let Pattern::PushPull { push, pull } = self.params.pattern else { return self.tx.want };
        if self.rx.got == self.rx.want {
            return self.tx.want;
        }
        let turns = match self.role {
            Role::Client => (self.rx.got / pull + 1).saturating_mul(push),
            Role::Server => (self.rx.got / push).saturating_mul(pull),
        };
        turns.min(self.tx.want)
    }

    fn both_confirmed(&self) -> bool {
        (self.tx.want == 0 || self.tx.confirmed) && (self.rx.want == 0 || self.rx.verdict_sent)
    }

    /// Everything is agreed on and nothing is waiting to be sent.
    fn settled(&self) -> bool {
        let last_word = match self.role {
            Role::Client => self.rx.want == 0 || self.done,
            Role::Server => self.tx.want == 0 || self.done,
        };
        self.both_confirmed() && last_word && self.out.is_empty()
    }

    /// Everything is agreed on, and the client keeps the connection open.
    fn is_held(&self) -> bool {
        self.params.hold_ns.is_some() && self.settled() && !self.stopping && !self.hung_up
    }

    /// When payload may be sent; [`NOW`] where nothing holds it back.
    fn payload_due(&self) -> Mono {
        if self.tx.hold > NOW {
            return self.tx.hold;
        }
        self.tx.pace.as_ref().map_or(NOW, |pace| pace.due())
    }

    /// Due time of the next probe, if there may be one: before its answer could be too late.
    fn probe_due(&self) -> Option<Mono> {
        let (tx, rx) = (&self.tx, &self.rx);
        let over =
            self.stopping || (tx.want > 0 && tx.sent == tx.want) || (rx.want > 0 && rx.ended) || tx.ended;
        let asks = self.role == Role::Client && self.core.row.is_some() && !over && rx.bad.is_none();
        self.inside.due().filter(|_| asks)
    }

    /// Puts a probe into the outbox when it is due.
    fn ask(&mut self, now: Mono) {
        if self.probe_due().is_some_and(|due| due <= now)
            && let Some(number) = self.inside.ask(now)
        {
            self.out.put(&Mark::new(Kind::Probe, number).encode(self.core.id));
        }
    }

    /// Puts the marks that may be sent now into the outbox.
    fn prepare(&mut self, now: Mono) {
        if self.tx.span == 0 && self.out.has_room() {
            self.ask(now);
        }
        while self.tx.span == 0
            && self.out.has_room()
            && let Some(kind) = self.next_mark()
        {
            if kind == Kind::Span && self.payload_due() > now {
                return;
            }
            let mark = self.commit(kind, now);
            self.out.put(&mark.encode(self.core.id));
        }
    }

    fn span_over(&mut self, now: Mono) {
        let took = now.since(self.tx.span_since);
        let longest = self.tx.rate.map_or(LONGEST_SPAN, |rate| (rate / 8 / 20).clamp(1, LONGEST_SPAN));
        let length = match took {
            LONG_BETWEEN.. if self.inside.gap_ns.is_some() => FIRST_SPAN,
            0..SHORT_SPAN => self.tx.span_length * 2,
            SHORT_SPAN..LONG_SPAN => self.tx.span_length,
            _ => self.tx.span_length / 2,
        };
        let longest = if self.inside.gap_ns.is_some() { longest.min(LONGEST_BETWEEN) } else { longest };
        self.tx.span_length = length.max(FIRST_SPAN).min(longest);
        self.tx.hold = Mono(0);
        if let Some(burst) = self.params.burst {
            self.tx.burst = self.tx.burst.saturating_sub(1);
            if self.tx.burst == 0 {
                self.tx.burst = burst.count;
                self.tx.hold = now.plus(burst.delay_ns);
            }
        }
    }

    fn payload_sent(&mut self, cx: &mut Context<'_>, n: u64) {
        self.tx.sent += n;
        self.tx.span -= n;
        self.core.sent(cx, n);
        if let Some(pace) = &mut self.tx.pace {
            self.core.late(cx, pace.due());
            pace.sent(n, cx.now);
            self.core.keeps_pace(cx, PacedWay::Sent, pace.origin(), pace.due());
        }
        if self.tx.span == 0 {
            self.span_over(cx.now);
        }
        self.tx.size = draws::buffer(self.params.buffer, &mut self.draws[0]);
    }

    fn payload_received(&mut self, cx: &mut Context<'_>, n: u64) {
        self.rx.got += n;
        self.rx.span -= n;
        self.core.received(cx, n);
        if let Some(rate) = self.rx.rate {
            self.core.hears_pace(cx, n, rate);
        }
    }

    fn read(&self) -> Read {
        let rx = &self.rx;
        if rx.bad.is_some() || (self.role == Role::Client && self.settled() && !self.is_held()) {
            return Read::Pause;
        }
        let to_mark = u64::clamped(MARK - usize::from(rx.mark_len));
        if rx.want == 0 || rx.ended {
            Read::look(to_mark)
        } else if self.params.verify != Verify::None {
            Read::look(if rx.span == 0 { rx.size.max(to_mark) } else { rx.size })
        } else if rx.span > 0 {
            Read::skip(rx.span.min(rx.size))
        } else {
            Read::look(to_mark)
        }
    }
}

impl Flow for Data {
    fn interest(&self) -> Interest {
        if self.is_held() {
            return Interest { read: self.read(), ..Interest::NONE };
        }
        if self.settled() && (self.role == Role::Client || self.hung_up) {
            let whole = self.tx.sent == self.tx.want && self.rx.got == self.rx.want;
            let how = if whole { Ending::Completed } else { Ending::Stopped };
            let end = Some(End::Done { how, reset: self.role == Role::Client && self.rude });
            return Interest { send: When::Never, read: Read::Pause, wake: None, end };
        }
        let due = if !self.out.is_empty() {
            Some(NOW)
        } else if self.rx.bad.is_some() {
            None
        } else if self.tx.span > 0 {
            Some(self.payload_due())
        } else {
            self.next_mark().map(|kind| if kind == Kind::Span { self.payload_due() } else { NOW })
        };
        let probe = self.probe_due().filter(|_| self.tx.span == 0);
        let send = match due.into_iter().chain(probe).min() {
            None => When::Never,
            Some(NOW) => When::Now,
            Some(at) => When::At(at),
        };
        Interest { send, read: self.read(), wake: Some(self.core.looks_at()), end: None }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.prepare(cx.now);
        let waiting = self.out.waiting();
        if !waiting.is_empty() {
            out.copy(waiting);
        }
        if self.tx.span > 0 && self.rx.bad.is_none() && self.payload_due() <= cx.now {
            let most = self.tx.pace.as_ref().map_or(self.tx.size, |pace| pace.chunk().min(self.tx.size));
            let n = self.tx.span.min(most).min(u64::clamped(out.room()));
            let before = out.len();
            self.tx.source.offer(self.tx.sent, usize::clamped(n), out);
            // The end goes along with the last payload: one send call less per connection.
            let last = u64::clamped(out.len() - before) == self.tx.span
                && self.tx.sent + self.tx.span == self.tx.want;
            if last && out.room() >= MARK {
                out.own(MARK).copy_from_slice(&Mark::new(Kind::End, self.tx.want).encode(self.core.id));
            }
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if !self.core.wrote(cx.now, n) {
            return;
        }
        let framing = n.bytes.min(self.out.waiting().len());
        self.out.left(framing);
        let payload = u64::clamped(n.bytes - framing).min(self.tx.span);
        if payload > 0 {
            self.payload_sent(cx, payload);
        }
        let end = n.bytes - framing - usize::clamped(payload);
        if end > 0 {
            // The end went along, perhaps in part.
            let mark = self.commit(Kind::End, cx.now);
            self.out.put(&mark.encode(self.core.id));
            self.out.left(end);
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.read(cx.now);
        if got.bytes.is_empty() {
            self.payload_received(cx, u64::clamped(got.len).min(self.rx.span));
            return Ok(());
        }
        let mut bytes = got.bytes;
        while !bytes.is_empty() {
            if self.rx.span > 0 {
                let n = u64::clamped(bytes.len()).min(self.rx.span) as usize;
                if self.params.verify == Verify::Data
                    && let Err(violation) = self.rx.source.check(self.rx.got, &bytes[..n])
                {
                    let offset =
                        if let Violation::BadData { offset, .. } = violation { offset } else { self.rx.got };
                    self.payload_received(cx, offset - self.rx.got);
                    return Err(self.damaged(offset, violation));
                }
                self.payload_received(cx, u64::clamped(n));
                bytes = &bytes[n..];
            } else {
                let have = usize::from(self.rx.mark_len);
                let n = bytes.len().min(MARK - have);
                self.rx.mark[have..have + n].copy_from_slice(&bytes[..n]);
                self.rx.mark_len += n as u8;
                bytes = &bytes[n..];
                if usize::from(self.rx.mark_len) == MARK {
                    self.rx.mark_len = 0;
                    let mark = self.rx.mark;
                    self.marked(cx, &mark)?;
                }
            }
        }
        self.rx.size = draws::buffer(self.params.buffer, &mut self.draws[1]);
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.core.up(cx, path);
                if self.inside.gap_ns.is_some() {
                    self.inside.up(cx.now, cx.rng.fraction());
                }
                self.tx.pace = self.tx.rate.map(|rate| Pace::new(rate, self.params.buffer.high, cx.now));
                self.tx.span_length =
                    self.tx.rate.map_or(FIRST_SPAN, |rate| (rate / 8 / 20).clamp(1, FIRST_SPAN));
                Ok(())
            }
            FlowEvent::Fin | FlowEvent::Broken(_) if self.role == Role::Client && self.is_held() => {
                Err(Violation::Vanished)
            }
            FlowEvent::Fin if self.settled() && self.rx.mark_len > 0 => {
                Err(Violation::TooMany { want: self.rx.want })
            }
            FlowEvent::Fin if self.settled() => {
                self.hung_up = true;
                Ok(())
            }
            FlowEvent::Fin => match self.core.cut_off() {
                Some(reset) => reset,
                None if self.rx.want > 0 && !self.rx.ended => {
                    let violation = Violation::TooFew { got: self.rx.got, want: self.rx.want };
                    Err(self.damaged(self.rx.got, violation))
                }
                None => Err(Violation::Unconfirmed { sent: self.tx.sent }),
            },
            FlowEvent::Broken(_) => {
                self.hung_up = true;
                Ok(())
            }
            FlowEvent::State(state) => {
                self.core.note_queue(cx.now, state.queued);
                Ok(())
            }
            FlowEvent::Wake => self.core.check_stall(cx.now),
            FlowEvent::Stop => {
                if self.is_held() {
                    // From now on the client's end is waited for.
                    self.core.moved = cx.now;
                }
                self.stopping = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn wants_socket_state(&self) -> bool {
        true
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
