//! What tests occupy besides hosts: the groups with limits, by host.

use crate::inventory::{HostId, Inventory};
use serde::Serialize;

/// A group with a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupLimit {
    /// Its name.
    pub name: String,
    /// Tests at a time, at least 1.
    pub limit: u32,
    /// Whether only tests with hosts outside count.
    pub crossing: bool,
    /// Members.
    pub hosts: usize,
}

/// The groups with limits, and which of them each host is in.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    groups: Vec<GroupLimit>,
    /// Of each host, ascending.
    of_host: Vec<Vec<u32>>,
}

impl Resources {
    /// Those of an inventory.
    #[must_use]
    pub fn of(inventory: &Inventory) -> Resources {
        let mut resources =
            Resources { of_host: vec![Vec::new(); inventory.hosts.len()], groups: Vec::new() };
        for (name, group) in &inventory.groups {
            let Some(limit) = group.limit else { continue };
            let Ok(at) = u32::try_from(resources.groups.len()) else { break };
            for member in &group.members {
                resources.of_host.get_mut(member.index()).into_iter().for_each(|of| of.push(at));
            }
            let (name, limit, hosts) = (name.clone(), limit.max(1), group.members.len());
            resources.groups.push(GroupLimit { name, limit, crossing: group.crossing, hosts });
        }
        resources
    }

    /// The groups with limits.
    #[must_use]
    pub fn groups(&self) -> &[GroupLimit] {
        &self.groups
    }

    /// Indices into [`Resources::groups`] of those that a test between these hosts uses.
    pub fn used(&self, from: HostId, to: HostId) -> impl Iterator<Item = usize> {
        let of = |host: HostId| self.of_host.get(host.index()).map_or(&[][..], Vec::as_slice);
        let (a, b) = (of(from), of(to));
        let is_in = |groups: &[u32], group: u32| groups.binary_search(&group).is_ok();
        let of_a =
            a.iter().filter(move |group| !(self.groups[**group as usize].crossing && is_in(b, **group)));
        let only_of_b = b.iter().filter(move |group| !is_in(a, **group));
        of_a.chain(only_of_b).map(|group| *group as usize)
    }
}
