//! Number of repetitions until a measurement's mean is known: netperf's question, with a bound that
//! holds although it is asked after each repetition.

use crate::{Figure, Level, Point, Status};
use metrics::{Clamped, Spread, format_count};
use std::fmt;

/// Fewest repetitions before the rule is asked: the least that netperf's `-i` takes.
pub const LEAST_REPEATS: u32 = 3;
/// Most repetitions when no number was given: the most that netperf's `-i` takes.
pub const MOST_REPEATS: u32 = 30;

/// Factor by which the error is reduced for a test after each repetition: stopping at the first
/// narrow interval stops where the deviation is small by chance, and Student's interval for one
/// look then misses the mean in 8 of 100 cases instead of 5. With a third of the error at each look
/// it misses in at most 3.5 of 100 and 1 of 100 (the tests measure it).
const LOOKS: f64 = 3.0;

/// Repeat until the mean of the main figure is known to within this width, with this confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// Probability that it ends and the mean is not within the width, at most.
    pub error: f64,
    /// Width of the whole interval around the mean, as a share of the mean.
    pub width: f64,
}

impl Until {
    /// Understands netperf's `99,5`: 99 % sure that the mean is within ±2.5 % of the true one.
    ///
    /// # Errors
    /// One sentence: the wrong part and the expected form.
    pub fn parse(text: &str) -> Result<Until, String> {
        let wrong = || {
            format!(
                "'{text}' is not a confidence: 95 or 99, a comma, and the width of the interval in percent of the mean, such as 99,5"
            )
        };
        let (level, width) = text.split_once(',').unwrap_or((text, "5"));
        let error = match level.trim().trim_end_matches('%') {
            "95" => 0.05,
            "99" => 0.01,
            _ => return Err(wrong()),
        };
        let width: f64 = width.trim().trim_end_matches('%').parse().map_err(|_| wrong())?;
        if !(width > 0.0 && width <= 100.0) {
            return Err(wrong());
        }
        Ok(Until { error, width: width / 100.0 })
    }

    /// True if these repetitions of one setting are enough. Without any figure they never are.
    pub fn reached(&self, same: &[&Point]) -> bool {
        let measured: Vec<&&Point> = same.iter().filter(|p| p.status != Status::Failed).collect();
        if measured.len() < usize::clamped(LEAST_REPEATS) {
            return false;
        }
        let figures = measured.first().map_or(&[][..], |point| Figure::deciding(point.phase.kind));
        let spread = |figure: &Figure| {
            Spread::of(&measured.iter().filter_map(|point| figure.of(point)).collect::<Vec<f64>>())
        };
        let spreads: Vec<Spread> = figures.iter().filter_map(spread).collect();
        let known = |spread: &Spread| spread.n >= u64::from(LEAST_REPEATS) && self.holds(spread);
        !spreads.is_empty() && spreads.iter().all(known)
    }

    /// True if the repetitions of each of these settings are enough; without settings they are not.
    pub fn reached_by_all(&self, settings: &[Vec<&Point>]) -> bool {
        !settings.is_empty() && settings.iter().all(|same| self.reached(same))
    }

    /// The notice about it at the end of a run with these settings, each with its repetitions.
    pub fn notice(&self, settings: &[Vec<&Point>]) -> (Level, String) {
        let most = settings.iter().map(Vec::len).max().unwrap_or(0);
        let after = format_count(u64::clamped(most), "repetition");
        match self.reached_by_all(settings) {
            true => (Level::Info, format!("{after} were enough: {self}")),
            false => (Level::Warning, format!("after {after} it is not known that {self}")),
        }
    }

    /// True if the mean of these readings is known well enough, after the latest of many looks.
    fn holds(&self, spread: &Spread) -> bool {
        2.0 * spread.half_width(self.error / LOOKS) <= self.width * spread.mean.abs()
    }
}

