//! Keys of clients and servers: pairs with pinned public keys, several names, rights, rotation; and
//! handshakes that are forged.

use crate::admission::{Driver, arrive, drawn, hello, keyring};
use crate::support::bench::handshakes;
use crate::support::driven::{Driven, client_with, status};
use crate::support::run::*;
use common::keys::{Named, PrivateKey};
use common::{Keyring, Psk, Rights};
use metrics::SECOND;
use model::{Kind, Phase, Ping, Status};
use native::secure::{PAIRS, Proof, SHARED, Shake, prologue, public_key};
use native::{Client, Message, PREAMBLE, Server, encode};
use sim::START;
use transport::{Input, Link, Rng};

fn shared(name: &str, byte: u8, rights: Rights) -> Named<Psk> {
    Named { name: name.to_owned(), key: drawn(byte), rights }
}

/// A client's ring with one shared key.
fn one(name: &str, byte: u8) -> Keyring {
    Keyring { shared: vec![shared(name, byte, Rights::default())], ..Keyring::default() }
}

/// A ring with a pair, and the public keys of the other ends by their names.
fn pair(own: u8, peers: &[(&str, u8)]) -> Keyring {
    let public = |&(name, byte): &(&str, u8)| Named {
        name: name.to_owned(),
        key: public_key(&[byte; 32]).unwrap(),
        rights: Rights::default(),
    };
    Keyring {
        own: Some(PrivateKey([own; 32])),
        peers: peers.iter().map(public).collect(),
        ..Keyring::default()
    }
}

fn keyed(phase: &Phase, keys: &Keyring) -> native::ClientPlan {
    let mut plan = client_plan(phase);
    plan.config.keys = keys.clone();
    plan
}

fn ran(server: &Keyring, client: &Keyring, phase: &Phase) -> Told {
    outcome(&mut network(5), server_with(|config| config.keys = server.clone()), keyed(phase, client))
}

#[test]
fn ends_with_pairs_know_each_other() {
    let server = pair(1, &[("alice", 2), ("bob", 3)]);
    for known in ["*", "server", "10.0.0.1"] {
        let it = ran(&server, &pair(2, &[("elsewhere", 9), (known, 1)]), &small());
        assert_eq!((it.status(), it.sessions[0].authenticated), (Status::Complete, true), "{known}");
    }
    for (client, why) in [
        (pair(2, &[("*", 9)]), "not the one of --server-key"),
        (pair(2, &[("elsewhere", 1)]), "not the one of --server-key"),
        (pair(9, &[("*", 1)]), "does not know your public key"),
        (one("alice", 7), "has no shared keys: give --key-file"),
        (Keyring::default(), "needs a key pair: give --key-file"),
    ] {
        let it = ran(&server, &client, &small());
        assert!(it.status() == Status::Failed && it.reason().contains(why), "{}", it.reason());
    }
    let it = ran(&keyring(7), &pair(2, &[("*", 1)]), &small());
    assert!(it.reason().contains("has no key pair"), "{}", it.reason());
    // A server may have both kinds.
    let both = Keyring { shared: keyring(7).shared, ..server };
    for client in [one("", 7), pair(3, &[("*", 1)])] {
        assert_eq!(ran(&both, &client, &small()).status(), Status::Complete);
    }
}

#[test]
fn while_keys_are_replaced_the_old_and_the_new_are_accepted() {
    let keys = |list: &[(&str, u8)]| Keyring {
        shared: list.iter().map(|&(name, byte)| shared(name, byte, Rights::default())).collect(),
        ..Keyring::default()
    };
    let both = keys(&[("2026", 1), ("2027", 2)]);
    for client in [one("2026", 1), one("2027", 2)] {
        assert_eq!(ran(&both, &client, &small()).status(), Status::Complete);
    }
    // A name that is gone, or that has another key, is no more than a wrong key.
    for (server, client) in [
        (keys(&[("2027", 2), ("2028", 3)]), one("2026", 1)),
        (both.clone(), one("2026", 2)),
        (both, one("", 1)),
    ] {
        let it = ran(&server, &client, &small());
        assert!(it.reason().contains("wrong pre-shared key"), "{}", it.reason());
    }
    // One key without a name goes on beside those that have names.
    assert_eq!(ran(&keys(&[("", 4), ("2027", 2)]), &one("", 4), &small()).status(), Status::Complete);
}

