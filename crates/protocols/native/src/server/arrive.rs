//! Visitors: how they arrive, prove themselves and speak.

use super::{
    LONGEST, MESSAGE_NS, MESSAGES, MOST_BEFORE_HELLO, MOST_BEFORE_PROPOSAL, STRANGERS, Server, Step, Visitor,
    WRONG_KEY_NS, WRONG_KEYS,
};
use crate::auth::{hex, host_mark, unhex};
use crate::message::{Frames, Message};
use crate::quota::{Lines, Rate, to_give_way};
use metrics::Wall;
use model::Level;
use transport::{Context, Link, Path};
use uuid::Uuid;

impl Visitor {
    /// Whether it has neither said hello nor, where that is asked, proved to know the key.
    fn is_stranger(&self) -> bool {
        matches!(self.step, Step::Greeting | Step::Proving)
    }
}

impl Server {
    pub(super) fn arrive(&mut self, cx: &Context<'_>, link: Link, path: Path) {
        // Links are numbered as they come, and so are the entries in order.
        let silent = self.visitors.iter().filter(|(_, v)| v.is_stranger());
        let silent: Vec<_> = silent.map(|(&link, v)| (link, v.path.peer.ip())).collect();
        if silent.len() >= STRANGERS
            && let Some(oldest) = to_give_way(silent)
        {
            self.crowded(cx.now, 1);
            self.refuse(cx, oldest, "too many clients are just arriving: try again");
        }
        let visitor = Visitor {
            path,
            frames: Frames::new(LONGEST),
            step: Step::Greeting,
            since: cx.now,
            heard: cx.now,
            nonce: self.secrets.draw(),
            their_nonce: [0; 16],
            run: Uuid::nil(),
            proposal: None,
            said: 0,
            messages: Rate::new(MESSAGES, MESSAGE_NS),
            standing: Wall(0),
            held: None,
        };
        self.visitors.insert(link, visitor);
        if self.ending.is_some() {
            self.refuse(cx, link, "the server is stopping");
        }
    }

    /// A client has introduced itself: from now on it counts among those of its address and of the server.
    fn introduced(&mut self, cx: &Context<'_>, link: Link) -> bool {
        let Some(address) = self.visitors.get(&link).map(|v| v.path.peer.ip().to_canonical()) else {
            return false;
        };
        let known = || self.visitors.iter().filter(|(l, v)| **l != link && !v.is_stranger());
        let same = known().filter(|(_, v)| v.path.peer.ip().to_canonical() == address).count();
        let limits = &self.plan.limits;
        let why = if same >= limits.per_address as usize {
            format!("{same} sessions from {address} are the limit of this server")
        } else if known().count() >= limits.sessions as usize {
            format!("{} sessions are the limit of this server", limits.sessions)
        } else {
            return true;
        };
        self.refuse(cx, link, &why);
        false
    }

    pub(super) fn bytes(&mut self, cx: &Context<'_>, link: Link, bytes: &[u8]) {
        let Some(visitor) = self.visitors.get_mut(&link) else { return };
        visitor.heard = cx.now;
        let most = match visitor.step {
            Step::Greeting | Step::Proving => Some(MOST_BEFORE_HELLO),
            Step::Idle => Some(MOST_BEFORE_PROPOSAL),
            _ => None,
        };
        visitor.said = visitor.said.saturating_add(most.map_or(0, |_| bytes.len()));
        if most.is_some_and(|most| visitor.said > most) {
            return self.refuse(cx, link, "too much was said before a proposal");
        }
        visitor.frames.push(bytes);
        while let Some(visitor) = self.visitors.get_mut(&link) {
            match visitor.frames.pop() {
                Ok(Some(_)) if !visitor.messages.admits(cx.now) => {
                    return self.refuse(cx, link, "too many messages in a short time");
                }
                Ok(Some(message)) => self.message(cx, link, message),
                Ok(None) => return,
                Err(error) => return self.refuse(cx, link, &error.to_string()),
            }
        }
    }

