//! Results that are sent to other programs' servers: which, when, and what a failure changes.

use crate::receiver::{Script, Server as Receiver};
use crate::support::files::Scratch;
use crate::support::net::free_port;
use crate::support::{Line, Proc, Server, eventually, netcaliper, serve, skip};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// A short measurement, with spools in the scratch folder.
fn ping(scratch: &Scratch, server: &Server) -> Line {
    let line = netcaliper("ping").arg(server.at()).args("-n 5");
    line.env("XDG_STATE_HOME", scratch.file("state"))
}

fn influx(receiver: &Receiver) -> String {
    format!("influx+http://{}?bucket=b&org=o", receiver.address)
}

/// Bodies of requests.
fn bodies(requests: &[String]) -> Vec<&str> {
    requests.iter().filter_map(|request| request.split_once("\r\n\r\n")).map(|(_, body)| body).collect()
}

/// The time of a body of the line protocol.
fn time(body: &str) -> u64 {
    body.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
}

#[test]
fn a_run_names_its_figures_alike_for_all_receivers() {
    let (scratch, server) = (Scratch::new(), serve(""));
    let [otlp, lines, push] = [(); 3].map(|()| Receiver::start([]));
    let page = scratch.file("page.prom");
    let saved = scratch.file("run.jsonl");
    let line = ping(&scratch, &server).arg("--metrics-file").arg(&page).arg("--save").arg(&saved);
    let line = line.arg("--export").arg(format!("otlp+http://{}", otlp.address));
    let line = line.arg("--export").arg(influx(&lines));
    let line = line.arg("--export").arg(format!("pushgateway+http://{}", push.address));
    let line = line.args("--assert messages-lost=0").env("NETCALIPER_EXPORT_TOKEN", "hidden-token");
    let done = line.run().exits(0);
    assert_eq!(done.err, "", "{}", done.tell());
    let page = std::fs::read_to_string(&page).unwrap();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" gauge"));
    let names: BTreeSet<&str> = types.collect();
    assert!(names.contains("netcaliper_round_trip_percentile_seconds") && names.len() > 5, "{names:?}");
    let [otlp, lines, push] = [otlp, lines, push].map(|receiver| receiver.requests());
    for requests in [&otlp, &lines, &push] {
        assert!(requests.len() == 1 && requests[0].contains("hidden-token"), "{requests:?}");
    }
    let document: serde_json::Value = serde_json::from_str(bodies(&otlp)[0]).unwrap();
    let metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let sent: BTreeSet<&str> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(sent, names);
    let sent: BTreeSet<&str> = bodies(&lines)[0].lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(sent, names);
    let types =
        bodies(&push)[0].lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" gauge"));
    assert_eq!(types.collect::<BTreeSet<&str>>(), names);
    assert!(!std::fs::read_to_string(&saved).unwrap().contains("hidden-token"));
    // The run is sent again from its file, with its own time.
    let again = Receiver::start([]);
    let line = netcaliper("report").arg(&saved).args("--export").arg(influx(&again));
    line.env("XDG_STATE_HOME", scratch.file("state")).run().exits(0);
    assert_eq!(time(bodies(&again.requests())[0]), time(bodies(&lines)[0]));
}

