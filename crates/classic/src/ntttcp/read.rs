//! Result files of ntttcp for Linux and of Windows NTttcp, XML and JSON, read back.
//!
//! Both have the same elements and not the same units: what is called MB is 10⁶ bytes on Linux and 2²⁰ on Windows. The version
//! tells them apart. What Linux writes as a constant 0 is left out: nothing was measured there.

use metrics::format_bits_per_second;
use serde_json::Value;
use std::io::{self, Write};

/// Deepest nesting that is followed, and most values.
const DEPTH: usize = 16;
const MOST: usize = 200_000;

/// Whether these bytes are such a file.
#[must_use]
pub fn is_output(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]);
    let start: String = start.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').take(200).collect();
    let element = start.starts_with('<') && (start.contains("<ntttcps") || start.contains("<ntttcpr"));
    element || start.starts_with("{\"ntttcps\":{") || start.starts_with("{\"ntttcpr\":{")
}

/// One value: its name without its spelling (lower case, no underscores), its unit, its text.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    name: String,
    metric: String,
    text: String,
    /// Which thread's, if it is one's.
    thread: Option<String>,
}

/// A file, read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Report {
    sender: bool,
    computer: String,
    version: String,
    items: Vec<Item>,
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

impl Report {
    /// The test's own value of this name, in this unit if one is given.
    fn value(&self, name: &str, metric: &str) -> Option<f64> {
        self.find(name, metric, None)
    }

    fn find(&self, name: &str, metric: &str, thread: Option<&str>) -> Option<f64> {
        let fits = |item: &&Item| {
            item.name == name
                && (metric.is_empty() || item.metric == metric)
                && item.thread.as_deref() == thread
        };
        let text = &self.items.iter().find(fits)?.text;
        // One of the original's has a unit behind it.
        text.split_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite())
    }

    fn windows(&self) -> bool {
        !self.version.contains("linux")
    }

    /// Bytes of what the file calls MB, KB.
    fn scale(&self, metric: &str) -> f64 {
        match (metric, self.windows()) {
            ("MB", true) => 1_048_576.0,
            ("MB", false) => 1e6,
            (_, true) => 1_024.0,
            (_, false) => 1e3,
        }
    }
}

/// What an attribute says.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn xml(text: &str) -> Report {
    let mut report = Report::default();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('<') {
        let Some((tag, behind)) = behind.split_once('>') else { break };
        rest = behind;
        let name = tag.split_whitespace().next().unwrap_or_default();
        if tag.starts_with(['?', '!']) || name.is_empty() {
            continue;
        }
        if let Some(closed) = name.strip_prefix('/') {
            // Whatever was left open ends with it.
            if let Some(at) = open.iter().rposition(|(name, _)| name == closed) {
                open.truncate(at);
            }
            continue;
        }
        if matches!(name, "ntttcps" | "ntttcpr") {
            report.sender = name == "ntttcps";
            report.computer = unescaped(&attribute(tag, "computername").unwrap_or_default());
            report.version = unescaped(&attribute(tag, "version").unwrap_or_default());
        }
        let text = rest.split('<').next().unwrap_or_default().trim();
        if !text.is_empty() && report.items.len() < MOST {
            let thread = open.iter().find(|(name, _)| name == "thread").map(|(_, index)| index.clone());
            let metric = attribute(tag, "metric").unwrap_or_default();
            let settings = open.iter().any(|(name, _)| name == "parameters");
            let name = if settings { format!("parameter {}", plain(name)) } else { plain(name) };
            report.items.push(Item { name, metric, text: unescaped(text), thread });
        }
        if open.len() < DEPTH && !tag.ends_with('/') {
            open.push((name.to_owned(), attribute(tag, "index").unwrap_or_default()));
        }
    }
    report
}

