//! The protocols that can be spoken, one row each.

use crate::one_sided::LinkSources;
use crate::{bwdelaytester, ctstraffic, echo, iperf3, native, ntttcp, stamp, tcpmon, ttcp, udpmon};
use model::{Kind, Pattern, Payload, Phase, Probe, SMALLEST_PROBE, Spacing, Stamping, Verify};
use std::fmt;
use std::str::FromStr;

/// A protocol, as `--protocol` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Our own: both ends agree, and tell each other what they counted.
    #[default]
    Native,
    /// That of Microsoft's ctsTraffic.
    CtsTraffic,
    /// Plain echo (RFC 862), and so RtTcpip's.
    Echo,
    /// STAMP (RFC 8762), and so TWAMP-Light.
    Stamp,
    /// That of ttcp, Teldat's among them.
    Ttcp,
    /// That of bwdelaytester.
    Bwdelaytester,
    /// That of UDPmon.
    Udpmon,
    /// That of tcpmon, UDPmon's sister.
    Tcpmon,
    /// That of ntttcp; without its conversation, by any verb, with it, as its face.
    Ntttcp,
    /// That of iperf3.
    Iperf3,
}

/// What is known of a protocol before anything is opened.
struct Row {
    protocol: Protocol,
    name: &'static str,
    port: u16,
    /// Why a phase cannot be carried, if it cannot.
    carries: fn(&Phase) -> Result<(), &'static str>,
    /// What makes its connections, when there is no conversation about them.
    sources: Option<LinkSources>,
    /// Whether the two ends prove with a key that they know each other.
    keyed: bool,
}

/// A row per protocol; whoever walks the table needs no edit for a new one.
const TABLE: &[Row] = &[
    Row {
        protocol: Protocol::Native,
        name: "native",
        port: native::PORT,
        carries: native_carries,
        sources: None,
        keyed: true,
    },
    Row {
        protocol: Protocol::CtsTraffic,
        name: "ctstraffic",
        port: ctstraffic::PORT,
        carries: ctstraffic_carries,
        sources: Some(LinkSources { connectors: ctstraffic::connectors, acceptors: ctstraffic::acceptors }),
        keyed: false,
    },
    Row {
        protocol: Protocol::Echo,
        name: "echo",
        port: echo::PORT,
        carries: echo_carries,
        sources: Some(LinkSources { connectors: echo::connectors, acceptors: echo::acceptors }),
        keyed: false,
    },
    Row {
        protocol: Protocol::Stamp,
        name: "stamp",
        port: stamp::PORT,
        carries: stamp_carries,
        sources: Some(LinkSources { connectors: stamp::connectors, acceptors: stamp::acceptors }),
        keyed: true,
    },
    Row {
        protocol: Protocol::Ttcp,
        name: "ttcp",
        port: ttcp::PORT,
        carries: ttcp_carries,
        sources: Some(LinkSources { connectors: ttcp::connectors, acceptors: ttcp::acceptors }),
        keyed: false,
    },
    Row {
        protocol: Protocol::Bwdelaytester,
        name: "bwdelaytester",
        port: bwdelaytester::PORT,
        carries: bwdelaytester_carries,
        sources: Some(LinkSources {
            connectors: bwdelaytester::connectors,
            acceptors: bwdelaytester::acceptors,
        }),
        keyed: false,
    },
    Row {
        protocol: Protocol::Udpmon,
        name: "udpmon",
        port: udpmon::PORT,
        carries: udpmon_carries,
        sources: Some(LinkSources { connectors: udpmon::connectors, acceptors: udpmon::acceptors }),
        keyed: false,
    },
    Row {
        protocol: Protocol::Tcpmon,
        name: "tcpmon",
        port: tcpmon::PORT,
        carries: tcpmon_carries,
        sources: Some(LinkSources { connectors: tcpmon::connectors, acceptors: tcpmon::acceptors }),
        keyed: false,
    },
    Row {
        protocol: Protocol::Ntttcp,
        name: "ntttcp",
        port: ntttcp::PORT,
        carries: ttcp_carries,
        sources: Some(LinkSources { connectors: ntttcp::connectors, acceptors: ntttcp::acceptors }),
        keyed: false,
    },
    Row {
        protocol: Protocol::Iperf3,
        name: "iperf3",
        port: iperf3::PORT,
        carries: iperf3_carries,
        sources: None,
        keyed: false,
    },
];

