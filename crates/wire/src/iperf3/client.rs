//! The client's side of the conversation: ask, open the streams, run, compare results.
//!
//! ```text
//! connecting ─▶ greeting ─ PARAM_EXCHANGE ─▶ asking ─ CREATE_STREAMS ─▶ creating ─ TEST_RUNNING ─▶ running
//!   ─ time up, enough moved or stop ─▶ freezing ─ TEST_END ─▶ ended ─ EXCHANGE_RESULTS ─▶ exchanging
//!   ─ results, DISPLAY_RESULTS ─▶ IPERF_DONE, closing ─▶ over
//! ```

mod tell;

use super::codec::{Cookie, Inbox, LONGEST_RESULTS, State, cookie, cookie_text, error_text, framed};
use super::dial::Dialer;
use super::ledger::{Ledger, Told};
use super::lot::{Gone, Joined, Lot, Spent, Standing};
use super::params::{self, Parameters};
use super::results::{self, Results};
use super::server::{Meter, socket_settings};
use crate::Run;
use crate::counted::Intervals;
use metrics::{Ending, Group, Mono, SECOND};
use model::{BulkCpu, BulkNews, Event, Level, Phase, Status, Totals, Verify};
use seam::{Action, Cx, End, GroupPlan, Input, Link, Note, Order, Path, Session, Target, WHEN_TOLD, Wait};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Everything a client needs to know before it starts.
pub struct ClientPlan {
    /// The server, as the user named it, and its address.
    pub target: (String, SocketAddr),
    /// What to ask for.
    pub parameters: Parameters,
    /// The phase that it comes from, whose intervals are told.
    pub phase: Phase,
    /// Length of the reports on each stream, ns; 0 tells none.
    pub interval_ns: u64,
    /// Worker threads.
    pub workers: u16,
    /// Our address.
    pub from: Option<IpAddr>,
    /// Local port of the first stream.
    pub port: Option<u16>,
    /// How long the control connection may take, ns.
    pub connect_timeout_ns: u64,
    /// How long a receiving test may get nothing, ns.
    pub silence_ns: u64,
    /// The system's congestion control.
    pub congestion: String,
    /// CPU time.
    pub meter: Meter,
    /// Whether every ended connection is told.
    pub records: bool,
}

const GROUP: Group = Group(1);
/// How long a server may keep us waiting before a test: it may have others in line.
const PATIENCE: u64 = 300 * SECOND;
/// How long the rest of a block and the last standings may take.
const STANDING: u64 = 10 * SECOND;
/// Said when it sends one way only.
const TOO_OLD: &str = "the server knows no --bidir: it is older than 3.7";
/// How long our own workers may take to tell of streams that the server has seen.
const GATHERING: u64 = 5 * SECOND;
/// How long the server may take after that.
const RESULTS: u64 = 60 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connecting,
    Greeting,
    Asking,
    Creating,
    /// The server has begun; that all streams are there is still on its way from our workers.
    Gathering,
    Running,
    Freezing,
    Ended,
    Exchanging,
    /// Its last word is waited for.
    Results,
    Closing,
    Over,
}

/// The client.
pub struct Client {
    plan: ClientPlan,
    step: Step,
    since: Mono,
    link: Option<Link>,
    cookie: Cookie,
    inbox: Inbox,
    lot: Option<Arc<Lot>>,
    joined: BTreeMap<u64, Path>,
    spent: BTreeMap<u32, bool>,
    ledger: Option<Ledger>,
    started: Option<Mono>,
    heard: Mono,
    used: (f64, f64),
    cpu: BulkCpu,
    far: Option<Results>,
    intervals: Intervals,
    actions: VecDeque<Action<Run>>,
    status: Status,
    error: Option<String>,
    /// Whether the result was told.
    told: bool,
    grouped: bool,
    /// All streams have ended, as they do when the server closes them.
    idle: bool,
}

