//! `netcaliper compare`: which differences between runs are real.

use crate::args::store::StoreArgs;
use crate::runs::saved;
use clap::Args;
use console::error::{CliError, Exit};
use console::{stderr, stdout};
use model::Outcome;
use report::Comparison;
use std::io::Write as _;
use std::path::PathBuf;

/// The compared runs.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Saved runs (--save or --json) or numbers of runs in the store: two, the one before and the
    /// one after; or, with --with, any number from before.
    #[arg(required = true, value_name = "FILE|ID")]
    before: Vec<PathBuf>,
    /// Any number of runs from after. With one run a side each interval is a reading, else each
    /// run: 4 a side are the fewest for one figure of the question, 5 for up to five, 7 for CPU
    /// time, retransmits and the others beside. Take the runs in turn.
    #[arg(long = "with", value_name = "FILE|ID", num_args = 1..)]
    after: Vec<PathBuf>,
    /// Exit with 3 when a figure is significantly worse, by more than this percentage of its value
    /// before (the whole confidence interval must lie beyond it), and with 1 when there are too few
    /// readings for that, or when a rate or a loss is worse by more over all of each side and its
    /// readings scatter too much to say so for certain.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    threshold: Option<f64>,
    /// Print one JSON document.
    #[arg(short = 'J', long)]
    json: bool,
    /// Add intervals, probabilities, numbers of readings, and the meaning of the columns.
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    store: StoreArgs,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse().ok().filter(|n| (0.0..=1e6).contains(n));
    number.ok_or_else(|| format!("'{text}' is not a percentage such as 0, 5 or 2.5%"))
}

pub(crate) fn compare(args: &CompareArgs) -> Result<Exit, CliError> {
    let (before, after) = match (&args.before[..], &args.after[..]) {
        ([before, after], []) => (std::slice::from_ref(before), std::slice::from_ref(after)),
        (_, []) => {
            return Err(CliError::usage(
                "two runs are compared: give two files, or several and after --with the others",
            ));
        }
        (before, after) => (before, after),
    };
    let read = |names: &[PathBuf]| -> Result<Vec<Outcome>, CliError> {
        names.iter().map(|name| saved::outcome(name, &args.store)).collect()
    };
    let (before, after) = (read(before)?, read(after)?);
    Comparison::is_of_one_verb(&before, &after).map_err(CliError::usage)?;
    let comparison = Comparison::of(&before, &after).map_err(CliError::failed)?;
    stdout::print(|out| match args.json {
        true => writeln!(out, "{:#}", comparison.json()),
        false => {
            let style = (stdout::color(), stderr::stdout_columns(), args.verbose);
            comparison.write(style, &mut stdout::Text::to(out))
        }
    })?;
    match args.threshold {
        Some(percent) if comparison.worse_by(percent / 100.0).map_err(CliError::failed)? => {
            Ok(Exit::Threshold)
        }
        _ => Ok(Exit::Good),
    }
}
