//! Round trips over our own protocol: both ends of a connection, and of a flow of datagrams.
//!
//! ```text
//! client, TCP                            server
//!   preamble ───────────────────────────▶
//!   ◀─────────────────────────── DONE (0)   come in: a mark; or REFUSED, as on any data connection
//!   message (agreed size) ──────────────▶
//!   ◀──────────────────────────── message   the same, but for its second word
//!   FIN ────────────────────────────────▶
//!
//! client, UDP                            server
//!   preamble, again until answered ─────▶   bound socket: the seal proves who asks, nothing larger ever goes back
//!   ◀──────────────────── preamble (Answer, the same identifier)
//!   message ────────────────────────────▶   connected socket
//!   ◀──────────────────────────── message
//! ```
//!
//! A message is drawn in [`common::ping::codec`]. In the echo its second word says how long the
//! server had it, ns: over TCP from the return of the receive call that completed it to the send
//! call; over UDP from the kernel's receive stamp to that return, so that the server's wake-up is
//! in it, or as over TCP where there is no stamp: a server that spins has none, because it is never
//! woken and they cost time. A message shorter than 16 bytes has no room for that. The end of a
//! flow of datagrams is the end of its session.

use super::hello::is_answer;
use super::mark::{Kind, MARK, Mark, refusal};
use super::opening::Opener;
use super::preamble::{PREAMBLE, Preamble, Purpose};
use super::udp::{AGAIN, LOSSY, Posted, Repeat};
use common::Patience;
use common::kernel::Core;
use common::ping::{Params, Pinger};
use metrics::{Clamped, Ending, Mono, SECOND};
use std::any::Any;
use std::sync::Arc;
use transport::{
    Checked, Context, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit, Violation,
    When,
};
use uuid::Uuid;

/// Limit for the server's answer to the preamble, ns.
const PATIENCE: u64 = 5 * SECOND;
/// Place of the second word in a message.
const WORD: std::ops::Range<usize> = 8..16;

/// Steps of a client's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// The preamble is being sent: number of its bytes that have been.
    Preamble(usize),
    /// The answer is awaited: number of its bytes that have arrived.
    Waiting(usize),
    In,
    Failed,
}

/// The client's end.
#[derive(Debug)]
pub(super) struct Caller {
    preamble: [u8; PREAMBLE],
    answer: [u8; MARK],
    id: Uuid,
    datagrams: bool,
    entry: Entry,
    path: Option<Path>,
    since: Mono,
    /// Datagrams: when the first preamble was due, and how many flows there are.
    first: Mono,
    repeat: Repeat,
    /// Wait for the answer to the preamble that left last, ns.
    waits: u64,
    pinger: Pinger,
}

impl Caller {
    /// Connection `slot` of the session that `opener` opens connections of.
    pub(super) fn new(params: Arc<Params>, opener: &Opener, id: Uuid, slot: u32) -> Self {
        Caller {
            preamble: opener.preamble(id, slot, 1),
            answer: [0; MARK],
            id,
            datagrams: params.datagrams(),
            entry: Entry::Preamble(0),
            path: None,
            since: Mono(0),
            first: Mono(0),
            repeat: Repeat::new(params.connections, LOSSY, AGAIN / 2),
            waits: AGAIN,
            pinger: Pinger::new(params, id, slot),
        }
    }

    fn fail(&mut self, violation: Violation) -> Checked {
        self.entry = Entry::Failed;
        Err(violation)
    }

    fn enter(&mut self, cx: &mut Context<'_>) -> Checked {
        self.entry = Entry::In;
        self.path.map_or(Ok(()), |path| self.pinger.on_event(cx, FlowEvent::Up(path)))
    }

    fn on_answer(&mut self, cx: &mut Context<'_>, bytes: &[u8], have: usize) -> Checked {
        if self.datagrams {
            return if is_answer(bytes, self.id) { self.enter(cx) } else { Ok(()) };
        }
        let more = bytes.len().min(MARK - have);
        self.answer[have..have + more].copy_from_slice(&bytes[..more]);
        if have + more < MARK {
            self.entry = Entry::Waiting(have + more);
            return Ok(());
        }
        match Mark::decode(&self.answer, self.id) {
            Some(Mark { kind: Kind::Done, .. }) => self.enter(cx),
            Some(Mark { kind: Kind::Refused, value, .. }) => self.fail(refusal(value)),
            _ => self.fail(Violation::Malformed("something else than our answer came first")),
        }
    }

