//! STAMP with the real binary against an independent peer in both roles: `peers/stamp.py`, written
//! from RFC 8762 and RFC 8972 with Python's standard library (its hmac, not ours).

use crate::support::files::Scratch;
use crate::support::net::{has_ipv6, installed};
use crate::support::peer::{all_stopped, peer, service, services};
use crate::support::{Line, Outcome, Proc, netcaliper, number, skip};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

const PEER: &str = "stamp.py";

/// A Python reflector and its address.
fn reflector(test: &str, how: &str) -> Option<(Proc, String)> {
    service(PEER, test, &format!("reflector 127.0.0.1 0 {how}"))
}

/// Python reflectors of one process and their addresses.
fn reflectors(test: &str, hows: &[&str]) -> Option<(Proc, Vec<String>)> {
    let words: Vec<String> = hows.iter().map(|how| format!("127.0.0.1 0 {how}")).collect();
    services(PEER, test, "reflector", &words)
}

/// What Python senders were answered, one after another.
fn answers(test: &str, words: &[String]) -> Option<Vec<Vec<Value>>> {
    let done = peer(PEER, test, &format!("sender {}", words.join(" / ")))?.wait().exits(0);
    let told: Vec<Vec<Value>> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), words.len(), "{}", done.tell());
    Some(told)
}

fn ping(target: &str, words: &str) -> Line {
    netcaliper("ping").arg(target).args("--protocol stamp --rate 200 --timeout 3s").args(words)
}

fn facts(outcome: &Outcome) -> &Value {
    &outcome.local()["pings"]["ways"]["facts"]
}

fn count(outcome: &Outcome, of: &str) -> u64 {
    number(&outcome.local()["pings"]["counts"][of])
}

/// Our reflector, and its port.
fn ours(line: Line) -> (Proc, u16) {
    let proc = line.args("-B 127.0.0.1 -p 0 --legacy stamp:0").spawn();
    let port = proc.port_of("stamp");
    (proc, port)
}

#[test]
fn losses_on_each_way_are_told_apart() {
    let name = "losses_on_each_way_are_told_apart";
    let how = "drop-there=3,4,9 drop-back=7,12 twice=15";
    let Some((server, at)) = reflector(name, how) else { return };
    let outcome = ping(&at, "-n 30 --tlv cos=10 --ssid 0x1234").outcome().exits(0);
    assert_eq!((count(&outcome, "sent"), count(&outcome, "received"), count(&outcome, "lost")), (30, 25, 5));
    assert_eq!(count(&outcome, "repeated"), 1);
    let facts = facts(&outcome);
    assert_eq!(number(&facts["there"]["lost"]), 3, "{facts}");
    assert_eq!(number(&facts["back"]["lost"]), 2, "{facts}");
    assert_eq!(number(&facts["back"]["duplicated"]), 1, "{facts}");
    assert_eq!((number(&facts["lost_somewhere"]), number(&facts["numbered"])), (0, 1), "{facts}");
    // The peer's clock says that it may be wrong by a second and is not disciplined; it is this
    // host's own clock.
    assert!(facts["remote_error_ns"] == 1_000_000_000 && facts["remote_synced"] == false, "{facts}");
    let (bound, offset) = (number(&facts["clock_bound_ns"]), facts["clock_offset_ns"].as_i64().unwrap());
    assert!(offset.unsigned_abs() <= bound + 1_000_000, "one clock: {offset} ± {bound}");
    assert_eq!(facts["unrecognised"], serde_json::json!([4]));
    let ways = &outcome.local()["pings"]["ways"];
    assert_eq!((number(&ways["there_ns"]["count"]), number(&ways["back_ns"]["count"])), (25, 25));
    let did = server.stopped();
    assert_eq!([&did["ttl"], &did["ssid"], &did["octets"]].map(number), [255, 0x1234, 52], "{did}");
}

#[test]
fn what_a_remote_end_does_not_tell_is_not_made_up() {
    let name = "what_a_remote_end_does_not_tell_is_not_made_up";
    // One that copies our numbers: no direction. One without times: no ways. One that cuts its
    // answers: no TTL.
    let hows = ["stateless drop-there=3 drop-back=5", "zeros", "cut=36", "cut=38", "cut=41"];
    let Some((_server, at)) = reflectors(name, &hows) else { return };
    let outcome = ping(&at[0], "-n 20").outcome();
    let found = facts(&outcome);
    assert_eq!((number(&found["lost_somewhere"]), number(&found["copied"])), (2, 1), "{found}");
    assert_eq!((number(&found["there"]["lost"]), number(&found["back"]["lost"])), (0, 0));

    let outcome = ping(&at[1], "-n 10").outcome();
    let trips = &outcome.local()["pings"];
    assert_eq!(number(&trips["rtt_ns"]["count"]), 10);
    for unknown in [&trips["ways"]["there_ns"], &trips["remote_ns"], &trips["path_ns"]] {
        assert!(unknown.is_null(), "{unknown}");
    }
    for (cut, at, ttl) in [(36, &at[2], false), (38, &at[3], false), (41, &at[4], true)] {
        let outcome = ping(at, "-n 10").outcome();
        assert_eq!(count(&outcome, "received"), 10, "{cut}: {}", outcome.done.tell());
        assert_eq!(facts(&outcome)["there_marks"]["ttl"].is_null(), !ttl, "{cut}");
    }
}

