//! The printout, Teldat's and the classic one.
//!
//! By those samples of Teldat's manual that can be recomputed, rates are decimal (10^6) and times
//! per call are rounded; the classic report divides by 1024.

use super::spec::{Dialect, Spec, TransferRole, Unit};
use crate::Marked;
use compat::number::ratio;
use compat::{Printed, Text};
use metrics::{Clamped, real};
use model::{Event, Kind, Outcome, Portion, Status};
use std::net::IpAddr;

/// The system's account of this process, as the classic report shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU time in user mode, seconds.
    pub(crate) user_s: f64,
    /// CPU time in the kernel, seconds.
    pub(crate) system_s: f64,
    /// Largest resident set, KiB.
    pub(crate) resident_kib: u64,
    /// Page faults with and without disk access.
    pub(crate) faults: (u64, u64),
    /// Context switches, voluntary and not.
    pub(crate) switches: (u64, u64),
}

/// Prints a run as ttcp does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printer {
    spec: Spec,
    name: &'static str,
    begun: bool,
    peer: bool,
    portion: Option<Portion>,
    /// Of a receiver of datagrams.
    marked: Option<Marked>,
    /// Resources that this process used until shortly before the end.
    pub(crate) usage: Usage,
    buffers: (u64, u64),
    /// Marks printed so far, and the percentage shown last.
    marks: u64,
    shown: Option<u64>,
    /// Bytes in the intervals so far.
    moved: u64,
    live: bool,
    pub(crate) failed: bool,
    column: bool,
}

impl Printer {
    /// Printer of a run that is about to begin; `live` when stdout is a terminal.
    pub(crate) fn new(spec: Spec, live: bool) -> Printer {
        let name = match (spec.dialect, spec.sends()) {
            (Dialect::Teldat, true) => "ttcp-tx",
            (Dialect::Teldat, false) => "ttcp-rx",
            (Dialect::Classic, true) => "ttcp-t",
            (Dialect::Classic, false) => "ttcp-r",
        };
        Printer { spec, name, live, ..Printer::default() }
    }

    /// Takes an event in; returns its lines of the printout.
    pub(crate) fn on_event(&mut self, event: &Event) -> Printed {
        let mut printed = Printed::default();
        let Printed { out, err } = &mut printed;
        match event {
            Event::Start { .. } => self.begin(out),
            Event::Established { remote, .. } => self.established(remote.ip().to_canonical(), out, err),
            Event::Interval(interval) => {
                self.moved +=
                    if self.spec.sends() { interval.local.tx_bytes } else { interval.local.rx_bytes };
                self.progress(out);
            }
            Event::Portion(portion) => {
                self.portion.get_or_insert(**portion);
            }
            Event::Extra(_) => self.marked = self.marked.or_else(|| Marked::read(event)),
            Event::Connection(record) => {
                if let Some(error) = &record.error {
                    self.failed = true;
                    self.line(out);
                    writeln!(err, "{}: {error}", self.name);
                }
            }
            Event::Local(totals) => {
                if let Some(cpu) = totals.cpu {
                    (self.usage.user_s, self.usage.system_s) = (cpu.user_s, cpu.system_s);
                }
                if let Some(effective) = &totals.effective {
                    let bytes = |told: Option<u32>| told.map_or(0, u64::from);
                    self.buffers = (bytes(effective.sndbuf), bytes(effective.rcvbuf));
                }
            }
            Event::PhaseEnd { status, .. } => self.end(*status, out),
            _ => {}
        }
        printed
    }

