//! `netcaliper monitor`: measurements on a schedule, into the store and into metrics, with an alert
//! on failure.

use crate::args::export::ExportArgs;
use crate::args::store::StoreArgs;
use crate::args::values;
use crate::outputs::alert::Alert;
use crate::outputs::export;
use crate::outputs::scrape::{self, MetricsFile};
use crate::verbs::{Question, measure};
use crate::{config, outputs, provenance};
use clap::Args;
use clap::error::ErrorKind;
use console::error::{CliError, Context as _, Exit, lock};
use console::{signals, stderr};
use metrics::Spread;
use model::{Assertion, Cost, Figure, Outcome, Status};
use report::RunMetrics;
use runtime::Interrupt;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether the user wants to end.
const LOOK: Duration = Duration::from_millis(50);

/// What is measured, how often, and what for.
#[derive(Args, Debug)]
pub(crate) struct MonitorArgs {
    /// Time from the start of a measurement to the start of the next. When one takes longer, starts
    /// that fall into it are left out.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::duration)]
    every: u64,
    /// End after this number of measurements [default: run until interrupted].
    #[arg(long, value_name = "N", value_parser = values::count::<u64, { u64::MAX }>)]
    count: Option<u64>,
    /// What each measurement must find (repeatable), as on the questions themselves: p99<5ms,
    /// goodput>900M, ….
    #[arg(long = "assert", value_name = "CONDITION", value_parser = Assertion::parse)]
    asserts: Vec<Assertion>,
    /// Shell command to run when a measurement fails or breaks a condition, after one that did not.
    /// The command finds the sentences in NETCALIPER_BROKEN, and the measurement in NETCALIPER_RUN,
    /// NETCALIPER_VERB, NETCALIPER_TARGET.
    #[arg(long, value_name = "COMMAND")]
    on_break: Option<String>,
    /// Shell command to run after a good measurement that follows a broken one; NETCALIPER_MENDED
    /// has the sentences of the broken one.
    #[arg(long, value_name = "COMMAND")]
    on_mend: Option<String>,
    /// Write metrics into this file after each measurement, for Prometheus' textfile collector:
    /// call it something.prom.
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
    /// Let Prometheus scrape /metrics at this address; a port alone is one of the loopback address.
    #[arg(long, value_name = "ADDR", value_parser = values::metrics_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// The measurement, as on the command line: tcp lab2 -t 5s.
    #[arg(last = true, required = true, value_name = "QUESTION")]
    question: Vec<String>,
}

/// One measurement.
struct Measured {
    outcome: Option<Outcome>,
    broken: Vec<String>,
    /// The user has ended it.
    interrupted: bool,
}

/// Measures for ever, or as often as was asked for.
pub(crate) fn monitor(args: &MonitorArgs) -> Result<Exit, CliError> {
    let planned = check(&args.question, &args.asserts)?;
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let metrics = Arc::new(Mutex::new(RunMetrics::default()));
    let page = scrape::shared(&metrics, RunMetrics::write);
    let mut file = MetricsFile::begin(args.metrics_file.as_ref(), &page)?;
    let exporter = args.export.open(provenance::VERSION)?.map(export::in_background);
    let interrupt = signals::interrupt()?;
    let scraped = args.metrics.map(|address| scrape::serve(address, Arc::clone(&page))).transpose()?;
    if let Some(scraped) = &scraped {
        stderr::say(format_args!("netcaliper: metrics at http://{}/metrics", scraped.address()));
    }
    let every = Duration::from_nanos(args.every);
    let began = Instant::now();
    let mut state = State { args, broken: Vec::new(), broke: false };
    let mut measured = 0;
    let mut slot = 0u32;
    while args.count.is_none_or(|count| measured < count) {
        if !wait(began + every * slot, &interrupt) {
            break;
        }
        let found = measure_once(args, planned, &program, &interrupt, &mut state)?;
        measured += 1;
        print(args, &found, &mut lock(&metrics));
        if found.interrupted {
            break;
        }
        if let Some((exporter, outcome)) = exporter.as_ref().zip(found.outcome.as_ref()) {
            exporter.put(&export::of_run(outcome, &args.asserts), runtime::wall_now());
        }
        file.write(&page);
        state.judge(&found);
        // The slots that have passed meanwhile are gone.
        let passed = began.elapsed().as_nanos() / every.as_nanos().max(1);
        slot = u32::try_from(passed).unwrap_or(u32::MAX).max(slot).saturating_add(1);
    }
    if let Some(exporter) = exporter {
        export::end(exporter);
    }
    Ok(if state.broke { Exit::Threshold } else { Exit::Good })
}

