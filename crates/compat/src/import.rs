//! What other programs wrote, as outcomes: from there on they are kept, shown and compared like runs of this program.
//!
//! Nothing is invented: what a file does not tell is absent, and a rate that only its sender counted is marked so.

use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use metrics::{Clamped, Packets, Wall};
use model::{
    Begin, Builder, ConnectionRecord, Event, Extra, FrameRow, Interval, Kind, Level, Outcome, PacketReport,
    Pattern, Phase, Ping, Range, Status, Totals,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use uuid::Uuid;

/// Largest file, unpacked.
const LARGEST: u64 = 1 << 29;

pub struct NamedFile {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A program whose files are known.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// The program, and its options that write such files.
    pub name: &'static str,
    /// What it makes of a file: nothing when it is none of its own.
    pub read: fn(&[u8]) -> Option<Result<ImportedRun, String>>,
}

/// The outcome that a file of one of these programs tells; `None` when it is of none of them.
///
/// # Errors
/// One sentence when such a file holds nothing that can be used.
pub fn import<'a>(
    importers: impl IntoIterator<Item = &'a Importer>,
    bytes: &[u8],
) -> Option<Result<Outcome, String>> {
    let unpacked = match unpacked(bytes) {
        Ok(unpacked) => unpacked,
        Err(error) => return Some(Err(error)),
    };
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    let found = importers.into_iter().find_map(|importer| (importer.read)(bytes));
    found.map(|found| found.and_then(ImportedRun::outcome))
}

fn unpacked(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if bytes.starts_with(b"BZh") {
        return Err("the file is packed with bzip2: unpack it first".to_owned());
    }
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(None);
    }
    let mut all = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(LARGEST + 1).read_to_end(&mut all);
    read.map_err(|error| format!("the file cannot be unpacked: {error}"))?;
    if u64::clamped(all.len()) > LARGEST {
        return Err("the file is too large once unpacked: more than 512 MiB".to_owned());
    }
    Ok(Some(all))
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
    /// What has to be known to read the figures right.
    pub notices: Vec<String>,
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
    /// What its end counted.
    pub local: Totals,
    /// What the other end counted, where that is told.
    pub remote: Option<Totals>,
}

impl ImportedRun {
    fn outcome(self) -> Result<Outcome, String> {
        if self.phases.is_empty() {
            return Err(format!("the file is of {}, but holds no result", self.program));
        }
        let mut builder = Builder::default();
        let receive = format!("as {} does", self.program);
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
        for text in self.notices {
            builder.absorb(&Event::Notice { level: Level::Info, text });
        }
        for phase in self.phases {
            let ImportedPhase { label, kind, pattern, duration_ns, ping, intervals, records, .. } = phase;
            let ImportedPhase { connections, extras, frames, mut local, mut remote, .. } = phase;
            // Other programs' receivers do not verify as receivers of this program do.
            local.receive.clone_from(&receive);
            remote.iter_mut().for_each(|remote| remote.receive.clone_from(&receive));
            // What is not known is not said: neither transfers, nor buffers.
            let (connections, transfer, buffer) = (connections.max(1), 0, Range::just(0));
            let asked = Phase { kind, pattern, connections, duration_ns, ping, ..Phase::default() };
            let phase = Phase { transfer, buffer, ..asked };
            builder.absorb(&Event::Phase { label, repeat: 1, phase: Box::new(phase) });
            if self.started.0 > 0 {
                builder.absorb(&Event::Start { at: self.started });
            }
            let intervals = intervals.into_iter().map(|interval| Event::Interval(Box::new(interval)));
            let records = records.into_iter().map(|record| Event::Connection(Box::new(record)));
            let frames = Some(frames).filter(|rows| !rows.is_empty());
            let frames = frames.map(|rows| Event::Frames { id: Uuid::nil(), rows });
            let found = intervals.chain(records).chain(frames).chain(extras.into_iter().map(Event::Extra));
            let local = Event::Local(Box::new(local));
            let remote = remote.map(|remote| Event::Remote(Box::new(remote)));
            let end = Event::PhaseEnd { status: Status::Complete, reason: None };
            found.chain([local]).chain(remote).chain([end]).for_each(|event| builder.absorb(&event));
        }
        builder.absorb(&Event::End { status: Status::Complete, reason: None });
        Ok(builder.outcome())
    }
}

/// Text from UTF-16, little-endian with a byte order mark, or UTF-8 with or without one. What is damaged is replaced.
pub fn decode(bytes: &[u8]) -> String {
    match bytes {
        [0xff, 0xfe, rest @ ..] => {
            let units: Vec<u16> =
                rest.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A JSON document, if this is one; large files of other kinds are told by their first byte.
pub fn json(bytes: &[u8]) -> Option<Value> {
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace())?;
    (*first == b'{').then(|| serde_json::from_slice(bytes).ok()).flatten()
}

/// A number, which some programs write as text.
pub fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|n| n.is_finite())
}

/// A count; what is below 0 is none.
pub fn count(value: &Value) -> u64 {
    u64::clamped(number(value).unwrap_or(0.0))
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

/// What a receiver counted of datagrams.
pub fn received(received: u64, lost: u64, reordered: u64) -> PacketReport {
    PacketReport {
        counts: Packets { received, lost: i64::clamped(lost), reordered, ..Packets::default() },
        ..PacketReport::default()
    }
}

#[cfg(test)]
mod tests;
