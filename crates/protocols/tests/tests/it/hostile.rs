//! Sessions driven by hand: peers that say what they like at any step, and machines whose messages
//! come late.

use crate::support::bench::inputs;
use crate::support::driven::{Driven, answer, client_with, hello, moved};
use crate::support::run::{address, client_plan, server_with, small, stopping};
use common::Peer;
use metrics::{Group, SECOND};
use model::{Event, Pattern, Phase, Traffic};
use native::{Message, Server};
use sim::START;
use std::collections::BTreeMap;
use transport::{Deed, Fault, Input, Link, Rng, Session};
use uuid::Uuid;

fn text(rng: &mut Rng) -> String {
    ["", "why", "\u{1b}[2J\u{0}", "x\ny"][rng.between(0, 3) as usize].to_owned()
}

fn any_phase(rng: &mut Rng) -> Phase {
    let big = [0, 1, 5, u64::MAX, 1 << 40][rng.between(0, 4) as usize];
    let mut phase = small();
    match rng.between(0, 9) {
        0 => phase.connections = big as u32,
        1 => phase.transfer = big,
        2 => phase.duration_ns = Some(big),
        3 => phase.interval_ns = big,
        4 => phase.omit_ns = big,
        5 => phase.exclusive = true,
        6 => phase.pattern = Pattern::PushPull { push: big, pull: 1 },
        7 => phase.burst = Some(model::Burst { count: 1, delay_ns: big }),
        8 => phase.stall_ns = big,
        _ => phase.duration_ns = None,
    }
    phase
}

fn any_message(rng: &mut Rng, proposal: &Phase) -> Message {
    let n = rng.next() as u32;
    match rng.between(0, 20) {
        0 => Message::Hello {
            version: text(rng),
            capabilities: vec![text(rng)],
            nonce: text(rng),
            host: String::new(),
        },
        1 | 2 => Message::Hello {
            version: text(rng),
            capabilities: vec![],
            nonce: "0f".repeat(16),
            host: String::new(),
        },
        3 => Message::Noise { protocol: text(rng), key: text(rng), data: text(rng) },
        4 => Message::Ping { n },
        5 => Message::Pong { n: n % 8 },
        6 => Message::Propose { run: Uuid::from_u128(u128::from(n % 4)), phase: Box::new(any_phase(rng)) },
        7 => Message::Propose { run: rng.uuid(), phase: Box::new(small()) },
        8 => Message::Queued { ahead: n, reason: text(rng) },
        9 | 10 => Message::Accepted {
            accepted: model::Accepted::default(),
            secret: if n & 7 == 0 { text(rng) } else { "11".repeat(16) },
            phase: Box::new(if n & 3 == 0 { any_phase(rng) } else { proposal.clone() }),
            host: Box::default(),
            workers: n,
            placement: text(rng),
            process_ports: (0..n % 3)
                .map(|at| native::ProcessPort { port: at as u16, connections: n % 5 })
                .collect(),
        },
        11 => Message::Refused { reason: text(rng) },
        12 => Message::Start,
        13 => Message::Started,
        14 => Message::Interval {
            index: if n & 1 == 0 { n } else { n % 9 },
            traffic: Traffic { tx_bytes: n.into(), rx_bytes: 1, ns: 1, ..Traffic::default() },
            open: 1,
            others: 1,
            came_ns: None,
            packets: None,
        },
        15 => Message::Stop,
        16 => Message::Result { totals: moved() },
        17 if n & 7 == 0 => Message::Stopping { reason: text(rng), limited: n & 8 == 0 },
        18 if n & 7 == 0 => Message::Bye,
        18 => Message::Abort { within_ns: u64::from(n) },
        20 => Message::Resume { session: u64::from(n % 4), number: n, seal: "11".repeat(16) },
        19 if n & 15 == 0 => Message::Shutdown { only: (n & 16 == 0).then(|| "echo:7".to_owned()) },
        _ => Message::Ping { n: n % 8 },
    }
}

#[test]
fn a_server_survives_anything_its_clients_say_in_any_order() {
    for seed in 0..u64::from(inputs() / 400) {
        let mut rng = Rng::new(seed);
        let plan = server_with(|config| {
            config.exclusive = seed % 5 == 0;
            config.exit_after = (seed % 7 == 0).then_some(0);
        });
        let mut server = Driven::new(Server::new(plan, START));
        let mut next = 0;
        for _ in 0..600 {
            if server.done {
                break;
            }
            let links: Vec<_> = server.open.iter().copied().collect();
            let one = (!links.is_empty()).then(|| links[rng.between(0, links.len() as u64 - 1) as usize]);
            match (rng.between(0, 30), one) {
                (0..4, _) if links.len() < 12 => {
                    next += 1;
                    // Every other one is from the server's own host, and may shut it down.
                    let mut path = Driven::<Server>::path(next);
                    if next % 2 == 0 {
                        path.peer = ([127, 0, 0, 1], 999).into();
                    }
                    server.feed(Input::Up(Link(next), path, None));
                    server.say(Link(next), &hello("00".repeat(16)));
                }
                (4..6, Some(link)) if rng.between(0, 5) == 0 => server.feed(Input::Down(link, None)),
                (6..8, Some(link)) => {
                    // A whole conversation.
                    for message in
                        [Message::Propose { run: rng.uuid(), phase: Box::new(small()) }, Message::Start]
                    {
                        server.say(link, &message);
                    }
                }
                (8, Some(link)) => server.feed(Input::Bytes(link, &[rng.next() as u8, 0, 0, 9])),
                (9, _) => server.pass(rng.between(0, 3) * SECOND),
                (10, _) => server.pass(rng.between(0, 70) * SECOND),
                (11..13, _) => server.obey(),
                (13..15, _) => {
                    for group in server.groups.keys().copied().collect::<Vec<_>>() {
                        let index = rng.between(0, 9) as u32;
                        server.tally(group, index);
                    }
                }
                (15, _) if rng.between(0, 40) == 0 => server.feed(Input::Stop),
                (_, Some(link)) => {
                    let message = any_message(&mut rng, &small());
                    server.say(link, &message);
                }
                _ => {}
            }
        }
        // Everybody leaves: nothing is left but the server itself.
        for link in server.open.clone() {
            server.feed(Input::Down(link, Some(Fault { deed: Deed::Receive, errno: 104 })));
        }
        for _ in 0..3 {
            server.obey();
        }
        server.pass(1_000 * SECOND);
        assert_eq!(server.groups.len(), usize::from(!server.done), "{seed}: {:?}", server.groups);
        assert_eq!(server.session.deadline(), None, "{seed}");
        server.feed(Input::Stop);
        for _ in 0..3 {
            server.obey();
        }
        assert!(server.done, "{seed}");
    }
}

