//! How a phase ended: one rule for every question and every protocol.
//!
//! A session proposes an ending, as far as its conversation shows one; the counts of both ends decide. A phase that asked for payload, or for
//! answers, and of which no end counted any has failed, and a phase that asked for both directions and got one is partial.
//!
//! Exceptions, each with a test below:
//!
//! - `connect` measures connections: payload is not its work, and one without a connection has failed.
//! - Datagrams that must not be fragmented (`--df`, `--path-mtu`) measure which sizes pass: none is a result.
//! - A search fails with none of its steps: a rate at which nothing arrives is one above the capacity ([`Search`](crate::Search)).
//! - A peer that reports nothing (ttcp, discard, bwdelaytester) leaves the sender's count, unconfirmed; a sender that sent nothing, because
//!   the kernel refused or otherwise, has failed all the same.
//! - Turns ([`Pattern::PushPull`]) are judged together: the time may be over before the second turn.
//! - What the user ended stays interrupted, and what a session knows to have failed keeps its reason.
//! - A server has no question of its own: its sessions are not judged.

use crate::{Event, Kind, PacketReport, Pattern, Phase, Status, Totals, Traffic, Transport, Way};
use metrics::format_count;

/// A datagram with more payload than this, bytes, may be too large for a path that carries small ones.
const LARGE: u32 = 512;

/// The ending of a phase, and why, unless it is complete.
pub type Ended = (Status, Option<String>);

/// What is judged: a phase, and the name of its protocol for messages.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The settings.
    pub phase: &'a Phase,
    /// As `--protocol` names it; empty where the peer is known to speak it.
    pub protocol: &'a str,
    /// Whether a transfer without the server's report is none: nothing else shows that the server speaks the protocol. False where the
    /// session itself misses the report.
    pub needs_report: bool,
}

/// What both ends have counted of a phase, as its ending is judged by.
#[derive(Clone, Debug, Default)]
pub struct Account {
    local: Side,
    remote: Side,
    /// A server has accepted the phase, so that it speaks the protocol.
    accepted: bool,
}

/// What one end, or all remote ends together, counted.
#[derive(Clone, Debug, Default)]
struct Side {
    /// There are counts.
    reported: bool,
    /// Payload or messages were sent, and arrived, in any interval or in the totals.
    sent: bool,
    arrived: bool,
    datagrams: u64,
    refused: u64,
    messages: u64,
    missed: u64,
    opened: u64,
    retransmits: u64,
    /// The most frequent failure.
    cause: Option<String>,
}

impl Side {
    fn traffic(&mut self, traffic: &Traffic) {
        self.reported = true;
        self.sent |= traffic.tx_bytes > 0;
        self.arrived |= traffic.rx_bytes > 0;
    }

    fn packets(&mut self, packets: Option<&PacketReport>) {
        let Some(PacketReport { counts, .. }) = packets else { return };
        self.reported = true;
        self.sent |= counts.sent > 0;
        self.arrived |= counts.received > 0 || counts.late > 0 || counts.corrupt > 0;
    }

    /// Whether the peer's host refused (ICMP) as many datagrams as its kernel lets a sender know: of two, the second finds the refusal of the
    /// first.
    fn is_refused(&self) -> bool {
        self.datagrams > 0 && self.refused >= self.datagrams / 2
    }

    fn totals(&mut self, totals: &Totals) {
        self.traffic(&totals.traffic);
        self.packets(totals.packets.as_deref());
        let counts = totals.packets.as_ref().map(|packets| packets.counts).unwrap_or_default();
        self.datagrams = self.datagrams.saturating_add(counts.sent);
        self.refused = self.refused.saturating_add(counts.refused);
        if let Some(counts) = totals.pings.as_ref().map(|pings| pings.counts) {
            self.messages = self.messages.saturating_add(counts.sent);
            self.missed = self.missed.saturating_add(counts.missed);
            self.refused = self.refused.saturating_add(counts.refused);
            self.arrived |= counts.received > 0 || counts.late > 0 || counts.damaged > 0;
        }
        let frames = totals.frames.unwrap_or_default();
        self.arrived |= frames.completed > 0 || frames.repeated > 0 || frames.errors > 0;
        self.opened = self.opened.saturating_add(totals.opened);
        self.retransmits = self.retransmits.saturating_add(totals.tcp.retransmits);
        if totals.errors() > 0 && self.cause.is_none() {
            self.cause = totals.causes.first().map(|cause| cause.first.clone());
        }
    }
}

