//! What a machine of a network keeps in memory, and how late its flows and its session are served.

use super::platform::lock;
use super::session::SessionState;
use metrics::{Ending, Mono};
use std::sync::{Arc, Mutex};
use transport::{
    Batch, Burst, Card, Cause, Cx, Flow, Held, News, Open, Opener, Path, Violation, Want, Wrote,
};

/// What a machine keeps, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// What its threads keep. Messages are those in mailboxes, too.
    pub held: Held,
    /// Flows, with a link or without.
    pub flows: usize,
}

/// What a process keeps now, and the most that it has kept so far, each by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loads {
    pub(super) now: Held,
    pub(super) most: Held,
}

impl Loads {
    /// A thread that kept `before` keeps `after`.
    pub(super) fn change(&mut self, before: Held, after: Held) {
        let Loads { now, most } = self;
        let change = |now: &mut usize, most: &mut usize, before: usize, after: usize| {
            *now = *now + after - before;
            *most = (*most).max(*now);
        };
        change(&mut now.links, &mut most.links, before.links, after.links);
        change(&mut now.timers, &mut most.timers, before.timers, after.timers);
        change(&mut now.messages, &mut most.messages, before.messages, after.messages);
        change(&mut now.bytes, &mut most.bytes, before.bytes, after.bytes);
    }
}

type State = Arc<Mutex<SessionState>>;

/// An opener whose flows are counted and timed.
pub(super) struct MeasuredOpener {
    pub(super) opener: Box<dyn Opener>,
    pub(super) state: State,
}

impl MeasuredOpener {
    fn measured(&self, flow: Box<dyn Flow>) -> Box<dyn Flow> {
        let mut state = lock(&self.state);
        state.flows += 1;
        state.most_flows = state.most_flows.max(state.flows);
        Box::new(MeasuredFlow { flow, state: Arc::clone(&self.state), last: None })
    }
}

impl Opener for MeasuredOpener {
    fn open(&mut self, cx: &mut Cx<'_>) -> Open {
        match self.opener.open(cx) {
            Open::Flow(flow, target) => Open::Flow(self.measured(flow), target),
            Open::Datagram(flow, target) => Open::Datagram(self.measured(flow), target),
            other => other,
        }
    }

    fn accept(&mut self, cx: &mut Cx<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        self.opener.accept(cx, path).map(|flow| self.measured(flow))
    }

    fn knock(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Option<Box<dyn Flow>> {
        self.opener.knock(cx, got, reply).map(|flow| self.measured(flow))
    }

    fn tend(&mut self, cx: &mut Cx<'_>) -> Option<Mono> {
        self.opener.tend(cx)
    }

    fn closed(&mut self, cx: &mut Cx<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        self.opener.closed(cx, flow, how);
    }

    fn stop(&mut self) {
        self.opener.stop();
    }
}

struct MeasuredFlow {
    flow: Box<dyn Flow>,
    state: State,
    /// When it was called last, once its link is up.
    last: Option<Mono>,
}

impl MeasuredFlow {
    /// Before a call: when it should have been woken earlier, it is late.
    fn time(&mut self, now: Mono) {
        if let Some(last) = self.last.replace(now)
            && let Some(due) = self.flow.want().wake.map(|wake| wake.max(last))
            && due < now
        {
            let mut state = lock(&self.state);
            state.late = state.late.max(now.since(due));
        }
    }
}

impl Flow for MeasuredFlow {
    fn want(&self) -> Want {
        self.flow.want()
    }

    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Burst<'_>) {
        self.time(cx.now);
        self.flow.fill(cx, out);
    }

    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        self.flow.wrote(cx, n);
    }

    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Result<(), Violation> {
        self.time(cx.now);
        self.flow.take(cx, got, reply)
    }

    fn hear(&mut self, cx: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        match news {
            News::Up(_) => self.last = Some(cx.now),
            _ => self.time(cx.now),
        }
        self.flow.hear(cx, news)
    }

    fn curious(&self) -> bool {
        self.flow.curious()
    }

    fn card(&self) -> Card {
        self.flow.card()
    }
}

impl Drop for MeasuredFlow {
    fn drop(&mut self) {
        lock(&self.state).flows -= 1;
    }
}
