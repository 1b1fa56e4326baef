//! A table of datagrams for scripts: one row each.

use crate::csv::{Place, Rows, or_empty, spelled, titles, write_rows};
use crate::text::Column;
use csv::Writer;
use metrics::StampKind;
use model::{Event, PacketRow};
use serde_json::json;
use std::io::{self, Write};

/// Rows of datagrams: where each belongs, when it left and came, and the verdict. Times are ns after the start by the client's clock.
#[derive(Default)]
pub struct DatagramRows(Place);

/// The columns of a datagram, and of where in the run it was sent.
fn columns<'a>() -> [Column<(&'a Place, &'a PacketRow)>; 13] {
    [
        ("label", |(place, _)| place.label()),
        ("repeat", |(place, _)| place.repeat()),
        ("flow", |(_, row)| row.flow.to_string()),
        ("direction", |(_, row)| if row.up { "up" } else { "down" }.to_owned()),
        ("sequence", |(_, row)| row.sequence.to_string()),
        ("intended_ns", |(_, row)| row.intended_ns.to_string()),
        ("sent_ns", |(_, row)| row.sent_ns.to_string()),
        ("received_ns", |(_, row)| or_empty(row.received_ns)),
        ("delay_ns", |(_, row)| or_empty(row.delay_ns)),
        ("stamp", |(_, row)| or_empty(row.stamp.map(word))),
        ("verdict", |(_, row)| spelled(json!(row.verdict))),
        ("repeats", |(_, row)| row.repeats.to_string()),
        ("sent_stamp", |(_, row)| word(row.sent_stamp).to_owned()),
    ]
}

impl Rows for DatagramRows {
    fn header() -> String {
        titles(&columns())
    }

    fn write<W: Write>(&mut self, event: &Event, out: &mut Writer<W>) -> io::Result<()> {
        self.0.on_event(event);
        let Event::Packets { rows } = event else { return Ok(()) };
        write_rows(&columns(), rows.iter().map(|row| (&self.0, row)), out)?;
        out.flush()
    }
}

/// Source of a datagram's timestamp.
pub(crate) fn word(stamp: StampKind) -> &'static str {
    match stamp {
        StampKind::User => "user",
        StampKind::KernelRx | StampKind::KernelTx => "kernel",
        StampKind::Hardware => "hardware",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::{EventCsv, EventWriter as _};
    use metrics::Verdict;
    use std::collections::BTreeMap;

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
        let mut bytes = Vec::new();
        let mut out = EventCsv::<_, DatagramRows>::new(&mut bytes).unwrap();
        let label = BTreeMap::from([("size".to_owned(), "64".to_owned())]);
        out.on_event(&Event::Phase { label, repeat: 2, phase: Box::default() }).unwrap();
        out.on_event(&Event::Packets { rows: vec![came, lost] }).unwrap();
        drop(out);
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "size=64,2,2,up,7,100,110,510,400,kernel,reordered,1,user",
                "size=64,2,2,down,7,100,110,,,,lost,0,user",
            ]
        );
    }
}
