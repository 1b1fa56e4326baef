//! The XML file of Windows NTttcp 5.40 (`-xml`). KB and MB are 1024 and 1024² bytes; the durations among the parameters are in ms.

use super::args::{Role, Spec};
use super::files::{Results, Xml, escaped, ratio};
use super::print::per_second;

/// Bytes of a KB.
const KILO: f64 = 1_024.0;
/// `bufferCount` of a timed test.
const NO_COUNT: u64 = i64::MAX as u64;
/// Defaults of NTttcp: time limit with `-n`, ms; wait timeout, ms; outstanding I/Os.
const DASH_N_MS: u64 = 10_800_000;
const WAIT_MS: u64 = 600_000;
const QUEUED: u64 = 2;

/// The parameters in order.
fn parameters(spec: &Spec) -> Vec<(&'static str, String)> {
    let flag = |on: bool| if on { "True" } else { "False" }.to_owned();
    let no = || flag(false);
    let zero = || "0".to_owned();
    // -1: the system's default.
    let size = |n: Option<u64>| n.map_or_else(|| "-1".to_owned(), |n| n.to_string());
    let ms = |s: u32| (u64::from(s) * 1_000).to_string();
    let layout = &spec.layout;
    let v6 = spec.hosts.iter().any(|host| host.contains(':'));
    // Bits/s to bytes/ms.
    let limit = spec.thread_limit.unwrap_or(0) / 8_000;
    vec![
        ("send_socket_buff", size(spec.sndbuf)),
        ("recv_socket_buff", size(spec.rcvbuf)),
        ("port", layout.port.to_string()),
        ("sync_port", no()),
        ("no_sync", flag(!layout.token)),
        ("wait_timeout_milliseconds", spec.patience_ms.unwrap_or(WAIT_MS).to_string()),
        ("async", no()),
        ("verbose", flag(spec.verbose)),
        ("wsa", no()),
        ("use_ipv6", flag(v6 || spec.v6)),
        ("udp", flag(layout.udp)),
        ("udp_unconnected", no()),
        ("verify_data", no()),
        ("wait_all", no()),
        ("run_time", ms(layout.seconds)),
        ("warmup_time", ms(layout.warmup_s)),
        ("cooldown_time", ms(layout.cooldown_s)),
        ("dash_n_timeout", DASH_N_MS.to_string()),
        ("bind_sender", flag(spec.local.is_some())),
        ("sender_name", spec.local.map_or_else(String::new, |at| at.to_string())),
        ("max_active_threads", layout.ports.to_string()),
        ("udp_uso_size", zero()),
        ("udp_receive_coalescing", zero()),
        ("tp", no()),
        ("use_hvsocket_flag", no()),
        ("no_stdio_buffer", no()),
        ("throughput_Bpms", limit.to_string()),
        ("cpu_burn", zero()),
        ("latency_measurement", no()),
        ("use_io_compl_ports", no()),
        ("cpu_from_idle_flag", no()),
        ("get_estats", no()),
        ("qos_flag", no()),
        ("jitter_measurement", no()),
        ("packet_spacing", zero()),
    ]
}

/// The file.
pub(super) fn write(spec: &Spec, results: &Results) -> String {
    let root = if spec.role == Role::Sender { "ntttcps" } else { "ntttcpr" };
    let mut xml = Xml(String::new());
    xml.tag(0, &format!("<{root} computername=\"{}\" version=\"5.40\">", escaped(&results.computer)));
    xml.tag(1, "<parameters>");
    for (name, value) in parameters(spec) {
        xml.plain(2, name, &value);
    }
    xml.tag(1, "</parameters>");
    for (index, thread) in results.threads.iter().enumerate() {
        xml.tag(1, &format!("<thread index=\"{index}\">"));
        xml.metric(2, "realtime", "s", &format!("{:.3}", thread.seconds));
        // Over the duration of the test, as in the original, so that the threads add up to the total.
        let rate = ratio(thread.bytes as f64, results.seconds);
        xml.metric(2, "throughput", "KB/s", &format!("{:.3}", rate / KILO));
        rates(&mut xml, 2, rate);
        let each = ratio(thread.bytes as f64, thread.calls as f64);
        xml.metric(2, "avg_bytes_per_compl", "B", &format!("{each:.3}"));
        xml.tag(1, "</thread>");
    }
    moved(&mut xml, spec, results);
    counters(&mut xml, spec, results);
    xml.tag(0, &format!("</{root}>"));
    xml.0
}

fn rates(xml: &mut Xml, depth: usize, bytes_per_second: f64) {
    xml.metric(depth, "throughput", "MB/s", &format!("{:.3}", bytes_per_second / KILO / KILO));
    xml.metric(depth, "throughput", "mbps", &format!("{:.3}", bytes_per_second * 8.0 / 1e6));
    xml.metric(depth, "throughput", "Bps", &format!("{bytes_per_second:.1}"));
}

/// Packets sent and received by this host during the test.
fn packets(spec: &Spec, results: &Results) -> (u64, u64) {
    if spec.layout.udp { results.host.datagrams } else { results.host.segments }
}

