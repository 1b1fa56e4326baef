//! `netcaliper compare`: which differences between runs are real.

use crate::{Exit, Trouble};
use clap::Args;
use model::Outcome;
use report::Comparison;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// What is compared.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Saved runs (--save or --json): two, the one before and the one after; or, with --with, any number from before.
    #[arg(required = true, value_name = "FILE")]
    before: Vec<PathBuf>,
    /// Any number of runs from after. With three and more on either side each run is one reading, else each interval.
    #[arg(long = "with", value_name = "FILE", num_args = 1..)]
    after: Vec<PathBuf>,
    /// Exit with 3 when a figure is worse for certain, by more than so many percent of what it was before.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    threshold: Option<f64>,
    /// Print one JSON document.
    #[arg(short = 'J', long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|n| (0.0..=1e6).contains(n))
        .ok_or_else(|| format!("'{text}' is not a percentage such as 0, 5 or 2.5%"))
}

/// Compares saved runs.
pub(crate) fn compare(args: &CompareArgs) -> Result<Exit, Trouble> {
    let (before, after) = match (&args.before[..], &args.after[..]) {
        ([before, after], []) => (std::slice::from_ref(before), std::slice::from_ref(after)),
        (_, []) => {
            return Err(Trouble::usage(
                "two runs are compared: give two files, or several and after --with the others",
            ));
        }
        (before, after) => (before, after),
    };
    let (before, after) = (read(before)?, read(after)?);
    let comparison = Comparison::of(&before, &after).map_err(Trouble::failed)?;
    let mut out = io::stdout().lock();
    let color = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let written = match args.json {
        true => writeln!(out, "{:#}", comparison.json()),
        false => comparison.write(color, &mut out),
    };
    written.map_err(|e| Trouble::failed(format!("cannot write to stdout: {e}")))?;
    let broken = args.threshold.is_some_and(|percent| comparison.worse_by(percent / 100.0));
    Ok(if broken { Exit::Threshold } else { Exit::Good })
}

fn read(paths: &[PathBuf]) -> Result<Vec<Outcome>, Trouble> {
    paths.iter().map(|path| outcome(path)).collect()
}

fn outcome(path: &Path) -> Result<Outcome, Trouble> {
    let named = |e: &dyn std::fmt::Display| Trouble::failed(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
    report::read_run(&text).map_err(|e| named(&e))
}