/// What the counts show of what was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Shown {
    All,
    /// One direction got nothing.
    Half(String),
    Nothing(String),
}

impl Account {
    /// Takes in one event of the phase.
    pub fn absorb(&mut self, event: &Event) {
        match event {
            Event::Session(_) => self.accepted = true,
            Event::Interval(interval) => {
                self.local.traffic(&interval.local);
                self.local.packets(interval.packets.as_deref());
                let answers = interval.pings.as_ref().map(|pings| pings.counts).unwrap_or_default();
                self.local.arrived |= answers.received > 0 || answers.damaged > 0;
                if let Some(remote) = &interval.remote {
                    self.remote.traffic(remote);
                }
                self.remote.packets(interval.remote_packets.as_deref());
            }
            Event::Local(totals) => self.local.totals(totals),
            Event::Remote(totals) => self.remote.totals(totals),
            _ => {}
        }
    }

    /// Whether neither end sent payload or a message.
    pub fn is_nothing_sent(&self) -> bool {
        !self.local.sent && !self.remote.sent && self.local.messages == 0
    }

    /// The ending of the phase for which a session, or a reader of another program's file, proposes this one.
    pub fn ending(&self, asked: Asked<'_>, (status, reason): Ended) -> Ended {
        match (status, self.shown(asked)) {
            (Status::Complete, Shown::Nothing(why)) => (Status::Failed, Some(why)),
            (Status::Complete, Shown::Half(why)) => (Status::Partial, Some(why)),
            (Status::Partial, Shown::Nothing(why)) => (Status::Failed, reason.or(Some(why))),
            _ => (status, reason),
        }
    }

    fn shown(&self, asked: Asked<'_>) -> Shown {
        let phase = asked.phase;
        let nothing_asked = phase.total_bytes == Some(0)
            || phase.iterations == Some(0)
            || phase.ping.is_some_and(|ping| ping.messages == Some(0));
        let sizes = phase.kind != Kind::Ping && phase.sockets.dont_fragment == Some(true);
        if nothing_asked {
            return Shown::All;
        }
        if let (0, false, Some(cause)) = (self.local.opened, self.local.arrived, &self.local.cause) {
            return Shown::Nothing(cause.clone());
        }
        match phase.kind {
            _ if sizes => Shown::All,
            Kind::Connect if self.local.opened == 0 => {
                Shown::Nothing("no connection was established".to_owned())
            }
            Kind::Connect => Shown::All,
            Kind::Ping if self.local.arrived => Shown::All,
            Kind::Ping => Shown::Nothing(self.unanswered(asked)),
            _ => self.directions(asked),
        }
    }

    /// Why a measurement of round trips has none.
    fn unanswered(&self, asked: Asked<'_>) -> String {
        let Side { messages, missed, refused, .. } = self.local;
        let over = match asked.phase.ping.map(|ping| ping.transport) {
            Some(Transport::Udp) => "UDP",
            _ => "TCP",
        };
        match (messages, missed) {
            (0, 1..) => format!(
                "none of the {missed} messages of the schedule was sent: the flow was opened too late"
            ),
            (0, 0) if refused > 0 => format!("no message was sent: the kernel refused {refused}"),
            (0, 0) => format!("no message was sent{}", self.question(asked)),
            _ => format!("no message came back over {over}: {messages} were sent{}", self.question(asked)),
        }
    }

