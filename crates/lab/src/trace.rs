//! One row per packet.

use crate::hop::MOST_HOPS;
use crate::impair::Verdict;
use crate::setup::Trace;
use metrics::{Clamped, Mono};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, SendError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// The two ways through the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Up,
    Down,
}

impl Way {
    /// `up` or `down`.
    pub fn name(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Down => "down",
        }
    }
}

/// End of a packet's time in the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Delivered.
    Left,
    /// Not forwarded, for this reason.
    Not(Verdict),
    /// The receiving device refused it.
    Refused,
    /// Still on its way at the end.
    Unfinished,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Left | Class::Not(Verdict::Forwarded | Verdict::Passed) => "left",
            Class::Not(Verdict::LostRandom) => "lost-random",
            Class::Not(Verdict::LostBurst) => "lost-burst",
            Class::Not(Verdict::LostOutage) => "lost-outage",
            Class::Not(Verdict::DroppedQueue) => "dropped-queue",
            Class::Not(Verdict::TooBig) => "too-big",
            Class::Not(Verdict::Expired) => "expired",
            Class::Not(Verdict::Overrun) => "overrun",
            Class::Refused => "refused",
            Class::Unfinished => "unfinished",
        }
    }
}

/// Routers that a packet has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ways([u8; MOST_HOPS]);

impl Ways {
    /// Notes a router: its hop and its way there, both from 0.
    pub(crate) fn set(&mut self, (hop, way): (usize, usize)) {
        if let Some(place) = self.0.get_mut(hop) {
            *place = u8::clamped(way + 1);
        }
    }

    /// The way at each hop, from that of the client: 1 and up; 0 for a hop that was not reached.
    pub fn all(&self) -> &[u8] {
        let last = self.0.iter().rposition(|way| *way > 0);
        &self.0[..last.map_or(0, |last| last + 1)]
    }
}

/// A packet, or a copy of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    pub way: Way,
    /// The how-manieth packet of the direction, from 0.
    pub index: u64,
    /// The flow, in order of appearance; `None` for one that is not listed.
    pub flow: Option<u32>,
    /// The how-manieth packet of its flow, from 0.
    pub flow_index: u64,
    /// Bytes, IP header included.
    pub length: u32,
    pub arrived: Mono,
    pub due: Mono,
    pub left: Option<Mono>,
    pub class: Class,
    /// 0 for the packet, from 1 for its copies.
    pub copy: u8,
    /// Bits flipped.
    pub flipped: u8,
    /// True if the flipped bits were left for the kernel's checksums to find.
    pub wire: bool,
    /// DSCP and ECN at its arrival.
    pub tos_in: u8,
    /// DSCP and ECN, as it left.
    pub tos_out: u8,
    /// End of a packet that did not leave, in a lab with hops: the number of the hop at which its
    /// TTL ran out, or whose link (the one towards the client) lost it. The last link has the
    /// number behind that of the last hop.
    pub hop: u8,
    /// Routers that the packet has passed.
    pub ways: Ways,
}

impl TraceRow {
    /// A packet that arrives at `at`.
    pub(crate) fn new(way: Way, length: u32, at: Mono) -> Self {
        TraceRow {
            way,
            index: 0,
            flow: None,
            flow_index: 0,
            length,
            arrived: at,
            due: at,
            left: None,
            class: Class::Unfinished,
            copy: 0,
            flipped: 0,
            wire: false,
            tos_in: 0,
            tos_out: 0,
            hop: 0,
            ways: Ways::default(),
        }
    }

    /// The delay that was applied, ns.
    pub fn delay_ns(&self) -> Option<u64> {
        self.left.map(|left| left.since(self.arrived))
    }
}

/// The heading of the file. Times are ns since the origin.
const HEADING: &str = "direction,index,flow,flow_index,length,arrived_ns,due_ns,left_ns,delay_ns,class,copy,flipped_bits,\
                       damaged,tos_in,tos_out,hop,ways";

/// Rows handed over at once.
const BATCH: usize = 512;
/// Batches that may wait for the disk; 50 MB.
const WAITING: usize = 1024;

/// Takes rows, and never makes the taker wait.
#[derive(Debug)]
pub(crate) struct Tracer {
    sink: Sink,
    batch: Vec<TraceRow>,
    lost: u64,
}

#[derive(Debug)]
enum Sink {
    Off,
    Keep(usize),
    File(SyncSender<Vec<TraceRow>>, JoinHandle<io::Result<()>>),
}

