//! ntttcp with the real binary, both roles, against an independent peer (`peers/ntttcp.py`) that
//! behaves as the original does: it goes only when a data connection ends after its own timer.

use crate::support::files::Scratch;
use crate::support::net::free_row;
use crate::support::peer::peer;
use crate::support::{Done, Line, Proc, eventually, netcaliper};
use serde_json::{Value, json};

const PEER: &str = "ntttcp.py";

/// The value behind `name` in the report.
fn told(done: &Done, name: &str) -> String {
    let line = done
        .out
        .lines()
        .find(|line| line.contains(name))
        .unwrap_or_else(|| panic!("{name}: {}", done.tell()));
    line.rsplit_once(':').unwrap().1.to_owned()
}

/// A program that says these words when it listens, and the first of its ports, which are in a row,
/// with others `aside`.
fn listening(aside: u16, says: &str, line: impl Fn(u16) -> Line) -> (Proc, u16) {
    for _ in 0..50 {
        let port = free_row(16, aside);
        let proc = line(port).spawn();
        // Either the ports are had, or one of them is taken and it ends.
        let listens = || proc.out().contains(says) || proc.err().contains(says);
        eventually("it listens, or cannot", || listens() || proc.err().contains("in use"));
        if listens() {
            return (proc, port);
        }
    }
    panic!("there are no free ports")
}

/// Our receiver on free ports in a row, and the first of them.
fn receiver(words: &str) -> (Proc, u16) {
    let line = |port: u16| netcaliper("ntttcp").args(&format!("-r127.0.0.1 -p {port} {words}"));
    listening(0, "threads created", line)
}

#[test]
fn a_sender_agrees_with_a_receiver_and_lets_it_go() {
    for (how, words) in [("", "-t 1"), ("late", "-t 1"), ("", "-t 1 -W 1 -C 1")] {
        let Some(remote) = peer(PEER, "ntttcp", &format!("receive 2 1 {how}")) else { return };
        let port: u16 = remote.port().parse().unwrap();
        let words = format!("-s127.0.0.1 -p {port} -P 2 -n 2 -l 2 -b 16K -B 4M {words}");
        let done = netcaliper("ntttcp").args(&words).run().exits(0);
        let heard = remote.ended();
        assert!(heard["filler"] == true && heard["ended"] == true, "{heard}: {}", done.tell());
        let said = heard["heard"].as_array().unwrap();
        assert_eq!((&said[0], &said[2]), (&json!(0x58), &json!(0x52)), "{heard}");
        // With a warm-up we measure less than was agreed on, and say so.
        assert_eq!(said.len(), if words.contains("-W") { 4 } else { 3 }, "{heard}");
        assert_eq!(told(&done, "INFO: test duration"), "1.00 seconds");
        assert!(told(&done, "total bytes").parse::<u64>().unwrap() > 0);
        done.prints(&["8 connections tested"]);
    }
}

#[test]
fn a_busy_or_unwilling_receiver_is_an_error() {
    for (how, why) in [
        (
            "busy",
            ["receiver is busy with an existing test running", "sender: receiver is busy with another test"],
        ),
        (
            "refuse",
            [
                "receiver is not ready to run test with this sender",
                "sender: receiver refuse to start test right now",
            ],
        ),
    ] {
        let Some(remote) = peer(PEER, "ntttcp", &format!("receive 1 1 {how}")) else { return };
        let port: u16 = remote.port().parse().unwrap();
        let words = format!("-s127.0.0.1 -p {port} -P 1 -n 1 -t 1");
        let done = netcaliper("ntttcp").args(&words).run().exits(24);
        done.prints(&[&format!(" ERR : {}\n", why[0]), &format!(" ERR : {}\n", why[1])]);
        remote.ended();
    }
}

/// What each of these receivers printed, and what the sender said that went to it, with these words
/// behind its port.
fn received(receivers: Vec<(Proc, u16)>, role: &str, words: &[&str]) -> Option<Vec<(Done, Value)>> {
    let cases = receivers.iter().zip(words).map(|((_, port), words)| format!("{role} {port} {words}"));
    let senders = peer(PEER, "ntttcp", &cases.collect::<Vec<_>>().join(" / "))?.wait().exits(0);
    let said: Vec<Value> = senders.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(said.len(), receivers.len(), "{}", senders.tell());
    Some(receivers.into_iter().map(|(ours, _)| ours.wait().exits(0)).zip(said).collect())
}

