//! Runs that are over: `netcaliper report`, and how a file or a kept run is named wherever runs are
//! asked for.

use crate::args::store::StoreArgs;
use crate::args::{HistogramArgs, OutputArgs, When, values};
use crate::outputs::histograms::Histograms;
use crate::outputs::{Outputs, series};
use crate::protocols;
use clap::Args;
use common::Original;
use compat::NamedFile;
use compat::file::read_bounded;
use console::error::{CliError, Context as _, Exit};
use console::stdout::is_stdout;
use console::{file, stderr, stdout};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::{Count, Outcome, Point};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

#[derive(Args, Debug, Default)]
pub(crate) struct ReportArgs {
    /// Files written by --save or --json, numbers of saved runs (`netcaliper history`) or `last`,
    /// ctsTraffic's tables (tables of several hosts are joined), or other files that `netcaliper
    /// import` reads; `-` is stdin.
    #[arg(required = true, value_name = "FILE|ID")]
    pub(crate) files: Vec<PathBuf>,
    /// Print it as another program would have: iperf3, ctstraffic, ntttcp, ttcp, rttcpip,
    /// bwdelaytester, udpmon_bw_mon and the other programs of UDPmon. No other output goes with it,
    /// and no condition.
    #[arg(long = "as", value_name = "NAME", value_parser = values::original,
        conflicts_with_all = ["json", "jsonl", "status_csv", "connection_csv", "save", "html", "svg",
            "metrics_file", "asserts", "sweep_csv", "series", "hgrm", "histogram_csv", "web"])]
    original: Option<&'static Original>,
    #[command(flatten)]
    output: OutputArgs,
    /// Write one CSV row per setting of a sweep.
    #[arg(long, value_name = "FILE")]
    sweep_csv: Option<PathBuf>,
    /// Write the data series of trains (of `train --preset slac`, all of them) as CSV files into
    /// this folder.
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

    /// The files and folders that are asked for and hold one run each, with their options.
    fn of_one_run(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let out = &self.output;
        let all = [
            ("--html", &out.html),
            ("--svg", &out.svg),
            ("--status-csv", &out.status_csv),
            ("--connection-csv", &out.connection_csv),
            ("--save", &out.save),
            ("--metrics-file", &out.metrics_file),
            ("--sweep-csv", &self.sweep_csv),
            ("--series", &self.series),
        ];
        all.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?)))
    }

    /// True if more than text for people is requested: documents, files, conditions.
    fn needs_outcomes(&self) -> bool {
        let out = &self.output;
        let has_histogram = self.histogram.files().iter().any(Option::is_some);
        let has_file = has_histogram || self.of_one_run().next().is_some();
        out.json.is_some() || out.jsonl || out.web.wanted() || has_file || !out.asserts.is_empty()
    }
}

/// A kept run's number, or 0 for the last one. A file of that name has precedence.
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
        return kept(id, store).map(|(_, outcome)| outcome);
    }
    let mut runs = runs(name, &bytes(name)?)?;
    match (runs.pop(), runs.len()) {
        (Some(one), 0) => Ok(one),
        (_, others) => {
            let others = others + 1;
            Err(format!(
                "the file holds {others} runs, and one is asked for: netcaliper import gives each a number"
            ))
            .context(name.display())
        }
    }
}

/// The runs of a file, of this program or of another; documents that cannot be used are warned of
/// beside others that can.
pub(crate) fn runs(name: &Path, bytes: &[u8]) -> Result<Vec<Outcome>, CliError> {
    let (runs, errors) = protocols::read(bytes).context(name.display())?;
    if runs.is_empty() {
        return Err(errors.first().cloned().unwrap_or_default()).context(name.display());
    }
    for error in errors {
        stderr::say(format_args!("netcaliper: warning: {}: {error}", name.display()));
    }
    Ok(runs)
}

