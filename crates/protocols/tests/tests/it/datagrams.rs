//! The datagram side of the simulator, with flows of a few lines.

use metrics::{Ending, Group, Mono};
use sim::{At, Cut, Link, Network, Pair, Quirks, START};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use transport::{
    Acceptor, Action, Cause, Checked, Connector, Context, End, Flow, FlowEvent, FlowId, GroupPlan, Input,
    Interest, LinkSource, Open, Read, Received, Sent, Session, Target, Transmit, When,
};

const MS: u64 = 1_000_000;

/// Sends `count` numbered datagrams, `run` to a send, one send a millisecond, and counts what comes
/// back.
struct Asker {
    count: u32,
    run: u32,
    size: usize,
    sent: u32,
    due: Mono,
    told: Arc<Mutex<Told>>,
}

/// What came back: numbers in order, stamps by tag, damaged ones. Flows are boxed inside the pair,
/// so it is shared.
#[derive(Default)]
struct Told {
    seen: Vec<u32>,
    stamps: Vec<u32>,
    bad: u32,
    refused: u32,
    ended: u32,
}

impl Asker {
    fn new(count: u32, run: u32, size: usize, told: Arc<Mutex<Told>>) -> Box<Self> {
        Box::new(Asker { count, run, size, sent: 0, due: START, told })
    }
}

impl Flow for Asker {
    fn interest(&self) -> Interest {
        let over = self.due.plus(500 * MS);
        let send = if self.sent < self.count { When::At(self.due) } else { When::Never };
        let end = (self.due == Mono(u64::MAX)).then_some(End::Done { how: Ending::Completed, reset: false });
        let wake = (self.sent == self.count).then_some(over);
        Interest { send, read: Read::look(65_536), wake, end }
    }
    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        out.segment = self.size as u16;
        out.tag = Some(self.sent);
        for n in self.sent..(self.sent + self.run).min(self.count) {
            let own = out.own(self.size);
            own.fill(0xab);
            own[..4].copy_from_slice(&n.to_be_bytes());
        }
    }
    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.sent += (n.bytes / self.size) as u32;
        self.told.lock().unwrap().refused += u32::from(n.fault.is_some());
        if n.bytes > 0 || n.fault.is_some() {
            self.due = cx.now.plus(MS);
        }
    }
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        assert!(got.stamp.unwrap().at <= cx.now && got.from.is_some());
        let mut told = self.told.lock().unwrap();
        for datagram in got.datagrams() {
            told.bad += u32::from(datagram[4..].iter().any(|&b| b != 0xab));
            told.seen.push(u32::from_be_bytes(datagram[..4].try_into().unwrap()));
        }
        Ok(())
    }
    fn on_event(&mut self, _: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Stamped { tag, .. } => self.told.lock().unwrap().stamps.push(tag),
            FlowEvent::Wake => self.due = Mono(u64::MAX),
            _ => {}
        }
        Ok(())
    }
    fn id(&self) -> FlowId {
        FlowId::default()
    }
}

#[derive(Default)]
struct Echo {
    row: Option<metrics::Row>,
}

impl Flow for Echo {
    fn interest(&self) -> Interest {
        Interest { send: When::Never, read: Read::look(65_536), wake: None, end: None }
    }
    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if let Some(row) = self.row {
            cx.rec.sent(row, n.bytes as u64);
        }
    }
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        if let Some(row) = self.row {
            cx.rec.received(row, got.len as u64);
        }
        reply.segment = got.stride as u16;
        let own = reply.own(got.len);
        let n = own.len();
        own.copy_from_slice(&got.bytes[..n]);
        Ok(())
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        if let FlowEvent::Up(_) = event {
            self.row = Some(cx.rec.open(Group(1), cx.now));
        }
        Ok(())
    }
    fn id(&self) -> FlowId {
        FlowId { row: self.row, ..FlowId::default() }
    }
}

