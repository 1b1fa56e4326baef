//! Two flows and what lies between them, each on a machine of its own.

use super::START;
use super::datagram::Fate;
use super::flow::{GROUP, NoFlow, ObservedFlow, SingleFlow, Source};
use super::link::Link;
use super::network::{Host, Network};
use super::platform::lock;
use super::quirks::Quirks;
use super::side::Side;
use metrics::{Counts, Ending, Group, Mono, SECOND};
use model::SocketSettings;
use std::net::SocketAddr;
use transport::{
    Acceptor, Action, Cause, Context, Flow, GroupPlan, Input, LinkSource, Order, Path, Session, Target, Wait,
};

/// The machines start this long before the flows, ns.
const BEFORE: u64 = SECOND / 100;
/// The accepting end's UDP socket is opened this long before the other's, ns.
const EARLIER: u64 = 200_000;
const ENDS: [([u8; 4], u16); 2] = [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 7_411)];

/// One end of a [`Pair`].
pub struct End {
    pub side: Side,
    pub flow: Box<dyn Flow>,
    /// How it has ended, as the engine would count it.
    pub ended: Option<Result<Ending, Cause>>,
    pub ended_at: Mono,
    /// The flow asked for its socket to be detached.
    pub detached: bool,
    pub counts: Counts,
    observed: ObservedFlow,
    source: Option<Source>,
    stop_at: Option<Mono>,
}

impl End {
    fn new(flow: Box<dyn Flow>, seed: u64, source: Source) -> Self {
        End {
            side: Side::new(seed, Quirks::default()),
            flow,
            ended: None,
            ended_at: Mono(0),
            detached: false,
            counts: Counts::default(),
            observed: ObservedFlow::new(Side::new(0, Quirks::default()), Box::new(NoFlow)),
            source: Some(source),
            stop_at: None,
        }
    }

    /// Whether it moved everything and agreed with the other end.
    pub fn completed(&self) -> bool {
        self.ended == Some(Ok(Ending::Completed))
    }

    /// Exchanges what the test has and what the worker has.
    fn swap(&mut self) {
        let state = &mut *lock(&self.observed.0);
        std::mem::swap(&mut state.side, &mut self.side);
        std::mem::swap(&mut state.flow, &mut self.flow);
    }

    /// Shows the test what has happened.
    fn show(&mut self) {
        self.swap();
        let state = lock(&self.observed.0);
        self.detached = state.detached;
        if let Some((at, how)) = state.ended.clone().filter(|_| !state.detached) {
            (self.ended, self.ended_at) = (Some(how), at);
        }
        drop(state);
        if let Some(row) = self.flow.id().row {
            (self.counts, _) = self.side.rec.life(row);
        }
    }

    fn is_over(&self) -> bool {
        let state = lock(&self.observed.0);
        state.ended.is_some() || state.detached
    }
}

/// Two flows over one connection: `ends[0]` has opened it, `ends[1]` accepted it.
pub struct Pair {
    pub ends: [End; 2],
    pub now: Mono,
    network: Option<Network>,
    links: [Link; 2],
    quirks: Quirks,
    wait: Wait,
    sockets: SocketSettings,
    seed: u64,
}

fn address(end: usize) -> SocketAddr {
    ENDS[end].into()
}

fn connects(end: usize, datagrams: bool) -> Source {
    let target = Target { to: address(1 - end), from: Some(address(end)) };
    Source::Connects { target, datagrams, at: if end == 0 { START } else { Mono(START.0 - EARLIER) } }
}

impl Pair {
    pub fn stream(client: Box<dyn Flow>, server: Box<dyn Flow>) -> Self {
        Pair::new(client, server, connects(0, false), Source::Accepts)
    }

    pub fn datagrams(client: Box<dyn Flow>, server: Box<dyn Flow>) -> Self {
        Pair::new(client, server, connects(0, true), connects(1, true))
    }

    /// A flow on a connected UDP socket, and `acceptor` at the bound UDP socket of a server.
    pub fn unsolicited(client: Box<dyn Flow>, acceptor: Box<dyn Acceptor>) -> Self {
        Pair::new(client, Box::new(NoFlow), connects(0, true), Source::Unsolicited(acceptor))
    }

    /// A flow that has connected to what `acceptor` makes of it.
    ///
    /// # Panics
    /// When the acceptor refuses.
    pub fn accepted(client: Box<dyn Flow>, acceptor: &mut dyn Acceptor) -> Self {
        let path = Path { peer: address(0), local: address(1) };
        let mut side = Side::new(1, Quirks::default());
        let server = acceptor.accept(&mut side.cx(START), &path).expect("the acceptor refused");
        Pair::stream(client, server)
    }

