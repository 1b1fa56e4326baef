//! `netcaliper ctstraffic`: from its understood command line to a run.

mod place;
mod resolve;

use super::raw::is_csv;
use super::{Printer, Request, Resolved, Role, Spec, page, read};
use common::config::tells_frames;
use common::original::{Driver, ExitCodes, NO_EFFECT, Refusal, Run};
use common::{ClientConfig, Placement, ServerConfig};
use compat::Printed;
use model::{Event, Kind, Status};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use transport::Interrupt;

/// For arguments that cannot be, and after help: ERROR_INVALID_DATA of Windows, as the original has
/// it; and when nothing could be started.
const CODES: ExitCodes = ExitCodes { usage: 13, failed: u8::MAX };

pub(super) fn run(arguments: &[String], driver: &Driver) -> u8 {
    let done = match read(arguments) {
        Ok(Request::Help(which)) => driver.page(&page(which), CODES.usage),
        Ok(Request::Run(spec)) => start(*spec, driver),
        Err(text) => Err(Refusal::Usage(text)),
    };
    let usage = matches!(done, Err(Refusal::Usage(_)));
    let code = driver.ended("ctsTraffic", CODES, done);
    if usage {
        driver.say("For help: ctsTraffic -Help");
    }
    code
}

fn start(mut spec: Spec, driver: &Driver) -> Result<u8, Refusal> {
    spec.device = place::enter(spec.place.as_ref(), &driver.command)?;
    keep_usable(&mut spec, &driver.host.cores());
    driver.warn("ctsTraffic", NO_EFFECT, &spec.ignored);
    if !spec.changed.is_empty() {
        driver.say(format_args!("ctsTraffic: warning: changed: {}", spec.changed.join(", ")));
    }
    match spec.role {
        Role::Client => client(spec, driver),
        Role::Server => server(spec, driver),
    }
}

/// Leaves out cores that this process may not use.
fn keep_usable(spec: &mut Spec, usable: &[usize]) {
    let Placement::Cores(cores) = &mut spec.cores else { return };
    cores.retain(|core| usable.contains(core));
    if cores.is_empty() {
        let group = spec.shown.cpu_group.unwrap_or(0);
        spec.ignored.push(format!("-CpuSetGroupId:{group} (there are no such CPUs)"));
        spec.cores = Placement::Even;
    }
}

/// True if every single connection, and every frame of a stream, has to be reported.
fn wants_records(spec: &Spec) -> bool {
    let logs = &spec.logs;
    spec.verbosity >= 3 || logs.connection.is_some() || logs.tcp_info.is_some() || logs.jitter.is_some()
}

/// True if each established connection has to be reported at once: the console shows it, and a text
/// file holds it.
fn wants_arrivals(spec: &Spec) -> bool {
    spec.verbosity >= 3 || spec.logs.connection.as_deref().is_some_and(|path| !is_csv(path))
}

fn client(spec: Spec, driver: &Driver) -> Result<u8, Refusal> {
    let resolved = resolve::client(&spec, driver)?;
    let streams = spec.phase.kind == Kind::Stream;
    let config = ClientConfig {
        peers: resolve::rotation(&spec, &resolved),
        sources: resolved.binds.iter().filter(|at| !at.ip().is_unspecified()).copied().collect(),
        source_option: "-Bind",
        ports: spec.local_ports,
        port_option: "-LocalPort",
        device: spec.device.clone(),
        placement: spec.cores.clone(),
        records: wants_records(&spec) || (streams && tells_frames(spec.phase.connections)),
        arrivals: wants_arrivals(&spec),
        ..driver.client(&crate::PROTOCOL)
    };
    let phase = spec.phase.clone();
    (driver.check)(&config, &phase)?;
    let targets = spec.targets.clone();
    let mut reporter = Reporter::open(spec, resolved, driver)?;
    let interrupt = reporter.interrupt.clone();
    driver.call(&config, &phase, &interrupt, "ctstraffic", &mut |event| match event {
        Event::Begin(begin) => {
            let mut begin = begin.clone();
            begin.targets.clone_from(&targets);
            reporter.on_event(&Event::Begin(begin));
        }
        event => reporter.on_event(event),
    })?;
    Ok(reporter.finish())
}

fn server(spec: Spec, driver: &Driver) -> Result<u8, Refusal> {
    let resolved = resolve::server(&spec, driver)?;
    let phase = spec.phase.clone();
    let bound = driver.bind(ServerConfig {
        listen: resolve::listening(&resolved),
        exit_after: spec.exit_limit,
        device: spec.device.clone(),
        placement: spec.cores.clone(),
        workers: spec.workers,
        records: wants_records(&spec),
        arrivals: wants_arrivals(&spec),
        open_to: (driver.open_to)(&spec.allow)?,
        ..driver.server(&crate::PROTOCOL, phase.clone())?
    })?;
    let mut reporter = Reporter::open(spec, resolved, driver)?;
    let interrupt = reporter.interrupt.clone();
    bound.serve(&phase, &interrupt, &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

fn print(driver: &Driver, Printed { out, err }: Printed) {
    let _ = io::stderr().write_all(err.0.as_bytes());
    driver.print(&out.0);
}

/// The printout, on this program's stdout, stderr and files.
struct Reporter<'a> {
    driver: &'a Driver,
    printer: Printer,
    interrupt: Interrupt,
    pause_ms: u64,
    break_on_error: bool,
    run: Run<'a>,
}

impl Reporter<'_> {
    fn open(spec: Spec, resolved: Resolved, driver: &Driver) -> Result<Reporter<'_>, Refusal> {
        let interrupt = (driver.on_signals)()?;
        let pause_ms = u64::from(spec.pause_at_end_ms);
        let break_on_error = spec.break_on_error;
        let mut open = |path: &Path| Ok(Box::new(File::create(path)?) as Box<dyn Write + Send>);
        let printer = Printer::new(spec, resolved, &mut open).map_err(Refusal::Usage)?;
        let run = Run::new(driver, "");
        Ok(Reporter { driver, printer, interrupt, pause_ms, break_on_error, run })
    }

    fn on_event(&mut self, event: &Event) {
        self.run.on_event(event);
        if self.interrupt.is_requested() {
            print(self.driver, self.printer.interrupt());
        }
        print(self.driver, self.printer.on_event(event));
        if self.break_on_error && matches!(event, Event::Connection(record) if record.failure.is_some()) {
            std::process::abort();
        }
    }

    /// The pause that was asked for, the summary, the exit code.
    fn finish(mut self) -> u8 {
        const STEP_MS: u64 = 20;
        let mut left = self.pause_ms;
        while left > 0 && !self.interrupt.is_requested() {
            (self.driver.sleep)(Duration::from_millis(left.min(STEP_MS)));
            left = left.saturating_sub(STEP_MS);
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
