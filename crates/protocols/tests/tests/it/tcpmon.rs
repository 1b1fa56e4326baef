//! tcpmon's messages as the originals sent them, both ends in virtual time, and damaged heads.

use crate::support::bench::{Bench, inputs, last_news, mutate, vectors};
use crate::support::ran;
use common::host::Host;
use metrics::SECOND;
use model::Phase;
use sim::{Link, Pair, Quirks};
use transport::{Flow, FlowEvent, Path, Rng};
use udpmon::blocks::decode_cpus;
use udpmon::codec::Block;
use udpmon::tcpmon::codec::{Command, Head, PARAM, answer, decode, decode_counts, encode};
use udpmon::tcpmon::{Plan, Requester, Responder};
use udpmon::{PacketTest, PacketTestCounts, PacketTestRecords, PacketTestSettings};
use uuid::Uuid;

const VECTORS: &str = include_str!("vectors/tcpmon.txt");

fn head(bytes: &[u8]) -> &[u8; PARAM] {
    bytes.first_chunk().unwrap()
}

#[test]
fn heads_of_the_originals() {
    let v = vectors(VECTORS);
    for (name, command, frame, length) in [
        ("data_0", Command::Data, 0, 1000),
        ("data_3", Command::Data, 3, 1000),
        ("getstats", Command::Stats, 39, 144),
        ("getnetsnmp", Command::Fetch(Block::Net), 39, 144),
        ("getnicstats", Command::Fetch(Block::FlowId), 39, 144),
        ("getcpuload", Command::Fetch(Block::Cpu), 39, 144),
    ] {
        let found = decode(head(&v[name]));
        assert_eq!((found.command, found.length), (command, length), "{name}");
        if command == Command::Data {
            assert_eq!(found.frame, frame, "{name}");
        }
        let again = decode(&encode(&found, 5, 144));
        assert_eq!(again, found);
    }
    // As printed: num_recv 40, bytes_recv 40000, recv_time 12011.
    let counts =
        PacketTestCounts { received: 40, bytes: 40_000, span: 120_110, ..PacketTestCounts::default() };
    assert_eq!(decode_counts(head(&v["stats"])), counts);
    assert_eq!(decode_counts(&answer(head(&v["getstats"]), &counts)), counts);
    // As printed: "R ; 60; 0; 39; 0; 0; 0; 11".
    let cpus = decode_cpus(&v["cpus"]);
    assert_eq!((cpus.len(), cpus[0].user, cpus[0].system, cpus[0].softirq), (3, 60, 39, 11));
}

fn pair(transfer: u64, message: u32) -> Pair {
    let plan = Plan::plain(message, transfer, None, 15 * SECOND);
    let client = Requester::new(plan, Uuid::from_u128(1), 0);
    let server = Responder::new(&Host::default(), Uuid::from_u128(2), 15 * SECOND, 64 * 1024);
    Pair::stream(Box::new(client), Box::new(server))
}

#[test]
fn both_ends_agree_whatever_the_kernels_cut() {
    for quirks in [Quirks::default(), Quirks::one_byte_reads(), Quirks::tiny_sends(), Quirks::rough()] {
        for (transfer, message, bytes) in
            [(1, 144, 144), (3_000, 1_000, 3_000), (3_001, 1_000, 4_000), (50_000, 145, 50_025)]
        {
            let run = ran(pair(transfer, message).quirks(quirks).both(Link::new().delay(1_000_000)));
            assert!(run.ends[0].completed(), "{message}: {:?}", run.ends[0].ended);
            assert!(run.ends[1].completed(), "{message}: {:?}", run.ends[1].ended);
            assert_eq!(
                (run.ends[0].counts.tx_bytes, run.ends[1].counts.rx_bytes),
                (bytes, bytes),
                "{transfer} {message}"
            );
        }
    }
}

#[test]
fn a_run_that_is_stopped_ends_behind_a_whole_message() {
    let run = ran(pair(1 << 40, 1_000).both(Link::new().delay(1_000_000).rate(8_000_000)).stop(0, SECOND));
    let sent = run.ends[0].counts.tx_bytes;
    assert!(sent > 0 && sent.is_multiple_of(1_000) && sent == run.ends[1].counts.rx_bytes, "{sent}");
    assert_eq!(format!("{:?}", run.ends[0].ended), "Some(Ok(Stopped))");
}

