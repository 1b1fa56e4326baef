//! Where a run's events and outcome go: the terminal and the files. Files are opened before the run
//! starts, written as it goes, and renamed when they are whole; a file that fails is reported once
//! while the run goes on.

pub(crate) mod alert;
pub(crate) mod export;
pub(crate) mod histograms;
pub(crate) mod live;
pub(crate) mod scrape;
pub(crate) mod series;
pub(crate) mod watch;

use crate::args::{JsonArg, OutputArgs, WebArgs, store};
use crate::outputs::watch::Page;
use crate::provenance;
use ::export::Exporter;
use console::error::{CliError, Exit};
use console::file::{self, NewFile};
use console::stdout::is_stdout;
use console::{signals, stderr, stdout};
use live::Live;
use model::{Assertion, Begin, Builder, Event, Level, Outcome, Status};
use report::{Console, Detail, EventCsv, EventWriter, Journal, Rows, RunMetrics, Style};
use runtime::Interrupt;
use screen::Planned;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use web::{Metrics, Source};

/// Columns of a result when neither the terminal nor COLUMNS tells a width.
const COLUMNS: u16 = 80;

pub(crate) type Sink = Box<dyn Write + Send>;
type Table = Box<dyn EventWriter + Send>;

/// A file, or stdout, to which something goes.
pub(crate) struct Target<T> {
    path: PathBuf,
    /// `None` when it has failed.
    open: Option<Open<T>>,
    keeps: bool,
}

/// What is written, and the file that it goes to; none for stdout.
struct Open<T> {
    writer: T,
    file: Option<NewFile>,
}

/// How a file comes to be.
type Create = fn(&Path) -> io::Result<NewFile>;

#[derive(Default)]
pub(crate) struct Outputs {
    console: Option<Console>,
    /// Journals and tables, written as the run goes on.
    tables: Vec<Target<Table>>,
    /// One of them has a row for every single connection.
    pub(crate) records: bool,
    sweep: Option<Target<Sink>>,
    html: Option<Target<Sink>>,
    metrics: Option<Target<Sink>>,
    page: Option<Page>,
    exporter: Option<Exporter>,
    builder: Builder,
    failed: Failures,
    /// What was asked for; the store and the conditions are looked at in the end.
    args: OutputArgs,
    /// Whether this is a measurement, and no report of one.
    measured: bool,
    /// Whether something for machines goes to stdout while the run goes on.
    streams: bool,
    /// Files are made of the outcome that are not among these.
    files_beside: bool,
    live: Option<Live>,
    serves: bool,
    /// The reason of a failure is reported on stderr elsewhere.
    reason_elsewhere: bool,
    /// The latest failure that stands on stderr.
    said: Option<String>,
    /// Failures of the protocols that a server answers beside its own.
    failed_beside: BTreeMap<&'static str, u64>,
}

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether a run of this process has begun.
pub(crate) fn has_begun() -> bool {
    BEGUN.load(Ordering::Relaxed)
}

/// Writes every plot as a file.
fn draw(outcome: &Outcome, folder: &Path) -> Result<(), CliError> {
    let mut files = report::svg_files(outcome).into_iter();
    files.try_for_each(|(name, drawn)| file::put(&folder.join(name), |out| out.write_all(drawn.as_bytes())))
}

/// Opens a file that is made at the end.
pub(crate) fn opened_for_end(path: Option<&PathBuf>) -> Result<Option<Target<Sink>>, CliError> {
    opened(path, NewFile::create, Ok)
}

fn opened<T>(
    path: Option<&PathBuf>,
    create: Create,
    make: impl Fn(Sink) -> io::Result<T>,
) -> Result<Option<Target<T>>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let open = || {
        if is_stdout(path) {
            return Ok(Open { writer: make(Box::new(io::stdout()))?, file: None });
        }
        let file = create(path)?;
        let writer = make(Box::new(BufWriter::new(file.handle()?)))?;
        Ok(Open { writer, file: Some(file) })
    };
    let open = open().map_err(|error| file::unwritten(path, &error))?;
    Ok(Some(Target { path: path.clone(), open: Some(open), keeps: false }))
}

