//! What a machine of a network keeps in memory, and how late its flows and its session are served.

use super::platform::lock;
use super::session::SessionState;
use metrics::{Ending, Mono};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use transport::{
    Acceptor, Cause, Checked, Connector, Context, Fault, Flow, FlowEvent, FlowId, Held, Interest, LinkSource,
    Open, Path, Received, Sent, Transmit,
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

/// A connector or acceptor whose flows are counted and timed.
struct MeasuredSource<S: ?Sized> {
    source: Box<S>,
    state: State,
}

/// The same source, its flows counted and timed in `state`.
pub(super) fn measured(source: LinkSource, state: &State) -> LinkSource {
    let state = Arc::clone(state);
    match source {
        LinkSource::Connector(source) => LinkSource::Connector(Box::new(MeasuredSource { source, state })),
        LinkSource::Acceptor(source) => LinkSource::Acceptor(Box::new(MeasuredSource { source, state })),
    }
}

impl<S: ?Sized> MeasuredSource<S> {
    fn measured(&self, flow: Box<dyn Flow>) -> Box<dyn Flow> {
        let mut state = lock(&self.state);
        state.flows += 1;
        state.most_flows = state.most_flows.max(state.flows);
        Box::new(MeasuredFlow { flow, state: Arc::clone(&self.state), last: None })
    }
}

impl Connector for MeasuredSource<dyn Connector> {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        match self.source.open(cx) {
            Open::Flow(flow, target) => Open::Flow(self.measured(flow), target),
            Open::Datagram(flow, target) => Open::Datagram(self.measured(flow), target),
            other => other,
        }
    }

    fn on_connected(&mut self, to: SocketAddr) {
        self.source.on_connected(to);
    }

    fn on_unconnected(
        &mut self,
        cx: &mut Context<'_>,
        flow: Box<dyn Flow>,
        to: SocketAddr,
        fault: Fault,
    ) -> Option<Box<dyn Flow>> {
        self.source.on_unconnected(cx, flow, to, fault)
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        self.source.on_closed(cx, flow, how);
    }

    fn stop(&mut self) {
        self.source.stop();
    }
}

impl Acceptor for MeasuredSource<dyn Acceptor> {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        self.source.accept(cx, path).map(|flow| self.measured(flow))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        self.source.on_unsolicited(cx, got, reply).map(|flow| self.measured(flow))
    }

    fn on_dropped(&mut self, cx: &mut Context<'_>, buffers: u32) {
        self.source.on_dropped(cx, buffers);
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Mono> {
        self.source.on_timer(cx)
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        self.source.on_closed(cx, flow, how);
    }

    fn stop(&mut self) {
        self.source.stop();
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
            && let Some(due) = self.flow.interest().wake.map(|wake| wake.max(last))
            && due < now
        {
            let mut state = lock(&self.state);
            state.late = state.late.max(now.since(due));
        }
    }
}

impl Flow for MeasuredFlow {
    fn interest(&self) -> Interest {
        self.flow.interest()
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.time(cx.now);
        self.flow.prepare_send(cx, out);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.flow.on_sent(cx, n);
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        self.time(cx.now);
        self.flow.on_received(cx, got, reply)
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(_) => self.last = Some(cx.now),
            _ => self.time(cx.now),
        }
        self.flow.on_event(cx, event)
    }

    fn wants_socket_state(&self) -> bool {
        self.flow.wants_socket_state()
    }

    fn is_introduced(&self) -> Option<bool> {
        self.flow.is_introduced()
    }

    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        let flow = self.flow.successor()?;
        let state = Arc::clone(&self.state);
        lock(&state).flows += 1;
        Some(Box::new(MeasuredFlow { flow, state, last: None }))
    }

    fn id(&self) -> FlowId {
        self.flow.id()
    }
}

impl Drop for MeasuredFlow {
    fn drop(&mut self) {
        lock(&self.state).flows -= 1;
    }
}
