//! Options of iperf3 that do something on this host: files, lines' beginnings, the background,
//! cores, pacing, multipath TCP.

use crate::support::files::Scratch;
use crate::support::iperf3;
use crate::support::net::a_core;
use crate::support::{Done, Line, Proc, eventually, netcaliper, number, skip, whole};
use std::fs;
use std::process::Command;

fn with(line: Line, words: &[&str]) -> Line {
    words.iter().fold(line, |line, word| line.arg(word))
}

fn server(words: &[&str]) -> (Proc, String) {
    iperf3::ours(|line| with(line, words))
}

fn client(port: &str, words: &[&str]) -> Done {
    with(netcaliper("iperf3").args("-c 127.0.0.1 -p").arg(port), words).run()
}

/// Bytes that do not repeat in a short while: 300 000 of them, which are no whole blocks.
fn content() -> Vec<u8> {
    (0..75_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

#[test]
fn a_file_goes_there_and_back_unchanged() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.file("from"), scratch.file("to"));
    fs::write(&from, content()).unwrap();
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());

    let (_server, port) = server(&["-F", to]);
    let done = client(&port, &["-F", from, "-l", "64K", "-J"]).exits(0);
    assert_eq!(fs::read(to).unwrap(), content());
    let document = done.json();
    assert_eq!(number(&document["end"]["sum_received"]["bytes"]), 300_000);
    let told = &document["end"]["streams"][0]["diskfile"];
    assert!(told["sent"] == 300_000 && told["size"] == 300_000 && told["percent_sent"] == 100, "{told}");
    assert_eq!(told["filename"], from);

    fs::remove_file(to).unwrap();
    let (_server, port) = server(&["-F", from]);
    let done = client(&port, &["-F", to, "-R", "-n", "300000"]).exits(0);
    assert_eq!(fs::read(to).unwrap(), content());
    assert!(done.out.contains("293 KBytes (100%) of "), "{}", done.tell());

    for (words, why) in [
        (&["-F", "/nowhere/x"][..], "/nowhere/x"),
        (&["-F", to, "-u"], "UDP"),
        (&["-F", "/dev/null"], "empty"),
    ] {
        let done = client(&port, words);
        assert!(done.code == Some(1) && done.err.contains(why), "{}", done.tell());
    }
}

#[test]
fn a_file_and_the_real_program() {
    if iperf3::missing("a_file_and_the_real_program") {
        return;
    }
    let scratch = Scratch::new();
    let (from, to) = (scratch.file("from"), scratch.file("to"));
    fs::write(&from, content()).unwrap();
    let (_server, port) = server(&["-F", to.to_str().unwrap()]);
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-p", &port, "-l", "1000", "-F", from.to_str().unwrap()]);
    Proc::spawn(&mut command).wait().exits(0);
    // Which part of the last block it sends differs between versions; what came is what it sent.
    let came = fs::read(&to).unwrap();
    assert!(!came.is_empty() && content().starts_with(&came), "{} bytes", came.len());
}

#[test]
fn lines_begin_with_the_time_and_the_title() {
    let (_server, port) = server(&[]);
    let words = ["-n", "64K", "-l", "8K", "-T", "name", "--timestamps=%Y|"];
    let done = client(&port, &words).exits(0);
    let marked = |line: &str| line.get(4..).is_some_and(|rest| rest.starts_with("|name:  "));
    assert!(done.out.lines().count() > 4 && done.out.lines().all(marked), "{}", done.tell());
    let (server, _) = server(&["--timestamps=at "]);
    let out = server.out();
    assert!(whole(&out).lines().all(|line| line.starts_with("at ")), "{out}");
}

#[test]
fn an_option_that_the_kernel_refuses_is_named() {
    let (_server, port) = server(&[]);
    for (words, why) in [
        (&["-C", "nosuch"][..], "-C nosuch: the system does not offer the congestion control 'nosuch'"),
        (&["-M", "20"], "-M 20: "),
    ] {
        let done = client(&port, words);
        assert!(done.code == Some(1) && done.err.contains(why), "{}", done.tell());
        let done = client(&port, &[words, &["-J"]].concat());
        let error = done.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(done.code == Some(1) && error.contains(why), "{}", done.tell());
    }
}

