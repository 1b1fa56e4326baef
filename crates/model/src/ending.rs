//! Ending of a phase: one rule for every question and every protocol.
//!
//! A session proposes an ending by its conversation; the counts of both ends decide. A phase that
//! asked for payload, or for answers, and of which no end counted any has failed, and a phase that
//! asked for both directions and got one is partial. A phase is partial, too, whose connections
//! broke or whose peer stopped answering before the planned end, one that its server's time limit
//! ended before the bytes that were asked for had passed, and one that was over within its omitted
//! start.
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

mod counts;
mod reasons;

use crate::{Counts, Event, Interval, Kind, Pattern, Phase, Point, Status, Way};
use counts::{EndTotals, Known};
use metrics::{format_bytes, format_count, format_duration};
use reasons::were;

/// A receiver's name for payload that differs from the sent one
/// ([`CauseCount::text`](metrics::CauseCount)).
pub const WRONG_DATA: &str = "wrong data";

/// A receiver's name for a stream that its peer ended too early.
pub const TOO_FEW: &str = "too few bytes";

/// A sender's name for a stream that its peer ended without a word about what it had received.
pub const UNCONFIRMED: &str = "closed without confirmation";

/// A datagram with more payload than this, bytes, may be too large for a path that carries small
/// ones.
const LARGE: u32 = 512;

/// Most datagrams that say that a flow is over (ttcp: 5).
const ENDS: u64 = 8;

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

fn asks_nothing(phase: &Phase) -> bool {
    phase.total_bytes == Some(0)
        || phase.iterations == Some(0)
        || phase.ping.is_some_and(|ping| ping.messages == Some(0))
}

/// True if the question is which sizes pass.
fn measures_sizes(phase: &Phase) -> bool {
    phase.kind != Kind::Ping && phase.sockets.dont_fragment == Some(true)
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
            self.local.answers_until(interval, pings.counts.sent, pings.counts.received);
        }
        if let Some(frames) = &interval.frames {
            self.local.answers_until(interval, frames.judged(), frames.completed.max(frames.repeated));
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
        let has_end = phase.total_bytes.is_some() || phase.iterations.is_some();
        if has_end && phase.omit_ns > 0 && moved.max(self.remote.moved) == 0 {
            let start = format_duration(metrics::real(phase.omit_ns));
            return Some(format!(
                "the run was over within its omitted start of {start}: nothing was measured"
            ));
        }
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
            if self.local.few > 0 {
                let (few, all) = (self.local.few, self.local.few.saturating_add(self.local.since));
                return Some(match phase.kind {
                    Kind::Stream => format!("of {all} frames that were due after {since}, {few} arrived"),
                    _ => format!("of {all} messages that were sent after {since}, {few} returned"),
                });
            }
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
}

#[cfg(test)]
mod tests;
