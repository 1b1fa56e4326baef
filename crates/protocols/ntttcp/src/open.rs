//! Openers of the data connections, and their answerers.

use super::udp::DatagramReceiver;
use super::{Layout, SenderPlan};
use crate::bulk::{DatagramSender, Filler, Marks, Params, Receiver, Sender};
use crate::one_sided::{Answers, Calls};
use common::call;
use common::kernel::Detached;
use common::{Acl, Patience};
use metrics::{Ending, Group, Mono, SECOND};
use model::{Kind, Phase, at_port};
use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use transport::{Acceptor, Cause, Connector, Context, Deed, Flow, Open, Path, Received, Target, Transmit};

/// A client's sources of links without a conversation, for plain streams to one port.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let filler = if phase.kind == Kind::Tcp { Filler::LetterA } else { Filler::LetterB };
    crate::bulk::connectors(phase, calls, filler, Marks::None)
}

/// A server's sources of links without a conversation.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    call::Answerer::one_per_worker(answers, crate::bulk::receivers(phase, answers, Filler::LetterA))
}

/// Messages of connectors and acceptors to their session.
pub(super) enum Posted {
    /// A data connection could not be had, or has failed, for this reason.
    Lost(String),
    /// No data connection is left; the time of the last counted byte, where the connections do not
    /// report it themselves.
    Empty(Mono),
    /// Datagrams arrive again.
    Back,
    /// A connection of an unsynchronised test was accepted.
    Unsynced(Path, Mono),
}

/// Makes a sender's connections, each once.
pub(super) struct Dialer {
    params: Arc<Params>,
    slots: VecDeque<u32>,
    /// Windows: slots whose connect failed, each with the time of its next attempt.
    again: VecDeque<(Mono, u32)>,
    /// End of the retries, set by the first failure.
    patience: Option<Patience>,
    open: u32,
    to: Arc<Vec<SocketAddr>>,
    from: Option<SocketAddr>,
    layout: Layout,
}

impl Dialer {
    /// Connectors, one per worker, that share the slots in turn.
    pub(super) fn one_per_worker(params: &Arc<Params>, plan: &SenderPlan) -> Vec<Box<dyn Connector>> {
        let (layout, from, workers) = (plan.layout, plan.from, plan.workers.max(1));
        let to = Arc::new(plan.to.clone());
        let one = |worker: u16| {
            let slots = (u32::from(worker)..layout.all()).step_by(usize::from(workers)).collect();
            let (params, to) = (Arc::clone(params), Arc::clone(&to));
            let (again, patience, open) = (VecDeque::new(), None, 0);
            Box::new(Dialer { params, slots, again, patience, open, to, from, layout }) as Box<dyn Connector>
        };
        (0..workers).map(one).collect()
    }
}

/// Windows: the wait for a connection over all its attempts, and the time between two of them, ns.
const RETRIES: Patience = Patience::of("no connection", 10 * SECOND);
const AGAIN: u64 = SECOND / 10;

impl Dialer {
    /// The next slot to connect, or the answer to give while there is none.
    fn next(&mut self, now: Mono) -> Result<u32, Open> {
        if let Some(slot) = self.slots.pop_front() {
            return Ok(slot);
        }
        match self.again.front() {
            Some(&(at, slot)) if at <= now => {
                self.again.pop_front();
                Ok(slot)
            }
            Some(&(at, _)) => Err(Open::At(at)),
            // A connect in progress may fail and be retried.
            None if self.layout.windows && self.open > 0 => Err(Open::Idle),
            None => Err(Open::Done),
        }
    }

    /// Schedules another attempt after a failed connect; false when the link failed for another
    /// reason or the time is up.
    fn retries(&mut self, now: Mono, flow: &dyn Flow, cause: &Cause) -> bool {
        let refused = matches!(cause, Cause::Fault(fault) if fault.deed == Deed::Connect);
        let patience = *self.patience.get_or_insert(RETRIES.since(now));
        let again = self.layout.windows && refused && !patience.is_over(now);
        if again {
            self.again.push_back((now.plus(AGAIN), flow.id().slot));
        }
        again
    }
}

