//! Rate control of capacity measurements (RFC 9097 §8.1, TR-471, Y.1540 Annex B): a table of
//! sending rates, and the search for the highest one that a path carries.

mod search;
mod table;

pub use search::{Algorithm, RateSearch, SearchSettings, TrialReport, Verdict};
pub use table::{BURST, HIGH_SPEED, LAST, RateTable, Row, Size, Transmitter};
