//! Metrics over HTTP, as scrapers get them.

use crate::metrics::{checked, dashboard, queries, value};
use crate::support::files::Scratch;
use crate::support::net::free_port;
use crate::support::{Proc, netcaliper, serve, tcp};
use crate::web::{body, exchange};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpStream;

/// The address in a line such as `metrics at http://127.0.0.1:9411/metrics`.
fn scraped_at(proc: &Proc) -> String {
    let line = proc.hears("metrics at http://");
    line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

#[test]
fn a_server_is_scraped() {
    let server = serve("--metrics 127.0.0.1:0");
    let at = scraped_at(&server.proc);
    let page = || exchange(&at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let before = page();
    assert!(
        before.starts_with("HTTP/1.1 200 OK\r\n") && before.contains("text/plain; version=0.0.4"),
        "{before}"
    );
    tcp(server.at()).args("-n 4M -P 2").run().exits(0);
    // The interval in which it was counted has to end first.
    let received = || value(body(&page()), "netcaliper_server_received_bytes_total");
    crate::support::eventually("all of it is counted", || received() >= 4.0 * 1048576.0);
    let page = page();
    assert_eq!(value(body(&page), "netcaliper_server_received_bytes_total"), 4.0 * 1048576.0);
    assert!(value(body(&page), "netcaliper_server_connection_seconds_count") >= 2.0);
    checked("a_server_is_scraped", body(&page));
    // Others get no metrics, and do no harm.
    assert!(exchange(&at, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(exchange(&at, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(body(&exchange(&at, "HEAD /metrics HTTP/1.1\r\n\r\n")).is_empty());
    drop(TcpStream::connect(&at).unwrap());
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(20_000));
    let mut stream = TcpStream::connect(&at).unwrap();
    let _ = stream.write_all(long.as_bytes());
    assert!(page.contains("netcaliper_build_info"));
    assert!(exchange(&at, "GET /metrics?x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200"));
}

#[test]
fn a_monitor_notices_that_nobody_answers_and_goes_on() {
    let scratch = Scratch::new();
    let monitor = netcaliper("monitor")
        .args("--every 10ms --metrics 127.0.0.1:0")
        .arg("--store")
        .arg(scratch.file("runs.sqlite"))
        .args(&format!("-- ping 127.0.0.1:{} -n 1 --connect-timeout 1s", free_port()))
        .spawn();
    let at = scraped_at(&monitor);
    monitor.hears_often("is `netcaliper serve` running there?", 2);
    let page = exchange(&at, "GET /metrics HTTP/1.1\r\n\r\n");
    checked("a_monitor_notices_that_nobody_answers_and_goes_on", body(&page));
    assert!(value(body(&page), "netcaliper_runs_total{status=\"failed\"}") >= 1.0);
    monitor.signal("TERM");
    monitor.wait().exits(3);
}

/// The words of a text that are names of metrics or labels.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn the_dashboard_asks_for_metrics_and_labels_that_a_scrape_has() {
    let scratch = Scratch::new();
    let server = serve("--metrics 127.0.0.1:0");
    let at = scraped_at(&server.proc);
    let mut pages = String::new();
    for (verb, words) in [
        ("tcp", "-t 300ms -i 100ms -b 2M"),
        ("delay", "-t 300ms --bidir --pps 200"),
        ("connect", "-t 200ms --rate 100"),
        ("stream", "-t 1s --rate 1M --length 1s"),
    ] {
        let file = scratch.file(&format!("{verb}.prom"));
        netcaliper(verb).arg(server.at()).args(words).arg("--metrics-file").arg(&file).run().exits(0);
        pages += &std::fs::read_to_string(&file).unwrap();
    }
    let prom = scratch.file("monitor.prom");
    let monitor =
        netcaliper("monitor").args("--every 10ms --count 2 --assert messages-lost=0 --metrics-file");
    let monitor = monitor.arg(&prom).arg("--store").arg(scratch.file("runs.sqlite"));
    monitor.arg("--").arg("ping").arg(server.at()).args("-n 20").run().exits(0);
    pages += &std::fs::read_to_string(&prom).unwrap();
    pages += body(&exchange(&at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
    // Metrics and the labels that they have; every scrape adds two.
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in pages.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels = known.entry(name).or_insert_with(|| BTreeSet::from(["instance", "job"]));
        labels.extend(rest.split('"').step_by(2).flat_map(names));
    }
    let mut asked = 0;
    for (query, legend) in queries(&dashboard()) {
        let metrics: Vec<&str> = names(&query).filter(|word| word.starts_with("netcaliper_")).collect();
        for metric in metrics {
            asked += 1;
            let labels = known.get(metric).unwrap_or_else(|| panic!("no scrape has {metric}: {query}"));
            let selected = query.split('{').skip(1).filter_map(|rest| rest.split('}').next());
            let selected = selected.flat_map(|all| all.split(',')).filter_map(|pair| names(pair).next());
            let summed =
                query.split("by (").skip(1).filter_map(|rest| rest.split(')').next()).flat_map(names);
            let shown = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            for label in selected.chain(summed).chain(shown.map(str::trim)) {
                assert!(labels.contains(label), "{metric} has no label {label}: {query} ({legend})");
            }
        }
    }
    assert!(asked > 20, "{asked}");
}