    /// Limit for an answer, ns.
    fn limit(&self) -> u64 {
        if self.datagrams { self.waits } else { PATIENCE }
    }

    fn overdue(&mut self, cx: &mut Context<'_>) -> Checked {
        if cx.now.since(self.since) < self.limit() {
            return Ok(());
        }
        if !self.datagrams || cx.now.since(self.first) >= PATIENCE {
            let why = "the server's answer to the first datagrams was lost each time";
            let stalled = Patience::of("no answer", PATIENCE).violation();
            if !self.datagrams {
                return self.fail(stalled);
            }
            cx.post(Posted::Unopened);
            return self.fail(stalled.likely(why));
        }
        // The next one is due now, and has its time from now on.
        (self.entry, self.since) = (Entry::Preamble(0), cx.now);
        Ok(())
    }
}

impl Flow for Caller {
    fn interest(&self) -> Interest {
        let wake = || Some(self.since.plus(self.limit()));
        match self.entry {
            Entry::In => self.pinger.interest(),
            Entry::Failed => Interest::NONE,
            Entry::Preamble(_) => Interest { send: When::Now, wake: wake(), ..Interest::NONE },
            Entry::Waiting(have) => {
                let most = if self.datagrams { 65_535 } else { MARK - have };
                Interest { read: Read::look(most), wake: wake(), ..Interest::NONE }
            }
        }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        match self.entry {
            Entry::In => self.pinger.prepare_send(cx, out),
            Entry::Preamble(sent) => {
                let rest = &self.preamble[sent..];
                out.copy(rest);
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        match self.entry {
            Entry::In => self.pinger.on_sent(cx, n),
            Entry::Preamble(_) if self.datagrams => {
                // Refused or not, the next one leaves when this one has had its time.
                self.since = cx.now;
                self.waits = self.repeat.next(cx.now.since(self.first));
                self.entry = Entry::Waiting(0);
            }
            Entry::Preamble(sent) if sent + n.bytes >= PREAMBLE => self.entry = Entry::Waiting(0),
            Entry::Preamble(sent) => self.entry = Entry::Preamble(sent + n.bytes),
            _ => {}
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        match self.entry {
            // A second answer to a repeated preamble is no message.
            Entry::In if self.datagrams && got.bytes.starts_with(&self.preamble[..8]) => Ok(()),
            Entry::In => self.pinger.on_received(cx, got, reply),
            Entry::Waiting(have) => self.on_answer(cx, got.bytes, have),
            _ => Ok(()),
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match (self.entry, event) {
            (Entry::In, event) => self.pinger.on_event(cx, event),
            (_, FlowEvent::Up(path)) => {
                (self.path, self.since, self.first) = (Some(path), cx.now, cx.now);
                Ok(())
            }
            (_, FlowEvent::Wake) => self.overdue(cx),
            (_, FlowEvent::Fin) => self.fail(Violation::Unconfirmed { sent: 0 }),
            (Entry::Failed, _) => Ok(()),
            (_, FlowEvent::Stop) => {
                if self.datagrams {
                    cx.post(Posted::Unopened);
                }
                self.enter(cx).and_then(|()| self.pinger.on_event(cx, FlowEvent::Stop))
            }
            _ => Ok(()),
        }
    }

    fn id(&self) -> FlowId {
        self.pinger.id()
    }
}

/// The server's end.
pub(super) struct Reflector {
    params: Arc<Params>,
    core: Core,
    /// Streams: unsent bytes of the mark that lets the client in.
    greeting: usize,
    message: Vec<u8>,
    /// Bytes of the message that have arrived, and that have been sent back.
    come: usize,
    back: usize,
    /// Arrival of its last byte.
    whole: Mono,
    /// The datagram that is sent next repeats the answer to the client's preamble: its bytes are no
    /// payload.
    answered: bool,
}

impl Reflector {
    /// The server's end of the connection or flow that this preamble opened; `place` is given back
    /// when it is dropped.
    pub(super) fn new(params: Arc<Params>, preamble: &Preamble, place: impl Any + Send) -> Self {
        let datagrams = params.datagrams();
        let mut core = Core::new(params.group, preamble.slot, params.stall_ns).with_id(preamble.id);
        core.keep(place);
        Reflector {
            core,
            greeting: if datagrams { 0 } else { MARK },
            message: vec![0; usize::clamped(params.unit(0))],
            params,
            come: 0,
            back: 0,
            whole: Mono(0),
            answered: false,
        }
    }

    /// The same, on its way to another worker.
    pub(super) fn leaving(mut self, to: Option<u16>) -> Self {
        self.core.leave_for(to);
        self
    }

    fn owes(&self) -> bool {
        self.greeting > 0 || (self.is_whole() && self.back < self.come)
    }

    /// True if a message has arrived whole: a datagram is one, whatever its length.
    fn is_whole(&self) -> bool {
        self.come == self.message.len() || (self.params.datagrams() && self.come > 0)
    }

    /// Sends a datagram back with its waiting time here: from the kernel's stamp until it was read
    /// or, without a stamp, from then until it is sent.
    fn reflect(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) {
        if Preamble::decode(got.bytes).is_some_and(|again| again.id == self.core.id) {
            // Our answer was lost.
            self.answered = reply.whole(&answer(self.core.id));
            return;
        }
        self.core.see_marks(cx, got);
        self.core.received(cx, got.bytes.len());
        let len = got.bytes.len();
        if got.stamp.is_none() && len <= self.message.len() {
            self.message[..len].copy_from_slice(got.bytes);
            (self.come, self.back, self.whole) = (len, 0, cx.now);
            return;
        }
        let spent = got.stamp.map_or(0, |stamp| got.at.since(stamp.at));
        let own = reply.copied(got.bytes);
        if let Some(word) = own.get_mut(WORD) {
            word.copy_from_slice(&spent.to_be_bytes());
        }
    }
}

/// The answer to the preamble of a client.
pub(super) fn answer(id: Uuid) -> [u8; PREAMBLE] {
    Preamble { id, ..Preamble::new(Purpose::Answer) }.encode()
}

impl Flow for Reflector {
    fn is_introduced(&self) -> Option<bool> {
        // Its session has admitted the flow.
        Some(true)
    }

    fn interest(&self) -> Interest {
        if let Some(last) = self.core.last_interest() {
            return last;
        }
        if self.owes() {
            let wake = Some(self.core.stalls_at()).filter(|_| !self.params.datagrams());
            return Interest { send: When::Now, wake, ..Interest::NONE };
        }
        if self.params.datagrams() {
            return Interest { read: Read::look(65_535), ..Interest::NONE };
        }
        Interest { read: Read::look(self.message.len() - self.come), ..Interest::NONE }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        if !self.owes() || self.core.over.is_some() {
            return;
        }
        if self.greeting > 0 {
            let mark = Mark::new(Kind::Done, 0).encode(self.core.id);
            let rest = &mark[MARK - self.greeting..];
            let own = out.own(rest.len());
            let n = own.len();
            return own.copy_from_slice(&rest[..n]);
        }
        if self.back == 0
            && let Some(word) = self.message[..self.come].get_mut(WORD)
        {
            word.copy_from_slice(&cx.now.since(self.whole).to_be_bytes());
        }
        let rest = &self.message[self.back..self.come];
        out.copy(rest);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if std::mem::take(&mut self.answered) {
            return;
        }
        if n.bytes == 0 {
            if n.fault.is_some() && self.params.datagrams() {
                // A lost echo looks to the peer like a lost datagram, which it is.
                self.come = 0;
            }
            return;
        }
        self.core.moved = cx.now;
        let greeting = n.bytes.min(self.greeting);
        self.greeting -= greeting;
        if greeting > 0 {
            return;
        }
        self.core.sent(cx, n.bytes);
        self.back += n.bytes;
        if self.back >= self.come {
            (self.come, self.back) = (0, 0);
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        self.core.moved = cx.now;
        if self.params.datagrams() {
            self.reflect(cx, got, reply);
            return Ok(());
        }
        let n = got.bytes.len().min(self.message.len() - self.come);
        self.message[self.come..self.come + n].copy_from_slice(&got.bytes[..n]);
        self.come += n;
        self.whole = cx.now;
        self.core.received(cx, n);
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.core.up(cx, path),
            FlowEvent::Fin if self.come > 0 => {
                let (got, want) = (self.come as u64, u64::clamped(self.message.len()));
                self.core.end(Ending::DataError);
                return Err(Violation::TooFew { got, want });
            }
            FlowEvent::Fin => self.core.end(Ending::Completed),
            // A session's datagrams end with it, and so does a connection on which nothing is under
            // way.
            FlowEvent::Stop if self.params.datagrams() => self.core.end(Ending::Completed),
            FlowEvent::Wake if self.owes() => self.core.check_stall(cx.now)?,
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
