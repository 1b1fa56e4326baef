//! The client's side of opening data connections.

use super::data::{Data, Params};
use super::opening::Opener;
use super::ping::Caller;
use crate::round_robin::RoundRobin;
use common::ping;
use metrics::{Clamped, Ending};
use model::Transport;
use model::churn::{Broker, Next};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use transport::{Cause, Connector, Context, Flow, Open, Target};

/// A server address that has accepted the phase.
#[derive(Clone, Debug)]
pub struct Site {
    pub address: SocketAddr,
    /// What opens connections of the session there.
    pub opener: Opener,
    pub params: Arc<Params>,
    /// What its messages are like, when round trips are measured.
    pub pings: Option<Arc<ping::Params>>,
    pub connections: u32,
}

/// Opens connections to one or several sites, as the broker says: slot by slot, sites and sources round robin. A site that
/// has granted fewer connections than others is left out once it has them.
pub struct Dialer {
    broker: Broker,
    sites: Vec<Site>,
    round_robin: RoundRobin,
    /// More sites than connections in the run: these then visit them in turn.
    rotate: bool,
}

impl Dialer {
    /// A dialer for the part of the run that `broker` has. `ports` is an inclusive range of local ports; `worker` of
    /// `workers` decides which of them are ours, so that two workers never try the same. With `rotate`, as when there are
    /// fewer connections than sites, they visit the sites in turn.
    pub fn new(
        broker: Broker,
        sites: Vec<Site>,
        rotate: bool,
        sources: Vec<IpAddr>,
        ports: Option<(u16, u16)>,
        worker: u16,
        workers: u16,
    ) -> Self {
        Dialer { broker, rotate, sites, round_robin: RoundRobin::new(sources, ports, worker, workers) }
    }
}

/// The index of the server to which the connections of a slot go. Slots are dealt to the servers in turn; a server that has got as many
/// slots as it granted is passed over.
pub(super) fn site_of(slot: u32, granted: impl Iterator<Item = u32> + Clone) -> usize {
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

impl Connector for Dialer {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        if self.sites.is_empty() {
            return Open::Done;
        }
        match self.broker.next(cx.now) {
            Next::Start { slot, bytes } => {
                let next = usize::clamped(self.round_robin.turns() % u64::clamped(self.sites.len()));
                let granted = self.sites.iter().map(|site| site.connections);
                let at = if self.rotate { next } else { site_of(slot, granted) };
                let site = self.sites[at].clone();
                let from = self.round_robin.next(site.address);
                let rude = site.params.rude(cx.rng);
                let id = cx.rng.uuid();
                let target = Target { to: site.address, from };
                if let Some(pings) = site.pings {
                    let datagrams = pings.ping.transport == Transport::Udp;
                    let flow = Box::new(Caller::new(pings, &site.opener, id, slot));
                    return if datagrams { Open::Datagram(flow, target) } else { Open::Flow(flow, target) };
                }
                let data = Data::client(site.params, &site.opener, id, slot, bytes, rude);
                Open::Flow(Box::new(data), target)
            }
            Next::At(at) => Open::At(at),
            Next::Idle => Open::Idle,
            Next::Done => Open::Done,
        }
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let failed = !matches!(how, Ok(Ending::Completed | Ending::Stopped));
        self.broker.ended(flow.id().slot, cx.now, failed);
    }

    fn stop(&mut self) {
        self.broker.stop();
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
