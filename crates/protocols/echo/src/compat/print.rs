//! The client's printout: settings, progress lines, results.

use super::args::{Client, PORT};
use super::sums::{Rows, STEPS, Times, mbps};
use compat::Text;
use metrics::{Clamped, real};
use model::{ConnectionRecord, Echo, Event, Failure, Kind, Outcome, PingCounts, PingRow, Transport};

/// Messages at the start that are not in the results, unless asked for.
const FIRST: u64 = 500;

/// Prints a run as RtTcpipClient does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printer {
    client: Client,
    /// The connection that runs, from 1.
    at: u64,
    connected: bool,
    /// Of the whole run: processed messages and errors, the base of the results.
    packets: u64,
    errors: u64,
    lost: i64,
    late: u64,
    used: u64,
    times: Times,
    rows: Rows,
    here: (u64, u64),
    /// A connection was aborted.
    aborted: bool,
    /// Since the last progress line.
    block: (u64, Times),
    over: bool,
}

impl Printer {
    /// For a run that is about to begin.
    pub(crate) fn new(client: Client) -> Printer {
        Printer { client, ..Printer::default() }
    }

    /// Messages without a timely and whole echo, or not sent.
    pub(crate) fn failures(&self) -> u64 {
        self.errors + self.late + u64::try_from(self.lost).unwrap_or(0)
    }

    /// Takes an event in; returns its lines of the printout.
    pub(crate) fn on_event(&mut self, event: &Event) -> String {
        let (mut banner, mut text) = (Text::default(), Text::default());
        let out = &mut text;
        match event {
            Event::Start { .. } => {
                self.banner(&mut banner);
                self.begin_loop(out);
            }
            Event::Pings { rows } => rows.iter().for_each(|row| self.row(row, out)),
            Event::Connection(record) => self.end_loop(record, out),
            // A message that was refused before it left is an error of its own, unless such
            // refusals aborted a connection; one that the peer's host refused is lost.
            Event::Local(totals) if !self.aborted => {
                self.errors += totals.pings.as_ref().map_or(0, |pings| unsent(&pings.counts));
            }
            Event::PhaseEnd { .. } if !std::mem::replace(&mut self.over, true) => self.results(out),
            _ => {}
        }
        if self.client.silent { banner.0 } else { banner.0 + &text.0 }
    }

    fn banner(&self, out: &mut Text) {
        let c = &self.client;
        writeln!(out, "*** RtTcpIpClient: WinSock started ***");
        writeln!(out, "*** Message Size = {} ***", c.size);
        writeln!(out, "*** Connection Loops = {} ***", c.loops);
        writeln!(out, "*** Message Loops = {} ***", c.messages);
        writeln!(out, "*** Port = {} ***", c.port);
        writeln!(out, "*** SocketType = {} ***", if c.udp { "UDP" } else { "TCP" });
        let not = if c.include_first { "" } else { "Do Not " };
        writeln!(out, "*** {not}Include the first {FIRST} packets in Performance measurement ***");
        writeln!(out, "Using server address : {}", c.server());
    }

    fn begin_loop(&mut self, out: &mut Text) {
        (self.at, self.connected, self.here) = (self.at + 1, false, (0, 0));
        self.block = (0, Times::default());
        writeln!(out, "*** Socket loop ({} of {}) ***", self.at, self.client.loops);
        writeln!(out, "*** Client: socket created({}) ***", self.socket());
        if self.client.udp {
            return;
        }
        writeln!(out, "*** TimeStamp is Disabled ***");
        let nagle = if self.client.nagle { "Enabled" } else { "Disabled" };
        writeln!(out, "*** Nagle Algorithm is {nagle} ***");
    }

    /// Stand-in for the original's handle: the number of the connection, from 0.
    fn socket(&self) -> u64 {
        self.at.saturating_sub(1)
    }

    /// Prints the line of the connection, once: it precedes the connection's first result.
    fn connect(&mut self, out: &mut Text) {
        if std::mem::replace(&mut self.connected, true) {
            return;
        }
        writeln!(out, "*** Client: connected socket({})***", self.socket());
    }

