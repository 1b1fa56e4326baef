//! UDPmon with the real binary against independent ends: `peers/udpmon.py`, written from the
//! description of its messages with Python's standard library. The peer loses, repeats and delays
//! chosen packets, and what is counted must be that.

use crate::support::files::Scratch;
use crate::support::lab::{lab, sh};
use crate::support::net::has_ipv6;
use crate::support::peer::{all_stopped, peer, service, services};
use crate::support::{BIN, Done, Proc, netcaliper, number, skip, whole};
use serde_json::Value;
use std::time::Duration;

const PEER: &str = "udpmon.py";

/// A server of ours that responds, and its port.
fn responder(words: &str) -> (Proc, u16) {
    let proc = netcaliper("serve").args("-B 127.0.0.1 --port 0 --legacy udpmon:0").args(words).spawn();
    let port = proc.port_of("udpmon");
    (proc, port)
}

/// A program that waits for datagrams, under its own name, and the port that it says.
fn listening(program: &str, words: &str) -> (Proc, String) {
    let proc = netcaliper(program).args(words).spawn();
    let port = proc.hears("The UDP port is").split_whitespace().nth(4).unwrap().to_owned();
    (proc, port)
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect()
}

/// What Python requesters were told that asked at once.
fn asked(test: &str, words: &[String]) -> Option<Vec<Value>> {
    let done = peer(PEER, test, &format!("ask {}", words.join(" / ")))?.wait().exits(0);
    let told: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), words.len(), "{}", done.tell());
    Some(told)
}

