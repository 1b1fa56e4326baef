//! Hosts chosen by name, group or label, and limits of what they share.

use super::{Group, HostId, Inventory, InventoryError, build};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Some hosts of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All.
    All,
    /// Those of the group, or the host, of this name.
    Named(String),
    /// Those with this value of the label.
    Label(String, String),
}

impl FromStr for Selector {
    type Err = InventoryError;

    /// `all`, the name of a group or host, or `LABEL=VALUE`.
    fn from_str(text: &str) -> Result<Self, InventoryError> {
        match text.trim().split_once('=') {
            _ if text.trim().is_empty() => {
                Err(InventoryError::new("expected a host, a group, or LABEL=VALUE"))
            }
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
    pub fn select(&self, selector: &Selector) -> Result<Vec<HostId>, InventoryError> {
        let ids = || (0..).map(HostId).zip(&self.hosts);
        let found: Vec<HostId> = match selector {
            Selector::All => ids().map(|(id, _)| id).collect(),
            Selector::Named(name) => match self.groups.get(name) {
                Some(group) => group.members.clone(),
                None => ids().filter(|(_, host)| host.name == *name).map(|(id, _)| id).collect(),
            },
            Selector::Label(label, value) => {
                ids().filter(|(_, host)| host.label(label) == Some(value)).map(|(id, _)| id).collect()
            }
        };
        let words = match selector {
            Selector::All => "all".to_owned(),
            Selector::Named(name) => name.clone(),
            Selector::Label(label, value) => format!("{label}={value}"),
        };
        match found.is_empty() {
            true => Err(InventoryError::new(format!(
                "no host of the inventory is meant by {words:?}: expected a host, a group, or LABEL=VALUE"
            ))),
            false => Ok(found),
        }
    }
}

/// How many tests may use at a time what some hosts share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    of: Selector,
    limit: u32,
    crossing: bool,
}

impl FromStr for Limit {
    type Err = InventoryError;

    /// `WHICH:N`, `WHICH:N:crossing` for what only tests with other hosts use; `LABEL=*` is one group for each value.
    fn from_str(text: &str) -> Result<Self, InventoryError> {
        let wrong = || {
            InventoryError::new(format!(
                "{text:?}: expected WHICH:N or WHICH:N:crossing, such as wan:1 or rack=7:2"
            ))
        };
        let (rest, crossing) = text.strip_suffix(":crossing").map_or((text, false), |rest| (rest, true));
        let (which, limit) = rest.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Limit { of: which.parse()?, limit: build::limit(limit)?, crossing })
    }
}

/// Gives the groups that `limit` means their limit.
pub(super) fn apply(inventory: &mut Inventory, limit: &Limit) -> Result<(), InventoryError> {
    let made: BTreeMap<String, Vec<HostId>> = match &limit.of {
        Selector::Label(label, any) if any == "*" => {
            let mut by_value = BTreeMap::<String, Vec<HostId>>::new();
            for (id, host) in (0..).map(HostId).zip(&inventory.hosts) {
                if let Some(value) = host.label(label) {
                    by_value.entry(format!("{label}={value}")).or_default().push(id);
                }
            }
            if by_value.is_empty() {
                return Err(InventoryError::new(format!("no host has the label {label:?}")));
            }
            by_value
        }
        selector => {
            let name = match selector {
                Selector::All => "all".to_owned(),
                Selector::Named(name) => name.clone(),
                Selector::Label(label, value) => format!("{label}={value}"),
            };
            BTreeMap::from([(name, inventory.select(selector)?)])
        }
    };
    for (name, members) in made {
        inventory.groups.insert(name, Group { members, limit: Some(limit.limit), crossing: limit.crossing });
    }
    Ok(())
}