/// State of the measurements: of the latest one, and of all.
struct State<'a> {
    args: &'a MonitorArgs,
    /// Sentences about the latest measurement, if it was broken.
    broken: Vec<String>,
    broke: bool,
}

impl State<'_> {
    /// Takes in a measurement, or the news that one takes too long, and runs the user's command
    /// after a change.
    fn judge(&mut self, found: &Measured) {
        let is_ok = found.broken.is_empty();
        self.broke |= !is_ok;
        let before = std::mem::replace(&mut self.broken, found.broken.clone());
        if is_ok != before.is_empty() {
            let command = if is_ok { &self.args.on_mend } else { &self.args.on_break };
            command.iter().for_each(|command| call(command, found, before.clone()));
        }
    }

    /// A measurement takes longer than planned: reported while it does, for it may be the last news
    /// for long.
    fn overdue(&mut self, taken: Duration) {
        let why =
            format!("the measurement has taken {} s, longer than planned, and goes on", taken.as_secs());
        print_line(runtime::wall_now().0, &why);
        self.judge(&Measured { outcome: None, broken: vec![why], interrupted: false });
    }
}

/// Time behind the planned length of a measurement after which its lateness is an event: the
/// limit of a wait for a peer.
const PATIENCE: Duration = Duration::from_secs(15);

/// The time that a measurement is to take, where that is known; whether it can be made again and
/// again.
fn check(question: &[String], asserts: &[Assertion]) -> Result<Option<Duration>, CliError> {
    const WHICH: &str = "tcp, connect, ping, stream, delay, train and load can be monitored, nothing else";
    let asked = Question::parse(question.iter().map(String::as_str)).map_err(|e| {
        if e.kind() == ErrorKind::InvalidSubcommand {
            return CliError::usage(WHICH);
        }
        let text = e.to_string();
        // What is missing stands below the first line.
        let said = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>();
        let said = said.join(" ");
        let first = said.trim_start_matches("error: ");
        CliError::usage(format!("'{}': {first}", question.join(" ")))
    })?;
    let (_, _, output) = asked.parts();
    if output.json.is_some() || output.jsonl {
        return Err(CliError::usage("leave out --json and --jsonl: the monitor reads what is printed"));
    }
    if matches!(asked, Question::Load(_)) {
        measure::check_load_conditions(asserts)?;
    } else if let Ok(Some((_, Some(phase)))) = asked.cost() {
        measure::check_conditions(asserts, &[phase])?;
    }
    let is_longer = |word: &String| LONGER.contains(&word.split('=').next().unwrap_or(word));
    Ok(planned(&asked).filter(|_| !question.iter().any(is_longer)))
}

/// Options of runs whose length is known at their end.
const LONGER: [&str; 5] = ["--search", "--sweep", "--path-mtu", "--repeat", "--until-confidence"];

/// The length of a question and the wait for lost answers.
fn planned(question: &Question) -> Option<Duration> {
    let (Cost { length_ns, wait_ns, .. }, phase) = question.cost().ok()??;
    let lead_ns = phase.map_or(0, |phase| phase.lead_ns());
    Some(Duration::from_nanos(length_ns?.saturating_add(wait_ns).saturating_add(lead_ns)))
}

