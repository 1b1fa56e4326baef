//! iperf3's printed report of one test, line by line.

use super::disk::DiskFile;
use super::ends::{Side, sides};
use super::json::Facts;
use super::opening::{Call, accepted};
use super::units::amount;
use crate::{BulkBegun, BulkCpu, BulkEnded, BulkNews, BulkStream, BulkTerms, ServerOutput, StreamRow};
use compat::number::g;
use metrics::real;
use std::fmt::Write;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) format: char,
    pub(crate) verbose: bool,
    pub(crate) intervals: bool,
}

const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";

/// The report of one test, as it comes.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    style: Style,
    begun: Option<BulkBegun>,
    /// Lines of intervals have been printed.
    intervals: u64,
    file: Option<DiskFile>,
    /// A client's; otherwise it is a server's.
    call: Option<Box<Call>>,
}

/// The number that a stream is printed under. The original prints its file descriptor.
pub(super) fn socket(slot: u32) -> u32 {
    5 + 2 * slot
}

impl Report {
    /// A report that has said nothing.
    pub(crate) fn new(style: Style) -> Self {
        Report { style, begun: None, intervals: 0, file: None, call: None }
    }

    /// The same, of a test whose payload comes from a file or goes to one.
    #[must_use]
    pub(crate) fn with_file(self, file: Option<DiskFile>) -> Self {
        Report { file, ..self }
    }

    /// The same, of a client that asks for `terms`.
    #[must_use]
    pub(crate) fn of_client(self, facts: Facts, terms: BulkTerms) -> Self {
        Report { call: Some(Box::new(Call { facts, terms })), ..self }
    }

