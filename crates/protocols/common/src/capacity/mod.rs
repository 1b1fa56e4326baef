//! Capacity tests (RFC 9097 §8.1, TR-471, Y.1540 Annex B): load and reports between two ends that
//! have agreed on a test, whatever protocol agreed.
//!
//! - `table`: the sending rates; `search`: the highest one that a path carries.
//! - `flow`: a connection of a test at either end, of `load` (sends) or `meter` (receives); `proof`:
//!   of an address.
//! - `pdu`: load and reports on the wire; `parameters`: the agreement.
//! - `report`, `result`: an end's reports to its own run, and the result.

pub mod fields;
mod flow;
mod load;
mod meter;
mod parameters;
mod pdu;
mod proof;
mod report;
mod result;
mod search;
mod table;

pub use flow::{Connection, Side, TestFlow};
pub use parameters::{AUTOMATIC, Parameters, RANDOM_FILLER, START_ROW};
pub use pdu::{LOAD, LONG_STATUS, Load, Moment, SHORT_STATUS, Spread, Status, SubInterval, Trial, VERSION};
pub use proof::Proof;
pub use report::{Activated, EndReport, News, Report, SubIntervalReport, Warning};
pub use result::{Asked, Counted, Fold, Layer, Pass, Reports, Variation};
pub use search::{Algorithm, RateSearch, SearchSettings, TrialReport, Verdict};
pub use table::{BURST, HIGH_SPEED, LAST, RateTable, Row, Size, Transmitter};
