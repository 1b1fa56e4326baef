//! The requester: `udpmon_bw_mon`, `udpmon_send` without its conversation, and our own trains.
//!
//! ```text
//! Lock: ZEROSTATS ─▶ Sync: 200 exchanges, if records are wanted ─▶ Start: START ─▶ Near: this host is read
//!   ─▶ Train ─▶ Tail: the wait behind the last packet ─▶ Settle ─▶ Stats ─▶ Fetch, piece by piece
//!   ─▶ Resync: 20 exchanges ─▶ Release: TESTEND ─▶ the next test, or Over
//! ```

use super::blocks;
use super::codec::{self, Block, Message};
use super::params::Params;
use super::proc::between;
use super::talk::Talk;
use super::train::Train;
use crate::call::Caller;
use crate::host::{HostTexts, Reading};
use crate::solo::{Calls, GROUP, Remark, Tell};
use metrics::{Arrival, Departure, Ending, Exchange, Mono, Offset, Row, SECOND, TrainReport, join};
use model::{
    Event, Level, Phase, Trains, UdpmonClock, UdpmonCounts, UdpmonRecord, UdpmonRecords, UdpmonRole,
    UdpmonTest,
};
use seam::{Batch, Burst, Card, Cx, End, Flow, News, Opener, Path, Read, Violation, Want, When, Wrote};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Exchanges before a test, as in the original, and behind it.
const EXCHANGES: u32 = 200;
const EXCHANGES_BEHIND: u32 = 20;
/// How long one is waited for, ns.
const EXCHANGE: u64 = SECOND;
/// How long is waited when somebody else has the responder, ns.
const BUSY: u64 = 30 * SECOND;
/// How often it is looked whether a reading of this host has come, ns.
const LOOK: u64 = SECOND / 1_000;
/// Longest datagram.
const LONGEST: u64 = 65_535;

