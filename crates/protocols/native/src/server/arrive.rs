//! New control connections: hello, proof of a key, and messages.

use super::{
    Answered, ClientState, HANDSHAKE_NS, HANDSHAKES, Holder, LINGER, LONGEST, MESSAGE_NS, MESSAGES,
    MOST_BEFORE_HELLO, MOST_BEFORE_PROPOSAL, MOST_SILENT, Server, Step,
};
use crate::auth::{hex, host_mark, unhex};
use crate::message::{Frames, Message, MessageError, PROCESS_PORTS, RESUMES, SLOWER_MESSAGES};
use crate::quota::{Lines, Rate, to_give_way};
use crate::secure::{PAIRS, Proof, SHARED, Shake, prologue};
use metrics::{Clamped, Wall};
use model::Level;
use transport::{Context, Link, Path};
use uuid::Uuid;

impl ClientState {
    /// True before the client's hello and, where the server has keys, its proof of one.
    fn is_stranger(&self) -> bool {
        matches!(self.step, Step::Greeting | Step::Proving)
    }
}

impl Server {
    pub(super) fn arrive(&mut self, cx: &Context<'_>, link: Link, path: Path) {
        // Links are numbered in the order of arrival, which is that of the map's entries.
        let silent = self.clients.iter().filter(|(_, v)| v.is_stranger());
        let silent: Vec<_> = silent.map(|(&link, v)| (link, v.path.peer.ip())).collect();
        if silent.len() >= MOST_SILENT
            && let Some(oldest) = to_give_way(silent)
        {
            self.driver.crowded(cx.now, 1);
            self.refuse(cx, oldest, "too many clients are just arriving: try again");
        }
        let client = ClientState {
            path,
            frames: Frames::new(LONGEST),
            step: Step::Greeting,
            since: cx.now,
            heard: cx.now,
            shake: None,
            handshake: Vec::new(),
            takes_process_ports: false,
            slows_messages: false,
            holder: None,
            run: Uuid::nil(),
            proposal: None,
            said: 0,
            messages: Rate::new(MESSAGES, MESSAGE_NS),
            standing: Wall(0),
            held: None,
            reports: super::Reports::default(),
            linger_ns: LINGER,
            resumes: false,
            resumable: None,
        };
        self.clients.insert(link, client);
        if self.ending.is_some() {
            self.refuse(cx, link, "the server is stopping");
        }
    }

    /// Counts a client against the limits per address and of the server, from its hello and proof
    /// on.
    fn introduced(&self, link: Link) -> Answered {
        let Some(address) = self.clients.get(&link).map(|v| v.path.peer.ip().to_canonical()) else {
            return Ok(());
        };
        let known = || self.clients.iter().filter(|(l, v)| **l != link && !v.is_stranger());
        let same = known().filter(|(_, v)| v.path.peer.ip().to_canonical() == address).count();
        let limits = &self.plan.config.limits;
        if same >= usize::clamped(limits.per_address) {
            return Err(format!("{same} sessions from {address} are the limit of this server"));
        }
        match known().count() >= usize::clamped(limits.sessions) {
            true => Err(format!("{} sessions are the limit of this server", limits.sessions)),
            false => Ok(()),
        }
    }

    pub(super) fn bytes(&mut self, cx: &Context<'_>, link: Link, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(&link) else { return };
        client.heard = cx.now;
        let most = match client.step {
            Step::Greeting | Step::Proving => Some(MOST_BEFORE_HELLO),
            Step::Idle => Some(MOST_BEFORE_PROPOSAL),
            _ => None,
        };
        client.said = client.said.saturating_add(most.map_or(0, |_| bytes.len()));
        if most.is_some_and(|most| client.said > most) {
            return self.refuse(cx, link, "too much was said before a proposal");
        }
        if let Err(error) = client.frames.push(bytes) {
            return self.misspoke(cx, link, &error);
        }
        while let Some(client) = self.clients.get_mut(&link) {
            let answered = match client.frames.pop() {
                Ok(Some(_)) if !client.messages.admits(cx.now) => {
                    Err("too many messages in a short time".to_owned())
                }
                Ok(Some(message)) => self.message(cx, link, message),
                Ok(None) => return,
                Err(error) => return self.misspoke(cx, link, &error),
            };
            if let Err(why) = answered {
                self.refuse(cx, link, &why);
            }
        }
    }