    pub(super) fn message(&mut self, cx: &Context<'_>, link: Link, message: Message) {
        let Some(step) = self.visitors.get(&link).map(|v| v.step) else { return };
        match (step, message) {
            (Step::Greeting, Message::Hello { nonce, .. }) => self.greet(cx, link, &nonce),
            (Step::Proving, Message::Proof { proof }) => self.prove(cx, link, &proof),
            (Step::Greeting, _) => self.refuse(cx, link, "the first message must be a hello"),
            (Step::Proving, _) => {
                self.refuse(
                    cx,
                    link,
                    "this server needs a pre-shared key: give it with --psk-file or NETCALIPER_PSK",
                );
            }
            (_, Message::Ping { n }) => self.say(link, &Message::Pong { n }),
            (Step::Idle, Message::Propose { run, phase }) => {
                if let Some(visitor) = self.visitors.get_mut(&link) {
                    visitor.run = run;
                    visitor.proposal = Some(phase);
                }
                self.consider(cx, link);
            }
            (Step::Granted, Message::Start) => self.begin(cx, link),
            (Step::Running, Message::Stop) => self.wind_up(cx, link),
            (_, Message::Shutdown { only }) => self.shut_down(cx, link, only.as_deref()),
            (_, Message::Bye) => self.close(cx, link),
            _ => {}
        }
    }

    pub(super) fn greet(&mut self, cx: &Context<'_>, link: Link, nonce: &str) {
        let Some(theirs) = unhex(nonce) else { return self.refuse(cx, link, "the hello has no valid nonce") };
        let key = self.plan.psk.is_some();
        let Some(visitor) = self.visitors.get_mut(&link) else { return };
        visitor.their_nonce = theirs;
        visitor.since = cx.now;
        if key {
            visitor.step = Step::Proving;
        } else if self.introduced(cx, link) {
            self.enter_idle(cx, link);
        } else {
            return;
        }
        let Some(visitor) = self.visitors.get(&link) else { return };
        let hello = Message::Hello {
            version: self.plan.version.clone(),
            capabilities: vec!["tcp".into(), "connect".into()],
            nonce: hex(&visitor.nonce),
            key,
            host: host_mark(&self.plan.clock_id, &theirs),
        };
        self.say(link, &hello);
    }

    pub(super) fn prove(&mut self, cx: &Context<'_>, link: Link, proof: &str) {
        let (Some(visitor), Some(psk)) = (self.visitors.get(&link), &self.plan.psk) else { return };
        if !psk.client_proves(proof, &visitor.their_nonce, &visitor.nonce) {
            return self.disprove(cx, link);
        }
        let proof = psk.server_proof(&visitor.their_nonce, &visitor.nonce);
        if self.introduced(cx, link) {
            self.enter_idle(cx, link);
            self.say(link, &Message::Proof { proof });
        }
    }

    /// A client does not know the key. Only so many of an address are told: whoever knows the key is let in all the same, so
    /// that guesses do not keep those out who share an address with the one who guesses.
    fn disprove(&mut self, cx: &Context<'_>, link: Link) {
        let Some(peer) = self.visitors.get(&link).map(|visitor| visitor.path.peer) else { return };
        let (answers, lines) =
            self.wrong_keys.of(peer.ip(), || (Rate::new(WRONG_KEYS, WRONG_KEY_NS), Lines::default()));
        let answered = answers.admits(cx.now);
        if let Some(line) = lines.text(cx.now, format!("{peer} does not know the pre-shared key")) {
            self.notice(Level::Warning, line);
        }
        if answered {
            self.refuse(cx, link, "wrong pre-shared key");
        } else {
            self.close(cx, link);
        }
    }

    fn enter_idle(&mut self, cx: &Context<'_>, link: Link) {
        if let Some(visitor) = self.visitors.get_mut(&link) {
            (visitor.step, visitor.since, visitor.said) = (Step::Idle, cx.now, 0);
        }
    }
}
