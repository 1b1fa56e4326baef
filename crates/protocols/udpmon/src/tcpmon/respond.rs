//! The responder: counts the bytes of a connection, and answers. Any number of connections at once.

use super::codec::{self, Command, Head, PARAM};
use super::notes::Notes;
use crate::blocks;
use crate::host::{Host, HostTexts, PendingTexts};
use crate::one_sided::{Answers, GROUP};
use crate::proc::between;
use crate::readings::{FIRST, Pending, READING, is_there, texts};
use crate::{PacketTest, PacketTestCounts, PacketTestSettings};
use common::call::Answerer;
use common::kernel::Core;
use common::message::post_event;
use metrics::{Clamped, Ending, Mono};
use model::Phase;
use std::collections::VecDeque;
use std::sync::Arc;
use transport::{
    Acceptor, Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit,
    Violation, When,
};
use uuid::Uuid;

/// A server's sources of links.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let (stall_ns, buffer) = (phase.stall_ns, phase.buffer.high);
    let asked = Arc::new(PacketTestSettings::of(phase).unwrap_or_default());
    let host = answers.host.with_cards(&asked.cards);
    Answerer::one_per_worker(answers, move |cx| {
        Responder::new(&host, cx.rng.uuid(), stall_ns, buffer).noting(Arc::clone(&asked))
    })
}

#[derive(Debug)]
pub struct Responder {
    host: Host,
    core: Core,
    buffer: u64,
    /// The head that is being read, and how much of it is there.
    head: [u8; PARAM],
    have: usize,
    /// Rest of the message behind its head.
    rest: u64,
    now: Option<Head>,
    counts: PacketTestCounts,
    first: Option<Mono>,
    owed: VecDeque<u8>,
    readings: [Option<PendingTexts>; 2],
    /// A request that waits for the readings of this host: our answers are outside the counts.
    waits: Option<Pending<Command>>,
    /// Nothing is read before this host has been.
    unread: Option<Pending<()>>,
    /// Notes of each message.
    notes: Notes,
    snapshots: Snapshots,
}

/// Periodic reports of an open connection, each with a reading of this host's counters.
#[derive(Debug, Default)]
struct Snapshots {
    every_ns: Option<u64>,
    next: Option<Mono>,
    /// One that waits for its reading.
    waits: Option<Pending<PendingTexts>>,
    /// The reading of the one before, and the bytes until then.
    before: Option<HostTexts>,
    told: u64,
}

