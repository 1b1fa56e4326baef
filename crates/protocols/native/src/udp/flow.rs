//! A flow of native UDP, at either end.

mod talk;

use super::clocks::Clocks;
use super::codec::{CONTROL, Check, Kind, UNKNOWN, Word};
use super::echo::Returner;
use super::log::Log;
use super::receiver::Receiver;
use super::sender::{Sender, sends_size};
use super::terms::Terms;
use super::track::{Memory, Track};
use super::{AGAIN, Posted, Repeat, TOGETHER, repetitions};
use crate::grants::OpenFlow;
use crate::message::FlowReport;
use crate::opening::Opener;
use common::kernel::Core;
use metrics::{ClockKind, Ending, Mono, Packets, SECOND, StampKind, Window};
use std::sync::Arc;
use talk::{holds_words, is_word};
use transport::{Checked, Context, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, When};
use uuid::Uuid;

/// Silence after which an end gives the other up, ns.
const SILENCE: u64 = 8 * SECOND;
/// Most exchanges that compare the clocks before data flows, and the least time between two, ns.
const BEFORE: u32 = 16;
const BETWEEN: u64 = SECOND / 500;
/// Most exchanges during the run, and the least time between two, ns. Slow schedules have fewer
/// ([`crate::budget::Budget`]).
const DURING: u64 = 128;
const SELDOM: u64 = SECOND / 20;
/// Silence in mid-run after which a client sends requests more often, so that heavy loss is not
/// taken for a dead path, ns.
const UNHEARD: u64 = 2 * SECOND;
/// Longest time between two END, ns: a server that hears none for 4 × [`AGAIN`] takes the client
/// for gone.
const LONGEST_END: u64 = 3 * AGAIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Nothing,
    Word,
    Data,
    Reply,
    Echo,
}

/// States of a flow. Servers begin in `Compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Init,
    Open,
    /// Exchanges of time that are still to be made before data flows.
    Compare(u32),
    Run,
    /// Nothing more is sent; since when.
    End(Mono),
    Over,
}

/// A flow at either end.
///
/// Wide: the state of one conversation, and of both directions of its data.
pub struct Probe {
    terms: Arc<Terms>,
    client: bool,
    state: State,
    core: Core,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    /// At a server that returns packets.
    returner: Option<Returner>,
    cookie: [u8; 16],
    /// Of the client's opening.
    number: u64,
    /// When the client's next word is due, and when the last one left.
    word_at: Mono,
    word_left: Mono,
    /// When a word that is not answered is sent again.
    repeat: Repeat,
    offer: Offer,
    /// A word that the server owes and could not send as a reply.
    owed: Option<Kind>,
    clocks: Clocks,
    /// Number of DATA that the other end has sent, once it has reported it.
    theirs: Option<u64>,
    /// Number of our DATA that the other end misses, likewise.
    missed: Option<u64>,
    /// The server has answered since the client's run began: it knows when to begin.
    agreed: bool,
    stopped: bool,
    /// When its schedule begins, and when the last data arrived.
    begun: Option<Mono>,
    arrived: Mono,
    /// Both schedules were over when the client ended the run.
    is_through: bool,
    /// The group knows when the other end's data are to arrive.
    shifted: bool,
    /// No data has the size of a word.
    words_by_size: bool,
}

impl Probe {
    /// The client's end of flow `slot`.
    pub(crate) fn client(terms: Arc<Terms>, id: Uuid, slot: u32, now: Mono) -> Self {
        Probe::new(terms, id, slot, true, State::Init, now)
    }

    /// The server's end, for a client that has proven its address.
    pub(crate) fn server(terms: Arc<Terms>, word: &Word, now: Mono, open_flow: OpenFlow) -> Self {
        let mut probe = Probe::new(terms, word.id, word.slot, false, State::Compare(0), now);
        probe.core.keep(open_flow);
        probe
    }