    fn new(client: Box<dyn Flow>, server: Box<dyn Flow>, opens: Source, accepts: Source) -> Self {
        let ends = [End::new(client, 1, opens), End::new(server, 2, accepts)];
        let links = [Link::new(), Link::new()];
        let (quirks, sockets) = (Quirks::default(), SocketSettings::default());
        Pair { ends, now: START, network: None, links, quirks, wait: Wait::Block, sockets, seed: 1 }
    }

    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Pair { seed, ..self }.sides()
    }

    #[must_use]
    pub fn up(mut self, link: Link) -> Self {
        self.links[0] = link;
        self
    }

    #[must_use]
    pub fn down(mut self, link: Link) -> Self {
        self.links[1] = link;
        self
    }

    #[must_use]
    pub fn both(self, link: Link) -> Self {
        self.up(link.clone()).down(link)
    }

    #[must_use]
    pub fn quirks(self, quirks: Quirks) -> Self {
        Pair { quirks, ..self }.sides()
    }

    /// How the worker of the client waits.
    #[must_use]
    pub fn wait(self, wait: Wait) -> Self {
        Pair { wait, ..self }
    }

    #[must_use]
    pub fn sockets(self, sockets: SocketSettings) -> Self {
        Pair { sockets, ..self }
    }

    fn sides(mut self) -> Self {
        for (i, end) in self.ends.iter_mut().enumerate() {
            end.side = Side::new(self.seed * 2 + i as u64, self.quirks);
        }
        self
    }

    /// An end (0 the client, 1 the server) is told to stop, `after` ns from the start.
    #[must_use]
    pub fn stop(mut self, end: usize, after: u64) -> Self {
        self.ends[end].stop_at = Some(START.plus(after));
        self
    }

    /// Runs until both ends have ended, or nothing can happen any more.
    pub fn run(&mut self) -> &mut Self {
        self.run_until(Mono(u64::MAX))
    }

    /// Runs until `limit`, unless it is over before.
    ///
    /// # Panics
    /// When a flow breaks a rule of `transport`.
    pub fn run_until(&mut self, limit: Mono) -> &mut Self {
        let mut network = self.network.take().unwrap_or_else(|| self.begin());
        self.ends.iter_mut().for_each(End::swap);
        let mut goes_on = true;
        while goes_on && !self.ends.iter().all(End::is_over) {
            goes_on = network.step(limit);
        }
        self.ends.iter_mut().for_each(End::show);
        let ended = self.ends.iter().all(|end| end.ended.is_some());
        let last = self.ends.iter().map(|end| end.ended_at).max().filter(|_| ended);
        let reached = lock(&network.world).now;
        self.now = last.unwrap_or(if network.is_idle() { reached } else { reached.max(limit) }).max(self.now);
        self.network = Some(network);
        self
    }

    fn begin(&mut self) -> Network {
        let mut network = Network::new(self.seed);
        let [up, down] = self.links.clone();
        network.links(up, down);
        let mut world = lock(&network.world);
        (world.now, world.at_once) = (Mono(START.0 - BEFORE), true);
        world.add_lanes(address(0), address(1));
        drop(world);
        for (i, end) in self.ends.iter_mut().enumerate().rev() {
            let source = end.source.take().unwrap_or(Source::Accepts);
            let opens = matches!(source, Source::Connects { .. });
            let single = SingleFlow { flow: end.observed.clone(), source, used: false };
            let session = Box::new(PairSession {
                plans: plans(single, opens, &self.sockets, if i == 0 { self.wait } else { Wait::Block }),
                stop_at: end.stop_at,
            });
            let host: Host = match opens {
                true => network.join(address(i).ip(), 1, session),
                false => network.serve(address(i), 1, session),
            };
            network.quirks(host, self.quirks);
        }
        network.begin();
        network
    }

    /// What became of the datagrams that an end has sent.
    pub fn fate(&self, from: usize) -> Fate {
        let fate = |network: &Network| lock(&network.world).fate(address(from), address(1 - from));
        self.network.as_ref().map(fate).unwrap_or_default()
    }
}

fn plans(single: SingleFlow, opens: bool, sockets: &SocketSettings, wait: Wait) -> Vec<Action> {
    let group = |group, sources| {
        let plan = GroupPlan {
            sockets: sockets.clone(),
            throttle: 1,
            connect_timeout: 60 * SECOND,
            wait,
            ..GroupPlan::new(group, START, u64::MAX)
        };
        Action::Group(Box::new(plan), sources)
    };
    match opens {
        true => vec![group(GROUP, vec![LinkSource::Connector(Box::new(single))])],
        false => {
            let acceptor = LinkSource::Acceptor(Box::new(single));
            vec![group(Group::ALL, vec![acceptor]), group(GROUP, Vec::new())]
        }
    }
}

/// The session of an end: it starts its groups, and stops the flow when it is time.
struct PairSession {
    plans: Vec<Action>,
    stop_at: Option<Mono>,
}

impl Session for PairSession {
    fn handle(&mut self, _: &mut Context<'_>, _: Input<'_>) {}

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        if let Some(plan) = self.plans.pop() {
            return Some(plan);
        }
        self.stop_at.take_if(|at| *at <= cx.now).map(|_| Action::Order(GROUP, Order::Stop))
    }

    fn deadline(&self) -> Option<Mono> {
        self.stop_at
    }
}
