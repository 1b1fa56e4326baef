//! A UDP stream, either end.
//!
//! ```text
//! client                                    server
//!   hello "9876" ─────────────────────────▶    (taken by the listener, which answers it and makes the stream)
//!   ◀───────────────────────── reply "6789"
//!              both hold still until their session says start
//!   ◀────────── numbered datagrams, one way ─────▶
//! ```
//!
//! Rules:
//! 1. A client says hello again after a second, and then ever more seldom: towards the original a
//!    repeated hello is read as data, so that loss figures cannot be relied on when it happened.
//! 2. A server answers a repeated hello, and counts no datagram that is too short for a header.
//! 3. A client that waits for the reply skips other datagrams: data may overtake it.
//! 4. Numbers are given to datagrams that have left, so that a send that the kernel refused leaves
//!    no gap.
//! 5. A client that has sent all that it may lets the server read before it reports that: the end
//!    of test arrives on a connection of its own, and the original drops unread data then.
//! 6. On the wire's terms a datagram with a number below the highest seen takes one loss back, even
//!    when it is a repeat; our own counts recognise repeats.

use super::codec::{HELLO, Header, OLD_REPLIES, REPLY, header_len, reads_wall_time};
use super::stream::UNREAD;
use super::test_state::{Part, TestState};
use crate::BulkTerms;
use common::Patience;
use common::kernel::{Template, sent_packets};
use metrics::{Clamped, Ending, Jitter, Jitters, Mono, Packets, SECOND, Seen, Sequence, TcpInfo};
use transport::{
    Checked, Context, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit, When,
};

/// Numbers that are remembered one by one, to recognise repeats.
const WINDOW: usize = 1 << 16;
/// Wait of a refused sender, ns.
const AFTER_REFUSAL: u64 = 10_000_000;
const TEMPLATE: Template = Template { key: 1 << 62, payload: 0 };
/// Longest datagram, bytes.
const LONGEST: u64 = 65_535;
/// The wait for the answer to a hello.
const ANSWERED: Patience = Patience::of("no answer to a hello", Patience::LIMIT);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UdpStep {
    /// A hello is to be sent at this instant.
    Hello(Mono),
    Hold,
    Run,
    Frozen,
    Over,
}

#[derive(Debug)]
pub(super) struct UdpStream {
    part: Part,
    step: UdpStep,
    up: Mono,
    hellos: u32,
    /// The session was notified that all data is sent, and counts as read.
    spent_reported: bool,
    /// Datagrams of the last offer.
    offered: u64,
    /// Not before, after a refusal.
    not_before: Mono,
    // Receiving.
    highest: u64,
    sequence: Sequence,
    jitter: Jitter,
    /// Datagrams carry wall-clock times.
    wall: bool,
    /// When the omitted start is over: then jitter begins anew.
    omit: Option<Mono>,
}

impl UdpStream {
    /// A client's says hello first; the hello of a server's has been answered.
    pub(super) fn new(part: Part) -> Self {
        UdpStream {
            step: if part.test_state.serving { UdpStep::Hold } else { UdpStep::Hello(Mono(0)) },
            part,
            up: Mono(0),
            hellos: 0,
            spent_reported: false,
            offered: 0,
            not_before: Mono(0),
            highest: 0,
            sequence: Sequence::new(WINDOW),
            jitter: Jitter::default(),
            wall: false,
            omit: None,
        }
    }

    fn size(&self) -> u64 {
        self.part.test_state.terms.block.max(1).into()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.step = UdpStep::Run;
        let BulkTerms { rate, fq_rate, .. } = self.part.test_state.terms;
        self.part.start(cx.now, if rate > 0 { rate } else { fq_rate });
        let terms = &self.part.test_state.terms;
        self.wall = self.part.test_state.serving && reads_wall_time(&terms.version);
        let omit = u64::from(terms.omit_s) * SECOND;
        self.omit = (omit > 0).then(|| cx.now.plus(omit));
    }

    /// Time at which the sent data count as read.
    fn read_by(&self) -> Option<Mono> {
        self.part.ended.filter(|_| !self.spent_reported).map(|ended| ended.plus(UNREAD))
    }

    fn report_counts(&mut self, cx: &mut Context<'_>, tag: u32, info: Option<Box<TcpInfo>>) {
        self.part.counts.jitter_ns = self.jitter.ns;
        self.part.stand(cx, cx.now, Some(tag), info);
    }

