//! The hosts of a fleet, their labels, and the groups of hosts that share something a test would fill.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most hosts of an inventory.
pub const MAX_HOSTS: usize = 20_000;
/// Most labels of a host.
pub const MAX_LABELS: usize = 64;
/// Most groups of an inventory.
pub const MAX_GROUPS: usize = 1_000;
/// Longest name, address, or value of a label, bytes.
pub const MAX_TEXT: usize = 253;

/// Position of a host in its inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub u32);

impl HostId {
    /// Index into [`Inventory::hosts`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Values by name. These names mean something: `site`, `rack`, `rail`, `role`, `nat` (`true`: no connection from outside reaches
/// the host), and `resource` (hosts with one value count as one host for exclusive tests).
pub type Labels = BTreeMap<String, String>;

/// A host that takes part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Unique in the inventory.
    pub name: String,
    /// Name or address at which others reach the host, without a port.
    pub address: String,
    /// Port of its server; the protocol's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What is known about it.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl Host {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// Whether connections from outside do not reach the host.
    #[must_use]
    pub fn is_behind_nat(&self) -> bool {
        self.label("nat").is_some_and(|value| !matches!(value, "" | "0" | "false" | "no" | "none"))
    }
}

/// Hosts that share a resource, such as an uplink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its members, ascending.
    pub members: Vec<HostId>,
    /// Tests, background ones excepted, that may use the resource at a time; at least 1.
    pub limit: u32,
    /// Whether only tests between a member and another host use the resource, as with the uplink of a rack. Otherwise every test
    /// of a member does.
    #[serde(default)]
    pub crossing: bool,
}

impl Group {
    /// Whether a test between these hosts uses the resource.
    #[must_use]
    pub fn is_used(&self, from: HostId, to: HostId) -> bool {
        let [a, b] = [from, to].map(|host| self.members.binary_search(&host).is_ok());
        if self.crossing { a != b } else { a || b }
    }
}

/// All hosts, and the groups with limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// In the order of their source.
    pub hosts: Vec<Host>,
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Group>,
}

impl Inventory {
    /// The host at this position.
    #[must_use]
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(id.index())
    }

    /// The host of a pair that can run the client: `from`, or `to` where no connection reaches `to`. `None` where none reaches
    /// either: both are behind NAT, at different or unknown sites.
    #[must_use]
    pub fn client(&self, from: HostId, to: HostId) -> Option<HostId> {
        let (a, b) = (self.host(from)?, self.host(to)?);
        let same_site = a.label("site").is_some() && a.label("site") == b.label("site");
        if same_site || !b.is_behind_nat() { Some(from) } else { (!a.is_behind_nat()).then_some(to) }
    }
}
