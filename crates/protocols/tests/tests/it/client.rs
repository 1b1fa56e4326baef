//! A client driven by hand: servers whose words come late, twice, never, or are none of ours.

use crate::support::driven::{
    Driven, accepted, answer, client_with, corrected, intervals, moved, running, status,
};
use crate::support::run::{MS, address, client_plan, held, small};
use common::Peer;
use metrics::{Ending, Group, SECOND, Tally};
use model::{Event, Pattern, Phase, Status, Traffic};
use native::{Client, ClientPlan, Message, Preamble, Purpose};
use sim::START;
use transport::{Input, Link, Order};

/// A plan with a second server.
fn of_two(mut plan: ClientPlan) -> ClientPlan {
    plan.config.peers.push(Peer::new("other", address(2)));
    plan
}

fn report(index: u32, rx_bytes: u64) -> Message {
    Message::Interval {
        index,
        traffic: Traffic { tx_bytes: 0, rx_bytes, ns: SECOND, ..Traffic::default() },
        open: 1,
        others: 0,
        came_ns: None,
        packets: None,
    }
}

#[test]
fn remote_reports_may_come_early_late_twice_or_never() {
    // It ends after all that is told here.
    let phase = Phase { duration_ns: Some(20_000 * SECOND), ..small() };
    let mut client = running(client_plan(&phase));
    let link = Link(1);
    // Early, and ahead of its time.
    client.say(link, &report(1, 11));
    client.say(link, &report(0, 10));
    assert_eq!(intervals(&client), []);
    client.tally(Group(1), 0);
    assert_eq!(intervals(&client), [(0, Some(10))]);
    client.pass(SECOND);
    client.tally(Group(1), 1);
    assert_eq!(intervals(&client), [(0, Some(10)), (1, Some(11))]);
    // Late: waited for until 1.4 intervals after the one before; later ones follow in their rhythm.
    client.pass(SECOND);
    client.tally(Group(1), 2);
    client.say(link, &report(3, 13));
    client.pass(300 * MS);
    assert_eq!(intervals(&client).len(), 2);
    client.pass(200 * MS);
    assert_eq!(intervals(&client)[2..], [(2, None)]);
    client.pass(500 * MS);
    client.tally(Group(1), 3);
    client.pass(100 * MS);
    assert_eq!(intervals(&client)[2..], [(2, None), (3, Some(13))]);
    // The late one corrects its interval, once. Repeated and absurd ones change nothing and are not
    // kept.
    for index in [0, 2, 2, 3, u32::MAX, 5_000] {
        client.say(link, &report(index, 99));
    }
    assert_eq!(corrected(&client), [(2, Some(99))]);
    client.pass(SECOND);
    client.tally(Group(1), 4);
    client.say(link, &report(4, 14));
    assert_eq!(intervals(&client)[4..], [(4, Some(14))]);
    // What was not kept is not there when its time comes.
    for index in 5..=5_000 {
        client.say(link, &Message::Pong { n: 0 });
        client.tally(Group(1), index);
        client.pass(2 * SECOND);
    }
    assert!(client.open.contains(&link), "the server is still there");
    assert_eq!(intervals(&client).last(), Some(&(5_000, None)));
}

#[test]
fn the_sum_of_two_remote_ends_is_told_only_when_it_is_whole() {
    let mut client = running(of_two(client_plan(&small())));
    client.tally(Group(1), 0);
    client.say(Link(1), &report(0, 10));
    assert_eq!(intervals(&client), []);
    client.say(Link(2), &report(0, 5));
    assert_eq!(intervals(&client), [(0, Some(15))]);
    client.tally(Group(1), 1);
    client.say(Link(1), &report(1, 10));
    client.pass(2 * SECOND);
    assert_eq!(intervals(&client)[1..], [(1, None)], "half of it is not the sum");
    client.say(Link(2), &report(1, 6));
    assert_eq!(corrected(&client), [(1, Some(16))]);
    // One is lost: the other's figure is all there is.
    client.feed(Input::Down(Link(2), None));
    client.tally(Group(1), 2);
    client.say(Link(1), &report(2, 7));
    assert_eq!(intervals(&client)[2..], [(2, Some(7))]);
}

