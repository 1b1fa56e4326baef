//! Common parts of every session: requests in order, reports to the user, and a status at the end.

use crate::counted::Intervals;
use crate::quota::Lines;
use metrics::{Group, Mono, Tally};
use model::ending::{Account, JudgedPhase};
use model::{Event, Level, Phase, Status, Totals};
use std::collections::{HashSet, VecDeque};
use transport::{Action, Context, End, GroupPlan, Link, LinkSource, Order};

/// Most different notices of flows in one run.
const NOTICES: usize = 100;

/// Reason of a run that its user ends.
const INTERRUPTED: &str = "interrupted by the user";

/// Requests and reports of a session, in order, and the ending of its run, once known.
pub struct Driver {
    actions: VecDeque<Action>,
    /// Makes the intervals of reports.
    pub intervals: Intervals,
    /// Both ends' counts, by which the run's ending is judged.
    pub account: Account,
    /// Begin of the run, until it is reported.
    start: Option<Mono>,
    /// Ending of the run.
    pub status: Status,
    /// Why, unless it is complete.
    pub reason: Option<String>,
    notices: HashSet<String>,
    /// Limits how often a warning says that waiting connections were closed to make room for new
    /// ones.
    crowd: Lines,
}

impl Driver {
    /// A run whose intervals count from `start`; the first `omit` ns do not count.
    pub fn new(start: Mono, omit: u64, phase: &Phase) -> Self {
        Driver {
            actions: VecDeque::new(),
            intervals: Intervals::new(start, omit, phase),
            account: Account::default(),
            start: None,
            status: Status::Complete,
            reason: None,
            notices: HashSet::new(),
            crowd: Lines::default(),
        }
    }

    /// The same; the first report is this begin.
    #[must_use]
    pub fn begun(self, start: Mono) -> Self {
        Driver { start: Some(start), ..self }
    }

    /// Intervals count from `start` instead.
    pub fn count_from(&mut self, start: Mono, omit: u64, phase: &Phase) {
        self.intervals = Intervals::new(start, omit, phase);
    }

    /// The next thing to do.
    pub fn next(&mut self, cx: &Context<'_>) -> Option<Action> {
        match self.start.take() {
            Some(start) => Some(Event::Start { at: cx.clock.wall(start) }.into()),
            None => self.actions.pop_front(),
        }
    }

    /// Starts a group, whose links these make.
    pub fn group(&mut self, plan: GroupPlan, sources: Vec<LinkSource>) {
        self.ask(Action::Group(Box::new(plan), sources));
    }

    /// Queues a request, or an event.
    pub fn ask(&mut self, action: impl Into<Action>) {
        let action = action.into();
        if let Action::Emit(event) = &action {
            self.account.absorb(event);
        }
        self.actions.push_back(action);
    }

    /// Gives a group an order.
    pub fn order(&mut self, group: Group, order: Order) {
        self.ask(Action::Order(group, order));
    }

    /// Sends bytes on a control link.
    pub fn send(&mut self, link: Link, bytes: Vec<u8>) {
        self.ask(Action::Send(link, bytes));
    }

    /// Ends a control link in good order.
    pub fn close(&mut self, link: Link) {
        self.ask(Action::Close(link, End::COMPLETED));
    }

    /// Reports a notice to the user.
    pub fn notice(&mut self, level: Level, text: impl Into<String>) {
        self.ask(Event::Notice { level, text: text.into() });
    }

    /// Reports, at most once a minute, that `n` more connections without data had to give way.
    pub fn crowded(&mut self, now: Mono, n: u64) {
        if let Some(before) = self.crowd.due(now) {
            let n = n.saturating_add(before);
            let text = format!("too many connections that say nothing: {n} had to give way to newer ones");
            self.notice(Level::Warning, text);
        }
    }

    /// Passes on events of flows: the same notice once, and a limited number of them.
    pub fn forward(&mut self, event: Event) {
        let passes = match &event {
            Event::Notice { text, .. } => self.notices.len() < NOTICES && self.notices.insert(text.clone()),
            _ => true,
        };
        if passes {
            self.ask(event);
        }
    }

    /// Reports a group's counts of an interval.
    pub fn interval(&mut self, index: u32, from: Mono, to: Mono, tally: &Tally) {
        let interval = self.intervals.next(index, from, to, tally);
        self.ask(Event::Interval(Box::new(interval)));
    }

    /// Reports the traffic of all clients of a server together in an interval.
    pub fn traffic(&mut self, index: u32, from: Mono, to: Mono, tally: &Tally) {
        let mut interval = self.intervals.next(index, from, to, tally);
        (interval.frames, interval.packets, interval.pings) = (None, None, None);
        self.ask(Event::Interval(Box::new(interval)));
    }

    /// The run ends so and for this reason, unless it has another one already.
    pub fn fails(&mut self, status: Status, reason: impl Into<String>) {
        if self.status == Status::Complete {
            (self.status, self.reason) = (status, Some(reason.into()));
        }
    }

    /// The user ends the run; whether that is the first time.
    pub fn interrupt(&mut self) -> bool {
        let first = self.status != Status::Interrupted;
        (self.status, self.reason) = (Status::Interrupted, Some(INTERRUPTED.to_owned()));
        first
    }

    /// The run is over; with the totals of this end, where there are any. The counts decide the
    /// ending of the request; a server, which has none, ends as its session says.
    pub fn finish(&mut self, asked: Option<JudgedPhase<'_>>, local: Option<Box<Totals>>) {
        if let Some(totals) = local {
            self.ask(Event::Local(totals));
        }
        let proposed = (self.status, self.reason.take());
        let (status, reason) = match asked {
            Some(asked) => self.account.ending(asked, proposed),
            None => proposed,
        };
        if let Some(why) = reason.as_ref().filter(|_| status != self.status) {
            self.notice(Level::Error, why);
        }
        // A session that waits for its server's results has no reason until then.
        let interrupted = || (status == Status::Interrupted).then(|| INTERRUPTED.to_owned());
        let reason = reason.or_else(interrupted);
        self.status = status;
        self.ask(Event::PhaseEnd { status, reason });
        self.ask(Action::Done);
    }
}
