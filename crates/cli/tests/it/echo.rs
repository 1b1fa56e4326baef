//! Round trips with the real binary against an independent echo service, and an independent asker
//! against ours: `peers/echo.py`, written from RFC 862 and the description of RtTcpip with Python's
//! standard library. The peer drops, delays and spoils chosen messages, and what is counted must be
//! that.

use crate::support::files::{Csv, Scratch};
use crate::support::net::{free_port, free_row, has_ipv6};
use crate::support::peer::{all_stopped, peer, service, services};
use crate::support::{Line, Outcome, netcaliper, number, serve, text};
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
    let cases = [
        ("", "-n 200 -l 64"),
        ("pieces=7", "-n 50 -l 1000 --send-chunk 33"),
        ("", "-n 20 -l 200000 --nodelay off"),
        ("", "-n 100 -l 5 -P 4 --warmup 10"),
        ("pieces=1", "-n 10 -l 16 --rate 200"),
    ];
    let hows = cases.map(|(how, _)| format!("tcp 127.0.0.1 0 {how}"));
    let Some((server, at)) = services(PEER, name, "server", &hows) else { return };
    let mut echoed = Vec::new();
    for ((_, words), at) in cases.into_iter().zip(&at) {
        let outcome = ping(at, words).outcome().exits(0);
        let rtt = &outcome.local()["pings"]["rtt_ns"];
        let (sent, warm) = (count(&outcome, "sent"), count(&outcome, "omitted"));
        assert_eq!((count(&outcome, "received"), number(&rtt["count"])), (sent, sent), "{words}");
        for never in ["late", "lost", "damaged", "repeated", "refused"] {
            assert_eq!(count(&outcome, never), 0, "{words} {never}");
        }
        let (min, max) = (number(&rtt["min"]), number(&rtt["max"]));
        assert!(0 < min && min <= max, "{words}: {rtt}");
        let phase = &outcome.point()["phase"]["ping"];
        let size = number(&phase["size"]);
        assert_eq!(warm > 0, words.contains("warmup"), "{words}");
        assert_eq!(outcome.local()["pings"]["intended_ns"].is_null(), !words.contains("rate"), "{words}");
        echoed.push((sent + warm) * size);
    }
    for (((_, words), bytes), did) in cases.into_iter().zip(echoed).zip(all_stopped(server)) {
        assert_eq!(number(&did["bytes"]), bytes, "{words}: every byte went there");
    }
}

#[test]
fn wrong_bytes_and_an_early_end_of_a_stream_are_errors() {
    // Byte 3 of message 5, byte 70 of message 7.
    let name = "wrong_bytes_and_an_early_end_of_a_stream_are_errors";
    let hows = ["wrong=503,770:0", "close=250"].map(|how| format!("tcp 127.0.0.1 0 {how}"));
    let Some((_server, at)) = services(PEER, name, "server", &hows) else { return };
    let outcome = ping(&at[0], "-n 20 -l 100").outcome().exits(1);
    assert_eq!(["sent", "received", "damaged"].map(|of| count(&outcome, of)), [20, 18, 2]);
    assert_eq!(number(&outcome.local()["data_errors"]), 1);
    assert!(text(&outcome.local()["causes"][0]["first"]).contains("wrong data at offset 3"));

    // Two messages were answered before.
    let early = ping(&at[1], "-n 20 -l 100 -t 20s").run().exits(4);
    early.prints(&["the echo service closed the connection", "1 unanswered"]);
}

