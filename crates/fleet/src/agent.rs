//! The agent of a host: admits tests, runs them as processes of their own, and keeps their results
//! until a controller has them.
//!
//! [`Agent`] gets the time and events as arguments, and holds neither socket nor process: these are
//! behind [`Programs`] and the transport. An order is from a controller that may be wrong, out of
//! date or gone; the agent's own rules ([`admission`], [`options`]) hold in spite of it. A run
//! belongs to the key whose controller greeted first.

mod admission;
pub mod options;
pub(crate) mod programs;
mod stdio;
#[cfg(test)]
pub(crate) mod tests;

use crate::message::{MAX_OUTCOME, Of, Order, Report, Target, VERSION, Words, bounded, compact};
use crate::plan::{Attempt, CostClass};
use crate::result::{Ending, Reason};
use crate::spool::{Kept, Spool};
use admission::{Admission, AdmittedTest};
use metrics::{Mono, SECOND};
pub use options::{Ceilings, Demand, Holder, WordReader};
pub use programs::{Child, OwnLock, own_resource};
use programs::{Happened, HostLock, Left, Programs};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
pub(crate) use stdio::drive;
pub use stdio::{Input, serve};
use uuid::Uuid;

/// Most runs that an agent works for at a time.
const MAX_RUNS: usize = 8;
/// Longest time without a word from a controller that it may ask for, ns.
const MAX_PATIENCE: u64 = 600 * SECOND;
/// Before the hexadecimal digits of a drawn key, and how many these are.
const DRAWN: (&str, usize) = ("netcaliper-psk-1:", 64);
/// Time before its end at which a test is asked to end by itself, ns.
const NOTICE: u64 = SECOND / 2;
/// Time after the longest test at which a reservation may end, ns.
const SLACK: u64 = 60 * SECOND;
/// Length of a window, ns: a difference of two clocks counts for one to two of them, which are over
/// before a controller gives up a test that is refused each second.
const OFFSET_WINDOW: u64 = 8 * SECOND;

/// A controller's run.
#[derive(Debug)]
struct Session {
    /// The first one to greet.
    holder: Arc<Holder>,
    epoch: u64,
    key: String,
    offset: Offset,
    heard: Mono,
    patience_ns: u64,
    server: ServerState,
    /// Reservations that wait for the server.
    waiting: Vec<Attempt>,
}

#[derive(Debug, PartialEq, Eq)]
enum ServerState {
    Off,
    Starting,
    On(u16),
}

impl Session {
    /// A time of the controller's clock by this one. A message takes some time, so that this is
    /// late by the shortest.
    fn local(&self, theirs: Mono) -> Mono {
        Mono(u64::try_from(i128::from(theirs.0) + self.offset.smallest()).unwrap_or(0))
    }
}

/// Lead of this clock over a controller's, ns: the smallest difference in the messages of the last
/// two windows, since each message takes some time. Older differences are dropped: clocks drift,
/// and a suspended host's stands still, after which orders would seem out of date.
#[derive(Clone, Copy, Debug)]
struct Offset {
    /// When the window began that goes on.
    since: Mono,
    /// Smallest difference of this window.
    latest: i128,
    /// Smallest difference of the window before.
    earlier: i128,
}

impl Offset {
    fn new(now: Mono, theirs: Mono) -> Offset {
        let difference = difference(now, theirs);
        Offset { since: now, latest: difference, earlier: difference }
    }

    fn add(&mut self, now: Mono, theirs: Mono) {
        let difference = difference(now, theirs);
        if now.since(self.since) >= OFFSET_WINDOW {
            *self = Offset { since: now, latest: difference, earlier: self.latest };
        } else {
            self.latest = self.latest.min(difference);
        }
    }

    fn smallest(&self) -> i128 {
        self.latest.min(self.earlier)
    }
}

fn difference(now: Mono, theirs: Mono) -> i128 {
    i128::from(now.0) - i128::from(theirs.0)
}

/// A test whose process runs.
#[derive(Debug)]
struct Running {
    until: Mono,
    /// Why it is to end before its time.
    ends: Option<Reason>,
    killed: bool,
}

