//! The server's port: who comes, and where it belongs.
//!
//! Every TCP connection begins with a cookie. That of a test which waits for its streams makes the connection one of them, on a
//! worker of its own; any other is a client that comes to speak, and goes up to the session. A UDP hello carries no cookie: it
//! belongs to the test that waits for datagrams from its address, and the session sees to it that there is only one.

use super::codec::{COOKIE, Cookie, HELLO, REPLY, State};
use super::lot::{Joined, Lot};
use super::packets::UdpStream;
use super::stream::TcpStream;
use crate::native::Fence;
use crate::quota::{LOOK, PendingPeers, PendingPlace};
use crate::solo::Remark;
use metrics::{Ending, Mono, SECOND};
use model::Level;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{
    Acceptor, Cause, Context, End, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit,
    Violation, When,
};

/// How long a cookie may take, ns.
const PATIENCE: u64 = 10 * SECOND;

/// What a server's workers and its session share. It is looked at once for each connection.
#[derive(Debug)]
pub(super) struct House {
    tests: Mutex<Waiting>,
    /// Connections whose cookie has not come.
    pending: Arc<PendingPeers>,
    /// Connections so far: they are numbered as they come.
    came: AtomicU64,
}

/// Tests that wait for their streams.
#[derive(Debug, Default)]
struct Waiting {
    tcp: BTreeMap<Cookie, Arc<Lot>>,
    udp: BTreeMap<IpAddr, Arc<Lot>>,
}

impl House {
    /// No tests; room for `pending` connections whose cookie has not come.
    pub(super) fn new(pending: u32) -> Self {
        let pending = Arc::new(PendingPeers::new(pending as usize));
        House { tests: Mutex::default(), pending, came: AtomicU64::new(0) }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A test waits for its streams, datagrams from this address.
    pub(super) fn expect(&self, lot: &Arc<Lot>, from: IpAddr) {
        let mut waiting = self.waiting();
        if lot.terms.udp {
            waiting.udp.insert(from.to_canonical(), Arc::clone(lot));
        } else {
            waiting.tcp.insert(lot.cookie, Arc::clone(lot));
        }
    }

    /// It does no more.
    pub(super) fn forget(&self, lot: &Lot) {
        let mut waiting = self.waiting();
        waiting.tcp.retain(|_, other| other.group != lot.group);
        waiting.udp.retain(|_, other| other.group != lot.group);
    }

    fn by_cookie(&self, cookie: &Cookie) -> Option<Arc<Lot>> {
        self.waiting().tcp.get(cookie).cloned()
    }

    /// The test that a datagram from there belongs to; from an address that no test knows, the only one that there is.
    fn by_address(&self, from: IpAddr) -> Option<(Arc<Lot>, bool)> {
        let waiting = self.waiting();
        if let Some(lot) = waiting.udp.get(&from.to_canonical()) {
            return Some((Arc::clone(lot), true));
        }
        let mut all = waiting.udp.values();
        let only = all.next().filter(|_| all.next().is_none());
        only.map(|lot| (Arc::clone(lot), false))
    }

    fn next(&self) -> u64 {
        self.came.fetch_add(1, Ordering::Relaxed)
    }
}

/// Posted by the door: somebody who comes to speak, and its cookie. The connection goes up to the session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) path: Path,
    pub(super) cookie: Cookie,
}

/// The door on one worker.
pub(super) struct Door {
    house: Arc<House>,
    fence: Arc<Fence>,
    /// Who may have streams of datagrams without a control connection from the same address.
    streams: Arc<Fence>,
    worker: u16,
    workers: u16,
}

impl Door {
    /// One per worker.
    pub(super) fn for_all(
        house: &Arc<House>,
        fence: &Fence,
        streams: &Fence,
        workers: u16,
    ) -> Vec<Box<dyn Acceptor>> {
        let (fence, streams) = (Arc::new(fence.clone()), Arc::new(streams.clone()));
        let workers = workers.max(1);
        let one = |worker| {
            let (house, fence, streams) = (Arc::clone(house), Arc::clone(&fence), Arc::clone(&streams));
            Box::new(Door { house, fence, streams, worker, workers }) as Box<dyn Acceptor>
        };
        (0..workers).map(one).collect()
    }
}

