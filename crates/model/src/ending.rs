//! Ending of a phase: one rule for every question and every protocol.
//!
//! A session proposes an ending by its conversation; the counts of both ends decide. A phase that
//! asked for payload, or for answers, and of which no end counted any has failed, and a phase that
//! asked for both directions and got one is partial.
//!
//! Exceptions, each with a test:
//!
//! - `connect` measures connections: payload is not its work, and one without a connection has
//!   failed.
//! - Datagrams that must not be fragmented (`--df`, `--path-mtu`) measure which sizes pass: none is
//!   a result.
//! - A search fails with none of its steps: a rate at which nothing arrives is one above the
//!   capacity ([`Search`](crate::Search)).
//! - A peer that reports nothing (ttcp, discard, bwdelaytester) leaves the sender's count,
//!   unconfirmed; a sender that sent nothing, because the kernel refused or otherwise, has failed
//!   all the same.
//! - Turns ([`Pattern::PushPull`]) are judged together: the time may be over before the second
//!   turn.
//! - Payload that all arrived after the time of the test is no failure of the path: the host was
//!   busy for longer than a short test lasts, and the phase is partial.
//! - A run that the user ended stays interrupted, and a failure that a session knows of keeps its
//!   reason.
//! - A phase that a limit of its server has ended (bytes, time, rate) is partial, as its session
//!   says.
//! - A server has no question of its own: its sessions are not judged.

use crate::{
    Count, Counts, Event, Interval, Kind, PacketReport, Pattern, Phase, PingCounts, Point, Status, Totals,
    Traffic, Transport, Way,
};
use metrics::format_bytes;

/// A receiver's name for payload that differs from the sent one
/// ([`CauseCount::text`](metrics::CauseCount)).
pub const WRONG_DATA: &str = "wrong data";

/// A datagram with more payload than this, bytes, may be too large for a path that carries small
/// ones.
const LARGE: u32 = 512;

/// The ending of a phase, and why, unless it is complete.
pub type Ended = (Status, Option<String>);

/// The judged phase, and the name of its protocol for messages.
#[derive(Clone, Copy, Debug)]
pub struct JudgedPhase<'a> {
    /// The settings.
    pub phase: &'a Phase,
    /// As `--protocol` names it; empty where the peer is known to speak it.
    pub protocol: &'a str,
    /// True if a transfer without the server's report is none: nothing else shows that the server
    /// speaks the protocol. False where the session itself misses the report.
    pub needs_report: bool,
}

/// Both ends' counts of a phase, by which its ending is judged.
#[derive(Clone, Debug, Default)]
pub struct Account {
    local: EndTotals,
    remote: EndTotals,
    /// A server has accepted the phase, so that it speaks the protocol.
    accepted: bool,
}

/// Knowledge of a count, from the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// The end has reported nothing.
    #[default]
    Unreported,
    /// The end has no such count.
    Unknown,
    Zero,
    Some,
}

impl Known {
    /// Takes in another reading; one that is unknown changes nothing.
    fn add(&mut self, is_known: bool, n: u64) {
        let reading = match (is_known, n) {
            (false, _) => Known::Unknown,
            (true, 0) => Known::Zero,
            (true, _) => Known::Some,
        };
        *self = reading.max(*self);
    }
}

/// Counts of one end, or of all remote ends together.
#[derive(Clone, Debug, Default)]
struct EndTotals {
    /// Payload, in any interval or in the totals.
    sent: Known,
    arrived: Known,
    /// A message was answered, and the answer was damaged, in any interval or in the totals.
    answered: bool,
    damaged: bool,
    datagrams: u64,
    refused: u64,
    messages: u64,
    missed: u64,
    opened: u64,
    retransmits: u64,
    /// Payload that ended connections received in their whole lives, also after the time of the
    /// test, bytes.
    in_all: u64,
    /// The most frequent failure.
    cause: Option<String>,
}

impl EndTotals {
    fn traffic(&mut self, traffic: &Traffic, unknown: Counts) {
        self.sent.add(!unknown.has(Count::SentBytes), traffic.tx_bytes);
        self.arrived.add(!unknown.has(Count::ReceivedBytes), traffic.rx_bytes);
    }

