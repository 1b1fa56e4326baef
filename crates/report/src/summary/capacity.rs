//! Capacity tests: the rate of the best sub-interval by layer, and all sub-intervals.

use crate::text::{Column, Page, Table, Tone, or_dash};
use crate::words;
use metrics::{Clamped, format_bits_per_second, format_duration, format_percent, real};
use model::{Capacity, DelayVariation, Point, SubInterval};

/// Sub-intervals shown; the JSON has all.
const MOST_SHOWN: usize = 60;

fn way(found: &Capacity) -> &'static str {
    if found.upstream { "to server" } else { "from server" }
}

/// The result in a few words.
pub(super) fn result_words(point: &Point) -> Vec<String> {
    let Some(found) = point.capacity.as_deref() else {
        return vec!["no sub-interval was reported".to_owned()];
    };
    let rate = format_bits_per_second(found.ip_bps);
    let (received, lost) = found.datagrams();
    let share = 100.0 * real(lost) / real(received.saturating_add(lost).max(1));
    let answer = format!("IP capacity {rate} {}", way(found));
    let mean = format!("mean {}", format_bits_per_second(found.mean_bps));
    vec![answer, mean, format!("{} lost", format_percent(share))]
}

/// The answer by layer, and the sub-intervals.
pub(super) fn write(point: &Point, page: &mut Page<'_>) {
    let Some(found) = point.capacity.as_deref() else {
        return page.line(Tone::Bad, "No sub-interval was reported");
    };
    let title = format!("Maximum IP-layer capacity {} (as the receiver counted it)", way(found));
    page.line(Tone::Heading, &title);
    let mut row = |name: &str, bps: f64, text: &str| {
        page.paragraph(Tone::Plain, &format!("  {name:<14}{:>12}  ", format_bits_per_second(bps)), text);
    };
    let best = found.sub_interval(found.best);
    let when = best.map_or_else(String::new, |one| {
        let length = one.end_ms.saturating_sub(start_ms(found, found.best));
        let ns = |ms: u32| real(u64::from(ms)) * 1e6;
        format!(", {} until {}", format_duration(ns(length)), format_duration(ns(one.end_ms)))
    });
    row(
        "IP packets",
        found.ip_bps,
        &format!("best sub-interval, {} of {}{when}", found.best, found.sub_intervals.len()),
    );
    let overhead = format!("the same with {} octets of lower layers for each packet", found.overhead);
    row("link", found.link_bps, &overhead);
    row("UDP payload", found.payload_bps, "the same without the headers of IP and UDP");
    row("mean", found.mean_bps, "IP packets over all sub-intervals");
    for (name, place) in
        found.modes.into_iter().flat_map(|(one, two)| [("first mode", one), ("second mode", two)])
    {
        let bps = found.sub_interval(place).map_or(0.0, |one| one.ip_bps);
        row(name, bps, &format!("best sub-interval of this part, {place}"));
    }
    if let Some(ms) = found.round_trip_min_ms {
        let at_most = if found.connections > 1 { ", the shortest of the connections" } else { "" };
        let text = format!("  round trip {ms} ms at least, in whole milliseconds{at_most}");
        page.line(Tone::Plain, &text);
    }
    page.gap();
    let columns: [Column<&(u32, &SubInterval)>; 7] = [
        ("IP packets", |(_, one)| format_bits_per_second(one.ip_bps)),
        ("received", |(_, one)| one.received.to_string()),
        ("lost", |(_, one)| one.lost.to_string()),
        ("loss", |(_, one)| format_percent(one.loss_percent())),
        ("overtaken", |(_, one)| one.reordered.to_string()),
        ("delay variation", |(_, one)| variation(one.delay)),
        ("round trip above least", |(_, one)| variation(one.round_trip)),
    ];
    let all: Vec<(u32, &SubInterval)> = (1..).zip(&found.sub_intervals).collect();
    let rows = all.iter().take(MOST_SHOWN).map(|one| {
        let mark = if one.0 == found.best { " best" } else { "" };
        (Tone::Plain, format!("{}{mark}", one.0), one)
    });
    page.table(&Table::of("Sub-interval", &columns, rows));
    page.more(u64::clamped(all.len().saturating_sub(MOST_SHOWN)), ", in the JSON");
}

/// The end of the sub-interval before this one, ms.
fn start_ms(found: &Capacity, place: u32) -> u32 {
    found.sub_interval(place.saturating_sub(1)).map_or(0, |one| one.end_ms)
}

/// `0/2/5 ms`: least, mean, most.
fn variation(of: Option<DelayVariation>) -> String {
    or_dash(of, |DelayVariation { min_ms, mean_ms, max_ms }| format!("{min_ms}/{mean_ms}/{max_ms} ms"))
}

/// `to the server, 2 connections, algorithm B, 10.0 s, …`
pub(crate) fn settings(phase: &model::Phase) -> Vec<String> {
    let Some(asked) = phase.capacity else { return Vec::new() };
    let connections = words::count(phase.connections.into(), "connection");
    let mut all = vec![words::way(phase).to_owned(), connections];
    all.push(match (asked.row, asked.start) {
        (Some(row), false) => format!("fixed row {row}"),
        (Some(row), true) => format!("algorithm {:?} from row {row}", asked.search.algorithm),
        (None, _) => format!("algorithm {:?}", asked.search.algorithm),
    });
    all.extend(phase.duration_ns.map(format_duration));
    all.push(format!("sub-intervals of {}", format_duration(real(u64::from(asked.sub_interval_ms)) * 1e6)));
    all.extend((asked.first_mode > 0).then(|| format!("split after {}", asked.first_mode)));
    all.extend(asked.traditional.then(|| "packets of 1500 bytes".to_owned()));
    all.extend((!asked.jumbo).then(|| "no jumbo datagrams".to_owned()));
    all.extend(phase.rate.map(|rate| format!("at most {} a connection", format_bits_per_second(rate))));
    all
}
