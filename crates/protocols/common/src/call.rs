//! What opens the connections of a client whose protocol has no conversation, and what answers them.

use crate::message::Told;
use crate::one_sided::{Answers, Calls};
use crate::round_robin::RoundRobin;
use crate::{Acl, Limit};
use metrics::{Clamped, Ending};
use model::Phase;
use model::churn::{Broker, Next};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Acceptor, Cause, Connector, Context, Flow, Open, Path, Received, Target, Transmit};

/// Makes the flow of a slot's next connection.
type Make = dyn Fn(&mut Context<'_>, u32) -> Box<dyn Flow> + Send;

/// Opens connections as the broker says, to the targets in turn.
pub struct Caller {
    broker: Broker,
    targets: Vec<SocketAddr>,
    round_robin: RoundRobin,
    datagrams: bool,
    make: Box<Make>,
}

impl Caller {
    /// One per worker of a client. `make` makes flows; they get UDP sockets if `datagrams` says so.
    pub fn for_all<M>(phase: &Phase, calls: &Calls, datagrams: bool, make: &M) -> Vec<Box<dyn Connector>>
    where
        M: Fn(&mut Context<'_>, u32) -> Box<dyn Flow> + Clone + Send + 'static,
    {
        let workers = calls.workers.max(1);
        let one = |worker| {
            let caller = Caller {
                broker: Broker::part(phase, u32::from(worker), u32::from(workers)),
                targets: calls.targets.clone(),
                round_robin: RoundRobin::new(calls.sources.clone(), calls.ports, worker, workers),
                datagrams,
                make: Box::new(make.clone()),
            };
            Box::new(caller) as Box<dyn Connector>
        };
        (0..workers).map(one).collect()
    }
}

impl Connector for Caller {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        let turn = self.round_robin.turns().checked_rem(u64::clamped(self.targets.len()));
        let Some(&to) = turn.and_then(|n| self.targets.get(usize::clamped(n))) else { return Open::Done };
        match self.broker.next(cx.now) {
            Next::Start { slot, .. } => {
                let target = Target { to, from: self.round_robin.next(to) };
                let flow = (self.make)(cx, slot);
                if self.datagrams { Open::Datagram(flow, target) } else { Open::Flow(flow, target) }
            }
            Next::At(at) => Open::At(at),
            Next::Idle => Open::Idle,
            Next::Done => Open::Done,
        }
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let failed = !matches!(how, Ok(Ending::Completed | Ending::Stopped));
        self.broker.ended(flow.id().slot, cx.now, failed);
    }

    fn stop(&mut self) {
        self.broker.stop();
    }
}

/// Makes the flow of a connection that has come.
type Answer = dyn Fn(&mut Context<'_>) -> Box<dyn Flow> + Send;
/// Takes a datagram of a peer that has no socket of its own, and may answer it, or give the peer a flow.
pub type OnDatagram =
    dyn FnMut(&mut Context<'_>, &Received<'_>, &mut Transmit<'_>) -> Option<Box<dyn Flow>> + Send;

/// Answers connections, and datagrams where the protocol has them, from addresses that may connect.
pub struct Answerer {
    admission: Arc<(Acl, Limit)>,
    make: Box<Answer>,
    on_datagram: Option<Box<OnDatagram>>,
}

impl Answerer {
    /// One per worker of a server. `make` makes flows.
    pub fn for_all<M>(answers: &Answers, make: M) -> Vec<Answerer>
    where
        M: Fn(&mut Context<'_>) -> Box<dyn Flow> + Clone + Send + 'static,
    {
        let admission = Arc::new((answers.acl.clone(), Limit::new(answers.exit_after)));
        let one = |_| Answerer {
            admission: Arc::clone(&admission),
            make: Box::new(make.clone()),
            on_datagram: None,
        };
        (0..answers.workers.max(1)).map(one).collect()
    }

    /// The same, with datagrams.
    pub fn with_datagrams(
        self,
        mut on_datagram: impl FnMut(&mut Context<'_>, &Received<'_>, &mut Transmit<'_>) + Send + 'static,
    ) -> Self {
        self.with_flows(Box::new(move |cx, got, reply| {
            on_datagram(cx, got, reply);
            None
        }))
    }

    /// The same, with datagrams whose peers may get flows of their own: as many as connections, and counted with these.
    pub fn with_flows(self, on_datagram: Box<OnDatagram>) -> Self {
        Answerer { on_datagram: Some(on_datagram), ..self }
    }

    /// As a worker has it.
    pub fn boxed(self) -> Box<dyn Acceptor> {
        Box::new(self)
    }
}

impl Acceptor for Answerer {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        let (acl, limit) = &*self.admission;
        (acl.admits(path.peer.ip()) && limit.enter()).then(|| (self.make)(cx))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let (acl, limit) = &*self.admission;
        let peer = got.from?.peer;
        let on_datagram = self.on_datagram.as_mut().filter(|_| acl.admits(peer.ip()))?;
        on_datagram(cx, got, reply).filter(|_| limit.enter())
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        if self.admission.1.leave() {
            cx.post(Told::LimitReached);
        }
    }
}