    fn packets(&mut self, packets: Option<&PacketReport>) {
        let Some(packets) = packets else { return };
        let arrived = packets.counts.received.max(packets.counts.late).max(packets.counts.corrupt);
        self.sent.add(packets.sent().is_some(), packets.counts.sent);
        self.arrived.add(packets.received().is_some(), arrived);
    }

    fn answers(&mut self, counts: &PingCounts) {
        self.answered |= counts.received > 0 || counts.late > 0;
        self.damaged |= counts.damaged > 0;
    }

    /// True if the end has any count of payload.
    fn is_heard(&self) -> bool {
        self.sent.max(self.arrived) > Known::Unknown
    }

    /// True if the peer's host refused (ICMP) as many datagrams as its kernel lets a sender know:
    /// of two, the second finds the refusal of the first.
    fn is_refused(&self) -> bool {
        self.refused > 0 && self.refused >= self.datagrams / 2
    }

    fn totals(&mut self, totals: &Totals) {
        self.traffic(&totals.traffic, totals.unknown);
        self.packets(totals.packets.as_deref());
        let counts = totals.packets.as_ref().map(|packets| packets.counts).unwrap_or_default();
        self.datagrams = self.datagrams.saturating_add(counts.sent);
        self.refused = self.refused.saturating_add(counts.refused);
        if let Some(pings) = &totals.pings {
            let counts = pings.counts;
            self.answered |= pings.rtt_ns.is_some();
            self.messages = self.messages.saturating_add(counts.sent);
            self.missed = self.missed.saturating_add(counts.missed);
            self.refused = self.refused.saturating_add(counts.refused);
            self.answers(&counts);
        }
        if let Some(frames) = totals.frames {
            self.arrived.add(true, frames.completed.max(frames.repeated));
        }
        // Damaged payload has arrived, and counts nowhere.
        if totals.causes.iter().any(|cause| cause.text == WRONG_DATA) {
            self.arrived.add(true, 1);
        }
        self.opened = self.opened.saturating_add(totals.opened);
        self.retransmits = self.retransmits.saturating_add(totals.tcp.retransmits);
        self.in_all =
            totals.remotes.values().fold(self.in_all, |sum, peer| sum.saturating_add(peer.rx_bytes));
        if totals.errors() > 0 && self.cause.is_none() {
            self.cause = totals.causes.first().map(|cause| cause.first.clone());
        }
    }
}

fn were(n: u64) -> String {
    format!("{n} {}", if n == 1 { "was" } else { "were" })
}

/// Parts of the request that the counts show.
#[derive(Debug, PartialEq, Eq)]
enum Evidence {
    All,
    /// One direction got nothing, or a direction all of it too late.
    Half(String),
    Nothing(String),
}

impl Account {
    /// The counts that a document has of a phase that is over.
    pub fn of(point: &Point) -> Self {
        let mut account = Account { accepted: !point.sessions.is_empty(), ..Account::default() };
        point.intervals.iter().for_each(|interval| account.interval(interval));
        account.local.totals(&point.local);
        point.remote.iter().for_each(|remote| account.remote.totals(remote));
        account
    }