    fn new(terms: Arc<Terms>, id: Uuid, slot: u32, client: bool, state: State, now: Mono) -> Self {
        let check = Check::of(id);
        let mut core = Core::new(terms.group, slot, SILENCE.max(2 * terms.probe.late_ns)).with_id(id);
        core.moved = now;
        let clocks = Clocks::new(terms.clock(), client);
        let echo = terms.echo();
        let (up, down) = (terms.pattern.sends_up(), terms.pattern.sends_down());
        let (sends, receives) = if client { (up, down) } else { (down && !echo, up) };
        // Both directions and all flows draw from seeds of their own.
        let seed = terms.probe.seed ^ u64::from(slot) << 1 ^ u64::from(client);
        let sender = || Sender::new(&terms, slot, check, seed);
        let receiver = || Receiver::new(&terms, check, client, slot);
        Probe {
            core,
            sender: sends.then(sender),
            receiver: receives.then(receiver),
            returner: (echo && !client).then(|| Returner::new(check)),
            number: terms.opener.as_ref().map_or(0, Opener::number),
            words_by_size: !sends_size(&terms, CONTROL),
            repeat: repetitions(terms.connections, terms.probe.lead_ns),
            terms,
            client,
            state,
            cookie: [0; 16],
            word_at: now,
            word_left: now,
            offer: Offer::Nothing,
            owed: None,
            clocks,
            theirs: None,
            missed: None,
            agreed: false,
            stopped: false,
            begun: None,
            arrived: now,
            is_through: false,
            shifted: false,
        }
    }

    /// The same, on its way to another worker.
    pub(crate) fn leaving(mut self, to: Option<u16>) -> Self {
        self.core.leave_for(to);
        self
    }

    /// DATA that have left; numbers that were returned, where they are.
    fn sent(&self) -> u64 {
        let sent = self.sender.as_ref().map_or(0, Sender::sent);
        self.returner.as_ref().map_or(sent, |returner| returner.returned)
    }

    /// Number of datagrams to expect, once known. Of returned packets: all that were sent, although
    /// some may have been lost on the way there.
    fn expected(&self) -> Option<u64> {
        if self.client && self.terms.echo() { self.theirs.map(|_| self.sent()) } else { self.theirs }
    }

    /// Number of the other end's datagrams that have not arrived; [`UNKNOWN`] until it has reported
    /// how many it sent.
    fn missing(&self) -> u64 {
        match (&self.receiver, self.expected()) {
            (None, _) => 0,
            (Some(_), None) => UNKNOWN,
            (Some(receiver), Some(total)) => receiver.missing(total),
        }
    }

    fn begin_run(&mut self, cx: &mut Context<'_>) {
        self.state = State::Run;
        self.start_sending(cx, self.terms.start);
        self.word_at = cx.now;
    }

    fn start_sending(&mut self, cx: &mut Context<'_>, start: Option<Mono>) {
        // A late flow begins at once and ends equally late.
        let phase = self.terms.media.map_or(0, |media| media.phase_ns(self.core.slot));
        let start = start.unwrap_or(cx.now).plus(phase).max(cx.now);
        self.begun = Some(start);
        if self.sender.is_some() {
            let window = Window { from: start, ns: self.terms.schedule_ns(), open: false };
            Window::add(&mut cx.rec.tally(self.core.group).tx_window, Some(window));
        }
        if let Some(show) = self.receiver.as_mut().and_then(|receiver| receiver.show.as_mut()) {
            show.begin(start);
        }
        if let Some(sender) = &mut self.sender {
            sender.begin(start, start.plus(self.terms.duration_ns));
        }
    }

