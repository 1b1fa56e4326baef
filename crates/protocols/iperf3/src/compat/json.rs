//! iperf3's JSON: one document in the end (`-J`), or one per event (`--json-stream`), with the keys of 3.21.

use super::disk::DiskFile;
use super::ends::{Side, sides, sum_row, sums};
use super::opening::time;
use super::text::socket;
use crate::{BulkBegun, BulkCpu, BulkEnded, BulkNews, BulkStream, BulkTerms, ServerOutput, StreamRow};
use metrics::{Clamped, TcpInfo, Wall, real};
use serde_json::{Map, Value, json};

/// What the documents say besides what happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) version: String,
    /// Kernel and host.
    pub(crate) system_info: String,
    /// The client's target and its port; `None` for a server.
    pub(crate) connecting_to: Option<(String, u16)>,
    /// Socket buffers, bytes: sending and receiving.
    pub(crate) buffers: (u64, u64),
    /// Largest segment on the way there, bytes.
    pub(crate) mss: u32,
    /// Largest packet on the way there, bytes.
    pub(crate) mtu: u32,
    /// Length of an interval, s.
    pub(crate) interval_s: f64,
    /// File that payload comes from or goes to.
    pub(crate) file: Option<DiskFile>,
}

/// The documents of one test, as it comes.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonReport {
    facts: Facts,
    start: Map<String, Value>,
    intervals: Vec<Value>,
    keeps: bool,
    end: Value,
    output: Option<(&'static str, Value)>,
    error: Option<String>,
    begun: Option<BulkBegun>,
    /// What the kernel said of each stream over the test.
    seen: Vec<Seen>,
}

/// Extremes of TCP_INFO over the intervals of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    cwnd: u64,
    window: u64,
    most_rtt: u64,
    least_rtt: u64,
    sum_rtt: u64,
    samples: u64,
    reorder: u64,
}

impl Seen {
    fn see(&mut self, info: &TcpInfo) {
        let rtt = u64::from(info.rtt_us);
        self.cwnd = self.cwnd.max(cwnd(info));
        self.window = self.window.max(info.snd_wnd.unwrap_or(0).into());
        self.most_rtt = self.most_rtt.max(rtt);
        self.least_rtt = if self.samples == 0 { rtt } else { self.least_rtt.min(rtt) };
        self.sum_rtt += rtt;
        self.samples += 1;
        self.reorder = info.reord_seen.unwrap_or(0).into();
    }
}

fn cwnd(info: &TcpInfo) -> u64 {
    u64::from(info.cwnd) * u64::from(info.snd_mss)
}

pub(super) fn seconds(ns: u64) -> f64 {
    real(ns) / 1e9
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { real(bytes) * 8.0 / seconds } else { 0.0 }
}

/// Bytes, time and rate, which all objects have.
pub(super) fn moved(from: f64, to: f64, bytes: u64) -> Map<String, Value> {
    let mut map = Map::new();
    let length = to - from;
    for (key, value) in [
        ("start", json!(from)),
        ("end", json!(to)),
        ("seconds", json!(length)),
        ("bytes", json!(bytes)),
        ("bits_per_second", json!(rate(bytes, length))),
    ] {
        map.insert(key.to_owned(), value);
    }
    map
}

pub(super) fn with(mut map: Map<String, Value>, more: Value) -> Map<String, Value> {
    if let Value::Object(more) = more {
        map.extend(more);
    }
    map
}

impl JsonReport {
    /// A report that knows nothing yet; with `keeps` the intervals are kept for the whole document.
    pub(crate) fn new(facts: Facts, keeps: bool) -> Self {
        let mut start = Map::new();
        start.insert("connected".into(), json!([]));
        start.insert("version".into(), json!(facts.version));
        start.insert("system_info".into(), json!(facts.system_info));
        JsonReport { facts, start, keeps, end: json!({}), ..JsonReport::default() }
    }

    /// Takes in what has become known; the events that `--json-stream` prints for it.
    pub(crate) fn on_event(&mut self, news: &BulkNews) -> Vec<Value> {
        match news {
            BulkNews::Met { peer, cookie, at, .. } => {
                self.start.insert("cookie".into(), json!(cookie));
                self.stamp(at.0);
                let there = match &self.facts.connecting_to {
                    Some((host, port)) => ("connecting_to", json!({ "host": host, "port": port })),
                    None => {
                        let host = peer.ip().to_canonical().to_string();
                        ("accepted_connection", json!({ "host": host, "port": peer.port() }))
                    }
                };
                self.start.insert(there.0.into(), there.1);
                Vec::new()
            }
            BulkNews::Begun(begun) => {
                self.begin(begun);
                vec![event("start", Value::Object(self.start.clone()))]
            }
            BulkNews::Interval { omitted, rows } => {
                let interval = self.interval(*omitted, rows);
                let told = event("interval", interval.clone());
                if self.keeps {
                    self.intervals.push(interval);
                }
                vec![told]
            }
            BulkNews::Ended(ended) => self.ended(ended),
            BulkNews::Failed { error } => {
                self.error = Some(error.clone());
                vec![event("error", json!(error)), event("end", json!({}))]
            }
        }
    }

