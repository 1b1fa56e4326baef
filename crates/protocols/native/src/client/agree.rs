//! Agreement with a server: hello, proof, round trip, proposal; and its later messages.

use super::reach::BLOCKED;
use super::{AHEAD, CONNECTION_REFUSED, Client, GRACE, Granted, PINGS, Stage, Step};
use crate::auth::{hex, host_mark, unhex};
use crate::message::{Message, MessageError, PROCESS_PORTS, RESUMES, SLOWER_MESSAGES, encode};
use crate::opening::{Opener, OpeningKey};
use crate::preamble::{Guess, Preamble, Purpose, guess, is_ours};
use crate::secure::{PAIRS, Proof, SHARED, Shake, prologue};
use crate::spread::MOST_PROCESS_PORTS;
use crate::udp::ROUND_TRIPS;
use crate::{SameHost, WIRE_VERSION, foreign};
use common::Peer;
use common::config::StopServers;
use common::keys::public_text;
use common::protocol::Foreigners;
use metrics::{ClockKind, Ending, Mono};
use model::{Level, Phase, Ping, Schedule, SessionInfo, Status};
use std::net::Ipv6Addr;
use transport::{Action, Context, End, Fault, Link};

/// Result of handling a server's message; the error is the reason to give the server up.
type Agreed = Result<(), String>;

/// The longest idle round trip that two ends on one host have without a path between them, ns. In
/// that time 1.5 Gbit/s fill 96 KiB of send buffer; a loaded host needs a fraction of it.
const WITHIN_HOST_NS: u64 = 500_000;
/// The longest time that is taken for them, ns.
const LONGEST_LEAD: u64 = 60 * metrics::SECOND;

impl Client {
    pub(super) fn up(&mut self, cx: &Context<'_>, link: Link, key: u32) {
        let Some(at) = self.by_key(key).filter(|&at| self.servers[at].step == Step::Connecting) else {
            // This attempt was given up before it succeeded.
            self.driver.ask(Action::Close(link, End::Done { how: Ending::NetworkError, reset: true }));
            return;
        };
        self.servers[at].link = Some(link);
        self.servers[at].heard = cx.now;
        let mut bytes = Preamble::new(Purpose::Control).encode().to_vec();
        let (first, step) = match self.shake(at) {
            Some(first) => (first, Step::Proving),
            None if self.plan.config.keys.is_empty() => (self.hello(at), Step::Greeting),
            None => return self.lose(at, "the key cannot be used", cx.now),
        };
        bytes.extend(encode(&first));
        self.enter(at, step, cx.now);
        self.driver.send(link, bytes);
    }

    fn hello(&self, at: usize) -> Message {
        Message::Hello {
            version: self.plan.config.version.clone(),
            capabilities: ["tcp", "connect", PROCESS_PORTS, SLOWER_MESSAGES, RESUMES]
                .map(Into::into)
                .to_vec(),
            nonce: hex(&self.servers[at].nonce),
            host: String::new(),
        }
    }

    /// The first message of a handshake, where there is a key.
    pub(super) fn shake(&mut self, at: usize) -> Option<Message> {
        let drawn = self.secrets.draw();
        let (protocol, key, proof) = match (&self.plan.config.keys.own, self.plan.config.keys.shared.first())
        {
            (Some(own), _) => (PAIRS, "", Proof::Own(&own.0)),
            (None, Some(shared)) => (SHARED, shared.name.as_str(), Proof::Shared(shared.key.handshake_key())),
            (None, None) => return None,
        };
        let mut shake = Shake::client(proof, &prologue(key), drawn)?;
        let data = shake.say()?;
        self.servers[at].shake = Some(shake);
        Some(Message::Noise { protocol: protocol.to_owned(), key: key.to_owned(), data })
    }

