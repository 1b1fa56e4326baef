#[path = "../../../../../compat/src/import/tests/support.rs"]
mod support;

use crate::PacketTest;
use crate::compat::IMPORTERS;
use compat::import::import;
use model::{Figure, Kind, Reading, Stat, Way};
use support::{near, only, outcome_of};

#[test]
fn udpmons_tests() {
    // Lines of UDPmon 1.5.2 on loopback.
    let text = "  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; \
        num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n \
        600; 40;  0;  1288.59; 40; 0; 0; 0; 0; 0;  934.761;  1037.59;  \n 600; 40;  30;  156.991; 30; 10; 0; 0; 0; 0;  161.331;  179.077;  \n";
    let outcome = outcome_of(text.as_bytes());
    assert_eq!(outcome.points.len(), 2);
    // 934.761 · 39 / 40.
    near(Figure::Goodput(Way::Up).of(&outcome.points[0]), 911.391_975e6);
    assert_eq!(Figure::Loss(Way::Up).of(&outcome.points[1]), Some(25.0));
    assert_eq!(outcome.points[1].label["spacing"], "30000");
}

#[test]
fn our_own_udpmons_rates_are_right_as_they_are() {
    let table = "  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; \
        num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n \
        600; 40;  0;  1288.59; 40; 0; 0; 0; 0; 0;  934.761;  1037.59;  \n";
    let rate =
        |head: &str| Figure::Goodput(Way::Up).of(&outcome_of(format!("{head}{table}").as_bytes()).points[0]);
    let head = " Fri Nov 20 04:20:59 2026 :  UDPmon Version 1.5.2  CPUs Command line:  udpmon_bw_mon -d ::1";
    near(rate(&format!("{head}\n")), 934.761e6);
    // 934.761 · 39 / 40.
    near(rate(&format!("{head}\nDefault affinity: 00000003 Set affinity: 00000003\n")), 911.391_975e6);
    near(rate(&format!("{head} --as-original\n")), 911.391_975e6);
}

#[test]
fn udpmon_recvs_periods() {
    // Lines of UDPmon 1.5.2 between namespaces, every 2 s, without the counters of the host.
    let text = "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes Recv; \
        Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; <L CPU>; user cpu %\n \
        0; 1795148542; 46346.182199; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0;L ; 14; 18;\n \
        1; 1795148544; 46346.182222; 0.000555556; 53; 0; 0; 0; 0; 0; 53000; 1000; 1.3683e+06; 25817; 0.309874; 0.330325;L ; 29; 14;\n \
        2; 1795148546; 46346.182245; 0.00111111; 79; 3; 0; 0; 0; 0; 79000; 1000; 1.60472e+06; 20313; 0.393837; 0.41983;L ; 41; 33;\n";
    let outcome = outcome_of(text.as_bytes());
    let point = only(&outcome);
    assert_eq!((outcome.begin.verb.as_str(), point.intervals.len()), ("delay", 3));
    assert_eq!(outcome.begin.started.0, 1_795_148_540_000_000_000);
    near(Figure::Goodput(Way::Up).of(point), 132_000.0 * 8.0 / 6.0);
    assert_eq!(
        point.intervals[2].remote.map(|remote| (remote.rx_bytes, remote.ns)),
        Some((79_000, 2_000_000_000))
    );
    near(Figure::Loss(Way::Up).of(point), 100.0 * 3.0 / 135.0);
}

#[test]
fn tcpmons_tests() {
    // A line of tcpmon 2.2.1 on loopback, without the counters of the hosts.
    let text = " pkt len; soc_buf_size; num_sent; wait_time; Time/frame us; Send_time; send_data_rate Mbit; TCPOutSegs; \
        tcpi_total_retrans; tcp_retrans_rate%;  ; Recv soc_buf_size; num_recv; bytes_recv; Recv time/Frame; recv_time; recv_data_rate Mbit;  ; \
        L if; interface:;\n 1000;  0;  40;   100;   318.418;   12736.7;   25.1242;   80;  2;   0;   ; 0;  40;  40000;   300.275;   12011;   \
        26.6422;   ;L if;    lo: ;\n";
    let outcome = outcome_of(text.as_bytes());
    let point = only(&outcome);
    assert_eq!((outcome.begin.verb.as_str(), point.phase.kind), ("tcp", Kind::Tcp));
    // 40 messages over 39 gaps: 26.6422 · 39 / 40.
    near(Figure::Goodput(Way::Up).of(point), 25.976_145e6);
    assert_eq!((point.local.tcp.retransmits, point.up.map(|up| up.sent_bytes)), (2, Some(40_000)));
    assert_eq!(point.label["spacing"], "100000");
}

#[test]
fn udpmons_requests() {
    // In the columns of UDPmon 1.5.2; the second line has two answers missing.
    let text = "response len bytes; Req len;  loop_count;  num_bad; time/frame (tod); ave time us; min time; max time; num timeouts; \n \
        64;  100;  20;   0;  21.9;   20.5;    9.36;  114.515; 0 \n 352;  100;  20;   2;  22;   30;    10;  200; 2 \n";
    let outcome = outcome_of(text.as_bytes());
    let tests: Vec<_> = PacketTest::of(only(&outcome)).collect();
    assert_eq!((outcome.begin.verb.as_str(), tests.len()), ("ping", 2));
    let shown = only(&outcome).shown().next().unwrap();
    assert_eq!(shown.figures[1], Reading::of(Figure::RoundTrip(Stat::Mean), "mean", 20_500.0));
    assert_eq!(tests[1].latency.as_ref().map(|t| (t.response, t.count, t.max_ns)), Some((352, 18, 200_000)));
    // 2 of 40.
    near(Figure::MessagesLost.of(only(&outcome)), 5.0);
}
