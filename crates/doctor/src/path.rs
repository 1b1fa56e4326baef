//! Checks of the path to a server: the short runs that try it, their results, and the judgment.

use crate::{ALL, Check, OF_DATAGRAMS, OF_SEGMENTS, Place, State};
use metrics::{ClockFound, Packets, SECOND, format_count, format_duration};
use model::{
    Connecting, HostSnapshot, Kind, MtuFound, Outcome, PacketReport, PathMtu, Pattern, Phase, Point, Probe,
    Range, SessionInfo, Status, Waiting,
};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Bytes over TCP in each direction: a dozen full segments.
const TRANSFER: u64 = 16 << 10;
/// Longest run that is proposed, ns: a server that allows less says so.
const LONGEST: u64 = 3_600 * SECOND;
/// Time for a connect, and without progress, ns: Linux sends the third SYN after 3 s.
pub const PATIENCE_NS: u64 = 4 * SECOND;
/// Datagrams in each direction: their payload, rate and time.
const PAYLOAD: u32 = 200;
const DATAGRAMS_PER_SECOND: u64 = 100;
const LENGTH: u64 = SECOND / 2;
/// Wait for the last datagrams, ns.
const LATE: u64 = SECOND / 2;
/// Largest packet that is tried, bytes: jumbo frames.
const LARGEST_PACKET: u32 = 9_000;
/// The largest packet where the interface's MTU is not known: Ethernet's.
const ETHERNET: u32 = 1_500;
/// An MTU that every path of IPv6 carries.
const SMALL_PACKET: u32 = 1_280;
/// Bound on the difference of the two clocks above which one-way delays are coarse, ns.
const COARSE: u64 = SECOND / 1_000;
/// The usual port, which commands need not name.
const PORT: u16 = 7_411;

/// Results of the tries on the path to a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Path {
    /// The server as it was named.
    pub target: String,
    /// Its address and port.
    pub address: SocketAddr,
    /// Result of a TCP connection to the port.
    pub tcp: Connecting,
    /// Why the run over TCP failed; `None` when its bytes arrived whole both ways.
    pub tcp_failure: Option<String>,
    /// The server and its grant; `None` when it made none.
    pub session: Option<SessionInfo>,
    /// Round trip of a small datagram to the port, ns; `None` without an answer.
    pub udp_rtt_ns: Option<u64>,
    /// Why the run over UDP failed; `None` when there was none, or it succeeded.
    pub udp_failure: Option<String>,
    /// Datagrams to the server, where they were tried.
    pub up: Option<Datagrams>,
    /// Datagrams from the server, where they were tried.
    pub down: Option<Datagrams>,
    /// The server's clock compared with this host's, over the path.
    pub clock: Option<ClockFound>,
    /// Largest packets that arrived, where they were tried.
    pub mtu: Option<PathMtu>,
    /// Largest packet that was tried, bytes: the interface's MTU, 9000 at most.
    pub largest_tried: u32,
}

/// Datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Datagrams {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived, repetitions not counted.
    pub received: u64,
}

impl Path {
    /// A path of which nothing is known yet, through an interface of this MTU.
    pub fn new(target: &str, address: SocketAddr, host: &HostSnapshot) -> Path {
        let mtu = host.nic.as_ref().map(|nic| nic.mtu).filter(|mtu| *mtu > 0);
        Path {
            target: target.to_owned(),
            address,
            tcp: Connecting::Connected,
            tcp_failure: None,
            session: None,
            udp_rtt_ns: None,
            udp_failure: None,
            up: None,
            down: None,
            clock: None,
            mtu: None,
            largest_tried: mtu.unwrap_or(ETHERNET).clamp(576, LARGEST_PACKET),
        }
    }

    /// The run over TCP: both ways, some full segments, proposed without an end so that the server
    /// reports its limits.
    pub fn tcp_phase() -> Phase {
        Phase {
            kind: Kind::Tcp,
            pattern: Pattern::Duplex,
            connections: 1,
            transfer: 2 * TRANSFER,
            iterations: Some(1),
            buffer: Range::just(TRANSFER),
            duration_ns: Some(LONGEST),
            connect_timeout_ns: PATIENCE_NS,
            stall_ns: PATIENCE_NS,
            ..Phase::default()
        }
    }

    /// The run over UDP: datagrams both ways.
    pub fn datagram_phase() -> Phase {
        Phase {
            kind: Kind::Delay,
            pattern: Pattern::Duplex,
            connections: 1,
            rate: Some(u64::from(PAYLOAD) * 8 * DATAGRAMS_PER_SECOND),
            duration_ns: Some(LENGTH),
            connect_timeout_ns: PATIENCE_NS,
            stall_ns: PATIENCE_NS,
            probe: Some(Probe {
                size: PAYLOAD,
                late_ns: LATE,
                lead_ns: SECOND / 5,
                waiting: Waiting::Block,
                ..Probe::default()
            }),
            ..Phase::default()
        }
    }

