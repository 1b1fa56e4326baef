//! Imports printouts: `udpmon_bw_mon`, `udpmon_req` and `tcpmon_mon` have a line per test,
//! `udpmon_recv` a line per period.

use super::read::{ReadTable, is_table, tables};
use crate::{PacketTest, PacketTestLatency};
use compat::file::Source;
use compat::import::{ImportedPhase, ImportedRun, Numbers, ns, received};
use metrics::{Clamped, Wall};
use model::{
    Count, CountsByWay, EndCounts, Interval, Kind, PacketReport, Pattern, PingCounts, Role, RoundTrips,
    Totals, Traffic,
};
use std::cell::RefCell;

/// Larger numbers are no counts, and later times, s since 1970, no run has.
const MOST: f64 = 1e15;
const LATEST_S: f64 = 9e9;

/// A row of a table.
#[derive(Clone, Copy)]
struct TableRow<'a> {
    table: &'a ReadTable<'a>,
    cells: &'a [&'a str],
    numbers: &'a RefCell<Numbers>,
}

impl TableRow<'_> {
    /// A cell, by the beginning of its column's title.
    fn at(&self, beginning: &str) -> Option<f64> {
        self.within(beginning, (0.0, MOST))
    }

    /// A cell with a number between these.
    fn within(&self, beginning: &str, bounds: (f64, f64)) -> Option<f64> {
        let place = self.table.titles.iter().position(|title| title.starts_with(beginning))?;
        let cell = self.cells.get(place).filter(|cell| !cell.is_empty())?;
        self.numbers.borrow_mut().cell(cell, self.table.titles[place], bounds)
    }

    /// A cell that is a count.
    fn count(&self, beginning: &str) -> Option<u64> {
        self.at(beginning).map(u64::clamped)
    }

    /// Packets that arrived, that were lost, and that arrived out of order.
    fn packets(&self) -> [Option<u64>; 3] {
        ["num_recv", "num_lost", "num_badorder"].map(|title| self.count(title))
    }

    /// Duration of receiving `bytes` in `came` pieces, ns, from the printed rate in Mbit/s. The
    /// original divides all pieces by the gaps between them, which are one fewer.
    fn lasted(&self, bytes: f64, came: f64, rate: f64) -> u64 {
        let right = if came > 1.0 && !self.table.right { rate * (came - 1.0) / came } else { rate };
        if right > 0.0 { ns(bytes * 8.0 / (right * 1e6)) } else { 0 }
    }
}

/// Reads a printout; `None` when it is none.
pub(crate) fn read(source: &Source) -> Option<Result<ImportedRun, String>> {
    let bytes = source.text()?.as_bytes();
    if !is_table(bytes) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let all = tables(&text);
    let numbers = RefCell::default();
    let mut rows = Vec::new();
    for table in &all {
        rows.extend(table.rows.iter().map(|cells| TableRow { table, cells, numbers: &numbers }));
    }
    let mut run = of_rows(&rows, all.iter().any(|table| !table.right));
    if let Ok(run) = &mut run {
        run.notices.extend(numbers.take().notice());
    }
    Some(run)
}