#[test]
fn a_dead_receiver_costs_a_sentence_and_the_next_run_sends_all_in_order() {
    let (scratch, server) = (Scratch::new(), serve(""));
    let port = free_port();
    let url = format!("influx+http://127.0.0.1:{port}?bucket=b&org=o");
    let done = ping(&scratch, &server).arg("--json").arg("--export").arg(&url).run().exits(0);
    assert_eq!(done.json()["status"], "complete");
    assert_eq!(done.err.lines().count(), 1, "{}", done.tell());
    let done = done.complains(&["warning: 1 result for", "not sent yet: cannot connect", "sends it"]);
    drop(done);
    // Of a run that fails, too: nothing listens there.
    let line = netcaliper("ping").arg(format!("127.0.0.1:{}", free_port())).args("-n 5");
    let line = line.env("XDG_STATE_HOME", scratch.file("state")).arg("--export").arg(&url);
    line.run().exits(1).complains(&["2 results for"]);
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let receiver = Receiver::at(listener, []);
    ping(&scratch, &server).arg("--export").arg(&url).run().exits(0).complains(&[]);
    let requests = receiver.requests();
    let bodies = bodies(&requests);
    assert_eq!(bodies.len(), 3, "{requests:?}");
    assert!(
        bodies[1].contains("netcaliper_run_complete,") && bodies[1].contains(" value=0 "),
        "{}",
        bodies[1]
    );
    assert!(time(bodies[0]) < time(bodies[1]) && time(bodies[1]) < time(bodies[2]), "{bodies:?}");
}

#[test]
fn a_program_that_is_killed_while_it_sends_loses_nothing() {
    let (scratch, server) = (Scratch::new(), serve(""));
    let receiver = Receiver::start([Script::Silent]);
    let proc = ping(&scratch, &server).arg("--export").arg(influx(&receiver)).spawn();
    eventually("the request is there", || receiver.seen().len() == 1);
    proc.signal("KILL");
    proc.wait();
    let first = receiver.requests();
    ping(&scratch, &server).arg("--export").arg(influx(&receiver)).run().exits(0);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert_eq!(bodies(&requests)[0], bodies(&first)[0]);
}

#[test]
fn a_request_to_end_is_heeded_while_results_are_sent() {
    let (scratch, server) = (Scratch::new(), serve(""));
    let receiver = Receiver::start([Script::Silent]);
    let proc = ping(&scratch, &server).arg("--export").arg(influx(&receiver)).spawn();
    eventually("the request is there", || receiver.seen().len() == 1);
    proc.signal("INT");
    proc.wait().exits(0).complains(&["1 result for", "no answer in time"]);
}

#[test]
fn a_monitor_sends_each_measurement() {
    let (scratch, server) = (Scratch::new(), serve(""));
    let receiver = Receiver::start([Script::Status(503, "busy")]);
    let monitor = |url: &str| {
        let line = netcaliper("monitor").args("--every 10ms --count 3 --export").arg(url);
        let line = line.env("XDG_STATE_HOME", scratch.file("state")).arg("--").arg("ping");
        line.arg(server.at()).args("-n 5 --no-baseline").run().exits(0)
    };
    let done = monitor(&influx(&receiver));
    assert_eq!(done.err, "", "{}", done.tell());
    let requests = receiver.requests();
    let mut times: Vec<u64> = bodies(&requests).iter().map(|body| time(body)).collect();
    times.dedup();
    assert!(times.len() == 3 && times.is_sorted(), "{times:?}");
    let dead = format!("influx+http://127.0.0.1:{}?db=d", free_port());
    let done = monitor(&dead);
    assert_eq!(done.out.lines().count(), 3, "{}", done.tell());
}

#[cfg(feature = "fleet")]
#[test]
fn the_pairs_of_a_fleet_have_their_labels() {
    let scratch = Scratch::new();
    let receiver = Receiver::start([]);
    let cell = serde_json::json!({ "from": "a", "to": "b", "test": 0, "readings": { "goodput": [8e6] }, "measured": 1 });
    let document = serde_json::json!({
        "schema": "netcaliper.fleet.v1",
        "run": "00000000-0000-0000-0000-000000000001",
        "made": 1_790_000_000_000_000_000_i64,
        "inventory": { "hosts": [{ "name": "a", "address": "a" }, { "name": "b", "address": "b" }] },
        "tests": [{ "verb": "tcp", "arguments": [], "class": "exclusive", "length_ns": 1 }],
        "cells": [cell],
        "verdicts": [],
    });
    let result = scratch.with("matrix.json", &document.to_string());
    let line = netcaliper("fleet").args("report").arg(&result).arg("--export").arg(influx(&receiver));
    line.env("XDG_STATE_HOME", scratch.file("state")).run().exits(0);
    let requests = receiver.requests();
    let body = bodies(&requests)[0];
    let line =
        body.lines().find(|line| line.starts_with("netcaliper_fleet_goodput_bytes_per_second,")).unwrap();
    assert!(
        line.contains(",from=a,") && line.contains(",to=b ") && line.contains(" value=1000000 "),
        "{line}"
    );
    assert_eq!(time(body), 1_790_000_000_000_000_000);
}

