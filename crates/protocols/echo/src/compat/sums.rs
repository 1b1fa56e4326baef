//! Counts of the printout: blocks, totals, and the twelve rows of the distribution.

use metrics::{Clamped, real};

/// Width of a row of the distribution, µs.
pub(super) const STEP_US: u64 = 200;
/// Rows below the last, which has no end.
pub(super) const STEPS: usize = 11;

/// Smallest, largest and sum of round trips, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
    sum_ns: u128,
}

impl Times {
    pub(super) fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.sum_ns += u128::from(ns);
    }

    /// Arithmetic mean, µs; `None` of none.
    pub(super) fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| real(self.sum_ns) / real(self.count) / 1e3)
    }
}

/// Round trips by steps of 200 µs; the last row holds all of 2200 µs and more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows(pub(super) [u64; STEPS + 1]);

impl Rows {
    /// Adds `n` round trips of `ns`.
    pub(super) fn add(&mut self, ns: u64, n: u64) {
        let at = usize::clamped((ns / (STEP_US * 1000)).min(u64::clamped(STEPS)));
        self.0[at] = self.0[at].saturating_add(n);
    }

    /// The rows' names, as the original has them.
    pub(super) fn name(row: usize) -> String {
        let from = STEP_US * u64::clamped(row);
        if row == STEPS { format!(">{from}us") } else { format!("{from}us-<{}us", from + STEP_US) }
    }
}

/// Bits of both directions per second, in 10^6 bits, when messages of `size` bytes take `mean_us`
/// µs there and back. The original takes a Kbit for 1024 bits and an Mbit for 1000 of these, and
/// cuts off the rest.
pub(super) fn mbps(size: u32, mean_us: f64, as_original: bool) -> f64 {
    let bits = 2.0 * 8.0 * f64::from(size);
    if as_original { bits / 1.024 / mean_us } else { bits / mean_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_s_rates_come_out_of_its_averages() {
        // Lines of the original's sample output: average as printed (cut off, so the true one lies
        // up to 1 µs above) and rate as printed, for 1024 bytes: 16000 / average. Both rates that
        // occur for 111 are within reach.
        for (average, rate) in
            [(126, 126), (123, 129), (136, 117), (110, 144), (111, 143), (111, 144), (147, 108), (150, 106)]
        {
            let within = (0..1000).map(|part| f64::from(average) + f64::from(part) / 1000.0);
            let mut printed = within.map(|mean| mbps(1024, mean, true).trunc() as u64);
            assert!(printed.any(|p| p == rate), "{average} {rate}");
        }
        assert_eq!(mbps(1024, 100.0, true), 160.0);
        // The true rate is 1.024 times as high.
        assert_eq!(mbps(1024, 100.0, false), 163.84);
        assert_eq!(mbps(64, 1024.0, false), 1.0);
    }

    #[test]
    fn rows_hold_their_lower_bound_and_the_last_all_the_rest() {
        let mut rows = Rows::default();
        for us in [0, 199, 200, 399, 400, 2199, 2200, 2201, 1_000_000] {
            rows.add(us * 1000, 1);
        }
        rows.add(199_999, 1);
        assert_eq!(rows.0, [3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 3]);
        let names: Vec<String> = (0..=STEPS).map(Rows::name).collect();
        assert_eq!(
            (names.len(), names[0].as_str(), names[10].as_str(), names[11].as_str()),
            (12, "0us-<200us", "2000us-<2200us", ">2200us")
        );
    }

    #[test]
    fn means_are_of_all() {
        let mut times = Times::default();
        assert_eq!(times.mean_us(), None);
        [3_000, 1_000, 2_500].iter().for_each(|&ns| times.add(ns));
        assert_eq!((times.min_ns, times.max_ns), (1_000, 3_000));
        assert!((times.mean_us().unwrap() - 6.5 / 3.0).abs() < 1e-12);
    }
}