/// Runs an asker against `pair`'s server; what it was told.
fn asked(mut pair: Pair, count: u32, run: u32, size: usize) -> (Pair, Told) {
    let told = Arc::default();
    pair.ends[0].flow = Asker::new(count, run, size, Arc::clone(&told));
    pair.run();
    let told = std::mem::take(&mut *told.lock().unwrap());
    (pair, told)
}

fn echo() -> Pair {
    let sockets = model::SocketSettings { gro: true, ..model::SocketSettings::default() };
    Pair::datagrams(Box::new(Echo::default()), Box::new(Echo::default())).sockets(sockets)
}

#[test]
fn a_clean_link_brings_everything_back_in_order() {
    for (run, quirks) in [
        (1, Quirks::default()),
        (10, Quirks::default()),
        (10, Quirks { would_block: 0.0, ..Quirks::rough() }),
    ] {
        let (pair, Told { seen, stamps, .. }) = asked(echo().seed(3).quirks(quirks), 1_000, run, 400);
        assert!(seen.iter().copied().eq(0..1_000), "{quirks:?}: {}", seen.len());
        assert!(pair.ends[0].completed());
        assert_eq!(pair.ends[1].counts.rx_bytes, 400_000);
        assert_eq!(stamps.len() < (1_000 / run) as usize, quirks.lost_stamps > 0.0, "{}", stamps.len());
    }
}

#[test]
fn what_the_link_does_is_what_it_says() {
    let link = Link::new().loss(0.1).duplicate(0.05).reorder(0.05).corrupt(0.02);
    let (pair, Told { seen, bad, .. }) = asked(echo().seed(9).up(link), 5_000, 5, 100);
    let fate = pair.fate(0);
    assert_eq!(fate.sent, 5_000);
    assert_eq!(seen.len() as u64, fate.sent - fate.lost + fate.doubled);
    assert!((400..600).contains(&fate.lost) && (150..350).contains(&fate.doubled), "{fate:?}");
    assert!((100..400).contains(&fate.delayed) && fate.damaged.abs_diff(bad.into()) < 30, "{fate:?} {bad}");
    assert!(seen.windows(2).any(|w| w[1] < w[0]), "nothing was overtaken");
}

#[test]
fn a_bottleneck_delays_and_then_drops() {
    // 1000 bytes a millisecond into 4 Mbit/s: half of it does not fit.
    let link = Link::new().rate(4_000_000).queue(10_000);
    let (pair, Told { seen, .. }) = asked(echo().up(link), 1_000, 1, 1_000);
    let fate = pair.fate(0);
    assert!((450..=550).contains(&fate.dropped), "{fate:?}");
    assert_eq!(seen.len() as u64, 1_000 - fate.dropped);
}

#[test]
fn a_full_receive_buffer_and_a_cut_link_lose() {
    let (pair, Told { seen, .. }) = asked(echo().up(Link::new().window(2_000)), 100, 50, 100);
    let fate = pair.fate(0);
    assert_eq!((fate.overflowed, seen.len()), (60, 40), "two runs of 50, of which 20 fit each");
    let cut = Link::new().cut(At::Time(START.plus(50 * MS)), Cut::Silence);
    let (_, Told { seen, .. }) = asked(echo().up(cut), 100, 1, 100);
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    let (_, Told { seen, .. }) = asked(echo().up(Link::new().flip(4 * 100 + 50, 8)), 10, 1, 100);
    assert_eq!(seen.len(), 10);
}

/// Admits a peer that asks for it, with an answer cut to the request's length.
struct Porter {
    told: Arc<Mutex<Told>>,
}

impl Acceptor for Porter {
    fn on_unsolicited(
        &mut self,
        _: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        assert_eq!(got.count(), 1, "one at a time");
        // The first ten are turned away, with as many bytes as they had.
        if got.bytes[3] < 10 {
            reply.own(65_000)[4..].fill(0xab);
            return None;
        }
        Some(Box::new(Echo::default()))
    }
    fn on_closed(&mut self, _: &mut Context<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        assert!(how.is_ok());
        self.told.lock().unwrap().ended += 1;
    }
}