fn kept(id: i64, store: &StoreArgs) -> Result<(i64, Outcome), CliError> {
    let store = store.open()?;
    let id = match id {
        0 => store.latest().map_err(CliError::failed)?.unwrap_or(0),
        id => id,
    };
    Ok((id, store.outcome(id).map_err(CliError::failed)?))
}

/// `Run 18, 2026-11-28 23:50, netcaliper tcp lab2 -t 2s`
fn heading(id: i64, outcome: &Outcome) -> String {
    let begin = &outcome.begin;
    let began = Timestamp::from_nanosecond(i128::from(begin.started.0)).ok().filter(|_| begin.started.0 > 0);
    let began = began.map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string());
    let command = Some(begin.command.join(" ")).filter(|command| !command.is_empty());
    let words = [Some(format!("Run {id}")), began, command.or_else(|| Some(begin.verb.clone()))];
    report::clean(&words.into_iter().flatten().collect::<Vec<_>>().join(", ")).into_owned()
}

/// All of a file, up to the size that is read; `-` is stdin.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let read = match is_stdout(path) {
        true => read_bounded(io::stdin()),
        false => File::open(path).and_then(read_bounded),
    };
    read.context(path.display())
}

/// Prints the report on `name`, where there is one.
fn print(name: impl Display, report: Result<String, String>) -> Result<(), CliError> {
    let report = report.map_err(io::Error::other);
    let printed = report.and_then(|text| stdout::text().write_all(text.as_bytes()));
    printed.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::stdout(&error),
        _ => CliError::failed(format!("cannot report on {name}: {error}")),
    })
}

pub(crate) fn report(args: &ReportArgs) -> Result<Exit, CliError> {
    // Rows and journals of several runs may follow each other on stdout; pages, tables, metrics and
    // folders may not.
    let whole = ["--html", "--svg", "--series", "--metrics-file", "--sweep-csv"];
    let single = |(option, path): &(&str, &PathBuf)| whole.contains(option) || !is_stdout(path);
    if args.files.len() > 1
        && let Some((option, _)) = args.of_one_run().find(single)
    {
        return Err(CliError::usage(format!("{option} is for one run: give one file")));
    }
    let mut worst = Exit::Good;
    let mut histograms = Histograms::open(&args.histogram)?;
    let mut tables = BTreeMap::new();
    for path in &args.files {
        let mut number_of = None;
        let outcomes = match number(path) {
            Some(id) => {
                let (id, outcome) = kept(id, &args.output.store)?;
                number_of = Some(id);
                vec![outcome]
            }
            None => {
                let bytes = bytes(path)?;
                // As a page, a document or rows, and for conditions, they are what import makes of
                // them.
                let told = !args.needs_outcomes();
                let original = protocols::originals().find(|original| {
                    told && original.tables.as_ref().is_some_and(|tables| (tables.known)(&bytes))
                });
                if let Some(original) = original {
                    let file = NamedFile { name: path.display().to_string(), bytes };
                    tables.entry(original.name).or_insert((original, Vec::new())).1.push(file);
                    continue;
                }
                runs(path, &bytes)?
            }
        };
        if let Some((option, _)) = args.of_one_run().find(single).filter(|_| outcomes.len() > 1) {
            let runs = outcomes.len();
            return Err(CliError::usage(format!("{option} is for one run: {} holds {runs}", path.display())));
        }
        for outcome in &outcomes {
            let exit = one(args, (path, number_of), outcome, &mut histograms)?;
            worst = if worst == Exit::Good { exit } else { worst };
        }
    }
    histograms.write()?;
    for (name, (original, files)) in &tables {
        if args.original.is_some() {
            return Err(CliError::usage(format!("tables of {name} are reported as text only")));
        }
        let Some(tables) = &original.tables else { continue };
        print("the tables", (tables.report)(files))?;
    }
    Ok(worst)
}