#[test]
fn a_receiver_counts_what_a_sender_sends() {
    let cases = [
        ("-P 2 -t 1", "2 2 1 1"),
        // 82 is 'R', on which the original starts at once; then 'E', because 0.3 s is less.
        ("-P 1 -t 1", "1 1 0.3 82"),
        // Without a conversation it ends when all have gone.
        ("-P 2 -N -t 60", "2 2 0.5 0 nosync"),
        ("-P 2 -t 1 -u", "2 2 0.5 1 udp"),
        ("-P 2 -t 60 -u -N", "2 2 0.5 1 udp nosync"),
    ];
    let receivers = cases.iter().map(|(words, _)| receiver(words)).collect();
    let Some(all) = received(receivers, "send", &cases.map(|(_, words)| words)) else { return };
    let bytes = |n: usize| -> (u64, u64) {
        let (done, sent) = &all[n];
        (told(done, "total bytes").parse().unwrap(), sent["bytes"].as_u64().unwrap())
    };
    let (done, sent) = &all[0];
    // Not started, the longer one of 1 and 1, run.
    assert_eq!(sent["heard"], json!([11, 1, 0x52]));
    assert_eq!(told(done, "INFO: test duration"), "1.00 seconds");
    assert!(bytes(0).0 > 0 && bytes(0).0 <= bytes(0).1, "{:?} {sent}", bytes(0));
    assert_eq!(all[1].1["heard"], json!([11, 82, 0x52, 13]));
    assert_eq!(bytes(2).0, bytes(2).1);
    for n in [3, 4] {
        let ((got, sent), (words, _)) = (bytes(n), cases[n]);
        // Some may be dropped on a busy host; none is counted twice.
        assert!(got <= sent && got > 0, "{words}: {sent} {got} {}", all[n].0.tell());
    }
}

#[test]
fn datagrams_go_to_a_receiver_that_only_goes_when_something_comes() {
    let Some(remote) = peer(PEER, "ntttcp", "receiveudp 2 1") else { return };
    let port: u16 = remote.port().parse().unwrap();
    let words = format!("-s127.0.0.1 -u -p {port} -P 2 -n 2 -l 2 -b 1000 -B 8M -t 1");
    let done = netcaliper("ntttcp").args(&words).run().exits(0);
    let heard = remote.ended();
    assert_eq!((&heard["filler"], &heard["heard"]), (&json!(true), &json!([0x58, 1, 0x52])), "{heard}");
    let sent: u64 = told(&done, "total bytes").parse().unwrap();
    let got = heard["bytes"].as_u64().unwrap();
    // A megabyte a second for a second; each of eight may send one datagram more. What came behind
    // its timer counts nowhere.
    assert!(sent <= 1_008_000 && got > 0, "{sent} {got}");
    assert!(!done.out.contains("retrans segs"), "{}", done.tell());
    done.prints(&["8 connections tested"]);
}

#[test]
fn windows_ends_are_ready_when_all_have_said_so() {
    for how in ["", "token"] {
        let Some(remote) = peer(PEER, "ntttcp", &format!("winreceive 3 {how}")) else { return };
        let port: u16 = remote.port().parse().unwrap();
        let no = if how.is_empty() { "-ns" } else { "-v" };
        let words = format!("-s -m 2,*,127.0.0.1 1,*,127.0.0.1 {no} -l 4k -n 100 -p {port}");
        let done = netcaliper("ntttcp").args(&words).run().exits(0);
        let heard = remote.ended();
        assert_eq!((&heard["filler"], &heard["bytes"]), (&json!(true), &json!([409_600, 409_600, 409_600])));
        assert_eq!(heard["tokens"].as_array().unwrap().len(), if how.is_empty() { 0 } else { 3 }, "{heard}");
        assert!(heard["tokens"].as_array().unwrap().iter().all(|token| *token == json!(true)), "{heard}");
        windows_table(&done, 3, 3 * 409_600, 4_096);
    }
}

