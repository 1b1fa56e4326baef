//! ttcp with the real binary, against an independent peer (`peers/ttcp.py`) and against nuttcp
//! where it is there.

use crate::support::files::Scratch;
use crate::support::net::has_ipv6;
use crate::support::peer::{peer, python};
use crate::support::{BIN, Done, Outcome, Proc, netcaliper, number, serve, skip};
use serde_json::Value;
use std::process::Command;

const PEER: &str = "ttcp.py";
const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/terminal.py");

fn receiver(words: &str) -> (Proc, String) {
    let proc = netcaliper("ttcp").args(words).spawn();
    let line = proc.hears(", port=");
    let port = line.rsplit_once("port=").unwrap().1.to_owned();
    (proc, port)
}

/// The line with the result, apart: name, bytes, seconds, rate, unit.
fn result(done: &Done) -> (String, u64, f64, f64, String) {
    let line = done.out.lines().find(|l| l.ends_with(" +++")).unwrap_or_else(|| panic!("{}", done.tell()));
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!([2, 3, 5, 6, 7].map(|n| words[n]), ["bytes", "in", "real", "seconds", "="], "{line}");
    let number = |n: usize| words[n].parse::<f64>().unwrap();
    (words[0].to_owned(), words[1].parse().unwrap(), number(4), number(8), words[9].to_owned())
}

#[test]
fn teldat_s_words_send_to_a_classic_receiver_byte_by_byte() {
    let Some(remote) = peer(PEER, "ttcp", "receive tcp 0 1000") else { return };
    let port = remote.port();
    let done =
        netcaliper("ttcp").args(&format!("tx 127.0.0.1 port {port} nsrbc 333 blen 1000 perc")).run().exits(0);
    let heard = remote.ended();
    assert_eq!((heard["bytes"].as_u64(), heard["same"].as_bool()), (Some(333_000), Some(true)));
    let (name, bytes, seconds, rate, unit) = result(&done);
    assert_eq!((name.as_str(), bytes), ("ttcp-tx:", 333_000));
    // Bits of 10^6, from seconds of six digits.
    let factor = match unit.as_str() {
        "Mbit/sec" => 1e6,
        "Kbit/sec" => 1e3,
        other => panic!("{other}"),
    };
    let want = 333_000.0 * 8.0 / seconds / factor;
    assert!((rate - want).abs() <= want * 0.6e-6 / seconds + 0.001, "{rate} {want}");
    let done = done.prints(&["# Completed... 100% #", "ttcp-tx: 333 I/O calls, "]);
    assert!(done.out.ends_with("ttcp done.\n\n--- TTCP finished ---\n\n"), "{}", done.tell());
}

#[test]
fn a_classic_sender_is_counted_in_full_blocks() {
    let (ours, port) = receiver("rx port 0 blen 512");
    let Some(remote) = peer(PEER, "ttcp", &format!("send tcp {port} 700 1000")) else { return };
    remote.ended();
    let done = ours.wait().exits(0);
    let (name, bytes, ..) = result(&done);
    assert_eq!((name.as_str(), bytes), ("ttcp-rx:", 700_000));
    // 700,000 / 512 = 1367.2
    done.prints(&["ttcp-rx: 1368 I/O calls, ", "ttcp-rx: accept from 127.0.0.1\n"]);
}

#[test]
fn the_classic_letters_have_the_classic_report() {
    let (ours, port) = receiver("-r -s -l4096 -p 0 -f m");
    let done = netcaliper("ttcp").args(&format!("-t -s -n100 -l 4096 -p{port} -fm 127.0.0.1")).run().exits(0);
    let (name, bytes, _, _, unit) = result(&done);
    assert_eq!((name.as_str(), bytes, unit.as_str()), ("ttcp-t:", 409_600, "Mbit/sec"));
    done.complains(&["ttcp-t: connect"]);
    let done = ours.wait().exits(0);
    let (name, bytes, ..) = result(&done);
    assert_eq!((name.as_str(), bytes), ("ttcp-r:", 409_600));
    done.prints(&["maxrss ", "# tcp #"]).complains(&["ttcp-r: accept from 127.0.0.1"]);
}

#[test]
fn a_timed_transmission_ends_and_random_data_is_the_same_for_a_seed() {
    let (ours, port) = receiver("rx port 0");
    let words = format!("tx 127.0.0.1 port {port} time 1 random iRNG 7 rlimit 8000");
    let done = netcaliper("ttcp").args(&words).run().exits(0);
    let (_, sent, seconds, ..) = result(&done);
    let got = result(&ours.wait().exits(0)).1;
    assert_eq!((sent, sent % 8192), (got, 0));
    never_faster(sent, seconds);
}