    fn message(&mut self, cx: &Context<'_>, link: Link, message: Message) -> Answered {
        let Some(client) = self.clients.get_mut(&link) else { return Ok(()) };
        let keys = &self.plan.config.keys;
        match (client.step, message) {
            (Step::Greeting, Message::Noise { protocol, key, data }) => {
                return self.shake(cx, link, &protocol, &key, &data);
            }
            (Step::Greeting, Message::Hello { .. }) if !keys.is_empty() => {
                let why = match keys.shared.is_empty() {
                    true => "this server needs a key pair: give --key-file and --server-key",
                    false => "this server needs a pre-shared key: give it with --psk-file or NETCALIPER_PSK",
                };
                return Err(why.to_owned());
            }
            (Step::Proving, Message::Noise { data, .. }) => return self.shaken(cx, link, &data),
            (Step::Greeting | Step::Proving, Message::Hello { nonce, capabilities, .. }) => {
                let has = |name: &str| capabilities.iter().any(|capability| capability == name);
                client.takes_process_ports = has(PROCESS_PORTS);
                client.slows_messages = has(SLOWER_MESSAGES);
                client.resumes = has(RESUMES);
                return self.greet(cx, link, &nonce);
            }
            (Step::Greeting | Step::Proving, Message::Resume { session, number, seal }) => {
                return self.resume(cx, link, (session, number), &seal);
            }
            (Step::Greeting | Step::Proving, _) => return Err("the first message must be a hello".to_owned()),
            (_, Message::Ping { n }) => self.say(link, &Message::Pong { n }),
            (_, Message::Received { intervals }) => {
                client.reports.acknowledge(intervals);
                self.send_reports(cx.now, link, false);
            }
            (Step::Idle, Message::Propose { run, phase }) => {
                (client.run, client.proposal, client.resumable) = (run, Some(phase), None);
                return self.consider(cx, link);
            }
            (Step::Granted, Message::Start) => self.begin(cx, link),
            (_, Message::Abort { within_ns }) => client.linger_ns = within_ns.min(client.linger_ns),
            (Step::Running, Message::Stop) => self.wind_up(cx, link),
            (_, Message::Shutdown { only }) => return self.shut_down(cx, link, only.as_deref()),
            (_, Message::Bye) => self.close(cx, link),
            _ => {}
        }
        Ok(())
    }

    /// Handles bytes that are no message. A peer without proof of the key gets no explanation.
    fn misspoke(&mut self, cx: &Context<'_>, link: Link, error: &MessageError) {
        if *error == MessageError::Forged {
            if self.clients.get(&link).is_some_and(|client| client.step == Step::Proving) {
                self.unproved(cx, link);
            }
            return self.close(cx, link);
        }
        self.refuse(cx, link, &error.to_string());
    }

    fn greet(&mut self, cx: &Context<'_>, link: Link, nonce: &str) -> Answered {
        let theirs = unhex(nonce).ok_or("the hello has no valid nonce")?;
        self.introduced(link)?;
        self.enter_idle(cx, link);
        let hello = Message::Hello {
            version: self.plan.config.version.clone(),
            capabilities: vec!["tcp".into(), "connect".into(), RESUMES.into()],
            nonce: hex(&self.secrets.short()),
            host: host_mark(&self.plan.clock_id, &theirs),
        };
        self.say(link, &hello);
        Ok(())
    }

