//! The printouts: settings, a line a test, histograms and records.

use super::args::{Program, Spec};

use super::line::{self, Sent};
use super::recv::ReceivedLines;
use super::tables;
use super::tcp::{PrintedProgress, Snapshots};
use crate::PacketTest;
use compat::Text;
use compat::number::g;
use jiff::Timestamp;
use metrics::{Clamped, SECOND, Wall, real};
use model::{Event, Level};

/// Prints a run as UDPmon's programs do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printer {
    pub(super) spec: Spec,
    /// The remote end's address.
    remote: String,
    /// This host's name.
    local: String,
    started: Wall,
    titled: bool,
    receiver: ReceivedLines,
    /// Tests over TCP, until the kernel's figures of their connections have arrived.
    held: Vec<PacketTest>,
    /// Progress of tcpmon's programs in print.
    progress: PrintedProgress,
    snapshots: Snapshots,
}

/// A day and time as `ctime` has them, in UTC.
pub(super) fn date(at: Wall) -> String {
    let at = Timestamp::from_nanosecond(at.0.into()).unwrap_or_default();
    at.strftime("%a %b %e %H:%M:%S %Y").to_string()
}

impl Printer {
    /// For a run that is about to begin; `remote` is the remote end's address.
    pub(crate) fn new(spec: Spec, remote: String) -> Printer {
        Printer { spec, remote, ..Printer::default() }
    }

    /// Takes an event in; returns its lines of the printout.
    pub(crate) fn on_event(&mut self, event: &Event) -> String {
        let mut text = Text::default();
        let out = &mut text;
        match event {
            Event::Begin(begin) => {
                self.local.clone_from(&begin.host.name);
                self.started = begin.started;
                self.banner(out);
            }
            Event::Extra(_) => match (self.spec.program, PacketTest::from_event(event)) {
                (_, None) => {}
                (Program::TcpMon, Some(test)) if !test.over => {
                    self.connected(test.mss, out);
                    self.progress.line(&self.spec, &test, out);
                }
                (program, Some(test)) if program.tcp() && !test.over => {
                    self.snapshots.line(&self.spec, &test, out);
                }
                (Program::TcpMon, Some(test)) => self.held.push(test),
                (_, Some(test)) => self.test(&test, out),
            },
            Event::Connection(record) => {
                if let Some(at) = self.held.iter().position(|test| test.connection == Some(record.id)) {
                    let mut test = self.held.remove(at);
                    test.retransmitted = record.tcp.as_ref().map(|tcp| tcp.retransmits.into());
                    self.connected(record.tcp.as_ref().map(|tcp| tcp.snd_mss), out);
                    self.test(&test, out);
                }
            }
            Event::PhaseEnd { .. } => {
                for test in std::mem::take(&mut self.held) {
                    self.test(&test, out);
                }
            }
            Event::Notice { level: Level::Info, text } if self.spec.verbose => writeln!(out, " {text}"),
            _ => {}
        }
        text.0
    }

    /// The lines of a connected `tcpmon_mon`, as soon as they are known.
    fn connected(&mut self, mss: Option<u32>, out: &mut Text) {
        if self.spec.quiet || std::mem::replace(&mut self.titled, true) {
            return;
        }
        super::tcp::connected(&self.spec, mss.filter(|mss| *mss > 0), out);
    }

    fn banner(&self, out: &mut Text) {
        let spec = &self.spec;
        if spec.quiet {
            return;
        }
        let Spec { program, port, .. } = *spec;
        let (version, transport) = match program.tcp() {
            true => ("TCPmon Version 2.2.1", "TCP"),
            false => ("UDPmon Version 1.5.2", "UDP"),
        };
        let cpus = matches!(program, Program::BwMon | Program::Send) || program.tcp();
        let (date, cpus) = (date(self.started), if cpus { " CPUs" } else { " " });
        writeln!(out, " {date} :  {version} {cpus} Command line:  {} ", spec.command);
        if program.serves() {
            writeln!(out, " The {transport} port is   {port} {port:x}");
            return;
        }
        writeln!(out, " The destination IP name: {} IP address: {}", spec.host, self.remote);
        write!(out, " The destination {transport} port is   {port} {port:x}");
        match (program, spec.from) {
            (Program::TcpMon, _) => {
                writeln!(out);
                return;
            }
            (Program::Req, _) => {
                writeln!(
                    out,
                    "\nresponse len bytes; Req len;  loop_count;  num_bad; time/frame (tod); ave time us; min time; max time; num \
                     timeouts; "
                );
                return;
            }
            (_, Some(from)) => writeln!(out, "  The source UDP port is  {from} {from:x} "),
            (_, None) => writeln!(out, "  "),
        }
        write!(out, " {} bytes\n ", spec.packet_tests.size);
    }

