//! Caveats about figures made of datagrams: omissions of the sender, losses within the receiver,
//! errors of clocks.

use super::{Case, End, Reason, percent};
use crate::{Kind, Marking, PacketReport, Phase, Totals, Transport};
use metrics::{Clamped, ClockFound, ClockKind, format_duration, real};

/// Share of the datagrams that may be missing for a reason of the hosts' own.
const SOME: f64 = 0.001;
/// Share of the time between two datagrams by which the slowest hundredth of the sends may be late.
const LATE: f64 = 0.25;
/// Sends later than this spoil delays from the intended send at any spacing, ns.
const VERY_LATE: u64 = 1_000_000;

/// Each end's name and report, in phases of datagrams on a schedule.
fn reports<'a>(case: &Case<'a>) -> impl Iterator<Item = (String, &'a PacketReport)> {
    let asked = case.point.phase.kind.probes();
    arrivals(case).filter(move |_| asked)
}

/// Each end's name and report, in phases of numbered datagrams.
fn arrivals<'a>(case: &Case<'a>) -> impl Iterator<Item = (String, &'a PacketReport)> {
    let asked = case.point.phase.kind.probes() || case.point.phase.kind == Kind::Stream;
    case.ends().filter(move |_| asked).filter_map(|end| Some((end.name, end.totals.packets.as_deref()?)))
}

pub(super) fn not_sent(case: &Case<'_>) -> Option<Reason> {
    let clauses = super::join(reports(case).filter_map(|(name, report)| {
        let (sent, unsent) = (real(report.counts.sent), real(report.counts.unsent));
        let share = unsent / (sent + unsent).max(1.0);
        (share > SOME).then(|| format!("{name} gave up {} of its schedule", percent(share)))
    }))?;
    let text =
        format!("Not all datagrams were sent ({clauses}): the path was offered less than was asked for.");
    let advice = "Ask for less, give the sender a core (--busy, --affinity), or send more per call (leave out --no-gso).";
    Some((text, advice))
}

/// Share of the run during which a sender may wait for its own socket.
const BLOCKED: f64 = 0.01;

pub(super) fn throttled(case: &Case<'_>) -> Option<Reason> {
    // As fast as it goes is as fast as the socket takes it.
    case.point.phase.rate?;
    let length = real(case.point.phase.duration_ns?) * f64::from(case.point.phase.connections);
    let clauses = super::join(reports(case).filter_map(|(name, report)| {
        let share = real(report.blocked_ns) / length.max(1.0);
        (share > BLOCKED).then(|| format!("{name} {} of the time", percent(share.min(1.0))))
    }))?;
    let text = format!(
        "The sender was throttled ({clauses}): its socket was full, and datagrams left when it had room."
    );
    let advice =
        "Ask for less, raise --sndbuf, or keep the schedule and give up what does not fit (--nonblock).";
    Some((text, advice))
}

pub(super) fn queue_drops(case: &Case<'_>) -> Option<Reason> {
    let sent = |totals: &Totals| totals.packets.as_ref().map_or(0, |packets| packets.counts.sent);
    let lost = |totals: &Totals| totals.packets.as_ref().map_or(0, |packets| packets.counts.lost);
    let lost_there = case.point.remote.iter().map(lost).fold(0, i64::saturating_add);
    let ends = case.ends().enumerate().filter(|_| case.point.phase.kind.probes());
    let clauses = super::join(ends.filter(|(_, end)| sent(end.totals) > 0).filter_map(|(at, end)| {
        let counters = end.totals.counters.moved.iter();
        let dropped: u64 =
            counters.filter(|(name, _)| name.ends_with(".qdisc_dropped")).map(|(_, by)| by).sum();
        // The counters are of all interfaces and programs: datagrams that arrived were not dropped.
        let missing = if at == 0 { lost_there } else { lost(&case.point.local) };
        let most = dropped.min(u64::try_from(missing).unwrap_or(0));
        (most > 0).then(|| format!("{} dropped {dropped}, at most {most} of them among the lost", end.name))
    }))?;
    let text = format!(
        "A host's own queueing disciplines dropped packets ({clauses}): what they drop never leaves that host."
    );
    let advice =
        "Ask for less, or give the interface a longer queue; the interface's counters are in the JSON.";
    Some((text, advice))
}

