//! ctsTraffic's own tables, read back: status, connections, jitter, TCP info; of the original
//! (UTF-16) and of this program.

mod join;
mod show;

use super::connection::{JITTER_CSV, TCP_INFO_CSV};
use super::line::layout;
use super::spec::Transport;
use compat::NamedFile;
use compat::file::decode;
use metrics::FrameStamps;
use std::str::FromStr;

/// Beginnings of headers.
const FIRST: [char; 2] = ['T', 'S'];
/// Larger numbers are no counts, and longer times, s, no run has.
const MOST: u64 = 1_000_000_000_000_000_000;
const LONGEST_S: f64 = 1e9;
/// Rows kept of one file.
const MOST_ROWS: usize = 5_000_000;

/// True of a line that heads a table.
pub(super) fn heads(line: &str) -> bool {
    Shape::of(line).is_some()
}

/// True if a file is one of ctsTraffic's tables: its first line, and no other one, is a header of
/// theirs.
pub(crate) fn is_table(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(2048)];
    heads(decode(start).lines().next().unwrap_or_default())
        && decode(bytes).lines().skip(1).all(|line| !line.starts_with(FIRST) || !heads(line))
}

/// Reports on tables: each by itself, and the connection tables of several hosts joined by the
/// connections' identifiers.
///
/// # Errors
/// When a file is no such table: one sentence.
pub(crate) fn report(files: &[NamedFile]) -> Result<String, String> {
    let tables: Vec<(&str, CsvTable)> = files.iter().map(one).collect::<Result<_, _>>()?;
    let mut lines = Vec::new();
    for (name, table) in &tables {
        show::table(name, table, &mut lines);
        lines.push(String::new());
    }
    let connections: Vec<(&str, &Connections)> = tables
        .iter()
        .filter_map(|(name, table)| match table {
            CsvTable::Connections(c) => Some((*name, c)),
            _ => None,
        })
        .collect();
    if connections.len() > 1 {
        join::report(&connections, &mut lines);
    }
    Ok(lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect())
}

fn one(file: &NamedFile) -> Result<(&str, CsvTable), String> {
    let name = file.name.as_str();
    let table =
        CsvTable::read(&file.bytes).ok_or_else(|| format!("{name} is none of ctsTraffic's tables"))?;
    Ok((name, table))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Status(Transport),
    Connections(Transport),
    Jitter,
    TcpInfo,
}

impl Shape {
    pub(super) fn of(header: &str) -> Option<Shape> {
        let header = header.trim();
        let both = [Transport::Tcp, Transport::Udp];
        let status = both.into_iter().map(|t| (layout(t).status_csv, Shape::Status(t)));
        let connections = both.into_iter().map(|t| (layout(t).connection_csv, Shape::Connections(t)));
        let single = [(JITTER_CSV, Shape::Jitter), (TCP_INFO_CSV, Shape::TcpInfo)];
        status.chain(connections).chain(single).find(|(known, _)| *known == header).map(|(_, shape)| shape)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) at_s: f64,
    /// TCP: bytes/s sent and received, connections in flight, completed, in network error, in data
    /// error. UDP: bits/s received, streams, frames completed, dropped, repeated, in error.
    pub(super) numbers: [u64; 6],
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConnectionLine {
    pub(super) at_s: f64,
    pub(super) local: String,
    pub(super) remote: String,
    /// TCP: bytes sent, bytes/s sent, bytes received, bytes/s received, ms. UDP: bits/s received,
    /// frames completed, dropped, repeated, in error.
    pub(super) numbers: [u64; 5],
    pub(super) result: String,
    /// Empty when the connection had none.
    pub(super) id: String,
}

impl ConnectionLine {
    pub(super) fn succeeded(&self) -> bool {
        self.result == "Succeeded"
    }

    /// The remote address without its port.
    pub(super) fn remote_host(&self) -> &str {
        match self.remote.rsplit_once(':') {
            Some((host, _)) if !host.is_empty() => host,
            _ if self.remote.is_empty() => "(not known)",
            _ => &self.remote,
        }
    }
}

/// The rows of a connection table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Connections {
    pub(super) transport: Transport,
    pub(super) rows: Vec<ConnectionLine>,
    pub(super) damaged: u64,
}

/// A row of the jitter table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) seq: i64,
    /// All 0 for a dropped frame.
    pub(super) stamps: FrameStamps,
    pub(super) flight_ms: f64,
    pub(super) jitter_ms: f64,
}

impl Frame {
    pub(super) fn dropped(&self) -> bool {
        self.stamps == FrameStamps::default()
    }
}

/// A row of the TCP-info table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TcpInfo {
    pub(super) at_s: f64,
    /// Sent, its rate, received, its rate, ms.
    pub(super) moved: [u64; 5],
    pub(super) remote: String,
    /// From `BytesReordered` on; an empty cell is `None`.
    pub(super) numbers: [Option<u64>; 11],
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CsvTable {
    Status {
        transport: Transport,
        rows: Vec<Slice>,
        /// Its first rate means nothing: the original divides by the time since its host was
        /// started.
        first_is_void: bool,
        damaged: u64,
    },
    Connections(Connections),
    Jitter {
        rows: Vec<Frame>,
        undone: bool,
        damaged: u64,
    },
    TcpInfo {
        rows: Vec<TcpInfo>,
        damaged: u64,
    },
}