/// Waits for that instant; false when the user wants to end before.
fn wait(until: Instant, interrupt: &Interrupt) -> bool {
    loop {
        if interrupt.is_requested() {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(LOOK));
    }
}

/// Measures in a process of its own, so that nothing that happens to it ends the monitor.
fn measure_once(
    args: &MonitorArgs,
    planned: Option<Duration>,
    program: &Path,
    interrupt: &Interrupt,
    state: &mut State<'_>,
) -> Result<Measured, CliError> {
    let mut command = Command::new(program);
    command.args(&args.question).arg("--json").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if config::is_unread() {
        // The user has been warned.
        command.env("NETCALIPER_CONFIG", "off");
    }
    command.env("NETCALIPER_STORE", args.store.path()?.unwrap_or_else(|| "off".into()));
    let cannot = "cannot start a measurement";
    let mut child = command.spawn().context(cannot)?;
    let (results, messages) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let mut asked = false;
    let began = Instant::now();
    let mut late_at = planned.map(|planned| planned + PATIENCE);
    let status = loop {
        if let Some(status) = child.try_wait().context(cannot)? {
            break status;
        }
        if interrupt.is_requested() && !std::mem::replace(&mut asked, true) {
            // It may have ended already.
            let _ = runtime::ask_to_end(&mut child);
        }
        if late_at.is_some_and(|late| began.elapsed() >= late) && !asked {
            late_at = None;
            state.overdue(began.elapsed());
        }
        thread::sleep(LOOK);
    };
    let [text, messages] = [results, messages].map(|reader| reader.join().unwrap_or_default());
    let outcome = report::read_run(&text).ok();
    // Ctrl-C goes to both, and the measurement may have ended by itself.
    if asked || interrupt.is_requested() {
        let interrupted = outcome.as_ref().is_none_or(|outcome| outcome.status != Status::Complete);
        if interrupted {
            pass_on(&messages, &[]);
            return Ok(Measured { outcome, broken: Vec::new(), interrupted });
        }
    }
    let mut broken = outcome.as_ref().map_or_else(Vec::new, |o| outputs::broken(&args.asserts, o));
    match status.code() {
        Some(0) => {}
        // Its own conditions, which it has told itself.
        Some(3) => broken.push("an assertion of the measurement failed".to_owned()),
        Some(code) => broken.push(reason(code, outcome.as_ref())),
        None => broken.push("the measurement was killed".to_owned()),
    }
    pass_on(&messages, &broken);
    Ok(Measured { outcome, broken, interrupted: false })
}

/// A thread that reads all that a process writes.
fn reader(pipe: Option<impl io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut all = Vec::new();
        // A part is better than nothing.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut all));
        String::from_utf8_lossy(&all).into_owned()
    })
}

/// Prints the messages of a measurement but the sentences that its line has.
fn pass_on(messages: &str, broken: &[String]) {
    let is_known = |line: &str| {
        line.strip_prefix("netcaliper: ").is_some_and(|text| broken.iter().any(|why| why == text))
    };
    messages.lines().filter(|line| !is_known(line)).for_each(stderr::say);
}

/// The sentence about a measurement that ended with this exit code: its own reason, where it left
/// one.
fn reason(code: i32, outcome: Option<&Outcome>) -> String {
    let reason = outcome.and_then(|outcome| {
        let of_points = || outcome.points.iter().find_map(|point| point.reason.as_ref());
        outcome.reason.as_ref().or_else(of_points).cloned()
    });
    match (reason, outcome.map(|outcome| outcome.status)) {
        (Some(reason), _) => report::clean(&reason).into_owned(),
        (None, Some(status)) if status != Status::Complete => format!("the measurement is {}", status.name()),
        _ => format!("the measurement ended with exit code {code}"),
    }
}

