//! `netcaliper history` and `show`: the runs of the store.

use crate::args::store::StoreArgs;
use crate::args::{OutputArgs, values};
use crate::runs::saved;
use clap::Args;
use console::error::{CliError, Exit};
use console::{stderr, stdout};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use metrics::{Clamped, Wall, format_count};
use std::collections::BTreeSet;
use std::path::PathBuf;
use store::{Query, Retention};

/// Which runs.
#[derive(Args, Debug)]
pub(crate) struct RunsArgs {
    /// Only runs of this question: tcp, ping, ….
    #[arg(long, value_name = "NAME")]
    verb: Option<String>,
    /// Only runs whose targets contain this text.
    #[arg(long, value_name = "TEXT")]
    host: Option<String>,
    /// Only runs since a day, 2026-11-24 (local time), or not older than this: 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Wall>,
}

/// Midnight of a day, a time of a day, or a time ago.
fn since(text: &str) -> Result<Wall, String> {
    let day = text.parse::<Date>().map(DateTime::from).or_else(|_| text.parse::<DateTime>());
    if let Ok(day) = day {
        let at = day.to_zoned(TimeZone::system()).map_err(|e| e.to_string())?;
        return i64::try_from(at.timestamp().as_nanosecond()).map(Wall).map_err(|e| e.to_string());
    }
    let ago = values::pause(text).map_err(|e| format!("{e}; or a day: 2026-11-24"))?;
    Ok(Wall(runtime::wall_now().0.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))))
}

impl RunsArgs {
    /// As the store is asked, for the latest `most`.
    pub(crate) fn query(&self, most: Option<u32>) -> Query {
        Query {
            verb: self.verb.clone(),
            target: self.host.clone(),
            since: self.since,
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
    let say = |text: &str| Ok(stdout::write(format!("{text}\n").as_bytes()));
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
        return stdout::print(|out| report::write_history_json(&runs, out));
    }
    let retention = store.retention().map_err(CliError::failed)?;
    let printed = stdout::print(|out| {
        let zone = TimeZone::system();
        report::write_history(&runs, &args.figure, &zone, stdout::color(), &mut stdout::Text::to(out))
    });
    // No part of the list, which may be read by another program.
    stderr::say(format_args!("{retention} (netcaliper history --retain changes that)"));
    printed
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
