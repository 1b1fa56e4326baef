//! `netcaliper rttcpip`: RtTcpipClient and RtTcpipServer.

use super::{CLIENT, Client, Printer, SERVER, Server, read_client, read_server};
use common::config::StopServers;
use common::original::{Bound, Driver, ExitCodes, NO_EFFECT, Refusal, Run};
use common::{ClientConfig, Limits, Peer, ProtocolOptions, ServerConfig};
use compat::Request;
use model::{Address, Event, Status};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use transport::Interrupt;

/// The command line cannot be; messages are missing or damaged, or nothing could be measured.
const CODES: ExitCodes = ExitCodes { usage: 2, failed: 1 };

/// Runs the client; `server` as its first argument makes it the server.
pub(super) fn run(arguments: &[String], driver: &Driver) -> u8 {
    match arguments.split_first() {
        Some((first, rest)) if first == "server" => serve(rest, driver),
        _ => call(arguments, driver),
    }
}

/// Runs the request, or prints the usage.
fn start<T>(
    driver: &Driver,
    name: &str,
    request: Result<Request<T>, String>,
    usage: &str,
    run: impl FnOnce(T) -> Result<u8, Refusal>,
) -> u8 {
    let done = match request {
        Ok(Request::Run(options)) => run(options),
        // Help that was asked for is no mistake.
        Ok(_) => driver.page(usage, 0),
        Err(text) => Err(Refusal::Usage(text)),
    };
    driver.ended(name, CODES, done)
}

pub(super) fn call(arguments: &[String], driver: &Driver) -> u8 {
    start(driver, "RtTcpipClient", read_client(arguments), CLIENT, |client| measure_with(client, driver))
}

fn measure_with(client: Client, driver: &Driver) -> Result<u8, Refusal> {
    let config = ClientConfig {
        peers: vec![Peer::new(client.server().to_string(), target(&client, driver)?)],
        sources: client.local.iter().map(|at| driver.source(at)).collect::<Result<_, _>>()?,
        source_option: "a",
        ..driver.client(&crate::PROTOCOL)
    };
    if client.kill {
        return Ok(kill(&config, client.kill_port, driver));
    }
    let phase = client.phase();
    (driver.check)(&config, &phase)?;
    let interrupt = (driver.on_signals)()?;
    let (mut printer, mut run) = (Printer::new(client), Run::new(driver, ""));
    driver.call(&config, &phase, &interrupt, "rttcpip", &mut |event| {
        run.on_event(event);
        driver.print(&printer.on_event(event));
    })?;
    let (status, reason) = (run.status, run.reason.clone());
    run.finish();
    match status {
        Status::Interrupted => Ok(130),
        Status::Complete => Ok(if printer.failures() == 0 { 0 } else { CODES.failed }),
        _ => Err(Refusal::Failed(reason.unwrap_or_else(|| "nothing was measured".to_owned()))),
    }
}

/// The server's address, whose interface may stand in `o=`, too.
fn target(client: &Client, driver: &Driver) -> Result<SocketAddr, Refusal> {
    let at = client.address.clone().unwrap_or_else(|| client.server().into());
    let zone = at.zone.clone().or_else(|| client.scope.clone().filter(|_| at.ip.is_ipv6()));
    driver.place(&Address { zone, ..at }, client.port)
}

/// Asks the server to end: ours can be asked at a port of its own, the original's kill message is
/// not known. The exit code.
fn kill(config: &ClientConfig, port: Option<u16>, driver: &Driver) -> u8 {
    let Some(server) = config.peers.first().map(|peer| peer.address) else { return CODES.failed };
    let doors = doors(server, port, driver);
    if doors.iter().any(|door| ends(config, *door, driver)) {
        return 0;
    }
    let asked: Vec<String> = doors.iter().map(ToString::to_string).collect();
    driver.say(format_args!(
        "RtTcpipClient: k: no netcaliper server that answers this echo can be asked to end at {}, and the message by which \
         the original's server is ended is proprietary: it keeps running",
        asked.join(" or ")
    ));
    CODES.failed
}

/// Addresses at which a server of ours may be asked to end, the likeliest first: the named port, or
/// for a server on this host the port after its own, or that of `netcaliper serve`.
fn doors(server: SocketAddr, port: Option<u16>, driver: &Driver) -> Vec<SocketAddr> {
    let here = (driver.is_ours)(server.ip());
    let native = driver.own_protocol.port();
    let ports = match port {
        Some(port) => vec![port],
        None => port_after(server.port()).filter(|_| here).into_iter().chain([native]).collect(),
    };
    let mut doors = Vec::new();
    for port in ports {
        doors.extend(Some(SocketAddr::new(loopback(server), port)).filter(|_| here));
        let mut door = server;
        door.set_port(port);
        doors.push(door);
    }
    doors.dedup();
    doors
}