pub(super) fn own_buffer(case: &Case<'_>) -> Option<Reason> {
    let clauses = super::join(arrivals(case).filter_map(|(name, report)| {
        let dropped = report.drops_in_words()?;
        let share = report.dropped_of_lost().zip(report.lost());
        let share = share.map_or_else(String::new, |(dropped, lost)| {
            format!(", {} of what is missing there", percent(real(dropped) / real(lost.max(1))))
        });
        Some(format!("{name} dropped {dropped}{share}"))
    }))?;
    let text = format!("The receiver's own buffer overflowed ({clauses}): that loss is not the network's.");
    let advice =
        "Raise --rcvbuf (and net.core.rmem_max), receive merged (--gro), or give the receiver a core.";
    Some((text, advice))
}

/// Clauses about messages over UDP, of whose sockets only the counters of all programs are known.
fn damaged_messages(case: &Case<'_>) -> impl Iterator<Item = String> {
    let udp = case.point.phase.ping.as_ref().is_some_and(|ping| ping.transport == Transport::Udp);
    let lost = case.point.local.pings.as_ref().map_or(0, |trips| u64::clamped(trips.counts.lost.max(0)));
    case.ends().filter_map(move |end| {
        let wrong = ["Udp.InCsumErrors", "Udp6.InCsumErrors"];
        let wrong: u64 = wrong.iter().filter_map(|name| end.totals.counters.moved.get(*name)).sum();
        let most = wrong.min(lost);
        let name = end.name;
        (udp && most > 0).then(|| {
            format!(
                "{name} counted {wrong} wrong checksums, and at most {most} of {lost} lost messages had one"
            )
        })
    })
}

pub(super) fn damaged(case: &Case<'_>) -> Option<Reason> {
    let numbered = arrivals(case).filter_map(|(name, report)| {
        let (wrong, lost) = (report.damaged, report.lost()?);
        (wrong > 0).then(|| format!("{wrong} of {lost} that {name} misses had a wrong checksum"))
    });
    let clauses = super::join(numbered.chain(damaged_messages(case)))?;
    let text = format!(
        "Datagrams were damaged on the way ({clauses}): the kernel dropped these, and no queue or buffer was full."
    );
    let advice = "Look at the errors of interfaces and cables on the path; a device that rewrites packets may get checksums wrong.";
    Some((text, advice))
}

pub(super) fn class_changed(case: &Case<'_>) -> Option<Reason> {
    // Of a system's default nothing was asked.
    case.point.phase.sockets.dscp?;
    let clauses = super::join(Marking::all(case.point).iter().filter_map(|marking| {
        let changed = marking.class_changed()?;
        Some(format!("to {}: {changed}", marking.to))
    }))?;
    let text = format!("The path changed the class of packets ({clauses}): it treated them as that class.");
    Some((
        text,
        "Look for the router or the tunnel that rewrites DSCP, or ask for a class that the path keeps.",
    ))
}

pub(super) fn ecn_changed(case: &Case<'_>) -> Option<Reason> {
    let changed = Marking::all(case.point).into_iter().filter(|marking| marking.ecn_changed);
    let clauses =
        super::join(changed.map(|marking| format!("to {}: {}", marking.to, marking.findings.join(", "))))?;
    let text = format!(
        "The path changed ECN codepoints ({clauses}): its congestion marks do not reach the receiver."
    );
    Some((
        text,
        "Look for the router, the tunnel or the firewall that clears the low two bits of the traffic class.",
    ))
}

