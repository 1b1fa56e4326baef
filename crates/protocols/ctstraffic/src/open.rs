//! What opens connections, and what answers them.

use super::codec::START;
use super::media::{MediaParams, Receiver, Sender};
use super::tcp::Connection;
use crate::one_sided::{Answers, Calls, GROUP};
use common::call::Caller;
use common::message::Told;
use common::pending::PendingPeers;
use common::{Acl, Limit, Params};
use metrics::{Ending, Group};
use model::Phase;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{Acceptor, Cause, Connector, Context, Flow, Path, Received, Transmit};

/// A client's sources of links for `phase`.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    if let Some(media) = MediaParams::of(phase, GROUP) {
        let media = Arc::new(MediaParams { arrivals: calls.arrivals, ..media });
        let tells = calls.frames;
        return Caller::for_all(phase, calls, true, &move |_: &mut Context<'_>, slot| -> Box<dyn Flow> {
            Box::new(Receiver::new(Arc::clone(&media), slot, tells))
        });
    }
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP) });
    Caller::for_all(phase, calls, false, &move |cx: &mut Context<'_>, slot| -> Box<dyn Flow> {
        let rude = params.rude(cx.rng);
        let transfer = transfer(&params, cx);
        Box::new(Connection::client(Arc::clone(&params), slot, transfer, rude))
    })
}

/// Payload of a connection; from a range each end draws its own, as in the original.
fn transfer(params: &Params, cx: &mut Context<'_>) -> u64 {
    cx.rng.between(params.transfer, params.transfer_high.unwrap_or(params.transfer))
}

/// A server's sources of links for `phase`.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let workers = answers.workers.max(1);
    let shared = Arc::new(Shared {
        params: Arc::new(Params { arrivals: answers.arrivals, ..Params::of(phase, GROUP) }),
        media: MediaParams::of(phase, GROUP)
            .map(|media| Arc::new(MediaParams { arrivals: answers.arrivals, ..media })),
        acl: answers.acl.clone(),
        streams: answers.streams.clone(),
        limit: Limit::new(answers.exit_after),
        // Streams are what such a server is for: they may take half of all files.
        most: answers.sockets.map_or(MOST_STREAMS, |eighth| (4 * eighth).clamp(1, MOST_STREAMS)),
        watching: Mutex::new(Watching {
            peers: HashSet::new(),
            addresses: HashMap::new(),
            streams: vec![0; workers.into()],
        }),
    });
    let one = |worker| {
        let pending = PendingPeers::default();
        Box::new(Answerer { shared: Arc::clone(&shared), worker, pending }) as Box<dyn Acceptor>
    };
    (0..workers).map(one).collect()
}

/// What a server's workers share.
struct Shared {
    params: Arc<Params>,
    media: Option<Arc<MediaParams>>,
    acl: Acl,
    streams: Acl,
    limit: Limit,
    /// Streams at once.
    most: usize,
    /// Clients with a stream. Locked once per stream and START.
    watching: Mutex<Watching>,
}

/// Clients with a stream, and the number of streams of each address and of each worker.
struct Watching {
    peers: HashSet<SocketAddr>,
    addresses: HashMap<IpAddr, usize>,
    streams: Vec<u32>,
}

impl Watching {
    /// Where a stream that arrived at worker `here` belongs: there, which may be the core of a receiver on this host, unless
    /// others have far fewer.
    fn worker(&self, here: u16) -> u16 {
        let ours = self.streams.get(usize::from(here)).copied().unwrap_or(0);
        let least = self.streams.iter().zip(0..).min().map_or((ours, here), |(&n, worker)| (n, worker));
        if ours > least.0 + 1 + least.0 / 8 { least.1 } else { here }
    }
}

/// Streams at once; who comes then may ask again.
const MOST_STREAMS: usize = 10_000;

/// A client's place among the streams, and the worker that serves it; given back when dropped.
struct Place {
    shared: Arc<Shared>,
    peer: SocketAddr,
    worker: u16,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut watching = self.shared.watching.lock().unwrap_or_else(PoisonError::into_inner);
        watching.peers.remove(&self.peer);
        if let Entry::Occupied(mut own) = watching.addresses.entry(self.peer.ip()) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
        if let Some(streams) = watching.streams.get_mut(usize::from(self.worker)) {
            *streams = streams.saturating_sub(1);
        }
    }
}

impl Shared {
    /// A place for a stream to `peer`, which came to worker `here`; `None` when it has one, or there is none left for its
    /// address.
    fn place(self: &Arc<Self>, peer: SocketAddr, here: u16) -> Option<Place> {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        // One address may have half of the places.
        let own = watching.addresses.get(&peer.ip()).copied().unwrap_or(0);
        let full = watching.peers.len() >= self.most || own >= (self.most / 2).max(1);
        if full || !watching.peers.insert(peer) {
            return None;
        }
        watching.addresses.insert(peer.ip(), own + 1);
        let worker = watching.worker(here);
        if let Some(streams) = watching.streams.get_mut(usize::from(worker)) {
            *streams += 1;
        }
        Some(Place { shared: Arc::clone(self), peer, worker })
    }
}

/// Answers connections and streams on one worker.
pub struct Answerer {
    shared: Arc<Shared>,
    worker: u16,
    pending: PendingPeers,
}

impl Acceptor for Answerer {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        let Shared { params, acl, limit, media, .. } = &*self.shared;
        if media.is_some() || !acl.admits(path.peer.ip()) || !limit.enter() {
            return None;
        }
        let transfer = transfer(params, cx);
        Some(Box::new(Connection::server(Arc::clone(params), transfer)))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let media = self.shared.media.as_ref()?;
        let peer = got.from?.peer;
        if got.bytes != START || !self.shared.acl.admits(peer.ip()) {
            return None;
        }
        if !self.shared.streams.admits(peer.ip()) {
            self.pending.warn_once(cx, peer.ip(), |who| {
                format!(
                    "{who} asked for a stream and gets none: a START proves no address, so streams go to this host and \
                     directly connected networks only, unless -Allow or NETCALIPER_ALLOW names the network"
                )
            });
            return None;
        }
        let Some(place) = self.shared.place(peer, self.worker) else {
            // It has its stream, whose socket was not there yet when this was sent.
            for group in [GROUP, Group::ALL] {
                cx.rec.tally(group).frames.repeated += 1;
            }
            return None;
        };
        if !self.shared.limit.enter() {
            return None;
        }
        let to = Some(place.worker).filter(|&to| to != self.worker);
        Some(Box::new(Sender::new(Arc::clone(media)).placed(place, to)))
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        if self.shared.limit.leave() {
            cx.post(Told::LimitReached);
        }
    }
}
