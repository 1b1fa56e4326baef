//! What every cell keeps, whatever its protocol, question, direction and trouble. Each rule looks
//! at results only.

use super::cell::{Cell, Ran};
use super::table::{Nature, Trouble};
use metrics::SECOND;
use model::{Figure, Interval, Kind, PacketReport, Pattern, Point, Status, Totals, Traffic, Way};
use sim::Fate;

/// A rule: why a cell breaks it.
type Rule = fn(&Cell, &Ran) -> Result<(), String>;

/// The rules: name, the sentence of the page, and the check.
pub(super) const RULES: [(&str, &str, Rule); 12] = [
    ("ends", "Every run ends within a minute, whoever is silent.", ends),
    (
        "ending",
        "A run in which payload or answers were expected and no end counted any has failed, with a reason; on a path that loses \
         nothing it is complete; one that lost its server is not.",
        ending,
    ),
    ("unknown", "Where nothing is known to have arrived, no figure says how fast or when.", no_figure),
    ("agree", "The figures about a server in the client's result are those of the server itself.", agree),
    (
        "rate",
        "A rate that was asked for is told within 0.5 % on a path that loses nothing, whatever its delay.",
        rate,
    ),
    ("sums", "Intervals follow each other without gaps, and add up to the totals.", sums),
    ("records", "No connection lasted longer than its run.", records),
    (
        "lost",
        "Where the path and the kernels dropped nothing, nothing is lost or repeated, and every message was answered.",
        lost,
    ),
    ("parts", "No part is larger than its whole, and nothing is received that was not sent.", parts),
    ("caveats", "No caveat names a cause that the path, the hosts or the server did not have.", caveats),
    (
        "limits",
        "A server sends and receives no more than its limit and a tenth, and a client of ours learns what was reduced.",
        limits,
    ),
    ("servers", "Every named server is measured, or the result says which was not.", servers),
];

