//! The result files of ntttcp for Linux: XML (`-x`) and JSON (`-j`), with the elements of Windows
//! NTttcp 5.33.
//!
//! All units are decimal, the units of Windows' file (`windows_xml.rs`) binary, under the same
//! names. Where the original has invalid or odd spellings, parsers may depend on them: they are
//! kept.

use super::args::{Role, Spec};
use super::host::HostReading;
use super::windows_xml;
use compat::number::ratio;
use metrics::real;
use std::fmt::{Display, Write as _};

/// Traffic of one thread of the original: that of a port (receiver), or one of a port's (sender).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Thread {
    /// Bytes that count.
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    /// From its first connection to its last byte, s.
    pub(crate) seconds: f64,
}

/// Results of a test, as the files have them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    pub(crate) computer: String,
    /// The system, as uname -a says it.
    pub(crate) os: String,
    /// Bytes that count.
    pub(crate) bytes: u64,
    /// Length of the measurement, s.
    pub(crate) seconds: f64,
    pub(crate) threads: Vec<Thread>,
    pub(crate) errors: u64,
    pub(crate) connections: u64,
    pub(crate) host: HostReading,
    /// CPU time of this process, s.
    pub(crate) cpu_s: f64,
    /// Mean smoothed round-trip time of a sender's connections, µs.
    pub(crate) rtt_us: Option<u64>,
}

/// A value: its names in XML and in JSON (none where a file does not have it), its unit, its text.
pub(super) struct NamedValue {
    xml: &'static str,
    json: &'static str,
    unit: &'static str,
    text: String,
}

pub(super) fn row(
    xml: &'static str,
    json: &'static str,
    unit: &'static str,
    text: impl ToString,
) -> NamedValue {
    NamedValue { xml, json, unit, text: text.to_string() }
}

pub(super) fn three(n: f64) -> String {
    format!("{n:.3}")
}

/// A file: a value is text, or text with a unit; a list has several with one name.
pub(super) struct Document {
    pub(super) version: &'static str,
    pub(super) parameters: Vec<NamedValue>,
    pub(super) threads: Vec<Vec<NamedValue>>,
    pub(super) rows: Vec<NamedValue>,
}

fn flag(on: bool) -> &'static str {
    if on { "True" } else { "False" }
}

/// Defaults of Windows NTttcp: time limit with `-n`, ms; wait timeout, ms.
const DASH_N_MS: u64 = 10_800_000;
const WAIT_MS: u64 = 600_000;

