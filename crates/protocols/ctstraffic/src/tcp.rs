//! One TCP connection, either end.
//!
//! ```text
//! server                                          client
//!   identifier, 37 bytes ────────────────────────▶
//!   ◀───────────── payload as the pattern wants ─────────────▶
//!   DONE, 4 bytes ───────────────────────────────▶
//!   ◀──────────────────────── FIN (graceful) or RST (rude)
//!   FIN ─────────────────────────────────────────▶
//! ```
//!
//! Rules:
//! 1. Steps follow each other strictly: nothing of the next is sent, and no byte of it read, before
//!    one is complete. So a completion is never taken for payload, nor what follows it for part of
//!    it.
//! 2. Each direction of a connection is the pattern from offset 0; identifier and completion do not
//!    move it.
//! 3. Both ends know beforehand how much each direction carries. The payload is over when both
//!    have.
//! 4. Identifier and completion are written in one call, because the original may read them in one,
//!    and taken in any pieces.
//! 5. While it waits for the end, the server takes reset and silence for success; the client takes
//!    nothing but FIN.
//! 6. An end that finds the other at fault aborts without a word.
//! 7. Nothing moving for the stall time is an error, which the original does not have: with unequal
//!    settings it waits for ever. The error says which setting is likely to differ.

use super::codec::{DONE, ID, decode_id, encode_id};
use super::pacing::{Pacing, pacing};
use crate::payload::Source;
use common::kernel::{CONFIRMED, Core, PacedWay};
use common::{Params, draws};
use metrics::{Clamped, Ending, Mono, SECOND};
use model::{Pattern, Verify};
use std::sync::Arc;
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, Violation, When,
};

/// First wait between two looks at the acknowledged bytes, ns; each further wait is as long as all
/// before.
const LOOK: u64 = SECOND / 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Opened the connection.
    #[default]
    Client,
    /// Accepted it, and speaks first.
    Server,
}

impl Role {
    /// The remote end, in words.
    fn other(self) -> &'static str {
        if self == Role::Client { "server" } else { "client" }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferStep {
    /// The identifier is being moved.
    Id,
    Payload,
    /// The completion is being moved.
    Done,
    /// The end of the stream is waited for.
    Parting,
    /// The run is over: an acknowledgement of sent payload is waited for.
    Confirming,
    /// The end has been decided on ([`Core::over`]), or the peer was found at fault: nothing more
    /// is said.
    Over,
}

#[derive(Debug)]
struct Sending {
    want: u64,
    sent: u64,
    /// Rest of the present or next send.
    io: u64,
    /// When it may go on; `None` is now.
    due: Option<Mono>,
    pacing: Pacing,
}

#[derive(Debug)]
struct Receiving {
    want: u64,
    got: u64,
    /// Most bytes of the next receive.
    size: u64,
}

/// One TCP connection.
#[derive(Debug)]
pub struct Connection {
    params: Arc<Params>,
    role: Role,
    core: Core,
    step: TransferStep,
    tx: Sending,
    rx: Receiving,
    /// Identifier or completion, as it is sent or the part received so far, and the number of its
    /// moved bytes.
    word: [u8; ID],
    word_moved: usize,
    rude: bool,
    /// When payload began.
    begun: Mono,
    /// Rate of received payload until the end of the run, bits/s.
    pull_bps: u64,
    /// Begin of [`TransferStep::Confirming`], and the next look at the kernel's queue.
    confirms: (Mono, Mono),
}

impl Connection {
    /// The client's end of a connection that moves `transfer` bytes and ends by abort if `rude`.
    pub fn client(params: Arc<Params>, slot: u32, transfer: u64, rude: bool) -> Self {
        Connection::new(params, Role::Client, slot, transfer, rude)
    }

    /// The server's end.
    pub fn server(params: Arc<Params>, transfer: u64) -> Self {
        Connection::new(params, Role::Server, 0, transfer, false)
    }

    fn new(params: Arc<Params>, role: Role, slot: u32, transfer: u64, rude: bool) -> Self {
        let (up, down) = params.pattern.split(transfer);
        let (tx_want, rx_want) = if role == Role::Client { (up, down) } else { (down, up) };
        Connection {
            role,
            core: Core::new(params.group, slot, params.stall_ns).telling(params.arrivals),
            step: TransferStep::Id,
            tx: Sending { want: tx_want, sent: 0, io: 0, due: None, pacing: Pacing::Free },
            rx: Receiving { want: rx_want, got: 0, size: params.buffer.high },
            word: [0; ID],
            word_moved: 0,
            rude,
            begun: Mono(0),
            pull_bps: 0,
            confirms: (Mono(0), Mono(0)),
            params,
        }
    }

