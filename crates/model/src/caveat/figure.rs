//! Caveats that follow from the figures themselves: too few, too unsteady, not confirmed.

use super::{Case, Reason};
use crate::{Interval, Kind, Spacing, Verify};
use metrics::{
    Clamped, Quartiles, SECOND, format_bits_per_second, format_bytes, format_count, format_duration, real,
};

/// Fewer intervals have no spread worth the name.
const MIN_INTERVALS: usize = 3;
/// Less time shows the start of TCP, not TCP.
const MIN_TIME: u64 = 2 * SECOND;
/// With fewer values a percentile is just one of them.
const MIN_VALUES: u64 = 20;
/// A first interval this far below the rest holds the start of the connections, and matters from
/// this share of the mean on: a tenth in one of five intervals, a fifth in one of ten.
const SLOW_START: (f64, f64) = (0.10, 0.02);
/// Share by which a rate may fall short of the requested one.
const RATE_MISSED: f64 = 0.03;
/// Relative standard deviation above which a mean says little.
const UNSTEADY: f64 = 0.20;

/// Nothing was opened at one of several servers, by their own reports; or by the client's count
/// nothing was moved there.
pub(super) fn server_not_measured(case: &Case<'_>) -> Option<Reason> {
    let (point, targets) = (case.point, &case.begin.targets);
    let is_unopened = |target: &str| {
        let addresses = point.sessions.iter().filter(|s| s.target == target).map(|s| s.address.to_string());
        // A server whose totals are missing may have had its part.
        addresses.into_iter().all(|at| point.remote.iter().any(|end| end.who == at && end.opened == 0))
    };
    let is_idle = |target: &&String| match case.legacy() {
        Some(_) => point.local.idle_servers.contains(*target),
        None => is_unopened(target),
    };
    let idle: Vec<&str> = targets.iter().filter(is_idle).map(String::as_str).collect();
    (targets.len() > 1 && !idle.is_empty()).then(|| {
        let text = format!(
            "Nothing was measured at {}: all figures are those of the other servers.",
            idle.join(", ")
        );
        (text, "Look for the reason in the messages of the run and at that server, or leave it out.")
    })
}

/// Headers of a datagram, and of a segment with time stamps, over IPv4, bytes.
const HEADERS: (u64, u64) = (28, 52);
/// Fewest packets of a connection without payload: its handshake, two FINs, an acknowledgement.
const BARE_CONNECTION: u64 = 6;
/// Share of what passed above which own traffic is no trifle.
const OWN: f64 = 0.1;
/// Fewer messages and datagrams than these fill no queue.
const FEW_OWN: u64 = 10;

pub(super) fn own_traffic(case: &Case<'_>) -> Option<Reason> {
    let (own, local) = (case.point.local.own, &case.point.local);
    let packets = local.packets.as_deref().map_or(0, |packets| packets.counts.sent + packets.counts.received);
    let messages = local.pings.as_deref().map_or(0, |pings| pings.counts.sent + pings.counts.received);
    let opened = if case.point.phase.kind == Kind::Connect { local.opened } else { 0 };
    let passed = local.traffic.tx_bytes
        + local.traffic.rx_bytes
        + packets.max(messages) * HEADERS.0
        + opened * BARE_CONNECTION * HEADERS.1;
    let bytes = own.bytes() + own.datagrams * HEADERS.0 + own.messages * HEADERS.1;
    let share = real(bytes) / real(passed + bytes);
    // The median of round trips is one of a message that met no own packet, where these are fewer.
    (own.count() >= FEW_OWN.max(messages) && share > OWN).then(|| {
        let text = format!(
            "Own traffic was {} of all traffic: {} control messages and {} comparisons of clocks stood in the same queues.",
            super::percent(share),
            own.messages,
            own.datagrams / 2
        );
        (text, "On a slow path take longer intervals (-i) or a higher rate, and percentiles rather than means.")
    })
}

pub(super) fn unconfirmed(case: &Case<'_>) -> Option<Reason> {
    let point = case.point;
    const ADVICE: &str =
        "Look for the reason at the server (crashed, killed, unreachable) and repeat the run.";
    let unheard = point.up.filter(|up| !up.confirmed && up.sent_bytes > 0);
    if let (Some(up), Some(protocol)) = (unheard, case.legacy()) {
        let how = if point.phase.kind.probes() {
            "which includes what was lost on the way".to_owned()
        } else {
            let (completed, opened) = (point.local.completed, point.local.opened);
            format!("confirmed one by one for the {completed} of {opened} connections that completed")
        };
        let text = format!(
            "A server of the protocol {protocol} does not tell what it received: the {} to the server are the \
             sender's own count, {how}.",
            format_bytes(up.sent_bytes)
        );
        return Some((text, "Compare with what the server itself prints."));
    }
    if let Some(up) = unheard {
        let text = format!(
            "No server told what it received: the {} to the server are the sender's own count, which includes \
             what was lost or still under way.",
            format_bytes(up.sent_bytes)
        );
        return Some((text, ADVICE));
    }
    // A client knows its own receptions: this is the file of another program's server.
    if let Some(down) = point.down.filter(|down| !down.confirmed && down.sent_bytes > 0 && !case.serving()) {
        let text = format!(
            "What the client received is unknown: the {} to it are the sender's own count.",
            format_bytes(down.sent_bytes)
        );
        return Some((text, "Import the client's file of the same test."));
    }
    let missing = point.sessions.len().saturating_sub(point.remote.len());
    let (told, all) = (point.counted().filter(|i| i.remote.is_some()).count(), point.counted().count());
    (missing > 0 && told > 0).then(|| {
        let text = format!(
            "The final totals of {missing} of {} servers never came: what they counted is known from their \
             reports on {told} of {all} intervals only.",
            point.sessions.len()
        );
        (text, ADVICE)
    })
}