/// The agent of a host.
pub struct Agent {
    resource: String,
    program: String,
    ceilings: Ceilings,
    admission: Admission,
    spool: Spool,
    programs: Box<dyn Programs>,
    read: WordReader,
    sessions: BTreeMap<Uuid, Session>,
    running: BTreeMap<(Uuid, Attempt), Running>,
    /// The holder whose order is being carried out.
    asking: Option<Arc<Holder>>,
    /// Reports, each with whom it is for.
    out: Vec<(Arc<Holder>, Of<Report>)>,
}

impl Agent {
    /// An agent that knows no run: `resource` is the resource of its tests, `program` the version
    /// of the program; results wait in `spool`, `lock` is an exclusive test's lock, and `read`
    /// gives the demand of a test's words.
    #[must_use]
    pub fn new(
        resource: String,
        program: String,
        ceilings: Ceilings,
        spool: Spool,
        lock: Box<dyn HostLock>,
        programs: Box<dyn Programs>,
        read: WordReader,
    ) -> Agent {
        Agent {
            resource,
            program,
            admission: Admission::new(ceilings.share, ceilings.rate, lock),
            ceilings,
            spool,
            programs,
            read,
            sessions: BTreeMap::new(),
            running: BTreeMap::new(),
            asking: None,
            out: Vec::new(),
        }
    }

    /// Reports to send, and their receivers.
    pub(crate) fn take_reports(&mut self) -> Vec<(Arc<Holder>, Of<Report>)> {
        std::mem::take(&mut self.out)
    }

