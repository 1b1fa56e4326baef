//! The originals: the names under which their command lines are found, and what their drivers share.

mod bwdelaytester;
mod ctstraffic;
mod iperf3;
mod ntttcp;
mod rttcpip;
mod ttcp;
mod udpmon;

use crate::keeping::Keeping;
use crate::legacy::Service;
use crate::protocols::{self, Protocol};
use crate::{CliError, Exit, plan, stderr};
use common::{ClientConfig, Peer, ServerConfig};
use compat::NamedFile;
use compat::udpmon::Program;
use model::{Begin, Event, Level, Outcome, Phase, Status};
use runtime::{Bound, EngineError, Interrupt};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// A program whose command line and printout this one has.
#[derive(Debug)]
pub(crate) struct Original {
    /// Its subcommand, and its name for `report --as`.
    pub(crate) name: &'static str,
    /// What it is, for the help.
    pub(crate) about: &'static str,
    /// Runs it with these arguments; the whole command line is for the records.
    pub(crate) run: fn(&[String], Vec<String>) -> ExitCode,
    /// Prints a saved run as it would have printed it.
    pub(crate) print: fn(&Outcome, &[Event], &mut dyn Write) -> io::Result<()>,
    /// Its tables, where several together tell more than each.
    pub(crate) tables: Option<Tables>,
}

/// Tables of an original that are reported on together.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Whether a file is one of them.
    pub(crate) known: fn(&[u8]) -> bool,
    pub(crate) report: fn(&[NamedFile], &mut dyn Write) -> io::Result<()>,
}

/// A row for one of UDPmon's programs.
macro_rules! udpmon {
    ($name:literal, $program:ident, $about:literal) => {
        Original {
            name: $name,
            about: $about,
            run: |arguments, command| udpmon::run(Program::$program, arguments, command),
            print: |outcome, events, out| compat::udpmon::print(Program::$program, outcome, events, out),
            tables: None,
        }
    };
}

/// A row per program. Each is also found by its name as that of the binary, in upper or lower case: by a link to it.
pub(crate) const ORIGINALS: &[Original] = &[
    Original {
        name: "ctstraffic",
        about: "Be ctsTraffic: its arguments, its printout, its files (also when called by the name ctsTraffic)",
        run: ctstraffic::run,
        print: compat::ctstraffic::print,
        tables: Some(Tables { known: compat::ctstraffic::is_table, report: compat::ctstraffic::report }),
    },
    Original {
        name: "iperf3",
        about: "Be iperf3: its options, its report, its JSON (also when called by that name)",
        run: iperf3::run,
        print: |outcome, _, out| compat::iperf3::print(outcome, out),
        tables: None,
    },
    Original {
        name: "rttcpip",
        about: "Be RtTcpip: its client, or, with server as the first argument, its server",
        run: rttcpip::run,
        print: compat::rttcpip::print,
        tables: None,
    },
    Original {
        name: "rttcpipclient",
        about: "Be RtTcpipClient (also when called by that name)",
        run: rttcpip::call,
        print: compat::rttcpip::print,
        tables: None,
    },
    Original {
        name: "rttcpipserver",
        about: "Be RtTcpipServer (also when called by that name)",
        run: rttcpip::serve,
        print: compat::rttcpip::print,
        tables: None,
    },
    Original {
        name: "ntttcp",
        about: "Be ntttcp for Linux: its arguments and its console report, with and without synchronisation",
        run: ntttcp::run,
        print: compat::ntttcp::print,
        tables: None,
    },
    Original {
        name: "ttcp",
        about: "Be ttcp: Teldat's tx and rx with their words, or the classic program's letters",
        run: ttcp::run,
        print: compat::ttcp::print,
        tables: None,
    },
    Original {
        name: "bwdelaytester",
        about: "Be bwdelaytester: its arguments, its lines and tables (also when called by that name)",
        run: bwdelaytester::run,
        print: compat::bwdelaytester::print,
        tables: None,
    },
    udpmon!(
        "udpmon_bw_mon",
        BwMon,
        "Be UDPmon's udpmon_bw_mon: its stream of packets, and what the responder found"
    ),
    udpmon!("udpmon_req", Req, "Be UDPmon's udpmon_req: its requests and responses"),
    udpmon!("udpmon_send", Send, "Be UDPmon's udpmon_send: its stream of packets without a word"),
    udpmon!("udpmon_recv", Recv, "Be UDPmon's udpmon_recv: its receiver"),
    udpmon!("udpmon_resp", Resp, "Be UDPmon's udpmon_resp: its responder, for any number at once"),
    udpmon!("tcpmon_mon", TcpMon, "Be tcpmon's tcpmon_mon: its messages over TCP"),
    udpmon!("tcpmon_resp", TcpResp, "Be tcpmon's tcpmon_resp: its responder, for any number at once"),
];