/// A megabyte a second, a tenth of a second that is made up for, and a buffer: however late the
/// clock is looked at.
fn never_faster(sent: u64, seconds: f64) {
    assert!(sent > 0 && sent as f64 <= 1e6 * seconds + 1e5 + 8_192.0, "{sent} in {seconds}");
}

#[test]
fn what_hangs_the_original_ends() {
    // No transmitter connects.
    let done = netcaliper("ttcp").args("rx port 0 timeout 300").run().exits(1);
    done.prints(&["ttcp done."]).complains(&["no transmitter arrived within 300 ms"]);
    // A client connects and sends nothing.
    let (ours, port) = receiver("rx port 0 timeout 300");
    let silent = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    ours.wait().exits(1).complains(&["nothing arrived any more after 0 bytes"]);
    drop(silent);
    // No receiver.
    netcaliper("ttcp").args("tx 127.0.0.1 port 1").run().exits(1).complains(&["Connection refused"]);
}

#[test]
fn datagrams_have_the_markers_of_either_kind() {
    // Data and the number of its markers; the peer counts a start, the data, and one end.
    for (words, starts, behind) in [("", 1, 4), ("--epi", 4, 0)] {
        let Some(remote) = peer(PEER, "ttcp", "receive udp 0") else { return };
        let port = remote.port();
        let words = format!("-t -u -s -n 50 -l 600 -c 20000 -p {port} {words} 127.0.0.1");
        let done = netcaliper("ttcp").args(&words).run().exits(0);
        let heard = remote.ended();
        assert_eq!(heard["bytes"].as_u64(), Some(30_000), "{heard}");
        let kinds = heard["kinds"].as_array().unwrap();
        if behind > 0 {
            let markers_behind = heard["behind"].as_array().unwrap().len();
            assert_eq!((kinds.len(), markers_behind), (starts + 1, behind), "{heard}");
        } else {
            assert_eq!((kinds.len(), heard["told"].as_u64()), (starts, Some(50)), "{heard}");
        }
        let (name, bytes, ..) = result(&done);
        assert_eq!((name.as_str(), bytes), ("ttcp-t:", 30_000));
        done.prints(&[&format!("ttcp-t: {} I/O calls", 50 + starts + behind.max(3) + 1)]);
    }
}

#[test]
fn datagrams_of_either_kind_are_received() {
    // epi_ttcp's sender with two buffers left out, the classic one, one whose start is lost, one
    // whose ends are.
    let cases = [
        // The time-out bounds the wait for the first datagram, too; the receiver that hears no end
        // waits for it.
        ("send udp {} 600 50 mute", 30_000, 51),
        ("send epi {} 600 50 skip7 skip9", 48 * 600, 48 + 4 + 1),
        ("send udp {} 600 50", 30_000, 52),
        ("send udp {} 600 50 headless", 30_000, 51),
    ];
    let timeout = |how: &str| if how.contains("mute") { 5_000 } else { 20_000 };
    let ours = cases.map(|(how, ..)| receiver(&format!("rx -u port 0 timeout {}", timeout(how))));
    let words: Vec<String> =
        cases.iter().zip(&ours).map(|((how, ..), (_, port))| how.replace("{}", port)).collect();
    let Some(remote) = peer(PEER, "ttcp", &words.join(" / ")) else { return };
    remote.ended();
    for ((how, bytes, calls), (ours, _)) in cases.into_iter().zip(ours) {
        let done = ours.wait().exits(0).prints(&[&format!("ttcp-rx: {calls} I/O calls, ")]);
        assert_eq!(result(&done).1, bytes, "{how}: {}", done.tell());
        assert_eq!(done.err.contains("no end arrived from"), how.contains("mute"), "{how}: {}", done.tell());
        if how.contains("epi") {
            // 2 of 50.
            let lost = "ttcp-rx: 4.000% (2/50) packet loss\n";
            done.prints(&["ttcp-rx: packets 48 data, 4 start, 1 end\n", lost]);
        }
    }
}

#[test]
fn a_timed_test_over_datagrams_ends_with_its_markers() {
    let (ours, port) = receiver("rx -u port 0");
    let words = format!("tx 127.0.0.1 -u port {port} time 1 rlimit 8000 --epi");
    let done = netcaliper("ttcp").args(&words).run().exits(0);
    let there = ours.wait().exits(0);
    let ((_, sent, seconds, ..), got) = (result(&done), result(&there).1);
    assert!(there.out.contains("packet loss") && got <= sent && sent % 8192 == 0, "{}", there.tell());
    never_faster(sent, seconds);
    let done = netcaliper("ttcp").args("tx 127.0.0.1 -u port 1").run().exits(1).complains(&["refused"]);
    assert!(!done.out.contains("real seconds"), "nothing was measured: {}", done.tell());
}

