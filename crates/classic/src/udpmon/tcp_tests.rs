//! The printouts of tcpmon's programs, to the byte.

use crate::udpmon::{Asked, Face, Program, read};
use metrics::{Binned, TcpInfo};
use model::{
    ConnectionRecord, Event, Interval, Sample, Traffic, UdpmonCounts, UdpmonCpu, UdpmonHost, UdpmonInterface,
    UdpmonIp, UdpmonPut, UdpmonTest,
};
use uuid::Uuid;

/// What an original printed, without where it comes from, its date, and what it says of its own clocks and sockets.
fn original(text: &str) -> Vec<&str> {
    const OWN: [&str; 8] = [
        "Default affinity:",
        " Initialising",
        "CPU speed",
        "StopWatch_Stop",
        "clock ticks",
        "Defaults:",
        "Settings:",
        " The TCP maximum segment",
    ];
    text.lines().skip(2).filter(|line| !OWN.iter().any(|own| line.starts_with(own))).collect()
}

/// The face of `words` hears a test of one connection.
fn said(words: &str, intervals: &[Interval], test: UdpmonTest, tcp: TcpInfo) -> String {
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let Ok(Asked::Run(spec)) = read(Program::TcpMon, &words) else { panic!("{words:?}") };
    let mut face = Face::new(*spec, "127.0.0.1".to_owned());
    let id = Uuid::from_u128(7);
    let record: ConnectionRecord = serde_json::from_value(serde_json::json!({
        "id": id, "local": null, "remote": "127.0.0.1:14233", "ended_ns": 1, "tx_bytes": 0, "rx_bytes": 0,
        "connect_ns": null, "duration_ns": 1, "result": "completed", "error": null, "tcp": tcp
    }))
    .unwrap();
    let test = UdpmonTest { connection: Some(id), ..test };
    let mut out = Vec::new();
    let mut hear = |event: Event| face.hear(&event, &mut out).unwrap();
    hear(Event::Begin(Box::default()));
    intervals.iter().for_each(|interval| hear(Event::Interval(Box::new(interval.clone()))));
    hear(Event::Udpmon(Box::new(test)));
    hear(Event::Connection(Box::new(record)));
    String::from_utf8(out).unwrap()
}

fn cpu(user: i64, system: i64, idle: i64, softirq: i64) -> UdpmonCpu {
    UdpmonCpu { user, system, idle, softirq, ..UdpmonCpu::default() }
}

/// A host through whose loopback so many segments and bytes went; and its other interfaces, which were idle.
fn host(n: i64, bytes: i64, idle: &[&str], cpus: Vec<UdpmonCpu>) -> UdpmonHost {
    let interface = |name: &str, counts| UdpmonInterface { name: name.to_owned(), counts };
    let mut interfaces = vec![interface("lo", [n, bytes, 0, 0, n, bytes, 0, 0])];
    interfaces.extend(idle.iter().map(|name| interface(name, [0; 8])));
    UdpmonHost {
        cpus,
        interfaces,
        ip: UdpmonIp { tcp_in: n, tcp_out: n, ..UdpmonIp::default() },
        cards: Vec::new(),
    }
}

