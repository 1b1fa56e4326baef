//! What a server allows of clients that have not introduced themselves, and of those that say too much.

use crate::support::driven::Driven;
use crate::support::run::{server_plan, small};
use common::{Limits, Psk};
use hmac::{Hmac, KeyInit, Mac};
use metrics::SECOND;
use model::{Event, HostSnapshot, Phase};
use native::{Message, Server, ServerPlan};
use sha2::Sha256;
use sim::START;
use transport::{Input, Link, Path};
use uuid::Uuid;

type Driver = Driven<Server>;

fn path(address: u32, port: u16) -> Path {
    Path { peer: ((0x0a01_0000 + address).to_be_bytes(), port).into(), ..Driver::path(0) }
}

fn arrive(server: &mut Driver, link: u64, address: u32) -> Link {
    server.feed(Input::Up(Link(link), path(address, link as u16), None));
    Link(link)
}

fn hello(key: bool) -> Message {
    let nonce = "0f".repeat(16);
    Message::Hello { version: "1".into(), capabilities: vec![], nonce, key, host: String::new() }
}

fn propose(run: u128, phase: Phase) -> Message {
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
        server.say(link, &hello(false));
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
            server.say(link, &hello(false));
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
    let link = arrive(&mut server, 1, 1);
    server.say(link, &hello(false));
    server.say(link, &propose(1, small()));
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
    server.say(link, &hello(false));
    // A message that never ends.
    server.feed(Input::Bytes(link, &65_536u32.to_be_bytes()));
    let mut sent = 0;
    while server.open.contains(&link) && sent < 1 << 20 {
        server.feed(Input::Bytes(link, &[b' '; 1_000]));
        sent += 1_000;
    }
    assert!((60_000..=66_000).contains(&sent), "{sent}");
    assert_eq!(refusal(&mut server, link).unwrap(), "too much was said before a proposal");
    let other = arrive(&mut server, 2, 1);
    server.feed(Input::Bytes(other, &60_000u32.to_be_bytes()));
    server.feed(Input::Bytes(other, &[b' '; 9_000]));
    assert_eq!(
        refusal(&mut server, other).unwrap(),
        "too much was said before a proposal",
        "less before the hello"
    );
}

/// What a client that knows the key answers to the server's nonce, by the documented formula.
fn proof(key: &[u8], nonce: &str) -> String {
    let theirs = u128::from_str_radix(nonce, 16).unwrap().to_be_bytes();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(b"netcaliper client");
    mac.update(&theirs);
    mac.update(&[0x0f; 16]);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn few_wrong_keys_are_answered_and_a_right_one_always() {
    let key = b"secretkey123";
    let psk = Psk::new(key).ok();
    let mut server = Driven::new(Server::new(ServerPlan { psk, ..server_plan() }, START));
    let guess = |server: &mut Driver, n: u64, address: u32| {
        let link = arrive(server, n, address);
        server.say(link, &hello(true));
        server.say(link, &Message::Proof { proof: "00".repeat(32) });
        assert!(server.closed.contains(&link));
        refusal(server, link).is_some_and(|why| why == "wrong pre-shared key")
    };
    let right = |server: &mut Driver, n: u64, address: u32| {
        let link = arrive(server, n, address);
        server.say(link, &hello(true));
        let nonce = server.messages(link).into_iter().find_map(|message| match message {
            Message::Hello { nonce, .. } => Some(nonce),
            _ => None,
        });
        server.say(link, &Message::Proof { proof: proof(key, &nonce.unwrap()) });
        let said = server.messages(link);
        assert!(server.open.contains(&link) && matches!(said[..], [Message::Proof { .. }]), "{said:?}");
    };
    let answered = (0..1_000).filter(|n| guess(&mut server, *n, 1)).count();
    assert_eq!(answered, 16);
    right(&mut server, 4_000, 1);
    assert!(!guess(&mut server, 4_001, 1), "a right key does not make guesses cheaper");
    assert!(guess(&mut server, 5_000, 2), "another address");
    server.pass(10 * SECOND);
    let later = (0..100).filter(|n| guess(&mut server, 6_000 + n, 1)).count();
    assert_eq!(later, 10, "one a second");
    assert_eq!(lines(&server, "does not know the pre-shared key"), 2, "one for each address");
}

#[test]
fn a_host_is_told_to_those_who_know_the_key_or_are_on_it() {
    let key = b"secretkey123";
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
    for (psk, from, known) in [(None, there, false), (None, here, true), (Psk::new(key).ok(), there, true)] {
        let keyed = psk.is_some();
        let plan = ServerPlan { psk, host: host(), clock_id: "5e1f-boot".into(), ..server_plan() };
        let mut server = Driven::new(Server::new(plan, START));
        let link = Link(1);
        server.feed(Input::Up(link, from, None));
        server.say(link, &hello(keyed));
        let said = server.messages(link);
        let [Message::Hello { nonce, host: mark, .. }] = &said[..] else { panic!("{said:?}") };
        assert!(
            !mark.contains("boot") && mark.len() == 32,
            "which boot it is only who knows it can tell: {mark}"
        );
        if keyed {
            server.say(link, &Message::Proof { proof: proof(key, nonce) });
        }
        server.say(link, &propose(1, small()));
        let told = server.messages(link).into_iter().find_map(|message| match message {
            Message::Accepted { host, .. } => Some(*host),
            _ => None,
        });
        let expected = if known { host() } else { host().without_identity() };
        assert_eq!(told.unwrap(), expected, "{from:?}, with a key: {keyed}");
    }
}

#[test]
fn a_client_that_vanished_frees_its_session_within_ten_seconds() {
    let mut server = Driven::new(Server::new(server_plan(), START));
    let link = arrive(&mut server, 1, 1);
    server.say(link, &hello(false));
    server.say(link, &propose(1, Phase { exclusive: true, ..small() }));
    server.say(link, &Message::Start);
    let other = arrive(&mut server, 2, 2);
    server.say(other, &hello(false));
    server.say(other, &propose(2, small()));
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
        let mut server = Driven::new(Server::new(ServerPlan { limits, ..server_plan() }, START));
        let link = arrive(&mut server, 1, 1);
        server.say(link, &hello(false));
        server
            .say(link, &propose(1, Phase { exclusive: true, duration_ns: Some(86_400 * SECOND), ..small() }));
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
    let link = arrive(&mut server, 1, 1);
    server.say(link, &hello(false));
    server.say(link, &propose(1, Phase { exclusive: true, ..small() }));
    for n in 0..70 {
        server.pass(SECOND);
        server.say(link, &Message::Ping { n });
    }
    assert!(server.closed.contains(&link));
}
