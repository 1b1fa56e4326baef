//! Settings of a control thread.

use crate::group::HostMeter;
use std::sync::Arc;
use transport::admission::Admission;
use transport::{Allowance, Clients, Platform, SocketSettings};

/// Kills the worker process at a place, counted from 0.
pub type KillProcess = Arc<dyn Fn(usize) + Send + Sync>;

/// The threads of a session and the sockets that they begin with.
pub struct Setup<P: Platform> {
    pub workers: u16,
    /// Sets of workers, each on the same cores.
    pub sets: u16,
    /// The core of each worker of a set; where there is none, the scheduler decides.
    pub cores: Vec<Option<usize>>,
    /// Cores that a group can share with the workers of a server on this host, in the order of
    /// these.
    pub shared_cores: Vec<usize>,
    /// Listeners of each worker; empty for clients.
    pub listeners: Vec<Vec<P::Listener>>,
    /// Bound UDP sockets of each worker.
    pub datagrams: Vec<Vec<P::Udp>>,
    /// Places for peers that reach them; `None` sets no bound.
    pub admission: Option<Admission>,
    /// Options of sockets that belong to no group yet: the interface, and what accepted ones have
    /// from their listener.
    pub inherited: SocketSettings,
    /// Longest send and receive of a worker, bytes.
    pub buffer: usize,
    /// True if workers run before all ordinary threads.
    pub realtime: bool,
    /// Interval of workers' reports of open connections, ns; `None` is never.
    pub links: Option<u64>,
    /// Measures the host while a group runs.
    pub meter: Option<HostMeter>,
    /// Connections to worker processes, whose workers are numbered after the workers of this
    /// process.
    pub processes: Vec<P::Stream>,
    /// Kills the worker process at this place, which is stopped or stuck.
    pub kill_process: Option<KillProcess>,
    /// Workers of each of them.
    pub workers_of_process: u16,
    /// The allowance of all connections and flows that are opened.
    pub allowance: Option<Arc<Allowance>>,
    /// Of a server whose clients are limited.
    pub clients: Option<Arc<Clients>>,
}

impl<P: Platform> Setup<P> {
    /// One set of workers, wherever the scheduler runs them, without sockets.
    pub fn new(workers: u16, buffer: usize) -> Self {
        Setup {
            workers,
            sets: 1,
            cores: Vec::new(),
            shared_cores: Vec::new(),
            listeners: Vec::new(),
            datagrams: Vec::new(),
            admission: None,
            inherited: SocketSettings::default(),
            buffer,
            realtime: false,
            links: None,
            meter: None,
            processes: Vec::new(),
            kill_process: None,
            workers_of_process: 0,
            allowance: None,
            clients: None,
        }
    }
}
