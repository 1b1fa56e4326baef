//! Caveats about media streams: which end kept them from getting through whole, when it was not the
//! path.

use super::host::{CPU_FULL, MACHINE_FULL, open_files};
use super::{Case, End, Reason, percent};
use crate::Kind;
use metrics::{format_duration, real};

/// Share of the datagrams that may be missing for a reason of the hosts' own.
const SOME: f64 = 0.001;

/// The first limit on the way of the frames: opening streams, sending on time, receiving in time.
pub(super) fn first_limit(case: &Case<'_>) -> Option<Reason> {
    let media = case.point.phase.media.filter(|_| case.point.phase.kind == Kind::Stream)?;
    let frame_ns = media.due_ns(1);
    let (text, advice) = not_opened(case)
        .or_else(|| case.ends().find_map(|end| refused(&end)))
        .or_else(|| case.ends().find_map(|end| behind(&end, frame_ns)))
        .or_else(|| case.ends().find_map(|end| overrun(&end)))?;
    let text = format!("The first limit of the streams was not the path: {text}.");
    Some((text, advice))
}

fn not_opened(case: &Case<'_>) -> Option<Reason> {
    let n = open_files(case)?;
    let advice = "Raise the limit (ulimit -n, LimitNOFILE=, fs.file-max) or ask for fewer streams (-P).";
    Some((format!("{n} could not be opened because the limit of open files was reached"), advice))
}

fn refused(end: &End<'_>) -> Option<Reason> {
    let counts = end.totals.packets.as_deref()?.counts;
    let share = real(counts.unsent) / real((counts.sent + counts.unsent).max(1));
    let text = format!("the system of {} refused {} of what was to be sent", end.name, percent(share));
    (share > SOME)
        .then_some((text, "Raise --sndbuf or ask for less: fewer streams (-P) or a lower rate (-b)."))
}

/// Sends that are later than a frame's time: the sender did not keep up.
fn behind(end: &End<'_>, frame_ns: u64) -> Option<Reason> {
    let late = end.totals.late_ns.as_ref().filter(|late| late.p99 > frame_ns)?;
    let late = format_duration(late.p99);
    let cores = busy_cores(end)
        .map_or_else(|| ", though its cores were not busy".to_owned(), |cores| format!(": {cores}"));
    let text = format!("{} sent late (99th percentile {late}){cores}", end.name);
    let advice = "Ask for fewer streams (-P) or a lower rate (-b), or give the sender more cores; datagrams that leave back to \
                  back (without --spread) take far less time.";
    Some((text, advice))
}

/// Arrivals were dropped before they were read.
fn overrun(end: &End<'_>) -> Option<Reason> {
    let counts = end.totals.packets.as_deref()?.counts;
    let softnet = end.totals.counters.moved.get("softnet.dropped").copied().unwrap_or(0);
    let cores = busy_cores(end).map_or_else(String::new, |cores| format!(": {cores}"));
    if let Some(dropped) = counts.drops_in_words() {
        let text = format!("the receive buffer of {} dropped {dropped}{cores}", end.name);
        let advice = "Raise --rcvbuf (and net.core.rmem_max), give the receiver more cores, or ask for less.";
        return Some((text, advice));
    }
    // Only a receiver's queue is on the way of the frames, and its counter is of the whole host.
    (softnet > 0 && counts.lost > 0 && end.totals.traffic.rx_bytes > 0).then(|| {
        let text = format!("{} dropped {softnet} packets before they reached a socket{cores}", end.name);
        (text, "Raise net.core.netdev_max_backlog, or spread the interrupts over more cores (RSS, RPS).")
    })
}

fn busy_cores(end: &End<'_>) -> Option<String> {
    let cpu = end.totals.cpu?;
    let machine = cpu.share(cpu.machine_s).unwrap_or(0.0);
    let (busiest, all) = (percent(cpu.busiest), percent(machine));
    (cpu.busiest > CPU_FULL || machine > MACHINE_FULL)
        .then(|| format!("its cores were busy, the busiest {busiest} and all of them {all}"))
}
