//! The responder: counts what comes on a connection, and answers. Any number of connections at once.

use super::codec::{self, Command, Counts, Head, PARAM};
use super::notes::{Notes, Wanted};
use crate::blocks;
use crate::host::{Host, HostTexts, Reading};
use crate::one_sided::{Answers, GROUP};
use crate::proc::between;
use crate::{PacketTest, PacketTestCounts, PacketTestSettings};
use common::call::Answerer;
use common::kernel::Core;
use common::message::tell;
use metrics::{Clamped, Ending, Mono, SECOND};
use model::Phase;
use transport::{
    Acceptor, Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit,
    Violation, When,
};
use uuid::Uuid;

/// How often it is looked whether a reading of this host has come, ns.
const LOOK: u64 = SECOND / 1_000;
/// How long the first message is left alone until this host has been read, ns: with many connections at once there is a queue.
const FIRST: u64 = SECOND / 20;

/// A server's sources of links.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let (stall_ns, buffer) = (phase.stall_ns, phase.buffer.high);
    let wanted = PacketTestSettings::of(phase).map(|asked| Wanted::of(&asked)).unwrap_or_default();
    let host = answers.host.with_cards(&PacketTestSettings::of(phase).unwrap_or_default().cards);
    let make = move |cx: &mut Context<'_>| {
        let flow = Responder::new(&host, cx.rng.uuid(), stall_ns, buffer).noting(&wanted);
        Box::new(flow) as Box<dyn Flow>
    };
    Answerer::for_all(answers, make).into_iter().map(Answerer::boxed).collect()
}

#[derive(Debug)]
pub struct Responder {
    host: Host,
    core: Core,
    buffer: u64,
    /// The head that is being read, and how much of it is there.
    head: [u8; PARAM],
    have: usize,
    /// What is left of the message behind its head.
    rest: u64,
    now: Option<Head>,
    counts: Counts,
    first: Option<Mono>,
    /// What is owed, and how much of it has left.
    owed: Vec<u8>,
    sent: usize,
    /// A request that waits for a reading of this host, since when, and when it is looked again.
    waits: Option<(Command, Mono, Mono)>,
    readings: [Option<Reading>; 2],
    /// Nothing is read before this host has been, until the first instant; it is looked for the reading at the second.
    unread: Option<(Mono, Mono)>,
    /// What is noted of each message.
    notes: Notes,
    snapshots: Snapshots,
    over: Option<Ending>,
}

/// Periodic reports of an open connection, each with a reading of this host's counters.
#[derive(Debug, Default)]
struct Snapshots {
    every_ns: Option<u64>,
    next: Option<Mono>,
    /// One that waits for its reading; until when, and when it is looked again.
    waits: Option<(Reading, Mono, Mono)>,
    /// The reading of the one before, and what had come by then.
    before: Option<HostTexts>,
    told: i32,
}

impl Responder {
    /// The answering end of a connection that has just come.
    pub fn new(host: &Host, id: Uuid, stall_ns: u64, buffer: u64) -> Self {
        Responder {
            readings: [Some(host.ask()), None],
            host: host.clone(),
            core: Core::new(GROUP, 0, stall_ns).with_id(id),
            buffer,
            head: [0; PARAM],
            have: 0,
            rest: 0,
            now: None,
            counts: Counts::default(),
            first: None,
            owed: Vec::new(),
            sent: 0,
            waits: None,
            unread: None,
            notes: Notes::default(),
            snapshots: Snapshots::default(),
            over: None,
        }
    }

    /// The same, noting what is wanted.
    pub fn noting(mut self, wanted: &Wanted) -> Self {
        self.notes = Notes::new(wanted);
        self.snapshots.every_ns = wanted.every_ns;
        self
    }

    /// Whether this host has been read.
    fn was_read(&self) -> bool {
        self.readings[0].as_ref().is_none_or(|reading| reading.get().is_some())
    }

    /// What a reading of this host says.
    fn text(&self, n: usize) -> HostTexts {
        self.readings[n].as_ref().and_then(|reading| reading.get()).cloned().unwrap_or_default()
    }

