//! The requester: `udpmon_bw_mon`, `udpmon_send` without its conversation, and our own trains.
//!
//! ```text
//! Lock: ZEROSTATS ─▶ Sync: at most 200 exchanges, if records are wanted ─▶ Start: START ─▶ Near: this host is read
//!   ─▶ Train ─▶ Tail: the wait behind the last packet ─▶ Settle ─▶ Stats ─▶ Fetch, piece by piece
//!   ─▶ Resync: at most 20 exchanges ─▶ Release: TESTEND ─▶ the next test, or Over
//! ```
//!
//! And `udpmon_req`: Lock ─▶ Request, Response, again and again ─▶ Release ─▶ Over.

use super::codec::{self, Message, Setup};
use super::packet_stats::TENTH;
use super::params::Params;
use super::proc::between;
use super::talk::Talk;
use super::train::Train;
use crate::call::Caller;
use crate::host::{HostTexts, PendingTexts};
use crate::one_sided::{Calls, GROUP};
use crate::readings::{Pending, READING, is_there, texts};
use crate::{PacketTest, PacketTestRecords, PacketTestRole};
use common::kernel::Core;
use common::message::{post_event, warn};
use metrics::{Clamped, Ending, Mono, Offset, SECOND};
use model::Phase;
use std::sync::Arc;
use transport::{
    Checked, Connector, Context, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit,
    Violation, When,
};
use uuid::Uuid;

mod clock;
mod fetch;
mod latency;
mod trains;

use clock::EXCHANGE;
use fetch::Wanted;
use latency::Latency;
use trains::AllTrains;

/// Pause before another attempt when another requester has the responder, ns.
const BUSY: u64 = 30 * SECOND;
/// Longest datagram.
const LONGEST: u64 = 65_535;
/// Why a responder may say nothing.
const UNANSWERED: &str = "is udpmon_resp running there, and does UDP get through both ways?";

