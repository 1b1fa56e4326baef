//! UDPmon with the real binary against independent ends: `peers/udpmon.py`, written from the description of its messages with
//! Python's standard library. The peer loses, repeats and delays chosen packets, and what is counted must be that.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod support;

use serde_json::Value;
use std::process::Command;
use support::files::Scratch;
use support::net::is_root;
use support::{BIN, Done, Proc, netcaliper, number, skip};

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/udpmon.py");

/// The peer in a role, or `None` (and a skip on record) where there is no Python.
fn peer(test: &str, words: &str) -> Option<Proc> {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        skip(test, "python3 is not there");
        return None;
    }
    let mut command = Command::new("python3");
    command.arg(PEER).args(words.split_whitespace());
    Some(Proc::spawn(command))
}

/// Our responder and its port.
fn responder() -> (Proc, String) {
    let proc = netcaliper("serve").args("-B 127.0.0.1 --port 0 --legacy udpmon:0").spawn();
    let line = proc.hears("answering udpmon on 127.0.0.1:");
    let port = line.rsplit(':').next().unwrap().split(' ').next().unwrap().to_owned();
    (proc, port)
}

fn json(done: &Done) -> Value {
    serde_json::from_str(done.out.lines().last().unwrap_or_default())
        .unwrap_or_else(|e| panic!("{e}: {}", done.tell()))
}

/// A Python responder and its address.
fn service(test: &str, how: &str) -> Option<(Proc, String)> {
    let server = peer(test, &format!("respond 127.0.0.1 0 {how}"))?;
    let port = server.hears("port ").trim_start_matches("port ").to_owned();
    Some((server, format!("127.0.0.1:{port}")))
}

/// What a responder did.
fn deeds(server: Proc) -> Value {
    server.signal("INT");
    json(&server.wait())
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect()
}