    fn tell(&mut self, cx: &mut Context<'_>) {
        if self.counts.received == 0 {
            return;
        }
        if self.snapshots.every_ns.is_some() && self.snapshots.told < self.counts.received {
            self.tell_snapshot(cx, self.text(1));
        }
        let mut test = self.found(cx, &self.text(0), &self.text(1));
        let mut histograms = std::mem::take(&mut self.notes.histograms).into_iter();
        test.gaps = histograms.next();
        test.others = histograms.collect();
        test.puts = std::mem::take(&mut self.notes.puts);
        test.over = true;
        tell(cx, test.event());
    }

    /// Tells what was counted so far; `host` is what this host has just said.
    fn tell_snapshot(&mut self, cx: &mut Context<'_>, host: HostTexts) {
        let before = self.snapshots.before.take().unwrap_or_else(|| self.text(0));
        let test = self.found(cx, &before, &host);
        (self.snapshots.before, self.snapshots.told) = (Some(host), self.counts.received);
        tell(cx, test.event());
    }

    /// A snapshot that is due is begun; one that has its reading is told.
    fn snap(&mut self, cx: &mut Context<'_>) {
        if let Some((at, ns)) =
            self.snapshots.next.zip(self.snapshots.every_ns).filter(|(at, _)| *at <= cx.now)
        {
            self.snapshots.next = Some(at.plus(ns));
            if self.snapshots.waits.is_none() {
                self.snapshots.waits = Some((self.host.ask(), cx.now.plus(SECOND), cx.now));
            }
        }
        let Some((reading, until, look)) = &mut self.snapshots.waits else { return };
        let text = reading.get().cloned().or_else(|| (cx.now >= *until).then(HostTexts::default));
        match text {
            None => *look = cx.now.plus(LOOK),
            Some(text) => {
                self.snapshots.waits = None;
                self.tell_snapshot(cx, text);
            }
        }
    }

    fn found(&self, cx: &Context<'_>, start: &HostTexts, stop: &HostTexts) -> PacketTest {
        let v6 = self.core.is_v6();
        PacketTest {
            peer: self.core.path.map(|path| path.peer.to_string()).unwrap_or_default(),
            connection: Some(self.core.id),
            started: cx.clock.wall(self.first.unwrap_or(cx.now)),
            told: Some(cx.clock.wall(cx.now)),
            counts: Some(PacketTestCounts {
                received: u64::try_from(self.counts.received).unwrap_or(0),
                bytes: u64::try_from(self.counts.bytes).unwrap_or(0),
                span: self.counts.span_us.saturating_mul(10),
                ..PacketTestCounts::default()
            }),
            remote: between(start, stop, v6),
            ..PacketTest::default()
        }
    }

    /// A message is there, to its last byte.
    fn message(&mut self, now: Mono, head: Head) {
        match head.command {
            Command::Data => {
                let first = *self.first.get_or_insert(now);
                self.counts.received = self.counts.received.saturating_add(1);
                self.counts.bytes = self.counts.bytes.saturating_add(head.length as i64);
                self.counts.span_us = (now.since(first) / 1_000) as i64;
                self.notes.message(now, head.length);
            }
            Command::Stats => {
                self.readings[1] = Some(self.host.ask());
                self.wait(head.command, now);
            }
            Command::Net | Command::Cpu | Command::FlowId => {
                self.wait(head.command, now);
            }
            Command::Other => {}
        }
    }

    fn owe(&mut self, bytes: Vec<u8>) {
        self.owed = bytes;
        self.sent = 0;
    }

    /// Answers once this host has been read: our answers are not in what is counted.
    fn wait(&mut self, command: Command, now: Mono) {
        self.waits = Some((command, now, now));
        self.look(now);
    }

    /// Answers what waits for a reading, if that is there, or was waited for long enough.
    fn look(&mut self, now: Mono) {
        let Some((command, since, at)) = self.waits.filter(|(_, _, at)| now >= *at) else { return };
        let texts = |n: usize| -> Option<HostTexts> {
            self.readings[n].as_ref().map_or(Some(HostTexts::default()), |r| r.get().cloned())
        };
        let (start, stop) = match (texts(0), texts(1)) {
            (Some(start), Some(stop)) => (start, stop),
            _ if now.since(since) >= SECOND => Default::default(),
            _ => {
                self.waits = Some((command, since, at.plus(LOOK)));
                return;
            }
        };
        self.waits = None;
        let v6 = self.core.is_v6();
        self.owe(match command {
            Command::Stats => codec::answer(&self.head, &self.counts).to_vec(),
            Command::Net => blocks::encode_net(&start, &stop, v6),
            Command::FlowId => {
                let card = usize::try_from(codec::index(&self.head)).unwrap_or(usize::MAX);
                blocks::encode_card(between(&start, &stop, v6).cards.get(card))
            }
            _ => blocks::encode_cpus(&between(&start, &stop, v6).cpus),
        });
    }

