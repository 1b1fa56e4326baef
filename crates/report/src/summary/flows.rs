//! Flows of datagrams one by one, those that fare worse than the others first.

use crate::text::{Page, Table, Tone};
use crate::words;
use metrics::{format_duration, real};
use model::{FlowRow, FlowWay, Point};
use std::io;

/// Flows shown; the JSON has all.
const MOST_SHOWN: usize = 32;

/// The table of `point`'s flows, if it has several.
pub(super) fn write(point: &Point, page: &mut Page<'_>) -> io::Result<()> {
    if point.flows.is_empty() {
        return Ok(());
    }
    let mut ways: Vec<(&FlowRow, &'static str, &FlowWay)> = point
        .flows
        .iter()
        .flat_map(|row| {
            let up = row.up.as_ref().map(|way| (row, "to server", way));
            let down = row.down.as_ref().map(|way| (row, "from server", way));
            up.into_iter().chain(down)
        })
        .collect();
    let odd = ways.iter().filter(|(.., way)| way.lossy || way.slow).count();
    ways.sort_by_key(|(row, name, way)| (!(way.lossy || way.slow), *name, row.flow));
    let mut table = Table::new(&[
        "Flow",
        "local port",
        "direction",
        "sent",
        "received",
        "lost",
        "reordered",
        "damaged",
        "delay min",
        "mean",
        "max",
        "",
    ]);
    for (row, name, way) in ways.iter().take(MOST_SHOWN) {
        let (sums, counts) = (&way.got, &way.got.counts);
        let mut cells = vec![row.flow.to_string()];
        cells.push(row.local.map_or("-".to_owned(), |local| local.port().to_string()));
        cells.push((*name).to_owned());
        cells.push(way.sent.map_or("-".to_owned(), |n| n.to_string()));
        cells.extend([counts.received.to_string(), counts.lost.to_string()]);
        cells.extend([counts.reordered, counts.corrupt].map(|n| n.to_string()));
        let known = |value: Option<f64>| value.map_or("-".to_owned(), format_duration);
        let some = |ns: u64| (sums.delays > 0).then_some(real(ns));
        cells.extend([
            known(some(sums.delay_min_ns)),
            known(sums.delay_mean_ns()),
            known(some(sums.delay_max_ns)),
        ]);
        let mut marks = Vec::new();
        marks.extend(way.lossy.then_some("loses more"));
        marks.extend(way.slow.then_some("slower"));
        cells.push(marks.join(", "));
        table.row(if marks.is_empty() { Tone::Plain } else { Tone::Bad }, cells);
    }
    page.gap()?;
    page.table(&table)?;
    let rest = ways.len().saturating_sub(MOST_SHOWN);
    if rest > 0 {
        page.line(Tone::Plain, &format!("  and {rest} more, in the JSON"))?;
    }
    let text = if odd == 0 {
        "no flow fares worse than the others by more than chance".to_owned()
    } else {
        format!(
            "{} worse than the others: where paths are chosen by address and port, one of them may be bad",
            if odd == 1 {
                "one flow fares".to_owned()
            } else {
                format!("{} fare", words::count(odd as u64, "flow"))
            }
        )
    };
    page.paragraph(if odd == 0 { Tone::Plain } else { Tone::Warning }, "  ", &text)
}
