//! Round trips: what became of the messages, how long they took, and the shape of that.

use super::ways;
use crate::text::{Page, Table, Tone, up_to};
use crate::words;
use metrics::{Clamped, Spectrum, format_duration, percent_of, real};
use model::{Baseline, PERCENTILES, Phase, Point, RoundTrips, Schedule, is_shown};
use std::io;

/// Rows of one in equal steps, which the reader has asked for.
const MAX_STEPS: usize = 200;
/// Steps of a histogram to a factor of ten.
const STEPS: f64 = 10.0;

/// Writes all about the round trips of `point`, the histogram in steps of `linear_ns` if that is given.
pub(super) fn write(point: &Point, linear_ns: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    let Some(trips) = &point.local.pings else {
        return page.line(Tone::Bad, "No round trips are on record");
    };
    messages(trips, &point.phase, page)?;
    times(trips, &point.phase, point.baseline.as_deref(), page)?;
    if let Some(n) = point.local.counters.moved.get("process.preempted") {
        let text = format!("this process was preempted {}", words::count(*n, "time"));
        page.paragraph(Tone::Plain, "  ", &text)?;
    }
    if let Some(both) = &trips.ways {
        ways::write(both, page)?;
    }
    trips.rtt_ns.as_ref().map_or(Ok(()), |rtt| histogram(rtt, linear_ns, page))
}

fn messages(trips: &RoundTrips, phase: &Phase, page: &mut Page<'_>) -> io::Result<()> {
    let counts = trips.counts;
    let n = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
    page.line(Tone::Heading, "Messages (as this end counted them)")?;
    let mut words = vec![format!("{} sent", counts.sent), format!("{} back in time", counts.in_time())];
    words.extend(n(counts.late, "late"));
    let lost = u64::try_from(counts.lost).unwrap_or(0);
    let share = percent_of(lost, counts.sent.max(1));
    words.extend((lost > 0).then(|| format!("{lost} lost ({share:.3} %)")));
    words.extend(n(counts.damaged, "DAMAGED"));
    words.extend(n(counts.repeated, "came twice"));
    words.extend(n(counts.unsettled(), "unanswered when their connection ended"));
    words.extend(n(counts.missed, "places in the schedule missed"));
    words.extend(n(counts.refused, "refused by the system"));
    let good = counts.damaged == 0 && lost == 0 && counts.late == 0;
    page.paragraph(if good { Tone::Plain } else { Tone::Warning }, "  ", &words.join(", "))?;
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
    page.paragraph(Tone::Plain, "  ", &format!("{how}; {warm}"))
}

fn times(
    trips: &RoundTrips,
    phase: &Phase,
    baseline: Option<&Baseline>,
    page: &mut Page<'_>,
) -> io::Result<()> {
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
    if table.is_empty() {
        return Ok(());
    }
    page.gap()?;
    page.table(&table)?;
    match baseline.zip(trips.rtt_ns.as_ref()) {
        Some((baseline, rtt)) => share_of_host(baseline, rtt, page),
        None => Ok(()),
    }
}

/// The share of the local baseline in the round trips.
fn share_of_host(baseline: &Baseline, rtt: &Spectrum, page: &mut Page<'_>) -> io::Result<()> {
    let Some(own) = &baseline.rtt_ns else { return Ok(()) };
    let Some((own, all)) = own.quantile(0.5).zip(rtt.quantile(0.5)) else { return Ok(()) };
    let all = all.max(1);
    let with = if baseline.apart { "" } else { " and a remote end on the same core" };
    let text = format!(
        "local baseline before the run: {} in the median, {:.0} % of the median round trip; so much is this host's system and \
         scheduling{with}",
        format_duration(own),
        (percent_of(own, all)).min(100.0)
    );
    page.paragraph(Tone::Plain, "  ", &text)
}

/// How long an echo was waited for before it was late, ns.
pub(super) fn timeout(phase: &Phase) -> u64 {
    phase.ping.unwrap_or_default().timeout_ns
}

/// A percentile in words; above the timeout where it falls among messages that never came.
pub(super) fn percentile(s: &Spectrum, q: f64, timeout_ns: u64) -> String {
    let above = || format!("> {}", format_duration(timeout_ns));
    s.quantile(q).map_or_else(above, format_duration)
}

pub(super) fn header(title: &str) -> Table {
    let percentiles: Vec<&str> = PERCENTILES.iter().map(|(name, _)| *name).collect();
    Table::new(&format!("{title}|min|mean|{}|max|count", percentiles.join("|")))
}

/// A row of such a table.
pub(super) fn cells(name: &str, s: &Spectrum, timeout_ns: u64) -> Vec<String> {
    let mut cells = vec![name.to_owned(), format_duration(s.min), format_duration(s.mean)];
    cells.extend(PERCENTILES.iter().map(|&(_, q)| match is_shown(s, q) {
        true => percentile(s, q, timeout_ns),
        false => "-".to_owned(),
    }));
    cells.extend([format_duration(s.max), s.count.to_string()]);
    cells
}

fn histogram(rtt: &Spectrum, linear_ns: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    let (title, bars) = match linear_ns {
        Some(width) => {
            let bars = rtt.linear(width, MAX_STEPS).into_iter();
            let named = bars.map(|(from, n)| (format!(">= {}", format_duration(from)), n)).collect();
            (format!("Round trips in steps of {}", format_duration(width)), named)
        }
        None => ("Round trips up to each bound".to_owned(), decades(rtt)),
    };
    page.bars(&title, &bars)
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
