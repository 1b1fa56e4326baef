//! Real packets between the namespaces of a lab: what applications see is what the truth says,
//! packet by packet.
//!
//! Counts are compared exactly. Times are compared in one direction only, because a busy machine
//! makes everything late: nothing is earlier than asked, and the applications' own stamps enclose
//! the lab's.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may"
)]

use io::Clock;
use lab::{Class, Counts, Lab, LabError, LabResult, Path, Setup, Side, Trace, TraceRow, Verdict, Way};
use metrics::Mono;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// Longer than anything here takes, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams that a receiving socket holds with the smallest buffer that systems are set to, with
/// room to spare.
const BATCH: u64 = 100;
/// Bytes of a datagram: its number, its sending time, and a pattern.
const SIZE: usize = 200;

/// Reports that the test could not run, to `./test`, which counts skips, and to stderr.
fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: path::{}: {reason}", thread.name().unwrap_or("a test"));
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("NETCALIPER_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// A lab with these conditions up and down, or none and a line that says why.
fn lab(up: &str, down: &str) -> Option<Lab> {
    let path = |text: &str| {
        let mut path = Path::default();
        path.set_all(text).unwrap();
        path
    };
    let setup =
        Setup { up: path(up), down: path(down), seed: 7411, trace: Trace::Keep(100_000), ..Setup::default() };
    match Lab::new(setup) {
        Ok(lab) => Some(lab),
        Err(error @ (LabError::Denied | LabError::NoTun)) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn address(side: Side, v6: bool) -> IpAddr {
    if v6 { side.ipv6().into() } else { side.ipv4().into() }
}

/// A datagram as it was received, and when.
#[derive(Clone, Debug)]
struct Got {
    at: Mono,
    bytes: Vec<u8>,
}

impl Got {
    fn number(&self) -> u64 {
        u64::from_be_bytes(self.bytes[..8].try_into().unwrap())
    }
}

/// What datagram `number` is made of, but for its sending time.
fn datagram(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((0..SIZE - 8).map(|i| (i as u64 * 31 + number) as u8));
    bytes
}

/// Sends datagrams from client to server in batches that fit into the receiver's buffer; when each
/// was sent, and what arrived.
fn send(lab: &Lab, v6: bool, n: u64) -> (Vec<Mono>, Vec<Got>) {
    let clock = Clock::new();
    let bind = |side| lab.within(side, || UdpSocket::bind(SocketAddr::new(address(side, v6), 0))).unwrap();
    let (client, server) = (bind(Side::Client), bind(Side::Server));
    server.set_nonblocking(true).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    for number in 0..n {
        sent.push(clock.now());
        client.send(&datagram(number)).unwrap();
        if number % BATCH == BATCH - 1 || number == n - 1 {
            assert!(lab.settle(PATIENCE), "packets are still on their way");
            let mut bytes = [0; 2000];
            loop {
                match server.recv(&mut bytes) {
                    Ok(n) => got.push(Got { at: clock.now(), bytes: bytes[..n].to_vec() }),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => panic!("{e}"),
                }
            }
        }
    }
    (sent, got)
}

/// The sum that every packet is in once.
fn adds_up(c: &Counts) {
    let lost = c.lost_random + c.lost_burst + c.lost_outage + c.dropped_queue + c.too_big;
    assert_eq!(c.arrived, c.delivered + lost + c.expired + c.overrun + c.refused + c.unfinished, "{c:?}");
    assert_eq!(c.left, c.delivered + c.copies, "{c:?}");
}

fn rows(ended: &LabResult, way: Way) -> Vec<&TraceRow> {
    ended.rows.iter().filter(|row| row.way == way).collect()
}

#[test]
fn a_clean_path_is_clean() {
    for v6 in [false, true] {
        if v6 && !std::path::Path::new("/proc/net/if_inet6").exists() {
            return skip("this system has no IPv6");
        }
        let Some(lab) = lab("delay=3ms", "") else { return };
        let (sent, got) = send(&lab, v6, 300);
        let ended = lab.finish().unwrap();
        assert_eq!(got.iter().map(Got::number).collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
        assert!((0..).zip(&got).all(|(i, got)| got.bytes == datagram(i)));
        let up = &ended.truth.up;
        assert_eq!((up.counts.arrived, up.counts.delivered, up.counts.lost()), (300, 300, 0));
        let header = if v6 { 48 } else { 28 };
        assert_eq!(up.counts.arrived_bytes, 300 * (SIZE as u64 + header));
        assert_eq!((up.device, up.counts.longest_loss), (lab::Device::default(), 0));
        assert_eq!((up.reordering.packets, up.reordering.reordered), (300, 0));
        assert_eq!(ended.truth.down.counts, Counts::default());
        adds_up(&up.counts);
        // One flow, which is all there is.
        assert_eq!((up.flows.len(), &up.flows[0].counts), (1, &up.counts));
        assert_eq!(up.flows[0].protocol, "udp");
        // The stamps of both ends enclose the lab's, and nothing leaves before its time.
        let rows = rows(&ended, Way::Up);
        assert_eq!(rows.len(), 300);
        for ((row, sent), got) in rows.iter().zip(&sent).zip(&got) {
            let left = row.left.unwrap();
            assert!(*sent <= row.arrived && row.due == row.arrived.plus(3_000_000), "{row:?}");
            assert!(row.due <= left && left <= got.at, "{row:?}");
            assert_eq!(row.delay_ns(), Some(left.since(row.arrived)));
        }
        let delay = up.delay_ns.as_ref().unwrap();
        assert!(delay.count == 300 && delay.min >= 2_997_000, "3 ms, to three digits: {delay:?}");
    }
}

#[test]
fn every_loss_copy_and_damage_is_in_the_truth() {
    let conditions = "delay=1ms,loss=2%,burst-loss=1%:30%,duplicate=3%:2,corrupt=4%:3,reorder=3%:2ms,dscp=ef";
    for v6 in [false, true] {
        let Some(lab) = lab(conditions, "") else { return };
        let (_, got) = send(&lab, v6, 3000);
        let ended = lab.finish().unwrap();
        let c = &ended.truth.up.counts;
        adds_up(c);
        assert_eq!((c.arrived, got.len() as u64, c.left), (3000, c.left, got.len() as u64));
        for n in [c.lost_random, c.lost_burst, c.copies, c.corrupted, c.held_back] {
            assert!(n > 20, "too few to show anything: {c:?}");
        }
        // Packet by packet: what arrived is what left, in that order, with as many bits flipped.
        // Corruption may hit the number itself, so the rows say which packet it was.
        let mut left: Vec<&TraceRow> = rows(&ended, Way::Up);
        left.retain(|row| row.class == Class::Left);
        assert_eq!(left.len(), got.len());
        for (row, got) in left.iter().zip(&got) {
            let sent = datagram(row.flow_index);
            let differ: u32 = sent.iter().zip(&got.bytes).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!((got.bytes.len(), differ), (SIZE, u32::from(row.flipped)), "{row:?}");
            assert_eq!((row.tos_in, row.tos_out), (0, 46 << 2));
        }
        // Copies of the others are left out for what RFC 4737 counts: first arrivals, in the slow
        // way.
        let firsts: Vec<u64> = left.iter().filter(|r| r.copy == 0).map(|r| r.index).collect();
        let mut last = 0;
        let late = |&&first: &&u64| {
            last = last.max(first);
            last > first
        };
        let reordered = firsts.iter().filter(late).count() as u64;
        assert_eq!(ended.truth.up.reordering.reordered, reordered);
        assert!(reordered > 20);
        // Runs of loss, from what the receiver never saw.
        let seen: std::collections::BTreeSet<u64> = firsts.iter().copied().collect();
        let lost: String = (0..3000).map(|i| if seen.contains(&i) { ' ' } else { 'x' }).collect();
        let longest = lost.split(' ').map(str::len).max().unwrap() as u64;
        let runs = lost.split(' ').filter(|run| !run.is_empty()).count() as u64;
        assert_eq!((c.longest_loss, c.loss_runs, c.lost()), (longest, runs, 3000 - seen.len() as u64));
    }
}

#[test]
fn damage_on_the_wire_is_loss_to_the_application() {
    for v6 in [false, true] {
        let Some(lab) = lab("corrupt=10%:1:wire", "") else { return };
        let (_, got) = send(&lab, v6, 1000);
        let ended = lab.finish().unwrap();
        let c = &ended.truth.up.counts;
        assert!(c.damaged > 50 && c.corrupted == 0, "{c:?}");
        assert_eq!((c.delivered, got.len() as u64), (1000, 1000 - c.damaged));
        assert!(got.iter().all(|got| got.bytes == datagram(got.number())));
        assert_eq!(c.lost(), c.damaged);
    }
}

#[test]
fn a_packet_is_overtaken_by_as_many_as_asked() {
    let Some(lab) = lab("reorder=5%:3", "") else { return };
    // One batch: what is still held at its end waits for its time to be up.
    let (_, got) = send(&lab, false, BATCH);
    let ended = lab.finish().unwrap();
    let left: Vec<u64> =
        rows(&ended, Way::Up).iter().filter(|r| r.class == Class::Left).map(|r| r.index).collect();
    assert_eq!(got.iter().map(Got::number).collect::<Vec<_>>(), left);
    assert_eq!(left.len() as u64, BATCH);
    let order = &ended.truth.up.reordering;
    assert!(order.reordered > 0 && order.largest_extent >= 3, "{order:?}");
}

#[test]
fn a_full_queue_drops_and_a_slow_one_delays() {
    // 228 bytes with headers take 1.824 ms at 1 Mbit/s. Of 100 at once the first is on its way, and
    // of the rest as many wait as fit.
    let Some(lab) = lab("rate=1M,queue=20p", "") else { return };
    let (_, got) = send(&lab, false, BATCH);
    let ended = lab.finish().unwrap();
    let c = &ended.truth.up.counts;
    adds_up(c);
    assert_eq!((c.arrived, c.dropped_queue + got.len() as u64), (BATCH, BATCH));
    // A machine that stops between two sends leaves time for some more to get through.
    assert!(got.len() >= 20, "{c:?}");
    let mut last = None;
    for row in rows(&ended, Way::Up).iter().filter(|row| row.class == Class::Left) {
        assert!(row.due.since(row.arrived) >= 1_824_000, "{row:?}");
        assert!(last.is_none_or(|last: Mono| row.due >= last.plus(1_824_000)), "{row:?}");
        last = Some(row.due);
    }
}

#[test]
fn outages_come_when_the_timetable_says() {
    let Some(lab) = lab("outage=0s+1h", "") else { return };
    let (_, before) = send(&lab, false, 10);
    lab.begin();
    let (_, after) = send(&lab, false, 10);
    let ended = lab.finish().unwrap();
    assert_eq!((before.len(), after.len()), (10, 0));
    let c = &ended.truth.up.counts;
    assert_eq!((c.delivered, c.lost_outage, c.longest_loss, c.loss_runs), (10, 10, 10, 1));
    assert!(ended.truth.begin_ns.is_some());
}

#[test]
fn senders_learn_the_mtu_of_the_path_unless_it_is_silent() {
    for v6 in [false, true] {
        let Some(lab) = lab("path-mtu=1300", "") else { return };
        let bind =
            |side| lab.within(side, || UdpSocket::bind(SocketAddr::new(address(side, v6), 0))).unwrap();
        let (client, server) = (bind(Side::Client), bind(Side::Server));
        client.connect(server.local_addr().unwrap()).unwrap();
        server.set_nonblocking(true).unwrap();
        let mut bytes = [0; 2000];
        client.send(&[1; 1400]).unwrap();
        assert!(lab.settle(PATIENCE));
        assert_eq!(server.recv(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        // The kernel knows now. It may tell the application once; then it cuts what is too large.
        while client.send(&[2; 1400]).is_err() {}
        assert!(lab.settle(PATIENCE));
        assert_eq!(server.recv(&mut bytes).unwrap(), 1400);
        let truth = lab.finish().unwrap().truth;
        assert_eq!((truth.up.counts.too_big, truth.up.told_too_big, truth.up.counts.delivered), (1, 1, 2));
        let Some(lab) = self::lab("path-mtu=1300:silent", "") else { return };
        let n = send(&lab, v6, 3).1.len();
        let truth = lab.finish().unwrap().truth;
        assert_eq!((n, truth.up.told_too_big), (3, 0));
    }
}

#[test]
fn a_small_mtu_is_the_senders_to_know() {
    let Some(lab) = lab("mtu=600", "mtu=9000") else { return };
    let (server, client) = connection(&lab, false);
    transfer(client, server, 200_000);
    let ended = lab.finish().unwrap();
    let largest = |way| rows(&ended, way).iter().map(|row| row.length).max().unwrap();
    assert_eq!(largest(Way::Up), 600);
    assert!(largest(Way::Down) <= 600, "TCP agrees on the smaller: {}", largest(Way::Down));
}

/// A TCP connection: the server's end and the client's.
fn connection(lab: &Lab, v6: bool) -> (TcpStream, TcpStream) {
    let at = SocketAddr::new(address(Side::Server, v6), 0);
    let listener = lab.within(Side::Server, || TcpListener::bind(at)).unwrap();
    let to = listener.local_addr().unwrap();
    let client = lab.within(Side::Client, || TcpStream::connect(to)).unwrap();
    (listener.accept().unwrap().0, client)
}

/// Moves `n` bytes, all of which have to arrive as they were sent.
fn transfer(mut from: TcpStream, mut to: TcpStream, n: usize) {
    let bytes: Vec<u8> = (0..n).map(|i| (i * 7 + i / 251) as u8).collect();
    let sent = bytes.clone();
    let sender = std::thread::spawn(move || {
        from.write_all(&sent).unwrap();
        from
    });
    let mut got = vec![0; n];
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    to.read_exact(&mut got).unwrap();
    assert!(got == bytes, "TCP changed the data");
    drop(sender.join().unwrap());
}

#[test]
fn tcp_gets_through_loss_and_reordering() {
    for v6 in [false, true] {
        // One bit a packet: two may cancel each other in the checksum (one pair in 32), and TCP
        // would let them pass.
        let conditions = "delay=1ms,loss=1%,duplicate=1%,reorder=1%:2ms,corrupt=1%:1:wire";
        let Some(lab) = lab(conditions, "loss=1%") else { return };
        let (server, client) = connection(&lab, v6);
        transfer(client, server, 2_000_000);
        let truth = lab.finish().unwrap().truth;
        let c = &truth.up.counts;
        adds_up(c);
        adds_up(&truth.down.counts);
        assert!(c.lost_random > 0 && c.damaged > 0 && c.copies > 0, "{c:?}");
        // All bytes have come at least once, and what was lost came again.
        assert!(c.arrived_bytes > 2_000_000 && c.left_bytes > 2_000_000);
        assert_eq!(truth.up.flows.len(), 1);
        assert_eq!((truth.up.device, truth.down.device), (lab::Device::default(), lab::Device::default()));
    }
}

#[test]
fn marks_of_congestion_are_made_and_cleared() {
    for (conditions, expected) in [("ecn-ce=5%", true), ("ecn-ce=5%,ecn-bleach=yes", false)] {
        let Some(lab) = lab(conditions, "") else { return };
        let use_ecn = || std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1");
        if [Side::Client, Side::Server].into_iter().any(|side| lab.within(side, use_ecn).is_err()) {
            return skip("ECN cannot be switched on");
        }
        let (server, client) = connection(&lab, false);
        transfer(client, server, 1_000_000);
        let ended = lab.finish().unwrap();
        let c = &ended.truth.up.counts;
        // Packets came as capable, and what left as congested is what was marked.
        assert!(c.ecn_arrived[2] > 100 && c.ecn_arrived[3] == 0, "{c:?}");
        assert_eq!((c.marked > 10, c.ecn_left[3]), (expected, c.marked), "{c:?}");
        assert_eq!(c.ecn_left.iter().sum::<u64>(), c.delivered);
        assert_eq!(c.lost(), 0);
    }
}

#[test]
fn conditions_may_be_for_some_packets_only() {
    let Some(lab) = lab("only=udp,loss=100%", "") else { return };
    let (server, client) = connection(&lab, false);
    transfer(client, server, 100_000);
    let (_, got) = send(&lab, false, 50);
    let truth = lab.finish().unwrap().truth;
    assert!(got.is_empty());
    let c = &truth.up.counts;
    assert_eq!((c.lost_random, c.passed), (50, c.delivered));
    adds_up(c);
    let tcp = truth.up.flows.iter().find(|flow| flow.protocol == "tcp").unwrap();
    assert_eq!((tcp.counts.lost(), tcp.counts.passed), (0, tcp.counts.arrived));
}

#[test]
fn labs_do_not_meet() {
    let labs = (lab("loss=100%", ""), lab("", ""), lab("corrupt=100%", ""));
    let (Some(one), Some(two), Some(three)) = labs else { return };
    // The same addresses, at the same time.
    let (none, all, damaged) = std::thread::scope(|s| {
        let run = |lab| s.spawn(move || send(lab, false, 200).1);
        let (one, two, three) = (run(&one), run(&two), run(&three));
        (one.join().unwrap(), two.join().unwrap(), three.join().unwrap())
    });
    assert_eq!((none.len(), all.len(), damaged.len()), (0, 200, 200));
    assert!((0..).zip(&all).all(|(i, got)| got.bytes == datagram(i)));
    assert!((0..).zip(&damaged).all(|(i, got)| got.bytes != datagram(i)));
    for (lab, lost) in [(one, 200), (two, 0), (three, 0)] {
        assert_eq!(lab.finish().unwrap().truth.up.counts.lost_random, lost);
    }
}

#[test]
fn the_same_seed_does_the_same_again() {
    let fates = || {
        let lab = lab("loss=10%,duplicate=10%,corrupt=10%:2", "")?;
        send(&lab, false, 300);
        let ended = lab.finish().unwrap();
        let mut all: Vec<_> =
            rows(&ended, Way::Up).iter().map(|row| (row.index, row.copy, row.class, row.flipped)).collect();
        all.sort_by_key(|row| (row.0, row.1));
        Some(all)
    };
    let (Some(one), Some(two)) = (fates(), fates()) else { return };
    assert_eq!(one, two);
    assert!(one.iter().any(|row| row.2 == Class::Not(Verdict::LostRandom)));
}

#[test]
fn nothing_is_left_behind() {
    let Some(lab) = lab("", "") else { return };
    let mut command = Command::new("sh");
    // A child of the child, in a session of its own, which no signal to a group would reach.
    lab.enter(Side::Server, command.args(["-c", "setsid sleep 1000 & exec sleep 1000"])).unwrap();
    let mut child = command.spawn().unwrap();
    while lab.processes(Side::Server).len() < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let space = format!("/proc/{}/ns/net", child.id());
    let inode = std::fs::read_link(&space).unwrap();
    drop(lab);
    assert!(!child.wait().unwrap().success());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let here = all.filter(|e| std::fs::read_link(e.path().join("ns/net")).is_ok_and(|l| l == inode)).count();
    assert_eq!(here, 0, "processes are left in a namespace that is gone");
}

#[test]
fn what_was_under_way_at_the_end_is_told() {
    let Some(lab) = lab("delay=30s", "") else { return };
    let client = lab.within(Side::Client, || UdpSocket::bind((Side::Client.ipv4(), 0))).unwrap();
    for _ in 0..50 {
        client.send_to(&[1; 100], (Side::Server.ipv4(), 9)).unwrap();
    }
    assert!(!lab.settle(Duration::from_millis(1)));
    let ended = lab.finish().unwrap();
    let c = &ended.truth.up.counts;
    assert_eq!((c.arrived, c.unfinished, c.left), (50, 50, 0));
    assert_eq!(rows(&ended, Way::Up).iter().filter(|row| row.class == Class::Unfinished).count(), 50);
    adds_up(c);
}
