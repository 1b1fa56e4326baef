//! The console report of ntttcp for Linux 1.4.3.

use super::args::{Role, Spec};
use super::files::{RETRANSMITS, Results, Thread};
use super::host::HostReading;
use super::sockets::Sockets;
use super::tables;
use crate::{Layout, SyncStep};
use compat::number::ratio;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use metrics::{Clamped, real};
use model::{Event, Failure, Outcome, Status, Totals, Traffic};
use std::fmt::{Display, Write as _};
use std::net::SocketAddr;

pub(super) const RULE: &str = "---------------------------------------------------------";
const PROGRESSING: &str = "Network activity progressing...";
const INTERRUPTED: &str = "Interrupted by Ctrl+C";

/// Prints a run as ntttcp does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printer {
    pub(super) spec: Spec,
    before: HostReading,
    after: HostReading,
    arrived: u32,
    /// Each port (receiver) or thread (sender).
    threads: Vec<Thread>,
    errors: u64,
    totals: Option<Box<Totals>>,
    /// Smoothed round-trip times of connections that have ended, µs: their sum and number.
    rtt_us: (u64, u64),
    /// Results for the files, once the test is over. The names of host and system are still to be
    /// filled in.
    pub(super) results: Option<Results>,
    tty: bool,
    sockets: Sockets,
    /// Start of the connects, ns since the start of the program.
    dialed: u64,
    /// Lines printed at most once.
    printed: Printed,
}

/// Lines that are printed at most once, at the latest at the end.
#[derive(Clone, Copy, Debug, Default)]
struct Printed {
    interrupted: bool,
    measured: bool,
    finished: bool,
}

/// When a line is printed: `HH:MM:SS`, and how long the program has run, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Now {
    pub(crate) day: String,
    /// Since the program began, ns.
    pub(crate) ns: u64,
}

/// Lines of the console that are printed at one time.
pub(super) struct Lines<'a> {
    now: &'a Now,
    pub(super) text: String,
}

impl Lines<'_> {
    pub(super) fn at(now: &Now) -> Lines<'_> {
        Lines { now, text: String::new() }
    }

    pub(super) fn line(&mut self, text: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{text}");
    }

    pub(super) fn info(&mut self, text: impl Display) {
        self.line(format_args!("{} INFO: {text}", self.now.day));
    }

    pub(super) fn debug(&mut self, text: impl Display) {
        self.line(format_args!("{} DBG : {text}", self.now.day));
    }

    fn error(&mut self, text: impl Display) {
        self.line(format_args!("{} ERR : {text}", self.now.day));
    }
}

impl Printer {
    /// For a run that is about to begin.
    pub(crate) fn new(spec: Spec, tty: bool) -> Printer {
        let threads = match spec.role {
            Role::Receiver => usize::from(spec.layout.ports),
            Role::Sender => usize::from(spec.layout.ports) * usize::clamped(spec.layout.threads),
        };
        // In the original a receiver's listeners and its epoll instance have the first numbers.
        let own = match (spec.role, spec.layout.sync) {
            (Role::Sender, _) => 0,
            (Role::Receiver, sync) => u32::from(spec.layout.ports) + if sync { 2 } else { 0 },
        };
        let threads = vec![Thread::default(); threads];
        Printer { sockets: Sockets::from(3 + own), spec, threads, tty, ..Printer::default() }
    }

    pub(super) fn sends(&self) -> bool {
        self.spec.role == Role::Sender
    }

