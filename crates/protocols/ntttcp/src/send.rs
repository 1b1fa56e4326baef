//! The sender's session.
//!
//! ```text
//! asking ─ state ─▶ proposing ─ agreed ─▶ connecting ─ all there ─▶ starting ─ 'R' ─▶ running ─ time up ─▶ ending ─▶ over
//!                                         (without a conversation it begins here)
//! ```
//!
//! 1. Data connections are kept a little longer than was agreed on: a receiver of the original that
//!    sees them close before its own timer has ended prints its result and never exits. Without a
//!    conversation they end with the time: a receiver of ttcp computes its rate up to their end.
//!    Datagrams have no end; the ones that let a receiver of the original exit are sent equally
//!    late.
//! 2. 'E' is said where we measured less than was agreed on, and before data connections are
//!    closed.
//! 3. Every answer of the receiver is waited for a bounded time.
//! 4. When the receiver closes early, the test ends, is reported as partial and is rated over the
//!    elapsed time. Windows' sender waits for the end of its time and reports no failure.

use super::codec::{END, FINISHED, LAST, QUERY, RUN, RUNNING, WAIT, Words, encode, proposable};
use super::open::{Dialer, Posted};
use super::tally::Reporting;
use super::token::{TOKEN, Tokens};
use super::{Layout, READY_OFFSET};
use crate::SyncStep;
use crate::bulk::{CLOSE, Filler, Params, Timetable};
use crate::one_sided::GROUP;
use common::Patience;
use common::message::{SessionMessage, SharedMessage, downcast};
use metrics::{Mono, SECOND};
use model::{Event, Level, Phase, Status, Totals, at_port};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Action, Context, Input, Link, LinkSource, Message, Order, Session, Target};

/// A sender's settings.
pub struct SenderPlan {
    /// Layout of the test; `multi` is the last of several senders.
    pub layout: Layout,
    pub phase: Phase,
    /// The receiver, or one for each port; the ports are those of the layout.
    pub to: Vec<SocketAddr>,
    /// Our address, and the first of our ports or 0.
    pub from: Option<SocketAddr>,
    pub workers: u16,
}

/// Time that data connections are held after the agreed length, ns.
const HOLD: u64 = SECOND / 2;
/// The wait for connections to end.
const GRACE: Patience = Patience::of("no end of the connections", 5 * SECOND);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendStage {
    Dialing,
    Asking,
    Proposing,
    Connecting,
    /// As Windows' ends say that they are ready.
    Readying,
    Starting,
    /// Waits until the receiver has all its senders.
    Waiting,
    Running,
    Ending,
    Dropping,
    Over,
}

/// The sender's session.
pub struct Sender {
    plan: SenderPlan,
    layout: Layout,
    params: Arc<Params>,
    stage: SendStage,
    link: Option<Link>,
    words: Words,
    cycle_s: u32,
    arrived: u32,
    has_group: bool,
    /// No data connection is left.
    idle: bool,
    tokens: Tokens,
    lost: u32,
    /// The answer to 'E' is due.
    awaits: bool,
    reporting: Reporting,
    wake: Option<Mono>,
    /// The wait for the receiver that `wake` ends.
    patience: Option<Patience>,
}

impl Sender {
    /// A session that starts as soon as it is polled.
    pub fn new(plan: SenderPlan, now: Mono) -> Self {
        let layout = plan.layout;
        let table = Arc::new(Timetable::unknown());
        let params = Params {
            arrivals: true,
            hold_ns: if layout.sync || layout.token || layout.udp { HOLD } else { 0 },
            reset_is_end: layout.windows,
            table: Arc::clone(&table),
            ..Params::of(&plan.phase, GROUP, if layout.udp { Filler::LetterB } else { Filler::LetterA })
        };
        let mut sender = Sender {
            layout,
            tokens: Tokens::default(),
            lost: 0,
            params: Arc::new(params),
            stage: SendStage::Dialing,
            link: None,
            words: Words::default(),
            cycle_s: proposable(layout.cycle_s()),
            arrived: 0,
            has_group: false,
            idle: false,
            awaits: false,
            reporting: Reporting::new(plan.phase.clone(), table),
            wake: None,
            patience: None,
            plan,
        };
        if layout.sync {
            let host = sender.plan.to.first().copied().unwrap_or(([0; 4], 0).into());
            sender.call(0, at_port(host, layout.port.saturating_sub(1)));
            sender.waits("no answer", now);
        } else {
            sender.connect(now);
        }
        sender
    }

