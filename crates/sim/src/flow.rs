//! Flows that a test inspects: they run on a worker, and count into a recorder that belongs to the test.

use super::platform::lock;
use super::side::Side;
use metrics::{Ending, Group, Mono, Row};
use std::sync::{Arc, Mutex};
use transport::{
    Batch, Burst, Card, Cause, Cx, End, Flow, News, Open, Opener, Path, Read, Target, Violation, Want, When,
    Wrote,
};

/// The group that both ends count under.
pub(super) const GROUP: Group = Group(1);

/// A flow that does nothing.
pub(super) struct NoFlow;

impl Flow for NoFlow {
    fn want(&self) -> Want {
        Want { send: When::Never, read: Read::Pause, wake: None, end: None }
    }
    fn fill(&mut self, _: &mut Cx<'_>, _: &mut Burst<'_>) {}
    fn wrote(&mut self, _: &mut Cx<'_>, _: Wrote) {}
    fn take(&mut self, _: &mut Cx<'_>, _: &Batch<'_>, _: &mut Burst<'_>) -> Result<(), Violation> {
        Ok(())
    }
    fn hear(&mut self, _: &mut Cx<'_>, _: News) -> Result<(), Violation> {
        Ok(())
    }
    fn card(&self) -> Card {
        Card::default()
    }
}

/// A flow and what it uses, shared by the worker that runs it and the test.
pub(super) struct FlowState {
    pub(super) side: Side,
    pub(super) flow: Box<dyn Flow>,
    /// Its row in the worker's recorder.
    row: Option<Row>,
    pub(super) ended: Option<(Mono, Result<Ending, Cause>)>,
    pub(super) lifted: bool,
}

/// A flow as its worker has it.
#[derive(Clone)]
pub(super) struct ObservedFlow(pub(super) Arc<Mutex<FlowState>>);

impl ObservedFlow {
    pub(super) fn new(side: Side, flow: Box<dyn Flow>) -> Self {
        ObservedFlow(Arc::new(Mutex::new(FlowState { side, flow, row: None, ended: None, lifted: false })))
    }

    /// Calls the flow with the test's recorder, and with the worker's clock.
    fn call<T>(&self, cx: &mut Cx<'_>, what: impl FnOnce(&mut dyn Flow, &mut Cx<'_>) -> T) -> T {
        let FlowState { side, flow, row, .. } = &mut *lock(&self.0);
        let Side { rec, post, rng, .. } = side;
        let result = what(&mut **flow, &mut Cx { now: cx.now, clock: cx.clock, rng, rec, post });
        if row.is_none() && flow.card().row.is_some() {
            *row = Some(cx.rec.open(GROUP, cx.now));
        }
        result
    }
}

impl Flow for ObservedFlow {
    fn want(&self) -> Want {
        let mut state = lock(&self.0);
        let want = state.flow.want();
        assert_eq!(want, state.flow.want(), "want() must change nothing");
        state.lifted |= want.end == Some(End::Lift);
        want
    }
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Burst<'_>) {
        self.call(cx, |flow, cx| flow.fill(cx, out));
    }
    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        self.call(cx, |flow, cx| flow.wrote(cx, n));
    }
    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Result<(), Violation> {
        self.call(cx, |flow, cx| flow.take(cx, got, reply))
    }
    fn hear(&mut self, cx: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        self.call(cx, |flow, cx| flow.hear(cx, news))
    }
    fn curious(&self) -> bool {
        lock(&self.0).flow.curious()
    }
    fn card(&self) -> Card {
        let state = lock(&self.0);
        Card { row: state.row, ..state.flow.card() }
    }
}

/// How a flow gets its socket.
pub(super) enum Source {
    /// It connects to a target, by a connection or by datagrams, at an instant.
    Connects { target: Target, datagrams: bool, at: Mono },
    /// It gets the next connection that is accepted.
    Accepts,
    /// An opener makes it for a peer whose datagrams come to a bound UDP socket.
    Knocked(Box<dyn Opener>),
}

/// The opener of one flow.
pub(super) struct SingleFlow {
    pub(super) flow: ObservedFlow,
    pub(super) source: Source,
    pub(super) used: bool,
}

impl Opener for SingleFlow {
    fn open(&mut self, cx: &mut Cx<'_>) -> Open {
        match self.source {
            Source::Connects { at, .. } if cx.now < at => Open::At(at),
            Source::Connects { target, datagrams, .. } if !std::mem::replace(&mut self.used, true) => {
                let flow = Box::new(self.flow.clone());
                if datagrams { Open::Datagram(flow, target) } else { Open::Flow(flow, target) }
            }
            _ => Open::Done,
        }
    }

    fn accept(&mut self, _: &mut Cx<'_>, _: &Path) -> Option<Box<dyn Flow>> {
        let free = matches!(self.source, Source::Accepts) && !std::mem::replace(&mut self.used, true);
        free.then(|| Box::new(self.flow.clone()) as Box<dyn Flow>)
    }

    fn knock(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Option<Box<dyn Flow>> {
        let Source::Knocked(opener) = &mut self.source else { return None };
        let state = &mut *lock(&self.flow.0);
        let Side { rec, post, rng, .. } = &mut state.side;
        let flow = opener.knock(&mut Cx { now: cx.now, clock: cx.clock, rng, rec, post }, got, reply)?;
        state.flow = flow;
        Some(Box::new(self.flow.clone()))
    }

    fn closed(&mut self, cx: &mut Cx<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        lock(&self.flow.0).ended = Some((cx.now, how.clone()));
    }

    fn stop(&mut self) {}
}
