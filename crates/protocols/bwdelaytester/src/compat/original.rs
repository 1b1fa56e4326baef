//! The original's arithmetic: all arriving datagrams are one stream, and only the number expected
//! next is remembered.
//!
//! `docs/protocols/bwdelaytester.md` lists its mistakes; this module repeats them, integer by
//! integer.

use super::args::Spec;
use super::table::{BINS, Histogram, Rate, SlotLine, print_rates};
use crate::DatagramRow;
use ::compat::{Printed, Text};
use metrics::real;

/// Time that has to pass before the next line, µs.
const INTERVAL: u64 = 100_000;

#[derive(Default)]
pub(super) struct Original {
    spec: Spec,
    expected: u64,
    offset: i64,
    printed: u64,
    line: SlotLine,
    histogram: Histogram,
    rates: std::collections::BTreeMap<usize, Rate>,
}

impl Original {
    pub(super) fn new(spec: &Spec) -> Self {
        Original { spec: spec.clone(), ..Original::default() }
    }

    /// Takes a datagram in, and prints a line if it is time.
    pub(super) fn take(&mut self, row: &DatagramRow, Printed { out, err }: &mut Printed) {
        let read_wall = row.wall.0.saturating_add_unsigned(row.read_ns.saturating_sub(row.at_ns));
        let now = if self.spec.unsynchronised {
            row.read_ns / 1_000
        } else {
            u64::try_from(read_wall / 1_000).unwrap_or(0)
        };
        if self.offset == 0 && self.spec.unsynchronised {
            self.offset = (row.stamp_us.wrapping_sub(now) as i64).wrapping_add(self.spec.compensation_us);
        }
        let delay = now.wrapping_add_signed(self.offset).wrapping_sub(row.stamp_us) as i64;
        let line = &mut self.line;
        line.min = line.min.min(delay);
        line.max = line.max.max(delay);
        line.avg = line.avg.wrapping_add(delay);
        let bin = (delay.wrapping_mul(100) / 20 / 1_000) as i32;
        self.histogram.0[bin.clamp(0, BINS as i32 - 1) as usize] += 1;
        if self.expected < row.number {
            line.drops = line.drops.wrapping_add(row.number - self.expected);
            line.gaps += 1;
            self.expected = row.number;
        } else if self.expected > row.number && (self.expected - row.number > row.number || row.number == 0) {
            writeln!(err, "WARNING: Remote restarted. Restarting here too");
            self.expected = row.number.wrapping_add(1);
            self.offset = 0;
            return;
        }
        self.expected = self.expected.wrapping_add(1);
        line.bytes += u64::from(row.bytes);
        line.packets += 1;
        if now > self.printed + INTERVAL {
            self.printed = now;
            self.print(delay, row.bytes.into(), out);
        }
    }

    fn print(&mut self, delay: i64, length: u64, out: &mut Text) {
        let line = &mut self.line;
        line.avg /= line.packets.max(1) as i64;
        let shown =
            SlotLine { bytes: line.bytes.wrapping_mul(10), packets: line.packets.wrapping_mul(10), ..*line };
        shown.print(out);
        if self.spec.sweep {
            let lost = line.drops.wrapping_mul(length);
            let all = line.bytes.wrapping_add(lost);
            let bits = all.wrapping_mul(80);
            let slot = (bits.wrapping_add(5).wrapping_mul(300) / 3_000_000_000) as i32;
            if let Some(slot) = usize::try_from(slot).ok().filter(|&slot| slot < 300) {
                let rate = self.rates.entry(slot).or_default();
                rate.avg = rate.avg.wrapping_add(line.avg);
                rate.loss_percent += if all > 0 { real(lost) * 100.0 / real(all) } else { 0.0 };
                rate.min = rate.min.min(line.min);
                rate.max = rate.max.max(line.max);
                rate.intervals += 1;
            }
        }
        *line = SlotLine { min: delay, max: delay, ..SlotLine::default() };
    }

    /// The original's printout at an interrupt.
    pub(super) fn finish(&self, err: &mut Text) {
        self.histogram.print(err);
        let mean = |rate: &Rate| Rate {
            loss_percent: rate.loss_percent / real(rate.intervals.max(1)),
            avg: rate.avg / rate.intervals.max(1) as i64,
            ..*rate
        };
        print_rates(self.rates.iter().map(|(&slot, rate)| (slot, mean(rate))), err);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The original's own lines of a sweep are put together to its own table, to the byte.
    #[test]
    fn a_sweeps_lines_give_the_originals_table() {
        let text = include_str!("originals/sweep.txt");
        let (lines, table) = text.split_once("## Printing sweep data:\n").unwrap();
        let mut original = Original::new(&Spec { sweep: true, ..Spec::default() });
        let mut last = 0;
        let lines = lines.lines().filter(|line| !line.starts_with('#'));
        for line in lines.clone() {
            let column = |n: usize| line.split(' ').nth(n).unwrap().parse::<i64>().unwrap();
            let packets = column(1) as u64 / 10;
            original.line = SlotLine {
                bytes: column(0) as u64 / 10,
                packets,
                drops: column(2) as u64,
                gaps: column(3) as u64,
                min: column(4),
                max: column(5),
                avg: column(6) * packets as i64,
            };
            last += 1;
            let mut out = Text::default();
            original.print(0, 500, &mut out);
            assert_eq!(out.0, format!("{line}\n"), "line {last}");
        }
        assert!(last > 1_900, "{last} lines");
        let mut err = Text::default();
        original.finish(&mut err);
        assert_eq!(err.0.split_once("## Printing sweep data:\n").unwrap().1, table);
    }
}
