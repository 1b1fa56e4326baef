//! `netcaliper ctstraffic`: from its understood command line to a run.

mod place;
mod resolve;

use crate::legacy::Service;
use crate::originals::{self, ExitCodes, NO_EFFECT, Refusal, Run};
use crate::{measure, plan, protocols, stderr};
use common::{ClientConfig, Placement, ServerConfig};
use compat::ctstraffic::{Cores, Printer, Request, Resolved, Role, Spec, page, read};
use model::{Event, Kind, Status};
use runtime::{Bound, Interrupt};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// For arguments that cannot be, and after help: ERROR_INVALID_DATA of Windows, as the original has it; and when nothing could be started.
const CODES: ExitCodes = ExitCodes { usage: 13, failed: u8::MAX };

/// A server beside one of our own has the original's usual settings: for others there is `netcaliper ctstraffic`.
pub(crate) const SERVICE: Service = Service {
    phase: |usual| match read(&["-Listen:*".to_owned()]) {
        Ok(Request::Run(spec)) => spec.phase,
        _ => usual,
    },
    ..Service::PLAIN
};

pub(crate) fn run(arguments: &[String], command: Vec<String>) -> ExitCode {
    let done = match read(arguments) {
        Ok(Request::Help(which)) => originals::page(&page(which), CODES.usage),
        Ok(Request::Run(spec)) => start(*spec, &command),
        Err(text) => Err(Refusal::Usage(text)),
    };
    let usage = matches!(done, Err(Refusal::Usage(_)));
    let code = originals::ended("ctsTraffic", CODES, done);
    if usage {
        stderr::say("For help: ctsTraffic -Help");
    }
    code
}

fn start(mut spec: Spec, command: &[String]) -> Result<u8, Refusal> {
    let device = place::enter(&mut spec, command)?;
    let placement = placement(&mut spec);
    originals::warn("ctsTraffic", NO_EFFECT, &spec.ignored);
    match spec.role {
        Role::Client => client(spec, device, placement, command),
        Role::Server => server(spec, device, placement, command),
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
    device: Option<String>,
    placement: Placement,
    command: &[String],
) -> Result<u8, Refusal> {
    let resolved = resolve::client(&spec)?;
    let streams = spec.phase.kind == Kind::Stream;
    let config = ClientConfig {
        peers: resolve::rotation(&spec, &resolved),
        sources: resolved.binds.iter().filter(|a| !a.is_unspecified()).copied().collect(),
        ports: spec.local_ports,
        device,
        placement,
        records: wants_records(&spec) || (streams && plan::tells_frames(spec.phase.connections)),
        arrivals: wants_arrivals(&spec),
        ..originals::client(protocols::CTSTRAFFIC)
    };
    let phase = spec.phase.clone();
    runtime::check(&config, &phase)?;
    let targets = spec.targets.clone();
    let mut reporter = Reporter::open(spec, resolved)?;
    let interrupt = reporter.interrupt.clone();
    originals::call(&config, &phase, &interrupt, ("ctstraffic", command), &mut |event| match event {
        Event::Begin(begin) => {
            let mut begin = begin.clone();
            begin.targets.clone_from(&targets);
            reporter.on_event(&Event::Begin(begin));
        }
        event => reporter.on_event(event),
    })?;
    Ok(reporter.finish())
}

fn server(
    spec: Spec,
    device: Option<String>,
    placement: Placement,
    command: &[String],
) -> Result<u8, Refusal> {
    let resolved = resolve::server(&spec)?;
    let phase = spec.phase.clone();
    let bound = Bound::new(ServerConfig {
        listen: resolve::listening(&resolved),
        exit_after: spec.exit_limit,
        device,
        placement,
        workers: spec.workers,
        records: wants_records(&spec),
        arrivals: wants_arrivals(&spec),
        open_to: plan::open_to(&spec.allow)?,
        ..originals::server(protocols::CTSTRAFFIC, phase.clone())?
    })?;
    let mut reporter = Reporter::open(spec, resolved)?;
    let interrupt = reporter.interrupt.clone();
    originals::serve(bound, &phase, &interrupt, command, &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

/// The printout, on this program's stdout, stderr and files.
struct Reporter {
    printer: Printer,
    interrupt: Interrupt,
    interrupted: bool,
    pause: Duration,
    break_on_error: bool,
    run: Run,
}

impl Reporter {
    fn open(spec: Spec, resolved: Resolved) -> Result<Reporter, Refusal> {
        let interrupt = measure::on_signals()?;
        let pause = Duration::from_millis(u64::from(spec.pause_at_end_ms));
        let break_on_error = spec.break_on_error;
        let mut open = |path: &Path| Ok(Box::new(File::create(path)?) as Box<dyn Write + Send>);
        let printer = Printer::new(spec, resolved, &mut open).map_err(Refusal::Usage)?;
        Ok(Reporter { printer, interrupt, interrupted: false, pause, break_on_error, run: Run::new("") })
    }

    fn on_event(&mut self, event: &Event) {
        self.run.on_event(event);
        // With a closed stdout the run still goes on and writes its files.
        let (mut out, mut err) = (originals::stdout(), io::stderr().lock());
        if self.interrupt.asked() && !std::mem::replace(&mut self.interrupted, true) {
            let _ = self.printer.interrupt(&mut out, &mut err);
        }
        let _ = self.printer.on_event(event, &mut out, &mut err);
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
        let (status, reason) = (self.run.status, self.run.reason.clone());
        self.on_event(&Event::End { status, reason });
        self.run.finish();
        match (self.printer.exit_code(), status) {
            (0, Status::Failed) => CODES.failed,
            (code, _) => code,
        }
    }
}
