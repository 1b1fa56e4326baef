//! Limits of a server on clients without a complete handshake, and on clients that send too much.

use crate::support::bench::handshakes;
use crate::support::driven::{self, Driven};
use crate::support::run::{server_plan, server_with, small};
use common::{Keyring, Limits, Psk};
use metrics::SECOND;
use model::{Event, HostSnapshot, Phase};
use native::secure::{Proof, SHARED, Shake, prologue};
use native::{Frames, MAX_MESSAGE, Message, Server, ServerPlan, encode};
use sim::START;
use transport::{Input, Link, Path};
use uuid::Uuid;

pub(crate) type Driver = Driven<Server>;

pub(crate) fn path(address: u32, port: u16) -> Path {
    Path { peer: ((0x0a01_0000 + address).to_be_bytes(), port).into(), ..Driver::path(0) }
}

pub(crate) fn arrive(server: &mut Driver, link: u64, address: u32) -> Link {
    server.feed(Input::Up(Link(link), path(address, link as u16), None));
    Link(link)
}

pub(crate) fn hello() -> Message {
    driven::hello("0f".repeat(16))
}

/// A client at the address `n` that has proposed `phase`.
fn proposed(server: &mut Driver, n: u32, phase: Phase) -> Link {
    let link = arrive(server, n.into(), n);
    server.say(link, &hello());
    server.say(link, &propose(n.into(), phase));
    link
}

pub(crate) fn propose(run: u128, phase: Phase) -> Message {
    Message::Propose { run: Uuid::from_u128(run), phase: Box::new(phase) }
}

fn refusal(server: &mut Driver, link: Link) -> Option<String> {
    server.messages(link).into_iter().find_map(|message| match message {
        Message::Refused { reason } => Some(reason),
        _ => None,
    })
}

fn lines(server: &Driver, word: &str) -> usize {
    let said = |event: &&Event| matches!(event, Event::Notice { text, .. } if text.contains(word));
    server.events.iter().filter(said).count()
}

#[test]
fn silent_clients_keep_nobody_out() {
    let mut server = Driven::new(Server::new(server_plan(), START));
    // One address holds much, a hundred hold a little.
    for n in 0..3_000 {
        arrive(&mut server, n, if n % 3 == 0 { 1 + n as u32 % 100 } else { 500 });
    }
    assert!(server.open.len() <= 1_024, "{}", server.open.len());
    for n in 0..200 {
        let link = arrive(&mut server, 10_000 + n, 900);
        server.say(link, &hello());
        let said = server.messages(link);
        assert!(matches!(said[..], [Message::Hello { .. }]), "client {n} behind one address: {said:?}");
    }
    // Those of the address that held most went first.
    let left = |of: &dyn Fn(u64) -> bool| server.open.iter().filter(|l| l.0 < 3_000 && of(l.0)).count();
    assert_eq!(left(&|n| n % 3 == 0), 1_000);
    assert!(left(&|n| n % 3 != 0) < 30);
    assert_eq!(lines(&server, "had to give way"), 1, "one line a minute");
}

#[test]
fn a_flood_of_messages_ends_the_link_that_sends_them() {
    for before_hello in [true, false] {
        let mut server = Driven::new(Server::new(server_plan(), START));
        let link = arrive(&mut server, 1, 1);
        if !before_hello {
            server.say(link, &hello());
        }
        for n in 0..1_000 {
            server.say(link, &Message::Ping { n });
        }
        assert!(server.closed.contains(&link));
        let pongs = server.messages(link).iter().filter(|m| matches!(m, Message::Pong { .. })).count();
        assert!(pongs <= 128, "{pongs}");
    }
    // One ping a second goes on for as long as it likes, in a session and behind it.
    let mut server = Driven::new(Server::new(server_plan(), START));
    let link = proposed(&mut server, 1, small());
    server.say(link, &Message::Start);
    for n in 0..10_000 {
        server.pass(SECOND);
        server.say(link, &Message::Ping { n });
    }
    assert!(server.open.contains(&link));
}

#[test]
fn what_comes_before_a_proposal_is_bounded() {
    let mut server = Driven::new(Server::new(server_plan(), START));
    let link = arrive(&mut server, 1, 1);
    server.say(link, &hello());
    // A message that never ends.
    server.feed(Input::Bytes(link, &65_536u32.to_be_bytes()));
    let mut sent = 0;
    while server.open.contains(&link) && sent < 1 << 20 {
        server.feed(Input::Bytes(link, &[b' '; 1_000]));
        sent += 1_000;
    }
    assert!((60_000..=66_000).contains(&sent), "{sent}");
    assert_eq!(refusal(&mut server, link).unwrap(), "too much was said before a proposal");
    // Less before the hello.
    let other = arrive(&mut server, 2, 1);
    server.feed(Input::Bytes(other, &60_000u32.to_be_bytes()));
    server.feed(Input::Bytes(other, &[b' '; 9_000]));
    assert_eq!(refusal(&mut server, other).unwrap(), "too much was said before a proposal", "no hello");
}

