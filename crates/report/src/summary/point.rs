//! One phase in full: goodput or connections per second, the connections, and where they went.

use super::{capacity, extras, hosts, margin, marking, packets, pings, trains};
use crate::console::Style;
use crate::text::{Column, Page, TIMES, Table, Tone, or_dash, up_to};
use crate::words;
use metrics::{
    Clamped, DistSummary, Remote, Spread, format_bits_per_second, format_bytes, format_duration,
    format_percent, percent_of, real, seconds,
};
use model::{Begin, CauseCount, Direction, Kind, Point, Status, Totals};

/// Remote addresses listed; the JSON has all.
const MAX_REMOTES: usize = 20;

/// Writes all about `point`.
pub(super) fn write(point: &Point, begin: &Begin, style: Style, page: &mut Page<'_>) {
    let serving = begin.verb == "serve";
    let setting = words::setting(&point.label, point.repeat);
    if !setting.is_empty() {
        page.paragraph(Tone::Heading, "", &format!("{setting}: {}", words::phase(&point.phase)));
    }
    if nothing(point) {
        page.line(Tone::Bad, "Nothing was measured");
        return failures(point, page);
    }
    extras::write(point, page);
    if extras::any(point) && (point.phase.kind != Kind::Train || point.trains.is_some()) {
        page.gap();
    }
    let kind = point.phase.kind;
    let datagrams = match kind {
        Kind::Stream => point.phase.probe.is_some(),
        kind => matches!(kind, Kind::Delay | Kind::Train),
    };
    match kind {
        Kind::Connect => established(point, page),
        Kind::Capacity if serving => packets::write(point, page),
        Kind::Capacity => capacity::write(point, page),
        Kind::Ping if serving => {}
        Kind::Ping => pings::write(point, style.linear_ns, page),
        Kind::Tcp => goodput(point, serving, page),
        Kind::Stream if datagrams => {
            packets::frames(point, page);
            page.gap();
            packets::write(point, page);
        }
        Kind::Stream => streams(point, serving, page),
        Kind::Delay | Kind::Train => {
            if kind == Kind::Train {
                trains::write(point, style.verbose, page);
                page.gap();
            }
            if !extras::only_trips(point) {
                packets::write(point, page);
            }
            packets::flows(point, page);
        }
    }
    if datagrams {
        failures(point, page);
        marking::write(point, page);
        return hosts::write(point, begin, style.verbose, page);
    }
    connections(point, page);
    failures(point, page);
    if kind == Kind::Tcp {
        rates(point, page);
    }
    times(point, page);
    if kind == Kind::Connect {
        histogram(point.local.connect_ns.as_ref(), page);
    }
    remotes(&point.local, page);
    marking::write(point, page);
    hosts::write(point, begin, style.verbose, page);
}

/// True if not even one connection was established.
pub(super) fn nothing(point: &Point) -> bool {
    point.status == Status::Failed && point.local.opened == 0
}

/// The result: the receivers' counts, with the senders' beside them.
fn goodput(point: &Point, serving: bool, page: &mut Page<'_>) {
    page.line(Tone::Heading, "Goodput (as the receiver counted it)");
    let (client, server) =
        if serving { ("the clients", "this server") } else { ("the client", "the server") };
    if let Some(up) = &point.up {
        direction("client to server", up, (client, server), serving, page);
    }
    if let Some(down) = &point.down {
        direction("server to client", down, (server, client), serving, page);
    }
    if let (Some(up), Some(down)) = (&point.up, &point.down) {
        let both = format_bits_per_second(up.goodput_bps + down.goodput_bps);
        page.line(Tone::Plain, &format!("  {:<16}  {both:>12}", "both directions"));
    }
    if point.up.is_none() && point.down.is_none() {
        // Traffic of other protocols was printed test by test.
        let what = if serving { "  nothing moved over the native protocol" } else { "  no data moved" };
        page.line(Tone::Plain, what);
    }
}

