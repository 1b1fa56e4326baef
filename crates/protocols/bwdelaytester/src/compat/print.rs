//! The printout of either end: lines while datagrams arrive, tables at the end.

use super::args::Spec;
use super::original::Original;
use super::slots::{Slots, Sum};
use super::table::{COLUMNS, SWEEP, SlotLine};
use crate::DatagramRow;
use ::compat::{Printed, Text};
use metrics::{Clamped, SECOND, Wall, format_duration, real};
use model::{Event, Status};
use std::net::SocketAddr;

#[derive(Default)]
enum Figures {
    /// A client has none.
    #[default]
    None,
    Right(Box<Slots>),
    Original(Box<Original>),
}

/// One run, printed as it happens.
#[derive(Default)]
pub(crate) struct Printer {
    figures: Figures,
    sweep: bool,
    as_original: bool,
    named: Vec<SocketAddr>,
    start: Option<Wall>,
    /// The wall clock at 0 of the receiver's clock, ns.
    zero: Option<i64>,
    end: Option<Status>,
    unsent: u64,
    sent: u64,
}

const NAMED: usize = 100;

impl Printer {
    pub(crate) fn new(spec: &Spec) -> Self {
        let figures = match (&spec.host, spec.as_original) {
            (Some(_), _) => Figures::None,
            (None, true) => Figures::Original(Box::new(Original::new(spec))),
            (None, false) => Figures::Right(Box::new(Slots::new(spec))),
        };
        Printer { figures, sweep: spec.sweep, as_original: spec.as_original, ..Printer::default() }
    }

    /// Takes an event in; returns its lines of the printout.
    pub(crate) fn on_event(&mut self, event: &Event) -> Printed {
        let mut printed = Printed::default();
        match event {
            Event::Start { at } => {
                self.start = Some(*at);
                if !matches!(self.figures, Figures::None) {
                    writeln!(printed.out, "{COLUMNS}");
                }
            }
            Event::Extra(_) => {
                for row in &DatagramRow::rows(event) {
                    self.name(row.peer, &mut printed.err);
                    self.zero = Some(row.wall.0.wrapping_sub_unsigned(row.at_ns));
                    match &mut self.figures {
                        Figures::None => {}
                        Figures::Right(slots) => slots.take(row, &mut printed),
                        Figures::Original(original) => original.take(row, &mut printed),
                    }
                }
            }
            Event::Interval(interval) => self.pass(interval.end_ns, &mut printed.out),
            Event::Local(totals) => {
                if let Some(packets) = totals.packets.as_deref() {
                    (self.sent, self.unsent) = (packets.counts.sent, packets.counts.unsent);
                }
            }
            Event::PhaseEnd { status, .. } => self.end = Some(*status),
            _ => {}
        }
        printed
    }

    /// Names a sender when it is heard for the first time; the original names the first one only.
    fn name(&mut self, peer: SocketAddr, err: &mut Text) {
        let most = if self.as_original { 1 } else { NAMED };
        if self.named.len() < most && !self.named.contains(&peer) {
            self.named.push(peer);
            writeln!(err, "First packet seen from {peer}");
        }
    }

    /// Prints the slots up to `end_ns`, empty ones too.
    fn pass(&mut self, end_ns: u64, out: &mut Text) {
        let (Figures::Right(slots), Some(start), Some(zero)) = (&mut self.figures, self.start, self.zero)
        else {
            return;
        };
        let now = start.0.saturating_add_unsigned(end_ns).saturating_sub(zero);
        slots.pass(u64::try_from(now).unwrap_or(0), out);
    }

    /// The printout at the end, and the exit code.
    pub(crate) fn finish(&mut self) -> (Printed, u8) {
        let mut printed = Printed::default();
        let Printed { out, err } = &mut printed;
        match &mut self.figures {
            // The original does not notice that its receiver is gone.
            Figures::None if self.sweep && matches!(self.end, Some(Status::Complete | Status::Partial)) => {
                writeln!(out, "Sweep ends");
                self.sums(err);
                return (printed, 0);
            }
            Figures::None => {
                self.sums(err);
                writeln!(err, "{SWEEP}");
            }
            Figures::Right(slots) => {
                let Sum { packets, lost, repeated, overtaken, late } = slots.sum;
                writeln!(
                    err,
                    "# {packets} packets arrived, {lost} did not; {repeated} arrived more than once, {overtaken} had been overtaken, {late} arrived too late for their line"
                );
                slots.finish(out, err);
            }
            Figures::Original(original) => original.finish(err),
        }
        // Exit code 1, as the original's: only an interrupt ends it.
        (printed, 1)
    }

    /// A client's count of sent datagrams, which the original does not print.
    fn sums(&self, err: &mut Text) {
        if !self.as_original {
            writeln!(err, "# {} packets left, {} were not sent", self.sent, self.unsent);
        }
    }
}

/// A saved run of datagrams as the original would have printed it: a line per interval with
/// datagrams. An interval has no runs of lost datagrams; column 4 is 1 if any were lost. A line at
/// the top names intervals of other lengths than a tenth of a second, as of long runs, whose older
/// ones are joined.
pub(crate) fn print(events: &[Event]) -> String {
    let mut out = Text::default();
    writeln!(out, "{COLUMNS}");
    let intervals =
        || events.iter().filter_map(|event| if let Event::Interval(i) = event { Some(i) } else { None });
    let longest = intervals().map(|interval| interval.ns()).max().unwrap_or(0);
    if longest > SECOND / 10 + SECOND / 100 {
        let longest = format_duration(real(longest));
        writeln!(
            out,
            "# rates over intervals of up to {longest}: a tenth of columns 1 and 2 is not the count of a line, as it was when this ran"
        );
    }
    for interval in intervals() {
        let all = [(&interval.packets, Some(interval.local)), (&interval.remote_packets, interval.remote)];
        for (packets, traffic) in all {
            let (Some(packets), Some(traffic)) = (packets, traffic) else { continue };
            let ns = interval.end_ns.saturating_sub(interval.start_ns).max(1);
            let per_second = |n: u64| u64::clamped(u128::from(n) * u128::from(SECOND) / u128::from(ns));
            let Some(delay) = packets.delay_ns.as_ref() else { continue };
            let us = |ns: u64| i64::clamped(ns / 1_000);
            let drops = u64::clamped(packets.counts.lost.max(0));
            let line = SlotLine {
                bytes: per_second(traffic.rx_bytes),
                packets: per_second(packets.counts.received),
                drops,
                gaps: u64::from(drops > 0),
                min: us(delay.min),
                max: us(delay.max),
                avg: i64::clamped(delay.mean / 1e3),
            };
            line.print(&mut out);
        }
    }
    out.0
}