/// A count of the client that originals print, and that nobody recorded: printed as 0 it would be
/// false.
fn own_count_missing(point: &Point) -> Option<&'static str> {
    let (pattern, unknown) = (point.phase.pattern, point.local.unknown);
    let sent = pattern.sends_up() && unknown.has(Count::SentBytes);
    let received = pattern.sends_down() && unknown.has(Count::ReceivedBytes);
    match (sent, received) {
        (true, _) => Some("the bytes that the client sent"),
        (_, true) => Some("the bytes that the client received"),
        _ => None,
    }
}

fn one(
    args: &ReportArgs,
    (path, number): (&Path, Option<i64>),
    outcome: &Outcome,
    histograms: &mut Histograms,
) -> Result<Exit, CliError> {
    if let Some(original) = args.original {
        if let Some(count) = outcome.points.iter().find_map(own_count_missing) {
            return Err(CliError::failed(format!(
                "{}: {} prints {count}, and the file has no such count: without --as its counts are printed",
                path.display(),
                original.name
            )));
        }
        print(path.display(), (original.print)(outcome, &report::replay(outcome)))?;
        return Ok(Exit::Good);
    }
    histograms.add(outcome);
    if args.output.live == When::Always {
        return Err(CliError::usage("--live shows runs while they last, and this one is over"));
    }
    let outputs = Outputs::open(&args.output, args.sweep_csv.as_ref(), &args.histogram.files())?;
    let mut outputs = outputs.in_steps(args.histogram.linear);
    if let Some(id) = number.filter(|_| !args.output.quiet) {
        outputs.print(format!("{}\n", heading(id, outcome)).into_bytes());
    }
    for event in report::replay(outcome) {
        outputs.event(&event);
    }
    if let Some(folder) = &args.series {
        file::folder(folder)?;
        outputs.heed(series::write_all(folder, outcome));
    }
    Ok(outputs.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReportArgs,
    }

    fn line(words: &str) -> Result<ReportArgs, String> {
        let words = std::iter::once("report").chain(words.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args).map_err(|e| e.to_string())
    }

    const FILES: [&str; 8] = [
        "--html",
        "--svg",
        "--status-csv",
        "--connection-csv",
        "--save",
        "--metrics-file",
        "--sweep-csv",
        "--series",
    ];

    #[test]
    fn a_file_of_one_run_is_not_written_anew_by_the_next() {
        for option in FILES {
            let several = line(&format!("a.json b.json {option} x")).unwrap();
            let said = report(&several).unwrap_err();
            assert_eq!(
                (said.exit, said.text),
                (Exit::Usage, format!("{option} is for one run: give one file"))
            );
        }
        // What they do with stdout is no reason to refuse them: the first of them is not there.
        let said = report(&line("/nowhere/a.json /nowhere/b.json --status-csv -").unwrap()).unwrap_err();
        assert!(said.text.contains("/nowhere/a.json"), "{}", said.text);
    }

    #[test]
    fn nothing_is_left_out_beside_a_layout_of_another_program() {
        let name = protocols::originals().next().unwrap().name;
        for words in ["--assert errors=0", "--hgrm x", "--histogram-csv x", "--json", "--jsonl"] {
            assert!(line(&format!("a.json --as {name} {words}")).unwrap_err().contains("--as"), "{words}");
        }
        for option in FILES {
            assert!(line(&format!("a.json --as {name} {option} x")).is_err(), "{option}");
        }
        assert!(line(&format!("a.json --as {name} -v")).is_ok());
    }

    #[test]
    fn tables_of_other_programs_are_imported_where_text_is_not_all() {
        assert!(!line("a.csv -v").unwrap().needs_outcomes());
        for words in
            ["--assert errors=0", "--metrics-file x", "--hgrm x", "--jsonl", "--status-csv x", "--web"]
        {
            assert!(line(&format!("a.csv {words}")).unwrap().needs_outcomes(), "{words}");
        }
    }
}
