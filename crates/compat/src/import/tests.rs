use super::*;
use flate2::{Compression, write::GzEncoder};
use model::{DelayRange, Figure, Point, Stat, Way};
use std::io::Write as _;

/// The file after its first line, which says where it comes from.
fn sample(text: &'static str) -> &'static [u8] {
    text.split_once('\n').map_or("", |(_, rest)| rest).as_bytes()
}

#[track_caller]
fn read(bytes: &[u8]) -> Outcome {
    import(bytes).expect("a file that is known").expect("a good file")
}

#[track_caller]
fn only(outcome: &Outcome) -> &Point {
    assert_eq!(outcome.points.len(), 1, "{:?}", outcome.notices);
    &outcome.points[0]
}

#[track_caller]
fn local(got: Option<f64>, want: f64) {
    let got = got.expect("a figure");
    assert!((got - want).abs() <= want.abs() * 2e-3 + 1e-9, "{got} against {want}");
}

#[test]
fn iperf3_over_tcp() {
    let outcome = read(sample(include_str!("iperf3-tcp.json.txt")));
    let begin = &outcome.begin;
    assert_eq!(
        (begin.version.as_str(), begin.verb.as_str(), begin.protocol.as_str()),
        ("iperf 3.12", "tcp", "iperf3")
    );
    assert_eq!((begin.targets[0].as_str(), begin.host.name.as_str()), ("127.0.0.1", "vm"));
    let point = only(&outcome);
    // end.sum_received.bits_per_second of the file; its intervals are the sender's.
    local(Figure::Goodput(Way::Up).of(point), 200_211_745.912_103_1);
    assert_eq!((point.intervals.len(), point.up.unwrap().confirmed), (2, true));
    assert_eq!(point.up.unwrap().sent_bytes, 50_069_504);
    assert_eq!(Figure::Goodput(Way::Down).of(point), None);
    assert_eq!(Figure::Retransmits.of(point), Some(0.0));
}

#[test]
fn iperf3_both_ways_and_udp() {
    let outcome = read(sample(include_str!("iperf3-bidir.json.txt")));
    let point = only(&outcome);
    local(Figure::Goodput(Way::Up).of(point), 100_128_594.626_158_86);
    local(Figure::Goodput(Way::Down).of(point), 100_128_594.626_158_86);
    let first = &point.intervals[0];
    assert_eq!((first.local.tx_bytes, first.local.rx_bytes), (12_582_912, 12_582_912));

    let outcome = read(sample(include_str!("iperf3-udp.json.txt")));
    let point = only(&outcome);
    assert_eq!((outcome.begin.verb.as_str(), Figure::Loss(Way::Up).of(point)), ("delay", Some(0.0)));
    local(Figure::Jitter(Way::Up).of(point), 392_618.042);
    assert_eq!(point.remote[0].packets.as_ref().unwrap().counts.received, 39);
}

#[test]
fn irtt_with_its_round_trips() {
    let outcome = read(sample(include_str!("irtt.json.txt")));
    let point = only(&outcome);
    // stats.rtt of the file: min 112458, max 358024, 10 of 10 came back.
    local(Figure::RoundTrip(Stat::Min).of(point), 112458.0);
    local(Figure::RoundTrip(Stat::Max).of(point), 358024.0);
    assert_eq!(Figure::MessagesLost.of(point), Some(0.0));
    assert_eq!((outcome.begin.version.as_str(), outcome.begin.protocol.as_str()), ("irtt 0.9.0", "irtt"));
    assert!(outcome.begin.started.0 > 1_700_000_000_000_000_000);
}

#[test]
fn flent_packed_or_not() {
    let text = sample(include_str!("flent.json.txt"));
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text).unwrap();
    let outcome = read(&packed.finish().unwrap());
    assert_eq!(outcome, read(text));
    let series: Vec<&str> = outcome.points.iter().map(|p| p.label["series"].as_str()).collect();
    assert_eq!(series, ["Ping (ms) ICMP", "Ping (ms) UDP"]);
    // The largest of either series in the file, ms.
    local(Figure::RoundTrip(Stat::Max).of(&outcome.points[0]), 0.052_988_327e6);
    local(Figure::RoundTrip(Stat::Max).of(&outcome.points[1]), 0.802_843_934e6);
    assert_eq!((outcome.points[0].intervals.len(), outcome.begin.version.as_str()), (9, "flent 2.1.1"));
}

