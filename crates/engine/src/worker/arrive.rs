//! New links: opened, accepted, handed over.

use super::{AT_ONCE, GroupState, Worker};
use crate::exhausted;
use crate::link::{Key, Link, LinkState, Phase, ServerPlace, Socket};
use metrics::{Ending, Group, Mono};
use model::Finding;
use std::sync::Arc;
use transport::{
    Allowance, Can, Cause, Clock as _, DatagramSocket as _, Defect, Fault, Flow, FlowEvent, LinkBudget,
    LinkSource, ListenerSocket as _, Open, Path, Platform, StreamSocket as _, Target, WHEN_TOLD, Watch as _,
};

/// Time that listeners are left alone after a failed accept, ns.
const ACCEPT_AGAIN: u64 = 10_000_000;

impl<P: Platform> Worker<P> {
    /// Asks the connectors for new links.
    pub(super) fn open_links(&mut self, now: Mono) {
        for i in 0..self.opening.len() {
            let group = self.opening[i];
            let Some(watch) = self.groups.get(&group) else { continue };
            if watch.state.exhausted || watch.state.ask_at.is_some_and(|at| at > now) {
                continue;
            }
            for _ in 0..self.new_at_once() {
                if !self.open_one(group, now) {
                    break;
                }
            }
            self.check_idle(group);
        }
    }

    /// Most new links in a row. Each needs some turns and a registration, and a round has a fixed
    /// number of these: where links wait for them already, fewer are taken than leave, or the wait
    /// would grow while links are opened.
    fn new_at_once(&self) -> usize {
        let waiting = self.ready.len() + self.unregistered.len();
        if waiting > 2 * AT_ONCE { AT_ONCE / 4 } else { AT_ONCE }
    }

    /// One new link; false when there is none for now.
    pub(super) fn open_one(&mut self, group: Group, now: Mono) -> bool {
        let Some(watch) = self.groups.get_mut(&group) else { return false };
        if watch.state.connecting + watch.state.unheard >= watch.plan.throttle.max(1) {
            // The next link that is up, was heard from, or ended asks again.
            watch.state.ask_at = Some(Mono(u64::MAX));
            return false;
        }
        let Some(LinkSource::Connector(connector)) = &mut watch.source else { return false };
        let mut cx = self.own.cx(now);
        let (flow, target, datagram) = match connector.open(&mut cx) {
            Open::Flow(flow, target) => (flow, target, false),
            Open::Datagram(flow, target) => (flow, target, true),
            Open::At(at) => {
                watch.state.ask_at = Some(at);
                return false;
            }
            Open::Idle => {
                watch.state.ask_at = Some(Mono(u64::MAX));
                return false;
            }
            Open::Done => {
                watch.state.exhausted = true;
                watch.state.ask_at = None;
                return false;
            }
        };
        watch.state.ask_at = None;
        if datagram {
            match self.platform.connect_udp(&target, &watch.plan.sockets) {
                Ok(udp) => self.attached(group, udp, flow, &target),
                Err(fault) => self.never_was(group, flow, &target, fault),
            }
            return true;
        }
        let born = self.clock.now();
        match self.platform.connect(&target, &watch.plan.sockets) {
            Ok((stream, _)) => {
                watch.state.connecting += 1;
                watch.state.open += 1;
                let timeout = watch.plan.connect_timeout;
                let budget = self.config.allowance.clone().map(budget);
                let key = self.links.insert(Link {
                    phase: Phase::Connecting,
                    budget,
                    path: None,
                    can: Can { send: true, read: false },
                    owner: group,
                    counted: Some(group),
                    ..link(Socket::Stream(stream), flow, target.to, born)
                });
                // On fast paths the handshake is over by now.
                self.connected(key);
                if self.links.get(key).is_some_and(|l| l.phase == Phase::Connecting) {
                    self.arm(key, born.plus(timeout));
                    self.watch(key);
                }
            }
            Err(fault) => self.never_was(group, flow, &target, fault),
        }
        true
    }

