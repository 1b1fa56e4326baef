//! The tables at the end: the histogram of latencies, and latency and loss by rate.

use ::compat::Text;
use metrics::Clamped;

/// The first line on stdout, with the space at its end that the original has.
pub(super) const COLUMNS: &str = "# bytes_last_intv packets_last_intv drops_last_intv drops_consq_last_intv \
                                  mindelayus_last_intv maxdelayus_last_intv avgdelayus_last_intv ";
/// Headings of the histogram and the table.
pub(super) const HISTOGRAM: &str = "## Printing latency histogram:";
pub(super) const SWEEP: &str = "## Printing sweep data:";

/// Bins of the histogram, and the width of each, µs.
pub(super) const BINS: usize = 100;
const WIDTH: i64 = 200;
/// Number of rates in the table: 300 of 10 Mbit/s each.
const RATES: usize = 300;
const RATE: u64 = 10_000_000;
/// A rate is shown when it was met in more intervals than this.
const FEW: u64 = 10;

/// One line on stdout, as it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotLine {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) drops: u64,
    pub(super) gaps: u64,
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) avg: i64,
}

impl SlotLine {
    pub(super) fn print(&self, out: &mut Text) {
        let SlotLine { bytes, packets, drops, gaps, min, max, avg } = self;
        writeln!(out, "{bytes} {packets} {drops} {gaps} {min} {max} {avg}");
    }
}

/// Latencies by 200 µs; the last bin holds all that are longer, the first those below 0.
#[derive(Clone, Debug)]
pub(super) struct Histogram(pub(super) [u64; BINS]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; BINS])
    }
}

impl Histogram {
    pub(super) fn add(&mut self, us: i64) {
        let bin = usize::clamped((us / WIDTH).clamp(0, i64::clamped(BINS) - 1));
        self.0[bin] += 1;
    }

    /// The head, and a line per bin: lower edge in µs, count, cumulative percent in whole numbers.
    pub(super) fn print(&self, err: &mut Text) {
        writeln!(err, "{HISTOGRAM}");
        let all: u64 = self.0.iter().sum();
        let mut sum = 0;
        for (bin, count) in self.0.iter().enumerate() {
            sum += count;
            // The original divides by 0 when nothing has arrived.
            let percent = (sum * 100).checked_div(all).unwrap_or(0);
            writeln!(err, "{} {count} {percent}", bin * usize::clamped(WIDTH));
        }
    }
}

/// Sums at one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) loss_percent: f64,
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) avg: i64,
    pub(super) intervals: u64,
}

/// Which rate an interval's belongs to; `None` for one that is too high.
pub(super) fn slot_of(bits_per_second: u64) -> Option<usize> {
    usize::try_from(bits_per_second / RATE).ok().filter(|&slot| slot < RATES)
}

/// The head, and a line per rate: its upper end in Mbit/s, loss in percent, least, largest and mean
/// latency in µs, intervals.
pub(super) fn print_rates(rates: impl Iterator<Item = (usize, Rate)>, err: &mut Text) {
    writeln!(err, "{SWEEP}");
    for (slot, rate) in rates.filter(|(_, rate)| rate.intervals > FEW) {
        let Rate { loss_percent, min, max, avg, intervals } = rate;
        writeln!(err, "{} {loss_percent:.6} {min} {max} {avg} {intervals}", (slot + 1) * 10);
    }
}
