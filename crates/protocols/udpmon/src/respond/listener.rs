//! Admission of requesters to a responder, and the state that its workers share.

use super::{Responder, packet};
use crate::PacketTestSettings;
use crate::codec::{self, Message, Setup};
use crate::host::Host;
use crate::one_sided::Answers;
use crate::packet_stats::{PacketStats, wanted};
use common::Limit;
use common::pending::PendingPeers;
use metrics::Ending;
use model::Phase;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{Acceptor, Cause, Context, Flow, Received, Transmit};

/// Requesters at once.
const MOST_PEERS: usize = 1_000;
/// Records that all tests together may keep.
const MOST_RECORDS: usize = 4_000_000;
/// Records that a test of one requester may keep: as many as ours may ask for.
const MOST_OF_ONE: usize = 1_000_000;

/// State that a responder's workers share.
pub(super) struct ResponderState {
    answers: Answers,
    pub(super) host: Host,
    limit: Limit,
    pub(super) every_ns: Option<u64>,
    setup: Setup,
    /// Ledgers of the requesters that have a flow.
    peers: Mutex<HashMap<SocketAddr, Arc<Mutex<PacketStats>>>>,
    promised: AtomicUsize,
    /// Requesters at once.
    most: usize,
}

/// A requester's place; given back when dropped, with its records.
pub(super) struct RequesterPlace {
    pub(super) shared: Arc<ResponderState>,
    peer: SocketAddr,
    records: usize,
}

impl RequesterPlace {
    /// Room for the records that `setup` asks for, in place of those before.
    pub(super) fn room(&mut self, setup: &Setup) -> usize {
        let promised = &self.shared.promised;
        promised.fetch_sub(std::mem::take(&mut self.records), Ordering::Relaxed);
        let wanted = wanted(setup).min(MOST_OF_ONE);
        let grant = |taken: usize| Some(taken + wanted.min(MOST_RECORDS.saturating_sub(taken)));
        let before =
            promised.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant).unwrap_or(MOST_RECORDS);
        self.records = wanted.min(MOST_RECORDS.saturating_sub(before));
        self.records
    }
}

impl Drop for RequesterPlace {
    fn drop(&mut self) {
        self.shared.promised.fetch_sub(self.records, Ordering::Relaxed);
        self.shared.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.peer);
    }
}

/// A server's sources of links.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let asked = PacketTestSettings::of(phase).unwrap_or_default();
    let shared = Arc::new(ResponderState {
        answers: answers.clone(),
        host: answers.host.with_cards(&asked.cards),
        limit: Limit::new(answers.exit_after),
        every_ns: asked.every_ns,
        setup: Setup::of(&asked),
        peers: Mutex::default(),
        promised: AtomicUsize::new(0),
        most: answers.sockets.map_or(MOST_PEERS, |sockets| sockets.clamp(1, MOST_PEERS)),
    });
    let one = |_| {
        let pending = PendingPeers::default();
        Box::new(Listener { shared: Arc::clone(&shared), pending }) as Box<dyn Acceptor>
    };
    (0..answers.workers.max(1)).map(one).collect()
}

pub struct Listener {
    shared: Arc<ResponderState>,
    pending: PendingPeers,
}

impl Acceptor for Listener {
    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let peer = got.from?.peer;
        let shared = &self.shared;
        let message = codec::decode(got.bytes)?;
        if !matches!(message, Message::Zero(_) | Message::Start(_) | Message::Data { .. })
            || !shared.answers.acl.admits(peer.ip())
        {
            return None;
        }
        if !shared.answers.streams.admits(peer.ip()) {
            self.pending.refuse(cx, peer.ip(), "a UDPmon test", "answers");
            return None;
        }
        let mut peers = shared.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stats) = peers.get(&peer) {
            // The packet arrived before the requester's own socket existed.
            if let Message::Data { frame, sent } = message {
                let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
                stats.packet(&packet(cx, got, got.bytes.len(), frame, sent));
            }
            return None;
        }
        // One address may have half of the places.
        let own = peers.keys().filter(|other| other.ip() == peer.ip()).count();
        if peers.len() >= shared.most || own >= (shared.most / 2).max(1) || !shared.limit.enter() {
            return None;
        }
        let mut place = RequesterPlace { shared: Arc::clone(shared), peer, records: 0 };
        let room = place.room(&shared.setup);
        let stats = Arc::new(Mutex::new(PacketStats::new(shared.setup, got.arrived(), room)));
        peers.insert(peer, Arc::clone(&stats));
        drop(peers);
        let mut flow = Responder::new(place, stats, got.arrived());
        flow.hears(cx, got, got.bytes, message);
        if matches!(message, Message::Data { .. }) {
            (flow.quiet, flow.silent) = (true, true);
            flow.readings.start = Some(flow.place.shared.host.ask());
        }
        Some(Box::new(flow))
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        self.shared.limit.leave(cx);
    }
}