    /// Takes an event in; returns its lines of the printout. `host` are the kernel's present
    /// counters.
    pub(crate) fn on_event(&mut self, event: &Event, now: &Now, host: &HostReading) -> String {
        let mut out = Lines::at(now);
        match event {
            Event::Established { local, remote, .. } => self.established(*local, *remote, &mut out),
            Event::Extra(_) if self.spec.windows => {}
            Event::Extra(_) => {
                if let Some(step) = SyncStep::of(event) {
                    self.step(step, &mut out);
                }
            }
            Event::Start { .. } => {
                (self.before, self.after) = (host.clone(), host.clone());
                match (self.spec.windows, self.spec.layout.sync) {
                    (true, _) => out.line(PROGRESSING),
                    (false, true) => out.info(PROGRESSING),
                    (false, false) => {}
                }
            }
            Event::Interval(interval) => self.interval(&interval.local, host, &mut out),
            Event::Portion(portion) => {
                let each = self.spec.layout.connections.max(1);
                let at = match self.spec.role {
                    Role::Sender => usize::clamped(portion.slot / each),
                    Role::Receiver => usize::from(portion.local.port().saturating_sub(self.spec.layout.port)),
                };
                if let Some(thread) = self.threads.get_mut(at) {
                    thread.bytes += portion.tx_bytes + portion.rx_bytes;
                    thread.calls += portion.calls;
                    let seconds = real(portion.to_ns.saturating_sub(portion.from_ns)) / 1e9;
                    thread.seconds = thread.seconds.max(seconds);
                }
            }
            Event::Connection(record) => {
                // Failed connects are retried; without any connection there is no report.
                let attempt =
                    matches!(&record.failure, Some(Failure::System { deed, .. }) if deed == "connect");
                self.errors += u64::from(record.error.is_some() && !attempt);
                if let Some(info) = record.tcp.filter(|info| info.rtt_us > 0) {
                    self.rtt_us.0 += u64::from(info.rtt_us);
                    self.rtt_us.1 += 1;
                }
                self.closed(record.local.map_or(0, |local| local.port()), record.remote, &mut out);
            }
            Event::Local(totals) => self.totals = Some(totals.clone()),
            Event::PhaseEnd { status, reason } => self.end(*status, reason.as_deref(), &mut out),
            _ => {}
        }
        out.text
    }

    fn interval(&mut self, local: &Traffic, host: &HostReading, out: &mut Lines<'_>) {
        // Traffic behind the last whole interval is reported when its connections have ended, which
        // is later.
        let rest = local.ns * 2 < self.spec.phase().interval_ns;
        let bytes = local.tx_bytes + local.rx_bytes;
        if (bytes > 0 && !rest) || self.after == self.before {
            self.after = host.clone();
        }
        if self.spec.quiet || self.spec.windows || rest || self.printed.measured {
            return;
        }
        let rate = throughput(bytes, local.ns);
        if self.tty {
            out.text.push_str(&format!("\x1b[2KReal-time throughput: {rate}\r"));
        } else {
            out.line(format_args!("Real-time throughput: {rate}"));
        }
    }

    fn established(&mut self, local: SocketAddr, remote: SocketAddr, out: &mut Lines<'_>) {
        self.arrived += 1;
        if self.spec.windows {
            return;
        }
        let udp = self.spec.layout.udp;
        if self.spec.verbose && (self.sends() || !udp) {
            self.opened(if udp { "Running UDP stream" } else { "New connection" }, local, remote, out);
        }
        if self.sends() && self.arrived == self.spec.layout.all() {
            let us = out.now.ns.saturating_sub(self.dialed) / 1_000;
            out.info(format_args!("{} connections created in {us} microseconds", self.arrived));
        }
    }

    /// Prints a new socket with its number.
    fn opened(&mut self, what: &str, local: SocketAddr, remote: SocketAddr, out: &mut Lines<'_>) {
        let number = self.sockets.open(local.port(), remote);
        let (port, peer) = (local.port(), format!("{}:{}", remote.ip().to_canonical(), remote.port()));
        if self.sends() {
            out.debug(format_args!("{what}: local:{port} [socket:{number}] --> {peer}"));
        } else {
            out.debug(format_args!("{what}: {peer} --> local:{port} [socket {number}]"));
        }
    }

    /// Releases a socket number; receivers print it.
    fn closed(&mut self, port: u16, remote: SocketAddr, out: &mut Lines<'_>) {
        let number = self.sockets.close(port, remote);
        if let Some(number) = number.filter(|_| self.spec.verbose && !self.sends()) {
            out.debug(format_args!("socket closed: {number}"));
        }
    }

