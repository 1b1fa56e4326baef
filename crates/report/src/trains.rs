//! Tables of packet trains for scripts: one row per packet, one row per train.

use crate::csv::{EventCsv, Rows, or_empty, titles, write_rows};
use crate::datagrams::word;
use crate::text::Column;
use csv::Writer;
use metrics::{Clamped, TrainPacket, TrainRow};
use model::Event;
use std::io::{self, Write};

pub type PacketsCsv<W> = EventCsv<W, PacketRows>;
pub type TrainsCsv<W> = EventCsv<W, TrainRows>;

/// Rows of packets: when each was to leave, left and came, its delay, and what became of it; of one that was returned, when it
/// came back, its round trip, and what of that the remote end held it.
#[derive(Default)]
pub struct PacketRows;

const PACKETS: [Column<TrainPacket>; 15] = [
    ("train", |packet| packet.train.to_string()),
    ("setting", |packet| packet.setting.to_string()),
    ("repetition", |packet| packet.round.to_string()),
    ("packet", |packet| packet.number.to_string()),
    ("intended_ns", |packet| packet.intended_ns.to_string()),
    ("sent_ns", |packet| or_empty(packet.sent_ns)),
    ("received_ns", |packet| or_empty(packet.received_ns)),
    ("delay_ns", |packet| or_empty(packet.delay_ns())),
    ("stamp", |packet| or_empty(packet.stamp.map(word))),
    ("verdict", |packet| verdict(packet).to_owned()),
    ("repeats", |packet| packet.repeats.to_string()),
    ("overtaken_by", |packet| packet.overtaken_by.to_string()),
    ("back_ns", |packet| or_empty(packet.back_ns)),
    ("round_trip_ns", |packet| or_empty(packet.round_trip_ns())),
    ("held_ns", |packet| or_empty(packet.held_ns)),
];

impl Rows for PacketRows {
    fn header() -> String {
        titles(&PACKETS)
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        let Event::TrainPackets { rows } = event else { return Ok(()) };
        write_rows(&PACKETS, rows, out)?;
        out.flush()
    }
}

fn verdict(packet: &TrainPacket) -> &'static str {
    match (packet.sent_ns, packet.received_ns) {
        (None, _) => "unsent",
        (Some(_), None) => "lost",
        _ if packet.overtaken_by > 0 => "reordered",
        _ if packet.repeats > 0 => "duplicate",
        _ => "received",
    }
}

/// Rows of trains: what became of each, and its rates.
#[derive(Default)]
pub struct TrainRows;

/// The columns of a train and its wait.
fn trains<'a>() -> [Column<(&'a TrainRow, Option<u64>)>; 19] {
    [
        ("train", |(row, _)| row.train.to_string()),
        ("setting", |(row, _)| row.setting.to_string()),
        ("wait_ns", |(_, wait)| or_empty(*wait)),
        ("repetition", |(row, _)| row.round.to_string()),
        ("at_ns", |(row, _)| row.at_ns.to_string()),
        ("sent", |(row, _)| row.sent.to_string()),
        ("unsent", |(row, _)| row.unsent.to_string()),
        ("received", |(row, _)| row.received.to_string()),
        ("lost", |(row, _)| row.lost.to_string()),
        ("overtaken", |(row, _)| row.overtaken.to_string()),
        ("repeated", |(row, _)| row.repeated.to_string()),
        ("send_bps", |(row, _)| exact(row.send_bps)),
        ("receive_bps", |(row, _)| exact(row.receive_bps)),
        ("send_ns", |(row, _)| row.send_ns.to_string()),
        ("receive_ns", |(row, _)| row.receive_ns.to_string()),
        ("dispersion_ns", |(row, _)| exact(row.dispersion_ns)),
        ("delay_min_ns", |(row, _)| or_empty(row.delay_min_ns)),
        ("delay_mean_ns", |(row, _)| exact(row.delay_mean_ns)),
        ("delay_max_ns", |(row, _)| or_empty(row.delay_max_ns)),
    ]
}

fn exact(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.3}"))
}

impl Rows for TrainRows {
    fn header() -> String {
        titles(&trains())
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        let Event::Trains(told) = event else { return Ok(()) };
        let settings = &told.report.settings;
        let wait = |row: &TrainRow| settings.get(usize::clamped(row.setting)).map(|s| s.wait_ns);
        write_rows(&trains(), told.report.trains.iter().map(|row| (row, wait(row))), out)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::EventWriter as _;
    use metrics::{Place, StampKind};

    #[test]
    fn a_row_per_packet_with_its_verdict() {
        let place = Place { train: 1, setting: 0, round: 1, number: 3, intended_ns: 500 };
        let packet = TrainPacket::at(place);
        let sent = TrainPacket { sent_ns: Some(510), ..packet };
        let stamp = Some(StampKind::KernelRx);
        let came = TrainPacket { received_ns: Some(400), stamp, ..sent };
        let mut bytes = Vec::new();
        let mut out = PacketsCsv::new(&mut bytes).unwrap();
        let rows = vec![
            packet,
            sent,
            came,
            TrainPacket { overtaken_by: 2, stamp: Some(StampKind::Hardware), ..came },
            TrainPacket { repeats: 1, stamp: Some(StampKind::User), ..came },
            TrainPacket { back_ns: Some(900), held_ns: Some(50), ..came },
        ];
        out.on_event(&Event::TrainPackets { rows }).unwrap();
        drop(out);
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "1,0,1,3,500,,,,,unsent,0,0,,,",
                "1,0,1,3,500,510,,,,lost,0,0,,,",
                "1,0,1,3,500,510,400,-110,kernel,received,0,0,,,",
                "1,0,1,3,500,510,400,-110,hardware,reordered,0,2,,,",
                "1,0,1,3,500,510,400,-110,user,duplicate,1,0,,,",
                "1,0,1,3,500,510,400,-110,kernel,received,0,0,900,390,50",
            ]
        );
    }
}