    /// True if no test runs and none is reserved.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.admission.held.is_empty()
    }

    /// Says who it is.
    pub(crate) fn introduce(&mut self, run: Uuid) {
        self.report(run, self.hello());
    }

    /// The first line on a connection.
    pub(crate) fn introduction(&self) -> Of<Report> {
        Of::new(Uuid::nil(), self.hello())
    }

    fn hello(&self) -> Report {
        Report::Hello { version: VERSION, program: self.program.clone() }
    }

    fn report(&mut self, run: Uuid, message: Report) {
        let owner = || self.sessions.get(&run).map(|session| Arc::clone(&session.holder));
        let to = self.asking.clone().or_else(owner).unwrap_or_default();
        self.out.push((to, Of::new(run, message)));
    }

    /// The order of a controller with this key.
    pub(crate) fn on_order(&mut self, now: Mono, from: &Arc<Holder>, order: Of<Order>) {
        self.asking = Some(Arc::clone(from));
        if let Err(report) = self.obey(now, from, order.run, order.epoch, order.message) {
            self.report(order.run, report);
        }
        self.asking = None;
    }

    /// Carries an order out, or returns the report that the controller gets instead.
    fn obey(
        &mut self,
        now: Mono,
        from: &Arc<Holder>,
        run: Uuid,
        epoch: u64,
        order: Order,
    ) -> Result<(), Report> {
        if let Order::Hello { version, epoch, key, now: theirs, patience_ns } = order {
            let session = Session {
                holder: Arc::clone(from),
                epoch,
                key: key.unwrap_or_default(),
                offset: Offset::new(now, theirs),
                heard: now,
                patience_ns: patience_ns.clamp(SECOND, MAX_PATIENCE),
                server: ServerState::Off,
                waiting: Vec::new(),
            };
            return self.on_hello(run, version, session);
        }
        // A run of another key is unknown to this one.
        let own = self.sessions.get_mut(&run).filter(|session| session.holder.name == from.name);
        let Some(session) = own else { return Err(self.hello()) };
        // Another controller has taken the run over from this one, which does not know it yet.
        if (1..session.epoch).contains(&epoch) {
            return Ok(());
        }
        session.heard = now;
        match order {
            Order::Hello { .. } => {}
            Order::Reserve { attempt, class, until, test } => {
                let until = session.local(until);
                let wanted =
                    AdmittedTest { run, attempt, class, from: now, until, is_client: false, rate: None };
                return self.on_reserve(wanted, from, test);
            }
            Order::Run { attempt, class, until, verb, arguments, target } => {
                let until = session.local(until);
                let wanted =
                    AdmittedTest { run, attempt, class, from: now, until, is_client: true, rate: None };
                return self.on_run(wanted, from, Words { verb, arguments }, &target);
            }
            Order::Release { attempt } => {
                session.waiting.retain(|waiting| *waiting != attempt);
                if !self.running.contains_key(&(run, attempt)) {
                    self.admission.release(now, run, attempt);
                }
            }
            Order::Stored { tasks, numbers } => {
                let numbers = numbers.into_iter().map(Some).chain(std::iter::repeat(None));
                for (task, number) in tasks.into_iter().zip(numbers) {
                    self.spool.stored(run, task, number);
                }
            }
            Order::Alive { now: theirs } => {
                // A transport that looks for silent agents knows no controller's clock.
                if theirs != Mono(0) {
                    session.offset.add(now, theirs);
                }
                self.report(run, Report::Alive);
            }
            Order::Bye => self.on_bye(now, run),
        }
        Ok(())
    }

    fn on_hello(&mut self, run: Uuid, version: u32, mut session: Session) -> Result<(), Report> {
        let rejected = |reason, why: String| Err(Report::Rejected { reason, why });
        if version != VERSION {
            let program = &self.program;
            let why = format!("the agent ({program}) speaks version {VERSION} and the controller {version}");
            return rejected(Reason::Version, why);
        }
        let is_drawn = |key: &str| {
            let digits = key.strip_prefix(DRAWN.0).unwrap_or_default();
            digits.len() == DRAWN.1 && digits.bytes().all(|c| c.is_ascii_hexdigit())
        };
        if !is_drawn(&session.key) {
            let why = "the run has no drawn key, and its server would answer everybody";
            return rejected(Reason::Refused, why.to_owned());
        }
        let name = &session.holder.name;
        let is_foreign = self.sessions.get(&run).is_some_and(|known| known.holder.name != *name);
        if is_foreign || self.spool.of(run).any(|kept| kept.owner != *name) {
            return rejected(Reason::Refused, "the run belongs to another key".to_owned());
        }
        match self.sessions.get(&run) {
            Some(known) if known.epoch > session.epoch => {
                return rejected(Reason::Refused, "another controller has taken the run over".to_owned());
            }
            None if self.sessions.len() >= MAX_RUNS => {
                return rejected(Reason::Busy, format!("the agent works for {MAX_RUNS} runs already"));
            }
            _ => {}
        }
        match self.sessions.remove(&run) {
            Some(before) if before.key == session.key => session.server = before.server,
            Some(before) if before.server != ServerState::Off => self.programs.end_server(run),
            _ => {}
        }
        let held = self.admission.held.iter().filter(|held| held.run == run);
        let held_ns = held.map(|held| held.until.since(session.heard)).max().unwrap_or(0);
        // Another agent may be the one that a controller before has started.
        let held_ns = (!self.admission.is_elsewhere()).then_some(held_ns);
        self.sessions.insert(run, session);
        self.report(run, Report::Ready { resource: self.resource.clone(), held_ns });
        // An agent that was started by another controller may have left some.
        self.spool.read();
        let kept: Vec<Kept> = self.spool.of(run).cloned().collect();
        kept.into_iter().for_each(|kept| self.report(run, Report::Ended(kept)));
        Ok(())
    }

    /// The ceilings of orders with this key.
    fn ceilings_of(&self, holder: &Holder) -> Ceilings {
        let rights = &holder.rights;
        Ceilings {
            rate: self.ceilings.rate.into_iter().chain(rights.rate).min(),
            time_ns: self.ceilings.time_ns.min(rights.time_ns),
            verbs: rights.verbs.clone(),
            exclusive: rights.exclusive,
            ..self.ceilings.clone()
        }
    }

    /// Accepts the length of a test, or returns the refusal.
    fn may_last(&self, wanted: &AdmittedTest, ceilings: &Ceilings) -> Result<(), Report> {
        let AdmittedTest { attempt, class, from: now, until, .. } = *wanted;
        let refused = |reason, why| Err(Report::Refused { attempt, reason, why });
        let (length, show) = (until.since(now), |ns: u64| metrics::format_duration(metrics::real(ns)));
        if until <= now {
            // The order was too long on its way: the controller does not wait any more.
            return Err(Report::Busy { attempt, for_ns: 0 });
        }
        if self.spool.is_full() {
            let why = "the agent keeps as many results as it can, which no controller has read";
            return refused(Reason::Busy, why.to_owned());
        }
        if class == CostClass::Exclusive && !ceilings.exclusive {
            return refused(Reason::Refused, "this key lets no test have a host to itself".to_owned());
        }
        if length > ceilings.time_ns.saturating_add(SLACK) {
            let most = show(ceilings.time_ns);
            let why = format!("the test may take longer than the {most} that the agent allows");
            return refused(Reason::Refused, why);
        }
        // A test that is longer than all of the agent's share would be put off again and again.
        // Later attempts have more time than the test needs.
        match self.admission.longest().filter(|most| attempt.number <= 1 && length > *most) {
            Some(most) => {
                let (asked, most) = (show(length), show(most));
                let why = format!("the test may take {asked}, and --max-share leaves {most} of ten minutes");
                refused(Reason::Refused, why)
            }
            None => Ok(()),
        }
    }

    /// Admits a test where the host, and the rate of the key, has room for it.
    fn admit(&mut self, wanted: AdmittedTest, holder: &Holder) -> Result<(), Report> {
        if let Some(most) = holder.rights.rate {
            let is_same = |run: &Uuid| self.sessions.get(run).is_some_and(|of| of.holder.name == holder.name);
            let held = self.admission.held.iter().filter(|held| is_same(&held.run));
            let rate = |held: &AdmittedTest| held.rate.unwrap_or(most);
            if held.clone().map(rate).fold(rate(&wanted), u64::saturating_add) > most
                && let Some(until) = held.map(|held| held.until).min()
            {
                let for_ns = until.since(wanted.from).max(SECOND / 1000);
                return Err(Report::Busy { attempt: wanted.attempt, for_ns });
            }
        }
        let admitted = self.admission.admit(wanted.from, wanted);
        admitted.map_err(|for_ns| Report::Busy { attempt: wanted.attempt, for_ns })
    }

    /// The reservation of a test, by the demand of its words, if the controller sent them.
    fn reservation(
        &self,
        wanted: AdmittedTest,
        test: Option<Words>,
        holder: &Holder,
        ceilings: &Ceilings,
    ) -> Result<AdmittedTest, String> {
        let Some(Words { verb, arguments }) = test else {
            let is_bounded = ceilings.rate.is_some() || ceilings.share < 1.0;
            let is_bounded = is_bounded || holder.rights != Ceilings::none();
            let class = if is_bounded { CostClass::Exclusive } else { wanted.class };
            return Ok(AdmittedTest { class, ..wanted });
        };
        // The server reduces excessive demands, whichever test it serves.
        let most = Ceilings { verbs: ceilings.verbs.clone(), ..Ceilings::none() };
        let (_, asked) = options::limited(verb, &arguments, &most, self.read)?;
        let rate = asked.cost.rate_bps.into_iter().chain(ceilings.rate).min();
        Ok(AdmittedTest { class: asked.class.min(wanted.class), rate, ..wanted })
    }

    fn on_reserve(&mut self, wanted: AdmittedTest, from: &Holder, test: Option<Words>) -> Result<(), Report> {
        let AdmittedTest { run, attempt, from: now, until, .. } = wanted;
        let ceilings = self.ceilings_of(from);
        // A controller that has taken the run over may want the same attempt until later.
        let most = now.plus(ceilings.time_ns.saturating_add(SLACK));
        if !self.admission.extend(run, attempt, until.min(most)) {
            let wanted = self.reservation(wanted, test, from, &ceilings);
            let wanted = wanted.map_err(|why| Report::Refused {
                attempt,
                reason: Reason::Refused,
                why: bounded(&why),
            })?;
            self.may_last(&wanted, &ceilings)?;
            self.admit(wanted, from)?;
        }
        let Some(session) = self.sessions.get_mut(&run) else { return Ok(()) };
        match session.server {
            ServerState::On(port) => self.report(run, Report::Reserved { attempt, port }),
            ServerState::Off => {
                session.server = ServerState::Starting;
                session.waiting.push(attempt);
                self.programs.serve(run, &session.key, &ceilings);
            }
            ServerState::Starting if !session.waiting.contains(&attempt) => session.waiting.push(attempt),
            ServerState::Starting => {}
        }
        Ok(())
    }

    fn on_run(
        &mut self,
        wanted: AdmittedTest,
        from: &Holder,
        test: Words,
        target: &Target,
    ) -> Result<(), Report> {
        let AdmittedTest { run, attempt, until, .. } = wanted;
        let Words { verb, arguments } = test;
        // The failure of another attempt does not answer this order. An outcome does: the test need
        // not run again.
        let kept = self.spool.get(run, attempt.task);
        let kept = kept.filter(|kept| kept.attempt == attempt || kept.ending.reason().is_none());
        if let Some(kept) = kept.cloned() {
            if kept.attempt != attempt {
                self.report(run, Report::Ended(kept));
                return Err(Report::Busy { attempt, for_ns: 0 });
            }
            return Err(Report::Ended(kept));
        }
        if self.running.contains_key(&(run, attempt)) {
            return Ok(());
        }
        let refused = |why: String| Report::Refused { attempt, reason: Reason::Refused, why: bounded(&why) };
        let ceilings = self.ceilings_of(from);
        let target_words = options::target(target, &ceilings).map_err(refused)?;
        let (more, asked) = options::limited(verb, &arguments, &ceilings, self.read).map_err(refused)?;
        // A controller may ask for more care than the test needs, not for less.
        let wanted =
            AdmittedTest { class: asked.class.min(wanted.class), rate: asked.cost.rate_bps, ..wanted };
        self.may_last(&wanted, &ceilings)?;
        self.admit(wanted, from)?;
        // The controller that orders another attempt has given up the one before.
        self.spool.forget(run, attempt.task);
        let (first, last) = (vec![verb.name().to_owned()], vec!["--json".to_owned()]);
        let words = [first, target_words, arguments, more, last].concat();
        self.running.insert((run, attempt), Running { until, ends: None, killed: false });
        // A server of another program has no key of ours.
        let key = self.sessions.get(&run).map(|session| session.key.as_str());
        self.programs.start(run, attempt, words, key.filter(|_| target.protocol.is_none()));
        Ok(())
    }

    fn on_bye(&mut self, now: Mono, run: Uuid) {
        let own = self.running.iter_mut().filter(|((of, _), test)| *of == run && test.ends.is_none());
        for ((_, attempt), test) in own {
            test.ends = Some(Reason::Cancelled);
            self.programs.end(run, *attempt, false);
        }
        let reserved = self.admission.held.iter().filter(|held| held.run == run && !held.is_client);
        for attempt in reserved.map(|held| held.attempt).collect::<Vec<_>>() {
            self.admission.release(now, run, attempt);
        }
        self.forget_run(run);
    }

    fn forget_run(&mut self, run: Uuid) {
        if self.sessions.remove(&run).is_some_and(|session| session.server != ServerState::Off) {
            self.programs.end_server(run);
        }
    }

    /// All controllers are gone: tests that run may end in their time, nothing new begins.
    pub(crate) fn on_silence(&mut self) {
        self.sessions.values_mut().for_each(|session| session.patience_ns = 0);
    }

    /// Handles the event of a process.
    pub(crate) fn on_happened(&mut self, now: Mono, happened: Happened) {
        match happened {
            Happened::Serving { run, port } => self.on_serving(now, run, port),
            Happened::Over { run, attempt, left } => self.on_over(now, run, attempt, left),
        }
    }

    fn on_serving(&mut self, now: Mono, run: Uuid, port: Result<u16, String>) {
        let Some(session) = self.sessions.get_mut(&run) else { return };
        let waiting = std::mem::take(&mut session.waiting);
        session.server = port.as_ref().map_or(ServerState::Off, |port| ServerState::On(*port));
        for attempt in waiting {
            let report = match &port {
                Ok(port) => Report::Reserved { attempt, port: *port },
                Err(why) => {
                    self.admission.release(now, run, attempt);
                    Report::Refused { attempt, reason: Reason::Failed, why: bounded(why) }
                }
            };
            self.report(run, report);
        }
    }

    fn on_over(&mut self, now: Mono, run: Uuid, attempt: Attempt, left: Left) {
        let Some(test) = self.running.remove(&(run, attempt)) else { return };
        self.admission.release(now, run, attempt);
        // After the controller's farewell no one collects it.
        let Some(session) = self.sessions.get(&run) else { return };
        let kept = Kept { attempt, ending: ending(&test, left), owner: session.holder.name.clone() };
        self.spool.keep(run, kept.clone());
        self.report(run, Report::Ended(kept));
    }

    /// Does due work.
    pub(crate) fn tick(&mut self, now: Mono) {
        self.admission.expire(now);
        for ((run, attempt), test) in &mut self.running {
            if test.until <= now && !test.killed {
                test.ends.get_or_insert(Reason::TimedOut);
                test.killed = true;
                self.programs.end(*run, *attempt, true);
            } else if test.until <= now.plus(NOTICE) && test.ends.is_none() {
                test.ends = Some(Reason::TimedOut);
                self.programs.end(*run, *attempt, false);
            }
        }
        let silent =
            self.sessions.iter().filter(|(_, session)| now.since(session.heard) >= session.patience_ns);
        let uses = |run: Uuid| {
            self.running.keys().any(|(of, _)| *of == run)
                || self.admission.held.iter().any(|held| held.run == run)
        };
        let over: Vec<Uuid> = silent.map(|(run, _)| *run).filter(|run| !uses(*run)).collect();
        over.into_iter().for_each(|run| self.forget_run(run));
    }

    /// When [`Agent::tick`] has something to do, if nothing else happens.
    pub(crate) fn wake(&self, now: Mono) -> Option<Mono> {
        let tests = self.running.values().filter(|test| !test.killed).map(|test| match test.ends {
            None => Mono(test.until.0.saturating_sub(NOTICE)),
            Some(_) => test.until,
        });
        // A controller that is gone while its tests run is looked at again when they are over.
        let silences = self.sessions.values().map(|session| session.heard.plus(session.patience_ns));
        tests.chain(silences.filter(|at| *at > now)).chain(self.admission.next_end()).min()
    }
}

