//! The search for the highest rate: at each report of a receiver a row of the table is chosen.
//!
//! ```text
//!            good                            neither   bad
//!  fast      up by D rows (B), doubled (C)   stay      down by 1; at the S-th report down by 3 D
//!  slow      up by 1                         stay      down by 1
//! ```
//!
//! A search is fast below the row of 1 Gbit/s, until it has had S bad reports since the last fast
//! step. Algorithm B never returns from slow to fast; C does after some steps ("multiply and
//! retry").

use super::table::{HIGH_SPEED, LAST};
pub use model::{Algorithm, SearchSettings};

/// A receiver's report on one trial interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrialReport {
    /// Missing datagrams.
    pub lost: u32,
    /// Datagrams that a later one had overtaken.
    pub reordered: u32,
    /// Repeated datagrams.
    pub duplicated: u32,
    /// Mean variation of the one-way delay above its minimum, ms; `None` without a datagram.
    pub one_way_ms: Option<u32>,
    /// The last round trip above the shortest, ms; `None` without one.
    pub round_trip_ms: Option<u32>,
    /// Received datagrams.
    pub received: u32,
    /// Of these, with a congestion mark.
    pub marked: u32,
}

/// Meaning of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The path may carry more.
    Good,
    /// No change.
    Hold,
    /// The path is congested.
    Bad,
}

impl TrialReport {
    /// Its meaning. A report without a delay is neither good nor bad by its delay.
    pub fn verdict(&self, settings: &SearchSettings) -> Verdict {
        let others = if settings.loss_only { 0 } else { self.reordered.saturating_add(self.duplicated) };
        let errors = self.lost.saturating_add(others);
        let delay = if settings.one_way { self.one_way_ms } else { self.round_trip_ms };
        let delay = delay.unwrap_or(settings.low_ms);
        let congested = self.is_congested(settings.ce_share);
        if errors > settings.sequence_errors || delay > settings.upper_ms || congested {
            Verdict::Bad
        } else if delay < settings.low_ms {
            Verdict::Good
        } else {
            Verdict::Hold
        }
    }

    /// True if more datagrams had a congestion mark than the share allows, 1/255. With a share of 1
    /// any mark counts.
    fn is_congested(&self, share: u8) -> bool {
        let marked = u64::from(share.saturating_sub(1)) * u64::from(self.received);
        // Rounded to the nearest.
        let allowed = (marked * 2 + 255) / 510;
        share > 0 && self.marked > 0 && u64::from(self.marked) > allowed
    }
}

/// A search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSearch {
    settings: SearchSettings,
    row: u16,
    /// The highest row that it may choose.
    last: u16,
    /// Bad reports since the last fast step.
    bad: u32,
    /// Of algorithm C: the next fast step doubles the row.
    doubles: bool,
    /// Slow steps since the last retry, and those after which it retries.
    retries: u32,
    retry_at: u32,
}

/// Slow steps before the first retry of algorithm C, and the additional ones before each next.
const RETRY: u32 = 5;

impl RateSearch {
    /// A search that begins with this row and never goes above `last`.
    pub fn new(settings: SearchSettings, start: u16, last: u16) -> Self {
        let last = last.min(LAST);
        RateSearch {
            settings,
            row: start.min(last),
            last,
            bad: 0,
            doubles: false,
            retries: 0,
            retry_at: RETRY,
        }
    }

    /// The present row.
    pub fn row(&self) -> u16 {
        self.row
    }

    /// The row for the time after this report.
    pub fn advance(&mut self, report: &TrialReport) -> u16 {
        match report.verdict(&self.settings) {
            Verdict::Good => self.rise(),
            Verdict::Hold => {}
            Verdict::Bad => self.fall(),
        }
        self.row = self.row.min(self.last);
        self.row
    }

    fn is_fast(&self) -> bool {
        self.row < HIGH_SPEED && self.bad < self.settings.bad_reports
    }

    fn rise(&mut self) {
        if self.is_fast() {
            self.bad = 0;
            match self.settings.algorithm {
                Algorithm::B => {
                    self.row = self.row.saturating_add(self.settings.fast_rows).min(HIGH_SPEED);
                }
                Algorithm::C => self.double(),
            }
        } else if self.row < LAST {
            self.row += 1;
            if self.settings.algorithm == Algorithm::C {
                self.retries += 1;
                if self.retries >= self.retry_at {
                    (self.bad, self.retries) = (0, 0);
                    self.retry_at = self.retry_at.saturating_add(RETRY);
                }
            }
        }
    }

    /// Doubles the row at every second fast step.
    fn double(&mut self) {
        if self.row > HIGH_SPEED / 2 {
            self.row = HIGH_SPEED;
            return;
        }
        self.row = self.row.max(1);
        if self.doubles {
            self.row *= 2;
        }
        self.doubles = !self.doubles;
    }

