//! Comparing runs: what is told, what is not, and the exit code.

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
            "near": { "tx_bytes": bytes, "rx_bytes": 0, "ns": 1_000_000_000 },
            "far": { "tx_bytes": 0, "rx_bytes": bytes, "ns": 1_000_000_000 },
        })
    };
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let way = json!({
        "sent_bytes": 1, "received_bytes": 1, "sent_bps": mean, "goodput_bps": mean, "per_interval": null, "confirmed": true,
    });
    json!({
        "schema": "netcaliper.outcome.v1", "status": "complete",
        "points": [{ "status": "complete", "up": way, "intervals": (0..20).map(interval).collect::<Vec<_>>() }],
    })
}

fn saved(scratch: &Scratch, name: &str, run: &Value) -> PathBuf {
    scratch.with(name, &run.to_string())
}

fn compare(files: &[&PathBuf]) -> Line {
    files.iter().fold(netcaliper("compare"), |line, file| line.arg(file))
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
    let told: Value =
        serde_json::from_str(&compare(&[&before, &after]).arg("--json").run().exits(0).out).unwrap();
    let figure = &told["figures"][0];
    assert_eq!((&figure["figure"], &figure["differs"]), (&json!("goodput to server"), &json!(true)));
    assert!((figure["worse_by"].as_f64().unwrap() - 0.1).abs() < 0.005, "{figure}");
}

#[test]
fn what_chance_gives_is_no_difference() {
    let scratch = Scratch::new();
    let before = saved(&scratch, "before.json", &run(&around(10e9)));
    let mut turned = around(10e9);
    turned.rotate_left(2);
    let after = saved(&scratch, "after.json", &run(&turned));
    let done = compare(&[&before, &after]).args("--threshold 0").run().exits(0);
    done.prints(&["no difference told", "All settings and hosts are the same."]);
}

#[test]
fn sets_of_runs_are_compared_run_by_run() {
    let scratch = Scratch::new();
    let side = |name: &str, rate: f64| -> Vec<PathBuf> {
        let one =
            |n: usize| saved(&scratch, &format!("{name}{n}.json"), &run(&[rate * (1.0 + n as f64 / 1000.0)]));
        (0..5).map(one).collect()
    };
    let (before, after) = (side("a", 1e9), side("b", 2e9));
    let line = compare(&before.iter().collect::<Vec<_>>()).arg("--with");
    let line = after.iter().fold(line, |line, file| line.arg(file));
    // Five against five that do not overlap: 2 of 252 orders are as uneven.
    line.run().exits(0).prints(&["5 + 5 runs", "0.0079", "better"]);
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
    compare(&[&one, &two]).run().exits(0).prints(&[
        "goodput to server",
        "phase.connections",
        "Set differently",
    ]);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let scratch = Scratch::new();
    let run = saved(&scratch, "run.json", &run(&[1e9]));
    let empty = scratch.with("empty.json", r#"{"schema":"netcaliper.outcome.v1"}"#);
    compare(&[&run]).run().exits(2).says_one_sentence().complains(&["two runs"]);
    compare(&[&run, &empty]).run().exits(1).says_one_sentence().complains(&["no figure in common"]);
    let missing = scratch.file("missing.json");
    compare(&[&run, &missing]).run().exits(1).says_one_sentence().complains(&["missing.json"]);
    compare(&[&run, &run]).args("--threshold much").run().exits(2).complains(&["percentage"]);
}
