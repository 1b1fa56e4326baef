//! The client's side of the conversation: ask, open the streams, run, compare results.
//!
//! ```text
//! connecting ─▶ greeting ─ PARAM_EXCHANGE ─▶ asking ─ CREATE_STREAMS ─▶ creating ─ TEST_RUNNING ─▶ running
//!   ─ time up, enough moved or stop ─▶ freezing ─ TEST_END ─▶ ended ─ EXCHANGE_RESULTS ─▶ exchanging
//!   ─ results, DISPLAY_RESULTS ─▶ IPERF_DONE, closing ─▶ over
//! ```

mod report;
mod run;
mod talk;

use super::codec::{Cookie, Inbox, StateByte, cookie, cookie_text};
use super::params::Parameters;
use super::store::Store;
use super::stream_stats::StreamStats;
use super::test_state::TestState;
use crate::host::Meter;
use crate::{Bulk, BulkNews, NAME};
use common::driver::Driver;
use common::{Patience, Peer};
use metrics::{Clamped, Group, Mono, SECOND};
use model::ending::JudgedPhase;
use model::{Level, Phase, Status, Totals};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Action, Context, FIREWALL, Input, Link, Order, Path, Session, Target};

/// Everything a client needs to know before it starts.
pub struct ClientPlan {
    /// The server, as the user named it, and its addresses.
    pub server: Peer,
    pub parameters: Parameters,
    /// The phase that the parameters are made of, whose intervals are reported.
    pub phase: Phase,
    /// Length of the reports on each stream, ns; 0 for no reports.
    pub interval_ns: u64,
    pub workers: u16,
    pub from: Option<SocketAddr>,
    /// Local port of the first stream.
    pub port: Option<u16>,
    /// Limit for the server's first state byte after the connection, ns.
    pub greeting_ns: u64,
    /// Longest wait for each further answer until the test runs, ns.
    pub begin_ns: u64,
    /// Longest wait for the server's results, ns.
    pub results_ns: u64,
    /// Longest silence of a test that receives, ns.
    pub silence_ns: u64,
    /// The system's congestion control.
    pub congestion: String,
    /// CPU time.
    pub meter: Meter,
    /// Every ended connection is reported.
    pub records: bool,
    /// Payload from a file, or into one.
    pub store: Option<Arc<dyn Store>>,
    /// `TCP_USER_TIMEOUT`: limit for the acknowledgement of sent data, ns.
    pub user_timeout_ns: Option<u64>,
}

