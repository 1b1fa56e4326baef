//! Imports files of other programs as outcomes, which are kept, shown and compared like runs of
//! this program.
//!
//! Figures that a file lacks are absent, never assumed, and a rate that only its sender counted is
//! marked so.

use crate::file::{Document, File, Form, Source, notice, quoted};
use jiff::Timestamp;
use metrics::{Clamped, Packets, SECOND, Wall, format_bytes, format_count, real};
use model::ending::{Account, JudgedPhase};
use model::{
    Begin, Builder, ConnectionRecord, Count, Counts, EndCounts, Event, Extra, FrameRow, Interval, Kind,
    Level, Outcome, PacketReport, Pattern, Phase, Ping, Range, Role, Status, Totals, reject_impossible,
};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Larger counts are no counts but wrapped ones, or made up.
const MOST: f64 = 1e18;
/// Longer times, seconds, and more connections no run has.
pub const LONGEST_S: f64 = 1e9;
const MOST_CONNECTIONS: u64 = 1_000_000;
/// Faster, bits/s, and later, s since 1970, no run is.
const FASTEST: f64 = 1e15;
const LATEST_S: f64 = 9e9;
/// Numbers that a notice names.
const MOST_NAMED: usize = 8;
/// Levels of a document that are searched for another one, and members of a level.
const DEPTH: usize = 4;
const MOST_MEMBERS: usize = 1_000;

pub struct NamedFile {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A program whose files are known.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// The program, and its options that write such files.
    pub name: &'static str,
    /// Reads a document; `None` if the program did not write it.
    pub read: fn(&Source) -> Option<Result<ImportedRun, String>>,
    /// True of a line with which a document in text begins. Text before the first such line is
    /// passed over, and the next one begins another document.
    pub begins: fn(&str) -> bool,
}

/// [`Importer::begins`] of programs whose documents are JSON, or hold several tables each.
pub const NOWHERE: fn(&str) -> bool = |_| false;

/// The outcomes in a file of one of these programs, each with the file's notices. `ours` reads a
/// document of this program.
///
/// # Errors
/// One sentence for each document that cannot be used, with its kind and its fault.
pub fn read(
    importers: &[&Importer],
    file: File,
    ours: fn(&str) -> Result<Outcome, String>,
) -> (Vec<Outcome>, Vec<String>) {
    let (mut outcomes, mut errors) = (Vec::new(), Vec::new());
    let file = parted(importers, file);
    let mut before = None;
    for document in &file.documents {
        let found = one(importers, document, ours).unwrap_or_else(|error| {
            let inner = inner(importers, document, ours);
            if inner.is_empty() { vec![Err(error)] } else { inner.into_iter().map(Ok).collect() }
        });
        for run in found {
            match run {
                // iperf3's --json-stream-full-output writes the events, then the whole document.
                Ok(outcome)
                    if before == Some(Form::Events)
                        && document.form == Form::Json
                        && outcomes.last().is_some_and(|last| is_same_run(last, &outcome)) =>
                {
                    outcomes.pop();
                    outcomes.push(outcome);
                }
                Ok(outcome) => outcomes.push(outcome),
                Err(error) if file.documents.len() == 1 => errors.push(error),
                Err(error) => errors.push(format!("line {}: {error}", document.line)),
            }
        }
        before = Some(document.form);
    }
    for outcome in &mut outcomes {
        outcome.notices.splice(0..0, file.notices.iter().cloned());
    }
    (outcomes, errors)
}

/// True if two documents of a file report one run: of one program, host and start, with the same
/// targets and bytes.
fn is_same_run(a: &Outcome, b: &Outcome) -> bool {
    let identity = |run: &Outcome| {
        let begin = &run.begin;
        let bytes: Vec<[u64; 2]> = run
            .points
            .iter()
            .flat_map(|point| std::iter::once(&point.local).chain(&point.remote))
            .map(|end| [end.traffic.tx_bytes, end.traffic.rx_bytes])
            .collect();
        (begin.version.clone(), begin.host.name.clone(), begin.started, begin.targets.clone(), bytes)
    };
    a.begin.started.0 > 0 && identity(a) == identity(b)
}

