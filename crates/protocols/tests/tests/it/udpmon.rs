//! UDPmon's messages as the originals sent them, and our responder against damaged ones.

use crate::support::bench::{inputs, mutate, vectors};
use common::host::{Host, HostReader, HostTexts, PendingTexts};
use common::one_sided::Answers;
use metrics::{Binned, Mono, SECOND};
use model::{Kind, Phase};
use sim::{Quirks, Side};
use std::sync::{Arc, Mutex};
use transport::{Acceptor, Arena, Context, Flow, FlowEvent, Path, Received, Rng, Sent, Transmit, When};
use udpmon::acceptors;
use udpmon::blocks::{
    decode_card, decode_cpus, decode_histogram, decode_lost, decode_net, decode_records, encode_card,
    encode_cpus, encode_histogram, encode_lost, encode_net, encode_records,
};
use udpmon::codec::{
    Block, Message, Setup, answer, decode, decode_counts, encode, encode_counts, response, write_data,
};
use udpmon::proc::between;
use udpmon::{PacketTestCounts, PacketTestCpu, PacketTestRecord, PacketTestSettings};

const VECTORS: &str = include_str!("vectors/udpmon.txt");

fn zero(message: Option<Message>) -> Setup {
    match message {
        Some(Message::Zero(setup) | Message::Start(setup)) => setup,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_of_the_originals() {
    let v = vectors(VECTORS);
    let plain = Setup { bin_width: 5, ..Setup::default() };
    assert_eq!(zero(decode(&v["zerostats"])), plain);
    let records = Setup { record_bytes: 640, bin_width: 1, skip: 5, ..Setup::default() };
    assert_eq!(zero(decode(&v["zerostats_records"])), records);
    assert_eq!(zero(decode(&v["start"])), records);
    let lost = zero(decode(&v["zerostats_lost"]));
    assert_eq!((lost.record_bytes, lost.log_lost), (240, 1));
    assert_eq!(zero(decode(&v["zerostats_stamps"])).stamps, 1);
    // udpmon_req leaves arbitrary bytes in fields that it does not know.
    let request = zero(decode(&v["req_zerostats"]));
    assert_ne!(request.stamps, 0);
    let data = |name: &str| match decode(&v[name]) {
        Some(Message::Data { frame, sent }) => (frame, sent),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!((data("data_0"), data("data_3")), ((0, 0x1112), (3, 0x136b)));
    assert_eq!(data("send_data_0"), (0, 0));
    assert_eq!(decode(&v["req_resp"]), Some(Message::Ask { frame: 1, length: 64 }));
    let Some(Message::Ask { frame: 0, .. }) = decode(&v["req_request"]) else { panic!() };
    assert_eq!(decode(&v["getstats"]), Some(Message::Stats));
    for (name, block, index, length) in [
        ("gethist_0", Block::Histogram(0), 0, 1400),
        ("gethist_last", Block::Histogram(0), 7000, 1064),
        ("getnetsnmp_last", Block::Net, 26_600, 288),
        ("getcpuload_0", Block::Cpu, 0, 1400),
        ("getnicstats", Block::FlowId, 0, 136),
        ("getinfo", Block::Records, 0, 640),
        ("getinfo_lost", Block::Records, 0, 240),
    ] {
        assert_eq!(decode(&v[name]), Some(Message::Fetch { block, index, length }), "{name}");
    }
    assert_eq!(decode(&v["testend"]), Some(Message::End));
}

#[test]
fn answers_of_the_originals() {
    let v = vectors(VECTORS);
    for name in ["zerostats_ok", "start_ok", "testend_ok"] {
        assert_eq!(decode(&v[name]), Some(Message::Ok { version: 7 }), "{name}");
    }
    assert_eq!(decode(&v["inuse"]), Some(Message::Busy { version: 7 }));
    // To a byte: the request with another head.
    assert_eq!(answer(&v["zerostats"]), v["zerostats_ok"]);
    let Some(Message::Response { frame: 1, time }) = decode(&v["response"]) else { panic!() };
    assert_eq!(response(&v["req_resp"], 64, time), v["response"]);
    let counts = PacketTestCounts { received: 60, span: 11_336, ..PacketTestCounts::default() };
    assert_eq!(decode_counts(&v["stats"]), Some(counts));
    assert_eq!(decode_counts(&encode_counts(&counts)), Some(counts));
}

#[test]
fn blocks_of_the_originals() {
    let v = vectors(VECTORS);
    // As printed beside it: "counts 59 mean 191.49 underflows 0 overflows 1".
    let hist = decode_histogram(&v["histogram_0"]).unwrap();
    assert_eq!(
        (hist.low, hist.width, hist.bins.len(), hist.count(), hist.under, hist.over),
        (0, 5, 150, 59, 0, 1)
    );
    assert_eq!((hist.sum, hist.bins[40], hist.bins[133]), (11_298, 21, 1));
    assert_eq!(encode_histogram(0, "Time between frames 0.1us", &hist), v["histogram_0"]);
    // As printed: num_in_hist 59, mean 191.492, sigma 79.6944, skew 3.00225, kurtosis 141545,
    // median 195, quartiles 195, 200.
    let shape = hist.shape_as_original();
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-5;
    assert!(
        close(shape.mean, 191.492) && close(shape.sigma, 79.6944) && close(shape.skew, 3.00225),
        "{shape:?}"
    );
    assert!(close(shape.kurtosis, 141_545.0), "{shape:?}");
    assert_eq!((shape.median, shape.q1, shape.q3), (195, 195, 200));

    let (start, stop) = decode_net(&v["net"]).unwrap();
    let host = between(&start, &stop, false);
    // As printed: "R if;    lo: ; 62; 62152; 0; 0; 62; 62152; 0; 0;" and "R snmp; 62; 0; 62; 0; 62;
    // 0; 62".
    assert_eq!(
        (host.interfaces[0].name.as_str(), host.interfaces[0].counts),
        ("lo", [62, 62_152, 0, 0, 62, 62_152, 0, 0])
    );
    let ip = host.ip;
    assert_eq!([ip.in_receives, ip.in_discards, ip.out_requests, ip.out_discards], [62, 0, 62, 0]);
    assert_eq!([ip.udp_in, ip.udp_in_errors, ip.udp_out], [62, 0, 62]);
    let again = encode_net(&start, &stop, false);
    assert_eq!((again.len(), decode_net(&again).unwrap()), (v["net"].len(), (start, stop)));

    // As printed: "R ; 4; 0; 9; 85; 0; 0; 0; ;R0 ; 6; 0; 8; 84; …;R1 ; 4; 0; 9; 87; …"
    let cpus = decode_cpus(&v["cpus"]);
    let row =
        |user, system, idle| PacketTestCpu { user, system, idle, kernel: system, ..PacketTestCpu::default() };
    assert_eq!(cpus, [row(4, 9, 85), row(6, 8, 84), row(4, 9, 87)]);
    assert_eq!(encode_cpus(&cpus), v["cpus"]);
    assert_eq!(decode_card(&v["card"]), None);
    assert_eq!(encode_card(None), v["card"]);

    let records = decode_records(&v["records"]);
    assert_eq!(records.len(), 20);
    assert_eq!(records[0], PacketTestRecord { received: 79_226, sent: 77_145, system_ns: 0, raw_ns: 0 });
    assert_eq!(encode_records(&records), v["records"]);
}

#[test]
fn what_we_ask_for_is_what_the_originals_ask_for() {
    let v = vectors(VECTORS);
    for name in [
        "zerostats",
        "zerostats_records",
        "start",
        "req_resp",
        "getstats",
        "gethist_last",
        "getinfo",
        "testend",
    ] {
        let message = decode(&v[name]).unwrap();
        let ours = encode(&message, v[name].len());
        assert_eq!((decode(&ours), ours.len()), (Some(message), v[name].len()), "{name}");
        // The first message of all has version 0, as the original's; a request has an arbitrary
        // one.
        assert!(name == "req_resp" || ours[4..8] == v[name][4..8], "{name}");
    }
    let mut data = v["data_3"].clone();
    write_data(&mut data, 3, 0x136b);
    assert_eq!(data, v["data_3"]);
    let lost =
        decode_lost(&encode_lost(&[udpmon::PacketTestLost { received: 97_698, sent: 91_164, number: 10 }]));
    assert_eq!(lost[0].number, 10);
}

/// A responder that has just had its first datagram.
struct Room {
    side: Side,
    now: Mono,
}

impl Room {
    fn new() -> Self {
        Room { side: Side::new(3, Quirks::default()), now: Mono(SECOND) }
    }

    fn cx(&mut self) -> Context<'_> {
        self.now = self.now.plus(1_000);
        self.side.cx(self.now)
    }

    /// Gives the flow a datagram, and takes what it answers.
    fn say(&mut self, flow: &mut dyn Flow, bytes: &[u8]) -> Vec<u8> {
        let mut none = Arena::new(0);
        let batch = Received::stream(bytes, self.now);
        flow.on_received(&mut self.cx(), &batch, &mut Transmit::new(&mut none, 0)).unwrap();
        self.hear(flow)
    }

    fn hear(&mut self, flow: &mut dyn Flow) -> Vec<u8> {
        if flow.interest().send != When::Now {
            return Vec::new();
        }
        let mut arena = Arena::new(70_000);
        let mut burst = Transmit::new(&mut arena, 65_507);
        flow.prepare_send(&mut self.cx(), &mut burst);
        let said: Vec<u8> = burst.slices().flatten().copied().collect();
        flow.on_sent(&mut self.cx(), Sent { bytes: said.len(), fault: None });
        said
    }
}

const PATH: Path = Path {
    peer: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5),
    local: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 14_233),
};

