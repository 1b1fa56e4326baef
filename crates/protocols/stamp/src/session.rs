//! A reflector's socket for one sender: its sessions, each with numbers of its own.

use super::codec::{Mode, Request};
use super::open::SenderPlace;
use super::reflect::{Arrived, Made, Rules, Session, admit, check, reply};
use common::Patience;
use common::kernel::Core;
use metrics::{Ending, Group, Mono, Packets, SECOND};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use transport::{
    Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit, When,
};

/// Most sessions of one sender at once, by identifier; further ones are answered without memory, or
/// with a key not at all.
const MOST_SESSIONS: usize = 64;
/// Requests that wait for an answer of more octets than they have.
const MOST_WAITING: usize = 16;
/// Replies whose leaving is waited for.
const MOST_LEAVING: usize = 64;
/// The wait for a session's next request (REFWAIT of RFC 5357 §4.2): no sender says how seldom its
/// requests are.
const REFWAIT: Patience = Patience::of("no request", 900 * SECOND);
/// Requests of a sender without a key below which no more than [`Patience::LIMIT`] is waited for
/// the next one: its address is not proven, and its socket takes a descriptor.
const FEW: u32 = 4;
/// Longest datagram.
const LONGEST: u64 = 65_535;

/// The answering end of one sender's packets.
#[derive(Default)]
pub struct Reflector {
    rules: Arc<Rules>,
    core: Core,
    sessions: BTreeMap<u16, Session>,
    /// Requests that arrived before the socket was made, or that are shorter than their answers:
    /// the bytes, and all else.
    waiting: VecDeque<(Vec<u8>, Arrived<'static>)>,
    /// Replies that have left or will: tag, session, number.
    leaving: VecDeque<(u32, u16, u32)>,
    next_tag: u32,
    /// The reply that was offered last: session and number, if it has one.
    offered: Option<(u16, Option<Made>)>,
    used: Mono,
    requests: u32,
    stopped: bool,
    /// Requests shorter than an answer are answered all the same: the address is inside the fence.
    trusted: bool,
    place: Option<SenderPlace>,
}

impl Reflector {
    /// The answering end of a sender whose first request, `first`, is answered as soon as its
    /// socket is there. With `trusted` answers may be longer than requests.
    pub fn new(rules: Arc<Rules>, group: Group, trusted: bool, first: &Arrived<'_>) -> Self {
        let core = Core::new(group, 0, REFWAIT.ns());
        let mut reflector =
            Reflector { rules, core, trusted, used: first.at, requests: 1, ..Self::default() };
        reflector.queue(first);
        reflector
    }

    pub(super) fn at(self, place: SenderPlace) -> Self {
        Reflector { place: Some(place), ..self }
    }

    fn queue(&mut self, got: &Arrived<'_>) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((got.bytes.to_vec(), Arrived { bytes: &[], ..*got }));
        }
    }

    /// Offers the answer to a request that has been checked.
    fn answer(&mut self, cx: &mut Context<'_>, request: &Request, got: &Arrived<'_>, out: &mut Transmit<'_>) {
        let base = self.rules.mode().base();
        let size = if self.trusted { got.bytes.len().max(base) } else { got.bytes.len() };
        let is_known = self.sessions.contains_key(&request.ssid);
        if !is_known && self.sessions.len() >= MOST_SESSIONS {
            self.expire(cx.now);
        }
        let known = is_known || self.sessions.len() < MOST_SESSIONS;
        let mut session = known.then(|| self.sessions.entry(request.ssid).or_default());
        let counted = session.is_some();
        // Without a session a repeat would count as a new request.
        if !counted && self.rules.mode() == Mode::Sealed {
            return self.core.packets(cx, &Packets { refused: 1, ..Packets::default() });
        }
        if let Some(session) = &mut session
            && !admit(&self.rules, session, request, got.at)
        {
            return self.core.packets(cx, &Packets { duplicated: 1, ..Packets::default() });
        }
        if let Some(place) = &self.place {
            place.proven(got.bytes);
        }
        let own = out.own(size);
        let made = reply(&self.rules, session, (request, got), (cx.now, cx.clock), own);
        out.tos = Some(made.tos);
        if made.follow_up && counted {
            self.next_tag = self.next_tag.wrapping_add(1);
            out.tag = Some(self.next_tag);
            if self.leaving.len() == MOST_LEAVING {
                self.leaving.pop_front();
            }
            self.leaving.push_back((self.next_tag, request.ssid, made.number));
        }
        self.offered = Some((request.ssid, counted.then_some(made)));
    }

