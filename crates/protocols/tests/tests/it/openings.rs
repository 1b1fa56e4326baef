//! Openings of a session's connections and flows: who may, how often, and what of an opening that
//! was read on the path.

use crate::admission::{Driver, arrive, hello, keyring, path, propose, shake, talk};
use crate::support::bench::inputs;
use crate::support::driven::Driven;
use crate::support::run::{server_with, small};
use model::{Kind, Phase, Ping, Probe, Transport};
use native::Server;
use native::udp::{CONTROL, Kind as WordKind, Word};
use native::{Mark, MarkKind, Message, Opener, OpeningKey, Preamble, Purpose};
use sim::START;
use std::collections::HashSet;
use transport::{Acceptor, Arena, Cause, Deed, End, Fault, Flow, LinkSource, Received, Rng, Transmit};
use uuid::Uuid;

/// A server with a session of one client, which has a key.
struct Served {
    server: Driver,
    session: u64,
    secret: [u8; 16],
    handshake: Vec<u8>,
    numbers: u64,
}

/// What became of an opening.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Open,
    Refused(u64),
    /// Not even an answer.
    Nothing,
}

impl Served {
    fn new(phase: Phase) -> Self {
        let plan = server_with(|config| config.keys = keyring(7));
        let mut server = Driven::new(Server::new(plan, START));
        let link = arrive(&mut server, 1, 1);
        let (mut frames, handshake) = shake(&mut server, link, 7).unwrap();
        talk(&mut server, link, &mut frames, &hello());
        let said = talk(&mut server, link, &mut frames, &propose(1, phase));
        let granted = said.into_iter().find_map(|message| match message {
            Message::Accepted { accepted, secret, .. } => Some((accepted.session, secret)),
            _ => None,
        });
        let (session, secret) = granted.unwrap();
        talk(&mut server, link, &mut frames, &Message::Start);
        Served { server, session, secret: common::auth::unhex(&secret).unwrap(), handshake, numbers: 0 }
    }

    /// The client's openings.
    fn opener(&self) -> Opener {
        Opener::new(self.session, OpeningKey::new(&self.secret, &self.handshake))
    }

    fn acceptor(&mut self) -> &mut dyn Acceptor {
        let Some(LinkSource::Acceptor(acceptor)) = self.server.sources.first_mut() else { panic!() };
        &mut **acceptor
    }

    /// A connection from the host with this address that begins with these bytes.
    fn connect(&mut self, from: u32, bytes: &[u8]) -> (Became, Box<dyn Flow>) {
        let mut side = sim::Side::new(1, sim::Quirks::default());
        let mut flow = self.acceptor().accept(&mut side.cx(START), &path(from, 9)).unwrap();
        let (mut none, mut room) = (Arena::new(0), Arena::new(64));
        let got = Received::stream(bytes, START);
        let violation = flow.on_received(&mut side.cx(START), &got, &mut Transmit::new(&mut none, 0));
        if violation.is_err() {
            return (Became::Nothing, flow);
        }
        if matches!(flow.interest().end, Some(End::Replace | End::Migrate(_))) {
            return (Became::Open, flow);
        }
        let mut said = Transmit::new(&mut room, 64);
        flow.prepare_send(&mut side.cx(START), &mut said);
        let said: Vec<u8> = said.slices().flatten().copied().collect();
        let id = Preamble::decode(bytes).map(|preamble| preamble.id);
        let mark = said.try_into().ok().and_then(|said| Mark::decode(&said, id?));
        match mark {
            Some(Mark { kind: MarkKind::Refused, value, .. }) => (Became::Refused(value), flow),
            _ => (Became::Nothing, flow),
        }
    }

    /// A datagram from the host with this address: the answer, and the flow that it opened.
    fn datagram(&mut self, from: u32, bytes: &[u8]) -> (Vec<u8>, Option<Box<dyn Flow>>) {
        let mut side = sim::Side::new(1, sim::Quirks::default());
        let mut room = Arena::new(bytes.len());
        let got = Received { from: Some(path(from, 9)), ..Received::stream(bytes, START) };
        let mut reply = Transmit::new(&mut room, bytes.len());
        let flow = self.acceptor().on_unsolicited(&mut side.cx(START), &got, &mut reply);
        let answer: Vec<u8> = reply.slices().flatten().copied().collect();
        (answer, flow)
    }

