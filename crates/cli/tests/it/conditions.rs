//! `--assert`, `--repeat` and `--until-confidence` on every question.

use crate::support::files::Scratch;
use crate::support::{Outcome, netcaliper, number, serve, tcp, text};

#[test]
fn a_condition_that_is_not_met_is_exit_code_3() {
    let (server, scratch) = (serve(""), Scratch::new());
    let line = |words: &str| tcp(server.at()).args("-t 300ms -i 100ms -b 2M -P 1").args(words);
    let file = scratch.file("run.jsonl");
    let met = line("--assert goodput>1k --assert errors=0 --assert goodput.up<1T");
    met.arg("--save").arg(&file).run().exits(0);
    line("--assert goodput>1T --quiet")
        .run()
        .exits(3)
        .says_one_sentence()
        .complains(&["not met: goodput>1T: goodput to server was"]);
    line("--assert speed>1").run().exits(2).complains(&["'speed' cannot be asserted"]);
    line("--assert godput>1").run().exits(2).complains(&["did you mean 'goodput'?"]);
    // A figure that the question does not have is refused before the run.
    line("--assert loss<1%")
        .run()
        .exits(2)
        .says_one_sentence()
        .complains(&["has no such figure; it has goodput"]);
    line("--assert goodput.down>1k").run().exits(2).complains(&["has no such figure"]);
    line("--assert p99<5ms").run().exits(2).complains(&["did you mean connect.p99?"]);
    let monitor = netcaliper("monitor").args("--assert p99<5ms -- tcp").arg(server.at()).run();
    monitor.exits(2).complains(&["did you mean connect.p99?"]);
    // Machine formats say so, too.
    let done = line("--assert goodput>1T --json").run().exits(3);
    assert!(done.out.starts_with('{'), "{}", done.tell());
    // Saved runs are held to conditions as well.
    let report = |words: &str| netcaliper("report").arg(&file).args(words).run();
    report("--assert goodput>1k").exits(0);
    report("--assert goodput>1T").exits(3).complains(&["not met"]);
}

#[test]
fn a_monitored_failure_is_printed_once() {
    let at = format!("127.0.0.1:{}", crate::support::net::free_port());
    let done = netcaliper("monitor").args("--count 1 -- ping").arg(&at).run().exits(3);
    assert_eq!(done.out.matches("Connection refused").count(), 1, "{}", done.tell());
    assert_eq!(done.err, "", "{}", done.tell());
    // A message that its line does not have stays.
    let server = serve("");
    let line = netcaliper("monitor").args("--count 1 -- ping").arg(server.at());
    line.args("-n 3 --assert p50<1ns").run().exits(3).complains(&["not met: p50<1ns"]);
}

#[test]
fn every_question_takes_conditions_and_repetitions() {
    let (server, scratch) = (serve(""), Scratch::new());
    let all: [(&str, &str, &str); 6] = [
        ("tcp", "-t 200ms -i 100ms -b 2M -P 1", "goodput"),
        ("connect", "-t 200ms -i 100ms --rate 20 -P 1", "connects"),
        ("ping", "-n 20", "rtt.max"),
        ("delay", "-t 200ms --pps 100", "delay.max"),
        ("stream", "-t 1s --length 1s --rate 200k", "frames"),
        ("train", "-n 10 --every 20ms", "caveats"),
    ];
    for (verb, words, name) in all {
        let times = if verb == "train" { "--runs 2" } else { "--repeat 2" };
        let (kept, broken) = (format!("--assert {name}>=0"), format!("--assert {name}<0"));
        let file = scratch.file(&format!("{verb}.jsonl"));
        let line = netcaliper(verb).arg(server.at()).args(words).args(times).args(&kept).args(&broken);
        let done = line.args("--json --save").arg(&file).run().exits(3).complains(&["not met"]);
        assert!(!done.err.contains(&format!("{name}>=0")), "{}", done.tell());
        let outcome = Outcome::of(done);
        let points = outcome.json["points"].as_array().unwrap();
        assert_eq!(points.iter().map(|p| number(&p["repeat"])).collect::<Vec<_>>(), [1, 2], "{verb}");
        // With only the condition that holds, the exit code is 0.
        netcaliper("report").arg(&file).args(&kept).run().exits(0);
    }
}

#[test]
fn a_load_says_whether_its_confidence_was_reached() {
    let refused = format!("127.0.0.1:{}", crate::support::net::free_port());
    let line = netcaliper("load").arg(refused).args("-t 100ms --until-confidence 95,5 --json");
    let outcome = Outcome::of(line.run().exits(1));
    assert!(outcome.json["notices"].to_string().contains("it is not known that"), "{}", outcome.tell());
}

#[test]
fn delays_beside_a_load_that_ended_too_early_are_not_shown() {
    let server = serve("--max-time 5s --max-rate 2M");
    // Two seconds are left to the probes behind the ramp, and none at all.
    for (times, parts) in [("-t 3500ms --ramp 3s", 3), ("-t 100ms --ramp 8s", 1)] {
        let outcome =
            netcaliper("load").arg(server.at()).args("-P 1 --rate 20").args(times).outcome().exits(4);
        assert!(text(&outcome.json["reason"]).contains("--max-time"), "{}", outcome.tell());
        let stage = |name: &str| {
            let points = outcome.json["points"].as_array().unwrap().iter();
            points.filter(|p| p["label"]["stage"] == name).map(|p| text(&p["status"])).collect::<Vec<_>>()
        };
        assert_eq!(stage("idle"), ["complete"; 2], "{times}");
        assert_eq!(stage("down"), vec!["failed"; parts], "{times}");
        assert!(stage("up").is_empty(), "{times}");
    }
}

#[test]
fn repeats_until_the_mean_is_known() {
    let server = serve("");
    // Within ±50 % with 95 % confidence: even on a loaded machine it ends between 3 and 12.
    let outcome = Outcome::of(
        tcp(server.at())
            .args("-t 200ms -i 100ms -b 2M -P 1 --repeat 12 --until-confidence 95,100 --json")
            .run()
            .exits(0),
    );
    let n = outcome.json["points"].as_array().unwrap().len();
    assert!((3..=12).contains(&n), "{n} repetitions");
    let told = outcome.json["notices"].to_string();
    assert!(told.contains("repetitions were"), "{told}");
    let line = || tcp(server.at()).args("-t 200ms -b 5M");
    line().args("--until-confidence 90,5").run().exits(2).complains(&["is not a confidence"]);
}
