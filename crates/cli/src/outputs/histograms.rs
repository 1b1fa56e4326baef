//! Files with the distribution of round trips.

use crate::args::HistogramArgs;
use crate::outputs::{self, Failures, Sink, Target};
use console::error::CliError;
use metrics::Spectrum;
use model::Outcome;

/// The files that hold whole distributions, opened before the run.
#[derive(Default)]
pub(crate) struct Histograms {
    hgrm: Option<Target<Sink>>,
    csv: Option<Target<Sink>>,
    linear: Option<u64>,
    sum: Spectrum,
}

impl Histograms {
    /// Opens what `args` ask for.
    pub(crate) fn open(args: &HistogramArgs) -> Result<Self, CliError> {
        let [hgrm, csv] = args.files().map(outputs::opened_for_end);
        Ok(Histograms { hgrm: hgrm?, csv: csv?, linear: args.linear, sum: Spectrum::default() })
    }

    /// Adds the round trips of a run.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        if let Some(rtt) = report::round_trips(outcome) {
            self.sum.merge(&rtt);
        }
    }

    pub(crate) fn write(mut self) -> Result<(), CliError> {
        let mut failed = Failures::default();
        outputs::fill(&mut self.hgrm, &mut failed, |out| report::write_hgrm(&self.sum, out));
        outputs::fill(&mut self.csv, &mut failed, |out| {
            report::write_histogram_csv(&self.sum, self.linear, out)
        });
        failed.into_result()
    }
}