    /// Payload that may be sent and received now. In push-pull only one end sends at a time, the
    /// client first.
    fn allowed(&self) -> (u64, u64) {
        let (tx, rx) = (self.tx.want - self.tx.sent, self.rx.want - self.rx.got);
        let Pattern::PushPull { push, pull } = self.params.pattern else { return (tx, rx) };
        let round = push.saturating_add(pull).max(1);
        let at = (self.tx.sent + self.rx.got) % round;
        let (turn, left) = if at < push { (Role::Client, push - at) } else { (Role::Server, round - at) };
        if turn == self.role { (tx.min(left), 0) } else { (0, rx.min(left)) }
    }

    /// Decides on the next send, if one may follow and none is begun.
    fn plan_send(&mut self, cx: &mut Context<'_>) {
        let (allowed, _) = self.allowed();
        if self.step == TransferStep::Payload && self.tx.io == 0 && allowed > 0 {
            self.tx.io = draws::buffer(self.params.buffer, cx.rng).min(allowed);
            self.tx.due = self.tx.pacing.due(self.tx.io, cx.now);
        }
    }

    /// Goes on to the completion once all payload has been moved.
    fn check_complete(&mut self, cx: &mut Context<'_>) {
        if self.step == TransferStep::Payload && self.tx.sent == self.tx.want && self.rx.got == self.rx.want {
            self.step = TransferStep::Done;
            self.word[..DONE.len()].copy_from_slice(DONE);
            self.core.complete(cx, cx.now);
        }
    }

    fn fail(&mut self, violation: Violation) -> Checked {
        self.step = TransferStep::Over;
        Err(violation)
    }

    /// Ends the connection with this result, by RST or in good order.
    fn end(&mut self, how: Ending, reset: bool) {
        self.step = TransferStep::Over;
        self.core.over = Some((how, reset));
    }

    fn payload_sent(&mut self, cx: &mut Context<'_>, n: u64) {
        if let Some(due) = self.tx.due {
            self.core.late(cx, due);
        }
        self.tx.sent += n;
        self.tx.io -= n;
        self.tx.due = self.tx.pacing.sent(n, cx.now);
        self.core.sent(cx, n);
        if let (Pacing::Smooth(pace), Some(next)) = (&self.tx.pacing, self.tx.due) {
            self.core.keeps_pace(cx, PacedWay::Sent, pace.origin(), next);
        }
        self.plan_send(cx);
        self.check_complete(cx);
    }

    fn payload_received(&mut self, cx: &mut Context<'_>, n: u64) {
        self.rx.got += n;
        self.core.received(cx, n);
        if let (Some(rate), Pacing::Smooth(_)) = (self.params.rate, &self.tx.pacing) {
            self.core.hears_pace(cx, n, rate);
        }
    }

    /// True for a client that is to receive nothing more before it has sent all: bytes of the server
    /// show another pattern, long before both ends stand still.
    fn expects_nothing(&self) -> bool {
        self.role == Role::Client && self.step == TransferStep::Payload && self.rx.got == self.rx.want
    }

    fn take_payload(&mut self, cx: &mut Context<'_>, got: &Received<'_>) -> Checked {
        if self.expects_nothing() {
            let violation = if got.bytes == DONE {
                let why = "the server says DONE: its transfer is smaller than ours";
                Violation::TooFew { got: self.tx.sent, want: self.tx.want }.likely(why)
            } else {
                let why = "the server sends where only this end is to: its pattern may be another than ours";
                Violation::TooMany { want: self.rx.want }.likely(why)
            };
            return self.fail(violation);
        }
        if self.params.verify == Verify::Data
            && let Err(violation) = Source::Pattern.check(self.rx.got, got.bytes)
        {
            let offset = if let Violation::BadData { offset, .. } = violation { offset } else { self.rx.got };
            let good = offset - self.rx.got;
            self.payload_received(cx, good);
            let (so_far, want) = (self.rx.got, self.rx.want);
            // A server whose transfer is smaller says that it is done where we expect payload.
            if self.role == Role::Client && &got.bytes[usize::clamped(good)..] == DONE {
                let why = "the server says DONE: its transfer is smaller than ours";
                return self.fail(Violation::TooFew { got: so_far, want }.likely(why));
            }
            return self.fail(violation);
        }
        self.payload_received(cx, u64::clamped(got.len));
        self.rx.size = draws::buffer(self.params.buffer, cx.rng);
        self.plan_send(cx);
        self.check_complete(cx);
        Ok(())
    }

    /// Bytes of the identifier or the completion that have still to be moved.
    fn word_left(&self) -> usize {
        match self.step {
            TransferStep::Id => ID - self.word_moved,
            TransferStep::Done => DONE.len() - self.word_moved,
            _ => 0,
        }
    }

