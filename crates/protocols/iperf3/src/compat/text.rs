//! iperf3's printed report of one test, line by line.

use super::ends::{StreamFigures, congestions, directions, sides};
use super::json::Facts;
use super::opening::{accepted, called};
use super::units::amount;
use crate::{BulkBegun, BulkCpu, BulkEnded, BulkNews, BulkStream, ServerOutput, StreamRow};
use compat::Text;
use compat::number::g;
use metrics::real;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) format: char,
    pub(crate) verbose: bool,
    pub(crate) intervals: bool,
}

impl Style {
    /// The style of the original without options.
    pub(crate) const USUAL: Style = Style { format: 'a', verbose: false, intervals: true };
}

const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";

/// The report of one test, while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    style: Style,
    facts: Facts,
    begun: BulkBegun,
    /// Lines of intervals have been printed.
    intervals: u64,
}

/// The number that a stream is printed under. The original prints its file descriptor.
pub(super) fn socket(slot: u32) -> u32 {
    5 + 2 * slot
}

impl Report {
    /// A report that has said nothing.
    pub(crate) fn new(style: Style, facts: Facts) -> Self {
        Report { style, facts, begun: BulkBegun::default(), intervals: 0 }
    }

    /// The lines for news of the test.
    pub(crate) fn on_event(&mut self, news: &BulkNews) -> String {
        let mut out = Text::default();
        let verbose = self.style.verbose;
        match news {
            BulkNews::Met { cookie, at, .. } if self.facts.connecting_to.is_some() => {
                called(&mut out, &self.facts, cookie, *at, verbose);
            }
            BulkNews::Met { peer, cookie, at, .. } => accepted(&mut out, peer, cookie, *at, verbose),
            BulkNews::Begun(begun) => self.begun(&mut out, begun),
            BulkNews::Interval { omitted, rows } => self.interval(&mut out, *omitted, rows),
            BulkNews::Ended(ended) => self.ended(&mut out, ended),
            BulkNews::Failed { .. } => {}
        }
        out.0
    }

    fn begun(&mut self, out: &mut Text, begun: &BulkBegun) {
        let terms = &begun.terms;
        for BulkStream { slot, local, remote, .. } in &begun.streams {
            let (from, to) = (local.ip().to_canonical(), remote.ip().to_canonical());
            let (here, there) = (local.port(), remote.port());
            writeln!(out, "[{:3}] local {from} port {here} connected to {to} port {there}", socket(*slot));
        }
        if self.style.verbose {
            let protocol = if terms.udp { "UDP" } else { "TCP" };
            let length = match (terms.bytes, terms.blocks) {
                (0, 0) => format!("{} second test", terms.time_s),
                (0, blocks) => format!("{blocks} blocks to send"),
                (bytes, _) => format!("{bytes} bytes to send"),
            };
            writeln!(
                out,
                "Starting Test: protocol: {protocol}, {} streams, {} byte blocks, omitting {} seconds, {length}, tos {}",
                terms.streams, terms.block, terms.omit_s, terms.tos
            );
        }
        self.begun = begun.clone();
    }

    /// Name of this stream's line, or of all together; with `[TX-C]` and the like, where both ends
    /// send.
    fn name(&self, slot: Option<u32>, sender: bool) -> String {
        let id = slot.map_or("SUM".to_owned(), |slot| format!("{:3}", socket(slot)));
        let end = if self.begun.serving { 'S' } else { 'C' };
        match (self.begun.terms.bidir, sender) {
            (false, _) => format!("[{id}]"),
            (true, true) => format!("[{id}][TX-{end}]"),
            (true, false) => format!("[{id}][RX-{end}]"),
        }
    }