/// Opens the journal. A cut journal can still be read, so its file is kept when the program dies or
/// a write fails.
fn journal(path: Option<&PathBuf>, create: Create) -> Result<Option<Target<Table>>, CliError> {
    let target = opened(path, create, |sink| Ok(Box::new(Journal::new(sink)) as Table))?;
    let keep = |open: Open<_>| Open { file: open.file.map(NewFile::outlives_the_program), ..open };
    Ok(target.map(|target| Target { open: target.open.map(keep), keeps: true, ..target }))
}

fn table(of: Rows, path: Option<&PathBuf>, create: Create) -> Result<Option<Target<Table>>, CliError> {
    opened(path, create, |sink| Ok(Box::new(EventCsv::new(sink, of)?) as Table))
}

/// What tells a person of the run.
fn console(args: &OutputArgs) -> Console {
    let detail = args.detail();
    let usual = (detail != Detail::Full).then_some(COLUMNS);
    let columns = stderr::stdout_columns().or(usual);
    Console::new(Style { detail, color: stdout::color(), verbose: args.verbose, linear_ns: None, columns })
}

impl Outputs {
    /// Opens everything that a server's `args` ask for but its metrics, which it writes again and
    /// again; a page in a browser has them, too. What is written all its life are logs, in their
    /// place from the start.
    pub(crate) fn of_server(args: &OutputArgs, metrics: Option<Metrics>) -> Result<Self, CliError> {
        let own = OutputArgs { web: WebArgs::default(), metrics_file: None, ..args.clone() };
        let mut outputs = Outputs::with_files(&own, None, &[], NewFile::in_place)?;
        outputs.page = Page::open(&args.web, &args.store, metrics)?;
        Ok(outputs)
    }

    /// Opens everything that `args` ask for but views, for a run that cannot begin.
    pub(crate) fn of_failure(args: &OutputArgs) -> Result<Self, CliError> {
        let own = OutputArgs { web: WebArgs::default(), asserts: Vec::new(), ..args.clone() };
        let outputs = Outputs::with_files(&own, None, &[], NewFile::create)?;
        Ok(Outputs { console: None, reason_elsewhere: true, ..outputs })
    }

    /// Reports a run that could not begin. The store keeps one that the user wants saved.
    pub(crate) fn fail(mut self, begin: Begin, end: &Event) {
        self.begin(begin);
        self.measured = self.args.save.is_some();
        self.event(end);
        self.finish();
    }

    /// Counts failures of a protocol beside the server's own.
    pub(crate) fn fails_beside(&mut self, protocol: &'static str, failed: u64) {
        if failed > 0 {
            *self.failed_beside.entry(protocol).or_default() += failed;
        }
    }

    /// Opens everything that `args` ask for. `others` are the files that [`Outputs::with`] and the
    /// caller open: at most one of all can be stdout.
    pub(crate) fn open(
        args: &OutputArgs,
        sweep_csv: Option<&PathBuf>,
        others: &[Option<&PathBuf>],
    ) -> Result<Self, CliError> {
        Outputs::with_files(args, sweep_csv, others, NewFile::create)
    }

    /// The same; `create` makes the files that hold more than the result.
    fn with_files(
        args: &OutputArgs,
        sweep_csv: Option<&PathBuf>,
        others: &[Option<&PathBuf>],
        create: Create,
    ) -> Result<Self, CliError> {
        let at_end = [sweep_csv, args.html.as_ref(), args.metrics_file.as_ref()];
        let meanwhile = [args.status_csv.as_ref(), args.connection_csv.as_ref(), args.save.as_ref()];
        let on_stdout =
            |paths: &[Option<&PathBuf>]| paths.iter().flatten().filter(|path| is_stdout(path)).count();
        let streaming = on_stdout(&meanwhile) + on_stdout(others) + usize::from(args.jsonl);
        let users = streaming + on_stdout(&at_end) + usize::from(args.json.is_some());
        if users > 1 {
            return Err(CliError::usage(
                "only one of the machine formats can go to stdout: give the others files",
            ));
        }
        args.svg.as_deref().map_or(Ok(()), file::folder)?;
        let stdout = PathBuf::from("-");
        let tables = [
            table(Rows::Status, args.status_csv.as_ref(), NewFile::in_place)?,
            table(Rows::Connections, args.connection_csv.as_ref(), create)?,
            journal(args.save.as_ref(), create)?,
            journal(args.jsonl.then_some(&stdout), create)?,
        ];
        Ok(Outputs {
            console: (users == 0).then(|| console(args)),
            tables: tables.into_iter().flatten().collect(),
            records: args.connection_csv.is_some() || args.save.is_some() || args.jsonl,
            sweep: opened_for_end(sweep_csv)?,
            html: opened_for_end(args.html.as_ref())?,
            metrics: opened_for_end(args.metrics_file.as_ref())?,
            page: Page::open(&args.web, &args.store, None)?,
            exporter: args.export.open(provenance::VERSION)?,
            args: args.clone(),
            streams: streaming > 0,
            ..Outputs::default()
        })
    }