#[test]
fn flents_streams_add_up() {
    // In the layout of flent's rrul: two streams up and one down of 4 steps, sums beside them, one step without a value.
    let text = r#"{"metadata":{"NAME":"rrul_be","HOST":"remote","STEP_SIZE":0.5},"version":4,"x_values":[0.0,0.5,1.0,1.5],
        "results":{"TCP upload BE":[null,10,20,30],"TCP upload BE2":[null,1,2,3],"TCP upload BE::tcp_rtt":[9,9,9,9],
        "TCP upload sum":[null,11,22,33],"TCP download BE":[null,8,null,8],"Ping (ms) avg":[1,1,1,1],"VoIP::loss":[0,0,0,0]}}"#;
    let outcome = read(text.as_bytes());
    let point = only(&outcome);
    // (11 + 22 + 33) / 3 Mbit/s over the steps in which something moved, and (8 + 0 + 8) / 3 back.
    local(point.up.map(|d| d.sent_bps), 22e6);
    local(Figure::Goodput(Way::Down).of(point), 16e6 / 3.0);
    assert!(!point.up.unwrap().confirmed, "only the sender's readings are known");
    assert!(
        outcome.notices.iter().any(|n| n == "left out: TCP upload BE::tcp_rtt, VoIP::loss"),
        "{:?}",
        outcome.notices
    );
}

#[test]
fn ntttcp_of_either_kind() {
    for text in [include_str!("../ntttcp/sample.json.txt"), include_str!("../ntttcp/sample.xml.txt")] {
        let outcome = read(sample(text));
        let point = only(&outcome);
        // 9824.894976 MB in 3.000702 s: the file's own 26193.589 Mbit/s.
        local(point.up.map(|d| d.sent_bps), 26_193.589e6);
        assert_eq!(point.up.unwrap().sent_bytes, 9_824_894_976);
        assert_eq!(
            (outcome.begin.version.as_str(), outcome.begin.host.name.as_str()),
            ("ntttcp 5.33-linux", "vm")
        );
    }
}

/// What NTttcp of Windows writes with `-xml`: the elements that it shares with the Linux program, with binary units. The figures are
/// those of a printed run: 112.875 MEG in 9.999 s, 1806 buffers of 64 KiB, 11.289 MB/s, 11559.556 KB/s of its only thread.
const WINDOWS: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<ntttcps computername="WIN-LAB" version="5.33">
	<parameters>
		<send_socket_buff>-1</send_socket_buff>
		<port>5001</port>
		<async>True</async>
		<run_time>10000</run_time>
	</parameters>
	<thread index="0">
		<realtime metric="s">9.999</realtime>
		<throughput metric="KB/s">11559.556</throughput>
		<throughput metric="MB/s">11.289</throughput>
		<avg_bytes_per_compl metric="B">65536.000</avg_bytes_per_compl>
	</thread>
	<total_bytes metric="MB">112.875000</total_bytes>
	<realtime metric="s">9.999000</realtime>
	<avg_frame_size metric="B">1455.729</avg_frame_size>
	<throughput metric="MB/s">11.289</throughput>
	<throughput metric="buffers/s">180.618</throughput>
	<packets_sent>81305</packets_sent>
	<packets_received>79529</packets_received>
	<packets_retransmitted>3</packets_retransmitted>
	<errors>0</errors>
	<cpu metric="%">2.315</cpu>
