//! How runs end before their time: kills, hangs and signals at either end. What was measured until then is always there.

use crate::support::files::{Csv, Scratch};
use crate::support::{Outcome, Proc, Server, connect, net, netcaliper, number, serve, tcp};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Within this time a vanished peer must have been noticed and told.
const NOTICED: Duration = Duration::from_secs(30);
/// Within this time whoever was told to quit must have quit.
const AT_ONCE: Duration = Duration::from_secs(6);

/// A client that would run for a minute, with a journal, once it has measured something.
fn endless(server: &Server, args: &str) -> (Proc, Scratch) {
    let scratch = Scratch::new();
    let line = tcp(server.at())
        .args("-t 60s -i 200ms -P 4 -b 200M --save")
        .arg(scratch.file("run.jsonl"))
        .args(args);
    let client = line.spawn();
    eventually_measures(&scratch);
    (client, scratch)
}

/// Waits until the journal holds some intervals.
#[track_caller]
fn eventually_measures(scratch: &Scratch) {
    crate::support::eventually("intervals in the journal", || {
        let text = std::fs::read_to_string(scratch.file("run.jsonl")).unwrap_or_default();
        text.matches("\"event\":\"interval\"").count() >= 3
    });
}

/// Connections failed while it ran: a server's exit code says so, like a client's.
#[track_caller]
fn ends_having_lost(server: Server, connections: u32) {
    server.proc.signal("INT");
    let done = server.proc.wait().exits(1);
    assert!(done.out.contains(&format!("{connections} connections FAILED")), "{}", done.tell());
}

#[test]
fn a_killed_server_leaves_a_partial_result_and_its_port() {
    let server = serve("");
    let (client, scratch) = endless(&server, "");
    let port = server.port;
    server.proc.signal("KILL");
    let done = client.wait_within(NOTICED).exits(4).prints(&["Run partial", "client to server"]);
    assert!(done.out.contains(&format!("127.0.0.1:{port}")), "who was lost is said: {}", done.tell());

    // Restarted on the same port, at once.
    let again = Server::start(netcaliper("serve").args(&format!("--port {port}")));
    again.still_serves();

    // The journal tells the same story.
    let report = netcaliper("report").arg(scratch.file("run.jsonl")).run().exits(4);
    assert!(
        report.out.contains("Run partial") && report.out.contains("client to server"),
        "{}",
        report.tell()
    );
    let outcome =
        Outcome::of(netcaliper("report").arg(scratch.file("run.jsonl")).arg("--json").run()).exits(4);
    assert_eq!(outcome.json["status"], "partial");
    assert!(number(&outcome.near()["traffic"]["tx_bytes"]) > 0);
    assert!(outcome.point()["intervals"].as_array().unwrap().len() >= 3);
    outcome.doubts("unconfirmed");
}

#[test]
fn a_hung_server_is_noticed_and_recovers() {
    let server = serve("");
    let (client, _scratch) = endless(&server, "--json");
    server.proc.signal("STOP");
    let outcome = Outcome::of(client.wait_within(NOTICED)).exits(4).status("partial");
    assert!(number(&outcome.near()["traffic"]["tx_bytes"]) > 0, "{}", outcome.tell());
    server.proc.signal("CONT");
    server.still_serves();
    server.proc.signal("INT");
    let code = server.proc.wait().code;
    // What the client's abort looks like depends on what was on its way when the server froze.
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
}

#[test]
fn a_run_goes_on_with_the_servers_that_are_left() {
    let (one, other) = (serve(""), serve(""));
    let scratch = Scratch::new();
    let line = tcp(one.at())
        .arg(other.at())
        .args("-P 4 -t 6s -i 200ms -b 50M --save")
        .arg(scratch.file("run.jsonl"));
    let client = line.arg("--json").spawn();
    eventually_measures(&scratch);
    one.proc.signal("KILL");
    let outcome = Outcome::of(client.wait()).exits(4).status("partial");
    assert_eq!(outcome.far().len(), 1, "{}", outcome.tell());
    assert_eq!(outcome.far()[0]["who"], other.at().as_str());
    let last = outcome.point()["intervals"].as_array().unwrap().last().unwrap();
    assert!(number(&last["end_ns"]) > 4_000_000_000, "the rest of the run took place: {last}");
    other.still_serves();
}