    /// The server has proved that it has a key, or not.
    fn shaken(&mut self, cx: &Context<'_>, at: usize, data: &str) -> Agreed {
        let Some(mut shake) = self.servers[at].shake.take() else { return Ok(()) };
        shake.read_message(data).ok_or(match self.plan.config.keys.own {
            None => "wrong pre-shared key: the server does not know it, or something else answers in its place",
            Some(_) => {
                "the server has not proved that it has its private key, or something else answers in its place"
            }
        })?;
        if let Some(key) = shake.peer() {
            if !self.is_known(at, &key) {
                return Err(format!(
                    "its public key is {}, not the one of --server-key: something else answers in its place, or it has a new key",
                    public_text(&key)
                ));
            }
            let data = shake.say().ok_or("the key cannot be used")?;
            self.say(at, &Message::Noise { protocol: String::new(), key: String::new(), data });
        }
        self.servers[at].handshake = shake.hash().to_vec();
        if shake.records().is_none_or(|records| self.servers[at].frames.secure(records).is_err()) {
            return Err(MessageError::Forged.to_string());
        }
        let hello = self.hello(at);
        self.say(at, &hello);
        self.enter(at, Step::Greeting, cx.now);
        Ok(())
    }

    /// True if the server may have this public key: the key's name is the server's, with or without
    /// the port, its address, or `*` for all servers.
    pub(super) fn is_known(&self, at: usize, key: &[u8; 32]) -> bool {
        let Peer { name, address, .. } = &self.servers[at].peer;
        let host = name.rsplit_once(':').map_or(name.as_str(), |(host, _)| host);
        let ip = address.ip().to_string();
        let names = [name, host, &ip, "*"];
        self.plan.config.keys.peers.iter().any(|peer| peer.key == *key && names.contains(&peer.name.as_str()))
    }

    pub(super) fn bytes(&mut self, cx: &Context<'_>, at: usize, bytes: &[u8]) {
        if let Err(why) = self.read(cx, at, bytes) {
            self.lose(at, &why, cx.now);
        }
    }

    fn read(&mut self, cx: &Context<'_>, at: usize, bytes: &[u8]) -> Agreed {
        self.count_own(0, bytes.len());
        let server = &mut self.servers[at];
        server.heard = cx.now;
        let first = matches!(server.step, Step::Greeting | Step::Proving) && !server.frames.is_secure();
        let unread = |error: MessageError| if first { NOT_OURS.to_owned() } else { error.to_string() };
        server.frames.push(bytes).map_err(unread)?;
        if first {
            check_first(server.frames.rest(), &foreign(&self.plan.config.options))?;
            if is_ours(server.frames.rest()) {
                // Not a message: the rest of a preamble has to arrive first.
                return Ok(());
            }
        }
        while self.servers[at].step != Step::Over
            && let Some(message) = self.servers[at].frames.pop().map_err(unread)?
        {
            self.count_own(1, 0);
            self.message(cx, at, message)?;
        }
        Ok(())
    }

