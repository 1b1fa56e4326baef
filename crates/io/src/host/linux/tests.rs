//! This machine, compared with what its own tools say of it.

use super::*;
use crate::host::{Reading, difference};
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a command prints; `None`, said aloud, where there is no such command.
fn say(command: &str, args: &[&str]) -> Option<String> {
    match Command::new(command).args(args).output() {
        Ok(out) if out.status.success() => Some(String::from_utf8_lossy(&out.stdout).trim().to_owned()),
        other => {
            println!("skipped: nothing to compare with, {command} gave {other:?}");
            None
        }
    }
}

fn agrees(ours: &str, command: &str, args: &[&str]) {
    if let Some(theirs) = say(command, args) {
        assert_eq!(ours, theirs, "{command} {args:?}");
    }
}

#[test]
fn the_snapshot_agrees_with_the_systems_tools() {
    let _starts = crate::testing::starts();
    let host = snapshot(None);
    agrees(&host.kernel, "uname", &["-sr"]);
    agrees(&host.name, "uname", &["-n"]);
    agrees(&host.cpus.to_string(), "nproc", &[]);
    agrees(&host.congestion, "sysctl", &["-n", "net.ipv4.tcp_congestion_control"]);
    assert_eq!(host.nic, None);
    if let Some(pages) = say("getconf", &["_PHYS_PAGES"]) {
        let page = say("getconf", &["PAGESIZE"]).and_then(|n| n.parse::<u64>().ok()).unwrap();
        assert_eq!(host.memory, pages.parse::<u64>().unwrap() * page);
    }
    for (name, value) in &host.sysctl {
        let theirs = say("sysctl", &["-n", name]).map(|text| text.replace('\t', " "));
        assert_eq!(theirs.as_ref().unwrap_or(value), value, "{name}");
    }
    assert!(host.sysctl.contains_key("net.ipv4.tcp_rmem"), "{:?}", host.sysctl);
    assert!(!host.cpu.is_empty());
}

#[test]
fn a_reading_is_cheap() {
    let cost = |_| {
        let start = Instant::now();
        let _reading = Reading::now();
        start.elapsed()
    };
    let best = (0..20).map(cost).min().unwrap();
    println!("a reading takes {best:?}");
    // Some tenths of a millisecond where nothing else runs; it would be in every interval.
    assert!(best < Duration::from_millis(100), "{best:?}");
}

#[test]
fn busy_threads_are_seen_in_both_accounts() {
    let before = Reading::now();
    let start = Instant::now();
    let mut sum = 0_u64;
    // Others share the machine: until this process had 0.3 s of it, whenever that is.
    let usage = loop {
        let round = Instant::now();
        while round.elapsed() < Duration::from_millis(300) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let (usage, _) = difference(&before, &Reading::now());
        if usage.user_s + usage.system_s >= 0.3 {
            break usage;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{usage:?}");
    };
    // The machine's time is told in hundredths of a second, and perhaps sampled.
    assert!(usage.machine_s + usage.steal_s > 0.1, "{usage:?}");
    assert!(usage.busiest > 0.0 && usage.busiest <= 1.0, "{usage:?}");
    assert!(usage.available_s >= 0.3, "{usage:?}");
}

#[test]
fn datagrams_dropped_at_a_full_socket_are_counted() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let small = socket2::SockRef::from(&receiver).set_recv_buffer_size(4096);
    assert!(small.is_ok());
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before = Reading::now();
    for _ in 0..200 {
        sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
    }
    receiver.set_nonblocking(true).unwrap();
    let (start, mut taken) = (Instant::now(), 0);
    // On a loaded machine the loopback delivers a moment later.
    loop {
        let (_, usage) = difference(&before, &Reading::now());
        let dropped = usage.moved.get("Udp.RcvbufErrors").copied().unwrap_or(0);
        taken += std::iter::from_fn(|| receiver.recv(&mut [0; 1000]).ok()).count() as u64;
        if dropped > 0 && dropped >= 200 - taken {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{taken} taken, {usage:?}");
    }
    assert!(taken < 200, "{taken} taken");
}

/// A thread that moved to another network namespace sees that one, not the process's.
#[test]
fn a_thread_sees_its_own_network() {
    let names = || -> Vec<String> {
        counters().into_keys().filter_map(|n| n.strip_suffix(".rx_dropped").map(str::to_owned)).collect()
    };
    let outside: Vec<IpAddr> =
        sys::addresses().iter().filter_map(|a| a.ip).filter(|ip| !ip.is_loopback()).collect();
    let all = names();
    let apart = move || {
        crate::sys::space::leave_network()?;
        let nics: Vec<_> = outside.into_iter().filter_map(|ip| snapshot(Some(ip)).nic).collect();
        Ok::<_, std::io::Error>((names(), nics))
    };
    match std::thread::spawn(apart).join().unwrap() {
        Ok((names, nics)) => {
            assert!(names.contains(&"lo".to_owned()), "{names:?}");
            assert!(names.len() <= all.len(), "{names:?} of {all:?}");
            assert!(!names.contains(&"eth0".to_owned()), "{names:?}");
            assert_eq!(nics, vec![], "addresses of the other namespace");
        }
        Err(e) => println!("skipped: no right to make a network namespace: {e}"),
    }
}

#[test]
fn memory_is_read_in_bytes() {
    // /proc/meminfo of the test machine.
    assert_eq!(memory("MemTotal:       24684092 kB\nMemFree:        24007820 kB\n"), Some(24_684_092 * 1024));
    for text in ["", "MemTotal:", "MemTotal: kB", "MemTotal: 5 MB", "MemFree: 1 kB"] {
        assert_eq!(memory(text), None, "{text:?}");
    }
}