/// The parameters, with the values of Linux' file and of Windows' file; the ones without a name in
/// JSON are Windows' alone. Windows' durations are in ms.
pub(super) fn parameters(spec: &Spec) -> Vec<NamedValue> {
    let set = |xml, json, linux: &dyn Display, windows: &dyn Display| {
        row(xml, json, "", if spec.windows { windows } else { linux })
    };
    let no = |xml, json| row(xml, json, "", flag(false));
    let layout = &spec.layout;
    let buffer = |own: Role, usual: u64| spec.buffer.filter(|_| own == spec.role).unwrap_or(usual);
    // -1: the system's default.
    let size = |n: Option<u64>| n.map_or_else(|| "-1".to_owned(), |n| n.to_string());
    let ms = |s: u32| u64::from(s) * 1_000;
    let is_v6 = |address: &String| address.contains(':');
    let v6 = (spec.address.as_ref().is_some_and(is_v6), spec.v6 || spec.hosts.iter().any(is_v6));
    let local = spec.local.as_ref().map_or_else(String::new, ToString::to_string);
    let rows = vec![
        set("send_socket_buff", "sendSocketBuff", &buffer(Role::Sender, 131_072), &size(spec.sndbuf)),
        set("recv_socket_buff", "recvSocketBuff", &buffer(Role::Receiver, 65_536), &size(spec.rcvbuf)),
        row("port", "port", "", layout.port),
        set("sync_port", "syncPort", &layout.port.saturating_sub(1), &flag(false)),
        set("no_sync", "noSync", &flag(!layout.sync), &flag(!layout.token)),
        set("wait_timeout_milliseconds", "waitTimeoutMilliseconds", &0, &spec.patience_ms.unwrap_or(WAIT_MS)),
        no("async", "async"),
        row("verbose", "verbose", "", flag(spec.verbose)),
        no("wsa", "wsa"),
        set("use_ipv6", "useIpv6", &flag(v6.0), &flag(v6.1)),
        row("udp", "udp", "", flag(layout.udp)),
        no("udp_unconnected", ""),
        no("verify_data", "verifyData"),
        no("wait_all", "waitAll"),
        set("run_time", "runTime", &layout.seconds, &ms(layout.seconds)),
        set("warmup_time", "warmupTime", &layout.warmup_s, &ms(layout.warmup_s)),
        set("cooldown_time", "cooldownTime", &layout.cooldown_s, &ms(layout.cooldown_s)),
        set("dash_n_timeout", "dashNTimeout", &0, &DASH_N_MS),
        set("bind_sender", "bindSender", &flag(false), &flag(spec.local.is_some())),
        set("sender_name", "senderName", &"NA", &local),
        set("max_active_threads", "maxActiveThreads", &0, &layout.ports),
        row("udp_uso_size", "", "", 0),
        row("udp_receive_coalescing", "", "", 0),
        no("tp", "tp"),
        no("use_hvsocket_flag", ""),
        no("no_stdio_buffer", "noStdioBuffer"),
        // Bits/s to bytes/ms.
        set("throughput_Bpms", "throughputBpms", &0, &(spec.thread_limit.unwrap_or(0) / 8_000)),
        row("cpu_burn", "cpuBurn", "", 0),
        no("latency_measurement", "latencyMeasurement"),
        set("use_io_compl_ports", "useIOComplPorts", &"NA", &flag(false)),
        no("cpu_from_idle_flag", "cpuFromIdleFlag"),
        no("get_estats", "getEstats"),
        no("qos_flag", "qosFlag"),
        no("jitter_measurement", "jitterMeasurement"),
        row("packet_spacing", "packetSpacing", "", 0),
    ];
    rows.into_iter().filter(|row| spec.windows || !row.json.is_empty()).collect()
}

/// Names of the retransmission counters, as the files have them.
pub(super) const RETRANSMITS: [&str; 7] = [
    "retrans_segments_per_sec",
    "lost_retrans_per_sec",
    "syn_retrans_per_sec",
    "fast_retrans_per_sec",
    "forward_retrans_per_sec",
    "slowStart_retrans_per_sec",
    "retrans_fail_per_sec",
];

impl Results {
    /// Cycles per byte: `MHz · 10⁶ · seconds · cores · (1 − idle) / bytes`.
    pub(super) fn cycles(&self) -> f64 {
        let host = &self.host;
        ratio(host.mhz * 1e6 * self.seconds * real(host.cores) * (1.0 - host.share(3)), self.bytes)
    }

    fn thread(&self, thread: &Thread) -> Vec<NamedValue> {
        let rate = ratio(thread.bytes, self.seconds);
        let mega = three(rate / 1e6);
        vec![
            row("realtime", "realTime", "s", three(self.seconds)),
            row("throughput", "throughputs", "KB/s", three(rate / 1e3)),
            row("throughput", "", "MB/s", &mega),
            // The original's second value has a unit of its own.
            row("", "throughputs", "MB/s", format!("{mega} bps")),
            row("throughput", "throughputs", "mbps", three(rate * 8.0 / 1e6)),
            row("avg_bytes_per_compl", "avgBytesPerCompl", "B", "0.000"),
        ]
    }

