//! What a ctsTraffic command line asks for, checked and complete.

use model::Phase;
use std::path::PathBuf;

/// Which end of the test this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// It connects (`-Target`).
    #[default]
    Client,
    /// It accepts (`-Listen`).
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Transport {
    /// Connections with one of the four patterns.
    #[default]
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8 without a byte order mark.
    #[default]
    Utf8,
    /// UTF-16, little-endian, with a byte order mark, as the original writes.
    Utf16,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LogFiles {
    /// `-StatusFilename`.
    pub status: Option<PathBuf>,
    /// `-ConnectionFilename`.
    pub connection: Option<PathBuf>,
    /// `-ErrorFilename`.
    pub error: Option<PathBuf>,
    /// `-JitterFilename`.
    pub jitter: Option<PathBuf>,
    /// `-TcpInfoFilename`.
    pub tcp_info: Option<PathBuf>,
    /// `-LogEncoding`.
    pub encoding: Encoding,
}

impl LogFiles {
    /// Whether any file wants to know every ended connection.
    #[must_use]
    pub fn per_connection(&self) -> bool {
        self.connection.is_some() || self.tcp_info.is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Cores {
    #[default]
    Each,
    /// The scheduler decides.
    Free,
    These(Vec<usize>),
}

/// Where sockets belong, besides addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To the interface with this number (`-IfIndex`).
    Interface(u32),
    /// To this network namespace, VRF or interface (`-Compartment`).
    Compartment(String),
}

/// A ctsTraffic command line, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    pub role: Role,
    pub transport: Transport,
    /// Names and addresses to connect to.
    pub targets: Vec<String>,
    /// Names and addresses to connect from; empty leaves the choice to the system.
    pub binds: Vec<String>,
    /// Names and addresses to listen on; `*` is every address of both families.
    pub listens: Vec<String>,
    /// The port, of the server.
    pub port: u16,
    /// Local ports of a client, both ends included.
    pub local_ports: Option<(u16, u16)>,
    pub phase: Phase,
    /// A server ends after so many connections.
    pub exit_limit: Option<u64>,
    /// Pause between the end of the work and the end of the program, ms.
    pub pause_at_end_ms: u32,
    /// The first error ends the program at once, for a debugger.
    pub break_on_error: bool,
    /// What is printed: 0 nothing, 1 status, 2 status and errors, 3 connections, 4 connections and errors, 5 all, 6 more.
    pub verbosity: u8,
    pub logs: LogFiles,
    pub cores: Cores,
    /// Worker threads, when given (`-ShardCount`).
    pub workers: Option<u16>,
    /// Interface, namespace.
    pub place: Option<Place>,
    /// Networks that a UDP server streams to, besides its own (`-Allow`).
    pub allow: Vec<String>,
    /// What the banner tells of the original's settings that are no part of the phase.
    pub shown: Shown,
    /// Arguments that have no effect here, as typed, each with the reason.
    pub ignored: Vec<String>,
}

/// Settings that only the banner shows: they choose between ways in which Windows can do the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The I/O function, with its explanation.
    pub io_function: &'static str,
    /// The function that opens or accepts connections, as error lines name it.
    pub connect_function: &'static str,
    /// Words of the `Options` line.
    pub options: Vec<String>,
    /// Outstanding receives.
    pub receives: u32,
    /// Outstanding sends; 0 follows the ideal send backlog.
    pub sends: u32,
    /// The compartment, as given.
    pub compartment: Option<String>,
    /// The interface index, as given.
    pub interface: Option<u32>,
    /// The processor group, when given.
    pub cpu_group: Option<u32>,
    /// Receive sharding: policy, shards, workers of each, batch.
    pub sharding: Option<Sharding>,
}

/// Receive sharding, as the banner shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Shards; 0 is one per logical CPU.
    pub shards: u32,
    pub workers: u32,
    /// Completions taken at once.
    pub batch: u32,
    pub policy: &'static str,
}
