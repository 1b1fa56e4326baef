//! Datagrams on bound sockets, from peers without a socket of their own; and turns of connected UDP
//! sockets.

use super::{AT_ONCE, GroupState, Worker};
use crate::exhausted;
use crate::link::{Key, Links, Socket};
use metrics::{Group, Mono, SECOND};
use model::Finding;
use std::collections::HashMap;
use std::net::IpAddr;
use transport::{
    Can, Cause, Clients, Clock as _, Context, DatagramSocket as _, Defect, Fault, Flow, FlowEvent, Got,
    LONGEST_DATAGRAM, LinkBudget, Net as _, Path, Platform, Read, Scratch, Sent, Transmit, Turn,
};

/// A worker's memory for sends and receives.
pub(super) struct Memory<P: Platform> {
    pub(super) scratch: Scratch,
    /// Buffer for streams.
    pub(super) buffer: Vec<u8>,
    pub(super) packets: Packets<P>,
}

impl<P: Platform> Memory<P> {
    /// For sends and receives of this length.
    pub(super) fn new(longest: usize) -> Self {
        // Flows write their framing, and random payload, into the arena: a buffer and some marks.
        let scratch = Scratch::new(longest + 256, 0);
        Memory { scratch, buffer: vec![0; longest], packets: Packets(None) }
    }
}

/// A worker's memory for datagrams, made when the first one is to be sent or received.
pub(super) struct Packets<P: Platform>(Option<Box<(Scratch, P::UdpMemory)>>);

impl<P: Platform> Packets<P> {
    fn memory(&mut self) -> &mut (Scratch, P::UdpMemory) {
        self.0.get_or_insert_with(|| {
            let scratch = Scratch::new(LONGEST_DATAGRAM, LONGEST_DATAGRAM);
            Box::new((scratch, P::UdpMemory::default()))
        })
    }

    /// A turn on a UDP socket, after the returned transmit stamps.
    pub(super) fn turn(
        &mut self,
        udp: &mut P::Udp,
        flow: &mut dyn Flow,
        cx: &mut Context<'_>,
        (clock, sleeps): (&P::Clock, bool),
        can: Can,
        budget: Option<&mut LinkBudget>,
    ) -> Result<Turn, Cause> {
        let (scratch, memory) = self.memory();
        if udp.awaits_stamps() {
            cx.now = clock.now();
            while let Some((tag, stamp, bound_ns)) = udp.stamped(memory, clock) {
                flow.on_event(cx, FlowEvent::Stamped { tag, stamp, bound_ns })?;
            }
        }
        scratch.segments = udp.segments();
        transport::turn(&mut udp.net(memory, clock, sleeps), flow, cx, scratch, can, budget)
    }
}

/// The budgets of peers without a socket of their own, on this worker.
#[derive(Default)]
pub(super) struct AddressBudgets(HashMap<IpAddr, (LinkBudget, Mono)>);

impl AddressBudgets {
    /// Most budgets.
    const MOST: usize = 1_024;
    /// Budgets are kept this long after the last datagram, ns: shorter than a client is remembered.
    const QUIET: u64 = SECOND / 10;

    /// The budget of a peer, where its client is limited.
    fn of(&mut self, clients: &Clients, address: IpAddr, now: Mono) -> Option<&mut LinkBudget> {
        let is_old = |used: &Mono| now.since(*used) > AddressBudgets::QUIET;
        if self.0.get(&address).is_none_or(|(_, used)| is_old(used)) {
            self.0.remove(&address);
            if self.0.len() >= AddressBudgets::MOST {
                self.0.retain(|_, (_, used)| !is_old(used));
            }
            if self.0.len() >= AddressBudgets::MOST {
                self.0.clear();
            }
            self.0.insert(address, (LinkBudget::without_link(clients.of_client(address, now)?), now));
        }
        let (budget, used) = self.0.get_mut(&address)?;
        *used = now;
        Some(budget)
    }
}

/// Links that were made for peers of the bound sockets, on this worker. A datagram that waited at a
/// bound socket while its peer was given a socket of its own belongs to the link.
#[derive(Default)]
pub(super) struct Given(HashMap<Path, Key>);

impl Given {
    /// Most links; a link that is forgotten has had its first datagrams.
    const MOST: usize = 1_024;

    fn put(&mut self, path: Path, key: Key, links: &mut Links<impl Platform>) {
        if self.0.len() >= Given::MOST {
            self.0.retain(|_, key| links.get(*key).is_some());
        }
        if self.0.len() >= Given::MOST {
            self.0.clear();
        }
        self.0.insert(path, key);
    }
}

/// Longest unsolicited datagram that is read, bytes.
const LONGEST_UNSOLICITED: u64 = 65_535;

impl<P: Platform> Worker<P> {
    /// Datagrams at a bound UDP socket: the acceptor answers, with no more bytes than arrived, or
    /// makes a flow for which the peer gets a socket of its own.
    pub(super) fn on_unsolicited(&mut self, at: usize) {
        self.receive_unsolicited(at);
        self.acceptor_timer();
    }

    /// Calls the acceptor's timer.
    pub(super) fn acceptor_timer(&mut self) {
        let Some(watch) = self.groups.get_mut(&Group::ALL) else { return };
        let Some(acceptor) = watch.acceptor() else { return };
        let now = self.clock.now();
        let mut cx = self.own.cx(now);
        watch.state.ask_at = acceptor.on_timer(&mut cx);
    }

