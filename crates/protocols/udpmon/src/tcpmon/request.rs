//! The requester: messages until the transfer is over or the time is up, then the responder's sums, which must agree.

use super::codec::{self, Command, Head, PARAM};
use super::plan::{Plan, SHORTEST};
use crate::blocks;
use crate::call::Caller;
use crate::host::Reading;
use crate::one_sided::{Calls, GROUP};
use crate::packet_stats::TENTH;
use crate::payload::Source;
use crate::proc::between;
use crate::{PacketTest, PacketTestCounts, PacketTestPut};
use common::kernel::Core;
use common::message::tell;
use metrics::Binned;
use metrics::{Clamped, Ending, Mono, SECOND, SocketState};
use model::{Pace, Phase};
use std::time::Duration;
use transport::{
    Checked, Connector, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit,
    Violation, When,
};
use uuid::Uuid;

/// A client's sources of links.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let plan = Plan::of(phase, calls.host.clone());
    Caller::for_all(phase, calls, false, &move |cx: &mut Context<'_>, slot| -> Box<dyn Flow> {
        Box::new(Requester::new(plan.clone(), cx.rng.uuid(), slot))
    })
}

/// Bins of the histogram of the times that messages take to be sent.
const BINS: usize = 100;
/// How often it is looked whether a reading of this host has come, and how long it is waited for, ns.
const LOOK: u64 = SECOND / 1_000;
const READING: u64 = SECOND;
/// Blocks requested after the sums, with the length of each reply.
const BLOCKS: [(Command, usize); 4] = [
    (Command::Net, blocks::NET),
    (Command::FlowId, blocks::CARD),
    (Command::FlowId, blocks::CARD),
    (Command::Cpu, blocks::CPU),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This host is read before the first message, since then; it is looked for the reading at the second instant.
    Local(Mono, Mono),
    Data,
    /// It is looked what the kernel knows of the connection before the next message is begun.
    Look,
    /// A message has left as a whole, and it is about to be seen how long that took.
    Put,
    /// All has left: the counters of both hosts are given time.
    Settle(Mono),
    /// One of the blocks is asked for, then awaited.
    AskFor(usize),
    Fetch(usize),
    Ask,
    Answer,
    Over(Ending),
    Failed,
}

#[derive(Debug)]
pub struct Requester {
    plan: Plan,
    core: Core,
    step: Step,
    since: Mono,
    pace: Option<Pace>,
    /// Whole messages that have left, and how much of the one in work.
    frame: u64,
    at: u64,
    head: [u8; PARAM],
    have: usize,
    stopped: bool,
    block: Vec<u8>,
    readings: [Option<Reading>; 2],
    /// When the message in work was begun, and how many sends it took so far.
    put: (Mono, u32),
    /// What the kernel knew before it, if that was asked.
    state: Option<SocketState>,
    /// When the burst in work began.
    burst: Mono,
    /// How much later than planned messages are due, ns.
    shift: u64,
    /// When it is next told how it stands, and what waits for a reading of this host: until when, and when it is looked again.
    snapshot: Option<Mono>,
    standing: Option<(Box<PacketTest>, Reading, Mono, Mono)>,
    found: PacketTest,
}

