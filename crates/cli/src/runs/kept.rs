//! The store of runs: where it is, how a run gets there, `netcaliper history` and `show`.

use crate::args::OutputArgs;
use crate::args::values;
use crate::command::pages;
use crate::error::{CliError, Exit};
use crate::runs::saved;
use crate::{file, stderr};
use clap::Args;
use metrics::{Clamped, format_count};
use model::{Outcome, Point};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use store::{Query, Retention, Store};

/// Which store.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct StoreArgs {
    /// The store of runs, an SQLite file; `off` saves none [default: netcaliper/runs.sqlite in
    /// $XDG_DATA_HOME or ~/.local/share].
    #[arg(long, value_name = "PATH", env = "NETCALIPER_STORE", help_heading = "Store")]
    store: Option<PathBuf>,
}

impl StoreArgs {
    /// As the environment has it, for command lines that are not ours.
    pub(crate) fn of_environment() -> StoreArgs {
        StoreArgs { store: std::env::var_os("NETCALIPER_STORE").filter(|v| !v.is_empty()).map(PathBuf::from) }
    }

    /// The file; `None` when none is wanted.
    ///
    /// # Errors
    /// One sentence when there is no place for it.
    pub(crate) fn path(&self) -> Result<Option<PathBuf>, CliError> {
        match &self.store {
            Some(path) if path.as_os_str() == "off" => Ok(None),
            Some(path) => Ok(Some(path.clone())),
            None => usual().map(Some).ok_or_else(|| {
                CliError::failed(
                    "there is no home directory to keep runs in: --store names a file, --no-store keeps none",
                )
            }),
        }
    }

    /// The store, which must be there.
    pub(crate) fn open(&self) -> Result<Store, CliError> {
        Store::existing(&self.wanted()?).map_err(CliError::failed)
    }

    /// The store, made when it is not there.
    pub(crate) fn make(&self) -> Result<Store, CliError> {
        Store::open(&self.wanted()?).map_err(CliError::failed)
    }

    /// Saves a run, except that of a server without clients; its number, if it is saved.
    pub(crate) fn keep(&self, outcome: &Outcome) -> Result<Option<i64>, CliError> {
        if is_idle_server(outcome) {
            return Ok(None);
        }
        let Some(path) = self.path()? else { return Ok(None) };
        let kept = Store::open(&path).and_then(|mut store| store.keep(outcome, ""));
        kept.map(Some).map_err(CliError::failed)
    }

    fn wanted(&self) -> Result<PathBuf, CliError> {
        self.path()?.ok_or_else(|| {
            CliError::usage("the store is off: --store or NETCALIPER_STORE must name its file")
        })
    }
}

/// Folder for data of programs on this system.
fn usual() -> Option<PathBuf> {
    Some(file::own_folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")?.join("runs.sqlite"))
}

/// Saves a run, unless `--no-store` is given. An error is one sentence on stderr and does not
/// change the run's result.
pub(crate) fn keep(output: &OutputArgs, outcome: &Outcome) {
    if output.no_store {
        return;
    }
    match output.store.keep(outcome) {
        Ok(Some(id)) if io::stderr().is_terminal() => {
            stderr::say(format_args!("saved as run {id}: netcaliper show {id}"));
        }
        Ok(_) => {}
        Err(trouble) => warn_of_loss(&trouble),
    }
}

pub(crate) fn warn_of_loss(trouble: &CliError) {
    stderr::say(format_args!("netcaliper: warning: this run was not kept: {}", trouble.text));
}

/// True for the run of a server that had no clients and received nothing.
fn is_idle_server(outcome: &Outcome) -> bool {
    let is_idle = |point: &Point| {
        let local = &point.local;
        let moved = local.traffic.tx_bytes + local.traffic.rx_bytes;
        let datagrams = local.packets.as_ref().map_or(0, |packets| packets.counts.received);
        local.opened + moved + datagrams == 0
            && point.extras.is_empty()
            && point.intervals.iter().all(|i| i.opened == 0)
    };
    outcome.begin.verb == "serve" && outcome.points.iter().all(is_idle)
}

/// True if runs of originals are kept.
pub(crate) fn keeps() -> bool {
    !matches!(StoreArgs::of_environment().path(), Ok(None))
}

/// Saves the run of an original. A failing store does not change its output and exit code.
pub(crate) fn keep_original(outcome: &Outcome) {
    if let Err(trouble) = StoreArgs::of_environment().keep(outcome)
        // A program that reads the original's stderr does not expect this line.
        && io::stderr().is_terminal()
    {
        warn_of_loss(&trouble);
    }
}

/// Which runs.
#[derive(Args, Debug)]
pub(crate) struct RunsArgs {
    /// Only runs of this question: tcp, ping, ….
    #[arg(long, value_name = "NAME")]
    verb: Option<String>,
    /// Only runs whose targets contain this text.
    #[arg(long, value_name = "TEXT")]
    host: Option<String>,
    /// Only runs that are not older than this: 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = values::pause)]
    since: Option<u64>,
}

impl RunsArgs {
    /// As the store is asked, for the latest `most`.
    pub(crate) fn query(&self, most: Option<u32>) -> Query {
        let ago = |ns: u64| runtime::wall_now().0.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX));
        Query {
            verb: self.verb.clone(),
            target: self.host.clone(),
            since: self.since.map(|ns| metrics::Wall(ago(ns))),
            most,
            ..Query::default()
        }
    }
}