/// The result of media streams: frames as their receiver judged them, and received bytes.
fn streams(point: &Point, serving: bool, page: &mut Page<'_>) {
    let local = &point.local;
    if serving {
        page.line(Tone::Heading, "Streams sent (what arrives is known to the receivers alone)");
        let (sent, time) = (format_bytes(local.traffic.tx_bytes), format_duration(local.traffic.ns));
        return page.line(Tone::Plain, &format!("  sent: {sent} in {time}"));
    }
    page.line(Tone::Heading, "Frames (as the receiver judged them when they were to be shown)");
    let frames = local.frames.unwrap_or_default();
    let judged = frames.judged();
    let share = |n: u64| or_dash((judged > 0).then(|| percent_of(n, judged)), format_percent);
    let mut row = |name: &str, n: u64, share: &str, text: &str| {
        let tone = if name != "whole" && n > 0 { Tone::Warning } else { Tone::Plain };
        page.paragraph(tone, &format!("  {name:<10}{n:>12}  {share:>10}  "), text);
    };
    row("whole", frames.completed, &share(frames.completed), "every byte had come in time");
    row("dropped", frames.dropped, &share(frames.dropped), "bytes were missing: lost, or too late");
    row("repeated", frames.repeated, &share(frames.repeated), "more bytes arrived than the frame has");
    if frames.errors > 0 {
        row("stray", frames.errors, "", "datagrams of frames that were shown already, or far ahead");
    }
    if local.traffic.ns == 0 {
        // A file with a table of frames has no bytes.
        return;
    }
    let (received, time) = (format_bytes(local.traffic.rx_bytes), format_duration(local.traffic.ns));
    let text = format!("  received: {received} in {time}, the time that frames are held included");
    page.line(Tone::Plain, &text);
}

/// One direction: the receiver's figure, the sender's under it, and the spread over the intervals.
/// A server never hears its clients' counts; for anybody else it is alarming when the receiver's is
/// missing.
fn direction(name: &str, of: &Direction, (from, to): (&str, &str), serving: bool, page: &mut Page<'_>) {
    let mut line = |tone, name: &str, bps: f64, text: &str| {
        let lead = format!("  {name:<16}  {:>12}  ", format_bits_per_second(bps));
        page.paragraph(tone, &lead, text);
    };
    let sent = format!("sent: {}, counted by {from}", format_bytes(of.sent_bytes));
    if of.confirmed {
        let text = format!("received: {}, counted by {to}", format_bytes(of.received_bytes));
        line(Tone::Plain, name, of.goodput_bps, &text);
        if let Some(bps) = of.sent_bps().filter(|_| of.sent_bytes > 0) {
            line(Tone::Plain, "", bps, &sent);
        }
    } else if serving {
        line(Tone::Plain, name, of.sent_bps, &format!("{sent}; the receivers' counts are theirs"));
    } else {
        line(Tone::Warning, name, of.sent_bps, &format!("{sent}; NOT CONFIRMED by {to}"));
    }
    if let Some(spread) = &of.per_interval {
        per_interval(spread, format_bits_per_second, page);
    }
}

/// The spread of a rate over the intervals.
fn per_interval(s: &Spread, show: fn(f64) -> String, page: &mut Page<'_>) {
    let mut text = format!("mean {}", show(s.mean));
    if s.n > 1 {
        text.push_str(&format!(
            "{}, sd {}, min {}, max {}",
            margin(s, show).map_or_else(String::new, |text| format!(" ({text})")),
            show(s.sd),
            show(s.min),
            show(s.max)
        ));
    }
    page.paragraph(Tone::Plain, &format!("    {:<14}  ", words::count(s.n, "interval")), &text);
}

/// The result of `connect`.
fn established(point: &Point, page: &mut Page<'_>) {
    let rate = |value: f64| format!("{value:.0}/s");
    let (opened, ns) = point.established();
    page.line(Tone::Heading, "Connections established (as the client counted them)");
    let per_second = point.connects_per_second().map_or("-".to_owned(), rate);
    page.line(Tone::Plain, &format!("  {per_second:>12}  {opened} in {}", format_duration(ns)));
    if let Some(spread) = point.connects_per_interval() {
        per_interval(&spread, rate, page);
    }
}

