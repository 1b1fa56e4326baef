//! Workers with UDP sockets over loopback: a new peer gets a socket of its own, and is echoed.

use super::*;
use io::{System, Udp};
use metrics::{Packets as Counts, Row, SECOND, Tally};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use transport::{
    Acceptor, Checked, Connector, Context, End, Fault, Flow, FlowId, GroupPlan, Interest, Join as _,
    LinkSource, Open, Read, Received, Sent, Target, Transmit, Wait, When,
};

type Mailbox = <System as Platform>::Sender<Command<System>>;
type Reports = <System as Platform>::Receiver<(usize, Report<System>)>;

/// Longer than anything takes on loopback, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker thread, and what it says.
pub(super) struct Thread {
    mailbox: Mailbox,
    waker: <System as Platform>::Waker,
    reports: Reports,
    thread: Option<<System as Platform>::Join>,
}

/// A worker, and what the control thread has of it.
type Parts = (Worker<System>, Mailbox, <System as Platform>::Waker, Reports);

impl Thread {
    fn parts(datagrams: Vec<Udp>) -> Parts {
        let (reactor, control) = (System.reactor().unwrap(), System.reactor().unwrap());
        let (mailbox, commands) = System.channel();
        let (report, reports) = System.channel();
        let waker = reactor.waker();
        let config: WorkerConfig<System> = WorkerConfig {
            index: 0,
            core: None,
            listeners: Vec::new(),
            datagrams,
            admission: None,
            commands,
            reports: report,
            control: control.waker(),
            peers: vec![(mailbox.clone(), waker.clone())],
            buffer: 4_096,
            seed: 1,
            inherited: SocketSettings::default(),
            realtime: false,
            links: None,
            allowance: None,
            clients: None,
        };
        (Worker::new(System, config, reactor), mailbox, waker, reports)
    }

    pub(super) fn start(datagrams: Vec<Udp>) -> Self {
        let (worker, mailbox, waker, reports) = Self::parts(datagrams);
        let thread = System.spawn("worker", worker).ok();
        Thread { mailbox, waker, reports, thread }
    }

    /// A worker with a porter at these sockets.
    fn serve(sockets: Vec<Udp>, wait: Wait) -> Self {
        let server = Thread::start(sockets);
        server.group(Group(7), None, wait, true);
        server.group(Group::ALL, Some(LinkSource::Acceptor(Box::new(Porter))), Wait::Block, false);
        server
    }

    pub(super) fn send(&self, command: Command<System>) {
        self.send_all([command]);
    }

    /// Commands that are all there when the worker looks.
    pub(super) fn send_all(&self, commands: impl IntoIterator<Item = Command<System>>) {
        for command in commands {
            self.mailbox.send(command).unwrap();
        }
        self.waker.wake();
    }

    pub(super) fn group(&self, group: Group, source: Option<LinkSource>, wait: Wait, packets: bool) {
        let plan = GroupPlan {
            throttle: 10,
            connect_timeout: SECOND,
            records: true,
            packets,
            wait,
            ..GroupPlan::new(group, System.clock().now(), 3_600 * SECOND)
        };
        let state = GroupProgress::default();
        let group = GroupState { plan, source, as_listeners: true, core: None, state };
        self.send(Command::Group(Box::new(group)));
    }

    /// Opens a UDP socket for each flow; what could not be opened is told.
    fn open(&self, flows: Flows, wait: Wait, packets: bool) -> mpsc::Receiver<Fault> {
        let (tell, told) = mpsc::channel();
        let opener = Opener { flows: flows.into_iter(), tell };
        self.group(Group(1), Some(LinkSource::Connector(Box::new(opener))), wait, packets);
        told
    }

