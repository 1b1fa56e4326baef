//! `netcaliper ctstraffic`: from its understood command line to a run.

mod place;
mod resolve;

use crate::keeping::Keeping;
use crate::protocols;
use crate::{faces, measure, plan, stderr};
use classic::ctstraffic::{Asked, Cores, Face, Resolved, Role, Spec, page, read};
use common::{ClientConfig, Placement, ServerConfig};
use model::{Begin, Event, Kind, Phase, Status};
use runtime::{Bound, EngineError, Interrupt};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The exit code for arguments that cannot be, and after help: ERROR_INVALID_DATA of Windows, as the original has it.
const BAD_ARGUMENTS: u8 = 13;
/// The exit code when nothing could be started.
const NOT_STARTED: u8 = u8::MAX;

/// Why there is no run: one sentence, and the exit code.
struct Refusal {
    text: String,
    code: u8,
}

impl Refusal {
    fn arguments(text: impl ToString) -> Self {
        Refusal { text: text.to_string(), code: BAD_ARGUMENTS }
    }

    fn start(text: impl ToString) -> Self {
        Refusal { text: text.to_string(), code: NOT_STARTED }
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Setting(_) | EngineError::Resolve(_) => Refusal::arguments(error),
            EngineError::Socket { .. } | EngineError::System { .. } => Refusal::start(error),
        }
    }
}

/// Runs it.
pub(crate) fn run(arguments: &[String], command: Vec<String>) -> ExitCode {
    let code = match read(arguments) {
        Ok(Asked::Help(which)) => {
            // Nobody reads on: then nobody needs the rest either.
            let _ = io::stdout().write_all(page(which).as_bytes());
            BAD_ARGUMENTS
        }
        Ok(Asked::Run(spec)) => start(*spec, command).unwrap_or_else(refused),
        Err(text) => refused(Refusal::arguments(text)),
    };
    ExitCode::from(code)
}

fn refused(why: Refusal) -> u8 {
    stderr::say(format_args!("ctsTraffic: {}", why.text));
    if why.code == BAD_ARGUMENTS {
        stderr::say(format_args!("For help: ctsTraffic -Help"));
    }
    why.code
}

fn start(mut spec: Spec, command: Vec<String>) -> Result<u8, Refusal> {
    let device = place::enter(&mut spec, &command)?;
    let placement = placement(&mut spec);
    if !spec.ignored.is_empty() {
        stderr::say(format_args!(
            "ctsTraffic: warning: ignored, because it has no effect here: {}",
            spec.ignored.join(", ")
        ));
    }
    let resolved = match spec.role {
        Role::Client => resolve::client(&spec)?,
        Role::Server => resolve::server(&spec)?,
    };
    match spec.role {
        Role::Client => client(spec, resolved, device, placement, command),
        Role::Server => server(spec, resolved, device, placement, command),
    }
}

fn placement(spec: &mut Spec) -> Placement {
    let placement = match &spec.cores {
        Cores::Each => Placement::Even,
        Cores::Free => Placement::Spread,
        Cores::These(cores) => {
            let usable =
                |core: &&usize| Placement::Cores(vec![**core]).check(&runtime::usable_cores()).is_ok();
            Placement::Cores(cores.iter().filter(usable).copied().collect())
        }
    };
    if placement == Placement::Cores(Vec::new()) {
        let group = spec.shown.cpu_group.unwrap_or(0);
        spec.ignored.push(format!("-CpuSetGroupId:{group} (there are no such CPUs)"));
        return Placement::Even;
    }
    placement
}

/// Whether every single connection, and every frame of a stream, has to be told.
fn wants_records(spec: &Spec) -> bool {
    spec.verbosity >= 3 || spec.logs.per_connection() || spec.logs.jitter.is_some()
}

/// Whether it has to be told when each connection has come to be: the console shows it, and a text file holds it.
fn wants_arrivals(spec: &Spec) -> bool {
    let table = |path: &Path| path.to_string_lossy().to_ascii_lowercase().ends_with(".csv");
    spec.verbosity >= 3 || spec.logs.connection.as_deref().is_some_and(|path| !table(path))
}

