//! `netcaliper udpmon_bw_mon` and the other programs of UDPmon.

use crate::file::SavedRun;
use crate::keeping::Keeping;
use crate::protocols;
use crate::protocols::Protocol;
use crate::{faces, measure, plan, stderr};
use classic::udpmon::{Asked, Face, Program, Spec, read, usage};
use common::{ClientConfig, Placement, ServerConfig};
use model::{Event, Level, Status, UdpmonRecords, UdpmonTest};
use runtime::{Bound, EngineError};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

/// Nothing could be measured, or the command line cannot be: the originals have one code for both.
const FAILED: u8 = 1;

/// Runs one of the programs.
pub(crate) fn run(program: Program, arguments: &[String], command: Vec<String>) -> ExitCode {
    let how = match read(program, arguments) {
        Ok(Asked::Help) => {
            let _ = io::stderr().write_all(usage(program).as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Version) => {
            let name = if program.tcp() { "TCPmon Version 2.2.1" } else { "UDPmon Version 1.5.2" };
            let text = format!("  {name}  (netcaliper {}) \n", plan::VERSION);
            let _ = io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Run(spec)) if program.serves() => serve(&spec, command),
        Ok(Asked::Run(spec)) => call(&spec, command),
        Err(text) => Err(text),
    };
    ExitCode::from(how.unwrap_or_else(|text| {
        stderr::say(format_args!("{}: {text}", program.name()));
        FAILED
    }))
}

fn in_words(error: EngineError) -> String {
    error.to_string()
}

fn protocol(spec: &Spec) -> Protocol {
    if spec.program.tcp() { protocols::TCPMON } else { protocols::UDPMON }
}

fn placement(spec: &Spec) -> Placement {
    spec.cores.clone().map_or(Placement::Even, Placement::Cores)
}

fn warn(spec: &Spec) {
    for ignored in &spec.ignored {
        stderr::say(format_args!(
            "{}: warning: ignored, because it has no effect here: {ignored}",
            spec.program.name()
        ));
    }
}

/// Runs a requester.
fn call(spec: &Spec, command: Vec<String>) -> Result<u8, String> {
    warn(spec);
    let host = if spec.host.contains(':') {
        format!("[{}]", spec.host.trim_matches(['[', ']']))
    } else {
        spec.host.clone()
    };
    let targets = [format!("{host}:{}", spec.port)];
    let mut peers = runtime::resolve_targets(&targets, spec.port, !spec.v6, spec.v6).map_err(in_words)?;
    // A name may have several addresses: the original takes the first.
    peers.truncate(1);
    let remote = peers.first().map(|peer| peer.address.ip().to_string()).unwrap_or_default();
    let config = ClientConfig {
        peers,
        ports: spec.from.map(|port| (port, port)),
        placement: placement(spec),
        workers: Some(1),
        records: true,
        run: runtime::run_id(),
        version: plan::VERSION.to_owned(),
        ..ClientConfig::new(protocol(spec))
    };
    let phase = spec.phase();
    runtime::check(&config, &phase).map_err(in_words)?;
    let interrupt = measure::on_signals().map_err(|trouble| trouble.text)?;
    let mut face = Face::new(spec.clone(), remote);
    let mut keeping = Keeping::new();
    let mut saved = SavedRun::open(spec.save.as_ref(), false)?;
    let mut end = (Status::Failed, None);
    let mut failure = None;
    let mut hear = |event: &Event| {
        keeping.hear(event);
        note(spec, &mut saved, event);
        match event {
            Event::PhaseEnd { status, reason } => end = (*status, reason.clone()),
            // A test whose ends disagree has no result.
            Event::Connection(record) => failure = failure.take().or_else(|| record.error.clone()),
            Event::Notice { level: Level::Warning | Level::Error, text } => {
                stderr::say(format_args!("{}: {text}", spec.program.name()));
            }
            _ => {}
        }
        // Where nobody reads on, the exit code still tells.
        let _ = face.hear(event, &mut faces::stdout());
    };
    hear(&Event::Begin(Box::new(runtime::begin(&config, spec.program.name(), command, &phase))));
    hear(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase.clone()) });
    runtime::run(&config, &phase, &interrupt, &mut |event| hear(&event)).map_err(in_words)?;
    let (status, reason) = end.clone();
    note(spec, &mut saved, &Event::End { status, reason });
    tell(spec, saved.finish());
    keeping.finish();
    match end {
        (Status::Complete, _) => failure.map_or(Ok(0), Err),
        (Status::Interrupted, _) => Ok(130),
        (_, reason) => Err(reason.unwrap_or_else(|| "nothing was measured".to_owned())),
    }
}

