//! Admission of clients at a server's port, and their activation.
//!
//! The tests have the port of the set-up: behind a firewall one port is open, and the client's own
//! firewall has seen a datagram to it. A Null Request is not needed, and not sent.

use crate::Settings;
use crate::admission::{Admissions, Admitted, Claim, Pending};
use crate::codec::{
    Activation, Deriver, MOST_CONNECTIONS, OLDEST, Row, Setup, Unsealed, VERSION, activation_code, setup_code,
};
use crate::keys::KeyFile;
use crate::one_sided::{Answers, GROUP};
use crate::report::{Activated, News, pass};
use crate::setup::seconds;
use common::Limit;
use common::capacity::{Connection, LAST, Proof, Reports, TestFlow};
use common::pending::PendingPeers;
use common::seen::Seen;
use metrics::{Clamped, Ending};
use model::Phase;
use std::sync::Arc;
use transport::{Acceptor, Cause, Context, Flow, Path, Received, Transmit};

/// State that a server's workers share.
struct ServerState {
    answers: Answers,
    settings: Settings,
    keys: Option<KeyFile>,
    limit: Limit,
    admissions: Arc<Admissions>,
    /// Digests of accepted PDUs: none opens a second test.
    seen: Seen,
}

/// A server's sources of links.
pub fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let settings = Settings::of(phase).unwrap_or(Settings::of_server());
    let shared = Arc::new(ServerState {
        settings,
        // With a file that cannot be read nobody has a key.
        keys: answers.key.as_ref().map(|psk| KeyFile::of(psk).unwrap_or_default()),
        limit: Limit::new(answers.exit_after),
        admissions: Arc::new(Admissions::new(answers.sockets, settings.bandwidth)),
        seen: Seen::default(),
        answers: answers.clone(),
    });
    let one = |_| {
        let pending = PendingPeers::default();
        Box::new(Listener { shared: Arc::clone(&shared), pending }) as Box<dyn Acceptor>
    };
    (0..answers.workers.max(1)).map(one).collect()
}

/// Admits clients on one worker.
struct Listener {
    shared: Arc<ServerState>,
    pending: PendingPeers,
}

impl ServerState {
    /// The code for a request, and the connection where it is accepted; `None` for a repeated one.
    fn admit(
        &self,
        cx: &Context<'_>,
        path: &Path,
        bytes: &[u8],
        setup: &Setup,
    ) -> Option<(u8, Option<Pending>)> {
        let now_s = seconds(cx.clock.wall(cx.now));
        let shared = self.keys.as_ref().and_then(|keys| keys.key(setup.seal.key));
        let modern = setup.version >= VERSION;
        let derived = shared.filter(|_| modern).map(|key| Deriver::keys(key, setup.seal.time_s));
        let refusal = |code| Some((code, None));
        if setup.seal.mode == 1 && self.keys.is_some() {
            let key = match (&derived, shared) {
                (Some(keys), _) => &keys.client[..],
                (None, Some(shared)) => shared,
                (None, None) => return refusal(setup_code::UNPROVEN),
            };
            match Setup::SEAL.verify(bytes, key, now_s) {
                Err(Unsealed::Digest) => return refusal(setup_code::UNPROVEN),
                Err(Unsealed::Time) => return refusal(setup_code::TIME),
                Ok(()) if self.seen.has(&setup.seal.digest) => return None,
                Ok(()) => self.seen.put(&setup.seal.digest),
            }
        }
        let code = self.judge(setup);
        if code != setup_code::ACCEPTED {
            return refusal(code);
        }
        let pending = Pending { setup: *setup, keys: derived, at: cx.now };
        match self.admissions.claim(path.peer, pending.clone()) {
            Claim::Accepted => Some((setup_code::ACCEPTED, Some(pending))),
            Claim::NoCapacity => refusal(setup_code::CAPACITY),
            Claim::Full => refusal(setup_code::FULL),
        }
    }

