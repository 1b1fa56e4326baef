//! Tables of packet trains for scripts: one row per packet, one row per train.

use crate::csv::{Place, Rows, or_empty, titles, write_rows};
use crate::datagrams::word;
use crate::text::Column;
use csv::Writer;
use metrics::{Clamped, TrainPacket, TrainRow};
use model::Event;
use std::io::{self, Write};

/// Rows of packets: when each was to leave, left and came, its delay, and what became of it; of one that was returned, when it
/// came back, its round trip, and what of that the remote end held it.
#[derive(Default)]
pub struct PacketRows(Place);

/// The columns of a packet, and of where in the run it was sent.
fn packets<'a>() -> [Column<(&'a Place, &'a TrainPacket)>; 17] {
    [
        ("label", |(place, _)| place.label()),
        ("repeat", |(place, _)| place.repeat()),
        ("train", |(_, packet)| packet.train.to_string()),
        ("setting", |(_, packet)| packet.setting.to_string()),
        ("repetition", |(_, packet)| packet.round.to_string()),
        ("packet", |(_, packet)| packet.number.to_string()),
        ("intended_ns", |(_, packet)| packet.intended_ns.to_string()),
        ("sent_ns", |(_, packet)| or_empty(packet.sent_ns)),
        ("received_ns", |(_, packet)| or_empty(packet.received_ns)),
        ("delay_ns", |(_, packet)| or_empty(packet.delay_ns())),
        ("stamp", |(_, packet)| or_empty(packet.stamp.map(word))),
        ("verdict", |(_, packet)| verdict(packet).to_owned()),
        ("repeats", |(_, packet)| packet.repeats.to_string()),
        ("overtaken_by", |(_, packet)| packet.overtaken_by.to_string()),
        ("back_ns", |(_, packet)| or_empty(packet.back_ns)),
        ("round_trip_ns", |(_, packet)| or_empty(packet.round_trip_ns())),
        ("held_ns", |(_, packet)| or_empty(packet.held_ns)),
    ]
}

impl Rows for PacketRows {
    fn header() -> String {
        titles(&packets())
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        self.0.on_event(event);
        let Event::TrainPackets { rows } = event else { return Ok(()) };
        write_rows(&packets(), rows.iter().map(|row| (&self.0, row)), out)?;
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
pub struct TrainRows(Place);

/// The columns of a train and its wait, and of where in the run it was sent.
fn trains<'a>() -> [Column<(&'a Place, &'a TrainRow, Option<u64>)>; 21] {
    [
        ("label", |(place, ..)| place.label()),
        ("repeat", |(place, ..)| place.repeat()),
        ("train", |(_, row, _)| row.train.to_string()),
        ("setting", |(_, row, _)| row.setting.to_string()),
        ("wait_ns", |(.., wait)| or_empty(*wait)),
        ("repetition", |(_, row, _)| row.round.to_string()),
        ("at_ns", |(_, row, _)| row.at_ns.to_string()),
        ("sent", |(_, row, _)| row.sent.to_string()),
        ("unsent", |(_, row, _)| row.unsent.to_string()),
        ("received", |(_, row, _)| row.received.to_string()),
        ("lost", |(_, row, _)| row.lost.to_string()),
        ("overtaken", |(_, row, _)| row.overtaken.to_string()),
        ("repeated", |(_, row, _)| row.repeated.to_string()),
        ("send_bps", |(_, row, _)| exact(row.send_bps)),
        ("receive_bps", |(_, row, _)| exact(row.receive_bps)),
        ("send_ns", |(_, row, _)| row.send_ns.to_string()),
        ("receive_ns", |(_, row, _)| row.receive_ns.to_string()),
        ("dispersion_ns", |(_, row, _)| exact(row.dispersion_ns)),
        ("delay_min_ns", |(_, row, _)| or_empty(row.delay_min_ns)),
        ("delay_mean_ns", |(_, row, _)| exact(row.delay_mean_ns)),
        ("delay_max_ns", |(_, row, _)| or_empty(row.delay_max_ns)),
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
        self.0.on_event(event);
        let Event::Trains(told) = event else { return Ok(()) };
        let settings = &told.report.settings;
        let wait = |row: &TrainRow| settings.get(usize::clamped(row.setting)).map(|s| s.wait_ns);
        write_rows(&trains(), told.report.trains.iter().map(|row| (&self.0, row, wait(row))), out)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::{EventCsv, EventWriter as _};
    use metrics::StampKind;
    use std::collections::BTreeMap;

    #[test]
    fn a_row_per_packet_with_its_verdict() {
        let place = metrics::Place { train: 1, setting: 0, round: 1, number: 3, intended_ns: 500 };
        let packet = TrainPacket::at(place);
        let sent = TrainPacket { sent_ns: Some(510), ..packet };
        let stamp = Some(StampKind::KernelRx);
        let came = TrainPacket { received_ns: Some(400), stamp, ..sent };
        let mut bytes = Vec::new();
        let mut out = EventCsv::<_, PacketRows>::new(&mut bytes).unwrap();
        let label = BTreeMap::from([("size".to_owned(), "64".to_owned())]);
        out.on_event(&Event::Phase { label, repeat: 2, phase: Box::default() }).unwrap();
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
                "size=64,2,1,0,1,3,500,,,,,unsent,0,0,,,",
                "size=64,2,1,0,1,3,500,510,,,,lost,0,0,,,",
                "size=64,2,1,0,1,3,500,510,400,-110,kernel,received,0,0,,,",
                "size=64,2,1,0,1,3,500,510,400,-110,hardware,reordered,0,2,,,",
                "size=64,2,1,0,1,3,500,510,400,-110,user,duplicate,1,0,,,",
                "size=64,2,1,0,1,3,500,510,400,-110,kernel,received,0,0,900,390,50",
            ]
        );
    }
}