    /// Prints a step of the test.
    fn step(&mut self, step: SyncStep, out: &mut Lines<'_>) {
        match step {
            SyncStep::Connected { local, remote } if self.spec.verbose => {
                self.opened("Sync connection", local, remote, out);
            }
            SyncStep::Connected { .. } => {}
            SyncStep::Closed { remote } => self.closed(self.spec.layout.port.saturating_sub(1), remote, out),
            SyncStep::Negotiated { seconds } => self.agreed(seconds, out),
            SyncStep::WaitingForLast => out.info("waiting for the last client to join the test"),
            SyncStep::NotMultiClient => [
                "one sender endpoint says it is the last client ('-L');",
                "but receiver currently is not running in multi-clients mode ('-M');",
                "this sender endpoint will be ignored.",
            ]
            .iter()
            .for_each(|text| out.error(text)),
            SyncStep::WarmupDone => out.info("Test warmup completed."),
            SyncStep::MeasurementDone { cooldown } => {
                self.measured(out);
                if cooldown {
                    out.info("Test cooldown is in progress...");
                }
            }
            SyncStep::StoppedBySender => out.info("test exited because sender side was interrupted"),
            SyncStep::CycleDone => self.finished(out),
            SyncStep::StopConfirmed => out.info("receiver exited from current test"),
            SyncStep::Interrupted => {
                self.printed.interrupted = true;
                out.info(INTERRUPTED);
            }
        }
    }

    /// Prints the negotiated length if it differs from ours, then the sender's threads.
    fn agreed(&mut self, seconds: u32, out: &mut Lines<'_>) {
        let (own, sends) = (self.spec.layout.seconds, self.sends());
        let differs =
            if sends { seconds != own } else { !self.spec.layout.multi && seconds != own && own > 0 };
        match seconds {
            _ if !differs => {}
            0 => out.info("test is negotiated to run with continuous mode"),
            s => out.info(format_args!("Test cycle time negotiated is: {s} seconds")),
        }
        if sends {
            self.dialed = out.now.ns;
            self.threads(out);
        }
    }

    fn measured(&mut self, out: &mut Lines<'_>) {
        if !std::mem::replace(&mut self.printed.measured, true) {
            if self.tty && !self.spec.quiet {
                out.line("");
            }
            out.info("Test run completed.");
        }
    }

    fn finished(&mut self, out: &mut Lines<'_>) {
        if !std::mem::replace(&mut self.printed.finished, true) {
            out.info("Test cycle finished.");
        }
    }

    fn end(&mut self, status: Status, reason: Option<&str>, out: &mut Lines<'_>) {
        if let Some(reason) = reason.filter(|_| matches!(status, Status::Failed | Status::Partial)) {
            self.failure(reason, out);
        }
        let Some(totals) = self.totals.take() else { return };
        let results = self.summed(&totals);
        if !self.spec.windows {
            if status == Status::Interrupted && !self.printed.interrupted {
                out.info(INTERRUPTED);
            }
            self.measured(out);
            self.finished(out);
            self.report(&results, totals.traffic.ns, out);
        } else if self.spec.xml.is_none() {
            // With -xml the original prints no tables.
            tables::write(&self.spec, &results, out);
        }
        self.results = Some(results);
    }

    /// Prints why the test failed or was cut short, in the original's words where it has them.
    fn failure(&self, reason: &str, out: &mut Lines<'_>) {
        if self.spec.windows {
            return out.line(format_args!("ERROR: {reason}"));
        }
        let lines: &[&str] = match reason {
            Layout::BUSY => &[
                "receiver is busy with an existing test running",
                "sender: receiver is busy with another test",
            ],
            Layout::REFUSED => &[
                "receiver is not ready to run test with this sender",
                "sender: receiver refuse to start test right now",
            ],
            other => &[other],
        };
        lines.iter().for_each(|text| out.error(text));
    }

    /// Results, without names.
    fn summed(&self, totals: &Totals) -> Results {
        // The original asks for round-trip times with -V only.
        let timed = self.sends() && self.spec.verbose && !self.spec.windows;
        Results {
            bytes: totals.traffic.tx_bytes + totals.traffic.rx_bytes,
            seconds: real(totals.traffic.ns) / 1e9,
            threads: self.threads.clone(),
            errors: self.errors,
            connections: totals.opened,
            host: self.after.since(&self.before),
            cpu_s: totals.cpu.map_or(0.0, |cpu| cpu.process_s()),
            rtt_us: self.rtt_us.0.checked_div(self.rtt_us.1).filter(|_| timed),
            ..Results::default()
        }
    }

