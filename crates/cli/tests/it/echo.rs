//! Round trips with the real binary against an independent echo service, and an independent asker against ours:
//! `peers/echo.py`, written from RFC 862 and the description of RtTcpip with Python's standard library. The peer drops, delays
//! and spoils chosen messages, and what is counted must be that.

use crate::support::files::{Csv, Scratch};
use crate::support::net::free_port;
use crate::support::peer::{peer, service};
use crate::support::{Line, Outcome, Proc, netcaliper, number, serve, text};
use serde_json::Value;

const PEER: &str = "echo.py";

fn ping(target: &str, words: &str) -> Line {
    netcaliper("ping").arg(target).args("--protocol echo").args(words)
}

fn counts(outcome: &Outcome) -> &Value {
    &outcome.local()["pings"]["counts"]
}

fn count(outcome: &Outcome, of: &str) -> u64 {
    number(&counts(outcome)[of])
}

#[test]
fn every_echo_of_a_stream_is_compared_and_timed() {
    let name = "every_echo_of_a_stream_is_compared_and_timed";
    for (how, words) in [
        ("", "-n 200 -l 64"),
        ("pieces=7", "-n 50 -l 1000 --send-chunk 33"),
        ("", "-n 20 -l 200000 --nodelay off"),
        ("", "-n 100 -l 5 -P 4 --warmup 10"),
        ("pieces=1", "-n 10 -l 16 --rate 200"),
    ] {
        let how = format!("server tcp 127.0.0.1 0 {how}");
        let Some((server, at)) = service(PEER, name, &how) else { return };
        let outcome = ping(&at, words).outcome();
        assert_eq!(outcome.done.code, Some(0), "{words}: {}", outcome.done.tell());
        let rtt = &outcome.local()["pings"]["rtt_ns"];
        let (sent, warm) = (count(&outcome, "sent"), count(&outcome, "omitted"));
        assert_eq!((count(&outcome, "received"), number(&rtt["count"])), (sent, sent), "{words}");
        for never in ["late", "lost", "damaged", "repeated", "refused"] {
            assert_eq!(count(&outcome, never), 0, "{words} {never}");
        }
        let (min, max) = (number(&rtt["min"]), number(&rtt["max"]));
        assert!(0 < min && min <= max);
        let phase = &outcome.point()["phase"]["ping"];
        let size = number(&phase["size"]);
        assert_eq!(warm > 0, words.contains("warmup"), "{words}");
        assert_eq!(outcome.local()["pings"]["intended_ns"].is_null(), !words.contains("rate"), "{words}");
        assert_eq!(
            number(&server.stopped()["bytes"]),
            (sent + warm) * size,
            "{words}: every byte went there"
        );
    }
}

#[test]
fn wrong_bytes_and_an_early_end_of_a_stream_are_errors() {
    // Byte 3 of message 5, byte 70 of message 7.
    let name = "wrong_bytes_and_an_early_end_of_a_stream_are_errors";
    let Some((_server, at)) = service(PEER, name, "server tcp 127.0.0.1 0 wrong=503,770:0") else { return };
    let outcome = ping(&at, "-n 20 -l 100").outcome();
    assert_eq!(outcome.done.code, Some(1), "{}", outcome.done.tell());
    assert_eq!(
        (count(&outcome, "sent"), count(&outcome, "received"), count(&outcome, "damaged")),
        (20, 18, 2)
    );
    assert_eq!(number(&outcome.local()["data_errors"]), 1);
    assert!(text(&outcome.local()["causes"][0]["first"]).contains("wrong data at offset 3"));

    let Some((_server, at)) = service(PEER, name, "server tcp 127.0.0.1 0 close=250") else { return };
    let outcome = ping(&at, "-n 20 -l 100 -t 20s").run().exits(1);
    assert!(outcome.out.contains("the echo service closed the connection"), "{}", outcome.tell());
    assert!(outcome.out.contains("1 unanswered"), "{}", outcome.tell());
}

