//! Tables for spreadsheets and scripts: one row per interval, per connection, per setting of a sweep.
//!
//! One header row, snake_case names that end in the unit, `.` as the decimal point, UTC in RFC 3339. A cell of text that
//! a spreadsheet would take for a formula is guarded with an apostrophe: much of that text comes from the network.

use crate::summary::slotted;
use crate::text::Column;
use crate::words;
use csv::Writer;
use jiff::Timestamp;
use metrics::{SECOND, Spread, TcpInfo, Wall};
use model::{ConnectionRecord, End, Event, Interval, Measure, SweepRow, Traffic};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};

/// Where in the run a row belongs: what a sweep varies, which repetition, and the wall clock at the phase's start.
#[derive(Clone, Debug, Default)]
pub struct Place {
    label: String,
    repeat: u32,
    started: Option<Wall>,
}

impl Place {
    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Start { at } => self.started = Some(*at),
            Event::Phase { label, repeat, .. } => {
                self.started = None;
                self.label = words::pairs(label);
                self.repeat = *repeat;
            }
            _ => {}
        }
    }

    /// The cells of what a sweep varies and of the repetition.
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

/// What is written of a run as it goes on.
pub trait EventWriter {
    /// Takes in an event.
    fn on_event(&mut self, event: &Event) -> io::Result<()>;
}

/// The rows that a table has of a run.
pub trait Rows: Default {
    /// Names of the columns, separated by commas.
    fn header() -> String;

    /// Writes what `event`, which `place` knows already, is worth.
    fn write<W: Write>(&mut self, place: &Place, event: &Event, out: &mut Writer<W>) -> io::Result<()>;
}

/// The titles of the place and of columns, separated by commas.
pub(crate) fn titles<T>(columns: &[Column<T>]) -> String {
    let place = ["label", "repeat"].into_iter();
    place.chain(columns.iter().map(|(title, _)| *title)).collect::<Vec<_>>().join(",")
}

/// Writes a row for each of `rows`, all of one place.
pub(crate) fn write_rows<T, W: Write>(
    place: &Place,
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

/// A table that is written as the run goes on.
pub struct EventCsv<W: Write, R> {
    out: Writer<W>,
    place: Place,
    rows: R,
}

impl<W: Write, R: Rows> EventCsv<W, R> {
    /// Writes the header to `out`.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(EventCsv { out: begun(out, R::header().split(','))?, place: Place::default(), rows: R::default() })
    }
}

impl<W: Write, R: Rows> EventWriter for EventCsv<W, R> {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.place.on_event(event);
        self.rows.write(&self.place, event, &mut self.out)
    }
}

/// Rows of intervals, written out at once.
#[derive(Default)]
pub struct StatusRows;

impl Rows for StatusRows {
    fn header() -> String {
        let measures = Measure::columns().into_iter().map(|(name, ..)| format!(",{name}"));
        "label,repeat,index,start_s,end_s,end_utc,omitted".to_owned() + &measures.collect::<String>()
    }

    fn write<W: Write>(&mut self, place: &Place, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        let Event::Interval(interval) = event else { return Ok(()) };
        out.write_record(status_row(interval, place))?;
        out.flush()
    }
}

fn status_row(i: &Interval, place: &Place) -> Vec<String> {
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

/// Rows of ended connections, written out at every other event (tens of thousands of connections may end in a second, and writing
/// each at once would disturb what is measured).
#[derive(Default)]
pub struct ConnectionRows;

/// The columns of a connection, and of where in the run it ended.
fn connections<'a>() -> [Column<(&'a Place, &'a ConnectionRecord)>; 30] {
    fn tcp<T: Display>(c: &ConnectionRecord, of: fn(&TcpInfo) -> Option<T>) -> String {
        or_empty(c.tcp.as_ref().and_then(of))
    }
    fn rate_of(bytes: u64, c: &ConnectionRecord) -> String {
        rate(Traffic { tx_bytes: bytes, rx_bytes: 0, ns: c.duration_ns }.tx_bps())
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

impl Rows for ConnectionRows {
    fn header() -> String {
        titles(&connections())
    }

    fn write<W: Write>(&mut self, place: &Place, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        let Event::Connection(record) = event else { return out.flush() };
        write_rows(place, &connections(), [(place, &**record)], out)
    }
}

/// Writes the sweep CSV to `out`: one row per setting, its values in columns of their own in base units.
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
            cells.extend(row.figure(*figure).map_or_else(|| vec![String::new(); 6], spread));
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

/// A rate in whole bits per second.
fn rate(bps: f64) -> String {
    format!("{bps:.0}")
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
