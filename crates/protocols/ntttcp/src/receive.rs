//! The receiver's session.
//!
//! ```text
//! waiting ── 'R', or the first connection ─▶ running ── time up, 'E', no sender left, stop ─▶ parting ── all gone ─▶ over
//! ```
//!
//! 1. A word's meaning depends on its place: the one behind 'X' is a length, even if it equals a
//!    letter.
//! 2. 'E' is answered at any time, before our end or after it. Only a sender that takes part in the
//!    test ends it by 'E'.
//! 3. Data connections are read to their end, for a while after ours, so that no sender is reset.
//!    Windows' receiver without synchronisation closes at the end of its time; Windows' sender
//!    accepts that reset as the end of the test.
//! 4. Without a conversation the first connection begins the test; it ends by the clock, or a
//!    second after the last connection has gone, and is rated from its first to its last byte.
//! 5. With `Layout::unsynced`, connections of addresses without a synchronisation connection form
//!    tests of their own (`unsynced.rs`). A sender of Windows' that announces itself on the port
//!    above each of its data ports is one of them. While one of them receives data, the state is
//!    reported as busy and the end of this session is deferred.
//! 6. One sender that vanishes takes nothing with it but its own connections.

use super::Layout;
use super::codec::{END, FINISHED, LAST, NOT_STARTED, QUERY, RUN, RUNNING, WAIT, Words, agreed, encode};
use super::open::{Answerer, Posted, ReceiverState, UNSYNCED_GROUP, UNSYNCED_SLOT};
use super::tally::Reporting;
use super::token::TOKEN;
use super::unsynced::UnsyncedTests;
use crate::SyncStep;
use crate::bulk::{Filler, Params, Timetable};
use crate::one_sided::GROUP;
use common::message::{SessionMessage, SharedMessage, downcast, since};
use common::quota;
use common::{Acl, Patience};
use metrics::{Group, Mono, SECOND};
use model::{Event, Phase, Totals};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use transport::{Acceptor, Action, Context, Input, Link, LinkSource, Message, Order, Path, Session};

/// A receiver's settings.
pub struct ReceiverPlan {
    /// Layout of the test.
    pub layout: Layout,
    pub phase: Phase,
    pub acl: Acl,
    /// Networks whose datagrams count without a proof of the address.
    pub streams: Acl,
    pub workers: u16,
}

/// The wait for another connection behind the last one of a test without a conversation.
const ALONE: Patience = Patience::of("no further connection", SECOND);
/// The wait for senders to end behind our end.
const GRACE: Patience = Patience::of("no end of the senders", 2 * SECOND);
/// Conversations at once.
const MOST_TALKS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveStage {
    Waiting,
    Running,
    /// Nothing counts any more; senders may end in good order.
    Parting,
    Dropping,
    Over,
}

struct Conversation {
    path: Path,
    /// Time of the sender's last word, or of its last data connection.
    heard: Mono,
    words: Words,
    /// The next word is a length.
    length: bool,
    /// Waits for the last sender.
    waits: bool,
    /// The sender got the order to send, or to wait for the last sender.
    joined: bool,
    /// The connection is to a port where senders of Windows' report that they are ready.
    announces: bool,
}

/// The receiver's session.
pub struct Receiver {
    layout: Layout,
    shared: Arc<ReceiverState>,
    stage: ReceiveStage,
    talks: BTreeMap<Link, Conversation>,
    /// The length agreed on last, s.
    cycle: u32,
    reporting: Reporting,
    wake: Option<Mono>,
    kill: Option<Mono>,
    left: u8,
    /// Ports whose senders have said that they are ready, as Windows' do.
    ready: BTreeSet<u16>,
    local: Option<Box<Totals>>,
    unsynced: UnsyncedTests,
    interval_ns: u64,
}

