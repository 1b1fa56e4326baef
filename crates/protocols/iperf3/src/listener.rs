//! The server's port: assigns new connections and datagrams to tests.
//!
//! Every TCP connection begins with a cookie. The cookie of a test that waits for its streams makes
//! the connection one of them, on a worker of its own; any other cookie makes it a client's control
//! connection, which goes up to the session. A UDP hello carries no cookie: it belongs to the test
//! that waits for datagrams from its address, and the session lets only one wait at a time.

use super::codec::{COOKIE, Cookie, HELLO, REPLY, StateByte};
use super::packets::UdpStream;
use super::stream::TcpStream;
use super::test_state::{Part, Posted, TestState};
use common::Acl;
use common::message::warn;
use metrics::Ending;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{
    Acceptor, Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent, Transmit,
    Violation, When,
};

/// Tests that wait for streams, shared by a server's workers and its session; locked once per
/// connection.
#[derive(Debug, Default)]
pub(super) struct PendingTests {
    tests: Mutex<Waiting>,
    /// Connections so far, which are numbered in the order of arrival.
    came: AtomicU64,
}

/// Tests that wait for their streams.
#[derive(Debug, Default)]
struct Waiting {
    tcp: BTreeMap<Cookie, Arc<TestState>>,
    udp: BTreeMap<IpAddr, Arc<TestState>>,
}

impl PendingTests {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A test waits for its streams, datagrams from this address.
    pub(super) fn expect(&self, test_state: &Arc<TestState>, from: IpAddr) {
        let mut waiting = self.waiting();
        if test_state.terms.udp {
            waiting.udp.insert(from.to_canonical(), Arc::clone(test_state));
        } else {
            waiting.tcp.insert(test_state.cookie, Arc::clone(test_state));
        }
    }

    /// Ends the flow's part in the test.
    pub(super) fn forget(&self, test_state: &TestState) {
        let mut waiting = self.waiting();
        waiting.tcp.retain(|_, other| other.group != test_state.group);
        waiting.udp.retain(|_, other| other.group != test_state.group);
    }

    fn by_cookie(&self, cookie: &Cookie) -> Option<Arc<TestState>> {
        self.waiting().tcp.get(cookie).cloned()
    }

    /// The test that a datagram from `from` belongs to, and true if that test's client has this
    /// address. From an address that no test knows, the only test that waits.
    fn by_address(&self, from: IpAddr) -> Option<(Arc<TestState>, bool)> {
        let waiting = self.waiting();
        if let Some(test_state) = waiting.udp.get(&from.to_canonical()) {
            return Some((Arc::clone(test_state), true));
        }
        let mut all = waiting.udp.values();
        let only = all.next().filter(|_| all.next().is_none());
        only.map(|test_state| (Arc::clone(test_state), false))
    }

    fn next(&self) -> u64 {
        self.came.fetch_add(1, Ordering::Relaxed)
    }
}

/// The listener's part on one worker.
pub(super) struct Listener {
    shared: Arc<PendingTests>,
    acl: Arc<Acl>,
    /// Addresses that may have streams of datagrams without a control connection from the same
    /// address.
    streams: Arc<Acl>,
    worker: u16,
    workers: u16,
}

impl Listener {
    pub(super) fn one_per_worker(
        shared: &Arc<PendingTests>,
        acl: &Acl,
        streams: &Acl,
        workers: u16,
    ) -> Vec<Box<dyn Acceptor>> {
        let (acl, streams) = (Arc::new(acl.clone()), Arc::new(streams.clone()));
        let workers = workers.max(1);
        let one = |worker| {
            let (shared, acl, streams) = (Arc::clone(shared), Arc::clone(&acl), Arc::clone(&streams));
            Box::new(Listener { shared, acl, streams, worker, workers }) as Box<dyn Acceptor>
        };
        (0..workers).map(one).collect()
    }
}

