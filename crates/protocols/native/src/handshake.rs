//! The server's side of new connections: identifies protocol and session, and hands the connection
//! over.

use super::capacity::Answering;
use super::data::Data;
use super::grants::{Grant, Grants, OpenFlow};
use super::mark::{Kind, Mark};
use super::ping::{Reflector, answer};
use super::preamble::{Guess, PREAMBLE, Preamble, Purpose, guess, is_ours};
use super::udp::{self, Posted, Probe, Word, cookie};
use common::Acl;
use metrics::{Clamped, Ending, Mono, SECOND};
use std::sync::Arc;
use transport::{
    Acceptor, Cause, Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent,
    Transmit, Violation, When,
};
use uuid::Uuid;

/// Limit for the first 80 bytes, ns.
const PATIENCE: u64 = 5 * SECOND;
/// Wait for more bytes of an unknown protocol before guessing it, ns.
const GUESS_AFTER: u64 = SECOND;
/// Limit for the peer to read the last bytes and close, ns. Closing a socket with unread bytes
/// would reset the connection and discard the last bytes.
const LINGER: u64 = SECOND;

pub struct Listener {
    grants: Arc<Grants>,
    acl: Arc<Acl>,
    worker: u16,
    /// Secret that cookies are made of, if flows of datagrams may be opened.
    secret: Option<[u8; 32]>,
    /// The latest flow of datagrams: if its socket cannot be opened, its opening may be repeated.
    latest: Option<Opened>,
}

/// A flow of datagrams that was opened: its identifier, its session, and the number of its opening.
type Opened = (Uuid, Arc<Grant>, u64);

impl Listener {
    /// The reception of worker `worker`.
    pub fn new(grants: Arc<Grants>, acl: Arc<Acl>, worker: u16) -> Self {
        Listener { grants, acl, worker, secret: None, latest: None }
    }

    /// The same, opening flows of datagrams, too; `secret` makes their cookies, and is the same for
    /// all workers.
    #[must_use]
    pub fn with_datagrams(self, secret: [u8; 32]) -> Self {
        Listener { secret: Some(secret), ..self }
    }
}

impl Listener {
    /// The worker on which a slot's flow belongs, unless it is this one.
    fn elsewhere(&self, grant: &Grant, slot: u32) -> Option<u16> {
        Some(grant.worker(slot)).filter(|&to| to != self.worker)
    }

    /// Handles an INIT or an OPEN: a peer gets a cookie, and, once it returns that, a flow.
    fn open(
        &mut self,
        cx: &Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let secret = self.secret.as_ref()?;
        let (path, word) = (got.from?, Word::decode(got.bytes)?);
        let grant = self.grants.find(word.session).filter(|_| self.acl.admits(path.peer.ip()))?;
        if grant.terms.is_none() && grant.capacity.is_none() {
            return None;
        }
        if !grant.key.holds(&word.sealed(), &word.seal) {
            return None;
        }
        let cookie = cookie(secret, &path, word.id);
        match word.kind {
            udp::Kind::Init => {
                let answer = Word { cookie, slot: word.slot, ..Word::new(udp::Kind::Cookie, word.id) };
                reply.whole(&answer.encode());
                None
            }
            // The comparison need not be constant-time: the cookie was sent to this address, and
            // no other address sees the answer.
            udp::Kind::Open if word.cookie == cookie => {
                let open = grant.flows();
                let full = open.len() >= usize::clamped(grant.limit);
                if full || open.contains_key(&word.id) || !grant.numbers().take(word.number) {
                    return None;
                }
                let place = OpenFlow::new(&grant, open, word.id, path.peer, None);
                let to = self.elsewhere(&grant, word.slot);
                let flow: Box<dyn Flow> = match (&grant.terms, &grant.capacity) {
                    (Some(terms), _) => {
                        Box::new(Probe::server(Arc::clone(terms), &word, cx.now, place).leaving(to))
                    }
                    (None, Some(terms)) => Box::new(Answering::new(terms, &word, place, to)),
                    (None, None) => return None,
                };
                self.latest = Some((word.id, Arc::clone(&grant), word.number));
                Some(flow)
            }
            _ => None,
        }
    }

