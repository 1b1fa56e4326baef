//! What opens the connections of a client whose protocol has no conversation.

use crate::one_sided::Calls;
use crate::round_robin::RoundRobin;
use metrics::Ending;
use model::Phase;
use model::churn::{Broker, Next, Plan};
use std::net::SocketAddr;
use transport::{Cause, Connector, Context, Flow, Open, Target};

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
            let plan = Plan::part(phase, u32::from(worker), u32::from(workers));
            let caller = Caller {
                broker: Broker::new(&plan),
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
        let turn = self.round_robin.turns().checked_rem(self.targets.len() as u64);
        let Some(&to) = turn.and_then(|n| self.targets.get(n as usize)) else { return Open::Done };
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
