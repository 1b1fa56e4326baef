//! The printouts of UDPmon's programs, to the byte.

use super::*;
use crate::compat::args::tests::spec;
use crate::compat::line::line;
use crate::{
    PacketTestClock, PacketTestCounts, PacketTestCpu, PacketTestHost, PacketTestInterface, PacketTestIp,
    PacketTestLatency, PacketTestLost, PacketTestRecord,
};
use metrics::Binned;

fn printer(program: Program, words: &str) -> Printer {
    Printer::new(spec(program, words), "127.0.0.1".to_owned())
}

fn printed(printer: &mut Printer, test: PacketTest) -> String {
    printer.on_event(&test.event())
}

/// What udpmon_bw_mon 1.5.2 was told in a test on loopback (`-p 1000 -w 20 -l 60 -H -x -B 5`), and
/// printed.
fn captured() -> PacketTest {
    let mut gaps = Binned::new(0, 5, 150);
    for (bin, n) in [
        (9, 3),
        (10, 2),
        (11, 1),
        (23, 1),
        (28, 1),
        (34, 1),
        (35, 1),
        (36, 2),
        (38, 1),
        (39, 18),
        (40, 21),
        (41, 3),
        (44, 2),
        (62, 1),
        (133, 1),
    ] {
        gaps.bins[bin] = n;
    }
    (gaps.over, gaps.sum) = (1, 11_298);
    let cpu = |user, system, idle| PacketTestCpu { user, system, idle, ..PacketTestCpu::default() };
    let host = |n: i64, bytes: i64| PacketTestHost {
        interfaces: vec![
            PacketTestInterface { name: "lo".into(), counts: [n, bytes, 0, 0, n, bytes, 0, 0] },
            PacketTestInterface { name: "va".into(), counts: [0; 8] },
        ],
        ip: PacketTestIp {
            in_receives: n,
            out_requests: n,
            udp_in: n,
            udp_out: n,
            ..PacketTestIp::default()
        },
        ..PacketTestHost::default()
    };
    PacketTest {
        size: 1000,
        wait: 200,
        sent: 60,
        send_ns: 1_297_000,
        last_burst_ns: 1_297_000,
        counts: Some(PacketTestCounts { received: 60, span: 11_336, ..PacketTestCounts::default() }),
        gaps: Some(gaps),
        local: PacketTestHost { cpus: vec![cpu(0, 0, 0); 3], ..host(60, 61_680) },
        remote: PacketTestHost {
            cpus: vec![cpu(4, 9, 85), cpu(6, 8, 84), cpu(4, 9, 87)],
            ..host(62, 62_152)
        },
        over: true,
        ..PacketTest::default()
    }
}

// The printouts below are those of UDPmon 1.5.2 (908569c, libhj 4.9.5) on loopback, to the byte,
// but where it says otherwise.

#[test]
fn the_extended_line_is_the_originals() {
    let mut printer = printer(Program::BwMon, "-d 127.0.0.1 -p 1000 -w 20 -l 60 -x -B 5 --as-original");
    let text = printed(&mut printer, captured());
    let (titles, line) = text.split_once('\n').unwrap();
    assert!(titles.starts_with(" pkt len; num_sent; num_ACKs recv; num_timeout; Time/frame us; inter-pkt_time us; Send time; send_user_data_rate Mbit; num_recv;"));
    assert!(titles.contains("iq75; <L CPU>; user cpu %; low-prio cpu %; kernel cpu%; idle cpu%; iowait cpu %; irq cpu%; softirq cpu%;; L0 CPU; user"));
    assert!(
        titles.contains("softirq cpu%; <R CPU>;")
            && titles.contains("softirq cpu%; L if; interface:; pktsin;")
    );
    assert!(titles.ends_with("rx_crc_errors_phy; rx_out_of_buffer;"));
    let original = " 1000; 60; 0; 0; 21.6167;  20;  1297; 370.085; 60; 0; 0; 0; 0; 0;  1133.6;  18.8933;  423.43;  451.376;  59; \
         191.492; 79.6944; 3.00225; 141545; 195; 195; 200;L ; 0; 0; 0; 0; 0; 0; 0; ;L0 ; 0; 0; 0; 0; 0; 0; 0; ;L1 ; 0; 0; 0; 0; 0; 0; 0; \
         ;R ; 4; 0; 9; 85; 0; 0; 0; ;R0 ; 6; 0; 8; 84; 0; 0; 0; ;R1 ; 4; 0; 9; 87; 0; 0; 0; ;L if;    lo: ; 60; 61680; 0; 0; 60; 61680; 0; \
         0;    va: ; 0; 0; 0; 0; 0; 0; 0; 0;L snmp; 60; 0; 60; 0; 60; 0; 60;R if;    lo: ; 62; 62152; 0; 0; 62; 62152; 0; 0;    va: ; 0; 0; \
         0; 0; 0; 0; 0; 0;R snmp; 62; 0; 62; 0; 62; 0; 62; R NIC; ;  \n";
    assert_eq!(line, original);
}