/// Opens a client's tests: one flow for all of them.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params::of(phase, GROUP, calls.host.clone()));
    // One requester only: the phase's number of connections is ignored.
    let one = Phase { connections: 1, iterations: Some(1), ..phase.clone() };
    Caller::one_per_worker(&one, calls, true, move |cx, slot| {
        Requester::new(Arc::clone(&params), cx.rng.uuid(), slot)
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestStep {
    #[default]
    Lock,
    /// Another test is running there.
    Busy(Mono),
    Sync(u32),
    Start,
    /// A request may leave at that time.
    Request(Mono),
    /// Its response is waited for until then.
    Response(Mono),
    /// This host is being read; the first train begins afterwards.
    Local,
    Train,
    Tail(Mono),
    Settle(Mono),
    /// This host is being read behind the last packet.
    After,
    Stats,
    /// Which of the blocks, and how much of it is there.
    Fetch(usize, usize),
    Resync(u32),
    Release,
    Over(Ending),
}

/// One requester.
#[derive(Default)]
pub struct Requester {
    params: Arc<Params>,
    core: Core,
    step: RequestStep,
    talk: Talk,
    number: usize,
    /// When our times begin: ZEROSTATS was answered.
    zero: Mono,
    /// When the first train began.
    begun: Option<Mono>,
    train: Option<Train>,
    /// Blocks that this test still has to fetch, and received bytes of the present one.
    wanted: Vec<Wanted>,
    block: Vec<u8>,
    offset: Offset,
    /// When the exchanges of clocks began that go on.
    exchanging: Mono,
    points: Vec<(f64, f64)>,
    readings: [Option<PendingTexts>; 3],
    /// The next step waits for one of them.
    pending: Option<Pending<()>>,
    latency: Latency,
    test: PacketTest,
    /// An acknowledgement is waited for until then.
    ack: Option<Mono>,
    all: AllTrains,
    stopped: bool,
}

impl Requester {
    pub fn new(params: Arc<Params>, id: Uuid, slot: u32) -> Self {
        let core = Core::new(params.group, slot, 0).with_id(id);
        Requester { core, params, ..Requester::default() }
    }

    fn begin(&mut self, cx: &Context<'_>) {
        let asked = &self.params.asked;
        let wait = self.params.waits_ns.get(self.number).copied().unwrap_or(0) / TENTH;
        self.test = PacketTest {
            peer: self.core.path.map(|path| path.peer.to_string()).unwrap_or_default(),
            address: self.core.path.map(|path| path.local.ip().to_string()).unwrap_or_default(),
            started: cx.clock.wall(cx.now),
            size: asked.size,
            wait: u32::try_from(wait).unwrap_or(u32::MAX),
            ..PacketTest::default()
        };
        (self.offset, self.points, self.train) = (Offset::default(), Vec::new(), None);
        if asked.role == PacketTestRole::Send {
            self.zero = cx.now;
            return self.local(cx.now);
        }
        self.step = RequestStep::Lock;
        let zero = Message::Zero(Setup::of(&self.params.asked));
        self.talk.ask(codec::encode(&zero, codec::PARAM));
    }

    /// The responder has accepted the test and refuses other requesters.
    fn locked(&mut self, now: Mono) {
        self.zero = now;
        if self.is_latency() {
            return self.begin_size(now, self.params.asked.responses.0);
        }
        if self.params.asked.records == PacketTestRecords::None {
            return self.local(now);
        }
        self.begin_exchanges(now, false);
    }

    /// Begins a reading of this host, which the train waits for.
    fn local(&mut self, now: Mono) {
        self.readings = [Some(self.params.host.ask()), None, None];
        self.wait_for_host(now, RequestStep::Local);
    }

    fn wait_for_host(&mut self, now: Mono, step: RequestStep) {
        self.pending = Pending::new((), now, READING);
        self.step = step;
    }

    /// True once reading `n` is there, or the wait for it is over.
    fn was_read(&mut self, n: usize, now: Mono) -> bool {
        Pending::take(&mut self.pending, now, |()| is_there(&self.readings[n])).is_some()
    }

    fn is_latency(&self) -> bool {
        self.params.asked.role == PacketTestRole::Latency
    }

    /// Begins the train at once, or at its place in the schedule of trains.
    fn depart(&mut self, now: Mono) {
        let begun = *self.begun.get_or_insert(now);
        let place = self.params.train.as_ref().map(|train| {
            begun.plus(train.place(u64::clamped(self.number) * u64::from(train.packets)).intended_ns)
        });
        self.train = Some(Train::new(&self.params, self.number, place.map_or(now, |at| at.max(now))));
        self.step = RequestStep::Train;
    }

    /// Goes on behind a packet that has left: to the next one, or to the wait behind the last.
    fn advance(&mut self, now: Mono) {
        let Some(train) = &mut self.train else { return };
        if self.step == RequestStep::Train && train.due().is_none() {
            self.step = RequestStep::Tail(train.end().max(now));
        }
    }

    /// The wait behind the last packet is over.
    fn arrived(&mut self, now: Mono) {
        let Some(train) = &mut self.train else { return };
        let (send_ns, last_burst_ns) = train.lasted(now);
        if train.next_burst(now) {
            self.step = RequestStep::Train;
            return;
        }
        (self.test.sent, self.test.refused) = (train.frame - train.refused, train.refused);
        (self.test.send_ns, self.test.last_burst_ns) = (send_ns, last_burst_ns);
        self.readings[1] = Some(self.params.host.ask());
        self.step = RequestStep::Settle(now.plus(self.params.asked.settle_ns));
    }

    fn release(&mut self) {
        self.step = RequestStep::Release;
        self.talk.ask(codec::encode(&Message::End, codec::PARAM));
    }

    /// Reports the test, which is over, and begins the next.
    fn finish_test(&mut self, cx: &mut Context<'_>) {
        let [start, sent, after] = [0, 1, 2].map(|n| texts(&self.readings[n]));
        let stop = HostTexts { stat: sent.stat, ..after };
        self.test.local = between(&start, &stop, self.core.is_v6());
        self.test.over = true;
        self.test.clock = self.clock();
        self.remember(cx);
        let mut test = std::mem::take(&mut self.test);
        if self.params.train.is_some() {
            // The train report covers the single records.
            test.records.clear();
        }
        if let Some(counted) = test.counted("as UDPmon does", true) {
            cx.post(counted);
        }
        post_event(cx, test.event());
        self.number += 1;
        if self.number < self.params.waits_ns.len() && !self.stopped {
            return self.begin(cx);
        }
        self.report_trains(cx);
        self.complete(cx);
    }

    fn complete(&mut self, cx: &mut Context<'_>) {
        self.core.complete(cx, cx.now);
        self.step = RequestStep::Over(if self.stopped { Ending::Stopped } else { Ending::Completed });
    }

    /// Handles a datagram of the responder.
    fn on_message(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Checked {
        let now = cx.now;
        if let Some(Message::Ack) = codec::decode(bytes).filter(|_| self.ack.is_some()) {
            self.test.acks += u64::from(self.ack.take().is_some());
            return Ok(());
        }
        if self.is_latency() && self.responded(cx, bytes) || !self.talk.listens(now) {
            return Ok(());
        }
        match (self.step, codec::decode(bytes)) {
            (RequestStep::Lock | RequestStep::Start, Some(Message::Ok { version })) => {
                if version != codec::VERSION {
                    return Err(Violation::Malformed(
                        "the responder speaks another version of UDPmon's protocol than 7",
                    ));
                }
                self.talk.on_answer(now);
                if self.step == RequestStep::Lock { self.locked(now) } else { self.local(now) }
            }
            (RequestStep::Lock, Some(Message::Busy { .. })) => self.busy(cx),
            (RequestStep::Sync(_) | RequestStep::Resync(_), Some(Message::Response { frame, time })) => {
                self.exchanged(now, frame, time);
            }
            (RequestStep::Stats, _) if bytes.len() == codec::PARAM => {
                self.talk.on_answer(now);
                self.test.counts = codec::decode_counts(bytes);
                self.list();
                self.fetch(now, 0, 0);
            }
            (RequestStep::Fetch(at, have), _) => self.piece(now, at, have, bytes),
            (RequestStep::Release, Some(Message::Ok { .. })) => {
                self.talk.on_answer(now);
                if self.is_latency() { self.complete(cx) } else { self.finish_test(cx) }
            }
            _ => {}
        }
        Ok(())
    }

    /// The responder says that it is taken. The original's lock keeps out the one who holds it:
    /// then it is by us, and START gets past it.
    fn busy(&mut self, cx: &mut Context<'_>) {
        let repeated = self.talk.repeated();
        self.talk.on_answer(cx.now);
        if self.is_latency() {
            // A responder in use answers requests all the same, and START is not needed for them.
            return self.locked(cx.now);
        }
        if repeated || self.number > 0 {
            self.step = RequestStep::Start;
            self.zero = cx.now;
            return self
                .talk
                .ask(codec::encode(&Message::Start(Setup::of(&self.params.asked)), codec::PARAM));
        }
        warn(cx, "the responder is taken by another test: asking again in 30 s");
        self.step = RequestStep::Busy(cx.now.plus(BUSY));
    }

    fn wakes(&mut self, cx: &mut Context<'_>) -> Checked {
        let now = cx.now;
        // Trains are our own question, the others' tests the original's.
        match self.talk.late(now, self.params.train.is_none()) {
            Ok(late) => self.test.timeouts += u64::from(late),
            Err(wait) => return Err(wait.violation().likely(UNANSWERED)),
        }
        if matches!(self.step, RequestStep::Response(until) if now >= until) {
            self.missed(cx)?;
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
    fn due(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let step = self.step;
        match step {
            RequestStep::Busy(until) if now >= until => self.begin(cx),
            RequestStep::Local if self.was_read(0, now) => self.depart(now),
            RequestStep::Tail(until) if now >= until => self.arrived(now),
            RequestStep::Settle(until) if now >= until => {
                self.readings[2] = Some(self.params.host.ask());
                self.wait_for_host(now, RequestStep::After);
            }
            RequestStep::After if self.was_read(2, now) => {
                if self.params.asked.role == PacketTestRole::Send {
                    self.finish_test(cx);
                } else {
                    self.step = RequestStep::Stats;
                    self.talk.ask(codec::encode(&Message::Stats, codec::PARAM));
                }
            }
            _ => {}
        }
    }

    /// The next instant at which a wait ends.
    fn wake(&self) -> Option<Mono> {
        let own = match self.step {
            RequestStep::Busy(at)
            | RequestStep::Tail(at)
            | RequestStep::Settle(at)
            | RequestStep::Response(at) => Some(at),
            RequestStep::Local | RequestStep::After => Pending::look(&self.pending),
            _ => None,
        };
        [own, self.talk.again, self.ack].into_iter().flatten().min()
    }
}

impl Flow for Requester {
    fn interest(&self) -> Interest {
        let sends = match (self.step, &self.train) {
            (RequestStep::Request(at), _) => When::At(at),
            (RequestStep::Train, Some(train)) if self.ack.is_none() => train.due().unwrap_or(When::Never),
            _ => self.talk.send(),
        };
        if let RequestStep::Over(how) = self.step {
            return Interest::done(how);
        }
        Interest { send: sends, read: Read::look(LONGEST), wake: self.wake(), end: None }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        match &mut self.train {
            Some(train) if self.step == RequestStep::Train => train.prepare_send(cx, self.zero, out),
            _ if matches!(self.step, RequestStep::Request(_)) => {
                out.copy(&self.request(cx.now));
            }
            _ => self.talk.prepare_send(cx, out),
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes == 0 && n.fault.is_none() {
            return;
        }
        match &mut self.train {
            Some(train) if self.step == RequestStep::Train => {
                let packets = train.wrote(n);
                self.core.sent(cx, n.bytes);
                self.core.packets(cx, &packets);
                self.ack = self.params.asked.acks.then(|| cx.now.plus(EXCHANGE));
                self.advance(cx.now);
            }
            _ if matches!(self.step, RequestStep::Request(_)) => {
                self.core.sent(cx, n.bytes);
                self.requested();
            }
            _ => {
                self.core.framing_sent(cx, n.bytes);
                self.talk.wrote(cx.now);
            }
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        if matches!(self.step, RequestStep::Request(_) | RequestStep::Response(_)) {
            self.core.received(cx, got.len);
        } else {
            self.core.framing_received(cx, got.len);
        }
        for datagram in got.datagrams() {
            self.on_message(cx, datagram)?;
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.core.up(cx, path);
                self.begin(cx);
            }
            FlowEvent::Wake => self.wakes(cx)?,
            // A responder that is just starting is there when it is asked again.
            FlowEvent::Broken(fault) if self.step == RequestStep::Lock && self.talk.repeated() => {
                return Err(Violation::Refused(fault));
            }
            FlowEvent::Stop => self.stops(cx),
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}

impl Requester {
    /// Ends in good order: the counts of the sent packets are fetched first.
    fn stops(&mut self, cx: &mut Context<'_>) {
        self.stopped = true;
        match self.step {
            RequestStep::Train => {
                if let Some(train) = &mut self.train {
                    train.stop(cx.now);
                }
                self.advance(cx.now);
            }
            RequestStep::Tail(_) | RequestStep::Settle(_) => {}
            RequestStep::Lock | RequestStep::Busy(_) => self.step = RequestStep::Over(Ending::Stopped),
            RequestStep::Sync(_) | RequestStep::Start | RequestStep::Local => self.release(),
            RequestStep::Request(_) | RequestStep::Response(_) => self.end_size(cx),
            _ => {}
        }
    }
}
