//! The printout and the log files of a run, made of its events.

use super::banner::Resolved;
use super::console::Console;
use super::files::{Logs, OpenFile};
use super::spec::{Role, Shown, Spec, Transport};
use super::transcript::{Item, Transcript};
use model::{Event, Kind, Outcome};
use std::io::{self, Write};
use std::net::SocketAddr;

/// Prints and writes a run as ctsTraffic does.
pub(crate) struct Printer {
    transcript: Transcript,
    console: Console,
    logs: Logs,
}

impl Printer {
    /// For a run that is about to begin; its log files are opened by `open`.
    ///
    /// # Errors
    /// One sentence naming the first file that cannot be written.
    pub(crate) fn new(spec: Spec, resolved: Resolved, open: OpenFile<'_>) -> Result<Printer, String> {
        Ok(Printer {
            console: Console::new(spec.verbosity, spec.transport),
            logs: Logs::open(&spec.logs, spec.transport, open)?,
            transcript: Transcript::new(spec, resolved),
        })
    }

    /// Takes an event in: results go to `out`, errors to `err`, logs to their files. A file that fails is told on `err`.
    pub(crate) fn on_event(
        &mut self,
        event: &Event,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        let items = self.transcript.on_event(event);
        self.tell(items, out, err)
    }

    /// The user has asked for the end: from here on only the summary is told.
    pub(crate) fn interrupt(&mut self, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        let items = self.transcript.interrupt();
        self.tell(items, out, err)
    }

    fn tell(&mut self, items: Vec<Item>, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        for item in items {
            for text in self.logs.write(&item) {
                writeln!(err, "netcaliper ctstraffic: {text}; the run goes on without it")?;
            }
            self.console.show(&item, out, err)?;
        }
        out.flush()
    }

    /// The exit code: the number of failures, as far as eight bits hold it.
    pub(crate) fn exit_code(&self) -> u8 {
        u8::try_from(self.transcript.errors()).unwrap_or(u8::MAX)
    }
}

/// Prints a saved run as ctsTraffic would have printed it, at its highest ordinary verbosity.
pub(crate) fn print(outcome: &Outcome, events: &[Event], out: &mut dyn Write) -> io::Result<()> {
    let (spec, resolved) = of_run(outcome);
    let mut none = |_: &std::path::Path| Err(io::Error::other("a printout has no files"));
    let mut printer = Printer::new(spec, resolved, &mut none).map_err(io::Error::other)?;
    let mut err = Vec::new();
    for event in events {
        printer.on_event(event, out, &mut err)?;
        out.write_all(&err)?;
        err.clear();
    }
    Ok(())
}

/// Addresses that the banner of a saved run lists.
const MOST_TARGETS: usize = 64;

/// What the command line of a saved run would have been, as far as it matters here.
fn of_run(outcome: &Outcome) -> (Spec, Resolved) {
    let phase = outcome.points.first().map(|point| point.phase.clone()).unwrap_or_default();
    let role = if outcome.begin.verb == "serve" { Role::Server } else { Role::Client };
    let transport = if phase.kind == Kind::Stream { Transport::Udp } else { Transport::Tcp };
    let mut targets: Vec<SocketAddr> =
        outcome.points.iter().flat_map(|p| &p.sessions).map(|s| s.address).collect();
    if targets.is_empty() && role == Role::Client {
        // Servers of other programs have no sessions: the connections tell where they went.
        for record in outcome.points.iter().flat_map(|p| &p.connections) {
            if targets.len() < MOST_TARGETS && !targets.contains(&record.remote) {
                targets.push(record.remote);
            }
        }
    }
    let resolved = Resolved { targets, ..Resolved::default() };
    let port = resolved.targets.first().map_or(0, |at| at.port());
    let shown = Shown {
        io_function: super::raw::io_function(role, transport),
        connect_function: "connect",
        receives: 1,
        sends: 1,
        ..Shown::default()
    };
    let targets = outcome.begin.targets.clone();
    let spec = Spec { role, transport, targets, port, phase, verbosity: 5, shown, ..Spec::default() };
    (spec, resolved)
}