    fn fall(&mut self) {
        self.bad = self.bad.saturating_add(1);
        if self.row < HIGH_SPEED && self.bad == self.settings.bad_reports {
            let big = self.settings.fast_rows.saturating_mul(3);
            self.row = self.row.saturating_sub(big);
        } else if self.row > 0 {
            self.row -= 1;
            if self.settings.algorithm == Algorithm::C {
                self.retries += 1;
                if self.retries >= self.retry_at {
                    (self.bad, self.retries) = (0, 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lost: u32, delay: Option<u32>) -> TrialReport {
        TrialReport { lost, round_trip_ms: delay, received: 100, ..TrialReport::default() }
    }

    const GOOD: Option<u32> = Some(0);

    fn judge(settings: &SearchSettings, report: &TrialReport) -> Verdict {
        report.verdict(settings)
    }

    #[test]
    fn a_report_is_judged_by_losses_delay_and_marks() {
        let rfc = SearchSettings::default();
        assert_eq!(judge(&rfc, &report(10, GOOD)), Verdict::Good);
        assert_eq!(judge(&rfc, &report(11, GOOD)), Verdict::Bad);
        assert_eq!(judge(&rfc, &report(0, Some(29))), Verdict::Good);
        assert_eq!(judge(&rfc, &report(0, Some(30))), Verdict::Hold);
        assert_eq!(judge(&rfc, &report(0, Some(90))), Verdict::Hold);
        assert_eq!(judge(&rfc, &report(0, Some(91))), Verdict::Bad);
        assert_eq!(judge(&rfc, &report(0, None)), Verdict::Hold);
        let late = TrialReport { one_way_ms: Some(99), ..report(0, GOOD) };
        assert_eq!(judge(&rfc, &late), Verdict::Good);
        assert_eq!(judge(&SearchSettings { one_way: true, ..rfc }, &late), Verdict::Bad);
        let twice = TrialReport { duplicated: 6, reordered: 5, ..report(0, GOOD) };
        assert_eq!(judge(&rfc, &twice), Verdict::Good);
        assert_eq!(judge(&SearchSettings { loss_only: false, ..rfc }, &twice), Verdict::Bad);
        let marked = |ce_share, marked| {
            let report = TrialReport { marked, ..report(0, GOOD) };
            judge(&SearchSettings { ce_share, ..rfc }, &report)
        };
        assert_eq!(
            (marked(0, 100), marked(1, 1), marked(1, 0)),
            (Verdict::Good, Verdict::Bad, Verdict::Good)
        );
        // 127/255 of 100 datagrams: 50.
        assert_eq!((marked(128, 50), marked(128, 51)), (Verdict::Good, Verdict::Bad));
    }

    #[test]
    fn b_reaches_one_gigabit_in_a_hundred_reports_and_goes_on_by_one() {
        let mut search = RateSearch::new(SearchSettings::default(), 0, LAST);
        for n in 1..=100 {
            assert_eq!(search.advance(&report(0, GOOD)), n * 10);
        }
        assert_eq!(search.advance(&report(0, GOOD)), 1_001);
        assert_eq!(search.advance(&report(0, Some(100))), 1_000);
    }

    #[test]
    fn b_is_slow_for_ever_after_three_bad_reports() {
        let mut search = RateSearch::new(SearchSettings::default(), 100, LAST);
        let rows = [11, 11, 0, 11, 11, 11, 0, 0, 11].map(|lost| search.advance(&report(lost, GOOD)));
        assert_eq!(rows, [99, 98, 108, 107, 106, 76, 77, 78, 77]);
        let mut low = RateSearch::new(SearchSettings { bad_reports: 1, ..Default::default() }, 30, LAST);
        assert_eq!(low.advance(&report(11, GOOD)), 0, "never below the first row");
    }

    #[test]
    fn c_doubles_at_every_second_report_and_tries_again() {
        let settings = SearchSettings { algorithm: Algorithm::C, ..SearchSettings::default() };
        let mut search = RateSearch::new(settings, 0, LAST);
        let rows: Vec<u16> = (0..21).map(|_| search.advance(&report(0, GOOD))).collect();
        assert_eq!(rows[..7], [1, 2, 2, 4, 4, 8, 8]);
        assert_eq!(rows[17..], [512, 1_000, 1_001, 1_002]);
        let mut search = RateSearch::new(settings, 100, LAST);
        (0..3).for_each(|_| {
            search.advance(&report(11, GOOD));
        });
        assert_eq!((search.row(), search.is_fast()), (68, false));
        (0..5).for_each(|_| {
            search.advance(&report(0, GOOD));
        });
        assert!(search.is_fast());
    }

    #[test]
    fn a_limit_is_not_passed() {
        let mut search = RateSearch::new(SearchSettings::default(), 2_000, 25);
        assert_eq!(search.row(), 25);
        assert_eq!(search.advance(&report(0, GOOD)), 25);
    }
}
