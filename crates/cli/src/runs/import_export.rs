//! `netcaliper import` and `export`: runs from other programs' files, and runs for other programs.

use crate::args::store::StoreArgs;
use crate::runs::kept::RunsArgs;
use crate::runs::saved;
use clap::{Args, ValueEnum};
use console::error::{CliError, Context as _, Exit};
use console::{file, stderr};
use model::KeptRun;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use store::Store;

/// What is read.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// Files: iperf3 -J or --json-stream, irtt -o, flent, ntttcp -x or -j, ctsTraffic's tables,
    /// what bwdelaytester, udpmon_bw_mon or udpmon_req printed, and runs of this program (--save,
    /// --json). gzip is undone; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Puts the runs of files into the store. A file that cannot be read keeps none of the others away.
pub(crate) fn import(args: &ImportArgs) -> Result<Exit, CliError> {
    let mut store = args.store.make()?;
    let mut worst = Exit::Good;
    for path in &args.files {
        match saved::bytes(path).and_then(|bytes| saved::runs(path, &bytes)) {
            Ok(outcomes) => {
                for outcome in outcomes {
                    let source = path.display().to_string();
                    let id = store.keep(&outcome, &source).map_err(CliError::failed)?;
                    let what = &outcome.begin;
                    let text = format!("{source}: saved as run {id}: {} of {}", what.verb, what.version);
                    // A closed stdout does not keep the run from being saved.
                    let _ = writeln!(io::stdout().lock(), "{text}");
                }
            }
            Err(trouble) => {
                stderr::say(format_args!("netcaliper: {}", trouble.text));
                worst = Exit::Failed;
            }
        }
    }
    Ok(worst)
}

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A row per figure.
    Csv,
    /// A run per line, as JSON.
    Jsonl,
    /// The rows of `csv`, with types, as a Parquet file (needs a build with the feature `parquet`).
    Parquet,
}

/// What is written.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Numbers of saved runs, or `last` [default: all that the options below leave].
    #[arg(value_name = "ID")]
    ids: Vec<PathBuf>,
    /// In which form.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Whether this program can write Parquet, and whether it is to go to a file or a program.
fn parquet_may_go_there(output: Option<&Path>) -> Result<(), CliError> {
    if cfg!(not(feature = "parquet")) {
        return Err(CliError::usage(
            "this netcaliper was built without Parquet (cargo build --features parquet); --format csv holds the same table",
        ));
    }
    if output.is_none() && io::stdout().is_terminal() {
        return Err(CliError::usage("a Parquet file is no text for a terminal: -o names a file"));
    }
    Ok(())
}

pub(crate) fn export(args: &ExportArgs) -> Result<Exit, CliError> {
    if args.format == Format::Parquet {
        parquet_may_go_there(args.output.as_deref())?;
    }
    let store = args.store.open()?;
    let latest = store.latest().map_err(CliError::failed)?.unwrap_or(0);
    let id = |name: &PathBuf| {
        let id = name.to_str().and_then(|text| if text == "last" { Some(latest) } else { text.parse().ok() });
        id.ok_or_else(|| {
            CliError::usage(format!(
                "'{0}' is not a run's number: `netcaliper import {0}` gives its runs numbers",
                name.display()
            ))
        })
    };
    let ids = args.ids.iter().map(id).collect::<Result<Vec<i64>, _>>()?;
    let mut runs = store.list(&args.runs.query(None)).map_err(CliError::failed)?;
    if !ids.is_empty() {
        if let Some(missing) = ids.iter().find(|id| runs.iter().all(|run| run.id != **id)) {
            return Err(CliError::failed(format!("there is no run {missing} among those asked for")));
        }
        runs.retain(|run| ids.contains(&run.id));
    }
    // The oldest first: files grow at their end.
    runs.reverse();
    let write = |out: &mut (dyn Write + Send)| write(args.format, &runs, &store, out);
    match &args.output {
        Some(path) => file::write(path, write).context(path.display())?,
        None => write(&mut BufWriter::new(io::stdout())).map_err(|e| CliError::stdout(&e))?,
    }
    Ok(Exit::Good)
}

fn write(format: Format, runs: &[KeptRun], store: &Store, out: &mut (dyn Write + Send)) -> io::Result<()> {
    match format {
        Format::Csv => report::write_figures_csv(runs, out)?,
        #[cfg(feature = "parquet")]
        Format::Parquet => report::write_figures_parquet(runs, out)?,
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {}
        Format::Jsonl => {
            for run in runs {
                let outcome = store.outcome(run.id).map_err(io::Error::other)?;
                report::write_outcome_line(&outcome, out)?;
            }
        }
    }
    out.flush()
}
