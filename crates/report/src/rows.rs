//! Columns of the tables with a row for each datagram, packet of a train, train, frame of a media
//! stream, and message.

use crate::csv::{or_empty, spelled};
use crate::text::Column;
use metrics::{SECOND, StampKind, TrainPacket, TrainRow};
use model::{Echo, FrameRow, PacketRow, PingRow};
use serde_json::json;
use uuid::Uuid;

pub(crate) const DATAGRAMS: [Column<PacketRow>; 11] = [
    ("flow", |row| row.flow.to_string()),
    ("direction", |row| if row.up { "up" } else { "down" }.to_owned()),
    ("sequence", |row| row.sequence.to_string()),
    ("intended_ns", |row| row.intended_ns.to_string()),
    ("sent_ns", |row| row.sent_ns.to_string()),
    ("received_ns", |row| or_empty(row.received_ns)),
    ("delay_ns", |row| or_empty(row.delay_ns)),
    ("stamp", |row| or_empty(row.stamp.map(word))),
    ("verdict", |row| spelled(json!(row.verdict))),
    ("repeats", |row| row.repeats.to_string()),
    ("sent_stamp", |row| word(row.sent_stamp).to_owned()),
];

/// Source of a datagram's timestamp.
fn word(stamp: StampKind) -> &'static str {
    match stamp {
        StampKind::User => "user",
        StampKind::KernelRx | StampKind::KernelTx => "kernel",
        StampKind::Hardware => "hardware",
    }
}

pub(crate) const PACKETS: [Column<TrainPacket>; 15] = [
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

fn verdict(packet: &TrainPacket) -> &'static str {
    match (packet.sent_ns, packet.received_ns) {
        (None, _) => "unsent",
        (Some(_), None) => "lost",
        _ if packet.overtaken_by > 0 => "reordered",
        _ if packet.repeats > 0 => "duplicate",
        _ => "received",
    }
}

/// The columns of a train and its wait.
pub(crate) const TRAINS: [Column<(TrainRow, Option<u64>)>; 19] = [
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
];

fn exact(value: Option<f64>) -> String {
    or_empty(value.map(|value| format!("{value:.3}")))
}

/// Frames per second, a stream's identifier, and a frame of the stream.
type Frame = (u32, Uuid, FrameRow);

pub(crate) const FRAMES: [Column<Frame>; 7] = [
    ("stream", |(_, id, _)| id.to_string()),
    ("frame", |(.., row)| row.seq.to_string()),
    ("due_ns", |(rate, _, row)| {
        let before = u128::from(row.seq.saturating_sub(1));
        (before * u128::from(SECOND) / u128::from((*rate).max(1))).to_string()
    }),
    ("sent_ns", |(.., row)| ns(row.sender_ticks, row.sender_hz)),
    ("received_ns", |(.., row)| ns(row.receiver_ticks, row.receiver_hz)),
    ("bytes", |(.., row)| row.bytes.to_string()),
    ("verdict", |(.., row)| spelled(json!(row.verdict))),
];

/// Ticks of a clock of `hz` as ns; empty when the frequency is unknown.
fn ns(ticks: i64, hz: i64) -> String {
    if hz <= 0 {
        return String::new();
    }
    (i128::from(ticks) * i128::from(SECOND) / i128::from(hz)).to_string()
}

