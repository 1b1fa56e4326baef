//! The server's side of new connections: identifies protocol and session, and hands the connection over.

use super::data::Data;
use super::grants::{Admission, Grant, Grants};
use super::mark::{Kind, Mark};
use super::ping::{Place, Reflector, answer};
use super::preamble::{Guess, PREAMBLE, Preamble, Purpose, guess, is_ours};
use super::udp::{Cookies, Posted};
use crate::quota::{LOOK, PendingPlace};
use common::Acl;
use metrics::{Ending, Mono, SECOND};
use model::Transport;
use std::sync::{Arc, PoisonError};
use transport::{
    Acceptor, Cause, Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent,
    Transmit, Violation, When,
};
use uuid::Uuid;

/// How long the first 80 bytes may take.
const PATIENCE: u64 = 5 * SECOND;
/// Wait for more bytes of an unknown protocol before guessing it, ns.
const GUESS_AFTER: u64 = SECOND;
/// How long one waits for the peer to hear our last word and hang up. Closing with unread bytes would abort the
/// connection, and our last word with it.
const LINGER: u64 = SECOND;

pub struct Listener {
    grants: Arc<Grants>,
    acl: Arc<Acl>,
    worker: u16,
    /// Of datagrams, if it has what cookies are made with.
    cookies: Option<Cookies>,
    /// The latest flow of datagrams, whose socket may not be to be had: its opening may then come again.
    latest: Option<Opened>,
}

/// A flow of datagrams that was opened: its identifier, its session, and the number of its opening.
type Opened = (Uuid, Arc<Grant>, u64);

impl Listener {
    /// The reception of worker `worker`.
    pub fn new(grants: Arc<Grants>, acl: Arc<Acl>, worker: u16) -> Self {
        Listener { grants, acl, worker, cookies: None, latest: None }
    }

    /// The same, opening flows of datagrams, too; `secret` makes their cookies, and is the same for all workers.
    #[must_use]
    pub fn with_datagrams(self, secret: [u8; 32]) -> Self {
        Listener { cookies: Some(Cookies::new(secret)), ..self }
    }
}

impl Listener {
    /// Handles an INIT for a session that returns datagrams: the answer is never larger, so that a forged address
    /// gains nothing.
    fn reflect(
        &mut self,
        preamble: &Preamble,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let peer = got.from?.peer;
        let grant = self.grants.find(preamble.session).filter(|_| self.acl.admits(peer.ip()))?;
        let pings = grant.pings.as_ref().filter(|pings| pings.ping.transport == Transport::Udp)?;
        if !grant.is_sealed(&preamble.sealed(), &preamble.seal) {
            return None;
        }
        let mut open = grant.pinging.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get(&preamble.id) {
            // Its socket is not there yet, and it has asked again.
            Some(known) if *known == peer => {
                reply.whole(&answer(preamble.id));
                return None;
            }
            Some(_) => return None,
            None => {}
        }
        let admission = grant.admission().filter(|_| grant.take(preamble.number))?;
        open.insert(preamble.id, peer);
        drop(open);
        reply.whole(&answer(preamble.id));
        self.latest = Some((preamble.id, Arc::clone(&grant), preamble.number));
        let place = Place { open: Arc::clone(&grant.pinging), id: preamble.id, _admission: admission };
        let to = grant.worker(preamble.slot);
        let flow = Reflector::new(Arc::clone(pings), preamble, place);
        Some(Box::new(flow.leaving(Some(to).filter(|&to| to != self.worker))))
    }
}

impl Acceptor for Listener {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        // A denied address takes no place, and nothing is spent on it.
        if !self.acl.admits(path.peer.ip()) {
            return None;
        }
        let (place, told) = self.grants.pending.enter(path.peer.ip(), cx.now);
        if let Some(gave_way) = told {
            cx.post(gave_way);
        }
        Some(Box::new(Handshake {
            grants: Arc::clone(&self.grants),
            path: *path,
            worker: self.worker,
            state: State::Waiting {
                place,
                bytes: [0; PREAMBLE],
                len: 0,
                since: cx.now,
                look: cx.now.plus(LOOK),
                first: None,
            },
        }))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        if let Some(preamble) = got.bytes.try_into().ok().and_then(Preamble::decode)
            && preamble.purpose == Purpose::Data
        {
            return self.reflect(&preamble, got, reply);
        }
        let Some(answer) = super::answer_hello(got.bytes) else {
            let opened =
                self.cookies.as_ref()?.on_opening(&self.grants, &self.acl, cx, got, reply, self.worker);
            let (flow, grant, number) = opened?;
            self.latest = Some((flow.id().id, grant, number));
            return Some(flow);
        };
        reply.whole(&answer);
        None
    }

    fn on_closed(&mut self, _: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let never_up = how.is_err() && flow.id().row.is_none();
        if let Some((_, grant, number)) = self.latest.take_if(|(id, ..)| never_up && *id == flow.id().id) {
            grant.give_back(number);
        }
    }
}

