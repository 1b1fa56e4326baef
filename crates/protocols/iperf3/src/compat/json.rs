//! iperf3's JSON: one document in the end (`-J`), or one per event (`--json-stream`), with the keys
//! of 3.21.

use super::disk::DiskFile;
use super::ends::{StreamFigures, congestions, directions, sides_or_empty};
use super::opening::time;
use super::text::socket;
use crate::{BulkBegun, BulkEnded, BulkNews, BulkStream, BulkTerms, ServerOutput, StreamRow};
use metrics::{Clamped, TcpInfo, real};
use serde_json::{Value, json};

/// Contents of the documents besides the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) version: String,
    /// Kernel and host.
    pub(crate) system_info: String,
    /// The client's target and its port; `None` for a server.
    pub(crate) connecting_to: Option<(String, u16)>,
    /// The client's demands.
    pub(crate) asked: BulkTerms,
    /// Socket buffers, bytes: sending and receiving.
    pub(crate) buffers: (u64, u64),
    /// Largest segment on the way there, bytes.
    pub(crate) mss: u32,
    /// Largest packet on the way there, bytes.
    pub(crate) mtu: u32,
    /// Length of an interval, s.
    pub(crate) interval_s: f64,
    /// File of sent or received payload.
    pub(crate) file: Option<DiskFile>,
}

