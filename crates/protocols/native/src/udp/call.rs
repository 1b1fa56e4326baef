//! The client's opener: all flows at once.

use super::flow::Probe;
use super::serve::Terms;
use crate::dial::site_of;
use metrics::Clamped;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use transport::{Connector, Context, Open, Target};

/// A server, and what was agreed with it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) terms: Arc<Terms>,
    pub(crate) flows: u32,
}

/// Opens one worker's share of the flows. What fails is not replaced: a flow is a measurement, and a gap in it would be one.
pub(crate) struct Callers {
    sites: Vec<Site>,
    sources: Vec<IpAddr>,
    ports: Option<(u16, u16)>,
    /// The next slot, and the distance to the one after it.
    next: u32,
    step: u32,
    flows: u32,
}

impl Callers {
    /// The opener of worker `worker` of `workers` for `flows` flows in all.
    pub(crate) fn new(
        sites: Vec<Site>,
        flows: u32,
        sources: Vec<IpAddr>,
        ports: Option<(u16, u16)>,
        worker: u16,
        workers: u16,
    ) -> Self {
        Callers { sites, sources, ports, next: worker.into(), step: workers.max(1).into(), flows }
    }

    fn from(&self, slot: u32, to: SocketAddr) -> Option<SocketAddr> {
        let fitting: Vec<IpAddr> =
            self.sources.iter().copied().filter(|source| source.is_ipv4() == to.is_ipv4()).collect();
        let ip = fitting.get(usize::clamped(slot) % fitting.len().max(1)).copied();
        let port = self.ports.map_or(0, |(low, high)| {
            low.saturating_add((slot % (u32::from(high.saturating_sub(low)) + 1)) as u16)
        });
        let any = || match to {
            SocketAddr::V4(_) => IpAddr::from([0; 4]),
            SocketAddr::V6(_) => IpAddr::from([0_u16; 8]),
        };
        (ip.is_some() || port != 0).then(|| SocketAddr::new(ip.unwrap_or_else(any), port))
    }
}

impl Connector for Callers {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        if self.next >= self.flows {
            return Open::Done;
        }
        let slot = self.next;
        self.next = self.next.saturating_add(self.step);
        let at = site_of(slot, self.sites.iter().map(|site| site.flows));
        let Some(site) = self.sites.get(at) else { return Open::Done };
        let flow = Probe::client(Arc::clone(&site.terms), cx.rng.uuid(), slot, cx.now);
        Open::Datagram(Box::new(flow), Target { to: site.address, from: self.from(slot, site.address) })
    }

    fn stop(&mut self) {
        self.next = u32::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Group;
    use model::{Kind, Phase};

    fn callers(flows: &[u32], ports: Option<(u16, u16)>) -> Callers {
        let phase = Phase { kind: Kind::Delay, probe: Some(model::Probe::default()), ..Phase::default() };
        let terms = Arc::new(Terms::of(&phase, Group(1), None).unwrap());
        let site = |(i, &flows): (usize, &u32)| Site {
            address: ([10, 0, 0, i as u8], 7).into(),
            terms: Arc::clone(&terms),
            flows,
        };
        Callers::new(flows.iter().enumerate().map(site).collect(), 10, Vec::new(), ports, 0, 1)
    }

    #[test]
    fn ports_are_used_in_turn() {
        let some = callers(&[9], Some((5_000, 5_002)));
        let to = some.sites[0].address;
        let ports: Vec<u16> = (0..4).filter_map(|slot| some.from(slot, to)).map(|a| a.port()).collect();
        assert_eq!(ports, [5_000, 5_001, 5_002, 5_000]);
        assert_eq!(callers(&[9], None).from(3, to), None);
    }
}