pub(super) fn unfinished(case: &Case<'_>) -> Option<Reason> {
    let (local, phase) = (&case.point.local, &case.point.phase);
    let ended = local.completed + local.stopped + local.errors();
    let vanished = local.opened.saturating_sub(ended);
    if vanished > 0 && !case.serving() {
        let text = format!(
            "At least {vanished} of {} connections were still open when the record ended: their outcome is not \
             known.",
            local.opened
        );
        return Some((text, "Let the run end by itself, or end it with one ^C."));
    }
    let planned =
        phase.iterations.filter(|_| phase.kind != Kind::Ping)?.saturating_mul(u64::from(phase.connections));
    (local.stopped > 0 && local.completed < planned).then(|| {
        let text = format!(
            "Only {} of {planned} connections had moved all their bytes when the run ended; {} were stopped early.",
            local.completed, local.stopped
        );
        (text, "Give the run more time (-t), or each connection less to move (--transfer).")
    })
}

pub(super) fn verification_off(case: &Case<'_>) -> Option<Reason> {
    // A capacity is the rate of packets, not of their contents.
    if case.point.phase.kind == Kind::Capacity {
        return None;
    }
    let how = match case.point.phase.verify {
        Verify::Data => return None,
        Verify::Connection => "read and counted, but not compared",
        Verify::None => "counted, but not looked at",
    };
    let text = format!("Received bytes were {how}: damaged data would not have been noticed.");
    Some((text, "Use --verify data when integrity matters."))
}

pub(super) fn too_short(case: &Case<'_>) -> Option<Reason> {
    let intervals = case.point.counted().count();
    // Of a schedule its own time: the last interval waits for late datagrams.
    let traffic = case.point.local.traffic;
    let ns = traffic.tx_ns.max(traffic.rx_ns).unwrap_or(traffic.ns);
    // Of messages and of trains it is their number that counts.
    let by_time = !matches!(case.point.phase.kind, Kind::Ping | Kind::Train);
    let short = by_time && (intervals < MIN_INTERVALS || ns < MIN_TIME);
    (short && ns > 0).then(|| {
        let text = format!(
            "Only {} in {} were measured: too little to show how much the figure varies.",
            format_duration(ns),
            format_count(u64::clamped(intervals), "interval")
        );
        (text, "Measure for 10 s or more (-t 10) in intervals of a second (-i 1).")
    })
}

pub(super) fn slow_start(case: &Case<'_>) -> Option<Reason> {
    let phase = &case.point.phase;
    if phase.omit_ns > 0 || phase.kind != Kind::Tcp {
        return None;
    }
    let rates: Vec<f64> = case.point.readings().map(goodput).collect();
    let (&first, rest) = rates.split_first()?;
    if rest.len() < 2 {
        return None;
    }
    let typical = Quartiles::of(rest.to_vec())?.median;
    let (least, of_mean) = SLOW_START;
    (first < typical * (1.0 - least.max(of_mean * real(rates.len())))).then(|| {
        let text = format!(
            "The first interval was {} below the median of the others, and it counts: the mean includes the start \
             of the connections.",
            super::percent(1.0 - first / typical)
        );
        (text, "Leave the start out (--omit 2s).")
    })
}

/// Goodput of an interval, both directions together, bits/s, by the receivers' counts, or the
/// senders' without them.
fn goodput(interval: &Interval) -> f64 {
    let up = interval.remote.map(|remote| remote.rx_bps()).or(interval.sent_bps());
    up.unwrap_or(0.0) + interval.received_bps().unwrap_or(0.0)
}

