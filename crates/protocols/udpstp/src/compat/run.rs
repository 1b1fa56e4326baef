//! `netcaliper udpst`: either end.

use super::args::{Spec, read};
use super::help::USAGE;
use super::print::{Host, Printer, rates};
use crate::PROTOCOL;
use crate::keys::KeyFile;
use crate::report::{News, report_of};
use common::original::{Driver, ExitCodes, Refusal, Run};
use common::{ClientConfig, Keyring, Psk, ServerConfig};
use compat::Request;
use model::{Event, Extra, Pattern, Phase};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The original's exit codes.
const CODES: ExitCodes = ExitCodes { usage: 50, failed: 255 };

/// Text of an event of a server for the user.
pub(crate) fn notice(event: &Event) -> Option<String> {
    let Some(report) = report_of(event) else { return crate::protocol::carried(event) };
    let News::End(end) = report.news else { return None };
    let (sent, received) = end.datagrams;
    let client = SocketAddr::new(report.remote.ip().to_canonical(), report.remote.port());
    Some(format!("a capacity test of {client} is over: {sent} datagrams sent, {received} received"))
}

pub(super) fn run(arguments: &[String], driver: &Driver) -> u8 {
    let ran = match read(arguments) {
        Ok(Request::Run(spec)) if spec.table => {
            let banner =
                Printer::new(&Spec { upstream: None, ..spec.clone() }, driver.version, Vec::new()).banner();
            driver.page(&(banner + &rates(&spec.settings)), 0)
        }
        Ok(Request::Run(spec)) => {
            driver.warn("udpst", "", &spec.ignored);
            if spec.upstream.is_some() { client(&spec, driver) } else { server(&spec, driver) }
        }
        Ok(_) => driver.page(USAGE, 0),
        Err(text) => {
            driver.say(format_args!("{text}"));
            if text.starts_with("ERROR") { Ok(CODES.usage) } else { driver.page(USAGE, CODES.usage) }
        }
    };
    driver.ended("udpst", CODES, ran)
}

/// The keys of a command line: a file, and the one on it.
fn keys(spec: &Spec) -> Result<Keyring, Refusal> {
    let mut text = match &spec.key_file {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Refusal::Usage(format!("the key file {path} cannot be read: {error}")))?,
        None => String::new(),
    };
    if let Some(key) = &spec.key {
        // The file has the first word.
        if KeyFile::read(&text).is_ok_and(|file| file.key(spec.settings.key).is_some()) {
            return ring(&text);
        }
        text = format!("{text}\n# of the command line\n{},{key}\n", spec.settings.key);
    }
    if text.is_empty() { Ok(Keyring::default()) } else { ring(&text) }
}

fn ring(text: &str) -> Result<Keyring, Refusal> {
    KeyFile::read(text).map_err(Refusal::Usage)?;
    let psk = Psk::new(text.as_bytes()).map_err(Refusal::Usage)?;
    Ok(Keyring::of(Some(psk)))
}

/// The phase of a command line.
fn phase(spec: &Spec) -> Phase {
    let pattern = if spec.upstream == Some(false) { Pattern::Pull } else { Pattern::Push };
    let connections = spec.connections.map_or(1, |(_, most)| most);
    let mut phase = spec.settings.phase(pattern, connections.into());
    let buffer = Some(u64::from(spec.buffer)).filter(|bytes| *bytes > 0);
    (phase.sockets.rcvbuf, phase.sockets.sndbuf) = (buffer, buffer);
    phase
}

fn client(spec: &Spec, driver: &Driver) -> Result<u8, Refusal> {
    let mut hosts = Vec::new();
    let mut peers = Vec::new();
    for name in &spec.hosts {
        let found = driver.first(name, spec.port, spec.v4, spec.v6)?;
        let bare = name.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let bare = bare.map_or(name.as_str(), |(host, _)| host);
        hosts.extend(found.iter().map(|peer| Host { name: bare.to_owned(), at: peer.address }));
        peers.extend(found);
    }
    let config = ClientConfig { peers, keys: keys(spec)?, records: false, ..driver.client(&PROTOCOL) };
    let phase = phase(spec);
    (driver.check)(&config, &phase)?;
    let interrupt = (driver.on_signals)()?;
    let mut printer = Printer::new(spec, driver.version, hosts);
    let mut run = Run::new(driver, "").saved(spec.save.as_ref().map(PathBuf::from).as_ref(), false)?;
    driver.print(&printer.banner());
    driver.call(&config, &phase, &interrupt, "udpst", &mut |event| {
        run.save(event);
        run.on_event(event);
        driver.print(&printer.on_event(event).0);
        if printer.is_short() {
            interrupt.ask();
        }
    })?;
    let (text, code) = printer.finish();
    driver.print(&text);
    run.save(&Event::End { status: run.status, reason: run.reason.clone() });
    run.finish();
    Ok(code)
}

fn server(spec: &Spec, driver: &Driver) -> Result<u8, Refusal> {
    let any: Vec<IpAddr> = match (spec.v4, spec.v6) {
        (true, false) => vec![IpAddr::from([0; 4])],
        _ => vec![IpAddr::from([0_u16; 8])],
    };
    let mut listen: Vec<SocketAddr> = any.into_iter().map(|ip| SocketAddr::new(ip, spec.port)).collect();
    if let Some(host) = spec.hosts.first() {
        listen =
            driver.first(host, spec.port, spec.v4, spec.v6)?.into_iter().map(|peer| peer.address).collect();
    }
    let mut phase = phase(spec);
    // A server has no connections of its own.
    phase.capacity = Some(spec.settings.test);
    phase.extra = Some(Extra::new(crate::NAME, &spec.settings));
    let mut printer = Printer::new(spec, driver.version, Vec::new());
    let bound = driver.bind(ServerConfig {
        listen,
        keys: keys(spec)?,
        arrivals: true,
        exit_after: spec.once.then_some(1),
        ..driver.server(&PROTOCOL, phase.clone())?
    })?;
    if spec.daemon {
        let failed = |error| Refusal::Failed(format!("it stays in the foreground: {error}"));
        (driver.to_background)().map_err(failed)?;
    }
    let interrupt = (driver.on_signals)()?;
    driver.print(&printer.banner());
    if spec.verbose {
        for at in &bound.addresses {
            driver.print(&format!("[1]Awaiting setup requests on {at}\n"));
        }
    }
    let mut run = Run::new(driver, "udpst:").saved(spec.save.as_ref().map(PathBuf::from).as_ref(), true)?;
    bound.serve(&phase, &interrupt, &mut |event| {
        run.save(event);
        run.on_event(event);
        driver.print(&printer.on_event(event).0);
    })?;
    run.save(&Event::End { status: run.status, reason: run.reason.clone() });
    run.finish();
    Ok(printer.finish().1)
}