    /// Takes reports until one is what is asked for.
    pub(super) fn until<T>(&self, mut wanted: impl FnMut(Report<System>) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "the worker says nothing");
            let Ok((_, report)) = self.reports.try_recv() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            if let Report::Found(Finding::Trouble(text)) = &report {
                panic!("{text}");
            }
            if let Some(found) = wanted(report) {
                return found;
            }
        }
    }

    /// Until all flows have ended.
    fn until_idle(&self) {
        self.until(|report| matches!(report, Report::Found(Finding::Idle(Group(1)))).then_some(()));
    }

    /// Until so many guests have left. With `strict` a message of another type is a failure.
    fn wait_for_seen(&self, guests: usize, strict: bool) -> Vec<Seen> {
        let mut all = Vec::new();
        self.until(|report| match report {
            Report::Message(message) => {
                assert!(!strict || message.is::<Seen>(), "a message of another type");
                all.extend(message.downcast::<Seen>().ok().map(|seen| *seen));
                (all.len() == guests).then_some(())
            }
            _ => None,
        });
        all
    }

    /// Ends a group; what it counted, and the notes that came meanwhile.
    pub(super) fn end(&self, group: Group) -> (Box<Tally>, Vec<ConnectionRecord>) {
        let (mut sum, mut records) = (Box::<Tally>::default(), Vec::new());
        self.send(Command::Order(group, Order::Stop));
        self.send(Command::Order(group, Order::Drop));
        self.until(|report| match report {
            Report::Found(Finding::Tally { group: g, tally, .. }) if g == group => {
                sum.merge(&tally);
                None
            }
            Report::Found(Finding::Ended(more)) => {
                records.extend(more);
                None
            }
            Report::Found(Finding::Dropped { group: g, tally, .. }) if g == group => {
                sum.merge(&tally);
                Some(())
            }
            _ => None,
        });
        (sum, records)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let _ = self.mailbox.send(Command::Quit);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

fn bound(n: usize) -> Vec<Udp> {
    let mut sockets: Vec<Udp> = Vec::new();
    for _ in 0..n {
        let at = sockets.first().map_or("127.0.0.1:0".parse().unwrap(), |s| s.local().unwrap());
        sockets.push(Udp::bind(at, true, &SocketSettings::default()).unwrap());
    }
    sockets
}

/// An acceptor: "who?" is answered with "you", and "enter" opens a flow.
struct Porter;

impl Acceptor for Porter {
    fn on_unsolicited(
        &mut self,
        _: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        assert_eq!(got.from.unwrap().local.ip(), std::net::IpAddr::from([127, 0, 0, 1]));
        match got.bytes {
            b"who?" => {
                // Longer than the question: only as much as came goes out.
                let room = reply.own(1_000);
                let n = room.len();
                room.copy_from_slice(&b"you, my dear"[..n]);
                None
            }
            b"enter" => Some(Box::new(Echo::default())),
            _ => None,
        }
    }
}

/// Sends back what it gets, after a greeting longer than what opened the door.
#[derive(Default)]
struct Echo {
    row: Option<Row>,
    greeted: bool,
    stop: bool,
}

const GREETING: &[u8] = b"welcome, stay as long as you like";

impl Flow for Echo {
    fn interest(&self) -> Interest {
        let end = self.stop.then_some(End::Done { how: Ending::Completed, reset: false });
        let send = if self.greeted { When::Never } else { When::Now };
        Interest { send, read: Read::look(65_535), wake: None, end }
    }
    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        out.fixed(GREETING);
    }
    fn on_sent(&mut self, _: &mut Context<'_>, _: Sent) {
        self.greeted = true;
    }
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        self.stop = got.bytes == b"bye";
        if let Some(row) = self.row {
            cx.rec.received(row, got.len as u64);
            cx.rec.packets(row, &Counts { received: got.count() as u64, ..Counts::default() });
        }
        reply.segment = got.stride as u16;
        let room = reply.own(got.len);
        let n = room.len();
        room.copy_from_slice(&got.bytes[..n]);
        Ok(())
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        if let FlowEvent::Up(_) = event {
            self.row = Some(cx.rec.open(Group(7), cx.now));
        }
        Ok(())
    }
    fn id(&self) -> FlowId {
        FlowId { row: self.row, ..FlowId::default() }
    }
}