    /// `n` bytes more of the identifier or the completion have been moved: after the last one the
    /// next step begins.
    fn word_moved(&mut self, cx: &mut Context<'_>, n: usize) {
        self.word_moved += n;
        if self.word_left() > 0 {
            return;
        }
        self.word_moved = 0;
        if self.step == TransferStep::Id {
            self.core.id = decode_id(&self.word);
            self.step = TransferStep::Payload;
            self.begun = cx.now;
            // A pace that began with the connection would owe the round trip of the identifier, and
            // pay it with a burst.
            self.tx.pacing = pacing(&self.params, cx.rng, cx.now);
            self.plan_send(cx);
            self.check_complete(cx);
        } else if self.rude {
            self.end(Ending::Completed, true);
        } else {
            self.step = TransferStep::Parting;
        }
    }

    fn take_word(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Checked {
        let n = bytes.len().min(self.word_left());
        self.word[self.word_moved..][..n].copy_from_slice(&bytes[..n]);
        self.core.framing_received(cx, n);
        // Every server of ctsTraffic makes a UUID: whatever follows other bytes is another
        // protocol's.
        if self.step == TransferStep::Id && n == self.word_left() && decode_id(&self.word).is_nil() {
            let why = "the server's connection identifier is no UUID: is it ctsTraffic?";
            return self.fail(Violation::Malformed(why));
        }
        if self.step == TransferStep::Done && n == self.word_left() && self.word[..DONE.len()] != DONE[..] {
            let why = "other bytes arrived where DONE was expected: the server's transfer is larger than ours, or \
                       its pattern another";
            return self.fail(self.too_few().likely(why));
        }
        self.word_moved(cx, n);
        Ok(())
    }

    /// The end arrived too early, or something else in its place.
    fn too_few(&self) -> Violation {
        Violation::TooFew { got: self.rx.got, want: self.rx.want }
    }

    /// Describes a standstill, and the setting that may differ.
    fn standstill(&self) -> String {
        let (tx, rx, other) = (&self.tx, &self.rx, self.role.other());
        match self.step {
            TransferStep::Id if self.role == Role::Client => {
                "no connection identifier arrived: is it ctsTraffic in server mode, with TCP?".to_owned()
            }
            TransferStep::Payload if rx.got < rx.want && self.allowed().1 > 0 => format!(
                "{} of {} bytes have arrived: the {other}'s transfer may be smaller than ours, or its pattern \
                 another",
                rx.got, rx.want
            ),
            TransferStep::Payload => format!(
                "the {other} takes no more than {} of {} bytes: its pattern may be another than ours",
                tx.sent, tx.want
            ),
            TransferStep::Done if self.role == Role::Client => format!(
                "all {} bytes have been moved, but the server did not say DONE: its transfer may be larger than \
                 ours, or its pattern another",
                tx.want + rx.want
            ),
            TransferStep::Parting => format!("the {other} did not end the connection"),
            _ => format!("the {other} takes nothing"),
        }
    }

    /// The run is over. A client waits first for an acknowledgement of payload that is under way,
    /// or for more payload: nothing else shows that the server is there.
    fn stop(&mut self, cx: &mut Context<'_>) {
        let idle = self.tx.sent == 0 && self.rx.got == 0;
        if self.role == Role::Server || self.step == TransferStep::Id || idle {
            return self.end(Ending::Stopped, true);
        }
        self.core.complete(cx, cx.now);
        let (moved, up) = (self.core.moved, self.begun);
        self.pull_bps = u64::clamped(
            u128::from(self.rx.got) * 8 * u128::from(SECOND) / u128::from(moved.since(up).max(1)),
        );
        self.core.part(cx.now);
        self.step = TransferStep::Confirming;
        self.confirms = (cx.now, cx.now);
    }

    /// Ends the connection once the server gives a sign, or none for too long.
    fn confirm(&mut self, now: Mono) -> Checked {
        let (since, _) = self.confirms;
        self.confirms.1 = now.plus(now.since(since).max(LOOK));
        let receives = self.allowed().1 > 0;
        if self.core.is_acknowledged(since, !receives) {
            self.end(Ending::Stopped, true);
            return Ok(());
        }
        // A server whose pace leaves longer pauses is none that fell silent.
        let due = u128::from(self.pull_bps) * u128::from(CONFIRMED.ns()) / u128::from(8 * SECOND);
        let silent = self.core.silent(now).filter(|_| receives && due > 2 * u128::from(self.rx.size));
        match self.core.unacknowledged(now).or(silent) {
            Some(gone) => return self.fail(gone),
            None if self.core.stalled(now).is_some() => self.end(Ending::Stopped, true),
            None => {}
        }
        Ok(())
    }

    fn stalled(&mut self, stalled: Violation) -> Checked {
        if self.role == Role::Server && self.step == TransferStep::Parting {
            self.end(Ending::Completed, true);
            return Ok(());
        }
        let why = self.standstill();
        self.fail(stalled.likely(why))
    }

    fn fin(&mut self) -> Checked {
        if self.step != TransferStep::Parting
            && let Some(checked) = self.core.cut_off()
        {
            return checked.or_else(|reset| self.fail(reset));
        }
        let why = match self.step {
            TransferStep::Parting => {
                self.end(Ending::Completed, false);
                return Ok(());
            }
            TransferStep::Id => {
                "the server hung up before it had sent its connection identifier: is it ctsTraffic?"
            }
            TransferStep::Done => "the server hung up before it had said DONE",
            _ => return self.fail(self.too_few()),
        };
        self.fail(self.too_few().likely(why))
    }

    fn read(&self) -> Read {
        match (self.step, self.role) {
            (TransferStep::Id | TransferStep::Done, Role::Client) => Read::look(self.word_left()),
            (TransferStep::Payload, _) if self.expects_nothing() => Read::look(DONE.len()),
            (TransferStep::Payload, _) => {
                let n = self.allowed().1.min(self.rx.size);
                if self.params.verify == Verify::None { Read::skip(n) } else { Read::look(n) }
            }
            (TransferStep::Parting, _) => Read::look(DONE.len()),
            (TransferStep::Confirming, _) => Read::skip(self.allowed().1.min(self.rx.size)),
            _ => Read::Pause,
        }
    }

    fn send(&self) -> When {
        match (self.step, self.role) {
            (TransferStep::Id | TransferStep::Done, Role::Server) => When::Now,
            (TransferStep::Payload, _) if self.tx.io > 0 => self.tx.due.map_or(When::Now, When::At),
            _ => When::Never,
        }
    }
}

impl Flow for Connection {
    fn interest(&self) -> Interest {
        if let Some(last) = self.core.last_interest() {
            return last;
        }
        let half = self.step == TransferStep::Parting && self.role == Role::Client;
        let confirming = self.step == TransferStep::Confirming;
        let wake = if confirming { self.confirms.1 } else { Mono(u64::MAX) };
        Interest {
            send: self.send(),
            read: self.read(),
            wake: Some(wake.min(self.core.stalls_at())),
            end: half.then_some(End::Half),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        match (self.step, self.role) {
            (TransferStep::Id | TransferStep::Done, Role::Server) => {
                out.copy(&self.word[self.word_moved..][..self.word_left()]);
            }
            (TransferStep::Payload, _) => {
                let n = self.tx.io.min(self.tx.pacing.most()).min(u64::clamped(out.room()));
                Source::Pattern.offer(self.tx.sent, usize::clamped(n), out);
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if !self.core.wrote(cx.now, n) {
            return;
        }
        match self.step {
            TransferStep::Payload => self.payload_sent(cx, u64::clamped(n.bytes).min(self.tx.io)),
            TransferStep::Id | TransferStep::Done => {
                let n = n.bytes.min(self.word_left());
                self.core.framing_sent(cx, n);
                self.word_moved(cx, n);
            }
            _ => {}
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.read(cx.now);
        match self.step {
            TransferStep::Id | TransferStep::Done => self.take_word(cx, got.bytes),
            TransferStep::Payload => self.take_payload(cx, got),
            TransferStep::Confirming => {
                self.end(Ending::Stopped, true);
                Ok(())
            }
            _ => {
                let what = if self.role == Role::Client { "after its DONE" } else { "after all payload" };
                let why = format!(
                    "bytes arrived {what}: the {}'s transfer may be larger than ours, or its pattern another",
                    self.role.other()
                );
                self.fail(Violation::TooMany { want: self.rx.want }.likely(why))
            }
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.core.up(cx, path);
                self.rx.size = draws::buffer(self.params.buffer, cx.rng);
                if self.role == Role::Server {
                    self.core.id = cx.rng.uuid();
                    self.word = encode_id(self.core.id);
                }
            }
            FlowEvent::Fin | FlowEvent::Broken(_) if self.step == TransferStep::Confirming => {
                self.end(Ending::Stopped, true);
            }
            FlowEvent::Fin => return self.fin(),
            FlowEvent::Broken(_) if self.role == Role::Server && self.step == TransferStep::Parting => {
                self.end(Ending::Completed, false);
            }
            FlowEvent::State(state) => self.core.note_queue(cx.now, state.queued),
            FlowEvent::Wake if self.step == TransferStep::Confirming => return self.confirm(cx.now),
            FlowEvent::Wake => {
                return self.core.stalled(cx.now).map_or(Ok(()), |stalled| self.stalled(stalled));
            }
            // Nothing in the protocol says "enough": a connection before its goodbye is aborted.
            FlowEvent::Stop if matches!(self.step, TransferStep::Id | TransferStep::Payload) => self.stop(cx),
            _ => {}
        }
        Ok(())
    }

    fn wants_socket_state(&self) -> bool {
        self.step == TransferStep::Confirming
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
