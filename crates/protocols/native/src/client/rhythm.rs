//! The rhythm in which intervals are reported, whatever keeps the servers' reports.
//!
//! An interval waits for the reports of the servers, which take half a round trip, and in a full
//! queue much longer. Late ones must not bunch the lines, nor hold all of them up: the lag behind
//! the clock grows and shrinks by less than half an interval at a time, as the play-out buffer of a
//! telephone does.

use metrics::{Mono, SECOND};
use model::{Kind, Phase};

/// Longest lag, ns.
const LONGEST_LAG: u64 = 3 * SECOND / 2;
/// The same where no line shows figures of servers, ns.
const LAG_OF_MESSAGES: u64 = SECOND / 5;

/// Gap between two lines that is no break of the rhythm, however short the intervals, ns.
const LEAST_GAP: u64 = 7 * SECOND / 10;
/// Time between two lines at the end of a run, ns; a fifth of shorter intervals.
const LAST_GAP: u64 = SECOND / 5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rhythm {
    interval_ns: u64,
    longest_lag: u64,
    /// Time of the latest report.
    last: Option<Mono>,
    /// No further report will arrive.
    is_last: bool,
}

impl Rhythm {
    pub(super) fn new(phase: &Phase) -> Self {
        let longest_lag = if phase.kind == Kind::Ping { LAG_OF_MESSAGES } else { LONGEST_LAG };
        Rhythm { interval_ns: phase.interval_ns, longest_lag, last: None, is_last: false }
    }

    /// Earliest and latest time of the line on an interval that ended at `end`: 60 % to 140 % of an
    /// interval after the line before it, so that the rhythm adapts to late reports of servers by
    /// less than half an interval at a time. The first line has no line before it.
    fn window(&self, end: Mono) -> (Mono, Mono) {
        let part = |percent: u64| self.interval_ns / 100 * percent;
        if self.is_last {
            let at = self.last.map_or(end, |last| last.plus(part(20).min(LAST_GAP))).max(end);
            return (at, at);
        }
        let latest = self.last.map_or(end.plus(self.longest_lag), |last| last.plus(part(140).max(LEAST_GAP)));
        let earliest = self.last.map_or(end, |last| last.plus(part(60)).max(end));
        let latest = latest.max(end).min(end.plus(self.longest_lag));
        (earliest.min(latest), latest)
    }

    /// Time of the report on an interval that ended at `end`: `is_whole` if all servers have
    /// reported on it.
    pub(super) fn due(&self, end: Mono, is_whole: bool) -> Mono {
        let (earliest, latest) = self.window(end);
        if is_whole { earliest } else { latest }
    }

    /// All reports of servers have arrived: the remaining intervals follow closely.
    pub(super) fn finish(&mut self) {
        self.is_last = true;
    }

    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// An interval is reported.
    pub(super) fn advance(&mut self, now: Mono) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When intervals of a second are reported on which the reports arrive at these times after
    /// their ends; `None` never.
    fn reported(lags_ms: &[Option<u64>]) -> Vec<u64> {
        let mut rhythm = Rhythm::new(&Phase { interval_ns: SECOND, ..Phase::default() });
        let mut all = Vec::new();
        for (end, lag) in (1..).zip(lags_ms) {
            let end = Mono(end * SECOND);
            let whole = lag.map(|ms| end.plus(ms * 1_000_000));
            let by_then = rhythm.due(end, false);
            let at = whole.map_or(by_then, |whole| by_then.min(whole.max(rhythm.due(end, true))));
            rhythm.advance(at);
            all.push(at.0 / 1_000_000);
        }
        all
    }

    #[test]
    fn reports_in_time_delay_nothing_and_late_ones_keep_the_rhythm() {
        assert_eq!(reported(&[Some(5); 3]), [1_005, 2_005, 3_005]);
        // A queue fills until reports take a second: the lag follows.
        let full = [Some(5), Some(600), Some(1_000), Some(1_000), Some(1_000)];
        assert_eq!(reported(&full), [1_005, 2_405, 3_805, 5_000, 6_000]);
        assert_eq!(reported(&[None; 4]), [2_500, 3_500, 4_500, 5_500]);
        // Three of them arrive together.
        let bunch = [Some(5), Some(1_900), Some(900), Some(5), Some(5), Some(5)];
        let at = reported(&bunch);
        assert!(at.windows(2).all(|pair| (500..=1_400).contains(&(pair[1] - pair[0]))), "{at:?}");
    }
}