pub(super) fn unstable(case: &Case<'_>) -> Option<Reason> {
    let point = case.point;
    let of = |name: &str, spread: Option<metrics::Spread>| {
        let s = spread
            .filter(|s| s.n >= u64::clamped(MIN_INTERVALS) && s.mean > 0.0 && s.sd / s.mean > UNSTEADY)?;
        Some(format!("{name} varied by {} from interval to interval", super::percent(s.sd / s.mean)))
    };
    let found = match point.phase.kind {
        // The rate of a search rises by its plan.
        Kind::Ping | Kind::Train | Kind::Capacity => return None,
        Kind::Connect => [of("connections per second", point.connects_per_interval()), None],
        // Its rate is the server's to keep, and it ends before the frames that are held have been
        // shown.
        Kind::Stream => return None,
        Kind::Tcp | Kind::Delay => [
            of("goodput to the server", point.up.and_then(|d| d.per_interval)),
            of("goodput from the server", point.down.and_then(|d| d.per_interval)),
        ],
    };
    let clauses = super::join(found.into_iter().flatten())?;
    let text = format!("The path or the hosts were not steady ({clauses}): the mean hides it.");
    let advice = "Look at the intervals, measure longer, and repeat at another time.";
    Some((text, advice))
}

/// A rate that was asked for and not reached: the figure is then the hosts' or the path's, not the
/// schedule's.
pub(super) fn rate_missed(case: &Case<'_>) -> Option<Reason> {
    let point = case.point;
    let short = |got: f64, want: f64| want > 0.0 && got < want * (1.0 - RATE_MISSED);
    let text = match (point.phase.kind, point.phase.connect_rate, point.phase.rate) {
        (Kind::Connect, Some(want), _) => {
            let got = point.connects_per_second().filter(|&got| short(got, want))?;
            format!("Of {want:.0} connections per second that were asked for, {got:.0} were made.")
        }
        (Kind::Ping, ..) => {
            let counts = point.local.pings.as_ref()?.counts;
            let all = counts.sent + counts.missed;
            if !short(real(counts.sent), real(all)) {
                return None;
            }
            format!("Of {all} messages of the schedule {} were sent.", counts.sent)
        }
        (Kind::Delay, _, Some(each)) => {
            let want = real(each) * f64::from(point.phase.connections);
            let probe = point.phase.probe.unwrap_or_default();
            let ways = [point.up, point.down].into_iter().flatten().filter(|way| way.sent_bps > 0.0);
            let numbers = ways.map(|way| {
                let sent = real(way.sent_bytes) / f64::from(probe.size.max(1));
                (sent, sent * want / way.sent_bps)
            });
            let missed = numbers.filter(|&(sent, all)| {
                // Of random times between datagrams one run has more than another.
                let chance = if probe.spacing == Spacing::Fixed { 0.0 } else { 4.0 * all.sqrt() };
                short(sent, all) && all - sent > chance
            });
            let (sent, all) = missed.reduce(|a, b| if a.0 / a.1 < b.0 / b.1 { a } else { b })?;
            format!("Of {all:.0} datagrams of the schedule {sent:.0} were sent.")
        }
        (Kind::Tcp, _, Some(each)) => {
            // Connections that are done early, or have not begun, lower the sum without anything
            // being wrong.
            let steady = point.phase.iterations.is_none() && point.phase.total_bytes.is_none();
            let want = real(each) * f64::from(point.phase.connections);
            let sent = [point.up, point.down].into_iter().flatten().filter_map(|d| d.sent_bps());
            let got = sent.filter(|&got| got > 0.0 && steady && short(got, want)).reduce(f64::min)?;
            let [want, got] = [want, got].map(format_bits_per_second);
            format!("Of {want} that were asked for, {got} were sent.")
        }
        _ => return None,
    };
    let text = match point.phase.kind {
        Kind::Ping | Kind::Delay => text,
        _ => format!("{text} Lost time beyond 100 ms is not made up for with a burst."),
    };
    Some((text, "Ask for less, or find what held the sender up (CPU, window, errors)."))
}

/// Share of the highest rate that a test may offer, from which on the limit is the test's.
const AT_LIMIT: f64 = 0.97;

pub(super) fn search_limit(case: &Case<'_>) -> Option<Reason> {
    let found = case.point.capacity.as_ref()?;
    (found.most_bps > 0.0 && found.ip_bps >= AT_LIMIT * found.most_bps).then(|| {
        let text = format!(
            "The capacity is at the upper limit of the test ({} of IP packets): the path may carry more.",
            format_bits_per_second(found.most_bps)
        );
        (text, "Leave out --row, -b and the server's limits, allow jumbo datagrams, or take more connections (-P).")
    })
}

pub(super) fn few_connections(case: &Case<'_>) -> Option<Reason> {
    let local = &case.point.local;
    let n = match case.point.phase.kind {
        // Connections that last as long as the run are all there are, and no sample of others.
        Kind::Tcp => local.rate.as_ref().filter(|_| case.point.phase.iterations.is_some())?.count,
        // Their percentiles are over datagrams.
        Kind::Stream | Kind::Delay | Kind::Train | Kind::Capacity => return None,
        Kind::Connect => local.connect_ns.as_ref()?.count,
        Kind::Ping => return None,
    };
    (n > 0 && n < MIN_VALUES).then(|| {
        let text = format!("Too few connections ({n}) for percentiles.");
        let advice = "Use more connections (-P) or let each move less (--transfer) when percentiles matter.";
        (text, advice)
    })
}