#[test]
fn late_lost_and_damaged_datagrams_are_told_apart_to_the_message() {
    let name = "late_lost_and_damaged_datagrams_are_told_apart_to_the_message";
    let words = "server udp 127.0.0.1 0 drop=5,6 late=11:1500 wrong=20:40 short=25 twice=30";
    let Some((server, at)) = service(PEER, name, words) else { return };
    let files = Scratch::new();
    let samples = files.file("samples.csv");
    let outcome = ping(&at, "-u -n 50 --timeout 1s").arg("--samples").arg(&samples).outcome();
    assert_eq!(outcome.done.code, Some(1), "damaged messages are errors: {}", outcome.done.tell());
    let did = server.stopped();
    assert_eq!((number(&did["seen"]), number(&did["dropped"]), number(&did["late"])), (50, 2, 1), "{did}");
    for (what, n) in
        [("sent", 50), ("received", 46), ("late", 1), ("lost", 2), ("damaged", 2), ("repeated", 1)]
    {
        assert_eq!(count(&outcome, what), n, "{what}: {}", counts(&outcome));
    }
    assert_eq!(number(&outcome.local()["pings"]["rtt_ns"]["count"]), 46, "late ones with the time they took");
    let csv = Csv::read(&samples);
    let fates = csv.column("echo");
    assert_eq!(fates.len(), 50);
    let message = csv.column("message");
    let of = |fate: &str| -> Vec<&str> {
        message.iter().zip(&fates).filter(|(_, f)| **f == fate).map(|(n, _)| *n).collect()
    };
    assert_eq!((of("lost"), of("late"), of("damaged")), (vec!["5", "6"], vec!["11"], vec!["20", "25"]));
}

#[test]
fn an_open_loop_over_datagrams_keeps_its_count() {
    let name = "an_open_loop_over_datagrams_keeps_its_count";
    let Some((server, at)) = service(PEER, name, "server udp 127.0.0.1 0 drop=7") else { return };
    let outcome = ping(&at, "-u --rate 200 --poisson -n 60 -l 100 --send-chunk 100 --timeout 5s").outcome();
    assert_eq!(outcome.done.code, Some(0), "{}", outcome.done.tell());
    assert_eq!((count(&outcome, "sent"), count(&outcome, "received"), count(&outcome, "lost")), (60, 59, 1));
    let trips = &outcome.local()["pings"];
    assert_eq!((number(&trips["rtt_ns"]["count"]), number(&trips["intended_ns"]["count"])), (59, 59));
    assert_eq!(number(&server.stopped()["seen"]), 60);
}

#[test]
fn distributions_are_written_and_runs_are_added() {
    let name = "distributions_are_written_and_runs_are_added";
    let Some((_server, at)) = service(PEER, name, "server tcp 127.0.0.1 0") else { return };
    let files = Scratch::new();
    let (one, two, hgrm) = (files.file("1.json"), files.file("2.json"), files.file("all.hgrm"));
    for (file, n) in [(&one, 30), (&two, 70)] {
        let done = ping(&at, &format!("-n {n}")).arg("--json").run().exits(0);
        std::fs::write(file, done.out).unwrap();
    }
    let table = files.file("all.csv");
    netcaliper("report")
        .arg(&one)
        .arg(&two)
        .arg("--hgrm")
        .arg(&hgrm)
        .arg("--histogram-csv")
        .arg(&table)
        .run()
        .exits(0);
    let text = std::fs::read_to_string(&hgrm).unwrap();
    assert!(text.contains("Total count    =          100]"), "{text}");
    assert_eq!(Csv::read(&table).sum("count"), 100);
    let shown = netcaliper("report").arg(&one).args("--linear 10us").run().exits(0);
    assert!(shown.out.contains("Round trips in steps of 10.0 µs"), "{}", shown.tell());
}

#[test]
fn nobody_there_is_one_error() {
    let port = free_port();
    let tcp = ping(&format!("127.0.0.1:{port}"), "-n 5 -t 5s").run().exits(1);
    assert!(tcp.out.contains("Connection refused"), "{}", tcp.tell());
    let udp = ping(&format!("127.0.0.1:{port}"), "-u -n 5 -t 5s --timeout 100ms").run().exits(1);
    assert!(udp.out.contains("no program listens at that UDP port"), "{}", udp.tell());
}