    /// Data have arrived. The first say how much later than they leave the other end's data arrive.
    fn arrive(&mut self, cx: &mut Context<'_>) {
        self.arrived = cx.now;
        let (false, Some(start), Some(receiver)) = (self.shifted, self.begun, &self.receiver) else { return };
        if receiver.sums.delays > 0 {
            self.shifted = true;
            // Returned data say only how long they took back.
            let returned = self.client && self.terms.echo();
            let from = if returned { cx.now } else { start.plus(receiver.sums.delay_min_ns) };
            let window = Window { from, ns: self.terms.schedule_ns(), open: false };
            Window::add(&mut cx.rec.tally(self.core.group).rx_window, Some(window));
        }
    }

    /// Records the flow's life: its schedule, or the part until it was stopped. Without a rate the
    /// queues are full at the end, and the receiver's time lasts until the datagrams under way have
    /// arrived.
    fn live(&mut self, cx: &mut Context<'_>) {
        let (Some(row), Some(start)) = (self.core.row, self.begun) else { return };
        let until = if let State::End(since) = self.state { since } else { cx.now };
        // The last frame of a stream leaves one gap before its schedule is over.
        let is_whole = self.is_through || until.since(start) >= self.terms.duration_ns;
        let ns = if is_whole { self.terms.schedule_ns() } else { until.since(start) };
        let planned = start.plus(ns);
        let ended = if is_whole { self.arrived.max(planned) } else { self.arrived.max(planned).min(cx.now) };
        cx.rec.lives(row, Window { from: start, ns, open: false }, ended);
        let rated = self.terms.media.is_some() || self.terms.rate.is_some();
        let tally = cx.rec.tally(self.core.group);
        if let (true, false, Some(window)) = (is_whole, rated, &mut tally.rx_window) {
            window.ns = window.ns.max(self.arrived.since(window.from));
        }
    }

    /// The client's run is over when both schedules are.
    fn check_end(&mut self, now: Mono) {
        let ours = self.sender.as_ref().is_none_or(Sender::is_over);
        let theirs = self.receiver.is_none() || self.theirs.is_some() || self.terms.echo();
        if self.client && self.state == State::Run && ours && theirs {
            self.is_through = true;
            self.end(now);
        }
    }

    fn end(&mut self, now: Mono) {
        if let Some(sender) = &mut self.sender {
            sender.stop();
        }
        if !matches!(self.state, State::End(_) | State::Over) {
            self.state = State::End(now);
            self.word_at = now;
        }
    }

    /// A send was refused. Behind the end that is no figure: the remote end has all it wants, and
    /// may be gone.
    fn refused(&self, cx: &mut Context<'_>) {
        let over = matches!(self.state, State::End(_) | State::Over);
        if !over {
            self.core.packets(cx, &Packets { refused: 1, ..Packets::default() });
        }
    }

    /// Takes data in and offers it back.
    fn take_and_return(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) {
        let clock = self.clocks.ours();
        if let (Some(receiver), Some(returner)) = (&mut self.receiver, &mut self.returner) {
            receiver.on_received(cx, &mut self.core, got, clock);
            if returner.offer(cx, got, receiver, reply) {
                self.offer = Offer::Echo;
            }
        }
    }

    /// True if all data have arrived at both ends and both know it: an end's missing datagrams are
    /// unknown until the other one has reported how many it sent.
    fn all_came(&self) -> bool {
        // In an interrupted run no datagram is sent behind the END that was answered, and the server
        // has counted what arrived before it.
        let answered = self.missed.is_some_and(|missed| missed == 0 || self.stopped);
        let there = !self.client || answered;
        matches!(self.state, State::End(_)) && there && self.missing() == 0
    }

    /// True if all data have arrived, at both ends, or the wait for late ones is over. Called only
    /// when the socket has been read empty: datagrams that are still in it have arrived.
    fn settled(&self, now: Mono) -> bool {
        let State::End(since) = self.state else { return false };
        // The client says END again until it knows all it wants; it is gone when it says nothing.
        let quiet = self.client || now.since(self.core.moved) >= 4 * AGAIN;
        quiet && (self.all_came() || now.since(since) >= self.terms.probe.late_ns)
    }

