//! Datagrams: what became of them and how long they took, one direction at a time.

use crate::text::{Page, Table, Tone};
use metrics::{ClockKind, DistSummary, format_bits_per_second, format_duration, real};
use model::{DelayRange, PacketReport, Point, Totals};
use std::io;

/// One direction: who sent, who received.
struct Way<'a> {
    name: &'static str,
    sent: Option<&'a PacketReport>,
    /// The result; `None` when its receiver never told it.
    got: Option<&'a PacketReport>,
    goodput_bps: Option<f64>,
}

/// The directions in which something was to go. Several servers are told as one, as far as that goes.
fn ways<'a>(point: &'a Point, far: Option<&'a PacketReport>) -> Vec<Way<'a>> {
    let near = point.near.packets.as_deref();
    let pattern = point.phase.pattern;
    let mut all = Vec::new();
    if pattern.sends_up() {
        let goodput_bps = point.up.filter(|d| d.confirmed).map(|d| d.goodput_bps);
        all.push(Way { name: "to server", sent: near, got: far, goodput_bps });
    }
    if pattern.sends_down() {
        let goodput_bps = point.down.map(|d| d.goodput_bps);
        all.push(Way { name: "from server", sent: far, got: near, goodput_bps });
    }
    all
}

fn together(far: &[Totals]) -> Option<PacketReport> {
    far.iter().filter_map(|totals| totals.packets.as_deref()).cloned().reduce(|mut all, one| {
        all.beside(&one);
        all
    })
}

/// The result in a few words.
pub(super) fn found(point: &Point) -> Vec<String> {
    let far = together(&point.far);
    let words = |way: &Way<'_>| {
        let got = way.got?;
        let loss = got.loss().map_or("nothing received".to_owned(), |loss| format!("{} lost", share(loss)));
        let delay = got.delay_ns.as_ref().map(|d| format!(", delay p50 {}", format_duration(d.p50)));
        Some(format!("{}: {loss}{}", way.name, delay.unwrap_or_default()))
    };
    ways(point, far.as_ref()).iter().filter_map(words).collect()
}

/// All about `point`.
pub(super) fn write(point: &Point, page: &mut Page<'_>) -> io::Result<()> {
    let far = together(&point.far);
    let ways = ways(point, far.as_ref());
    counts(&ways, page)?;
    times(&ways, page)?;
    for way in &ways {
        remarks(way, point.phase.probe.is_some_and(|probe| probe.tx_stamps), page)?;
    }
    Ok(())
}

