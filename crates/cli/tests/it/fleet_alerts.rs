//! Alerts of a fleet: the exit code, and the user's commands once for each change.

use crate::support::files::Scratch;
use crate::support::{Line, as_it_is};
use serde_json::{Value, json};
use std::path::Path;

/// A result of seven hosts, with the verdict that `h5` sends less than the others, or without any.
fn result(scratch: &Scratch, name: &str, is_slow: bool) -> std::path::PathBuf {
    let hosts: Vec<String> = (0..7).map(|n| format!("h{n}")).collect();
    let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (from, to)));
    let cell = |(from, to): (&String, &String)| -> Value {
        let rate = if is_slow && from == "h5" { 57e6 } else { 95e6 };
        json!({
            "from": from, "to": to, "test": 0, "readings": { "goodput": [rate] }, "measured": 1,
            "runs": ["00000000-0000-0000-0000-000000000002"],
        })
    };
    let verdict = json!({ "kind": "host", "host": "h5", "side": "out", "figure": "goodput", "effect": 0.4, "q": 0.001 });
    let document = json!({
        "schema": "netcaliper.fleet.v1",
        "run": "00000000-0000-0000-0000-000000000001",
        "made": 1_790_000_000_000_000_000_i64,
        "inventory": { "hosts": hosts.iter().map(|name| json!({ "name": name, "address": name })).collect::<Vec<_>>() },
        "tests": [{ "verb": "tcp", "arguments": ["-t", "5s"], "class": "exclusive", "length_ns": 5_000_000_000_u64 }],
        "cells": pairs.filter(|(from, to)| from != to).map(cell).collect::<Vec<_>>(),
        "verdicts": if is_slow { json!([verdict]) } else { json!([]) },
    });
    scratch.with(name, &document.to_string())
}

fn report(scratch: &Scratch, result: &Path) -> Line {
    as_it_is("fleet").arg("report").arg(result).env("XDG_STATE_HOME", scratch.file("state"))
}

/// A command that appends what it is given to a file.
fn noting(file: &Path) -> String {
    let file = file.display();
    format!(
        "printf '%s|%s|%s|%s\\n' \"$NETCALIPER_VERB\" \"$NETCALIPER_TARGET\" \"$NETCALIPER_BROKEN\" \"$NETCALIPER_MENDED\" >> {file}"
    )
}

#[test]
fn a_verdict_is_an_exit_code_where_that_is_asked_for() {
    let scratch = Scratch::new();
    let (slow, good) = (result(&scratch, "slow.json", true), result(&scratch, "good.json", false));
    let first = "h5 sends 40 % less than the others do (goodput)\n";
    let done = report(&scratch, &slow).arg("--fail-on-verdict").run().exits(3);
    assert!(done.out.starts_with(first), "{}", done.tell());
    assert!(report(&scratch, &slow).run().exits(0).out.starts_with(first));
    report(&scratch, &good).arg("--fail-on-verdict").run().exits(0).prints(&["is worse than the rest"]);
}

#[test]
fn a_command_runs_once_for_each_change() {
    let scratch = Scratch::new();
    let (slow, good) = (result(&scratch, "slow.json", true), result(&scratch, "good.json", false));
    let noted = scratch.file("noted");
    let alert = |result: &Path| {
        let command = noting(&noted);
        let line = report(&scratch, result).arg("--on-verdict").arg(&command);
        line.arg("--on-mend").arg(&command).run().exits(0);
        std::fs::read_to_string(&noted).unwrap_or_default()
    };
    let sentence = "h5 sends 40 % less than the others do (goodput)";
    let broken = format!("fleet|h5|{sentence}|\n");
    let mended = format!("fleet|h5||{sentence}\n");
    assert_eq!(alert(&good), "");
    assert_eq!(alert(&slow), broken);
    assert_eq!(alert(&slow), broken, "no news");
    assert_eq!(alert(&good), format!("{broken}{mended}"));
    assert_eq!(alert(&good), format!("{broken}{mended}"), "no news");
    assert_eq!(alert(&slow), format!("{broken}{mended}{broken}"));
}