    fn test(&mut self, test: &PacketTest, out: &mut Text) {
        match self.spec.program {
            Program::BwMon => self.bw_mon(test, out),
            Program::Req => self.req(test, out),
            Program::Send => self.send(test, out),
            Program::Recv => self.receiver.test(&self.spec, test, out),
            Program::Resp => self.resp(test, out),
            Program::TcpResp => {
                self.snapshots.remove(test);
                if self.spec.verbose {
                    super::tcp::received(&self.spec, test, out);
                }
                super::tcp::noted(&self.spec, test, out);
            }
            Program::TcpMon => super::tcp::line(&self.spec, test, out),
        }
    }

    fn bw_mon(&mut self, test: &PacketTest, out: &mut Text) {
        let spec = &self.spec;
        if !spec.quiet && !std::mem::replace(&mut self.titled, true) {
            writeln!(out, "{}", line::titles(spec, test));
        }
        if spec.quiet {
            let seconds = test.started.0.div_euclid(i64::clamped(SECOND));
            write!(out, " {seconds} ; {} ; {} ; {} ; {} ;", test.address, self.local, self.remote, spec.host);
        }
        writeln!(out, "{}  ", line::line(spec, test));
        if let Some(gaps) = test.gaps.as_ref().filter(|_| spec.packet_tests.histograms) {
            tables::histograms(std::iter::once(gaps).chain(&test.others), out);
        }
        tables::records(spec, test, out);
    }

    fn req(&self, test: &PacketTest, out: &mut Text) {
        let Some(latency) = &test.latency else { return };
        let us = |ns: u64| real(ns) / 1_000.0;
        let requests = real(latency.count.max(1));
        writeln!(
            out,
            " {};  {};  {};   {};  {};  {:7.3};  {:6.2};  {:7.3}; {} ",
            latency.response,
            test.size,
            latency.count,
            latency.missing,
            g(us(latency.total_ns) / requests, 6),
            us(latency.sum_ns) / requests,
            us(latency.min_ns),
            us(latency.max_ns),
            latency.missing
        );
        if self.spec.packet_tests.histograms {
            tables::histogram(0, "Time per req-resp us", &latency.histogram, out);
            tables::histogram_shape(&latency.histogram, self.spec.as_original, out);
        }
    }

    fn send(&mut self, test: &PacketTest, out: &mut Text) {
        let spec = &self.spec;
        if !spec.quiet && !std::mem::replace(&mut self.titled, true) {
            writeln!(
                out,
                " pkt len; num_sent; Time/frame us; wait_time; Send time; send_data_rate Mbit;{}{}",
                tables::cpu_titles('L', &test.local.cpus),
                tables::net_titles('L', spec.v6)
            );
        }
        let Sent { us, frame, mbit } = line::sent(spec, test);
        writeln!(
            out,
            " {}; {};   {};   {};   {};   {}; {}{}  ",
            test.size,
            test.sent,
            g(frame, 6),
            g(f64::from(test.wait) / 10.0, 6),
            u64::clamped(us),
            g(mbit, 6),
            tables::cpus('L', &test.local.cpus),
            tables::net('L', &test.local, spec.v6)
        );
    }

    /// A responder prints nothing of its tests without `-v`.
    fn resp(&self, test: &PacketTest, out: &mut Text) {
        let Some(counts) = test.counts.filter(|_| self.spec.verbose) else { return };
        writeln!(
            out,
            " From host: {}\nnum_recv: {}\nnum_lost: {}\nnum_badorder: {}\ntime us: {}",
            test.peer,
            counts.received,
            counts.lost,
            counts.bad_order,
            g(real(counts.span) / 10.0, 6)
        );
    }
}

#[cfg(test)]
mod tests;
