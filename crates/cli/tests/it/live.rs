//! The live view with the real binary, on a terminal that knows what it shows (`peers/screen.py`).

use crate::support::files::Scratch;
use crate::support::peer::python;
use crate::support::{BIN, PATIENCE, Proc, Server, netcaliper, serve, skip};
use serde_json::{Value, json};
use std::path::Path;

/// What a terminal has seen of `netcaliper` with `words`, while `steps` were taken; `None` (and a
/// skip on record) without Python.
fn on_terminal(test: &str, size: &str, steps: &[&str], words: &str) -> Option<Value> {
    on_terminal_by(&[], test, size, steps, words)
}

/// The same, started by another program, which is given its name and its words.
fn on_terminal_by(starter: &[&str], test: &str, size: &str, steps: &[&str], words: &str) -> Option<Value> {
    let Some(mut command) = python().filter(|_| Path::new("/dev/ptmx").exists()) else {
        skip(test, "python3 or pseudo terminals are not there");
        return None;
    };
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/screen.py")).arg(size).args(steps);
    command.arg("--").args(starter).arg(BIN).args(words.split_whitespace());
    command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env("NETCALIPER_STORE", "off");
    command.env_remove("NO_COLOR");
    Some(Proc::spawn(&mut command).wait_within(PATIENCE * 4).exits(0).last_json())
}

/// A run that goes on until it is told to end.
fn endless(server: &Server) -> String {
    format!("tcp {} -P 2 -b 2M -t 600s", server.at())
}

/// The terminal is as it was, and the program ended with `code`.
#[track_caller]
fn left_well(seen: &Value, code: i64) -> &str {
    assert_eq!(seen["code"].as_i64(), Some(code), "{seen:#}");
    for what in ["restored", "first", "cursor"] {
        assert_eq!(seen[what].as_bool(), Some(true), "{what}: {seen:#}");
    }
    assert!(seen["taken"].as_u64().unwrap() > 0, "there was a view: {seen:#}");
    seen["printed"].as_str().unwrap()
}