/// Without an option for either family, as `serve --legacy ttcp`.
#[test]
fn a_receiver_listens_on_both_families() {
    let hosts = if has_ipv6() { vec!["127.0.0.1", "::1"] } else { vec!["127.0.0.1"] };
    for host in hosts {
        for (how, receive, send) in [
            ("tcp", "-r -s -p 0", "-t -s -n 20 -l 1000 -p"),
            ("udp", "-r -s -u -p 0", "-t -s -u -n 20 -l 1000 -c 1000 -p"),
        ] {
            let (ours, port) = receiver(receive);
            netcaliper("ttcp").args(&format!("{send} {port} {host}")).run().exits(0);
            assert_eq!(result(&ours.wait().exits(0)).1, 20_000, "{host} {how}");
        }
        let (ours, port) = receiver("rx port 0");
        netcaliper("ttcp").args(&format!("tx {host} port {port} nsrcb 10")).run().exits(0);
        assert_eq!(result(&ours.wait().exits(0)).1, 81_920, "{host}");
    }
}

#[test]
fn a_number_of_bytes_is_the_transfer_of_the_only_connection() {
    let Some(remote) = peer(PEER, "ttcp", "receive tcp 0 1000") else { return };
    let words = format!("127.0.0.1 --protocol ttcp -p {} -n 1000001 -J", remote.port());
    let outcome = Outcome::of(netcaliper("tcp").args(&words).run()).exits(0);
    assert_eq!(outcome.local()["traffic"]["tx_bytes"], 1_000_001, "{}", outcome.tell());
    assert_eq!(remote.ended()["bytes"], 1_000_001);
    let refused = netcaliper("tcp").args("127.0.0.1 --protocol ttcp -n 1M -P 2").run().exits(2);
    refused.complains(&["cannot share a number of bytes among connections"]);
}

/// What the program shows on a terminal where these words are waited for and answered, and what is
/// left of the terminal.
fn on_terminal(test: &str, script: &[&str], words: &str) -> Option<(String, Value)> {
    let Some(mut command) = python() else {
        skip(test, "python3 is not there");
        return None;
    };
    command.arg(TERMINAL).args(script).args(["--", BIN, "ttcp"]).args(words.split_whitespace());
    let done = Proc::spawn(&mut command).wait().exits(0);
    let (shown, last) = done.out.trim_end().rsplit_once('\n').unwrap();
    Some((shown.to_owned(), serde_json::from_str(last).unwrap()))
}

#[test]
fn any_key_aborts_and_the_terminal_is_as_it_was() {
    for key in ["x", "^C"] {
        let script = ["# tcp receiver #", key];
        let Some((shown, left)) = on_terminal("any_key_aborts", &script, "rx port 0") else { return };
        assert!(shown.contains("--- TTCP finished ---"), "{shown}");
        assert_eq!((&left["code"], &left["restored"]), (&Value::from(130), &Value::from(true)), "{shown}");
    }
}

#[test]
fn a_bare_command_asks_for_what_is_missing() {
    let Some(remote) = peer(PEER, "ttcp", "receive tcp 0 1000") else { return };
    let port = format!("{}\\n", remote.port());
    let script = [
        ["(tx, rx)", "tx\\n"],
        ["Address", "127.0.0.1\\n"],
        ["Number of source", "20\\n"],
        ["Length", "1000\\n"],
        ["Port number", &port],
        ["Time without", "\\n"],
        ["More statistics", "\\n"],
        ["Print a #", "yes\\n"],
        ["Socket buffer", "\\n"],
        ["burst", "\\n"],
        ["Random", "\\n"],
        ["Unit", "\\n"],
        ["Rate limit", "\\n"],
        ["progress", "\\n"],
        ["Maximum segment", "\\n"],
        ["Time to send", "\\n"],
    ];
    let Some((shown, left)) = on_terminal("a_bare_command_asks", &script.concat(), "") else { return };
    assert_eq!(left["code"], 0, "{shown}");
    assert!(shown.contains("ttcp-tx: 20000 bytes in ") && shown.contains(&"#".repeat(20)), "{shown}");
    assert_eq!(remote.ended()["bytes"], 20_000);
    // No terminal for the questions: the usage.
    netcaliper("ttcp").run().exits(2).prints(&["ask for the options"]);
}

