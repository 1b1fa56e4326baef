//! The set-up of a client's connection: one request, at the server's control port.
//!
//! The server's test has another port as a rule. A datagram socket has one peer here, so the
//! connection goes on at a second socket with the same local port, which the connector opens
//! ([`Handover`]); where the test has the control port, the socket stays.

use crate::Settings;
use crate::activate::ActivateFlow;
use crate::codec::{Deriver, Keys, Seal, Setup, Unsealed, VERSION, setup_code};
use crate::report::{EndReport, News};
use common::capacity::{Connection, LAST, Reports};
use common::kernel::Core;
use metrics::{Clamped, Ending, Group, Mono, SECOND, Wall};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use transport::{
    Checked, Context, End, Fault, Flow, FlowEvent, FlowId, Interest, Path, Patience, Read, Received, Sent,
    Transmit, Violation, When,
};

/// The wait for set-up and activation together.
pub(crate) const SETUP: Patience = Patience::of("no answer to the set-up", 3 * SECOND);

/// Why a set-up may have no answer.
pub(crate) const NO_SERVER: &str = "is a UDPSTP server at this port, and does UDP pass both ways?";

/// Whole seconds of a wall time.
pub(crate) fn seconds(wall: Wall) -> u64 {
    u64::try_from(wall.0).unwrap_or(0) / SECOND
}

/// State that the connections of a client's test share.
pub(crate) struct ClientPlan {
    pub(crate) settings: Settings,
    pub(crate) upstream: bool,
    /// Connections of the test.
    pub(crate) count: u8,
    /// The shared key.
    pub(crate) key: Option<Vec<u8>>,
    /// Number of the test, drawn by its first connection.
    pub(crate) test: OnceLock<u16>,
    pub(crate) group: Group,
    pub(crate) reports: Reports,
}

/// A connection that goes on at another port of the server.
pub(crate) struct Handover {
    pub(crate) flow: ActivateFlow,
    pub(crate) to: SocketAddr,
    pub(crate) from: SocketAddr,
}

/// The place where a set-up leaves a connection for its connector.
pub(crate) type Place = Arc<Mutex<Option<Handover>>>;

/// A connection in its set-up.
pub(crate) struct SetupFlow {
    core: Core,
    plan: Arc<ClientPlan>,
    index: u8,
    slot: u32,
    place: Place,
    path: Option<Path>,
    until: Mono,
    sent: bool,
    keys: Option<Keys>,
    refused: Option<Fault>,
    /// The activation at the same socket.
    next: Option<Box<ActivateFlow>>,
    over: Option<Ending>,
}

impl SetupFlow {
    pub(crate) fn new(plan: Arc<ClientPlan>, slot: u32, place: Place) -> Self {
        SetupFlow {
            core: Core::new(plan.group, slot, 0),
            index: u8::try_from(slot).unwrap_or(u8::MAX),
            plan,
            slot,
            place,
            path: None,
            until: Mono(0),
            sent: false,
            keys: None,
            refused: None,
            next: None,
            over: None,
        }
    }

    fn test(&self) -> u16 {
        self.plan.test.get().copied().unwrap_or(0)
    }

    fn connection(&self) -> Connection {
        let settings = &self.plan.settings;
        Connection {
            index: self.index,
            test: self.test(),
            version: VERSION,
            upstream: self.plan.upstream,
            table: settings.table(),
            last: LAST,
            parameters: settings.parameters(),
            signed: self.keys.is_some(),
        }
    }

    fn post(&self, cx: &mut Context<'_>, news: News) {
        let report = self.connection().report(cx.clock.wall(cx.now), self.path, news);
        self.plan.reports.post(cx, report);
    }

    fn request(&mut self, cx: &mut Context<'_>) -> [u8; crate::codec::SETUP] {
        let Settings { bandwidth, key, .. } = self.plan.settings;
        let drawn = u16::clamped(cx.rng.between(1, u16::MAX.into()));
        let request = Setup {
            version: VERSION,
            index: self.index,
            count: self.plan.count,
            test: *self.plan.test.get_or_init(|| drawn),
            answer: false,
            code: setup_code::NONE,
            bandwidth: u16::clamped(bandwidth).min(crate::codec::MOST_BANDWIDTH),
            upstream: self.plan.upstream,
            port: 0,
            modifiers: self.plan.settings.modifiers(),
            seal: Seal { key, ..Seal::default() },
        };
        let mut bytes = request.encode();
        if let Some(shared) = &self.plan.key {
            let now_s = u32::clamped(seconds(cx.clock.wall(cx.now)));
            let keys = Deriver::keys(shared, now_s);
            Setup::SEAL.sign(&mut bytes, &keys.client, now_s);
            self.keys = Some(keys);
        }
        bytes
    }

    /// The set-up fails; the reference's exit code of it.
    fn fail(&mut self, cx: &mut Context<'_>, code: u8, violation: Violation) -> Checked {
        if let Some(path) = self.path {
            // A connection that failed is counted.
            self.core.up(cx, path);
        }
        self.post(cx, News::End(EndReport { code, ..EndReport::default() }));
        self.over = Some(Ending::Stopped);
        Err(violation)
    }

