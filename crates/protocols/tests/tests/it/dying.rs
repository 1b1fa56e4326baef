//! Paths that die in mid-run: what was measured is kept, the run is partial, and the moment is
//! told.

use crate::reach::questions;
use crate::support::run::{MS, Told, client_plan, join, outcome, serve, server_plan, told};
use crate::support::sized;
use metrics::SECOND;
use model::{Kind, Pattern, Phase, Probe, Range, Schedule, Status};
use sim::{At, Cut, Link, Network, START};

/// How long the path lives, from the beginning of the simulation, ns.
const LIVES: u64 = 4_200 * MS;

/// The questions that send datagrams, for seven seconds each, and `tcp` each way.
fn long_questions() -> Vec<(&'static str, Phase)> {
    let longer = |(name, mut phase): (&'static str, Phase)| {
        phase.duration_ns = Some(7 * SECOND);
        phase.probe = phase.probe.map(|probe| Probe { lead_ns: 500 * MS, late_ns: 400 * MS, ..probe });
        if phase.train.is_none() {
            phase.rate = phase.rate.map(|rate| rate / 2);
        }
        if let Some(ping) = &mut phase.ping {
            ping.schedule = Schedule::Fixed { gap_ns: 20 * MS };
            ping.messages = None;
            ping.timeout_ns = SECOND;
        }
        if let Some(train) = &mut phase.train {
            (train.repeat, train.every_ns) = (35, SECOND / 5);
        }
        if let Some(media) = &mut phase.media {
            media.frames = 350;
            phase.duration_ns = None;
        }
        (name, phase)
    };
    let tcp = |pattern| Phase {
        pattern,
        connections: 2,
        duration_ns: Some(7 * SECOND),
        buffer: Range::just(64 * 1024),
        ..Phase::default()
    };
    let datagrams = questions().into_iter().map(longer);
    datagrams.chain([("tcp", tcp(Pattern::Push)), ("tcp -R", tcp(Pattern::Pull))]).collect()
}

fn network() -> Network {
    let mut net = Network::new(7);
    let link = Link::new().delay(5 * MS).rate(10_000_000);
    net.links(link.clone(), link);
    net
}

/// The instant that a reason names, as "after 3.2 s", from the beginning of the run.
fn named(reason: &str) -> f64 {
    let words = reason.split("after ").nth(1).unwrap_or_else(|| panic!("no instant: {reason}"));
    words.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("no instant: {reason}"))
}

/// Seconds from the reported start of the run until its path was cut.
fn lived(net: &Network, client: sim::Host) -> f64 {
    let begun = net.events(client).iter().find_map(|(_, event)| match event {
        model::Event::Start { at } => Some(at.0),
        _ => None,
    });
    let zero = 1_700_000_000_000_000_000;
    (START.plus(LIVES).0 as f64 - (begun.unwrap() - zero) as f64) / 1e9
}

#[track_caller]
fn is_partial(it: &Told, what: &str) {
    let (_, status, reason) = it.end.clone().unwrap();
    assert_eq!(status, Status::Partial, "{what}: {reason:?}");
    // What was measured until then is there.
    assert!(it.local.is_some() && it.intervals.len() >= 3, "{what}");
    let (sent, received) = (it.local().traffic.tx_bytes, it.local().traffic.rx_bytes);
    assert!(sent + received > 1_000, "{what}: {sent} {received}");
}

#[test]
fn a_path_that_dies_altogether() {
    for (name, phase) in long_questions() {
        let mut net = network();
        let server = serve(&mut net, server_plan());
        let client = join(&mut net, 0, client_plan(&phase));
        net.unplug_at(server, START.plus(LIVES));
        net.run();
        let it = told(&net, client);
        is_partial(&it, name);
        assert!(it.reason().contains("nothing arrived after"), "{name}: {}", it.reason());
        // The control connection is heard at least once a second.
        let (told, true_one) = (named(it.reason()), lived(&net, client));
        assert!((true_one - 1.1..true_one + 0.1).contains(&told), "{name}: {told} for {true_one}");
        assert!(it.end.unwrap().0 <= START.plus(LIVES + 25 * SECOND), "{name}");
    }
}