#[test]
fn a_server_that_hangs_up_after_its_result_was_complete() {
    let mut client = running(client_plan(&small()));
    client.feed(Input::Idle(Group(1)));
    client.say(Link(1), &Message::Result { totals: moved() });
    client.say(Link(1), &Message::Bye);
    client.feed(Input::Down(Link(1), None));
    assert!(!client.done, "our own totals are still being counted");
    client.obey();
    assert!(client.done);
    assert_eq!(status(&client), Some((Status::Complete, String::new())));
}

/// In an interval so many of them move their bytes and so many fail, which had sent so many bytes.
/// Whether the run has been told to end a while later.
fn ends(client: &mut Driven<Client>, index: u32, moved: u64, (failed, had_sent): (u64, u64)) -> bool {
    let mut tally = Tally { tx_bytes: 64 * moved, ended_tx: had_sent, ..Tally::default() };
    tally.ended[Ending::NetworkError as usize] = failed;
    let (from, to) = (client.now, client.now.plus(SECOND));
    client.feed(Input::Tally { group: Group(1), index, from, to, tally: &tally });
    client.pass(3 * SECOND);
    client.say(Link(1), &Message::Pong { n: 0 });
    client.groups[&Group(1)].contains(&Order::Stop)
}

#[test]
fn a_held_connection_that_fails_after_its_bytes_have_moved_counts_once() {
    let mut client = running(client_plan(&held(SECOND)));
    assert!(!ends(&mut client, 0, 3, (0, 0)));
    assert!(!ends(&mut client, 1, 0, (1, 64)), "the fourth has not been heard of");
    assert!(ends(&mut client, 2, 1, (0, 0)));
}

#[test]
fn a_held_run_that_loses_a_server_ends_when_its_share_has_failed() {
    let mut client = running(of_two(client_plan(&held(SECOND))));
    assert!(!ends(&mut client, 0, 2, (0, 0)));
    client.feed(Input::Down(Link(2), None));
    assert!(!ends(&mut client, 1, 0, (1, 0)));
    assert!(ends(&mut client, 2, 0, (1, 0)));
}

/// A running client that loses its only server by `trouble`, and the reason that it reports.
fn lost(trouble: impl FnOnce(&mut Driven<Client>)) -> (Status, String) {
    let mut client = running(client_plan(&Phase { duration_ns: Some(600 * SECOND), ..small() }));
    trouble(&mut client);
    client.feed(Input::Idle(Group(1)));
    client.obey();
    status(&client).unwrap()
}

#[test]
fn a_server_that_gives_a_running_session_up_has_not_refused_it() {
    let reason = "no word of the client within 9 s";
    let (status, told) = lost(|client| client.say(Link(1), &Message::Refused { reason: reason.to_owned() }));
    assert_eq!(status, Status::Partial);
    assert!(told.contains(&format!("the server ended the session: {reason}")), "{told}");
}

#[test]
fn a_silent_server_behind_a_long_queue_is_waited_for_longer() {
    let mut ping = None;
    let mut client = running(client_plan(&Phase { duration_ns: Some(600 * SECOND), ..small() }));
    for _ in 0..3 {
        client.pass(SECOND);
        let beats = client.messages(Link(1)).into_iter().filter_map(|message| match message {
            Message::Ping { n } => Some(n),
            _ => None,
        });
        ping = ping.or(beats.min());
    }
    // The heartbeat of the first second is answered in the third.
    client.say(Link(1), &Message::Pong { n: ping.unwrap() });
    for _ in 0..13 {
        client.pass(SECOND);
    }
    assert!(client.open.contains(&Link(1)), "10 s and two round trips of 2 s are not over");
    for _ in 0..3 {
        client.pass(SECOND);
    }
    assert!(!client.open.contains(&Link(1)));
}

