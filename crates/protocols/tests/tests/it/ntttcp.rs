//! ntttcp in virtual time: both sessions against each other, and the receiver against conversations
//! as they were captured.

use crate::support::run::{MS, Told, client_ip, told};
use crate::support::sized;
use common::{Acl, Limits, ServerConfig};
use metrics::{Mono, SECOND};
use model::{Event, Kind, Phase, Probe, Range, Status, Traffic, Verify};
use ntttcp::{Layout, Receiver, ReceiverPlan, Sender, SenderPlan};
use sim::{Host, HungUp, Link, Network, Quirks, Say};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The port of the conversation; data ports follow.
const TALK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5000);

/// Paths of 1 Mbit/s each.
fn network(seed: u64) -> Network {
    network_of(seed, Link::new().delay(MS).rate(1_000_000))
}

fn network_of(seed: u64, link: Link) -> Network {
    let mut net = Network::new(seed);
    net.links(link.clone(), link);
    net
}

fn layout() -> Layout {
    Layout { ports: 2, threads: 2, connections: 2, seconds: 3, ..Layout::default() }
}

fn phase() -> Phase {
    Phase {
        connections: 8,
        iterations: Some(1),
        transfer: 1 << 50,
        duration_ns: None,
        buffer: Range::just(4 * 1024),
        verify: Verify::Connection,
        interval_ns: SECOND / 2,
        stall_ns: 3600 * SECOND,
        ..Phase::default()
    }
}

/// The same over datagrams, where the layout says so.
fn phase_of(layout: &Layout) -> Phase {
    if !layout.udp {
        return phase();
    }
    Phase {
        kind: Kind::Delay,
        probe: Some(Probe { size: 1_000, ..Probe::default() }),
        rate: Some(80_000),
        ..phase()
    }
}

pub(crate) fn receiver(layout: Layout, now: Mono) -> Receiver {
    let (acl, streams) = (Acl::default(), Acl::default());
    Receiver::new(ReceiverPlan { layout, phase: phase_of(&layout), acl, streams, workers: 2 }, now)
}

pub(crate) fn sender(layout: Layout, to: Vec<IpAddr>, workers: u16, now: Mono) -> Sender {
    let to = to.into_iter().map(|ip| (ip, 0).into()).collect();
    Sender::new(SenderPlan { layout, phase: phase_of(&layout), to, from: None, workers }, now)
}

fn receive(net: &mut Network, layout: Layout) -> Host {
    let now = net.now;
    let host = net.serve(TALK, 2, Box::new(receiver(layout, now)));
    net.ports(host, 1 + layout.ports + if layout.token || layout.unsynced { 1_000 } else { 0 });
    host
}

/// A network with a receiver.
fn receiving(seed: u64, layout: Layout) -> (Network, Host) {
    let mut net = network(seed);
    let host = receive(&mut net, layout);
    (net, host)
}

fn send(net: &mut Network, n: u32, layout: Layout) -> Host {
    send_with(net, n, layout, phase_of(&layout), vec![TALK.ip()])
}

fn send_with(net: &mut Network, n: u32, layout: Layout, phase: Phase, to: Vec<IpAddr>) -> Host {
    let now = net.now;
    let to = to.into_iter().map(|ip| (ip, 0).into()).collect();
    let plan = SenderPlan { layout, phase, to, from: None, workers: 2 };
    net.join(client_ip(n), 2, Box::new(Sender::new(plan, now)))
}

fn finish(net: &mut Network) {
    net.run();
    net.run_until(net.now.plus(15 * SECOND));
}

