//! Ansible's groups: hosts, variables, children.
//!
//! Variables may hold passwords, so only those are read that say something here: `ansible_host`, the labels that mean something
//! (`site`, `rack`, …), and all that begin with `netcaliper_`.

use super::build::Builder;
use super::{Inventory, MAX_GROUPS, lines};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Deepest nesting of groups.
const MAX_DEPTH: u32 = 50;
/// Variables that are labels under their own names.
const LABELS: [&str; 7] = ["site", "rack", "rail", "nat", "role", "protocol", "resource"];
const PREFIX: &str = "netcaliper_";

#[derive(Default)]
struct Node {
    hosts: Vec<String>,
    children: BTreeSet<String>,
    vars: BTreeMap<String, String>,
    /// The longest way from a group without parents; [`Tree::depths`] fills it in.
    depth: u32,
}

/// Groups and hosts as an inventory of Ansible has them.
#[derive(Default)]
pub(super) struct Tree {
    groups: BTreeMap<String, Node>,
    hosts: Vec<String>,
    known: HashSet<String>,
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
        if self.known.insert(name.to_owned()) {
            self.hosts.push(name.to_owned());
        }
        if self.hosts.len() > super::MAX_HOSTS {
            return Err(format!("there are more than {} hosts", super::MAX_HOSTS));
        }
        self.group(group)?.hosts.push(name.to_owned());
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
        let mut builder = Builder::default();
        for host in &self.hosts {
            builder.add(host)?;
        }
        let mut order: Vec<(u32, &String)> =
            self.groups.iter().map(|(name, node)| (node.depth, name)).collect();
        order.sort_unstable();
        for (_, name) in order {
            let of_group = |key: &str| ["limit", "crossing"].contains(&key);
            let node = &self.groups[name];
            for host in self.below(name) {
                let (id, _) = builder.add(host)?;
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

    /// The hosts of a group and of the groups below; all of them for `all`.
    fn below(&self, group: &str) -> BTreeSet<&str> {
        if group == "all" {
            return self.hosts.iter().map(String::as_str).collect();
        }
        let (mut hosts, mut seen, mut due) = (BTreeSet::new(), BTreeSet::new(), vec![group]);
        while let Some(name) = due.pop() {
            if let Some(node) = self.groups.get(name).filter(|_| seen.insert(name)) {
                hosts.extend(node.hosts.iter().map(String::as_str));
                due.extend(node.children.iter().map(String::as_str));
            }
        }
        hosts
    }

    /// Finds each group's depth; refuses groups that contain themselves.
    fn depths(&mut self) -> Result<(), String> {
        // Each round moves every group below its parents; without a cycle the longest way bounds the rounds.
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
    match group.get("hosts") {
        None | Some(Value::Null) => {}
        Some(Value::Object(hosts)) => {
            for (pattern, vars) in hosts {
                for host in lines::expand(lines::address(pattern)?.0)? {
                    tree.host(name, &host)?;
                    read_vars(vars, &host, |key, value| tree.set_host(&host, key, value))?;
                }
            }
        }
        Some(Value::Array(hosts)) => {
            for host in hosts.iter().filter_map(Value::as_str) {
                tree.host(name, host)?;
            }
        }
        Some(_) => return Err(expected(name, "its hosts by name")),
    }
    if let Some(vars) = group.get("vars") {
        read_vars(vars, name, |key, value| tree.set_group(name, key, value))?;
    }
    match group.get("children") {
        None | Some(Value::Null) => {}
        Some(Value::Object(children)) => {
            for (child, node) in children {
                tree.child(name, child)?;
                read_group(tree, child, node, depth + 1)?;
            }
        }
        Some(Value::Array(children)) => {
            children.iter().filter_map(Value::as_str).try_for_each(|child| tree.child(name, child))?;
        }
        Some(_) => return Err(expected(name, "its children by name")),
    }
    Ok(())
}

/// Tells each variable that is one plain value.
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