</ntttcps>
"#;

#[test]
fn ntttcp_of_windows_counts_in_binary_megabytes() {
    for bytes in [WINDOWS.as_bytes().to_vec(), WINDOWS.replace('\n', "\r\n").into_bytes(), utf16(WINDOWS)] {
        let outcome = read(&bytes);
        let point = only(&outcome);
        // 1806 buffers of 65536 bytes.
        assert_eq!(point.up.unwrap().sent_bytes, 118_358_016);
        local(point.up.map(|d| d.sent_bps), 118_358_016.0 * 8.0 / 9.999);
        assert_eq!(point.local.tcp.retransmits, 3);
        assert!(outcome.notices.iter().any(|n| n.contains("whole host")), "{:?}", outcome.notices);
        assert_eq!(outcome.begin.host.name, "WIN-LAB");
    }
    let receiver = WINDOWS.replace("ntttcps", "ntttcpr");
    let outcome = read(receiver.as_bytes());
    let point = only(&outcome);
    assert_eq!(point.up.map(|d| d.received_bytes), Some(118_358_016));
    assert_eq!(point.remote[0].tcp.retransmits, 0, "a receiver's host sends again for others");
}

#[test]
fn ctstraffics_status_tables() {
    // Lines of ctsTraffic.Status.csv as its guide shows them (rates in bytes/s), as the original writes them.
    let text = "TimeSlice,SendBps,RecvBps,In-Flight,Completed,NetError,DataError\r\n\
        5.001,1000,500,8,0,0,0\r\n10.001,2000,500,8,3,1,0\r\n";
    let point = only(&read(text.as_bytes())).clone();
    assert_eq!((point.local.completed, point.local.network_errors, point.local.opened), (3, 1, 12));
    assert_eq!(point.intervals[1].local.tx_bytes, 10_000);
    let mut utf16 = vec![0xff, 0xfe];
    utf16.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    // The original's first slice has no true time: it is left out.
    assert_eq!(only(&read(&utf16)).intervals.len(), 1);
    let frames = "TimeSlice,Bits/Sec,Streams,Completed,Dropped,Repeated,Errors\r\n1.000,8000,1,59,1,0,0\r\n";
    local(Figure::Frames.of(only(&read(frames.as_bytes()))), 100.0 / 60.0);
}

