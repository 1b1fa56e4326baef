//! Tables for spreadsheets and scripts: one row per interval, per connection, per setting of a sweep.
//!
//! One header row, snake_case names that end in the unit, `.` as the decimal point, UTC in RFC 3339. A cell of text that
//! a spreadsheet would take for a formula is guarded with an apostrophe: much of that text comes from the network.

use csv::Writer;
use jiff::Timestamp;
use metrics::{SECOND, Spread, TcpInfo, Wall};
use model::{ConnectionRecord, End, Event, Interval, Measure, SweepRow, Traffic, Way};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};

/// Where in the run a row belongs: what a sweep varies, which repetition, and the wall clock at the phase's start.
#[derive(Clone, Debug, Default)]
struct Place {
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
                let pairs: Vec<String> = label.iter().map(|(k, v)| format!("{k}={v}")).collect();
                self.label = pairs.join(" ");
                self.repeat = *repeat;
            }
            _ => {}
        }
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

    /// Writes what `event` is worth.
    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()>;
}

/// A table that is written as the run goes on.
pub struct EventCsv<W: Write, R> {
    out: Writer<W>,
    rows: R,
}

impl<W: Write, R: Rows> EventCsv<W, R> {
    /// Writes the header to `out`.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(EventCsv { out: begun(out, R::header().split(','))?, rows: R::default() })
    }
}

impl<W: Write, R: Rows> EventWriter for EventCsv<W, R> {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.rows.write(event, &mut self.out)
    }
}

/// One row per interval, written out at once.
pub type StatusCsv<W> = EventCsv<W, StatusRows>;
pub type ConnectionCsv<W> = EventCsv<W, ConnectionRows>;

#[derive(Default)]
pub struct StatusRows(Place);

impl Rows for StatusRows {
    fn header() -> String {
        let measures = Measure::columns().into_iter().map(|(name, ..)| format!(",{name}"));
        "label,repeat,index,start_s,end_s,end_utc,omitted".to_owned() + &measures.collect::<String>()
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        self.0.on_event(event);
        let Event::Interval(interval) = event else { return Ok(()) };
        out.write_record(status_row(interval, &self.0))?;
        out.flush()
    }
}

fn status_row(i: &Interval, place: &Place) -> Vec<String> {
    let mut row = vec![guarded(&place.label), place.repeat.to_string(), i.index.to_string()];
    row.extend([seconds(i.start_ns), seconds(i.end_ns), place.utc(i.end_ns), i.omitted.to_string()]);
    let cell =
        |(_, measure, end): (String, Measure, End)| measure.of(i, end).map(|value| format!("{value:.0}"));
    row.extend(Measure::columns().into_iter().map(cell).map(Option::unwrap_or_default));
    row
}

/// Bytes and rate both ways.
fn traffic(t: &Traffic) -> [String; 4] {
    [t.tx_bytes.to_string(), rate(t.tx_bps()), t.rx_bytes.to_string(), rate(t.rx_bps())]
}

/// Rows of ended connections, written out at every other event (tens of thousands of connections may end in a second, and writing
/// each at once would disturb what is measured).
#[derive(Default)]
pub struct ConnectionRows(Place);

impl Rows for ConnectionRows {
    fn header() -> String {
        "label,repeat,id,ended_s,ended_utc,local,remote,tx_bytes,tx_bps,rx_bytes,rx_bps,\
        connect_s,duration_s,result,error,rtt_us,rttvar_us,min_rtt_us,retransmits,cwnd_segments,snd_mss_bytes,\
        ssthresh_segments,delivery_rate_bytes_per_s,app_limited,busy_us,rwnd_limited_us,sndbuf_limited_us,\
        bytes_sent,bytes_retrans,reord_seen,rcv_rtt_us,snd_wnd_bytes".to_owned()
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        self.0.on_event(event);
        let Event::Connection(record) = event else { return out.flush() };
        Ok(out.write_record(connection_row(record, &self.0))?)
    }
}

fn connection_row(c: &ConnectionRecord, place: &Place) -> Vec<String> {
    let traffic = Traffic { tx_bytes: c.tx_bytes, rx_bytes: c.rx_bytes, ns: c.duration_ns };
    let mut row = vec![guarded(&place.label), place.repeat.to_string(), c.id.to_string()];
    row.extend([seconds(c.ended_ns), place.utc(c.ended_ns), or_empty(c.local), c.remote.to_string()]);
    row.extend(self::traffic(&traffic));
    row.extend([c.connect_ns.map_or_else(String::new, seconds), seconds(c.duration_ns)]);
    row.extend([result(c), guarded(c.error.as_deref().unwrap_or_default())]);
    row.extend(c.tcp.as_ref().map_or_else(Default::default, tcp_cells));
    row
}

/// The ending as the JSON spells it.
fn result(c: &ConnectionRecord) -> String {
    crate::words::ending(c.result).replace(' ', "_")
}

fn tcp_cells(t: &TcpInfo) -> [String; 17] {
    [
        t.rtt_us.to_string(),
        t.rttvar_us.to_string(),
        or_empty(t.min_rtt_us),
        t.retransmits.to_string(),
        t.cwnd.to_string(),
        t.snd_mss.to_string(),
        or_empty(t.ssthresh),
        or_empty(t.delivery_rate),
        t.app_limited.to_string(),
        or_empty(t.busy_us),
        or_empty(t.rwnd_limited_us),
        or_empty(t.sndbuf_limited_us),
        or_empty(t.bytes_sent),
        or_empty(t.bytes_retrans),
        or_empty(t.reord_seen),
        t.rcv_rtt_us.to_string(),
        or_empty(t.snd_wnd),
    ]
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
    let slots = Way::ALL.into_iter().filter(|way| rows.iter().any(|row| row.slot(*way).is_some()));
    let slots: Vec<Way> = slots.collect();
    for way in &slots {
        header.extend(
            ["clock_bound_ns", "power_bps_per_s", "knee"].map(|what| format!("{}_{what}", way.key())),
        );
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

pub(crate) fn or_empty(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

/// Text that no spreadsheet takes for a formula (CWE-1236).
pub(crate) fn guarded(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() }
}
