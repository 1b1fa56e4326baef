//! The client's side of opening data connections and flows of datagrams.

use super::capacity::{self, Opening};
use super::data::{Data, Params};
use super::opening::Opener;
use super::ping::Caller;
use super::spread::Dialing;
use super::udp::{Probe, Terms};
use crate::round_robin::{RoundRobin, local_address, port_of};
use common::draws::{self, Drawn};
use common::{call, ping};
use metrics::Clamped;
use model::Phase;
use model::churn::Broker;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Open, Target};

/// A server address that has accepted the phase.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) address: SocketAddr,
    /// Opener of the session's connections there.
    pub(super) opener: Opener,
    pub(super) params: Arc<Params>,
    /// Terms of its flows of datagrams, when numbered datagrams are sent.
    pub(super) terms: Option<Arc<Terms>>,
    /// Terms of its connections, when the capacity is measured.
    pub(super) capacity: Option<Arc<capacity::Terms>>,
    /// Settings of its messages, when round trips are measured.
    pub(super) pings: Option<Arc<ping::Params>>,
    pub(super) connections: u32,
}

/// Opens connections to one or several sites, as the broker says: slot by slot, sites and sources
/// round robin. A site that has granted fewer connections than others is left out once it has them.
///
/// The opener of the part of the run that worker `worker` of `workers` has. The worker decides
/// which of the local ports are ours, so that two workers never try the same.
pub(super) fn dialer(dialing: &Dialing, sites: Vec<Site>, worker: u16, workers: u16) -> call::Caller {
    let Dialing { phase, sources, ports, .. } = dialing;
    let datagrams = phase.probe.is_some() || phase.capacity.is_some();
    // A flow of datagrams is a measurement, and a gap in it would be one: what fails is not
    // replaced.
    let once = || Phase { iterations: Some(1), total_bytes: None, connect_rate: None, ..phase.clone() };
    let phase = if datagrams { &once() } else { phase };
    let (sources, ports) = (sources.clone(), *ports);
    let mut round_robin = RoundRobin::new(sources.clone(), ports, worker, workers);
    let (seed, mut lives) = (phase.draw_seed, HashMap::<u32, u64>::new());
    call::Caller::new(Broker::part(phase, worker.into(), workers.into()), move |cx, slot, bytes| {
        let granted = sites.iter().map(|site| site.connections);
        let Some(site) = sites.get(site_of(slot, granted)) else { return Open::Done };
        let to = site.address;
        if let Some(terms) = &site.terms {
            let port = ports.map(|ports| port_of(slot.into(), ports));
            let from = local_address(&sources, usize::clamped(slot), port, to);
            let flow = Probe::client(Arc::clone(terms), cx.rng.uuid(), slot, cx.now);
            return Open::Datagram(Box::new(flow), Target { to, from });
        }
        if let Some(terms) = &site.capacity {
            let flow = Opening::new(Arc::clone(terms), &site.opener, cx.rng.uuid(), slot);
            return Open::Datagram(Box::new(flow), Target { to, from: round_robin.next(to) });
        }
        let target = Target { to, from: round_robin.next(to) };
        let rude = site.params.rude(cx.rng);
        // Both ends draw from the identifier.
        let id = match seed {
            None => cx.rng.uuid(),
            Some(seed) => {
                let life = lives.entry(slot).or_default();
                *life += 1;
                draws::identifier(seed, slot, *life)
            }
        };
        let bytes = match site.params.transfer_high {
            None => bytes,
            Some(_) => draws::transfer(&site.params, &mut draws::generator(id, true, Drawn::Transfer)),
        };
        match &site.pings {
            Some(pings) => {
                let flow = Box::new(Caller::new(Arc::clone(pings), &site.opener, id, slot));
                if pings.datagrams() { Open::Datagram(flow, target) } else { Open::Flow(flow, target) }
            }
            None => {
                let data = Data::client(Arc::clone(&site.params), &site.opener, id, slot, bytes, rude);
                Open::Flow(Box::new(data), target)
            }
        }
    })
}

/// The index of the server to which the connections of a slot go. Slots are dealt to the servers in
/// turn; a server that has got as many slots as it granted is passed over.
fn site_of(slot: u32, granted: impl Iterator<Item = u32> + Clone) -> usize {
    let all: u64 = granted.clone().map(u64::from).sum();
    let mut left = u64::from(slot) % all.max(1);
    let mut passes = 0;
    loop {
        let open = || granted.clone().enumerate().filter(move |&(_, connections)| connections > passes);
        let count = u64::clamped(open().count());
        let Some(least) = open().map(|(_, connections)| connections).min() else { return 0 };
        let block = u64::from(least - passes) * count;
        if left < block {
            let nth = usize::clamped(left % count);
            return open().map(|(at, _)| at).nth(nth).unwrap_or(0);
        }
        left -= block;
        passes = least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_gets_what_it_has_granted_and_in_turn() {
        let order = |granted: &[u32]| -> Vec<usize> {
            (0..granted.iter().sum()).map(|slot| site_of(slot, granted.iter().copied())).collect()
        };
        assert_eq!(order(&[3, 3]), [0, 1, 0, 1, 0, 1]);
        assert_eq!(order(&[1, 4, 2]), [0, 1, 2, 1, 2, 1, 1]);
        let uneven = order(&[100, 7, 1_000]);
        let count = |site| uneven.iter().filter(|&&s| s == site).count();
        assert_eq!((count(0), count(1), count(2)), (100, 7, 1_000));
    }
}