/// Ending of a test, from the remains of its process.
fn ending(test: &Running, left: Left) -> Ending {
    let said = bounded(left.said.trim());
    let said = said.strip_prefix("netcaliper: ").unwrap_or(&said);
    let crashed = "the test was killed, or crashed";
    match (test.ends, left.code) {
        (Some(Reason::TimedOut), _) => Ending::missing(Reason::TimedOut, "the test did not end in its time"),
        (Some(reason), _) => Ending::missing(reason, ""),
        // An assertion of the test that does not hold is a result, too.
        (None, Some(0 | 3)) => match outcome(&left.out) {
            Ok(document) => Ending::Measured(document),
            Err(why) => Ending::missing(Reason::BadResult, why),
        },
        (None, Some(2)) => Ending::missing(Reason::Refused, said),
        (None, Some(_)) => {
            let document = outcome(&left.out).ok();
            Ending::Missing { reason: Reason::Failed, detail: said.to_owned(), document }
        }
        (None, None) if said.is_empty() => Ending::missing(Reason::Failed, crashed),
        (None, None) => Ending::missing(Reason::Failed, format!("{crashed}: {said}")),
    }
}

/// The document that a test printed, as it fits into a report; its controller reads it.
fn outcome(out: &[u8]) -> Result<Box<RawValue>, &'static str> {
    if out.len() > 8 * MAX_OUTCOME {
        return Err("the test printed more than an outcome has");
    }
    let text = std::str::from_utf8(out).map_err(|_| "the test printed no text")?;
    match RawValue::from_string(compact(text)) {
        Ok(document) if document.get().len() > MAX_OUTCOME => {
            Err("the outcome is longer than a report may be")
        }
        Ok(document) => Ok(document),
        Err(_) => Err("the test printed no outcome"),
    }
}