    /// Opens a connection beside the data connections.
    fn call(&mut self, key: u32, to: SocketAddr) {
        let from = self.plan.from.map(|from| at_port(from, 0));
        self.reporting.driver.ask(Action::Connect(key, Target { to, from }));
    }

    /// Waits for the receiver, and no longer than there is patience.
    fn waits(&mut self, what: &'static str, now: Mono) {
        let patience = Patience::new(what, now);
        (self.patience, self.wake) = (Some(patience), Some(patience.until()));
    }

    fn say(&mut self, word: u32, now: Mono) {
        if let Some(link) = self.link {
            self.reporting.driver.send(link, encode(word));
            self.waits("no answer", now);
        }
    }

    fn connect(&mut self, now: Mono) {
        self.stage = SendStage::Connecting;
        self.has_group = true;
        self.waits("no further data connection", now);
        let connectors = Dialer::one_per_worker(&self.params, &self.plan);
        self.reporting.group(LinkSource::connectors(connectors), GROUP, now);
    }

    /// Advances the synchronisation with the receiver by the number that it sent: a state, or the
    /// duration of the test in seconds.
    fn word(&mut self, cx: &mut Context<'_>, word: u32) {
        match (self.stage, word) {
            (SendStage::Asking, RUNNING) => self.give_up(Layout::BUSY, cx.now),
            (SendStage::Asking, _) => {
                self.stage = SendStage::Proposing;
                self.say(self.cycle_s, cx.now);
            }
            (SendStage::Proposing, seconds) => {
                self.cycle_s = seconds;
                self.reporting.step(SyncStep::Negotiated { seconds });
                self.connect(cx.now);
            }
            (SendStage::Starting, WAIT) => {
                self.stage = SendStage::Waiting;
                self.reporting.step(SyncStep::WaitingForLast);
                self.wake = None;
            }
            (SendStage::Starting | SendStage::Waiting, RUN) => self.start(cx),
            (SendStage::Starting | SendStage::Waiting, _) => {
                self.give_up(Layout::REFUSED, cx.now);
            }
            (SendStage::Ending | SendStage::Dropping, word) => {
                if word == FINISHED && self.awaits {
                    self.reporting.step(SyncStep::StopConfirmed);
                }
                self.on_answer();
            }
            // The last of several senders hears its 'R' twice.
            _ => {}
        }
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        let (from, to, quiet) = self.layout.times(cx.now, self.cycle_s);
        self.reporting.table.set(from, to, quiet);
        self.reporting.begin(cx);
        self.stage = SendStage::Running;
        self.wake = Some(quiet).filter(|at| at.0 < u64::MAX);
    }

    /// True if so little time is left that the receiver's timer may have ended already.
    fn nearly(&self, now: Mono) -> bool {
        self.reporting.table.quiet().since(now) <= CLOSE
    }

    /// All data connections are open.
    fn ready(&mut self, cx: &mut Context<'_>) {
        if self.layout.token {
            self.stage = SendStage::Readying;
            self.tokens = Tokens::new(self.layout.ports, cx.now);
            self.call_tokens(cx.now);
        } else if self.layout.sync {
            self.stage = SendStage::Starting;
            self.say(if self.layout.multi { LAST } else { RUN }, cx.now);
        } else {
            self.start(cx);
        }
    }

    /// Opens the token connections that are due; they report that both ends are ready.
    fn call_tokens(&mut self, now: Mono) {
        while let Some(index) = self.tokens.due(now) {
            let port = self.layout.port.saturating_add(index);
            let Some(at) = self.layout.address(&self.plan.to, port) else { continue };
            self.call(index.into(), at_port(at, port.saturating_add(READY_OFFSET)));
        }
        self.wake = Some(self.tokens.wake());
    }

    /// A byte arrived on one of them.
    fn token(&mut self, cx: &mut Context<'_>, link: Link) {
        if self.tokens.on_byte(link) {
            self.reporting.driver.close(link);
        }
        if self.stage == SendStage::Readying && self.tokens.is_complete() {
            self.start(cx);
        }
    }

