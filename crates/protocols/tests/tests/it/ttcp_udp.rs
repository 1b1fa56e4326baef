//! ttcp over datagrams: the sequence as captured, both ends in virtual time over good and bad
//! paths, and damaged datagrams.

use crate::support::run::{MS, Told, address, call_with, client_ip, network, portions, serve_with, told};
use common::bulk::{Marks, Word};
use common::one_sided::{Answers, Calls};
use metrics::{Mono, SECOND};
use model::{Event, Kind, Level, Phase, Probe, Range, SocketSettings, Status, Verify};
use sim::{At, Cut, Host, Link, Network, Quirks, START, Side};
use transport::{Arena, FlowEvent, Open, Path, Received, Rng, Sent, Transmit};
use ttcp::{Deed, Marked, Test, connectors};

fn phase(buffers: u64, length: u64) -> Phase {
    Phase {
        kind: Kind::Delay,
        connections: 1,
        iterations: Some(1),
        transfer: buffers * length,
        buffer: Range::just(length),
        duration_ns: Some(3600 * SECOND),
        verify: Verify::Connection,
        probe: Some(Probe { size: (length as u32).max(16), ..Probe::default() }),
        sockets: SocketSettings { gso: false, ..SocketSettings::default() },
        stall_ns: 10 * SECOND,
        ..Phase::default()
    }
}

/// What a sender's datagrams are: their lengths and first four bytes.
fn sequence(marks: Marks, buffers: u64, length: u64) -> Vec<(usize, Vec<u8>)> {
    let phase = phase(buffers, length);
    let calls = Calls { servers: common::Servers::at([address(1)]), workers: 1, marks, ..Calls::default() };
    let mut connector = connectors(&phase, &calls).remove(0);
    let (mut side, mut now) = (Side::new(1, Quirks::default()), Mono(1));
    let Open::Datagram(mut flow, _) = connector.open(&mut side.cx(now)) else { panic!("no datagrams") };
    let path = Path { peer: address(1), local: (client_ip(1), 9).into() };
    flow.on_event(&mut side.cx(now), FlowEvent::Up(path)).unwrap();
    let mut arena = Arena::new(1 << 17);
    let mut sent = Vec::new();
    while flow.interest().end.is_none() && sent.len() < 1_000 {
        now = now.plus(SECOND / 10);
        let mut burst = Transmit::new(&mut arena, 65_507).datagrams(64);
        flow.prepare_send(&mut side.cx(now), &mut burst);
        let bytes: Vec<u8> = burst.slices().flatten().copied().collect();
        flow.on_sent(&mut side.cx(now), Sent { bytes: bytes.len(), fault: None });
        sent.push((bytes.len(), bytes[..bytes.len().min(8)].to_vec()));
    }
    sent
}

#[test]
fn a_sender_s_datagrams_are_those_of_the_capture() {
    // ttcp_udp.pcap, ttcp -t -u -s -l 512 -n 20: lengths and first bytes of all 26 datagrams.
    let marker = (4, vec![0x20, 0x21, 0x22, 0x23]);
    let data = (512, vec![0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27]);
    let mut captured = vec![marker.clone()];
    captured.extend(vec![data; 20]);
    captured.extend(vec![marker; 5]);
    assert_eq!(sequence(Marks::Classic, 20, 512), captured);
    // epi_ttcp by its description: the number of each buffer modulo 256, and how many there were.
    let sent = sequence(Marks::Epi, 300, 100);
    assert_eq!(sent.len(), 4 + 300 + 4);
    assert!(sent[..4].iter().all(|one| *one == (4, vec![1, 2, 3, 4])));
    for (n, (length, first)) in sent[4..304].iter().enumerate() {
        assert_eq!((*length, first[0], first[1]), (100, (n % 256) as u8, 0x21));
    }
    assert!(sent[304..].iter().all(|one| *one == (8, vec![2, 2, 2, 2, 0, 0, 1, 44])), "{:?}", sent[304]);
}

fn serve(net: &mut Network) -> Host {
    let phase = phase(1, 8_192);
    let answers = Answers { exit_after: Some(1), workers: 1, arrivals: true, ..Answers::default() };
    let acceptors = ttcp::acceptors(&phase, &answers);
    serve_with(net, 1, phase, acceptors, true)
}

fn call(net: &mut Network, n: u32, phase: &Phase, marks: Marks) -> Host {
    let calls = Calls {
        servers: common::Servers::at([address(1)]),
        workers: 1,
        marks,
        arrivals: true,
        ..Calls::default()
    };
    call_with(net, n, 1, phase, connectors(phase, &calls), true)
}

/// What a receiver says of the first test that is over.
fn marked(net: &Network, host: Host) -> Marked {
    net.events(host).iter().find_map(|(_, event)| Marked::read(event)).expect("a result")
}

