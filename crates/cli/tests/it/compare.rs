//! Comparing runs: differences that are reported, ones that are not, and the exit code.

use crate::support::files::Scratch;
use crate::support::{Line, netcaliper, serve, tcp};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A run of 20 intervals of a second, in which the server received these rates in turn, bits/s.
fn run(rates: &[f64]) -> Value {
    let interval = |i: usize| {
        let bytes = (rates[i % rates.len()] / 8.0) as u64;
        json!({
            "index": i, "start_ns": i as u64 * 1_000_000_000, "end_ns": (i as u64 + 1) * 1_000_000_000,
            "local": { "tx_bytes": bytes, "rx_bytes": 0, "ns": 1_000_000_000 },
            "remote": { "tx_bytes": 0, "rx_bytes": bytes, "ns": 1_000_000_000 },
        })
    };
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let way = json!({
        "sent_bytes": 1, "received_bytes": 1, "sent_bps": mean, "goodput_bps": mean, "per_interval": null, "confirmed": true,
    });
    json!({
        "schema": "netcaliper.outcome.v2", "status": "complete",
        "points": [{ "status": "complete", "up": way, "intervals": (0..20).map(interval).collect::<Vec<_>>() }],
    })
}

fn saved(scratch: &Scratch, name: &str, run: &Value) -> PathBuf {
    scratch.with(name, &run.to_string())
}

fn compare(files: &[&PathBuf]) -> Line {
    files.iter().fold(netcaliper("compare"), |line, file| line.arg(file))
}

/// Two sets of runs, `a` with these rates and `b` with those.
fn compare_sets(scratch: &Scratch, a: &[f64], b: &[f64]) -> Line {
    let set = |line: Line, name: &str, rates: &[f64]| {
        (0..).zip(rates).fold(line, |line, (n, rate)| {
            line.arg(saved(scratch, &format!("{name}{n}.json"), &run(&[*rate])))
        })
    };
    set(set(netcaliper("compare"), "a", a).arg("--with"), "b", b)
}

/// Readings around a rate: -2, -1, 0, 1, 2 % in an order without a trend.
fn around(rate: f64) -> Vec<f64> {
    [0.98, 1.01, 0.99, 1.02, 1.0].map(|share| share * rate).to_vec()
}

#[test]
fn a_real_difference_is_told_and_breaks_the_threshold() {
    let scratch = Scratch::new();
    let before = saved(&scratch, "before.json", &run(&around(10e9)));
    let after = saved(&scratch, "after.json", &run(&around(9e9)));
    let done = compare(&[&before, &after]).run().exits(0).prints(&[
        "goodput to server",
        "worse",
        "10 Gbit/s",
        "9 Gbit/s",
    ]);
    assert!(done.out.contains("-10.0 %"), "{}", done.tell());
    compare(&[&before, &after]).args("--threshold 5").run().exits(3);
    compare(&[&before, &after]).args("--threshold 15%").run().exits(0);
    compare(&[&after, &before]).args("--threshold 5").run().exits(0).prints(&["better"]);
    let told = compare(&[&before, &after]).arg("--json").run().exits(0).json();
    let figure = &told["figures"][0];
    assert_eq!((&figure["figure"], &figure["verdict"]), (&json!("goodput to server"), &json!("worse")));
    let contrast = &figure["contrast"];
    let share = contrast["shift"].as_f64().unwrap() / contrast["median"][0].as_f64().unwrap();
    assert!((share + 0.1).abs() < 0.005, "{figure}");
}

#[test]
fn what_chance_gives_is_no_difference() {
    let scratch = Scratch::new();
    let before = saved(&scratch, "before.json", &run(&around(10e9)));
    let mut turned = around(10e9);
    turned.rotate_left(2);
    let after = saved(&scratch, "after.json", &run(&turned));
    let done = compare(&[&before, &after]).args("--threshold 0").run().exits(0);
    done.prints(&["No significant difference", "All settings and hosts are the same."]);
}

#[test]
fn sets_of_runs_are_compared_run_by_run() {
    let side = |rate: f64| [1.0, 1.001, 1.002, 1.003, 1.004].map(|share| rate * share);
    // Five against five that do not overlap: 2 of 252 orders are as uneven.
    let done = compare_sets(&Scratch::new(), &side(1e9), &side(2e9)).arg("-v").run().exits(0);
    done.prints(&["5 + 5 runs", "0.0079", "better"]);
}

#[test]
fn too_few_runs_fail_loudly_under_a_threshold() {
    let scratch = Scratch::new();
    let side = |rate: f64| [0.0, 1.0, 2.0, 3.0].map(|more| rate + more);
    let sides = |runs: usize| compare_sets(&scratch, &side(1e10)[..runs], &side(1e6)[..runs]);
    sides(3).run().exits(0).prints(&["Too few runs for 1 figure (4 + 4 needed)"]);
    sides(3).arg("-v").run().exits(0).prints(&["3 + 3 runs", "too few runs"]);
    let refused = sides(3).args("--threshold 5").run().exits(1);
    refused.says_one_sentence().complains(&["cannot be judged", "4 + 4 needed"]);
    sides(4).args("--threshold 5").run().exits(3).prints(&["worse"]);
}

