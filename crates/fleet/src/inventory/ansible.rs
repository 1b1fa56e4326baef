//! Ansible's groups: hosts, variables, children.
//!
//! Variables may hold passwords, so only those are read that say something here: `ansible_host`,
//! the labels that mean something (`site`, `rack`, …), and all that begin with `netcaliper_`.

use super::build::Builder;
use super::{HostId, Inventory, MAX_GROUPS, lines};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Deepest nesting of groups.
const MAX_DEPTH: u32 = 50;
/// Variables that are labels under their own names.
const LABELS: [&str; 7] = ["site", "rack", "rail", "nat", "role", "protocol", "resource"];
const PREFIX: &str = "netcaliper_";

#[derive(Default)]
struct Node {
    hosts: Vec<HostId>,
    children: BTreeSet<String>,
    vars: BTreeMap<String, String>,
    /// The longest way from a group without parents; [`Tree::depths`] fills it in.
    depth: u32,
}

/// Groups and hosts as an inventory of Ansible has them.
#[derive(Default)]
pub(super) struct Tree {
    groups: BTreeMap<String, Node>,
    hosts: Builder,
    vars: BTreeMap<String, BTreeMap<String, String>>,
}

impl Tree {
    fn group(&mut self, name: &str) -> Result<&mut Node, String> {
        if !self.groups.contains_key(name) && self.groups.len() >= MAX_GROUPS {
            return Err(super::build::too_many_groups());
        }
        Ok(self.groups.entry(name.to_owned()).or_default())
    }

    pub(super) fn host(&mut self, group: &str, name: &str) -> Result<(), String> {
        let (id, _) = self.hosts.add(name)?;
        self.group(group)?.hosts.push(id);
        Ok(())
    }

    pub(super) fn child(&mut self, group: &str, child: &str) -> Result<(), String> {
        self.group(child)?;
        self.group(group)?.children.insert(child.to_owned());
        Ok(())
    }

