//! The printouts of tcpmon's programs, to the byte.

use crate::compat::args::tests::spec;
use crate::compat::{Printer, Program};
use crate::{
    PacketTest, PacketTestCounts, PacketTestCpu, PacketTestHost, PacketTestInterface, PacketTestIp,
    PacketTestPut,
};
use metrics::{Binned, SocketState, TcpInfo};
use model::{ConnectionRecord, Event};
use uuid::Uuid;

/// What an original printed, without where it comes from, its date, and what it says of its own
/// clocks and sockets.
fn original(text: &str) -> Vec<&str> {
    const OWN: [&str; 7] = [
        "Default affinity:",
        " Initialising",
        "CPU speed",
        "StopWatch_Stop",
        "clock ticks",
        "Defaults:",
        "Settings:",
    ];
    text.lines().skip(2).filter(|line| !OWN.iter().any(|own| line.starts_with(own))).collect()
}

/// The printer of `words` hears a test of one connection.
fn printed(words: &str, snapshot: Option<PacketTest>, test: PacketTest, tcp: TcpInfo) -> String {
    let mut printer = Printer::new(spec(Program::TcpMon, words), "127.0.0.1".to_owned());
    let id = Uuid::from_u128(7);
    let record: ConnectionRecord = serde_json::from_value(serde_json::json!({
        "id": id, "local": null, "remote": "127.0.0.1:14233", "ended_ns": 1, "tx_bytes": 0, "rx_bytes": 0,
        "connect_ns": null, "duration_ns": 1, "result": "completed", "error": null, "tcp": tcp
    }))
    .unwrap();
    let test = PacketTest { connection: Some(id), ..test };
    let test = PacketTest { over: true, ..test };
    [Event::Begin(Box::default())]
        .into_iter()
        .chain(snapshot.map(|test| test.event()))
        .chain([test.event(), Event::Connection(Box::new(record))])
        .map(|event| printer.on_event(&event))
        .collect()
}

fn cpu(user: i64, system: i64, idle: i64, softirq: i64) -> PacketTestCpu {
    PacketTestCpu { user, system, idle, softirq, ..PacketTestCpu::default() }
}

/// A host through whose loopback so many segments and bytes went; and its other interfaces, which
/// were idle.
fn host(n: i64, bytes: i64, idle: &[&str], cpus: Vec<PacketTestCpu>) -> PacketTestHost {
    let interface = |name: &str, counts| PacketTestInterface { name: name.to_owned(), counts };
    let mut interfaces = vec![interface("lo", [n, bytes, 0, 0, n, bytes, 0, 0])];
    interfaces.extend(idle.iter().map(|name| interface(name, [0; 8])));
    PacketTestHost {
        cpus,
        interfaces,
        ip: PacketTestIp { tcp_in: n, tcp_out: n, ..PacketTestIp::default() },
        cards: Vec::new(),
    }
}