impl Receiver {
    /// A session that starts as soon as it is polled.
    pub fn new(plan: ReceiverPlan, now: Mono) -> Self {
        let ReceiverPlan { layout, phase, acl, streams, workers } = plan;
        let table = Arc::new(Timetable::unknown());
        let params = Params {
            arrivals: true,
            table: Arc::clone(&table),
            ..Params::of(&phase, GROUP, Filler::LetterA)
        };
        let unsynced = layout.unsynced.then(|| {
            let params = Params::of(&phase, UNSYNCED_GROUP, Filler::LetterA);
            Arc::new(Params { from_first_byte: true, ..params })
        });
        let shared = ReceiverState {
            params: Arc::new(params),
            layout,
            acl,
            streams,
            proven: Mutex::default(),
            open: AtomicU64::new(0),
            unsynced,
            synced_peers: Mutex::default(),
        };
        let mut receiver = Receiver {
            layout,
            shared: Arc::new(shared),
            stage: ReceiveStage::Waiting,
            talks: BTreeMap::new(),
            cycle: layout.cycle_s(),
            interval_ns: phase.interval_ns,
            unsynced: UnsyncedTests::default(),
            reporting: Reporting::new(phase, table),
            wake: None,
            kill: None,
            left: 2 + u8::from(layout.unsynced),
            ready: BTreeSet::new(),
            local: None,
        };
        let one = |_| Box::new(Answerer::new(&receiver.shared)) as Box<dyn Acceptor>;
        let acceptors = (0..workers.max(1)).map(one).collect();
        receiver.reporting.group(Vec::new(), GROUP, now);
        if layout.unsynced {
            receiver.reporting.group(Vec::new(), UNSYNCED_GROUP, now);
        }
        receiver.reporting.group(LinkSource::acceptors(acceptors), Group::ALL, now);
        receiver
    }

    fn state(&self) -> u32 {
        match self.stage {
            ReceiveStage::Waiting => NOT_STARTED,
            ReceiveStage::Running => RUNNING,
            _ => FINISHED,
        }
    }

    fn say(&mut self, link: Link, word: u32) {
        self.reporting.driver.send(link, encode(word));
    }

    fn on_bytes(&mut self, cx: &mut Context<'_>, link: Link, mut bytes: &[u8]) {
        while let Some(talk) = self.talks.get_mut(&link) {
            talk.heard = cx.now;
            let Some(word) = talk.words.next(&mut bytes) else { return };
            let length = std::mem::take(&mut talk.length);
            self.word(cx, link, word, length);
        }
    }

    fn word(&mut self, cx: &mut Context<'_>, link: Link, word: u32, length: bool) {
        let Some(talk) = self.talks.get_mut(&link) else { return };
        if length {
            let cycle = agreed(self.layout.seconds, word, self.layout.multi);
            if self.stage == ReceiveStage::Waiting {
                self.cycle = cycle;
            }
            self.reporting.step(SyncStep::Negotiated { seconds: cycle });
            return self.say(link, cycle);
        }
        match word {
            QUERY => {
                talk.length = true;
                let busy = self.unsynced.busy(cx.now, self.interval_ns);
                self.say(link, if busy { RUNNING } else { self.state() });
            }
            RUN if self.layout.multi && self.stage == ReceiveStage::Waiting => {
                (talk.waits, talk.joined) = (true, true);
                self.say(link, WAIT);
            }
            LAST if !self.layout.multi => {
                self.reporting.step(SyncStep::NotMultiClient);
                self.say(link, END);
            }
            RUN | LAST if self.stage == ReceiveStage::Waiting => {
                talk.joined = true;
                let waiting: Vec<Link> = self
                    .talks
                    .iter()
                    .filter(|(other, talk)| talk.waits && **other != link)
                    .map(|(l, _)| *l)
                    .collect();
                for other in waiting.into_iter().chain([link]) {
                    self.say(other, RUN);
                }
                let (from, to, quiet) = self.layout.times(cx.now, self.cycle);
                // A receiver measures all that was agreed on, but its own warm-up and cool-down.
                let own = u64::from(self.layout.cooldown_s) * SECOND;
                let all = Mono(quiet.0.saturating_sub(if quiet.0 < u64::MAX { own } else { 0 }));
                self.reporting.table.set(from, to.max(all), quiet);
                self.start(cx);
            }
            // A sender joins a running test, as with the original.
            RUN | LAST if self.stage == ReceiveStage::Running => {
                talk.joined = true;
                self.say(link, RUN);
            }
            RUN | LAST => self.say(link, END),
            END => {
                if talk.joined && self.stage == ReceiveStage::Running {
                    self.reporting.step(SyncStep::StoppedBySender);
                    self.part(cx.now);
                }
                self.say(link, self.state());
            }
            // Not a sender: no answer.
            _ => self.hang_up(link),
        }
    }