    /// The first check of a request that fails, or the code of none.
    fn judge(&self, setup: &Setup) -> u8 {
        let differs =
            (setup.modifiers ^ self.settings.modifiers()) & (crate::codec::JUMBO | crate::codec::TRADITIONAL);
        let count = setup.count;
        let is_limited = self.settings.bandwidth > 0;
        let checks = [
            ((OLDEST..=VERSION).contains(&setup.version), setup_code::VERSION),
            ((1..=MOST_CONNECTIONS).contains(&count) && setup.index < count, setup_code::CONNECTIONS),
            (differs & crate::codec::JUMBO == 0, setup_code::JUMBO),
            (differs & crate::codec::TRADITIONAL == 0, setup_code::TRADITIONAL),
            (!is_limited || setup.bandwidth > 0, setup_code::BANDWIDTH_MISSING),
            (setup.seal.mode == 0 || self.keys.is_some(), setup_code::NO_KEYS_HERE),
            (setup.seal.mode != 0 || self.keys.is_none(), setup_code::KEY_REQUIRED),
            (setup.seal.mode <= 1, setup_code::MODE),
        ];
        checks.iter().find(|(holds, _)| !holds).map_or(setup_code::ACCEPTED, |(_, code)| *code)
    }

    /// The answer to a request.
    fn response(&self, cx: &Context<'_>, path: &Path, setup: &Setup, code: u8) -> [u8; crate::codec::SETUP] {
        let accepted = code == setup_code::ACCEPTED;
        let answer = Setup {
            version: if code == setup_code::VERSION { VERSION } else { setup.version },
            answer: true,
            code,
            port: if accepted { path.local.port() } else { 0 },
            seal: crate::codec::Seal { key: setup.seal.key, ..Default::default() },
            ..*setup
        };
        let mut bytes = answer.encode();
        let shared = self.keys.as_ref().and_then(|keys| keys.key(setup.seal.key));
        if let Some(shared) = shared.filter(|_| setup.seal.mode == 1 && setup.version >= VERSION) {
            let keys = Deriver::keys(shared, setup.seal.time_s);
            Setup::SEAL.sign(&mut bytes, &keys.server, u32::clamped(seconds(cx.clock.wall(cx.now))));
        }
        bytes
    }

    fn connection(&self, pending: &Pending, activation: &Activation) -> Connection {
        let setup = &pending.setup;
        let proven = pending.keys.is_some();
        Connection {
            index: setup.index,
            test: setup.test,
            version: setup.version,
            upstream: activation.upstream,
            table: self.settings.table(),
            last: LAST,
            parameters: self.settings.granted(&activation.parameters, proven),
            signed: proven,
        }
    }
}

impl Listener {
    /// True if clients at this address are answered: with a key each, else those behind the fence.
    fn admits(&mut self, cx: &mut Context<'_>, path: &Path) -> bool {
        let shared = &self.shared;
        let who = path.peer.ip();
        if !shared.answers.acl.admits(who) {
            return false;
        }
        if shared.keys.is_some() || shared.answers.streams.admits(who) {
            return true;
        }
        self.pending.warn_once(cx, who, |who| {
            format!(
                "{who} asked for a capacity test and gets none: a datagram proves no address, so without keys only this host and \
                 directly connected networks are served, unless NETCALIPER_ALLOW names the network"
            )
        });
        false
    }

    fn setup(
        &self,
        cx: &mut Context<'_>,
        path: &Path,
        bytes: &[u8],
        setup: &Setup,
        reply: &mut Transmit<'_>,
    ) {
        let shared = &self.shared;
        let Some((code, pending)) = shared.admit(cx, path, bytes, setup) else { return };
        if shared.answers.arrivals {
            let connection = Connection {
                index: setup.index,
                test: setup.test,
                version: setup.version,
                upstream: setup.upstream,
                table: shared.settings.table(),
                last: LAST,
                parameters: shared.settings.parameters(),
                signed: false,
            };
            let at = cx.clock.wall(cx.now);
            let request = News::SetupRequest {
                version: setup.version,
                bandwidth: setup.bandwidth,
                key: setup.seal.key,
            };
            pass(cx, connection.report(at, Some(*path), request));
            pass(cx, connection.report(at, Some(*path), News::SetupResponse { code }));
        }
        let answer = shared.response(cx, path, setup, code);
        if !reply.whole(&answer) && pending.is_some() {
            shared.admissions.forget(path.peer);
        }
    }