/// As a clause: `the mean is within ±2.5 % of the true one, with 99 % confidence`.
impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = ((1.0 - self.error) * 100.0).round();
        write!(f, "the mean is within ±{} % of the true one, with {level} % confidence", self.width * 50.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    fn points(rates: &[f64]) -> Vec<Point> {
        let up = |&goodput_bps: &f64| Some(Direction { goodput_bps, ..Direction::default() });
        let one = |rate| Point { status: Status::Complete, up: up(rate), ..Point::default() };
        rates.iter().map(one).collect()
    }

    fn reached(text: &str, rates: &[f64]) -> bool {
        let points = points(rates);
        Until::parse(text).unwrap().reached(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn three_readings_have_the_interval_of_two_degrees_of_freedom() {
        // Mean 100, deviation 1, three readings. Of two degrees of freedom t² = 2 (1-p)² / (1 -
        // (1-p)²): at p = 0.05 / 3 t is 7.649, half the width 7.649 / sqrt(3) = 4.416, so 8.83 % in
        // all; at p = 0.01 / 3 t is 17.277: 19.95 %.
        let three = [99.0, 100.0, 101.0];
        assert!(!reached("99,19.9", &three) && reached("99,20", &three));
        assert!(!reached("95,8.8", &three) && reached("95,8.9", &three));
        assert!(!reached("99,100", &[100.0, 100.0]), "fewer than three are never enough");
        assert!(reached("99,5", &[100.0; 3]));
        assert!(!reached("99,5", &[]));
    }

    #[test]
    fn all_settings_have_to_be_known_and_the_notice_says_so() {
        let (alike, apart) = (points(&[100.0; 3]), points(&[1.0, 100.0, 10_000.0, 5.0]));
        let [alike, apart]: [Vec<&Point>; 2] = [alike.iter().collect(), apart.iter().collect()];
        let until = Until::parse("99,5").unwrap();
        let (level, text) = until.notice(&[alike.clone(), alike.clone()]);
        assert_eq!(level, Level::Info);
        assert!(text.starts_with("3 repetitions were enough: the mean is within"), "{text}");
        let (level, text) = until.notice(&[alike, apart]);
        assert_eq!(level, Level::Warning);
        assert!(text.starts_with("after 4 repetitions it is not known that the mean is within"), "{text}");
        assert!(!until.reached_by_all(&[]));
    }

    /// In how many of 2,000 series of normal readings the rule ends, and of those the mean is not
    /// within the width. `ratio` is half the width asked for over the deviation of a reading, which
    /// is all that matters.
    fn ended_and_missed(error: f64, ratio: f64) -> (u32, u32) {
        let mut state = 88_172_645_463_325_252u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let until = Until { error, width: 0.02 };
        let (mut ended, mut missed) = (0, 0);
        // By the number of readings: the largest deviation, as a share of the mean, that was small
        // enough, and the smallest that was not. What lies beyond them need not be computed.
        let mut known = [(0.0f64, f64::INFINITY); MOST_REPEATS as usize + 1];
        for _ in 0..2_000 {
            // ±1 % of a mean of 100 is 1, and the deviation is 1 / ratio.
            let mut values = Vec::new();
            while values.len() < MOST_REPEATS as usize {
                values.push(100.0 + normal() / ratio);
                let spread = Spread::of(&values).unwrap();
                if values.len() < LEAST_REPEATS as usize {
                    continue;
                }
                let (share, (small, large)) = (spread.sd / spread.mean, &mut known[values.len()]);
                if share <= *small || (share < *large && until.holds(&spread)) {
                    *small = small.max(share);
                    ended += 1;
                    missed += u32::from((spread.mean - 100.0).abs() > 1.0);
                    break;
                }
                *large = large.min(share);
            }
        }
        (ended, missed)
    }

    #[test]
    fn it_ends_with_a_wrong_mean_no_more_often_than_it_says() {
        // Every other ratio is enough to see a change; `bench/deep` has all.
        let step = if std::env::var_os("NETCALIPER_INPUTS").is_some() { 1 } else { 2 };
        let ratios = [0.4, 0.5, 0.6, 0.7, 0.85, 1.0];
        for (error, most) in [(0.05, 3.5), (0.01, 1.0)] {
            let mut worst = 0.0f64;
            for ratio in ratios.into_iter().step_by(step) {
                let (ended, missed) = ended_and_missed(error, ratio);
                println!("{error} {ratio}: {ended} of 2000 ended, {missed} missed");
                worst = worst.max(f64::from(missed) / 20.0);
            }
            assert!(worst <= most, "{worst} % at {error}");
        }
        // It does end: always where a reading deviates by 1 % and ±1 % is asked for.
        assert_eq!(ended_and_missed(0.05, 1.0).0, 2_000);
    }

    #[test]
    fn what_cannot_be_is_said() {
        for bad in ["", "90,5", "99,0", "99,x", "99,-5", "99,500"] {
            assert!(Until::parse(bad).unwrap_err().contains("not a confidence"), "{bad}");
        }
        assert_eq!(Until::parse("99").unwrap(), Until::parse("99,5%").unwrap());
    }
}