impl Client {
    /// A client that starts as soon as it is polled.
    #[must_use]
    pub fn new(plan: ClientPlan, now: Mono) -> Self {
        let to = plan.target.1;
        let from = plan.from.map(|from| SocketAddr::new(from, 0));
        let actions = VecDeque::from([Action::Connect(0, Target { to, from })]);
        Client {
            intervals: Intervals::new(now, 0, &plan.phase),
            plan,
            step: Step::Connecting,
            since: now,
            link: None,
            cookie: [0; super::codec::COOKIE],
            inbox: Inbox::default(),
            lot: None,
            joined: BTreeMap::new(),
            spent: BTreeMap::new(),
            ledger: None,
            started: None,
            heard: now,
            used: (0.0, 0.0),
            cpu: BulkCpu::default(),
            far: None,
            actions,
            status: Status::Complete,
            error: None,
            told: false,
            grouped: false,
            idle: false,
        }
    }

    fn say(&mut self, bytes: Vec<u8>) {
        if let Some(link) = self.link {
            self.actions.push_back(Action::Send(link, bytes));
        }
    }

    fn enter(&mut self, step: Step, now: Mono) {
        (self.step, self.since) = (step, now);
    }

    /// It goes no further: what is known is told.
    fn fail(&mut self, cx: &Cx<'_>, why: String) {
        if matches!(self.step, Step::Closing | Step::Over) {
            return;
        }
        self.status = if self.started.is_some() { Status::Partial } else { Status::Failed };
        self.error.get_or_insert(why);
        self.close(cx);
    }

    /// The end: what is left of the group is dropped.
    fn close(&mut self, cx: &Cx<'_>) {
        self.tell_result();
        self.enter(Step::Closing, cx.now);
        if let Some(link) = self.link.take() {
            self.actions.push_back(Action::Close(link, End::Done { how: Ending::Completed, reset: false }));
        }
        match (self.grouped, self.error.is_some() || self.idle) {
            (true, false) => self.actions.push_back(Action::Order(GROUP, Order::Stop)),
            (true, true) => self.actions.push_back(Action::Order(GROUP, Order::Drop)),
            (false, _) => self.finish(None),
        }
    }

    fn finish(&mut self, near: Option<Box<Totals>>) {
        self.step = Step::Over;
        self.tell_totals(near);
        let (status, reason) = (self.status, self.error.clone());
        self.actions.push_back(Action::Emit(Event::PhaseEnd { status, reason }));
        self.actions.push_back(Action::Done);
    }

    fn up(&mut self, cx: &mut Cx<'_>, link: Link, path: Path) {
        self.link = Some(link);
        self.cookie = cookie(cx.rng);
        self.say(self.cookie.to_vec());
        self.enter(Step::Greeting, cx.now);
        let Path { peer, local } = path;
        let (cookie, at) = (cookie_text(&self.cookie), cx.clock.wall(cx.now));
        self.tell(BulkNews::Met { peer, local, cookie, at });
    }

    /// The next thing that the server has said; false when there is none yet.
    fn next(&mut self, cx: &Cx<'_>) -> bool {
        if matches!(self.step, Step::Closing | Step::Over) {
            return false;
        }
        if self.step == Step::Exchanging {
            return self.results(cx);
        }
        if self.inbox.awaits_code() {
            return false;
        }
        let Some(byte) = self.inbox.byte() else { return false };
        self.said(cx, byte);
        true
    }

    fn said(&mut self, cx: &Cx<'_>, byte: u8) {
        match (State::of(byte), self.step) {
            (Some(State::ParamExchange), Step::Greeting) => {
                let text = params::write(&self.plan.parameters);
                self.say(framed(&text));
                self.enter(Step::Asking, cx.now);
            }
            (Some(State::CreateStreams), Step::Asking) => self.create(cx),
            // Whether all streams are there our workers say, perhaps a little later.
            (Some(State::TestStart), Step::Creating) => {}
            (Some(State::TestRunning), Step::Creating) => {
                self.enter(Step::Gathering, cx.now);
                self.gathered(cx);
            }
            (Some(State::ExchangeResults), Step::Ended) => self.send_results(cx),
            (Some(State::DisplayResults), Step::Results) => {
                self.say(vec![State::Done.byte()]);
                self.close(cx);
            }
            (Some(State::Denied), _) => {
                self.fail(cx, "the server is busy running a test. try again later".to_owned());
            }
            (Some(State::ServerTerminate), _) => {
                self.say(vec![State::Done.byte()]);
                self.fail(cx, "the server has terminated".to_owned());
            }
            // Its code follows; of what may come behind that nothing is needed.
            (Some(State::ServerError), _) => {
                let number = self.inbox.number().unwrap_or_default();
                self.fail(cx, format!("server error: {} ({number})", error_text(number)));
            }
            _ => self.fail(cx, format!("the server sent an unexpected state ({byte})")),
        }
    }