/// What serving some protocols beside our own takes (`serve --legacy`).
pub(crate) const SERVICES: &[(Protocol, Service)] = &[
    (protocols::IPERF3, iperf3::SERVICE),
    (protocols::CTSTRAFFIC, ctstraffic::SERVICE),
    (protocols::NTTTCP, ntttcp::SERVICE),
    (protocols::BWDELAYTESTER, bwdelaytester::SERVICE),
];

pub(crate) fn find(name: &str) -> Option<&'static Original> {
    ORIGINALS.iter().find(|original| original.name.eq_ignore_ascii_case(name))
}

/// The original that a command line asks for, and its arguments: by the name of the binary, or as the first argument.
pub(crate) fn requested(command: &[String]) -> Option<(&'static Original, &[String])> {
    let called = Path::new(command.first()?).file_name()?.to_str()?;
    let bare = match called.to_ascii_lowercase().strip_suffix(".exe") {
        Some(stem) => called[..stem.len()].to_owned(),
        None => called.to_owned(),
    };
    if let Some(original) = find(&bare) {
        return Some((original, &command[1..]));
    }
    Some((find(command.get(1)?)?, &command[2..]))
}

static STDOUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Stdout of an original. When it takes no more, that is told once, in a sentence; the run goes on for the other end's sake.
pub(crate) struct Stdout(io::Stdout);

pub(crate) fn stdout() -> Stdout {
    Stdout(io::stdout())
}

/// Whether something that was printed did not get there.
pub(crate) fn stdout_failed() -> bool {
    STDOUT_FAILED.load(Ordering::Relaxed)
}

fn told<T>(written: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::Interrupted
        && !STDOUT_FAILED.swap(true, Ordering::Relaxed)
        && let Some(text) = stderr::of_stdout(error)
    {
        stderr::say(format_args!("netcaliper: {text}"));
    }
    written
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        told(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        told(self.0.flush())
    }
}

/// Why an original has no run, in one sentence.
pub(crate) enum Refusal {
    /// Its command line or its settings cannot be.
    Usage(String),
    Failed(String),
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        let of = if matches!(error, EngineError::Setting(_)) { Refusal::Usage } else { Refusal::Failed };
        of(error.to_string())
    }
}

impl From<CliError> for Refusal {
    fn from(error: CliError) -> Self {
        if error.exit == Exit::Usage { Refusal::Usage(error.text) } else { Refusal::Failed(error.text) }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal::Failed(text)
    }
}

/// The exit codes of an original: for a command line that cannot be, and for what failed.
#[derive(Clone, Copy)]
pub(crate) struct ExitCodes {
    pub(crate) usage: u8,
    pub(crate) failed: u8,
}

/// How an original ends that is called `name`: a refusal is told on stderr.
pub(crate) fn ended(name: &str, codes: ExitCodes, how: Result<u8, Refusal>) -> ExitCode {
    let (text, code) = match how {
        Ok(code) => return ExitCode::from(code),
        Err(Refusal::Usage(text)) => (text, codes.usage),
        Err(Refusal::Failed(text)) => (text, codes.failed),
    };
    stderr::say(format_args!("{name}: {text}"));
    ExitCode::from(code)
}

/// Prints a text that was asked for; the rest of it is not missed when the reader of stdout has closed it.
pub(crate) fn page(text: &str, code: u8) -> Result<u8, Refusal> {
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(code)
}

