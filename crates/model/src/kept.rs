//! Runs that were kept, and their figures.

use crate::Status;
use metrics::Wall;
use serde::Serialize;
use uuid::Uuid;

/// A kept run, without its detailed results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptRun {
    /// Its number in the store; never given twice.
    pub id: i64,
    /// Its identifier on both ends.
    pub run: Uuid,
    /// When it began.
    pub started: Wall,
    /// The question.
    pub verb: String,
    /// The protocol.
    pub protocol: String,
    /// Targets, separated by spaces.
    pub targets: String,
    /// Its status at the end.
    pub status: Status,
    /// File that it was imported from; empty for a run of this program.
    pub source: String,
    /// Its figures.
    pub figures: Vec<KeptFigure>,
}

/// A figure of a kept run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptFigure {
    /// The sweep's setting, `rate=1000000`; empty without one.
    pub setting: String,
    /// Which repetition, from 1.
    pub repeat: u32,
    /// The figure's [key](crate::Figure::key).
    #[serde(rename = "figure")]
    pub name: String,
    /// Name of its [`Unit`](crate::Unit).
    pub unit: String,
    /// The value in that unit.
    pub value: f64,
}
