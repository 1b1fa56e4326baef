//! Ending of a phase: one rule for every question and every protocol.
//!
//! A session proposes an ending by its conversation; the counts of both ends decide. A phase that
//! asked for payload, or for answers, and of which no end counted any has failed, and a phase that
//! asked for both directions and got one is partial. A phase is partial, too, whose connections
//! broke or whose peer stopped answering before the planned end, and one that its server's time
//! limit ended before the bytes that were asked for had passed.
//!
//! Exceptions, each with a test:
//!
//! - `connect` measures connections: payload is not its work, failed ones are part of its result,
//!   and one without a connection has failed.
//! - A server with a conversation that reports its totals was there until the end: connections that
//!   broke are counted by both ends, and the phase is complete.
//! - Damaged data are a finding about a path that carried them to the end.
//! - Datagrams that must not be fragmented (`--df`, `--path-mtu`) measure which sizes pass: none is
//!   a result.
//! - A search fails with none of its steps: a rate at which nothing arrives is one above the
//!   capacity ([`Search`](crate::Search)).
//! - A peer that reports nothing (ttcp, discard, bwdelaytester) leaves the sender's count,
//!   unconfirmed; a sender that sent nothing, because the kernel refused or otherwise, has failed
//!   all the same, and so has one whose kernel knows that the peer acknowledged no payload.
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
use metrics::{format_bytes, format_count, format_duration, real};

/// A receiver's name for payload that differs from the sent one
/// ([`CauseCount::text`](metrics::CauseCount)).
pub const WRONG_DATA: &str = "wrong data";

/// Begin of a cause of connections that could not be established.
const CONNECTING: &str = "connecting:";

/// A receiver's name for a stream that its peer ended too early.
pub const TOO_FEW: &str = "too few bytes";

/// A sender's name for a stream that its peer ended without a word about what it had received.
pub const UNCONFIRMED: &str = "closed without confirmation";

/// A datagram with more payload than this, bytes, may be too large for a path that carries small
/// ones.
const LARGE: u32 = 512;

/// Most bytes of a connection that are a protocol's first words, or a SYN and a FIN.
const WORDS: u64 = 128;

/// Most datagrams that say that a flow is over (ttcp: 5).
const ENDS: u64 = 8;

/// Fewest messages without an answer that show that a peer is gone, and the largest chance that a
/// path which loses as many as before lost all of them.
const SILENT: u64 = 5;
const BY_CHANCE: f64 = 1e-6;