    fn begin(&mut self, out: &mut Text) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let Spec { length, buffers, port, .. } = self.spec;
        if self.spec.dialect == Dialect::Teldat {
            writeln!(out, "\n--- TTCP ---");
            writeln!(out, "TTCP running (Press any key to abort)...");
            writeln!(out);
        }
        writeln!(out, "{}: buflen={length}, nbuf={buffers}, align=16384/0, port={port}", self.name);
        if self.spec.dialect == Dialect::Teldat {
            writeln!(out, "sockbufsize={}", self.spec.socket_buffer.unwrap_or(0));
            writeln!(out);
            let transport = if self.spec.udp { "udp" } else { "tcp" };
            match &self.spec.role {
                TransferRole::Receive => writeln!(out, "# {transport} receiver #"),
                TransferRole::Transmit(host) => writeln!(out, "# {transport} sender -> {host} #"),
            }
        }
    }

    fn established(&mut self, peer: IpAddr, out: &mut Text, err: &mut Text) {
        if std::mem::replace(&mut self.peer, true) {
            return;
        }
        let name = self.name;
        match (self.spec.dialect, self.spec.sends()) {
            _ if self.spec.udp => {}
            (Dialect::Teldat, false) => writeln!(out, "{name}: accept from {peer}"),
            (Dialect::Teldat, true) => {}
            (Dialect::Classic, false) => writeln!(err, "{name}: accept from {peer}"),
            (Dialect::Classic, true) => writeln!(err, "{name}: connect"),
        }
    }

    /// Hash marks and percent, up to the bytes of the latest interval.
    fn progress(&mut self, out: &mut Text) {
        if let Some(every) = self.spec.marks {
            let due = self.moved / self.spec.length.max(1) / every.max(1);
            // A fast link would print forever: at most a line of marks at once.
            for _ in self.marks..due {
                write!(out, "#");
                self.column = true;
            }
            self.marks = self.marks.max(due);
        }
        let Some(total) = self.spec.total().filter(|_| self.spec.percent && self.live) else { return };
        let percent = u64::clamped(u128::from(self.moved) * 100 / u128::from(total.max(1)));
        if self.shown != Some(percent) && percent < 100 {
            self.shown = Some(percent);
            write!(out, "\r# Completed... {percent}% #");
        }
    }

    fn line(&mut self, out: &mut Text) {
        if std::mem::take(&mut self.column) {
            writeln!(out);
        }
    }

    fn end(&mut self, status: Status, out: &mut Text) {
        // A connection that failed before anything moved has no rate.
        let moved = |portion: &Portion| portion.tx_bytes + portion.rx_bytes > 0;
        let portion = self.portion.take().filter(|portion| !self.failed || moved(portion));
        self.failed |= status == Status::Failed || (portion.is_none() && status != Status::Interrupted);
        if let Some(portion) = portion {
            self.moved = self.moved.max(portion.tx_bytes + portion.rx_bytes);
            self.progress(out);
            self.line(out);
            let whole = self.spec.total().is_none_or(|total| portion.tx_bytes >= total);
            if self.spec.percent && self.spec.sends() {
                let start = if self.shown.is_some() { "\r" } else { "" };
                if whole {
                    writeln!(out, "{start}# Completed... 100% #");
                } else if self.live {
                    writeln!(out);
                }
            }
            self.results(&portion, out);
        }
        self.line(out);
        if self.spec.dialect == Dialect::Teldat {
            writeln!(out, "ttcp done.");
            writeln!(out, "\n--- TTCP finished ---\n");
        }
    }

    fn results(&self, portion: &Portion, out: &mut Text) {
        let bytes = portion.tx_bytes + portion.rx_bytes;
        let seconds = real(portion.to_ns.saturating_sub(portion.from_ns)) / 1e9;
        let rate = |seconds: f64| rate(self.spec.unit, self.spec.dialect, bytes, seconds);
        let (name, calls) = (self.name, self.calls(portion));
        let teldat = self.spec.dialect == Dialect::Teldat;
        let (digits, cpu_seconds) = if teldat { (6, "cpu seconds") } else { (3, "CPU seconds") };
        if teldat {
            writeln!(out);
        } else {
            self.sockets(out);
        }
        writeln!(out, "{name}: {bytes} bytes in {seconds:.digits$} real seconds = {}/sec +++", rate(seconds));
        if self.spec.verbose {
            let cpu = self.usage.user_s + self.usage.system_s;
            writeln!(out, "{name}: {bytes} bytes in {cpu:.digits$} {cpu_seconds} = {}/cpu sec", rate(cpu));
        }
        // The original multiplies by 1024 and calls it milliseconds.
        let thousand = if self.spec.as_original && !teldat { 1024.0 } else { 1000.0 };
        let (msec, each) = (ratio(seconds * thousand, calls), ratio(calls, seconds));
        if teldat {
            writeln!(out, "{name}: {calls} I/O calls, {msec:.3} msec(real)/call");
        } else {
            writeln!(out, "{name}: {calls} I/O calls, msec/call = {msec:.3}, calls/sec = {each:.3}");
        }
        self.datagrams(out);
        if !teldat {
            self.used_line(seconds, out);
        }
    }

    /// epi_ttcp's statistics of datagrams, where the sender has reported their number.
    fn datagrams(&self, out: &mut Text) {
        let Some(Marked { data, starts, ends, told: Some(told), reordered, repeated }) = self.marked else {
            return;
        };
        writeln!(out, "{}: packets {data} data, {starts} start, {ends} end", self.name);
        let lost = told.saturating_sub(data - repeated.min(data));
        let share = ratio(real(lost) * 100.0, told);
        writeln!(out, "{}: {share:.3}% ({lost}/{told}) packet loss", self.name);
        if self.spec.verbose && reordered + repeated > 0 {
            writeln!(out, "{}: {reordered} out of sequence, {repeated} repeated", self.name);
        }
    }

    /// Calls as the original counts them: full blocks where its reads are filled.
    fn calls(&self, portion: &Portion) -> u64 {
        let full = self.spec.full_blocks && !self.spec.sends() && !self.spec.udp;
        if full { portion.rx_bytes.div_ceil(self.spec.length.max(1)) } else { portion.calls }
    }

    fn sockets(&self, out: &mut Text) {
        let (send, receive) = self.buffers;
        let transport = if self.spec.udp { "udp" } else { "tcp" };
        let what = match &self.spec.role {
            TransferRole::Receive => transport.to_owned(),
            TransferRole::Transmit(host) => format!("{transport} -> {host}"),
        };
        if self.spec.udp {
            let size = if self.spec.sends() { send } else { receive };
            writeln!(out, "{}: sockbufsize={size},  # {what} #", self.name);
            return;
        }
        let mean = (send + receive) / 2;
        writeln!(
            out,
            "{}: sockbufsndsize={send}, sockbufrcvsize={receive}, sockbufsize={mean},  # {what} #",
            self.name
        );
    }

    fn used_line(&self, seconds: f64, out: &mut Text) {
        let Usage { user_s, system_s, resident_kib, faults, switches } = self.usage;
        let whole = u64::clamped(seconds);
        let share = ratio((user_s + system_s) * 100.0, seconds);
        writeln!(
            out,
            "{}: {user_s:.3}user {system_s:.3}sys {}:{:02}real {share:.0}% 0i+0d {resident_kib}maxrss {}+{}pf {}+{}csw",
            self.name,
            whole / 60,
            whole % 60,
            faults.0,
            faults.1,
            switches.0,
            switches.1
        );
    }
}

