//! Datagrams: what became of them and how long they took, one direction at a time, flow by flow;
//! and the frames they carried.

use crate::text::{Column, Page, TIMES, Table, Tone, or_dash};
use crate::words;
use metrics::{
    Clamped, ClockKind, Frames, PlayoutSummary, format_bits_per_second, format_duration, real, sum_of,
};
use model::{FlowRow, FlowWay, PacketReport, Point, Totals, Unit, Way};

/// One direction: the reports of sender and receiver.
struct WayReports<'a> {
    name: &'static str,
    sent: Option<&'a PacketReport>,
    /// The result; `None` if its receiver never reported it.
    got: Option<&'a PacketReport>,
    goodput_bps: Option<f64>,
}

/// The directions of the phase. Reports of several servers are added up, without their
/// distributions.
fn ways<'a>(point: &'a Point, remote: Option<&'a PacketReport>) -> Vec<WayReports<'a>> {
    let local = point.local.packets.as_deref();
    let pattern = point.phase.pattern;
    let mut all = Vec::new();
    if pattern.sends_up() {
        let goodput_bps = point.up.filter(|d| d.confirmed).map(|d| d.goodput_bps);
        all.push(WayReports { name: "to server", sent: local, got: remote, goodput_bps });
    }
    if pattern.sends_down() {
        let goodput_bps = point.down.map(|d| d.goodput_bps);
        all.push(WayReports { name: "from server", sent: remote, got: local, goodput_bps });
    }
    all
}

fn together(remote: &[Totals]) -> Option<PacketReport> {
    sum_of(remote.iter().filter_map(|totals| totals.packets.as_deref()).cloned(), PacketReport::add_host)
}

/// The result in a few words.
pub(super) fn result_words(point: &Point) -> Vec<String> {
    let remote = together(&point.remote);
    let words = |way: &WayReports<'_>| {
        let got = way.got?;
        let unknown = if got.received() == Some(0) { "nothing received" } else { "loss unknown" };
        let loss = got.loss().map_or(unknown.to_owned(), |loss| format!("{} lost", share(loss)));
        let delay = got.delay_ns.as_ref().map(|d| {
            let (name, high) = if d.is_shown(0.99) { ("p99", d.p99) } else { ("max", d.max) };
            format!(", delay p50 {}, {name} {}", format_duration(d.p50), format_duration(high))
        });
        // As fast as it goes the rate is the question.
        let rate = way.goodput_bps.filter(|_| point.phase.rate.is_none());
        let rate = rate.map_or_else(String::new, |bps| format!("{}, ", format_bits_per_second(bps)));
        Some(format!("{}: {rate}{loss}{}", way.name, delay.unwrap_or_default()))
    };
    super::each_way(ways(point, remote.as_ref()).iter().filter_map(words))
}

/// All about `point`.
pub(super) fn write(point: &Point, page: &mut Page<'_>) {
    let remote = together(&point.remote);
    let ways = ways(point, remote.as_ref());
    counts(&ways, page);
    times(&ways, page);
    for way in &ways {
        remarks(way, point.phase.probe.is_some_and(|probe| probe.tx_stamps), page);
    }
}

