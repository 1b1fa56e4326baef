//! The responder: what answers `udpmon_bw_mon` and `udpmon_req`, and counts what `udpmon_send`
//! sends.
//!
//! ```text
//! a datagram of a known kind, from inside the fence ─▶ a flow and a socket of its own, one for each requester
//!   ZEROSTATS, START ─▶ all counts cleared, this host read ─▶ OK
//!   DATA             ─▶ counted (and acknowledged, where that was asked for)
//!   REQ_RESP         ─▶ a response of the length asked for
//!   GETSTATS         ─▶ this host read again; the sums      GETHIST0 and the like ─▶ a piece
//!   TESTEND          ─▶ OK
//! nothing for a while ─▶ over
//! ```
//!
//! The original serves one requester at a time, behind a lock that keeps out even its holder. Here
//! each requester has counts of its own. Requests are bounded: no length or offset reaches beyond a
//! block, a bin is at least one wide, a response at most a datagram. A piece is sent when it is
//! asked for, and a request replaces a waiting one, so that a requester is owed one datagram at
//! most.

use super::blocks;
use super::codec::{self, Block, Message, Setup};
use super::packet_stats::{Packet, PacketStats};
use super::proc::between;
use super::readings::{FIRST, Pending, READING, is_there};
use crate::PacketTest;
use crate::host::{HostTexts, PendingTexts};
use crate::one_sided::GROUP;
use common::Patience;
use common::kernel::Core;
use common::message::post_event;
use metrics::{Ending, Mono, Packets, SECOND};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, When,
};

mod listener;

use listener::RequesterPlace;
pub use listener::{Listener, acceptors};

/// The wait for a requester's next datagram.
const SILENCE: Patience = Patience::of("no datagram", Patience::LIMIT);
/// The same behind a packet, or a request of a response: pauses between these may last 214 s, and
/// no message names them.
const PAUSE: Patience = SILENCE.within(300 * SECOND);
/// Packets of a stream without a request below which no such pause is expected: the source is not
/// proven, and its socket takes a descriptor.
const FEW: u64 = 4;
/// Time that a stream without a request leaves its new socket unread, ns, so that earlier packets,
/// which the bound socket received, are counted first.
const SETTLE: u64 = 1_000_000;
/// Longest response, bytes.
const LONGEST: usize = 65_507;

fn packet(cx: &Context<'_>, got: &Received<'_>, bytes: usize, frame: i64, sent: i64) -> Packet {
    let at = got.arrived();
    let stamp_ns = if got.stamp.is_some() { cx.clock.wall(at).0 } else { 0 };
    let raw_ns = got.card.map_or(0, |card| card.raw_ns);
    Packet { frame, sent, bytes, at, stamp_ns, raw_ns }
}

/// The readings of this host at a test's start and stop.
#[derive(Debug, Default)]
struct Readings {
    start: Option<PendingTexts>,
    stop: Option<PendingTexts>,
}

impl Readings {
    /// Both, when both are there.
    fn both(&self) -> Option<(&HostTexts, &HostTexts)> {
        let start = self.start.as_ref()?.get()?;
        // Without a request for the sums there is no second reading: all differences are 0.
        Some((start, self.stop.as_ref().map_or(Some(start), |stop| stop.get())?))
    }
}

pub struct Responder {
    place: RequesterPlace,
    stats: Arc<Mutex<PacketStats>>,
    core: Core,
    /// Packets and bytes of this test that are counted.
    accounted: (u64, u64),
    /// Reply to be sent.
    answer: Vec<u8>,
    readings: Readings,
    /// A request that waits for both of them: a block, where of it, and at most how many bytes.
    waits: Option<Pending<(Block, i32, i32)>>,
    /// An answer to ZEROSTATS, START or GETSTATS that waits for the last of them: the original
    /// reads its host before it answers, so that the answer is the start's only.
    held: Option<Pending<Vec<u8>>>,
    /// Report of a stream without a request that waits for a reading of this host, and the stream's
    /// ending, if it ends.
    report: Option<Pending<(PendingTexts, Option<Ending>)>>,
    /// Arrival of its last datagram, and true if that belongs to a series with pauses.
    heard: Mono,
    pauses: bool,
    testing: bool,
    /// When the next snapshot is due.
    snapshot: Option<Mono>,
    /// The stream began without a request, and no test has begun since.
    silent: bool,
    /// Its socket is left alone until then.
    quiet: bool,
    up: Option<Mono>,
}

