//! A table of frames: one row for each that a media stream's receiver has judged.

use crate::csv::{Place, Rows, spelled, titles, write_rows};
use crate::text::Column;
use csv::Writer;
use metrics::SECOND;
use model::{Event, FrameRow};
use serde_json::json;
use std::io::{self, Write};
use uuid::Uuid;

/// Rows of frames: when each was due, counted from the first; when the last of its datagrams that came was sent and received, by the
/// two hosts' clocks; how many bytes came; and what was made of that.
#[derive(Default)]
pub struct FrameRows {
    place: Place,
    /// Frames per second of the phase.
    rate: u32,
}

/// The phase's rows and what they know of it, a stream's identifier, and a frame of the stream.
type Frame<'a> = (&'a FrameRows, &'a Uuid, &'a FrameRow);

fn columns<'a>() -> [Column<Frame<'a>>; 9] {
    [
        ("label", |(rows, ..)| rows.place.label()),
        ("repeat", |(rows, ..)| rows.place.repeat()),
        ("stream", |(_, id, _)| id.to_string()),
        ("frame", |(.., row)| row.seq.to_string()),
        ("due_ns", |(rows, _, row)| {
            let before = u128::from(row.seq.saturating_sub(1));
            (before * u128::from(SECOND) / u128::from(rows.rate.max(1))).to_string()
        }),
        ("sent_ns", |(.., row)| ns(row.sender_ticks, row.sender_hz)),
        ("received_ns", |(.., row)| ns(row.receiver_ticks, row.receiver_hz)),
        ("bytes", |(.., row)| row.bytes.to_string()),
        ("verdict", |(.., row)| spelled(json!(row.verdict))),
    ]
}

impl Rows for FrameRows {
    fn header() -> String {
        titles(&columns())
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        self.place.on_event(event);
        match event {
            Event::Phase { phase, .. } => self.rate = phase.media.map_or(0, |media| media.frame_rate),
            Event::Frames { id, rows } => {
                write_rows(&columns(), rows.iter().map(|row| (&*self, id, row)), out)?;
            }
            Event::Interval(_) | Event::PhaseEnd { .. } | Event::End { .. } => out.flush()?,
            _ => {}
        }
        Ok(())
    }
}

/// Ticks of a clock of `hz` as ns; empty when the frequency is unknown.
fn ns(ticks: i64, hz: i64) -> String {
    if hz <= 0 {
        return String::new();
    }
    (i128::from(ticks) * i128::from(SECOND) / i128::from(hz)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::{EventCsv, EventWriter as _};
    use model::{FrameVerdict, Kind, Media, Phase};
    use std::collections::BTreeMap;

    #[test]
    fn a_row_per_frame() {
        let mut out = Vec::new();
        let mut csv = EventCsv::<_, FrameRows>::new(&mut out).unwrap();
        let media = Media::new(1_000_000, 50, 3, 1, 1_400).unwrap();
        let phase = Box::new(Phase { kind: Kind::Stream, media: Some(media), ..Phase::default() });
        csv.on_event(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase }).unwrap();
        let whole = FrameRow {
            seq: 3,
            verdict: FrameVerdict::Completed,
            bytes: 2_500,
            sender_ticks: 12_345,
            sender_hz: 10_000_000,
            receiver_ticks: -5,
            receiver_hz: 1_000_000_000,
        };
        let nothing = FrameRow {
            seq: 4,
            verdict: FrameVerdict::Dropped,
            bytes: 0,
            sender_hz: 0,
            receiver_hz: 0,
            ..whole
        };
        csv.on_event(&Event::Frames { id: Uuid::from_u128(7), rows: vec![whole, nothing] }).unwrap();
        drop(csv);
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "label,repeat,stream,frame,due_ns,sent_ns,received_ns,bytes,verdict");
        // Frame 3 of 50 a second is due after two frame times of 20 ms; 12,345 ticks of 100 ns.
        assert_eq!(rows[1], ",1,00000000-0000-0000-0000-000000000007,3,40000000,1234500,-5,2500,completed");
        assert_eq!(rows[2], ",1,00000000-0000-0000-0000-000000000007,4,60000000,,,0,dropped");
    }
}