impl Acceptor for Door {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        if !self.fence.admits(path.peer.ip()) {
            return None;
        }
        let (place, told) = self.house.pending.enter(path.peer.ip(), cx.now);
        if let Some(gave_way) = told {
            cx.outbox.push(Box::new(gave_way));
        }
        Some(Box::new(Guest {
            house: Arc::clone(&self.house),
            place: (self.worker, self.workers),
            when: self.house.next(),
            path: *path,
            since: Mono(0),
            word: [0; COOKIE],
            have: 0,
            step: Step::Cookie { place, look: cx.now.plus(LOOK) },
        }))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let path = got.from?;
        let peer = path.peer;
        let (lot, proven) = self.house.by_address(peer.ip())?;
        if !self.fence.admits(peer.ip()) || got.len < HELLO.len() {
            return None;
        }
        if !proven && !self.streams.admits(peer.ip()) {
            let text = format!(
                "{} asked for a stream of datagrams and gets none: no test came from that address, and it is not within the \
                 networks that are allowed (NETCALIPER_ALLOW)",
                peer.ip().to_canonical()
            );
            cx.outbox.push(Box::new(Remark { level: Level::Warning, text }));
            return None;
        }
        let when = self.house.next();
        let joined = lot.join(when, peer);
        if joined.is_some() || lot.knows(peer) {
            let n = REPLY.len().min(reply.room());
            reply.own(n).copy_from_slice(&REPLY[..n]);
        }
        let nth = joined?;
        cx.outbox.push(Box::new(Joined { group: lot.group, when, path }));
        let to = lot.worker(nth, self.workers);
        let flow = Box::new(UdpStream::server(lot, when));
        Some(Box::new(Guest {
            house: Arc::clone(&self.house),
            place: (self.worker, self.workers),
            when,
            path,
            since: cx.now,
            word: [0; COOKIE],
            have: 0,
            step: if to == self.worker { Step::Stream(flow) } else { Step::Moving(to, flow) },
        }))
    }

    fn on_closed(&mut self, _: &mut Context<'_>, _: Box<dyn Flow>, _: &Result<Ending, Cause>) {}

    fn stop(&mut self) {}
}

/// Who has come: nobody yet, or a stream.
struct Guest {
    house: Arc<House>,
    /// This worker, and how many there are.
    place: (u16, u16),
    when: u64,
    path: Path,
    since: Mono,
    word: Cookie,
    have: usize,
    step: Step,
}

enum Step {
    /// The cookie is being read; it is looked then whether a newer connection has the place.
    Cookie { place: PendingPlace, look: Mono },
    /// A newer connection has its place.
    Gone,
    /// It comes to speak.
    Visitor,
    /// It is one stream too many: so much of the refusal has been sent.
    Refused(bool),
    /// It is a stream, and belongs on another worker.
    Moving(u16, Box<dyn Flow>),
    /// It is a stream, where it belongs.
    Stream(Box<dyn Flow>),
}

impl Guest {
    /// The cookie is there.
    fn judge(&mut self, cx: &mut Context<'_>) {
        let Some(lot) = self.house.by_cookie(&self.word) else {
            cx.outbox.push(Box::new(Visit { path: self.path, cookie: self.word }));
            self.step = Step::Visitor;
            return;
        };
        let Some(nth) = lot.join(self.when, self.path.peer) else {
            self.step = Step::Refused(false);
            return;
        };
        cx.outbox.push(Box::new(Joined { group: lot.group, when: self.when, path: self.path }));
        let to = lot.worker(nth, self.place.1);
        let flow = Box::new(TcpStream::server(lot, self.when));
        self.step = if to == self.place.0 { Step::Stream(flow) } else { Step::Moving(to, flow) };
    }
}

