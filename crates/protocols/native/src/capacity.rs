//! Capacity tests (RFC 9097): the connections of a session, opened like flows of numbered datagrams.
//!
//! ```text
//! client                                server
//!   INIT (seal, id) ──────────────────▶  bound socket: answers, remembers nothing
//!   ◀───────────────────────── COOKIE
//!   OPEN (seal, id, cookie) ───────────▶  the address is proven: a connection with a socket of its own
//!   ◀───────────────────────── OPENED
//!     ═══ load, reports ═══             as `common::capacity` has them
//! ```
//!
//! The session agrees on the test, proves both ends, keeps the server's limits and counts; load and
//! reports are RFC 9946's. The server chooses the rate, within the rate that it granted.

use crate::grants::OpenFlow;
use crate::opening::Opener;
use crate::udp::{CONTROL, Kind, Posted, Repeat, Word, repetitions};
use common::capacity::{
    Connection, EndReport, LAST, Load, News, Parameters, RateTable, Reports, TestFlow, VERSION,
};
use common::kernel::Core;
use metrics::{Clamped, Ending, Group, Mono, SECOND};
use model::{CapacitySettings, Payload, Phase};
use std::sync::Arc;
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Path, Patience, Read, Received, Sent, Transmit,
    When,
};
use uuid::Uuid;

/// The wait for the answers to an opening.
const OPENING: Patience = Patience::of("no answer to the opening", 10 * SECOND);

/// Settings that the connections of a session's test share.
#[derive(Clone)]
pub(crate) struct Terms {
    group: Group,
    settings: CapacitySettings,
    parameters: Parameters,
    upstream: bool,
    connections: u32,
    /// The highest row of a search.
    last: u16,
    reports: Reports,
}

impl Terms {
    /// The terms of `phase`; `None` when it measures no capacity.
    pub(crate) fn of(phase: &Phase, group: Group) -> Option<Self> {
        let settings = phase.capacity?;
        let test_s = u16::clamped(phase.duration_ns.unwrap_or(0) / SECOND).max(1);
        let class = phase.sockets.dscp.map_or(0, |dscp| dscp << 2);
        let random = phase.payload == Payload::Random;
        let last = phase.rate.map_or(LAST, |bps| table(&settings).row_of(bps));
        let mut parameters = Parameters::of(&settings, test_s, class, random);
        if settings.row.is_some() {
            parameters.row = parameters.row.min(last);
        }
        let (upstream, connections) = (phase.pattern.sends_up(), phase.connections);
        Some(Terms { group, settings, parameters, upstream, connections, last, reports: Reports::default() })
    }

    /// The same, with reports to a client's result.
    pub(crate) fn reporting(self, reports: &Reports) -> Self {
        Terms { reports: reports.clone(), ..self }
    }

    /// The highest rate of IP packets that a connection may offer, bits/s.
    pub(crate) fn most_bps(&self) -> u64 {
        let row = self.settings.fixed_row().map_or(self.last, |row| row.min(self.last));
        table(&self.settings).row(row).rate_bps()
    }

    fn connection(&self, slot: u32) -> Connection {
        Connection {
            index: u8::clamped(slot),
            test: 0,
            version: VERSION,
            upstream: self.upstream,
            table: table(&self.settings),
            last: self.last,
            parameters: self.parameters,
            signed: false,
        }
    }
}

fn table(settings: &CapacitySettings) -> RateTable {
    RateTable { jumbo: settings.jumbo, traditional: settings.traditional }
}

/// The server's end of a connection, for a client that has proven its address.
pub(crate) struct Answering {
    test: TestFlow,
    /// Answer to the opening.
    opened: [u8; CONTROL],
    /// The answer has not left.
    owed: bool,
    /// The answer was offered last.
    offered: bool,
}

impl Answering {
    /// The connection that this word opens.
    pub(crate) fn new(terms: &Terms, word: &Word, place: OpenFlow, to: Option<u16>) -> Self {
        let connection = terms.connection(word.slot);
        let test = TestFlow::server(terms.group, connection, None, terms.reports.clone());
        let opened = Word { slot: word.slot, ..Word::new(Kind::Opened, word.id) }.encode();
        let test = test.with_id(word.id).placed(place).leaving(to);
        Answering { test, opened, owed: false, offered: false }
    }

    /// True if a datagram is the opening again: its answer was lost.
    fn is_opening(&self, bytes: &[u8]) -> bool {
        bytes.len() == CONTROL
            && Word::decode(bytes).is_some_and(|word| word.kind == Kind::Open && word.id == self.test.id().id)
    }
}

impl Flow for Answering {
    fn is_introduced(&self) -> Option<bool> {
        // Its session has admitted the connection.
        Some(true)
    }

