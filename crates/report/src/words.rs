//! The words of the model as people read them; every reporter for people uses these.

pub(crate) use metrics::format_count as count;
use metrics::{Clamped, Ending, SECOND, format_bits_per_second, format_bytes, format_duration, real};
use model::{
    HostSnapshot, Kind, Level, Media, Pattern, Phase, Ping, Probe, Schedule, SessionInfo, Spacing, Totals,
    Train, Transport, Verify,
};
use std::collections::BTreeMap;

/// `3 late`, `1 lost`: the things there are any of.
pub(crate) fn counted<'a>(all: impl IntoIterator<Item = (u64, &'a str)>) -> impl Iterator<Item = String> {
    all.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"))
}

/// `TTL 63`, `TTL 63 to 64`
pub(crate) fn range(name: &str, (low, high): (u8, u8)) -> String {
    if low == high { format!("{name} {low}") } else { format!("{name} {low} to {high}") }
}

/// `8 x EPYC`, or only their number where the host reports no more.
pub(crate) fn cpus(host: &HostSnapshot) -> String {
    match host.cpu.as_str() {
        "" => count(u64::from(host.cpus), "CPU"),
        cpu => format!("{} x {cpu}", host.cpus),
    }
}

/// The round trip before the load, where the server reported it.
pub fn idle_round_trip(session: &SessionInfo) -> Option<String> {
    (session.base_rtt_ns > 0).then(|| format!("idle round trip {}", format_duration(session.base_rtt_ns)))
}

/// Text before a notice of this level.
pub fn level(level: Level) -> &'static str {
    match level {
        Level::Info => "",
        Level::Warning => "warning: ",
        Level::Error => "error: ",
    }
}

/// `buffer=65536 connections=4`: the sweep's setting, for programs.
pub(crate) fn pairs(label: &BTreeMap<String, String>) -> String {
    label.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

pub(crate) fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::Stopped => "stopped",
        Ending::NetworkError => "network error",
        Ending::DataError => "data error",
        Ending::ProtocolError => "protocol error",
    }
}

pub(crate) fn verify(verify: Verify) -> &'static str {
    match verify {
        Verify::Data => "every byte compared",
        Verify::Connection => "bytes counted only",
        Verify::None => "discarded unread (MSG_TRUNC)",
    }
}

/// A receiver's real check; the requested one when it reports none.
pub(crate) fn received(totals: &Totals, asked: Verify) -> &str {
    match totals.receive.as_str() {
        "compare" => verify(Verify::Data),
        "read" => verify(Verify::Connection),
        "discard" => verify(Verify::None),
        "" => verify(asked),
        other => other,
    }
}

/// The settings of a sweep: `buffer 64.0 KiB, connections 4`.
fn label(label: &BTreeMap<String, String>) -> String {
    let pair = |(name, text): (&String, &String)| match value(name, text) {
        // The parts of a demonstration have names of their own.
        part if part != *text && name == "part" => part,
        value => format!("{name} {value}"),
    };
    label.iter().map(pair).collect::<Vec<_>>().join(", ")
}

/// Which of several phases: its settings and its repetition; empty when there is but one.
pub fn setting(settings: &BTreeMap<String, String>, repeat: u32) -> String {
    let mut words = label(settings);
    if repeat > 1 {
        let comma = if words.is_empty() { "" } else { ", " };
        words.push_str(&format!("{comma}repetition {repeat}"));
    }
    words
}

/// Parts of a demonstration, and their names for people.
const DEMO: [(&str, &str); 3] =
    [("tcp push", "TCP one way"), ("tcp duplex", "TCP both ways"), ("connect", "connections")];

/// A value of a sweep with its unit.
pub(crate) fn value(name: &str, value: &str) -> String {
    match (name, value.parse::<u64>()) {
        ("buffer" | "size", Ok(bytes)) => format_bytes(bytes),
        ("spacing", Ok(ns)) => format_duration(ns),
        ("rate", Ok(rate)) => format_bits_per_second(rate),
        ("part", Err(_)) => {
            DEMO.iter().find(|(key, _)| *key == value).map_or(value, |(_, name)| *name).to_owned()
        }
        _ => value.to_owned(),
    }
}

