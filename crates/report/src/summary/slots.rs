//! Sweeps over datagrams: load, loss and delay of every slot, and the knee.

use super::packets::share;
use crate::text::{Page, Table, Tone};
use crate::words;
use metrics::{Spread, format_bits_per_second, format_duration};
use model::{Slot, SweepRow};
use std::io;

/// Loss from which a row is coloured.
const NOTABLE: f64 = 0.001;

/// Both directions, a table each.
pub(super) fn write(rows: &[SweepRow], page: &mut Page<'_>) -> io::Result<()> {
    type Side = (&'static str, fn(&SweepRow) -> Option<Slot>, fn(&SweepRow) -> Option<Spread>);
    let sides: [Side; 2] =
        [("to server", |r| r.up_slot, |r| r.up), ("from server", |r| r.down_slot, |r| r.down)];
    let mut gap = false;
    for (name, slot, received) in sides {
        if rows.iter().all(|row| slot(row).is_none()) {
            continue;
        }
        if std::mem::replace(&mut gap, true) {
            page.gap()?;
        }
        side(name, rows, slot, received, page)?;
    }
    Ok(())
}

fn side(
    name: &str,
    rows: &[SweepRow],
    slot: fn(&SweepRow) -> Option<Slot>,
    received: fn(&SweepRow) -> Option<Spread>,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let names: Vec<&String> = rows.first().map_or_else(Vec::new, |row| row.label.keys().collect());
    let mut header: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
    header.extend(
        ["runs", "sent at", "received at", "loss", "delay p50", "p99", "right to ±", ""].map(str::to_owned),
    );
    let mut table = Table::under(header);
    let shown = |value: Option<Spread>, show: fn(f64) -> String| {
        value.map_or("-".to_owned(), |spread| show(spread.mean))
    };
    for row in rows {
        let Some(slot) = slot(row) else { continue };
        let mut cells: Vec<String> = names
            .iter()
            .map(|name| row.label.get(*name).map_or("-".to_owned(), |value| words::value(name, value)))
            .collect();
        cells.push(slot.sent_bps.map_or(0, |spread| spread.n).to_string());
        cells.push(shown(slot.sent_bps, format_bits_per_second));
        cells.push(shown(received(row), format_bits_per_second));
        cells.push(shown(slot.loss, share));
        cells.push(shown(slot.p50_ns, format_duration));
        cells.push(shown(slot.p99_ns, format_duration));
        cells.push(slot.clock_bound_ns.map_or("-".to_owned(), format_duration));
        cells.push(if slot.knee { "<- knee" } else { "" }.to_owned());
        let tone = match slot.loss {
            _ if slot.knee => Tone::Heading,
            Some(loss) if loss.mean > NOTABLE => Tone::Bad,
            _ => Tone::Plain,
        };
        table.row(tone, cells);
    }
    page.line(Tone::Heading, &format!("Datagrams {name}, slot by slot (as the receiver counted them)"))?;
    page.table(&table)?;
    let knee = rows.iter().filter_map(slot).any(|slot| slot.knee);
    let text = if knee {
        "the knee is where throughput over delay (Kleinrock's power) is largest: beyond it a queue grows, or things are lost"
    } else {
        "no knee: throughput over delay is largest where most was sent; the knee lies beyond this sweep"
    };
    page.paragraph(Tone::Plain, "  ", text)
}
