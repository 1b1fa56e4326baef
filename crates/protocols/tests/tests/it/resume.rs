//! A control connection that stands still at the end of a run: the client goes on with the session
//! on another one, and has the results of both ends.

use crate::admission::{Driver, arrive, hello, keyring, propose};
use crate::reach::questions;
use crate::support::driven::{Driven, running};
use crate::support::run::*;
use common::{Keyring, Limits};
use metrics::{Mono, SECOND};
use model::{Pattern, Phase, Status};
use native::{Message, Opener, OpeningKey, Server};
use sim::{At, Cut, Host, Link, Network, START};
use transport::{Input, Link as ControlLink};

/// Delay of the path each way, ns.
const DELAY: u64 = 20 * MS;

/// The directions of the control connection of which nothing arrives any more.
const DEAD: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

/// A run whose control connection stands still from `at` on, in these directions. All other
/// connections, and datagrams, pass.
fn stalled(phase: &Phase, at: Mono, (up, down): (bool, bool), keys: &Keyring) -> (Network, Host) {
    let mut net = Network::new(21);
    let good = || Link::new().delay(DELAY).rate(2_000_000).window(50_000);
    let link = |dies: bool| if dies { good().cut(At::Time(at), Cut::Silence) } else { good() };
    net.links(link(up), link(down));
    net.datagram_links(good(), good());
    // Another connection of a client takes no place of its own.
    let limits = Limits { per_address: 1, ..Limits::default() };
    serve(&mut net, server_with(|config| (config.keys, config.limits) = (keys.clone(), limits)));
    let mut plan = client_plan(phase);
    plan.config.keys = keys.clone();
    let client = join(&mut net, 0, plan);
    net.run_until(START.plus(MS));
    net.links(good(), good());
    (net, client)
}

fn phases() -> Vec<(&'static str, Phase)> {
    let one_way = |(name, _): &(&str, Phase)| !name.ends_with("-R") && !name.starts_with("load");
    let patterns = [("tcp", Pattern::Push), ("tcp --bidir", Pattern::Duplex)];
    let tcp = patterns.map(|(name, pattern)| (name, Phase { pattern, ..small() }));
    questions().into_iter().filter(one_way).chain(tcp).collect()
}

#[test]
fn an_interrupt_has_the_results_of_both_ends_although_the_control_connection_stands_still() {
    for (nth, (name, mut phase)) in phases().into_iter().enumerate() {
        // Messages have a number, streams their frames.
        if phase.duration_ns.is_some() {
            phase.duration_ns = Some(100 * SECOND);
        }
        let began = START.plus(SECOND);
        let keys = if nth % 2 == 0 { Keyring::default() } else { keyring(7) };
        for dead in DEAD {
            let at = began.plus(200 * MS);
            let (mut net, client) = stalled(&phase, at, dead, &keys);
            interrupt_once(&mut net, client, at.plus(MS));
            net.run_until(at.plus(20 * SECOND));
            let it = told(&net, client);
            let what = format!("{name} {dead:?} {:?} {:?}", it.end, it.notices);
            let (end, status, _) = it.end.clone().expect(&what);
            assert_eq!((status, it.remote.len()), (Status::Interrupted, 1), "{what}");
            assert!(it.local.is_some() && end <= at.plus(SECOND), "{what}: {}", end.since(at));
            it.assert_intervals(false);
        }
    }
}

fn interrupt_once(net: &mut Network, host: Host, at: Mono) {
    net.stop_at(host, at);
}

#[test]
fn a_run_has_the_results_of_both_ends_although_the_control_connection_stands_still_at_its_end() {
    for (nth, (name, phase)) in phases().into_iter().enumerate() {
        let keys = if nth % 2 == 1 { Keyring::default() } else { keyring(7) };
        let good = {
            let (mut net, client) = stalled(&phase, Mono(u64::MAX), (false, false), &keys);
            net.run();
            told(&net, client)
        };
        let end = good.end.as_ref().unwrap().0;
        for dead in DEAD {
            // Before the messages of the end, and between them.
            for before in [150 * MS, 30 * MS] {
                let (mut net, client) = stalled(&phase, Mono(end.0 - before), dead, &keys);
                net.run();
                let it = told(&net, client);
                let what = format!("{name} {dead:?} {before}: {:?} {:?}", it.end, it.notices);
                let (late, status, _) = it.end.clone().expect(&what);
                assert_eq!((status, it.remote.len()), (Status::Complete, 1), "{what}");
                // The next heartbeat, which remains unanswered, leaves within a second.
                assert!(late <= end.plus(2 * SECOND), "{what}: {}", late.since(end));
                assert_eq!(it.intervals.len(), good.intervals.len(), "{what}");
                it.assert_intervals(true);
            }
        }
    }
}