#[test]
fn a_sender_of_windows_is_read_to_its_end() {
    let receivers =
        ["-ns", "-v"].map(|no| windows_receiver(&format!("-r -m 2,*,127.0.0.1 {no} -l 4k -n 100")));
    let words = ["2 100 4096", "2 100 4096 token"];
    let Some(all) = received(receivers.into(), "winsend", &words) else { return };
    for ((done, sent), words) in all.into_iter().zip(words) {
        assert_eq!(sent["bytes"], json!(2 * 409_600), "{words}");
        windows_table(&done, 2, 2 * 409_600, 4_096);
    }
}

#[test]
fn windows_file_says_what_was_asked_for_and_replaces_the_tables() {
    let scratch = Scratch::new();
    let file = scratch.file("w.xml");
    let (ours, port) = windows_receiver("-r -m 2,*,127.0.0.1 -v -t 1");
    let words = format!("-s -m 2,*,127.0.0.1 -v -t 1 -thr 1000 -p {port} -xml {}", file.display());
    let done = netcaliper("ntttcp").args(&words).run().exits(0);
    ours.wait().exits(0);
    assert!(!done.out.contains("Thread") && !done.out.contains("Totals"), "{}", done.tell());
    let xml = std::fs::read_to_string(&file).unwrap();
    for line in ["<no_sync>False</no_sync>", "<sync_port>False</sync_port>", "<run_time>1000</run_time>"] {
        assert!(xml.contains(line), "{line}: {xml}");
    }
    let outcome = netcaliper("report").arg(&file).outcome().exits(0);
    assert_eq!(outcome.json["begin"]["version"], "ntttcp 5.40");
}

#[test]
fn a_receiver_of_windows_that_goes_is_no_failure() {
    // In its time, over either transport: the sender's time runs on.
    for udp in ["-thr 1000", "-u -l 1000 -thr 100"] {
        let (ours, port) = windows_receiver(&format!("-r -m 2,*,127.0.0.1 -ns -t 1 {udp}"));
        let words = format!("-s -m 2,*,127.0.0.1 -ns -t 2 {udp} -p {port}");
        let done = netcaliper("ntttcp").args(&words).run().exits(0);
        ours.wait().exits(0);
        let lines: Vec<&str> = done.out.lines().collect();
        let below = |title: &str| lines[lines.iter().position(|line| line.contains(title)).unwrap() + 2];
        assert_eq!(below("Bytes(MEG)").split_whitespace().nth(1), Some("2.000"), "{}", done.tell());
        assert_eq!(below("Retransmits Errors").split_whitespace().nth(3), Some("0"), "{}", done.tell());
        done.complains(&["the receiver closed all data connections"]);
    }
    // After fewer bytes than are sent, as 5.40's does with -n.
    let Some(remote) = peer(PEER, "ntttcp", "winreceive 3 early") else { return };
    let port: u16 = remote.port().parse().unwrap();
    let words = format!("-s -m 3,*,127.0.0.1 -ns -l 64k -n 500 -p {port}");
    let done = netcaliper("ntttcp").args(&words).run().exits(0);
    remote.ended();
    assert!(!done.out.contains("ERROR"), "{}", done.tell());
    done.complains(&["the receiver closed all data connections"]);
}

/// NTttcp prints `ERROR: …` lines where a sender of ttcp ends before the receiver's time; ours
/// takes that for the end of the test.
#[test]
fn a_sender_of_ttcp_that_ends_before_the_time_is_no_error() {
    let (ours, port) = windows_receiver("-r -m 1,*,127.0.0.1 -ns -t 60");
    netcaliper("ttcp").args(&format!("tx 127.0.0.1 port {port} nsrcb 100")).run().exits(0);
    let done = ours.wait().exits(0);
    assert!(!done.out.contains("ERROR"), "{}", done.tell());
    windows_table(&done, 1, 819_200, 65_536);
}