impl Flow for Guest {
    fn interest(&self) -> Interest {
        let nothing = Interest { send: When::Never, read: Read::Pause, wake: None, end: None };
        match &self.step {
            Step::Cookie { look, .. } => Interest {
                read: Read::look((COOKIE - self.have) as u64),
                wake: Some(self.since.plus(PATIENCE).min(*look)),
                ..nothing
            },
            Step::Gone => {
                Interest { end: Some(End::Done { how: Ending::ProtocolError, reset: true }), ..nothing }
            }
            Step::Visitor => Interest { end: Some(End::Detach), ..nothing },
            Step::Refused(false) => Interest { send: When::Now, ..nothing },
            Step::Refused(true) => {
                Interest { end: Some(End::Done { how: Ending::Stopped, reset: false }), ..nothing }
            }
            Step::Moving(to, _) => Interest { end: Some(End::Migrate(*to)), ..nothing },
            Step::Stream(flow) => flow.interest(),
        }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        match &mut self.step {
            Step::Refused(false) => out.own(1).fill(State::Denied.byte()),
            Step::Stream(flow) => flow.prepare_send(cx, out),
            _ => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        match &mut self.step {
            Step::Refused(said) => *said |= n.bytes > 0 || n.fault.is_some(),
            Step::Stream(flow) => flow.on_sent(cx, n),
            _ => {}
        }
    }

    fn on_received(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Result<(), Violation> {
        match &mut self.step {
            Step::Stream(flow) => return flow.on_received(cx, got, reply),
            Step::Cookie { .. } => {
                let n = got.bytes.len().min(COOKIE - self.have);
                self.word[self.have..self.have + n].copy_from_slice(&got.bytes[..n]);
                self.have += n;
                if self.have == COOKIE {
                    self.judge(cx);
                    if let Step::Stream(flow) = &mut self.step {
                        return flow.on_event(cx, FlowEvent::Up(self.path));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Result<(), Violation> {
        match (&mut self.step, event) {
            (Step::Cookie { .. }, FlowEvent::Up(_)) => self.since = cx.now,
            (Step::Cookie { .. }, FlowEvent::Wake) if cx.now.since(self.since) >= PATIENCE => {
                return Err(Violation::Malformed("no cookie came: it may not be an iperf3 client"));
            }
            (Step::Cookie { place, look }, FlowEvent::Wake) => {
                *look = cx.now.plus(LOOK);
                if place.evicted() {
                    self.step = Step::Gone;
                }
            }
            (Step::Cookie { .. }, FlowEvent::Fin) => {
                return Err(Violation::Malformed("the peer hung up before its cookie was complete"));
            }
            (Step::Stream(flow), event) => return flow.on_event(cx, event),
            // Told when it comes, for UDP, and where it has come to; it is the latter when it was on its way.
            (Step::Moving(..), FlowEvent::Up(path)) => return self.moved(cx, path),
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        match &self.step {
            Step::Stream(flow) => flow.id(),
            _ => FlowId::default(),
        }
    }
}

impl Guest {
    /// A stream that has reached its worker begins there; one that is to leave first does not.
    fn moved(&mut self, cx: &mut Context<'_>, path: Path) -> Result<(), Violation> {
        // A connection hears `Up` once before its cookie comes; a datagram's socket hears it when it is made, before it is
        // handed on.
        let arrived = self.have == COOKIE || std::mem::replace(&mut self.have, COOKIE) == COOKIE;
        if !arrived {
            return Ok(());
        }
        let step = std::mem::replace(&mut self.step, Step::Visitor);
        if let Step::Moving(_, flow) = step {
            self.step = Step::Stream(flow);
        }
        if let Step::Stream(flow) = &mut self.step {
            flow.on_event(cx, FlowEvent::Up(path))?;
        }
        Ok(())
    }
}
