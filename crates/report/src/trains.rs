//! Tables of packet trains for scripts: one row per packet, one row per train.

use crate::csv::{EventCsv, Rows, or_empty};
use crate::datagrams::word;
use csv::Writer;
use metrics::{Clamped, TrainPacket};
use model::Event;
use std::io::{self, Write};

pub type PacketsCsv<W> = EventCsv<W, PacketRows>;
pub type TrainsCsv<W> = EventCsv<W, TrainRows>;

/// Rows of packets: when each was to leave, left and came, its delay, and what became of it; of one that was returned, when it
/// came back, its round trip, and what of that the remote end held it.
#[derive(Default)]
pub struct PacketRows;

impl Rows for PacketRows {
    fn header() -> String {
        "train,setting,repetition,packet,intended_ns,sent_ns,received_ns,delay_ns,stamp,\
        verdict,repeats,overtaken_by,back_ns,round_trip_ns,held_ns"
            .to_owned()
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        let Event::TrainPackets { rows } = event else { return Ok(()) };
        rows.iter().try_for_each(|packet| out.write_record(packet_row(packet)))?;
        out.flush()
    }
}

fn packet_row(packet: &TrainPacket) -> [String; 15] {
    let verdict = match (packet.sent_ns, packet.received_ns) {
        (None, _) => "unsent",
        (Some(_), None) => "lost",
        _ if packet.overtaken_by > 0 => "reordered",
        _ if packet.repeats > 0 => "duplicate",
        _ => "received",
    };
    [
        packet.train.to_string(),
        packet.setting.to_string(),
        packet.round.to_string(),
        packet.number.to_string(),
        packet.intended_ns.to_string(),
        or_empty(packet.sent_ns),
        or_empty(packet.received_ns),
        or_empty(packet.delay_ns()),
        packet.stamp.map_or("", word).to_owned(),
        verdict.to_owned(),
        packet.repeats.to_string(),
        packet.overtaken_by.to_string(),
        or_empty(packet.back_ns),
        or_empty(packet.round_trip_ns()),
        or_empty(packet.held_ns),
    ]
}

/// Rows of trains: what became of each, and its rates.
#[derive(Default)]
pub struct TrainRows;

impl Rows for TrainRows {
    fn header() -> String {
        "train,setting,wait_ns,repetition,at_ns,sent,unsent,received,lost,overtaken,repeated,\
        send_bps,receive_bps,send_ns,receive_ns,dispersion_ns,delay_min_ns,delay_mean_ns,delay_max_ns"
            .to_owned()
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        let Event::Trains(trains) = event else { return Ok(()) };
        let report = &trains.report;
        let exact = |value: Option<f64>| or_empty(value.map(|v| format!("{v:.3}")));
        for row in &report.trains {
            let wait = report.settings.get(usize::clamped(row.setting)).map(|s| s.wait_ns);
            let counts = [row.sent, row.unsent, row.received, row.lost, row.overtaken, row.repeated];
            let mut cells = vec![row.train.to_string(), row.setting.to_string(), or_empty(wait)];
            cells.extend([row.round.to_string(), row.at_ns.to_string()]);
            cells.extend(counts.map(|n| n.to_string()));
            cells.extend([exact(row.send_bps), exact(row.receive_bps)]);
            cells.extend([row.send_ns, row.receive_ns].map(|n| n.to_string()));
            cells.extend([exact(row.dispersion_ns), or_empty(row.delay_min_ns)]);
            cells.extend([exact(row.delay_mean_ns), or_empty(row.delay_max_ns)]);
            out.write_record(cells)?;
        }
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
