//! A path that carries TCP and no UDP: every question that needs UDP ends soon, and says so.

use crate::support::files::Scratch;
use crate::support::net::{Namespace, both_kinds};
use crate::support::relay::{Harm, Relay, Victim, Way};
use crate::support::{Line, Outcome, Proc, Server, at_once, netcaliper, number, serve, skip, text};
use std::time::Duration;

/// What each question takes by itself, and a run that is not cut short at once exceeds.
const LONG: Duration = Duration::from_secs(60);

/// Every question that sends datagrams, for a minute or more.
fn questions(at: &str) -> Vec<(&'static str, Line)> {
    let line = |verb: &str, words: &str| netcaliper(verb).arg(at).args(words);
    vec![
        ("delay", line("delay", "-t 90s --pps 50")),
        ("delay -R", line("delay", "-t 90s -R --pps 50 --wait block")),
        ("delay --bidir", line("delay", "-t 90s --bidir --pps 50 --wait block")),
        ("stream", line("stream", "--length 90s")),
        ("ping -u", line("ping", "-u --rate 20 -t 90s")),
        ("train", line("train", "--every 2s --repeat 45")),
        ("load", line("load", "-t 90s")),
    ]
}

/// All of them, running.
fn all_at_once(at: &str, placed: impl Fn(Line) -> Line) -> Vec<(&'static str, Proc)> {
    questions(at).into_iter().map(|(name, line)| (name, placed(line.arg("--json")).spawn())).collect()
}