    fn row(&mut self, row: &PingRow, out: &mut Text) {
        self.connect(out);
        if row.echo == Echo::Late {
            (self.late, self.lost) = (self.late + 1, self.lost - 1);
            return;
        }
        self.packets += 1;
        self.here.0 += 1;
        self.block.0 += 1;
        let counts = self.all_count() || self.packets > FIRST;
        match (row.echo, row.rtt_ns) {
            (Echo::InTime, Some(ns)) => {
                self.block.1.add(ns);
                if counts {
                    self.used += 1;
                    self.times.add(ns);
                    self.rows.add(ns, 1);
                }
            }
            (Echo::Damaged, _) => {
                self.errors += 1;
                self.here.1 += 1;
            }
            _ => self.lost += 1,
        }
        if self.block.0 == self.client.every {
            self.progress(out);
        }
    }

    /// True if the results count the first packets, as the original's do against its own banner.
    fn all_count(&self) -> bool {
        self.client.include_first || self.client.as_original
    }

    fn progress(&mut self, out: &mut Text) {
        let (_, times) = std::mem::take(&mut self.block);
        let (packets, errors) = (self.packets, self.errors);
        let as_original = self.client.as_original;
        let told = times.mean_us().map(|mean| {
            let rate = mbps(self.client.size, mean, as_original);
            let rate = match self.client.fine {
                true => format!("{rate:.3}"),
                false => format!("{:.0}", if as_original { rate.trunc() } else { rate }),
            };
            let [min, max] = [times.min_ns, times.max_ns].map(|ns| (ns / 1000).to_string());
            [min, max, u64::clamped(mean).to_string(), rate]
        });
        let [min, max, mean, rate] = told.unwrap_or_else(|| [(); 4].map(|()| "-".to_owned()));
        writeln!(
            out,
            "{packets} packets ({errors} errors) min {min} us max {max} us avg {mean} us rate {rate} Mbps"
        );
    }

    fn end_loop(&mut self, record: &ConnectionRecord, out: &mut Text) {
        // Damaged messages have been counted one by one.
        if record.failure.as_ref().is_some_and(|why| *why != Failure::BadData) {
            self.aborted = true;
            self.errors += 1;
            self.here.1 += 1;
            if let Some(text) = &record.error {
                writeln!(out, "*** Client: {text} ***");
            }
        }
        let (packets, errors) = self.here;
        writeln!(out, "{packets} packet processed, {errors} Errors, closing socket {}", self.socket());
        if self.at < self.client.loops {
            self.begin_loop(out);
        }
    }

    fn results(&self, out: &mut Text) {
        let c = &self.client;
        writeln!(out, "*** Test Results ***");
        writeln!(out, "Packet Size = {} bytes", c.size);
        writeln!(out, "Connections = {}", c.loops);
        writeln!(out, "Messages / Connection = {}", c.messages);
        let us = |ns: u64| if self.times.count == 0 { "-".to_owned() } else { (ns / 1000).to_string() };
        writeln!(out, "Minimum Time = {} us", us(self.times.min_ns));
        writeln!(out, "Maximum Time = {} us", us(self.times.max_ns));
        writeln!(out, "Errors = {}", self.errors);
        writeln!(out, "Lost Packets = {}", self.lost.max(0));
        writeln!(out, "Packets received after timeout ({} ms) = {}", c.timeout_ms, self.late);
        writeln!(out, "Distribution...");
        for (row, n) in self.rows.0.iter().enumerate().take(STEPS + 1) {
            let share = 100.0 * real(*n) / real(self.used.max(1));
            writeln!(out, "{} {n} packets ({share:.3} %)", Rows::name(row));
        }
        writeln!(out, "Total packets = {}", self.used);
        if !self.all_count() {
            let left = self.packets.min(FIRST);
            let hint = if self.used == 0 && left > 0 { "; b=1 includes them" } else { "" };
            let used = self.used;
            writeln!(out, "(times and distribution of {used} packets; the first {left} are excluded{hint})");
        }
    }
}

/// Messages that the system refused to send.
fn unsent(counts: &PingCounts) -> u64 {
    counts.refused.min(counts.missed)
}