fn counts(ways: &[WayReports<'_>], page: &mut Page<'_>) {
    let columns: [Column<&WayReports<'_>>; 9] = [
        ("sent", |way| or_dash(way.sent.and_then(PacketReport::sent), |n| n.to_string())),
        ("received", |way| {
            way.got.and_then(PacketReport::received).map_or("NOT CONFIRMED".to_owned(), |n| n.to_string())
        }),
        ("lost", |way| or_dash(way.got.and_then(PacketReport::lost), |n| n.to_string())),
        ("loss", |way| or_dash(way.got.and_then(PacketReport::loss), share)),
        ("repeated", |way| or_dash(way.got.and_then(PacketReport::repeated), |n| n.to_string())),
        ("reordered", |way| or_dash(way.got.and_then(PacketReport::reordered), |n| n.to_string())),
        ("late", |way| or_dash(way.got, |got| got.counts.late.to_string())),
        ("damaged", |way| or_dash(way.got, |got| got.counts.corrupt.to_string())),
        ("rate", |way| or_dash(way.goodput_bps.filter(|_| way.got.is_some()), format_bits_per_second)),
    ];
    let rows = ways.iter().map(|way| {
        let bad = way.got.is_none_or(|got| got.lost() != Some(0) || got.counts.corrupt > 0);
        (Tone::bad_if(bad), way.name.to_owned(), way)
    });
    page.table(&Table::of("Datagrams (receiver's count)", &columns, rows));
}

fn times(ways: &[WayReports<'_>], page: &mut Page<'_>) {
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
    page.section(&table);
}

/// Remarks without a column in the tables.
fn remarks(way: &WayReports<'_>, asked: bool, page: &mut Page<'_>) {
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
        words.extend(got.jitter_ns().map(|ns| {
            let largest =
                got.jitter_max_ns.map(|ns| format!(", in an interval up to {}", format_duration(ns)));
            format!("jitter (RFC 3550) {}{}", format_duration(ns), largest.unwrap_or_default())
        }));
        if let Some(d) = got.delay_ns.as_ref().filter(|d| d.is_shown(0.99)) {
            let above = format_duration(d.p99.saturating_sub(d.min));
            words.push(format!("p99 {above} above the minimum (PDV)"));
        }
        let of = |n: Option<u64>, words: fn(u64) -> String| n.filter(|&n| n > 0).map(words);
        words.extend(of(got.longest_loss, |n| format!("longest loss {n} in a row")));
        words.extend(of(got.max_extent, |n| format!("reordered by up to {n}")));
        let dropped = got.dropped_of_lost();
        words.extend(words::counted([
            (
                dropped.unwrap_or(0),
                match got.counts.dropped_merged {
                    0 => "dropped by the receiver's own buffer",
                    _ => "at most dropped by the receiver's own buffer, in merged runs",
                },
            ),
            (got.damaged, "of the lost damaged on the way (wrong checksums)"),
        ]));
        words.push(stamps(got));
        words.extend(words::counted([
            (got.card_refused, "stamps of the card not believed"),
            (got.card_unplaced, "stamps of the card not placed (its clock could not be read)"),
        ]));
        words.extend(got.marks.ttl.map(|ttl| words::range("TTL", ttl)));
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
        words.extend(words::counted([
            (sent.counts.unsent, "not sent (too late, or refused)"),
            (sent.counts.refused, "refusals by the sender's system"),
        ]));
    }
    page.paragraph(Tone::Plain, &format!("  {}: ", way.name), &words.join(", "));
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
fn share(of: f64) -> String {
    Unit::Percent.show(of * 100.0)
}

/// Flows shown; the JSON has all.
const MOST_SHOWN: usize = 32;

/// The table of `point`'s flows, if it has several.
pub(super) fn flows(point: &Point, page: &mut Page<'_>) {
    if point.flows.is_empty() {
        return;
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
    page.section(&Table::of("Flow", &columns, rows));
    page.more(u64::clamped(ways.len().saturating_sub(MOST_SHOWN)), ", in the JSON");
    let fare = match odd {
        0 => return page.remark("no flow fares worse than the others by more than chance"),
        1 => "one flow fares".to_owned(),
        odd => format!("{odd} flows fare"),
    };
    let text = format!(
        "{fare} worse than the others: where paths are chosen by address and port, one of them may be bad"
    );
    page.paragraph(Tone::Warning, "  ", &text);
}

/// One direction's receiver.
struct ReceiverFrames<'a> {
    name: &'static str,
    frames: Option<Frames>,
    playout: Option<&'a PlayoutSummary>,
}

fn shown(point: &Point) -> Vec<ReceiverFrames<'_>> {
    let pattern = point.phase.pattern;
    let mut all = Vec::new();
    if pattern.sends_up() {
        let frames = point.frames(Way::Up);
        // Play-out figures of several servers cannot be added up.
        let playout = if let [one] = point.remote.as_slice() { one.playout.as_ref() } else { None };
        all.push(ReceiverFrames { name: "to server", frames, playout });
    }
    if pattern.sends_down() {
        let Totals { frames, playout, .. } = &point.local;
        all.push(ReceiverFrames { name: "from server", frames: *frames, playout: playout.as_ref() });
    }
    all
}

/// The result in a few words.
pub(super) fn frames_found(point: &Point) -> Vec<String> {
    let words = |shown: &ReceiverFrames<'_>| {
        let frames = shown.frames?;
        let part = share(real(frames.dropped) / real(frames.judged().max(1)));
        Some(format!("{}: {} of {} frames dropped ({part})", shown.name, frames.dropped, frames.judged()))
    };
    super::each_way(shown(point).iter().filter_map(words))
}

/// All about `point`'s frames.
pub(super) fn frames(point: &Point, page: &mut Page<'_>) {
    let columns: [Column<&ReceiverFrames<'_>>; 7] = [
        ("frames", |one| one.frames.map_or("NOT CONFIRMED".to_owned(), |f| f.judged().to_string())),
        ("whole", |one| or_dash(one.frames, |f| f.completed.to_string())),
        ("dropped", |one| or_dash(one.frames, |f| f.dropped.to_string())),
        ("share", |one| or_dash(one.frames, |f| share(real(f.dropped) / real(f.judged().max(1))))),
        ("repeated", |one| or_dash(one.frames, |f| f.repeated.to_string())),
        ("stalls", |one| or_dash(one.playout.filter(|_| one.frames.is_some()), |p| p.stalls.to_string())),
        ("longest", |one| {
            or_dash(one.playout.filter(|_| one.frames.is_some()), |p| p.longest_stall.to_string())
        }),
    ];
    let all = shown(point);
    let rows = all
        .iter()
        .map(|one| (Tone::bad_if(one.frames.is_none_or(|f| f.dropped > 0)), one.name.to_owned(), one));
    page.table(&Table::of("Frames (receiver's judgement)", &columns, rows));
    for one in &all {
        if let Some(playout) = one.playout {
            depth(one.name, playout, page);
        }
    }
}

/// Which depth would have been enough?
fn depth(name: &str, playout: &PlayoutSummary, page: &mut Page<'_>) {
    let Some(need) = &playout.need_ns else { return };
    let ns = |n: i64| {
        if n < 0 { format!("-{}", format_duration(n.unsigned_abs())) } else { format_duration(n) }
    };
    let mut words = vec![format!(
        "a buffer of {} would have held every frame that came, {} 99 % of them",
        ns(need.max.max(0)),
        ns(need.p99.max(0))
    )];
    if playout.never > 0 {
        words.push(format!("{} never came whole: no depth helps them", playout.never));
    }
    let useful = playout.misses.iter().filter(|(_, missed)| *missed > playout.never);
    let missed: Vec<String> =
        useful.map(|(depth, n)| format!("{n} with {}", format_duration(*depth))).collect();
    if !missed.is_empty() {
        words.push(format!("frames missed: {}", missed.join(", ")));
    }
    page.paragraph(Tone::Plain, &format!("  {name}: "), &words.join("; "));
}
