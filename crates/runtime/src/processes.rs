//! Worker processes: how many a run needs, how they are started, and what runs in them.

use crate::EngineError;
use common::{ClientConfig, Processes, Protocol};
use io::Stream;
use metrics::Clamped;
use model::{Kind, Phase};
use std::net::SocketAddr;

/// The command that runs a worker process. Users have no use for it.
pub const WORKER_PROCESS: &str = "worker-process";

/// Descriptors that a process needs besides its connections.
pub(crate) const OTHER_DESCRIPTORS: u64 = 128;
/// Most worker processes.
const MOST: u64 = 1_024;
/// Most connections of a process that shares them with others. Each process has a port of its own,
/// and Linux finds a local port for a destination at once only while every other one of its range
/// (14,116 of 28,232) is free.
const SHARE: u64 = 14_000;

/// Number of processes with enough descriptors for `connections`. Raises the limit of this one,
/// which they inherit.
pub fn processes_for(connections: u32) -> u16 {
    let Some((soft, _)) = io::host::raise_nofile() else { return 1 };
    let (connections, most) = (u64::from(connections), soft.saturating_sub(OTHER_DESCRIPTORS).max(1));
    let each = if connections <= most { most } else { most.min(SHARE) };
    u16::clamped(connections.div_ceil(each).clamp(1, MOST))
}

/// The worker processes of a phase, and the notice for the user. None where this process has
/// descriptors enough and no others were requested.
///
/// # Errors
/// When the phase needs or requests worker processes and can have none.
pub(crate) fn of_client(
    config: &ClientConfig,
    phase: &Phase,
    cores: usize,
) -> Result<(Processes, Option<String>), EngineError> {
    let (asked, needed) = (config.processes.count, processes_for(phase.connections));
    if asked == 0 && needed <= 1 {
        return Ok((Processes::default(), None));
    }
    let spreads = config.protocol.replica().is_some() && matches!(phase.kind, Kind::Tcp | Kind::Connect);
    if !spreads || !cfg!(target_os = "linux") {
        if asked == 0 {
            return Err(too_few_descriptors(phase.connections));
        }
        let text = "--processes is for tcp and connect over the protocol native, on Linux: leave it out";
        return Err(EngineError::Setting(text.to_owned()));
    }
    let most = u16::clamped(u64::from(phase.connections));
    let count = asked.max(needed).min(most);
    let workers = config.workers_for(phase, cores).div_ceil(count).max(1);
    let told = (asked < needed).then(|| {
        format!(
            "{} connections need more open files than one process may have: {count} worker processes share them",
            phase.connections
        )
    });
    Ok((Processes { count, workers }, told))
}

fn too_few_descriptors(connections: u32) -> EngineError {
    let need = u64::from(connections) + OTHER_DESCRIPTORS;
    let soft = io::host::rlimit_nofile().map_or(0, |(soft, _)| soft);
    EngineError::Setting(format!(
        "{connections} connections need {need} open files, and this process may have {soft}: raise the hard limit \
         (ulimit -Hn {need} as root, or LimitNOFILE= in the service), or use fewer connections"
    ))
}

/// Role and settings of a worker process.
#[derive(Clone, Debug, Default)]
pub struct WorkerSettings {
    /// The zero of its clock.
    pub origin: u64,
    /// Worker threads.
    pub workers: u16,
    /// Their cores; without, the scheduler decides.
    pub cores: Vec<usize>,
    /// Send and receive buffer of a worker, bytes.
    pub buffer: usize,
    /// Interface to bind sockets to.
    pub device: Option<String>,
    /// Its workers run before all ordinary threads.
    pub realtime: bool,
    /// Most bits/s and direction of its connections.
    pub at_most: Option<u64>,
    /// Addresses to listen at; empty in a client.
    pub listen: Vec<SocketAddr>,
    /// Connections at once whose peers have proved nothing.
    pub pending: u32,
}

impl WorkerSettings {
    /// The same of the process with this number, of which each has as many workers.
    pub(crate) fn nth(&self, process: u16) -> Self {
        let (first, workers) = (usize::from(process) * usize::from(self.workers), usize::from(self.workers));
        let cores = self.cores.iter().skip(first).take(workers).copied().collect();
        WorkerSettings { cores, ..self.clone() }
    }

    #[cfg(target_os = "linux")]
    fn arguments(&self, protocol: &'static dyn Protocol) -> Vec<String> {
        let mut words = vec![WORKER_PROCESS.to_owned()];
        let mut add = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        add("protocol", protocol.name().to_owned());
        add("origin", self.origin.to_string());
        add("workers", self.workers.to_string());
        add("buffer", self.buffer.to_string());
        self.cores.iter().for_each(|core| add("core", core.to_string()));
        self.at_most.iter().for_each(|rate| add("at-most", rate.to_string()));
        self.device.iter().for_each(|name| add("device", name.clone()));
        self.listen.iter().for_each(|address| add("listen", address.to_string()));
        add("pending", self.pending.to_string());
        words.extend(self.realtime.then(|| "--realtime".to_owned()));
        words
    }
}

