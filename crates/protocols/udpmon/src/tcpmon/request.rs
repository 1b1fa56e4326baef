//! The requester: messages until the transfer is over or the time is up, then the responder's sums,
//! which must agree.

use super::codec::{self, Command, Head, PARAM};
use super::plan::{Plan, SHORTEST};
use crate::blocks;
use crate::call::Caller;
use crate::codec::Block;
use crate::host::PendingTexts;
use crate::one_sided::{Calls, GROUP};
use crate::packet_stats::tenths;
use crate::payload::Source;
use crate::proc::between;
use crate::readings::{Pending, READING, is_there, texts};
use crate::{PacketTest, PacketTestPut};
use common::kernel::{Core, PacedWay};
use common::message::post_event;
use metrics::{Binned, Clamped, Ending, Mono, SocketState};
use model::{Pace, Phase};
use std::sync::Arc;
use transport::{
    Checked, Connector, Context, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit,
    Violation, When,
};
use uuid::Uuid;

/// A client's sources of links.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let plan = Arc::new(Plan::of(phase, calls.host.clone()));
    Caller::one_per_worker(phase, calls, false, move |cx, slot| {
        Requester::new(Arc::clone(&plan), cx.rng.uuid(), slot)
    })
}

/// Bins of the histogram of the times that messages take to be sent.
const BINS: usize = 100;
/// Questions behind the messages: the sums, then the blocks, with the number of the card, and the
/// length of each answer.
const QUESTIONS: [(Command, i32, usize); 5] = [
    (Command::Stats, 0, PARAM),
    (Command::Fetch(Block::Net), 0, blocks::NET),
    (Command::Fetch(Block::FlowId), 0, blocks::CARD),
    (Command::Fetch(Block::FlowId), 1, blocks::CARD),
    (Command::Fetch(Block::Cpu), 0, blocks::CPU),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageStep {
    /// This host is being read; the first message leaves afterwards.
    Local,
    Data,
    /// The kernel's figures of the connection are being read before the next message is begun.
    Look,
    /// A message has left as a whole; its time is taken in the next turn.
    Put,
    /// All has left: the counters of both hosts are given time.
    Settle(Mono),
    /// One of the [`QUESTIONS`] is asked, then its answer awaited.
    Ask(usize),
    Answer(usize),
    Over(Ending),
    Failed,
}

#[derive(Debug)]
pub struct Requester {
    plan: Arc<Plan>,
    core: Core,
    step: MessageStep,
    since: Mono,
    pace: Option<Pace>,
    /// Whole messages that have left, and how much of the one in work.
    frame: u64,
    at: u64,
    head: [u8; PARAM],
    stopped: bool,
    /// Received bytes of the present answer.
    answer: Vec<u8>,
    readings: [Option<PendingTexts>; 2],
    /// The first message waits for a reading.
    first: Option<Pending<()>>,
    /// When the message in work was begun, and how many sends it took so far.
    put: (Mono, u32),
    /// The kernel's figures before that message, if requested.
    state: Option<SocketState>,
    /// When the burst in work began.
    burst: Mono,
    /// Delay of the schedule against the plan, ns.
    shift: u64,
    /// Time of the next snapshot, and a snapshot that waits for a reading of this host.
    snapshot: Option<Mono>,
    standing: Option<Pending<(Box<PacketTest>, PendingTexts)>>,
    found: PacketTest,
}

impl Requester {
    pub fn new(plan: impl Into<Arc<Plan>>, id: Uuid, slot: u32) -> Self {
        let plan = plan.into();
        Requester {
            core: Core::new(GROUP, slot, plan.stall_ns).with_id(id),
            plan,
            step: MessageStep::Data,
            since: Mono(0),
            pace: None,
            frame: 0,
            at: 0,
            head: [0; PARAM],
            stopped: false,
            answer: Vec::new(),
            readings: [None, None],
            first: None,
            put: (Mono(0), 0),
            state: None,
            burst: Mono(0),
            shift: 0,
            snapshot: None,
            standing: None,
            found: PacketTest::default(),
        }
    }

    /// When message `frame` is due, where each has a time.
    fn due(&self, frame: u64) -> Option<Mono> {
        let (wait, gap) = (self.plan.asked.wait_ns(), self.plan.asked.gap_ns());
        if wait == 0 && gap == 0 {
            return None;
        }
        let gaps = frame.checked_div(self.plan.burst()).unwrap_or(0).saturating_mul(gap);
        let behind = frame.saturating_mul(wait).saturating_add(gaps).saturating_add(self.shift);
        Some(self.since.plus(behind))
    }

    /// When nothing has moved for too long, counted from when something was to.
    fn stalls_at(&self) -> Mono {
        let due = self.due(self.frame).unwrap_or(Mono(0));
        self.core.stalls_at().max(due.plus(self.plan.stall_ns))
    }

    fn all_sent(&mut self, now: Mono) {
        self.found.sent = self.frame;
        self.found.last_burst_ns = self.put.0.since(self.burst);
        // Behind the last message there is a wait, and behind the last of a burst but the last one
        // a gap.
        let wait = Some(self.plan.asked.wait_ns()).filter(|wait| *wait > 0);
        let last = self.due(self.frame.max(1) - 1).unwrap_or(now);
        let end = wait.map_or(now, |wait| last.plus(wait).max(now));
        self.found.send_ns = end.since(self.since);
        self.readings[1] = Some(self.plan.host.ask());
        self.snapshot = None;
        self.ask(0, tenths(now.since(self.since)));
        if self.plan.asked.settle_ns > 0 {
            self.step = MessageStep::Settle(now.plus(self.plan.asked.settle_ns));
        }
    }

    /// Makes question `n` of [`QUESTIONS`] the next that leaves; `sent` is the time in it.
    fn ask(&mut self, n: usize, sent: i64) {
        let (command, index, length) = QUESTIONS[n];
        let head = Head { command, frame: self.frame as i64, length: SHORTEST };
        self.head = codec::encode(&head, sent, length);
        codec::put_index(&mut self.head, index);
        (self.at, self.step) = (0, MessageStep::Ask(n));
    }

    /// The answer to question `n` is there.
    fn on_answer(&mut self, cx: &mut Context<'_>, n: usize) -> Checked {
        let bytes = std::mem::take(&mut self.answer);
        match QUESTIONS[n].0 {
            Command::Fetch(block) => self.found.remote.keep(block, &bytes, self.core.is_v6()),
            _ => self.judge(&bytes)?,
        }
        if self.plan.asks && n + 1 < QUESTIONS.len() {
            self.ask(n + 1, 0);
        } else {
            self.report(cx);
        }
        Ok(())
    }

    /// The responder's sums are there.
    fn judge(&mut self, bytes: &[u8]) -> Checked {
        let counts = bytes.first_chunk().map(codec::decode_counts).unwrap_or_default();
        let (sent, received) = (self.frame * self.plan.message(), counts.bytes);
        if sent != received {
            self.step = MessageStep::Failed;
            return Err(Violation::Disagree { sent, received });
        }
        self.found.counts = Some(counts);
        Ok(())
    }

    fn report(&mut self, cx: &mut Context<'_>) {
        let [start, stop] = [0, 1].map(|n| texts(&self.readings[n]));
        self.found.local = between(&start, &stop, self.core.is_v6());
        self.found.over = true;
        if let Some(counted) = self.found.counted("as tcpmon does", false) {
            cx.post(counted);
        }
        post_event(cx, std::mem::take(&mut self.found).event());
        self.core.complete(cx, cx.now);
        self.step = MessageStep::Over(if self.stopped { Ending::Stopped } else { Ending::Completed });
    }

    /// A message is about to leave.
    fn depart(&mut self, now: Mono) {
        // One that is more than a wait late shifts the rest: those behind it would leave back to
        // back.
        let wait = self.plan.asked.wait_ns();
        let late = self.due(self.frame).filter(|_| wait > 0).map_or(0, |due| now.since(due));
        self.shift += if late > wait { late } else { 0 };
        if self.frame.checked_rem(self.plan.burst()) == Some(0) {
            self.burst = now;
        }
        self.put = (now, 0);
    }

    /// Begins a snapshot of the connection if one is due, and reports it once this host has been
    /// read.
    fn snap(&mut self, cx: &mut Context<'_>) {
        let every_ns = self.plan.asked.every_ns;
        if let Some((at, ns)) = self.snapshot.zip(every_ns).filter(|(at, _)| *at <= cx.now) {
            self.snapshot = Some(at.plus(ns));
            let at_ns = cx.now.since(self.since);
            let socket = self.state.take();
            let put = PacketTestPut { at_ns, socket, ..PacketTestPut::default() };
            let now = PacketTest {
                peer: self.found.peer.clone(),
                connection: self.found.connection,
                size: self.found.size,
                started: self.found.started,
                told: Some(cx.clock.wall(cx.now)),
                mss: socket.map(|socket| socket.mss),
                sent: self.frame,
                puts: vec![put],
                ..PacketTest::default()
            };
            self.standing = Pending::new((Box::new(now), self.plan.host.ask()), cx.now, READING);
        }
        let standing = Pending::take(&mut self.standing, cx.now, |(_, reading)| reading.get().is_some());
        let Some((mut now, reading)) = standing else { return };
        now.local = between(&texts(&self.readings[0]), &texts(&Some(reading)), self.core.is_v6());
        post_event(cx, now.event());
    }

    /// The first message may leave, if this host has been read.
    fn look(&mut self, cx: &Context<'_>) {
        if Pending::take(&mut self.first, cx.now, |()| is_there(&self.readings[0])).is_some() {
            self.begin(cx);
        }
    }

    /// The first message may leave.
    fn begin(&mut self, cx: &Context<'_>) {
        let now = cx.now;
        (self.since, self.core.moved, self.burst) = (now, now, now);
        self.found.started = cx.clock.wall(now);
        self.pace = self.plan.rate.map(|rate| Pace::new(rate, self.plan.message(), now));
        self.snapshot = self.plan.asked.every_ns.map(|ns| now.plus(ns));
        self.step = MessageStep::Data;
        self.next(now);
    }

    /// The present message has left as a whole, and the worker has returned to the flow: records
    /// the time of sending.
    fn was_put(&mut self, now: Mono) {
        let (begun, sends) = self.put;
        let took_ns = now.since(begun);
        if let Some(gaps) = &mut self.found.gaps {
            gaps.fill((took_ns / 1_000) as i64);
        }
        if self.plan.asked.is_recorded(self.frame) {
            let (at_ns, bytes, socket) = (begun.since(self.burst), self.plan.message(), self.state.take());
            self.found.puts.push(PacketTestPut { took_ns, at_ns, sends, bytes, socket });
        }
        self.step = MessageStep::Data;
        self.frame += 1;
        self.next(now);
    }

    /// The head of the next message, or of the first question behind the last.
    fn next(&mut self, now: Mono) {
        let Plan { asked, transfer, .. } = &*self.plan;
        if self.stopped
            || self.frame.saturating_mul(self.plan.message()) >= *transfer
            || asked.time_ns.is_some_and(|ns| now.since(self.since) >= ns)
        {
            return self.all_sent(now);
        }
        if asked.is_recorded(self.frame) {
            self.step = MessageStep::Look;
        }
        let head = Head { command: Command::Data, frame: self.frame as i64, length: self.plan.message() };
        self.head = codec::encode(&head, tenths(now.since(self.since)), 0);
        self.at = 0;
    }
}

impl Flow for Requester {
    fn interest(&self) -> Interest {
        let stalls = Interest { wake: Some(self.stalls_at()), ..Interest::NONE };
        let interest = match self.step {
            MessageStep::Data => {
                let paced = self.pace.map(|pace| pace.due()).or_else(|| self.due(self.frame));
                let send = paced.filter(|_| self.at == 0).map_or(When::Now, When::At);
                Interest { send, read: Read::look(1), ..stalls }
            }
            MessageStep::Look => {
                let due = self.due(self.frame).unwrap_or(self.core.moved);
                Interest { read: Read::look(1), wake: Some(due), ..Interest::NONE }
            }
            MessageStep::Ask(_) => Interest { send: When::Now, ..stalls },
            MessageStep::Answer(n) => {
                let left = QUESTIONS[n].2.saturating_sub(self.answer.len());
                Interest { read: Read::look(left), ..stalls }
            }
            MessageStep::Local => Interest { wake: Pending::look(&self.first), ..Interest::NONE },
            MessageStep::Settle(until) => Interest { wake: Some(until), ..Interest::NONE },
            MessageStep::Put => Interest { wake: Some(self.core.moved), ..Interest::NONE },
            MessageStep::Over(how) => Interest::done(how),
            MessageStep::Failed => Interest::NONE,
        };
        let wakes = [interest.wake, self.snapshot, Pending::look(&self.standing)];
        Interest { wake: wakes.into_iter().flatten().min(), ..interest }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let at = usize::clamped(self.at);
        if self.step == MessageStep::Data && at == 0 {
            self.depart(cx.now);
        }
        if at < PARAM {
            let own = out.own(PARAM - at);
            let n = own.len();
            own.copy_from_slice(&self.head[at..at + n]);
        }
        if self.step == MessageStep::Data {
            let from = self.at.max(SHORTEST);
            Source::Pattern.offer(from - SHORTEST, usize::clamped(self.plan.message() - from), out);
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if !self.core.wrote(cx.now, n) {
            return;
        }
        self.at += u64::clamped(n.bytes);
        if let MessageStep::Ask(question) = self.step {
            self.core.framing_sent(cx, n.bytes);
            if self.at >= SHORTEST {
                self.step = MessageStep::Answer(question);
            }
            return;
        }
        self.core.sent(cx, n.bytes);
        if let Some(pace) = &mut self.pace {
            pace.sent(u64::clamped(n.bytes), cx.now);
            self.core.keeps_pace(cx, PacedWay::Sent, pace.origin(), pace.due());
        }
        self.put.1 += 1;
        if self.at < self.plan.message() {
            return;
        }
        if self.plan.asked.histograms || self.plan.asked.records_packets() {
            self.step = MessageStep::Put;
            return;
        }
        self.frame += 1;
        self.next(cx.now);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.moved = cx.now;
        let MessageStep::Answer(n) = self.step else {
            self.step = MessageStep::Failed;
            return Err(Violation::Malformed("the responder spoke before it was asked"));
        };
        self.answer.extend_from_slice(got.bytes);
        self.core.framing_received(cx, got.len);
        if self.answer.len() < QUESTIONS[n].2 { Ok(()) } else { self.on_answer(cx, n) }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        if matches!(event, FlowEvent::Wake) {
            self.snap(cx);
        }
        match event {
            FlowEvent::Up(path) => {
                self.core.up(cx, path);
                let asked = &self.plan.asked;
                self.found.peer = path.peer.to_string();
                self.found.connection = Some(self.core.id);
                (self.found.size, self.found.wait) = (asked.size, asked.wait());
                let histogram = || Binned::new(asked.low.into(), asked.bin_width.into(), BINS);
                self.found.gaps = asked.histograms.then(histogram);
                self.readings[0] = Some(self.plan.host.ask());
                self.step = MessageStep::Local;
                self.first = Pending::new((), cx.now, READING);
                self.look(cx);
            }
            FlowEvent::Fin if !matches!(self.step, MessageStep::Over(_)) => {
                self.step = MessageStep::Failed;
                return Err(Violation::Unconfirmed { sent: self.frame * self.plan.message() + self.at });
            }
            FlowEvent::Stop => {
                self.stopped = true;
                match self.step {
                    MessageStep::Local => self.begin(cx),
                    MessageStep::Data | MessageStep::Look if self.at == 0 => self.next(cx.now),
                    _ => {}
                }
            }
            FlowEvent::Wake if self.step == MessageStep::Local => self.look(cx),
            FlowEvent::Wake if self.step == MessageStep::Put => self.was_put(cx.now),
            FlowEvent::State(state) => self.state = Some(*state),
            FlowEvent::Wake if self.step == MessageStep::Look => self.step = MessageStep::Data,
            FlowEvent::Wake if matches!(self.step, MessageStep::Settle(until) if cx.now >= until) => {
                (self.step, self.core.moved) = (MessageStep::Ask(0), cx.now);
            }
            FlowEvent::Wake if !matches!(self.step, MessageStep::Settle(_)) && cx.now >= self.stalls_at() => {
                self.step = MessageStep::Failed;
                let why = "a tcpmon_resp serves one connection at a time: the others wait for it";
                return Err(self.core.patience().violation().likely(why));
            }
            _ => {}
        }
        Ok(())
    }

    fn wants_socket_state(&self) -> bool {
        self.step == MessageStep::Look || self.snapshot.is_some()
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
