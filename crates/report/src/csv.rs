//! Tables for spreadsheets and scripts: one row per interval, per connection, per setting of a
//! sweep.
//!
//! One header row, snake_case names that end in the unit, `.` as the decimal point, UTC in RFC
//! 3339. A cell of text that a spreadsheet would take for a formula is guarded with an apostrophe:
//!       much of that text is from the network.

use crate::rows::{DATAGRAMS, FRAMES, PACKETS, SAMPLES, TRAINS};
use crate::summary::slotted;
use crate::text::Column;
use crate::words;
use csv::Writer;
use jiff::Timestamp;
use metrics::{Clamped, SECOND, Spread, TcpInfo, TrainRow, Wall};
use model::{ConnectionRecord, Echo, End, Event, Interval, Measure, PingRow, SweepRow, Traffic};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};

/// Place of a row in the run: the sweep's setting, the repetition, and the wall clock at the
/// phase's start.
#[derive(Default)]
struct RowContext {
    label: String,
    repeat: u32,
    /// Frames per second of the phase.
    frame_rate: u32,
    started: Option<Wall>,
}

impl RowContext {
    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Start { at } => self.started = Some(*at),
            Event::Phase { label, repeat, phase } => {
                self.started = None;
                self.label = words::pairs(label);
                self.repeat = *repeat;
                self.frame_rate = phase.media.map_or(0, |media| media.frame_rate);
            }
            _ => {}
        }
    }

    /// The cells of the sweep's setting and of the repetition.
    fn cells(&self) -> [String; 2] {
        [guarded(&self.label), self.repeat.to_string()]
    }

    /// The wall time `ns` after the start; empty when the start is not known.
    fn utc(&self, ns: u64) -> String {
        let at = self.started.map(|wall| i128::from(wall.0) + i128::from(ns));
        let stamp = at.and_then(|ns| Timestamp::from_nanosecond(ns).ok());
        stamp.map_or_else(String::new, |t| format!("{t:.6}"))
    }
}

/// Writes a run as it goes on.
pub trait EventWriter {
    /// Takes in an event.
    fn on_event(&mut self, event: &Event) -> io::Result<()>;
}

/// Subject of a table's rows.
#[derive(Clone, Copy, Debug)]
pub enum Rows {
    /// Intervals, written out at once.
    Status,
    /// Ended connections, written out at every other event (tens of thousands of connections may
    /// end in a second, and writing each at once would disturb the measurement).
    Connections,
    /// Datagrams: place, departure, arrival, and verdict. Times are ns after the start by the
    /// client's clock.
    Datagrams,
    /// Packets of trains: due time, departure, arrival, delay, and outcome; of a returned one also
    /// the return, its round trip, and the remote end's part of that.
    Packets,
    /// Trains: what became of each, and its rates.
    Trains,
    /// Frames: due time, counted from the first; departure and arrival of the last datagram that
    /// arrived, by the two hosts' clocks; received bytes; and the verdict.
    Frames,
    /// Messages. Missing ones are written at the end of their phase, because until then they may
    /// still arrive.
    Samples,
}

impl Rows {
    /// Names of the columns, separated by commas.
    fn header(self) -> String {
        match self {
            Rows::Status => {
                let measures = Measure::columns().into_iter().map(|(name, ..)| format!(",{name}"));
                "label,repeat,index,start_s,end_s,end_utc,omitted".to_owned() + &measures.collect::<String>()
            }
            Rows::Connections => titles(&connections()),
            Rows::Datagrams => titles(&DATAGRAMS),
            Rows::Packets => titles(&PACKETS),
            Rows::Trains => titles(&TRAINS),
            Rows::Frames => titles(&FRAMES),
            Rows::Samples => titles(&SAMPLES),
        }
    }
}

/// The titles of the place and of columns, separated by commas.
fn titles<T>(columns: &[Column<T>]) -> String {
    let place = ["label", "repeat"].into_iter();
    place.chain(columns.iter().map(|(title, _)| *title)).collect::<Vec<_>>().join(",")
}

/// Writes a row for each of `rows`, all of one place.
fn write_rows<T, W: Write>(
    place: &RowContext,
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = impl Borrow<T>>,
    out: &mut Writer<W>,
) -> io::Result<()> {
    for row in rows {
        let cells = columns.iter().map(|(_, cell)| cell(row.borrow()));
        out.write_record(place.cells().into_iter().chain(cells))?;
    }
    Ok(())
}

/// Missing messages that are remembered until the end, because they may be late.
const MAX_MISSING: usize = 1 << 20;

