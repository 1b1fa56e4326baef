//! A host a line, and Ansible's INI.

use super::ansible::Tree;
use super::build::{self, Builder};
use super::{Inventory, MAX_HOSTS};
use model::Address;

pub(super) fn parse(text: &str) -> Result<Inventory, String> {
    let lines = || {
        text.lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';']))
    };
    if lines().any(|(_, line)| section(line).is_some()) {
        let mut tree = Tree::default();
        let mut within = ("ungrouped", "hosts");
        for (at, line) in lines() {
            let wrong = |e| format!("line {at}: {e}");
            match section(line) {
                Some(next @ (_, "hosts" | "children" | "vars")) => within = next,
                Some((name, kind)) => {
                    return Err(wrong(format!("[{name}:{kind}]: expected :children or :vars")));
                }
                None => ini(&mut tree, within, line).map_err(wrong)?,
            }
        }
        return tree.inventory();
    }
    let mut builder = Builder::default();
    for (at, line) in lines() {
        plain(&mut builder, line).map_err(|e| format!("line {at}: {e}"))?;
    }
    Ok(builder.build())
}

/// A line of a plain list: a host, perhaps with a port, and its labels.
fn plain(builder: &mut Builder, line: &str) -> Result<(), String> {
    let words = words(line)?;
    let Some((first, labels)) = words.split_first() else { return Ok(()) };
    let (pattern, port) = address(first)?;
    for name in expand(pattern)? {
        let (id, new) = builder.add(&name)?;
        if !new {
            return Err(format!("host {name} is listed twice"));
        }
        if let Some(port) = port {
            builder.set(id, "port", port)?;
        }
        for label in labels {
            let (key, value) = pair(label)?;
            builder.set(id, key, value)?;
        }
    }
    Ok(())
}

fn ini(tree: &mut Tree, (group, kind): (&str, &str), line: &str) -> Result<(), String> {
    match kind {
        "vars" => {
            let (key, value) = line.split_once('=').ok_or_else(|| no_pair(line))?;
            tree.set_group(group, key.trim(), unquoted(value.trim()))
        }
        "children" => tree.child(group, line.split_whitespace().next().unwrap_or(line)),
        _ => {
            let words = words(line)?;
            let Some((first, vars)) = words.split_first() else { return Ok(()) };
            // The port behind the name is that of SSH.
            let (pattern, _) = address(first)?;
            for name in expand(pattern)? {
                tree.host(group, &name)?;
                for var in vars {
                    let (key, value) = pair(var)?;
                    tree.set_host(&name, key, value)?;
                }
            }
            Ok(())
        }
    }
}

/// The group of a section, and the kind of its lines: `[name]` has hosts, `[name:children]` and
/// `[name:vars]` have these. An address in brackets is no section.
fn section(line: &str) -> Option<(&str, &str)> {
    let line = line.split(" #").next().unwrap_or(line).trim_end();
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    if inner.is_empty() || inner.contains(['[', ']']) || inner.matches(':').count() > 1 {
        return None;
    }
    let (name, kind) = inner.split_once(':').unwrap_or((inner, "hosts"));
    Some((name.trim(), kind.trim()))
}

/// A name or address, and its port.
pub(super) fn address(text: &str) -> Result<(&str, Option<&str>), String> {
    let is_v6 = |text: &str| Address::parse(text).is_some_and(|at| at.ip.is_ipv6() && at.port.is_none());
    if !text.starts_with('[') && is_v6(text) {
        return Ok((text, None));
    }
    if let Some((inner, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']'))
        && is_v6(inner)
    {
        return match rest.strip_prefix(':') {
            _ if rest.is_empty() => Ok((inner, None)),
            Some(port) => build::port(port).map(|_| (inner, Some(port))),
            None => Err(format!("{text:?}: expected [ADDRESS]:PORT")),
        };
    }
    match text.rsplit_once(':') {
        // A colon within brackets is that of a range.
        Some((name, port)) if !port.contains(']') => build::port(port).map(|_| (name, Some(port))),
        _ => Ok((text, None)),
    }
}

/// The names that a pattern with ranges means: `web[01:12].example.org`, `db-[a:f]`, `[1:9:2]`.
pub(super) fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let Some((head, rest)) = pattern.split_once('[') else { return Ok(vec![pattern.to_owned()]) };
    let wrong = || format!("{pattern:?}: expected a range such as [01:12] or [a:f]");
    let (range, tail) = rest.split_once(']').ok_or_else(wrong)?;
    let mut parts = range.split(':');
    let (Some(first), Some(last)) = (parts.next(), parts.next()) else { return Err(wrong()) };
    let step: usize = parts.next().map_or(Ok(1), str::parse).map_err(|_| wrong())?;
    if step == 0 || parts.next().is_some() {
        return Err(wrong());
    }
    let middle: Vec<String> = match (first.parse::<u32>(), last.parse::<u32>()) {
        (Ok(a), Ok(b)) if a <= b && (b - a) as usize / step < MAX_HOSTS => {
            let width = if first.starts_with('0') { first.len() } else { 0 };
            if width > 10 {
                return Err(wrong());
            }
            (a..=b).step_by(step).map(|n| format!("{n:0width$}")).collect()
        }
        (Ok(_), Ok(_)) => return Err(wrong()),
        _ => {
            let letter = |text: &str| {
                let mut chars = text.chars();
                chars.next().filter(|c| c.is_ascii_alphabetic() && chars.next().is_none())
            };
            let (a, b) = letter(first).zip(letter(last)).filter(|(a, b)| a <= b).ok_or_else(wrong)?;
            (a..=b).step_by(step).map(String::from).collect()
        }
    };
    let tails = expand(tail)?;
    if middle.len().saturating_mul(tails.len()) > MAX_HOSTS {
        return Err(format!("{pattern:?} means more than {MAX_HOSTS} hosts"));
    }
    Ok(middle.iter().flat_map(|m| tails.iter().map(move |t| format!("{head}{m}{t}"))).collect())
}

fn pair(word: &str) -> Result<(&str, &str), String> {
    word.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| no_pair(word))
}

fn no_pair(word: &str) -> String {
    format!("{word:?}: expected NAME=VALUE, such as address=192.0.2.1")
}

fn unquoted(text: &str) -> &str {
    let within = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

/// The words of a line; quotes hold blanks together, a `#` at the start of a word begins a comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None if c == '#' && word.is_none() => break,
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}
