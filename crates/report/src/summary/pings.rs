//! Round trips: what became of the messages, how long they took, the shape of that, and each way's
//! delay and losses.

use crate::text::{Page, Table, Tone, up_to};
use crate::words;
use metrics::{Clamped, Spectrum, WayFacts, format_duration, format_percent, percent_of, real};
use model::{Baseline, PERCENTILES, Phase, Point, RoundTrips, Schedule, Ways, is_shown};

/// Rows of one in equal steps, which the reader has asked for.
const MAX_STEPS: usize = 200;
/// Steps of a histogram to a factor of ten.
const STEPS: f64 = 10.0;

/// Writes all about the round trips of `point`, the histogram in steps of `linear_ns` if that is
/// given.
pub(super) fn write(point: &Point, linear_ns: Option<u64>, page: &mut Page<'_>) {
    let Some(trips) = &point.local.pings else {
        return page.line(Tone::Bad, "No round trips are on record");
    };
    messages(trips, &point.phase, page);
    times(trips, &point.phase, point.baseline.as_deref(), page);
    if let Some(n) = point.local.counters.moved.get("process.preempted") {
        page.remark(format!("this process was preempted {}", words::count(*n, "time")));
    }
    if let Some(both) = &trips.ways {
        each_way(both, page);
    }
    if let Some(rtt) = &trips.rtt_ns {
        histogram(rtt, linear_ns, page);
    }
}

fn messages(trips: &RoundTrips, phase: &Phase, page: &mut Page<'_>) {
    let counts = trips.counts;
    page.line(Tone::Heading, "Messages (as this end counted them)");
    let mut words = vec![format!("{} sent", counts.sent), format!("{} back in time", counts.in_time())];
    words.extend(words::counted([(counts.late, "late")]));
    let lost = u64::try_from(counts.lost).unwrap_or(0);
    let share = percent_of(lost, counts.sent.max(1));
    words.extend((lost > 0).then(|| format!("{lost} lost ({})", format_percent(share))));
    words.extend(words::counted([
        (counts.damaged, "DAMAGED"),
        (counts.repeated, "came twice"),
        (counts.unsettled(), "unanswered when their connection ended"),
        (counts.missed, "places in the schedule missed"),
        (counts.refused, "refused by the system"),
    ]));
    let good = counts.damaged == 0 && lost == 0 && counts.late == 0;
    page.paragraph(if good { Tone::Plain } else { Tone::Warning }, "  ", &words.join(", "));
    let ping = phase.ping.unwrap_or_default();
    let how = match ping.schedule {
        Schedule::Closed => "closed loop: each message waits for the echo of the last",
        Schedule::Fixed { .. } => "open loop, evenly spaced",
        Schedule::Poisson { .. } => "open loop, spaced at random (Poisson)",
        Schedule::Trace { .. } => "open loop, spaced by a trace",
    };
    let warm = match counts.omitted {
        0 => "no warm-up was left out".to_owned(),
        n => format!("a warm-up of {} was left out", words::count(n, "message")),
    };
    page.remark(format!("{how}; {warm}"));
}

fn times(trips: &RoundTrips, phase: &Phase, baseline: Option<&Baseline>, page: &mut Page<'_>) {
    let mut table = header("Round trips");
    let open = phase.ping.as_ref().is_some_and(|ping| ping.schedule != Schedule::Closed);
    let rtt = if open { "from the actual send" } else { "there and back" };
    let rows = [
        (rtt, &trips.rtt_ns),
        ("from the intended send", &trips.intended_ns),
        ("without server turnaround", &trips.path_ns),
        ("server turnaround", &trips.remote_ns),
        ("by the kernel's stamps", &trips.kernel_ns),
        ("local baseline", &baseline.and_then(|baseline| baseline.rtt_ns.clone())),
    ];
    for (name, spectrum) in rows {
        let Some(s) = spectrum else { continue };
        table.row(Tone::Plain, cells(name, s, timeout(phase)));
    }
    page.section(&table);
    // The share of the local baseline in the round trips.
    let median = |times: &Option<Spectrum>| times.as_ref()?.quantile(0.5);
    let Some(baseline) = baseline else { return };
    let Some((own, all)) = median(&baseline.rtt_ns).zip(median(&trips.rtt_ns)) else { return };
    let with = if baseline.apart { "" } else { " and a remote end on the same core" };
    page.remark(format!(
        "local baseline before the run: {} in the median, {:.0} % of the median round trip; so much is this host's system and \
         scheduling{with}",
        format_duration(own),
        percent_of(own, all.max(1)).min(100.0)
    ));
}

