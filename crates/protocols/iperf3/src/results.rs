//! The results: one JSON document from each end, the client's first.
//!
//! ```text
//! {"cpu_util_total":0.2,"cpu_util_user":0,"cpu_util_system":0.2,"sender_has_retransmits":1,"congestion_used":"bbr",
//!  "streams":[{"id":1,"bytes":256000,"retransmits":0,"jitter":0,"errors":0,"omitted_errors":0,"packets":0,
//!              "omitted_packets":0,"start_time":0,"end_time":1.000735}]}
//! ```
//!
//! Seconds and bytes. `packets` of a receiver is the highest number seen, `errors` the number of
//! missing ones below it; both count from the start, and 3.14 and later have the part in the
//! omitted start beside them. Numbers of old peers may be negative or absurdly large.

use super::codec::{slot_of, stream_id};
use super::params::whole;
use crate::{BulkCpu, RemoteRow, ServerOutput};
use metrics::{Clamped, real};
use model::{Count, Counts};

use serde_json::{Value, json};

/// More bytes of one stream are no count but a wrapped one.
const MOST_BYTES: u64 = 1 << 60;

/// One end's report of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// The row for reporters, without the omitted start.
    pub row: RemoteRow,
    /// Datagrams lost in the omitted start.
    pub omitted_errors: i64,
    /// Datagrams in the omitted start.
    pub omitted_packets: i64,
    /// Datagrams that arrived twice and that arrived after a later one: ours only, in a key that
    /// others ignore.
    pub repeated: u64,
    pub reordered: u64,
    /// Counts that the peer does not report, or whose number no test can have.
    pub unknown: Counts,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// CPU of this end.
    pub cpu: BulkCpu,
    /// -1: this end sends nothing; 1: it knows its retransmissions; 0: it does not.
    pub has_retransmits: i64,
    pub congestion: Option<String>,
    pub lines: Vec<StreamResult>,
    /// The server's printout.
    pub output: Option<ServerOutput>,
}

/// Writes a document.
pub fn write(results: &Results) -> String {
    let line = |line: &StreamResult| {
        let row = &line.row;
        json!({
            "id": stream_id(row.slot),
            "bytes": row.bytes,
            "retransmits": row.retransmits.map_or(-1, i64::clamped),
            "jitter": row.jitter_ns / 1e9,
            "errors": row.lost.saturating_add(line.omitted_errors),
            "omitted_errors": line.omitted_errors,
            "packets": row.packets.saturating_add(line.omitted_packets),
            "omitted_packets": line.omitted_packets,
            "start_time": 0,
            "end_time": real(row.ns.unwrap_or(0)) / 1e9,
            "netcaliper": { "repeated": line.repeated, "reordered": line.reordered },
        })
    };
    let mut document = json!({
        "cpu_util_total": results.cpu.total,
        "cpu_util_user": results.cpu.user,
        "cpu_util_system": results.cpu.system,
        "sender_has_retransmits": results.has_retransmits,
        "streams": results.lines.iter().map(line).collect::<Vec<_>>(),
    });
    let congestion = results.congestion.iter().map(|name| ("congestion_used", json!(name)));
    for (key, value) in congestion.chain(results.output.as_ref().map(ServerOutput::member)) {
        document[key] = value;
    }
    document.to_string()
}

/// Reads a document of a test of `streams` streams.
///
/// # Errors
/// In words, when it is none.
pub fn read(text: &str, streams: u32) -> Result<Results, &'static str> {
    let Ok(Value::Object(map)) = serde_json::from_str::<Value>(text) else {
        return Err("the results are no JSON object");
    };
    let share = |key: &str| map.get(key).and_then(Value::as_f64).ok_or("the results lack CPU figures");
    let cpu = BulkCpu {
        total: share("cpu_util_total")?,
        user: share("cpu_util_user")?,
        system: share("cpu_util_system")?,
    };
    let Some(Value::Array(list)) = map.get("streams") else { return Err("the results lack streams") };
    if list.len() > usize::clamped(streams) {
        return Err("the results have more streams than the test");
    }
    let mut lines: Vec<StreamResult> = Vec::new();
    for value in list {
        let line = read_line(value, streams)?;
        if lines.iter().any(|known| known.row.slot == line.row.slot) {
            return Err("the results have a stream twice");
        }
        lines.push(line);
    }
    let output = match (map.get("server_output_text"), map.get("server_output_json")) {
        (Some(Value::String(text)), _) => Some(ServerOutput::Text(text.clone())),
        (_, Some(document @ Value::Object(_))) => Some(ServerOutput::Json(document.to_string())),
        _ => None,
    };
    Ok(Results {
        cpu,
        has_retransmits: map.get("sender_has_retransmits").map_or(0, signed),
        congestion: map.get("congestion_used").and_then(Value::as_str).map(str::to_owned),
        lines,
        output,
    })
}

