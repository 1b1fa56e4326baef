//! A server's unsolicited datagrams: cookies for peers that have none, flows for peers that return theirs.

use super::codec::{Kind, Word};
use super::flow::Probe;
use crate::auth::keyed;
use crate::grants::{Grant, Grants};
use crate::opening::Opener;
use common::Acl;
use metrics::{Clamped, ClockKind, Group, Mono};
use model::{Media, Phase, Verify};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use transport::{Context, Flow, Path, Received, Transmit};
use uuid::Uuid;

/// What a session's flows have in common.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) group: Group,
    /// The client's openings.
    pub(crate) opener: Option<Opener>,
    /// The client sends, the server sends.
    pub(crate) up: bool,
    pub(crate) down: bool,
    pub(crate) probe: model::Probe,
    /// The datagrams are frames of this.
    pub(crate) media: Option<Media>,
    /// The client wants to know each frame that it receives.
    pub(crate) tells: bool,
    pub(crate) flows: u32,
    /// Bits/s of each flow and direction.
    pub(crate) rate: Option<u64>,
    pub(crate) duration_ns: u64,
    pub(crate) verify: Verify,
    /// When data begins; the client's to say.
    pub(crate) start: Option<Mono>,
    /// The times between sends, when they follow a trace.
    pub(crate) trace: Option<Arc<model::Trace>>,
    pub(crate) train: Option<model::Train>,
}

impl Terms {
    /// The terms of `phase`; `None` when it does not send datagrams.
    pub(crate) fn of(phase: &Phase, group: Group, opener: Option<Opener>) -> Option<Self> {
        Some(Terms {
            group,
            opener,
            up: phase.pattern.sends_up(),
            down: phase.pattern.sends_down(),
            probe: phase.probe?,
            media: phase.media,
            tells: false,
            flows: phase.connections,
            rate: phase.rate,
            duration_ns: phase.ends_after()?,
            verify: phase.verify,
            start: None,
            trace: phase.trace.clone().map(Arc::new),
            train: phase.train.clone(),
        })
    }

    /// How the clocks are compared. The client has settled it before it proposed.
    pub(crate) fn clock(&self) -> ClockKind {
        self.probe.clock.unwrap_or(ClockKind::InBand)
    }

    /// Whether the server returns what comes.
    pub(crate) fn echo(&self) -> bool {
        self.train.as_ref().is_some_and(|train| train.echo)
    }
}

/// The flows of a session that are open, by identifier, so that a repeated OPEN does not make two of one.
#[derive(Debug, Default)]
pub(crate) struct OpenFlows(Mutex<HashSet<Uuid>>);

/// A flow's place among its session's; given back when dropped.
pub(crate) struct OpenFlow {
    grant: Arc<Grant>,
    id: Uuid,
}

impl OpenFlow {
    /// `None` when the flow has one, there is none left, or its opening has come before.
    fn take(grant: &Arc<Grant>, id: Uuid, number: u64) -> Option<Self> {
        let mut open = grant.flows.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= usize::clamped(grant.limit) || open.contains(&id) || !grant.take(number) {
            return None;
        }
        open.insert(id);
        Some(OpenFlow { grant: Arc::clone(grant), id })
    }
}

impl Drop for OpenFlow {
    fn drop(&mut self) {
        self.grant.flows.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Makes the cookies that prove an address.
pub(crate) struct Cookies {
    secret: [u8; 32],
}

impl Cookies {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Cookies { secret }
    }

    /// What only who receives at this address knows.
    fn cookie(&self, path: &Path, id: Uuid) -> [u8; 16] {
        let ip = match path.peer.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        keyed(&self.secret, &[b"netcaliper udp", &ip, &path.peer.port().to_be_bytes(), id.as_bytes()])
    }

    /// A datagram has come to this `worker` from a peer that has no socket of its own. A flow comes with its session and the number
    /// of its opening.
    pub(crate) fn on_opening(
        &self,
        grants: &Grants,
        acl: &Acl,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
        worker: u16,
    ) -> Option<(Box<dyn Flow>, Arc<Grant>, u64)> {
        let (path, word) = (got.from?, Word::decode(got.bytes)?);
        let grant = grants.find(word.session).filter(|_| acl.admits(path.peer.ip()))?;
        let terms = grant.terms.as_ref()?;
        if !grant.is_sealed(&word.sealed(), &word.seal) {
            return None;
        }
        let cookie = self.cookie(&path, word.id);
        match word.kind {
            Kind::Init => {
                let answer = Word { cookie, slot: word.slot, ..Word::new(Kind::Cookie, word.id) }.encode();
                reply.whole(&answer);
                None
            }
            // The comparison need not be constant-time: the cookie was sent to this address, and
            // no other address sees the answer.
            Kind::Open if word.cookie == cookie => {
                let open_flow = OpenFlow::take(&grant, word.id, word.number)?;
                let to = Some(grant.worker(word.slot)).filter(|&to| to != worker);
                let flow = Probe::server(Arc::clone(terms), &word, cx.now, open_flow).leaving(to);
                Some((Box::new(flow), grant, word.number))
            }
            _ => None,
        }
    }
}