pub(crate) const SAMPLES: [Column<PingRow>; 7] = [
    ("connection", |row| row.slot.to_string()),
    ("message", |row| row.seq.to_string()),
    ("intended_ns", |row| row.intended_ns.to_string()),
    ("sent_ns", |row| row.sent_ns.to_string()),
    ("rtt_ns", |row| or_empty(row.rtt_ns)),
    ("remote_ns", |row| or_empty(row.remote_ns)),
    ("echo", |row| match row.echo {
        Echo::Missing => "lost".to_owned(),
        known => spelled(json!(known)),
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::{EventCsv, EventWriter as _, Rows};
    use metrics::Verdict;
    use model::{Event, FrameVerdict, Kind, Media, Phase, Status};

    /// Header and rows that a table has of these events of a phase.
    fn lines(of: Rows, size: Option<&str>, repeat: u32, phase: Phase, events: Vec<Event>) -> Vec<String> {
        let mut bytes = Vec::new();
        let mut csv = EventCsv::new(&mut bytes, of).unwrap();
        let label = size.map(|size| ("size".to_owned(), size.to_owned())).into_iter().collect();
        csv.on_event(&Event::Phase { label, repeat, phase: Box::new(phase) }).unwrap();
        events.iter().for_each(|event| csv.on_event(event).unwrap());
        drop(csv);
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_row_per_datagram() {
        let came = PacketRow {
            flow: 2,
            up: true,
            sequence: 7,
            intended_ns: 100,
            sent_ns: 110,
            sent_stamp: StampKind::User,
            received_ns: Some(510),
            delay_ns: Some(400),
            stamp: Some(StampKind::KernelRx),
            verdict: Verdict::Reordered,
            repeats: 1,
        };
        let lost = PacketRow {
            up: false,
            received_ns: None,
            delay_ns: None,
            stamp: None,
            verdict: Verdict::Lost,
            repeats: 0,
            ..came
        };
        let events = vec![Event::Packets { rows: vec![came, lost] }];
        let want = [
            "size=64,2,2,up,7,100,110,510,400,kernel,reordered,1,user",
            "size=64,2,2,down,7,100,110,,,,lost,0,user",
        ];
        assert_eq!(lines(Rows::Datagrams, Some("64"), 2, Phase::default(), events)[1..], want);
    }

    #[test]
    fn a_row_per_packet_with_its_verdict() {
        let place = metrics::Place { train: 1, setting: 0, round: 1, number: 3, intended_ns: 500 };
        let packet = TrainPacket::at(place);
        let sent = TrainPacket { sent_ns: Some(510), ..packet };
        let stamp = Some(StampKind::KernelRx);
        let came = TrainPacket { received_ns: Some(400), stamp, ..sent };
        let rows = vec![
            packet,
            sent,
            came,
            TrainPacket { overtaken_by: 2, stamp: Some(StampKind::Hardware), ..came },
            TrainPacket { repeats: 1, stamp: Some(StampKind::User), ..came },
            TrainPacket { back_ns: Some(900), held_ns: Some(50), ..came },
        ];
        let want = [
            "size=64,2,1,0,1,3,500,,,,,unsent,0,0,,,",
            "size=64,2,1,0,1,3,500,510,,,,lost,0,0,,,",
            "size=64,2,1,0,1,3,500,510,400,-110,kernel,received,0,0,,,",
            "size=64,2,1,0,1,3,500,510,400,-110,hardware,reordered,0,2,,,",
            "size=64,2,1,0,1,3,500,510,400,-110,user,duplicate,1,0,,,",
            "size=64,2,1,0,1,3,500,510,400,-110,kernel,received,0,0,900,390,50",
        ];
        let events = vec![Event::TrainPackets { rows }];
        assert_eq!(lines(Rows::Packets, Some("64"), 2, Phase::default(), events)[1..], want);
    }

    #[test]
    fn a_row_per_frame() {
        let media = Media::new(1_000_000, 50, 3, 1, 1_400).unwrap();
        let phase = Phase { kind: Kind::Stream, media: Some(media), ..Phase::default() };
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
        let events = vec![Event::Frames { id: Uuid::from_u128(7), rows: vec![whole, nothing] }];
        let rows = lines(Rows::Frames, None, 1, phase, events);
        assert_eq!(rows[0], "label,repeat,stream,frame,due_ns,sent_ns,received_ns,bytes,verdict");
        // Frame 3 of 50 a second is due after two frame times of 20 ms; 12,345 ticks of 100 ns.
        assert_eq!(rows[1], ",1,00000000-0000-0000-0000-000000000007,3,40000000,1234500,-5,2500,completed");
        assert_eq!(rows[2], ",1,00000000-0000-0000-0000-000000000007,4,60000000,,,0,dropped");
    }

    #[test]
    fn a_message_has_one_row_whatever_became_of_it() {
        let row = |seq, echo, rtt_ns| PingRow {
            slot: 1,
            seq,
            intended_ns: seq * 10,
            sent_ns: seq * 10 + 1,
            rtt_ns,
            remote_ns: None,
            echo,
        };
        let first =
            vec![row(0, Echo::InTime, Some(5)), row(1, Echo::Missing, None), row(2, Echo::Missing, None)];
        let second = vec![row(1, Echo::Late, Some(99)), row(3, Echo::Damaged, Some(7))];
        let end = Event::PhaseEnd { status: Status::Complete, reason: None };
        let events = vec![Event::Pings { rows: first }, Event::Pings { rows: second }, end];
        let want = [
            ",2,1,0,0,1,5,,in_time",
            ",2,1,1,10,11,99,,late",
            ",2,1,3,30,31,7,,damaged",
            ",2,1,2,20,21,,,lost",
        ];
        assert_eq!(lines(Rows::Samples, None, 2, Phase::default(), events)[1..], want);
    }
}