impl Connector for Dialer {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        let slot = match self.next(cx.now) {
            Ok(slot) => slot,
            Err(later) => return later,
        };
        let Some(to) = self.layout.address(&self.to, self.layout.port_of(slot)) else { return Open::Done };
        let from = self.from.map(|from| match (from.port(), u16::try_from(slot)) {
            (0, _) | (_, Err(_)) => at_port(from, 0),
            (first, Ok(slot)) => at_port(from, first.saturating_add(slot)),
        });
        let (params, target) = (Arc::clone(&self.params), Target { to, from });
        self.open += 1;
        if self.layout.udp {
            Open::Datagram(Box::new(DatagramSender::new(params, Marks::None, slot)), target)
        } else {
            Open::Flow(Box::new(Sender::new(params, slot)), target)
        }
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        self.open = self.open.saturating_sub(1);
        if let Err(cause) = how
            && !self.retries(cx.now, &*flow, cause)
        {
            cx.post(Posted::Lost(cause.to_string()));
        }
    }

    fn stop(&mut self) {
        self.slots.clear();
        self.again.clear();
        self.patience = Some(RETRIES.within(0));
    }
}

/// State that a receiver's workers share.
pub(super) struct ReceiverState {
    pub(super) params: Arc<Params>,
    pub(super) layout: Layout,
    pub(super) acl: Acl,
    /// Networks whose datagrams count without a proof of the address.
    pub(super) streams: Acl,
    /// Peers verified by their control connection.
    pub(super) proven: Mutex<HashSet<IpAddr>>,
    /// Data connections that are open; with datagrams, workers that receive some.
    pub(super) open: AtomicU64,
    /// Connection parameters of unsynchronised tests, where the receiver accepts them beside
    /// synchronised ones.
    pub(super) unsynced: Option<Arc<Params>>,
    /// Peer address of each open synchronisation connection.
    pub(super) synced_peers: Mutex<Vec<IpAddr>>,
}

/// Addresses that have talked and are remembered.
const MOST_PROVEN: usize = 1_024;
/// Slot and group of the connections of unsynchronised tests.
pub(super) const UNSYNCED_SLOT: u32 = u32::MAX;
pub(super) const UNSYNCED_GROUP: Group = Group(2);

impl ReceiverState {
    /// Parameters for a data connection from `ip` if that address has no synchronisation connection
    /// open.
    fn unsynced_params(&self, ip: IpAddr) -> Option<Arc<Params>> {
        self.unsynced.clone().filter(|_| !self.synced_peers().contains(&ip))
    }

    pub(super) fn synced_peers(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.synced_peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A control connection proves this address.
    pub(super) fn prove(&self, ip: IpAddr) {
        let mut proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if proven.len() < MOST_PROVEN {
            proven.insert(ip.to_canonical());
        }
    }

    /// True if a control connection has proved this address.
    pub(super) fn is_proven(&self, ip: IpAddr) -> bool {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner).contains(&ip.to_canonical())
    }

    /// Without a conversation, the first connection begins the test.
    pub(super) fn begin(&self, now: Mono) {
        let table = &self.params.table;
        if !self.layout.sync && !self.layout.token && table.from().is_none() {
            let (from, to, quiet) = self.layout.times(now, self.layout.cycle_s());
            table.set(from, to, quiet);
        }
    }
}

/// Answers a receiver's connections on one worker, and hears its datagrams.
pub(super) struct Answerer {
    shared: Arc<ReceiverState>,
    receiver: DatagramReceiver,
}

impl Answerer {
    pub(super) fn new(shared: &Arc<ReceiverState>) -> Self {
        Answerer { shared: Arc::clone(shared), receiver: DatagramReceiver::new(Arc::clone(shared)) }
    }
}

impl Acceptor for Answerer {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        if !self.shared.acl.admits(path.peer.ip()) {
            return None;
        }
        if self.shared.layout.talks(path.local.port()) {
            return Some(Box::new(Detached));
        }
        let ip = path.peer.ip().to_canonical();
        if let Some(params) = self.shared.unsynced_params(ip) {
            cx.post(Posted::Unsynced(*path, cx.now));
            return Some(Box::new(Receiver::numbered(params, UNSYNCED_SLOT)));
        }
        self.shared.begin(cx.now);
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Receiver::new(Arc::clone(&self.shared.params))))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        if self.shared.layout.udp {
            self.receiver.enter(cx, got);
        }
        None
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Mono> {
        self.receiver.on_timer(cx)
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        let card = flow.id();
        if card.slot != UNSYNCED_SLOT
            && card.row.is_some()
            && self.shared.open.fetch_sub(1, Ordering::Relaxed) == 1
        {
            cx.post(Posted::Empty(Mono(0)));
        }
    }

    fn stop(&mut self) {
        self.receiver.close();
    }
}
