//! Latency under load, a row per stage, and what to call it.

use crate::text::{Page, Table, Tone};
use metrics::{format_bits_per_second, format_duration};
use model::load::{Found, OneWay, RESPONSIVENESS, under_load};
use model::{Outcome, Status};
use std::io;

/// Writes what was found in all stages.
pub(super) fn write(outcome: &Outcome, page: &mut Page<'_>) -> io::Result<()> {
    let found = under_load(outcome);
    if found.is_empty() {
        return page.line(Tone::Bad, "Nothing was measured");
    }
    page.gap()?;
    ways(&found, page)?;
    page.gap()?;
    trips(&found, page)?;
    let bound = found.iter().flat_map(|f| [f.up, f.down]).flatten().filter_map(|way| way.bound_ns).max();
    if let Some(bound) = bound {
        let text =
            format!("one-way delays are right to ±{}, as the clocks were compared", format_duration(bound));
        page.paragraph(Tone::Plain, "  ", &text)?;
    }
    let text = format!(
        "round trips are less the server's turnaround (its median is told); RPM, round trips a minute, after {RESPONSIVENESS}: beside \
         the load by datagrams of a flow of their own (its trimmed mean, of what never came back 5 s each), \
         inside by exchanges between the payload of the loading connections, from when they were to be sent (the same mean), and \
         the mean of the two; buffer delay (RFC 6349) by what the connections' kernels see; the draft's TLS and \
         HTTP exchanges are not made"
    );
    page.paragraph(Tone::Plain, "  ", &text)?;
    page.gap()?;
    grade(&found, page)
}

fn ways(found: &[Found], page: &mut Page<'_>) -> io::Result<()> {
    let header = ["Each way", "goodput", "delay p50", "p90", "p99", "added p50", "lost"];
    let mut table = Table::new(&header);
    for f in found {
        for (name, way) in [("to server", f.up), ("from server", f.down)] {
            let Some(way) = way else { continue };
            let OneWay { goodput_bps, p50_ns, p90_ns, p99_ns, added_ns, lost, .. } = way;
            let time = |ns: u64| format_duration(ns);
            table.row(
                Tone::Plain,
                vec![
                    format!("{}, {name}", f.stage),
                    goodput_bps.map_or("-".to_owned(), format_bits_per_second),
                    time(p50_ns),
                    time(p90_ns),
                    time(p99_ns),
                    added_ns.map_or("-".to_owned(), signed),
                    format!("{:.2} %", 100.0 * lost),
                ],
            );
        }
    }
    page.table(&table)
}

fn trips(found: &[Found], page: &mut Page<'_>) -> io::Result<()> {
    let header = [
        "Round trips",
        "p50",
        "p99",
        "added p50",
        "turnaround",
        "never back",
        "RPM beside",
        "RPM inside",
        "RPM",
        "buffer delay",
    ];
    let mut table = Table::new(&header);
    for f in found {
        let time = |ns: Option<u64>| ns.map_or("-".to_owned(), format_duration);
        let rpm = |rpm: Option<f64>| rpm.map_or("-".to_owned(), |rpm| format!("{rpm:.0}"));
        table.row(
            Tone::Plain,
            vec![
                f.stage.clone(),
                time(f.rtt_p50_ns),
                time(f.rtt_p99_ns),
                f.added_ns.map_or("-".to_owned(), signed),
                time(f.turnaround_p50_ns),
                f.never_back.map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share)),
                rpm(f.beside_rpm),
                rpm(f.inside_rpm),
                rpm(f.rpm),
                f.buffer_delay_percent.map_or("-".to_owned(), |percent| format!("{percent:.0} %")),
            ],
        );
    }
    page.table(&table)
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "+" };
    format!("{sign}{}", format_duration(ns.unsigned_abs()))
}

/// The verdict: the worst of the stages.
fn grade(found: &[Found], page: &mut Page<'_>) -> io::Result<()> {
    let worst = found.iter().filter(|f| f.grade().is_some()).max_by_key(|f| f.grown_ns());
    let Some(worst) = worst else {
        return page.paragraph(Tone::Warning, "", "No grade: nothing was measured under load");
    };
    let grade = worst.grade().unwrap_or("-");
    let grown = match (worst.added_ns.filter(|ns| *ns < i64::MAX), worst.added_p90_ns) {
        (None, _) => "half of the round trips never came back".to_owned(),
        (Some(_), Some(i64::MAX)) => "a tenth of the round trips never came back".to_owned(),
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
    page.paragraph(tone, "", &text)
}

/// Whether the stages were all run.
pub(super) fn found(outcome: &Outcome) -> Vec<String> {
    let whole = outcome.status == Status::Complete;
    let worst = under_load(outcome).into_iter().filter_map(|f| Some((f.grown_ns()?, f.grade()?))).max();
    worst.filter(|_| whole).map(|(_, grade)| format!("latency under load: {grade}")).into_iter().collect()
}