    /// When the next datagrams are due.
    fn due(&self) -> When {
        if !self.part.sender || self.part.done {
            return When::Never;
        }
        let due = match &self.part.pace {
            Some(pace) if !self.within_burst() => pace.due(),
            _ => Mono(0),
        };
        let due = due.max(self.not_before);
        if due == Mono(0) { When::Now } else { When::At(due) }
    }

    /// The datagrams of a burst leave back to back.
    fn within_burst(&self) -> bool {
        let burst = u64::from(self.part.test_state.terms.burst);
        burst > 1 && !self.part.counts.packets.is_multiple_of(burst)
    }

    /// Number of datagrams that may leave at `now`.
    fn many(&self, now: Mono) -> u64 {
        let Some(pace) = &self.part.pace else { return u64::MAX };
        let burst = u64::from(self.part.test_state.terms.burst);
        let left = if burst > 1 { burst - self.part.counts.packets % burst } else { 1 };
        pace.datagrams(self.size(), now).max(left)
    }

    fn begin(&mut self, cx: &mut Context<'_>, path: Path) {
        self.up = cx.now;
        if !self.part.up(cx, path) {
            return;
        }
        match self.step {
            UdpStep::Hello(_) => self.step = UdpStep::Hello(cx.now),
            UdpStep::Hold if self.part.test_state.serving && self.part.test_state.has_begun() => {
                self.start(cx);
            }
            _ => {}
        }
    }

    fn offer(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let size = usize::clamped(self.size());
        let most = out.segments().min(out.room() / size).max(1) as u64;
        let n = self.part.test_state.spend(self.many(cx.now).min(most));
        self.offered = n;
        if n == 0 {
            self.part.finish(cx);
            return;
        }
        if let Some(pace) = &self.part.pace
            && !self.within_burst()
        {
            self.part.core.late(cx, pace.due());
        }
        let wide = self.part.test_state.terms.wide;
        // The header lies over the pattern's first bytes, and is written anew each time.
        let bytes = TEMPLATE.offer(out, size, size * usize::clamped(n));
        let sent_us = if self.wall { cx.clock.wall(cx.now).0 as u64 } else { cx.clock.host(cx.now) } / 1_000;
        for (number, datagram) in (self.part.counts.packets + 1..).zip(bytes.chunks_mut(size)) {
            Header { sent_us, number }.write(datagram, wide);
        }
    }

    /// Counts the datagrams of an offer that the kernel took.
    fn account(&mut self, cx: &mut Context<'_>, n: Sent) {
        let counts = sent_packets(n, usize::clamped(self.size()), self.offered);
        let bytes = u64::clamped(n.bytes);
        self.part.test_state.give_back(self.offered - counts.sent);
        self.offered = 0;
        self.part.counts.packets += counts.sent;
        self.part.counts.bytes += bytes;
        if let Some(pace) = &mut self.part.pace
            && counts.sent > 0
        {
            pace.sent(bytes, cx.now);
        }
        if n.fault.is_some() {
            self.not_before = cx.now.plus(AFTER_REFUSAL);
        }
        self.part.core.sent(cx, bytes);
        self.part.core.packets(cx, &counts);
    }

    fn receive(&mut self, cx: &mut Context<'_>, got: &Received<'_>) {
        let wide = self.part.test_state.terms.wide;
        let at = got.arrived();
        if self.omit.is_some_and(|omit| omit <= at) {
            self.omit = None;
            self.jitter = Jitter::default();
        }
        let (mut counts, mut jitter) = (Packets::default(), Jitters::default());
        let mut bytes = 0;
        for datagram in got.datagrams() {
            let Some(header) = Header::read(datagram, wide).filter(|h| h.number > 0 && datagram.len() >= 16)
            else {
                continue;
            };
            bytes += u64::clamped(datagram.len());
            self.number(header.number, &mut counts);
            // Differences only: the sender's clock is its own.
            let transit = (at.0 as i64).wrapping_sub(header.sent_us.wrapping_mul(1_000) as i64);
            self.jitter.see(transit).into_iter().for_each(|ns| jitter.record(ns));
        }
        self.part.counts.bytes += bytes;
        self.part.core.count_drops(got, &mut counts);
        self.part.core.see_marks(cx, got);
        self.part.core.received(cx, bytes);
        self.part.core.packets(cx, &counts);
        cx.rec.packet_tally(self.part.core.group).jitter.merge(&jitter);
        if self.part.test_state.add_received(bytes, counts.received + counts.duplicated) {
            self.part.finish(cx);
        }
    }

