//! ntttcp's result files, XML (`-x`) and JSON (`-j`), of Linux and of Windows.
//!
//! Both have the same elements in different units: MB is 10⁶ bytes on Linux and 2²⁰ on Windows. The
//! version separates them. Values that Linux always writes as 0 are left out: nothing was measured
//! there.

use compat::file::Source;
use compat::import::{ImportedPhase, ImportedRun, Numbers, ns};
use metrics::{Clamped, format_bits_per_second};
use model::{Kind, Pattern, Role, Totals};
use serde_json::Value;

/// Bytes in which the root must begin.
const HEAD: usize = 4096;
/// Most bytes of one test, longest test, seconds, most threads.
const MOST_BYTES: f64 = 1e18;
const LONGEST_S: f64 = 1e9;
/// Deepest nesting that is followed, and most values.
const DEPTH: usize = 16;
const MOST: usize = 200_000;
/// Most threads that are reported: the values of each are searched for among all.
const MOST_THREADS: usize = 64;

/// Roots of its files, and whether the sender wrote such a file.
const ROOTS: [(&str, bool); 2] = [("ntttcpr", false), ("ntttcps", true)];

/// True of a line with a root.
pub(crate) fn begins(line: &str) -> bool {
    let tag = |(root, _): &(&str, bool)| {
        line.split(['<', '>']).any(|tag| tag.split_whitespace().next() == Some(*root))
    };
    line.contains("<ntttcp") && ROOTS.iter().any(tag)
}

/// Reads a file; `None` when it is none of ntttcp's.
pub(crate) fn read(source: &Source) -> Option<Result<ImportedRun, String>> {
    let report = match source {
        Source::Json(document) => of_json(document)?,
        Source::Text(text, _) => {
            let head = (0..=HEAD.min(text.len())).rev().find(|at| text.is_char_boundary(*at))?;
            of_xml(text[..head].contains("<ntttcp").then_some(text)?)?
        }
        Source::Events(_) => return None,
    };
    Some(report.imported())
}

/// One value: its name without its spelling (lower case, no underscores), its unit, its text.
struct Item {
    name: String,
    metric: String,
    text: String,
    /// Which thread's, if it is one's.
    thread: Option<String>,
}

/// A file, read.
#[derive(Default)]
struct Report {
    sender: bool,
    computer: String,
    version: String,
    /// The file ends before its root does.
    is_cut: bool,
    items: Vec<Item>,
}