    /// What a client would say from there: its INIT, and its OPEN with the cookie that it gets.
    fn words(&mut self, opener: &Opener, from: u32) -> (Vec<u8>, Vec<u8>) {
        self.numbers += 1;
        let (id, number) = (Uuid::from_u128(self.numbers.into()), opener.number());
        let init = opener.word(number, Word::new(WordKind::Init, id)).encode();
        let (answer, flow) = self.datagram(from, &init);
        assert!(flow.is_none() && answer.len() == CONTROL);
        let cookie = Word::decode(&answer).unwrap().cookie;
        let open = opener.word(number, Word { cookie, ..Word::new(WordKind::Open, id) });
        (init.to_vec(), open.encode().to_vec())
    }
}

fn bulk() -> Phase {
    Phase { connections: 40_000, transfer: 1_000, ..small() }
}

fn delay() -> Phase {
    Phase { kind: Kind::Delay, connections: 1_000, probe: Some(Probe::default()), ..small() }
}

fn datagram_pings() -> Phase {
    let ping = Ping { transport: Transport::Udp, ..Ping::default() };
    Phase { kind: Kind::Ping, connections: 1_000, ping: Some(ping), ..small() }
}

/// So many tries of each kind of attack; `bench/deep` has 10,000.
fn tries() -> u64 {
    (inputs() / 40).clamp(1, 10_000).into()
}

/// All that is read on the path of a session with a key, and the secret itself without the
/// handshake: nothing of it opens anything.
#[test]
fn what_was_read_on_the_path_opens_no_connection() {
    let mut served = Served::new(bulk());
    let opener = served.opener();
    let guessed = Opener::new(served.session, OpeningKey::new(&served.secret, &[]));
    let other = Opener::new(served.session, OpeningKey::new(&[1; 16], &served.handshake));
    let mut rng = Rng::new(1);
    let read = opener.preamble(Uuid::from_u128(1), 0, 1_000);
    let read = Preamble::decode(&read).unwrap();
    for n in 0..8 * tries() {
        let id = rng.uuid();
        let fresh = Preamble { id, number: n, transfer: 1_000, session: served.session, ..read };
        let forged = match n % 8 {
            0 => guessed.preamble(id, 0, 1_000),
            1 => other.preamble(id, 0, 1_000),
            // A seal that was read, under another identifier, number, slot, transfer or session.
            2 => fresh.encode(),
            3 => Preamble { number: 1 + rng.next() % 1_000, ..read }.encode(),
            4 => Preamble { slot: 1, ..read }.encode(),
            5 => Preamble { transfer: 999, ..read }.encode(),
            6 => Preamble { session: served.session + 1 + n, ..read }.encode(),
            // A guess.
            _ => Preamble { seal: rng.uuid().into_bytes(), ..fresh }.encode(),
        };
        assert_eq!(served.connect(2 + n as u32 % 200, &forged).0, Became::Refused(1), "{n}");
        assert!(served.datagram(2, &forged).1.is_none(), "{n}");
    }
    assert_eq!(served.connect(1, &read.encode()).0, Became::Open, "nothing of this has used its number up");
}

#[test]
fn each_opening_opens_one_connection_in_whatever_order_they_come() {
    let mut served = Served::new(bulk());
    let opener = served.opener();
    let mut rng = Rng::new(2);
    let mut openings: Vec<_> = (0..tries()).map(|n| opener.preamble(rng.uuid(), n as u32, 1_000)).collect();
    for at in (1..openings.len()).rev() {
        openings.swap(at, rng.between(0, at as u64) as usize);
    }
    for (n, opening) in (0..).zip(&openings) {
        let (became, flow) = served.connect(1, opening);
        assert_eq!(became, Became::Open, "{n}");
        // While the connection is open and when it is not any more, from there and from elsewhere.
        let again = served.connect(1 + n % 2, opening).0;
        drop(flow);
        assert_eq!((again, served.connect(1 + n % 2, opening).0), (Became::Refused(4), Became::Refused(4)));
    }
    assert!(openings.iter().all(|opening| served.connect(2, opening).0 == Became::Refused(4)));
    let session = served.session;
    let without = Preamble { session, ..Preamble::new(Purpose::Data) }.encode();
    assert_eq!(served.connect(1, &without).0, Became::Refused(1));
}