#[test]
fn a_clock_that_is_ahead_is_found_in_both_formats() {
    let name = "a_clock_that_is_ahead_is_found_in_both_formats";
    let hows = ["ahead=37", "ahead=37 ptp"];
    let Some((_server, at)) = reflectors(name, &hows) else { return };
    for (how, at) in hows.iter().zip(&at) {
        let outcome = ping(at, "-n 20 --stamp-format ptp").outcome();
        let facts = facts(&outcome);
        let (bound, offset) = (number(&facts["clock_bound_ns"]), facts["clock_offset_ns"].as_i64().unwrap());
        assert!(offset.abs_diff(37_000_000_000) <= bound + 1_000_000, "{how}: {offset} ± {bound}");
        let ways = &outcome.local()["pings"]["ways"];
        let both = number(&ways["there_ns"]["min"]) + number(&ways["back_ns"]["min"]);
        assert!(both <= number(&outcome.local()["pings"]["rtt_ns"]["max"]), "{ways}");
    }
}

#[test]
fn packets_prove_that_their_senders_know_the_key() {
    let name = "packets_prove_that_their_senders_know_the_key";
    let files = Scratch::new();
    let (key, other) = (files.key("key", "a shared secret\n"), files.key("other", "another secret"));
    let hows = [format!("key={} forge=5", key.display()), format!("key={}", other.display())];
    let Some((server, at)) = reflectors(name, &hows.each_ref().map(String::as_str)) else { return };
    let outcome = ping(&at[0], "-n 20 --tlv clock,follow-up -l 200").arg("--psk-file").arg(&key).outcome();
    assert_eq!((count(&outcome, "received"), count(&outcome, "lost")), (19, 1), "{}", outcome.done.tell());
    assert_eq!((number(&facts(&outcome)["rejected"]), number(&facts(&outcome)["tampered"])), (1, 0));
    let outcome = ping(&at[1], "-n 5").arg("--psk-file").arg(&key).outcome();
    assert_eq!((count(&outcome, "received"), count(&outcome, "lost")), (0, 5), "{}", outcome.done.tell());
    let did = all_stopped(server);
    let first = ["seen", "unproven", "octets"].map(|of| number(&did[0][of]));
    assert_eq!((first, number(&did[1]["unproven"])), ([20, 0, 200], 5), "{did:?}");
}