    /// Handles an INIT for a session that returns datagrams: the answer is never larger, so that a
    /// forged address gains nothing.
    fn reflect(
        &mut self,
        preamble: &Preamble,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let peer = got.from?.peer;
        let grant = self.grants.find(preamble.session).filter(|_| self.acl.admits(peer.ip()))?;
        let pings = grant.pings.as_ref().filter(|pings| pings.datagrams())?;
        if !grant.key.holds(&preamble.sealed(), &preamble.seal) {
            return None;
        }
        let open = grant.flows();
        if let Some(known) = open.get(&preamble.id) {
            // The flow's own socket does not exist yet, and the client has repeated its preamble.
            if *known == peer {
                reply.whole(&answer(preamble.id));
            }
            return None;
        }
        let admission = grant.admission().filter(|_| grant.numbers().take(preamble.number))?;
        let place = OpenFlow::new(&grant, open, preamble.id, peer, Some(admission));
        reply.whole(&answer(preamble.id));
        let to = self.elsewhere(&grant, preamble.slot);
        let flow = Reflector::new(Arc::clone(pings), preamble, place).leaving(to);
        self.latest = Some((preamble.id, Arc::clone(&grant), preamble.number));
        Some(Box::new(flow))
    }
}

impl Acceptor for Listener {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        // A denied address takes no place, and nothing is spent on it.
        if !self.acl.admits(path.peer.ip()) {
            return None;
        }
        Some(Box::new(Handshake {
            grants: Arc::clone(&self.grants),
            path: *path,
            worker: self.worker,
            until: cx.now.plus(PATIENCE),
            state: State::Waiting { bytes: [0; PREAMBLE], len: 0, guess_at: None },
        }))
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        if let Some(preamble) = Preamble::decode(got.bytes)
            && preamble.purpose == Purpose::Data
        {
            return self.reflect(&preamble, got, reply);
        }
        let Some(answer) = super::answer_hello(got.bytes) else { return self.open(cx, got, reply) };
        reply.whole(&answer);
        None
    }

    fn on_closed(&mut self, _: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let never_up = how.is_err() && flow.id().row.is_none();
        if let Some((_, grant, number)) = self.latest.take_if(|(id, ..)| never_up && *id == flow.id().id) {
            grant.numbers().give_back(number);
        }
    }
}

/// A new connection: reads the 80 bytes of a preamble and becomes a flow of the kind that they
/// name.
pub struct Handshake {
    grants: Arc<Grants>,
    path: Path,
    worker: u16,
    /// Limit for the first bytes, or for the peer to close.
    until: Mono,
    state: State,
}

enum State {
    Waiting {
        bytes: [u8; PREAMBLE],
        len: usize,
        /// Time of the guess at another protocol, once its bytes have arrived.
        guess_at: Option<Mono>,
    },
    /// Sends this, then closes. Not introduced, so that refused connections are limited, too.
    Farewell { bytes: Vec<u8>, sent: usize },
    /// Over to another worker, where this data connection starts.
    Leaving { to: u16, id: Uuid, grant: Arc<Grant>, flow: Box<dyn Flow> },
    /// A data connection of a session.
    Data(Box<dyn Flow>),
    /// The socket ends so.
    Over(End),
}

/// End of a connection that is not of a session.
const GONE: End = End::Done { how: Ending::ProtocolError, reset: false };

impl Handshake {
    /// Sends these bytes, and nothing more.
    fn farewell(&mut self, cx: &Context<'_>, bytes: Vec<u8>) -> Checked {
        self.until = cx.now.plus(LINGER);
        self.state = State::Farewell { bytes, sent: 0 };
        Ok(())
    }

    fn refuse(&mut self, cx: &Context<'_>, id: Uuid, reason: u64) -> Checked {
        self.farewell(cx, Mark::new(Kind::Refused, reason).encode(id).to_vec())
    }