const GROUP: Group = Group(1);
/// Longest wait of the original's stand-in for the start of a test, ns: the original has no limit,
/// and other clients may be first.
pub(crate) const BEGIN_OF_ORIGINAL: u64 = 300 * SECOND;
/// The same for the results.
pub(crate) const RESULTS_OF_ORIGINAL: u64 = 60 * SECOND;
/// Limit for the rest of a block and the last counts of streams, ns.
const STANDING: u64 = 10 * SECOND;
/// Error of a server that sends one way only.
const TOO_OLD: &str = "the server knows no --bidir: it is older than 3.7";
/// Limit for our own workers to report streams that the server has counted, ns.
const GATHERING: u64 = 5 * SECOND;
/// The same where a stream broke: the server may say why, and the original does not wait.
const RESULTS_OF_BROKEN: u64 = 2 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientStep {
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

pub struct Client {
    plan: ClientPlan,
    step: ClientStep,
    since: Mono,
    link: Option<Link>,
    /// Set-up time of the control connection, ns.
    round_trip_ns: u64,
    cookie: Cookie,
    inbox: Inbox,
    test_state: Option<Arc<TestState>>,
    joined: BTreeMap<u64, Path>,
    spent: BTreeSet<u32>,
    stats: Option<StreamStats>,
    /// Has the run's status and reason; the reason is also the test's reported error.
    driver: Driver,
    /// The result was reported.
    told: bool,
    /// All streams have ended, as they do when the server closes them.
    idle: bool,
}

impl Client {
    /// A client that starts as soon as it is polled.
    pub fn new(plan: ClientPlan, now: Mono) -> Self {
        let driver = Driver::new(now, 0, &plan.phase);
        let mut client = Client {
            driver,
            plan,
            step: ClientStep::Connecting,
            since: now,
            link: None,
            round_trip_ns: 0,
            cookie: [0; super::codec::COOKIE],
            inbox: Inbox::default(),
            test_state: None,
            joined: BTreeMap::new(),
            spent: BTreeSet::new(),
            stats: None,
            told: false,
            idle: false,
        };
        client.connect(now);
        client
    }

    /// Asks for the control connection.
    fn connect(&mut self, now: Mono) {
        let target = Target { to: self.plan.server.address, from: self.plan.from };
        self.driver.ask(Action::Connect(self.attempt(), target));
        self.enter(ClientStep::Connecting, now);
    }

    /// The number of the latest attempt: each address of the server has its own.
    fn attempt(&self) -> u32 {
        u32::clamped(self.plan.server.others.len())
    }

    /// No control connection: the server may have another address.
    fn unconnected(&mut self, cx: &Context<'_>, joint: &str, why: &str) {
        match self.plan.server.fall_back(why) {
            Some(text) => {
                self.driver.notice(Level::Info, text);
                self.connect(cx.now);
            }
            None => self.fail(cx, format!("unable to connect to server{joint}{why}")),
        }
    }

    fn say(&mut self, bytes: Vec<u8>) {
        if let Some(link) = self.link {
            self.driver.send(link, bytes);
        }
    }

    fn enter(&mut self, step: ClientStep, now: Mono) {
        (self.step, self.since) = (step, now);
    }

    /// Ends the test with an error and reports the results so far.
    fn fail(&mut self, cx: &Context<'_>, why: impl Into<String>) {
        if matches!(self.step, ClientStep::Closing | ClientStep::Over) {
            return;
        }
        if self.driver.status != Status::Interrupted {
            self.driver.status = if self.stats.is_some() { Status::Partial } else { Status::Failed };
        }
        self.driver.reason.get_or_insert(why.into());
        self.close(cx);
    }

    /// Reports the result, closes the control connection and ends the group of streams.
    fn close(&mut self, cx: &Context<'_>) {
        self.report_result();
        self.enter(ClientStep::Closing, cx.now);
        if let Some(link) = self.link.take() {
            self.driver.close(link);
        }
        match (self.test_state.is_some(), self.driver.reason.is_some() || self.idle) {
            (true, false) => self.driver.order(GROUP, Order::Stop),
            (true, true) => self.driver.order(GROUP, Order::Drop),
            (false, _) => self.finish(None),
        }
    }

    fn finish(&mut self, local: Option<Box<Totals>>) {
        self.step = ClientStep::Over;
        self.report_totals(local);
        let pattern = self.plan.parameters.terms.pattern();
        let phase = Phase { pattern, ..self.plan.phase.clone() };
        self.driver.finish(Some(JudgedPhase { phase: &phase, protocol: NAME, needs_report: false }), None);
    }

    fn up(&mut self, cx: &mut Context<'_>, link: Link, path: Path) {
        self.link = Some(link);
        self.round_trip_ns = cx.now.since(self.since);
        self.cookie = cookie(cx.rng);
        self.say(self.cookie.to_vec());
        self.enter(ClientStep::Greeting, cx.now);
        let Path { peer, local } = path;
        let (cookie, at) = (cookie_text(&self.cookie), cx.clock.wall(cx.now));
        self.report(BulkNews::Met { peer, local, cookie, at });
    }

    /// The wait for the server in the present step.
    fn patience(&self) -> Patience {
        let (what, limit_ns) = match self.step {
            ClientStep::Connecting => ("no connection", self.plan.phase.connect_timeout_ns),
            ClientStep::Greeting => ("no word", self.plan.greeting_ns),
            ClientStep::Asking => ("no answer to the parameters of the test", self.plan.begin_ns),
            ClientStep::Creating => ("no start of the test", self.plan.begin_ns),
            ClientStep::Gathering => ("no word of the streams", GATHERING),
            ClientStep::Freezing | ClientStep::Closing => ("no end of the streams", STANDING),
            ClientStep::Ended | ClientStep::Exchanging | ClientStep::Results
                if self.driver.reason.is_some() =>
            {
                ("no results", RESULTS_OF_BROKEN)
            }
            _ => ("no results", self.plan.results_ns),
        };
        Patience::new(what, self.since).within(limit_ns)
    }

    fn due(&self) -> Mono {
        match self.step {
            // The last interval ends with the test.
            ClientStep::Running => {
                self.stats.as_ref().map_or(Mono(u64::MAX), |stats| stats.wakes().min(stats.end()))
            }
            ClientStep::Over => Mono(u64::MAX),
            _ => self.patience().until(),
        }
    }

    fn wake(&mut self, cx: &Context<'_>) {
        if self.due() > cx.now {
            return;
        }
        match self.step {
            ClientStep::Connecting => {
                self.unconnected(cx, ": ", &format!("it did not answer: {FIREWALL}"));
            }
            ClientStep::Greeting => {
                let seconds = self.patience().seconds();
                self.fail(
                    cx,
                    format!(
                        "the server accepted the connection but said nothing for {seconds} s: is it iperf3?"
                    ),
                );
            }
            ClientStep::Asking | ClientStep::Creating => {
                self.fail(cx, format!("the server did not begin the test: {}", self.patience()));
            }
            ClientStep::Gathering => self.gathered(cx),
            ClientStep::Running => self.run_on(cx),
            ClientStep::Freezing => {
                self.settle();
                self.check_frozen(cx);
            }
            ClientStep::Ended | ClientStep::Exchanging | ClientStep::Results => {
                self.fail(cx, format!("the server did not send its results: {}", self.patience()));
            }
            ClientStep::Closing => self.drop_group(),
            ClientStep::Over => {}
        }
    }

    /// Does not wait for streams that have not ended.
    fn drop_group(&mut self) {
        self.since = Mono(u64::MAX);
        self.driver.order(GROUP, Order::Drop);
    }

    fn stop(&mut self, cx: &Context<'_>) {
        match self.step {
            ClientStep::Running => {
                // The server sends its results for the time until now.
                self.driver.status = Status::Interrupted;
                self.freeze(cx);
            }
            ClientStep::Freezing | ClientStep::Ended | ClientStep::Exchanging | ClientStep::Results => {
                // The results are waited for a moment, and no longer.
                if self.driver.status == Status::Interrupted {
                    self.fail(cx, "interrupted by the user before the server sent its results");
                }
                self.driver.status = Status::Interrupted;
            }
            ClientStep::Connecting
            | ClientStep::Greeting
            | ClientStep::Asking
            | ClientStep::Creating
            | ClientStep::Gathering => {
                self.say(vec![StateByte::CLIENT_TERMINATE.0]);
                self.driver.interrupt();
                self.close(cx);
            }
            ClientStep::Closing if self.since < Mono(u64::MAX) => self.drop_group(),
            ClientStep::Closing | ClientStep::Over => {}
        }
    }
}

impl Session for Client {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Up(link, path, Some(attempt))
                if self.step == ClientStep::Connecting && attempt == self.attempt() =>
            {
                self.up(cx, link, path);
            }
            // An attempt that was given up.
            Input::Up(link, _, Some(_)) => self.driver.close(link),
            Input::Refused(attempt, fault)
                if self.step == ClientStep::Connecting && attempt == self.attempt() =>
            {
                self.unconnected(cx, " - ", &fault.to_string());
            }
            Input::Bytes(_, bytes) => {
                self.inbox.push(bytes);
                while self.next(cx) {}
            }
            Input::Down(link, fault) if self.link == Some(link) => {
                self.link = None;
                match fault {
                    Some(fault) => self.fail(cx, format!("the control connection broke ({fault})")),
                    // 3.17 and later answer a wrong password by closing.
                    None if self.step == ClientStep::Asking => self.fail(
                        cx,
                        "control socket has closed unexpectedly: the server does not want \
                                                          the test, perhaps for want of the right credentials",
                    ),
                    None => self.fail(cx, "control socket has closed unexpectedly"),
                }
            }
            Input::Message(message) => self.note(cx, message),
            Input::Tally { group: GROUP, index, from, to, tally } => {
                self.driver.interval(index, from, to, tally);
            }
            Input::Idle(GROUP) => {
                if self.step == ClientStep::Closing && !std::mem::replace(&mut self.idle, true) {
                    self.driver.order(GROUP, Order::Drop);
                }
                self.idle = true;
            }
            Input::Dropped(GROUP, totals) => self.finish(Some(totals)),
            Input::Wake => self.wake(cx),
            Input::Stop => self.stop(cx),
            _ => {}
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.driver.next(cx)
    }

    fn deadline(&self) -> Option<Mono> {
        Some(self.due()).filter(|at| *at < Mono(u64::MAX))
    }
}

impl Client {
    fn report(&mut self, news: BulkNews) {
        self.driver.ask(Bulk { test: 1, news }.event());
    }

    /// Reports the intervals that wait for streams which have not answered.
    fn settle(&mut self) {
        let told = self.stats.as_mut().map(StreamStats::settle).unwrap_or_default();
        told.into_iter().for_each(|news| self.report(news));
    }
}