impl Protocol {
    /// Every protocol.
    pub fn all() -> impl Iterator<Item = Protocol> {
        TABLE.iter().map(|row| row.protocol)
    }

    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.protocol == self).unwrap_or(&TABLE[0])
    }

    /// Its name, as `--protocol` takes it and results give it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its default port.
    #[must_use]
    pub fn port(self) -> u16 {
        self.row().port
    }

    /// What makes its connections; `None` where the two ends talk about them first.
    #[must_use]
    pub fn link_sources(self) -> Option<LinkSources> {
        self.row().sources
    }

    /// Whether its two ends can prove with a key that they know each other.
    #[must_use]
    pub fn keyed(self) -> bool {
        self.row().keyed
    }

    /// Whether it can carry `phase`. To be asked before anything is opened.
    ///
    /// # Errors
    /// One sentence: what it cannot carry, and why.
    pub fn carries(self, phase: &Phase) -> Result<(), String> {
        (self.row().carries)(phase).map_err(|why| format!("the protocol {self} {why}"))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
        let found = TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(text));
        found
            .map(|row| row.protocol)
            .ok_or_else(|| format!("'{text}' is not a protocol: it must be one of {}", known()))
    }
}

/// Longest message that the native protocol sends back, bytes: a server keeps one for each connection.
const LONGEST_NATIVE: u32 = 64 * 1024;

fn native_carries(phase: &Phase) -> Result<(), &'static str> {
    if phase.kind == Kind::Stream && (phase.probe.is_none() || phase.iterations.is_some_and(|n| n > 1)) {
        return Err("carries each media stream once, as numbered datagrams of its own");
    }
    if let Some(probe) = &phase.probe {
        if probe.size < SMALLEST_PROBE {
            return Err("needs datagrams of 40 to 65507 bytes");
        }
        if phase.ends_after().is_none() {
            return Err("agrees on a length: a measurement of delay needs one");
        }
        if probe.stairs.is_some() || probe.give_up || probe.stamping != Stamping::Wall {
            return Err(
                "has none of what bwdelaytester has of its own (--stairs, --give-up, --unsynchronised): use --sweep, --nonblock and --clock",
            );
        }
    }
    if phase.ping.as_ref().is_some_and(|ping| ping.size > LONGEST_NATIVE) {
        return Err("sends messages of at most 64Ki back: use --protocol echo for longer ones");
    }
    if phase.transfer_high.is_some() || phase.rate_high.is_some() {
        return Err(
            "agrees on one transfer and one rate: ranges of them are for protocols that agree on nothing",
        );
    }
    if phase.rate_period_ns.is_some() {
        return Err("keeps rates smoothly, not by quanta");
    }
    stamp_settings(phase)
}

fn ctstraffic_carries(phase: &Phase) -> Result<(), &'static str> {
    if let Some(media) = &phase.media {
        // A shorter last datagram takes from the one before, which must stay longer than a header.
        if media.datagram < 53 && media.frame_size > u64::from(media.datagram) {
            return Err("cannot split frames into datagrams of less than 53 bytes");
        }
    }
    if phase.kind == Kind::Stream && phase.pattern.sends_up() {
        return Err("streams media from the server only");
    }
    if phase.kind == Kind::Ping {
        return Err("sends nothing back: it carries no round trips");
    }
    if phase.kind.probes() {
        return Err("carries no delay; native does");
    }
    if phase.payload != Payload::Pattern {
        return Err("has one payload, the pattern: both ends compare with it");
    }
    if phase.total_bytes.is_some() {
        return Err(
            "cannot end after a number of bytes: the server would wait for the rest of a connection that was \
                    cut short; use a transfer and iterations",
        );
    }
    if phase.exclusive {
        return Err("cannot ask a server to exclude others");
    }
    Ok(())
}