/// A saved run as RtTcpipClient would have printed it, from its totals: the outcome holds no single
/// messages.
///
/// # Errors
/// When the run measured something else.
pub(crate) fn print(outcome: &Outcome, events: &[Event]) -> Result<String, String> {
    let Some(point) = outcome.points.iter().find(|p| p.phase.kind == Kind::Ping) else {
        return Err("the run measured no round trips, which is all that RtTcpip prints".to_owned());
    };
    let ping = point.phase.ping.unwrap_or_default();
    let remote = events.iter().find_map(|event| match event {
        Event::Connection(record) => Some(record.remote),
        _ => None,
    });
    let client = Client {
        address: remote.map(|at| at.ip().into()),
        port: remote.map_or(PORT, |at| at.port()),
        include_first: true,
        loops: point.local.opened.max(1),
        messages: ping.messages.unwrap_or(point.local.pings.as_ref().map_or(0, |p| p.counts.sent)),
        size: ping.size,
        timeout_ms: ping.timeout_ns / 1_000_000,
        udp: ping.transport == Transport::Udp,
        nagle: !point.phase.sockets.nodelay,
        ..Client::new()
    };
    let mut printer = Printer::new(client);
    let mut out = Text::default();
    printer.banner(&mut out);
    if let Some(trips) = &point.local.pings {
        let counts = trips.counts;
        let aborted = point.local.network_errors;
        printer.errors = counts.damaged + if aborted > 0 { aborted } else { unsent(&counts) };
        (printer.lost, printer.late) = (counts.lost, counts.late);
        // The original leaves out echoes after the timeout.
        let in_time = |&&(ns, _): &&(u64, u64)| !printer.client.udp || ns <= ping.timeout_ns;
        let in_time: Vec<_> =
            trips.rtt_ns.iter().flat_map(|rtt| rtt.counts.iter().filter(in_time)).copied().collect();
        for &(ns, n) in &in_time {
            printer.rows.add(ns, n);
            printer.used = printer.used.saturating_add(n);
        }
        if let Some((rtt, last)) = trips.rtt_ns.as_ref().zip(in_time.last()) {
            printer.times.add(rtt.min);
            printer.times.add(rtt.max.min(last.0));
        }
    }
    printer.results(&mut out);
    Ok(out.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Ending, Spectrum, Wall};
    use model::{Phase, Point, RoundTrips, Status, Totals};

    fn row(seq: u64, echo: Echo, us: u64) -> PingRow {
        let rtt_ns = (echo != Echo::Missing).then_some(us * 1000);
        PingRow { slot: 0, seq, intended_ns: 0, sent_ns: 0, rtt_ns, remote_ns: None, echo }
    }

    fn record(failure: Option<Failure>) -> Event {
        Event::Connection(Box::new(ConnectionRecord {
            id: uuid::Uuid::nil(),
            local: None,
            remote: ([10, 0, 0, 1], 9999).into(),
            ended_ns: 0,
            tx_bytes: 0,
            rx_bytes: 0,
            connect_ns: None,
            duration_ns: 0,
            result: Ending::Completed,
            error: failure.as_ref().map(|_| "connecting: refused".to_owned()),
            failure,
            tcp: None,
            frames: None,
        }))
    }

    fn run(client: Client, events: &[Event]) -> (Vec<String>, Printer) {
        let mut printer = Printer::new(client);
        let start = Event::Start { at: Wall(0) };
        let end = Event::PhaseEnd { status: Status::Complete, reason: None };
        let all = std::iter::once(&start).chain(events).chain([&end]);
        let text: String = all.map(|event| printer.on_event(event)).collect();
        (text.lines().map(str::to_owned).collect(), printer)
    }

    fn client() -> Client {
        Client {
            address: Some(std::net::IpAddr::from([10, 0, 0, 1]).into()),
            messages: 10,
            every: 5,
            include_first: true,
            ..Client::new()
        }
    }

    #[test]
    fn lines_are_those_of_the_original() {
        let rows = (0..10).map(|n| row(n, Echo::InTime, 120 + n * 2)).collect();
        let (lines, printer) = run(client(), &[Event::Pings { rows }, record(None)]);
        let want = [
            "*** RtTcpIpClient: WinSock started ***",
            "*** Message Size = 1024 ***",
            "*** Connection Loops = 1 ***",
            "*** Message Loops = 10 ***",
            "*** Port = 9999 ***",
            "*** SocketType = TCP ***",
            "*** Include the first 500 packets in Performance measurement ***",
            "Using server address : 10.0.0.1",
            "*** Socket loop (1 of 1) ***",
            "*** Client: socket created(0) ***",
            "*** TimeStamp is Disabled ***",
            "*** Nagle Algorithm is Disabled ***",
            "*** Client: connected socket(0)***",
            // The second line is of its own five only. 16 * 1024 bits in 124 and in 134 us.
            "5 packets (0 errors) min 120 us max 128 us avg 124 us rate 132 Mbps",
            "10 packets (0 errors) min 130 us max 138 us avg 134 us rate 122 Mbps",
            "10 packet processed, 0 Errors, closing socket 0",
            "*** Test Results ***",
            "Packet Size = 1024 bytes",
            "Connections = 1",
            "Messages / Connection = 10",
            "Minimum Time = 120 us",
            "Maximum Time = 138 us",
            "Errors = 0",
            "Lost Packets = 0",
            "Packets received after timeout (1000 ms) = 0",
            "Distribution...",
            "0us-<200us 10 packets (100.000 %)",
        ];
        assert_eq!(lines[..want.len()], want);
        assert_eq!(lines.len(), want.len() + 12);
        assert_eq!(lines[lines.len() - 2..], [">2200us 0 packets (0.000 %)", "Total packets = 10"]);
        assert_eq!(printer.failures(), 0);
    }

    #[test]
    fn rates_are_true_unless_the_original_s_are_asked_for() {
        let rows: Vec<PingRow> = (0..5).map(|n| row(n, Echo::InTime, 124)).collect();
        let rate = |client: Client| {
            let (lines, _) = run(client, &[Event::Pings { rows: rows.clone() }]);
            lines.iter().find_map(|l| l.split_once(" rate ").map(|(_, rate)| rate.to_owned())).unwrap()
        };
        assert_eq!(rate(client()), "132 Mbps");
        assert_eq!(rate(Client { fine: true, ..client() }), "132.129 Mbps");
        // 16000 / 124 = 129.03
        assert_eq!(rate(Client { as_original: true, ..client() }), "129 Mbps");
        assert_eq!(rate(Client { as_original: true, fine: true, ..client() }), "129.032 Mbps");
    }

    #[test]
    fn the_first_500_are_truly_excluded() {
        let rows: Vec<PingRow> =
            (0..600).map(|n| row(n, Echo::InTime, if n < 500 { 5000 } else { 150 })).collect();
        let c = Client { include_first: false, messages: 600, every: 500, ..client() };
        let (lines, _) = run(c.clone(), &[Event::Pings { rows: rows.clone() }, record(None)]);
        let line = "*** Do Not Include the first 500 packets in Performance measurement ***";
        assert_eq!(lines[6], line);
        assert!(
            lines.contains(
                &"500 packets (0 errors) min 5000 us max 5000 us avg 5000 us rate 3 Mbps".to_owned()
            )
        );
        assert!(lines.contains(&"Maximum Time = 150 us".to_owned()));
        assert!(lines.contains(&"Total packets = 100".to_owned()));
        assert_eq!(
            lines.last().unwrap(),
            "(times and distribution of 100 packets; the first 500 are excluded)"
        );
        // The samples of the manual say so, and have all.
        let original = Client { as_original: true, ..c };
        let (lines, _) = run(original, &[Event::Pings { rows }, record(None)]);
        assert_eq!((lines[6].as_str(), lines.last().unwrap().as_str()), (line, "Total packets = 600"));
    }

    #[test]
    fn late_lost_and_damaged_are_told_apart() {
        let rows = vec![
            row(0, Echo::InTime, 100),
            row(1, Echo::Missing, 0),
            row(2, Echo::Missing, 0),
            row(1, Echo::Late, 1_500_000),
            row(3, Echo::Damaged, 100),
        ];
        let c = Client { udp: true, messages: 4, every: 4, loops: 2, ..client() };
        let (lines, printer) = run(
            c,
            &[
                Event::Pings { rows },
                record(Some(Failure::BadData)),
                record(Some(Failure::Other)),
                refused(2, 2),
            ],
        );
        for line in [
            "4 packets (1 errors) min 100 us max 100 us avg 100 us rate 164 Mbps",
            "4 packet processed, 1 Errors, closing socket 0",
            "*** Socket loop (2 of 2) ***",
            "0 packet processed, 1 Errors, closing socket 1",
            // One was damaged, and a connection was aborted, which its refused messages explain.
            "Errors = 2",
            "Lost Packets = 1",
            "Packets received after timeout (1000 ms) = 1",
        ] {
            assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
        }
        assert!(!lines.iter().any(|l| l.contains("TimeStamp") || l.contains("Nagle")), "they are TCP's");
        assert_eq!(printer.failures(), 4);
    }

    /// The totals of a run with so many refusals, of which so many before the message had left.
    fn refused(refused: u64, missed: u64) -> Event {
        let counts = PingCounts { refused, missed, ..PingCounts::default() };
        let pings = Some(Box::new(RoundTrips { counts, ..RoundTrips::default() }));
        Event::Local(Box::new(Totals { pings, ..Totals::default() }))
    }

    #[test]
    fn an_event_is_counted_once() {
        let lost = || Event::Pings { rows: vec![row(0, Echo::Missing, 0), row(1, Echo::Missing, 0)] };
        let told = |events: &[Event], line: &str| {
            let (lines, _) = run(Client { udp: true, messages: 10, ..client() }, events);
            assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
        };
        // No program listens: two messages are lost, a third is refused, and the connection is
        // given up.
        let closed = [lost(), record(Some(Failure::Other)), refused(3, 1)];
        told(&closed, "2 packet processed, 1 Errors, closing socket 0");
        told(&closed, "Errors = 1");
        told(&closed, "Lost Packets = 2");
        // Refusals that came back are of messages that are lost; a message that did not leave is an
        // error.
        told(&[lost(), record(None), refused(2, 0)], "Errors = 0");
        told(&[lost(), record(None), refused(2, 1)], "Errors = 1");
    }

    #[test]
    fn a_run_that_is_shorter_than_what_is_excluded_says_how_to_include_it() {
        let rows = (0..10).map(|n| row(n, Echo::InTime, 100)).collect();
        let c = Client { include_first: false, ..client() };
        let (lines, _) = run(c, &[Event::Pings { rows }, record(None)]);
        let last = "(times and distribution of 0 packets; the first 10 are excluded; b=1 includes them)";
        assert_eq!(lines.last().unwrap(), last);
    }

    #[test]
    fn a_saved_run_with_counts_beyond_64_bits_is_printed_at_once() {
        let counts = vec![(100_000, u64::MAX); 2];
        let rtt = Spectrum { min: 100_000, max: 100_000, counts, ..Spectrum::default() };
        let trips = RoundTrips { rtt_ns: Some(rtt), ..RoundTrips::default() };
        let point = Point {
            phase: Phase { kind: Kind::Ping, ..Phase::default() },
            local: Totals { pings: Some(Box::new(trips)), ..Totals::default() },
            ..Point::default()
        };
        let outcome = Outcome { points: vec![point], ..Outcome::default() };
        let text = print(&outcome, &[]).unwrap();
        assert!(text.contains("0us-<200us 18446744073709551615 packets (100.000 %)"), "{text}");
    }

    #[test]
    fn silence_begins_after_the_start() {
        let rows = (0..5).map(|n| row(n, Echo::InTime, 100)).collect();
        let (lines, _) = run(Client { silent: true, ..client() }, &[Event::Pings { rows }, record(None)]);
        assert_eq!(lines.last().unwrap(), "Using server address : 10.0.0.1");
    }
}
