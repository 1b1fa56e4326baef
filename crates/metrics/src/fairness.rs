//! Fairness of a set of rates.

use serde::{Deserialize, Serialize};

/// Count, sum and sum of squares: enough for the mean and for Jain's index, and mergeable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// How many values.
    pub n: u64,
    /// Their sum.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
}

impl Moments {
    /// Adds a value.
    pub fn add(&mut self, x: f64) {
        self.n += 1;
        self.sum += x;
        self.squares += x * x;
    }

    /// Adds another set.
    pub fn merge(&mut self, other: &Moments) {
        self.n += other.n;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Jain's fairness index `(Σx)² / (n·Σx²)`: 1 when all are equal, 1/n when one has everything (Jain, Chiu, Hawe,
    /// DEC-TR-301, 1984). `None` with fewer than two values or when all are zero.
    #[must_use]
    pub fn jain(&self) -> Option<f64> {
        (self.n >= 2 && self.squares > 0.0).then(|| self.sum * self.sum / (self.n as f64 * self.squares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut m = Moments::default();
        values.iter().for_each(|&v| m.add(v));
        m
    }

    #[test]
    fn jains_own_examples() {
        // From the report: equal shares are 1; when a share k of n users have all, the index is k/n.
        assert_eq!(of(&[20.0; 5]).jain(), Some(1.0));
        assert!((of(&[100.0, 0.0, 0.0, 0.0, 0.0]).jain().unwrap() - 0.2).abs() < 1e-12);
        assert!((of(&[50.0, 50.0, 0.0, 0.0, 0.0]).jain().unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(of(&[3.0]).jain(), None);
        assert_eq!(of(&[0.0, 0.0]).jain(), None);
    }

    #[test]
    fn merging_is_adding() {
        let mut left = of(&[1.0, 2.0]);
        left.merge(&of(&[3.0, 4.0]));
        assert_eq!(left, of(&[1.0, 2.0, 3.0, 4.0]));
    }
}