    /// When `settled` has to be asked again, at the latest.
    fn settles_at(&self) -> Option<Mono> {
        let State::End(since) = self.state else { return None };
        let quiet = self.core.moved.plus(4 * AGAIN);
        let late = since.plus(self.terms.probe.late_ns);
        Some(match self.client {
            true => late,
            false if self.missing() == 0 => quiet,
            false => quiet.max(late),
        })
    }

    /// Counts and posts the flow's results, once.
    fn finish(&mut self, cx: &mut Context<'_>) {
        if self.state == State::Over {
            return;
        }
        let total = self.expected();
        let known = self.receiver.as_ref().map(|receiver| self.theirs.unwrap_or_else(|| receiver.next()));
        self.live(cx);
        if self.core.row.is_some() {
            let (kind, found) = self.clocks.comparison(cx);
            let tally = cx.rec.packet_tally(self.core.group);
            tally.clock = Some(kind);
            tally.add_clock(found);
            if let Some(receiver) = &mut self.receiver {
                receiver.finish(cx, &mut self.core, total);
                if let (Some(total), Some(theirs)) = (total, self.theirs) {
                    // Packets that were lost on the way there were not lost on the way back.
                    let there = i64::try_from(total.saturating_sub(theirs)).unwrap_or(i64::MAX);
                    self.core.packets(cx, &Packets { lost: -there, ..Packets::default() });
                }
            }
        }
        self.post_track(cx, known);
        self.state = State::Over;
        self.core.end(if self.stopped { Ending::Stopped } else { Ending::Completed });
    }

    /// Takes the record of packet trains, if trains are sent.
    fn take_log(&mut self, cx: &Context<'_>) -> Option<Box<Log>> {
        self.terms.train.as_ref()?;
        let mut log = self.receiver.as_mut().and_then(|receiver| receiver.log.take()).unwrap_or_default();
        let (start, sent) = self.sender.as_mut().map(Sender::take_log).unwrap_or_default();
        // So far the bound has the error of the card's clock only.
        log.bound_ns = log.bound_ns.saturating_add(self.clocks.known.bound_ns);
        log.start_ns = start.map(|start| cx.clock.host_signed(start));
        log.sent = sent;
        Some(log)
    }

    /// Exchanges that are to compare the clocks before data flows: on one host a single one shows
    /// that there is nothing to compare, and hundreds of flows would be busy with more when their
    /// data is due.
    fn before(&self) -> u32 {
        if self.terms.clock() == ClockKind::SameHost { 1 } else { BEFORE }
    }

    /// Posts the flow's figures and records.
    fn post_track(&mut self, cx: &mut Context<'_>, known: Option<u64>) {
        let memory = self.sender.as_mut().and_then(|sender| sender.memory.take());
        let (sent, sent_left_out) = Memory::into_parts(memory);
        let memory = self.receiver.as_mut().and_then(|receiver| receiver.memory.take());
        let (got, got_left_out) = Memory::into_parts(memory);
        let sums = self.receiver.as_ref().map(|receiver| receiver.sums).unwrap_or_default();
        cx.post(Posted::Track(Box::new(Track {
            group: Some(self.terms.group),
            path: self.core.path,
            server: 0,
            report: FlowReport {
                slot: self.core.slot,
                start_ns: cx.clock.host_signed(self.terms.start.unwrap_or(cx.now)),
                offset_ns: self.clocks.known.offset_ns,
                out: self.sent(),
                sums,
                known,
                sent_left_out,
                got_left_out,
            },
            sent,
            got,
            log: self.take_log(cx),
        })));
    }