#[test]
fn late_lost_and_damaged_datagrams_are_told_apart_to_the_message() {
    let name = "late_lost_and_damaged_datagrams_are_told_apart_to_the_message";
    let words = "server udp 127.0.0.1 0 drop=5,6 late=11:1500 wrong=20:40 short=25 twice=30";
    let Some((server, at)) = service(PEER, name, words) else { return };
    let files = Scratch::new();
    let samples = files.file("samples.csv");
    // Damaged messages are errors.
    let outcome = ping(&at, "-u -n 50 --timeout 1s").arg("--samples").arg(&samples).outcome().exits(1);
    let did = server.stopped();
    assert_eq!([&did["seen"], &did["dropped"], &did["late"]].map(number), [50, 2, 1], "{did}");
    for (what, n) in [("sent", 50), ("lost", 2), ("damaged", 2), ("repeated", 1)] {
        assert_eq!(count(&outcome, what), n, "{what}: {}", counts(&outcome));
    }
    assert_eq!(count(&outcome, "received"), 46, "the late ones among them: {}", counts(&outcome));
    assert_eq!(number(&outcome.local()["pings"]["rtt_ns"]["count"]), 46, "late ones with the time they took");
    let csv = Csv::read(&samples);
    let fates = csv.column("echo");
    assert_eq!(fates.len(), 50);
    let message = csv.column("message");
    let of = |fate: &str| -> Vec<&str> {
        message.iter().zip(&fates).filter(|(_, f)| **f == fate).map(|(n, _)| *n).collect()
    };
    assert_eq!((of("lost"), of("damaged")), (vec!["5", "6"], vec!["20", "25"]));
    // Late are those that took longer than the timeout, which a host that stands still may add to.
    let times = message.iter().zip(csv.column("rtt_ns"));
    let took_longer = |ns: &str| ns.parse::<u64>().is_ok_and(|ns| ns > 1_000_000_000);
    let late: Vec<&str> = times.filter(|(_, ns)| took_longer(ns)).map(|(n, _)| *n).collect();
    assert_eq!((of("late"), count(&outcome, "late")), (late.clone(), late.len() as u64));
    assert!(late.contains(&"11"), "{late:?}");
}

#[test]
fn an_open_loop_over_datagrams_keeps_its_count() {
    let name = "an_open_loop_over_datagrams_keeps_its_count";
    let Some((server, at)) = service(PEER, name, "server udp 127.0.0.1 0 drop=7") else { return };
    let words = "-u --rate 200 --poisson -n 60 -l 100 --send-chunk 100 --timeout 5s";
    let outcome = ping(&at, words).outcome().exits(0);
    assert_eq!(["sent", "received", "lost"].map(|of| count(&outcome, of)), [60, 59, 1]);
    let trips = &outcome.local()["pings"];
    assert_eq!([&trips["rtt_ns"]["count"], &trips["intended_ns"]["count"]].map(number), [59, 59]);
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
    let report = netcaliper("report").arg(&one).arg(&two).arg("--hgrm").arg(&hgrm);
    report.arg("--histogram-csv").arg(&table).run().exits(0);
    let text = std::fs::read_to_string(&hgrm).unwrap();
    assert!(text.contains("Total count    =          100]"), "{text}");
    assert_eq!(Csv::read(&table).sum("count"), 100);
    let linear = netcaliper("report").arg(&one).args("--linear 10us").run().exits(0);
    linear.prints(&["Round trips in steps of 10.0 µs"]);
}

#[test]
fn nobody_there_is_one_error() {
    let at = format!("127.0.0.1:{}", free_port());
    ping(&at, "-n 5 -t 5s").run().exits(1).prints(&["Connection refused"]);
    let udp = ping(&at, "-u -n 5 -t 5s --timeout 100ms").run().exits(1);
    udp.prints(&["no program listens at that UDP port"]);
}

/// The word behind this text in a line.
fn behind(line: &str, text: &str) -> String {
    let rest = line.split(text).nth(1).and_then(|rest| rest.split_whitespace().next());
    rest.unwrap_or_else(|| panic!("'{text}': {line}")).to_owned()
}

#[test]
fn our_service_echoes_whatever_an_independent_asker_sends() {
    let name = "our_service_echoes_whatever_an_independent_asker_sends";
    let server = netcaliper("rttcpip").args("server i=127.0.0.1 p=0 /udp").spawn();
    let port = behind(&server.hears("echo on "), "127.0.0.1:");
    let cases = [
        ("tcp", 50, 1),
        ("tcp", 50, 37),
        ("tcp", 10, 100_000),
        ("udp", 50, 1),
        ("udp", 20, 9000),
        ("udp", 5, 65_507),
    ];
    let words = cases.map(|(kind, n, size)| format!("{kind} 127.0.0.1 {port} {n} {size}"));
    let Some(asker) = peer(PEER, name, &format!("client {}", words.join(" / "))) else { return };
    let done = asker.wait().exits(0);
    let told: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), cases.len(), "{}", done.tell());
    for ((kind, n, size), told) in cases.into_iter().zip(told) {
        assert_eq!(told["whole"], n, "{kind} {size}: {told}");
        assert!(kind == "udp" || told["rest"] == 0, "closed at its end: {kind} {size}: {told}");
    }
    server.signal("INT");
    server.wait().exits(0);
}

