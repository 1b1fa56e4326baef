//! The connections that sessions may have: granted by a server's session, looked up by its workers.

use super::capacity;
use super::data::Params;
use super::opening::{Numbers, OpeningKey};
use super::udp::Terms;
use common::ping;
use common::protocol::Foreigners;
use metrics::Clamped;
use model::Kind;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use uuid::Uuid;

/// A session's permission to open data connections.
pub struct Grant {
    /// Key that seals the session's openings.
    pub(super) key: OpeningKey,
    /// Numbers of the openings that have arrived.
    numbers: Mutex<Numbers>,
    pub params: Arc<Params>,
    /// Most that may be open at once.
    pub limit: u32,
    /// Terms of its flows of datagrams, if it has any.
    pub(super) terms: Option<Arc<Terms>>,
    /// Terms of its capacity test, if it is one.
    pub(super) capacity: Option<Arc<capacity::Terms>>,
    /// Parameters of its messages, if they are sent back.
    pub(super) pings: Option<Arc<ping::Params>>,
    /// Messages are sent back on another core than the other end's.
    pub(super) apart: bool,
    /// The workers that have its connections and flows.
    workers: Range<u16>,
    /// Number of processes to which its connections are dealt in turn.
    pub(super) processes: u32,
    /// Flows of datagrams that are open, and their addresses: a repeated opening does not make two
    /// of one.
    flows: Mutex<HashMap<Uuid, SocketAddr>>,
    open: AtomicU32,
    /// The session has ended: later connections with its token are refused.
    revoked: AtomicBool,
}

impl Grant {
    /// A grant of which nothing is used yet, on these workers.
    pub fn new(key: OpeningKey, params: Arc<Params>, workers: Range<u16>) -> Self {
        Grant {
            key,
            numbers: Mutex::default(),
            limit: params.connections,
            terms: Terms::of(&params, params.group, None).map(Arc::new),
            capacity: capacity::Terms::of(&params, params.group).map(Arc::new),
            pings: ping::Params::ours(&params, params.group).map(Arc::new),
            params,
            apart: false,
            workers,
            processes: 1,
            flows: Mutex::default(),
            open: AtomicU32::new(0),
            revoked: AtomicBool::new(false),
        }
    }

    /// The worker on which a slot's connection or flow belongs: on one host, with as many workers
    /// here as there, the one on the same core as the other end's, so that bytes are read while
    /// they are in its cache. Two ends that spin on one core would take it from each other for
    /// milliseconds, and few senders of datagrams had better have cores of their own: these are
    /// then the next ones.
    pub(super) fn worker(&self, slot: u32) -> u16 {
        let workers = u32::clamped(self.workers.len()).max(1);
        let busy = self.pings.as_ref().is_some_and(|pings| pings.ping.busy);
        let few =
            (self.terms.is_some() || self.capacity.is_some()) && self.limit.saturating_mul(2) <= workers;
        let apart = u32::from(busy || few || self.apart);
        let turn = (slot / self.processes).wrapping_add(self.params.first_worker).wrapping_add(apart);
        self.workers.start + (turn % workers) as u16
    }

    /// True if a connection that was accepted on `worker` may stay there: only TCP data and round
    /// trips are placed by their slot.
    pub(super) fn stays(&self, slot: u32, worker: u16) -> bool {
        match self.params.kind {
            Kind::Tcp | Kind::Ping => worker == self.worker(slot),
            _ => self.workers.contains(&worker),
        }
    }

    /// Numbers of the openings that have arrived.
    pub(super) fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The flows of datagrams that are open.
    pub(super) fn flows(&self) -> MutexGuard<'_, HashMap<Uuid, SocketAddr>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Admits one more connection or flow; `None` when too many are open.
    pub(super) fn admission(self: &Arc<Self>) -> Option<Admission> {
        let admission = Admission(Arc::clone(self));
        // Replacements may arrive before the ends of their predecessors are known here, hence the
        // slack: where connections live for some hundred microseconds, a worker that does not get
        // its core for 20 ms is a thousand ends behind.
        let slack = self.limit.saturating_mul(31).min(1_024) + 64;
        let limit = self.limit.saturating_add(slack);
        (self.open.fetch_add(1, Ordering::Relaxed) < limit).then_some(admission)
    }
}

/// The grants of a server by their session's number, shared by its workers. Looked up once per
/// connection.
pub struct Grants {
    by_session: RwLock<HashMap<u64, Arc<Grant>>>,
    /// Other protocols whose peers are recognised.
    pub(super) foreign: Foreigners,
    budget: Option<Arc<AtomicI64>>,
}

impl Grants {
    /// No grants yet; `budget` is how many data connections may be admitted in all.
    pub fn new(foreign: Foreigners, budget: Option<Arc<AtomicI64>>) -> Self {
        Grants { by_session: RwLock::default(), foreign, budget }
    }

    pub fn insert(&self, session: u64, grant: Arc<Grant>) {
        self.by_session.write().unwrap_or_else(PoisonError::into_inner).insert(session, grant);
    }

    /// Takes a grant back; its open connections are not touched.
    pub fn remove(&self, session: u64) {
        if let Some(grant) = self.by_session.write().unwrap_or_else(PoisonError::into_inner).remove(&session)
        {
            grant.revoked.store(true, Ordering::Release);
        }
    }

    /// Takes one of the data connections that may be admitted in all; false when none is left.
    pub(super) fn spend(&self) -> bool {
        self.budget.as_ref().is_none_or(|left| left.fetch_sub(1, Ordering::Relaxed) > 0)
    }

    pub(super) fn find(&self, session: u64) -> Option<Arc<Grant>> {
        self.by_session.read().unwrap_or_else(PoisonError::into_inner).get(&session).cloned()
    }
}

/// A place among a session's open connections; given back when dropped.
pub(super) struct Admission(Arc<Grant>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A datagram flow's place among its session's; given back when dropped.
pub(super) struct OpenFlow {
    grant: Arc<Grant>,
    id: Uuid,
    _admission: Option<Admission>,
}

impl OpenFlow {
    /// Enters a flow from `peer` among the `open` ones.
    pub(super) fn new(
        grant: &Arc<Grant>,
        mut open: MutexGuard<'_, HashMap<Uuid, SocketAddr>>,
        id: Uuid,
        peer: SocketAddr,
        admission: Option<Admission>,
    ) -> Self {
        open.insert(id, peer);
        OpenFlow { grant: Arc::clone(grant), id, _admission: admission }
    }
}

impl Drop for OpenFlow {
    fn drop(&mut self) {
        self.grant.flows().remove(&self.id);
    }
}