/// The documents of one test, while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonReport {
    facts: Facts,
    start: Value,
    intervals: Vec<Value>,
    keeps: bool,
    end: Value,
    output: Option<(&'static str, Value)>,
    error: Option<String>,
    begun: BulkBegun,
    /// The kernel's figures of each stream over the test.
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

fn seconds(ns: u64) -> f64 {
    real(ns) / 1e9
}

/// Bytes, time and rate, which all objects have.
fn moved(from: f64, to: f64, bytes: u64) -> Value {
    let length = to - from;
    let rate = if length > 0.0 { real(bytes) * 8.0 / length } else { 0.0 };
    json!({ "start": from, "end": to, "seconds": length, "bytes": bytes, "bits_per_second": rate })
}

/// The members of both objects.
fn with(mut object: Value, more: Value) -> Value {
    if let (Some(members), Value::Object(more)) = (object.as_object_mut(), more) {
        members.extend(more);
    }
    object
}

impl StreamFigures {
    /// Its datagrams.
    fn datagrams(&self) -> Value {
        json!({
            "jitter_ms": self.jitter_ms(),
            "lost_packets": self.lost,
            "packets": self.packets,
            "lost_percent": self.share(),
        })
    }

    /// Its bytes, time and rate.
    fn moved(&self) -> Value {
        moved(0.0, seconds(self.ns), self.bytes)
    }
}

impl JsonReport {
    /// A report that knows nothing yet; with `keeps` the intervals are kept for the whole document.
    pub(crate) fn new(facts: Facts, keeps: bool) -> Self {
        let start = json!({ "connected": [], "version": facts.version, "system_info": facts.system_info });
        JsonReport { facts, start, keeps, end: json!({}), ..JsonReport::default() }
    }

    /// Takes in news of the test; returns the events that `--json-stream` prints.
    pub(crate) fn on_event(&mut self, news: &BulkNews) -> Vec<Value> {
        match news {
            BulkNews::Met { peer, cookie, at, .. } => {
                self.start["cookie"] = json!(cookie);
                self.start["timestamp"] = json!({
                    "time": time(*at),
                    "timesecs": at.0 / 1_000_000_000,
                    "timemillisecs": at.0 / 1_000_000,
                });
                let (key, host, port) = match &self.facts.connecting_to {
                    Some((host, port)) => ("connecting_to", host.clone(), *port),
                    None => ("accepted_connection", peer.ip().to_canonical().to_string(), peer.port()),
                };
                self.start[key] = json!({ "host": host, "port": port });
                Vec::new()
            }
            BulkNews::Begun(begun) => {
                self.begin(begun);
                vec![event("start", &self.start)]
            }
            BulkNews::Interval { omitted, rows } => {
                let interval = self.interval(*omitted, rows);
                let told = event("interval", &interval);
                if self.keeps {
                    self.intervals.push(interval);
                }
                vec![told]
            }
            BulkNews::Ended(ended) => self.ended(ended),
            BulkNews::Failed { error } => {
                self.error = Some(error.clone());
                vec![event("error", &json!(error)), event("end", &json!({}))]
            }
        }
    }

    pub(crate) fn document(&self) -> Value {
        let terms = &self.begun.terms;
        let mut document = json!({ "start": self.start, "intervals": self.intervals, "end": self.end });
        for (key, text) in
            [("title", &terms.title), ("extra_data", &terms.extra_data), ("error", &self.error)]
        {
            if let Some(text) = text {
                document[key] = json!(text);
            }
        }
        if let Some((key, value)) = &self.output {
            document[*key] = value.clone();
        }
        document
    }

    /// True if neither an end nor an error was reported.
    pub(crate) fn is_open(&self) -> bool {
        self.error.is_none() && self.end == json!({})
    }

    /// Failed for this reason, unless another was reported.
    pub(crate) fn fail(&mut self, error: &str) {
        self.error.get_or_insert_with(|| error.to_owned());
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
        let more = json!({
            "connected": begun.streams.iter().map(stream).collect::<Vec<_>>(),
            "target_bitrate": terms.rate,
            "fq_rate": terms.fq_rate,
            "sock_bufsize": terms.window,
            "sndbuf_actual": self.facts.buffers.0,
            "rcvbuf_actual": self.facts.buffers.1,
            "test_start": self.test_start(terms),
        });
        self.start = with(self.start.take(), more);
        match (terms.udp, terms.mss) {
            (true, _) => {}
            (false, 0) => self.start["tcp_mss_default"] = json!(self.facts.mss),
            (false, mss) => self.start["tcp_mss"] = json!(mss),
        }
        self.seen = vec![Seen::default(); begun.streams.len()];
        self.begun = begun.clone();
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

    /// Suffix of a direction's keys: the second one, where both ends send, goes back.
    fn suffix(&self, sender: bool) -> &'static str {
        if self.begun.terms.bidir && sender == self.begun.serving { "_bidir_reverse" } else { "" }
    }

    fn interval(&mut self, omitted: bool, rows: &[StreamRow]) -> Value {
        for row in rows.iter().filter(|row| row.sender) {
            if let (Some(info), Some(seen)) = (&row.info, self.seen.get_mut(usize::clamped(row.slot))) {
                seen.see(info);
            }
        }
        let streams: Vec<Value> = rows.iter().map(|row| self.stream_row(omitted, row)).collect();
        let mut interval = json!({ "streams": streams });
        for (sender, rows) in directions(self.begun.serving, rows) {
            let mut all = StreamFigures::default();
            rows.iter().for_each(|row| all.add(&StreamFigures::local(row)));
            interval[format!("sum{}", self.suffix(sender))] = self.row(omitted, rows[0], &all);
        }
        interval
    }

    /// An interval of a stream, or of several in the time of `row`.
    fn row(&self, omitted: bool, row: &StreamRow, side: &StreamFigures) -> Value {
        let map = moved(seconds(row.start_ns), seconds(row.end_ns), side.bytes);
        let map = with(map, json!({ "omitted": omitted, "sender": row.sender }));
        match (self.begun.terms.udp, row.sender) {
            (true, true) => with(map, json!({ "packets": side.packets })),
            (true, false) => with(map, side.datagrams()),
            (false, true) => with(map, json!({ "retransmits": side.retransmits.unwrap_or(0) })),
            (false, false) => map,
        }
    }

    fn stream_row(&self, omitted: bool, row: &StreamRow) -> Value {
        let mut map = self.row(omitted, row, &StreamFigures::local(row));
        map["socket"] = json!(socket(row.slot));
        if self.begun.terms.udp || !row.sender {
            return map;
        }
        let info = row.info.unwrap_or_default();
        let kernel = json!({
            "snd_cwnd": cwnd(&info),
            "snd_wnd": info.snd_wnd.unwrap_or(0),
            "rtt": info.rtt_us,
            "rttvar": info.rttvar_us,
            "pmtu": self.facts.mtu,
            "reorder": info.reord_seen.unwrap_or(0),
        });
        with(map, kernel)
    }

    fn ended(&mut self, ended: &BulkEnded) -> Vec<Value> {
        let streams: Vec<Value> = ended.local.iter().map(|row| self.stream_end(ended, row)).collect();
        let (own, remote) = (ended.cpu, ended.remote_cpu.unwrap_or_default());
        let mut end = json!({
            "streams": streams,
            "cpu_utilization_percent": {
                "host_total": own.total, "host_user": own.user, "host_system": own.system,
                "remote_total": remote.total, "remote_user": remote.user, "remote_system": remote.system,
            },
        });
        for (sender, rows) in directions(self.begun.serving, &ended.local) {
            for (key, sum) in self.sums(ended, sender, &rows) {
                end[format!("{key}{}", self.suffix(sender))] = sum;
            }
        }
        let names = congestions(ended, ended.local.iter().any(|row| row.sender));
        for (key, name) in ["sender_tcp_congestion", "receiver_tcp_congestion"].into_iter().zip(names) {
            if let Some(name) = name {
                end[key] = json!(name);
            }
        }
        self.end = end;
        self.output = ended.server_output.as_ref().map(ServerOutput::member);
        self.error = ended.error.clone();
        let error = self.error.iter().map(|error| event("error", &json!(error)));
        let output = self.output.iter().map(|(key, value)| event(key, value));
        error.chain(output).chain([event("end", &self.end)]).collect()
    }

    /// The sums of one direction in the end.
    fn sums(&self, ended: &BulkEnded, sender: bool, rows: &[&StreamRow]) -> Vec<(&'static str, Value)> {
        let (mut sent, mut got) = (StreamFigures::default(), StreamFigures::default());
        for row in rows {
            let [s, g] = sides_or_empty(ended, row);
            sent.add(&s);
            got.add(&g);
        }
        let of = |sender: bool| json!({ "sender": sender });
        if !self.begun.terms.udp {
            let again = sent.retransmits.map_or(json!({}), |again| json!({ "retransmits": again }));
            let sent = with(with(sent.moved(), again), of(sender));
            return vec![("sum_sent", sent), ("sum_received", with(got.moved(), of(sender)))];
        }
        // A sender knows how many it sent, and nothing of loss and jitter.
        let there = StreamFigures { packets: sent.packets, ..StreamFigures::default() };
        let mixed = StreamFigures { packets: sent.packets, ..got };
        vec![
            ("sum", with(with(sent.moved(), mixed.datagrams()), of(sender))),
            ("sum_sent", with(with(sent.moved(), there.datagrams()), of(true))),
            ("sum_received", with(with(got.moved(), got.datagrams()), of(false))),
        ]
    }

    fn stream_end(&self, ended: &BulkEnded, row: &StreamRow) -> Value {
        let [sent, got] = sides_or_empty(ended, row);
        let common = json!({ "socket": socket(row.slot), "sender": row.sender });
        if self.begun.terms.udp {
            // Bytes of the sender, loss of the receiver.
            let loss = StreamFigures { packets: sent.packets, ..got };
            let map = with(with(sent.moved(), common), loss.datagrams());
            return json!({ "udp": with(map, json!({ "out_of_order": row.out_of_order })) });
        }
        let seen = self.seen.get(usize::clamped(row.slot)).copied().unwrap_or_default();
        let mut sender = with(sent.moved(), common.clone());
        if let Some(again) = sent.retransmits {
            let kernel = json!({
                "retransmits": again,
                "reorder": seen.reorder,
                "max_snd_cwnd": seen.cwnd,
                "max_snd_wnd": seen.window,
                "max_rtt": seen.most_rtt,
                "min_rtt": seen.least_rtt,
                "mean_rtt": seen.sum_rtt.checked_div(seen.samples).unwrap_or(0),
            });
            sender = with(sender, kernel);
        }
        let mut both = json!({ "sender": sender, "receiver": with(got.moved(), common) });
        if let Some(file) = &self.facts.file {
            both["diskfile"] = file.json(sent.bytes, got.bytes, row.sender);
        }
        both
    }
}

fn event(name: &str, data: &Value) -> Value {
    json!({ "event": name, "data": data })
}
