//! A client's phase, from names to results.

use crate::host::{self, ThisHost};
use crate::processes::{self, WorkerSettings};
use crate::session;
use crate::{EngineError, Interrupt, machine};
use common::Peer;
use common::protocol::{Calling, Hello};
use common::round_robin::local_address;
use common::{ClientConfig, Placement};
use engine::Setup;
use io::resolve::{Family, resolve};
use io::thread::{CAN_PIN, available};
use metrics::{Clamped, SECOND};
use model::{Begin, Event, Kind, Level, Phase, Transport};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use transport::{Address, SocketSettings, is_link_local, scope_of, with_scope};
use uuid::Uuid;

/// A fresh identifier for a run.
pub fn run_id() -> Uuid {
    transport::Rng::new(io::clock::entropy()).uuid()
}

/// Period of looks for a request to end during a lookup.
const LOOK: Duration = Duration::from_millis(20);

/// Looks a host's addresses up. The system's lookup of a name cannot be cut short: a thread waits
/// for it, and is left behind after a request to end.
fn look_up(
    host: &str,
    port: u16,
    family: Family,
    interrupt: &Interrupt,
) -> Result<Vec<SocketAddr>, EngineError> {
    if host.parse::<IpAddr>().is_ok() {
        return resolve(host, port, family).map_err(EngineError::Resolve);
    }
    let (answer, answered) = channel();
    let name = host.to_owned();
    let waiting = move || drop(answer.send(resolve(&name, port, family)));
    let thread = thread::Builder::new().name("lookup".to_owned()).spawn(waiting);
    thread.map_err(|source| EngineError::System { what: "cannot start a thread", source })?;
    loop {
        match answered.recv_timeout(LOOK) {
            Ok(found) => return found.map_err(EngineError::Resolve),
            Err(RecvTimeoutError::Timeout) if !interrupt.is_requested() => {}
            Err(RecvTimeoutError::Timeout) => {
                let text = format!("interrupted while the name '{host}' was looked up");
                return Err(EngineError::Interrupted(text));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(EngineError::Resolve(format!("the lookup of '{host}' failed")));
            }
        }
    }
}

/// The servers `targets` (`name`, `name:port`, `[::1]:port`): one address of each is used, the
/// name's others are its fallback. A target with the address in use of another is that server.
///
/// # Errors
/// One sentence naming the first target that cannot be resolved, or whose lookup was interrupted.
pub fn resolve_targets(
    targets: &[String],
    port: u16,
    (v4, v6): (bool, bool),
    interrupt: &Interrupt,
) -> Result<Vec<Peer>, EngineError> {
    let family = match (v4, v6) {
        (true, false) => Family::V4,
        (false, true) => Family::V6,
        _ => Family::Any,
    };
    let mut peers: Vec<Peer> = Vec::new();
    for target in targets {
        let (host, port) = split_port(target, port).map_err(EngineError::Setting)?;
        let mut addresses = look_up(host, port, family, interrupt)?.into_iter();
        if let Some(address) = addresses.next()
            && !peers.iter().any(|p| p.address == address)
        {
            peers.push(Peer { name: target.clone(), address, others: addresses.collect() });
        }
    }
    Ok(peers)
}

/// `host:port` and `[v6]:port` apart; a bare IPv6 address has no port.
fn split_port(target: &str, default: u16) -> Result<(&str, u16), String> {
    // Resolvers read a number as an IPv4 address.
    if !target.is_empty() && target.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(format!("'{target}' is no host: a port is `-p {target}`, or HOST:{target}"));
    }
    let split = target.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let Some((host, port)) = split else {
        if target.starts_with('[') && !target.ends_with(']') {
            return Err(format!(
                "'{target}' lacks its ']': an IPv6 address with a port is written [ADDRESS]:PORT"
            ));
        }
        // A port of five digits cannot belong to an address, as one of four can.
        if target.parse::<Ipv6Addr>().is_err()
            && let Some((host, port)) = target.rsplit_once(':')
            && let (Some(host), Ok(port)) = (Address::parse(host), port.parse::<u16>())
        {
            return Err(format!(
                "'{target}' lacks brackets: an IPv6 address with a port is written [{host}]:{port}"
            ));
        }
        return Ok((target, default));
    };
    match port.parse() {
        Ok(port @ 1..) => Ok((host, port)),
        _ => Err(format!("'{port}' in '{target}' is not a port (1 to 65535)")),
    }
}

