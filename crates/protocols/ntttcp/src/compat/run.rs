//! `netcaliper ntttcp`: ntttcp for Linux, either end.

use super::{
    HostFacts, HostReading, Now, PAGE, Printer, Results, Role, Spec, is_windows, json, read, time_of_day, xml,
};
use crate::{Layout, READY_OFFSET};
use common::original::{Driver, ExitCodes, Fill, Refusal, Run};
use common::{ClientConfig, Peer, ProtocolOptions, ServerConfig};
use compat::Request;
use metrics::Mono;
use metrics::seconds;
use model::{Event, Status, Traffic, at_port};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use transport::Interrupt;

/// -1001 and -1000 of the original: the command line cannot be; refused, busy, unreachable.
const CODES: ExitCodes = ExitCodes { usage: 23, failed: 24 };
/// Windows NTttcp's exit code for bad arguments.
const WINDOWS_USAGE: u8 = 9;

/// The notice for a test that was answered beside another server.
pub(crate) fn notice(event: &Event) -> Option<String> {
    let Event::Local(totals) = event else { return None };
    let Traffic { rx_bytes, ns, .. } = totals.traffic;
    let (n, rate) = (totals.opened, totals.traffic.rx_bps() / 1e6);
    Some(format!("{n} connections, {rx_bytes} bytes in {:.3} s, {rate:.3} Mbit/s", seconds(ns)))
}

/// A receiver listens to a conversation, on the ports above it to data, and where Windows' senders
/// announce that they are ready.
pub(crate) fn row_of_ports(config: ServerConfig) -> Result<ServerConfig, String> {
    // As long as senders propose: the longer of both is agreed on.
    let layout = Layout { seconds: 1, ..Layout::default() };
    let port = config.listen.first().map_or(layout.port, SocketAddr::port);
    let last = u32::from(port) + u32::from(layout.ports) - 1;
    let aside = u32::from(READY_OFFSET);
    if port < 2 || last + aside > 65_535 {
        return Err(format!(
            "ntttcp needs the port below {port}, those up to {last}, and {} to {}",
            u32::from(port) + aside,
            last + aside
        ));
    }
    let row = |at: &SocketAddr| {
        let (at, after) = (*at, port + layout.ports);
        (port - 1..after).chain(port + READY_OFFSET..after + READY_OFFSET).map(move |port| at_port(at, port))
    };
    let listen = config.listen.iter().flat_map(row).collect();
    let options = ProtocolOptions::new(Layout { port, unsynced: true, ..layout });
    Ok(ServerConfig { listen, options, ..config })
}

pub(super) fn run(arguments: &[String], driver: &Driver) -> u8 {
    let usage = if is_windows(arguments) { WINDOWS_USAGE } else { CODES.usage };
    let done = match read(arguments) {
        Ok(Request::Help | Request::Version) => driver.page(PAGE, usage),
        Ok(Request::Run(spec)) => return driver.ended("ntttcp", CODES, start(&spec, driver)),
        Err(text) => Err(Refusal::Usage(text)),
    };
    driver.ended("ntttcp", ExitCodes { usage, ..CODES }, done)
}

fn start(spec: &Spec, driver: &Driver) -> Result<u8, Refusal> {
    driver.warn("ntttcp", "", &spec.ignored);
    let interrupt = (driver.on_signals)()?;
    let mut reporter = Reporter::new(spec, driver)?;
    reporter.banner();
    match spec.role {
        Role::Sender => {
            send(spec, &interrupt, driver, &mut reporter)?;
            reporter.save()?;
        }
        Role::Receiver => loop {
            receive(spec, &interrupt, driver, &mut reporter)?;
            reporter.save()?;
            if !spec.hold || interrupt.is_requested() {
                break;
            }
            // Another test has a report of its own.
            reporter.printer = Printer::new(spec.clone(), io::stdout().is_terminal());
        },
    }
    Ok(if reporter.status == Status::Failed { CODES.failed } else { 0 })
}