#[test]
fn a_server_in_the_background() {
    if !cfg!(target_os = "linux") {
        return skip("a_server_in_the_background", "only Linux has it");
    }
    let scratch = Scratch::new();
    let (pid, log) = (scratch.file("pid"), scratch.file("log"));
    let (pid, log) = (pid.to_str().unwrap(), log.to_str().unwrap());
    let server = || netcaliper("iperf3").args("-s -p 0 --pidfile").arg(pid);
    server().args("-D --logfile").arg(log).run().exits(0);
    let said = || fs::read_to_string(log).unwrap_or_default();
    let line =
        || whole(&said()).lines().find(|line| line.contains("Server listening on ")).map(str::to_owned);
    eventually("it listens", || line().is_some());
    let line = line().unwrap();
    let port = line.split_whitespace().nth(3).unwrap();
    let process = fs::read_to_string(pid).unwrap().trim().to_owned();
    client(port, &["-n", "64K"]).exits(0);
    // A second one with the same file is refused, and leaves it alone.
    server().run().exits(1).complains(&["is running"]);
    assert!(Command::new("kill").arg(&process).status().unwrap().success());
    eventually("its pid file is gone", || !std::path::Path::new(pid).exists());
    assert!(fs::read_to_string(log).unwrap().contains("Accepted connection from 127.0.0.1"));
}

#[test]
fn a_server_that_nobody_needs() {
    netcaliper("iperf3").args("-s -p 0 -1 --idle-timeout 1").run().exits(0);
    let (server, _) = server(&["--idle-timeout", "1"]);
    eventually("it says so", || server.err().contains("--idle-timeout without -1 changes nothing"));
}

#[test]
fn cores_timeouts_and_pacing() {
    let core = a_core();
    let (server, port) = server(&["-A", &core, "--snd-timeout", "5000"]);
    let both = |remote: &str| format!("{core}{remote}");
    let words = ["-n", "64K", "-A", &both(&format!(",{core}")), "--snd-timeout", "5000", "--cntl-ka=20"];
    client(&port, &words).exits(0);
    client(&port, &["-n", "64K", "-A", &both("/0")]).exits(0);
    assert!(!server.err().contains("asked for core"), "{}", server.err());
    client(&port, &["-n", "64K", "-A", &both(",1000")]).exits(0);
    server.hears("asked for core 1000");
    // The kernel lets no more out; what is measured besides is how much its buffers held at first.
    if cfg!(target_os = "linux") {
        let done = client(&port, &["-n", "4M", "--fq-rate", "16M", "-J", "-w", "64K"]).exits(0);
        let sum = &done.json()["end"]["sum_received"];
        assert!(sum["bits_per_second"].as_f64().unwrap() < 32e6, "{sum}");
    }
}

/// How many multipath connections this host was asked for.
fn multipath() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("MPTcpExt:"));
    let at = lines.next()?.split_whitespace().position(|name| name == "MPCapableSYNACKRX")?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

#[test]
fn multipath_tcp_where_the_kernel_has_it() {
    let on = fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|text| text.trim() == "1");
    let Some(before) = multipath().filter(|_| on) else {
        return skip("multipath_tcp_where_the_kernel_has_it", "this kernel has no multipath TCP");
    };
    let (_server, port) = server(&[]);
    let done = client(&port, &["-m", "-n", "1M", "-P", "2", "-J"]).exits(0);
    assert!(number(&done.json()["end"]["sum_received"]["bytes"]) > 0);
    assert!(multipath() >= Some(before + 2), "{before}: the data connections were plain TCP");
    // Plain TCP is served by the same listener.
    client(&port, &["-n", "64K"]).exits(0);
}