#[test]
fn a_client_survives_anything_a_server_says_and_ends_in_bounded_time() {
    let mut ends = BTreeMap::new();
    for seed in 0..u64::from((inputs() / 10).min(25_000)) {
        let mut rng = Rng::new(seed);
        let mut plan = client_plan(&small());
        if seed % 3 == 0 {
            plan.config.peers.push(Peer::new("other", address(2)));
        }
        let peers = plan.config.peers.len() as u64;
        if seed % 11 == 0 {
            plan.config.options = stopping(None);
        }
        let mut client = client_with(plan);
        let polite = seed % 2 == 0;
        for step in 0..rng.between(1, 150) {
            let link = Link(rng.between(1, peers));
            let message = if polite && step < 40 { answer(&mut client, link) } else { None };
            let message = message.unwrap_or_else(|| any_message(&mut rng, &small()));
            client.say(link, &message);
            match rng.between(0, 20) {
                0 => client.pass(rng.between(0, 4) * SECOND),
                1..3 => client.obey(),
                3..5 if client.groups.contains_key(&Group(1)) => {
                    let index = rng.between(0, 4) as u32;
                    client.tally(Group(1), index);
                }
                5 if rng.between(0, 20) == 0 => client.feed(Input::Stop),
                6 if rng.between(0, 20) == 0 && client.open.contains(&link) => {
                    client.feed(Input::Down(link, None));
                }
                7 if client.groups.contains_key(&Group(1)) && rng.between(0, 9) == 0 => {
                    client.feed(Input::Idle(Group(1)));
                }
                _ => {}
            }
            if client.done {
                break;
            }
        }
        // The server goes on answering pings and says nothing else.
        for _ in 0..200 {
            if client.done {
                break;
            }
            client.pass(SECOND);
            client.obey();
            for link in client.open.clone() {
                client.say(link, &Message::Pong { n: 0 });
            }
        }
        let waits = !client.done && !client.groups.contains_key(&Group(1));
        // One may wait in a queue, for another server that queues it, or for a server to end, as
        // long as that answers.
        assert!(client.done || waits, "{seed}: {:?}", client.groups);
        if waits {
            client.feed(Input::Stop);
            client.obey();
        }
        assert!(client.done, "{seed}");
        let ended = |event: &Event| match event {
            Event::PhaseEnd { status, .. } => Some(*status),
            _ => None,
        };
        let status: Vec<_> = client.events.iter().filter_map(ended).collect();
        assert_eq!(status.len(), 1, "{seed}");
        *ends.entry(format!("{:?}", status[0])).or_insert(0) += 1;
    }
    assert!(ends.len() == 4 && ends.values().all(|&n| n > 5), "every kind of end is reached: {ends:?}");
}

#[test]
fn the_queue_survives_the_end_of_the_server_in_any_order() {
    for seed in 0..u64::from(inputs() / 400) {
        let mut rng = Rng::new(seed);
        let mut server = Driven::new(Server::new(server_with(|config| config.exclusive = true), START));
        for n in 1..=30 {
            server.feed(Input::Up(Link(n), Driven::<Server>::path(n), None));
            server.say(Link(n), &hello("00".repeat(16)));
            server.say(Link(n), &Message::Propose { run: rng.uuid(), phase: Box::new(small()) });
        }
        server.say(Link(1), &Message::Start);
        match seed % 3 {
            0 => server.feed(Input::Stop),
            1 => server.feed(Input::Down(Link(1), None)),
            _ => server.say(Link(rng.between(1, 30)), &Message::Bye),
        }
        for _ in 0..40 {
            let link = Link(rng.between(1, 30));
            match rng.between(0, 4) {
                0 if server.open.contains(&link) => server.feed(Input::Down(link, None)),
                1 => server.obey(),
                2 => server.say(link, &Message::Start),
                _ => server.say(link, &Message::Stop),
            }
            let held = server.groups.keys().filter(|g| **g != Group::ALL).count();
            assert!(held <= 2, "one runs, one may be on its way out: {held}");
        }
        server.feed(Input::Stop);
        server.pass(30 * SECOND);
        for _ in 0..3 {
            server.obey();
        }
        assert!(server.done, "{seed}");
    }
}