    /// Judges payload, each direction by itself.
    fn directions(&self, asked: Asked<'_>) -> Shown {
        let Phase { kind, pattern, probe, .. } = *asked.phase;
        // ctsTraffic's streams have one direction, whatever the pattern.
        let streams = kind == Kind::Stream && probe.is_none();
        let sends = |way: &Way| if streams { *way == Way::Down } else { pattern.sends(*way) };
        let ways = [Way::Up, Way::Down].into_iter().filter(sends);
        let silent: Vec<Way> =
            ways.clone().filter(|way| !self.has_passed(*way, asked.needs_report)).collect();
        // A number of bytes that both directions share may be moved by one of them.
        let shared = matches!(pattern, Pattern::PushPull { .. }) || asked.phase.total_bytes.is_some();
        match silent.first() {
            None => Shown::All,
            Some(_) if silent.len() == ways.count() => Shown::Nothing(self.nothing_passed(asked, &silent)),
            Some(_) if shared => Shown::All,
            Some(_) => Shown::Half(self.nothing_passed(asked, &silent)),
        }
    }

    /// Both ends in the order of a direction: the sender, the receiver.
    fn ends(&self, way: Way) -> (&Side, &Side) {
        match way {
            Way::Up => (&self.local, &self.remote),
            Way::Down => (&self.remote, &self.local),
        }
    }

    /// Whether payload passed in a direction. Where the receiver reports nothing, the sender's count stands in.
    fn has_passed(&self, way: Way, needs_report: bool) -> bool {
        let (sender, receiver) = self.ends(way);
        match receiver.reported {
            true => receiver.arrived,
            false => sender.sent && !sender.is_refused() && !needs_report,
        }
    }

    /// Why nothing passed, and what did.
    fn nothing_passed(&self, asked: Asked<'_>, silent: &[Way]) -> String {
        let (way, both) = (silent.first().copied().unwrap_or(Way::Up), silent.len() > 1);
        let (sender, receiver) = self.ends(way);
        let Side { opened, refused, .. } = self.local;
        let datagrams = asked.phase.kind != Kind::Tcp || sender.datagrams > 0;
        let what = if datagrams { "datagram" } else { "payload" };
        let place = match way {
            _ if both => "",
            Way::Up => " at the server",
            Way::Down => " from the server",
        };
        let large = asked.phase.probe.is_none_or(|probe| probe.size > LARGE);
        // What both ends agreed on and reported is small, and passed.
        let talked = self.accepted && self.remote.reported && opened > 0;
        let small_passed = talked && sender.sent && large && (datagrams || sender.retransmits > 0);
        let advice = match small_passed {
            true => ": small packets pass, large ones may not: try `delay --path-mtu`".to_owned(),
            false => self.question(asked),
        };
        if datagrams {
            return match (sender.datagrams, sender.sent) {
                (0, false) if way == Way::Up && refused > 0 => {
                    format!("no datagram was sent: the kernel refused {refused}")
                }
                (0, false) if way == Way::Up => format!("no datagram was sent{advice}"),
                (sent, _) if sender.is_refused() && !receiver.reported => {
                    format!(
                        "the peer's host refused {refused} of {sent} datagrams: does anything listen there?"
                    )
                }
                (0, _) => format!("no datagram arrived{place} over UDP{advice}"),
                (sent, _) => format!("no datagram arrived{place} over UDP: {sent} were sent{advice}"),
            };
        }
        let but = match opened {
            0 => "no connection was established, and ".to_owned(),
            1 => "1 connection was established, but ".to_owned(),
            n => format!("{} were established, but ", format_count(n, "connection")),
        };
        match way {
            Way::Up if !sender.sent => format!("{but}no {what} was sent{advice}"),
            Way::Up if !receiver.reported => format!("{but}the server reported nothing{advice}"),
            _ => format!("{but}no {what} arrived{place}{advice}"),
        }
    }

