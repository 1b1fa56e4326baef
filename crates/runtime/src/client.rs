//! A client's phase, from names to results.

use crate::place::{Placement, default_workers};
use crate::session::{self, now};
use crate::{EngineError, Interrupt, Iperf3Client, iperf3, machine};
use engine::Setup;
use io::resolve::{Family, resolve};
use io::{Datagrams, System};
use metrics::SECOND;
use model::{Begin, Event, Kind, Phase};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use transport::{LinkSource, StreamSettings, UdpSettings};
use uuid::Uuid;
use wire::Protocol;
use wire::native::{Client, ClientPlan, Peer, Psk};
use wire::one_sided::{Calls, LinkSources, OneSided, OneSidedPlan};

/// What a client needs besides the phase.
///
/// With [`ClientConfig::protocol`] the servers are those of another program. Nothing is agreed on with them, so they must
/// have been started with the settings of the phase, and there are no far totals: [`run`] tells our own intervals,
/// connections and totals only, and each frame of media streams where `records` is set.
#[derive(Clone, Debug, Default)]
pub struct ClientConfig {
    /// What is spoken.
    pub protocol: Protocol,
    /// The servers' addresses, with the names they came from.
    pub peers: Vec<Peer>,
    /// The key, if there is one.
    pub psk: Option<Psk>,
    /// Local addresses to use in turn.
    pub sources: Vec<IpAddr>,
    /// Local ports to use in turn, both included.
    pub ports: Option<(u16, u16)>,
    /// Interface to bind to.
    pub device: Option<String>,
    /// Where workers run.
    pub placement: Placement,
    /// Worker threads; `None` is one per core, but not more than connections.
    pub workers: Option<u16>,
    /// The run.
    pub run: Uuid,
    /// Version of this program.
    pub version: String,
    /// Whether every ended connection is told, or only those that failed.
    pub records: bool,
    /// Whether every connection is told when it has come to be; legacy protocols only.
    pub arrivals: bool,
    /// Whether our workers run before all ordinary threads, with all memory kept from being paged out; what the system
    /// refuses of that is told.
    pub realtime: bool,
    /// Whose markers frame a test over datagrams, for protocols that know several kinds.
    pub marks: wire::bulk::Marks,
    /// What an iperf3 client asks for besides.
    pub iperf3: Iperf3Client,
    /// Of servers that are asked to end, only those that answer this besides: a protocol and a port, `echo:9999`.
    pub stop_only: Option<String>,
}

/// A fresh identifier for a run.
#[must_use]
pub fn run_id() -> Uuid {
    transport::Rng::new(io::clock::entropy()).uuid()
}

/// Names that are being looked up at the moment.
static LOOKED_UP: AtomicUsize = AtomicUsize::new(0);

/// Whether the program waits for the system to look a name up, which nothing can cut short.
#[must_use]
pub fn is_resolving() -> bool {
    LOOKED_UP.load(Ordering::Relaxed) > 0
}

/// The addresses of `targets` (`name`, `name:port`, `[::1]:port`), each name with all of its addresses.
///
/// # Errors
/// One sentence naming the first target that cannot be resolved.
pub fn resolve_targets(targets: &[String], port: u16, v4: bool, v6: bool) -> Result<Vec<Peer>, EngineError> {
    let family = match (v4, v6) {
        (true, false) => Family::V4,
        (false, true) => Family::V6,
        _ => Family::Any,
    };
    let mut peers: Vec<Peer> = Vec::new();
    for target in targets {
        let (host, port) = split_port(target, port).map_err(EngineError::Setting)?;
        LOOKED_UP.fetch_add(1, Ordering::Relaxed);
        let found = resolve(host, port, family);
        LOOKED_UP.fetch_sub(1, Ordering::Relaxed);
        for address in found.map_err(EngineError::Resolve)? {
            if !peers.iter().any(|p| p.address == address) {
                peers.push(Peer { name: target.clone(), address });
            }
        }
    }
    Ok(peers)
}