/// The beginning of a client's run, for the reporters.
pub fn begin(config: &ClientConfig, verb: &str, command: Vec<String>, phase: &Phase) -> Begin {
    let local =
        config.sources.first().map(SocketAddr::ip).or_else(|| host::local_for(config.peers.first()?.address));
    let mut targets: Vec<String> = Vec::new();
    for peer in &config.peers {
        if !targets.contains(&peer.name) {
            targets.push(peer.name.clone());
        }
    }
    Begin {
        limits: None,
        schema: model::SchemaName::default(),
        version: config.version.clone(),
        command,
        verb: verb.to_owned(),
        protocol: config.protocol.name().to_owned(),
        run: config.run,
        started: machine::wall_now(),
        targets,
        host: io::host::snapshot(local),
        placement: session::placed(&config.placement, CAN_PIN)
            .as_ref()
            .unwrap_or(&config.placement)
            .describe(),
        workers: config.workers_for(phase, available().len()).into(),
    }
}

/// Checks that `phase` can be run from here: its values, cores, socket options, open files.
///
/// # Errors
/// The first that cannot be, in one sentence.
pub fn check(config: &ClientConfig, phase: &Phase) -> Result<(), EngineError> {
    phase.check().map_err(EngineError::Setting)?;
    config.protocol.check(phase).map_err(EngineError::Setting)?;
    if !config.protocol.info().keyed && !config.keys.is_empty() {
        let text =
            format!("the protocol {} knows no pre-shared key: nothing would be proved", config.protocol);
        return Err(EngineError::Setting(text));
    }
    let placement = session::placed(&config.placement, CAN_PIN)?;
    placement.check(&available()).map_err(EngineError::Setting)?;
    check_sources(config)?;
    check_ports(config, phase)?;
    check_sockets(config, phase)?;
    processes::of_client(config, phase, available().len()).map(drop)
}

/// Every target needs a local address of its family, if any are given, and this host has to have
/// each.
fn check_sources(config: &ClientConfig) -> Result<(), EngineError> {
    for source in &config.sources {
        let ip = source.ip();
        // Without an interface of its own a link-local address has the target's.
        let scope = config.peers.iter().map(|peer| scope_of(peer.address)).find(|scope| *scope != 0);
        let at = match (scope_of(*source), scope) {
            (0, Some(scope)) if is_link_local(ip) => with_scope(ip, 0, scope),
            _ => *source,
        };
        let option = config.source_option;
        io::resolve::check_scope(at).map_err(|why| EngineError::Setting(format!("{option}: {why}")))?;
        // Other errors concern the peer, not the source address.
        if let Err(error) = UdpSocket::bind(at)
            && error.kind() == std::io::ErrorKind::AddrNotAvailable
        {
            let text = format!("{option} {ip}: this host has no such address ({error})");
            return Err(EngineError::Setting(text));
        }
    }
    let fits = |peer: &Peer| config.sources.iter().any(|s| s.is_ipv4() == peer.address.is_ipv4());
    match config.peers.iter().find(|peer| !config.sources.is_empty() && !fits(peer)) {
        Some(peer) => Err(EngineError::Setting(format!(
            "no local address given with {} is of the family of {}: give one, or choose the family with -4 or -6",
            config.source_option, peer.address
        ))),
        None => Ok(()),
    }
}

