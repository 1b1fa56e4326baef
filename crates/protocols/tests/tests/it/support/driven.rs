//! Sessions driven by hand, held to the rules of `transport`.

use crate::support::run::address;
use metrics::{Group, Mono, SECOND, Tally};
use model::{Event, Phase, Status, Totals, Traffic};
use native::{Client, ClientPlan, Frames, MAX_MESSAGE, Message, PREAMBLE, Preamble, Purpose, encode};
use sim::{Quirks, START, Side};
use std::collections::{BTreeMap, BTreeSet};
use transport::{Action, End, GroupPlan, Input, Link, LinkSource, Order, Path, Session};

/// A session and what it has asked for so far; holds it to the rules of `transport`.
pub(crate) struct Driven<S> {
    pub(crate) session: S,
    pub(crate) side: Side,
    pub(crate) now: Mono,
    pub(crate) connects: Vec<u32>,
    pub(crate) open: BTreeSet<Link>,
    pub(crate) said: BTreeMap<Link, Vec<u8>>,
    pub(crate) closed: BTreeSet<Link>,
    pub(crate) groups: BTreeMap<Group, Vec<Order>>,
    pub(crate) sources: Vec<LinkSource>,
    pub(crate) events: Vec<Event>,
    pub(crate) done: bool,
}

impl<S: Session> Driven<S> {
    pub(crate) fn new(session: S) -> Self {
        let mut driven = Driven {
            session,
            side: Side::new(1, Quirks::default()),
            now: START,
            connects: vec![],
            open: BTreeSet::new(),
            said: BTreeMap::new(),
            closed: BTreeSet::new(),
            groups: BTreeMap::new(),
            sources: vec![],
            events: vec![],
            done: false,
        };
        driven.act();
        driven
    }

    pub(crate) fn act(&mut self) {
        while let Some(action) = self.session.poll(&mut self.side.cx(self.now)) {
            assert!(!self.done, "something after Done");
            match action {
                Action::Connect(key, _) => self.connects.push(key),
                Action::Send(link, bytes) => {
                    assert!(self.open.contains(&link), "{link:?} is not open");
                    self.said.entry(link).or_default().extend(bytes);
                }
                Action::Close(link, End::Done { .. }) => {
                    assert!(self.open.remove(&link), "{link:?} is not open");
                    self.closed.insert(link);
                }
                Action::Close(link, how) => panic!("{link:?} {how:?}"),
                Action::Group(plan, sources) => {
                    let GroupPlan { group, .. } = *plan;
                    self.sources.extend(sources);
                    assert!(self.groups.insert(group, vec![]).is_none(), "{group:?} is in use");
                }
                Action::Order(group, order) => {
                    let orders = self.groups.get_mut(&group).expect("an unknown group is ordered about");
                    assert!(!orders.contains(&Order::Drop), "{group:?} was dropped: {order:?}");
                    orders.push(order);
                }
                Action::Emit(event) => self.events.push(event),
                Action::Done => self.done = true,
            }
        }
    }

    pub(crate) fn feed(&mut self, input: Input<'_>) {
        if let Input::Down(link, _) = &input {
            self.open.remove(link);
        }
        if let Input::Up(link, ..) = &input {
            self.open.insert(*link);
        }
        self.session.handle(&mut self.side.cx(self.now), input);
        self.act();
    }

    /// Time passes; the session is woken as it asks.
    pub(crate) fn pass(&mut self, ns: u64) {
        let until = self.now.plus(ns);
        while let Some(at) = self.session.deadline().filter(|&at| at <= until && !self.done) {
            self.now = self.now.max(at);
            self.feed(Input::Wake);
            let after = self.session.deadline();
            assert!(after.is_none_or(|next| next > self.now), "woken at {:?}, again at {after:?}", self.now);
        }
        self.now = until;
    }

    pub(crate) fn path(n: u64) -> Path {
        Path { peer: ([10, 1, (n >> 8) as u8, n as u8], 999).into(), local: address(1) }
    }

    pub(crate) fn say(&mut self, link: Link, message: &Message) {
        if self.open.contains(&link) {
            self.feed(Input::Bytes(link, &encode(message)));
        }
    }

