//! The client's side of opening data connections.

use super::data::{Data, Params};
use metrics::Ending;
use model::Shutdown;
use model::churn::{Broker, Next, Plan};
use seam::{Cause, Cx, Flow, Open, Opener, Path, Target};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A server address that has accepted the phase.
#[derive(Clone, Debug)]
pub struct Site {
    /// Where.
    pub address: SocketAddr,
    /// The session's secret there.
    pub token: [u8; 16],
    /// What its connections are like.
    pub params: Arc<Params>,
}

/// Opens connections to one or several sites, as the broker says: slot by slot, sites and sources round robin.
pub struct Dialer {
    broker: Broker,
    sites: Vec<Site>,
    sources: Vec<IpAddr>,
    ports: Option<(u16, u16)>,
    port: u16,
    opened: u64,
    /// More sites than slots: a slot then visits them in turn.
    rotate: bool,
}

impl Dialer {
    /// A dialer for the part of the run described by `plan`. `ports` is an inclusive range of local ports; `worker` of
    /// `workers` decides which of them are ours, so that two workers never try the same.
    #[must_use]
    pub fn new(
        plan: &Plan,
        sites: Vec<Site>,
        sources: Vec<IpAddr>,
        ports: Option<(u16, u16)>,
        worker: u16,
        workers: u16,
    ) -> Self {
        let ports = ports.map(|(low, high)| {
            let span = u32::from(high - low) + 1;
            let (w, n) = (u32::from(worker), u32::from(workers.max(1)));
            let first = low + (span * w / n) as u16;
            let last = low + (span * (w + 1) / n).saturating_sub(1) as u16;
            (first.min(high), last.clamp(first.min(high), high))
        });
        Dialer {
            broker: Broker::new(plan),
            rotate: plan.slots.len() < sites.len(),
            sites,
            sources,
            port: ports.map_or(0, |p| p.0),
            ports,
            opened: 0,
        }
    }

    fn source(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        let fitting = self.sources.iter().filter(|a| a.is_ipv4() == to.is_ipv4()).count();
        let pick = (self.opened as usize).checked_rem(fitting);
        let address =
            pick.and_then(|n| self.sources.iter().filter(|a| a.is_ipv4() == to.is_ipv4()).nth(n)).copied();
        if address.is_none() && self.ports.is_none() {
            return None;
        }
        let any = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let port = self.port;
        if let Some((low, high)) = self.ports {
            self.port = if port >= high { low } else { port + 1 };
        }
        Some(SocketAddr::new(address.unwrap_or(any), port))
    }
}

impl Opener for Dialer {
    fn open(&mut self, cx: &mut Cx<'_>) -> Open {
        if self.sites.is_empty() {
            return Open::Done;
        }
        match self.broker.next(cx.now) {
            Next::Start { slot, bytes } => {
                let turn = if self.rotate { self.opened } else { u64::from(slot) };
                let site = self.sites[(turn % self.sites.len() as u64) as usize].clone();
                let from = self.source(site.address);
                self.opened += 1;
                let rude = match site.params.shutdown {
                    Shutdown::Graceful => false,
                    Shutdown::Rude => true,
                    Shutdown::Random => cx.rng.next() & 1 == 1,
                };
                let id = cx.rng.uuid();
                let data = Data::client(site.params, site.token, id, slot, bytes, rude);
                Open::Flow(Box::new(data), Target { to: site.address, from })
            }
            Next::At(at) => Open::At(at),
            Next::Idle => Open::Idle,
            Next::Done => Open::Done,
        }
    }

    fn accept(&mut self, _: &mut Cx<'_>, _: &Path) -> Option<Box<dyn Flow>> {
        None
    }

    fn closed(&mut self, cx: &mut Cx<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let failed = !matches!(how, Ok(Ending::Completed | Ending::Stopped));
        self.broker.ended(flow.card().slot, cx.now, failed);
    }

    fn stop(&mut self) {
        self.broker.stop();
    }
}