fn finish(net: &mut Network, hosts: [Host; 2]) -> [Told; 2] {
    net.run();
    net.run_until(net.now.plus(60 * SECOND));
    hosts.map(|host| told(net, host))
}

#[test]
fn both_ends_agree_over_a_clean_path() {
    for (seed, marks, around) in [(1, Marks::Classic, 2), (2, Marks::Epi, 5)] {
        let mut net = network(seed);
        net.datagram_links(Link::new().delay(MS).rate(10_000_000), Link::new().delay(MS));
        let server = serve(&mut net);
        let client = call(&mut net, 1, &Phase { rate: Some(4_000_000), ..phase(40, 1_000) }, marks);
        for told in finish(&mut net, [client, server]) {
            let found = (told.status(), told.reason(), told.local().opened);
            assert_eq!(found, (Status::Complete, "", 1), "{marks:?}");
        }
        let (tx, rx) = (portions(&net, client), portions(&net, server));
        assert_eq!((tx.len(), rx.len()), (1, 1));
        assert_eq!((tx[0].tx_bytes, rx[0].rx_bytes, rx[0].calls), (40_000, 40_000, 40 + around));
        let all = u64::from(marks.starts() + marks.ends());
        assert_eq!(tx[0].calls, 40 + all);
        // 39 gaps of 2 ms, and what lies between the markers and the data.
        for portion in [tx[0], rx[0]] {
            let ns = portion.to_ns - portion.from_ns;
            assert!((78 * MS..90 * MS).contains(&ns), "{marks:?} {ns}");
        }
        let marked = marked(&net, server);
        let starts = u64::from(marks.starts());
        let told = (marks == Marks::Epi).then_some(40);
        assert_eq!(marked, Marked { data: 40, starts, ends: 1, told, ..Marked::default() });
    }
}

#[test]
fn what_epi_lost_is_what_the_path_lost() {
    let mut net = network(4);
    let rough = Link::new().delay(5 * MS).loss(0.05).duplicate(0.05).reorder(0.05).jitter(MS);
    net.datagram_links(rough.clone(), rough);
    let server = serve(&mut net);
    let client = call(&mut net, 1, &Phase { rate: Some(8_000_000), ..phase(3_000, 1_000) }, Marks::Epi);
    finish(&mut net, [client, server]);
    let rx = portions(&net, server)[0];
    let marked = marked(&net, server);
    assert_eq!(marked.told, Some(3_000), "{rx:?}");
    assert!(marked.repeated > 0 && marked.reordered > 0, "{marked:?}");
    // Losses are the reported number less the different ones received, repeats or not: 5 % of 3,000
    // and some.
    let lost = 3_000 - (marked.data - marked.repeated);
    let counts = told(&net, server).local().packets.as_ref().unwrap().counts;
    assert_eq!((counts.lost, counts.received), (lost as i64, marked.data));
    assert!((100..200).contains(&lost), "{lost}");
}