/// Worker processes that are ready.
#[derive(Debug, Default)]
pub(crate) struct Started {
    #[cfg(target_os = "linux")]
    children: std::sync::Arc<std::sync::Mutex<Vec<std::process::Child>>>,
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{EngineError, Protocol, Started, Stream, WorkerSettings};
    use crate::ThisHost;
    use common::pending::admission;
    use engine::{Interrupt, KillProcess, Member, Setup};
    use io::{Listener, System};
    use std::process::Child;
    use std::sync::{Arc, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};
    use transport::SocketSettings;

    /// Time that a worker process has to end once its connection is closed: it has nothing left to
    /// report.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// Starts the worker processes and waits until all are ready.
    pub(crate) fn start(
        protocol: &'static dyn Protocol,
        settings: &[WorkerSettings],
        interrupt: &Interrupt,
    ) -> Result<(Vec<Stream>, Started), EngineError> {
        let failed = |source| EngineError::System { what: "starting a worker process", source };
        let origin = io::Clock::new().origin();
        let start = |settings: &WorkerSettings| {
            io::workers::start(&WorkerSettings { origin, ..settings.clone() }.arguments(protocol))
        };
        let starting = settings.iter().map(start).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        let (mut streams, started) = (Vec::new(), Started::default());
        for process in starting {
            let (stream, child) = process.ready(&|| interrupt.is_requested()).map_err(failed)?;
            streams.push(stream);
            started.children().push(child);
        }
        Ok((streams, started))
    }

    impl Started {
        fn children(&self) -> MutexGuard<'_, Vec<Child>> {
            self.children.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Kills one that is stopped or stuck.
        pub(crate) fn killer(&self) -> Option<KillProcess> {
            let children = Started { children: Arc::clone(&self.children) };
            Some(Arc::new(move |at| {
                if let Some(child) = children.children().get_mut(at) {
                    // A process that has ended by now cannot be killed.
                    let _ = child.kill();
                }
            }))
        }

        /// Waits for the processes, which end with their connections.
        pub(crate) fn finish(self) {
            let until = Instant::now() + PATIENCE;
            self.children().iter_mut().for_each(|child| end(child, until));
        }
    }

    fn end(child: &mut Child, until: Instant) {
        loop {
            io::workers::read_again(child.id());
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            if Instant::now() >= until {
                // The process may have ended by now: nothing is left to kill.
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        io::workers::forget(child.id());
    }

    /// Is a worker process until the connection to the process that has started it ends.
    ///
    /// # Errors
    /// When something cannot be had that nothing works without.
    pub fn be_worker(protocol: &'static dyn Protocol, settings: &WorkerSettings) -> Result<(), EngineError> {
        let not_ours = || EngineError::Setting("this command is one that netcaliper runs itself".to_owned());
        let replica = protocol.replica().ok_or_else(not_ours)?;
        if !io::Clock::begin_at(settings.origin) {
            return Err(not_ours());
        }
        super::processes_for(1);
        let sockets =
            SocketSettings { gro: false, device: settings.device.clone(), ..SocketSettings::default() };
        let mut listeners = Vec::new();
        for _ in 0..settings.workers {
            let bind = |&at: &std::net::SocketAddr| {
                Listener::bind(at, true, &sockets).map_err(|fault| EngineError::Socket { at, fault })
            };
            listeners.push(settings.listen.iter().map(bind).collect::<Result<Vec<_>, _>>()?);
        }
        let setup = Setup {
            cores: settings.cores.iter().copied().map(Some).collect(),
            listeners,
            admission: Some(admission(settings.pending, true, &ThisHost)),
            inherited: sockets,
            realtime: settings.realtime,
            allowance: settings.at_most.map(common::config::own_allowance),
            ..Setup::new(settings.workers, settings.buffer)
        };
        let stream = io::workers::ready().map_err(|_| not_ours())?;
        let mut member = Member::new(&System, stream, replica, setup)?;
        io::drive(&mut member);
        member.finish();
        Ok(())
    }
}

#[cfg(target_os = "linux")]
pub use linux::be_worker;
#[cfg(target_os = "linux")]
pub(crate) use linux::start;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{EngineError, Protocol, Started, Stream, WorkerSettings};
    use engine::{Interrupt, KillProcess};

    fn unsupported() -> EngineError {
        EngineError::Setting("worker processes need Linux: leave --processes out".to_owned())
    }

    pub(crate) fn start(
        _: &'static dyn Protocol,
        settings: &[WorkerSettings],
        _: &Interrupt,
    ) -> Result<(Vec<Stream>, Started), EngineError> {
        if settings.is_empty() { Ok((Vec::new(), Started::default())) } else { Err(unsupported()) }
    }

    impl Started {
        pub(crate) fn killer(&self) -> Option<KillProcess> {
            None
        }

        pub(crate) fn finish(self) {}
    }

    /// Refuses, because this system has no worker processes.
    ///
    /// # Errors
    /// Always.
    pub fn be_worker(_: &'static dyn Protocol, _: &WorkerSettings) -> Result<(), EngineError> {
        Err(unsupported())
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::be_worker;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::start;
