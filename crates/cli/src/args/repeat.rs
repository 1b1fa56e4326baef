//! Number of repetitions of a measurement.

use crate::args::values;
use clap::Args;
use model::{Axis, LEAST_REPEATS, MOST_REPEATS, Method, Phase, Until};

/// A fixed number of times, or until its mean can be believed.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Repetitions")]
pub(crate) struct RepeatArgs {
    /// Number of measurements; the settings of a sweep take turns [default: 1; with
    /// --until-confidence at most 30].
    #[arg(long, value_name = "N", value_parser = values::count::<u32, 1000>)]
    pub(crate) repeat: Option<u32>,
    /// Measure until the mean is known so well: 99,5 is 99 percent sure of ±2.5 percent (netperf's
    /// rule; LEVEL is 95 or 99, WIDTH is 5 if left out). At least 3 times.
    #[arg(long, value_name = "LEVEL,WIDTH", value_parser = Until::parse)]
    pub(crate) until_confidence: Option<Until>,
}

impl RepeatArgs {
    /// True if more than one measurement was requested.
    pub(crate) fn repeats(&self) -> bool {
        self.repeat.is_some_and(|n| n > 1) || self.until_confidence.is_some()
    }

    /// Largest number of measurements.
    pub(crate) fn most(&self) -> u32 {
        match (self.repeat, self.until_confidence) {
            (Some(n), None) => n,
            (Some(n), Some(_)) => n.max(LEAST_REPEATS),
            (None, Some(_)) => MOST_REPEATS,
            (None, None) => 1,
        }
    }

    /// All measurements of `base` with the values of `axes`.
    pub(crate) fn of(&self, base: &Phase, axes: &[Axis]) -> Result<Method, String> {
        Ok(Method::new(base, axes, self.most())?.until(self.until_confidence))
    }
}