fn send(
    spec: &Spec,
    interrupt: &Interrupt,
    driver: &Driver,
    reporter: &mut Reporter<'_>,
) -> Result<(), Refusal> {
    let config = ClientConfig {
        peers: peers(spec, driver)?,
        sources: spec.local.iter().map(|at| driver.source(at)).collect::<Result<_, _>>()?,
        source_option: if spec.windows { "-nic" } else { "-a" },
        ports: spec.local_port.map(|first| (first, first)),
        port_option: "-f",
        arrivals: true,
        options: ProtocolOptions::new(spec.layout),
        ..driver.client(&crate::PROTOCOL)
    };
    reporter.opening(&[]);
    driver.call(&config, &spec.phase(), interrupt, "ntttcp", &mut |event| {
        reporter.on_event(event);
    })
}

/// The receiver, or those of Windows' ports in their order.
fn peers(spec: &Spec, driver: &Driver) -> Result<Vec<Peer>, Refusal> {
    let hosts = match &spec.address {
        Some(host) if spec.hosts.is_empty() => std::slice::from_ref(host),
        _ => &spec.hosts,
    };
    let mut peers: Vec<Peer> = Vec::new();
    for host in hosts {
        // A name is looked up once.
        let known = peers.iter().find(|peer| peer.name == *host).cloned();
        peers.extend(match known {
            Some(peer) => vec![peer],
            None => driver.first(host, spec.layout.port, false, spec.v6)?,
        });
    }
    Ok(peers)
}

fn listen(spec: &Spec, driver: &Driver) -> Result<Vec<SocketAddr>, Refusal> {
    let any = if spec.v6 { "::" } else { "0.0.0.0" };
    if !spec.windows {
        let host = spec.address.as_deref().unwrap_or(any);
        let address = driver.first(host, spec.layout.port, false, spec.v6)?;
        let at = address.first().map_or_else(|| ([0, 0, 0, 0], 0).into(), |peer| peer.address);
        let first = if spec.layout.sync { spec.layout.port - 1 } else { spec.layout.port };
        return Ok((first..=spec.layout.port + (spec.layout.ports - 1))
            .map(|port| at_port(at, port))
            .collect());
    }
    let hosts = spec.hosts.iter().map(|host| if host == "*" { any } else { host }.to_owned()).collect();
    let peers = peers(&Spec { hosts, address: None, ..spec.clone() }, driver)?;
    let data: Vec<SocketAddr> =
        (spec.layout.port..).zip(peers).map(|(port, peer)| at_port(peer.address, port)).collect();
    let aside = data.iter().map(|at| at_port(*at, at.port() + READY_OFFSET)).filter(|_| spec.layout.token);
    Ok(data.iter().copied().chain(aside).collect())
}

fn receive(
    spec: &Spec,
    interrupt: &Interrupt,
    driver: &Driver,
    reporter: &mut Reporter<'_>,
) -> Result<(), Refusal> {
    let phase = spec.phase();
    let bound = driver.bind(ServerConfig {
        listen: listen(spec, driver)?,
        records: true,
        arrivals: true,
        options: ProtocolOptions::new(spec.layout),
        ..driver.server(&crate::PROTOCOL, phase.clone())?
    })?;
    reporter.opening(&bound.addresses);
    bound.serve(&phase, interrupt, &mut |event| reporter.on_event(event))
}

/// The printout, on this program's stdout and stderr.
struct Reporter<'a> {
    driver: &'a Driver,
    spec: Spec,
    printer: Printer,
    /// Printed once; later tests of -H start without it.
    opened: bool,
    begun: Mono,
    /// Status of the last test.
    status: Status,
    run: Run<'a>,
    /// Opened before the run, so that nothing is measured in vain.
    log: Option<File>,
    xml: Option<Fill>,
    json: Option<Fill>,
}