fn json(text: &str) -> Option<Report> {
    let value: Value = serde_json::from_str(text).ok()?;
    let (role, all) = value.as_object()?.iter().next()?;
    let word = |name: &str| all.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut report = Report {
        sender: role == "ntttcps",
        computer: word("computername"),
        version: word("version"),
        items: Vec::new(),
    };
    gather(all, None, &mut report.items);
    for thread in all.get("threads").and_then(Value::as_array).into_iter().flatten() {
        let index = thread.get("index").and_then(Value::as_str).unwrap_or_default();
        gather(thread, Some(index), &mut report.items);
    }
    Some(report)
}

/// Values of an object: plain ones, those with a unit, lists of those.
fn gather(object: &Value, thread: Option<&str>, items: &mut Vec<Item>) {
    let mut push = |name: &str, metric: &str, text: &str| {
        let name = plain(name);
        let name = if name == "throughputs" { "throughput".to_owned() } else { name };
        if items.len() < MOST {
            let thread = thread.map(str::to_owned);
            items.push(Item { name, metric: metric.to_owned(), text: text.to_owned(), thread });
        }
    };
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, value) in object.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => push(name, "", text),
            Value::Array(list) => {
                list.iter().for_each(|one| push(name, &text(one, "metric"), &text(one, "value")));
            }
            Value::Object(_) if value.get("value").is_some() => {
                push(name, &text(value, "metric"), &text(value, "value"));
            }
            _ => {}
        }
    }
}

/// Reports on a result file.
///
/// # Errors
/// When `out` cannot be written.
pub fn tell(name: &str, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let report = if text.starts_with('{') { json(text).unwrap_or_default() } else { xml(text) };
    let role = if report.sender { "sender" } else { "receiver" };
    let whose = if report.windows() { "Windows NTttcp" } else { "ntttcp for Linux" };
    writeln!(out, "{name}: {whose} {}, {role} on {}", report.version, report.computer)?;
    let seconds = report.value("realtime", "s");
    let bytes = report.value("totalbytes", "MB").map(|mega| mega * report.scale("MB"));
    let (Some(seconds), Some(bytes)) = (seconds, bytes) else {
        return writeln!(out, "  there is no result in it");
    };
    let mut row = |what: &str, value: String| writeln!(out, "  {what:<22}{value}");
    row("test duration", format!("{seconds:.3} s"))?;
    row("total bytes", format!("{bytes:.0}"))?;
    if seconds > 0.0 {
        row("throughput", format_bits_per_second(bytes * 8.0 / seconds))?;
    }
    if let Some(n) = report.value("connstested", "") {
        row("connections tested", format!("{n:.0}"))?;
    }
    figures(&report, &mut row)?;
    threads(&report, out)
}

/// What the host did, as far as it was measured.
fn figures(report: &Report, row: &mut dyn FnMut(&str, String) -> io::Result<()>) -> io::Result<()> {
    // Name of the element, its unit, what it is called here, digits, and whether Linux writes a constant 0.
    let rows: [(&str, &str, &str, usize, bool); 15] = [
        ("avgframesize", "", "average frame, bytes", 3, true),
        ("totalbuffers", "", "buffers", 0, true),
        ("dpcs", "", "DPCs/s", 3, true),
        ("avgpacketsperdpc", "", "packets/DPC", 3, true),
        ("interrupts", "", "interrupts/s", 3, false),
        ("avgpacketsperinterrupt", "", "packets/interrupt", 3, false),
        ("packetssent", "", "packets sent", 0, false),
        ("packetsreceived", "", "packets received", 0, false),
        ("packetsretransmitted", "", "retransmitted", 0, false),
        ("errors", "", "errors", 0, true),
        ("cpucores", "", "CPU cores", 0, false),
        ("idle", "%", "CPU idle, %", 2, false),
        ("softirq", "%", "CPU in softirqs, %", 2, false),
        ("cyclesperbyte", "", "cycles/byte", 3, false),
        ("cpubusyall", "%", "CPU of the process, %", 2, false),
    ];
    for (name, metric, what, digits, constant) in rows {
        let Some(value) = report.value(name, metric) else { continue };
        // Packets and interrupts are 0, too, where nobody asked for them.
        let unasked =
            value == 0.0 && matches!(digits, 0 | 3) && name != "errors" && name != "packetsretransmitted";
        if report.windows() || !(constant || unasked) {
            row(what, format!("{value:.digits$}"))?;
        }
    }
    for (name, what) in [("cpu", "CPU, %"), ("cycles", "cycles/byte"), ("tcpaveragertt", "mean tcpi rtt, us")]
    {
        if let Some(value) = report.value(name, "") {
            row(what, format!("{value:.3}"))?;
        }
    }
    if let Some(value) = report.value("tcpaveragertt metric", "") {
        row("mean tcpi rtt, us", format!("{value:.3}"))?;
    }
    Ok(())
}