/// A new connection: reads 80 bytes and becomes what they say.
pub struct Handshake {
    grants: Arc<Grants>,
    path: Path,
    worker: u16,
    state: State,
}

enum State {
    Waiting {
        place: PendingPlace,
        bytes: [u8; PREAMBLE],
        len: usize,
        since: Mono,
        /// When it is looked whether a newer connection has the place.
        look: Mono,
        first: Option<Mono>,
    },
    /// Sends this, then closes. Still counts as pending, so that refused connections are limited, too.
    Farewell {
        bytes: Vec<u8>,
        sent: usize,
        until: Mono,
        /// When it is looked whether a newer connection has the place.
        look: Mono,
        place: Option<PendingPlace>,
    },
    /// A newer connection has its place.
    Evicted,
    Control,
    /// Over to another worker, where it starts.
    Leaving {
        to: u16,
        preamble: Preamble,
        grant: Arc<Grant>,
        admission: Admission,
    },
    /// A data connection of a session.
    Data(Box<dyn Flow>),
    Gone,
}

impl Handshake {
    fn farewell(&mut self, cx: &Context<'_>, bytes: Vec<u8>) {
        let place = match std::mem::replace(&mut self.state, State::Gone) {
            State::Waiting { place, .. } => Some(place),
            _ => None,
        };
        let (until, look) = (cx.now.plus(LINGER), cx.now.plus(LOOK));
        self.state = State::Farewell { bytes, sent: 0, until, look, place };
    }

    fn refuse(&mut self, cx: &Context<'_>, id: Uuid, reason: u64) {
        self.farewell(cx, Mark::new(Kind::Refused, reason).encode(id).to_vec());
    }

    /// All of the preamble is there.
    fn greet(&mut self, cx: &mut Context<'_>, bytes: &[u8; PREAMBLE]) -> Checked {
        if Preamble::version(bytes).is_some_and(|version| version != super::WIRE_VERSION) {
            self.farewell(cx, Preamble::new(Purpose::Answer).encode().to_vec());
            return Ok(());
        }
        let Some(preamble) = Preamble::decode(bytes) else {
            self.foreign(cx, bytes);
            return Ok(());
        };
        match preamble.purpose {
            Purpose::Control => {
                self.state = State::Control;
                Ok(())
            }
            Purpose::Data => self.admit(cx, &preamble),
            Purpose::Hello | Purpose::Answer => {
                Err(Violation::Malformed("a datagram's preamble on a stream"))
            }
        }
    }

    fn admit(&mut self, cx: &mut Context<'_>, preamble: &Preamble) -> Checked {
        let known = self.grants.find(preamble.session);
        let Some(grant) = known.filter(|grant| grant.is_sealed(&preamble.sealed(), &preamble.seal)) else {
            self.refuse(cx, preamble.id, 1);
            return Ok(());
        };
        let Some(admission) = grant.admission() else {
            self.refuse(cx, preamble.id, 2);
            return Ok(());
        };
        if preamble.transfer == 0 || preamble.transfer > grant.transfer {
            return Err(Violation::Malformed("a transfer that was not agreed on"));
        }
        if !grant.take(preamble.number) {
            self.refuse(cx, preamble.id, 4);
            return Ok(());
        }
        if !self.grants.spend() {
            self.refuse(cx, preamble.id, 3);
            return Ok(());
        }
        if grant.stays(preamble.slot, self.worker) {
            self.state = data(&grant, preamble, admission);
        } else {
            let to = grant.worker(preamble.slot);
            self.state = State::Leaving { to, preamble: *preamble, grant, admission };
        }
        Ok(())
    }