    /// What was said on a link since it was last asked for.
    pub(crate) fn messages(&mut self, link: Link) -> Vec<Message> {
        let mut frames = Frames::new(MAX_MESSAGE);
        frames.push(&self.said.remove(&link).unwrap_or_default()).unwrap();
        let mut messages = vec![];
        while let Some(message) = frames.pop().unwrap() {
            messages.push(message);
        }
        messages
    }

    /// The machine does what was ordered: what was stopped is idle, what was dropped is gone.
    pub(crate) fn obey(&mut self) {
        for (group, orders) in self.groups.clone() {
            if orders.contains(&Order::Drop) {
                self.groups.remove(&group);
                self.feed(Input::Dropped(group, moved()));
            } else if orders.contains(&Order::Stop) || orders.contains(&Order::Kill) {
                self.feed(Input::Idle(group));
            }
        }
    }

    pub(crate) fn tally(&mut self, group: Group, index: u32) {
        let (from, to) = (Mono(u64::from(index) * SECOND), Mono(u64::from(index + 1) * SECOND));
        self.feed(Input::Tally { group, index, from, to, tally: &Tally::default() });
    }
}

/// The totals of an end that sent and received payload.
pub(crate) fn moved() -> Box<Totals> {
    let traffic = Traffic { tx_bytes: 1_000, rx_bytes: 1_000, ns: SECOND, ..Traffic::default() };
    Box::new(Totals { opened: 4, traffic, ..Totals::default() })
}

/// A client that has got as far as it can with a server that only knows its part.
pub(crate) fn client_with(plan: ClientPlan) -> Driven<Client> {
    let mut client = Driven::new(Client::new(plan, START));
    for key in client.connects.clone() {
        client.feed(Input::Up(Link(u64::from(key) + 1), Driven::<Client>::path(1), Some(key)));
    }
    client
}

/// A hello with this nonce.
pub(crate) fn hello(nonce: String) -> Message {
    Message::Hello { version: "1".into(), capabilities: vec![], nonce, host: String::new() }
}

/// What a good server would answer to what the client has said last.
pub(crate) fn answer(client: &mut Driven<Client>, link: Link) -> Option<Message> {
    let mut said = client.said.remove(&link)?;
    if said.starts_with(&Preamble::new(Purpose::Control).encode()) {
        said.drain(..PREAMBLE);
    }
    client.said.insert(link, said);
    match client.messages(link).pop()? {
        Message::Hello { .. } => Some(hello("ff".repeat(16))),
        Message::Ping { n } => Some(Message::Pong { n }),
        Message::Propose { phase, .. } => Some(accepted(*phase)),
        Message::Start => Some(Message::Started),
        Message::Stop => Some(Message::Result { totals: moved() }),
        _ => None,
    }
}

pub(crate) fn accepted(phase: Phase) -> Message {
    Message::Accepted {
        accepted: model::Accepted::default(),
        secret: "22".repeat(16),
        phase: Box::new(phase),
        host: Box::default(),
        workers: 1,
        placement: String::new(),
        process_ports: Vec::new(),
    }
}

/// A client whose run has begun.
pub(crate) fn running(plan: ClientPlan) -> Driven<Client> {
    let mut client = client_with(plan);
    for _ in 0..20 {
        for link in client.open.clone() {
            if let Some(message) = answer(&mut client, link) {
                client.say(link, &message);
            }
        }
    }
    assert!(client.groups.contains_key(&Group(1)), "{:?}", client.events);
    client
}

pub(crate) fn intervals<S>(driven: &Driven<S>) -> Vec<(u32, Option<u64>)> {
    let one = |e: &Event| {
        if let Event::Interval(i) = e { Some((i.index, i.remote.map(|f| f.rx_bytes))) } else { None }
    };
    driven.events.iter().filter_map(one).collect()
}

/// Intervals that were emitted again with reports that arrived behind their line.
pub(crate) fn corrected<S>(driven: &Driven<S>) -> Vec<(u32, Option<u64>)> {
    let one = |e: &Event| {
        if let Event::Corrected(i) = e { Some((i.index, i.remote.map(|f| f.rx_bytes))) } else { None }
    };
    driven.events.iter().filter_map(one).collect()
}

pub(crate) fn status<S>(driven: &Driven<S>) -> Option<(Status, String)> {
    driven.events.iter().find_map(|e| match e {
        Event::PhaseEnd { status, reason } => Some((*status, reason.clone().unwrap_or_default())),
        _ => None,
    })
}
