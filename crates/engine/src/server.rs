//! A server, from addresses to its end.

use crate::control::{Control, Setup, now};
use crate::interrupt::Interrupt;
use crate::place::{Placement, default_workers};
use crate::{EngineError, client, machine};
use io::{Datagrams, Listener, Settings};
use model::{Begin, Event};
use std::net::SocketAddr;
use uuid::Uuid;
use wire::native::{Fence, Limits, Psk, Server, ServerPlan};

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen; port 0 lets the kernel choose.
    pub listen: Vec<SocketAddr>,
    /// The key clients must know.
    pub psk: Option<Psk>,
    /// Who may connect.
    pub fence: Fence,
    /// What is allowed.
    pub limits: Limits,
    /// One session at a time.
    pub exclusive: bool,
    /// End after so many data connections.
    pub exit_after: Option<u64>,
    /// Length of its own intervals, ns.
    pub interval_ns: u64,
    /// Interface to bind to.
    pub device: Option<String>,
    /// Where workers run.
    pub placement: Placement,
    /// Worker threads; `None` is one per core.
    pub workers: Option<u16>,
    /// Version of this program.
    pub version: String,
    /// Whether every ended connection is told, or only those that failed.
    pub records: bool,
}

/// A worker's send and receive buffer; a client that asks for more gets it in pieces of this size.
const BUFFER: usize = 1 << 20;

/// A server that has its ports and has not begun.
pub struct Bound {
    config: ServerConfig,
    listeners: Vec<Vec<Listener>>,
    datagrams: Vec<Datagrams>,
    addresses: Vec<SocketAddr>,
    workers: u16,
}

impl Bound {
    /// Takes the ports.
    ///
    /// # Errors
    /// When one of them cannot be had, or a setting cannot work here.
    pub fn new(config: ServerConfig) -> Result<Self, EngineError> {
        config.placement.check().map_err(EngineError::Setting)?;
        client::check_descriptors(0)?;
        let workers = config.workers.unwrap_or_else(default_workers).max(1);
        let settings = Settings { device: config.device.clone(), ..Settings::default() };
        let (mut listeners, mut addresses, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
        listeners.resize_with(usize::from(workers), Vec::new);
        for &at in &config.listen {
            let trouble = |fault| EngineError::Socket { at, fault };
            // A port that others share would split connections between them and us, so it must be free before we share
            // it among our own workers.
            let alone = Listener::bind(at, false, &settings).map_err(trouble)?;
            let at = alone.local().map_err(trouble)?;
            drop(alone);
            addresses.push(at);
            let sharing = if Listener::CAN_SHARE { listeners.len() } else { 1 };
            let cores = config.placement.cores(sharing, 0);
            for (list, core) in listeners.iter_mut().zip(cores) {
                let listener = Listener::bind(at, Listener::CAN_SHARE, &settings).map_err(trouble)?;
                // A connection is best greeted on the core where it arrived: short ones never leave it.
                if let Some(core) = core {
                    listener.prefer_core(core);
                }
                list.push(listener);
            }
            datagrams.push(Datagrams::bind(at, false).map_err(trouble)?);
        }
        Ok(Bound { config, listeners, datagrams, addresses, workers })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The beginning of its run, for the reporters.
    #[must_use]
    pub fn begin(&self, command: Vec<String>) -> Begin {
        let local = self.addresses.first().map(SocketAddr::ip);
        Begin {
            version: self.config.version.clone(),
            command,
            verb: "serve".to_owned(),
            run: Uuid::from_u64_pair(io::clock::entropy(), io::clock::entropy()),
            started: io::Clock::new().sample().wall(now()),
            targets: self.addresses.iter().map(ToString::to_string).collect(),
            host: machine::snapshot(local),
            placement: self.config.placement.describe(),
            workers: self.workers.into(),
        }
    }

    /// Serves until it is told to end.
    ///
    /// # Errors
    /// When the system refuses something that nothing works without.
    pub fn run(self, interrupt: &Interrupt, sink: &mut dyn FnMut(Event)) -> Result<(), EngineError> {
        let config = self.config;
        let plan = ServerPlan {
            version: config.version,
            psk: config.psk,
            fence: config.fence,
            limits: config.limits,
            exclusive: config.exclusive,
            exit_after: config.exit_after,
            host: machine::snapshot(self.addresses.first().map(SocketAddr::ip)),
            workers: self.workers,
            placement: config.placement.describe(),
            interval_ns: config.interval_ns,
            secret: client::secret()?,
            records: config.records,
            boot: io::host::boot_id(),
        };
        let setup = Setup {
            workers: self.workers,
            placement: config.placement,
            first: 0,
            listeners: self.listeners,
            datagrams: self.datagrams,
            device: config.device,
            buffer: BUFFER,
        };
        Control::new(Box::new(Server::new(plan, now())), setup, interrupt, sink)?.run()
    }
}