    fn interest(&self) -> Interest {
        let interest = self.test.interest();
        match self.owed && interest.end.is_none() {
            true => Interest { send: When::Now, ..interest },
            false => interest,
        }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.offered = self.owed;
        if self.owed {
            out.copy(&self.opened);
        } else {
            self.test.prepare_send(cx, out);
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if std::mem::take(&mut self.offered) {
            self.owed = n.bytes == 0 && n.fault.is_none();
            return;
        }
        self.test.on_sent(cx, n);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        if !got.datagrams().any(|one| one.len() == CONTROL) {
            return self.test.on_received(cx, got, reply);
        }
        for bytes in got.datagrams() {
            if self.is_opening(bytes) {
                self.owed = true;
            } else {
                let one = Received { bytes, len: bytes.len(), stride: bytes.len(), ..*got };
                self.test.on_received(cx, &one, reply)?;
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        let is_up = matches!(event, FlowEvent::Up(_));
        self.test.on_event(cx, event)?;
        self.owed |= is_up && self.test.id().row.is_some();
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.test.id()
    }
}

/// State of a client's opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A cookie is asked for.
    Init,
    /// A connection is asked for, with the cookie.
    Open([u8; 16]),
}

/// The client's end of a connection that is being opened.
pub(crate) struct Opening {
    core: Core,
    terms: Arc<Terms>,
    opener: Opener,
    id: Uuid,
    slot: u32,
    number: u64,
    state: State,
    path: Option<Path>,
    /// When the next word is due, and the wait for it.
    word_at: Mono,
    repeat: Repeat,
    heard: Mono,
    until: Mono,
    /// The test at the same socket.
    next: Option<Box<TestFlow>>,
    over: Option<Ending>,
}

impl Opening {
    /// The connection in `slot`, with this identifier.
    pub(crate) fn new(terms: Arc<Terms>, opener: &Opener, id: Uuid, slot: u32) -> Self {
        Opening {
            core: Core::new(terms.group, slot, 0).with_id(id),
            number: opener.number(),
            opener: opener.clone(),
            repeat: repetitions(terms.connections, SECOND / 2),
            terms,
            id,
            slot,
            state: State::Init,
            path: None,
            word_at: Mono(0),
            heard: Mono(0),
            until: Mono(0),
            next: None,
            over: None,
        }
    }

    fn word(&self) -> Word {
        let slot = self.slot;
        let word = match self.state {
            State::Init => Word { slot, ..Word::new(Kind::Init, self.id) },
            State::Open(cookie) => Word { slot, cookie, ..Word::new(Kind::Open, self.id) },
        };
        self.opener.word(self.number, word)
    }

    fn post_end(&self, cx: &mut Context<'_>) {
        let news = News::End(EndReport::default());
        let report = self.terms.connection(self.slot).report(cx.clock.wall(cx.now), self.path, news);
        self.terms.reports.post(cx, report);
    }

    fn on_datagram(&mut self, now: Mono, bytes: &[u8]) {
        let word = Word::decode(bytes).filter(|word| word.id == self.id);
        let is_open = matches!(self.state, State::Open(_));
        match word.map(|word| (word.kind, word.cookie)) {
            Some((Kind::Cookie, cookie)) if !is_open => {
                (self.state, self.word_at, self.heard) = (State::Open(cookie), now, now);
                self.repeat.reset();
            }
            Some((Kind::Opened, _)) if is_open => self.begin(),
            // Load that has overtaken the answer, or whose answer was lost.
            None if is_open && Load::decode(bytes, bytes.len()).is_some() => self.begin(),
            _ => {}
        }
    }

    fn begin(&mut self) {
        let connection = self.terms.connection(self.slot);
        let (group, first) = (self.terms.group, connection.first_row());
        let reports = self.terms.reports.clone();
        let test = TestFlow::client(group, self.slot, connection, first, reports).with_id(self.id);
        self.next = Some(Box::new(test));
    }

    fn is_waiting(&self) -> bool {
        self.over.is_none() && self.next.is_none()
    }
}

impl Flow for Opening {
    fn interest(&self) -> Interest {
        if self.next.is_some() {
            return Interest::of(End::Replace);
        }
        if let Some(how) = self.over {
            return Interest::done(how);
        }
        if self.path.is_none() {
            return Interest::NONE;
        }
        Interest { send: When::At(self.word_at), read: Read::look(65_535), wake: Some(self.until), end: None }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        out.copy(&self.word().encode());
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes > 0 || n.fault.is_some() {
            let wait = self.repeat.next(cx.now.since(self.heard));
            self.word_at = cx.now.plus(wait);
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        for bytes in got.datagrams() {
            if self.is_waiting() {
                self.on_datagram(cx.now, bytes);
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                (self.path, self.word_at, self.heard) = (Some(path), cx.now, cx.now);
                self.until = OPENING.since(cx.now).until();
            }
            FlowEvent::Wake if self.is_waiting() && cx.now >= self.until => {
                if let Some(path) = self.path {
                    // A connection that failed is counted.
                    self.core.up(cx, path);
                }
                self.over = Some(Ending::Stopped);
                cx.post(Posted::Unopened);
                self.post_end(cx);
                return Err(OPENING.violation().likely(BLOCKED));
            }
            FlowEvent::Stop if self.is_waiting() => {
                self.over = Some(Ending::Stopped);
                cx.post(Posted::Unopened);
                self.post_end(cx);
            }
            _ => {}
        }
        Ok(())
    }

    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        self.next.take().map(|flow| flow as Box<dyn Flow>)
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}

/// Why an opening may have no answer.
const BLOCKED: &str = "does a firewall drop UDP to the server's port?";