fn asked(asked: PacketTestSettings) -> Phase {
    Phase { kind: Kind::Train, extra: asked.extra(), ..Phase::default() }
}

fn listener(host: Host) -> Box<dyn Acceptor> {
    let phase = asked(PacketTestSettings::default());
    acceptors(&phase, &Answers { workers: 1, host, ..Answers::default() }).remove(0)
}

fn responder(room: &mut Room, first: &[u8]) -> Box<dyn Flow> {
    responder_on(room, first, Host::default())
}

fn responder_on(room: &mut Room, first: &[u8], host: Host) -> Box<dyn Flow> {
    let mut listener = listener(host);
    let mut none = Arena::new(0);
    let batch = Received { from: Some(PATH), ..Received::stream(first, room.now) };
    let mut flow = listener.on_unsolicited(&mut room.cx(), &batch, &mut Transmit::new(&mut none, 0)).unwrap();
    flow.on_event(&mut room.cx(), FlowEvent::Up(PATH)).unwrap();
    flow
}

#[test]
fn a_captured_test_is_answered_as_the_original_did() {
    let v = vectors(VECTORS);
    let mut room = Room::new();
    let mut flow = responder(&mut room, &v["zerostats"]);
    assert_eq!(room.hear(&mut *flow), v["zerostats_ok"]);
    for frame in 0..60 {
        let mut data = v["data_3"].clone();
        write_data(&mut data, frame, 20 * frame);
        room.now = Mono(2 * SECOND + 18_000 * frame as u64);
        assert_eq!(room.say(&mut *flow, &data), [0; 0]);
    }
    let counts = decode_counts(&room.say(&mut *flow, &v["getstats"])).unwrap();
    // 59 gaps of 18 µs.
    assert_eq!(counts, PacketTestCounts { received: 60, span: 59 * 180, ..PacketTestCounts::default() });
    let first = room.say(&mut *flow, &v["gethist_0"]);
    let last = room.say(&mut *flow, &v["gethist_last"]);
    assert_eq!((first.len(), last.len()), (1400, 1064));
    assert_eq!(first[..16], v["histogram_0"][..16]);
    assert_eq!(last[1064 - 32..], v["histogram_0"][8064 - 32..]);
    let net = room.say(&mut *flow, &v["getnetsnmp_last"]);
    assert_eq!((net.len(), &net[280..]), (288, &v["net"][26_880..]));
    assert_eq!(room.say(&mut *flow, &v["getnicstats"]), v["card"]);
    assert_eq!(room.say(&mut *flow, &v["testend"])[..8], v["testend_ok"]);
}