    /// The agreed length is over, or the user ended the test.
    fn end(&mut self, now: Mono, early: bool) {
        if self.stage != SendStage::Running {
            return;
        }
        self.stage = SendStage::Ending;
        if self.params.transfer.is_some() && !early {
            // All data has been sent: the rest is the goodbye.
            self.reporting.table.cut(self.reporting.last);
        } else if !self.nearly(now) {
            self.reporting.table.cut(now);
        }
        self.reporting.end_cycle();
        let measured = self.reporting.table.to().since(self.reporting.table.from().unwrap_or(now)) / SECOND;
        if self.link.is_some() && (early || measured < u64::from(self.cycle_s)) {
            self.say(END, now);
            self.awaits = true;
        }
        self.wake = Some(GRACE.since(now).until());
        if early {
            self.reporting.driver.order(GROUP, Order::Stop);
        }
    }

    /// Ends the test because the receiver closed early; `what` is the observed event.
    fn receiver_lost(&mut self, what: &str, now: Mono) {
        let (from, to) = (self.reporting.table.from().unwrap_or(now), self.reporting.table.to());
        let seconds = |ns: u64| ns as f64 / SECOND as f64;
        if now <= from || self.layout.windows {
            self.reporting.driver.fails(Status::Failed, what);
        } else {
            let all =
                if to.0 < u64::MAX { format!(" of {} s", seconds(to.since(from))) } else { String::new() };
            let done = seconds(now.since(from));
            self.reporting.driver.fails(
                Status::Partial,
                format!("{what} after {done:.3} s{all}: the figures cover that time"),
            );
        }
        self.end(now, true);
    }

    /// True if a number of buffers was requested and all of them were sent.
    fn all_sent(&self) -> bool {
        let all = self.params.transfer.map(|bytes| bytes.saturating_mul(self.layout.all().into()));
        all.is_some_and(|all| self.reporting.bytes.0 >= all)
    }

    /// No data connection is left.
    fn on_group_idle(&mut self, now: Mono) {
        self.idle = true;
        match self.stage {
            SendStage::Running if self.nearly(now) => self.end(now, false),
            SendStage::Running if self.lost < self.layout.all() && self.all_sent() => self.end(now, false),
            // Windows' sender waits for its time, if it has one, and is rated over all of it.
            SendStage::Running if self.layout.windows && self.lost < self.layout.all() => {
                let since = now.since(self.reporting.table.from().unwrap_or(now)) as f64 / SECOND as f64;
                let text = format!("the receiver closed all data connections after {since:.3} s");
                self.reporting.driver.notice(Level::Warning, text);
                if self.params.transfer.is_some() {
                    self.end(now, false);
                }
            }
            SendStage::Running => self.receiver_lost("all data connections failed", now),
            SendStage::Connecting => self.give_up("not all data connections were established", now),
            _ => {}
        }
        self.check_idle();
    }

    fn give_up(&mut self, why: &str, now: Mono) {
        self.reporting.driver.fails(Status::Failed, why);
        self.close_group(now);
    }

    /// Ends the data connections by their FIN, then the test; connections that are still open after
    /// a grace time are dropped.
    fn close_group(&mut self, now: Mono) {
        if matches!(self.stage, SendStage::Dropping | SendStage::Over) {
            return;
        }
        self.stage = SendStage::Dropping;
        if !self.has_group {
            return self.finish(None);
        }
        self.wake = Some(GRACE.since(now).until());
        self.reporting.driver.order(GROUP, Order::Stop);
        self.check_idle();
    }

    /// No data connection is left, and nothing is to be said any more.
    fn check_idle(&mut self) {
        if self.idle
            && !self.awaits
            && self.has_group
            && matches!(self.stage, SendStage::Ending | SendStage::Dropping)
        {
            self.stage = SendStage::Dropping;
            self.drop_group();
        }
    }

    fn drop_group(&mut self) {
        if std::mem::take(&mut self.has_group) {
            self.wake = None;
            self.reporting.driver.order(GROUP, Order::Drop);
        }
    }

    fn on_answer(&mut self) {
        self.awaits = false;
        self.check_idle();
    }

    fn finish(&mut self, totals: Option<Box<Totals>>) {
        self.stage = SendStage::Over;
        if let Some(link) = self.link.take() {
            self.reporting.driver.close(link);
        }
        self.reporting.finish(false, totals);
    }