    /// The synchronisation connection that gives way to a new one: its sender takes no part in the
    /// test.
    fn to_give_way(&self) -> Option<Link> {
        let others = self.talks.iter().filter(|(_, talk)| !talk.joined);
        quota::to_give_way(others.map(|(link, talk)| (*link, talk.path.peer.ip())))
    }

    /// The wait for the next word of a sender that takes no part in a test yet.
    fn patience(talk: &Conversation) -> Option<Patience> {
        (!talk.joined).then(|| Patience::new("no word of the sender", talk.heard))
    }

    /// Closes the synchronisation connections of senders that have fallen silent.
    fn hang_up_silent(&mut self, now: Mono) {
        let is_silent = |talk: &Conversation| Receiver::patience(talk).is_some_and(|wait| wait.is_over(now));
        let silent = self.talks.iter().filter(|(_, talk)| is_silent(talk)).map(|(link, _)| *link);
        silent.collect::<Vec<_>>().into_iter().for_each(|link| self.hang_up(link));
    }

    /// Closes a synchronisation connection.
    fn hang_up(&mut self, link: Link) {
        self.forget(link);
        self.reporting.driver.close(link);
    }

    /// Forgets a synchronisation connection, if it is known.
    fn forget(&mut self, link: Link) -> Option<Conversation> {
        let talk = self.talks.remove(&link)?;
        let peer = talk.path.peer;
        self.reporting.step(SyncStep::Closed { remote: peer });
        if !talk.announces {
            let ip = peer.ip().to_canonical();
            let mut synced_peers = self.shared.synced_peers();
            if let Some(at) = synced_peers.iter().position(|other| *other == ip) {
                synced_peers.swap_remove(at);
            }
        }
        Some(talk)
    }

    /// Handles bytes on a token connection: a sender of Windows' is ready for one port, or another
    /// program connected.
    fn token(&mut self, cx: &mut Context<'_>, link: Link, bytes: &[u8]) {
        let ready = bytes.first() == Some(&TOKEN);
        // The sender has closed its part of the conversation.
        let Some(talk) = self.forget(link) else { return };
        if self.layout.token && self.stage == ReceiveStage::Waiting {
            self.ready.extend(ready.then_some(talk.path.local.port()));
            if self.ready.len() >= usize::from(self.layout.ports) {
                let (from, to, quiet) = self.layout.times(cx.now, self.layout.cycle_s());
                self.reporting.table.set(from, to, quiet);
                self.start(cx);
            }
        }
        // Sent last, so that data sent in response counts.
        if ready {
            self.reporting.driver.send(link, vec![TOKEN]);
        }
        self.reporting.driver.close(link);
    }

    /// The timetable is set: the test runs.
    fn start(&mut self, cx: &mut Context<'_>) {
        if self.stage == ReceiveStage::Waiting && self.reporting.begin(cx) {
            self.stage = ReceiveStage::Running;
            self.again();
        }
    }

    /// Ends the measured time at `now`.
    fn part(&mut self, now: Mono) {
        if !matches!(self.stage, ReceiveStage::Waiting | ReceiveStage::Running) {
            return;
        }
        // A cool-down still belongs to the cycle.
        if self.stage == ReceiveStage::Running
            && (self.layout.cooldown_s == 0 || now < self.reporting.table.to())
        {
            self.reporting.end_cycle();
        }
        self.reporting.table.cut(now);
        self.stage = ReceiveStage::Parting;
        let cooldown = u64::from(self.layout.cooldown_s) * SECOND;
        let alone = self.layout.windows && !self.layout.token;
        self.kill = Some(now.plus(cooldown).plus(if alone { 0 } else { GRACE.ns() }));
        self.wake = None;
        if self.shared.open.load(Ordering::Relaxed) == 0 {
            self.drop_when_unsynced_idle(now);
        }
    }

