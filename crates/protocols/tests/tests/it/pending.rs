//! Peers of other protocols, and peers that imitate ours: answered in their own words, and closed
//! in bounded time.

use crate::support::run::*;
use crate::support::{SESSION, client, driven, key, opener};
use common::Acl;
use common::protocol::Foreigners;
use metrics::{Group, SECOND};
use model::Phase;
use native::{Data, Grant, Grants, Listener, Mark, MarkKind, Message, Params, Preamble, Purpose, encode};
use sim::{HungUp, Pair, Quirks, Raw, START, Say, Side};
use std::sync::Arc;
use transport::{Acceptor, Arena, End, FlowEvent, Path, Received, Transmit, When};
use uuid::Uuid;

fn bytes(text: &[u8]) -> Vec<(u64, Say)> {
    vec![(0, Say::Bytes(text.to_vec()))]
}

/// What a peer hears that says `script`, and what its server tells, which has no link left
/// afterwards.
#[track_caller]
fn heard(name: &str, script: Vec<(u64, Say)>, after: u64) -> (Raw, Told) {
    let mut net = network(1);
    let server = serve(&mut net, server_plan());
    net.run_until(START.plus(MS));
    let raw = net.raw(client_ip(0), address(1), script);
    net.run_until(START.plus(after));
    assert_eq!(net.open(server), (0, 0), "{name}");
    (net.raw_state(raw).clone(), told(&net, server))
}

fn ended(raw: &Raw) -> (u64, HungUp) {
    let (at, how) = raw.ended.expect("not hung up on");
    (at.since(START), how)
}

#[test]
fn each_stranger_is_answered_in_its_own_words_and_in_order() {
    let http = b"GET / HTTP/1.1\r\nHost: example\r\nUser-Agent: a browser with a long name, as they are today\r\n\r\n";
    let cookie = b"ovtbza7m2lbfqs2qupwzkaugldlcjxwnuhtl\0";
    let telnet = b"hello?\r\n";
    let tls = [&[0x16, 3, 1, 2, 0, 1][..], &[7; 500]].concat();
    let garbage = [0xf3; 300];
    let text: &[u8] = b"This is a netcaliper measurement server. Use: netcaliper tcp HOST\r\n";
    for (name, said, expect) in [
        ("HTTP", &http[..], &b"HTTP/1.1 400 Bad Request\r\n"[..]),
        ("iperf3", cookie, &[0xfe, 0, 0, 0, 114, 0, 0, 0, 71]),
        ("a text protocol", telnet, text),
        ("TLS", &tls, &[0x15, 3, 3, 0, 2, 2, 40]),
        ("an unknown protocol", &garbage, text),
    ] {
        // More of it is still on its way when the answer is sent.
        let more = vec![(0, Say::Bytes(said.to_vec())), (MS / 2, Say::Bytes(said.to_vec()))];
        let (peer, Told { notices, .. }) = heard(name, more, 3 * SECOND);
        assert!(peer.heard.starts_with(expect), "{name}: {:?}", String::from_utf8_lossy(&peer.heard));
        let (at, how) = ended(&peer);
        assert_eq!(how, HungUp::Fin, "{name}: the answer arrived whole");
        assert!(at < 100 * MS, "{name}: {at}");
        assert!(notices[0].contains(&format!("spoke {name} to this port")), "{notices:?}");
    }
}

#[test]
fn those_who_say_little_or_nothing_or_too_slowly_are_shown_out() {
    let loris = |text: &[u8]| -> Vec<(u64, Say)> {
        text.iter().enumerate().map(|(i, &b)| (i as u64 * SECOND, Say::Bytes(vec![b]))).collect()
    };
    let preamble = Preamble::new(Purpose::Control).encode();
    let mut damaged = preamble;
    damaged[33] ^= 1;
    for (name, script, by) in [
        ("silence", vec![], 5_100),
        ("half a preamble", bytes(&preamble[..40]), 5_100),
        ("a preamble a byte a second", loris(&preamble), 5_100),
        ("a request a byte a second", loris(b"GET / HTTP/1.1\r\n"), 3_200),
        ("one odd byte", bytes(&[0xf3]), 3_200),
        ("a word and FIN", vec![(0, Say::Bytes(b"hi".to_vec())), (MS, Say::Fin)], 100),
        ("FIN", vec![(0, Say::Fin)], 100),
        ("half a preamble and FIN", vec![(0, Say::Bytes(preamble[..9].to_vec())), (MS, Say::Fin)], 100),
        ("a damaged preamble", bytes(&damaged), 1_200),
    ] {
        let (at, _) = ended(&heard(name, script, 20 * SECOND).0);
        assert!(at < by * MS, "{name}: {at}");
    }
    // A reset needs no answer.
    heard("a reset", vec![(0, Say::Bytes(b"GET".to_vec())), (MS, Say::Reset)], SECOND);
}

