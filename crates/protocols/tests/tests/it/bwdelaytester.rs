//! bwdelaytester: its bytes, either end in virtual time over networks that lose, repeat and
//! reorder, and damaged datagrams.
//!
//! Vectors: captured from bwdelaytester (arnoutdekimo/bwdelaytester, source of 2022-11-08, gcc on
//! x86-64 Linux) over loopback with `-p 1000 -b 10` (sync), `-p 200 -b 5 -a` (async), `-p 16 -d
//! 1000000` (delay_ns), `-p 2000` (max2000) and over a veth pair with `-p 500` (veth).

use crate::support::bench::{inputs, mutate, unhex};
use crate::support::run::{MS, Told, address, call_with, client_ip, serve_with, told};
use bwdelaytester::codec::{HEADER, Header, is_wall};
use bwdelaytester::{DatagramRow, Settings, Stairs, acceptors};
use common::Acl;
use common::one_sided::{Answers, Calls};
use metrics::{Group, Packets, SECOND};
use model::{Kind, Phase, Probe, Range, SocketSettings, Status};
use sim::{Host, Link, Network, Quirks, Side};
use std::collections::HashSet;
use transport::{Acceptor, Arena, Path, Received, Rng, Transmit};

/// The first 18 bytes of datagrams in the captures: name, hex, number, stamp in µs, whether it is
/// the wall clock's.
const CAPTURED: &[(&str, &str, u64, u64, bool)] = &[
    ("sync 0", "00000000000000004338d897ad6006006000", 0, 1_795_148_553_402_435, true),
    ("sync 1", "01000000000000004539d897ad6006006000", 1, 1_795_148_553_402_693, true),
    ("sync 2", "0200000000000000653cd897ad6006006000", 2, 1_795_148_553_403_493, true),
    ("async 0", "0000000000000000c630af27000000005249", 0, 665_792_710, false),
    ("async 1", "01000000000000000431af27000000005249", 1, 665_792_772, false),
    ("async 2", "02000000000000001731af27000000005249", 2, 665_792_791, false),
    ("delay_ns 0", "0000000000000000476a8498ad600600", 0, 1_795_148_564_687_431, true),
    ("delay_ns 2", "02000000000000005c6e8498ad600600", 2, 1_795_148_564_688_476, true),
    ("max2000 0", "0000000000000000ba94bb98ad6006000000", 0, 1_795_148_568_302_778, true),
    ("veth 2", "020000000000000012cee398ad6006005445", 2, 1_795_148_570_938_898, true),
];

#[test]
fn captured_datagrams_are_understood_and_made_alike() {
    for &(name, hex, number, stamp_us, wall) in CAPTURED {
        let bytes = unhex(hex);
        let header = Header::decode(&bytes).unwrap();
        assert_eq!(header, Header { number, stamp_us }, "{name}");
        assert_eq!(is_wall(header.stamp_us), wall, "{name}");
        assert_eq!(header.encode(), bytes[..HEADER], "{name}");
        for short in 0..HEADER {
            assert_eq!(Header::decode(&bytes[..short]), None, "{name} {short}");
        }
    }
}

fn phase(size: u32, rate: u64, seconds: u64) -> Phase {
    Phase {
        kind: Kind::Delay,
        connections: 1,
        iterations: Some(1),
        rate: Some(rate),
        duration_ns: Some(seconds * SECOND),
        buffer: Range::just(64 * 1024),
        probe: Some(Probe { size, ..Probe::default() }),
        sockets: SocketSettings { gso: false, ..SocketSettings::default() },
        ..Phase::default()
    }
}

/// Runs clients over a link until they are done, then the server until it is: what they told, and
/// every datagram that came.
fn run_with(
    seed: u64,
    link: Link,
    (answers, quirks): (Answers, Quirks),
    phases: &[Phase],
) -> (Told, Vec<Told>, Vec<DatagramRow>) {
    let mut net = Network::new(seed);
    net.datagram_links(link, Link::new());
    let phase = Phase { duration_ns: None, ..phase(16, 1_000, 1) };
    let answers = Answers { workers: 1, arrivals: true, ..answers };
    let acceptors = acceptors(&phase, &answers);
    let server = serve_with(&mut net, 1, phase, acceptors, false);
    net.quirks(server, quirks);
    let call = |(n, phase): (u32, &Phase)| {
        let calls = Calls { servers: common::Servers::at([address(1)]), workers: 1, ..Calls::default() };
        call_with(&mut net, n, 1, phase, bwdelaytester::connectors(phase, &calls), false)
    };
    let clients: Vec<Host> = (1..).zip(phases).map(call).collect();
    net.run();
    net.run_until(net.now.plus(2 * SECOND));
    let now = net.now;
    net.stop_at(server, now);
    net.run_until(now.plus(SECOND));
    let rows = net.events(server).iter().flat_map(|(_, event)| DatagramRow::rows(event)).collect();
    (told(&net, server), clients.iter().map(|&client| told(&net, client)).collect(), rows)
}