/// A server of ours that echoes, and its port.
fn ours(words: &str) -> (Proc, u16) {
    let proc = netcaliper("rttcpip").args("server i=127.0.0.1 p=0").args(words).spawn();
    let said = proc.hears("echo on ");
    let port =
        said.split(':').nth(2).and_then(|rest| rest.split_whitespace().next()).unwrap().parse().unwrap();
    (proc, port)
}

#[test]
fn our_service_echoes_whatever_an_independent_asker_sends() {
    let name = "our_service_echoes_whatever_an_independent_asker_sends";
    let (server, port) = ours("/udp");
    for (kind, n, size) in [
        ("tcp", 50, 1),
        ("tcp", 50, 37),
        ("tcp", 10, 100_000),
        ("udp", 50, 1),
        ("udp", 20, 9000),
        ("udp", 5, 65_507),
    ] {
        let words = format!("client {kind} 127.0.0.1 {port} {n} {size}");
        let Some(asker) = peer(PEER, name, &words) else { return };
        let done = asker.wait().exits(0);
        assert!(done.out.contains(&format!("\"whole\": {n}")), "{kind} {size}: {}", done.tell());
        assert!(kind == "udp" || done.out.contains("\"rest\": 0"), "closed at its end: {}", done.tell());
    }
    server.signal("INT");
    server.wait().exits(0);
}