#[test]
fn a_run_with_a_histogram_and_records_is_the_originals() {
    let original = original(include_str!("originals/tcpmon_mon.txt"));
    // What it was told: the figures are those of its own lines.
    let mut gaps = Binned::new(0, 10, 100);
    let rows = original.iter().skip_while(|line| !line.starts_with("Hist")).skip(2).take(100);
    for (bin, row) in rows.enumerate() {
        gaps.bins[bin] = row.split(" ; ").nth(1).unwrap().parse().unwrap();
    }
    // Its mean of 37 values is 184.89.
    (gaps.over, gaps.sum) = (3, 6_841);
    let puts = [(2203, 0), (46, 2209), (318, 2309), (29, 2628), (512, 2728)];
    let puts = puts.map(|(took, at)| UdpmonPut { took_ns: took * 1_000, at_ns: at * 1_000, sends: 1 });
    let test = UdpmonTest {
        size: 1000,
        wait: 1000,
        sent: 40,
        last_burst_ns: 12_736_700,
        counts: Some(UdpmonCounts { received: 40, bytes: 40_000, span: 120_110, ..UdpmonCounts::default() }),
        gaps: Some(gaps),
        puts: puts.to_vec(),
        near: host(80, 44_160, &["va"], vec![cpu(25, 75, 0, 50), cpu(0, 100, 0, 100), cpu(50, 50, 0, 0)]),
        far: host(82, 44_408, &["va"], vec![cpu(60, 39, 0, 11), cpu(55, 44, 0, 19), cpu(65, 34, 0, 4)]),
        ..UdpmonTest::default()
    };
    let words = "-d 127.0.0.1 -p 1000 -w 100 -l 40 -G 5 -H -B 10 --as-original";
    let text = said(words, &[], test, TcpInfo::default());
    let ours: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(ours.len(), original.len(), "{text}");
    let records = original.iter().position(|line| line.starts_with("InfoStore")).unwrap();
    assert_eq!(ours[..=records], original[..=records]);
    // Of a record everything but the socket's number and the kernel's word on TCP, for which there are dashes.
    for (ours, theirs) in ours[records + 1..].iter().zip(&original[records + 1..]) {
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            (ours.split(" ; ").collect(), theirs.split(" ; ").collect());
        assert_eq!(ours.len(), theirs.len());
        for (n, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            assert_eq!(*ours, if n == 4 || (6..13).contains(&n) { "-" } else { theirs }, "column {n}");
        }
    }
}

#[test]
fn a_run_with_progress_and_tables_is_the_originals() {
    let original = original(include_str!("originals/tcpmon_mon_tables.txt"));
    let traffic = Traffic { tx_bytes: 1_944_200_000, ..Traffic::default() };
    // 16 segments of 65,483 bytes: 1.05 MB.
    let info = TcpInfo { cwnd: 16, snd_mss: 65_483, ..TcpInfo::default() };
    let sample = Sample { id: Uuid::nil(), slot: 0, tx_bytes: 0, rx_bytes: 0, info };
    let interval =
        Interval { end_ns: 999_600_000, near: traffic, samples: vec![sample], ..Interval::default() };
    let test = UdpmonTest {
        size: 50_000,
        sent: 78_880,
        last_burst_ns: 2_999_396_000,
        counts: Some(UdpmonCounts {
            received: 78_880,
            bytes: 3_944_000_000,
            span: 20_003_320,
            ..UdpmonCounts::default()
        }),
        near: host(
            101_678,
            3_949_287_256,
            &[],
            vec![cpu(51, 48, 0, 28), cpu(98, 1, 0, 0), cpu(5, 94, 0, 56)],
        ),
        far: host(
            101_680,
            3_949_287_504,
            &[],
            vec![cpu(52, 31, 15, 18), cpu(99, 0, 0, 0), cpu(6, 62, 30, 36)],
        ),
        ..UdpmonTest::default()
    };
    let words = "-d 127.0.0.1 -p 50000 -t 2 -i 1 -N -C --as-original";
    let text = said(words, &[interval], test, TcpInfo::default());
    let ours: Vec<&str> = text.lines().skip(1).collect();
    // The segments of the whole host are not known while it runs.
    let theirs: Vec<String> =
        original.iter().map(|line| line.replace("\t50305\t\t50305", "\t-\t\t-")).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn our_own_rates_leave_out_the_first_message() {
    // 40 messages of 1000 bytes: the responder's time runs from the end of the first, so 39 came in it.
    let counts = UdpmonCounts { received: 40, bytes: 40_000, span: 39_000, ..UdpmonCounts::default() };
    let test = UdpmonTest {
        size: 1000,
        sent: 40,
        send_ns: 4_000_000,
        last_burst_ns: 3_900_000,
        counts: Some(counts),
        ..UdpmonTest::default()
    };
    let text = said("-d 127.0.0.1 -p 1000", &[], test, TcpInfo::default());
    let line = text.lines().find(|line| line.starts_with(" 1000;")).unwrap();
    // 8 · 40,000 bits in 4 ms sent, 8 · 39,000 bits in 3.9 ms received.
    assert!(
        line.starts_with(" 1000;  0;  40;   0;   100;   4000;   80;   0;")
            && line.contains(";   100;   3900;   80;   ;"),
        "{line}"
    );
}