/// The run that the rows of all tables report, of the originals where `gaps`.
fn of_rows(rows: &[TableRow<'_>], gaps: bool) -> Result<ImportedRun, String> {
    let tests: Vec<PacketTest> = rows.iter().filter_map(latency).collect();
    if !tests.is_empty() {
        return Ok(requests(&tests));
    }
    let gaps = gaps.then_some(GAPS);
    let messages: Vec<ImportedPhase> = rows.iter().filter_map(message).collect();
    if !messages.is_empty() {
        let counts = Some(crate::tcpmon::PROTOCOL.info.counts);
        return Ok(ImportedRun { verb: "tcp", counts, ..imported("tcpmon_mon", messages, gaps) });
    }
    if let Some(found) = periods(rows) {
        return Ok(found);
    }
    let phases: Vec<ImportedPhase> = rows.iter().filter_map(test).collect();
    if phases.is_empty() {
        return Err("the file is of UDPmon, but holds no line of a test".to_owned());
    }
    Ok(imported("udpmon_bw_mon", phases, gaps))
}

/// Notice about the original's rates.
const GAPS: &str =
    "the rates are over as many gaps as there are: the original divides N packets by N - 1 gaps";

fn imported(program: &str, phases: Vec<ImportedPhase>, notice: Option<&str>) -> ImportedRun {
    ImportedRun {
        program: program.to_owned(),
        protocol: "udpmon",
        verb: "delay",
        phases,
        counts: Some(crate::PROTOCOL.info.counts),
        notices: notice.map(str::to_owned).into_iter().collect(),
        ..ImportedRun::default()
    }
}

/// A phase of one connection in one direction.
fn phase() -> ImportedPhase {
    ImportedPhase { kind: Kind::Delay, pattern: Pattern::Push, connections: 1, ..ImportedPhase::default() }
}

/// The lines of `udpmon_recv`. Ends of periods are in whole seconds: each period is taken for as
/// long as their mean.
fn periods(rows: &[TableRow<'_>]) -> Option<ImportedRun> {
    let counts_bytes =
        |row: &&TableRow<'_>| row.table.titles.iter().any(|title| title.starts_with("Bytes Recv"));
    let lines: Vec<_> = rows.iter().filter(counts_bytes).collect();
    let ended = |row: &TableRow<'_>| row.within("linux time", (0.0, LATEST_S)).unwrap_or(0.0);
    let (first, last) = (ended(lines.first()?), ended(lines.last()?));
    let gaps = metrics::real(lines.len().saturating_sub(1).max(1));
    let period = ns((last - first).max(1.0) / gaps);
    let mut remote = Totals::default();
    let mut counts = [Some(0_u64); 3];
    let mut intervals = Vec::with_capacity(lines.len());
    for (index, row) in (0u32..).zip(&lines) {
        // A line without its bytes leaves the total unknown.
        let bytes = row.count("Bytes Recv").unwrap_or_else(|| {
            remote.unknown.insert(Count::ReceivedBytes);
            0
        });
        let traffic = Traffic { tx_bytes: 0, rx_bytes: bytes, ns: period, ..Traffic::default() };
        remote.traffic.add_later(&traffic);
        let packets = row.packets();
        counts = [0, 1, 2].map(|place| Some(counts[place]?.saturating_add(packets[place]?)));
        intervals.push(Interval {
            index,
            start_ns: u64::from(index) * period,
            end_ns: (u64::from(index) + 1) * period,
            remote: Some(traffic),
            remote_packets: Some(report(packets)),
            ..Interval::default()
        });
    }
    remote.packets = Some(report(counts));
    let phase = ImportedPhase { intervals, remote: Some(remote), ..phase() };
    let notice = "the ends of the periods are in whole seconds: each is taken for as long as the mean of them, from the end \
                  of the one before";
    let started = Wall(i64::clamped(ns(first).saturating_sub(period)));
    let received = CountsByWay { up: crate::REPORTED, ..EndCounts::OWN.server };
    let counts = Some(EndCounts { server: received, ..EndCounts::OWN });
    let recorder = Role::Server;
    Some(ImportedRun { started, recorder, counts, ..imported("udpmon_recv", vec![phase], Some(notice)) })
}

fn report(counts: [Option<u64>; 3]) -> Box<PacketReport> {
    let [arrived, lost, order] = counts.map(Option::unwrap_or_default);
    let mut report = received(arrived, lost, order);
    let names = [Count::ReceivedDatagrams, Count::LostDatagrams, Count::ReorderedDatagrams];
    for (count, name) in counts.iter().zip(names) {
        if count.is_none() {
            report.unknown.insert(name);
        }
    }
    Box::new(report)
}

/// A line of `tcpmon_mon`: one size and one spacing of messages on a connection.
fn message(row: &TableRow<'_>) -> Option<ImportedPhase> {
    row.at("soc_buf_size")?;
    let size = row.at("pkt len").filter(|size| *size >= 1.0)?;
    let (came, bytes, rate) = (row.at("num_recv")?, row.at("bytes_recv")?, row.at("recv_data_rate")?);
    let mut phase = sized(size, row.at("wait_time")?);
    phase.kind = Kind::Tcp;
    phase.local.traffic.tx_bytes = u64::clamped(size * row.at("num_sent")?);
    phase.local.traffic.ns = u64::clamped(row.at("Send_time")? * 1e3);
    if let Some(again) = row.count("tcpi_total_retrans") {
        (phase.local.tcp.retransmits, phase.local.tcp.connections) = (again, 1);
    }
    let remote = phase.remote.get_or_insert_default();
    remote.traffic.rx_bytes = u64::clamped(bytes);
    remote.traffic.ns = row.lasted(bytes, came, rate);
    Some(phase)
}

/// A test of one size, bytes, and one spacing, µs.
fn sized(size: f64, wait: f64) -> ImportedPhase {
    let label = [("size", format!("{size:.0}")), ("spacing", format!("{:.0}", wait * 1e3))];
    ImportedPhase { label: label.map(|(key, value)| (key.to_owned(), value)).into(), ..phase() }
}

/// The tests of `udpmon_req`.
fn requests(tests: &[PacketTest]) -> ImportedRun {
    let mut counts = PingCounts::default();
    for test in tests {
        let (count, missing) = test.latency.as_ref().map_or((0, 0), |trips| (trips.count, trips.missing));
        counts.sent += test.sent;
        counts.received += count;
        counts.lost += i64::clamped(missing);
    }
    let trips = RoundTrips { counts, ..RoundTrips::default() };
    let phase = ImportedPhase {
        kind: Kind::Ping,
        pattern: Pattern::Duplex,
        extras: tests.iter().map(PacketTest::result).collect(),
        local: Totals { pings: Some(Box::new(trips)), ..Totals::default() },
        ..phase()
    };
    let notice = "of each size the least, the mean and the largest round trip are known, no percentile";
    ImportedRun { verb: "ping", ..imported("udpmon_req", vec![phase], Some(notice)) }
}

/// A line of `udpmon_req`: one size of responses.
fn latency(row: &TableRow<'_>) -> Option<PacketTest> {
    let response = u32::clamped(row.count("response len")?);
    let (sent, mean) = (row.count("loop_count")?, row.at("ave time")?);
    let missing = u64::clamped(row.within("num_bad", (0.0, metrics::real(sent)))?);
    let count = sent.saturating_sub(missing);
    let us = |us: f64| u64::clamped(us * 1e3);
    Some(PacketTest {
        size: u32::clamped(row.count("Req len")?),
        sent,
        timeouts: row.count("num timeouts").unwrap_or(0),
        latency: Some(PacketTestLatency {
            response,
            count,
            missing,
            total_ns: us(row.at("time/frame").unwrap_or(0.0) * metrics::real(sent)),
            sum_ns: us(mean * metrics::real(count)),
            min_ns: us(row.at("min time")?),
            max_ns: us(row.at("max time")?),
            ..PacketTestLatency::default()
        }),
        over: true,
        ..PacketTest::default()
    })
}

/// A line of `udpmon_bw_mon`, for one size and one spacing; or of `udpmon_send`, with sent packets
/// only.
fn test(row: &TableRow<'_>) -> Option<ImportedPhase> {
    let size = row.within("pkt len", (1.0, 65_535.0))?;
    let sent = row.at("num_sent")?;
    let mut phase = sized(size, row.at("inter-pkt_time").or_else(|| row.at("wait_time")).unwrap_or(0.0));
    phase.local.traffic.tx_bytes = u64::clamped(size * sent);
    let Some((came, rate)) = row.at("num_recv").zip(row.at("recv_user")) else {
        phase.local.traffic.ns = u64::clamped(row.at("Send time")? * 1e3);
        return Some(phase);
    };
    let remote = phase.remote.get_or_insert_default();
    remote.traffic.rx_bytes = u64::clamped(size * came);
    remote.traffic.ns = row.lasted(size * came, came, rate);
    remote.packets = Some(report(row.packets()));
    phase.local.traffic.ns = remote.traffic.ns;
    Some(phase)
}

#[cfg(test)]
mod tests;