pub(crate) fn phase(phase: &Phase) -> String {
    let mut words = vec![match phase.kind {
        Kind::Tcp => format!("tcp {}", tcp_way(phase.pattern)),
        kind => kind.name().to_owned(),
    }];
    if let Some(probe) = phase.probe.as_ref().filter(|_| phase.media.is_none()) {
        words.extend(datagrams(probe, phase));
        return words.join(", ");
    }
    if phase.capacity.is_some() {
        words.extend(crate::summary::capacity_settings(phase));
        return words.join(", ");
    }
    if let Some(ping) = &phase.ping {
        words.extend(messages(ping, phase.connections));
    } else if let Some(media) = &phase.media {
        if phase.probe.is_some() {
            words.push(way(phase).to_owned());
        }
        words.extend(stream(media, phase.connections));
    } else {
        let connections = count(u64::from(phase.connections), "connection");
        // A run of another program may not say how much each was to move; nobody asked for the default.
        let is_default = [Phase::default().transfer, Phase::MAX_TRANSFER].contains(&phase.transfer)
            && phase.transfer_high.is_none();
        words.push(match phase.transfer {
            _ if is_default => connections,
            0 => connections,
            bytes => format!("{connections} of {}", span(bytes, phase.transfer_high, format_bytes)),
        });
    }
    if let Some(n) = phase.iterations.filter(|&n| n > 1 || !matches!(phase.kind, Kind::Ping | Kind::Stream)) {
        words.push(format!("{n} each in turn"));
    }
    words.extend(phase.hold_ns.map(|ns| format!("held open together for {}", format_duration(ns))));
    words.extend(phase.total_bytes.map(|n| format!("{} in all", format_bytes(n))));
    words.extend(phase.duration_ns.map(format_duration));
    if phase.omit_ns > 0 {
        words.push(format!("the first {} omitted", format_duration(phase.omit_ns)));
    }
    if phase.kind == Kind::Tcp && phase.buffer.high > 0 {
        words.push(format!("{} buffers", span(phase.buffer.low, Some(phase.buffer.high), format_bytes)));
        words.push(verify(phase.verify).to_owned());
    }
    let rates = |rate| span(rate, phase.rate_high, format_bits_per_second);
    words.extend(phase.rate.map(|rate| format!("at most {} each", rates(rate))));
    words.extend(phase.draw_seed.map(|seed| format!("drawn from seed {seed}")));
    words.extend(phase.connect_rate.map(|rate| format!("at most {rate} connections/s")));
    words.join(", ")
}

/// `1.00 KiB`, `1.00 KiB to 1.00 MiB`
fn span(low: u64, high: Option<u64>, text: impl Fn(u64) -> String) -> String {
    match (text(low), high.map(&text)) {
        (low, Some(high)) if low != high => format!("{low} to {high}"),
        (low, _) => low,
    }
}

/// `tcp, 1 connection, messages of 64 B, 1000 each, …`
fn messages(ping: &Ping, connections: u32) -> Vec<String> {
    let transport = if ping.transport == Transport::Udp { "udp" } else { "tcp" };
    let mut words = vec![transport.to_owned(), count(u64::from(connections), "connection")];
    words.push(format!("messages of {}", format_bytes(u64::from(ping.size))));
    words.extend(ping.messages.map(|n| format!("{n} each")));
    words.extend((ping.warmup > 0).then(|| format!("{} more to warm up", ping.warmup)));
    words.extend(ping.chunk.map(|n| format!("at most {} a send", format_bytes(u64::from(n)))));
    // `100 a second each`: without zeros behind the point.
    let rate = |gap: u64| {
        let number = format!("{:.6}", real(SECOND) / real(gap));
        format!("{} a second each", number.trim_end_matches('0').trim_end_matches('.'))
    };
    words.push(match ping.schedule {
        Schedule::Closed => "closed loop".to_owned(),
        Schedule::Fixed { gap_ns } => rate(gap_ns),
        Schedule::Poisson { gap_ns } => rate(gap_ns) + " at random",
        Schedule::Trace { gap_ns } => rate(gap_ns) + ", spaced by a trace",
    });
    words.extend(ping.busy.then(|| "spinning".to_owned()));
    words
}

/// `both ways, 1 flow of 1000 datagrams/s (11.2 Mbit/s), 1.37 KiB each, 10.0 s, …`
fn datagrams(probe: &Probe, phase: &Phase) -> Vec<String> {
    let size = format_bytes(u64::from(probe.size));
    let flows = count(u64::from(phase.connections), "flow");
    let mut words = vec![way(phase).to_owned()];
    words.push(match phase.rate {
        _ if phase.train.is_some() => trains(phase.train.as_ref()),
        Some(rate) => {
            let pps = real(rate) / (f64::from(probe.size) * 8.0);
            format!("{flows} of {pps:.0} datagrams/s ({})", format_bits_per_second(rate))
        }
        None => format!("{flows} as fast as it goes"),
    });
    words.push(format!("{size} each"));
    words.extend(phase.duration_ns.map(format_duration));
    match probe.spacing {
        Spacing::Fixed => {}
        Spacing::Trace => {
            let times = phase.trace.as_ref().map_or(0, |trace| u64::clamped(trace.gaps_ns.len()));
            words.push(format!("spaced by a trace of {}", count(times, "time")));
        }
        Spacing::Uniform => words.push(format!("uniform spacing from seed {}", probe.seed)),
        Spacing::Poisson => words.push(format!("Poisson spacing from seed {}", probe.seed)),
    }
    let sockets = &phase.sockets;
    words.extend((!sockets.gso).then(|| "one datagram a send".to_owned()));
    words.extend(sockets.gro.then(|| "received merged".to_owned()));
    words.extend((phase.verify != Verify::Data).then(|| "payload not compared".to_owned()));
    words
}

