//! A server, from addresses to its end.

use crate::host::ThisHost;
use crate::processes::{self, WorkerSettings};
use crate::session::{self, now};
use crate::{EngineError, Interrupt};
use common::protocol::{Serving, Workers};
use common::{Limits, ServerConfig, pending};
use engine::Setup;
use io::thread::{CAN_PIN, available};
use io::{Listener, Udp};
use model::{Begin, Event, Level, at_port};
use std::net::SocketAddr;
use transport::SocketSettings;
use transport::admission::Admission;
use uuid::Uuid;

/// Receive buffer of a bound UDP socket, bytes, where the system lets us have it: thousands of
/// peers may send to it at once.
const CROWD: u64 = 4 << 20;

/// A server that has its ports and has not begun.
///
/// ```no_run
/// use model::{Event, Pattern, Phase};
/// use runtime::{Bound, Interrupt};
/// use common::{Protocol, ServerConfig};
///
/// # fn serve(protocol: &'static dyn Protocol) {
/// let phase = Phase { pattern: Pattern::Pull, transfer: 1 << 30, duration_ns: None, ..Phase::default() };
/// let config = ServerConfig {
///     listen: vec![([0, 0, 0, 0], protocol.port()).into()],
///     exit_after: Some(10), // the original's -ServerExitLimit
///     records: true,        // an Event::Connection for each connection, not only for failed ones
///     ..ServerConfig::legacy(protocol, phase)
/// };
/// let bound = Bound::new(config).expect("the port is free");
/// println!("{:?}", bound.addresses());
/// let interrupt = Interrupt::new(); // ask() from a signal handler ends it: open connections count as stopped
/// bound.run(&interrupt, &mut |event: Event| println!("{event:?}")).expect("it ran");
/// # }
/// ```
pub struct Bound {
    config: ServerConfig,
    listeners: Vec<Vec<Listener>>,
    datagrams: Vec<Vec<Udp>>,
    addresses: Vec<SocketAddr>,
    workers: u16,
    sockets: SocketSettings,
}

/// Places for the peers of other protocols' servers beside a native one, each with as many workers
/// or with one for each core.
pub fn admission_beside(servers: usize, workers: Option<u16>) -> Admission {
    let workers = workers.map_or_else(|| available().len(), usize::from);
    pending::admission_beside(Limits::default().pending, servers, workers, &ThisHost)
}

/// Places for peers without a proof at a port where the server sends first.
pub fn most_sent_to() -> usize {
    pending::most_sent_to(&ThisHost)
}

/// Number of ports chosen by the system that are tried.
const TRIES: usize = 16;

impl Bound {
    /// Takes the ports.
    ///
    /// # Errors
    /// When one of them cannot be had, or a setting cannot work here.
    pub fn new(config: ServerConfig) -> Result<Self, EngineError> {
        for _ in 0..TRIES {
            match Bound::try_new(config.clone()) {
                // A port that the system chose for one protocol may be taken for the other.
                Err(EngineError::Socket { at, fault }) if at.port() == 0 && fault.errno == io::IN_USE => {}
                bound => return bound,
            }
        }
        Bound::try_new(config)
    }

