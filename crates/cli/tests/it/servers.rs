//! Several servers: each that was named is measured, or the run reports that it was not.

use crate::support::net::free_port;
use crate::support::{Line, Outcome, as_it_is, at_once, number, serve};

/// Each question that several servers can be asked at once, with its shortest run and no number of
/// connections.
const QUESTIONS: [&str; 7] = [
    "tcp -t 500ms",
    "connect -t 500ms",
    "ping -n 3 --no-baseline",
    "ping -u -n 3 --no-baseline",
    "delay -t 500ms",
    "stream --length 1s -b 1M",
    "load -t 1s --ramp 1s",
];

fn ask(words: &str, servers: &[&str]) -> Line {
    let (verb, options) = words.split_once(' ').unwrap();
    let line = servers.iter().fold(as_it_is(verb), |line, at| line.arg(at));
    line.args(options)
}

#[test]
fn each_server_that_is_named_is_measured() {
    at_once(&QUESTIONS, |words| {
        let (one, other) = (serve(""), serve(""));
        let (a, b) = (one.at(), other.at());
        let outcome = Outcome::of(ask(words, &[&a, &b]).arg("--json").run());
        for point in outcome.json["points"].as_array().unwrap() {
            let ends = point["remote"].as_array().unwrap();
            assert_eq!(ends.len(), 2, "{words}: {}", outcome.tell());
            for end in ends {
                assert!(number(&end["opened"]) > 0, "{words}: {end}");
            }
        }
        let idle = outcome.json.to_string().contains("server-not-measured");
        assert!(!idle, "{words}: {}", outcome.tell());
        // Each server itself has moved something, too.
        for server in [one, other] {
            let done = server.end();
            assert!(!done.out.contains("ended: 0 bytes received, 0 sent"), "{words}: {}", done.tell());
        }
    });
    let (one, other) = (serve("--legacy discard:0"), serve("--legacy discard:0"));
    let at = [&one, &other].map(|server| format!("127.0.0.1:{}", server.proc.port_of("discard")));
    ask("tcp --protocol discard -t 500ms", &[&at[0], &at[1]]).run().exits(0);
    for server in [one, other] {
        let done = server.end();
        assert!(done.out.contains("discard: 1 connections"), "{}", done.tell());
    }
}

#[test]
fn fewer_connections_than_servers_are_refused() {
    let both = ["127.0.0.1:9", "127.0.0.1:10"];
    for words in
        ["tcp -P 1", "connect -P 1", "ping -P 1", "ping -u -P 1", "delay -P 1", "stream -P 1", "load -P 1"]
    {
        let done = ask(words, &both).run().exits(2).says_one_sentence();
        done.complains(&["2 servers cannot share 1 connection", "-P 2"]);
    }
    ask("tcp --sweep connections=1,2", &both).run().exits(2).complains(&["2 servers cannot share"]);
    ask("train -n 10", &both).run().exits(2).says_one_sentence().complains(&["to one server"]);
    ask("tcp --protocol iperf3", &both)
        .run()
        .exits(2)
        .says_one_sentence()
        .complains(&["one server at a time"]);
}

#[test]
fn a_server_without_a_part_of_the_run_is_a_caveat_that_meets_no_condition() {
    let server = serve("");
    let (at, closed) = (server.at(), format!("127.0.0.1:{}", free_port()));
    for words in ["tcp -t 500ms", "ping -n 3 --no-baseline", "delay -t 500ms"] {
        let done = ask(words, &[&at, &closed]).args("--json --assert errors=0").run().exits(3);
        done.json()["points"][0]["caveats"]
            .as_array()
            .unwrap()
            .iter()
            .find(|caveat| caveat["code"] == "server-not-measured" && caveat["level"] == "invalid")
            .unwrap_or_else(|| panic!("{}", done.tell()));
        done.complains(&[&format!("Nothing was measured at {closed}")]);
    }
    server.end();
}
