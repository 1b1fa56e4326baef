//! A saved run of any protocol, as iperf3 would have printed it.
//!
//! A saved run keeps the sums of its connections, not each stream: it is printed as one stream in each direction.

use super::text::{Report, Style};
use crate::{BulkBegun, BulkEnded, BulkNews, BulkTerms, RemoteRow, StreamRow};
use metrics::Clamped;
use model::{Interval, Kind, Outcome, PacketReport, Point, Totals};
use std::io::{self, Write};

/// Prints a saved run, one report for each of its points.
///
/// # Errors
/// When `out` takes no more.
pub(crate) fn print(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    for point in &outcome.points {
        if !matches!(point.phase.kind, Kind::Tcp | Kind::Delay)
            || (point.up.is_none() && point.down.is_none())
        {
            let what = "a report of iperf3 shows what moved in a test of TCP or of datagrams; this was none";
            writeln!(out, "iperf3: {what}")?;
            continue;
        }
        let session = point.sessions.first();
        if let Some(session) = session {
            writeln!(out, "Connecting to host {}, port {}", session.target, session.address.port())?;
        }
        if point.up.is_none() {
            let host = session.map_or("", |session| session.target.as_str());
            writeln!(out, "Reverse mode, remote host {host} is sending")?;
        }
        if point.phase.connections > 1 {
            writeln!(out, "{} connections, of which the sums are on record", point.phase.connections)?;
        }
        let mut report = Report::new(Style { format: 'a', verbose: false, intervals: true });
        for news in news(point) {
            out.write_all(report.on_event(&news).as_bytes())?;
        }
        writeln!(out, "\niperf Done.")?;
    }
    Ok(())
}

/// A point as the news of a test.
fn news(point: &Point) -> Vec<BulkNews> {
    let ways =
        Ways { up: point.up.is_some(), down: point.down.is_some(), udp: point.phase.kind == Kind::Delay };
    let terms =
        BulkTerms { udp: ways.udp, bidir: ways.up && ways.down, reverse: !ways.up, ..BulkTerms::default() };
    let mut news = vec![BulkNews::Begun(Box::new(BulkBegun { terms, ..BulkBegun::default() }))];
    news.extend(point.intervals.iter().map(|interval| {
        let omitted = interval.omitted;
        BulkNews::Interval { omitted, rows: ways.rows(|sender| ways.interval(interval, sender)) }
    }));
    let ended = BulkEnded {
        local: ways.rows(|sender| ways.local(point, sender)),
        remote: [true, false].into_iter().filter_map(|sender| ways.remote(point, sender)).collect(),
        ..BulkEnded::default()
    };
    news.push(BulkNews::Ended(Box::new(ended)));
    news
}

/// Which ways payload went, and as what.
#[derive(Clone, Copy, Debug)]
struct Ways {
    up: bool,
    down: bool,
    udp: bool,
}

impl Ways {
    fn rows(self, row: impl Fn(bool) -> StreamRow) -> Vec<StreamRow> {
        [(true, self.up), (false, self.down)]
            .into_iter()
            .filter(|(_, there)| *there)
            .map(|(sender, _)| row(sender))
            .collect()
    }

    /// The place of a way: ours is the first.
    fn slot(self, sender: bool) -> u32 {
        u32::from(!sender && self.up)
    }

    fn interval(self, interval: &Interval, sender: bool) -> StreamRow {
        let traffic = &interval.local;
        let only = interval.samples.first().filter(|_| interval.samples.len() == 1);
        let row = StreamRow {
            slot: self.slot(sender),
            sender,
            start_ns: interval.start_ns,
            end_ns: interval.end_ns,
            bytes: if sender { traffic.tx_bytes } else { traffic.rx_bytes },
            retransmits: (sender && !self.udp).then_some(interval.retransmits),
            info: only.map(|sample| sample.info),
            ..StreamRow::default()
        };
        counted(row, interval.packets.as_deref())
    }

    fn local(self, point: &Point, sender: bool) -> StreamRow {
        let local = &point.local;
        let way = if sender { point.up } else { point.down }.unwrap_or_default();
        let row = StreamRow {
            slot: self.slot(sender),
            sender,
            end_ns: local.traffic.ns,
            bytes: if sender { way.sent_bytes } else { way.received_bytes },
            retransmits: (sender && !self.udp).then_some(local.tcp.retransmits),
            ..StreamRow::default()
        };
        counted(row, local.packets.as_deref())
    }

    /// The other end's word on a way, where there is one.
    fn remote(self, point: &Point, sender: bool) -> Option<RemoteRow> {
        let way = if sender { point.up } else { point.down }?;
        let remote: &Totals = point.remote.first().filter(|_| way.confirmed || !sender)?;
        let row = StreamRow { sender: !sender, ..StreamRow::default() };
        let row = counted(row, remote.packets.as_deref());
        Some(RemoteRow {
            slot: self.slot(sender),
            bytes: if sender { way.received_bytes } else { way.sent_bytes },
            retransmits: (!sender && !self.udp).then_some(remote.tcp.retransmits),
            jitter_ns: row.jitter_ns,
            lost: row.lost,
            packets: i64::clamped(row.packets),
            ns: Some(remote.traffic.ns).filter(|ns| *ns > 0),
        })
    }
}

/// Adds the counts of datagrams.
fn counted(row: StreamRow, report: Option<&PacketReport>) -> StreamRow {
    let Some(PacketReport { counts, jitter_ns, .. }) = report else { return row };
    if row.sender {
        return StreamRow { packets: counts.sent, ..row };
    }
    StreamRow {
        packets: counts.received.saturating_add_signed(counts.lost),
        lost: counts.lost,
        out_of_order: counts.reordered,
        duplicates: counts.duplicated,
        jitter_ns: jitter_ns.unwrap_or(0.0),
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Direction, Phase, Traffic};

    #[test]
    fn a_saved_run_in_the_lines_of_iperf3() {
        let traffic = |bytes| Traffic { tx_bytes: bytes, rx_bytes: 0, ns: 1_000_000_000 };
        let interval = |index: u32| Interval {
            index,
            start_ns: u64::from(index) * 1_000_000_000,
            end_ns: u64::from(index + 1) * 1_000_000_000,
            local: traffic(12_500_000),
            retransmits: 3,
            ..Interval::default()
        };
        let way = Direction {
            sent_bytes: 25_000_000,
            received_bytes: 24_000_000,
            confirmed: true,
            ..Direction::default()
        };
        let both = Traffic { tx_bytes: 25_000_000, rx_bytes: 0, ns: 2_000_000_000 };
        let mut point = Point {
            phase: Phase::default(),
            intervals: vec![interval(0), interval(1)],
            up: Some(way),
            local: Totals { traffic: both, ..Totals::default() },
            remote: vec![Totals { traffic: both, ..Totals::default() }],
            ..Point::default()
        };
        let said = |point: &Point| {
            let mut outcome = Outcome::default();
            outcome.points.push(point.clone());
            let mut out = Vec::new();
            print(&outcome, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = said(&point);
        // 12.5 MB are 11.9 MiB, and 100 Mbit; 24 MB in 2 s are 96 Mbit/s.
        assert!(text.contains("[  5]   1.00-2.00   sec  11.9 MBytes   100 Mbits/sec    3 "), "{text}");
        assert!(
            text.contains("[  5]   0.00-2.00   sec  22.9 MBytes  96.0 Mbits/sec                  receiver"),
            "{text}"
        );
        (point.up, point.down) = (None, None);
        assert!(said(&point).contains("none"), "{}", said(&point));
    }
}
