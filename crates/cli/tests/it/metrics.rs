//! Metrics, as Prometheus' own checker reads them, and the monitor that tells them.

use crate::support::files::Scratch;
use crate::support::{eventually, netcaliper, serve, skip};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What promtool finds wrong with a page; nothing where there is no promtool.
#[track_caller]
pub(crate) fn checked(test: &str, page: &str) {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tool) = tool else {
        skip(test, "there is no promtool (package prometheus)");
        return;
    };
    tool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let told = tool.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success() && out.trim().is_empty() && err.trim().is_empty(), "{out}{err}\n{page}");
}

pub(crate) fn value(page: &str, start: &str) -> f64 {
    let line = page.lines().find(|l| l.starts_with(start)).unwrap_or_else(|| panic!("no {start} in {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn every_question_leaves_metrics_that_prometheus_takes() {
    let scratch = Scratch::new();
    let server = serve("");
    let questions = [
        ("tcp", "-t 300ms -i 100ms -b 2M -P 2 --assert goodput>1k"),
        ("ping", "-n 50"),
        ("delay", "-t 300ms --bidir --pps 200 --sweep size=64,256"),
        ("connect", "-t 200ms --rate 100"),
    ];
    for (verb, words) in questions {
        let file = scratch.file(&format!("{verb}.prom"));
        let line = netcaliper(verb).arg(server.at()).args(words).arg("--metrics-file").arg(&file);
        line.run().exits(0);
        let page = std::fs::read_to_string(&file).unwrap();
        checked("every_question_leaves_metrics_that_prometheus_takes", &page);
        assert_eq!(value(&page, "netcaliper_run_complete"), 1.0);
        if verb == "ping" {
            assert_eq!(value(&page, "netcaliper_round_trip_seconds_count"), 50.0);
            assert!(page.contains("le=\"+Inf\""), "{page}");
        }
    }
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), questions.len(), "nothing half-written is left: {left:?}");
}

#[test]
fn a_monitor_measures_tells_and_calls() {
    let scratch = Scratch::new();
    let server = serve("");
    let (store, called) = (scratch.file("runs.sqlite"), scratch.file("called"));
    let prom = scratch.file("monitor.prom");
    let command = format!(
        "printf '%s|%s|%s\\n' \"$NETCALIPER_VERB\" \"$NETCALIPER_RUN\" \"$NETCALIPER_BROKEN\" >> {}",
        called.display()
    );
    let done = netcaliper("monitor")
        .args("--every 10ms --count 3 --assert messages-lost=0 --assert p99<1ns")
        .arg("--on-break")
        .arg(&command)
        .arg("--metrics-file")
        .arg(&prom)
        .arg("--store")
        .arg(&store)
        .arg("--")
        .arg("ping")
        .arg(server.at())
        .args("-n 20 --no-baseline")
        .run()
        .exits(3);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", done.tell());
    // Twenty messages have no 99th percentile that a trend could be read from; what the user asked
    // for is told all the same.
    assert!(
        lines
            .iter()
            .all(|l| l.contains("rtt.p50") && !l.contains("rtt.p99") && l.contains("p99<1ns: round trip")),
        "{}",
        done.tell()
    );
    // It is called once, because nothing was well between.
    let told = wait_for(&called);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("ping|") && told.contains("|p99<1ns: round trip, p99 was"), "{told}");
    let page = std::fs::read_to_string(&prom).unwrap();
    checked("a_monitor_measures_tells_and_calls", &page);
    assert_eq!(value(&page, "netcaliper_round_trip_seconds_count"), 60.0);
    assert_eq!(value(&page, "netcaliper_runs_broken_total"), 3.0);
    assert_eq!(value(&page, "netcaliper_condition_met{condition=\"messages-lost=0\"}"), 1.0);
    let history = netcaliper("history").arg("--store").arg(&store).args("--json").run().exits(0);
    assert_eq!(history.out.matches("\"verb\": \"ping\"").count(), 3, "{}", history.tell());
}

/// The file's content once its command has written it.
fn wait_for(path: &Path) -> String {
    let text = || std::fs::read_to_string(path).unwrap_or_default();
    eventually("the command has written its file", || text().ends_with('\n'));
    text()
}

#[test]
fn what_cannot_be_monitored_is_said() {
    let monitor = |words: &str| netcaliper("monitor").arg("--").args(words).run();
    monitor("serve").exits(2).says_one_sentence().complains(&["can be monitored, nothing else"]);
    monitor("ping x --json").exits(2).says_one_sentence().complains(&["leave out --json"]);
    monitor("ping").exits(2).says_one_sentence().complains(&["'ping'"]);
    let bad = netcaliper("monitor").args("--assert speed>1 -- ping x").run();
    bad.exits(2).complains(&["cannot be asserted"]);
}

/// The dashboard in `contrib`.
pub(crate) fn dashboard() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/grafana/netcaliper.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What its panels ask: the query, and what stands beside its line.
pub(crate) fn queries(board: &Value) -> Vec<(String, String)> {
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    targets.map(|target| (text(&target["expr"]), text(&target["legendFormat"]))).collect()
}

#[test]
fn prometheus_understands_every_query_of_the_dashboard() {
    let scratch = Scratch::new();
    let rule = |(n, (query, _)): (usize, (String, String))| {
        // What Grafana puts in.
        let query = query.replace("$__rate_interval", "5m").replace("$verb", ".+").replace("$target", ".+");
        assert!(!query.contains('$'), "{query}");
        serde_json::json!({ "record": format!("query:{n}"), "expr": query })
    };
    let rules: Vec<Value> = queries(&dashboard()).into_iter().enumerate().map(rule).collect();
    assert!(rules.len() > 20);
    let rules = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let file = scratch.with("rules.yml", &rules.to_string());
    let Ok(told) = Command::new("promtool").args(["check", "rules"]).arg(&file).output() else {
        return skip(
            "prometheus_understands_every_query_of_the_dashboard",
            "there is no promtool (package prometheus)",
        );
    };
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}
