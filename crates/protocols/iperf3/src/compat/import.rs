//! iperf3's JSON (`-J`), of either end, versions 3.1 and later.

use compat::import::{ImportedPhase, ImportedRun, count, json, ns, number, received};
use metrics::Wall;
use model::{Interval, Kind, PacketReport, Pattern, Totals};
use serde_json::Value;

/// Intervals of one file that are read.
const MOST: usize = 1_000_000;

/// Behind the keys of the direction that goes back, where both ends send.
const BACK: &str = "_bidir_reverse";

/// Reads a document; `None` when it is none of iperf3's.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<ImportedRun, String>> {
    let document = json(bytes)?;
    let start = document.get("start")?;
    let version = start.get("version")?.as_str().filter(|v| v.starts_with("iperf"))?;
    document.get("intervals")?;
    Some(found(&document, start, version))
}

fn found(document: &Value, start: &Value, version: &str) -> Result<ImportedRun, String> {
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        return Err(format!("the test of {version} failed: {error}"));
    }
    let (test, end) = (&start["test_start"], &document["end"]);
    let server = start.get("accepted_connection").is_some();
    let udp = test["protocol"].as_str().is_some_and(|p| p.eq_ignore_ascii_case("udp"));
    let (reverse, bidir) = (count(&test["reverse"]) > 0, end.get(format!("sum_sent{BACK}")).is_some());
    let pattern = match (reverse, bidir) {
        (_, true) => Pattern::Duplex,
        (true, _) => Pattern::Pull,
        _ => Pattern::Push,
    };
    let mut phase = ImportedPhase {
        kind: if udp { Kind::Delay } else { Kind::Tcp },
        pattern,
        connections: u32::try_from(count(&test["num_streams"])).unwrap_or(u32::MAX),
        duration_ns: number(&test["duration"]).filter(|s| *s > 0.0).map(ns),
        ..ImportedPhase::default()
    };
    let mut remote = Totals::default();
    // The first sum is of the direction that was asked for; the other one goes back.
    let ways = if bidir { vec![("", true), (BACK, false)] } else { vec![("", !reverse)] };
    for (suffix, up) in &ways {
        totals(end, suffix, *up, udp, (&mut phase.local, &mut remote));
    }
    let rows = document["intervals"].as_array().map_or(&[][..], Vec::as_slice);
    phase.intervals =
        rows.iter().take(MOST).enumerate().map(|(n, row)| interval(n, row, &ways, server)).collect();
    phase.remote = Some(remote);
    let target =
        start["connecting_to"]["host"].as_str().or_else(|| start["connected"][0]["remote_host"].as_str());
    let mut found = ImportedRun {
        program: version.to_owned(),
        protocol: "iperf3",
        verb: if udp { "delay" } else { "tcp" },
        targets: target.map(str::to_owned).into_iter().collect(),
        host: start["system_info"].as_str().and_then(|s| s.split(' ').nth(1)).unwrap_or_default().to_owned(),
        started: Wall(i64::try_from(ns(number(&start["timestamp"]["timesecs"]).unwrap_or(0.0))).unwrap_or(0)),
        ..ImportedRun::default()
    };
    if server {
        found.notices.push(
            "the file is the server's: it knows its client's counts as far as the client told them"
                .to_owned(),
        );
    }
    found.phases.push(phase);
    Ok(found)
}

/// The totals of one direction, to both ends.
fn totals(end: &Value, suffix: &str, up: bool, udp: bool, (local, remote): (&mut Totals, &mut Totals)) {
    let sum = |what: &str| end.get(format!("sum_{what}{suffix}")).or_else(|| end.get("sum"));
    let (sent, got) = (sum("sent"), sum("received"));
    let (sender, receiver) = if up { (local, remote) } else { (remote, local) };
    if let Some(sent) = sent {
        sender.traffic.tx_bytes += count(&sent["bytes"]);
        sender.traffic.ns = sender.traffic.ns.max(span(sent));
        sender.tcp.retransmits += count(&sent["retransmits"]);
        if sent.get("retransmits").is_some() {
            sender.tcp.connections = sender.tcp.connections.max(1);
        }
    }
    if let Some(got) = got {
        receiver.traffic.rx_bytes += count(&got["bytes"]);
        receiver.traffic.ns = receiver.traffic.ns.max(span(got));
        if udp {
            let (packets, lost) = (count(&got["packets"]), count(&got["lost_packets"]));
            let mut report = received(packets.saturating_sub(lost), lost, count(&got["out_of_order"]));
            report.jitter_ns = number(&got["jitter_ms"]).map(|ms| ms * 1e6);
            // Where both ends send it has sent, too.
            report.counts.sent += receiver.packets.as_ref().map_or(0, |other| other.counts.sent);
            receiver.packets = Some(Box::new(report));
        }
    }
    if let (true, Some(sent)) = (udp, sent) {
        let report = sender.packets.get_or_insert_with(|| Box::new(PacketReport::default()));
        report.counts.sent += count(&sent["packets"]);
    }
}

fn span(sum: &Value) -> u64 {
    ns(number(&sum["seconds"]).or_else(|| number(&sum["end"])).unwrap_or(0.0))
}

/// An interval, as the end that wrote the file counted it.
fn interval(n: usize, row: &Value, ways: &[(&str, bool)], server: bool) -> Interval {
    let mut interval = Interval { index: u32::try_from(n).unwrap_or(u32::MAX), ..Interval::default() };
    for (suffix, up) in ways {
        let Some(sum) = row.get(format!("sum{suffix}")) else { continue };
        interval.start_ns = ns(number(&sum["start"]).unwrap_or(0.0));
        interval.end_ns = ns(number(&sum["end"]).unwrap_or(0.0));
        interval.omitted |= sum["omitted"].as_bool().unwrap_or(false);
        interval.retransmits += count(&sum["retransmits"]);
        // The client sends up and receives what comes down; the server the other way round.
        let traffic = match server {
            true => interval.remote.get_or_insert_default(),
            false => &mut interval.local,
        };
        traffic.ns = span(sum);
        if *up == server {
            traffic.rx_bytes += count(&sum["bytes"]);
        } else {
            traffic.tx_bytes += count(&sum["bytes"]);
        }
    }
    interval
}

#[cfg(test)]
mod tests;
