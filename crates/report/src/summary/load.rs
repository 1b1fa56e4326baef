//! Latency under load, a row per stage, and what to call it.

use super::marking;
use crate::text::{Column, Page, Table, Tone, or_dash};
use crate::words;
use metrics::{TcpEcn, format_bits_per_second, format_duration, format_percent};
use model::load::{OneWay, RESPONSIVENESS, StageResult, under_load};
use model::{Outcome, Point, Status};

/// Writes the results of all stages.
pub(super) fn write(outcome: &Outcome, page: &mut Page<'_>) {
    let found = under_load(outcome);
    if found.is_empty() {
        return page.line(Tone::Bad, "Nothing was measured");
    }
    page.gap();
    ways(&found, page);
    page.gap();
    trips(&found, page);
    let bound = found.iter().flat_map(|f| [f.up, f.down]).flatten().filter_map(|way| way.bound_ns).max();
    if let Some(bound) = bound {
        let bound = format_duration(bound);
        page.remark(format!("one-way delays are right to ±{bound}, as the clocks were compared"));
    }
    page.remark(format!(
        "round trips are less the server's turnaround (its median is told); RPM, round trips a minute, after {RESPONSIVENESS}: beside \
         the load by datagrams of a flow of their own (its trimmed mean, of what never came back 5 s each), \
         inside by exchanges between the payload of the loading connections, from when they were to be sent (the same mean), and \
         the mean of the two; buffer delay (RFC 6349) by what the connections' kernels see; the draft's TLS and \
         HTTP exchanges are not made"
    ));
    if let Some(repetitions) = repetitions(&found) {
        page.remark(format!(
            "figures of {repetitions} together: percentiles of all their round trips, of one-way delays the \
             largest percentile of a repetition, the mean of goodput and of buffer delay"
        ));
    }
    codepoints(outcome, page);
    page.gap();
    grade(&found, page);
}

/// Datagrams of two ECN codepoints beside each other, and ECN of the loading connections.
fn codepoints(outcome: &Outcome, page: &mut Page<'_>) {
    let stage =
        |point: &Point| point.label.get("stage").map_or_else(String::new, |stage| format!("{stage}, "));
    if outcome.points.iter().any(|point| !point.marking.is_empty()) {
        page.gap();
    }
    marking::pairs(outcome.points.iter().map(|point| (stage(point), point)), page);
    for point in &outcome.points {
        let tcp: Vec<&TcpEcn> = point.marking.iter().filter_map(|marking| marking.tcp.as_ref()).collect();
        if let Some(tcp) = tcp.first() {
            let name = format!("  {}loading connections: ", stage(point));
            page.paragraph(Tone::Plain, &name, &format!("ECN on {} of {}", tcp.negotiated, tcp.connections));
        }
        marking::findings(&stage(point), point, page);
    }
}

/// Number of repetitions of the stages; `None` for one.
fn repetitions(found: &[StageResult]) -> Option<String> {
    let most = found.iter().map(|f| f.repetitions).max().filter(|most| *most > 1);
    most.map(|most| words::count(most.into(), "repetition"))
}

fn ways(found: &[StageResult], page: &mut Page<'_>) {
    let columns: [Column<OneWay>; 6] = [
        ("goodput", |way| or_dash(way.goodput_bps, format_bits_per_second)),
        ("delay p50", |way| format_duration(way.p50_ns)),
        ("p90", |way| format_duration(way.p90_ns)),
        ("p99", |way| format_duration(way.p99_ns)),
        ("added p50", |way| or_dash(way.added_ns, signed)),
        ("lost", |way| format_percent(100.0 * way.lost)),
    ];
    let rows = found.iter().flat_map(|f| {
        let ways = [("to server", f.up), ("from server", f.down)].into_iter();
        ways.filter_map(|(name, way)| Some((Tone::Plain, format!("{}, {name}", f.stage), way?)))
    });
    page.table(&Table::of("Each way", &columns, rows));
}

fn trips(found: &[StageResult], page: &mut Page<'_>) {
    let columns: [Column<&StageResult>; 10] = [
        ("p50", |f| or_dash(f.rtt_p50_ns, format_duration)),
        ("p99", |f| or_dash(f.rtt_p99_ns, format_duration)),
        ("added p50", |f| or_dash(f.added_ns.filter(|ns| *ns < i64::MAX), signed)),
        ("p90", |f| or_dash(f.added_p90_ns.filter(|ns| *ns < i64::MAX), signed)),
        ("turnaround", |f| or_dash(f.turnaround_p50_ns, format_duration)),
        ("never back", |f| or_dash(f.never_back, |share| format_percent(100.0 * share))),
        ("RPM beside", |f| or_dash(f.beside_rpm, |rpm| format!("{rpm:.0}"))),
        ("RPM inside", |f| or_dash(f.inside_rpm, |rpm| format!("{rpm:.0}"))),
        ("RPM", |f| or_dash(f.rpm, |rpm| format!("{rpm:.0}"))),
        ("buffer delay", |f| or_dash(f.buffer_delay_percent, format_percent)),
    ];
    let rows = found.iter().map(|f| (Tone::Plain, f.stage.clone(), f));
    page.table(&Table::of("Round trips", &columns, rows));
}