/// A host whose counters are read when the test says so.
#[derive(Default)]
struct Slow(Mutex<Vec<PendingTexts>>);

impl HostReader for Slow {
    fn ask(&self) -> PendingTexts {
        let reading = PendingTexts::default();
        self.0.lock().unwrap().push(Arc::clone(&reading));
        reading
    }
}

/// The original reads its host before it answers: what it counts holds its answer to the first
/// request and not that to the last.
#[test]
fn the_host_is_read_before_the_answer() {
    let v = vectors(VECTORS);
    let host = Arc::new(Slow::default());
    let mut room = Room::new();
    let mut flow = responder_on(&mut room, &v["zerostats"], Host::new(host.clone()));
    let first = room.hear(&mut *flow);
    for (n, expected) in ["zerostats_ok", "stats"].into_iter().enumerate() {
        let said = if n == 0 { first.clone() } else { room.say(&mut *flow, &v["getstats"]) };
        assert_eq!((said, host.0.lock().unwrap().len()), (vec![], n + 1));
        host.0.lock().unwrap()[n].set(HostTexts::default()).unwrap();
        room.now = flow.interest().wake.unwrap().max(room.now);
        flow.on_event(&mut room.cx(), FlowEvent::Wake).unwrap();
        let said = room.hear(&mut *flow);
        assert_eq!(said.len(), v[expected].len(), "{expected}");
    }
    // One that is not read is not waited for long.
    assert_eq!(room.say(&mut *flow, &v["getstats"]), [0; 0]);
    room.now = room.now.plus(SECOND / 10);
    flow.on_event(&mut room.cx(), FlowEvent::Wake).unwrap();
    assert_eq!(room.hear(&mut *flow).len(), v["stats"].len());
}