    /// The wait for the sender's next request.
    fn patience(&self) -> Patience {
        let is_unproven = self.rules.key.is_none() && self.requests < FEW;
        if is_unproven { REFWAIT.within(Patience::LIMIT) } else { REFWAIT }.since(self.used)
    }

    /// Forgets sessions that have not been used for long.
    fn expire(&mut self, now: Mono) {
        self.sessions.retain(|_, session| !REFWAIT.since(session.used).is_over(now));
    }
}

impl Flow for Reflector {
    fn interest(&self) -> Interest {
        let over = self.stopped.then_some(Ending::Stopped);
        Interest {
            send: if self.waiting.is_empty() { When::Never } else { When::Now },
            read: if self.stopped { Read::Pause } else { Read::look(LONGEST) },
            wake: Some(self.patience().until()),
            end: over.map(|how| End::Done { how, reset: false }),
        }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        while out.is_empty()
            && let Some((bytes, first)) = self.waiting.pop_front()
        {
            let got = Arrived { bytes: &bytes, ..first };
            if let Some(request) = check(&self.rules, got.bytes) {
                self.answer(cx, &request, &got, out);
            }
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        let offered = self.offered.take();
        if n.bytes > 0 {
            self.core.sent(cx, n.bytes);
            return self.core.packets(cx, &Packets { sent: 1, ..Packets::default() });
        }
        // The reply was not sent: its number stays free, and no stamp will follow.
        if let Some((ssid, Some(made))) = offered {
            if let Some(session) = self.sessions.get_mut(&ssid) {
                session.unsent(made.number);
            }
            if made.follow_up {
                self.leaving.pop_back();
            }
        }
        self.core.packets(cx, &Packets { refused: 1, ..Packets::default() });
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        self.core.received(cx, got.len);
        let arrived = Arrived::of(got);
        let Some(request) = check(&self.rules, arrived.bytes) else {
            self.core.packets(cx, &Packets { corrupt: 1, ..Packets::default() });
            return Ok(());
        };
        self.used = cx.now;
        self.requests = self.requests.saturating_add(1);
        self.core.packets(cx, &Packets { received: 1, ..Packets::default() });
        if self.trusted && arrived.bytes.len() < self.rules.mode().base() {
            self.queue(&arrived);
        } else {
            self.answer(cx, &request, &arrived, reply);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.core.up(cx, path);
                for (bytes, _) in &self.waiting {
                    self.core.received(cx, bytes.len());
                    self.core.packets(cx, &Packets { received: 1, ..Packets::default() });
                }
            }
            FlowEvent::Stamped { tag, stamp, .. } => {
                let found = self.leaving.iter().position(|(known, ..)| *known == tag);
                if let Some((_, ssid, number)) = found.and_then(|at| self.leaving.remove(at))
                    && let Some(session) = self.sessions.get_mut(&ssid)
                {
                    session.left(number, stamp.at);
                }
            }
            FlowEvent::Stop => self.stopped = true,
            FlowEvent::Wake => {
                self.expire(cx.now);
                // The sender is gone: that is how a session ends.
                self.stopped |= self.patience().is_over(cx.now);
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::Psk;
    use metrics::{Clock, Recorder};
    use std::ops::Range;
    use transport::{Arena, Path, Rng};

    /// How many requests are answered of those with which one sender begins these sessions at each
    /// of these instants, and how many are repeats and are refused over all.
    fn count_answers<const N: usize>(
        key: Option<Psk>,
        rounds: [(u64, Range<u16>); N],
    ) -> ([usize; N], [u64; 2]) {
        let rules = Arc::new(Rules { key, unconfirmed: false });
        let mode = rules.mode();
        let packet = |ssid: u16| {
            let mut bytes = vec![0; mode.base()];
            Request { number: 0, sent: 7, error: 1, ssid }.encode(mode, &mut bytes);
            if let Some(key) = &rules.key {
                let proof = key.seal(&[&bytes[..96]]);
                bytes[96..112].copy_from_slice(&proof);
            }
            bytes
        };
        let first = packet(0);
        let arrived = Arrived { bytes: &first, at: Mono(1), ttl: 64, tos: 0 };
        let mut flow = Reflector::new(Arc::clone(&rules), Group(1), false, &arrived);
        let (mut rec, mut rng, mut outbox, clock) =
            (Recorder::default(), Rng::new(1), Vec::new(), Clock::default());
        let mut arena = Arena::new(4096);
        let mut cx = Context::new(Mono(2), &clock, &mut rng, &mut rec, &mut outbox);
        let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 862).into() };
        flow.on_event(&mut cx, FlowEvent::Up(path)).unwrap();
        let answers = rounds.map(|(at, sessions)| {
            cx.now = Mono(at);
            let mut count = 0;
            for ssid in sessions {
                let bytes = packet(ssid);
                let mut reply = Transmit::new(&mut arena, bytes.len());
                let got = Received::stream(&bytes, cx.now);
                flow.on_received(&mut cx, &got, &mut reply).unwrap();
                let left = reply.len();
                count += usize::from(left > 0);
                if left > 0 {
                    flow.on_sent(&mut cx, Sent { bytes: left, fault: None });
                }
            }
            count
        });
        let counts = rec.packets_of(flow.id().row.unwrap());
        (answers, [counts.duplicated, counts.refused])
    }

    fn shared_secret() -> Option<Psk> {
        Some(Psk::new(b"a shared secret").unwrap())
    }

    #[test]
    fn with_a_key_nothing_is_answered_that_could_be_a_repeat() {
        assert_eq!(count_answers(None, [(2, 0..100), (2, 0..100)]), ([100, 100], [0, 0]));
        // 64 sessions are remembered; of the others a repeat could not be told.
        assert_eq!(count_answers(shared_secret(), [(2, 0..100), (2, 0..100)]), ([64, 0], [64, 72]));
    }

    #[test]
    fn sessions_that_are_over_make_room_for_others_although_their_sender_goes_on() {
        let rounds = [(2, 0..64), (600 * SECOND, 64..65), (901 * SECOND, 64..128), (902 * SECOND, 200..201)];
        assert_eq!(count_answers(shared_secret(), rounds), ([64, 0, 64, 0], [0, 2]));
    }

    #[test]
    fn a_sender_that_has_gone_gives_its_place_back() {
        let arrived = Arrived { bytes: &[0; 44], at: Mono(1), ttl: 64, tos: 0 };
        for (requests, patience, why) in [
            (FEW, 900 * SECOND, "900 s after its last packet (REFWAIT)"),
            (FEW - 1, Patience::LIMIT, "less for one that has sent little"),
        ] {
            let mut flow = Reflector::new(Arc::default(), Group(1), false, &arrived);
            flow.requests = requests;
            let (mut rec, mut rng, mut outbox, clock) =
                (Recorder::default(), Rng::new(1), Vec::new(), Clock::default());
            let mut ended_at = |now: u64| {
                let mut cx = Context::new(Mono(now), &clock, &mut rng, &mut rec, &mut outbox);
                flow.on_event(&mut cx, FlowEvent::Wake).unwrap();
                (flow.interest().wake, flow.interest().end.is_some())
            };
            assert_eq!(ended_at(patience), (Some(Mono(1 + patience)), false));
            assert!(ended_at(1 + patience).1, "{why}");
        }
    }
}
