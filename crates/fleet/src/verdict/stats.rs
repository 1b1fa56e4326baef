//! Medians, the fit by rows and columns, and corrected probabilities.

use crate::inventory::HostId;
use metrics::real;

/// Most rounds of the fit; it ends when nothing changes any more.
const ROUNDS: usize = 20;

/// The median; `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    let n = values.len();
    let (_, middle, _) = values.select_nth_unstable_by(n.checked_sub(1)? / 2, f64::total_cmp);
    let low = *middle;
    if n % 2 == 1 {
        return Some(low);
    }
    let above = values[n / 2..].iter().copied().min_by(f64::total_cmp)?;
    Some(f64::midpoint(low, above))
}

/// The median deviation from the median, times what makes it a standard deviation where values are
/// normal.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let Some(middle) = median(values.to_vec()) else { return 0.0 };
    1.4826 * median(values.iter().map(|value| (value - middle).abs()).collect()).unwrap_or(0.0)
}

/// A matrix as a common value, one for each row, one for each column, and a rest for each cell: by
/// medians (Tukey, *Exploratory Data Analysis*, 1977).
pub(super) struct Fit {
    common: f64,
    pub(super) out: Vec<f64>,
    pub(super) into: Vec<f64>,
    /// Of each cell, in the order given.
    pub(super) rest: Vec<f64>,
    pub(super) cells_out: Vec<usize>,
    pub(super) cells_in: Vec<usize>,
}

impl Fit {
    /// The fit of some cells of a matrix.
    pub(super) fn of(hosts: usize, cells: impl Iterator<Item = (HostId, HostId, f64)>) -> Fit {
        let (mut rows, mut columns) = (vec![Vec::new(); hosts], vec![Vec::new(); hosts]);
        let mut rest = Vec::new();
        for (from, to, value) in cells.filter(|(from, to, _)| from.index().max(to.index()) < hosts) {
            rows[from.index()].push(rest.len());
            columns[to.index()].push(rest.len());
            rest.push(value);
        }
        let mut fit = Fit {
            common: 0.0,
            out: vec![0.0; hosts],
            into: vec![0.0; hosts],
            cells_out: rows.iter().map(Vec::len).collect(),
            cells_in: columns.iter().map(Vec::len).collect(),
            rest,
        };
        for _ in 0..ROUNDS {
            let before = fit.rest.clone();
            sweep(&rows, &mut fit.rest, &mut fit.out);
            fit.common += center(&mut fit.into, &fit.cells_in);
            sweep(&columns, &mut fit.rest, &mut fit.into);
            fit.common += center(&mut fit.out, &fit.cells_out);
            if fit.rest == before {
                break;
            }
        }
        fit
    }

    /// Value of a cell without its rest.
    pub(super) fn expected(&self, from: HostId, to: HostId) -> f64 {
        let of = |effects: &[f64], host: HostId| effects.get(host.index()).copied().unwrap_or(0.0);
        self.common + of(&self.out, from) + of(&self.into, to)
    }
}

/// Moves the median of each line from its cells to its effect.
fn sweep(lines: &[Vec<usize>], rest: &mut [f64], effects: &mut [f64]) {
    for (line, effect) in lines.iter().zip(effects) {
        let middle = median(line.iter().map(|at| rest[*at]).collect()).unwrap_or(0.0);
        line.iter().for_each(|at| rest[*at] -= middle);
        *effect += middle;
    }
}

/// Takes the median out of the effects of lines with cells.
fn center(effects: &mut [f64], cells: &[usize]) -> f64 {
    let of_cells = effects.iter().zip(cells).filter(|(_, cells)| **cells > 0).map(|(effect, _)| *effect);
    let middle = median(of_cells.collect()).unwrap_or(0.0);
    effects.iter_mut().zip(cells).filter(|(_, cells)| **cells > 0).for_each(|(effect, _)| *effect -= middle);
    middle
}

/// Probability that of `n` events, each with probability `p`, at least `least` happen.
pub(super) fn at_least(least: usize, n: usize, p: f64) -> f64 {
    let (mut term, mut sum) = ((1.0 - p).powi(i32::try_from(n).unwrap_or(i32::MAX)), 0.0);
    if p >= 1.0 {
        return 1.0;
    }
    for k in 0..=n {
        if k >= least {
            sum += term;
        }
        term *= real(n - k) / real(k + 1) * p / (1.0 - p);
    }
    sum.min(1.0)
}

/// The probabilities of several comparisons, corrected so that of those below a level at most that
/// share are false alarms on average (Benjamini and Hochberg, 1995).
pub(super) fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[j].total_cmp(&p[i]));
    let (mut corrected, mut least) = (vec![1.0; p.len()], 1.0f64);
    for (at, rank) in order.into_iter().zip((1..=p.len()).rev()) {
        least = least.min(p[at] * real(p.len()) / real(rank));
        corrected[at] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rows: &[&[f64]]) -> Vec<(HostId, HostId, f64)> {
        let row = |(i, row): (u32, &&[f64])| {
            (0..).zip(row.iter()).map(move |(j, value)| (HostId(i), HostId(j), *value)).collect::<Vec<_>>()
        };
        (0..).zip(rows).flat_map(row).collect()
    }

    #[test]
    fn the_fit_is_that_of_tukeys_example() {
        // Deaths from sport parachuting, the example of `medpolish` in R; numbers by numpy, and
        // those in R's manual.
        let rows: [&[f64]; 5] =
            [&[14.0, 15.0, 14.0], &[7.0, 4.0, 7.0], &[8.0, 2.0, 10.0], &[15.0, 9.0, 10.0], &[0.0, 2.0, 0.0]];
        let fit = Fit::of(5, cells(&rows).into_iter());
        assert_eq!((fit.common, &fit.out[..]), (8.0, &[6.0, -1.0, 0.0, 2.0, -8.0][..]));
        assert_eq!(fit.into[..3], [0.0, -1.0, 0.0]);
        let rest = [0.0, 2.0, 0.0, 0.0, -2.0, 0.0, 0.0, -5.0, 2.0, 5.0, 0.0, 0.0, 0.0, 3.0, 0.0];
        assert_eq!(fit.rest, rest);
        assert_eq!(fit.expected(HostId(0), HostId(1)), 13.0);
    }

    #[test]
    fn corrected_probabilities_are_scipys() {
        // scipy.stats.false_discovery_control of scipy 1.17.1.
        let want = [0.035, 0.046_666_666_666_666_67, 0.0525, 0.056, 0.058_333_333_333_333_34, 0.9, 0.0007];
        let got = benjamini_hochberg(&[0.01, 0.02, 0.03, 0.04, 0.05, 0.9, 0.0001]);
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}");
        // scipy.stats.binom.sf(2, 3, .033) and (3, 5, .2).
        assert!((at_least(3, 3, 0.033) - 3.593_7e-5).abs() < 1e-12);
        assert!((at_least(4, 5, 0.2) - 0.006_72).abs() < 1e-12);
        assert_eq!((at_least(0, 4, 0.5), at_least(3, 3, 1.0)), (1.0, 1.0));
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
        // The median deviation of 1 to 9 is 2.
        let values: Vec<f64> = (1..10).map(f64::from).collect();
        assert!((spread(&values) - 2.9652).abs() < 1e-12);
    }
}
