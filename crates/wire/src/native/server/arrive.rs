//! Visitors: how they arrive, prove themselves and speak.

use super::{LONGEST, STRANGERS, Server, Step, Visitor};
use crate::native::auth::{hex, host_mark, unhex};
use crate::native::message::{Frames, Message};
use metrics::Wall;
use model::Level;
use seam::{Cx, Link, Path};
use uuid::Uuid;

impl Server {
    pub(super) fn arrive(&mut self, cx: &Cx<'_>, link: Link, path: Path) {
        let address = path.peer.ip().to_canonical();
        let same = self.visitors.values().filter(|v| v.path.peer.ip().to_canonical() == address).count();
        let strangers =
            self.visitors.values().filter(|v| matches!(v.step, Step::Greeting | Step::Proving)).count();
        let visitor = Visitor {
            path,
            frames: Frames::new(LONGEST),
            step: Step::Greeting,
            since: cx.now,
            heard: cx.now,
            nonce: self.secrets.next(),
            their_nonce: [0; 16],
            run: Uuid::nil(),
            proposal: None,
            standing: Wall(0),
            held: None,
        };
        self.visitors.insert(link, visitor);
        if same >= self.plan.limits.per_address as usize {
            self.refuse(cx, link, &format!("{same} sessions from {address} are the limit of this server"));
        } else if strangers >= STRANGERS {
            self.refuse(cx, link, "too many clients are just arriving: try again");
        } else if self.visitors.len() > self.plan.limits.sessions as usize {
            self.refuse(
                cx,
                link,
                &format!("{} sessions are the limit of this server", self.plan.limits.sessions),
            );
        } else if self.ending.is_some() {
            self.refuse(cx, link, "the server is stopping");
        }
    }

    pub(super) fn bytes(&mut self, cx: &Cx<'_>, link: Link, bytes: &[u8]) {
        if let Some(visitor) = self.visitors.get_mut(&link) {
            visitor.heard = cx.now;
            visitor.frames.push(bytes);
        }
        while let Some(visitor) = self.visitors.get_mut(&link) {
            match visitor.frames.pop() {
                Ok(Some(message)) => self.message(cx, link, message),
                Ok(None) => return,
                Err(error) => return self.refuse(cx, link, &error.to_string()),
            }
        }
    }

    pub(super) fn message(&mut self, cx: &Cx<'_>, link: Link, message: Message) {
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

    pub(super) fn greet(&mut self, cx: &Cx<'_>, link: Link, nonce: &str) {
        let Some(theirs) = unhex(nonce) else { return self.refuse(cx, link, "the hello has no valid nonce") };
        let key = self.plan.psk.is_some();
        let Some(visitor) = self.visitors.get_mut(&link) else { return };
        visitor.their_nonce = theirs;
        visitor.step = if key { Step::Proving } else { Step::Idle };
        visitor.since = cx.now;
        let hello = Message::Hello {
            version: self.plan.version.clone(),
            capabilities: vec!["tcp".into(), "connect".into()],
            nonce: hex(&visitor.nonce),
            key,
            host: host_mark(&self.plan.clock_id, &theirs),
        };
        self.say(link, &hello);
    }

    pub(super) fn prove(&mut self, cx: &Cx<'_>, link: Link, proof: &str) {
        let (Some(visitor), Some(psk)) = (self.visitors.get_mut(&link), &self.plan.psk) else { return };
        if !psk.client_proves(proof, &visitor.their_nonce, &visitor.nonce) {
            let peer = visitor.path.peer;
            self.notice(Level::Warning, format!("{peer} does not know the pre-shared key"));
            return self.refuse(cx, link, "wrong pre-shared key");
        }
        visitor.step = Step::Idle;
        visitor.since = cx.now;
        let proof = psk.server_proof(&visitor.their_nonce, &visitor.nonce);
        self.say(link, &Message::Proof { proof });
    }
}