#[test]
fn one_requester_leaves_records_for_others() {
    let v = vectors(VECTORS);
    let mut listener = listener(Host::default());
    let (mut room, mut none) = (Room::new(), Arena::new(0));
    let mut flows = Vec::new();
    for (port, record_bytes) in [(5, i32::MAX), (6, 64)] {
        let path = Path { peer: ([10, 0, 0, 1], port).into(), ..PATH };
        let first = encode(&Message::Zero(Setup { record_bytes, ..Setup::default() }), 208);
        let batch = Received { from: Some(path), ..Received::stream(&first, room.now) };
        let mut flow =
            listener.on_unsolicited(&mut room.cx(), &batch, &mut Transmit::new(&mut none, 0)).unwrap();
        flow.on_event(&mut room.cx(), FlowEvent::Up(path)).unwrap();
        room.hear(&mut *flow);
        flows.push(flow);
    }
    room.now = room.now.plus(SECOND);
    room.say(&mut *flows[1], &v["data_0"]);
    let ask = Message::Fetch { block: Block::Records, index: 0, length: 32 };
    let record = room.say(&mut *flows[1], &encode(&ask, 208));
    assert!(record.len() == 32 && record != [0; 32], "the first asked for more than all: {record:?}");
}

#[test]
fn no_request_reaches_beyond_what_there_is() {
    let v = vectors(VECTORS);
    let mut room = Room::new();
    let mut flow =
        responder(&mut room, &encode(&Message::Zero(Setup { record_bytes: 64, ..Setup::default() }), 208));
    room.hear(&mut *flow);
    for (block, whole) in
        [(Block::Histogram(0), 8064), (Block::Net, 26_888), (Block::Cpu, 12_384), (Block::FlowId, 136)]
    {
        for (index, length, expected) in [
            (0, i32::MAX, whole),
            (whole - 5, 1400, 5),
            (whole, 1400, 0),
            (-1, 1400, 0),
            (0, -1, 0),
            (i32::MAX, 9, 0),
        ] {
            let got = room.say(&mut *flow, &encode(&Message::Fetch { block, index, length }, 208));
            assert_eq!(got.len(), expected.max(0) as usize, "{block:?} {index} {length}");
        }
    }
    for (index, expected) in [(0, 64), (4, 32), (8, 0), (i32::MAX, 0), (i32::MIN, 0)] {
        let ask = Message::Fetch { block: Block::Records, index, length: 1408 };
        assert_eq!(room.say(&mut *flow, &encode(&ask, 208)), vec![0; expected]);
    }
    for number in [-1, 5, 1000, i32::MIN] {
        let ask = Message::Fetch { block: Block::Histogram(number), index: 0, length: 1400 };
        assert_eq!(room.say(&mut *flow, &encode(&ask, 208)), [0; 0]);
    }
    for (length, expected) in [(64, 64), (8000, 8000), (i32::MAX, 65_507), (-1, 0), (0, 0), (1, 1)] {
        let got = room.say(&mut *flow, &encode(&Message::Ask { frame: 1, length }, 64));
        assert_eq!(got.len(), expected);
    }
    // What killed the original: bins of no width, and a packet.
    let zero = Setup { bin_width: 0, low: i32::MIN, ..Setup::default() };
    room.say(&mut *flow, &encode(&Message::Zero(zero), 208));
    for name in ["data_0", "data_3"] {
        room.say(&mut *flow, &v[name]);
    }
    assert_eq!(decode_counts(&room.say(&mut *flow, &v["getstats"])).unwrap().received, 2);
}

