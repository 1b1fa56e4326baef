//! The console report of ntttcp for Linux 1.4.3.

use super::args::{Role, Spec};
use super::files::{RETRANSMITS, Results, Thread};
use super::host::Reading;
use super::sockets::Sockets;
use super::tables;
use crate::{Layout, SyncStep};
use compat::number::ratio;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use metrics::{Clamped, real};
use model::{Event, Failure, Outcome, Status, Totals};
use std::io::{self, Write};
use std::net::SocketAddr;

pub(super) const RULE: &str = "---------------------------------------------------------";

/// Prints a run as ntttcp does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printer {
    pub(super) spec: Spec,
    before: Reading,
    after: Reading,
    arrived: u32,
    /// Each port (receiver) or thread (sender).
    threads: Vec<Thread>,
    errors: u64,
    totals: Option<Box<Totals>>,
    /// Smoothed round-trip times of connections that have ended, µs: their sum and number.
    rtt_us: (u64, u64),
    results: Option<Results>,
    tty: bool,
    failed: bool,
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

impl Printer {
    /// For a run that is about to begin.
    pub(crate) fn new(spec: Spec, tty: bool) -> Printer {
        let threads = match spec.role {
            Role::Receiver => usize::from(spec.layout.ports),
            Role::Sender => usize::from(spec.layout.ports) * usize::clamped(spec.layout.threads),
        };
        // In the original a receiver's listeners and its epoll instance come first.
        let own = match (spec.role, spec.layout.sync) {
            (Role::Sender, _) => 0,
            (Role::Receiver, sync) => u32::from(spec.layout.ports) + if sync { 2 } else { 0 },
        };
        let threads = vec![Thread::default(); threads];
        Printer { sockets: Sockets::from(3 + own), spec, threads, tty, ..Printer::default() }
    }

    /// What was results, once it is: for the files. The names of host and system are still to be filled in.
    pub(crate) fn results(&self) -> Option<&Results> {
        self.results.as_ref()
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    pub(super) fn sends(&self) -> bool {
        self.spec.role == Role::Sender
    }

    /// Takes an event in and prints what it is worth; `host` is what the kernel says now.
    pub(crate) fn on_event(
        &mut self,
        event: &Event,
        now: &Now,
        host: &Reading,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match event {
            Event::Established { local, remote, .. } => self.established(*local, *remote, now, out),
            Event::Extra(_) if self.spec.windows => Ok(()),
            Event::Extra(_) => {
                let Some(step) = SyncStep::of(event) else { return Ok(()) };
                self.step(step, now, out)?;
                out.flush()
            }
            Event::Start { .. } => {
                (self.before, self.after) = (host.clone(), host.clone());
                if self.spec.windows {
                    writeln!(out, "Network activity progressing...")?;
                } else if self.spec.layout.sync {
                    writeln!(out, "{} INFO: Network activity progressing...", now.day)?;
                }
                out.flush()
            }
            Event::Interval(interval) => {
                let local = interval.local;
                // What is left of the test behind the last whole interval is told when its connections have ended, which is
                // later.
                let rest = local.ns * 2 < self.spec.phase().interval_ns;
                let moved = local.tx_bytes + local.rx_bytes > 0;
                if (moved && !rest) || self.after == self.before {
                    self.after = host.clone();
                }
                if self.spec.quiet || self.spec.windows || rest || self.printed.measured {
                    return Ok(());
                }
                let rate = throughput(local.tx_bytes + local.rx_bytes, local.ns);
                if self.tty {
                    write!(out, "\x1b[2KReal-time throughput: {rate}\r")?;
                } else {
                    writeln!(out, "Real-time throughput: {rate}")?;
                }
                out.flush()
            }
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
                Ok(())
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
                self.closed(record.local.map_or(0, |local| local.port()), record.remote, now, out)
            }
            Event::Local(totals) => {
                self.totals = Some(totals.clone());
                Ok(())
            }
            Event::PhaseEnd { status, reason } => self.end(*status, reason.as_deref(), now, out),
            _ => Ok(()),
        }
    }