    /// The server's answer.
    fn on_answer(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Checked {
        let Some(answer) = Setup::decode(bytes) else { return Ok(()) };
        let is_ours = answer.answer && answer.test == self.test() && answer.index == self.index;
        if !is_ours || answer.code == setup_code::NONE {
            return Ok(());
        }
        let is_refusal = answer.code != setup_code::ACCEPTED;
        if let Some(keys) = &self.keys {
            let now_s = seconds(cx.clock.wall(cx.now));
            let verified = Setup::SEAL.verify(bytes, &keys.server, now_s);
            // A server without keys, or with another one, signs nothing that could be verified.
            let unsigned = is_refusal && answer.seal.mode == 0 || answer.code == setup_code::NO_KEYS_HERE;
            match verified {
                Err(Unsealed::Digest) if !unsigned => {
                    return self.fail(cx, 107, Violation::Malformed(UNPROVEN));
                }
                Err(Unsealed::Time) => {
                    return self.fail(cx, 108, Violation::Malformed(refusal(setup_code::TIME)));
                }
                _ => {}
            }
        }
        self.post(cx, News::SetupResponse { code: answer.code });
        if is_refusal {
            let code = 100_u8.saturating_add(answer.code);
            return self.fail(cx, code, Violation::Malformed(refusal(answer.code)));
        }
        let Some(path) = self.path else { return Ok(()) };
        let (plan, keys) = (Arc::clone(&self.plan), self.keys.clone());
        let flow = ActivateFlow::new(plan, self.slot, self.connection(), keys, self.until);
        if answer.port == path.peer.port() {
            self.next = Some(Box::new(flow));
        } else {
            let mut to = path.peer;
            to.set_port(answer.port);
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Handover { flow, to, from: path.local });
            self.over = Some(Ending::Completed);
        }
        Ok(())
    }
}

/// Why an answer is not accepted.
const UNPROVEN: &str = "the server has another key: its answer is not signed with ours";

/// Meaning of a code that refuses a set-up.
pub(crate) fn refusal(code: u8) -> &'static str {
    match code {
        setup_code::VERSION => "the server speaks no version of UDPSTP that we speak (20)",
        setup_code::JUMBO => "the server has the other setting of jumbo datagrams: udpst -j changes ours",
        setup_code::NO_KEYS_HERE => "the server has no keys: leave out ours",
        setup_code::KEY_REQUIRED => "the server serves only clients with a key",
        setup_code::MODE => "the server has no such mode of authentication",
        setup_code::UNPROVEN => "the server has another key than ours, or none of this number",
        setup_code::TIME => "the clocks of the two ends differ by more than 5 s",
        setup_code::BANDWIDTH_MISSING => {
            "the server wants to know the bandwidth of a test: udpst -B states it"
        }
        setup_code::CAPACITY => "the server has no capacity left for a test of this bandwidth",
        setup_code::TRADITIONAL => {
            "the server has the other setting of the traditional MTU: udpst -T changes ours"
        }
        setup_code::CONNECTIONS => "the server refuses the number of connections",
        setup_code::FULL => "the server has no connection left",
        _ => "the server refused the set-up for a reason that is unknown here",
    }
}

impl Flow for SetupFlow {
    fn interest(&self) -> Interest {
        if self.next.is_some() {
            return Interest::of(End::Replace);
        }
        if let Some(how) = self.over {
            return Interest::done(how);
        }
        if self.path.is_none() {
            return Interest::NONE;
        }
        let read = Read::look(65_535);
        if self.refused.is_some() {
            return Interest { read, wake: Some(Mono(0)), ..Interest::NONE };
        }
        let send = if self.sent { When::Never } else { When::Now };
        Interest { send, read, wake: Some(self.until), end: None }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let bytes = self.request(cx);
        out.copy(&bytes);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.refused = n.fault;
        if n.bytes > 0 {
            self.sent = true;
            let Settings { bandwidth, key, .. } = self.plan.settings;
            let bandwidth = u16::clamped(bandwidth);
            self.post(cx, News::SetupRequest { version: VERSION, bandwidth, key });
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        for bytes in got.datagrams() {
            if self.over.is_none() && self.next.is_none() {
                self.on_answer(cx, bytes)?;
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.path = Some(path);
                self.until = SETUP.since(cx.now).until();
            }
            FlowEvent::Broken(fault) => self.refused = Some(fault),
            FlowEvent::Wake => {
                if let Some(fault) = self.refused.take() {
                    return self.fail(cx, 1, Violation::Refused(fault).likely(NO_SERVER));
                }
                if self.over.is_none() && self.next.is_none() && cx.now >= self.until {
                    return self.fail(cx, 1, SETUP.violation().likely(NO_SERVER));
                }
            }
            FlowEvent::Stop if self.over.is_none() && self.next.is_none() => {
                self.over = Some(Ending::Stopped);
                self.post(cx, News::End(EndReport::default()));
            }
            _ => {}
        }
        Ok(())
    }

    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        self.next.take().map(|flow| flow as Box<dyn Flow>)
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
