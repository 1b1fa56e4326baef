//! Plans of connectors and acceptors of a session, for its own process and, as JSON, for worker
//! processes.

use super::capacity;
use super::data::Params;
use super::dial::{Site, dialer};
use super::grants::{Grant, Grants};
use super::handshake::Listener;
use super::opening::{Opener, OpeningKey};
use super::udp::Terms;
use common::capacity::{Asked, Reports};
use common::protocol::Foreigners;
use common::wait::wait;
use common::{Acl, ping};
use ipnet::IpNet;
use metrics::{Clamped, Group, Mono, SECOND};
use model::Phase;
use model::document::{Document, field};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use transport::{Acceptor, Allowance, Connector, GroupPlan, LinkSource, Order, Part, Replica, Wait};

/// A port of a server's worker process, and its part of a session's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessPort {
    pub port: u16,
    pub connections: u32,
}

/// Most ports of a server.
pub(super) const MOST_PROCESS_PORTS: usize = 1_024;

/// A server's address at which a client opens connections of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    pub(super) session: u64,
    pub(super) key: [u8; 32],
    #[serde(with = "field")]
    pub(super) phase: Phase,
    pub(super) connections: u32,
}

/// Plan of a client's connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Dialing {
    pub(super) group: Group,
    #[serde(with = "field")]
    pub(super) phase: Phase,
    pub(super) start: Mono,
    pub(super) end: Option<Mono>,
    pub(super) places: Vec<Place>,
    pub(super) sources: Vec<SocketAddr>,
    pub(super) ports: Option<(u16, u16)>,
    pub(super) records: bool,
}

/// The plan of a client's group whose connections are opened by this number of workers.
pub(super) fn plan_of(phase: &Phase, group: Group, start: Mono, workers: u16, records: bool) -> GroupPlan {
    let mut plan = GroupPlan::of(phase, group, start);
    // Echoes need no receive stamps and header fields unless the kernel's stamps were requested.
    if let Some(ping) = &phase.ping {
        plan.sockets = phase.sockets.of_messages(ping.kernel_stamps);
    }
    GroupPlan {
        throttle: phase.throttle.div_ceil(workers.max(1).into()),
        // A connection that is to be held has its verdict at once, others perhaps at the end of the
        // run.
        until_heard: phase.hold_ns.is_some(),
        records,
        wait: wait(phase, phase.pattern.sends_up(), true),
        tail: phase.probe.is_some(),
        ..plan
    }
}

impl Dialing {
    /// Connectors of these workers, of `of` in all.
    pub(super) fn connectors(&self, workers: Range<u16>, of: u16) -> Vec<Box<dyn Connector>> {
        // Each process draws numbers of its own.
        let first = u64::from(workers.start) << 40;
        let reports = self.reports();
        let site = |place: &Place| {
            let opener = Opener::new(place.session, OpeningKey::of(place.key)).from(first);
            let terms = Terms::of(&place.phase, self.group, Some(opener.clone()));
            let pings = ping::Params::ours(&place.phase, self.group);
            let capacity = capacity::Terms::of(&place.phase, self.group);
            Site {
                address: place.address,
                opener,
                params: Arc::new(Params::of(&place.phase, self.group)),
                terms: terms
                    .map(|terms| Arc::new(Terms { start: Some(self.start), tells: self.records, ..terms })),
                pings: pings.map(|params| Arc::new(params.during(self.start, self.end))),
                capacity: capacity.map(|terms| Arc::new(terms.reporting(&reports))),
                connections: place.connections,
            }
        };
        let sites: Vec<Site> = self.places.iter().map(site).collect();
        let one = |w| -> Box<dyn Connector> { Box::new(dialer(self, sites.clone(), w, of)) };
        workers.map(one).collect()
    }

