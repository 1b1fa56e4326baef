#[path = "../../../../../compat/src/import/tests/support.rs"]
mod support;

use super::*;
use crate::compat::IMPORTERS;
use compat::import::import;
use support::{near, only, outcome_of};

const XML: &str = include_str!("../sample.xml.txt");
const JSON: &str = include_str!("../sample.json.txt");

/// The file after its first line, which says where it comes from.
fn sample(text: &str) -> &[u8] {
    text.split_once('\n').unwrap().1.as_bytes()
}

/// What NTttcp of Windows writes with `-xml`: the elements that it shares with the Linux program,
/// with binary units. The figures are those of a printed run: 112.875 MEG in 9.999 s, 1806 buffers
/// of 64 KiB, 11.289 MB/s, 11559.556 KB/s of its only thread.
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
        let outcome = outcome_of(&bytes);
        let point = only(&outcome);
        // 1806 buffers of 65536 bytes.
        assert_eq!(point.up.unwrap().sent_bytes, 118_358_016);
        near(point.up.map(|d| d.sent_bps), 118_358_016.0 * 8.0 / 9.999);
        assert_eq!(point.local.tcp.retransmits, 3);
        assert!(outcome.notices.iter().any(|n| n.contains("whole host")), "{:?}", outcome.notices);
        assert_eq!(outcome.begin.host.name, "WIN-LAB");
    }
    let receiver = WINDOWS.replace("ntttcps", "ntttcpr");
    let outcome = outcome_of(receiver.as_bytes());
    let point = only(&outcome);
    assert_eq!(point.up.map(|d| d.received_bytes), Some(118_358_016));
    assert_eq!(point.remote[0].tcp.retransmits, 0, "a receiver's host sends again for others");
}

/// As the original writes files: UTF-16, least byte first, with its mark.
fn utf16(text: &str) -> Vec<u8> {
    [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
}

/// What is read of a file.
fn imported(file: &[u8]) -> ImportedRun {
    read_bytes(file).unwrap().unwrap()
}

fn read_bytes(file: &[u8]) -> Option<Result<ImportedRun, String>> {
    read(&compat::file::open(file).ok()?.documents.first()?.source().ok()?)
}

#[test]
fn both_files_of_one_test_tell_the_same() {
    for text in [XML, JSON] {
        let outcome = outcome_of(sample(text));
        let point = only(&outcome);
        // The file's own 26193.589 Mbit/s.
        near(point.up.map(|d| d.sent_bps), 26_193.589e6);
        assert_eq!(point.up.unwrap().sent_bytes, 9_824_894_976);
        let begin = &outcome.begin;
        assert_eq!((begin.version.as_str(), begin.host.name.as_str()), ("ntttcp 5.33-linux", "vm"));
        let run = imported(sample(text));
        assert_eq!((run.program.as_str(), run.host.as_str()), ("ntttcp 5.33-linux", "vm"));
        // 9824.894976 MB of 10^6 bytes in 3.000702 s.
        let local = &run.phases[0].local;
        assert_eq!((local.traffic.tx_bytes, local.traffic.ns), (9_824_894_976, 3_000_702_000));
        assert_eq!(local.tcp.retransmits, 2);
        let also = &run.notices[1];
        assert!(also.contains("mean tcpi rtt, us 196.000"), "{also}");
        assert!(!also.contains("buffers") && !also.contains("DPC"), "a constant: {also}");
    }
    assert!(imported(sample(XML)).notices[1].contains("connections tested 1"));
}

#[test]
fn the_units_of_windows_are_windows_s() {
    let file = "<?xml version=\"1.0\"?>\n<ntttcpr computername=\"a&amp;b\" version=\"5.33\">\n\
        <thread index=\"0\"><realtime metric=\"s\">9.999</realtime><throughput metric=\"KB/s\">11559.556</throughput></thread>\n\
        <thread index=\"1\"><realtime metric=\"s\">9.999</realtime><throughput metric=\"KB/s\">0</throughput></thread>\n\
        <total_bytes metric=\"MB\">112.875000</total_bytes><realtime metric=\"s\">10.000</realtime>\n\
        <avg_frame_size metric=\"B\">1455.729</avg_frame_size><dpcs metric=\"count/sec\">3048.900</dpcs>\n\
        <errors>0</errors></ntttcpr>";
    let run = imported(file.as_bytes());
    assert_eq!(run.host, "a&b");
    // 112.875 * 2^20.
    assert_eq!(run.phases[0].remote.as_ref().unwrap().traffic.rx_bytes, 118_358_016);
    assert_eq!(run.notices[1], "the file has no settings: that it is of TCP is assumed");
    assert_eq!(run.notices[2], "the file also has: bytes/frame 1455.729; DPCs/s 3048.900; errors 0");
    // 11559.556 * 1024 * 8 = 94,695,882.752.
    assert!(run.notices[3].starts_with("its threads: 0: 94.7 Mbit/s in 9.999 s; 1: "), "{:?}", run.notices);
}

#[test]
fn of_many_threads_the_first_are_told() {
    let thread = |n| format!("<thread index=\"{n}\"><realtime metric=\"s\">1</realtime></thread>");
    let threads = (0..100).map(thread).collect::<Vec<_>>().concat();
    let file = format!(
        "<ntttcps computername=\"a\" version=\"5.33\">{threads}<total_bytes metric=\"MB\">1</total_bytes>\
         <realtime metric=\"s\">1</realtime></ntttcps>"
    );
    let run = imported(file.as_bytes());
    let told = run.notices.last().unwrap();
    assert!(told.contains("; 63: ") && told.ends_with("; and 36 more"), "{told}");
}

#[test]
fn whatever_is_in_a_file_it_is_read_to_its_end() {
    let mut state = 12_345_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for n in 0..4_000 {
        let mut bytes = if n % 2 == 0 { XML.as_bytes().to_vec() } else { JSON.as_bytes().to_vec() };
        for _ in 0..next() % 6 {
            let (at, to) = (next() % bytes.len(), next() % bytes.len());
            match next() % 3 {
                0 => bytes[at] = (next() % 256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => {
                    let last = bytes.len() - 1;
                    bytes.swap(at.min(last), to.min(last));
                }
            }
        }
        let (_, file) = bytes.split_at(bytes.iter().position(|b| *b == b'\n').unwrap_or(0));
        if let Some(Ok(run)) = read_bytes(file) {
            assert!(run.phases[0].duration_ns > Some(0));
        }
    }
    assert!(["", "{}", "<html>"].iter().all(|text| read_bytes(text.as_bytes()).is_none()));
}