    /// Counts one number: by the wire's rules, and by ours.
    fn number(&mut self, number: u64, counts: &mut Packets) {
        if number > self.highest {
            self.part.counts.lost = self.part.counts.lost.saturating_add_unsigned(number - self.highest - 1);
            self.highest = number;
            self.part.counts.packets = number;
        } else {
            self.part.counts.out_of_order += 1;
            if self.part.counts.lost > 0 {
                self.part.counts.lost -= 1;
            }
        }
        let seen = self.sequence.see(number - 1);
        counts.received += u64::from(counts.saw(seen));
        self.part.counts.duplicates += u64::from(seen == Seen::Duplicate);
    }

    /// The server's answer to a client has arrived, or other bytes: its datagrams begin when it
    /// knows all streams, so that only the answer was lost.
    fn on_answer(&mut self, cx: &mut Context<'_>, got: &Received<'_>) {
        let reply = |datagram: &[u8]| datagram == REPLY || OLD_REPLIES.iter().any(|old| datagram == old);
        let begun = !self.part.sender && is_data(&self.part.test_state, got);
        if begun || got.datagrams().any(reply) {
            self.joined(cx);
        }
    }

    fn joined(&mut self, cx: &mut Context<'_>) {
        self.step = UdpStep::Hold;
        self.part.joined(cx);
    }
}

/// True if datagrams are a test's, not an answer to a hello.
fn is_data(test_state: &TestState, got: &Received<'_>) -> bool {
    got.bytes.len() >= header_len(test_state.terms.wide).max(16)
}

impl Flow for UdpStream {
    fn is_introduced(&self) -> Option<bool> {
        // Its session has admitted the flow.
        Some(true)
    }

    fn interest(&self) -> Interest {
        if let Some(elsewhere) = self.part.core.last_interest() {
            return elsewhere;
        }
        let (send, wake) = match self.step {
            UdpStep::Hello(at) => (When::At(at), Some(ANSWERED.since(self.up).until())),
            UdpStep::Run => (self.due(), self.read_by()),
            _ => (When::Never, None),
        };
        if self.step == UdpStep::Over {
            return Interest::done(Ending::Completed);
        }
        Interest { send, read: Read::look(LONGEST), wake, end: None }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        match self.step {
            UdpStep::Hello(_) => {
                out.copy(&HELLO);
            }
            UdpStep::Run => self.offer(cx, out),
            _ => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        match self.step {
            UdpStep::Hello(_) => {
                // 1, 3, 7, 15 s after the first.
                let wait = SECOND << self.hellos.min(4);
                self.hellos += 1;
                self.step = UdpStep::Hello(cx.now.plus(wait));
            }
            UdpStep::Run if self.offered > 0 => self.account(cx, n),
            _ => {}
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        // A single datagram has no segment size of its own, but a stride.
        if self.part.test_state.serving && got.bytes == HELLO {
            reply.copy(&REPLY);
            return Ok(());
        }
        match self.step {
            UdpStep::Hello(_) => self.on_answer(cx, got),
            UdpStep::Hold if is_data(&self.part.test_state, got) => {
                // The peer's session started before our session's order to start arrived.
                self.start(cx);
                self.receive(cx, got);
            }
            UdpStep::Run if !self.part.sender => self.receive(cx, got),
            _ => {}
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.begin(cx, path),
            FlowEvent::Start => {
                // The server begins when it knows all streams: then only its answer to this one was
                // lost.
                if matches!(self.step, UdpStep::Hello(_)) {
                    self.joined(cx);
                }
                if self.step == UdpStep::Hold {
                    self.start(cx);
                }
            }
            FlowEvent::Ask { tag, info } => self.report_counts(cx, tag, info),
            FlowEvent::Freeze { tag, info } => {
                self.step = UdpStep::Frozen;
                self.report_counts(cx, tag, info);
            }
            FlowEvent::Stop => self.step = UdpStep::Over,
            FlowEvent::Wake
                if matches!(self.step, UdpStep::Hello(_)) && ANSWERED.since(self.up).is_over(cx.now) =>
            {
                return Err(ANSWERED.violation().likely(
                    "the server did not answer the hello of a UDP stream: UDP may be filtered on the way",
                ));
            }
            FlowEvent::Wake if self.step == UdpStep::Run && self.read_by().is_some_and(|at| at <= cx.now) => {
                self.spent_reported = true;
                self.part.spent(cx);
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.part.core.id()
    }
}