/// The outcome of a file with one document; `None` when it is of none of these programs.
///
/// # Errors
/// One sentence when such a document holds nothing that can be used, or the file no text.
pub fn import<'a>(
    importers: impl IntoIterator<Item = &'a Importer>,
    bytes: &[u8],
) -> Option<Result<Outcome, String>> {
    let importers: Vec<&Importer> = importers.into_iter().collect();
    let source = match crate::file::open(bytes) {
        Ok(file) => parted(&importers, file).documents.first()?.source().ok()?,
        Err(error) => return Some(Err(error)),
    };
    let run = importers.into_iter().find_map(|importer| (importer.read)(&source))?;
    Some(run.and_then(ImportedRun::outcome))
}

/// The file with its text parted where documents of the programs begin.
fn parted(importers: &[&Importer], mut file: File) -> File {
    let [whole] = &file.documents[..] else { return file };
    if whole.form != Form::Text {
        return file;
    }
    let begins = |line: &str| importers.iter().any(|importer| (importer.begins)(line.trim()));
    let (mut documents, mut passed) = (Vec::<Document>::new(), Vec::new());
    for (line, text) in (1..).zip(whole.text.split_inclusive('\n')) {
        if begins(text) {
            documents.push(Document {
                form: Form::Text,
                is_utf16: whole.is_utf16,
                text: String::new(),
                line,
            });
        }
        match documents.last_mut() {
            Some(document) => document.text.push_str(text),
            None if text.trim().is_empty() || text.trim_start().starts_with("<?") => {}
            None => passed.push((line, text)),
        }
    }
    if !documents.is_empty() {
        file.notices.extend(notice(&passed, "before the first document"));
        file.documents = documents;
    }
    file
}

/// The outcome of a document, in a list of its own.
fn one(
    importers: &[&Importer],
    document: &Document,
    ours: fn(&str) -> Result<Outcome, String>,
) -> Result<Vec<Result<Outcome, String>>, String> {
    if document.is_ours() {
        return Ok(vec![ours(&document.text)]);
    }
    let source = document.source()?;
    let found = importers.iter().find_map(|importer| (importer.read)(&source));
    match found {
        Some(run) => Ok(vec![run.and_then(ImportedRun::outcome)]),
        None => {
            let known: Vec<&str> = importers.iter().map(|importer| importer.name).collect();
            let what = match document.form {
                Form::Json => ", but no outcome of netcaliper: it names no schema",
                _ => ": neither a saved outcome nor a journal of netcaliper",
            };
            Err(format!(
                "the file is {}{what}, nor is it known to be of {}",
                document.kind(),
                known.join(", ")
            ))
        }
    }
}

/// The outcomes of documents within one of no known program: as its members, or as texts, which is
/// how programs that run others keep their output.
fn inner(
    importers: &[&Importer],
    document: &Document,
    ours: fn(&str) -> Result<Outcome, String>,
) -> Vec<Outcome> {
    let Ok(Source::Json(whole)) = document.source() else { return Vec::new() };
    let mut outcomes = Vec::new();
    let mut level = vec![(String::new(), whole)];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for (path, value) in level {
            let members = members(value);
            for (name, value) in members.into_iter().take(MOST_MEMBERS - next.len().min(MOST_MEMBERS)) {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                let text = value.to_string();
                let document = Document { form: Form::Json, is_utf16: false, text, line: document.line };
                let found = one(importers, &document, ours).ok().and_then(|mut found| found.pop()?.ok());
                match found {
                    Some(mut outcome) => {
                        outcome.notices.insert(0, format!("read: the document in '{}'", quoted(&path)));
                        outcomes.push(outcome);
                    }
                    None => next.push((path, value)),
                }
            }
        }
        level = next;
    }
    outcomes
}