    fn message(&mut self, cx: &Context<'_>, at: usize, message: Message) -> Agreed {
        match (self.servers[at].step, message) {
            (Step::Proving, Message::Noise { data, .. }) => return self.shaken(cx, at, &data),
            (Step::Proving, Message::Hello { .. }) => {
                let why = "a pre-shared key was given, but the server has none and cannot prove who it is";
                return Err(why.to_owned());
            }
            (Step::Greeting, Message::Hello { version, host, capabilities, .. }) => {
                self.servers[at].resumption.is_able = capabilities.iter().any(|name| name == RESUMES);
                let ours = host_mark(&self.plan.clock_id, &self.servers[at].nonce);
                self.servers[at].same_host = !ours.is_empty() && host == ours;
                self.servers[at].version = version;
                self.ping(at, Step::Pinging, cx.now);
            }
            (Step::Pinging, Message::Pong { n }) if n == self.servers[at].ping.0 => self.ponged(cx, at),
            (Step::Unreached, Message::Pong { n }) if n == self.servers[at].ping.0 => {
                return Err(BLOCKED.to_owned());
            }
            (_, Message::Pong { n }) => self.note_pong(at, n, cx.now),
            (Step::Proposing | Step::Queued, Message::Queued { ahead, reason }) => {
                if self.servers[at].step == Step::Proposing {
                    let name = self.servers[at].peer.name.clone();
                    self.driver.notice(
                        Level::Info,
                        format!("{name}: waiting for {ahead} other session(s): {reason}"),
                    );
                }
                self.enter(at, Step::Queued, cx.now);
            }
            (Step::Proposing | Step::Queued, accepted @ Message::Accepted { .. }) => {
                return self.accepted(cx, at, accepted);
            }
            (_, Message::Refused { reason }) if self.stage != Stage::Agreeing => {
                return Err(format!("the server ended the session: {reason}"));
            }
            (_, Message::Refused { reason }) => return Err(format!("refused: {reason}")),
            (Step::Starting, Message::Started) => {
                self.enter(at, Step::Running, cx.now);
                self.advance(cx.now);
            }
            (
                Step::Running | Step::Collecting,
                Message::Interval { index, traffic, came_ns, packets, .. },
            ) if index < self.next.saturating_add(AHEAD) => {
                if let Some(packets) = &packets {
                    let start_ns = u64::from(index).saturating_mul(self.plan.phase.interval_ns);
                    self.silence.remote(index, start_ns, traffic.ns, came_ns, packets);
                }
                self.acknowledge(at);
                // A report may arrive after the line of its interval.
                let is_late = self.incomplete.iter().any(|interval| interval.index == index);
                if index >= self.next || is_late {
                    self.servers[at].reports.insert(index, (traffic, packets));
                    self.correct(index);
                    self.release(false, cx.now);
                }
            }
            (Step::Running | Step::Collecting, message @ Message::Trains { .. }) => {
                self.servers[at].log.add(message);
            }
            (
                step @ (Step::Running | Step::Collecting),
                message @ (Message::Flow(_) | Message::Samples { .. }),
            ) => {
                self.tracks.remote(message, self.plan.phase.connections, at);
                // Records may be long: each message of them renews the time for the result.
                self.enter(at, step, cx.now);
            }
            (Step::Collecting, Message::Result { totals }) => {
                // Nothing more is needed of it; it may hang up before we do.
                self.servers[at].totals = Some(totals);
                self.enter(at, Step::Over, cx.now);
                self.advance(cx.now);
            }
            (Step::Stopping, Message::Stopping { reason, .. }) if self.servers[at].stopping.is_none() => {
                self.servers[at].stopping = Some(Status::Interrupted);
                self.driver
                    .notice(Level::Info, format!("{} is stopping: {reason}", self.servers[at].peer.address));
            }
            (Step::Stopping, Message::Bye) => {
                self.enter(at, Step::Over, cx.now);
                if self.servers.iter().all(|s| s.step == Step::Over) {
                    self.finish(Status::Complete, None);
                }
            }
            (_, Message::Stopping { reason, .. }) if self.stage == Stage::Agreeing => {
                return Err(format!("it is stopping: {reason}"));
            }
            (_, Message::Stopping { reason, limited }) if self.servers[at].stopping.is_none() => {
                let name = &self.servers[at].peer.name;
                let (status, why) = match limited {
                    true => (Status::Partial, format!("{name}: {reason}")),
                    false => (Status::Interrupted, format!("{name} is stopping: {reason}")),
                };
                self.servers[at].stopping = Some(status);
                self.driver.notice(Level::Warning, &why);
                if status == Status::Interrupted || self.driver.status == Status::Complete {
                    self.driver.status = status;
                }
                self.driver.reason.get_or_insert(why);
                self.drain(cx.now.plus(self.longer_for_many(GRACE)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Pings a server, whose answer ends this step.
    pub(super) fn ping(&mut self, at: usize, step: Step, now: Mono) {
        self.enter(at, step, now);
        let n = self.servers[at].ping.0.saturating_add(1);
        self.servers[at].ping = (n, now);
        self.say(at, &Message::Ping { n });
    }

    fn ponged(&mut self, cx: &Context<'_>, at: usize) {
        let server = &mut self.servers[at];
        let rtt = cx.now.since(server.ping.1).max(1);
        server.base_rtt = if server.base_rtt == 0 { rtt } else { server.base_rtt.min(rtt) };
        if server.ping.0 < PINGS {
            return self.ping(at, Step::Pinging, cx.now);
        }
        if let Some(StopServers { only }) = self.plan.config.options.get().cloned() {
            self.say(at, &Message::Shutdown { only });
            return self.enter(at, Step::Stopping, cx.now);
        }
        self.enter(at, Step::Measured, cx.now);
        self.advance(cx.now);
    }

    /// Asks every server that is there for its share of the connections.
    pub(super) fn propose_all(&mut self, now: Mono) {
        let there = self.servers_in(|step| step != Step::Over);
        self.shares = there.len().max(1) as u32;
        self.suit_host(&there);
        if !self.settle_clock(&there, now) {
            return;
        }
        self.leave_time(&there);
        let phase = Box::new(self.proposal());
        for at in there {
            self.say(at, &Message::Propose { run: self.plan.config.run, phase: phase.clone() });
            self.enter(at, Step::Proposing, now);
        }
    }

    /// Chooses how clocks are compared, for phases that measure one-way delays. A server that
    /// cannot do as the user wants is left out; returns false then, because giving it up has
    /// already sent proposals to the others.
    fn settle_clock(&mut self, there: &[usize], now: Mono) -> bool {
        let elsewhere: Vec<usize> = there.iter().copied().filter(|&at| !self.servers[at].same_host).collect();
        let Some(probe) = &mut self.plan.phase.probe else { return true };
        let usual = if elsewhere.is_empty() { ClockKind::SameHost } else { ClockKind::InBand };
        if *probe.clock.get_or_insert(usual) != ClockKind::SameHost || elsewhere.is_empty() {
            return true;
        }
        for at in elsewhere {
            self.lose(at, "it is not on this host, so that the two have no clock in common (--clock)", now);
        }
        false
    }

    /// Takes the send buffer that suits one host, where every server is on this one and the user
    /// has not chosen. A path with delay is none within a host, even if both ends are (a lab's): it
    /// wants buffers that its delay is filled with.
    pub(super) fn suit_host(&mut self, there: &[usize]) {
        let Some(SameHost { sndbuf, rcvbuf }) = self.plan.same_host else { return };
        let within = |at: usize| self.servers[at].same_host && self.servers[at].base_rtt <= WITHIN_HOST_NS;
        if !there.iter().all(|&at| within(at)) {
            return;
        }
        let sockets = &mut self.plan.phase.sockets;
        (sockets.sndbuf, sockets.rcvbuf) = (Some(sndbuf), sockets.rcvbuf.or(rcvbuf));
        let (sndbuf, why) =
            (sndbuf / 1024, "keep the data in the caches (--sndbuf system leaves them to the system)");
        let text = match rcvbuf.map(|bytes| bytes / 1024) {
            None => format!("both ends are on one host: send buffers of {sndbuf} KiB {why}"),
            Some(rcvbuf) => format!(
                "both ends are on one host: send buffers of {sndbuf} KiB and receive buffers of {rcvbuf} KiB fit the \
                 system's memory for TCP (net.ipv4.tcp_mem) {} times (--sndbuf and --rcvbuf choose others)",
                self.plan.phase.connections
            ),
        };
        self.driver.notice(Level::Info, text);
    }

    /// Opening a connection, and comparing the clocks, takes some round trips, more than planned
    /// for on a long path.
    fn leave_time(&mut self, there: &[usize]) {
        let farthest = there.iter().map(|&at| self.servers[at].base_rtt).max().unwrap_or(0);
        let Phase { probe, ping, .. } = &mut self.plan.phase;
        let leads = probe.iter_mut().map(|probe| &mut probe.lead_ns);
        for lead_ns in leads.chain(ping.iter_mut().map(|ping| &mut ping.lead_ns)) {
            *lead_ns = lead_ns.saturating_add(ROUND_TRIPS * farthest).min(LONGEST_LEAD);
        }
    }

    /// The proposal to each server: its share of the connections.
    pub(super) fn proposal(&self) -> Phase {
        let phase = self.plan.phase.clone();
        // The identifiers of connections hold all that is drawn from the seed.
        Phase { connections: phase.connections.div_ceil(self.shares), draw_seed: None, ..phase }
    }

    fn accepted(&mut self, cx: &Context<'_>, at: usize, message: Message) -> Agreed {
        let Message::Accepted { accepted, secret, phase, host, workers, placement, process_ports } = message
        else {
            return Ok(());
        };
        let secret = unhex::<16>(&secret).ok_or("it accepted without a valid secret")?;
        phase.check().map_err(|why| format!("it accepted what cannot be: {why}"))?;
        if !is_reduction(&self.proposal(), &phase) {
            return Err("it accepted something else than what was proposed".to_owned());
        }
        let connections: u64 = process_ports.iter().map(|port| u64::from(port.connections)).sum();
        if !process_ports.is_empty()
            && (process_ports.len() > MOST_PROCESS_PORTS
                || connections != u64::from(phase.connections)
                || process_ports.iter().any(|port| port.port == 0 || port.connections == 0))
        {
            return Err("its ports for connections are none".to_owned());
        }
        let server = &mut self.servers[at];
        let opener = Opener::new(accepted.session, OpeningKey::new(&secret, &server.handshake));
        let info = SessionInfo {
            target: server.peer.name.clone(),
            address: server.peer.address,
            version: server.version.clone(),
            accepted,
            host: *host,
            workers,
            placement,
            authenticated: !server.handshake.is_empty(),
            base_rtt_ns: server.base_rtt,
            udp_rtt_ns: None,
            same_host: server.same_host,
        };
        server.granted = Some(Granted { info, opener, phase: *phase, process_ports });
        self.enter(at, Step::Ready, cx.now);
        self.advance(cx.now);
        Ok(())
    }
}

/// The granted schedule of messages, unless it is faster than `asked` or of another kind: then
/// `asked`.
fn slower(asked: Schedule, granted: Schedule) -> Schedule {
    let same_kind = matches!(
        (asked, granted),
        (Schedule::Closed | Schedule::Fixed { .. }, Schedule::Fixed { .. })
            | (Schedule::Poisson { .. }, Schedule::Poisson { .. })
    );
    if same_kind && granted.gap_ns() >= asked.gap_ns() { granted } else { asked }
}

/// True if a server may grant `granted` when `asked` was proposed: the same, or less of it.
fn is_reduction(asked: &Phase, granted: &Phase) -> bool {
    let no_more = |asked: Option<u64>, granted: Option<u64>| match (asked, granted) {
        (Some(asked), Some(granted)) => granted <= asked,
        (asked, granted) => asked.is_none() || granted.is_some(),
    };
    let rest = Phase {
        connections: granted.connections,
        transfer: granted.transfer,
        duration_ns: granted.duration_ns,
        omit_ns: granted.omit_ns,
        rate: granted.rate,
        rate_high: granted.rate_high,
        burst: granted.burst,
        exclusive: granted.exclusive,
        // A server that has other sessions chooses.
        first_worker: granted.first_worker,
        ping: asked.ping.map(|ping| {
            let granted = granted.ping.unwrap_or(ping);
            Ping {
                busy: ping.busy && granted.busy,
                schedule: slower(ping.schedule, granted.schedule),
                ..ping
            }
        }),
        // Ours alone, and no integer, which text may change in the last digit.
        connect_rate: granted.connect_rate,
        ..asked.clone()
    };
    granted.connections <= asked.connections
        && granted.transfer <= asked.transfer
        && granted.omit_ns <= asked.omit_ns
        && no_more(asked.duration_ns, granted.duration_ns)
        && no_more(asked.rate, granted.rate)
        && no_more(asked.rate_high.or(asked.rate), granted.rate_high.or(granted.rate))
        && (granted.rate_high.is_none() || asked.rate_high.is_some())
        && (granted.burst == asked.burst || granted.burst.is_none())
        && (granted.exclusive || !asked.exclusive)
        && *granted == rest
}

/// Why a server cannot be reached, with what may help: `name` is as the user typed it.
pub(super) fn advised(name: &str, fault: &Fault) -> String {
    if let Some((address, port)) = name.rsplit_once(':').filter(|(address, port)| {
        let bare = |text: &str| text.parse::<Ipv6Addr>().is_ok();
        bare(name) && bare(address) && port.parse::<u16>().is_ok()
    }) {
        return format!("{fault}: did you mean [{address}]:{port}?");
    }
    match CONNECTION_REFUSED.contains(&fault.errno) {
        true => format!("{fault}: is `netcaliper serve` running there?"),
        false => fault.to_string(),
    }
}

/// Why a server is left out whose first bytes are no message.
const NOT_OURS: &str = "it answers, but it is not a netcaliper server";

/// Checks that the first bytes of a server can be the beginning of a message.
fn check_first(first: &[u8], foreign: &Foreigners) -> Agreed {
    Err(match guess(first, &foreign.0) {
        Guess::Netcaliper => match Preamble::version(first) {
            None => return Ok(()),
            Some(WIRE_VERSION) => "its first bytes are damaged, or ours were on their way to it".to_owned(),
            Some(version) => format!(
                "it speaks wire version {version}, this program speaks {WIRE_VERSION}: use the same release on both ends"
            ),
        },
        // A length below 1 MiB starts with a zero byte.
        Guess::Unknown if first.first() == Some(&0) => return Ok(()),
        Guess::Unknown => NOT_OURS.to_owned(),
        other => format!("it is not a netcaliper server: it answers in {}", other.name()),
    })
}