impl CsvTable {
    /// The table in `bytes`; `None` when there is none.
    pub(super) fn read(bytes: &[u8]) -> Option<CsvTable> {
        let text = decode(bytes);
        let mut lines = text.lines();
        let shape = Shape::of(lines.next()?)?;
        let lines = lines.filter(|l| !l.trim().is_empty()).take(MOST_ROWS);
        Some(match shape {
            Shape::Status(transport) => {
                let (rows, damaged) = each(lines, slice);
                // Ours is right, and UTF-8 unless asked otherwise.
                let first_is_void = bytes.starts_with(&[0xff, 0xfe]);
                CsvTable::Status { transport, rows, first_is_void, damaged }
            }
            Shape::Connections(transport) => {
                let (rows, damaged) = each(lines, ended);
                CsvTable::Connections(Connections { transport, rows, damaged })
            }
            Shape::Jitter => {
                let (mut rows, damaged) = each(lines, frame);
                let undone = undo(&mut rows);
                CsvTable::Jitter { rows, undone, damaged }
            }
            Shape::TcpInfo => {
                let (rows, damaged) = each(lines, tcp_info);
                CsvTable::TcpInfo { rows, damaged }
            }
        })
    }
}

impl CsvTable {
    /// True of a header without rows.
    pub(super) fn is_empty(&self) -> bool {
        let rows = match self {
            CsvTable::Status { rows, .. } => rows.len(),
            CsvTable::Jitter { rows, .. } => rows.len(),
            CsvTable::TcpInfo { rows, .. } => rows.len(),
            CsvTable::Connections(table) => table.rows.len(),
        };
        rows == 0 && self.damaged() == 0
    }

    /// Rows that could not be read.
    pub(super) fn damaged(&self) -> u64 {
        match self {
            CsvTable::Status { damaged, .. }
            | CsvTable::Jitter { damaged, .. }
            | CsvTable::TcpInfo { damaged, .. } => *damaged,
            CsvTable::Connections(table) => table.damaged,
        }
    }
}

/// All rows that can be read, and how many cannot (a crash may have cut the last).
fn each<'a, T>(lines: impl Iterator<Item = &'a str>, read: fn(&[&str]) -> Option<T>) -> (Vec<T>, u64) {
    let (mut rows, mut damaged) = (Vec::new(), 0);
    for line in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        match read(&cells) {
            Some(row) => rows.push(row),
            None => damaged += 1,
        }
    }
    (rows, damaged)
}

/// A time of day of the run; the original leaves it out from a million seconds on.
fn time(cell: &str) -> Option<f64> {
    difference(cell).filter(|t| t.is_nan() || *t >= 0.0)
}

/// A difference of times, which may be below 0.
fn difference(cell: &str) -> Option<f64> {
    if cell.is_empty() { Some(f64::NAN) } else { cell.parse().ok().filter(|t: &f64| t.abs() <= LONGEST_S) }
}

/// Counts that a run can have.
fn counts<const N: usize>(cells: &[&str]) -> Option<[u64; N]> {
    numbers(cells).filter(|all: &[u64; N]| all.iter().all(|n| *n < MOST))
}

fn numbers<T: FromStr, const N: usize>(cells: &[&str]) -> Option<[T; N]> {
    let all: Vec<T> = cells.iter().map(|cell| cell.parse().ok()).collect::<Option<_>>()?;
    all.try_into().ok()
}

fn slice(cells: &[&str]) -> Option<Slice> {
    let (at, rest) = cells.split_first()?;
    Some(Slice { at_s: time(at)?, numbers: counts(rest)? })
}

fn ended(cells: &[&str]) -> Option<ConnectionLine> {
    let [at, local, remote, a, b, c, d, e, result, id] = cells else { return None };
    let nil = id.bytes().all(|b| b == b'0' || b == b'-');
    Some(ConnectionLine {
        at_s: time(at)?,
        local: (*local).to_owned(),
        remote: (*remote).to_owned(),
        numbers: counts(&[a, b, c, d, e])?,
        result: (*result).to_owned(),
        id: if nil { String::new() } else { id.to_ascii_lowercase() },
    })
}

fn frame(cells: &[&str]) -> Option<Frame> {
    let [seq, a, b, c, d, flight, jitter] = cells else { return None };
    let [sender_ticks, sender_hz, receiver_ticks, receiver_hz] = numbers(&[a, b, c, d])?;
    Some(Frame {
        seq: seq.parse().ok()?,
        stamps: FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz },
        flight_ms: difference(flight)?,
        jitter_ms: difference(jitter)?,
    })
}

fn tcp_info(cells: &[&str]) -> Option<TcpInfo> {
    // The form for older systems ends three columns earlier.
    if cells.len() != 20 && cells.len() != 17 {
        return None;
    }
    let mut numbers = [None; 11];
    for (number, cell) in numbers.iter_mut().zip(&cells[9..]) {
        if !cell.is_empty() {
            *number = Some(cell.parse().ok().filter(|n| *n < MOST)?);
        }
    }
    Some(TcpInfo {
        at_s: time(cells[0])?,
        moved: counts(&cells[4..9])?,
        remote: cells[2].to_owned(),
        numbers,
    })
}

/// Undoes the multiplication of the sender's stamps, if there was one in every row; whether there
/// was.
fn undo(rows: &mut [Frame]) -> bool {
    let mut whole = rows.iter().filter(|row| !row.dropped()).peekable();
    let shifted = whole.peek().is_some() && whole.all(|row| row.stamps.looks_misread());
    if shifted {
        rows.iter_mut().for_each(|row| row.stamps = row.stamps.from_misread());
    }
    shifted
}

#[cfg(test)]
mod tests;