    fn note(&mut self, cx: &mut Context<'_>, message: Message) {
        match downcast(message) {
            SessionMessage::Shared(SharedMessage::Event(Event::Portion(portion))) => {
                self.reporting.portion(portion);
            }
            SessionMessage::Shared(SharedMessage::Event(Event::Established { local, remote, .. })) => {
                self.arrived += 1;
                if self.stage == SendStage::Connecting {
                    self.waits("no further data connection", cx.now);
                }
                self.reporting.driver.ask(Event::Established { local, remote, at_ns: 0 });
                if self.stage == SendStage::Connecting && self.arrived == self.layout.all() {
                    self.ready(cx);
                }
            }
            SessionMessage::Own(Posted::Lost(why)) => {
                self.lost += 1;
                let early = matches!(
                    self.stage,
                    SendStage::Connecting | SendStage::Readying | SendStage::Starting | SendStage::Waiting
                );
                if early {
                    self.give_up(&format!("not all data connections were established: {why}"), cx.now);
                }
            }
            _ => {}
        }
    }

    /// The wait that is over.
    fn late(&self) -> String {
        self.patience.map_or_else(String::new, |patience| patience.to_string())
    }

    fn woken(&mut self, now: Mono) {
        if self.wake.is_none_or(|at| at > now) {
            return;
        }
        self.wake = None;
        match self.stage {
            SendStage::Running => {
                self.end(now, false);
                // All connections may have ended earlier.
                self.check_idle();
            }
            SendStage::Readying if self.tokens.patient() => self.call_tokens(now),
            SendStage::Ending => self.close_group(now),
            SendStage::Dropping => self.drop_group(),
            SendStage::Connecting => {
                let late = self.late();
                self.give_up(&format!("not all data connections were established in time: {late}"), now);
            }
            _ => {
                let late = self.late();
                self.give_up(&format!("the receiver does not answer: {late}"), now);
            }
        }
    }
}

impl Session for Sender {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Up(link, ..) if self.stage == SendStage::Readying => {
                self.tokens.up(link);
                self.reporting.driver.send(link, vec![TOKEN]);
            }
            Input::Refused(key, _) if self.stage == SendStage::Readying && self.tokens.again(key, cx.now) => {
                self.wake = Some(self.tokens.wake());
            }
            Input::Bytes(link, _) if self.layout.token => self.token(cx, link),
            Input::Down(link, _) if self.layout.token && self.tokens.on_byte(link) => {
                self.give_up("the receiver has ended the synchronisation", cx.now);
            }
            Input::Down(..) if self.layout.token => {}
            Input::Up(link, path, _) => {
                self.link = Some(link);
                self.reporting.step(SyncStep::Connected { local: path.local, remote: path.peer });
                self.stage = SendStage::Asking;
                self.say(QUERY, cx.now);
            }
            Input::Refused(_, fault) => {
                self.give_up(&format!("cannot reach the receiver's sync port: {fault}"), cx.now);
            }
            Input::Bytes(_, mut bytes) => {
                while let Some(word) = self.words.next(&mut bytes) {
                    self.word(cx, word);
                }
            }
            Input::Down(..) => {
                self.link = None;
                match self.stage {
                    // Its timer began before ours: it has its result, and data goes on to be read
                    // or not.
                    SendStage::Running if self.nearly(cx.now) => {}
                    SendStage::Running => {
                        self.receiver_lost("the receiver closed the synchronisation connection", cx.now);
                    }
                    SendStage::Ending | SendStage::Dropping => self.on_answer(),
                    SendStage::Over => {}
                    _ => self.give_up("the receiver has ended the conversation", cx.now),
                }
            }
            Input::Tally { group: GROUP, index, from, to, tally } => {
                self.reporting.interval(index, from, to, tally);
            }
            Input::Message(message) => self.note(cx, message),
            Input::Idle(GROUP) => self.on_group_idle(cx.now),
            Input::Dropped(_, totals) => self.finish(Some(totals)),
            Input::Wake => {
                self.reporting.emit_due(cx.now);
                self.woken(cx.now);
            }
            Input::Stop => {
                self.reporting.step(SyncStep::Interrupted);
                self.reporting.driver.interrupt();
                match self.stage {
                    SendStage::Running => self.end(cx.now, true),
                    // The connections had their time to end.
                    SendStage::Dropping => self.drop_group(),
                    _ => self.close_group(cx.now),
                }
            }
            _ => {}
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.reporting.driver.next(cx)
    }

    fn deadline(&self) -> Option<Mono> {
        self.wake.into_iter().chain(self.reporting.next_step()).min()
    }
}
