use super::super::host::sampled;
use super::*;
use metrics::{TcpInfo, Wall};
use model::{ConnectionRecord, CpuUse, Portion, Traffic};

fn now() -> Now {
    Now { day: "04:19:06".to_owned(), ns: 2_953_000 }
}

fn lines(spec: &Spec, before: &HostReading, after: &HostReading, events: &[Event]) -> Vec<String> {
    let mut printer = Printer::new(spec.clone(), false);
    let mut out = printer.banner(&now());
    for event in events {
        let host = if matches!(event, Event::Start { .. }) { before } else { after };
        out += &printer.on_event(event, &now(), host);
    }
    out.lines().map(str::to_owned).collect()
}

fn totals(bytes: u64, ns: u64, cpu_s: f64) -> Event {
    let cpu = CpuUse { user_s: cpu_s, ..CpuUse::default() };
    let traffic = Traffic { tx_bytes: bytes, rx_bytes: 0, ns, ..Traffic::default() };
    Event::Local(Box::new(Totals { traffic, opened: 1, cpu: Some(cpu), ..Totals::default() }))
}

fn record(rtt_us: u32) -> ConnectionRecord {
    serde_json::from_value(serde_json::json!({
        "id": uuid::Uuid::nil(), "remote": "127.0.0.1:5001", "ended_ns": 0, "tx_bytes": 0, "rx_bytes": 0,
        "duration_ns": 0, "result": "completed", "tcp": TcpInfo { rtt_us, ..TcpInfo::default() }
    }))
    .unwrap()
}

/// The sender's console of ntttcp 1.4.3 (sync_tcp_send.console), from "Test run completed." on,
/// over loopback on two CPUs.
const GOLDEN: &str = "\
04:19:06 INFO: Test run completed.
04:19:06 INFO: Test cycle finished.
04:19:06 INFO: \tThread\tTime(s)\tThroughput
04:19:06 INFO: \t======\t=======\t==========
04:19:06 INFO: \t0\t 3.00\t 26.19Gbps
04:19:06 INFO: 1 connections tested
04:19:06 INFO: #####  Totals:  #####
04:19:06 INFO: test duration\t:3.00 seconds
04:19:06 INFO: total bytes\t:9824894976
04:19:06 INFO: \t throughput\t:26.19Gbps
04:19:06 INFO: \t retrans segs\t:2
04:19:06 INFO: tcp retransmit:
04:19:06 INFO: \t retrans_segments/sec\t:0.67
04:19:06 INFO: \t lost_retrans/sec\t:0.00
04:19:06 INFO: \t syn_retrans/sec\t:0.00
04:19:06 INFO: \t fast_retrans/sec\t:0.67
04:19:06 INFO: \t forward_retrans/sec\t:0.00
04:19:06 INFO: \t slowStart_retrans/sec\t:0.00
04:19:06 INFO: \t retrans_fail/sec\t:0.00
04:19:06 INFO: total packets:
04:19:06 INFO: \t tx_packets\t:242478
04:19:06 INFO: \t rx_packets\t:242478
04:19:06 INFO: interrupts:
04:19:06 INFO: \t total\t\t:84773
04:19:06 INFO: \t interrupts/sec\t:28251.055
04:19:06 INFO: \t pkts/interrupt\t:5.72
04:19:06 INFO: cpu cores\t:2
04:19:06 INFO: \t cpu speed\t:2596.124MHz
04:19:06 INFO: \t user\t\t:41.10%
04:19:06 INFO: \t system\t\t:27.62%
04:19:06 INFO: \t idle\t\t:0.17%
04:19:06 INFO: \t iowait\t\t:0.00%
04:19:06 INFO: \t softirq\t:30.78%
04:19:06 INFO: \t cycles/byte\t:1.58
04:19:06 INFO: cpu busy (all)\t:31.50%
04:19:06 INFO: tcpi rtt\t\t:196 us
---------------------------------------------------------";

#[test]
fn the_report_is_that_of_the_original() {
    let spec = Spec {
        role: Role::Sender,
        address: Some("127.0.0.1".to_owned()),
        layout: Layout { ports: 1, threads: 1, seconds: 3, ..Layout::default() },
        verbose: true,
        retransmits: true,
        nic: Some("lo".to_owned()),
        interrupts: Some("LOC".to_owned()),
        ..Spec::default()
    };
    // What the original printed, taken back to counts: 84773 interrupts at 28251.055 a second are
    // 3.000702 s.
    let ns = 3000702098;
    let after = sampled();
    let before = HostReading { cores: 2, mhz: 2596.124, ..HostReading::default() };
    let local = ([127, 0, 0, 1], 50_817).into();
    let remote = ([127, 0, 0, 1], 5001).into();
    let portion = Portion {
        slot: 0,
        local,
        remote,
        tx_bytes: 9_824_894_976,
        rx_bytes: 0,
        from_ns: 0,
        to_ns: ns,
        calls: 1,
        cut: false,
    };
    let traffic = Traffic { tx_bytes: 1_801_250_000, rx_bytes: 0, ns: 500_000_000, ..Traffic::default() };
    let interval = model::Interval { local: traffic, ..model::Interval::default() };
    let events = [
        Event::Established { local, remote, at_ns: 0 },
        Event::Start { at: Wall(0) },
        Event::Interval(Box::new(interval)),
        Event::Portion(Box::new(portion)),
        Event::Connection(Box::new(record(196))),
        totals(9_824_894_976, ns, 3.000_702 * 0.315),
        Event::PhaseEnd { status: Status::Complete, reason: None },
    ];
    let lines = lines(&spec, &before, &after, &events);
    let golden: Vec<&str> = GOLDEN.lines().collect();
    assert_eq!(lines[lines.len() - golden.len()..], golden);
    let head = &lines[..lines.len() - golden.len()];
    for line in [
        "NTTTCP for Linux 1.4.3",
        "*** sender role",
        "connections:\t\t\t 1 X 1 X 1",
        "sender socket buffer (bytes):\t 131072",
        "show device interrupts for:\t LOC",
        "04:19:06 INFO: 1 connections created in 2953 microseconds",
        "04:19:06 INFO: Network activity progressing...",
        "Real-time throughput: 28.82Gbps",
    ] {
        assert!(head.iter().any(|l| l == line), "{line}: {head:#?}");
    }
}

#[test]
fn rates_have_the_unit_that_fits() {
    // nosync_tcp_recv.console: 33030144 bytes in 2.00 s are 132.08Mbps, 16777216 are 67.09Mbps by
    // the time of 2.0006 s.
    assert_eq!(throughput(33_030_144, 2_000_600_000), "132.08Mbps");
    assert_eq!(throughput(16_777_216, 2_000_600_000), "67.09Mbps");
    assert_eq!(
        (throughput(0, 5), throughput(125, 1_000_000_000)),
        ("0.00bps".to_owned(), "1000.00bps".to_owned())
    );
}

#[test]
fn a_refusal_is_an_error_line() {
    let spec = Spec { role: Role::Sender, ..Spec::default() };
    let reason = Some("the receiver is busy with another test".to_owned());
    let end = Event::PhaseEnd { status: Status::Failed, reason };
    let lines = lines(&spec, &HostReading::default(), &HostReading::default(), &[end]);
    // busy_send2.console.
    assert_eq!(
        lines[lines.len() - 2..],
        [
            "04:19:06 ERR : receiver is busy with an existing test running",
            "04:19:06 ERR : sender: receiver is busy with another test"
        ]
    );
}
