//! The hosts of a fleet, their labels, and the groups of hosts that share something a test would
//! fill.

mod ansible;
mod build;
mod lines;
mod select;
mod yaml;

use build::Builder;
pub use select::{Limit, Selector};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Most hosts of an inventory.
pub const MAX_HOSTS: usize = 20_000;
/// Most labels of a host.
pub const MAX_LABELS: usize = 64;
/// Most groups of an inventory.
pub const MAX_GROUPS: usize = 5_000;
/// Most memberships of hosts in groups.
pub const MAX_MEMBERS: usize = 500_000;
/// Longest inventory, bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// Longest name, address, or value of a label, bytes.
pub const MAX_TEXT: usize = 253;

/// Position of a host in its inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct HostId(pub u32);

impl HostId {
    /// Index into [`Inventory::hosts`].
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Values by name. Names with a meaning are `site`, `rack`, `rail`, `role`, `nat` (`true`: no
/// connection from outside its `site` reaches the host), `protocol` (the host has no agent, but a
/// server of this protocol), and `resource` (hosts with one value count as one host for exclusive
/// tests).
pub type Labels = BTreeMap<String, String>;

/// A host that takes part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// Unique in the inventory.
    pub name: String,
    /// Name or address at which others reach the host, without a port.
    pub address: String,
    /// Port of its server; absent for the protocol's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl Host {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// The protocol of a host without an agent, which only serves tests of others: the label
    /// `protocol`.
    #[must_use]
    pub fn passive_protocol(&self) -> Option<&str> {
        self.label("protocol")
    }

    /// True if connections from outside do not reach the host.
    pub(crate) fn is_behind_nat(&self) -> bool {
        self.label("nat").is_some_and(|value| !matches!(value, "" | "0" | "false" | "no" | "none"))
    }
}

/// Hosts that share a resource, such as an uplink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Group {
    /// Positions of the members in `hosts`, ascending.
    pub members: Vec<HostId>,
    /// Tests, background ones excepted, that may use the resource at a time, at least 1. Without a
    /// limit the group only names its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// True if only tests between a member and another host use the resource, as with the uplink of
    /// a rack. Otherwise every test of a member does.
    #[serde(default)]
    pub crossing: bool,
}

/// All hosts and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inventory {
    /// Hosts in the order of their source.
    pub hosts: Vec<Host>,
    /// Groups of hosts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Group>,
}

impl Inventory {
    /// Reads an inventory.
    ///
    /// # Errors
    /// Where the text is no such inventory, or larger than the bounds of this module.
    pub fn parse(text: &str, format: Format) -> Result<Inventory, String> {
        if text.len() > MAX_BYTES {
            return Err("the inventory has more than 16 MiB".to_owned());
        }
        let text = text.trim_start_matches('\u{feff}');
        let inventory = match format {
            Format::Lines => lines::parse(text),
            Format::Yaml => tree(&yaml::parse(text)?),
            Format::Json => {
                tree(&serde_json::from_str(text).map_err(|e| format!("the JSON is damaged: {e}"))?)
            }
        }?;
        match inventory.hosts.len() {
            0 => Err("the inventory has no host".to_owned()),
            _ => Ok(inventory),
        }
    }

    /// The addresses of `name`, as that of a headless service: each is a host.
    ///
    /// # Errors
    /// When there are none or too many.
    pub fn of_name(name: &str, mut found: Vec<IpAddr>) -> Result<Inventory, String> {
        if found.is_empty() {
            return Err(format!("the name {name} has no address"));
        }
        found.sort_unstable();
        found.dedup();
        let mut builder = Builder::default();
        for address in found {
            builder.add(&address.to_string())?;
        }
        Ok(builder.build())
    }

