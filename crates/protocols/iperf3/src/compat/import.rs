//! iperf3's JSON (`-J`, `--json-stream`), of either end, versions 3.1 and later.

use crate::COUNTS;
use compat::file::{Source, quoted};
use compat::import::{ImportedPhase, ImportedRun, LONGEST_S, Numbers, ns, number};
use metrics::{Clamped, Packets, real};
use model::{Count, Counts, Interval, Kind, PacketReport, Pattern, Role, Status, Totals};
use serde_json::{Value, json};

/// Intervals of one file that are read.
const MOST: usize = 1_000_000;

/// Behind the keys of the direction that goes back, where both ends send.
const BACK: &str = "_bidir_reverse";

/// Reads a document, or the events of a stream; `None` when they are none of iperf3's.
pub(crate) fn read(source: &Source) -> Option<Result<ImportedRun, String>> {
    let joined;
    let document = match source {
        Source::Json(document) => document,
        Source::Events(events) => {
            if let [(event, failure)] = &events[..]
                && event == "error"
                && let Some(why) = failure["data"].as_str()
            {
                return Some(Err(format!("the test of iperf3 failed: {why}")));
            }
            joined = of_events(events)?;
            &joined
        }
        Source::Text(..) => return None,
    };
    let start = document.get("start")?;
    let version = start.get("version")?.as_str().filter(|v| v.starts_with("iperf"))?;
    document.get("intervals")?;
    Some(transport(document, version).and_then(|(udp, notice)| {
        let mut file = File::new(document, start, version, udp);
        file.notices.extend(notice);
        file.read()
    }))
}

/// True if the test was of UDP; with a notice where the file does not name its transport.
///
/// # Errors
/// The transport is another one.
fn transport(document: &Value, version: &str) -> Result<(bool, Option<String>), String> {
    let (test, end) = (&document["start"]["test_start"], &document["end"]);
    match test["protocol"].as_str() {
        Some(name) if name.eq_ignore_ascii_case("udp") => Ok((true, None)),
        Some(name) if name.eq_ignore_ascii_case("tcp") => Ok((false, None)),
        Some(name) => Err(format!(
            "the file is of {version}, but its test was over {}: tests over TCP and UDP are read",
            quoted(name)
        )),
        None => {
            let sums = ["sum", "sum_sent", "sum_received"].map(|sum| &end[sum]["lost_packets"]);
            let udp = sums.into_iter().any(|lost| !lost.is_null());
            let name = if udp { "UDP, because it counts lost packets," } else { "TCP" };
            Ok((udp, Some(format!("the file does not name its transport: that it is {name} is assumed"))))
        }
    }
}

/// The document that the events of `--json-stream` make up. One without an end was cut short.
fn of_events(events: &[(String, Value)]) -> Option<Value> {
    let data = |name: &str| events.iter().find(|(event, _)| event == name).map(|(_, value)| &value["data"]);
    let start = data("start")?;
    start.get("version")?;
    let rows: Vec<&Value> =
        events.iter().filter(|(event, _)| event == "interval").map(|(_, value)| &value["data"]).collect();
    let mut document =
        json!({ "start": start, "intervals": rows, "end": data("end").unwrap_or(&Value::Null) });
    let error = data("error").cloned();
    let cut = || data("end").is_none().then(|| json!("the stream of events has no end"));
    if let Some(error) = error.or_else(cut) {
        document["error"] = error;
    }
    Some(document)
}

/// A document on its way to a run.
struct File<'a> {
    start: &'a Value,
    end: &'a Value,
    rows: &'a [Value],
    version: &'a str,
    /// Why it ended early.
    error: Option<&'a str>,
    role: Role,
    udp: bool,
    pattern: Pattern,
    /// Keys end so, and whether the direction is to the server.
    ways: Vec<(&'static str, bool)>,
    numbers: Numbers,
    notices: Vec<String>,
}

