//! What a protocol may learn of its host: texts of the kernel that go on the wire as they are.
//!
//! They are read from files, which takes up to a millisecond, and neither a worker nor anything in this crate may do
//! that: a flow asks, somebody else reads, and the flow looks from time to time whether the answer is there.

use std::fmt;
use std::sync::{Arc, OnceLock};

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
    /// What the drivers of the interfaces that were asked for count.
    pub cards: Vec<HostCard>,
}

/// What the driver of an interface counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCard {
    /// The interface.
    pub name: String,
    /// Its counters by the driver's names.
    pub counters: Vec<(String, u64)>,
}

/// An answer that comes.
pub type Reading = Arc<OnceLock<HostTexts>>;

/// Reads the texts, on a thread of its own.
pub trait HostReader: Send + Sync {
    /// Begins a reading, and returns at once.
    fn ask(&self) -> Reading;
}

/// Whom flows ask; nobody by default, whose answers are empty and come at once.
#[derive(Clone, Default)]
pub struct Host(Option<Arc<dyn HostReader>>);

impl Host {
    /// One that is asked.
    #[must_use]
    pub fn new(reader: Arc<dyn HostReader>) -> Self {
        Host(Some(reader))
    }

    /// Begins a reading.
    #[must_use]
    pub fn ask(&self) -> Reading {
        match &self.0 {
            Some(reader) => reader.ask(),
            None => Arc::new(OnceLock::from(HostTexts::default())),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Host" } else { "Host(nobody)" })
    }
}