impl Acceptor for Listener {
    fn accept(&mut self, _: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        if !self.acl.admits(path.peer.ip()) {
            return None;
        }
        Some(Box::new(Handshake {
            shared: Arc::clone(&self.shared),
            place: (self.worker, self.workers),
            when: self.shared.next(),
            path: *path,
            word: [0; COOKIE],
            have: 0,
            step: AcceptStep::Cookie,
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
        let (test_state, proven) = self.shared.by_address(peer.ip())?;
        if !self.acl.admits(peer.ip()) || got.len != HELLO.len() {
            return None;
        }
        if !proven && !self.streams.admits(peer.ip()) {
            let text = format!(
                "{} asked for a stream of datagrams and gets none: no test is from that address, and it is not within the \
                 networks that are allowed (NETCALIPER_ALLOW)",
                peer.ip().to_canonical()
            );
            warn(cx, text);
            return None;
        }
        let when = self.shared.next();
        let joined = test_state.join(when, peer);
        if joined.is_some() || test_state.has_stream(peer) {
            reply.copy(&REPLY);
        }
        let nth = joined?;
        cx.post(Posted::Joined { group: test_state.group, when, path });
        Some(Box::new(UdpStream::new(Part::server(test_state, when, (nth, self.worker, self.workers)))))
    }
}

/// A new connection, until its cookie is read; then the flow of its stream.
struct Handshake {
    shared: Arc<PendingTests>,
    /// Index of this worker, and number of workers.
    place: (u16, u16),
    when: u64,
    path: Path,
    word: Cookie,
    have: usize,
    step: AcceptStep,
}

enum AcceptStep {
    /// The cookie is being read.
    Cookie,
    /// A control connection.
    Visitor,
    /// One stream too many: true once the refusal has been sent.
    Refused(bool),
    /// A stream of a known test.
    Stream(Option<Box<dyn Flow>>),
}

impl Handshake {
    /// Decides by the received cookie: a stream of a known test, or a control connection.
    fn judge(&mut self, cx: &mut Context<'_>) {
        let Some(test_state) = self.shared.by_cookie(&self.word) else {
            cx.post(Posted::Visit(self.path, self.word));
            self.step = AcceptStep::Visitor;
            return;
        };
        let Some(nth) = test_state.join(self.when, self.path.peer) else {
            self.step = AcceptStep::Refused(false);
            return;
        };
        cx.post(Posted::Joined { group: test_state.group, when: self.when, path: self.path });
        let (worker, workers) = self.place;
        let part = Part::server(test_state, self.when, (nth, worker, workers));
        self.step = AcceptStep::Stream(Some(Box::new(TcpStream::new(part))));
    }
}

impl Flow for Handshake {
    fn interest(&self) -> Interest {
        match &self.step {
            AcceptStep::Cookie => Interest { read: Read::look(COOKIE - self.have), ..Interest::NONE },
            AcceptStep::Visitor => Interest::of(End::Detach),
            AcceptStep::Refused(false) => Interest { send: When::Now, ..Interest::NONE },
            AcceptStep::Refused(true) => Interest::done(Ending::Stopped),
            AcceptStep::Stream(_) => Interest::of(End::Replace),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        if let AcceptStep::Refused(false) = self.step {
            out.copy(&[StateByte::DENIED.0]);
        }
    }

    fn on_sent(&mut self, _: &mut Context<'_>, n: Sent) {
        if let AcceptStep::Refused(said) = &mut self.step {
            *said |= n.bytes > 0 || n.fault.is_some();
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        if let AcceptStep::Cookie = self.step {
            let n = got.bytes.len().min(COOKIE - self.have);
            self.word[self.have..self.have + n].copy_from_slice(&got.bytes[..n]);
            self.have += n;
            if self.have == COOKIE {
                self.judge(cx);
            }
        }
        Ok(())
    }

    fn on_event(&mut self, _: &mut Context<'_>, event: FlowEvent) -> Checked {
        match (&self.step, event) {
            (AcceptStep::Cookie, FlowEvent::Fin) => {
                Err(Violation::Malformed("the peer hung up before its cookie was complete"))
            }
            _ => Ok(()),
        }
    }

    fn is_introduced(&self) -> Option<bool> {
        Some(!matches!(self.step, AcceptStep::Cookie))
    }

    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        if let AcceptStep::Stream(flow) = &mut self.step { flow.take() } else { None }
    }

    fn id(&self) -> FlowId {
        FlowId::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BulkTerms;
    use metrics::{Clock, Group, Mono, Recorder};
    use transport::{Arena, Rng};

    #[test]
    fn only_a_hello_opens_a_stream_of_datagrams() {
        let shared = Arc::new(PendingTests::default());
        let terms = BulkTerms { udp: true, ..BulkTerms::usual() };
        let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 5201).into() };
        let test_state = Arc::new(TestState::new(Group(1), terms, [0; COOKIE], true));
        shared.expect(&test_state, path.peer.ip());
        let mut listener = Listener::one_per_worker(&shared, &Acl::default(), &Acl::default(), 1).remove(0);
        let (mut rec, mut rng, mut outbox, clock) =
            (Recorder::default(), Rng::new(1), Vec::new(), Clock::default());
        let mut cx = Context::new(Mono(2), &clock, &mut rng, &mut rec, &mut outbox);
        let mut arena = Arena::new(64);
        // A datagram of an earlier test may still be on its way.
        for (bytes, opens) in [(&b"987"[..], false), (&[7; 1_460], false), (&HELLO, true)] {
            let got = Received { from: Some(path), ..Received::stream(bytes, Mono(2)) };
            let mut reply = Transmit::new(&mut arena, 64);
            assert_eq!(listener.on_unsolicited(&mut cx, &got, &mut reply).is_some(), opens, "{bytes:?}");
        }
    }
}