/// At least one of the local ports has to be free: else each connection fails, for a reason that
/// does not name the option.
fn check_ports(config: &ClientConfig, phase: &Phase) -> Result<(), EngineError> {
    let Some((first, last)) = config.ports else { return Ok(()) };
    let Some(peer) = config.peers.first() else { return Ok(()) };
    let is_tcp = match phase.kind {
        Kind::Tcp | Kind::Connect => true,
        Kind::Ping => phase.ping.is_some_and(|ping| ping.transport == Transport::Tcp),
        Kind::Stream | Kind::Delay | Kind::Train | Kind::Capacity => false,
    };
    let bind = |port| {
        let at = local_address(&config.sources, 0, Some(port), peer.address)?;
        if is_tcp {
            let fault = io::tcp::Stream::try_local(at).err()?;
            return Some(std::io::Error::from_raw_os_error(fault.errno));
        }
        UdpSocket::bind(at).map(drop).err()
    };
    let mut ports = first..=last;
    let taken = ports.try_fold(None, |_, port| bind(port).map(Some));
    match taken.flatten() {
        Some(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let (which, range) = match first == last {
                true => ("this local port is in use", first.to_string()),
                false => ("all of these local ports are in use", format!("{first}-{last}")),
            };
            let option = config.port_option;
            Err(EngineError::Resolve(format!("{option} {range}: {which} ({error})")))
        }
        _ => Ok(()),
    }
}

