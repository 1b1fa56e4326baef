//! Schedules: rounds of a plan, one after the other. The agents of both hosts run on this one, in
//! the namespace of the test.

use crate::support::files::Scratch;
use crate::support::fleet::testing;
use crate::support::{BIN, Line, as_it_is, eventually};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A plan of two hosts, and all that its rounds leave.
struct Series(Scratch);

impl Series {
    fn new() -> Series {
        let scratch = Scratch::new();
        std::fs::write(scratch.file("hosts"), "a address=127.0.0.1\nb address=127.0.0.1\n").unwrap();
        Series(scratch)
    }

    fn fleet(&self, verb: &str) -> Line {
        as_it_is("fleet").arg(verb).env("XDG_STATE_HOME", self.0.file("state"))
    }

    fn run(&self, schedule: &str, test: &str) -> Line {
        let line = self.fleet("run").arg(self.0.file("hosts")).arg("--rsh").arg("env HOST={}");
        // Another test's agents take nothing of these.
        let resource = format!("--agent-option=--resource={}", self.0.file("").display());
        let line = line.arg("--program").arg(BIN).arg(resource).args("--agent-option=--port=0");
        testing(line.args(schedule), "background", test)
    }

    /// Folder and plan of each round, by its number.
    fn rounds(&self) -> BTreeMap<u64, (PathBuf, Value)> {
        let runs = std::fs::read_dir(self.0.file("state/netcaliper/runs")).into_iter().flatten().flatten();
        let round = |run: std::fs::DirEntry| {
            let plan = std::fs::read(run.path().join("plan.json")).ok()?;
            let plan: Value = serde_json::from_slice(&plan).ok()?;
            Some((plan["round"]["number"].as_u64()?, (run.path(), plan)))
        };
        runs.filter_map(round).collect()
    }

    /// The results of a round.
    fn results(&self, number: u64) -> Vec<Value> {
        let Some((folder, _)) = self.rounds().remove(&number) else { return Vec::new() };
        let text = std::fs::read_to_string(folder.join("results.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Rounds that are measured, each after it was due, and how many were missed.
    fn checked(&self) -> (u64, u64) {
        let (mut measured, mut missed) = (0, 0);
        for (number, (_, plan)) in self.rounds() {
            let due = plan["round"]["rounds"]["first"].as_i64().unwrap()
                + (number as i64 - 1) * plan["round"]["rounds"]["every_ns"].as_i64().unwrap();
            let results = self.results(number);
            assert_eq!(results.len(), 2, "round {number}: {results:?}");
            for result in &results {
                assert!(result["ending"]["measured"].is_object(), "round {number}: {result}");
                assert!(result["ended"].as_i64().unwrap() >= due, "round {number}: {result}");
            }
            (measured, missed) = (measured + 1, missed + plan["round"]["missed"].as_u64().unwrap());
        }
        (measured, missed)
    }
}

const SHORT: &str = "ping -n 3 --rate 20 --no-baseline";

#[test]
fn every_round_is_a_run_of_its_own() {
    let series = Series::new();
    let done = series.run("--every 6s --count 3", SHORT).run();
    let (measured, missed) = series.checked();
    // Where the machine was too slow for a round, that is told.
    assert_eq!(done.code, Some(if missed == 0 { 0 } else { 4 }), "{}", done.err);
    assert_eq!(done.err.contains("missed"), missed > 0 || measured < 3, "{}", done.err);
    assert_eq!(measured + missed, 3);
    // The matrix of each round, which later ones are compared with.
    assert_eq!(done.out.matches("Round ").count() as u64, measured, "{}", done.out);
    let status = series.fleet("status").run();
    status.exits(0).prints(&["round 3 of 3", "round 1: 2 of 2 measured", "it is over"]);
}

#[test]
fn rounds_that_are_due_while_another_runs_are_missed_and_told() {
    let series = Series::new();
    let done = series.run("--every 1s --count 6", "ping -t 2500ms --no-baseline").run().exits(4);
    let (measured, missed) = series.checked();
    assert!(missed >= 1 && done.err.contains("missed"), "{measured} measured, {missed} missed: {}", done.err);
    assert!((1..6).contains(&measured), "{measured}");
}

#[test]
fn a_series_ends_when_it_is_cancelled() {
    let series = Series::new();
    let run = series.run("--every 1h --count 5", SHORT).spawn();
    eventually("the second round waits", || series.rounds().contains_key(&2));
    series.fleet("status").run().exits(0).prints(&["round 2 of 5", "waits for its time"]);
    series.fleet("cancel").run().exits(0);
    run.wait().exits(0);
    assert_eq!(series.results(1).len(), 2);
    let cancelled = series.results(2);
    assert!(cancelled.iter().all(|result| result["ending"]["missing"]["reason"] == "cancelled"));
    assert_eq!((cancelled.len(), series.rounds().len()), (2, 2), "{cancelled:?}");
}

#[test]
fn a_series_goes_on_after_its_controller_was_killed() {
    let series = Series::new();
    let run = series.run("--every 15s --count 2", SHORT).spawn();
    eventually("the second round waits", || series.rounds().contains_key(&2));
    run.signal("KILL");
    drop(run);
    series.fleet("resume").run().exits(0);
    assert_eq!(series.checked(), (2, 0));
}

#[test]
fn a_round_that_no_controller_began_in_time_has_that_reason() {
    let series = Series::new();
    let run = series.run("--every 8s --count 2", SHORT).spawn();
    eventually("the second round waits", || series.rounds().contains_key(&2));
    run.signal("KILL");
    drop(run);
    let (_, plan) = series.rounds().remove(&2).unwrap();
    let due = plan["round"]["rounds"]["first"].as_u64().unwrap() + 8_000_000_000;
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    eventually("the round is too late", || now() > u128::from(due) + 2_000_000_000);
    series.fleet("resume").run().exits(1).complains(&["missed"]);
    let results = series.results(2);
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(result["ending"]["missing"]["detail"].as_str().unwrap().contains("missed"), "{result}");
    }
}

#[test]
fn a_schedule_without_an_end_is_refused_in_a_sentence() {
    let series = Series::new();
    series.run("--every 10m", SHORT).run().exits(2).complains(&["--count 100"]);
    let plan = |words: &str| series.fleet("plan").arg(series.0.file("hosts")).args(words).run();
    plan("--every 10m --count 4").exits(0).prints(&["4 rounds, one every 600 s"]);
    plan("--every 1s --count 4 --repeats 9").exits(0).prints(&["rounds will be missed"]);
    plan("--at yesterday").exits(2).complains(&["02:00"]);
}