#[test]
fn a_key_opens_what_it_is_for() {
    let with = |rights| Keyring { shared: vec![shared("a", 1, rights)], ..Keyring::default() };
    let ping = Phase { kind: Kind::Ping, ping: Some(Ping::default()), duration_ns: Some(SECOND), ..small() };
    let pinging = Rights { verbs: Some(vec!["ping", "delay"]), ..Rights::default() };
    assert_eq!(ran(&with(pinging.clone()), &one("a", 1), &ping).status(), Status::Complete);
    let it = ran(&with(pinging.clone()), &one("a", 1), &small());
    assert!(it.reason().contains("the key \"a\" is not for tcp: it is for ping, delay"), "{}", it.reason());
    let shares = Rights { exclusive: false, ..Rights::default() };
    let it = ran(&with(shares), &one("a", 1), &Phase { exclusive: true, ..small() });
    assert!(it.reason().contains("does not let you exclude others"), "{}", it.reason());
    let slow = Rights { rate: Some(800_000), time_ns: Some(2 * SECOND), ..Rights::default() };
    let it = ran(&with(slow), &one("a", 1), &small());
    let changes: Vec<_> =
        it.sessions[0].accepted.changes.iter().map(|c| (c.given.as_str(), c.why.as_str())).collect();
    assert_eq!(changes, [("2 s", "limit of your key"), ("200000 bit/s", "limit of your key")]);
    assert!(it.local().traffic.tx_bytes.abs_diff(200_000) < 20_000, "{:?}", it.local().traffic);
    // To end the server is a right, too.
    let mut plan = keyed(&small(), &one("a", 1));
    plan.config.options = stopping(None);
    let it = outcome(&mut network(6), server_with(|config| config.keys = with(pinging)), plan);
    assert!(it.reason().contains("is not for stop"), "{}", it.reason());
}

#[test]
fn the_sessions_of_a_key_share_its_rate() {
    let slow = Rights { rate: Some(1_000_000), ..Rights::default() };
    let keys =
        Keyring { shared: vec![shared("a", 1, slow.clone()), shared("b", 2, slow)], ..Keyring::default() };
    let mut net = network(7);
    serve(&mut net, server_with(|config| config.keys = keys));
    let asked = |rate| Phase { connections: 1, rate: Some(rate), ..small() };
    let clients: Vec<_> = [("a", 1, 600_000), ("a", 1, 600_000), ("a", 1, 600_000), ("b", 2, 600_000)]
        .into_iter()
        .zip(0..)
        .map(|((name, byte, rate), n)| {
            let client = join(&mut net, n, keyed(&asked(rate), &one(name, byte)));
            net.run_until(net.now.plus(SECOND / 4));
            client
        })
        .collect();
    net.run();
    let given = |n: usize| told(&net, clients[n]).sessions.first().map(|s| s.accepted.changes.len());
    assert_eq!((given(0), given(1), given(3)), (Some(0), Some(1), Some(0)));
    let it = told(&net, clients[2]);
    assert!(it.reason().contains("the key \"a\" allows no more than 0 bit/s now"), "{}", it.reason());
}

/// The client's first message of a handshake.
fn first(protocol: &str, key: &str, shake: &mut Shake) -> Message {
    let data = shake.say().unwrap();
    Message::Noise { protocol: protocol.to_owned(), key: key.to_owned(), data }
}

fn answer(server: &mut Driver, link: Link) -> Option<String> {
    server.messages(link).into_iter().find_map(|message| match message {
        Message::Noise { data, .. } => Some(data),
        _ => None,
    })
}

