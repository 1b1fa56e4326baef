//! An inventory under construction, within its bounds.

use super::{Group, Host, HostId, Inventory, MAX_GROUPS, MAX_HOSTS, MAX_LABELS, MAX_MEMBERS, MAX_TEXT};
use model::Address;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Default)]
pub(super) struct Builder {
    hosts: Vec<Host>,
    by_name: HashMap<String, HostId>,
    groups: BTreeMap<String, (BTreeSet<HostId>, Group)>,
    members: usize,
}

impl Builder {
    /// The host of this name, and whether it is new.
    pub(super) fn add(&mut self, name: &str) -> Result<(HostId, bool), String> {
        if let Some(id) = self.by_name.get(name) {
            return Ok((*id, false));
        }
        bounded("the name of a host", name)?;
        if !is_name(name) {
            return Err(format!("{name:?} is no name or address of a host"));
        }
        let id = u32::try_from(self.hosts.len()).ok().filter(|n| (*n as usize) < MAX_HOSTS).map(HostId);
        let id = id.ok_or_else(|| format!("there are more than {MAX_HOSTS} hosts"))?;
        self.by_name.insert(name.to_owned(), id);
        self.hosts.push(Host { name: name.to_owned(), address: name.to_owned(), ..Host::default() });
        Ok((id, true))
    }

    /// All hosts so far.
    pub(super) fn ids(&self) -> BTreeSet<HostId> {
        self.by_name.values().copied().collect()
    }

    /// Says something about a host: its address, port, groups, or a label.
    pub(super) fn set(&mut self, id: HostId, key: &str, value: &str) -> Result<(), String> {
        match key {
            "groups" => {
                let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                return names.map(str::to_owned).try_for_each(|name| self.join(&name, id));
            }
            "address" if !is_name(value) => {
                return Err(format!("{value:?} is no address of a host"));
            }
            _ => {}
        }
        bounded("the name of a label", key)?;
        bounded("the value of a label", value)?;
        let Some(host) = self.hosts.get_mut(id.index()) else { return Ok(()) };
        match key {
            "address" => host.address = value.to_owned(),
            "port" => host.port = Some(port(value)?),
            _ => {
                host.labels.insert(key.to_owned(), value.to_owned());
                if host.labels.len() > MAX_LABELS {
                    let text = format!("host {} has more than {MAX_LABELS} labels", host.name);
                    return Err(text);
                }
            }
        }
        Ok(())
    }

    /// Makes a host a member of a group.
    pub(super) fn join(&mut self, group: &str, id: HostId) -> Result<(), String> {
        if self.group(group)?.0.insert(id) {
            self.members += 1;
        }
        if self.members > MAX_MEMBERS {
            return Err(format!("there are more than {MAX_MEMBERS} memberships in groups"));
        }
        Ok(())
    }

    /// Says something about a group.
    pub(super) fn set_group(&mut self, group: &str, key: &str, value: &str) -> Result<(), String> {
        let (_, of) = self.group(group)?;
        match key {
            "limit" => of.limit = Some(limit(value)?),
            _ => {
                let value = value.trim().to_ascii_lowercase();
                of.crossing = matches!(value.as_str(), "true" | "yes" | "on" | "1");
            }
        }
        Ok(())
    }

    fn group(&mut self, name: &str) -> Result<&mut (BTreeSet<HostId>, Group), String> {
        if !self.groups.contains_key(name) {
            bounded("the name of a group", name)?;
            if self.groups.len() >= MAX_GROUPS {
                return Err(too_many_groups());
            }
        }
        Ok(self.groups.entry(name.to_owned()).or_default())
    }

    pub(super) fn build(self) -> Inventory {
        let groups = self.groups.into_iter();
        let groups =
            groups.filter(|(_, (members, _))| !members.is_empty()).map(|(name, (members, group))| {
                (name, Group { members: members.into_iter().collect(), ..group })
            });
        Inventory { hosts: self.hosts, groups: groups.collect() }
    }
}

pub(super) fn too_many_groups() -> String {
    format!("there are more than {MAX_GROUPS} groups")
}

pub(super) fn limit(text: &str) -> Result<u32, String> {
    let limit = text.trim().parse().ok().filter(|n| *n > 0);
    limit.ok_or_else(|| format!("a limit of {text:?}: expected a number of tests from 1"))
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    let port = text.trim().parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("{text:?} is no port: expected 1 to 65535"))
}

fn bounded(what: &str, text: &str) -> Result<(), String> {
    match text.len() {
        0 => Err(format!("{what} is empty")),
        n if n > MAX_TEXT => Err(format!("{what} has more than {MAX_TEXT} bytes")),
        _ => Ok(()),
    }
}

/// True if `text` can be a host on a command line: an address, or a name that is no option.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    let first = text.chars().next().is_some_and(|c| c.is_alphanumeric() || matches!(c, ':' | '_'));
    Address::parse(text).is_some_and(|at| at.port.is_none()) || (first && text.chars().all(plain))
}