    fn established(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        now: &Now,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.arrived += 1;
        if self.spec.windows {
            return Ok(());
        }
        let (day, udp) = (&now.day, self.spec.layout.udp);
        if self.spec.verbose && (self.sends() || !udp) {
            let what = if udp { "Running UDP stream" } else { "New connection" };
            self.opened(what, local, remote, day, out)?;
        }
        if self.sends() && self.arrived == self.spec.layout.all() {
            let us = now.ns.saturating_sub(self.dialed) / 1_000;
            writeln!(out, "{day} INFO: {} connections created in {us} microseconds", self.arrived)?;
        }
        out.flush()
    }

    /// Prints a new socket with its number.
    fn opened(
        &mut self,
        what: &str,
        local: SocketAddr,
        remote: SocketAddr,
        day: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let number = self.sockets.open(local.port(), remote);
        let (port, peer) = (local.port(), format!("{}:{}", remote.ip().to_canonical(), remote.port()));
        if self.sends() {
            writeln!(out, "{day} DBG : {what}: local:{port} [socket:{number}] --> {peer}")
        } else {
            writeln!(out, "{day} DBG : {what}: {peer} --> local:{port} [socket {number}]")
        }
    }

    /// Releases a socket number; receivers print it.
    fn closed(&mut self, port: u16, remote: SocketAddr, now: &Now, out: &mut dyn Write) -> io::Result<()> {
        match self.sockets.close(port, remote) {
            Some(number) if self.spec.verbose && !self.sends() => {
                writeln!(out, "{} DBG : socket closed: {number}", now.day)
            }
            _ => Ok(()),
        }
    }

    /// Prints a step of the test.
    fn step(&mut self, step: SyncStep, now: &Now, out: &mut dyn Write) -> io::Result<()> {
        let day = &now.day;
        let mut info = |text: &str| writeln!(out, "{day} INFO: {text}");
        match step {
            SyncStep::Connected { local, remote } if self.spec.verbose => {
                self.opened("Sync connection", local, remote, day, out)
            }
            SyncStep::Connected { .. } => Ok(()),
            SyncStep::Closed { remote } => {
                self.closed(self.spec.layout.port.saturating_sub(1), remote, now, out)
            }
            SyncStep::Negotiated { seconds } => self.agreed(seconds, now, out),
            SyncStep::WaitingForLast => info("waiting for the last client to join the test"),
            SyncStep::NotMultiClient => [
                "one sender endpoint says it is the last client ('-L');",
                "but receiver currently is not running in multi-clients mode ('-M');",
                "this sender endpoint will be ignored.",
            ]
            .iter()
            .try_for_each(|text| writeln!(out, "{day} ERR : {text}")),
            SyncStep::WarmupDone => info("Test warmup completed."),
            SyncStep::MeasurementDone { cooldown } => {
                self.measured(day, out)?;
                if cooldown { writeln!(out, "{day} INFO: Test cooldown is in progress...") } else { Ok(()) }
            }
            SyncStep::StoppedBySender => info("test exited because sender side was interrupted"),
            SyncStep::CycleDone => self.finished(day, out),
            SyncStep::StopConfirmed => info("receiver exited from current test"),
            SyncStep::Interrupted => {
                self.printed.interrupted = true;
                info("Interrupted by Ctrl+C")
            }
        }
    }

    /// Prints the negotiated length if it differs from ours, then the sender's threads.
    fn agreed(&mut self, seconds: u32, now: &Now, out: &mut dyn Write) -> io::Result<()> {
        let (day, own, sends) = (&now.day, self.spec.layout.seconds, self.sends());
        let differs =
            if sends { seconds != own } else { !self.spec.layout.multi && seconds != own && own > 0 };
        match seconds {
            _ if !differs => {}
            0 => writeln!(out, "{day} INFO: test is negotiated to run with continuous mode")?,
            s => writeln!(out, "{day} INFO: Test cycle time negotiated is: {s} seconds")?,
        }
        if sends {
            self.dialed = now.ns;
            self.threads(day, out)?;
        }
        Ok(())
    }