    pub(super) fn set_group(&mut self, group: &str, key: &str, value: &str) -> Result<(), String> {
        let key = meaning(key);
        let node = self.group(group)?;
        if let Some(key) = key {
            node.vars.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }

    pub(super) fn set_host(&mut self, host: &str, key: &str, value: &str) -> Result<(), String> {
        if let Some(key) = meaning(key) {
            self.vars.entry(host.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// Each host with the variables of its groups, those nearer to the host last, and then its own.
    pub(super) fn inventory(mut self) -> Result<Inventory, String> {
        self.depths()?;
        let all = self.hosts.ids();
        let mut builder = std::mem::take(&mut self.hosts);
        let mut order: Vec<(u32, &String)> =
            self.groups.iter().map(|(name, node)| (node.depth, name)).collect();
        order.sort_unstable();
        for (_, name) in order {
            let of_group = |key: &str| ["limit", "crossing"].contains(&key);
            let node = &self.groups[name];
            for id in if name == "all" { all.clone() } else { self.below(name) } {
                if !["all", "ungrouped"].contains(&name.as_str()) {
                    builder.join(name, id)?;
                }
                for (key, value) in node.vars.iter().filter(|(key, _)| !of_group(key)) {
                    builder.set(id, key, value)?;
                }
            }
            for (key, value) in node.vars.iter().filter(|(key, _)| of_group(key)) {
                builder.set_group(name, key, value)?;
            }
        }
        for (host, vars) in &self.vars {
            let (id, _) = builder.add(host)?;
            vars.iter().try_for_each(|(key, value)| builder.set(id, key, value))?;
        }
        Ok(builder.build())
    }

    /// The hosts of a group and of the groups below.
    fn below(&self, group: &str) -> BTreeSet<HostId> {
        let (mut hosts, mut seen, mut due) = (BTreeSet::new(), BTreeSet::new(), vec![group]);
        while let Some(name) = due.pop() {
            if let Some(node) = self.groups.get(name).filter(|_| seen.insert(name)) {
                hosts.extend(&node.hosts);
                due.extend(node.children.iter().map(String::as_str));
            }
        }
        hosts
    }

    /// Finds each group's depth; refuses groups that contain themselves.
    fn depths(&mut self) -> Result<(), String> {
        // Each round moves every group below its parents; without a cycle the longest way bounds
        // the rounds.
        for _ in 0..=MAX_DEPTH {
            let edges: Vec<(String, u32)> = self
                .groups
                .values()
                .flat_map(|node| node.children.iter().map(|child| (child.clone(), node.depth + 1)))
                .collect();
            let mut moved = false;
            for (child, depth) in edges {
                if let Some(node) = self.groups.get_mut(&child).filter(|node| node.depth < depth) {
                    (node.depth, moved) = (depth, true);
                }
            }
            if !moved {
                if let Some(all) = self.groups.get_mut("all") {
                    all.depth = 0;
                }
                return Ok(());
            }
        }
        Err(format!("groups contain each other, or stand in each other more than {MAX_DEPTH} deep"))
    }
}

/// The name under which a variable of Ansible counts here.
fn meaning(key: &str) -> Option<&str> {
    match key {
        "ansible_host" => Some("address"),
        _ if LABELS.contains(&key) => Some(key),
        _ => key.strip_prefix(PREFIX).filter(|rest| !rest.is_empty()),
    }
}

/// Reads the tree of groups that YAML and JSON have.
pub(super) fn read(groups: &Map<String, Value>) -> Result<Inventory, String> {
    let mut tree = Tree::default();
    for (name, group) in groups.iter().filter(|(name, _)| *name != "_meta") {
        read_group(&mut tree, name, group, 0)?;
    }
    // `ansible-inventory --list` has the variables of hosts apart.
    let meta = groups.get("_meta").and_then(|meta| meta.get("hostvars")).and_then(Value::as_object);
    for (host, vars) in meta.into_iter().flatten() {
        read_vars(vars, host, |key, value| tree.set_host(host, key, value))?;
    }
    tree.inventory()
}

fn read_group(tree: &mut Tree, name: &str, group: &Value, depth: u32) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("groups stand in each other more than {MAX_DEPTH} deep"));
    }
    let group = match group {
        Value::Null => return tree.group(name).map(drop),
        Value::Object(group) => group,
        _ => return Err(expected(name, "hosts, vars and children")),
    };
    tree.group(name)?;
    for (pattern, vars) in entries(name, group, "hosts")? {
        // A list has names, and no patterns.
        let Some(vars) = vars else {
            tree.host(name, pattern)?;
            continue;
        };
        for host in lines::expand(lines::address(pattern)?.0)? {
            tree.host(name, &host)?;
            read_vars(vars, &host, |key, value| tree.set_host(&host, key, value))?;
        }
    }
    if let Some(vars) = group.get("vars") {
        read_vars(vars, name, |key, value| tree.set_group(name, key, value))?;
    }
    for (child, node) in entries(name, group, "children")? {
        tree.child(name, child)?;
        if let Some(node) = node {
            read_group(tree, child, node, depth + 1)?;
        }
    }
    Ok(())
}

type Entry<'a> = (&'a str, Option<&'a Value>);

/// The names in a list or a map of a group, in a map each with what stands below it.
fn entries<'a>(of: &str, group: &'a Map<String, Value>, key: &str) -> Result<Vec<Entry<'a>>, String> {
    match group.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(all)) => {
            Ok(all.iter().map(|(name, below)| (name.as_str(), Some(below))).collect())
        }
        Some(Value::Array(all)) => {
            Ok(all.iter().filter_map(Value::as_str).map(|name| (name, None)).collect())
        }
        Some(_) => Err(expected(of, &format!("its {key} by name"))),
    }
}

/// Passes each variable with one plain value to `tell`.
fn read_vars(
    vars: &Value,
    of: &str,
    mut tell: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let vars = match vars {
        Value::Null => return Ok(()),
        Value::Object(vars) => vars,
        _ => return Err(expected(of, "variables by name")),
    };
    for (key, value) in vars {
        match value {
            Value::String(text) => tell(key, text)?,
            Value::Bool(_) | Value::Number(_) => tell(key, &value.to_string())?,
            _ => {}
        }
    }
    Ok(())
}

fn expected(name: &str, what: &str) -> String {
    format!("{name:?}: expected {what}")
}