    /// The same for a run of which the caller makes files, too, if `made`.
    pub(crate) fn with_files_beside(self, made: bool) -> Self {
        Outputs { files_beside: made, ..self }
    }

    /// The same with a table of these rows, if `path` is given, one of the `others` of
    /// [`Outputs::open`].
    pub(crate) fn with(mut self, of: Rows, path: Option<&PathBuf>) -> Result<Self, CliError> {
        self.tables.extend(table(of, path, NewFile::create)?);
        Ok(self)
    }

    /// The same with round trips shown in steps of `linear_ns`.
    pub(crate) fn in_steps(mut self, linear_ns: Option<u64>) -> Self {
        if let Some(console) = &mut self.console {
            console.linear(linear_ns);
        }
        self
    }

    /// Shows the run on the terminal while it lasts, if that is wanted: see [`live::place`].
    pub(crate) fn watch(&mut self, interrupt: &Interrupt, planned: Planned) -> Result<(), CliError> {
        let quiet = self.args.quiet;
        let to = live::Stdout { text: self.console.is_some(), streams: self.streams, quiet };
        if let Some(place) = live::place(self.args.live, to, planned)? {
            self.live = Live::start(place, interrupt, planned, self.args.live)?;
        }
        Ok(())
    }

    /// For commands that run several measurements at once and report them at their end
    /// ([`Outputs::record`], in the order of their `place`): shows an event of one of them
    /// meanwhile. On the terminal it is the part `number`.
    pub(crate) fn show_part(&mut self, (number, place): (u32, u32), event: &Event) {
        if let Some(live) = &self.live {
            live.push(number, event);
        }
        self.show(Source::Part(place), event);
    }

