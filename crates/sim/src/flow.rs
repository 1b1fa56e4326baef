//! Flows that a test inspects: they run on a worker, and count into a recorder that belongs to the
//! test.

use super::platform::lock;
use super::side::Side;
use metrics::{Ending, Group, Mono, Row};
use std::sync::{Arc, Mutex};
use transport::{
    Acceptor, Cause, Checked, Connector, Context, End, Flow, FlowEvent, FlowId, Interest, Open, Path,
    Received, Sent, Target, Transmit,
};

/// The group that both ends count under.
pub(super) const GROUP: Group = Group(1);

pub(super) struct NoFlow;

impl Flow for NoFlow {
    fn interest(&self) -> Interest {
        Interest::NONE
    }
    fn id(&self) -> FlowId {
        FlowId::default()
    }
}

/// A flow and what it uses, shared by the worker that runs it and the test.
pub(super) struct FlowState {
    pub(super) side: Side,
    pub(super) flow: Box<dyn Flow>,
    /// Its row in the worker's recorder.
    row: Option<Row>,
    pub(super) ended: Option<(Mono, Result<Ending, Cause>)>,
    pub(super) detached: bool,
}

/// A flow as its worker has it.
#[derive(Clone)]
pub(super) struct ObservedFlow(pub(super) Arc<Mutex<FlowState>>);

impl ObservedFlow {
    pub(super) fn new(side: Side, flow: Box<dyn Flow>) -> Self {
        ObservedFlow(Arc::new(Mutex::new(FlowState { side, flow, row: None, ended: None, detached: false })))
    }

    /// Calls the flow with the test's recorder, and with the worker's clock.
    fn call<T>(&self, cx: &mut Context<'_>, what: impl FnOnce(&mut dyn Flow, &mut Context<'_>) -> T) -> T {
        let FlowState { side, flow, row, .. } = &mut *lock(&self.0);
        let Side { rec, outbox, rng, .. } = side;
        let result = what(&mut **flow, &mut Context::new(cx.now, cx.clock, rng, rec, outbox));
        if row.is_none() && flow.id().row.is_some() {
            *row = Some(cx.rec.open(GROUP, cx.now));
        }
        result
    }
}

impl Flow for ObservedFlow {
    fn interest(&self) -> Interest {
        let mut state = lock(&self.0);
        let want = state.flow.interest();
        assert_eq!(want, state.flow.interest(), "want() must change nothing");
        state.detached |= want.end == Some(End::Detach);
        want
    }
    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.call(cx, |flow, cx| flow.prepare_send(cx, out));
    }
    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.call(cx, |flow, cx| flow.on_sent(cx, n));
    }
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        self.call(cx, |flow, cx| flow.on_received(cx, got, reply))
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        self.call(cx, |flow, cx| flow.on_event(cx, event))
    }
    fn wants_socket_state(&self) -> bool {
        lock(&self.0).flow.wants_socket_state()
    }
    fn is_introduced(&self) -> Option<bool> {
        lock(&self.0).flow.is_introduced()
    }
    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        let mut state = lock(&self.0);
        state.flow = state.flow.successor()?;
        Some(Box::new(self.clone()))
    }
    fn id(&self) -> FlowId {
        let state = lock(&self.0);
        FlowId { row: state.row, ..state.flow.id() }
    }
}

/// How a flow gets its socket.
pub(super) enum Source {
    /// It connects to a target, by a connection or by datagrams, at an instant.
    Connects { target: Target, datagrams: bool, at: Mono },
    /// It gets the next connection that is accepted.
    Accepts,
    /// An acceptor makes it for a peer whose datagrams come to a bound UDP socket.
    Unsolicited(Box<dyn Acceptor>),
}

/// The connector or acceptor of one flow.
pub(super) struct SingleFlow {
    pub(super) flow: ObservedFlow,
    pub(super) source: Source,
    pub(super) used: bool,
}

impl Connector for SingleFlow {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        match self.source {
            Source::Connects { at, .. } if cx.now < at => Open::At(at),
            Source::Connects { target, datagrams, .. } if !std::mem::replace(&mut self.used, true) => {
                let flow = Box::new(self.flow.clone());
                if datagrams { Open::Datagram(flow, target) } else { Open::Flow(flow, target) }
            }
            _ => Open::Done,
        }
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        lock(&self.flow.0).ended = Some((cx.now, how.clone()));
    }

    fn stop(&mut self) {}
}

impl Acceptor for SingleFlow {
    fn accept(&mut self, _: &mut Context<'_>, _: &Path) -> Option<Box<dyn Flow>> {
        let free = matches!(self.source, Source::Accepts) && !std::mem::replace(&mut self.used, true);
        free.then(|| Box::new(self.flow.clone()) as Box<dyn Flow>)
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let Source::Unsolicited(acceptor) = &mut self.source else { return None };
        let state = &mut *lock(&self.flow.0);
        let Side { rec, outbox, rng, .. } = &mut state.side;
        let flow =
            acceptor.on_unsolicited(&mut Context::new(cx.now, cx.clock, rng, rec, outbox), got, reply)?;
        state.flow = flow;
        Some(Box::new(self.flow.clone()))
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        lock(&self.flow.0).ended = Some((cx.now, how.clone()));
    }
}
