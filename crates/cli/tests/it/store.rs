//! Runs are kept, found again, compared; and a store in trouble costs no run.

use crate::support::files::Scratch;
use crate::support::iperf3;
use crate::support::{BIN, Done, Line, netcaliper, number, serve, tcp, text};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn at(line: Line, store: &Path) -> Line {
    line.env("NETCALIPER_STORE", store)
}

#[test]
fn every_run_is_kept_and_found_again() {
    let scratch = Scratch::new();
    let store = scratch.file("deep/runs.sqlite");
    let server = serve("");
    let run = |words: &str| at(tcp(server.at()), &store).args("-t 300ms -i 100ms -b 2M").args(words).run();
    at(netcaliper("history"), &store).run().exits(1).says_one_sentence().complains(&["no run was kept yet"]);
    run("-P 1").exits(0);
    run("-P 2").exits(0);
    run("-P 3 --no-store").exits(0);
    at(netcaliper("ping").arg(server.at()), &store).args("-n 50").run().exits(0);

    let told = at(netcaliper("history"), &store).arg("--json").run().exits(0).json();
    let runs = told["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|r| number(&r["id"])).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(runs.iter().map(|r| text(&r["verb"])).collect::<Vec<_>>(), ["ping", "tcp", "tcp"]);
    let has =
        |run: &Value, name: &str| run["figures"].as_array().unwrap().iter().any(|f| f["figure"] == name);
    assert!(has(&runs[0], "rtt.max") && !has(&runs[0], "rtt.p99") && has(&runs[1], "goodput.up"), "{told}");

    at(netcaliper("history"), &store).args("--verb tcp -n 1").run().exits(0).prints(&["tcp", "bit/s"]);
    at(netcaliper("show"), &store).arg("1").run().exits(0).prints(&["1 connection,"]);
    at(netcaliper("show"), &store).arg("last").run().exits(0).prints(&["ping"]);
    at(netcaliper("compare"), &store)
        .args("1 2")
        .run()
        .exits(0)
        .prints(&["goodput to server", "Not the same test: -P 1 -> 2."]);
    // A name that no run has is told with those there are, and a number that there is not costs no
    // other run.
    let other = at(netcaliper("history"), &store).args("--figure goodput").run().exits(2).says_one_sentence();
    other.complains(&["figure called 'goodput'", "goodput.up", "rtt.p50"]);
    let other = at(netcaliper("history"), &store).args("--forget 1 99").run().exits(1).says_one_sentence();
    other.complains(&["holds no run 99"]);
    let page = scratch.file("page.html");
    at(netcaliper("report"), &store).arg("2").arg("--html").arg(&page).run().exits(0);
    assert!(std::fs::read_to_string(page).unwrap().contains("<!DOCTYPE html>"));
    // What is kept is the outcome itself.
    let json = at(netcaliper("report"), &store).args("2 --json").run().exits(0).json();
    assert_eq!(json["begin"]["run"], runs[1]["run"]);
    // To print a run is no run.
    at(netcaliper("history"), &store).args("--retain runs=1").run().exits(0).prints(&["2 runs deleted"]);
    at(netcaliper("show"), &store).arg("1").run().exits(1).says_one_sentence().complains(&["holds no run 1"]);
    at(netcaliper("show"), &store).arg("one").run().exits(2).says_one_sentence();
    at(netcaliper("history"), &store).args("--forget 3").run().exits(0).prints(&["1 run deleted"]);
}

/// A run against a store in trouble: its result is complete, and one sentence warns.
#[track_caller]
fn warned(done: Done, word: &str) {
    let done = done.exits(0).prints(&["By remote address"]).says_one_sentence();
    done.complains(&["netcaliper: warning: this run was not kept: ", word]);
}

#[test]
fn a_store_in_trouble_costs_no_run() {
    let scratch = Scratch::new();
    let server = serve("");
    let run = |store: &Path| at(tcp(server.at()), store).args("-t 200ms -i 100ms -b 2M -P 1").run();
    let damaged = scratch.with("damaged.sqlite", &"this is no database. ".repeat(100));
    warned(run(&damaged), "is damaged");
    let file = scratch.with("file", "");
    warned(run(&file.join("runs.sqlite")), "cannot be written");
    warned(run(scratch.path()), "cannot be");

    // Another process holds the write lock.
    let locked = scratch.file("locked.sqlite");
    run(&locked).exits(0);
    let holder = rusqlite::Connection::open(&locked).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    warned(run(&locked), "another process");
    drop(holder);
    assert!(!run(&locked).exits(0).err.contains("warning: this run"), "the lock is gone");
}

#[test]
fn a_full_disk_costs_no_run() {
    let scratch = Scratch::new();
    let server = serve("");
    // No file of this process may grow beyond 4 KiB: SQLite is refused as it would be on a full
    // disk.
    let script =
        format!("trap '' XFSZ; ulimit -f 8; exec {BIN} tcp {} -v -t 200ms -i 100ms -b 2M -P 1", server.at());
    let line = Line(Command::new("sh")).arg("-c").arg(script);
    warned(at(line, &scratch.file("runs.sqlite")).run(), "cannot be");
}

#[test]
fn a_store_may_be_nowhere() {
    let server = serve("");
    let line = || tcp(server.at()).args("-t 200ms -i 100ms -b 2M -P 1").without("NETCALIPER_STORE");
    let nowhere = ["HOME", "XDG_DATA_HOME", "LOCALAPPDATA"].into_iter().fold(line(), Line::without);
    warned(nowhere.run(), "no home directory");
    let scratch = Scratch::new();
    line().env("XDG_DATA_HOME", scratch.path()).run().exits(0);
    assert!(scratch.file("netcaliper/runs.sqlite").is_file());
}

/// The verbs that a store holds, the latest first.
fn verbs(store: &Path) -> Vec<String> {
    let told = at(netcaliper("history"), store).args("--json").run().exits(0).json();
    told["runs"].as_array().unwrap().iter().map(|run| text(&run["verb"]).to_owned()).collect()
}

#[test]
fn originals_and_servers_keep_their_runs_in_silence() {
    let scratch = Scratch::new();
    let (store, other) = (scratch.file("runs.sqlite"), scratch.file("server.sqlite"));
    let (server, port) = iperf3::ours(|line| at(line, &other).args("-B 127.0.0.1"));
    let call = |store: &Path| {
        at(netcaliper("iperf3"), store).args("-c 127.0.0.1 -t 1 -b 10M -p").arg(&port).run().exits(0)
    };
    let kept = call(&store);
    assert_eq!(kept.err, "");
    assert_eq!(verbs(&store), ["iperf3"]);
    at(netcaliper("report"), &store).args("last --as iperf3").run().exits(0).prints(&["sender", "receiver"]);
    // A store in trouble changes neither what is printed nor the exit code.
    let damaged = scratch.with("damaged.sqlite", &"this is no database. ".repeat(100));
    let lost = call(&damaged);
    assert_eq!(lost.err, "");
    // All but the intervals, of which a busy machine may have one more or less.
    let told = |done: &Done| done.out.lines().filter(|line| !line.starts_with("[  5]")).count();
    assert_eq!(told(&lost), told(&kept), "{}{}", lost.tell(), kept.tell());
    assert!(lost.out.contains(" sender\n") && lost.out.contains(" receiver\n"), "{}", lost.tell());

    server.signal("INT");
    server.wait();
    assert_eq!(verbs(&other), ["serve"]);
    let shown = at(netcaliper("history"), &other).args("--json").run().exits(0).out;
    assert!(!shown.contains("goodput"), "a server's life has no rate: {shown}");

    // No client connected: nothing is saved.
    let idle = scratch.file("idle.sqlite");
    let server = at(netcaliper("serve"), &idle).args("-B 127.0.0.1 --port 0").spawn();
    server.hears("listening on ");
    server.signal("INT");
    server.wait().exits(0);
    at(netcaliper("history"), &idle).run().exits(1).complains(&["no run was kept yet"]);
}
