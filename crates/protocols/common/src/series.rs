//! Data series that a protocol makes of outcomes.

/// A data series: rows behind a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of its file, without folder.
    pub file: &'static str,
    /// Text above its columns.
    pub title: &'static str,
    /// Titles of the columns.
    pub columns: Vec<&'static str>,
    /// Rows; an unknown value is empty.
    pub rows: Vec<Vec<String>>,
}