impl Responder {
    /// The answering end of a new connection.
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
            counts: PacketTestCounts::default(),
            first: None,
            owed: VecDeque::new(),
            waits: None,
            unread: None,
            notes: Notes::default(),
            snapshots: Snapshots::default(),
        }
    }

    /// The same, with notes by the settings of `asked`.
    pub fn noting(mut self, asked: Arc<PacketTestSettings>) -> Self {
        self.snapshots.every_ns = asked.every_ns;
        self.notes = Notes::new(asked);
        self
    }

    /// Ends the connection with this result: reports its counts, if there are any.
    fn end(&mut self, cx: &mut Context<'_>, how: Ending) {
        self.core.over = Some((how, false));
        if self.counts.received == 0 {
            return;
        }
        let [start, stop] = [0, 1].map(|n| texts(&self.readings[n]));
        if self.snapshots.every_ns.is_some() && self.snapshots.told < self.counts.received {
            self.report_snapshot(cx, stop.clone());
        }
        let mut test = self.packet_test(cx, &start, &stop);
        let mut histograms = std::mem::take(&mut self.notes.histograms).into_iter();
        test.gaps = histograms.next();
        test.others = histograms.collect();
        test.puts = std::mem::take(&mut self.notes.puts);
        test.over = true;
        post_event(cx, test.event());
    }

    /// Reports the counts so far; `host` has this host's latest figures.
    fn report_snapshot(&mut self, cx: &mut Context<'_>, host: HostTexts) {
        let before = self.snapshots.before.take().unwrap_or_else(|| texts(&self.readings[0]));
        let test = self.packet_test(cx, &before, &host);
        (self.snapshots.before, self.snapshots.told) = (Some(host), self.counts.received);
        post_event(cx, test.event());
    }

    /// Begins a due snapshot; reports one that has its reading.
    fn snap(&mut self, cx: &mut Context<'_>) {
        let Snapshots { every_ns, next, waits, .. } = &mut self.snapshots;
        if let Some((at, ns)) = next.zip(*every_ns).filter(|(at, _)| *at <= cx.now) {
            *next = Some(at.plus(ns));
            if waits.is_none() {
                *waits = Pending::new(self.host.ask(), cx.now, READING);
            }
        }
        if let Some(reading) = Pending::take(waits, cx.now, |reading| reading.get().is_some()) {
            self.report_snapshot(cx, texts(&Some(reading)));
        }
    }

    fn packet_test(&self, cx: &Context<'_>, start: &HostTexts, stop: &HostTexts) -> PacketTest {
        PacketTest {
            peer: self.core.path.map(|path| path.peer.to_string()).unwrap_or_default(),
            connection: Some(self.core.id),
            started: cx.clock.wall(self.first.unwrap_or(cx.now)),
            told: Some(cx.clock.wall(cx.now)),
            counts: Some(self.counts),
            remote: between(start, stop, self.core.is_v6()),
            ..PacketTest::default()
        }
    }

    /// A message is there, to its last byte.
    fn message(&mut self, now: Mono, head: Head) {
        match head.command {
            Command::Data => {
                let first = *self.first.get_or_insert(now);
                self.counts.received += 1;
                self.counts.bytes = self.counts.bytes.saturating_add(head.length);
                // Whole microseconds, as they go on the wire.
                self.counts.span = (now.since(first) / 1_000) as i64 * 10;
                return self.notes.message(now, head.length);
            }
            Command::Stats => self.readings[1] = Some(self.host.ask()),
            Command::Fetch(_) => {}
            Command::Other => return,
        }
        self.waits = Pending::new(head.command, now, READING);
        self.answer(now);
    }

    /// Answers what waits for the readings, if these are there, or were waited for long enough.
    fn answer(&mut self, now: Mono) {
        let are_there = self.readings.iter().all(is_there);
        let Some(command) = Pending::take(&mut self.waits, now, |_| are_there) else { return };
        let host = if are_there { [0, 1].map(|n| texts(&self.readings[n])) } else { Default::default() };
        let answer = match command {
            Command::Fetch(block) => {
                let card = usize::try_from(codec::index(&self.head)).unwrap_or(usize::MAX);
                blocks::encode_host(block, [&host[0], &host[1]], self.core.is_v6(), card)
            }
            _ => codec::answer(&self.head, &self.counts).to_vec(),
        };
        self.owed = answer.into();
    }

    /// The first message may be read, if this host has been.
    fn begin(&mut self, now: Mono) {
        let _ = Pending::take(&mut self.unread, now, |()| is_there(&self.readings[0]));
    }

    fn reads(&self) -> Read {
        let held = self.waits.is_some() || self.unread.is_some() || self.notes.looks;
        if !self.owed.is_empty() || held || self.core.over.is_some() {
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
        let stall = (!self.owed.is_empty()).then(|| self.core.stalls_at());
        let notes = self.notes.looks.then_some(self.core.moved);
        let Snapshots { next, waits, .. } = &self.snapshots;
        let looks = [Pending::look(&self.waits), Pending::look(&self.unread), Pending::look(waits)];
        Interest {
            send: if self.owed.is_empty() { When::Never } else { When::Now },
            read: self.reads(),
            wake: looks.into_iter().chain([stall, notes, *next]).flatten().min(),
            end: self.core.over.map(|(how, reset)| End::Done { how, reset }),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        let (first, rest) = self.owed.as_slices();
        out.copy(first);
        out.copy(rest);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if !self.core.wrote(cx.now, n) {
            return;
        }
        self.owed.drain(..n.bytes.min(self.owed.len()));
        self.core.framing_sent(cx, n.bytes);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.moved = cx.now;
        self.notes.reads += 1;
        let n = match self.now {
            Some(_) => {
                self.rest = self.rest.saturating_sub(u64::clamped(got.len));
                u64::clamped(got.len)
            }
            None => {
                let to = (self.have + got.bytes.len()).min(PARAM);
                self.head[self.have..to].copy_from_slice(&got.bytes[..to - self.have]);
                self.have = to;
                // Of which kind the message is, shows with the whole head: until then it is not
                // counted.
                if self.have < PARAM {
                    return Ok(());
                }
                let head = codec::decode(&self.head);
                self.now = Some(head);
                self.rest = head.length - u64::clamped(PARAM);
                if self.rest > 0 {
                    self.notes.reads = 0;
                }
                u64::clamped(PARAM)
            }
        };
        let Some(head) = self.now else { return Ok(()) };
        if head.command == Command::Data {
            self.core.received(cx, n);
        } else {
            self.core.framing_received(cx, n);
        }
        if self.rest == 0 {
            (self.now, self.have) = (None, 0);
            self.message(cx.now, head);
            self.notes.begin(cx.now);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.unread = Pending::new((), cx.now, FIRST);
                self.core.up(cx, path);
                self.begin(cx.now);
                self.notes.up(cx.now);
                self.snapshots.next = self.snapshots.every_ns.map(|ns| cx.now.plus(ns));
            }
            FlowEvent::State(state) => self.notes.state(*state),
            FlowEvent::Fin => {
                let inside = self.have > 0 || self.now.is_some();
                self.end(cx, Ending::Completed);
                if inside {
                    return Err(Violation::Malformed("the connection ended inside a message"));
                }
            }
            FlowEvent::Stop => self.end(cx, Ending::Stopped),
            FlowEvent::Wake => {
                if !self.owed.is_empty() {
                    self.core.check_stall(cx.now)?;
                }
                self.notes.looks = false;
                self.snap(cx);
                self.begin(cx.now);
                self.answer(cx.now);
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