    /// A connector's UDP socket exists at once: it is counted as opened, and its flow gets `Up`.
    fn attached(&mut self, group: Group, udp: P::Udp, flow: Box<dyn Flow>, target: &Target) {
        let Some(path) = udp.path() else { return };
        let now = self.clock.now();
        let socket = Socket::Datagram(Box::new(udp));
        let key = self.links.insert(Link {
            path: Some(path),
            budget: self.config.allowance.clone().map(budget),
            owner: group,
            counted: Some(group),
            ..link(socket, flow, target.to, now)
        });
        let tally = self.own.rec.tally(group);
        (tally.opened, tally.turned) = (tally.opened + 1, now);
        if let Some(watch) = self.groups.get_mut(&group) {
            watch.state.open += 1;
            self.up(group, key, Some(path));
        }
    }

    /// A connecting link may be up, or have failed.
    pub(super) fn connected(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        let Socket::Stream(stream) = &link.socket else { return };
        match stream.connected() {
            Ok(None) if link.state.watched => {
                let _ = link.socket.rearm(&self.reactor, key, true, true);
            }
            Ok(None) => {}
            Ok(Some(path)) => {
                let now = self.clock.now();
                let Some(link) = self.links.get(key) else { return };
                link.phase = Phase::Open;
                link.path = Some(path);
                let took = now.since(link.born);
                link.connect_ns = Some(took);
                let (owner, to) = (link.owner, link.target);
                let plan = self.groups.get(&owner).map(|watch| &watch.plan);
                link.state.whole_segments = plan.is_some_and(|plan| plan.sockets.whole_segments);
                link.state.unheard = plan.is_some_and(|plan| plan.until_heard);
                let unheard = u32::from(link.state.unheard);
                let tally = self.own.rec.tally(owner);
                (tally.opened, tally.turned) = (tally.opened + 1, now);
                tally.connect_ns.record(took);
                if let Some(watch) = self.groups.get_mut(&owner) {
                    watch.state.connecting = watch.state.connecting.saturating_sub(1);
                    watch.state.unheard += unheard;
                    watch.state.ask_at = None;
                    if let Some(LinkSource::Connector(connector)) = &mut watch.source {
                        connector.on_connected(to);
                    }
                    self.up(owner, key, Some(path));
                }
            }
            Err(fault) => self.close(key, Err(Cause::Fault(fault)), true),
        }
    }