fn must(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Payload, messages or frames that the client's result knows to have arrived, at whichever end: by
/// the totals, or where a server vanished before it told its own by what it told of intervals.
fn arrived(point: &Point) -> u64 {
    let of = |end: &Totals| {
        let packets = end.packets.as_ref().map_or(0, |packets| packets.counts.received + packets.counts.late);
        let trips = end.pings.as_ref().map_or(0, |pings| pings.counts.received);
        let frames = end.frames.map_or(0, |frames| frames.completed + frames.repeated);
        end.traffic.rx_bytes + packets + trips + frames
    };
    let told = point.intervals.iter().filter_map(|interval| interval.remote).map(|traffic| traffic.rx_bytes);
    point.ends().map(of).sum::<u64>() + told.sum::<u64>()
}

/// Whether the client sends and no server reports: its own count stands in for what arrived there.
fn blind(cell: &Cell, point: &Point) -> bool {
    let talks = matches!(cell.protocol.name(), "native" | "iperf3");
    let sends = cell.verb.nature != Nature::Trips && cell.phase.pattern.sends_up();
    sends && point.remote.is_empty() && !talks
}

/// Every run ends, and soon.
fn ends(_: &Cell, ran: &Ran) -> Result<(), String> {
    must(ran.took.is_some(), || "it goes on for ever".to_owned())
}

/// Whether the result shows that something went wrong: connections that failed, datagrams that were
/// refused or lost.
fn shows(point: &Point) -> bool {
    let counts = |end: &Totals| {
        let packets = end.packets.as_ref().map_or(0, |p| p.counts.refused + p.counts.lost.max(0) as u64);
        let trips = end.pings.as_ref().map_or(0, |p| p.counts.refused + p.counts.missing() + p.counts.missed);
        let frames = end.frames.map_or(0, |frames| frames.dropped);
        end.errors() + packets + trips + frames
    };
    point.ends().map(counts).sum::<u64>() > 0
}

/// Whether no frame of a stream arrived whole at an end.
fn has_no_frame(end: &Totals) -> bool {
    end.frames.is_some_and(|frames| frames.dropped > 0 && frames.completed == 0)
}

/// The ending that a cell must have, whatever its protocol.
fn ending(cell: &Cell, ran: &Ran) -> Result<(), String> {
    use Status::{Complete, Failed, Partial};
    if ran.took.is_none() {
        return Ok(());
    }
    let (point, status) = (ran.point(), ran.point().status);
    let (arrived, blind) = (arrived(point), blind(cell, point));
    let told = || {
        let why = point.reason.as_deref().unwrap_or("");
        format!("{} ({why}), {arrived} arrived, blind {blind}, shows {}", status.name(), shows(point))
    };
    // Connections are the work of this question, and sizes that do not pass a result of the other.
    let connected = cell.phase.kind == Kind::Connect && point.local.opened > 0;
    let silent = cell.verb.nature == Nature::Passes || connected || blind;
    let half = blind && !connected && cell.phase.pattern == Pattern::Duplex;
    let allowed: &[Status] = match cell.trouble {
        // What a limit ends is no run as it was asked for.
        Trouble::None if cell.is_limited() => &[Complete, Partial, Failed],
        Trouble::None | Trouble::Two | Trouble::Far | Trouble::Late => &[Complete],
        // Connections are the work of the one, sizes that of the other; datagrams that nobody
        // refused and nobody reports leave the sender's count.
        Trouble::Dies if cell.phase.kind == Kind::Connect || cell.verb.nature == Nature::Passes => {
            &[Complete, Partial, Failed]
        }
        Trouble::Silent if cell.phase.kind == Kind::Connect || cell.verb.nature == Nature::Passes => {
            &[Complete, Partial, Failed]
        }
        Trouble::Dies if blind && !shows(point) => &[Complete, Partial, Failed],
        // Acknowledgements show whether a stream arrives, datagrams that nobody reports nothing.
        Trouble::Silent if blind && cell.verb.datagrams => &[Complete, Partial, Failed],
        Trouble::Dies | Trouble::Silent => &[Partial, Failed],
        // What was to come from the server did not.
        _ if arrived == 0 && half => &[Partial, Failed],
        _ if arrived == 0 && silent => &[Complete, Partial, Failed],
        _ if arrived == 0 => &[Failed],
        // Pieces of frames arrived, and no frame.
        _ if point.ends().any(has_no_frame) => &[Complete, Partial, Failed],
        _ => &[Complete, Partial],
    };
    must(allowed.contains(&status), told)?;
    must(status != Failed || point.reason.is_some(), || format!("no reason: {}", told()))?;
    must(status != Complete || point.reason.is_none(), || format!("a reason: {}", told()))
}

/// A run that knows of nothing that arrived has no figure about what arrived.
fn no_figure(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let point = ran.point();
    if arrived(point) > 0 || cell.verb.nature == Nature::Passes {
        return Ok(());
    }
    for figure in Figure::kept() {
        let about_arrivals = !matches!(
            figure,
            Figure::Errors
                | Figure::Caveats
                | Figure::Sent(_)
                | Figure::Cpu
                | Figure::Connects
                | Figure::ConnectTime(_)
                | Figure::Retransmits
                | Figure::Fairness
                | Figure::MessagesLost
                | Figure::Loss(_)
                | Figure::Frames
                | Figure::Goodput(_)
        );
        let value = figure.of(point);
        must(!about_arrivals || value.is_none(), || format!("{} is {value:?}", figure.key()))?;
        let zero_at_most = matches!(figure, Figure::Goodput(_));
        let confirmed = figure.way().and_then(|way| way.direction(point)).is_none_or(|d| d.confirmed);
        must(!zero_at_most || value.is_none_or(|value| value == 0.0) || !confirmed, || {
            format!("{} is {value:?}", figure.key())
        })?;
    }
    Ok(())
}

/// The figure about a server in the client's result is the server's own.
fn agree(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let point = ran.point();
    let whole = matches!(
        cell.trouble,
        Trouble::None
            | Trouble::Two
            | Trouble::Far
            | Trouble::Late
            | Trouble::Spoilt
            | Trouble::Damaged
            | Trouble::Narrow
    );
    if !whole || point.status != Status::Complete {
        return Ok(());
    }
    let all: Vec<&Totals> = ran.servers.iter().map(|server| &server.points[0].local).collect();
    let sum = |of: &dyn Fn(&Totals) -> u64, ends: &[&Totals]| ends.iter().map(|end| of(end)).sum::<u64>();
    let remote: Vec<&Totals> = point.remote.iter().collect();
    if remote.is_empty() {
        // A server that reports nothing has received no more than was sent, the end of a flow of
        // datagrams included.
        let (local, last) = (&point.local, u64::from(cell.verb.datagrams) * 16);
        let sent: u64 = point.connections.iter().map(|record| record.tx_bytes).sum();
        let sent = sent.max(local.traffic.tx_bytes) + last * local.opened.max(1);
        let read = sum(&|end| end.traffic.rx_bytes, &all);
        let trips = cell.verb.nature == Nature::Trips || cell.trouble == Trouble::Damaged;
        must(trips || read <= sent, || format!("the servers received {read} of {sent} bytes"))?;
        let good = matches!(cell.trouble, Trouble::None | Trouble::Far) && cell.phase.pattern.sends_up();
        return must(!good || trips || read > 0, || format!("the servers received nothing of {sent} bytes"));
    }
    let same = |what: &str, of: &dyn Fn(&Totals) -> u64| {
        let (told, counted) = (sum(of, &remote), sum(of, &all));
        must(told == counted, || format!("{what}: {told} in the client's result, {counted} at the servers"))
    };
    // What the result has of a server's bytes ends with the run, and what the server has of its own
    // with the last byte.
    let within = |what: &str, of: &dyn Fn(&Totals) -> u64| {
        let (told, counted) = (sum(of, &remote), sum(of, &all));
        must(told <= counted, || format!("{what}: {told} in the client's result, {counted} at the servers"))
    };
    within("received bytes", &|end| end.traffic.rx_bytes)?;
    within("sent bytes", &|end| end.traffic.tx_bytes)?;
    if cell.protocol.name() == "native" {
        same("opened", &|end| end.opened)?;
        same("completed", &|end| end.completed)?;
        same("stopped", &|end| end.stopped)?;
    }
    let packets = |of: fn(&PacketReport) -> u64| move |end: &Totals| end.packets.as_deref().map_or(0, of);
    let known =
        |of: fn(&PacketReport) -> bool| remote.iter().all(|end| end.packets.as_deref().is_none_or(of));
    if known(|packets| packets.received().is_some()) {
        same("datagrams received", &packets(|packets| packets.counts.received))?;
    }
    if known(|packets| packets.lost().is_some()) {
        same("datagrams lost", &packets(|packets| packets.counts.lost.max(0) as u64))?;
    }
    Ok(())
}

/// A rate that was asked for is the one that is told, on every path that loses nothing, however
/// long it is.
fn rate(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let point = ran.point();
    let Some(asked) = cell.verb.rate else { return Ok(()) };
    let lossless = matches!(cell.trouble, Trouble::None | Trouble::Two | Trouble::Far);
    if !lossless || ran.took.is_none() || cell.is_limited() {
        return Ok(());
    }
    let asked = (asked * u64::from(cell.phase.connections)) as f64;
    for way in Way::ALL {
        if !cell.phase.pattern.sends(way) {
            continue;
        }
        for figure in [Figure::Goodput(way), Figure::Sent(way)] {
            let Some(value) = figure.of(point) else { continue };
            let off = value / asked - 1.0;
            must(off.abs() <= 0.005, || {
                format!("{}: {value:.0} of {asked:.0} bit/s, {:.2} %", figure.key(), off * 100.0)
            })?;
        }
    }
    Ok(())
}

/// What the intervals say together is what the totals say.
fn sums(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let point = ran.point();
    let whole = point.status == Status::Complete;
    let sum = |of: &dyn Fn(&Interval) -> u64| point.intervals.iter().map(of).sum::<u64>();
    let local = point.local.traffic;
    if ran.took.is_none() || point.intervals.is_empty() {
        return Ok(());
    }
    let same = |what: &str, intervals: u64, totals: u64| {
        must(intervals == totals, || format!("{what}: {intervals} in intervals, {totals} in all"))
    };
    same("sent here", sum(&|i| i.local.tx_bytes), local.tx_bytes)?;
    same("received here", sum(&|i| i.local.rx_bytes), local.rx_bytes)?;
    if whole && !point.remote.is_empty() && cell.protocol.name() != "udpmon" {
        let remote = |of: fn(&Traffic) -> u64| move |i: &Interval| i.remote.as_ref().map_or(0, of);
        let all = |of: fn(&Traffic) -> u64| point.remote.iter().map(|end| of(&end.traffic)).sum::<u64>();
        let told = point.intervals.iter().any(|i| i.remote.is_some());
        if told {
            same("received there", sum(&remote(|t| t.rx_bytes)), all(|t| t.rx_bytes))?;
            same("sent there", sum(&remote(|t| t.tx_bytes)), all(|t| t.tx_bytes))?;
        }
        if let Some(silent) = point.intervals.iter().find(|i| told && i.remote.is_none()) {
            return Err(format!("interval {} of {} has no remote end", silent.index, point.intervals.len()));
        }
    }
    let packets = |of: fn(&PacketReport) -> u64| move |i: &Interval| i.packets.as_deref().map_or(0, of);
    if let Some(all) = &point.local.packets {
        same("datagrams sent here", sum(&packets(|p| p.counts.sent)), all.counts.sent)?;
        same("datagrams received here", sum(&packets(|p| p.counts.received)), all.counts.received)?;
    }
    for pair in point.intervals.windows(2) {
        must(pair[0].end_ns == pair[1].start_ns && pair[0].index + 1 == pair[1].index, || {
            format!("a gap between intervals {} and {}", pair[0].index, pair[1].index)
        })?;
    }
    let empty = point.intervals.iter().find(|i| i.start_ns >= i.end_ns);
    must(empty.is_none(), || {
        format!("interval {:?} has no length", empty.map(|i| (i.index, i.start_ns, i.end_ns)))
    })
}

/// Connections end after they began.
fn records(_: &Cell, ran: &Ran) -> Result<(), String> {
    for outcome in std::iter::once(&ran.outcome).chain(&ran.servers) {
        let point = &outcome.points[0];
        for record in &point.connections {
            must(record.duration_ns <= record.ended_ns, || {
                format!(
                    "{}: a connection ended {} ns after the start and had lasted {} ns",
                    outcome.begin.verb, record.ended_ns, record.duration_ns
                )
            })?;
        }
    }
    Ok(())
}

/// Nothing is lost that nobody dropped.
fn lost(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let lossless = matches!(cell.trouble, Trouble::None | Trouble::Two | Trouble::Far | Trouble::Late);
    let [there, back] = ran.fates;
    let dropped = |fate: Fate| fate.lost + fate.oversized + fate.dropped + fate.spoilt + fate.overflowed;
    if !lossless || cell.is_limited() || dropped(there) + dropped(back) > 0 {
        return Ok(());
    }
    for end in ran.point().ends() {
        if let Some(packets) = &end.packets {
            let (lost, counts) = (packets.lost().unwrap_or(0), &packets.counts);
            must(lost == 0 && counts.duplicated == 0, || format!("{}: {lost} lost, {counts:?}", end.who))?;
        }
        if let Some(pings) = &end.pings {
            let counts = &pings.counts;
            must(counts.lost == 0 && counts.repeated == 0, || format!("messages: {counts:?}"))?;
        }
    }
    Ok(())
}

/// No part is larger than its whole, and nothing is received that was not sent.
fn parts(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let point = ran.point();
    for end in point.ends() {
        if let Some(packets) = &end.packets {
            let counts = &packets.counts;
            let lost = packets.lost().unwrap_or(0);
            must(lost >= 0, || format!("{}: {lost} lost", end.who))?;
            // A count that the reader is told to be unknown is none.
            let dropped = packets.dropped_of_lost().unwrap_or(0);
            must(dropped as i64 <= lost, || format!("{}: {dropped} dropped of {lost} lost", end.who))?;
            must(counts.late <= counts.received, || {
                format!("{}: {} late of {} received", end.who, counts.late, counts.received)
            })?;
        }
        if let Some(pings) = &end.pings {
            let counts = &pings.counts;
            let settled = counts.received + counts.damaged + counts.lost.max(0) as u64;
            must(settled <= counts.sent && counts.late <= counts.received && counts.lost >= 0, || {
                format!("messages: {counts:?}")
            })?;
        }
    }
    if point.remote.is_empty() || cell.verb.nature == Nature::Trips {
        return Ok(());
    }
    let sum = |of: &dyn Fn(&Totals) -> u64| point.remote.iter().map(of).sum::<u64>();
    let known = |of: fn(&PacketReport) -> u64| move |end: &Totals| end.packets.as_deref().map_or(0, of);
    let (sent, received) =
        (known(|p| p.sent().unwrap_or(0)), known(|p| p.received().unwrap_or(0) + p.counts.corrupt));
    let lost = known(|p| p.lost().unwrap_or(0).max(0) as u64);
    let ways = [
        ("there", sent(&point.local), sum(&received), sum(&lost)),
        ("back", sum(&sent), received(&point.local), lost(&point.local)),
    ];
    for (way, sent, received, lost) in ways {
        // A server that reports what it received does not always report what it sent.
        must(sent == 0 || received + lost <= sent, || {
            format!("{way}: {received} received and {lost} lost of {sent}")
        })?;
    }
    for (way, d) in [("there", point.up), ("back", point.down)] {
        // What two ends count of a stream in the time of the run ends at two instants.
        let Some(d) = d.filter(|_| cell.verb.nature == Nature::Scheduled) else { continue };
        let sent = d.sent_bytes().filter(|_| d.confirmed).unwrap_or(d.received_bytes);
        must(d.received_bytes <= sent, || format!("{way}: {} bytes received of {sent}", d.received_bytes))?;
    }
    Ok(())
}

/// A caveat that names a cause is raised only where the cell has the cause.
fn caveats(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let point = ran.point();
    let [there, back] = ran.fates;
    let overflowed = there.and(back).overflowed > 0;
    let lossless = matches!(cell.trouble, Trouble::None | Trouble::Two | Trouble::Far) && !cell.is_limited();
    let lost = |fate: Fate| fate.lost + fate.oversized + fate.dropped + fate.spoilt;
    for caveat in &point.caveats {
        let justified = match caveat.code.as_str() {
            // Nothing in virtual time stands for these.
            "queue-drops" | "softnet-drops" | "listen-drops" | "cpu-bound" | "host-busy" | "cpu-steal"
            | "ephemeral-ports" | "file-descriptors" | "other-sessions" | "clock-stepped" | "loopback"
            | "card-stamps" | "window-limited" => false,
            "receive-buffer-overflow" => overflowed,
            "rate-missed" | "not-sent" | "sender-throttled" | "missed-slots" | "unstable"
            | "stream-limit" => !lossless || cell.verb.rate.is_none(),
            "late-or-lost" => !lossless || lost(there) + lost(back) > 0,
            "unfinished-connections" => !lossless,
            "server-not-measured" => !lossless,
            "server-reduced" => cell.is_limited(),
            "unconfirmed" => point.remote.is_empty() || !lossless,
            _ => true,
        };
        must(justified, || format!("{}: {}", caveat.code, caveat.text))?;
    }
    Ok(())
}

/// Bytes that a server may send or receive beyond its limit: datagrams that were early, and the
/// framing of connections.
const SLACK: u64 = 8 * 1024 + 1_500;
const SLACK_OF_DATAGRAMS: u64 = 64 * 1024 + 1_500;
/// After the run a server reads what is in its receive buffer.
const SLACK_OF_STREAMS: u64 = SLACK + super::cell::WINDOW as u64;

/// A server moves no more than it may.
fn limits(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let Some(rate) = (cell.limits.1)(&cell.phase).rate else { return Ok(()) };
    let took = ran.took.unwrap_or(0);
    for server in &ran.servers {
        let local = &server.points[0].local.traffic;
        let most = |slack: u64| rate / 8 * took / SECOND * 11 / 10 + slack;
        let slack = if cell.verb.datagrams { SLACK_OF_DATAGRAMS } else { SLACK_OF_STREAMS };
        for (what, bytes, most) in
            [("sent", local.tx_bytes, most(SLACK)), ("received", local.rx_bytes, most(slack))]
        {
            must(bytes <= most, || format!("{what} {bytes} bytes of {most}, {rate} bit/s"))?;
        }
    }
    let point = ran.point();
    let named = |text: &str| text.contains("bit/s") || text.contains("rate");
    let told = point.caveats.iter().any(|caveat| caveat.code == "server-reduced")
        || point.reason.as_deref().is_some_and(named);
    let moves = cell.phase.kind != Kind::Connect;
    must(cell.protocol.name() != "native" || told || !moves, || {
        format!("nothing is said of it: {:?} {:?}", point.reason, point.caveats)
    })
}

/// Every server that was named was measured, or the result says that it was not.
fn servers(cell: &Cell, ran: &Ran) -> Result<(), String> {
    let point = ran.point();
    if !matches!(cell.trouble, Trouble::Two | Trouble::Half) || point.status == Status::Failed {
        return Ok(());
    }
    let counted = |server: &model::Outcome| {
        let local = &server.points[0].local;
        local.opened > 0 || local.traffic.rx_bytes + local.traffic.tx_bytes > 0
    };
    let all = ran.servers.iter().filter(|server| counted(server)).count();
    let said = point.caveats.iter().any(|caveat| caveat.text.contains("10.0.0.2"))
        || ran.outcome.notices.iter().any(|text| text.contains("10.0.0.2"))
        || point.reason.as_deref().is_some_and(|text| text.contains("10.0.0.2"))
        || point.caveats.iter().any(|caveat| caveat.code == "unconfirmed")
        || shows(point);
    must(all == 2 || said, || format!("{all} of 2 servers were measured, and nothing says so"))
}
