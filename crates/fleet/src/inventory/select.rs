//! Hosts chosen by name, group or label, and limits of shared resources.

use super::{Group, Host, HostId, Inventory, MAX_GROUPS, build};
use std::fmt;
use std::str::FromStr;

/// Some hosts of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All.
    All,
    /// The hosts of the group, or the host, of this name.
    Named(String),
    /// The hosts with this value of the label.
    Label(String, String),
}

/// As [`FromStr`] reads it.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::All => f.write_str("all"),
            Selector::Named(name) => f.write_str(name),
            Selector::Label(label, value) => write!(f, "{label}={value}"),
        }
    }
}

impl FromStr for Selector {
    type Err = String;

    /// `all`, the name of a group or host, or `LABEL=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().split_once('=') {
            _ if text.trim().is_empty() => Err("expected a host, a group, or LABEL=VALUE".to_owned()),
            Some((label, value)) => Ok(Selector::Label(label.trim().to_owned(), value.trim().to_owned())),
            None if text.trim() == "all" => Ok(Selector::All),
            None => Ok(Selector::Named(text.trim().to_owned())),
        }
    }
}

impl Inventory {
    /// The hosts that `selector` means, ascending.
    ///
    /// # Errors
    /// When it means none.
    pub fn select(&self, selector: &Selector) -> Result<Vec<HostId>, String> {
        let of = |is_meant: &dyn Fn(&Host) -> bool| {
            self.numbered().filter(|(_, host)| is_meant(host)).map(|(id, _)| id).collect()
        };
        let found: Vec<HostId> = match selector {
            Selector::All => of(&|_| true),
            Selector::Named(name) => match self.groups.get(name) {
                Some(group) => group.members.clone(),
                None => of(&|host| host.name == *name),
            },
            Selector::Label(label, value) => of(&|host| host.label(label) == Some(value)),
        };
        if found.is_empty() {
            let words = selector.to_string();
            return Err(format!(
                "no host of the inventory is meant by {words:?}: expected a host, a group, or LABEL=VALUE"
            ));
        }
        Ok(found)
    }

    /// Adds groups with limits.
    ///
    /// # Errors
    /// When a limit means no host, or there are too many groups.
    pub fn limit(&mut self, limits: &[Limit]) -> Result<(), String> {
        for Limit { of, limit, crossing } in limits {
            for (name, members) in self.limited(of)? {
                let group = Group { members, limit: Some(*limit), crossing: *crossing };
                self.groups.insert(name, group);
            }
        }
        match self.groups.len() > MAX_GROUPS {
            true => Err(build::too_many_groups()),
            false => Ok(()),
        }
    }

    /// The groups that a limit of `selector` means: one for each value in `LABEL=*`.
    fn limited(&self, selector: &Selector) -> Result<Vec<(String, Vec<HostId>)>, String> {
        match selector {
            Selector::Label(label, any) if any == "*" => {
                let by_value = self.by_label(label);
                if by_value.is_empty() {
                    return Err(format!("no host has the label {label:?}"));
                }
                let groups = by_value.into_iter();
                Ok(groups.map(|(value, members)| (format!("{label}={value}"), members)).collect())
            }
            _ => Ok(vec![(selector.to_string(), self.select(selector)?)]),
        }
    }
}

/// Limit of concurrent tests on a resource that hosts share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    of: Selector,
    limit: u32,
    crossing: bool,
}

impl FromStr for Limit {
    type Err = String;

    /// `WHICH:N`, `WHICH:N:crossing` for what only tests with other hosts use; `LABEL=*` is one
    /// group for each value.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected WHICH:N or WHICH:N:crossing, such as wan:1 or rack=7:2");
        let (rest, crossing) = text.strip_suffix(":crossing").map_or((text, false), |rest| (rest, true));
        let (which, limit) = rest.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Limit { of: which.parse()?, limit: build::limit(limit)?, crossing })
    }
}