    /// Reports of a capacity test's connections to all servers.
    fn reports(&self) -> Reports {
        let Some(settings) = self.phase.capacity else { return Reports::default() };
        let most = |place: &Place| Some(capacity::Terms::of(&place.phase, self.group)?.most_bps());
        Reports::default().folded(Asked {
            upstream: self.phase.pattern.sends_up(),
            connections: usize::clamped(self.phase.connections),
            overhead: settings.overhead,
            planned: settings.sub_intervals(self.phase.duration_ns.unwrap_or(u64::MAX)),
            first_mode: settings.first_mode,
            most_bps: self.places.iter().filter_map(most).max().unwrap_or(0),
        })
    }
}

/// Plan of a server's acceptors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Listening {
    pub(super) start: Mono,
    pub(super) interval_ns: u64,
    pub(super) records: bool,
    pub(super) allow: Vec<String>,
    pub(super) deny: Vec<String>,
}

impl Listening {
    /// The plan of the group that counts all of a server's connections.
    pub(super) fn plan(&self) -> GroupPlan {
        GroupPlan { records: self.records, ..GroupPlan::new(Group::ALL, self.start, self.interval_ns) }
    }

    fn acl(&self) -> Option<Acl> {
        let networks =
            |texts: &[String]| -> Option<Vec<IpNet>> { texts.iter().map(|text| text.parse().ok()).collect() };
        Some(Acl { allow: networks(&self.allow)?, deny: networks(&self.deny)? })
    }
}

/// The connections that a server's session may have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Granting {
    pub(super) group: Group,
    pub(super) session: u64,
    pub(super) key: [u8; 32],
    #[serde(with = "field")]
    pub(super) phase: Phase,
    pub(super) start: Mono,
    /// Address of the client.
    pub(super) peer: IpAddr,
    pub(super) records: bool,
    /// Workers spin where they are asked to, and for round trips without being asked.
    pub(super) busy: bool,
    pub(super) eager: bool,
    /// Limits of these connections.
    pub(super) terms: Bounds,
    /// Ports of worker processes that have these connections; if empty, the server's own port has
    /// them.
    pub(super) process_ports: Vec<ProcessPort>,
}

/// Limits of a session's connections.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Bounds {
    /// Bits/s of a direction.
    pub(super) rate: Option<u64>,
    /// Bytes of both directions.
    pub(super) bytes: Option<u64>,
    /// The phase was shortened: nothing moves later.
    pub(super) time: bool,
}

/// Bytes of a session may move this much later than agreed, ns.
const LATE: u64 = 2 * SECOND;

impl Granting {
    /// The allowance of `part` in `of` connections, where one is limited.
    pub(super) fn allowance(
        &self,
        above: Vec<Arc<Allowance>>,
        (part, of): (u32, u32),
        now: Mono,
    ) -> Option<Arc<Allowance>> {
        let Bounds { rate, bytes, time } = self.terms;
        let share = |all: u64| (all / u64::from(of.max(1))).saturating_mul(part.into()).max(1);
        let ends = self.phase.ends_after().filter(|_| time);
        let time_ns = ends.map(|ns| self.start.plus(ns).plus(LATE).since(now));
        let terms = transport::Terms { rate: rate.map(share), bytes, time_ns };
        let phase = &self.phase;
        let train = phase.train.as_ref().zip(phase.probe.as_ref());
        let train = train.map_or(0, |(train, probe)| u64::from(train.packets) * u64::from(probe.size));
        let burst = phase.media.map_or(train, |media| media.frame_size.saturating_mul(2));
        let is_limited = !terms.is_unlimited() || !above.is_empty();
        is_limited.then(|| Arc::new(Allowance::new("one session", terms, above, now).agreed(burst)))
    }