#[test]
fn a_sender_of_windows_waits_for_its_receiver() {
    // The first receiver has released its ports.
    let (first, port) = windows_receiver("-r -m 1,*,127.0.0.1 -n 10 -v");
    first.signal("INT");
    first.wait();
    let words = |role: &str| format!("{role} -m 1,*,127.0.0.1 -n 10 -p {port} -v");
    let sender = netcaliper("ntttcp").args(&words("-s")).spawn();
    sender.hears("Copyright Version");
    let receiver = netcaliper("ntttcp").args(&words("-r")).spawn();
    windows_table(&sender.wait().exits(0), 1, 655_360, 65_536);
    windows_table(&receiver.wait().exits(0), 1, 655_360, 65_536);
}

#[test]
fn a_receiver_that_is_killed_is_told_with_the_time_of_the_figures() {
    for no in ["", "-N"] {
        let (ours, port) = receiver(&format!("-P 1 -t 60 {no}"));
        let words = format!("-s127.0.0.1 -p {port} -P 1 -n 1 -t 60 -B 50M {no}");
        let sender = netcaliper("ntttcp").args(&words).spawn();
        sender.hears("Real-time throughput");
        ours.signal("KILL");
        let done = sender.wait().exits(0);
        let told: f64 = told(&done, "INFO: test duration").replace(" seconds", "").parse().unwrap();
        let line = done.out.lines().find(|line| line.contains(" ERR : ")).unwrap_or_default();
        let after = line.split(" after ").nth(1).and_then(|rest| rest.split(" s of 60 s: ").next());
        let after: f64 =
            after.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{}", done.tell()));
        assert!(line.ends_with("the figures cover that time"), "{}", done.tell());
        // One has three digits, the other two.
        assert!((after - told).abs() < 0.006, "{}", done.tell());
    }
}

/// Our receiver in Windows' spelling, on free ports whose neighbours a thousand above are free,
/// too.
fn windows_receiver(words: &str) -> (Proc, u16) {
    let line = |port: u16| netcaliper("ntttcp").args(&format!("{words} -p {port}"));
    listening(1_000, "Copyright Version", line)
}

/// What Windows' tables must say of so many threads and bytes.
fn windows_table(done: &Done, threads: usize, bytes: u64, length: u64) {
    let lines: Vec<&str> = done.out.lines().collect();
    let below = |title: &str| {
        let at = lines.iter().position(|line| line.contains(title));
        let at = at.unwrap_or_else(|| panic!("{title}: {}", done.tell()));
        lines[at + 2].split_whitespace().collect::<Vec<_>>()
    };
    let at = lines.iter().position(|line| line.starts_with("Thread  Time(s)")).unwrap();
    let rows = lines[at + 2..].iter().take_while(|line| !line.is_empty()).count();
    assert_eq!(rows, threads, "{}", done.tell());
    let totals = below("Bytes(MEG)");
    assert_eq!(totals[0], format!("{:.6}", bytes as f64 / 1_048_576.0), "{}", done.tell());
    let (seconds, rate): (f64, f64) = (totals[1].parse().unwrap(), totals[3].parse().unwrap());
    // Both are rounded to three digits.
    let want = bytes as f64 / 1_048_576.0 / seconds.max(1e-9);
    assert!(seconds < 0.01 || (rate - want).abs() <= want * 0.0006 / seconds + 0.001, "{rate} {want}");
    assert_eq!(below("Throughput(Buffers/s)")[2], format!("{:.3}", bytes as f64 / length as f64));
    assert_eq!(below("Pkts(num/DPC)").len(), 4);
    assert_eq!(below("Packets Received")[3], "0", "{}", done.tell());
}