    fn rows(&self, spec: &Spec) -> Vec<NamedValue> {
        let (host, rate) = (&self.host, ratio(self.bytes, self.seconds));
        let (packets, all) = (host.packets, host.interrupts);
        let busy = 100.0 * ratio(self.cpu_s, self.seconds);
        let each = three(ratio(packets.0 + packets.1, all));
        let mut rows = vec![
            row("total_bytes", "totalBytes", "MB", format!("{:.6}", real(self.bytes) / 1e6)),
            row("realtime", "realTime", "s", format!("{:.6}", self.seconds)),
            row("avg_bytes_per_compl", "avgBytesPerCompl", "B", "0.000"),
            row("threads_avg_bytes_per_compl", "threadsAvgBytesPerCompl", "B", "0.000"),
            row("avg_frame_size", "avgFrameSize", "B", "0.000"),
            row("throughput", "throughputs", "MB/s", three(rate / 1e6)),
            row("throughput", "throughputs", "mbps", three(rate * 8.0 / 1e6)),
            row("throughput", "throughputs", "Bps", three(rate)),
            row("", "throughputs", "buffer/s", "0.000"),
            row("total_buffers", "totalBuffers", "", "0.000"),
            row("throughput", "", "buffers/s", "0.000"),
            row("avg_packets_per_interrupt", "avgPacketsPerInterrupt", "packets/interrupt", each),
            row("interrupts", "interrupt", "count/sec", three(ratio(all, self.seconds))),
            row("total_interrupts", "interruptTotal", "count", all),
            row("dpcs", "dpcs", "count/sec", "0.000"),
            row("avg_packets_per_dpc", "avgPacketsPerDpc", "packets/dpc", "0.000"),
            row("", "cycles", "cycles/byte", three(self.cycles())),
            row("packets_sent", "packetsSent", "", packets.0),
            row("packets_received", "packetsReceived", "", packets.1),
            row("packets_retransmitted", "packets_retransmitted", "", host.retransmits[0]),
            row("errors", "", "", self.errors),
            row("", "errors", "", 0),
            row("", "cpu", "%", three(busy)),
            row("bufferCount", "bufferCount", "", 0),
            row("bufferLen", "bufferLen", "", 0),
            row("", "io", "", 0),
        ];
        if spec.retransmits {
            rows.push(row("tcp_retransmits", "tcp_retransmits", "retrans_segs", host.retransmits[0]));
            rows.extend(RETRANSMITS.iter().zip(host.retransmits).map(|(unit, n)| {
                row("tcp_retransmits", "tcp_retransmits", unit, format!("{:.2}", ratio(n, self.seconds)))
            }));
        }
        rows.push(row("cpu_cores", "", "cpu cores", host.cores));
        rows.push(row("cpu_speed", "", "MHz", three(host.mhz)));
        for (name, class) in [("user", 0), ("system", 2), ("idle", 3), ("iowait", 4), ("softirq", 6)] {
            rows.push(row(name, "", "%", format!("{:.2}", host.share(class) * 100.0)));
        }
        rows.push(row("cycles_per_byte", "", "cycles/byte", format!("{:.2}", self.cycles())));
        rows.push(row("cpu_busy_all", "", "%", format!("{busy:.2}")));
        rows.push(row("io", "", "", 0));
        if let Some(rtt) = self.rtt_us {
            rows.push(row("tcp_average_rtt", "", "us", rtt));
            rows.push(row("", "tcpAverageRtt metric", "", format!("{rtt} us")));
        }
        rows.push(row("os", "os", "", &self.os));
        rows
    }

    fn document(&self, spec: &Spec) -> Document {
        let mut rows = self.rows(spec);
        if spec.role == Role::Sender {
            let (no_json_name, no_unit) = ("", "");
            rows.insert(0, row("conns_tested", no_json_name, no_unit, self.connections));
        }
        let threads = self.threads.iter().filter(|_| spec.verbose).map(|thread| self.thread(thread));
        // The version of the original whose files these are.
        Document { version: "5.33-linux", parameters: parameters(spec), threads: threads.collect(), rows }
    }
}