#[test]
fn our_own_figures_are_right() {
    // 60 packets have 59 gaps: 8 × 1000 × 59 bits in 1133.6 µs.
    let mut printer = printer(Program::BwMon, "-d 127.0.0.1 -p 1000 -w 20 -l 60 -x -B 5");
    let text = printed(&mut printer, captured());
    assert!(text.contains("  1133.6;  19.2136;  416.373;  443.853;"), "{text}");
    // The fourth moment over the square of the variance: 19.62, not 141545.
    let kurtosis: f64 = text.lines().nth(1).unwrap().split(';').nth(22).unwrap().trim().parse().unwrap();
    assert!((19.6..19.7).contains(&kurtosis), "{kurtosis}");
    // A test with 3 + 1 packets dropped, one repeated and two late of 100.
    let counts = PacketTestCounts {
        received: 97,
        lost: 6,
        bad_order: 3,
        span: 299_000,
        ..PacketTestCounts::default()
    };
    let test = PacketTest {
        size: 300,
        wait: 3000,
        sent: 100,
        send_ns: 33_401_000,
        counts: Some(counts),
        ..PacketTest::default()
    };
    let line = line(&printer.spec, &test);
    assert!(line.contains("; 97; 6; 3; 3; 6; 6;"), "{line}");
}

#[test]
fn bursts_are_divided_by_their_own_time() {
    // Five bursts of ten; the original printed 1923.08 Mbit/s for the time of the last, 104 µs.
    let test = PacketTest {
        size: 500,
        wait: 100,
        sent: 50,
        send_ns: 4_386_000,
        last_burst_ns: 104_000,
        ..PacketTest::default()
    };
    let line = |words: &str| line(&printer(Program::BwMon, words).spec, &test);
    assert!(line("-d h -p 500 --as-original").starts_with(" 500; 50;  10;  1923.08;"));
    assert!(line("-d h -p 500").starts_with(" 500; 50;  10;  45.5996;"), "{}", line("-d h -p 500"));
}

#[test]
fn histograms_and_records_are_the_originals() {
    let mut mon = printer(Program::BwMon, "-d 127.0.0.1 -p 200 -w 50 -l 40 -G 5:20 -H --as-original");
    let mut test = captured();
    let row = |received, sent| PacketTestRecord { received, sent, ..PacketTestRecord::default() };
    test.records = vec![row(79_226, 77_145), row(79_820, 77_645), row(0, 0), row(82_409, 80_339)];
    test.clock = Some(PacketTestClock { original: (1.000_401, -198.5), ..PacketTestClock::default() });
    let text = printed(&mut mon, test);
    assert!(text.contains("Hist        0 Time between frames 0.1us\n counts 59 mean 191.49 underflows 0 overflows 1\n0 ; 0\n5 ; 0\n"));
    assert!(text.contains("\n195 ; 18\n200 ; 21\n205 ; 3\n"));
    assert!(text.contains(" num packets skipped =; 5\npacket; recv_time 0.1us; send_time 0.1us; diff 0.1us; 1-way time us; ;delta recv_time us; delta send_time us; delta 1-way time us; ;HW system time ns; HW raw time ns; ;delta HW system time us; delta HW raw time us;  \n"));
    let rows: Vec<&str> = text.lines().rev().take(5).collect();
    assert!(rows[4].starts_with(" 6; 79226; 77145; 2081; 12.") && rows[3].is_empty(), "{rows:?}");
    assert!(
        rows[2].starts_with(" 7; 79820; 77645; 2175; 2")
            && rows[2].contains("; ; 59.4; 50; 9.42")
            && rows[2].ends_with("; ; 0; 0; ; 0; 0; ;"),
        "{rows:?}"
    );
    assert_eq!(rows[1], " 8; 0; 0; 0; 0; ; 0; 0; 0; ; 0; 0; ;");
}

#[test]
fn lost_packets_are_the_originals() {
    let mut mon = printer(Program::BwMon, "-d 127.0.0.1 -L 10 --as-original");
    let row = |received, sent, number| PacketTestLost { received, sent, number };
    let lost = vec![
        row(97_698, 91_164, 10),
        row(97_698, 91_164, 11),
        row(97_698, 91_164, 12),
        row(165_061, 151_239, 30),
    ];
    let text = printed(&mut mon, PacketTest { lost, ..PacketTest::default() });
    let rows: Vec<&str> = text.lines().skip(4).collect();
    assert!(
        rows[0].starts_with(" 1; 97698; 91164; 6534; ") && rows[0].ends_with("; 10; ; 9769.8; 9116.4; 10"),
        "{rows:?}"
    );
    assert!(
        rows[1].ends_with("; 11; ; 0; 0; 1") && rows[3].ends_with("; 30; ; 6736.3; 6007.5; 18"),
        "{rows:?}"
    );
    assert_eq!((rows.len(), rows[4]), (10, " 5; 0; 0; 0; 0; 0; ; -16506.1; -15123.9; -30"));
}

