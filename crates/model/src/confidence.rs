//! How often a measurement is repeated until its mean can be believed: netperf's rule.

use crate::{Figure, Point, Status};
use metrics::{Confidence, Spread};
use std::fmt;

/// Fewest repetitions before the rule is asked: the least that netperf's `-i` takes.
pub const LEAST_REPEATS: u32 = 3;
/// Most repetitions when no number was given: the most that netperf's `-i` takes.
pub const MOST_REPEATS: u32 = 30;

/// Repeat until the mean of what a measurement is about is known to within so much, with such confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// How sure.
    pub level: Confidence,
    /// Width of the whole interval around the mean, as a share of the mean.
    pub width: f64,
}

impl Until {
    /// Understands netperf's `99,5`: 99 % sure that the mean is within ±2.5 % of the true one.
    ///
    /// # Errors
    /// One sentence: what was wrong and what was expected.
    pub fn parse(text: &str) -> Result<Until, String> {
        let wrong = || {
            format!(
                "'{text}' is not a confidence: 95 or 99, a comma, and the width of the interval in percent of the mean, such as 99,5"
            )
        };
        let (level, width) = text.split_once(',').unwrap_or((text, "5"));
        let level = match level.trim().trim_end_matches('%') {
            "95" => Confidence::P95,
            "99" => Confidence::P99,
            _ => return Err(wrong()),
        };
        let width: f64 = width.trim().trim_end_matches('%').parse().map_err(|_| wrong())?;
        if !(width > 0.0 && width <= 100.0) {
            return Err(wrong());
        }
        Ok(Until { level, width: width / 100.0 })
    }

    /// Whether these repetitions of one setting are enough. With nothing to go by they never are.
    #[must_use]
    pub fn reached(&self, same: &[&Point]) -> bool {
        let measured: Vec<&&Point> = same.iter().filter(|p| p.status != Status::Failed).collect();
        if measured.len() < LEAST_REPEATS as usize {
            return false;
        }
        let Some(kind) = measured.first().map(|p| p.phase.kind) else { return false };
        let mut any = false;
        for figure in Figure::leading(kind) {
            let values: Vec<f64> = measured.iter().filter_map(|p| figure.of(p)).collect();
            if values.is_empty() {
                continue;
            }
            let Some(spread) = Spread::of(&values) else { continue };
            if values.len() < LEAST_REPEATS as usize
                || 2.0 * spread.half_width(self.level) > self.width * spread.mean.abs()
            {
                return false;
            }
            any = true;
        }
        any
    }
}

/// As a clause: `the mean is within ±2.5 % of the true one, with 99 % confidence`.
impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Confidence::P95 => 95,
            Confidence::P99 => 99,
        };
        write!(f, "the mean is within ±{} % of the true one, with {level} % confidence", self.width * 50.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    fn points(rates: &[f64]) -> Vec<Point> {
        let one = |&rate: &f64| Point {
            status: Status::Complete,
            up: Some(Direction { goodput_bps: rate, ..Direction::default() }),
            ..Point::default()
        };
        rates.iter().map(one).collect()
    }

    fn reached(text: &str, rates: &[f64]) -> bool {
        let points = points(rates);
        Until::parse(text).unwrap().reached(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn netperfs_rule() {
        // Mean 100, deviation 1, three readings: t(99 %, 2) = 9.925, half width 9.925 / sqrt(3) = 5.73, so 11.46 % wide in all;
        // t(95 %, 2) = 4.303: 4.97 %.
        let three = [99.0, 100.0, 101.0];
        assert!(!reached("99,11", &three) && reached("99,12", &three));
        assert!(!reached("95,4.9", &three) && reached("95,5", &three));
        assert!(!reached("99,100", &[100.0, 100.0]), "fewer than three are never enough");
        assert!(reached("99,5", &[100.0; 3]));
        assert!(!reached("99,5", &[]));
    }

    #[test]
    fn what_cannot_be_is_said() {
        for bad in ["", "90,5", "99,0", "99,x", "99,-5", "99,500"] {
            assert!(Until::parse(bad).unwrap_err().contains("not a confidence"), "{bad}");
        }
        assert_eq!(Until::parse("99").unwrap(), Until::parse("99,5%").unwrap());
    }
}