/// A table that is written as the run goes on.
pub struct EventCsv<W: Write> {
    out: Writer<W>,
    of: Rows,
    place: RowContext,
    missing: BTreeMap<(u32, u64), PingRow>,
}

impl<W: Write> EventCsv<W> {
    /// Writes the header of a table of these rows to `out`.
    pub fn new(out: W, of: Rows) -> io::Result<Self> {
        let out = begun(out, of.header().split(','))?;
        Ok(EventCsv { out, of, place: RowContext::default(), missing: BTreeMap::new() })
    }

    /// Rows of messages that may be repeated.
    fn messages(&mut self, rows: &[PingRow]) -> io::Result<()> {
        for row in rows {
            let key = (row.slot, row.seq);
            match row.echo {
                Echo::Missing if self.missing.len() < MAX_MISSING => {
                    self.missing.insert(key, *row);
                    continue;
                }
                Echo::Late | Echo::Damaged => drop(self.missing.remove(&key)),
                Echo::Missing | Echo::InTime => {}
            }
            write_rows(&self.place, &SAMPLES, [row], &mut self.out)?;
        }
        Ok(())
    }
}

impl<W: Write> EventWriter for EventCsv<W> {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.place.on_event(event);
        let (place, out) = (&self.place, &mut self.out);
        match (self.of, event) {
            (Rows::Status, Event::Interval(interval)) => out.write_record(status_row(interval, place))?,
            (Rows::Connections, Event::Connection(record)) => {
                return write_rows(place, &connections(), [(place, &**record)], out);
            }
            (Rows::Datagrams, Event::Packets { rows }) => write_rows(place, &DATAGRAMS, rows, out)?,
            (Rows::Packets, Event::TrainPackets { rows }) => write_rows(place, &PACKETS, rows, out)?,
            (Rows::Trains, Event::Trains(told)) => {
                let settings = &told.report.settings;
                let wait = |row: &TrainRow| settings.get(usize::clamped(row.setting)).map(|s| s.wait_ns);
                write_rows(place, &TRAINS, told.report.trains.iter().map(|row| (*row, wait(row))), out)?;
            }
            (Rows::Frames, Event::Frames { id, rows }) => {
                return write_rows(place, &FRAMES, rows.iter().map(|row| (place.frame_rate, *id, *row)), out);
            }
            (Rows::Samples, Event::Pings { rows }) => return self.messages(rows),
            (Rows::Samples, Event::PhaseEnd { .. } | Event::End { .. }) => {
                write_rows(place, &SAMPLES, std::mem::take(&mut self.missing).values(), out)?;
            }
            (Rows::Connections, _)
            | (Rows::Frames, Event::Interval(_) | Event::PhaseEnd { .. } | Event::End { .. }) => {}
            _ => return Ok(()),
        }
        out.flush()
    }
}

fn status_row(i: &Interval, place: &RowContext) -> Vec<String> {
    let mut row = Vec::from(place.cells());
    row.extend([
        i.index.to_string(),
        seconds(i.start_ns),
        seconds(i.end_ns),
        place.utc(i.end_ns),
        i.omitted.to_string(),
    ]);
    let cell =
        |(_, measure, end): (String, Measure, End)| measure.of(i, end).map(|value| format!("{value:.0}"));
    row.extend(Measure::columns().into_iter().map(cell).map(Option::unwrap_or_default));
    row
}

