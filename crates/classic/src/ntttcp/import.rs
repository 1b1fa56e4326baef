//! ntttcp's result files, XML (`-x`) and JSON (`-j`), of Linux and of Windows.

use crate::import::{Found, Part, decode, json, ns, number};
use model::{Kind, Pattern, Totals};
use serde_json::Value;

/// Where the root begins at the latest, bytes.
const HEAD: usize = 4096;

/// What both kinds of file tell.
struct Told {
    sender: bool,
    computer: String,
    version: String,
    bytes: f64,
    seconds: f64,
    retransmits: Option<f64>,
    /// Whether those are all that the host has sent again meanwhile, whoever for.
    of_host: bool,
    threads: usize,
}

/// Reads a file; `None` when it is none of ntttcp's.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<Found, String>> {
    let told = match json(bytes) {
        Some(document) => of_json(&document)?,
        // Other programs' files may be large.
        None if !decode(&bytes[..bytes.len().min(HEAD)]).contains("<ntttcp") => return None,
        None => of_xml(&decode(bytes))?,
    };
    Some(told.and_then(found))
}

fn found(told: Told) -> Result<Found, String> {
    if told.seconds <= 0.0 {
        return Err("the file is of ntttcp, but tells no time".to_owned());
    }
    let mut totals = Totals::default();
    totals.traffic.ns = ns(told.seconds);
    let mut part = Part {
        kind: Kind::Tcp,
        pattern: Pattern::Push,
        connections: u32::try_from(told.threads).unwrap_or(u32::MAX),
        duration_ns: Some(ns(told.seconds)),
        ..Part::default()
    };
    let bytes = told.bytes.max(0.0) as u64;
    if let Some(again) = told.retransmits {
        totals.tcp.retransmits = again.max(0.0) as u64;
        totals.tcp.connections = 1;
    }
    // The receiver is the server.
    if told.sender {
        totals.traffic.tx_bytes = bytes;
        part.near = totals;
    } else {
        totals.traffic.rx_bytes = bytes;
        part.far = Some(totals);
    }
    let end = if told.sender { "sender" } else { "receiver" };
    let mut notices = vec![format!("the file is the {end}'s, which counts for itself only")];
    if told.of_host && told.retransmits.is_some() {
        notices.push("segments sent again are those of the whole host in that time".to_owned());
    }
    Ok(Found {
        program: format!("ntttcp {}", told.version),
        protocol: "ntttcp",
        verb: "tcp",
        host: told.computer,
        parts: vec![part],
        notices,
        ..Found::default()
    })
}

fn of_json(document: &Value) -> Option<Result<Told, String>> {
    let (sender, root) = match (document.get("ntttcps"), document.get("ntttcpr")) {
        (Some(root), _) => (true, root),
        (_, Some(root)) => (false, root),
        _ => return None,
    };
    let value = |name: &str| number(root.get(name)?.get("value")?);
    let Some((megabytes, seconds)) = value("totalBytes").zip(value("realTime")) else {
        return Some(Err("the file is of ntttcp, but tells no total".to_owned()));
    };
    let text = |name: &str| root[name].as_str().unwrap_or_default().to_owned();
    Some(Ok(Told {
        sender,
        computer: text("computername"),
        version: text("version"),
        bytes: megabytes * 1e6,
        seconds,
        retransmits: root
            .get("tcpRetransmits")
            .or_else(|| root.get("retransmits"))
            .and_then(number)
            .filter(|_| sender),
        of_host: false,
        threads: root["threads"].as_array().map_or(1, Vec::len),
    }))
}

/// Both programs write one element a line, without entities in those that are read here.
fn of_xml(text: &str) -> Option<Result<Told, String>> {
    let start =
        text.find("<ntttcps").map(|at| (at, true)).or_else(|| text.find("<ntttcpr").map(|at| (at, false)));
    let (at, sender) = start?;
    // Windows' files begin with a declaration; nothing else stands before the root.
    if !text[..at].lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("<?xml")) {
        return None;
    }
    let root = text[at..].lines().next()?;
    let attribute = |name: &str| {
        let value = root.split_once(&format!("{name}=\""))?.1;
        Some(value.split('"').next()?.to_owned())
    };
    // Those of the whole come after those of the threads.
    let whole = text.rsplit_once("</thread>").map_or(text, |(_, rest)| rest);
    let element = |name: &str| {
        let rest = whole.split_once(&format!("<{name}"))?.1;
        rest.split_once('>')?.1.split('<').next()?.trim().parse::<f64>().ok().filter(|n| n.is_finite())
    };
    let Some((megabytes, seconds)) = element("total_bytes").zip(element("realtime")) else {
        return Some(Err("the file is of ntttcp, but tells no total".to_owned()));
    };
    // Windows counts in binary megabytes, and says nothing of it but by its version.
    let version = attribute("version").unwrap_or_default();
    let linux = version.contains("linux");
    let unit = if linux { 1e6 } else { 1_048_576.0 };
    let own = element("tcp_retransmits").or_else(|| element("retransmits"));
    let of_host = element("packets_retransmitted").filter(|_| !linux);
    Some(Ok(Told {
        sender,
        computer: attribute("computername").unwrap_or_default(),
        version,
        bytes: megabytes * unit,
        seconds,
        retransmits: own.or(of_host).filter(|_| sender),
        of_host: own.is_none(),
        threads: text.matches("<thread ").count().max(1),
    }))
}
