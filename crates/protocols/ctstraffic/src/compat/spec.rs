//! The request of a ctsTraffic command line, checked and complete.

pub(crate) use crate::tcp::Role;
use common::Placement;
use model::Phase;
pub(crate) use model::Transport;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct LogFiles {
    /// `-StatusFilename`.
    pub(crate) status: Option<PathBuf>,
    /// `-ConnectionFilename`.
    pub(crate) connection: Option<PathBuf>,
    /// `-ErrorFilename`.
    pub(crate) error: Option<PathBuf>,
    /// `-JitterFilename`.
    pub(crate) jitter: Option<PathBuf>,
    /// `-TcpInfoFilename`.
    pub(crate) tcp_info: Option<PathBuf>,
    /// `-LogEncoding:utf16`: little-endian, with a byte order mark, as the original writes; else
    /// UTF-8 without one.
    pub(crate) utf16: bool,
}

/// Binding of sockets, besides addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// To the interface with this number (`-IfIndex`).
    Interface(u32),
    /// To this network namespace, VRF or interface (`-Compartment`).
    Compartment(String),
}

/// A ctsTraffic command line, understood.
///
/// Wide: a field for each option of the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) role: Role,
    pub(crate) transport: Transport,
    /// Names and addresses to connect to.
    pub(crate) targets: Vec<String>,
    /// Names and addresses to connect from; empty leaves the choice to the system.
    pub(crate) binds: Vec<String>,
    /// Names and addresses to listen on; `*` is every address of both families.
    pub(crate) listens: Vec<String>,
    /// The port, of the server.
    pub(crate) port: u16,
    /// Local ports of a client, both ends included.
    pub(crate) local_ports: Option<(u16, u16)>,
    pub(crate) phase: Phase,
    /// Number of connections after which a server ends.
    pub(crate) exit_limit: Option<u64>,
    /// Pause between the end of the work and the end of the program, ms.
    pub(crate) pause_at_end_ms: u32,
    /// The first error ends the program at once, for a debugger.
    pub(crate) break_on_error: bool,
    /// Verbosity: 0 nothing, 1 status, 2 status and errors, 3 connections, 4 connections and
    /// errors, 5 all, 6 more.
    pub(crate) verbosity: u8,
    pub(crate) logs: LogFiles,
    pub(crate) cores: Placement,
    /// Worker threads, when given (`-ShardCount`).
    pub(crate) workers: Option<u16>,
    /// Interface, namespace.
    pub(crate) place: Option<Binding>,
    /// The interface that sockets are bound to, once the place has been entered.
    pub(crate) device: Option<String>,
    /// Networks that a UDP server streams to, besides its own (`-Allow`).
    pub(crate) allow: Vec<String>,
    /// The original's settings in the banner that are no part of the phase.
    pub(crate) shown: BannerSettings,
    /// Arguments that have no effect here, as typed, each with the reason.
    pub(crate) ignored: Vec<String>,
    /// Arguments of which another value is used, each with that.
    pub(crate) changed: Vec<String>,
}

/// Settings that only the banner shows: they choose between ways in which Windows can do the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BannerSettings {
    /// The function that opens or accepts connections, as error lines name it.
    pub(crate) connect_function: &'static str,
    /// Words of the `Options` line.
    pub(crate) options: Vec<String>,
    /// Outstanding receives.
    pub(crate) receives: u32,
    /// Outstanding sends; 0 follows the ideal send backlog.
    pub(crate) sends: u32,
    /// The processor group, when given.
    pub(crate) cpu_group: Option<u32>,
    /// Receive sharding: shards (0 is one per logical CPU), threads of each, completions taken at
    /// once, affinity policy.
    pub(crate) sharding: Option<String>,
}