impl Requester {
    pub fn new(plan: Plan, id: Uuid, slot: u32) -> Self {
        Requester {
            core: Core::new(GROUP, slot, plan.stall_ns).with_id(id),
            plan,
            step: Step::Data,
            since: Mono(0),
            pace: None,
            frame: 0,
            at: 0,
            head: [0; PARAM],
            have: 0,
            stopped: false,
            block: Vec::new(),
            readings: [None, None],
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
        let test = self.plan.test.as_ref().filter(|test| test.wait_ns > 0 || test.gap_ns > 0)?;
        let gaps = frame.checked_div(test.burst).unwrap_or(0).saturating_mul(test.gap_ns);
        Some(
            self.since
                .plus(frame.saturating_mul(test.wait_ns).saturating_add(gaps).saturating_add(self.shift)),
        )
    }

    /// When nothing has moved for too long, counted from when something was to.
    fn stalls_at(&self) -> Mono {
        let due = self.due(self.frame).unwrap_or(Mono(0));
        self.core.stalls_at().max(due.plus(self.plan.stall_ns))
    }

    fn all_sent(&mut self, now: Mono) {
        self.found.sent = self.frame;
        self.found.last_burst_ns = self.put.0.since(self.burst);
        let wait = self.plan.test.as_ref().map_or(0, |test| test.wait_ns);
        // Behind the last message there is a wait, and behind the last of a burst but the last one a gap.
        let end =
            if wait > 0 { self.due(self.frame.max(1) - 1).unwrap_or(now).plus(wait).max(now) } else { now };
        self.found.send_ns = end.since(self.since);
        let Some(test) = &self.plan.test else {
            self.step = Step::Ask;
            return;
        };
        self.readings[1] = Some(test.host.ask());
        self.snapshot = None;
        self.step = Step::Settle(now.plus(test.settle_ns));
    }

    /// Requests block `n` of [`BLOCKS`], or posts the results after the last.
    fn ask_for(&mut self, cx: &mut Context<'_>, n: usize) {
        let Some((command, length)) = BLOCKS.get(n) else { return self.tell(cx) };
        let head = Head { command: *command, frame: self.frame as i64, length: SHORTEST };
        // The argument is the number of the card; entry 2 is the second card.
        self.head = codec::ask(&head, *length, i32::from(n == 2));
        (self.at, self.step) = (0, Step::AskFor(n));
    }

    fn keep(&mut self, n: usize) {
        let v6 = self.core.is_v6();
        let bytes = std::mem::take(&mut self.block);
        match n {
            0 => {
                if let Some((start, stop)) = blocks::decode_net(&bytes) {
                    let host = between(&start, &stop, v6);
                    (self.found.remote.interfaces, self.found.remote.ip) = (host.interfaces, host.ip);
                }
            }
            1 | 2 => self.found.remote.cards.extend(blocks::decode_card(&bytes)),
            _ => self.found.remote.cpus = blocks::decode_cpus(&bytes),
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) {
        let read = |n: usize| {
            self.readings[n].as_ref().and_then(|reading| reading.get()).cloned().unwrap_or_default()
        };
        self.found.local = between(&read(0), &read(1), self.core.is_v6());
        self.found.over = true;
        if let Some(counted) = self.found.counted("as tcpmon does", false) {
            cx.post(counted);
        }
        tell(cx, std::mem::take(&mut self.found).event());
        self.complete(cx);
    }

    fn complete(&mut self, cx: &mut Context<'_>) {
        self.core.complete(cx, cx.now);
        self.step = Step::Over(if self.stopped { Ending::Stopped } else { Ending::Completed });
    }

    /// A message is about to leave.
    fn depart(&mut self, now: Mono) {
        // One that is more than a wait late shifts the rest: those behind it would leave back to back.
        let wait = self.plan.test.as_ref().map_or(0, |test| test.wait_ns);
        let late = self.due(self.frame).filter(|_| wait > 0).map_or(0, |due| now.since(due));
        self.shift += if late > wait { late } else { 0 };
        let burst = self.plan.test.as_ref().map_or(0, |test| test.burst);
        if burst > 0 && self.frame.is_multiple_of(burst) {
            self.burst = now;
        }
        self.put = (now, 0);
    }

    /// Tells how the connection stands, where that is due and this host has been read.
    fn snap(&mut self, cx: &mut Context<'_>) {
        let Some(test) = &self.plan.test else { return };
        if let Some((at, ns)) = self.snapshot.zip(test.wanted.every_ns).filter(|(at, _)| *at <= cx.now) {
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
            self.standing = Some((Box::new(now), test.host.ask(), cx.now.plus(READING), cx.now));
        }
        let Some((now, reading, until, look)) = &mut self.standing else { return };
        if reading.get().is_none() && cx.now < *until {
            *look = cx.now.plus(LOOK);
            return;
        }
        let start = self.readings[0].as_ref().and_then(|reading| reading.get()).cloned().unwrap_or_default();
        now.local = between(&start, &reading.get().cloned().unwrap_or_default(), self.core.is_v6());
        let now = std::mem::take(now);
        self.standing = None;
        tell(cx, now.event());
    }

    /// The first message may leave.
    fn begin(&mut self, cx: &Context<'_>) {
        let now = cx.now;
        (self.since, self.core.moved, self.burst) = (now, now, now);
        self.found.started = cx.clock.wall(now);
        self.pace = self.plan.rate.map(|rate| Pace::new(rate, self.plan.message, now));
        let every_ns = self.plan.test.as_ref().and_then(|test| test.wanted.every_ns);
        self.snapshot = every_ns.map(|ns| now.plus(ns));
        self.step = Step::Data;
        self.next(now);
    }

    /// The message in work has left as a whole, and the worker has come back to it: what it took.
    fn was_put(&mut self, now: Mono) {
        let (begun, sends) = self.put;
        let took_ns = now.since(begun);
        if let Some(gaps) = &mut self.found.gaps {
            gaps.fill((took_ns / 1_000) as i64);
        }
        if self.is_recorded() {
            let (at_ns, bytes, socket) = (begun.since(self.burst), self.plan.message, self.state.take());
            self.found.puts.push(PacketTestPut { took_ns, at_ns, sends, bytes, socket });
        }
        self.step = Step::Data;
        self.frame += 1;
        self.next(now);
    }

    /// Whether the message in work has a record.
    fn is_recorded(&self) -> bool {
        self.plan.test.as_ref().is_some_and(|test| test.wanted.is_recorded(self.frame))
    }

    /// The head of the next message.
    fn next(&mut self, now: Mono) {
        let frame = self.frame as i64;
        let tenths = (now.since(self.since) / 100) as i64;
        let time = self.plan.test.as_ref().and_then(|test| test.time_ns);
        let done = self.stopped
            || self.frame.saturating_mul(self.plan.message) >= self.plan.transfer
            || time.is_some_and(|ns| now.since(self.since) >= ns);
        self.at = 0;
        if done {
            self.all_sent(now);
            let head = Head { command: Command::Stats, frame, length: SHORTEST };
            self.head = codec::encode(&head, tenths, PARAM);
        } else {
            let head = Head { command: Command::Data, frame, length: self.plan.message };
            self.head = codec::encode(&head, tenths, 0);
            if self.is_recorded() {
                self.step = Step::Look;
            }
        }
    }

    /// The responder's sums are there.
    fn judge(&mut self, cx: &mut Context<'_>) -> Checked {
        let counts = codec::decode_counts(&self.head);
        let (sent, received) = (self.frame * self.plan.message, u64::try_from(counts.bytes).unwrap_or(0));
        if sent != received {
            self.step = Step::Failed;
            return Err(Violation::Disagree { sent, received });
        }
        self.found.counts = Some(PacketTestCounts {
            received: u64::try_from(counts.received).unwrap_or(0),
            bytes: received,
            span: counts.span_us.saturating_mul(10),
            ..PacketTestCounts::default()
        });
        if self.plan.test.is_some() {
            self.ask_for(cx, 0);
        } else {
            self.tell(cx);
        }
        Ok(())
    }
}

impl Flow for Requester {
    fn interest(&self) -> Interest {
        let (send, read, end) = match self.step {
            Step::Data => {
                let paced = self.pace.map(|pace| pace.due()).or_else(|| self.due(self.frame));
                (paced.filter(|_| self.at == 0).map_or(When::Now, When::At), Read::look(1), None)
            }
            Step::Look => (When::Never, Read::look(1), None),
            Step::Ask | Step::AskFor(_) => (When::Now, Read::Pause, None),
            Step::Local(..) | Step::Put | Step::Settle(_) => (When::Never, Read::Pause, None),
            Step::Fetch(n) => {
                let length = BLOCKS.get(n).map_or(0, |block| block.1);
                (When::Never, Read::look(length - self.block.len().min(length)), None)
            }
            Step::Answer => (When::Never, Read::look(PARAM - self.have), None),
            Step::Over(how) => (When::Never, Read::Pause, Some(End::Done { how, reset: false })),
            Step::Failed => (When::Never, Read::Pause, None),
        };
        let wake = match self.step {
            Step::Settle(until) | Step::Local(_, until) => Some(until),
            Step::Put => Some(self.core.moved),
            Step::Look => Some(self.due(self.frame).unwrap_or(self.core.moved)),
            Step::Over(_) | Step::Failed => None,
            _ => Some(self.stalls_at()),
        };
        let standing = self.standing.as_ref().map(|(_, _, _, look)| *look);
        let wake = [wake, self.snapshot, standing].into_iter().flatten().min();
        Interest { send, read, wake, end }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let at = usize::clamped(self.at);
        if self.step == Step::Data && at == 0 {
            self.depart(cx.now);
        }
        if at < PARAM {
            let own = out.own(PARAM - at);
            let n = own.len();
            own.copy_from_slice(&self.head[at..at + n]);
        }
        if self.step == Step::Data {
            let from = self.at.max(SHORTEST);
            Source::Pattern.offer(from - SHORTEST, usize::clamped(self.plan.message - from), out);
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if !self.core.wrote(cx.now, n) {
            return;
        }
        self.at += u64::clamped(n.bytes);
        if let Step::Ask | Step::AskFor(_) = self.step {
            self.core.framing_sent(cx, n.bytes);
            if self.at >= SHORTEST {
                self.step =
                    if let Step::AskFor(block) = self.step { Step::Fetch(block) } else { Step::Answer };
            }
            return;
        }
        self.core.sent(cx, n.bytes);
        if let Some(pace) = &mut self.pace {
            pace.sent(u64::clamped(n.bytes), cx.now);
        }
        self.put.1 += 1;
        if self.at < self.plan.message {
            return;
        }
        if self
            .plan
            .test
            .as_ref()
            .is_some_and(|test| test.wanted.histograms.is_some() || test.wanted.records.is_some())
        {
            self.step = Step::Put;
            return;
        }
        self.frame += 1;
        self.next(cx.now);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.core.moved = cx.now;
        if let Step::Fetch(n) = self.step {
            self.block.extend_from_slice(got.bytes);
            self.core.framing_received(cx, got.len);
            if BLOCKS.get(n).is_some_and(|(_, length)| self.block.len() >= *length) {
                self.keep(n);
                self.ask_for(cx, n + 1);
            }
            return Ok(());
        }
        if self.step != Step::Answer {
            self.step = Step::Failed;
            return Err(Violation::Malformed("the responder spoke before it was asked"));
        }
        let to = (self.have + got.bytes.len()).min(PARAM);
        self.head[self.have..to].copy_from_slice(&got.bytes[..to - self.have]);
        self.have = to;
        self.core.framing_received(cx, got.len);
        if self.have < PARAM { Ok(()) } else { self.judge(cx) }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        if matches!(event, FlowEvent::Wake) {
            self.snap(cx);
        }
        match event {
            FlowEvent::Up(path) => {
                self.core.up(cx, path);
                self.found.peer = path.peer.to_string();
                self.found.connection = Some(self.core.id);
                self.found.size = u32::try_from(self.plan.message).unwrap_or(u32::MAX);
                let Some(test) = &self.plan.test else {
                    self.begin(cx);
                    return Ok(());
                };
                self.found.wait = u32::try_from(test.wait_ns / TENTH).unwrap_or(u32::MAX);
                self.found.gaps =
                    test.wanted.histograms.map(|(low, width)| Binned::new(low.into(), width.into(), BINS));
                self.readings[0] = Some(test.host.ask());
                self.step = Step::Local(cx.now, cx.now);
            }
            FlowEvent::Fin if !matches!(self.step, Step::Over(_)) => {
                self.step = Step::Failed;
                return Err(Violation::Unconfirmed { sent: self.frame * self.plan.message + self.at });
            }
            FlowEvent::Stop => {
                self.stopped = true;
                match self.step {
                    Step::Local(..) => self.begin(cx),
                    Step::Data | Step::Look if self.at == 0 => self.next(cx.now),
                    _ => {}
                }
            }
            FlowEvent::Wake if matches!(self.step, Step::Local(..)) => {
                let Step::Local(since, _) = self.step else { return Ok(()) };
                let read = self.readings[0].as_ref().is_none_or(|reading| reading.get().is_some());
                if read || cx.now.since(since) >= READING {
                    self.begin(cx);
                } else {
                    self.step = Step::Local(since, cx.now.plus(LOOK));
                }
            }
            FlowEvent::Wake if self.step == Step::Put => self.was_put(cx.now),
            FlowEvent::State(state) => self.state = Some(*state),
            FlowEvent::Wake if self.step == Step::Look => self.step = Step::Data,
            FlowEvent::Wake if matches!(self.step, Step::Settle(until) if cx.now >= until) => {
                (self.step, self.core.moved) = (Step::Ask, cx.now);
            }
            FlowEvent::Wake if !matches!(self.step, Step::Settle(_)) && cx.now >= self.stalls_at() => {
                self.step = Step::Failed;
                let why = "a tcpmon_resp serves one connection at a time: the others wait for it";
                return Err(Violation::Stalled(Duration::from_nanos(self.plan.stall_ns)).likely(why));
            }
            _ => {}
        }
        Ok(())
    }

    fn wants_socket_state(&self) -> bool {
        self.step == Step::Look || self.snapshot.is_some()
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