/// Keeps an event, and says what no table can.
fn note(spec: &Spec, saved: &mut SavedRun, event: &Event) {
    tell(spec, saved.hear(event));
    if let (Event::Near(totals), Some(asked)) = (event, spec.buffer)
        && let Some(got) =
            totals.effective.as_ref().map(|effective| granted(effective.sndbuf.min(effective.rcvbuf)))
        && got < asked
    {
        let limits = "net.core.wmem_max and net.core.rmem_max";
        stderr::say(format_args!(
            "{}: -S {asked}: the system gave socket buffers of {got} bytes ({limits})",
            spec.program.name()
        ));
    }
    let Event::Udpmon(test) = event else { return };
    if spec.udpmon.stamps && test.over && !of_the_card(test) {
        let (own, far) = (
            "it has none, they are off (hwstamp_ctl -r 1), or its clock (/dev/ptpN) cannot be opened",
            "the responder's card, or its program, gave none",
        );
        let why = if spec.program.serves() { own } else { far };
        stderr::say(format_args!("{}: no stamps of the card (-N): {why}", spec.program.name()));
    }
}

/// Tells what is wrong with the file of the run.
fn tell(spec: &Spec, kept: Result<(), String>) {
    if let Err(text) = kept {
        stderr::say(format_args!("{}: {text}", spec.program.name()));
    }
}

/// Of a socket buffer's size as the system tells it, what was granted: Linux tells twice that, for its own bookkeeping.
fn granted(told: u64) -> u64 {
    if cfg!(target_os = "linux") { told / 2 } else { told }
}

/// Whether records of single packets or messages are wanted.
fn records(spec: &Spec) -> bool {
    spec.udpmon.records != UdpmonRecords::None
}

/// Whether a card stamped packets, as far as records or the histogram of times between its stamps tell.
fn of_the_card(test: &UdpmonTest) -> bool {
    let told = test.records.iter().any(|record| record.raw_ns != 0);
    let between = test.others.get(3);
    let known = !test.records.is_empty() || between.is_some();
    told || !known || between.is_some_and(|hist| hist.count() + hist.under + hist.over > 0)
}

/// An interface that is not there has no counters.
#[cfg(target_os = "linux")]
fn check_cards(spec: &Spec) -> Result<(), String> {
    let dev = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let there =
        |name: &str| dev.lines().any(|line| line.split_once(':').is_some_and(|(n, _)| n.trim() == name));
    spec.udpmon
        .cards
        .iter()
        .find(|name| !there(name))
        .map_or(Ok(()), |name| Err(format!("-I {name}: there is no such interface")))
}

/// Drivers cannot be asked here.
#[cfg(not(target_os = "linux"))]
fn check_cards(spec: &Spec) -> Result<(), String> {
    spec.udpmon
        .cards
        .first()
        .map_or(Ok(()), |name| Err(format!("-I {name}: drivers cannot be asked on this system")))
}

/// Runs a responder or a receiver.
fn serve(spec: &Spec, command: Vec<String>) -> Result<u8, String> {
    warn(spec);
    check_cards(spec)?;
    let any = if spec.v6 { IpAddr::from([0u16; 8]) } else { IpAddr::from([0u8; 4]) };
    let config = ServerConfig {
        listen: vec![SocketAddr::new(any, spec.port)],
        placement: placement(spec),
        open_to: plan::open_to(&[]).map_err(|trouble| trouble.text)?,
        // Records are those of one connection: the original ends behind it when it is to tell everything.
        exit_after: (spec.program == Program::TcpResp && spec.verbose && records(spec)).then_some(1),
        version: plan::VERSION.to_owned(),
        ..ServerConfig::legacy(protocol(spec), spec.phase())
    };
    let bound = Bound::new(config).map_err(in_words)?;
    let interrupt = measure::on_signals().map_err(|trouble| trouble.text)?;
    let mut spec = spec.clone();
    if let Some(at) = bound.addresses().first() {
        spec.port = at.port();
    }
    let name = spec.program.name();
    let mut saved = SavedRun::open(spec.save.as_ref(), true)?;
    let mut face = Face::new(spec.clone(), String::new());
    let mut keeping = Keeping::new();
    let mut hear = |event: &Event| {
        keeping.hear(event);
        note(&spec, &mut saved, event);
        if let Event::Notice { level: Level::Warning | Level::Error, text } = event {
            stderr::say(format_args!("{name}: {text}"));
        }
        let _ = face.hear(event, &mut faces::stdout());
    };
    hear(&Event::Begin(Box::new(bound.begin(command))));
    bound.run(&interrupt, &mut |event| hear(&event)).map_err(in_words)?;
    keeping.finish();
    Ok(0)
}