impl Tracer {
    pub(crate) fn new(trace: Trace, origin: Mono) -> io::Result<Self> {
        let sink = match trace {
            Trace::Off => Sink::Off,
            Trace::Keep(most) => Sink::Keep(most),
            Trace::File(file) => {
                let (send, receive) = sync_channel(WAITING);
                let name = std::thread::Builder::new().name("lab-trace".to_owned());
                Sink::File(send, name.spawn(move || write(file, origin, &receive))?)
            }
        };
        Ok(Tracer { sink, batch: Vec::new(), lost: 0 })
    }

    #[inline]
    pub(crate) fn row(&mut self, row: TraceRow) {
        match &self.sink {
            Sink::Off => {}
            Sink::Keep(most) if self.batch.len() < *most => self.batch.push(row),
            Sink::Keep(_) => self.lost += 1,
            Sink::File(send, _) => {
                self.batch.push(row);
                if self.batch.len() == BATCH {
                    let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
                    let sent = send.try_send(batch);
                    if let Err(TrySendError::Full(rows) | TrySendError::Disconnected(rows)) = sent {
                        self.lost += u64::clamped(rows.len());
                    }
                }
            }
        }
    }

    /// The rows kept, those lost, and what went wrong with the file.
    pub(crate) fn close(mut self) -> (Vec<TraceRow>, u64, io::Result<()>) {
        let Sink::File(send, thread) = self.sink else { return (self.batch, self.lost, Ok(())) };
        // The forwarder has ended, so writing the last rows may block.
        if let Err(SendError(rows)) = send.send(self.batch) {
            self.lost += u64::clamped(rows.len());
        }
        drop(send);
        let wrote = thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer failed")));
        (Vec::new(), self.lost, wrote)
    }
}

fn write(file: File, origin: Mono, batches: &Receiver<Vec<TraceRow>>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    writeln!(out, "{HEADING}")?;
    while let Ok(rows) = batches.recv() {
        rows.iter().try_for_each(|row| write_row(&mut out, origin, row))?;
    }
    out.flush()
}

fn write_row(out: &mut impl Write, origin: Mono, row: &TraceRow) -> io::Result<()> {
    let since = |at: Mono| at.since(origin);
    write!(out, "{},{},", row.way.name(), row.index)?;
    if let Some(flow) = row.flow {
        write!(out, "{flow},{}", row.flow_index)?;
    } else {
        write!(out, ",")?;
    }
    write!(out, ",{},{},{},", row.length, since(row.arrived), since(row.due))?;
    if let Some(left) = row.left {
        write!(out, "{},{}", since(left), left.since(row.arrived))?;
    } else {
        write!(out, ",")?;
    }
    let (class, damaged) = (row.class.name(), u8::from(row.wire && row.flipped > 0));
    write!(out, ",{class},{},{},{damaged},{},{},", row.copy, row.flipped, row.tos_in, row.tos_out)?;
    if row.hop > 0 {
        write!(out, "{}", row.hop)?;
    }
    for (at, way) in row.ways.all().iter().enumerate() {
        write!(out, "{}{way}", if at == 0 { "," } else { "/" })?;
    }
    writeln!(out, "{}", if row.ways.all().is_empty() { "," } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_long_as_their_heading() {
        let row = TraceRow {
            way: Way::Down,
            index: 3,
            flow: Some(1),
            flow_index: 2,
            length: 100,
            arrived: Mono(1_500),
            due: Mono(2_500),
            left: Some(Mono(2_600)),
            class: Class::Left,
            copy: 0,
            flipped: 2,
            wire: true,
            tos_in: 2,
            tos_out: 3,
            hop: 0,
            ways: Ways::default(),
        };
        let text = |row: &TraceRow| {
            let mut out = Vec::new();
            write_row(&mut out, Mono(1_000), row).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&row), "down,3,1,2,100,500,1500,1600,1100,left,0,2,1,2,3,,\n");
        let lost = TraceRow { left: None, flow: None, class: Class::Not(Verdict::LostBurst), ..row };
        assert_eq!(text(&lost), "down,3,,,100,500,1500,,,lost-burst,0,2,1,2,3,,\n");
        // From the server to the third of four hops, past way 2 of the fourth.
        let mut expired = TraceRow { hop: 3, class: Class::Not(Verdict::Expired), ..lost };
        expired.ways.set((3, 1));
        expired.ways.set((2, 0));
        assert_eq!(text(&expired), "down,3,,,100,500,1500,,,expired,0,2,1,2,3,3,0/0/1/2\n");
        for row in [row, lost, expired] {
            assert_eq!(text(&row).matches(',').count(), HEADING.matches(',').count());
        }
    }
}