#[test]
fn our_responder_counts_what_was_sent() {
    const NAME: &str = "udpmon::our_responder_counts_what_was_sent";
    let (_server, port) = responder();
    // 4 and 8 to 11 never come, 5 comes late, 7 twice.
    let words =
        format!("ask 127.0.0.1 {port} 0-3,6,5,7,7,12 records=12 skip=2 respond=3000 start=1 bin=2000000000");
    let Some(asker) = peer(NAME, &words) else { return };
    let told = json(&asker.wait().exits(0));
    assert_eq!(numbers(&told["head"]), [0x20, 7], "{told}");
    assert_eq!([&told["received"], &told["lost"], &told["order"]].map(number), [9, 5, 2], "{told}");
    let full = |n: usize| told["hists"][n]["full"].to_string();
    assert_eq!(
        (full(0), full(1), full(2)),
        (r#"{"0":8}"#.into(), r#"{"2":1,"4":1}"#.into(), r#"{"0":1,"1":1}"#.into())
    );
    let rows: Vec<Vec<i64>> = told["records"].as_array().unwrap().iter().map(numbers).collect();
    let there: Vec<usize> =
        rows.iter().enumerate().filter(|(_, row)| row[0] != 0).map(|(n, _)| n + 2).collect();
    assert_eq!(there, [2, 3, 5, 6, 7, 12], "{told}");
    assert_eq!(numbers(&told["response"])[..3], [3000, 9, 7]);
    assert_eq!((numbers(&told["end"]), number(&told["card"])), (vec![0x20, 7], 136));
    let texts = told["texts"].as_array().unwrap();
    if cfg!(target_os = "linux") {
        assert!(
            texts[0].as_str().unwrap().contains("lo:") && texts[3].as_str().unwrap().contains("InDatagrams"),
            "{told}"
        );
        assert!(number(&told["cpus"]) >= 2, "all CPUs, and each: {told}");
    }
}

#[test]
fn lost_packets_are_told_one_by_one_and_packets_acknowledged() {
    const NAME: &str = "udpmon::lost_packets_are_told_one_by_one_and_packets_acknowledged";
    let (_server, port) = responder();
    let Some(asker) = peer(NAME, &format!("ask 127.0.0.1 {port} 0,3,4,7 lost=3 acks=1 size=30")) else {
        return;
    };
    let told = json(&asker.wait().exits(0));
    let lost: Vec<i64> = told["records"].as_array().unwrap().iter().map(|row| numbers(row)[2]).collect();
    assert_eq!((lost, number(&told["acks"])), (vec![1, 2, 5], 4), "{told}");
}

#[test]
fn many_requesters_at_once_have_counts_of_their_own() {
    const NAME: &str = "udpmon::many_requesters_at_once_have_counts_of_their_own";
    let (_server, port) = responder();
    let askers: Vec<(i64, Proc)> = (1..=8)
        .filter_map(|n| {
            Some((n, peer(NAME, &format!("ask 127.0.0.1 {port} 0-{} records=10 gap=2000", 10 * n))?))
        })
        .collect();
    for (n, asker) in askers {
        let told = json(&asker.wait().exits(0));
        let told = [&told["received"], &told["lost"], &told["order"]].map(|n| n.as_i64().unwrap());
        assert_eq!(told, [10 * n + 1, 0, 0]);
    }
}

#[test]
fn our_requester_tells_what_became_of_its_packets() {
    const NAME: &str = "udpmon::our_requester_tells_what_became_of_its_packets";
    // A request for the sums, and one for a histogram, are not heard at first: they come again after three seconds.
    let Some((server, at)) = service(NAME, "drop=3,4,11 late=7 twice=9 mute=2:1") else { return };
    let outcome = netcaliper("train")
        .args(&format!("{at} --protocol udpmon -n 20 -l 200 --wait 100us,300us --repeat 2 --every 200ms"))
        .outcome();
    assert_eq!(outcome.done.code, Some(0), "{}", outcome.done.tell());
    let settings = outcome.point()["trains"]["report"]["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 2);
    for setting in settings {
        // The peer has records of those that came: 7 came behind 8.
        let told = ["sent", "received", "lost", "overtaken"].map(|of| number(&setting[of]));
        assert_eq!(told, [40, 34, 6, 2], "{}", outcome.tell());
    }
    let did = deeds(server);
    // On a busy host an answer may come too late: what was asked is asked again.
    assert!(
        number(&did["tests"]) >= 4 && number(&did["ends"]) >= 4 && number(&did["packets"]) == 80,
        "{did}"
    );
    // Exchanges of 200 before and 20 behind each train; the first message has version 0 and asks for 2 × 20 records.
    assert!(number(&did["asks"]) >= 4 * 220 && number(&did["zero_version"]) == 0, "{did}");
    assert_eq!(numbers(&did["setup"])[..3], [32 * 40, 0, 0], "{did}");
    assert_eq!(numbers(&did["order"])[..20], (0..20).collect::<Vec<i64>>()[..], "{did}");
}

#[test]
fn another_version_and_nobody_there_are_said_in_words() {
    const NAME: &str = "udpmon::another_version_and_nobody_there_are_said_in_words";
    let Some((_server, at)) = service(NAME, "version=6") else { return };
    let done = netcaliper("train").args(&format!("{at} --protocol udpmon -n 5 --repeat 1")).run();
    done.exits(1).prints(&["speaks another version of UDPmon"]);
    netcaliper("train").args(&format!("{at} --protocol udpmon -R")).run().exits(2).says_one_sentence();
}

/// The columns of the last line of `text`, by their titles.
fn column(text: &str, title: &str) -> String {
    let titles =
        text.lines().find(|line| line.contains("pkt len;") || line.contains("response len")).unwrap();
    let line =
        text.lines().rfind(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).unwrap();
    let place = titles.split(';').position(|column| column.trim() == title).unwrap();
    line.split(';').nth(place).unwrap().trim().to_owned()
}

#[test]
fn the_faces_print_what_the_peer_found() {
    const NAME: &str = "udpmon::the_faces_print_what_the_peer_found";
    let Some((server, at)) = service(NAME, "drop=5 twice=7") else { return };
    let port = at.rsplit(':').next().unwrap();
    let words = format!("-d 127.0.0.1 -u {port} -p 500 -l 20 -w 200 -x -G 3:4");
    let done = netcaliper("udpmon_bw_mon").args(&words).run().exits(0);
    for (title, expected) in [
        ("pkt len", "500"),
        ("num_sent", "20"),
        ("inter-pkt_time us", "200"),
        ("num_recv", "20"),
        ("num_lost", "1"),
        ("num_badorder", "1"),
        ("num_in_hist", "3"),
    ] {
        // The last line with a number in front is a record's: the result stands before it.
        let result = done.out.split(" num packets skipped").next().unwrap();
        assert_eq!(column(result, title), expected, "{title}: {}", done.tell());
    }
    // Packets 3 to 6, of which 5 did not come.
    let records: Vec<&str> =
        done.out.lines().filter(|line| line.trim_start().starts_with(['4', '5', '6', '7'])).collect();
    assert!(records.iter().any(|line| line.starts_with(" 6; 0; 0; 0; 0;")), "{}", done.tell());
    let words = format!("-d 127.0.0.1 -u {port} -r 64 -e 264 -i 200 -l 5 -H");
    let done = netcaliper("udpmon_req").args(&words).run().exits(0);
    assert!(
        done.out.contains("\n 64;  64;  5;   ") && done.out.contains("\n 264;  64;  5;   "),
        "{}",
        done.tell()
    );
    netcaliper("udpmon_send")
        .args(&format!("-d 127.0.0.1 -u {port} -l 30 -w 50 -p 200"))
        .run()
        .exits(0)
        .prints(&["\n  pkt len; num_sent;", " 200; 30; "]);
    let did = deeds(server);
    assert!(
        number(&did["packets"]) == 50 && number(&did["tests"]) >= 2 && number(&did["ends"]) >= 2,
        "{did}"
    );
}

#[test]
fn a_responder_under_its_own_name_and_a_receiver_count() {
    const NAME: &str = "udpmon::a_responder_under_its_own_name_and_a_receiver_count";
    let at = |proc: &Proc| proc.hears("The UDP port is").split_whitespace().nth(4).unwrap().to_owned();
    let resp = netcaliper("udpmon_resp").args("-u 0").spawn();
    let port = at(&resp);
    let Some(asker) = peer(NAME, &format!("ask 127.0.0.1 {port} 0-99")) else { return };
    assert_eq!(number(&json(&asker.wait().exits(0))["received"]), 100);
    let recv = netcaliper("udpmon_recv").args("-u 0 -H -G 3 -T 1").spawn();
    let port = at(&recv);
    netcaliper("udpmon_send").args(&format!("-d 127.0.0.1 -u {port} -l 200 -w 100 -p 300")).run().exits(0);
    // A line a second tells what came since the line before.
    let sum = |title: &str| {
        let out = recv.out();
        let mut lines = out.lines().skip_while(|line| !line.starts_with("num;"));
        let titles: Vec<&str> = lines.next().unwrap_or_default().split(';').map(str::trim).collect();
        let place = titles.iter().position(|column| *column == title).unwrap_or(usize::MAX);
        lines.filter_map(|line| line.split(';').nth(place)?.trim().parse::<u64>().ok()).sum::<u64>()
    };
    support::eventually("all packets are counted", || sum("num_recv") == 200);
    assert_eq!(sum("Bytes Recv"), 60_000, "{}", recv.out());
    recv.signal("INT");
    let done = recv.wait().exits(0);
    assert!(
        done.out.contains("Hist        0 Time between frames 0.1us") && done.out.contains("\n 3; "),
        "{}",
        done.tell()
    );
}

#[test]
fn what_cannot_be_is_one_sentence() {
    for (face, words, why) in [
        ("udpmon_bw_mon", "", "-d HOST"),
        ("udpmon_bw_mon", "-d 127.0.0.1 -B 0", "bin"),
        ("udpmon_req", "-d 127.0.0.1 -r 64 -e 100", "step"),
        ("udpmon_resp", "127.0.0.1", "no option"),
    ] {
        netcaliper(face).args(words).run().exits(1).says_one_sentence().complains(&[why]);
    }
}

#[test]
fn loss_and_order_are_those_of_the_path() {
    const NAME: &str = "udpmon::loss_and_order_are_those_of_the_path";
    if !is_root() || !std::path::Path::new("/dev/net/tun").exists() {
        return skip(NAME, "a lab needs root and /dev/net/tun");
    }
    let scratch = Scratch::new();
    let file = scratch.file("truth.json");
    let command = format!("{BIN} udpmon_bw_mon -d $NETCALIPER_LAB_SERVER -p 300 -l 2000 -w 500 -x");
    let lab =
        netcaliper("lab").args("-q --up loss=2%,reorder=3%:3,only=udp:14233 --seed 4 --report").arg(&file);
    let done =
        lab.arg("--server").arg(format!("{BIN} udpmon_resp")).args("-- sh -c").arg(command).run().exits(0);
    let truth: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let count = |title: &str| column(&done.out, title).parse::<u64>().unwrap();
    let (sent, received) = (count("num_sent"), count("num_recv"));
    let flows = truth["up"]["flows"].as_array().unwrap();
    let flow = flows.iter().find(|flow| flow["to"].as_str().unwrap().ends_with(":14233")).unwrap();
    // What was lost were packets, and requests, each of which was repeated once for each time.
    let (lost, gone, repeated) =
        (number(&flow["counts"]["lost_random"]), sent - received, count("num_timeout"));
    assert!(lost > 10 && (gone..=gone + repeated).contains(&lost), "{flow} {}", done.tell());
    // Packets behind the last that came are missing only in the sender's count.
    assert!(count("num_lost") <= gone && count("num_lost") + 4 >= gone, "{}", done.tell());
    // A packet that is held back leaves behind a later one; so may a request that had to be repeated meanwhile.
    let (order, reordered) = (count("num_badorder"), number(&flow["reordering"]["reordered"]));
    assert!(order > 10 && (order..=order + repeated).contains(&reordered), "{flow} {}", done.tell());
}