fn run(seed: u64, link: Link, phases: &[Phase]) -> (Told, Vec<Told>, Vec<DatagramRow>) {
    run_with(seed, link, (Answers::default(), Quirks::default()), phases)
}

fn counts(told: &Told) -> Packets {
    told.local().packets.as_ref().expect("datagrams are counted").counts
}

/// What became of one sender's numbers, by definition: lost below the highest, repeats, numbers
/// below one that came before.
fn slow(rows: &[DatagramRow]) -> (u64, u64, u64, u64) {
    let (mut came, mut highest, mut again, mut below) = (HashSet::new(), None, 0, 0);
    for row in rows {
        if !came.insert(row.number) {
            again += 1;
        } else if highest.is_some_and(|highest| row.number < highest) {
            below += 1;
        }
        highest = highest.max(Some(row.number));
    }
    let unique = came.len() as u64;
    let first = rows.iter().map(|row| row.number).min().unwrap_or(0);
    (unique, highest.map_or(0, |highest| highest + 1 - first) - unique, again, below)
}

#[test]
fn a_known_delay_is_measured_and_every_datagram_accounted_for() {
    // 1000 bytes at 8 Mbit/s: a thousand a second.
    let (there, here, rows) = run(3, Link::new().delay(5 * MS), &[phase(1_000, 8_000_000, 2)]);
    assert_eq!(here[0].status(), Status::Complete);
    let sent = counts(&here[0]).sent;
    assert!((2_000..=2_001).contains(&sent), "{sent}");
    let found = counts(&there);
    assert_eq!((found.received, found.lost, found.duplicated, found.reordered), (sent, 0, 0, 0));
    assert_eq!(there.local().traffic.rx_bytes, sent * 1_000);
    assert_eq!((there.local().opened, rows.len() as u64), (1, sent));
    assert!(rows.iter().enumerate().all(|(n, row)| row.number == n as u64 && row.bytes == 1_000));
    // The stamp has whole microseconds.
    let delay = there.local().packets.as_ref().unwrap().delay_ns.clone().unwrap();
    assert!(delay.min >= 5 * MS && delay.max < 5 * MS + 10_000, "{delay:?}");
    let took = |row: &DatagramRow| row.wall.0 / 1_000 - row.stamp_us as i64;
    assert!(rows.iter().all(|row| (5_000..=5_010).contains(&took(row))));
}

#[test]
fn loss_repeats_and_order_are_told_apart_on_any_network() {
    let links = [
        ("lossy", Link::new().loss(0.05)),
        ("reordering", Link::new().reorder(0.05).jitter(3 * MS)),
        ("repeating", Link::new().duplicate(0.05)),
        ("all of it", Link::new().loss(0.03).reorder(0.03).duplicate(0.03).jitter(MS)),
    ];
    for (seed, (name, link)) in (10..).zip(links) {
        let server = (Answers::default(), Quirks::rough());
        let (there, here, rows) = run_with(seed, link, server, &[phase(200, 3_200_000, 1)]);
        let (found, sent) = (counts(&there), counts(&here[0]).sent);
        let (unique, lost, again, below) = slow(&rows);
        assert_eq!(
            (found.received, found.lost, found.duplicated, found.reordered),
            (unique, lost as i64, again, below),
            "{name}"
        );
        // Loss of the last datagrams is not known to the receiver.
        assert!(unique + lost <= sent && unique + lost + 20 > sent, "{name}: {unique} and {lost} of {sent}");
        assert!(lost > 0 || !(name.contains("all") || name == "lossy"), "{name}");
        let counted = there.intervals.iter().filter_map(|i| i.packets.as_ref());
        let sum: i64 = counted.map(|packets| packets.counts.lost).sum();
        assert_eq!(sum, lost as i64, "{name}: the intervals add up");
    }
}

#[test]
fn senders_are_told_apart() {
    let phases = vec![phase(100, 400_000, 2); 5];
    let (there, _, rows) = run(4, Link::new().delay(MS).loss(0.1), &phases);
    let peers: HashSet<_> = rows.iter().map(|row| row.peer).collect();
    assert_eq!((peers.len(), there.local().opened), (5, 5));
    let of = |peer| slow(&rows.iter().filter(|row| row.peer == peer).copied().collect::<Vec<_>>());
    let lost: u64 = peers.iter().map(|&peer| of(peer).1).sum();
    assert_eq!(counts(&there).lost, lost as i64, "the original would take them for one stream");
}