    /// Bytes that IP and UDP add to a datagram on this path.
    pub fn headers(&self) -> u32 {
        if self.address.ip().to_canonical().is_ipv4() { 28 } else { 48 }
    }

    /// Takes the result of [`Path::tcp_phase`].
    pub fn take_tcp(&mut self, outcome: &Outcome) {
        let point = outcome.points.last();
        self.tcp_failure = failure(outcome);
        self.session = point.and_then(|point| point.sessions.first().cloned());
        if let Some(session) = &self.session {
            self.address = session.address;
            self.udp_rtt_ns = session.udp_rtt_ns;
        }
        let arrived = |way: Option<model::Direction>| way.is_some_and(|way| way.received_bytes >= TRANSFER);
        if self.tcp_failure.is_none() && !point.is_some_and(|point| arrived(point.up) && arrived(point.down))
        {
            self.tcp_failure = Some("not all of the bytes arrived".to_owned());
        }
    }

    /// Takes the result of [`Path::datagram_phase`].
    pub fn take_datagrams(&mut self, outcome: &Outcome) {
        self.udp_failure = failure(outcome);
        let Some(point) = outcome.points.last() else { return };
        let of = |report: Option<&PacketReport>| report.map(|report| report.counts);
        let local = point.local.packets.as_deref();
        let remote = point.remote.first().and_then(|totals| totals.packets.as_deref());
        let way = |sender: Option<Packets>, receiver: Option<Packets>| {
            Some(Datagrams { sent: sender?.sent, received: receiver?.received })
        };
        self.up = way(of(local), of(remote));
        self.down = way(of(remote), of(local));
        self.clock = local.and_then(|report| report.clock_found);
    }

    /// Takes the result of a search for the largest packets.
    pub fn take_mtu(&mut self, outcome: &Outcome) {
        self.mtu = outcome.path_mtu;
    }

    /// True if datagrams can be tried.
    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Smallest round trip to the server, ns.
    pub(crate) fn round_trip_ns(&self) -> Option<u64> {
        let idle = self.session.as_ref().map(|session| session.base_rtt_ns);
        idle.into_iter().chain(self.udp_rtt_ns).filter(|ns| *ns > 0).min()
    }

    /// A reason as the end of a sentence, without the server's name, which reasons begin with.
    fn sentence(&self, why: &str) -> String {
        let name = format!("{}: ", self.target);
        let why = why.strip_prefix(&name).unwrap_or(why);
        if why.ends_with(['.', '?']) { why.to_owned() } else { format!("{why}.") }
    }

    /// The port behind a command, where it is not the usual one.
    fn port_option(&self) -> String {
        match self.address.port() {
            PORT => String::new(),
            port => format!(" -p {port}"),
        }
    }
}

/// Why a run has no whole result.
fn failure(outcome: &Outcome) -> Option<String> {
    let Some(point) = outcome.points.last() else { return Some("nothing was measured".to_owned()) };
    let errors = |point: &Point| {
        let ends = std::iter::once(&point.local).chain(&point.remote);
        let cause = ends.flat_map(|totals| &totals.causes).next();
        cause.map(|cause| cause.text.clone())
    };
    match point.status {
        Status::Complete => errors(point),
        _ => point.reason.clone().or_else(|| errors(point)).or_else(|| Some(point.status.name().to_owned())),
    }
}

/// The checks, of a client of this version on this host.
pub(crate) fn checks(path: &Path, host: &HostSnapshot, version: &str) -> Vec<Check> {
    let mut all = vec![tcp(path), udp(path), large_packets(path, host)];
    if let Some(session) = &path.session {
        all.extend([versions(session, version), terms(path, session), clocks(path, session)]);
    }
    all
}

fn check(name: &str, state: State, text: impl Into<String>) -> Check {
    Check::new(name, Place::Path, state, text)
}

