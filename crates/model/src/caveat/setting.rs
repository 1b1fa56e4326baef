//! Caveats about settings: what was limited, refused or decided by them.

use super::{Case, Caveat, join, percent};
use crate::{Effective, Kind, Transport};
use metrics::{format_bytes, real};

/// Share of a sender's busy time spent waiting for a window or a buffer that limits its rate.
const LIMITED: f64 = 0.20;
/// The congestion control that nearly all hosts use.
const USUAL: &str = "cubic";
/// Most TCP options of a segment, bytes: the effective MSS is smaller than the asked one by as much.
const TCP_OPTIONS: u32 = 40;

pub(super) fn window_limited(case: &Case<'_>) -> Option<Caveat> {
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
    Some(Caveat::new("window-limited", text, advice))
}

pub(super) fn congestion_control(case: &Case<'_>) -> Option<Caveat> {
    let phase = &case.point.phase;
    let name = |effective: &Option<Effective>| {
        effective.as_ref().map(|e| e.congestion.clone()).filter(|name| !name.is_empty())
    };
    let decides = case.senders().any(|end| name(&end.totals.effective).is_some_and(|n| n != USUAL));
    if !decides || phase.rate.is_some() || matches!(phase.kind, Kind::Connect | Kind::Ping) {
        return None;
    }
    let clauses = case.each_end(|end| Some(format!("{} used {}", end.name, name(&end.totals.effective)?)))?;
    let text =
        format!("The congestion control decides much of this figure ({clauses}): another may give another.");
    Some(Caveat::new(
        "congestion-control",
        text,
        "Repeat with -C cubic, or with what your application's host uses.",
    ))
}

pub(super) fn other_sessions(case: &Case<'_>) -> Option<Caveat> {
    let at_start = case.point.sessions.iter().map(|s| s.accepted.others);
    let during = case.point.far.iter().map(|totals| totals.others);
    let most = at_start.chain(during).max().filter(|&n| n > 0)?;
    let (plural, verb) = if most == 1 { ("", "was") } else { ("s", "were") };
    let text = format!("Up to {most} other session{plural} {verb} on a server meanwhile and shared it.");
    Some(Caveat::new("other-sessions", text, "Use --exclusive, or repeat when the server is idle."))
}

pub(super) fn server_reduced(case: &Case<'_>) -> Option<Caveat> {
    let changes =
        case.point.sessions.iter().flat_map(|s| s.accepted.changes.iter().map(move |c| (s.address, c)));
    let clauses = join(changes.map(|(address, change)| {
        let why = if change.why.is_empty() { String::new() } else { format!(" ({})", change.why) };
        format!("{address} gave {} {} instead of {}{why}", change.what, change.given, change.asked)
    }))?;
    let text = format!("Not all that was asked for was granted: {clauses}.");
    Some(Caveat::new("server-reduced", text, "Ask for less, or raise the server's limits."))
}

pub(super) fn buffer_shortfall(case: &Case<'_>) -> Option<Caveat> {
    if case.serving() {
        return None; // each client asked for its own
    }
    let asked = &case.point.phase.sockets;
    let clauses = case.each_end(|end| {
        let got = end.totals.effective.as_ref()?;
        let short = |name: &str, asked: Option<u64>, got: u64| {
            let asked = asked.filter(|&asked| got > 0 && got < asked)?;
            Some(format!(
                "{name} of {} is {} instead of {}",
                end.name,
                format_bytes(got),
                format_bytes(asked)
            ))
        };
        let both =
            [short("SO_SNDBUF", asked.sndbuf, got.sndbuf), short("SO_RCVBUF", asked.rcvbuf, got.rcvbuf)];
        join(both.into_iter().flatten())
    })?;
    let text = format!("The kernel granted smaller socket buffers than asked for ({clauses}).");
    let advice =
        "Raise net.core.wmem_max and net.core.rmem_max, or leave the buffers to the kernel's autotuning.";
    Some(Caveat::new("socket-buffer-shortfall", text, advice))
}

pub(super) fn option_differs(case: &Case<'_>) -> Option<Caveat> {
    if case.serving() {
        return None;
    }
    let clauses = case.each_end(|end| {
        let got = end.totals.effective.as_ref()?;
        join(differences(case, got).into_iter().map(|what| format!("{what} at {}", end.name)))
    })?;
    let text = format!("Socket options took other values than asked for ({clauses}).");
    let advice = "Check that the kernel offers them (for a congestion control: \
                  net.ipv4.tcp_allowed_congestion_control).";
    Some(Caveat::new("socket-option-differs", text, advice))
}

/// The options in `got` that differ from those asked for. Zero or empty means that the kernel did not tell.
fn differences(case: &Case<'_>, got: &Effective) -> Vec<String> {
    let asked = &case.point.phase.sockets;
    let mut all = Vec::new();
    let mut unlike =
        |name: &str, asked: String, got: String| all.push(format!("{name} {got} instead of {asked}"));
    if let Some(mss) =
        asked.mss.filter(|&mss| got.mss > 0 && !(mss.saturating_sub(TCP_OPTIONS)..=mss).contains(&got.mss))
    {
        unlike("MSS", mss.to_string(), got.mss.to_string());
    }
    if let Some(name) =
        asked.congestion.as_ref().filter(|name| !got.congestion.is_empty() && got.congestion != **name)
    {
        unlike("congestion control", name.clone(), got.congestion.clone());
    }
    let ping = case.point.phase.ping.as_ref().is_some_and(|ping| ping.transport == Transport::Udp);
    let datagrams = ping || matches!(case.point.phase.kind, Kind::Stream | Kind::Delay | Kind::Train);
    if asked.nodelay != got.nodelay && !datagrams {
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        unlike("TCP_NODELAY", word(asked.nodelay), word(got.nodelay));
    }
    // The low two bits of the octet are ECN's, not ours.
    if let Some(dscp) = asked.dscp.filter(|&dscp| got.tos >> 2 != dscp) {
        unlike("DSCP", dscp.to_string(), (got.tos >> 2).to_string());
    }
    if let Some(ttl) = asked.ttl.filter(|&ttl| got.ttl > 0 && got.ttl != ttl) {
        unlike("TTL", ttl.to_string(), got.ttl.to_string());
    }
    all
}