    /// Takes an event to all outputs.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Some(live) = &self.live {
            live.push(0, event);
        }
        self.record(event);
    }

    /// Takes an event to all outputs but the view, which has been told.
    pub(crate) fn record(&mut self, event: &Event) {
        if self.live.as_ref().is_some_and(|live| !live.up()) {
            // The terminal is gone, or the user has closed the view: the other outputs go on.
            self.live = None;
        }
        self.builder.absorb(event);
        self.show(Source::Run, event);
        let stdout_failed_before = self.failed.stdout;
        for target in &mut self.tables {
            target.write(&mut self.failed, |w| w.on_event(event));
        }
        let interval = matches!(event, Event::Interval(_));
        // What a server warns of is no part of its result, and is told at once on stderr.
        let aside =
            self.serves && matches!(event, Event::Notice { level: Level::Warning | Level::Error, .. });
        let quiet = aside || self.args.quiet && interval;
        match (&mut self.console, &mut self.live) {
            // What the view shows instead is not said again; the rest waits for the screen to come
            // back.
            (Some(_), Some(live)) if live.holds_stdout() && interval => {}
            (Some(console), Some(live)) if live.holds_stdout() && !quiet => {
                let mut text = Vec::new();
                // Writing to memory does not fail.
                let _ = console.on_event(event, &mut text);
                live.hold(text);
            }
            (Some(console), _) if !quiet => {
                let mut out = stdout::text();
                if let Err(error) = console.on_event(event, &mut out).and_then(|()| out.flush()) {
                    self.console = None;
                    self.failed.add("-".as_ref(), &error, "");
                }
            }
            (Some(_), _) if !aside => {}
            _ => self.notice(event),
        }
        for text in std::mem::take(&mut self.failed.texts) {
            self.complain(format!("netcaliper: {text}; what is shown elsewhere is complete"));
        }
        if self.failed.stdout && !stdout_failed_before && !self.serves && !self.is_wanted() {
            // Without a reader the traffic would be for nothing.
            signals::end();
        }
    }

    /// Prints text for people, held back where stdout shows the run until it is over; nothing where
    /// stdout has something for machines, or takes no more.
    pub(crate) fn print(&mut self, text: Vec<u8>) {
        match &mut self.live {
            _ if self.console.is_none() => {}
            Some(live) if live.holds_stdout() => live.hold(text),
            // Whether anybody reads is found out with the summary.
            _ => drop(stdout::text().write_all(&text)),
        }
    }

    /// Whether anything but stdout shows this run.
    fn is_wanted(&self) -> bool {
        fn takes<T>(target: Option<&Target<T>>) -> bool {
            target.is_some_and(|target| target.open.as_ref().is_some_and(|open| open.file.is_some()))
        }
        let tables = self.tables.iter().any(|target| takes(Some(target)));
        let at_end =
            [&self.sweep, &self.html, &self.metrics].into_iter().any(|target| takes(target.as_ref()));
        let others =
            self.page.is_some() || self.args.svg.is_some() || self.exporter.is_some() || self.files_beside;
        tables || at_end || others || self.live.is_some()
    }

    /// A line for stderr, now or when the terminal is itself again.
    pub(crate) fn complain(&mut self, text: String) {
        match &mut self.live {
            Some(live) => live.complain(text),
            None => stderr::say(text),
        }
    }

    /// Tells what became of a file that the caller has made: the result is shown all the same.
    pub(crate) fn heed(&mut self, made: Result<(), CliError>) {
        let Err(trouble) = made else { return };
        self.failed.count += 1;
        if !trouble.text.is_empty() {
            self.complain(format!("netcaliper: {}", trouble.text));
        }
    }

    /// Takes an event to the page alone.
    pub(crate) fn show(&mut self, of: Source, event: &Event) {
        if let Some(page) = &mut self.page {
            page.web.record(of, event);
        }
    }

    /// Machine formats keep stdout; a person is still told what went wrong.
    fn notice(&mut self, event: &Event) {
        if let Event::Notice { level: level @ (Level::Warning | Level::Error), text } = event {
            if *level == Level::Error {
                self.said = Some(text.clone());
            }
            self.complain(format!("netcaliper: {text}"));
        }
    }

    /// Tells what is worth knowing.
    pub(crate) fn inform(&mut self, text: String) {
        self.event(&Event::Notice { level: Level::Info, text });
    }

    pub(crate) fn begin(&mut self, begin: Begin) {
        BEGUN.store(true, Ordering::Relaxed);
        self.measured = true;
        self.serves = begin.verb == "serve";
        self.event(&Event::Begin(Box::new(begin)));
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.builder.outcome()
    }

    /// Prints the end of it all; the exit code.
    pub(crate) fn finish(mut self) -> Exit {
        let outcome = self.outcome();
        let mut failed = std::mem::take(&mut self.failed);
        let stdout_failed = failed.stdout;
        self.tables.iter_mut().for_each(|target| target.finish(&mut failed));
        // From here on the terminal is what it was before: any of these may be stdout.
        self.live = None;
        fill(&mut self.sweep, &mut failed, |out| report::write_sweep_csv(&outcome.sweep, out));
        fill(&mut self.html, &mut failed, |out| report::write_html(&outcome, out));
        if let Some(folder) = &self.args.svg {
            failed.add_error(draw(&outcome, folder).err());
        }
        fill(&mut self.metrics, &mut failed, |out| {
            let mut metrics = RunMetrics::default();
            metrics.add(&outcome, &self.args.asserts);
            metrics.write(out)
        });
        let broken = broken(&self.args.asserts, &outcome);
        let mut out = io::stdout().lock();
        let mut print = || {
            match (self.args.json, &self.console) {
                (Some(JsonArg::All), _) => report::write_outcome(&outcome, &mut out)?,
                (Some(JsonArg::Summary), _) => report::write_summary(&outcome, &mut out)?,
                (None, Some(console)) => console.summary(&outcome, &mut stdout::Text::to(&mut out))?,
                (None, None) => {}
            }
            out.flush()
        };
        // What has failed holds what it could not write.
        if !stdout_failed && let Err(error) = print() {
            failed.add("-".as_ref(), &error, "");
        }
        drop(out);
        // Where the report and stderr are read together, the report has the reason already.
        let together = self.console.is_some() && stdout::is_read_with_stderr();
        let told = together || self.reason_elsewhere || outcome.reason == self.said;
        let why = outcome.reason.as_ref().filter(|_| outcome.status == Status::Failed && !told);
        let failed_why = why.map(|why| report::clean(why).into_owned());
        failed_why
            .iter()
            .chain(&failed.texts)
            .for_each(|text| stderr::say(format_args!("netcaliper: {text}")));
        broken.iter().for_each(|text| stderr::say(format_args!("netcaliper: not met: {text}")));
        for (protocol, failed) in &self.failed_beside {
            let failed = metrics::format_count(*failed, "failure");
            stderr::say(format_args!("netcaliper: {protocol}: {failed}"));
        }
        if self.measured && !self.args.no_store {
            store::keep(&self.args.store, &outcome);
        }
        if let Some(exporter) = &self.exporter {
            export::send(exporter, &export::of_run(&outcome, &self.args.asserts));
        }
        if let Some(page) = self.page {
            page.end(&outcome);
        }
        match judge(&outcome) {
            _ if failed.count > 0 => Exit::Failed,
            Exit::Good | Exit::Interrupted if !self.failed_beside.is_empty() => Exit::Failed,
            Exit::Good if !broken.is_empty() => Exit::Threshold,
            exit => exit,
        }
    }
}