    fn drop_group(&mut self) {
        if self.stage == ReceiveStage::Parting {
            self.stage = ReceiveStage::Dropping;
            self.kill = None;
            self.reporting.driver.order(Group::ALL, Order::Drop);
            self.reporting.driver.order(GROUP, Order::Stop);
            if self.layout.unsynced {
                self.reporting.driver.order(UNSYNCED_GROUP, Order::Stop);
            }
        }
    }

    /// A link is open, perhaps again: the timer of the empty receiver stops.
    fn again(&mut self) {
        if self.stage == ReceiveStage::Running {
            self.wake = Some(self.reporting.table.to()).filter(|at| at.0 < u64::MAX);
        }
    }

    fn note(&mut self, cx: &mut Context<'_>, message: Message) {
        match downcast(message) {
            SessionMessage::Shared(SharedMessage::Event(Event::Portion(portion)))
                if portion.slot == UNSYNCED_SLOT =>
            {
                self.unsynced.closed(&portion);
                self.report_unsynced(cx.now);
            }
            SessionMessage::Shared(SharedMessage::Event(Event::Portion(portion))) => {
                // Before the session has heard of the first connection its portion may be there.
                self.start(cx);
                self.reporting.portion(portion);
            }
            SessionMessage::Shared(SharedMessage::Event(
                event @ Event::Established { at_ns, remote, .. },
            )) => {
                let is_its = |talk: &&mut Conversation| talk.path.peer.ip() == remote.ip();
                self.talks.values_mut().filter(is_its).for_each(|talk| talk.heard = cx.now);
                self.start(cx);
                self.again();
                self.reporting.driver.ask(since(event, self.reporting.from.unwrap_or(Mono(at_ns))));
            }
            SessionMessage::Shared(SharedMessage::Event(event)) => self.reporting.driver.ask(event),
            SessionMessage::Shared(SharedMessage::FirstByte(path, at)) => self.unsynced.first_byte(path, at),
            SessionMessage::Own(Posted::Unsynced(path, at)) => self.unsynced.accepted(path, at),
            SessionMessage::Own(Posted::Back) => self.again(),
            SessionMessage::Own(Posted::Empty(last)) => self.empty(cx.now, last),
            _ => {}
        }
    }

    /// No data connection is left; the last counted byte arrived at `last`.
    fn empty(&mut self, now: Mono, last: Mono) {
        self.reporting.last = self.reporting.last.max(last);
        if self.shared.open.load(Ordering::Relaxed) > 0 {
            return;
        }
        match self.stage {
            // Senders with a conversation report its end; without one the closed connections do.
            ReceiveStage::Running if !self.layout.sync || self.talks.is_empty() => {
                let alone = ALONE.since(now).until();
                self.wake = Some(self.wake.map_or(alone, |at| at.min(alone)));
            }
            ReceiveStage::Parting => self.drop_when_unsynced_idle(now),
            _ => {}
        }
    }