/// Asks at the door, enters, says things that come back, and leaves.
struct Guest {
    row: Option<Row>,
    state: State,
    again: Mono,
    count: u32,
    refused: u32,
    stamps: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Ask,
    Enter,
    Talk(u32),
    Bye,
    Gone,
}

/// Longer than a busy worker defers a peer: a peer that enters twice gets two flows.
const AGAIN: u64 = SECOND;

#[derive(Debug, PartialEq)]
struct Seen {
    talked: u32,
    refused: u32,
    stamps: u32,
}

impl Guest {
    fn new(count: u32) -> Self {
        Guest { row: None, state: State::Ask, again: Mono(0), count, refused: 0, stamps: 0 }
    }
}

impl Flow for Guest {
    fn interest(&self) -> Interest {
        let end = (self.state == State::Gone).then_some(End::Done { how: Ending::Completed, reset: false });
        Interest { send: When::At(self.again), read: Read::look(65_535), wake: None, end }
    }
    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        match self.state {
            State::Ask => out.fixed(b"who?"),
            State::Enter => out.fixed(b"enter"),
            State::Talk(n) => {
                out.tag = Some(n);
                out.segment = 4;
                for part in 0..out.segments().min(3) {
                    out.own(4).copy_from_slice(&(n * 10 + part as u32).to_be_bytes());
                }
            }
            State::Bye => out.fixed(b"bye"),
            State::Gone => {}
        }
    }
    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.refused += u32::from(n.fault.is_some());
        self.again = cx.now.plus(AGAIN);
    }
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        let next = match (self.state, got.bytes) {
            (State::Ask, b"you,") => State::Enter,
            (State::Enter, GREETING) => State::Talk(0),
            (State::Talk(n), bytes) if bytes[..4] == (n * 10).to_be_bytes() => {
                if let Some(row) = self.row {
                    cx.rec.received(row, 4);
                }
                if n + 1 == self.count { State::Bye } else { State::Talk(n + 1) }
            }
            (State::Bye, b"bye") => State::Gone,
            (state, _) => state,
        };
        if next != self.state {
            (self.state, self.again) = (next, cx.now);
        }
        if next == State::Gone {
            let (talked, refused, stamps) = (self.count, self.refused, self.stamps);
            cx.post(Seen { talked, refused, stamps });
        }
        Ok(())
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(_) => self.row = Some(cx.rec.open(Group(1), cx.now)),
            FlowEvent::Stamped { .. } => self.stamps += 1,
            FlowEvent::Broken(fault) => {
                self.refused += 1;
                cx.post(fault);
            }
            _ => {}
        }
        Ok(())
    }
    fn id(&self) -> FlowId {
        FlowId { row: self.row, ..FlowId::default() }
    }
}

/// Flows, and where their sockets go.
type Flows = Vec<(Box<dyn Flow>, Target)>;

/// A flow and where it goes.
fn to(flow: impl Flow + 'static, to: std::net::SocketAddr) -> (Box<dyn Flow>, Target) {
    (Box::new(flow), Target { to, from: None })
}

/// Opens a UDP socket for one flow after the other.
struct Opener {
    flows: std::vec::IntoIter<(Box<dyn Flow>, Target)>,
    tell: mpsc::Sender<Fault>,
}

impl Connector for Opener {
    fn open(&mut self, _: &mut Context<'_>) -> Open {
        self.flows.next().map_or(Open::Done, |(flow, target)| Open::Datagram(flow, target))
    }
    fn on_closed(&mut self, _: &mut Context<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        if let Err(Cause::Fault(fault)) = how {
            let _ = self.tell.send(*fault);
        }
    }
    fn stop(&mut self) {
        self.flows = Vec::new().into_iter();
    }
}