    /// A bounded number of unsolicited datagrams; whether there may be more.
    pub(super) fn receive_unsolicited(&mut self, at: usize) -> bool {
        for _ in 0..AT_ONCE {
            let now = self.clock.now();
            let before = self.counted();
            let Some(acceptor) = self.groups.get_mut(&Group::ALL).and_then(GroupState::acceptor) else {
                return false;
            };
            let Some(udp) = self.config.datagrams.get_mut(at) else {
                return false;
            };
            let (scratch, memory) = self.memory.packets.memory();
            let mut net = udp.net(memory, &self.clock, false);
            let got = match net.recv(Read::look(LONGEST_UNSOLICITED)) {
                Got::Received(got) => got,
                // An error concerns one datagram; the next one is read at the next readiness.
                Got::Nothing | Got::Fin | Got::Fault(_) => return false,
            };
            let Some(path) = got.from else { continue };
            let mut budget = None;
            if let Some(clients) = &self.config.clients {
                budget = self.budgets.of(clients, path.peer.ip(), got.at);
                if let Some(budget) = &mut budget
                    && !budget.receive(got.len, got.at)
                {
                    let news = budget.news();
                    drop(net);
                    if let Some(text) = news {
                        self.curb_unsolicited(&path, &text);
                    }
                    continue;
                }
            }
            let mut cx = self.own.cx(now);
            cx.now = got.at;
            if let Some((key, link)) =
                self.given.0.get(&path).and_then(|key| Some((*key, self.links.get(*key)?)))
            {
                let mut reply = Transmit::new(&mut scratch.reply, scratch.reply_room);
                let took = link.flow.on_received(&mut cx, &got, &mut reply);
                drop(net);
                if !reply.is_empty() {
                    (reply.to, reply.tag) = (Some(path), None);
                    let sent = match budget.is_none_or(|budget| budget.reply(reply.len(), now)) {
                        true => udp.net(memory, &self.clock, false).send(&reply),
                        false => Sent::default(),
                    };
                    link.flow.on_sent(&mut cx, sent);
                }
                match took {
                    Ok(()) => self.queue(key),
                    Err(violation) => self.close(key, Err(Cause::Violation(violation)), true),
                }
                continue;
            }
            let mut reply = Transmit::new(&mut scratch.reply, scratch.reply_room.min(got.len));
            let flow = acceptor.on_unsolicited(&mut cx, &got, &mut reply);
            let has_room = flow.is_none()
                || self.config.admission.as_ref().is_none_or(|places| places.has_room(path.peer.ip()));
            if let Some(peers) = &mut self.peers {
                let tally = self.own.rec.tally(Group::ALL);
                let moved = (tally.tx_bytes - before.0, tally.rx_bytes - before.1);
                peers.count_unsolicited(path, moved, now);
            }
            drop(net);
            // The socket is made before the answer: the peer's datagrams after that answer must
            // reach its own socket.
            let beside = || match has_room {
                true => self.platform.udp_beside(udp, &path, &self.config.inherited),
                false => Err(exhausted::NO_ROOM),
            };
            let give_socket = flow.map(|flow| (flow, beside()));
            let replies = !reply.is_empty() && !matches!(give_socket, Some((_, Err(_))));
            if replies && budget.is_none_or(|budget| budget.reply(reply.len(), now)) {
                reply.to = Some(path);
                let mut net = udp.net(memory, &self.clock, false);
                // A lost answer looks to the peer like a lost datagram, which it is.
                net.send(&reply);
                if self.platform.has(Defect::AnsweredTwice) {
                    net.send(&reply);
                }
            }
            if let Some((flow, socket)) = give_socket {
                self.give_socket(flow, path, socket);
            }
        }
        true
    }

    /// Reports that a peer's datagrams are not received any more.
    fn curb_unsolicited(&self, path: &Path, text: &str) {
        self.report(Finding::Limited { group: None, ends: true, text: format!("{}: {text}", path.peer) });
    }

    /// Gives a peer the socket that was made for it.
    fn give_socket(&mut self, flow: Box<dyn Flow>, path: Path, socket: Result<P::Udp, Fault>) {
        match socket {
            Ok(udp) => {
                let now = self.clock.now();
                let place = self.place(&*flow, path.peer.ip(), now);
                let key = self.adopt(Socket::Datagram(Box::new(udp)), path, flow, place, now);
                self.given.put(path, key, &mut self.links);
                // The datagram that made the flow is answered before those that waited behind it.
                self.turn(key);
            }
            Err(fault) => {
                // One line for all peers when descriptors have run out.
                let text = match exhausted::is_exhausted(&fault) {
                    true => exhausted::fault_text("no socket for a new peer", &fault),
                    false => format!("no socket for {}: {fault}", path.peer),
                };
                self.report(Finding::Trouble(text));
                let now = self.clock.now();
                let mut cx = self.own.cx(now);
                if let Some(acceptor) = self.groups.get_mut(&Group::ALL).and_then(GroupState::acceptor) {
                    acceptor.on_closed(&mut cx, flow, &Err(Cause::Fault(fault)));
                }
            }
        }
    }
}