/// Longest wait for an echo before it is late, ns.
pub(super) fn timeout(phase: &Phase) -> u64 {
    phase.ping.unwrap_or_default().timeout_ns
}

/// A percentile in words; above the timeout where it falls among lost messages.
pub(super) fn percentile(s: &Spectrum, q: f64, timeout_ns: u64) -> String {
    let above = || format!("> {}", format_duration(timeout_ns));
    s.quantile(q).map_or_else(above, format_duration)
}

fn header(title: &str) -> Table {
    let percentiles: Vec<&str> = PERCENTILES.iter().map(|(name, _)| *name).collect();
    Table::new(&format!("{title}|min|mean|{}|max|count", percentiles.join("|")))
}

/// A row of such a table.
fn cells(name: &str, s: &Spectrum, timeout_ns: u64) -> Vec<String> {
    let mut cells = vec![name.to_owned(), format_duration(s.min), format_duration(s.mean)];
    cells.extend(PERCENTILES.iter().map(|&(_, q)| match is_shown(s, q) {
        true => percentile(s, q, timeout_ns),
        false => "-".to_owned(),
    }));
    cells.extend([format_duration(s.max), s.count.to_string()]);
    cells
}

fn histogram(rtt: &Spectrum, linear_ns: Option<u64>, page: &mut Page<'_>) {
    let (title, bars) = match linear_ns {
        Some(width) => {
            let bars = rtt.linear(width, MAX_STEPS).into_iter();
            let named = bars.map(|(from, n)| (format!(">= {}", format_duration(from)), n)).collect();
            (format!("Round trips in steps of {}", format_duration(width)), named)
        }
        None => ("Round trips up to each bound".to_owned(), decades(rtt)),
    };
    page.bars(&title, &bars);
}

/// Steps that grow with the value, ten to a decade or fewer.
fn decades(rtt: &Spectrum) -> Vec<(String, u64)> {
    let mut steps: Vec<(u64, u64)> = Vec::new();
    for &(value, n) in &rtt.counts {
        let bound = u64::clamped(10f64.powf((((real(value.max(1))).log10() * STEPS).ceil()) / STEPS).round());
        match steps.last_mut() {
            Some(last) if last.0 == bound => last.1 += n,
            _ => steps.push((bound, n)),
        }
    }
    up_to(steps)
}

/// Writes all about the two ways.
fn each_way(ways: &Ways, page: &mut Page<'_>) {
    let mut table = header("Each way");
    let rows =
        [("there", &ways.there_ns), ("back", &ways.back_ns), ("answers left late by", &ways.left_late_ns)];
    for (name, spectrum) in rows {
        if let Some(spectrum) = spectrum {
            table.row(Tone::Plain, cells(name, spectrum, 0));
        }
    }
    page.gap();
    if table.is_empty() {
        page.line(Tone::Heading, "Each way");
    } else {
        page.table(&table);
    }
    for write in [clocks, losses, marks, oddities] {
        write(&ways.facts, page);
    }
}

