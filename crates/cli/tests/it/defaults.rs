//! Runs as they are without options: no caveat is about what the program chose itself.

use crate::support::files::Scratch;
use crate::support::{Line, Outcome, Proc, Server, as_it_is, netcaliper, number, serve, text};
use std::time::Duration;

/// Caveats about what was chosen, not about what was found on the way.
const OF_OUR_OWN: [&str; 11] = [
    "few-connections",
    "few-messages",
    "too-short",
    "other-sessions",
    "verification-off",
    "server-reduced",
    "socket-option-differs",
    "socket-buffer-shortfall",
    "unfinished-connections",
    "unconfirmed",
    "train-spacing",
];
const LIMIT: Duration = Duration::from_secs(120);

/// Share of the time that round trips of more than ten medians took, by hand.
fn stalled(outcome: &Outcome) -> f64 {
    let rtt = &outcome.local()["pings"]["rtt_ns"];
    let counts: Vec<(f64, f64)> = rtt["counts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (number(&pair[0]) as f64, number(&pair[1]) as f64))
        .collect();
    let all: f64 = counts.iter().map(|(_, n)| n).sum();
    let mut covered = 0.0;
    let median = counts.iter().find(|(_, n)| {
        covered += n;
        covered >= all / 2.0
    });
    let long = 10.0 * median.unwrap().0;
    let time = |keep: &dyn Fn(f64) -> bool| -> f64 {
        counts.iter().filter(|(ns, _)| keep(*ns)).map(|(ns, n)| ns * n).sum()
    };
    time(&|ns| ns > long) / time(&|_| true)
}

#[test]
fn default_runs_raise_no_caveat_about_their_defaults() {
    // A stream lasts a minute by itself. Of messages their number counts, of the others how long
    // they take: their rates are limited, which no caveat is about.
    let questions = [
        "tcp -b 100k",
        "ping --flood -n 2000",
        "delay --pps 20 -t 10s",
        "connect --rate 5",
        "stream --length 10s -b 200k",
        "train",
    ];
    let runs: Vec<(Server, Proc)> = questions
        .iter()
        .map(|words| {
            let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
            let server = serve("");
            let client = as_it_is(verb).arg(server.at()).args(rest).arg("--json").spawn();
            (server, client)
        })
        .collect();
    for (name, (_server, client)) in questions.iter().zip(runs) {
        let outcome = Outcome::of(client.wait_within(LIMIT));
        // A busy host merges intervals and sends late, which is no default's fault, and is told.
        let busy = outcome.admits_lateness() || outcome.caveat("host-busy").is_some();
        for code in OF_OUR_OWN {
            let is_hosts = busy && ["too-short", "train-spacing"].contains(&code);
            assert!(is_hosts || outcome.caveat(code).is_none(), "{name}: {code}: {}", outcome.tell());
        }
        if name.starts_with("ping") {
            // One that never came would take its timeout.
            let lost = outcome.local()["pings"]["counts"]["lost"].as_i64().unwrap_or(0);
            let share = stalled(&outcome);
            let told = outcome.caveat("closed-loop").is_some();
            let certain = lost > 0 || (share - 0.01).abs() < 0.001;
            assert!(certain || told == (share > 0.01), "{share}: {}", outcome.tell());
        } else {
            assert!(outcome.caveat("closed-loop").is_none(), "{name}: {}", outcome.tell());
        }
    }
}

#[test]
fn the_parts_of_a_load_are_not_each_others_others() {
    let runs: Vec<(Server, Proc, usize)> =
        [("--repeat 2", "", 2), ("--exclusive", "", 1), ("", "--exclusive --max-time 10s", 1)]
            .into_iter()
            .map(|(words, how, times)| {
                let server = serve(&format!("--max-rate 2M {how}"));
                let line = netcaliper("load").arg(server.at()).args("-t 1s --ramp 1s -P 1 --rate 20");
                (server, line.args("--json").args(words).spawn(), times)
            })
            .collect();
    for (_server, client, times) in runs {
        let outcome = Outcome::of(client.wait_within(LIMIT)).exits(0);
        let points = outcome.json["points"].as_array().unwrap();
        assert_eq!(points.len(), 11 * times, "{}", outcome.tell());
        // It asks for more than the server's longest time, which is longer than a stage takes, also
        // on a busy host.
        assert!(!outcome.json["points"].to_string().contains("\"duration\""), "{}", outcome.tell());
        for point in points {
            let codes = point["caveats"].as_array().unwrap().iter().map(|caveat| text(&caveat["code"]));
            assert_eq!(codes.filter(|code| *code == "other-sessions").count(), 0, "{}", outcome.tell());
        }
        // Each stage is repeated.
        let idle = points.iter().filter(|point| point["label"]["stage"] == "idle");
        let repeats: Vec<u64> = idle.map(|point| number(&point["repeat"])).collect();
        assert_eq!(repeats, [1, 1, 2, 2][..2 * times], "{}", outcome.tell());
    }
}

#[test]
fn a_ping_is_ten_messages_and_a_delay_goes_both_ways() {
    let server = serve("");
    let phase = |line: Line| {
        let outcome = Outcome::of(line.arg("--json").run());
        outcome.point()["phase"].clone()
    };
    let scratch = Scratch::new();
    let file = scratch.file("ping.jsonl");
    let line = as_it_is("ping").arg(server.at()).args("--no-empty-path --save").arg(&file);
    let done = line.run().exits(0);
    let ping = phase(netcaliper("report").arg(&file));
    assert_eq!(
        (&ping["ping"]["messages"], &ping["ping"]["schedule"]["gap_ns"]),
        (&10.into(), &100_000_000.into()),
        "{ping:#}"
    );
    assert_eq!(ping["interval_ns"], 100_000_000, "{ping:#}");
    // A line a message, but where a busy host joins intervals; each tells the last round trip and
    // all so far.
    let line =
        |line: &&str| line.trim_start().split_once(" s ").is_some_and(|(at, _)| at.parse::<f64>().is_ok());
    let told = done.out.lines().filter(line).count();
    assert!(
        (2..=12).contains(&told) && done.out.contains("last       mean        min        max"),
        "{}",
        done.out
    );
    assert!(!done.out.contains("few-messages"), "its number is a default: {}", done.out);
    let both = phase(as_it_is("delay").arg(server.at()).args("-t 100ms --pps 100"));
    assert_eq!((&both["pattern"], &both["sockets"]["gro"]), (&"duplex".into(), &false.into()), "{both:#}");
    let fast = phase(as_it_is("delay").arg(server.at()).args("-t 100ms -b 0 --up"));
    assert_eq!((&fast["pattern"], &fast["sockets"]["gro"]), (&"push".into(), &true.into()), "{fast:#}");
    let train = phase(as_it_is("train").arg(server.at()).args("-t 300ms --every 100ms"));
    assert_eq!(train["train"]["repeat"], 3, "{train:#}");
}