fn bwdelaytester_carries(phase: &Phase) -> Result<(), &'static str> {
    let Some(Probe { size, spacing, .. }) = phase.probe.filter(|_| phase.kind == Kind::Delay) else {
        return Err("sends numbered datagrams one way and nothing else: use it with delay");
    };
    if phase.pattern != Pattern::Push {
        return Err("sends from client to server only");
    }
    if size as usize > bwdelaytester::codec::LARGEST {
        return Err("has datagrams of 16 to 2000 bytes: its receiver reads no more of one");
    }
    if spacing != Spacing::Fixed {
        return Err("sends at even spacing only");
    }
    if phase.exclusive {
        return Err("cannot ask a server to exclude others");
    }
    Ok(())
}

fn echo_carries(phase: &Phase) -> Result<(), &'static str> {
    if phase.kind != Kind::Ping {
        return Err("sends everything back and measures round trips only: use it with ping");
    }
    stamp_settings(phase)
}

/// Settings of STAMP packets are for these only.
fn stamp_settings(phase: &Phase) -> Result<(), &'static str> {
    match phase.ping.and_then(|ping| ping.stamp) {
        Some(_) => Err("has no STAMP packets: use --protocol stamp for settings of theirs"),
        None => Ok(()),
    }
}

fn stamp_carries(phase: &Phase) -> Result<(), &'static str> {
    if phase.kind != Kind::Ping {
        return Err("answers packets and measures round trips only: use it with ping");
    }
    if phase.ping.and_then(|ping| ping.stamp).is_none() {
        return Err("needs to know what its packets are like");
    }
    Ok(())
}

fn ttcp_carries(phase: &Phase) -> Result<(), &'static str> {
    if !matches!(phase.kind, Kind::Tcp | Kind::Delay) {
        return Err("has nothing but data in one direction: it carries goodput, and what delay sends");
    }
    if phase.probe.is_some_and(|probe| probe.spacing != Spacing::Fixed || probe.stairs.is_some()) {
        return Err("sends datagrams at one rate, at even intervals");
    }
    if phase.pattern != Pattern::Push {
        return Err("sends from the client to the server only");
    }
    if phase.verify == Verify::Data {
        return Err(
            "agrees on no payload: its receivers compare nothing, so ask for --verify connection or none",
        );
    }
    if phase.payload == Payload::Zeros {
        return Err("sends printable characters, or random bytes");
    }
    if phase.total_bytes.is_some() {
        return Err("cannot share a number of bytes among connections: use a transfer and iterations");
    }
    if phase.exclusive {
        return Err("cannot ask a server to exclude others");
    }
    Ok(())
}

fn udpmon_carries(phase: &Phase) -> Result<(), &'static str> {
    if phase.kind != Kind::Train {
        return Err("carries trains of packets only: use it with train");
    }
    if phase.pattern.sends_down() || phase.train.as_ref().is_some_and(|train| train.echo) {
        return Err("sends trains to the server only");
    }
    if phase.exclusive {
        return Err("cannot ask a server to exclude others");
    }
    Ok(())
}

fn tcpmon_carries(phase: &Phase) -> Result<(), &'static str> {
    if phase.kind != Kind::Tcp {
        return Err("has messages in one direction: it carries goodput only");
    }
    if phase.pattern != Pattern::Push {
        return Err("sends from the client to the server only");
    }
    if phase.verify == Verify::Data {
        return Err(
            "agrees on no payload: its receivers compare nothing, so ask for --verify connection or none",
        );
    }
    if phase.payload != Payload::Pattern {
        return Err("sends the pattern, which nobody compares");
    }
    if phase.transfer_high.is_some() || phase.total_bytes.is_some() || phase.burst.is_some() {
        return Err("sends messages of one length until a transfer is over or the time is up");
    }
    if phase.exclusive {
        return Err("cannot ask a server to exclude others");
    }
    Ok(())
}