/// The columns of a connection, and of where in the run it ended.
fn connections<'a>() -> [Column<(&'a RowContext, &'a ConnectionRecord)>; 30] {
    fn tcp<T: Display>(c: &ConnectionRecord, of: fn(&TcpInfo) -> Option<T>) -> String {
        or_empty(c.tcp.as_ref().and_then(of))
    }
    fn rate_of(bytes: u64, c: &ConnectionRecord) -> String {
        format!(
            "{:.0}",
            Traffic { tx_bytes: bytes, rx_bytes: 0, ns: c.duration_ns, ..Traffic::default() }.tx_bps()
        )
    }
    [
        ("id", |(_, c)| c.id.to_string()),
        ("ended_s", |(_, c)| seconds(c.ended_ns)),
        ("ended_utc", |(place, c)| place.utc(c.ended_ns)),
        ("local", |(_, c)| or_empty(c.local)),
        ("remote", |(_, c)| c.remote.to_string()),
        ("tx_bytes", |(_, c)| c.tx_bytes.to_string()),
        ("tx_bps", |(_, c)| rate_of(c.tx_bytes, c)),
        ("rx_bytes", |(_, c)| c.rx_bytes.to_string()),
        ("rx_bps", |(_, c)| rate_of(c.rx_bytes, c)),
        ("connect_s", |(_, c)| c.connect_ns.map_or_else(String::new, seconds)),
        ("duration_s", |(_, c)| seconds(c.duration_ns)),
        ("result", |(_, c)| spelled(json!(c.result))),
        ("error", |(_, c)| guarded(c.error.as_deref().unwrap_or_default())),
        ("rtt_us", |(_, c)| tcp(c, |t| Some(t.rtt_us))),
        ("rttvar_us", |(_, c)| tcp(c, |t| Some(t.rttvar_us))),
        ("min_rtt_us", |(_, c)| tcp(c, |t| t.min_rtt_us)),
        ("retransmits", |(_, c)| tcp(c, |t| Some(t.retransmits))),
        ("cwnd_segments", |(_, c)| tcp(c, |t| Some(t.cwnd))),
        ("snd_mss_bytes", |(_, c)| tcp(c, |t| Some(t.snd_mss))),
        ("ssthresh_segments", |(_, c)| tcp(c, |t| t.ssthresh)),
        ("delivery_rate_bytes_per_s", |(_, c)| tcp(c, |t| t.delivery_rate)),
        ("app_limited", |(_, c)| tcp(c, |t| Some(t.app_limited))),
        ("busy_us", |(_, c)| tcp(c, |t| t.busy_us)),
        ("rwnd_limited_us", |(_, c)| tcp(c, |t| t.rwnd_limited_us)),
        ("sndbuf_limited_us", |(_, c)| tcp(c, |t| t.sndbuf_limited_us)),
        ("bytes_sent", |(_, c)| tcp(c, |t| t.bytes_sent)),
        ("bytes_retrans", |(_, c)| tcp(c, |t| t.bytes_retrans)),
        ("reord_seen", |(_, c)| tcp(c, |t| t.reord_seen)),
        ("rcv_rtt_us", |(_, c)| tcp(c, |t| Some(t.rcv_rtt_us))),
        ("snd_wnd_bytes", |(_, c)| tcp(c, |t| t.snd_wnd)),
    ]
}

/// Writes the sweep CSV to `out`: one row per setting, its values in columns of their own in base
/// units.
pub fn write_sweep_csv(rows: &[SweepRow], out: &mut dyn Write) -> io::Result<()> {
    let figures = SweepRow::known(rows);
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.label.keys()).collect();
    let mut header: Vec<String> = names.iter().map(|name| guarded(name)).collect();
    for figure in &figures {
        let (name, unit) = (figure.key(), figure.unit().name());
        header.push(format!("{name}_runs"));
        header.extend(["mean", "sd", "min", "max", "ci95"].map(|what| format!("{name}_{what}_{unit}")));
    }
    header.push("errors".to_owned());
    let slots = slotted(rows);
    for way in &slots {
        let own = ["clock_bound_ns", "power_bps_per_s", "knee"];
        header.extend(own.map(|what| format!("{}_{what}", way.key())));
    }
    let mut table = begun(out, header)?;
    for row in rows {
        let value = |name: &&String| row.label.get(*name).map_or_else(String::new, |v| guarded(v));
        let mut cells: Vec<String> = names.iter().map(value).collect();
        for figure in &figures {
            let spread = |s: Spread| -> Vec<String> {
                let values = [s.mean, s.sd, s.min, s.max, s.ci95].map(|value| value.to_string());
                std::iter::once(s.n.to_string()).chain(values).collect()
            };
            cells.extend(
                row.figures.get(&figure.key()).copied().map_or_else(|| vec![String::new(); 6], spread),
            );
        }
        cells.push(row.errors.to_string());
        for way in &slots {
            cells.extend(row.slot(*way).map_or_else(Default::default, |slot| {
                [or_empty(slot.clock_bound_ns), or_empty(slot.power), slot.knee.to_string()]
            }));
        }
        table.write_record(cells)?;
    }
    table.flush()
}

/// A table whose header is written.
pub(crate) fn begun<W: Write, S: AsRef<[u8]>>(
    out: W,
    header: impl IntoIterator<Item = S>,
) -> io::Result<Writer<W>> {
    let mut table = Writer::from_writer(out);
    table.write_record(header)?;
    table.flush()?;
    Ok(table)
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / SECOND, ns % SECOND)
}

/// A value as the JSON spells it.
pub(crate) fn spelled(value: Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn or_empty(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

/// Text that no spreadsheet takes for a formula (CWE-1236).
pub(crate) fn guarded(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() }
}
