//! Detects a path that died in mid-run: on one way datagrams were sent to the end, and from some
//! instant on none arrived.
//!
//! Heavy loss ends, too, in a row of lost datagrams. A row is taken for the end of the path when
//! that many would be lost by chance once in 500 million runs, at the share that arrived until
//! then, and when it lasted a second.

use super::Client;
use metrics::{Mono, SECOND, Tally};
use model::{Interval, Kind, Level, PacketReport, Status, Totals};
use std::collections::VecDeque;
use std::time::Duration;
use transport::Violation;

/// Natural logarithm of the chance that is no chance any more: e^-20 is one in 485 million.
const NO_CHANCE: f64 = -20.0;
/// The largest share of arrivals that is believed: of fewer than a thousand datagrams none need
/// have been lost.
const SURE: f64 = 0.999;
/// The shortest silence that is taken for a dead path, ns.
const LONG: u64 = SECOND;

#[derive(Debug, Default)]
struct Way {
    /// Datagrams sent, by interval, from the interval of the last arrival on.
    sent: VecDeque<(u32, u64)>,
    /// Datagrams sent in earlier intervals.
    before: u64,
    arrived: u64,
    /// Interval and instant of the last arrival, ns from the start.
    last: Option<(u32, u64)>,
    /// When the last interval ended in which any was sent, ns from the start.
    until: u64,
}

impl Way {
    /// `n` were sent in an interval that ended at `end_ns`.
    fn sent(&mut self, index: u32, n: u64, end_ns: u64) {
        if n > 0 {
            self.until = self.until.max(end_ns);
        }
        // A server that reports an interval again and again must not fill the memory.
        match self.sent.iter_mut().rev().find(|(at, _)| *at == index) {
            Some((_, sum)) => *sum = sum.saturating_add(n),
            None => self.sent.push_back((index, n)),
        }
        self.settle();
    }

    /// `n` arrived in an interval, the last of them at `last_ns`.
    fn arrived(&mut self, index: u32, n: u64, last_ns: u64) {
        if n > 0 {
            self.arrived = self.arrived.saturating_add(n);
            self.last = self.last.max(Some((index, last_ns)));
            self.settle();
        }
    }

    fn settle(&mut self) {
        let Some((last, _)) = self.last else { return };
        while let Some((_, n)) = self.sent.pop_front_if(|(index, _)| *index < last) {
            self.before = self.before.saturating_add(n);
        }
    }

    /// When the last datagram arrived, ns from the start, if the later ones were not lost by
    /// chance.
    ///
    /// Of intervals from `unknown` on no report on arrivals has been heard.
    fn died(&self, unknown: u32) -> Option<u64> {
        let (index, last_ns) = self.last?;
        let sum = |sum: u64, &(_, n): &(u32, u64)| sum.saturating_add(n);
        let until_then = self.sent.iter().filter(|(at, _)| *at <= index).fold(0, sum);
        let later = self.sent.iter().filter(|(at, _)| *at > index && *at < unknown).fold(0, sum);
        let share = self.arrived as f64 / self.before.saturating_add(until_then).max(1) as f64;
        let chance = later as f64 * (1.0 - share.min(SURE)).ln();
        (chance < NO_CHANCE && self.until >= last_ns.saturating_add(LONG)).then_some(last_ns)
    }
}

/// Datagrams of a phase, both ways.
#[derive(Debug, Default)]
pub(super) struct Silence {
    up: Way,
    down: Way,
    /// When the last datagram arrived at this end, and at a server, words about others among them,
    /// ns from the start.
    heard: [u64; 2],
    /// Intervals on which a server has reported, up to the latest.
    reported: u32,
    /// Flows that the end of the run found unopened.
    pub(super) unopened: u32,
}

/// An instant of the run, for messages.
fn instant(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / SECOND as f64)
}