#[test]
fn what_was_read_on_the_path_opens_no_flow_of_datagrams() {
    let mut served = Served::new(delay());
    let opener = served.opener();
    let guessed = Opener::new(served.session, OpeningKey::new(&served.secret, &[]));
    let mut rng = Rng::new(3);
    let mut ids = HashSet::new();
    for n in 0..4 * tries() {
        let (here, elsewhere) = (1, 2 + n as u32 % 200);
        let (init, open) = served.words(&opener, here);
        // Before the client's own: a cookie is all that a INIT gets, and one that belongs to where
        // it came from.
        let (answer, none) = served.datagram(elsewhere, &init);
        assert!(none.is_none() && answer.len() <= init.len());
        let stolen = Word::decode(&open).unwrap();
        let cookie = Word::decode(&answer).unwrap().cookie;
        let forged = match n % 4 {
            0 => stolen,
            1 => Word { cookie, ..stolen },
            2 => guessed.word(stolen.number, Word { cookie, ..stolen }),
            _ => Word { cookie, seal: rng.uuid().into_bytes(), ..stolen },
        };
        let (answer, none) = served.datagram(elsewhere, &forged.encode());
        assert!(none.is_none() && answer.is_empty(), "{n}: {forged:?}");
        let guess = guessed.word(n, Word::new(WordKind::Init, rng.uuid())).encode();
        assert!(served.datagram(elsewhere, &guess).0.is_empty(), "nobody else gets a cookie");
        let (_, flow) = served.datagram(here, &open);
        let flow = flow.unwrap_or_else(|| panic!("{n}: the client's own opens its flow"));
        assert!(ids.insert(flow.id().id));
        // Afterwards, while the flow is open and when it is not any more: its address may have been
        // forged.
        for from in [here, elsewhere] {
            assert!(served.datagram(from, &open).1.is_none(), "{n}");
        }
        drop(flow);
        for from in [here, elsewhere] {
            assert!(served.datagram(from, &open).1.is_none(), "{n}");
        }
    }
}

#[test]
fn a_flow_that_is_sent_back_is_opened_once_and_from_one_address() {
    let mut served = Served::new(datagram_pings());
    let opener = served.opener();
    let mut rng = Rng::new(4);
    for n in 0..tries() {
        let opening = opener.preamble(rng.uuid(), 0, 1);
        let (answer, flow) = served.datagram(1, &opening);
        assert!(answer.len() == opening.len() && flow.is_some(), "{n}");
        // Our answer was lost, or its socket is not there yet.
        let (answer, second) = served.datagram(1, &opening);
        assert!(answer.len() == opening.len() && second.is_none(), "{n}");
        let (answer, none) = served.datagram(2, &opening);
        assert!(answer.is_empty() && none.is_none(), "{n}: another address");
        drop(flow);
        let (answer, none) = served.datagram(1 + n as u32 % 2, &opening);
        assert!(answer.is_empty() && none.is_none(), "{n}: the flow has ended");
    }
}

#[test]
fn a_flow_that_gets_no_socket_may_be_opened_again() {
    for phase in [delay(), datagram_pings()] {
        let pings = phase.kind == Kind::Ping;
        let mut served = Served::new(phase);
        let opener = served.opener();
        let opening = match pings {
            true => opener.preamble(Uuid::from_u128(5), 0, 1).to_vec(),
            false => served.words(&opener, 1).1,
        };
        let mut flow = served.datagram(1, &opening).1;
        for _ in 0..3 {
            let mut side = sim::Side::new(1, sim::Quirks::default());
            let exhausted = Err(Cause::Fault(Fault { deed: Deed::Open, errno: 24 }));
            served.acceptor().on_closed(&mut side.cx(START), flow.take().unwrap(), &exhausted);
            flow = served.datagram(1, &opening).1;
        }
        drop(flow);
        assert!(served.datagram(1, &opening).1.is_none());
    }
}
