//! What tests occupy besides hosts: the groups with limits, by host.

use crate::inventory::{HostId, Inventory};

/// A group with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// Its name.
    pub name: String,
    /// Tests at a time, at least 1.
    pub limit: u32,
    /// Whether only tests with hosts outside count.
    pub crossing: bool,
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
            resources.groups.push(GroupLimit {
                name: name.clone(),
                limit: limit.max(1),
                crossing: group.crossing,
            });
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
        let (mut a, mut b) = (of(from), of(to));
        std::iter::from_fn(move || {
            loop {
                // Both lists ascend: the lesser first, one that stands in both once.
                let (first, both) = match (a.first(), b.first()) {
                    (None, None) => return None,
                    (Some(x), Some(y)) if x == y => (*x, true),
                    (Some(x), Some(y)) => (*x.min(y), false),
                    (Some(x), None) | (None, Some(x)) => (*x, false),
                };
                a = a.strip_prefix(&[first]).unwrap_or(a);
                b = b.strip_prefix(&[first]).unwrap_or(b);
                let index = first as usize;
                if !(both && self.groups[index].crossing) {
                    return Some(index);
                }
            }
        })
    }
}