fn root(spec: &Spec) -> &'static str {
    if spec.role == Role::Sender { "ntttcps" } else { "ntttcpr" }
}

/// Text that may stand between tags and in attributes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Appends elements, a line each.
fn elements(out: &mut String, indent: &str, rows: &[NamedValue]) {
    for NamedValue { xml, unit, text, .. } in rows.iter().filter(|row| !row.xml.is_empty()) {
        let unit = if unit.is_empty() { String::new() } else { format!(" metric=\"{unit}\"") };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{indent}<{xml}{unit}>{}</{xml}>", escaped(text));
    }
}

/// The XML file.
pub(crate) fn xml(spec: &Spec, results: &Results) -> String {
    let document = if spec.windows { windows_xml::document(spec, results) } else { results.document(spec) };
    let (root, computer) = (root(spec), escaped(&results.computer));
    let version = document.version;
    let mut out = format!("<{root} computername=\"{computer}\" version=\"{version}\">\n\t<parameters>\n");
    elements(&mut out, "\t\t", &document.parameters);
    out.push_str("\t</parameters>\n");
    for (index, rows) in document.threads.iter().enumerate() {
        let _ = writeln!(out, "\t<thread index=\"{index}\">");
        elements(&mut out, "\t\t", rows);
        out.push_str("\t</thread>\n");
    }
    elements(&mut out, "\t", &document.rows);
    out + &format!("</{root}>\n")
}

/// A JSON text: every value is a string, as in the original.
enum Json {
    Text(String),
    Object(Vec<(&'static str, Json)>),
    List(Vec<Json>),
}

impl Json {
    fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    fn of(row: &NamedValue) -> Json {
        if row.unit.is_empty() {
            return Json::text(&row.text);
        }
        Json::Object(vec![("metric", Json::text(row.unit)), ("value", Json::text(&row.text))])
    }

    /// Values in order; those in a row with one name are a list.
    fn object(rows: &[NamedValue]) -> Vec<(&'static str, Json)> {
        let rows: Vec<&NamedValue> = rows.iter().filter(|row| !row.json.is_empty()).collect();
        let member = |rows: &[&NamedValue]| match rows {
            [one] => (one.json, Json::of(one)),
            many => (many[0].json, Json::List(many.iter().copied().map(Json::of).collect())),
        };
        rows.chunk_by(|a, b| a.json == b.json).map(member).collect()
    }

    fn write(&self, out: &mut String, indent: &str) {
        let inner = format!("{indent}    ");
        let between = |at: usize| if at == 0 { "\n" } else { ",\n" };
        match self {
            Json::Text(text) => {
                let _ = write!(out, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    let _ = write!(out, "{}{inner}\"{name}\" : ", between(at));
                    value.write(out, &inner);
                }
                let _ = write!(out, "\n{indent}}}");
            }
            Json::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    let _ = write!(out, "{}{inner}", between(at));
                    value.write(out, &inner);
                }
                let _ = write!(out, "\n{indent}]");
            }
        }
    }
}

/// The JSON file.
pub(crate) fn json(spec: &Spec, results: &Results) -> String {
    let document = results.document(spec);
    let mut members = vec![
        ("computername", Json::text(&results.computer)),
        ("version", Json::text(document.version)),
        ("parameters", Json::Object(Json::object(&document.parameters))),
    ];
    if spec.verbose {
        let thread = |(index, rows): (usize, &Vec<NamedValue>)| {
            let index = ("index", Json::text(&index.to_string()));
            Json::Object([index].into_iter().chain(Json::object(rows)).collect())
        };
        members.push(("threads", Json::List(document.threads.iter().enumerate().map(thread).collect())));
    }
    members.extend(Json::object(&document.rows));
    let mut out = String::new();
    Json::Object(vec![(root(spec), Json::Object(members))]).write(&mut out, "");
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::host::sampled;
    use super::*;
    use crate::Layout;

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