    /// When the next word leaves, after one that has left now and until that is answered.
    fn next_word(&mut self, now: Mono) -> Mono {
        self.word_left = now;
        let unheard = now.since(self.core.moved);
        let (again, pulse) = (self.repeat.next(unheard), self.pulse());
        match (self.state, self.terms.start) {
            (State::Run, Some(start)) => {
                let end = start.plus(self.terms.duration_ns);
                match (end <= now, !self.agreed || unheard >= UNHEARD) {
                    (true, _) => now.plus(AGAIN.min(pulse)),
                    (false, true) => now.plus(again.min(pulse)).min(end.plus(1)),
                    (false, false) => now.plus(pulse.min(again.max(SELDOM))).min(end.plus(1)),
                }
            }
            (State::End(_), _) => now.plus(again.min(LONGEST_END)),
            _ => now.plus(again),
        }
    }

    /// Schedules the next question a gap after the last one, which was answered after `round_trip`
    /// ns.
    fn schedule_word(&mut self, now: Mono, round_trip: u64) {
        self.repeat.set_round_trip(round_trip);
        let (gap, end) = match (self.state, self.terms.start) {
            (State::Compare(_), _) => (BETWEEN, None),
            (_, start) => (self.pulse(), start.map(|start| start.plus(self.terms.duration_ns))),
        };
        let due = self.word_left.plus(gap);
        // The end of the schedule has a word of its own.
        self.word_at = end.filter(|end| now < *end).map_or(due, |end| due.min(end.plus(1))).max(now);
    }

    /// A word was sent or received: between set-up and end it is own traffic.
    fn note_own(&self, cx: &mut Context<'_>, bytes: usize) {
        if self.client && self.state == State::Run && bytes > 0 {
            cx.rec.packet_tally(self.core.group).own += 1;
        }
    }

    /// The client's run is over before data could flow.
    fn note_unopened(&self, cx: &mut Context<'_>) {
        let waits = match self.state {
            State::Init | State::Open | State::Compare(_) => true,
            State::Run => self.sender.is_none() && !self.agreed,
            State::End(_) | State::Over => false,
        };
        if self.client && waits {
            cx.post(Posted::Unopened);
        }
    }

    /// Time between two comparisons of the clocks during the run.
    fn pulse(&self) -> u64 {
        let together = u64::from(self.terms.connections) * TOGETHER;
        let usual = (self.terms.duration_ns / DURING).max(together).clamp(SELDOM, SECOND);
        usual.max(self.terms.budget.clock_ns)
    }

    /// True if the client's messages may be sent: not between the packets of a train.
    fn speaks(&self) -> bool {
        self.client && !self.sender.as_ref().is_some_and(Sender::mid_train)
    }

    fn word_due(&self, now: Mono) -> bool {
        (self.speaks() && self.word_at <= now && self.state != State::Over) || self.owed.is_some()
    }
}

impl Flow for Probe {
    fn is_introduced(&self) -> Option<bool> {
        // Its session has admitted the flow.
        Some(true)
    }

