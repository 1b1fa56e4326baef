//! Parameters of a test, as both ends know them.

use super::{Algorithm, SearchSettings};
use model::CapacitySettings;

/// Modifier: the row is only the first one of a search.
pub const START_ROW: u8 = 1;
/// Modifier: the filler is random.
pub const RANDOM_FILLER: u8 = 2;
/// Row of a search from the beginning.
pub const AUTOMATIC: u16 = u16::MAX;

/// Parameters of a test, with the defaults of RFC 9946.
///
/// Wide: the fields of one PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Thresholds of the delay variation, ms.
    pub low_ms: u16,
    /// The upper one.
    pub upper_ms: u16,
    /// Time from one Status PDU to the next, ms.
    pub trial_ms: u16,
    /// Length of the test, s.
    pub test_s: u16,
    /// Traffic class octet of the test's packets, both ways.
    pub traffic_class: u8,
    /// The only row, or the first one; [`AUTOMATIC`] for a search from row 0.
    pub row: u16,
    /// Variation of the one-way delay decides.
    pub one_way: bool,
    /// Rows of a fast step.
    pub fast_rows: u8,
    /// Bad reports until the search is slow.
    pub bad_reports: u16,
    /// Sequence errors of a good report at most.
    pub sequence_errors: u16,
    /// Only losses are sequence errors.
    pub loss_only: bool,
    /// [`START_ROW`] and [`RANDOM_FILLER`].
    pub modifiers: u8,
    /// 0 is algorithm B, 1 is C.
    pub algorithm: u8,
    /// Share of datagrams with a congestion mark that makes a report bad, 1/255; 0 is none.
    pub ce_share: u8,
    /// Length of a sub-interval, ms.
    pub sub_interval_ms: u16,
    /// Sub-intervals at the start whose rate is not adjusted.
    pub suppressed: u16,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            low_ms: 30,
            upper_ms: 90,
            trial_ms: 50,
            test_s: 10,
            traffic_class: 0,
            row: AUTOMATIC,
            one_way: false,
            fast_rows: 10,
            bad_reports: 3,
            sequence_errors: 10,
            loss_only: true,
            modifiers: 0,
            algorithm: 0,
            ce_share: 0,
            sub_interval_ms: 1_000,
            suppressed: 0,
        }
    }
}

impl Parameters {
    /// The parameters of a test with these settings, of this length, whose packets have this traffic
    /// class octet; with `random` their filler is random.
    pub fn of(settings: &CapacitySettings, test_s: u16, traffic_class: u8, random: bool) -> Self {
        let search = &settings.search;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let small = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        let start = settings.start && settings.row.is_some();
        Parameters {
            low_ms: small(search.low_ms),
            upper_ms: small(search.upper_ms),
            trial_ms: settings.trial_ms,
            test_s,
            traffic_class,
            row: settings.row.unwrap_or(AUTOMATIC),
            one_way: search.one_way,
            fast_rows: u8::try_from(search.fast_rows).unwrap_or(u8::MAX),
            bad_reports: small(search.bad_reports),
            sequence_errors: small(search.sequence_errors),
            loss_only: search.loss_only,
            modifiers: bit(start, START_ROW) | bit(random, RANDOM_FILLER),
            algorithm: u8::from(search.algorithm == Algorithm::C),
            ce_share: search.ce_share,
            sub_interval_ms: settings.sub_interval_ms,
            suppressed: settings.suppressed,
        }
    }

    /// The settings of the search with these parameters.
    pub fn search(&self) -> SearchSettings {
        SearchSettings {
            algorithm: if self.algorithm == 1 { Algorithm::C } else { Algorithm::B },
            low_ms: self.low_ms.into(),
            upper_ms: self.upper_ms.into(),
            sequence_errors: self.sequence_errors.into(),
            loss_only: self.loss_only,
            one_way: self.one_way,
            fast_rows: self.fast_rows.into(),
            bad_reports: self.bad_reports.into(),
            ce_share: self.ce_share,
        }
    }

    /// The parameters in a server's answer, within their ranges: a test is no longer than
    /// the client asked for.
    pub fn bounded(self, asked: &Parameters) -> Parameters {
        Parameters {
            trial_ms: self.trial_ms.clamp(5, 250),
            test_s: self.test_s.clamp(1, asked.test_s.max(1)),
            sub_interval_ms: self.sub_interval_ms.clamp(100, 10_000),
            ..self
        }
    }

    /// The only row of the test; `None` where it searches.
    pub fn fixed_row(&self) -> Option<u16> {
        (self.row != AUTOMATIC && self.modifiers & START_ROW == 0).then_some(self.row)
    }

    /// The first row of the test.
    pub fn first_row(&self) -> u16 {
        match (self.row, self.fixed_row(), self.suppressed) {
            (AUTOMATIC, _, _) => 0,
            // A fixed rate begins behind the sub-intervals without adjustment.
            (_, Some(_), 1..) => 0,
            (row, _, _) => row,
        }
    }
}
