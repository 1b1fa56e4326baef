//! `netcaliper udpmon_bw_mon` and the other programs of UDPmon.

use super::{Printer, Program, Spec, read, usage};
use crate::{PacketTest, PacketTestRecords};
use common::Protocol;
use common::original::{Driver, ExitCodes, Refusal, Run};
use common::{ClientConfig, Placement, ServerConfig};
use compat::Request;
use model::{Event, Status};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

/// Nothing could be measured, or the command line cannot be: the originals have one code for both.
const CODES: ExitCodes = ExitCodes { usage: 1, failed: 1 };

pub(super) fn run(program: Program, arguments: &[String], driver: &Driver) -> u8 {
    let how = match read(program, arguments) {
        Ok(Request::Help) => {
            let _ = io::stderr().write_all(usage(program).as_bytes());
            Ok(0)
        }
        Ok(Request::Version) => {
            let name = if program.tcp() { "TCPmon Version 2.2.1" } else { "UDPmon Version 1.5.2" };
            driver.page(&format!("  {name}  (netcaliper {}) \n", driver.version), 0)
        }
        Ok(Request::Run(spec)) => start(*spec, driver),
        Err(text) => Err(Refusal::Usage(text)),
    };
    driver.ended(program.name(), CODES, how)
}

fn start(spec: Spec, driver: &Driver) -> Result<u8, Refusal> {
    for ignored in &spec.ignored {
        let name = spec.program.name();
        driver.say(format_args!("{name}: warning: ignored, because it has no effect here: {ignored}"));
    }
    if spec.program.serves() { serve(spec, driver) } else { call(spec, driver) }
}

fn protocol(spec: &Spec) -> &'static dyn Protocol {
    if spec.program.tcp() { &crate::tcpmon::PROTOCOL } else { &crate::PROTOCOL }
}

fn placement(spec: &Spec) -> Placement {
    spec.cores.clone().map_or(Placement::Even, Placement::Cores)
}

fn call(spec: Spec, driver: &Driver) -> Result<u8, Refusal> {
    let host = if spec.host.contains(':') {
        format!("[{}]", spec.host.trim_matches(['[', ']']))
    } else {
        spec.host.clone()
    };
    // A name may have several addresses: the original takes the first.
    let peers = driver.first(&format!("{host}:{}", spec.port), spec.port, !spec.v6, spec.v6)?;
    let remote = peers.first().map(|peer| peer.address.ip().to_string()).unwrap_or_default();
    let config = ClientConfig {
        peers,
        ports: spec.from.map(|port| (port, port)),
        placement: placement(&spec),
        workers: Some(1),
        ..driver.client(protocol(&spec))
    };
    let (phase, name) = (spec.phase(), spec.program.name());
    (driver.check)(&config, &phase)?;
    let interrupt = (driver.on_signals)()?;
    let mut reporter = Reporter::new(spec, remote, driver)?;
    driver.call(&config, &phase, &interrupt, name, &mut |event| reporter.on_event(event))?;
    let (status, reason) = (reporter.run.status, reporter.run.reason.clone());
    reporter.run.save(&Event::End { status, reason: reason.clone() });
    reporter.run.finish();
    match status {
        Status::Complete => reporter.failure.map_or(Ok(0), |text| Err(Refusal::Failed(text))),
        Status::Interrupted => Ok(130),
        _ => Err(Refusal::Failed(reason.unwrap_or_else(|| "nothing was measured".to_owned()))),
    }
}

/// The printout, the file of the run, and notices that fit into neither.
struct Reporter<'a> {
    printer: Printer,
    driver: &'a Driver,
    run: Run<'a>,
    /// A test whose ends disagree has no result.
    failure: Option<String>,
}