#[test]
fn a_server_takes_one_test_after_the_other() {
    let line = |port: u16| netcaliper("serve").args(&format!("--port 0 --legacy ntttcp:{port}"));
    let (server, port) = listening(1_000, "answering ntttcp on ", line);
    // An unsynchronised sender has a test of its own; none of its connections counts in the next
    // one.
    let words = format!("-s127.0.0.1 -p {port} -P 2 -n 2 -t 1 -B 20M -N");
    let sent = netcaliper("ntttcp").args(&words).run().exits(0);
    let sent: u64 = told(&sent, "INFO: total bytes").parse().unwrap();
    let line = server.hears("ntttcp: 4 connections, ");
    let got = line.split(" connections, ").nth(1).and_then(|rest| rest.split_once(' '));
    let got: u64 = got.and_then(|(bytes, _)| bytes.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    // Buffers in progress at the end of the time are completed.
    assert!((sent..=sent + 4 * 131_072).contains(&got), "{sent} {line}");
    // So has one of Windows, with its synchronisation.
    if let Some(remote) = peer(PEER, "ntttcp", &format!("winsend {port} 2 100 4096 token")) {
        assert_eq!(remote.ended()["bytes"], json!(2 * 409_600));
        server.hears("ntttcp: 2 connections, 819200 bytes");
    }
    for n in 1..=2 {
        // After a test the port is closed for an instant.
        let words = format!("-s127.0.0.1 -p {port} -P 16 -n 1 -t 1 -B 20M");
        eventually("a test comes about", || netcaliper("ntttcp").args(&words).run().code == Some(0));
        let said = || server.out() + &server.err();
        let told = || said().lines().filter(|line| line.contains("ntttcp: 16 connections, ")).count();
        eventually("it is told", || told() >= n);
    }
    server.signal("INT");
    let done = server.wait().exits(0);
    assert!(!done.out.contains("no data moved"), "{}", done.tell());
}

#[test]
fn both_ends_of_ours_agree_and_the_result_files_are_written() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.file(name).display().to_string();
    let (ours, port) = receiver("-P 2 -t 1 -V --show-tcp-retrans");
    let (x, j, log) = (path("r.xml"), path("r.json"), path("r.log"));
    let words = format!("-s127.0.0.1 -p {port} -P 2 -n 1 -t 1 -B 20M -V -x{x} -j {j} -O{log}");
    let here = netcaliper("ntttcp").args(&words).run().exits(0).prints(&["tcpi rtt"]);
    let there = ours.wait().exits(0).prints(&["slowStart_retrans/sec"]);
    let duration = [&here, &there].map(|done| told(done, "INFO: test duration"));
    assert_eq!(duration, ["1.00 seconds", "1.00 seconds"]);
    let bytes: f64 = told(&here, "INFO: total bytes").parse().unwrap();
    for done in [here, there] {
        done.prints(&["Thread\tTime(s)\tThroughput", "cycles/byte"]);
    }
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&j).unwrap()).unwrap();
    assert_eq!(json["ntttcps"]["totalBytes"]["value"], format!("{:.6}", bytes / 1e6));
    let xml = std::fs::read_to_string(&x).unwrap();
    assert!(xml.contains(&format!("<total_bytes metric=\"MB\">{:.6}</total_bytes>", bytes / 1e6)), "{xml}");
    for file in [&x, &j] {
        let outcome = netcaliper("report").arg(file).outcome().exits(0);
        assert_eq!(outcome.json["begin"]["version"], "ntttcp 5.33-linux");
        assert_eq!(outcome.local()["traffic"]["tx_bytes"], bytes);
    }
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("INFO: total bytes") && !log.contains("Real-time"), "{log}");
}

/// The console's lines without time stamps and with a dot for each variable number. Lines whose
/// position varies are left out.
fn shape(text: &str, from: &str, to: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.contains(from)).filter(|line| {
        let told = ["Real-time", "socket closed", "test exited because", "Interface:[eth"];
        !told.iter().any(|start| line.contains(start))
    });
    let mut shapes: Vec<String> = Vec::new();
    for line in lines {
        let line = line.split_once(' ').map_or(line, |(_, rest)| rest);
        let words = line.split(' ').map(|word| match word.trim_end_matches(';').parse::<u64>() {
            Ok(n) if n > 9 => ".".to_owned(),
            _ if word.starts_with("local:") => "local:.".to_owned(),
            _ if word.starts_with("127.0.0.1:") => "127.0.0.1:.".to_owned(),
            _ => word.to_owned(),
        });
        shapes.push(words.collect::<Vec<_>>().join(" "));
        if shapes.last().is_some_and(|last| last.contains(to)) {
            break;
        }
    }
    shapes
}