    /// The streams are wanted.
    fn create(&mut self, cx: &Cx<'_>) {
        let terms = self.plan.parameters.terms.clone();
        let discard = self.plan.phase.verify == Verify::None;
        let lot = Arc::new(Lot::new(GROUP, terms.clone(), self.cookie, false, discard));
        let to = self.plan.target.1;
        let openers = Dialer::for_all(&lot, to, self.plan.from, self.plan.port, self.plan.workers);
        let sockets = socket_settings(&terms, terms.congestion.clone());
        let plan = GroupPlan {
            group: GROUP,
            openers,
            sockets,
            throttle: 1,
            connect_timeout: 30 * SECOND,
            start: WHEN_TOLD,
            interval: self.plan.phase.interval_ns,
            end: None,
            omit: u64::from(terms.omit_s) * SECOND,
            records: self.plan.records,
            same_host: false,
            info: !terms.udp,
            frames: false,
            packets: terms.udp,
            wait: Wait::Block,
        };
        self.lot = Some(lot);
        self.grouped = true;
        self.actions.push_back(Action::Group(Box::new(plan)));
        self.enter(Step::Creating, cx.now);
    }

    /// Begins once all streams have been told, or will not be.
    fn gathered(&mut self, cx: &Cx<'_>) {
        let terms = &self.plan.parameters.terms;
        let all = self.joined.len() as u32 >= terms.all_streams();
        match self.step {
            Step::Gathering if all => self.begin(cx),
            // The server has begun with half of them.
            Step::Gathering if cx.now >= self.due() && terms.bidir => self.fail(cx, TOO_OLD.to_owned()),
            Step::Gathering if cx.now >= self.due() => self.begin(cx),
            _ => {}
        }
    }

    fn begin(&mut self, cx: &Cx<'_>) {
        let Some(lot) = self.lot.clone() else { return };
        self.enter(Step::Running, cx.now);
        self.started = Some(cx.now);
        self.heard = cx.now;
        self.used = (self.plan.meter)();
        let terms = self.plan.parameters.terms.clone();
        let every = if self.plan.interval_ns == 0 { SECOND } else { self.plan.interval_ns };
        let mut ledger = Ledger::new(GROUP, &terms, every, |slot| lot.sends(slot));
        ledger.begin(cx.now);
        self.ledger = Some(ledger);
        let omit = u64::from(terms.omit_s) * SECOND;
        self.intervals = Intervals::new(cx.now, omit, &self.plan.phase);
        self.actions.push_back(Action::Order(GROUP, Order::Start(cx.now)));
        self.tell_begin(cx, &lot);
    }

    /// When the test is over by the clock.
    fn end(&self) -> Mono {
        let terms = &self.plan.parameters.terms;
        let length = u64::from(terms.time_s) + u64::from(terms.omit_s);
        match self.started {
            Some(start) if terms.time_s > 0 => start.plus(length * SECOND),
            _ => Mono(u64::MAX),
        }
    }

    /// Measuring is over.
    fn freeze(&mut self, cx: &Cx<'_>) {
        if self.step != Step::Running {
            return;
        }
        let now = (self.plan.meter)();
        let ns = cx.now.since(self.since).max(1) as f64;
        let share = |now: f64, then: f64| (now - then).max(0.0) * 1e11 / ns;
        let (user, system) = (share(now.0, self.used.0), share(now.1, self.used.1));
        self.cpu = BulkCpu { total: user + system, user, system };
        self.enter(Step::Freezing, cx.now);
        if let Some(ledger) = &mut self.ledger {
            let tag = ledger.freeze(cx.now);
            self.actions.push_back(Action::Order(GROUP, Order::Freeze(tag)));
        }
        self.check_frozen(cx);
    }

    fn check_frozen(&mut self, cx: &Cx<'_>) {
        if self.step == Step::Freezing && self.ledger.as_ref().is_none_or(Ledger::complete) {
            self.say(vec![State::TestEnd.byte()]);
            self.enter(Step::Ended, cx.now);
        }
    }