pub(crate) fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "+" };
    format!("{sign}{}", format_duration(ns.unsigned_abs()))
}

/// The growth of round trips that a stage is graded by, and the statistic that it is of; `None` when
/// too many were lost for either.
pub(crate) fn grown(found: &StageResult) -> Option<(String, &'static str)> {
    let ns = found.grown_ns().filter(|ns| *ns < i64::MAX)?;
    Some((signed(ns), if found.added_ns == Some(ns) { "median" } else { "p90" }))
}

/// The stage with the worst grade.
pub(crate) fn worst(found: &[StageResult]) -> Option<&StageResult> {
    found.iter().filter(|f| f.grade().is_some()).max_by_key(|f| f.grown_ns())
}

/// The verdict: the worst of the stages.
fn grade(found: &[StageResult], page: &mut Page<'_>) {
    let Some(worst) = worst(found) else {
        return page.paragraph(Tone::Warning, "", "No grade: nothing was measured under load");
    };
    let grade = worst.grade().unwrap_or("-");
    let grown = match (worst.added_ns.filter(|ns| *ns < i64::MAX), worst.added_p90_ns) {
        (None, _) => "half of the round trips were lost".to_owned(),
        (Some(_), Some(i64::MAX)) => "a tenth of the round trips was lost".to_owned(),
        (Some(p50), Some(p90)) if p90 > p50 => {
            format!(
                "the 90th percentile of the round trips grew by {} (the median by {})",
                signed(p90),
                signed(p50)
            )
        }
        (Some(p50), _) => format!("the median round trip grew by {}", signed(p50)),
    };
    let control = if worst.congestion.is_empty() { "unknown" } else { worst.congestion.as_str() };
    let tone = if matches!(grade, "A+" | "A" | "B") { Tone::Heading } else { Tone::Warning };
    let text = format!(
        "Grade {grade}: loaded {}, with connections under the congestion control {control}, {grown}",
        match worst.stage.as_str() {
            "down" => "from the server",
            "up" => "to the server",
            _ => "both ways",
        }
    );
    page.paragraph(tone, "", &text);
}

/// A line for each stage.
pub(super) fn stages(outcome: &Outcome, page: &mut Page<'_>) {
    let columns: [Column<StageResult>; 7] = [
        ("to server", |f| or_dash(f.up.and_then(|way| way.goodput_bps), format_bits_per_second)),
        ("from server", |f| or_dash(f.down.and_then(|way| way.goodput_bps), format_bits_per_second)),
        ("trip p50", |f| or_dash(f.rtt_p50_ns, format_duration)),
        ("p99", |f| or_dash(f.rtt_p99_ns, format_duration)),
        ("added p50", |f| or_dash(f.added_ns.filter(|ns| *ns < i64::MAX), signed)),
        ("lost", |f| or_dash(f.never_back, |share| format_percent(100.0 * share))),
        ("RPM", |f| or_dash(f.rpm, |rpm| format!("{rpm:.0}"))),
    ];
    let rows = under_load(outcome).into_iter().map(|f| (Tone::Plain, f.stage.clone(), f));
    let table = Table::of("Stage", &columns, rows);
    if !table.is_empty() {
        page.table(&table);
    }
}

/// Grade, added delay and goodput, when all stages were run, and how often they were.
pub(super) fn result_words(outcome: &Outcome) -> Vec<String> {
    let stages = under_load(outcome);
    if outcome.status != Status::Complete || stages.is_empty() {
        return Vec::new();
    }
    let goodput = |stage: &str, way: fn(&StageResult) -> Option<OneWay>, direction| {
        let bps = stages.iter().find(|f| f.stage == stage).and_then(way)?.goodput_bps?;
        Some(format!("{} {direction}", format_bits_per_second(bps)))
    };
    let ways = [goodput("up", |f| f.up, "to server"), goodput("down", |f| f.down, "from server")];
    let graded = worst(&stages).and_then(|worst| Some((worst.grade()?, worst)));
    let grade = graded.map_or("no grade".to_owned(), |(grade, worst)| {
        let added = match (grown(worst), worst.added_ns) {
            (Some((ns, of)), _) => format!("{ns}, {of}"),
            (None, Some(i64::MAX)) => "half of the round trips lost".to_owned(),
            (None, _) => "a tenth of the round trips lost".to_owned(),
        };
        format!("latency under load: {grade} ({added})")
    });
    [grade].into_iter().chain(ways.into_iter().flatten()).chain(repetitions(&stages)).collect()
}