#[test]
fn a_killed_client_disturbs_no_other_and_its_place_is_freed() {
    let server = serve("");
    let (victim, scratch) = endless(&server, "");
    let (mut witness, _theirs) = endless(&server, "");
    victim.signal("KILL");
    assert_eq!(victim.wait().code, None);
    std::thread::sleep(Duration::from_millis(500));
    assert!(witness.is_running(), "another session goes on");
    witness.signal("INT");
    let done = witness.wait().exits(130);
    assert!(!done.out.contains("network err  1"), "{}", done.tell());

    // What the victim had written is a run that can be read.
    netcaliper("report").arg(scratch.file("run.jsonl")).run().exits(4).prints(&["Run partial"]);

    // Who wants the server for himself gets it.
    let line = tcp(server.at()).args("--exclusive -P 2 --iterations 1 --transfer 100001");
    Outcome::of(line.arg("--json").spawn().wait_within(NOTICED)).moved(2, 200_002, 0);
    ends_having_lost(server, 4);
}

#[test]
fn a_hung_client_does_not_hold_the_server() {
    let server = serve("");
    let (hung, _scratch) = endless(&server, "");
    hung.signal("STOP");
    server.still_serves();
    let line = tcp(server.at()).args("--exclusive -P 2 --iterations 1 --transfer 100001");
    Outcome::of(line.arg("--json").spawn().wait_within(NOTICED)).moved(2, 200_002, 0);
    ends_having_lost(server, 4);
}

/// One signal to the client: everything that was measured, from both ends.
fn interrupted_by(signal: &str, args: &str) {
    let scratch = Scratch::new();
    let theirs = scratch.file("server.csv");
    let server = Server::start(netcaliper("serve").args("--port 0 --connection-csv").arg(&theirs));
    let (client, _scratch) = endless(&server, &format!("--json {args}"));
    client.signal(signal);
    let outcome = Outcome::of(client.wait()).exits(130).status("interrupted");
    assert_eq!(outcome.errors(), (0, 0), "{}", outcome.tell());
    assert_eq!(outcome.far().len(), 1);
    assert_eq!(outcome.near()["stopped"], 4, "{}", outcome.tell());
    assert_eq!(outcome.far_sum("/stopped"), 4, "{}", outcome.tell());
    for way in ["up", "down"].map(|name| &outcome.point()[name]).into_iter().filter(|way| !way.is_null()) {
        assert_eq!(way["confirmed"], true, "{way}");
        assert!(number(&way["received_bytes"]) > 0, "{way}");
    }
    server.end();
    // Both ends agree on every connection to the byte, although it was cut short.
    let theirs = Csv::read(&theirs);
    let ids = theirs.column("id");
    for ours in outcome.connections() {
        let at = ids.iter().position(|id| ours["id"] == **id).unwrap();
        let (rx, tx) = (theirs.column("rx_bytes")[at], theirs.column("tx_bytes")[at]);
        assert_eq!((ours["tx_bytes"].to_string(), ours["rx_bytes"].to_string()), (rx.into(), tx.into()));
        assert_eq!((&ours["result"], theirs.column("result")[at]), (&"stopped".into(), "stopped"));
    }
}

#[test]
fn sigint_ends_a_client_with_full_results() {
    interrupted_by("INT", "");
}

#[test]
fn sigterm_ends_a_client_with_full_results() {
    interrupted_by("TERM", "--bidir");
}

#[test]
fn sigint_ends_a_receiving_client_with_full_results() {
    interrupted_by("INT", "-R");
}

#[test]
fn sigint_ends_taking_turns_with_full_results() {
    interrupted_by("INT", "--pattern pushpull");
}

#[test]
fn sigint_ends_a_connect_run() {
    let server = serve("");
    let client = connect(server.at()).args("-t 60s -i 200ms").spawn();
    client.hears_often(" s  ", 3);
    client.signal("INT");
    client.wait().exits(130).prints(&["Run interrupted", "Connections established"]);
    server.still_serves();
}