    fn try_new(mut config: ServerConfig) -> Result<Self, EngineError> {
        let usable = available();
        config.placement = session::placed(&config.placement, CAN_PIN)?;
        config.placement.check(&usable).map_err(EngineError::Setting)?;
        config.clients = config.clients();
        // Raises the limit of descriptors of this process and its children.
        processes::processes_for(1);
        let workers = match config.protocol.info().workers {
            Workers::OneServing => 1,
            usual => config.workers.unwrap_or_else(|| usual.on(usable.len())).max(1),
        };
        let listening = config.protocol.listening(&config).map_err(EngineError::Setting)?;
        // A bound UDP socket receives single datagrams.
        let sockets = SocketSettings { gro: false, device: config.device.clone(), ..listening.sockets };
        let (mut listeners, mut addresses, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
        listeners.resize_with(usize::from(workers), Vec::new);
        datagrams.resize_with(usize::from(workers), Vec::new);
        for (&at, ports) in config.listen.iter().zip(&listening.ports) {
            let trouble = |fault| EngineError::Socket { at, fault };
            // A port that others share would split connections between them and us, so it must be
            // free before we share it among our own workers.
            let at = if ports.connections {
                Listener::bind(at, false, &sockets).and_then(|alone| alone.local()).map_err(trouble)?
            } else {
                Udp::bind(at, false, &sockets).and_then(|alone| alone.local()).map_err(trouble)?
            };
            addresses.push(at);
            let sharing = match ports.connections {
                false => 0,
                true if Listener::CAN_SHARE && !listening.in_order => listeners.len(),
                true => 1,
            };
            let cores = config.placement.cores(sharing, 0, &usable);
            for (list, core) in listeners.iter_mut().take(sharing).zip(cores) {
                let listener = Listener::bind(at, Listener::CAN_SHARE, &sockets).map_err(trouble)?;
                // A connection is best greeted on the core where it arrived: short ones never leave
                // it.
                if let Some(core) = core {
                    listener.prefer_core(core);
                }
                list.push(listener);
            }
            if ports.datagrams {
                drop(Udp::bind(at, false, &sockets).map_err(trouble)?);
                let sharing = if Udp::CAN_SHARE { datagrams.len() } else { 1 };
                let bound = SocketSettings { rcvbuf: sockets.rcvbuf.max(Some(CROWD)), ..sockets.clone() };
                let cores = config.placement.cores(sharing, 0, &usable);
                for (list, core) in datagrams.iter_mut().take(sharing).zip(cores) {
                    let socket = Udp::bind(at, Udp::CAN_SHARE, &bound).map_err(trouble)?;
                    if let Some(core) = core {
                        socket.prefer_core(core);
                    }
                    list.push(socket);
                }
            }
        }
        Ok(Bound { config, listeners, datagrams, addresses, workers, sockets })
    }

    /// The same with what else ends with it ([`ServerConfig::besides`]), where that was not known
    /// before.
    #[must_use]
    pub fn with(mut self, besides: Vec<String>) -> Self {
        self.config.besides.extend(besides);
        self
    }

    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The beginning of its run, for the reporters.
    pub fn begin(&self, command: Vec<String>) -> Begin {
        let local = self.addresses.first().map(SocketAddr::ip);
        Begin {
            schema: model::SchemaName::default(),
            version: self.config.version.clone(),
            command,
            verb: "serve".to_owned(),
            protocol: self.config.protocol.name().to_owned(),
            run: Uuid::from_u64_pair(io::clock::entropy(), io::clock::entropy()),
            started: io::Clock::new().sample().wall(now()),
            targets: self.addresses.iter().map(ToString::to_string).collect(),
            host: io::host::snapshot(local),
            placement: self.config.placement.describe(),
            workers: self.workers.into(),
            limits: self.config.limits.in_effect(),
        }
    }

    /// Serves until `interrupt` fires.
    ///
    /// # Errors
    /// When the system refuses something that nothing works without.
    pub fn run(self, interrupt: &Interrupt, sink: &mut dyn FnMut(Event)) -> Result<(), EngineError> {
        let Bound { config, listeners, mut datagrams, addresses, workers, sockets } = self;
        let processes = config.processes;
        let listening = process_ports(processes.count, &addresses, &sockets)?;
        let process_ports: Vec<u16> = listening.iter().map(|(port, _)| *port).collect();
        let serving = Serving {
            config: &config,
            addresses: &addresses,
            workers,
            host: &ThisHost,
            process_ports: &process_ports,
        };
        let started = config.protocol.server(&serving).map_err(EngineError::Setting)?;
        let is_native = config.protocol.info().legacy.is_none();
        let own = || pending::admission(config.limits.pending, is_native, &ThisHost);
        let admission = config.admission.clone().unwrap_or_else(own);
        let all = usize::from(processes.count) * usize::from(processes.workers);
        let cores = config.placement.cores(all, 0, &available());
        let settings = WorkerSettings {
            workers: processes.workers,
            cores: cores.into_iter().flatten().collect(),
            buffer: started.buffer,
            device: config.device.clone(),
            pending: config.limits.pending,
            ..WorkerSettings::default()
        };
        let of = |(process, (_, listen)): (u16, &ProcessPort)| {
            let listen = listen.iter().filter_map(|listener| listener.local().ok()).collect();
            WorkerSettings { listen, ..settings.nth(process) }
        };
        let settings: Vec<_> = (0..).zip(&listening).map(of).collect();
        let (streams, children) = processes::start(config.protocol, &settings, interrupt)?;
        drop(listening);
        if let (Some(first), Some(last)) = (process_ports.iter().min(), process_ports.iter().max()) {
            let text = format!(
                "{} worker processes take the connections of tcp and connect, at ports of their own from {first} to {last}",
                process_ports.len()
            );
            sink(Event::Notice { level: Level::Info, text });
        }
        // The last set of workers reads the bound UDP sockets.
        let others = usize::from(workers) * usize::from(started.sets - 1);
        datagrams.splice(0..0, std::iter::repeat_with(Vec::new).take(others));
        let setup = Setup {
            listeners,
            datagrams,
            admission: Some(admission),
            inherited: sockets,
            links: config.links_ns,
            clients: config.clients.clone(),
            sets: started.sets,
            processes: streams,
            kill_process: children.killer(),
            workers_of_process: processes.workers,
            ..session::setup(&config.placement, workers, 0, started.buffer)
        };
        let ran = session::run(started.session, setup, interrupt, sink);
        children.finish();
        ran
    }
}

/// A port, and what keeps it at each address until the worker process that has it listens there,
/// too.
type ProcessPort = (u16, Vec<Listener>);

/// A port for each of `count` worker processes, the same at all addresses.
fn process_ports(
    count: u16,
    addresses: &[SocketAddr],
    sockets: &SocketSettings,
) -> Result<Vec<ProcessPort>, EngineError> {
    let mut places: Vec<SocketAddr> = Vec::new();
    for at in addresses.iter().map(|at| at_port(*at, 0)) {
        if !places.contains(&at) {
            places.push(at);
        }
    }
    let try_one = || -> Result<ProcessPort, EngineError> {
        let (mut port, mut kept) = (0, Vec::new());
        for place in &places {
            let at = at_port(*place, port);
            let failed = |fault| EngineError::Socket { at, fault };
            let listener = Listener::bind(at, true, sockets).map_err(failed)?;
            port = listener.local().map_err(failed)?.port();
            kept.push(listener);
        }
        Ok((port, kept))
    };
    let one = |_| (1..TRIES).find_map(|_| try_one().ok()).map_or_else(try_one, Ok);
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;
    use common::one_sided::{KEEPALIVE, OneSidedProtocol, UNSENT};
    use common::protocol::Info;
    use metrics::SECOND;
    use model::{Kind, Phase, Ping};
    use std::net::Ipv4Addr;

    static SILENT: OneSidedProtocol = OneSidedProtocol {
        info: Info::new("silent", 0),
        carries: |_| Ok(()),
        connectors: |_, _| Vec::new(),
        acceptors: |_, _| Vec::new(),
    };

    fn without_conversation() -> ServerConfig {
        let ping = Some(Ping::default());
        let phase = Phase { kind: Kind::Ping, ping, duration_ns: None, ..Phase::default() };
        let listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
        ServerConfig { listen, ..ServerConfig::legacy(&SILENT, phase) }
    }

    #[test]
    fn a_server_without_a_conversation_has_the_kernel_ask_for_its_peers() {
        let config = without_conversation();
        let asked = |keepalive_ns| {
            let mut config = config.clone();
            config.phase.iter_mut().for_each(|phase| phase.sockets.keepalive_ns = keepalive_ns);
            Bound::new(config).unwrap().sockets.keepalive_ns
        };
        assert_eq!(asked(None), Some(KEEPALIVE));
        assert_eq!(asked(Some(SECOND)), Some(SECOND));
    }

    #[test]
    fn a_client_that_does_not_read_holds_no_whole_send_buffer() {
        assert_eq!(Bound::new(without_conversation()).unwrap().sockets.unsent, Some(UNSENT));
    }
}