/// Outputs that failed.
#[derive(Default)]
pub(crate) struct Failures {
    count: u32,
    stdout: bool,
    /// A sentence about each of which there is something to say.
    texts: Vec<String>,
}

impl Failures {
    fn add(&mut self, path: &Path, error: &io::Error, kept: &str) {
        self.count += 1;
        if is_stdout(path) {
            self.stdout = true;
            self.texts.extend(stderr::of_stdout(error));
        } else {
            self.texts.push(format!("writing to {} failed: {error}{kept}", path.display()));
        }
    }

    /// One that has its sentence already, if any.
    fn add_error(&mut self, trouble: Option<CliError>) {
        self.count += u32::from(trouble.is_some());
        self.texts.extend(trouble.map(|trouble| trouble.text));
    }

    /// All of them as one error.
    pub(crate) fn into_result(self) -> Result<(), CliError> {
        if self.count == 0 { Ok(()) } else { Err(CliError::failed(self.texts.join("; "))) }
    }
}

/// Writes all of a file that is made at the end, if there is one.
pub(crate) fn fill(
    target: &mut Option<Target<Sink>>,
    failed: &mut Failures,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) {
    let Some(target) = target else { return };
    target.write(failed, |out| write(out).and_then(|()| out.flush()));
    target.finish(failed);
}

impl<T> Target<T> {
    fn write(&mut self, failed: &mut Failures, write: impl FnOnce(&mut T) -> io::Result<()>) {
        let Some(Err(error)) = self.open.as_mut().map(|open| write(&mut open.writer)) else { return };
        let file = self.open.take().and_then(|open| open.file);
        let kept = file.filter(|_| self.keeps).and_then(NewFile::keep);
        failed.add(&self.path, &error, &file::before(kept));
    }

    fn finish(&mut self, failed: &mut Failures) {
        let Some(Open { writer, file }) = self.open.take() else { return };
        drop(writer);
        if let Some(Err(error)) = file.map(NewFile::finish) {
            failed.add(&self.path, &error, "");
        }
    }
}

/// Which conditions an outcome does not keep to, a sentence each.
pub(crate) fn broken(asserts: &[Assertion], outcome: &Outcome) -> Vec<String> {
    asserts.iter().flat_map(|assert| assert.broken(outcome)).collect()
}

/// The exit code that an outcome deserves.
pub(crate) fn judge(outcome: &Outcome) -> Exit {
    match outcome.status {
        Status::Failed => Exit::Failed,
        Status::Interrupted => Exit::Interrupted,
        Status::Partial => Exit::Partial,
        Status::Complete if outcome.points.iter().any(|p| p.errors() > 0) => Exit::Failed,
        Status::Complete => Exit::Good,
    }
}