#[test]
fn whatever_marker_is_lost_a_test_ends() {
    // Of a start, ten buffers and five ends: which are lost, and what is found.
    type Case = (&'static str, fn(usize) -> bool, u64);
    let cases: [Case; 3] = [
        ("the start", |n| n == 0, 10),
        ("all ends but the last", |n| (11..15).contains(&n), 10),
        ("the start and all data but one", |n| n < 10, 1),
    ];
    for (name, lost, data) in cases {
        let mut test = Test::default();
        let mut deeds = Vec::new();
        for (n, (length, first)) in sequence(Marks::Classic, 10, 512).into_iter().enumerate() {
            let datagram = [first, vec![b'x'; 512]].concat();
            if !lost(n) && deeds.last() != Some(&Deed::Over) {
                deeds.push(test.take(&datagram[..length], Mono(n as u64)));
            }
        }
        assert_eq!(
            (deeds.last(), test.marked.data, test.bytes),
            (Some(&Deed::Over), data, data * 512),
            "{name}"
        );
    }
}

#[test]
fn a_receiver_tells_tests_apart_by_their_order() {
    let marker = [0x20, 0x21, 0x22, 0x23];
    let data = [b' '; 100];
    let mut test = Test::default();
    // An end that a former test has left is the start of nothing: the next one begins anew.
    assert_eq!(test.take(&marker, Mono(1)), Deed::Marker);
    assert_eq!(test.take(&marker, Mono(5)), Deed::Marker);
    assert_eq!(test.take(&data, Mono(9)), Deed::Data);
    assert_eq!(test.take(&marker, Mono(20)), Deed::Over);
    assert_eq!((test.since, test.last, test.bytes), (Mono(5), Mono(20), 100));
    // Without a start time begins with the data, and the first marker is the end.
    let mut test = Test::default();
    assert_eq!((test.take(&data, Mono(7)), test.take(&marker, Mono(9))), (Deed::Data, Deed::Over));
    assert_eq!((test.since, test.last), (Mono(7), Mono(9)));
    // epi_ttcp: a start after data is another test's, an end before any is ignored.
    let mut test = Test::default();
    assert_eq!(test.take(&Marks::Epi.end(5), Mono(1)), Deed::Stray);
    assert_eq!(test.take(Marks::Epi.start(), Mono(2)), Deed::Marker);
    assert_eq!((test.take(&data, Mono(3)), test.take(Marks::Epi.start(), Mono(4))), (Deed::Data, Deed::Next));
    // A datagram without a byte ends the original; here it is a marker like any that is short.
    assert_eq!(test.take(&[], Mono(5)), Deed::Over);
}

#[test]
fn an_end_that_is_lost_is_waited_for_as_long_as_was_said() {
    let mut net = network(4);
    // Behind the first second everything is lost: the data comes, no end does.
    let cut = Link::new().delay(MS).cut(At::Time(net.now.plus(SECOND)), Cut::Silence);
    net.datagram_links(cut, Link::new().delay(MS));
    let server = serve(&mut net);
    let client = call(&mut net, 1, &Phase { rate: Some(800_000), ..phase(200, 1_000) }, Marks::Classic);
    let [_, there] = finish(&mut net, [client, server]);
    assert_eq!((there.status(), there.local().opened), (Status::Complete, 1));
    let rx = portions(&net, server)[0];
    // A datagram every 10 ms for a second.
    assert!((98..=101).contains(&marked(&net, server).data), "{rx:?}");
    assert!(rx.to_ns - rx.from_ns <= SECOND, "{rx:?}");
    let warned = |(_, event): &(Mono, Event)| matches!(event, Event::Notice { level: Level::Warning, text } if text.starts_with("no end arrived from"));
    assert!(net.events(server).iter().any(warned));
}

#[test]
fn tests_without_data_give_way_to_new_ones() {
    const MARKER: &[u8] = &[0x20, 0x21, 0x22, 0x23];
    const DATA: &[u8] = &[7; 100];
    let answers = Answers { workers: 1, ..Answers::default() };
    let mut acceptor = ttcp::acceptors(&phase(1, 100), &answers).remove(0);
    let (mut side, mut arena) = (Side::new(1, Quirks::default()), Arena::new(0));
    let mut say = |port: u16, bytes: &[u8]| {
        let at = START.plus(u64::from(port));
        let path = Path { peer: ([10, 0, 0, 2], port).into(), local: address(1) };
        let got = Received { from: Some(path), ..Received::stream(bytes, at) };
        let mut reply = Transmit::new(&mut arena, 0);
        assert!(acceptor.on_unsolicited(&mut side.cx(at), &got, &mut reply).is_none());
    };
    // As many as there may be at once.
    for port in 1..=256 {
        say(port, MARKER);
    }
    for bytes in [MARKER, DATA, MARKER] {
        say(257, bytes);
    }
    let rated: Vec<u64> = crate::support::told(&side.outbox)
        .filter_map(|event| if let Event::Portion(portion) = event { Some(portion.rx_bytes) } else { None })
        .collect();
    assert_eq!(rated, [100]);
}

#[test]
fn nobody_there_is_a_failure() {
    let mut net = network(5);
    net.datagram_links(Link::new().refuse(1.0), Link::new());
    let client = call(&mut net, 1, &phase(2_000, 1_000), Marks::Classic);
    net.run();
    net.run_until(net.now.plus(60 * SECOND));
    let told = told(&net, client);
    assert_eq!(told.local().errors(), 1, "{:?}", told.local());
}

#[test]
fn whatever_comes_a_test_adds_up() {
    let mut rng = Rng::new(77);
    for _ in 0..2_000 {
        let mut test = Test::default();
        let (mut bytes, mut data) = (0, 0);
        for at in 1..500 {
            let n = rng.between(0, 12) as usize;
            let datagram: Vec<u8> = (0..n).map(|_| (rng.next() % 5) as u8).collect();
            let before = test.marked;
            match test.take(&datagram, Mono(at)) {
                Deed::Data => {
                    assert_eq!(Word::of(&datagram), Word::Data);
                    (bytes, data) = (bytes + n as u64, data + 1);
                }
                Deed::Next | Deed::Stray => assert_eq!(test.marked, before),
                Deed::Over => break,
                Deed::Marker => assert_eq!(before.data, 0),
            }
        }
        assert_eq!((test.bytes, test.marked.data), (bytes, data));
        assert!(test.last >= test.since);
    }
}