#[test]
fn damaged_messages_do_no_harm() {
    let v = vectors(VECTORS);
    let good: Vec<&Vec<u8>> = v.values().filter(|bytes| bytes.len() <= 208).collect();
    let mut rng = Rng::new(21);
    let mut room = Room::new();
    let mut flow = responder(&mut room, &v["zerostats"]);
    let (mut known, mut unknown) = (0u32, 0u32);
    for n in 0..inputs() {
        let mut bytes = good[rng.between(0, good.len() as u64 - 1) as usize].clone();
        if rng.next() & 7 != 0 {
            mutate(&mut rng, &mut bytes);
        }
        match decode(&bytes) {
            Some(Message::Fetch { block: Block::Net | Block::Cpu, .. }) if n % 16 != 0 => continue,
            Some(_) => known += 1,
            None => unknown += 1,
        }
        let _ = decode_counts(&bytes);
        let said = room.say(&mut *flow, &bytes);
        assert!(said.len() <= 65_507);
        room.side.outbox.clear();
    }
    assert!(known > inputs() / 10 && unknown > inputs() / 20, "{known} {unknown}");
}

#[test]
fn damaged_blocks_do_no_harm() {
    let v = vectors(VECTORS);
    let mut rng = Rng::new(22);
    for n in 0..inputs() as usize {
        let mut bytes = v["histogram_0"].clone();
        mutate(&mut rng, &mut bytes);
        if let Some(hist) = decode_histogram(&bytes).filter(|_| n % 8 == 0) {
            let (ours, theirs) = (hist.shape(), hist.shape_as_original());
            assert!(ours.count == theirs.count && hist.bins.len() <= 998);
        }
        let mut bytes = v[["cpus", "card", "records"][n % 3]].clone();
        mutate(&mut rng, &mut bytes);
        assert!(decode_cpus(&bytes).len() <= 129 && decode_records(&bytes).len() <= 1000);
        let _ = (decode_card(&bytes), decode_lost(&bytes));
    }
    for _ in 0..inputs() / 40 {
        let mut bytes = v["net"].clone();
        for _ in 0..20 {
            mutate(&mut rng, &mut bytes);
        }
        if let Some((start, stop)) = decode_net(&bytes) {
            assert!(between(&start, &stop, rng.next() & 1 == 0).interfaces.len() <= 16);
        }
    }
    assert_eq!(decode_histogram(&encode_histogram(0, "", &Binned::default())), None);
}