    /// A client begins to prove that it has a key. Unknown names of keys are answered, too, so that
    /// names cannot be tried.
    fn shake(&mut self, cx: &Context<'_>, link: Link, protocol: &str, name: &str, data: &str) -> Answered {
        let Some(peer) = self.clients.get(&link).map(|client| client.path.peer) else { return Ok(()) };
        if self.plan.config.keys.is_empty() {
            return Err("a key was given, but this server has none and cannot prove who it is".to_owned());
        }
        let (rate, _) = self.handshakes_of(peer.ip());
        if !rate.admits(cx.now) {
            return Err("too many clients of this address prove a key: try again".to_owned());
        }
        let (drawn, unknown) = (self.secrets.draw(), self.secrets.draw());
        let keys = &self.plan.config.keys;
        let (proof, holder) = match (protocol, &keys.own) {
            (SHARED, _) if keys.shared.is_empty() => {
                return Err("this server has no shared keys: give --key-file and --server-key".to_owned());
            }
            (SHARED, _) => match keys.named(name) {
                Some(key) => (Proof::Shared(key.key.handshake_key()), Some(Holder::of(key))),
                None => (Proof::Shared(&unknown), None),
            },
            (PAIRS, Some(own)) => (Proof::Own(&own.0), None),
            (PAIRS, None) => {
                return Err("this server has no key pair: give a shared key, with --psk-file".to_owned());
            }
            _ => return Err("this server knows no such handshake".to_owned()),
        };
        let shake = Shake::server(proof, &prologue(name), drawn);
        let answer = shake.and_then(|mut shake| {
            shake.read_message(data)?;
            let data = shake.say()?;
            Some((shake, data))
        });
        let (shake, data) = answer.ok_or("this is no beginning of a handshake")?;
        let none = String::new;
        self.say(link, &Message::Noise { protocol: none(), key: none(), data });
        let Some(client) = self.clients.get_mut(&link) else { return Ok(()) };
        (client.step, client.since, client.holder) = (Step::Proving, cx.now, holder);
        if shake.is_over() {
            self.secure(cx, link, shake);
        } else {
            client.shake = Some(shake);
        }
        Ok(())
    }

    /// The last message of a handshake with pairs of keys.
    fn shaken(&mut self, cx: &Context<'_>, link: Link, data: &str) -> Answered {
        let Some(mut shake) = self.clients.get_mut(&link).and_then(|v| v.shake.take()) else {
            self.close(cx, link);
            return Ok(());
        };
        let peer = shake.read_message(data).and_then(|()| shake.peer()).filter(|_| shake.is_over());
        let known = self.plan.config.keys.peers.iter().find(|named| Some(named.key) == peer);
        let holder = known.map(Holder::of);
        let is_known = holder.is_some();
        if !is_known {
            self.unproved(cx, link);
            if peer.is_none() {
                self.close(cx, link);
                return Ok(());
            }
        }
        if let Some(client) = self.clients.get_mut(&link) {
            client.holder = holder;
        }
        self.secure(cx, link, shake);
        let why = "this server does not know your public key: a line for it is missing in its --client-keys";
        if is_known { Ok(()) } else { Err(why.to_owned()) }
    }

    fn secure(&mut self, cx: &Context<'_>, link: Link, shake: Shake) {
        let Some(client) = self.clients.get_mut(&link) else { return };
        client.handshake = shake.hash().to_vec();
        if shake.records().is_none_or(|records| client.frames.secure(records).is_err()) {
            self.misspoke(cx, link, &MessageError::Forged);
        }
    }

    fn handshakes_of(&mut self, address: std::net::IpAddr) -> &mut (Rate, Lines) {
        self.handshakes.of(address, || (Rate::new(HANDSHAKES, HANDSHAKE_NS), Lines::default()))
    }

    /// A client has not proved to have a key of this server.
    pub(super) fn unproved(&mut self, cx: &Context<'_>, link: Link) {
        let Some(peer) = self.clients.get(&link).map(|client| client.path.peer) else { return };
        let (_, lines) = self.handshakes_of(peer.ip());
        if let Some(line) = lines.text(cx.now, format!("{peer} has not proved to know a key of this server"))
        {
            self.driver.notice(Level::Warning, line);
        }
    }

    /// A client has no session, and may propose one.
    pub(super) fn enter_idle(&mut self, cx: &Context<'_>, link: Link) {
        if let Some(client) = self.clients.get_mut(&link) {
            (client.step, client.since, client.said, client.held) = (Step::Idle, cx.now, 0, None);
        }
    }
}