#[test]
fn what_stood_still_is_worse() {
    let scratch = Scratch::new();
    let before = saved(&scratch, "before.json", &run(&around(1e6)));
    // Every second interval, and all of them.
    let half = saved(&scratch, "half.json", &run(&[1e6, 0.0]));
    let dead = saved(&scratch, "dead.json", &run(&[0.0]));
    // With every second interval dead the difference may be as small as that between two others.
    for (after, threshold) in [(&half, "--threshold 0"), (&dead, "--threshold 50")] {
        compare(&[&before, after])
            .args(threshold)
            .arg("-v")
            .run()
            .exits(3)
            .prints(&["20 + 20 intervals", "worse"]);
        compare(&[after, &before]).args(threshold).run().exits(0).prints(&["better"]);
    }
}

#[test]
fn a_fifth_of_dead_intervals_passes_no_threshold() {
    let scratch = Scratch::new();
    let steady = saved(&scratch, "steady.json", &run(&[1e6]));
    let fifth = saved(&scratch, "fifth.json", &run(&[1e6, 1e6, 0.0, 1e6, 1e6]));
    compare(&[&steady, &steady]).args("--threshold 5").run().exits(0).prints(&["No significant difference"]);
    let open = compare(&[&steady, &fifth]).args("--threshold 5").run().exits(1).says_one_sentence();
    open.complains(&["over all of each side goodput to server is worse by 20.0 %", "runs of", "needed"]);
    compare(&[&fifth, &steady]).args("--threshold 5").run().exits(0);
}

/// A run of 20 intervals in which so many datagrams of a hundred were lost on the way from the
/// server.
fn losing(lost: u64) -> Value {
    let packets =
        |times: u64| json!({ "counts": { "lost": lost * times, "received": (100 - lost) * times } });
    let interval = |i: u64| json!({ "index": i, "start_ns": i * 1_000_000_000, "end_ns": (i + 1) * 1_000_000_000, "packets": packets(1) });
    json!({
        "schema": "netcaliper.outcome.v2", "status": "complete",
        "points": [{
            "status": "complete", "local": { "packets": packets(20) },
            "intervals": (0..20).map(interval).collect::<Vec<_>>(),
        }],
    })
}

#[test]
fn loss_that_was_not_there_before_breaks_any_threshold() {
    let scratch = Scratch::new();
    let (none, one) = (saved(&scratch, "none.json", &losing(0)), saved(&scratch, "one.json", &losing(1)));
    compare(&[&none, &one]).args("--threshold 1000").run().exits(3).prints(&["loss from server", "worse"]);
    compare(&[&one, &none]).args("--threshold 0").run().exits(0).prints(&["better"]);
    compare(&[&none, &none]).args("--threshold 0").run().exits(0).prints(&["No significant difference"]);
}

#[test]
fn every_server_is_judged() {
    let scratch = Scratch::new();
    let server = |lost: u64| json!({ "packets": { "counts": { "lost": lost, "received": 100 - lost } } });
    let run = |lost: u64| {
        json!({
            "schema": "netcaliper.outcome.v2", "status": "complete",
            "points": [{ "status": "complete", "remote": [server(0), server(lost)] }],
        })
    };
    let judged = |lost: u64| {
        let file = saved(&scratch, &format!("{lost}.json"), &run(lost));
        netcaliper("report").arg(&file).args("--assert loss.up<1%").run()
    };
    judged(50).exits(3).complains(&["25"]);
    judged(0).exits(0);
}

#[test]
fn real_runs_say_what_was_set_differently() {
    let scratch = Scratch::new();
    let server = serve("");
    let save = |name: &str, args: &str| {
        let file = scratch.file(name);
        tcp(server.at()).args("-t 500ms -i 100ms -b 20M").args(args).arg("--save").arg(&file).run().exits(0);
        file
    };
    let (one, two) = (save("one.jsonl", "-P 1"), save("two.jsonl", "-P 2"));
    let done = compare(&[&one, &two]).run().exits(0).prints(&[
        "goodput to server",
        "CPU time, local end",
        "CPU time, remote end",
        "retransmits",
    ]);
    assert!(done.out.starts_with("Not the same test: -P 1 -> 2.\n"), "{}", done.tell());
    assert!(!done.out.contains("phase."), "{}", done.tell());
    assert!(
        done.out.contains("other settings and hosts are the same") || done.out.contains("Set differently"),
        "{}",
        done.tell()
    );
    let json = compare(&[&one, &two]).arg("--json").run().exits(0).json();
    assert_eq!(json["test"], json!(["-P 1 -> 2"]));
    // A run of another verb answers another question.
    let ping = scratch.file("ping.jsonl");
    netcaliper("ping").arg(server.at()).args("-n 5 --save").arg(&ping).run().exits(0);
    let refused = compare(&[&one, &ping]).run().exits(2).says_one_sentence();
    refused.complains(&["a run of `tcp` and a run of `ping` answer different questions"]);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let scratch = Scratch::new();
    let run = saved(&scratch, "run.json", &run(&[1e9]));
    let empty = scratch.with("empty.json", r#"{"schema":"netcaliper.outcome.v2"}"#);
    compare(&[&run]).run().exits(2).says_one_sentence().complains(&["two runs"]);
    compare(&[&run, &empty]).run().exits(1).says_one_sentence().complains(&["no figure in common"]);
    let missing = scratch.file("missing.json");
    compare(&[&run, &missing]).run().exits(1).says_one_sentence().complains(&["missing.json"]);
    compare(&[&run, &run]).args("--threshold much").run().exits(2).complains(&["percentage"]);
}