/// A requester of ours and a responder of ours in virtual time, and what the requester told.
mod pair {
    use super::*;
    use crate::support::ran;
    use crate::support::run::about;
    use metrics::{Group, TrainPacket};
    use model::{Event, Probe, Train, Trains};
    use sim::{Link, Pair};
    use udpmon::{PacketTest, PacketTestRecords, PacketTestRole, Params, Requester};

    const MS: u64 = 1_000_000;

    fn pair(phase: &Phase) -> Pair {
        let params = Arc::new(Params::of(phase, Group(1), Host::default()));
        let id = uuid::Uuid::from_u128(7);
        let client = Box::new(Requester::new(params, id, 0));
        let listener = listener(Host::default());
        // As its sessions do: the original spins.
        Pair::unsolicited(client, listener).wait(transport::Wait::Hybrid)
    }

    fn settings(size: u32, packets: u32, waits: &[u32]) -> PacketTestSettings {
        PacketTestSettings { size, packets, waits: waits.to_vec(), ..PacketTestSettings::default() }
    }

    fn told(pair: &Pair, end: usize) -> Vec<Event> {
        crate::support::told(&pair.ends[end].side.outbox).cloned().collect()
    }

    fn tests(pair: &Pair, end: usize) -> Vec<PacketTest> {
        told(pair, end).into_iter().filter_map(|e| PacketTest::from_event(&e)).collect()
    }

    #[test]
    fn a_clean_path_is_told_as_it_is() {
        let udpmon = PacketTestSettings {
            histograms: true,
            cpu: true,
            records: PacketTestRecords::Packets { skip: 5, n: 20 },
            ..settings(1000, 50, &[0, 200, 400])
        };
        let pair = ran(pair(&asked(udpmon)).up(Link::new().delay(3 * MS)).down(Link::new().delay(4 * MS)));
        assert!(pair.ends[0].completed(), "{:?}", pair.ends[0].ended);
        let found = tests(&pair, 0);
        assert_eq!(found.len(), 3);
        for (test, wait) in found.iter().zip([0, 200, 400]) {
            let counts = test.counts.unwrap();
            assert_eq!((test.wait, test.sent, test.timeouts), (wait, 50, 0));
            assert_eq!((counts.received, counts.lost, counts.bad_order), (50, 0, 0));
            if wait > 0 {
                // 49 gaps of the wait; the wait behind the last packet counts for the sender.
                assert!((counts.span - 49 * i64::from(wait)).abs() < 300, "{counts:?}");
                assert!(about(test.send_ns, 50 * u64::from(wait) * 100), "{}", test.send_ns);
                let gaps = test.gaps.as_ref().unwrap();
                assert_eq!(gaps.over, 49, "all wider than 150 bins of 0.1 µs: {gaps:?}");
            }
            assert_eq!((test.records.len(), test.others.len(), test.remote.cpus.len()), (20, 2, 0));
            // The remote clock's zero is 3 ms after ZEROSTATS left, ours 7 ms: its times are 4 ms
            // ahead. Both ways are unequal by 1 ms, so the offset may be wrong by half of that.
            let clock = test.clock.unwrap();
            assert!((clock.offset + 4_000.0).abs() <= clock.bound && clock.bound < 3_560.0, "{clock:?}");
            let one_way =
                test.records[3].received as f64 / 10.0 + clock.offset - test.records[3].sent as f64 / 10.0;
            assert!((one_way - 3_500.0).abs() < 30.0, "half of 7 ms: {one_way}");
        }
        let heard = tests(&pair, 1);
        assert_eq!(heard.iter().map(|test| test.counts.unwrap().received).collect::<Vec<_>>(), [50, 50, 50]);
    }

