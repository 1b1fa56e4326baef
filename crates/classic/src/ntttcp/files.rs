//! The result files of ntttcp for Linux: XML (`-x`) and JSON (`-j`), with the elements of Windows NTttcp 5.33.
//!
//! All units are decimal, those of Windows' file (`windows_xml.rs`) binary, under the same names. Where the original has invalid
//! or odd spellings, parsers may depend on them: they are kept.

use super::args::{Role, Spec};
use super::host::Reading;
use super::print::{cycles_per_byte, per_second};
use super::windows_xml;
use std::fmt::Write as _;

/// What one thread of the original would have moved: that of a port (receiver), or one of a port's (sender).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Thread {
    /// Bytes that count.
    pub bytes: u64,
    /// Calls in which they moved.
    pub calls: u64,
    /// From its first connection to its last byte, s.
    pub seconds: f64,
}

/// What a test results, as the files have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Name of this host.
    pub computer: String,
    /// The system, as uname -a says it.
    pub os: String,
    /// Bytes that count.
    pub bytes: u64,
    /// What was measured, s.
    pub seconds: f64,
    /// Each thread.
    pub threads: Vec<Thread>,
    /// Connections that failed.
    pub errors: u64,
    /// Connections of a sender.
    pub connections: u64,
    /// What the host did meanwhile.
    pub host: Reading,
    /// CPU time of this process, s.
    pub cpu_s: f64,
    /// Mean smoothed round-trip time of a sender's connections, µs.
    pub rtt_us: Option<u64>,
}

/// The parameters in order: name in XML, name in JSON, value.
fn parameters(spec: &Spec) -> Vec<(&'static str, &'static str, String)> {
    let flag = |on: bool| if on { "True" } else { "False" }.to_owned();
    let zero = || "0".to_owned();
    let not = || "NA".to_owned();
    let buffer =
        |own: Role, usual: u64| spec.buffer.filter(|_| own == spec.role).unwrap_or(usual).to_string();
    let v6 = spec.address.as_deref().is_some_and(|address| address.contains(':'));
    vec![
        ("send_socket_buff", "sendSocketBuff", buffer(Role::Sender, 131_072)),
        ("recv_socket_buff", "recvSocketBuff", buffer(Role::Receiver, 65_536)),
        ("port", "port", spec.layout.port.to_string()),
        ("sync_port", "syncPort", spec.layout.port.saturating_sub(1).to_string()),
        ("no_sync", "noSync", flag(!spec.layout.sync)),
        ("wait_timeout_milliseconds", "waitTimeoutMilliseconds", zero()),
        ("async", "async", flag(false)),
        ("verbose", "verbose", flag(spec.verbose)),
        ("wsa", "wsa", flag(false)),
        ("use_ipv6", "useIpv6", flag(v6)),
        ("udp", "udp", flag(spec.layout.udp)),
        ("verify_data", "verifyData", flag(false)),
        ("wait_all", "waitAll", flag(false)),
        ("run_time", "runTime", spec.layout.seconds.to_string()),
        ("warmup_time", "warmupTime", spec.layout.warmup_s.to_string()),
        ("cooldown_time", "cooldownTime", spec.layout.cooldown_s.to_string()),
        ("dash_n_timeout", "dashNTimeout", zero()),
        ("bind_sender", "bindSender", flag(false)),
        ("sender_name", "senderName", not()),
        ("max_active_threads", "maxActiveThreads", zero()),
        ("tp", "tp", flag(false)),
        ("no_stdio_buffer", "noStdioBuffer", flag(false)),
        ("throughput_Bpms", "throughputBpms", zero()),
        ("cpu_burn", "cpuBurn", zero()),
        ("latency_measurement", "latencyMeasurement", flag(false)),
        ("use_io_compl_ports", "useIOComplPorts", not()),
        ("cpu_from_idle_flag", "cpuFromIdleFlag", flag(false)),
        ("get_estats", "getEstats", flag(false)),
        ("qos_flag", "qosFlag", flag(false)),
        ("jitter_measurement", "jitterMeasurement", flag(false)),
        ("packet_spacing", "packetSpacing", zero()),
    ]
}

/// KB/s, MB/s, mbps and B/s.
fn rates(bytes: u64, seconds: f64) -> [f64; 4] {
    let per_second = ratio(bytes as f64, seconds);
    [per_second / 1e3, per_second / 1e6, per_second * 8.0 / 1e6, per_second]
}

