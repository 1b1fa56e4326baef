//! Flows of datagrams one by one, the worst first.

use crate::text::{Column, Page, Table, Tone, or_dash};
use crate::words;
use metrics::{Clamped, format_duration};
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
    let columns: [Column<&(&FlowRow, &'static str, &FlowWay)>; 11] = [
        ("local port", |(row, ..)| or_dash(row.local, |local| local.port().to_string())),
        ("direction", |(_, name, _)| (*name).to_owned()),
        ("sent", |(.., way)| or_dash(way.sent, |n| n.to_string())),
        ("received", |(.., way)| way.got.counts.received.to_string()),
        ("lost", |(.., way)| way.got.counts.lost.to_string()),
        ("reordered", |(.., way)| way.got.counts.reordered.to_string()),
        ("damaged", |(.., way)| way.got.counts.corrupt.to_string()),
        ("delay min", |(.., way)| {
            or_dash((way.got.delays > 0).then_some(way.got.delay_min_ns), format_duration)
        }),
        ("mean", |(.., way)| or_dash(way.got.delay_mean_ns(), format_duration)),
        ("max", |(.., way)| or_dash((way.got.delays > 0).then_some(way.got.delay_max_ns), format_duration)),
        ("", |(.., way)| match (way.lossy, way.slow) {
            (true, true) => "loses more, slower".to_owned(),
            (true, false) => "loses more".to_owned(),
            (false, slow) => if slow { "slower" } else { "" }.to_owned(),
        }),
    ];
    let rows = ways.iter().take(MOST_SHOWN).map(|row| {
        let (flow, _, way) = row;
        (Tone::bad_if(way.lossy || way.slow), flow.flow.to_string(), row)
    });
    page.section(&Table::of("Flow", &columns, rows))?;
    page.more(u64::clamped(ways.len().saturating_sub(MOST_SHOWN)), ", in the JSON")?;
    let text = if odd == 0 {
        "no flow fares worse than the others by more than chance".to_owned()
    } else {
        format!(
            "{} worse than the others: where paths are chosen by address and port, one of them may be bad",
            if odd == 1 {
                "one flow fares".to_owned()
            } else {
                format!("{} fare", words::count(u64::clamped(odd), "flow"))
            }
        )
    };
    page.paragraph(if odd == 0 { Tone::Plain } else { Tone::Warning }, "  ", &text)
}