#[test]
fn the_console_has_the_originals_lines() {
    let (ours, port) = receiver("-P 1 -t 1 -V");
    let words = format!("-s127.0.0.1 -p {port} -P 1 -n 1 -W 1 -t 1 -C 1 -B 100M -V");
    let here = netcaliper("ntttcp").args(&words).run().exits(0);
    let there = ours.wait().exits(0);
    // warmcool_send.console and warmcool_recv.console of ntttcp 1.4.3; the receiver there had a
    // warm-up and a cool-down, too.
    let here = here.prints(&[
        " INFO: Warning! '-B' is specified and the network bandwidth may be limited\n",
        "\nbandwidth limit (bits/sec):\t 100000000\n",
    ]);
    assert_eq!(
        shape(&here.out, "DBG : user limits", "receiver exited"),
        [
            "DBG : user limits for maximum number of open files: soft: . hard: .",
            "DBG : Sync connection: local:. [socket:3] --> 127.0.0.1:.",
            "INFO: Test cycle time negotiated is: 3 seconds",
            "INFO: 1 threads created",
            "DBG : New connection: local:. [socket:4] --> 127.0.0.1:.",
            "INFO: 1 connections created in . microseconds",
            "INFO: Network activity progressing...",
            "INFO: Test warmup completed.",
            "INFO: Test run completed.",
            "INFO: Test cooldown is in progress...",
            "INFO: Test cycle finished.",
            "INFO: receiver exited from current test",
        ],
        "{}",
        here.tell()
    );
    let shapes = shape(&there.out, "DBG : user limits", "Test cycle finished");
    assert_eq!(
        shapes.into_iter().filter(|line| !line.contains("New connection")).collect::<Vec<_>>(),
        [
            "DBG : user limits for maximum number of open files: soft: . hard: .",
            "DBG : Interface:[lo]\tAddress: 127.0.0.1",
            "INFO: 2 threads created",
            "DBG : ntttcp server is listening on 127.0.0.1:.",
            "DBG : ntttcp server is listening on 127.0.0.1:.",
            "DBG : Sync connection: 127.0.0.1:. --> local:. [socket 6]",
            "INFO: Test cycle time negotiated is: 3 seconds",
            "INFO: Network activity progressing...",
            "INFO: Test run completed.",
            "INFO: Test cycle finished.",
        ],
        "{}",
        there.tell()
    );
    // It may be told before or after the start.
    let line = |text: &str| there.out.lines().find(|line| line.contains(text)).unwrap_or_default().to_owned();
    assert!(line("New connection").ends_with(" [socket 7]"), "{}", there.tell());
    assert!(there.out.contains(" DBG : socket closed: 7\n"), "{}", there.tell());
    // nosync_udp_send.console.
    let words = format!("-s127.0.0.1 -p {port} -P 1 -n 1 -t 1 -u -N -B 1M -V");
    let alone = netcaliper("ntttcp").args(&words).run();
    assert_eq!(
        shape(&alone.out, "DBG : user limits", "connections created")[1..],
        [
            "INFO: Starting sender activity (no sync) ...",
            "INFO: 1 threads created",
            "DBG : Running UDP stream: local:. [socket:3] --> 127.0.0.1:.",
            "INFO: 1 connections created in . microseconds",
        ]
    );
    let line = " INFO: the UDP send size is too big. use the max value\n";
    assert!(alone.out.contains(line) && !alone.out.contains("Network activity"), "{}", alone.tell());
}

#[test]
fn bad_words_are_named() {
    for (words, why) in
        [("-s", "needs the receiver's address"), ("-r -Z", "not an option"), ("-r -P 0", "1 to 512")]
    {
        netcaliper("ntttcp").args(words).run().exits(23).complains(&[why]);
    }
    // Windows' has a code of its own.
    netcaliper("ntttcp").args("-s -ns").run().exits(9).complains(&["needs its mapping"]);
    netcaliper("ntttcp").arg("-h").run().exits(23).prints(&["no synchronisation"]);
    netcaliper("ntttcp").args("-s127.0.0.1 -p 2 -P 1 -t 1").run().exits(24);
}
