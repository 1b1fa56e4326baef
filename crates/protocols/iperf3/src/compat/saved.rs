//! A saved run of any protocol, as iperf3 would have printed it.
//!
//! A saved run keeps the sums of its connections, not each stream: it is printed as one stream in
//! each direction.

use super::json::Facts;
use super::text::{Report, Style};
use crate::{BulkBegun, BulkEnded, BulkNews, BulkTerms, RemoteRow, StreamRow};
use compat::Text;
use metrics::Clamped;
use model::{Direction, Interval, Kind, Outcome, PacketReport, Point, Totals};

/// True if something moved in a test that iperf3 has, too.
fn is_shown(point: &Point) -> bool {
    matches!(point.phase.kind, Kind::Tcp | Kind::Delay) && (point.up.is_some() || point.down.is_some())
}

/// A saved run, one report for each of its points that iperf3 could have had.
///
/// # Errors
/// When there is no such point.
pub(crate) fn print(outcome: &Outcome) -> Result<String, String> {
    if !outcome.points.iter().any(is_shown) {
        let what = "iperf3 shows what moved in a test of TCP or of datagrams, and this was none";
        return Err(what.to_owned());
    }
    let mut out = Text::default();
    for point in outcome.points.iter().filter(|point| is_shown(point)) {
        let session = point.sessions.first();
        if let Some(session) = session {
            writeln!(out, "Connecting to host {}, port {}", session.target, session.address.port());
        }
        if point.up.is_none() {
            let host = session.map_or("", |session| session.target.as_str());
            writeln!(out, "Reverse mode, remote host {host} is sending");
        }
        if point.phase.connections > 1 {
            writeln!(out, "{} connections, of which the sums are on record", point.phase.connections);
        }
        let mut report = Report::new(Style::USUAL, Facts::default());
        for news in news(point) {
            out.0 += &report.on_event(&news);
        }
        writeln!(out, "\niperf Done.");
    }
    Ok(out.0)
}

/// A point as the news of a test.
fn news(point: &Point) -> Vec<BulkNews> {
    let udp = point.phase.kind == Kind::Delay;
    let ways = [(true, point.up), (false, point.down)].into_iter().filter(|(_, found)| found.is_some());
    let way = |(slot, (sender, found)): (u32, (bool, Option<Direction>))| PayloadWay {
        slot,
        sender,
        udp,
        found: found.unwrap_or_default(),
    };
    let ways: Vec<PayloadWay> = (0..).zip(ways).map(way).collect();
    let terms = BulkTerms { udp, bidir: ways.len() > 1, reverse: point.up.is_none(), ..BulkTerms::usual() };
    let mut news = vec![BulkNews::Begun(Box::new(BulkBegun { terms, ..BulkBegun::default() }))];
    news.extend(point.intervals.iter().map(|interval| {
        let rows = ways.iter().map(|way| way.interval(interval)).collect();
        BulkNews::Interval { omitted: interval.omitted, rows }
    }));
    let ended = BulkEnded {
        local: ways.iter().map(|way| way.local(&point.local)).collect(),
        remote: ways.iter().filter_map(|way| way.remote(point.remote.first()?)).collect(),
        ..BulkEnded::default()
    };
    news.push(BulkNews::Ended(Box::new(ended)));
    news
}

/// A way that payload went: ours is the first.
struct PayloadWay {
    slot: u32,
    sender: bool,
    udp: bool,
    found: Direction,
}

impl PayloadWay {
    fn row(
        &self,
        (start_ns, end_ns): (u64, u64),
        bytes: u64,
        retransmits: u64,
        packets: Option<&PacketReport>,
    ) -> StreamRow {
        let PayloadWay { slot, sender, udp, .. } = *self;
        let retransmits = (sender && !udp).then_some(retransmits);
        let row = StreamRow { slot, sender, start_ns, end_ns, bytes, retransmits, ..StreamRow::default() };
        counted(row, packets)
    }

    fn interval(&self, interval: &Interval) -> StreamRow {
        let Interval { start_ns, end_ns, local, retransmits, packets, samples, .. } = interval;
        let bytes = if self.sender { local.tx_bytes } else { local.rx_bytes };
        let info = samples.first().filter(|_| samples.len() == 1).map(|sample| sample.info);
        StreamRow { info, ..self.row((*start_ns, *end_ns), bytes, *retransmits, packets.as_deref()) }
    }

    fn local(&self, local: &Totals) -> StreamRow {
        let bytes = if self.sender { self.found.sent_bytes } else { self.found.received_bytes };
        self.row((0, local.traffic.ns), bytes, local.tcp.retransmits, local.packets.as_deref())
    }

    /// The other end's word on the way, where there is one.
    fn remote(&self, remote: &Totals) -> Option<RemoteRow> {
        let PayloadWay { slot, sender, udp, found } = self;
        let row = StreamRow { sender: !sender, ..StreamRow::default() };
        let row = counted(row, remote.packets.as_deref());
        (found.confirmed || !sender).then_some(RemoteRow {
            slot: *slot,
            bytes: if *sender { found.received_bytes } else { found.sent_bytes },
            retransmits: (!sender && !udp).then_some(remote.tcp.retransmits),
            jitter_ns: row.jitter_ns,
            lost: row.lost,
            packets: i64::clamped(row.packets),
            ns: Some(remote.traffic.ns).filter(|ns| *ns > 0),
        })
    }
}

/// Adds the counts of datagrams.
fn counted(row: StreamRow, report: Option<&PacketReport>) -> StreamRow {
    let Some(report) = report else { return row };
    let counts = report.counts;
    if row.sender {
        return StreamRow { packets: counts.sent, ..row };
    }
    StreamRow {
        packets: counts.received.saturating_add_signed(counts.lost),
        lost: counts.lost,
        out_of_order: counts.reordered,
        duplicates: counts.duplicated,
        jitter_ns: report.jitter_ns.unwrap_or(0.0),
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Phase, Traffic};

    #[test]
    fn a_saved_run_in_the_lines_of_iperf3() {
        let traffic =
            |bytes| Traffic { tx_bytes: bytes, rx_bytes: 0, ns: 1_000_000_000, ..Traffic::default() };
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
        let both = Traffic { tx_bytes: 25_000_000, rx_bytes: 0, ns: 2_000_000_000, ..Traffic::default() };
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
            print(&outcome)
        };
        let text = said(&point).unwrap();
        // 12.5 MB are 11.9 MiB, and 100 Mbit; 24 MB in 2 s are 96 Mbit/s.
        assert!(text.contains("[  5]   1.00-2.00   sec  11.9 MBytes   100 Mbits/sec    3 "), "{text}");
        assert!(
            text.contains("[  5]   0.00-2.00   sec  22.9 MBytes  96.0 Mbits/sec                  receiver"),
            "{text}"
        );
        (point.up, point.down) = (None, None);
        assert!(said(&point).unwrap_err().contains("this was none"));
    }
}