    #[test]
    fn bursts_and_timed_runs_are_what_was_asked_for() {
        let udpmon = PacketTestSettings { bursts: 5, gap: 1_000, ..settings(100, 10, &[100]) };
        let run = ran(pair(&asked(udpmon)));
        let test = &tests(&run, 0)[0];
        assert_eq!((test.sent, test.counts.unwrap().received), (50, 50));
        // Five bursts of 10 × 10 µs and four gaps of 100 µs; the original divides by the last burst
        // alone.
        let (all, last) = (test.send_ns, test.last_burst_ns);
        assert!((900_000..910_000).contains(&all) && (100_000..110_000).contains(&last), "{all} {last}");
        let udpmon = PacketTestSettings {
            size: 100,
            waits: vec![1_000],
            time_ns: Some(SECOND / 4),
            ..PacketTestSettings::default()
        };
        let run = ran(pair(&asked(udpmon)));
        assert_eq!(tests(&run, 0)[0].sent, 2_500);
    }

    #[test]
    fn acknowledgements_come_for_each_packet() {
        let udpmon = PacketTestSettings { acks: true, ..settings(30, 20, &[10]) };
        let run = ran(pair(&asked(udpmon)).both(Link::new().delay(MS)));
        let test = &tests(&run, 0)[0];
        assert_eq!((test.sent, test.acks, test.timeouts), (20, 20, 0));
    }

    #[test]
    fn what_the_path_did_is_what_is_told() {
        for seed in 1..4 {
            let udpmon = settings(200, 2_000, &[1_000]);
            let run = ran(pair(&asked(udpmon))
                .seed(seed)
                .up(Link::new().delay(MS).loss(0.05))
                .down(Link::new().delay(MS)));
            assert!(run.ends[0].completed(), "{seed}: {:?}", run.ends[0].ended);
            let test = &tests(&run, 0)[0];
            let counts = test.counts.unwrap();
            // Packets after the last received one are missing, unknown to the receiver.
            let gone = test.sent - counts.received;
            assert!(
                gone > 40 && counts.lost <= gone && counts.lost + 3 >= gone,
                "{seed}: {counts:?} of {}",
                test.sent
            );
            assert_eq!(counts.bad_order, 0);
        }
        let udpmon = settings(200, 2_000, &[1_000]);
        let run =
            ran(pair(&asked(udpmon)).up(Link::new().delay(MS).duplicate(0.05).jitter(2 * MS).reorder(0.1)));
        let counts = tests(&run, 0)[0].counts.unwrap();
        assert!(counts.lost == 0 && counts.received > 2_000 && counts.bad_order > 100, "{counts:?}");
    }

    #[test]
    fn lost_requests_and_answers_are_made_up_for() {
        let mut repeated = 0;
        for seed in 1..12 {
            let udpmon = PacketTestSettings {
                cpu: true,
                records: PacketTestRecords::Packets { skip: 0, n: 100 },
                ..settings(200, 100, &[100, 200])
            };
            let run =
                ran(pair(&asked(udpmon)).seed(seed).both(Link::new().delay(MS).loss(0.03).duplicate(0.02)));
            assert!(run.ends[0].completed(), "{seed}: {:?}", run.ends[0].ended);
            for test in tests(&run, 0) {
                let rows = test.records.iter().filter(|row| row.received != 0).count() as u64;
                let counts = test.counts.unwrap();
                // Each packet has one row, however often it came.
                assert!(
                    rows <= 100 && rows <= counts.received && counts.received >= 80,
                    "{seed}: {rows} {counts:?}"
                );
                repeated += test.timeouts;
            }
        }
        assert!(repeated > 20, "{repeated}");
    }