    pub(crate) fn document(&self) -> Value {
        let mut map = Map::new();
        map.insert("start".into(), Value::Object(self.start.clone()));
        map.insert("intervals".into(), Value::Array(self.intervals.clone()));
        map.insert("end".into(), self.end.clone());
        let terms = self.begun.as_ref().map(|begun| &begun.terms);
        for (key, text) in [
            ("title", terms.and_then(|terms| terms.title.as_ref())),
            ("extra_data", terms.and_then(|terms| terms.extra_data.as_ref())),
            ("error", self.error.as_ref()),
        ] {
            if let Some(text) = text {
                map.insert(key.into(), json!(text));
            }
        }
        if let Some((key, value)) = &self.output {
            map.insert((*key).into(), value.clone());
        }
        Value::Object(map)
    }

    /// It failed before anything could be told.
    pub(crate) fn fail(&mut self, error: &str) {
        self.error.get_or_insert_with(|| error.to_owned());
    }

    fn stamp(&mut self, wall_ns: i64) {
        let stamp = json!({
            "time": time(Wall(wall_ns)),
            "timesecs": wall_ns / 1_000_000_000,
            "timemillisecs": wall_ns / 1_000_000,
        });
        self.start.insert("timestamp".into(), stamp);
    }

    fn begin(&mut self, begun: &BulkBegun) {
        let terms = &begun.terms;
        let stream = |stream: &BulkStream| {
            json!({
                "socket": socket(stream.slot),
                "local_host": stream.local.ip().to_canonical().to_string(),
                "local_port": stream.local.port(),
                "remote_host": stream.remote.ip().to_canonical().to_string(),
                "remote_port": stream.remote.port(),
            })
        };
        let connected: Vec<Value> = begun.streams.iter().map(stream).collect();
        for (key, value) in [
            ("connected", json!(connected)),
            ("target_bitrate", json!(terms.rate)),
            ("fq_rate", json!(terms.fq_rate)),
            ("sock_bufsize", json!(terms.window)),
            ("sndbuf_actual", json!(self.facts.buffers.0)),
            ("rcvbuf_actual", json!(self.facts.buffers.1)),
            ("test_start", self.test_start(terms)),
        ] {
            self.start.insert(key.into(), value);
        }
        if !terms.udp {
            let mss =
                if terms.mss > 0 { ("tcp_mss", terms.mss) } else { ("tcp_mss_default", self.facts.mss) };
            self.start.insert(mss.0.into(), json!(mss.1));
        }
        self.seen = vec![Seen::default(); begun.streams.len()];
        self.begun = Some(begun.clone());
    }

    fn test_start(&self, terms: &BulkTerms) -> Value {
        json!({
            "protocol": if terms.udp { "UDP" } else { "TCP" },
            "num_streams": terms.streams,
            "blksize": terms.block,
            "omit": terms.omit_s,
            "duration": terms.time_s,
            "bytes": terms.bytes,
            "blocks": terms.blocks,
            "reverse": u8::from(terms.reverse),
            "tos": terms.tos,
            "target_bitrate": terms.rate,
            "bidir": u8::from(terms.bidir),
            "fqrate": terms.fq_rate,
            "interval": self.facts.interval_s,
            "gso": u8::from(terms.gso),
            "gro": u8::from(terms.gro),
        })
    }

    /// What was agreed, and whether we are the server.
    fn terms(&self) -> (BulkTerms, bool) {
        let begun = self.begun.clone().unwrap_or_default();
        (begun.terms, begun.serving)
    }

    fn interval(&mut self, omitted: bool, rows: &[StreamRow]) -> Value {
        let (terms, serving) = self.terms();
        let mut streams = Vec::new();
        for row in rows {
            if let (Some(info), Some(seen)) = (&row.info, self.seen.get_mut(usize::clamped(row.slot)))
                && row.sender
            {
                seen.see(info);
            }
            streams.push(Value::Object(self.stream_row(&terms, omitted, row)));
        }
        let mut map = Map::new();
        map.insert("streams".into(), Value::Array(streams));
        // The first sum is the direction in which the client sends, if it does.
        for (key, sender) in [("sum", !serving), ("sum_bidir_reverse", serving)] {
            let key = if terms.bidir { key } else { "sum" };
            let side: Vec<&StreamRow> = rows.iter().filter(|row| row.sender == sender).collect();
            if !side.is_empty() {
                map.insert(key.into(), Value::Object(sum_row(&terms, omitted, sender, &side)));
            }
        }
        Value::Object(map)
    }