#[test]
fn a_monotonic_stamp_makes_delays_relative() {
    let mut phase = phase(100, 800_000, 2);
    phase.extra = Settings { unsynchronised: true, ..Settings::default() }.extra();
    let (there, _, rows) = run(5, Link::new().delay(40 * MS).jitter(2 * MS), &[phase]);
    let stamps: Vec<u64> = rows.iter().map(|row| row.stamp_us).collect();
    assert!(stamps.iter().all(|&us| us < 1_000_000_000_000_000));
    // Two go slowly before the stream, 100 ms apart.
    assert!(stamps[1] - stamps[0] >= 100_000 && stamps[2] - stamps[1] >= 100_000, "{:?}", &stamps[..4]);
    assert!(stamps[3] - stamps[2] < 2_000);
    let packets = there.local().packets.as_ref().unwrap();
    let delay = packets.delay_ns.as_ref().unwrap();
    assert!(delay.min == 0 && delay.max <= 3 * MS, "{delay:?}");
    assert_eq!(packets.clock_bound_ns, None, "a bound would pretend that it is more");
    assert!(there.notices.iter().any(|text| text.contains("relative")), "{:?}", there.notices);
}

#[test]
fn a_sweep_rises_and_ends_by_itself() {
    let mut phase = phase(1_000, 8_000_000, 60);
    let stairs = Some(Stairs { steps: 10, step_ns: SECOND / 2 });
    phase.extra = Settings { stairs, ..Settings::default() }.extra();
    let (_, here, rows) = run(6, Link::new(), &[phase]);
    assert_eq!(here[0].status(), Status::Complete);
    assert!(here[0].end.as_ref().unwrap().0.since(metrics::Mono(0)) < 10 * SECOND);
    // Step k of 10 sends k tenths of a thousand a second for half a second: 50 k, 2750 in all.
    assert!((2_740..=2_760).contains(&rows.len()), "{}", rows.len());
}

#[test]
fn whoever_is_outside_the_fence_is_not_heard_and_named_once() {
    let streams = Acl { allow: vec!["192.0.2.0/24".parse().unwrap()], deny: vec![] };
    let server = (Answers { streams, ..Answers::default() }, Quirks::default());
    let phases = [phase(100, 800_000, 1)];
    let (there, _, rows) = run_with(7, Link::new(), server, &phases);
    assert!(rows.is_empty() && there.local().traffic.rx_bytes == 0);
    let named: Vec<_> = there.notices.iter().filter(|text| text.contains("is not heard")).collect();
    assert!(named.len() == 1 && named[0].contains(&client_ip(1).to_string()), "{named:?}");
}

#[test]
fn damaged_datagrams() {
    let phase = Phase { duration_ns: None, ..phase(16, 1_000, 1) };
    let answers = Answers { workers: 1, arrivals: true, ..Answers::default() };
    let mut acceptor: Box<dyn Acceptor> = acceptors(&phase, &answers).remove(0);
    let mut side = Side::new(1, Quirks::default());
    let mut rng = Rng::new(21);
    let mut arena = Arena::new(4_096);
    let (mut now, mut taken) = (sim::START, 0);
    for n in 0..inputs() {
        now = now.plus(rng.between(0, 50_000));
        let header = Header { number: u64::from(n / 4), stamp_us: now.0 / 1_000 };
        let mut bytes = [&header.encode()[..], &[7; 24]].concat();
        mutate(&mut rng, &mut bytes);
        let peer = ([10, 9, (n % 7) as u8, rng.between(0, 180) as u8], 9).into();
        let path = Path { peer, local: address(1) };
        let got = Received { from: Some(path), ..Received::stream(&bytes, now) };
        let mut reply = Transmit::new(&mut arena, bytes.len());
        assert!(acceptor.on_unsolicited(&mut side.cx(now), &got, &mut reply).is_none());
        assert!(reply.is_empty(), "a receiver never answers");
        let again = acceptor.on_timer(&mut side.cx(now));
        assert!(again.is_none_or(|at| at > now));
        for message in side.outbox.drain(..) {
            if let Ok(common::message::SharedMessage::Result(event)) = message.downcast().map(|told| *told) {
                taken += DatagramRow::rows(&event()).len();
            }
        }
    }
    acceptor.stop();
    acceptor.on_timer(&mut side.cx(now));
    let tally = side.rec.take_tally(Group(1));
    let counts = tally.packets.as_ref().unwrap().counts;
    assert!(
        counts.received > u64::from(inputs() / 50) && counts.corrupt > u64::from(inputs() / 10),
        "{counts:?}"
    );
    assert!(
        tally.opened >= u64::from(inputs() / 1_000) && taken > inputs() as usize / 2,
        "{} {taken}",
        tally.opened
    );
}