fn client(
    spec: Spec,
    resolved: Resolved,
    device: Option<String>,
    placement: Placement,
    command: Vec<String>,
) -> Result<u8, Refusal> {
    let streams = spec.phase.kind == Kind::Stream;
    let config = ClientConfig {
        peers: resolve::rotation(&spec, &resolved),
        sources: resolved.binds.iter().filter(|a| !a.is_unspecified()).copied().collect(),
        ports: spec.local_ports,
        device,
        placement,
        run: runtime::run_id(),
        version: plan::VERSION.to_owned(),
        records: wants_records(&spec) || (streams && plan::tells_frames(spec.phase.connections)),
        arrivals: wants_arrivals(&spec),
        ..ClientConfig::new(protocols::CTSTRAFFIC)
    };
    let phase = spec.phase.clone();
    runtime::check(&config, &phase)?;
    let mut begin = runtime::begin(&config, "ctstraffic", command, &phase);
    begin.targets.clone_from(&spec.targets);
    let mut show = Show::open(spec, resolved)?;
    show.begin(begin, &phase);
    let interrupt = show.interrupt.clone();
    runtime::run(&config, &phase, &interrupt, &mut |event| show.hear(&event))?;
    Ok(show.finish())
}

fn server(
    spec: Spec,
    resolved: Resolved,
    device: Option<String>,
    placement: Placement,
    command: Vec<String>,
) -> Result<u8, Refusal> {
    let phase = spec.phase.clone();
    let config = ServerConfig {
        listen: resolve::listening(&resolved),
        exit_after: spec.exit_limit,
        open_to: plan::open_to(&spec.allow).map_err(|trouble| Refusal::arguments(trouble.text))?,
        device,
        placement,
        workers: spec.workers,
        version: plan::VERSION.to_owned(),
        records: wants_records(&spec),
        arrivals: wants_arrivals(&spec),
        ..ServerConfig::legacy(protocols::CTSTRAFFIC, phase.clone())
    };
    let bound = Bound::new(config)?;
    let begin = bound.begin(command);
    let mut show = Show::open(spec, resolved)?;
    show.begin(begin, &phase);
    let interrupt = show.interrupt.clone();
    bound.run(&interrupt, &mut |event| show.hear(&event))?;
    Ok(show.finish())
}

/// The face, on this program's stdout, stderr and files.
struct Show {
    face: Face,
    interrupt: Interrupt,
    interrupted: bool,
    pause: Duration,
    break_on_error: bool,
    end: (Status, Option<String>),
    keeping: Keeping,
}

impl Show {
    fn open(spec: Spec, resolved: Resolved) -> Result<Show, Refusal> {
        let interrupt = measure::on_signals().map_err(|trouble| Refusal::start(trouble.text))?;
        let pause = Duration::from_millis(u64::from(spec.pause_at_end_ms));
        let break_on_error = spec.break_on_error;
        let mut open = |path: &Path| Ok(Box::new(File::create(path)?) as Box<dyn Write + Send>);
        let face = Face::new(spec, resolved, &mut open).map_err(Refusal::arguments)?;
        let end = (Status::Failed, None);
        Ok(Show { face, interrupt, interrupted: false, pause, break_on_error, end, keeping: Keeping::new() })
    }

    fn begin(&mut self, begin: Begin, phase: &Phase) {
        self.hear(&Event::Begin(Box::new(begin)));
        self.hear(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase.clone()) });
    }

    fn hear(&mut self, event: &Event) {
        self.keeping.hear(event);
        if let Event::PhaseEnd { status, reason } = event {
            self.end = (*status, reason.clone());
        }
        // Where nobody reads on, the run still goes on for the files' sake.
        let (mut out, mut err) = (faces::stdout(), io::stderr().lock());
        if self.interrupt.asked() && !std::mem::replace(&mut self.interrupted, true) {
            let _ = self.face.interrupt(&mut out, &mut err);
        }
        let _ = self.face.hear(event, &mut out, &mut err);
        if self.break_on_error && matches!(event, Event::Connection(record) if record.failure.is_some()) {
            std::process::abort();
        }
    }

    /// The pause that was asked for, the summary, the exit code.
    fn finish(mut self) -> u8 {
        const STEP: Duration = Duration::from_millis(20);
        let mut left = self.pause;
        while !left.is_zero() && !self.interrupt.asked() {
            std::thread::sleep(left.min(STEP));
            left = left.saturating_sub(STEP);
        }
        let (status, reason) = self.end.clone();
        self.hear(&Event::End { status, reason });
        self.keeping.finish();
        match (self.face.exit_code(), status) {
            (0, Status::Failed) => NOT_STARTED,
            (code, _) => code,
        }
    }
}