    fn stream_row(&self, terms: &BulkTerms, omitted: bool, row: &StreamRow) -> Map<String, Value> {
        let map = moved(seconds(row.start_ns), seconds(row.end_ns), row.bytes);
        let map = with(map, json!({ "socket": socket(row.slot), "omitted": omitted, "sender": row.sender }));
        match (terms.udp, row.sender) {
            (true, true) => with(map, json!({ "packets": row.packets })),
            (true, false) => with(map, Side::local(row).json()),
            (false, true) => {
                let info = row.info.unwrap_or_default();
                with(
                    map,
                    json!({
                        "retransmits": row.retransmits.unwrap_or(0),
                        "snd_cwnd": cwnd(&info),
                        "snd_wnd": info.snd_wnd.unwrap_or(0),
                        "rtt": info.rtt_us,
                        "rttvar": info.rttvar_us,
                        "pmtu": self.facts.mtu,
                        "reorder": info.reord_seen.unwrap_or(0),
                    }),
                )
            }
            (false, false) => map,
        }
    }

    fn ended(&mut self, ended: &BulkEnded) -> Vec<Value> {
        let (terms, serving) = self.terms();
        let mut map = Map::new();
        let streams: Vec<Value> = ended.local.iter().map(|row| self.stream_end(&terms, ended, row)).collect();
        map.insert("streams".into(), Value::Array(streams));
        for (suffix, sender) in [("", !serving), ("_bidir_reverse", serving)] {
            let suffix = if terms.bidir { suffix } else { "" };
            let rows: Vec<&StreamRow> = ended.local.iter().filter(|row| row.sender == sender).collect();
            if !rows.is_empty() {
                sums(&mut map, &terms, ended, suffix, sender, &rows);
            }
        }
        let remote = ended.remote_cpu.unwrap_or_default();
        let BulkCpu { total, user, system } = ended.cpu;
        map.insert(
            "cpu_utilization_percent".into(),
            json!({
                "host_total": total, "host_user": user, "host_system": system,
                "remote_total": remote.total, "remote_user": remote.user, "remote_system": remote.system,
            }),
        );
        let sends = ended.local.iter().any(|row| row.sender);
        let names = if sends {
            (&ended.congestion, &ended.remote_congestion)
        } else {
            (&ended.remote_congestion, &ended.congestion)
        };
        for (key, name) in [("sender_tcp_congestion", names.0), ("receiver_tcp_congestion", names.1)] {
            if let Some(name) = name {
                map.insert(key.into(), json!(name));
            }
        }
        self.end = Value::Object(map);
        self.output = match &ended.server_output {
            Some(ServerOutput::Text(text)) => Some(("server_output_text", json!(text))),
            Some(ServerOutput::Json(text)) => {
                Some(("server_output_json", serde_json::from_str(text).unwrap_or(Value::Null)))
            }
            None => None,
        };
        self.error = ended.error.clone();
        let error = self.error.iter().map(|error| event("error", json!(error)));
        let output = self.output.iter().map(|(key, value)| event(key, value.clone()));
        error.chain(output).chain([event("end", self.end.clone())]).collect()
    }

    fn stream_end(&self, terms: &BulkTerms, ended: &BulkEnded, row: &StreamRow) -> Value {
        let (sent, got) = sides(ended, row);
        let [sent, got] = [sent, got].map(|side| side.unwrap_or(Side::silent(row)));
        let common = json!({ "socket": socket(row.slot), "sender": row.sender });
        if terms.udp {
            // Bytes of the sender, loss of the receiver.
            let map = with(sent.moved(), common);
            let loss = Side { packets: sent.packets, ..got };
            let map = with(with(map, loss.json()), json!({ "out_of_order": row.out_of_order }));
            return json!({ "udp": map });
        }
        let seen = self.seen.get(usize::clamped(row.slot)).copied().unwrap_or_default();
        let mut sender = with(sent.moved(), common.clone());
        if let Some(again) = sent.retransmits {
            let mean = seen.sum_rtt.checked_div(seen.samples).unwrap_or(0);
            sender = with(
                sender,
                json!({
                    "retransmits": again,
                    "reorder": seen.reorder,
                    "max_snd_cwnd": seen.cwnd,
                    "max_snd_wnd": seen.window,
                    "max_rtt": seen.most_rtt,
                    "min_rtt": seen.least_rtt,
                    "mean_rtt": mean,
                }),
            );
        }
        let receiver = with(got.moved(), common);
        let mut both = json!({ "sender": sender, "receiver": receiver });
        if let Some(file) = &self.facts.file {
            both["diskfile"] = file.json(sent.bytes, got.bytes, row.sender);
        }
        both
    }
}

fn event(name: &str, data: Value) -> Value {
    json!({ "event": name, "data": data })
}