/// As the original writes files: UTF-16, least byte first, with its mark.
fn utf16(text: &str) -> Vec<u8> {
    [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
}

#[test]
fn ctstraffics_other_tables() {
    // Headers and forms of rows as the original's source writes them; the numbers are chosen.
    let text = "TimeSlice,LocalAddress,RemoteAddress,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,Result,ConnectionId\r\n\
        2.000,10.0.0.1:5000,10.0.0.2:4444,1000000,500000,0,0,2000,Succeeded,01234567-89ab-cdef-0123-456789abcdef\r\n\
        3.000,10.0.0.1:5001,10.0.0.2:4444,1000000,1000000,0,0,1000,Succeeded,11234567-89ab-cdef-0123-456789abcdef\r\n\
        4.000,10.0.0.1:5002,10.0.0.3:4444,0,0,0,0,1500,10060: timed out,00000000-0000-0000-0000-000000000000\r\n";
    let outcome = read(&utf16(text));
    let point = only(&outcome);
    assert_eq!((point.local.completed, point.local.network_errors, point.local.opened), (2, 1, 3));
    // From the first connection's beginning at 0 to the last one's end at 4 s; the first two do not overlap, the last two do.
    assert_eq!(
        (point.local.traffic.ns, point.local.traffic.tx_bytes, point.local.peak),
        (4_000_000_000, 2_000_000, 2)
    );
    assert_eq!(point.local.transfer_ns.as_ref().map(|t| (t.count, t.min / 1_000_000)), Some((2, 1_000)));
    assert_eq!((point.local.causes[0].count, point.local.causes[0].text.as_str()), (1, "10060: timed out"));
    assert_eq!(
        (outcome.begin.targets.join(" "), point.connections.len()),
        ("10.0.0.2 10.0.0.3".to_owned(), 3)
    );

    let text = "TimeSlice,LocalAddress,RemoteAddress,Bits/Sec,Completed,Dropped,Repeated,Errors,Result,ConnectionId\n\
        5.000,10.0.0.1:5000,10.0.0.2:4444,1000000,97,2,1,0,Succeeded,01234567-89ab-cdef-0123-456789abcdef\n";
    let outcome = read(text.as_bytes());
    assert_eq!(outcome.begin.verb, "stream");
    local(Figure::Frames.of(only(&outcome)), 3.0);

    // A millisecond between frames at both ends, but the third comes 3 ms late; the fourth does not come.
    let header = "SequenceNumber,SenderQpc,SenderQpf,ReceiverQpc,ReceiverQpf,RelativeInFlightTimeMs,PrevToCurrentInFlightTimeJitter";
    let text = format!(
        "{header}\r\n1,1000,1000,5000,1000,0,0\r\n2,1001,1000,5001,1000,0,0\r\n3,1002,1000,5005,1000,3,3\r\n4,0,0,0,0,0,0\r\n"
    );
    let outcome = read(&utf16(&text));
    local(Figure::Frames.of(only(&outcome)), 25.0);
    // RFC 3550: 0, 0, then 3 ms / 16.
    local(Figure::Jitter(Way::Down).of(only(&outcome)), 3e6 / 16.0);

    let text = "TimeSlice,LocalAddress,RemoteAddress,ConnectionId,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,BytesReordered,\
        BytesRetransmitted,SynRetransmitted,DupAcksIn,MinRttUs,Mss,TimeoutEpisodes,FastRetransmit,SndLimBytesCwnd,\
        SndLimBytesRwin,SndLimBytesSnd\n\
        2.000,10.0.0.1:5000,10.0.0.2:4444,01234567-89ab-cdef-0123-456789abcdef,1000000,500000,0,0,2000,0,2920,0,3,150,1460,0,2,0,0,0\n";
    let point = only(&read(text.as_bytes())).clone();
    assert_eq!((point.local.tcp.bytes_retrans, point.local.tcp.min_rtt_us), (2920, 150));
    assert_eq!(Figure::Retransmits.of(&point), Some(2.0));
    local(point.up.map(|d| d.sent_bps), 4e6);
}

#[test]
fn bwdelaytesters_lines() {
    // From the output of the original (arnoutdekimo/bwdelaytester, 2022-11), `-p 1000 -b 10`: 1, 125 and 127 packets.
    let text = "# bytes_last_intv packets_last_intv drops_last_intv drops_consq_last_intv mindelayus_last_intv maxdelayus_last_intv avgdelayus_last_intv \n\
        10000 10 0 0 0 243 243\n1250000 1250 0 0 6 1403 175\n1270000 1270 0 0 6 4002 102\n\
        ## Printing latency histogram:\n0 2194 88\n200 16 88\n400 290 100\n";
    let outcome = read(text.as_bytes());
    let point = only(&outcome);
    local(Figure::Goodput(Way::Up).of(point), 253_000.0 * 8.0 / 0.3);
    assert_eq!(Figure::Loss(Way::Up).of(point), Some(0.0));
    local(Figure::Delay(Way::Up, Stat::MEDIAN).of(point), 200e3);
    let ranges: Vec<_> = point.intervals.iter().map(|i| i.remote_packets.as_ref()?.delay_range_ns).collect();
    // The first smallest one is what the original begins to compare with.
    assert_eq!(ranges[0], Some(DelayRange { min: None, mean: 243e3, max: 243_000 }));
    assert_eq!(ranges[1], Some(DelayRange { min: Some(6_000), mean: 175e3, max: 1_403_000 }));
}

#[test]
fn bwdelaytesters_table_of_rates() {
    // From a sweep of the original, `-p 500 -b 60 -s`.
    let text = "## Printing latency histogram:\n0 2194 88\n## Printing sweep data:\n10 0.000000 0 321924 353 326\n\
        70 5.628461 0 219105 882 44\n";
    let outcome = read(text.as_bytes());
    assert_eq!(outcome.points.len(), 3);
    let last = &outcome.points[2];
    assert_eq!(last.label["rate"], "70000000");
    local(Figure::Loss(Way::Up).of(last), 5.6285);
    let told = last.remote[0].packets.as_ref().and_then(|p| p.delay_range_ns);
    assert_eq!(told, Some(DelayRange { min: None, mean: 882e3, max: 219_105_000 }));
    // How much came at a rate is not told.
    assert!(
        outcome.points.iter().all(|point| point.up.is_none())
            && outcome.sweep.iter().all(|row| !row.figures.contains_key("goodput.up"))
    );
}

#[test]
fn udpmons_tests() {
    // Lines of UDPmon 1.5.2 on loopback.
    let text = "  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; \
        num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n \
        600; 40;  0;  1288.59; 40; 0; 0; 0; 0; 0;  934.761;  1037.59;  \n 600; 40;  30;  156.991; 30; 10; 0; 0; 0; 0;  161.331;  179.077;  \n";
    let outcome = read(text.as_bytes());
    assert_eq!(outcome.points.len(), 2);
    // 934.761 · 39 / 40.
    local(Figure::Goodput(Way::Up).of(&outcome.points[0]), 911.391_975e6);
    assert_eq!(Figure::Loss(Way::Up).of(&outcome.points[1]), Some(25.0));
    assert_eq!(outcome.points[1].label["spacing"], "30000");
}

#[test]
fn our_own_udpmons_rates_are_right_as_they_are() {
    let table = "  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; \
        num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n \
        600; 40;  0;  1288.59; 40; 0; 0; 0; 0; 0;  934.761;  1037.59;  \n";
    let rate = |head: &str| Figure::Goodput(Way::Up).of(&read(format!("{head}{table}").as_bytes()).points[0]);
    let head = " Fri Nov 20 04:20:59 2026 :  UDPmon Version 1.5.2  CPUs Command line:  udpmon_bw_mon -d ::1";
    local(rate(&format!("{head}\n")), 934.761e6);
    // 934.761 · 39 / 40.
    local(rate(&format!("{head}\nDefault affinity: 00000003 Set affinity: 00000003\n")), 911.391_975e6);
    local(rate(&format!("{head} --as-original\n")), 911.391_975e6);
}

#[test]
fn udpmon_recvs_periods() {
    // Lines of UDPmon 1.5.2 between namespaces, every 2 s, without the counters of the host.
    let text = "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes Recv; \
        Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; <L CPU>; user cpu %\n \
        0; 1795148542; 46346.182199; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0; 0;L ; 14; 18;\n \
        1; 1795148544; 46346.182222; 0.000555556; 53; 0; 0; 0; 0; 0; 53000; 1000; 1.3683e+06; 25817; 0.309874; 0.330325;L ; 29; 14;\n \
        2; 1795148546; 46346.182245; 0.00111111; 79; 3; 0; 0; 0; 0; 79000; 1000; 1.60472e+06; 20313; 0.393837; 0.41983;L ; 41; 33;\n";
    let outcome = read(text.as_bytes());
    let point = only(&outcome);
    assert_eq!((outcome.begin.verb.as_str(), point.intervals.len()), ("delay", 3));
    assert_eq!(outcome.begin.started.0, 1_795_148_540_000_000_000);
    local(Figure::Goodput(Way::Up).of(point), 132_000.0 * 8.0 / 6.0);
    assert_eq!(
        point.intervals[2].remote.map(|remote| (remote.rx_bytes, remote.ns)),
        Some((79_000, 2_000_000_000))
    );
    local(Figure::Loss(Way::Up).of(point), 100.0 * 3.0 / 135.0);
}

#[test]
fn tcpmons_tests() {
    // A line of tcpmon 2.2.1 on loopback, without the counters of the hosts.
    let text = " pkt len; soc_buf_size; num_sent; wait_time; Time/frame us; Send_time; send_data_rate Mbit; TCPOutSegs; \
        tcpi_total_retrans; tcp_retrans_rate%;  ; Recv soc_buf_size; num_recv; bytes_recv; Recv time/Frame; recv_time; recv_data_rate Mbit;  ; \
        L if; interface:;\n 1000;  0;  40;   100;   318.418;   12736.7;   25.1242;   80;  2;   0;   ; 0;  40;  40000;   300.275;   12011;   \
        26.6422;   ;L if;    lo: ;\n";
    let outcome = read(text.as_bytes());
    let point = only(&outcome);
    assert_eq!((outcome.begin.verb.as_str(), point.phase.kind), ("tcp", Kind::Tcp));
    // 40 messages over 39 gaps: 26.6422 · 39 / 40.
    local(Figure::Goodput(Way::Up).of(point), 25.976_145e6);
    assert_eq!((point.local.tcp.retransmits, point.up.map(|up| up.sent_bytes)), (2, Some(40_000)));
    assert_eq!(point.label["spacing"], "100000");
}

#[test]
fn udpmons_requests() {
    // In the columns of UDPmon 1.5.2; the second line has two answers missing.
    let text = "response len bytes; Req len;  loop_count;  num_bad; time/frame (tod); ave time us; min time; max time; num timeouts; \n \
        64;  100;  20;   0;  21.9;   20.5;    9.36;  114.515; 0 \n 352;  100;  20;   2;  22;   30;    10;  200; 2 \n";
    let outcome = read(text.as_bytes());
    let tests = &only(&outcome).packet_tests;
    assert_eq!((outcome.begin.verb.as_str(), tests.len()), ("ping", 2));
    assert_eq!(Figure::of_test(&tests[0]), [(Figure::RoundTrip(Stat::Mean), 20_500.0)]);
    assert_eq!(tests[1].latency.as_ref().map(|t| (t.response, t.count, t.max_ns)), Some((352, 18, 200_000)));
    // 2 of 40.
    local(Figure::MessagesLost.of(only(&outcome)), 5.0);
}

#[test]
fn other_files_are_none_of_these_and_damage_does_no_harm() {
    for text in ["", "{", "{}", "[1]", "<xml/>", "size,wait\n", "{\"schema\":\"netcaliper.outcome.v2\"}"] {
        assert!(import(text.as_bytes()).is_none(), "{text}");
    }
    let all = [
        sample(include_str!("iperf3-tcp.json.txt")),
        sample(include_str!("irtt.json.txt")),
        sample(include_str!("flent.json.txt")),
        sample(include_str!("../ntttcp/sample.xml.txt")),
    ];
    for whole in all {
        for cut in (0..whole.len()).step_by(whole.len() / 97 + 1) {
            let _ = import(&whole[..cut]);
        }
    }
    // Numbers where texts are expected, nonsense where numbers are.
    let odd = r#"{"start":{"version":"iperf 3.9","test_start":{"num_streams":-1,"duration":1e300}},"intervals":[7,{}],"end":{"sum_sent":{"bytes":-5,"seconds":"x"}}}"#;
    let _ = read(odd.as_bytes());
    let failed =
        r#"{"start":{"version":"iperf 3.9"},"intervals":[],"end":{},"error":"error - unable to connect"}"#;
    assert!(import(failed.as_bytes()).unwrap().unwrap_err().contains("unable to connect"));
    assert!(import(b"\x1f\x8bnonsense").unwrap().unwrap_err().contains("cannot be unpacked"));
}