#[test]
fn latencies_are_the_originals() {
    let mut req = printer(Program::Req, "-d 10.77.0.2 -r 200 -l 100");
    let latency = PacketTestLatency {
        response: 200,
        count: 100,
        total_ns: 14_430_000,
        sum_ns: 14_424_100,
        min_ns: 12_090,
        max_ns: 10_674_411,
        ..PacketTestLatency::default()
    };
    let test = PacketTest { size: 64, latency: Some(latency), ..PacketTest::default() };
    assert_eq!(printed(&mut req, test), " 200;  64;  100;   0;  144.3;  144.241;   12.09;  10674.411; 0 \n");
}

#[test]
fn a_receivers_lines_and_records_are_the_originals() {
    let text = include_str!("../originals/udpmon_recv.txt");
    let original: Vec<&str> = text.lines().skip(1).collect();
    let mut recv = printer(Program::Recv, "-t 9 -T 2 -G 3 -B 10 --as-original");
    let cpu = |n: [i64; 7]| {
        let [user, nice, system, idle, iowait, irq, softirq] = n;
        PacketTestCpu { user, nice, system, idle, iowait, irq, softirq, ..PacketTestCpu::default() }
    };
    let host = |cpus: [[i64; 7]; 3], vb: [i64; 8], udp: i64| PacketTestHost {
        cpus: cpus.map(cpu).to_vec(),
        interfaces: vec![
            PacketTestInterface { name: "lo".into(), counts: [0; 8] },
            PacketTestInterface { name: "vb".into(), counts: vb },
        ],
        ip: PacketTestIp { in_receives: udp, udp_in: udp, ..PacketTestIp::default() },
        cards: Vec::new(),
    };
    // Packets, and from the first to the last so far, 0.1 us: as it printed them, period by period.
    let counts = |received: u64, span: i64| {
        Some(PacketTestCounts { received, bytes: received * 1000, span, ..PacketTestCounts::default() })
    };
    let told = |seconds: i64| Some(Wall((1_795_148_542 + seconds) * 1_000_000_000));
    let test =
        |seconds, counts, remote| PacketTest { told: told(seconds), counts, remote, ..PacketTest::default() };
    let mut said_all = String::new();
    for test in [
        test(
            0,
            counts(0, 0),
            host(
                [[14, 18, 66, 0, 0, 0, 31], [18, 15, 66, 0, 0, 0, 33], [11, 21, 67, 0, 0, 0, 29]],
                [1, 78, 0, 0, 1, 86, 0, 0],
                0,
            ),
        ),
        test(
            2,
            counts(53, 13_682_990),
            host(
                [[29, 14, 56, 0, 0, 0, 22], [9, 22, 67, 0, 0, 0, 27], [48, 6, 45, 0, 0, 0, 18]],
                [53, 55_226, 0, 0, 0, 0, 0, 0],
                53,
            ),
        ),
        test(
            4,
            counts(132, 29_730_230),
            host(
                [[41, 33, 25, 0, 0, 0, 9], [61, 31, 6, 0, 0, 0, 0], [20, 35, 45, 0, 0, 0, 18]],
                [79, 82_318, 0, 0, 0, 0, 0, 0],
                79,
            ),
        ),
        test(
            6,
            counts(132, 29_730_230),
            host(
                [[7, 49, 41, 2, 0, 0, 11], [4, 46, 46, 2, 0, 0, 11], [10, 52, 35, 1, 0, 0, 12]],
                [2, 128, 0, 0, 2, 120, 0, 0],
                0,
            ),
        ),
    ] {
        said_all += &printed(&mut recv, test);
    }
    for (ours, theirs) in said_all.lines().zip(&original[..5]) {
        assert_eq!(&ours, theirs);
    }
    // The records end without an end of line.
    let row = |received, sent| PacketTestRecord { received, sent, ..PacketTestRecord::default() };
    let records = vec![row(6_511_979_212, 0), row(6_512_178_776, 200_003), row(6_514_010_166, 450_504)];
    let over =
        PacketTest { over: true, records, ..test(8, counts(132, 29_730_230), PacketTestHost::default()) };
    let end = printed(&mut recv, over);
    let at = end.find("recv_time ipg us;").unwrap();
    assert_eq!(end[at..], original[5..].join("\n"));
}

#[test]
fn dates_are_those_of_ctime() {
    // 1795148542 is Fri Nov 20 04:22:22 2026 UTC.
    assert_eq!(date(Wall(1_795_148_542 * 1_000_000_000)), "Fri Nov 20 04:22:22 2026");
    assert_eq!(date(Wall(0)), "Thu Jan  1 00:00:00 1970");
    assert_eq!(date(Wall(951_782_400 * 1_000_000_000)), "Tue Feb 29 00:00:00 2000");
}