/// Bytes, times and rates.
fn moved(xml: &mut Xml, spec: &Spec, results: &Results) {
    let bytes = results.bytes as f64;
    let calls: u64 = results.threads.iter().map(|thread| thread.calls).sum();
    let each = |thread: &super::Thread| ratio(thread.bytes as f64, thread.calls as f64);
    let mean = ratio(results.threads.iter().map(each).sum(), results.threads.len() as f64);
    let (sent, received) = packets(spec, results);
    let own = if spec.role == Role::Sender { sent } else { received };
    let buffers = ratio(bytes, spec.phase().buffer.high as f64);
    xml.metric(1, "total_bytes", "MB", &format!("{:.6}", bytes / KILO / KILO));
    xml.metric(1, "realtime", "s", &format!("{:.6}", results.seconds));
    xml.metric(1, "avg_bytes_per_compl", "B", &format!("{:.3}", ratio(bytes, calls as f64)));
    xml.metric(1, "threads_avg_bytes_per_compl", "B", &format!("{mean:.3}"));
    xml.metric(1, "avg_frame_size", "B", &format!("{:.3}", ratio(bytes, own as f64)));
    rates(xml, 1, ratio(bytes, results.seconds));
    xml.plain(1, "total_buffers", &format!("{buffers:.3}"));
    xml.metric(1, "throughput", "buffers/s", &format!("{:.3}", ratio(buffers, results.seconds)));
}

/// Counters of the host.
fn counters(xml: &mut Xml, spec: &Spec, results: &Results) {
    let host = &results.host;
    let (sent, received) = packets(spec, results);
    let (interrupts, deferred) = (host.all_interrupts, host.deferred);
    let each = |n: u64| format!("{:.3}", ratio(received as f64, n as f64));
    let rate = |n: u64| format!("{:.3}", per_second(n, results.seconds));
    xml.metric(1, "avg_packets_per_interrupt", "packets/interrupt", &each(interrupts));
    xml.metric(1, "interrupts", "count/sec", &rate(interrupts));
    xml.metric(1, "dpcs", "count/sec", &rate(deferred));
    xml.metric(1, "avg_packets_per_dpc", "packets/dpc", &each(deferred));
    // Absent where the kernel reports no CPU clock.
    if host.mhz > 0.0 {
        xml.metric(1, "cycles", "cycles/byte", &format!("{:.3}", results.cycles()));
    }
    xml.plain(1, "packets_sent", &sent.to_string());
    xml.plain(1, "packets_received", &received.to_string());
    let again = if spec.layout.udp { 0 } else { host.retransmits[0] };
    xml.plain(1, "packets_retransmitted", &again.to_string());
    xml.plain(1, "errors", &results.errors.to_string());
    xml.metric(1, "cpu", "%", &format!("{:.3}", (1.0 - host.share(3)) * 100.0));
    xml.plain(1, "num_processors", &host.cores.to_string());
    let length = spec.buffer.unwrap_or(1).max(1);
    let count = spec.transfer.map_or(NO_COUNT, |bytes| bytes / length);
    xml.plain(1, "bufferCount", &count.to_string());
    xml.plain(1, "bufferLen", &length.to_string());
    xml.plain(1, "io", &QUEUED.to_string());
}

#[cfg(test)]
mod tests {
    use super::super::host::Reading;
    use super::super::{Thread, is_output, tell};
    use super::*;
    use model::Layout;

    /// A file of the original; its first line names the run.
    const SAMPLE: &str = include_str!("sample-windows.xml.txt");

    #[test]
    fn the_file_is_that_of_the_original() {
        let spec = Spec {
            role: Role::Sender,
            windows: true,
            verbose: true,
            layout: Layout {
                port: 7_003,
                ports: 2,
                seconds: 2,
                sync: false,
                token: true,
                ..Layout::default()
            },
            hosts: vec!["127.0.0.1".to_owned(); 2],
            buffer: Some(65_536),
            ..Spec::default()
        };
        let thread = |calls: u64| Thread { bytes: calls * 65_536, calls, seconds: 0.0 };
        let bytes = 8_523 * 65_536;
        let seconds = 2.012_752;
        let host = Reading {
            // 99.615 % busy.
            cpu: [99_615, 0, 0, 385, 0, 0, 0, 0],
            cores: 2,
            // So that clock · 2 · 0.99615 · time / bytes is 18.637.
            mhz: 18.637 * bytes as f64 / (2.0 * 0.996_15 * seconds) / 1e6,
            segments: (25_538, 25_538),
            ..Reading::default()
        };
        let threads = vec![thread(1_637), thread(6_886)];
        let results =
            Results { computer: "VM".to_owned(), bytes, seconds, threads, host, ..Results::default() };
        let ours = write(&spec, &results);
        let (_, theirs) = SAMPLE.split_once('\n').unwrap();
        assert_eq!(ours.lines().count(), theirs.lines().count());
        // wine, under which it was written, counts no deferred calls.
        for (ours, theirs) in ours.lines().zip(theirs.lines()).filter(|(_, line)| !line.contains("dpc")) {
            assert_eq!(ours, theirs);
        }
        assert!(is_output(ours.as_bytes()));
        let mut out = Vec::new();
        tell("file", ours.as_bytes(), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("5.40, sender on VM"));
    }

    #[test]
    fn what_was_asked_for_is_told_as_it_was() {
        let spec = Spec {
            role: Role::Receiver,
            layout: Layout { ports: 1, warmup_s: 1, seconds: 3, cooldown_s: 2, ..Layout::default() },
            rcvbuf: Some(4_096),
            // 100 KB/s, of which a ms has 102 bytes.
            thread_limit: Some(819_200),
            local: Some([192, 0, 2, 1].into()),
            transfer: Some(500 * 1_400),
            buffer: Some(1_400),
            ..Spec::default()
        };
        let text = write(&spec, &Results::default());
        for line in [
            "<recv_socket_buff>4096</recv_socket_buff>",
            "<no_sync>True</no_sync>",
            "<run_time>3000</run_time>",
            "<warmup_time>1000</warmup_time>",
            "<cooldown_time>2000</cooldown_time>",
            "<bind_sender>True</bind_sender>",
            "<sender_name>192.0.2.1</sender_name>",
            "<throughput_Bpms>102</throughput_Bpms>",
            "<bufferCount>500</bufferCount>",
            "<bufferLen>1400</bufferLen>",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("<cycles"), "no clock is known");
    }
}