    /// Whether the peer speaks another protocol, where nothing shows that it speaks this one.
    fn question(&self, asked: Asked<'_>) -> String {
        let known = self.accepted || self.remote.reported || self.local.arrived || asked.protocol.is_empty();
        if known { String::new() } else { format!(": is the server's protocol {}?", asked.protocol) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interval, Ping, PingCounts, Probe, RoundTrips, SocketSettings};
    use metrics::{CauseCount, Packets};

    /// An end that counted these bytes, sent and received, on so many connections.
    fn bytes(opened: u64, tx_bytes: u64, rx_bytes: u64) -> Totals {
        Totals {
            opened,
            traffic: Traffic { tx_bytes, rx_bytes, ns: 1, ..Traffic::default() },
            ..Totals::default()
        }
    }

    fn datagrams(opened: u64, counts: Packets) -> Totals {
        let packets = Some(Box::new(PacketReport { counts, ..PacketReport::default() }));
        Totals { opened, packets, ..Totals::default() }
    }

    fn messages(counts: PingCounts) -> Totals {
        let pings = Some(Box::new(RoundTrips { counts, ..RoundTrips::default() }));
        Totals { opened: 1, pings, ..Totals::default() }
    }

    fn refused(opened: u64) -> Totals {
        let first = "connection refused".to_owned();
        let cause = CauseCount { class: metrics::Ending::NetworkError, text: first.clone(), count: 1, first };
        Totals { network_errors: 1, causes: vec![cause], ..bytes(opened, 0, 0) }
    }

    fn tcp(pattern: Pattern) -> Phase {
        Phase { pattern, ..Phase::default() }
    }

    fn delay(pattern: Pattern, size: u32) -> Phase {
        let probe = Some(Probe { size, ..Probe::default() });
        Phase { kind: Kind::Delay, pattern, probe, ..Phase::default() }
    }

    fn ping(transport: Transport) -> Phase {
        Phase { kind: Kind::Ping, ping: Some(Ping { transport, ..Ping::default() }), ..Phase::default() }
    }

    /// The ending of a phase that its session calls complete.
    fn ended(phase: &Phase, local: Totals, remote: Option<Totals>) -> Ended {
        of(phase, (Status::Complete, None), false, local, remote)
    }

    fn of(phase: &Phase, proposed: Ended, accepted: bool, local: Totals, remote: Option<Totals>) -> Ended {
        let mut account = Account { accepted, ..Account::default() };
        account.absorb(&Event::Local(Box::new(local)));
        remote.into_iter().for_each(|remote| account.absorb(&Event::Remote(Box::new(remote))));
        account.ending(Asked { phase, protocol: "ctstraffic", needs_report: false }, proposed)
    }

    #[track_caller]
    fn check(ended: Ended, status: Status, why: &str) {
        assert_eq!((ended.0, ended.1.as_deref().unwrap_or("")), (status, why));
    }

    const DUPLEX: Pattern = Pattern::Duplex;
    const TURNS: Pattern = Pattern::PushPull { push: 1, pull: 1 };

    #[test]
    fn a_transfer_of_which_no_end_counted_a_byte_has_failed() {
        let mute = "8 connections were established, but no payload";
        for (pattern, what) in
            [(Pattern::Push, "was sent"), (DUPLEX, "was sent"), (Pattern::Pull, "arrived from the server")]
        {
            let why = format!("{mute} {what}: is the server's protocol ctstraffic?");
            check(ended(&tcp(pattern), bytes(8, 0, 0), None), Status::Failed, &why);
        }
        let none =
            "no connection was established, and no payload was sent: is the server's protocol ctstraffic?";
        check(ended(&tcp(Pattern::Push), Totals::default(), None), Status::Failed, none);
        check(ended(&tcp(Pattern::Push), refused(0), None), Status::Failed, "connection refused");
        // The receiver's count is the result.
        let why = "8 connections were established, but no payload arrived at the server";
        check(ended(&tcp(Pattern::Push), bytes(8, 9, 0), Some(bytes(8, 0, 0))), Status::Failed, why);
        check(ended(&tcp(Pattern::Push), bytes(8, 9, 0), Some(bytes(8, 0, 9))), Status::Complete, "");
    }

    #[test]
    fn small_packets_that_pass_are_named_where_large_ones_may_not() {
        let mut local = bytes(1, 9, 0);
        local.tcp.retransmits = 7;
        let advice = "small packets pass, large ones may not: try `delay --path-mtu`";
        let complete = || (Status::Complete, None);
        let why = format!("1 connection was established, but no payload arrived at the server: {advice}");
        check(of(&tcp(Pattern::Push), complete(), true, local, Some(bytes(1, 0, 0))), Status::Failed, &why);
        let sent = Packets { sent: 500, ..Packets::default() };
        let lost = |size| {
            let (local, remote) = (datagrams(1, sent), datagrams(1, Packets::default()));
            of(&delay(Pattern::Push, size), complete(), true, local, Some(remote))
        };
        let why = "no datagram arrived at the server over UDP: 500 were sent";
        check(lost(1_400), Status::Failed, &format!("{why}: {advice}"));
        check(lost(64), Status::Failed, why);
    }

    #[test]
    fn each_direction_is_judged() {
        let (both, phase) = (bytes(8, 9, 9), tcp(DUPLEX));
        check(ended(&phase, both.clone(), Some(both)), Status::Complete, "");
        let why = "8 connections were established, but no payload arrived at the server";
        check(ended(&phase, bytes(8, 9, 9), Some(bytes(8, 9, 0))), Status::Partial, why);
        let why = "8 connections were established, but no payload arrived from the server";
        check(ended(&phase, bytes(8, 9, 0), Some(bytes(8, 9, 9))), Status::Partial, why);
        let (sent, got) = (
            Packets { sent: 5, ..Packets::default() },
            Packets { sent: 5, received: 5, ..Packets::default() },
        );
        let why = "no datagram arrived from the server over UDP: 5 were sent";
        check(ended(&delay(DUPLEX, 64), datagrams(1, sent), Some(datagrams(1, got))), Status::Partial, why);
        // Turns, and a number of bytes that both directions share, need not use both.
        check(ended(&tcp(TURNS), bytes(1, 9, 0), Some(bytes(1, 0, 9))), Status::Complete, "");
        let shared = Phase { total_bytes: Some(1), ..tcp(DUPLEX) };
        check(ended(&shared, bytes(1, 0, 1), Some(bytes(1, 1, 0))), Status::Complete, "");
        assert_eq!(ended(&tcp(TURNS), bytes(1, 0, 0), None).0, Status::Failed);
    }

    #[test]
    fn round_trips_without_an_answer_have_failed() {
        let sent = PingCounts { sent: 5, lost: 5, ..PingCounts::default() };
        let question = ": is the server's protocol ctstraffic?";
        for (transport, over) in [(Transport::Udp, "UDP"), (Transport::Tcp, "TCP")] {
            let why = format!("no message came back over {over}: 5 were sent{question}");
            check(ended(&ping(transport), messages(sent), None), Status::Failed, &why);
        }
        for counts in [PingCounts { damaged: 1, ..sent }, PingCounts { received: 1, late: 1, ..sent }] {
            check(ended(&ping(Transport::Udp), messages(counts), None), Status::Complete, "");
        }
        let missed = PingCounts { missed: 3, ..PingCounts::default() };
        let why = "none of the 3 messages of the schedule was sent: the flow was opened too late";
        check(ended(&ping(Transport::Udp), messages(missed), None), Status::Failed, why);
        let none = format!("no message was sent{question}");
        check(ended(&ping(Transport::Tcp), messages(PingCounts::default()), None), Status::Failed, &none);
    }

    #[test]
    fn connections_are_the_measure_of_connects() {
        let phase = Phase { kind: Kind::Connect, ..Phase::default() };
        check(ended(&phase, bytes(1, 0, 0), Some(bytes(1, 0, 0))), Status::Complete, "");
        check(ended(&phase, refused(1), None), Status::Complete, "");
        check(ended(&phase, refused(0), None), Status::Failed, "connection refused");
        check(ended(&phase, Totals::default(), None), Status::Failed, "no connection was established");
    }

    #[test]
    fn that_no_datagram_of_a_size_passes_is_a_result() {
        let sockets = SocketSettings { dont_fragment: Some(true), ..SocketSettings::default() };
        let phase = Phase { sockets, ..delay(Pattern::Push, 1_400) };
        let sent = Packets { sent: 5, ..Packets::default() };
        check(
            ended(&phase, datagrams(1, sent), Some(datagrams(1, Packets::default()))),
            Status::Complete,
            "",
        );
    }

    #[test]
    fn a_peer_that_reports_nothing_leaves_the_senders_count() {
        check(ended(&tcp(Pattern::Push), bytes(1, 9, 0), None), Status::Complete, "");
        let sent = Packets { sent: 50, refused: 3, ..Packets::default() };
        check(ended(&delay(Pattern::Push, 64), datagrams(1, sent), None), Status::Complete, "");
        let absent = Packets { sent: 9, refused: 9, ..Packets::default() };
        let why = "the peer's host refused 9 of 9 datagrams: does anything listen there?";
        check(ended(&delay(Pattern::Push, 64), datagrams(1, absent), None), Status::Failed, why);
        // A protocol whose servers report what they received is not spoken there.
        let (phase, mut account) = (tcp(Pattern::Push), Account::default());
        account.absorb(&Event::Local(Box::new(bytes(1, 9, 0))));
        let asked = Asked { phase: &phase, protocol: "tcpmon", needs_report: true };
        let why =
            "1 connection was established, but the server reported nothing: is the server's protocol tcpmon?";
        check(account.ending(asked, (Status::Complete, None)), Status::Failed, why);
        let none = Packets { refused: 5, ..Packets::default() };
        let why = "no datagram was sent: the kernel refused 5";
        check(ended(&delay(Pattern::Push, 64), datagrams(1, none), None), Status::Failed, why);
    }

    #[test]
    fn what_a_session_knows_stands() {
        let phase = tcp(Pattern::Push);
        let why = |text: &str| Some(text.to_owned());
        for status in [Status::Interrupted, Status::Failed] {
            let ended = of(&phase, (status, why("so")), false, Totals::default(), None);
            check(ended, status, "so");
        }
        let lost = (Status::Partial, why("the server vanished"));
        check(of(&phase, lost.clone(), true, bytes(1, 9, 0), None), Status::Partial, "the server vanished");
        check(of(&phase, lost, true, bytes(1, 0, 0), None), Status::Failed, "the server vanished");
    }

    #[test]
    fn intervals_stand_in_for_totals() {
        let traffic = |tx_bytes, rx_bytes| Traffic { tx_bytes, rx_bytes, ns: 1, ..Traffic::default() };
        let ended = |remote| {
            let mut account = Account::default();
            let interval = Interval { local: traffic(9, 0), remote, ..Interval::default() };
            account.absorb(&Event::Interval(Box::new(interval)));
            account
                .ending(
                    Asked { phase: &tcp(Pattern::Push), protocol: "", needs_report: false },
                    (Status::Complete, None),
                )
                .0
        };
        assert_eq!(ended(None), Status::Complete, "unconfirmed");
        assert_eq!(ended(Some(traffic(0, 9))), Status::Complete);
        assert_eq!(ended(Some(traffic(0, 0))), Status::Failed);
    }

    #[test]
    fn a_phase_that_asks_for_nothing_is_complete_without_anything() {
        let ping = Ping { messages: Some(0), ..Ping::default() };
        let phases = [
            Phase { total_bytes: Some(0), ..Phase::default() },
            Phase { iterations: Some(0), ..Phase::default() },
            Phase { kind: Kind::Ping, ping: Some(ping), ..Phase::default() },
        ];
        for phase in phases {
            check(ended(&phase, Totals::default(), None), Status::Complete, "");
        }
    }
}