    fn pending(&self) -> usize {
        self.owed.len() - self.sent
    }

    fn reads(&self) -> Read {
        let held = self.waits.is_some() || self.unread.is_some() || self.notes.looks;
        if self.pending() > 0 || held || self.over.is_some() {
            return Read::Pause;
        }
        match self.now {
            Some(_) => Read::look(self.rest.min(self.buffer)),
            None => Read::look(PARAM - self.have),
        }
    }
}

impl Flow for Responder {
    fn interest(&self) -> Interest {
        let stall = (self.pending() > 0).then(|| self.core.stalls_at());
        let looks = self.waits.map(|(_, _, at)| at);
        let unread = self.unread.map(|(_, look)| look);
        let notes = self.notes.looks.then_some(self.core.moved);
        let told = self.snapshots.waits.as_ref().map(|(_, _, look)| *look);
        Interest {
            send: if self.pending() > 0 { When::Now } else { When::Never },
            read: self.reads(),
            wake: [stall, looks, unread, notes, told, self.snapshots.next].into_iter().flatten().min(),
            end: self.over.map(|how| End::Done { how, reset: false }),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        let rest = &self.owed[self.sent..];
        out.copy(rest);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if !self.core.wrote(cx.now, n) {
            return;
        }
        self.sent += n.bytes.min(self.pending());
        if self.pending() == 0 {
            self.owe(Vec::new());
        }
        self.core.framing_sent(cx, n.bytes);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.moved = cx.now;
        self.notes.reads += 1;
        let n = u64::clamped(got.len);
        let data = match self.now {
            Some(head) => {
                self.rest = self.rest.saturating_sub(n);
                head.command == Command::Data
            }
            None => {
                let to = (self.have + got.bytes.len()).min(PARAM);
                self.head[self.have..to].copy_from_slice(&got.bytes[..to - self.have]);
                self.have = to;
                if self.have < PARAM {
                    // Which kind it is shows with the head.
                    return Ok(());
                }
                let head = codec::decode(&self.head);
                self.now = Some(head);
                self.rest = head.length - u64::clamped(PARAM);
                if self.rest > 0 {
                    self.notes.reads = 0;
                }
                head.command == Command::Data
            }
        };
        let whole_head =
            self.have == PARAM && self.now.is_some_and(|head| self.rest + u64::clamped(PARAM) == head.length);
        let n = if whole_head { u64::clamped(PARAM) } else { n };
        if data {
            self.core.received(cx, n);
        } else {
            self.core.framing_received(cx, n);
        }
        if let Some(head) = self.now.filter(|_| self.rest == 0) {
            (self.now, self.have) = (None, 0);
            self.message(cx.now, head);
            self.notes.begin(cx.now);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.unread = (!self.was_read()).then(|| (cx.now.plus(FIRST), cx.now.plus(LOOK)));
                self.core.up(cx, path);
                self.notes.up(cx.now);
                self.snapshots.next = self.snapshots.every_ns.map(|ns| cx.now.plus(ns));
            }
            FlowEvent::State(state) => self.notes.state(*state),
            FlowEvent::Fin => {
                let inside = self.have > 0 || self.now.is_some();
                self.over = Some(Ending::Completed);
                self.tell(cx);
                if inside {
                    return Err(Violation::Malformed("the connection ended inside a message"));
                }
            }
            FlowEvent::Stop => {
                self.over = Some(Ending::Stopped);
                self.tell(cx);
            }
            FlowEvent::Wake => {
                if self.pending() > 0 {
                    self.core.check_stall(cx.now)?;
                }
                let now = cx.now;
                self.notes.looks = false;
                self.snap(cx);
                self.unread = self.unread.filter(|(until, _)| !self.was_read() && now < *until);
                if let Some((_, look)) = &mut self.unread {
                    *look = now.plus(LOOK);
                }
                self.look(now);
            }
            _ => {}
        }
        Ok(())
    }

    fn wants_socket_state(&self) -> bool {
        self.notes.looks
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