    /// The lines for what has become known.
    pub(crate) fn on_event(&mut self, news: &BulkNews) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = match news {
            BulkNews::Met { peer, cookie, at, .. } => match &self.call {
                Some(call) => call.lines(&mut out, cookie, *at, self.style.verbose),
                None => accepted(&mut out, peer, cookie, *at, self.style.verbose),
            },
            BulkNews::Begun(begun) => self.begun(&mut out, begun),
            BulkNews::Interval { omitted, rows } => self.interval(&mut out, *omitted, rows),
            BulkNews::Ended(ended) => self.ended(&mut out, ended),
            BulkNews::Failed { .. } => Ok(()),
        };
        out
    }

    fn begun(&mut self, out: &mut String, begun: &BulkBegun) -> std::fmt::Result {
        let terms = &begun.terms;
        for BulkStream { slot, local, remote, .. } in &begun.streams {
            let (from, to) = (local.ip().to_canonical(), remote.ip().to_canonical());
            let (here, there) = (local.port(), remote.port());
            writeln!(out, "[{:3}] local {from} port {here} connected to {to} port {there}", socket(*slot))?;
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
            )?;
        }
        self.begun = Some(begun.clone());
        Ok(())
    }

    /// The terms, and whether we sent first.
    fn terms(&self) -> (BulkTerms, bool) {
        let begun = self.begun.clone().unwrap_or_default();
        (begun.terms, begun.serving)
    }

    /// `[TX-C]` and the like, where both ends send.
    fn role(&self, terms: &BulkTerms, sender: bool, serving: bool) -> String {
        let end = if serving { 'S' } else { 'C' };
        match (terms.bidir, sender) {
            (false, _) => String::new(),
            (true, true) => format!("[TX-{end}]"),
            (true, false) => format!("[RX-{end}]"),
        }
    }

    fn header(terms: &BulkTerms, columns: &str) -> String {
        let role = if terms.bidir { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate{columns}\n")
    }

    fn interval(&mut self, out: &mut String, omitted: bool, rows: &[StreamRow]) -> std::fmt::Result {
        if !self.style.intervals {
            return Ok(());
        }
        let (terms, serving) = self.terms();
        if self.intervals == 0 {
            let sends = rows.first().is_some_and(|row| row.sender);
            out.push_str(&Self::header(
                &terms,
                match (terms.udp, sends, terms.bidir) {
                    (false, true, _) | (false, _, true) => "         Retr  Cwnd",
                    (false, false, false) => "",
                    (true, true, false) => "         Total Datagrams",
                    (true, ..) => "         Jitter    Lost/Total Datagrams",
                },
            ));
        } else if terms.all_streams() > 1 {
            out.push_str(RULE);
        }
        self.intervals += 1;
        let mark = if omitted { "(omitted)" } else { "" };
        for sender in [!serving, serving] {
            let mut sum = Side::default();
            let mut span = (0, 0);
            for row in rows.iter().filter(|row| row.sender == sender) {
                let side = Side::local(row);
                let role = self.role(&terms, sender, serving);
                let head =
                    self.head(&format!("{:3}", socket(row.slot)), &role, (row.start_ns, row.end_ns), &side);
                self.tail(out, &terms, sender, &head, &side, Some(row), mark)?;
                sum.add(&side);
                span = (row.start_ns, row.end_ns);
            }
            if sum.streams > 1 {
                let role = self.role(&terms, sender, serving);
                let head = self.head("SUM", &role, span, &sum);
                self.tail(out, &terms, sender, &head, &sum, None, mark)?;
            }
        }
        Ok(())
    }

    /// The columns that all lines have.
    fn head(&self, id: &str, role: &str, span: (u64, u64), side: &Side) -> String {
        let (from, to) = (real(span.0) / 1e9, real(span.1) / 1e9);
        let seconds = real(span.1.saturating_sub(span.0)) / 1e9;
        let rate = if seconds > 0.0 { real(side.bytes) / seconds } else { 0.0 };
        let (moved, rate) = (amount(real(side.bytes), 'A'), amount(rate, self.style.format));
        format!("[{id}]{role} {from:6.2}-{to:<6.2} sec  {moved}  {rate}/sec")
    }

    #[expect(clippy::too_many_arguments, reason = "one line of a table")]
    fn tail(
        &self,
        out: &mut String,
        terms: &BulkTerms,
        sender: bool,
        head: &str,
        side: &Side,
        row: Option<&StreamRow>,
        mark: &str,
    ) -> std::fmt::Result {
        let window = row.and_then(|row| row.info).map(|i| u64::from(i.cwnd) * u64::from(i.snd_mss));
        match (terms.udp, sender, side.retransmits, window) {
            (true, true, ..) => writeln!(out, "{head}  {}  {mark}", side.packets),
            (true, false, ..) => writeln!(out, "{head}  {}  {mark}", datagrams(side)),
            (false, true, Some(again), Some(window)) => {
                writeln!(out, "{head}  {again:3}   {}       {mark}", amount(real(window), 'A'))
            }
            (false, true, Some(again), None) => writeln!(out, "{head}  {again:3}             {mark}"),
            _ => writeln!(out, "{head}                  {mark}"),
        }
    }

    fn ended(&mut self, out: &mut String, ended: &BulkEnded) -> std::fmt::Result {
        let (terms, serving) = self.terms();
        out.push_str(RULE);
        if self.style.verbose {
            out.push_str("Test Complete. Summary Results:\n");
        }
        let resent = |row: &StreamRow| row.sender && row.retransmits.is_some();
        let remote_resent = ended.remote.iter().any(|row| row.retransmits.is_some());
        let columns = match (terms.udp, ended.local.iter().any(resent) || (!serving && remote_resent)) {
            (true, _) => "         Jitter    Lost/Total Datagrams",
            (false, true) => "         Retr",
            (false, false) => "",
        };
        out.push_str(&Self::header(&terms, columns));
        for sender in [!serving, serving] {
            let rows: Vec<&StreamRow> = ended.local.iter().filter(|row| row.sender == sender).collect();
            if !rows.is_empty() {
                self.summary(out, ended, &terms, serving, sender, &rows)?;
            }
        }
        self.server_output(out, ended)
    }

    fn summary(
        &self,
        out: &mut String,
        ended: &BulkEnded,
        terms: &BulkTerms,
        serving: bool,
        sender: bool,
        rows: &[&StreamRow],
    ) -> std::fmt::Result {
        let role = self.role(terms, sender, serving);
        let (mut sent_all, mut got_all) = (Side::default(), Side::default());
        for row in rows {
            let (sent, got) = sides(ended, row);
            // A server prints its own half.
            let (sent, got) = (sent.filter(|_| !serving || sender), got.filter(|_| !serving || !sender));
            let id = format!("{:3}", socket(row.slot));
            if let Some(sent) = sent {
                self.result(out, terms, &id, &role, &sent, true)?;
                sent_all.add(&sent);
            }
            if let Some(file) = &self.file {
                out.push_str(&file.line(row.bytes, sender));
            }
            if let Some(got) = got {
                self.result(out, terms, &id, &role, &got, false)?;
                got_all.add(&got);
            }
        }
        if rows.len() > 1 {
            if sent_all.streams > 0 {
                self.result(out, terms, "SUM", &role, &sent_all, true)?;
            }
            if got_all.streams > 0 {
                self.result(out, terms, "SUM", &role, &got_all, false)?;
            }
        }
        if self.style.verbose {
            let remote = ended.remote_cpu.unwrap_or_default();
            let (one, other) = if sender { ("sender", "receiver") } else { ("receiver", "sender") };
            let cpu = |cpu: &BulkCpu| format!("{:.1}% ({:.1}%u/{:.1}%s)", cpu.total, cpu.user, cpu.system);
            writeln!(
                out,
                "CPU Utilization: local/{one} {}, remote/{other} {}",
                cpu(&ended.cpu),
                cpu(&remote)
            )?;
            let names = [("snd", &ended.congestion), ("rcv", &ended.remote_congestion)];
            let names =
                if sender { names } else { [("snd", &ended.remote_congestion), ("rcv", &ended.congestion)] };
            for (which, name) in names {
                if let Some(name) = name {
                    writeln!(out, "{which}_tcp_congestion {name}")?;
                }
            }
        }
        Ok(())
    }

    fn result(
        &self,
        out: &mut String,
        terms: &BulkTerms,
        id: &str,
        role: &str,
        side: &Side,
        sent: bool,
    ) -> std::fmt::Result {
        let head = self.head(id, role, (0, side.ns), side);
        let who = if sent { "sender" } else { "receiver" };
        match (terms.udp, sent, side.retransmits) {
            (true, true, _) => writeln!(out, "{head}  0.000 ms  0/{} (0%)  {who}", side.packets),
            (true, false, _) => writeln!(out, "{head}  {}  {who}", datagrams(side)),
            (false, true, Some(again)) => writeln!(out, "{head}  {again:3}             {who}"),
            _ => writeln!(out, "{head}                  {who}"),
        }
    }

    fn server_output(&self, out: &mut String, ended: &BulkEnded) -> std::fmt::Result {
        match &ended.server_output {
            Some(ServerOutput::Text(text)) => writeln!(out, "\nServer output:\n{text}"),
            Some(ServerOutput::Json(text)) => writeln!(out, "\nServer JSON output:\n{text}"),
            None => Ok(()),
        }
    }
}

fn datagrams(side: &Side) -> String {
    let share = g(side.share(), 2);
    format!("{:5.3} ms  {}/{} ({share}%)", side.jitter_ms(), side.lost, side.packets)
}

/// What a server prints of one test, for a client that wants it.
pub(crate) fn server_output(news: &[crate::Bulk]) -> ServerOutput {
    let mut report = Report::new(Style { format: 'a', verbose: false, intervals: true });
    ServerOutput::Text(news.iter().map(|bulk| report.on_event(&bulk.news)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RemoteRow;

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
        let style = Style { format: 'a', verbose: false, intervals: true };
        let mut report = Report::new(style.clone());
        let info = metrics::TcpInfo { cwnd: 28, snd_mss: 32_741, ..metrics::TcpInfo::default() };
        assert_eq!(
            report.on_event(&begun(false, BulkTerms::default())),
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

        let mut report = Report::new(style);
        report.on_event(&begun(true, BulkTerms { udp: true, streams: 2, ..BulkTerms::default() }));
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
        let mut report = Report::new(Style { format: 'm', verbose: true, intervals: true });
        let terms = BulkTerms { bidir: true, ..BulkTerms::default() };
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