/// Handshakes with another key, under another name, of another protocol or wire version, cut,
/// reflected and stripped: none gets a hello, which would be in records that the attacker can read.
#[test]
fn forged_handshakes_get_nothing() {
    let keys = Keyring {
        shared: vec![shared("a", 1, Rights::default()), shared("b", 2, Rights::default())],
        ..pair(3, &[("c", 4)])
    };
    let mut server = Driven::new(Server::new(server_with(|config| config.keys = keys), START));
    let mut rng = Rng::new(9);
    for n in 0..8 * u64::from(handshakes()) {
        server.pass(SECOND / 100);
        let link = arrive(&mut server, n, 1 + n as u32 % 200);
        let drawn = [rng.next().to_be_bytes(); 4].concat().try_into().unwrap();
        let (proof, protocol, name, bound) = match n % 8 {
            // The keys swapped, a wrong key, a name of none.
            0 => (Proof::Shared(&[2; 32]), SHARED, "a", "a"),
            1 => (Proof::Shared(&[9; 32]), SHARED, "b", "b"),
            2 => (Proof::Shared(&[1; 32]), SHARED, "nobody", "nobody"),
            // The name changed on the way, and a handshake without a name.
            3 => (Proof::Shared(&[1; 32]), SHARED, "a", "b"),
            4 => (Proof::Shared(&[1; 32]), SHARED, "", ""),
            // The pairs: one that the server does not know.
            5 => (Proof::Own(&[9; 32]), PAIRS, "", ""),
            // One protocol taken for the other, and the right key for another wire version.
            6 => (Proof::Own(&[4; 32]), SHARED, "a", "a"),
            _ => (Proof::Shared(&[1; 32]), SHARED, "a", "a"),
        };
        let mut bound = prologue(bound);
        bound["netcaliper control ".len()] ^= u8::from(n % 8 == 7);
        let mut shake = Shake::client(proof, &bound, drawn).unwrap();
        server.say(link, &first(protocol, name, &mut shake));
        let answer = answer(&mut server, link);
        if matches!(n % 8, 3 | 6 | 7) {
            assert!(answer.is_none() && server.closed.contains(&link), "{n}: this is seen at once");
            continue;
        }
        let data = answer.unwrap_or_else(|| panic!("{n}: whether there is such a name is not told"));
        if n % 8 == 5 {
            shake.read_message(&data).expect("the server proves who it is, to whoever asks");
            let data = shake.say().unwrap();
            server.say(link, &Message::Noise { protocol: String::new(), key: String::new(), data });
            let mut records = shake.records().unwrap();
            let said = records.open(&server.said.remove(&link).unwrap_or_default()).unwrap();
            assert!(String::from_utf8_lossy(&said).contains("does not know your public key"));
        } else {
            assert!(shake.read_message(&data).is_none(), "{n}: it proves nothing that was asked of it");
            // The server's own message back to it, the hello in clear, or records of no key.
            let next = match n % 3 {
                0 => encode(&Message::Noise { protocol: String::new(), key: String::new(), data }),
                1 => encode(&hello()),
                _ => (0..100).map(|_| rng.next() as u8).collect(),
            };
            server.feed(Input::Bytes(link, &next));
        }
        assert!(!server.said.contains_key(&link), "{n}");
        if server.open.contains(&link) {
            server.feed(Input::Down(link, None));
        }
    }
}

/// What the client said after its preamble: messages in clear.
fn said(client: &mut Driven<Client>, link: Link) -> Vec<Message> {
    let mut bytes = client.said.remove(&link).unwrap_or_default();
    bytes.drain(..PREAMBLE);
    client.said.insert(link, bytes);
    client.messages(link)
}

/// Who has no key of the server answers in its place: with a hello in clear, another key, the
/// client's own message, an answer in which a bit is flipped, records with one. The client says
/// nothing more, and fails.
#[test]
fn a_client_with_a_key_goes_on_with_nobody_who_has_none() {
    let mut rng = Rng::new(11);
    let link = Link(1);
    for n in 0..10 * handshakes() {
        let with_pair = n % 2 == 1;
        let ring = if with_pair { pair(2, &[("*", 1)]) } else { one("a", 1) };
        let mut client = client_with(keyed(&small(), &ring));
        let Some(Message::Noise { data, key, .. }) = said(&mut client, link).pop() else { panic!("{n}") };
        let drawn = [rng.next().to_be_bytes(); 4].concat().try_into().unwrap();
        let answered = |shared: u8, own: u8| {
            let (shared, own) = ([shared; 32], [own; 32]);
            let proof = if with_pair { Proof::Own(&own) } else { Proof::Shared(&shared) };
            let mut shake = Shake::server(proof, &prologue(&key), drawn).unwrap();
            shake.read_message(&data).unwrap();
            let data = shake.say().unwrap();
            (shake, data)
        };
        let noise = |data| Message::Noise { protocol: String::new(), key: String::new(), data };
        let answer = match n / 2 % 5 {
            0 => hello(),
            1 => noise(answered(9, 9).1),
            2 => noise(data.clone()),
            3 => {
                let mut bytes = answered(1, 1).1.into_bytes();
                // One digit of the hexadecimal is another.
                let at = rng.between(0, bytes.len() as u64 - 1) as usize;
                bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
                noise(String::from_utf8(bytes).unwrap())
            }
            // The right server; then somebody goes on in its place.
            _ => noise(answered(1, 1).1),
        };
        client.say(link, &answer);
        if n / 2 % 5 == 4 {
            // The hello, encrypted, and with a pair the client's last message before it.
            assert!(client.said.remove(&link).is_some_and(|said| said.len() > 100), "{n}");
            let forged: Vec<u8> = match n % 3 {
                0 => encode(&hello()),
                1 => [&[0, 60][..], &(0..60).map(|_| rng.next() as u8).collect::<Vec<_>>()].concat(),
                _ => encode(&answer),
            };
            client.feed(Input::Bytes(link, &forged));
        }
        assert!(!client.said.contains_key(&link), "{n}: nothing is said to it");
        let (status, why) = status(&client).unwrap_or_else(|| panic!("{n}: it goes on"));
        assert_eq!(status, Status::Failed, "{n}: {why}");
    }
}