fn read_line(value: &Value, streams: u32) -> Result<StreamResult, &'static str> {
    let Value::Object(map) = value else { return Err("a stream's results are no object") };
    let number = |key: &str| map.get(key).filter(|v| v.is_number()).ok_or("a stream's results lack a number");
    let optional = |key: &str| map.get(key).map_or(0, signed);
    let slot = whole(number("id")?).and_then(slot_of).filter(|slot| *slot < streams);
    let ours = map.get("netcaliper");
    let extra = |key: &str| ours.and_then(|it| it.get(key)).and_then(whole).unwrap_or(0);
    let seconds =
        |value: Option<&Value>| value.and_then(Value::as_f64).filter(|s| s.abs() < 1e9).unwrap_or(0.0);
    let (omitted_errors, omitted_packets) = (optional("omitted_errors"), optional("omitted_packets"));
    let end_s = seconds(map.get("end_time"));
    let bytes = whole(number("bytes")?).filter(|bytes| *bytes <= MOST_BYTES);
    let jitter_s = seconds(Some(number("jitter")?));
    let row = RemoteRow {
        slot: slot.ok_or("the results have a stream that the test has not")?,
        bytes: bytes.unwrap_or(0),
        retransmits: u64::try_from(signed(number("retransmits")?)).ok(),
        jitter_ns: jitter_s.max(0.0) * 1e9,
        lost: signed(number("errors")?).saturating_sub(omitted_errors),
        packets: signed(number("packets")?).saturating_sub(omitted_packets),
        ns: (end_s > 0.0).then(|| (end_s * 1e9).round().min(1e18) as u64),
    };
    let (repeated, reordered) = (extra("repeated"), extra("reordered"));
    let unknown = [
        (bytes.is_none(), Counts::of(&[Count::SentBytes, Count::ReceivedBytes])),
        (ours.is_none(), Counts::of(&[Count::RepeatedDatagrams, Count::ReorderedDatagrams])),
        (jitter_s < 0.0, Counts::of(&[Count::Jitter])),
        (row.lost < 0, Counts::of(&[Count::LostDatagrams])),
        (row.packets < 0, Counts::of(&[Count::ReceivedDatagrams, Count::SentDatagrams])),
        (row.retransmits.is_none(), Counts::of(&[Count::Retransmits])),
    ];
    let unknown = unknown.into_iter().filter(|(lacks, _)| *lacks);
    let unknown = unknown.fold(Counts::NONE, |all, (_, counts)| all.and(counts));
    Ok(StreamResult { row, omitted_errors, omitted_packets, repeated, reordered, unknown })
}