    pub(super) fn plan(&self) -> GroupPlan {
        let phase = &self.phase;
        let waiting = match self.eager {
            true => Wait::Spin,
            false => wait(phase, phase.pattern.sends_down(), self.busy),
        };
        let mut plan = GroupPlan::of(phase, self.group, self.start);
        if phase.ping.is_some() {
            // The wait of a message in the socket is part of the time at this end, and needs
            // receive stamps. A worker that spins reads at once.
            plan.sockets = phase.sockets.of_messages(waiting != Wait::Spin);
        }
        GroupPlan {
            records: self.records,
            packets: phase.probe.is_some() || phase.capacity.is_some(),
            tail: phase.probe.is_some(),
            wait: waiting,
            ..plan
        }
    }

    /// The grant of the connections on these workers: all of the session, or the part of `port`, by
    /// its place in the list.
    pub(super) fn grant(&self, workers: Range<u16>, port: Option<usize>) -> Grant {
        let (phase, key) = (&self.phase, OpeningKey::of(self.key));
        let port = port.and_then(|at| self.process_ports.get(at));
        let (key, limit) = match port {
            Some(port) => (key.of_port(port.port), port.connections),
            None => (key, phase.connections),
        };
        let params = Arc::new(Params::of(phase, self.group));
        let processes = u32::clamped(self.process_ports.len()).max(1);
        let mut grant = Grant::new(key, params, workers);
        (grant.limit, grant.processes, grant.apart) = (limit, processes, self.eager);
        grant
    }
}

/// Serialised plan of a group for a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub(super) enum About {
    Dial(Dialing),
    Listen(Listening),
    Grant(Granting),
}

model::tagged_document!(About, "is");

impl About {
    pub(super) fn encode(&self) -> Arc<[u8]> {
        let mut text = Vec::new();
        // Writing our own types into memory cannot fail; if it ever did, no worker process would
        // understand it.
        let _ = self.write(&mut text);
        text.into()
    }
}

/// A client's or a server's session in a worker process.
#[derive(Default)]
pub(super) struct Sharer {
    /// Of a server.
    grants: Option<Arc<Grants>>,
    /// The sessions of its groups.
    sessions: HashMap<Group, u64>,
}

impl Replica for Sharer {
    fn group(&mut self, part: Part, workers: u16, about: &[u8]) -> Option<(GroupPlan, Vec<LinkSource>)> {
        match About::read(about).ok()? {
            About::Dial(dialing) => {
                let of = u16::try_from(part.of).ok()?.checked_mul(workers)?;
                let first = u16::try_from(part.index).ok()?.checked_mul(workers)?;
                let plan = plan_of(&dialing.phase, dialing.group, dialing.start, of, dialing.records);
                Some((plan, LinkSource::connectors(dialing.connectors(first..first + workers, of))))
            }
            About::Listen(listening) => {
                let grants = Arc::new(Grants::new(Foreigners::default(), None));
                let acl = Arc::new(listening.acl()?);
                self.grants = Some(Arc::clone(&grants));
                let listener = |w| Box::new(Listener::new(Arc::clone(&grants), Arc::clone(&acl), w));
                let acceptors = (0..workers).map(|w| listener(w) as Box<dyn Acceptor>).collect();
                Some((listening.plan(), LinkSource::acceptors(acceptors)))
            }
            About::Grant(granting) => {
                let grant = granting.grant(0..workers, Some(usize::clamped(part.index)));
                self.grants.as_ref()?.insert(granting.session, Arc::new(grant));
                self.sessions.insert(granting.group, granting.session);
                let port = granting.process_ports.get(usize::clamped(part.index));
                let connections = port.map_or(0, |port| port.connections);
                let share = (connections, granting.phase.connections);
                let allowance = granting.allowance(Vec::new(), share, granting.start);
                let promised = Some((granting.peer, connections));
                Some((GroupPlan { allowance, promised, ..granting.plan() }, Vec::new()))
            }
        }
    }

    fn order(&mut self, group: Group, order: Order) {
        // Later connections of the session are refused.
        if matches!(order, Order::Stop | Order::Drop)
            && let (Some(grants), Some(session)) = (&self.grants, self.sessions.remove(&group))
        {
            grants.remove(session);
        }
    }
}