/// Opens a client's tests: one flow for all of them.
#[must_use]
pub fn callers(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Opener>> {
    let params = Arc::new(Params::of(phase, GROUP, calls.host.clone()));
    // One requester, whatever else is asked for.
    let one = Phase { connections: 1, iterations: Some(1), ..phase.clone() };
    Caller::for_all(&one, calls, true, &move |cx: &mut Cx<'_>, slot| -> Box<dyn Flow> {
        if params.asked.role == UdpmonRole::Latency {
            return Box::new(super::latency::Latency::new(Arc::clone(&params), cx.rng.uuid(), slot));
        }
        Box::new(Requester::new(Arc::clone(&params), cx.rng.uuid(), slot))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Lock,
    /// Another test is running there.
    Busy(Mono),
    Sync(u32),
    Start,
    /// This host is read before the first packet; its train may not begin before.
    Near(Mono),
    Train,
    Tail(Mono),
    Settle(Mono),
    /// This host is read behind the last packet.
    After(Mono),
    Stats,
    /// Which of the blocks, and how much of it is there.
    Fetch(usize, usize),
    Resync(u32),
    Release,
    Over(Ending),
}

/// A block that is wanted.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    block: Block,
    length: usize,
    piece: usize,
}

/// One requester.
pub struct Requester {
    params: Arc<Params>,
    slot: u32,
    id: Uuid,
    row: Option<Row>,
    path: Option<Path>,
    step: Step,
    talk: Talk,
    /// Which of the tests.
    number: usize,
    /// When our times begin: ZEROSTATS was answered.
    zero: Mono,
    /// When the first train began.
    begun: Option<Mono>,
    train: Option<Train>,
    /// What is wanted of this test, and what came of the block in work.
    wanted: Vec<Wanted>,
    block: Vec<u8>,
    offset: Offset,
    points: Vec<(f64, f64)>,
    readings: [Option<Reading>; 3],
    test: UdpmonTest,
    /// An acknowledgement is waited for until then.
    ack: Option<Mono>,
    /// Of all trains: what left, what came, how far that may be wrong, packets that came with no place.
    sent: Vec<Departure>,
    got: Vec<Arrival>,
    bound_ns: u64,
    stopped: bool,
    /// When it is looked for a reading again.
    look: Mono,
}

impl Requester {
    /// The requester of a run.
    #[must_use]
    pub fn new(params: Arc<Params>, id: Uuid, slot: u32) -> Self {
        Requester {
            slot,
            id,
            row: None,
            path: None,
            step: Step::Lock,
            talk: Talk::default(),
            number: 0,
            zero: Mono(0),
            begun: None,
            train: None,
            wanted: Vec::new(),
            block: Vec::new(),
            offset: Offset::default(),
            points: Vec::new(),
            readings: [None, None, None],
            test: UdpmonTest::default(),
            ack: None,
            sent: Vec::new(),
            got: Vec::new(),
            bound_ns: 0,
            stopped: false,
            look: Mono(0),
            params,
        }
    }

    /// Begins the next test.
    fn begin(&mut self, cx: &Cx<'_>) {
        let asked = &self.params.asked;
        let wait = self.params.waits_ns.get(self.number).copied().unwrap_or(0) / super::ledger::TENTH;
        self.test = UdpmonTest {
            peer: self.path.map(|path| path.peer.to_string()).unwrap_or_default(),
            started: cx.clock.wall(cx.now),
            size: asked.size,
            wait: u32::try_from(wait).unwrap_or(u32::MAX),
            ..UdpmonTest::default()
        };
        (self.offset, self.points, self.train) = (Offset::default(), Vec::new(), None);
        if asked.role == UdpmonRole::Send {
            self.zero = cx.now;
            return self.near(cx.now);
        }
        self.step = Step::Lock;
        let zero = Message::Zero(self.params.setup());
        self.talk.ask(codec::encode(&zero, codec::PARAM));
    }

    /// The responder is ours.
    fn locked(&mut self, now: Mono) {
        self.zero = now;
        if self.params.asked.records == UdpmonRecords::None {
            return self.near(now);
        }
        self.step = Step::Sync(0);
        self.exchange(1);
    }

    fn exchange(&mut self, number: u32) {
        let ask = Message::Ask { frame: number.into(), length: codec::SYNC as i32 };
        self.talk.ask_for(codec::encode(&ask, codec::SYNC), EXCHANGE);
    }

    /// This host is read, then the train may begin.
    fn near(&mut self, now: Mono) {
        self.readings = [Some(self.params.host.ask()), None, None];
        self.step = Step::Near(now);
    }

    /// The train begins: at once, or when its place in the schedule of trains has come.
    fn depart(&mut self, now: Mono) {
        let begun = *self.begun.get_or_insert(now);
        let place =
            self.params.train.as_ref().map(|train| {
                begun.plus(train.place(self.number as u64 * u64::from(train.packets)).intended_ns)
            });
        self.train = Some(Train::new(&self.params, self.number, place.map_or(now, |at| at.max(now))));
        self.step = Step::Train;
    }

    /// A packet has left, or all have: what is next.
    fn advance(&mut self, now: Mono) {
        let Some(train) = &mut self.train else { return };
        if self.step == Step::Train && train.due().is_none() {
            self.step = Step::Tail(train.end().max(now));
        }
    }

    /// The wait behind the last packet is over.
    fn arrived(&mut self, now: Mono) {
        let Some(train) = &mut self.train else { return };
        let (send_ns, last_burst_ns) = train.lasted(now);
        if train.next_burst(now) {
            self.step = Step::Train;
            return;
        }
        self.test.sent = train.frames() - train.refused();
        self.test.refused = train.refused();
        (self.test.send_ns, self.test.last_burst_ns) = (send_ns, last_burst_ns);
        self.readings[1] = Some(self.params.host.ask());
        self.step = Step::Settle(now.plus(self.params.asked.settle_ns));
    }

    /// What is wanted once the sums are known.
    fn list(&mut self) {
        let asked = &self.params.asked;
        let mut wanted = vec![Block::Histogram(0)];
        if self.params.train.is_none() {
            wanted.extend([Block::Net, Block::Card]);
        }
        if asked.cpu {
            wanted.push(Block::Cpu);
        }
        if asked.histograms {
            wanted.extend((1..if asked.stamps { 5 } else { 3 }).map(Block::Histogram));
        }
        if asked.records != UdpmonRecords::None {
            wanted.push(Block::Records);
        }
        let records = usize::try_from(self.params.setup().record_bytes).unwrap_or(0);
        let records_piece = match asked.records {
            UdpmonRecords::Lost { .. } => codec::LOST_PIECE,
            _ => codec::RECORDS_PIECE,
        };
        let of = |block| match block {
            Block::Histogram(_) => (blocks::HISTOGRAM, codec::PIECE),
            Block::Records => (records, records_piece),
            Block::Net => (blocks::NET, codec::PIECE),
            Block::Cpu => (blocks::CPU, codec::PIECE),
            Block::Card => (blocks::CARD, codec::PIECE),
        };
        let one = |block| {
            let (length, piece) = of(block);
            Wanted { block, length, piece }
        };
        self.wanted = wanted.into_iter().map(one).collect();
    }

    /// Asks for the next piece, or goes on behind the last.
    fn fetch(&mut self, at: usize, have: usize) {
        let Some(wanted) = self.wanted.get(at) else {
            if self.params.asked.records == UdpmonRecords::None {
                return self.release();
            }
            self.step = Step::Resync(0);
            return self.exchange(EXCHANGES + 1);
        };
        let index = if wanted.block == Block::Records { have / 8 } else { have };
        let length = wanted.piece.min(wanted.length - have);
        let ask = Message::Fetch { block: wanted.block, index: index as i32, length: length as i32 };
        self.step = Step::Fetch(at, have);
        self.talk.ask(codec::encode(&ask, codec::PARAM));
    }

    /// A piece has come.
    fn piece(&mut self, now: Mono, at: usize, have: usize, bytes: &[u8]) {
        let Some(wanted) = self.wanted.get(at).copied() else { return };
        let expected = wanted.piece.min(wanted.length - have);
        if bytes.len() != expected {
            return;
        }
        self.talk.answered(now);
        self.block.extend_from_slice(bytes);
        if have + expected < wanted.length {
            return self.fetch(at, have + expected);
        }
        let block = std::mem::take(&mut self.block);
        self.keep(wanted.block, &block);
        self.fetch(at + 1, 0);
    }

    fn keep(&mut self, block: Block, bytes: &[u8]) {
        let test = &mut self.test;
        match block {
            Block::Histogram(0) => test.gaps = blocks::decode_histogram(bytes),
            Block::Histogram(_) => test.others.extend(blocks::decode_histogram(bytes)),
            Block::Net => {
                let v6 = self.path.is_some_and(|path| path.peer.ip().to_canonical().is_ipv6());
                if let Some((start, stop)) = blocks::decode_net(bytes) {
                    let host = between(&start, &stop, v6);
                    (test.far.interfaces, test.far.ip) = (host.interfaces, host.ip);
                }
            }
            Block::Cpu => test.far.cpus = blocks::decode_cpus(bytes),
            Block::Card => test.far.card = blocks::decode_card(bytes),
            Block::Records => match self.params.asked.records {
                UdpmonRecords::Lost { .. } => test.lost = blocks::decode_lost(bytes),
                _ => test.records = blocks::decode_records(bytes),
            },
        }
    }

    /// A response to an exchange has come.
    fn exchanged(&mut self, now: Mono, frame: i64, time: i64) {
        let (count, first, most) = match self.step {
            Step::Sync(n) => (n, 1, EXCHANGES),
            Step::Resync(n) => (n, EXCHANGES + 1, EXCHANGES_BEHIND),
            _ => return,
        };
        if frame != i64::from(first + count) {
            return;
        }
        let (sent, came) = (self.talk.sent().since(self.zero), now.since(self.zero));
        if !self.talk.repeated() {
            // Whole microseconds: it came in the microsecond behind.
            let t3 = time.saturating_mul(1_000);
            self.offset.add(Exchange { t1: Mono(sent), t2: t3.saturating_add(1_000), t3, t4: Mono(came) });
            if first == 1 {
                let half = (came.saturating_sub(sent)) as f64 / 2_000.0;
                self.points.push((time as f64, (sent / 1_000) as f64 + half));
            }
        }
        self.talk.answered(now);
        let next = count + 1;
        if next < most {
            self.step = if first == 1 { Step::Sync(next) } else { Step::Resync(next) };
            return self.exchange(first + next);
        }
        if first == 1 {
            self.step = Step::Start;
            self.talk.ask(codec::encode(&Message::Start(self.params.setup()), codec::PARAM));
        } else {
            self.release();
        }
    }

    fn release(&mut self) {
        self.step = Step::Release;
        self.talk.ask(codec::encode(&Message::End, codec::PARAM));
    }

    /// The test is over: tells it, and begins the next.
    fn over(&mut self, cx: &mut Cx<'_>) {
        let read = |n: usize| {
            self.readings[n].as_ref().and_then(|reading| reading.get()).cloned().unwrap_or_default()
        };
        let stop = HostTexts { stat: read(1).stat, ..read(2) };
        let v6 = self.path.is_some_and(|path| path.peer.ip().to_canonical().is_ipv6());
        self.test.near = between(&read(0), &stop, v6);
        self.test.over = true;
        self.test.clock = self.clock();
        self.remember(cx);
        let test = std::mem::take(&mut self.test);
        if self.params.train.is_none() {
            cx.post.push(Box::new(Tell(Event::Udpmon(Box::new(test)))));
        }
        self.number += 1;
        if self.number < self.params.waits_ns.len() && !self.stopped {
            return self.begin(cx);
        }
        self.tell_trains(cx);
        if let Some(row) = self.row {
            cx.rec.complete(row, cx.now);
        }
        self.step = Step::Over(if self.stopped { Ending::Stopped } else { Ending::Completed });
    }

    /// How the far clock relates to ours.
    fn clock(&self) -> Option<UdpmonClock> {
        let middle = self.train.as_ref().map_or(0, |train| train.end().since(self.zero));
        let estimate = self.offset.at(Mono(middle))?;
        Some(UdpmonClock {
            slope: 1.0,
            offset: -(estimate.offset_ns as f64) / 1_000.0,
            bound: estimate.bound_ns as f64 / 1_000.0,
            original: least_squares(&self.points),
        })
    }

    /// Puts what left and what came of a train to the others.
    fn remember(&mut self, cx: &Cx<'_>) {
        let (Some(plan), Some(train)) = (&self.params.train, &mut self.train) else { return };
        let first = self.number as u64 * u64::from(plan.packets);
        let host = |at: Mono| cx.clock.host(at) as i64;
        let estimate = self.offset.at(Mono(train.end().since(self.zero))).unwrap_or_default();
        self.bound_ns = self.bound_ns.max(estimate.bound_ns);
        for (frame, at) in train.log.take().unwrap_or_default() {
            let place = u32::try_from(first + frame).unwrap_or(u32::MAX);
            let row = self.test.records.get(frame as usize).filter(|row| **row != UdpmonRecord::default());
            if let Some(row) = row {
                let received_ns = host(self.zero).saturating_add(row.received.saturating_mul(100));
                let sequence = self.sent.len() as u64;
                self.got.push(Arrival {
                    sequence,
                    received_ns,
                    offset_ns: estimate.offset_ns,
                    kernel: false,
                });
            }
            self.sent.push(Departure { place, sent_ns: host(at) });
        }
    }

    fn tell_trains(&mut self, cx: &mut Cx<'_>) {
        let (Some(plan), Some(begun)) = (&self.params.train, self.begun) else { return };
        // The order in which packets came is told by when they did.
        self.got.sort_by_key(|arrival| arrival.received_ns);
        let (packets, strays) = join(plan.places(), cx.clock.host(begun) as i64, &self.sent, &self.got);
        let v6 = self.path.is_some_and(|path| path.peer.ip().to_canonical().is_ipv6());
        let headers = if v6 { 48 } else { 28 };
        let report = TrainReport::of(&packets, &plan.waits_ns, self.params.asked.size, headers);
        let trains = Trains { headers, clock_bound_ns: self.bound_ns, strays, report, ..Trains::default() };
        cx.post.push(Box::new(Tell(Event::Trains(Box::new(trains)))));
        if plan.samples {
            cx.post.push(Box::new(Tell(Event::TrainPackets { rows: packets })));
        }
    }

    /// Something has come.
    fn heard(&mut self, cx: &mut Cx<'_>, bytes: &[u8]) -> Result<(), Violation> {
        let now = cx.now;
        if let Some(Message::Ack) = codec::decode(bytes).filter(|_| self.ack.is_some()) {
            self.test.acks += u64::from(self.ack.take().is_some());
            return Ok(());
        }
        if !self.talk.listens(now) {
            return Ok(());
        }
        match (self.step, codec::decode(bytes)) {
            (Step::Lock | Step::Start, Some(Message::Ok { version })) => {
                if version != codec::VERSION {
                    return Err(Violation::Malformed(
                        "the responder speaks another version of UDPmon's protocol than 7",
                    ));
                }
                self.talk.answered(now);
                if self.step == Step::Lock { self.locked(now) } else { self.near(now) }
            }
            (Step::Lock, Some(Message::Busy { .. })) => self.busy(cx),
            (Step::Sync(_) | Step::Resync(_), Some(Message::Response { frame, time })) => {
                self.exchanged(now, frame, time);
            }
            (Step::Stats, _) if bytes.len() == codec::PARAM => {
                let Some(counts) = codec::decode_counts(bytes) else { return Ok(()) };
                self.talk.answered(now);
                let count = |n: i32| u64::try_from(n).unwrap_or(0);
                self.test.counts = Some(UdpmonCounts {
                    received: count(counts.received),
                    lost: count(counts.lost),
                    bad_order: count(counts.bad_order),
                    bytes: 0,
                    span: counts.span,
                });
                self.list();
                self.fetch(0, 0);
            }
            (Step::Fetch(at, have), _) => self.piece(now, at, have, bytes),
            (Step::Release, Some(Message::Ok { .. })) => {
                self.talk.answered(now);
                self.over(cx);
            }
            _ => {}
        }
        Ok(())
    }

    /// The responder says that it is taken. The original's lock keeps out the one who holds it: then it is by us, and START
    /// gets past it.
    fn busy(&mut self, cx: &mut Cx<'_>) {
        let repeated = self.talk.repeated();
        self.talk.answered(cx.now);
        if repeated || self.number > 0 {
            self.step = Step::Start;
            self.zero = cx.now;
            return self.talk.ask(codec::encode(&Message::Start(self.params.setup()), codec::PARAM));
        }
        let text = "the responder is taken by another test: asking again in 30 s".to_owned();
        cx.post.push(Box::new(Remark { level: Level::Warning, text }));
        self.step = Step::Busy(cx.now.plus(BUSY));
    }

    fn wakes(&mut self, cx: &mut Cx<'_>) -> Result<(), Violation> {
        let now = cx.now;
        match self.talk.late(now) {
            Ok(late) => self.test.timeouts += u64::from(late),
            Err(ns) => {
                let why = "is udpmon_resp running there, and does UDP get through both ways?";
                return Err(Violation::Stalled(Duration::from_nanos(ns)).likely(why));
            }
        }
        if self.ack.is_some_and(|at| at <= now) {
            self.ack = None;
            self.test.timeouts += 1;
        }
        // One step may lead to the next at the same instant.
        loop {
            let before = self.step;
            self.due(cx);
            if self.step == before {
                return Ok(());
            }
        }
    }

    /// Goes on to the next step, if it is time.
    fn due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let read = |reading: &Option<Reading>| reading.as_ref().is_none_or(|reading| reading.get().is_some());
        match self.step {
            Step::Busy(until) if now >= until => self.begin(cx),
            Step::Near(since) if read(&self.readings[0]) || now.since(since) > SECOND => self.depart(now),
            Step::Tail(until) if now >= until => self.arrived(now),
            Step::Settle(until) if now >= until => {
                self.readings[2] = Some(self.params.host.ask());
                self.step = Step::After(now);
            }
            Step::After(since) if read(&self.readings[2]) || now.since(since) > SECOND => {
                if self.params.asked.role == UdpmonRole::Send {
                    self.over(cx);
                } else {
                    self.step = Step::Stats;
                    self.talk.ask(codec::encode(&Message::Stats, codec::PARAM));
                }
            }
            _ => {}
        }
    }

    /// When something is to be looked at that no packet tells.
    fn wake(&self) -> Option<Mono> {
        let own = match self.step {
            Step::Busy(at) | Step::Tail(at) | Step::Settle(at) => Some(at),
            Step::Near(since) | Step::After(since) => {
                let ready = self.readings[if matches!(self.step, Step::Near(_)) { 0 } else { 2 }]
                    .as_ref()
                    .is_none_or(|reading| reading.get().is_some());
                Some(if ready { since } else { self.look })
            }
            _ => None,
        };
        [own, self.talk.wake(), self.ack].into_iter().flatten().min()
    }
}