    fn woken(&mut self, now: Mono) {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            let early = now < self.reporting.table.to();
            // All senders have left: the rated time ends with the last byte.
            let end = if early {
                self.reporting.last.max(self.reporting.table.from().unwrap_or(now))
            } else {
                self.reporting.table.to()
            };
            self.reporting.table.cut(end);
            self.part(now);
        }
        if self.kill.is_some_and(|at| at <= now) {
            self.drop_when_unsynced_idle(now);
        }
    }

    /// Reports the unsynchronised tests that are over.
    fn report_unsynced(&mut self, now: Mono) {
        while let Some(totals) = self.unsynced.pop_finished(now) {
            self.reporting.driver.ask(totals);
        }
    }

    /// Ends the session once no unsynchronised test receives data.
    fn drop_when_unsynced_idle(&mut self, now: Mono) {
        if self.unsynced.busy(now, self.interval_ns) {
            self.kill = Some(now.plus(SECOND / 2));
        } else {
            self.drop_group();
        }
    }

    fn dropped(&mut self, group: Group, totals: Box<Totals>) {
        self.left = self.left.saturating_sub(1);
        if group == GROUP {
            self.local = Some(totals);
        }
        if self.left == 0 && self.stage == ReceiveStage::Dropping {
            self.stage = ReceiveStage::Over;
            for link in std::mem::take(&mut self.talks).into_keys() {
                self.reporting.driver.close(link);
            }
            // The group also has the connections of senders that were refused, or gone, before the
            // test.
            let carried = self.reporting.carried;
            if let Some(totals) = self.local.as_mut().filter(|totals| (1..totals.opened).contains(&carried)) {
                (totals.opened, totals.completed) = (carried, totals.completed.min(carried));
            }
            self.reporting.finish(true, self.local.take());
        }
    }
}

impl Session for Receiver {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Up(link, path, _) => {
                self.shared.prove(path.peer.ip());
                let most = if self.layout.token { usize::from(self.layout.ports) } else { MOST_TALKS };
                if self.talks.len() >= most
                    && let Some(other) = self.to_give_way()
                {
                    self.hang_up(other);
                }
                if self.talks.len() >= most {
                    return self.reporting.driver.close(link);
                }
                let announces = self.layout.announces(path.local.port());
                let (length, waits, joined) = (false, false, false);
                let (heard, words) = (cx.now, Words::default());
                let talk = Conversation { path, heard, words, length, waits, joined, announces };
                self.talks.insert(link, talk);
                self.reporting.step(SyncStep::Connected { local: path.local, remote: path.peer });
                if !announces {
                    self.shared.synced_peers().push(path.peer.ip().to_canonical());
                }
            }
            Input::Bytes(link, bytes) if self.talks.get(&link).is_some_and(|talk| talk.announces) => {
                self.token(cx, link, bytes);
            }
            Input::Bytes(link, bytes) => self.on_bytes(cx, link, bytes),
            Input::Down(link, _) => {
                self.forget(link);
                if self.talks.is_empty()
                    && self.stage == ReceiveStage::Running
                    && self.shared.open.load(Ordering::Relaxed) == 0
                {
                    self.wake = Some(self.wake.unwrap_or(Mono(u64::MAX)).min(ALONE.since(cx.now).until()));
                }
            }
            Input::Tally { group: GROUP, index, from, to, tally } => {
                self.reporting.interval(index, from, to, tally);
            }
            Input::Tally { group: UNSYNCED_GROUP, to, tally, .. } => {
                if tally.rx_bytes > 0 {
                    self.unsynced.received(to);
                }
                self.report_unsynced(cx.now);
            }
            Input::Message(message) => self.note(cx, message),
            Input::Idle(group) if group != Group::ALL && self.stage == ReceiveStage::Dropping => {
                self.reporting.driver.order(group, Order::Drop);
            }
            Input::Dropped(group, totals) => self.dropped(group, totals),
            Input::Wake => {
                self.reporting.emit_due(cx.now);
                self.hang_up_silent(cx.now);
                self.woken(cx.now);
            }
            Input::Stop => {
                self.reporting.step(SyncStep::Interrupted);
                self.reporting.driver.interrupt();
                if self.stage == ReceiveStage::Dropping {
                    // The remaining connections are not waited for.
                    self.reporting.driver.order(GROUP, Order::Kill);
                }
                self.part(cx.now);
                self.drop_group();
            }
            _ => {}
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.reporting.driver.next(cx)
    }

    fn deadline(&self) -> Option<Mono> {
        let waits = self.talks.values().filter_map(Receiver::patience).map(|wait| wait.until());
        self.wake.into_iter().chain(self.kill).chain(self.reporting.next_step()).chain(waits).min()
    }
}