#[test]
fn rttcpip_prints_its_results_against_an_independent_service() {
    let name = "rttcpip_prints_its_results_against_an_independent_service";
    let Some(server) = peer(PEER, name, "server tcp 127.0.0.1 0") else { return };
    let port = server.port();
    let line = || netcaliper("rttcpip").arg(format!("p={port}")).args("i=127.0.0.1 m=600 r=200 c=2");
    let done = line().run().exits(0);
    for line in [
        "*** Message Size = 1024 ***",
        "*** Socket loop (2 of 2) ***",
        "*** TimeStamp is Disabled ***",
        "600 packet processed, 0 Errors, closing socket 1",
        "Lost Packets = 0",
        "Total packets = 700",
    ] {
        assert!(done.out.lines().any(|l| l == line), "'{line}' is missing: {}", done.tell());
    }
    assert_eq!(done.out.lines().filter(|l| l.contains(" packets (0 errors) min ")).count(), 6);
    let rows = done.out.lines().filter(|l| l.contains("us") && l.ends_with("%)"));
    let packets = rows.map(|row| row.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(packets.collect::<Vec<_>>().iter().sum::<u64>(), 700);
    let all = line().arg("b=1").run().exits(0);
    assert!(all.out.contains("Total packets = 1200"), "{}", all.tell());
    let silent = line().arg("/silent").run().exits(0);
    assert_eq!(silent.out.lines().last(), Some("Using server address : 127.0.0.1"), "{}", silent.tell());
}

#[test]
fn rttcpip_counts_what_is_lost_late_and_damaged_over_udp() {
    let name = "rttcpip_counts_what_is_lost_late_and_damaged_over_udp";
    let words = "server udp 127.0.0.1 0 drop=3 late=8:1500 wrong=12:100";
    let Some(server) = peer(PEER, name, words) else { return };
    let port = server.port();
    let done = netcaliper("rttcpip")
        .arg(format!("p={port}"))
        .args("i=127.0.0.1 /udp m=40 t=1000 b=1")
        .run()
        .exits(1);
    for line in [
        "*** SocketType = UDP ***",
        "Errors = 1",
        "Lost Packets = 1",
        "Packets received after timeout (1000 ms) = 1",
        "Total packets = 37",
    ] {
        assert!(done.out.lines().any(|l| l == line), "'{line}' is missing: {}", done.tell());
    }
}

#[test]
fn k_ends_a_server_of_ours_and_says_what_it_cannot() {
    let name = "k_ends_a_server_of_ours_and_says_what_it_cannot";
    let Some(server) = peer(PEER, name, "server tcp 127.0.0.1 0") else { return };
    let port = server.port();
    // The servers at the ports asked do not answer this echo: they must not end, and are reported to keep running.
    let done = netcaliper("rttcpip").arg(format!("p={port}")).args("i=127.0.0.1 m=5 k").run().exits(1);
    assert!(done.err.contains("proprietary") && done.out.is_empty(), "nothing is measured: {}", done.tell());
    let other = serve("");
    let at = other.at();
    let wrong = format!("k={}", at.rsplit(':').next().unwrap());
    let done =
        netcaliper("rttcpip").arg(format!("p={port}")).args("i=127.0.0.1 m=5").arg(wrong).run().exits(1);
    assert!(done.err.contains("proprietary"), "{}", done.tell());
    other.still_serves();
    for (words, why) in
        [("m=5", "i=192.0.2.1"), ("i=127.0.0.1 m=none", "whole number"), ("i=127.0.0.1 z", "not an argument")]
    {
        netcaliper("rttcpip").args(words).run().exits(2).complains(&[why]);
    }
}

#[test]
fn k_ends_a_server_that_is_only_an_echo() {
    let proc = netcaliper("rttcpip").args("server i=127.0.0.1 p=0 k=0").spawn();
    let number = |line: String, before: &str| {
        line.split(before).nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    let port = number(proc.hears("echo on "), "127.0.0.1:");
    let door = number(proc.hears("ended by k="), "ended by k=");
    // All that can be asked there is to end.
    let refused = netcaliper("ping").arg(format!("127.0.0.1:{door}")).args("-n 5").run().exits(1);
    assert!(
        (refused.out.clone() + &refused.err).contains("nothing is measured at this port"),
        "{}",
        refused.tell()
    );
    let client = |words: &str| {
        netcaliper("rttcpip").arg(format!("p={port}")).args("i=127.0.0.1 m=5 b=1").args(words).run().exits(0)
    };
    let without = client("");
    assert!(without.err.is_empty(), "{}", without.tell());
    let with = client(&format!("k={door}"));
    assert!(with.err.is_empty(), "{}", with.tell());
    // 5 messages of 1024 bytes, and none before the end.
    let done = proc.wait().exits(0);
    assert!(done.out.contains("*** 1 connections, 5120 bytes echoed ***"), "{}", done.tell());
}

#[test]
fn a_server_answers_echo_beside_its_own_protocol() {
    let proc = netcaliper("serve").args("-B 127.0.0.1 --port 0 --legacy echo:0").spawn();
    let port = proc.port_of("echo");
    let own =
        proc.hears("listening on ").split(':').nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let at = format!("127.0.0.1:{port}");
    for words in ["-n 50", "-u -n 50"] {
        let outcome = ping(&at, words).outcome();
        assert_eq!(
            (outcome.done.code, count(&outcome, "received")),
            (Some(0), 50),
            "{}",
            outcome.done.tell()
        );
    }
    let words = format!("i=127.0.0.1 p={port} k={own} m=10 s=64 b=1");
    let client = netcaliper("rttcpip").args(&words).run().exits(0);
    assert!(client.err.is_empty(), "{}", client.tell());
    let done = proc.wait().exits(0);
    // 50 messages of 64 bytes over each transport.
    assert!(done.out.contains("echo: 1 connections, 6400 bytes answered"), "{}", done.tell());
}

#[test]
fn the_kernels_stamps_leave_this_program_out() {
    let server = serve("");
    for words in ["-u -n 100 --kernel-stamps", "-u -n 100 --kernel-stamps --rate 500 -P 2"] {
        let outcome = netcaliper("ping").arg(server.at()).args(words).outcome();
        assert_eq!(outcome.done.code, Some(0), "{words}: {}", outcome.done.tell());
        let trips = &outcome.local()["pings"];
        if trips["kernel_ns"].is_null() {
            return crate::support::skip(
                "the_kernels_stamps_leave_this_program_out",
                "no stamp of the kernel came before its echo: it stamps none here, or the host is too busy",
            );
        }
        // A message leaves after the program's stamp, and its echo comes before it is read.
        let (all, of_kernel) = (&trips["rtt_ns"], &trips["kernel_ns"]);
        assert!(number(&of_kernel["count"]) <= number(&all["count"]) && number(&of_kernel["count"]) > 0);
        assert!(number(&of_kernel["max"]) <= number(&all["max"]), "{words}: {}", outcome.done.tell());
        // The shortest may be one whose stamp of departure came too late to be joined with its echo.
        if of_kernel["count"] == all["count"] {
            assert!(number(&of_kernel["min"]) <= number(&all["min"]), "{words}: {}", outcome.done.tell());
        }
    }
    let over_tcp = netcaliper("ping").arg(server.at()).args("-n 10 --kernel-stamps").run().exits(2);
    over_tcp.complains(&["datagrams", "-u"]);
}

#[test]
fn our_own_protocol_takes_off_what_the_remote_end_spends() {
    let server = serve("--busy");
    for words in
        ["-n 200 --warmup 20", "-u -n 200 -P 3", "-n 100 --busy", "-u -n 100 --busy", "--rate 200 -n 50 -l 8"]
    {
        let outcome = netcaliper("ping").arg(server.at()).args(words).outcome();
        assert_eq!(outcome.done.code, Some(0), "{words}: {}", outcome.done.tell());
        let trips = &outcome.local()["pings"];
        let (sent, received) = (count(&outcome, "sent"), count(&outcome, "received"));
        assert_eq!((sent, count(&outcome, "lost"), count(&outcome, "damaged")), (received, 0, 0), "{words}");
        // A message of 8 bytes has no room for what the remote end spent.
        assert_eq!(trips["remote_ns"].is_null(), words.contains("-l 8"), "{words}");
        if !trips["remote_ns"].is_null() {
            assert_eq!(
                (number(&trips["path_ns"]["count"]), number(&trips["remote_ns"]["count"])),
                (received, received)
            );
            assert!(trips["path_ns"]["mean"].as_f64() < trips["rtt_ns"]["mean"].as_f64(), "{words}: {trips}");
        }
    }
    server.end();
    let plain = serve("");
    let outcome = netcaliper("ping").arg(plain.at()).args("-n 20 --busy").outcome();
    let changes = &outcome.point()["sessions"][0]["accepted"]["changes"];
    assert_eq!(text(&changes[0]["what"]), "spinning", "{}", outcome.done.tell());
}

/// The server stands still for 2.5 s. The oracle sorts the times of the client's own samples.
#[test]
fn a_stall_longer_than_the_timeout_is_in_the_percentiles() {
    let server = serve("");
    let scratch = Scratch::new();
    let (samples, run) = (scratch.file("samples.csv"), scratch.file("run.jsonl"));
    let line = netcaliper("ping").arg(server.at()).args("-u --rate 100 -t 7s -i 200ms --samples");
    let line = line.arg(&samples).arg("--save").arg(&run).args("--assert p99<1200ms --json");
    let client = line.spawn();
    crate::support::eventually("intervals in the journal", || {
        scratch.so_far("run.jsonl").contains("\"event\":\"interval\"")
    });
    server.proc.signal("STOP");
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    server.proc.signal("CONT");
    let outcome = Outcome::of(client.wait());
    assert_eq!(outcome.done.code, Some(3), "the condition is not met: {}", outcome.tell());
    outcome.caveats("late-or-lost");
    let table = Csv::read(&samples);
    let times = table.column("rtt_ns");
    let mut times: Vec<u64> = times.iter().map(|ns| ns.parse().unwrap_or(u64::MAX)).collect();
    times.sort_unstable();
    assert!(count(&outcome, "late") > 0 && times.len() > 100, "{}", outcome.tell());
    let rank = |q: f64, all: u64| (q * all as f64).ceil() as usize;
    let rtt = &outcome.local()["pings"]["rtt_ns"];
    let missing = rtt["missing"].as_u64().unwrap_or(0);
    assert_eq!(number(&rtt["count"]) + missing, times.len() as u64);
    // Of the saved histogram, which is three digits wide.
    let p99 = times[rank(0.99, times.len() as u64) - 1];
    let mut covered = 0;
    let told = rtt["counts"].as_array().unwrap().iter().find(|bucket| {
        covered += number(&bucket[1]) as usize;
        covered >= rank(0.99, times.len() as u64)
    });
    let told = told.map_or(u64::MAX, |bucket| number(&bucket[0]));
    assert!(told.abs_diff(p99) <= p99 / 500, "{told} {p99}");
    assert!(p99 > 1_500_000_000, "2.5 s of stall: {p99}");
}
