//! What opens connections, and what answers them.

use super::params::Params;
use super::tcp::Connection;
use crate::native::Fence;
use crate::rota::Rota;
use crate::solo::{Answers, Calls, GROUP};
use metrics::Ending;
use model::churn::{Broker, Next, Plan};
use model::{Phase, Shutdown};
use seam::{Cause, Cx, Flow, Open, Opener, Path, Target};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Opens a client's connections as the broker says, to the targets in turn.
pub struct Caller {
    broker: Broker,
    params: Arc<Params>,
    targets: Vec<SocketAddr>,
    rota: Rota,
}

impl Caller {
    /// The part of worker `worker` of `workers` in a run described by `plan`. `sources` and `ports` (an inclusive range) are
    /// what connections leave from, in turn.
    #[must_use]
    pub fn new(
        plan: &Plan,
        params: Arc<Params>,
        targets: Vec<SocketAddr>,
        sources: Vec<IpAddr>,
        ports: Option<(u16, u16)>,
        worker: u16,
        workers: u16,
    ) -> Self {
        let rota = Rota::new(sources, ports, worker, workers);
        Caller { broker: Broker::new(plan), params, targets, rota }
    }
}

impl Opener for Caller {
    fn open(&mut self, cx: &mut Cx<'_>) -> Open {
        let turn = self.rota.turns().checked_rem(self.targets.len() as u64);
        let Some(&to) = turn.and_then(|n| self.targets.get(n as usize)) else { return Open::Done };
        match self.broker.next(cx.now) {
            Next::Start { slot, .. } => {
                let from = self.rota.next(to);
                let rude = match self.params.shutdown {
                    Shutdown::Graceful => false,
                    Shutdown::Rude => true,
                    Shutdown::Random => cx.rng.next() & 1 == 1,
                };
                let transfer = cx.rng.between(self.params.transfer.low, self.params.transfer.high);
                let flow = Connection::client(Arc::clone(&self.params), slot, transfer, rude);
                Open::Flow(Box::new(flow), Target { to, from })
            }
            Next::At(at) => Open::At(at),
            Next::Idle => Open::Idle,
            Next::Done => Open::Done,
        }
    }

    fn accept(&mut self, _: &mut Cx<'_>, _: &Path) -> Option<Box<dyn Flow>> {
        None
    }

    fn closed(&mut self, cx: &mut Cx<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let failed = !matches!(how, Ok(Ending::Completed | Ending::Stopped));
        self.broker.ended(flow.card().slot, cx.now, failed);
    }

    fn stop(&mut self) {
        self.broker.stop();
    }
}

/// A client's openers for `phase`.
#[must_use]
pub fn callers(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Opener>> {
    let params = Arc::new(Params::of(phase, GROUP));
    let workers = calls.workers.max(1);
    let one = |worker| {
        let plan = Plan::part(phase, u32::from(worker), u32::from(workers));
        let (targets, sources) = (calls.targets.clone(), calls.sources.clone());
        let caller = Caller::new(&plan, Arc::clone(&params), targets, sources, calls.ports, worker, workers);
        Box::new(caller) as Box<dyn Opener>
    };
    (0..workers).map(one).collect()
}

/// A server's openers for `phase`.
#[must_use]
pub fn answerers(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Opener>> {
    let params = Arc::new(Params::of(phase, GROUP));
    let (fence, limit) = (Arc::new(answers.fence.clone()), Arc::new(Limit::new(answers.exit_after)));
    let one = |_| {
        let (params, fence, limit) = (Arc::clone(&params), Arc::clone(&fence), Arc::clone(&limit));
        Box::new(Answerer::new(params, fence, limit)) as Box<dyn Opener>
    };
    (0..answers.workers.max(1)).map(one).collect()
}

/// How many connections a server takes, over all its workers.
#[derive(Debug)]
pub struct Limit {
    most: u64,
    accepted: AtomicU64,
    ended: AtomicU64,
}

impl Limit {
    /// `most` connections; `None` is without end.
    #[must_use]
    pub fn new(most: Option<u64>) -> Self {
        Limit { most: most.unwrap_or(u64::MAX), accepted: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Whether one more may come; counts it.
    fn enter(&self) -> bool {
        self.accepted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < self.most).then_some(n + 1))
            .is_ok()
    }

    /// One has ended; true for the last.
    fn leave(&self) -> bool {
        self.ended.fetch_add(1, Ordering::Relaxed) + 1 == self.most
    }
}

/// Posted when the last of a limited number of connections has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached;

/// Answers connections on one worker.
pub struct Answerer {
    params: Arc<Params>,
    fence: Arc<Fence>,
    limit: Arc<Limit>,
}

impl Answerer {
    /// Answers whom `fence` admits, as long as `limit` allows.
    #[must_use]
    pub fn new(params: Arc<Params>, fence: Arc<Fence>, limit: Arc<Limit>) -> Self {
        Answerer { params, fence, limit }
    }
}

impl Opener for Answerer {
    fn open(&mut self, _: &mut Cx<'_>) -> Open {
        Open::Idle
    }

    fn accept(&mut self, cx: &mut Cx<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        if !self.fence.admits(path.peer.ip()) || !self.limit.enter() {
            return None;
        }
        let transfer = cx.rng.between(self.params.transfer.low, self.params.transfer.high);
        Some(Box::new(Connection::server(Arc::clone(&self.params), transfer)))
    }

    fn closed(&mut self, cx: &mut Cx<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        if self.limit.leave() {
            cx.post.push(Box::new(LimitReached));
        }
    }

    fn stop(&mut self) {}
}