pub(super) fn ecn_loss(case: &Case<'_>) -> Option<Reason> {
    let all = Marking::all(case.point);
    let clauses = super::join(
        all.iter().filter_map(|marking| Some(format!("to {}: {}", marking.to, marking.loses_more.as_ref()?))),
    )?;
    let text = format!("The path loses datagrams by their ECN codepoint ({clauses}), by more than chance.");
    Some((
        text,
        "Look for a policer or a queue that treats the codepoints apart; figures of both together hold for neither.",
    ))
}

pub(super) fn clocks(case: &Case<'_>) -> Option<Reason> {
    let clauses = super::join(reports(case).filter_map(|(name, report)| {
        // One clock has no offset.
        report.clock.filter(|clock| *clock == ClockKind::SameHost).map_or(Some(()), |_| None)?;
        let (bound, delay) = (report.clock_bound_ns?, report.delay_ns.as_ref()?);
        let unsure = bound > delay.p50 / 2;
        let wrong = report.before_sent > 0;
        let known = format!("at {name} by up to {}", format_duration(bound));
        (unsure || wrong).then(|| {
            if wrong {
                format!("{known}, and {} seemed to arrive before they were sent", report.before_sent)
            } else {
                known
            }
        })
    }))?;
    let text = format!(
        "One-way delays may be wrong {clauses}: they compare two clocks, and the path itself cannot tell which part of a \
         round trip was which way."
    );
    let advice = "Trust differences (variation, percentiles above the minimum) more than the delay itself; a path with a \
                  shorter round trip has a tighter bound.";
    Some((text, advice))
}

/// The first report that says that comparing the clocks over the path was `broken`. Streams have
/// one, too.
fn clock_found<'a>(case: &Case<'a>, broken: fn(&ClockFound) -> bool) -> Option<&'a PacketReport> {
    let mut found = case.ends().filter_map(|end| end.totals.packets.as_deref());
    found.find(|report| report.clock_found.as_ref().is_some_and(broken))
}

pub(super) fn clock_stepped(case: &Case<'_>) -> Option<Reason> {
    clock_found(case, |found| found.stepped)?;
    let text = "A clock was set while datagrams were under way: delays from one comparison of the clocks to the next may be \
                wrong by as much as it was moved.";
    let advice = "Look at the delays over time (--samples), stop programs that set the clocks during the test, and measure \
                  again.";
    Some((text.to_owned(), advice))
}

pub(super) fn clock_wander(case: &Case<'_>) -> Option<Reason> {
    let report = clock_found(case, |found| found.wandered)?;
    let now = report.clock_bound_ns.map_or(String::new(), |ns| format!(", {} at worst", format_duration(ns)));
    let text = format!(
        "The rate of a clock changed by more than the comparison of clocks allows for: what was known of their distance was given \
         up, and the bound grew{now}."
    );
    let advice = "Look for what steers the clocks (chronyd, ntpd, ptp4l, a virtual machine), and trust differences of delays within \
                  a second more than the delays.";
    Some((text, advice))
}

pub(super) fn card_stamps(case: &Case<'_>) -> Option<Reason> {
    let clauses = super::join(reports(case).filter_map(|(name, report)| {
        let (untrue, unread) = (report.card_refused, report.card_unplaced);
        let all = untrue.saturating_add(unread).saturating_add(report.card_stamped);
        let why = [
            (untrue, "were later than the kernel's of the same packet, or far earlier"),
            (unread, "could not be converted, because the card's clock could not be read"),
        ];
        let words = why.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} of {all} {why}"));
        let words = words.collect::<Vec<String>>().join(", and ");
        (!words.is_empty()).then(|| format!("at {name}, {words}"))
    }))?;
    let text = format!("Timestamps of a network card were rejected ({clauses}): the kernel's were used.");
    let advice = "Look for a program that sets or steers the card's clock during the test (ptp4l, phc2sys), and whether it can be read \
                  (/dev/ptpN), or do without its stamps (--hardware-stamps=off).";
    Some((text, advice))
}