#[test]
fn a_peer_that_never_reads_or_never_stops_talking_is_let_go() {
    // Endless talk: it is told, and then not listened to for more than a moment.
    let talk = (0..200).map(|i| (i * 50 * MS, Say::Bytes(vec![b'x'; 2_000]))).collect();
    let (peer, _) = heard("endless talk", talk, 20 * SECOND);
    assert!(ended(&peer).0 < 2 * SECOND);
    assert!(peer.heard.starts_with(b"This is a netcaliper"));
}

#[test]
fn other_wire_versions_are_told_ours() {
    for (purpose, rest) in [(Purpose::Control, encode(&Message::Start)), (Purpose::Data, vec![])] {
        let preamble = Preamble { version: 9, ..Preamble::new(purpose) }.encode();
        let name = format!("{purpose:?}");
        let (peer, _) = heard(&name, bytes(&[&preamble[..], &rest].concat()), 3 * SECOND);
        let answer = Preamble::decode(&peer.heard).unwrap();
        assert_eq!((answer.version, answer.purpose), (native::WIRE_VERSION, Purpose::Answer), "{name}");
        assert_eq!(ended(&peer).1, HungUp::Fin, "{name}");
    }
}

fn refused(heard: &[u8], id: Uuid) -> Option<Mark> {
    Mark::decode(heard.try_into().ok()?, id).filter(|m| m.kind == MarkKind::Refused)
}

#[test]
fn an_unknown_session_is_refused_and_the_client_says_so() {
    let id = Uuid::from_u128(5);
    let preamble = opener().preamble(id, 0, 100);
    let (peer, _) = heard("an unknown session", bytes(&[&preamble[..], &[0; 500]].concat()), 3 * SECOND);
    assert_eq!(refused(&peer.heard, id).unwrap().value, 1);
    assert_eq!(ended(&peer).1, HungUp::Fin);
    // A client that pushes as fast as it can still hears it.
    let phase = Phase { transfer: 1 << 30, ..Phase::default() };
    let grants = Arc::new(Grants::new(Foreigners::default(), None));
    let mut listener = Listener::new(grants, Arc::default(), 0);
    let mut pair = Pair::accepted(client(&phase, false), &mut listener);
    pair.run();
    let ended = format!("{:?}", pair.ends[0].ended);
    assert!(ended.contains("does not know the session"), "{ended}");
}

#[test]
fn those_behind_the_fence_are_reset_at_once_and_take_no_place() {
    let acl = Acl { allow: vec![], deny: vec!["10.128.0.0/16".parse().unwrap()] };
    let mut net = network(1);
    let server = serve(&mut net, server_with(|config| config.acl = acl));
    let client = join(&mut net, 0, client_plan(&small()));
    net.run();
    let it = told(&net, client);
    assert!(it.reason().contains("may not serve this address (--allow, --deny)"), "{}", it.reason());
    // A data connection from there hears nothing either.
    let preamble = Preamble { transfer: 100, ..Preamble::new(Purpose::Data) }.encode();
    let raw = net.raw(client_ip(0), address(1), bytes(&preamble));
    net.run_until(net.now.plus(SECOND));
    assert!(net.raw_state(raw).heard.is_empty());
    assert_eq!(net.open(server), (0, 0));
}

#[test]
fn those_who_wait_are_bounded_and_come_free() {
    let mut net = network(1);
    let server = serve(&mut net, server_plan());
    net.run_until(START.plus(MS));
    let raws: Vec<_> = (0..5_000).map(|n| net.raw(client_ip(n), address(1), vec![])).collect();
    net.run_until(START.plus(SECOND));
    assert_eq!(net.open(server).0, 4_096);
    let reset =
        raws.iter().filter(|&&r| net.raw_state(r).ended.is_some_and(|e| e.1 == HungUp::Reset)).count();
    assert_eq!(reset, 5_000 - 4_096);
    net.run_until(START.plus(7 * SECOND));
    assert_eq!(net.open(server), (0, 0));
    // Peers that are being answered count as well, until they close.
    let stay = |text: &[u8]| vec![(0, Say::Stay), (0, Say::Bytes(text.to_vec()))];
    let _raws: Vec<_> = (0..4_096).map(|n| net.raw(client_ip(n), address(1), stay(b"hello?\r\n"))).collect();
    net.run_until(net.now.plus(100 * MS));
    let late = net.raw(client_ip(0), address(1), bytes(b"hello?\r\n"));
    net.run_until(net.now.plus(400 * MS));
    assert!(net.open(server).0 <= 4_096, "one had to give way: {:?}", net.open(server));
    assert!(!net.raw_state(late).heard.is_empty());
    net.run_until(net.now.plus(SECOND));
    assert_eq!(net.open(server), (0, 0));
    assert!(told(&net, server).notices.len() <= 1_100, "{}", told(&net, server).notices.len());
    let client = join(&mut net, 9, client_plan(&small()));
    net.run();
    assert_eq!(told(&net, client).status(), model::Status::Complete);
}