#[test]
fn bad_words_are_named() {
    for (words, why) in [
        ("tx", "tx needs the address"),
        ("rx nonsense", "'nonsense' is not an option"),
        ("rx port", "port needs a value"),
        ("rx port 70000", "whole number from 0 to 65535"),
        ("-t -s", "-t needs the host"),
        ("-l 5", "either sends (-t) or receives (-r)"),
        ("send it", "neither tx, nor rx"),
        ("tx h frate q", "takes b (or v), k, m or g"),
        // What is `tx` now.
        ("tx h -t 1", "'-t' is not an option"),
    ] {
        netcaliper("ttcp").args(words).run().exits(2).complains(&[why]);
    }
    netcaliper("ttcp").args("-h").run().exits(2).prints(&["nsrcb"]);
    // As on Teldat's console, where neither is an error.
    for (words, list) in [
        ("?", "tx  client\nrx  server\n<cr>  ask for epittcp options\n"),
        ("tx ?", "<a.b.c.d> destination host: IP address\n"),
    ] {
        assert_eq!(netcaliper("ttcp").args(words).run().exits(0).out, list);
    }
    let next =
        |words: &str| netcaliper("ttcp").args(words).run().exits(0).prints(&["blen  ", "sbsize  "]).out;
    assert!(next("tx 192.0.2.1 ?").contains("rlimit  ") && !next("rx ?").contains("rlimit"));
}

#[test]
fn the_native_verb_and_the_server_speak_it_too() {
    let Some(remote) = peer(PEER, "ttcp", "receive tcp 0 262144") else { return };
    let port = remote.port();
    let words = format!("127.0.0.1 --protocol ttcp -p {port} --transfer 8Mi -J");
    let outcome = Outcome::of(netcaliper("tcp").args(&words).run()).exits(0);
    assert_eq!(outcome.local()["traffic"]["tx_bytes"], 8 << 20);
    let heard = remote.ended();
    assert_eq!((heard["bytes"].as_u64(), heard["same"].as_bool()), (Some(8 << 20), Some(true)));
    let Some(remote) = peer(PEER, "ttcp", "receive udp 0") else { return };
    let words = format!("127.0.0.1 --protocol ttcp -p {} -t 1s -b 1M -l 500", remote.port());
    let scratch = Scratch::new();
    let saved = scratch.file("run.jsonl");
    let told = netcaliper("delay").args(&words).arg("--save").arg(&saved).run().exits(0);
    let outcome = Outcome::of(netcaliper("report").arg(&saved).arg("--json").run());
    let local = outcome.local();
    // A busy host ends the sender late, and the datagrams until then count as sent.
    let sent = number(&local["packets"]["counts"]["sent"]);
    assert!(sent > 0 && remote.ended()["bytes"] == sent * 500, "{}", outcome.tell());
    // A megabit a second, and one datagram. A sender that a busy host starts late makes up for 100
    // ms at most.
    let traffic = &local["traffic"];
    let most = (number(&traffic["tx_ns"]) + 100_000_000) / 8_000 + 500;
    assert!((1..=most).contains(&number(&traffic["tx_bytes"])), "{traffic}");
    assert!(told.out.contains("unconfirmed:") && !told.out.contains("one by one"), "{}", told.tell());
    let server = serve("--legacy ttcp:0");
    let port = server.proc.port_of("ttcp");
    // The same port receives datagrams, once the test before is over: few enough for the receive
    // buffer of a server that a busy host wakes late.
    for (how, length, told) in [("tcp", "1000 77", "77000"), ("udp", "100 20", "2000")] {
        let Some(remote) = peer(PEER, "ttcp", &format!("send {how} {port} {length}")) else { return };
        remote.ended();
        server.proc.hears(&format!("ttcp: {told} bytes from "));
    }
}

#[test]
fn nuttcp_s_classic_mode_is_understood() {
    if Command::new("nuttcp").arg("-V").output().is_err() {
        return skip("nuttcp_s_classic_mode_is_understood", "nuttcp is not there");
    }
    let (ours, port) = receiver("rx port 0");
    // Without a server of its own behind the control port it falls back to the classic mode.
    let mut command = Command::new("nuttcp");
    let control = crate::support::net::free_port();
    command.args(["-t", &format!("-P{control}"), &format!("-p{port}"), "-n32", "127.0.0.1"]);
    Proc::spawn(&mut command).wait();
    // 32 buffers of 64 KiB.
    assert_eq!(result(&ours.wait().exits(0)).1, 32 << 16);
}
