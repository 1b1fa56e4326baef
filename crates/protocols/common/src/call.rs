//! Openers of a client's connections where the protocol has no conversation, and their answerers.

use crate::kernel::Unconnected;
use crate::message::notice;
use crate::one_sided::{Answers, Calls, GROUP};
use crate::round_robin::RoundRobin;
use crate::servers::{Elsewhere, Servers};
use crate::{Acl, Limit};
use metrics::{Clamped, Ending};
use model::churn::{Broker, Next};
use model::{Level, Phase};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Acceptor, Cause, Connector, Context, Fault, Flow, Open, Path, Received, Target, Transmit};

/// Opens the next connection of a slot, to move this many bytes.
type OpenNext = dyn FnMut(&mut Context<'_>, u32, u64) -> Open + Send;

/// Opens connections as the broker says.
pub struct Caller {
    broker: Broker,
    open_next: Box<OpenNext>,
}

impl Caller {
    /// Connections that `open_next` opens.
    pub fn new(
        broker: Broker,
        open_next: impl FnMut(&mut Context<'_>, u32, u64) -> Open + Send + 'static,
    ) -> Self {
        Caller { broker, open_next: Box::new(open_next) }
    }

    /// A connector for each worker of a client; connections go to the servers in turn. `make`
    /// returns the flow of a slot's next connection, whose socket is UDP if `datagrams` is true.
    pub fn one_per_worker<M, F>(
        phase: &Phase,
        calls: &Calls,
        datagrams: bool,
        make: M,
    ) -> Vec<Box<dyn Connector>>
    where
        M: Fn(&mut Context<'_>, u32) -> F + Clone + Send + 'static,
        F: Flow + 'static,
    {
        let workers = calls.workers.max(1);
        let one = |worker| -> Box<dyn Connector> {
            let make = make.clone();
            Box::new(Dialer {
                broker: Broker::part(phase, u32::from(worker), u32::from(workers)),
                make: Box::new(move |cx, slot| Box::new(make(cx, slot))),
                datagrams,
                servers: Arc::clone(&calls.servers),
                round_robin: RoundRobin::new(calls.sources.clone(), calls.ports, worker, workers),
                slots: phase.connections.max(1),
                lives: HashMap::new(),
                again: VecDeque::new(),
            })
        };
        (0..workers).map(one).collect()
    }
}

/// Makes the flow of a slot's next connection.
type Make = dyn Fn(&mut Context<'_>, u32) -> Box<dyn Flow> + Send;

/// Opens the connections of a client without a conversation.
struct Dialer {
    broker: Broker,
    make: Box<Make>,
    datagrams: bool,
    servers: Arc<Servers>,
    round_robin: RoundRobin,
    /// Slots of all workers.
    slots: u32,
    /// Of each slot the connections so far, and the server of the last.
    lives: HashMap<u32, (u64, usize)>,
    /// Flows to be connected to another address of their server.
    again: VecDeque<(Box<dyn Flow>, SocketAddr)>,
}

impl Dialer {
    fn to(&mut self, flow: Box<dyn Flow>, to: SocketAddr) -> Open {
        let target = Target { to, from: self.round_robin.next(to) };
        if self.datagrams { Open::Datagram(flow, target) } else { Open::Flow(flow, target) }
    }

    /// The server of a slot's next connection: slots are dealt to the servers in turn, and so are
    /// the further connections.
    fn server(&mut self, slot: u32) -> usize {
        let (lives, server) = self.lives.entry(slot).or_default();
        let turn = u64::from(slot).saturating_add(lives.saturating_mul(self.slots.into()));
        *lives += 1;
        *server = usize::clamped(turn.checked_rem(u64::clamped(self.servers.count())).unwrap_or(0));
        *server
    }

    fn server_of(&self, flow: &dyn Flow) -> Option<usize> {
        self.lives.get(&flow.id().slot).map(|(_, server)| *server)
    }
}

impl Connector for Dialer {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        if let Some((flow, to)) = self.again.pop_front() {
            return self.to(flow, to);
        }
        let slot = match self.broker.next(cx.now) {
            Next::Start { slot, .. } => slot,
            Next::At(at) => return Open::At(at),
            Next::Idle => return Open::Idle,
            Next::Done => return Open::Done,
        };
        let server = self.server(slot);
        let Some(to) = self.servers.address(server) else { return Open::Done };
        let flow = (self.make)(cx, slot);
        self.to(flow, to)
    }

    fn on_connected(&mut self, to: SocketAddr) {
        self.servers.reached(to);
    }

    fn on_unconnected(
        &mut self,
        cx: &mut Context<'_>,
        flow: Box<dyn Flow>,
        to: SocketAddr,
        fault: Fault,
    ) -> Option<Box<dyn Flow>> {
        let elsewhere =
            self.server_of(&*flow).and_then(|server| self.servers.instead(server, to, &fault.to_string()));
        let Some(Elsewhere { to, notice: text }) = elsewhere else { return Some(flow) };
        text.into_iter().for_each(|text| notice(cx, Level::Info, text));
        self.again.push_back((flow, to));
        None
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        if let (Some(server), Some(row)) = (self.server_of(&*flow), flow.id().row) {
            let (counts, _) = cx.rec.life(row);
            let completed = cx.rec.completed(row).is_some();
            self.servers.moved(server, (counts.tx_bytes, counts.rx_bytes), completed);
        }
        self.broker.ended(flow.id().slot, cx.now, has_failed(how));
    }

    fn stop(&mut self) {
        self.again.clear();
        self.broker.stop();
    }
}

/// True if a connection did not move all its payload.
fn has_failed(how: &Result<Ending, Cause>) -> bool {
    !matches!(how, Ok(Ending::Completed | Ending::Stopped))
}

impl Connector for Caller {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        match self.broker.next(cx.now) {
            Next::Start { slot, bytes } => (self.open_next)(cx, slot, bytes),
            Next::At(at) => Open::At(at),
            Next::Idle => Open::Idle,
            Next::Done => Open::Done,
        }
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        self.broker.ended(flow.id().slot, cx.now, has_failed(how));
    }

    fn stop(&mut self) {
        self.broker.stop();
    }
}

/// Makes the flow of an accepted connection.
type Answer = dyn Fn(&mut Context<'_>) -> Box<dyn Flow> + Send;
/// Takes a datagram of a peer that has no socket of its own, and may answer it, or give the peer a
/// flow.
type OnDatagram =
    dyn FnMut(&mut Context<'_>, &Received<'_>, &mut Transmit<'_>, &mut Bound) -> Option<Box<dyn Flow>> + Send;

/// A worker's state for datagrams of peers without a socket of their own.
pub struct Bound {
    /// The worker.
    pub worker: u16,
    /// Admitted addresses: datagrams of others are dropped before.
    pub acl: Acl,
    /// Addresses that may be sent to without a proof.
    pub streams: Acl,
    /// The account of the datagrams.
    pub account: Unconnected,
}

/// Answers connections, and datagrams where the protocol has them, from addresses that may connect.
pub struct Answerer {
    limit: Arc<Limit>,
    make: Box<Answer>,
    on_datagram: Box<OnDatagram>,
    bound: Bound,
}

impl Answerer {
    /// An acceptor for each worker of a server. `make` returns the flow of a connection.
    pub fn one_per_worker<M, F>(answers: &Answers, make: M) -> Vec<Box<dyn Acceptor>>
    where
        M: Fn(&mut Context<'_>) -> F + Clone + Send + 'static,
        F: Flow + 'static,
    {
        Answerer::with_datagrams(answers, make, |_, _, _, _| None)
    }

    /// The same, with datagrams. Their peers may get flows of their own: as many as connections,
    /// and counted with these.
    pub fn with_datagrams<M, F, D>(answers: &Answers, make: M, on_datagram: D) -> Vec<Box<dyn Acceptor>>
    where
        M: Fn(&mut Context<'_>) -> F + Clone + Send + 'static,
        F: Flow + 'static,
        D: FnMut(&mut Context<'_>, &Received<'_>, &mut Transmit<'_>, &mut Bound) -> Option<Box<dyn Flow>>
            + Clone
            + Send
            + 'static,
    {
        let limit = Arc::new(Limit::new(answers.exit_after));
        let one = |worker| -> Box<dyn Acceptor> {
            let make = make.clone();
            let (acl, streams) = (answers.acl.clone(), answers.streams.clone());
            Box::new(Answerer {
                limit: Arc::clone(&limit),
                make: Box::new(move |cx| Box::new(make(cx))),
                on_datagram: Box::new(on_datagram.clone()),
                bound: Bound { worker, acl, streams, account: Unconnected::new(GROUP) },
            })
        };
        (0..answers.workers.max(1)).map(one).collect()
    }
}

impl Acceptor for Answerer {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        (self.bound.acl.admits(path.peer.ip()) && self.limit.enter()).then(|| (self.make)(cx))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        if !self.bound.acl.admits(got.from?.peer.ip()) {
            return None;
        }
        (self.on_datagram)(cx, got, reply, &mut self.bound).filter(|_| self.limit.enter())
    }

    fn on_dropped(&mut self, cx: &mut Context<'_>, buffers: u32) {
        self.bound.account.count_last_drops(cx, buffers);
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        self.limit.leave(cx);
    }
}