fn unwritten(path: &str, error: &io::Error) -> Refusal {
    Refusal::Failed(format!("cannot write {path}: {error}"))
}

/// The file of a result, if it is wanted.
fn opened(path: Option<&String>, driver: &Driver) -> Result<Option<Fill>, Refusal> {
    path.map(|path| (driver.create)(path.as_ref()).map_err(|e| unwritten(path, &e))).transpose()
}

impl Reporter<'_> {
    fn new<'a>(spec: &Spec, driver: &'a Driver) -> Result<Reporter<'a>, Refusal> {
        // The copy of the console's lines is followed while it grows.
        let log = spec.log.as_ref().map(|path| File::create(path).map_err(|e| unwritten(path, &e)));
        Ok(Reporter {
            driver,
            spec: spec.clone(),
            printer: Printer::new(spec.clone(), io::stdout().is_terminal()),
            opened: false,
            begun: driver.host.now(),
            status: Status::Failed,
            run: Run::new(driver, "ntttcp:"),
            log: log.transpose()?,
            xml: opened(spec.xml.as_ref(), driver)?,
            json: opened(spec.json.as_ref(), driver)?,
        })
    }

    /// Writes the files of a test that has a result.
    fn save(&mut self) -> Result<(), Refusal> {
        self.status = self.run.status;
        std::mem::replace(&mut self.run, Run::new(self.driver, "ntttcp:")).finish();
        let Some(results) = &self.printer.results else { return Ok(()) };
        let [computer, system, release, version] = ["hostname", "ostype", "osrelease", "version"]
            .map(|name| text(&format!("/proc/sys/kernel/{name}")).trim().to_owned());
        let machine = std::env::consts::ARCH;
        let os = format!("{system} {computer} {release} {version} {machine} GNU/Linux");
        let results = Results { computer, os, ..results.clone() };
        // With -H the last test's result is kept, as in the original.
        for (file, path, text) in [
            (self.xml.take(), self.spec.xml.as_ref(), xml(&self.spec, &results)),
            (self.json.take(), self.spec.json.as_ref(), json(&self.spec, &results)),
        ] {
            let file = file.map_or_else(|| opened(path, self.driver), |file| Ok(Some(file)))?;
            let written = file.map_or(Ok(()), |fill| fill(&text));
            written.map_err(|e| unwritten(path.map_or("a result file", String::as_str), &e))?;
        }
        Ok(())
    }

    /// Prints a text and, where it is `copied`, adds it to the copy of the console's lines.
    fn show(&mut self, text: &str, copied: bool) {
        self.driver.print(text);
        if let Some(file) = self.log.as_mut().filter(|_| copied) {
            let _ = file.write_all(text.as_bytes());
        }
    }

    fn banner(&mut self) {
        self.show(&self.printer.banner(&self.now()), false);
    }

    /// Prints a receiver's lines once it listens, and a sender's once it starts.
    fn opening(&mut self, listening: &[SocketAddr]) {
        if std::mem::replace(&mut self.opened, true) {
            return;
        }
        let facts =
            HostFacts { files: (self.driver.open_files)(), addresses: (self.driver.local_addresses)() };
        self.show(&self.printer.opening(&facts, listening, &self.now()), true);
    }

    fn now(&self) -> Now {
        let host = self.driver.host;
        Now { day: time_of_day(host.wall().0), ns: host.now().since(self.begun) }
    }

    fn on_event(&mut self, event: &Event) {
        self.run.on_event(event);
        let watched = matches!(event, Event::Start { .. } | Event::Interval(_));
        let host = if watched { HostReading::of(&self.spec, &text) } else { HostReading::default() };
        let printed = self.printer.on_event(event, &self.now(), &host);
        // Real-time lines are not copied, as in the original.
        self.show(&printed, !matches!(event, Event::Interval(_)));
    }
}

/// The text of a file of the kernel, empty where there is none.
fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