    /// All of the preamble is there.
    fn greet(&mut self, cx: &mut Context<'_>, bytes: &[u8; PREAMBLE]) -> Checked {
        if Preamble::version(bytes).is_some_and(|version| version != super::WIRE_VERSION) {
            return self.farewell(cx, Preamble::new(Purpose::Answer).encode().to_vec());
        }
        let Some(preamble) = Preamble::decode(bytes) else { return self.foreign(cx, bytes) };
        match preamble.purpose {
            Purpose::Control => {
                self.state = State::Over(End::Detach);
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
        let Some(grant) = known.filter(|grant| grant.key.holds(&preamble.sealed(), &preamble.seal)) else {
            return self.refuse(cx, preamble.id, 1);
        };
        let Some(admission) = grant.admission() else {
            return self.refuse(cx, preamble.id, 2);
        };
        let most = grant.params.transfer_high.unwrap_or(grant.params.transfer);
        if preamble.transfer == 0 || preamble.transfer > most {
            return Err(Violation::Malformed("a transfer that was not agreed on"));
        }
        if !grant.numbers().take(preamble.number) {
            return self.refuse(cx, preamble.id, 4);
        }
        if !self.grants.spend() {
            return self.refuse(cx, preamble.id, 3);
        }
        let flow: Box<dyn Flow> = match &grant.pings {
            Some(pings) => Box::new(Reflector::new(Arc::clone(pings), preamble, admission)),
            None => Box::new(Data::server(Arc::clone(&grant.params), preamble).seated(admission)),
        };
        self.state = match grant.stays(preamble.slot, self.worker) {
            true => State::Data(flow),
            false => State::Leaving { to: grant.worker(preamble.slot), id: preamble.id, grant, flow },
        };
        Ok(())
    }

    /// Answers a peer of another protocol, in that protocol's own words where it has any.
    fn foreign(&mut self, cx: &mut Context<'_>, seen: &[u8]) -> Checked {
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
        self.farewell(cx, words)
    }

    /// True if the received bytes suffice to recognise another protocol.
    fn recognises(&self, seen: &[u8]) -> bool {
        !matches!(guess(seen, &self.grants.foreign.0), Guess::Netcaliper | Guess::Unknown | Guess::Text)
            || seen.contains(&b'\n')
            || seen.len() >= 40
    }
}

impl Flow for Handshake {
    fn interest(&self) -> Interest {
        let wake = Some(self.until);
        match &self.state {
            State::Waiting { len, guess_at, .. } => {
                let wake = wake.into_iter().chain(*guess_at).min();
                Interest { read: Read::look(PREAMBLE - len), wake, ..Interest::NONE }
            }
            State::Farewell { bytes, sent } if *sent < bytes.len() => {
                Interest { send: When::Now, wake, ..Interest::NONE }
            }
            State::Farewell { .. } => {
                Interest { read: Read::skip(1 << 16), wake, end: Some(End::Half), ..Interest::NONE }
            }
            State::Over(end) => Interest::of(*end),
            State::Leaving { to, .. } => Interest::of(End::Migrate(*to)),
            State::Data(_) => Interest::of(End::Replace),
        }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        if let State::Farewell { bytes, sent } = &self.state {
            out.copy(&bytes[*sent..]);
        }
    }

    fn on_sent(&mut self, _: &mut Context<'_>, n: Sent) {
        if let State::Farewell { sent, .. } = &mut self.state {
            *sent += n.bytes;
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        let State::Waiting { bytes, len, guess_at } = &mut self.state else { return Ok(()) };
        let n = got.bytes.len().min(PREAMBLE - *len);
        bytes[*len..*len + n].copy_from_slice(&got.bytes[..n]);
        *len += n;
        let (bytes, len) = (*bytes, *len);
        let ours = is_ours(&bytes[..len]);
        if !ours {
            guess_at.get_or_insert(cx.now.plus(GUESS_AFTER));
        }
        if len == PREAMBLE {
            return self.greet(cx, &bytes);
        }
        if !ours && self.recognises(&bytes[..len]) {
            return self.foreign(cx, &bytes[..len]);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match (&mut self.state, event) {
            (State::Leaving { id, grant, .. }, FlowEvent::Up(_)) if grant.revoked() => {
                // The session ended on the way here, and its group's number may be another's by
                // now.
                let id = *id;
                self.refuse(cx, id, 1)
            }
            (State::Leaving { .. }, FlowEvent::Up(_)) => {
                if let State::Leaving { flow, .. } = std::mem::replace(&mut self.state, State::Over(GONE)) {
                    self.state = State::Data(flow);
                }
                Ok(())
            }
            (State::Waiting { bytes, len, guess_at }, FlowEvent::Wake) => {
                let (bytes, len) = (*bytes, *len);
                let late = self.until <= cx.now;
                let known = guess_at.is_some_and(|at| at <= cx.now);
                if len == 0 && late {
                    return Err(Violation::Malformed("connected and said nothing"));
                }
                if is_ours(&bytes[..len]) && late {
                    return Err(Violation::Malformed("the first 80 bytes took too long"));
                }
                if late || known { self.foreign(cx, &bytes[..len]) } else { Ok(()) }
            }
            (State::Waiting { bytes, len, .. }, FlowEvent::Fin) if *len > 0 => {
                let (bytes, len) = (*bytes, *len);
                if is_ours(&bytes[..len]) {
                    return Err(Violation::Malformed("hung up in the middle of its first 80 bytes"));
                }
                self.foreign(cx, &bytes[..len])
            }
            (State::Farewell { .. }, FlowEvent::Wake) if cx.now < self.until => Ok(()),
            (State::Waiting { .. }, FlowEvent::Fin)
            | (State::Farewell { .. }, FlowEvent::Fin | FlowEvent::Broken(_) | FlowEvent::Wake) => {
                self.state = State::Over(GONE);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn is_introduced(&self) -> Option<bool> {
        Some(!matches!(self.state, State::Waiting { .. } | State::Farewell { .. }))
    }

    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        match std::mem::replace(&mut self.state, State::Over(GONE)) {
            State::Data(flow) => Some(flow),
            _ => None,
        }
    }

    fn id(&self) -> FlowId {
        FlowId::default()
    }
}