/// Both ends have completed a test with so many connections.
fn complete(net: &Network, hosts: [Host; 2], opened: u64, seed: u64) -> [Told; 2] {
    hosts.map(|host| {
        let told = told(net, host);
        let found = (told.status(), told.reason(), told.local().opened);
        assert_eq!(found, (Status::Complete, "", opened), "{seed}");
        told
    })
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn both_ends_measure_what_was_agreed_on() {
    let rate = sized(400_000, 1_000_000);
    for (seed, sync, quirks, rate) in [
        (1, true, Quirks::default(), rate),
        (2, true, Quirks::rough(), 400_000),
        (3, false, Quirks::default(), rate),
        (4, true, Quirks::tiny_sends(), 100_000),
    ] {
        // Half a second of it may be under way.
        let mut net = network_of(seed, Link::new().delay(MS).rate(rate).window(rate as usize / 16));
        let layout = Layout { sync, ..layout() };
        let receiver = receive(&mut net, layout);
        let sender = send(&mut net, 1, layout);
        net.quirks(receiver, quirks);
        net.quirks(sender, quirks);
        finish(&mut net);
        let [here, there] = complete(&net, [sender, receiver], 8, seed);
        for told in [&here, &there] {
            assert_eq!(told.local().errors(), 0, "{seed}: {:?}", told.local().causes);
        }
        let (tx, rx) = (here.local().traffic, there.local().traffic);
        assert_eq!((tx.ns, rx.ns), (3 * SECOND, 3 * SECOND), "{seed}");
        // Eight paths for three seconds, and what the send buffers held.
        assert!((rate * 24 / 10..=rate * 301 / 100).contains(&rx.rx_bytes), "{seed}: {rx:?}");
        assert!(tx.tx_bytes >= rx.rx_bytes, "{seed}: {tx:?} {rx:?}");
    }
}

#[test]
fn a_test_that_a_limit_of_the_server_ends_keeps_its_totals() {
    let (mut net, receiver) = receiving(5, layout());
    let limits = Limits { duration_ns: Some(SECOND), ..Limits::default() };
    let config = ServerConfig { limits, ..ServerConfig::legacy(&ntttcp::PROTOCOL, phase()) };
    net.limits(receiver, config.clients());
    send(&mut net, 1, layout());
    finish(&mut net);
    let there = told(&net, receiver);
    let Traffic { rx_bytes, .. } = there.local().traffic;
    // Eight paths of 1 Mbit/s for a second.
    assert!((500_000..=1_100_000).contains(&rx_bytes), "{rx_bytes}");
    assert_eq!((there.local().opened, there.local().stopped), (8, 8));
}

#[test]
fn without_a_conversation_connections_end_with_the_time() {
    // A receiver of ttcp computes its rate up to the end of the connection; where the ends talk, it
    // is held half a second.
    for (seed, sync, token, ends) in
        [(41, false, false, 3_000..3_300), (42, true, false, 3_500..3_900), (43, false, true, 3_500..3_900)]
    {
        let layout = Layout { sync, token, ..layout() };
        let (mut net, _) = receiving(seed, layout);
        // Slow enough that nothing is left in buffers.
        let phase = Phase { rate: Some(80_000), ..phase() };
        let now = net.now;
        let sender = send_with(&mut net, 1, layout, phase, vec![TALK.ip()]);
        finish(&mut net);
        let took = net.done(sender).unwrap().since(now);
        assert!(ends.contains(&(took / MS)), "{seed}: {} ms", took / MS);
    }
}

#[test]
fn unsynchronised_senders_have_tests_of_their_own() {
    let (mut net, host) = receiving(61, Layout { unsynced: true, ..layout() });
    // Eight unsynchronised connections, and an idle one.
    let alone = send(&mut net, 1, Layout { sync: false, seconds: 2, ..layout() });
    let data = SocketAddr::new(TALK.ip(), 5001);
    net.raw(client_ip(3), data, vec![(60 * SECOND, Say::Fin)]);
    net.run_until(net.now.plus(SECOND));
    // Busy while data arrives.
    let raw = net.raw(client_ip(2), TALK, vec![(10 * MS, Say::Bytes(words(&[0x58]))), (SECOND, Say::Fin)]);
    net.run_until(net.now.plus(10 * SECOND));
    assert_eq!(net.raw_state(raw).heard, words(&[0x0c]));
    assert_eq!((told(&net, alone).status(), told(&net, alone).local().opened), (Status::Complete, 8));
    // A synchronised test afterwards has none of their connections.
    let talks = send(&mut net, 2, Layout { connections: 1, ..layout() });
    finish(&mut net);
    assert_eq!((told(&net, talks).status(), told(&net, talks).local().opened), (Status::Complete, 4));
    let tests = tests(&net, host);
    assert_eq!(tests.iter().map(|(opened, _)| *opened).collect::<Vec<_>>(), [8, 4]);
    // What came is what was sent: all that the send buffers held, too.
    assert!(tests[0].1.rx_bytes >= told(&net, alone).local().traffic.tx_bytes, "{tests:?}");
    // Two seconds, and until the buffers were empty: half a megabyte each, at a megabit a second.
    assert!((2 * SECOND..5 * SECOND).contains(&tests[0].1.ns), "{tests:?}");
    assert_eq!(tests[1].1.ns, 3 * SECOND);
}

#[test]
fn a_synchronised_sender_of_windows_has_a_test_of_its_own_at_a_server() {
    let (mut net, host) = receiving(62, Layout { unsynced: true, ..layout() });
    let sender = send(&mut net, 1, Layout { token: true, seconds: 2, ..windows() });
    net.run_until(net.now.plus(10 * SECOND));
    assert_eq!((told(&net, sender).status(), told(&net, sender).local().opened), (Status::Complete, 2));
    // A test of Linux' sender from the same address afterwards is synchronised as ever.
    let talks = send(&mut net, 1, Layout { connections: 1, ..layout() });
    finish(&mut net);
    assert_eq!((told(&net, talks).status(), told(&net, talks).local().opened), (Status::Complete, 4));
    let tests = tests(&net, host);
    assert_eq!(tests.iter().map(|(opened, _)| *opened).collect::<Vec<_>>(), [2, 4]);
    assert!(tests[0].1.rx_bytes >= told(&net, sender).local().traffic.tx_bytes, "{tests:?}");
    assert!((2 * SECOND..5 * SECOND).contains(&tests[0].1.ns), "{tests:?}");
}

#[test]
fn an_announcement_is_answered_once_and_opens_nothing() {
    let (mut net, host) = receiving(63, Layout { unsynced: true, ..layout() });
    let announce = SocketAddr::new(TALK.ip(), 6001);
    let raw = net.raw(client_ip(1), announce, vec![(10 * MS, Say::Bytes(b"XX".to_vec()))]);
    let other = net.raw(client_ip(2), announce, vec![(10 * MS, Say::Bytes(words(&[0x52])))]);
    net.run_until(net.now.plus(SECOND));
    assert_eq!(
        (net.raw_state(raw).heard.as_slice(), net.raw_state(other).heard.as_slice()),
        (&b"X"[..], &b""[..])
    );
    assert!(
        !net.events(host).iter().any(|(_, event)| matches!(event, Event::Local(_) | Event::PhaseEnd { .. }))
    );
}

/// The tests that a receiver has told of: connections and traffic.
fn tests(net: &Network, host: Host) -> Vec<(u64, Traffic)> {
    let local = |(_, event): &(Mono, Event)| match event {
        Event::Local(totals) => Some((totals.opened, totals.traffic)),
        _ => None,
    };
    net.events(host).iter().filter_map(local).collect()
}

#[test]
fn tests_of_one_address_are_told_apart_by_when_they_begin() {
    let (mut net, host) = receiving(64, Layout { unsynced: true, ..layout() });
    // A connection that carries nothing belongs to none of them; one whose sender has vanished
    // holds up its own test only.
    let data = SocketAddr::new(TALK.ip(), 5001);
    net.raw(client_ip(1), data, vec![(60 * SECOND, Say::Fin)]);
    net.raw(client_ip(1), data, vec![(MS, Say::Bytes(vec![b'A'; 1_000])), (60 * SECOND, Say::Fin)]);
    net.run_until(net.now.plus(4 * SECOND));
    let first = send(&mut net, 1, Layout { token: true, seconds: 6, ..windows() });
    net.run_until(net.now.plus(4 * SECOND));
    let second = send(&mut net, 1, Layout { token: true, seconds: 1, ..windows() });
    net.run_until(net.now.plus(15 * SECOND));
    let told_of = tests(&net, host);
    for (sender, seconds, (opened, traffic)) in [(second, 1, told_of[0]), (first, 6, told_of[1])] {
        assert_eq!((told(&net, sender).status(), opened), (Status::Complete, 2));
        assert!(traffic.rx_bytes >= told(&net, sender).local().traffic.tx_bytes, "{told_of:?}");
        let bound = seconds * SECOND..(seconds + 5) * SECOND;
        assert!(bound.contains(&traffic.ns), "{told_of:?}");
    }
    // What has not ended is told when the receiver is stopped.
    net.stop_at(host, net.now);
    finish(&mut net);
    let told_of = tests(&net, host);
    assert_eq!((told_of.len(), told_of[2].0, told_of[2].1.rx_bytes), (3, 1, 1_000), "{told_of:?}");
}

#[test]
fn connections_that_carry_data_one_after_the_other_are_one_test() {
    let (mut net, host) = receiving(66, Layout { unsynced: true, ..layout() });
    let data = SocketAddr::new(TALK.ip(), 5001);
    for n in 0..4 {
        let at = (10 + 200 * n) * MS;
        net.raw(client_ip(1), data, vec![(at, Say::Bytes(vec![b'A'; 1_000])), (at + 10 * MS, Say::Fin)]);
    }
    net.run_until(net.now.plus(2 * SECOND));
    let told_of = tests(&net, host);
    assert_eq!(
        told_of.iter().map(|(opened, traffic)| (*opened, traffic.rx_bytes)).collect::<Vec<_>>(),
        [(4, 4_000)]
    );
}

#[test]
fn silent_conversations_keep_nobody_out() {
    let (mut net, _) = receiving(65, Layout { unsynced: true, ..layout() });
    for n in 0..200 {
        let port = if n % 2 == 0 { 5000 } else { 6001 };
        net.raw(client_ip(2), SocketAddr::new(TALK.ip(), port), vec![(60 * SECOND, Say::Fin)]);
    }
    net.run_until(net.now.plus(SECOND));
    let windows = send(&mut net, 1, Layout { token: true, seconds: 1, ..windows() });
    net.run_until(net.now.plus(10 * SECOND));
    let linux = send(&mut net, 1, Layout { connections: 1, ..layout() });
    net.run_until(net.now.plus(10 * SECOND));
    for sender in [windows, linux] {
        assert_eq!((told(&net, sender).status(), told(&net, sender).reason()), (Status::Complete, ""));
    }
}

/// A sender that is silent in any step before its test leaves nothing at the receiver.
#[test]
fn a_sender_that_falls_silent_is_forgotten() {
    for said in [&[][..], &[0x58], &[0x58, 3]] {
        let (mut net, receiver) = receiving(72, layout());
        let raw = net.raw(client_ip(2), TALK, vec![(MS, Say::Bytes(words(said))), (60 * SECOND, Say::Fin)]);
        net.run_until(net.now.plus(17 * SECOND));
        assert!(net.raw_state(raw).ended.is_some() && net.open(receiver) == (0, 0), "{said:?}");
    }
}

#[test]
fn conversations_that_take_no_part_in_the_test_keep_nobody_out() {
    let (mut net, _) = receiving(67, layout());
    for _ in 0..100 {
        // A quarter of a word.
        net.raw(client_ip(2), TALK, vec![(MS, Say::Bytes(vec![0])), (60 * SECOND, Say::Fin)]);
    }
    net.run_until(net.now.plus(SECOND));
    let sender = send(&mut net, 1, layout());
    net.run_until(net.now.plus(10 * SECOND));
    assert_eq!((told(&net, sender).status(), told(&net, sender).reason()), (Status::Complete, ""));
}

#[test]
fn connections_of_a_sender_that_gave_up_belong_to_no_later_test() {
    let (mut net, receiver) = receiving(71, layout());
    net.raw(client_ip(2), TALK, vec![(SECOND / 2, Say::Fin)]);
    net.run_until(net.now.plus(50 * MS));
    for _ in 0..16 {
        net.raw(client_ip(2), SocketAddr::new(TALK.ip(), 5001), vec![(SECOND / 4, Say::Fin)]);
    }
    net.run_until(net.now.plus(SECOND));
    let sender = send(&mut net, 1, layout());
    finish(&mut net);
    complete(&net, [sender, receiver], 8, 71);
}

#[test]
fn a_port_that_is_announced_twice_counts_once() {
    let (mut net, host) = receiving(69, Layout { token: true, ..windows() });
    let announce = |net: &mut Network, port| {
        let script = vec![(10 * MS, Say::Bytes(b"X".to_vec())), (SECOND, Say::Fin)];
        net.raw(client_ip(1), SocketAddr::new(TALK.ip(), port), script);
        net.run_until(net.now.plus(SECOND / 2));
        net.events(host).iter().any(|(_, event)| matches!(event, Event::Start { .. }))
    };
    assert_eq!([6001, 6001, 6002].map(|port| announce(&mut net, port)), [false, false, true]);
    net.stop_at(host, net.now);
    finish(&mut net);
}

/// Windows' ends without synchronisation.
fn windows() -> Layout {
    Layout { sync: false, windows: true, threads: 1, connections: 1, ..layout() }
}

#[test]
fn a_receiver_of_windows_goes_with_its_time_and_its_sender_has_not_failed() {
    // The original's sender ran its 4.027 s beside a receiver of 2 s, without an error.
    for (seed, seconds, transfer) in [(51, 4, 1 << 50), (52, 0, 10 << 20)] {
        let (mut net, receiver) = receiving(seed, Layout { seconds: 2, ..windows() });
        let layout = Layout { seconds, ..windows() };
        let now = net.now;
        let sender = send_with(&mut net, 1, layout, Phase { transfer, ..phase() }, vec![TALK.ip()]);
        finish(&mut net);
        let (here, there) = (told(&net, sender), told(&net, receiver));
        assert_eq!(
            (here.status(), here.local().errors()),
            (Status::Complete, 0),
            "{seed}: {}",
            here.reason()
        );
        assert_eq!((there.status(), there.local().traffic.ns), (Status::Complete, 2 * SECOND), "{seed}");
        let over = net.done(receiver).unwrap().since(now);
        assert!((2 * SECOND..2_300 * MS).contains(&over), "{seed}: {over}");
        let ns = here.local().traffic.ns;
        // So many buffers end with the last that was taken, a time with itself. The kernel tells of
        // room when a third of its buffer is free, which at a megabit a second takes 0.7 s.
        let whole = if seconds > 0 { ns == 4 * SECOND } else { (1_200 * MS..2_300 * MS).contains(&ns) };
        assert!(whole, "{seed}: {ns}");
    }
}

#[test]
fn a_receiver_that_goes_early_is_told_and_the_figures_are_of_that_time() {
    // It reads on for two seconds behind its own end.
    let (mut net, _) = receiving(53, Layout { sync: false, seconds: 1, ..layout() });
    let sender = send(&mut net, 1, Layout { sync: false, seconds: 60, ..layout() });
    finish(&mut net);
    let here = told(&net, sender);
    assert_eq!(here.status(), Status::Partial, "{}", here.reason());
    let ns = here.local().traffic.ns;
    assert!((2_900 * MS..3_500 * MS).contains(&ns), "{ns}");
    let done = format!(" after {:.3} s of 60 s: the figures cover that time", ns as f64 / SECOND as f64);
    assert!(here.reason().ends_with(&done), "{} {ns}", here.reason());
}

#[test]
fn a_sender_of_windows_waits_for_its_receiver() {
    for (seed, late) in [(54, Some(3)), (55, None)] {
        let mut net = network(seed);
        let now = net.now;
        let sender = send(&mut net, 1, windows());
        if let Some(late) = late {
            net.run_until(now.plus(late * SECOND));
            receive(&mut net, windows());
        }
        finish(&mut net);
        let here = told(&net, sender);
        match late {
            Some(_) => assert_eq!((here.status(), here.local().opened), (Status::Complete, 2)),
            None => {
                assert_eq!(here.status(), Status::Failed);
                let over = net.done(sender).unwrap().since(now);
                assert!((10 * SECOND..12 * SECOND).contains(&over), "{over}");
            }
        }
    }
}

#[test]
fn windows_ends_begin_when_each_port_has_its_token() {
    for (seed, token, buffers, udp) in [
        (31, true, None, false),
        (32, true, Some(20), false),
        (33, false, Some(20), false),
        (34, true, None, true),
    ] {
        let mut net = network(seed);
        net.datagram_links(Link::new().delay(MS), Link::new().delay(MS));
        let seconds = if buffers.is_some() { 0 } else { 2 };
        let layout = Layout { sync: false, token, udp, threads: 1, connections: 1, seconds, ..layout() };
        let receiver = receive(&mut net, layout);
        let to = vec![TALK.ip(), TALK.ip()];
        let transfer = buffers.map_or(1 << 50, |n| n * 4_096);
        let phase = Phase { transfer, ..phase_of(&layout) };
        let sender = send_with(&mut net, 1, layout, phase, to);
        finish(&mut net);
        let [here, there] = complete(&net, [sender, receiver], 2, seed);
        let (tx, rx) = (here.local().traffic, there.local().traffic);
        match buffers {
            // Two connections of twenty buffers; 81,920 bytes at 1 Mbit/s take 655 ms.
            Some(n) => {
                assert_eq!((tx.tx_bytes, rx.rx_bytes), (2 * n * 4_096, 2 * n * 4_096), "{seed}");
                assert!((600 * MS..900 * MS).contains(&rx.ns), "{seed}: {rx:?}");
            }
            // Two senders, ten datagrams of 1,000 bytes a second each.
            None if udp => assert!((36_000..=42_000).contains(&rx.rx_bytes), "{seed}: {rx:?}"),
            None => {
                assert!((1_900 * MS..=2_000 * MS).contains(&rx.ns) && tx.ns == 2 * SECOND, "{seed}: {rx:?}");
                assert!((400_000..=510_000).contains(&rx.rx_bytes), "{seed}: {rx:?}");
            }
        }
    }
}

#[test]
fn datagrams_are_measured_for_as_long_as_was_agreed_on() {
    for (seed, sync, warmup_s) in [(21, true, 0), (22, false, 0), (23, true, 1)] {
        let mut net = network(seed);
        net.datagram_links(Link::new().delay(MS), Link::new().delay(MS));
        let layout = Layout { sync, udp: true, warmup_s, ..layout() };
        let receiver = receive(&mut net, layout);
        let sender = send(&mut net, 1, layout);
        finish(&mut net);
        let [here, there] = complete(&net, [sender, receiver], 8, seed);
        let (tx, rx) = (here.local().traffic, there.local().traffic);
        assert_eq!(tx.ns, 3 * SECOND);
        // Without a conversation the receiver rates until the last that came, or its own clock.
        assert!(rx.ns <= 3 * SECOND && rx.ns > 3 * SECOND - SECOND / 5, "{seed}: {rx:?}");
        // Eight senders, ten datagrams of 1,000 bytes a second each.
        assert!((230_000..=248_000).contains(&rx.rx_bytes), "{seed}: {rx:?}");
        assert!(tx.tx_bytes.abs_diff(rx.rx_bytes) <= 16_000, "{seed}: {tx:?} {rx:?}");
    }
}

#[test]
fn warm_up_and_cool_down_do_not_count() {
    let layout = Layout { warmup_s: 1, seconds: 2, cooldown_s: 1, ..layout() };
    let (mut net, receiver) = receiving(5, layout);
    let sender = send(&mut net, 1, layout);
    finish(&mut net);
    for host in [sender, receiver] {
        let told = told(&net, host);
        assert_eq!((told.status(), told.local().traffic.ns), (Status::Complete, 2 * SECOND));
    }
    let rx = told(&net, receiver).local().traffic.rx_bytes;
    assert!((1_600_000..=2_010_000).contains(&rx), "{rx}");
}

#[test]
fn an_interrupted_sender_ends_both() {
    let (mut net, receiver) = receiving(6, layout());
    let sender = send(&mut net, 1, layout());
    net.stop_at(sender, net.now.plus(SECOND));
    finish(&mut net);
    let (here, there) = (told(&net, sender), told(&net, receiver));
    assert_eq!((here.status(), there.status()), (Status::Interrupted, Status::Complete));
    let ns = there.local().traffic.ns;
    assert!((900 * MS..1_100 * MS).contains(&ns), "{ns}");
}

#[test]
fn the_captured_conversations_are_answered_as_captured() {
    // Each: what the sender says, what the receiver of the original answered (payload of the
    // control connection). ntttcp_sync_tcp_ctrl.pcap (-t 3), with E as in ntttcp_ctrlc_ctrl.pcap;
    // ntttcp_negot_longer_ctrl.pcap (2 to -t 4); ntttcp_continuous_ctrl.pcap (0 to -t 3).
    for (seconds, said, answered) in [
        (3, vec![0x58, 3, 0x52, 0x45], vec![0x0b, 3, 0x52, 0x0d]),
        (4, vec![0x58, 2, 0x52, 0x45], vec![0x0b, 4, 0x52, 0x0d]),
        (3, vec![0x58, 0, 0x52, 0x45], vec![0x0b, 0, 0x52, 0x0d]),
        // Lengths that are letters: the original runs 11 s, starts at once, or stumbles
        // (collision_*.console).
        (3, vec![0x58, 69, 0x52, 0x45], vec![0x0b, 69, 0x52, 0x0d]),
        (3, vec![0x58, 82, 0x52, 0x45], vec![0x0b, 82, 0x52, 0x0d]),
        (3, vec![0x58, 88, 0x52, 0x45], vec![0x0b, 88, 0x52, 0x0d]),
        // 'L' to a receiver without -M is refused, as the spec wants it.
        (3, vec![0x58, 3, 0x4c], vec![0x0b, 3, 0x45]),
    ] {
        // In words, and in single bytes that make up a word in as much time.
        for piece in [4, 1] {
            let (mut net, host) = receiving(7, Layout { seconds, ..layout() });
            let say = |(bytes, n): (&[u8], u64)| (n * 25 * piece * MS, Say::Bytes(bytes.to_vec()));
            let script = words(&said).chunks(piece as usize).zip(1..).map(say).collect::<Vec<_>>();
            let script = script.into_iter().chain([(SECOND, Say::Fin)]).collect();
            let raw = net.raw(client_ip(1), TALK, script);
            net.run_until(net.now.plus(2 * SECOND));
            assert_eq!(net.raw_state(raw).heard, words(&answered), "{said:?} in pieces of {piece}");
            net.stop_at(host, net.now);
            finish(&mut net);
        }
    }
}

#[test]
fn a_busy_receiver_says_so_and_only_a_sender_of_the_test_ends_it() {
    // ntttcp_busy_ctrl.pcap: the second sender hears 12.
    let (mut net, receiver) = receiving(8, layout());
    send(&mut net, 1, layout());
    net.run_until(net.now.plus(SECOND));
    let others = [(2, 0x58), (4, 0x45)].map(|(n, word)| {
        let script = vec![(10 * MS, Say::Bytes(words(&[word]))), (200 * MS, Say::Fin)];
        (word, net.raw(client_ip(n), TALK, script))
    });
    let second = send(&mut net, 3, layout());
    finish(&mut net);
    for (word, raw) in others {
        assert_eq!(net.raw_state(raw).heard, words(&[0x0c]), "the test goes on after {word:#x}");
    }
    let refused = told(&net, second);
    assert_eq!(
        (refused.status(), refused.reason()),
        (Status::Failed, "the receiver is busy with another test")
    );
    let there = told(&net, receiver);
    assert_eq!((there.status(), there.local().opened), (Status::Complete, 8));
    assert_eq!(there.local().traffic.ns, 3 * SECOND);
}

#[test]
fn several_senders_begin_together() {
    // ntttcp_multi_ctrl: 'R' is answered by 'W' until the last one's 'L'.
    let (mut net, host) = receiving(10, Layout { multi: true, ..layout() });
    let say = |n: u64, word: u32| (n * 100 * MS, Say::Bytes(words(&[word])));
    let first =
        net.raw(client_ip(1), TALK, vec![say(1, 0x58), say(2, 9), say(3, 0x52), (2 * SECOND, Say::Fin)]);
    let last =
        net.raw(client_ip(2), TALK, vec![say(1, 0x58), say(2, 9), say(8, 0x4c), (2 * SECOND, Say::Fin)]);
    net.run_until(net.now.plus(700 * MS));
    assert_eq!(net.raw_state(first).heard, words(&[0x0b, 3, 0x57]));
    net.run_until(net.now.plus(SECOND));
    assert_eq!(net.raw_state(first).heard, words(&[0x0b, 3, 0x57, 0x52]));
    assert_eq!(net.raw_state(last).heard, words(&[0x0b, 3, 0x52]));
    net.stop_at(host, net.now);
    finish(&mut net);
}

#[test]
fn without_a_conversation_it_ends_after_the_last_connection() {
    let (mut net, host) = receiving(11, Layout { sync: false, seconds: 60, ..layout() });
    let data = SocketAddr::new(TALK.ip(), 5001);
    let begun = net.now;
    let script = vec![
        (10 * MS, Say::Bytes(vec![b'A'; 100_000])),
        (2 * SECOND, Say::Bytes(vec![b'A'; 50_000])),
        (3 * SECOND, Say::Fin),
    ];
    let raw = net.raw(client_ip(1), data, script);
    net.run_until(net.now.plus(30 * SECOND));
    let told = told(&net, host);
    assert_eq!((told.status(), told.local().traffic.rx_bytes), (Status::Complete, 150_000));
    assert_eq!(net.raw_state(raw).ended.map(|(_, how)| how), Some(HungUp::Fin));
    // Over two seconds of transfer, and not over the minute that it was ready for.
    let ns = told.local().traffic.ns;
    assert!((1_950 * MS..3_100 * MS).contains(&ns), "{ns}");
    let over = net.done(host).unwrap().since(begun);
    assert!((4 * SECOND..5 * SECOND).contains(&over), "{over}");
}

#[test]
fn nobody_there_is_an_error_and_so_is_silence() {
    let mut net = network(12);
    let alone = send(&mut net, 1, layout());
    finish(&mut net);
    let told_alone = told(&net, alone);
    assert_eq!(told_alone.status(), Status::Failed);
    assert!(
        told_alone.reason().starts_with("cannot reach the receiver's sync port"),
        "{}",
        told_alone.reason()
    );
    let alone = send(&mut net, 2, Layout { sync: false, ..layout() });
    finish(&mut net);
    assert!(told(&net, alone).reason().starts_with("not all data connections were established"));
}

#[test]
fn whatever_is_said_the_receiver_goes_on() {
    let mut rng = transport::Rng::new(13);
    for seed in 0..300 {
        let (mut net, host) = receiving(seed, Layout { multi: seed % 2 == 0, ..layout() });
        for n in 1..4 {
            let mut bytes = words(&[0x58, 3, 0x52, 0x45, 0x4c, 0x57]);
            for _ in 0..rng.between(0, 5) {
                let at = rng.between(0, bytes.len() as u64 - 1) as usize;
                bytes[at] = rng.next() as u8;
            }
            bytes.truncate(rng.between(1, 24) as usize);
            let port = TALK.port() + rng.between(0, 2) as u16;
            let script = vec![(rng.between(1, 50) * MS, Say::Bytes(bytes)), (60 * MS, Say::Fin)];
            net.raw(client_ip(n), SocketAddr::new(TALK.ip(), port), script);
        }
        net.run_until(net.now.plus(SECOND));
        net.stop_at(host, net.now);
        net.run_until(net.now.plus(10 * SECOND));
        assert!(net.done(host).is_some(), "{seed}");
        assert_eq!(net.open(host), (0, 0), "{seed}");
    }
}
