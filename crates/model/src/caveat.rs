//! The caveats of an outcome.

mod figure;
mod host;
mod packets;
mod ping;
mod running;
mod setting;
mod stream;

use crate::{Begin, HostSnapshot, Point, RoundTrips, Status, Totals};
use serde::{Deserialize, Serialize};

pub use running::{Meanwhile, caveats_so_far};

/// How grave a caveat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaveatLevel {
    /// The figure must not be used: it is not that of what was asked.
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
            CaveatLevel::Invalid => "invalid",
            CaveatLevel::Caution => "caution",
            CaveatLevel::Note => "note",
        }
    }
}

/// A reason not to take a figure at face value, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    /// A stable name for scripts, in kebab case.
    pub code: String,
    /// How grave it is.
    pub level: CaveatLevel,
    /// One sentence: what was seen and what it means for the figure.
    pub text: String,
    /// One sentence: what to do.
    pub advice: String,
}

impl Caveat {
    fn new(code: &str, text: String, advice: &str) -> Self {
        Caveat { code: code.to_owned(), level: level(code), text, advice: advice.to_owned() }
    }
}

/// The level of each caveat, and why: *it* is the figure that the caveat is about.
const LEVELS: &[(&str, CaveatLevel, &str)] = &[
    ("unconfirmed", CaveatLevel::Invalid, "no receiver's count stands behind it"),
    ("unfinished-connections", CaveatLevel::Caution, "the outcome of some connections is not known"),
    ("verification-off", CaveatLevel::Note, "what the receiver checked is a setting"),
    ("closed-loop", CaveatLevel::Caution, "stalls count once, however many messages they would have delayed"),
    (
        "late-or-lost",
        CaveatLevel::Invalid,
        "a percentile that is shown is that of messages that were late or never came",
    ),
    ("missed-slots", CaveatLevel::Caution, "messages that were not sent are in no distribution"),
    ("late-sends", CaveatLevel::Caution, "traffic was burstier than asked for"),
    (
        "own-share",
        CaveatLevel::Caution,
        "most of it is this host's, and small differences are its scheduling",
    ),
    ("server-turnaround", CaveatLevel::Caution, "the server's application adds what the figure leaves out"),
    ("few-messages", CaveatLevel::Note, "percentiles with too few values beyond them are left out"),
    ("stream-limit", CaveatLevel::Caution, "an end was the limit, and it reads as the path's"),
    ("not-sent", CaveatLevel::Caution, "the path was offered less than was asked for"),
    ("sender-throttled", CaveatLevel::Caution, "datagrams left when there was room, not when due"),
    (
        "queue-drops",
        CaveatLevel::Caution,
        "loss of a host may count as the path's: its counters are of all traffic",
    ),
    (
        "receive-buffer-overflow",
        CaveatLevel::Invalid,
        "loss in the receiver's own buffer counts as the path's",
    ),
    (
        "clock-offset",
        CaveatLevel::Caution,
        "the bound of the clocks is as large as the delays: only differences hold",
    ),
    ("clock-stepped", CaveatLevel::Invalid, "delays around the jump are wrong by as much"),
    ("clock-wander", CaveatLevel::Caution, "the bound of the clocks grew in the run"),
    ("card-stamps", CaveatLevel::Caution, "stamps of another source than asked for are in the delays"),
    ("train-spacing", CaveatLevel::Invalid, "rates are those of another spacing than asked for"),
    ("train-not-stretched", CaveatLevel::Caution, "it is the sender's rate, and it reads as the path's"),
    ("loopback", CaveatLevel::Note, "where both ends ran is a condition"),
    ("cpu-bound", CaveatLevel::Caution, "the hosts may have been the limit, and it reads as the path's"),
    ("host-busy", CaveatLevel::Caution, "the wait for a CPU is in it"),
    ("cpu-steal", CaveatLevel::Caution, "the wait for the hypervisor is in it"),
    ("listen-drops", CaveatLevel::Caution, "connect times include the client's retries"),
    (
        "softnet-drops",
        CaveatLevel::Caution,
        "loss of a host may count as the path's: its counter is of all traffic",
    ),
    ("late-pacing", CaveatLevel::Caution, "traffic was burstier than asked for"),
    ("ephemeral-ports", CaveatLevel::Caution, "failures of this host read as the server's"),
    ("file-descriptors", CaveatLevel::Caution, "failures of a limit read as the other end's"),
    ("other-sessions", CaveatLevel::Caution, "others had a part of the server, and perhaps of the path"),
    ("server-reduced", CaveatLevel::Note, "the settings in effect stand in the result"),
    (
        "socket-buffer-shortfall",
        CaveatLevel::Note,
        "the buffers in effect stand in the result; where they limit, window-limited says so",
    ),
    ("socket-option-differs", CaveatLevel::Note, "the options in effect stand in the result"),
    ("window-limited", CaveatLevel::Caution, "a window was the limit, and it reads as the path's"),
    ("congestion-control", CaveatLevel::Note, "the algorithm in effect is a condition"),
    ("placement", CaveatLevel::Note, "which cores the ends ran on is a condition"),
    ("too-short", CaveatLevel::Caution, "too few intervals to show how much it varies"),
    ("slow-start", CaveatLevel::Caution, "the mean includes the start"),
    ("rate-missed", CaveatLevel::Caution, "the schedule was not kept: it is that of hosts or path"),
    ("unstable", CaveatLevel::Caution, "the mean hides how much it varied"),
    ("few-connections", CaveatLevel::Note, "how many connections it is of is a condition"),
];

