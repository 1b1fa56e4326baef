//! `netcaliper ttcp`: Teldat's `tx` and `rx`, and the classic letters.

use crate::keeping::Keeping;
use crate::protocols;
use crate::{faces, measure, plan, stderr};
use classic::ttcp::{Asked, Dialect, Face, PAGE, Role, Spec, Usage, ask, read};
use common::bulk::Marks;
use common::{ClientConfig, ServerConfig};
use model::{Event, Level, Status};
use runtime::{Bound, Interrupt};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Something failed.
const FAILED: u8 = 1;
/// The command line cannot be.
const USAGE: u8 = 2;

/// Why there is no run.
type Refusal = faces::Refusal<USAGE, FAILED>;

/// Runs it.
pub(crate) fn run(arguments: &[String], command: Vec<String>) -> ExitCode {
    let done = asked(arguments).and_then(|spec| match spec {
        Ok(spec) => start(&spec, &command),
        Err(code) => Ok(code),
    });
    faces::ended("ttcp", done)
}

/// What is asked for, by the command line or, when there is none, at the terminal; the exit code after a
/// text about how to go on.
fn asked(arguments: &[String]) -> Result<Result<Spec, u8>, Refusal> {
    let understood = |words: &[String]| read(words).map_err(|text| Refusal::new(text, USAGE));
    let asked = match understood(arguments)? {
        Asked::Nothing if io::stdin().is_terminal() => {
            let words = ask(&mut io::stdin().lock(), &mut faces::stdout());
            understood(&words.map_err(|e| Refusal::new(format!("cannot ask for the options: {e}"), USAGE))?)?
        }
        asked => asked,
    };
    let (text, code) = match asked {
        Asked::Run(spec) => return Ok(Ok(*spec)),
        Asked::Next(list) => (list, 0),
        Asked::Help | Asked::Nothing => (PAGE, USAGE),
    };
    // Nobody reads on: then nobody needs the rest either.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(Err(code))
}

fn start(spec: &Spec, command: &[String]) -> Result<u8, Refusal> {
    if !spec.ignored.is_empty() {
        stderr::say(format_args!("ttcp: warning: ignored: {}", spec.ignored.join(", ")));
    }
    let interrupt = measure::on_signals().map_err(|trouble| Refusal::new(trouble.text, FAILED))?;
    let _keys = match spec.dialect {
        Dialect::Teldat => runtime::interrupt_by_any_key(&interrupt),
        Dialect::Classic => None,
    };
    match &spec.role {
        Role::Transmit(host) => transmit(spec, host, &interrupt, command),
        Role::Receive => loop {
            let code = receive(spec, &interrupt, command)?;
            if !spec.keep || code != 0 || interrupt.asked() {
                return Ok(code);
            }
        },
    }
}

fn transmit(spec: &Spec, host: &str, interrupt: &Interrupt, command: &[String]) -> Result<u8, Refusal> {
    let config = ClientConfig {
        peers: runtime::resolve_targets(&[host.to_owned()], spec.port, false, false)?
            .into_iter()
            .take(1)
            .collect(),
        run: runtime::run_id(),
        version: plan::VERSION.to_owned(),
        records: true,
        arrivals: true,
        marks: if spec.epi { Marks::Epi } else { Marks::Classic },
        ..ClientConfig::new(protocols::TTCP)
    };
    let phase = spec.phase();
    runtime::check(&config, &phase)?;
    let begin = runtime::begin(&config, "ttcp", command.to_vec(), &phase);
    let mut show = Show::new(spec, Keeping::begun(begin, &phase));
    runtime::run(&config, &phase, interrupt, &mut |event| show.hear(&event))?;
    Ok(show.finish())
}

fn receive(spec: &Spec, interrupt: &Interrupt, command: &[String]) -> Result<u8, Refusal> {
    let config = ServerConfig {
        listen: vec![SocketAddr::from(([0, 0, 0, 0], spec.port))],
        exit_after: Some(1),
        workers: Some(1),
        open_to: plan::open_to(&[]).map_err(|trouble| Refusal::new(trouble.text, USAGE))?,
        version: plan::VERSION.to_owned(),
        records: true,
        arrivals: true,
        ..ServerConfig::legacy(protocols::TTCP, spec.phase())
    };
    let bound = Bound::new(config)?;
    let keeping = Keeping::begun(bound.begin(command.to_vec()), &spec.phase());
    let port = bound.addresses().first().map_or(spec.port, SocketAddr::port);
    let mut show = Show::new(&Spec { port, ..spec.clone() }, keeping);
    // Somebody has to be heard within the time, too.
    let (heard, silence) = mpsc::channel::<()>();
    let patience = (spec.timeout_ms > 0).then(|| Duration::from_millis(spec.timeout_ms));
    let nobody = AtomicBool::new(false);
    thread::scope(|scope| {
        if let Some(patience) = patience {
            let nobody = &nobody;
            scope.spawn(move || {
                if silence.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
                    nobody.store(true, Ordering::Relaxed);
                    interrupt.ask();
                }
            });
        }
        let mut heard = Some(heard);
        let ran = bound.run(interrupt, &mut |event| {
            if matches!(event, Event::Established { .. }) {
                heard = None;
            }
            show.hear(&event);
        });
        drop(heard);
        ran
    })?;
    if nobody.into_inner() {
        stderr::say(format_args!("ttcp: nobody came within {} ms", spec.timeout_ms));
        return Ok(FAILED);
    }
    Ok(show.finish())
}

/// The face, on this program's stdout and stderr.
struct Show {
    face: Face,
    status: Status,
    keeping: Keeping,
}

impl Show {
    fn new(spec: &Spec, keeping: Keeping) -> Show {
        Show { face: Face::new(spec.clone(), io::stdout().is_terminal()), status: Status::Failed, keeping }
    }

    fn hear(&mut self, event: &Event) {
        self.keeping.hear(event);
        match event {
            Event::PhaseEnd { status, .. } => self.status = *status,
            Event::Near(_) => self.face.used(usage()),
            Event::Notice { level: Level::Warning | Level::Error, text } => {
                stderr::say(format_args!("ttcp: {text}"));
            }
            _ => {}
        }
        // Where nobody reads on, the exit code still tells.
        let _ = self.face.hear(event, &mut faces::stdout(), &mut io::stderr().lock());
    }

    fn finish(self) -> u8 {
        self.keeping.finish();
        match self.status {
            Status::Interrupted => 130,
            _ => u8::from(self.face.failed()),
        }
    }
}

/// What this process has used, as the kernel tells; zeros where it does not.
fn usage() -> Usage {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields behind the name, which may hold anything: 10 is minor faults, 12 major ones, counted from 1.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    let field = |n: usize| fields.get(n - 3).and_then(|text| text.parse().ok()).unwrap_or(0);
    Usage {
        resident_kib: of("VmHWM:"),
        faults: (field(12), field(10)),
        switches: (of("voluntary_ctxt_switches:"), of("nonvoluntary_ctxt_switches:")),
        ..Usage::default()
    }
}
