//! Openers of a sender's flows, and answerers of requests.

use super::codec::Request;
use super::reflect::{Arrived, Rules, check, proof, reply};
use super::session::Reflector;
use super::speak::Speaker;
use crate::call::Caller;
use crate::one_sided::{Answers, Calls, GROUP};
use common::Limit;
use common::kernel::Unconnected;
use common::message::warn;
use common::ping::{Params, Pinger, Remote};
use common::seen::Seen;
use metrics::Ending;
use model::Phase;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{Acceptor, Cause, Connector, Context, Flow, Path, Received, Transmit};

/// A sender's sources of links for `phase`.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params::of(phase, GROUP, Remote::Nothing));
    let key = calls.key.clone();
    Caller::one_per_worker(phase, calls, true, move |cx, slot| {
        let speaker = Speaker::new(params.ping.stamp.unwrap_or_default(), key.clone(), GROUP);
        Pinger::speaking(Arc::clone(&params), cx.rng.uuid(), slot, Box::new(speaker))
    })
}

/// A reflector's sources of links for `phase`.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let unconfirmed = phase.ping.and_then(|ping| ping.stamp).is_some_and(|stamp| stamp.direct);
    let shared = Arc::new(ReflectorState {
        answers: answers.clone(),
        rules: Arc::new(Rules { key: answers.key.clone(), unconfirmed }),
        limit: Limit::new(answers.exit_after),
        senders: Mutex::default(),
        proofs: answers.key.is_some().then(Seen::default),
        alone: AtomicBool::new(false),
        most: answers.sockets.map_or(MOST_SENDERS, |sockets| sockets.clamp(1, MOST_SENDERS)),
    });
    let one = |_| {
        Box::new(Listener { shared: Arc::clone(&shared), account: Unconnected::new(GROUP) })
            as Box<dyn Acceptor>
    };
    (0..answers.workers.max(1)).map(one).collect()
}

/// Senders with a session at once; others are answered without memory.
const MOST_SENDERS: usize = 4096;
/// Of these, from one address.
const MOST_PER_ADDRESS: u32 = 256;

/// State that a reflector's workers share.
struct ReflectorState {
    /// Admitted peers; `streams` without a proof, also with answers longer than the request.
    answers: Answers,
    rules: Arc<Rules>,
    limit: Limit,
    senders: Mutex<Senders>,
    /// Proofs seen so far, where there is a key.
    proofs: Option<Seen>,
    /// Senders cannot have sockets of their own here: all are answered without memory.
    alone: AtomicBool,
    /// Senders with a session at once.
    most: usize,
}

/// Senders with a session. Locked once per session.
#[derive(Default)]
struct Senders {
    all: HashSet<SocketAddr>,
    by_address: HashMap<IpAddr, u32>,
}

/// A sender's place among the sessions; given back when dropped.
pub(super) struct SenderPlace(Arc<ReflectorState>, SocketAddr);

impl SenderPlace {
    /// A packet that proved to know the key was answered.
    pub(super) fn proven(&self, packet: &[u8]) {
        if let Some(proofs) = &self.0.proofs {
            proofs.put(proof(packet));
        }
    }
}

impl Drop for SenderPlace {
    fn drop(&mut self) {
        let mut senders = self.0.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.all.remove(&self.1);
        if let Some(n) = senders.by_address.get_mut(&self.1.ip()) {
            *n -= 1;
            if *n == 0 {
                senders.by_address.remove(&self.1.ip());
            }
        }
    }
}

/// Why a sender gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoPlace {
    /// The sender has a place, and its socket is still being made.
    Known,
    /// No place is left.
    Full,
}

