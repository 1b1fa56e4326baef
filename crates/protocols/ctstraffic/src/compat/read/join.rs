//! Connection tables of several hosts, joined by the identifiers that both ends know.

use super::{ConnectionLine, Connections};
use crate::compat::spec::Transport;
use std::collections::BTreeMap;

/// Connections listed of each kind.
const MOST_LISTED: usize = 50;

/// A connection in one of the files.
type Seen<'a> = (usize, &'a ConnectionLine);

pub(super) fn report(files: &[(&str, &Connections)], lines: &mut Vec<String>) {
    let mut by_id: BTreeMap<&str, Vec<Seen<'_>>> = BTreeMap::new();
    for (file, (_, table)) in files.iter().enumerate() {
        for row in table.rows.iter().filter(|row| !row.id.is_empty()) {
            by_id.entry(&row.id).or_default().push((file, row));
        }
    }
    let both: Vec<(&str, &[Seen<'_>])> = by_id
        .iter()
        .filter(|(_, seen)| seen.iter().any(|(file, _)| *file != seen[0].0))
        .map(|(id, seen)| (*id, seen.as_slice()))
        .collect();
    lines.push(format!("Joined by ConnectionId: {} connections are in two files", both.len()));
    disagreements(files, &both, lines);
    for (file, (name, table)) in files.iter().enumerate() {
        let alone = by_id.iter().filter(|(_, seen)| seen.iter().all(|(at, _)| *at == file));
        let mut alone: Vec<&ConnectionLine> = alone.map(|(_, seen)| seen[0].1).collect();
        alone.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        lines.push(format!("Only in {name}: {} connections", alone.len()));
        for row in alone.iter().take(MOST_LISTED) {
            lines.push(format!(
                "  {} at {:.3} s, [{} - {}]: {}",
                row.id, row.at_s, row.local, row.remote, row.result
            ));
        }
        if alone.len() > MOST_LISTED {
            lines.push(format!("  and {} more", alone.len() - MOST_LISTED));
        }
        let nameless = table.rows.iter().filter(|row| row.id.is_empty()).count();
        if nameless > 0 {
            lines.push(format!("and {nameless} without an identifier: they failed before its arrival"));
        }
    }
}

/// Connections whose two ends differ: in the result, in the moved bytes, in their addresses.
fn disagreements(files: &[(&str, &Connections)], both: &[(&str, &[Seen<'_>])], lines: &mut Vec<String>) {
    let (mut results, mut bytes, mut translated) = (Vec::new(), Vec::new(), 0);
    for (id, seen) in both {
        let Some((a, b)) = ends(seen) else { continue };
        if a.1.result != b.1.result {
            results.push((*id, a, b));
        }
        let tcp = files[a.0].1.transport == Transport::Tcp;
        let (x, y) = (&a.1.numbers, &b.1.numbers);
        if tcp && (x[0], x[2]) != (y[2], y[0]) {
            bytes.push((*id, a, b));
        }
        translated += usize::from(a.1.local != b.1.remote || a.1.remote != b.1.local);
    }
    lines.push(format!("  {} ended differently, {} moved different bytes", results.len(), bytes.len()));
    for (id, a, b) in results.iter().take(MOST_LISTED) {
        lines.push(format!("  {id}: {} ({}), {} ({})", a.1.result, files[a.0].0, b.1.result, files[b.0].0));
    }
    for (id, a, b) in bytes.iter().take(MOST_LISTED) {
        let (x, y) = (&a.1.numbers, &b.1.numbers);
        let (one, other) = (files[a.0].0, files[b.0].0);
        lines.push(format!(
            "  {id}: {} sent by {one}, {} received by {other}; {} the other way, {} received",
            x[0], y[2], y[0], x[2]
        ));
    }
    if translated > 0 {
        lines.push(format!(
            "  {translated} have other addresses at their two ends: there is a NAT or a wildcard between"
        ));
    }
}

/// The two ends of a connection: its first rows in two different files.
fn ends<'a>(seen: &[Seen<'a>]) -> Option<(Seen<'a>, Seen<'a>)> {
    let first = *seen.first()?;
    let other = seen.iter().find(|(file, _)| *file != first.0)?;
    Some((first, *other))
}