/// A key that was drawn: nothing has to be stretched.
pub(crate) fn drawn(byte: u8) -> Psk {
    Psk::new(format!("{}{}", common::auth::DRAWN, format!("{byte:02x}").repeat(32)).as_bytes()).unwrap()
}

pub(crate) fn keyring(byte: u8) -> Keyring {
    Keyring::of(Some(drawn(byte)))
}

/// A client's handshake with this key: what it says and hears from then on, and the handshake's
/// hash.
pub(crate) fn shake(server: &mut Driver, link: Link, key: u8) -> Option<(Frames, Vec<u8>)> {
    let mut shake = Shake::client(Proof::Shared(&[key; 32]), &prologue(""), [9; 32])?;
    let data = shake.say()?;
    server.say(link, &Message::Noise { protocol: SHARED.to_owned(), key: String::new(), data });
    let answer = server.messages(link).into_iter().find_map(|message| match message {
        Message::Noise { data, .. } => Some(data),
        _ => None,
    });
    shake.read_message(&answer?)?;
    let hash = shake.hash().to_vec();
    let mut frames = Frames::new(MAX_MESSAGE);
    frames.secure(shake.records()?).ok()?;
    Some((frames, hash))
}

/// Says something encrypted; what comes back, decrypted.
pub(crate) fn talk(server: &mut Driver, link: Link, frames: &mut Frames, message: &Message) -> Vec<Message> {
    let bytes = frames.encode(message);
    server.feed(Input::Bytes(link, &bytes));
    frames.push(&server.said.remove(&link).unwrap_or_default()).unwrap();
    std::iter::from_fn(|| frames.pop().unwrap()).collect()
}

#[test]
fn handshakes_of_an_address_are_bounded_and_other_addresses_are_served() {
    let mut server = Driven::new(Server::new(server_with(|config| config.keys = keyring(7)), START));
    let mut tried = |n: u64, address: u32, key: u8| {
        let link = arrive(&mut server, n, address);
        let shaken = shake(&mut server, link, key);
        server.feed(Input::Down(link, None));
        (shaken.is_some(), lines(&server, "has not proved to know a key"))
    };
    assert!(tried(1, 1, 7).0, "the right key");
    assert!(!tried(2, 1, 8).0, "a wrong one");
    assert_eq!((3..600).filter(|&n| tried(n, 1, 7).0).count(), 510);
    assert!(tried(2_000, 2, 7).0, "another address");
    assert_eq!(tried(2_001, 2, 8).1, 2, "one line for each address");
}

#[test]
fn with_a_key_nothing_is_said_in_clear() {
    let mut server = Driven::new(Server::new(server_with(|config| config.keys = keyring(7)), START));
    let stripped = arrive(&mut server, 1, 1);
    server.say(stripped, &hello());
    assert!(refusal(&mut server, stripped).unwrap().contains("needs a pre-shared key"));
    // A client that has shaken hands and goes on in clear is not heard.
    let link = arrive(&mut server, 2, 1);
    shake(&mut server, link, 7).unwrap();
    server.say(link, &hello());
    assert!(server.closed.contains(&link) && server.messages(link).is_empty());
}

/// Each bit of a captured conversation flipped, and the whole replayed: nothing of it is heard.
#[test]
fn what_was_changed_or_replayed_on_the_way_is_not_heard() {
    let tries = 2 * u64::from(handshakes());
    let mut rng = transport::Rng::new(3);
    let mut server = Driven::new(Server::new(server_with(|config| config.keys = keyring(7)), START));
    for n in 0..tries {
        server.pass(SECOND / 100);
        let link = arrive(&mut server, n, 1 + n as u32 % 200);
        let mut shaken = Shake::client(Proof::Shared(&[7; 32]), &prologue(""), [9; 32]).unwrap();
        let data = shaken.say().unwrap();
        let first = Message::Noise { protocol: SHARED.to_owned(), key: String::new(), data };
        server.say(link, &first);
        let Some(Message::Noise { data, .. }) = server.messages(link).pop() else { panic!("{n}") };
        shaken.read_message(&data).unwrap();
        let mut records = shaken.records().unwrap();
        let mut sealed = records.seal(&encode(&hello())).unwrap();
        if n % 2 == 0 {
            let at = rng.between(2, sealed.len() as u64 - 1) as usize;
            sealed[at] ^= 1 << rng.between(0, 7);
            server.feed(Input::Bytes(link, &sealed));
        } else {
            // The captured bytes of the client, to a server that draws another key of its own.
            let replay = arrive(&mut server, tries + n, 1 + n as u32 % 200);
            server.say(replay, &first);
            server.messages(replay);
            server.feed(Input::Bytes(replay, &sealed));
            assert!(server.closed.contains(&replay) && server.messages(replay).is_empty(), "{n}");
            server.feed(Input::Down(link, None));
            continue;
        }
        assert!(server.closed.contains(&link) && server.messages(link).is_empty(), "{n}");
    }
}