#[test]
fn rttcpip_prints_its_results_against_an_independent_service() {
    let name = "rttcpip_prints_its_results_against_an_independent_service";
    let Some(server) = peer(PEER, name, "server tcp 127.0.0.1 0") else { return };
    let port = server.port();
    let line = || netcaliper("rttcpip").arg(format!("p={port}")).args("i=127.0.0.1 m=300 r=100 c=2");
    let done = line().run().exits(0);
    for line in [
        "*** Message Size = 1024 ***",
        "*** Socket loop (2 of 2) ***",
        "*** TimeStamp is Disabled ***",
        "300 packet processed, 0 Errors, closing socket 1",
        "Lost Packets = 0",
        // The first 500 are not in the results.
        "Total packets = 100",
    ] {
        assert!(done.out.lines().any(|l| l == line), "'{line}' is missing: {}", done.tell());
    }
    assert_eq!(done.out.lines().filter(|l| l.contains(" packets (0 errors) min ")).count(), 6);
    let rows = done.out.lines().filter(|l| l.contains("us") && l.ends_with("%)"));
    let packets = rows.map(|row| row.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(packets.collect::<Vec<_>>().iter().sum::<u64>(), 100);
    line().arg("b=1").run().exits(0).prints(&["Total packets = 600"]);
    let silent = line().arg("/silent").run().exits(0);
    assert_eq!(silent.out.lines().last(), Some("Using server address : 127.0.0.1"), "{}", silent.tell());
}

#[test]
fn rttcpip_counts_what_is_lost_late_and_damaged_over_udp() {
    let name = "rttcpip_counts_what_is_lost_late_and_damaged_over_udp";
    // A time-out that no other echo takes, also on a host that stands still for a second.
    let words = "server udp 127.0.0.1 0 drop=3 late=8:4500 wrong=12:100";
    let Some(server) = peer(PEER, name, words) else { return };
    let words = format!("p={} i=127.0.0.1 /udp m=40 t=3000 b=1", server.port());
    let done = netcaliper("rttcpip").args(&words).run().exits(1);
    for line in [
        "*** SocketType = UDP ***",
        "Errors = 1",
        "Lost Packets = 1",
        "Packets received after timeout (3000 ms) = 1",
        "Total packets = 37",
    ] {
        assert!(done.out.lines().any(|l| l == line), "'{line}' is missing: {}", done.tell());
    }
}

#[test]
fn k_ends_a_server_of_ours_and_says_what_it_cannot() {
    let name = "k_ends_a_server_of_ours_and_says_what_it_cannot";
    let Some(server) = peer(PEER, name, "server tcp 127.0.0.1 0") else { return };
    let words = format!("p={} i=127.0.0.1 m=5", server.port());
    let client = |more: &str| netcaliper("rttcpip").args(&words).args(more).run().exits(1);
    // The servers at the ports asked do not answer this echo: they must not end, and are reported
    // to keep running.
    let done = client("k").complains(&["proprietary"]);
    assert!(done.out.is_empty(), "nothing is measured: {}", done.tell());
    let other = serve("");
    client(&format!("k={}", other.port)).complains(&["proprietary"]);
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
    let port = behind(&proc.hears("echo on "), "127.0.0.1:");
    let door = behind(&proc.hears(" ends it "), "RtTcpIpServer: k=");
    // All that can be asked there is to end.
    let refused = netcaliper("ping").arg(format!("127.0.0.1:{door}")).args("-n 5").run().exits(1);
    assert!(
        (refused.out.clone() + &refused.err).contains("nothing is measured at this port"),
        "{}",
        refused.tell()
    );
    for k in [String::new(), format!("k={door}")] {
        let words = format!("p={port} i=127.0.0.1 m=5 b=1 {k}");
        let done = netcaliper("rttcpip").args(&words).run().exits(0);
        assert!(done.err.is_empty(), "{}", done.tell());
    }
    // 5 messages of 1024 bytes, and none before the end.
    proc.wait().exits(0).prints(&["*** 1 connections, 5120 bytes echoed ***"]);
}

#[test]
fn a_server_listens_on_both_families_and_is_ended_over_either() {
    let hosts = if has_ipv6() { vec!["127.0.0.1", "::1"] } else { vec!["127.0.0.1"] };
    for ending in &hosts {
        // The port after its own is where it is asked to end.
        let server = netcaliper("rttcpip").args(&format!("server p={} /udp", free_row(2, 0))).spawn();
        let line = server.hears("echo on ");
        let port = line.split(" (").next().and_then(|rest| rest.rsplit(':').next()).unwrap().to_owned();
        server.hears(" ends it ");
        let client = |host: &str, more: &str| {
            netcaliper("rttcpip").args(&format!("i={host} p={port} m=5 b=1 {more}")).run().exits(0)
        };
        for host in &hosts {
            client(host, "").prints(&["Errors = 0", "Total packets = 5"]);
            client(host, "/udp t=20000").prints(&["Lost Packets = 0", "Total packets = 5"]);
        }
        client(ending, "k");
        server.wait().exits(0);
    }
}

/// A message that is lost, or refused, is counted once, and so is the connection that is given up.
#[test]
fn nobody_there_is_one_error_of_rttcpip() {
    let done = netcaliper("rttcpip").args(&format!("i=127.0.0.1 p={} /udp m=10", free_port())).run().exits(1);
    let of = |name: &str| done.out.lines().find_map(|line| line.strip_prefix(name));
    assert_eq!(of("Errors = "), Some("1"), "{}", done.tell());
    let processed = done.out.lines().find_map(|line| line.split_once(" packet processed, 1 Errors"));
    assert_eq!(of("Lost Packets = "), processed.map(|(n, _)| n), "{}", done.tell());
    for program in ["rttcpip /?", "rttcpip server /?"] {
        let (verb, words) = program.split_once(' ').unwrap();
        netcaliper(verb).args(words).run().exits(0).prints(&["usage: "]);
    }
}

#[test]
fn a_server_answers_echo_beside_its_own_protocol() {
    let server = serve("-B 127.0.0.1 --legacy echo:0");
    let (own, port) = (server.port, server.proc.port_of("echo"));
    let at = format!("127.0.0.1:{port}");
    for words in ["-n 50", "-u -n 50"] {
        let outcome = ping(&at, words).outcome().exits(0);
        assert_eq!(count(&outcome, "received"), 50, "{words}: {}", outcome.done.tell());
    }
    let words = format!("i=127.0.0.1 p={port} k={own} m=10 s=64 b=1");
    let client = netcaliper("rttcpip").args(&words).run().exits(0);
    assert!(client.err.is_empty(), "{}", client.tell());
    // 50 messages of 64 bytes over each transport.
    server.proc.wait().exits(0).prints(&["echo: 1 connections, 6400 bytes answered"]);
}

#[test]
fn the_kernels_stamps_leave_this_program_out() {
    let server = serve("");
    for words in ["-u -n 100 --kernel-stamps", "-u -n 100 --kernel-stamps --rate 500 -P 2"] {
        let outcome = netcaliper("ping").arg(server.at()).args(words).outcome().exits(0);
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
        // The shortest may be one whose stamp of departure came too late to be joined with its
        // echo.
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
        let outcome = netcaliper("ping").arg(server.at()).args(words).outcome().exits(0);
        let trips = &outcome.local()["pings"];
        let (sent, received) = (count(&outcome, "sent"), count(&outcome, "received"));
        assert_eq!((sent, count(&outcome, "lost"), count(&outcome, "damaged")), (received, 0, 0), "{words}");
        // A message of 8 bytes has no room for what the remote end spent.
        assert_eq!(trips["remote_ns"].is_null(), words.contains("-l 8"), "{words}");
        if !trips["remote_ns"].is_null() {
            let counts = [&trips["path_ns"]["count"], &trips["remote_ns"]["count"]].map(number);
            assert_eq!(counts, [received; 2], "{words}");
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
    scratch.hears_intervals("run.jsonl", 1);
    server.proc.signal("STOP");
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    server.proc.signal("CONT");
    // The condition is not met.
    let outcome = Outcome::of(client.wait()).exits(3);
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