/// A rate with its unit, without the time.
fn rate(unit: Unit, dialect: Dialect, bytes: u64, seconds: f64) -> String {
    let base: f64 = if dialect == Dialect::Teldat { 1000.0 } else { 1024.0 };
    let per_second = ratio(bytes, seconds);
    let scale = |prefix: usize| (0..prefix).map(|_| base).product::<f64>();
    let (bytes, prefix) = match unit {
        Unit::Fixed { bytes, prefix } => (bytes, prefix),
        // The samples have Mbit/sec up to 880 and would have it beyond.
        Unit::Fitting => (false, (1..=2).rev().find(|&n| per_second * 8.0 >= scale(n)).unwrap_or(0)),
    };
    let value = per_second * if bytes { 1.0 } else { 8.0 } / scale(prefix);
    let letter = ["", "K", "M", "G"].get(prefix).copied().unwrap_or("");
    let what = match (bytes, prefix) {
        (true, 0) => "bytes",
        (true, _) => "B",
        (false, _) => "bit",
    };
    format!("{value:.3} {letter}{what}")
}

/// A saved run as ttcp would have printed it.
pub(crate) fn print(outcome: &Outcome, events: &[Event]) -> String {
    let Some(point) = outcome.points.first() else { return String::new() };
    let phase = &point.phase;
    let serving = outcome.begin.verb == "serve";
    let length = phase.buffer.high.max(1);
    let record = events.iter().find_map(|event| match event {
        Event::Connection(record) => Some(record),
        _ => None,
    });
    let (tx, rx) = record
        .map_or((point.local.traffic.tx_bytes, point.local.traffic.rx_bytes), |r| (r.tx_bytes, r.rx_bytes));
    let target = outcome.begin.targets.first().cloned().unwrap_or_default();
    let spec = Spec {
        role: if serving { TransferRole::Receive } else { TransferRole::Transmit(target) },
        length,
        buffers: tx.max(rx) / length,
        udp: phase.kind != Kind::Tcp,
        socket_buffer: point
            .local
            .effective
            .as_ref()
            .and_then(|e| if serving { e.rcvbuf } else { e.sndbuf }.map(u64::from)),
        ..Spec::new(Dialect::Teldat)
    };
    let mut printer = Printer::new(spec, false);
    let Printed { mut out, mut err } = Printed::default();
    printer.begin(&mut out);
    if let Some(record) = record {
        printer.established(record.remote.ip().to_canonical(), &mut out, &mut err);
        printer.portion = Some(Portion {
            tx_bytes: tx,
            rx_bytes: rx,
            to_ns: record.duration_ns,
            calls: (tx + rx).div_ceil(length),
            ..Portion::new(record.local.unwrap_or(record.remote), record.remote, 0)
        });
    }
    printer.end(point.status, &mut out);
    out.0
}

#[cfg(test)]
mod tests;