/// Prints a line for people, and takes the run into the metrics, unless the user has cut it short.
fn print(args: &MonitorArgs, measured: &Measured, metrics: &mut RunMetrics) {
    match &measured.outcome {
        _ if measured.interrupted => {}
        Some(outcome) => metrics.add(outcome, &args.asserts),
        None => metrics.add_failed(&args.asserts),
    }
    let found = measured.outcome.as_ref().map_or_else(String::new, figures_line);
    let verdict = match measured.broken.is_empty() {
        true if measured.interrupted => "interrupted".to_owned(),
        true => "ok".to_owned(),
        false => measured.broken.join("; "),
    };
    let began = measured.outcome.as_ref().map(|outcome| outcome.begin.started.0);
    let colon = if found.is_empty() { "" } else { ": " };
    print_line(began.unwrap_or_else(|| runtime::wall_now().0), &format!("{found}{colon}{verdict}"));
}

fn print_line(at_ns: i64, text: &str) {
    let at = jiff::Timestamp::from_nanosecond(at_ns.into()).unwrap_or_default();
    // A closed stdout stops neither the store nor the metrics.
    let _ = writeln!(io::stdout().lock(), "{at:.0} {text}");
}

/// `goodput.up 9.41 Gbit/s, …`: of a load the worst of its stages, of a sweep the range of its
/// settings.
fn figures_line(outcome: &Outcome) -> String {
    let is_load = outcome.begin.verb == "load";
    let figures: Vec<Figure> =
        if is_load { Figure::leading_of_load().to_vec() } else { Figure::compared().collect() };
    let parts = outcome.parts();
    let shown = |figure: Figure| {
        let known = parts.iter().filter(|part| part.is_shown(figure));
        let values = known.filter_map(|part| part.figure(figure)).filter(|value| value.is_finite());
        let spread = Spread::of(&values.collect::<Vec<f64>>())?;
        let [low, high] = [spread.min, spread.max].map(|value| figure.unit().show(value));
        let value = match is_load {
            true if figure.more_is_better() => low,
            true => high,
            false if low == high => low,
            false => format!("{low} to {high}"),
        };
        Some(format!("{} {value}", figure.key()))
    };
    figures.into_iter().filter_map(shown).collect::<Vec<_>>().join(", ")
}

/// Runs the user's command, and does not wait for it.
fn call(command: &str, measured: &Measured, mended: Vec<String>) {
    let begin = measured.outcome.as_ref().map(|outcome| &outcome.begin);
    let alert = Alert {
        mended: if measured.broken.is_empty() { mended } else { Vec::new() },
        broken: measured.broken.clone(),
        run: begin.map_or(String::new(), |b| b.run.to_string()),
        verb: begin.map_or(String::new(), |b| b.verb.clone()),
        target: begin.map_or(String::new(), |b| b.targets.join(" ")),
    };
    // Waiting for the child keeps it from becoming a zombie.
    if let Some(mut child) = alert.start(command) {
        thread::spawn(move || child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_that_print_json_of_their_own_are_refused() {
        let said = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            check(&words, &[]).map_err(|trouble| trouble.text)
        };
        for option in ["--json", "--json=summary", "-J", "-qJ", "--jsonl"] {
            let told = said(&format!("ping x {option}")).unwrap_err();
            assert!(told.contains("leave out --json"), "{option}: {told}");
        }
        assert!(said("ping x -q").is_ok());
        assert!(said("serve").unwrap_err().contains("nothing else"));
    }

    #[test]
    fn the_planned_time_is_that_of_the_question() {
        let planned = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            check(&words, &[]).map(|planned| planned.map(|planned| planned.as_secs())).unwrap_or_default()
        };
        assert_eq!(planned("tcp x -t 30s"), Some(30));
        assert_eq!(planned("ping x -t 5s"), Some(6), "the last echo is waited for");
        assert!(planned("load x").is_some());
        assert_eq!(planned("delay x --search"), None);
        assert_eq!(planned("delay x -t 2s"), Some(2));
    }
}