/// Runs one phase against all peers; everything that happens goes to `sink`.
///
/// # Errors
/// When the phase cannot even begin. A phase that fails later says so in its events.
pub fn run(
    config: &ClientConfig,
    phase: &Phase,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<(), EngineError> {
    check(config, phase)?;
    let cores = u128::clamped(available().len());
    let placement = session::placed(&config.placement, CAN_PIN)?;
    let first_worker = match &placement {
        // So that a server on this host knows which core is ours.
        Placement::Cores(cores) => cores.first().map_or(0, |core| u32::clamped(*core)),
        // Any number will do, as long as runs differ in it, and the parts of a run that go on
        // beside each other.
        _ => u32::clamped(config.run.as_u128().wrapping_add(phase.kind as u128) % cores.max(1)),
    };
    let phase = &Phase { first_worker, ..phase.clone() };
    let (spread, told) = processes::of_client(config, phase, available().len())?;
    let config = &ClientConfig { processes: spread, placement, ..config.clone() };
    let calling = Calling { config, phase, host: &ThisHost };
    let started = config.protocol.client(&calling).map_err(EngineError::Setting)?;
    let cores = config.placement.cores(
        usize::from(spread.count) * usize::from(spread.workers),
        usize::clamped(first_worker),
        &available(),
    );
    let settings = WorkerSettings {
        workers: spread.workers,
        cores: cores.into_iter().flatten().collect(),
        buffer: started.buffer,
        device: config.device.clone(),
        realtime: config.realtime,
        at_most: config.at_most.map(|rate| (rate / u64::from(spread.count.max(1))).max(8)),
        ..WorkerSettings::default()
    };
    let settings: Vec<_> = (0..spread.count).map(|process| settings.nth(process)).collect();
    let (streams, processes) = processes::start(config.protocol, &settings, interrupt)?;
    if let Some(text) = told {
        sink(Event::Notice { level: Level::Info, text });
    }
    let device = config.device.clone();
    let setup = Setup {
        inherited: SocketSettings {
            device,
            keepalive_ns: started.keepalive_ns,
            // No user asks for the bound: a system without it (Windows) goes on as before.
            mss: started.mss.filter(|_| cfg!(unix)),
            ..SocketSettings::default()
        },
        realtime: config.realtime,
        processes: streams,
        allowance: config.allowance.clone(),
        kill_process: processes.killer(),
        workers_of_process: spread.workers,
        ..session::setup(&config.placement, started.workers, usize::clamped(first_worker), started.buffer)
    };
    let probes = config.protocol.info().hello.as_ref().map(|hello| probe_all(&config.peers, hello));
    let mut with_probes = |mut event: Event| {
        if let (Event::Session(info), Some(probes)) = (&mut event, &probes) {
            let probes = probes.lock().unwrap_or_else(PoisonError::into_inner);
            info.udp_rtt_ns = probes.get(&info.address).copied();
        }
        sink(event);
    };
    let ran = session::run(started.session, setup, interrupt, &mut with_probes);
    processes.finish();
    ran
}

/// Probes every peer over UDP during the set-up of the run; nobody waits for late answers.
fn probe_all(peers: &[Peer], hello: &'static Hello) -> Arc<Mutex<BTreeMap<SocketAddr, u64>>> {
    let found = Arc::new(Mutex::new(BTreeMap::new()));
    for address in peers.iter().map(|p| p.address).take(16) {
        let found = Arc::clone(&found);
        // Without a thread there is merely no UDP reading.
        let _ = thread::Builder::new().name("hello".to_owned()).stack_size(64 * 1024).spawn(move || {
            if let Some(ns) = probe(address, hello) {
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(address, ns);
            }
        });
    }
    found
}

/// Round trip of a hello to `address`, ns; `None` when none of three is answered within 0.2 s.
pub(crate) fn probe(address: SocketAddr, hello: &Hello) -> Option<u64> {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    let clock = io::Clock::new();
    let mut buffer = [0; 2048];
    for _ in 0..3 {
        let id = Uuid::from_u64_pair(io::clock::entropy(), io::clock::entropy());
        let sent = clock.now();
        socket.send_to(&(hello.encode)(id), address).ok()?;
        let until = sent.plus(SECOND / 5);
        loop {
            let left = until.since(clock.now());
            if left == 0 {
                break;
            }
            socket.set_read_timeout(Some(Duration::from_nanos(left))).ok()?;
            // An error is no answer yet: a timeout, or the ICMP error of an earlier datagram.
            if let Ok((n, from)) = socket.recv_from(&mut buffer)
                && (from.ip(), from.port()) == (address.ip(), address.port())
                && (hello.is_answer)(&buffer[..n], id)
            {
                return Some(clock.now().since(sent));
            }
        }
    }
    None
}

/// Tries the socket options before anything is opened, so that an error can name the refused one.
fn check_sockets(config: &ClientConfig, phase: &Phase) -> Result<(), EngineError> {
    let Some(peer) = config.peers.first() else {
        return Err(EngineError::Setting("no target was given".to_owned()));
    };
    let settings = SocketSettings { device: config.device.clone(), ..phase.sockets.clone() };
    io::tcp::check(&settings, peer.address)
        .map_err(|refusal| EngineError::Setting(refused(&settings, peer.address, &refusal)))
}

/// Why an option is refused, and what would be accepted.
fn refused(settings: &SocketSettings, to: SocketAddr, refusal: &io::tcp::Refusal) -> String {
    let error = std::io::Error::from_raw_os_error(refusal.errno);
    match refusal.option {
        "congestion" => {
            let known = io::host::congestion_controls();
            let name = settings.congestion.as_deref().unwrap_or_default();
            format!(
                "the system does not offer the congestion control '{name}' ({error}); it offers {}",
                known.join(", ")
            )
        }
        "mss" => format!(
            "the system refuses a largest segment of {} bytes ({error}); Linux takes 88 to 32767",
            settings.mss.unwrap_or_default()
        ),
        "flow_label" if to.is_ipv4() => format!("{to} is an IPv4 address, and only IPv6 has flow labels"),
        "device" => {
            let name = settings.device.as_deref().unwrap_or_default();
            format!("sockets cannot be bound to the interface '{name}': {error}")
        }
        option => format!("the system refuses the socket option {option}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_may_carry_a_port() {
        assert_eq!(split_port("host", 7411), Ok(("host", 7411)));
        assert_eq!(split_port("host:80", 7411), Ok(("host", 80)));
        assert_eq!(split_port("[::1]:80", 7411), Ok(("[::1]", 80)));
        assert_eq!(split_port("::1", 7411), Ok(("::1", 7411)));
        assert_eq!(split_port("fe80::1%eth0", 7411), Ok(("fe80::1%eth0", 7411)));
        let why = split_port("fe80::1%eth0:80", 7411).unwrap_err();
        assert!(why.ends_with("is written [fe80::1%eth0]:80"), "{why}");
        for bad in ["host:x", "host:0", "host:99999", "[::1]:0", "[::1", "[::1:80", "::1:20000"] {
            assert!(split_port(bad, 7411).is_err(), "{bad}");
        }
    }
}