/// What the files call MB.
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// `a / b`, or 0 where there is no `b`.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// Names of the retransmission counters, as the files have them.
const RETRANSMITS: [&str; 7] = [
    "retrans_segments_per_sec",
    "lost_retrans_per_sec",
    "syn_retrans_per_sec",
    "fast_retrans_per_sec",
    "forward_retrans_per_sec",
    "slowStart_retrans_per_sec",
    "retrans_fail_per_sec",
];

impl Results {
    pub(super) fn cycles(&self) -> f64 {
        let host = &self.host;
        cycles_per_byte(host.mhz, self.seconds, host.cores, host.share(3), self.bytes)
    }

    fn busy(&self) -> f64 {
        if self.seconds > 0.0 { self.cpu_s * 100.0 / self.seconds } else { 0.0 }
    }

    fn packets_per_interrupt(&self) -> f64 {
        let (sent, received) = self.host.packets;
        if self.host.interrupts == 0 { 0.0 } else { (sent + received) as f64 / self.host.interrupts as f64 }
    }
}

/// Text that may stand between tags and in attributes.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// An XML text under construction.
pub(super) struct Xml(pub(super) String);

impl Xml {
    pub(super) fn tag(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.0, "{}{text}", "\t".repeat(depth));
    }

    pub(super) fn plain(&mut self, depth: usize, name: &str, value: &str) {
        self.tag(depth, &format!("<{name}>{value}</{name}>"));
    }

    pub(super) fn metric(&mut self, depth: usize, name: &str, metric: &str, value: &str) {
        self.tag(depth, &format!("<{name} metric=\"{metric}\">{value}</{name}>"));
    }
}

/// The XML file.
#[must_use]
pub fn xml(spec: &Spec, results: &Results) -> String {
    if spec.windows {
        return windows_xml::write(spec, results);
    }
    let root = if spec.role == Role::Sender { "ntttcps" } else { "ntttcpr" };
    let mut xml = Xml(String::new());
    xml.tag(0, &format!("<{root} computername=\"{}\" version=\"5.33-linux\">", escaped(&results.computer)));
    xml.tag(1, "<parameters>");
    for (name, _, value) in parameters(spec) {
        xml.plain(2, name, &value);
    }
    xml.tag(1, "</parameters>");
    for (index, thread) in results.threads.iter().enumerate().filter(|_| spec.verbose) {
        let seconds = results.seconds;
        let [kilo, mega, mbps, _] = rates(thread.bytes, seconds);
        xml.tag(1, &format!("<thread index=\"{index}\">"));
        xml.metric(2, "realtime", "s", &format!("{seconds:.3}"));
        xml.metric(2, "throughput", "KB/s", &format!("{kilo:.3}"));
        xml.metric(2, "throughput", "MB/s", &format!("{mega:.3}"));
        xml.metric(2, "throughput", "mbps", &format!("{mbps:.3}"));
        xml.metric(2, "avg_bytes_per_compl", "B", "0.000");
        xml.tag(1, "</thread>");
    }
    moved(&mut xml, spec, results);
    counters(&mut xml, spec, results);
    xml.plain(1, "os", &escaped(&results.os));
    xml.tag(0, &format!("</{root}>"));
    xml.0
}

/// What was moved.
fn moved(xml: &mut Xml, spec: &Spec, results: &Results) {
    if spec.role == Role::Sender {
        xml.plain(1, "conns_tested", &results.connections.to_string());
    }
    let [_, mega, mbps, plain] = rates(results.bytes, results.seconds);
    xml.metric(1, "total_bytes", "MB", &format!("{:.6}", megabytes(results.bytes)));
    xml.metric(1, "realtime", "s", &format!("{:.6}", results.seconds));
    for name in ["avg_bytes_per_compl", "threads_avg_bytes_per_compl", "avg_frame_size"] {
        xml.metric(1, name, "B", "0.000");
    }
    xml.metric(1, "throughput", "MB/s", &format!("{mega:.3}"));
    xml.metric(1, "throughput", "mbps", &format!("{mbps:.3}"));
    xml.metric(1, "throughput", "Bps", &format!("{plain:.3}"));
    xml.plain(1, "total_buffers", "0.000");
    xml.metric(1, "throughput", "buffers/s", "0.000");
}