/// Endings of connections, as each end counted them.
fn connections(point: &Point, page: &mut Page<'_>) {
    let columns: [Column<&Totals>; 7] = [
        ("opened", |t| t.opened.to_string()),
        ("completed", |t| t.completed.to_string()),
        ("stopped", |t| t.stopped.to_string()),
        ("network err", |t| t.network_errors.to_string()),
        ("data err", |t| t.data_errors.to_string()),
        ("protocol err", |t| t.protocol_errors.to_string()),
        ("peak", |t| t.peak.to_string()),
    ];
    let rows = hosts::ends(point).map(|(name, totals)| (Tone::bad_if(totals.errors() > 0), name, totals));
    page.section(&Table::of("Connections", &columns, rows));
}

/// Errors, the most frequent first, with the first example of each.
fn failures(point: &Point, page: &mut Page<'_>) {
    let all: Vec<(String, &CauseCount)> = hosts::ends(point)
        .flat_map(|(name, totals)| totals.causes.iter().map(move |cause| (name.clone(), cause)))
        .collect();
    if all.is_empty() {
        return;
    }
    page.gap();
    page.line(Tone::Heading, "Failures by cause");
    for (name, cause) in all {
        let what = format!("{} ({}, counted by {name})", cause.text, words::ending(cause.class));
        page.paragraph(Tone::Bad, &format!("  {:>7} x ", cause.count), &what);
        if !cause.first.is_empty() && cause.first != cause.text {
            page.paragraph(Tone::Plain, "            first: ", &cause.first);
        }
    }
}

/// Rates of single connections and how evenly they shared.
fn rates(point: &Point, page: &mut Page<'_>) {
    let mut table = Table::new("Rates (this end)|min|mean|p50|p90|p99|max|count");
    if let Some(d) = &point.local.rate {
        let bits = |bytes: f64| format_bits_per_second(bytes * 8.0);
        let percentiles = [(0.5, d.p50), (0.9, d.p90), (0.99, d.p99)];
        let shown = percentiles.map(|(q, value)| or_dash(d.is_shown(q).then(|| real(value)), bits));
        let mut cells = vec!["of a connection".to_owned(), bits(real(d.min)), bits(d.mean)];
        cells.extend(shown);
        cells.extend([bits(real(d.max)), d.count.to_string()]);
        table.row(Tone::Plain, cells);
    }
    page.section(&table);
    let Some(jain) = point.fairness else { return };
    page.line(Tone::Plain, &format!("  Jain's fairness index {jain:.3} (1 is even)"));
}

/// Connect times and lifetimes of connections.
fn times(point: &Point, page: &mut Page<'_>) {
    let mut table = Table::new(&format!("Times (this end)|{TIMES}"));
    table.times("to connect", point.local.connect_ns.as_ref());
    table.times("transfer", point.local.transfer_ns.as_ref());
    table.times("paced sends late by", point.local.late_ns.as_ref());
    page.section(&table);
}

/// Connect times as bars, ten to a decade or coarser.
fn histogram(dist: Option<&DistSummary>, page: &mut Page<'_>) {
    let Some(dist) = dist.filter(|d| !d.buckets.is_empty()) else { return };
    page.bars("Time to connect, connections up to each bound", &up_to(dist.buckets.clone()));
}

/// Counts of each remote address; addresses with failures are first.
fn remotes(local: &Totals, page: &mut Page<'_>) {
    if local.remotes.is_empty() {
        return;
    }
    let mut all: Vec<_> = local.remotes.iter().collect();
    all.sort_by_key(|(_, r)| std::cmp::Reverse((r.failed, r.connections)));
    let columns: [Column<&Remote>; 6] = [
        ("connections", |r| r.connections.to_string()),
        ("failed", |r| r.failed.to_string()),
        ("sent to it", |r| format_bytes(r.tx_bytes)),
        ("received from it", |r| format_bytes(r.rx_bytes)),
        ("mean rate", |r| match r.time_ns {
            0 => format_bits_per_second(0),
            ns => format_bits_per_second(real(r.tx_bytes + r.rx_bytes) * 8.0 / seconds(ns)),
        }),
        ("mean time", |r| format_duration(real(r.time_ns) / real(r.connections.max(1)))),
    ];
    let shown = all.iter().take(MAX_REMOTES);
    let rows = shown.map(|(address, r)| (Tone::bad_if(r.failed > 0), address.to_string(), *r));
    page.section(&Table::of("By remote address", &columns, rows));
    page.more(u64::clamped(all.len().saturating_sub(MAX_REMOTES)), ", in the JSON");
}