/// Advice where small packets passed.
const SMALL_PASSED: &str = ": small packets pass, large ones may not: try `delay --path-mtu`";

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
    /// Nothing counts connections, as in files of programs that do not.
    connections_unknown: bool,
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
///
/// Wide: a count for each question that the rules ask.
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
    /// Intervals with datagrams sent, and intervals with refused ones among these.
    sending_intervals: u64,
    refused_intervals: u64,
    /// Datagrams or messages of the first and of the last interval that sent any, and the refused
    /// ones among these.
    first: [u64; 2],
    last: [u64; 2],
    /// The refused ones of the interval before that.
    refused_before: u64,
    messages: u64,
    missed: u64,
    lost: u64,
    /// Messages sent before and since the last interval with an answer, the answers, and the end of
    /// that interval, ns.
    answered_until: u64,
    before: u64,
    since: u64,
    answers: u64,
    /// Frames of a stream that did not arrive whole, and whether any did.
    incomplete: u64,
    has_whole: bool,
    opened: u64,
    /// Connections that broke, by a reset, a time-out, a refusal or an early end, those among them
    /// that were never established, and whether payload passed behind the last failure.
    broken: u64,
    unconnected: u64,
    recovered: bool,
    retransmits: u64,
    /// Payload that was sent, and bytes that the kernel knows to be acknowledged, without
    /// the protocol's first words; `None` where it does not say.
    sent_bytes: u64,
    acked: Option<u64>,
    moved: u64,
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

    /// Takes in an interval's messages and answers, or frames that were due and that arrived, for
    /// the instant from which on none did.
    fn answers_until(&mut self, end_ns: u64, sent: u64, received: u64) {
        self.since = self.since.saturating_add(sent);
        self.answers = self.answers.saturating_add(received);
        if received > 0 {
            self.before = self.before.saturating_add(std::mem::take(&mut self.since));
            self.answered_until = end_ns;
        }
    }

    /// True if so many of the last messages went unanswered that no loss explains it.
    fn fell_silent(&self) -> bool {
        let missing = real(self.before.saturating_sub(self.answers) + 1) / real(self.before + 2);
        let chance = missing.powf(real(self.since));
        self.since >= SILENT && self.lost >= self.since && chance < BY_CHANCE
    }

    /// True if the end has any count of payload.
    fn is_heard(&self) -> bool {
        self.sent.max(self.arrived) > Known::Unknown
    }

    /// True if the peer's host refused (ICMP) as many datagrams as a sender can know of: within one
    /// host each second one, which finds the refusal of the one before; of another host one or a few
    /// a second (RFC 1812 §4.3.2.8), so that most intervals have one.
    fn is_refused(&self) -> bool {
        let lasts = self.sending_intervals > 1 && self.refused_intervals * 2 >= self.sending_intervals;
        // Within one host few refusals at first and many at last are of a program that ended.
        let (first, last) = (self.first, self.last);
        let was_there = first[1] * 4 < first[0] && last[1] * 2 >= last[0];
        self.refused > 0 && (self.refused >= self.datagrams / 2 || (lasts && !was_there))
    }

    /// Takes in the datagrams, or messages, that an interval sent, and the refused ones.
    fn sends(&mut self, sent: u64, refused: u64) {
        if sent + refused > 0 {
            if self.sending_intervals == 0 {
                self.first = [sent, refused];
            }
            self.refused_before = self.last[1];
            self.last = [sent, refused];
            self.sending_intervals += 1;
            self.refused_intervals += u64::from(refused > 0);
        }
    }

    /// True if TCP sent payload more than once and the peer acknowledged none: the packets that
    /// passed were small.
    fn is_unacknowledged(&self) -> bool {
        self.acked == Some(0) && self.retransmits > 0 && self.sent_bytes > u64::from(LARGE)
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
            self.lost = self.lost.saturating_add(u64::try_from(counts.lost).unwrap_or(0));
            self.missed = self.missed.saturating_add(counts.missed);
            self.refused = self.refused.saturating_add(counts.refused);
            self.answers(&counts);
        }
        if let Some(frames) = totals.frames {
            self.arrived.add(true, frames.completed.max(frames.repeated));
            self.incomplete = frames.judged().saturating_sub(frames.completed);
            self.lost = self.lost.saturating_add(self.incomplete);
            self.has_whole |= frames.completed.max(frames.repeated) > 0;
        }
        // Damaged payload has arrived, and counts nowhere.
        if totals.causes.iter().any(|cause| cause.text == WRONG_DATA) {
            self.arrived.add(true, 1);
        }
        self.opened = self.opened.saturating_add(totals.opened);
        self.retransmits = self.retransmits.saturating_add(totals.tcp.retransmits);
        let ended_early = totals.causes.iter().filter(|cause| [TOO_FEW, UNCONFIRMED].contains(&&*cause.text));
        let broken = ended_early.map(|cause| cause.count).fold(totals.network_errors, u64::saturating_add);
        self.broken = self.broken.saturating_add(broken).saturating_add(totals.protocol_errors);
        let connecting = totals.causes.iter().filter(|cause| cause.text.starts_with(CONNECTING));
        self.unconnected = connecting.map(|cause| cause.count).fold(self.unconnected, u64::saturating_add);
        let Traffic { tx_bytes, rx_bytes, .. } = totals.traffic;
        self.sent_bytes = self.sent_bytes.saturating_add(tx_bytes);
        self.moved = self.moved.saturating_add(tx_bytes).saturating_add(rx_bytes);
        if let Some(acked) = totals.tcp.bytes_acked {
            let words = totals.tcp.connections.saturating_mul(WORDS);
            self.acked = Some(self.acked.unwrap_or(0).saturating_add(acked.saturating_sub(words)));
        }
        self.in_all =
            totals.remotes.values().fold(self.in_all, |sum, peer| sum.saturating_add(peer.rx_bytes));
        if totals.errors() > 0 && self.cause.is_none() {
            self.cause = totals.causes.first().map(|cause| cause.first.clone());
        }
    }
}

fn asks_nothing(phase: &Phase) -> bool {
    phase.total_bytes == Some(0)
        || phase.iterations == Some(0)
        || phase.ping.is_some_and(|ping| ping.messages == Some(0))
}