/// Slope and offset of the line with the smallest sum of squares.
fn least_squares(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let (x, y, xx, xy) = (sum(|p| p.0), sum(|p| p.1), sum(|p| p.0 * p.0), sum(|p| p.0 * p.1));
    let below = n * xx - x * x;
    if below == 0.0 {
        return (1.0, if n > 0.0 { (y - x) / n } else { 0.0 });
    }
    let slope = (n * xy - x * y) / below;
    (slope, (y - slope * x) / n)
}

impl Flow for Requester {
    fn want(&self) -> Want {
        let sends = match (self.step, &self.train) {
            (Step::Train, Some(train)) if self.ack.is_none() => train.due().unwrap_or(When::Never),
            _ => self.talk.send(),
        };
        let end = if let Step::Over(how) = self.step { Some(End::Done { how, reset: false }) } else { None };
        Want { send: sends, read: Read::look(LONGEST), wake: self.wake(), end }
    }

    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Burst<'_>) {
        match &mut self.train {
            Some(train) if self.step == Step::Train => train.fill(cx, &self.params, self.zero, out),
            _ => self.talk.fill(cx, out),
        }
    }

    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        if n.bytes == 0 && n.fault.is_none() {
            return;
        }
        let Some(row) = self.row else { return };
        match &mut self.train {
            Some(train) if self.step == Step::Train => {
                let packets = train.wrote(n);
                cx.rec.sent(row, n.bytes as u64);
                cx.rec.packets(row, &packets);
                self.ack = self.params.asked.acks.then(|| cx.now.plus(EXCHANGE));
                self.advance(cx.now);
            }
            _ => {
                cx.rec.framing_sent(row, n.bytes as u64);
                self.talk.wrote(cx.now);
            }
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, _: &mut Burst<'_>) -> Result<(), Violation> {
        if let Some(row) = self.row {
            cx.rec.framing_received(row, got.len as u64);
        }
        for datagram in got.datagrams() {
            self.heard(cx, datagram)?;
        }
        Ok(())
    }

    fn hear(&mut self, cx: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        match news {
            News::Up(path) => {
                self.path = Some(path);
                self.row = Some(cx.rec.open(self.params.group, cx.now));
                self.begin(cx);
            }
            News::Wake => {
                self.look = cx.now.plus(LOOK);
                self.wakes(cx)?;
            }
            // A responder that is just starting is there when it is asked again.
            News::Broken(fault) if self.step == Step::Lock && self.talk.repeated() => {
                return Err(Violation::Refused(fault));
            }
            News::Stop => self.stops(cx),
            _ => {}
        }
        Ok(())
    }

    fn card(&self) -> Card {
        Card { row: self.row, id: self.id, slot: self.slot }
    }
}

impl Requester {
    /// Ends in good order: what has been sent is asked for.
    fn stops(&mut self, cx: &mut Cx<'_>) {
        self.stopped = true;
        match self.step {
            Step::Train => {
                if let Some(train) = &mut self.train {
                    train.stop(cx.now);
                }
                self.advance(cx.now);
            }
            Step::Tail(_) | Step::Settle(_) => {}
            Step::Lock | Step::Busy(_) => self.step = Step::Over(Ending::Stopped),
            Step::Sync(_) | Step::Start | Step::Near(_) => self.release(),
            _ => {}
        }
    }
}