#[test]
fn control_connections_that_do_not_get_anywhere_are_ended() {
    let control = Preamble::new(Purpose::Control).encode();
    let hello_of = |nonce: String| encode(&driven::hello(nonce));
    let hello = hello_of("00".repeat(16));
    let with = |more: &[Vec<u8>]| [&[control.to_vec()], more].concat().concat();
    let framed = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
    for (name, said, word, by) in [
        ("no hello", with(&[]), "no hello within 10 s", 11),
        ("half a hello", with(&[hello[..9].to_vec()]), "no hello within 10 s", 11),
        ("no proposal", with(std::slice::from_ref(&hello)), "no proposal within 15 s", 16),
        ("something else first", with(&[encode(&Message::Start)]), "the first message must be a hello", 1),
        ("a hello without a nonce", with(&[hello_of("no".into())]), "no valid nonce", 1),
        ("a message that is too long", with(&[hello.clone(), vec![0, 1, 0, 1]]), "is too long", 1),
        ("no JSON", with(&[hello.clone(), framed(b"{?}")]), "cannot be understood", 1),
        ("too deep", with(&[hello.clone(), framed(&[b'['; 90])]), "too deeply", 1),
    ] {
        let (peer, _) = heard(name, bytes(&said), 70 * SECOND);
        let text = String::from_utf8_lossy(&peer.heard);
        assert!(text.contains(word), "{name}: {text}");
        assert!(ended(&peer).0 < by * SECOND + 100 * MS, "{name}: {:?}", peer.ended);
    }
    // A client that pings waits for another server of its run.
    let pings = (1..30).map(|n: u32| (u64::from(n) * 5 * SECOND, Say::Bytes(encode(&Message::Ping { n }))));
    let script = bytes(&with(std::slice::from_ref(&hello))).into_iter().chain(pings).collect();
    let (peer, _) = heard("pings", script, 70 * SECOND);
    let text = String::from_utf8_lossy(&peer.heard);
    assert!(text.contains("no proposal within 60 s"), "{text}");
    assert!((60 * SECOND..61 * SECOND).contains(&ended(&peer).0), "{:?}", peer.ended);
}

#[test]
fn a_session_is_opened_by_so_many_connections_and_so_many_bytes() {
    let phase = Phase { connections: 2, transfer: 1_000, ..Phase::default() };
    let params = Arc::new(Params::of(&phase, Group(1)));
    let grants = Arc::new(Grants::new(Foreigners::default(), None));
    grants.insert(SESSION, Arc::new(Grant::new(key(), Arc::clone(&params), 0..1)));
    let opener = opener();
    let mut listener = Listener::new(grants, Arc::default(), 0);
    let client = |transfer| {
        Box::new(Data::client(Arc::clone(&params), &opener, Uuid::from_u128(5), 0, transfer, false))
    };
    let mut too_much = Pair::accepted(client(1_001), &mut listener);
    too_much.run();
    let ended = format!("{:?}", too_much.ends[1].ended);
    assert!(ended.contains("a transfer that was not agreed on"), "{ended}");
    // More than were agreed on are let in, because successors may overtake the ends of their
    // predecessors.
    let open: Vec<_> = (0..128)
        .map(|_| {
            let mut pair = Pair::accepted(client(1_000), &mut listener);
            pair.run_until(START.plus(300_000));
            pair
        })
        .collect();
    let mut one_more = Pair::accepted(client(1_000), &mut listener);
    one_more.run();
    let ended = format!("{:?}", one_more.ends[0].ended);
    assert!(ended.contains("too many connections"), "{ended}");
    drop(open);
    let mut again = Pair::accepted(client(1_000), &mut listener);
    again.run();
    assert!(again.ends[0].completed() && again.ends[1].completed(), "places come free");
}

#[test]
fn a_connection_that_reaches_its_worker_after_its_session_has_ended_counts_nowhere() {
    let phase = Phase { transfer: 1_000, ..Phase::default() };
    let params = Arc::new(Params::of(&phase, Group(1)));
    for ended in [false, true] {
        let grants = Arc::new(Grants::new(Foreigners::default(), None));
        let grant = Grant::new(key(), Arc::clone(&params), 0..2);
        grants.insert(SESSION, Arc::new(grant));
        let mut listener = Listener::new(Arc::clone(&grants), Arc::default(), 0);
        let path = Path { peer: address(9), local: address(1) };
        let mut side = Side::new(1, Quirks::default());
        let mut flow = listener.accept(&mut side.cx(START), &path).unwrap();
        let id = Uuid::from_u128(5);
        let mut none = Arena::new(0);
        let got = opener().preamble(id, 1, 10);
        flow.on_received(
            &mut side.cx(START),
            &Received::stream(&got, START),
            &mut Transmit::new(&mut none, 0),
        )
        .unwrap();
        assert_eq!(flow.interest().end, Some(End::Migrate(1)));
        if ended {
            grants.remove(SESSION);
        }
        flow.on_event(&mut side.cx(START), FlowEvent::Up(path)).unwrap();
        if flow.interest().end == Some(End::Replace) {
            flow = flow.successor().unwrap();
            flow.on_event(&mut side.cx(START), FlowEvent::Up(path)).unwrap();
        }
        assert_eq!(flow.id().row.is_none(), ended);
        assert_eq!(flow.interest().send == When::Now, ended, "it is told");
    }
}