fn plain(name: &str) -> String {
    let name: String = name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect();
    if name == "throughputs" { "throughput".to_owned() } else { name }
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

    /// A setting that is on.
    fn is_on(&self, name: &str) -> bool {
        let name = format!("parameter {name}");
        let text = self.items.iter().find(|item| item.name == name).map(|item| item.text.trim());
        text.is_some_and(|text| text.eq_ignore_ascii_case("true") || text == "1")
    }

    fn windows(&self) -> bool {
        !self.version.contains("linux")
    }

    /// Bytes of the file's KB.
    fn kilo(&self) -> f64 {
        if self.windows() { 1_024.0 } else { 1e3 }
    }

    fn threads(&self) -> Vec<&str> {
        let mut seen: Vec<&str> = self.items.iter().filter_map(|item| item.thread.as_deref()).collect();
        seen.dedup();
        seen
    }

    fn imported(&self) -> Result<ImportedRun, String> {
        let Some((mega, seconds)) = self.value("totalbytes", "MB").zip(self.value("realtime", "s")) else {
            return Err("the file is of ntttcp, but has no total".to_owned());
        };
        if seconds <= 0.0 {
            return Err("the file is of ntttcp, but has no time".to_owned());
        }
        let bytes = mega * self.kilo() * self.kilo();
        if !(0.0..=MOST_BYTES).contains(&bytes) || seconds > LONGEST_S {
            return Err(format!("the file is of ntttcp, but no test has {mega} MB in {seconds} s"));
        }
        let udp = self.is_on("udp");
        let mut totals = Totals::default();
        totals.traffic.ns = ns(seconds);
        let own = self.value("tcpretransmits", "").or_else(|| self.value("retransmits", ""));
        let of_host =
            self.value("packetsretransmitted", "").filter(|_| own.is_none() && self.windows() && !udp);
        let mut numbers = Numbers::default();
        let again = own.or(of_host).filter(|_| self.sender && !udp);
        if let Some(again) = again.and_then(|again| numbers.count(&again.into(), "retransmits")) {
            totals.tcp.retransmits = again;
            totals.tcp.connections = 1;
        }
        let threads = self.threads();
        let mut phase = ImportedPhase {
            kind: if udp { Kind::Delay } else { Kind::Tcp },
            pattern: Pattern::Push,
            connections: u32::clamped(threads.len().max(1)),
            duration_ns: Some(ns(seconds)),
            ..ImportedPhase::default()
        };
        let bytes = u64::clamped(bytes);
        // The receiver is the server.
        if self.sender {
            totals.traffic.tx_bytes = bytes;
            phase.local = totals;
        } else {
            totals.traffic.rx_bytes = bytes;
            phase.remote = Some(totals);
        }
        let end = if self.sender { "sender" } else { "receiver" };
        let mut notices = vec![format!("the file is the {end}'s, which counts for itself only")];
        if of_host.is_some() && self.sender {
            notices.push("segments sent again are those of the whole host in that time".to_owned());
        }
        let known = self.items.iter().any(|item| item.name.starts_with("parameter "));
        if !known {
            notices.push("the file has no settings: that it is of TCP is assumed".to_owned());
        }
        if self.version.is_empty() {
            notices.push(
                "the file has no version: that it counts in units of Windows (MB of 2^20 bytes) is assumed"
                    .to_owned(),
            );
        }
        if self.is_cut {
            notices.push("the file ends before it is whole".to_owned());
        }
        notices.extend(numbers.notice());
        let figures = self.figures();
        if !figures.is_empty() {
            notices.push(format!("the file also has: {}", figures.join("; ")));
        }
        if threads.len() > 1 {
            let thread = |thread: &&str| {
                let rate = self.find("throughput", "KB/s", Some(thread)).unwrap_or(0.0) * self.kilo() * 8.0;
                let seconds = self.find("realtime", "s", Some(thread)).unwrap_or(0.0);
                format!("{thread}: {} in {seconds:.3} s", format_bits_per_second(rate))
            };
            let mut told: Vec<String> = threads.iter().take(MOST_THREADS).map(thread).collect();
            if threads.len() > MOST_THREADS {
                told.push(format!("and {} more", threads.len() - MOST_THREADS));
            }
            notices.push(format!("its threads: {}", told.join("; ")));
        }
        Ok(ImportedRun {
            program: format!("ntttcp {}", self.version),
            protocol: "ntttcp",
            verb: if udp { "delay" } else { "tcp" },
            host: self.computer.clone(),
            phases: vec![phase],
            notices,
            recorder: if self.sender { Role::Client } else { Role::Server },
            counts: Some(crate::PROTOCOL.0.info.counts),
            ..ImportedRun::default()
        })
    }

    /// The measured activity of the host.
    fn figures(&self) -> Vec<String> {
        // Name of the element, its unit, its name here, digits, and true if Linux writes a constant
        // 0.
        let rows: [(&str, &str, &str, usize, bool); 19] = [
            ("connstested", "", "connections tested", 0, false),
            ("avgframesize", "", "bytes/frame", 3, true),
            ("totalbuffers", "", "buffers", 0, true),
            ("dpcs", "", "DPCs/s", 3, true),
            ("avgpacketsperdpc", "", "packets/DPC", 3, true),
            ("interrupts", "", "interrupts/s", 3, false),
            ("avgpacketsperinterrupt", "", "packets/interrupt", 3, false),
            ("packetssent", "", "packets sent", 0, false),
            ("packetsreceived", "", "packets received", 0, false),
            ("packetsretransmitted", "", "packets sent again", 0, false),
            ("errors", "", "errors", 0, true),
            ("cpucores", "", "CPU cores", 0, false),
            ("idle", "%", "CPU idle, %", 2, false),
            ("softirq", "%", "CPU in softirqs, %", 2, false),
            ("cyclesperbyte", "", "cycles/byte", 3, false),
            ("cycles", "", "cycles/byte", 3, false),
            ("cpubusyall", "%", "CPU of the process, %", 2, false),
            ("cpu", "", "CPU, %", 3, false),
            ("tcpaveragertt", "", "mean tcpi rtt, us", 3, false),
        ];
        let shown = |&(name, metric, what, digits, constant): &(&str, &str, &'static str, usize, bool)| {
            let value = self.value(name, metric)?;
            // Packets and interrupts are also 0 where they were not asked for.
            let unasked =
                value == 0.0 && matches!(digits, 0 | 3) && name != "errors" && name != "packetsretransmitted";
            (self.windows() || !(constant || unasked)).then(|| format!("{what} {value:.digits$}"))
        };
        rows.iter().filter_map(shown).collect()
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    ['"', '\''].into_iter().find_map(|quote| {
        let (_, rest) = tag.split_once(&format!("{name}={quote}"))?;
        Some(rest.split_once(quote)?.0.to_owned())
    })
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The values of an XML file; `None` where its root is none of ntttcp's.
fn of_xml(text: &str) -> Option<Report> {
    let mut report = None::<Report>;
    let mut open: Vec<(String, String)> = Vec::new();
    let mut rest = text.trim_start();
    let is_whole = ROOTS.iter().any(|(root, _)| text.contains(&format!("</{root}>")));
    while let Some((_, behind)) = rest.split_once('<') {
        let Some((tag, behind)) = behind.split_once('>') else { break };
        rest = behind;
        let name = tag.split_whitespace().next().unwrap_or_default();
        if tag.starts_with(['?', '!']) || name.is_empty() {
            continue;
        }
        if let Some(closed) = name.strip_prefix('/') {
            // Open elements within it end, too.
            if let Some(at) = open.iter().rposition(|(name, _)| name == closed) {
                open.truncate(at);
            }
            continue;
        }
        let Some(report) = &mut report else {
            let text = |name: &str| unescaped(&attribute(tag, name).unwrap_or_default());
            let (computer, version) = (text("computername"), text("version"));
            let sender = ROOTS.iter().find(|(root, _)| *root == name)?.1;
            report = Some(Report { sender, computer, version, is_cut: !is_whole, items: Vec::new() });
            continue;
        };
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

fn of_json(document: &Value) -> Option<Report> {
    let (role, all) = document.as_object()?.iter().next()?;
    let sender = ["ntttcpr", "ntttcps"].iter().position(|root| root == role)? == 1;
    let word = |name: &str| all[name].as_str().unwrap_or_default().to_owned();
    let (computer, version) = (word("computername"), word("version"));
    let mut report = Report { sender, computer, version, is_cut: false, items: Vec::new() };
    gather(all, None, &mut report.items);
    for (name, value) in all["parameters"].as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = format!("parameter {}", plain(name));
        report.items.push(Item { name, metric: String::new(), text, thread: None });
    }
    for thread in all["threads"].as_array().into_iter().flatten() {
        gather(thread, Some(thread["index"].as_str().unwrap_or_default()), &mut report.items);
    }
    Some(report)
}

/// Values of an object: plain ones, those with a unit, lists of those.
fn gather(object: &Value, thread: Option<&str>, items: &mut Vec<Item>) {
    let mut push = |name: &str, metric: &Value, text: &Value| {
        // Numbers are texts there, unless another program rewrote the file.
        let word = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let [metric, text] = [metric, text].map(word);
        // A name may have its unit behind it.
        let name = plain(name.strip_suffix(" metric").unwrap_or(name));
        if items.len() < MOST {
            items.push(Item { name, metric, text, thread: thread.map(str::to_owned) });
        }
    };
    for (name, value) in object.as_object().into_iter().flatten() {
        match value {
            Value::String(_) | Value::Number(_) => push(name, &Value::Null, value),
            Value::Array(list) => list.iter().for_each(|one| push(name, &one["metric"], &one["value"])),
            Value::Object(_) if value.get("value").is_some() => push(name, &value["metric"], &value["value"]),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