    /// The host at this position.
    #[must_use]
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(id.index())
    }

    /// The name of the host at this position; empty where there is none.
    pub(crate) fn name(&self, id: HostId) -> &str {
        self.host(id).map_or("", |host| &host.name)
    }

    /// Each host with its position.
    pub fn numbered(&self) -> impl Iterator<Item = (HostId, &Host)> {
        (0..).map(HostId).zip(&self.hosts)
    }

    /// The hosts that have the label, by its values, ascending.
    pub(crate) fn by_label(&self, label: &str) -> BTreeMap<&str, Vec<HostId>> {
        let mut hosts = BTreeMap::<&str, Vec<HostId>>::new();
        for (id, host) in self.numbered() {
            if let Some(value) = host.label(label) {
                hosts.entry(value).or_default().push(id);
            }
        }
        hosts
    }

    /// The host of a pair that can run the client: `from` where that is possible, else `to`. `None`
    /// where neither can: both are behind NAT at different or unknown sites, or passive.
    pub(crate) fn client(&self, from: HostId, to: HostId) -> Option<HostId> {
        let (a, b) = (self.host(from)?, self.host(to)?);
        let same_site = a.label("site").is_some() && a.label("site") == b.label("site");
        let can = |client: &Host, server: &Host| {
            client.passive_protocol().is_none() && (same_site || !server.is_behind_nat())
        };
        if can(a, b) { Some(from) } else { can(b, a).then_some(to) }
    }
}

/// Format of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A host a line with its labels (`name site=a rack=7`), or Ansible's INI where a line is a
    /// `[section]`.
    Lines,
    /// Ansible's YAML, or Prometheus' `file_sd` as YAML.
    Yaml,
    /// Prometheus' `file_sd`, or Ansible's inventory, as JSON.
    Json,
}

impl Format {
    /// The format of a file of this name with this content.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Format {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let start = text.trim_start_matches('\u{feff}').trim_start();
        let array = start.strip_prefix('[').map(str::trim_start);
        if extension.eq_ignore_ascii_case("json")
            || start.starts_with('{')
            || array.is_some_and(|rest| rest.starts_with(['{', ']']) && !rest.starts_with("]\n["))
        {
            return Format::Json;
        }
        if extension.eq_ignore_ascii_case("yml") || extension.eq_ignore_ascii_case("yaml") {
            return Format::Yaml;
        }
        let is_entry = |line: &&str| !line.trim().is_empty() && !line.starts_with(['#', ';']);
        let first = text.lines().map(str::trim_end).find(is_entry).unwrap_or_default();
        // `all:` and `- targets:` are no names of hosts.
        let yaml =
            first == "---" || first.starts_with("- ") || (first.ends_with(':') && !first.contains("::"));
        if yaml { Format::Yaml } else { Format::Lines }
    }
}

/// A tree of values: Ansible's groups, or Prometheus' list of targets.
fn tree(value: &Value) -> Result<Inventory, String> {
    match value {
        Value::Array(groups) => targets(groups),
        Value::Object(groups) => ansible::read(groups),
        _ => Err("expected Ansible's groups or Prometheus' list of targets".to_owned()),
    }
}

/// Prometheus' `file_sd`: lists of targets with their labels.
fn targets(groups: &[Value]) -> Result<Inventory, String> {
    let mut builder = Builder::default();
    for (at, group) in groups.iter().enumerate() {
        let wrong = || format!("entry {}: expected \"targets\": [\"HOST:PORT\", …]", at + 1);
        let targets = group.get("targets").and_then(Value::as_array).ok_or_else(wrong)?;
        let labels = group.get("labels").and_then(Value::as_object);
        for target in targets {
            // The port behind the name is that of an exporter.
            let (name, _) = lines::address(target.as_str().ok_or_else(wrong)?)?;
            let (id, _) = builder.add(name)?;
            for (key, value) in labels.into_iter().flatten().filter(|(key, _)| !key.starts_with("__")) {
                let value = value.as_str().ok_or_else(wrong)?;
                if !value.is_empty() {
                    builder.set(id, key.strip_prefix("netcaliper_").unwrap_or(key), value)?;
                }
            }
        }
    }
    Ok(builder.build())
}

#[cfg(test)]
pub(crate) mod tests;