/// Warns of options without an effect.
pub(crate) fn warn(name: &str, why: &str, ignored: &[String]) {
    if !ignored.is_empty() {
        stderr::say(format_args!("{name}: warning: ignored{why}: {}", ignored.join(", ")));
    }
}

/// Why most options have none.
pub(crate) const NO_EFFECT: &str = ", because it has no effect here";

/// A client of this protocol, with what is the same for all originals.
pub(crate) fn client(protocol: Protocol) -> ClientConfig {
    ClientConfig {
        run: runtime::run_id(),
        version: plan::VERSION.to_owned(),
        records: true,
        ..ClientConfig::new(protocol)
    }
}

/// A server of this protocol, with what is the same for all originals.
pub(crate) fn server(protocol: Protocol, phase: Phase) -> Result<ServerConfig, Refusal> {
    let (open_to, version) = (plan::open_to(&[])?, plan::VERSION.to_owned());
    Ok(ServerConfig { open_to, version, ..ServerConfig::legacy(protocol, phase) })
}

/// The first address of a host.
pub(crate) fn first(host: &str, port: u16, v4: bool, v6: bool) -> Result<Vec<Peer>, EngineError> {
    let mut peers = runtime::resolve_targets(&[host.to_owned()], port, v4, v6)?;
    peers.truncate(1);
    Ok(peers)
}

/// Follows a run for its ending and its warnings.
pub(crate) struct Run {
    prefix: String,
    keeping: Keeping,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
}

impl Run {
    /// A run whose warnings begin with `prefix`; they are not printed where it is empty.
    pub(crate) fn new(prefix: impl Into<String>) -> Run {
        Run { prefix: prefix.into(), keeping: Keeping::new(), status: Status::Failed, reason: None }
    }

    pub(crate) fn on_event(&mut self, event: &Event) {
        self.keeping.hear(event);
        match event {
            Event::PhaseEnd { status, reason } => (self.status, self.reason) = (*status, reason.clone()),
            Event::Notice { level: Level::Warning | Level::Error, text } if !self.prefix.is_empty() => {
                stderr::say(format_args!("{} {text}", self.prefix));
            }
            _ => {}
        }
    }

    /// The run is over and printed.
    pub(crate) fn finish(self) {
        self.keeping.finish();
    }
}

fn begin(begin: Begin, phase: &Phase, on_event: &mut dyn FnMut(&Event)) {
    on_event(&Event::Begin(Box::new(begin)));
    on_event(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase.clone()) });
}

/// Runs a client to its end.
pub(crate) fn call(
    config: &ClientConfig,
    phase: &Phase,
    interrupt: &Interrupt,
    (verb, command): (&str, &[String]),
    on_event: &mut dyn FnMut(&Event),
) -> Result<(), Refusal> {
    runtime::check(config, phase)?;
    begin(runtime::begin(config, verb, command.to_vec(), phase), phase, on_event);
    Ok(runtime::run(config, phase, interrupt, &mut |event| on_event(&event))?)
}

/// Runs a server to its end.
pub(crate) fn serve(
    bound: Bound,
    phase: &Phase,
    interrupt: &Interrupt,
    command: &[String],
    on_event: &mut dyn FnMut(&Event),
) -> Result<(), Refusal> {
    begin(bound.begin(command.to_vec()), phase, on_event);
    Ok(bound.run(interrupt, &mut |event| on_event(&event))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_is_found_by_either_name() {
        let found = |words: &[&str]| {
            let command: Vec<String> = words.iter().map(ToString::to_string).collect();
            requested(&command).map(|(original, rest)| (original.name, rest.len()))
        };
        assert_eq!(found(&["netcaliper", "ctstraffic", "-Listen:*"]), Some(("ctstraffic", 1)));
        assert_eq!(found(&["/usr/bin/ctsTraffic", "-Listen:*", "-Port:5"]), Some(("ctstraffic", 2)));
        assert_eq!(found(&["ctsTraffic.exe"]), Some(("ctstraffic", 0)));
        assert_eq!(found(&["netcaliper", "tcp", "ctstraffic"]), None);
        assert_eq!(found(&["netcaliper"]), None);
        assert_eq!(found(&[]), None);
    }
}