    fn activate(
        &self,
        cx: &mut Context<'_>,
        path: &Path,
        bytes: &[u8],
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let shared = &self.shared;
        let activation = Activation::decode(bytes)?;
        let pending = shared.admissions.pending(path.peer, cx.now)?;
        if activation.version != pending.setup.version || activation.code != activation_code::NONE {
            return None;
        }
        let now_s = seconds(cx.clock.wall(cx.now));
        if let Some(keys) = &pending.keys {
            Activation::SEAL.verify(bytes, &keys.client, now_s).ok()?;
        }
        let connection = shared.connection(&pending, &activation);
        // A limited number of tests is one of tests: their further connections enter with the first.
        let goes_on = shared.admissions.goes_on(path.peer, &pending.setup);
        let place = match shared.admissions.admit(path.peer, &pending, activation.upstream) {
            Admitted::Place(place) if goes_on || shared.limit.enter() => Some(place),
            Admitted::Place(place) => {
                // A test that was not begun has not ended.
                drop(place);
                shared.admissions.take_ended();
                None
            }
            Admitted::Refused => None,
        };
        let code = if place.is_some() { activation_code::ACCEPTED } else { activation_code::REFUSED };
        let is_sent_row = connection.upstream && place.is_some();
        let first = connection.first_row();
        let answer = Activation {
            code,
            parameters: connection.parameters,
            row: if is_sent_row { first } else { Row::default() },
            seal: crate::codec::Seal { key: pending.setup.seal.key, ..Default::default() },
            ..activation
        };
        let mut answered = answer.encode();
        if let Some(keys) = &pending.keys {
            Activation::SEAL.sign(&mut answered, &keys.server, u32::clamped(now_s));
        }
        let length = Activation::length(activation.version);
        if !reply.whole(answered.get(..length).unwrap_or_default()) {
            return None;
        }
        if shared.answers.arrivals {
            let at = cx.clock.wall(cx.now);
            pass(cx, connection.report(at, Some(*path), News::ActivationRequest));
            let report = Activated::new(code, connection.upstream, &connection.parameters);
            pass(cx, connection.report(at, Some(*path), News::ActivationResponse(Box::new(report))));
        }
        let place = place?;
        // The first datagrams leave after the answer.
        let due = cx.now.plus(cx.rng.between(5_000_000, 50_000_000));
        let received = if connection.upstream { 0 } else { crate::codec::SETUP + length };
        let proof = pending.keys.is_none().then(|| Proof::new(received, due));
        let reports = Reports::default().passed(pass);
        Some(Box::new(TestFlow::server(GROUP, connection, proof, reports).placed(place)))
    }
}

impl Acceptor for Listener {
    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let path = got.from?;
        // A batch is of one sender; PDUs behind its first are dropped.
        let bytes = got.datagrams().next()?;
        let setup = Setup::decode(bytes).filter(|setup| !setup.answer);
        if setup.is_none() && Activation::decode(bytes).is_none() {
            return None;
        }
        if !self.admits(cx, &path) {
            return None;
        }
        match setup {
            Some(setup) => {
                self.setup(cx, &path, bytes, &setup, reply);
                None
            }
            None => self.activate(cx, &path, bytes, reply),
        }
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        // The flow gives its place back.
        drop(flow);
        for _ in 0..self.shared.admissions.take_ended() {
            self.shared.limit.leave(cx);
        }
    }
}
