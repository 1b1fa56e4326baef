//! What every session does alike: it asks for one thing after the other, tells its user what happens, and ends with a status.

use crate::counted::Intervals;
use crate::quota::Lines;
use metrics::{Group, Mono, Tally};
use model::ending::{Account, Asked};
use model::{Event, Level, Phase, Status, Totals};
use std::collections::{HashSet, VecDeque};
use transport::{Action, Context, End, GroupPlan, Link, LinkSource, Order};

/// Different notices of flows that are told in one run.
const NOTICES: usize = 100;

/// What a session asks for and tells, in order, and how its run ends as far as that is known.
pub struct Driver {
    actions: VecDeque<Action>,
    /// What tells each interval.
    pub intervals: Intervals,
    /// What both ends have counted, by which the run's ending is judged.
    pub account: Account,
    /// When the run begins, until that is told.
    start: Option<Mono>,
    /// How the run ends.
    pub status: Status,
    /// Why, unless it is complete.
    pub reason: Option<String>,
    notices: HashSet<String>,
    /// Limits how often a warning says that waiting connections were closed to make room for new ones.
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

    /// The same; that it begins then is the first that is told.
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

    /// Asks for something, or tells an event.
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

    /// Tells the user something.
    pub fn notice(&mut self, level: Level, text: impl Into<String>) {
        self.ask(Event::Notice { level, text: text.into() });
    }

    /// Tells, at most once a minute, that `n` more connections which said nothing had to give way.
    pub fn crowded(&mut self, now: Mono, n: u64) {
        if let Some(before) = self.crowd.due(now) {
            let n = n.saturating_add(before);
            let text = format!("too many connections that say nothing: {n} had to give way to newer ones");
            self.notice(Level::Warning, text);
        }
    }

    /// Passes on what flows have told: the same notice once, and not without end.
    pub fn told(&mut self, event: Event) {
        let passes = match &event {
            Event::Notice { text, .. } => self.notices.len() < NOTICES && self.notices.insert(text.clone()),
            _ => true,
        };
        if passes {
            self.ask(event);
        }
    }

    /// Tells what a group counted in an interval.
    pub fn interval(&mut self, index: u32, from: Mono, to: Mono, tally: &Tally) {
        let interval = self.intervals.next(index, from, to, tally);
        self.ask(Event::Interval(Box::new(interval)));
    }

    /// Tells what all clients of a server together moved in an interval.
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
        (self.status, self.reason) = (Status::Interrupted, Some("interrupted by the user".to_owned()));
        first
    }

    /// The run is over; with the totals of this end, where there are any. The counts decide how what was asked for has ended; a server, which
    /// asks for nothing, ends as its session says.
    pub fn finish(&mut self, asked: Option<Asked<'_>>, local: Option<Box<Totals>>) {
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
        self.status = status;
        self.ask(Event::PhaseEnd { status, reason });
        self.ask(Action::Done);
    }
}