/// What the host did.
fn counters(xml: &mut Xml, spec: &Spec, results: &Results) {
    let host = &results.host;
    let (each, all, packets) = (results.packets_per_interrupt(), host.interrupts, host.packets);
    xml.metric(1, "avg_packets_per_interrupt", "packets/interrupt", &format!("{each:.3}"));
    xml.metric(1, "interrupts", "count/sec", &format!("{:.3}", per_second(all, results.seconds)));
    xml.metric(1, "total_interrupts", "count", &all.to_string());
    xml.metric(1, "dpcs", "count/sec", "0.000");
    xml.metric(1, "avg_packets_per_dpc", "packets/dpc", "0.000");
    xml.plain(1, "packets_sent", &packets.0.to_string());
    xml.plain(1, "packets_received", &packets.1.to_string());
    xml.plain(1, "packets_retransmitted", &host.retransmits[0].to_string());
    xml.plain(1, "errors", &results.errors.to_string());
    for name in ["bufferCount", "bufferLen"] {
        xml.plain(1, name, "0");
    }
    if spec.retransmits {
        xml.metric(1, "tcp_retransmits", "retrans_segs", &host.retransmits[0].to_string());
        for (metric, n) in RETRANSMITS.iter().zip(host.retransmits) {
            xml.metric(1, "tcp_retransmits", metric, &format!("{:.2}", per_second(n, results.seconds)));
        }
    }
    xml.metric(1, "cpu_cores", "cpu cores", &host.cores.to_string());
    xml.metric(1, "cpu_speed", "MHz", &format!("{:.3}", host.mhz));
    for (name, class) in [("user", 0), ("system", 2), ("idle", 3), ("iowait", 4), ("softirq", 6)] {
        xml.metric(1, name, "%", &format!("{:.2}", host.share(class) * 100.0));
    }
    xml.metric(1, "cycles_per_byte", "cycles/byte", &format!("{:.2}", results.cycles()));
    xml.metric(1, "cpu_busy_all", "%", &format!("{:.2}", results.busy()));
    xml.plain(1, "io", "0");
    if let Some(rtt) = results.rtt_us {
        xml.metric(1, "tcp_average_rtt", "us", &rtt.to_string());
    }
}

/// A JSON text under construction: every value is a string, as in the original.
struct Json {
    out: String,
    depth: usize,
}

impl Json {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}{text}", "    ".repeat(self.depth));
    }

    fn pair(&mut self, name: &str, value: &str, last: bool) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        self.line(&format!("\"{name}\" : \"{value}\"{}", if last { "" } else { "," }));
    }

    fn open(&mut self, text: &str) {
        self.line(text);
        self.depth += 1;
    }

    fn close(&mut self, text: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(text);
    }

    /// A value with its unit; in a list it has no name.
    fn metric(&mut self, name: &str, metric: &str, value: &str, last: bool) {
        self.open(&if name.is_empty() { "{".to_owned() } else { format!("\"{name}\" : {{") });
        self.pair("metric", metric, false);
        self.pair("value", value, true);
        self.close(if last { "}" } else { "}," });
    }

    fn list(&mut self, name: &str, rows: &[(&str, String)]) {
        self.open(&format!("\"{name}\" : ["));
        for (i, (metric, value)) in rows.iter().enumerate() {
            self.metric("", metric, value, i + 1 == rows.len());
        }
        self.close("],");
    }
}

/// The JSON file.
#[must_use]
pub fn json(spec: &Spec, results: &Results) -> String {
    let root = if spec.role == Role::Sender { "ntttcps" } else { "ntttcpr" };
    let mut json = Json { out: String::new(), depth: 0 };
    json.open("{");
    json.open(&format!("\"{root}\" : {{"));
    json.pair("computername", &results.computer, false);
    json.pair("version", "5.33-linux", false);
    json.open("\"parameters\" : {");
    let all = parameters(spec);
    for (i, (_, name, value)) in all.iter().enumerate() {
        json.pair(name, value, i + 1 == all.len());
    }
    json.close("},");
    if spec.verbose {
        json.open("\"threads\" : [");
        for (index, one) in results.threads.iter().enumerate() {
            thread(&mut json, index, one.bytes, results.seconds, index + 1 == results.threads.len());
        }
        json.close("],");
    }
    write_results(&mut json, spec, results);
    json.close("}");
    json.close("}");
    json.out
}

fn thread(json: &mut Json, index: usize, bytes: u64, seconds: f64, last: bool) {
    let [kilo, mega, mbps, _] = rates(bytes, seconds);
    json.open("{");
    json.pair("index", &index.to_string(), false);
    json.metric("realTime", "s", &format!("{seconds:.3}"), false);
    // The original's second value has a unit of its own.
    let rows =
        [("KB/s", format!("{kilo:.3}")), ("MB/s", format!("{mega:.3} bps")), ("mbps", format!("{mbps:.3}"))];
    json.list("throughputs", &rows);
    json.metric("avgBytesPerCompl", "B", "0.000", true);
    json.close(if last { "}" } else { "}," });
}