impl Reporter<'_> {
    fn new(spec: Spec, remote: String, driver: &Driver) -> Result<Reporter<'_>, Refusal> {
        let run = Run::new(driver, format!("{}:", spec.program.name()))
            .saved(spec.save.as_ref(), spec.program.serves())?;
        Ok(Reporter { printer: Printer::new(spec, remote), driver, run, failure: None })
    }

    fn on_event(&mut self, event: &Event) {
        self.run.save(event);
        self.note(event);
        self.run.on_event(event);
        if let Event::Connection(record) = event {
            self.failure = self.failure.take().or_else(|| record.error.clone());
        }
        self.driver.print(&self.printer.on_event(event));
    }

    /// Prints notices: socket buffers smaller than requested, and missing stamps of the card.
    fn note(&self, event: &Event) {
        let spec = &self.printer.spec;
        let name = spec.program.name();
        if let (Event::Local(totals), Some(asked)) = (event, spec.buffer)
            && let Some(got) =
                totals.effective.as_ref().and_then(|e| Some(granted(e.sndbuf?.min(e.rcvbuf?).into())))
            && got < asked
        {
            let limits = "net.core.wmem_max and net.core.rmem_max";
            self.driver.say(format_args!(
                "{name}: -S {asked}: the system gave socket buffers of {got} bytes ({limits})"
            ));
        }
        let Some(test) = PacketTest::from_event(event) else { return };
        if spec.packet_tests.stamps && test.over && !of_the_card(&test) {
            let (own, remote) = (
                "it has none, they are off (hwstamp_ctl -r 1), or its clock (/dev/ptpN) cannot be opened",
                "the responder's card, or its program, gave none",
            );
            let why = if spec.program.serves() { own } else { remote };
            self.driver.say(format_args!("{name}: no stamps of the card (-N): {why}"));
        }
    }
}

/// The granted size of a socket buffer: Linux reports twice that, for its own bookkeeping.
fn granted(told: u64) -> u64 {
    if cfg!(target_os = "linux") { told / 2 } else { told }
}

/// True if records or the histogram of times between stamps show that a card stamped packets, or if
/// there are neither.
fn of_the_card(test: &PacketTest) -> bool {
    let told = test.records.iter().any(|record| record.raw_ns != 0);
    let between = test.others.get(3);
    let known = !test.records.is_empty() || between.is_some();
    told || !known || between.is_some_and(|hist| hist.count() + hist.under + hist.over > 0)
}

/// An interface that is not there has no counters.
fn check_cards(spec: &Spec) -> Result<(), String> {
    let dev = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let there =
        |name: &str| dev.lines().any(|line| line.split_once(':').is_some_and(|(n, _)| n.trim() == name));
    let why = if cfg!(target_os = "linux") {
        "there is no such interface"
    } else {
        "drivers cannot be asked on this system"
    };
    let missing = spec.packet_tests.cards.iter().find(|name| !there(name));
    missing.map_or(Ok(()), |name| Err(format!("-I {name}: {why}")))
}

/// Runs a responder or a receiver.
fn serve(mut spec: Spec, driver: &Driver) -> Result<u8, Refusal> {
    check_cards(&spec)?;
    let any = if spec.v6 { IpAddr::from([0u16; 8]) } else { IpAddr::from([0u8; 4]) };
    let records = spec.packet_tests.records != PacketTestRecords::None;
    let bound = driver.bind(ServerConfig {
        listen: vec![SocketAddr::new(any, spec.port)],
        placement: placement(&spec),
        // With full records the original exits after one connection.
        exit_after: (spec.program == Program::TcpResp && spec.verbose && records).then_some(1),
        ..driver.server(protocol(&spec), spec.phase())?
    })?;
    let interrupt = (driver.on_signals)()?;
    spec.port = bound.port().unwrap_or(spec.port);
    let mut reporter = Reporter::new(spec, String::new(), driver)?;
    reporter.on_event(&Event::Begin(Box::new(bound.begin)));
    (bound.run)(&interrupt, &mut |event| reporter.on_event(event))?;
    reporter.run.finish();
    Ok(0)
}