    /// A link of `group` is up: its socket's options are noted once, and its flow gets `Up`, with
    /// `path` unless the link has one.
    fn up(&mut self, group: Group, key: Key, path: Option<Path>) {
        let (Some(watch), Some(link)) = (self.groups.get_mut(&group), self.links.get(key)) else { return };
        if watch.plan.packets {
            self.own.rec.warm(group);
        }
        let state = &mut watch.state;
        state.peak = state.peak.max(state.open.saturating_sub(u64::from(state.connecting)));
        let (stopped, mut trouble) = (state.stopped.is_some(), None);
        if state.effective.is_none() {
            state.effective = match &link.socket {
                Socket::Stream(stream) => Some(stream.effective()),
                Socket::Datagram(udp) => {
                    let effective = udp.effective();
                    trouble = effective.no_card;
                    Some(effective.options)
                }
            };
        }
        if let Some(why) = trouble {
            self.report(Finding::Trouble(why));
        }
        if let Some(path) = path {
            self.deliver(key, FlowEvent::Up(path));
        }
        if stopped {
            self.deliver(key, FlowEvent::Stop);
        }
    }

    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..self.new_at_once() {
            let Some(listener) = self.config.listeners.get(listener) else { return };
            match listener.accept() {
                Ok(Some((stream, path))) => self.arrive(stream, path),
                Ok(None) => return,
                Err(fault) => return self.pause_listeners(&fault),
            }
        }
    }

    /// After a failed accept the listener stays readable, so that watching it would spin. The
    /// worker leaves it alone for a moment, and goes on with its links.
    fn pause_listeners(&mut self, fault: &Fault) {
        self.report(Finding::Trouble(exhausted::fault_text("cannot accept connections", fault)));
        for listener in &self.config.listeners {
            let _ = listener.forget(&self.reactor);
        }
        self.accept_at = Some(self.clock.now().plus(ACCEPT_AGAIN));
    }

    /// Watches the listeners again when it is time.
    pub(super) fn resume_listeners(&mut self, now: Mono) {
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept_at = None;
            self.watch_listeners();
        }
    }

    pub(super) fn arrive(&mut self, stream: P::Stream, path: Path) {
        let now = self.clock.now();
        let address = path.peer.ip();
        if !self.has_room(address, now) {
            return stream.abort();
        }
        let Some(acceptor) = self.groups.get_mut(&Group::ALL).and_then(GroupState::acceptor) else { return };
        if let Some(clients) = &self.config.clients
            && let Some(allowance) = clients.of_client(path.peer.ip(), now)
            && allowance.is_over(now).is_some()
        {
            allowance.touch(now);
            return stream.abort();
        }
        let mut cx = self.own.cx(now);
        // An address that the acceptor denies takes no place.
        let Some(flow) = acceptor.accept(&mut cx, &path) else { return stream.abort() };
        let place = self.place(&*flow, address, now);
        self.adopt(Socket::Stream(stream), path, flow, place, now);
    }

    /// A link that was accepted, or handed over by another worker; its key, which may have ended.
    pub(super) fn adopt(
        &mut self,
        socket: Socket<P>,
        path: Path,
        flow: Box<dyn Flow>,
        place: Option<ServerPlace>,
        now: Mono,
    ) -> Key {
        let clients = self.config.clients.as_ref();
        let budget = clients.and_then(|clients| clients.of_client(path.peer.ip(), now)).map(budget);
        let pending = matches!(place, Some(ServerPlace::Pending(_)));
        let mut link = Link { path: Some(path), budget, place, ..link(socket, flow, path.peer, now) };
        (link.state.pending, link.state.silent) = (pending, pending);
        let key = self.links.insert(link);
        if pending {
            self.await_proof(key, now);
        }
        self.deliver(key, FlowEvent::Up(path));
        self.attach(key, now);
        key
    }

    /// An accepted link that has begun to count belongs to a group from now on.
    pub(super) fn attach(&mut self, key: Key, now: Mono) {
        let Some(link) = self.links.get(key) else { return };
        if link.counted.is_some() {
            return;
        }
        let Some(row) = link.flow.id().row else { return };
        let group = self.own.rec.group(row);
        let Some(watch) = self.groups.get_mut(&group) else {
            // The session ended while its connection was arriving.
            return self.close(key, Ok(Ending::Stopped), true);
        };
        let start = watch.plan.start;
        link.counted = Some(group);
        if let Some(allowance) = &watch.plan.allowance {
            link.budget = Some(budget(Arc::clone(allowance)));
        }
        link.state.whole_segments = watch.plan.sockets.whole_segments;
        watch.state.open += 1;
        // Options inherited from the listener need no call; the effective values show refused ones.
        match &mut link.socket {
            Socket::Stream(stream) if !watch.as_listeners => {
                let _ = stream.apply(&watch.plan.sockets);
            }
            Socket::Datagram(udp) if watch.plan.sockets != self.config.inherited => {
                let _ = udp.apply(&watch.plan.sockets);
            }
            _ => {}
        }
        let twice = u64::from(self.platform.has(Defect::CountedTwice));
        for (group, n) in [(group, 1 + twice), (Group::ALL, 1)] {
            let tally = self.own.rec.tally(group);
            (tally.opened, tally.turned) = (tally.opened + n, now);
        }
        let begins = if start == WHEN_TOLD { now } else { start.max(now) };
        if let Some(all) = self.groups.get_mut(&Group::ALL) {
            all.state.open += 1;
            all.state.busy = Some(all.state.busy.map_or(begins, |busy| busy.min(begins)));
            all.state.peak = all.state.peak.max(all.state.open);
        }
        self.up(group, key, None);
    }
}

/// The budget of a link.
fn budget(allowance: Arc<Allowance>) -> Box<LinkBudget> {
    Box::new(LinkBudget::new(allowance))
}

/// A link that is up and has no flow yet.
fn link<P: Platform>(
    socket: Socket<P>,
    flow: Box<dyn Flow>,
    target: std::net::SocketAddr,
    born: Mono,
) -> Link<P> {
    Link {
        socket,
        flow,
        phase: Phase::Open,
        path: None,
        target,
        can: Can { send: true, read: true },
        budget: None,
        state: LinkState { fresh: true, ..LinkState::default() },
        armed: None,
        owner: Group::ALL,
        place: None,
        counted: None,
        born,
        connect_ns: None,
    }
}