/// `host:port` and `[v6]:port` apart; a bare IPv6 address has no port.
fn split_port(target: &str, default: u16) -> Result<(&str, u16), String> {
    let split = target.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let Some((host, port)) = split else {
        if target.starts_with('[') && !target.ends_with(']') {
            return Err(format!(
                "'{target}' lacks its ']': an IPv6 address with a port is written [ADDRESS]:PORT"
            ));
        }
        return Ok((target, default));
    };
    match port.parse() {
        Ok(port @ 1..) => Ok((host, port)),
        _ => Err(format!("'{port}' in '{target}' is not a port (1 to 65535)")),
    }
}

impl ClientConfig {
    /// How many workers a phase gets.
    #[must_use]
    pub fn workers_for(&self, phase: &Phase) -> u16 {
        let most = u16::try_from(phase.connections).unwrap_or(u16::MAX).max(1);
        self.workers.unwrap_or_else(|| default_workers().min(most)).max(1)
    }

    /// The beginning of a run, for the reporters.
    #[must_use]
    pub fn begin(&self, verb: &str, command: Vec<String>, phase: &Phase) -> Begin {
        let local =
            self.sources.first().copied().or_else(|| Some(local_for(self.peers.first()?.address)?.ip()));
        Begin {
            version: self.version.clone(),
            command,
            verb: verb.to_owned(),
            protocol: self.protocol.name().to_owned(),
            run: self.run,
            started: io::Clock::new().sample().wall(now()),
            targets: self.peers.iter().map(|p| p.name.clone()).fold(Vec::new(), |mut names, name| {
                if !names.contains(&name) {
                    names.push(name);
                }
                names
            }),
            host: machine::snapshot(local),
            placement: self.placement.describe(),
            workers: self.workers_for(phase).into(),
        }
    }
}

/// Our address on the way to `to`, as the routing table has it; nothing is sent.
pub(crate) fn local_for(to: SocketAddr) -> Option<SocketAddr> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok()
}

/// Whether `address` is one of this host's.
#[must_use]
pub fn is_ours(address: IpAddr) -> bool {
    local_for(SocketAddr::new(address, 9))
        .is_some_and(|local| local.ip().to_canonical() == address.to_canonical())
        || address.to_canonical().is_loopback()
}

/// Whether `phase` can be run from here at all: its values, cores, socket options, open files.
///
/// # Errors
/// The first that cannot be, in one sentence.
pub fn check(config: &ClientConfig, phase: &Phase) -> Result<(), EngineError> {
    phase.check().map_err(EngineError::Setting)?;
    config.protocol.carries(phase).map_err(EngineError::Setting)?;
    if !config.protocol.keyed() && config.psk.is_some() {
        let text =
            format!("the protocol {} knows no pre-shared key: nothing would be proved", config.protocol);
        return Err(EngineError::Setting(text));
    }
    config.placement.check().map_err(EngineError::Setting)?;
    check_sources(config)?;
    check_sockets(config, phase)?;
    check_descriptors(phase.connections)
}

