//! Datagrams: what became of them and how long they took, one direction at a time.

use crate::text::{Page, TIMES, Table, Tone, or_dash};
use metrics::{ClockKind, Packets, format_bits_per_second, format_duration};
use model::{PacketReport, Point, Totals, Unit};
use std::io;

/// One direction: the reports of sender and receiver.
struct Way<'a> {
    name: &'static str,
    sent: Option<&'a PacketReport>,
    /// The result; `None` when its receiver never told it.
    got: Option<&'a PacketReport>,
    goodput_bps: Option<f64>,
}

/// The directions in which something was to go. Several servers are told as one, as far as that goes.
fn ways<'a>(point: &'a Point, remote: Option<&'a PacketReport>) -> Vec<Way<'a>> {
    let local = point.local.packets.as_deref();
    let pattern = point.phase.pattern;
    let mut all = Vec::new();
    if pattern.sends_up() {
        let goodput_bps = point.up.filter(|d| d.confirmed).map(|d| d.goodput_bps);
        all.push(Way { name: "to server", sent: local, got: remote, goodput_bps });
    }
    if pattern.sends_down() {
        let goodput_bps = point.down.map(|d| d.goodput_bps);
        all.push(Way { name: "from server", sent: remote, got: local, goodput_bps });
    }
    all
}

fn together(remote: &[Totals]) -> Option<PacketReport> {
    remote.iter().filter_map(|totals| totals.packets.as_deref()).cloned().reduce(|mut all, one| {
        all.beside(&one);
        all
    })
}

/// The result in a few words.
pub(super) fn found(point: &Point) -> Vec<String> {
    let remote = together(&point.remote);
    let words = |way: &Way<'_>| {
        let got = way.got?;
        let loss = got.loss().map_or("nothing received".to_owned(), |loss| format!("{} lost", share(loss)));
        let delay = got
            .delay_ns
            .as_ref()
            .map(|d| format!(", delay p50 {}, p99 {}", format_duration(d.p50), format_duration(d.p99)));
        Some(format!("{}: {loss}{}", way.name, delay.unwrap_or_default()))
    };
    super::each_way(ways(point, remote.as_ref()).iter().filter_map(words))
}

/// All about `point`.
pub(super) fn write(point: &Point, page: &mut Page<'_>) -> io::Result<()> {
    let remote = together(&point.remote);
    let ways = ways(point, remote.as_ref());
    counts(&ways, page)?;
    times(&ways, page)?;
    for way in &ways {
        remarks(way, point.phase.probe.is_some_and(|probe| probe.tx_stamps), page)?;
    }
    Ok(())
}

fn counts(ways: &[Way<'_>], page: &mut Page<'_>) -> io::Result<()> {
    let counted =
        |way: &Way<'_>, of: fn(&Packets) -> u64| or_dash(way.got, |got| of(&got.counts).to_string());
    let mut table = Table::new(
        "Datagrams (receiver's count)|sent|received|lost|loss|repeated|reordered|late|damaged|rate",
    );
    for way in ways {
        let cells = vec![
            way.name.to_owned(),
            or_dash(way.sent, |sent| sent.counts.sent.to_string()),
            way.got.map_or("NOT CONFIRMED".to_owned(), |got| got.counts.received.to_string()),
            or_dash(way.got, |got| got.counts.lost.to_string()),
            or_dash(way.got.and_then(PacketReport::loss), share),
            counted(way, |c| c.duplicated),
            counted(way, |c| c.reordered),
            counted(way, |c| c.late),
            counted(way, |c| c.corrupt),
            or_dash(way.goodput_bps.filter(|_| way.got.is_some()), format_bits_per_second),
        ];
        let bad = way.got.is_none_or(|got| got.counts.lost > 0 || got.counts.corrupt > 0);
        table.row(Tone::bad_if(bad), cells);
    }
    page.table(&table)
}

fn times(ways: &[Way<'_>], page: &mut Page<'_>) -> io::Result<()> {
    let mut table = Table::new(&format!("One-way delay|{TIMES}"));
    for way in ways {
        if let Some(got) = way.got {
            table.times(way.name, got.delay_ns.as_ref());
            table.times("  from the intended send", got.intended_ns.as_ref());
            table.times("  variation (IPDV)", got.ipdv_ns.as_ref());
        }
        if let Some(sent) = way.sent {
            table.times("  sends late by", sent.late_ns.as_ref());
            table.times("  in the sender's system", sent.stack_ns.as_ref());
        }
    }
    for (name, range) in ways.iter().filter_map(|way| Some((way.name, way.got?.delay_range_ns?))) {
        let mut cells = vec!["-".to_owned(); 9];
        cells[0] = name.to_owned();
        cells[1] = or_dash(range.min, format_duration);
        cells[2] = format_duration(range.mean);
        cells[7] = format_duration(range.max);
        table.row(Tone::Plain, cells);
    }
    page.section(&table)
}

/// What the tables have no column for.
fn remarks(way: &Way<'_>, asked: bool, page: &mut Page<'_>) -> io::Result<()> {
    let mut words = Vec::new();
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
    let range = |name: &str, (low, high): (u8, u8)| match low == high {
        true => format!("{name} {low}"),
        false => format!("{name} {low} to {high}"),
    };
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
        words.extend(some(got.counts.dropped, "dropped by the receiver's own buffer"));
        words.push(stamps(got));
        words.extend(some(got.card_refused, "stamps of the card not believed"));
        let unplaced = "stamps of the card not placed (its clock could not be read)";
        words.extend(some(got.card_unplaced, unplaced));
        words.extend(got.marks.ttl.map(|ttl| range("TTL", ttl)));
        words.extend(got.marks.dscp.filter(|dscp| dscp.1 > 0).map(|dscp| range("DSCP", dscp)));
        words.extend(some(got.marks.ecn[3], "marked for congestion (CE)"));
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
        let waited = format_duration(sent.blocked_ns);
        let blocked = format!("the sender waited {waited} for its full socket");
        words.extend((sent.blocked_ns > 0).then_some(blocked));
        words.extend(some(sent.counts.unsent, "not sent (too late, or refused)"));
        words.extend(some(sent.counts.refused, "refusals by the sender's system"));
    }
    page.paragraph(Tone::Plain, &format!("  {}: ", way.name), &words.join(", "))
}

/// Source of the receive timestamps.
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

/// A share as people read it.
pub(super) fn share(of: f64) -> String {
    Unit::Percent.show(of * 100.0)
}