/// `10 trains of 100 packets, back to back or every 10 µs, one round every 200 ms`
fn trains(train: Option<&Train>) -> String {
    let Some(train) = train else { return String::new() };
    let waits: Vec<String> = train.waits_ns.iter().map(|ns| spacing(*ns)).collect();
    let each = if waits.len() > 1 { " each" } else { "" };
    format!(
        "{}{each} of {}, {}, a round every {}",
        count(train.repeat.into(), "train"),
        count(train.packets.into(), "packet"),
        waits.join(" or "),
        format_duration(train.every_ns)
    )
}

/// Time between the packets of a train.
pub(crate) fn spacing(wait_ns: u64) -> String {
    if wait_ns == 0 { "back to back".to_owned() } else { format!("every {}", format_duration(wait_ns)) }
}

fn tcp_way(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Push => "to server",
        Pattern::Pull => "from server",
        Pattern::PushPull { .. } => "both ways in turn",
        Pattern::Duplex => "both ways",
    }
}

pub(crate) fn way(phase: &Phase) -> &'static str {
    match (phase.pattern.sends_up(), phase.pattern.sends_down()) {
        (true, true) => "both ways at once",
        (false, true) => "from the server",
        _ => "to the server",
    }
}

/// `3 streams of 25.0 Mbit/s, 60 frames/s, …`
fn stream(media: &Media, streams: u32) -> [String; 4] {
    let datagrams = format_bytes(u64::from(media.datagram));
    [
        format!("{} of {}", count(u64::from(streams), "stream"), format_bits_per_second(media.rate_bps)),
        format!("{} frames of {} at {}/s", media.frames, format_bytes(media.frame_size), media.frame_rate),
        format!("{} of them buffered", media.depth_frames),
        format!("datagrams of up to {datagrams}{}", if media.spread { ", spread" } else { ", back to back" }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Range;

    #[test]
    fn a_phase_in_one_line() {
        let usual = "tcp to server, 8 connections, 10.0 s, 256 KiB buffers, every byte compared";
        assert_eq!(phase(&Phase::default()), usual);
        let odd = Phase {
            connections: 1,
            transfer: 2048,
            iterations: Some(3),
            duration_ns: None,
            buffer: Range { low: 1024, high: 1_048_576 },
            rate: Some(5_000_000),
            verify: Verify::None,
            ..Phase::default()
        };
        assert_eq!(
            phase(&odd),
            "tcp to server, 1 connection of 2.00 KiB, 3 each in turn, 1.00 KiB to 1.00 MiB buffers, discarded unread \
             (MSG_TRUNC), at most 5.00 Mbit/s each"
        );
        let connect =
            Phase { kind: Kind::Connect, transfer: 1, connect_rate: Some(500.0), ..Phase::default() };
        assert_eq!(phase(&connect), "connect, 8 connections of 1 B, 10.0 s, at most 500 connections/s");
        let media = Some(Media::new(25_000_000, 60, 60, 1, 1400).unwrap());
        let kind = Kind::Stream;
        let stream = Phase { kind, connections: 2, duration_ns: None, media, ..Phase::default() };
        assert_eq!(
            phase(&stream),
            "stream, 2 streams of 25.0 Mbit/s, 3600 frames of 50.9 KiB at 60/s, 60 of them buffered, datagrams of \
             up to 1.37 KiB, back to back"
        );
    }

    #[test]
    fn sweep_values_have_units() {
        let swept = [("buffer", "65536"), ("connections", "4"), ("rate", "1000000")];
        let map = swept.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(label(&map), "buffer 64.0 KiB, connections 4, rate 1.00 Mbit/s");
        assert_eq!(setting(&map, 2), "buffer 64.0 KiB, connections 4, rate 1.00 Mbit/s, repetition 2");
        assert_eq!(setting(&BTreeMap::new(), 3), "repetition 3");
        assert_eq!(setting(&BTreeMap::new(), 1), "");
    }
}