/// Every target needs a local address of its family, if any are given.
fn check_sources(config: &ClientConfig) -> Result<(), EngineError> {
    let fits = |peer: &Peer| config.sources.iter().any(|s| s.is_ipv4() == peer.address.is_ipv4());
    match config.peers.iter().find(|peer| !config.sources.is_empty() && !fits(peer)) {
        Some(peer) => Err(EngineError::Setting(format!(
            "no local address given with -B is of the family of {}: give one, or choose the family with -4 or -6",
            peer.address
        ))),
        None => Ok(()),
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
    let first_worker = match &config.placement {
        // So that a server on this host knows which core is ours.
        Placement::Cores(cores) => cores.first().map_or(0, |core| *core as u32),
        // Any number will do, as long as runs differ in it, and the parts of a run that go on beside each other.
        _ => (config.run.as_u128().wrapping_add(phase.kind as u128) % u128::from(default_workers())) as u32,
    };
    let phase = &Phase { first_worker, ..phase.clone() };
    match config.protocol.link_sources() {
        None if config.protocol == Protocol::Iperf3 => iperf3::run(config, phase, interrupt, sink),
        None => converse(config, phase, false, interrupt, sink),
        Some(sources) => call(config, phase, sources, interrupt, sink),
    }
}

/// A phase against servers that agree on nothing.
fn call(
    config: &ClientConfig,
    phase: &Phase,
    sources: LinkSources,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<(), EngineError> {
    let workers = config.workers_for(phase);
    let calls = Calls {
        targets: config.peers.iter().map(|peer| peer.address).collect(),
        sources: config.sources.clone(),
        ports: config.ports,
        workers,
        // Of a single stream it costs little, and shows how evenly it came.
        frames: config.records || phase.connections == 1,
        arrivals: config.arrivals,
        key: config.psk.clone(),
        marks: config.marks,
        host: crate::texts::host(&[]),
    };
    let sources = LinkSource::connectors((sources.connectors)(phase, &calls));
    let plan = OneSidedPlan { phase: phase.clone(), sources, serving: false, records: config.records };
    let setup = client_setup(config, phase, workers);
    session::run(OneSided::new(plan, now()), setup, interrupt, sink)
}

pub(crate) fn client_setup(config: &ClientConfig, phase: &Phase, workers: u16) -> Setup<System> {
    let buffer = (phase.buffer.high as usize).max(SMALLEST_BUFFER);
    Setup {
        inherited: StreamSettings { device: config.device.clone(), ..StreamSettings::default() },
        inherited_udp: UdpSettings { device: config.device.clone(), ..UdpSettings::default() },
        realtime: config.realtime,
        ..session::setup(&config.placement, workers, phase.first_worker as usize, buffer)
    }
}

/// Asks the peers to end once their sessions are over, and waits until they do; what they say goes to `sink`.
///
/// # Errors
/// When not even the attempt can be made.
pub fn stop_servers(
    config: &ClientConfig,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<(), EngineError> {
    converse(config, &Phase { connections: 1, ..Phase::default() }, true, interrupt, sink)
}

fn converse(
    config: &ClientConfig,
    phase: &Phase,
    stop_servers: bool,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<(), EngineError> {
    let workers = config.workers_for(phase);
    let plan = ClientPlan {
        peers: config.peers.clone(),
        phase: phase.clone(),
        psk: config.psk.clone(),
        run: config.run,
        version: config.version.clone(),
        workers,
        sources: config.sources.clone(),
        ports: config.ports,
        secret: secret()?,
        records: config.records,
        stop_servers,
        stop_only: config.stop_only.clone(),
        clock_id: io::host::clock_id(),
        same_host_sndbuf: same_host_sndbuf(phase),
    };
    let setup = client_setup(config, phase, workers);
    let probes = probe_all(&config.peers);
    let mut with_probes = |mut event: Event| {
        if let Event::Session(info) = &mut event {
            let probes = probes.lock().unwrap_or_else(PoisonError::into_inner);
            info.udp_rtt_ns = probes.get(&info.address).copied();
        }
        sink(event);
    };
    session::run(Client::new(plan, now()), setup, interrupt, &mut with_probes)
}

/// Send buffer asked for when both ends are on one host, bytes.
///
/// The system lets a send buffer grow to megabytes. Within one host nothing is gained by that: the sender fills it before
/// the receiver runs, and every byte has left the caches by the time it is read; a pacing congestion control arms a timer
/// for each piece besides. Measured (`bench/README.md`): best, or close to it, with and without pacing, with one
/// connection and with many.
const SAME_HOST_SNDBUF: u64 = 96 * 1024;

/// The send buffer for a phase within one host, unless the user has chosen one or it would do harm.
fn same_host_sndbuf(phase: &Phase) -> Option<u64> {
    let sockets = &phase.sockets;
    let ours = sockets.same_host_sndbuf && sockets.sndbuf.is_none() && phase.kind == Kind::Tcp;
    ours.then_some(SAME_HOST_SNDBUF)
}

/// Asks every peer over UDP whether it is there, beside the set-up of the run; answers that come later are not waited for.
fn probe_all(peers: &[Peer]) -> Arc<Mutex<BTreeMap<SocketAddr, u64>>> {
    let found = Arc::new(Mutex::new(BTreeMap::new()));
    for address in peers.iter().map(|p| p.address).take(16) {
        let found = Arc::clone(&found);
        // Without a thread there is merely no UDP reading.
        let _ = std::thread::Builder::new().name("hello".to_owned()).stack_size(64 * 1024).spawn(move || {
            if let Some(ns) = probe(address) {
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(address, ns);
            }
        });
    }
    found
}

fn probe(address: SocketAddr) -> Option<u64> {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = Datagrams::bind(any, false).ok()?;
    let mut reactor = io::Reactor::new().ok()?;
    reactor.watch_level(&socket, 1).ok()?;
    let clock = io::Clock::new();
    let mut events = Vec::new();
    for _ in 0..3 {
        let id = Uuid::from_u64_pair(io::clock::entropy(), io::clock::entropy());
        let sent = clock.now();
        socket.send_to(&wire::native::hello(id), address).ok()?;
        let until = sent.plus(SECOND / 5);
        while clock.now() < until {
            reactor.wait(Some(until), &clock, &mut events).ok()?;
            let mut buffer = [0; 2048];
            while let Ok(Some((n, from))) = socket.recv_from(&mut buffer) {
                if from == address && wire::native::is_answer(&buffer[..n], id) {
                    return Some(clock.now().since(sent));
                }
            }
        }
    }
    None
}

pub(crate) fn secret() -> Result<[u8; 32], EngineError> {
    let draw =
        || io::clock::secret().map_err(|source| EngineError::System { what: "drawing random bytes", source });
    let mut secret = [0; 32];
    secret[..16].copy_from_slice(&draw()?);
    secret[16..].copy_from_slice(&draw()?);
    Ok(secret)
}

/// Tries the socket options before anything is opened, so that a refusal can be told by name.
fn check_sockets(config: &ClientConfig, phase: &Phase) -> Result<(), EngineError> {
    let Some(peer) = config.peers.first() else {
        return Err(EngineError::Setting("no target was given".to_owned()));
    };
    let settings = engine::settings::stream(&phase.sockets, config.device.as_deref());
    io::tcp::check(&settings, peer.address)
        .map_err(|refusal| EngineError::Setting(refused(&settings, peer.address, &refusal)))
}

/// Why an option is refused, and what would be accepted.
fn refused(settings: &StreamSettings, to: SocketAddr, refusal: &io::tcp::Refusal) -> String {
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
        "mss" => format!("the system refuses this largest segment ({error}); Linux takes 88 to 32767 bytes"),
        "flow_label" if to.is_ipv4() => format!("{to} is an IPv4 address, and only IPv6 has flow labels"),
        "device" => {
            let name = settings.device.as_deref().unwrap_or_default();
            format!("sockets cannot be bound to the interface '{name}': {error}")
        }
        option => format!("the system refuses the socket option {option}: {error}"),
    }
}

/// Shortest receive buffer of a worker, bytes: framing is read into it, too.
pub(crate) const SMALLEST_BUFFER: usize = 4096;

/// Descriptors that a process needs besides its connections.
const OTHER_DESCRIPTORS: u64 = 128;

/// Raises the limit of open files as far as it goes and checks that `connections` fit.
pub(crate) fn check_descriptors(connections: u32) -> Result<(), EngineError> {
    let Some((soft, _)) = io::host::raise_nofile() else { return Ok(()) };
    let need = u64::from(connections) + OTHER_DESCRIPTORS;
    if need > soft {
        return Err(EngineError::Setting(format!(
            "{connections} connections need {need} open files, and this process may have {soft}: raise the hard limit \
             (ulimit -Hn {need} as root, or LimitNOFILE= in the service), or use fewer connections"
        )));
    }
    Ok(())
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
        for bad in ["host:x", "host:0", "host:99999", "[::1]:0", "[::1", "[::1:80"] {
            assert!(split_port(bad, 7411).is_err(), "{bad}");
        }
    }
}