    fn measured(&mut self, day: &str, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.printed.measured, true) {
            return Ok(());
        }
        if self.tty && !self.spec.quiet {
            writeln!(out)?;
        }
        writeln!(out, "{day} INFO: Test run completed.")
    }

    fn finished(&mut self, day: &str, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.printed.finished, true) {
            return Ok(());
        }
        writeln!(out, "{day} INFO: Test cycle finished.")
    }

    fn end(
        &mut self,
        status: Status,
        reason: Option<&str>,
        now: &Now,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let day = &now.day;
        self.failed = status == Status::Failed;
        if let Some(reason) = reason.filter(|_| matches!(status, Status::Failed | Status::Partial)) {
            self.failure(reason, day, out)?;
        }
        let Some(totals) = self.totals.take() else { return out.flush() };
        if self.spec.windows {
            self.results = Some(self.summed(&totals));
            // With -xml the original prints no tables.
            let mut printed = self.results.iter().filter(|_| self.spec.xml.is_none());
            let results = printed.try_for_each(|results| tables::write(&self.spec, results, out));
            return results.and_then(|()| out.flush());
        }
        if status == Status::Interrupted && !self.printed.interrupted {
            writeln!(out, "{day} INFO: Interrupted by Ctrl+C")?;
        }
        self.measured(day, out)?;
        self.finished(day, out)?;
        let ns = totals.traffic.ns;
        let bytes = totals.traffic.tx_bytes + totals.traffic.rx_bytes;
        if self.spec.verbose {
            self.table(day, ns, out)?;
        }
        if self.sends() {
            writeln!(out, "{day} INFO: {} connections tested", totals.opened)?;
        }
        writeln!(out, "{day} INFO: #####  Totals:  #####")?;
        let seconds = real(ns) / 1e9;
        writeln!(out, "{day} INFO: test duration\t:{seconds:.2} seconds")?;
        writeln!(out, "{day} INFO: total bytes\t:{bytes}")?;
        writeln!(out, "{day} INFO: \t throughput\t:{}", throughput(bytes, ns))?;
        let host = self.after.since(&self.before);
        if !self.spec.layout.udp {
            writeln!(out, "{day} INFO: \t retrans segs\t:{}", host.retransmits[0])?;
        }
        self.counters(day, &host, seconds, out)?;
        self.cpu(day, &host, seconds, bytes, &totals, out)?;
        let rtt_us = self.rtt_us.0.checked_div(self.rtt_us.1).filter(|_| self.sends() && self.spec.verbose);
        if let Some(rtt) = rtt_us {
            writeln!(out, "{day} INFO: tcpi rtt\t\t:{rtt} us")?;
        }
        self.results = Some(Results { rtt_us, ..self.summed(&totals) });
        writeln!(out, "{RULE}")?;
        out.flush()
    }

    /// Prints why the test failed or was cut short, in the original's words where it has them.
    fn failure(&self, reason: &str, day: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.spec.windows {
            return writeln!(out, "ERROR: {reason}");
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
        lines.iter().try_for_each(|text| writeln!(out, "{day} ERR : {text}"))
    }

    /// What was results, without names and round-trip times.
    fn summed(&self, totals: &Totals) -> Results {
        Results {
            bytes: totals.traffic.tx_bytes + totals.traffic.rx_bytes,
            seconds: real(totals.traffic.ns) / 1e9,
            threads: self.threads.clone(),
            errors: self.errors,
            connections: totals.opened,
            host: self.after.since(&self.before),
            cpu_s: totals.cpu.map_or(0.0, |cpu| cpu.process_s()),
            ..Results::default()
        }
    }

    fn table(&self, day: &str, ns: u64, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{day} INFO: \tThread\tTime(s)\tThroughput")?;
        writeln!(out, "{day} INFO: \t======\t=======\t==========")?;
        for (index, thread) in self.threads.iter().enumerate() {
            let seconds = real(ns) / 1e9;
            writeln!(out, "{day} INFO: \t{index}\t {seconds:.2}\t {}", throughput(thread.bytes, ns))?;
        }
        Ok(())
    }

    fn counters(&self, day: &str, host: &Reading, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
        let per_second = |n: u64| ratio(n, seconds);
        if self.spec.retransmits {
            writeln!(out, "{day} INFO: tcp retransmit:")?;
            for (name, n) in RETRANSMITS.iter().zip(host.retransmits) {
                let name = name.trim_end_matches("_per_sec");
                writeln!(out, "{day} INFO: \t {name}/sec\t:{:.2}", per_second(n))?;
            }
        }
        let (sent, received) = host.packets;
        if self.spec.nic.is_some() {
            writeln!(out, "{day} INFO: total packets:")?;
            writeln!(out, "{day} INFO: \t tx_packets\t:{sent}")?;
            writeln!(out, "{day} INFO: \t rx_packets\t:{received}")?;
        }
        if self.spec.interrupts.is_some() {
            writeln!(out, "{day} INFO: interrupts:")?;
            writeln!(out, "{day} INFO: \t total\t\t:{}", host.interrupts)?;
            writeln!(out, "{day} INFO: \t interrupts/sec\t:{:.3}", per_second(host.interrupts))?;
            if self.spec.nic.is_some() {
                let each = real(sent + received) / real(host.interrupts.max(1));
                writeln!(out, "{day} INFO: \t pkts/interrupt\t:{each:.2}")?;
            }
        }
        Ok(())
    }

    fn cpu(
        &self,
        day: &str,
        host: &Reading,
        seconds: f64,
        bytes: u64,
        totals: &Totals,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(out, "{day} INFO: cpu cores\t:{}", host.cores)?;
        writeln!(out, "{day} INFO: \t cpu speed\t:{:.3}MHz", host.mhz)?;
        for (name, class) in
            [("user\t\t", 0), ("system\t\t", 2), ("idle\t\t", 3), ("iowait\t\t", 4), ("softirq\t", 6)]
        {
            writeln!(out, "{day} INFO: \t {name}:{:.2}%", host.share(class) * 100.0)?;
        }
        let cycles = cycles_per_byte(host.mhz, seconds, host.cores, host.share(3), bytes);
        writeln!(out, "{day} INFO: \t cycles/byte\t:{cycles:.2}")?;
        let own = totals.cpu.map_or(0.0, |cpu| cpu.process_s());
        let busy = if seconds > 0.0 { own * 100.0 / seconds } else { 0.0 };
        writeln!(out, "{day} INFO: cpu busy (all)\t:{busy:.2}%")
    }
}

/// `MHz · 10⁶ · seconds · cores · (1 − idle) / bytes`.
pub(super) fn cycles_per_byte(mhz: f64, seconds: f64, cores: u64, idle: f64, bytes: u64) -> f64 {
    if bytes == 0 { 0.0 } else { mhz * 1e6 * seconds * real(cores) * (1.0 - idle) / real(bytes) }
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

/// Prints a saved run as far as ntttcp would have known it.
pub(crate) fn print(outcome: &Outcome, events: &[Event], out: &mut dyn Write) -> io::Result<()> {
    let Some(point) = outcome.points.first() else { return Ok(()) };
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
    printer.banner(&time_of_day(started), out)?;
    let elapsed = i64::try_from(point.local.traffic.ns).unwrap_or(0);
    let now = Now { day: time_of_day(started.saturating_add(elapsed)), ns: 0 };
    let nothing = Reading::default();
    let told = |event: &&Event| matches!(event, Event::Local(_) | Event::PhaseEnd { .. });
    events.iter().filter(told).try_for_each(|event| printer.on_event(event, &now, &nothing, out))
}

#[cfg(test)]
mod tests;