    /// Prints the totals of a test of `ns` nanoseconds.
    fn report(&self, results: &Results, ns: u64, out: &mut Lines<'_>) {
        let Results { bytes, seconds, host, .. } = results;
        if self.spec.verbose {
            out.info("\tThread\tTime(s)\tThroughput");
            out.info("\t======\t=======\t==========");
            for (index, thread) in results.threads.iter().enumerate() {
                out.info(format_args!("\t{index}\t {seconds:.2}\t {}", throughput(thread.bytes, ns)));
            }
        }
        if self.sends() {
            out.info(format_args!("{} connections tested", results.connections));
        }
        out.info("#####  Totals:  #####");
        out.info(format_args!("test duration\t:{seconds:.2} seconds"));
        out.info(format_args!("total bytes\t:{bytes}"));
        out.info(format_args!("\t throughput\t:{}", throughput(*bytes, ns)));
        if !self.spec.layout.udp {
            out.info(format_args!("\t retrans segs\t:{}", host.retransmits[0]));
        }
        self.counters(host, *seconds, out);
        out.info(format_args!("cpu cores\t:{}", host.cores));
        out.info(format_args!("\t cpu speed\t:{:.3}MHz", host.mhz));
        for (name, class) in
            [("user\t\t", 0), ("system\t\t", 2), ("idle\t\t", 3), ("iowait\t\t", 4), ("softirq\t", 6)]
        {
            out.info(format_args!("\t {name}:{:.2}%", host.share(class) * 100.0));
        }
        out.info(format_args!("\t cycles/byte\t:{:.2}", results.cycles()));
        out.info(format_args!("cpu busy (all)\t:{:.2}%", ratio(results.cpu_s * 100.0, *seconds)));
        if let Some(rtt) = results.rtt_us {
            out.info(format_args!("tcpi rtt\t\t:{rtt} us"));
        }
        out.line(RULE);
    }

    fn counters(&self, host: &HostReading, seconds: f64, out: &mut Lines<'_>) {
        let per_second = |n: u64| ratio(n, seconds);
        if self.spec.retransmits {
            out.info("tcp retransmit:");
            for (name, n) in RETRANSMITS.iter().zip(host.retransmits) {
                let name = name.trim_end_matches("_per_sec");
                out.info(format_args!("\t {name}/sec\t:{:.2}", per_second(n)));
            }
        }
        let (sent, received) = host.packets;
        if self.spec.nic.is_some() {
            out.info("total packets:");
            out.info(format_args!("\t tx_packets\t:{sent}"));
            out.info(format_args!("\t rx_packets\t:{received}"));
        }
        if self.spec.interrupts.is_some() {
            out.info("interrupts:");
            out.info(format_args!("\t total\t\t:{}", host.interrupts));
            out.info(format_args!("\t interrupts/sec\t:{:.3}", per_second(host.interrupts)));
            if self.spec.nic.is_some() {
                let each = real(sent + received) / real(host.interrupts.max(1));
                out.info(format_args!("\t pkts/interrupt\t:{each:.2}"));
            }
        }
    }
}

/// Bits per second, divided by 1000 as long as there are more than 1000 of them, up to Gbps.
fn throughput(bytes: u64, ns: u64) -> String {
    let mut value = if ns == 0 { 0.0 } else { real(bytes) * 8e9 / real(ns) };
    let mut unit = 0;
    while value > 1000.0 && unit < 3 {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.2}{}", ["bps", "Kbps", "Mbps", "Gbps"][unit])
}

/// The time of day of an instant (ns since the epoch) as the original prints it, here.
pub(crate) fn time_of_day(ns: i64) -> String {
    let at = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// A saved run as ntttcp would have printed it.
pub(crate) fn print(outcome: &Outcome, events: &[Event]) -> String {
    let Some(point) = outcome.points.first() else { return String::new() };
    let role = if outcome.begin.verb == "serve" { Role::Receiver } else { Role::Sender };
    let started = point.started.unwrap_or(outcome.begin.started).0;
    let spec = Spec {
        role,
        layout: Layout { ports: 1, ..Layout::default() },
        role_given: true,
        quiet: true,
        ..Spec::default()
    };
    let mut printer = Printer::new(spec, false);
    let now = Now { day: time_of_day(started), ns: 0 };
    let banner = printer.banner(&now);
    let elapsed = i64::try_from(point.local.traffic.ns).unwrap_or(0);
    let now = Now { day: time_of_day(started.saturating_add(elapsed)), ns: 0 };
    let nothing = HostReading::default();
    let told = |event: &&Event| matches!(event, Event::Local(_) | Event::PhaseEnd { .. });
    let lines = events.iter().filter(told).map(|event| printer.on_event(event, &now, &nothing));
    std::iter::once(banner).chain(lines).collect()
}

#[cfg(test)]
mod tests;