/// TCP to the port, and the server behind it.
fn tcp(path: &Path) -> Check {
    const NAME: &str = "tcp";
    let (at, port) = (path.address, path.address.port());
    let missing = |text: String| check(NAME, State::Missing, text).prevents(&ALL);
    match (path.tcp, &path.tcp_failure) {
        (Connecting::Connected, None) => {
            let trip = path.round_trip_ns().map_or_else(String::new, |ns| {
                format!(", with a round trip of {}", format_duration(ns))
            });
            check(NAME, State::Ok, format!("TCP to {at} passes, full segments both ways{trip}."))
        }
        // Full segments are a check of their own.
        (Connecting::Connected, Some(_)) if is_black_hole(path) => {
            check(NAME, State::Ok, format!("TCP to {at} connects, and short messages pass."))
        }
        (Connecting::Connected, Some(why)) => {
            missing(format!("TCP to {at} connects, but the run failed: {}", path.sentence(why)))
        }
        (Connecting::Refused, _) => missing(format!(
            "TCP to {at} is refused: no server listens there, or a firewall answers in its place."
        ))
        .mend_at(Place::Remote, format!("netcaliper serve{}", path.port_option())),
        (Connecting::Silent, _) => missing(format!(
            "TCP to {at} is blocked: nothing answers within {} s, because a firewall drops it or no host has the address.",
            PATIENCE_NS / SECOND
        ))
        .mend_at(Place::Remote, format!("sudo ufw allow {port}/tcp")),
        (Connecting::Unreachable, _) => missing(format!(
            "TCP to {at} is refused on the way: no route or no host has the address, or a firewall answers with ICMP."
        ))
        .mend_at(Place::Local, format!("ip route get {}", at.ip())),
        (Connecting::Forbidden, _) => {
            missing(format!("TCP to {at} is blocked by this host's own firewall."))
                .mend_at(Place::Local, format!("sudo ufw allow out {port}/tcp"))
        }
    }
}

/// True if connections are established and a small datagram is answered by the server, but nothing
/// with full packets succeeds.
fn is_black_hole(path: &Path) -> bool {
    let vanishes =
        |found: Option<MtuFound>| found.is_none_or(|found| found.mtu < path.largest_tried && !found.told);
    let is_tcp = path.tcp == Connecting::Connected && path.tcp_failure.is_some();
    match (&path.mtu, &path.session) {
        (Some(mtu), _) => is_tcp && (vanishes(mtu.up) || vanishes(mtu.down)),
        // The server's first message fills a packet, and a datagram of some bytes passes.
        (None, None) => is_tcp && path.udp_rtt_ns.is_some() && is_silence(path),
        (None, Some(_)) => false,
    }
}

/// True if the server said nothing, rather than something wrong.
fn is_silence(path: &Path) -> bool {
    path.tcp_failure.as_ref().is_some_and(|why| why.contains("said nothing"))
}

/// UDP to the port.
fn udp(path: &Path) -> Check {
    const NAME: &str = "udp";
    let (at, port) = (path.address, path.address.port());
    let lost = |way: Option<Datagrams>| way.map_or(0, |way| way.sent.saturating_sub(way.received));
    let sent = |way: Option<Datagrams>| way.map_or(0, |way| way.sent);
    match (&path.udp_failure, path.up, path.down) {
        (None, Some(up), Some(down)) if up.received > 0 && down.received > 0 => {
            let (lost, sent) = (lost(path.up) + lost(path.down), sent(path.up) + sent(path.down));
            if lost == 0 {
                return check(
                    NAME,
                    State::Ok,
                    format!("UDP to {at} passes both ways, {sent} of {sent} datagrams."),
                );
            }
            let text =
                format!("UDP to {at} passes, and {lost} of {sent} datagrams were lost: streams have gaps.");
            return check(NAME, State::Limits, text)
                .mend_at(Place::Local, format!("netcaliper delay {}{}", path.target, path.port_option()));
        }
        _ => {}
    }
    if path.udp_rtt_ns.is_some() {
        let Some(why) = &path.udp_failure else {
            return check(NAME, State::Ok, format!("UDP to {at} passes: a datagram is answered."));
        };
        let text = format!("UDP to {at} passes, but the run with datagrams failed: {}", path.sentence(why));
        return check(NAME, State::Missing, text).prevents(&OF_DATAGRAMS);
    }
    if path.session.is_none() && path.tcp != Connecting::Silent {
        return check(
            NAME,
            State::Unknown,
            format!("UDP to {at} is known once netcaliper serve answers there."),
        );
    }
    let text = match path.session.is_some() {
        true => format!("UDP to {at} is blocked: no datagram returns although TCP passes."),
        false => {
            format!("UDP to {at} is blocked, too: no datagram returns, as where no host has the address.")
        }
    };
    check(NAME, State::Missing, text)
        .mend_at(Place::Remote, format!("sudo ufw allow {port}/udp"))
        .prevents(&OF_DATAGRAMS)
}