    fn interest(&self) -> Interest {
        if let Some(last) = self.core.last_interest() {
            return last;
        }
        let word = self.speaks().then_some(self.word_at).filter(|_| self.core.row.is_some());
        let data = self.sender.as_ref().and_then(Sender::due);
        let owed = self.owed.map(|_| Mono(0));
        let send = word.into_iter().chain(data).chain(owed).min().map_or(When::Never, When::At);
        let shown = self.receiver.as_ref().and_then(|receiver| receiver.show.as_ref()?.wake());
        let wake = self.settles_at().into_iter().chain(shown).chain([self.core.stalls_at()]).min();
        Interest { send, read: Read::look(65_535), wake, end: None }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.offer = Offer::Nothing;
        if self.word_due(cx.now) {
            return self.fill_word(cx, out);
        }
        if let Some(sender) = self.sender.as_mut().filter(|_| self.core.row.is_some()) {
            let unsent = sender.prepare_send(cx, self.core.group, out);
            if unsent > 0 {
                self.core.packets(cx, &Packets { unsent, ..Packets::default() });
            }
            self.offer = Offer::Data;
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        match std::mem::replace(&mut self.offer, Offer::Nothing) {
            Offer::Data => {
                let Some(sender) = &mut self.sender else { return };
                let counts = sender.on_sent(cx, n);
                self.core.sent(cx, n.bytes);
                self.core.packets(cx, &counts);
            }
            Offer::Word if n.bytes > 0 || n.fault.is_some() => {
                self.note_own(cx, n.bytes);
                if self.owed.take().is_none() {
                    self.word_at = self.next_word(cx.now);
                }
                if n.fault.is_some() {
                    self.refused(cx);
                }
            }
            Offer::Echo => {
                let Some(returner) = &mut self.returner else { return };
                let counts = returner.wrote(n);
                self.core.sent(cx, n.bytes);
                self.core.packets(cx, &counts);
            }
            Offer::Word | Offer::Reply | Offer::Nothing => {}
        }
        let before = self.state;
        self.check_end(cx.now);
        if self.client
            && before == State::Run
            && before == self.state
            && self.sender.as_ref().is_some_and(Sender::is_over)
        {
            // Only the remote end's schedule is waited for.
            self.word_at = self.word_at.min(cx.now.plus(AGAIN));
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        if self.core.row.is_none() {
            return Ok(());
        }
        self.core.read(cx.now);
        let by_size = self.words_by_size;
        if holds_words(got, by_size) {
            // The kernel merges words and data of one size, and a shorter one behind longer ones.
            for datagram in got.datagrams() {
                let one = Received { bytes: datagram, len: datagram.len(), stride: datagram.len(), ..*got };
                if is_word(datagram, by_size) {
                    let tally = cx.rec.packet_tally(self.core.group);
                    tally.came = tally.came.max(got.arrival().0.at);
                    if let Some(receiver) = &mut self.receiver {
                        receiver.overflowed(cx, &mut self.core, &one);
                    }
                    self.on_word(cx, &one, reply);
                } else if let Some(receiver) = &mut self.receiver {
                    receiver.on_received(cx, &mut self.core, &one, self.clocks.ours());
                    self.arrive(cx);
                }
            }
        } else if self.returner.is_some() {
            self.take_and_return(cx, got, reply);
            self.arrive(cx);
        } else if let Some(receiver) = &mut self.receiver {
            receiver.on_received(cx, &mut self.core, got, self.clocks.ours());
            receiver.show(cx, &self.core);
            if let Some(sender) = &mut self.sender {
                sender.add_received(got.len);
            }
            self.arrive(cx);
        }
        if self.client && self.all_came() {
            self.finish(cx);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) if self.core.row.is_none() => {
                self.core.up(cx, path);
                self.owed = (!self.client && self.core.row.is_some()).then_some(Kind::Opened);
            }
            FlowEvent::Stamped { tag, stamp, bound_ns } => {
                if let Some(ns) = self.sender.as_mut().and_then(|sender| sender.stamped(cx, tag, stamp)) {
                    let tally = cx.rec.packet_tally(self.core.group);
                    tally.stack_ns.record(ns);
                    if stamp.kind == StampKind::Hardware {
                        tally.card_sent += 1;
                        tally.card_sent_bound_ns = tally.card_sent_bound_ns.max(bound_ns);
                    }
                }
            }
            FlowEvent::Broken(_) => self.refused(cx),
            FlowEvent::Stop => {
                self.note_unopened(cx);
                self.stopped = !self.sender.as_ref().is_none_or(Sender::is_over)
                    || (self.sender.is_none() && !matches!(self.state, State::End(_)));
                if self.client {
                    self.end(cx.now);
                } else {
                    // The client waits for nothing more, also where none of its words to say so
                    // arrived.
                    self.finish(cx);
                }
            }
            FlowEvent::Wake => {
                if let Some(receiver) = &mut self.receiver {
                    receiver.show(cx, &self.core);
                }
                if self.settled(cx.now) {
                    self.finish(cx);
                } else if let Some(stalled) = self.core.stalled(cx.now) {
                    self.note_unopened(cx);
                    self.finish(cx);
                    return Err(stalled);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