impl<'a> File<'a> {
    fn new(document: &'a Value, start: &'a Value, version: &'a str, udp: bool) -> Self {
        let (test, end) = (&start["test_start"], &document["end"]);
        let rows = document["intervals"].as_array().map_or(&[][..], Vec::as_slice);
        let mut numbers = Numbers::default();
        let back = |of: &Value, what: &str| of.get(format!("{what}{BACK}")).is_some();
        let both = numbers.flag(&test["bidir"], "bidir")
            || back(end, "sum_sent")
            || rows.iter().any(|row| back(row, "sum"));
        let pattern = match (numbers.flag(&test["reverse"], "reverse"), both) {
            (_, true) => Pattern::Duplex,
            (true, _) => Pattern::Pull,
            _ => Pattern::Push,
        };
        // The first sum is of the direction that was asked for; the other one goes back.
        let ways = match pattern {
            Pattern::Duplex => vec![("", true), (BACK, false)],
            Pattern::Pull => vec![("", false)],
            _ => vec![("", true)],
        };
        let server = start.get("accepted_connection").is_some();
        File {
            start,
            end,
            rows: &rows[..rows.len().min(MOST)],
            version,
            error: document.get("error").and_then(Value::as_str),
            role: if server { Role::Server } else { Role::Client },
            udp,
            pattern,
            ways,
            numbers,
            notices: Vec::new(),
        }
    }

    fn read(mut self) -> Result<ImportedRun, String> {
        let (start, test) = (self.start, &self.start["test_start"]);
        let rows = self.rows;
        let intervals: Vec<Interval> =
            rows.iter().enumerate().map(|(n, row)| self.interval(n, row)).collect();
        let mut remote = Totals::default();
        let mut phase = ImportedPhase {
            kind: if self.udp { Kind::Delay } else { Kind::Tcp },
            pattern: self.pattern,
            connections: self.numbers.connections(&test["num_streams"], "streams").unwrap_or(1),
            duration_ns: self.numbers.ns(&test["duration"], "duration").filter(|ns| *ns > 0),
            ..ImportedPhase::default()
        };
        for (suffix, up) in self.ways.clone() {
            let (sender, receiver) =
                if up { (&mut phase.local, &mut remote) } else { (&mut remote, &mut phase.local) };
            self.totals(suffix, up, sender, receiver, &intervals);
        }
        phase.tolerance = self.tolerance(test, phase.connections, &phase.local, &remote);
        let moved = |totals: &Totals| totals.traffic.tx_bytes + totals.traffic.rx_bytes > 0;
        let empty = self.end.as_object().is_none_or(|end| end.is_empty()) && intervals.is_empty();
        match self.error {
            Some(error) if empty || !(moved(&phase.local) || moved(&remote)) => {
                return Err(format!("the test of {} failed: {error}", self.version));
            }
            None if empty => return Err(format!("the file is of {}, but holds no result", self.version)),
            Some(error) => {
                let by_user = error.contains("interrupt");
                let status = if by_user { Status::Interrupted } else { Status::Partial };
                phase.ending = Some((status, error.to_owned()));
            }
            None => {}
        }
        phase.intervals = intervals;
        phase.remote = Some(remote);
        if self.role == Role::Server {
            let text = "the file is the server's: it knows its own counts, and none of its client's";
            self.notices.push(text.to_owned());
        }
        let started = self.numbers.wall(&start["timestamp"]["timesecs"], "timesecs");
        self.notices.extend(self.numbers.notice());
        let host = start["connecting_to"]["host"].as_str();
        let target = host.or_else(|| start["connected"][0]["remote_host"].as_str());
        Ok(ImportedRun {
            program: self.version.to_owned(),
            protocol: "iperf3",
            verb: if self.udp { "delay" } else { "tcp" },
            targets: target.map(str::to_owned).into_iter().collect(),
            host: start["system_info"]
                .as_str()
                .and_then(|s| s.split(' ').nth(1))
                .unwrap_or_default()
                .to_owned(),
            started,
            phases: vec![phase],
            notices: self.notices,
            recorder: self.role,
            counts: Some(COUNTS),
        })
    }

    /// Streams may be cancelled with a block that arrives and is not counted; the ends leave the
    /// omitted start out at instants of their own.
    fn tolerance(&mut self, test: &Value, streams: u32, local: &Totals, remote: &Totals) -> f64 {
        let block = self.numbers.count(&test["blksize"], "block").unwrap_or(0);
        let sent = local.traffic.tx_bytes.max(remote.traffic.tx_bytes).max(1);
        let omitted = number(&test["omit"]).unwrap_or(0.0) > 0.0;
        let blocks = if self.udp { 0.0 } else { real(block) * f64::from(streams) / real(sent) };
        blocks + if omitted { 0.2 } else { 0.0 }
    }