/// True if the question is which sizes pass.
fn measures_sizes(phase: &Phase) -> bool {
    phase.kind != Kind::Ping && phase.sockets.dont_fragment == Some(true)
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

    /// The account of a file that has no count of connections.
    #[must_use]
    pub fn without_connections(self) -> Self {
        Account { connections_unknown: true, ..self }
    }

    /// Takes in one event of the phase.
    pub fn absorb(&mut self, event: &Event) {
        match event {
            Event::Session(_) => self.accepted = true,
            Event::Interval(interval) => self.interval(interval),
            Event::Corrected(interval) => self.of_server(interval),
            Event::Local(totals) => self.local.totals(totals),
            Event::Remote(totals) => self.remote.totals(totals),
            _ => {}
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.local.traffic(&interval.local, interval.unknown);
        self.local.packets(interval.packets.as_deref());
        let is_broken = interval.network_errors + interval.data_errors > 0;
        if is_broken || interval.local.tx_bytes + interval.local.rx_bytes > 0 {
            self.local.recovered = !is_broken;
        }
        if let Some(packets) = interval.packets.as_deref() {
            self.local.sends(packets.counts.sent, packets.counts.refused);
        }
        if let Some(pings) = &interval.pings {
            self.local.answers(&pings.counts);
            self.local.sends(pings.counts.sent, pings.counts.refused);
            self.local.answers_until(interval.end_ns, pings.counts.sent, pings.counts.received);
        }
        if let Some(frames) = &interval.frames {
            self.local.answers_until(interval.end_ns, frames.judged(), frames.completed.max(frames.repeated));
        }
        self.of_server(interval);
    }

    fn of_server(&mut self, interval: &Interval) {
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
            (Status::Complete, Evidence::All) => match self.cut_short(asked.phase) {
                Some(why) => (Status::Partial, Some(why)),
                None => (status, reason),
            },
            (Status::Partial, Evidence::Nothing(why)) => (Status::Failed, reason.or(Some(why))),
            _ => (status, reason),
        }
    }

    /// Why a phase in which something passed did not last until its planned end, or did not do all
    /// that was asked for.
    fn cut_short(&self, phase: &Phase) -> Option<String> {
        if phase.kind == Kind::Connect || measures_sizes(phase) || asks_nothing(phase) {
            return None;
        }
        let EndTotals { broken, moved, last, .. } = self.local;
        let is_reported = self.remote.is_heard();
        // A server that began to listen later than its client.
        let was_late = broken == self.local.unconnected && self.local.recovered;
        if broken > 0 && !was_late && !(self.accepted && is_reported) {
            let cause = self.local.cause.as_deref().unwrap_or("the reason is unknown");
            return Some(format!("{} failed: {cause}", format_count(broken, "connection")));
        }
        // A server with a conversation is judged by that.
        let is_alone = !self.accepted && !is_reported;
        // A receiver that is content goes at the first of several ends, and the others are refused.
        let is_missing = match phase.kind {
            Kind::Ping => self.local.lost > 0,
            _ => last[1] > ENDS || self.local.refused_before > 0,
        };
        if is_alone && last[1] > 0 && is_missing {
            let refused = self.local.refused;
            return Some(format!(
                "the peer's host refused {refused} datagrams until the end: nothing listens there any more"
            ));
        }
        if is_alone && self.local.fell_silent() {
            let since = format_duration(self.local.answered_until);
            let n = were(self.local.since);
            return Some(match phase.kind {
                Kind::Stream => format!("no frame arrived after {since}: {n} due since"),
                _ => format!("no message returned after {since}: {n} sent since"),
            });
        }
        let in_all = moved.max(self.remote.moved);
        let total = phase.total_bytes.filter(|total| in_all < *total)?;
        let is_open = phase.kind == Kind::Tcp && phase.duration_ns.is_none() && phase.omit_ns == 0;
        (is_open && self.accepted && self.local.cause.is_none()).then(|| {
            let [moved, total] = [in_all, total].map(format_bytes);
            format!("{moved} of {total} passed: the server ended the session at its time limit")
        })
    }

    fn shown(&self, asked: JudgedPhase<'_>) -> Evidence {
        let phase = asked.phase;
        let sizes = measures_sizes(phase);
        if asks_nothing(phase) {
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
            // The agreement is small, and passed.
            _ if over == "UDP" && self.accepted && asked.phase.ping.is_some_and(|ping| ping.size > LARGE) => {
                format!("no message returned over UDP: {} sent{SMALL_PASSED}", were(messages))
            }
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
        if let Some(why) = ways.clone().find_map(|way| self.without_frames(way)) {
            return Evidence::Nothing(why);
        }
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

    /// Why a stream of which no frame arrived whole has failed: parts of frames are no use. The last
    /// part of a frame is short, and passes a path that drops large packets.
    fn without_frames(&self, way: Way) -> Option<String> {
        let (_, receiver) = self.ends(way);
        let place = if way == Way::Up { "at the server" } else { "from the server" };
        // Where nothing at all arrived, the rules of datagrams have the reason.
        let parts = receiver.arrived == Known::Some && receiver.incomplete > 0 && !receiver.has_whole;
        parts.then(|| format!("none of {} frames arrived whole {place}{SMALL_PASSED}", receiver.incomplete))
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
            (_, Known::Some) => !sender.is_refused() && !sender.is_unacknowledged() && !needs_report,
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
            true => SMALL_PASSED.to_owned(),
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
            0 if self.connections_unknown => String::new(),
            0 => "no connection was established, and ".to_owned(),
            1 => "1 connection was established, but ".to_owned(),
            n => format!("{n} connections were established, but "),
        };
        match way {
            _ if sender.is_unacknowledged() && !receiver.is_heard() => {
                format!("{but}no byte was acknowledged{SMALL_PASSED}")
            }
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