/// This host's loopback address of the server's family.
fn loopback(server: SocketAddr) -> IpAddr {
    if server.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// Name of a server's end of this echo.
fn service(port: u16) -> String {
    format!("{}:{port}", crate::PROTOCOL.info.name)
}

/// The port after `port`.
fn port_after(port: u16) -> Option<u16> {
    port.checked_add(1)
}

/// Asks the server at this address to end; false when none answers.
fn ends(config: &ClientConfig, door: SocketAddr, driver: &Driver) -> bool {
    let only = config.peers.first().map(|echo| service(echo.address.port()));
    let config = ClientConfig {
        protocol: driver.own_protocol,
        peers: vec![Peer::new(door.to_string(), door)],
        sources: Vec::new(),
        options: ProtocolOptions::new(StopServers { only }),
        ..config.clone()
    };
    let mut ended = false;
    let asked = (driver.run)(&config, &StopServers::phase(), &Interrupt::new(), &mut |event| {
        ended |= matches!(event, Event::PhaseEnd { status: Status::Complete, .. });
    });
    asked.is_ok() && ended
}

pub(super) fn serve(arguments: &[String], driver: &Driver) -> u8 {
    start(driver, "RtTcpipServer", read_server(arguments), SERVER, |server| echo(&server, driver))
}

fn echo(server: &Server, driver: &Driver) -> Result<u8, Refusal> {
    driver.warn("RtTcpipServer", NO_EFFECT, &server.ignored);
    let any = if server.v4 { IpAddr::from([0u8; 4]) } else { IpAddr::from([0u16; 8]) };
    let phase = server.phase();
    let bound = driver.bind(ServerConfig {
        listen: vec![driver.place(&server.address.clone().unwrap_or_else(|| any.into()), server.port)?],
        workers: server.single.then_some(1),
        ..driver.server(&crate::PROTOCOL, phase.clone())?
    })?;
    let interrupt = (driver.on_signals)()?;
    let mut run = Run::new(driver, "RtTcpipServer:");
    let what = if server.udp { "TCP and UDP" } else { "TCP" };
    for address in &bound.addresses {
        driver.print(&format!("*** RtTcpIpServer: echo on {address} ({what}) ***\n"));
    }
    let door = bound.addresses.first().and_then(|address| door(*address, server.kill_port, driver));
    let closed = Interrupt::new();
    std::thread::scope(|scope| {
        if let Some(door) = door {
            let (interrupt, closed) = (interrupt.clone(), closed.clone());
            scope.spawn(move || {
                // Peers here may only ask for the end; and what ends otherwise ends this server,
                // too.
                let _ = (door.run)(&closed, &mut |_| {});
                interrupt.ask();
            });
        }
        let ran = bound.serve(&phase, &interrupt, &mut |event| {
            run.on_event(event);
            print_event(driver, event);
        });
        closed.ask();
        ran
    })?;
    run.finish();
    Ok(0)
}

/// The socket for requests to end this server, from this host only; a warning where its port is
/// taken.
fn door(server: SocketAddr, port: Option<u16>, driver: &Driver) -> Option<Bound> {
    let port = port.or_else(|| port_after(server.port()))?;
    // A client asks over the family that it measures over.
    let both = server.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let hosts = both.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)).into_iter().chain([loopback(server)]);
    let config = ServerConfig {
        listen: hosts.map(|host| SocketAddr::new(host, port)).collect(),
        limits: Limits { connections: 0, ..Limits::default() },
        workers: Some(1),
        version: driver.version.to_owned(),
        besides: vec![service(server.port())],
        ..ServerConfig::new(driver.own_protocol)
    };
    match driver.bind(config) {
        Ok(door) => {
            let ports: BTreeSet<u16> = door.addresses.iter().map(SocketAddr::port).collect();
            for port in ports {
                driver.print(&format!("*** RtTcpIpServer: k={port} from this host ends it ***\n"));
            }
            Some(door)
        }
        Err(Refusal::Usage(error) | Refusal::Failed(error) | Refusal::Interrupted(error)) => {
            driver.say(format_args!("RtTcpipServer: warning: no k will end this server: {error}"));
            None
        }
    }
}

/// Prints the events of a server's life that a person should see.
fn print_event(driver: &Driver, event: &Event) {
    match event {
        Event::Connection(record) => {
            if let Some(error) = &record.error {
                driver.say(format_args!("RtTcpipServer: {}: {error}", record.remote));
            }
        }
        Event::Local(totals) => driver.print(&format!(
            "*** {} connections, {} bytes echoed ***\n",
            totals.opened, totals.traffic.tx_bytes
        )),
        _ => {}
    }
}
