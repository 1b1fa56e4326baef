//! Runs that are over: `netcaliper report`, and how a file or a kept run is named wherever runs are asked for.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, brackets and all")]

use crate::args::OutputArgs;
use crate::kept::StoreArgs;
use crate::live::When;
use crate::originals;
use crate::outputs::Outputs;
use crate::ping::{HistogramArgs, Histograms};
use crate::{CliError, Exit, protocols, train, values};
use clap::Args;
use common::Original;
use compat::NamedFile;
use model::Outcome;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

#[derive(Args, Debug, Default)]
pub(crate) struct ReportArgs {
    /// Files written by --save or --json, numbers of saved runs (`netcaliper history`) or `last`, ctsTraffic's tables (those of
    /// several hosts together are joined), or what else `netcaliper import` reads; `-` is stdin.
    #[arg(required = true, value_name = "FILE|ID")]
    pub(crate) files: Vec<PathBuf>,
    /// Print it as another program would have: iperf3, ctstraffic, ntttcp, ttcp, rttcpip, bwdelaytester, udpmon_bw_mon and the other
    /// programs of UDPmon.
    #[arg(long = "as", value_name = "NAME", value_parser = values::original, conflicts_with_all = ["json", "jsonl"])]
    original: Option<&'static Original>,
    #[command(flatten)]
    output: OutputArgs,
    /// Write one CSV row per setting of a sweep.
    #[arg(long, value_name = "FILE")]
    sweep_csv: Option<PathBuf>,
    /// Write the data series of trains (of `train --preset slac`, all of them) as CSV files into this folder.
    #[arg(long, value_name = "FOLDER")]
    series: Option<PathBuf>,
    /// Of several files, the round trips of all together: their counts are added.
    #[command(flatten)]
    histogram: HistogramArgs,
}

impl ReportArgs {
    pub(crate) fn of(files: Vec<PathBuf>, output: OutputArgs) -> Self {
        ReportArgs { files, output, ..ReportArgs::default() }
    }
}

/// Which kept run is meant: its number, or 0 for the last one. A file of that name comes first.
pub(crate) fn number(name: &Path) -> Option<i64> {
    if name.exists() {
        return None;
    }
    match name.to_str()? {
        "last" => Some(0),
        text => text.parse().ok().filter(|id| *id > 0),
    }
}

/// A run from a file or from the store.
pub(crate) fn outcome(name: &Path, store: &StoreArgs) -> Result<Outcome, CliError> {
    if let Some(id) = number(name) {
        return kept(id, store);
    }
    parse(name, bytes(name)?)
}

/// A run of this program or of another.
pub(crate) fn parse(name: &Path, bytes: Vec<u8>) -> Result<Outcome, CliError> {
    if let Some(imported) = protocols::import(&bytes) {
        return imported.map_err(|e| named(name, &e));
    }
    let text = String::from_utf8(bytes).map_err(|_| named(name, &"the file is not UTF-8 text"))?;
    if !text.trim().is_empty() && !text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        let others = protocols::importable();
        let what = format!("the file is neither a saved outcome nor a journal, nor known to be of {others}");
        return Err(named(name, &what));
    }
    report::read_run(&text).map_err(|e| named(name, &e))
}

fn kept(id: i64, store: &StoreArgs) -> Result<Outcome, CliError> {
    let store = store.open()?;
    let id = match id {
        0 => store.latest().map_err(CliError::failed)?.unwrap_or(0),
        id => id,
    };
    store.outcome(id).map_err(CliError::failed)
}

/// All of a file; `-` is stdin.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin().read_to_end(&mut bytes).map_err(|e| named(path, &e))?;
    } else {
        bytes = std::fs::read(path).map_err(|e| named(path, &e))?;
    }
    Ok(bytes)
}

pub(crate) fn named(path: &Path, error: &dyn Display) -> CliError {
    CliError::failed(format!("{}: {error}", path.display()))
}

/// Why `name` cannot be printed: the file, or stdout.
fn unsaid(name: &str, error: &io::Error) -> CliError {
    match error.kind() {
        ErrorKind::BrokenPipe => CliError::stdout(error),
        _ => CliError::failed(format!("cannot report on {name}: {error}")),
    }
}

pub(crate) fn report(args: &ReportArgs) -> Result<Exit, CliError> {
    if args.files.len() > 1 && (args.output.html.is_some() || args.output.svg.is_some()) {
        return Err(CliError::usage("--html and --svg show one run: give one file"));
    }
    let mut worst = Exit::Good;
    let mut histograms = Histograms::open(&args.histogram)?;
    let mut tables = BTreeMap::new();
    for path in &args.files {
        let outcome = match number(path) {
            Some(id) => kept(id, &args.output.store)?,
            None => {
                let bytes = bytes(path)?;
                // As a page or a document they are what import makes of them.
                let told =
                    !(args.output.html.is_some() || args.output.svg.is_some() || args.output.json.is_some());
                let original = originals::all().find(|original| {
                    told && original.tables.as_ref().is_some_and(|tables| (tables.known)(&bytes))
                });
                if let Some(original) = original {
                    let name = path.display().to_string();
                    tables
                        .entry(original.name)
                        .or_insert((original, Vec::new()))
                        .1
                        .push(NamedFile { name, bytes });
                    continue;
                }
                parse(path, bytes)?
            }
        };
        let exit = one(args, path, &outcome, &mut histograms)?;
        worst = if worst == Exit::Good { exit } else { worst };
    }
    histograms.write()?;
    for (name, (original, files)) in &tables {
        let out = &args.output;
        if out.json.is_some() || out.jsonl || args.original.is_some() {
            return Err(CliError::usage(format!("tables of {name} are reported as text only")));
        }
        let Some(tables) = &original.tables else { continue };
        (tables.report)(files, &mut io::stdout().lock()).map_err(|e| unsaid("the tables", &e))?;
    }
    Ok(worst)
}

fn one(
    args: &ReportArgs,
    path: &Path,
    outcome: &Outcome,
    histograms: &mut Histograms,
) -> Result<Exit, CliError> {
    if let Some(original) = args.original {
        let events = report::replay(outcome);
        (original.print)(outcome, &events, &mut io::stdout().lock())
            .map_err(|e| unsaid(&path.display().to_string(), &e))?;
        return Ok(Exit::Good);
    }
    histograms.add(outcome);
    if args.output.live == When::Always {
        return Err(CliError::usage("--live shows runs while they last, and this one is over"));
    }
    let mut outputs =
        Outputs::open(&args.output, args.sweep_csv.as_ref())?.with_pings(None, args.histogram.linear)?;
    for event in report::replay(outcome) {
        outputs.event(&event);
    }
    if args.series.is_some() {
        train::series_folder(args.series.as_ref())?;
        outputs.heed(train::write_series(args.series.as_ref(), false, outcome));
    }
    Ok(outputs.finish())
}