/// Lets some guests in under a wait policy.
fn party(wait: Wait, guests: u32) {
    const TALK: u32 = 20;
    let case = format!("{guests} guests, {wait:?}");
    let sockets = bound(1);
    let at = sockets[0].local().unwrap();
    let server = Thread::serve(sockets, wait);
    let client = Thread::start(Vec::new());
    client.open((0..guests).map(|_| to(Guest::new(TALK), at)).collect(), wait, false);
    let seen = client.wait_for_seen(guests as usize, true);
    client.until_idle();
    for one in &seen {
        assert_eq!((one.talked, one.refused), (TALK, 0), "{case}");
        // The last may still be under way.
        assert!(!io::udp::ability().transmit_stamps || one.stamps + 3 >= TALK, "{case}: {one:?}");
    }
    let all = (u64::from(guests), u64::from(guests));
    let (tally, records) = client.end(Group(1));
    assert_eq!((tally.opened, tally.count(Ending::Completed)), all, "{case}");
    assert!(tally.connect_ns.count() == 0, "{case}: nothing was connected");
    assert!(tally.peak > 0, "{case}: links were open, and none is at the end of the interval");
    let is_whole = |r: &ConnectionRecord| r.remote == at && r.local.is_some_and(|l| l.port() != 0);
    assert!(records.iter().all(is_whole), "{case}");
    let (tally, _) = server.end(Group(7));
    assert_eq!((tally.opened, tally.count(Ending::Completed)), all, "{case}");
    let heard = tally.packets.unwrap().counts.received;
    assert!(heard >= u64::from(guests * (TALK + 1)), "{case}: {heard}");
}

/// The wake that came with it was told: no other ends the wait.
#[test]
fn a_worker_that_is_told_to_quit_before_its_round_does_not_wait() {
    let (mut worker, mailbox, waker, _reports) = Thread::parts(Vec::new());
    assert!(matches!(worker.step(), Park::Wait(None)));
    worker.resume(Ok(&mut Vec::new()));
    mailbox.send(Command::Quit).unwrap();
    waker.wake();
    assert!(matches!(worker.step(), Park::Done));
}

#[test]
fn new_peers_get_sockets_of_their_own_and_are_echoed() {
    // One is slept for in the receive call, and several in the reactor.
    for (wait, guests) in [
        (Wait::Block, 5),
        (Wait::Receive, 1),
        (Wait::Receive, 3),
        (Wait::Hybrid, 5),
        (Wait::Spin, 5),
        (Wait::Spin, 1),
    ] {
        party(wait, guests);
    }
}

/// Sends small datagrams without end: its worker is never idle. One that `asks` leaves when it is
/// answered.
#[derive(Default)]
struct Endless {
    asks: bool,
    row: Option<Row>,
    stop: bool,
}

impl Flow for Endless {
    fn interest(&self) -> Interest {
        let (how, read) =
            if self.asks { (Ending::Completed, Read::look(65_535)) } else { (Ending::Stopped, Read::Pause) };
        let end = self.stop.then_some(End::Done { how, reset: false });
        Interest { send: When::Now, read, wake: None, end }
    }
    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        out.fixed(b"who?");
    }
    fn on_received(&mut self, _: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        self.stop = got.bytes == b"you,";
        Ok(())
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(_) => self.row = Some(cx.rec.open(Group(1), cx.now)),
            FlowEvent::Stop => self.stop = true,
            _ => {}
        }
        Ok(())
    }
    fn id(&self) -> FlowId {
        FlowId { row: self.row, ..FlowId::default() }
    }
}

#[test]
fn a_link_that_can_always_send_is_read_too() {
    let sockets = bound(1);
    let at = sockets[0].local().unwrap();
    let _server = Thread::serve(sockets, Wait::Block);
    for wait in [Wait::Block, Wait::Hybrid, Wait::Spin] {
        let client = Thread::start(Vec::new());
        client.open(vec![to(Endless { asks: true, ..Endless::default() }, at)], wait, false);
        client.until_idle();
    }
}

