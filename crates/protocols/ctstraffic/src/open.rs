//! Openers of connections, and their answerers.

use super::codec::START;
use super::media::{Receiver, Sender};
use super::tcp::Connection;
use crate::one_sided::{Answers, Calls, GROUP};
use common::call::{Answerer, Bound, Caller};
use common::{Params, draws};
use metrics::Group;
use model::{Media, Phase};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{Acceptor, Connector, Context, Flow, Received};

/// A client's sources of links for `phase`.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let params = Arc::new(Params { arrivals: calls.arrivals, ..Params::of(phase, GROUP) });
    let tells = calls.frames;
    if let Some(media) = phase.media {
        let make = move |_: &mut Context<'_>, slot| Receiver::new(Arc::clone(&params), media, slot, tells);
        return Caller::one_per_worker(phase, calls, true, make);
    }
    Caller::one_per_worker(phase, calls, false, move |cx, slot| {
        let rude = params.rude(cx.rng);
        let transfer = draws::transfer(&params, cx.rng);
        Connection::client(Arc::clone(&params), slot, transfer, rude)
    })
}

/// A server's sources of links for `phase`.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let params = Arc::new(Params { arrivals: answers.arrivals, ..Params::of(phase, GROUP) });
    let accepting = Arc::clone(&params);
    let make = move |cx: &mut Context<'_>| {
        // From a range each end draws its own, as in the original.
        let transfer = draws::transfer(&accepting, cx.rng);
        Connection::server(Arc::clone(&accepting), transfer)
    };
    let Some(media) = phase.media else { return Answerer::one_per_worker(answers, make) };
    let shared = Arc::new(StreamServer {
        params,
        media,
        // Streams are what such a server is for: they may take half of all files.
        most: answers.sockets.map_or(MOST_STREAMS, |eighth| (4 * eighth).clamp(1, MOST_STREAMS)),
        watching: Mutex::new(Watching {
            peers: HashSet::new(),
            addresses: HashMap::new(),
            streams: vec![0; usize::from(answers.workers.max(1))],
        }),
    });
    Answerer::with_datagrams(answers, make, move |cx, got, _, bound| shared.stream(cx, got, bound))
}

/// State that the workers of a server of streams share.
struct StreamServer {
    params: Arc<Params>,
    media: Media,
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
    /// The worker for a stream that arrived at worker `here`: there, which may be the core of a
    /// receiver on this host, unless others have far fewer.
    fn worker(&self, here: u16) -> u16 {
        let ours = self.streams.get(usize::from(here)).copied().unwrap_or(0);
        let least = self.streams.iter().zip(0..).min().map_or((ours, here), |(&n, worker)| (n, worker));
        if ours > least.0 + 1 + least.0 / 8 { least.1 } else { here }
    }
}

/// Most streams at once; later clients may ask again.
const MOST_STREAMS: usize = 10_000;

/// A client's place among the streams, and the worker that serves it; given back when dropped.
struct StreamPlace {
    shared: Arc<StreamServer>,
    peer: SocketAddr,
    worker: u16,
}

impl Drop for StreamPlace {
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

impl StreamServer {
    /// A place for a stream to `peer`, which arrived at worker `here`; `None` when it has one, or
    /// there is none left for its address.
    fn place(self: &Arc<Self>, peer: SocketAddr, here: u16) -> Option<StreamPlace> {
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
        Some(StreamPlace { shared: Arc::clone(self), peer, worker })
    }

    /// The stream for a START that arrived at the worker of `bound`.
    fn stream(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        bound: &mut Bound,
    ) -> Option<Box<dyn Flow>> {
        let peer = got.from?.peer;
        if got.bytes != START {
            return None;
        }
        if !bound.streams.admits(peer.ip()) {
            bound.account.pending.warn_once(cx, peer.ip(), |who| {
                format!(
                    "{who} asked for a stream and gets none: a START proves no address, so streams go to this host and \
                     directly connected networks only, unless -Allow or NETCALIPER_ALLOW names the network"
                )
            });
            return None;
        }
        let Some(place) = self.place(peer, bound.worker) else {
            // The client has its stream, whose socket did not exist yet when this was sent.
            for group in [GROUP, Group::ALL] {
                cx.rec.tally(group).frames.repeated += 1;
            }
            return None;
        };
        let to = Some(place.worker).filter(|&to| to != bound.worker);
        Some(Box::new(Sender::new(&self.params, self.media).placed(place, to)))
    }
}