/// The objects and lists within a value, also in its texts, by name or place.
fn members(value: Value) -> Vec<(String, Value)> {
    let named: Vec<(String, Value)> = match value {
        Value::Object(map) => map.into_iter().collect(),
        Value::Array(list) => {
            (0..).zip(list).map(|(at, value): (usize, _)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let whole = |(name, value): (String, Value)| match value {
        Value::Object(_) | Value::Array(_) => Some((name, value)),
        Value::String(text) => {
            let file = crate::file::open(text.contains('{').then_some(text.as_bytes())?).ok()?;
            let one = file.documents.first()?.source().ok()?.json()?.clone();
            Some((name, one))
        }
        _ => None,
    };
    named.into_iter().filter_map(whole).collect()
}

#[derive(Debug, Default)]
pub struct ImportedRun {
    pub program: String,
    /// Name of the protocol it used.
    pub protocol: &'static str,
    /// The verb that asks for the same here.
    pub verb: &'static str,
    /// Its remote ends.
    pub targets: Vec<String>,
    /// Name of its host.
    pub host: String,
    /// When it began; 0 where it is not known.
    pub started: Wall,
    /// Its phases.
    pub phases: Vec<ImportedPhase>,
    /// Notices that are needed to read the figures right.
    pub notices: Vec<String>,
    /// Which end wrote the file.
    pub recorder: Role,
    /// Counts that each end has with this program.
    pub counts: Option<EndCounts>,
}

#[derive(Debug, Default)]
pub struct ImportedPhase {
    pub label: BTreeMap<String, String>,
    pub kind: Kind,
    pub pattern: Pattern,
    pub connections: u32,
    pub duration_ns: Option<u64>,
    /// Figures of its messages.
    pub ping: Option<Ping>,
    pub intervals: Vec<Interval>,
    pub records: Vec<ConnectionRecord>,
    /// Results of the protocol's own.
    pub extras: Vec<Extra>,
    /// Frames of a media stream, in order.
    pub frames: Vec<FrameRow>,
    /// Counts of the recording program's end.
    pub local: Totals,
    /// Counts of the other end, if the file has any.
    pub remote: Option<Totals>,
    /// Status and reason, if the file reports another end than the planned one.
    pub ending: Option<(Status, String)>,
    /// Received bytes may exceed the sender's count by this share of it.
    pub tolerance: f64,
}

impl ImportedRun {
    fn outcome(self) -> Result<Outcome, String> {
        if self.phases.is_empty() {
            return Err(format!("the file is of {}, but holds no result", self.program));
        }
        let mut builder = Builder::default();
        let receive = format!("as {} does", self.program);
        let program = self.program.clone();
        let mut begin = Begin {
            version: self.program,
            verb: self.verb.to_owned(),
            protocol: self.protocol.to_owned(),
            targets: self.targets,
            started: self.started,
            ..Begin::default()
        };
        begin.host.name = self.host;
        builder.absorb(&Event::Begin(Box::new(begin)));
        let mut notices = self.notices;
        let (mut status, mut reason) = (Status::Complete, None);
        let mut events = Vec::new();
        for mut phase in self.phases {
            phase.lacks(self.recorder, self.counts);
            notices.extend(phase.without_odd_intervals());
            phase.complete_spans();
            notices.extend(phase.rejects());
            phase.check().map_err(|why| {
                let said: String = notices.iter().map(|notice| format!("; {notice}")).collect();
                format!("the file is of {}, but {why}{said}", program)
            })?;
            let counts_connections = !phase.records.is_empty() || phase.local.opened > 0;
            let ImportedPhase { label, kind, pattern, duration_ns, ping, intervals, records, .. } = phase;
            let ImportedPhase { connections, extras, frames, mut local, mut remote, ending, .. } = phase;
            // Other programs' receivers do not verify as receivers of this program do.
            local.receive.clone_from(&receive);
            remote.iter_mut().for_each(|remote| remote.receive.clone_from(&receive));
            // Transfers and buffers are unknown, and 0 leaves them out.
            let (connections, transfer, buffer) = (connections.max(1), 0, Range::just(0));
            let asked = Phase { kind, pattern, connections, duration_ns, ping, ..Phase::default() };
            let phase = Phase { transfer, buffer, ..asked };
            events.push(Event::Phase { label, repeat: 1, phase: Box::new(phase.clone()) });
            if self.started.0 > 0 {
                events.push(Event::Start { at: self.started });
            }
            let first = events.len();
            let intervals = intervals.into_iter().map(|interval| Event::Interval(Box::new(interval)));
            let records = records.into_iter().map(|record| Event::Connection(Box::new(record)));
            let frames = Some(frames).filter(|rows| !rows.is_empty());
            let frames = frames.map(|rows| Event::Frames { id: Uuid::nil(), rows });
            events.extend(intervals.chain(records).chain(frames).chain(extras.into_iter().map(Event::Extra)));
            events.push(Event::Local(Box::new(local)));
            events.extend(remote.map(|remote| Event::Remote(Box::new(remote))));
            // The rule of live runs: payload was expected, and an end counted some.
            let mut account = Account::default();
            if !counts_connections {
                account = account.without_connections();
            }
            events.iter().skip(first).for_each(|event| account.absorb(event));
            let proposed = ending.map_or((Status::Complete, None), |(status, why)| (status, Some(why)));
            let ended =
                account.ending(JudgedPhase { phase: &phase, protocol: "", needs_report: false }, proposed);
            if ended.0 != Status::Complete && status == Status::Complete {
                (status, reason) = ended.clone();
            }
            events.push(Event::PhaseEnd { status: ended.0, reason: ended.1 });
        }
        for text in notices {
            builder.absorb(&Event::Notice { level: Level::Info, text });
        }
        events.iter().for_each(|event| builder.absorb(event));
        builder.absorb(&Event::End { status, reason });
        Ok(builder.outcome())
    }
}

impl ImportedPhase {
    /// Names the counts that the end which wrote the file cannot have.
    fn lacks(&mut self, recorder: Role, counts: Option<EndCounts>) {
        let Some(counts) = counts.filter(|_| self.kind != Kind::Ping) else { return };
        let (client, server) = counts.unknown(recorder, self.pattern, self.kind.probes());
        name_unknown(&mut self.local, client);
        self.remote.iter_mut().for_each(|remote| name_unknown(remote, server));
        for interval in &mut self.intervals {
            // An interval holds the recorder's counts; its peer reports at the end only.
            interval.unknown = interval.unknown.and(match recorder {
                Role::Client => Counts::NONE,
                Role::Server => Counts::of(&[Count::SentBytes, Count::ReceivedBytes]),
            });
        }
    }

    /// Gives an end whose bytes have no time the span of the intervals that count, or of the other
    /// end: a rate needs one.
    fn complete_spans(&mut self) {
        let counted = self.intervals.iter().filter(|interval| !interval.omitted).map(Interval::ns);
        let of_ends = std::iter::once(&self.local).chain(&self.remote).map(|end| end.traffic.ns);
        let span = of_ends.chain([counted.fold(0, u64::saturating_add)]).max().unwrap_or(0);
        for end in std::iter::once(&mut self.local).chain(&mut self.remote) {
            let traffic = &mut end.traffic;
            if traffic.ns == 0 && traffic.tx_bytes.max(traffic.rx_bytes) > 0 {
                traffic.ns = span;
            }
        }
    }

    /// Checks that the phase has a figure.
    ///
    /// # Errors
    /// When bytes moved in no time, or no count can be used.
    fn check(&self) -> Result<(), String> {
        let ends = || std::iter::once(&self.local).chain(&self.remote);
        let records = self
            .records
            .iter()
            .flat_map(|record| [record.tx_bytes, record.rx_bytes, record.ended_ns, record.duration_ns]);
        let odd = ends().find_map(odd_number).or_else(|| {
            records.into_iter().find(|n| !is_possible(*n)).map(|n| format!("a connection with {n}"))
        });
        if let Some(odd) = odd.or_else(|| ends().find_map(odd_rate)) {
            return Err(format!("no test has {odd}"));
        }
        if !matches!(self.kind, Kind::Tcp | Kind::Delay) {
            return Ok(());
        }
        let (local, remote) = (&self.local, self.remote.as_ref());
        let mut counts = Vec::new();
        if self.pattern.sends_up() {
            counts.extend([local.sent_bytes(), remote.and_then(Totals::received_bytes)]);
        }
        if self.pattern.sends_down() {
            counts.extend([local.received_bytes(), remote.and_then(Totals::sent_bytes)]);
        }
        let known: u64 = counts.iter().flatten().copied().fold(0, u64::saturating_add);
        let span = ends().map(|end| end.traffic.ns).chain(self.intervals.iter().map(Interval::ns)).max();
        let datagrams = ends().any(|end| end.packets.is_some());
        match (known, span) {
            (1.., None | Some(0)) => {
                Err(format!("{} moved in 0 s, so that no rate is known", format_bytes(known)))
            }
            (0, _) if !datagrams && counts.iter().all(Option::is_none) => {
                Err("none of its counts of bytes can be used".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Leaves intervals out that no test can have, as a damaged number makes them; a sentence about
    /// them.
    fn without_odd_intervals(&mut self) -> Option<String> {
        let all = self.intervals.len();
        self.intervals.retain(|interval| {
            let traffic = std::iter::once(&interval.local).chain(&interval.remote);
            let moved = traffic.flat_map(|traffic| [traffic.tx_bytes, traffic.rx_bytes, traffic.ns]);
            let counts = [interval.in_flight, interval.completed, interval.retransmits, interval.end_ns];
            let trips = interval.pings.iter().map(|pings| pings.max_ns);
            interval.start_ns <= interval.end_ns && moved.chain(counts).chain(trips).all(is_possible)
        });
        let odd = u64::clamped(all - self.intervals.len());
        (odd > 0).then(|| {
            format!("{} with numbers that no test can have: left out", format_count(odd, "interval"))
        })
    }

    /// Makes impossible counts unknown; a sentence for each.
    fn rejects(&mut self) -> Vec<String> {
        let mut rejected = Vec::new();
        let none = Totals { unknown: Counts::ALL, ..Totals::default() };
        let (local, remote) = (&mut self.local, &mut self.remote);
        if self.pattern.sends_up()
            && let Some(remote) = remote
        {
            rejected.extend(reject_impossible(local, remote, self.tolerance));
        }
        if self.pattern.sends_down() {
            rejected.extend(reject_impossible(remote.as_ref().unwrap_or(&none), local, self.tolerance));
        }
        rejected
    }
}

/// True of a count, or a time in ns, that a test can have.
fn is_possible(n: u64) -> bool {
    real(n) < MOST
}

/// The first number of an end that no test can have, with its name.
fn odd_number(totals: &Totals) -> Option<String> {
    fn search(name: &str, value: &Value) -> Option<String> {
        match value {
            Value::Number(n) if n.as_f64().is_some_and(|n| n >= MOST) => Some(format!("a {name} of {n}")),
            Value::Object(map) => map.iter().find_map(|(name, value)| search(name, value)),
            Value::Array(list) => list.iter().find_map(|value| search(name, value)),
            _ => None,
        }
    }
    search("number", &serde_json::to_value(totals).ok()?)
}

/// A rate of an end that no path has.
fn odd_rate(totals: &Totals) -> Option<String> {
    let traffic = &totals.traffic;
    let seconds = real(traffic.ns) / real(SECOND);
    let bytes = traffic.tx_bytes.max(traffic.rx_bytes);
    (traffic.ns > 0 && real(bytes) * 8.0 / seconds > FASTEST)
        .then(|| format!("{} in {seconds} s", format_bytes(bytes)))
}

/// Names the `unknown` counts of an end.
fn name_unknown(totals: &mut Totals, unknown: Counts) {
    totals.unknown = totals.unknown.and(unknown);
    if let Some(packets) = &mut totals.packets {
        packets.unknown = packets.unknown.and(unknown);
    }
}

/// Numbers of a document. One that no test can have (negative, wrapped, not finite) is unknown, and
/// a notice names it.
#[derive(Debug, Default)]
pub struct Numbers {
    odd: Vec<String>,
    more: usize,
}

impl Numbers {
    /// A number from `least` to `most`.
    pub fn within(&mut self, value: &Value, name: &str, (least, most): (f64, f64)) -> Option<f64> {
        if value.is_null() {
            return None;
        }
        let found = number(value).filter(|n| (least..=most).contains(n));
        if found.is_none() {
            let odd = format!("{name} {}", quoted(&value.to_string()));
            match self.odd.len() < MOST_NAMED {
                _ if self.odd.contains(&odd) => {}
                true => self.odd.push(odd),
                false => self.more += 1,
            }
        }
        found
    }

    /// The same of a cell of a table.
    pub fn cell(&mut self, cell: &str, name: &str, bounds: (f64, f64)) -> Option<f64> {
        self.within(&Value::from(cell), name, bounds)
    }

    /// A count, or bytes.
    pub fn count(&mut self, value: &Value, name: &str) -> Option<u64> {
        self.within(value, name, (0.0, MOST)).map(u64::clamped)
    }

    /// A count that corrections may have made less than 0.
    pub fn signed(&mut self, value: &Value, name: &str) -> Option<i64> {
        self.within(value, name, (-MOST, MOST)).map(i64::clamped)
    }

    /// A setting that is on or off.
    pub fn flag(&mut self, value: &Value, name: &str) -> bool {
        value.as_bool().unwrap_or_else(|| self.within(value, name, (0.0, 1.0)).is_some_and(|n| n > 0.0))
    }

    /// Seconds since 1970.
    pub fn wall(&mut self, value: &Value, name: &str) -> Wall {
        Wall(i64::clamped(ns(self.within(value, name, (0.0, LATEST_S)).unwrap_or(0.0))))
    }

    /// Connections, threads or streams.
    pub fn connections(&mut self, value: &Value, name: &str) -> Option<u32> {
        self.within(value, name, (0.0, real(MOST_CONNECTIONS))).map(u32::clamped)
    }

    /// Seconds as ns.
    pub fn ns(&mut self, value: &Value, name: &str) -> Option<u64> {
        self.within(value, name, (0.0, LONGEST_S)).map(ns)
    }

    /// A time of `unit` ns, as ns.
    pub fn time(&mut self, value: &Value, name: &str, unit: f64) -> Option<f64> {
        self.within(value, name, (0.0, LONGEST_S * real(SECOND) / unit)).map(|n| n * unit)
    }

    /// Notice about impossible numbers.
    pub fn notice(self) -> Option<String> {
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        (!self.odd.is_empty())
            .then(|| format!("numbers that no test can have are unknown: {}{more}", self.odd.join(", ")))
    }
}

/// A number, which some programs write as text.
pub fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|n| n.is_finite())
}

pub fn ns(seconds: f64) -> u64 {
    u64::clamped((seconds * 1e9).round())
}

/// A time as RFC 3339 has it; without a zone it is taken for UTC.
pub fn wall(text: &str) -> Wall {
    let zoned = text.parse::<Timestamp>().or_else(|_| format!("{text}Z").parse::<Timestamp>());
    let ns = zoned.map_or(0, |at| at.as_nanosecond());
    Wall(i64::try_from(ns).unwrap_or(0))
}

/// A receiver's counts of datagrams as a report.
pub fn received(received: u64, lost: u64, reordered: u64) -> PacketReport {
    Packets { received, lost: i64::clamped(lost), reordered, ..Packets::default() }.into()
}

#[cfg(test)]
mod tests;