    fn header(&self, columns: &str) -> String {
        let role = if self.begun.terms.bidir { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate{columns}\n")
    }

    fn interval(&mut self, out: &mut Text, omitted: bool, rows: &[StreamRow]) {
        if !self.style.intervals {
            return;
        }
        let terms = &self.begun.terms;
        if self.intervals == 0 {
            let sends = rows.first().is_some_and(|row| row.sender);
            out.0.push_str(&self.header(match (terms.udp, sends, terms.bidir) {
                (false, true, _) | (false, _, true) => "         Retr  Cwnd",
                (false, false, false) => "",
                (true, true, false) => "         Total Datagrams",
                (true, ..) => "         Jitter    Lost/Total Datagrams",
            }));
        } else if terms.all_streams() > 1 {
            out.0.push_str(RULE);
        }
        self.intervals += 1;
        let mark = if omitted { "(omitted)" } else { "" };
        for (sender, rows) in directions(self.begun.serving, rows) {
            let mut sum = StreamFigures::default();
            let mut span = (0, 0);
            for row in &rows {
                let side = StreamFigures::local(row);
                let window = row.info.map(|info| u64::from(info.cwnd) * u64::from(info.snd_mss));
                span = (row.start_ns, row.end_ns);
                let head = self.head(Some(row.slot), sender, span, &side);
                writeln!(out, "{head}  {}{mark}", self.columns(&side, sender, window));
                sum.add(&side);
            }
            if rows.len() > 1 {
                let head = self.head(None, sender, span, &sum);
                writeln!(out, "{head}  {}{mark}", self.columns(&sum, sender, None));
            }
        }
    }

    /// The columns that all lines have.
    fn head(&self, slot: Option<u32>, sender: bool, span: (u64, u64), side: &StreamFigures) -> String {
        let (from, to) = (real(span.0) / 1e9, real(span.1) / 1e9);
        let seconds = real(span.1.saturating_sub(span.0)) / 1e9;
        let rate = if seconds > 0.0 { real(side.bytes) / seconds } else { 0.0 };
        let (moved, rate) = (amount(real(side.bytes), 'A'), amount(rate, self.style.format));
        format!("{} {from:6.2}-{to:<6.2} sec  {moved}  {rate}/sec", self.name(slot, sender))
    }

    /// The columns of sent or received data, in an interval with the window of its end.
    fn columns(&self, side: &StreamFigures, sent: bool, window: Option<u64>) -> String {
        let packets = side.packets;
        match (self.begun.terms.udp, sent, side.retransmits, window) {
            (true, true, ..) => format!("{packets}  "),
            (true, false, ..) => {
                let share = g(side.share(), 2);
                format!("{:5.3} ms  {}/{packets} ({share}%)  ", side.jitter_ms(), side.lost)
            }
            (false, true, Some(again), Some(window)) => {
                format!("{again:3}   {}       ", amount(real(window), 'A'))
            }
            (false, true, Some(again), None) => format!("{again:3}             "),
            _ => " ".repeat(16),
        }
    }

    fn ended(&mut self, out: &mut Text, ended: &BulkEnded) {
        let BulkBegun { serving, terms, .. } = &self.begun;
        out.0.push_str(RULE);
        if self.style.verbose {
            out.0.push_str("Test Complete. Summary Results:\n");
        }
        let resent = |row: &StreamRow| row.sender && row.retransmits.is_some();
        let remote_resent = ended.remote.iter().any(|row| row.retransmits.is_some());
        let columns = match (terms.udp, ended.local.iter().any(resent) || (!serving && remote_resent)) {
            (true, _) => "         Jitter    Lost/Total Datagrams",
            (false, true) => "         Retr",
            (false, false) => "",
        };
        out.0.push_str(&self.header(columns));
        for (sender, rows) in directions(*serving, &ended.local) {
            self.summary(out, ended, sender, &rows);
        }
        match &ended.server_output {
            Some(ServerOutput::Text(text)) => writeln!(out, "\nServer output:\n{text}"),
            Some(ServerOutput::Json(text)) => writeln!(out, "\nServer JSON output:\n{text}"),
            None => {}
        }
    }

    fn summary(&self, out: &mut Text, ended: &BulkEnded, sender: bool, rows: &[&StreamRow]) {
        let (mut sent_all, mut got_all) = (StreamFigures::default(), StreamFigures::default());
        let serving = self.begun.serving;
        for row in rows {
            let (sent, got) = sides(ended, row);
            // A server prints its own half.
            let (sent, got) = (sent.filter(|_| !serving || sender), got.filter(|_| !serving || !sender));
            if let Some(sent) = sent {
                self.result(out, Some(row.slot), sender, &sent, true);
                sent_all.add(&sent);
            }
            if let Some(file) = &self.facts.file {
                out.0.push_str(&file.line(row.bytes, sender));
            }
            if let Some(got) = got {
                self.result(out, Some(row.slot), sender, &got, false);
                got_all.add(&got);
            }
        }
        for (all, sent) in [(sent_all, true), (got_all, false)] {
            if rows.len() > 1 && all.streams > 0 {
                self.result(out, None, sender, &all, sent);
            }
        }
        if self.style.verbose {
            let (one, other) = if sender { ("sender", "receiver") } else { ("receiver", "sender") };
            let cpu = |cpu: BulkCpu| format!("{:.1}% ({:.1}%u/{:.1}%s)", cpu.total, cpu.user, cpu.system);
            let (own, remote) = (cpu(ended.cpu), cpu(ended.remote_cpu.unwrap_or_default()));
            writeln!(out, "CPU Utilization: local/{one} {own}, remote/{other} {remote}");
            for (which, name) in ["snd", "rcv"].into_iter().zip(congestions(ended, sender)) {
                if let Some(name) = name {
                    writeln!(out, "{which}_tcp_congestion {name}");
                }
            }
        }
    }

    /// Final line of a stream's sender or receiver, or of all together.
    fn result(&self, out: &mut Text, slot: Option<u32>, sender: bool, side: &StreamFigures, sent: bool) {
        let head = self.head(slot, sender, (0, side.ns), side);
        if !sent {
            writeln!(out, "{head}  {}receiver", self.columns(side, false, None));
            return;
        }
        // A sender of datagrams knows nothing of loss and jitter.
        let side = StreamFigures { lost: 0, jitter_ns: 0.0, ..*side };
        writeln!(out, "{head}  {}sender", self.columns(&side, !self.begun.terms.udp, None));
    }
}

/// A server's printout of one test, for a client that wants it.
pub(crate) fn server_output(news: &[crate::Bulk]) -> ServerOutput {
    let mut report = Report::new(Style::USUAL, Facts::default());
    ServerOutput::Text(news.iter().map(|bulk| report.on_event(&bulk.news)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BulkTerms, RemoteRow};

    fn row(slot: u32, sender: bool, bytes: u64) -> StreamRow {
        StreamRow { slot, sender, end_ns: 1_000_000_000, bytes, ..StreamRow::default() }
    }

    fn begun(serving: bool, terms: BulkTerms) -> BulkNews {
        let stream = |slot| BulkStream {
            slot,
            sender: terms.client_sends(slot) != serving,
            local: ([127, 0, 0, 1], 58_820).into(),
            remote: ([127, 0, 0, 1], 5399).into(),
        };
        let streams = (0..terms.all_streams()).map(stream).collect();
        BulkNews::Begun(Box::new(BulkBegun { serving, streams, terms, ..BulkBegun::default() }))
    }

    #[test]
    fn lines_as_the_original_prints_them() {
        // The lines are those of iperf 3.12 and 3.21 with other numbers.
        let fresh = || Report::new(Style::USUAL, Facts::default());
        let mut report = fresh();
        let info = metrics::TcpInfo { cwnd: 28, snd_mss: 32_741, ..metrics::TcpInfo::default() };
        assert_eq!(
            report.on_event(&begun(false, BulkTerms::usual())),
            "[  5] local 127.0.0.1 port 58820 connected to 127.0.0.1 port 5399\n"
        );
        let sent = StreamRow { retransmits: Some(1), info: Some(info), ..row(0, true, 12_500_000) };
        assert_eq!(
            report.on_event(&BulkNews::Interval { omitted: false, rows: vec![sent] }),
            "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\
             [  5]   0.00-1.00   sec  11.9 MBytes   100 Mbits/sec    1    895 KBytes       \n"
        );
        let remote = RemoteRow { bytes: 12_500_000, ns: Some(1_030_000_000), ..RemoteRow::default() };
        let ended = BulkEnded { local: vec![sent], remote: vec![remote], ..BulkEnded::default() };
        assert_eq!(
            report.on_event(&BulkNews::Ended(Box::new(ended))),
            "- - - - - - - - - - - - - - - - - - - - - - - - -\n\
             [ ID] Interval           Transfer     Bitrate         Retr\n\
             [  5]   0.00-1.00   sec  11.9 MBytes   100 Mbits/sec    1             sender\n\
             [  5]   0.00-1.03   sec  11.9 MBytes  97.1 Mbits/sec                  receiver\n"
        );

        let mut report = fresh();
        report.on_event(&begun(true, BulkTerms { udp: true, streams: 2, ..BulkTerms::usual() }));
        let got = |slot, jitter_ns| StreamRow { packets: 38, jitter_ns, ..row(slot, false, 1_245_184) };
        assert_eq!(
            report.on_event(&BulkNews::Interval { omitted: true, rows: vec![got(0, 413e3), got(1, 182e3)] }),
            "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n\
             [  5]   0.00-1.00   sec  1.19 MBytes  9.96 Mbits/sec  0.413 ms  0/38 (0%)  (omitted)\n\
             [  7]   0.00-1.00   sec  1.19 MBytes  9.96 Mbits/sec  0.182 ms  0/38 (0%)  (omitted)\n\
             [SUM]   0.00-1.00   sec  2.38 MBytes  19.9 Mbits/sec  0.297 ms  0/76 (0%)  (omitted)\n"
        );
        let lossy = StreamRow { lost: 19, ..got(0, 0.0) };
        let told = report.on_event(&BulkNews::Interval { omitted: false, rows: vec![lossy] });
        assert!(told.starts_with(RULE) && told.contains("0.000 ms  19/38 (50%)  \n"), "{told}");
    }

    #[test]
    fn both_directions_have_roles() {
        let style = Style { format: 'm', verbose: true, intervals: true };
        let mut report = Report::new(style, Facts::default());
        let terms = BulkTerms { bidir: true, ..BulkTerms::usual() };
        let told = report.on_event(&begun(false, terms));
        assert!(
            told.contains(
                "Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 0 seconds, 10"
            )
        );
        let rows = vec![row(0, true, 1_000_000), row(1, false, 2_000_000)];
        let told = report.on_event(&BulkNews::Interval { omitted: false, rows });
        assert!(told.starts_with("[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd\n"));
        assert!(told.contains("[  5][TX-C]   0.00-1.00   sec   977 KBytes  8.00 Mbits/sec "), "{told}");
        assert!(told.contains("[  7][RX-C]   0.00-1.00   sec  1.91 MBytes  16.0 Mbits/sec "), "{told}");
    }
}