#[test]
fn our_reflector_answers_what_an_independent_sender_asks() {
    let name = "our_reflector_answers_what_an_independent_sender_asks";
    let (server, port) = ours(netcaliper("serve"));
    // 14 and 41 octets are TWAMP-Light's; 44 STAMP's, the rest padded by zeros.
    let sizes = [(13, 0), (14, 44), (41, 44), (44, 44), (112, 112), (1400, 1400)];
    // Extensions: padding understood; an unknown one, and Direct Measurement, sent back as such; a
    // broken one called so.
    let extensions = [
        ("8001000401020304", "0001000401020304"),
        ("80f0000201028001000100", "80f0000201020001000100"),
        ("8005000c000000010000000000000000", "8005000c000000010000000000000000"),
        ("800300ff00000000", "c00300ff00000000"),
        ("80040004b8000000", "00040004ba800000"),
    ];
    let of_size = sizes.iter().map(|(octets, answered)| {
        let wait = if *answered > 0 { "9" } else { "0.3" };
        format!("127.0.0.1 {port} 3 {octets} ssid=7 dscp=10 ttl=77 wait={wait}")
    });
    let extended = extensions.iter().map(|(tlv, _)| {
        let octets = 44 + tlv.len() / 2;
        format!("127.0.0.1 {port} 1 {octets} dscp=40 tlv={tlv}")
    });
    let words: Vec<String> = of_size.chain(extended).collect();
    let Some(all) = answers(name, &words) else { return };
    for ((octets, answered), told) in sizes.into_iter().zip(&all) {
        assert_eq!(told.len(), 3, "{octets}");
        for (n, answer) in told.iter().enumerate() {
            assert_eq!(number(&answer["octets"]), answered, "{octets}: {answer}");
            if answered == 0 {
                continue;
            }
            assert_eq!([&answer["number"], &answer["request"]].map(number), [n as u64; 2], "{answer}");
            assert_eq!([&answer["ttl"], &answer["tos"]].map(number), [77, 40], "{answer}");
            assert!(answer["repeated"] == true && answer["ordered"] == true, "{answer}");
            assert_eq!(number(&answer["ssid"]), if octets < 16 { 0 } else { 7 }, "{answer}");
        }
    }
    for ((_, back), told) in extensions.into_iter().zip(&all[sizes.len()..]) {
        assert_eq!(told[0]["tlv"], back, "{}", told[0]);
    }
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn our_reflector_counts_each_session_by_itself_and_believes_no_repeat() {
    let name = "our_reflector_counts_each_session_by_itself_and_believes_no_repeat";
    let files = Scratch::new();
    let key = files.key("key", "a shared secret\n");
    let (server, port) = ours(netcaliper("serve").arg("--stamp-psk-file").arg(&key));
    let sealed = format!("key={}", key.display());
    // Padding alone needs no HMAC unit; a clock unit does, and gets its answer with one.
    let cases = [
        (112, "", ""),
        (120, "8001000400000000", "0001000400000000"),
        (140, "800300040000000080080010", "0003000405020502"),
        (120, "8003000400000000", "a003000400000000"),
    ];
    let words = cases
        .iter()
        .map(|(octets, tlv, _)| format!("127.0.0.1 {port} 4 {octets} {sealed} tlv={tlv} again=2 ttl=60"));
    // Nor is a packet that was captured and comes from elsewhere. Without the key, and with
    // another, there is no answer.
    let more =
        [format!("127.0.0.1 {port} 2 112 {sealed} elsewhere=1"), format!("127.0.0.1 {port} 2 112 wait=0.3")];
    let words: Vec<String> = words.chain(more).collect();
    let Some(all) = answers(name, &words) else { return };
    for ((octets, tlv, back), told) in cases.into_iter().zip(&all) {
        // The same packet again is not answered.
        let seen: Vec<u64> = told.iter().map(|a| number(&a["octets"])).collect();
        assert_eq!(seen, [octets, octets, octets, 0, octets], "{tlv}: {told:?}");
        let numbers: Vec<u64> =
            told.iter().filter(|a| number(&a["octets"]) > 0).map(|a| number(&a["number"])).collect();
        assert_eq!(numbers, [0, 1, 2, 3], "each socket of the sender is a session: {tlv}");
        for answer in told.iter().filter(|a| number(&a["octets"]) > 0) {
            assert_eq!(answer["proven"], Value::Bool(true), "{answer}");
            assert_eq!(number(&answer["ttl"]), 60);
            let all = answer["tlv"].as_str().unwrap();
            // The clock of this host may be disciplined, or not.
            let free = all.replace("01020102", "05020502");
            assert!(free.starts_with(back), "{answer}");
            assert!(octets != 140 || answer["sealed"] == Value::Bool(true), "{answer}");
        }
    }
    let octets = |told: &[Value]| told.iter().map(|a| number(&a["octets"])).collect::<Vec<u64>>();
    assert_eq!(octets(&all[4]), [112, 112, 0], "from elsewhere: {:?}", all[4]);
    assert_eq!(octets(&all[5]), [0, 0], "without the key: {:?}", all[5]);
    server.signal("TERM");
    server.wait().exits(0);
}

/// Requests that wait at the listening socket while their sender is given a socket of its own
/// belong to its session.
#[test]
fn requests_that_arrive_before_the_session_has_a_socket_are_of_the_session() {
    let (server, port) = ours(netcaliper("serve"));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    server.signal("STOP");
    for number in 100_u32..105 {
        let mut request = [0; 44];
        request[..4].copy_from_slice(&number.to_be_bytes());
        request[8] = number as u8;
        sender.send_to(&request, ("127.0.0.1", port)).unwrap();
    }
    server.signal("CONT");
    let mut numbers: Vec<(u32, u32)> = (0..5)
        .map(|_| {
            let mut reply = [0; 100];
            let n = sender.recv(&mut reply).unwrap();
            assert!(n >= 44, "{n}");
            let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
            (word(24), word(0))
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(
        numbers,
        [(100, 0), (101, 1), (102, 2), (103, 3), (104, 4)],
        "the sender's number, and the session's"
    );
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn two_of_ours_tell_all_there_is() {
    let (server, port) = ours(netcaliper("serve").args("--stamp-direct"));
    let at = format!("127.0.0.1:{port}");
    let words = "-n 50 -l 300 --dscp 34 --tlv follow-up,clock,cos=ef,direct";
    let outcome = ping(&at, words).outcome().exits(0);
    assert_eq!((count(&outcome, "sent"), count(&outcome, "received")), (50, 50));
    let found = facts(&outcome);
    assert_eq!(found["unrecognised"], serde_json::json!([]), "{found}");
    assert_eq!(found["remote_counts"], serde_json::json!([50, 50]));
    assert_eq!(found["there_marks"]["ttl"], serde_json::json!([255, 255]));
    assert_eq!(found["there_marks"]["dscp"], serde_json::json!([34, 34]));
    assert_eq!(found["back_marks"]["dscp"], serde_json::json!([46, 46]), "as asked for");
    let trips = &outcome.local()["pings"];
    // Where the kernel stamps what leaves, all but the last answer's stamps may have come.
    let late = &trips["ways"]["left_late_ns"];
    assert!(late.is_null() || number(&late["count"]) <= 49, "{late}");
    assert_eq!(number(&trips["remote_ns"]["count"]), 50);
    ping(&at, "-n 3").run().exits(0).prints(&["Each way", "delays are right to ±"]);
    server.signal("TERM");
    server.wait().prints(&["stamp: ", "bytes answered"]);
}

#[test]
fn ipv6_is_reflected_with_its_hop_limit() {
    const NAME: &str = "ipv6_is_reflected_with_its_hop_limit";
    if !has_ipv6() {
        return skip(NAME, "no IPv6 here");
    }
    let proc = netcaliper("serve").args("-B ::1 -p 0 --stamp=0").spawn();
    let port = proc.port_of("stamp");
    let outcome = ping(&format!("[::1]:{port}"), "-n 10 --ttl 99").outcome();
    assert_eq!(count(&outcome, "received"), 10, "{}", outcome.done.tell());
    assert_eq!(facts(&outcome)["there_marks"]["ttl"], serde_json::json!([99, 99]));
    let Some(told) = answers(NAME, &[format!("::1 {port} 2 44 dscp=12 ttl=9")]) else { return };
    assert_eq!([&told[0][1]["ttl"], &told[0][1]["tos"]].map(number), [9, 48], "{told:?}");
}

#[test]
fn wireshark_reads_our_packets_as_they_are_meant() {
    let name = "wireshark_reads_our_packets_as_they_are_meant";
    if !installed("tshark") {
        return skip(name, "tshark is not there");
    }
    let files = Scratch::new();
    let capture = files.file("sent.pcap");
    let Some((server, at)) = reflector(name, &format!("pcap={}", capture.display())) else { return };
    let outcome = ping(&at, "-n 5").outcome();
    assert_eq!(count(&outcome, "received"), 5, "{}", outcome.done.tell());
    server.stopped();
    let port = at.rsplit_once(':').unwrap().1.to_owned();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&capture).args(["-d", &format!("udp.port=={port},twamp.test"), "-T", "fields"]);
    for field in ["seq_number", "timestamp", "error_estimate"] {
        command.args(["-e", &format!("twamp.test.{field}")]);
    }
    let done = command.args(["-e", "_ws.malformed"]).env("TZ", "UTC").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 5, "{said} {}", String::from_utf8_lossy(&done.stderr));
    // 146,097 days are 400 years; that may be one too few on the last day of a year.
    let days = outcome.point()["started"].as_i64().unwrap() / 86_400_000_000_000;
    let year = 1970 + days * 400 / 146_097;
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row[0], n.to_string(), "{said}");
        let fits = |year: i64| row[1].contains(&year.to_string());
        assert!(fits(year) || fits(year + 1), "the year of its time: {said}");
        assert!(!row[2].is_empty(), "{said}");
        assert!(row.last().is_some_and(|malformed| malformed.is_empty()), "{said}");
    }
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    for (words, why) in [
        ("--protocol stamp -l 46", "44 bytes, or 48 and more"),
        ("--protocol stamp --tlv clock -l 44", "52 bytes, or 56 and more"),
        ("--protocol stamp --tlv what", "is not an extension"),
        ("--protocol stamp --send-chunk 20", "whole datagrams"),
        ("--ssid 5", "use them with --protocol stamp"),
        ("--protocol echo --tlv clock", "use them with --protocol stamp"),
    ] {
        netcaliper("ping").arg("127.0.0.1").args(words).run().exits(2).complains(&[why]);
    }
    netcaliper("serve").args("--legacy quote").run().exits(2).complains(&["not a protocol"]);
}
