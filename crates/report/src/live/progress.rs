//! How far a run has come.

use super::track::Track;
use metrics::{SECOND, format_bytes, real};
use model::{Kind, Phase};

/// Plan of a run, known before it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Measurements one after the other; `None` when that depends on what they find.
    pub phases: Option<u32>,
    /// Their length all together, ns; `None` when it is not known.
    pub total_ns: Option<u64>,
}

impl Planned {
    /// That of phases one after the other.
    pub fn of<'a>(phases: impl IntoIterator<Item = &'a Phase>) -> Planned {
        let none = Planned { phases: Some(0), total_ns: Some(0) };
        phases.into_iter().fold(none, |sum, phase| Planned {
            phases: sum.phases.map(|n| n + 1),
            total_ns: sum.total_ns.zip(length(phase)).map(|(sum, more)| sum.saturating_add(more)),
        })
    }
}

/// How long a phase takes, ns: by the clock, or by a schedule that has an end; `None` when that depends on the path.
fn length(phase: &Phase) -> Option<u64> {
    let ping = phase.ping.as_ref();
    let messages = ping.and_then(|ping| Some(ping.messages?.saturating_add(ping.warmup)));
    let scheduled =
        messages.zip(ping.and_then(|ping| ping.schedule.gap_ns())).map(|(n, gap)| n.saturating_mul(gap));
    match (phase.ends_after(), scheduled) {
        (Some(clock), Some(schedule)) => Some(clock.min(schedule)),
        (clock, schedule) => clock.or(schedule),
    }
}

/// How far a phase has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Progress {
    /// Which part of it is done, 0..=1; `None` when it has no end of its own.
    pub(super) share: Option<f64>,
    /// In words: `00:12 of 00:30`.
    pub(super) text: String,
}

/// How far `track` has come at `now_ns`.
pub(super) fn of(track: &Track, now_ns: u64) -> Progress {
    let elapsed = track.elapsed_ns(now_ns);
    let phase = &track.phase;
    let share = |done: u64, all: u64| (real(done) / real(all.max(1))).clamp(0.0, 1.0);
    let clock = clock(elapsed);
    if let Some(all) = length(phase) {
        let text = format!("{} of {}", self::clock(elapsed.min(all)), self::clock(all));
        return Progress { share: Some(share(elapsed, all)), text };
    }
    let moved = track.sums.tx_bytes + track.sums.rx_bytes;
    let connections = u64::from(phase.connections);
    let messages = phase.ping.as_ref().and_then(|ping| ping.messages).map(|n| n.saturating_mul(connections));
    let lives = phase.iterations.map(|n| n.saturating_mul(connections));
    let (done, all, text) = if let Some(all) = phase.total_bytes {
        (moved, all, format!("{} of {}, {clock}", format_bytes(moved), format_bytes(all)))
    } else if let Some(all) = messages {
        (track.sums.messages, all, format!("{} of {all} messages, {clock}", track.sums.messages))
    } else if let Some(all) = lives.filter(|_| phase.kind != Kind::Ping) {
        (track.completed(), all, format!("{} of {all} connections, {clock}", track.completed()))
    } else {
        return Progress { share: None, text: clock };
    };
    Progress { share: Some(share(done, all)), text }
}

/// A time as clocks show it: `01:23`, `2:01:23`, `3 d 02:01:23`.
pub(super) fn clock(ns: u64) -> String {
    let s = ns / SECOND;
    let (d, h, m, s) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match (d, h) {
        (0, 0) => format!("{m:02}:{s:02}"),
        (0, h) => format!("{h}:{m:02}:{s:02}"),
        (d, h) => format!("{d} d {h:02}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Ping, Schedule};

    #[test]
    fn times_as_clocks_show_them() {
        let shown = [0, 59, 60, 3599, 3600, 86_399, 86_400 * 3 + 7].map(|s| clock(s * SECOND + 999_999_999));
        assert_eq!(shown, ["00:00", "00:59", "01:00", "59:59", "1:00:00", "23:59:59", "3 d 00:00:07"]);
    }

    #[test]
    fn the_length_of_a_plan() {
        let ten = Phase { duration_ns: Some(10 * SECOND), ..Phase::default() };
        let planned = |phases: &[Phase]| Planned::of(phases);
        assert_eq!(planned(&[]), Planned { phases: Some(0), total_ns: Some(0) });
        let twice = planned(&[ten.clone(), ten.clone()]);
        assert_eq!(twice, Planned { phases: Some(2), total_ns: Some(20 * SECOND) });
        let bytes = Phase { duration_ns: None, total_bytes: Some(7), ..Phase::default() };
        assert_eq!(planned(&[ten, bytes]), Planned { phases: Some(2), total_ns: None });
        // 500 messages, one each 100 ms, are 50 s; the clock may cut them short.
        let ping = Ping {
            messages: Some(500),
            schedule: Schedule::Fixed { gap_ns: SECOND / 10 },
            ..Ping::default()
        };
        let counted = Phase { kind: Kind::Ping, ping: Some(ping), duration_ns: None, ..Phase::default() };
        assert_eq!(planned(std::slice::from_ref(&counted)).total_ns, Some(50 * SECOND));
        let cut = Phase { duration_ns: Some(10 * SECOND), ..counted };
        assert_eq!(planned(&[cut]).total_ns, Some(10 * SECOND));
    }
}