/// A folder of a run of which `h6`, if it is dead, has no result; the others have pings.
fn run(scratch: &Scratch, name: &str, is_dead: bool) -> std::path::PathBuf {
    let hosts: Vec<String> = (0..7).map(|n| format!("h{n}")).collect();
    let named = |name: &String| json!({ "name": name, "address": name });
    let pairs: Vec<(usize, usize)> =
        (0..7).flat_map(|from| (0..7).map(move |to| (from, to))).filter(|(from, to)| from != to).collect();
    let task = |(id, (from, to)): (usize, &(usize, usize))| json!({ "id": id, "from": from, "to": to, "test": 0, "repeat": 0 });
    let plan = json!({
        "run": "00000000-0000-0000-0000-000000000003",
        "inventory": { "hosts": hosts.iter().map(named).collect::<Vec<_>>() },
        "tests": [{ "verb": "ping", "arguments": [], "class": "background", "length_ns": 1_000_000_000_u64 }],
        "tasks": pairs.iter().enumerate().map(task).collect::<Vec<_>>(),
    });
    let outcome = |id: usize| {
        json!({
            "schema": "netcaliper.outcome.v2",
            "begin": {
                "verb": "ping", "protocol": "native", "command": ["netcaliper", "ping", "10.0.0.1"],
                "run": format!("00000000-0000-0000-0001-{id:012}"),
            },
            "status": "complete",
            "points": [{
                "status": "complete", "phase": { "kind": "ping" },
                "local": { "opened": 1, "pings": { "counts": { "sent": 1, "received": 1 } } },
            }],
        })
    };
    let result = |(id, (from, to)): (usize, &(usize, usize))| {
        let ending = match is_dead && (*from == 6 || *to == 6) {
            true => json!({ "missing": { "reason": "failed", "detail": "no route to host" } }),
            false => json!({ "measured": outcome(id) }),
        };
        json!({ "task": id, "attempts": 3, "ended": 1, "ending": ending }).to_string() + "\n"
    };
    let folder = scratch.file(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("plan.json"), plan.to_string()).unwrap();
    let results: String = pairs.iter().enumerate().map(result).collect();
    std::fs::write(folder.join("results.jsonl"), results).unwrap();
    folder
}

/// A host that is down wakes its operator, once, and so does its return.
#[test]
fn a_dead_host_is_an_alert_like_a_slow_one() {
    let scratch = Scratch::new();
    let (dead, good) = (run(&scratch, "dead", true), run(&scratch, "good", false));
    let noted = scratch.file("noted");
    let alert = |result: &Path, exit: i32| {
        let command = noting(&noted);
        let line = report(&scratch, result).arg("--fail-on-verdict").arg("--on-verdict").arg(&command);
        let done = line.arg("--on-mend").arg(&command).run().exits(exit);
        (done.out, std::fs::read_to_string(&noted).unwrap_or_default())
    };
    let sentence = "h6 could not be measured: 12 of 12 tests failed (no route to host)";
    let (text, news) = alert(&dead, 3);
    assert!(text.starts_with(&format!("{sentence}\n")), "{text}");
    let broken = format!("fleet|h6|{sentence}|\n");
    assert_eq!(news, broken);
    assert_eq!(alert(&dead, 3).1, broken, "no news");
    let (text, news) = alert(&good, 0);
    assert_eq!(news, format!("{broken}fleet|h6||{sentence}\n"));
    assert!(!text.contains("could not"), "{text}");
}

/// `fleet status` prints the name of a run, and `fleet report` takes it.
#[test]
fn the_last_run_is_reported_by_its_name_or_without() {
    let scratch = Scratch::new();
    let runs = "state/netcaliper/runs";
    let name = "00000000-0000-0000-0000-000000000003";
    run(&scratch, &format!("{runs}/{name}"), true);
    for which in [None, Some("last"), Some(name), Some("0000")] {
        let line = as_it_is("fleet").arg("report").env("XDG_STATE_HOME", scratch.file("state"));
        let line = if let Some(which) = which { line.arg(which) } else { line };
        line.run().exits(0).prints(&["h6 could not be measured"]);
    }
    report(&scratch, Path::new("nowhere")).run().exits(1).complains(&["nowhere", "neither a folder"]);
}

#[test]
fn news_that_was_not_delivered_is_repeated() {
    let scratch = Scratch::new();
    let slow = result(&scratch, "slow.json", true);
    let noted = scratch.file("noted");
    let alert = |command: String| report(&scratch, &slow).arg("--on-verdict").arg(command).run().exits(0);
    alert("exit 7".to_owned()).complains(&["exit 7", "the next result repeats it"]);
    alert(noting(&noted));
    alert(noting(&noted));
    assert_eq!(std::fs::read_to_string(&noted).unwrap().lines().count(), 1);
}