/// The run has failed for this reason, which is told once, and its figures are not those of a path.
#[track_caller]
fn is_told(outcome: &Outcome) {
    const WHY: &str = "no UDP datagram comes back although TCP works: is a firewall in the way?";
    let json = &outcome.json;
    assert_eq!((outcome.done.code, text(&json["status"])), (Some(1), "failed"), "{}", outcome.tell());
    assert!(text(&json["reason"]).contains(WHY), "{}", outcome.tell());
    assert_eq!(outcome.done.err.matches(WHY).count(), 1, "{}", outcome.tell());
    assert!(!json.to_string().contains(r#""confirmed":true"#), "{}", outcome.tell());
    for point in json["points"].as_array().unwrap() {
        assert_ne!(text(&point["status"]), "complete", "{}", outcome.tell());
    }
}

#[test]
fn udp_that_nobody_answers_is_told_by_every_question() {
    let server = serve("");
    // Its UDP port takes everything and answers nothing.
    let (listener, _hole) = both_kinds();
    let harm = Harm::Delay { ms: 0 };
    let relay = Relay::at_listener(listener, server.port, Victim::Data(u32::MAX), Way::Up, harm);
    let at = relay.at();
    for (name, client) in all_at_once(&at, |line| line) {
        let done = client.wait_within(LONG);
        assert!(done.err.contains(&at), "{name}: {}", done.tell());
        is_told(&Outcome::of(done));
    }
    let done = netcaliper("delay").arg(&at).args("-t 90s --pps 50").spawn().wait_within(LONG);
    done.exits(1).says_one_sentence().complains(&["no UDP datagram comes back although TCP works"]);
    // Messages and datagrams of a stage fail alike.
    let done = netcaliper("load").arg(&at).args("-t 90s").spawn().wait_within(LONG);
    assert_eq!(done.out.matches("no UDP datagram").count(), 1, "{}", done.tell());
    // What needs no datagrams is not hindered.
    netcaliper("ping").arg(&at).args("-n 10").run().exits(0);
}

#[test]
fn udp_that_a_firewall_drops_is_told_whichever_way_it_drops() {
    const NAME: &str = "blocked::udp_that_a_firewall_drops_is_told_whichever_way_it_drops";
    for drops_at_server in [true, false] {
        let Some((here, there, server)) = two_hosts(NAME) else { return };
        if !(if drops_at_server { &there } else { &here }).drops_udp() {
            return skip(NAME, "this kernel has no packet filter for tc");
        }
        for (name, client) in all_at_once("10.77.0.2", |line| here.within(line)) {
            let done = client.wait_within(LONG);
            assert!(done.err.contains("10.77.0.2"), "{name}: {}", done.tell());
            is_told(&Outcome::of(done));
        }
        server.end();
    }
}

/// Two hosts with a cable between them, and a server on the second.
fn two_hosts(test: &str) -> Option<(Namespace, Namespace, Server)> {
    let (here, there) = Namespace::pair(test)?;
    let server = Server::start(there.within(netcaliper("serve").args("--max-rate 2M")));
    Some((here, there, server))
}

/// What befalls the path between two hosts.
#[derive(Clone, Copy)]
enum Cut {
    UdpToServer,
    UdpToClient,
    Cable,
}

/// A run by name, whose path is cut once it has told of some intervals.
#[track_caller]
fn dies(test: &str, words: &str, cut: Cut) -> Option<Outcome> {
    let (here, there, _server) = two_hosts(test)?;
    let (verb, rest) = words.split_once(' ').unwrap();
    let scratch = Scratch::new();
    let line = netcaliper(verb).args(rest).args("-i 200ms --json --save").arg(scratch.file("run.jsonl"));
    let client = here.within(line).spawn();
    scratch.hears_intervals("run.jsonl", 6);
    let is_cut = match cut {
        Cut::UdpToServer => there.drops_udp(),
        Cut::UdpToClient => here.drops_udp(),
        Cut::Cable => {
            here.ip("link set nc0 down");
            true
        }
    };
    if !is_cut {
        skip(test, "this kernel has no packet filter for tc");
        return None;
    }
    Some(Outcome::of(client.wait_within(LONG)).exits(4).status("partial"))
}

/// The instant that the reason names, s.
#[track_caller]
fn named(outcome: &Outcome) -> f64 {
    let instant =
        text(&outcome.json["reason"]).split(" after ").nth(1).and_then(|rest| rest.split(' ').next());
    instant.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no instant: {}", outcome.tell()))
}

#[test]
fn udp_that_dies_in_mid_run_is_told_with_the_instant() {
    const NAME: &str = "blocked::udp_that_dies_in_mid_run_is_told_with_the_instant";
    let cases = [
        ("delay 10.77.0.2 --pps 20 --wait block -t 10s", Cut::UdpToServer),
        ("ping 10.77.0.2 -u --rate 20 -t 10s", Cut::UdpToServer),
        // The server sends.
        ("stream 10.77.0.2 -b 200k --wait block --length 10s", Cut::UdpToClient),
    ];
    at_once(&cases, |(words, cut)| {
        let Some(outcome) = dies(NAME, words, cut) else { return };
        let reason = text(&outcome.json["reason"]);
        for part in ["over UDP after", "although TCP works"] {
            assert!(reason.contains(part), "{part}: {}", outcome.tell());
        }
        let instant = named(&outcome);
        assert!((0.1..9.0).contains(&instant), "{}", outcome.tell());
        // What was measured until then is there, and what the server counted.
        assert!(number(&outcome.local()["traffic"]["ns"]) > 0, "{}", outcome.tell());
        assert_eq!(outcome.remote().len(), 1, "{}", outcome.tell());
    });
}

/// The way that has no data carries the words about the other: when these stop, no end hears of it
/// from the data that still arrives.
#[test]
fn the_way_back_that_dies_in_mid_run_is_told_with_the_instant() {
    const NAME: &str = "blocked::the_way_back_that_dies_in_mid_run_is_told_with_the_instant";
    let cases = [
        ("", Cut::UdpToClient, "nothing arrived from the server over UDP"),
        ("-R", Cut::UdpToServer, "nothing arrived at the server over UDP"),
    ];
    at_once(&cases, |(way, cut, end)| {
        let words = format!("delay 10.77.0.2 --pps 20 --wait block -t 25s {way}");
        let Some(outcome) = dies(NAME, &words, cut) else { return };
        assert!(text(&outcome.json["reason"]).contains(end), "{}", outcome.tell());
        // The first second passes before the run begins or in it, and an end gives up only eight
        // seconds later.
        assert!((0.1..7.0).contains(&named(&outcome)), "{}", outcome.tell());
    });
}

#[test]
fn a_path_that_dies_in_mid_run_is_told_with_the_instant() {
    const NAME: &str = "blocked::a_path_that_dies_in_mid_run_is_told_with_the_instant";
    at_once(&["delay 10.77.0.2 --pps 20 --wait block -t 10s", "tcp 10.77.0.2 -b 1M -P 2 -t 10s"], |words| {
        let Some(outcome) = dies(NAME, words, Cut::Cable) else { return };
        assert!(text(&outcome.json["reason"]).contains("nothing arrived after"), "{}", outcome.tell());
        assert!((0.1..9.0).contains(&named(&outcome)), "{}", outcome.tell());
        assert!(number(&outcome.local()["traffic"]["tx_bytes"]) > 0, "{}", outcome.tell());
        assert!(!outcome.point()["intervals"].as_array().unwrap().is_empty(), "{}", outcome.tell());
    });
}

#[test]
fn a_path_that_dies_keeps_the_phases_before() {
    const NAME: &str = "blocked::a_path_that_dies_keeps_the_phases_before";
    // The first stage of a load has two sessions, and the first point of a sweep one.
    let cases = [
        ("load 10.77.0.2 -t 2s --ramp 1s -P 2", 3, 2),
        ("tcp 10.77.0.2 -P 1 -t 3s -b 1M --sweep connections=1,2", 2, 1),
    ];
    at_once(&cases, |(words, session, whole)| {
        let Some((here, _there, server)) = two_hosts(NAME) else { return };
        let (verb, rest) = words.split_once(' ').unwrap();
        let client = here.within(netcaliper(verb).args(rest)).arg("--json").spawn();
        server.proc.hears(&format!("session {session} with"));
        here.ip("link set nc0 down");
        let outcome = Outcome::of(client.wait_within(LONG)).exits(4).status("partial");
        let points = outcome.json["points"].as_array().unwrap();
        let complete = points.iter().filter(|point| point["status"] == "complete").count();
        assert_eq!(complete, whole, "{}", outcome.tell());
    });
}