    fn send_results(&mut self, cx: &Cx<'_>) {
        let terms = &self.plan.parameters.terms;
        let sends = !terms.reverse || terms.bidir;
        let ours = Results {
            cpu: self.cpu,
            has_retransmits: match (sends, terms.udp) {
                (false, _) => -1,
                (true, udp) => i64::from(!udp),
            },
            congestion: (!terms.udp).then(|| self.plan.congestion.clone()),
            lines: self.ledger.as_ref().map(Ledger::lines).unwrap_or_default(),
            output: None,
        };
        self.say(framed(&results::write(&ours)));
        self.enter(Step::Exchanging, cx.now);
    }

    fn results(&mut self, cx: &Cx<'_>) -> bool {
        let streams = self.plan.parameters.terms.all_streams();
        let far = match self.inbox.document(LONGEST_RESULTS) {
            Ok(None) => return false,
            Ok(Some(text)) => results::read(&text, streams),
            Err(bad) => Err(bad.0),
        };
        match far {
            // It took our streams for another client's, or left them waiting.
            Ok(far) if self.plan.parameters.terms.bidir && (far.lines.len() as u32) < streams => {
                self.fail(cx, TOO_OLD.to_owned());
                false
            }
            Ok(far) => {
                self.far = Some(far);
                self.enter(Step::Results, cx.now);
                true
            }
            Err(why) => {
                self.fail(cx, format!("the server's results cannot be used: {why}"));
                false
            }
        }
    }

    fn note(&mut self, cx: &Cx<'_>, note: Note) {
        let note = match note.downcast::<Standing>() {
            Ok(standing) => return self.standing(cx, &standing),
            Err(note) => note,
        };
        let note = match note.downcast::<Joined>() {
            Ok(joined) => {
                self.joined.insert(joined.when, joined.path);
                return self.gathered(cx);
            }
            Err(note) => note,
        };
        let note = match note.downcast::<Spent>() {
            Ok(spent) => return self.enough(cx, &spent),
            Err(note) => note,
        };
        if let Ok(gone) = note.downcast::<Gone>() {
            match self.step {
                Step::Creating | Step::Gathering => {
                    self.fail(cx, format!("a stream did not come about: {}", gone.why));
                }
                Step::Running => {
                    self.status = Status::Partial;
                    self.error.get_or_insert(gone.why);
                    self.freeze(cx);
                }
                _ => {}
            }
        }
    }

    fn standing(&mut self, cx: &Cx<'_>, standing: &Standing) {
        let Some(ledger) = &mut self.ledger else { return };
        let told = ledger.hear(standing);
        if told.iter().any(|told| told.rows.iter().any(|row| !row.sender && row.bytes > 0)) {
            self.heard = cx.now;
        }
        self.tell_intervals(told);
        self.check_frozen(cx);
    }

    /// A stream has sent all that it may, or enough has come.
    fn enough(&mut self, cx: &Cx<'_>, spent: &Spent) {
        self.spent.insert(spent.slot, spent.sender);
        let Some(lot) = &self.lot else { return };
        let senders = (0..lot.terms.all_streams()).filter(|slot| lot.sends(*slot));
        let all_sent = senders.into_iter().all(|slot| self.spent.contains_key(&slot));
        if !spent.sender || all_sent {
            self.freeze(cx);
        }
    }

    /// When something is due.
    fn due(&self) -> Mono {
        let terms = &self.plan.parameters.terms;
        match self.step {
            Step::Connecting => self.since.plus(self.plan.connect_timeout_ns),
            Step::Greeting | Step::Asking | Step::Creating => self.since.plus(PATIENCE),
            Step::Gathering => self.since.plus(GATHERING),
            Step::Running => {
                let asks = self.ledger.as_ref().and_then(Ledger::due).unwrap_or(Mono(u64::MAX));
                let silence = if terms.reverse { self.plan.silence_ns } else { u64::MAX };
                // The last interval ends with the test.
                self.end().min(asks).min(self.heard.plus(silence))
            }
            Step::Freezing => self.since.plus(STANDING),
            Step::Ended | Step::Exchanging | Step::Results => self.since.plus(RESULTS),
            Step::Closing => self.since.plus(STANDING),
            Step::Over => Mono(u64::MAX),
        }
    }

