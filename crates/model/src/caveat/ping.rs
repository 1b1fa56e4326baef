//! Caveats about round trips: percentiles of too few, loops that hide stalls, schedules that were
//! not kept.

use super::{Case, Reason, percent};
use crate::ping::{ASKED, BEYOND, is_reliable, is_shown};
use crate::{Kind, PERCENTILES, RoundTrips, Schedule};
use metrics::{Clamped, format_duration, real};

/// A round trip of more than this many medians is a stall.
const STALL: u64 = 10;
/// Share of the time that stalls may take before the percentiles of a closed loop, which count
/// messages, hide them.
const STALLED: f64 = 0.01;
/// Share of a schedule that may be missed: by `BEYOND` messages and more, and by fewer.
const MISSED: f64 = 0.001;
const MISSED_BY_FEW: f64 = 0.01;
/// Share of a round trip that may be the measuring host's own.
const OWN: f64 = 0.5;
/// Share of the delay that a load adds that the server's own time may be, and from how much on it
/// matters, ns.
const TURNAROUND: (f64, u64) = (0.2, 1_000_000);
/// Sends later than this, and than this share of the median round trip, distort an open loop, ns.
const LATE: (u64, f64) = (100_000, 0.05);

fn trips<'a>(case: &Case<'a>) -> Option<&'a RoundTrips> {
    let measured = case.point.phase.kind == Kind::Ping;
    case.point.local.pings.as_deref().filter(|_| measured)
}

pub(super) fn few_messages(case: &Case<'_>) -> Option<Reason> {
    let rtt = trips(case)?.rtt_ns.as_ref()?;
    let (name, q) = ASKED;
    // The answer has extremes in its place, where it is left out.
    (is_shown(rtt, q) && !is_reliable(rtt, q)).then(|| {
        let text = format!(
            "Of {} messages fewer than {BEYOND} lie beyond {name}: that and all higher percentiles are not statistically reliable.",
            rtt.total()
        );
        // `BEYOND` messages are hundredths of them.
        (text, "Send at least 1000 messages to know p99, ten times as many for each nine more.")
    })
}

/// The lowest percentile shown whose rank falls among late or missing messages: those are fewer
/// than it leaves room for otherwise.
pub(super) fn late_or_lost(case: &Case<'_>) -> Option<Reason> {
    let trips = trips(case)?;
    let rtt = trips.rtt_ns.as_ref()?;
    let (late, missing) = (trips.counts.late, rtt.missing);
    let in_time = rtt.total().saturating_sub(late.saturating_add(missing));
    let shown = |&(_, q): &(&str, f64)| is_shown(rtt, q);
    let (name, _) = PERCENTILES.into_iter().filter(shown).find(|(_, q)| rtt.rank(*q) > in_time)?;
    let timeout = format_duration(case.point.phase.ping.unwrap_or_default().timeout_ns);
    let text = format!(
        "Of {} messages {late} came after the timeout of {timeout} and {missing} never came: {name} and all higher \
         percentiles are those of late or lost messages.",
        rtt.total()
    );
    let advice = "Look for the stall (--samples tells when), or raise --timeout; a percentile that falls among the lost is told as \
                  above the timeout.";
    Some((text, advice))
}

/// A closed loop that never waited long has missed nothing.
pub(super) fn coordinated_omission(case: &Case<'_>) -> Option<Reason> {
    let rtt = trips(case)?.rtt_ns.as_ref()?;
    let ping = case.point.phase.ping.as_ref().filter(|ping| ping.schedule == Schedule::Closed)?;
    let long = rtt.quantile(0.5)?.saturating_mul(STALL);
    let lost = (ping.timeout_ns, rtt.missing);
    let waits = || rtt.counts.iter().copied().chain([lost]).map(|(ns, n)| (n, real(ns) * real(n), ns > long));
    let all: f64 = waits().map(|(_, ns, _)| ns).sum();
    let stalls = waits().filter(|(.., stalled)| *stalled);
    let (n, ns) = stalls.fold((0, 0.0), |(n, sum), (more, ns, _)| (more + n, sum + ns));
    let share = ns / all.max(1.0);
    (share > STALLED).then(|| {
        let text = format!(
            "A closed loop sends nothing while it waits: stalls of more than {STALL} medians took {} of the time and count as \
             {n} of {} messages, although all that would have been sent meanwhile would have waited, too (coordinated \
             omission).",
            percent(share),
            rtt.total()
        );
        (text, "Use an open loop (--rate) to see how long users would wait.")
    })
}

pub(super) fn missed_slots(case: &Case<'_>) -> Option<Reason> {
    let counts = trips(case)?.counts;
    let share = real(counts.missed) / real((counts.missed + counts.sent).max(1));
    let matters = share > MISSED_BY_FEW || (share > MISSED && real(counts.missed) >= BEYOND);
    matters.then(|| {
        let text = format!(
            "{} of the schedule ({} messages) was not sent: too many were under way, or this host was held up.",
            percent(share),
            counts.missed
        );
        (text, "Ask for a lower rate, or more connections (-P), or --busy on an idle core.")
    })
}

/// Over loopback the measurement is the baseline itself, and another caveat says so.
pub(super) fn mostly_this_host(case: &Case<'_>) -> Option<Reason> {
    let all = trips(case)?.rtt_ns.as_ref()?.quantile(0.5)?;
    let own = case.point.baseline.as_ref()?.rtt_ns.as_ref()?.quantile(0.5)?;
    let share = real(own) / real(all.max(1));
    // A baseline above the measured value is none: the host was busier then.
    (own <= all && share > OWN && super::host::loopback(case).is_none()).then(|| {
        let text = format!(
            "{} of the median round trip ({} of {}) is the local baseline of this host: differences of that size are \
             its scheduling, not the path.",
            percent(share),
            format_duration(own),
            format_duration(all)
        );
        (text, "Use --busy with an idle core at both ends (serve --busy), or --realtime.")
    })
}

/// Under load a busy server answers late: the grade leaves that out, but an application waits for
/// it.
pub(super) fn server_turnaround(case: &Case<'_>) -> Option<Reason> {
    let path = |trips| crate::load::of_path(trips)?.quantile(0.5);
    let (now, idle) = (trips(case)?, case.idle?);
    let added = path(now)?.saturating_sub(path(idle)?);
    let spent = now.remote_ns.as_ref()?.quantile(0.5).filter(|spent| *spent >= TURNAROUND.1)?;
    (real(spent) > real(added) * TURNAROUND.0).then(|| {
        let text = format!(
            "The server spent {} (median) on each message under load, and the path added {}: the server was busy. Grade, added delay \
             and RPM leave its time out.",
            format_duration(spent),
            format_duration(added)
        );
        let advice = "An application at this server waits for both: look at its CPU, or measure against an idle one.";
        (text, advice)
    })
}

pub(super) fn late_sends(case: &Case<'_>) -> Option<Reason> {
    let median = trips(case)?.rtt_ns.as_ref().and_then(|rtt| rtt.quantile(0.5)).unwrap_or(0);
    let (name, late) = case.point.local.late_ns.as_ref()?.tail(BEYOND)?;
    if late <= LATE.0.max(u64::clamped(real(median) * LATE.1)) {
        return None;
    }
    let text = format!(
        "Messages left late ({name} {}): round trips from the actual send leave that out, those from the intended send have it in.",
        format_duration(late)
    );
    Some((text, "Use --busy, an idle core (--affinity) or a lower rate."))
}