#[test]
fn a_new_peer_is_answered_with_no_more_than_it_sent_and_then_let_in() {
    let told: Arc<Mutex<Told>> = Arc::default();
    let porter = Porter { told: Arc::clone(&told) };
    let asker = Asker::new(50, 1, 400, Arc::clone(&told));
    let mut pair = Pair::unsolicited(asker, Box::new(porter));
    pair.run();
    let told = told.lock().unwrap();
    // Zeros for refused ones, then the echoes; number 10 opened the flow.
    assert_eq!(told.seen, [vec![0; 10], (11..50).collect()].concat());
    assert_eq!((told.bad, pair.ends[1].counts.rx_bytes), (0, 39 * 400));
}

#[test]
fn a_refused_send_concerns_one_datagram() {
    let (mut pair, told) = asked(echo().seed(4).up(Link::new().refuse(0.1)), 1_000, 1, 100);
    let refused = pair.fate(0).refused;
    assert_eq!(u64::from(told.refused), refused);
    assert!((70..160).contains(&refused), "{refused}");
    assert_eq!(told.seen.len(), 1_000, "what was refused was sent again");
    assert!(pair.run().ends[0].completed());
}

/// A session that starts one group and is done when that is idle.
struct Starter(VecDeque<Action>);

impl Session for Starter {
    fn handle(&mut self, _: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Idle(group) => self.0.push_back(Action::Order(group, transport::Order::Drop)),
            Input::Dropped(..) => self.0.push_back(Action::Done),
            _ => {}
        }
    }
    fn poll(&mut self, _: &mut Context<'_>) -> Option<Action> {
        self.0.pop_front()
    }
    fn deadline(&self) -> Option<Mono> {
        None
    }
}

fn group(group: Group, sources: Vec<LinkSource>) -> Action {
    let plan = GroupPlan::new(group, START, 1_000 * MS);
    let plan = GroupPlan { throttle: 10, connect_timeout: 1_000 * MS, packets: true, ..plan };
    Action::Group(Box::new(plan), sources)
}

struct Askers {
    left: u32,
    to: SocketAddr,
    told: Arc<Mutex<Told>>,
}

impl Connector for Askers {
    fn open(&mut self, _: &mut Context<'_>) -> Open {
        if self.left == 0 {
            return Open::Done;
        }
        self.left -= 1;
        let flow = Asker::new(100, 1, 100, Arc::clone(&self.told));
        Open::Datagram(flow, Target { to: self.to, from: None })
    }
    fn on_closed(&mut self, _: &mut Context<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        assert_eq!(*how, Ok(Ending::Completed));
        self.told.lock().unwrap().ended += 1;
    }
    fn stop(&mut self) {}
}

#[test]
fn machines_open_udp_sockets_and_let_peers_in() {
    let to: SocketAddr = "10.0.0.2:7411".parse().unwrap();
    let told: Arc<Mutex<Told>> = Arc::default();
    let mut network = Network::new(5);
    let listeners = (0..2).map(|_| LinkSource::Acceptor(Box::new(Porter { told: Arc::default() }))).collect();
    let serving = Starter([group(Group::ALL, listeners), group(Group(1), Vec::new())].into());
    let server = network.serve(to, 2, Box::new(serving));
    let askers = Askers { left: 3, to, told: Arc::clone(&told) };
    let asking = Starter([group(Group(1), vec![LinkSource::Connector(Box::new(askers))])].into());
    let client = network.join("10.0.0.1".parse().unwrap(), 1, Box::new(asking));
    network.run();
    assert!(network.done(client).is_some());
    let told = told.lock().unwrap();
    assert_eq!((told.ended, told.seen.len()), (3, 3 * 99), "the one that opened the flow is not echoed");
    assert_eq!(network.open(server).0, 3, "the echoes stay");
}