    /// Answers a peer of another protocol, in that protocol's own words where it has any.
    fn foreign(&mut self, cx: &mut Context<'_>, seen: &[u8]) {
        let guess = guess(seen, &self.grants.foreign.0);
        cx.post(Posted::ForeignPeer(self.path, guess));
        let text = "This is a netcaliper measurement server. Use: netcaliper tcp HOST\r\n";
        let words = match guess {
            Guess::Http => format!(
                "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            )
            .into_bytes(),
            Guess::Foreign(name) => {
                let known = self.grants.foreign.0.iter().find(|foreign| foreign.name == name);
                known.map_or(Vec::new(), |foreign| foreign.refusal.to_vec())
            }
            Guess::Tls => vec![0x15, 3, 3, 0, 2, 2, 40],
            _ => text.as_bytes().to_vec(),
        };
        self.farewell(cx, words);
    }

    /// Whether the bytes received suffice to recognise another protocol.
    fn recognises(&self, seen: &[u8]) -> bool {
        !matches!(guess(seen, &self.grants.foreign.0), Guess::Netcaliper | Guess::Unknown | Guess::Text)
            || seen.contains(&b'\n')
            || seen.len() >= 40
    }
}

impl Flow for Handshake {
    fn interest(&self) -> Interest {
        match &self.state {
            State::Waiting { len, since, first, look, .. } => {
                let patience = since.plus(PATIENCE).min(*look);
                let wake = first.map_or(patience, |first| first.plus(GUESS_AFTER).min(patience));
                Interest { read: Read::look(PREAMBLE - len), wake: Some(wake), ..Interest::NONE }
            }
            State::Farewell { bytes, sent, until, look, .. } if *sent < bytes.len() => {
                Interest { send: When::Now, wake: Some(*until.min(look)), ..Interest::NONE }
            }
            State::Farewell { until, look, .. } => {
                let wake = Some(*until.min(look));
                Interest { read: Read::skip(1 << 16), wake, end: Some(End::Half), ..Interest::NONE }
            }
            State::Evicted => Interest::of(End::Done { how: Ending::ProtocolError, reset: true }),
            State::Gone => Interest::done(Ending::ProtocolError),
            State::Control => Interest::of(End::Detach),
            State::Leaving { to, .. } => Interest::of(End::Migrate(*to)),
            State::Data(_) => Interest::of(End::Replace),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        if let State::Farewell { bytes, sent, .. } = &self.state {
            out.copy(&bytes[*sent..]);
        }
    }

    fn on_sent(&mut self, _: &mut Context<'_>, n: Sent) {
        if let State::Farewell { sent, .. } = &mut self.state {
            *sent += n.bytes;
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        match &mut self.state {
            State::Waiting { bytes, len, first, .. } => {
                let n = got.bytes.len().min(PREAMBLE - *len);
                bytes[*len..*len + n].copy_from_slice(&got.bytes[..n]);
                *len += n;
                let (bytes, len) = (*bytes, *len);
                let ours = is_ours(&bytes[..len]);
                if !ours {
                    first.get_or_insert(cx.now);
                }
                if len == PREAMBLE {
                    return self.greet(cx, &bytes);
                }
                if !ours && self.recognises(&bytes[..len]) {
                    self.foreign(cx, &bytes[..len]);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match (&mut self.state, event) {
            (State::Leaving { preamble, grant, .. }, FlowEvent::Up(_)) => {
                let (preamble, grant) = (*preamble, Arc::clone(grant));
                if grant.revoked() {
                    // The session ended on the way here, and its group's number may be another's by now.
                    self.refuse(cx, preamble.id, 1);
                } else if let State::Leaving { admission, .. } =
                    std::mem::replace(&mut self.state, State::Gone)
                {
                    self.state = data(&grant, &preamble, admission);
                }
                Ok(())
            }
            (State::Waiting { place, .. } | State::Farewell { place: Some(place), .. }, FlowEvent::Wake)
                if place.evicted() =>
            {
                self.state = State::Evicted;
                Ok(())
            }
            (State::Waiting { bytes, len, since, first, look, .. }, FlowEvent::Wake) => {
                if *look <= cx.now {
                    *look = cx.now.plus(LOOK);
                }
                let (bytes, len) = (*bytes, *len);
                let late = cx.now.since(*since) >= PATIENCE;
                let known = first.is_some_and(|first| cx.now.since(first) >= GUESS_AFTER);
                if len == 0 && late {
                    return Err(Violation::Malformed("connected and said nothing"));
                }
                if is_ours(&bytes[..len]) && late {
                    return Err(Violation::Malformed("the first 80 bytes took too long"));
                }
                if late || known {
                    self.foreign(cx, &bytes[..len]);
                }
                Ok(())
            }
            (State::Waiting { bytes, len, .. }, FlowEvent::Fin) if *len > 0 => {
                let (bytes, len) = (*bytes, *len);
                if is_ours(&bytes[..len]) {
                    return Err(Violation::Malformed("hung up in the middle of its first 80 bytes"));
                }
                self.foreign(cx, &bytes[..len]);
                Ok(())
            }
            (State::Farewell { until, look, .. }, FlowEvent::Wake) if cx.now < *until => {
                *look = cx.now.plus(LOOK);
                Ok(())
            }
            (State::Waiting { .. }, FlowEvent::Fin)
            | (State::Farewell { .. }, FlowEvent::Fin | FlowEvent::Broken(_) | FlowEvent::Wake) => {
                self.state = State::Gone;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Data(flow) => Some(flow),
            _ => None,
        }
    }

    fn id(&self) -> FlowId {
        FlowId::default()
    }
}

/// The server's end of a data connection; its admission is given back when it goes.
fn data(grant: &Grant, preamble: &Preamble, admission: Admission) -> State {
    State::Data(match &grant.pings {
        Some(pings) => Box::new(Reflector::new(Arc::clone(pings), preamble, admission)),
        None => Box::new(Data::server(Arc::clone(&grant.params), preamble).seated(admission)),
    })
}