#[test]
fn a_dumb_terminal_and_another_locale_get_plain_text() {
    let test = "a_dumb_terminal_gets_plain_text";
    let plain = ["env", "TERM=dumb", "LC_ALL=C"];
    let Some(seen) = on_terminal_by(&plain, test, "80x24", &[], "demo -t 100ms") else { return };
    let printed = seen["printed"].as_str().unwrap();
    assert_eq!((&seen["code"], &seen["marked"], &seen["taken"]), (&json!(0), &json!(false), &json!(0)));
    assert!(printed.is_ascii() && printed.contains("TCP one way: "), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    let piped = netcaliper("demo").args("-t 100ms").env("LC_ALL", "C").run().exits(0);
    assert!(piped.out.is_ascii() && !piped.out.contains('\x1b'), "{}", piped.out);
}

#[test]
fn keys_lead_through_the_pages_and_end_the_run_with_its_results() {
    let server = serve("");
    let steps = [
        "see:goodput up",
        "see:q end the run",
        "keys:c",
        "see:2 of 2 open connections",
        "keys:s",
        "see:▼ sending",
        "keys:l",
        "see:idle round trip",
        "keys:v",
        // Both ends are on one host.
        "see:loopback",
        "keys:?",
        "see:end the run in good order",
        "keys:\\x1b",
        "see:goodput up",
        "keys:p",
        "see:DISPLAY PAUSED",
        "keys:p",
        "gone:DISPLAY PAUSED",
        "size:120x40",
        "see:t table of runs",
        "size:30x8",
        "see:goodput up",
        "size:12x1",
        "see:bit/s",
        "size:80x24",
        "see:q end the run",
        "keys:q",
    ];
    let words = endless(&server);
    let Some(seen) = on_terminal("keys_lead_through_the_pages", "80x24", &steps, &words) else { return };
    let printed = left_well(&seen, 130);
    assert_eq!(seen["taken"].as_u64(), Some(1), "{seen:#}");
    assert!(printed.contains("tcp to server, 2 connections"), "what was asked for is said again: {printed}");
    assert!(printed.contains("Run interrupted: tcp ") && printed.contains("to server"), "{printed}");
    assert!(!printed.contains("elapsed"), "the lines of the intervals were seen already: {printed}");
    server.still_serves();
}

#[test]
fn every_end_leaves_the_terminal_as_it_was() {
    let server = serve("");
    let words = endless(&server);
    // The last is the key that dumps a core elsewhere.
    for end in ["keys:\\x03", "signal:TERM", "signal:HUP", "keys:\\x1c"] {
        let Some(seen) = on_terminal("every_end", "80x24", &["see:goodput up", end], &words) else { return };
        let printed = left_well(&seen, 130);
        let at_once = end == "keys:\\x1c";
        assert_eq!(printed.contains("Run interrupted"), !at_once, "{end}: {printed}");
    }
    let short = format!("tcp {} -P 2 -b 2M -t 1s --live", server.at());
    let Some(seen) = on_terminal("every_end", "80x24", &[], &short) else { return };
    assert!(left_well(&seen, 0).contains("bit/s to server"), "{seen:#}");
    // No program listens there: the view has hardly begun.
    let refused = "tcp 127.0.0.1:1";
    let Some(seen) = on_terminal("every_end", "80x24", &[], &format!("{refused} --live")) else { return };
    assert!(left_well(&seen, 1).contains("refused"), "{seen:#}");
    // Why a run failed is told once.
    let Some(seen) = on_terminal("every_end", "80x24", &[], refused) else { return };
    assert_eq!(seen["code"].as_i64(), Some(1), "{seen:#}");
    let printed = seen["printed"].as_str().unwrap();
    assert_eq!(printed.matches("Connection refused").count(), 1, "{printed}");
}

#[test]
fn tables_beside_the_result_are_printed_when_the_view_has_ended() {
    let server = serve("");
    let words = format!("train {} --preset slac --repeat 1 --every 100ms --streams 0 --live", server.at());
    let Some(seen) = on_terminal("tables_beside_the_result", "80x24", &[], &words) else { return };
    assert!(left_well(&seen, 0).contains("Data rate by measurement number and wait"), "{seen:#}");
}

#[test]
fn a_second_signal_leaves_the_terminal_as_it_was() {
    // A listener that never accepts: the run waits for its answer, and for 0.7 s after the first
    // signal.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let words = format!("tcp {} -t 600s --connect-timeout 600s", silent.local_addr().unwrap());
    let steps = ["see:netcaliper tcp", "signal:INT", "pause:0.55", "signal?:TERM"];
    let Some(seen) = on_terminal("a_second_signal", "80x24", &steps, &words) else { return };
    left_well(&seen, 130);
}

#[test]
fn a_stop_gives_the_terminal_to_the_shell_and_takes_it_back() {
    let server = serve("");
    let words = endless(&server);
    // SIGSTOP cannot be handled.
    for (stop, given_back) in [("keys:\\x1a", true), ("signal:TSTP", true), ("signal:STOP", false)] {
        let steps = ["see:goodput up", stop, "stopped", "taken:2", "see:goodput up", "keys:q"];
        let Some(seen) = on_terminal("a_stop", "80x24", &steps, &words) else { return };
        left_well(&seen, 130);
        assert_eq!(seen["meanwhile"], serde_json::json!([given_back, given_back]), "{stop}: {seen:#}");
        assert_eq!(seen["taken"].as_u64(), Some(2), "{stop}: {seen:#}");
    }
    // A program that is to ignore Ctrl-Z goes on.
    let steps = ["see:goodput up", "keys:\\x1a?", "see:end the run in good order", "keys:q"];
    let ignoring = ["sh", "-c", "trap '' TSTP; exec \"$@\"", "sh"];
    let Some(seen) = on_terminal_by(&ignoring, "a_stop", "80x24", &steps, &words) else { return };
    left_well(&seen, 130);
}

#[test]
fn a_terminal_that_takes_nothing_does_not_hold_the_run_up() {
    let server = serve("");
    let scratch = Scratch::new();
    // The log is written while the run goes on, the journal has its name at the end.
    let (log, file) = (scratch.with("log.csv", ""), scratch.with("run.jsonl", ""));
    let lines = |n: u32, file: &Path| format!("lines:{n}:{}", file.display());
    let saved = format!("--status-csv {} --save {}", log.display(), file.display());
    let words = format!("{} -i 100ms {saved}", endless(&server));
    // The whole screen anew is more than a pseudo terminal holds. The run goes on, and ends when it
    // is told to: its totals are written although the terminal has read nothing.
    let (on, end) = (lines(40, &log), lines(4, &file));
    let steps = ["see:goodput up", "deaf", "size:200x60", on.as_str(), "signal:TERM", end.as_str(), "hear"];
    let Some(seen) = on_terminal("a_terminal_that_takes_nothing", "80x24", &steps, &words) else {
        return;
    };
    assert!(left_well(&seen, 130).contains("Run interrupted"), "{seen:#}");
    let journal = std::fs::read_to_string(&file).unwrap();
    assert!(journal.lines().last().unwrap().contains("\"event\":\"end\""), "the journal is whole");
}

#[test]
fn a_terminal_that_goes_away_ends_the_run_in_good_order() {
    let server = serve("");
    let scratch = Scratch::new();
    let file = scratch.with("run.jsonl", "");
    let words = format!("{} --save {}", endless(&server), file.display());
    let steps = ["see:goodput up", "hangup"];
    let Some(seen) = on_terminal("a_terminal_that_goes_away", "80x24", &steps, &words) else { return };
    // The summary cannot be printed, which is a failure; the run is saved.
    assert_eq!(seen["code"].as_i64(), Some(1), "{seen:#}");
    let journal = std::fs::read_to_string(&file).unwrap();
    assert!(journal.lines().last().unwrap().contains("\"event\":\"end\""), "the journal is whole");
}

#[test]
fn no_color_means_none_and_every_size_is_enough() {
    let server = serve("");
    let words = format!("ping {} --rate 20 -t 600s --no-baseline", server.at());
    for size in ["1x1", "20x5", "80x24", "200x60"] {
        // One cell holds no word.
        let steps = [if size == "1x1" { "see:" } else { "see:rtt p50" }, "keys:q"];
        let without = ["env", "NO_COLOR=1"];
        let Some(seen) = on_terminal_by(&without, "no_color", size, &steps, &words) else { return };
        left_well(&seen, 130);
        assert_eq!(seen["colors"].as_bool(), Some(false), "{seen:#}");
    }
    let steps = ["see:rtt p50", "keys:q"];
    let Some(seen) = on_terminal("no_color", "80x24", &steps, &words) else { return };
    assert_eq!(seen["colors"].as_bool(), Some(true), "{seen:#}");
}

#[test]
fn a_server_shows_what_its_clients_do() {
    let scratch = Scratch::new();
    let file = scratch.file("served.jsonl");
    let steps = ["see:listening on", "see:receiving", "keys:q"];
    let words = format!("serve --live --port 0 --save {}", file.display());
    let Some(seen) = on_terminal("a_server_shows", "80x24", &steps, &words) else { return };
    // A signal is how servers are ended: that is no failure.
    assert!(left_well(&seen, 0).contains("listening on"), "{seen:#}");
}

#[test]
fn never_on_a_pipe() {
    let server = serve("");
    let refused = netcaliper("tcp").arg(server.at()).args("-t 1s --live").run().exits(2).says_one_sentence();
    refused.complains(&["--live needs a terminal"]);
    let run = netcaliper("tcp").arg(server.at()).args("-P 2 -b 2M -t 600s -i 100ms").spawn();
    run.hears_often("bit/s", 3);
    run.signal("INT");
    let done = run.wait().exits(130);
    assert!(!done.out.contains('\u{1b}') && done.out.contains("elapsed"), "{}", done.tell());
}