#[test]
fn a_server_that_never_sends_its_result_is_not_waited_for() {
    let mut client = running(client_plan(&small()));
    client.feed(Input::Idle(Group(1)));
    client.obey();
    for _ in 0..20 {
        client.pass(SECOND);
        client.say(Link(1), &Message::Pong { n: 0 });
    }
    assert!(client.done);
    let (status, reason) = status(&client).unwrap();
    assert_eq!(status, Status::Partial);
    assert!(reason.contains("it sent no results within 15 s"), "{reason}");
    assert!(client.events.iter().any(|e| matches!(e, Event::Local(_))));
}

#[test]
fn a_server_may_grant_less_but_nothing_else() {
    type Change = fn(&mut Phase);
    let cases: [(&str, Change); 9] = [
        ("more connections", |p| p.connections += 1),
        ("a longer run", |p| p.duration_ns = Some(99 * SECOND)),
        ("a run without end", |p| p.duration_ns = None),
        ("another pattern", |p| p.pattern = Pattern::Pull),
        ("no verification", |p| p.verify = model::Verify::None),
        ("a larger buffer", |p| p.buffer.high += 1),
        ("a larger transfer", |p| p.transfer *= 2),
        ("another stall time", |p| p.stall_ns += 1),
        ("bursts", |p| p.burst = Some(model::Burst { count: 1, delay_ns: 1 })),
    ];
    for (what, change) in cases {
        let mut client = client_with(client_plan(&small()));
        for _ in 0..20 {
            if let Some(message) = answer(&mut client, Link(1)) {
                let message = match message {
                    Message::Accepted { mut phase, .. } => {
                        change(&mut phase);
                        accepted(*phase)
                    }
                    other => other,
                };
                client.say(Link(1), &message);
            }
        }
        assert!(client.done, "{what}");
        let (status, reason) = status(&client).unwrap();
        assert_eq!(status, Status::Failed);
        assert!(reason.contains("something else than what was proposed"), "{what}: {reason}");
    }
}

#[test]
fn servers_that_are_none_of_ours_are_named() {
    let answer = Preamble { version: native::WIRE_VERSION + 1, ..Preamble::new(Purpose::Answer) }.encode();
    for (bytes, expect) in [
        (&answer[..], "it speaks wire version 4, this program speaks 3"),
        (b"HTTP/1.1 400 Bad Request\r\n", "it answers in HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it answers in SSH"),
        (b"220 mail ESMTP\r\n", "it answers in a text protocol"),
        (&[0x15, 3, 3, 0, 2, 2, 40], "it answers in TLS"),
        (&[9], "it answers in iperf3"),
        (&[0xc3, 0xf1, 0x80], "it is not a netcaliper server"),
    ] {
        for split in [1, 7, 64] {
            // A single byte of a text says less than the whole of it.
            if split < 64 && !bytes.starts_with(&answer[..1]) {
                continue;
            }
            let mut client = client_with(client_plan(&small()));
            for chunk in bytes.chunks(split) {
                if client.open.contains(&Link(1)) {
                    client.feed(Input::Bytes(Link(1), chunk));
                }
            }
            let (status, reason) = status(&client).unwrap();
            assert_eq!(status, Status::Failed);
            assert!(reason.contains(expect), "{split}: {reason}");
        }
    }
    let mut client = client_with(client_plan(&small()));
    client.feed(Input::Down(Link(1), None));
    assert!(status(&client).unwrap().1.contains("without a word: is it netcaliper?"));
    let mut client = client_with(client_plan(&small()));
    client.pass(11 * SECOND);
    assert!(status(&client).unwrap().1.contains("said nothing for 10 s: is it netcaliper?"));
}

#[test]
fn a_connection_that_comes_after_it_was_given_up_is_closed() {
    let mut client = Driven::new(Client::new(of_two(client_plan(&small())), START));
    client.feed(Input::Up(Link(1), Driven::<Client>::path(1), Some(0)));
    let hello = answer(&mut client, Link(1)).unwrap();
    client.say(Link(1), &hello);
    for _ in 0..11 {
        client.pass(SECOND);
        if let Some(message) = answer(&mut client, Link(1)) {
            client.say(Link(1), &message);
        }
    }
    client.feed(Input::Up(Link(2), Driven::<Client>::path(2), Some(1)));
    assert!(client.closed.contains(&Link(2)));
}