#[test]
fn what_cannot_be_sent_is_said_before_anything_is_measured() {
    let scratch = Scratch::new();
    let refused = |words: &str, why: &str| {
        let line =
            netcaliper("ping").arg("192.0.2.1").args(words).env("XDG_STATE_HOME", scratch.file("state"));
        let done = line.run().exits(2).complains(&[why]);
        assert!(!done.err.contains("hidden"), "{}", done.tell());
    };
    refused("--export collector:4318", "a URL is wanted");
    refused("--export influx+http://name:hidden@h?db=d", "NETCALIPER_EXPORT_TOKEN");
    let open = scratch.with("open", "hidden");
    let closed = scratch.key("closed", "hidden");
    let file = |path: &Path| format!("--export-token-file {}", path.display());
    refused(&format!("--export otlp+http://h {}", file(&open)), "every user of this host can read it");
    refused(&format!("--export otlp+http://h {}", file(&scratch.file("none"))), "No such file");
    refused(
        &format!("--export otlp+http://a --export otlp+http://b {}", file(&closed)),
        "give --export-token-file HOST=FILE for each",
    );
    refused(
        &format!("--export otlp+http://a --export-token-file b={}", closed.display()),
        "names the host b",
    );
}

/// An answer of a server on this host: status line, headers, body in one piece (HTTP/1.0).
fn asked(port: u16, method: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// A program that serves HTTP; `None`, with the test skipped, where it is not installed.
fn started(test: &str, command: &mut Command, package: &str, (port, path): (u16, &str)) -> Option<Proc> {
    let name = command.get_program().to_string_lossy().into_owned();
    if !crate::support::net::installed(&name) {
        skip(test, &format!("there is no {name} (package {package})"));
        return None;
    }
    let proc = Proc::spawn(command);
    eventually("the server answers", || {
        asked(port, "GET", path).is_some_and(|answer| answer.contains(" 20"))
    });
    Some(proc)
}

#[test]
fn a_pushgateway_takes_the_figures_of_each_test() {
    let (scratch, server) = (Scratch::new(), serve(""));
    let port = free_port();
    let mut command = Command::new("prometheus-pushgateway");
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let test = "a_pushgateway_takes_the_figures_of_each_test";
    let Some(_gateway) = started(test, &mut command, "prometheus-pushgateway", (port, "/-/ready")) else {
        return;
    };
    let url = format!("pushgateway+http://127.0.0.1:{port}/job/lab/instance/probe");
    let state = scratch.file("state");
    let tcp = netcaliper("tcp").arg(server.at()).args("-t 200ms -i 100ms -b 2M --sweep connections=1,2");
    tcp.env("XDG_STATE_HOME", &state).arg("--export").arg(&url).run().exits(0).complains(&[]);
    for _ in 0..2 {
        let done = ping(&scratch, &server).arg("--export").arg(&url).run().exits(0);
        assert_eq!(done.err, "", "{}", done.tell());
    }
    let page = asked(port, "GET", "/metrics").unwrap();
    let samples = |start: &str| page.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    let goodput = samples("netcaliper_goodput_bytes_per_second{");
    assert!(
        goodput.len() == 2 && goodput.iter().all(|line| line.contains("job=\"lab\"")),
        "{goodput:?}\n{page}"
    );
    let complete = samples("netcaliper_run_complete{");
    assert_eq!(complete.len(), 2, "one of each test: {complete:?}");
    assert!(
        complete.iter().all(|line| line.contains("instance=\"probe\"") && line.ends_with(" 1")),
        "{complete:?}"
    );
}

#[test]
fn influxdb_keeps_the_figures_of_each_run() {
    let (scratch, server) = (Scratch::new(), serve(""));
    let (port, other) = (free_port(), free_port());
    let mut command = Command::new("influxd");
    command.env("INFLUXDB_HTTP_BIND_ADDRESS", format!("127.0.0.1:{port}"));
    command.env("INFLUXDB_BIND_ADDRESS", format!("127.0.0.1:{other}"));
    command.env("INFLUXDB_REPORTING_DISABLED", "true").env("INFLUXDB_HTTP_AUTH_ENABLED", "true");
    for (name, folder) in [("META_DIR", "meta"), ("DATA_DIR", "data"), ("DATA_WAL_DIR", "wal")] {
        command.env(format!("INFLUXDB_{name}"), scratch.file(folder));
    }
    let test = "influxdb_keeps_the_figures_of_each_run";
    let Some(_influx) = started(test, &mut command, "influxdb", (port, "/ping")) else { return };
    let query = |query: &str| {
        let query = query.replace(' ', "%20").replace('"', "%22").replace('\'', "%27");
        asked(port, "POST", &format!("/query?u=root&p=hidden&db=d&q={query}")).unwrap()
    };
    query("CREATE USER root WITH PASSWORD 'hidden' WITH ALL PRIVILEGES");
    query("CREATE DATABASE d");
    let url = format!("influx+http://127.0.0.1:{port}?db=d");
    let run = |token: &str| {
        ping(&scratch, &server).arg("--export").arg(&url).env("NETCALIPER_EXPORT_TOKEN", token).run()
    };
    let done = run("root:wrong").exits(0).complains(&["1 result for", "401"]);
    assert!(!done.err.contains("root:wrong"), "{}", done.tell());
    // The right password sends both.
    let done = run("root:hidden").exits(0);
    assert_eq!(done.err, "", "{}", done.tell());
    let found = query("SELECT * FROM \"netcaliper_run_complete\"");
    let (_, body) = found.split_once("\r\n\r\n").unwrap();
    let body = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
    let series: serde_json::Value = serde_json::from_str(body).unwrap();
    let series = &series["results"][0]["series"][0];
    assert_eq!(series["values"].as_array().map(Vec::len), Some(2), "{found}");
    let columns = series["columns"].as_array().unwrap();
    for column in ["verb", "protocol", "target", "value"] {
        assert!(columns.iter().any(|name| name == column), "{columns:?}");
    }
}

/// Reads requests as the classes do that are generated from the published definitions.
const OTLP_READER: &str = "
import sys
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
request = json_format.Parse(sys.stdin.read(), service.ExportMetricsServiceRequest())
for metric in request.resource_metrics[0].scope_metrics[0].metrics:
    for point in metric.gauge.data_points:
        assert point.time_unix_nano > 1600000000 * 10**9, point
        print(metric.name, metric.unit, point.as_double)
";

#[test]
fn the_published_definitions_read_what_is_sent() {
    const TEST: &str = "the_published_definitions_read_what_is_sent";
    let import = "import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2";
    let found = Command::new("python3").args(["-c", import]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        skip(TEST, "python3 has no opentelemetry-proto (pip install opentelemetry-proto)");
        return;
    }
    let (scratch, server) = (Scratch::new(), serve(""));
    let receiver = Receiver::start([]);
    let url = format!("otlp+http://{}", receiver.address);
    ping(&scratch, &server).arg("--export").arg(&url).run().exits(0);
    let requests = receiver.requests();
    let mut reader = Command::new("python3");
    reader.args(["-c", OTLP_READER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut reader = reader.spawn().unwrap();
    reader.stdin.take().unwrap().write_all(bodies(&requests)[0].as_bytes()).unwrap();
    let read = reader.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&read.stderr));
    assert!(read.status.success(), "{err}");
    assert!(out.contains("netcaliper_round_trip_percentile_seconds s "), "{out}");
}