fn iperf3_carries(phase: &Phase) -> Result<(), &'static str> {
    if !matches!(phase.kind, Kind::Tcp | Kind::Delay) {
        return Err("moves bulk data over TCP and UDP: use it with tcp and delay");
    }
    if matches!(phase.pattern, Pattern::PushPull { .. }) {
        return Err("sends one way or both at once, not in turns");
    }
    if phase.iterations.is_some() || phase.transfer_high.is_some() {
        return Err("keeps its streams for the whole run: it knows no transfers that follow each other");
    }
    if phase.connections > iperf3::params::MOST_STREAMS {
        return Err("carries 128 streams in each direction at most");
    }
    if phase.verify == Verify::Data {
        return Err(
            "compares no payload, that of the other end being random: use --verify connection or none",
        );
    }
    if phase.kind == Kind::Tcp && phase.buffer.high > u64::from(iperf3::params::LARGEST_BLOCK) {
        return Err("sends blocks of 1Mi at most");
    }
    if phase.burst.is_some() || phase.rate_high.is_some() || phase.rate_period_ns.is_some() {
        return Err("keeps one rate, smoothly");
    }
    if phase.probe.is_some_and(|probe| probe.spacing != Spacing::Fixed) {
        return Err("sends datagrams at even intervals");
    }
    if phase.exclusive {
        return Err("cannot ask a server to exclude others");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Ping, StampSettings};

    #[test]
    fn every_protocol_is_found_by_its_name_and_carries_something() {
        for protocol in Protocol::all() {
            assert_eq!(protocol.name().parse(), Ok(protocol));
            let ping = Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..Phase::default() };
            let train = Phase { kind: Kind::Train, udpmon: Some(Box::default()), ..Phase::default() };
            let counted = Phase { verify: Verify::Connection, ..Phase::default() };
            let probe = Some(Probe::default());
            let delay = Phase { kind: Kind::Delay, probe, ..Phase::default() };
            let stamp = Ping { stamp: Some(StampSettings::default()), ..Ping::default() };
            let stamp = Phase { ping: Some(stamp), ..ping.clone() };
            let all = [Phase::default(), counted, ping, delay, stamp, train];
            let some = all.iter().find_map(|phase| protocol.carries(phase).ok());
            let some = some.ok_or(());
            assert_eq!(some, Ok(()), "{protocol}");
            assert!(protocol.port() > 0);
        }
        assert_eq!(TABLE.len(), 10, "a row was added: are its limits tested here?");
        let unknown = "iperf9".parse::<Protocol>().unwrap_err();
        let known = "native, ctstraffic, echo, stamp, ttcp, bwdelaytester, udpmon, tcpmon, ntttcp, iperf3";
        assert!(unknown.contains(known), "{unknown}");
    }

    #[test]
    fn what_cannot_be_carried_is_said_in_a_sentence() {
        let base = Phase::default;
        let delay = |size| Phase {
            kind: Kind::Delay,
            probe: Some(Probe { size, ..Probe::default() }),
            ..Phase::default()
        };
        for (protocol, phase, why) in [
            (Protocol::CtsTraffic, Phase { payload: Payload::Random, ..base() }, "one payload"),
            (Protocol::CtsTraffic, Phase { total_bytes: Some(9), ..base() }, "cut short"),
            (Protocol::Echo, base(), "round trips only"),
            (Protocol::Stamp, base(), "round trips only"),
            (Protocol::Udpmon, base(), "trains of packets only"),
            (Protocol::Tcpmon, base(), "compare nothing"),
            (Protocol::Iperf3, base(), "compares no payload"),
            (Protocol::Iperf3, Phase { verify: Verify::None, iterations: Some(1), ..base() }, "whole run"),
            (Protocol::CtsTraffic, Phase { exclusive: true, ..base() }, "exclude others"),
            (Protocol::Bwdelaytester, base(), "with delay"),
            (Protocol::Bwdelaytester, Phase { pattern: Pattern::Pull, ..delay(64) }, "to server only"),
            (Protocol::Bwdelaytester, delay(2_001), "16 to 2000 bytes"),
            (Protocol::Native, delay(39), "40 to 65507"),
            (Protocol::Native, Phase { transfer_high: Some(1 << 31), ..base() }, "agrees on one transfer"),
            (Protocol::Native, Phase { rate: Some(9), rate_period_ns: Some(9), ..base() }, "not by quanta"),
        ] {
            let told = protocol.carries(&phase).unwrap_err();
            assert!(told.contains(why) && told.starts_with("the protocol "), "{told}");
        }
    }
}
