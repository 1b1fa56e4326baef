//! A protocol's view of its host.
//!
//! Parts of it are texts of the kernel that go on the wire as they are. Reading their files takes
//! up to a millisecond, which neither a worker nor this crate may do: a flow asks, a thread of the
//! runtime reads, and the flow checks from time to time for the answer.

use ipnet::IpNet;
use metrics::{Mono, Wall};
use model::HostSnapshot;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

/// Reads the CPU time of this process, seconds in user mode and in the kernel.
pub type Meter = Box<dyn Fn() -> (f64, f64) + Send>;

/// Fills bytes with the system's randomness; `false` when it has none.
pub type Random = fn(&mut [u8]) -> bool;

/// The host, for sessions that begin.
pub trait HostInfo: Send + Sync {
    /// Now, by the clock of all workers.
    fn now(&self) -> Mono;
    /// Now, by the calendar.
    fn wall(&self) -> Wall;
    /// The system's randomness.
    fn random(&self) -> Random;
    /// Identifies the clock that this process reads, and so its host; empty when it is not known.
    fn clock_id(&self) -> String;
    /// The host, and the interface that owns `local`.
    fn snapshot(&self, local: Option<IpAddr>) -> HostSnapshot;
    /// The local address on the way to `to`.
    fn local_for(&self, to: SocketAddr) -> Option<IpAddr>;
    /// Networks that the host is directly connected to.
    fn connected_networks(&self) -> Vec<IpNet>;
    /// The system's default congestion control, and the available ones.
    fn congestion(&self) -> (String, Vec<String>);
    /// Begins to measure the CPU time of this process.
    fn cpu_meter(&self) -> Meter;
    /// Cores that this process may use.
    fn cores(&self) -> Vec<usize>;
    /// Descriptors that this process may have.
    fn descriptors(&self) -> Option<usize>;
    /// Descriptors that this process may still open.
    fn free_descriptors(&self) -> Option<usize>;
    /// Most memory that this process may use, bytes.
    fn memory(&self) -> Option<u64> {
        None
    }
    /// The kernel's counters as texts.
    fn texts(&self) -> Host;
}

impl dyn HostInfo {
    /// 32 bytes of the system's randomness.
    ///
    /// # Errors
    /// When the system has none.
    pub fn secret(&self) -> Result<[u8; 32], String> {
        let mut secret = [0; 32];
        let drawn = self.random()(&mut secret);
        drawn.then_some(secret).ok_or_else(|| "the system gives no random numbers".to_owned())
    }
}

/// The kernel's counters as it prints them; empty where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTexts {
    /// `/proc/net/dev`.
    pub dev: String,
    /// `/proc/net/snmp`.
    pub snmp: String,
    /// `/proc/net/snmp6`.
    pub snmp6: String,
    /// `/proc/stat`.
    pub stat: String,
    /// Drivers' counters of the requested interfaces.
    pub cards: Vec<HostCard>,
}

/// Counters of an interface's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCard {
    /// The interface.
    pub name: String,
    /// Its counters by the driver's names.
    pub counters: Vec<(String, u64)>,
}

/// Pending read of the texts.
pub type PendingTexts = Arc<OnceLock<HostTexts>>;

/// Reads the texts, on a thread of its own.
pub trait HostReader: Send + Sync {
    /// Begins a reading, and returns at once.
    fn ask(&self) -> PendingTexts;

    /// One that reads the counters of the interfaces `cards`, too; `None` when there are none.
    fn with_cards(&self, cards: &[String]) -> Option<Host> {
        let _ = cards;
        None
    }
}

/// Source of the texts; the default one answers at once with empty ones.
#[derive(Clone, Default)]
pub struct Host(Option<Arc<dyn HostReader>>);

impl Host {
    /// One that reads them.
    pub fn new(reader: Arc<dyn HostReader>) -> Self {
        Host(Some(reader))
    }

    /// One that reads the counters of the interfaces `cards`, too.
    pub fn with_cards(&self, cards: &[String]) -> Host {
        self.0.as_ref().and_then(|reader| reader.with_cards(cards)).unwrap_or_else(|| self.clone())
    }

    /// Begins a reading.
    pub fn ask(&self) -> PendingTexts {
        match &self.0 {
            Some(reader) => reader.ask(),
            None => Arc::new(OnceLock::from(HostTexts::default())),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Host" } else { "Host(none)" })
    }
}
