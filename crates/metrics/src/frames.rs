//! Frames of a media stream.

use serde::{Deserialize, Serialize};

/// Frames as the receiver of a media stream judged them when they were due to be shown
/// (ctsTraffic's renderer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Frames {
    /// Frames of which all bytes had arrived.
    pub completed: u64,
    /// Frames of which bytes were missing.
    pub dropped: u64,
    /// Frames of which more bytes had arrived than they have.
    pub repeated: u64,
    /// Datagrams of no frame that was waited for: too late, too early, or beyond the last.
    pub errors: u64,
}

impl Frames {
    /// Number of judged frames.
    pub fn judged(&self) -> u64 {
        self.completed + self.dropped + self.repeated
    }

    /// Adds others.
    pub fn add(&mut self, more: Frames) {
        self.completed += more.completed;
        self.dropped += more.dropped;
        self.repeated += more.repeated;
        self.errors += more.errors;
    }
}
