//! The caveats of an outcome.

mod figure;
mod host;
mod packets;
mod ping;
mod running;
mod setting;
mod short;
mod stream;

use crate::{Begin, HostSnapshot, Point, RoundTrips, Status, Totals};
use CaveatLevel::{Caution, Invalid, Note};
use serde::{Deserialize, Serialize};

pub use running::{Meanwhile, caveats_so_far};
pub use short::LONGEST_SHORT;

/// Gravity of a caveat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CaveatLevel {
    /// The figure must not be used: it does not answer the question.
    Invalid,
    /// The figure may mislead: it may be off, or not the path's.
    Caution,
    /// A condition under which the figure was taken.
    Note,
}

impl CaveatLevel {
    /// `invalid`, `caution` or `note`.
    pub fn name(self) -> &'static str {
        match self {
            Invalid => "invalid",
            Caution => "caution",
            Note => "note",
        }
    }
}

/// A reason not to take a figure at face value, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caveat {
    /// A stable name for scripts, in kebab case.
    pub code: String,
    /// Its gravity.
    pub level: CaveatLevel,
    /// One sentence: the observation and its meaning for the figure.
    pub text: String,
    /// One sentence: what to do.
    pub advice: String,
}

/// The text and the advice of a caveat.
type Reason = (String, &'static str);

/// `None` when the caveat does not apply or the data does not suffice.
type Find = fn(&Case<'_>) -> Option<Reason>;

/// A caveat that is looked for.
struct Check {
    level: CaveatLevel,
    code: &'static str,
    find: Find,
    /// True if records of servers are checked, too: a server hears nothing from its clients, which
    /// chose for themselves.
    of_servers: bool,
}

/// A caveat of what clients and servers record.
const fn of_all(level: CaveatLevel, code: &'static str, find: Find) -> Check {
    Check { level, code, find, of_servers: true }
}

/// A caveat of what clients record.
const fn of_clients(level: CaveatLevel, code: &'static str, find: Find) -> Check {
    Check { level, code, find, of_servers: false }
}

impl Check {
    fn raise(&self, case: &Case<'_>) -> Option<Caveat> {
        let looked_at = Some(case).filter(|case| self.of_servers || !case.serving());
        let (text, advice) = looked_at.and_then(self.find)?;
        Some(Caveat { code: self.code.to_owned(), level: self.level, text, advice: advice.to_owned() })
    }
}

/// Reasons in the causes of failures, which hold when nothing was measured, too. Why each caveat
/// has its level stands above it, here and below; *it* is the figure that the caveat is about.
const CAUSES: &[Check] = &[
    // Failures of this host read as the server's.
    of_all(Caution, "ephemeral-ports", host::ephemeral_ports),
    // Failures of a limit read as the other end's.
    of_all(Caution, "file-descriptors", host::file_descriptors),
];

/// The caveats that are looked for, the gravest of each level first. A new one is a function and a
/// line here.
const CHECKS: &[Check] = &[
    // No receiver's count stands behind it.
    of_clients(Invalid, "unconfirmed", figure::unconfirmed),
    // The figure is of other servers than the named ones.
    of_clients(Invalid, SERVER_NOT_MEASURED, figure::server_not_measured),
    // The outcome of some connections is not known.
    of_all(Caution, "unfinished-connections", figure::unfinished),
    // The receiver's check is a setting.
    of_clients(Note, "verification-off", figure::verification_off),
    // Stalls count once, however many messages they would have delayed.
    of_clients(Caution, "closed-loop", ping::coordinated_omission),
    // A shown percentile falls among messages that were late or lost.
    of_clients(Invalid, "late-or-lost", ping::late_or_lost),
    // Messages that were not sent are in no distribution.
    of_clients(Caution, "missed-slots", ping::missed_slots),
    // Traffic was burstier than asked for.
    of_clients(Caution, "late-sends", ping::late_sends),
    // Most of it is this host's, and small differences are its scheduling.
    of_clients(Caution, "own-share", ping::mostly_this_host),
    // The server's application adds the time that the figure leaves out.
    of_clients(Caution, "server-turnaround", ping::server_turnaround),
    // Percentiles with too few values beyond them are left out.
    of_clients(Note, "few-messages", ping::few_messages),
    // An end was the limit, and it reads as the path's.
    of_all(Caution, "stream-limit", stream::first_limit),
    // The path was offered less than was asked for.
    of_all(Caution, "not-sent", packets::not_sent),
    // Datagrams left when there was room, not when due.
    of_all(Caution, "sender-throttled", packets::throttled),
    // Loss of a host may count as the path's: its counters are of all traffic.
    of_all(Caution, "queue-drops", packets::queue_drops),
    // Loss in the receiver's own buffer counts as the path's.
    of_all(Invalid, "receive-buffer-overflow", packets::own_buffer),
    // Loss of damaged datagrams is no loss in a queue.
    of_all(Caution, "damaged-on-the-way", packets::damaged),
    // The path treats the class that was asked for as another.
    of_all(Caution, "dscp-changed", packets::class_changed),
    // The path's congestion marks are not all there.
    of_all(Caution, "ecn-changed", packets::ecn_changed),
    // Losses are of one part of the datagrams.
    of_all(Caution, "ecn-loss", packets::ecn_loss),
    // The bound of the clocks is as large as the delays: only differences hold.
    of_all(Caution, "clock-offset", packets::clocks),
    // Delays around the jump are wrong by as much.
    of_all(Invalid, "clock-stepped", packets::clock_stepped),
    // The bound of the clocks grew in the run.
    of_all(Caution, "clock-wander", packets::clock_wander),
    // Stamps of another source than asked for are in the delays.
    of_all(Caution, "card-stamps", packets::card_stamps),
    // Traffic was burstier than asked for.
    of_all(Caution, "late-sends", packets::late_sends),
    // The rates are of another spacing than the requested one.
    of_all(Invalid, "train-spacing", packets::train_spacing),
    // The figure is the sender's rate, and reads as the path's.
    of_all(Caution, "train-not-stretched", packets::train_not_stretched),
    // The place of both ends is a condition.
    of_all(Note, "loopback", host::loopback),
    // The test offered no more, and the limit reads as the path's.
    of_clients(Caution, "search-limit", figure::search_limit),
    // The hosts may have been the limit, and it reads as the path's.
    of_all(Caution, "cpu-bound", host::cpu_bound),
    // A limit of the host's own was the limit, and it reads as the path's.
    of_all(Caution, "own-allowance", host::own_allowance),
    // The wait for a CPU is in it.
    of_all(Caution, "host-busy", host::host_busy),
    // The wait for the hypervisor is in it.
    of_all(Caution, "cpu-steal", host::steal),
    // Connect times include the client's retries.
    of_all(Caution, "listen-drops", host::listen_drops),
    // Loss of a host may count as the path's: its counter is of all traffic.
    of_all(Caution, "softnet-drops", host::softnet_drops),
    // Traffic was burstier than asked for.
    of_all(Caution, "late-pacing", host::late_pacing),
    // Others had a part of the server, and perhaps of the path.
    of_all(Caution, "other-sessions", setting::other_sessions),
    // The settings in effect stand in the result.
    of_all(Note, "server-reduced", setting::server_reduced),
    // The buffers in effect stand in the result; where they limit, window-limited says so.
    of_clients(Note, "socket-buffer-shortfall", setting::buffer_shortfall),
    // The options in effect stand in the result.
    of_clients(Note, "socket-option-differs", setting::option_differs),
    // A window was the limit, and it reads as the path's.
    of_all(Caution, "window-limited", setting::window_limited),
    // The algorithm in effect is a condition.
    of_all(Note, "congestion-control", setting::congestion_control),
    // Which cores the ends ran on is a condition.
    of_all(Note, "placement", host::placement),
    // Too few intervals to show how much it varies.
    of_clients(Caution, "too-short", figure::too_short),
    // The mean includes the start.
    of_clients(Caution, "slow-start", figure::slow_start),
    // The schedule was not kept: it is that of hosts or path.
    of_clients(Caution, "rate-missed", figure::rate_missed),
    // The path carried the program's own messages beside the measured traffic.
    of_clients(Caution, "own-traffic", figure::own_traffic),
    // The mean hides how much it varied.
    of_clients(Caution, "unstable", figure::unstable),
    // The number of connections is a condition.
    of_clients(Note, "few-connections", figure::few_connections),
];

/// The caveat of a server that was named and has nothing of the run: no condition on a figure of
/// the run holds.
pub(crate) const SERVER_NOT_MEASURED: &str = "server-not-measured";

/// The code and the level of each caveat.
pub fn caveat_levels() -> impl Iterator<Item = (&'static str, CaveatLevel)> {
    CAUSES.iter().chain(CHECKS).map(|check| (check.code, check.level))
}

/// The caveats of `point`, a phase of the run that `begin` started; the gravest first.
pub fn caveats_about(point: &Point, begin: &Begin) -> Vec<Caveat> {
    caveats_against(point, None, begin)
}

/// The same of round trips under load, with the round trips of the `idle` stage for comparison.
pub(crate) fn caveats_against(point: &Point, idle: Option<&RoundTrips>, begin: &Begin) -> Vec<Caveat> {
    if crate::mtu::is_step(point) {
        // Lost packets are the subject of the search.
        return Vec::new();
    }
    let case = Case { point, idle, begin };
    let nothing = point.status == Status::Failed && point.local.opened == 0;
    let checks = CAUSES.iter().chain(CHECKS.iter().filter(|_| !nothing));
    let mut found: Vec<Caveat> = checks.filter_map(|check| check.raise(&case)).collect();
    found.sort_by_key(|caveat| caveat.level);
    found
}

/// Input of a check.
struct Case<'a> {
    point: &'a Point,
    /// Of a stage of `load`: the round trips of the idle one.
    idle: Option<&'a RoundTrips>,
    begin: &'a Begin,
}

/// One end, as named to the reader.
struct End<'a> {
    name: String,
    totals: &'a Totals,
}