#[test]
fn our_responder_counts_for_each_of_many_requesters_what_it_sent() {
    const NAME: &str = "udpmon::our_responder_counts_for_each_of_many_requesters_what_it_sent";
    let (_server, port) = responder("");
    // 4 and 8 to 11 never come, 5 comes late, 7 twice.
    let every = "0-3,6,5,7,7,12 records=12 skip=2 respond=3000 start=1 bin=2000000000".to_owned();
    // Lost packets are told one by one, and packets acknowledged.
    let lost = "0,3,4,7 lost=3 acks=1 size=30".to_owned();
    let more = (1..=8).map(|n| format!("0-{} records=10 gap=2000", 10 * n));
    let words = [every, lost].into_iter().chain(more).map(|words| format!("127.0.0.1 {port} {words}"));
    let Some(all) = asked(NAME, &words.collect::<Vec<_>>()) else { return };
    let told = &all[0];
    assert_eq!(numbers(&told["head"]), [0x20, 7], "{told}");
    assert_eq!([&told["received"], &told["lost"], &told["order"]].map(number), [9, 5, 2], "{told}");
    let full = |n: usize| told["hists"][n]["full"].to_string();
    assert_eq!([full(0), full(1), full(2)], [r#"{"0":8}"#, r#"{"2":1,"4":1}"#, r#"{"0":1,"1":1}"#], "{told}");
    let rows: Vec<Vec<i64>> = told["records"].as_array().unwrap().iter().map(numbers).collect();
    let there: Vec<usize> =
        rows.iter().enumerate().filter(|(_, row)| row[0] != 0).map(|(n, _)| n + 2).collect();
    assert_eq!(there, [2, 3, 5, 6, 7, 12], "{told}");
    assert_eq!(numbers(&told["response"])[..3], [3000, 9, 7], "{told}");
    assert_eq!((numbers(&told["end"]), number(&told["card"])), (vec![0x20, 7], 136), "{told}");
    if cfg!(target_os = "linux") {
        for (text, words) in [(0_usize, "lo:"), (3, "InDatagrams")] {
            assert!(told["texts"][text].as_str().unwrap().contains(words), "{words}: {told}");
        }
        assert!(number(&told["cpus"]) >= 2, "all CPUs, and each: {told}");
    }
    let told = &all[1];
    let lost: Vec<i64> = told["records"].as_array().unwrap().iter().map(|row| numbers(row)[2]).collect();
    assert_eq!((lost, number(&told["acks"])), (vec![1, 2, 5], 4), "{told}");
    for (n, told) in (1..).zip(&all[2..]) {
        let counts = [&told["received"], &told["lost"], &told["order"]].map(number);
        assert_eq!(counts, [10 * n + 1, 0, 0], "0-{}: {told}", 10 * n);
    }
}

#[test]
fn our_requester_tells_what_became_of_its_packets() {
    const NAME: &str = "udpmon::our_requester_tells_what_became_of_its_packets";
    // A request for the sums, and one for a histogram, are not heard at first: they come again
    // after three seconds.
    let words = "respond 127.0.0.1 0 drop=3,4,11 late=7 twice=9 mute=2:1";
    let Some((server, at)) = service(PEER, NAME, words) else { return };
    let outcome = netcaliper("train")
        .args(&format!("{at} --protocol udpmon -n 20 -l 200 --wait 100us,300us --repeat 2 --every 200ms"))
        .outcome()
        .exits(0);
    let settings = outcome.point()["trains"]["report"]["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 2);
    for setting in settings {
        // The peer has records of the received packets: 7 came after 8.
        let told = ["sent", "received", "lost", "overtaken"].map(|of| number(&setting[of]));
        assert_eq!(told, [40, 34, 6, 2], "{}", outcome.tell());
    }
    let did = server.stopped();
    // On a busy host an answer may come too late: what was asked is asked again.
    assert!(
        number(&did["tests"]) >= 4 && number(&did["ends"]) >= 4 && number(&did["packets"]) == 80,
        "{did}"
    );
    // Exchanges of 200 before and 20 behind each train; the first message has version 0 and asks
    // for 2 × 20 records.
    assert!(number(&did["asks"]) >= 4 * 220 && number(&did["zero_version"]) == 0, "{did}");
    assert_eq!(numbers(&did["setup"])[..3], [32 * 40, 0, 0], "{did}");
    assert_eq!(numbers(&did["order"])[..20], (0..20).collect::<Vec<i64>>()[..], "{did}");
}

#[test]
fn another_version_and_nobody_there_are_said_in_words() {
    const NAME: &str = "udpmon::another_version_and_nobody_there_are_said_in_words";
    let Some((_server, at)) = service(PEER, NAME, "respond 127.0.0.1 0 version=6") else { return };
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

/// What a program prints, whose run, saved, is printed again, from its journal and from its
/// outcome.
fn printed_again(program: &str, words: &str) -> Done {
    let scratch = Scratch::new();
    let file = scratch.file("run.jsonl");
    let done = netcaliper(program).args(words).arg("--save").arg(&file).run().exits(0);
    let again = netcaliper("report").arg(&file).args(&format!("--as {program}")).run().exits(0);
    assert_eq!(again.out, done.out, "{program} {words}");
    let told = netcaliper("report").arg(&file).run().exits(0);
    assert!(!told.out.contains("No trains"), "{}", told.tell());
    if program == "udpmon_bw_mon" {
        // The responder has said what came: nothing is left to be confirmed.
        let unconfirmed = ["NOT CONFIRMED", "unconfirmed"].iter().any(|words| told.out.contains(*words));
        assert!(!unconfirmed, "{}", told.tell());
        told.prints(&["Tests (receiver's count)"]);
    }
    let outcome = netcaliper("report").arg(&file).args("--json").run().exits(0);
    let json = scratch.with("run.json", &outcome.out);
    let again = netcaliper("report").arg(&json).args(&format!("--as {program}")).run().exits(0);
    assert_eq!(again.out, done.out, "of its outcome: {program} {words}");
    done
}

#[test]
fn the_programs_print_what_the_peer_found_and_print_it_again() {
    const NAME: &str = "udpmon::the_programs_print_what_the_peer_found_and_print_it_again";
    let hows = ["127.0.0.1 0 drop=5 twice=7".to_owned(), "127.0.0.1 0 drop=5 twice=7".to_owned()];
    let Some((server, at)) = services(PEER, NAME, "respond", &hows) else { return };
    let words = |n: usize, words: &str| format!("-d {} {words}", at[n].replace(':', " -u "));
    let done = netcaliper("udpmon_bw_mon").args(&words(0, "-p 500 -l 20 -w 200 -x -G 3:4")).run().exits(0);
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
    printed_again("udpmon_bw_mon", &words(1, "-p 300 -l 20 -w 100 -e 300 -i 200 -x -H -G 20"));
    printed_again("udpmon_bw_mon", &words(1, "-p 300 -l 20 -w 100 -L 3 --as-original"));
    let asked = printed_again("udpmon_req", &words(0, "-r 64 -e 264 -i 200 -l 5 -H"));
    asked.prints(&["\n 64;  64;  5;   ", "\n 264;  64;  5;   "]);
    let sent = printed_again("udpmon_send", &words(0, "-l 30 -w 50 -p 200"));
    sent.prints(&["\n  pkt len; num_sent;", " 200; 30; "]);
    // Trains are UDPmon's tests: each has a line.
    let outcome = netcaliper("train")
        .args(&format!(
            "{} --protocol udpmon -n 20 -l 200 --wait 100us,300us --repeat 2 --every 200ms",
            at[1]
        ))
        .outcome();
    let scratch = Scratch::new();
    let json = scratch.with("trains.json", &outcome.done.out);
    let told = netcaliper("report").arg(&json).args("--as udpmon_bw_mon").run().exits(0);
    let lines = told.out.lines().filter(|line| line.starts_with(" 200; 20; 0; ")).count();
    assert_eq!(lines, 4, "{}", told.tell());
    // No connection of tcpmon's was tested: nothing of the trains passes for one.
    let told = netcaliper("report").arg(&json).args("--as tcpmon_mon").run().exits(0);
    assert!(!told.out.contains("200; 20; 0; "), "{}", told.tell());
    let did = &all_stopped(server)[0];
    assert_eq!(number(&did["packets"]), 50, "{did}");
    assert!(number(&did["tests"]) >= 2 && number(&did["ends"]) >= 2, "{did}");
}

#[test]
fn a_responder_under_its_own_name_and_a_receiver_count() {
    const NAME: &str = "udpmon::a_responder_under_its_own_name_and_a_receiver_count";
    let (_resp, port) = listening("udpmon_resp", "-u 0");
    let Some(asker) = peer(PEER, NAME, &format!("ask 127.0.0.1 {port} 0-99")) else { return };
    assert_eq!(number(&asker.wait().exits(0).last_json()["received"]), 100);
    let (recv, port) = listening("udpmon_recv", "-u 0 -H -G 3 -T 1");
    netcaliper("udpmon_send").args(&format!("-d 127.0.0.1 -u {port} -l 200 -w 100 -p 300")).run().exits(0);
    // A line a second tells what came since the line before.
    let sum = |title: &str| {
        let out = recv.out();
        let mut lines = whole(&out).lines().skip_while(|line| !line.starts_with("num;"));
        let titles: Vec<&str> = lines.next().unwrap_or_default().split(';').map(str::trim).collect();
        let place = titles.iter().position(|column| *column == title).unwrap_or(usize::MAX);
        lines.filter_map(|line| line.split(';').nth(place)?.trim().parse::<u64>().ok()).sum::<u64>()
    };
    crate::support::eventually("all packets are counted", || sum("num_recv") == 200);
    assert_eq!(sum("Bytes Recv"), 60_000, "{}", recv.out());
    recv.signal("INT");
    recv.wait().exits(0).prints(&["Hist        0 Time between frames 0.1us", "\n 3; "]);
}

#[test]
fn a_receiver_tells_each_senders_packets_and_what_its_host_did() {
    const NAME: &str = "udpmon::a_receiver_tells_each_senders_packets_and_what_its_host_did";
    let scratch = Scratch::new();
    let file = scratch.file("run.jsonl");
    let words = format!("-u 0 -L 10 -H -I lo --save {}", file.display());
    let (recv, port) = listening("udpmon_recv", &words);
    // One sender loses 3 and 4 of seven packets, the other nothing of five; neither begins with a
    // word.
    let words = ["0-2,5-8", "0-4"].map(|frames| format!("127.0.0.1 {port} {frames} size=200"));
    let Some(senders) = peer(PEER, NAME, &format!("send {}", words.join(" / "))) else { return };
    assert_eq!(senders.wait().exits(0).out, "{\"sent\": 7}\n{\"sent\": 5}\n");
    // Both senders have ended, so all is in the sockets.
    recv.signal("INT");
    let done = recv.wait().exits(0);
    let mut lines: Vec<Vec<&str>> = done
        .out
        .lines()
        .filter(|line| line.ends_with("; ") && line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| line.split(';').map(str::trim).collect())
        .collect();
    lines.sort_by_key(|line| line[4].to_owned());
    let told: Vec<[&str; 4]> = lines.iter().map(|line| [line[4], line[5], line[10], line[11]]).collect();
    // Received, lost, bytes, bytes of each.
    assert_eq!(told, [["5", "0", "1000", "200"], ["7", "2", "1400", "200"]], "{}", done.tell());
    let words: Vec<&str> =
        done.out.lines().find(|line| line.starts_with("num;")).unwrap().split(';').collect();
    // The sender stands at the end of the titles and of each line.
    assert_eq!(words[words.len() - 2].trim(), "sender", "{}", done.tell());
    assert!(lines.iter().all(|line| line[line.len() - 2].starts_with("127.0.0.1:")), "{}", done.tell());
    for title in [" <L CPU>", " L if", " L snmp", " L NIC"] {
        assert!(!cfg!(target_os = "linux") || words.contains(&title), "{title}: {}", done.tell());
    }
    let done = done.prints(&["Frames lost           : 2 \t delta: 2\n", "lost event;", "; 3; ", "; 4; "]);
    let again = netcaliper("report").arg(&file).args("--as udpmon_recv").run().exits(0);
    assert_eq!(again.out, done.out, "a saved run is printed again");
}

#[test]
fn type_of_service_is_on_the_wire() {
    const NAME: &str = "udpmon::type_of_service_is_on_the_wire";
    if !cfg!(target_os = "linux") {
        return skip(NAME, "the peer reads it as Linux tells it");
    }
    let mut hosts = vec!["127.0.0.1"];
    if has_ipv6() {
        hosts.push("::1");
    }
    // -P 5 -T 4 is 0xa8, as the original puts it together.
    let options = [("-Q b8", 0xb8), ("-P 5 -T 4", 0xa8), ("", 0)];
    let cases: Vec<_> = hosts.iter().flat_map(|host| options.map(|option| (*host, option))).collect();
    let hows: Vec<String> = cases.iter().map(|(host, _)| format!("{host} 0")).collect();
    let Some((server, at)) = services(PEER, NAME, "respond", &hows) else { return };
    for ((host, (words, _)), at) in cases.iter().zip(&at) {
        let port = at.rsplit(':').next().unwrap();
        let words = format!("-d {host} -u {port} -l 20 -w 50 {words}");
        netcaliper("udpmon_bw_mon").args(&words).run().exits(0);
    }
    for ((host, (words, octet)), did) in cases.into_iter().zip(all_stopped(server)) {
        assert_eq!(numbers(&did["tos"]), [octet], "{host} {words}");
    }
    let (mut responders, mut words) = (Vec::new(), Vec::new());
    for host in &hosts {
        let v6 = if *host == "::1" { "-6" } else { "" };
        let (resp, port) = listening("udpmon_resp", &format!("-u 0 -Q 28 {v6}"));
        responders.push(resp);
        words.push(format!("{host} {port} 0-3"));
    }
    let Some(all) = asked(NAME, &words) else { return };
    for (host, told) in hosts.iter().zip(all) {
        // A new peer is answered from a socket of its own, which has it, too.
        assert_eq!(numbers(&told["tos"]), [0x28], "{host}");
    }
}

#[test]
fn a_drivers_counters_are_told() {
    const NAME: &str = "udpmon::a_drivers_counters_are_told";
    netcaliper("udpmon_resp")
        .args("-u 0 -I no-such-card")
        .run()
        .exits(1)
        .says_one_sentence()
        .complains(&["no-such-card"]);
    if !cfg!(target_os = "linux") {
        return skip(NAME, "drivers are asked on Linux only");
    }
    let (_resp, port) = listening("udpmon_resp", "-u 0 -I lo");
    let Some(asker) = peer(PEER, NAME, &format!("ask 127.0.0.1 {port} 0-99")) else { return };
    let told = asker.wait().exits(0).last_json();
    let counts = numbers(&told["card_counts"]);
    // Loopback has no driver that counts: packets in and out are the kernel's, of the same readings
    // as its texts.
    let packets = |text: usize, column: usize| {
        let dev = told["texts"][text].as_str().unwrap();
        let line = dev.lines().find_map(|line| line.trim().strip_prefix("lo:")).unwrap();
        line.split_whitespace().nth(column).unwrap().parse::<i64>().unwrap()
    };
    let moved = |column| packets(2, column) - packets(0, column);
    assert_eq!(counts, [moved(1), moved(9), -1, -1, -1, -1, -1, -1, -1], "{told}");
    assert_eq!(told["card_name"], "lo");
    let mon = format!("-d 127.0.0.1 -u {port} -l 100 -x");
    let done = netcaliper("udpmon_bw_mon").args(&mon).run().exits(0);
    done.prints(&[" R NIC; lo; ", "; - ; - ; - ; - ; - ; - ; - ;"]);
}

#[test]
fn a_server_keeps_what_requesters_tested() {
    let scratch = Scratch::new();
    let file = scratch.file("served.jsonl");
    let (server, port) = responder(&format!("--save {}", file.display()));
    for size in [300, 700] {
        let words = format!("-d 127.0.0.1 -u {port} -p {size} -l 20 -w 100");
        netcaliper("udpmon_bw_mon").args(&words).run().exits(0);
    }
    server.signal("INT");
    server.wait();
    let outcome = netcaliper("report").arg(&file).args("--json").run().exits(0).json();
    let tests = outcome["points"][0]["extras"].as_array().unwrap();
    let told = |extra: &Value| {
        let counts = &extra["value"]["counts"];
        (counts["received"].as_u64(), counts["bytes"].as_u64())
    };
    assert_eq!(
        tests.iter().map(told).collect::<Vec<_>>(),
        [(Some(20), Some(6_000)), (Some(20), Some(14_000))]
    );
    let printed = netcaliper("report").arg(&file).args("--as udpmon_bw_mon").run().exits(0);
    let tests = printed.out.lines().filter(|line| line.contains("; 20; 0; ")).count();
    assert_eq!(tests, 2, "{}", printed.tell());
}

#[test]
fn a_stream_without_a_word_is_accounted_for_from_its_first_packet() {
    // The last of them is accounted for a moment after it came, which no line tells: a busy host is
    // given longer.
    let told = |patience: Duration| {
        let (server, port) = responder("");
        for n in [50, 1] {
            let words = format!("-d 127.0.0.1 -u {port} -p 500 -l {n} -w 10");
            netcaliper("udpmon_send").args(&words).run().exits(0);
        }
        std::thread::sleep(patience);
        server.signal("INT");
        server.wait()
    };
    let all = "udpmon: 2 connections, 25500 bytes received";
    let mut last = String::new();
    let found = [500, 2_000, 10_000].into_iter().any(|ms| {
        let done = told(Duration::from_millis(ms));
        last = done.tell();
        done.out.contains(all)
    });
    assert!(found, "'{all}' is missing: {last}");
}

#[test]
fn what_cannot_be_is_one_sentence() {
    for (program, words, why) in [
        ("udpmon_bw_mon", "", "-d HOST"),
        ("udpmon_bw_mon", "-d 127.0.0.1 -B 0", "bin"),
        ("udpmon_req", "-d 127.0.0.1 -r 64 -e 100", "step"),
        ("udpmon_resp", "127.0.0.1", "not an option"),
        ("udpmon_bw_mon", "-d 127.0.0.1 -u 70000", "-u takes a whole number from 0 to 65535"),
        ("tcpmon_mon", "-d 127.0.0.1 -u 70000", "-u takes a whole number from 0 to 65535"),
    ] {
        netcaliper(program).args(words).run().exits(1).says_one_sentence().complains(&[why]);
    }
}

#[test]
fn loss_and_order_are_those_of_the_path() {
    const NAME: &str = "udpmon::loss_and_order_are_those_of_the_path";
    let options = "-q --wait sleep --up loss=2%,reorder=3%:3,only=udp:14233 --seed 4 --report";
    let Some(lab) = lab(NAME, options) else { return };
    let scratch = Scratch::new();
    let file = scratch.file("truth.json");
    let command = format!("{BIN} udpmon_bw_mon -d $NETCALIPER_LAB_SERVER -p 300 -l 2000 -w 500 -x");
    let lab = lab.arg(&file).arg("--server").arg(format!("{BIN} udpmon_resp"));
    let done = sh(lab, &command).run().exits(0);
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
    // A packet that is held back leaves behind a later one; so may a request that had to be
    // repeated meanwhile.
    let (order, reordered) = (count("num_badorder"), number(&flow["reordering"]["reordered"]));
    assert!(order > 10 && (order..=order + repeated).contains(&reordered), "{flow} {}", done.tell());
}