    /// Takes in one event of the phase.
    pub fn absorb(&mut self, event: &Event) {
        match event {
            Event::Session(_) => self.accepted = true,
            Event::Interval(interval) => self.interval(interval),
            Event::Local(totals) => self.local.totals(totals),
            Event::Remote(totals) => self.remote.totals(totals),
            _ => {}
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.local.traffic(&interval.local, interval.unknown);
        self.local.packets(interval.packets.as_deref());
        interval.pings.iter().for_each(|pings| self.local.answers(&pings.counts));
        if let Some(remote) = &interval.remote {
            self.remote.traffic(remote, Counts::NONE);
        }
        self.remote.packets(interval.remote_packets.as_deref());
    }

    /// True if neither end sent payload or a message.
    pub fn is_nothing_sent(&self) -> bool {
        self.local.sent.max(self.remote.sent) < Known::Some && self.local.messages == 0
    }

    /// The ending of the phase for which a session, or a reader of another program's file, proposes
    /// this one.
    pub fn ending(&self, asked: JudgedPhase<'_>, (status, reason): Ended) -> Ended {
        match (status, self.shown(asked)) {
            (Status::Complete, Evidence::Nothing(why)) => (Status::Failed, Some(why)),
            (Status::Complete, Evidence::Half(why)) => (Status::Partial, Some(why)),
            (Status::Partial, Evidence::Nothing(why)) => (Status::Failed, reason.or(Some(why))),
            _ => (status, reason),
        }
    }

    fn shown(&self, asked: JudgedPhase<'_>) -> Evidence {
        let phase = asked.phase;
        let nothing_asked = phase.total_bytes == Some(0)
            || phase.iterations == Some(0)
            || phase.ping.is_some_and(|ping| ping.messages == Some(0));
        let sizes = phase.kind != Kind::Ping && phase.sockets.dont_fragment == Some(true);
        if nothing_asked {
            return Evidence::All;
        }
        if let (0, Some(cause)) = (self.local.opened, &self.local.cause)
            && self.local.arrived < Known::Some
        {
            return Evidence::Nothing(cause.clone());
        }
        match phase.kind {
            _ if sizes => Evidence::All,
            Kind::Connect if self.local.opened == 0 => {
                let none = "no connection was established".to_owned();
                Evidence::Nothing(self.too_short(phase).unwrap_or(none))
            }
            Kind::Connect => Evidence::All,
            // An answer that ended its connection is none.
            Kind::Ping if self.local.answered || (self.local.damaged && self.local.cause.is_none()) => {
                Evidence::All
            }
            Kind::Ping => Evidence::Nothing(self.unanswered(asked)),
            _ => self.directions(asked),
        }
    }

    /// The time of a phase that its server accepted was over before a connection was established or
    /// failed.
    fn too_short(&self, phase: &Phase) -> Option<String> {
        let none = self.accepted && self.local.opened == 0 && self.local.cause.is_none();
        let text = "the time of the test was over before a connection was established: give a longer -t";
        (none && phase.duration_ns.is_some()).then(|| text.to_owned())
    }

    /// Why a measurement of round trips has none.
    fn unanswered(&self, asked: JudgedPhase<'_>) -> String {
        let EndTotals { messages, missed, refused, .. } = self.local;
        let over = match asked.phase.ping.map(|ping| ping.transport) {
            Some(Transport::Udp) => "UDP",
            _ => "TCP",
        };
        match (messages, missed) {
            (0, 1..) => format!(
                "none of the {missed} messages of the schedule was sent: the flow was opened too late"
            ),
            (0, 0) if refused > 0 => format!("no message was sent: the kernel refused {refused}"),
            (0, 0) => self
                .too_short(asked.phase)
                .unwrap_or_else(|| format!("no message was sent{}", self.explanation(asked))),
            _ => {
                format!("no message returned over {over}: {} sent{}", were(messages), self.explanation(asked))
            }
        }
    }

    /// Judges payload, each direction by itself.
    fn directions(&self, asked: JudgedPhase<'_>) -> Evidence {
        let Phase { kind, pattern, probe, .. } = *asked.phase;
        // ctsTraffic's streams have one direction, whatever the pattern.
        let streams = kind == Kind::Stream && probe.is_none();
        let sends = |way: &Way| if streams { *way == Way::Down } else { pattern.sends(*way) };
        let ways = [Way::Up, Way::Down].into_iter().filter(sends);
        let silent: Vec<Way> =
            ways.clone().filter(|way| !self.has_passed(*way, asked.needs_report)).collect();
        // A number of bytes that both directions share may be moved by one of them.
        let shared = matches!(pattern, Pattern::PushPull { .. }) || asked.phase.total_bytes.is_some();
        let too_late = silent.iter().find_map(|way| self.too_late(*way));
        match (silent.first(), too_late) {
            (None, _) => Evidence::All,
            (Some(_), Some(why)) => Evidence::Half(why),
            (Some(_), None) if silent.len() == ways.count() => {
                Evidence::Nothing(self.nothing_passed(asked, &silent))
            }
            _ if shared => Evidence::All,
            _ => Evidence::Half(self.nothing_passed(asked, &silent)),
        }
    }

    /// Payload that arrived after the time of the test, in a direction in which none did before.
    fn too_late(&self, way: Way) -> Option<String> {
        let (_, receiver) = self.ends(way);
        let place = if way == Way::Up { "at the server" } else { "from the server" };
        let bytes = format_bytes(receiver.in_all);
        (receiver.in_all > 0).then(|| {
            format!("no payload arrived {place} within the time of the test, and {bytes} after it: give a longer -t")
        })
    }

    /// Both ends in the order of a direction: the sender, the receiver.
    fn ends(&self, way: Way) -> (&EndTotals, &EndTotals) {
        match way {
            Way::Up => (&self.local, &self.remote),
            Way::Down => (&self.remote, &self.local),
        }
    }

    /// True if payload passed in a direction. Where the receiver has no count, the sender's stands
    /// in; a direction without either is not judged.
    fn has_passed(&self, way: Way, needs_report: bool) -> bool {
        let (sender, receiver) = self.ends(way);
        match (receiver.arrived, sender.sent) {
            (Known::Some, _) => true,
            (Known::Zero, _) | (_, Known::Zero) => false,
            (_, Known::Some) => !sender.is_refused() && !needs_report,
            (received, sent) => received.max(sent) == Known::Unknown,
        }
    }

    /// Why nothing passed, and what did.
    fn nothing_passed(&self, asked: JudgedPhase<'_>, silent: &[Way]) -> String {
        let (way, both) = (silent.first().copied().unwrap_or(Way::Up), silent.len() > 1);
        let (sender, receiver) = self.ends(way);
        let EndTotals { opened, refused, .. } = self.local;
        let datagrams = asked.phase.kind != Kind::Tcp || sender.datagrams > 0;
        let what = if datagrams { "datagram" } else { "payload" };
        let place = match way {
            _ if both => "",
            Way::Up => " at the server",
            Way::Down => " from the server",
        };
        let large = asked.phase.probe.is_none_or(|probe| probe.size > LARGE);
        // The agreement and the reports are small, and passed.
        let talked = self.accepted && self.remote.is_heard() && opened > 0;
        let small_passed =
            talked && sender.sent == Known::Some && large && (datagrams || sender.retransmits > 0);
        let advice = match small_passed {
            true => ": small packets pass, large ones may not: try `delay --path-mtu`".to_owned(),
            false => self.explanation(asked),
        };
        if datagrams {
            return match (sender.datagrams, sender.sent == Known::Some) {
                (0, false) if way == Way::Up && refused > 0 => {
                    format!("no datagram was sent: the kernel refused {refused}")
                }
                (0, false) if way == Way::Up => format!("no datagram was sent{advice}"),
                (sent, _) if sender.is_refused() && !receiver.is_heard() => {
                    format!(
                        "the peer's host refused {refused} of {sent} datagrams: does anything listen there?"
                    )
                }
                (0, _) => format!("no datagram arrived{place} over UDP{advice}"),
                (sent, _) => format!("no datagram arrived{place} over UDP: {} sent{advice}", were(sent)),
            };
        }
        if let Some(why) = self.too_short(asked.phase) {
            return why;
        }
        let but = match opened {
            0 => "no connection was established, and ".to_owned(),
            1 => "1 connection was established, but ".to_owned(),
            n => format!("{n} connections were established, but "),
        };
        match way {
            Way::Up if sender.sent < Known::Some => format!("{but}no {what} was sent{advice}"),
            Way::Up if !receiver.is_heard() => format!("{but}the server reported nothing{advice}"),
            _ => format!("{but}no {what} arrived{place}{advice}"),
        }
    }

    /// Why the connections failed; where none did, whether the peer speaks another protocol, unless
    /// something shows that it speaks this one.
    fn explanation(&self, asked: JudgedPhase<'_>) -> String {
        // Bytes that are no answers may be another protocol's.
        let arrived = self.local.arrived == Known::Some && asked.phase.kind != Kind::Ping;
        let heard = self.remote.is_heard() || arrived;
        match &self.local.cause {
            Some(cause) => format!(": {cause}"),
            None if self.accepted || heard || asked.protocol.is_empty() => String::new(),
            None => format!(": is the server's protocol {}?", asked.protocol),
        }
    }
}

#[cfg(test)]
mod tests;