#[test]
fn a_run_with_a_histogram_and_records_is_the_originals() {
    let original = original(include_str!("../originals/tcpmon_mon.txt"));
    // What it was told: the figures are those of its own lines.
    let mut gaps = Binned::new(0, 10, 100);
    let rows = original.iter().skip_while(|line| !line.starts_with("Hist")).skip(2).take(100);
    for (bin, row) in rows.enumerate() {
        gaps.bins[bin] = row.split(" ; ").nth(1).unwrap().parse().unwrap();
    }
    // Its mean of 37 values is 184.89.
    (gaps.over, gaps.sum) = (3, 6_841);
    let puts = [(2203, 0), (46, 2209), (318, 2309), (29, 2628), (512, 2728)];
    let kernel = [(327_410, 20, 10), (388_608, 19, 8), (423_936, 18, 7), (459_264, 17, 7), (494_592, 16, 7)];
    let puts = puts.iter().zip(kernel).map(|((took, at), (cwnd_bytes, rtt_us, rttvar_us))| PacketTestPut {
        took_ns: took * 1_000,
        at_ns: at * 1_000,
        sends: 1,
        bytes: 1000,
        socket: Some(SocketState {
            number: 3,
            rcvbuf: 131_072,
            sndbuf: 3_939_840,
            ssthresh: 2_147_483_647,
            cwnd_bytes,
            rtt_us,
            rttvar_us,
            ..SocketState::default()
        }),
    });
    let test = PacketTest {
        size: 1000,
        wait: 1000,
        sent: 40,
        last_burst_ns: 12_736_700,
        counts: Some(PacketTestCounts {
            received: 40,
            bytes: 40_000,
            span: 120_110,
            ..PacketTestCounts::default()
        }),
        gaps: Some(gaps),
        puts: puts.collect(),
        local: host(80, 44_160, &["va"], vec![cpu(25, 75, 0, 50), cpu(0, 100, 0, 100), cpu(50, 50, 0, 0)]),
        remote: host(82, 44_408, &["va"], vec![cpu(60, 39, 0, 11), cpu(55, 44, 0, 19), cpu(65, 34, 0, 4)]),
        ..PacketTest::default()
    };
    let words = "-d 127.0.0.1 -p 1000 -w 100 -l 40 -G 5 -H -B 10 --as-original";
    let text = printed(words, None, test, TcpInfo { snd_mss: 32_741, ..TcpInfo::default() });
    let ours: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(ours, original);
}

#[test]
fn a_run_with_progress_and_tables_is_the_originals() {
    let original = original(include_str!("../originals/tcpmon_mon_tables.txt"));
    // 38,884 messages in 999.6 ms; 16 segments of 65,483 bytes are 1.05 MB.
    let socket = SocketState { cwnd_bytes: 16 * 65_483, ..SocketState::default() };
    let put = PacketTestPut { at_ns: 999_600_000, socket: Some(socket), ..PacketTestPut::default() };
    let snapshot = PacketTest {
        size: 50_000,
        sent: 38_884,
        puts: vec![put],
        mss: Some(32_741),
        local: host(50_305, 0, &[], Vec::new()),
        ..PacketTest::default()
    };
    let test = PacketTest {
        size: 50_000,
        sent: 78_880,
        last_burst_ns: 2_999_396_000,
        counts: Some(PacketTestCounts {
            received: 78_880,
            bytes: 3_944_000_000,
            span: 20_003_320,
            ..PacketTestCounts::default()
        }),
        local: host(
            101_678,
            3_949_287_256,
            &[],
            vec![cpu(51, 48, 0, 28), cpu(98, 1, 0, 0), cpu(5, 94, 0, 56)],
        ),
        remote: host(
            101_680,
            3_949_287_504,
            &[],
            vec![cpu(52, 31, 15, 18), cpu(99, 0, 0, 0), cpu(6, 62, 30, 36)],
        ),
        ..PacketTest::default()
    };
    let words = "-d 127.0.0.1 -p 50000 -t 2 -i 1 -N -C --as-original";
    let text = printed(words, Some(snapshot), test, TcpInfo::default());
    let ours: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(ours, original);
}

#[test]
fn our_own_rates_leave_out_the_first_message() {
    // 40 messages of 1000 bytes: the responder's time runs from the end of the first, so 39 came in
    // it.
    let counts =
        PacketTestCounts { received: 40, bytes: 40_000, span: 39_000, ..PacketTestCounts::default() };
    let test = PacketTest {
        size: 1000,
        sent: 40,
        send_ns: 4_000_000,
        last_burst_ns: 3_900_000,
        counts: Some(counts),
        ..PacketTest::default()
    };
    let text = printed("-d 127.0.0.1 -p 1000", None, test, TcpInfo::default());
    let line = text.lines().find(|line| line.starts_with(" 1000;")).unwrap();
    // 8 · 40,000 bits in 4 ms sent, 8 · 39,000 bits in 3.9 ms received.
    assert!(
        line.starts_with(" 1000;  0;  40;   0;   100;   4000;   80;   0;")
            && line.contains(";   100;   3900;   80;   ;"),
        "{line}"
    );
}