fn counts(ways: &[Way<'_>], page: &mut Page<'_>) -> io::Result<()> {
    let header = [
        "Datagrams (receiver's count)",
        "sent",
        "received",
        "lost",
        "loss",
        "repeated",
        "reordered",
        "late",
        "damaged",
        "rate",
    ];
    let mut table = Table::new(&header);
    for way in ways {
        let sent = way.sent.map_or("-".to_owned(), |report| report.counts.sent.to_string());
        let Some(got) = way.got else {
            let mut cells = vec![way.name.to_owned(), sent, "NOT CONFIRMED".to_owned()];
            cells.resize(header.len(), "-".to_owned());
            table.row(Tone::Bad, cells);
            continue;
        };
        let c = &got.counts;
        let mut cells = vec![way.name.to_owned(), sent, c.received.to_string(), c.lost.to_string()];
        cells.push(got.loss().map_or("-".to_owned(), share));
        cells.extend([c.duplicated, c.reordered, c.late, c.corrupt].map(|n| n.to_string()));
        cells.push(way.goodput_bps.map_or("-".to_owned(), format_bits_per_second));
        let bad = c.lost > 0 || c.corrupt > 0;
        table.row(if bad { Tone::Bad } else { Tone::Plain }, cells);
    }
    page.table(&table)
}

fn times(ways: &[Way<'_>], page: &mut Page<'_>) -> io::Result<()> {
    let mut table =
        Table::new(&["One-way delay", "min", "mean", "p50", "p90", "p99", "p99.9", "max", "count"]);
    let mut ranges = Vec::new();
    let mut row = |name: String, dist: Option<&DistSummary>| {
        let Some(d) = dist else { return };
        let values = [real(d.min), d.mean, real(d.p50), real(d.p90), real(d.p99), real(d.p999), real(d.max)];
        let mut cells = vec![name];
        cells.extend(values.map(format_duration));
        cells.push(d.count.to_string());
        table.row(Tone::Plain, cells);
    };
    for way in ways {
        if let Some(got) = way.got {
            row(way.name.to_owned(), got.delay_ns.as_ref());
            if let Some(range) = got.delay_range_ns {
                ranges.push((way.name.to_owned(), range));
            }
            row("  from the intended send".to_owned(), got.intended_ns.as_ref());
            row("  variation (IPDV)".to_owned(), got.ipdv_ns.as_ref());
        }
        if let Some(sent) = way.sent {
            row("  sends late by".to_owned(), sent.late_ns.as_ref());
            row("  in the sender's system".to_owned(), sent.stack_ns.as_ref());
        }
    }
    for (name, DelayRange { min, mean, max }) in ranges {
        let mut cells = vec!["-".to_owned(); 9];
        let told = [(1, min.map(real)), (2, Some(mean)), (7, Some(real(max)))];
        told.into_iter().for_each(|(at, ns)| cells[at] = ns.map_or("-".to_owned(), format_duration));
        cells[0] = name;
        table.row(Tone::Plain, cells);
    }
    if table.is_empty() {
        return Ok(());
    }
    page.gap()?;
    page.table(&table)
}

/// What the tables have no column for.
fn remarks(way: &Way<'_>, asked: bool, page: &mut Page<'_>) -> io::Result<()> {
    let mut words = Vec::new();
    if let Some(got) = way.got {
        words.extend(got.clock_bound_ns.map(|ns| {
            let how = match got.clock {
                None => "",
                Some(ClockKind::InBand) => " (clocks compared over the path)",
                Some(ClockKind::Realtime) => " (by the wall clocks)",
                Some(ClockKind::SameHost) => " (one host's clock)",
            };
            format!("delays are right to ±{}{how}", format_duration(ns))
        }));
        words.extend(got.jitter_ns.map(|ns| {
            let largest =
                got.jitter_max_ns.map(|ns| format!(", in an interval up to {}", format_duration(ns)));
            format!("jitter (RFC 3550) {}{}", format_duration(ns), largest.unwrap_or_default())
        }));
        if let Some(d) = &got.delay_ns {
            let above = format_duration(d.p99.saturating_sub(d.min));
            words.push(format!("p99 {above} above the minimum (PDV)"));
        }
        let of = |n: Option<u64>, words: fn(u64) -> String| n.filter(|&n| n > 0).map(words);
        words.extend(of(got.longest_loss, |n| format!("longest loss {n} in a row")));
        words.extend(of(got.max_extent, |n| format!("reordered by up to {n}")));
        words.extend(of(Some(got.counts.dropped), |n| format!("{n} dropped by the receiver's own buffer")));
        words.push(stamps(got));
        words.extend(of(Some(got.card_refused), |n| format!("{n} stamps of the card not believed")));
        words.extend(of(Some(got.card_unplaced), |n| {
            format!("{n} stamps of the card not placed (its clock could not be read)")
        }));
        words.extend(got.marks.ttl.map(|(low, high)| {
            if low == high { format!("TTL {low}") } else { format!("TTL {low} to {high}") }
        }));
        words.extend(got.marks.dscp.filter(|d| d.1 > 0).map(|(low, high)| {
            if low == high { format!("DSCP {low}") } else { format!("DSCP {low} to {high}") }
        }));
        words.extend(
            (got.marks.ecn[3] > 0).then(|| format!("{} marked for congestion (CE)", got.marks.ecn[3])),
        );
    }
    if let Some(sent) = way.sent {
        words.push(match (&sent.stack_ns, asked) {
            (Some(d), _) if sent.card_sent > 0 => format!(
                "transmit stamps of {} sends, {} of them the network card's (right to ±{} by that host's clock)",
                d.count,
                sent.card_sent,
                format_duration(sent.card_sent_bound_ns)
            ),
            (Some(d), _) => format!("kernel transmit stamps of {} sends", d.count),
            (None, true) => "no transmit stamps came: send times by the program".to_owned(),
            (None, false) => "send times by the program".to_owned(),
        });
        words.extend(
            (sent.blocked_ns > 0).then(|| {
                format!("the sender waited {} for its full socket", format_duration(sent.blocked_ns))
            }),
        );
        words.extend(
            (sent.counts.unsent > 0)
                .then(|| format!("{} not sent (too late, or refused)", sent.counts.unsent)),
        );
        words.extend(
            (sent.counts.refused > 0)
                .then(|| format!("{} refusals by the sender's system", sent.counts.refused)),
        );
    }
    page.paragraph(Tone::Plain, &format!("  {}: ", way.name), &words.join(", "))
}

/// Who stamped what came.
fn stamps(got: &PacketReport) -> String {
    let (received, card) = (got.counts.received, got.card_stamped);
    let rest = received.saturating_sub(card);
    let others = if rest > got.kernel_stamped { "the program" } else { "the kernel" };
    let bound = format_duration(got.card_bound_ns);
    match (card, rest) {
        (0, _) if others == "the kernel" => "kernel receive stamps".to_owned(),
        (0, _) => "received times by the program".to_owned(),
        (_, 0) => format!("receive stamps of the network card (right to ±{bound} by the receiver's clock)"),
        _ => format!("{card} receive stamps of the network card (right to ±{bound}), the others by {others}"),
    }
}

/// A share with as many digits as it deserves.
pub(super) fn share(of: f64) -> String {
    let percent = of * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent < 0.001 {
        format!("{percent:.1e} %")
    } else if percent < 1.0 {
        format!("{percent:.4} %")
    } else {
        format!("{percent:.2} %")
    }
}