fn write_results(json: &mut Json, spec: &Spec, results: &Results) {
    let host = &results.host;
    let [_, mega, mbps, plain] = rates(results.bytes, results.seconds);
    json.metric("totalBytes", "MB", &format!("{:.6}", megabytes(results.bytes)), false);
    json.metric("realTime", "s", &format!("{:.6}", results.seconds), false);
    for name in ["avgBytesPerCompl", "threadsAvgBytesPerCompl", "avgFrameSize"] {
        json.metric(name, "B", "0.000", false);
    }
    let rows = [
        ("MB/s", format!("{mega:.3}")),
        ("mbps", format!("{mbps:.3}")),
        ("Bps", format!("{plain:.3}")),
        ("buffer/s", "0.000".to_owned()),
    ];
    json.list("throughputs", &rows);
    json.pair("totalBuffers", "0.000", false);
    let each = results.packets_per_interrupt();
    json.metric("avgPacketsPerInterrupt", "packets/interrupt", &format!("{each:.3}"), false);
    let interrupts = per_second(host.interrupts, results.seconds);
    json.metric("interrupt", "count/sec", &format!("{interrupts:.3}"), false);
    json.metric("interruptTotal", "count", &host.interrupts.to_string(), false);
    json.metric("dpcs", "count/sec", "0.000", false);
    json.metric("avgPacketsPerDpc", "packets/dpc", "0.000", false);
    json.metric("cycles", "cycles/byte", &format!("{:.3}", results.cycles()), false);
    json.pair("packetsSent", &host.packets.0.to_string(), false);
    json.pair("packetsReceived", &host.packets.1.to_string(), false);
    json.pair("packets_retransmitted", &host.retransmits[0].to_string(), false);
    json.pair("errors", "0", false);
    json.metric("cpu", "%", &format!("{:.3}", results.busy()), false);
    for name in ["bufferCount", "bufferLen", "io"] {
        json.pair(name, "0", false);
    }
    if spec.retransmits {
        let mut rows = vec![("retrans_segs", host.retransmits[0].to_string())];
        let each = RETRANSMITS.iter().zip(host.retransmits);
        rows.extend(each.map(|(metric, n)| (*metric, format!("{:.2}", per_second(n, results.seconds)))));
        json.list("tcp_retransmits", &rows);
    }
    if let Some(rtt) = results.rtt_us {
        json.pair("tcpAverageRtt metric", &format!("{rtt} us"), false);
    }
    json.pair("os", &results.os, true);
}

#[cfg(test)]
mod tests {
    use super::super::host::sampled;
    use super::*;
    use model::Layout;

    /// Files of the original; their first lines say which.
    const XML: &str = include_str!("sample.xml.txt");
    const JSON: &str = include_str!("sample.json.txt");

    #[test]
    fn both_files_are_those_of_the_original() {
        let spec = Spec {
            role: Role::Sender,
            address: Some("127.0.0.1".to_owned()),
            layout: Layout { ports: 1, threads: 1, seconds: 3, ..Layout::default() },
            verbose: true,
            retransmits: true,
            ..Spec::default()
        };
        let results = Results {
            computer: "vm".to_owned(),
            os: "Linux vm 6.18.44-fc-v657 #1 SMP PREEMPT_DYNAMIC @0 x86_64 GNU/Linux".to_owned(),
            bytes: 9_824_894_976,
            // 9824894976 B at 3274198673.751 B/s.
            seconds: 9_824_894_976.0 / 3_274_198_673.751,
            threads: vec![Thread { bytes: 9_824_894_976, ..Thread::default() }],
            connections: 1,
            errors: 0,
            host: sampled(),
            cpu_s: 0.315_01 * 3.000_702,
            rtt_us: Some(196),
        };
        let same = |ours: &str, theirs: &str| {
            let (_, theirs) = theirs.split_once('\n').unwrap();
            for (ours, theirs) in ours.lines().zip(theirs.lines()) {
                assert_eq!(ours, theirs);
            }
            assert_eq!(ours.lines().count(), theirs.lines().count());
        };
        same(&xml(&spec, &results), XML);
        same(&json(&spec, &results), JSON);
    }

    #[test]
    fn names_cannot_break_the_files() {
        let results = Results { computer: "a\"<b>&\\".to_owned(), ..Results::default() };
        let spec = Spec::default();
        assert!(xml(&spec, &results).contains("computername=\"a&quot;&lt;b&gt;&amp;\\\""));
        assert!(json(&spec, &results).contains("\"computername\" : \"a\\\"<b>&\\\\\""));
    }
}