/// The code and the level of each caveat.
pub fn caveat_levels() -> impl Iterator<Item = (&'static str, CaveatLevel)> {
    LEVELS.iter().map(|(code, level, _)| (*code, *level))
}

fn level(code: &str) -> CaveatLevel {
    caveat_levels().find(|(known, _)| *known == code).map_or(CaveatLevel::Caution, |(_, level)| level)
}

/// A check: `None` when the caveat does not apply or the data does not suffice.
type Check = fn(&Case<'_>) -> Option<Caveat>;

/// Reasons in the causes of failures, which hold when nothing was measured, too.
const CAUSES: &[Check] = &[host::ephemeral_ports, host::file_descriptors];

/// The caveats that are looked for, the gravest of each level first. A new one is a function and a line here.
const CHECKS: &[Check] = &[
    figure::unconfirmed,
    figure::unfinished,
    figure::verification_off,
    ping::coordinated_omission,
    ping::late_or_lost,
    ping::missed_slots,
    ping::late_sends,
    ping::mostly_this_host,
    ping::server_turnaround,
    ping::few_messages,
    stream::first_limit,
    packets::not_sent,
    packets::throttled,
    packets::queue_drops,
    packets::own_buffer,
    packets::clocks,
    packets::clock_stepped,
    packets::clock_wander,
    packets::card_stamps,
    packets::late_sends,
    packets::train_spacing,
    packets::train_not_stretched,
    host::loopback,
    host::cpu_bound,
    host::host_busy,
    host::steal,
    host::listen_drops,
    host::softnet_drops,
    host::late_pacing,
    setting::other_sessions,
    setting::server_reduced,
    setting::buffer_shortfall,
    setting::option_differs,
    setting::window_limited,
    setting::congestion_control,
    host::placement,
    figure::too_short,
    figure::slow_start,
    figure::rate_missed,
    figure::unstable,
    figure::few_connections,
];

/// The caveats of `point`, a phase of the run that `begin` started; the gravest first.
pub fn caveats_about(point: &Point, begin: &Begin) -> Vec<Caveat> {
    caveats_against(point, None, begin)
}

/// The same of round trips under load, with those of the `idle` stage that they are compared to.
pub(crate) fn caveats_against(point: &Point, idle: Option<&RoundTrips>, begin: &Begin) -> Vec<Caveat> {
    if crate::mtu::is_step(point) {
        // That something does not come is what it is about.
        return Vec::new();
    }
    let case = Case { point, idle, begin };
    let nothing = point.status == Status::Failed && point.local.opened == 0;
    let checks = CAUSES.iter().chain(CHECKS.iter().filter(|_| !nothing));
    let mut found: Vec<Caveat> = checks.filter_map(|check| check(&case)).collect();
    found.sort_by_key(|caveat| caveat.level);
    found
}

/// What a check looks at.
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
    /// Whether a server recorded this: it hears nothing from its clients and has no plan of its own.
    fn serving(&self) -> bool {
        self.begin.verb == "serve"
    }

    /// The protocol, unless it is our own, in which both ends tell each other what they counted.
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
        let remote = self
            .point
            .sessions
            .iter()
            .map(|s| (format!("server {}", s.address), &s.host, s.placement.as_str(), s.workers));
        std::iter::once(local).chain(remote)
    }

    /// What `of` says about the ends it applies to, joined into one clause; `None` when it applies to none.
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
mod table;
#[cfg(test)]
mod tests;