#[test]
fn an_interrupted_server_lets_its_clients_finish_in_good_order() {
    for signal in ["INT", "TERM"] {
        let server = serve("");
        let (client, _scratch) = endless(&server, "--json");
        server.proc.signal(signal);
        let outcome = Outcome::of(client.wait_within(NOTICED)).exits(130).status("interrupted");
        assert_eq!(outcome.errors(), (0, 0), "{}", outcome.tell());
        assert_eq!(outcome.point()["up"]["confirmed"], true, "{}", outcome.tell());
        let reason = outcome.json["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("stop"), "it says why: {reason}");
        let done = server.proc.wait_within(NOTICED).exits(0);
        assert!(done.out.contains("client to server"), "the server's own summary: {}", done.tell());
    }
}

#[test]
fn an_idle_server_ends_at_once() {
    for signal in ["INT", "TERM"] {
        let server = serve("");
        server.proc.signal(signal);
        server.proc.wait_within(AT_ONCE).exits(0);
    }
}

#[test]
fn the_second_signal_ends_a_client_at_once() {
    let server = serve("");
    let (client, _scratch) = endless(&server, "");
    server.proc.signal("STOP");
    // Its send buffers are full soon, so that nothing can end in good order.
    std::thread::sleep(Duration::from_millis(300));
    client.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    client.signal("INT");
    client.wait_within(AT_ONCE).exits(130);
    server.proc.signal("CONT");
    server.still_serves();
}

#[test]
fn the_second_signal_ends_a_server_at_once() {
    let server = serve("");
    let (client, _scratch) = endless(&server, "");
    client.signal("STOP");
    server.proc.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    server.proc.signal("INT");
    server.proc.wait_within(AT_ONCE).exits(130);
    client.signal("CONT");
    let began = Instant::now();
    let code = client.wait_within(NOTICED).code;
    assert!(matches!(code, Some(4 | 130)), "{code:?} after {:?}", began.elapsed());
}

#[test]
fn a_client_with_nothing_under_way_ends_at_once() {
    let server = serve("--exclusive");
    let (running, _scratch) = endless(&server, "");
    let waiting = tcp(server.at()).args("-n 1M").spawn();
    waiting.hears("waiting for 1 other session");
    waiting.signal("INT");
    waiting.wait_within(AT_ONCE).exits(130);
    running.signal("INT");
    running.wait().exits(130);
    server.still_serves();
}

#[test]
fn stop_drains_the_server() {
    let server = serve("");
    let client = tcp(server.at()).args("-t 3s -P 2 -b 50M --json").spawn();
    server.proc.hears("session 1 with");
    let mut stop = netcaliper("stop").arg(server.at()).spawn();
    server.proc.hears("asks to stop; 1 session(s) still running");
    // Nobody new is let in; who is in, stays.
    let late = tcp(server.at()).args("-n 1M").run().exits(1);
    assert!((late.out.clone() + &late.err).contains("the server is stopping"), "{}", late.tell());
    assert!(stop.is_running(), "stop waits for the end");
    let outcome = Outcome::of(client.wait()).good();
    assert!(number(&outcome.point()["intervals"][0]["end_ns"]) > 900_000_000);
    stop.wait().exits(0);
    server.proc.wait_within(NOTICED).exits(0);
}

#[test]
fn stop_says_when_there_is_nothing_to_stop() {
    let port = net::free_port();
    let done = netcaliper("stop").arg(format!("127.0.0.1:{port}")).run().exits(1).says_one_sentence();
    done.complains(&["Connection refused", &port.to_string()]);
}

/// What was not measured is absent: no rate of 0 in what is printed, kept and scraped.
#[test]
fn a_failed_run_has_no_figures() {
    let scratch = Scratch::new();
    let (store, metrics) = (scratch.file("store.db"), scratch.file("metrics.prom"));
    for verb in ["tcp", "connect", "delay"] {
        let line = netcaliper(verb).arg(format!("127.0.0.1:{}", net::free_port())).args("-t 300ms --json");
        let line = line.arg("--store").arg(&store).arg("--metrics-file").arg(&metrics);
        let done = line.run().exits(1);
        let json: Value = serde_json::from_str(&done.out).unwrap();
        let point = &json["points"][0];
        assert_eq!(
            (&point["status"], &point["up"], &point["down"]),
            (&json!("failed"), &Value::Null, &Value::Null)
        );
        let scraped = std::fs::read_to_string(&metrics).unwrap();
        assert!(!scraped.contains("netcaliper_goodput"), "{scraped}");
        assert!(scraped.contains("netcaliper_runs_total{status=\"failed\"} 1"), "{scraped}");
    }
    let history = netcaliper("history").arg("--store").arg(&store).run().exits(0);
    assert!(!history.out.contains("bit/s") && history.out.contains("failed"), "{}", history.tell());
}