/// Selection of the list.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// Number of runs, the latest ones.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = values::count::<u32, 1_000_000_000>)]
    number: u32,
    #[command(flatten)]
    runs: RunsArgs,
    /// Show this figure (repeatable): goodput.up, rtt.p99, delay.up.p50, loss.down, … [default: a
    /// run's main figures].
    #[arg(long, value_name = "NAME")]
    figure: Vec<String>,
    /// Print one JSON document.
    #[arg(short = 'J', long)]
    json: bool,
    /// Limits of the store from now on: runs=1000,size=1Gi,age=90d, or all. The oldest runs beyond
    /// it are deleted.
    #[arg(long, value_name = "LIMITS", value_parser = Retention::parse)]
    retain: Option<Retention>,
    /// Delete these runs from the store.
    #[arg(long, value_name = "ID", num_args = 1.., conflicts_with = "retain")]
    forget: Vec<i64>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Lists kept runs, or says which are kept.
pub(crate) fn history(args: &HistoryArgs) -> Result<Exit, CliError> {
    let say = |text: &str| Ok(pages::write(format!("{text}\n").as_bytes()));
    if let Some(retention) = &args.retain {
        let gone = args.store.make()?.retain(retention).map_err(CliError::failed)?;
        return say(&format!("{retention}; {} deleted", format_count(u64::clamped(gone), "run")));
    }
    let mut store = args.store.open()?;
    if !args.forget.is_empty() {
        let gone = store.forget(&args.forget).map_err(CliError::failed)?;
        return say(&format!("{} deleted", format_count(u64::clamped(gone), "run")));
    }
    let runs = store.list(&args.runs.query(Some(args.number))).map_err(CliError::failed)?;
    let has = |name: &str| runs.iter().flat_map(|run| &run.figures).any(|figure| figure.name == name);
    if let Some(name) = args.figure.iter().find(|name| !runs.is_empty() && !has(name)) {
        let there: BTreeSet<&str> =
            runs.iter().flat_map(|run| &run.figures).map(|figure| figure.name.as_str()).collect();
        let known = match Vec::from_iter(there).join(", ") {
            none if none.is_empty() => "they have no figures".to_owned(),
            names => format!("there are {names}"),
        };
        return Err(CliError::usage(format!("none of these runs has a figure called '{name}'; {known}")));
    }
    if args.json {
        return pages::print(|out| report::write_history_json(&runs, out));
    }
    let retention = store.retention().map_err(CliError::failed)?;
    let printed = pages::print(|out| report::write_history(&runs, &args.figure, color(), out));
    // No part of the list, which may be read by another program.
    stderr::say(format_args!("{retention} (netcaliper history --retain changes that)"));
    printed
}

/// True if stdout is a terminal of a person who likes colours.
pub(crate) fn color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Which runs are shown.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Numbers of saved runs, as `history` lists them, or `last`.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn show(args: &ShowArgs) -> Result<Exit, CliError> {
    if let Some(file) = args.ids.iter().find(|id| saved::number(id).is_none()) {
        let text = format!("'{}' is not a run's number; `netcaliper report` prints files", file.display());
        return Err(CliError::usage(text));
    }
    let output = OutputArgs { full: !args.output.quiet, ..args.output.clone() };
    saved::report(&saved::ReportArgs::of(args.ids.clone(), output))
}
