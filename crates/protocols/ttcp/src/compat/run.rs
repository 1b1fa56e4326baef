//! `netcaliper ttcp`: Teldat's `tx` and `rx`, and the classic letters.

use super::{Dialect, PAGE, Printer, Request, Spec, TransferRole, Usage, prompt, read};
use common::bulk::Marks;
use common::original::{Driver, ExitCodes, Refusal, Run};
use common::{ClientConfig, ServerConfig};
use compat::Printed;
use model::{Event, Status};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use transport::Interrupt;

const CODES: ExitCodes = ExitCodes { usage: 2, failed: 1 };

pub(super) fn run(arguments: &[String], driver: &Driver) -> u8 {
    driver.ended("ttcp", CODES, start(arguments, driver))
}

/// Runs the request of the command line or, without one, of the terminal.
fn start(arguments: &[String], driver: &Driver) -> Result<u8, Refusal> {
    let understood = |words: &[String]| read(words).map_err(Refusal::Usage);
    let asked = match understood(arguments)? {
        Request::Nothing if io::stdin().is_terminal() => {
            let words = prompt(&mut io::stdin().lock(), &mut (driver.stdout)());
            understood(&words.map_err(|e| Refusal::Usage(format!("cannot ask for the options: {e}")))?)?
        }
        asked => asked,
    };
    let spec = match asked {
        Request::Run(spec) => spec,
        Request::Next(list) => return driver.page(&list, 0),
        Request::Help | Request::Nothing => return driver.page(PAGE, CODES.usage),
    };
    driver.warn("ttcp", "", &spec.ignored);
    let interrupt = (driver.on_signals)()?;
    let _keys = match spec.dialect {
        Dialect::Teldat => (driver.on_any_key)(&interrupt),
        Dialect::Classic => None,
    };
    match &spec.role {
        TransferRole::Transmit(host) => transmit(&spec, host, &interrupt, driver),
        TransferRole::Receive => loop {
            let code = receive(&spec, &interrupt, driver)?;
            if !spec.keep || code != 0 || interrupt.is_requested() {
                return Ok(code);
            }
        },
    }
}

fn transmit(spec: &Spec, host: &str, interrupt: &Interrupt, driver: &Driver) -> Result<u8, Refusal> {
    let config = ClientConfig {
        peers: driver.first(host, spec.port, false, false)?,
        arrivals: true,
        marks: if spec.epi { Marks::Epi } else { Marks::Classic },
        ..driver.client(&crate::PROTOCOL)
    };
    let mut reporter = Reporter::new(spec.clone(), driver);
    driver.call(&config, &spec.phase(), interrupt, "ttcp", &mut |event| {
        reporter.on_event(event);
    })?;
    Ok(reporter.finish())
}

fn receive(spec: &Spec, interrupt: &Interrupt, driver: &Driver) -> Result<u8, Refusal> {
    let phase = spec.phase();
    let bound = driver.bind(ServerConfig {
        // Both families.
        listen: vec![SocketAddr::from(([0_u16; 8], spec.port))],
        exit_after: Some(1),
        workers: Some(1),
        records: true,
        arrivals: true,
        ..driver.server(&crate::PROTOCOL, phase.clone())?
    })?;
    let port = bound.port().unwrap_or(spec.port);
    let mut reporter = Reporter::new(Spec { port, ..spec.clone() }, driver);
    // A peer has to connect within the time, too.
    let (heard, silence) = mpsc::channel::<()>();
    let patience = (spec.timeout_ms > 0).then(|| Duration::from_millis(spec.timeout_ms));
    let absent = AtomicBool::new(false);
    thread::scope(|scope| {
        if let Some(patience) = patience {
            let absent = &absent;
            scope.spawn(move || {
                if silence.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
                    absent.store(true, Ordering::Relaxed);
                    interrupt.ask();
                }
            });
        }
        let mut heard = Some(heard);
        bound.serve(&phase, interrupt, &mut |event| {
            if matches!(event, Event::Established { .. }) {
                heard = None;
            }
            reporter.on_event(event);
        })
    })?;
    if absent.into_inner() {
        driver.say(format_args!("ttcp: no transmitter arrived within {} ms", spec.timeout_ms));
        return Ok(CODES.failed);
    }
    Ok(reporter.finish())
}

/// The printout, on this program's stdout and stderr.
struct Reporter<'a> {
    printer: Printer,
    driver: &'a Driver,
    run: Run<'a>,
}

impl Reporter<'_> {
    fn new(spec: Spec, driver: &Driver) -> Reporter<'_> {
        let printer = Printer::new(spec, io::stdout().is_terminal());
        Reporter { printer, driver, run: Run::new(driver, "ttcp:") }
    }

    fn on_event(&mut self, event: &Event) {
        self.run.on_event(event);
        if matches!(event, Event::Local(_)) {
            self.printer.usage = usage();
        }
        let Printed { out, err } = self.printer.on_event(event);
        self.driver.print(&out.0);
        let _ = io::stderr().write_all(err.0.as_bytes());
    }

    fn finish(self) -> u8 {
        let interrupted = self.run.status == Status::Interrupted;
        self.run.finish();
        if interrupted { 130 } else { u8::from(self.printer.failed) }
    }
}

/// Resources that this process used, by the kernel's account; zeros without one.
fn usage() -> Usage {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields behind the name, which may hold anything: 10 is minor faults, 12 major ones, counted
    // from 1.
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