    /// The totals of one direction, to both ends.
    fn totals(
        &mut self,
        suffix: &str,
        up: bool,
        sender: &mut Totals,
        receiver: &mut Totals,
        rows: &[Interval],
    ) {
        let end = self.end;
        let sum = |what: &str| end.get(format!("sum{what}{suffix}"));
        let (mut sent, mut got) = (sum("_sent").cloned(), sum("_received").cloned());
        if sent.is_none()
            && got.is_none()
            && let Some(one) = sum("")
        {
            (sent, got) = self.split(one);
        }
        let sends = (self.role == Role::Client) == up;
        if self.error.is_some() {
            // Results are exchanged at the end, which did not follow.
            if sends {
                got = None;
            } else {
                sent = None;
            }
            let own = if sends { &mut sent } else { &mut got };
            let counted = |value: &Value| number(&value["bytes"]).is_some_and(|bytes| bytes > 0.0);
            if !own.as_ref().is_some_and(counted) {
                *own = sum_of(rows, sends, self.role);
            }
        }
        match &sent {
            Some(sent) => self.sent(sent, sender),
            None => lacks(sender, Counts::SENDER),
        }
        match &got {
            Some(got) => self.received(got, sends, receiver),
            None => lacks(receiver, Counts::RECEIVER),
        }
    }

    fn sent(&mut self, sum: &Value, sender: &mut Totals) {
        match self.numbers.count(&sum["bytes"], "bytes sent") {
            Some(bytes) => sender.traffic.tx_bytes += bytes,
            None => lacks(sender, Counts::of(&[Count::SentBytes])),
        }
        sender.traffic.ns = sender.traffic.ns.max(self.span(sum));
        match self.numbers.count(&sum["retransmits"], "retransmits") {
            Some(again) => {
                sender.tcp.retransmits += again;
                sender.tcp.connections = sender.tcp.connections.max(1);
            }
            None if self.udp => {}
            None => lacks(sender, Counts::of(&[Count::Retransmits])),
        }
        if self.udp {
            let packets = self.numbers.count(&sum["packets"], "packets sent");
            let report = sender.packets.get_or_insert_with(|| Box::new(PacketReport::default()));
            match packets {
                Some(packets) => report.counts.sent += packets,
                None => report.unknown.insert(Count::SentDatagrams),
            }
        }
    }

    /// `reported`: its own end is the sender, and the receiver's report has no order.
    fn received(&mut self, sum: &Value, reported: bool, receiver: &mut Totals) {
        match self.numbers.count(&sum["bytes"], "bytes received") {
            Some(bytes) => receiver.traffic.rx_bytes += bytes,
            None => lacks(receiver, Counts::of(&[Count::ReceivedBytes])),
        }
        receiver.traffic.ns = receiver.traffic.ns.max(self.span(sum));
        if !self.udp {
            return;
        }
        let packets = self.numbers.count(&sum["packets"], "packets received");
        // A datagram that overtakes is taken back from the lost, so that a few may be less than
        // none.
        let lost = self.numbers.signed(&sum["lost_packets"], "lost packets");
        let lost = match packets.zip(lost) {
            Some((packets, lost)) if u64::clamped(lost.max(0)) > packets => {
                self.notices
                    .push(format!("{lost} datagrams lost, of {packets}: how many arrived is unknown"));
                None
            }
            _ => lost,
        };
        let order = self.numbers.count(&sum["out_of_order"], "packets out of order").filter(|_| !reported);
        let jitter = self.numbers.time(&sum["jitter_ms"], "jitter", 1e6);
        let report = receiver.packets.get_or_insert_with(|| Box::new(PacketReport::default()));
        let counts = packets
            .zip(lost)
            .map(|(packets, lost)| (packets.saturating_sub(u64::clamped(lost.max(0))), lost));
        let (received, lost) = counts.unwrap_or_default();
        report.counts = Packets {
            received,
            lost,
            reordered: order.unwrap_or(0),
            sent: report.counts.sent,
            ..Packets::default()
        };
        report.jitter_ns = jitter;
        let missing = [
            (counts.is_none(), Count::ReceivedDatagrams),
            (counts.is_none(), Count::LostDatagrams),
            (order.is_none(), Count::ReorderedDatagrams),
            (jitter.is_none(), Count::Jitter),
            (true, Count::RepeatedDatagrams),
        ];
        missing.into_iter().filter(|(is, _)| *is).for_each(|(_, count)| report.unknown.insert(count));
    }