impl Silence {
    /// Adds this end's counts of an interval.
    pub(super) fn local(&mut self, interval: &Interval, from: Mono, tally: &Tally) {
        let Some(packets) = tally.packets.as_deref() else { return };
        let (index, counts) = (interval.index, &packets.counts);
        let last_ns = interval.start_ns.saturating_add(packets.came.since(from));
        if packets.came > from {
            self.heard[0] = self.heard[0].max(last_ns);
        }
        if interval.pings.is_some() {
            // The echoes of this end's messages return here: sent and received are of one way.
            self.down.sent(index, counts.sent, interval.end_ns);
        } else {
            self.up.sent(index, counts.sent, interval.end_ns);
        }
        self.down.arrived(index, counts.received.saturating_add(counts.late), last_ns);
    }

    /// Adds a server's counts of an interval of `ns` that began at `start_ns`.
    pub(super) fn remote(
        &mut self,
        index: u32,
        start_ns: u64,
        ns: u64,
        came_ns: Option<u64>,
        packets: &PacketReport,
    ) {
        let end_ns = start_ns.saturating_add(ns);
        let last_ns = start_ns.saturating_add(came_ns.unwrap_or(0));
        if came_ns.is_some_and(|ns| ns > 0) {
            self.heard[1] = self.heard[1].max(last_ns);
        }
        self.reported = self.reported.max(index.saturating_add(1));
        self.down.sent(index, packets.counts.sent, end_ns);
        self.up.arrived(index, packets.counts.received, last_ns);
    }

    /// A sentence on the ways that died, and when. `stalled` says if this end, and if a server,
    /// gave up a flow because nothing arrived: words about the other way are missing on a way
    /// without data.
    fn explanation(&self, kind: Kind, stalled: [bool; 2]) -> Option<String> {
        let until = self.up.until.max(self.down.until);
        // Of several flows one may have died.
        let heard_nothing = |end: usize| {
            let last_ns = self.heard[end];
            (stalled[end] && last_ns.saturating_add(LONG) <= until).then_some(last_ns)
        };
        let (up, down) = match (self.up.died(self.reported), self.down.died(u32::MAX)) {
            (None, None) => (heard_nothing(1), heard_nothing(0)),
            died => died,
        };
        let (what, at) = match (up, down) {
            (None, None) => {
                let why = "a flow of datagrams was given up because an end heard nothing more of it, although TCP works \
                           and others went on";
                return (stalled != [false, false]).then(|| why.to_owned());
            }
            (None, Some(at)) if kind == Kind::Ping => ("came back", at),
            (Some(at), None) => ("arrived at the server", at),
            (None, Some(at)) => ("arrived from the server", at),
            (Some(up), Some(down)) => ("arrived", up.max(down)),
        };
        Some(format!("nothing {what} over UDP after {} although TCP works", instant(at)))
    }
}

impl Client {
    /// True for this end, and for a server, if it gave up a flow of datagrams because nothing
    /// arrived.
    pub(super) fn stalled(&self) -> [bool; 2] {
        let stall = Violation::Stalled(Duration::ZERO);
        let gave_up =
            |totals: &Totals| totals.causes.iter().any(|cause| cause.text.starts_with(stall.name()));
        let local = self.local.as_deref().is_some_and(gave_up);
        let remote = self.servers.iter().filter_map(|server| server.totals.as_deref()).any(gave_up);
        if self.plan.phase.probe.is_some() { [local, remote] } else { [false, false] }
    }

    /// All totals are reported, and `stalled` names the ends that gave a flow up: the path may have
    /// died in mid-run.
    pub(super) fn notice_silence(&mut self, stalled: [bool; 2]) {
        let unopened = self.silence.unopened;
        if unopened > 0 && self.driver.account.is_nothing_sent() {
            let why = "no flow of datagrams could be opened in the time of the run: nearly all datagrams were lost, although TCP works";
            return self.driver.fails(Status::Failed, why);
        }
        if unopened > 0 && self.driver.status != Status::Interrupted {
            let text = format!(
                "{unopened} flow(s) of datagrams could not be opened in the time of the run: the first datagrams were lost"
            );
            self.driver.notice(Level::Warning, text);
        }
        if let Some(why) = self.silence.explanation(self.plan.phase.kind, stalled) {
            self.driver.fails(Status::Partial, why.clone());
            self.driver.notice(Level::Error, why);
        }
    }