impl Responder {
    fn new(place: RequesterPlace, stats: Arc<Mutex<PacketStats>>, now: Mono) -> Self {
        let every = place.shared.every_ns;
        Responder {
            place,
            stats,
            core: Core::new(GROUP, 0, 0),
            accounted: (0, 0),
            answer: Vec::new(),
            waits: None,
            readings: Readings::default(),
            held: None,
            report: None,
            heard: now,
            pauses: false,
            testing: true,
            snapshot: every.map(|ns| now.plus(ns)),
            silent: false,
            quiet: false,
            up: None,
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut PacketStats) -> T) -> T {
        what(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds packets to the recorder that are not in it yet: the first ones of a stream arrive
    /// before its socket exists.
    fn account(&mut self, cx: &mut Context<'_>) {
        if self.core.row.is_none() {
            return;
        }
        let (packets, bytes) = self.with(|stats| (stats.received, stats.bytes));
        let (known, moved) = std::mem::replace(&mut self.accounted, (packets, bytes));
        self.core.received(cx, bytes.saturating_sub(moved));
        let received = packets.saturating_sub(known);
        self.core.packets(cx, &Packets { received, ..Packets::default() });
    }

    fn hears(&mut self, cx: &mut Context<'_>, got: &Received<'_>, bytes: &[u8], message: Message) {
        self.heard = cx.now;
        self.pauses = matches!(message, Message::Data { .. } | Message::Ask { .. });
        match message {
            Message::Data { frame, sent } => {
                let packet = packet(cx, got, bytes.len(), frame, sent);
                let acks = self.with(|stats| {
                    stats.packet(&packet);
                    stats.setup.acks > 0
                });
                if acks {
                    self.answer = codec::encode(&Message::Ack, codec::ACK);
                }
                self.account(cx);
                return;
            }
            Message::Zero(setup) => self.begin(cx.now, setup, Some(got.arrived()), bytes),
            Message::Start(setup) => self.begin(cx.now, setup, None, bytes),
            Message::Ask { length, .. } => {
                let length = usize::try_from(length).unwrap_or(0).min(LONGEST);
                let time = self.with(|stats| got.arrived().since(stats.zero)) / 1_000;
                self.answer = codec::response(bytes, length, time as i64);
            }
            Message::Stats => {
                self.readings.stop = Some(self.place.shared.host.ask());
                let answer = codec::encode_counts(&self.with(|stats| stats.counts()));
                self.hold(cx.now, answer);
            }
            Message::Fetch { block, index, length } => {
                self.waits = Pending::new((block, index, length), cx.now, READING);
                self.fetch(cx.now);
            }
            Message::End => {
                self.answer = codec::answer(bytes);
                self.report(cx, true);
                self.testing = false;
            }
            Message::Response { .. } | Message::Ok { .. } | Message::Busy { .. } | Message::Ack => {}
        }
        self.core.framing_received(cx, bytes.len());
    }

    /// A test begins; with `zero` its times count from there.
    fn begin(&mut self, now: Mono, setup: Setup, zero: Option<Mono>, request: &[u8]) {
        let room = self.place.room(&setup);
        let zero = zero.unwrap_or_else(|| self.with(|stats| stats.zero));
        self.with(|stats| *stats = PacketStats::new(setup, zero, room));
        self.accounted = (0, 0);
        self.readings = Readings { start: Some(self.place.shared.host.ask()), stop: None };
        self.waits = None;
        (self.testing, self.silent, self.report) = (true, false, None);
        self.hold(now, codec::answer(request));
    }

    fn hold(&mut self, now: Mono, answer: Vec<u8>) {
        self.held = Pending::new(answer, now, FIRST);
        self.release(now);
    }

    /// Answers once this host has been read, so that the reading is over before packets arrive.
    fn release(&mut self, now: Mono) {
        let Readings { start, stop } = &self.readings;
        let last = if stop.is_some() { stop } else { start };
        if let Some(answer) = Pending::take(&mut self.held, now, |_| is_there(last)) {
            self.answer = answer;
        }
    }

    /// Answers a request for a piece of a block. Blocks that are made of readings wait for these.
    fn fetch(&mut self, now: Mono) {
        let are_there = self.readings.both().is_some();
        let ready = |(block, ..): &(Block, i32, i32)| are_there || !block.is_of_host();
        if let Some((block, index, length)) = Pending::take(&mut self.waits, now, ready) {
            self.answer = self.piece(block, index, length);
        }
    }

    /// Bytes of a block from `index` on, at most `length`.
    fn piece(&self, block: Block, index: i32, length: i32) -> Vec<u8> {
        let (Ok(index), Ok(length)) = (usize::try_from(index), usize::try_from(length)) else {
            return Vec::new();
        };
        let length = length.min(LONGEST);
        let none = HostTexts::default();
        let (start, stop) = self.readings.both().unwrap_or((&none, &none));
        let bytes = match block {
            Block::Histogram(number) => self.with(|stats| {
                let (hist, title) = stats.histogram(number)?;
                Some(blocks::encode_histogram(number, title, hist))
            }),
            Block::Records => return self.records(index, length),
            Block::Net | Block::Cpu | Block::FlowId => {
                Some(blocks::encode_host(block, [start, stop], self.core.is_v6(), 0))
            }
        };
        let bytes = bytes.unwrap_or_default();
        let from = index.min(bytes.len());
        bytes[from..bytes.len().min(from.saturating_add(length))].to_vec()
    }

    /// Records from word `index`, padded with zeros to the number requested by ZEROSTATS.
    fn records(&self, index: usize, length: usize) -> Vec<u8> {
        let from = index.saturating_mul(8);
        self.with(|stats| {
            let asked = usize::try_from(stats.setup.record_bytes).unwrap_or(0);
            let length = length.min(asked.saturating_sub(from));
            let lost = stats.setup.log_lost == 1;
            let one = if lost { blocks::LOST } else { blocks::RECORD };
            let (first, last) = (from / one, (from + length).div_ceil(one));
            let mut bytes = if lost {
                blocks::encode_lost(stats.lost.get(first..last.min(stats.lost.len())).unwrap_or(&[]))
            } else {
                blocks::encode_records(stats.records.get(first..last.min(stats.records.len())).unwrap_or(&[]))
            };
            bytes.drain(..(from % one).min(bytes.len()));
            bytes.resize(length, 0);
            bytes
        })
    }

    /// Reports the counts; at the end of a test only if there are any.
    fn report(&self, cx: &mut Context<'_>, over: bool) {
        let Some(path) = self.core.path else { return };
        let host = self.readings.both().map(|(start, stop)| between(start, stop, self.core.is_v6()));
        let test = self.with(|stats| PacketTest {
            peer: path.peer.to_string(),
            started: cx.clock.wall(stats.zero),
            told: Some(cx.clock.wall(cx.now)),
            counts: Some(stats.counts()),
            gaps: Some(stats.hists[0].clone()),
            others: stats.hists[1..].to_vec(),
            records: if over { stats.records.clone() } else { Vec::new() },
            lost: if over { stats.lost.clone() } else { Vec::new() },
            remote: host.unwrap_or_default(),
            over,
            ..PacketTest::default()
        });
        if over && test.counts.is_some_and(|counts| counts.received == 0) {
            return;
        }
        post_event(cx, test.event());
    }

    /// Begins a report of a stream without a request, which waits for a reading of this host.
    fn begin_report(&mut self, cx: &mut Context<'_>, last: Option<Ending>) {
        // A report that waits already keeps its reading, and is now the last one if the stream has
        // ended.
        let begun = Pending::take(&mut self.report, cx.now, |_| true);
        let reading = begun.map_or_else(|| self.place.shared.host.ask(), |(reading, _)| reading);
        self.report = Pending::new((reading, last), cx.now, READING);
        self.look(cx);
    }

    /// Reports the stream once this host has been read.
    fn look(&mut self, cx: &mut Context<'_>) {
        let read = |(reading, _): &(PendingTexts, Option<Ending>)| reading.get().is_some();
        let Some((reading, last)) = Pending::take(&mut self.report, cx.now, read) else { return };
        self.readings.stop = Some(Arc::clone(&reading));
        self.report(cx, last.is_some());
        self.readings = Readings { start: Some(reading), stop: None };
        last.into_iter().for_each(|how| self.core.end(how));
    }

    fn patience(&self) -> Patience {
        let is_unproven = self.silent && self.accounted.0 < FEW;
        let pauses = self.testing && self.pauses && !is_unproven;
        if pauses { PAUSE } else { SILENCE }.since(self.heard)
    }

    /// Does what is due: a snapshot, a waiting answer, the end.
    fn wakes(&mut self, cx: &mut Context<'_>) {
        if self.snapshot.is_some_and(|at| at <= cx.now) {
            self.snapshot = self.snapshot.zip(self.place.shared.every_ns).map(|(at, ns)| at.plus(ns));
            if self.silent { self.begin_report(cx, None) } else { self.report(cx, false) }
        }
        self.release(cx.now);
        self.look(cx);
        self.fetch(cx.now);
        if self.patience().is_over(cx.now) {
            self.finish(cx, Ending::Completed);
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>, how: Ending) {
        self.account(cx);
        let is_told = self.report.as_ref().is_some_and(|report| report.what.1.is_some());
        if self.core.over.is_some() || is_told {
            return;
        }
        if self.testing && self.silent {
            return self.begin_report(cx, Some(how));
        }
        if self.testing {
            self.report(cx, true);
        }
        self.core.end(how);
    }
}

impl Flow for Responder {
    fn interest(&self) -> Interest {
        let settled = self.up.map(|up| up.plus(SETTLE)).filter(|_| self.quiet);
        let reports = Pending::look(&self.report);
        let expires = Some(self.patience().until()).filter(|_| reports.is_none());
        let looks = [Pending::look(&self.waits), reports, Pending::look(&self.held)];
        let wake = looks.into_iter().chain([expires, self.snapshot, settled]).flatten().min();
        Interest {
            send: if self.answer.is_empty() { When::Never } else { When::Now },
            read: if self.quiet { Read::Pause } else { Read::look(LONGEST) },
            wake,
            end: self.core.over.map(|(how, reset)| End::Done { how, reset }),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        out.copy(&self.answer);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes == 0 && n.fault.is_none() {
            return;
        }
        // A lost answer is asked for again.
        self.answer.clear();
        self.core.framing_sent(cx, n.bytes);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        let drops = self.core.drops(got);
        self.core.packets(cx, &drops);
        for datagram in got.datagrams() {
            if let Some(message) = codec::decode(datagram) {
                self.hears(cx, got, datagram, message);
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.up = Some(cx.now);
                self.core.id = cx.rng.uuid();
                self.core.up(cx, path);
                self.account(cx);
            }
            FlowEvent::Wake => {
                if self.up.is_some_and(|up| cx.now >= up.plus(SETTLE)) {
                    self.quiet = false;
                }
                self.account(cx);
                self.wakes(cx);
            }
            FlowEvent::Stop => self.finish(cx, Ending::Stopped),
            // The requester is gone; a later datagram opens a new flow.
            FlowEvent::Broken(_) if !self.testing => self.finish(cx, Ending::Completed),
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
