//! A session as its machine sees it, held to the rules of `transport`.

use super::measured::measured;
use super::platform::lock;
use metrics::{Group, Mono};
use model::Event;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use transport::{Action, Context, Input, Link, Session};

/// Wakes in a row after which a session has done nothing: more are a loop without an end.
const PATIENCE: u32 = 1_000;

/// State of a session as the network sees it.
#[derive(Default)]
pub(super) struct SessionState {
    pub(super) events: Vec<(Mono, Event)>,
    pub(super) done: Option<Mono>,
    pub(super) groups: BTreeSet<Group>,
    /// Flows of its groups, and the most that there were at once.
    pub(super) flows: usize,
    pub(super) most_flows: usize,
    /// The longest time by which the session or a flow was woken too late, ns.
    pub(super) late: u64,
}

pub(super) struct ObservedSession {
    session: Box<dyn Session>,
    state: Arc<Mutex<SessionState>>,
    closed: BTreeSet<Link>,
    wakes: u32,
    /// When it was called last.
    last: Option<Mono>,
}

impl ObservedSession {
    pub(super) fn new(session: Box<dyn Session>, state: Arc<Mutex<SessionState>>) -> Self {
        ObservedSession { session, state, closed: BTreeSet::new(), wakes: 0, last: None }
    }
}

impl Session for ObservedSession {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        if let Some(due) = self.session.deadline().zip(self.last).map(|(due, last)| due.max(last)) {
            let mut state = lock(&self.state);
            state.late = state.late.max(cx.now.since(due));
        }
        match &input {
            Input::Dropped(group, _) => drop(lock(&self.state).groups.remove(group)),
            Input::Down(link, _) => drop(self.closed.remove(link)),
            _ => {}
        }
        self.wakes = if let Input::Wake = &input { self.wakes + 1 } else { 0 };
        assert!(self.wakes < PATIENCE, "a session is woken at {:?} and does nothing: it would spin", cx.now);
        self.session.handle(cx, input);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.last = Some(cx.now);
        let mut action = self.session.poll(cx)?;
        self.wakes = 0;
        match &mut action {
            Action::Send(link, _) => {
                assert!(!self.closed.contains(link), "a session sends on a link that it has closed");
            }
            Action::Close(link, _) => drop(self.closed.insert(*link)),
            Action::Group(plan, sources) => {
                let fresh = plan.group == Group::ALL || lock(&self.state).groups.insert(plan.group);
                assert!(fresh, "{:?} is started again before it was dropped", plan.group);
                let state = &self.state;
                let made = std::mem::take(sources).into_iter();
                *sources = made.map(|source| measured(source, state)).collect();
            }
            Action::Done => {
                let mut state = lock(&self.state);
                state.done = state.done.or(Some(cx.now));
            }
            _ => {}
        }
        Some(action)
    }

    fn deadline(&self) -> Option<Mono> {
        self.session.deadline()
    }
}