fn threads(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for item in &report.items {
        if let Some(thread) = item.thread.as_deref()
            && seen.last() != Some(&thread)
        {
            seen.push(thread);
        }
    }
    if seen.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {:>8}{:>14}{:>22}", "thread", "time, s", "throughput")?;
    for thread in seen {
        let seconds = report.find("realtime", "s", Some(thread)).unwrap_or(0.0);
        let rate = report.find("throughput", "KB/s", Some(thread)).unwrap_or(0.0) * report.scale("KB") * 8.0;
        writeln!(out, "  {thread:>8}{seconds:>14.3}{:>22}", format_bits_per_second(rate))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = include_str!("sample.xml.txt");
    const JSON: &str = include_str!("sample.json.txt");

    /// What is told of a file, behind its first line, which says where it is from.
    fn told(file: &str) -> String {
        let (_, file) = file.split_once('\n').unwrap();
        assert!(is_output(file.as_bytes()));
        let mut out = Vec::new();
        tell("f", file.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_files_of_one_test_tell_the_same() {
        let (xml, json) = (told(XML), told(JSON));
        for text in [&xml, &json] {
            assert!(text.starts_with("f: ntttcp for Linux 5.33-linux, sender on vm\n"), "{text}");
            // 9824.894976 MB of 10^6 bytes in 3.000702 s.
            assert!(text.contains("total bytes           9824894976\n"), "{text}");
            assert!(text.contains("test duration         3.001 s\n"), "{text}");
            assert!(text.contains("26.2 Gbit/s"), "{text}");
            assert!(text.contains("mean tcpi rtt, us     196.000"), "{text}");
            assert!(!text.contains("buffers") && !text.contains("DPC"), "a constant: {text}");
        }
        assert!(xml.contains("connections tested    1\n") && xml.contains("\n         0"), "{xml}");
    }

    #[test]
    fn the_units_of_windows_are_windows_s() {
        let file = "\n<?xml version=\"1.0\"?>\n<ntttcpr computername=\"a&amp;b\" version=\"5.33\">\n\
            <thread index=\"0\"><realtime metric=\"s\">9.999</realtime><throughput metric=\"KB/s\">11559.556</throughput></thread>\n\
            <total_bytes metric=\"MB\">112.875000</total_bytes><realtime metric=\"s\">10.000</realtime>\n\
            <avg_frame_size metric=\"B\">1455.729</avg_frame_size><dpcs metric=\"count/sec\">3048.900</dpcs>\n\
            <errors>0</errors></ntttcpr>";
        let text = told(file);
        assert!(text.starts_with("f: Windows NTttcp 5.33, receiver on a&b\n"), "{text}");
        // 112.875 * 2^20.
        assert!(text.contains("total bytes           118358016\n"), "{text}");
        assert!(text.contains("94.7 Mbit/s") && text.contains("DPCs/s                3048.900"), "{text}");
        // 11559.556 * 1024 * 8 = 94,695,882.752.
        assert!(
            text.matches("94.7 Mbit/s").count() == 2 && text.contains("errors                0"),
            "{text}"
        );
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
            tell("f", &bytes, &mut io::sink()).unwrap();
        }
        assert!(!is_output(b"") && !is_output(b"{}") && !is_output(b"<html>"));
    }
}