fn clocks(facts: &WayFacts, page: &mut Page<'_>) {
    if let Some(bound) = facts.clock_bound_ns {
        let how = match facts.by_wall {
            0 => "found by exchanges of stamps",
            _ => "both clocks say that they are disciplined",
        };
        page.remark(format!("delays are right to ±{} ({how})", format_duration(bound)));
    }
    let distance = facts.clock_offset_ns.map(|ns| {
        let side = if ns < 0 { "behind" } else { "ahead of" };
        format!("the remote end's clock is {} {side} ours", format_duration(ns.unsigned_abs()))
    });
    let claim = facts.remote_synced.map(|synced| {
        let error = facts.remote_error_ns.map_or("says nothing of its error".to_owned(), |ns| {
            format!("may be wrong by {}", format_duration(ns))
        });
        format!("by its own account it is {}disciplined and {error}", if synced { "" } else { "not " })
    });
    let words: Vec<String> =
        distance.into_iter().chain(claim).chain(facts.remote_clock.map(source)).collect();
    if !words.is_empty() {
        page.remark(words.join("; "));
    }
}

/// The source of a clock's time, and of its stamps (RFC 8972, tables 6 and 7).
fn source([from, method, ..]: [u8; 4]) -> String {
    let from = match from {
        1 => "NTP",
        2 => "PTP",
        3 => "SSU/BITS",
        4 => "a satellite system",
        5 => "no source",
        _ => "a source of unknown kind",
    };
    let method = match method {
        1 => "hardware",
        2 => "software",
        3 => "the control plane",
        _ => "something unknown",
    };
    format!("it takes its time from {from}, and its stamps are taken by {method}")
}

fn losses(facts: &WayFacts, page: &mut Page<'_>) {
    let lost = facts.there.lost + facts.back.lost + facts.lost_somewhere;
    let mut words = Vec::new();
    if facts.numbered > 0 {
        words.push(format!("lost there {}, lost back {}", facts.there.lost, facts.back.lost));
    }
    if facts.lost_somewhere > 0 {
        words.push(format!("{} lost on an unknown way", facts.lost_somewhere));
    }
    let (there, back) = (facts.there, facts.back);
    words.extend(words::counted([
        (there.duplicated, "doubled there"),
        (there.reordered, "overtaken there"),
        (back.duplicated, "doubled back"),
        (back.reordered, "overtaken back"),
    ]));
    if facts.numbered == 0 && lost > 0 {
        words.push("the remote end copies our numbers, or all losses were on the way back".to_owned());
    }
    if !words.is_empty() {
        page.paragraph(if lost > 0 { Tone::Warning } else { Tone::Plain }, "  ", &words.join(", "));
    }
}

fn marks(facts: &WayFacts, page: &mut Page<'_>) {
    let mut words = Vec::new();
    for (way, marks) in [("there", &facts.there_marks), ("back", &facts.back_marks)] {
        let ttl = marks.ttl.map(|ttl| words::range("TTL", ttl));
        words.extend(ttl.map(|told| format!("{told} {way}")));
    }
    if !words.is_empty() {
        page.remark(format!("received with {}", words.join(", ")));
    }
}

fn oddities(facts: &WayFacts, page: &mut Page<'_>) {
    let answers = [
        (facts.rejected, "did not belong to us or did not prove to know the key"),
        (facts.unnamed, "arrived without our session identifier: the remote end knows none"),
        (facts.tampered, "arrived with extensions that were changed on the way"),
        (facts.malformed, "called one of our extensions malformed"),
    ];
    for (n, what) in answers.into_iter().filter(|(n, _)| *n > 0) {
        page.paragraph(Tone::Warning, "  ", &format!("{} {what}", words::count(n, "answer")));
    }
    if !facts.unrecognised.is_empty() {
        let kinds: Vec<String> = facts.unrecognised.iter().map(ToString::to_string).collect();
        let text = format!("the remote end does not know extensions of type {}", kinds.join(", "));
        page.paragraph(Tone::Warning, "  ", &text);
    }
    if let Some((received, sent)) = facts.remote_counts {
        page.remark(format!("by its own count the remote end received {received} and sent {sent}"));
    }
}