    /// An instant of the run, for messages.
    pub(super) fn after(&self, at: Mono) -> String {
        format!("after {}", instant(at.since(self.started)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way on which `rate` datagrams are sent in each of `seconds`, and `arrive` says how many of
    /// them arrive in each.
    fn way(rate: u64, seconds: u32, arrive: impl Fn(u32) -> (u64, u64)) -> Way {
        let mut way = Way::default();
        for index in 0..seconds {
            let begin = u64::from(index) * SECOND;
            way.sent(index, rate, begin + SECOND);
            let (n, last_ms) = arrive(index);
            way.arrived(index, n, begin + last_ms * 1_000_000);
        }
        way
    }

    #[test]
    fn outage_is_reported_with_its_time() {
        let at = |second: u32| match second {
            0..3 => (100, 999),
            3 => (20, 200),
            _ => (0, 0),
        };
        assert_eq!(way(100, 10, at).died(u32::MAX), Some(3_200_000_000));
        // One datagram in ten had arrived until then: 0.9^100 is 1 in 38,000, 0.9^200 1 in 1.4
        // billion.
        let tenth = |second: u32| if second < 3 { (10, 900) } else { (0, 0) };
        assert_eq!(way(100, 4, tenth).died(u32::MAX), None);
        assert_eq!(way(100, 5, tenth).died(u32::MAX), Some(2_900_000_000));
    }

    #[test]
    fn a_way_that_carries_words_alone_dies_with_the_last_of_them() {
        // Data arrives up to the end, at 12 s; this end gave up because the last word came at 3.5
        // s.
        let (up, heard) = (way(100, 12, |_| (100, 999)), [3_500_000_000, 12_000_000_000]);
        let silence = Silence { up, heard, reported: 12, ..Silence::default() };
        let told = |stalled| silence.explanation(Kind::Delay, stalled).unwrap_or_default();
        assert!(
            told([true, false]).starts_with("nothing arrived from the server over UDP after 3.5 s"),
            "{}",
            told([true, false])
        );
        assert_eq!(told([false, false]), "");
        // One flow of several: the server hears others.
        assert!(told([false, true]).contains("and others went on"), "{}", told([false, true]));
    }

    #[test]
    fn loss_and_pauses_are_no_death() {
        assert_eq!(way(100, 10, |_| (100, 999)).died(u32::MAX), None);
        assert_eq!(way(100, 10, |_| (1, 500)).died(u32::MAX), None);
        assert_eq!(
            way(100, 10, |_| (0, 0)).died(u32::MAX),
            None,
            "nothing ever arrived: that is told before the run"
        );
        assert_eq!(way(100, 10, |second| if second == 5 { (0, 0) } else { (100, 999) }).died(u32::MAX), None);
        // A message a second: after two none is missed for certain.
        let one = |second: u32| if second < 3 { (1, 0) } else { (0, 0) };
        assert_eq!(way(1, 5, one).died(u32::MAX), None);
        // What is on its way when sending ends.
        let mut late = way(100, 3, |second| (100 * u64::from(second.min(1)), 900));
        assert_eq!(late.died(u32::MAX), None);
        late.arrived(3, 100, 3_500_000_000);
        assert_eq!(late.died(u32::MAX), None);
    }

    #[test]
    fn an_interval_that_is_told_again_takes_no_more_memory() {
        let mut way = Way::default();
        for n in 0..1_000 {
            way.sent(n % 2, u64::MAX / 2, SECOND);
        }
        assert_eq!(way.sent, [(0, u64::MAX), (1, u64::MAX)]);
        way.arrived(0, u64::MAX, 0);
        assert_eq!(way.died(u32::MAX), Some(0), "nor do such counts overflow");
    }

    #[test]
    fn ends_report_in_any_order() {
        let mut way = Way::default();
        for index in 0..10 {
            way.arrived(index, if index < 4 { 100 } else { 0 }, u64::from(index) * SECOND + 900_000_000);
        }
        for index in 0..10 {
            way.sent(index, 100, u64::from(index + 1) * SECOND);
        }
        assert_eq!(
            (way.died(u32::MAX), way.sent.len()),
            (Some(3_900_000_000), 7),
            "what is settled is not kept"
        );
    }
}
