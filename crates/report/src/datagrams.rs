//! A table of datagrams for scripts: one row each.

use csv::Writer;
use metrics::{StampKind, Verdict};
use model::{Event, PacketRow};
use std::io::{self, Write};

/// One row per datagram: where it belongs, when it left and came, and the verdict. Times are ns after the start by the
/// client's clock.
pub struct DatagramsCsv<W: Write> {
    out: Writer<W>,
    label: String,
}

const HEADER: [&str; 12] = [
    "label",
    "flow",
    "direction",
    "sequence",
    "intended_ns",
    "sent_ns",
    "received_ns",
    "delay_ns",
    "stamp",
    "verdict",
    "repeats",
    "sent_stamp",
];

impl<W: Write> DatagramsCsv<W> {
    /// Writes the header to `out`.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(out: W) -> io::Result<Self> {
        let mut out = Writer::from_writer(out);
        out.write_record(HEADER)?;
        out.flush()?;
        Ok(DatagramsCsv { out, label: String::new() })
    }

    /// Writes what `event` tells of datagrams.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Phase { label, repeat, .. } => {
                let mut words: Vec<String> = label.iter().map(|(k, v)| format!("{k}={v}")).collect();
                words.extend((*repeat > 1).then(|| format!("repeat={repeat}")));
                self.label = words.join(" ");
                Ok(())
            }
            Event::Packets { rows } => {
                for row in rows {
                    self.out.write_record(cells(&self.label, row))?;
                }
                self.out.flush()
            }
            _ => Ok(()),
        }
    }
}

fn cells(label: &str, row: &PacketRow) -> [String; 12] {
    let or_empty = |value: Option<i64>| value.map_or_else(String::new, |v| v.to_string());
    [
        label.to_owned(),
        row.flow.to_string(),
        if row.up { "up" } else { "down" }.to_owned(),
        row.sequence.to_string(),
        row.intended_ns.to_string(),
        row.sent_ns.to_string(),
        or_empty(row.received_ns),
        or_empty(row.delay_ns),
        row.stamp.map_or_else(String::new, |stamp| word(stamp).to_owned()),
        verdict(row.verdict).to_owned(),
        row.repeats.to_string(),
        word(row.sent_stamp).to_owned(),
    ]
}

/// Who stamped a datagram.
pub(crate) fn word(stamp: StampKind) -> &'static str {
    match stamp {
        StampKind::User => "user",
        StampKind::KernelRx | StampKind::KernelTx => "kernel",
        StampKind::Hardware => "hardware",
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Received => "received",
        Verdict::Reordered => "reordered",
        Verdict::Late => "late",
        Verdict::Damaged => "damaged",
        Verdict::Lost => "lost",
        Verdict::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut out = DatagramsCsv::new(&mut bytes).unwrap();
        let label = BTreeMap::from([("size".to_owned(), "64".to_owned())]);
        out.on_event(&Event::Phase { label, repeat: 1, phase: Box::default() }).unwrap();
        out.on_event(&Event::Packets { rows: vec![came, lost] }).unwrap();
        drop(out);
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "size=64,2,up,7,100,110,510,400,kernel,reordered,1,user",
                "size=64,2,down,7,100,110,,,,lost,0,user",
            ]
        );
    }
}
