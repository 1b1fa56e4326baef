//! A run with every field filled in, with numbers that are easy to compute with, told as events.

use metrics::{
    ClockFound, ClockKind, Departure, DistSummary, Ecn, EcnBytes, EcnPairs, Ending, FlowSums, Frames,
    Framing, IpFields, Moments, Packets, PairSide, Place, PlayoutSummary, ReceivedPacket, Remote, SECOND,
    SignedSummary, Spectrum, StampKind, TcpEcn, TcpEcnInfo, TcpInfo, TcpTotals, TrainPacket, TrainReport,
    Wall, WayCounts, WayFacts, join,
};
use model::{
    Accepted, Begin, Builder, Burst, Capacity, CapacitySettings, CauseCount, CgroupLimits, Change,
    ConnectionRecord, Count, Counts, CpuUse, DelayRange, DelayVariation, Effective, Event, Failure, FlowRow,
    FlowWay, HostCounters, HostSnapshot, Interval, Kind, Level, NicSnapshot, Outcome, PacketReport, Pattern,
    Phase, PingCounts, PingInterval, Probe, Range, RoundTrips, Sample, SessionInfo, SocketSettings, Status,
    SubInterval, Totals, Traffic, Train, Trains, Ways,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// 2026-01-02T03:04:05Z
pub(crate) const STARTED: Wall = Wall(1_767_323_045_000_000_000);

pub(crate) fn outcome() -> Outcome {
    built(&events())
}

/// What is written, as text.
pub(crate) fn text_of(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A file that keeps the number of lines of each write that reaches it.
pub(crate) struct Counting<'a>(pub(crate) &'a mut Vec<usize>);

impl std::io::Write for Counting<'_> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0.push(buffer.iter().filter(|&&b| b == b'\n').count());
        Ok(buffer.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn built(events: &[Event]) -> Outcome {
    let mut builder = Builder::default();
    events.iter().for_each(|event| builder.absorb(event));
    builder.outcome()
}

/// A duplex run of four seconds, the first omitted: 8, 10 and 12 Gbit/s to the server, 1 Gbit/s
/// from it.
pub(crate) fn events() -> Vec<Event> {
    let label = BTreeMap::from([("buffer".to_owned(), "65536".to_owned())]);
    let mut events = vec![
        Event::Begin(Box::new(begin())),
        Event::Notice { level: Level::Warning, text: "the clock of lab2 is not synchronised".to_owned() },
        Event::Phase { label, repeat: 1, phase: Box::new(phase()) },
        Event::Session(Box::new(session())),
        Event::Start { at: STARTED },
    ];
    let received = [500_000_000, 1_000_000_000, 1_250_000_000, 1_500_000_000];
    events.extend((0..).zip(received).map(|(index, rx)| Event::Interval(Box::new(interval(index, rx)))));
    events.extend([
        Event::Connection(Box::new(good())),
        Event::Connection(Box::new(bad())),
        Event::Local(Box::new(local())),
        Event::Remote(Box::new(remote())),
        Event::PhaseEnd { status: Status::Interrupted, reason: Some("stopped by SIGINT".to_owned()) },
        Event::End { status: Status::Interrupted, reason: Some("stopped by SIGINT".to_owned()) },
    ]);
    events
}

/// The same with the labels of no sweep: what one run prints.
pub(crate) fn single() -> Vec<Event> {
    let mut events = events();
    for event in &mut events {
        if let Event::Phase { label, .. } = event {
            label.clear();
        }
    }
    events
}

pub(crate) fn begin() -> Begin {
    Begin {
        schema: model::SchemaName::default(),
        version: "0.1.0".to_owned(),
        command: ["netcaliper", "tcp", "lab2"].map(str::to_owned).to_vec(),
        verb: "tcp".to_owned(),
        protocol: "native".to_owned(),
        run: Uuid::from_u128(7),
        started: STARTED,
        targets: vec!["lab2".to_owned()],
        host: host("lab1"),
        placement: "cores 0,1".to_owned(),
        workers: 2,
        limits: None,
    }
}

pub(crate) fn host(name: &str) -> HostSnapshot {
    HostSnapshot {
        name: name.to_owned(),
        kernel: "Linux 6.18".to_owned(),
        cpu: "EPYC".to_owned(),
        cpus: 8,
        memory: 16 << 30,
        congestion: "cubic".to_owned(),
        clock_synced: true,
        clock_error_ns: 2_000_000,
        sysctl: [("net.core.rmem_max".to_owned(), "212992".to_owned())].into(),
        nic: Some(NicSnapshot {
            name: "eth0".to_owned(),
            driver: "virtio_net".to_owned(),
            mtu: 1500,
            speed_mbit: Some(10_000),
            qdisc: "fq".to_owned(),
            hardware_stamps: true,
            phc: Some(0),
            offloads: vec!["tso".to_owned(), "gro".to_owned()],
            loopback: false,
        }),
        allowance: Some(CgroupLimits { cpus: Some(1.5), memory: Some(1 << 30), tasks: Some(512) }),
    }
}

/// Not a phase that could run (burst and rate exclude each other), but one with all values set.
pub(crate) fn phase() -> Phase {
    Phase {
        pattern: Pattern::Duplex,
        payload_seed: Some(7),
        draw_seed: Some(11),
        connections: 4,
        iterations: Some(9),
        total_bytes: Some(1 << 40),
        duration_ns: Some(4 * SECOND),
        omit_ns: SECOND,
        buffer: Range { low: 1 << 10, high: 1 << 20 },
        transfer_high: Some(2 << 30),
        rate: Some(5_000_000_000),
        rate_high: Some(6_000_000_000),
        rate_period_ns: Some(SECOND / 10),
        burst: Some(Burst { count: 3, delay_ns: 1_000 }),
        connect_rate: Some(100.0),
        sockets: SocketSettings {
            sndbuf: Some(4 << 20),
            rcvbuf: Some(4 << 20),
            mss: Some(1400),
            congestion: Some("cubic".to_owned()),
            dscp: Some(46),
            ecn: Some(Ecn::Ect1),
            ttl: Some(64),
            flow_label: Some(9),
            keepalive_ns: Some(SECOND),
            dont_fragment: Some(true),
            pacing: Some(1_000_000_000),
            multipath: true,
            card_stamps: true,
            user_timeout_ns: Some(30 * SECOND),
            device: None,
            ..SocketSettings::default()
        },
        ..Phase::default()
    }
}

pub(crate) fn session() -> SessionInfo {
    SessionInfo {
        target: "lab2".to_owned(),
        address: "10.0.0.2:7411".parse().unwrap(),
        version: "0.1.1".to_owned(),
        accepted: Accepted {
            session: 3,
            changes: vec![Change {
                what: "connections".to_owned(),
                asked: "8".to_owned(),
                given: "4".to_owned(),
                why: "limit of this server".to_owned(),
            }],
            others: 2,
        },
        host: host("lab2"),
        workers: 1,
        placement: "spread".to_owned(),
        authenticated: true,
        base_rtt_ns: 123_000,
        udp_rtt_ns: Some(130_000),
        same_host: false,
    }
}

pub(crate) fn tcp_info() -> TcpInfo {
    TcpInfo {
        rtt_us: 201,
        rttvar_us: 12,
        min_rtt_us: Some(101),
        retransmits: 5,
        cwnd: 77,
        snd_mss: 1388,
        ssthresh: Some(66),
        delivery_rate: Some(125_000_000),
        app_limited: true,
        busy_us: Some(4_000),
        rwnd_limited_us: Some(300),
        sndbuf_limited_us: Some(200),
        bytes_sent: Some(9_000),
        bytes_retrans: Some(90),
        bytes_acked: Some(8_900),
        bytes_received: Some(7_800),
        ecn: Some(TcpEcnInfo {
            negotiated: true,
            seen: true,
            accurate: Some(true),
            delivered: Some(90),
            delivered_ce: Some(4),
            received_ce: Some(3),
            delivered_bytes: Some(EcnBytes { ect1: 10, ect0: 20, ce: 30 }),
            received_bytes: Some(EcnBytes { ect1: 40, ect0: 50, ce: 60 }),
        }),
        reord_seen: Some(2),
        rcv_rtt_us: 150,
        snd_wnd: Some(65_000),
    }
}

/// Second `index` of the run, in which the server received `rx` bytes.
pub(crate) fn interval(index: u32, rx: u64) -> Interval {
    Interval {
        index,
        start_ns: u64::from(index) * SECOND,
        end_ns: u64::from(index + 1) * SECOND,
        omitted: index == 0,
        local: Traffic { tx_bytes: rx + 1_000_000, rx_bytes: 125_000_000, ns: SECOND, ..Traffic::default() },
        remote: Some(Traffic { tx_bytes: 125_000_000, rx_bytes: rx, ns: SECOND, ..Traffic::default() }),
        framing: Framing { tx_bytes: 41, rx_bytes: 82 },
        in_flight: 4,
        completed: u64::from(index),
        network_errors: u64::from(index / 3),
        data_errors: 0,
        opened: if index == 0 { 4 } else { 1 },
        retransmits: 2 * u64::from(index),
        frames: Some(FRAMES),
        pings: Some(PING),
        packets: Some(packets()),
        remote_packets: Some(packets()),
        samples: vec![Sample {
            id: Uuid::from_u128(1),
            slot: 2,
            tx_bytes: 90_000,
            rx_bytes: 45_000,
            info: tcp_info(),
        }],
        unknown: Counts::of(&[Count::Jitter]),
    }
}

/// A connection that sent 1 MB and received 500 kB in 2 s.
pub(crate) fn good() -> ConnectionRecord {
    ConnectionRecord {
        id: Uuid::from_u128(1),
        local: Some("10.0.0.1:40000".parse().unwrap()),
        remote: "10.0.0.2:7411".parse().unwrap(),
        ended_ns: 2_500_000_000,
        tx_bytes: 1_000_000,
        rx_bytes: 500_000,
        connect_ns: Some(150_000),
        duration_ns: 2 * SECOND,
        result: Ending::Completed,
        error: None,
        failure: None,
        tcp: Some(tcp_info()),
        frames: Some(FRAMES),
    }
}

/// A connection that never came to be.
pub(crate) fn bad() -> ConnectionRecord {
    ConnectionRecord {
        id: Uuid::nil(),
        local: None,
        ended_ns: 3_000_000_000,
        tx_bytes: 0,
        rx_bytes: 0,
        connect_ns: None,
        duration_ns: 0,
        result: Ending::NetworkError,
        error: Some("=connecting: Connection refused".to_owned()),
        failure: Some(Failure::System { deed: "connect".to_owned(), errno: 111 }),
        tcp: None,
        ..good()
    }
}

pub(crate) fn dist(unit: u64) -> DistSummary {
    DistSummary {
        count: 4,
        min: unit,
        mean: 2.5 * unit as f64,
        sd: 1.0,
        p50: 2 * unit,
        p90: 4 * unit,
        p99: 4 * unit,
        p999: 4 * unit,
        max: 4 * unit,
        buckets: vec![(unit, 1), (3 * unit, 2), (4 * unit, 1)],
    }
}

/// Datagrams of ECT(1) and Not-ECT, of which the former are lost.
fn pairs() -> EcnPairs<Option<DistSummary>> {
    let side = |sent, received, lost_alone, arrived| PairSide {
        sent,
        received,
        lost: lost_alone + 2,
        lost_alone,
        arrived,
        delay_ns: Some(dist(20_000)),
    };
    let sides = [side(Ecn::Ect1, 480, 11, [0, 478, 0, 2]), side(Ecn::Off, 490, 1, [490, 0, 0, 0])];
    EcnPairs { sides, both_lost: 2 }
}

/// Of connections that negotiated ECN, one without.
fn tcp_ecn() -> TcpEcn {
    TcpEcn {
        connections: 6,
        negotiated: 5,
        accurate: Some(1),
        seen: 4,
        delivered: 2_700_000,
        delivered_ce: 300,
        received_ce: Some(200),
        delivered_bytes: Some(EcnBytes { ect1: 1_000, ect0: 2_000, ce: 30 }),
        received_bytes: Some(EcnBytes { ect1: 4_000, ect0: 5_000, ce: 1_000 }),
    }
}

/// Of datagrams to which everything happened.
pub(crate) fn packets() -> Box<PacketReport> {
    let datagrams = metrics::Datagrams {
        counts: Packets {
            sent: 1_000,
            received: 980,
            lost: 15,
            duplicated: 4,
            reordered: 6,
            late: 2,
            corrupt: 5,
            unsent: 7,
            dropped: 3,
            dropped_merged: 2,
            refused: 1,
        },
        delay_ns: Some(dist(20_000)),
        intended_ns: Some(dist(21_000)),
        ipdv_ns: Some(dist(500)),
        stack_ns: Some(dist(4_000)),
        card_sent: 60,
        card_sent_bound_ns: 600,
        longest_loss: Some(3),
        max_extent: Some(2),
        clock_bound_ns: Some(150_000),
        clock: Some(ClockKind::InBand),
        clock_found: Some(ClockFound {
            exchanges: 40,
            round_trip_ns: 290_000,
            offset_ns: -5,
            bound_ns: 149_000,
            skew_ppm: (-0.5, 0.25),
            stepped: false,
            wandered: false,
        }),
        before_sent: 1,
        before_sent_ns: 40,
        blocked_ns: 2_000,
        kernel_stamped: 900,
        card_stamped: 80,
        card_bound_ns: 700,
        card_refused: 2,
        card_unplaced: 1,
        marks: IpFields { ttl: Some((63, 64)), dscp: Some((0, 46)), ecn: [970, 0, 8, 2] },
        pairs: Some(Box::new(pairs())),
    };
    Box::new(PacketReport {
        datagrams,
        delay_range_ns: Some(DelayRange { min: Some(20_000), mean: 52_500.0, max: 80_000 }),
        late_ns: Some(dist(300)),
        jitter_ns: Some(450.5),
        jitter_max_ns: Some(612.0),
        loss_bursts: Some(9),
        damaged: 2,
        unknown: Counts::of(&[Count::Retransmits]),
    })
}

/// Of a stream that lost a few.
pub(crate) const FRAMES: Frames = Frames { completed: 55, dropped: 3, repeated: 1, errors: 2 };

/// Of messages of which some were late, lost, damaged.
const COUNTS: PingCounts = PingCounts {
    sent: 1000,
    received: 990,
    late: 3,
    lost: 8,
    damaged: 2,
    repeated: 1,
    missed: 4,
    refused: 5,
    omitted: 50,
};

const PING: PingInterval = PingInterval {
    counts: COUNTS,
    count: 987,
    min_ns: 51_000,
    mean_ns: 60_500.5,
    p50_ns: Some(59_000),
    p99_ns: Some(90_000),
    max_ns: 4_000_000,
    path_p50_ns: Some(58_000),
    path_p99_ns: Some(88_000),
    marks: Some(IpFields { ttl: Some((63, 63)), dscp: Some((46, 46)), ecn: [0, 0, 980, 7] }),
    remote_marks: Some(IpFields { ttl: Some((62, 62)), dscp: Some((46, 46)), ecn: [0, 0, 990, 0] }),
};

/// 987 round trips: 900 of 60 µs, 86 of 90 µs, one of 4 ms.
pub(crate) fn spectrum() -> Spectrum {
    Spectrum {
        count: 987,
        min: 60_000,
        max: 4_000_000,
        mean: 66_600.0,
        sd: 125_500.0,
        counts: vec![(60_000, 900), (90_000, 86), (4_000_000, 1)],
        missing: 0,
    }
}

pub(crate) fn round_trips() -> RoundTrips {
    let all = Some(spectrum());
    RoundTrips {
        counts: COUNTS,
        rtt_ns: all.clone(),
        intended_ns: all.clone(),
        path_ns: all.clone(),
        remote_ns: all,
        kernel_ns: None,
        ways: None,
    }
}

/// Both ways of round trips over STAMP: of ten messages two were lost there, one back and one
/// somewhere.
pub(crate) fn ways() -> Ways {
    let all = Some(spectrum());
    Ways {
        there_ns: all.clone(),
        back_ns: all.clone(),
        left_late_ns: all,
        facts: WayFacts {
            there: WayCounts { lost: 2, duplicated: 1, reordered: 3 },
            back: WayCounts { lost: 1, duplicated: 0, reordered: 0 },
            lost_somewhere: 1,
            numbered: 1,
            copied: 0,
            there_marks: IpFields { ttl: Some((250, 251)), dscp: Some((0, 0)), ecn: [10, 0, 0, 0] },
            back_marks: IpFields { ttl: Some((60, 60)), dscp: Some((46, 46)), ecn: [9, 0, 0, 1] },
            clock_bound_ns: Some(20_000),
            clock_offset_ns: Some(-37_000_000_000),
            by_wall: 0,
            remote_error_ns: Some(1_000_000),
            remote_synced: Some(true),
            rejected: 1,
            unrecognised: vec![5, 7],
            malformed: 2,
            tampered: 3,
            unnamed: 4,
            remote_clock: Some([2, 1, 2, 1]),
            remote_counts: Some((9, 8)),
        },
    }
}

fn playout() -> PlayoutSummary {
    let need = SignedSummary { count: 58, min: -1, mean: 2.5, p50: 2, p90: 3, p99: 4, p999: 5, max: 6 };
    PlayoutSummary {
        need_ns: Some(need),
        never: 3,
        misses: vec![(0, 58), (5_000_000, 3)],
        stalls: 2,
        longest_stall: 2,
    }
}

fn totals(who: &str, tx_bytes: u64, rx_bytes: u64) -> Totals {
    Totals {
        who: who.to_owned(),
        traffic: Traffic {
            tx_bytes,
            rx_bytes,
            ns: 3 * SECOND,
            tx_ns: Some(3 * SECOND),
            rx_ns: Some(3 * SECOND),
        },
        framing: Framing { tx_bytes: 41, rx_bytes: 82 },
        own: model::OwnTraffic { messages: 9, message_bytes: 900, datagrams: 8, datagram_bytes: 1_152 },
        opened: 6,
        completed: 3,
        stopped: 4,
        network_errors: 1,
        data_errors: 0,
        protocol_errors: 0,
        frames: Some(FRAMES),
        pings: Some(Box::new(round_trips())),
        packets: Some(packets()),
        marks: Some(IpFields { ttl: Some((63, 63)), dscp: Some((46, 46)), ecn: [0, 0, 980, 7] }),
        playout: Some(playout()),
        causes: vec![CauseCount {
            class: Ending::NetworkError,
            text: "connecting: Connection refused".to_owned(),
            count: 1,
            first: "10.0.0.2:7411: connecting: Connection refused (os error 111)".to_owned(),
        }],
        peak: 4,
        connect_ns: Some(dist(100_000)),
        transfer_ns: Some(dist(SECOND)),
        rate: Some(dist(12_500_000)),
        rates: Moments { n: 2, sum: 4.0, squares: 10.0 },
        late_ns: Some(dist(1_000)),
        idle_servers: vec!["b".to_owned()],
        remotes: [(
            "10.0.0.2".parse().unwrap(),
            Remote { connections: 7, failed: 1, tx_bytes: 3 << 30, rx_bytes: 1 << 30, time_ns: 14 * SECOND },
        )]
        .into(),
        tcp: TcpTotals {
            connections: 6,
            retransmits: 12,
            bytes_sent: 4_000_000_000,
            bytes_retrans: 2_000_000,
            bytes_acked: Some(3_998_000_000),
            busy_us: 10_000_000,
            rwnd_limited_us: 3_500_000,
            sndbuf_limited_us: 50_000,
            min_rtt_us: 101,
            rtt_sum_us: 2_460.0,
            rtt_samples: 10,
            dscp: Some((46, 46)),
            ecn: Some(tcp_ecn()),
        },
        effective: Some(Effective {
            sndbuf: Some(425_984),
            rcvbuf: Some(8 << 20),
            nodelay: Some(true),
            mss: Some(1388),
            congestion: Some("cubic".to_owned()),
            tos: Some(184),
            ttl: Some(64),
        }),
        cpu: Some(CpuUse {
            user_s: 0.5,
            system_s: 1.5,
            machine_s: 6.0,
            softirq_s: 0.25,
            steal_s: 0.06,
            available_s: 24.0,
            busiest: 0.97,
            wall_s: 3.0,
        }),
        counters: HostCounters { moved: [("TcpExt.ListenDrops".to_owned(), 3)].into() },
        others: 2,
        receive: "compare".to_owned(),
        unknown: Counts::of(&[Count::Jitter]),
        limit: Some("ended after 1048576 bytes, the most of one session".to_owned()),
    }
}

/// The client: 3.753 GB sent, 375 MB received in 3 s.
pub(crate) fn local() -> Totals {
    totals("client", 3_753_000_000, 375_000_000)
}

/// The server: it received 3.75 GB in 3 s.
pub(crate) fn remote() -> Totals {
    Totals { counters: HostCounters::default(), ..totals("10.0.0.2:7411", 376_000_000, 3_750_000_000) }
}

/// Trains of three packets back to back or every 10 µs, six times, one of them slow in both
/// settings.
/// A capacity test from the server, of three sub-intervals, split after the first; the second one is
/// the best.
pub(crate) fn capacity() -> (Phase, Capacity) {
    let settings = CapacitySettings { first_mode: 1, row: Some(5), start: true, ..CapacitySettings::RFC };
    let phase = Phase { duration_ns: Some(3 * SECOND), ..settings.phase(Pattern::Pull, 2) };
    let variation = DelayVariation { min_ms: 0, mean_ms: 2, max_ms: 7 };
    let sub = |n: u32, mbit: f64| SubInterval {
        end_ms: n * 1_000,
        ip_bps: mbit * 1e6,
        payload_bps: mbit * 0.98e6,
        link_bps: mbit * 1.02e6,
        received: 990,
        lost: 10,
        reordered: 1,
        duplicated: 1,
        marked: 1,
        delay: Some(variation),
        round_trip: Some(variation),
    };
    let found = Capacity {
        connections: 2,
        overhead: 18,
        most_bps: 10e9,
        round_trip_min_ms: Some(9),
        sub_intervals: vec![sub(1, 60.0), sub(2, 100.0), sub(3, 80.0)],
        ..Capacity::default()
    };
    (phase, found.concluded(1).unwrap())
}

pub(crate) fn train_phase() -> Phase {
    let train = Train {
        packets: 3,
        waits_ns: vec![0, 10_000],
        repeat: 6,
        every_ns: SECOND,
        samples: true,
        ..Train::default()
    };
    Phase {
        kind: Kind::Train,
        connections: 1,
        duration_ns: Some(train.duration_ns()),
        rate: Some(train.mean_bps(972)),
        probe: Some(Probe { size: 972, ..Probe::default() }),
        train: Some(train),
        ..Phase::default()
    }
}

/// What the two ends remember of them: packets come 100 µs apart (80 Mbit/s on IP), in the third
/// repetition 400 µs. In the first train the second packet is lost, in the second one it is
/// overtaken, in the third one the last comes twice, in the last one it is not sent.
pub(crate) fn trains() -> Trains {
    let train = train_phase().train.unwrap();
    let places: Vec<Place> = train.places().collect();
    let last = places.len() - 1;
    let sent: Vec<Departure> = places[..last]
        .iter()
        .enumerate()
        .map(|(i, p)| Departure { place: i as u32, sent_ns: (p.intended_ns + 100) as i64 })
        .collect();
    let mut got = Vec::new();
    for (i, p) in places[..last].iter().enumerate().filter(|(i, _)| *i != 1) {
        let gap = if p.round == 2 { 400_000 } else { 100_000 };
        let number = match i {
            4 => 2,
            5 => 1,
            _ => u64::from(p.number),
        };
        let received_ns = (p.intended_ns - 10_000 * u64::from(p.setting) * u64::from(p.number)
            + 1_000_000
            + number * gap) as i64;
        let stamp = if i == 0 { StampKind::Hardware } else { StampKind::KernelRx };
        let arrival = ReceivedPacket { sequence: i as u64, received_ns, offset_ns: 0, stamp, damaged: false };
        got.push(arrival);
        got.extend((i == 8).then_some(arrival));
    }
    got.sort_by_key(|a| a.received_ns);
    let (packets, strays) = join(places.into_iter(), 0, &sent, &got);
    let report = TrainReport::of(&packets, &train.waits_ns, 972, 28, false);
    Trains { headers: 28, clock_bound_ns: 1_000, strays, left_out: 0, report }
}

/// The same trains as far as two packets of the first setting are concerned, which were returned
/// after 500 µs, of which the far end had them for 20.
pub(crate) fn echoed() -> Trains {
    let train = train_phase().train.unwrap();
    let mut packets: Vec<TrainPacket> = train
        .places()
        .take(2)
        .map(|place| TrainPacket { sent_ns: Some(0), received_ns: Some(1), ..TrainPacket::at(place) })
        .collect();
    for (i, packet) in packets.iter_mut().enumerate() {
        (packet.back_ns, packet.held_ns) = (Some(500_000 + 100_000 * i as i64), Some(20_000));
    }
    let returned = TrainReport::of(&packets, &train.waits_ns, 972, 28, true);
    let mut trains = trains();
    for (setting, returned) in trains.report.settings.iter_mut().zip(returned.settings) {
        setting.echo = returned.echo;
    }
    trains
}

/// A flow of which both ends told.
pub(crate) fn flow() -> FlowRow {
    let mut got = FlowSums { counts: packets().counts, ..FlowSums::default() };
    got.add_delay(20_000, 980);
    let way = Some(FlowWay { sent: Some(1_000), got, lossy: true, slow: false });
    let at = |port| Some(([10, 0, 0, 1], port).into());
    FlowRow { flow: 1, local: at(40_001), remote: at(7_411), up: way, down: way }
}