/// A server with a session of link 1 that runs, and the openings of that.
fn session(capable: bool) -> (Driver, Opener) {
    let mut server = Driven::new(Server::new(server_plan(), START));
    let link = arrive(&mut server, 1, 1);
    let Message::Hello { version, nonce, host, .. } = hello() else { panic!("no hello") };
    let capabilities = if capable { vec!["resume".to_owned()] } else { vec![] };
    server.say(link, &Message::Hello { version, capabilities, nonce, host });
    server.say(link, &propose(1, small()));
    let secret = server.messages(link).into_iter().find_map(|message| match message {
        Message::Accepted { secret, accepted, .. } => Some((secret, accepted.session)),
        _ => None,
    });
    let (secret, session) = secret.unwrap();
    let bytes: Vec<u8> =
        (0..16).map(|n| u8::from_str_radix(&secret[2 * n..2 * n + 2], 16).unwrap()).collect();
    server.say(link, &Message::Start);
    server.messages(link);
    (server, Opener::new(session, OpeningKey::new(&bytes.try_into().unwrap(), &[])))
}

fn result(said: &[Message]) -> bool {
    said.iter().any(|message| matches!(message, Message::Result { .. }))
}

#[test]
fn a_session_goes_on_for_its_own_client_alone() {
    let (mut server, opener) = session(true);
    let first = ControlLink(1);
    let Message::Resume { session, .. } = opener.resume(1) else { panic!("no attempt") };
    let forged = Message::Resume { session, number: 1, seal: "00".repeat(16) };
    let other = Opener::new(session + 1, OpeningKey::new(&[9; 16], &[])).resume(1);
    for (n, message) in [(2, forged), (3, other), (4, Message::Resumed)] {
        let link = arrive(&mut server, n, 2);
        server.say(link, &message);
        let said = server.messages(link);
        assert!(matches!(said[..], [Message::Refused { .. }]), "{said:?}");
        assert!(server.closed.contains(&link));
    }
    server.say(first, &Message::Ping { n: 9 });
    assert_eq!(server.messages(first), [Message::Pong { n: 9 }], "the session is where it was");
    // Its own client.
    let second = arrive(&mut server, 5, 1);
    server.say(second, &opener.resume(1));
    assert_eq!(server.messages(second), [Message::Resumed]);
    assert!(server.closed.contains(&first));
    server.say(second, &Message::Stop);
    server.obey();
    server.obey();
    assert!(result(&server.messages(second)));
    // The result is lost, too; the same attempt is not taken twice.
    let again = arrive(&mut server, 6, 1);
    server.say(again, &opener.resume(1));
    assert!(matches!(server.messages(again)[..], [Message::Refused { .. }]));
    let third = arrive(&mut server, 7, 1);
    server.say(third, &opener.resume(2));
    let said = server.messages(third);
    assert!(said[0] == Message::Resumed && result(&said), "{said:?}");
    assert!(server.groups.keys().all(|group| group.0 == 0), "{:?}", server.groups);
    // Nothing is kept once another session is proposed.
    server.say(third, &propose(2, small()));
    let late = arrive(&mut server, 8, 1);
    server.say(late, &opener.resume(3));
    assert!(matches!(server.messages(late)[..], [Message::Refused { .. }]));
}

#[test]
fn ends_of_earlier_versions_are_served_as_before() {
    let (mut server, opener) = session(false);
    let link = arrive(&mut server, 2, 1);
    server.say(link, &opener.resume(1));
    assert!(matches!(server.messages(link)[..], [Message::Refused { .. }]));
    // A server that does not know of other connections is asked for none.
    let mut client = running(client_plan(&Phase { duration_ns: None, ..small() }));
    let connects = client.connects.len();
    client.feed(Input::Stop);
    client.pass(20 * SECOND);
    assert_eq!(client.connects.len(), connects);
}