    #[test]
    fn latency_is_the_round_trip() {
        let udpmon = PacketTestSettings {
            role: PacketTestRole::Latency,
            size: 100,
            packets: 50,
            responses: (20, 1500, 740),
            bin_width: 100,
            ..PacketTestSettings::default()
        };
        let run = ran(pair(&asked(udpmon)).up(Link::new().delay(MS)).down(Link::new().delay(2 * MS)));
        assert!(run.ends[0].completed(), "{:?}", run.ends[0].ended);
        let found = tests(&run, 0);
        assert_eq!(found.len(), 3);
        // What begins and ends the test is no payload.
        let counts = &run.ends[0].counts;
        assert_eq!((counts.tx_bytes, counts.rx_bytes), (150 * 100, 50 * (20 + 760 + 1500)));
        for (test, size) in found.iter().zip([20, 760, 1500]) {
            let latency = test.latency.as_ref().unwrap();
            assert_eq!((latency.response, latency.count, latency.missing, latency.stray), (size, 50, 0, 0));
            // 3 ms of path; the responder's turn takes some of its own.
            assert!(about(latency.min_ns, 3 * MS), "{latency:?}");
            assert_eq!(latency.histogram.count(), 50);
        }
    }

    #[test]
    fn trains_are_reported_as_ours_are() {
        let train = Train {
            packets: 40,
            waits_ns: vec![20_000, 50_000],
            repeat: 3,
            every_ns: SECOND,
            samples: true,
            ..Train::default()
        };
        let phase = Phase {
            kind: Kind::Train,
            connections: 1,
            duration_ns: Some(train.duration_ns()),
            rate: Some(train.mean_bps(1_000)),
            probe: Some(Probe { size: 1_000, ..Probe::default() }),
            train: Some(train),
            ..Phase::default()
        };
        assert_eq!(phase.check(), Ok(()));
        let run =
            ran(pair(&phase).up(Link::new().delay(5 * MS).loss(0.1)).down(Link::new().delay(5 * MS)).seed(4));
        assert!(run.ends[0].completed(), "{:?}", run.ends[0].ended);
        let events = told(&run, 0);
        let trains: &Trains =
            events.iter().find_map(|e| if let Event::Trains(t) = e { Some(&**t) } else { None }).unwrap();
        let packets: &Vec<TrainPacket> = events
            .iter()
            .find_map(|e| if let Event::TrainPackets { rows } = e { Some(rows) } else { None })
            .unwrap();
        let [fast, slow] = &trains.report.settings[..] else { panic!() };
        assert_eq!((fast.sent, slow.sent, packets.len()), (120, 120, 240));
        assert!(fast.lost > 2 && fast.lost + fast.received == 120, "{fast:?}");
        for packet in packets.iter().filter(|packet| packet.received_ns.is_some()) {
            let delay = packet.delay_ns().unwrap();
            // The path is even: the offset is right to what the responder's thread takes.
            assert!((4_998_000..5_030_000).contains(&delay), "{delay} {packet:?}");
        }
        assert!(trains.clock_bound_ns >= 5 * MS, "nothing tells both ways apart: {}", trains.clock_bound_ns);
    }

    #[test]
    fn nobody_there_is_a_failure_in_words() {
        let run = ran(pair(&asked(PacketTestSettings::default())).up(Link::new().loss(1.0)));
        let ended = format!("{:?}", run.ends[0].ended);
        assert!(ended.contains("udpmon_resp"), "{ended}");
    }

    #[test]
    fn a_run_that_is_stopped_tells_what_it_has() {
        let udpmon = settings(100, 1_000_000, &[1_000, 2_000]);
        let run = ran(pair(&asked(udpmon)).stop(0, SECOND / 2));
        let found = tests(&run, 0);
        assert_eq!(found.len(), 1);
        assert!(
            (4_900..5_100).contains(&found[0].sent) && found[0].counts.unwrap().received == found[0].sent,
            "{found:?}"
        );
    }
}