/// Packets of the interface's full size.
fn large_packets(path: &Path, host: &HostSnapshot) -> Check {
    const NAME: &str = "large-packets";
    let name = host.nic.as_ref().map(|nic| nic.name.as_str()).filter(|name| !name.is_empty());
    let smaller = |mtu: u32| name.map(|name| format!("sudo ip link set dev {name} mtu {mtu}"));
    let mended = |check: Check, mtu: u32| match smaller(mtu) {
        Some(command) => check.mend_at(Place::Local, command),
        None => check,
    };
    let Some(mtu) = path.mtu else {
        if is_black_hole(path) {
            let text = "Large packets are blocked: short messages pass, and the server's first full packet does not \
                        arrive.";
            return mended(check(NAME, State::Missing, text).prevents(&ALL), SMALL_PACKET);
        }
        let full = path.tcp == Connecting::Connected && path.tcp_failure.is_none();
        let text = match full {
            true => "Full TCP segments pass; larger packets need UDP to be tried.",
            false => "Large packets can be tried once TCP and UDP pass.",
        };
        return check(NAME, State::Unknown, text);
    };
    let ways = [("to the server", mtu.up), ("from the server", mtu.down)];
    let tight = |found: Option<MtuFound>| found.is_none_or(|found| found.mtu < path.largest_tried);
    let bad: Vec<(&str, Option<MtuFound>)> = ways.into_iter().filter(|(_, found)| tight(*found)).collect();
    let Some(least) = bad.iter().map(|(_, found)| found.map_or(0, |found| found.mtu)).min() else {
        let text = format!("Packets of {} bytes pass whole, both ways.", path.largest_tried);
        return check(NAME, State::Ok, text);
    };
    let parts: Vec<String> = bad
        .iter()
        .map(|(way, found)| match found {
            None => format!("{way} none passes"),
            Some(MtuFound { mtu, told: true, .. }) => format!("{way} those above {mtu} bytes are refused"),
            Some(MtuFound { mtu, .. }) => format!("{way} those above {mtu} bytes vanish without a message"),
        })
        .collect();
    let parts = parts.join(", ");
    let least = least.max(SMALL_PACKET.min(path.largest_tried));
    if is_black_hole(path) {
        let text = format!("Large packets are blocked: {parts}; connections that send full segments stall.");
        return mended(check(NAME, State::Missing, text).prevents(&OF_SEGMENTS), least);
    }
    let text = format!("Large packets do not pass whole: {parts}; datagrams are cut, segments smaller.");
    mended(check(NAME, State::Limits, text), least)
}

/// The versions of both ends.
fn versions(session: &SessionInfo, own: &str) -> Check {
    const NAME: &str = "versions";
    if session.version == own {
        return check(NAME, State::Ok, format!("Both ends are netcaliper {own}."));
    }
    let text = format!(
        "The server is netcaliper {}, this end {own}: only what both know is measured.",
        session.version
    );
    check(NAME, State::Limits, text)
}

/// The server's terms: its reductions, and other sessions.
fn terms(path: &Path, session: &SessionInfo) -> Check {
    const NAME: &str = "server-limits";
    let changes: Vec<String> = session
        .accepted
        .changes
        .iter()
        .map(|change| format!("{} {} ({})", change.what, change.given, change.why))
        .collect();
    let others = u64::from(session.accepted.others);
    let share = format!("{} on the server now", format_count(others, "other session"));
    match (changes.is_empty(), others) {
        (true, 0) => {
            check(NAME, State::Ok, format!("{} limits nothing, and serves nobody else.", path.target))
        }
        (true, _) => {
            let text = format!("{share}: results include their share.");
            check(NAME, State::Limits, text).mend_at(
                Place::Local,
                format!("netcaliper tcp {}{} --exclusive", path.target, path.port_option()),
            )
        }
        (false, _) => {
            let others = if others > 0 { format!("; {share}") } else { String::new() };
            check(NAME, State::Limits, format!("The server limits sessions: {}{others}.", changes.join(", ")))
        }
    }
}

/// The two clocks.
fn clocks(path: &Path, session: &SessionInfo) -> Check {
    const NAME: &str = "clock-offset";
    if session.same_host {
        return check(NAME, State::Ok, "Both ends read one clock: one-way delays need no comparison.");
    }
    let Some(found) = path.clock else {
        return check(NAME, State::Unknown, "The clocks of the two hosts can be compared once UDP passes.");
    };
    let (apart, bound) = (format_duration(found.offset_ns.unsigned_abs()), format_duration(found.bound_ns));
    let text = format!("The clocks of the two hosts are compared to ±{bound}, {apart} apart");
    if found.stepped {
        let text = format!("{text}: one was stepped meanwhile, so that one-way delays jump.");
        return check(NAME, State::Limits, text);
    }
    if found.bound_ns > COARSE {
        let text = format!("{text}: one-way delays are no better than that.");
        return check(NAME, State::Limits, text);
    }
    check(NAME, State::Ok, format!("{text}."))
}