/// A number of either sign, in any notation; 0 if out of range.
fn signed(value: &Value) -> i64 {
    let rounded = || value.as_f64().filter(|n| n.is_finite() && n.abs() < 9.2e18).map(|n| n as i64);
    value.as_i64().or_else(rounded).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_real_peers() {
        // iperf3-ctl-tcp.pcap (3.21), the client's, with the digits of its CPU cut.
        let text = r#"{"cpu_util_total":0.24,"cpu_util_user":0,"cpu_util_system":0.24,"sender_has_retransmits":1,"congestion_used":"bbr","streams":[{"id":1,"bytes":256000,"retransmits":0,"jitter":0,"errors":0,"omitted_errors":0,"packets":0,"omitted_packets":0,"start_time":0,"end_time":1.000735}]}"#;
        let results = read(text, 1).unwrap();
        assert_eq!((results.has_retransmits, results.congestion.as_deref()), (1, Some("bbr")));
        let remote = results.lines[0].row;
        assert_eq!((remote.bytes, remote.retransmits, remote.ns), (256_000, Some(0), Some(1_000_735_000)));
        // iperf3-ctl-udp64R.pcap (3.21), the receiving client's.
        let udp = r#"{"cpu_util_total":1,"cpu_util_user":0,"cpu_util_system":1,"sender_has_retransmits":-1,"streams":[{"id":1,"bytes":26000,"retransmits":-1,"jitter":9.4723788042928663e-05,"errors":0,"omitted_errors":0,"packets":26,"omitted_packets":0,"start_time":0,"end_time":1.001354}]}"#;
        let remote = read(udp, 1).unwrap().lines[0].row;
        assert_eq!((remote.packets, remote.lost, remote.retransmits), (26, 0, None));
        assert!((remote.jitter_ns - 94_723.788).abs() < 0.01);
        // Loss as a 3.16 server told it, of a datagram that was none.
        let odd = text.replace("\"errors\":0,", "\"errors\":18446744073059066868,");
        assert_eq!(read(&odd, 1).unwrap().lines[0].row.lost, 0);
        let odd = text.replace("\"errors\":0,", "\"errors\":-1820106104,");
        assert_eq!(read(&odd, 1).unwrap().lines[0].row.lost, -1_820_106_104);
    }

    #[test]
    fn what_is_written_is_read_alike() {
        let row = RemoteRow {
            slot: 1,
            bytes: 5,
            retransmits: None,
            jitter_ns: 1e6,
            lost: 2,
            packets: 7,
            ns: Some(1_500_000_000),
        };
        let unknown = Counts::of(&[Count::Retransmits]);
        let line =
            StreamResult { row, omitted_errors: 1, omitted_packets: 2, repeated: 1, reordered: 2, unknown };
        let other = RemoteRow { slot: 0, retransmits: Some(7), ..row };
        let results = Results {
            cpu: BulkCpu { total: 1.5, user: 1.0, system: 0.5 },
            has_retransmits: 0,
            congestion: Some("cubic".into()),
            lines: vec![line, StreamResult { row: other, unknown: Counts::NONE, ..line }],
            output: Some(ServerOutput::Text("a\nb".into())),
        };
        assert_eq!(read(&write(&results), 2), Ok(results));
    }

    #[test]
    fn the_longest_results_of_a_client_are_accepted() {
        let row = RemoteRow {
            slot: 0,
            bytes: u64::MAX,
            retransmits: Some(u64::MAX),
            jitter_ns: 1e9 / 30_000.0,
            lost: i64::MIN,
            packets: i64::MIN,
            ns: Some(86_399_123_456_789),
        };
        let line = StreamResult {
            row,
            omitted_errors: i64::MIN,
            omitted_packets: i64::MIN,
            repeated: u64::MAX,
            reordered: u64::MAX,
            unknown: Counts::NONE,
        };
        let slots = 0..2 * crate::params::MOST_STREAMS;
        let lines = slots.map(|slot| StreamResult { row: RemoteRow { slot, ..row }, ..line }).collect();
        let text = write(&Results { lines, ..Results::default() });
        assert!(text.len() < crate::codec::LONGEST_CLIENT_RESULTS, "{}", text.len());
    }

    #[test]
    fn what_is_none_is_refused() {
        let good = write(&Results { lines: vec![StreamResult::default()], ..Results::default() });
        assert!(read(&good, 1).is_ok());
        for (from, to) in [
            ("\"id\":1", "\"id\":2"),
            ("\"id\":1", "\"id\":3"),
            ("\"id\":1", "\"id\":\"1\""),
            ("\"jitter\":0.0", "\"jitter\":true"),
            ("\"cpu_util_user\":0.0,", ""),
            ("\"streams\"", "\"strands\""),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good, "{from}");
            assert!(read(&bad, 1).is_err(), "{bad}");
        }
        assert!(read("[]", 1).is_err() && read("", 1).is_err());
    }
}