#[test]
fn a_message_that_is_due_later_is_no_stall_although_it_is_told_how_the_test_stands() {
    let asked = PacketTestSettings {
        size: 1_000,
        packets: 3,
        // 20 s, in tenths of a microsecond.
        waits: vec![200_000_000],
        every_ns: Some(SECOND),
        ..PacketTestSettings::default()
    };
    let phase = Phase { extra: asked.extra(), stall_ns: 5 * SECOND, ..Phase::default() };
    let client = Requester::new(Plan::of(&phase, Host::default()), Uuid::from_u128(1), 0);
    let server = Responder::new(&Host::default(), Uuid::from_u128(2), 100 * SECOND, 64 * 1024);
    let run = ran(Pair::stream(Box::new(client), Box::new(server)).both(Link::new().delay(1_000_000)));
    assert!(run.ends[0].completed(), "{:?}", run.ends[0].ended);
    assert_eq!(run.ends[1].counts.rx_bytes, 3_000);
}

#[test]
fn damaged_talks_do_no_harm() {
    let (mut bench, mut rng) = (Bench::new(31), Rng::new(32));
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    let good: Vec<u8> = [Command::Data, Command::Stats, Command::Fetch(Block::FlowId), Command::Data]
        .iter()
        .enumerate()
        .flat_map(|(n, command)| {
            let length = if *command == Command::Data { 200 } else { 144 };
            let mut bytes = encode(&Head { command: *command, frame: n as i64, length }, 7, 144).to_vec();
            bytes.resize(length as usize, 9);
            bytes
        })
        .collect();
    let mut content = 0;
    for _ in 0..inputs() / 10 {
        let mut bytes = good.clone();
        mutate(&mut rng, &mut bytes);
        let mut flow = Responder::new(&Host::default(), Uuid::nil(), SECOND, 4_096);
        let now = bench.now;
        let Bench { rec, rng: chance, clock, outbox, .. } = &mut bench;
        flow.on_event(&mut transport::Context::new(now, clock, chance, rec, outbox), FlowEvent::Up(path))
            .unwrap();
        content += u32::from(bench.feed(&mut flow, &bytes, last_news(&mut rng)));
        let row = flow.id().row.unwrap();
        assert!(bench.rec.life(row).0.rx_bytes <= bytes.len() as u64 + 144);
        bench.rec.close(row);
    }
    assert!(content > 0);
    for _ in 0..inputs() {
        let mut bytes = good[..PARAM].to_vec();
        mutate(&mut rng, &mut bytes);
        bytes.resize(PARAM, 0);
        let found = decode(head(&bytes));
        assert!(found.length >= PARAM as u64);
        let _ = decode_counts(head(&bytes));
    }
}

#[test]
fn a_test_asks_for_everything() {
    let records = PacketTestRecords::Packets { skip: 78, n: 5 };
    let asked = PacketTestSettings {
        size: 1000,
        packets: 40,
        waits: vec![1000],
        bursts: 2,
        gap: 5_000,
        histograms: true,
        records,
        ..PacketTestSettings::default()
    };
    let phase = Phase { extra: asked.extra(), ..Phase::default() };
    assert_eq!(phase.check(), Ok(()));
    let client = Requester::new(Plan::of(&phase, Host::default()), Uuid::from_u128(1), 0);
    let server = Responder::new(&Host::default(), Uuid::from_u128(2), 15 * SECOND, 64 * 1024);
    let run = ran(Pair::stream(Box::new(client), Box::new(server)).both(Link::new().delay(1_000_000)));
    assert!(run.ends[0].completed(), "{:?}", run.ends[0].ended);
    let Some(test) = crate::support::told(&run.ends[0].side.outbox).find_map(PacketTest::from_event) else {
        panic!()
    };
    let counts = test.counts.unwrap();
    assert_eq!((test.sent, counts.received, counts.bytes), (80, 80, 80_000));
    // Each took some time, of the last two of 80 it is told one by one: they were begun 3.8 and 3.9
    // ms behind their burst.
    let taken = test.gaps.as_ref().unwrap();
    assert_eq!(taken.count() + taken.over, 80);
    let begun: Vec<u64> = test.puts.iter().map(|put| put.at_ns / 100_000).collect();
    assert_eq!(begun, [38, 39], "{:?}", test.puts);
    // The watch of the original starts with the second burst and stops when its last message is
    // begun.
    assert!((3_900_000..3_950_000).contains(&test.last_burst_ns), "{}", test.last_burst_ns);
    // 80 messages 100 µs apart and a gap of 500 µs; the responder's clock begins with the end of
    // the first. The simulated host wakes up to 30 µs late.
    assert!((84_000..84_300).contains(&counts.span), "{counts:?}");
}
