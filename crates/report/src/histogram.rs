//! Distributions for other programs: HdrHistogram's percentile files, and tables for spreadsheets.

use csv::Writer;
use metrics::{Spectrum, real};
use model::{Kind, Outcome};
use std::io::{self, Write};

/// Ticks of the percentile files for each halving of the distance to 100 %, as HdrHistogram's own.
const TICKS: f64 = 5.0;
/// Steps of equal width in a table, at most.
const MAX_STEPS: usize = 1_000_000;

/// The round trips of all phases of `outcome` together: their counts added, no percentile averaged.
/// `None` when there are none.
pub fn round_trips(outcome: &Outcome) -> Option<Spectrum> {
    // Exchanges inside a load are another matter.
    let points = outcome.points.iter().filter(|point| point.phase.kind == Kind::Ping);
    let all = points.filter_map(|point| point.local.pings.as_ref()?.rtt_ns.as_ref());
    let mut sum = Spectrum::default();
    all.for_each(|rtt| sum.merge(rtt));
    (sum.count > 0).then_some(sum)
}

/// Writes a percentile file (`.hgrm`), values in µs, as HdrHistogram's
/// `outputPercentileDistribution` does: plotters take it.
pub fn write_hgrm(spectrum: &Spectrum, out: &mut dyn Write) -> io::Result<()> {
    let us = |ns: u64| real(ns) / 1e3;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let all = real(spectrum.total().max(1));
    let (mut covered, mut level) = (0, 0.0f64);
    for &(value, n) in &spectrum.counts {
        covered += n;
        while covered < spectrum.count && level <= 100.0 * real(covered) / all {
            let share = level / 100.0;
            writeln!(out, "{:12.3} {share:14.12} {covered:10} {:14.2}", us(value), 1.0 / (1.0 - share))?;
            // TICKS lines for each half of the remaining values.
            let halvings = (100.0 / (100.0 - level)).log2().floor() + 1.0;
            level += 100.0 / (TICKS * halvings.exp2());
        }
    }
    if spectrum.count > 0 {
        // Below 1 if messages were lost.
        let share = real(spectrum.count) / all;
        writeln!(out, "{:12.3} {share:14.12} {:10}", us(spectrum.max), spectrum.count)?;
    }
    let (mean, sd) = (spectrum.mean / 1e3, spectrum.sd / 1e3);
    writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {sd:12.3}]")?;
    writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", us(spectrum.max), spectrum.count)?;
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", spectrum.counts.len(), 2048)
}

/// Writes a table of the distribution: with `linear_ns` one row per step of that width, else one
/// per bucket.
pub fn write_histogram_csv(
    spectrum: &Spectrum,
    linear_ns: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (bound, steps) = match linear_ns {
        Some(width) => ("from_ns", spectrum.linear(width, MAX_STEPS)),
        None => ("up_to_ns", spectrum.counts.clone()),
    };
    let mut table = Writer::from_writer(out);
    table.write_record([bound, "count", "cumulative", "cumulative_percent"])?;
    let all = real(spectrum.total().max(1));
    let mut covered = 0;
    for (ns, n) in steps {
        covered += n;
        let share = format!("{:.6}", 100.0 * real(covered) / all);
        table.write_record([ns.to_string(), n.to_string(), covered.to_string(), share])?;
    }
    table.flush()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use metrics::Dist;

    fn of(values: impl Iterator<Item = u64>) -> Spectrum {
        Dist::from_iter(values).spectrum().unwrap()
    }

    /// What is written, as text.
    pub(crate) fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn percentile_files_are_those_of_hdrhistogram() {
        // 1 to 10 µs, one each. The percentiles are those of the algorithm as published: 5 ticks a
        // halving, so 0, 10, … 50, then 55, 60, … 75, then 77.5, …; each line is the end of the
        // first bucket that covers it (three digits: 5,000 to 5,003 ns are one bucket).
        let file = text(|out| write_hgrm(&of((1..=10).map(|n| n * 1000)), out));
        let lines: Vec<&str> = file.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[2], "       1.000 0.000000000000          1           1.00");
        assert_eq!(lines[3], "       1.000 0.100000000000          1           1.11");
        assert_eq!(lines[4], "       2.000 0.200000000000          2           1.25");
        assert_eq!(lines[7], "       5.003 0.500000000000          5           2.00");
        assert_eq!(lines[8], "       6.003 0.550000000000          6           2.22");
        assert_eq!(lines[12], "       8.003 0.750000000000          8           4.00");
        let last = lines.iter().position(|line| line.starts_with('#')).unwrap();
        assert_eq!(lines[last - 1], "      10.000 1.000000000000         10");
        let sums = lines[last];
        // The deviation of 1 to 10 is 2.872; that of their buckets is 2 ns off.
        assert!(sums.starts_with("#[Mean    =        5.500, StdDeviation   =        2.87"), "{sums}");
        assert_eq!(lines[last + 1], "#[Max     =       10.000, Total count    =           10]");
    }

    #[test]
    fn tables_add_up() {
        let spectrum = of([100, 250, 260, 900].into_iter());
        let linear = text(|out| write_histogram_csv(&spectrum, Some(200), out));
        let want = "from_ns,count,cumulative,cumulative_percent\n0,1,1,25.000000\n200,2,3,75.000000\n\
                    400,0,3,75.000000\n600,0,3,75.000000\n800,1,4,100.000000\n";
        assert_eq!(linear, want);
        let buckets = text(|out| write_histogram_csv(&spectrum, None, out));
        assert!(buckets.starts_with("up_to_ns,") && buckets.ends_with("900,1,4,100.000000\n"), "{buckets}");
    }
}