#[test]
fn a_link_that_waits_is_served_beside_one_that_never_pauses() {
    const GUESTS: usize = 50;
    let sockets = bound(2);
    let at = sockets[0].local().unwrap();
    let _server = Thread::serve(sockets, Wait::Block);
    let sink = bound(1).remove(0);
    for wait in [Wait::Block, Wait::Hybrid, Wait::Spin] {
        let client = Thread::start(Vec::new());
        let mut flows = vec![to(Endless::default(), sink.local().unwrap())];
        flows.extend((0..GUESTS).map(|_| to(Guest::new(3), at)));
        client.open(flows, wait, false);
        client.wait_for_seen(GUESTS, false);
    }
}

#[test]
fn a_refusal_is_heard_and_the_link_goes_on() {
    // Not of those ports that the system gives to the sockets of other tests meanwhile.
    let mut ports = (20_000..30_000).map(|port| std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    let closed = ports.find(|at| Udp::bind(*at, false, &SocketSettings::default()).is_ok()).unwrap();
    let client = Thread::start(Vec::new());
    client.open(vec![to(Guest::new(1), closed)], Wait::Block, false);
    client.until(|report| match report {
        Report::Message(message) => message.downcast::<Fault>().ok(),
        _ => None,
    });
    // Now a server is bound there.
    let socket = Udp::bind(closed, true, &SocketSettings::default()).unwrap();
    let _server = Thread::serve(vec![socket], Wait::Block);
    let seen = client.wait_for_seen(1, false).remove(0);
    assert!(seen.refused > 0 && seen.talked == 1, "{seen:?}");
}

#[test]
fn what_cannot_be_opened_is_counted_and_told() {
    let client = Thread::start(Vec::new());
    // From an address for documentation, which is not ours.
    let from = Some("192.0.2.1:0".parse().unwrap());
    let (guest, target) = to(Guest::new(1), "127.0.0.1:9".parse().unwrap());
    let told = client.open(vec![(guest, Target { from, ..target })], Wait::Block, false);
    told.recv_timeout(PATIENCE).expect("no report");
    let (tally, records) = client.end(Group(1));
    assert_eq!((tally.opened, tally.count(Ending::NetworkError), records.len()), (0, 1, 1));
}

/// Sends a small datagram every so often and records how late.
struct Pacer {
    row: Option<Row>,
    gap: u64,
    due: Mono,
    left: u32,
}

impl Flow for Pacer {
    fn interest(&self) -> Interest {
        let end = (self.left == 0).then_some(End::Done { how: Ending::Completed, reset: false });
        Interest { send: When::At(self.due), read: Read::Pause, wake: None, end }
    }
    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        cx.rec.tally(Group(1)).late_ns.record(cx.now.since(self.due));
        out.own(8).fill(1);
    }
    fn on_sent(&mut self, _: &mut Context<'_>, _: Sent) {
        self.left -= 1;
        self.due = self.due.plus(self.gap);
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        if let FlowEvent::Up(_) = event {
            self.row = Some(cx.rec.open(Group(1), cx.now));
            self.due = cx.now.plus(1_000_000);
        }
        Ok(())
    }
    fn id(&self) -> FlowId {
        FlowId { row: self.row, ..FlowId::default() }
    }
}

/// Not a test of anything: prints how late paced sends leave under each policy, for the table of
/// `idle.rs`.
#[test]
#[ignore = "a measurement: cargo test --release -p engine -- --ignored --nocapture lateness"]
fn lateness() {
    let sink = bound(1).remove(0);
    for (gap, count) in [(10_000, 50_000), (100_000, 10_000), (1_000_000, 1_000)] {
        for wait in [Wait::Block, Wait::Hybrid, Wait::Spin] {
            let client = Thread::start(Vec::new());
            let pacer = Pacer { row: None, gap, due: Mono(u64::MAX), left: count };
            client.open(vec![to(pacer, sink.local().unwrap())], wait, true);
            client.until_idle();
            let (tally, _) = client.end(Group(1));
            let s = tally.late_ns.summary().unwrap();
            println!(
                "{wait:?} every {} us: late p50 {} ns, p90 {}, p99 {}, p99.9 {}, max {}",
                gap / 1_000,
                s.p50,
                s.p90,
                s.p99,
                s.p999,
                s.max
            );
        }
    }
}