#[test]
fn a_host_is_told_to_those_who_know_the_key_or_are_on_it() {
    let host = || HostSnapshot {
        name: "db7.corp.example".into(),
        kernel: "Linux 6.1.0-18-amd64".into(),
        cpu: "Some CPU".into(),
        cpus: 8,
        sysctl: [("net.netfilter.nf_conntrack_max".to_owned(), "65536".to_owned())].into(),
        ..HostSnapshot::default()
    };
    let there = path(1, 1);
    let here = Path { peer: (there.local.ip(), 9).into(), ..there };
    for (key, from, known) in [(None, there, false), (None, here, true), (Some(7), there, true)] {
        let keys = key.map(keyring).unwrap_or_default();
        let plan = server_with(|config| config.keys = keys);
        let plan = ServerPlan { host: host(), clock_id: "5e1f-boot".into(), ..plan };
        let mut server = Driven::new(Server::new(plan, START));
        let link = Link(1);
        server.feed(Input::Up(link, from, None));
        let mut frames = match key {
            Some(key) => shake(&mut server, link, key).unwrap().0,
            None => Frames::new(MAX_MESSAGE),
        };
        let said = talk(&mut server, link, &mut frames, &hello());
        let [Message::Hello { host: mark, .. }] = &said[..] else { panic!("{said:?}") };
        assert!(!mark.contains("boot") && mark.len() == 32, "which boot it is can be read: {mark}");
        let said = talk(&mut server, link, &mut frames, &propose(1, small()));
        let told = said.into_iter().find_map(|message| match message {
            Message::Accepted { host, .. } => Some(*host),
            _ => None,
        });
        let expected = if known { host() } else { host().without_identity() };
        assert_eq!(told.unwrap(), expected, "{from:?}, with a key: {key:?}");
    }
}

#[test]
fn a_client_that_vanished_frees_its_session_within_ten_seconds() {
    let mut server = Driven::new(Server::new(server_plan(), START));
    let link = proposed(&mut server, 1, Phase { exclusive: true, ..small() });
    server.say(link, &Message::Start);
    let other = proposed(&mut server, 2, small());
    let accepted = |said: Vec<Message>| said.iter().any(|m| matches!(m, Message::Accepted { .. }));
    assert!(!accepted(server.messages(other)));
    for n in 0..10 {
        server.pass(SECOND);
        server.say(other, &Message::Ping { n });
    }
    assert!(server.closed.contains(&link));
    assert!(accepted(server.messages(other)), "its turn has come");
}

#[test]
fn a_session_that_excludes_others_has_an_end() {
    for (limit, most) in [(None, 600), (Some(7_200 * SECOND), 7_200)] {
        let limits = Limits { duration_ns: limit, ..Limits::default() };
        let mut server = Driven::new(Server::new(server_with(|config| config.limits = limits), START));
        let day = Some(86_400 * SECOND);
        let link = proposed(&mut server, 1, Phase { exclusive: true, duration_ns: day, ..small() });
        let granted = server.messages(link).into_iter().find_map(|message| match message {
            Message::Accepted { phase, accepted, .. } => Some((phase, accepted)),
            _ => None,
        });
        let (phase, accepted) = granted.unwrap();
        assert_eq!(phase.duration_ns, Some(most * SECOND));
        assert!(accepted.changes.iter().any(|change| change.what == "duration"));
        server.say(link, &Message::Start);
        let mut lasted = 0;
        while server.open.contains(&link) && lasted < 10_000 {
            server.pass(SECOND);
            server.say(link, &Message::Ping { n: lasted });
            lasted += 1;
        }
        let lasted = u64::from(lasted);
        assert!((most..most + 60).contains(&lasted), "pings do not prolong it: {lasted} s");
    }
    // Nor can others be kept out by not starting at all.
    let mut server = Driven::new(Server::new(server_plan(), START));
    let link = proposed(&mut server, 1, Phase { exclusive: true, ..small() });
    for n in 0..70 {
        server.pass(SECOND);
        server.say(link, &Message::Ping { n });
    }
    assert!(server.closed.contains(&link));
}