    /// Versions 3.1 to 3.6 have one sum of datagrams: packets, the lost ones of them at the
    /// receiver, and bytes, either sent or received. Bytes divided by the length of a datagram show
    /// which.
    fn split(&mut self, one: &Value) -> (Option<Value>, Option<Value>) {
        let names = ["bytes", "packets", "lost_packets"];
        let fields = names.map(|name| self.numbers.count(&one[name], name).map(real));
        let ([Some(bytes), Some(packets), Some(lost)], true) = (fields, self.udp) else {
            // A single sum without datagrams has the counts of the end that wrote the file.
            return match self.role == Role::Client && self.pattern == Pattern::Push {
                true => (Some(one.clone()), None),
                false => (None, Some(one.clone())),
            };
        };
        let length = number(&self.start["test_start"]["blksize"]).filter(|length| *length > 0.0);
        if lost > packets {
            let mut got = one.clone();
            got["bytes"] = Value::Null;
            return (Some(one.clone()), Some(got));
        }
        let came = packets - lost;
        let is_received =
            length.is_some_and(|length| (bytes - came * length).abs() < (bytes - packets * length).abs());
        let each = if is_received { bytes / came.max(1.0) } else { bytes / packets.max(1.0) };
        let (mut sent, mut got) = (one.clone(), one.clone());
        sent["bytes"] = json!((each * packets).round());
        got["bytes"] = json!((each * came).round());
        self.notices.push(
            "bytes received are those of the datagrams that arrived: this version reports packets only"
                .to_owned(),
        );
        (Some(sent), Some(got))
    }

    fn span(&mut self, sum: &Value) -> u64 {
        let value = if sum["seconds"].is_null() { &sum["end"] } else { &sum["seconds"] };
        match self.numbers.ns(value, "seconds") {
            // A time of 0 is none; the ends of the span may be there.
            None | Some(0) => {
                let [from, to] = ["start", "end"].map(|name| number(&sum[name]).unwrap_or(0.0));
                ns((to - from).clamp(0.0, LONGEST_S))
            }
            Some(ns) => ns,
        }
    }

    /// An interval, as the end that wrote the file counted it.
    fn interval(&mut self, n: usize, row: &Value) -> Interval {
        let mut interval = Interval { index: u32::clamped(n), ..Interval::default() };
        for (suffix, up) in self.ways.clone() {
            let Some(sum) = row.get(format!("sum{suffix}")) else { continue };
            let [from, to] = ["start", "end"].map(|name| self.numbers.ns(&sum[name], name));
            // Without its time the interval is left out.
            (interval.start_ns, interval.end_ns) = from.zip(to).unwrap_or((1, 0));
            interval.omitted |= sum["omitted"].as_bool().unwrap_or(false);
            match self.numbers.count(&sum["retransmits"], "retransmits") {
                Some(again) => interval.retransmits = interval.retransmits.saturating_add(again),
                None if sum["retransmits"].is_null() => {}
                None => interval.unknown.insert(Count::Retransmits),
            }
            let bytes = self.numbers.count(&sum["bytes"], "bytes");
            if bytes.is_none() {
                let sends = up != (self.role == Role::Server);
                interval.unknown.insert(if sends { Count::SentBytes } else { Count::ReceivedBytes });
            }
            let bytes = bytes.unwrap_or(0);
            let span = self.span(sum);
            // The client sends up and receives down; the server the other way round.
            let server = self.role == Role::Server;
            let traffic = if server { interval.remote.get_or_insert_default() } else { &mut interval.local };
            traffic.ns = span;
            if up == server {
                traffic.rx_bytes += bytes;
            } else {
                traffic.tx_bytes += bytes;
            }
        }
        interval
    }
}

/// Counts that the end lacks, its datagrams' among them.
fn lacks(totals: &mut Totals, counts: Counts) {
    totals.unknown = totals.unknown.and(counts);
    if let Some(packets) = &mut totals.packets {
        packets.unknown = packets.unknown.and(counts);
    }
}

/// Sum over the intervals, as the end that wrote the file counted them.
fn sum_of(rows: &[Interval], sends: bool, role: Role) -> Option<Value> {
    let counted = rows.iter().filter(|row| !row.omitted);
    let own = counted.filter_map(|row| if role == Role::Server { row.remote } else { Some(row.local) });
    let (bytes, ns) = own.fold((0, 0), |(bytes, ns), traffic| {
        let more = if sends { traffic.tx_bytes } else { traffic.rx_bytes };
        (bytes + more, ns + traffic.ns)
    });
    (ns > 0).then(|| json!({ "bytes": bytes, "seconds": real(ns) / 1e9 }))
}

#[cfg(test)]
mod tests;