/// Share of the round trip by which sends may be late where nothing was lost.
const LATE_OF_TRIP: f64 = 0.05;
/// Values beyond a percentile of the lateness that is judged.
const BEYOND: f64 = 10.0;

/// The spacing of the datagrams, and the limit of lateness for the slowest of the sends, ns; `None`
/// without a spacing. Without loss no queue was full, and bursts of less than a small part of the
/// round trip alter no delay.
fn spacing(case: &Case<'_>) -> Option<(u64, u64)> {
    let phase: &Phase = &case.point.phase;
    if phase.train.is_some() {
        // Its mean rate says nothing about the time between two packets.
        return None;
    }
    let gap = phase.probe?.gap_ps(phase.rate) / 1_000;
    let lost = reports(case).any(|(_, report)| report.counts.lost > 0);
    let medians = reports(case).filter_map(|(_, report)| Some(report.delay_ns.as_ref()?.p50));
    let (ways, one_way) = medians.fold((0, 0), |(n, sum): (u64, u64), p50| (n + 1, sum.saturating_add(p50)));
    let trip = if ways == 1 { one_way.saturating_mul(2) } else { one_way };
    let of_trip = if lost { 0 } else { u64::clamped(real(trip) * LATE_OF_TRIP) };
    (gap > 0).then(|| (gap, (u64::clamped(real(gap) * LATE)).min(VERY_LATE).max(of_trip)))
}

/// True if an end sent datagrams, each of them in its place and none of them late.
pub(super) fn kept_schedule(case: &Case<'_>, end: &End<'_>) -> bool {
    let Some(report) = end.totals.packets.as_deref() else { return false };
    let late = report.late_ns.as_ref().zip(spacing(case));
    let in_time =
        late.is_some_and(|(late, (_, limit))| late.tail(BEYOND).is_none_or(|(_, late)| late <= limit));
    in_time && report.counts.sent > 0 && report.counts.unsent == 0
}

pub(super) fn late_sends(case: &Case<'_>) -> Option<Reason> {
    let (gap, limit) = spacing(case)?;
    let clauses = super::join(reports(case).filter_map(|(name, report)| {
        let (tail, late) = report.late_ns.as_ref()?.tail(BEYOND)?;
        (late > limit).then(|| {
            format!("{name}: {tail} {}, at a spacing of {}", format_duration(late), format_duration(gap))
        })
    }))?;
    let text = format!("Sends left late ({clauses}): the traffic was burstier than asked for.");
    let advice = "Give the sender a core of its own (--busy, --affinity), or ask for a lower rate.";
    Some((text, advice))
}

/// Share by which the median time between two sends may differ from the requested one.
const SPACING: f64 = 0.1;

pub(super) fn train_spacing(case: &Case<'_>) -> Option<Reason> {
    let settings = &case.point.trains.as_ref()?.report.settings;
    let clauses = super::join(settings.iter().filter_map(|s| {
        let (asked, got) = (real(s.wait_ns), real(s.send_gap_ns.as_ref()?.p50));
        (asked > 0.0 && (got - asked).abs() > asked * SPACING)
            .then(|| format!("{} instead of {}", format_duration(got), format_duration(asked)))
    }))?;
    let text = format!("The spacing of sends differed from the requested one ({clauses}, median).");
    let advice = "Give the sender a core of its own (--busy, --affinity), or ask for a wider spacing.";
    Some((text, advice))
}

pub(super) fn train_not_stretched(case: &Case<'_>) -> Option<Reason> {
    let settings = &case.point.trains.as_ref()?.report.settings;
    let none = !settings.is_empty() && settings.iter().all(|s| s.stretched == Some(false));
    none.then(|| {
        let text = "No dispersion: no train left the path slower than it was sent, and the \
                    dispersion rates are the sender's rate, not the path's.";
        let advice = "Take the rates for lower bounds; a faster sender, larger packets (-l) or a smaller spacing (--wait 0) \
                      may find more.";
        (text.to_owned(), advice)
    })
}