impl<'a> Case<'a> {
    /// True if a server recorded this: it hears nothing from its clients and has no plan of its
    /// own.
    fn serving(&self) -> bool {
        self.begin.verb == "serve"
    }

    /// The protocol, unless it is our own, in which both ends exchange their counts.
    fn legacy(&self) -> Option<&'a str> {
        Some(self.begin.protocol.as_str()).filter(|name| !matches!(*name, "" | "native"))
    }

    /// Both ends' totals, ours first.
    fn ends(&self) -> impl Iterator<Item = End<'a>> {
        let local = End { name: "this host".to_owned(), totals: &self.point.local };
        let remote = self.point.remote.iter().map(|t| End { name: format!("server {}", t.who), totals: t });
        std::iter::once(local).chain(remote)
    }

    /// Ends that sent payload.
    fn senders(&self) -> impl Iterator<Item = End<'a>> {
        self.ends().filter(|end| end.totals.traffic.tx_bytes > 0)
    }

    /// Both ends' hosts with their placement and number of workers, ours first.
    fn hosts(&self) -> impl Iterator<Item = (String, &'a HostSnapshot, &'a str, u32)> {
        let begin = self.begin;
        let local = ("this host".to_owned(), &begin.host, begin.placement.as_str(), begin.workers);
        let sessions = self.point.sessions.iter();
        let remote =
            sessions.map(|s| (format!("server {}", s.address), &s.host, s.placement.as_str(), s.workers));
        std::iter::once(local).chain(remote)
    }

    /// The clauses of `of` about the ends, joined into one; `None` without any.
    fn each_end(&self, of: impl Fn(&End<'a>) -> Option<String>) -> Option<String> {
        join(self.ends().filter_map(|end| of(&end)))
    }
}

/// The clauses separated by semicolons; `None` when there are none.
fn join(clauses: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = clauses.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A share as `43 %`.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
pub(crate) mod table;
#[cfg(test)]
mod tests;