    fn wake(&mut self, cx: &Cx<'_>) {
        if self.due() > cx.now {
            return;
        }
        match self.step {
            Step::Connecting => self.fail(cx, "unable to connect to server: it did not answer".to_owned()),
            Step::Greeting => self.fail(cx, "the server accepts connections but says nothing".to_owned()),
            Step::Asking | Step::Creating => self.fail(cx, "the server did not begin the test".to_owned()),
            Step::Gathering => self.gathered(cx),
            Step::Running if self.end() <= cx.now => self.freeze(cx),
            Step::Running => {
                if self.plan.parameters.terms.reverse && cx.now.since(self.heard) >= self.plan.silence_ns {
                    return self.fail(cx, "idle timeout for receiving data".to_owned());
                }
                if let Some(tag) = self.ledger.as_mut().and_then(|ledger| ledger.ask(cx.now)) {
                    self.actions.push_back(Action::Order(GROUP, Order::Ask(tag)));
                }
            }
            Step::Freezing => {
                let told = self.ledger.as_mut().map(Ledger::settle).unwrap_or_default();
                self.tell_intervals(told);
                self.check_frozen(cx);
            }
            Step::Ended | Step::Exchanging | Step::Results => {
                self.fail(cx, "the server did not send its results".to_owned());
            }
            Step::Closing => {
                self.since = Mono(u64::MAX);
                self.actions.push_back(Action::Order(GROUP, Order::Drop));
            }
            Step::Over => {}
        }
    }

    fn stop(&mut self, cx: &Cx<'_>) {
        if self.step == Step::Running {
            // The server gives its results for what was measured until now.
            self.status = Status::Interrupted;
            return self.freeze(cx);
        }
        if matches!(
            self.step,
            Step::Connecting | Step::Greeting | Step::Asking | Step::Creating | Step::Gathering
        ) {
            self.say(vec![State::ClientTerminate.byte()]);
            self.error = Some("interrupted by the user".to_owned());
            self.status = Status::Interrupted;
            self.close(cx);
        }
    }
}

impl Session<Run> for Client {
    fn handle(&mut self, cx: &mut Cx<'_>, input: Input<'_, Run>) {
        match input {
            Input::Up(link, path, Some(0)) if self.step == Step::Connecting => self.up(cx, link, path),
            Input::Refused(_, fault) => {
                self.fail(cx, format!("unable to connect to server - {fault}"));
            }
            Input::Bytes(_, bytes) => {
                self.inbox.push(bytes);
                while self.next(cx) {}
            }
            Input::Down(link, fault) if self.link == Some(link) => {
                self.link = None;
                let why = match fault {
                    Some(fault) => format!("the control connection broke ({fault})"),
                    None => "control socket has closed unexpectedly".to_owned(),
                };
                self.fail(cx, why);
            }
            Input::Note(note) => self.note(cx, note),
            Input::Tally { group: GROUP, index, from, to, tally } => {
                let interval = self.intervals.next(index, from, to, tally);
                self.actions.push_back(Action::Emit(Event::Interval(Box::new(interval))));
            }
            Input::Idle(GROUP) => {
                if self.step == Step::Closing && !std::mem::replace(&mut self.idle, true) {
                    self.actions.push_back(Action::Order(GROUP, Order::Drop));
                }
                self.idle = true;
            }
            Input::Dropped(GROUP, totals) => self.finish(Some(totals)),
            Input::Wake => self.wake(cx),
            Input::Stop => self.stop(cx),
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Cx<'_>) -> Option<Action<Run>> {
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Mono> {
        Some(self.due()).filter(|at| *at < Mono(u64::MAX))
    }
}

impl Client {
    fn tell(&mut self, news: BulkNews) {
        let bulk = model::Bulk { test: 1, news };
        self.actions.push_back(Action::Emit(Event::Bulk(Box::new(bulk))));
    }

    fn tell_intervals(&mut self, told: Vec<Told>) {
        if self.plan.interval_ns > 0 {
            for Told { omitted, rows } in told {
                self.tell(BulkNews::Interval { omitted, rows });
            }
        }
    }

    /// Something that a person should know.
    fn notice(&mut self, level: Level, text: &str) {
        self.actions.push_back(Action::Emit(Event::Notice { level, text: text.to_owned() }));
    }
}