impl ReflectorState {
    /// A place for `peer`; [`NoPlace`] when it has one, or there is none left.
    fn place(self: &Arc<Self>, peer: SocketAddr) -> Result<SenderPlace, NoPlace> {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if senders.all.contains(&peer) {
            return Err(NoPlace::Known);
        }
        let here = senders.by_address.get(&peer.ip()).copied().unwrap_or(0);
        let own = (self.most / 2).clamp(1, MOST_PER_ADDRESS as usize) as u32;
        if self.alone.load(Ordering::Relaxed) || senders.all.len() >= self.most || here >= own {
            return Err(NoPlace::Full);
        }
        senders.all.insert(peer);
        *senders.by_address.entry(peer.ip()).or_default() += 1;
        drop(senders);
        let place = SenderPlace(Arc::clone(self), peer);
        if self.limit.enter() { Ok(place) } else { Err(NoPlace::Full) }
    }
}

/// Answers on one worker: each sender gets a socket of its own, with the state of its sessions;
/// senders beyond the limit are answered without state.
pub struct Listener {
    shared: Arc<ReflectorState>,
    /// Senders without a socket of their own.
    account: Unconnected,
}

impl Listener {
    /// Decides if requests of this peer are answered, and (`true`) if with more octets than they
    /// had.
    fn admits(&self, cx: &mut Context<'_>, path: &Path) -> Option<bool> {
        let (peer, who) = (path.peer, path.peer.ip().to_canonical());
        if !self.shared.answers.acl.admits(peer.ip()) {
            return None;
        }
        // Two reflectors would answer each other for ever.
        if peer.port() == super::PORT || peer.port() == path.local.port() {
            let text = format!(
                "{who} sent a STAMP packet from port {}, where reflectors are: it gets no answer, or two of them would \
                 never end",
                peer.port()
            );
            warn(cx, text);
            return None;
        }
        let trusted = self.shared.answers.streams.admits(peer.ip());
        if !trusted && self.shared.rules.key.is_none() {
            let text = format!(
                "{who} asked for STAMP and gets no answer: a datagram proves no address, so without a key only this host \
                 and directly connected networks are answered, unless NETCALIPER_ALLOW names the network"
            );
            warn(cx, text);
            return None;
        }
        Some(trusted)
    }

    /// Answers without memory.
    fn answer(&mut self, cx: &mut Context<'_>, request: &Request, got: &Arrived<'_>, out: &mut Transmit<'_>) {
        let own = out.own(got.bytes.len());
        let made = reply(&self.shared.rules, None, (request, got), (cx.now, cx.clock), own);
        let n = own.len();
        out.tos = Some(made.tos);
        self.account.record_answer(cx, got.bytes.len(), n);
    }
}

impl Acceptor for Listener {
    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        out: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let path = got.from?;
        self.account.count_drops(cx, got);
        let request = check(&self.shared.rules, got.bytes)?;
        let trusted = self.admits(cx, &path)?;
        let arrived = Arrived::of(got);
        if let Some(proofs) = &self.shared.proofs {
            if proofs.has(proof(got.bytes)) {
                return None;
            }
            proofs.put(proof(got.bytes));
        }
        let place = match self.shared.place(path.peer) {
            Ok(place) => place,
            // Without state a repeat is not recognised, and authenticated mode must not answer
            // repeats.
            Err(NoPlace::Full) if self.shared.rules.key.is_some() => {
                let who = path.peer.ip().to_canonical();
                let text = format!(
                    "{who} gets no answer: all sessions are in use, and without one a repeated packet would count as a new one"
                );
                warn(cx, text);
                return None;
            }
            Err(_) => {
                self.answer(cx, &request, &arrived, out);
                return None;
            }
        };
        let rules = Arc::clone(&self.shared.rules);
        Some(Box::new(Reflector::new(rules, GROUP, trusted, &arrived).at(place)))
    }

    fn on_dropped(&mut self, cx: &mut Context<'_>, buffers: u32) {
        self.account.count_last_drops(cx, buffers);
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        // The flow never had a socket.
        if how.is_err() && flow.id().row.is_none() {
            self.shared.alone.store(true, Ordering::Relaxed);
        }
        self.shared.limit.leave(cx);
    }
}
