//! Caveats about settings: limits, refusals and decisions by them.

use super::{Case, Reason, join, percent};
use crate::{Effective, Kind, Transport};
use metrics::real;

/// Share of a sender's busy time spent waiting for a window or a buffer that limits its rate.
const LIMITED: f64 = 0.20;
/// The congestion control that nearly all hosts use.
const USUAL: &str = "cubic";

pub(super) fn window_limited(case: &Case<'_>) -> Option<Reason> {
    if case.point.phase.kind == Kind::Ping {
        return None;
    }
    let clauses = join(case.senders().filter_map(|end| {
        let tcp = &end.totals.tcp;
        let waited = |us: u64, what: &str| {
            let share = real(us) / real(tcp.busy_us.max(1));
            (share > LIMITED).then(|| format!("for {what} {} of its busy time", percent(share)))
        };
        let window = waited(tcp.rwnd_limited_us, "the receiver's window");
        let buffer = waited(tcp.sndbuf_limited_us, "its own send buffer");
        let both: Vec<String> = window.into_iter().chain(buffer).collect();
        (!both.is_empty()).then(|| format!("{} waited {}", end.name, both.join(" and ")))
    }))?;
    let text = format!("Buffers limited the rate ({clauses}): a path with this delay can carry more.");
    let advice = "Raise the receiver's window (--rcvbuf, net.ipv4.tcp_rmem) or the send buffer (--sndbuf, \
                  net.ipv4.tcp_wmem), or read faster, or use more connections (-P).";
    Some((text, advice))
}

pub(super) fn congestion_control(case: &Case<'_>) -> Option<Reason> {
    let phase = &case.point.phase;
    let name = |effective: &Option<Effective>| effective.as_ref().and_then(|e| e.congestion.clone());
    let decides = case.senders().any(|end| name(&end.totals.effective).is_some_and(|n| n != USUAL));
    if !decides || phase.rate.is_some() || matches!(phase.kind, Kind::Connect | Kind::Ping) {
        return None;
    }
    let clauses = case.each_end(|end| Some(format!("{} used {}", end.name, name(&end.totals.effective)?)))?;
    let text =
        format!("The congestion control decides much of this figure ({clauses}): another may give another.");
    Some((text, "Repeat with -C cubic, or with what your application's host uses."))
}

pub(super) fn other_sessions(case: &Case<'_>) -> Option<Reason> {
    let at_start = case.point.sessions.iter().map(|s| s.accepted.others);
    let during = case.point.remote.iter().map(|totals| totals.others);
    let most = at_start.chain(during).max().filter(|&n| n > 0)?;
    let (plural, verb) = if most == 1 { ("", "was") } else { ("s", "were") };
    let text = format!("Up to {most} other session{plural} {verb} on a server meanwhile and shared it.");
    Some((text, "Use --exclusive, or repeat when the server is idle."))
}

pub(super) fn server_reduced(case: &Case<'_>) -> Option<Reason> {
    let changes =
        case.point.sessions.iter().flat_map(|s| s.accepted.changes.iter().map(move |c| (s.address, c)));
    let changes = changes.map(|(address, change)| {
        let why = if change.why.is_empty() { String::new() } else { format!(" ({})", change.why) };
        format!("{address} gave {} {} instead of {}{why}", change.what, change.given, change.asked)
    });
    let ends = case.point.remote.iter().filter_map(|totals| Some((&totals.who, totals.limit.as_ref()?)));
    let clauses = join(changes.chain(ends.map(|(who, limit)| format!("{who} {limit}"))))?;
    let text = format!("The server reduced the request: {clauses}.");
    Some((text, "Ask for less, or raise the server's limits."))
}

pub(super) fn buffer_shortfall(case: &Case<'_>) -> Option<Reason> {
    let asked = &case.point.phase.sockets;
    let clauses =
        case.each_end(|end| join(asked.shortfalls(end.totals.effective.as_ref()?, &end.name).into_iter()))?;
    let text = format!("The kernel granted smaller socket buffers than asked for ({clauses}).");
    let advice =
        "Raise net.core.wmem_max and net.core.rmem_max, or leave the buffers to the kernel's autotuning.";
    Some((text, advice))
}

pub(super) fn option_differs(case: &Case<'_>) -> Option<Reason> {
    let phase = &case.point.phase;
    let ping = phase.ping.as_ref().is_some_and(|ping| ping.transport == Transport::Udp);
    let datagrams = ping || matches!(phase.kind, Kind::Stream | Kind::Delay | Kind::Train | Kind::Capacity);
    let clauses = case.each_end(|end| {
        let all = phase.sockets.differences(end.totals.effective.as_ref()?, datagrams);
        join(all.into_iter().map(|what| format!("{what} at {}", end.name)))
    })?;
    let text = format!("Socket options took other values than asked for ({clauses}).");
    let advice = "Check that the kernel offers them (for a congestion control: \
                  net.ipv4.tcp_allowed_congestion_control).";
    Some((text, advice))
}