#[test]
fn datagrams_that_die_while_tcp_lives() {
    let dead = || Link::new().delay(5 * MS).cut(At::Time(START.plus(LIVES)), Cut::Silence);
    let alive = || Link::new().delay(5 * MS);
    let questions = long_questions().into_iter().filter(|(_, phase)| phase.kind != Kind::Tcp);
    for (nth, (name, phase)) in questions.enumerate() {
        // Where its datagrams go the other way, only the words about them do not get through.
        let (sends_up, sends_down) = match &phase.ping {
            Some(_) => (true, true),
            None => (phase.pattern.sends_up(), phase.pattern.sends_down()),
        };
        let paths = [
            ("both", true, dead(), dead()),
            ("up", sends_up, dead(), alive()),
            ("down", sends_down, alive(), dead()),
        ];
        let paths = paths.into_iter().filter(|(_, sends, ..)| *sends);
        // Every other path of a question in ./test, in turn.
        for (dies, _, up, down) in paths.skip(sized(nth % 2, 0)).step_by(sized(2, 1)) {
            let what = format!("{name}, {dies} dead");
            let mut net = network();
            net.datagram_links(up, down);
            serve(&mut net, server_plan());
            let client = join(&mut net, 0, client_plan(&phase));
            net.run();
            let it = told(&net, client);
            is_partial(&it, &what);
            assert!(it.reason().contains("over UDP after"), "{what}: {}", it.reason());
            assert!(it.reason().contains("although TCP works"), "{what}: {}", it.reason());
            assert!(!it.remote.is_empty(), "{what}: the server's counts came over TCP");
            let (told, true_one) = (named(it.reason()), lived(&net, client));
            // A frame of the stream or a train may have been the last long before.
            let before = if phase.train.is_some() { 0.3 } else { 0.1 };
            assert!((true_one - before..true_one + 0.1).contains(&told), "{what}: {told} for {true_one}");
        }
    }
}

#[test]
fn a_path_that_recovers_or_only_loses_is_not_dead() {
    let losses = [(0.5, 0.0), (0.0, 0.9), (0.5, 0.5), (0.0, 0.0)];
    let questions = long_questions().into_iter().filter(|(_, phase)| phase.kind != Kind::Tcp);
    for (nth, (name, phase)) in questions.enumerate() {
        // One of the paths for each question in ./test, in turn.
        for (up, down) in losses.into_iter().skip(sized(nth % 4, 0)).step_by(sized(4, 1)) {
            let mut net = network();
            net.datagram_links(Link::new().delay(5 * MS).loss(up), Link::new().delay(5 * MS).loss(down));
            let it = outcome(&mut net, server_plan(), client_plan(&phase));
            assert!(!it.reason().contains("nothing"), "{name} {up} {down}: {}", it.reason());
            assert_ne!(it.status(), Status::Partial, "{name} {up} {down}");
        }
    }
}

/// What is measured goes one way, and what dies is the other: the sender hears nothing, and gives
/// up.
#[test]
fn a_sender_that_hears_nothing_more() {
    let (_, phase) = long_questions().into_iter().find(|(name, _)| *name == "delay -R").unwrap();
    let phase = Phase { duration_ns: Some(40 * SECOND), ..phase };
    let mut net = network();
    let dead = Link::new().delay(5 * MS).cut(At::Time(START.plus(LIVES)), Cut::Silence);
    net.datagram_links(dead, Link::new().delay(5 * MS));
    serve(&mut net, server_plan());
    let client = join(&mut net, 0, client_plan(&phase));
    net.run();
    let it = told(&net, client);
    is_partial(&it, "delay -R, up dead");
    // It gives up 8 s later; the last word arrived up to 3 s before the path died: little is asked
    // for, and words are seldom.
    let (told, died) = (named(it.reason()), lived(&net, client));
    assert!((died - 3.1..died + 0.1).contains(&told), "{told} for {died}: {}", it.reason());
    assert!(it.end.unwrap().0 < START.plus(LIVES + 25 * SECOND));
}
